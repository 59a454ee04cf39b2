/* Explains why a text to be replaced is not in the file.
 *
 * Design notes. Three explanations are tried, the easiest to fix first: the same text with other
 * white space, by removing all white space from both; the longest line of the text somewhere in the
 * file, and where the lines around it begin to differ; and the line of the file that shares the
 * most pairs of bytes with it. All of this takes time linear in the size of the file. */
#include <inttypes.h>
#include <stdio.h>

#include "tool/parts.h"

#define LINES_SHOWN 8u
/* The pairs of bytes in a line, as bits by their hash. */
#define PAIR_WORDS 8u
/* Only the start of each line is compared. */
#define PROBE_MAX ((size_t)400)
/* A line with only a brace is not significant. */
#define PROBE_MIN ((size_t)4)

static bool is_white(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool next_line(struct bl_text *rest, struct bl_text *ret_line)
{
    bool more = bl_text_split(rest, '\n', ret_line);
    if (more && ret_line->size > 0 && ret_line->data[ret_line->size - 1] == '\r')
        ret_line->size--;
    return more;
}

static void show_lines(struct file_job *job, struct bl_text content, size_t from, size_t to)
{
    uint64_t number = edit_line_at(content, from);
    for (unsigned i = 0; i < LINES_SHOWN && from <= to && from < content.size; i++) {
        struct bl_text line = edit_line(content, from);
        bl_buffer_printf(&job->out, "%6" PRIu64 "\t%s\n", number++,
                         edit_line_show(&job->arena, line));
        from = edit_line_end(content, from);
    }
    if (from <= to && from < content.size)
        bl_buffer_printf(&job->out, "       [...]\n");
}

/* ---- Other white space ----------------------------------------------------------------------- */

static struct bl_text without_white(struct bl_arena *arena, struct bl_text text)
{
    char *out = bl_arena_alloc(arena, text.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++)
        if (!is_white(text.data[i]))
            out[size++] = text.data[i];
    return (struct bl_text){out, size};
}

/* Returns the offset in `text` of the non-white byte with that index. */
static size_t offset_of_dark(struct bl_text text, size_t index)
{
    size_t i = 0;
    for (;; i++)
        if (!is_white(text.data[i]) && index-- == 0)
            return i;
}

static size_t white_run(struct bl_text text, size_t from)
{
    size_t size = 0;
    while (from + size < text.size && is_white(text.data[from + size]))
        size++;
    return size;
}

/* Returns "a tab", "4 blanks", "a line break and 2 tabs", … */
static const char *name_white(struct bl_arena *arena, struct bl_text run)
{
    static const struct {
        const char *bytes, *one, *many;
    } kinds[] = {{"\r\n", "a CR LF line break", "CR LF line breaks"},
                 {"\n", "a line break", "line breaks"},
                 {" ", "a blank", "blanks"},
                 {"\t", "a tab", "tabs"},
                 {"\r", "a CR", "CRs"},
                 {"\v", "a vertical tab", "vertical tabs"},
                 {"\f", "a form feed", "form feeds"}};
    struct bl_text text = {"nothing", 7};
    for (unsigned part = 0; run.size > 0; part++) {
        size_t kind = 0, count = 0;
        while (!bl_text_starts_with(run, bl_text_from(kinds[kind].bytes)))
            kind++;
        struct bl_text bytes = bl_text_from(kinds[kind].bytes);
        for (; bl_text_starts_with(run, bytes); count++)
            run = (struct bl_text){run.data + bytes.size, run.size - bytes.size};
        if (part == 4)
            return bl_arena_printf(arena, "%s and more", text.data).data;
        const char *before = part == 0 ? "" : text.data;
        text = count == 1 ? bl_arena_printf(arena, "%s%s%s", before, part == 0 ? "" : " and ",
                                            kinds[kind].one)
                          : bl_arena_printf(arena, "%s%s%zu %s", before, part == 0 ? "" : " and ",
                                            count, kinds[kind].many);
    }
    return text.data;
}

static void say_difference(struct file_job *job, struct bl_text content, size_t at,
                           struct bl_text in_file, struct bl_text in_old)
{
    bl_buffer_printf(&job->out, "At line %" PRIu64 " the file has %s where old_string has %s.\n",
                     edit_line_at(content, at), name_white(&job->arena, in_file),
                     name_white(&job->arena, in_old));
}

/* `old` equals `content` from `from` on except for white space: reports the first difference. */
static void compare_white(struct file_job *job, struct bl_text content, size_t from,
                          struct bl_text old)
{
    size_t lead = white_run(old, 0), file_lead = from;
    while (file_lead > 0 && is_white(content.data[file_lead - 1]))
        file_lead--;
    struct bl_text before = {content.data + file_lead, from - file_lead};
    struct bl_text old_before = {old.data, lead};
    if (!bl_text_ends_with(before, old_before)) {
        /* Of the white space before the text, the part on the same line is the most useful. */
        const char *newline = memrchr(before.data, '\n', before.size);
        const char *start = newline != NULL && memchr(old_before.data, '\n', lead) == NULL
                                ? newline + 1
                                : before.data;
        size_t size = before.size - (size_t)(start - before.data);
        say_difference(job, content, from, (struct bl_text){start, size}, old_before);
        return;
    }
    for (size_t i = from, j = lead; j < old.size && i < content.size;) {
        size_t a = white_run(content, i), b = white_run(old, j);
        struct bl_text in_file = {content.data + i, a}, in_old = {old.data + j, b};
        bool last = j + b == old.size;
        if (last ? !bl_text_starts_with(in_file, in_old) : !bl_text_equal(in_file, in_old)) {
            say_difference(job, content, i + a < content.size ? i + a : i, in_file, in_old);
            return;
        }
        i += a + 1;
        j += b + 1;
    }
    /* The file ends before the white space of `old` does. */
    bl_buffer_printf(&job->out, "old_string continues with white space where the file ends.\n");
}

static bool explain_white(struct file_job *job, struct bl_text content, struct bl_text old)
{
    struct bl_text dark = without_white(&job->arena, content);
    struct bl_text dark_old = without_white(&job->arena, old);
    const char *at =
        dark_old.size > 0 ? memmem(dark.data, dark.size, dark_old.data, dark_old.size) : NULL;
    if (at == NULL)
        return false;
    size_t index = (size_t)(at - dark.data);
    size_t from = offset_of_dark(content, index);
    size_t to = offset_of_dark(content, index + dark_old.size - 1);
    bl_buffer_printf(&job->out, " It matches with different white space. ");
    compare_white(job, content, from, old);
    bl_buffer_printf(&job->out, "The file has:\n");
    show_lines(job, content, from, to);
    return true;
}

/* ---- Nearest lines --------------------------------------------------------------------------- */

/* Returns the longest line, without surrounding white space, and its index from 0. */
static struct bl_text longest_line(struct bl_text text, size_t *ret_index)
{
    struct bl_text longest = {"", 0}, line;
    for (size_t i = 0; next_line(&text, &line); i++) {
        line = bl_text_trim(line);
        if (line.size > longest.size) {
            longest = line;
            *ret_index = i;
        }
    }
    return longest;
}

/* Moves `lines` lines back. Returns false if there are fewer. */
static bool edit_miss_go_back(struct bl_text content, size_t *offset, size_t lines)
{
    for (; lines > 0 && *offset > 0; lines--)
        *offset = edit_line_start(content, *offset - 1);
    return lines == 0;
}

/* old_string seems to mean the lines from `from` on: reports the first that differs. */
static void compare_lines(struct file_job *job, struct bl_text content, size_t from,
                          struct bl_text old)
{
    struct bl_text rest = {content.data + from, content.size - from}, line, wanted;
    for (uint64_t number = edit_line_at(content, from); next_line(&old, &wanted); number++) {
        bool there = next_line(&rest, &line);
        if (there && bl_text_equal(bl_text_trim(line), bl_text_trim(wanted)))
            continue;
        /* The first and the last line may be partial. */
        if (there && bl_text_find(line, wanted) >= 0 && old.size == 0)
            continue;
        bl_buffer_printf(&job->out,
                         "They differ at line %" PRIu64 ":\nfile:       %s\nold_string: %s\n",
                         number, there ? edit_line_show(&job->arena, line) : "[end of file]",
                         edit_line_show(&job->arena, wanted));
        return;
    }
}

static bool explain_line(struct file_job *job, struct bl_text content, struct bl_text old)
{
    size_t index = 0;
    struct bl_text probe = longest_line(old, &index);
    ptrdiff_t at = probe.size >= PROBE_MIN ? bl_text_find(content, probe) : -1;
    if (at < 0)
        return false;
    size_t from = edit_line_start(content, (size_t)at);
    bl_buffer_printf(&job->out, " Part of it was found: line %" PRIu64 " contains '%s'.\n",
                     edit_line_at(content, from), edit_line_show(&job->arena, probe));
    if (edit_miss_go_back(content, &from, index))
        compare_lines(job, content, from, old);
    bl_buffer_printf(&job->out, "The file has:\n");
    show_lines(job, content, from, (size_t)at + old.size);
    return true;
}

static unsigned collect_pairs(struct bl_text line, uint64_t pairs[PAIR_WORDS])
{
    unsigned count = 0;
    memset(pairs, 0, PAIR_WORDS * sizeof pairs[0]);
    size_t size = line.size < PROBE_MAX ? line.size : PROBE_MAX;
    for (size_t i = 0; i + 1 < size; i++) {
        unsigned hash = ((unsigned char)line.data[i] * 31u + (unsigned char)line.data[i + 1] * 7u) %
                        (PAIR_WORDS * 64);
        pairs[hash / 64] |= 1ull << (hash % 64);
    }
    for (unsigned i = 0; i < PAIR_WORDS; i++)
        count += (unsigned)__builtin_popcountll(pairs[i]);
    return count;
}

/* Shows the most similar line, unless none is similar enough. */
static bool explain_similar(struct file_job *job, struct bl_text content, struct bl_text old,
                            const atomic_bool *stopped)
{
    uint64_t wanted[PAIR_WORDS], pairs[PAIR_WORDS];
    size_t index = 0, best_offset = 0;
    double best = 0;
    struct bl_text rest = content, line;
    unsigned wanted_count = collect_pairs(longest_line(old, &index), wanted);
    while (!atomic_load(stopped) && next_line(&rest, &line)) {
        unsigned count = collect_pairs(bl_text_trim(line), pairs), common = 0;
        for (unsigned i = 0; i < PAIR_WORDS; i++)
            common += (unsigned)__builtin_popcountll(pairs[i] & wanted[i]);
        double likeness = common == 0 ? 0 : 2.0 * common / (count + wanted_count);
        if (likeness <= best)
            continue;
        best = likeness;
        best_offset = (size_t)(line.data - content.data);
    }
    if (best < 0.6)
        return false;
    bl_buffer_printf(&job->out, " The nearest match is line %" PRIu64 ":\n",
                     edit_line_at(content, best_offset));
    show_lines(job, content, best_offset, best_offset);
    return true;
}

/* ---- The explanation ------------------------------------------------------------------------- */

/* Returns whether each line begins as in the output of the tool read: blanks, a number, a tab. */
static bool looks_numbered(struct bl_text old)
{
    struct bl_text line;
    bool numbered = false;
    while (next_line(&old, &line)) {
        size_t i = white_run(line, 0), digits = 0;
        while (i < line.size && line.data[i] >= '0' && line.data[i] <= '9')
            i++, digits++;
        if (digits == 0 || i == line.size || line.data[i] != '\t')
            return false;
        numbered = true;
    }
    return numbered;
}

void edit_miss_explain(struct file_job *job, const char *shown, struct bl_text content,
                       struct bl_text old, const atomic_bool *stopped)
{
    file_job_fail(job, "old_string not found in '%s'; nothing was changed.", shown);
    if (looks_numbered(old))
        bl_buffer_printf(&job->out, " It seems to include the line numbers that read shows: omit "
                                    "them and the tab after them.");
    else if (content.size == 0)
        bl_buffer_printf(&job->out, " The file is empty.");
    else if (!explain_white(job, content, old) && !explain_line(job, content, old) &&
             !explain_similar(job, content, old, stopped))
        bl_buffer_printf(&job->out, " No similar text was found: read the file again.");
}
