/* Design notes.
 *
 * A start is a fiber of the toolbox's nursery, in its own scope with a deadline: all callers that
 * need the server wait for it, and none of them owns it. When the last waiting caller is stopped,
 * it stops the start and waits until that has ended: so a stop leaves nothing half started, and
 * does not affect other callers. */
#include <inttypes.h>
#include <stdio.h>

#include "mcp.h"

/* Time after a failed start during which it is not tried again. */
#define RETRY_NS (30 * BL_NS_PER_S)
/* Added to all grace periods. */
#define END_NS_MAX     (20 * BL_NS_PER_S)
#define LAST_WORDS_MAX ((size_t)1000)

struct waiter {
    struct bl_list link;
    struct bl_semaphore come;
};

/* ---- Waiting --------------------------------------------------------------------------------- */

void mcp_server_changed(struct mcp_server *server)
{
    BL_LIST_EACH (link, &server->waiters)
        bl_semaphore_give(&BL_CONTAINER(link, struct waiter, link)->come);
}

int mcp_server_wait(struct mcp_server *server)
{
    struct waiter waiter;
    bl_semaphore_init(&waiter.come, 0);
    bl_list_push_back(&server->waiters, &waiter.link);
    int code = bl_semaphore_take(&waiter.come);
    bl_list_remove(&waiter.link);
    return code;
}

/* ---- State ----------------------------------------------------------------------------------- */

static void mcp_server_set_state(struct mcp_server *server, enum mcp_state state, const char *why)
{
    server->state = state;
    bl_text_into(server->why, sizeof server->why, why);
    mcp_server_changed(server);
}

void mcp_server_init(struct mcp_server *server, struct bl_toolbox *toolbox,
                     const struct bl_mcp_entry *entry)
{
    *server = (struct mcp_server){.toolbox = toolbox, .entry = entry, .state = MCP_IDLE};
    bl_list_init(&server->waiters);
    bl_list_init(&server->calls);
    bl_buffer_init(&server->errors, SIZE_MAX);
}

void mcp_server_done(struct mcp_server *server)
{
    mcp_listing_unref(server->listing);
    bl_buffer_done(&server->errors);
}

/* Returns true if it has crashed too often. */
static bool count_death(struct mcp_server *server)
{
    size_t last = BL_COUNT(server->deaths_ns) - 1;
    uint64_t now_ns = bl_now_ns();
    memmove(server->deaths_ns, server->deaths_ns + 1, last * sizeof *server->deaths_ns);
    server->deaths_ns[last] = now_ns;
    return server->deaths_ns[0] != 0 && now_ns - server->deaths_ns[0] <= MCP_RESTARTS_NS;
}

struct bl_text mcp_server_last_words(const struct mcp_server *server, struct bl_arena *arena)
{
    struct bl_text all = bl_text_trim(bl_buffer_text(&server->errors));
    struct output_filter filter = {0};
    BL_AUTO_BUFFER(clean, SIZE_MAX);
    size_t from = all.size > LAST_WORDS_MAX ? all.size - LAST_WORDS_MAX : 0;
    output_filter_add(&filter, (struct bl_text){all.data + from, all.size - from}, &clean);
    output_filter_end(&filter, &clean);
    return bl_arena_text(arena, bl_buffer_text(&clean));
}

/* Describes an unexpected end for users. */
static void mcp_server_describe_death(struct mcp_server *server, const struct mcp_process *process,
                                      char *out, size_t size)
{
    BL_AUTO_ARENA(arena);
    struct bl_text words = mcp_server_last_words(server, &arena);
    struct bl_text last = {0}, line;
    while (bl_text_split(&words, '\n', &line))
        last = bl_text_trim(line).size > 0 ? bl_text_trim(line) : last;
    struct bl_text text =
        bl_arena_printf(&arena, "it exited unexpectedly (%s)%s" BL_TEXT_FORMAT,
                        mcp_process_ending(process, &arena).data, last.size > 0 ? ": " : "",
                        BL_TEXT_ARG(bl_utf8_cut(last, 200)));
    bl_text_into(out, size, text.data);
}

void mcp_server_ended(struct mcp_server *server, const struct mcp_process *process)
{
    char why[400] = "";
    bool died = process->running && !process->wanted;
    server->last_end = process->end;
    server->ends++;
    if (server->process == process)
        server->process = NULL;
    if (died)
        mcp_server_describe_death(server, process, why, sizeof why);
    if (died && count_death(server)) {
        mcp_notice(server->toolbox,
                   "MCP server %s: %s; it crashed %u times in a minute and is out of service for "
                   "this session",
                   server->entry->name, why, MCP_RESTARTS_MAX + 1);
        mcp_server_set_state(server, MCP_OUT_OF_SERVICE, why);
    } else if (server->state == MCP_READY) {
        if (died)
            mcp_notice(server->toolbox, "MCP server %s: %s; it will be restarted on next use",
                       server->entry->name, why);
        mcp_server_set_state(server, MCP_IDLE, "");
    } else {
        /* Its start has yet to find out. */
        bl_text_into(server->why, sizeof server->why, why);
        mcp_server_changed(server);
    }
}

/* ---- The start ------------------------------------------------------------------------------- */

/* Ends whatever remains of a failed start. */
static void undo_start(struct mcp_server *server)
{
    struct mcp_process *process = server->process;
    struct bl_scope shield;
    bl_shield_begin(&shield, END_NS_MAX);
    if (process != NULL) {
        process->users++;
        mcp_process_stop(process, true, server->toolbox->hurry ? 0 : server->toolbox->mcp_grace_ms);
        mcp_process_await(process);
        mcp_process_unref(process);
    }
    mcp_http_close(server);
    bl_shield_end(&shield);
}

static void fail_start(struct mcp_server *server, int code, const struct bl_error *error)
{
    struct bl_stop stop;
    char why[400], duration[32];
    uint64_t limit_ns = server->entry->start_ns != 0 ? server->entry->start_ns : BL_MCP_START_NS;
    bl_scope_stop_read(&server->starting, &stop);
    undo_start(server);
    if (server->state == MCP_OUT_OF_SERVICE)
        return;
    if (stop.reason != BL_STOP_NONE && stop.reason != BL_STOP_TIMEOUT) {
        mcp_server_set_state(server, MCP_IDLE, "");
        return;
    }
    bl_duration_format((int64_t)limit_ns, duration);
    if (stop.reason == BL_STOP_TIMEOUT)
        snprintf(why, sizeof why, "it was not ready within %s (startup_timeout)", duration);
    else
        bl_text_into(why, sizeof why,
                     server->why[0] != '\0' ? server->why
                     : error->code != 0     ? error->message
                                            : bl_error_text(code));
    server->failed_ns = bl_now_ns();
    mcp_notice(server->toolbox, "MCP server %s cannot be used: %s", server->entry->name, why);
    mcp_server_set_state(server, MCP_FAILED, why);
}

/* Modern servers report changes only to clients that subscribed; this request is never answered. */
static int mcp_server_listen_main(void *argument)
{
    struct mcp_server *server = argument;
    struct bl_error *error = bl_zalloc(sizeof *error);
    const struct bl_json *result;
    struct bl_json_writer writer;
    struct bl_buffer params;
    struct bl_arena arena;
    uint64_t pause_ns = BL_NS_PER_S;
    int code;
    bl_arena_init(&arena);
    bl_buffer_init(&params, SIZE_MAX);
    bl_json_writer_init(&writer, &params);
    mcp_server_params(server, &writer, 0);
    bl_json_put_json(&writer, "notifications", BL_TEXT("{\"toolsListChanged\":true}"));
    bl_json_write_end(&writer);
    struct mcp_request request = {.method = "subscriptions/listen",
                                  .params = bl_buffer_text(&params)};
    do {
        code = server->modern ? mcp_server_ask(server, &request, &arena, &result, NULL, error)
                              : mcp_http_listen(server);
        bl_arena_reset(&arena);
        *error = (struct bl_error){0};
        /* Changes may have been missed meanwhile. */
        server->stale = server->stale || code == BL_EIO || code == BL_EPIPE;
        pause_ns = pause_ns < 60 * BL_NS_PER_S ? pause_ns * 2 : pause_ns;
    } while (server->http != NULL && (code == BL_EIO || code == BL_EPIPE) &&
             bl_sleep(pause_ns) == 0);
    bl_buffer_done(&params);
    bl_arena_done(&arena);
    bl_free(error);
    return 0;
}

static void listen_for_changes(struct mcp_server *server)
{
    struct mcp_process *process = server->process;
    struct bl_nursery *nursery = server->http != NULL ? mcp_http_nursery(server) : NULL;
    if (process != NULL && process->rpc != NULL && !bl_rpc_gone(process->rpc))
        nursery = &process->nursery;
    /* Older servers report changes unasked on standard output. */
    if (nursery != NULL && server->lists_changes && (server->modern || server->http != NULL))
        bl_nursery_spawn(nursery, NULL, "mcp listen", mcp_server_listen_main, server, NULL);
}

static int start_main(void *argument)
{
    struct mcp_server *server = argument;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct mcp_listing *listing = NULL;
    struct bl_scope *outer = bl_scope_enter(&server->starting);
    int code = server->entry->command != NULL ? mcp_process_start(server, error)
                                              : mcp_http_open(server, error);
    if (code == 0)
        code = mcp_connect(server, error);
    server->stale = false;
    if (code == 0)
        code = mcp_list(server, &listing, error);
    bl_scope_enter(outer);
    if (code == 0 && server->entry->command != NULL && server->process == NULL)
        code = BL_EPIPE;
    if (code == 0) {
        mcp_listing_unref(server->listing);
        server->listing = listing;
        server->failed_ns = 0;
        listen_for_changes(server);
        bl_scope_done(&server->starting);
        mcp_server_set_state(server, MCP_READY, "");
    } else {
        mcp_listing_unref(listing);
        fail_start(server, code, error);
        bl_scope_done(&server->starting);
        mcp_server_changed(server);
    }
    bl_free(error);
    return 0;
}

/* Returns whether it may be started now. */
static bool is_due(const struct mcp_server *server)
{
    if (server->process != NULL || server->toolbox->mcp_nursery == NULL)
        return false;
    return server->state == MCP_IDLE ||
           (server->state == MCP_FAILED && bl_now_ns() - server->failed_ns >= RETRY_NS);
}

void mcp_server_begin(struct mcp_server *server)
{
    struct bl_nursery *nursery = server->toolbox->mcp_nursery;
    uint64_t limit_ns = server->entry->start_ns != 0 ? server->entry->start_ns : BL_MCP_START_NS;
    if (!is_due(server))
        return;
    bl_scope_init(&server->starting, &nursery->scope);
    bl_scope_set_deadline(&server->starting, bl_time_add(bl_now_ns(), limit_ns));
    mcp_server_set_state(server, MCP_STARTING, "");
    if (bl_nursery_spawn(nursery, NULL, "mcp start", start_main, server, NULL) == 0)
        return;
    bl_scope_done(&server->starting);
    server->failed_ns = bl_now_ns();
    mcp_server_set_state(server, MCP_FAILED, "no fiber is available to start it");
}

int mcp_server_settle(struct mcp_server *server)
{
    struct bl_scope shield;
    int code = 0;
    server->start_waiters++;
    while (server->state == MCP_STARTING && code == 0)
        code = mcp_server_wait(server);
    server->start_waiters--;
    if (server->state != MCP_STARTING || server->start_waiters > 0)
        return code;
    bl_scope_stop(&server->starting, BL_STOP_USER, "no waiters");
    bl_shield_begin(&shield, END_NS_MAX);
    while (server->state == MCP_STARTING && mcp_server_wait(server) == 0)
        continue;
    bl_shield_end(&shield);
    return code;
}

/* Returns whether calls can be sent to it. */
static bool mcp_server_is_usable(const struct mcp_server *server)
{
    const struct mcp_process *process = server->process;
    return server->state == MCP_READY &&
           (server->http != NULL ||
            (process != NULL && !process->doomed && !process->wanted && !process->ended));
}

int mcp_server_ensure(struct mcp_server *server)
{
    int code = bl_check();
    while (code == 0 && !mcp_server_is_usable(server)) {
        if (is_due(server))
            mcp_server_begin(server);
        if (server->state == MCP_STARTING)
            code = mcp_server_settle(server);
        else if (server->process != NULL)
            code = mcp_server_wait(server); /* for the end of the previous process */
        else if (server->state != MCP_IDLE || server->toolbox->mcp_nursery == NULL)
            code = BL_EREFUSED;
    }
    return code;
}

void mcp_server_end(struct mcp_server *server)
{
    struct mcp_process *process;
    if (server->state == MCP_STARTING) {
        bl_scope_stop(&server->starting, BL_STOP_SHUTDOWN, "session");
        while (server->state == MCP_STARTING && mcp_server_wait(server) == 0)
            continue;
    }
    process = server->process;
    if (process != NULL) {
        process->users++;
        mcp_process_stop(process, true, server->toolbox->hurry ? 0 : server->toolbox->mcp_grace_ms);
        mcp_process_await(process);
        mcp_process_unref(process);
    }
    mcp_http_close(server);
    memset(server->deaths_ns, 0, sizeof server->deaths_ns);
    if (server->state != MCP_UNTRUSTED)
        mcp_server_set_state(server, MCP_IDLE, "");
}

/* ---- Messages -------------------------------------------------------------------------------- */

void mcp_server_params(const struct mcp_server *server, struct bl_json_writer *writer,
                       uint64_t token)
{
    bl_json_write_object(writer);
    if (!server->modern && token == 0)
        return;
    bl_json_write_key(writer, BL_TEXT("_meta"));
    bl_json_write_object(writer);
    if (token != 0)
        bl_json_put_uint64(writer, "progressToken", token);
    if (server->modern) {
        bl_json_put_string(writer, "io.modelcontextprotocol/protocolVersion", MCP_MODERN);
        bl_json_put_json(writer, "io.modelcontextprotocol/clientInfo",
                         BL_TEXT("{\"name\":\"belay\",\"version\":\"" BELAY_VERSION "\"}"));
        bl_json_put_json(writer, "io.modelcontextprotocol/clientCapabilities",
                         BL_TEXT("{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"));
    }
    bl_json_write_end(writer);
}

/* A server that has forgotten our session has not processed the request: send it again, in a new
 * session. */
static int ask_http(struct mcp_server *server, const struct mcp_request *request,
                    struct bl_arena *arena, const struct bl_json **ret_result,
                    struct bl_rpc_failure *ret_failure, struct bl_error *error)
{
    int code = mcp_http_ask(server, request, arena, ret_result, ret_failure, error);
    if (code != BL_ECLOSED || server->state != MCP_READY)
        return code;
    *error = (struct bl_error){0};
    code = mcp_connect(server, error);
    if (code != 0)
        return code;
    return mcp_http_ask(server, request, arena, ret_result, ret_failure, error);
}

int mcp_server_ask(struct mcp_server *server, const struct mcp_request *request,
                   struct bl_arena *arena, const struct bl_json **ret_result,
                   struct bl_rpc_failure *ret_failure, struct bl_error *error)
{
    struct mcp_process *process = server->process;
    if (server->http != NULL)
        return ask_http(server, request, arena, ret_result, ret_failure, error);
    if (process == NULL || process->rpc == NULL)
        return bl_error_set(error, BL_EPIPE, BL_KIND_MCP, request->method, server->entry->name,
                            "it is not running");
    process->users++;
    process->asks++;
    int code = bl_rpc_ask(process->rpc, request->method, request->params, arena, ret_result,
                          ret_failure, error);
    process->asks--;
    mcp_server_changed(server);
    mcp_process_unref(process);
    return code;
}

void mcp_server_told(struct mcp_server *server, struct bl_text method, const struct bl_json *params)
{
    if (bl_text_equal(method, BL_TEXT("notifications/tools/list_changed")))
        server->stale = true;
    else if (bl_text_equal(method, BL_TEXT("notifications/progress")))
        mcp_call_progressed(server, params);
}

/* Writes a path as a file URL. */
static void write_address(struct bl_buffer *out, const char *path)
{
    bl_buffer_append(out, BL_TEXT("file://"));
    for (const char *byte = path; *byte != '\0'; byte++) {
        bool plain = (*byte >= 'a' && *byte <= 'z') || (*byte >= 'A' && *byte <= 'Z') ||
                     (*byte >= '0' && *byte <= '9') || strchr("/-._~", *byte) != NULL;
        if (plain)
            bl_buffer_append_byte(out, *byte);
        else
            bl_buffer_printf(out, "%%%02X", (unsigned char)*byte);
    }
}

struct bl_text mcp_server_answer(const struct mcp_server *server, struct bl_arena *arena,
                                 struct bl_text method)
{
    const struct bl_toolbox *toolbox = server->toolbox;
    struct bl_json_writer writer;
    struct bl_buffer out, address;
    if (bl_text_equal(method, BL_TEXT("ping")))
        return BL_TEXT("{}");
    if (!bl_text_equal(method, BL_TEXT("roots/list")))
        return (struct bl_text){0};
    bl_buffer_init(&out, SIZE_MAX);
    bl_buffer_init(&address, SIZE_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("roots"));
    bl_json_write_array(&writer);
    for (size_t i = 0; i == 0 || (toolbox->folders != NULL && toolbox->folders[i - 1] != NULL);
         i++) {
        bl_buffer_clear(&address);
        write_address(&address, i == 0 ? toolbox->workspace : toolbox->folders[i - 1]);
        bl_json_write_object(&writer);
        bl_json_put_text(&writer, "uri", bl_buffer_text(&address));
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    bl_json_write_end(&writer);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    bl_buffer_done(&address);
    return text;
}
