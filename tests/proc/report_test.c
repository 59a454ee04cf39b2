/* The reports of a warden, and when they count. The wardens here are scripts. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"
#include "proc/parts.h"

/* A script in place of a warden: it reports the start, sends the message and exits. */
struct report {
    struct warden_message message;
    bool by_child; /* sends the message */
    bool leaves;   /* leaves a process alive */
    int exit_code;
    uint32_t survivors;
    int how;
    const char *unverified;
    char script[32];
};

static void report_write(FILE *file, const struct warden_message *message)
{
    const unsigned char *bytes = (const unsigned char *)message;
    fputs("printf '", file);
    for (size_t i = 0; i < sizeof *message; i++)
        fprintf(file, "\\%03o", bytes[i]);
    fprintf(file, "' >&%d\n", WARDEN_CONTROL);
}

static FILE *report_open_script(char script[32])
{
    snprintf(script, 32, "/tmp/belay-report-XXXXXX");
    FILE *file = fdopen(mkstemp(script), "w");
    fchmod(fileno(file), 0700);
    fputs("#!/bin/sh\n", file);
    return file;
}

static void report_write_script(struct report *report)
{
    FILE *file = report_open_script(report->script);
    report_write(file, &(struct warden_message){.type = WARDEN_STARTED});
    if (report->leaves)
        fprintf(file, "'%s' plain %d<&- %d<&- &\n", path_of_nasty(), WARDEN_LIFELINE,
                WARDEN_CONTROL);
    fputs(report->by_child ? "(\n" : "", file);
    report_write(file, &report->message);
    fprintf(file, "%sexit %d\n", report->by_child ? ")\n" : "", report->exit_code);
    fclose(file);
}

static int report_start(struct tool *tool, const char *script, struct bl_error *error)
{
    TOOL_INIT(tool, BL_MECHANISM_SUBREAPER, "plain");
    char *warden = strdup(getenv("BELAY_WARDEN"));
    setenv("BELAY_WARDEN", script, 1);
    int code = bl_warden_start(&tool->options, &tool->warden, error);
    setenv("BELAY_WARDEN", warden, 1);
    free(warden);
    return code;
}

static int take_report(void *argument)
{
    const struct report *report = argument;
    struct bl_warden_end end = {0};
    struct tool tool;
    if (CHECK_EQUAL(report_start(&tool, report->script, NULL), 0)) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(end.how, report->how);
        CHECK_EQUAL(end.survivors, report->survivors);
        CHECK_EQUAL(strcmp(end.unverified, report->unverified), 0);
    }
    tool_done(&tool);
    return 0;
}

static void a_report_counts_when_the_warden_sent_it_and_exited_with_0(void **state)
{
#define QUIET(number, why)                                                                         \
    {                                                                                              \
        .type = WARDEN_QUIET, .quiet = {                                                           \
            .survivors = (number),                                                                 \
            .doubt = (why),                                                                        \
            .doubt_errno = EIO                                                                     \
        }                                                                                          \
    }
#define DOUBT(why, text)                                                                           \
    {                                                                                              \
        .message = QUIET(WARDEN_UNKNOWN, why), .survivors = BL_SURVIVORS_UNKNOWN,                  \
        .how = BL_END_STOPPED, .unverified = (text)                                                \
    }
    static const char lost[] = "the warden was killed, and this program does not adopt orphans";
    static struct report reports[] = {
        {.message = QUIET(0, 0), .how = BL_END_STOPPED, .unverified = ""},
        {.message = QUIET(2, 0), .survivors = 2, .how = BL_END_STOPPED, .unverified = ""},
        DOUBT(WARDEN_DOUBT_NONE, "the warden gave no reason"),
        DOUBT(WARDEN_DOUBT_LOOK, "the process tree could not be read (Input/output error)"),
        DOUBT(WARDEN_DOUBT_MOVING, "processes were still starting and ending"),
        DOUBT(WARDEN_DOUBT_UNREAPED, "a dead process could not be reaped"),
        DOUBT(WARDEN_DOUBT_CGROUP, "the cgroup did not become empty (Input/output error)"),
        DOUBT(WARDEN_DOUBT_STUCK, "the warden was stopped or traced, and was killed"),
        DOUBT(99, "the warden gave no reason"),
        {.message = QUIET(0, 0),
         .by_child = true,
         .survivors = BL_SURVIVORS_UNKNOWN,
         .how = BL_END_LOST,
         .unverified = lost},
        {.message = QUIET(0, 0),
         .exit_code = 1,
         .survivors = BL_SURVIVORS_UNKNOWN,
         .how = BL_END_LOST,
         .unverified = lost},
    };
#undef DOUBT
#undef QUIET
    (void)state;
    for (size_t i = 0; i < BL_COUNT(reports); i++) {
        report_write_script(&reports[i]);
        run_in_loop(take_report, &reports[i]);
        unlink(reports[i].script);
    }
}

/* ---- Orphans ---- */

/* Starts a child before this program adopts orphans, which ends afterwards. Returns the child of
 * that child, which becomes this program's orphan. */
static pid_t orphan_of_stranger(void)
{
    int ends[2];
    pid_t orphan = -1;
    if (pipe(ends) != 0)
        return -1;
    pid_t stranger = fork();
    if (stranger == 0) {
        orphan = fork();
        alarm(CHILD_LIFE_S);
        if (orphan > 0 && write(ends[1], &orphan, sizeof orphan) != sizeof orphan)
            _exit(1);
        for (;;)
            pause();
    }
    ssize_t size = read(ends[0], &orphan, sizeof orphan);
    int code = bl_proc_adopt_orphans();
    kill(stranger, SIGKILL);
    /* Not reaped, so that its pid is not reused. */
    waitid(P_PID, (id_t)stranger, &(siginfo_t){0}, WEXITED | WNOWAIT);
    return size == sizeof orphan && code == 0 ? orphan : -1;
}

static int take_written_report(struct report *report)
{
    report_write_script(report);
    take_report(report);
    unlink(report->script);
    return 0;
}

/* Runs as a separate process, since adopting orphans cannot be undone. */
int report_role_left(void *argument)
{
    struct report report = {
        .message = {.type = WARDEN_QUIET}, .leaves = true, .how = BL_END_LOST, .unverified = ""};
    (void)argument;
    CHECK_EQUAL(bl_proc_adopt_orphans(), 0);
    return take_written_report(&report);
}

int report_role_stranger(void *argument)
{
    struct report report = {
        .message = {.type = WARDEN_QUIET}, .how = BL_END_STOPPED, .unverified = ""};
    pid_t orphan = orphan_of_stranger();
    (void)argument;
    if (CHECK(orphan > 0)) {
        take_written_report(&report);
        CHECK_EQUAL(kill(orphan, SIGKILL), 0);
    }
    return 0;
}

static void check_role(const char *name)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "proc_test", "--role", name, "subreaper", "", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void report_does_not_count_if_orphans_are_adopted_after_it(void **state)
{
    (void)state;
    check_role("left");
}

static void report_counts_and_orphans_of_other_children_are_spared(void **state)
{
    (void)state;
    check_role("stranger");
}

/* ---- Failures ---- */

struct failure {
    int error;
    enum warden_stage stage;
    int code;
    const char *message, *hint;
};

/* Takes the place of a warden that cannot start its command. */
static int take_failure(void *argument)
{
    const struct failure *failure = argument;
    struct bl_error error = {0};
    char script[32];
    struct tool tool;
    FILE *file = report_open_script(script);
    report_write(file, &(struct warden_message){

                           .type = WARDEN_FAILED,
                           .failed = {.code = failure->error, .stage = (int32_t)failure->stage}});
    report_write(file, &(struct warden_message){.type = WARDEN_QUIET});
    fclose(file);
    CHECK_EQUAL(report_start(&tool, script, &error), failure->code);
    CHECK(tool.warden == NULL);
    CHECK_EQUAL(error.code, failure->code);
    if (!CHECK(strstr(error.message, failure->message) != NULL))
        fprintf(stderr, "%s\n", error.message);
    CHECK(strstr(error.hint, failure->hint) != NULL);
    tool_done(&tool);
    unlink(script);
    return 0;
}

static void failed_start_reports_its_step(void **state)
{
    static struct failure failures[] = {
        {ENOENT, WARDEN_STAGE_EXEC, BL_ENOENT, "command not found", "PATH"},
        {ENOTDIR, WARDEN_STAGE_EXEC, BL_ENOENT, "command not found", "PATH"},
        {ENOEXEC, WARDEN_STAGE_EXEC, BL_EACCES, "Exec format error", "chmod +x"},
        {EPERM, WARDEN_STAGE_CGROUP, BL_ENOTSUP, "cannot create a cgroup: Operation not permitted",
         "belay doctor"},
        {ENOSPC, WARDEN_STAGE_NAMESPACE, BL_ENOTSUP,
         "cannot create a PID namespace: No space left on device", "belay doctor"},
        {EINVAL, WARDEN_STAGE_LIMIT, BL_EINVAL, "cannot limit memory: Invalid argument",
         "belay doctor"},
        {EINVAL, WARDEN_STAGE_TERMINAL, BL_EINVAL,
         "cannot open the controlling terminal: Invalid argument", "belay doctor"},
        {ENOENT, WARDEN_STAGE_PROC, BL_ENOENT, "cannot read /proc: No such file or directory",
         "belay doctor"},
        {EINVAL, WARDEN_STAGE_START, BL_EINVAL, "cannot start a process: Invalid argument",
         "belay doctor"},
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(failures); i++)
        run_in_loop(take_failure, &failures[i]);
}

/* A tool that traces its warden can make it send any message. */
static int take_contradictions(void *argument BL_UNUSED)
{
    static const struct warden_message messages[] = {
        {.type = WARDEN_STARTED, .started.pid = 4711},
        {.type = WARDEN_STARTED, .started.pid = 4712},
        {.type = WARDEN_FAILED, .failed.code = ENOENT},
        {.type = WARDEN_STOP},
        {.type = WARDEN_ENDED, .ended = {.status = 3 << 8, .left_behind = 2}},
        {.type = WARDEN_ENDED},
        {.type = 1000000},
        {.type = -1},
        {.type = WARDEN_STARTED, .started.pid = 4713},
        {.type = WARDEN_QUIET},
    };
    char script[32];
    struct tool tool;
    struct bl_warden_end end = {0};
    FILE *file = report_open_script(script);
    for (size_t i = 0; i < BL_COUNT(messages); i++)
        report_write(file, &messages[i]);
    fclose(file);
    if (CHECK_EQUAL(report_start(&tool, script, NULL), 0)) {
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(bl_warden_pid(tool.warden), 4711);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK_EQUAL(end.status, 3);
        CHECK_EQUAL(end.left_behind, 2);
        CHECK_EQUAL(end.survivors, 0);
    }
    tool_done(&tool);
    unlink(script);
    return 0;
}

static void messages_that_contradict_an_earlier_one_are_ignored(void **state BL_UNUSED)
{
    run_in_loop(take_contradictions, NULL);
}

SUITE(report, cmocka_unit_test(a_report_counts_when_the_warden_sent_it_and_exited_with_0),
      cmocka_unit_test(report_does_not_count_if_orphans_are_adopted_after_it),
      cmocka_unit_test(report_counts_and_orphans_of_other_children_are_spared),
      cmocka_unit_test(failed_start_reports_its_step),
      cmocka_unit_test(messages_that_contradict_an_earlier_one_are_ignored));
