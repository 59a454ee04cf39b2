/* An MCP server without a carrier: requests are texts, answered in fibers of the test. Its runtime
 * is real: the script model, tools in wardens, and a SQLite file in a folder of its own. */
#ifndef BELAY_TESTS_SERVE_MCP_RIG_H
#define BELAY_TESTS_SERVE_MCP_RIG_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fibers.h"
#include "serve/mcp/core.h"

#define MS BL_NS_PER_MS
#define NOW_META                                                                                   \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define TASK_META                                                                                  \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"                             \
    "\"io.modelcontextprotocol/tasks\":{}}}}"
/* The parameters of a call, ' for ". */
#define CALL(meta, tool, arguments) "{" meta ",'name':'" tool "','arguments':" arguments "}"

struct mcp_rig {
    char folder[64];
    char path[96];
    struct bl_store *store;
    char script[96];
    struct bl_activities activities;
    struct bl_workspace_options workspace;
    struct bl_runtime runtime;
    struct bl_mcp_server_options options;
    struct mcp_server *server;
    struct mcp_peer peer;
    struct bl_nursery nursery;
    struct bl_arena arena;
    struct bl_error error;
};

/* ---- Start and end --------------------------------------------------------------------------- */

static inline void rig_open_server(struct mcp_rig *rig)
{
    CHECK_EQUAL(bl_store_open(rig->path, &rig->store, &rig->error), 0);
    CHECK_EQUAL(bl_runtime_begin(&rig->runtime, &rig->workspace, rig->store, &rig->error), 0);
    CHECK_EQUAL(mcp_server_open(&rig->options, NULL, 0, &rig->server, &rig->error), 0);
    mcp_peer_init(&rig->peer, rig->server);
}

static inline void rig_close_server(struct mcp_rig *rig, enum bl_stop_reason reason)
{
    mcp_peer_end(&rig->peer, reason, "test");
    mcp_server_close(rig->server, reason, "test");
    CHECK(bl_list_empty(&rig->runtime.open));
    CHECK(bl_list_empty(&rig->activities.list));
    bl_runtime_end(&rig->runtime);
    bl_store_close(rig->store);
}

static inline void rig_write_script(const struct mcp_rig *rig, const char *script)
{
    FILE *file = fopen(rig->script, "we");

    if (!CHECK(file != NULL))
        return;
    CHECK(fputs(script, file) >= 0);
    CHECK_EQUAL(fclose(file), 0);
}

/* The next workspace never finishes opening: the file that it reads is a FIFO. */
static inline void rig_block_opening(struct mcp_rig *rig)
{
    static char path[96];

    snprintf(path, sizeof path, "%s/fifo", rig->folder);
    CHECK_EQUAL(mkfifo(path, 0600), 0);
    rig->workspace.system_path = path;
}

/* Releases a thread that still waits for it; a thread that comes later finds nothing. */
static inline void rig_unblock_opening(const struct mcp_rig *rig)
{
    int fd = open(rig->workspace.system_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_EQUAL(unlink(rig->workspace.system_path), 0);
    close(fd);
}

/* Sets up everything but store and server. */
static inline void mcp_rig_prepare(struct mcp_rig *rig, const char *folder, const char *script)
{
    memset(rig, 0, sizeof *rig);
    bl_text_into(rig->folder, sizeof rig->folder, folder);
    snprintf(rig->path, sizeof rig->path, "%s/sessions.db", rig->folder);
    bl_arena_init(&rig->arena);
    bl_activities_init(&rig->activities);
    snprintf(rig->script, sizeof rig->script, "%s/script.yaml", rig->folder);
    rig_write_script(rig, script);
    setenv("XDG_CONFIG_HOME", rig->folder, 1);
    bl_workspace_options_init(&rig->workspace, rig->folder);
    rig->workspace.provider = "script";
    rig->workspace.model = rig->script;
    rig->workspace.mode_chosen = true;
    rig->workspace.mode = BL_PERMISSION_YOLO;
    rig->workspace.sandbox_chosen = true;
    rig->workspace.max_turns = 8;
    rig->options = (struct bl_mcp_server_options){
        .runtime = &rig->runtime, .activities = &rig->activities, .version = "1.2.3"};
    bl_nursery_init(&rig->nursery, bl_scope_current());
}

static inline void mcp_rig_init(struct mcp_rig *rig, const char *script)
{
    char folder[] = "/tmp/belay-mcp-XXXXXX";

    CHECK(mkdtemp(folder) != NULL);
    mcp_rig_prepare(rig, folder, script);
    rig_open_server(rig);
}

/* Tests leave only files there. */
static inline void rig_remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;

    if (!CHECK(folder != NULL))
        return;
    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            CHECK_EQUAL(unlinkat(dirfd(folder), entry->d_name, 0), 0);
    closedir(folder);
    CHECK_EQUAL(rmdir(path), 0);
}

static inline void mcp_rig_done(struct mcp_rig *rig)
{
    bl_nursery_done(&rig->nursery);
    rig_close_server(rig, BL_STOP_SHUTDOWN);
    bl_arena_done(&rig->arena);
    rig_remove_folder(rig->folder);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* One request and its answer. */
struct asked {
    struct mcp_rig *rig;
    struct mcp_peer *peer;
    const char *method;
    const char *params; /* with ' for "; NULL: none */
    struct bl_scope scope;
    struct bl_arena arena;
    struct mcp_request request;
    struct mcp_reply reply;
    const struct bl_json *result;
    struct bl_fiber *fiber;
    size_t progress_count;
    char progress_id[MCP_ID_SIZE]; /* the id in the newest one */
    struct bl_semaphore told;
};

static inline const struct bl_json *rig_json(struct bl_arena *arena, struct bl_text text)
{
    const struct bl_json *value = NULL;

    if (text.size > 0 && !CHECK_EQUAL(bl_json_read(arena, text, NULL, &value, NULL), 0))
        print_error("no JSON: " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(text));
    return value;
}

static inline struct bl_text rig_quoted(struct bl_arena *arena, const char *text)
{
    struct bl_text copy = bl_arena_text(arena, bl_text_from(text));

    for (size_t i = 0; i < copy.size; i++)
        if (copy.data[i] == '\'')
            ((char *)(uintptr_t)copy.data)[i] = '"';
    return copy;
}

static inline void asked_notify(struct mcp_request *request, const char *method,
                                struct bl_text params)
{
    struct asked *asked = request->carrier;
    const struct bl_json *value = rig_json(&asked->arena, params);
    struct bl_text message = bl_json_text(bl_json_get(value, BL_TEXT("message"))), id;
    int64_t progress = -1;

    CHECK(strcmp(method, "notifications/progress") == 0);
    CHECK(bl_json_int64(bl_json_get(value, BL_TEXT("progress")), &progress));
    CHECK_EQUAL(progress, ++asked->progress_count);
    CHECK(bl_text_split(&message, ':', &id));
    bl_text_into(asked->progress_id, sizeof asked->progress_id,
                 bl_arena_text(&asked->arena, id).data);
    bl_semaphore_give(&asked->told);
}

static inline int asked_main(void *argument)
{
    struct asked *asked = argument;
    struct bl_scope *outer = bl_scope_enter(&asked->scope);

    if (mcp_request_check(&asked->request, &asked->reply))
        mcp_request_serve(&asked->request, &asked->reply);
    bl_scope_enter(outer);
    if (!asked->reply.dropped && asked->reply.code == 0)
        asked->result = rig_json(&asked->arena, asked->reply.result);
    return 0;
}

/* Sends a request; free it with asked_done. */
static inline struct asked *ask_by(struct mcp_rig *rig, struct mcp_peer *peer, const char *method,
                                   const char *params)
{
    struct asked *asked = bl_zalloc(sizeof *asked);

    asked->rig = rig;
    bl_arena_init(&asked->arena);
    bl_scope_init(&asked->scope, &rig->nursery.scope);
    bl_semaphore_init(&asked->told, 0);
    asked->request = (struct mcp_request){
        .peer = peer,
        .message = {.type = BL_RPC_REQUEST,
                    .id = rig_json(&asked->arena, BL_TEXT("7")),
                    .method = bl_arena_text(&asked->arena, bl_text_from(method))},
        .arena = &asked->arena,
        .scope = &asked->scope,
        .notify = asked_notify,
        .carrier = asked,
    };
    if (params != NULL)
        asked->request.message.params = rig_json(&asked->arena, rig_quoted(&asked->arena, params));
    CHECK_EQUAL(bl_nursery_spawn(&rig->nursery, NULL, "asked", asked_main, asked, &asked->fiber),
                0);
    return asked;
}

static inline struct asked *ask(struct mcp_rig *rig, const char *method, const char *params)
{
    return ask_by(rig, &rig->peer, method, params);
}

static inline struct asked *asked_await(struct asked *asked)
{
    bl_fiber_join(asked->fiber, NULL);
    return asked;
}

static inline void asked_done(struct asked *asked)
{
    asked_await(asked);
    bl_scope_done(&asked->scope);
    bl_arena_done(&asked->arena);
    bl_free(asked);
}

/* Sends a request and waits for the answer. */
static inline struct asked *answer_to(struct mcp_rig *rig, const char *method, const char *params)
{
    return asked_await(ask(rig, method, params));
}

static inline struct bl_text asked_text(const struct asked *asked, const char *pointer)
{
    return bl_json_text(bl_json_pointer(asked->result, bl_text_from(pointer)));
}

static inline bool asked_is(const struct asked *asked, const char *pointer, const char *text)
{
    bool is = bl_text_equal(asked_text(asked, pointer), bl_text_from(text));

    if (!is)
        print_error("%s is not '%s' in code %d " BL_TEXT_FORMAT " " BL_TEXT_FORMAT "\n", pointer,
                    text, asked->reply.code, BL_TEXT_ARG(asked->reply.message),
                    BL_TEXT_ARG(asked->reply.result));
    return is;
}

static inline bool asked_failed(const struct asked *asked, int code, const char *path)
{
    const struct bl_json *data =
        rig_json((struct bl_arena *)(uintptr_t)&asked->arena, asked->reply.data);
    bool is = asked->reply.code == code &&
              (path == NULL ||
               bl_text_equal(bl_json_text(bl_json_get(data, BL_TEXT("path"))), bl_text_from(path)));

    if (!is)
        print_error("not %d %s: code %d " BL_TEXT_FORMAT " " BL_TEXT_FORMAT "\n", code,
                    path != NULL ? path : "", asked->reply.code, BL_TEXT_ARG(asked->reply.message),
                    BL_TEXT_ARG(asked->reply.result));
    return is;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Returns the number of processes that work in the folder. */
static inline size_t rig_processes(const struct mcp_rig *rig)
{
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    size_t count = 0;

    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        char path[300], folder[64];
        snprintf(path, sizeof path, "/proc/%s/cwd", entry->d_name);
        ssize_t size = readlink(path, folder, sizeof folder);
        count +=
            size == (ssize_t)strlen(rig->folder) && strncmp(folder, rig->folder, (size_t)size) == 0;
    }
    if (processes != NULL)
        closedir(processes);
    return count;
}

static inline bool rig_has_file(const struct mcp_rig *rig, const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", rig->folder, name);
    return access(path, F_OK) == 0;
}

static inline void rig_touch(const struct mcp_rig *rig, const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", rig->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
}

static inline void rig_await_file(const struct mcp_rig *rig, const char *name)
{
    uint64_t until_ns = bl_now_ns() + 60 * BL_NS_PER_S;

    while (!rig_has_file(rig, name) && CHECK(bl_now_ns() < until_ns))
        bl_sleep(5 * MS);
}

/* Returns the next line from a socket, in the arena, or an empty text at the end. */
static inline struct bl_text rig_line(struct mcp_rig *rig, int fd)
{
    uint64_t until_ns = bl_now_ns() + 60 * BL_NS_PER_S;
    struct bl_buffer line;
    char byte = 0;

    bl_buffer_init(&line, SIZE_MAX);
    while (byte != '\n' && CHECK(bl_now_ns() < until_ns)) {
        ssize_t count = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (count < 0 && errno == EAGAIN)
            bl_sleep(MS);
        else if (count <= 0)
            break;
        else if (byte != '\n')
            bl_buffer_append_byte(&line, byte);
    }
    return mcp_take(&rig->arena, &line);
}

/* ---- Standard streams ------------------------------------------------------------------------ */

struct streams {
    struct mcp_rig *rig;
    int ours;
    int theirs;
    struct bl_scope scope;
    struct bl_fiber *fiber;
    int exit_code;
    int code;
};

static inline int streams_main(void *argument)
{
    struct streams *streams = argument;
    struct bl_mcp_server_options options = streams->rig->options;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_scope *outer = bl_scope_enter(&streams->scope);

    options.in = options.out = streams->theirs;
    streams->code = bl_mcp_serve(&options, &streams->exit_code, error);
    bl_scope_enter(outer);
    bl_free(error);
    return 0;
}

static inline void streams_open(struct streams *streams, struct mcp_rig *rig)
{
    int ends[2];

    *streams = (struct streams){.rig = rig, .exit_code = -1, .code = -1};
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    streams->ours = ends[0];
    streams->theirs = ends[1];
    bl_scope_init(&streams->scope, &rig->nursery.scope);
    CHECK_EQUAL(
        bl_nursery_spawn(&rig->nursery, NULL, "streams", streams_main, streams, &streams->fiber),
        0);
}

static inline void streams_say(struct streams *streams, const char *line)
{
    struct bl_text text = rig_quoted(&streams->rig->arena, line);

    CHECK_EQUAL(send(streams->ours, text.data, text.size, MSG_NOSIGNAL), text.size);
    CHECK_EQUAL(send(streams->ours, "\n", 1, MSG_NOSIGNAL), 1);
}

static inline const struct bl_json *streams_hear(struct streams *streams)
{
    return rig_json(&streams->rig->arena, rig_line(streams->rig, streams->ours));
}

static inline bool is_text(const struct bl_json *message, const char *pointer, const char *text)
{
    return bl_text_equal(bl_json_text(bl_json_pointer(message, bl_text_from(pointer))),
                         bl_text_from(text));
}

/* Ends our side; the server must end all of its own. */
static inline void streams_close(struct streams *streams)
{
    if (streams->ours >= 0)
        close(streams->ours);
    bl_fiber_join(streams->fiber, NULL);
    close(streams->theirs);
    bl_scope_done(&streams->scope);
}

#define REQUEST(id, method, params)                                                                \
    "{'jsonrpc':'2.0','id':" id ",'method':'" method "','params':" params "}"
#define NOTIFY(method, params) "{'jsonrpc':'2.0','method':'" method "','params':" params "}"
#define OPENING                                                                                    \
    "{'protocolVersion':'2025-11-25','capabilities':{},'clientInfo':{'name':'t','version':'0'}}"

/* Each test runs on a rig of its own. */
#define MCP_RIG(name, script)                                                                      \
    static void name##_play(struct mcp_rig *rig);                                                  \
    static int name##_main(void *argument BL_UNUSED)                                               \
    {                                                                                              \
        struct mcp_rig *rig = bl_alloc(sizeof *rig);                                               \
        mcp_rig_init(rig, script);                                                                 \
        name##_play(rig);                                                                          \
        mcp_rig_done(rig);                                                                         \
        bl_free(rig);                                                                              \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        run_in_loop(name##_main, NULL);                                                            \
    }                                                                                              \
    static void name##_play(struct mcp_rig *rig)

#endif
