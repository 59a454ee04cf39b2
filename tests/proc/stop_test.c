/* Every badly behaved process of the contract, in every container. After the stop no process is
 * left, by the proof of the container and by the marker, and the end reports whether the first
 * signal was enough. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "figure.h"
#include "helpers.h"
#include "proc/parts.h"

/* Promised after the stop, or after the grace period if the process uses it up (03, "What must
 * hold"). */
#define STOP_MS 50.0
#define SOON_MS                                                                                    \
    2000.0 /* far above measured times, far below the grace period that must not be used up */
#define STORM_MS       500.0
#define LONG_GRACE     10000
#define SHORT_GRACE    200
#define STORM_ROUNDS   3
#define FORKING_ROUNDS 8

struct row {
    enum bl_mechanism container;
    const char *words[3];
    const char *ready_name; /* NULL: that of nasty */
    char ready_state;       /* not 0: wait for this state instead of the name */
    unsigned processes;
    int signal; /* that the process handles */
};

static const char *stop_name(const struct row *row)
{
    static char name[128];
    snprintf(name, sizeof name, "03 stop of %s in %s", row->words[0],
             bl_mechanism_name(row->container));
    return name;
}

static int stop_row(void *argument)
{
    const struct row *row = argument;
    struct tool tool;
    struct bl_warden_end end = {0};
    bool killed = row->signal == SIGKILL;

    tool_init(&tool, row->container, row->words);
    if (tool_start(&tool) == 0) {
        if (row->ready_state != '\0')
            tool_await_state(&tool, row->ready_state, 1);
        else
            tool_await(&tool, row->ready_name, row->ready_name != NULL ? 1 : row->processes);
        double elapsed_ms = tool_stop(&tool, killed ? SHORT_GRACE : LONG_GRACE, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK_EQUAL(end.strongest_signal, row->signal);
        CHECK_EQUAL(end.processes, row->processes);
        double low_ms = killed ? SHORT_GRACE : 0;
        CHECK(figure_between(stop_name(row), elapsed_ms, low_ms, low_ms + STOP_MS));
    }
    tool_done(&tool);
    return 0;
}

static void run_row(void **state, struct row row)
{
    row.container = container_of_test(state);
    run_in_loop(stop_row, &row);
}

static void plain_tool_ends_on_sigterm(void **state)
{
    run_row(state, (struct row){.words = {"plain"}, .processes = 1, .signal = SIGTERM});
}

static void one_that_ignores_the_signal_is_killed_after_the_grace(void **state)
{
    run_row(state, (struct row){.words = {"ignore-term"}, .processes = 1, .signal = SIGKILL});
}

static void a_session_of_its_own_does_not_hide_a_process(void **state)
{
    run_row(state, (struct row){.words = {"setsid"}, .processes = 2, .signal = SIGTERM});
}

static void a_session_of_its_own_that_ignores_the_signal_is_killed(void **state)
{
    run_row(state, (struct row){.words = {"setsid-ignore"}, .processes = 2, .signal = SIGKILL});
}

static void a_double_fork_does_not_hide_a_process(void **state)
{
    run_row(state,
            (struct row){.words = {"double-fork", "stay"}, .processes = 2, .signal = SIGTERM});
}

static void nohup_in_the_background_does_not_hide_a_process(void **state)
{
    run_row(
        state,
        (struct row){.words = {"nohup"}, .ready_name = "sleep", .processes = 2, .signal = SIGTERM});
}

static void two_hundred_children_end(void **state)
{
    run_row(state, (struct row){.words = {"many", "200"}, .processes = 201, .signal = SIGTERM});
}

static void a_chain_of_twenty_ends(void **state)
{
    run_row(state, (struct row){.words = {"deep", "20"}, .processes = 21, .signal = SIGTERM});
}

static void one_that_is_stopped_is_woken_to_end(void **state)
{
    run_row(
        state,
        (struct row){.words = {"stopped"}, .ready_state = 'T', .processes = 1, .signal = SIGTERM});
}

static void one_that_is_blocked_on_a_fifo_ends(void **state)
{
    char directory[] = "/tmp/belay-proc-XXXXXX", path[sizeof directory + 8];
    enum bl_mechanism container = container_of_test(state);
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct row row = {container, {"fifo", path}, NULL, '\0', 1, SIGTERM};
    run_in_loop(stop_row, &row);
    unlink(path);
    rmdir(directory);
}

static int stop_storm(void *argument)
{
    enum bl_mechanism container = *(enum bl_mechanism *)argument;
    static const char *const words[2][3] = {{"storm", NULL}, {"storm", "ignore", NULL}};
    char name[128];

    snprintf(name, sizeof name, "03 stop of a fork storm in %s", bl_mechanism_name(container));
    for (int round = 0; round < STORM_ROUNDS * 2; round++) {
        uint32_t grace_ms = round % 3 == 0 ? 0 : 50;
        struct tool tool;
        struct bl_warden_end end = {0};
        tool_init(&tool, container, words[round % 2]);
        if (tool_start(&tool) == 0) {
            tool_await(&tool, NULL, 20);
            double elapsed_ms = tool_stop(&tool, grace_ms, &end);
            CHECK_EQUAL(end.how, BL_END_STOPPED);
            CHECK(end.processes >= 20);
            CHECK(figure_at_most(name, elapsed_ms, STORM_MS));
        }
        tool_done(&tool);
    }
    return 0;
}

static void a_fork_storm_ends(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_storm, &container);
}

/* A process that is being forked while the tree is stopped, signalled and continued must not stay
 * stopped, or its parent waits for it until the grace period ends. */
static int stop_forking(void *argument)
{
    for (int round = 0; round < FORKING_ROUNDS; round++) {
        struct tool tool;
        struct bl_warden_end end = {0};
        TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "forking");
        if (tool_start(&tool) == 0) {
            tool_await(&tool, NULL, 1);
            CHECK(tool_stop(&tool, LONG_GRACE, &end) < LONG_GRACE / 2);
            CHECK_EQUAL(end.how, BL_END_STOPPED);
            CHECK_EQUAL(end.strongest_signal, SIGTERM);
            CHECK_EQUAL(end.status, 42);
        }
        tool_done(&tool);
    }
    return 0;
}

static void forking_process_has_its_grace_period(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_forking, &container);
}

/* ---- Fields of an end ------------------------------------------------------------------------ */

static int give_way(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0}, again = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "give-way");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 1);
        tool_stop(&tool, LONG_GRACE, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK(!end.by_signal);
        CHECK_EQUAL(end.status, 42);
        CHECK_EQUAL(end.strongest_signal, SIGTERM);
        /* A second call returns the same. */
        bl_warden_stop(tool.warden, 0, 0, &again);
        CHECK_EQUAL(again.how, end.how);
        CHECK_EQUAL(again.status, end.status);
        CHECK_EQUAL(again.strongest_signal, end.strongest_signal);
        CHECK_EQUAL(bl_warden_wait(tool.warden, &again), 0);
        CHECK_EQUAL(again.how, end.how);
    }
    tool_done(&tool);
    return 0;
}

static void exit_code_after_sigterm_is_kept(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(give_way, &container);
}

static int other_signal(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 1);
        bl_warden_stop(tool.warden, SIGINT, LONG_GRACE, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK(end.by_signal);
        CHECK_EQUAL(end.status, SIGINT);
        CHECK_EQUAL(end.strongest_signal, SIGINT);
    }
    tool_done(&tool);
    return 0;
}

static void stop_sends_the_requested_signal_first(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(other_signal, &container);
}

static int no_grace(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "give-way");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 1);
        CHECK(tool_stop(&tool, 0, &end) < SOON_MS);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK(end.by_signal);
        CHECK_EQUAL(end.status, SIGKILL);
        CHECK_EQUAL(end.strongest_signal, SIGKILL);
        CHECK_EQUAL(end.processes, 1);
    }
    tool_done(&tool);
    return 0;
}

static void process_is_killed_at_once_without_a_grace_period(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(no_grace, &container);
}

/* ---- Two stops at a time --------------------------------------------------------------------- */

struct stopper {
    struct bl_warden *warden;
    uint32_t grace_ms;
    struct bl_warden_end end;
};

static int stop_main(void *argument)
{
    struct stopper *stopper = argument;
    bl_warden_stop(stopper->warden, 0, stopper->grace_ms, &stopper->end);
    return 0;
}

static int cut_grace(void *argument)
{
    struct tool tool;
    struct bl_nursery nursery;
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "ignore-term");
    if (tool_start(&tool) == 0) {
        struct stopper patient = {.warden = tool.warden, .grace_ms = 5000};
        struct bl_warden_end end = {0};
        tool_await(&tool, NULL, 1);
        double start_ms = now_ms();
        bl_nursery_init(&nursery, bl_scope_current());
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "patient", stop_main, &patient, NULL), 0);
        CHECK_EQUAL(bl_sleep(50 * MS), 0);
        CHECK_EQUAL(marker_count(tool.marker), 1);
        tool_stop(&tool, 0, &end);
        CHECK_EQUAL(bl_nursery_join(&nursery), 0);
        bl_nursery_done(&nursery);
        CHECK(now_ms() - start_ms < 50 + SOON_MS);
        CHECK_EQUAL(patient.end.survivors, 0);
        CHECK_EQUAL(patient.end.strongest_signal, SIGKILL);
        CHECK_EQUAL(end.strongest_signal, SIGKILL);
    }
    tool_done(&tool);
    return 0;
}

static void second_stop_without_grace_ends_a_grace_period_of_five_seconds(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(cut_grace, &container);
}

static int stop_in_stopped_scope(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    struct bl_scope scope;
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "ignore-term");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 1);
        bl_scope_init(&scope, bl_scope_current());
        bl_scope_stop(&scope, BL_STOP_USER, "test");
        struct bl_scope *outer = bl_scope_enter(&scope);
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), BL_ECANCELED);
        CHECK_EQUAL(marker_count(tool.marker), 1);
        CHECK(tool_stop(&tool, 100, &end) >= 95);
        CHECK_EQUAL(end.strongest_signal, SIGKILL);
        bl_scope_enter(outer);
        bl_scope_done(&scope);
    }
    tool_done(&tool);
    return 0;
}

static void stopped_scope_ends_the_wait_but_not_the_stop(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_in_stopped_scope, &container);
}

/* ---- Stops during the start ------------------------------------------------------------------ */

static int stop_early(void *argument)
{
    enum bl_mechanism container = *(enum bl_mechanism *)argument;
    static const char *const words[][3] = {
        {"many", "5", NULL}, {"plain", NULL}, {"double-fork", NULL}, {"exit", "0", NULL}};
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 16 : 24, 400);
    struct bl_random random;
    bl_random_seed(&random, 3);
    for (unsigned long round = 0; round < rounds; round++) {
        struct tool tool;
        struct bl_warden_end end = {0};
        tool_init(&tool, container, words[round % BL_COUNT(words)]);
        if (tool_start(&tool) == 0) {
            if (round % 2 == 1)
                bl_sleep(bl_random_below(&random, 2 * MS));
            if (round % 5 != 4)
                tool_stop(&tool, round % 3 == 0 ? 50 : 0, &end);
        }
        tool_done(&tool);
    }
    return 0;
}

static void stop_right_after_the_start_leaves_no_process(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_early, &container);
}

static bool write_to(const char *folder, const char *name, const char *value)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, value, strlen(value)) > 0;
    close(fd);
    return written;
}

/* A frozen warden looks like a sleeping one; the difference is that it never wakes. */
static int stop_frozen_warden(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    char folder[4096], number[16];
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    proc_cgroup_name(folder, sizeof folder);
    CHECK_EQUAL(mkdir(folder, 0755), 0);
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 1);
        snprintf(number, sizeof number, "%d", (int)warden_of(bl_warden_pid(tool.warden)));
        CHECK(write_to(folder, "cgroup.procs", number));
        CHECK(write_to(folder, "cgroup.freeze", "1"));
        double start_ms = now_ms();
        bl_warden_stop(tool.warden, 0, SHORT_GRACE, &end);
        CHECK(now_ms() - start_ms < SOON_MS);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        /* This program does not adopt orphans: no process is left, but it cannot know that. */
        CHECK_EQUAL(end.survivors, BL_SURVIVORS_UNKNOWN);
        CHECK_EQUAL(marker_count(tool.marker), 0);
    }
    tool_done(&tool);
    CHECK_EQUAL(rmdir(folder), 0);
    return 0;
}

static void a_warden_frozen_in_a_cgroup_is_replaced(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    if (!proc_cgroup_directory(NULL, 0))
        suite_skip("container mechanism not available");
    run_in_loop(stop_frozen_warden, &container);
}

/* Polls many live children with waitpid(): the kernel reports state S while it scans them. */
static void look_after_children(void)
{
    for (int i = 0; i < 300; i++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
            _exit(0);
        }
    }
    for (;;)
        waitpid(-1, NULL, WNOHANG);
}

static void working_warden_is_not_mistaken_for_a_frozen_one(void **state)
{
    struct proc_started busy = {.pid = fork(), .pidfd = -1};
    struct proc_idle idle = {0};
    (void)state;
    assert_true(busy.pid >= 0);
    if (busy.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        look_after_children();
    }
    for (int looks = 0; looks < 40; looks++) {
        assert_false(proc_look_frozen(&busy, &idle));
        usleep(20000);
    }
    kill(busy.pid, SIGKILL);
    assert_int_equal(waitpid(busy.pid, NULL, 0), busy.pid);
}

SUITE(stop, IN_EACH(a_warden_frozen_in_a_cgroup_is_replaced),
      cmocka_unit_test(working_warden_is_not_mistaken_for_a_frozen_one),
      IN_EACH(plain_tool_ends_on_sigterm),
      IN_EACH(one_that_ignores_the_signal_is_killed_after_the_grace),
      IN_EACH(a_session_of_its_own_does_not_hide_a_process),
      IN_EACH(a_session_of_its_own_that_ignores_the_signal_is_killed),
      IN_EACH(a_double_fork_does_not_hide_a_process),
      IN_EACH(nohup_in_the_background_does_not_hide_a_process), IN_EACH(two_hundred_children_end),
      IN_EACH(a_chain_of_twenty_ends), IN_EACH(one_that_is_stopped_is_woken_to_end),
      IN_EACH(one_that_is_blocked_on_a_fifo_ends), IN_EACH(a_fork_storm_ends),
      IN_EACH(forking_process_has_its_grace_period), IN_EACH(exit_code_after_sigterm_is_kept),
      IN_EACH(stop_sends_the_requested_signal_first),
      IN_EACH(process_is_killed_at_once_without_a_grace_period),
      IN_EACH(second_stop_without_grace_ends_a_grace_period_of_five_seconds),
      IN_EACH(stopped_scope_ends_the_wait_but_not_the_stop),
      IN_EACH(stop_right_after_the_start_leaves_no_process));
