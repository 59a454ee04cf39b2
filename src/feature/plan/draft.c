/* Makes the files of a plan from an outline: ids, dependencies, criteria. Writes nothing. */
#include "plan.h"

#include <ctype.h>
#include <strings.h>

#define OPERATION      "write the plan"
#define FILES_MAX      ((size_t)4 << 20)
#define NAME_MAX_BYTES 200u /* of a title, in the plan */

struct draft {
    struct bl_arena *arena;
    const struct bl_outline *outline;
    const struct bl_plan_draft *options;
    const char **ids; /* of the tasks */
    struct bl_plan_source *sources;
    struct bl_error *error;
};

/* ---- Ids ------------------------------------------------------------------------------------- */

/* Makes a task id: "FEAT-LOGIN" has tasks "LOGIN-001". */
static const char *draft_id(struct draft *draft, size_t number)
{
    struct bl_text id = bl_text_from(draft->options->id), prefix = BL_TEXT("FEAT-");

    if (id.size > prefix.size && bl_text_starts_with(id, prefix) &&
        isalnum((unsigned char)id.data[prefix.size]))
        id = (struct bl_text){id.data + prefix.size, id.size - prefix.size};
    id = bl_utf8_cut(id, BL_PLAN_ID_SIZE - 1 - sizeof "-001");
    return bl_arena_printf(draft->arena, BL_TEXT_FORMAT "-%03zu", BL_TEXT_ARG(id), number).data;
}

static void draft_name_tasks(struct draft *draft)
{
    const struct bl_outline *outline = draft->outline;

    draft->ids = bl_arena_zalloc(draft->arena, (outline->count + 1) * sizeof *draft->ids);
    for (size_t i = 0; i < outline->count; i++)
        draft->ids[i] =
            outline->tasks[i].id != NULL ? outline->tasks[i].id : draft_id(draft, i + 1);
}

/* Finds a task by its id or its number from 1. Returns SIZE_MAX if there is none. */
static size_t draft_find(const struct draft *draft, const char *name)
{
    int64_t number;

    for (size_t i = 0; i < draft->outline->count; i++) {
        if (strcasecmp(draft->ids[i], name) == 0)
            return i;
    }
    if (bl_text_to_int64(bl_text_from(name), &number) == 0 && number >= 1 &&
        (uint64_t)number <= draft->outline->count)
        return (size_t)number - 1;
    return SIZE_MAX;
}

static int draft_refuse_name(const struct draft *draft, size_t task, const char *name)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name);
    for (size_t i = 0; i < draft->outline->count; i++)
        bl_suggestion_offer(&suggestion, draft->ids[i]);
    bl_error_set(draft->error, BL_EINVAL, BL_KIND_USAGE, OPERATION, name,
                 "task %zu, '%.80s', depends on '%.80s', which does not exist", task + 1,
                 draft->outline->tasks[task].title.data, name);
    if (suggestion.best != NULL)
        bl_error_hint(draft->error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(draft->error, "use a task's number, from 1 to %zu, or its id",
                      draft->outline->count);
    return BL_EINVAL;
}

/* ---- The files ------------------------------------------------------------------------------- */

/* Returns the size of a character at this position that JSON accepts and YAML forbids, or 0. */
static size_t draft_unprintable(struct bl_text text)
{
    const unsigned char *bytes = (const unsigned char *)text.data;

    if (bytes[0] == 0x7f)
        return 1;
    if (text.size > 1 && bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] <= 0x9f)
        return 2;
    bool mark = text.size > 2 && bytes[0] == 0xef && bytes[1] == 0xbb && bytes[2] == 0xbf;
    bool none = text.size > 2 && bytes[0] == 0xef && bytes[1] == 0xbf && bytes[2] >= 0xbe;
    return mark || none ? 3 : 0;
}

/* Puts a text as a scalar in double quotes, which JSON and YAML read alike. */
static void draft_put_text(struct bl_buffer *out, const char *key, struct bl_text text)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(clean, FILES_MAX);

    while (text.size > 0) {
        size_t skipped = draft_unprintable(text), size = skipped > 0 ? skipped : 1;
        if (skipped == 0)
            bl_buffer_append_byte(&clean, text.data[0]);
        text.data += size;
        text.size -= size;
    }
    bl_buffer_append(out, bl_text_from(key));
    bl_json_writer_init(&writer, out);
    bl_json_write_text(&writer, bl_buffer_text(&clean));
    bl_json_writer_done(&writer);
    bl_buffer_append_byte(out, '\n');
}

static struct bl_text draft_title(struct bl_text title)
{
    return bl_utf8_cut(title, NAME_MAX_BYTES);
}

static int draft_put_dependencies(struct draft *draft, size_t number, struct bl_buffer *out)
{
    const char *const *after = draft->outline->tasks[number].after;
    size_t count = 0;

    for (; after != NULL && after[count] != NULL; count++) {
        size_t other = draft_find(draft, after[count]);
        if (other == SIZE_MAX)
            return draft_refuse_name(draft, number, after[count]);
        bl_buffer_printf(out, "%s%s", count == 0 ? "    dependencies: [" : ", ", draft->ids[other]);
    }
    if (count == 0 && draft->options->in_order && number > 0)
        bl_buffer_printf(out, "    dependencies: [%s", draft->ids[number - 1]);
    if (count > 0 || (draft->options->in_order && number > 0))
        bl_buffer_append(out, BL_TEXT("]\n"));
    return 0;
}

static int draft_put_task(struct draft *draft, size_t number, struct bl_buffer *out)
{
    const struct bl_outline_task *task = &draft->outline->tasks[number];

    bl_buffer_printf(out, "  - id: %s\n", draft->ids[number]);
    draft_put_text(out, "    name: ", draft_title(task->title));
    bl_buffer_printf(out, "    file_path: .belay/features/%s/%s.md\n", draft->options->id,
                     draft->ids[number]);
    if (task->done)
        bl_buffer_append(out, BL_TEXT("    status: completed\n"));
    return draft_put_dependencies(draft, number, out);
}

static void draft_put_verify(const struct draft *draft, struct bl_buffer *out)
{
    const char *const *commands = draft->options->verify;

    if (commands == NULL || commands[0] == NULL)
        return;
    bl_buffer_append(out, BL_TEXT("belay:\n  verify:\n    commands:\n"));
    for (size_t i = 0; commands[i] != NULL; i++)
        draft_put_text(out, "      - ", bl_text_from(commands[i]));
}

static int draft_plan(struct draft *draft, struct bl_buffer *out)
{
    const struct bl_outline *outline = draft->outline;
    struct bl_text name = bl_text_from(draft->options->name);
    int code = 0;

    if (name.size == 0)
        name = outline->name.size > 0 ? outline->name : bl_text_from(draft->options->id);
    bl_buffer_printf(out, "id: %s\n", draft->options->id);
    draft_put_text(out, "name: ", draft_title(name));
    if (outline->description.size > 0)
        draft_put_text(out, "description: ", outline->description);
    bl_buffer_append(out, BL_TEXT("# Waves follow from the dependencies.\ntasks:\n"));
    for (size_t i = 0; i < outline->count && code == 0; i++)
        code = draft_put_task(draft, i, out);
    draft_put_verify(draft, out);
    return code;
}

/* Makes a task file. Without criteria, the title becomes the criterion. */
static void draft_task(struct draft *draft, size_t number, struct bl_buffer *out)
{
    const struct bl_outline_task *task = &draft->outline->tasks[number];
    bool whole = draft_title(task->title).size == task->title.size;

    bl_buffer_printf(out, "---\nid: %s\n", draft->ids[number]);
    draft_put_text(out, "title: ", draft_title(task->title));
    bl_buffer_append(out, BL_TEXT("---\n"));
    if (!whole || task->body.size == 0) {
        bl_buffer_append(out, task->title);
        bl_buffer_append_byte(out, '\n');
    }
    if (!whole && task->body.size > 0)
        bl_buffer_append_byte(out, '\n');
    if (task->body.size > 0) {
        bl_buffer_append(out, task->body);
        bl_buffer_append_byte(out, '\n');
    }
    bl_buffer_append(out, BL_TEXT("\n## Acceptance Criteria\n\n"));
    for (size_t i = 0; i < task->criterion_count; i++) {
        bl_buffer_append(out, BL_TEXT("- [ ] "));
        bl_buffer_append(out, task->criteria[i]);
        bl_buffer_append_byte(out, '\n');
    }
    if (task->criterion_count == 0) {
        bl_buffer_append(out, BL_TEXT("- [ ] "));
        bl_buffer_append(out, task->title);
        bl_buffer_append_byte(out, '\n');
    }
}

/* ---- The whole plan -------------------------------------------------------------------------- */

static void draft_add(struct draft *draft, size_t at, const char *path, struct bl_buffer *text)
{
    draft->sources[at].path =
        bl_arena_printf(draft->arena, "%s/.belay/features/%s", draft->options->repository, path)
            .data;
    draft->sources[at].text = bl_arena_text(draft->arena, bl_buffer_text(text));
    bl_buffer_clear(text);
}

int bl_plan_draft(struct bl_arena *arena, const struct bl_outline *outline,
                  const struct bl_plan_draft *options, struct bl_plan_source **ret_sources,
                  struct bl_error *error)
{
    struct draft draft = {.arena = arena, .outline = outline, .options = options, .error = error};
    BL_AUTO_BUFFER(text, FILES_MAX);

    if (outline->count == 0) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, options->id, "no tasks given");
        bl_error_hint(error, "list them as arguments, with --from FILE, or on standard input");
        return BL_EINVAL;
    }
    draft.sources = bl_arena_zalloc(arena, (outline->count + 1) * sizeof *draft.sources);
    draft_name_tasks(&draft);
    int code = draft_plan(&draft, &text);
    if (code != 0)
        return code;
    draft_add(&draft, 0, bl_arena_printf(arena, "%s.yaml", options->id).data, &text);
    for (size_t i = 0; i < outline->count; i++) {
        draft_task(&draft, i, &text);
        draft_add(&draft, i + 1, bl_arena_printf(arena, "%s/%s.md", options->id, draft.ids[i]).data,
                  &text);
    }
    *ret_sources = draft.sources;
    return 0;
}

/* ---- Plans by a model ------------------------------------------------------------------------ */

struct planned_task {
    struct bl_text title;
    struct bl_text description;
    const char *const *criteria;
    uint64_t *after; /* numbers, from 1 */
    size_t after_count;
};

struct planned {
    struct bl_text name;
    struct bl_text description;
    struct planned_task *tasks;
    size_t count;
};

static const struct bl_member number_element = {
    .type = BL_TYPE_INTEGER, .size = sizeof(uint64_t), .least = 1, .most = PLAN_TASKS_MAX};

#define BL_RECORD_STRUCT struct planned_task
static const struct bl_member planned_task_members[] = {
    BL_MEMBER_TEXT("title", title, .least = 1, .about = "What to do, in one line."),
    BL_MEMBER_TEXT("description", description,
                   .about = "Everything needed to do this task without seeing the others."),
    BL_MEMBER_STRINGS("criteria", criteria, .least = 1,
                      .about = "Checkable statements that are true when the task is done."),
    BL_MEMBER_ARRAY("after", after, after_count, &number_element,
                    .about = "Numbers, from 1, of the tasks that must be done first."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record planned_task_record =
    BL_RECORD("planned_task", struct planned_task, planned_task_members, .closed = true);
static const struct bl_member planned_task_element =
    BL_ELEMENT(struct planned_task, &planned_task_record);

#define BL_RECORD_STRUCT struct planned
static const struct bl_member planned_members[] = {
    BL_MEMBER_TEXT("name", name, .least = 1, .about = "Name of the feature, in a few words."),
    BL_MEMBER_TEXT("description", description, .about = "Description of the feature."),
    BL_MEMBER_ARRAY("tasks", tasks, count, &planned_task_element, .least = 1,
                    .most = PLAN_TASKS_MAX),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_outline_record =
    BL_RECORD("outline", struct planned, planned_members, .closed = true);

int bl_outline_take(struct bl_arena *arena, const struct bl_json *value,
                    struct bl_outline *ret_outline, struct bl_error *error)
{
    struct planned planned;
    struct bl_record_fault fault;
    char text[700];
    int code = bl_record_read(arena, &bl_outline_record, value, &planned, &fault);

    if (code != 0) {
        bl_record_fault_text(&fault, text, sizeof text);
        return bl_error_set(error, BL_EPARSE, BL_KIND_FEATURE, OPERATION, NULL, "%s", text);
    }
    *ret_outline = (struct bl_outline){.name = planned.name, .description = planned.description};
    for (size_t i = 0; i < planned.count && code == 0; i++) {
        const struct planned_task *from = &planned.tasks[i];
        size_t before = ret_outline->count, count = 0;
        code = bl_outline_add(arena, ret_outline, from->title, error);
        if (code != 0 || ret_outline->count == before)
            continue;
        struct bl_outline_task *task = &ret_outline->tasks[before];
        task->body = from->description;
        while (from->criteria != NULL && from->criteria[count] != NULL)
            count++;
        task->criteria = bl_arena_zalloc(arena, (count + 1) * sizeof *task->criteria);
        for (size_t k = 0; k < count; k++)
            task->criteria[k] = bl_text_from(from->criteria[k]);
        task->criterion_count = count;
        const char **after = bl_arena_zalloc(arena, (from->after_count + 1) * sizeof *after);
        for (size_t k = 0; k < from->after_count; k++)
            after[k] = bl_arena_printf(arena, "%llu", (unsigned long long)from->after[k]).data;
        task->after = after;
    }
    return code;
}
