/* MCP over standard streams: serves one client. */
#include "core.h"

#define LINGER_NS (200 * BL_NS_PER_MS)
#define ORIGIN    "mcp"

struct stdio {
    struct mcp_peer peer;
    struct bl_rpc *rpc;
    struct bl_nursery nursery;
    const char *gone; /* the reason; NULL: it is connected */
};

static void mcp_stdio_notify(struct mcp_request *request, const char *method, struct bl_text params)
{
    bl_rpc_notify(bl_rpc_call_rpc(request->carrier), method, params);
}

static void mcp_stdio_answer(struct bl_rpc_call *call, const struct mcp_reply *reply)
{
    /* A client that has cancelled a request expects no answer, even if there is one. */
    if (reply->dropped || bl_scope_stopped(bl_rpc_call_scope(call)))
        bl_rpc_drop(call);
    else if (reply->code != 0)
        bl_rpc_fail(call, reply->code, reply->message.data, reply->data);
    else
        bl_rpc_answer(call, reply->result);
}

static void mcp_stdio_serve_call(void *context, struct bl_rpc_call *call)
{
    struct stdio *stdio = context;
    struct mcp_request request = {
        .peer = &stdio->peer,
        .message =
            {
                .type = BL_RPC_REQUEST,
                .id = bl_rpc_call_id(call),
                .method = bl_rpc_call_method(call),
                .params = bl_rpc_call_params(call),
            },
        .arena = bl_rpc_call_arena(call),
        .scope = bl_rpc_call_scope(call),
        .notify = mcp_stdio_notify,
        .carrier = call,
    };
    struct mcp_reply reply;

    if (mcp_request_check(&request, &reply))
        mcp_request_serve(&request, &reply);
    mcp_stdio_answer(call, &reply);
}

static void mcp_stdio_on_request(void *context, struct bl_rpc_call *call)
{
    bl_rpc_call_start(call, mcp_stdio_serve_call, context);
}

static void mcp_stdio_on_notification(void *context, struct bl_text method,
                                      const struct bl_json *params)
{
    struct stdio *stdio = context;

    if (!bl_text_equal(method, BL_TEXT("notifications/cancelled"))) {
        mcp_notification(&stdio->peer, method, params);
        return;
    }
    const struct bl_json *id = bl_json_get(params, BL_TEXT("requestId"));
    struct bl_rpc_call *call = id != NULL ? bl_rpc_call_find(stdio->rpc, id) : NULL;
    if (call != NULL && !bl_text_equal(bl_rpc_call_method(call), BL_TEXT("initialize")))
        bl_scope_stop(bl_rpc_call_scope(call), BL_STOP_USER, ORIGIN);
}

/* Stops all work at once, before the requests are stopped: with one reason and one grace period. */
static void mcp_stdio_on_gone(void *context, const char *why)
{
    struct stdio *stdio = context;

    stdio->gone = why;
    mcp_server_halt(stdio->peer.server, BL_STOP_CLIENT_GONE, why);
}

int mcp_stdio_serve(struct mcp_server *server, const struct bl_mcp_server_options *options,
                    struct bl_error *error)
{
    struct stdio *stdio = bl_zalloc(sizeof *stdio);
    struct bl_rpc_options rpc = {
        .in = options->in,
        .out = options->out,
        .request = mcp_stdio_on_request,
        .notification = mcp_stdio_on_notification,
        .gone = mcp_stdio_on_gone,
        .context = stdio,
        .origin = ORIGIN,
    };

    mcp_peer_init(&stdio->peer, server);
    /* Below the server's own scope: the server's stop reaches it in the server's order. */
    bl_nursery_init(&stdio->nursery, &server->nursery.scope);
    int code = bl_rpc_open(&stdio->nursery, &rpc, &stdio->rpc, error);
    if (code == 0) {
        code = bl_rpc_wait_gone(stdio->rpc);
        struct bl_stop stop =
            mcp_server_end_reason(stdio->gone != NULL ? stdio->gone : "end of input");
        mcp_server_halt(server, stop.reason, stop.origin);
        mcp_peer_end(&stdio->peer, stop.reason, stop.origin);
        bl_rpc_close(stdio->rpc, LINGER_NS);
    }
    bl_nursery_done(&stdio->nursery);
    bl_free(stdio);
    return code;
}
