/* Keys: what they do to the line, to the turn, and to a question. */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

/* Twice within that time: it is meant. */
#define TWICE_NS (2 * BL_NS_PER_S)
/* What is typed so soon after a question came up was begun before it. */
#define QUESTION_DEAF_NS (400 * BL_NS_PER_MS)
#define MENU_LINES       8u
/* A folder that hangs must not keep the keys from us any longer. */
#define COMPLETION_NS (500 * BL_NS_PER_MS)
/* A command of more bytes than that, or of several lines, is shown whole before it is asked about:
 * the question itself may have to cut it. */
#define COMMAND_SHORT 160u

/* ---- Questions ------------------------------------------------------------------------------- */

static void show_whole(struct chat *chat, const struct bl_question *question)
{
    static const struct text_style plain = {0};
    struct bl_text command = bl_json_text(bl_json_get(question->input, BL_TEXT("command")));
    bool lines = command.size > 0 && memchr(command.data, '\n', command.size) != NULL;

    if (!lines && command.size <= COMMAND_SHORT)
        return;
    chat_say(chat, "%s wants to run:", question->tool);
    chat_view_row(chat->view, "  ", command, &plain);
}

int chat_ask(void *context, const struct bl_question *question, enum bl_reply *ret_reply)
{
    struct chat *chat = context;
    struct chat_question waiting = {.asked = question, .since_ns = bl_now_ns()};

    bl_semaphore_init(&waiting.answered, 0);
    show_whole(chat, question);
    chat->question = &waiting;
    chat_redraw(chat);
    int code = bl_semaphore_take(&waiting.answered);
    chat->question = NULL;
    chat_redraw(chat);
    *ret_reply = waiting.reply;
    return code;
}

static bool input_read_reply(const struct chat_question *question, struct bl_text text,
                             enum bl_reply *ret_reply)
{
    if (text.size != 1)
        return false;
    switch (text.data[0]) {
    case 'y':
    case 'Y': *ret_reply = BL_REPLY_YES; return true;
    case 'n':
    case 'N': *ret_reply = BL_REPLY_NO; return true;
    case 'a':
    case 'A':
        *ret_reply = BL_REPLY_ALWAYS;
        /* Where it cannot be remembered it is not offered, and would be more than was said. */
        return question->asked->rule.size > 0;
    default: return false;
    }
}

/* True: the key was an answer. What came too early to be one is text, and with it what follows;
 * such a text that is an answer and nothing else becomes it with Enter. */
static bool input_answer(struct chat *chat, const struct key *key)
{
    struct chat_question *question = chat->question;
    struct bl_text line = edit_line_text(&chat->line);
    enum bl_reply reply;

    if (question == NULL || chat->line.searching)
        return false;
    if (key->type == KEY_ENTER) {
        if (!input_read_reply(question, bl_text_trim(line), &reply))
            return false;
        edit_line_set(&chat->line, (struct bl_text){0});
    } else if (key->type != KEY_TEXT || line.size > 0 ||
               bl_now_ns() - question->since_ns < QUESTION_DEAF_NS ||
               !input_read_reply(question, key->text, &reply)) {
        return false;
    }
    question->reply = reply;
    chat->question = NULL;
    bl_semaphore_give(&question->answered);
    return true;
}

/* ---- Completion ------------------------------------------------------------------------------ */

/* Folders may hang: they are read on a thread that can be left behind. */
struct completion {
    struct bl_arena arena;
    struct edit_line line;
    const char *directory;
    struct bl_list candidates;
};

static void completion_free(void *payload)
{
    struct completion *completion = payload;

    edit_line_done(&completion->line);
    bl_arena_done(&completion->arena);
    bl_free(completion);
}

static void completion_run(void *payload)
{
    struct completion *completion = payload;

    edit_complete(&completion->arena, &completion->line, chat_commands, completion->directory,
                  &completion->candidates);
}

static void show_candidates(struct chat *chat, const struct bl_list *candidates)
{
    struct text_style plain = {0}, dim = {.dim = true};
    struct text_wrap wrap;
    size_t lines = 0;

    text_wrap_init(&wrap, &chat->menu, chat->columns, chat->colours);
    BL_LIST_EACH (link, candidates) {
        const struct edit_candidate *candidate = BL_CONTAINER(link, struct edit_candidate, link);
        if (++lines > MENU_LINES) {
            text_wrap_add(&wrap, BL_TEXT("…"), &dim);
            text_wrap_end_line(&wrap);
            break;
        }
        text_wrap_add(&wrap, text_cut_width(candidate->text, chat->columns - 2), &plain);
        if (candidate->note.size > 0 && chat->columns >= 40) {
            text_wrap_add(&wrap, BL_TEXT("  "), &plain);
            size_t taken = text_width(candidate->text) + 4;
            text_wrap_add(
                &wrap,
                text_cut_width(candidate->note, taken < chat->columns ? chat->columns - taken : 0),
                &dim);
        }
        text_wrap_end_line(&wrap);
    }
    text_wrap_done(&wrap);
}

static void input_complete(struct chat *chat)
{
    struct completion *completion = bl_zalloc(sizeof *completion);
    struct bl_work job = {.run = completion_run,
                          .drop = completion_free,
                          .payload = completion,
                          .abandon_on_stop = true};
    bool abandoned;

    bl_arena_init(&completion->arena);
    bl_list_init(&completion->candidates);
    edit_line_init(&completion->line, NULL);
    edit_line_set(&completion->line, edit_line_text(&chat->line));
    completion->line.cursor = chat->line.cursor;
    completion->directory =
        bl_arena_text(&completion->arena, bl_text_from(chat->work.options->workspace.directory))
            .data;
    struct bl_scope moment;
    bl_limit_begin(&moment, COMPLETION_NS);
    int code = bl_work_call(&job, &abandoned);
    bl_limit_end(&moment);
    if (code == BL_ETIMEDOUT)
        bl_buffer_append(&chat->menu, BL_TEXT("the folder does not answer\n"));
    if (code == 0) {
        bool changed = edit_line_complete(&chat->line, &completion->candidates);
        bool several = completion->candidates.next != completion->candidates.previous;
        if (!changed && several)
            show_candidates(chat, &completion->candidates);
    }
    if (code == 0 || !abandoned)
        completion_free(completion);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void input_enter(struct chat *chat)
{
    struct bl_text text = edit_line_text(&chat->line);

    if (text.size > 0 && text.data[text.size - 1] == '\\') {
        struct key backspace = {.type = KEY_BACKSPACE};
        chat->line.cursor = text.size;
        edit_line_key(&chat->line, &backspace);
        edit_line_insert(&chat->line, BL_TEXT("\n"));
        return;
    }
    if (bl_text_trim(text).size == 0)
        return;
    char *copy = bl_alloc(text.size);
    memcpy(copy, text.data, text.size);
    struct bl_text submitted = bl_text_trim((struct bl_text){copy, text.size});
    edit_line_set(&chat->line, (struct bl_text){0});
    chat_submit(chat, submitted);
    bl_free(copy);
    /* So that it is taken up before the next key, which may be the one that stops it. */
    bl_yield();
}

void chat_press_interrupt(struct chat *chat, enum bl_stop_reason reason, const char *origin)
{
    uint64_t now_ns = bl_now_ns();

    if (chat_interrupt(chat, reason, origin))
        return;
    if (edit_line_text(&chat->line).size > 0) {
        edit_line_set(&chat->line, (struct bl_text){0});
        return;
    }
    if (chat->interrupt_ns != 0 && now_ns - chat->interrupt_ns < TWICE_NS) {
        chat_leave(chat, CLI_EXIT_OK);
        return;
    }
    chat->interrupt_ns = now_ns;
    bl_buffer_clear(&chat->hint);
    bl_buffer_append(&chat->hint, BL_TEXT("Ctrl+C again leaves"));
}

static void end_of_input(struct chat *chat)
{
    if (edit_line_text(&chat->line).size > 0) {
        struct key delete_next = {.type = KEY_DELETE};
        edit_line_key(&chat->line, &delete_next);
        return;
    }
    chat_interrupt(chat, BL_STOP_USER, "Ctrl+D");
    chat_leave(chat, CLI_EXIT_OK);
}

static void input_take_key(struct chat *chat, const struct key *key)
{
    bl_buffer_clear(&chat->menu);
    bl_buffer_clear(&chat->hint);
    if (key->type != KEY_INTERRUPT)
        chat->interrupt_ns = 0;
    if (input_answer(chat, key))
        return;
    /* Keys are about the search while there is one; only a turn is stopped all the same. */
    if (chat->line.searching && !(key->type == KEY_INTERRUPT && chat->busy) &&
        edit_line_key(&chat->line, key))
        return;
    switch ((int)key->type) {
    case KEY_ENTER: input_enter(chat); return;
    case KEY_TAB: input_complete(chat); return;
    case KEY_INTERRUPT: chat_press_interrupt(chat, BL_STOP_USER, "Ctrl+C"); return;
    case KEY_ESCAPE: chat_interrupt(chat, BL_STOP_USER, "Esc"); return;
    case KEY_EOF: end_of_input(chat); return;
    case KEY_SUSPEND: chat->suspending = true; return;
    case KEY_CLEAR: chat->wiped = true; return;
    default: break;
    }
    edit_line_key(&chat->line, key);
    if (key->cut)
        chat_say(chat, "The paste was too long: it is cut after %zu MiB.", KEYS_PASTE_MAX >> 20);
}

/* While we leave, keys still hurry what is being stopped. */
static void take_keys(struct chat *chat, bool patient)
{
    struct key key;

    while (keys_next(&chat->keys, patient, &key)) {
        if (!chat->leaving)
            input_take_key(chat, &key);
        else if (key.type == KEY_INTERRUPT || key.type == KEY_ESCAPE || key.type == KEY_EOF)
            chat_interrupt(chat, BL_STOP_USER, "Ctrl+C");
    }
}

int chat_input_main(void *argument)
{
    struct chat *chat = argument;
    struct terminal_input input;
    int code;

    for (;;) {
        bool pending = keys_pending(&chat->keys);
        code = terminal_read(chat->terminal, pending ? KEYS_ESCAPE_NS : 0, &input);
        if (code != 0 && code != BL_EAGAIN)
            break;
        if (code == 0 && input.gone) {
            chat_interrupt(chat, BL_STOP_CLIENT_GONE, "terminal");
            chat_leave(chat, CLI_EXIT_CLIENT_GONE);
            break;
        }
        if (code == 0 && input.resized) {
            chat->resized = true;
            bl_buffer_clear(&chat->menu);
        }
        if (code == 0)
            keys_add(&chat->keys, input.bytes);
        take_keys(chat, code == 0);
        chat_redraw(chat);
    }
    return code;
}
