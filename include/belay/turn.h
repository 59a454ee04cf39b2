/* turn: the engine. Runs one prompt to its end, as one transaction over a session.
 *
 * This is the core of the product. It does no I/O of its own: model, tools, store, clock and
 * randomness come as tables of functions, which the rooms above fill. So a whole run can be played
 * on virtual time from a seed.
 *
 * Promises: a turn commits exactly once or leaves no trace. Before it has claimed its scope,
 * nothing in the session changes; after that, no stop reaches it. Memory changes only after the
 * store has confirmed that the turn is durable. Every result but `completed` (and what `keep`
 * commits) leaves messages, usage and denials as they were, byte for byte. Spending is never
 * hidden.
 *
 * All functions belong to fibers of one loop. */
#ifndef BELAY_TURN_H
#define BELAY_TURN_H

#include <belay/fiber.h>
#include <belay/record.h>

BL_PUBLIC_BEGIN

#define BL_UNLIMITED UINT64_MAX
/* Of a prompt and of an injected message: no model accepts a larger request. */
#define BL_PROMPT_SIZE_MAX ((size_t)16 * 1024 * 1024)
/* Of one answer with its thinking and its tool calls. */
#define BL_ANSWER_SIZE_MAX ((size_t)8 * 1024 * 1024)
/* Time limit for one answer of the store, whatever the deadline. */
#define BL_STORE_NS_MAX (5 * BL_NS_PER_S)

/* ---- Conversation ---------------------------------------------------------------------------- */

enum bl_role {
    BL_ROLE_USER,
    BL_ROLE_ASSISTANT,
};

enum bl_block_type {
    BL_BLOCK_TEXT,
    BL_BLOCK_THINKING, /* `opaque` goes back to its provider unchanged */
    BL_BLOCK_CALL,     /* a tool call: id, name, input */
    BL_BLOCK_RESULT,   /* the result of the call with that id: text, is_error */
    BL_BLOCK_IMAGE,    /* in a user's message: text is base64, name the media type ("image/png");
                          images of a call's result follow all results and have the id of the
                          call */
};

/* A part of a message. In the arena of its turn, as is all that it points to. */
struct bl_block {
    struct bl_list link;
    enum bl_block_type type;
    bool is_error;
    bool is_invalid; /* a call that is not run */
    struct bl_text text;
    struct bl_text id;
    struct bl_text name;
    struct bl_text input;   /* of a call: one JSON object; of an invalid call, the input as
                               received */
    struct bl_text invalid; /* of an invalid call: the reason; otherwise empty */
    struct bl_text opaque;  /* one JSON value, or empty */
};

struct bl_message {
    struct bl_list link;
    enum bl_role role;
    struct bl_list blocks;
};

/* Appends a message to `messages`, a list of struct bl_message. */
struct bl_message *bl_message_add(struct bl_arena *arena, struct bl_list *messages,
                                  enum bl_role role);
struct bl_block *bl_block_add(struct bl_arena *arena, struct bl_message *message,
                              enum bl_block_type type);
extern const struct bl_record bl_message_record; /* struct bl_message, and its blocks */
/* Writes one JSON array: [{"role":"user","content":[{"type":"text","text":"…"}, …]}, …]. */
void bl_messages_write(struct bl_json_writer *writer, const struct bl_list *messages);
/* Reads the output of bl_messages_write. BL_EPARSE: not such an array; nothing is appended. */
int bl_messages_read(struct bl_arena *arena, struct bl_text json, struct bl_list *messages);

/* Limits: size of one image in base64, and without; images in one message. */
#define BL_IMAGE_SIZE_MAX  ((size_t)5 * 1024 * 1024)
#define BL_IMAGE_BYTES_MAX (BL_IMAGE_SIZE_MAX / 4 * 3)
#define BL_IMAGES_MAX      20u
/* Assumed cost of an image whose tokens nobody has counted. */
#define BL_IMAGE_TOKENS 1600u

/* Returns the media type that the first bytes of a file show: "image/png"; empty if it is not an
 * image that models accept. */
struct bl_text bl_image_type(struct bl_text bytes);
/* Returns in a few words why no model accepts this image: its type, its size, or invalid base64.
 * NULL if it is fine. */
const char *bl_image_problem(const struct bl_block *image);
/* Returns the text that replaces an image, in the arena: "[image image/png, 12 KiB: why]"; `why`
 * may be NULL. */
struct bl_text bl_image_note(struct bl_arena *arena, const struct bl_block *image, const char *why);

/* ---- Usage ----------------------------------------------------------------------------------- */

struct bl_usage {
    uint64_t input_tokens;  /* cached input included */
    uint64_t output_tokens; /* reasoning included */
};

/* All spending, that of rejected turns included, because the provider bills it. */
struct bl_spent {
    struct bl_usage usage;
    bool cost_unknown; /* for some part of it: written as null */
    double cost_usd;
    double cost_usd_max; /* with the full reservation of calls that were cut */
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

/* A committed turn in the context of the model. On the heap, owned by its session. */
struct bl_turn_record {
    struct bl_list link;
    struct bl_arena arena;
    struct bl_list messages;
};

/* The context that a model sees, and the session's counters. Embedded by its owner. A store fills
 * it when the session is opened; the engine changes it when a commit is durable. */
struct bl_session {
    char id[72];
    struct bl_list turns;           /* struct bl_turn_record, oldest first */
    uint64_t turns_in_context;      /* length of that list */
    uint64_t turns_total;           /* with compacted turns */
    struct bl_turn_record *summary; /* of the compacted turns; NULL if none */
    struct bl_usage usage;          /* committed */
    bool unknown;                   /* in-doubt commit: open the session again to find out */
};

void bl_session_init(struct bl_session *session, const char *id);
void bl_session_done(struct bl_session *session);
/* Creates an empty record that belongs to no session yet. */
struct bl_turn_record *bl_turn_record_new(void);
void bl_turn_record_free(struct bl_turn_record *record); /* NULL is fine */
/* Appends the record, as the newest of the session, and takes ownership. The caller updates the
 * counters. */
void bl_session_add(struct bl_session *session, struct bl_turn_record *record);
/* Drops the oldest `count` turns of the context. `summary` (ownership passes; NULL if none was
 * made) replaces them and the previous summary. */
void bl_session_drop(struct bl_session *session, uint64_t count, struct bl_turn_record *summary);
/* Checks for [a-z0-9-]{1,64}; otherwise BL_EINVAL, kind usage. */
extern const struct bl_form bl_session_id_form;
int bl_session_id_check(const char *id, struct bl_error *error);

/* ---- The model ------------------------------------------------------------------------------- */

/* A tool that the model can call. `schema` is a JSON Schema object as text; `compiled` is the same
 * for checking inputs (NULL: inputs are not checked). */
struct bl_tool_offer {
    const char *name;
    const char *description;
    struct bl_text schema;
    const struct bl_json_schema *compiled;
    bool parallel; /* its calls may run beside others of that kind */
};

struct bl_request {
    struct bl_text system;
    const struct bl_session *session;     /* the conversation before this turn */
    uint64_t turns_skipped;               /* number of the oldest turns that are not sent */
    const struct bl_turn_record *summary; /* replaces the turns that are not sent; NULL if none */
    const struct bl_list *messages;       /* of the turn so far: struct bl_message */
    const struct bl_tool_offer *tools;
    size_t tool_count;
    bool tools_forbidden;  /* they stay in the list, with the choice "none" */
    struct bl_text schema; /* the answer must be JSON that fits; empty: any text */
};

/* Returns the newest text of a user in the request: of this turn, or else of an earlier one. */
struct bl_text bl_request_newest_text(const struct bl_request *request);

enum bl_answer_end {
    BL_ANSWER_END,
    BL_ANSWER_TOOL_CALLS,
    BL_ANSWER_MAX_TOKENS,
    BL_ANSWER_STOP_SEQUENCE,
    BL_ANSWER_REFUSAL,
};

/* A piece of a streamed answer. The order for a call is begin, deltas, end. A usage piece is a
 * snapshot of this call: it replaces the previous one. */
struct bl_piece {
    enum {
        BL_PIECE_TEXT,       /* text, never empty */
        BL_PIECE_THINKING,   /* text; opaque on the last piece of a block */
        BL_PIECE_CALL_BEGIN, /* index, id, name */
        BL_PIECE_CALL_DELTA, /* index, text: more of the input */
        BL_PIECE_CALL_END,   /* index; text: the whole input, or with `invalid` the input as
                                received */
        BL_PIECE_USAGE,
        BL_PIECE_RETRY, /* this call starts over; its pieces so far are void */
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
    bool cost_known; /* cost_usd is the cost; otherwise the model's cost_usd computes it */
    double cost_usd;
    enum bl_answer_end end;
    struct {
        uint32_t attempt; /* from 1: the first retry */
        uint32_t of;
        uint64_t wait_ms;
        char code[24];
        int status; /* HTTP status; 0 if none */
    } retry;        /* reported before the wait */
};

/* The phases of a model call and their description for people: a closed set. `stopped_during` of a
 * turn result has the phase behind "model: ". */
#define BL_MODEL_WAIT_TABLE(X)                                                                     \
    X(BL_MODEL_PREPARING, "preparing", "preparing the request")                                    \
    X(BL_MODEL_BACKOFF, "between attempts", "waiting for the next attempt")                        \
    X(BL_MODEL_DNS, "in dns", "looking up the provider's address")                                 \
    X(BL_MODEL_CONNECT, "in connect", "connecting to the provider")                                \
    X(BL_MODEL_PROXY, "in proxy", "connecting through the proxy")                                  \
    X(BL_MODEL_TLS, "in tls", "waiting for the TLS handshake")                                     \
    X(BL_MODEL_UPLOAD, "in upload", "sending the request")                                         \
    X(BL_MODEL_HEADERS, "waiting for response headers", "waiting for response headers")            \
    X(BL_MODEL_FIRST_TOKEN, "waiting for the first token", "waiting for the first token")          \
    X(BL_MODEL_STREAMING, "streaming", "receiving the answer")

enum bl_model_wait {
#define BL_MODEL_WAIT(name, text, words) name,
    BL_MODEL_WAIT_TABLE(BL_MODEL_WAIT)
#undef BL_MODEL_WAIT
};

/* Receives the pieces of an answer. `take` copies what it keeps. It may wait (for a slow listener).
 * The model immediately returns any code other than 0 that `take` returns. */
struct bl_sink {
    int (*take)(struct bl_sink *sink, const struct bl_piece *piece);
    char detail[120];        /* set by the model when it returns: "stream cut after 812 bytes" */
    enum bl_model_wait wait; /* the phase in which a stop found the call, set likewise */
    /* The most that the attempt in flight may cost if it is cut, in USD; 0 if it owes nothing that
     * is known. Set by the model, also before it reports a retry. */
    double reserved_usd;
    /* Nothing of the attempt in flight was sent, or the provider bills nothing for it: it used no
     * tokens, unless it reported a usage. Set by the model. */
    bool unbilled;
    bool abandoned; /* some part of the call could not be ended: its fate is unknown */
};

struct bl_model {
    const char *provider;
    const char *name;
    void *context;
    uint64_t input_tokens_max; /* limit of a request, with room for the answer subtracted; 0 if
                                  unknown */
    bool takes_images;
    /* Estimates the input tokens of the request; never less for a longer text. */
    uint64_t (*estimate)(void *context, const struct bl_request *request);
    /* Makes one call, in the running fiber and its scope. Returns 0 after BL_PIECE_END;
     * BL_ECANCELED or BL_ETIMEDOUT if the scope stopped; BL_EBUDGET if the cost limit does not
     * cover the call, which was not sent; otherwise another code with `error` filled (kind provider
     * or provider_timeout; name context_overflow: fewer turns may help), and the call had no side
     * effect. */
    int (*call)(void *context, const struct bl_request *request, struct bl_sink *sink,
                struct bl_error *error);
    /* Returns the cost of that usage in USD; negative if unknown. NULL: unknown. */
    double (*cost_usd)(void *context, const struct bl_usage *usage);
};

/* ---- A budget of tokens ---------------------------------------------------------------------- */

/* The token budget of an agent, and the one above it: tokens are drawn from all budgets up to the
 * root. A call of the model reserves its estimated tokens before it is sent. Embedded by its
 * owner. */
struct bl_budget {
    uint64_t limit; /* BL_UNLIMITED: none of its own */
    uint64_t used;
    uint64_t reserved;       /* by calls in flight */
    struct bl_budget *above; /* NULL: this is the root's */
};

/* Returns false and reserves nothing if some budget on the path would be exceeded. Reaching the
 * limit exactly is fine. */
bool bl_budget_reserve(struct bl_budget *budget, uint64_t tokens);
/* Ends a call: replaces its reservation by `used`. */
void bl_budget_settle(struct bl_budget *budget, uint64_t reserved, uint64_t used);
/* Returns true if more is used than some limit on the path allows. */
bool bl_budget_passed(const struct bl_budget *budget);

/* ---- Tools ----------------------------------------------------------------------------------- */

struct bl_event;

struct bl_tool_call {
    const char *id;
    const char *name;
    const char *turn;            /* id of its turn; NULL for a call between turns */
    struct bl_scope *turn_scope; /* scope of its turn, which outlives the call; NULL for a call
                                    between turns, and for a nested call, which may outlive its
                                    turn */
    struct bl_text input_text;
    const struct bl_json *input; /* an object */
    struct bl_scope *scope;      /* of this call alone: a stop of it stops nothing else */
    struct bl_arena *arena;      /* for results */
    struct bl_budget *budget;    /* of its turn: models that the call runs draw from it */
    bool fails;                  /* BL_PERMIT_FAILS: it must report the failure, and change
                                    nothing */
    /* Reports output as it arrives; never NULL. */
    void (*output)(const struct bl_tool_call *call, struct bl_text bytes);
    /* Emits an event of this call in the stream of its turn; never NULL. */
    void (*tell)(const struct bl_tool_call *call, struct bl_event *event);
};

/* In the call's arena. */
struct bl_tool_result {
    struct bl_text text; /* for the model; valid UTF-8 */
    bool is_error;
    const struct bl_list *images; /* struct bl_block, BL_BLOCK_IMAGE, for a model that accepts
                                     images; NULL if none */
    struct bl_spent spent; /* by models that the call ran: counts in the turn, however the call
                              ended; the tokens are drawn from the budget already */
    uint64_t asked_ns;     /* part of the call's time that was spent on questions about calls that
                              it made */
};

/* Whether a call may run. */
enum bl_permit {
    BL_PERMIT_DENIED,
    BL_PERMIT_ALLOWED,
    BL_PERMIT_ASK,
    BL_PERMIT_FAILS, /* would need approval and fails whatever the answer: it runs with `fails` set,
                        without a question */
};

struct bl_tools {
    void *context;
    const struct bl_tool_offer *offers;
    size_t offer_count;
    /* Called before each call of the model. The offers may change here, and stay until the next
     * call. May wait, in the scope of the turn. NULL: the offers never change. */
    void (*refresh)(void *context);
    /* Decides whether the call may run. Denied: `ret_reason` holds the reason, for the model. Ask:
     * it holds the question. May wait, in the running fiber, whose scope is the call's. */
    enum bl_permit (*permit)(void *context, const struct bl_tool_call *call, char *ret_reason,
                             size_t reason_size);
    /* Asks the user and waits for the answer: allowed, or denied with the reason. If stopped during
     * the wait, returns denied; the engine checks the scope. NULL: there is no user to ask. */
    enum bl_permit (*ask)(void *context, const struct bl_tool_call *call, const char *question,
                          char *ret_reason, size_t reason_size);
    /* Returns the rules that would allow a refused call, in the call's arena, NULL-terminated. NULL
     * if unknown. */
    const char *const *(*rules)(void *context, const struct bl_tool_call *call);
    /* Runs the call in the running fiber, whose scope is the call's. Returns 0 with a result, which
     * may report a failure of the tool. BL_ECANCELED or BL_ETIMEDOUT if the scope stopped: the
     * result then holds the output so far and how the tool ended, and it does not run any more.
     * Other codes with `error`: the runtime failed, and the turn ends as `error`. */
    int (*call)(void *context, const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                struct bl_error *error);
    /* Called when the turn needs nothing more, or was stopped: ends everything that its calls left
     * running in its scope, and returns when it has ended. `scope` is the turn's. May be NULL. */
    void (*settle)(void *context, struct bl_scope *scope);
};

/* A call that a running cell makes, not the model. */
struct bl_nested_call {
    const char *id; /* unique in its turn: the cell's id and a number */
    const char *name;
    struct bl_text input_text; /* an object */
    struct bl_arena *arena;    /* for the result */
};

enum bl_nested_end {
    BL_NESTED_OK,         /* has a result, which may be an error */
    BL_NESTED_INVALID,    /* unknown tool or invalid input; the result's text says which */
    BL_NESTED_DENIED,     /* the text is the reason */
    BL_NESTED_STEP_LIMIT, /* the turn's step limit is reached */
    BL_NESTED_STOPPED,
    BL_NESTED_FAILED, /* the runtime failed */
};

struct bl_engine;

/* Runs a nested call like a call of the model, in the running fiber and its scope: checks the
 * input, asks for permission, counts the step, keeps limits and budget, and emits and journals all
 * of it with the result (tool_requested, tool_started, tool_ended). Between turns no steps are
 * counted, and the events belong to no turn and are in the store when this returns. The same holds
 * for a call that outlives its turn, from the turn's claim or other end on. Any number of nested
 * calls may run at once, beside the model's own. The result's text is always the one that is
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
    X(BL_EVENT_MESSAGE_UNDELIVERED, "message_undelivered")                                         \
    X(BL_EVENT_COMPACTED, "compacted")                                                             \
    X(BL_EVENT_RETRY, "retry")                                                                     \
    X(BL_EVENT_USAGE, "usage")                                                                     \
    X(BL_EVENT_FINISH_REQUESTED, "finish_requested")                                               \
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

/* One line of the journal. Members that do not belong to its type are empty. Lives as long as the
 * call. */
struct bl_event {
    enum bl_event_type type;
    uint64_t seq; /* from 1 for each agent of a run, without gaps */
    int64_t wall_ns;
    const char *run;
    const char *session;
    const char *agent;     /* NULL: the root */
    const char *turn;      /* NULL for an event of the run */
    struct bl_text id;     /* of the call; message_*: of the message */
    struct bl_text name;   /* of the tool, the persona; run_ended: the stop reason */
    struct bl_text text;   /* delta, output, prompt, reason, message; tool_ended: the result, for
                            listeners; it is stored only for a nested call, because no message holds
                            that; cell_ended, cell_settled: its output, if no result holds it */
    struct bl_text json;   /* the receipt, the turn result, the input of a call */
    struct bl_text stored; /* turn_ended: what the store gets instead of json; empty: json itself */
    uint64_t prompt_bytes; /* in a store, of a prompt that is cut: its full length; else 0 */
    const struct bl_tool_call *call; /* tool_started */
    bool nested;                     /* tool_*, permission_*: of a nested call */
    const char *status;              /* tool_ended, subagent_ended; permission_answered: allowed,
                                        denied, cancelled; message_injected: turn, prompt;
                                        cell_ended, cell_settled: completed, failed, terminated,
                                        missing, never_started, unknown */
    const char *child;               /* subagent_started, subagent_ended: its id */
    const char *child_session;
    const char *cell;             /* cell_*: its id */
    uint64_t generation;          /* cell_yielded, cell_ended, cell_settled; 0 if none */
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
/* Reads a stored event into the arena. Members that do not fit are left empty, and so are all
 * members of an unknown type. Objects that an event only points to (call, piece, model) are not
 * read. */
void bl_event_take(struct bl_arena *arena, const struct bl_json *value, struct bl_event *ret_event);
/* Returns the number of an event of any type, unknown ones included; 0 if it has none. */
uint64_t bl_event_seq(struct bl_arena *arena, const struct bl_json *event);

/* Receives events. May wait, which delays the turn; must not fail it. */
struct bl_listener {
    void (*event)(void *context, const struct bl_event *event);
    void *context;
};

/* ---- The store ------------------------------------------------------------------------------- */

/* The start of a turn, recorded before anything is sent. */
struct bl_attempt {
    struct bl_text turn_id;
    struct bl_text prompt;
    int64_t started_wall_ns;
};

/* The end of an attempt: committed or rejected. Nothing in it is kept by reference. */
struct bl_settlement {
    struct bl_text turn_id;
    bool interrupted;        /* of a commit by `keep` */
    struct bl_text messages; /* of a commit: JSON array */
    struct bl_text result;   /* the turn result: JSON object */
    struct bl_usage usage;   /* of a commit */
    struct bl_spent spent;
    uint64_t turns_dropped; /* of a commit: number of the oldest turns that leave the context */
    struct bl_text summary; /* of those turns, as messages; empty: unchanged */
    struct bl_text receipt; /* JSON object; empty: none */
    char receipt_id[BL_ID_SIZE];
    int64_t ended_wall_ns;
    struct bl_text events; /* JSON lines, each ends in LF; the turn_ended event is the last */
};

/* A session that is held for writing. Each function waits for its answer in the running fiber,
 * shielded by the engine. */
struct bl_turn_store {
    void *context;
    /* Records the attempt. Survives the end of the process. BL_ECANCELED, here and of a commit: a
     * stop of this work is recorded in the store, and the turn ends as cancelled. */
    int (*begin)(void *context, const struct bl_attempt *attempt, struct bl_error *error);
    /* Stores turn, counters, compaction, receipt, events and the attempt's end in one transaction.
     * Returns 0 if it is durable, even against power failure; BL_EUNKNOWN if the outcome is unknown
     * (error code commit_unknown). Any other code: refused and rolled back. */
    int (*commit)(void *context, const struct bl_settlement *settlement, struct bl_error *error);
    /* Ends the attempt without adding to the history. */
    int (*reject)(void *context, const struct bl_settlement *settlement, struct bl_error *error);
    /* Adds events that belong to no turn to the journal; `receipt` as in a settlement. */
    int (*note)(void *context, struct bl_text events, const char *receipt_id,
                struct bl_text receipt, struct bl_error *error);
    /* Stores a compaction outside of a turn: turns_dropped, summary, usage, spent and events of the
     * settlement, in one transaction; durable like a commit. */
    int (*compact)(void *context, const struct bl_settlement *settlement, struct bl_error *error);
    /* How long a turn that has claimed its commit waits for the answer, from now on. NULL:
     * BL_STORE_NS_MAX. */
    uint64_t (*answer_ns)(void *context);
};

/* The same, for any table. */
uint64_t bl_turn_store_answer_ns(const struct bl_turn_store *store);

/* ---- Messages that come while a turn runs ---------------------------------------------------- */

/* Messages wait here until the turn takes them, after the results of an answer's calls. Messages
 * that no turn has taken become the next prompt. A turn that leaves no trace gives back what it
 * took. So each message is delivered exactly once or not at all, and its state is known. Embedded
 * by its owner, and used by fibers of one loop. */
struct bl_inbox {
    struct bl_list waiting; /* struct bl_inbox_message, oldest first */
    bool closed;            /* no turn takes messages any more */
};

struct bl_inbox_message {
    struct bl_list link;
    char id[BL_ID_SIZE];
    struct bl_text text; /* behind the struct, in the same memory */
};

void bl_inbox_init(struct bl_inbox *inbox);
void bl_inbox_done(struct bl_inbox *inbox); /* frees what was not delivered */
/* BL_ECLOSED: no turn will take it. */
int bl_inbox_put(struct bl_inbox *inbox, struct bl_text text, char ret_id[BL_ID_SIZE]);
/* Takes out the oldest waiting message, which the caller frees with bl_free; NULL if none waits. */
struct bl_inbox_message *bl_inbox_take(struct bl_inbox *inbox);
/* Takes out all waiting messages as one text, separated by blank lines, in the arena. Empty if none
 * waits. */
struct bl_text bl_inbox_take_all(struct bl_inbox *inbox, struct bl_arena *arena);

/* ---- A gentle stop --------------------------------------------------------------------------- */

/* Lets the work in flight end: the model's answer, or the tool calls that run. Before the next call
 * or request, or at the entry of the next turn, the run stops as by a cancel, with a receipt. A
 * turn whose answer in flight was its last completes. Embedded by its owner. */
struct bl_finish {
    bool asked;
    char origin[80];               /* origin of the stop that follows */
    const struct bl_finish *above; /* of the agent above: applies to this one, too; NULL if none */
};

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
    uint64_t max_session_turns; /* BL_UNLIMITED: none; likewise the next two */
    uint64_t max_budget_tokens;
    uint64_t max_steps;
    bool synthesize;              /* at max_steps, one more call without tools writes a summary */
    uint64_t compact_after_turns; /* number of turns that stay in the context */
    uint32_t structured_retry_limit;
    bool keep; /* a turn that is cancelled or times out is committed as it is */
};

void bl_turn_limits_init(struct bl_turn_limits *limits); /* the defaults */

/* The environment of a turn; outlives it. */
struct bl_engine {
    const struct bl_model *model;
    const struct bl_tools *tools;       /* NULL if none */
    const struct bl_turn_store *store;  /* NULL: nothing is durable */
    const struct bl_listener *listener; /* NULL if none */
    const struct bl_clock *clock;
    void (*make_id)(char out[BL_ID_SIZE], const char *prefix); /* randomness; NULL: bl_id_make */
    struct bl_text system;
    struct bl_text schema_text; /* empty: any answer */
    const struct bl_json_schema *schema;
    struct bl_turn_limits limits;
    const char *const *matched_commands; /* by routing; NULL-terminated; may be NULL */
    const char *const *matched_tools;
    struct bl_inbox *inbox;         /* NULL: messages cannot be injected */
    const struct bl_finish *finish; /* a gentle stop that may be requested; NULL if none */
    struct bl_budget *budget_above; /* of the agent above; NULL: this one is the root */
    struct bl_journal *journal;     /* of the loop in progress, set by bl_run; NULL if none */
    struct bl_journal *standing;    /* outlives the loops: receives events between them, and those
                                       of loops that have no journal of their own; NULL: such events
                                       are dropped */
    void *turn;                     /* in progress; private to the room */
};

/* Emits an event that belongs to no call of a turn, such as one of a cell: into the stream of the
 * turn in progress, to be stored with it. Between turns, the event is in the store when this
 * returns. May wait. */
void bl_engine_tell(struct bl_engine *engine, struct bl_event *event);

/* The event stream of one run: numbers the events, passes them to the listener, and holds back
 * those that the next transaction stores. Embedded by its owner. */
struct bl_journal {
    const struct bl_engine *engine;
    const char *run;
    const char *session;
    const char *agent; /* NULL: the root */
    const char *turn;  /* in progress; NULL if none */
    uint64_t seq;
    bool stopped_in_commit; /* the stop came during the commit of a turn, which completed */
    bool cancel_told;       /* of the current stop, as is the next */
    bool receipt_told;
    bool receipt_stored;
    bool sealed;              /* in-doubt commit: nothing is added */
    struct bl_buffer pending; /* lines */
    struct bl_lock writing;   /* held while numbers are assigned that may be taken back */
    struct bl_lock stopping;  /* held while a stop is reported */
    uint32_t waiting;         /* fibers that are using the journal */
};

void bl_journal_init(struct bl_journal *journal, const struct bl_engine *engine, const char *run,
                     const char *session);
void bl_journal_done(struct bl_journal *journal);
/* Numbers and stamps the event, and passes it on. May wait, whatever stops the caller: for a
 * transaction of this journal in progress, and for the listener. */
void bl_journal_emit(struct bl_journal *journal, struct bl_event *event);
/* Adds the events held back to the store now, outside of any turn, shielded; events emitted
 * meanwhile are not included. Returns 0 also if there is nothing to add, or no store. If refused,
 * the events stay held back. */
int bl_journal_note(struct bl_journal *journal, struct bl_error *error);

struct bl_step {
    struct bl_list link;
    struct bl_text id;
    struct bl_text tool;
    const char *status; /* one of bl_step_statuses */
    uint64_t ms;
};

extern const struct bl_names bl_step_statuses; /* ok, error, denied, invalid, stopped, not_run */

struct bl_denial {
    struct bl_list link;
    struct bl_text tool;
    struct bl_text reason;
    const char *const *rules; /* that would allow it; NULL-terminated; NULL if none would */
};

/* The result of a turn. All texts are in the arena that it was made in. */
struct bl_turn_result {
    struct bl_list link;
    char turn_id[BL_ID_SIZE];
    enum bl_turn_end end;
    bool cancel_observed;
    const char *stopped_during; /* the wait that the stop ended, such as "tool: bash"; NULL: not
                                   stopped */
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
    struct bl_text receipt; /* JSON; empty if none */
    bool failed;            /* `error` has the reason */
    struct bl_error error;
    const char *const *matched_commands; /* by routing, as are the next ones */
    size_t matched_command_count;
    const char *const *matched_tools;
    size_t matched_tool_count;
    /* All of it as one JSON object, made once: store, events and answers use the same text. */
    struct bl_text json;
    struct bl_text brief; /* the same with a long prompt and output cut; empty: they are short */
};

extern const struct bl_record bl_turn_result_record;

/* Writes one line for people about a turn that was stopped `after_ns` after its run began: "Timed
 * out after 500 ms while waiting for response headers. Nothing left running.", or "Cancelled after
 * 3 s while running bash. Stopped in 206 ms: 4 processes. Nothing left running." Without such a
 * turn (NULL, or another end), writes the line of the receipt. */
int bl_stop_line(const struct bl_receipt_row *receipt, const struct bl_turn_result *turn,
                 int64_t after_ns, struct bl_buffer *out);

struct bl_turn_options {
    struct bl_scope *scope;     /* parent of the turn's scope */
    struct bl_receipt *receipt; /* open on that scope, or above it */
    struct bl_journal *journal;
    struct bl_text prompt;
    struct bl_text attached;      /* follows the prompt in its message; empty if none */
    const struct bl_list *images; /* struct bl_block, BL_BLOCK_IMAGE; NULL if none */
};

/* Runs one prompt to its end, in the running fiber. The result is made in `arena`. */
void bl_turn_run(struct bl_engine *engine, struct bl_session *session,
                 const struct bl_turn_options *options, struct bl_arena *arena,
                 struct bl_turn_result *ret_result);

/* Compacts a session's context on request: a call of the model summarizes all turns but the newest
 * `keep`, which then leave the context in one commit that is claimed like a turn's. Runs in the
 * running fiber, below the scope of `receipt`, which must be open. Returns 0 with the number of
 * turns that left; BL_ECANCELED or BL_ETIMEDOUT if stopped; another code with `error` filled. After
 * any code but 0 nothing has changed. `ret_spent` has the cost of the call in every case.
 * Afterwards the scope is claimed or stopped; a stop and its receipt have been reported and
 * stored. */
int bl_session_compact(struct bl_engine *engine, struct bl_session *session,
                       struct bl_receipt *receipt, struct bl_journal *journal, uint64_t keep,
                       uint64_t *ret_dropped, struct bl_spent *ret_spent, struct bl_error *error);

/* ---- The loop -------------------------------------------------------------------------------- */

struct bl_run_options {
    const char *run_id;
    struct bl_journal *journal; /* of a conversation that outlives this loop, which then reports
                                   neither the start nor the end of a run; NULL: the engine's
                                   standing one, or its own */
    const char *agent;          /* NULL: the root */
    struct bl_text prompt;
    struct bl_text attached;      /* follows the first prompt in its message, without being part of
                                     the prompt; empty if none */
    const struct bl_list *images; /* struct bl_block, BL_BLOCK_IMAGE, sent with the first prompt;
                                     NULL if none */
    bool continues;               /* `continuation` is set: more than one turn */
    struct bl_text continuation;
    uint64_t max_turns; /* of this loop */
    bool timed;
    int64_t timeout_ns; /* zero or less: one `timeout` result without a call */
    uint64_t from_ns;   /* start of the timeout; 0: the call of bl_run */
    /* Recorded results of this run, JSON each, oldest first: not run again. */
    const struct bl_text *recorded;
    size_t recorded_count;
    const struct bl_text *warnings; /* reported at the start, as events */
    size_t warning_count;
    /* Called after the last turn, when it is settled whether it was stopped, and before the end is
     * reported: ends work that outlives turns but not this loop. May be NULL. */
    void (*closing)(void *context);
    void *closing_context;
};

struct bl_run_result {
    bool undelivered;     /* the inbox holds messages that no turn took */
    struct bl_list turns; /* struct bl_turn_result, the recorded ones first (json, end, usage) */
    uint64_t turns_completed;
    enum bl_turn_end end; /* of the last */
    bool cancel_observed;
    const char *stopped_during; /* as the last turn's */
    struct bl_usage usage;      /* of these turns */
    struct bl_spent spent;
    struct bl_stop stop;          /* of the run's scope; reason BL_STOP_NONE: not stopped */
    struct bl_text receipt;       /* JSON; empty if none */
    struct bl_text receipt_line;  /* for people; empty if none */
    uint32_t survivors;           /* of the receipt; not 0: the stop failed */
    const struct bl_error *error; /* of the last turn; NULL if none */
};

/* Runs the prompt, then continuations, under one deadline, below the scope of `receipt`, which must
 * be open. Ends at the first result that is not `completed`. Messages that no turn took become the
 * next prompt, instead of the continuation, as long as max_turns allows another turn. */
void bl_run(struct bl_engine *engine, struct bl_session *session, struct bl_receipt *receipt,
            const struct bl_run_options *options, struct bl_arena *arena,
            struct bl_run_result *ret_result);
/* Returns 0, 1, 3, 124, 130 or 143; always 1 after a stop that is not proved. */
int bl_run_exit_code(const struct bl_run_result *result);

BL_PUBLIC_END

#endif
