/* `belay feature run`, `resume` and `retry`.
 *
 * Design notes.
 *
 * One fiber does it all: it reads, opens, runs and answers. Beside it are the signal listeners, the
 * writer of standard output, the control socket and the display. A request to end (a signal, a
 * closed output) stops `asked`. The run itself is not in that scope: a fiber tells the feature to
 * drain, because the request is not a stop yet. Until the feature is open there is nothing to
 * drain, so reading and opening run in `asked`.
 *
 * Events must not wait for a reader. Events that no reader takes are counted and dropped; the
 * journal in the store has all of them. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/answers.h"
#include "run.h"

#define TEXT_MAX       ((size_t)64 * 1024 * 1024)
#define STREAM_PENDING ((size_t)64 * 1024 * 1024)

static bool is_text(const struct feature_runner *work)
{
    return work->call->format == CLI_FORMAT_TEXT;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* A warning that is not in the journal, and so has no number. */
struct run_notice {
    const char *type;
    int64_t wall_ns;
    const char *run;
    const char *feature;
    const char *task; /* NULL */
    const char *message;
};

#define BL_RECORD_STRUCT struct run_notice
static const struct bl_member notice_members[] = {
    BL_MEMBER_STRING("type", type),
    BL_MEMBER_TIME("time", wall_ns),
    BL_MEMBER_STRING("run", run),
    BL_MEMBER_STRING("feature", feature),
    BL_MEMBER_STRING("task", task, .nullable = true),
    BL_MEMBER_STRING("message", message),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record notice_record =
    BL_RECORD("notice", struct run_notice, notice_members);

/* Reports dropped lines as soon as the reader continues. */
static void put_dropped(struct feature_runner *work, struct bl_buffer *out)
{
    struct bl_json_writer writer;
    char message[120];

    snprintf(message, sizeof message,
             "%llu event%s dropped because the output was not read; the journal has all events",
             (unsigned long long)work->dropped, work->dropped == 1 ? " was" : "s were");
    if (is_text(work)) {
        bl_buffer_printf(out, "… %s\n", message);
        return;
    }
    struct run_notice notice = {
        .type = "warning",
        .wall_ns = bl_clock_wall_ns(&bl_clock_system),
        .run = work->run_id,
        .feature = work->preparation->plan->id,
        .message = message,
    };
    bl_json_writer_init(&writer, out);
    bl_record_write(&writer, &notice_record, &notice);
    bl_buffer_append_byte(out, '\n');
}

static void offer(struct feature_runner *work, struct bl_buffer *out)
{
    size_t pending_max = is_text(work) ? CLI_STREAM_PENDING_MAX : STREAM_PENDING;

    if (cli_stream_offer(&work->stream, bl_buffer_text(out), pending_max))
        work->dropped = 0;
    else
        work->dropped++;
}

static void feature_run_write_line(struct feature_runner *work, struct bl_text type,
                                   struct bl_text json)
{
    const struct bl_json *event;
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (!feature_event_has_line(type))
        return;
    if (bl_json_read(&arena, json, NULL, &event, NULL) == 0) {
        if (work->dropped > 0)
            put_dropped(work, &out);
        if (bl_text_is(type, "warning"))
            bl_map_set(&work->warned, bl_json_text(bl_json_get(event, BL_TEXT("message"))), work,
                       NULL);
        feature_event_line(type, event, &out);
        offer(work, &out);
    }
}

static void feature_run_take_event(void *context, struct bl_text type, struct bl_text json)
{
    struct feature_runner *work = context;
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (is_text(work)) {
        if (work->lines)
            feature_run_write_line(work, type, json);
        return;
    }
    if (work->dropped > 0)
        put_dropped(work, &out);
    bl_buffer_append(&out, json);
    bl_buffer_append_byte(&out, '\n');
    offer(work, &out);
}

/* ---- Requests to end ------------------------------------------------------------------------- */

static void take_request(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct feature_runner *work = BL_CONTAINER(hook, struct feature_runner, stopped);
    struct bl_stop stop;

    bl_scope_stop_read(scope, &stop);
    bl_scope_stop(&work->output_scope, stop.reason, stop.origin);
    bl_semaphore_give(&work->requests);
}

static void tell_feature(struct feature_runner *work)
{
    struct bl_stop stop;

    if (work->told)
        return;
    work->told = true;
    bl_scope_stop_read(&work->asked, &stop);
    bl_feature_drain(work->feature, stop.reason, stop.origin);
}

static void feature_run_hurry(void *context)
{
    struct feature_runner *work = context;
    struct bl_stop stop;

    work->hurried = true;
    if (!work->running)
        return;
    tell_feature(work);
    bl_scope_stop_read(&work->asked, &stop);
    bl_feature_hurry(work->feature, stop.reason, stop.origin);
}

/* Runs from the start of the feature: requests made earlier are told then. */
static int feature_run_request_main(void *argument)
{
    struct feature_runner *work = argument;
    int code = bl_semaphore_take(&work->requests);

    if (code != 0 || !work->running)
        return code;
    tell_feature(work);
    if (work->hurried)
        feature_run_hurry(work);
    return 0;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void put_notice(struct bl_buffer *out, struct bl_text text)
{
    bl_buffer_append(out, BL_TEXT("warning: "));
    feature_put_safe(out, text);
    bl_buffer_append_byte(out, '\n');
}

static void feature_run_say_banner(struct feature_runner *work, const struct bl_error *unreachable)
{
    struct bl_error unused = {0};
    struct bl_feature_view *view = NULL;
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (!is_text(work))
        return;
    if (bl_feature_live(work->feature, &arena, &view, &unused) != 0)
        view = NULL;
    feature_banner_text(work->preparation->plan, &work->options->overrides, view, &work->warned,
                        &out);
    BL_LIST_EACH (link, &work->preparation->project.notices)
        put_notice(&out, BL_CONTAINER(link, struct bl_notice, link)->text);
    if (unreachable->code != 0) {
        struct bl_text text = bl_arena_printf(
            &arena, "other belay processes cannot reach this one to stop or pause it: %s",
            unreachable->message);
        put_notice(&out, text);
    }
    cli_stream_say(&work->stream, bl_buffer_text(&out));
    cli_stream_flush(&work->stream);
}

/* Opens a table on a terminal. Prints lines if standard output is not a terminal, or no table can
 * be drawn. */
static struct feature_display *open_display(struct feature_runner *work,
                                            struct bl_nursery *services)
{
    const char *terminal = bl_variable("TERM");
    bool seen = isatty(STDOUT_FILENO) == 1;
    struct feature_display *display = NULL;

    if (!is_text(work))
        return NULL;
    if (terminal != NULL && strcmp(terminal, "dumb") != 0)
        display =
            feature_display_new(services, work->feature, seen ? STDOUT_FILENO : STDERR_FILENO);
    work->lines = display == NULL || !seen;
    return display;
}

static void cli_run(struct feature_runner *work)
{
    struct bl_error unreachable = {0};
    struct bl_control *control = NULL;
    struct bl_nursery services;

    bl_nursery_init(&services, bl_scope_current());
    /* A run does not need its control socket. */
    if (bl_control_start(&services, &work->activities, &control, &unreachable) != 0)
        control = NULL;
    else
        feature_methods_offer(control, work->feature);
    feature_run_say_banner(work, &unreachable);
    int code = bl_nursery_spawn(&services, NULL, "requests", feature_run_request_main, work, NULL);
    struct feature_display *display = open_display(work, &services);
    /* Without the fiber that takes requests the run must not start. */
    if (code != 0)
        bl_scope_stop(&work->scope, BL_STOP_SHUTDOWN, "no fiber");
    work->running = true;
    work->exit_code = bl_feature_run(work->feature, &work->scope);
    work->running = false;
    (void)bl_scope_claim(&work->asked);
    feature_display_free(display);
    bl_control_stop(control);
    bl_nursery_done(&services);
}

/* Reads the final state from the store. If the store is unavailable or taken over, uses the
 * runner's state. */
static int read_view(struct feature_runner *work, struct bl_error *error)
{
    const struct bl_plan *plan = work->preparation->plan;
    enum bl_error_kind kind = work->error.kind;
    bool recorded =
        work->error.code == 0 || (kind != BL_KIND_FILESYSTEM && kind != BL_KIND_SESSION);
    struct bl_error unused = {0};

    if (recorded && bl_feature_look(work->store, &work->arena, plan->repository, plan->id,
                                    &work->view, &unused) == 0)
        return 0;
    return bl_feature_live(work->feature, &work->arena, &work->view, error);
}

/* Printed before the error. */
static void say_unsaved(struct feature_runner *work)
{
    BL_AUTO_BUFFER(unsaved, TEXT_MAX);

    bl_feature_unsaved_text(work->feature, &unsaved);
    if (unsaved.size > 0)
        bl_buffer_printf(&work->remarks, "belay feature: " BL_TEXT_FORMAT "\n",
                         BL_TEXT_ARG(unsaved));
}

/* Reads the final state while the feature is still open, and closes it. */
static void close_feature(struct feature_runner *work)
{
    const struct bl_error *failure = bl_feature_error(work->feature);
    struct bl_feature *feature = work->feature;
    struct bl_error detail = {0};

    if (failure != NULL && failure->code != 0)
        work->error = *failure;
    say_unsaved(work);
    if (read_view(work, &detail) != 0) {
        work->view = NULL;
        if (work->error.code == 0)
            work->error = detail;
        if (work->exit_code == CLI_EXIT_OK)
            work->exit_code = CLI_EXIT_FAILED;
    }
    /* A signal must not hurry a feature that is being freed. */
    work->feature = NULL;
    bl_feature_close(feature);
}

static int feature_run_stop_exit_code(const struct bl_scope *scope)
{
    struct bl_stop stop;

    bl_scope_stop_read(scope, &stop);
    return strcmp(stop.origin, "SIGTERM") == 0 ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
}

static void feature_run_perform(struct feature_runner *work)
{
    int code = feature_begin(work);

    if (code == 0) {
        cli_run(work);
        close_feature(work);
        return;
    }
    bool stopped = bl_scope_stopped(&work->asked) && (code == BL_ECANCELED || code == BL_ETIMEDOUT);
    if (stopped)
        bl_error_set(&work->error, code, BL_KIND_RUNTIME, "run the feature", NULL,
                     "stopped before anything started");
    bl_error_set(&work->error, code, BL_KIND_RUNTIME, "run the feature", NULL,
                 "the feature cannot run: %s", bl_error_text(code));
    work->exit_code =
        stopped ? feature_run_stop_exit_code(&work->asked) : cli_error_exit_code(&work->error);
}

/* ---- The answer ------------------------------------------------------------------------------ */

#define BL_RECORD_STRUCT struct feature_outcome
static const struct bl_member outcome_members[] = {
    BL_MEMBER_EMBED(view, &bl_feature_view_record),
    FEATURE_MEMBER_PROBLEMS("plan_errors", problems.errors, .optional = true, BL_KNOWN(of_run),
                            .about = "Only of run, resume and retry; always empty."),
    BL_MEMBER_POINTER("task", task, &bl_task_row_record, .optional = true,
                      .about = "Row of the task; only of status FEAT/TASK."),
    BL_MEMBER_JSON("checkpoint", checkpoint, .optional = true, .nullable = true, BL_KNOWN(of_task),
                   .record = &bl_checkpoint_record, .about = "Only of status FEAT/TASK."),
    BL_MEMBER_END,
};

/* The answer if nothing started: the reason. For status, or a wrong command line, only the
 * error. */
static const struct bl_member failure_members[] = {
    BL_MEMBER_POINTER("error", error, &bl_error_record),
    FEATURE_MEMBER_PROBLEMS("plan_errors", problems.errors, .optional = true, BL_KNOWN(of_run),
                            .about = "Only of run, resume and retry; empty: the plan is valid."),
    FEATURE_MEMBER_PROBLEMS("warnings", problems.warnings, .optional = true, BL_KNOWN(of_run),
                            .about = "Warnings about the plan."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record failure_record =
    BL_RECORD("failure", struct feature_outcome, failure_members);

static const int64_t failures[] = {CLI_EXIT_FAILED, CLI_EXIT_USAGE, CLI_EXIT_CLIENT_GONE,
                                   CLI_EXIT_TERMINATED};
static const struct bl_numbers outcome_failures = BL_NUMBERS(failures);
const struct cli_answer feature_answer = {
    BL_RECORD("feature", struct feature_outcome, outcome_members),
    .of = "feature run, resume and retry, and of status of one feature",
    .exits = &cli_exits_running,
    .failure = &failure_record,
    .failures = &outcome_failures,
    .format = CLI_ANSWER_ANY,
};

static void feature_run_write_json(struct feature_runner *work)
{
    struct feature_outcome outcome = {.error = &work->error, .of_run = true};
    const struct bl_record *record = work->view != NULL ? &feature_answer.record : &failure_record;

    if (work->view != NULL)
        outcome.view = *work->view;
    else
        feature_problems_take(work->preparation, &outcome.problems);
    cli_answer_stream(&work->stream, work->call, &work->exit_code, record, &outcome);
}

static void feature_run_write_text(struct feature_runner *work)
{
    const struct feature_preparation *preparation = work->preparation;
    struct bl_buffer out;

    if (work->view != NULL) {
        bl_buffer_init(&out, TEXT_MAX);
        feature_end_text(work->view, &work->warned, &out);
        cli_stream_say(&work->stream, bl_buffer_text(&out));
        bl_buffer_done(&out);
    } else if (preparation != NULL && !bl_list_empty(&preparation->problems)) {
        feature_problems_text(preparation, &work->remarks);
        work->error = (struct bl_error){0};
    }
}

/* Sets the exit code if the answer was not written: that is never a success. */
static void feature_run_answer_lost(struct feature_runner *work)
{
    int failed = work->stream.failed;

    if (failed == 0 || failed == EPIPE) {
        if (work->exit_code == CLI_EXIT_OK)
            work->exit_code = failed == EPIPE ? CLI_EXIT_CLIENT_GONE
                                              : feature_run_stop_exit_code(&work->output_scope);
        return;
    }
    work->exit_code = CLI_EXIT_FAILED;
    bl_error_set(&work->error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "write",
                 "standard output", "cannot write standard output: %s", strerror(failed));
}

static void feature_run_answer(struct feature_runner *work)
{
    if (is_text(work))
        feature_run_write_text(work);
    else
        feature_run_write_json(work);
    if (!cli_stream_flush(&work->stream))
        feature_run_answer_lost(work);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void feature_run_perform_and_answer(struct feature_runner *work)
{
    work->signals.after = &work->output_scope;
    int code = cli_signals_start(&work->signals, &work->asked, feature_run_hurry, work);

    if (code == 0) {
        feature_run_perform(work);
    } else {
        bl_error_set(&work->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
        work->exit_code = CLI_EXIT_FAILED;
    }
    feature_run_answer(work);
    bl_fleet_leave(work->member);
    bl_store_close(work->store);
    cli_signals_block(&work->signals);
    cli_signals_end(&work->signals);
}

static int feature_run_work_main(void *argument)
{
    struct feature_runner *work = argument;

    bl_scope_init(&work->output_scope, bl_scope_current());
    bl_scope_init(&work->asked, bl_scope_current());
    bl_scope_init(&work->scope, bl_scope_current());
    bl_semaphore_init(&work->requests, 0);
    bl_stop_hook_add(&work->stopped, &work->asked, take_request);
    work->exit_code = CLI_EXIT_FAILED;
    if (cli_stream_open(&work->stream, STDOUT_FILENO, &work->asked, &work->output_scope,
                        &work->error) == 0) {
        feature_run_perform_and_answer(work);
        cli_stream_close(&work->stream);
    }
    bl_stop_hook_remove(&work->stopped);
    bl_scope_done(&work->scope);
    bl_scope_done(&work->asked);
    bl_scope_done(&work->output_scope);
    return 0;
}

static int feature_run_here(const struct feature_options *options)
{
    struct cli_call *call = options->call;
    struct feature_runner *work = bl_zalloc(sizeof *work);

    work->options = options;
    work->call = call;
    work->lines = true; /* for events before there is a table */
    work->listener = (struct bl_feature_listener){.event = feature_run_take_event, .context = work};
    bl_arena_init(&work->arena);
    bl_buffer_init(&work->remarks, TEXT_MAX);
    bl_activities_init(&work->activities);
    bl_map_init(&work->warned);
    bl_id_make(work->run_id, "run_");
    cli_signals_block(&work->signals);
    cli_processes_begin();
    if (cli_loop_run("feature run", feature_run_work_main, work, &work->error) != 0) {
        work->exit_code = cli_fail(call, &work->error, cli_error_exit_code(&work->error));
    } else {
        /* With JSON, only what was not saved: the envelope has no place for it. */
        cli_remark(bl_buffer_text(&work->remarks));
        if (call->asked == CLI_FORMAT_TEXT && work->error.code != 0)
            cli_complain(call, &work->error);
    }
    int exit_code = work->exit_code;
    feature_preparation_free(work->preparation);
    bl_buffer_done(&work->remarks);
    bl_map_done(&work->warned);
    bl_arena_done(&work->arena);
    bl_free(work);
    return exit_code;
}

int feature_run_command(const struct feature_options *options)
{
    bool live = false;

    if (options->verb == FEATURE_RESUME) {
        int exit_code = feature_ask_command(options, &live);
        if (live)
            return exit_code;
    }
    return feature_run_here(options);
}
