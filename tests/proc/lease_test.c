/* Leases of wardens: a Belay process that is stopped, or suspended with its machine, leaves nothing
 * running when its lease has ended. W lines: docs/spec, fleet. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <belay/json.h>

#include "figure.h"
#include "helpers.h"
#include "proc/parts.h"

#define LEASE_MS       2000
#define SHORT_LEASE_MS 200
/* Of a warden that must be stopped while the lease runs, which a busy machine may delay. */
#define STOPPED_LEASE_MS 1000
#define LONG_LEASE_MS    60000
/* From the end of a lease to the end of the last process. Measured: 1 to 6. */
#define KILL_MS   60.0
#define TICK_MS   10
#define TICKS_MAX 10 /* W21 */
#define GONE_MS   10000
#define CROWD     200
#define WAKE_MS   100.0 /* W27 */
#define HOUR_NS   (3600 * BL_NS_PER_S)

static uint64_t boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * BL_NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t after_ms(uint64_t ms)
{
    return boot_ns() + ms * MS;
}

/* Milliseconds from a time on CLOCK_BOOTTIME to another; negative if that is earlier. */
static double between_ms(uint64_t from_ns, uint64_t to_ns)
{
    return ((double)to_ns - (double)from_ns) / (double)MS;
}

/* ---- Ticks ---- */

#define TICKS_PATH_MAX 64

static void ticks_path(const char *marker, char path[TICKS_PATH_MAX])
{
    snprintf(path, TICKS_PATH_MAX, "/tmp/belay-ticks-%.16s", strchr(marker, '=') + 1);
}

static size_t ticks_count(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (size_t)status.st_size / sizeof(uint64_t) : 0;
}

static uint64_t ticks_last(const char *path)
{
    uint64_t tick = 0;
    size_t count = ticks_count(path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (count == 0 || pread(fd, &tick, sizeof tick, (off_t)((count - 1) * sizeof tick)) < 0)
        tick = 0;
    close(fd);
    return tick;
}

/* ---- A Belay process that is stopped --------------------------------------------------------- */

struct beginning {
    pid_t warden;
    uint64_t until_ns;
};

struct ending {
    int code, how, signal;
    bool lease_ended;
    uint32_t survivors, receipt_survivors;
    char receipt[4096];
};

/* The context of report_beginning. */
struct start {
    struct bl_command_control control;
    struct beginning beginning;
};

static void report_beginning(void *context)
{
    struct start *start = context;
    struct beginning beginning = start->beginning;
    beginning.warden = warden_of(bl_warden_pid(start->control.running));
    CHECK(write(REPORT_FD, &beginning, sizeof beginning) == sizeof beginning);
}

/* Runs a tool that ticks, under a lease that is never renewed. Its scope has a deadline a little
 * before the end of the lease: like a worker of the fleet, it would stop the tool by itself. */
int lease_role_hold(void *argument)
{
    static struct ending ending;
    struct bl_json_writer *writer = bl_alloc(sizeof *writer);
    struct start start = {.beginning.until_ns = after_ms(LEASE_MS)};
    struct tool tool;
    struct bl_warden_end end;
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_buffer text;
    char path[TICKS_PATH_MAX];
    ticks_path(((const struct role *)argument)->marker, path);
    role_tool_init(&tool, argument, (const char *const[]){"ticks", path, NULL});
    CHECK_EQUAL(bl_proc_adopt_orphans(), 0);
    bl_wardens_lease(start.beginning.until_ns);
    bl_scope_init(&scope, bl_scope_current());
    bl_receipt_open(&receipt, &scope, "run_test");
    bl_scope_set_timeout(&scope, LEASE_MS * 0.9e-3, NULL);
    struct bl_scope *outer = bl_scope_enter(&scope);
    ending.code = bl_command_run(&(struct bl_command){.kind = BL_UNIT_TOOL,
                                                      .id = "call_1",
                                                      .name = "bash",
                                                      .options = tool.options,
                                                      .on_started = report_beginning,
                                                      .control = &start.control,
                                                      .context = &start},
                                 &end, NULL);
    bl_scope_enter(outer);
    ending.how = end.how;
    ending.signal = end.by_signal ? end.status : 0;
    ending.lease_ended = end.lease_ended;
    ending.survivors = end.survivors;
    ending.receipt_survivors = bl_receipt_survivors(&receipt);
    bl_buffer_init(&text, sizeof ending.receipt - 1);
    bl_json_writer_init(writer, &text);
    bl_receipt_write(&receipt, writer);
    CHECK_EQUAL(bl_json_writer_done(writer), 0);
    memcpy(ending.receipt, text.data, text.size);
    CHECK(write(REPORT_FD, &ending, sizeof ending) == sizeof ending);
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
    bl_buffer_done(&text);
    bl_free(writer);
    bl_free(tool.environment);
    return 0;
}

struct frozen {
    struct belay belay;
    struct beginning beginning;
    char path[TICKS_PATH_MAX];
};

static void frozen_begin(struct frozen *frozen, enum bl_mechanism container)
{
    double end_ms = now_ms() + LEASE_MS * 0.8;
    belay_start(&frozen->belay, "lease", container);
    ticks_path(frozen->belay.marker, frozen->path);
    belay_hear(&frozen->belay, &frozen->beginning, sizeof frozen->beginning);
    while (ticks_count(frozen->path) < 3 && now_ms() < end_ms)
        nap_ms(1);
    assert_true(ticks_count(frozen->path) >= 3);
}

/* Waits until the tool has ended, and returns the time on CLOCK_BOOTTIME. */
static uint64_t frozen_await_end(const struct frozen *frozen)
{
    double end_ms = now_ms() + GONE_MS;
    while (marker_scan(frozen->belay.marker, NULL, '\0')->tools > 0 && now_ms() < end_ms)
        nap_ms(1);
    uint64_t gone_ns = boot_ns();
    if (marker_count(frozen->belay.marker) != 0) {
        kill(frozen->belay.pid, SIGKILL);
        marker_kill(frozen->belay.marker);
        fail_msg("the tool outlived the lease");
    }
    return gone_ns;
}

/* Checks what the process reports after it was continued. */
static struct ending frozen_hear_report(struct frozen *frozen)
{
    static struct ending ending;
    belay_hear(&frozen->belay, &ending, sizeof ending);
    int status = belay_end(&frozen->belay);
    unlink(frozen->path);
    assert_int_equal(status, 0);
    assert_int_equal(ending.code, BL_ETIMEDOUT);
    assert_int_equal(ending.how, BL_END_STOPPED);
    assert_int_equal(ending.survivors, 0);
    assert_int_equal(ending.receipt_survivors, 0);
    return ending;
}

/* The warden has ended the tree by itself. */
static void frozen_check_report(struct frozen *frozen)
{
    struct ending ending = frozen_hear_report(frozen);
    assert_int_equal(ending.signal, SIGKILL);
    assert_true(ending.lease_ended);
    suite_fail_if(strstr(ending.receipt, "\"fate\":\"killed\"") == NULL, "%s", ending.receipt);
    suite_fail_if(strstr(ending.receipt, "the lease ended") == NULL, "%s", ending.receipt);
}

static void W19_W20_nothing_of_a_stopped_belay_outlives_its_lease(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    char name[128];
    for (unsigned long i = suite_rounds(1, 20); i > 0; i--) {
        struct frozen frozen;
        frozen_begin(&frozen, container);
        kill(frozen.belay.pid, SIGSTOP);
        uint64_t gone_ns = frozen_await_end(&frozen);
        uint64_t until_ns = frozen.beginning.until_ns, last_ns = ticks_last(frozen.path);
        snprintf(name, sizeof name, "W19 processes gone after the end of the lease in %s",
                 bl_mechanism_name(container));
        assert_true(figure_between(name, between_ms(until_ns, gone_ns), 0, KILL_MS));
        snprintf(name, sizeof name, "W19 last tick after the end of the lease in %s",
                 bl_mechanism_name(container));
        assert_true(
            figure_at_most(name, last_ns > until_ns ? between_ms(until_ns, last_ns) : 0, KILL_MS));
        /* The tool was not stopped before, either. */
        assert_true(between_ms(last_ns, until_ns) < figure_wide_ms(KILL_MS));
        kill(frozen.belay.pid, SIGCONT);
        frozen_check_report(&frozen);
    }
}

static void frozen_signal(const struct frozen *frozen, int number)
{
    const struct marked *found = marker_scan(frozen->belay.marker, NULL, '\0');
    for (size_t i = 0; i < found->tools; i++)
        kill(found->pids[i], number);
    kill(frozen->beginning.warden, number);
    kill(frozen->belay.pid, number);
}

static void W21_a_tool_that_was_stopped_with_its_warden_ends_when_they_continue(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    struct frozen frozen;
    char name[128];
    frozen_begin(&frozen, container);
    frozen_signal(&frozen, SIGSTOP);
    while (boot_ns() < frozen.beginning.until_ns + SHORT_LEASE_MS * MS)
        nap_ms(10);
    size_t before = ticks_count(frozen.path);
    assert_true(ticks_last(frozen.path) < frozen.beginning.until_ns);
    assert_true(marker_count(frozen.belay.marker) >= 2);
    frozen_signal(&frozen, SIGCONT);
    frozen_await_end(&frozen);
    snprintf(name, sizeof name, "W21 ticks after SIGCONT in %s, as ms",
             bl_mechanism_name(container));
    assert_true(figure_at_most(name, (double)(ticks_count(frozen.path) - before) * TICK_MS,
                               TICKS_MAX * TICK_MS));
    /* Both continue at once: the stop by Belay's own deadline may come first. */
    frozen_hear_report(&frozen);
}

/* ---- Leases of living processes -------------------------------------------------------------- */

static void check_lease_end(const struct bl_warden_end *end)
{
    CHECK_EQUAL(end->how, BL_END_STOPPED);
    CHECK(end->lease_ended);
    CHECK(end->by_signal);
    CHECK_EQUAL(end->status, SIGKILL);
    CHECK_EQUAL(end->strongest_signal, SIGKILL);
    CHECK_EQUAL(end->survivors, 0);
}

/* Waits for the end of the lease. Returns how late the tool ended, in ms. */
static double tool_await_lease_end(struct tool *tool, uint64_t until_ns)
{
    struct bl_warden_end end = {0};
    CHECK_EQUAL(bl_warden_wait(tool->warden, &end), 0);
    double late_ms = between_ms(until_ns, boot_ns());
    check_lease_end(&end);
    CHECK_EQUAL(marker_count(tool->marker), 0);
    CHECK(late_ms >= 0);
    return late_ms;
}

/* W22: "cut for a third of a lease: no stop" */
static int renew(void *argument)
{
    struct tool tool;
    unsigned long renewals = suite_rounds(25, 400);
    uint64_t until_ns = after_ms(LEASE_MS / 2);
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "many", "3");
    bl_wardens_lease(until_ns);
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 4);
        for (unsigned long i = 0; i < renewals; i++) {
            until_ns = after_ms(LEASE_MS / 2);
            bl_wardens_lease(until_ns);
            CHECK_EQUAL(bl_sleep(LEASE_MS / 20 * MS), 0);
        }
        CHECK_EQUAL(marker_count(tool.marker), 4);
        CHECK(tool_await_lease_end(&tool, until_ns) < figure_wide_ms(KILL_MS));
    }
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void W22_renewals_keep_a_tree_alive_for_many_leases(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(renew, &container);
}

static int shorten(void *argument)
{
    struct tool tool;
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "setsid-ignore");
    bl_wardens_lease(after_ms(LONG_LEASE_MS));
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 2);
        uint64_t until_ns = after_ms(SHORT_LEASE_MS);
        bl_wardens_lease(until_ns);
        CHECK(figure_at_most("W19 end of a shortened lease", tool_await_lease_end(&tool, until_ns),
                             KILL_MS));
    }
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void a_lease_can_be_shortened(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(shorten, &container);
}

static int come_and_go(void *argument)
{
    struct tool tool;
    struct bl_warden_end end;
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "many", "1");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 2);
        bl_wardens_lease(after_ms(SHORT_LEASE_MS));
        bl_wardens_lease(0);
        CHECK_EQUAL(bl_sleep(2 * SHORT_LEASE_MS * MS), 0);
        CHECK_EQUAL(marker_count(tool.marker), 2);
        uint64_t until_ns = after_ms(SHORT_LEASE_MS);
        bl_wardens_lease(until_ns);
        tool_await_lease_end(&tool, until_ns);
        bl_warden_stop(tool.warden, 0, 0, &end);
        check_lease_end(&end);
    }
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void a_lease_comes_later_and_0_removes_it(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(come_and_go, &container);
}

static int start_too_late(void *argument)
{
    struct tool tool;
    struct bl_error error = {0};
    char file[] = "/tmp/belay-lease-XXXXXX";
    close(mkstemp(file));
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&tool, (const char *const[]){"rm", file, NULL});
    bl_wardens_lease(boot_ns() - 1);
    CHECK_EQUAL(bl_warden_start(&tool.options, &tool.warden, &error), BL_EREFUSED);
    CHECK(strstr(error.message, "the lease of this process has ended") != NULL);
    CHECK_EQUAL(unlink(file), 0); /* rm did not run */
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void nothing_is_started_after_the_end_of_the_lease(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(start_too_late, &container);
}

static int renew_always(void *argument)
{
    const bool *ended = argument;
    while (!*ended && bl_yield() == 0)
        bl_wardens_lease(after_ms(LONG_LEASE_MS));
    return 0;
}

/* While a warden waits for execve, another message than a renewal means that it is to give up. */
static int fail_while_renewed(void *argument)
{
    bool ended = false;
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "renew", renew_always, &ended, NULL);
    for (unsigned long i = suite_rounds(20, 1000); i > 0; i--) {
        struct tool tool;
        TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
        tool_set_command(&tool, (const char *const[]){"/no/such/program", NULL});
        CHECK_EQUAL(bl_warden_start(&tool.options, &tool.warden, NULL), BL_ENOENT);
        bl_warden_free(tool.warden);
        bl_free(tool.environment);
    }
    ended = true;
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    bl_wardens_lease(0);
    return 0;
}

static void renewals_do_not_hide_a_failed_start(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(fail_while_renewed, &container);
}

static int end_in_grace(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "ignore-term");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 1);
        uint64_t until_ns = after_ms(SHORT_LEASE_MS);
        bl_wardens_lease(until_ns);
        tool_stop(&tool, LONG_LEASE_MS, &end);
        CHECK(boot_ns() >= until_ns);
        check_lease_end(&end);
    }
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void the_end_of_the_lease_cuts_a_grace_period(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(end_in_grace, &container);
}

/* ---- Processes left behind ---- */

static int keep_left(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "setsid", "leave");
    tool.options.background = true;
    if (tool_start(&tool) == 0) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK(!end.lease_ended);
        CHECK_EQUAL(end.left_behind, 1);
        bl_wardens_lease(after_ms(SHORT_LEASE_MS));
        CHECK_EQUAL(proc_warden_wait_tree(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK_EQUAL(end.status, 0);
        CHECK(end.lease_ended);
        CHECK_EQUAL(end.survivors, 0);
    }
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void renew_short(void *context BL_UNUSED, const struct bl_warden_end *end BL_UNUSED)
{
    bl_wardens_lease(after_ms(SHORT_LEASE_MS));
}

static int run_with_left(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "setsid", "leave");
    tool.options.background = true;
    CHECK_EQUAL(bl_command_run(&(struct bl_command){.kind = BL_UNIT_TOOL,
                                                    .id = "call_1",
                                                    .name = "bash",
                                                    .options = tool.options,
                                                    .on_left = renew_short},
                               &end, NULL),
                0);
    CHECK_EQUAL(end.how, BL_END_STOPPED);
    CHECK(end.lease_ended);
    CHECK_EQUAL(end.strongest_signal, SIGKILL);
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void processes_left_behind_end_with_the_lease(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(keep_left, &container);
    run_in_loop(run_with_left, &container);
}

/* ---- Wardens that do not read ---- */

/* Renews the lease of a stopped warden before or after it has ended, and continues the warden. */
static void renew_stopped(struct tool *tool, pid_t warden, bool late)
{
    uint64_t until_ns = after_ms(STOPPED_LEASE_MS);
    bl_wardens_lease(until_ns);
    CHECK_EQUAL(bl_sleep(SHORT_LEASE_MS / 4 * MS), 0);
    CHECK_EQUAL(kill(warden, SIGSTOP), 0);
    for (int i = 0; i < 20 && !late; i++)
        bl_wardens_lease(after_ms(LONG_LEASE_MS));
    while (boot_ns() < until_ns + 10 * MS)
        CHECK_EQUAL(bl_sleep(10 * MS), 0);
    if (late)
        bl_wardens_lease(after_ms(LONG_LEASE_MS));
    CHECK_EQUAL(kill(warden, SIGCONT), 0);
    CHECK_EQUAL(bl_sleep(SHORT_LEASE_MS / 4 * MS), 0);
    CHECK_EQUAL(marker_count(tool->marker), 2);
}

static int stop_warden(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "many", "1");
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 2);
        pid_t warden = warden_of(bl_warden_pid(tool.warden));
        renew_stopped(&tool, warden, false);
        renew_stopped(&tool, warden, true);
        /* More than fit into its socket: they must not wait, nor take the place of a stop. */
        CHECK_EQUAL(kill(warden, SIGSTOP), 0);
        for (int i = 0; i < 2000; i++)
            bl_wardens_lease(after_ms(LONG_LEASE_MS));
        tool_stop(&tool, LONG_LEASE_MS, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK_EQUAL(end.strongest_signal, SIGTERM);
        CHECK(!end.lease_ended);
    }
    bl_wardens_lease(0);
    tool_done(&tool);
    return 0;
}

static void a_warden_that_was_stopped_reads_its_renewals_first(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_warden, &container);
}

/* ---- Races ---- */

struct outcomes {
    unsigned exited, killed, refused, left;
};

/* The command exits by itself, in the same millisecond or so as its lease ends: it has exactly one
 * of the two ends. */
static void race_once(enum bl_mechanism container, struct bl_random *random,
                      struct outcomes *outcomes)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    char at[32];
    uint64_t exit_ns = after_ms(40 + bl_random_below(random, 20));
    bool leave = bl_random_below(random, 4) == 0;
    snprintf(at, sizeof at, "%llu", (unsigned long long)exit_ns);
    if (leave)
        TOOL_INIT(&tool, container, "setsid", "leave");
    else
        TOOL_INIT(&tool, container, "exit-at", at);
    tool.options.grace_ms = (uint32_t)bl_random_below(random, 2) * 10;
    bl_wardens_lease(exit_ns + bl_random_below(random, 2 * MS) - MS / 2);
    int code = bl_warden_start(&tool.options, &tool.warden, NULL);
    if (code == 0) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(marker_count(tool.marker), 0);
        CHECK_EQUAL(end.survivors, 0);
        if (end.how == BL_END_EXITED)
            CHECK_EQUAL(end.status, 0);
        else
            check_lease_end(&end);
        /* The init of a namespace does not say which of its processes had to be killed. */
        CHECK(end.how != BL_END_EXITED || !end.lease_ended || leave ||
              container == BL_MECHANISM_PIDNS);
    } else {
        CHECK_EQUAL(code, BL_EREFUSED);
    }
    outcomes->refused += code != 0;
    outcomes->left += code == 0 && leave;
    outcomes->exited += code == 0 && !leave && end.how == BL_END_EXITED;
    outcomes->killed += code == 0 && !leave && end.how != BL_END_EXITED;
    bl_wardens_lease(0);
    tool_done(&tool);
}

static int race(void *argument)
{
    enum bl_mechanism container = *(enum bl_mechanism *)argument;
    struct outcomes outcomes = {0};
    struct bl_random random;
    bl_random_seed(&random, (uint64_t)getpid());
    for (unsigned long i = suite_rounds(SUITE_SANITIZED ? 10 : 25, 2000); i > 0; i--)
        race_once(container, &random, &outcomes);
    print_message("           %s: %u exited, %u killed, %u refused, %u with a process left\n",
                  bl_mechanism_name(container), outcomes.exited, outcomes.killed, outcomes.refused,
                  outcomes.left);
    CHECK(outcomes.exited + outcomes.killed > 0);
    return 0;
}

static void an_exit_and_the_end_of_the_lease_in_the_same_moment(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(race, &container);
}

/* ---- Many wardens ---- */

static int end_crowd(void *argument BL_UNUSED)
{
    static struct tool tools[CROWD];
    size_t count = SUITE_SANITIZED ? CROWD / 4 : CROWD;
    for (size_t i = 0; i < count; i++) {
        TOOL_INIT(&tools[i], BL_MECHANISM_SUBREAPER, "plain");
        tool_start(&tools[i]);
    }
    uint64_t until_ns = after_ms(LONG_LEASE_MS), begun_ns = boot_ns();
    bl_wardens_lease(until_ns);
    CHECK(figure_at_most("W19 renewal of 200 wardens", between_ms(begun_ns, boot_ns()), 20));
    until_ns = after_ms(LEASE_MS / 2);
    bl_wardens_lease(until_ns);
    double late_ms = 0;
    for (size_t i = 0; i < count; i++) {
        struct bl_warden_end end = {0};
        CHECK_EQUAL(bl_warden_wait(tools[i].warden, &end), 0);
        late_ms = between_ms(until_ns, boot_ns());
        check_lease_end(&end);
    }
    CHECK(figure_between("W19 end of 200 wardens after the end of the lease", late_ms, 0, 1000));
    bl_wardens_lease(0);
    for (size_t i = 0; i < count; i++)
        tool_done(&tools[i]);
    return 0;
}

static void two_hundred_wardens_end_with_one_lease(void **state BL_UNUSED)
{
    run_in_loop(end_crowd, NULL);
}

/* ---- Suspended machines ---- */

static int suspend(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};
    char *warden = strdup(getenv("BELAY_WARDEN")), file[] = "/tmp/belay-boottime-XXXXXX";
    int64_t shift_ns = 2 * HOUR_NS;
    int fd = mkstemp(file);
    setenv("BELAY_WARDEN", SHIFTED_WARDEN_PATH, 1);
    setenv("BELAY_TEST_BOOTTIME", file, 1);
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "setsid-ignore");
    bl_wardens_lease(boot_ns() + HOUR_NS);
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 2);
        CHECK_EQUAL(bl_sleep(SHORT_LEASE_MS * MS), 0);
        CHECK_EQUAL(marker_count(tool.marker), 2);
        double start_ms = now_ms();
        CHECK(pwrite(fd, &shift_ns, sizeof shift_ns, 0) == sizeof shift_ns);
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK(figure_at_most("W27 tools gone after a suspension", now_ms() - start_ms, WAKE_MS));
        check_lease_end(&end);
    }
    bl_wardens_lease(0);
    tool_done(&tool);
    setenv("BELAY_WARDEN", warden, 1);
    unsetenv("BELAY_TEST_BOOTTIME");
    free(warden);
    unlink(file);
    close(fd);
    return 0;
}

static void W27_tools_end_when_the_machine_wakes_after_the_lease(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(suspend, &container);
}

SUITE(lease, IN_EACH(W19_W20_nothing_of_a_stopped_belay_outlives_its_lease),
      IN_EACH(W21_a_tool_that_was_stopped_with_its_warden_ends_when_they_continue),
      IN_EACH(W22_renewals_keep_a_tree_alive_for_many_leases), IN_EACH(a_lease_can_be_shortened),
      IN_EACH(a_lease_comes_later_and_0_removes_it),
      IN_EACH(nothing_is_started_after_the_end_of_the_lease),
      IN_EACH(renewals_do_not_hide_a_failed_start),
      IN_EACH(the_end_of_the_lease_cuts_a_grace_period),
      IN_EACH(processes_left_behind_end_with_the_lease),
      IN_EACH(a_warden_that_was_stopped_reads_its_renewals_first),
      IN_EACH(an_exit_and_the_end_of_the_lease_in_the_same_moment),
      cmocka_unit_test(two_hundred_wardens_end_with_one_lease),
      IN_EACH(W27_tools_end_when_the_machine_wakes_after_the_lease));
