/* One conversation in a terminal, or over lines: what the files of `belay chat` share. */
#ifndef BELAY_CLI_CHAT_STATE_H
#define BELAY_CLI_CHAT_STATE_H

#include "chat.h"
#include "cli/run/run.h"

/* A question that waits for its answer. */
struct chat_question {
    const struct bl_question *asked;
    uint64_t since_ns; /* what is typed in the first moment was meant for something else */
    struct bl_semaphore answered;
    enum bl_reply reply;
};

struct chat {
    struct run_work work;  /* options, files, model, tools, store */
    struct bl_scope *home; /* of the whole conversation */
    struct bl_nursery nursery;
    struct bl_agent *agent; /* NULL: the session is being changed */
    struct bl_listener listener;
    struct bl_asker asker;
    bool interactive;          /* there is a terminal on both sides */
    struct terminal *terminal; /* NULL: lines */
    struct keys keys;
    struct edit_line line;
    struct history *history;
    struct edit_screen screen;
    struct chat_view *view;
    bool colours;
    size_t columns, rows;
    struct bl_semaphore dirty; /* something is to be drawn */
    uint64_t drawn_ns;
    unsigned tick;
    /* What only the fiber that draws may do, because it alone writes to the terminal. */
    bool resized;
    bool wiped;      /* Ctrl+L */
    bool suspending; /* Ctrl+Z */
    bool drawn_last; /* the conversation is over */
    struct bl_buffer menu;
    struct bl_buffer hint;
    /* Prompts and commands that wait for their turn. */
    struct bl_inbox prompts;
    struct bl_semaphore ready;
    bool unused; /* the session that is open is ours, and nothing was ever asked in it */
    /* The turn under way. */
    bool busy;
    struct bl_scope scope;
    bool hurried;
    struct chat_question *question; /* NULL: none */
    struct bl_usage usage;          /* of the calls of this turn, as far as told */
    struct bl_usage call_usage;
    uint64_t interrupt_ns; /* when Ctrl+C was pressed with nothing to stop; 0: was not */
    struct bl_buffer told; /* warnings that were told when the session was opened, LF after each:
                              the first turn has them as events, too */
    /* Over lines. */
    struct bl_scope reader; /* stopped when whoever reads the answers is gone */
    struct bl_stop_hook reader_hook;
    bool mid_line; /* of the answer */
    bool leaving;
    int exit_code;
};

/* ---- chat.c ---------------------------------------------------------------------------------- */

/* A prompt, or a command, is taken up when what runs has ended; or given to the turn under way. */
void chat_submit(struct chat *chat, struct bl_text text);
/* The same, after all that was submitted before it, and never for the turn under way. */
void chat_submit_later(struct chat *chat, struct bl_text text);
/* Around work that Esc stops: chat->scope is its scope. */
void chat_busy_begin(struct chat *chat);
void chat_busy_end(struct chat *chat);
/* Stops the turn under way, or skips its graces when it is being stopped already. False: nothing
 * runs. */
bool chat_interrupt(struct chat *chat, enum bl_stop_reason reason, const char *origin);
void chat_leave(struct chat *chat, int exit_code);

/* ---- chat_session.c -------------------------------------------------------------------------- */

/* The one that the command line names. */
int chat_open_session(struct chat *chat, struct bl_error *error);
/* One in which nothing was ever asked goes without a trace. */
void chat_close_session(struct chat *chat);
/* Who answers, where, and under which rules; what was said last. */
void chat_say_opened(struct chat *chat);
/* Closes the session, and opens that one. When it cannot be had, it is said why, and the one before
 * goes on. */
void chat_change_session(struct chat *chat, const char *id);
/* Asks about each MCP server of the project that nobody has agreed to. A yes is remembered. */
void chat_ask_servers(struct chat *chat);
/* A warning that the user has read already. */
bool chat_was_told(const struct chat *chat, struct bl_text warning);

/* ---- chat_draw.c ----------------------------------------------------------------------------- */

/* The screen and what is on it, once the terminal is open. */
void chat_draw_begin(struct chat *chat);
void chat_redraw(struct chat *chat);
int chat_draw_main(void *chat); /* a fiber: draws when something has changed */
/* What is left is drawn, and our lines are taken away. */
void chat_draw_end(struct chat *chat);
/* A line of ours in the conversation. */
void chat_say(struct chat *chat, const char *format, ...) BL_PRINTF(2, 3);
/* A row of a list: `name`, and beside it the text, which stays in its column. */
void chat_say_row(struct chat *chat, const char *name, const char *format, ...) BL_PRINTF(3, 4);
/* Something that needs attention. */
void chat_warn(struct chat *chat, struct bl_text text);
void chat_say_error(struct chat *chat, const struct bl_error *error);

/* ---- chat_input.c ---------------------------------------------------------------------------- */

int chat_input_main(void *chat); /* a fiber: keys */
/* Ctrl+C: the turn, then the line, then the conversation. */
void chat_press_interrupt(struct chat *chat, enum bl_stop_reason reason, const char *origin);
int chat_ask(void *chat, const struct bl_question *question, enum bl_reply *ret_reply);

/* ---- chat_lines.c ---------------------------------------------------------------------------- */

int chat_lines_main(void *chat); /* a fiber: lines of standard input */
void chat_lines_event(struct chat *chat, const struct bl_event *event);
/* A receipt (JSON), as a line for people. */
void chat_lines_receipt(struct chat *chat, struct bl_text receipt);

/* ---- chat_command.c -------------------------------------------------------------------------- */

/* True: it was a command, and is done. `now`: a turn is under way; false for those that have to
 * wait for its end. */
bool chat_command_run(struct chat *chat, struct bl_text text, bool now);
bool chat_is_command(struct bl_text text);

#endif
