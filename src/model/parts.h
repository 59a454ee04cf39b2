/* Shared by the files of model/. */
#ifndef BELAY_MODEL_PARTS_H
#define BELAY_MODEL_PARTS_H

#include <belay/model.h>

/* The codes of failures. */
extern const struct bl_names model_failure_codes;

/* A tool call of a reply. */
struct script_call {
    struct bl_text name;
    struct bl_text id; /* empty: the player makes one */
    struct bl_text input;
    struct bl_text invalid; /* why the input is invalid; empty: it is valid */
};

enum script_wedge {
    SCRIPT_NO_WEDGE,
    SCRIPT_WEDGE_BEFORE, /* the first token */
    SCRIPT_WEDGE_AFTER,
};

struct script_reply {
    struct bl_pattern *when; /* NULL: matches anything */
    bool images_given;       /* it matches only if the user's newest message has this number of
                                images */
    uint64_t images;
    uint64_t delay_ns;       /* before the first token */
    uint64_t piece_delay_ns; /* between pieces */
    uint32_t pieces;
    struct bl_text thinking;
    struct bl_text say;
    bool quotes_user; /* the built-in reply: the user's text follows `say` */
    struct script_call *calls;
    size_t call_count;
    bool input_given; /* of usage; otherwise counted */
    bool output_given;
    struct bl_usage usage;
    enum script_wedge wedge;
    bool end_given;
    enum bl_answer_end end;
    uint64_t failures; /* number of attempts that fail without an answer; 0: an answer */
    struct bl_model_failure failure;
};

/* Immutable once made. Patterns are on the heap, the rest is in the arena. */
struct bl_script {
    struct bl_arena arena;
    const char *name;
    struct script_reply *replies;
    size_t reply_count;
    bool repeat;
    uint64_t context_window; /* in tokens; 0 if unset */
    bool images;             /* accepts images */
};

#define SCRIPT_PIECES_DEFAULT 4u

uint64_t script_count_words(struct bl_text text);
/* Returns the usage of an answer of `words_said` words to `newest`, unless the reply sets it. */
struct bl_usage script_usage(const struct script_reply *reply, struct bl_text newest,
                             uint64_t words_said);
/* Makes one attempt of a call, to answer this text with this number of images. `*reply` is set
 * before any piece is sent. Returns BL_EIO for a reply that plays a failure, without a piece;
 * otherwise as a model's call. */
int script_attempt(struct bl_script_player *player, struct bl_text newest, uint64_t images,
                   struct bl_sink *sink, const struct script_reply **reply, struct bl_error *error);

#endif
