/* The tool `cancel`: stops work by its id and answers with what the store then has, so that a
 * repeated request gets the same bytes, from any process. */
#include <stdio.h>

#include "core.h"
#include "serve/parts.h"

/* The outcome of work in another process is in the store a moment after its end. */
#define ELSEWHERE_NS_MAX (5 * BL_NS_PER_S)
#define LOOK_NS          (10 * BL_NS_PER_MS)

/* An answer that no store has. */
struct mcp_memory {
    struct bl_list link;
    char id[BL_ACTIVITY_NAME_SIZE];
    struct bl_buffer json;
};

static void mcp_cancel_forget(struct mcp_server *server, struct mcp_memory *memory)
{
    bl_list_remove(&memory->link);
    server->remembered_count--;
    bl_buffer_done(&memory->json);
    bl_free(memory);
}

void mcp_forget_all(struct mcp_server *server)
{
    while (!bl_list_empty(&server->remembered))
        mcp_cancel_forget(server, BL_CONTAINER(server->remembered.next, struct mcp_memory, link));
}

static struct mcp_memory *recall(const struct mcp_server *server, struct bl_text id)
{
    BL_LIST_EACH (link, &server->remembered) {
        struct mcp_memory *memory = BL_CONTAINER(link, struct mcp_memory, link);
        if (bl_text_equal(bl_text_from(memory->id), id))
            return memory;
    }
    return NULL;
}

void mcp_remember(struct mcp_server *server, const char *id, struct bl_text json)
{
    struct mcp_memory *memory = recall(server, bl_text_from(id));

    if (json.size == 0)
        return;
    if (memory != NULL) /* ids of calls may repeat */
        mcp_cancel_forget(server, memory);
    if (server->remembered_count == MCP_REMEMBERED)
        mcp_cancel_forget(server, BL_CONTAINER(server->remembered.next, struct mcp_memory, link));
    memory = bl_zalloc(sizeof *memory);
    bl_text_into(memory->id, sizeof memory->id, id);
    bl_buffer_init(&memory->json, MCP_ANSWER_MAX);
    bl_buffer_append(&memory->json, json);
    bl_list_push_back(&server->remembered, &memory->link);
    server->remembered_count++;
}

/* ---- Known outcomes -------------------------------------------------------------------------- */

static int mcp_cancel_look_up(struct mcp_request *request, const char *id, struct bl_text *ret_json,
                              struct bl_error *error)
{
    struct bl_store *store = request->peer->server->options.runtime->store;
    struct bl_store_work work;
    struct bl_store_task task;

    int code = bl_store_find(store, request->arena, id, &work, error);
    if (code == 0) {
        *ret_json = work.receipt.size > 0 ? work.receipt : work.result;
        if (ret_json->size > 0 || work.ended)
            return 0;
        return bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "cancel", id,
                            "%s %s was started, but does not run in this process", work.kind, id);
    }
    if (code != BL_ENOENT || bl_store_task_get(store, request->arena, id, &task, error) != 0)
        return code;
    if (strcmp(task.status, "working") == 0)
        return bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "cancel", id,
                            "task %s is working, but not in this process", id);
    *ret_json = task.receipt.size > 0 ? task.receipt : task.result;
    return 0;
}

/* Looks in the store: first for our own cells, because other work may have the same id. */
static int mcp_cancel_find_kept(struct mcp_request *request, const char *id,
                                struct bl_text *ret_json, struct bl_error *error)
{
    const struct mcp_cells *cells = &request->peer->server->cells;
    struct bl_scope shield;
    int code = BL_ENOENT;

    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    if (cells->session != NULL && strchr(id, '/') == NULL) {
        struct bl_text full = bl_arena_printf(request->arena, "%s/%s", cells->session_id, id);
        code = mcp_cancel_look_up(request, full.data, ret_json, error);
    }
    if (code != 0) {
        *error = (struct bl_error){0};
        code = mcp_cancel_look_up(request, id, ret_json, error);
    }
    bl_shield_end(&shield);
    return code;
}

/* ---- The call -------------------------------------------------------------------------------- */

/* If several running activities have the id, none of them is stopped: ids of calls and cells are
 * unique only in their run or session. */
static bool mcp_cancel_is_ambiguous(struct mcp_request *request, const char *id,
                                    struct bl_error *error)
{
    const struct bl_activities *activities = request->peer->server->options.activities;
    struct serve_names names = {.count = 0};
    char name[BL_ACTIVITY_NAME_SIZE], text[400];

    BL_LIST_EACH (link, &activities->list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (strcmp(activity->id, id) != 0)
            continue;
        bl_activity_name(activity, name);
        serve_names_add(&names, bl_arena_text(request->arena, bl_text_from(name)));
    }
    if (names.count < 2)
        return false;
    serve_names_text(&names, text, sizeof text);
    bl_error_set(error, BL_EEXIST, BL_KIND_USAGE, "cancel", id,
                 "several running activities have the id %.100s: %s; nothing was stopped", id,
                 text);
    return true;
}

/* Stops the work in this process. Returns false if nothing has that id. */
static bool stop_it(struct mcp_request *request, const char *id, const struct bl_stop *stop)
{
    struct mcp_server *server = request->peer->server;
    size_t size = strlen(server->cells.session_id);
    bool ours = strncmp(id, server->cells.session_id, size) == 0 && id[size] == '/';
    BL_AUTO_BUFFER(receipt, MCP_ANSWER_MAX);
    struct bl_scope shield;

    if (mcp_work_stop_all(server, bl_text_from(ours ? id + size + 1 : id), stop))
        return true;
    bl_shield_begin(&shield, BL_NEVER);
    int code = bl_activities_cancel(server->options.activities, id, stop->origin, &receipt);
    if (code == 0)
        mcp_remember(server, id, bl_buffer_text(&receipt));
    bl_shield_end(&shield);
    return code == 0;
}

/* Ids of runs and tasks cannot be guessed: a client that has one was given it. Other work in other
 * processes of this user must not be available to a client. */
static bool is_known_elsewhere(struct mcp_request *request, const char *id)
{
    struct bl_store *store = request->peer->server->options.runtime->store;
    struct bl_store_task task;
    struct bl_scope shield;

    if (strncmp(id, "run_", 4) == 0)
        return true;
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = bl_store_task_get(store, request->arena, id, &task, NULL);
    bl_shield_end(&shield);
    return code == 0 && strcmp(task.status, "working") == 0;
}

/* Stops the work in another process of this user. The outcome is in the store a moment later. If no
 * process has the id, `code` and `error` from the earlier search remain. */
static int mcp_cancel_elsewhere(struct mcp_request *request, const char *id, const char *origin,
                                struct bl_text *ret_json, int code, struct bl_error *error)
{
    uint64_t until_ns;
    struct bl_text receipt = {0};
    struct bl_error *reason = bl_arena_zalloc(request->arena, sizeof *reason);

    int stopped = bl_control_cancel(request->arena, id, origin, false, &receipt, reason);
    if (stopped == BL_ENOENT) {
        bl_error_hint(error, "%s", reason->hint);
        return code;
    }
    if (stopped != 0) {
        *error = *reason;
        return stopped;
    }
    mcp_remember(request->peer->server, id, receipt);
    until_ns = bl_time_add(bl_now_ns(), ELSEWHERE_NS_MAX);
    do {
        code = mcp_cancel_find_kept(request, id, ret_json, error);
    } while (code == BL_EBUSY && receipt.size == 0 && bl_now_ns() < until_ns &&
             bl_sleep(LOOK_NS) == 0);
    return code;
}

struct cancel_input {
    const char *id;
    struct bl_text reason;
};

#define BL_RECORD_STRUCT struct cancel_input
static const struct bl_member cancel_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1, .most = 200, .characters = true,
                     .about = "Id of a run, a cell, a session or a call."),
    BL_MEMBER_TEXT("reason", reason, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record mcp_cancel_input =
    BL_RECORD("input of cancel", struct cancel_input, cancel_members, .closed = true);

/* Returns the stop with its origin for the receipt. */
static struct bl_stop stop_of(struct bl_text reason)
{
    struct bl_stop stop = {.reason = BL_STOP_USER};

    reason = bl_utf8_cut(reason, sizeof stop.origin - sizeof "mcp cancel: ");
    if (reason.size > 0)
        snprintf(stop.origin, sizeof stop.origin, "mcp cancel: %.*s", (int)reason.size,
                 reason.data);
    else
        bl_text_into(stop.origin, sizeof stop.origin, "mcp cancel");
    return stop;
}

/* Stops the work, and returns what is known about it once it is quiet. */
static int serve_cancel(struct mcp_request *request, const char *id, const struct bl_stop *stop,
                        struct bl_text *ret_json, struct bl_error *error)
{
    struct mcp_server *server = request->peer->server;
    const struct mcp_memory *memory;
    bool stopped = stop_it(request, id, stop);
    int code = mcp_cancel_find_kept(request, id, ret_json, error);

    if (code != 0 && !stopped && recall(server, bl_text_from(id)) == NULL &&
        is_known_elsewhere(request, id))
        code = mcp_cancel_elsewhere(request, id, stop->origin, ret_json, code, error);
    memory = recall(server, bl_text_from(id));
    if ((code != 0 || ret_json->size == 0) && memory != NULL) {
        *ret_json = bl_arena_text(request->arena, bl_buffer_text(&memory->json));
        code = 0;
    }
    return code;
}

void mcp_tool_cancel(struct mcp_request *request, const struct bl_json *arguments,
                     struct mcp_reply *ret_reply)
{
    struct bl_error *error = bl_arena_zalloc(request->arena, sizeof *error);
    struct mcp_outcome outcome = {0};
    struct cancel_input input;

    if (!mcp_arguments_read(request, request->arena, &mcp_cancel_input, arguments, &input,
                            ret_reply))
        return;
    const char *id = input.id;
    struct bl_stop stop = stop_of(input.reason);
    if (mcp_cancel_is_ambiguous(request, id, error)) {
        mcp_outcome_error(request->arena, error, &outcome);
        mcp_answer_outcome(request, &outcome, ret_reply);
        return;
    }
    int code = serve_cancel(request, id, &stop, &outcome.json, error);
    if (bl_scope_stopped(request->scope) && code == BL_ECANCELED) {
        ret_reply->dropped = true;
        return;
    }
    if (code == BL_ENOENT) {
        *error = (struct bl_error){0};
        bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "cancel", id,
                     "no running work with id '%.100s', and none in the store", id);
    } else if (code == 0 && outcome.json.size == 0) {
        code = bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "cancel", id,
                            "%.100s has ended, and its result was not kept", id);
    }
    if (code != 0)
        mcp_outcome_error(request->arena, error, &outcome);
    mcp_answer_outcome(request, &outcome, ret_reply);
}
