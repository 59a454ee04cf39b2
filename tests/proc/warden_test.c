/* How commands start and end, what they inherit, and the properties of wardens. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"
#include "proc/parts.h"

#define SOON_MS 3000.0
#define CROWD   50

/* ---- Ends ---- */

static int exits(void *argument)
{
    static const char *const codes[] = {"0", "1", "3", "126", "127", "255"};
    for (size_t i = 0; i < BL_COUNT(codes); i++) {
        struct tool tool;
        struct bl_warden_end end = {0}, again = {0};
        TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "exit", codes[i]);
        if (tool_start(&tool) == 0) {
            CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
            CHECK_EQUAL(end.how, BL_END_EXITED);
            CHECK_EQUAL(end.status, strtol(codes[i], NULL, 10));
            CHECK(!end.by_signal && !end.core_dumped);
            CHECK_EQUAL(end.mechanism, tool.options.container);
            CHECK_EQUAL(end.left_behind, 0);
            CHECK_EQUAL(end.survivors, 0);
            CHECK_EQUAL(end.strongest_signal, 0);
            CHECK_EQUAL(bl_warden_wait(tool.warden, &again), 0);
            CHECK_EQUAL(again.status, end.status);
            /* If the tree has ended, a stop only returns the end. */
            bl_warden_stop(tool.warden, 0, 5000, &again);
            CHECK_EQUAL(again.how, BL_END_EXITED);
            CHECK_EQUAL(again.status, end.status);
        }
        tool_done(&tool);
    }
    return 0;
}

static void exit_codes_are_exact(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(exits, &container);
}

static int raises(void *argument)
{
    static const int signals[] = {SIGKILL, SIGTERM, SIGSEGV, SIGABRT, SIGINT, SIGPIPE, SIGUSR1};
    for (size_t i = 0; i < BL_COUNT(signals); i++) {
        struct tool tool;
        struct bl_warden_end end = {0};
        char number[8];
        snprintf(number, sizeof number, "%d", signals[i]);
        TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "raise", number);
        if (tool_start(&tool) == 0) {
            CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
            CHECK_EQUAL(end.how, BL_END_SIGNALED);
            CHECK_EQUAL(end.status, signals[i]);
            CHECK(end.by_signal && !end.core_dumped);
            CHECK_EQUAL(end.strongest_signal, 0);
        }
        tool_done(&tool);
    }
    return 0;
}

static void signals_that_end_a_command_are_exact(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(raises, &container);
}

static int refused(void *argument)
{
    static const struct {
        const char *command, *directory;
        int code;
    } cases[] = {
        {"belay-no-such-program", NULL, BL_ENOENT}, {"/no/such/program", NULL, BL_ENOENT},
        {"/etc/passwd", NULL, BL_EACCES},           {"/etc", NULL, BL_EACCES},
        {"/bin/true", "/no/such/place", BL_ENOENT},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct tool tool;
        struct bl_error error = {0};
        struct bl_warden *warden = NULL;
        TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
        tool_set_command(&tool, (const char *const[]){cases[i].command, NULL});
        tool.options.directory = cases[i].directory;
        /* Folders that cannot be searched would change the error to a permission error. */
        const char *const environment[] = {tool.marker, "PATH=/usr/bin:/bin", NULL};
        tool.options.environment = environment;
        if (!CHECK_EQUAL(bl_warden_start(&tool.options, &warden, &error), cases[i].code))
            fprintf(stderr, "%s: %s\n", cases[i].command, error.message);
        CHECK_EQUAL(error.code, cases[i].code);
        CHECK(error.message[0] != '\0');
        CHECK(strstr(error.target,
                     cases[i].directory != NULL ? cases[i].directory : cases[i].command) != NULL);
        CHECK(warden == NULL);
        tool_done(&tool);
    }
    return 0;
}

/* Lists this process's descriptor numbers. */
static void list_descriptors(char out[256])
{
    size_t size = 0;
    out[0] = '\0';
    for (int fd = 0; fd < 100 && size < 250; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            size += (size_t)snprintf(out + size, 256 - size, "%d ", fd);
}

static void failed_start_says_why(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(refused, &container);
}

#define CANDIDATE_MAX 4095 /* longest path that is tried */

struct lookup {
    const char *path; /* "@" is a folder with the programs `mine` and `bare` (a shell script without
                         an interpreter line), and a text `true`; NULL: unset */
    size_t size;      /* padded to this size with slashes; 0: unchanged */
    const char *command;
    int code;
};

static void look_up(const struct lookup *lookup, const char *folder)
{
    static char variable[CANDIDATE_MAX + 100];
    struct tool tool;
    struct bl_warden_end end = {0};
    char *at = stpcpy(variable, "PATH="), *begin = at;
    for (const char *from = lookup->path != NULL ? lookup->path : ""; *from != '\0'; from++)
        at = *from == '@' ? stpcpy(at, folder) : stpncpy(at, from, 1);
    while ((size_t)(at - begin) < lookup->size)
        *at++ = '/';
    *at = '\0';
    TOOL_INIT(&tool, BL_MECHANISM_SUBREAPER, "plain");
    tool_set_command(&tool, (const char *const[]){lookup->command, "two words", NULL});
    tool.options.directory = folder;
    const char *const environment[] = {tool.marker, lookup->path != NULL ? variable : NULL, NULL};
    tool.options.environment = environment;
    if (!CHECK_EQUAL(bl_warden_start(&tool.options, &tool.warden, NULL), lookup->code))
        fprintf(stderr, "%s in %.60s\n", lookup->command, variable);
    if (tool.warden != NULL) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(end.status, strcmp(lookup->command, "true") != 0 ? 9 : 0);
    }
    tool_done(&tool);
}

static int lookups(void *argument)
{
    static const struct lookup cases[] = {
        {NULL, 0, "true", 0},
        {"", 0, "true", BL_ENOENT},
        {"/nowhere", 0, "true", BL_ENOENT},
        {"@", 0, "mine", 0},
        {"@", 0, "bare", 0},
        {":/nowhere", 0, "mine", 0}, /* an empty entry is the working folder */
        {"/nowhere::/bin", 0, "mine", 0},
        {"/nowhere:/etc/passwd:/bin", 0, "true", 0},
        {"@", 0, "true", BL_EACCES},
        {"@:/nowhere", 0, "true", BL_EACCES},
        {"@:/bin", 0, "true", 0},
        {"@", CANDIDATE_MAX - 5, "mine", 0},
        {"@", CANDIDATE_MAX - 5, "mine!", BL_ENOENT}, /* and not the program without the "!" */
        {"@", CANDIDATE_MAX + 50, "mine", BL_ENOENT},
    };
    static const char *const programs[][2] = {
        {"mine", "#!/bin/sh\nexit 9\n"},
        {"bare", "test $# = 1 -a \"$1\" = 'two words' && exit 9\n"},
        {"true", ""},
    };
    char folder[] = "/tmp/belay-path-XXXXXX", path[64];
    (void)argument;
    CHECK(mkdtemp(folder) != NULL);
    for (size_t i = 0; i < BL_COUNT(programs); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, programs[i][0]);
        FILE *file = fopen(path, "w");
        fputs(programs[i][1], file);
        fchmod(fileno(file), programs[i][1][0] != '\0' ? 0755 : 0644);
        fclose(file);
    }
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        look_up(&cases[i], folder);
    for (size_t i = 0; i < BL_COUNT(programs); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, programs[i][0]);
        unlink(path);
    }
    rmdir(folder);
    return 0;
}

static void a_command_is_looked_up_in_path_as_a_shell_does(void **state BL_UNUSED)
{
    run_in_loop(lookups, NULL);
}

/* Each number of descriptors that is not enough, and then enough. */
static int short_of_descriptors(void *argument)
{
    struct rlimit before, limit;
    struct bl_warden_end end = {0};
    bool started = false;
    int refusals = 0;
    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    for (limit.rlim_cur = 3; !started && limit.rlim_cur < 100; limit.rlim_cur++) {
        struct tool tool;
        struct bl_error error = {0};
        char fds[2][256];
        TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "exit", "5");
        list_descriptors(fds[0]);
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        started = bl_warden_start(&tool.options, &tool.warden, &error) == 0;
        setrlimit(RLIMIT_NOFILE, &before);
        if (started) {
            CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
            CHECK_EQUAL(end.status, 5);
        } else {
            refusals++;
            CHECK(strstr(error.message, "cannot start") != NULL && error.hint[0] != '\0');
            list_descriptors(fds[1]);
            CHECK(strcmp(fds[0], fds[1]) == 0);
            siginfo_t dead = {0};
            waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT);
            CHECK_EQUAL(dead.si_pid, 0);
        }
        tool_done(&tool);
    }
    CHECK(started && refusals > 10);
    return 0;
}

static void command_is_refused_and_not_half_started_without_descriptors(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(short_of_descriptors, &container);
}

/* ---- A start that never completes ---- */

/* Makes a file whose open blocks in other processes, as on a file system that does not respond:
 * they break its lease and wait. Returns the descriptor that holds the lease. */
static int make_leased(char *path)
{
    static const char script[] = "#!/bin/sh\n";
    int fd = mkstemp(path);
    CHECK_EQUAL(write(fd, script, sizeof script - 1), sizeof script - 1);
    CHECK_EQUAL(fchmod(fd, 0700), 0);
    close(fd);
    signal(SIGIO, SIG_IGN);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQUAL(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
    return fd;
}

static int starts_for_ever(void *argument)
{
    struct tool tool;
    struct bl_scope limit, shield, *outer = bl_scope_current();
    struct bl_warden_end end = {0};
    char path[] = "/tmp/belay-leased-XXXXXX";
    int leased = make_leased(path);
    double begin_ms = now_ms();
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&tool, (const char *const[]){path, NULL});
    bl_scope_init(&limit, outer);
    bl_scope_set_deadline(&limit, bl_time_add(bl_now_ns(), 200 * MS));
    bl_scope_enter(&limit);
    bl_shield_begin(&shield, 20 * BL_NS_PER_S);
    CHECK_EQUAL(bl_warden_start(&tool.options, &tool.warden, NULL), 0);
    bl_shield_end(&shield);
    if (tool.warden != NULL) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), BL_ETIMEDOUT);
        bl_warden_stop(tool.warden, 0, 200, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK_EQUAL(end.survivors, 0);
    }
    CHECK(now_ms() - begin_ms < SOON_MS);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    tool_done(&tool);
    close(leased);
    unlink(path);
    return 0;
}

static void a_command_whose_execution_blocks_can_be_stopped(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(starts_for_ever, &container);
}

/* ---- Processes left behind ---- */

static int leaves(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "double-fork");
    if (tool_start(&tool) == 0) {
        double start_ms = now_ms();
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(marker_count(tool.marker), 0);
        CHECK(now_ms() - start_ms < SOON_MS);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK_EQUAL(end.status, 0);
        CHECK_EQUAL(end.left_behind, 1);
        CHECK_EQUAL(end.survivors, 0);
        CHECK_EQUAL(end.strongest_signal, SIGTERM);
    }
    tool_done(&tool);
    return 0;
}

static void what_a_command_leaves_behind_is_stopped_and_counted(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(leaves, &container);
}

static int keeps(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "double-fork");
    tool.options.background = true;
    if (tool_start(&tool) == 0) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK_EQUAL(end.left_behind, 1);
        CHECK_EQUAL(end.survivors, 0);
        CHECK_EQUAL(bl_sleep(50 * MS), 0);
        CHECK_EQUAL(marker_count(tool.marker), 1);
        tool_stop(&tool, 5000, &end);
        CHECK_EQUAL(end.processes, 1);
        CHECK_EQUAL(end.strongest_signal, SIGTERM);
        CHECK_EQUAL(end.status, 0);
    }
    tool_done(&tool);
    return 0;
}

static void background_processes_are_kept_and_then_stopped(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(keeps, &container);
}

static int keeps_until_freed(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "double-fork");
    tool.options.background = true;
    if (tool_start(&tool) == 0) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(marker_count(tool.marker), 1);
    }
    tool_done(&tool); /* checks that no process is left */
    return 0;
}

static void background_processes_end_with_their_warden(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(keeps_until_freed, &container);
}

/* A wait that must return soon. */
static int wait_soon(struct bl_warden *warden, struct bl_warden_end *ret_end)
{
    struct bl_scope limit, *outer = bl_scope_current();
    bl_scope_init(&limit, outer);
    bl_scope_set_deadline(&limit, bl_time_add(bl_now_ns(), (uint64_t)SOON_MS * MS));
    bl_scope_enter(&limit);
    int code = proc_warden_wait_tree(warden, ret_end);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    return code;
}

/* For a shell: the folder of its cgroup. */
#define OWN_CGROUP                                                                                 \
    "root=$(sed -n 's/^[^ ]* \\([^ ]*\\) cgroup2 .*/\\1/p' /proc/mounts | head -n 1);"             \
    "own=$root$(sed -n 's/^0:://p' /proc/self/cgroup);"

/* Like a process that joined another PID namespace, whose parent there is not the warden. */
static int takes_a_stranger_in(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    char number[16];
    pid_t stranger = fork();
    if (stranger == 0) {
        for (;;)
            pause();
    }
    snprintf(number, sizeof number, "%d", (int)stranger);
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&tool,
                     (const char *const[]){"sh", "-c", OWN_CGROUP "echo $0 >\"$own/cgroup.procs\"",
                                           number, NULL});
    if (tool_start(&tool) == 0) {
        CHECK_EQUAL(wait_soon(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK_EQUAL(end.status, 0);
        CHECK_EQUAL(end.survivors, 0);
    }
    tool_done(&tool);
    kill(stranger, SIGKILL);
    CHECK_EQUAL(waitpid(stranger, NULL, 0), stranger);
    return 0;
}

static void a_process_in_the_cgroup_and_not_in_the_tree_does_not_hold_up_the_end(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(takes_a_stranger_in, &container);
}

static int nests(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(
        &tool,
        (const char *const[]){"sh", "-c",
                              OWN_CGROUP "for i in 0 1 2 3 4 5 6 7 8 9; do"
                                         " mkdir -p $own/$i/a/b/c/d/e/f/g/h/i/j/k || exit 1; done",
                              NULL});
    if (tool_start(&tool) == 0) {
        CHECK_EQUAL(wait_soon(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK_EQUAL(end.status, 0);
        CHECK_EQUAL(end.survivors, 0);
    }
    tool_done(&tool);
    return 0;
}

static void cgroups_that_a_command_made_do_not_hold_up_its_end(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(nests, &container);
}

/* More processes than a warden reaps at a time, and no signal for the rest. */
static int ends_in_a_crowd(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(
        &tool,
        (const char *const[]){
            "sh", "-c", "i=0; while [ $i -lt 700 ]; do sleep 1000 & i=$((i + 1)); done", NULL});
    tool.options.background = true;
    if (tool_start(&tool) == 0) {
        pid_t command = bl_warden_pid(tool.warden), warden = warden_of(command);
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK(end.left_behind > 0);
        CHECK_EQUAL(kill(warden, SIGSTOP), 0);
        CHECK_EQUAL(kill(-command, SIGKILL), 0);
        for (int i = 0; i < 200 && marker_count(tool.marker) > 0; i++)
            bl_sleep(10 * MS);
        CHECK_EQUAL(kill(warden, SIGCONT), 0);
        CHECK_EQUAL(wait_soon(tool.warden, &end), 0);
        CHECK_EQUAL(end.survivors, 0);
    }
    tool_done(&tool);
    return 0;
}

static void background_processes_that_end_together_are_all_reaped(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(ends_in_a_crowd, &container);
}

/* ---- What a command inherits ---- */

static int only_three(void *argument)
{
    struct tool first, second;
    struct bl_warden_end end;
    char out[256];
    /* Our own descriptors without close-on-exec, low and high, and another warden's lifeline. */
    int low = open("/dev/null", O_RDONLY);
    int high = fcntl(low, F_DUPFD, 900);
    TOOL_INIT(&first, *(enum bl_mechanism *)argument, "plain");
    TOOL_INIT(&second, *(enum bl_mechanism *)argument, "fds");
    tool_start(&first);
    tool_run(&second, out, sizeof out, &end);
    if (!CHECK(strcmp(out, "0 1 2 ") == 0))
        fprintf(stderr, "descriptors: %s\n", out);
    tool_done(&second);
    tool_done(&first);
    close(low);
    close(high);
    return 0;
}

static void a_command_has_three_descriptors_and_no_other(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(only_three, &container);
}

static int surroundings(void *argument)
{
    struct tool tool;
    struct bl_warden_end end;
    char out[512];
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&tool, (const char *const[]){"sh", "-c",
                                                  "pwd; echo \"$BELAY_A|$BELAY_B\"; echo \"$1\"; "
                                                  "cat /proc/self/oom_score_adj",
                                                  "sh", "two words", NULL});
    const char *const environment[] = {tool.marker, "PATH=/usr/bin:/bin", "BELAY_A=one two",
                                       "BELAY_B=", NULL};
    tool.options.environment = environment;
    tool.options.directory = "/usr";
    tool_run(&tool, out, sizeof out, &end);
    CHECK_EQUAL(end.status, 0);
    if (!CHECK(strncmp(out, "/usr\none two|\ntwo words\n", 24) == 0))
        fprintf(stderr, "%s", out);
    /* The out-of-memory killer chooses a tool first. */
    CHECK(strtol(out + 24, NULL, 10) > 0);
    tool_done(&tool);
    return 0;
}

static void arguments_environment_and_directory_are_passed(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(surroundings, &container);
}

/* Starting a process blocks all signals for a moment: its command must not inherit that. */
static int mask(void *argument)
{
    struct tool tool;
    struct bl_warden_end end;
    sigset_t block, before;
    char out[256];
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    sigprocmask(SIG_SETMASK, &block, &before);
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&tool, (const char *const[]){"grep", "SigBlk", "/proc/self/status", NULL});
    tool_run(&tool, out, sizeof out, &end);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (!CHECK(strcmp(out, "SigBlk:\t0000000000000800\n") == 0))
        fprintf(stderr, "%s", out);
    tool_done(&tool);
    return 0;
}

static void a_command_starts_with_the_signal_mask_that_we_have(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(mask, &container);
}

/* Opens a pseudo terminal: the command's end and ours. */
static bool open_terminal(int *ret_ours, int *ret_end)
{
    char name[64];
    *ret_ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    *ret_end = -1;
    if (grantpt(*ret_ours) == 0 && unlockpt(*ret_ours) == 0 &&
        ptsname_r(*ret_ours, name, sizeof name) == 0)
        *ret_end = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return *ret_end >= 0;
}

static int terminal(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    char out[256];
    int ours, end_of_tool;
    if (!CHECK(open_terminal(&ours, &end_of_tool)))
        return 0;
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "tty");
    tool.options.input = tool.options.output = tool.options.error = end_of_tool;
    tool.options.terminal = true;
    if (tool_start(&tool) == 0) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        ssize_t size = read(ours, out, sizeof out - 1);
        out[size > 0 ? size : 0] = '\0';
        if (!CHECK(strcmp(out, "tty\r\n") == 0))
            fprintf(stderr, "terminal: %s\n", out);
    }
    tool_done(&tool);
    close(end_of_tool);
    close(ours);
    return 0;
}

static void a_pty_is_the_controlling_terminal_of_the_command(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(terminal, &container);
}

/* ---- Wardens themselves ---- */

static int untouched(void *argument)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE, SIGTSTP};
    struct tool tool;
    struct bl_warden_end end = {0};
    char path[64], name[32] = "";
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 1);
        pid_t command = bl_warden_pid(tool.warden), warden = warden_of(command);
        CHECK_EQUAL(command, marker_scan(tool.marker, NULL, '\0')->pids[0]);
        CHECK(warden > 0 && warden != command);
        CHECK(getsid(warden) != getsid(0));
        CHECK(getsid(command) != getsid(warden));
        snprintf(path, sizeof path, "/proc/%d/comm", (int)warden);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(read(fd, name, sizeof name - 1) > 0);
        close(fd);
        CHECK(strstr(name, "belay") == NULL); /* so that `pkill -9 belay` does not match */
        for (size_t i = 0; i < BL_COUNT(signals); i++)
            kill(warden, signals[i]);
        CHECK_EQUAL(bl_sleep(50 * MS), 0);
        CHECK_EQUAL(marker_count(tool.marker), 1);
        tool_stop(&tool, 5000, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK_EQUAL(end.strongest_signal, SIGTERM);
    }
    tool_done(&tool);
    return 0;
}

static void a_warden_has_session_name_and_signals_of_its_own(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(untouched, &container);
}

static int signal_one(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "many", "2");
    tool.options.background = true;
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 3);
        bl_warden_signal(tool.warden, SIGUSR1);
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_SIGNALED);
        CHECK_EQUAL(end.status, SIGUSR1);
        CHECK_EQUAL(end.left_behind, 2);
        CHECK_EQUAL(marker_count(tool.marker), 2);
        /* It has no effect on a command that has ended. */
        bl_warden_signal(tool.warden, SIGUSR1);
        tool_stop(&tool, 5000, &end);
        CHECK_EQUAL(end.processes, 2);
    }
    tool_done(&tool);
    return 0;
}

static void a_signal_goes_to_the_command_alone(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(signal_one, &container);
}

static int run_one_of_many(void *argument)
{
    struct tool *tool = argument;
    struct bl_warden_end end = {0};
    if (tool_start(tool) != 0)
        return 0;
    tool_await(tool, NULL, 1);
    tool_stop(tool, 5000, &end);
    CHECK_EQUAL(end.how, BL_END_STOPPED);
    CHECK_EQUAL(end.strongest_signal, SIGTERM);
    return 0;
}

static int stop_with_little_grace(void *argument)
{
    for (int i = 0; i < 20; i++) {
        struct tool tool;
        struct bl_warden_end end = {0};
        TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
        tool.options.grace_ms = 1;
        if (tool_start(&tool) == 0) {
            tool_await(&tool, NULL, 1);
            tool_stop(&tool, 5000, &end);
            CHECK_EQUAL(end.how, BL_END_STOPPED);
            CHECK_EQUAL(end.strongest_signal, SIGTERM);
        }
        tool_done(&tool);
    }
    return 0;
}

/* A PID namespace takes some milliseconds to end after its last command. */
static void a_container_that_ends_slowly_did_not_need_a_kill(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_with_little_grace, &container);
}

static int crowd(void *argument)
{
    static struct tool tools[CROWD];
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < CROWD; i++) {
        TOOL_INIT(&tools[i], *(enum bl_mechanism *)argument, "plain");
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "one", run_one_of_many, &tools[i], NULL), 0);
    }
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    for (size_t i = 0; i < CROWD; i++)
        tool_done(&tools[i]);
    return 0;
}

static void fifty_wardens_at_once_do_not_mix(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(crowd, &container);
}

static int stop_one_of_two(void *argument)
{
    struct tool first, second;
    struct bl_warden_end end;
    TOOL_INIT(&first, *(enum bl_mechanism *)argument, "many", "3");
    TOOL_INIT(&second, *(enum bl_mechanism *)argument, "many", "3");
    if (tool_start(&first) == 0 && tool_start(&second) == 0) {
        tool_await(&first, NULL, 4);
        tool_await(&second, NULL, 4);
        tool_stop(&first, 0, &end);
        CHECK_EQUAL(bl_sleep(20 * MS), 0);
        CHECK_EQUAL(marker_count(second.marker), 4);
    }
    tool_done(&first);
    tool_done(&second);
    return 0;
}

static void stopping_one_tree_leaves_its_siblings_alone(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_one_of_two, &container);
}

SUITE(warden, IN_EACH(exit_codes_are_exact), IN_EACH(signals_that_end_a_command_are_exact),
      IN_EACH(failed_start_says_why),
      cmocka_unit_test(a_command_is_looked_up_in_path_as_a_shell_does),
      {"command_is_refused_and_not_half_started_without_descriptors",
       command_is_refused_and_not_half_started_without_descriptors, NULL, NULL, &each_container[2]},
      IN_EACH(a_command_whose_execution_blocks_can_be_stopped),
      IN_EACH(what_a_command_leaves_behind_is_stopped_and_counted),
      IN_EACH(background_processes_are_kept_and_then_stopped),
      IN_EACH(background_processes_end_with_their_warden),
      {"a_process_in_the_cgroup_and_not_in_the_tree_does_not_hold_up_the_end",
       a_process_in_the_cgroup_and_not_in_the_tree_does_not_hold_up_the_end, NULL, NULL,
       &each_container[1]},
      {"cgroups_that_a_command_made_do_not_hold_up_its_end",
       cgroups_that_a_command_made_do_not_hold_up_its_end, NULL, NULL, &each_container[1]},
      {"background_processes_that_end_together_are_all_reaped",
       background_processes_that_end_together_are_all_reaped, NULL, NULL, &each_container[2]},
      IN_EACH(a_command_has_three_descriptors_and_no_other),
      IN_EACH(arguments_environment_and_directory_are_passed),
      IN_EACH(a_command_starts_with_the_signal_mask_that_we_have),
      IN_EACH(a_pty_is_the_controlling_terminal_of_the_command),
      IN_EACH(a_warden_has_session_name_and_signals_of_its_own),
      IN_EACH(a_signal_goes_to_the_command_alone), IN_EACH(fifty_wardens_at_once_do_not_mix),
      IN_EACH(a_container_that_ends_slowly_did_not_need_a_kill),
      IN_EACH(stopping_one_tree_leaves_its_siblings_alone));
