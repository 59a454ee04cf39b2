/* A list of tasks in whatever form: reading it must not crash, leak or hang. What is read becomes a
 * plan, and that is valid except for errors of its author: ids that are there twice, tasks
 * that come after each other, and more than a plan may hold. */
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
    fprintf(stderr, "outline_fuzz: %s\n", what);
    abort();
}

static const char *mark_path(void)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/.git", folder);
    return path;
}

static void remove_folder(void)
{
    rmdir(mark_path());
    rmdir(folder);
}

static void make_folder(void)
{
    if (folder[0] != '\0')
        return;
    snprintf(folder, sizeof folder, "/tmp/belay-outline-fuzz-XXXXXX");
    check(mkdtemp(folder) != NULL && mkdir(mark_path(), 0700) == 0, "no scratch folder");
    atexit(remove_folder);
}

static void check_problems(const struct bl_list *problems)
{
    BL_LIST_EACH (link, problems) {
        const struct bl_plan_problem *problem = BL_CONTAINER(link, struct bl_plan_problem, link);
        bool own = strcmp(problem->code, "E01") == 0 || strcmp(problem->code, "E02") == 0 ||
                   strcmp(problem->code, "E05") == 0;
        check(own, problem->message);
        check(strcmp(problem->code, "E01") != 0 || strstr(problem->message, "more than") != NULL ||
                  strstr(problem->message, "larger than") != NULL,
              problem->message);
    }
}

static void check_plan(struct bl_arena *arena, const struct bl_outline *outline)
{
    const struct bl_plan_draft draft = {.repository = folder, .id = "FEAT-FUZZ"};
    struct bl_plan_source *sources;
    struct bl_list problems;
    struct bl_plan *plan = NULL;

    if (bl_plan_draft(arena, outline, &draft, &sources, NULL) != 0)
        return;
    struct bl_plan_options options = {.name = "FEAT-FUZZ",
                                      .directory = folder,
                                      .sources = sources,
                                      .source_count = outline->count + 1};
    bl_list_init(&problems);
    int code = bl_plan_load(arena, &options, &plan, &problems, NULL);
    check(code == 0 || code == BL_EINVAL, "a code that is not promised");
    check_problems(&problems);
    check(code != 0 || plan->task_count == outline->count, "tasks that got lost");
    bl_plan_free(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text input = {(const char *)data, size};
    struct bl_outline outline;
    struct bl_arena arena;

    make_folder();
    bl_arena_init(&arena);
    int code = bl_outline_read(&arena, input, &outline, NULL);
    check(code == 0 || code == BL_EINVAL || code == BL_ELIMIT, "a code that is not promised");
    if (code == 0)
        check_plan(&arena, &outline);
    bl_arena_done(&arena);
    return 0;
}
