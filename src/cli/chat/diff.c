/* Design notes.
 *
 * The common beginning and end of both texts are set aside. The rest is compared by the longest
 * common subsequence of its lines, in a table whose size is the product of the two numbers of
 * lines. Beyond TABLE_MAX, all old lines are shown as removed and all new ones as added. */
#include <inttypes.h>
#include <stdio.h>

#include "view.h"

#define TABLE_MAX     ((size_t)40000)
#define CONTEXT_LINES 2u

struct lines {
    const struct bl_text *texts;
    size_t count;
};

struct diff {
    const struct chat_frame *frame; /* NULL if only counting */
    struct highlight old, new;      /* highlighting state of both texts */
    size_t indent;
    size_t shown;
    size_t left_out;
    struct chat_diff counts;
};

static struct lines split(struct bl_arena *arena, struct bl_text text)
{
    struct lines lines = {0};
    struct bl_text rest = text, line;
    size_t count = 0;

    while (bl_text_split(&rest, '\n', &line))
        count++;
    struct bl_text *texts = bl_arena_alloc(arena, count * sizeof *texts);
    lines.texts = texts;
    while (bl_text_split(&text, '\n', &line))
        texts[lines.count++] = line;
    return lines;
}

static struct lines diff_part_of(struct lines lines, size_t from, size_t count)
{
    return (struct lines){lines.texts + from, count};
}

/* A line that was added, removed or kept. */
struct diff_line {
    struct text_line line;
    struct text_style look;
};

static void diff_put(void *context, struct bl_text piece, const struct text_style *style)
{
    struct diff_line *shown = context;
    struct text_style look = *style;

    look.tint = shown->look.tint;
    look.dim = look.dim || shown->look.dim;
    text_line_add(&shown->line, piece, &look);
}

static void diff_write(struct diff *diff, char sign, struct bl_text text)
{
    static const struct text_style looks[] = {
        {.tint = TEXT_ADDED}, {.tint = TEXT_REMOVED}, {.dim = true}};
    struct diff_line shown = {.look = looks[sign == '+' ? 0 : sign == '-' ? 1 : 2]};
    char mark[] = {sign, ' '};

    text_line_init(&shown.line, diff->frame->out, diff->frame->columns, diff->frame->colours);
    for (size_t i = 0; i < diff->indent; i++)
        text_line_add(&shown.line, BL_TEXT(" "), &(struct text_style){0});
    text_line_add(&shown.line, (struct bl_text){mark, sizeof mark}, &shown.look);
    highlight_line(sign == '-' ? &diff->old : &diff->new, text, diff_put, &shown);
    text_line_end(&shown.line);
    /* A kept line is in both texts. */
    if (sign == ' ')
        diff->old = diff->new;
}

static void diff_show(struct diff *diff, char sign, struct bl_text text)
{
    diff->counts.added += sign == '+';
    diff->counts.removed += sign == '-';
    if (diff->frame == NULL)
        return;
    if (diff->shown >= CHAT_DIFF_LINES && !diff->frame->whole) {
        diff->left_out++;
        return;
    }
    diff->shown++;
    diff_write(diff, sign, text);
}

static void show_all(struct diff *diff, char sign, struct lines lines)
{
    for (size_t i = 0; i < lines.count; i++)
        diff_show(diff, sign, lines.texts[i]);
}

/* lengths[i][j] is the length of the longest common subsequence of from[i…] and to[j…]. */
static void diff_compare(struct diff *diff, struct bl_arena *arena, struct lines from,
                         struct lines to)
{
    size_t width = to.count + 1, i, j;
    uint16_t *lengths = bl_arena_zalloc(arena, (from.count + 1) * width * sizeof *lengths);

    for (i = from.count; i-- > 0;) {
        for (j = to.count; j-- > 0;) {
            uint16_t down = lengths[(i + 1) * width + j], right = lengths[i * width + j + 1];
            lengths[i * width + j] = bl_text_equal(from.texts[i], to.texts[j])
                                         ? (uint16_t)(lengths[(i + 1) * width + j + 1] + 1)
                                     : down > right ? down
                                                    : right;
        }
    }
    i = j = 0;
    while (i < from.count || j < to.count) {
        if (i < from.count && j < to.count && bl_text_equal(from.texts[i], to.texts[j])) {
            diff_show(diff, ' ', from.texts[i]);
            i++, j++;
        } else if (i < from.count &&
                   (j == to.count || lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
            diff_show(diff, '-', from.texts[i++]);
        } else {
            diff_show(diff, '+', to.texts[j++]);
        }
    }
}

struct chat_diff chat_diff(struct bl_text path, struct bl_text from_text, struct bl_text to_text,
                           const struct chat_frame *frame, size_t indent)
{
    struct diff diff = {.frame = frame, .indent = indent};
    BL_AUTO_ARENA(arena);
    size_t head = 0, tail = 0;
    char left_out[48];

    highlight_begin(&diff.old, path);
    diff.new = diff.old;
    struct lines from = split(&arena, from_text), to = split(&arena, to_text);
    size_t most = from.count < to.count ? from.count : to.count;
    while (head < most && bl_text_equal(from.texts[head], to.texts[head]))
        head++;
    while (tail < most - head &&
           bl_text_equal(from.texts[from.count - 1 - tail], to.texts[to.count - 1 - tail]))
        tail++;
    size_t before = head < CONTEXT_LINES ? head : CONTEXT_LINES;
    size_t after = tail < CONTEXT_LINES ? tail : CONTEXT_LINES;
    struct lines old = diff_part_of(from, head, from.count - head - tail);
    struct lines new = diff_part_of(to, head, to.count - head - tail);
    show_all(&diff, ' ', diff_part_of(from, head - before, before));
    if ((old.count + 1) * (new.count + 1) <= TABLE_MAX) {
        diff_compare(&diff, &arena, old, new);
    } else {
        show_all(&diff, '-', old);
        show_all(&diff, '+', new);
    }
    show_all(&diff, ' ', diff_part_of(from, from.count - tail, after));
    if (diff.left_out > 0) {
        snprintf(left_out, sizeof left_out, "… %zu more line%s (Ctrl+O)", diff.left_out,
                 diff.left_out == 1 ? "" : "s");
        chat_line(frame, indent, bl_text_from(left_out), &(struct text_style){.dim = true});
    }
    return diff.counts;
}
