#include "markdown_text.h"

static const char *const starts[] = {"",   "- ", "* ",  "1. ", "2) ",  "> ",   "  ",     "    ",
                                     "\t", "# ", "   ", "+ ",  "> - ", "- - ", "      ", "> > "};
static const char *const middles[] = {
    "word",
    "two words",
    "*em*",
    "**strong",
    "`code`",
    "`",
    "| a | b |",
    "|---|---|",
    "---",
    "===",
    "***",
    "```",
    "~~~",
    "```c",
    "````",
    "[x](y)",
    "https://x.test/y",
    "<br>",
    "&amp;",
    "日本語",
    "[ ] task",
    "\\*",
    "~~del~~",
    "<b>html",
    "#",
    "-",
    "a  ",
    "|x|",
    "é",
    "\x1b[31m",
    "___",
    "a very much longer line of text with many words in it, `some code`, and **more** of them"};

static void add_line(struct bl_random *random, bool plain, struct bl_buffer *text)
{
    const char *start = starts[bl_random_below(random, BL_COUNT(starts))];
    const char *middle = middles[bl_random_below(random, BL_COUNT(middles))];
    const char *more = middles[bl_random_below(random, BL_COUNT(middles))];
    bool fence = middle[0] == '~' || strncmp(middle, "```", 3) == 0;

    bl_buffer_append(text, bl_text_from(plain && fence ? "" : start));
    bl_buffer_append(text, bl_text_from(middle));
    if (!plain || (more[0] != '`' && more[0] != '~'))
        bl_buffer_append(text, bl_text_from(more));
}

void markdown_text(struct bl_random *random, bool plain, struct bl_buffer *text)
{
    bool empty = false;

    bl_buffer_clear(text);
    for (uint64_t lines = bl_random_below(random, 14); lines > 0; lines--) {
        empty = bl_random_below(random, 4) == 0 && !(plain && (empty || text->size == 0));
        if (!empty)
            add_line(random, plain, text);
        bl_buffer_append(text, bl_random_below(random, 20) == 0 ? BL_TEXT("\r\n") : BL_TEXT("\n"));
    }
}
