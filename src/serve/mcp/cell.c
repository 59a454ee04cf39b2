/* Design notes.
 *
 * All cells of a process are in one session of one host (cells.c). A call of `exec` is a piece of
 * work that lives as long as its cell. After the first answer it continues to watch the cell, so
 * that the end of the client or of the server ends the cell, with its own reason.
 *
 * If a client supports tasks, the first observation has no yield time: the request waits for the
 * yield time, and then makes the work a task. So the task's result has the whole output, as if a
 * plain call had waited. Output that the cell yields by itself meanwhile is put in front of the
 * rest. */
#include <stdio.h>

#include "core.h"

#define TASK_YIELD_MS (BL_CELL_DEADLINE_MS_MAX + 60000u)
#define TERMINATE_ID  "mcp"

/* Input of `exec`, `wait` and `terminate`: each has some of the members. */
struct cell_input {
    struct bl_text source;
    const char *cell_id; /* NULL: a new id */
    uint64_t yield_ms;
    uint64_t timeout_ms; /* 0: the default */
    uint64_t generation;
    const char *terminate_id;
};

#define BL_RECORD_STRUCT struct cell_input
static const struct bl_member yield_members[] = {
    BL_MEMBER_INTEGER("yield_time_ms", yield_ms, .optional = true, .none = BL_CELL_YIELD_MS,
                      .most = BL_CELL_YIELD_MS_MAX,
                      .about = "How long to wait for the end before answering with the output so "
                               "far; default: 10000."),
    BL_MEMBER_END,
};
static const struct bl_record yield_record = BL_RECORD_GROUP("yield", yield_members);
static const struct bl_member exec_members[] = {
    BL_MEMBER_TEXT("source", source, .least = 1,
                   .about = "A JavaScript module; text(v) writes output."),
    BL_MEMBER_STRING("cell_id", cell_id, .optional = true, .form = &bl_session_id_form),
    BL_MEMBER_INCLUDE(&yield_record),
    BL_MEMBER_INTEGER("timeout_ms", timeout_ms, .optional = true, .least = 1,
                      .most = BL_CELL_DEADLINE_MS_MAX),
    BL_MEMBER_END,
};
static const struct bl_member wait_members[] = {
    BL_MEMBER_STRING("cell_id", cell_id, .form = &bl_session_id_form),
    BL_MEMBER_INTEGER("generation", generation, .least = 1,
                      .about = "Generation of the outcome to wait for: one more than the latest "
                               "one received."),
    BL_MEMBER_INCLUDE(&yield_record),
    BL_MEMBER_END,
};
static const struct bl_member terminate_members[] = {
    BL_MEMBER_STRING("cell_id", cell_id, .form = &bl_session_id_form),
    BL_MEMBER_STRING("terminate_id", terminate_id, .optional = true, .form = &bl_session_id_form),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record mcp_exec_input =
    BL_RECORD("input of exec", struct cell_input, exec_members, .closed = true);
const struct bl_record mcp_wait_input =
    BL_RECORD("input of wait", struct cell_input, wait_members, .closed = true);
const struct bl_record mcp_terminate_input =
    BL_RECORD("input of terminate", struct cell_input, terminate_members, .closed = true);

struct mcp_exec {
    struct mcp_work work;
    struct cell_input input;
    uint64_t from_ns;
    bool tasks; /* the client supports tasks */
    struct mcp_peer *peer;
    struct bl_list yields; /* struct yield: output that a task's cell has yielded so far */
    struct bl_cell_observe_outcome seen;
    struct bl_cell_terminate_outcome ended;
    struct bl_cell_fault fault;
};

struct yield {
    struct bl_list link;
    const struct bl_json *items;
};

/* ---- Outcomes -------------------------------------------------------------------------------- */

static void mcp_cell_take_fault(struct bl_arena *arena, const struct bl_cell_fault *fault,
                                struct mcp_outcome *ret_outcome)
{
    struct bl_error *error = bl_zalloc(sizeof *error);

    bl_error_set(error, BL_EREFUSED, BL_KIND_CELL, "cell", fault->id[0] != '\0' ? fault->id : NULL,
                 "%s%s%s", fault->message, fault->detail[0] != '\0' ? ": " : "", fault->detail);
    bl_error_name_set(error, bl_cell_code_name(fault->code));
    error->retryable = bl_cell_code_retryable(fault->code);
    mcp_outcome_error(arena, error, ret_outcome);
    bl_free(error);
}

/* The cell's own deadline is an ordinary end; any other stop came from outside. */
static void mcp_cell_take_receipt(struct bl_arena *arena, const struct bl_json *receipt,
                                  struct mcp_outcome *outcome)
{
    struct bl_receipt_row row;

    bl_record_take(arena, &bl_receipt_record, receipt, &row);
    outcome->receipt = bl_json_value_text(arena, receipt);
    outcome->cancelled = !bl_text_equal(bl_text_from(row.reason),
                                        bl_text_from(bl_stop_reason_name(BL_STOP_TIMEOUT)));
}

static void take_observed(struct bl_arena *arena, const struct bl_cell_observe_outcome *seen,
                          struct mcp_outcome *ret_outcome)
{
    *ret_outcome = (struct mcp_outcome){.json = seen->json, .is_error = true};
    switch (seen->type) {
    case BL_CELL_OBSERVE_YIELDED: ret_outcome->is_error = false; break;
    case BL_CELL_OBSERVE_COMPLETED: ret_outcome->is_error = seen->completed.error != NULL; break;
    case BL_CELL_OBSERVE_TERMINATED:
        mcp_cell_take_receipt(arena, seen->terminated.receipt, ret_outcome);
        break;
    case BL_CELL_OBSERVE_MISSING: break;
    }
}

static void mcp_cell_take_terminated(struct bl_arena *arena,
                                     const struct bl_cell_terminate_outcome *ended,
                                     struct mcp_outcome *ret_outcome)
{
    *ret_outcome = (struct mcp_outcome){.json = ended->json};
    switch (ended->type) {
    case BL_CELL_TERMINATE_COMPLETED: ret_outcome->is_error = ended->completed.error != NULL; break;
    case BL_CELL_TERMINATE_TERMINATED:
        mcp_cell_take_receipt(arena, ended->terminated.receipt, ret_outcome);
        break;
    case BL_CELL_TERMINATE_MISSING: ret_outcome->is_error = true; break;
    }
}

/* ---- exec ------------------------------------------------------------------------------------ */

static int mcp_cell_create(struct mcp_exec *exec)
{
    struct mcp_cells *cells = &exec->work.server->cells;
    int code = mcp_cells_open(exec->work.server, &exec->fault);

    if (code == 0)
        code = mcp_cells_offer(exec->work.server);
    if (code == 0)
        code = bl_check();
    if (code != 0)
        return code;
    struct bl_cell_create create = {
        .cell_id = exec->work.id,
        .source = exec->input.source,
        .tools = cells->tools,
        .tool_count = cells->tool_count,
        .deadline_ms = exec->input.timeout_ms,
    };
    return bl_cell_create(cells->session, &create, &exec->fault);
}

/* Ends the cell with the work. A cell that has ended by itself is left as it is. */
static void stop_cell(struct mcp_exec *exec)
{
    struct mcp_work *work = &exec->work;
    struct bl_scope shield;
    struct bl_stop stop;

    bl_scope_stop_read(&work->scope, &stop);
    struct bl_cell_terminate terminate = {
        .cell_id = work->id,
        .terminate_id = TERMINATE_ID,
        .reason = stop.reason,
        .origin = stop.origin,
    };
    bl_shield_begin(&shield, BL_NEVER);
    int code = bl_cell_terminate(work->server->cells.session, &terminate, &work->arena,
                                 &exec->ended, &exec->fault);
    bl_shield_end(&shield);
    if (work->ready)
        return;
    if (code == 0)
        mcp_cell_take_terminated(&work->arena, &exec->ended, &work->outcome);
    else
        mcp_cell_take_fault(&work->arena, &exec->fault, &work->outcome);
}

/* Puts the output that a task's cell has yielded in front of its last output. */
static void put_yields_first(struct mcp_exec *exec)
{
    struct bl_arena *arena = &exec->work.arena;
    const struct bl_json *outcome = NULL;
    struct bl_json_writer writer;
    struct bl_buffer out;

    if (bl_list_empty(&exec->yields) || exec->work.outcome.json.size == 0 ||
        bl_json_read(arena, exec->work.outcome.json, NULL, &outcome, NULL) != 0 ||
        bl_json_get(outcome, BL_TEXT("content_items")) == NULL)
        return;
    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    BL_JSON_MEMBERS (key, outcome) {
        bl_json_write_key(&writer, bl_json_text(key));
        if (!bl_text_equal(bl_json_text(key), BL_TEXT("content_items"))) {
            bl_json_write_value(&writer, key + 1);
            continue;
        }
        bl_json_write_array(&writer);
        BL_LIST_EACH (link, &exec->yields)
            BL_JSON_EACH (item, BL_CONTAINER(link, struct yield, link)->items)
                bl_json_write_value(&writer, item);
        BL_JSON_EACH (item, key + 1)
            bl_json_write_value(&writer, item);
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    exec->work.outcome.json = mcp_take(arena, &out);
}

/* Makes the yield the answer, unless the work is a task. Returns whether it is the answer. */
static bool answer_yield(struct mcp_exec *exec)
{
    struct mcp_work *work = &exec->work;
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_NEVER);
    bl_lock_take(&work->settling);
    bool answers = !work->task;
    if (answers)
        work->ready = true;
    bl_lock_give(&work->settling);
    bl_shield_end(&shield);
    /* A client without a session is gone once it is answered, but its cell is not. */
    if (answers && exec->peer->version == MCP_UNKNOWN_VERSION)
        bl_list_remove(&work->link);
    if (answers)
        mcp_work_ring(work);
    return answers;
}

static void keep_yield(struct mcp_exec *exec)
{
    struct bl_arena *arena = &exec->work.arena;
    struct yield *yield = bl_arena_zalloc(arena, sizeof *yield);
    const struct bl_json *outcome = NULL;

    if (bl_json_read(arena, exec->seen.json, NULL, &outcome, NULL) != 0)
        return;
    yield->items = bl_json_get(outcome, BL_TEXT("content_items"));
    if (bl_json_size(yield->items) > 0)
        bl_list_push_back(&exec->yields, &yield->link);
}

/* Observes until there is an answer. Returns true if the cell is still running. */
static bool mcp_cell_observe(struct mcp_exec *exec)
{
    struct mcp_work *work = &exec->work;
    struct bl_cell_observe observe = {
        .cell_id = work->id,
        .yield_ms = exec->tasks ? TASK_YIELD_MS : exec->input.yield_ms,
    };

    for (observe.generation = 1;; observe.generation++) {
        int code = bl_cell_observe(work->server->cells.session, &observe, &work->arena, &exec->seen,
                                   &exec->fault);
        if (code != 0 && bl_check() != 0) {
            stop_cell(exec);
            return false;
        }
        if (code != 0) {
            mcp_cell_take_fault(&work->arena, &exec->fault, &work->outcome);
            return false;
        }
        take_observed(&work->arena, &exec->seen, &work->outcome);
        if (exec->seen.type != BL_CELL_OBSERVE_YIELDED)
            return false;
        if (answer_yield(exec))
            return true;
        keep_yield(exec);
    }
}

static void exec_main(struct mcp_work *work)
{
    struct mcp_exec *exec = BL_CONTAINER(work, struct mcp_exec, work);
    int code = mcp_cell_create(exec);

    if (code != 0 && (bl_check() == 0 || work->server->cells.session == NULL)) {
        mcp_cell_take_fault(&work->arena, &exec->fault, &work->outcome);
        return;
    }
    if (code != 0) {
        stop_cell(exec);
        return;
    }
    work->begun_ns = bl_now_ns();
    mcp_work_ring(work);
    if (mcp_cell_observe(exec)) {
        while (bl_sleep(BL_CELL_DEADLINE_MS_MAX * BL_NS_PER_MS) == 0)
            continue;
        stop_cell(exec);
    }
    put_yields_first(exec);
}

/* Returns whether the cell was requested before and is already a task of this process. */
static bool is_task_already(const struct mcp_work *work)
{
    BL_LIST_EACH (link, &work->server->works) {
        const struct mcp_work *other = BL_CONTAINER(link, struct mcp_work, all);
        if (other != work && other->task && strcmp(other->id, work->id) == 0)
            return true;
    }
    return false;
}

/* For an id that is a task in another process: this cell cannot become a task, and is answered as a
 * plain call. One observation that is due decides for all waiting callers. */
static void yield_now(struct mcp_exec *exec, struct bl_arena *arena)
{
    struct bl_cell_observe observe = {.cell_id = exec->work.id, .generation = 1};
    struct bl_cell_observe_outcome *seen = bl_arena_zalloc(arena, sizeof *seen);
    struct bl_cell_fault *fault = bl_arena_zalloc(arena, sizeof *fault);

    bl_cell_observe(exec->work.server->cells.session, &observe, arena, seen, fault);
    while (!exec->work.ready)
        mcp_work_wait(&exec->work, BL_NEVER);
}

/* Makes a task of work that has exceeded its yield time. Returns false if it was ready after
 * all. */
static bool mcp_cell_make_task(struct mcp_request *request, struct mcp_exec *exec,
                               struct mcp_reply *ret_reply)
{
    struct mcp_work *work = &exec->work;
    struct bl_error *error = bl_arena_zalloc(request->arena, sizeof *error);
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_NEVER);
    bl_lock_take(&work->settling);
    int code = work->ready ? 0 : mcp_task_begin(work, work->server->cells.session_id, error);
    bool ready = work->ready;
    bool known = code == BL_EEXIST && is_task_already(work);
    if (work->task || known)
        bl_list_remove(&work->link);
    bl_lock_give(&work->settling);
    if (code == BL_EEXIST && !known) {
        yield_now(exec, request->arena);
        ready = true;
    }
    bl_shield_end(&shield);
    if (ready)
        return false;
    if (code == 0 || known)
        mcp_task_answer(request, work, ret_reply);
    else
        mcp_fail_error(request, ret_reply, BL_RPC_INTERNAL, error);
    return true;
}

static void serve_exec(struct mcp_request *request, struct mcp_exec *exec,
                       struct mcp_reply *ret_reply)
{
    struct mcp_work *work = &exec->work;
    uint64_t limit_ns = exec->tasks ? exec->input.yield_ms * BL_NS_PER_MS : BL_NEVER;
    int code = mcp_work_start(work, request->peer);

    if (code != 0) {
        mcp_fail(request, ret_reply, BL_RPC_INTERNAL, NULL, "cannot start the call: %s",
                 bl_error_text(code));
        return;
    }
    if (!mcp_work_attend(request, work, limit_ns)) {
        if (work->ready || !mcp_cell_make_task(request, exec, ret_reply)) {
            mcp_answer_outcome(request, &work->outcome, ret_reply);
            return;
        }
        if (!bl_scope_stopped(request->scope))
            return;
        /* The client will not learn of the task, so it is stopped. */
        mcp_work_attend(request, work, BL_NEVER);
    }
    ret_reply->dropped = true;
}

/* Returns NULL if the arguments are not valid. */
static struct mcp_exec *exec_new(struct mcp_request *request, const char *kind,
                                 const struct bl_record *record, const struct bl_json *arguments,
                                 void (*main)(struct mcp_work *work), struct mcp_reply *ret_reply)
{
    struct mcp_work *work =
        mcp_work_new(request->peer->server, kind, sizeof(struct mcp_exec), main);
    struct mcp_exec *exec = BL_CONTAINER(work, struct mcp_exec, work);

    if (!mcp_arguments_read(request, &work->arena, record, arguments, &exec->input, ret_reply)) {
        mcp_work_unref(work);
        return NULL;
    }
    if (exec->input.cell_id != NULL)
        bl_text_into(work->id, sizeof work->id, exec->input.cell_id);
    else
        mcp_id_make(work->id, "c-");
    exec->peer = request->peer;
    exec->from_ns = bl_now_ns();
    bl_list_init(&exec->yields);
    return exec;
}

void mcp_tool_exec(struct mcp_request *request, const struct bl_json *arguments,
                   struct mcp_reply *ret_reply)
{
    struct mcp_exec *exec =
        exec_new(request, "exec", &mcp_exec_input, arguments, exec_main, ret_reply);

    if (exec == NULL)
        return;
    exec->tasks = mcp_request_takes_tasks(request);
    serve_exec(request, exec, ret_reply);
    mcp_work_unref(&exec->work);
}

/* ---- wait, terminate ------------------------------------------------------------------------- */

static void wait_main(struct mcp_work *work)
{
    struct mcp_exec *exec = BL_CONTAINER(work, struct mcp_exec, work);
    struct bl_cell_observe observe = {
        .cell_id = work->id,
        .generation = exec->input.generation,
        .yield_ms = exec->input.yield_ms,
        .from_ns = exec->from_ns,
    };

    int code = mcp_cells_open(work->server, &exec->fault);
    if (code == 0)
        code = bl_cell_observe(work->server->cells.session, &observe, &work->arena, &exec->seen,
                               &exec->fault);
    if (code == 0)
        take_observed(&work->arena, &exec->seen, &work->outcome);
    else
        mcp_cell_take_fault(&work->arena, &exec->fault, &work->outcome);
}

void mcp_tool_wait(struct mcp_request *request, const struct bl_json *arguments,
                   struct mcp_reply *ret_reply)
{
    struct mcp_exec *exec =
        exec_new(request, "wait", &mcp_wait_input, arguments, wait_main, ret_reply);

    if (exec != NULL)
        mcp_work_serve(request, &exec->work, ret_reply);
}

void mcp_tool_terminate(struct mcp_request *request, const struct bl_json *arguments,
                        struct mcp_reply *ret_reply)
{
    struct mcp_server *server = request->peer->server;
    struct bl_cell_terminate_outcome *ended = bl_arena_zalloc(request->arena, sizeof *ended);
    struct bl_cell_fault *fault = bl_arena_zalloc(request->arena, sizeof *fault);
    struct mcp_outcome outcome;
    struct cell_input input;
    struct bl_scope shield;

    if (!mcp_arguments_read(request, request->arena, &mcp_terminate_input, arguments, &input,
                            ret_reply))
        return;
    struct bl_cell_terminate terminate = {
        .cell_id = input.cell_id,
        .terminate_id = input.terminate_id != NULL ? input.terminate_id : TERMINATE_ID,
        .reason = BL_STOP_USER,
    };
    bl_shield_begin(&shield, BL_NEVER);
    int code = mcp_cells_open(server, fault);
    if (code == 0)
        code = bl_cell_terminate(server->cells.session, &terminate, request->arena, ended, fault);
    bl_shield_end(&shield);
    if (code == 0)
        mcp_cell_take_terminated(request->arena, ended, &outcome);
    else
        mcp_cell_take_fault(request->arena, fault, &outcome);
    mcp_answer_outcome(request, &outcome, ret_reply);
}
