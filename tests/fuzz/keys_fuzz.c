/* Bytes of a terminal, whole and in pieces: the same keys, valid text, nothing of a sequence in it.
 * What they do to a line leaves it valid, and it can be drawn. The first byte chooses the pieces
 * and the size of the window. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "keys_fuzz: %s\n", what);
    abort();
}

static bool has_control(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F)
            return true;
    }
    return false;
}

/* Texts beside each other are one. */
static void take_keys(struct keys *keys, bool patient, struct edit_line *line,
                      struct bl_buffer *out)
{
    struct key key;

    while (keys_next(keys, patient, &key)) {
        check(bl_utf8_valid(key.text), "text that is not UTF-8");
        check(key.type == KEY_TEXT || key.type == KEY_PASTE || key.type == KEY_REPLY ||
                  key.text.size == 0,
              "a text too many");
        check(key.type != KEY_TEXT || !has_control(key.text), "control characters in a text");
        if (key.type != KEY_TEXT || out->size == 0 || out->data[out->size - 1] != '\xFF')
            bl_buffer_printf(out, "\xFE%d", (int)key.type);
        else
            out->size--;
        bl_buffer_append(out, key.text);
        bl_buffer_append_byte(out, key.type == KEY_TEXT ? '\xFF' : '\xFD');
        edit_line_key(line, &key);
        check(line->cursor <= line->text.size, "the cursor is outside");
        check(bl_utf8_valid(edit_line_text(line)), "a line that is not UTF-8");
    }
}

static void read_in_pieces(struct bl_text bytes, size_t piece_max, struct edit_line *line,
                           struct bl_buffer *out)
{
    struct keys keys;
    uint32_t turn = 1;

    keys_init(&keys);
    for (size_t at = 0; at < bytes.size;) {
        turn = turn * 1103515245u + 12345u;
        size_t size = piece_max == 0 ? bytes.size : turn / 65536u % piece_max + 1;
        size = size > bytes.size - at ? bytes.size - at : size;
        keys_add(&keys, (struct bl_text){bytes.data + at, size});
        take_keys(&keys, true, line, out);
        at += size;
    }
    take_keys(&keys, false, line, out);
    check(!keys_pending(&keys), "impatience has decided nothing");
    keys_done(&keys);
}

static void draw(const struct edit_line *line, size_t columns, size_t rows)
{
    struct edit_screen screen;
    struct edit_view view = {.prompt = BL_TEXT("> "), .line = line, .status = BL_TEXT("status")};
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    edit_screen_init(&screen, columns, rows, true);
    edit_screen_draw(&screen, &view, BL_TEXT(""), &out);
    check(screen.height < (rows > 2 ? rows : 2), "higher than the screen");
    check(screen.cursor_row < screen.height, "the cursor is not in our lines");
    bl_buffer_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bl_text bytes = {(const char *)data + 1, size - 1};
    struct bl_buffer whole, pieces;
    struct history *history = history_new();
    struct edit_line first, second;

    history_add(history, BL_TEXT("one\ntwo"));
    history_add(history, BL_TEXT("three \u6F22"));
    bl_buffer_init(&whole, SIZE_MAX / 2);
    bl_buffer_init(&pieces, SIZE_MAX / 2);
    edit_line_init(&first, history);
    edit_line_init(&second, history);
    read_in_pieces(bytes, 0, &first, &whole);
    read_in_pieces(bytes, data[0] % 16u + 1, &second, &pieces);
    check(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)),
          "the pieces decide what the keys are");
    draw(&first, data[0] / 4u + 1, data[0] % 32u + 1);
    edit_line_done(&first);
    edit_line_done(&second);
    history_free(history);
    bl_buffer_done(&whole);
    bl_buffer_done(&pieces);
    return 0;
}
