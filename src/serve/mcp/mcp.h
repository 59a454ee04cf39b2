/* The parts of `belay mcp`: what it offers (mcp_run.c, mcp_cell.c, mcp_cancel.c, mcp_task.c), how
 * a message becomes an answer (mcp.c, mcp_version.c, mcp_schema.c), and what carries them
 * (mcp_stdio.c, mcp_http*.c). The carriers know nothing of tools, and the rest nothing of
 * descriptors. */
#ifndef BELAY_SERVE_MCP_H
#define BELAY_SERVE_MCP_H

#include <belay/cell.h>
#include <belay/serve.h>

/* Versions of the protocol that are spoken, newest first. The newest has no session and no
 * handshake: each request says what it is. */
enum mcp_version {
    MCP_2026_07_28,
    MCP_2025_11_25,
    MCP_2025_06_18,
    MCP_UNKNOWN_VERSION,
};

/* Codes of its own. */
enum {
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

const char *mcp_version_name(enum mcp_version version);
enum mcp_version mcp_version_parse(struct bl_text name);

struct mcp_server; /* all of a process (mcp.c) */

/* One client: a pair of standard streams, or a session of HTTP. Embedded by its carrier, who sets
 * nothing but `server`. Requests without a session have one each. */
struct mcp_peer {
    struct mcp_server *server;
    enum mcp_version version; /* agreed on by `initialize`; unknown before */
    bool initialized;
    struct bl_list works; /* what it has under way; the core's own */
};

void mcp_peer_init(struct mcp_peer *peer, struct mcp_server *server);
/* Stops all that it has under way and no task keeps, with that reason, and waits for the end of it,
 * whatever stops the caller. */
void mcp_peer_end(struct mcp_peer *peer, enum bl_stop_reason reason, const char *origin);

/* One request, whatever brought it. Lives until it is answered. */
struct mcp_request {
    struct mcp_peer *peer;
    struct bl_rpc_message message; /* BL_RPC_REQUEST */
    enum mcp_version version;      /* set by mcp_request_check */
    struct bl_arena *arena;
    struct bl_scope *scope; /* the running fiber's: a stop of it is the cancel */
    /* A notification that belongs to it: progress. May wait. */
    void (*notify)(struct mcp_request *request, const char *method, struct bl_text params);
    void *carrier;
};

/* What is to be answered. Texts are in the request's arena. */
struct mcp_reply {
    bool dropped;          /* it was cancelled, and gets none */
    int code;              /* of an error; 0: `result` */
    struct bl_text result; /* one JSON object */
    struct bl_text message;
    struct bl_text data; /* one JSON value; may be empty */
};

/* Which version a request speaks, and whether that is spoken here: by what it says itself, else by
 * what its peer has agreed on. False: `*ret_reply` says what is wrong. In no fiber of its own. */
bool mcp_request_check(struct mcp_request *request, struct mcp_reply *ret_reply);
/* Answers it, in the running fiber and its scope; may take as long as the work does. */
void mcp_request_serve(struct mcp_request *request, struct mcp_reply *ret_reply);
/* Takes a notification other than a cancel, which is the carrier's business. */
void mcp_notification(struct mcp_peer *peer, struct bl_text method, const struct bl_json *params);
/* The schema of a tool's arguments, in the arena; NULL: there is no such tool. */
const struct bl_json *mcp_tool_schema(const struct mcp_server *server, struct bl_arena *arena,
                                      struct bl_text name);

struct mcp_tool;

/* `tools` (NULL: ours) are those of a test, in the place of ours. */
int mcp_server_open(const struct bl_mcp_server_options *options, const struct mcp_tool *tools,
                    size_t tool_count, struct mcp_server **ret_server, struct bl_error *error);
/* bl_mcp_serve with such tools, which are also served over HTTP without a token. */
int mcp_serve(const struct bl_mcp_server_options *options, const struct mcp_tool *tools,
              size_t tool_count, int *ret_exit_code, struct bl_error *error);
/* Ends tasks, cells and all, with that reason. In a fiber. */
void mcp_server_close(struct mcp_server *server, enum bl_stop_reason reason, const char *origin);
/* Something was under way when its client went or it was told to stop. */
bool mcp_server_was_busy(const struct mcp_server *server);

/* The carriers: until their client goes, or the running fiber's scope stops. */
int mcp_stdio_serve(struct mcp_server *server, const struct bl_mcp_server_options *options,
                    struct bl_error *error);
int mcp_http_serve(struct mcp_server *server, const struct bl_mcp_server_options *options,
                   struct bl_error *error);

#endif
