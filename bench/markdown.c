/* A long answer of a model: parsed, and laid out while it streams, with the pending part drawn
 * after each piece. The baseline is md4c with callbacks that do nothing. */
#include <stdlib.h>

#include <md4c.h>

#include "report.h"
#include "term/markdown_parse.h"

#define ANSWER_SIZE ((size_t)32 * 1024)
#define PIECE_SIZE  ((size_t)24)

static const char part[] =
    "## What was changed\n\n"
    "The loop in `src/wire/http.c` now ends when the *peer* closes, see **bound 3** of\n"
    "[the notes](https://x.test/notes) and https://x.test/issues/18 for the reasons. It was\n"
    "wrong before: the last piece was taken twice &mdash; once by the reader, once by `close`.\n\n"
    "- first the reader, which has its own buffer\n"
    "- then the writer\n"
    "  1. with a lock\n"
    "  2. and without\n\n"
    "| file | lines | what |\n|:-----|------:|------|\n| `http.c` | 12 | the loop |\n"
    "| `http.h` | 3 | its promise |\n\n"
    "```c\nfor (size_t i = 0; i < count; i++) {\n    if (!take(part[i]))\n        "
    "break;\n}\n```\n\n"
    "> Nothing else depends on it.\n\n";

static int count_block(MD_BLOCKTYPE type, void *detail, void *context)
{
    (void)type, (void)detail;
    ++*(size_t *)context;
    return 0;
}

static int count_span(MD_SPANTYPE type, void *detail, void *context)
{
    (void)type, (void)detail;
    ++*(size_t *)context;
    return 0;
}

static int count_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE size, void *context)
{
    (void)type, (void)text, (void)size;
    ++*(size_t *)context;
    return 0;
}

static double parse_baseline(struct bl_text text)
{
    static const MD_PARSER parser = {.flags = MD_DIALECT_GITHUB,
                                     .enter_block = count_block,
                                     .leave_block = count_block,
                                     .enter_span = count_span,
                                     .leave_span = count_span,
                                     .text = count_text};
    size_t count = 0;
    double start_ns = report_processor_ns();

    if (md_parse(text.data, (MD_SIZE)text.size, &parser, &count) != 0 || count == 0)
        report_die("md4c failed");
    return (report_processor_ns() - start_ns) / 1e6;
}

static double parse_ours(struct bl_text text)
{
    double start_ns = report_processor_ns();

    cmark_node *root = markdown_parse(text);
    cmark_iter *nodes = cmark_iter_new(root);
    while (cmark_iter_next(nodes) != CMARK_EVENT_DONE)
        continue;
    cmark_iter_free(nodes);
    cmark_node_free(root);
    return (report_processor_ns() - start_ns) / 1e6;
}

static double stream(struct bl_text text)
{
    struct markdown *markdown = markdown_new(100, true);
    struct bl_buffer lines, pending;

    bl_buffer_init(&lines, SIZE_MAX / 2);
    bl_buffer_init(&pending, SIZE_MAX / 2);
    double start_ns = report_processor_ns();
    while (text.size > 0) {
        size_t size = text.size < PIECE_SIZE ? text.size : PIECE_SIZE;
        markdown_add(markdown, (struct bl_text){text.data, size});
        markdown_take_lines(markdown, &lines);
        markdown_pending(markdown, 20, &pending);
        text.data += size;
        text.size -= size;
    }
    markdown_end(markdown);
    markdown_take_lines(markdown, &lines);
    double elapsed_ms = (report_processor_ns() - start_ns) / 1e6;
    markdown_free(markdown);
    bl_buffer_done(&lines);
    bl_buffer_done(&pending);
    return elapsed_ms;
}

int main(void)
{
    double ours[REPORT_ROUNDS], theirs[REPORT_ROUNDS], streams[REPORT_ROUNDS];
    struct bl_buffer answer;

    bl_buffer_init(&answer, SIZE_MAX / 2);
    while (answer.size < ANSWER_SIZE)
        bl_buffer_append(&answer, bl_text_from(part));
    struct bl_text text = bl_buffer_text(&answer);
    for (size_t i = 0; i < REPORT_ROUNDS; i++) {
        ours[i] = parse_ours(text);
        theirs[i] = parse_baseline(text);
        streams[i] = stream(text);
    }
    double parsed = report_median(theirs, REPORT_ROUNDS);
    report_line("parse 32 KiB of Markdown", report_median(ours, REPORT_ROUNDS), "ms", "md4c",
                parsed);
    report_line("lay out 32 KiB of Markdown as it streams", report_median(streams, REPORT_ROUNDS),
                "ms", "md4c, parsed once", parsed);
    bl_buffer_done(&answer);
    return 0;
}
