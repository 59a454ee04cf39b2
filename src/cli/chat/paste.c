/* Long pastes: a label in the input line, and the full text in the prompt that is sent. */
#include <stdio.h>

#include "state.h"

/* Shorter pastes are inserted as text. */
#define PASTE_LINES_MIN 10u
#define PASTE_BYTES_MIN 2000u
/* Number of pastes that are remembered; labels of older ones are sent as typed. */
#define PASTES_MAX 64u

struct chat_paste {
    struct bl_list link;
    char label[64];
    struct bl_text text; /* follows the struct, in the same allocation */
};

static size_t paste_line_count(struct bl_text text)
{
    size_t lines = text.size > 0 && text.data[text.size - 1] != '\n';

    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    return lines;
}

static bool paste_has(const struct chat *chat, const char *label)
{
    BL_LIST_EACH (link, &chat->pastes)
        if (strcmp(BL_CONTAINER(link, struct chat_paste, link)->label, label) == 0)
            return true;
    return false;
}

/* Makes the label "[pasted 500 lines]", with a number if it is taken. */
static void paste_name(const struct chat *chat, struct chat_paste *paste)
{
    size_t lines = paste_line_count(paste->text);
    const char *unit = lines > 1 ? "lines" : "bytes";
    size_t count = lines > 1 ? lines : paste->text.size;

    snprintf(paste->label, sizeof paste->label, "[pasted %zu %s]", count, unit);
    for (unsigned number = 2; paste_has(chat, paste->label); number++)
        snprintf(paste->label, sizeof paste->label, "[pasted %zu %s, %u]", count, unit, number);
}

bool chat_paste_take(struct chat *chat, struct bl_text text)
{
    if (paste_line_count(text) < PASTE_LINES_MIN && text.size < PASTE_BYTES_MIN)
        return false;
    if (chat->paste_count == PASTES_MAX) {
        bl_free(BL_CONTAINER(bl_list_pop_front(&chat->pastes), struct chat_paste, link));
        chat->paste_count--;
    }
    struct chat_paste *paste = bl_zalloc(sizeof *paste + text.size);
    memcpy(paste + 1, text.data, text.size);
    paste->text = (struct bl_text){(const char *)(paste + 1), text.size};
    paste_name(chat, paste);
    bl_list_push_back(&chat->pastes, &paste->link);
    chat->paste_count++;
    edit_line_insert(&chat->line, bl_text_from(paste->label));
    return true;
}

/* Replaces every `from` by `to`. */
static struct bl_text paste_replace(struct bl_arena *arena, struct bl_text text,
                                    struct bl_text from, struct bl_text to)
{
    ptrdiff_t at = bl_text_find(text, from);
    BL_AUTO_BUFFER(out, SIZE_MAX);

    if (at < 0 || from.size == 0)
        return text;
    for (; at >= 0; at = bl_text_find(text, from)) {
        bl_buffer_append(&out, (struct bl_text){text.data, (size_t)at});
        bl_buffer_append(&out, to);
        text.data += (size_t)at + from.size;
        text.size -= (size_t)at + from.size;
    }
    bl_buffer_append(&out, text);
    return bl_arena_text(arena, bl_buffer_text(&out));
}

struct bl_text chat_paste_unfold(const struct chat *chat, struct bl_arena *arena,
                                 struct bl_text text)
{
    BL_LIST_EACH (link, &chat->pastes) {
        const struct chat_paste *paste = BL_CONTAINER(link, struct chat_paste, link);
        text = paste_replace(arena, text, bl_text_from(paste->label), paste->text);
    }
    return text;
}

struct bl_text chat_paste_fold(const struct chat *chat, struct bl_arena *arena, struct bl_text text)
{
    BL_LIST_EACH (link, &chat->pastes) {
        const struct chat_paste *paste = BL_CONTAINER(link, struct chat_paste, link);
        text = paste_replace(arena, text, bl_text_trim(paste->text), bl_text_from(paste->label));
    }
    return text;
}

void chat_paste_done(struct chat *chat)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(&chat->pastes)) != NULL)
        bl_free(BL_CONTAINER(link, struct chat_paste, link));
}
