/* Design notes.
 *
 * A request is served in its own fiber. What may take long is a piece of work, in a fiber of the
 * server and a scope that a request's stop does not reach by itself. The request attends to the
 * work: it passes on its stops, reports progress, and answers. So a call can become a task, which
 * outlives its request, and a stop happens where its receipt is made, with the reason of the client
 * that requested it. */
#include "core.h"

/* ---- Work ------------------------------------------------------------------------------------ */

struct waiter {
    struct bl_list link;
    struct bl_semaphore woken;
};

void mcp_id_make(char out[MCP_ID_SIZE], const char *prefix)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t bytes[26];
    size_t size = strlen(prefix);

    bl_random_bytes(bytes, sizeof bytes);
    memcpy(out, prefix, size);
    for (size_t i = 0; i < sizeof bytes; i++)
        out[size++] = digits[bytes[i] & 31];
    out[size] = '\0';
}

struct mcp_work *mcp_work_new(struct mcp_server *server, const char *kind, size_t size,
                              void (*main)(struct mcp_work *work))
{
    struct mcp_work *work = bl_zalloc(size);

    work->server = server;
    work->kind = kind;
    work->main = main;
    work->references = 1;
    work->created_wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
    bl_list_init(&work->all);
    bl_list_init(&work->link);
    bl_list_init(&work->waiters);
    bl_lock_init(&work->settling);
    bl_arena_init(&work->arena);
    bl_scope_init(&work->scope, &server->nursery.scope);
    return work;
}

struct mcp_work *mcp_work_ref(struct mcp_work *work)
{
    work->references++;
    return work;
}

void mcp_work_unref(struct mcp_work *work)
{
    if (--work->references > 0)
        return;
    bl_scope_done(&work->scope);
    bl_arena_done(&work->arena);
    bl_free(work);
}

void mcp_work_ring(struct mcp_work *work)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(&work->waiters)) != NULL)
        bl_semaphore_give(&BL_CONTAINER(link, struct waiter, link)->woken);
}

void mcp_work_wait(struct mcp_work *work, uint64_t until_ns)
{
    uint64_t now_ns = bl_now_ns();
    struct bl_scope shield;
    struct waiter waiter;

    if (until_ns <= now_ns)
        return;
    bl_semaphore_init(&waiter.woken, 0);
    bl_list_push_back(&work->waiters, &waiter.link);
    bl_shield_begin(&shield, until_ns == BL_NEVER ? BL_NEVER : until_ns - now_ns);
    bl_semaphore_take(&waiter.woken);
    bl_shield_end(&shield);
    bl_list_remove(&waiter.link);
}

void mcp_work_stop(struct mcp_work *work, const struct bl_stop *stop)
{
    bl_scope_stop(&work->scope, stop->reason, stop->origin);
}

void mcp_work_join(struct mcp_work *work)
{
    while (!work->ended)
        mcp_work_wait(work, BL_NEVER);
}

/* Only now is the outcome final, for all waiters at once. */
static void mcp_end_work(struct mcp_work *work)
{
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_NEVER);
    bl_lock_take(&work->settling);
    if (work->task)
        mcp_task_end(work);
    work->ready = work->ended = true;
    bl_lock_give(&work->settling);
    bl_shield_end(&shield);
    bl_list_remove(&work->all);
    bl_list_remove(&work->link);
    mcp_work_ring(work);
}

static int mcp_work_main(void *argument)
{
    struct mcp_work *work = argument;
    struct bl_scope *outer = bl_scope_enter(&work->scope);

    work->main(work);
    bl_scope_enter(outer);
    mcp_end_work(work);
    mcp_work_unref(work);
    return 0;
}

int mcp_work_start(struct mcp_work *work, struct mcp_peer *peer)
{
    struct mcp_server *server = work->server;

    if (server->closing)
        return BL_ECLOSED;
    mcp_work_ref(work);
    int code = bl_nursery_spawn(&server->nursery, NULL, work->kind, mcp_work_main, work, NULL);
    if (code != 0) {
        mcp_work_unref(work);
        return code;
    }
    bl_list_push_back(&server->works, &work->all);
    if (peer != NULL)
        bl_list_push_back(&peer->works, &work->link);
    return 0;
}

struct mcp_work *mcp_work_find(const struct mcp_server *server, struct bl_text id)
{
    BL_LIST_EACH (link, &server->works) {
        struct mcp_work *work = BL_CONTAINER(link, struct mcp_work, all);
        if (strcmp(work->kind, "wait") != 0 && bl_text_equal(bl_text_from(work->id), id))
            return work;
    }
    return NULL;
}

bool mcp_work_stop_all(struct mcp_server *server, struct bl_text id, const struct bl_stop *stop)
{
    struct mcp_work *work;
    bool any = false;

    /* A cell that was requested twice has two pieces of work. */
    while ((work = mcp_work_find(server, id)) != NULL) {
        any = true;
        mcp_work_ref(work);
        mcp_work_stop(work, stop);
        mcp_work_join(work);
        mcp_work_unref(work);
    }
    return any;
}

/* ---- Attending ------------------------------------------------------------------------------- */

struct attendance {
    struct bl_stop_hook hook;
    struct mcp_work *work;
};

static void pass_on_stop(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct bl_stop stop;

    bl_scope_stop_read(scope, &stop);
    mcp_work_stop(BL_CONTAINER(hook, struct attendance, hook)->work, &stop);
}

/* Returns the current phase of the work, for people, in the request's arena. */
static struct bl_text mcp_phase_of(struct mcp_request *request, const struct mcp_work *work)
{
    const struct bl_activities *activities = work->server->options.activities;

    BL_LIST_EACH (link, &activities->list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (strcmp(activity->id, work->id) == 0)
            return bl_arena_text(request->arena, bl_text_from(activity->phase));
    }
    return BL_TEXT("starting");
}

static void mcp_tell_progress(struct mcp_request *request, const struct mcp_work *work,
                              const struct bl_json *token, uint64_t count)
{
    struct bl_arena_mark mark = bl_arena_mark(request->arena);
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("progressToken"));
    bl_json_write_value(&writer, token);
    bl_json_put_uint64(&writer, "progress", count);
    struct bl_text phase = mcp_phase_of(request, work);
    bl_json_put_text(
        &writer, "message",
        bl_arena_printf(request->arena, "%s: " BL_TEXT_FORMAT, work->id, BL_TEXT_ARG(phase)));
    bl_json_write_end(&writer);
    request->notify(request, "notifications/progress", bl_buffer_text(&out));
    bl_buffer_done(&out);
    bl_arena_rewind(request->arena, mark);
}

static uint64_t attend_until_ns(const struct mcp_work *work, uint64_t limit_ns)
{
    return work->begun_ns != 0 ? bl_time_add(work->begun_ns, limit_ns) : BL_NEVER;
}

bool mcp_work_attend(struct mcp_request *request, struct mcp_work *work, uint64_t limit_ns)
{
    const struct bl_json *token = mcp_request_meta(request, BL_TEXT("progressToken"));
    bool telling = request->notify != NULL &&
                   (bl_json_is(token, BL_JSON_STRING) || bl_json_is(token, BL_JSON_INTEGER));
    uint64_t tell_ns = telling ? bl_now_ns() : BL_NEVER, count = 0;
    struct attendance attendance = {.work = work};

    bl_stop_hook_add(&attendance.hook, request->scope, pass_on_stop);
    while (!work->ready && !bl_scope_stopped(request->scope)) {
        uint64_t until_ns = attend_until_ns(work, limit_ns), now_ns = bl_now_ns();
        if (now_ns >= until_ns)
            break;
        if (now_ns >= tell_ns) {
            tell_ns = now_ns + MCP_PROGRESS_NS;
            mcp_tell_progress(request, work, token, ++count);
        } else {
            mcp_work_wait(work, tell_ns < until_ns ? tell_ns : until_ns);
        }
    }
    bool stopped = bl_scope_stopped(request->scope);
    if (stopped) /* the hook passes the stop on, no later than in the loop's next turn */
        mcp_work_join(work);
    bl_stop_hook_remove(&attendance.hook);
    return stopped;
}

void mcp_work_serve(struct mcp_request *request, struct mcp_work *work, struct mcp_reply *ret_reply)
{
    int code = mcp_work_start(work, request->peer);

    if (code != 0)
        mcp_fail(request, ret_reply, BL_RPC_INTERNAL, NULL, "cannot start the call: %s",
                 bl_error_text(code));
    else if (mcp_work_attend(request, work, BL_NEVER))
        ret_reply->dropped = true;
    else
        mcp_answer_outcome(request, &work->outcome, ret_reply);
    mcp_work_unref(work);
}

/* ---- Peers ----------------------------------------------------------------------------------- */

void mcp_peer_init(struct mcp_peer *peer, struct mcp_server *server)
{
    *peer = (struct mcp_peer){.server = server, .version = MCP_UNKNOWN_VERSION};
    bl_list_init(&peer->works);
}

void mcp_peer_end(struct mcp_peer *peer, enum bl_stop_reason reason, const char *origin)
{
    BL_LIST_EACH (link, &peer->works) {
        struct mcp_work *work = BL_CONTAINER(link, struct mcp_work, link);
        bl_scope_stop(&work->scope, reason, origin);
    }
    while (!bl_list_empty(&peer->works)) {
        struct mcp_work *work = BL_CONTAINER(peer->works.next, struct mcp_work, link);
        mcp_work_ref(work);
        mcp_work_join(work);
        mcp_work_unref(work);
    }
}

void mcp_notification(struct mcp_peer *peer, struct bl_text method,
                      const struct bl_json *params BL_UNUSED)
{
    if (bl_text_equal(method, BL_TEXT("notifications/initialized")) &&
        peer->version != MCP_UNKNOWN_VERSION)
        peer->initialized = true;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static const struct method {
    const char *name;
    bool current; /* of the current version or of the older ones; a method of both has two rows */
    void (*serve)(struct mcp_request *request, struct mcp_reply *ret_reply);
} methods[] = {
    {"initialize", false, mcp_initialize},   {"ping", false, mcp_answer_empty},
    {"tools/list", false, mcp_list_tools},   {"tools/call", false, mcp_call_tool},
    {"server/discover", true, mcp_discover}, {"tools/list", true, mcp_list_tools},
    {"tools/call", true, mcp_call_tool},     {"tasks/get", true, mcp_task_get},
    {"tasks/update", true, mcp_task_update}, {"tasks/cancel", true, mcp_task_cancel},
};

void mcp_request_serve(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    bool current = request->version == MCP_2026_07_28;
    struct bl_text name = request->message.method;

    *ret_reply = (struct mcp_reply){0};
    if (bl_scope_stopped(request->scope) || request->peer->server->closing) {
        ret_reply->dropped = true;
        return;
    }
    for (size_t i = 0; i < BL_COUNT(methods); i++) {
        const struct method *method = &methods[i];
        if (method->current == current && bl_text_equal(name, bl_text_from(method->name))) {
            method->serve(request, ret_reply);
            return;
        }
    }
    mcp_fail(request, ret_reply, BL_RPC_NO_METHOD, NULL, "unknown method '%.*s' in version %s",
             (int)(name.size < 100 ? name.size : 100), name.data,
             mcp_version_name(request->version));
}

/* ---- The server ------------------------------------------------------------------------------ */

int mcp_server_open(const struct bl_mcp_server_options *options, const struct mcp_tool *tools,
                    size_t tool_count, struct mcp_server **ret_server, struct bl_error *error)
{
    struct mcp_server *server = bl_zalloc(sizeof *server);
    struct bl_scope *outer = bl_scope_current();

    server->options = *options;
    server->own = tools == NULL;
    server->tools = tools;
    server->tool_count = tool_count;
    bl_list_init(&server->works);
    bl_list_init(&server->remembered);
    int code = mcp_schemas_open(server, error);
    if (code != 0) {
        bl_free(server);
        return code;
    }
    mcp_cells_init(server);
    bl_shield_begin(&server->shield, BL_NEVER);
    bl_nursery_init(&server->nursery, &server->shield);
    bl_scope_enter(outer);
    *ret_server = server;
    return 0;
}

void mcp_server_halt(struct mcp_server *server, enum bl_stop_reason reason, const char *origin)
{
    server->closing = true;
    BL_LIST_EACH (link, &server->works) {
        server->busy = true;
        bl_scope_stop(&BL_CONTAINER(link, struct mcp_work, all)->scope, reason, origin);
    }
    mcp_cells_retire(server);
}

void mcp_server_close(struct mcp_server *server, enum bl_stop_reason reason, const char *origin)
{
    struct bl_scope *outer = bl_scope_enter(&server->shield);

    mcp_server_halt(server, reason, origin);
    while (!bl_list_empty(&server->works)) {
        struct mcp_work *work = BL_CONTAINER(server->works.next, struct mcp_work, all);
        mcp_work_ref(work);
        mcp_work_join(work);
        mcp_work_unref(work);
    }
    mcp_cells_close(server, reason, origin);
    bl_nursery_done(&server->nursery);
    bl_shield_end(&server->shield);
    bl_scope_enter(outer);
    mcp_schemas_close(server);
    mcp_forget_all(server);
    bl_free(server);
}

bool mcp_server_was_busy(const struct mcp_server *server)
{
    return server->busy || !bl_list_empty(&server->works);
}

struct bl_stop mcp_server_end_reason(const char *gone)
{
    struct bl_stop stop;

    bl_scope_stop_read(bl_scope_current(), &stop);
    if (stop.reason == BL_STOP_NONE) {
        stop.reason = BL_STOP_CLIENT_GONE;
        bl_text_into(stop.origin, sizeof stop.origin, gone);
    }
    return stop;
}

/* Notes whether work is in progress when the server is stopped: the exit code depends on it. */
struct witness {
    struct bl_stop_hook hook;
    struct mcp_server *server;
};

static void on_stop(struct bl_stop_hook *hook, struct bl_scope *scope BL_UNUSED)
{
    struct mcp_server *server = BL_CONTAINER(hook, struct witness, hook)->server;

    server->busy = mcp_server_was_busy(server);
}

int mcp_serve(const struct bl_mcp_server_options *options, const struct mcp_tool *tools,
              size_t tool_count, int *ret_exit_code, struct bl_error *error)
{
    struct mcp_server *server;
    struct witness witness;
    int code = mcp_server_open(options, tools, tool_count, &server, error);

    if (code != 0)
        return code;
    witness.server = server;
    bl_stop_hook_add(&witness.hook, bl_scope_current(), on_stop);
    code = options->http ? mcp_http_serve(server, options, error)
                         : mcp_stdio_serve(server, options, error);
    struct bl_stop stop = mcp_server_end_reason("end of input");
    bl_stop_hook_remove(&witness.hook);
    bool busy = mcp_server_was_busy(server);
    mcp_server_close(server, stop.reason, stop.origin);
    bool terminated = strcmp(stop.origin, "SIGTERM") == 0;
    bool signalled = stop.reason == BL_STOP_SIGNAL;
    *ret_exit_code = !busy && !signalled ? 0 : terminated ? 143 : 130;
    return code == BL_ECANCELED || code == BL_ETIMEDOUT ? 0 : code;
}

int bl_mcp_serve(const struct bl_mcp_server_options *options, int *ret_exit_code,
                 struct bl_error *error)
{
    return mcp_serve(options, NULL, 0, ret_exit_code, error);
}
