/* The screen, drawn when something has changed. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "state.h"

/* The minimum time between frames; the interval during a turn, for the clock in the status line;
 * the interval while a background command is running, whose end causes no event. */
#define FRAME_NS      (33 * BL_NS_PER_MS)
#define TICK_NS       (120 * BL_NS_PER_MS)
#define BACKGROUND_NS (500 * BL_NS_PER_MS)
/* A blocked terminal delays the end no longer than this. */
#define END_NS          BL_NS_PER_S
#define LISTENER_NAP_NS (10 * BL_NS_PER_MS)
/* Bytes shown of each queued message. */
#define WAITING_SHOWN_MAX 300u
#define NAME_SHOWN_MAX    32u
#define COLUMNS_MIN       4u
#define REMARK_COLUMNS    ((size_t)1 << 20)
#define ROWS_MIN          2u

static const struct text_style dim = {.dim = true}, yellow = {.colour = TEXT_YELLOW};

void chat_measure(struct chat *chat)
{
    terminal_size(chat->terminal, &chat->columns, &chat->rows);
    chat->columns = chat->columns < COLUMNS_MIN ? COLUMNS_MIN : chat->columns;
    chat->rows = chat->rows < ROWS_MIN ? ROWS_MIN : chat->rows;
    if (chat->view != NULL)
        chat_view_resize(chat->view, chat->columns);
}

void chat_draw_begin(struct chat *chat)
{
    chat_measure(chat);
    chat->view = chat_view_new(chat->columns, chat->colours);
    edit_screen_init(&chat->screen, chat->columns, chat->rows, chat->colours);
    chat->screen.reflows = terminal_reflows();
}

void chat_redraw(struct chat *chat)
{
    if (chat->terminal != NULL && chat->dirty.count == 0)
        bl_semaphore_give(&chat->dirty);
}

/* Returns the last component of a long name that is a path. */
static const char *draw_short_name(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash != NULL && slash[1] != '\0' && strlen(name) > NAME_SHOWN_MAX ? slash + 1 : name;
}

static unsigned count_jobs(const struct chat *chat)
{
    unsigned count = 0;

    BL_LIST_EACH (link, &chat->work.activities.list)
        count += strcmp(BL_CONTAINER(link, struct bl_activity, link)->kind, "job") == 0;
    return count;
}

/* Fills in the running work and its start. */
static void read_phase(struct chat *chat, struct status *status)
{
    uint64_t since_ns = 0, now_ns = bl_now_ns();

    if (!chat->busy)
        return;
    uint64_t deadline_ns = bl_scope_deadline_ns(&chat->scope);
    if (deadline_ns != BL_NEVER)
        status->deadline_left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    status->phase = chat_view_phase(chat->view, &since_ns);
    /* For a turn that has not started yet, and for other work. */
    if (status->phase == NULL)
        status->phase = "working";
    status->phase_ns = since_ns > 0 && now_ns > since_ns ? now_ns - since_ns : 0;
    status->stopping = bl_scope_stopped(&chat->scope);
    bl_usage_add(&status->usage, &chat->usage);
    bl_usage_add(&status->usage, &chat->call_usage);
}

static void append_status(struct chat *chat, struct bl_buffer *out)
{
    struct run_work *work = &chat->work;
    struct status status = {.deadline_left_ns = BL_NEVER, .tick = chat->tick};

    if (chat->agent == NULL) {
        status.phase = chat->leaving ? "leaving" : "changing the session";
    } else {
        enum bl_sandbox sandbox = bl_toolbox_sandbox(work->workspace->toolbox);
        status.model = draw_short_name(bl_agent_model(chat->agent)->name);
        status.mode = bl_permission_mode_name(bl_permissions_mode(work->workspace->permissions));
        status.sandbox = sandbox == BL_SANDBOX_OFF ? NULL : bl_sandbox_name(sandbox);
        status.context_used = chat->context_used;
        status.context_max = bl_agent_model(chat->agent)->input_tokens_max;
        status.usage = bl_agent_session(chat->agent)->usage;
        status.spent = *bl_agent_spent(chat->agent);
        status.agents = chat_view_agents(chat->view);
        status.jobs = count_jobs(chat);
        read_phase(chat, &status);
    }
    status_line(&status, chat->columns, chat->colours, out);
}

static void append_waiting(struct chat *chat, const struct bl_list *messages, struct bl_buffer *out)
{
    BL_LIST_EACH (link, messages) {
        struct bl_text text = BL_CONTAINER(link, struct bl_inbox_message, link)->text;
        struct text_wrap wrap;
        text_wrap_init(&wrap, out, chat->columns, chat->colours);
        text_wrap_add(&wrap, BL_TEXT("queued: "), &dim);
        text_wrap_add(&wrap, bl_utf8_cut(text, WAITING_SHOWN_MAX), &dim);
        if (text.size > WAITING_SHOWN_MAX)
            text_wrap_add(&wrap, BL_TEXT("…"), &dim);
        text_wrap_end_line(&wrap);
        text_wrap_done(&wrap);
    }
}

/* Appends the current output and the queued messages. */
static void append_live(struct chat *chat, struct bl_buffer *out)
{
    size_t lines_max = chat->rows > 8 ? chat->rows - 6 : 2;

    chat_view_live(chat->view, lines_max, out);
    if (chat->busy && chat->agent != NULL)
        append_waiting(chat, bl_agent_waiting(chat->agent), out);
    append_waiting(chat, &chat->prompts.waiting, out);
}

/* Handles changes of the window and requests by keys. */
static void prepare_screen(struct chat *chat, struct bl_buffer *out)
{
    if (chat->resized) {
        chat->resized = false;
        chat_measure(chat);
        edit_screen_resize(&chat->screen, chat->columns, chat->rows, out);
    }
    if (chat->wiped) {
        chat->wiped = false;
        edit_screen_clear(&chat->screen, out);
        bl_buffer_append(out, BL_TEXT("\x1B[H\x1B[J"));
    }
}

static void draw_conversation(struct chat *chat, struct bl_buffer *out)
{
    struct bl_buffer above, live, status;

    bl_buffer_init(&above, SIZE_MAX);
    bl_buffer_init(&live, SIZE_MAX);
    bl_buffer_init(&status, SIZE_MAX);
    prepare_screen(chat, out);
    chat_view_take_lines(chat->view, &above);
    append_live(chat, &live);
    if (chat->question != NULL)
        chat_question_write(chat, &live);
    append_status(chat, &status);
    struct edit_view view = {
        .live = bl_buffer_text(&live),
        .status = bl_buffer_text(&status),
        .prompt = chat->line.vim.normal ? BL_TEXT(": ") : BL_TEXT("> "),
        .spaced = true,
        .line = &chat->line,
        .hint = chat->hint.size > 0 ? bl_buffer_text(&chat->hint)
                : chat->busy        ? BL_TEXT("Esc to stop · type to steer")
                                    : BL_TEXT("Type a prompt, or /help"),
        .menu = bl_buffer_text(&chat->menu),
    };
    if (chat->pick != NULL)
        chat_pick_draw(chat, &live, &status, &view);
    edit_screen_draw(&chat->screen, &view, bl_buffer_text(&above), out);
    bl_buffer_done(&above);
    bl_buffer_done(&live);
    bl_buffer_done(&status);
}

static void cli_draw(struct chat *chat)
{
    BL_AUTO_BUFFER(out, SIZE_MAX);

    if (!chat_pager_draw(chat, &out))
        draw_conversation(chat, &out);
    bl_buffer_append(&out, bl_buffer_text(&chat->signs));
    bl_buffer_clear(&chat->signs);
    chat_show_title(chat);
    terminal_write(chat->terminal, bl_buffer_text(&out));
}

/* Removes our lines for the shell and suspends; they are drawn again afterwards. */
static void suspend(struct chat *chat)
{
    struct bl_buffer out;

    chat->suspending = false;
    bl_buffer_init(&out, SIZE_MAX);
    chat_pager_draw(chat, &out);
    edit_screen_clear(&chat->screen, &out);
    terminal_write(chat->terminal, bl_buffer_text(&out));
    bl_buffer_done(&out);
    terminal_suspend(chat->terminal);
}

/* Waits until there is something to draw or the clock has to be updated. */
static int await_change(struct chat *chat)
{
    uint64_t limit_ns = chat->busy || chat->agent == NULL ? TICK_NS
                        : count_jobs(chat) > 0            ? BACKGROUND_NS
                                                          : 0;
    struct bl_scope moment;

    if (limit_ns == 0)
        return bl_semaphore_take(&chat->dirty);
    bl_limit_begin(&moment, limit_ns);
    bl_semaphore_take(&chat->dirty);
    bl_limit_end(&moment);
    return bl_check();
}

int chat_draw_main(void *argument)
{
    struct chat *chat = argument;
    int code = 0;

    chat_redraw(chat);
    while (code == 0 && !chat->drawn_last && (code = await_change(chat)) == 0) {
        uint64_t now_ns = bl_now_ns();
        if (now_ns - chat->drawn_ns < FRAME_NS)
            code = bl_sleep(FRAME_NS - (now_ns - chat->drawn_ns));
        chat->drawn_ns = bl_now_ns();
        chat->tick = (unsigned)(chat->drawn_ns / TICK_NS);
        while (bl_semaphore_try_take(&chat->dirty) == 0)
            continue;
        if (chat->suspending)
            suspend(chat);
        if (chat->editing && code == 0) {
            chat_editor_run(chat);
            code = bl_check();
        }
        if (code == 0)
            cli_draw(chat);
    }
    return code;
}

void chat_draw_end(struct chat *chat)
{
    struct bl_scope moment;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    if (chat->terminal == NULL)
        return;
    chat->paging = false;
    chat_pager_draw(chat, &out);
    BL_AUTO_BUFFER(lines, SIZE_MAX);
    chat_view_end_text(chat->view);
    chat_view_take_lines(chat->view, &lines);
    struct edit_view nothing = {0};
    edit_screen_draw(&chat->screen, &nothing, bl_buffer_text(&lines), &out);
    edit_screen_clear(&chat->screen, &out);
    bl_limit_begin(&moment, END_NS);
    terminal_write(chat->terminal, bl_buffer_text(&out));
    bl_limit_end(&moment);
}

/* ---- Messages of belay ----------------------------------------------------------------------- */

/* Waits until standard error accepts some lines: it may be a full pipe. Returns false if the wait
 * is given up. */
static bool draw_await_listener(const struct chat *chat)
{
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};

    while (poll(&error, 1, 0) == 0) {
        if (bl_scope_stopped(&chat->work.wait_limit) || bl_sleep(LISTENER_NAP_NS) != 0)
            return false;
    }
    return true;
}

/* Prints to standard error, over lines. Foreign text must not control a terminal there. */
static void remark(const struct chat *chat, struct bl_text text)
{
    static const struct text_style plain = {0};
    BL_AUTO_BUFFER(out, SIZE_MAX);

    if (!draw_await_listener(chat))
        return;
    text_wrap_all(text, &plain, REMARK_COLUMNS, false, &out);
    cli_remark(bl_buffer_text(&out));
}

void chat_say(struct chat *chat, const char *format, ...)
{
    struct bl_buffer text;
    va_list arguments;

    bl_buffer_init(&text, SIZE_MAX);
    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    if (chat->view != NULL)
        chat_view_say(chat->view, bl_buffer_text(&text), &dim);
    else
        remark(chat, bl_buffer_text(&text));
    bl_buffer_done(&text);
    chat_redraw(chat);
}

void chat_say_row(struct chat *chat, const char *name, const char *format, ...)
{
    char mark[CHAT_NAME_WIDTH + 1];
    struct bl_buffer text;
    va_list arguments;

    bl_buffer_init(&text, SIZE_MAX);
    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    snprintf(mark, sizeof mark, "%-13.14s ", name);
    if (chat->view != NULL)
        chat_view_row(chat->view, mark, bl_buffer_text(&text), &dim);
    else
        chat_say(chat, "%s " BL_TEXT_FORMAT, name, BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    chat_redraw(chat);
}

void chat_warn(struct chat *chat, struct bl_text text)
{
    if (chat->view != NULL)
        chat_view_row(chat->view, "! ", text, &yellow);
    else
        remark(chat, text);
    chat_redraw(chat);
}

void chat_say_error(struct chat *chat, const struct bl_error *error)
{
    char text[sizeof error->message + sizeof error->hint + 4];

    snprintf(text, sizeof text, "%s%s%s", error->message, error->hint[0] != '\0' ? "; " : "",
             error->hint);
    chat_warn(chat, bl_text_from(text));
}
