/* Design notes.
 *
 * One fiber performs all steps in order: read, open, run, answer. Other fibers listen for signals,
 * write standard output and serve the control socket. The run has a scope of its own: signals, the
 * deadline and a reader that closes its end stop that scope, while the fiber continues outside of
 * it, because after a stop there is still a result to write.
 *
 * Stop signals are blocked until the listeners are ready, and again from the answer to the end of
 * the process: no signal may end the process in a way that the answer does not report. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <belay/serve.h>

#include "progress.h"
#include "run.h"

#define LISTENER_NAP_NS (10 * BL_NS_PER_MS)
#define LATE_NS         (40 * BL_NS_PER_MS)

/* ---- Before the session ---------------------------------------------------------------------- */

/* A stop of the run also ends the wait for its reader. */
static void run_work_end_waits(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct bl_stop stop;

    bl_scope_stop_read(scope, &stop);
    bl_scope_stop(&BL_CONTAINER(hook, struct run_work, stopped)->wait_limit, stop.reason,
                  stop.origin);
}

static void run_work_open_scopes(struct run_work *work)
{
    const struct run_options *options = work->options;

    bl_scope_init(&work->wait_limit, bl_scope_current());
    bl_scope_init(&work->scope, bl_scope_current());
    bl_stop_hook_add(&work->stopped, &work->scope, run_work_end_waits);
    /* A deadline that has already passed is left to the loop, which produces one result. */
    if (!options->workspace.timed || options->workspace.timeout_ns <= 0)
        return;
    uint64_t deadline_ns = bl_time_add(work->started_ns, (uint64_t)options->workspace.timeout_ns);
    bl_scope_set_deadline(&work->wait_limit, deadline_ns);
    bl_scope_set_deadline(&work->scope, deadline_ns);
}

static void run_work_close_scopes(struct run_work *work)
{
    bl_stop_hook_remove(&work->stopped);
    bl_scope_done(&work->scope);
    bl_scope_done(&work->wait_limit);
}

/* The prompt is read last, because standard input may never end: errors in the files come first. */
static int run_work_read(struct run_work *work)
{
    bool reminds = work->call->format == CLI_FORMAT_TEXT && !work->options->quiet;
    const char *notice = NULL;
    int code = bl_workspace_read(work->workspace, &work->error);

    if (code == 0)
        code = run_prompt_read(work->options, reminds, &work->arena, &work->prompt, &notice,
                               &work->error);
    if (notice != NULL)
        bl_workspace_warn(work->workspace, bl_text_from(notice));
    return code;
}

/* If the deadline has already passed at the start, files get a short time, so that the one result
 * is recorded in the session as usual; a file that blocks longer is too late. */
static int prepare_late(struct run_work *work)
{
    struct bl_scope moment;

    bl_scope_init(&moment, &work->scope);
    bl_scope_set_deadline(&moment, bl_time_add(bl_now_ns(), LATE_NS));
    struct bl_scope *outer = bl_scope_enter(&moment);
    int code = run_work_read(work);
    bl_scope_enter(outer);
    bl_scope_done(&moment);
    if (code == BL_ETIMEDOUT)
        bl_scope_set_deadline(&work->scope, bl_now_ns());
    return code;
}

/* Waits until standard error accepts a few lines: it may be a full pipe, as standard output may be,
 * and must not delay the run past the deadline. Returns false if it accepts none after a stop. */
static bool run_work_await_listener(const struct run_work *work)
{
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    uint64_t waited_ns = 0;

    while (poll(&error, 1, 0) != 1) {
        if (bl_scope_stopped(&work->wait_limit))
            waited_ns += LISTENER_NAP_NS;
        if (waited_ns >= CLI_STREAM_LINGER_NS)
            return false;
        bl_sleep(LISTENER_NAP_NS);
    }
    return true;
}

/* Attaches the files that the prompt of the command line names. Standard input was written by
 * others, so it attaches no files. Runs in the run's scope. */
static int run_work_attach(struct run_work *work)
{
    struct bl_workspace *workspace = work->workspace;

    int code = bl_workspace_attach(workspace, bl_text_from(work->options->prompt),
                                   workspace->model.takes_images, &work->arena, &work->attached);
    BL_LIST_EACH (link, &work->attached.warnings)
        bl_workspace_warn(workspace, BL_CONTAINER(link, struct bl_notice, link)->text);
    return code;
}

/* In text, reports what the user may not expect. */
static void say_surprises(struct run_work *work)
{
    if (work->call->format != CLI_FORMAT_TEXT || !run_work_await_listener(work))
        return;
    if (!work->workspace->found.chosen)
        cli_remark(
            BL_TEXT("belay: no provider is configured; the built-in script model answers\n"));
    BL_LIST_EACH (link, &work->attached.notes)
        cli_remark(bl_arena_printf(&work->arena, "belay: " BL_TEXT_FORMAT "\n",
                                   BL_TEXT_ARG(BL_CONTAINER(link, struct bl_notice, link)->text)));
    for (size_t i = 0; i < work->workspace->warning_count; i++)
        cli_remark(bl_arena_printf(&work->arena, "belay: " BL_TEXT_FORMAT "\n",
                                   BL_TEXT_ARG(work->workspace->warnings[i])));
    const struct bl_json_schema *schema = work->workspace->schema;
    for (size_t i = 0; schema != NULL && bl_json_schema_ignored(schema, i).size > 0; i++) {
        struct bl_text keyword = bl_json_schema_ignored(schema, i);
        cli_remark(bl_arena_printf(&work->arena,
                                   "belay: schema keyword " BL_TEXT_FORMAT " is not checked\n",
                                   BL_TEXT_ARG(keyword)));
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

static struct bl_run_options run_work_loop_options(const struct run_work *work)
{
    const struct run_options *options = work->options;
    struct bl_run_options run = bl_workspace_run(work->workspace, work->prompt);

    run.run_id = work->run_id;
    run.continues = options->continuation != NULL;
    run.continuation = bl_text_from(options->continuation);
    run.from_ns = work->started_ns;
    bl_attached_give(&work->attached, &run);
    return run;
}

/* Sets a model that is never called, for a run that was stopped before it had one. It has the name
 * of the chosen model, if that is known. */
static void pretend_model(struct run_work *work)
{
    struct bl_workspace *workspace = work->workspace;
    const struct bl_config_found *found = &workspace->found;

    work->fallback = bl_script_builtin();
    work->player = bl_script_player_new(work->fallback, 1, &workspace->model);
    if (found->provider == NULL)
        return;
    workspace->model.provider = found->provider->name;
    workspace->model.name = found->profile->model;
}

/* Produces the result of a run that was stopped before it had a session: the engine makes it, as
 * for any run that is stopped at its start. */
static void work_run_stopped(struct run_work *work)
{
    const struct run_options *options = work->options;
    const char *id = options->session != NULL ? options->session : options->resume;
    struct bl_engine engine = {
        .model = &work->workspace->model,
        .listener = work->face->listener != NULL ? work->face->listener(work) : NULL,
        .clock = bl_loop_clock(bl_loop_current()),
        .limits = options->workspace.limits,
    };
    struct bl_run_options run = run_work_loop_options(work);
    struct bl_session session;
    struct bl_receipt receipt;

    if (work->workspace->model.call == NULL)
        pretend_model(work);
    bl_session_init(&session, id != NULL ? id : "");
    bl_receipt_open(&receipt, &work->scope, work->run_id);
    bl_run(&engine, &session, &receipt, &run, &work->arena, &work->result.run);
    bl_receipt_close(&receipt);
    bl_session_done(&session);
    work->error = (struct bl_error){0};
}

void run_hint_held(int code, struct bl_error *error)
{
    if (code != BL_EBUSY || error->kind != BL_KIND_SESSION)
        return;
    error->hint[0] = '\0';
    bl_error_hint(
        error, "add --fork to continue in a copy of it; 'belay ps' shows what its holder is doing");
}

struct bl_agent_options run_agent_options(struct run_work *work)
{
    const struct run_options *options = work->options;
    struct bl_agent_options agent = bl_workspace_agent(work->workspace);

    agent.store = work->store;
    agent.session = (struct bl_store_hold_options){
        .id = options->session != NULL ? options->session : options->resume,
        .newest = options->newest,
        .must_exist = options->resume != NULL,
        .fork = options->fork,
        .directory = options->workspace.directory,
        .run_id = work->run_id,
        .request_id = options->request_id,
        .prompt = work->prompt,
    };
    agent.listener = work->face->listener != NULL ? work->face->listener(work) : NULL;
    agent.activities = &work->activities;
    return agent;
}

enum bl_sandbox run_sandbox(const struct run_work *work)
{
    return work->workspace->toolbox != NULL ? bl_toolbox_sandbox(work->workspace->toolbox)
                                            : BL_SANDBOX_OFF;
}

struct bl_tools run_tools(const struct run_work *work)
{
    if (work->workspace->toolbox == NULL)
        return (struct bl_tools){0};
    return bl_agent_offers(&work->workspace->arena, work->workspace->toolbox,
                           &work->workspace->project->personas);
}

static int work_run_session(struct run_work *work)
{
    struct bl_agent_options agent = run_agent_options(work);
    struct bl_run_options loop = run_work_loop_options(work);

    int code = bl_agent_run(&agent, &loop, &work->scope, &work->arena, &work->result, &work->error);
    run_hint_held(code, &work->error);
    return code;
}

/* Runs with a control socket; without one if it cannot be created. */
static int work_run_listed(struct run_work *work)
{
    struct bl_nursery services;
    struct bl_control *control = NULL;
    struct bl_error error = {0};

    bl_nursery_init(&services, bl_scope_current());
    if (bl_control_start(&services, &work->activities, &control, &error) != 0) {
        control = NULL;
        bl_workspace_warn(work->workspace,
                          bl_arena_printf(&work->arena,
                                          "'belay ps' and 'belay cancel' cannot reach this run: %s",
                                          error.message));
    }
    int code = work_run_session(work);
    if (control != NULL)
        bl_control_stop(control);
    bl_nursery_done(&services);
    return code;
}

int run_begin(struct run_work *work)
{
    bool late = work->options->workspace.timed && work->options->workspace.timeout_ns <= 0;
    int code = late ? prepare_late(work) : run_work_read(work);

    if (code == 0)
        code = bl_workspace_equip(work->workspace, &work->error);
    bl_workspace_charge(work->workspace, &work->scope);
    return code;
}

static int run_work_begin(struct run_work *work)
{
    struct bl_scope *outer = bl_scope_enter(&work->scope);

    int code = run_begin(work);
    if (code == 0)
        code = run_work_attach(work);
    if (code == 0) {
        say_surprises(work);
        if (work->face->before != NULL)
            work->face->before(work);
    }
    bl_scope_enter(outer);
    if (code == 0 && bl_scope_stopped(&work->scope))
        code = BL_ECANCELED;
    return code;
}

/* True if progress is shown. Not with a request id: its answers are printed at the end. */
static bool run_work_shows(const struct run_work *work)
{
    return work->face->shows && work->call->format == CLI_FORMAT_TEXT && !work->options->quiet &&
           work->options->request_id == NULL && isatty(STDERR_FILENO) == 1;
}

static void run_work_perform(struct run_work *work)
{
    int code = run_work_begin(work);

    if (code == 0 && run_work_shows(work))
        work->progress = run_progress_new(work);

    if (code == 0)
        code = bl_store_open(work->options->store, &work->store, &work->error);
    if (code == 0)
        code = cli_member_join(work->store, &work->scope, &work->options->workspace,
                               &work->activities, &work->member, &work->error);
    if (code == 0)
        code = work_run_listed(work);
    if (code == 0)
        return;
    if (bl_scope_stopped(&work->scope) && (code == BL_ECANCELED || code == BL_ETIMEDOUT))
        work_run_stopped(work);
    else
        bl_error_set(&work->error, code, BL_KIND_RUNTIME, "run", NULL, "cannot start the run: %s",
                     bl_error_text(code));
}

/* ---- The answer ------------------------------------------------------------------------------ */

static int run_work_stop_exit_code(const struct run_work *work)
{
    struct bl_stop stop;

    bl_scope_stop_read(&work->wait_limit, &stop);
    if (stop.reason == BL_STOP_TIMEOUT)
        return CLI_EXIT_TIMEOUT;
    return strcmp(stop.origin, "SIGTERM") == 0 ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
}

/* Sets the exit code for an answer that was not delivered: never success. */
static void run_work_answer_lost(struct run_work *work, bool heard)
{
    int failed = work->stream.failed;
    struct bl_error error = {0};

    if (failed == 0 || failed == EPIPE) {
        if (work->exit_code == CLI_EXIT_OK)
            work->exit_code =
                failed == EPIPE ? CLI_EXIT_CLIENT_GONE : run_work_stop_exit_code(work);
        return;
    }
    work->exit_code = CLI_EXIT_FAILED;
    if (!heard)
        return;
    bl_error_set(&error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "write",
                 "standard output", "cannot write standard output: %s", strerror(failed));
    cli_complain(work->call, &error);
}

static void run_work_answer(struct run_work *work)
{
    work->face->report(work);
    bool needed = run_progress_shows_answer(work->progress);
    bool shown = run_progress_free(work->progress, &work->wait_limit);
    work->progress = NULL;
    bool delivered = cli_stream_flush(&work->stream) && (shown || !needed);
    bool heard = work->call->asked == CLI_FORMAT_TEXT && run_work_await_listener(work);
    if (work->call->format == CLI_FORMAT_TEXT && heard)
        work->face->remark(work);
    if (!delivered)
        run_work_answer_lost(work, heard);
}

static void run_work_hurry(void *context)
{
    struct run_work *work = context;

    if (work->workspace->toolbox != NULL)
        bl_toolbox_hurry(work->workspace->toolbox);
}

static void run_work_perform_and_answer(struct run_work *work)
{
    work->signals.after = &work->wait_limit;
    int code = cli_signals_start(&work->signals, &work->scope, run_work_hurry, work);

    if (code == 0)
        run_work_perform(work);
    else
        bl_error_set(&work->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    bl_workspace_shut(work->workspace);
    run_work_answer(work);
    bl_fleet_leave(work->member);
    bl_store_close(work->store);
    cli_signals_block(&work->signals);
    cli_signals_end(&work->signals);
}

static int run_work_main(void *argument)
{
    struct run_work *work = argument;

    bl_id_make(work->run_id, "run_");
    run_work_open_scopes(work);
    if (cli_stream_open(&work->stream, STDOUT_FILENO, &work->scope, &work->wait_limit,
                        &work->error) == 0) {
        run_work_perform_and_answer(work);
        cli_stream_close(&work->stream);
    } else {
        work->exit_code = CLI_EXIT_FAILED;
        if (work->call->asked == CLI_FORMAT_TEXT)
            cli_complain(work->call, &work->error);
    }
    run_work_close_scopes(work);
    return 0;
}

/* ---- The loop -------------------------------------------------------------------------------- */

void run_work_init(struct run_work *work)
{
    work->started_ns = bl_clock_now_ns(&bl_clock_system);
    work->prompt = bl_text_from(work->options->prompt);
    bl_arena_init(&work->arena);
    bl_attached_init(&work->attached);
    bl_list_init(&work->result.run.turns);
    bl_list_init(&work->refusals);
    bl_list_init(&work->result.undelivered);
    bl_activities_init(&work->activities);
    /* This cannot fail: the rules were checked with the command line. */
    int code = bl_workspace_new(&work->options->workspace, &work->workspace, &work->error);
    assert(code == 0);
    (void)code;
}

void run_release(struct run_work *work)
{
    bl_script_player_free(work->player);
    bl_script_free(work->fallback);
    bl_workspace_close(work->workspace);
    bl_arena_done(&work->arena);
}

int run_work_do(struct cli_call *call, const struct run_options *options,
                const struct run_face *face, void *context)
{
    struct run_work work = {.call = call, .options = options, .face = face, .context = context};

    run_work_init(&work);
    cli_signals_block(&work.signals);
    cli_processes_begin();
    bl_loop_catch_overflow();
    int code = bl_loop_once(face->name, run_work_main, &work, &work.error);
    if (code != 0) {
        bl_error_set(&work.error, code, BL_KIND_RUNTIME, face->name, NULL, "cannot run: %s",
                     bl_error_text(code));
        work.exit_code = cli_fail(call, &work.error, cli_error_exit_code(&work.error));
    }
    run_release(&work);
    return work.exit_code;
}
