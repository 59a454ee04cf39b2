/* turn: the engine. One prompt taken to its end, as one transaction over a session.
 *
 * The core of the product, and it knows no means: a model, tools, a store, a clock and chance come
 * as tables of functions, which the rooms above fill. So a whole run can be played on virtual time
 * from a seed.
 *
 * Promises: a turn commits exactly once or leaves no trace. Until it has claimed its scope nothing
 * in the session changes; after it, no stop reaches it; memory changes when the store has said that
 * the turn is durable, and not before. Every result but `completed` (and what `keep` commits)
 * leaves messages, usage and denials as they were, byte for byte. What was spent is never hidden.
 *
 * All of it belongs to fibers of one loop. */
#ifndef BELAY_TURN_H
#define BELAY_TURN_H

#include <belay/fiber.h>
#include <belay/record.h>

BL_PUBLIC_BEGIN

#define BL_UNLIMITED UINT64_MAX
/* What a store has for one answer, the deadline notwithstanding. */
#define BL_STORE_NS_MAX (5 * BL_NS_PER_S)

/* ---- Conversation ---------------------------------------------------------------------------- */

enum bl_role {
    BL_ROLE_USER,
    BL_ROLE_ASSISTANT,
};

enum bl_block_type {
    BL_BLOCK_TEXT,
    BL_BLOCK_THINKING, /* `opaque` goes back to its provider unchanged */
    BL_BLOCK_CALL,     /* a tool is asked for: id, name, input */
    BL_BLOCK_RESULT,   /* what came of the call with that id: text, is_error */
    BL_BLOCK_IMAGE,    /* of a user's message: text is base64, name its type ("image/png"); those
                          of a call's result stand behind all results, with its id */
};

/* A part of a message. In the arena of its turn, like all that it points to. */
struct bl_block {
    struct bl_list link;
    enum bl_block_type type;
    bool is_error;
    struct bl_text text;
    struct bl_text id;
    struct bl_text name;
    struct bl_text input;   /* of a call: one JSON object; what came, when `invalid` is set */
    struct bl_text invalid; /* of a call that is not run: why */
    struct bl_text opaque;  /* one JSON value, or empty */
};

struct bl_message {
    struct bl_list link;
    enum bl_role role;
    struct bl_list blocks;
};

/* Appended to `messages`, a list of struct bl_message. */
struct bl_message *bl_message_add(struct bl_arena *arena, struct bl_list *messages,
                                  enum bl_role role);
struct bl_block *bl_block_add(struct bl_arena *arena, struct bl_message *message,
                              enum bl_block_type type);
/* One JSON array: [{"role":"user","content":[{"type":"text","text":"…"}, …]}, …]. */
void bl_messages_write(struct bl_json_writer *writer, const struct bl_list *messages);
/* What bl_messages_write wrote. BL_EPARSE: it is not that; nothing is appended. */
int bl_messages_read(struct bl_arena *arena, struct bl_text json, struct bl_list *messages);

/* Of an image: its base64; and how many of them a message has. */
#define BL_IMAGE_SIZE_MAX ((size_t)5 * 1024 * 1024)
#define BL_IMAGES_MAX     20u
/* What one is taken to cost where nobody has counted. */
#define BL_IMAGE_TOKENS 1600u

/* Why no model can be sent this image, in a few words: its type, its size, or that it is not
 * base64. NULL: one can. */
const char *bl_image_problem(const struct bl_block *image);
/* What stands for it where it is not shown, in the arena: "[image image/png, 12 KiB: why]"; `why`
 * may be NULL. */
struct bl_text bl_image_note(struct bl_arena *arena, const struct bl_block *image, const char *why);

/* ---- Usage ----------------------------------------------------------------------------------- */

struct bl_usage {
    uint64_t input_tokens;  /* cached input included */
    uint64_t output_tokens; /* reasoning included */
};

/* Also what was rejected, because the provider bills it. */
struct bl_spent {
    struct bl_usage usage;
    bool cost_unknown; /* of some part of it: written as null */
    double cost_usd;
    double cost_usd_max; /* with the whole reservation of calls that were cut */
};

/* Parts of a call's usage, which includes them. */
struct bl_usage_detail {
    uint64_t cache_read_tokens;
    uint64_t cache_write_tokens;
    uint64_t reasoning_tokens;
};

uint64_t bl_usage_total(const struct bl_usage *usage);
void bl_usage_add(struct bl_usage *usage, const struct bl_usage *more);
void bl_spent_add(struct bl_spent *spent, const struct bl_spent *more);
extern const struct bl_record bl_usage_record; /* struct bl_usage */
extern const struct bl_record bl_spent_record; /* struct bl_spent */

/* ---- Session --------------------------------------------------------------------------------- */

/* A committed turn that the model still sees. On the heap, owned by its session. */
struct bl_turn_record {
    struct bl_list link;
    struct bl_arena arena;
    struct bl_list messages;
};

/* What a model sees of a session, and its counters. Embedded by its owner; a store fills it when
 * the session is opened, the engine changes it when a commit is durable. */
struct bl_session {
    char id[72];
    struct bl_list turns;           /* struct bl_turn_record, oldest first */
    uint64_t turns_in_context;      /* how many these are */
    uint64_t turns_total;           /* those compacted away count */
    struct bl_turn_record *summary; /* of those compacted away; NULL: none */
    struct bl_usage usage;          /* committed */
    bool unknown; /* the store could not say whether a commit took place: open it again */
};

void bl_session_init(struct bl_session *session, const char *id);
void bl_session_done(struct bl_session *session);
/* An empty record, not in any session yet. */
struct bl_turn_record *bl_turn_record_new(void);
void bl_turn_record_free(struct bl_turn_record *record); /* NULL is fine */
/* Takes the record over: newest of the session. Counters are the caller's business. */
void bl_session_add(struct bl_session *session, struct bl_turn_record *record);
/* Lets go of the oldest `count` turns of the context. `summary` (taken over; NULL: none was made)
 * stands for them from now on, and for what the summary before it stood for. */
void bl_session_drop(struct bl_session *session, uint64_t count, struct bl_turn_record *summary);
/* [a-z0-9-]{1,64}; else BL_EINVAL, kind usage. */
extern const struct bl_form bl_session_id_form;
int bl_session_id_check(const char *id, struct bl_error *error);

/* ---- The model ------------------------------------------------------------------------------- */

/* One thing that the model can call. `schema` is a JSON Schema object, as text; `compiled` the same
 * to check inputs with (NULL: they are not). */
struct bl_tool_offer {
    const char *name;
    const char *description;
    struct bl_text schema;
    const struct bl_json_schema *compiled;
    bool parallel; /* calls of it may run beside others of that kind */
};

struct bl_request {
    struct bl_text system;
    const struct bl_session *session;     /* what was said before this turn */
    uint64_t turns_skipped;               /* so many of the oldest of those are not sent */
    const struct bl_turn_record *summary; /* stands for what is not sent; NULL: nothing does */
    const struct bl_list *messages;       /* of the turn so far: struct bl_message */
    const struct bl_tool_offer *tools;
    size_t tool_count;
    bool tools_forbidden;  /* they stay in the list, and the choice is "none" */
    struct bl_text schema; /* the answer is to be JSON that fits; empty: any text */
};

/* The newest text of a user in the request: of this turn, or else of the newest one before. */
struct bl_text bl_request_newest_text(const struct bl_request *request);

enum bl_answer_end {
    BL_ANSWER_END,
    BL_ANSWER_TOOL_CALLS,
    BL_ANSWER_MAX_TOKENS,
    BL_ANSWER_STOP_SEQUENCE,
    BL_ANSWER_REFUSAL,
};

/* Pieces of an answer, as they come. In this order for a call: begin, deltas, end. A usage is a
 * snapshot of this call: it replaces, never adds. */
struct bl_piece {
    enum {
        BL_PIECE_TEXT,       /* text, never empty */
        BL_PIECE_THINKING,   /* text; opaque on the last piece of a block */
        BL_PIECE_CALL_BEGIN, /* index, id, name */
        BL_PIECE_CALL_DELTA, /* index, text: more of the input */
        BL_PIECE_CALL_END,   /* index; text: the whole input, or what came of it with `invalid` */
        BL_PIECE_USAGE,
        BL_PIECE_RETRY, /* this call begins anew; what came of it is forgotten */
        BL_PIECE_END,   /* once, last; then the call returns 0 */
    } type;
    uint32_t index;
    struct bl_text text;
    struct bl_text id;
    struct bl_text name;
    struct bl_text invalid;
    struct bl_text opaque;
    struct bl_usage usage;
    struct bl_usage_detail usage_detail;
    bool estimated;  /* of usage */
    bool cost_known; /* cost_usd is what it costs; else the model is asked */
    double cost_usd;
    enum bl_answer_end end;
    struct {
        uint32_t attempt; /* from 1: the first retry */
        uint32_t of;
        uint64_t wait_ms;
        char code[24];
        int status; /* of HTTP; 0: none */
    } retry;        /* told before the wait */
};

/* Where a model puts the pieces. `take` copies what it keeps; it may wait (a listener that is
 * slow), and what it returns other than 0 the model returns, at once. */
struct bl_sink {
    int (*take)(struct bl_sink *sink, const struct bl_piece *piece);
    char detail[120]; /* set by the model when it returns: "stream cut after 812 bytes" */
    /* What the attempt under way may come to at most, in USD, should it be cut; 0: nothing is known
     * to be owed. Set by the model, also before it tells of a retry. */
    double reserved_usd;
    /* Nothing of the attempt under way was sent, or the provider bills nothing for it: unless it
     * told a usage, it used none. Set by the model. */
    bool unbilled;
    bool abandoned; /* something of the call could not be ended: its fate is unknown */
};

struct bl_model {
    const char *provider;
    const char *name;
    void *context;
    uint64_t input_tokens_max; /* that a request may have, room for the answer kept; 0: not known */
    bool takes_images;
    /* Input tokens that the request will cost, roughly; never less for a longer text. */
    uint64_t (*estimate)(void *context, const struct bl_request *request);
    /* One call, in the running fiber and its scope. 0 after BL_PIECE_END; BL_ECANCELED or
     * BL_ETIMEDOUT when the scope stopped; BL_EBUDGET: a limit of cost does not cover it, and it
     * was not sent; else the error says what (kind provider or provider_timeout; its name
     * context_overflow: fewer turns may help), and nothing of it had a side effect. */
    int (*call)(void *context, const struct bl_request *request, struct bl_sink *sink,
                struct bl_error *error);
    /* What that usage costs, in USD; negative: not known. NULL: not known. */
    double (*cost_usd)(void *context, const struct bl_usage *usage);
};

/* ---- A budget of tokens ---------------------------------------------------------------------- */

/* What an agent may use, and below which: what it draws is drawn from all above it, too. A call of
 * the model reserves what it is estimated to cost before it is sent. Embedded by its owner. */
struct bl_budget {
    uint64_t limit; /* BL_UNLIMITED: none of its own */
    uint64_t used;
    uint64_t reserved;       /* by calls under way */
    struct bl_budget *above; /* NULL: the root's */
};

/* False: it does not fit somewhere, and nothing is reserved. Equal to the limit fits. */
bool bl_budget_reserve(struct bl_budget *budget, uint64_t tokens);
/* The end of a call: `used` in place of what was reserved for it. */
void bl_budget_settle(struct bl_budget *budget, uint64_t reserved, uint64_t used);
/* More is used than some limit allows. */
bool bl_budget_passed(const struct bl_budget *budget);

/* ---- Tools ----------------------------------------------------------------------------------- */

struct bl_event;

struct bl_tool_call {
    const char *id;
    const char *name;
    const char *turn;            /* the id of its turn; NULL: of none, between turns */
    struct bl_scope *turn_scope; /* of its turn: outlives the call; NULL: of none, and of a nested
                                    call, which may outlive its turn */
    struct bl_text input_text;
    const struct bl_json *input; /* an object */
    struct bl_scope *scope;      /* of this call alone: what stops it stops nothing else */
    struct bl_arena *arena;      /* for results */
    struct bl_budget *budget;    /* of its turn: what it has models do is drawn from it */
    /* What it prints, as it comes; never NULL. */
    void (*output)(const struct bl_tool_call *call, struct bl_text bytes);
    /* An event of this call, told in the stream of its turn; never NULL. */
    void (*tell)(const struct bl_tool_call *call, struct bl_event *event);
};

/* In the call's arena. */
struct bl_tool_result {
    struct bl_text text; /* for the model; valid UTF-8 */
    bool is_error;
    const struct bl_list *images; /* struct bl_block, BL_BLOCK_IMAGE; for a model that takes them;
                                     NULL: none */
    struct bl_spent spent; /* by models that it had work: counts in the turn, however it ended; its
                              tokens are drawn from the budget already */
};

/* May a call run? */
enum bl_permit {
    BL_PERMIT_DENIED,
    BL_PERMIT_ALLOWED,
    BL_PERMIT_ASK,
};

struct bl_tools {
    void *context;
    const struct bl_tool_offer *offers;
    size_t offer_count;
    /* Before each call of the model: the offers may change now, and stay until the next. May wait,
     * in the scope of the turn. NULL: they never change. */
    void (*refresh)(void *context);
    /* May it run? Denied: with the reason, which the model is told. To be asked: with the question.
     * May wait, in the running fiber, whose scope is the call's. */
    enum bl_permit (*permit)(void *context, const struct bl_tool_call *call, char *ret_reason,
                             size_t reason_size);
    /* Asks whoever can be asked, and waits for the answer: allowed, or denied with the reason. When
     * it was stopped in that it is denied, and the engine looks at the scope. NULL: nobody is
     * there. */
    enum bl_permit (*ask)(void *context, const struct bl_tool_call *call, const char *question,
                          char *ret_reason, size_t reason_size);
    /* Runs it in the running fiber, whose scope is the call's. 0 with a result, also for one that
     * says that it failed. BL_ECANCELED or BL_ETIMEDOUT when the scope stopped: the result then
     * holds what it had printed and how it ended, and nothing of it runs any more. Other codes with
     * `error`: the runtime failed, and the turn is `error`. */
    int (*call)(void *context, const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                struct bl_error *error);
    /* The turn asks for nothing more, or was stopped: what its calls have left running in its scope
     * is ended, and has ended when this returns. `scope` is the turn's. May be NULL. */
    void (*settle)(void *context, struct bl_scope *scope);
};

/* A call that does not come from the model but from something that a call has started: a cell. */
struct bl_nested_call {
    const char *id; /* unique in its turn: the cell's, and its number */
    const char *name;
    struct bl_text input_text; /* an object */
    struct bl_arena *arena;    /* for the result */
};

enum bl_nested_end {
    BL_NESTED_OK,         /* it has a result, which may be an error's */
    BL_NESTED_INVALID,    /* no such tool, or its input does not fit; the result's text says what */
    BL_NESTED_DENIED,     /* the text is the reason */
    BL_NESTED_STEP_LIMIT, /* it would have been one more than the turn may have */
    BL_NESTED_STOPPED,
    BL_NESTED_FAILED, /* the runtime failed */
};

struct bl_engine;

/* Runs it as a call by the model is run, in the running fiber and its scope: the input is checked,
 * permission asked, the step counted, limits and budget kept, and all of it told and journaled with
 * its result (tool_requested, tool_started, tool_ended). Between turns there are no steps to count,
 * and what is told belongs to no turn, and is in the store when this returns. The same of one that
 * outlives its turn: from the claim on, or the end by other means, it is of none. Any number of
 * them may run at once, beside the model's own. The result's text is in each case the one that is
 * journaled. */
enum bl_nested_end bl_nested_run(struct bl_engine *engine, const struct bl_nested_call *nested,
                                 struct bl_tool_result *ret_result);

/* ---- Events ---------------------------------------------------------------------------------- */

#define BL_EVENT_TABLE(X)                                                                          \
    X(BL_EVENT_RUN_STARTED, "run_started")                                                         \
    X(BL_EVENT_TURN_STARTED, "turn_started")                                                       \
    X(BL_EVENT_TEXT_DELTA, "text_delta")                                                           \
    X(BL_EVENT_THINKING_DELTA, "thinking_delta")                                                   \
    X(BL_EVENT_TOOL_REQUESTED, "tool_requested")                                                   \
    X(BL_EVENT_PERMISSION_ASKED, "permission_asked")                                               \
    X(BL_EVENT_PERMISSION_ANSWERED, "permission_answered")                                         \
    X(BL_EVENT_TOOL_STARTED, "tool_started")                                                       \
    X(BL_EVENT_TOOL_OUTPUT, "tool_output")                                                         \
    X(BL_EVENT_TOOL_ENDED, "tool_ended")                                                           \
    X(BL_EVENT_SUBAGENT_STARTED, "subagent_started")                                               \
    X(BL_EVENT_SUBAGENT_ENDED, "subagent_ended")                                                   \
    X(BL_EVENT_CELL_CREATED, "cell_created")                                                       \
    X(BL_EVENT_CELL_YIELDED, "cell_yielded")                                                       \
    X(BL_EVENT_CELL_ENDED, "cell_ended")                                                           \
    X(BL_EVENT_CELL_SETTLED, "cell_settled")                                                       \
    X(BL_EVENT_MESSAGE_INJECTED, "message_injected")                                               \
    X(BL_EVENT_COMPACTED, "compacted")                                                             \
    X(BL_EVENT_RETRY, "retry")                                                                     \
    X(BL_EVENT_USAGE, "usage")                                                                     \
    X(BL_EVENT_CANCEL_REQUESTED, "cancel_requested")                                               \
    X(BL_EVENT_RECEIPT, "receipt")                                                                 \
    X(BL_EVENT_TURN_ENDED, "turn_ended")                                                           \
    X(BL_EVENT_RUN_ENDED, "run_ended")                                                             \
    X(BL_EVENT_WARNING, "warning")                                                                 \
    X(BL_EVENT_ERROR, "error")

enum bl_event_type {
#define BL_EVENT_TYPE(name, text) name,
    BL_EVENT_TABLE(BL_EVENT_TYPE)
#undef BL_EVENT_TYPE
};

const char *bl_event_type_name(enum bl_event_type type);

/* One line of the journal. What does not belong to its type is empty. Lives as long as the call. */
struct bl_event {
    enum bl_event_type type;
    uint64_t seq; /* from 1 for each agent of a run, without gaps */
    int64_t wall_ns;
    const char *run;
    const char *session;
    const char *agent;   /* NULL: the root */
    const char *turn;    /* NULL: of the run */
    struct bl_text id;   /* of the call; message_injected: of the message */
    struct bl_text name; /* of the tool, the persona; run_ended: the stop reason */
    struct bl_text text; /* delta, output, prompt, reason, message; tool_ended: the result, which is
                            told, and written of a nested call alone: no message holds that;
                            cell_ended, cell_settled: its output, where no result holds that */
    struct bl_text json; /* the receipt, the turn result, the input of a call */
    const struct bl_tool_call *call; /* tool_started */
    bool nested;                     /* tool_*, permission_*: of a nested call */
    const char *status;              /* tool_ended, subagent_ended; permission_answered: allowed,
                                        denied, cancelled; message_injected: turn, prompt;
                                        cell_ended, cell_settled: completed, failed, terminated,
                                        missing, never_started, unknown */
    const char *child;               /* subagent_started, subagent_ended: its id */
    const char *child_session;
    const char *cell;             /* cell_*: its id */
    uint64_t generation;          /* cell_yielded, cell_ended, cell_settled; 0: none */
    uint64_t ms;                  /* tool_ended */
    const struct bl_piece *piece; /* retry */
    const struct bl_usage *usage;
    const struct bl_spent *spent;
    uint64_t count; /* compacted: turns_dropped */
    const struct bl_error *error;
    const struct bl_model *model; /* run_started */
};

/* One JSON object: docs/schemas/event.json. */
extern const struct bl_record bl_event_record;
void bl_event_write(struct bl_json_writer *writer, const struct bl_event *event);
/* The number of an event of any type, a newer one too; 0: it has none. */
uint64_t bl_event_seq(struct bl_arena *arena, const struct bl_json *event);

/* Only consumes. May wait, which holds the turn up; must not fail it. */
struct bl_listener {
    void (*event)(void *context, const struct bl_event *event);
    void *context;
};

/* ---- The store ------------------------------------------------------------------------------- */

/* The beginning of a turn, on record before anything is sent. */
struct bl_attempt {
    struct bl_text turn_id;
    struct bl_text prompt;
    int64_t started_wall_ns;
};

/* The end of one: committed or rejected. Nothing in it is kept by reference. */
struct bl_settlement {
    struct bl_text turn_id;
    bool interrupted;        /* of a commit: by `keep` */
    struct bl_text messages; /* of a commit: JSON array */
    struct bl_text result;   /* the turn result: JSON object */
    struct bl_usage usage;   /* of a commit */
    struct bl_spent spent;
    uint64_t turns_dropped; /* of a commit: so many of the oldest leave the context */
    struct bl_text summary; /* of those, as messages; empty: as it was before */
    struct bl_text receipt; /* JSON object; empty: none */
    char receipt_id[BL_ID_SIZE];
    int64_t ended_wall_ns;
    struct bl_text events; /* lines of JSON, each ends in LF; the turn_ended event is the last */
};

/* A session that is held for writing. Each call waits for its answer in the running fiber, shielded
 * by the engine. */
struct bl_turn_store {
    void *context;
    /* Durable against the end of the process. */
    int (*begin)(void *context, const struct bl_attempt *attempt, struct bl_error *error);
    /* Turn, counters, compaction, receipt, events and the attempt's end in one transaction. 0: it
     * is durable, against power failure too. BL_EUNKNOWN: cannot say (error code commit_unknown).
     * Any other code: refused, and made void. */
    int (*commit)(void *context, const struct bl_settlement *settlement, struct bl_error *error);
    /* Ends the attempt, beside history. */
    int (*reject)(void *context, const struct bl_settlement *settlement, struct bl_error *error);
    /* Adds to the journal what belongs to no turn; `receipt` as in a settlement. */
    int (*note)(void *context, struct bl_text events, const char *receipt_id,
                struct bl_text receipt, struct bl_error *error);
    /* A compaction that is no turn's: turns_dropped, summary, usage, spent and events of the
     * settlement, in one transaction; durable as a commit. */
    int (*compact)(void *context, const struct bl_settlement *settlement, struct bl_error *error);
};

/* ---- Messages that come while a turn runs ---------------------------------------------------- */

/* They wait here until the turn takes them, after the results of an answer's calls; what no turn
 * has taken becomes the next prompt. A turn that leaves no trace gives back what it took. So each
 * is delivered once or not at all, and nobody wonders which. Embedded by its owner, and used by
 * fibers of one loop. */
struct bl_inbox {
    struct bl_list waiting; /* struct bl_inbox_message, oldest first */
    bool closed;            /* what comes now finds nobody */
};

struct bl_inbox_message {
    struct bl_list link;
    char id[BL_ID_SIZE];
    struct bl_text text; /* behind it, in the same memory */
};

void bl_inbox_init(struct bl_inbox *inbox);
void bl_inbox_done(struct bl_inbox *inbox); /* frees what was not delivered */
/* BL_ECLOSED: there will be no turn that could take it. */
int bl_inbox_put(struct bl_inbox *inbox, struct bl_text text, char ret_id[BL_ID_SIZE]);
/* The oldest that waits, the caller's to free with bl_free; NULL: none. */
struct bl_inbox_message *bl_inbox_take(struct bl_inbox *inbox);
/* All that wait as one text, a blank line between them, in the arena; they are gone from here.
 * Empty: none. */
struct bl_text bl_inbox_take_all(struct bl_inbox *inbox, struct bl_arena *arena);

/* ---- One turn -------------------------------------------------------------------------------- */

#define BL_TURN_END_TABLE(X)                                                                       \
    X(BL_TURN_COMPLETED, "completed")                                                              \
    X(BL_TURN_MAX_TURNS, "max_turns_reached")                                                      \
    X(BL_TURN_MAX_BUDGET, "max_budget_reached")                                                    \
    X(BL_TURN_MAX_STEPS, "max_steps_reached")                                                      \
    X(BL_TURN_CANCELLED, "cancelled")                                                              \
    X(BL_TURN_TIMEOUT, "timeout")                                                                  \
    X(BL_TURN_ERROR, "error")

/* Why a turn ended: the closed set of `stop_reason`. */
enum bl_turn_end {
#define BL_TURN_END(name, text) name,
    BL_TURN_END_TABLE(BL_TURN_END)
#undef BL_TURN_END
};

extern const struct bl_names bl_turn_ends;
const char *bl_turn_end_name(enum bl_turn_end end);

struct bl_turn_limits {
    uint64_t max_session_turns; /* BL_UNLIMITED: none; as the next two */
    uint64_t max_budget_tokens;
    uint64_t max_steps;
    bool synthesize;              /* at max_steps one more call, without tools, writes it up */
    uint64_t compact_after_turns; /* so many stay in the context */
    uint32_t structured_retry_limit;
    bool keep; /* a turn that is cancelled or times out is committed as it stands */
};

void bl_turn_limits_init(struct bl_turn_limits *limits); /* the defaults */

/* What a turn runs on; outlives it. */
struct bl_engine {
    const struct bl_model *model;
    const struct bl_tools *tools;       /* NULL: none */
    const struct bl_turn_store *store;  /* NULL: nothing is durable */
    const struct bl_listener *listener; /* NULL: nobody listens */
    const struct bl_clock *clock;
    void (*make_id)(char out[BL_ID_SIZE], const char *prefix); /* chance; NULL: bl_id_make */
    struct bl_text system;
    struct bl_text schema_text; /* empty: any answer */
    const struct bl_json_schema *schema;
    struct bl_turn_limits limits;
    const char *const *matched_commands; /* by routing; end in NULL; may be NULL */
    const char *const *matched_tools;
    struct bl_inbox *inbox;         /* NULL: nobody can say anything in between */
    struct bl_budget *budget_above; /* of the agent above; NULL: this one is the root */
    struct bl_journal *journal;     /* of the loop under way, set by bl_run; NULL: none is */
    struct bl_journal *standing;    /* outlives the loops: what is told between them goes there, and
                                       so does what is told in one that was given no other; NULL:
                                       nobody is told */
    void *turn;                     /* under way; the room's own */
};

/* Tells of something that belongs to no call of a turn, such as a cell: in the stream of the turn
 * under way, to be written with it; between turns it is in the store when this returns. May wait.
 */
void bl_engine_tell(struct bl_engine *engine, struct bl_event *event);

/* The stream of events of one run: counts them, tells the listener, and holds back what is to be
 * written with the next transaction. Embedded by its owner. */
struct bl_journal {
    const struct bl_engine *engine;
    const char *run;
    const char *session;
    const char *agent; /* NULL: the root */
    const char *turn;  /* under way; NULL: none */
    uint64_t seq;
    bool receipt_told;
    bool receipt_stored;
    bool sealed;              /* it is not known whether a commit took place: nothing is added */
    struct bl_buffer pending; /* lines */
    struct bl_lock writing;   /* held while numbers are taken that may be given back */
    uint32_t waiting;         /* fibers that are in the middle of something with it */
};

void bl_journal_init(struct bl_journal *journal, const struct bl_engine *engine, const char *run,
                     const char *session);
void bl_journal_done(struct bl_journal *journal);
/* Numbers and stamps it, and tells it on. May wait, whatever stops the caller: for a transaction of
 * this journal that is under way, and for the listener. */
void bl_journal_emit(struct bl_journal *journal, struct bl_event *event);
/* Adds what is held back to the store now, beside every turn, shielded; what is told meanwhile is
 * not in it. 0 also when there is nothing, or no store. Refused: it is held back as before. */
int bl_journal_note(struct bl_journal *journal, struct bl_error *error);

struct bl_step {
    struct bl_list link;
    struct bl_text id;
    struct bl_text tool;
    const char *status; /* one of bl_step_statuses */
    uint64_t ms;
};

extern const struct bl_names bl_step_statuses; /* ok, error, denied, invalid, stopped */

struct bl_denial {
    struct bl_list link;
    struct bl_text tool;
    struct bl_text reason;
};

/* What came of a turn. All texts are in the arena that it was made in. */
struct bl_turn_result {
    struct bl_list link;
    char turn_id[BL_ID_SIZE];
    enum bl_turn_end end;
    bool cancel_observed;
    bool interrupted;
    bool truncated;
    struct bl_text prompt;
    struct bl_text output;
    struct bl_list steps;
    struct bl_list denials;
    struct bl_usage usage;
    struct bl_spent spent;
    int64_t started_wall_ns;
    uint64_t duration_ms;
    struct bl_text receipt; /* JSON; empty: none */
    bool failed;            /* `error` says why */
    struct bl_error error;
    const char *const *matched_commands; /* by routing, as the next */
    size_t matched_command_count;
    const char *const *matched_tools;
    size_t matched_tool_count;
    /* All of it as one JSON object, made once: what is stored, told and answered is the same. */
    struct bl_text json;
};

extern const struct bl_record bl_turn_result_record;

struct bl_turn_options {
    struct bl_scope *scope;     /* the turn's is below it */
    struct bl_receipt *receipt; /* open on that scope, or above it */
    struct bl_journal *journal;
    struct bl_text prompt;
    const struct bl_list *images; /* struct bl_block, BL_BLOCK_IMAGE; NULL: none */
};

/* Takes one prompt to its end, in the running fiber. The result is made in `arena`. */
void bl_turn_run(struct bl_engine *engine, struct bl_session *session,
                 const struct bl_turn_options *options, struct bl_arena *arena,
                 struct bl_turn_result *ret_result);

/* Makes room in a session's context by hand: all turns but the newest `keep` are summed up by a
 * call of the model, in the running fiber below the scope of `receipt`, which must be open, and
 * leave the context in one commit that is claimed like a turn's. 0 with the number of those that
 * left; BL_ECANCELED or BL_ETIMEDOUT: stopped, and nothing has changed; other codes: the same, and
 * `error` says why. What the call cost is in `ret_spent`, in each case. Afterwards the scope is
 * claimed or stopped; a stop and its receipt are told and written down. */
int bl_session_compact(struct bl_engine *engine, struct bl_session *session,
                       struct bl_receipt *receipt, struct bl_journal *journal, uint64_t keep,
                       uint64_t *ret_dropped, struct bl_spent *ret_spent, struct bl_error *error);

/* ---- The loop -------------------------------------------------------------------------------- */

struct bl_run_options {
    const char *run_id;
    struct bl_journal *journal; /* of a conversation that outlives this loop, which then tells
                                   neither of the run's start nor of its end; NULL: the engine's
                                   standing one, or its own */
    const char *agent;          /* NULL: the root */
    struct bl_text prompt;
    const struct bl_list *images; /* struct bl_block, BL_BLOCK_IMAGE, that go with the first prompt;
                                     NULL: none */
    bool continues;               /* `continuation` is given: more than one turn */
    struct bl_text continuation;
    uint64_t max_turns; /* of this loop */
    bool timed;
    int64_t timeout_ns; /* zero and less: one `timeout` result without a call */
    uint64_t from_ns;   /* since when that counts; 0: since the call */
    /* Results of this run that are recorded already, JSON each, oldest first: not run again. */
    const struct bl_text *recorded;
    size_t recorded_count;
    const struct bl_text *warnings; /* told at the start, as events */
    size_t warning_count;
    /* When the last turn has ended and whether it was stopped is settled, before the end is told:
     * ends what outlives turns and ends with this loop. May be NULL. */
    void (*closing)(void *context);
    void *closing_context;
};

struct bl_run_result {
    bool undelivered;     /* messages wait in the inbox that no turn took */
    struct bl_list turns; /* struct bl_turn_result, the recorded ones first (json, end, usage) */
    uint64_t turns_completed;
    enum bl_turn_end end; /* of the last */
    bool cancel_observed;
    struct bl_usage usage; /* of these turns */
    struct bl_spent spent;
    struct bl_stop stop;          /* of the run's scope; reason BL_STOP_NONE: not stopped */
    struct bl_text receipt;       /* JSON; empty: none */
    struct bl_text receipt_line;  /* for people; empty: none */
    uint32_t survivors;           /* of the receipt; not 0: the stop has failed */
    const struct bl_error *error; /* of the last turn; NULL: none */
};

/* Prompt, then continuations, under one deadline, below the scope of `receipt`, which must be open.
 * Ends at the first result that is not `completed`. Messages that no turn took are the next prompt,
 * in place of the continuation, as long as max_turns allows for another turn. */
void bl_run(struct bl_engine *engine, struct bl_session *session, struct bl_receipt *receipt,
            const struct bl_run_options *options, struct bl_arena *arena,
            struct bl_run_result *ret_result);
/* 0, 1, 3, 124, 130 or 143; 1 after a stop that is not proved, however the run ended. */
int bl_run_exit_code(const struct bl_run_result *result);

BL_PUBLIC_END

#endif
