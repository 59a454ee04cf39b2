#include "markdown_render.h"

#include <cmark-gfm-core-extensions.h>
#include <stdio.h>

/* ---- Levels and lines ------------------------------------------------------------------------ */

static struct markdown_level *level_top(struct markdown_renderer *renderer)
{
    return renderer->level_count == 0 ? NULL : &renderer->levels[renderer->level_count - 1];
}

static void level_push(struct markdown_renderer *renderer, struct markdown_level level)
{
    if (renderer->level_count == renderer->level_capacity) {
        renderer->level_capacity = renderer->level_capacity * 2 + 8;
        renderer->levels =
            bl_realloc(renderer->levels, renderer->level_capacity * sizeof *renderer->levels);
    }
    renderer->levels[renderer->level_count++] = level;
}

/* Appends the marks of the first `count` levels, except those that leave too little room. */
static size_t level_add_marks(struct markdown_renderer *renderer, size_t count, bool rest,
                              struct bl_buffer *out)
{
    size_t width = 0;

    for (size_t i = 0; i < count; i++) {
        const struct markdown_level *level = &renderer->levels[i];
        if (width + level->width > renderer->columns / 2)
            break;
        bl_buffer_append(out, bl_text_from(rest || level->begun ? level->rest : level->mark));
        width += level->width;
    }
    return width;
}

static void level_write_gap(struct markdown_renderer *renderer)
{
    struct bl_buffer *out = renderer->out;

    if (!renderer->gap)
        return;
    renderer->gap = false;
    if (out->size == renderer->start)
        return;
    size_t levels = renderer->gap_levels;
    level_add_marks(renderer, levels < renderer->level_count ? levels : renderer->level_count, true,
                    out);
    while (out->size > renderer->start && out->data[out->size - 1] == ' ')
        out->size--;
    bl_buffer_append_byte(out, '\n');
}

void markdown_open_leaf(struct markdown_renderer *renderer, const char *more)
{
    if (renderer->leaf)
        return;
    level_write_gap(renderer);
    bl_buffer_clear(&renderer->first_indent);
    bl_buffer_clear(&renderer->indent);
    size_t count = renderer->level_count;
    size_t width = level_add_marks(renderer, count, false, &renderer->first_indent);
    level_add_marks(renderer, count, true, &renderer->indent);
    bl_buffer_append(&renderer->first_indent, bl_text_from(more));
    bl_buffer_append(&renderer->indent, bl_text_from(more));
    renderer->wrap.first_indent = bl_buffer_text(&renderer->first_indent);
    renderer->wrap.indent = bl_buffer_text(&renderer->indent);
    renderer->wrap.indent_width = width + strlen(more);
    renderer->wrap.first_done = false;
    renderer->leaf = true;
    for (size_t i = 0; i < count; i++)
        renderer->levels[i].begun = true;
}

void markdown_close_leaf(struct markdown_renderer *renderer)
{
    if (renderer->leaf)
        text_wrap_end_line(&renderer->wrap);
    renderer->leaf = false;
}

void markdown_begin_block(struct markdown_renderer *renderer)
{
    struct markdown_level *parent = level_top(renderer);

    markdown_close_leaf(renderer);
    /* At the outermost level all blocks are separated; level_write_gap omits the first gap. */
    if (!renderer->gap && (parent == NULL || (parent->filled && !parent->tight))) {
        renderer->gap = true;
        renderer->gap_levels = renderer->level_count;
    }
    if (parent != NULL)
        parent->filled = true;
}

/* ---- Containers ------------------------------------------------------------------------------ */

void markdown_enter_quote(struct markdown_renderer *renderer)
{
    struct markdown_level level = {.type = LEVEL_QUOTE, .width = 2};

    markdown_begin_block(renderer);
    bl_text_into(level.mark, sizeof level.mark, renderer->colours ? "\x1b[90m│\x1b[0m " : "│ ");
    memcpy(level.rest, level.mark, sizeof level.rest);
    level_push(renderer, level);
}

void markdown_enter_list(struct markdown_renderer *renderer, cmark_node *node)
{
    struct markdown_level level = {.type = LEVEL_LIST,
                                   .tight = cmark_node_get_list_tight(node) != 0,
                                   .ordered = cmark_node_get_list_type(node) == CMARK_ORDERED_LIST};

    markdown_begin_block(renderer);
    level.number = (unsigned)cmark_node_get_list_start(node);
    level.delimiter = cmark_node_get_list_delim(node) == CMARK_PAREN_DELIM ? ')' : '.';
    level_push(renderer, level);
}

void markdown_enter_item(struct markdown_renderer *renderer, cmark_node *node)
{
    struct markdown_level item = {.type = LEVEL_ITEM, .tight = level_top(renderer)->tight};
    unsigned depth = 0;

    markdown_begin_block(renderer);
    struct markdown_level *list = level_top(renderer);
    for (size_t i = 0; i < renderer->level_count; i++)
        depth += renderer->levels[i].type == LEVEL_LIST && !renderer->levels[i].ordered;
    if (list->ordered)
        snprintf(item.mark, sizeof item.mark, "%u%c ", list->number++, list->delimiter);
    else
        bl_text_into(item.mark, sizeof item.mark, depth % 2 == 1 ? "• " : "◦ ");
    if (markdown_is_node(node, "tasklist"))
        bl_text_into(item.mark, sizeof item.mark,
                     cmark_gfm_extensions_get_tasklist_item_checked(node) ? "[x] " : "[ ] ");
    item.width = text_width(bl_text_from(item.mark));
    memset(item.rest, ' ', item.width);
    level_push(renderer, item);
}

void markdown_leave_level(struct markdown_renderer *renderer)
{
    struct markdown_level *level = level_top(renderer);

    markdown_close_leaf(renderer);
    /* An empty item is shown, too. */
    if (level->type == LEVEL_ITEM && !level->begun) {
        markdown_open_leaf(renderer, "");
        text_wrap_add(&renderer->wrap, BL_TEXT("\n"), &(struct text_style){0});
        markdown_close_leaf(renderer);
    }
    renderer->level_count--;
}
