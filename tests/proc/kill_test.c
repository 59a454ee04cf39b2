/* Belay, a warden, or both are killed. The Belay process of these tests is this program in another
 * role (kill_role), as a separate process that can be killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "figure.h"
#include "helpers.h"
#include "proc/parts.h"
#include "proc/record.h"

#define LIMIT_MS    5000.0 /* measured: 2 to 30 */
#define KILL_MS     100.0  /* promised: 03, "What must hold" */
#define SETTLE_MS   1000.0 /* measured: below 1; a warden that does not end is given 1500 */
#define ROLE_LIFE_S 120
#define BUSY_FIBERS 4
#define PATIENT_MS  30000

/* ---- Roles ---- */

static int be_busy(void *argument)
{
    static const char *const words[][3] = {
        {"many", "3", NULL}, {"setsid-ignore", NULL}, {"double-fork", "stay", NULL},
        {"plain", NULL},     {"double-fork", NULL},   {"ignore-term", NULL},
        {"stopped", NULL},   {"exit", "0", NULL}};
    struct bl_random random;
    uint64_t seed;
    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    for (;;) {
        struct tool tool;
        struct bl_warden_end end;
        role_tool_init(&tool, argument, words[bl_random_below(&random, BL_COUNT(words))]);
        tool.options.background = bl_random_below(&random, 2) == 0;
        if (bl_warden_start(&tool.options, &tool.warden, NULL) == 0) {
            bl_sleep(bl_random_below(&random, 8 * MS));
            if (bl_random_below(&random, 2) == 0)
                bl_warden_stop(tool.warden, 0, (uint32_t)bl_random_below(&random, 20), &end);
        }
        bl_warden_free(tool.warden);
        bl_free(tool.environment);
    }
    return 0;
}

/* Starts and stops trees forever. */
static int role_busy(void *argument)
{
    const struct role *role = argument;
    struct bl_nursery nursery;
    struct bl_container_check check;
    /* Before the kills begin: a probe that is killed leaves an empty cgroup. */
    bl_container_check(role->container, &check);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK(write(REPORT_FD, "r", 1) == 1);
    for (int i = 0; i < BUSY_FIBERS; i++)
        bl_nursery_spawn(&nursery, NULL, "busy", be_busy, argument, NULL);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    return 0;
}

/* Holds one tree, and reports the pid of its warden. */
static int role_steady(void *argument)
{
    struct tool tool;
    struct bl_warden_end end;
    role_tool_init(&tool, argument, (const char *const[]){"many", "3", NULL});
    if (tool_start(&tool) == 0) {
        pid_t warden = warden_of(bl_warden_pid(tool.warden));
        CHECK(write(REPORT_FD, &warden, sizeof warden) == sizeof warden);
        bl_warden_wait(tool.warden, &end);
    }
    tool_done(&tool);
    return 0;
}

/* The same with records of its wardens, like the real program. */
static int role_recorded(void *argument)
{
    CHECK_EQUAL(bl_proc_adopt_orphans(), 0);
    CHECK_EQUAL(bl_proc_protect(NULL), 0);
    role_steady(argument);
    bl_proc_protect_end();
    return 0;
}

struct patient {
    struct bl_warden *warden;
    struct bl_warden_end end;
};

static int stop_with_grace(void *argument)
{
    struct patient *patient = argument;
    bl_warden_stop(patient->warden, 0, PATIENT_MS, &patient->end);
    return 0;
}

/* Kills the warden of a tree, with `stopping` during a stop. */
static void lose_one(enum bl_mechanism container, const char *const *words, size_t ready,
                     bool stopping)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    struct bl_nursery nursery;
    tool_init(&tool, container, words);
    if (tool_start(&tool) == 0) {
        struct patient patient = {.warden = tool.warden};
        tool_await(&tool, NULL, ready);
        bl_nursery_init(&nursery, bl_scope_current());
        if (stopping)
            bl_nursery_spawn(&nursery, NULL, "patient", stop_with_grace, &patient, NULL);
        CHECK_EQUAL(bl_sleep(10 * MS), 0);
        pid_t warden = warden_of(bl_warden_pid(tool.warden));
        CHECK(warden > 0 && kill(warden, SIGKILL) == 0);
        double start_ms = now_ms();
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(marker_count(tool.marker), 0);
        CHECK(now_ms() - start_ms < LIMIT_MS);
        CHECK_EQUAL(end.how, BL_END_LOST);
        CHECK_EQUAL(end.survivors, 0);
        CHECK_EQUAL(bl_nursery_join(&nursery), 0);
        bl_nursery_done(&nursery);
        CHECK(!stopping || patient.end.how == BL_END_LOST);
        bl_warden_stop(tool.warden, 0, 0, &end);
        CHECK_EQUAL(end.how, BL_END_LOST);
    }
    tool_done(&tool);
}

/* Adopts the trees of killed wardens; the sweep must spare the tree of another warden. */
static int role_adopt(void *argument)
{
    const struct role *role = argument;
    struct tool sibling;
    struct bl_warden_end end;
    CHECK_EQUAL(bl_proc_adopt_orphans(), 0);
    TOOL_INIT(&sibling, role->container, "many", "2");
    if (tool_start(&sibling) == 0) {
        tool_await(&sibling, NULL, 3);
        lose_one(role->container, (const char *const[]){"many", "5", NULL}, 6, false);
        lose_one(role->container, (const char *const[]){"setsid-ignore", NULL}, 2, false);
        lose_one(role->container, (const char *const[]){"double-fork", "stay", NULL}, 2, false);
        lose_one(role->container, (const char *const[]){"storm", "ignore", NULL}, 20, false);
        lose_one(role->container, (const char *const[]){"ignore-term", NULL}, 1, true);
        CHECK_EQUAL(marker_count(sibling.marker), 3);
        tool_stop(&sibling, 5000, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK_EQUAL(end.strongest_signal, SIGTERM);
    }
    tool_done(&sibling);
    return 0;
}

int kill_role(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        bl_fiber_main *main;
    } roles[] = {{"busy", role_busy},         {"steady", role_steady},
                 {"recorded", role_recorded}, {"adopt", role_adopt},
                 {"left", report_role_left},  {"stranger", report_role_stranger},
                 {"lease", lease_role_hold}};
    struct role role;
    if (argument_count != 5 || bl_container_parse(arguments[3], &role.container, NULL) != 0)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(ROLE_LIFE_S);
    role.marker = arguments[4];
    for (size_t i = 0; i < BL_COUNT(roles); i++) {
        if (strcmp(roles[i].name, arguments[2]) == 0)
            return run_in_role(roles[i].main, &role) != 0;
    }
    return 2;
}

/* ---- Killing processes ----------------------------------------------------------------------- */

/* Waits until no process has the marker, including wardens. Returns how long tools were alive, in
 * ms. At the time limit it kills the rest and returns -1. */
static double await_nobody(const char *marker)
{
    double start_ms = now_ms(), gone_ms = -1;
    while (now_ms() - start_ms < LIMIT_MS) {
        const struct marked *found = marker_scan(marker, NULL, '\0');
        double elapsed_ms = now_ms() - start_ms;
        if (found->tools > 0)
            gone_ms = -1;
        else if (gone_ms < 0)
            gone_ms = elapsed_ms;
        if (found->tools + found->wardens == 0 && marker_count(marker) == 0)
            return gone_ms;
        nap_ms(1);
    }
    const struct marked *found = marker_scan(marker, NULL, '\0');
    print_error("left: %zu tools, %zu wardens\n", found->tools, found->wardens);
    marker_kill(marker);
    return -1;
}

static void nothing_survives_belay_killed_at_any_moment(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    unsigned long rounds = suite_rounds(12, 200);
    char name[128];
    struct bl_random random;

    snprintf(name, sizeof name, "03 kill -9 of belay in %s", bl_mechanism_name(container));
    bl_random_seed(&random, (uint64_t)getpid());
    for (unsigned long round = 0; round < rounds; round++) {
        struct belay belay;
        char byte;
        belay_start(&belay, "busy", container);
        belay_hear(&belay, &byte, 1);
        usleep((useconds_t)bl_random_below(&random, round % 4 == 0 ? 5000 : 60000));
        /* Killed while a tool exists, so that the scan is known to see tools. */
        double end_ms = now_ms() + 20000;
        while (round % 4 == 3 && marker_scan(belay.marker, NULL, '\0')->tools == 0)
            assert_true(now_ms() < end_ms);
        kill(belay.pid, SIGKILL);
        double elapsed_ms = await_nobody(belay.marker);
        int status = belay_end(&belay);
        assert_true(elapsed_ms >= 0);
        assert_true(figure_at_most(name, elapsed_ms, KILL_MS));
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}

static void the_tree_of_a_killed_warden_is_adopted_and_swept(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    struct belay belay;
    belay_start(&belay, "adopt", container);
    int status = belay_end(&belay);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int lose_without_adopting(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "many", "3");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 4);
        pid_t warden = warden_of(bl_warden_pid(tool.warden));
        CHECK(warden > 0 && kill(warden, SIGKILL) == 0);
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_LOST);
        /* It kills what it finds, but must not claim that nothing is left. */
        CHECK_EQUAL(end.survivors, BL_SURVIVORS_UNKNOWN);
        marker_kill(tool.marker);
    }
    tool_done(&tool);
    return 0;
}

static void killed_warden_without_an_adopter_proves_nothing(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(lose_without_adopting, &container);
}

/* Removes Belay's cgroup from a text of /proc/PID/cgroup, unless the guard has done it by now: only a
 * Belay that runs a minute later would do it otherwise. It leaves those of others, who may be about
 * to start a process in them. */
static void remove_cgroup(const char *cgroups)
{
    char directory[1024], name[] = "belay-0123456789abcdef";
    const char *found = NULL;

    for (const char *at = cgroups; (at = strstr(at, "/belay-")) != NULL; at++)
        found = at; /* the innermost */
    assert_true(found != NULL && proc_cgroup_directory(directory, sizeof directory));
    snprintf(name, sizeof name, "%s", found + 1);
    int parent = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC), result = -1;
    for (int i = 0; i < 2000 && result != 0; i++) {
        result = unlinkat(parent, name, AT_REMOVEDIR);
        if (result != 0 && errno == ENOENT)
            result = 0;
        if (result != 0)
            nap_ms(5);
    }
    assert_int_equal(result, 0);
    close(parent);
}

static void belay_and_warden_killed_in_the_same_instant(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    struct belay belay;
    pid_t warden = 0;
    double end_ms = now_ms() + 20000;
    char pid[16], cgroups[1024];

    belay_start(&belay, "steady", container);
    belay_hear(&belay, &warden, sizeof warden);
    while (marker_scan(belay.marker, NULL, '\0')->ready < 4 && now_ms() < end_ms)
        nap_ms(2);
    const struct marked *tools = marker_scan(belay.marker, NULL, '\0');
    assert_int_equal(tools->ready, 4);
    snprintf(pid, sizeof pid, "%d", (int)tools->pids[0]);
    process_read(pid, "cgroup", cgroups, sizeof cgroups);
    /* A process that cannot run does not notice the other's end. */
    kill(warden, SIGSTOP);
    kill(belay.pid, SIGKILL);
    kill(warden, SIGKILL);
    belay_end(&belay);
    if (container == BL_MECHANISM_PIDNS) {
        assert_true(await_nobody(belay.marker) >= 0);
        return;
    }
    nap_ms(200);
    print_message("           %s: %zu of 4 are left, as is said of it\n",
                  bl_mechanism_name(container), marker_kill(belay.marker));
    assert_int_equal(marker_count(belay.marker), 0);
    if (container == BL_MECHANISM_CGROUP2)
        remove_cgroup(cgroups);
}

struct recorded {
    int64_t pid, started;
    struct bl_wardens_end end;
};

/* Starts a Belay process with a tree of four, waits until the tree is ready, and kills it.
 * `with_warden`: kills both, so that the warden cannot notice it. Returns what the records say. */
static struct recorded kill_recorded(enum bl_mechanism container, bool with_warden)
{
    struct bl_wardens_end end;
    struct belay belay;
    pid_t warden = 0;
    double end_ms = now_ms() + 20000;

    belay_start(&belay, "recorded", container);
    belay_hear(&belay, &warden, sizeof warden);
    int64_t started = (int64_t)tree_started(proc_view(), belay.pid);
    while (marker_scan(belay.marker, NULL, '\0')->ready < 4 && now_ms() < end_ms)
        nap_ms(2);
    assert_int_equal(marker_scan(belay.marker, NULL, '\0')->ready, 4);
    /* A process that cannot run does not sweep after its warden. */
    if (with_warden) {
        kill(belay.pid, SIGSTOP);
        kill(warden, SIGKILL);
    }
    kill(belay.pid, SIGKILL);
    belay_end(&belay);
    bl_wardens_settle(belay.pid, started, &end);
    size_t left = marker_count(belay.marker);
    print_message("           %s: %zu left, survivors %d, %s\n", bl_mechanism_name(container), left,
                  (int)end.survivors, end.unverified);
    assert_true(left <= end.survivors);
    assert_int_equal(end.mechanism, container);
    struct bl_wardens_end again;
    bl_wardens_settle(belay.pid, started, &again);
    assert_int_equal(again.survivors, end.survivors);
    marker_kill(belay.marker);
    return (struct recorded){belay.pid, started, end};
}

/* Reads the record of the only warden of a Belay process that has ended. */
static struct record record_of(const struct recorded *recorded)
{
    char name[RECORDS_NAME_SIZE];
    struct record record = {0};
    int folder = -1;
    proc_records_name(recorded->pid, recorded->started, name);
    assert_int_equal(bl_runtime_folder_open(false, &folder, NULL), 0);
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && record_read(fd, 0, &record));
    close(fd);
    close(folder);
    return record;
}

/* On a busy machine a warden may not be scheduled for 30 ms. Then the guard does its work, and the
 * proof depends on the container. */
static void finding_5_the_records_of_a_killed_belay_say_what_its_wardens_proved(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    struct recorded recorded = kill_recorded(container, false);
    struct record record = record_of(&recorded);
    bool by_warden = record.state == RECORD_ENDED && record.survivors >= 0;
    if (by_warden) {
        assert_int_equal(recorded.end.survivors, 0);
        assert_int_equal(recorded.end.processes, 4);
        return;
    }
    print_message("           the guard was faster, and found %d\n", (int)record.processes);
    assert_int_equal(recorded.end.survivors,
                     container == BL_MECHANISM_PIDNS ? 0 : BL_SURVIVORS_UNKNOWN);
    /* The warden may have ended some of them. */
    assert_in_range(record.processes, 0, 4);
}

static void finding_5_without_a_warden_only_a_namespace_is_evidence(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    struct bl_wardens_end end = kill_recorded(container, true).end;
    /* A process may have left its cgroup, but cannot leave a namespace. */
    if (container != BL_MECHANISM_PIDNS)
        assert_int_equal(end.survivors, BL_SURVIVORS_UNKNOWN);
    else
        assert_int_equal(end.survivors, 0);
}

static void finding_5_a_process_without_records_is_unknown(void **state)
{
    struct bl_wardens_end end;
    (void)state;
    bl_wardens_settle(1, 1, &end);
    assert_int_equal(end.survivors, BL_SURVIVORS_UNKNOWN);
    assert_string_equal(end.unverified, "no record of its processes was found");
}

/* Runs in a child. Returns 0 if nothing is claimed. */
static int settle_on_full_disk(void)
{
    struct bl_wardens_end end;
    struct rlimit none = {0, 0};
    int64_t started = (int64_t)tree_started(proc_view(), getpid());
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    if (bl_proc_protect(NULL) != 0)
        return 1;
    if (proc_record_take() != -1 || proc_records_fd() != -1)
        return 2;
    bl_wardens_settle(getpid(), started, &end);
    return end.survivors == BL_SURVIVORS_UNKNOWN ? 0 : 3;
}

static void records_that_cannot_be_written_prove_nothing(void **state)
{
    int status = -1;
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(settle_on_full_disk());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The state after Belay was killed during a start: the lifeline is at end of file from the
 * beginning. */
static void a_warden_whose_lifeline_has_ended_starts_nothing(void **state)
{
    char program[PATH_MAX], owner[16], file[] = "/tmp/belay-kill-XXXXXX";
    int made = mkstemp(file), lifeline[2], control[2], status = -1;
    pid_t warden;
    posix_spawn_file_actions_t actions;

    (void)state;
    bl_program_find("belay-warden", "BELAY_WARDEN", program, sizeof program);
    snprintf(owner, sizeof owner, "%d", (int)getpid());
    char *const words[] = {"warden", "1", owner, "-1", "0",  "0",  "0", "0",
                           "0",      "0", "-",   "rm", "-f", file, NULL};
    assert_true(made >= 0 && pipe(lifeline) == 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control), 0);
    close(lifeline[1]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, lifeline[0], WARDEN_LIFELINE + 100);
    posix_spawn_file_actions_adddup2(&actions, control[1], WARDEN_CONTROL);
    posix_spawn_file_actions_adddup2(&actions, WARDEN_LIFELINE + 100, WARDEN_LIFELINE);
    assert_int_equal(posix_spawn(&warden, program, &actions, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(waitpid(warden, &status, 0), warden);
    bool kept = unlink(file) == 0;
    close(lifeline[0]);
    close(control[0]);
    close(control[1]);
    close(made);
    assert_true(kept);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* Runs in a child: checks the claims after wardens have left these records. Returns 0 if no more is
 * claimed than the records say. */
static int settle_records(const struct record *records, size_t count, uint32_t survivors,
                          const char *unverified)
{
    struct bl_wardens_end end;
    int64_t started = (int64_t)tree_started(proc_view(), getpid());
    if (bl_proc_protect(NULL) != 0)
        return 1;
    for (size_t i = 0; i < count; i++)
        if (!record_write(proc_records_fd(), proc_record_take(), &records[i]))
            return 2;
    double start_ms = now_ms();
    bl_wardens_settle(getpid(), started, &end);
    /* The wardens have ended, so there is nothing to wait for. */
    if (now_ms() - start_ms > SETTLE_MS)
        return 4;
    bl_proc_protect_end();
    return end.survivors == survivors && strcmp(end.unverified, unverified) == 0 ? 0 : 3;
}

static void finding_5_the_next_belay_claims_what_the_records_say(void **state)
{
#define RECORD(container, number, why)                                                             \
    {                                                                                              \
        .magic = RECORD_MAGIC, .state = RECORD_ENDED, .pid = 2, .mechanism = (container),          \
        .survivors = (number), .doubt = (why)                                                      \
    }
    static const struct {
        struct record records[2];
        uint32_t survivors;
        const char *unverified;
    } cases[] = {
        {{RECORD(BL_MECHANISM_SUBREAPER, 2, 0), RECORD(BL_MECHANISM_CGROUP2, 1, 0)}, 3, ""},
        {{RECORD(BL_MECHANISM_SUBREAPER, 0, 0),
          RECORD(BL_MECHANISM_SUBREAPER, WARDEN_UNKNOWN, WARDEN_DOUBT_MOVING)},
         BL_SURVIVORS_UNKNOWN,
         "processes were still starting and ending"},
        {{RECORD(BL_MECHANISM_PIDNS, 0, 0), RECORD(BL_MECHANISM_SUBREAPER, 0, 0)}, 0, ""},
    };
#undef RECORD
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            _exit(settle_records(cases[i].records, BL_COUNT(cases[i].records), cases[i].survivors,
                                 cases[i].unverified));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

SUITE(kill, IN_EACH(finding_5_the_records_of_a_killed_belay_say_what_its_wardens_proved),
      IN_EACH(finding_5_without_a_warden_only_a_namespace_is_evidence),
      cmocka_unit_test(finding_5_a_process_without_records_is_unknown),
      cmocka_unit_test(finding_5_the_next_belay_claims_what_the_records_say),
      cmocka_unit_test(a_warden_whose_lifeline_has_ended_starts_nothing),
      cmocka_unit_test(records_that_cannot_be_written_prove_nothing),
      IN_EACH(nothing_survives_belay_killed_at_any_moment),
      IN_EACH(the_tree_of_a_killed_warden_is_adopted_and_swept),
      IN_EACH(killed_warden_without_an_adopter_proves_nothing),
      IN_EACH(belay_and_warden_killed_in_the_same_instant));
