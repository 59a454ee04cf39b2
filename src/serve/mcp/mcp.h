/* The parts of `belay mcp`: its tools (run.c, cell.c, cancel.c, task.c), the handling of messages
 * (mcp.c, version.c, schema.c), and the carriers (stdio.c, http*.c). The carriers know nothing of
 * tools, and the other parts nothing of descriptors. */
#ifndef BELAY_SERVE_MCP_H
#define BELAY_SERVE_MCP_H

#include <belay/cell.h>
#include <belay/serve.h>

/* Supported versions of the protocol, newest first. The newest has no sessions and no handshake:
 * each request states its version. */
enum mcp_version {
    MCP_2026_07_28,
    MCP_2025_11_25,
    MCP_2025_06_18,
    MCP_UNKNOWN_VERSION,
};

/* Error codes of MCP. */
enum {
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

const char *mcp_version_name(enum mcp_version version);
enum mcp_version mcp_version_parse(struct bl_text name);

struct mcp_server; /* one for each process (mcp.c) */

/* One client: a pair of standard streams, or an HTTP session. Embedded by its carrier, which sets
 * only `server`. A request without a session has a peer of its own. */
struct mcp_peer {
    struct mcp_server *server;
    enum mcp_version version; /* as negotiated by `initialize`; unknown before */
    bool initialized;
    struct bl_list works; /* its work in progress; for the core only */
};

void mcp_peer_init(struct mcp_peer *peer, struct mcp_server *server);
/* Stops all its work that is not a task, with that reason, and waits until it has ended, even if
 * the caller's scope is stopped. */
void mcp_peer_end(struct mcp_peer *peer, enum bl_stop_reason reason, const char *origin);

/* One request from any carrier. Valid until it is answered. */
struct mcp_request {
    struct mcp_peer *peer;
    struct bl_rpc_message message; /* BL_RPC_REQUEST */
    enum mcp_version version;      /* set by mcp_request_check */
    struct bl_arena *arena;
    struct bl_scope *scope; /* of the running fiber: stopping it cancels the request */
    /* Sends a notification for this request, such as progress. May wait. */
    void (*notify)(struct mcp_request *request, const char *method, struct bl_text params);
    void *carrier;
};

/* The answer. Texts are in the request's arena. */
struct mcp_reply {
    bool dropped;          /* it was cancelled, and is not answered */
    int code;              /* an error's code; 0: `result` */
    struct bl_text result; /* one JSON object */
    struct bl_text message;
    struct bl_text data; /* one JSON value; may be empty */
};

/* Determines the version of a request, from the request or else from its peer, and checks it.
 * Returns false with the error in `*ret_reply`. Needs no fiber of its own. */
bool mcp_request_check(struct mcp_request *request, struct mcp_reply *ret_reply);
/* Answers the request in the running fiber, under its scope. Takes as long as the work does. */
void mcp_request_serve(struct mcp_request *request, struct mcp_reply *ret_reply);
/* Handles a notification other than a cancel, which the carrier handles. */
void mcp_notification(struct mcp_peer *peer, struct bl_text method, const struct bl_json *params);
/* Returns the schema of a tool's arguments, in the arena, or NULL if there is no such tool. */
const struct bl_json *mcp_tool_schema(const struct mcp_server *server, struct bl_arena *arena,
                                      struct bl_text name);

struct mcp_tool;

/* `tools` (may be NULL) replaces the tools, for tests. */
int mcp_server_open(const struct bl_mcp_server_options *options, const struct mcp_tool *tools,
                    size_t tool_count, struct mcp_server **ret_server, struct bl_error *error);
/* bl_mcp_serve with those tools, which HTTP serves without a token. */
int mcp_serve(const struct bl_mcp_server_options *options, const struct mcp_tool *tools,
              size_t tool_count, int *ret_exit_code, struct bl_error *error);
/* Ends tasks, cells and all other work with that reason. In a fiber. */
void mcp_server_close(struct mcp_server *server, enum bl_stop_reason reason, const char *origin);
/* Returns whether work was in progress when the client disconnected or the server was stopped. */
bool mcp_server_was_busy(const struct mcp_server *server);

/* Run the carrier until its client disconnects or the running fiber's scope stops. */
int mcp_stdio_serve(struct mcp_server *server, const struct bl_mcp_server_options *options,
                    struct bl_error *error);
int mcp_http_serve(struct mcp_server *server, const struct bl_mcp_server_options *options,
                   struct bl_error *error);

#endif
