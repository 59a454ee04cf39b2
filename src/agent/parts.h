/* What the files of this room share. */
#ifndef BELAY_AGENT_PARTS_H
#define BELAY_AGENT_PARTS_H

#include <belay/agent.h>
#include <belay/cell.h>

/* Agents below agents: the root is at 0. */
#define AGENT_DEPTH_MAX 4u

/* A tool call that others can see and stop. */
struct agent_call {
    struct bl_list link;
    struct bl_activity activity;
    struct bl_buffer receipt; /* of a stop that was for this call alone */
};

/* A cell that the model has made or asked about. On the heap, until the model was told of its end
 * in a turn that is committed. */
struct agent_cell {
    struct bl_list link;
    char id[BL_CELL_ID_SIZE];
    struct bl_lock lock;   /* one call at a time is at work on it */
    bool of_turn;          /* it ends with the turn under way; else with the session */
    bool over;             /* it has ended, whoever knows of it */
    bool told;             /* its end is in the journal */
    bool unsettled;        /* it was stopped, and nobody could say what became of it */
    bool missing;          /* there is none of that name: to be forgotten */
    uint64_t generation;   /* newest that the model was given */
    uint64_t committed;    /* the same in turns that are committed */
    uint64_t ended;        /* generation of the end that the model was told of; 0: it was not */
    struct bl_buffer text; /* with this result */
    bool is_error;
    struct agent_cell_end *held_back; /* its end came while a call was at work on it */
};

/* All of an agent. */
struct agent_cells {
    struct bl_cell_host *host; /* of the root, for all below it; NULL: there was no cell so far */
    struct bl_cell_session *session; /* NULL: the same */
    struct bl_lock opening;
    struct bl_list known;       /* struct agent_cell, oldest first */
    struct bl_list ends;        /* struct agent_cell_end, to be told */
    struct bl_semaphore come;   /* given for each of those */
    struct bl_list notices;     /* struct agent_notice, oldest first */
    struct bl_buffer stored;    /* what the store has of all this */
    struct bl_scope turn_scope; /* of those that end with the turn, below the turn's own */
    bool turn_open;             /* that is in use */
    bool in_turn;
    bool restored;
    uint64_t turns_before; /* committed ones, when the turn began */
};

struct bl_agent {
    struct bl_agent_options options;
    struct bl_agent *root;
    struct bl_agent *above; /* NULL: this is the root */
    unsigned depth;
    const struct bl_persona *persona; /* NULL: itself, as a root may be */
    char id[BL_ID_SIZE];              /* of a sub-agent; the root's run */
    struct bl_arena arena;
    struct bl_model model;
    void *model_handle; /* of the model source; NULL: the caller's model */
    bool model_opened;
    struct bl_list retired; /* struct agent_model: changed in the middle of a prompt, which may
                               still be at work with them */
    struct bl_engine engine;
    struct bl_listener listener; /* ours, before the caller's */
    struct bl_session session;
    struct bl_store_session *held;
    struct bl_journal journal;
    struct bl_inbox inbox;
    struct bl_budget *budget_above;
    struct bl_scope shield;      /* as long as the session is held, whatever stops a prompt */
    struct bl_nursery nursery;   /* in it: who renews the lease, jobs in the background */
    struct bl_lock asking;       /* of the root: one question at a time */
    struct bl_buffer stop_event; /* of the root: for its hooks, once the turn has ended */
    struct bl_stop_hook stopped; /* of a run of its own, on its scope */
    bool prompted;
    bool start_told;          /* of a conversation: its end is to be told, too */
    bool conversing;          /* the start of a conversation was told, and its end will be */
    struct bl_scope *prompt;  /* of the prompt under way; NULL: none is */
    uint64_t turns_completed; /* by all prompts so far, as the next two */
    struct bl_usage usage;
    struct bl_spent spent;
    struct bl_activity activity;
    struct bl_list calls; /* struct agent_call, at work */
    uint64_t tokens;      /* of the model's calls before this one */
    /* What the model is offered. */
    struct bl_tools tools;
    struct bl_arena offers_arena;
    struct bl_toolbox_held *offers_held;      /* of the toolbox, as long as they are ours */
    const struct bl_tool_offer *offers_taken; /* the toolbox's own, of which ours were made */
    struct bl_json_schema *schemas[3];        /* of those that are the agent's own */
    struct agent_cells cells;
};

/* ---- agent.c --------------------------------------------------------------------------------- */

/* What bl_agent_open and bl_agent_prompt do, for every agent. `unit` (NULL: none) stands for the
 * agent in the receipt above. */
int agent_open(struct bl_agent *agent, struct bl_error *error);
/* What one of that persona is told before all else, below an agent that is told `system`. */
struct bl_text agent_system(struct bl_arena *arena, struct bl_text system,
                            const struct bl_persona *persona);
void agent_prompt(struct bl_agent *agent, const struct bl_run_options *run, struct bl_scope *scope,
                  struct bl_unit *unit, struct bl_arena *arena, struct bl_run_result *ret_result);
void agent_close(struct bl_agent *agent);

/* ---- model_change.c -------------------------------------------------------------------------- */

/* Gives back the model that a source has made, and those before it. */
void agent_model_close(struct bl_agent *agent);
/* The end of a prompt: nobody is at work with those that were changed in it. */
void agent_models_settle(struct bl_agent *agent);

/* ---- tools.c --------------------------------------------------------------------------------- */

/* Makes the table of tools of an agent, and takes it apart. */
int agent_tools_open(struct bl_agent *agent, struct bl_error *error);
void agent_tools_close(struct bl_agent *agent);
/* Can cells call it? */
bool agent_tool_is_nested(const char *name);
/* Hooks that are not about a tool, told by the events of a turn. */
void agent_hooks_follow(struct bl_agent *agent, const struct bl_event *event);

/* ---- task.c ---------------------------------------------------------------------------------- */

/* The schema of `task`, and its description with the personas; in the arena. */
struct bl_text task_schema_text(struct bl_arena *arena, const struct bl_list *personas);
struct bl_text task_description(struct bl_arena *arena, const struct bl_list *personas);
/* The tool `task`: a sub-agent from its start to its end, in the running fiber. */
int agent_task(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error);

/* ---- cells.c --------------------------------------------------------------------------------- */

void agent_cells_init(struct bl_agent *agent);
/* Makes the session of its cells, and the host, where there are none. Whatever stops the caller. */
int agent_cells_open(struct bl_agent *agent, struct bl_cell_fault *fault);
/* Ends all of its cells, and tells of it. Afterwards there can be new ones. */
void agent_cells_end(void *agent);
/* The same, and gives back what there is. */
void agent_cells_close(struct bl_agent *agent);
/* What the events of a turn mean for cells. */
void agent_cells_follow(struct bl_agent *agent, const struct bl_event *event);
/* Ends those of the turn: for the engine's table. */
void agent_cells_settle(void *agent, struct bl_scope *scope);
/* Jobs and cells that were left running on purpose: for a receipt. */
void agent_background_write(void *agent, struct bl_json_writer *writer);

/* NULL: none that is known here. */
struct agent_cell *agent_cell_find(const struct bl_agent *agent, struct bl_text id);
struct agent_cell *agent_cell_add(struct bl_agent *agent, const char *id);
void agent_cell_forget(struct agent_cell *cell);
/* The scope of cells that end with the turn of this call. */
struct bl_scope *agent_cells_turn_scope(struct bl_agent *agent, const struct bl_tool_call *call);
/* A call is at work on it: what becomes of it meanwhile that call tells. Not 0: stopped. */
int agent_cell_take(struct agent_cell *cell);
void agent_cell_give(struct bl_agent *agent, struct agent_cell *cell,
                     const struct bl_tool_call *call);

/* What became of a cell, to be told. */
struct agent_cell_fate {
    const char *status; /* completed, failed, terminated, missing, never_started, unknown */
    uint64_t generation;
    struct bl_text receipt;
    struct bl_text output; /* of one that was stopped: no message holds it */
};

/* Once for each: as its end, or as what settles an `unknown`. `call` NULL: of none. */
void agent_cell_tell_end(struct bl_agent *agent, struct agent_cell *cell,
                         const struct bl_tool_call *call, const struct agent_cell_fate *fate);

/* ---- notices.c: what cells have to say ------------------------------------------------------- */

/* `notify` of a cell; for its port. */
void agent_notice_take(void *agent, const char *cell_id, uint64_t seq, struct bl_text text);
/* Those that wait go with the prompt; in the arena. */
struct bl_text agent_notices_prompt(struct bl_agent *agent, struct bl_arena *arena,
                                    struct bl_text prompt);
void agent_notices_follow(struct bl_agent *agent, const struct bl_event *event, bool committed);
/* The end of a prompt: none is left where users' messages wait. */
void agent_notices_sweep(struct bl_agent *agent);
void agent_notices_done(struct bl_agent *agent);

/* ---- exec.c ---------------------------------------------------------------------------------- */

/* The tools `exec` and `wait`, without `compiled`. */
struct bl_tool_offer exec_offer(void);
struct bl_tool_offer wait_offer(void);
int agent_exec(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error);

/* A call of `exec` or `wait` under way. In the call's arena. */
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
    struct bl_cell_observe_outcome unseen; /* the generation before it */
    bool has_unseen;
};

struct exec_answer;

/* The next outcome that the model has not seen. As bl_cell_observe. */
int exec_observe_next(struct exec_run *run, uint64_t yield_ms);
/* What `terminate` answered is the outcome, behind one that nobody has seen yet. */
void exec_take_terminated(struct exec_run *run, const struct bl_cell_terminate_outcome *outcome);
/* Hands the outcome to the model: told, counted, and of an end kept. `stopped`: no message may ever
 * hold it. */
void exec_deliver(struct exec_run *run, bool stopped, struct bl_tool_result *ret_result);
void exec_fill(const struct exec_run *run, const struct exec_answer *answer,
               struct bl_tool_result *ret_result);
void exec_fill_unknown(const struct exec_run *run, const char *note,
                       struct bl_tool_result *ret_result);
/* The call was stopped, and its cell ends with it; `made`: it is known to be there. Returns as the
 * call does, as the next. */
int exec_stop(struct exec_run *run, bool made, struct bl_tool_result *ret_result);
/* The call was stopped, and its cell runs on. */
int exec_leave_running(struct exec_run *run, struct bl_tool_result *ret_result);

/* ---- wait.c ---------------------------------------------------------------------------------- */

int agent_wait(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error);

/* ---- exec_stop.c ----------------------------------------------------------------------------- */

/* A call of `exec` that was stopped: what terminating its cell came to. True: `*ret_outcome`.
 * False: nobody could say. At most 2 s, whatever stops the caller. */
bool exec_stop_cell(struct bl_agent *agent, const struct agent_cell *cell,
                    const struct bl_stop *stop, struct bl_arena *arena,
                    struct bl_cell_terminate_outcome *ret_outcome);
/* Asks again of those that nobody could say something of. */
void exec_ask_again(struct bl_agent *agent);
/* What is to be known when the session is opened again: into the store, if it has changed; and back
 * from it, once. */
void exec_checkpoint_write(struct bl_agent *agent);
void exec_checkpoint_read(struct bl_agent *agent);

/* ---- exec_text.c ----------------------------------------------------------------------------- */

#define EXEC_ID_SIZE       24u
#define EXEC_OUTPUT_TOKENS 10000u

/* What `exec` is asked to do, by its input and its pragma. */
struct exec_request {
    struct bl_text source; /* the pragma's line is empty */
    uint64_t yield_ms;
    uint64_t output_tokens_max;
    uint64_t timeout_ms; /* 0: not said */
    bool background;
};

/* False: something is wrong, and `*ret_problem` says what, for the model; in the arena. */
bool exec_request_read(struct bl_arena *arena, const struct bl_json *input,
                       struct exec_request *ret_request, struct bl_text *ret_problem);
/* "c-" and 16 characters, from what the call is. `repeat`: so many before it were the same. */
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

struct exec_answer {
    struct bl_text cell_id;
    enum exec_state state;
    struct bl_text reason; /* of terminated */
    uint64_t wall_ns;
    uint64_t stopped_calls;
    struct bl_text note;          /* of unknown: why; may be empty */
    const struct bl_list *unseen; /* struct bl_cell_item, of a generation before; NULL: none */
    const struct bl_list *items;  /* NULL: none */
    const struct bl_cell_error *error;
};

/* In the arena. Of all output together at most 4 bytes for each of so many tokens are kept. */
struct bl_text exec_answer_text(struct bl_arena *arena, const struct exec_answer *answer,
                                uint64_t tokens_max);
/* The images that the text names: struct bl_block, in the arena; their bytes are the items'. NULL:
 * none. */
const struct bl_list *exec_answer_images(struct bl_arena *arena, const struct exec_answer *answer);
/* The output alone. */
struct bl_text exec_output_text(struct bl_arena *arena, const struct bl_list *items,
                                uint64_t tokens_max);
/* Such a text tells of this cell, and behind its name comes `*ret_rest`. */
bool exec_answer_is_of(struct bl_text text, struct bl_text cell_id, struct bl_text *ret_rest);
/* It tells of the end of it. */
bool exec_answer_is_end(struct bl_text text, struct bl_text cell_id);
/* The same text, marked as one that was told before. */
struct bl_text exec_answer_again(struct bl_arena *arena, struct bl_text text);

#endif
