/* Sessions of a client: opened anew or again, listed, given back, deleted. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "acp.h"

#define PAGE_SIZE   50u
#define FOLDERS_MAX 64u
/* For the end of a turn that is being stopped: more than any grace. */
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
        snprintf(message, sizeof message, "no session %.64s is open: session/load opens it",
                 id.data);
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

/* What session/new, load and resume are asked for. In the call's arena. */
struct wish {
    const char *directory;
    const char **folders;
    const struct bl_json *servers;
    const char *id; /* NULL: a new one */
};

/* A folder that is there, links followed. */
static const char *acp_session_read_folder(struct bl_rpc_call *call, const char *path,
                                           struct bl_text given)
{
    struct stat facts;

    if (given.size == 0 || given.data[0] != '/' || strlen(given.data) != given.size) {
        acp_refuse_params(call, path, "it must be an absolute path");
        return NULL;
    }
    char *resolved = realpath(given.data, NULL);
    if (resolved == NULL || stat(resolved, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        acp_refuse_params(call, path, "'%.150s' cannot be used: %s", given.data,
                          resolved == NULL ? strerror(errno) : "it is no folder");
        free(resolved);
        return NULL;
    }
    const char *folder = bl_arena_text(bl_rpc_call_arena(call), bl_text_from(resolved)).data;
    free(resolved);
    return folder;
}

static bool read_folders(struct bl_rpc_call *call, struct wish *wish)
{
    const struct bl_json *given =
        bl_json_get(bl_rpc_call_params(call), BL_TEXT("additionalDirectories"));
    size_t count = 0;
    char path[64];

    if (given != NULL && !bl_json_is(given, BL_JSON_NULL) && !bl_json_is(given, BL_JSON_ARRAY)) {
        acp_refuse_params(call, "/additionalDirectories", "it must be a list of paths");
        return false;
    }
    if (bl_json_size(given) > FOLDERS_MAX) {
        acp_refuse_params(call, "/additionalDirectories", "it has more than %u paths", FOLDERS_MAX);
        return false;
    }
    wish->folders =
        bl_arena_zalloc(bl_rpc_call_arena(call), (FOLDERS_MAX + 1) * sizeof *wish->folders);
    BL_JSON_EACH (folder, given) {
        snprintf(path, sizeof path, "/additionalDirectories/%zu", count);
        wish->folders[count] = acp_session_read_folder(call, path, bl_json_text(folder));
        if (wish->folders[count++] == NULL)
            return false;
    }
    return true;
}

static bool read_wish(struct bl_rpc_call *call, bool existing, struct wish *ret_wish)
{
    struct bl_text directory, id;

    *ret_wish = (struct wish){0};
    if (existing && !acp_param_text(call, "sessionId", &id))
        return false;
    if (!acp_param_text(call, "cwd", &directory))
        return false;
    ret_wish->directory = acp_session_read_folder(call, "/cwd", directory);
    if (ret_wish->directory == NULL || !read_folders(call, ret_wish))
        return false;
    ret_wish->id = existing ? id.data : NULL;
    ret_wish->servers = bl_json_get(bl_rpc_call_params(call), BL_TEXT("mcpServers"));
    if (ret_wish->servers != NULL && !bl_json_is(ret_wish->servers, BL_JSON_ARRAY) &&
        !bl_json_is(ret_wish->servers, BL_JSON_NULL)) {
        acp_refuse_params(call, "/mcpServers", "it must be a list of servers");
        return false;
    }
    return true;
}

static void acp_session_refuse_unknown(struct bl_rpc_call *call, const char *id)
{
    char message[160];

    snprintf(message, sizeof message,
             "there is no session %.64s: session/list names those there are", id);
    bl_rpc_fail(call, BL_RPC_NO_RESOURCE, message, (struct bl_text){0});
}

/* It must be there, be free, and belong to that folder. */
static bool check_existing(struct acp *acp, struct bl_rpc_call *call, const struct wish *wish)
{
    struct bl_arena *arena = bl_rpc_call_arena(call);
    struct bl_error *error = bl_arena_zalloc(arena, sizeof *error);
    struct bl_store_summary summary;

    if (acp_session_find(acp, bl_text_from(wish->id)) != NULL) {
        acp_refuse_params(call, "/sessionId", "session %.64s is open here already", wish->id);
        return false;
    }
    if (bl_session_id_check(wish->id, error) != 0) {
        acp_session_refuse_unknown(call, wish->id);
        return false;
    }
    int code = bl_store_summary(acp->options->runtime->store, arena, wish->id, &summary, error);
    if (code == BL_ENOENT)
        acp_session_refuse_unknown(call, wish->id);
    else if (code != 0)
        acp_fail(call, 0, error);
    else if (strcmp(summary.directory, wish->directory) != 0)
        acp_refuse_params(call, "/cwd", "session %.64s belongs to '%.100s'", wish->id,
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

/* Without a place in the list yet. */
static int acp_make_session(struct acp *acp, const struct wish *wish,
                            struct acp_session **ret_session, struct bl_error *error)
{
    struct acp_session *session = bl_zalloc(sizeof *session);
    struct bl_workspace_request request = {
        .directory = wish->directory,
        .folders = wish->folders,
        .mcp_servers = wish->servers,
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
    session->directory = bl_arena_text(&session->arena, bl_text_from(wish->directory)).data;
    session->listener = (struct bl_listener){acp_on_event, session};
    session->asker = (struct bl_asker){acp_ask, session, 10 * BL_QUESTION_NS_DEFAULT};
    /* It outlives the request that opens it. */
    struct bl_scope *outer = bl_scope_enter(&acp->home);
    int code = bl_runtime_open(acp->options->runtime, &request, &session->workspace, error);
    if (code == 0)
        code = acp_session_open_agent(session, wish->id, error);
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

    /* What is wrong with a server is found by its place in the list. */
    bool of_server = error->target[0] == '/' && error->target[1] >= '0' && error->target[1] <= '9';
    char path[320] = "/cwd";

    if (of_server)
        snprintf(path, sizeof path, "/mcpServers%s", error->target);
    else if (error->kind == BL_KIND_SESSION)
        bl_text_into(path, sizeof path, "/sessionId");
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        bl_rpc_fail(call, BL_RPC_CANCELLED, "it was stopped", (struct bl_text){0});
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
    struct wish wish;

    if (!read_wish(call, existing, &wish) || (existing && !check_existing(acp, call, &wish)))
        return NULL;
    int code = acp_make_session(acp, &wish, &session, error);
    if (code != 0) {
        bl_error_set(error, code, BL_KIND_RUNTIME, "open a session", NULL, "%s",
                     bl_error_text(code));
        refuse_session(call, code, error);
        return NULL;
    }
    /* Whoever went meanwhile left nobody to give it to. */
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

/* "NANOSECONDS.ID" of the last one of the page before. */
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
            acp_refuse_params(call, "/cwd", "it must be an absolute path");
            return;
        }
        /* One that is gone has its sessions all the same. */
        char *resolved = realpath(text.data, NULL);
        options.directory =
            bl_arena_text(arena, resolved != NULL ? bl_text_from(resolved) : text).data;
        free(resolved);
    }
    if (!read_cursor(bl_json_get(params, BL_TEXT("cursor")), arena, &options)) {
        acp_refuse_params(call, "/cursor", "it is none that session/list has given");
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

/* Stops its turn and waits until that is quiet; whatever stops the caller. It cannot be found any
 * more from now on. */
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
