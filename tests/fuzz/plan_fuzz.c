/* A plan and a task file, parted by a line of "%%%": loading them must not crash, leak or hang.
 * What is refused must say where, in text that no terminal obeys; what is accepted must be a plan
 * that can be run: each task in one wave, after what it depends on, with a deadline; and it must be
 * written as valid text and JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/feature.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "plan_fuzz: %s\n", what);
    abort();
}

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_folder(void)
{
    unlink(path_of("F.yaml"));
    unlink(path_of("t.md"));
    rmdir(path_of(".git"));
    rmdir(folder);
}

static void make_folder(void)
{
    if (folder[0] != '\0')
        return;
    snprintf(folder, sizeof folder, "/tmp/belay-plan-fuzz-XXXXXX");
    check(mkdtemp(folder) != NULL && mkdir(path_of(".git"), 0700) == 0, "no scratch folder");
    atexit(remove_folder);
}

static void write_file(const char *name, struct bl_text text)
{
    FILE *file = fopen(path_of(name), "we");

    check(file != NULL, "no scratch file");
    check(text.size == 0 || fwrite(text.data, 1, text.size, file) == text.size, "a short write");
    fclose(file);
}

static void check_plain(struct bl_text text, bool lines)
{
    check(bl_utf8_valid(text), "text that is not UTF-8");
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        check((byte >= 0x20 || (lines && byte == '\n')) && byte != 0x7f, "a control character");
    }
}

static void check_problems(const struct bl_list *problems)
{
    check(!bl_list_empty(problems), "refused for nothing");
    BL_LIST_EACH (link, problems) {
        const struct bl_plan_problem *problem = BL_CONTAINER(link, struct bl_plan_problem, link);
        struct bl_buffer out;
        check(problem->code[0] == 'E' && strlen(problem->code) == 3, "a code that there is not");
        bl_buffer_init(&out, 1 << 20);
        check(bl_plan_problem_text(problem, &out) == 0, "a problem that cannot be told");
        check_plain(bl_buffer_text(&out), false);
        bl_buffer_done(&out);
    }
}

static void check_plan(const struct bl_plan *plan)
{
    size_t placed = 0;

    check(plan->task_count > 0 && plan->task_count <= 500, "too many or no tasks");
    check(plan->wave_count > 0 && plan->wave_count <= 100, "too many or no waves");
    for (size_t i = 0; i < plan->wave_count; i++) {
        check(plan->waves[i].count > 0, "an empty wave");
        placed += plan->waves[i].count;
        for (size_t j = 0; j < plan->waves[i].count; j++) {
            const struct bl_plan_task *task = &plan->tasks[plan->waves[i].tasks[j]];
            check(task->wave == i, "a task that is elsewhere");
            check(j == 0 || plan->waves[i].tasks[j - 1] < plan->waves[i].tasks[j],
                  "not the plan's order");
        }
    }
    check(placed == plan->task_count, "a task in no wave, or in two");
    for (size_t i = 0; i < plan->task_count; i++) {
        const struct bl_plan_task *task = &plan->tasks[i];
        for (size_t j = 0; j < task->dependency_count; j++)
            check(plan->tasks[task->dependencies[j]].wave < task->wave, "a late dependency");
        check(task->deadline_ns > 0 && task->limits.turns > 0, "no time or no turns");
        check(task->criterion_count <= 200, "too many criteria");
        check(task->verify.commands != NULL && task->name != NULL, "a task that is not whole");
        check(task->player.kind != BL_SEAT_COMMAND || task->player.command != NULL, "no command");
    }
}

static void check_output(const struct bl_plan *plan, struct bl_arena *arena)
{
    struct bl_buffer out;
    const struct bl_json *json;

    bl_buffer_init(&out, 256u << 20);
    check(bl_plan_text(plan, &out) == 0, "a plan that cannot be shown");
    check_plain(bl_buffer_text(&out), true);
    bl_buffer_done(&out);
    check(bl_json_read(arena, bl_plan_json(arena, plan), NULL, &json, NULL) == 0, "no JSON");
    check(bl_record_check(&bl_plan_record, json, NULL) == 0, "a plan that does not fit its table");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text input = {(const char *)data, size}, task = {0};
    ptrdiff_t mark = bl_text_find(input, BL_TEXT("\n%%%\n"));
    struct bl_arena arena;
    struct bl_list problems;
    struct bl_plan *plan = NULL;

    make_folder();
    if (mark >= 0) {
        task = (struct bl_text){input.data + mark + 5, input.size - (size_t)mark - 5};
        input.size = (size_t)mark;
    }
    write_file("F.yaml", input);
    write_file("t.md", task);
    bl_arena_init(&arena);
    bl_list_init(&problems);
    struct bl_plan_options options = {.name = "F.yaml", .directory = folder};
    int code = bl_plan_load(&arena, &options, &plan, &problems, NULL);
    check(code == 0 || code == BL_EINVAL, "a code that is not promised");
    if (code == 0) {
        check_plan(plan);
        check_output(plan, &arena);
    } else {
        check_problems(&problems);
    }
    bl_plan_free(plan);
    bl_arena_done(&arena);
    return 0;
}
