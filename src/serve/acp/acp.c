/* Design notes.
 *
 * The fiber that reads registers each request before it reads the next line: when it reads a
 * cancel, the prompt before it is in its session's list, with a scope that can be stopped. Requests
 * that take time run in fibers of their own.
 *
 * Sessions live in a scope of their own, outside every request. When the client disconnects, each
 * prompt is stopped by itself (client_gone), so that its receipt has the reason. Then the
 * connection is closed, which waits for all requests, and the sessions are released. */
#include "acp.h"

#include <stdarg.h>
#include <stdio.h>

/* Time limit for sending answers that are ready when the client disconnects. */
#define LINGER_NS (250 * BL_NS_PER_MS)

/* ---- Refusals -------------------------------------------------------------------------------- */

void acp_refuse_params(struct bl_rpc_call *call, const char *path, const char *format, ...)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(data, SIZE_MAX);
    char message[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    bl_json_writer_init(&writer, &data);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "path", path);
    bl_json_put_string(&writer, "reason", message);
    bl_json_write_end(&writer);
    bl_rpc_fail(call, BL_RPC_INVALID_PARAMS, message, bl_buffer_text(&data));
}

void acp_fail(struct bl_rpc_call *call, int code, const struct bl_error *error)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(data, SIZE_MAX);

    if (code == 0)
        code = error->kind == BL_KIND_AUTH    ? BL_RPC_AUTH_REQUIRED
               : error->kind == BL_KIND_USAGE ? BL_RPC_INVALID_PARAMS
                                              : BL_RPC_INTERNAL;
    bl_json_writer_init(&writer, &data);
    bl_record_write(&writer, &bl_error_record, error);
    bl_rpc_fail(call, code, error->message, bl_buffer_text(&data));
}

bool acp_param_text(struct bl_rpc_call *call, const char *name, struct bl_text *ret_text)
{
    const struct bl_json *value = bl_json_get(bl_rpc_call_params(call), bl_text_from(name));
    char path[64];

    snprintf(path, sizeof path, "/%s", name);
    *ret_text = bl_json_text(value);
    if (!bl_json_is(value, BL_JSON_STRING))
        acp_refuse_params(call, path, "\"%s\" must be a string", name);
    return bl_json_is(value, BL_JSON_STRING);
}

/* ---- initialize ------------------------------------------------------------------------------ */

static void write_capabilities(const struct acp *acp, struct bl_json_writer *writer)
{
    static const char *const methods[] = {"_belay/inject", "_belay/cancel", "_belay/ps"};
    static const char *const abilities[] = {"list", "resume", "close", "delete",
                                            "additionalDirectories"};

    bl_json_write_key(writer, BL_TEXT("agentCapabilities"));
    bl_json_write_object(writer);
    bl_json_put_boolean(writer, "loadSession", true);
    bl_json_write_key(writer, BL_TEXT("promptCapabilities"));
    bl_json_write_object(writer);
    bl_json_put_boolean(writer, "image", acp->options->runtime->takes_images);
    bl_json_put_boolean(writer, "audio", false);
    bl_json_put_boolean(writer, "embeddedContext", true);
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("mcpCapabilities"));
    bl_json_write_object(writer);
    bl_json_put_boolean(writer, "http", true);
    bl_json_put_boolean(writer, "sse", false);
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("sessionCapabilities"));
    bl_json_write_object(writer);
    for (size_t i = 0; i < BL_COUNT(abilities); i++)
        bl_json_put_json(writer, abilities[i], BL_TEXT("{}"));
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("_meta"));
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("belay/methods"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < BL_COUNT(methods); i++)
        bl_json_write_string(writer, methods[i]);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

/* If there is no key: each variable that could hold one. */
static void write_auth_methods(const struct acp *acp, struct bl_json_writer *writer)
{
    const char *const *keys = acp->options->runtime->keys;
    char text[160];

    bl_json_write_key(writer, BL_TEXT("authMethods"));
    bl_json_write_array(writer);
    for (; keys != NULL && *keys != NULL; keys++) {
        bl_json_write_object(writer);
        snprintf(text, sizeof text, "env:%s", *keys);
        bl_json_put_string(writer, "id", text);
        snprintf(text, sizeof text, "Set %s", *keys);
        bl_json_put_string(writer, "name", text);
        snprintf(text, sizeof text,
                 "Set the environment variable %s to the key and start belay again, or configure "
                 "a provider in config.yaml.",
                 *keys);
        bl_json_put_string(writer, "description", text);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

static bool client_takes(const struct bl_json *params, const char *pointer)
{
    return bl_json_is(bl_json_pointer(params, bl_text_from(pointer)), BL_JSON_OBJECT);
}

static void answer_initialize(struct acp *acp, struct bl_rpc_call *call)
{
    const struct bl_json *params = bl_rpc_call_params(call);
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);
    int64_t version;

    if (!bl_json_int64(bl_json_get(params, BL_TEXT("protocolVersion")), &version) || version < 0 ||
        version > UINT16_MAX) {
        acp_refuse_params(call, "/protocolVersion",
                          "\"protocolVersion\" must be a whole number from 0 to 65535");
        return;
    }
    acp->initialized = true;
    acp->takes_notices = client_takes(params, "/clientCapabilities/session/notices");
    acp->takes_compactions = client_takes(params, "/clientCapabilities/session/compaction");
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_put_uint64(&writer, "protocolVersion", BL_ACP_VERSION);
    bl_json_write_key(&writer, BL_TEXT("agentInfo"));
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "name", "belay");
    bl_json_put_string(&writer, "title", "Belay");
    bl_json_put_string(&writer, "version", acp->options->version);
    bl_json_write_end(&writer);
    write_auth_methods(acp, &writer);
    write_capabilities(acp, &writer);
    bl_json_write_end(&writer);
    bl_rpc_answer(call, bl_buffer_text(&out));
}

/* The environment of a process does not change: a key needs a new start. */
static void answer_authenticate(struct acp *acp, struct bl_rpc_call *call)
{
    struct bl_text method;

    if (!acp_param_text(call, "methodId", &method))
        return;
    if (acp->options->runtime->keys == NULL)
        bl_rpc_answer(call, BL_TEXT("{}"));
    else
        bl_rpc_fail(call, BL_RPC_AUTH_REQUIRED,
                    "set the environment variable that the method names, and start belay again",
                    (struct bl_text){0});
}

static void acp_answer_ps(struct acp *acp, struct bl_rpc_call *call)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("activities"));
    bl_activities_write(acp->options->activities, &writer);
    bl_json_write_end(&writer);
    bl_rpc_answer(call, bl_buffer_text(&out));
}

/* ---- Requests and notifications -------------------------------------------------------------- */

/* A method is answered in the fiber that reads (`now`) or in a fiber of its own (`later`). */
static const struct {
    const char *name;
    void (*now)(struct acp *acp, struct bl_rpc_call *call);
    void (*later)(void *acp, struct bl_rpc_call *call);
} methods[] = {
    {"authenticate", answer_authenticate, NULL},
    {"session/new", NULL, acp_session_new},
    {"session/load", NULL, acp_session_load},
    {"session/resume", NULL, acp_session_resume},
    {"session/list", NULL, acp_session_list},
    {"session/close", NULL, acp_session_close},
    {"session/delete", NULL, acp_session_delete},
    {"session/prompt", acp_prompt_take, NULL},
    {"session/set_mode", NULL, acp_set_mode},
    {"session/set_config_option", NULL, acp_set_config_option},
    {"_belay/inject", acp_inject, NULL},
    {"_belay/cancel", NULL, acp_cancel_work},
    {"_belay/ps", acp_answer_ps, NULL},
};

static void acp_on_request(void *context, struct bl_rpc_call *call)
{
    struct acp *acp = context;
    struct bl_text name = bl_rpc_call_method(call);

    if (bl_text_equal(name, BL_TEXT("initialize"))) {
        answer_initialize(acp, call);
        return;
    }
    if (!acp->initialized) {
        bl_rpc_fail(call, BL_RPC_INVALID_REQUEST, "\"initialize\" must come first",
                    (struct bl_text){0});
        return;
    }
    for (size_t i = 0; i < BL_COUNT(methods); i++) {
        if (!bl_text_equal(name, bl_text_from(methods[i].name)))
            continue;
        if (methods[i].now != NULL)
            methods[i].now(acp, call);
        else
            bl_rpc_call_start(call, methods[i].later, acp);
        return;
    }
}

static void acp_on_notification(void *context, struct bl_text method, const struct bl_json *params)
{
    struct acp *acp = context;

    if (bl_text_equal(method, BL_TEXT("session/cancel"))) {
        struct acp_session *session =
            acp_session_find(acp, bl_json_text(bl_json_get(params, BL_TEXT("sessionId"))));
        if (session != NULL)
            acp_cancel_session(session);
    } else if (bl_text_equal(method, BL_TEXT("$/cancel_request"))) {
        const struct bl_json *id = bl_json_get(params, BL_TEXT("requestId"));
        struct bl_rpc_call *call = id != NULL ? bl_rpc_call_find(acp->rpc, id) : NULL;
        if (call != NULL)
            acp_cancel_call(acp, call);
    }
}

/* The client has disconnected, or the server stops: stops each prompt, for that reason. */
static void stop_all(struct acp *acp, enum bl_stop_reason reason, const char *origin)
{
    BL_LIST_EACH (link, &acp->sessions) {
        struct acp_session *session = BL_CONTAINER(link, struct acp_session, link);
        acp->was_busy = acp->was_busy || !bl_list_empty(&session->prompts);
        acp_stop_session(session, reason, origin);
    }
}

static void acp_on_gone(void *context, const char *why)
{
    struct acp *acp = context;
    char origin[sizeof((struct bl_stop *)NULL)->origin];

    snprintf(origin, sizeof origin, ACP_ORIGIN ": %s", why);
    stop_all(acp, BL_STOP_CLIENT_GONE, origin);
}

/* ---- The connection -------------------------------------------------------------------------- */

static void end_sessions(struct acp *acp, enum bl_stop_reason reason, const char *origin)
{
    struct bl_list *link;

    while (!bl_list_empty(&acp->sessions)) {
        link = acp->sessions.next;
        acp_session_end(BL_CONTAINER(link, struct acp_session, link), reason, origin);
    }
}

static int acp_exit_code_of(const struct acp *acp, const struct bl_stop *stop)
{
    if (stop->reason == BL_STOP_NONE)
        return acp->was_busy ? 130 : 0;
    return strcmp(stop->origin, "SIGTERM") == 0 ? 143 : 130;
}

int bl_acp_serve(const struct bl_acp_options *options, int *ret_exit_code, struct bl_error *error)
{
    struct acp *acp = bl_zalloc(sizeof *acp);
    struct bl_rpc_options connection = {
        .in = options->in,
        .out = options->out,
        .cancel_method = "$/cancel_request",
        .request = acp_on_request,
        .notification = acp_on_notification,
        .gone = acp_on_gone,
        .context = acp,
        .origin = ACP_ORIGIN,
    };
    struct bl_stop stop = {.reason = BL_STOP_NONE};
    struct bl_scope shield;

    acp->options = options;
    bl_list_init(&acp->sessions);
    bl_semaphore_init(&acp->slots, BL_ACP_SESSIONS_MAX);
    bl_scope_init(&acp->home, bl_scope_current());
    /* Answers must still be sent after the caller's scope is stopped. */
    bl_shield_begin(&shield, BL_NEVER);
    bl_nursery_init(&acp->nursery, &shield);
    bl_scope_enter(shield.parent);
    int code = bl_rpc_open(&acp->nursery, &connection, &acp->rpc, error);
    if (code == 0) {
        if (bl_rpc_wait_gone(acp->rpc) != 0) {
            bl_scope_stop_read(bl_scope_current(), &stop);
            stop_all(acp, stop.reason, stop.origin);
        }
        *ret_exit_code = acp_exit_code_of(acp, &stop);
        bl_scope_enter(&shield);
        bl_rpc_close(acp->rpc, LINGER_NS);
        end_sessions(acp, stop.reason == BL_STOP_NONE ? BL_STOP_CLIENT_GONE : stop.reason,
                     stop.reason == BL_STOP_NONE ? ACP_ORIGIN : stop.origin);
    }
    bl_scope_enter(&shield);
    bl_nursery_done(&acp->nursery);
    bl_shield_end(&shield);
    bl_scope_done(&acp->home);
    bl_free(acp);
    return code;
}
