/* Reads a list of tasks as people write it: one task per line, a checklist, or Markdown with a
 * heading for each. The text determines the form:
 *
 *   a heading "Tasks"      the list below it has the tasks; all other text describes the feature
 *   headings below the     each is a task, with the text below it; there, checkboxes and the
 *   first level            items below "Acceptance Criteria" are criteria
 *   list items             each is a task; items below it are its criteria
 *   none of these          each line is a task
 *
 * "ID: " before a task sets its id, "(after A, 2)" after it its dependencies. */
#include "plan.h"

#include <ctype.h>
#include <strings.h>

#define OPERATION "read the tasks"

enum outline_form {
    OUTLINE_LINES,
    OUTLINE_ITEMS,
    OUTLINE_SECTION, /* items below a heading "Tasks" */
    OUTLINE_HEADINGS,
};

/* A line and its kind. */
struct outline_line {
    struct bl_text text;  /* without trailing blanks and line end */
    size_t indent;        /* columns before it */
    unsigned heading;     /* 1 to 6; 0: none */
    bool item;            /* a list item */
    bool box;             /* has a checkbox */
    bool ticked;          /* the checkbox is ticked */
    struct bl_text words; /* without markers */
};

struct outline_reader {
    struct bl_arena *arena;
    struct bl_outline *outline;
    enum outline_form form;
    unsigned level;               /* heading level of tasks */
    bool inside;                  /* the section "Tasks" */
    bool criteria;                /* below "Acceptance Criteria" */
    bool fenced;                  /* in a block of code */
    struct bl_outline_task *task; /* the last one; NULL: none yet */
    struct bl_buffer body;        /* its body */
    struct bl_buffer about;       /* description of the feature */
    struct bl_error *error;
    int code;
};

/* ---- Lines ----------------------------------------------------------------------------------- */

static struct bl_text outline_skip(struct bl_text text, size_t count)
{
    return bl_text_trim((struct bl_text){text.data + count, text.size - count});
}

/* Returns the size of a list marker ("- ", "* ", "+ ", "3. ", "3) "), or 0. */
static size_t outline_marker(struct bl_text text)
{
    size_t size = 0;

    if (text.size > 1 && strchr("-*+", text.data[0]) != NULL && text.data[1] == ' ')
        return 2;
    while (size < text.size && size < 9 && isdigit((unsigned char)text.data[size]))
        size++;
    bool closed = size > 0 && size + 1 < text.size &&
                  (text.data[size] == '.' || text.data[size] == ')') && text.data[size + 1] == ' ';
    return closed ? size + 2 : 0;
}

static void outline_take_box(struct outline_line *line)
{
    struct bl_text words = line->words;

    line->box = words.size >= 3 && words.data[0] == '[' && words.data[2] == ']' &&
                strchr(" xX", words.data[1]) != NULL && (words.size == 3 || words.data[3] == ' ');
    if (!line->box)
        return;
    line->ticked = words.data[1] != ' ';
    line->words = outline_skip(words, 3);
}

static struct outline_line outline_look(struct bl_text text)
{
    struct outline_line line = {.text = text};
    size_t at = 0;

    while (line.text.size > 0 && isspace((unsigned char)line.text.data[line.text.size - 1]))
        line.text.size--;
    for (; at < line.text.size && (line.text.data[at] == ' ' || line.text.data[at] == '\t'); at++)
        line.indent += line.text.data[at] == '\t' ? 4 : 1;
    line.words = outline_skip(line.text, at);
    unsigned level = 0;
    while (level < line.words.size && line.words.data[level] == '#')
        level++;
    if (line.indent < 4 && level >= 1 && level <= 6 && level < line.words.size &&
        line.words.data[level] == ' ') {
        line.heading = level;
        line.words = outline_skip(line.words, level);
        return line;
    }
    size_t marker = outline_marker(line.words);
    line.item = marker > 0;
    line.words = outline_skip(line.words, marker);
    if (line.item)
        outline_take_box(&line);
    return line;
}

static bool outline_is_fence(const struct outline_line *line)
{
    return bl_text_starts_with(line->words, BL_TEXT("```")) ||
           bl_text_starts_with(line->words, BL_TEXT("~~~"));
}

static bool outline_is_one_of(struct bl_text text, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (text.size == strlen(words[i]) && strncasecmp(text.data, words[i], text.size) == 0)
            return true;
    }
    return false;
}

static bool outline_is_section(struct bl_text title)
{
    static const char *const names[] = {"tasks", "task list", "todo", "to do", "plan", NULL};
    return outline_is_one_of(title, names);
}

static bool outline_is_criteria(struct bl_text title)
{
    static const char *const names[] = {"acceptance criteria", "criteria",  "acceptance",
                                        "definition of done",  "done when", NULL};
    return outline_is_one_of(title, names);
}

/* ---- Form of the list ------------------------------------------------------------------------ */

static void outline_decide(struct outline_reader *reader, struct bl_text rest)
{
    struct bl_text text;
    bool fenced = false, section = false, in_section = false, items = false;

    while (bl_text_split(&rest, '\n', &text)) {
        struct outline_line line = outline_look(text);
        fenced = fenced != outline_is_fence(&line);
        if (fenced)
            continue;
        if (line.heading > 0)
            in_section = outline_is_section(line.words);
        if (line.heading > 1 && !in_section && (reader->level == 0 || line.heading < reader->level))
            reader->level = line.heading;
        section = section || (in_section && line.item);
        items = items || line.item;
    }
    reader->form = section             ? OUTLINE_SECTION
                   : reader->level > 0 ? OUTLINE_HEADINGS
                   : items             ? OUTLINE_ITEMS
                                       : OUTLINE_LINES;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Ends the current task with the text collected for it. */
static void outline_close(struct outline_reader *reader)
{
    if (reader->task != NULL)
        reader->task->body =
            bl_arena_text(reader->arena, bl_text_trim(bl_buffer_text(&reader->body)));
    bl_buffer_clear(&reader->body);
}

/* Splits "A, 2 and #3" into names; NULL-terminated. */
static const char *const *outline_names(struct bl_arena *arena, struct bl_text list)
{
    const char **names = bl_arena_zalloc(arena, (list.size + 2) * sizeof *names);
    size_t count = 0, start = 0;

    for (size_t i = 0; i <= list.size; i++) {
        bool end = i == list.size || strchr(", ", list.data[i]) != NULL;
        struct bl_text name = {list.data + start, i - start};
        if (!end)
            continue;
        start = i + 1;
        if (name.size > 1 && name.data[0] == '#')
            name = outline_skip(name, 1);
        if (name.size > 0 && !bl_text_is(name, "and") && !bl_text_is(name, "&"))
            names[count++] = bl_arena_text(arena, name).data;
    }
    return names;
}

/* Removes "(after …)" from the end. */
static struct bl_text outline_take_after(struct bl_arena *arena, struct bl_text title,
                                         struct bl_outline_task *task)
{
    static const char before[] = "(after ";
    const char *open = title.size > 0 ? memrchr(title.data, '(', title.size) : NULL;

    if (open == NULL || title.data[title.size - 1] != ')')
        return title;
    struct bl_text part = {open, (size_t)(title.data + title.size - open)};
    if (part.size <= sizeof before || strncasecmp(part.data, before, sizeof before - 1) != 0)
        return title;
    part = outline_skip(part, sizeof before - 1);
    part.size--;
    task->after = outline_names(arena, bl_text_trim(part));
    return bl_text_trim((struct bl_text){title.data, (size_t)(open - title.data)});
}

/* Removes "ID: " from the start. An id has no lower-case letters, so that a sentence with a colon
 * is not an id. */
static struct bl_text outline_take_id(struct bl_arena *arena, struct bl_text title,
                                      struct bl_outline_task *task)
{
    const char *colon = title.size > 0 ? memchr(title.data, ':', title.size) : NULL;

    if (colon == NULL)
        return title;
    struct bl_text id = {title.data, (size_t)(colon - title.data)};
    for (size_t i = 0; i < id.size; i++) {
        if (islower((unsigned char)id.data[i]))
            return title;
    }
    if (!plan_id_valid(id) || id.size + 1 >= title.size || colon[1] != ' ')
        return title;
    task->id = bl_arena_text(arena, id).data;
    return outline_skip(title, id.size + 1);
}

int bl_outline_add(struct bl_arena *arena, struct bl_outline *outline, struct bl_text words,
                   struct bl_error *error)
{
    if (outline->tasks == NULL)
        outline->tasks = bl_arena_zalloc(arena, PLAN_TASKS_MAX * sizeof *outline->tasks);
    if (outline->count == PLAN_TASKS_MAX)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, OPERATION, NULL, "more than %u tasks",
                            PLAN_TASKS_MAX);
    struct bl_outline_task *task = &outline->tasks[outline->count];
    struct bl_text title = outline_take_after(arena, bl_text_trim(words), task);
    title = outline_take_id(arena, title, task);
    if (title.size == 0)
        return 0;
    task->title = bl_arena_text(arena, title);
    outline->count++;
    return 0;
}

static void outline_begin_task(struct outline_reader *reader, const struct outline_line *line)
{
    struct bl_outline *outline = reader->outline;
    size_t before = outline->count;

    reader->code = bl_outline_add(reader->arena, outline, line->words, reader->error);
    if (outline->count == before)
        return;
    outline_close(reader);
    reader->criteria = false;
    reader->task = &outline->tasks[before];
    reader->task->done = line->ticked;
}

static void outline_add_criterion(struct outline_reader *reader, struct bl_text words)
{
    struct bl_outline_task *task = reader->task;

    if (words.size == 0)
        return;
    if (task->criteria == NULL)
        task->criteria = bl_arena_zalloc(reader->arena, PLAN_CRITERIA_MAX * sizeof *task->criteria);
    if (task->criterion_count == PLAN_CRITERIA_MAX) {
        reader->code = bl_error_set(reader->error, BL_ELIMIT, BL_KIND_USAGE, OPERATION, NULL,
                                    "a task has more than %u criteria", PLAN_CRITERIA_MAX);
        return;
    }
    task->criteria[task->criterion_count++] = bl_arena_text(reader->arena, words);
}

/* Adds text to the current task; before the first task, and outside the section, to the feature. */
static void outline_add_text(struct outline_reader *reader, struct bl_text text)
{
    bool around = reader->form == OUTLINE_SECTION && !reader->inside;
    struct bl_buffer *out = reader->task != NULL && !around ? &reader->body : &reader->about;

    bl_buffer_append(out, text);
    bl_buffer_append_byte(out, '\n');
}

/* ---- One line -------------------------------------------------------------------------------- */

static void outline_take_heading(struct outline_reader *reader, const struct outline_line *line)
{
    struct bl_outline *outline = reader->outline;

    if (reader->form == OUTLINE_SECTION)
        reader->inside = outline_is_section(line->words);
    if (line->heading == 1 && outline->name.size == 0 && !outline_is_section(line->words)) {
        outline->name = bl_arena_text(reader->arena, line->words);
    } else if (reader->form == OUTLINE_HEADINGS && line->heading == reader->level) {
        outline_begin_task(reader, line);
    } else if (reader->task != NULL && reader->form == OUTLINE_HEADINGS) {
        reader->criteria = outline_is_criteria(line->words);
        if (!reader->criteria)
            outline_add_text(reader, line->text);
    } else if (!reader->inside) {
        outline_add_text(reader, line->text);
    }
}

static void outline_take_item(struct outline_reader *reader, const struct outline_line *line)
{
    bool top = line->indent < 2;

    if (reader->form == OUTLINE_HEADINGS) {
        if (reader->task != NULL && (reader->criteria || line->box) && top)
            outline_add_criterion(reader, line->words);
        else
            outline_add_text(reader, line->text);
    } else if (reader->form == OUTLINE_SECTION && !reader->inside) {
        outline_add_text(reader, line->text);
    } else if (top) {
        outline_begin_task(reader, line);
    } else if (reader->task != NULL) {
        outline_add_criterion(reader, line->words);
    }
}

static void outline_take_line(struct outline_reader *reader, struct bl_text text)
{
    struct outline_line line = outline_look(text);
    bool fence = outline_is_fence(&line);

    reader->fenced = reader->fenced != fence;
    if (reader->fenced || fence)
        outline_add_text(reader, line.text);
    else if (line.heading > 0)
        outline_take_heading(reader, &line);
    else if (line.item)
        outline_take_item(reader, &line);
    else if (reader->form == OUTLINE_LINES)
        outline_begin_task(reader, &line);
    else
        outline_add_text(reader, bl_text_trim(line.text));
}

int bl_outline_read(struct bl_arena *arena, struct bl_text text, struct bl_outline *ret_outline,
                    struct bl_error *error)
{
    struct outline_reader reader = {.arena = arena, .outline = ret_outline, .error = error};
    struct bl_text rest = text, line;

    *ret_outline = (struct bl_outline){.tasks = NULL};
    if (text.size > PLAN_SIZE_MAX)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, OPERATION, NULL,
                            "the task list is larger than %zu KiB", PLAN_SIZE_MAX / 1024);
    if (bl_utf8_valid_prefix(text, NULL) < text.size ||
        (text.size > 0 && memchr(text.data, '\0', text.size) != NULL))
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, NULL,
                            "the task list is not UTF-8 text");
    bl_buffer_init(&reader.body, 2 * PLAN_SIZE_MAX);
    bl_buffer_init(&reader.about, 2 * PLAN_SIZE_MAX);
    outline_decide(&reader, text);
    while (reader.code == 0 && bl_text_split(&rest, '\n', &line))
        outline_take_line(&reader, line);
    outline_close(&reader);
    ret_outline->description = bl_arena_text(arena, bl_text_trim(bl_buffer_text(&reader.about)));
    bl_buffer_done(&reader.about);
    bl_buffer_done(&reader.body);
    return reader.code;
}
