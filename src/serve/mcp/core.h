/* What the files of the MCP server share besides mcp.h: pieces of work, which may outlive the
 * request that asked for them, and how what came of them is told. */
#ifndef BELAY_SERVE_MCP_CORE_H
#define BELAY_SERVE_MCP_CORE_H

#include "mcp.h"

#define MCP_TASKS "io.modelcontextprotocol/tasks"
/* Long enough for 128 random bits, and short enough for a cell's. */
#define MCP_ID_SIZE BL_CELL_ID_SIZE
/* What is kept of an ended task, from its end on; how long one may work over HTTP where nobody said
 * so; how often it is to be asked for. */
#define MCP_TASK_KEPT_NS (3600 * BL_NS_PER_S)
#define MCP_TASK_NS_MAX  (3600 * BL_NS_PER_S)
#define MCP_TASK_POLL_MS 500u
#define MCP_CACHE_MS     3600000u
#define MCP_PROGRESS_NS  BL_NS_PER_S
#define MCP_ANSWER_MAX   SIZE_MAX
#define MCP_REMEMBERED   256u

/* ---- The server ------------------------------------------------------------------------------ */

/* The host of all cells of a process, made with the first of them. */
struct mcp_cells {
    struct bl_lock opening;
    char session_id[MCP_ID_SIZE];
    struct bl_workspace *workspace; /* whose tools cells call; NULL: they have none */
    struct bl_lock offering;        /* one starts the servers that some of these come from */
    struct bl_toolbox_held *held;   /* the tools, once they are known */
    bool offered;
    struct bl_arena arena;
    struct bl_tools table;
    struct bl_engine engine;
    struct bl_cell_tool *tools;
    size_t tool_count;
    struct bl_cell_host *host;
    struct bl_cell_session *session;
};

struct mcp_server {
    struct bl_mcp_server_options options;
    struct bl_scope shield; /* works end by their own stops alone */
    struct bl_nursery nursery;
    struct bl_list works;      /* struct mcp_work, by `all` */
    struct bl_list remembered; /* struct mcp_memory, oldest first (mcp_cancel.c) */
    size_t remembered_count;
    bool busy;
    bool closing; /* nothing new is begun */
    bool own;     /* the tools are ours, not those of a test */
    const struct mcp_tool *tools;
    size_t tool_count;
    struct bl_json_schema **inputs; /* of the tools' arguments */
    struct mcp_cells cells;
};

/* What stopped the server: its client's going, if nothing has stopped the running fiber. */
struct bl_stop mcp_server_end_reason(const char *gone);
/* Stops all works and begins no other; waits for none of them. */
void mcp_server_halt(struct mcp_server *server, enum bl_stop_reason reason, const char *origin);

/* ---- Works ----------------------------------------------------------------------------------- */

/* What came of a call, whatever version it is told in. */
struct mcp_outcome {
    struct bl_text json;    /* one JSON object; empty: `text` is all there is */
    struct bl_text text;    /* for people: what is wrong */
    struct bl_text problem; /* the same as an error object; may be empty */
    struct bl_text receipt; /* of a stop from outside; empty: it came to its own end */
    bool cancelled;         /* ended by that */
    bool is_error;
};

/* A piece of work in a fiber of the server's, in a scope of its own.
 *
 *   at work --an answer is there--> ready --its fiber is done--> ended
 *
 * A cell that runs on after its first answer is ready and at work. Counted references: the fiber's
 * own, and one for each who waits. */
struct mcp_work {
    struct bl_list all;  /* of the server, until it has ended */
    struct bl_list link; /* of its peer; in no list: a task keeps it, or nobody */
    struct mcp_server *server;
    const char *kind; /* run, exec, wait */
    char id[MCP_ID_SIZE];
    void (*main)(struct mcp_work *work);
    struct bl_scope scope;
    struct bl_arena arena; /* of all that belongs to it */
    uint32_t references;
    struct bl_list waiters;
    struct bl_lock settling; /* whether it is a task, and whether it is ready: one at a time */
    bool task;
    bool ready;
    bool ended;
    int64_t created_wall_ns;
    uint64_t begun_ns; /* since when it may be asked how long it takes; 0: not yet */
    struct mcp_outcome outcome;
};

/* `size` bytes, of which the first are the work; zeroed. One reference, the caller's. */
struct mcp_work *mcp_work_new(struct mcp_server *server, const char *kind, size_t size,
                              void (*main)(struct mcp_work *work));
struct mcp_work *mcp_work_ref(struct mcp_work *work);
void mcp_work_unref(struct mcp_work *work);
/* Begins it; `peer` NULL: none keeps it. BL_ESTACKS, BL_ECLOSED. */
int mcp_work_start(struct mcp_work *work, struct mcp_peer *peer);
/* Wakes all who wait for something of it. */
void mcp_work_ring(struct mcp_work *work);
/* Until somebody rings or the time has come, whatever stops the caller. */
void mcp_work_wait(struct mcp_work *work, uint64_t until_ns);
void mcp_work_stop(struct mcp_work *work, const struct bl_stop *stop);
/* Until it has ended, whatever stops the caller. */
void mcp_work_join(struct mcp_work *work);
/* One that `cancel` may mean: a run, or a cell. NULL: none is at work. */
struct mcp_work *mcp_work_find(const struct mcp_server *server, struct bl_text id);
/* Stops all that it may mean, and waits until they have ended, whatever stops the caller. False:
 * there is nothing. */
bool mcp_work_stop_all(struct mcp_server *server, struct bl_text id, const struct bl_stop *stop);
/* Waits in the request's fiber until it is ready, or has taken so long since it has begun, and
 * tells of progress. A stop of the request is one of the work, and then all of it is waited for:
 * true, it was stopped. */
bool mcp_work_attend(struct mcp_request *request, struct mcp_work *work, uint64_t patience_ns);
/* Starts and attends to it, and answers. Takes the reference over. */
void mcp_work_serve(struct mcp_request *request, struct mcp_work *work,
                    struct mcp_reply *ret_reply);

/* 26 of [a-z2-7] behind the prefix: 130 random bits. */
void mcp_id_make(char out[MCP_ID_SIZE], const char *prefix);

/* ---- Answers --------------------------------------------------------------------------------- */

/* Copies what was written into the arena, and frees the buffer. */
struct bl_text mcp_take(struct bl_arena *arena, struct bl_buffer *buffer);
/* A number of the arguments, which fit their schema. */
uint64_t mcp_count_argument(const struct bl_json *arguments, const char *name, uint64_t fallback);
/* `path` (a pointer into the parameters; NULL: none) goes into the data. */
void mcp_fail(struct mcp_request *request, struct mcp_reply *reply, int code, const char *path,
              const char *format, ...) BL_PRINTF(5, 6);
void mcp_fail_error(struct mcp_request *request, struct mcp_reply *reply, int code,
                    const struct bl_error *error);
/* The outcome of what could not be done: an error, for the model that called. */
void mcp_outcome_error(struct bl_arena *arena, const struct bl_error *error,
                       struct mcp_outcome *ret_outcome);
/* A result's object, begun: what its version wants of every result; the caller goes on, and ends
 * it. */
void mcp_result_begin(struct bl_json_writer *writer, const struct mcp_server *server,
                      enum mcp_version version, const char *type);
/* With more members in its _meta: one of that key, JSON. */
void mcp_result_begin_with(struct bl_json_writer *writer, const struct mcp_server *server,
                           enum mcp_version version, const char *type, const char *key,
                           struct bl_text json);
/* The result of tools/call. */
struct bl_text mcp_call_result(struct bl_arena *arena, const struct mcp_server *server,
                               enum mcp_version version, const struct mcp_outcome *outcome);
void mcp_answer_outcome(struct mcp_request *request, const struct mcp_outcome *outcome,
                        struct mcp_reply *ret_reply);
void mcp_answer_empty(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_initialize(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_discover(struct mcp_request *request, struct mcp_reply *ret_reply);
/* A member of a request's _meta; NULL: none. */
const struct bl_json *mcp_request_meta(const struct mcp_request *request, struct bl_text key);
/* It is the current version, and its client takes tasks. */
bool mcp_request_takes_tasks(const struct mcp_request *request);

/* ---- Tools ----------------------------------------------------------------------------------- */

typedef void mcp_tool_serve(struct mcp_request *request, const struct bl_json *arguments,
                            struct mcp_reply *ret_reply);

struct mcp_tool {
    const char *name;
    const char *title; /* NULL: none, as the last two */
    const char *description;
    const char *input;       /* JSON Schema */
    const char *output;      /* the same */
    const char *annotations; /* JSON object */
    mcp_tool_serve *serve;
};

int mcp_schemas_open(struct mcp_server *server, struct bl_error *error);
void mcp_schemas_close(struct mcp_server *server);
void mcp_list_tools(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_call_tool(struct mcp_request *request, struct mcp_reply *ret_reply);

mcp_tool_serve mcp_tool_run, mcp_tool_exec, mcp_tool_wait, mcp_tool_terminate, mcp_tool_cancel;

/* In a fiber; with the server. */
void mcp_cells_init(struct mcp_server *server);
/* Has the session that cells are in. Once begun it is finished, whatever stops the caller. */
int mcp_cells_open(struct mcp_server *server, struct bl_cell_fault *fault);
/* Has the tools that they can call, with the first cell, which waits for MCP servers to start; a
 * stop of it ends that, and leaves it to the next one. */
int mcp_cells_offer(struct mcp_server *server);
/* Nothing more is called from cells. */
void mcp_cells_retire(struct mcp_server *server);
void mcp_cells_close(struct mcp_server *server, enum bl_stop_reason reason, const char *origin);

/* An answer that the store does not hold, for whoever asks again. */
void mcp_remember(struct mcp_server *server, const char *id, struct bl_text json);
void mcp_forget_all(struct mcp_server *server);

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Makes the work a task, in the store. Under its lock, or before it has started. */
int mcp_task_begin(struct mcp_work *work, const char *session, struct bl_error *error);
/* Writes down what came of it. */
void mcp_task_end(struct mcp_work *work);
/* Answers with the task that the work is. */
void mcp_task_answer(struct mcp_request *request, const struct mcp_work *work,
                     struct mcp_reply *ret_reply);
void mcp_task_get(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_task_update(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_task_cancel(struct mcp_request *request, struct mcp_reply *ret_reply);

#endif
