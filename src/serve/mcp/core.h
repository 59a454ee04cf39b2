/* Declarations shared by the files of the MCP server besides mcp.h: pieces of work, which may
 * outlive their request, and the reports of their outcomes. */
#ifndef BELAY_SERVE_MCP_CORE_H
#define BELAY_SERVE_MCP_CORE_H

#include "mcp.h"

#define MCP_TASKS "io.modelcontextprotocol/tasks"
/* Long enough for 128 random bits, and short enough for a cell's id. */
#define MCP_ID_SIZE BL_CELL_ID_SIZE
/* How long an ended task is kept; how long one may run over HTTP without a timeout of its own; how
 * often a client should poll it. */
#define MCP_TASK_KEPT_NS (3600 * BL_NS_PER_S)
#define MCP_TASK_NS_MAX  (3600 * BL_NS_PER_S)
#define MCP_TASK_POLL_MS 500u
#define MCP_CACHE_MS     3600000u
#define MCP_PROGRESS_NS  BL_NS_PER_S
#define MCP_ANSWER_MAX   SIZE_MAX
#define MCP_REMEMBERED   256u

/* ---- The server ------------------------------------------------------------------------------ */

/* The host of all cells of a process, created with the first cell. */
struct mcp_cells {
    struct bl_lock opening;
    char session_id[MCP_ID_SIZE];
    struct bl_workspace *workspace; /* its tools are those of the cells; NULL: cells have none */
    struct bl_lock offering;        /* held while the servers of some of these tools are started */
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

/* The schema of a tool's arguments, as text and for checking calls. */
struct mcp_input {
    struct bl_text text;
    struct bl_json_schema *schema;
};

struct mcp_server {
    struct bl_mcp_server_options options;
    struct bl_scope shield; /* work ends only by its own stop */
    struct bl_nursery nursery;
    struct bl_list works;      /* struct mcp_work, by `all` */
    struct bl_list remembered; /* struct mcp_memory, oldest first (cancel.c) */
    size_t remembered_count;
    bool busy;
    bool closing; /* no new work is started */
    bool own;     /* the tools are Belay's, not a test's */
    const struct mcp_tool *tools;
    size_t tool_count;
    struct mcp_input *inputs; /* of the tools, in their order */
    struct bl_arena arena;    /* of the inputs */
    struct mcp_cells cells;
};

/* Returns what stopped the running fiber, or the client's disconnection if nothing has. */
struct bl_stop mcp_server_end_reason(const char *gone);
/* Stops all work and refuses new work. Does not wait. */
void mcp_server_halt(struct mcp_server *server, enum bl_stop_reason reason, const char *origin);

/* ---- Work ------------------------------------------------------------------------------------ */

/* The outcome of a call, independent of the protocol's version. */
struct mcp_outcome {
    struct bl_text json;    /* one JSON object; if empty, `text` is the whole outcome */
    struct bl_text text;    /* an error for people */
    struct bl_text problem; /* the same as an error object; may be empty */
    struct bl_text receipt; /* of a stop from outside; empty if it ended by itself */
    bool cancelled;         /* it was ended by that stop */
    bool is_error;
};

/* A piece of work in a fiber of the server, in a scope of its own.
 *
 *   running --the answer is complete--> ready --its fiber is done--> ended
 *
 * A cell that continues after its first answer is ready and still running. Reference-counted: the
 * fiber holds one reference, and each waiter one. */
struct mcp_work {
    struct bl_list all;  /* in the server's list, until it has ended */
    struct bl_list link; /* in its peer's list; in none if it is a task or has no owner */
    struct mcp_server *server;
    const char *kind; /* run, exec, wait */
    char id[MCP_ID_SIZE];
    void (*main)(struct mcp_work *work);
    struct bl_scope scope;
    struct bl_arena arena; /* of everything that belongs to it */
    uint32_t references;
    struct bl_list waiters;
    struct bl_lock settling; /* held while it becomes a task or ready */
    bool task;
    bool ready;
    bool ended;
    int64_t created_wall_ns;
    uint64_t begun_ns; /* start of the time that it may take until it becomes a task; 0: not
                          started */
    struct mcp_outcome outcome;
};

/* Allocates `size` zeroed bytes that start with the work. The caller gets one reference. */
struct mcp_work *mcp_work_new(struct mcp_server *server, const char *kind, size_t size,
                              void (*main)(struct mcp_work *work));
struct mcp_work *mcp_work_ref(struct mcp_work *work);
void mcp_work_unref(struct mcp_work *work);
/* Starts the work. `peer` may be NULL if no client owns it. BL_ESTACKS, BL_ECLOSED. */
int mcp_work_start(struct mcp_work *work, struct mcp_peer *peer);
/* Wakes all waiters. */
void mcp_work_ring(struct mcp_work *work);
/* Waits until mcp_work_ring or that time, even if the caller's scope is stopped. */
void mcp_work_wait(struct mcp_work *work, uint64_t until_ns);
void mcp_work_stop(struct mcp_work *work, const struct bl_stop *stop);
/* Waits until it has ended, even if the caller's scope is stopped. */
void mcp_work_join(struct mcp_work *work);
/* Returns the running work that `cancel` may stop by that id, a run or a cell, or NULL. */
struct mcp_work *mcp_work_find(const struct mcp_server *server, struct bl_text id);
/* Stops all work with that id and waits until it has ended, even if the caller's scope is stopped.
 * Returns false if there is none. */
bool mcp_work_stop_all(struct mcp_server *server, struct bl_text id, const struct bl_stop *stop);
/* Waits in the request's fiber until the work is ready or has taken that long since its start, and
 * reports progress. If the request is stopped, stops the work, waits for its end and returns
 * true. */
bool mcp_work_attend(struct mcp_request *request, struct mcp_work *work, uint64_t limit_ns);
/* Starts the work, attends to it, and answers. Takes over the reference. */
void mcp_work_serve(struct mcp_request *request, struct mcp_work *work,
                    struct mcp_reply *ret_reply);

/* Makes an id: 26 characters of [a-z2-7] after the prefix, 130 random bits. */
void mcp_id_make(char out[MCP_ID_SIZE], const char *prefix);

/* ---- Answers --------------------------------------------------------------------------------- */

/* Copies the contents into the arena, and frees the buffer. */
struct bl_text mcp_take(struct bl_arena *arena, struct bl_buffer *buffer);
/* Fails a request. `path` (a pointer into the parameters, may be NULL) goes into the data. */
void mcp_fail(struct mcp_request *request, struct mcp_reply *reply, int code, const char *path,
              const char *format, ...) BL_PRINTF(5, 6);
void mcp_fail_error(struct mcp_request *request, struct mcp_reply *reply, int code,
                    const struct bl_error *error);
/* Makes an error the outcome of a call, for the model that made it. */
void mcp_outcome_error(struct bl_arena *arena, const struct bl_error *error,
                       struct mcp_outcome *ret_outcome);
/* Begins the object of a result with the members that its version requires. The caller adds members
 * and ends it. */
void mcp_result_begin(struct bl_json_writer *writer, const struct mcp_server *server,
                      enum mcp_version version, const char *type);
/* The same with one more member of _meta, whose value is JSON. */
void mcp_result_begin_with(struct bl_json_writer *writer, const struct mcp_server *server,
                           enum mcp_version version, const char *type, const char *key,
                           struct bl_text json);
/* Returns the result of tools/call. */
struct bl_text mcp_call_result(struct bl_arena *arena, const struct mcp_server *server,
                               enum mcp_version version, const struct mcp_outcome *outcome);
void mcp_answer_outcome(struct mcp_request *request, const struct mcp_outcome *outcome,
                        struct mcp_reply *ret_reply);
void mcp_answer_empty(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_initialize(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_discover(struct mcp_request *request, struct mcp_reply *ret_reply);
/* Returns a member of the request's _meta, or NULL. */
const struct bl_json *mcp_request_meta(const struct mcp_request *request, struct bl_text key);
/* Returns whether the request has the current version and its client supports tasks. */
bool mcp_request_takes_tasks(const struct mcp_request *request);

/* ---- Tools ----------------------------------------------------------------------------------- */

typedef void mcp_tool_serve(struct mcp_request *request, const struct bl_json *arguments,
                            struct mcp_reply *ret_reply);

struct mcp_tool {
    const char *name;
    const char *title; /* may be NULL; likewise output and annotations */
    const char *description;
    const struct bl_record *input; /* the arguments; NULL: see `schema` */
    const char *output;            /* JSON Schema */
    const char *annotations;       /* JSON object */
    mcp_tool_serve *serve;
    const char *schema; /* JSON Schema of a test's tool, in place of `input` */
};

/* Reads arguments that match the schema by their table, into the arena: work may outlive its
 * request. Returns false with the error in `*ret_reply`. */
bool mcp_arguments_read(struct mcp_request *request, struct bl_arena *arena,
                        const struct bl_record *record, const struct bl_json *arguments, void *into,
                        struct mcp_reply *ret_reply);

int mcp_schemas_open(struct mcp_server *server, struct bl_error *error);
void mcp_schemas_close(struct mcp_server *server);
void mcp_list_tools(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_call_tool(struct mcp_request *request, struct mcp_reply *ret_reply);

extern const struct bl_record mcp_exec_input, mcp_wait_input, mcp_terminate_input, mcp_cancel_input;
mcp_tool_serve mcp_tool_run, mcp_tool_exec, mcp_tool_wait, mcp_tool_terminate, mcp_tool_cancel;

/* In a fiber; called with the server. */
void mcp_cells_init(struct mcp_server *server);
/* Opens the session of the cells, if it is not open. Runs to its end even if the caller's scope is
 * stopped. */
int mcp_cells_open(struct mcp_server *server, struct bl_cell_fault *fault);
/* Loads the cells' tools before the first cell, which waits for MCP servers to start. If it is
 * stopped, the next cell tries again. */
int mcp_cells_offer(struct mcp_server *server);
/* Stops calls from cells. */
void mcp_cells_retire(struct mcp_server *server);
void mcp_cells_close(struct mcp_server *server, enum bl_stop_reason reason, const char *origin);

/* Keeps an answer that is not in the store, for a repeated request. */
void mcp_remember(struct mcp_server *server, const char *id, struct bl_text json);
void mcp_forget_all(struct mcp_server *server);

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Makes the work a task, in the store. With its lock held, or before it has started. */
int mcp_task_begin(struct mcp_work *work, const char *session, struct bl_error *error);
/* Stores the outcome of the task. */
void mcp_task_end(struct mcp_work *work);
/* Answers with the task. */
void mcp_task_answer(struct mcp_request *request, const struct mcp_work *work,
                     struct mcp_reply *ret_reply);
void mcp_task_get(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_task_update(struct mcp_request *request, struct mcp_reply *ret_reply);
void mcp_task_cancel(struct mcp_request *request, struct mcp_reply *ret_reply);

#endif
