/* What the files about the view of a conversation share. */
#ifndef BELAY_CLI_CHAT_VIEW_H
#define BELAY_CLI_CHAT_VIEW_H

#include "chat.h"

/* Where lines go, and how wide they are. */
struct chat_frame {
    struct bl_buffer *out;
    size_t columns;
    bool colours;
};

/* One line behind `indent` blanks, cut with an ellipsis. */
void chat_line(const struct chat_frame *frame, size_t indent, struct bl_text text,
               const struct text_style *style);
/* Wrapped, `mark` before its first line. */
void chat_paragraph(const struct chat_frame *frame, const char *mark, struct bl_text text,
                    const struct text_style *style);

/* ---- chat_output.c --------------------------------------------------------------------------- */

#define CHAT_OUTPUT_HEAD  3u
#define CHAT_OUTPUT_LINES 8u /* so many are shown whole */

/* What a call prints: its first and last lines, bounded. Escape sequences are taken out, and a
 * carriage return begins the line anew, as on a terminal. Embedded by its owner. */
struct chat_output {
    struct bl_buffer head;                    /* the first lines, LF after each */
    struct bl_buffer tail[CHAT_OUTPUT_LINES]; /* the last ones, a ring */
    struct bl_buffer line;                    /* being written */
    uint64_t count;                           /* whole lines */
    bool returned;                            /* a carriage return came last */
    enum {
        OUTPUT_TEXT,
        OUTPUT_ESCAPE,        /* after ESC */
        OUTPUT_SEQUENCE,      /* after ESC [ */
        OUTPUT_STRING,        /* after ESC ] and the like, until BEL or ESC \ */
        OUTPUT_STRING_ESCAPE, /* after ESC in one */
    } state;
};

void chat_output_init(struct chat_output *output);
void chat_output_done(struct chat_output *output);
void chat_output_add(struct chat_output *output, struct bl_text text);
void chat_output_end(struct chat_output *output); /* the line that is open is complete */
/* The newest lines, at most `lines_max`, the open one among them. */
void chat_output_live(const struct chat_output *output, size_t lines_max,
                      const struct chat_frame *frame, size_t indent);
/* All of a few lines; of many the first and the last, with how many are left out. */
void chat_output_summary(const struct chat_output *output, const struct chat_frame *frame,
                         size_t indent);

/* ---- chat_diff.c ----------------------------------------------------------------------------- */

#define CHAT_DIFF_LINES 20u

struct chat_diff {
    size_t added;
    size_t removed;
};

/* How `from` becomes `to`, line by line, at most CHAT_DIFF_LINES. `frame` NULL: only counts. */
struct chat_diff chat_diff(struct bl_text from, struct bl_text to, const struct chat_frame *frame,
                           size_t indent);

/* ---- chat_receipt.c -------------------------------------------------------------------------- */

/* The line of a receipt for people, and with `units` a line for each unit of several. False: it is
 * no receipt. */
bool chat_receipt(struct bl_text json, bool units, const struct chat_frame *frame, size_t indent);

/* ---- chat_call.c ----------------------------------------------------------------------------- */

struct chat_agent;

/* A call that was asked for and has not ended. */
struct chat_call {
    struct bl_list link;
    struct bl_arena arena;    /* of all texts here */
    struct chat_agent *agent; /* who made it; NULL: the root */
    struct bl_text id;
    struct bl_text name;
    struct bl_text line;         /* its input, in a line */
    const struct bl_json *input; /* NULL: it cannot be read */
    struct chat_output output;
    bool nested; /* a cell asked for it: it may outlast the turn */
    bool running;
    uint64_t since_ns;
    struct bl_text question; /* waits for an answer */
    struct bl_text reason;   /* of the answer no */
    struct bl_text receipt;  /* of a stop of this call alone */
};

/* How it ended. */
struct chat_end {
    const char *status; /* of the event; NULL: it never ran */
    uint64_t ms;
    struct bl_text text; /* the result; may be empty */
    struct bl_text note; /* more for the summary: "12 calls"; may be empty */
};

struct chat_call *chat_call_new(const struct bl_event *event, struct chat_agent *agent);
void chat_call_free(struct chat_call *call);
/* While it runs, with the newest `lines_max` lines of its output. */
void chat_call_live(const struct chat_call *call, const struct chat_frame *frame, size_t indent,
                    size_t lines_max);
void chat_call_ended(struct chat_call *call, const struct chat_end *end,
                     const struct chat_frame *frame);
/* What a cell does, in a few words: "cell c-7 ended: completed". False: it is not worth any. */
bool chat_cell_text(const struct bl_event *event, char *out, size_t size);
/* "950", "12.3k", "1.2M". */
const char *chat_short_count(uint64_t count, char out[24]);

/* ---- chat_view.c ----------------------------------------------------------------------------- */

#define CHAT_THINKING_SHOWN ((size_t)2048)

enum chat_kind {
    KIND_NONE, /* nothing was said yet */
    KIND_PROMPT,
    KIND_TEXT,
    KIND_CALL,
    KIND_NOTE,
};

/* A sub-agent at work. */
struct chat_agent {
    struct bl_list link;
    struct bl_arena arena;
    struct bl_text id;
    struct bl_text name; /* of its persona */
    struct bl_text call; /* the id of the call that started it */
    struct bl_text last; /* its newest call that has ended, in a line */
    struct chat_agent *above;
    uint64_t calls;
    uint64_t tokens;
    bool ended;
    char status[32]; /* why it ended, if not because it was done */
};

struct chat_view {
    size_t columns;
    bool colours;
    struct bl_buffer lines; /* final, not taken */
    enum chat_kind last;
    struct markdown *text; /* being said; NULL: none */
    bool text_begun;       /* some of it is final */
    struct bl_buffer thinking;
    struct bl_list calls;  /* struct chat_call, as they were asked for */
    struct bl_list agents; /* struct chat_agent, those above first */
    bool turn_open;
    bool stopping;
    uint64_t model_since_ns;
    char retry[64];       /* what the model waits for; empty: nothing */
    char error_told[512]; /* in this turn */
    char phase[160];
    uint64_t phase_since_ns;
};

/* What is of that kind stands apart from what was said last. */
bool chat_is_set_off(const struct chat_view *view, enum chat_kind kind);

/* ---- chat_live.c ----------------------------------------------------------------------------- */

/* The agent that a call has started; NULL: none. */
struct chat_agent *chat_agent_of(const struct chat_view *view, const struct chat_call *call);
void chat_phase_update(struct chat_view *view);

#endif
