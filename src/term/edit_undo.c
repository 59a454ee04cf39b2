/* Undo and redo of the input line: the text before each change. */
#include "term.h"

/* Longer texts are not kept: otherwise each key would copy a paste of megabytes. */
#define UNDO_TEXT_MAX  ((size_t)64 * 1024)
#define UNDO_BYTES_MAX ((size_t)1024 * 1024)

static struct edit_state *undo_at(const struct edit_undo *undo, size_t index)
{
    return (struct edit_state *)(void *)undo->states.data + index;
}

static size_t undo_count(const struct edit_undo *undo)
{
    return undo->states.size / sizeof(struct edit_state);
}

/* Removes the states from index `from` on. */
static void undo_cut(struct edit_undo *undo, size_t from)
{
    for (size_t i = from; i < undo_count(undo); i++) {
        undo->bytes -= undo_at(undo, i)->text.size;
        bl_free((char *)(uintptr_t)undo_at(undo, i)->text.data);
    }
    if (from < undo_count(undo))
        undo->states.size = from * sizeof(struct edit_state);
}

void edit_undo_init(struct edit_undo *undo)
{
    *undo = (struct edit_undo){0};
    bl_buffer_init(&undo->states, SIZE_MAX / 2);
}

void edit_undo_done(struct edit_undo *undo)
{
    undo_cut(undo, 0);
    bl_buffer_done(&undo->states);
}

void edit_undo_clear(struct edit_undo *undo)
{
    undo_cut(undo, 0);
    undo->at = 0;
    undo->typing = false;
}

static struct edit_state undo_copy(struct bl_text text, size_t cursor)
{
    char *bytes = bl_alloc(text.size + 1);

    memcpy(bytes, text.size > 0 ? text.data : "", text.size);
    return (struct edit_state){{bytes, text.size}, cursor};
}

static void undo_push(struct edit_undo *undo, struct bl_text text, size_t cursor)
{
    struct edit_state state = undo_copy(text, cursor);

    bl_buffer_append(&undo->states, (struct bl_text){(const char *)&state, sizeof state});
    undo->bytes += text.size;
    /* Drop the oldest states. */
    while (undo->bytes > UNDO_BYTES_MAX && undo_count(undo) > 1) {
        undo->bytes -= undo_at(undo, 0)->text.size;
        bl_free((char *)(uintptr_t)undo_at(undo, 0)->text.data);
        bl_buffer_consume(&undo->states, sizeof(struct edit_state));
        undo->at -= undo->at > 0;
    }
}

void edit_undo_begin(struct edit_undo *undo, struct bl_text text, size_t cursor)
{
    undo->pending = text.size <= UNDO_TEXT_MAX;
    if (undo->pending)
        undo->before = undo_copy(text, cursor);
    else
        edit_undo_clear(undo);
}

void edit_undo_end(struct edit_undo *undo, struct bl_text text, bool typed)
{
    if (!undo->pending)
        return;
    struct bl_text before = undo->before.text;
    bool changed = !bl_text_equal(before, text);
    bool joined = typed && undo->typing && undo->at == undo_count(undo) && undo->at > 0;

    undo->pending = false;
    if (changed) {
        undo_cut(undo, undo->at);
        /* Consecutive typed characters are one change. */
        if (!joined)
            undo_push(undo, before, undo->before.cursor);
        undo->at = undo_count(undo);
    }
    undo->typing = typed && (changed || undo->typing);
    bl_free((char *)(uintptr_t)before.data);
}

bool edit_undo_back(struct edit_undo *undo, struct bl_text text, size_t cursor,
                    struct edit_state *ret_state)
{
    undo->typing = false;
    if (undo->at == 0 || text.size > UNDO_TEXT_MAX)
        return false;
    /* Makes it possible to redo to the current text. */
    if (undo->at == undo_count(undo))
        undo_push(undo, text, cursor);
    if (undo->at == 0)
        return false;
    *ret_state = *undo_at(undo, --undo->at);
    return true;
}

bool edit_undo_forward(struct edit_undo *undo, struct edit_state *ret_state)
{
    undo->typing = false;
    if (undo->at + 1 >= undo_count(undo))
        return false;
    *ret_state = *undo_at(undo, ++undo->at);
    return true;
}
