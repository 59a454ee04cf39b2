/* Shared by the files of this room. */
#ifndef BELAY_AGENT_PARTS_H
#define BELAY_AGENT_PARTS_H

#include <belay/agent.h>
#include <belay/cell.h>

#include "agent/agent.h"

/* The depth limit of agents; the root is at 0. */
#define AGENT_DEPTH_MAX 4u

/* One line of a prompt for lists, with a limit in characters. */
#define AGENT_PROMPT_CHARACTERS 200u
#define AGENT_PROMPT_SIZE       (4 * AGENT_PROMPT_CHARACTERS + 1)

/* A tool call that is listed and can be stopped. */
struct agent_call {
    struct bl_list link;
    struct bl_activity activity;
    struct bl_buffer receipt; /* of a stop of this call alone */
};

/* A cell that the model created or asked about. On the heap, until its end was reported to the model in
 * a committed turn. */
struct agent_cell {
    struct bl_list link;
    char id[BL_CELL_ID_SIZE];
    struct bl_lock lock;   /* only one call at a time works on it */
    bool of_turn;          /* it ends with the turn in progress; otherwise with the session */
    bool over;             /* it has ended, whether this is known elsewhere or not */
    bool told;             /* its end is in the journal */
    bool unsettled;        /* it was stopped, with unknown outcome */
    bool missing;          /* no such cell exists: to be forgotten */
    uint64_t generation;   /* the newest that the model received */
    uint64_t committed;    /* the same in committed turns */
    uint64_t ended;        /* generation of the end that the model received; 0 if none */
    struct bl_buffer text; /* of that result */
    bool is_error;
    struct agent_cell_end *held_back; /* its end, received while a call worked on it */
};

/* All cells of an agent. */
struct agent_cells {
    struct bl_cell_host *host; /* of the root, for all agents below it; NULL: no cell so far */
    struct bl_cell_session *session; /* NULL: no cell so far */
    struct bl_lock opening;
    struct bl_list known;       /* struct agent_cell, oldest first */
    struct bl_list ends;        /* struct agent_cell_end, to be reported */
    struct bl_semaphore come;   /* given for each of those */
    struct bl_list notices;     /* struct agent_notice, oldest first */
    struct bl_buffer stored;    /* the state in the store */
    struct bl_scope turn_scope; /* of cells that end with the turn, below the turn's own */
    bool turn_open;             /* turn_scope is in use */
    bool in_turn;
    bool restored;
    uint64_t turns_before; /* committed ones, at the start of the turn */
};

/* The time during which questions were open; simultaneous questions count once. */
struct agent_asked {
    unsigned open;
    uint64_t since_ns;
    uint64_t total_ns;
};

struct bl_agent {
    struct bl_agent_options options;
    struct bl_agent *root;
    struct bl_agent *above; /* NULL: this is the root */
    unsigned depth;
    const struct bl_persona *persona; /* NULL if none, as for most roots */
    char id[BL_ID_SIZE];              /* of a sub-agent; the root's run */
    struct bl_arena arena;
    struct bl_model model;
    void *model_handle; /* of the model source; NULL: the caller's model */
    bool model_opened;
    struct bl_list retired; /* struct agent_model: replaced in the middle of a prompt, which may
                               still use them */
    struct bl_engine engine;
    struct bl_listener listener; /* ours, called before the caller's */
    struct bl_session session;
    struct bl_store_session *held;
    struct bl_journal journal;
    struct bl_inbox inbox;
    struct bl_finish finish;
    struct bl_budget *budget_above;
    struct bl_scope shield;         /* as long as the session is held, whatever stops a prompt */
    struct bl_nursery nursery;      /* in the shield: the renewal of the lease, background jobs */
    struct bl_lock asking;          /* of the root: one question at a time */
    struct agent_asked asked;       /* about its own calls, with those of its cells */
    struct agent_asked asked_below; /* about calls of its sub-agents */
    struct bl_buffer stop_event;    /* of the root: for its hooks, after the end of the turn */
    struct bl_stop_hook stopped;    /* of a run of its own, on its scope */
    void (*closing)(void *context); /* of the prompt in progress */
    void *closing_context;
    bool prompted;
    bool start_told;          /* of a conversation: its end must be reported, too */
    bool conversing;          /* the start of a conversation was reported, and its end will be */
    struct bl_scope *prompt;  /* of the prompt in progress; NULL if none */
    uint64_t turns_completed; /* of all prompts so far, as are the next two */
    struct bl_usage usage;
    struct bl_spent spent;
    struct bl_activity activity;
    struct bl_list calls; /* struct agent_call, running */
    uint64_t tokens;      /* of the model's earlier calls, as is the next */
    double cost_usd;
    struct bl_open_session open;         /* of the root; listed as long as the session is held */
    char prompt_line[AGENT_PROMPT_SIZE]; /* of the newest prompt */
    /* The tools that the model is offered. */
    struct bl_tools tools;
    struct bl_arena offers_arena;
    struct bl_toolbox_held *offers_held;      /* of the toolbox, while our offers are in use */
    const struct bl_tool_offer *offers_taken; /* the toolbox's offers that ours were made from */
    struct bl_json_schema *schemas[4];        /* of the agent's own tools */
    bool planning;                            /* they are those of permission mode plan */
    struct bl_text system;                    /* without the part for that mode */
    struct bl_text system_planning;           /* with that part; empty: not made yet */
    struct agent_cells cells;
};

/* ---- agent.c --------------------------------------------------------------------------------- */

/* The common part of bl_agent_open and bl_agent_prompt, for all agents. `unit` (NULL if none)
 * represents the agent in the receipt above. */
int agent_open(struct bl_agent *agent, struct bl_error *error);
/* Returns the system prompt of a sub-agent with that persona, below an agent with the prompt
 * `system`. */
struct bl_text agent_system(struct bl_arena *arena, struct bl_text system,
                            const struct bl_persona *persona);
void agent_prompt(struct bl_agent *agent, const struct bl_run_options *run, struct bl_scope *scope,
                  struct bl_unit *unit, struct bl_arena *arena, struct bl_run_result *ret_result);
void agent_close(struct bl_agent *agent);

/* ---- message.c ------------------------------------------------------------------------------- */

/* Lists messages that are in no turn: struct bl_undelivered, in the arena. */
void agent_list_undelivered(const struct bl_agent *agent, struct bl_arena *arena,
                            struct bl_list *ret_list);

/* ---- listing.c ------------------------------------------------------------------------------- */

/* Follow the usage of the model's calls: a new call adds to the calls before it, and each usage is
 * a snapshot of one call. */
void agent_usage_base(struct bl_agent *agent);
void agent_usage_follow(struct bl_agent *agent, const struct bl_event *event);
void agent_note_prompt(struct bl_agent *agent, struct bl_text prompt);
/* Lists the root's session as long as it is held; the caller removes its link. */
void agent_list_session(struct bl_agent *agent);
/* Begin and end the place for background commands and MCP servers. The end precedes the report of
 * the session's end; the receipt of each stopped command is then in the store. `agent` is a struct
 * bl_agent. */
void agent_begin_background(struct bl_agent *agent);
void agent_end_background(void *agent);

/* ---- model_change.c -------------------------------------------------------------------------- */

/* Closes the model from the source, and replaced ones. */
void agent_model_close(struct bl_agent *agent);
/* At the end of a prompt: closes the models that were replaced during it. */
void agent_models_settle(struct bl_agent *agent);

/* ---- tools.c --------------------------------------------------------------------------------- */

/* Make and free the tool table of an agent. */
int agent_tools_open(struct bl_agent *agent, struct bl_error *error);
void agent_tools_close(struct bl_agent *agent);
/* Returns whether cells can call it. */
bool agent_tool_is_nested(const char *name);
/* Runs hooks that are not about a tool, for the events of a turn. */
void agent_hooks_follow(struct bl_agent *agent, const struct bl_event *event);

/* ---- plan.c: permission mode plan ------------------------------------------------------------ */

bool agent_plan_mode(const struct bl_agent *agent);
/* Returns whether there is a user to approve a plan, and this agent is the one to submit it. */
bool agent_plan_can_be_approved(const struct bl_agent *agent);
/* Returns the system prompt for the current mode. */
struct bl_text agent_plan_system(struct bl_agent *agent);
/* The tool `plan`, without `compiled`. A plan is a question to the user. */
struct bl_tool_offer plan_offer(struct bl_arena *arena);
enum bl_permit agent_plan_permit(const struct bl_agent *agent, char *ret_reason,
                                 size_t reason_size);
/* Fills the result of an approved plan: how to continue. */
void agent_plan(const struct bl_agent *agent, const struct bl_tool_call *call,
                struct bl_tool_result *ret_result);

/* ---- task.c ---------------------------------------------------------------------------------- */

/* The schema of `task`, and its description with the personas; in the arena. */
struct bl_text task_schema_text(struct bl_arena *arena, const struct bl_list *personas);
struct bl_text task_description(struct bl_arena *arena, const struct bl_list *personas);
/* The tool `task`: runs a sub-agent from start to end, in the running fiber. */
int agent_task(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error);

/* ---- cells.c --------------------------------------------------------------------------------- */

void agent_cells_init(struct bl_agent *agent);
/* Opens the cell session, and the host, unless they are open. Not interrupted by a stop of the
 * caller. */
int agent_cells_open(struct bl_agent *agent, struct bl_cell_fault *fault);
/* Ends all of its cells, and reports it. New ones can be created afterwards. */
void agent_cells_end(void *agent);
/* The same, and closes session and host. */
void agent_cells_close(struct bl_agent *agent);
/* Updates cells for the events of a turn. */
void agent_cells_follow(struct bl_agent *agent, const struct bl_event *event);
/* Ends the cells of the turn: for the engine's table. */
void agent_cells_settle(void *agent, struct bl_scope *scope);
/* Writes jobs and cells that were left running on purpose: for a receipt. */
void agent_background_write(void *agent, struct bl_json_writer *writer);

/* Returns NULL if the cell is unknown here. */
struct agent_cell *agent_cell_find(const struct bl_agent *agent, struct bl_text id);
struct agent_cell *agent_cell_add(struct bl_agent *agent, const char *id);
void agent_cell_forget(struct agent_cell *cell);
/* Returns the scope of cells that end with the turn of this call. */
struct bl_scope *agent_cells_turn_scope(struct bl_agent *agent, const struct bl_tool_call *call);
/* Reserves the cell for a call, which then reports the cell's end if it comes. Not 0: stopped. */
int agent_cell_take(struct agent_cell *cell);
void agent_cell_give(struct bl_agent *agent, struct agent_cell *cell,
                     const struct bl_tool_call *call);

/* The outcome of a cell, to be reported. */
struct agent_cell_fate {
    const char *status; /* completed, failed, terminated, missing, never_started, unknown */
    uint64_t generation;
    struct bl_text receipt;
    struct bl_text output; /* of a stopped cell: no message contains it */
};

/* Reports it once for each cell: as its end, or as what settles an `unknown`. `call` NULL: no
 * call. */
void agent_cell_tell_end(struct bl_agent *agent, struct agent_cell *cell,
                         const struct bl_tool_call *call, const struct agent_cell_fate *fate);

/* ---- notices.c: notifications from cells ----------------------------------------------------- */

/* `notify` of a cell; for its port. */
void agent_notice_take(void *agent, const char *cell_id, uint64_t seq, struct bl_text text);
/* Adds waiting notices to the prompt; in the arena. */
struct bl_text agent_notices_prompt(struct bl_agent *agent, struct bl_arena *arena,
                                    struct bl_text prompt);
void agent_notices_follow(struct bl_agent *agent, const struct bl_event *event, bool committed);
/* At the end of a prompt: removes notices from the user's waiting messages. */
void agent_notices_sweep(struct bl_agent *agent);
void agent_notices_done(struct bl_agent *agent);

/* ---- exec.c ---------------------------------------------------------------------------------- */

/* The tools `exec` and `wait`, without `compiled`. */
struct bl_tool_offer exec_offer(struct bl_arena *arena);
struct bl_tool_offer wait_offer(struct bl_arena *arena);
int agent_exec(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error);

/* A call of `exec` or `wait` in progress. In the call's arena. */
struct exec_run {
    struct bl_agent *agent;
    const struct bl_tool_call *call;
    struct agent_cell *cell;
    struct bl_text cell_id;
    uint64_t from_ns;
    uint64_t output_tokens_max;
    bool wants_end; /* `wait` with `terminate` */
    struct bl_cell_fault fault;
    struct bl_cell_observe_outcome outcome;
    struct bl_cell_observe_outcome unseen; /* the previous generation */
    bool has_unseen;
};

struct exec_answer;

/* Observes the next outcome that the model has not seen. As bl_cell_observe. */
int exec_observe_next(struct exec_run *run, uint64_t yield_ms);
/* Takes the answer of `terminate` as the outcome, after one that the model has not seen yet. */
void exec_take_terminated(struct exec_run *run, const struct bl_cell_terminate_outcome *outcome);
/* Delivers the outcome to the model: emits the event, counts it, and keeps an end. `stopped`: a
 * message may never contain it. */
void exec_deliver(struct exec_run *run, bool stopped, struct bl_tool_result *ret_result);
void exec_fill(const struct exec_run *run, const struct exec_answer *answer,
               struct bl_tool_result *ret_result);
void exec_fill_unknown(const struct exec_run *run, const char *note,
                       struct bl_tool_result *ret_result);
/* The call was stopped, and its cell ends with it; `made`: the cell is known to exist. Returns the
 * code of the call, as does the next. */
int exec_stop(struct exec_run *run, bool made, struct bl_tool_result *ret_result);
/* The call was stopped, and its cell continues. */
int exec_leave_running(struct exec_run *run, struct bl_tool_result *ret_result);

/* ---- wait.c ---------------------------------------------------------------------------------- */

int agent_wait(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error);

/* ---- exec_stop.c ----------------------------------------------------------------------------- */

/* Terminates the cell of a stopped `exec` call. True: `*ret_outcome` is set. False: the outcome is
 * unknown. Takes at most 2 s, whatever stops the caller. */
bool exec_stop_cell(struct bl_agent *agent, const struct agent_cell *cell,
                    const struct bl_stop *stop, struct bl_arena *arena,
                    struct bl_cell_terminate_outcome *ret_outcome);
/* Asks again for unknown outcomes. */
void exec_ask_again(struct bl_agent *agent);
/* Write the state that the next open of the session needs to the store, if it has changed; and read
 * it, once. */
void exec_checkpoint_write(struct bl_agent *agent);
void exec_checkpoint_read(struct bl_agent *agent);

/* ---- exec_text.c ----------------------------------------------------------------------------- */

#define EXEC_ID_SIZE       24u
#define EXEC_OUTPUT_TOKENS 10000u

/* Reads the input of `exec` with its pragma, whose line becomes empty in the source. False: the
 * input is invalid, and `*ret_problem` says why, for the model; in the arena. */
bool exec_input_read(struct bl_arena *arena, const struct bl_json *value,
                     struct agent_exec_input *ret_input, struct bl_text *ret_problem);
/* Makes "c-" and 16 characters from the call's identity. `repeat`: number of earlier calls with the
 * same identity. */
void exec_cell_id(const char *session, const char *turn, const char *call, uint64_t repeat,
                  char out[EXEC_ID_SIZE]);

enum exec_state {
    EXEC_RUNNING,
    EXEC_STALLED,
    EXEC_COMPLETED,
    EXEC_FAILED,
    EXEC_TERMINATED,
    EXEC_MISSING,
    EXEC_UNKNOWN,
};

/* Returns the word for the model; for an end it is also the status of its event. */
const char *exec_state_text(enum exec_state state);

struct exec_answer {
    struct bl_text cell_id;
    enum exec_state state;
    struct bl_text reason; /* of terminated */
    uint64_t wall_ns;
    uint64_t stopped_calls;
    struct bl_text note;          /* of unknown: why; may be empty */
    const struct bl_list *unseen; /* struct bl_cell_item, of the previous generation; NULL if
                                     none */
    const struct bl_list *items;  /* NULL if none */
    const struct bl_cell_error *error;
};

/* Returns the text in the arena. Output is cut to 4 bytes for each of `tokens_max` tokens in
 * all. */
struct bl_text exec_answer_text(struct bl_arena *arena, const struct exec_answer *answer,
                                uint64_t tokens_max);
/* Returns the images that the text mentions: struct bl_block, in the arena; their bytes belong to
 * the items. NULL if none. */
const struct bl_list *exec_answer_images(struct bl_arena *arena, const struct exec_answer *answer);
/* Returns only the output. */
struct bl_text exec_output_text(struct bl_arena *arena, const struct bl_list *items,
                                uint64_t tokens_max);
/* Returns whether such a text is about this cell; `*ret_rest` is the part after its name. */
bool exec_answer_is_of(struct bl_text text, struct bl_text cell_id, struct bl_text *ret_rest);
/* Returns whether it reports the cell's end. */
bool exec_answer_is_end(struct bl_text text, struct bl_text cell_id);
/* Returns the same text, marked as repeated. */
struct bl_text exec_answer_again(struct bl_arena *arena, struct bl_text text);

#endif
