/* Design notes.
 *
 * One fiber performs all steps: reads, opens, creates, observes until the end, answers. The cell
 * ends with a scope that is stopped by signals, by the deadline and by a reader that closes
 * standard output. The fiber itself runs outside of that scope, because after a stop it must still
 * read the end and report it. The cell's record decides a race: a cell that completed before the
 * stop has completed.
 *
 * In text, output is printed as it arrives, by short observations. They get longer while there is
 * nothing to print, because every decided observation is written to the store. */
#include <unistd.h>

#include <belay/serve.h>

#include "run.h"

#define ITEMS_MAX         ((size_t)64 * 1024 * 1024)
#define YIELD_MS_MIN      40u
#define YIELD_MS_MAX      320u
#define ATTEMPTS_MAX      5u
#define ATTEMPT_GAP_NS    (100 * BL_NS_PER_MS)
#define NOTIFICATIONS_MAX ((size_t)16 * 1024 * 1024)

/* ---- The cell -------------------------------------------------------------------------------- */

/* Creates the cell. BL_ECANCELED or BL_ETIMEDOUT if a stop came first: the cell never started. */
static int cell_run_create(struct cell_work *work)
{
    const struct cell_options *options = work->options;
    struct bl_cell_create wish = {
        .cell_id = work->cell_id,
        .source = work->source,
        .tools = work->tools.tools,
        .tool_count = work->tools.count,
        .deadline_ms = cell_deadline_ms(options),
        .memory_bytes = options->memory_bytes,
        .output_bytes = options->output_bytes,
        .scope = &work->scope,
    };
    struct bl_cell_fault *fault = bl_arena_zalloc(&work->arena, sizeof *fault);

    int code = bl_scope_check(&work->scope);
    if (code == 0 && bl_cell_create(work->session, &wish, fault) != 0) {
        code = bl_scope_check(&work->scope);
        if (code == 0 || fault->code != BL_CELL_CANCELLED)
            code = cell_refusal(fault, "create the cell", work->cell_id, &work->error);
    }
    return code;
}

/* Observes once; tries again if the store fails for the moment. */
static int cell_run_observe(struct cell_work *work, uint64_t generation, uint64_t yield_ms,
                            struct bl_arena *arena, struct bl_cell_observe_outcome *ret_outcome)
{
    struct bl_cell_observe wish = {
        .cell_id = work->cell_id, .generation = generation, .yield_ms = yield_ms};
    struct bl_cell_fault *fault = bl_arena_zalloc(arena, sizeof *fault);

    for (unsigned attempt = 1;; attempt++) {
        int code = bl_cell_observe(work->session, &wish, arena, ret_outcome, fault);
        if (code == 0)
            return 0;
        if (fault->code != BL_CELL_STORE_FAILED || attempt == ATTEMPTS_MAX)
            return cell_refusal(fault, "observe the cell", work->cell_id, &work->error);
        bl_sleep(ATTEMPT_GAP_NS);
    }
}

static int cell_run_watch(struct cell_work *work)
{
    uint64_t yield_ms = cell_is_text(work) ? YIELD_MS_MIN : BL_CELL_YIELD_MS_MAX;
    struct bl_cell_observe_outcome outcome;

    for (uint64_t generation = 1;; generation++) {
        struct bl_arena_mark mark = bl_arena_mark(&work->arena);
        int code = cell_run_observe(work, generation, yield_ms, &work->arena, &outcome);
        if (code != 0)
            return code;
        if (cell_take_outcome(work, &outcome)) {
            work->end = outcome;
            return 0;
        }
        if (cell_is_text(work)) {
            bool idle = bl_list_empty(&outcome.yielded.items);
            yield_ms = idle && yield_ms < YIELD_MS_MAX ? 2 * yield_ms : yield_ms;
            yield_ms = idle ? yield_ms : YIELD_MS_MIN;
        }
        bl_arena_rewind(&work->arena, mark);
    }
}

static uint64_t end_generation(const struct cell_work *work)
{
    return work->end.type == BL_CELL_OBSERVE_COMPLETED ? work->end.completed.generation
                                                       : work->end.terminated.generation;
}

/* Releases the cell in a session that stays, because it will not be observed again. */
static void cell_run_release(struct cell_work *work)
{
    struct bl_cell_fault *fault = bl_arena_zalloc(&work->arena, sizeof *fault);
    enum bl_cell_release_outcome outcome;

    if (work->options->session != NULL && work->ended && work->end.type != BL_CELL_OBSERVE_MISSING)
        bl_cell_release(work->session, work->cell_id, end_generation(work), &outcome, fault);
}

/* ---- Host and session ------------------------------------------------------------------------ */

static void call_tool(void *context, const struct bl_cell_call *call,
                      struct bl_cell_call_result *ret_result)
{
    struct cell_work *work = context;

    cell_toolset_call(&work->tools, call, ret_result);
}

static int cell_run_session(struct cell_work *work)
{
    struct bl_cell_session_options options = {
        .id = work->session_id,
        .directory = work->options->directory,
        .port = {.context = work,
                 .call = work->tools.toolbox != NULL ? call_tool : NULL,
                 .notify = cell_notified},
        .activities = &work->activities,
    };
    struct bl_cell_fault *fault = bl_arena_zalloc(&work->arena, sizeof *fault);

    if (bl_cell_session_open(work->host, &options, &work->session, fault) != 0)
        return cell_refusal(fault, "open the session", work->session_id, &work->error);
    int code = cell_run_create(work);
    if (code == 0)
        code = cell_run_watch(work);
    /* From here on there is nothing left to stop. */
    (void)bl_scope_claim(&work->scope);
    cell_run_release(work);
    bl_cell_session_close(work->session, work->options->session == NULL, BL_STOP_SHUTDOWN,
                          "cell run", NULL);
    work->session = NULL;
    return code;
}

static int cell_run_host(struct cell_work *work, struct bl_nursery *services)
{
    struct bl_cell_host_options options = {.store = work->store, .spares = 1};

    int code = bl_cell_host_start(services, &options, &work->host, &work->error);
    if (code != 0)
        return code;
    if (work->tools.toolbox != NULL)
        bl_toolbox_begin(work->tools.toolbox, services, &work->activities, work->session_id);
    code = cell_run_session(work);
    if (work->tools.toolbox != NULL)
        bl_toolbox_end(work->tools.toolbox);
    bl_cell_host_stop(work->host, BL_STOP_SHUTDOWN, "cell run");
    work->host = NULL;
    /* A session that was created for this cell is deleted with it. */
    if (work->options->session == NULL)
        bl_store_delete(work->store, work->session_id, NULL);
    return code;
}

/* Runs with a control socket, for `belay ps` and `belay cancel`; without one if it cannot be
 * created. */
static int cell_run_listed(struct cell_work *work)
{
    struct bl_control *control = NULL;
    struct bl_nursery services;
    struct bl_error error = {0};

    bl_nursery_init(&services, bl_scope_current());
    if (bl_control_start(&services, &work->activities, &control, &error) != 0) {
        control = NULL;
        cell_remark(work,
                    bl_arena_printf(&work->arena,
                                    "belay cell: 'belay ps' and 'belay cancel' cannot reach this "
                                    "cell: %s\n",
                                    error.message));
    }
    int code = cell_run_host(work, &services);
    bl_control_stop(control);
    bl_nursery_done(&services);
    return code;
}

/* Reads the source in the scope: after a stop, the reading thread is abandoned. */
static int cell_run_begin(struct cell_work *work)
{
    struct bl_scope *outer = bl_scope_enter(&work->scope);

    int code = cell_source_read(work->options->operand, &work->arena, &work->source, &work->error);
    if (code == 0)
        code = cell_toolset_open(&work->tools, work->options, &work->arena, &work->error);
    bl_scope_enter(outer);
    return code;
}

static void cell_run_perform(struct cell_work *work)
{
    int code = cell_run_begin(work);

    bl_activities_init(&work->activities);
    if (code == 0)
        code = bl_store_open(work->options->store, &work->store, &work->error);
    if (code == 0)
        code = cli_member_join(work->store, &work->scope, NULL, &work->activities, &work->member,
                               &work->error);
    if (code == 0)
        code = cell_run_listed(work);
    bl_fleet_leave(work->member);
    bl_store_close(work->store);
    /* A stop requested just now is passed down in the loop's next iteration, and must be in the
     * receipt. */
    if (bl_scope_stopped(&work->scope))
        bl_yield();
    bool stopped = bl_scope_stopped(&work->scope) &&
                   (code == BL_ECANCELED || code == BL_ETIMEDOUT) && work->error.code == 0;
    if (code != 0 && !stopped)
        bl_error_set(&work->error, code, BL_KIND_RUNTIME, "run the cell", work->options->operand,
                     "the cell cannot run: %s", bl_error_text(code));
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* A stop also ends the wait for readers. */
static void cell_run_end_waits(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct bl_stop stop;

    bl_scope_stop_read(scope, &stop);
    bl_scope_stop(&BL_CONTAINER(hook, struct cell_work, stopped)->wait_limit, stop.reason,
                  stop.origin);
}

static void cell_run_hurry(void *context)
{
    struct cell_work *work = context;

    if (work->tools.toolbox != NULL)
        bl_toolbox_hurry(work->tools.toolbox);
}

static void cell_run_open_scopes(struct cell_work *work)
{
    const struct cell_options *options = work->options;

    bl_scope_init(&work->wait_limit, bl_scope_current());
    bl_scope_init(&work->listening, bl_scope_current());
    bl_scope_init(&work->scope, bl_scope_current());
    bl_receipt_open(&work->receipt, &work->scope, work->cell_id);
    bl_stop_hook_add(&work->stopped, &work->scope, cell_run_end_waits);
    if (!options->timed)
        return;
    uint64_t timeout_ns = options->timeout_ns > 0 ? (uint64_t)options->timeout_ns : 0;
    bl_scope_set_deadline(&work->scope, bl_time_add(bl_now_ns(), timeout_ns));
}

static void cell_run_close_scopes(struct cell_work *work)
{
    bl_stop_hook_remove(&work->stopped);
    bl_receipt_close(&work->receipt);
    bl_scope_done(&work->scope);
    bl_scope_done(&work->listening);
    bl_scope_done(&work->wait_limit);
}

static void cell_run_perform_and_answer(struct cell_work *work)
{
    work->signals.after = &work->wait_limit;
    int code = cli_signals_start(&work->signals, &work->scope, cell_run_hurry, work);

    if (code == 0)
        cell_run_perform(work);
    else
        bl_error_set(&work->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    cell_answer(work);
    cli_signals_block(&work->signals);
    cli_signals_end(&work->signals);
}

static int cell_run_work_main(void *argument)
{
    struct cell_work *work = argument;
    struct bl_error unheard = {0};

    cell_run_open_scopes(work);
    work->exit_code = CLI_EXIT_FAILED;
    if (cli_stream_open(&work->stream, STDOUT_FILENO, &work->scope, &work->wait_limit,
                        &work->error) == 0) {
        work->heard =
            cell_is_text(work) && cli_stream_open(&work->remarks, STDERR_FILENO, &work->listening,
                                                  &work->wait_limit, &unheard) == 0;
        bool opened = work->heard;
        cell_run_perform_and_answer(work);
        if (opened)
            cli_stream_close(&work->remarks);
        cli_stream_close(&work->stream);
    } else {
        work->heard = work->call->asked == CLI_FORMAT_TEXT;
    }
    cell_run_close_scopes(work);
    return 0;
}

int cell_run(struct cli_call *call, const struct cell_options *options)
{
    struct cell_work work = {.call = call, .options = options};

    bl_id_make(work.cell_id, "c-");
    bl_id_make(work.session_id, "cell-");
    if (options->session != NULL)
        bl_text_into(work.session_id, sizeof work.session_id, options->session);
    bl_arena_init(&work.arena);
    bl_buffer_init(&work.items, ITEMS_MAX);
    bl_buffer_init(&work.notifications, NOTIFICATIONS_MAX);
    cli_signals_block(&work.signals);
    cli_processes_begin();
    if (cli_loop_run("cell run", cell_run_work_main, &work, &work.error) != 0) {
        work.exit_code = cli_fail(call, &work.error, cli_error_exit_code(&work.error));
    } else if (work.error.code != 0 && work.heard) {
        cli_complain(call, &work.error);
    }
    cell_toolset_close(&work.tools);
    bl_buffer_done(&work.notifications);
    bl_buffer_done(&work.items);
    bl_arena_done(&work.arena);
    return work.exit_code;
}
