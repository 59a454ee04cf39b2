/* Keys: how they edit the line and steer the turn. */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

/* Ctrl+C twice within this time leaves. */
#define TWICE_NS   (2 * BL_NS_PER_S)
#define MENU_LINES 8u
/* A folder that hangs delays keys no longer than this. */
#define COMPLETION_NS (500 * BL_NS_PER_MS)

/* ---- Completion ------------------------------------------------------------------------------ */

/* A completion. Folders may hang, so they are read on a thread that can be abandoned. */
struct completion {
    struct bl_arena arena;
    struct edit_line line;
    const char *directory;
    const struct edit_command *commands; /* a copy, since the thread may be abandoned */
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

    edit_complete(&completion->arena, &completion->line, completion->commands,
                  completion->directory, &completion->candidates);
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

static const struct edit_command *input_copy_commands(struct bl_arena *arena,
                                                      const struct edit_command *commands)
{
    size_t count = 0;

    while (commands[count].name != NULL)
        count++;
    struct edit_command *copy = bl_arena_zalloc(arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i].name = bl_arena_text(arena, bl_text_from(commands[i].name)).data;
        copy[i].summary = bl_arena_text(arena, bl_text_from(commands[i].summary)).data;
    }
    return copy;
}

/* While a command is being typed, shows the matching commands below the line. */
static void input_follow_commands(struct chat *chat)
{
    struct bl_list candidates;
    BL_AUTO_ARENA(arena);

    if (chat->menu.size > 0 || chat->line.searching || chat->question != NULL)
        return;
    edit_complete_commands(&arena, &chat->line, chat->commands, &candidates);
    show_candidates(chat, &candidates);
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
    completion->commands = input_copy_commands(&completion->arena, chat->commands);
    completion->directory =
        bl_arena_text(&completion->arena, bl_text_from(chat->work.options->workspace.directory))
            .data;
    struct bl_scope moment;
    bl_limit_begin(&moment, COMPLETION_NS);
    int code = bl_work_call(&job, &abandoned);
    bl_limit_end(&moment);
    if (code == BL_ETIMEDOUT)
        bl_buffer_append(&chat->menu, BL_TEXT("the folder does not respond\n"));
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
    BL_AUTO_ARENA(arena);
    struct bl_text submitted = chat_paste_unfold(chat, &arena, bl_arena_text(&arena, text));
    edit_line_set(&chat->line, (struct bl_text){0});
    chat_submit(chat, bl_text_trim(submitted));
    /* Let the prompt start before the next key, which may be the one that stops it. */
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
    bl_buffer_append(&chat->hint, BL_TEXT("Ctrl+C again to leave"));
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
    if (key->type == KEY_REPLY) {
        chat_take_reply(chat, key->text);
        return;
    }
    chat->key_ns = bl_now_ns();
    if (chat->pick != NULL) {
        chat_pick_key(chat, key);
        return;
    }
    bl_buffer_clear(&chat->menu);
    bl_buffer_clear(&chat->hint);
    if (chat_pager_key(chat, key))
        return;
    if (key->type != KEY_INTERRUPT)
        chat->interrupt_ns = 0;
    if (chat_question_key(chat, key))
        return;
    /* During a search all keys belong to it, except Ctrl+C while a turn is running. */
    if (chat->line.searching && !(key->type == KEY_INTERRUPT && chat->busy) &&
        edit_line_key(&chat->line, key))
        return;
    switch ((int)key->type) {
    case KEY_ENTER: input_enter(chat); return;
    case KEY_TAB: input_complete(chat); return;
    case KEY_BACKTAB: chat_mode_next(chat); return;
    case KEY_INTERRUPT: chat_press_interrupt(chat, BL_STOP_USER, "Ctrl+C"); return;
    case KEY_ESCAPE:
        if (!edit_vim_waits(&chat->line)) {
            chat_interrupt(chat, BL_STOP_USER, "Esc");
            return;
        }
        break;
    case KEY_EDITOR: chat->editing = true; return;
    case KEY_IMAGE: chat_image_paste(chat); return;
    case KEY_EOF: end_of_input(chat); return;
    case KEY_SUSPEND: chat->suspending = true; return;
    case KEY_CLEAR: chat->wiped = true; return;
    case KEY_EXPAND: chat_pager_open(chat); return;
    default: break;
    }
    if (key->type != KEY_PASTE || !chat_paste_take(chat, key->text))
        edit_line_key(&chat->line, key);
    if (key->cut)
        chat_say(chat, "The paste was too long: it was cut after %zu MiB.", KEYS_PASTE_MAX >> 20);
}

/* Handles pending keys. While leaving, keys can still skip grace periods. */
static void take_keys(struct chat *chat, bool patient)
{
    struct key key;

    while (keys_next(&chat->keys, patient, &key)) {
        if (!chat->leaving) {
            input_take_key(chat, &key);
            input_follow_commands(chat);
        }
        if (chat->leaving &&
            (key.type == KEY_INTERRUPT || key.type == KEY_ESCAPE || key.type == KEY_EOF))
            chat_interrupt(chat, BL_STOP_USER, "Ctrl+C");
    }
}

int chat_input_main(void *argument)
{
    struct chat *chat = argument;
    struct terminal_input input;
    int code;

    /* Keys pressed before this fiber started. */
    take_keys(chat, true);
    for (;;) {
        bool pending = keys_pending(&chat->keys);
        chat_expect_reply(chat);
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
            chat_editor_resize(chat);
            bl_buffer_clear(&chat->menu);
        }
        if (code == 0 && chat->editor != NULL) {
            chat_editor_keys(chat, input.bytes);
            continue;
        }
        if (code == 0)
            keys_add(&chat->keys, input.bytes);
        take_keys(chat, code == 0);
        chat_redraw(chat);
    }
    return code;
}
