/* MCP servers, from the file that names them to what came of a call: what those files share.
 *
 * A server is an entry of a file, and once it is used a process (stdio) or an address (HTTP). What
 * it offers is a listing; the listings of all, with the built-in tools, are the toolbox's offers.
 */
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

/* ---- mcp_trust.c ----------------------------------------------------------------------------- */

/* Fills `digest`, when all else is there. */
void mcp_entry_seal(struct bl_mcp_entry *entry);

/* ---- mcp_name.c ------------------------------------------------------------------------------ */

/* A tool of a server can have a name that fits the pattern: mcp__SERVER__TOOL, or with stars. */
bool mcp_name_is_possible(struct bl_text pattern);
/* "mcp__server__tool" with what models cannot take replaced. False: it is too long. */
bool mcp_name_plain(char out[MCP_NAME_SIZE], const char *server, struct bl_text tool);
/* The same, cut, with 8 hex digits that stand for the two; another one for each `salt`. */
void mcp_name_hashed(char out[MCP_NAME_SIZE], const char *server, struct bl_text tool,
                     unsigned salt);

/* ---- mcp_list.c: what a server offers -------------------------------------------------------- */

/* An argument that goes into a header of its own: Mcp-Param-NAME. */
struct mcp_header {
    const char *name;
    const struct bl_text *path; /* keys from the arguments down to it */
    size_t depth;
};

/* In the arena of its listing. */
struct mcp_tool {
    struct mcp_server *server;
    struct bl_text own_name; /* as the server has it */
    const char *description;
    struct bl_text schema;
    struct bl_json_schema *compiled; /* NULL: it cannot be checked here, and the server does */
    const struct mcp_header *headers;
    size_t header_count;
    bool reads; /* by its own word: it may run beside others, and no more follows from it */
};

/* Counted: catalogs hold it. */
struct mcp_listing {
    uint32_t users;
    struct bl_arena arena;
    struct mcp_tool *tools;
    size_t count;
};

/* All pages, in the running fiber's scope. What is left out is noted. */
int mcp_list(struct mcp_server *server, struct mcp_listing **ret_listing, struct bl_error *error);
void mcp_listing_unref(struct mcp_listing *listing); /* NULL is fine */
/* What makes a tool unusable, in words; NULL: nothing. Fills schema, compiled and headers. */
const char *mcp_tool_check(struct bl_arena *arena, const struct bl_json *schema,
                           struct mcp_tool *tool);

/* ---- mcp_result.c ---------------------------------------------------------------------------- */

/* What the model is told of a result of tools/call; in the arena. */
void mcp_result_fill(struct bl_arena *arena, const struct bl_json *result, size_t output_max,
                     struct bl_tool_result *ret_result);

/* ---- mcp_stdio.c: a server's process --------------------------------------------------------- */

/* Lives until its keeper and all who hold it have let go of it.
 *
 *   starting --the warden runs--> running --it ended, or a stop--> ended */
struct mcp_process {
    struct mcp_server *server;
    uint32_t users;
    struct bl_arena arena;
    struct bl_warden *warden;
    struct bl_rpc *rpc;
    struct bl_nursery nursery;        /* reads and writes, until the end */
    struct bl_scope scope;            /* its stop is the order to end the process */
    struct bl_scope grace;            /* before it is killed; while `in_grace` */
    struct bl_descriptor *errors;     /* our end of its standard error */
    int to[2], from[2], errors_fd[2]; /* pipes; -1: closed */
    uint32_t grace_ms;
    uint32_t asks; /* that wait for its answer */
    bool in_grace;
    bool running; /* the warden has started it */
    bool ended;   /* nothing of it is left, or `end` says what */
    bool wanted;  /* its end was: no crash */
    bool gentle;  /* told to end by the end of its input and a signal */
    bool doomed;  /* a call of it was stopped: no new ones, and it goes with the last */
    bool told;    /* a receipt has its processes */
    struct bl_warden_end end;
    int code; /* of a start that failed, with `error` */
    struct bl_error error;
};

/* Starts it, in the running fiber's scope: 0 when it runs. */
int mcp_process_start(struct mcp_server *server, struct bl_error *error);
/* Orders its end, and does not wait: after the grace all of it is killed. */
void mcp_process_stop(struct mcp_process *process, bool gentle, uint32_t grace_ms);
/* Waits for that. */
int mcp_process_await(struct mcp_process *process);
void mcp_process_hurry(struct mcp_process *process);
void mcp_process_unref(struct mcp_process *process); /* NULL is fine */
/* How it ended, in a few words: "exit code 3"; in the arena. */
struct bl_text mcp_process_ending(const struct mcp_process *process, struct bl_arena *arena);

/* ---- mcp_http.c: a server at an address ------------------------------------------------------ */

struct mcp_http;

/* One request to a server. */
struct mcp_request {
    const char *method;
    struct bl_text params;
    struct bl_text name;             /* what it is about, for Mcp-Name; empty: nothing */
    const struct mcp_tool *tool;     /* of a call, for its headers; NULL: none */
    const struct bl_json *arguments; /* the same */
};

/* In a fiber. */
int mcp_http_open(struct mcp_server *server, struct bl_error *error);
/* Ends its session there, if it has one, and frees it. In a fiber. */
void mcp_http_close(struct mcp_server *server);
/* What listens to it runs in there. */
struct bl_nursery *mcp_http_nursery(const struct mcp_server *server);
/* As bl_rpc_ask. BL_ECLOSED: the server knows our session no more; BL_EIO, BL_EPIPE: `error` says
 * what. A stop closes the stream, and the server is told where its era wants it so. */
int mcp_http_ask(struct mcp_server *server, const struct mcp_request *request,
                 struct bl_arena *arena, const struct bl_json **ret_result,
                 struct bl_rpc_failure *ret_failure, struct bl_error *error);
int mcp_http_notify(struct mcp_server *server, const char *method, struct bl_text params,
                    struct bl_error *error);
/* Listens for what it tells by itself (before 2026-07-28), until it says that it has nothing of
 * that kind or the scope is stopped. */
int mcp_http_listen(struct mcp_server *server);
/* It can be the name of a header. */
bool mcp_header_name_fits(struct bl_text name);
/* A value as a header can carry it; in the arena. */
struct bl_text mcp_header_value(struct bl_arena *arena, struct bl_text value);
/* The value that the arguments have for that header. False: none. */
bool mcp_header_find(struct bl_arena *arena, const struct mcp_header *header,
                     const struct bl_json *arguments, struct bl_text *ret_value);

/* ---- mcp_server.c: its life ------------------------------------------------------------------ */

/*   untrusted                                  stays so
 *   idle      --it is used-->                  starting
 *   starting  --connected and listed-->        ready
 *   starting  --it failed, or took too long--> failed
 *   starting  --nobody waits for it any more-> idle
 *   failed    --used again, some time later--> starting
 *   ready     --its process has ended-->       idle; at the fourth death in 60 s: out of service */
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
    char why[512];        /* of untrusted, failed and out of service; else empty */
    const char *protocol; /* agreed on; NULL: none yet */
    bool modern;          /* 2026-07-28: each request says what it is */
    bool era_known;       /* from a start before */
    bool lists_changes;
    bool stale; /* its listing has changed */
    struct mcp_listing *listing;
    uint64_t deaths_ns[MCP_RESTARTS_MAX + 1]; /* newest last; 0: none */
    uint64_t failed_ns;
    struct bl_list waiters;   /* for its state to change */
    uint32_t start_waiters;   /* of those: for the end of its start */
    struct bl_scope starting; /* while it starts */
    struct bl_list calls;     /* struct mcp_call, under way */
    uint64_t tokens;
    struct mcp_process *process;   /* NULL: none runs */
    struct bl_warden_end last_end; /* of the newest of those that have ended */
    uint64_t ends;                 /* how many have */
    struct mcp_http *http;
    struct bl_buffer errors; /* the last of its standard error */
};

void mcp_server_init(struct mcp_server *server, struct bl_toolbox *toolbox,
                     const struct bl_mcp_entry *entry);
void mcp_server_done(struct mcp_server *server);
/* Starts it, unless it runs or may not; does not wait. */
void mcp_server_begin(struct mcp_server *server);
/* Waits until it is not starting any more. Stopped: a start that nobody else waits for has ended
 * as well when this returns. */
int mcp_server_settle(struct mcp_server *server);
/* Has it ready. 0; stopped; BL_EREFUSED: it is not to be had, and `why` says why. */
int mcp_server_ensure(struct mcp_server *server);
/* The end of the session: nothing of it runs when this returns. In a fiber, shielded. */
void mcp_server_end(struct mcp_server *server);
/* Its process has ended; by the keeper of that. */
void mcp_server_ended(struct mcp_server *server, const struct mcp_process *process);
/* Something that others wait for has changed. */
void mcp_server_changed(struct mcp_server *server);
/* Until that. */
int mcp_server_wait(struct mcp_server *server);
/* Asks it, over whatever it is reached by. As mcp_http_ask. */
int mcp_server_ask(struct mcp_server *server, const struct mcp_request *request,
                   struct bl_arena *arena, const struct bl_json **ret_result,
                   struct bl_rpc_failure *ret_failure, struct bl_error *error);
/* The params of a request: opens the object, with `_meta` where the era wants it (`token` 0: no
 * progress is wanted). The caller adds the rest, and closes it. */
void mcp_server_params(const struct mcp_server *server, struct bl_json_writer *writer,
                       uint64_t token);
/* What it tells. Does not wait. */
void mcp_server_told(struct mcp_server *server, struct bl_text method,
                     const struct bl_json *params);
/* What it asks of us: the result; empty: there is no such method. In the arena. */
struct bl_text mcp_server_answer(const struct mcp_server *server, struct bl_arena *arena,
                                 struct bl_text method);
/* The end of what it wrote to standard error, on a line of its own, for people; in the arena. */
struct bl_text mcp_server_last_words(const struct mcp_server *server, struct bl_arena *arena);

/* ---- mcp_connect.c --------------------------------------------------------------------------- */

/* Which era it speaks, and what it can; in the running fiber's scope. */
int mcp_connect(struct mcp_server *server, struct bl_error *error);

/* ---- mcp_call.c ------------------------------------------------------------------------------ */

/* A call under way. */
struct mcp_call {
    struct bl_list link; /* of its server, once that is ready */
    const struct bl_tool_call *call;
    const struct mcp_tool *tool;
    struct mcp_server *server;
    struct mcp_process *process; /* that it runs in; NULL: none, or not yet */
    struct bl_arena arena;
    struct bl_scope timed; /* the call's own limit, begun anew by progress */
    uint64_t limit_ns;
    uint64_t started_ns;
    uint64_t token;
    uint64_t ends; /* of processes of its server, when it began */
    struct bl_unit unit;
    struct bl_nursery telling; /* of progress */
    struct bl_semaphore progressed;
    bool tells;
    char progress[240];  /* that was not told yet */
    struct bl_text task; /* its id, where the server made one of it; empty: none */
    bool task_stopped;   /* the server has said so */
    struct bl_rpc_failure failure;
    struct bl_error error;
};

/* As a tool's call. */
int mcp_call_run(struct bl_toolbox *toolbox, const struct mcp_tool *tool,
                 const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                 struct bl_error *error);
/* A stopped call: climbs the ladder, and fills its unit, but for the end of it. `process` is held
 * until then. In words, what has become of it; in the call's arena (mcp_stop.c). */
enum bl_fate mcp_call_climb(struct mcp_call *call, struct bl_text *ret_words);
/* Asks for the end of its task, and waits for the server's word no longer than the grace. */
void mcp_call_cancel_task(struct mcp_call *call);
/* What the last call of a doomed server does. */
void mcp_call_leave(struct mcp_call *call);
/* Polls its task until that has ended: 0 with the result (mcp_task.c). */
int mcp_call_follow(struct mcp_call *call, const struct bl_json *created,
                    const struct bl_json **ret_result);
/* It goes on: the time begins anew, and whoever listens is told. Does not wait. */
void mcp_call_alive(struct mcp_call *call, struct bl_text message);
/* Progress of the call with that token. Does not wait. */
void mcp_call_progressed(struct mcp_server *server, const struct bl_json *params);

/* ---- mcp.c: all of a toolbox ----------------------------------------------------------------- */

/* The toolbox's offers at one time, and what they point to. Counted. */
struct bl_toolbox_held {
    uint32_t users;
    struct bl_arena arena;
    struct bl_tool_offer *offers; /* the built-in ones first */
    size_t count;
    const struct mcp_tool **tools; /* of those behind the built-in ones */
    struct mcp_listing **listings;
    size_t listing_count;
};

struct mcp_box {
    struct mcp_server *servers;
    size_t count;
    struct bl_toolbox_held *held; /* NULL: the built-in tools alone */
    struct bl_nursery nursery;    /* of their starts and processes, from the toolbox's begin on */
    bool untrusted_told;          /* that some stay off, since the toolbox's begin */
    struct bl_list notices;       /* to be told */
    uint32_t notice_count;
};

/* Something for the user, told when a fiber can wait for that. */
void mcp_notice(struct bl_toolbox *toolbox, const char *format, ...) BL_PRINTF(2, 3);
void mcp_notices_tell(struct bl_toolbox *toolbox);

#endif
