/* The parts of `belay chat`: the display of the conversation (view.c, status.c), and the
 * conversation itself (chat.c, command.c). */
#ifndef BELAY_CLI_CHAT_H
#define BELAY_CLI_CHAT_H

#include <belay/agent.h>

#include "cli/cli.h"
#include "term/term.h"

/* ---- command.c ------------------------------------------------------------------------------- */

/* In the order of the help. */
extern const struct edit_command chat_commands[];

/* Writes "$0.025", with a plus if part of the cost is unknown, or "cost unknown". Returns false if
 * the cost is zero. */
bool chat_cost_text(const struct bl_spent *spent, char out[32]);
/* Writes and returns "950", "12.3k" or "1.2M". */
const char *chat_short_count(uint64_t count, char out[24]);
/* Writes "1 token" or "12.3k tokens". */
const char *chat_tokens(uint64_t count, char out[32]);

/* ---- status.c -------------------------------------------------------------------------------- */

/* The contents of the status line. */
struct status {
    const char *model;
    const char *mode;    /* permission mode */
    const char *sandbox; /* NULL if off */
    struct bl_usage usage;
    struct bl_spent spent;
    uint64_t context_used;     /* tokens of the last request and its answer; 0 if unknown */
    uint64_t context_max;      /* token limit of a request; 0 if unknown */
    uint64_t deadline_left_ns; /* BL_NEVER without a deadline */
    const char *phase;         /* running work; NULL if none */
    uint64_t phase_ns;         /* time since the phase started */
    unsigned agents;           /* running sub-agents */
    unsigned jobs;             /* background commands */
    bool stopping;
    unsigned tick; /* of the activity indicator */
};

/* Writes one line of at most `columns`, without LF. If there is no room, the least important parts
 * are left out. */
void status_line(const struct status *status, size_t columns, bool colours, struct bl_buffer *out);

/* ---- view.c ---------------------------------------------------------------------------------- */

/* Turns events into lines for people: text as Markdown, calls with their input in one line and the
 * last lines of their output, changes of files as a diff, sub-agents indented, questions, receipts,
 * warnings, errors. */
struct chat_view;

struct chat_view *chat_view_new(size_t columns, bool colours);
void chat_view_free(struct chat_view *view); /* NULL is allowed */
void chat_view_event(struct chat_view *view, const struct bl_event *event);
/* The caller reports the ends of turns, errors and receipts of the root agent itself. */
void chat_view_leave_ends(struct chat_view *view);
/* Adds a line of belay ("Session …") or the user's prompt, with a mark. */
void chat_view_say(struct chat_view *view, struct bl_text text, const struct text_style *style);
void chat_view_prompt(struct chat_view *view, struct bl_text prompt);
/* Adds a row of a list: the name, of at most CHAT_NAME_WIDTH columns, and beside it the text, which
 * is wrapped within its column. */
#define CHAT_NAME_WIDTH 16
void chat_view_row(struct chat_view *view, const char *name, struct bl_text text,
                   const struct text_style *style);
/* Adds a line unchanged, cut at the width. */
void chat_view_line(struct chat_view *view, struct bl_text text, const struct text_style *style);
/* Adds a whole Markdown text. */
void chat_view_markdown(struct chat_view *view, struct bl_text text);
/* Completes the current text, without an event. */
void chat_view_end_text(struct chat_view *view);
/* Adds the receipt (JSON) of work that the user stopped. */
void chat_view_receipt(struct chat_view *view, struct bl_text receipt);
void chat_view_resize(struct chat_view *view, size_t columns);
/* Return, as markdown does, the lines that became final since the last call, and the current ones.
 */
void chat_view_take_lines(struct chat_view *view, struct bl_buffer *out);
void chat_view_live(struct chat_view *view, size_t lines_max, struct bl_buffer *out);
/* Writes the whole transcript with nothing folded, laid out for the width. The version changes
 * whenever the transcript does. */
void chat_view_transcript(const struct chat_view *view, struct bl_buffer *out);
uint64_t chat_view_version(const struct chat_view *view);
/* Returns the running work for the status line, such as "model" or "bash: make test", and its start
 * by the system's clock; NULL if nothing is running. */
const char *chat_view_phase(const struct chat_view *view, uint64_t *ret_since_ns);
unsigned chat_view_agents(const struct chat_view *view);
/* Returns the persona of a running sub-agent; empty if none has that id. */
struct bl_text chat_view_agent_name(const struct chat_view *view, const char *id);

/* Returns one line about a tool's input, for people: "git status", "src/a.c". In the arena. */
struct bl_text chat_input_line(struct bl_arena *arena, const char *tool,
                               const struct bl_json *input);

#endif
