/* Acceptance criteria.
 *
 * Design notes.
 *
 * Criteria are the top-level items of a section of Markdown. Only the necessary parts of Markdown
 * are read, line by line: headings, code fences (their contents are neither headings nor items),
 * items, and the parts of an item: deeper lines, and lines that follow without a gap. An item is a
 * slice of the body, so nothing is copied. */
#include "plan.h"

#include <stdio.h>
#include <strings.h>

#define CRITERION_ID_MAX 32u
#define INDENT_CODE      4u /* a line indented this far is code, not structure */
#define INDENT_DEEPER    2u

struct scan {
    struct plan_loader *loader;
    const struct plan_file *file;
    struct bl_plan_task *task;
    uint32_t line; /* number of the current line */
    bool in_section;
    char fence; /* mark of the open fence; 0: none */
    size_t fence_size;
    bool gap; /* the previous line was blank */
    bool has_base;
    size_t base;         /* indentation of top-level items */
    struct bl_text item; /* the current item; data NULL: none */
    uint32_t item_line;
    bool over; /* the excess was reported */
};

/* ---- One criterion --------------------------------------------------------------------------- */

static bool is_id_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.';
}

static size_t skip_marks(struct bl_text text, size_t at)
{
    while (at < text.size && (text.data[at] == '*' || text.data[at] == '`'))
        at++;
    return at;
}

/* Removes "AC-001:" from the start, emphasised or not. Returns an empty text if there is no id. */
static struct bl_text take_id(struct bl_text *text)
{
    size_t start = skip_marks(*text, 0), end = start;

    while (end < text->size && is_id_byte(text->data[end]))
        end++;
    struct bl_text id = {text->data + start, end - start};
    size_t at = skip_marks(*text, end);
    if (id.size < 4 || id.size > CRITERION_ID_MAX || !bl_text_starts_with(id, BL_TEXT("AC-")) ||
        at == text->size || text->data[at] != ':')
        return (struct bl_text){0};
    /* The emphasis may end after the colon. Without one before it, the mark starts another. */
    at++;
    if (start > 0)
        at = skip_marks(*text, at);
    *text = bl_text_trim((struct bl_text){text->data + at, text->size - at});
    return id;
}

static void add_criterion(struct scan *scan, struct bl_text id, struct bl_text text, uint32_t line)
{
    struct bl_plan_task *task = scan->task;
    struct bl_arena *arena = scan->loader->arena;
    char numbered[32];

    if (task->criterion_count == PLAN_CRITERIA_MAX) {
        if (!scan->over)
            plan_fault_line(scan->loader, scan->file->name, line, "E01",
                            "%s has more than %u criteria", task->id, PLAN_CRITERIA_MAX);
        scan->over = true;
        return;
    }
    if (task->criteria == NULL)
        task->criteria = bl_arena_alloc(arena, PLAN_CRITERIA_MAX * sizeof *task->criteria);
    if (id.size == 0) {
        snprintf(numbered, sizeof numbered, "AC-%03zu", task->criterion_count + 1);
        id = bl_text_from(numbered);
    }
    for (size_t i = 0; i < task->criterion_count; i++) {
        if (bl_text_equal(bl_text_from(task->criteria[i].id), id))
            plan_fault_line(scan->loader, scan->file->name, line, "E02",
                            "duplicate criterion " BL_TEXT_FORMAT, BL_TEXT_ARG(id));
    }
    task->criteria[task->criterion_count++] =
        (struct bl_criterion){bl_arena_text(arena, id).data, text};
}

static void end_item(struct scan *scan)
{
    struct bl_text text = bl_text_trim(scan->item);

    scan->item = (struct bl_text){0};
    if (text.size == 0)
        return;
    struct bl_text id = take_id(&text);
    add_criterion(scan, id, text, scan->item_line);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static size_t indent_of(struct bl_text line, size_t *ret_bytes)
{
    size_t indent = 0, at = 0;

    for (; at < line.size && (line.data[at] == ' ' || line.data[at] == '\t'); at++)
        indent = line.data[at] == ' ' ? indent + 1 : (indent / INDENT_CODE + 1) * INDENT_CODE;
    *ret_bytes = at;
    return indent;
}

/* Returns the level of a heading and its title, or 0. */
static size_t heading_of(struct bl_text text, struct bl_text *ret_title)
{
    size_t level = 0;

    while (level < text.size && text.data[level] == '#')
        level++;
    if (level == 0 || level > 6 ||
        (level < text.size && text.data[level] != ' ' && text.data[level] != '\t'))
        return 0;
    struct bl_text title = bl_text_trim((struct bl_text){text.data + level, text.size - level});
    while (title.size > 0 && strchr("#: \t", title.data[title.size - 1]) != NULL)
        title.size--;
    *ret_title = title;
    return level;
}

static bool is_section(size_t level, struct bl_text title)
{
    static const char name[] = "acceptance criteria";

    return level == 2 && title.size == sizeof name - 1 &&
           strncasecmp(title.data, name, title.size) == 0;
}

/* Returns the size of a fence at the start, or 0. */
static size_t fence_of(struct bl_text text)
{
    size_t size = 0;

    if (text.size == 0 || (text.data[0] != '`' && text.data[0] != '~'))
        return 0;
    while (size < text.size && text.data[size] == text.data[0])
        size++;
    return size >= 3 ? size : 0;
}

/* Returns whether the line is a horizontal rule: "---", "* * *". */
static bool criteria_is_rule(struct bl_text text)
{
    size_t marks = 0, at = 0;

    if (text.size == 0 || strchr("-*_", text.data[0]) == NULL)
        return false;
    for (; at < text.size && (text.data[at] == text.data[0] || text.data[at] == ' '); at++)
        marks += text.data[at] == text.data[0];
    return at == text.size && marks >= 3;
}

/* Returns the text of an item, without marker and checkbox. data NULL: not an item. */
static struct bl_text item_of(struct bl_text text)
{
    size_t at = 2;

    if (text.size < 2 || (text.data[0] != '-' && text.data[0] != '*') ||
        (text.data[1] != ' ' && text.data[1] != '\t'))
        return (struct bl_text){0};
    while (at < text.size && (text.data[at] == ' ' || text.data[at] == '\t'))
        at++;
    if (at + 3 <= text.size && text.data[at] == '[' && text.data[at + 2] == ']' &&
        strchr(" xX", text.data[at + 1]) != NULL && text.data[at + 1] != '\0' &&
        (at + 3 == text.size || text.data[at + 3] == ' ' || text.data[at + 3] == '\t'))
        at += 3;
    return (struct bl_text){text.data + at, text.size - at};
}

static void extend_item(struct scan *scan, struct bl_text line)
{
    if (scan->item.data != NULL)
        scan->item.size = (size_t)(line.data + line.size - scan->item.data);
}

/* Reads a line of the section that is not blank, a heading or code. */
static void scan_text(struct scan *scan, struct bl_text line, size_t indent, struct bl_text text)
{
    struct bl_text item = item_of(text);
    bool top = scan->has_base ? indent < scan->base + INDENT_DEEPER : indent < INDENT_CODE;

    if (top && criteria_is_rule(text)) {
        end_item(scan);
    } else if (item.data != NULL && top) {
        end_item(scan);
        if (!scan->has_base)
            scan->base = indent;
        scan->has_base = true;
        scan->item = item;
        scan->item_line = scan->line;
    } else if (!top || !scan->gap) {
        extend_item(scan, line);
    } else {
        end_item(scan);
    }
}

static void scan_fence(struct scan *scan, struct bl_text line, size_t indent, struct bl_text text)
{
    size_t size = fence_of(text);

    if (scan->fence == 0) {
        scan->fence = text.data[0];
        scan->fence_size = size;
        if (indent < scan->base + INDENT_DEEPER && scan->gap)
            end_item(scan);
    } else if (size >= scan->fence_size && text.data[0] == scan->fence &&
               bl_text_trim((struct bl_text){text.data + size, text.size - size}).size == 0) {
        scan->fence = 0;
    }
    extend_item(scan, line);
}

static void scan_line(struct scan *scan, struct bl_text line)
{
    size_t bytes, indent = indent_of(line, &bytes);
    struct bl_text text = bl_text_trim((struct bl_text){line.data + bytes, line.size - bytes});
    struct bl_text title;

    scan->line++;
    if (scan->fence != 0 || (fence_of(text) > 0 && (indent < INDENT_CODE || scan->item.data))) {
        scan_fence(scan, line, indent, text);
        scan->gap = false;
        return;
    }
    if (text.size == 0) {
        scan->gap = true;
        return;
    }
    size_t level = indent < INDENT_CODE && bytes == indent ? heading_of(text, &title) : 0;
    if (level > 0 && indent < scan->base + INDENT_DEEPER) {
        end_item(scan);
        if (level <= 2) {
            scan->in_section = is_section(level, title);
            scan->has_base = false;
            scan->base = 0;
        }
    } else if (scan->in_section) {
        scan_text(scan, line, indent, text);
    }
    scan->gap = false;
}

static void scan_markdown(struct scan *scan, struct bl_text rest)
{
    struct bl_text line;

    while (bl_text_split(&rest, '\n', &line))
        scan_line(scan, line);
    end_item(scan);
}

/* ---- Front matter ---------------------------------------------------------------------------- */

/* YAML reads `- AC-001: text` as a mapping. */
static bool read_pair(struct scan *scan, const struct bl_json *node)
{
    const struct bl_json *key = bl_json_first(node, BL_JSON_OBJECT);
    struct bl_text text;

    if (bl_json_size(node) != 1 || key->type == BL_JSON_END ||
        !bl_text_starts_with(bl_json_text(key), BL_TEXT("AC-")) ||
        bl_json_size(key) > CRITERION_ID_MAX || !plan_scalar(scan->loader, key + 1, &text))
        return false;
    add_criterion(scan, bl_json_text(key), bl_text_trim(text), plan_line(scan->file, key));
    return true;
}

static void read_node(struct scan *scan, const struct bl_json *node)
{
    struct bl_text text;

    if (bl_json_is(node, BL_JSON_OBJECT) && read_pair(scan, node))
        return;
    if (!plan_scalar(scan->loader, node, &text)) {
        plan_fault(scan->loader, scan->file, node, "E02",
                   "acceptance criterion: expected text, found %s", bl_value_type(node));
        return;
    }
    scan->item = text;
    scan->item_line = plan_line(scan->file, node);
    end_item(scan);
}

static void criteria_read_members(struct scan *scan, const struct bl_json *value)
{
    struct bl_text text;

    if (bl_json_is(value, BL_JSON_ARRAY)) {
        BL_JSON_EACH (node, value)
            read_node(scan, node);
        return;
    }
    if (!plan_scalar(scan->loader, value, &text)) {
        read_node(scan, value);
        return;
    }
    /* One text may contain a list; its line numbers are not exact. */
    struct scan inner = *scan;
    inner.in_section = true;
    inner.line = plan_line(scan->file, value) - 1;
    scan_markdown(&inner, text);
    if (scan->task->criterion_count == 0)
        read_node(scan, value);
}

void plan_criteria_read(struct plan_loader *loader, const struct plan_file *file,
                        struct bl_plan_task *task)
{
    struct scan scan = {.loader = loader, .file = file, .task = task};
    const char *start = task->body.size > 0 ? task->body.data : file->text.data;

    for (const char *at = file->text.data; at < start; at++)
        scan.line += *at == '\n';
    scan_markdown(&scan, task->body);
    if (task->criterion_count > 0 || file->document.root == NULL)
        return;
    const struct bl_json *key = plan_member(file->document.root, "acceptance_criteria");
    struct scan front = {.loader = loader, .file = file, .task = task};
    if (key != NULL)
        criteria_read_members(&front, key + 1);
}
