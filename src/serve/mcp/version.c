/* The differences between the versions of the protocol: how a request states its version, and what
 * surrounds a result. */
#include <stdio.h>

#include "core.h"

#define META_VERSION      BL_TEXT("io.modelcontextprotocol/protocolVersion")
#define META_CAPABILITIES BL_TEXT("io.modelcontextprotocol/clientCapabilities")
#define META_SERVER       BL_TEXT("io.modelcontextprotocol/serverInfo")
#define INSTRUCTIONS                                                                               \
    "`run` gives a task to an agent and answers when it has ended. `exec` runs JavaScript in a "   \
    "cell, `wait` continues to observe a cell that has yielded, `terminate` ends it. `cancel` "    \
    "stops work by its id (a run's id is in the progress notifications) and answers with the "     \
    "receipt when none of that work runs any more."

static const char *const version_names[] = {
    [MCP_2026_07_28] = "2026-07-28",
    [MCP_2025_11_25] = "2025-11-25",
    [MCP_2025_06_18] = "2025-06-18",
};

const char *mcp_version_name(enum mcp_version version)
{
    return (size_t)version < BL_COUNT(version_names) ? version_names[version] : "unknown";
}

enum mcp_version mcp_version_parse(struct bl_text name)
{
    for (size_t i = 0; i < BL_COUNT(version_names); i++)
        if (bl_text_equal(name, bl_text_from(version_names[i])))
            return (enum mcp_version)i;
    return MCP_UNKNOWN_VERSION;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

struct bl_text mcp_take(struct bl_arena *arena, struct bl_buffer *buffer)
{
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(buffer));

    bl_buffer_done(buffer);
    return text;
}

void mcp_fail(struct mcp_request *request, struct mcp_reply *reply, int code, const char *path,
              const char *format, ...)
{
    struct bl_json_writer writer;
    struct bl_buffer text;
    va_list arguments;

    *reply = (struct mcp_reply){.code = code};
    va_start(arguments, format);
    reply->message = bl_arena_vprintf(request->arena, format, arguments);
    va_end(arguments);
    if (path == NULL)
        return;
    bl_buffer_init(&text, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "path", path);
    bl_json_write_end(&writer);
    reply->data = mcp_take(request->arena, &text);
}

static struct bl_text error_json(struct bl_arena *arena, const struct bl_error *error)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_error_record, error);
    return mcp_take(arena, &out);
}

void mcp_fail_error(struct mcp_request *request, struct mcp_reply *reply, int code,
                    const struct bl_error *error)
{
    *reply = (struct mcp_reply){
        .code = code,
        .message = bl_arena_text(request->arena, bl_text_from(error->message)),
        .data = error_json(request->arena, error),
    };
}

void mcp_outcome_error(struct bl_arena *arena, const struct bl_error *error,
                       struct mcp_outcome *ret_outcome)
{
    *ret_outcome = (struct mcp_outcome){
        .text = bl_arena_printf(arena, "%s%s%s", error->message, error->hint[0] != '\0' ? "\n" : "",
                                error->hint),
        .problem = error_json(arena, error),
        .is_error = true,
    };
}

/* ---- Version check --------------------------------------------------------------------------- */

const struct bl_json *mcp_request_meta(const struct mcp_request *request, struct bl_text key)
{
    return bl_json_get(bl_json_get(request->message.params, BL_TEXT("_meta")), key);
}

bool mcp_request_takes_tasks(const struct mcp_request *request)
{
    const struct bl_json *capabilities = mcp_request_meta(request, META_CAPABILITIES);
    const struct bl_json *extensions = bl_json_get(capabilities, BL_TEXT("extensions"));

    return request->version == MCP_2026_07_28 &&
           bl_json_is(bl_json_get(extensions, BL_TEXT(MCP_TASKS)), BL_JSON_OBJECT);
}

static void write_versions(struct bl_json_writer *writer, const char *key)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_array(writer);
    for (size_t i = 0; i < BL_COUNT(version_names); i++)
        bl_json_write_string(writer, version_names[i]);
    bl_json_write_end(writer);
}

static bool refuse_version(struct mcp_request *request, struct bl_text asked,
                           struct mcp_reply *ret_reply)
{
    struct bl_json_writer writer;
    struct bl_buffer data;

    mcp_fail(request, ret_reply, MCP_UNSUPPORTED_VERSION, NULL, "Unsupported protocol version");
    bl_buffer_init(&data, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &data);
    bl_json_write_object(&writer);
    write_versions(&writer, "supported");
    bl_json_put_text(&writer, "requested", asked);
    bl_json_write_end(&writer);
    ret_reply->data = mcp_take(request->arena, &data);
    return false;
}

/* A JSON pointer into _meta: a "/" in a key is written as "~1". */
static bool refuse_meta(struct mcp_request *request, const char *name, const char *what,
                        struct mcp_reply *ret_reply)
{
    char path[96];

    snprintf(path, sizeof path, "/_meta/io.modelcontextprotocol~1%s", name);
    mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, path,
             "_meta[\"io.modelcontextprotocol/%s\"] %s", name, what);
    return false;
}

/* A request without a version belongs to an older version, with a handshake before it. */
static bool check_older(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    struct bl_text method = request->message.method;

    request->version = request->peer->version;
    if (request->version != MCP_UNKNOWN_VERSION)
        return true;
    if (bl_text_equal(method, BL_TEXT("ping"))) {
        request->version = MCP_2025_11_25;
        return true;
    }
    return refuse_meta(request, "protocolVersion",
                       "is missing; send it in every request, or `initialize` first", ret_reply);
}

bool mcp_request_check(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    const struct bl_json *version = mcp_request_meta(request, META_VERSION);
    const struct bl_json *params = request->message.params;

    *ret_reply = (struct mcp_reply){0};
    request->version = MCP_2025_11_25;
    if (params != NULL && !bl_json_is(params, BL_JSON_OBJECT)) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "", "the parameters must be an object");
        return false;
    }
    if (bl_text_equal(request->message.method, BL_TEXT("initialize")))
        return true;
    if (version == NULL)
        return check_older(request, ret_reply);
    if (!bl_json_is(version, BL_JSON_STRING))
        return refuse_meta(request, "protocolVersion", "must be a string", ret_reply);
    request->version = mcp_version_parse(bl_json_text(version));
    if (request->version == MCP_UNKNOWN_VERSION)
        return refuse_version(request, bl_json_text(version), ret_reply);
    if (request->version == MCP_2026_07_28 &&
        !bl_json_is(mcp_request_meta(request, META_CAPABILITIES), BL_JSON_OBJECT))
        return refuse_meta(request, "clientCapabilities", "is missing or not an object", ret_reply);
    return true;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void version_write_server(struct bl_json_writer *writer, const struct mcp_server *server)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "name", "belay");
    bl_json_put_string(writer, "title", "Belay");
    bl_json_put_string(writer, "version", server->options.version);
    bl_json_write_end(writer);
}

void mcp_result_begin_with(struct bl_json_writer *writer, const struct mcp_server *server,
                           enum mcp_version version, const char *type, const char *key,
                           struct bl_text json)
{
    bool current = version == MCP_2026_07_28;

    bl_json_write_object(writer);
    if (current)
        bl_json_put_string(writer, "resultType", type);
    if (!current && json.size == 0)
        return;
    bl_json_write_key(writer, BL_TEXT("_meta"));
    bl_json_write_object(writer);
    if (current) {
        bl_json_write_key(writer, META_SERVER);
        version_write_server(writer, server);
    }
    if (json.size > 0)
        bl_json_put_json(writer, key, json);
    bl_json_write_end(writer);
}

void mcp_result_begin(struct bl_json_writer *writer, const struct mcp_server *server,
                      enum mcp_version version, const char *type)
{
    mcp_result_begin_with(writer, server, version, type, NULL, (struct bl_text){0});
}

static void write_text_content(struct bl_json_writer *writer, struct bl_text text)
{
    bl_json_write_key(writer, BL_TEXT("content"));
    bl_json_write_array(writer);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "text");
    bl_json_put_text(writer, "text", text);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

struct bl_text mcp_call_result(struct bl_arena *arena, const struct mcp_server *server,
                               enum mcp_version version, const struct mcp_outcome *outcome)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    mcp_result_begin_with(&writer, server, version, "complete", "belay/error", outcome->problem);
    write_text_content(&writer, outcome->json.size > 0 ? outcome->json : outcome->text);
    if (outcome->json.size > 0)
        bl_json_put_json(&writer, "structuredContent", outcome->json);
    bl_json_put_boolean(&writer, "isError", outcome->is_error);
    bl_json_write_end(&writer);
    return mcp_take(arena, &out);
}

void mcp_answer_outcome(struct mcp_request *request, const struct mcp_outcome *outcome,
                        struct mcp_reply *ret_reply)
{
    *ret_reply = (struct mcp_reply){
        .result = mcp_call_result(request->arena, request->peer->server, request->version, outcome),
    };
}

void mcp_answer_empty(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    mcp_result_begin(&writer, request->peer->server, request->version, "complete");
    bl_json_write_end(&writer);
    *ret_reply = (struct mcp_reply){.result = mcp_take(request->arena, &out)};
}

/* ---- Handshakes ------------------------------------------------------------------------------ */

static bool check_member(struct mcp_request *request, const char *name, enum bl_json_type type,
                         bool required, struct mcp_reply *ret_reply)
{
    const struct bl_json *value = bl_json_get(request->message.params, bl_text_from(name));
    char path[32];

    if (bl_json_is(value, type) || (value == NULL && !required))
        return true;
    snprintf(path, sizeof path, "/%s", name);
    mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, path, "'%s' %s of type %s", name,
             value == NULL ? "is missing; it must be" : "must be", bl_json_type_name(type));
    return false;
}

void mcp_initialize(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    const struct mcp_server *server = request->peer->server;
    struct bl_json_writer writer;
    struct bl_buffer out;

    if (!check_member(request, "protocolVersion", BL_JSON_STRING, true, ret_reply) ||
        !check_member(request, "capabilities", BL_JSON_OBJECT, false, ret_reply) ||
        !check_member(request, "clientInfo", BL_JSON_OBJECT, false, ret_reply))
        return;
    enum mcp_version version = mcp_version_parse(
        bl_json_text(bl_json_get(request->message.params, BL_TEXT("protocolVersion"))));
    /* The current version has no handshake. */
    if (version == MCP_UNKNOWN_VERSION || version == MCP_2026_07_28)
        version = MCP_2025_11_25;
    request->peer->version = request->version = version;
    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "protocolVersion", mcp_version_name(version));
    bl_json_put_json(&writer, "capabilities", BL_TEXT("{\"tools\":{\"listChanged\":false}}"));
    bl_json_write_key(&writer, BL_TEXT("serverInfo"));
    version_write_server(&writer, server);
    bl_json_put_string(&writer, "instructions", INSTRUCTIONS);
    bl_json_write_end(&writer);
    *ret_reply = (struct mcp_reply){.result = mcp_take(request->arena, &out)};
}

void mcp_discover(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    mcp_result_begin(&writer, request->peer->server, request->version, "complete");
    write_versions(&writer, "supportedVersions");
    bl_json_put_json(&writer, "capabilities",
                     BL_TEXT("{\"tools\":{},\"extensions\":{\"" MCP_TASKS "\":{}}}"));
    bl_json_put_string(&writer, "instructions", INSTRUCTIONS);
    bl_json_put_uint64(&writer, "ttlMs", MCP_CACHE_MS);
    bl_json_put_string(&writer, "cacheScope", "public");
    bl_json_write_end(&writer);
    *ret_reply = (struct mcp_reply){.result = mcp_take(request->arena, &out)};
}
