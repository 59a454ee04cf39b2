/* `belay feature new`: makes a plan and its task files from a list of tasks or a model's answer.
 * The plan is checked like any other before it is written. */
#include "new.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/answers.h"

#define OPERATION "write the plan"
#define TEXT_MAX  ((size_t)16 * 1024 * 1024)
#define INPUT_MAX ((size_t)2 * 1024 * 1024)

/* ---- The tasks ------------------------------------------------------------------------------- */

static int new_refuse_two(const struct feature_options *options, struct bl_error *error)
{
    bool several =
        (options->text_count > 0) + (options->from != NULL) + (options->prompt != NULL) > 1;

    if (!several)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, options->name,
                 "tasks given in more than one way");
    bl_error_hint(error, "use only one of arguments, --from FILE and --prompt TEXT");
    return BL_EINVAL;
}

static int new_load(struct feature_new *new, struct bl_buffer *out)
{
    const char *from = new->options->from, *why = "";
    bool standard = from == NULL || strcmp(from, "-") == 0;
    int code;

    if (from == NULL && isatty(STDIN_FILENO) == 1) {
        bl_error_set(&new->error, BL_EINVAL, BL_KIND_USAGE, OPERATION, new->options->name,
                     "no tasks given");
        bl_error_hint(&new->error,
                      "list them as arguments, with --from FILE or on standard input, or "
                      "let a model plan with --prompt TEXT");
        return BL_EINVAL;
    }
    code = standard ? bl_descriptor_load(STDIN_FILENO, INPUT_MAX, out, &why)
                    : bl_file_load(from, INPUT_MAX, out, &why);
    if (code == 0)
        return 0;
    const char *name = standard ? "standard input" : from;
    if (code == BL_ELIMIT)
        return bl_error_set(&new->error, code, BL_KIND_USAGE, OPERATION, name,
                            "%s is larger than %zu MiB", name, INPUT_MAX >> 20);
    return bl_error_set(&new->error, code, BL_KIND_FILESYSTEM, OPERATION, name,
                        "cannot read %s: %s", name, why);
}

static int new_read(struct feature_new *new)
{
    const struct feature_options *options = new->options;
    struct bl_buffer text = {0};
    int code = 0;

    for (size_t i = 0; i < options->text_count && code == 0; i++)
        code = bl_outline_add(&new->arena, &new->outline, bl_text_from(options->texts[i]),
                              &new->error);
    if (options->text_count > 0 || code != 0)
        return code;
    code = new_load(new, &text);
    if (code == 0)
        code = bl_outline_read(&new->arena, bl_buffer_text(&text), &new->outline, &new->error);
    bl_buffer_done(&text);
    return code;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static int new_refuse_place(struct feature_new *new, const char *path)
{
    bl_error_set(&new->error, BL_EEXIST, BL_KIND_FEATURE, OPERATION, path,
                 "%s already exists, and is not overwritten", path);
    bl_error_hint(&new->error, "choose another id, or edit that plan");
    return BL_EEXIST;
}

/* Refuses an existing plan of that id, and an existing folder of its task files. */
static int new_check_place(struct feature_new *new)
{
    const char *id = new->options->name;
    const char *const *ids = bl_plan_ids(&new->arena, new->repository);
    const char *folder = bl_arena_printf(&new->arena, ".belay/features/%s", id).data;

    for (size_t i = 0; ids[i] != NULL; i++) {
        if (strcmp(ids[i], id) == 0)
            return new_refuse_place(new, bl_arena_printf(&new->arena, "the plan %s", id).data);
    }
    const char *path = bl_arena_printf(&new->arena, "%s/%s", new->repository, folder).data;
    return access(path, F_OK) == 0 ? new_refuse_place(new, folder) : 0;
}

int feature_new_check(struct feature_new *new)
{
    const struct feature_options *options = new->options;
    const struct bl_plan_draft draft = {
        .repository = new->repository,
        .id = options->name,
        .name = options->title,
        .verify = options->verify,
        .in_order = options->in_order,
    };
    struct bl_plan_options load = {
        .name = options->name,
        .directory = options->directory,
        .config = new->project.config,
        .personas = &new->project.personas,
        .source_count = new->outline.count + 1,
        .seats_later = true,
    };

    bl_list_init(&new->problems);
    bl_plan_free(new->plan);
    new->plan = NULL;
    int code = bl_plan_draft(&new->arena, &new->outline, &draft, &new->sources, &new->error);
    load.sources = new->sources;
    if (code == 0)
        code = bl_plan_load(&new->arena, &load, &new->plan, &new->problems, &new->error);
    return code;
}

static int new_perform(struct feature_new *new)
{
    const struct feature_options *options = new->options;
    struct bl_error *error = &new->error;

    int code = new_refuse_two(options, error);
    if (code == 0)
        code = bl_plan_repository(&new->arena, options->directory, &new->repository, error);
    if (code == 0)
        code = new_check_place(new);
    if (code == 0)
        code = bl_project_read(&new->project, options->directory, error);
    if (code == 0 && options->prompt != NULL)
        return feature_new_ask(new);
    if (code == 0)
        code = new_read(new);
    return code == 0 ? feature_new_check(new) : code;
}

static int new_main(void *argument)
{
    struct feature_new *new = argument;

    int code = new_perform(new);
    if (code == 0 && !new->options->dry_run)
        code = feature_new_write(new);
    return code;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static const char *new_plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void new_put_task(struct bl_buffer *out, const struct bl_plan *plan,
                         const struct bl_plan_task *task)
{
    bl_buffer_printf(out, "  %s  ", task->id);
    feature_put_safe(out, bl_text_from(task->name));
    for (size_t i = 0; i < task->dependency_count; i++)
        bl_buffer_printf(out, "%s%s", i == 0 ? ", after " : ", ",
                         plan->tasks[task->dependencies[i]].id);
    bl_buffer_append_byte(out, '\n');
}

static void new_put_plan(struct bl_buffer *out, const struct bl_plan *plan)
{
    bl_buffer_printf(out, "%s: ", plan->id);
    feature_put_safe(out, bl_text_from(plan->name));
    bl_buffer_printf(out, ": %zu task%s in %zu wave%s\n", plan->task_count,
                     new_plural(plan->task_count), plan->wave_count, new_plural(plan->wave_count));
    for (size_t i = 0; i < plan->wave_count; i++) {
        bl_buffer_printf(out, "wave %zu\n", i + 1);
        for (size_t k = 0; k < plan->waves[i].count; k++)
            new_put_task(out, plan, &plan->tasks[plan->waves[i].tasks[k]]);
    }
}

static void new_put_files(const struct feature_new *new, struct bl_buffer *out)
{
    for (size_t i = 0; i <= new->outline.count; i++) {
        bl_buffer_printf(out, "--- %s\n", new->sources[i].path + strlen(new->repository) + 1);
        bl_buffer_append(out, new->sources[i].text);
    }
    bl_buffer_append_byte(out, '\n');
}

/* A title is a weak criterion; the author of the plan knows better ones. */
static size_t new_count_bare(const struct bl_outline *outline)
{
    size_t count = 0;

    for (size_t i = 0; i < outline->count; i++)
        count += outline->tasks[i].criterion_count == 0;
    return count;
}

static void new_put_next(const struct feature_new *new, struct bl_buffer *out)
{
    const char *id = new->plan->id;
    size_t bare = new_count_bare(&new->outline);

    BL_LIST_EACH (link, &new->plan->warnings) {
        bl_plan_problem_text(BL_CONTAINER(link, struct bl_plan_problem, link), out);
        bl_buffer_append_byte(out, '\n');
    }
    if (new->written)
        bl_buffer_printf(out,
                         "Wrote .belay/features/%s.yaml and %zu task file%s in "
                         ".belay/features/%s.\n",
                         id, new->outline.count, new_plural(new->outline.count), id);
    else
        bl_buffer_append(out, BL_TEXT("Nothing was written (--dry-run).\n"));
    if (bare > 0)
        bl_buffer_printf(out,
                         "%zu task%s no criterion but the title: add criteria to the task "
                         "file%s.\n",
                         bare, bare == 1 ? " has" : "s have", new_plural(bare));
    if (new->written)
        bl_buffer_printf(out, "Next: belay feature run %s\n", id);
}

static int new_print_text(const struct feature_new *new)
{
    struct cli_call *call = new->options->call;
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (!new->written)
        new_put_files(new, &out);
    new_put_plan(&out, new->plan);
    new_put_next(new, &out);
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

struct new_view {
    const char *feature;
    const char *name;
    bool written;
    const char *const *files;
    struct bl_text plan; /* JSON */
    struct feature_problems problems;
    const struct bl_error *error; /* NULL: none */
};

#define BL_RECORD_STRUCT struct new_view
static const struct bl_member new_members[] = {
    BL_MEMBER_STRING("feature", feature, .form = &cli_feature_id_form),
    BL_MEMBER_BOOLEAN("written", written, .about = "false: --dry-run, or an error."),
    BL_MEMBER_STRINGS("files", files,
                      .about =
                          "Paths from the top of the repository: the plan, then a file for each "
                          "task."),
    BL_MEMBER_RAW("plan", plan, .nullable = true, .record = &bl_plan_record,
                  .about = "null: it has errors."),
    FEATURE_MEMBER_PROBLEMS("plan_errors", problems.errors),
    FEATURE_MEMBER_PROBLEMS("warnings", problems.warnings),
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true,
                      .about = "Why there is no plan."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const int64_t new_exits[] = {CLI_EXIT_OK, CLI_EXIT_USAGE};
static const struct bl_numbers new_numbers = BL_NUMBERS(new_exits);
const struct cli_answer feature_new_answer = {
    BL_RECORD("feature-new", struct new_view, new_members), .of = "feature new",
    .exits = &new_numbers};

static void new_move(struct bl_list *from, struct bl_list *to)
{
    struct bl_list *link;

    bl_list_init(to);
    while ((link = bl_list_pop_front(from)) != NULL)
        bl_list_push_back(to, link);
}

static int new_print_json(struct feature_new *new, int exit_code)
{
    const char **files = bl_arena_zalloc(&new->arena, (new->outline.count + 2) * sizeof *files);
    struct new_view view = {
        .feature = new->options->name,
        .written = new->written,
        .files = files,
        .error = new->plan == NULL ? &new->error : NULL,
    };

    for (size_t i = 0; i <= new->outline.count; i++)
        files[i] = new->sources[i].path + strlen(new->repository) + 1;
    new_move(&new->problems, &view.problems.errors);
    bl_list_init(&view.problems.warnings);
    if (new->plan != NULL) {
        view.plan = bl_plan_json(&new->arena, new->plan);
        new_move(&new->plan->warnings, &view.problems.warnings);
    }
    return cli_answer_print(new->options->call, exit_code, &feature_new_answer.record, &view);
}

static int new_print_problems(struct feature_new *new)
{
    size_t count = 0;
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (new->options->call->format != CLI_FORMAT_TEXT)
        return new_print_json(new, CLI_EXIT_USAGE);
    BL_LIST_EACH (link, &new->problems) {
        bl_plan_problem_text(BL_CONTAINER(link, struct bl_plan_problem, link), &out);
        bl_buffer_append_byte(&out, '\n');
        count++;
    }
    bl_buffer_printf(&out, "belay feature: the plan has %zu error%s; nothing was written\n", count,
                     new_plural(count));
    cli_remark(bl_buffer_text(&out));
    return CLI_EXIT_USAGE;
}

int feature_new_command(const struct feature_options *options)
{
    struct feature_new *new = bl_zalloc(sizeof *new);
    struct cli_call *call = options->call;
    int exit_code;

    new->options = options;
    bl_project_init(&new->project);
    bl_list_init(&new->problems);
    int code = cli_loop_run("feature new", new_main, new, &new->error);
    if (code != 0 && !bl_list_empty(&new->problems))
        exit_code = new_print_problems(new);
    else if (code != 0)
        exit_code =
            cli_fail(call, &new->error,
                     new->exit_code != 0 ? new->exit_code : cli_error_exit_code(&new->error));
    else if (call->format != CLI_FORMAT_TEXT)
        exit_code = new_print_json(new, CLI_EXIT_OK);
    else
        exit_code = new_print_text(new);
    bl_plan_free(new->plan);
    bl_project_done(&new->project);
    bl_arena_done(&new->arena);
    bl_free(new);
    return exit_code;
}
