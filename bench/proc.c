/* Starting and stopping processes with and without wardens. Called as "proc tree N", the program is
 * the target of a stop: a tree of N processes that writes a byte when it is complete. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/proc.h>

#include "report.h"

#define ROUNDS       REPORT_ROUNDS
#define STARTS       100 /* per round */
#define HOLDS        200
#define BALLAST      ((size_t)1 << 30)
#define TREE_LIFE_S  60
#define PROGRAM_TRUE "/bin/true"

/* ---- target of the stop ---- */

static int be_tree(long count)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        return 1;
    for (long i = 1; i < count; i++) {
        if (fork() == 0) {
            alarm(TREE_LIFE_S);
            if (write(ready[1], "r", 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
    }
    alarm(TREE_LIFE_S);
    for (long i = 1; i < count; i++) {
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    }
    if (write(STDOUT_FILENO, "r", 1) != 1)
        return 1;
    for (;;)
        pause();
}

/* ---- starts ---- */

static double spawned_us(void)
{
    char path[] = PROGRAM_TRUE;
    double start_ns = report_wall_ns();
    for (int i = 0; i < STARTS; i++) {
        pid_t child;
        int status;
        if (posix_spawn(&child, path, NULL, NULL, (char *const[]){path, NULL}, environ) != 0)
            report_die("cannot start " PROGRAM_TRUE);
        if (waitpid(child, &status, 0) != child || status != 0)
            report_die(PROGRAM_TRUE " failed");
    }
    return (report_wall_ns() - start_ns) / STARTS / 1e3;
}

static double held_us(void)
{
    const struct bl_warden_options options = {
        .arguments = (const char *const[]){PROGRAM_TRUE, NULL},
        .input = -1,
        .output = -1,
        .error = -1,
        .container = BL_MECHANISM_SUBREAPER,
    };
    double start_ns = report_wall_ns();
    for (int i = 0; i < STARTS; i++) {
        struct bl_warden *warden;
        struct bl_warden_end end;
        struct bl_error error = {0};
        if (bl_warden_start(&options, &warden, &error) != 0)
            report_die(error.message);
        if (bl_warden_wait(warden, &end) != 0 || end.how != BL_END_EXITED || end.status != 0)
            report_die(PROGRAM_TRUE " failed under a warden");
        bl_warden_free(warden);
    }
    return (report_wall_ns() - start_ns) / STARTS / 1e3;
}

static void bench_starts(void)
{
    double ours[ROUNDS], theirs[ROUNDS], heavy[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        ours[round] = held_us();
        theirs[round] = spawned_us();
        char *ballast =
            mmap(NULL, BALLAST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (ballast == MAP_FAILED)
            report_die("no memory for the ballast");
        memset(ballast, 1, BALLAST);
        heavy[round] = held_us();
        munmap(ballast, BALLAST);
    }
    double ours_us = report_median(ours, ROUNDS);
    report_line("start and end of /bin/true under a warden, subreaper", ours_us, "us",
                "posix_spawn and waitpid", report_median(theirs, ROUNDS));
    report_line("the same from a parent with 1 GiB touched", report_median(heavy, ROUNDS), "us",
                "from a small one", ours_us);
}

/* ---- from stop to proof ---- */

/* Starts a tree, stops it without a grace period, and waits for the proof. */
static double stop_ms(enum bl_mechanism container, const char *count)
{
    struct bl_warden_options options = {
        .input = -1,
        .error = -1,
        .container = container,
    };
    static char self[4096];
    struct bl_warden *warden;
    struct bl_warden_end end;
    struct bl_error error = {0};
    int ends[2];
    char byte;
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0 || pipe2(ends, O_CLOEXEC) != 0)
        report_die("no pipe");
    self[size] = '\0';
    options.arguments = (const char *const[]){self, "tree", count, NULL};
    options.output = ends[1];
    if (bl_warden_start(&options, &warden, &error) != 0)
        report_die(error.message);
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1)
        report_die("the tree does not stand");
    double start_ns = report_wall_ns();
    bl_warden_stop(warden, 0, 0, &end);
    double elapsed_ms = (report_wall_ns() - start_ns) / 1e6;
    if (end.survivors != 0)
        report_die("a process survived");
    bl_warden_free(warden);
    close(ends[0]);
    return elapsed_ms;
}

static void bench_stops(void)
{
    static const enum bl_mechanism containers[] = {BL_MECHANISM_SUBREAPER, BL_MECHANISM_CGROUP2,
                                                   BL_MECHANISM_PIDNS};
    static const struct {
        const char *count;
        double limit_ms;
    } trees[] = {{"3", 5}, {"30", 15}, {"300", 80}};
    for (size_t i = 0; i < BL_COUNT(containers); i++) {
        struct bl_container_check check;
        bl_container_check(containers[i], &check);
        if (!check.available) {
            fprintf(stderr, "bench: %s is not available: %s\n", bl_mechanism_name(containers[i]),
                    check.detail);
            continue;
        }
        for (size_t j = 0; j < BL_COUNT(trees); j++) {
            double values[ROUNDS];
            char name[96];
            for (int round = 0; round < ROUNDS; round++)
                values[round] = stop_ms(containers[i], trees[j].count);
            snprintf(name, sizeof name, "stop to proof, %s processes, %s", trees[j].count,
                     bl_mechanism_name(containers[i]));
            report_line(name, report_median(values, ROUNDS), "ms", "limit", trees[j].limit_ms);
        }
    }
}

/* ---- belay hold ---- */

/* Wall time of a program, from start to end; negative if it fails. */
static double run_ms(char *const arguments[])
{
    pid_t child;
    int status;
    double start_ns = report_wall_ns();
    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ) != 0)
        return -1;
    if (waitpid(child, &status, 0) != child || status != 0)
        return -1;
    return (report_wall_ns() - start_ns) / 1e6;
}

static void bench_hold(void)
{
    static char belay[] = BELAY_BUILD_ROOT "/belay", hold[] = "hold", dashes[] = "--";
    static char timeout[] = "timeout", five[] = "5", program[] = PROGRAM_TRUE;
    double ours[HOLDS], theirs[HOLDS];
    for (int i = 0; i < HOLDS; i++) {
        ours[i] = run_ms((char *const[]){belay, hold, dashes, program, NULL});
        theirs[i] = run_ms((char *const[]){timeout, five, program, NULL});
        if (ours[i] < 0 || theirs[i] < 0)
            report_die("belay hold or timeout failed");
    }
    report_line("belay hold -- /bin/true", report_median(ours, HOLDS), "ms", "timeout 5 /bin/true",
                report_median(theirs, HOLDS));
}

static int bench(void *argument)
{
    (void)argument;
    bench_starts();
    bench_stops();
    bench_hold();
    return 0;
}

int main(int argument_count, char **arguments)
{
    struct bl_loop *loop;
    struct bl_error error = {0};
    if (argument_count == 3 && strcmp(arguments[1], "tree") == 0)
        return be_tree(strtol(arguments[2], NULL, 10));
    setenv("BELAY_WARDEN", BELAY_WARDEN_PATH, 0);
    if (bl_loop_new(NULL, &loop, &error) != 0)
        report_die(error.message);
    int result = bl_loop_run(loop, "bench", bench, NULL);
    bl_loop_free(loop);
    return result;
}
