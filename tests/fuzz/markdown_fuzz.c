/* Two bytes choose the window, the colours and the pieces; the rest is Markdown. However it is cut,
 * the lines are the same, none is wider than the window, and no escape sequence is in them that is
 * not ours; nothing crashes, leaks or hangs. Pending text is checked on the way. The text
 * stands right before an unmapped page: the parser is not instrumented. */
#include "cli/chat/chat.h"
#include "guard_page.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ESC [ digits and semicolons m. */
static size_t sequence_size(struct bl_text text)
{
    size_t size = 2;

    REQUIRE(text.size > 2 && text.data[1] == '[');
    while (size < text.size &&
           (text.data[size] == ';' || (text.data[size] >= '0' && text.data[size] <= '9')))
        size++;
    REQUIRE(size < text.size && text.data[size] == 'm');
    return size + 1;
}

static void check_lines(struct bl_text text, size_t columns, bool colours)
{
    struct bl_text line;

    REQUIRE(text.size == 0 || text.data[text.size - 1] == '\n');
    REQUIRE(bl_utf8_valid(text));
    while (bl_text_split(&text, '\n', &line)) {
        REQUIRE(text_line_width(line) <= columns);
        for (size_t i = 0; i < line.size; i++) {
            unsigned char byte = (unsigned char)line.data[i];
            REQUIRE(byte >= 0x20 || (byte == '\x1b' && colours));
            if (byte == '\x1b')
                i += sequence_size((struct bl_text){line.data + i, line.size - i}) - 1;
        }
    }
}

static void render(struct bl_text text, size_t columns, bool colours, size_t piece,
                   struct bl_buffer *out)
{
    struct markdown *markdown = markdown_new(columns, colours);
    struct bl_buffer pending;
    size_t looks = 0, step = text.size / piece / 8 + 1;

    bl_buffer_init(&pending, SIZE_MAX / 2);
    while (text.size > 0) {
        size_t size = piece < text.size ? piece : text.size;
        markdown_add(markdown, (struct bl_text){text.data, size});
        text.data += size;
        text.size -= size;
        if (++looks % step != 0)
            continue;
        markdown_pending(markdown, 5, &pending);
        check_lines(bl_buffer_text(&pending), columns, colours);
    }
    markdown_end(markdown);
    markdown_take_lines(markdown, out);
    check_lines(bl_buffer_text(out), columns, colours);
    markdown_free(markdown);
    bl_buffer_done(&pending);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct guard_page guard;
    struct bl_buffer whole, pieces, at_once;

    if (size < 2)
        return 0;
    struct bl_text text =
        guard_page_before(&guard, (struct bl_text){(const char *)data + 2, size - 2});
    size_t columns = 4 + data[0] % 120, piece = 1 + (data[1] >> 1);
    bool colours = (data[1] & 1) != 0;
    bl_buffer_init(&whole, SIZE_MAX / 2);
    bl_buffer_init(&pieces, SIZE_MAX / 2);
    bl_buffer_init(&at_once, SIZE_MAX / 2);
    render(text, columns, colours, size, &whole);
    render(text, columns, colours, piece, &pieces);
    REQUIRE(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)));
    markdown_render(text, columns, colours, &at_once);
    check_lines(bl_buffer_text(&at_once), columns, colours);
    bl_buffer_done(&whole);
    bl_buffer_done(&pieces);
    bl_buffer_done(&at_once);
    return 0;
}
