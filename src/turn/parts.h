/* What the files of this room share. */
#ifndef BELAY_TURN_PARTS_H
#define BELAY_TURN_PARTS_H

#include <belay/turn.h>

/* The longest text of one answer, and of one result: what is longer is not an answer. */
#define TURN_TEXT_MAX  ((size_t)64 * 1024 * 1024)
#define TURN_JSON_MAX  ((size_t)512 * 1024 * 1024)
#define TURN_CALLS_MAX 128u

/* Text that grows in an arena. */
struct turn_text {
    char *data;
    size_t size;
    size_t capacity;
};

/* BL_ELIMIT: it would pass TURN_TEXT_MAX. */
int turn_text_append(struct bl_arena *arena, struct turn_text *text, struct bl_text more);
struct bl_text turn_text_view(const struct turn_text *text);

/* One answer of the model, as it comes. The message is not in the turn before it has ended. */
struct turn_answer {
    struct bl_sink sink;
    struct turn *turn;
    const struct bl_request *request;
    struct bl_message *message;
    struct bl_block *open; /* the text or thinking that is being written; NULL: none */
    struct turn_text text; /* of that */
    uint32_t calls;        /* begun */
    uint32_t calls_ended;
    size_t bytes;
    bool quiet; /* what it says is not for the listeners */
    bool usage_known;
    struct bl_usage usage;
    bool cost_known; /* of that usage, by the model itself */
    double cost_usd;
    enum bl_answer_end end;
    bool ended;
};

/* One turn under way. */
struct turn {
    struct bl_engine *engine;
    struct bl_session *session;
    struct bl_receipt *receipt;
    struct bl_journal *journal;
    struct bl_scope scope;         /* its own, that it claims at its end */
    struct bl_turn_record *record; /* the session's after the commit, else freed */
    struct bl_arena *arena;        /* of the result */
    struct bl_turn_result *result;
    struct turn_text output; /* what the result holds */
    struct bl_usage used;
    uint64_t started_ns;
    uint64_t steps;
    uint32_t requests;
    uint32_t invalid_in_row;
    uint32_t repairs;
    uint64_t turns_skipped; /* of the oldest in the context: the model had no room for them */
    struct bl_turn_record *summary; /* of these, made in this turn; NULL: none */
    struct bl_budget budget;
    struct bl_list injected;             /* taken from the inbox: struct bl_inbox_message */
    struct bl_list nested;               /* calls of cells at work: nested.c */
    const struct bl_list *prompt_images; /* that came with the prompt; NULL: none */
    struct bl_list images; /* struct bl_block: to stand behind the prompt, or behind all results */
    uint32_t image_count;
    bool tools_forbidden;
    bool begun;                 /* the attempt is on record */
    struct turn_answer answer;  /* the newest */
    struct bl_message *results; /* of the newest answer's calls; NULL: none yet */
};

/* ---- Outcomes: all return false, so that a step can end in `return turn_fail(…)` ------------- */

bool turn_end_as(struct turn *turn, enum bl_turn_end end);
/* By what stopped its scope. */
bool turn_end_stopped(struct turn *turn);
/* As `error`, with what is in the result's error object already, or else with this. */
bool turn_fail(struct turn *turn, int code, enum bl_error_kind kind, const char *format, ...)
    BL_PRINTF(4, 5);

/* ---- conversation.c -------------------------------------------------------------------------- */

/* The text with a line for each of the images; in the arena. */
struct bl_text turn_note_images(struct bl_arena *arena, const struct bl_list *images,
                                const char *why, struct bl_text text);
/* Copies those that the model can be sent into turn->images; `id` is that of their call, or empty.
 * Returns the text, with a line for each of the others; in the record's arena then. */
struct bl_text turn_take_images(struct turn *turn, const struct bl_list *images, struct bl_text id,
                                struct bl_text text);
/* Puts them behind what the message has. */
void turn_place_images(struct turn *turn, struct bl_message *message);

/* ---- answer.c -------------------------------------------------------------------------------- */

/* Asks the model once. True: the answer has ended and is in the turn's messages. */
bool turn_ask(struct turn *turn);
/* The same call with a request of the caller's own: what came is in turn->answer, and counted. The
 * model's code; BL_EBUDGET also where the tokens do not reach. */
int turn_call_model(struct turn *turn, const struct bl_request *request, bool quiet);
/* Puts what came of an answer that was cut into the turn's messages. */
void turn_answer_keep(struct turn *turn);

/* ---- steps.c --------------------------------------------------------------------------------- */

/* A call at work, of the model or nested, as the tool sees it and as its output comes back. */
struct step {
    struct bl_tool_call call; /* the callbacks find the rest by it; `turn` is what it is told in */
    struct bl_engine *engine;
    struct bl_text id;
    struct bl_text name;
    bool nested;
    struct bl_scope scope;
    struct bl_tool_result result;
};

void step_emit(const struct step *step, struct bl_event event);
/* Its callbacks. */
void step_output(const struct bl_tool_call *call, struct bl_text bytes);
void step_tell(const struct bl_tool_call *call, struct bl_event *event);
/* What is wrong with a call of that tool with that input, in the arena; empty: it can be run. */
struct bl_text step_misfit(const struct bl_tools *tools, struct bl_arena *arena,
                           struct bl_text name, struct bl_text text,
                           const struct bl_json **ret_input);
/* Asks the rules, and whoever can be asked; in its scope, which it must look at afterwards. */
bool step_permitted(struct step *step, char *reason, size_t reason_size);
/* The tool itself, in the step's scope with a receipt of its own: it can be stopped alone. */
int step_run(struct step *step, struct bl_error *error);
/* The end of a call: in the turn's result, if it has a turn, and told. */
void step_end(struct turn *turn, const struct step *step, const char *status, uint64_t ms,
              struct bl_text text);
void step_deny(struct turn *turn, const struct step *step, const char *reason);
/* Its spending counts however it ended; the tokens have been drawn already. */
void step_count_spent(struct turn *turn, const struct step *step);

/* Runs the calls of the newest answer. True: the model can be asked again. */
bool turn_run_calls(struct turn *turn);
/* A result for each call of the newest answer that has none. */
void turn_complete_results(struct turn *turn, struct bl_text text);

/* ---- nested.c -------------------------------------------------------------------------------- */

/* Nothing is added to the turn any more: nested calls that still run are of none from now on. */
void turn_let_go(struct turn *turn);

/* ---- compact.c ------------------------------------------------------------------------------- */

/* Before a request: where the model has no room for all of it, the oldest turns are summed up and
 * left out. False: the turn is at its end, by a stop. */
bool turn_make_room(struct turn *turn);
/* The model said that it has no room: the older half leaves, once a turn. True: ask again. */
bool turn_make_room_after(struct turn *turn);

/* ---- inbox.c --------------------------------------------------------------------------------- */

/* All that wait as one prompt, in the arena, told as delivered so; they are in `taken` until it is
 * known what became of its turn. */
struct bl_text inbox_next_prompt(struct bl_inbox *inbox, struct bl_journal *journal,
                                 struct bl_arena *arena, struct bl_list *taken);
/* The end of a turn that took these: delivered, or back to where they were. */
void inbox_settle(struct bl_inbox *inbox, struct bl_list *taken, bool delivered);
/* Takes what waits into the turn, behind the results of the newest answer's calls. */
void turn_take_injected(struct turn *turn);
/* The end of a turn: what it took is delivered, or goes back. */
void turn_settle_injected(struct turn *turn, bool delivered);

/* ---- structure.c ----------------------------------------------------------------------------- */

/* Holds the newest answer against the schema. True: go on, `*ret_fits` says whether it is the last;
 * else the model has been told what is wrong. */
bool turn_check_structure(struct turn *turn, bool *ret_fits);

/* ---- result.c -------------------------------------------------------------------------------- */

/* Fills result->json from the rest of it, which is complete with that. */
void turn_result_seal(struct turn *turn);
/* The receipt of the stop, once all below it is quiet; empty when nothing was stopped, or when it
 * was asked above, where its receipt is. */
struct bl_text turn_receipt_text(struct bl_receipt *receipt, struct bl_arena *arena);

/* ---- event.c --------------------------------------------------------------------------------- */

/* Where what the engine does is told now; NULL: nowhere. */
struct bl_journal *engine_journal(const struct bl_engine *engine);
/* bl_journal_emit, of that turn (NULL: of none) whatever turn is under way. */
void journal_emit_in(struct bl_journal *journal, struct bl_event *event, const char *turn);
/* From here to journal_release nobody else's event gets a number, or a place among those that are
 * written: what is prepared can be written, and taken back. Others wait. */
void journal_hold(struct bl_journal *journal);
void journal_release(struct bl_journal *journal);
/* The two halves of bl_journal_emit: into the next transaction, and to the listener. While it is
 * held, and the last one told right after its release: so they are told in their order, and whoever
 * listens may have something told by others. */
void journal_prepare(struct bl_journal *journal, struct bl_event *event);
void journal_tell(struct bl_journal *journal, const struct bl_event *event);
/* As bl_journal_note, with the receipt of a settlement. */
int journal_note(struct bl_journal *journal, const char *receipt_id, struct bl_text receipt,
                 struct bl_error *error);
void turn_emit(struct turn *turn, struct bl_event event);
/* Tells of a stop and of its receipt, once a run. */
void journal_tell_stop(struct bl_journal *journal, const struct bl_receipt *receipt,
                       struct bl_text json);

#endif
