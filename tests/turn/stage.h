/* A stage for the engine: a model, tools and a store that do what a test tells them, in memory, and
 * keep what they were asked. The clock is the loop's, so that all of it runs on virtual time. */
#ifndef BELAY_TESTS_TURN_STAGE_H
#define BELAY_TESTS_TURN_STAGE_H

#include <belay/turn.h>

#include "fibers.h"

#define MS               BL_NS_PER_MS
#define STAGE_LINES_MAX  32u
#define STAGE_TURNS_MAX  64u
#define STAGE_EVENTS_MAX 4096u

/* One answer of the model. */
struct line {
    const char *say;     /* in pieces of a word */
    const char *think;   /* before it */
    const char *tool;    /* calls of these, a space between them; NULL: none */
    const char *input;   /* of the call; NULL: {} */
    const char *invalid; /* of the call: why it cannot be run */
    uint32_t calls;      /* how many times these are asked for; 0: once */
    uint64_t delay_ns;   /* before each piece */
    bool wedge;          /* silent after the first piece until stopped */
    int fail;            /* ends with this code instead of the end */
    enum bl_error_kind fail_kind;
    const char *fail_name;
    /* In place of all of the above but `wedge`, which is behind them; NULL: none. */
    const struct bl_piece *pieces;
    size_t piece_count;
    double reserved_usd; /* what the sink is told, as the next two */
    bool unbilled;
    bool abandoned;
    bool no_usage;
    bool no_end; /* the model returns without one */
    uint64_t input_tokens, output_tokens;
    enum bl_answer_end end;
    uint32_t retries; /* so many RETRY pieces, each after a piece of text, before the answer */
};

struct stored_turn {
    char id[BL_ID_SIZE];
    bool interrupted;
    char *messages;
    char *result;
    struct bl_usage usage;
};

struct stage {
    struct bl_engine engine;
    struct bl_session session;
    struct bl_scope scope; /* of the run */
    struct bl_receipt receipt;
    struct bl_journal journal;
    struct bl_arena arena;
    struct bl_model model;
    struct bl_tools tools;
    struct bl_turn_store store;
    struct bl_listener listener;

    struct line lines[STAGE_LINES_MAX];
    size_t line_count, line_next;
    uint64_t estimate; /* of each request */
    uint32_t requests;
    bool saw_forbidden;
    size_t tools_seen;      /* in the last request */
    uint64_t turns_skipped; /* of the last request, as the next three */
    bool saw_session;       /* it held what was said before */
    char seen_summary[256]; /* the text that stands for what was not sent; empty: none */
    char newest_text[16384];

    uint64_t tool_ns; /* that a call takes */
    bool tool_deny;
    bool tool_fails; /* the runtime does */
    uint32_t tool_calls;
    uint32_t tools_at_once; /* now, and */
    uint32_t tools_at_once_max;
    /* In place of the stage's own; NULL: its own. `ask` is for calls that are to be asked about. */
    int (*on_call)(struct stage *stage, const struct bl_tool_call *call,
                   struct bl_tool_result *result, struct bl_error *error);
    bool tool_ask;
    enum bl_permit (*on_ask)(struct stage *stage, const struct bl_tool_call *call, char *reason,
                             size_t reason_size);
    void (*on_settle)(struct stage *stage, struct bl_scope *scope);
    void *extra; /* of the test */

    struct stored_turn turns[STAGE_TURNS_MAX];
    size_t turn_count;
    uint32_t begun, rejected, noted;
    uint64_t turns_dropped;
    uint32_t compacted;
    char *stored_summary; /* the newest; NULL: none */
    char rejected_result[8192];
    char stored_receipt[8192];
    uint64_t store_ns; /* that a commit takes */
    uint64_t note_ns;  /* the same of a note */
    int begin_code, commit_code, reject_code, compact_code, note_code;
    struct bl_buffer written;               /* lines of the journal that the store took */
    void (*on_commit)(struct stage *stage); /* when it is asked for */

    uint32_t events[STAGE_EVENTS_MAX]; /* types, in order */
    size_t event_count;
    uint64_t last_seq;
    char turn_ended[8192]; /* the result in the last such event */
    size_t turns_told;     /* completed ones */
    char warning[512];     /* the last */
    void (*on_event)(struct stage *stage, const struct bl_event *event);
};

/* In a fiber. */
void stage_init(struct stage *stage);
void stage_done(struct stage *stage);
/* A new run scope, receipt and journal on the same session. */
void stage_rearm(struct stage *stage);
void stage_line(struct stage *stage, struct line line);
/* A turn before, of one text of so many bytes. */
void stage_add_turn(struct stage *stage, size_t bytes);
/* One with a block of each type: an image, which is taken for 6400 bytes, and some bytes more. */
#define STAGE_EACH_BYTES (6400u + 2 + 2 + 7 + 4 + 7 + 3)
void stage_add_turn_of_each(struct stage *stage);
/* One turn below the stage's scope. */
struct bl_turn_result *stage_turn(struct stage *stage, const char *prompt);
/* How often an event of that type was told. */
size_t stage_told(const struct stage *stage, enum bl_event_type type);
/* The session in memory, as JSON text, in the arena: to compare byte for byte. */
struct bl_text stage_memory(struct stage *stage);
/* Result, memory, store and events say the same; else a failed CHECK. */
void stage_check_agreement(struct stage *stage, const struct bl_turn_result *result);

/* Stops the run's scope after a while, from a fiber beside it, which bl_nursery_done ends. */
struct stopper {
    struct bl_scope *scope;
    uint64_t after_ns;
    enum bl_stop_reason reason;
    struct bl_nursery nursery;
};

void stop_after(struct stopper *stopper, struct stage *stage, uint64_t after_ns,
                enum bl_stop_reason reason);
bool has(struct bl_text text, const char *part);
/* Every call has exactly one result, after it; roles alternate, a user first, an assistant last. */
void check_valid(struct stage *stage, const char *messages);

/* Each test plays one scene in a fiber on virtual time, which does not begin with it. */
#define SCENE(name)                                                                                \
    static int name##_scene(struct stage *stage);                                                  \
    static int name##_main(void *argument)                                                         \
    {                                                                                              \
        struct stage *stage = bl_alloc(sizeof *stage);                                             \
        (void)argument;                                                                            \
        bl_sleep(BL_NS_PER_S);                                                                     \
        stage_init(stage);                                                                         \
        name##_scene(stage);                                                                       \
        stage_done(stage);                                                                         \
        bl_free(stage);                                                                            \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_virtual_loop(1, name##_main, NULL);                                                 \
    }                                                                                              \
    static int name##_scene(struct stage *stage)

#endif
