/* The first byte chooses the language; the rest is code. The pieces of a line are the line, and none
 * is empty; a second look from the same place finds the same; nothing crashes or reads beyond the
 * end, which stands right before an unmapped page. */
#include "guard_page.h"
#include "term/term.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pieces {
    struct bl_text rest; /* of the line */
    uint64_t sum;        /* of where they begin and what they look like */
};

static void take_piece(void *context, struct bl_text piece, const struct text_style *style)
{
    struct pieces *pieces = context;

    REQUIRE(piece.size > 0 && piece.size <= pieces->rest.size);
    REQUIRE(piece.data == pieces->rest.data);
    pieces->rest.data += piece.size;
    pieces->rest.size -= piece.size;
    pieces->sum = pieces->sum * 31 + piece.size * 64 + style->colour * 4 + style->tint;
}

static uint64_t look(struct highlight *highlight, struct bl_text line)
{
    struct pieces pieces = {.rest = line};

    highlight_line(highlight, line, take_piece, &pieces);
    REQUIRE(pieces.rest.size == 0);
    return pieces.sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"c",    "python", "js",   "go",  "rust", "sh",
                                        "json", "yaml",   "diff", "txt", "ruby", ""};
    static struct guard_page guard;
    struct highlight highlight;
    struct bl_text line;

    if (size < 1)
        return 0;
    struct bl_text rest =
        guard_page_before(&guard, (struct bl_text){(const char *)data + 1, size - 1});
    highlight_begin(&highlight, rest);
    highlight_begin(&highlight, bl_text_from(names[data[0] % BL_COUNT(names)]));
    while (bl_text_split(&rest, '\n', &line)) {
        struct highlight again = highlight;
        uint64_t first = look(&highlight, line);
        REQUIRE(look(&again, line) == first && again.open == highlight.open);
    }
    return 0;
}
