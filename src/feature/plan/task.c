#include "plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const mode_words[] = {"task-work", "direct", "manual"};
static const struct bl_names modes = BL_NAMES(mode_words);
/* The last two mean work that has not started or waits for a review. */
static const char *const state_words[] = {"pending", "in_progress", "completed", "failed",
                                          "skipped", "deferred",    "backlog",   "in_review"};
static const struct bl_names states = BL_NAMES(state_words);

/* An entry of the feature file, or the front matter of a task file. */
struct task_said {
    const char *id;
    const char *name;
    const char *file_path;
    int64_t complexity;
    double minutes;
    const char *status;
    const char *mode;
    const struct bl_json *belay;
    const struct bl_json *autobuild;
    const struct bl_json *elsewhere; /* read elsewhere, or ignored */
};

#define ELSEWHERE(key)   BL_MEMBER_JSON(key, elsewhere, .optional = true)
#define BL_RECORD_STRUCT struct task_said
static const struct bl_member entry_members[] = {
    BL_MEMBER_STRING("id", id, .optional = true),
    BL_MEMBER_STRING("name", name, .optional = true),
    BL_MEMBER_STRING("file_path", file_path, .optional = true),
    BL_MEMBER_INTEGER("complexity", complexity, .optional = true, .least = 1, .most = 10),
    BL_MEMBER_NUMBER("estimated_minutes", minutes, .optional = true, .most = 1000000),
    BL_MEMBER_STRING("status", status, .optional = true, .names = &states),
    BL_MEMBER_STRING("implementation_mode", mode, .optional = true, .names = &modes),
    BL_MEMBER_JSON("belay", belay, .optional = true),
    ELSEWHERE("dependencies"),
    ELSEWHERE("task_type"),
    ELSEWHERE("behavioural_oracle"),
    ELSEWHERE("note"),
    ELSEWHERE("tags"),
    BL_MEMBER_END,
};
static const struct bl_member front_members[] = {
    BL_MEMBER_STRING("title", name, .optional = true),
    BL_MEMBER_JSON("belay", belay, .optional = true),
    BL_MEMBER_JSON("autobuild", autobuild, .optional = true),
    ELSEWHERE("id"),
    ELSEWHERE("task_type"),
    ELSEWHERE("acceptance_criteria"),
    ELSEWHERE("behavioural_oracle"),
    ELSEWHERE("dependencies"),
    ELSEWHERE("status"),
    ELSEWHERE("implementation_mode"),
    ELSEWHERE("type"),
    ELSEWHERE("tags"),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record entry_record = BL_RECORD("the task", struct task_said, entry_members);
static const struct bl_record front_record =
    BL_RECORD("the task file", struct task_said, front_members);

/* ---- Finding the task file ------------------------------------------------------------------- */

/* Returns whether the path itself, without links, leads above its start. */
static bool leaves_top(const char *path)
{
    struct bl_text rest = bl_text_from(path), part;
    int depth = 0;

    while (bl_text_split(&rest, '/', &part)) {
        if (bl_text_equal(part, BL_TEXT("..")))
            depth--;
        else if (part.size > 0 && !bl_text_equal(part, BL_TEXT(".")))
            depth++;
        if (depth < 0)
            return true;
    }
    return false;
}

/* Follows links. Returns false after adding an E03. */
static bool stays_in_repository(struct plan_loader *loader, const struct bl_json *node,
                                const char *name, const char *path)
{
    const char *repository = loader->plan->repository;
    char *real = realpath(path, NULL);
    size_t size = strlen(repository);
    struct stat status;
    bool fine = false;

    if (real == NULL && errno == ENOENT)
        plan_fault(loader, &loader->file, node, "E03", "no such file: %s", name);
    else if (real == NULL)
        plan_fault(loader, &loader->file, node, "E03", "%s cannot be reached: %s", name,
                   strerrordesc_np(errno));
    else if (strcmp(repository, "/") != 0 &&
             (strncmp(real, repository, size) != 0 || real[size] != '/'))
        plan_fault(loader, &loader->file, node, "E03",
                   "%s leaves the repository: it resolves to %s", name, real);
    else if (stat(real, &status) == 0 && S_ISDIR(status.st_mode))
        plan_fault(loader, &loader->file, node, "E03", "%s is a directory", name);
    else
        fine = true;
    free(real);
    return fine;
}

/* Returns the path of the task's file, or NULL after adding an E02 or E03. */
static const char *plan_task_find_file(struct plan_loader *loader, const struct bl_json *entry,
                                       struct bl_plan_task *task)
{
    const struct plan_file *file = &loader->file;
    const struct bl_json *key = plan_member(entry, "file_path");
    const char *name = task->file;
    bool usable = true;

    if (key == NULL) {
        plan_fault(loader, file, entry, "E02", "%s has no file_path", task->id);
        return NULL;
    }
    if (name == NULL)
        return NULL;
    const char *shown = plan_show(loader, bl_text_from(name));
    if (name[0] == '\0') {
        plan_fault(loader, file, key + 1, "E02", "the file_path of %s is empty", task->id);
        return NULL;
    }
    if (name[0] == '/') {
        plan_fault(loader, file, key + 1, "E03",
                   "%s is absolute: file_path is relative to the top of the repository", shown);
        usable = false;
    } else if (leaves_top(name)) {
        plan_fault(loader, file, key + 1, "E03", "%s leaves the repository", shown);
        usable = false;
    }
    const char *path = bl_arena_printf(loader->arena, "%s/%s", loader->plan->repository, name).data;
    struct stat status;
    bool directory = usable && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    if (!directory && !bl_text_ends_with(bl_text_from(name), BL_TEXT(".md"))) {
        plan_fault(loader, file, key + 1, "E03", "%s is not a .md file", shown);
        usable = false;
    }
    if (usable && plan_source(loader, path) != NULL)
        return path;
    return usable && stays_in_repository(loader, key + 1, name, path) ? path : NULL;
}

/* ---- A task file ----------------------------------------------------------------------------- */

/* Removes one line. Returns whether it is three dashes. */
static bool plan_task_take_dashes(struct bl_text *rest, struct bl_text *ret_line)
{
    if (!bl_text_split(rest, '\n', ret_line))
        return false;
    return ret_line->size > 0 && ret_line->data[0] == '-' &&
           bl_text_equal(bl_text_trim(*ret_line), BL_TEXT("---"));
}

/* Splits the file into YAML and body. The YAML starts on the file's first line, so that line
 * numbers match. */
static bool split_front_matter(struct plan_loader *loader, const struct plan_file *file,
                               struct bl_text *ret_yaml, struct bl_text *ret_body)
{
    struct bl_text rest = file->text, line;
    bool closed = false;

    if (bl_text_starts_with(rest, BL_TEXT("\xEF\xBB\xBF")))
        rest = (struct bl_text){rest.data + 3, rest.size - 3};
    if (!plan_task_take_dashes(&rest, &line)) {
        plan_fault(loader, file, NULL, "E01",
                   "missing front matter: a task file starts with a line ---, then id: and "
                   "title:, then a line ---");
        return false;
    }
    ret_yaml->data = line.data + line.size;
    while (!closed && rest.size > 0)
        closed = plan_task_take_dashes(&rest, &line);
    if (!closed) {
        plan_fault(loader, file, NULL, "E01",
                   "the front matter is not closed: a line --- is missing");
        return false;
    }
    ret_yaml->size = (size_t)(line.data - ret_yaml->data);
    *ret_body = rest;
    return true;
}

static bool same_dependencies(struct plan_loader *loader, const struct plan_draft *draft,
                              const struct bl_json *own)
{
    size_t count = bl_json_is(own, BL_JSON_ARRAY) ? bl_json_size(own) : 1;
    struct bl_text name, other;

    if (count != draft->dependency_count)
        return false;
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        if (!plan_scalar(loader, draft->dependencies[i], &name))
            return false;
        for (size_t j = 0; j < count && !found; j++) {
            const struct bl_json *node = bl_json_is(own, BL_JSON_ARRAY) ? bl_json_at(own, j) : own;
            found = plan_scalar(loader, node, &other) && bl_text_equal(name, other);
        }
        if (!found)
            return false;
    }
    return true;
}

static void read_front_matter(struct plan_loader *loader, struct plan_draft *draft,
                              struct bl_plan_task *task)
{
    const struct plan_file *file = &draft->file;
    const struct bl_json *root = file->document.root;
    const struct bl_json *id = plan_member(root, "id");
    const struct bl_json *dependencies = plan_member(root, "dependencies");
    struct task_said said = {0};
    struct bl_text text = {0};

    plan_record_read(loader, file, &front_record, root, "E02", &said);
    if (id != NULL && draft->id != NULL &&
        !(plan_scalar(loader, id + 1, &text) && bl_text_equal(text, bl_text_from(task->id))))
        plan_fault(loader, file, id + 1, "E02", "the id is %s here, but %s in the feature file",
                   plan_show_value(loader, id + 1), task->id);
    if (task->name == NULL)
        task->name = said.name;
    plan_autobuild_read(loader, draft, said.autobuild);
    if (said.belay != NULL)
        plan_said_read(loader, draft, said.belay);
    if (dependencies != NULL && !same_dependencies(loader, draft, dependencies + 1))
        plan_warn(loader, file, dependencies,
                  "the dependencies differ from those in the feature file, which are used");
    const char *oracle = plan_oracle_read(loader, file, root);
    if (oracle != NULL)
        draft->oracle = oracle;
}

static bool says(struct plan_loader *loader, const struct bl_json *mapping, const char *name,
                 struct bl_text word)
{
    const struct bl_json *key = plan_member(mapping, name);
    struct bl_text text;

    return key != NULL && plan_scalar(loader, key + 1, &text) && bl_text_equal(text, word);
}

static bool is_manual(struct plan_loader *loader, const struct bl_json *mapping)
{
    return says(loader, mapping, "implementation_mode", BL_TEXT("manual")) ||
           says(loader, mapping, "task_type", BL_TEXT("operator_handoff"));
}

static void plan_task_read_file(struct plan_loader *loader, struct plan_draft *draft,
                                struct bl_plan_task *task, const char *path)
{
    struct plan_file *file = &draft->file;
    struct bl_text yaml, body;

    file->name = task->file;
    if (!plan_file_load(loader, path, PLAN_TASK_SIZE_MAX, file) ||
        !split_front_matter(loader, file, &yaml, &body))
        return;
    task->body = bl_text_trim(body);
    if (!plan_file_parse(loader, file, yaml)) {
        file->document = (struct bl_document){0};
        plan_criteria_read(loader, file, task);
        return;
    }
    read_front_matter(loader, draft, task);
    task->manual = task->manual || is_manual(loader, file->document.root);
    plan_criteria_read(loader, file, task);
    if (task->criterion_count == 0)
        plan_warn(loader, file, NULL, "%s has no acceptance criteria for the Coach to check",
                  task->id);
}

/* ---- An entry -------------------------------------------------------------------------------- */

/* Reads the id. If another task has it already, this task gets an error and the other one keeps
 * it. */
static void read_id(struct plan_loader *loader, size_t number, const struct bl_json *entry,
                    const char *id)
{
    const struct plan_file *file = &loader->file;
    struct bl_plan_task *task = &loader->plan->tasks[number];
    const struct bl_json *key = plan_member(entry, "id");

    if (key == NULL) {
        plan_fault(loader, file, entry, "E02", "%s has no id", task->id);
        return;
    }
    if (id == NULL)
        return;
    if (!plan_id_valid(bl_text_from(id)))
        plan_fault(loader, file, key + 1, "E02",
                   "invalid id '%s' (expected 1 to 64 of A-Z, a-z, 0-9, _ and -, starting with a "
                   "letter or "
                   "digit)",
                   plan_show(loader, bl_text_from(id)));
    struct bl_text lower = bl_arena_text(loader->arena, bl_text_from(id));
    for (size_t i = 0; i < lower.size; i++)
        ((char *)lower.data)[i] = (char)tolower((unsigned char)lower.data[i]);
    uintptr_t other = (uintptr_t)bl_map_get(&loader->ids, lower);
    task->id = id;
    if (other != 0) {
        const struct plan_draft *first = &loader->drafts[other - 1];
        plan_fault(loader, file, key + 1, "E02", "the id %s is already used in line %u%s",
                   plan_show(loader, bl_text_from(id)), plan_line(file, first->node),
                   strcmp(loader->plan->tasks[other - 1].id, id) == 0 ? "" : ", in other case");
        return;
    }
    bl_map_set(&loader->ids, lower, (void *)(number + 1), NULL);
    loader->drafts[number].id = key + 1;
}

static void plan_task_read_dependencies(struct plan_loader *loader, const struct bl_json *entry,
                                        struct plan_draft *draft, const struct bl_plan_task *task)
{
    const struct plan_file *file = &loader->file;
    const struct bl_json *key = plan_member(entry, "dependencies");

    if (key == NULL)
        return;
    size_t count = bl_json_is(key + 1, BL_JSON_ARRAY) ? bl_json_size(key + 1) : 1;
    if (count > PLAN_DEPENDENCIES_MAX)
        plan_fault(loader, file, key, "E01", "%s has %zu dependencies (at most %u)", task->id,
                   count, PLAN_DEPENDENCIES_MAX);
    draft->dependencies =
        bl_arena_alloc(loader->arena, (PLAN_DEPENDENCIES_MAX + 1) * sizeof *draft->dependencies);
    if (!bl_json_is(key + 1, BL_JSON_ARRAY)) {
        struct bl_text name;
        if (plan_scalar(loader, key + 1, &name))
            draft->dependencies[draft->dependency_count++] = key + 1;
        else
            plan_fault(loader, file, key + 1, "E05",
                       "dependencies: expected a list of tasks, found %s", bl_value_type(key + 1));
        return;
    }
    BL_JSON_EACH (node, key + 1) {
        struct bl_text name;
        if (draft->dependency_count == PLAN_DEPENDENCIES_MAX)
            break;
        if (plan_scalar(loader, node, &name))
            draft->dependencies[draft->dependency_count++] = node;
        else
            plan_fault(loader, file, node, "E05",
                       "dependencies of %s: expected a task id, found %s", task->id,
                       bl_value_type(node));
    }
}

static void plan_task_read_entry(struct plan_loader *loader, const struct bl_json *entry)
{
    struct bl_plan *plan = loader->plan;
    size_t number = plan->task_count++;
    struct bl_plan_task *task = &plan->tasks[number];
    struct plan_draft *draft = &loader->drafts[number];
    const struct plan_file *file = &loader->file;
    struct task_said said = {.status = state_words[0]};

    draft->node = entry;
    draft->said.verify = loader->said.verify;
    draft->timeout = loader->timeout;
    draft->limits = loader->limits;
    draft->limits.max_budget_tokens = BL_UNLIMITED;
    draft->limits.max_budget_usd = -1;
    task->number = number;
    task->id = bl_arena_printf(loader->arena, "task %zu", number + 1).data;
    if (!bl_json_is(entry, BL_JSON_OBJECT)) {
        task->status = state_words[0];
        plan_fault(loader, file, entry, "E02",
                   "%s: expected a mapping with id and file_path, found %s", task->id,
                   bl_value_type(entry));
        return;
    }
    plan_record_read(loader, file, &entry_record, entry, "E02", &said);
    read_id(loader, number, entry, said.id);
    if (said.belay != NULL)
        plan_warn(loader, file, said.belay - 1, "belay: of a task is ignored here; move it to %s",
                  "its own file");
    task->name = said.name;
    task->file = said.file_path;
    task->complexity = said.complexity;
    task->estimated_minutes = (int64_t)(said.minutes + 0.5);
    task->status = said.status;
    task->mode = said.mode;
    task->manual = is_manual(loader, entry);
    plan_task_read_dependencies(loader, entry, draft, task);
    draft->oracle = plan_oracle_read(loader, file, entry);
    const char *path = plan_task_find_file(loader, entry, task);
    if (path != NULL)
        plan_task_read_file(loader, draft, task, path);
    if (task->name == NULL)
        task->name = task->id;
}

void plan_tasks_read(struct plan_loader *loader)
{
    const struct plan_file *file = &loader->file;
    const struct bl_json *root = file->document.root, *key = plan_member(root, "tasks");
    size_t count = key != NULL ? bl_json_size(key + 1) : 0;

    if (key == NULL || !bl_json_is(key + 1, BL_JSON_ARRAY) || count == 0) {
        plan_fault(loader, file, key != NULL ? key : root, "E02", "the feature has no tasks%s%s",
                   key != NULL && count > 0 ? ": expected a list, found " : "",
                   key != NULL && count > 0 ? bl_value_type(key + 1) : "");
        count = 0;
    }
    if (count > PLAN_TASKS_MAX) {
        plan_fault(loader, file, key, "E01", "%zu tasks (at most %u)", count, PLAN_TASKS_MAX);
        loader->tasks_cut = true;
        count = PLAN_TASKS_MAX;
    }
    loader->plan->tasks = bl_arena_zalloc(loader->arena, (count + 1) * sizeof(struct bl_plan_task));
    loader->drafts = bl_arena_zalloc(loader->arena, (count + 1) * sizeof(struct plan_draft));
    if (count == 0)
        return;
    BL_JSON_EACH (entry, key + 1) {
        if (loader->plan->task_count == count)
            break;
        plan_task_read_entry(loader, entry);
    }
}
