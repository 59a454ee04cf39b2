/* What the files of model/ share with each other. */
#ifndef BELAY_MODEL_PARTS_H
#define BELAY_MODEL_PARTS_H

#include <belay/model.h>

/* The codes of failures. */
extern const struct bl_names model_failure_codes;

/* A tool that a reply asks for. */
struct script_call {
    struct bl_text name;
    struct bl_text id; /* empty: made by the player */
    struct bl_text input;
    struct bl_text invalid; /* why the input is none; empty: it is one */
};

enum script_wedge {
    SCRIPT_NO_WEDGE,
    SCRIPT_WEDGE_BEFORE, /* the first token */
    SCRIPT_WEDGE_AFTER,
};

struct script_reply {
    struct bl_pattern *when; /* NULL: matches anything */
    bool images_given;       /* it fits only where the user's newest message has so many */
    uint64_t images;
    uint64_t delay_ns;       /* before the first token */
    uint64_t piece_delay_ns; /* between pieces */
    uint32_t pieces;
    struct bl_text thinking;
    struct bl_text say;
    bool quotes_user; /* the built-in one: `say` is followed by what the user said */
    struct script_call *calls;
    size_t call_count;
    bool input_given; /* of usage; else counted */
    bool output_given;
    struct bl_usage usage;
    enum script_wedge wedge;
    bool end_given;
    enum bl_answer_end end;
    uint64_t failures; /* so many times it fails, and says nothing; 0: it is an answer */
    struct bl_model_failure failure;
};

/* Immutable once made; patterns on the heap, all else in the arena. */
struct bl_script {
    struct bl_arena arena;
    const char *name;
    struct script_reply *replies;
    size_t reply_count;
    bool repeat;
    uint64_t context_window; /* in tokens; 0: not said */
    bool images;             /* it takes them */
};

#define SCRIPT_PIECES_DEFAULT 4u

uint64_t script_count_words(struct bl_text text);
/* What an answer of so many words to `newest` costs, unless the reply says it. */
struct bl_usage script_usage(const struct script_reply *reply, struct bl_text newest,
                             uint64_t words_said);
/* One attempt of a call, to answer this text and so many images. `*reply` is set before anything is
 * told of it; one that is played as a failure returns BL_EIO, and nothing was told. Else as a
 * model's call. */
int script_attempt(struct bl_script_player *player, struct bl_text newest, uint64_t images,
                   struct bl_sink *sink, const struct script_reply **reply, struct bl_error *error);

#endif
