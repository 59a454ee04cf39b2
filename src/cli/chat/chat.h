/* The parts of `belay chat`: what is shown of the conversation (view.c, status.c), and the
 * conversation itself (chat.c, command.c). */
#ifndef BELAY_CLI_CHAT_H
#define BELAY_CLI_CHAT_H

#include <belay/agent.h>

#include "cli/cli.h"
#include "term/term.h"

/* ---- command.c ------------------------------------------------------------------------------- */

/* In the order of the help. */
extern const struct edit_command chat_commands[];

/* ---- status.c -------------------------------------------------------------------------------- */

/* What the status line is made of. */
struct status {
    const char *model;
    const char *mode;    /* of permissions */
    const char *sandbox; /* NULL: off */
    struct bl_usage usage;
    struct bl_spent spent;
    uint64_t deadline_left_ns; /* BL_NEVER: none */
    const char *phase;         /* what runs now; NULL: nothing */
    uint64_t phase_ns;         /* for how long */
    unsigned agents;           /* sub-agents at work */
    unsigned jobs;             /* in the background */
    bool stopping;
    unsigned tick; /* of the sign that something moves */
};

/* One line of at most `columns`, without LF; what matters least goes first when there is no room.
 */
void status_line(const struct status *status, size_t columns, bool colours, struct bl_buffer *out);

/* ---- chat_view.c ----------------------------------------------------------------------------- */

/* Events become lines for people: text as Markdown, calls with their input in a line and the last
 * lines of their output, changes of files as a diff, sub-agents indented, questions, receipts,
 * warnings, errors. */
struct chat_view;

struct chat_view *chat_view_new(size_t columns, bool colours);
void chat_view_free(struct chat_view *view); /* NULL is fine */
void chat_view_event(struct chat_view *view, const struct bl_event *event);
/* A line of our own ("Session …"), or of the user (his prompt, marked). */
void chat_view_say(struct chat_view *view, struct bl_text text, const struct text_style *style);
void chat_view_prompt(struct chat_view *view, struct bl_text prompt);
/* A row of a list: its name, of at most CHAT_NAME_WIDTH columns, and beside it the text, which
 * stays in its column. */
#define CHAT_NAME_WIDTH 16
void chat_view_row(struct chat_view *view, const char *name, struct bl_text text,
                   const struct text_style *style);
/* What is being said is complete, though no event says so. */
void chat_view_end_text(struct chat_view *view);
/* The receipt (JSON) of something that was stopped by hand. */
void chat_view_receipt(struct chat_view *view, struct bl_text receipt);
void chat_view_resize(struct chat_view *view, size_t columns);
/* As with markdown: what is final since the last call, and what is being said now. */
void chat_view_take_lines(struct chat_view *view, struct bl_buffer *out);
void chat_view_live(struct chat_view *view, size_t lines_max, struct bl_buffer *out);
/* What runs now, for the status line: "model", "bash: make test", NULL: nothing; and since when, by
 * the system's clock. */
const char *chat_view_phase(const struct chat_view *view, uint64_t *ret_since_ns);
unsigned chat_view_agents(const struct chat_view *view);
/* The persona of a sub-agent at work; empty: there is none of that id. */
struct bl_text chat_view_agent_name(const struct chat_view *view, const char *id);

/* One line about a tool's input, for people: "git status", "src/a.c". In the arena. */
struct bl_text chat_input_line(struct bl_arena *arena, const char *tool,
                               const struct bl_json *input);

#endif
