/* Shared by the files of this room. */
#ifndef BELAY_TURN_PARTS_H
#define BELAY_TURN_PARTS_H

#include <belay/turn.h>

/* Limits of one answer's text, and of one result. */
#define TURN_TEXT_MAX  ((size_t)64 * 1024 * 1024)
#define TURN_JSON_MAX  ((size_t)512 * 1024 * 1024)
#define TURN_CALLS_MAX 128u
/* The reason why a call may not run; a person may have written it. */
#define TURN_REASON_SIZE ((size_t)4200)
/* The store has long texts elsewhere, so events are stored with texts above TURN_STORED_MAX cut to
 * TURN_STORED_CUT. */
#define TURN_STORED_MAX ((size_t)64 * 1024)
#define TURN_STORED_CUT ((size_t)4 * 1024)

/* Text that grows in an arena. */
struct turn_text {
    char *data;
    size_t size;
    size_t capacity;
};

/* BL_ELIMIT: the text would exceed TURN_TEXT_MAX. */
int turn_text_append(struct bl_arena *arena, struct turn_text *text, struct bl_text more);
struct bl_text turn_text_view(const struct turn_text *text);

/* An answer of the model while it arrives. The message is added to the turn when the answer has
 * ended. */
struct turn_answer {
    struct bl_sink sink;
    struct turn *turn;
    const struct bl_request *request;
    struct bl_message *message;
    struct bl_block *open; /* the text or thinking being written; NULL if none */
    struct turn_text text; /* of that block */
    uint32_t calls;        /* begun */
    uint32_t calls_ended;
    size_t bytes;
    bool quiet; /* not shown to listeners */
    bool usage_known;
    struct bl_usage usage;
    bool cost_known; /* of that usage, by the model itself */
    double cost_usd;
    enum bl_answer_end end;
    bool ended;
};

/* The stage of a turn. */
enum turn_stage {
    TURN_ENTRY,
    TURN_BEGIN,  /* the store records the attempt */
    TURN_EVENTS, /* listeners receive its start */
    TURN_BETWEEN,
    TURN_TOOLS, /* tool servers may be starting */
    TURN_MODEL,
    TURN_CALLS,
    TURN_SETTLE, /* ending what its calls left running */
    TURN_COMMIT,
};

/* A turn in progress. */
struct turn {
    struct bl_engine *engine;
    struct bl_session *session;
    struct bl_receipt *receipt;
    struct bl_journal *journal;
    struct bl_scope scope;         /* its own, claimed at its end */
    struct bl_turn_record *record; /* the session's after the commit, otherwise freed */
    struct bl_arena *arena;        /* of the result */
    struct bl_turn_result *result;
    struct turn_text output; /* the result's output */
    struct bl_usage used;
    uint64_t started_ns;
    uint64_t steps;
    uint32_t requests;
    uint32_t invalid_in_row;
    uint32_t repairs;
    enum turn_stage stage;
    struct bl_list at_work;      /* struct step, of the newest answer's calls, oldest first */
    struct bl_stop_hook stopped; /* on its scope: records the stage */
    bool stop_noted;
    enum turn_stage stopped_in;
    char stopped_call[96];           /* "tool: bash"; empty: no call was running */
    bool call_ended[TURN_CALLS_MAX]; /* of the newest answer's calls: tool_ended was emitted */
    uint64_t turns_skipped; /* number of the oldest turns in the context that the model has no room
                               for */
    struct bl_turn_record *summary; /* of those turns, made in this turn; NULL if none */
    struct bl_budget budget;
    struct bl_list injected;             /* taken from the inbox: struct bl_inbox_message */
    struct bl_list nested;               /* running calls of cells: nested.c */
    struct bl_text attached;             /* follows the prompt in its message */
    const struct bl_list *prompt_images; /* sent with the prompt; NULL if none */
    struct bl_list images; /* struct bl_block: to be placed behind the prompt, or behind all
                              results */
    uint32_t image_count;
    bool tools_forbidden;
    bool begun;                 /* the attempt is recorded, and the turn has passed its entry */
    bool recorded;              /* the attempt is recorded */
    struct turn_answer answer;  /* the newest */
    struct bl_message *results; /* of the newest answer's calls; NULL: none yet */
};

/* ---- Outcomes: all return false, so that a step can end in `return turn_fail(…)` ------------- */

bool turn_end_as(struct turn *turn, enum bl_turn_end end);
/* Ends the turn by the stop of its scope. */
bool turn_end_stopped(struct turn *turn);
/* Ends the turn as `error`, with the result's error object if it is set, or else with this
 * error. */
bool turn_fail(struct turn *turn, int code, enum bl_error_kind kind, const char *format, ...)
    BL_PRINTF(4, 5);

/* ---- conversation.c -------------------------------------------------------------------------- */

/* Appends a line for each of the images to the text; in the arena. */
struct bl_text turn_note_images(struct bl_arena *arena, const struct bl_list *images,
                                const char *why, struct bl_text text);
/* Copies the images that the model accepts to turn->images; `id` is that of their call, or empty.
 * Returns the text, with a line for each of the other images, then in the record's arena. */
struct bl_text turn_take_images(struct turn *turn, const struct bl_list *images, struct bl_text id,
                                struct bl_text text);
/* Moves them behind the other blocks of the message. */
void turn_place_images(struct turn *turn, struct bl_message *message);

/* ---- answer.c -------------------------------------------------------------------------------- */

/* Calls the model once. True: the answer has ended and is in the turn's messages. */
bool turn_ask(struct turn *turn);
/* Makes a call with the caller's own request: the answer is in turn->answer, and counted. Returns
 * the model's code; BL_EBUDGET also if the token budget does not suffice. */
int turn_call_model(struct turn *turn, const struct bl_request *request, bool quiet);
/* Adds the received part of a cut answer to the turn's messages. */
void turn_answer_keep(struct turn *turn);

/* ---- steps.c --------------------------------------------------------------------------------- */

/* A call in progress, of the model or nested, as the tool sees it and as its output is reported. */
struct step {
    struct bl_list link;      /* while it runs, only for the model's calls */
    const char *doing;        /* hook, permission, tool */
    struct bl_tool_call call; /* the callbacks find the step by it; `turn` is the turn of its
                                 events */
    struct bl_engine *engine;
    struct bl_text id;
    struct bl_text name;
    bool nested;
    bool answered; /* the user was asked */
    struct bl_scope scope;
    struct bl_tool_result result;
    uint64_t from_ns;  /* time of the request */
    uint64_t asked_ns; /* time that the user took to answer */
};

/* Returns its duration so far, without the time spent waiting for an answer of the user. */
uint64_t step_ms(const struct step *step);
void step_emit(const struct step *step, struct bl_event event);
/* Its callbacks. */
void step_output(const struct bl_tool_call *call, struct bl_text bytes);
void step_tell(const struct bl_tool_call *call, struct bl_event *event);
/* Returns NULL if no tool has that name. */
const struct bl_tool_offer *step_find_tool(const struct bl_tools *tools, struct bl_text name);
/* Returns what is wrong with a call of that tool with that input, in the arena; empty if it can
 * run. */
struct bl_text step_misfit(const struct bl_tools *tools, struct bl_arena *arena,
                           struct bl_text name, struct bl_text text,
                           const struct bl_json **ret_input);
/* Asks the rules, and the user if possible; in its scope, which the caller must check
 * afterwards. */
bool step_permitted(struct step *step, char *reason, size_t reason_size);
/* Runs the tool, in the step's scope with its own receipt: it can be stopped alone. */
int step_run(struct step *step, struct bl_error *error);
/* Ends a call: adds it to the turn's result, if it has a turn, and emits the event. */
void step_end(struct turn *turn, const struct step *step, const char *status, uint64_t ms,
              struct bl_text text);
const struct bl_denial *step_deny(struct turn *turn, const struct step *step, const char *reason);
/* Counts its spending, however it ended; the tokens have been drawn from the budget already. */
void step_count_spent(struct turn *turn, const struct step *step);

/* Runs the calls of the newest answer. True: the model can be called again. */
bool turn_run_calls(struct turn *turn);
/* Adds a result for each call of the newest answer that has none. */
void turn_complete_results(struct turn *turn, struct bl_text text);

/* ---- nested.c -------------------------------------------------------------------------------- */

/* The turn is complete: detaches nested calls that still run. */
void turn_detach_nested(struct turn *turn);

/* ---- compact.c ------------------------------------------------------------------------------- */

/* Before a request: if it does not fit the model, summarizes the oldest turns and leaves them out.
 * False: the turn was stopped. */
bool turn_make_room(struct turn *turn);
/* After the model reported an overflow: drops the older half, once per turn. True: call again. */
bool turn_make_room_after(struct turn *turn);

/* ---- inbox.c --------------------------------------------------------------------------------- */

/* Takes all waiting messages as one prompt, in the arena, and emits their delivery. They stay in
 * `taken` until the end of their turn is known. */
struct bl_text inbox_next_prompt(struct bl_inbox *inbox, struct bl_journal *journal,
                                 struct bl_arena *arena, struct bl_list *taken);
/* Closes the inbox, and emits the messages that wait as undelivered. They stay in it. */
void inbox_close(struct bl_inbox *inbox, struct bl_journal *journal);
/* The end of a turn that took these messages: delivered, or put back. */
void inbox_settle(struct bl_inbox *inbox, struct bl_list *taken, bool delivered);
/* Moves waiting messages into the turn, behind the results of the newest answer's calls. */
void turn_take_injected(struct turn *turn);
/* The end of a turn: the messages that it took are delivered, or put back. */
void turn_settle_injected(struct turn *turn, bool delivered);

/* ---- structure.c ----------------------------------------------------------------------------- */

/* Checks the newest answer against the schema. True: continue, and `*ret_fits` says whether it is
 * the last answer; otherwise the model has been told the problems. */
bool turn_check_structure(struct turn *turn, bool *ret_fits);

/* ---- result.c -------------------------------------------------------------------------------- */

/* Makes result->json from the other members; the result is then complete. */
void turn_result_seal(struct turn *turn);
/* Returns the receipt of the stop, once all below it has stopped; empty if nothing was stopped, or
 * if the stop was requested above, where its receipt is. */
struct bl_text turn_receipt_text(struct bl_receipt *receipt, struct bl_arena *arena);

/* ---- event.c --------------------------------------------------------------------------------- */

/* Returns the journal for the engine's events; NULL if none. */
struct bl_journal *engine_journal(const struct bl_engine *engine);
/* bl_journal_emit for that turn (NULL: none), whatever turn is in progress. */
void journal_emit_in(struct bl_journal *journal, struct bl_event *event, const char *turn);
/* Until journal_release, no other event gets a number or is added to the pending lines: events can
 * be prepared, stored and taken back. Other callers wait. */
void journal_hold(struct bl_journal *journal);
void journal_release(struct bl_journal *journal);
/* The two halves of bl_journal_emit: prepare for the next transaction, and pass to the listener.
 * Events are passed on while the journal is held, and the last one right after its release: so they
 * arrive in order, and the listener may cause further events. */
void journal_prepare(struct bl_journal *journal, struct bl_event *event);
void journal_tell(struct bl_journal *journal, const struct bl_event *event);
/* bl_journal_note, with the receipt of a settlement. */
int journal_note(struct bl_journal *journal, const char *receipt_id, struct bl_text receipt,
                 struct bl_error *error);
void turn_emit(struct turn *turn, struct bl_event event);
/* Prepares for a new stop: events of an earlier stop are complete. */
void journal_arm(struct bl_journal *journal);
/* Emits once that a stop was requested where the receipt is open. The event has been emitted on
 * return, by whichever fiber. */
void journal_tell_cancel(struct bl_journal *journal, const struct bl_receipt *receipt);
/* Emits a stop and its receipt, once per run. */
void journal_tell_stop(struct bl_journal *journal, const struct bl_receipt *receipt,
                       struct bl_text json);

/* ---- stop.c ---------------------------------------------------------------------------------- */

/* Emits a stop when it is requested, while the work that it ends may take its time. Embedded by the
 * loop; the receipt is open on a scope that outlives it. */
struct stop_watch {
    struct bl_stop_hook hook;
    struct bl_journal *journal;
    const struct bl_receipt *receipt;
    struct bl_scope shield;
    struct bl_nursery nursery;
};

void stop_watch_begin(struct stop_watch *watch, struct bl_journal *journal,
                      const struct bl_receipt *receipt);
void stop_watch_end(struct stop_watch *watch);

/* Records the stage of the turn, once: where the stop found it. */
void turn_note_stop(struct turn *turn);
/* Before each step: turns a requested gentle stop into a stop. False: the turn has ended. */
bool turn_may_continue(struct turn *turn);
/* Returns the value of `stopped_during`, in the arena of the result. */
const char *turn_stopped_during(struct turn *turn);

#endif
