/* The state of one conversation, in a terminal or over lines, shared by the files of `belay chat`.
 */
#ifndef BELAY_CLI_CHAT_STATE_H
#define BELAY_CLI_CHAT_STATE_H

#include "chat.h"
#include "cli/run/run.h"

/* A question that is waiting for its answer. */
struct chat_question {
    const struct bl_question *asked;
    uint64_t since_ns; /* keys pressed in the first moment are not answers */
    struct bl_semaphore answered;
    struct bl_answer answer;
    enum {
        KEEP_HERE, /* for the rest of the conversation */
        KEEP_IN_PROJECT,
        KEEP_EVERYWHERE,
    } keep;       /* for the answer "always" */
    bool telling; /* the user is typing what to do instead */
};

/* The cost of the conversation, by model. */
struct chat_costs {
    struct {
        char name[160];
        struct bl_spent spent;
    } models[16];
    size_t count;
    struct bl_spent turn; /* the last turn */
};

struct custom_files;
struct chat_editor;
struct chat_pick;

struct chat {
    struct run_work work;  /* options, files, model, tools, store */
    struct bl_scope *home; /* of the whole conversation */
    struct bl_nursery nursery;
    struct bl_agent *agent; /* NULL while the session is being changed */
    struct bl_listener listener;
    struct bl_asker asker;
    bool interactive;          /* standard input and output are a terminal */
    struct terminal *terminal; /* NULL over lines */
    struct keys keys;
    struct edit_line line;
    struct history *history;
    struct edit_screen screen;
    struct chat_view *view;
    bool colours;
    uint64_t asked_ns; /* when the terminal was asked for its background; 0 if it was not */
    size_t columns, rows;
    struct bl_semaphore dirty; /* given when there is something to draw */
    uint64_t drawn_ns;
    unsigned tick;
    /* Requests to the drawing fiber, the only one that writes to the terminal. */
    bool resized;
    struct chat_pager *pager;   /* NULL while the conversation is shown */
    bool paging;                /* set and cleared by keys */
    bool wiped;                 /* Ctrl+L */
    bool suspending;            /* Ctrl+Z */
    bool editing;               /* Ctrl+G: start the editor */
    struct chat_editor *editor; /* the editor that has the terminal; NULL if none */
    bool drawn_last;            /* the conversation has ended */
    struct bl_buffer menu;
    struct bl_buffer hint;
    struct bl_buffer signs; /* a bell or a notification, written with the next frame */
    uint64_t key_ns;        /* when the last key was pressed */
    uint64_t busy_since_ns;
    /* Queued prompts and commands. */
    struct bl_inbox prompts;
    struct bl_semaphore ready;
    enum bl_permission_mode first_mode; /* permission mode at the start */
    bool unused;                        /* we created the open session, and it has no prompt yet */
    struct bl_list pastes;              /* long ones, oldest first: see paste.c */
    unsigned paste_count;
    struct bl_list images; /* from the clipboard, oldest first: see image.c */
    unsigned image_count;
    struct bl_scope *clipboard; /* of the program that reads it; NULL if none runs */
    /* The turn in progress. */
    bool busy;
    struct bl_scope scope;
    bool hurried;
    struct chat_question *question; /* NULL if none */
    struct chat_pick *pick;         /* the choice of a session; NULL if none is in progress */
    struct bl_usage usage;          /* of this turn's completed calls */
    struct bl_usage call_usage;
    uint64_t context_used;               /* by the last request and its answer; 0 if unknown */
    struct custom_files *custom;         /* users' own commands; NULL if not read */
    const struct edit_command *commands; /* including those; ends in a row without a name */
    struct chat_costs costs;             /* of the open session */
    char model_chosen[256];              /* by /model; empty for the initial model */
    struct bl_buffer shell_said;         /* output of the user's commands, for the next prompt */
    uint64_t interrupt_ns; /* when Ctrl+C was pressed with nothing to stop; 0 if it was not */
    struct bl_buffer told; /* warnings shown when the session was opened, LF after each: the first
                              turn has them as events as well */
    /* Over lines. */
    struct bl_scope reader; /* stopped when the reader of the answers closes its end */
    struct bl_stop_hook reader_hook;
    bool mid_line; /* the answer's last line has no LF yet */
    bool leaving;
    int exit_code;
};

/* ---- chat.c ---------------------------------------------------------------------------------- */

/* Submits a prompt or a command: it is given to the turn in progress, or queued until running work
 * has ended. */
void chat_submit(struct chat *chat, struct bl_text text);
/* Submits a prompt that is not checked for commands and not kept in the history. */
void chat_give(struct chat *chat, struct bl_text prompt);
/* As chat_submit, but always queued, and never given to the turn in progress. */
void chat_submit_later(struct chat *chat, struct bl_text text);
/* Enclose work that Esc stops; chat->scope is its scope. */
void chat_busy_begin(struct chat *chat);
void chat_busy_end(struct chat *chat);
/* Stops the turn in progress, or skips its grace periods if it is already being stopped. Returns
 * false if nothing is running. */
bool chat_interrupt(struct chat *chat, enum bl_stop_reason reason, const char *origin);
void chat_leave(struct chat *chat, int exit_code);

/* ---- session.c ------------------------------------------------------------------------------- */

/* Opens the session that the command line names. */
int chat_open_session(struct chat *chat, struct bl_error *error);
/* Lets the user choose the first session, on a terminal. Returns false if none is opened: the chat
 * then ends. */
bool chat_open_picked(struct chat *chat);
/* Lets the user choose another session. */
void chat_change_picked(struct chat *chat);
/* Closes the session; deletes it if it never had a prompt. */
void chat_close_session(struct chat *chat);
/* Shows model, folder, session, permissions and sandbox, and the last turn. */
void chat_say_opened(struct chat *chat);
/* Closes the session and opens another one. If that fails, reports why and continues the former
 * one. */
void chat_change_session(struct chat *chat, const char *id);
/* The same with a new session; the former one is kept if it has turns. */
void chat_new_session(struct chat *chat);
/* Returns true, and the id, if the open session has turns. */
bool chat_can_be_resumed(const struct chat *chat, char id[72]);
/* Prints the command that resumes the session, at the end of the program. */
void chat_say_resume(struct chat *chat, const char *id);
/* Asks about each MCP server of the project that is not approved yet. A yes is remembered. */
void chat_ask_servers(struct chat *chat);
/* True if the warning has already been shown. */
bool chat_was_told(const struct chat *chat, struct bl_text warning);

/* ---- pick.c ---------------------------------------------------------------------------------- */

/* Lets the user choose a session on the terminal; waits in the running fiber. Returns false if none
 * is chosen. `*ret_fork` is true if the session is in use and the user wants a copy. */
bool chat_pick(struct chat *chat, char ret_id[72], bool *ret_fork);
/* While a session is being chosen: take a key, draw the list, cancel. */
void chat_pick_key(struct chat *chat, const struct key *key);
void chat_pick_draw(struct chat *chat, struct bl_buffer *live, struct bl_buffer *status,
                    struct edit_view *view);
void chat_pick_leave(struct chat *chat);

/* ---- draw.c ---------------------------------------------------------------------------------- */

/* Sets up the screen, once the terminal is open. */
void chat_draw_begin(struct chat *chat);
void chat_redraw(struct chat *chat);
/* Reads the size of the window and lays out for it from now on. */
void chat_measure(struct chat *chat);
int chat_draw_main(void *chat); /* main of the drawing fiber */
/* Draws the rest and removes the status and input lines. */
void chat_draw_end(struct chat *chat);
/* Prints a line of belay in the conversation. */
void chat_say(struct chat *chat, const char *format, ...) BL_PRINTF(2, 3);
/* Prints a row of a list: `name`, and beside it the text, which is wrapped within its column. */
void chat_say_row(struct chat *chat, const char *name, const char *format, ...) BL_PRINTF(3, 4);
/* Prints a warning. */
void chat_warn(struct chat *chat, struct bl_text text);
void chat_say_error(struct chat *chat, const struct bl_error *error);

/* ---- theme.c --------------------------------------------------------------------------------- */

/* Chooses colours by option, configuration, environment or terminal; waits briefly for the
 * terminal's reply. */
void chat_choose_colours(struct chat *chat);
/* Takes a KEY_REPLY, even a late one. */
void chat_take_reply(struct chat *chat, struct bl_text reply);
/* Call before reading keys: after a while, no reply is expected any more. */
void chat_expect_reply(struct chat *chat);

/* ---- pager.c --------------------------------------------------------------------------------- */

/* Shows the whole transcript on the terminal's alternate screen. */
void chat_pager_open(struct chat *chat);
void chat_pager_free(struct chat *chat);
/* Returns true if the pager has handled the key. */
bool chat_pager_key(struct chat *chat, const struct key *key);
/* Draws the pager, in the drawing fiber. Returns false if the conversation is to be drawn. */
bool chat_pager_draw(struct chat *chat, struct bl_buffer *out);

/* ---- notify.c -------------------------------------------------------------------------------- */

/* Notifies the user as configured, if no key was pressed for a while. */
void chat_notify(struct chat *chat, const char *text);
/* Sets the title of the window, in the drawing fiber. */
void chat_show_title(struct chat *chat);

/* ---- input.c --------------------------------------------------------------------------------- */

int chat_input_main(void *chat); /* main of the fiber that reads keys */
/* Handles Ctrl+C: stops the turn, or clears the line, or leaves. */
void chat_press_interrupt(struct chat *chat, enum bl_stop_reason reason, const char *origin);

/* ---- steer/question.c ------------------------------------------------------------------------ */

int chat_ask(void *chat, const struct bl_question *question, struct bl_answer *ret_answer);
/* Returns true if the key was an answer or part of one. */
bool chat_question_key(struct chat *chat, const struct key *key);
/* Writes the question and the keys that answer it, for display below the call that it is about. */
void chat_question_write(struct chat *chat, struct bl_buffer *out);

/* ---- steer/permissions.c --------------------------------------------------------------------- */

/* /permissions */
void chat_permissions(struct chat *chat, struct bl_text argument);
/* Keeps an allow rule permanently: for this project, or everywhere. */
void chat_permissions_keep(struct chat *chat, struct bl_text rule, bool everywhere);

/* ---- steer/cost.c ---------------------------------------------------------------------------- */

/* /cost and /model */
void chat_cost(struct chat *chat, struct bl_text argument);
void chat_model(struct chat *chat, struct bl_text argument);
/* Adds the cost of a turn. */
void chat_cost_add(struct chat *chat, const struct bl_spent *spent);

/* ---- steer/changes.c ------------------------------------------------------------------------- */

/* /diff */
void chat_changes(struct chat *chat, struct bl_text argument);

/* ---- steer/shell.c --------------------------------------------------------------------------- */

/* True for "!make test" on a terminal; otherwise such a line is an ordinary prompt. */
bool chat_is_shell(const struct chat *chat, struct bl_text text);
void chat_shell(struct chat *chat, struct bl_text text);
/* Returns the prompt with the commands run since the last one, in the arena. */
struct bl_text chat_shell_prompt(struct chat *chat, struct bl_text prompt, struct bl_arena *arena);
void chat_shell_forget(struct chat *chat);

/* ---- steer/custom.c -------------------------------------------------------------------------- */

void chat_custom_load(struct chat *chat);
void chat_custom_free(struct chat *chat);
/* Returns false if there is no command of that name ("/review"). */
bool chat_custom_run(struct chat *chat, const char *name, struct bl_text arguments);

/* ---- steer/editor.c -------------------------------------------------------------------------- */

/* Runs the user's editor on the line until it ends, in the drawing fiber. */
void chat_editor_run(struct chat *chat);
/* While the editor runs, pass it keys and the size of the window. */
void chat_editor_keys(struct chat *chat, struct bl_text bytes);
void chat_editor_resize(struct chat *chat);

/* ---- steer/mode.c ---------------------------------------------------------------------------- */

/* Shift+Tab: changes to the next permission mode. */
void chat_mode_next(struct chat *chat);
/* /vim: switches vim keys on or off. */
void chat_mode_vim(struct chat *chat, struct bl_text argument);
/* /plan: changes to mode plan; the rest is a prompt. */
void chat_mode_plan(struct chat *chat, struct bl_text prompt);

/* ---- paste.c --------------------------------------------------------------------------------- */

/* Inserts a long paste into the line as a label, "[pasted 500 lines]". Returns false if it is
 * short. */
bool chat_paste_take(struct chat *chat, struct bl_text text);
/* Replace labels by the pasted texts, and back. The result is in the arena, or the text itself. */
struct bl_text chat_paste_unfold(const struct chat *chat, struct bl_arena *arena,
                                 struct bl_text text);
struct bl_text chat_paste_fold(const struct chat *chat, struct bl_arena *arena,
                               struct bl_text text);
void chat_paste_done(struct chat *chat);

/* ---- image.c --------------------------------------------------------------------------------- */

/* Ctrl+V: reads the clipboard, in a fiber of its own, and inserts the label of its image into the
 * line, "[image 1]", or says why there is none. */
void chat_image_paste(struct chat *chat);
/* True if the prompt has the label of an image. */
bool chat_image_named(const struct chat *chat, struct bl_text prompt);
/* Adds these images, with a note for each. */
void chat_image_attach(const struct chat *chat, struct bl_text prompt, struct bl_arena *arena,
                       struct bl_attached *attached);
void chat_image_done(struct chat *chat);

/* ---- context.c ------------------------------------------------------------------------------- */

void chat_say_context(struct chat *chat);

/* ---- lines.c --------------------------------------------------------------------------------- */

int chat_lines_main(void *chat); /* main of the fiber that reads lines of standard input */
void chat_lines_event(struct chat *chat, const struct bl_event *event);
/* Prints a receipt (JSON) as a line for people. */
void chat_lines_receipt(struct chat *chat, struct bl_text receipt);

/* ---- command.c ------------------------------------------------------------------------------- */

/* Runs a command and returns true. With `now`, a turn is in progress: returns false for a command
 * that must wait for its end. */
bool chat_command_run(struct chat *chat, struct bl_text text, bool now);
bool chat_is_command(struct bl_text text);

#endif
