/* Sessions of a client: created, loaded, resumed, listed, closed and deleted. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "acp.h"

#define PAGE_SIZE   50u
#define FOLDERS_MAX 64u
/* Time limit for the end of a turn that is being stopped: longer than any grace period. */
#define TURN_NS_MAX (3600 * BL_NS_PER_S)

/* ---- Finding --------------------------------------------------------------------------------- */

struct acp_session *acp_session_find(const struct acp *acp, struct bl_text id)
{
    BL_LIST_EACH (link, &acp->sessions) {
        struct acp_session *session = BL_CONTAINER(link, struct acp_session, link);
        if (!session->closing && bl_text_equal(bl_text_from(session->id), id))
            return session;
    }
    return NULL;
}

struct acp_session *acp_session_of(struct acp *acp, struct bl_rpc_call *call)
{
    struct bl_text id;
    char message[160];

    if (!acp_param_text(call, "sessionId", &id))
        return NULL;
    struct acp_session *session = acp_session_find(acp, id);
    if (session == NULL) {
        snprintf(message, sizeof message, "session %.64s is not open: use session/load", id.data);
        bl_rpc_fail(call, BL_RPC_NO_RESOURCE, message, (struct bl_text){0});
    }
    return session;
}

void acp_session_use(struct acp_session *session)
{
    session->users++;
}

void acp_session_leave(struct acp_session *session)
{
    session->users--;
    bl_semaphore_give(&session->left);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Parameters of session/new, load and resume. In the call's arena. */
struct session_params {
    const char *directory;
    const char **folders;
    const struct bl_json *servers;
    const char *id; /* NULL: a new one */
};

/* Returns the resolved path of an existing folder, or NULL after refusing the call. */
static const char *acp_session_read_folder(struct bl_rpc_call *call, const char *path,
                                           struct bl_text given)
{
    struct stat facts;

    if (given.size == 0 || given.data[0] != '/' || strlen(given.data) != given.size) {
        acp_refuse_params(call, path, "expected an absolute path");
        return NULL;
    }
    char *resolved = realpath(given.data, NULL);
    if (resolved == NULL || stat(resolved, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        acp_refuse_params(call, path, "cannot use '%.150s': %s", given.data,
                          resolved == NULL ? strerror(errno) : "not a directory");
        free(resolved);
        return NULL;
    }
    const char *folder = bl_arena_text(bl_rpc_call_arena(call), bl_text_from(resolved)).data;
    free(resolved);
    return folder;
}

static bool read_folders(struct bl_rpc_call *call, struct session_params *params)
{
    const struct bl_json *given =
        bl_json_get(bl_rpc_call_params(call), BL_TEXT("additionalDirectories"));
    size_t count = 0;
    char path[64];

    if (given != NULL && !bl_json_is(given, BL_JSON_NULL) && !bl_json_is(given, BL_JSON_ARRAY)) {
        acp_refuse_params(call, "/additionalDirectories", "expected a list of paths");
        return false;
    }
    if (bl_json_size(given) > FOLDERS_MAX) {
        acp_refuse_params(call, "/additionalDirectories", "expected at most %u paths", FOLDERS_MAX);
        return false;
    }
    params->folders =
        bl_arena_zalloc(bl_rpc_call_arena(call), (FOLDERS_MAX + 1) * sizeof *params->folders);
    BL_JSON_EACH (folder, given) {
        snprintf(path, sizeof path, "/additionalDirectories/%zu", count);
        params->folders[count] = acp_session_read_folder(call, path, bl_json_text(folder));
        if (params->folders[count++] == NULL)
            return false;
    }
    return true;
}

static bool read_session_params(struct bl_rpc_call *call, bool existing,
                                struct session_params *ret_params)
{
    struct bl_text directory, id;

    *ret_params = (struct session_params){0};
    if (existing && !acp_param_text(call, "sessionId", &id))
        return false;
    if (!acp_param_text(call, "cwd", &directory))
        return false;
    ret_params->directory = acp_session_read_folder(call, "/cwd", directory);
    if (ret_params->directory == NULL || !read_folders(call, ret_params))
        return false;
    ret_params->id = existing ? id.data : NULL;
    ret_params->servers = bl_json_get(bl_rpc_call_params(call), BL_TEXT("mcpServers"));
    if (ret_params->servers != NULL && !bl_json_is(ret_params->servers, BL_JSON_ARRAY) &&
        !bl_json_is(ret_params->servers, BL_JSON_NULL)) {
        acp_refuse_params(call, "/mcpServers", "expected a list of servers");
        return false;
    }
    return true;
}

static void acp_session_refuse_unknown(struct bl_rpc_call *call, const char *id)
{
    char message[160];

    snprintf(message, sizeof message, "session %.64s does not exist: see session/list", id);
    bl_rpc_fail(call, BL_RPC_NO_RESOURCE, message, (struct bl_text){0});
}

/* Checks that the session exists, is not open here, and belongs to that folder. */
static bool check_existing(struct acp *acp, struct bl_rpc_call *call,
                           const struct session_params *params)
{
    struct bl_arena *arena = bl_rpc_call_arena(call);
    struct bl_error *error = bl_arena_zalloc(arena, sizeof *error);
    struct bl_store_summary summary;

    if (acp_session_find(acp, bl_text_from(params->id)) != NULL) {
        acp_refuse_params(call, "/sessionId", "session %.64s is already open", params->id);
        return false;
    }
    if (bl_session_id_check(params->id, error) != 0) {
        acp_session_refuse_unknown(call, params->id);
        return false;
    }
    int code = bl_store_summary(acp->options->runtime->store, arena, params->id, &summary, error);
    if (code == BL_ENOENT)
        acp_session_refuse_unknown(call, params->id);
    else if (code != 0)
        acp_fail(call, 0, error);
    else if (strcmp(summary.directory, params->directory) != 0)
        acp_refuse_params(call, "/cwd", "session %.64s belongs to '%.100s'", params->id,
                          summary.directory);
    else
        return true;
    return false;
}

static void acp_free_session(struct acp_session *session)
{
    bl_workspace_close(session->workspace);
    acp_calls_free(session);
    bl_map_done(&session->call_ids);
    bl_buffer_done(&session->receipt);
    bl_arena_done(&session->arena);
    bl_free(session);
}

static int acp_session_open_agent(struct acp_session *session, const char *id,
                                  struct bl_error *error)
{
    struct acp *acp = session->acp;
    struct bl_agent_options options = bl_workspace_agent(session->workspace);

    bl_id_make(session->run_id, "run_");
    options.session.id = id;
    options.session.must_exist = id != NULL;
    options.session.directory = session->directory;
    options.session.run_id = session->run_id;
    options.listener = &session->listener;
    options.asker = &session->asker;
    options.activities = acp->options->activities;
    return bl_agent_open(&options, &session->agent, error);
}

/* Opens a session, without adding it to the list. */
static int acp_make_session(struct acp *acp, const struct session_params *params,
                            struct acp_session **ret_session, struct bl_error *error)
{
    struct acp_session *session = bl_zalloc(sizeof *session);
    struct bl_workspace_request request = {
        .directory = params->directory,
        .folders = params->folders,
        .mcp_servers = params->servers,
        .asks = true,
        .keep = true,
        .max_budget_usd = -1,
    };

    session->acp = acp;
    bl_list_init(&session->link);
    bl_list_init(&session->prompts);
    bl_list_init(&session->calls);
    bl_map_init(&session->call_ids);
    bl_lock_init(&session->turn);
    bl_semaphore_init(&session->left, 0);
    bl_arena_init(&session->arena);
    bl_buffer_init(&session->receipt, SIZE_MAX);
    session->directory = bl_arena_text(&session->arena, bl_text_from(params->directory)).data;
    session->listener = (struct bl_listener){acp_on_event, session};
    session->asker = (struct bl_asker){acp_ask, session, 10 * BL_QUESTION_NS_DEFAULT};
    /* The workspace and the agent outlive the request that opens them. */
    struct bl_scope *outer = bl_scope_enter(&acp->home);
    int code = bl_runtime_open(acp->options->runtime, &request, &session->workspace, error);
    if (code == 0)
        code = acp_session_open_agent(session, params->id, error);
    bl_scope_enter(outer);
    if (code != 0) {
        acp_free_session(session);
        return code;
    }
    bl_text_into(session->id, sizeof session->id, bl_agent_session(session->agent)->id);
    session->timed = session->workspace->options.timed;
    session->timeout_ns = session->workspace->options.timeout_ns;
    *ret_session = session;
    return 0;
}

static void refuse_session(struct bl_rpc_call *call, int code, const struct bl_error *error)
{
    bool of_params = error->kind == BL_KIND_USAGE || error->kind == BL_KIND_SESSION ||
                     error->kind == BL_KIND_PARSE;

    /* The target of an error in a server's configuration is its index in the list. */
    bool of_server = error->target[0] == '/' && error->target[1] >= '0' && error->target[1] <= '9';
    char path[320] = "/cwd";

    if (of_server)
        snprintf(path, sizeof path, "/mcpServers%s", error->target);
    else if (error->kind == BL_KIND_SESSION)
        bl_text_into(path, sizeof path, "/sessionId");
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        bl_rpc_fail(call, BL_RPC_CANCELLED, "the request was stopped", (struct bl_text){0});
    else if (of_params)
        acp_refuse_params(call, path, "%s", error->message);
    else
        acp_fail(call, 0, error);
}

static struct acp_session *acp_open_session(struct acp *acp, struct bl_rpc_call *call,
                                            bool existing)
{
    struct bl_error *error = bl_arena_zalloc(bl_rpc_call_arena(call), sizeof *error);
    struct acp_session *session = NULL;
    struct session_params params;

    if (!read_session_params(call, existing, &params) ||
        (existing && !check_existing(acp, call, &params)))
        return NULL;
    int code = acp_make_session(acp, &params, &session, error);
    if (code != 0) {
        bl_error_set(error, code, BL_KIND_RUNTIME, "open a session", NULL, "%s",
                     bl_error_text(code));
        refuse_session(call, code, error);
        return NULL;
    }
    /* Added even if the client has disconnected meanwhile: then it is ended with the others. */
    bl_list_push_back(&acp->sessions, &session->link);
    session->titled = bl_agent_session(session->agent)->turns_total > 0;
    return session;
}

static void answer_session(struct acp_session *session, struct bl_rpc_call *call, bool with_id)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    if (with_id)
        bl_json_put_string(&writer, "sessionId", session->id);
    acp_config_write(session, &writer);
    bl_json_write_end(&writer);
    bl_rpc_answer(call, bl_buffer_text(&out));
}

void acp_session_new(void *context, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_open_session(context, call, false);

    if (session != NULL)
        answer_session(session, call, true);
}

void acp_session_load(void *context, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_open_session(context, call, true);
    struct bl_error *error = bl_arena_zalloc(bl_rpc_call_arena(call), sizeof *error);

    if (session == NULL)
        return;
    int code = acp_replay(session, error);
    if (code == 0) {
        answer_session(session, call, false);
        return;
    }
    acp_session_end(session, BL_STOP_USER, ACP_ORIGIN);
    refuse_session(call, code, error);
}

void acp_session_resume(void *context, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_open_session(context, call, true);

    if (session != NULL)
        answer_session(session, call, false);
}

/* ---- Listing --------------------------------------------------------------------------------- */

/* The cursor is "NANOSECONDS.ID" of the last session of the previous page. */
static bool read_cursor(const struct bl_json *cursor, struct bl_arena *arena,
                        struct bl_store_list_options *options)
{
    struct bl_text text = bl_json_text(cursor), time;

    if (cursor == NULL || bl_json_is(cursor, BL_JSON_NULL))
        return true;
    if (!bl_text_split(&text, '.', &time) ||
        bl_text_to_int64(time, &options->after_updated_wall_ns) != 0)
        return false;
    options->after_id = bl_arena_text(arena, text).data;
    return strlen(options->after_id) == text.size &&
           bl_session_id_check(options->after_id, NULL) == 0;
}

static void write_info(struct bl_json_writer *writer, const struct bl_store_summary *summary)
{
    char time[32];

    bl_time_format(summary->updated_wall_ns, time);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "sessionId", summary->id);
    bl_json_put_string(writer, "cwd", summary->directory != NULL ? summary->directory : "");
    bl_json_put_string(writer, "title", summary->title);
    bl_json_put_string(writer, "updatedAt", time);
    bl_json_write_end(writer);
}

static void answer_list(struct bl_rpc_call *call, const struct bl_list *summaries)
{
    const struct bl_store_summary *last = NULL;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);
    char cursor[112];
    size_t count = 0;

    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("sessions"));
    bl_json_write_array(&writer);
    BL_LIST_EACH (link, summaries) {
        if (count++ == PAGE_SIZE)
            break;
        last = BL_CONTAINER(link, struct bl_store_summary, link);
        write_info(&writer, last);
    }
    bl_json_write_end(&writer);
    if (count > PAGE_SIZE) {
        snprintf(cursor, sizeof cursor, "%" PRId64 ".%s", last->updated_wall_ns, last->id);
        bl_json_put_string(&writer, "nextCursor", cursor);
    }
    bl_json_write_end(&writer);
    bl_rpc_answer(call, bl_buffer_text(&out));
}

void acp_session_list(void *context, struct bl_rpc_call *call)
{
    struct acp *acp = context;
    const struct bl_json *params = bl_rpc_call_params(call);
    const struct bl_json *directory = bl_json_get(params, BL_TEXT("cwd"));
    struct bl_arena *arena = bl_rpc_call_arena(call);
    struct bl_error *error = bl_arena_zalloc(arena, sizeof *error);
    struct bl_store_list_options options = {.limit = PAGE_SIZE + 1};
    struct bl_list summaries;

    if (directory != NULL && !bl_json_is(directory, BL_JSON_NULL)) {
        struct bl_text text = bl_json_text(directory);
        if (text.size == 0 || text.data[0] != '/' || strlen(text.data) != text.size) {
            acp_refuse_params(call, "/cwd", "expected an absolute path");
            return;
        }
        /* A deleted folder still has its sessions. */
        char *resolved = realpath(text.data, NULL);
        options.directory =
            bl_arena_text(arena, resolved != NULL ? bl_text_from(resolved) : text).data;
        free(resolved);
    }
    if (!read_cursor(bl_json_get(params, BL_TEXT("cursor")), arena, &options)) {
        acp_refuse_params(call, "/cursor", "not a cursor from session/list");
        return;
    }
    bl_list_init(&summaries);
    int code = bl_store_list_page(acp->options->runtime->store, arena, &options, &summaries, error);
    if (code == 0)
        answer_list(call, &summaries);
    else
        refuse_session(call, code, error);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* Stops its turn and waits until that is quiet, even if the caller's scope is stopped. From here on
 * the session cannot be found. */
static void quieten(struct acp_session *session, enum bl_stop_reason reason, const char *origin)
{
    struct bl_scope shield;

    session->closing = true;
    acp_stop_session(session, reason, origin);
    bl_shield_begin(&shield, TURN_NS_MAX);
    while (!bl_list_empty(&session->prompts) || session->users > 0) {
        if (bl_semaphore_take(&session->left) != 0)
            break;
    }
    bl_shield_end(&shield);
}

void acp_session_end(struct acp_session *session, enum bl_stop_reason reason, const char *origin)
{
    struct bl_scope *outer;

    quieten(session, reason, origin);
    outer = bl_scope_enter(&session->acp->home);
    bl_agent_close(session->agent);
    bl_scope_enter(outer);
    bl_list_remove(&session->link);
    acp_free_session(session);
}

static void answer_close(struct bl_rpc_call *call, struct bl_text receipt)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    if (receipt.size > 0) {
        bl_json_write_key(&writer, BL_TEXT("_meta"));
        bl_json_write_object(&writer);
        bl_json_put_json(&writer, "belay/receipt", receipt);
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    bl_rpc_answer(call, bl_buffer_text(&out));
}

void acp_session_close(void *context, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_session_of(context, call);
    struct bl_text receipt = {0};

    if (session == NULL)
        return;
    bool busy = !bl_list_empty(&session->prompts);
    bl_buffer_clear(&session->receipt);
    quieten(session, BL_STOP_USER, ACP_ORIGIN ": session/close");
    if (busy)
        receipt = bl_arena_text(bl_rpc_call_arena(call), bl_buffer_text(&session->receipt));
    acp_session_end(session, BL_STOP_USER, ACP_ORIGIN ": session/close");
    answer_close(call, receipt);
}

void acp_session_delete(void *context, struct bl_rpc_call *call)
{
    struct acp *acp = context;
    struct bl_error *error = bl_arena_zalloc(bl_rpc_call_arena(call), sizeof *error);
    struct bl_text id;

    if (!acp_param_text(call, "sessionId", &id))
        return;
    if (acp_session_find(acp, id) != NULL) {
        acp_refuse_params(call, "/sessionId", "session %.64s is in use: close it first", id.data);
        return;
    }
    if (bl_session_id_check(id.data, error) != 0) {
        acp_session_refuse_unknown(call, id.data);
        return;
    }
    int code = bl_store_delete(acp->options->runtime->store, id.data, error);
    if (code == 0)
        bl_rpc_answer(call, BL_TEXT("{}"));
    else if (code == BL_ENOENT)
        acp_session_refuse_unknown(call, id.data);
    else
        refuse_session(call, code, error);
}
