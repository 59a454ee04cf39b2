/* Shared by the files that lay out a Markdown tree.
 *
 * Containers (quotes, lists, items) are levels; each has a mark for its first line and blanks or a
 * bar for the others. The text in them is a leaf: laid out by text_wrap after the marks of all
 * levels. An empty line between blocks is only recorded at first, and written before the next line,
 * if there is one. */
#ifndef BELAY_CLI_MARKDOWN_RENDER_H
#define BELAY_CLI_MARKDOWN_RENDER_H

#include "markdown_parse.h"

struct markdown_level {
    enum {
        LEVEL_QUOTE,
        LEVEL_LIST,
        LEVEL_ITEM,
    } type;
    bool filled; /* it has content: the next block is separated by an empty line */
    bool tight;  /* of a list and its items: blocks are not separated */
    bool begun;  /* its first line has been written */
    bool ordered;
    char delimiter;
    unsigned number;
    char mark[32]; /* before the first line */
    char rest[32]; /* before the others; same width */
    size_t width;
};

struct markdown_renderer {
    struct bl_buffer *out;
    size_t start; /* size of `out` at the start */
    size_t columns;
    bool colours;
    struct markdown_level *levels;
    size_t level_count, level_capacity;
    bool gap; /* an empty line is due */
    size_t gap_levels;
    struct text_wrap wrap;
    bool leaf; /* `wrap` is in use */
    struct bl_buffer first_indent, indent;
    unsigned strong, emphasis, strike, code_span, link, image, heading;
    struct bl_buffer link_text, link_url, image_url;
    struct bl_buffer literal; /* of the current node */
    bool table_open, cell_open;
    struct markdown_table table;
};

/* ---- markdown_level.c ------------------------------------------------------------------------ */

/* Begins a block in the innermost level, separated from the previous one if need be. */
void markdown_begin_block(struct markdown_renderer *renderer);
/* Opens a leaf with `more` after the marks of the levels, unless one is open. */
void markdown_open_leaf(struct markdown_renderer *renderer, const char *more);
void markdown_close_leaf(struct markdown_renderer *renderer);

void markdown_enter_quote(struct markdown_renderer *renderer);
void markdown_enter_list(struct markdown_renderer *renderer, cmark_node *node);
void markdown_enter_item(struct markdown_renderer *renderer, cmark_node *node);
void markdown_leave_level(struct markdown_renderer *renderer);

#endif
