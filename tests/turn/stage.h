/* A stage for the engine: a model, tools and a store that follow a test's script, in memory, and
 * record their calls. The clock is the loop's, so that everything runs on virtual time. */
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
    const char *say;     /* in pieces of one word */
    const char *think;   /* before `say` */
    const char *tool;    /* names of tools to call, separated by spaces; NULL if none */
    const char *input;   /* of the call; NULL: {} */
    const char *invalid; /* of the call: why it is invalid */
    uint32_t calls;      /* how many times the calls are made; 0: once */
    uint64_t delay_ns;   /* before each piece */
    bool wedge;          /* silent after the first piece until stopped */
    int fail;            /* ends with this code instead of the end */
    enum bl_error_kind fail_kind;
    const char *fail_name;
    /* Replaces all of the above but `wedge`, which follows it; NULL if none. */
    const struct bl_piece *pieces;
    size_t piece_count;
    double reserved_usd; /* set in the sink, as are the next two */
    bool unbilled;
    bool abandoned;
    bool no_usage;
    bool no_end; /* the model returns without an END piece */
    uint64_t input_tokens, output_tokens;
    enum bl_answer_end end;
    uint32_t retries; /* number of RETRY pieces, each after a piece of text, before the answer */
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
    uint64_t turns_skipped; /* of the last request, as are the next three */
    bool saw_session;       /* it had earlier turns */
    char seen_summary[256]; /* the text that replaces turns that were not sent; empty if none */
    char newest_text[16384];

    uint64_t tool_ns; /* duration of a call */
    bool tool_deny;
    bool tool_fails; /* the runtime fails */
    uint32_t tool_calls;
    uint32_t tools_at_once; /* now, and the maximum */
    uint32_t tools_at_once_max;
    /* Replace the stage's own functions; NULL: the stage's own. `ask` is for calls that need
     * permission. */
    int (*on_call)(struct stage *stage, const struct bl_tool_call *call,
                   struct bl_tool_result *result, struct bl_error *error);
    bool tool_ask;
    enum bl_permit (*on_ask)(struct stage *stage, const struct bl_tool_call *call, char *reason,
                             size_t reason_size);
    void (*on_settle)(struct stage *stage, struct bl_scope *scope);
    void *extra; /* for the test */

    struct stored_turn turns[STAGE_TURNS_MAX];
    size_t turn_count;
    uint32_t begun, rejected, noted;
    uint64_t turns_dropped;
    uint32_t compacted;
    char *stored_summary; /* the newest; NULL if none */
    char rejected_result[8192];
    char stored_receipt[8192];
    uint64_t store_ns; /* duration of a commit */
    uint64_t note_ns;  /* duration of a note */
    int begin_code, commit_code, reject_code, compact_code, note_code;
    struct bl_buffer written;               /* journal lines that the store accepted */
    void (*on_commit)(struct stage *stage); /* called for each commit */

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
/* Makes a new run scope, receipt and journal on the same session. */
void stage_rearm(struct stage *stage);
void stage_line(struct stage *stage, struct line line);
/* Adds an earlier turn with one text of `bytes` bytes. */
void stage_add_turn(struct stage *stage, size_t bytes);
/* Adds a turn with a block of each type: an image, which counts as 6400 bytes, and some more
 * bytes. */
#define STAGE_EACH_BYTES (6400u + 2 + 2 + 7 + 4 + 7 + 3)
void stage_add_turn_of_each(struct stage *stage);
/* Runs one turn below the stage's scope. */
struct bl_turn_result *stage_turn(struct stage *stage, const char *prompt);
/* Returns how often an event of that type was emitted. */
size_t stage_told(const struct stage *stage, enum bl_event_type type);
/* Returns the session in memory as JSON text, in the arena: to compare byte for byte. */
struct bl_text stage_memory(struct stage *stage);
/* Checks that result, memory, store and events agree. */
void stage_check_agreement(struct stage *stage, const struct bl_turn_result *result);

/* Stops the run's scope after a while, from another fiber, which bl_nursery_done ends. */
struct stopper {
    struct bl_scope *scope;
    uint64_t after_ns;
    enum bl_stop_reason reason;
    struct bl_nursery nursery;
};

void stop_after(struct stopper *stopper, struct stage *stage, uint64_t after_ns,
                enum bl_stop_reason reason);
bool has(struct bl_text text, const char *part);
/* Checks that every call has exactly one result, after it, and that roles alternate, with a user
 * first and an assistant last. */
void check_valid(struct stage *stage, const char *messages);

/* Each test plays one scene in a fiber on virtual time, which does not start at zero. */
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
