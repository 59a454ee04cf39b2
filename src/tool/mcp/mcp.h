/* Shared by the files about MCP servers, from the configuration file to the result of a call.
 *
 * A server is an entry of a file, and once it is used, a process (stdio) or an address (HTTP). Its
 * tools are a listing; the listings of all servers, with the built-in tools, are the toolbox's
 * offers. */
#ifndef BELAY_TOOL_MCP_H
#define BELAY_TOOL_MCP_H

#include <belay/rpc.h>
#include <belay/version.h>
#include <belay/wire.h>

#include "tool/parts.h"

#define MCP_MODERN "2026-07-28"
#define MCP_LEGACY "2025-11-25"

#define MCP_DISCOVER_NS  BL_NS_PER_S
#define MCP_PAGES_MAX    100u
#define MCP_TOOLS_MAX    512u
#define MCP_SCHEMA_MAX   ((size_t)64 * 1024)
#define MCP_ERRORS_MAX   ((size_t)64 * 1024)
#define MCP_RESTARTS_MAX 3u
#define MCP_RESTARTS_NS  (60 * BL_NS_PER_S)
#define MCP_NAME_SIZE    65u

struct mcp_server;

/* ---- trust.c --------------------------------------------------------------------------------- */

/* Computes `digest`, when all other fields are filled. */
void mcp_entry_seal(struct bl_mcp_entry *entry);

/* ---- name.c ---------------------------------------------------------------------------------- */

/* Returns whether a server's tool can have a name that matches the pattern: mcp__SERVER__TOOL, or
 * with stars. */
bool mcp_name_is_possible(struct bl_text pattern);
/* Writes "mcp__server__tool" with characters replaced that models do not accept. Returns false if
 * it is too long. */
bool mcp_name_plain(char out[MCP_NAME_SIZE], const char *server, struct bl_text tool);
/* Writes the same, shortened, with 8 hex digits that identify server and tool; each `salt` gives
 * different digits. */
void mcp_name_hashed(char out[MCP_NAME_SIZE], const char *server, struct bl_text tool,
                     unsigned salt);

/* ---- list.c: the tools of a server ----------------------------------------------------------- */

/* An argument that is sent in its own header: Mcp-Param-NAME. */
struct mcp_header {
    const char *name;
    const struct bl_text *path; /* keys that lead from the arguments to it */
    size_t depth;
};

/* In the arena of its listing. */
struct mcp_tool {
    struct mcp_server *server;
    struct bl_text own_name; /* the server's name for it */
    const char *description;
    struct bl_text schema;
    struct bl_json_schema *compiled; /* NULL if only the server can check it */
    const struct mcp_header *headers;
    size_t header_count;
    /* declared by the server: it may run in parallel, and nothing else follows from it */
    bool reads;
};

/* Reference-counted: the toolbox's offers hold it. */
struct mcp_listing {
    uint32_t users;
    struct bl_arena arena;
    struct mcp_tool *tools;
    size_t count;
};

/* Reads all pages, in the running fiber's scope. Skipped tools are reported by notices. */
int mcp_list(struct mcp_server *server, struct mcp_listing **ret_listing, struct bl_error *error);
void mcp_listing_unref(struct mcp_listing *listing); /* NULL is fine */
/* Returns what makes a tool unusable, or NULL. Fills schema, compiled and headers. */
const char *mcp_tool_check(struct bl_arena *arena, const struct bl_json *schema,
                           struct mcp_tool *tool);

/* ---- result.c -------------------------------------------------------------------------------- */

/* Converts a result of tools/call for the model; in the arena. */
void mcp_result_fill(struct bl_arena *arena, const struct bl_json *result, size_t output_max,
                     struct bl_tool_result *ret_result);

/* ---- stdio.c: a server's process ------------------------------------------------------------- */

/* Lives until its keeper and all other holders have released it.
 *
 *   starting --the warden runs--> running --it ended, or a stop--> ended */
struct mcp_process {
    struct mcp_server *server;
    uint32_t users;
    struct bl_arena arena;
    struct bl_warden *warden;
    struct bl_rpc *rpc;
    struct bl_nursery nursery;        /* reads and writes, until the end */
    struct bl_scope scope;            /* its stop orders the end of the process */
    struct bl_scope grace;            /* the grace period before the kill; valid while `in_grace` */
    struct bl_descriptor *errors;     /* our end of its standard error */
    int to[2], from[2], errors_fd[2]; /* pipes; -1 if closed */
    uint32_t grace_ms;
    uint32_t asks; /* number of requests waiting for an answer */
    bool in_grace;
    bool running; /* the warden has started it */
    bool ended;   /* no process of it is left, or `end` reports survivors */
    bool wanted;  /* its end was ordered, so it is not a crash */
    bool gentle;  /* ask it to end by closing its input and by a signal */
    bool doomed;  /* a call of it was stopped: it takes no new calls, and ends with its last one */
    bool told;    /* a receipt has reported its processes */
    struct bl_warden_end end;
    int code; /* of a failed start, with `error` */
    struct bl_error error;
};

/* Starts it, in the running fiber's scope. Returns 0 when it is running. */
int mcp_process_start(struct mcp_server *server, struct bl_error *error);
/* Orders its end, and does not wait: after the grace period its whole process tree is killed. */
void mcp_process_stop(struct mcp_process *process, bool gentle, uint32_t grace_ms);
/* Waits for its end. */
int mcp_process_await(struct mcp_process *process);
void mcp_process_hurry(struct mcp_process *process);
void mcp_process_unref(struct mcp_process *process); /* NULL is fine */
/* Describes its end: "exit code 3"; in the arena. */
struct bl_text mcp_process_ending(const struct mcp_process *process, struct bl_arena *arena);

/* ---- http.c: a server at an address ---------------------------------------------------------- */

struct mcp_http;

/* One request to a server. */
struct mcp_request {
    const char *method;
    struct bl_text params;
    struct bl_text name;             /* its subject, for Mcp-Name; empty if there is none */
    const struct mcp_tool *tool;     /* of a call, for its headers; NULL for other requests */
    const struct bl_json *arguments; /* of a call */
};

/* Runs in a fiber. */
int mcp_http_open(struct mcp_server *server, struct bl_error *error);
/* Ends its session on the server, if it has one, and frees it. Runs in a fiber. */
void mcp_http_close(struct mcp_server *server);
/* Returns the nursery of the fibers that listen to the server. */
struct bl_nursery *mcp_http_nursery(const struct mcp_server *server);
/* Does the same as bl_rpc_ask. Returns BL_ECLOSED if the server no longer knows our session; after
 * BL_EIO and BL_EPIPE, `error` has the details. A stop closes the stream, and sends a cancellation
 * if the protocol version requires it. */
int mcp_http_ask(struct mcp_server *server, const struct mcp_request *request,
                 struct bl_arena *arena, const struct bl_json **ret_result,
                 struct bl_rpc_failure *ret_failure, struct bl_error *error);
int mcp_http_notify(struct mcp_server *server, const char *method, struct bl_text params,
                    struct bl_error *error);
/* Listens for the server's own messages (before 2026-07-28), until the server says that it offers
 * no such stream, or the scope is stopped. */
int mcp_http_listen(struct mcp_server *server);
/* Returns whether the text is a valid name of a header. */
bool mcp_header_name_fits(struct bl_text name);
/* Encodes a value for a header; in the arena. */
struct bl_text mcp_header_value(struct bl_arena *arena, struct bl_text value);
/* Returns the value of that header from the arguments. Returns false if they have none. */
bool mcp_header_find(struct bl_arena *arena, const struct mcp_header *header,
                     const struct bl_json *arguments, struct bl_text *ret_value);

/* ---- server.c: life of a server -------------------------------------------------------------- */

/* States:
 *
 *   untrusted                                  stays so
 *   idle      --it is used-->                  starting
 *   starting  --connected and listed-->        ready
 *   starting  --it failed, or took too long--> failed
 *   starting  --its last waiter has left-->    idle
 *   failed    --used again, some time later--> starting
 *   ready     --its process has ended-->       idle; at the fourth crash in 60 s: out of service */
enum mcp_state {
    MCP_UNTRUSTED,
    MCP_IDLE,
    MCP_STARTING,
    MCP_READY,
    MCP_FAILED,
    MCP_OUT_OF_SERVICE,
};

struct mcp_server {
    struct bl_toolbox *toolbox;
    const struct bl_mcp_entry *entry;
    enum mcp_state state;
    char why[512];        /* reason for untrusted, failed and out of service; else empty */
    const char *protocol; /* negotiated version; NULL if there is none yet */
    bool modern;          /* 2026-07-28: each request carries its metadata */
    bool era_known;       /* from an earlier start */
    bool lists_changes;
    bool stale; /* its list of tools has changed */
    struct mcp_listing *listing;
    uint64_t deaths_ns[MCP_RESTARTS_MAX + 1]; /* newest last; 0 for none */
    uint64_t failed_ns;
    struct bl_list waiters;   /* callers waiting for a change of its state */
    uint32_t start_waiters;   /* number of callers waiting for the end of its start */
    struct bl_scope starting; /* while it starts */
    struct bl_list calls;     /* struct mcp_call, in progress */
    uint64_t tokens;
    struct mcp_process *process;   /* NULL if none is running */
    struct bl_warden_end last_end; /* of the process that ended last */
    uint64_t ends;                 /* number of processes that have ended */
    struct mcp_http *http;
    struct bl_buffer errors; /* the last part of its standard error */
};

void mcp_server_init(struct mcp_server *server, struct bl_toolbox *toolbox,
                     const struct bl_mcp_entry *entry);
void mcp_server_done(struct mcp_server *server);
/* Starts it, unless it is running or may not be started; does not wait. */
void mcp_server_begin(struct mcp_server *server);
/* Waits until it is no longer starting. If the last waiter is stopped, the start has been stopped
 * as well when this returns. */
int mcp_server_settle(struct mcp_server *server);
/* Makes the server ready. Returns 0; a stop; or BL_EREFUSED if it is unavailable, with the reason
 * in `why`. */
int mcp_server_ensure(struct mcp_server *server);
/* Ends it with the session: none of its processes is running when this returns. Runs in a fiber,
 * shielded. */
void mcp_server_end(struct mcp_server *server);
/* Called by the keeper when its process has ended. */
void mcp_server_ended(struct mcp_server *server, const struct mcp_process *process);
/* Wakes all waiters after a change. */
void mcp_server_changed(struct mcp_server *server);
/* Waits for the next change. */
int mcp_server_wait(struct mcp_server *server);
/* Sends a request over the server's transport. Same contract as mcp_http_ask. */
int mcp_server_ask(struct mcp_server *server, const struct mcp_request *request,
                   struct bl_arena *arena, const struct bl_json **ret_result,
                   struct bl_rpc_failure *ret_failure, struct bl_error *error);
/* Begins the params of a request: opens the object, with `_meta` if the protocol version requires
 * it (`token` 0: no progress notifications). The caller adds the rest, and closes it. */
void mcp_server_params(const struct mcp_server *server, struct bl_json_writer *writer,
                       uint64_t token);
/* Handles a notification of the server. Does not wait. */
void mcp_server_told(struct mcp_server *server, struct bl_text method,
                     const struct bl_json *params);
/* Returns the result for a request of the server; empty if the method is unknown. In the arena. */
struct bl_text mcp_server_answer(const struct mcp_server *server, struct bl_arena *arena,
                                 struct bl_text method);
/* Returns the end of its standard error as valid text, for users; in the arena. */
struct bl_text mcp_server_last_words(const struct mcp_server *server, struct bl_arena *arena);

/* ---- connect.c ------------------------------------------------------------------------------- */

/* Finds out the protocol version and the capabilities of the server; in the running fiber's
 * scope. */
int mcp_connect(struct mcp_server *server, struct bl_error *error);

/* ---- call.c, stop.c, task.c ------------------------------------------------------------------ */

/* A call in progress. */
struct mcp_call {
    struct bl_list link; /* in its server's list, once the server is ready */
    const struct bl_tool_call *call;
    const struct mcp_tool *tool;
    struct mcp_server *server;
    struct mcp_process *process; /* that runs it; NULL if none, or not yet */
    struct bl_arena arena;
    struct bl_scope timed; /* the call's own timeout, restarted by progress */
    uint64_t limit_ns;
    uint64_t started_ns;
    uint64_t token;
    uint64_t ends; /* number of ended processes of its server, when it began */
    struct bl_unit unit;
    struct bl_nursery telling; /* reports progress */
    struct bl_semaphore progressed;
    bool tells;
    char progress[240];  /* not reported yet */
    struct bl_text task; /* id of its task, if the server created one; else empty */
    bool task_stopped;   /* the server has confirmed it */
    struct bl_rpc_failure failure;
    struct bl_error error;
};

/* Has the contract of a tool's `call`. */
int mcp_call_run(struct bl_toolbox *toolbox, const struct mcp_tool *tool,
                 const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                 struct bl_error *error);
/* Handles a stopped call: climbs the ladder, and fills its unit, except for its end. `process` is
 * held until then. `ret_words` describes the outcome; in the call's arena (stop.c). */
enum bl_fate mcp_call_climb(struct mcp_call *call, struct bl_text *ret_words);
/* Requests the end of its task, and waits for the server's confirmation no longer than the grace
 * period. */
void mcp_call_cancel_task(struct mcp_call *call);
/* Removes the call from its server. The last call of a doomed process ends that process. */
void mcp_call_leave(struct mcp_call *call);
/* Polls its task until that has ended. Returns 0 with the result (task.c). */
int mcp_call_follow(struct mcp_call *call, const struct bl_json *created,
                    const struct bl_json **ret_result);
/* Records progress: restarts the timeout, and reports the message. Does not wait. */
void mcp_call_alive(struct mcp_call *call, struct bl_text message);
/* Handles progress of the call with that token. Does not wait. */
void mcp_call_progressed(struct mcp_server *server, const struct bl_json *params);

/* ---- mcp.c: all servers of a toolbox --------------------------------------------------------- */

/* The toolbox's offers at one time, and the memory that they point to. Reference-counted. */
struct bl_toolbox_held {
    uint32_t users;
    struct bl_arena arena;
    struct bl_tool_offer *offers; /* the built-in ones first */
    size_t count;
    const struct mcp_tool **tools; /* of the offers after the built-in ones */
    struct mcp_listing **listings;
    size_t listing_count;
};

struct mcp_box {
    struct mcp_server *servers;
    size_t count;
    struct bl_toolbox_held *held; /* NULL if there are only the built-in tools */
    /* of the servers' starts and processes, from the toolbox's begin on */
    struct bl_nursery nursery;
    bool untrusted_told;    /* untrusted servers were reported since the toolbox's begin */
    struct bl_list notices; /* not reported yet */
    uint32_t notice_count;
};

/* Stores a notice for the user. It is reported when a fiber can wait for that. */
void mcp_notice(struct bl_toolbox *toolbox, const char *format, ...) BL_PRINTF(2, 3);
void mcp_notices_tell(struct bl_toolbox *toolbox);

#endif
