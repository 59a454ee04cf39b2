/* Shared by the files that display a conversation. */
#ifndef BELAY_CLI_CHAT_VIEW_H
#define BELAY_CLI_CHAT_VIEW_H

#include "chat.h"

/* The destination of lines, and their width. */
struct chat_frame {
    struct bl_buffer *out;
    size_t columns;
    bool colours;
    bool whole; /* fold nothing */
};

/* Writes lines unchanged after `indent` blanks; `name` is their language or file name. */
void chat_code(const struct chat_frame *frame, size_t indent, struct bl_text text,
               struct bl_text name);
/* Writes one line after `indent` blanks, cut with an ellipsis. */
void chat_line(const struct chat_frame *frame, size_t indent, struct bl_text text,
               const struct text_style *style);
/* Writes a wrapped text with `mark` before its first line. */
void chat_paragraph(const struct chat_frame *frame, const char *mark, struct bl_text text,
                    const struct text_style *style);

/* ---- output.c -------------------------------------------------------------------------------- */

#define CHAT_OUTPUT_HEAD  3u
#define CHAT_OUTPUT_LINES 8u /* up to this number, all lines are shown */
#define CHAT_OUTPUT_MAX   ((size_t)128 * 1024)

/* The output of a call: its first and last lines, bounded. Escape sequences are removed, and a
 * carriage return restarts the line, as on a terminal. Embedded by its owner. */
struct chat_output {
    struct bl_buffer head;                    /* the first lines, LF after each */
    struct bl_buffer tail[CHAT_OUTPUT_LINES]; /* the last lines, a ring */
    struct bl_buffer all;                     /* the first lines, up to CHAT_OUTPUT_MAX bytes */
    uint64_t kept;                            /* number of lines in `all` */
    struct bl_buffer line;                    /* the unfinished line */
    uint64_t count;                           /* number of whole lines */
    bool returned;                            /* the last byte was a carriage return */
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
void chat_output_end(struct chat_output *output); /* completes the unfinished line */
/* Writes the newest lines, at most `lines_max`, including the unfinished one. */
void chat_output_live(const struct chat_output *output, size_t lines_max,
                      const struct chat_frame *frame, size_t indent);
/* Writes all lines if they are few; else the first and last ones, with the number left out between
 * them. In a whole frame, writes all kept lines. */
void chat_output_summary(const struct chat_output *output, const struct chat_frame *frame,
                         size_t indent);

/* ---- diff.c ---------------------------------------------------------------------------------- */

#define CHAT_DIFF_LINES 20u

struct chat_diff {
    size_t added;
    size_t removed;
};

/* Writes the difference between two texts by lines: at most CHAT_DIFF_LINES, or all of them in a
 * whole frame. `path` is the path of the file. Only counts if `frame` is NULL. */
struct chat_diff chat_diff(struct bl_text path, struct bl_text from, struct bl_text to,
                           const struct chat_frame *frame, size_t indent);

/* ---- receipt.c ------------------------------------------------------------------------------- */

/* Writes the line of a receipt for people, and with `units` a line for each unit if there are
 * several. Returns false if the text is not a receipt. `turn` is the stopped turn; NULL for a call
 * or a background command. */
bool chat_receipt(struct bl_text json, const struct bl_turn_result *turn, bool units,
                  const struct chat_frame *frame, size_t indent);

/* ---- call.c ---------------------------------------------------------------------------------- */

struct chat_agent;
struct chat_entry;

/* A call that was requested and has not ended. */
struct chat_call {
    struct bl_list link;
    struct bl_arena arena;    /* for all texts of the call */
    struct chat_agent *agent; /* the agent that made the call; NULL for the root */
    struct chat_entry *entry; /* in the transcript; NULL if it is not kept */
    struct bl_text id;
    struct bl_text name;
    struct bl_text line; /* the input, in one line */
    const void *input;   /* by the tool's table; NULL without one, or if not an object */
    struct chat_output output;
    bool answered; /* `output` is the result: the call printed nothing */
    bool nested;   /* made by a cell: it may outlast the turn */
    bool running;
    uint64_t since_ns;
    struct bl_text question; /* the open question */
    struct bl_text reason;   /* given with the answer "no" */
    struct bl_text receipt;  /* of a stop of only this call */
};

/* The end of a call. */
struct chat_end {
    const char *status; /* of the event; NULL if the call never ran */
    uint64_t ms;
    struct bl_text text; /* the result; may be empty */
    struct bl_text note; /* addition to the summary, such as "12 calls"; may be empty */
};

struct chat_call *chat_call_new(const struct bl_event *event, struct chat_agent *agent);
void chat_call_free(struct chat_call *call);
/* Takes the result as the output of a call that has printed nothing. */
void chat_call_take_result(struct chat_call *call, struct bl_text text);
/* Writes a running call, with the newest `lines_max` lines of its output. */
void chat_call_live(const struct chat_call *call, const struct chat_frame *frame, size_t indent,
                    size_t lines_max);
void chat_call_ended(struct chat_call *call, const struct chat_end *end,
                     const struct chat_frame *frame, size_t indent);
/* Describes the event of a cell: "cell c-7 ended: completed". Returns false if it is not shown. */
bool chat_cell_text(const struct bl_event *event, char *out, size_t size);

/* ---- transcript.c ---------------------------------------------------------------------------- */

/* The transcript of the conversation, to be shown in full. Embedded by its owner. */
struct chat_transcript {
    struct bl_list entries; /* struct chat_entry */
    size_t size;
    uint64_t version; /* increases with each change */
    bool forgotten;   /* the oldest entries were removed */
};

void chat_transcript_init(struct chat_transcript *transcript);
void chat_transcript_done(struct chat_transcript *transcript);
void chat_transcript_prompt(struct chat_transcript *transcript, struct bl_text text);
void chat_transcript_markdown(struct chat_transcript *transcript, struct bl_text text);
void chat_transcript_note(struct chat_transcript *transcript, const char *mark, struct bl_text text,
                          const struct text_style *style);
void chat_transcript_receipt(struct chat_transcript *transcript, struct bl_text json);
void chat_transcript_call(struct chat_transcript *transcript, struct chat_call *call);
/* From now on the transcript owns the call. */
void chat_transcript_ended(struct chat_transcript *transcript, struct chat_call *call,
                           const struct chat_end *end);
void chat_transcript_show(const struct chat_transcript *transcript, const struct chat_frame *frame);

/* ---- view.c ---------------------------------------------------------------------------------- */

#define CHAT_THINKING_SHOWN ((size_t)2048)

enum chat_kind {
    KIND_NONE, /* nothing has been shown yet */
    KIND_PROMPT,
    KIND_TEXT,
    KIND_CALL,
    KIND_NOTE,
};

/* A running sub-agent. */
struct chat_agent {
    struct bl_list link;
    struct bl_arena arena;
    struct bl_text id;
    struct bl_text name; /* of its persona */
    struct bl_text call; /* id of the call that started it */
    struct bl_text last; /* its newest call that has ended, in one line */
    struct chat_agent *above;
    uint64_t calls;
    uint64_t tokens;
    bool ended;
    char status[32]; /* why it ended; empty if it completed or was cancelled */
};

struct chat_view {
    size_t columns;
    bool colours;
    struct bl_buffer lines; /* final, and not taken yet */
    enum chat_kind last;
    struct chat_transcript transcript;
    struct markdown *text; /* the current text; NULL if none */
    struct bl_buffer said; /* source of the current text */
    bool text_begun;       /* part of the current text is final */
    struct bl_buffer thinking;
    struct bl_list calls;  /* struct chat_call, in the order of the requests */
    struct bl_list agents; /* struct chat_agent, parents first */
    bool turn_open;
    bool ends_left; /* the caller reports ends of turns, errors and receipts */
    bool stopping;
    uint64_t model_since_ns;
    char retry[64];       /* the retry that the model waits for; empty if none */
    char error_told[512]; /* the error shown in this turn */
    char phase[160];
    uint64_t phase_since_ns;
};

/* True if an empty line separates an entry of that kind from the last one. */
bool chat_is_set_off(const struct chat_view *view, enum chat_kind kind);

/* ---- live.c ---------------------------------------------------------------------------------- */

/* Returns the agent that a call has started, or NULL. */
struct chat_agent *chat_agent_of(const struct chat_view *view, const struct chat_call *call);
void chat_phase_update(struct chat_view *view);

/* True for the receipt of a background command. */
bool chat_receipt_of_job(const struct bl_event *event);
void chat_receipt_show_job(struct chat_view *view, const struct bl_event *event);

#endif
