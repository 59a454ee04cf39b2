/* Design notes.
 *
 * The root has one host for all cells of a run, created with the first cell; each agent has a
 * session there, which corresponds to the session that it holds. Cells of a turn are in a scope of
 * their own below the turn's: its stop ends them, and so does the end of the turn, by stopping that
 * scope.
 *
 * An end is reported by the call that works on the cell, because only that call knows what the
 * journal may contain (exec_stop.c). Without such a call it is reported from a queue, by a fiber
 * that may wait for the listener, which the host may not. */
#include "parts.h"

/* Limit of remembered cells whose end the model does not know: the oldest are dropped first. */
#define KNOWN_MAX 1024u
#define ORIGIN    "session"

/* An end that the host reported. */
struct agent_cell_end {
    struct bl_list link;
    char id[BL_CELL_ID_SIZE];
    struct agent_cell_fate fate;
};

/* ---- Known cells ----------------------------------------------------------------------------- */

struct agent_cell *agent_cell_find(const struct bl_agent *agent, struct bl_text id)
{
    BL_LIST_EACH (link, &agent->cells.known) {
        struct agent_cell *cell = BL_CONTAINER(link, struct agent_cell, link);
        if (bl_text_equal(bl_text_from(cell->id), id))
            return cell;
    }
    return NULL;
}

static void trim_known(struct bl_agent *agent)
{
    size_t count = 0;

    BL_LIST_EACH (link, &agent->cells.known)
        count++;
    BL_LIST_EACH_SAFE (link, &agent->cells.known) {
        struct agent_cell *cell = BL_CONTAINER(link, struct agent_cell, link);
        if (count <= KNOWN_MAX)
            return;
        if (!cell->over || cell->unsettled || cell->lock.owner != NULL)
            continue;
        agent_cell_forget(cell);
        count--;
    }
}

struct agent_cell *agent_cell_add(struct bl_agent *agent, const char *id)
{
    struct agent_cell *cell = bl_zalloc(sizeof *cell);

    trim_known(agent);
    bl_text_into(cell->id, sizeof cell->id, id);
    bl_lock_init(&cell->lock);
    bl_buffer_init(&cell->text, SIZE_MAX);
    bl_list_push_back(&agent->cells.known, &cell->link);
    return cell;
}

void agent_cell_forget(struct agent_cell *cell)
{
    bl_list_remove(&cell->link);
    bl_buffer_done(&cell->text);
    bl_free(cell->held_back);
    bl_free(cell);
}

/* ---- Reporting ------------------------------------------------------------------------------- */

void agent_cell_tell_end(struct bl_agent *agent, struct agent_cell *cell,
                         const struct bl_tool_call *call, const struct agent_cell_fate *fate)
{
    bool unknown = strcmp(fate->status, "unknown") == 0;
    char id[BL_CELL_ID_SIZE]; /* a copy: the cell may be forgotten before the listener returns */
    struct bl_event event = {
        .type = cell->unsettled ? BL_EVENT_CELL_SETTLED : BL_EVENT_CELL_ENDED,
        .cell = id,
        .generation = fate->generation,
        .status = fate->status,
        .json = fate->receipt,
        .text = fate->output,
    };

    if (cell->told || (cell->unsettled && unknown))
        return;
    cell->unsettled = unknown;
    cell->told = !unknown;
    memcpy(id, cell->id, sizeof id);
    if (call != NULL)
        call->tell(call, &event);
    else
        bl_engine_tell(&agent->engine, &event);
}

static struct agent_cell_end *make_end(const struct bl_cell_event *event)
{
    struct agent_cell_end *end = bl_zalloc(sizeof *end + event->receipt.size);
    char *receipt = (char *)(end + 1);

    bl_list_init(&end->link);
    bl_text_into(end->id, sizeof end->id, event->cell_id);
    if (event->receipt.size > 0)
        memcpy(receipt, event->receipt.data, event->receipt.size);
    end->fate = (struct agent_cell_fate){
        .status = !event->completed ? "terminated"
                  : event->failed   ? "failed"
                                    : "completed",
        .generation = event->generation,
        .receipt = {receipt, event->receipt.size},
    };
    return end;
}

/* Called by the host: it must not wait. */
static void on_cell_event(void *context, const struct bl_cell_event *event)
{
    struct bl_agent *agent = context;
    struct agent_cell *cell = agent_cell_find(agent, bl_text_from(event->cell_id));

    /* The call that requested it reports a creation or a decision. */
    if (event->type != BL_CELL_EVENT_ENDED)
        return;
    if (cell != NULL)
        cell->over = true;
    if (cell != NULL && (cell->told || cell->unsettled))
        return;
    struct agent_cell_end *end = make_end(event);
    if (cell != NULL && cell->lock.owner != NULL) {
        bl_free(cell->held_back);
        cell->held_back = end;
        return;
    }
    bl_list_push_back(&agent->cells.ends, &end->link);
    bl_semaphore_give(&agent->cells.come);
}

/* Reports all ends received so far. */
static void tell_ends(struct bl_agent *agent)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(&agent->cells.ends)) != NULL) {
        struct agent_cell_end *end = BL_CONTAINER(link, struct agent_cell_end, link);
        struct agent_cell *cell = agent_cell_find(agent, bl_text_from(end->id));
        struct agent_cell other = {0};
        /* A cell of an earlier host is unknown here. */
        bl_text_into(other.id, sizeof other.id, end->id);
        agent_cell_tell_end(agent, cell != NULL ? cell : &other, NULL, &end->fate);
        bl_free(end);
    }
}

static int agent_cells_tell_main(void *argument)
{
    struct bl_agent *agent = argument;
    int code;

    while ((code = bl_semaphore_take(&agent->cells.come)) == 0)
        tell_ends(agent);
    return code;
}

int agent_cell_take(struct agent_cell *cell)
{
    return bl_lock_take(&cell->lock);
}

void agent_cell_give(struct bl_agent *agent, struct agent_cell *cell,
                     const struct bl_tool_call *call)
{
    struct agent_cell_end *end = cell->held_back;

    cell->held_back = NULL;
    if (end != NULL && !cell->unsettled)
        agent_cell_tell_end(agent, cell, call, &end->fate);
    bl_free(end);
    bl_lock_give(&cell->lock);
}

/* ---- Nested calls ---------------------------------------------------------------------------- */

static void on_cell_call(void *context, const struct bl_cell_call *call,
                         struct bl_cell_call_result *ret_result)
{
    struct bl_agent *agent = context;

    if (agent_tool_is_nested(call->tool))
        bl_agent_cell_call(&agent->engine, call, ret_result);
    else
        *ret_result = (struct bl_cell_call_result){
            .refusal = BL_CELL_CALL_UNAVAILABLE, .message = BL_TEXT("cells cannot call this tool")};
}

/* ---- Opening and closing --------------------------------------------------------------------- */

void agent_cells_init(struct bl_agent *agent)
{
    struct agent_cells *cells = &agent->cells;

    bl_lock_init(&cells->opening);
    bl_list_init(&cells->known);
    bl_list_init(&cells->ends);
    bl_list_init(&cells->notices);
    bl_semaphore_init(&cells->come, 0);
    bl_buffer_init(&cells->stored, SIZE_MAX);
}

static int agent_cells_open_host(struct bl_agent *root, struct bl_cell_fault *fault)
{
    struct bl_cell_host_options options = {.store = root->options.store};
    struct bl_error *error = bl_zalloc(sizeof *error);
    int code = 0;

    if (root->cells.host == NULL)
        code = bl_cell_host_start(&root->nursery, &options, &root->cells.host, error);
    if (code != 0) {
        *fault = (struct bl_cell_fault){.code = BL_CELL_WORKER_UNAVAILABLE};
        bl_text_into(fault->message, sizeof fault->message,
                     error->code != 0 ? error->message : bl_error_text(code));
    }
    bl_free(error);
    return code;
}

static int agent_cells_open_session(struct bl_agent *agent, struct bl_cell_fault *fault)
{
    struct bl_cell_session_options options = {
        .id = agent->session.id,
        .held = agent->held,
        .directory = agent->root->options.session.directory,
        .port = {.context = agent,
                 .call = on_cell_call,
                 .notify = agent_notice_take,
                 .event = on_cell_event},
        .activities = agent->options.activities,
    };
    int code =
        bl_cell_session_open(agent->root->cells.host, &options, &agent->cells.session, fault);

    if (code == 0)
        bl_nursery_spawn(&agent->nursery, NULL, "cells", agent_cells_tell_main, agent, NULL);
    return code;
}

int agent_cells_open(struct bl_agent *agent, struct bl_cell_fault *fault)
{
    struct bl_lock *opening = &agent->root->cells.opening;
    struct bl_scope shield;

    if (agent->cells.session != NULL)
        return 0;
    bl_shield_begin(&shield, 2 * BL_STORE_NS_MAX);
    int code = bl_lock_take(opening);
    if (code == 0) {
        code = agent_cells_open_host(agent->root, fault);
        if (code == 0 && agent->cells.session == NULL)
            code = agent_cells_open_session(agent, fault);
        bl_lock_give(opening);
    } else {
        *fault = (struct bl_cell_fault){.code = BL_CELL_CANCELLED,
                                        .message = "the cell host does not answer"};
    }
    bl_shield_end(&shield);
    return code;
}

void agent_cells_end(void *context)
{
    struct bl_agent *agent = context;
    struct bl_cell_session *session = agent->cells.session;

    if (session == NULL)
        return;
    bl_cell_session_close(session, false, BL_STOP_SHUTDOWN, ORIGIN, NULL);
    agent->cells.session = NULL;
    tell_ends(agent);
    exec_checkpoint_write(agent);
}

void agent_cells_close(struct bl_agent *agent)
{
    struct agent_cells *cells = &agent->cells;

    agent_cells_end(agent);
    bl_cell_host_stop(cells->host, BL_STOP_SHUTDOWN, ORIGIN);
    cells->host = NULL;
    while (!bl_list_empty(&cells->known))
        agent_cell_forget(BL_CONTAINER(cells->known.next, struct agent_cell, link));
    agent_notices_done(agent);
    bl_buffer_done(&cells->stored);
}

void agent_background_write(void *context, struct bl_json_writer *writer)
{
    const struct bl_agent *agent = context;

    if (agent->options.toolbox != NULL)
        bl_toolbox_write_background(agent->options.toolbox, writer);
    if (agent->cells.session != NULL)
        bl_cell_write_background(agent->cells.session, writer);
}

/* ---- With the turn --------------------------------------------------------------------------- */

struct bl_scope *agent_cells_turn_scope(struct bl_agent *agent, const struct bl_tool_call *call)
{
    struct agent_cells *cells = &agent->cells;

    if (!cells->turn_open)
        bl_scope_init(&cells->turn_scope, call->turn_scope);
    cells->turn_open = true;
    return &cells->turn_scope;
}

static void warn_ended(struct bl_agent *agent, const char *id)
{
    char text[160];

    bl_text_into(text, sizeof text, "A cell was still running, and ended with its turn: ");
    bl_text_into(text + strlen(text), sizeof text - strlen(text), id);
    bl_engine_tell(&agent->engine,
                   &(struct bl_event){.type = BL_EVENT_WARNING, .text = bl_text_from(text)});
}

void agent_cells_settle(void *context, struct bl_scope *scope)
{
    struct bl_agent *agent = context;
    struct agent_cells *cells = &agent->cells;

    if (!cells->turn_open)
        return;
    /* A stop lists in its receipt what it ended. */
    BL_LIST_EACH (link, &cells->known) {
        const struct agent_cell *cell = BL_CONTAINER(link, struct agent_cell, link);
        if (cell->of_turn && !cell->over && !bl_scope_stopped(scope))
            warn_ended(agent, cell->id);
    }
    bl_scope_stop(&cells->turn_scope, BL_STOP_PARENT, "turn");
    bl_cell_join(cells->session, &cells->turn_scope);
    bl_scope_done(&cells->turn_scope);
    cells->turn_open = false;
    tell_ends(agent);
}

/* Releases a cell: the model knows its end, and so will the next open of the session. */
static void agent_cells_release(struct bl_agent *agent, struct agent_cell *cell)
{
    struct bl_cell_fault *fault = bl_zalloc(sizeof *fault);
    enum bl_cell_release_outcome outcome;
    struct bl_scope shield;
    int code = 0;

    if (agent->cells.session != NULL) {
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        code = bl_cell_release(agent->cells.session, cell->id, cell->ended, &outcome, fault);
        bl_shield_end(&shield);
    }
    /* A release that failed now is repeated with the next turn. */
    if (code == 0 || !bl_cell_code_retryable(fault->code))
        agent_cell_forget(cell);
    bl_free(fault);
}

/* Reverts what a turn that leaves no trace delivered: the model has not seen it. */
static void agent_cells_take_back(struct agent_cell *cell)
{
    cell->generation = cell->committed;
    if (cell->ended > cell->committed) {
        cell->ended = 0;
        bl_buffer_clear(&cell->text);
    }
}

static void agent_cells_end_turn(struct bl_agent *agent)
{
    bool committed = agent->session.turns_total != agent->cells.turns_before;

    agent->cells.in_turn = false;
    BL_LIST_EACH_SAFE (link, &agent->cells.known) {
        struct agent_cell *cell = BL_CONTAINER(link, struct agent_cell, link);
        cell->of_turn = false;
        if (committed)
            cell->committed = cell->generation;
        else
            agent_cells_take_back(cell);
        if (cell->missing)
            agent_cell_forget(cell);
        else if (cell->ended != 0)
            agent_cells_release(agent, cell);
    }
    exec_checkpoint_write(agent);
}

static void agent_cells_begin_turn(struct bl_agent *agent)
{
    agent->cells.in_turn = true;
    agent->cells.turns_before = agent->session.turns_total;
    exec_checkpoint_read(agent);
    exec_ask_again(agent);
}

void agent_cells_follow(struct bl_agent *agent, const struct bl_event *event)
{
    bool committed = agent->session.turns_total != agent->cells.turns_before;

    if (event->type == BL_EVENT_TURN_STARTED)
        agent_cells_begin_turn(agent);
    else if (event->type == BL_EVENT_TURN_ENDED)
        agent_cells_end_turn(agent);
    agent_notices_follow(agent, event, committed);
}
