/* Design notes.
 *
 * Three fibers share one loop with the fibers of the agent: one reads the terminal and edits the
 * line, one draws, one runs turns and commands in order. None of them waits for the work of
 * another: a key is echoed while a tool runs, and the fiber that reads the key calls bl_scope_stop
 * itself. Each turn has a scope of its own, so that a stop that is too late for one turn never
 * reaches the next. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <belay/serve.h>

#include "state.h"

/* Time that a blocked terminal may delay the end. */
#define LAST_FRAME_NS (250 * BL_NS_PER_MS)

/* ---- Prompts and commands -------------------------------------------------------------------- */

/* A command that does not wait for the end of the turn. It runs in a fiber of its own, because it
 * may have to wait for other things. */
struct side_command {
    struct chat *chat;
    struct bl_inbox said; /* the command */
};

static int side_main(void *argument)
{
    struct side_command *side = argument;
    struct bl_inbox_message *message = bl_inbox_take(&side->said);

    if (!chat_command_run(side->chat, message->text, true))
        chat_submit_later(side->chat, message->text);
    chat_redraw(side->chat);
    bl_free(message);
    bl_free(side);
    return 0;
}

static void run_beside(struct chat *chat, struct bl_text text)
{
    struct side_command *side = bl_zalloc(sizeof *side);

    side->chat = chat;
    bl_inbox_init(&side->said);
    bl_inbox_put(&side->said, text, NULL);
    if (bl_nursery_spawn(&chat->nursery, NULL, "command", side_main, side, NULL) != 0)
        side_main(side);
}

void chat_submit(struct chat *chat, struct bl_text text)
{
    if (chat->history != NULL)
        history_add(chat->history, text);
    if (chat->busy && chat_is_command(text)) {
        run_beside(chat, text);
        return;
    }
    if (chat_is_shell(chat, text))
        chat_submit_later(chat, text);
    else
        chat_give(chat, text);
}

void chat_give(struct chat *chat, struct bl_text prompt)
{
    /* A running turn takes text only. */
    if (chat->busy && !bl_scope_stopped(&chat->scope) && !chat_image_named(chat, prompt) &&
        bl_agent_inject(chat->agent, prompt, NULL) == 0)
        chat_redraw(chat);
    else
        chat_submit_later(chat, prompt);
}

void chat_submit_later(struct chat *chat, struct bl_text text)
{
    if (bl_inbox_put(&chat->prompts, text, NULL) == 0)
        bl_semaphore_give(&chat->ready);
    chat_redraw(chat);
}

bool chat_interrupt(struct chat *chat, enum bl_stop_reason reason, const char *origin)
{
    if (!chat->busy)
        return false;
    if (bl_scope_stop(&chat->scope, reason, origin)) {
        chat_redraw(chat);
        return true;
    }
    if (bl_scope_stopped(&chat->scope) && !chat->hurried) {
        chat->hurried = true;
        bl_toolbox_hurry(chat->work.workspace->toolbox);
    }
    return true;
}

void chat_leave(struct chat *chat, int exit_code)
{
    if (!chat->leaving)
        chat->exit_code = exit_code;
    chat->leaving = true;
    chat_pick_leave(chat);
    if (chat->clipboard != NULL)
        bl_scope_stop(chat->clipboard, BL_STOP_USER, "the end of the conversation");
    bl_semaphore_give(&chat->ready);
}

/* Stops running work and leaves. */
static void chat_break_off(struct chat *chat, enum bl_stop_reason reason, const char *origin,
                           int exit_code)
{
    chat_interrupt(chat, reason, origin);
    if (chat->work.workspace->toolbox != NULL)
        bl_toolbox_retire(chat->work.workspace->toolbox);
    chat_leave(chat, exit_code);
}

/* ---- A turn ---------------------------------------------------------------------------------- */

static void follow_usage(struct chat *chat, const struct bl_event *event)
{
    /* A usage is a snapshot of one call; the next call adds to the sum. */
    if (event->type == BL_EVENT_USAGE && event->agent == NULL) {
        chat->call_usage = *event->usage;
        chat->context_used = bl_usage_total(event->usage);
    }
    if (event->type == BL_EVENT_COMPACTED && event->agent == NULL)
        chat->context_used = 0;
    bool next = event->type == BL_EVENT_TOOL_REQUESTED && !event->nested;
    if (next || event->type == BL_EVENT_TURN_STARTED) {
        bl_usage_add(&chat->usage, &chat->call_usage);
        chat->call_usage = (struct bl_usage){0};
    }
}

static void chat_on_event(void *context, const struct bl_event *event)
{
    struct chat *chat = context;

    follow_usage(chat, event);
    if (event->type == BL_EVENT_WARNING && chat_was_told(chat, event->text))
        return;
    if (chat->view != NULL)
        chat_view_event(chat->view, event);
    else
        chat_lines_event(chat, event);
    chat_redraw(chat);
}

void chat_busy_begin(struct chat *chat)
{
    chat->hurried = false;
    bl_toolbox_calm(chat->work.workspace->toolbox);
    bl_scope_init(&chat->scope, &chat->work.scope);
    chat->busy = true;
    chat->busy_since_ns = bl_now_ns();
}

void chat_busy_end(struct chat *chat)
{
    chat->busy = false;
    bl_scope_done(&chat->scope);
}

/* Takes back messages that reached no turn. After a completed turn they are the next prompt; else
 * they return to the input line. */
static struct bl_text chat_take_back(struct chat *chat, bool completed, struct bl_arena *arena)
{
    struct bl_text text = bl_agent_take_back(chat->agent, arena);

    if (completed || text.size == 0)
        return text;
    if (chat->terminal == NULL) {
        chat_say(chat, "Not sent: " BL_TEXT_FORMAT, BL_TEXT_ARG(text));
        return (struct bl_text){0};
    }
    chat_say(chat, "Not sent: your message is back in the input.");
    struct bl_text draft = bl_arena_text(arena, edit_line_text(&chat->line));
    edit_line_set(&chat->line, draft.size == 0
                                   ? text
                                   : bl_arena_printf(arena, BL_TEXT_FORMAT "\n" BL_TEXT_FORMAT,
                                                     BL_TEXT_ARG(text), BL_TEXT_ARG(draft)));
    return (struct bl_text){0};
}

/* Attaches the files that the prompt names, as it was typed, and shows a line for each. A stop
 * during this stops the turn at its start. */
static void chat_attach(struct chat *chat, struct bl_text prompt, struct bl_arena *arena,
                        struct bl_attached *ret_attached)
{
    struct bl_workspace *workspace = chat->work.workspace;
    struct bl_scope *outer = bl_scope_enter(&chat->scope);

    bl_workspace_attach(workspace, prompt, bl_agent_model(chat->agent)->takes_images, arena,
                        ret_attached);
    bl_scope_enter(outer);
    chat_image_attach(chat, prompt, arena, ret_attached);
    BL_LIST_EACH (link, &ret_attached->notes)
        chat_say(chat, BL_TEXT_FORMAT,
                 BL_TEXT_ARG(BL_CONTAINER(link, struct bl_notice, link)->text));
    BL_LIST_EACH (link, &ret_attached->warnings)
        chat_warn(chat, BL_CONTAINER(link, struct bl_notice, link)->text);
}

/* Runs a turn in a scope of its own. Returns true if `*ret_next` has the next prompt. */
static bool chat_run_turn(struct chat *chat, struct bl_text prompt, struct bl_arena *arena,
                          struct bl_text *ret_next)
{
    struct bl_text typed = chat_paste_fold(chat, arena, prompt);
    uint64_t turns = bl_agent_session(chat->agent)->turns_total;
    struct bl_run_result result;
    struct bl_attached attached;

    if (chat->view != NULL)
        chat_view_prompt(chat->view, typed);
    chat->unused = false;
    chat->usage = chat->call_usage = (struct bl_usage){0};
    chat_busy_begin(chat);
    chat_attach(chat, typed, arena, &attached);
    struct bl_run_options run =
        bl_workspace_run(chat->work.workspace, chat_shell_prompt(chat, prompt, arena));
    run.max_turns = 1;
    bl_attached_give(&attached, &run);
    bl_agent_prompt(chat->agent, &run, &chat->scope, arena, &result);
    chat_notify(chat,
                result.end == BL_TURN_COMPLETED ? "the turn completed" : "the turn ended early");
    chat_busy_end(chat);
    chat_cost_add(chat, &result.spent);
    /* If the turn was not committed, the model has not seen the commands. */
    if (bl_agent_session(chat->agent)->turns_total > turns)
        chat_shell_forget(chat);
    chat->work.workspace->warning_count = 0;
    *ret_next = chat_take_back(chat, result.end == BL_TURN_COMPLETED && !chat->leaving, arena);
    chat_redraw(chat);
    return ret_next->size > 0;
}

static void chat_take_up(struct chat *chat, struct bl_text text)
{
    BL_AUTO_ARENA(arena);
    struct bl_text next;

    if (chat_is_command(text)) {
        chat_command_run(chat, text, false);
        chat_redraw(chat);
        return;
    }
    if (chat_is_shell(chat, text)) {
        chat_shell(chat, text);
        return;
    }
    if (chat_run_turn(chat, text, &arena, &next) && bl_inbox_put(&chat->prompts, next, NULL) == 0) {
        /* Ahead of everything submitted since. */
        struct bl_list *link = chat->prompts.waiting.previous;
        bl_list_remove(link);
        bl_list_push_front(&chat->prompts.waiting, link);
    }
}

/* Runs queued prompts and commands in order, until the chat ends. */
static int turns_main(void *argument)
{
    struct chat *chat = argument;
    struct bl_inbox_message *message;
    int code = 0;

    if (chat->agent == NULL && !chat_open_picked(chat))
        return 0;
    if (chat->terminal != NULL)
        chat_ask_servers(chat);
    while (!chat->leaving && (code = bl_semaphore_take(&chat->ready)) == 0) {
        while (!chat->leaving && (message = bl_inbox_take(&chat->prompts)) != NULL) {
            chat_take_up(chat, message->text);
            bl_free(message);
        }
    }
    return code;
}

/* ---- Signals --------------------------------------------------------------------------------- */

struct chat_signal {
    struct chat *chat;
    struct bl_signal *signal;
    int number;
    const char *name;
};

/* Handles a signal. SIGINT acts as Ctrl+C; the others end the conversation and keep its turns. Over
 * lines, every signal ends it, so that the user does not have to stop one prompt after another. */
static void take_signal(const struct chat_signal *each)
{
    struct chat *chat = each->chat;

    if (each->number == SIGINT && chat->terminal != NULL) {
        chat_press_interrupt(chat, BL_STOP_SIGNAL, each->name);
        chat_redraw(chat);
        return;
    }
    /* Do not wait for a reader that has stopped reading. */
    bl_scope_stop(&chat->work.wait_limit, BL_STOP_SIGNAL, each->name);
    chat_break_off(chat, BL_STOP_SIGNAL, each->name,
                   each->number == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE);
}

static int signal_main(void *argument)
{
    struct chat_signal *each = argument;
    uint64_t count;
    int code;

    while ((code = bl_signal_wait(each->signal, &count)) == 0) {
        for (uint64_t i = 0; i < count; i++)
            take_signal(each);
    }
    return code;
}

#define CHAT_SIGNALS 3

static void signals_start(struct chat *chat, struct bl_nursery *nursery,
                          struct chat_signal signals[CHAT_SIGNALS])
{
    static const struct {
        int number;
        const char *name;
    } wanted[CHAT_SIGNALS] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}};

    for (size_t i = 0; i < CHAT_SIGNALS; i++) {
        signals[i] =
            (struct chat_signal){.chat = chat, .number = wanted[i].number, .name = wanted[i].name};
        if (wanted[i].number == SIGHUP && cli_signal_ignored(SIGHUP))
            continue;
        if (bl_signal_new(wanted[i].number, &signals[i].signal) == 0)
            bl_nursery_spawn(nursery, NULL, wanted[i].name, signal_main, &signals[i], NULL);
    }
}

/* ---- The conversation ------------------------------------------------------------------------ */

/* Waits for the last frame, unless the terminal is blocked. */
static void await_last_frame(struct chat *chat, struct bl_fiber *drawing)
{
    struct bl_scope moment;

    chat->drawn_last = true;
    if (drawing == NULL)
        return;
    bl_semaphore_give(&chat->dirty);
    bl_limit_begin(&moment, LAST_FRAME_NS);
    bl_fiber_join(drawing, NULL);
    bl_limit_end(&moment);
}

/* Runs the conversation until the user leaves. */
static int chat_converse(struct chat *chat)
{
    struct chat_signal signals[CHAT_SIGNALS];
    struct bl_fiber *turns = NULL, *drawing = NULL;
    struct bl_nursery watch;

    bl_nursery_init(&chat->nursery, bl_scope_current());
    bl_nursery_init(&watch, bl_scope_current());
    signals_start(chat, &watch, signals);
    cli_describe_on_signal(&watch);
    int code = bl_nursery_spawn(&chat->nursery, NULL, "turns", turns_main, chat, &turns);
    if (code == 0 && chat->terminal == NULL)
        code = bl_nursery_spawn(&watch, NULL, "lines", chat_lines_main, chat, NULL);
    if (code == 0 && chat->terminal != NULL)
        code = bl_nursery_spawn(&watch, NULL, "keys", chat_input_main, chat, NULL);
    if (code == 0 && chat->terminal != NULL)
        code = bl_nursery_spawn(&watch, NULL, "draw", chat_draw_main, chat, &drawing);
    if (code == 0)
        bl_fiber_join(turns, NULL);
    bl_nursery_done(&chat->nursery);
    await_last_frame(chat, drawing);
    bl_nursery_done(&watch);
    for (size_t i = 0; i < CHAT_SIGNALS; i++)
        bl_signal_free(signals[i].signal);
    return code;
}

/* Redirects a log that would write over the screen. */
static void say_log(struct chat *chat)
{
    char path[1024];
    if (cli_log_aside(path, sizeof path))
        bl_workspace_warn(chat->work.workspace,
                          bl_arena_printf(&chat->work.arena, "the log is written to %s", path));
}

static int open_terminal(struct chat *chat, struct bl_error *error)
{
    if (!chat->interactive)
        return 0;
    int code = terminal_open(STDIN_FILENO, STDOUT_FILENO, &chat->terminal, error);
    if (code != 0)
        return code;
    chat->colours = cli_colour_wanted(STDOUT_FILENO);
    chat_choose_colours(chat);
    chat_draw_begin(chat);
    return 0;
}

static void load_history(struct chat *chat)
{
    struct bl_arena *arena = &chat->work.arena;
    const char *folder = bl_user_folder(arena, BL_USER_DATA, bl_variable);
    struct bl_error error = {0};

    chat->history = history_new();
    if (folder == NULL)
        return;
    struct bl_text path = bl_arena_printf(arena, "%s/history", folder);
    if (history_load(chat->history, path.data, &error) != 0)
        bl_workspace_warn(chat->work.workspace,
                          bl_arena_printf(arena, "cannot read the history: %s", error.message));
}

/* Stops the turn in progress with this reason, rather than through its parent scope. */
static void reader_gone(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct chat *chat = BL_CONTAINER(hook, struct chat, reader_hook);

    (void)scope;
    chat_break_off(chat, BL_STOP_CLIENT_GONE, "stdout", CLI_EXIT_CLIENT_GONE);
}

/* Opens standard output for answers if there is no terminal. */
static int chat_open_stream(struct chat *chat, struct bl_error *error)
{
    struct run_work *work = &chat->work;

    if (chat->interactive)
        return 0;
    bl_scope_init(&chat->reader, chat->home);
    int code =
        cli_stream_open(&work->stream, STDOUT_FILENO, &chat->reader, &work->wait_limit, error);
    if (code == 0)
        bl_stop_hook_add(&chat->reader_hook, &chat->reader, reader_gone);
    else
        bl_scope_done(&chat->reader);
    return code;
}

static void close_stream(struct chat *chat)
{
    if (chat->interactive)
        return;
    bl_stop_hook_remove(&chat->reader_hook);
    cli_stream_flush(&chat->work.stream);
    /* Never report success if an answer was not delivered. */
    if (chat->work.stream.failed != 0 && chat->exit_code == CLI_EXIT_OK)
        chat->exit_code =
            chat->work.stream.failed == EPIPE ? CLI_EXIT_CLIENT_GONE : CLI_EXIT_FAILED;
    cli_stream_close(&chat->work.stream);
    bl_scope_done(&chat->reader);
}

static void start_control(struct chat *chat, struct bl_nursery *services,
                          struct bl_control **ret_control)
{
    struct run_work *work = &chat->work;
    struct bl_error *error = bl_zalloc(sizeof *error);

    *ret_control = NULL;
    if (bl_control_start(services, &work->activities, ret_control, error) != 0) {
        *ret_control = NULL;
        bl_workspace_warn(
            work->workspace,
            bl_arena_printf(&work->arena,
                            "'belay ps' and 'belay cancel' cannot reach this session: %s",
                            error->message));
    }
    bl_free(error);
}

static int talk(struct chat *chat, struct bl_error *error)
{
    struct bl_control *control;
    struct bl_nursery services;
    char id[72];

    chat->home = bl_scope_current();
    chat->first_mode = bl_permissions_mode(chat->work.workspace->permissions);
    if (chat->interactive)
        say_log(chat);
    bool picks = chat->work.options->resumes && chat->work.options->resume == NULL;
    int code = picks ? 0 : chat_open_session(chat, error);
    if (code != 0)
        return code;
    bl_nursery_init(&services, bl_scope_current());
    start_control(chat, &services, &control);
    code = open_terminal(chat, error);
    if (code == 0)
        code = chat_open_stream(chat, error);
    bool opened = code == 0;
    if (opened) {
        edit_line_init(&chat->line, chat->history);
        chat->line.vim.on = chat->work.workspace->project->settings.chat.edit_mode == BL_EDIT_VIM;
        if (!picks)
            chat_say_opened(chat);
        if (chat->work.options->prompt != NULL)
            chat_submit(chat, bl_text_from(chat->work.options->prompt));
        code = chat_converse(chat);
        edit_line_done(&chat->line);
    }
    bool resumable = chat->interactive && opened && chat_can_be_resumed(chat, id);
    chat_close_session(chat);
    if (resumable)
        chat_say_resume(chat, id);
    if (opened)
        close_stream(chat);
    chat_draw_end(chat);
    terminal_close(chat->terminal);
    if (control != NULL)
        bl_control_stop(control);
    bl_nursery_done(&services);
    return code;
}

static int chat_main(void *argument)
{
    struct chat *chat = argument;
    struct run_work *work = &chat->work;

    bl_scope_init(&work->scope, bl_scope_current());
    bl_scope_init(&work->wait_limit, bl_scope_current());
    int code = run_begin(work);
    if (code == 0)
        code = bl_store_open(work->options->store, &work->store, &work->error);
    if (code == 0)
        code = cli_member_join(work->store, &work->scope, &work->options->workspace,
                               &work->activities, &work->member, &work->error);
    if (code == 0) {
        load_history(chat);
        chat_custom_load(chat);
        code = talk(chat, &work->error);
    }
    bl_workspace_shut(work->workspace);
    bl_fleet_leave(work->member);
    bl_store_close(work->store);
    bl_scope_done(&work->wait_limit);
    bl_scope_done(&work->scope);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct run_face chat_face = {.name = "chat"};

static int run_chat(struct cli_call *call, struct run_options *options)
{
    struct chat *chat = bl_zalloc(sizeof *chat);
    struct run_work *work = &chat->work;

    work->call = call;
    work->options = options;
    work->face = &chat_face;
    chat->commands = chat_commands;
    chat->interactive = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && terminal_moves();
    chat->listener = (struct bl_listener){chat_on_event, chat};
    chat->asker = (struct bl_asker){chat_ask, chat, 0};
    run_work_init(work);
    keys_init(&chat->keys);
    bl_inbox_init(&chat->prompts);
    bl_list_init(&chat->pastes);
    bl_list_init(&chat->images);
    bl_semaphore_init(&chat->ready, 0);
    bl_semaphore_init(&chat->dirty, 0);
    bl_buffer_init(&chat->menu, SIZE_MAX);
    bl_buffer_init(&chat->hint, SIZE_MAX);
    bl_buffer_init(&chat->signs, SIZE_MAX);
    bl_buffer_init(&chat->told, SIZE_MAX);
    bl_buffer_init(&chat->shell_said, SIZE_MAX);
    cli_processes_begin();
    bl_loop_catch_overflow();
    int code = bl_loop_once("chat", chat_main, chat, &work->error);
    int exit_code = chat->exit_code;
    if (code != 0) {
        bl_error_set(&work->error, code, BL_KIND_RUNTIME, "chat", NULL, "cannot start: %s",
                     bl_error_text(code));
        exit_code = cli_fail(call, &work->error, cli_error_exit_code(&work->error));
    }
    chat_pager_free(chat);
    chat_custom_free(chat);
    chat_view_free(chat->view);
    history_free(chat->history);
    keys_done(&chat->keys);
    bl_inbox_done(&chat->prompts);
    chat_paste_done(chat);
    chat_image_done(chat);
    bl_buffer_done(&chat->menu);
    bl_buffer_done(&chat->hint);
    bl_buffer_done(&chat->signs);
    bl_buffer_done(&chat->told);
    bl_buffer_done(&chat->shell_said);
    run_release(work);
    bl_free(chat);
    return exit_code;
}

int cli_chat_run(struct cli_call *call)
{
    struct bl_error error = {0};
    struct run_options options;

    int code = run_options_parse_chat(call, &options, &error);
    int exit_code;
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_usage(call, &error);
    else
        exit_code = run_chat(call, &options);
    run_options_done(&options);
    return exit_code;
}
