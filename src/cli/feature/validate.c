#include "feature.h"

#include "cli/answers.h"

#define TEXT_MAX ((size_t)16 * 1024 * 1024)

/* ---- Reading --------------------------------------------------------------------------------- */

void feature_preparation_free(void *argument)
{
    struct feature_preparation *preparation = argument;

    if (preparation == NULL)
        return;
    bl_plan_free(preparation->plan);
    bl_project_done(&preparation->project);
    bl_arena_done(&preparation->arena);
    bl_free(preparation);
}

/* Blocks. */
static void validate_read_all(void *argument)
{
    struct feature_preparation *preparation = argument;
    struct bl_arena *arena = &preparation->arena;
    struct bl_plan_options plan = {
        .name = preparation->name,
        .directory = preparation->directory,
        .overrides = &preparation->overrides,
        .personas = &preparation->project.personas,
    };

    int code = bl_project_read(&preparation->project, preparation->directory, &preparation->error);
    plan.config = preparation->project.config;
    if (code == 0)
        code = bl_plan_load(arena, &plan, &preparation->plan, &preparation->problems,
                            &preparation->error);
    preparation->code = code;
}

int feature_prepare(const struct feature_options *options, const char *name,
                    struct feature_preparation **ret_preparation)
{
    struct feature_preparation *preparation = bl_zalloc(sizeof *preparation);
    struct bl_work job = {
        .run = validate_read_all,
        .drop = feature_preparation_free,
        .payload = preparation,
        .abandon_on_stop = true,
    };
    bool abandoned = false;

    bl_arena_init(&preparation->arena);
    bl_project_init(&preparation->project);
    bl_list_init(&preparation->problems);
    /* Copies: an abandoned thread still reads after the options are freed. */
    preparation->name = bl_arena_text(&preparation->arena, bl_text_from(name)).data;
    preparation->directory =
        bl_arena_text(&preparation->arena, bl_text_from(options->directory)).data;
    preparation->overrides = options->overrides;
    int code = bl_work_call(&job, &abandoned);
    if (code == 0)
        *ret_preparation = preparation;
    else if (!abandoned)
        feature_preparation_free(preparation);
    return code;
}

/* ---- Problems -------------------------------------------------------------------------------- */

static const struct bl_plan_problem *problem_of(const struct bl_list *link)
{
    return BL_CONTAINER(link, struct bl_plan_problem, link);
}

static void put_problem(struct bl_buffer *out, const struct bl_plan_problem *problem)
{
    bl_plan_problem_text(problem, out);
    if (out->size > 0 && out->data[out->size - 1] != '\n')
        bl_buffer_append_byte(out, '\n');
}

void feature_problems_text(const struct feature_preparation *preparation, struct bl_buffer *out)
{
    size_t count = 0;

    BL_LIST_EACH (link, &preparation->problems) {
        put_problem(out, problem_of(link));
        count++;
    }
    bl_buffer_printf(out, "belay feature: the plan has %zu error%s\n", count,
                     count == 1 ? "" : "s");
}

void feature_problems_take(struct feature_preparation *preparation,
                           struct feature_problems *ret_problems)
{
    struct bl_plan *plan = preparation != NULL ? preparation->plan : NULL;
    struct bl_list *link;

    bl_list_init(&ret_problems->errors);
    bl_list_init(&ret_problems->warnings);
    while (preparation != NULL && (link = bl_list_pop_front(&preparation->problems)) != NULL)
        bl_list_push_back(&ret_problems->errors, link);
    while (plan != NULL && (link = bl_list_pop_front(&plan->warnings)) != NULL)
        bl_list_push_back(&ret_problems->warnings, link);
}

/* ---- The command ----------------------------------------------------------------------------- */

struct validation {
    const struct feature_options *options;
    struct feature_preparation *preparation;
};

static int validate_main(void *argument)
{
    struct validation *validation = argument;

    int code =
        feature_prepare(validation->options, validation->options->name, &validation->preparation);
    struct feature_preparation *preparation = validation->preparation;
    if (code == 0 && preparation->code == 0)
        preparation->code = bl_plan_repository_check(preparation->plan, &preparation->error);
    return code;
}

struct validate_view {
    struct bl_text plan; /* JSON */
    struct feature_problems problems;
    const struct bl_error *error; /* NULL: none */
};

#define BL_RECORD_STRUCT struct validate_view
static const struct bl_member validate_members[] = {
    BL_MEMBER_RAW("plan", plan, .nullable = true, .record = &bl_plan_record,
                  .about = "null: it has errors."),
    FEATURE_MEMBER_PROBLEMS("plan_errors", problems.errors),
    FEATURE_MEMBER_PROBLEMS("warnings", problems.warnings),
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true,
                      .about = "Why the plan cannot be used."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const int64_t validate_exits[] = {CLI_EXIT_OK, CLI_EXIT_FAILED, CLI_EXIT_USAGE};
static const struct bl_numbers validate_numbers = BL_NUMBERS(validate_exits);
const struct cli_answer feature_validate_answer = {
    BL_RECORD("feature-validate", struct validate_view, validate_members), .of = "feature validate",
    .exits = &validate_numbers};

static int validate_print_json(const struct cli_call *call, struct feature_preparation *preparation,
                               int exit_code)
{
    struct validate_view view = {.error = preparation->code != 0 ? &preparation->error : NULL};

    if (preparation->plan != NULL)
        view.plan = bl_plan_json(&preparation->arena, preparation->plan);
    feature_problems_take(preparation, &view.problems);
    return cli_answer_print(call, exit_code, &feature_validate_answer.record, &view);
}

static int print_plan(struct cli_call *call, const struct feature_preparation *preparation)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    bl_plan_text(preparation->plan, &out);
    BL_LIST_EACH (link, &preparation->plan->warnings)
        put_problem(&out, problem_of(link));
    BL_LIST_EACH (link, &preparation->project.notices) {
        bl_buffer_append(&out, BL_TEXT("warning: "));
        feature_put_safe(&out, BL_CONTAINER(link, struct bl_notice, link)->text);
        bl_buffer_append_byte(&out, '\n');
    }
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

static int validate_answer(struct cli_call *call, struct feature_preparation *preparation)
{
    bool invalid = preparation->plan == NULL && !bl_list_empty(&preparation->problems);
    int exit_code = invalid ? CLI_EXIT_USAGE : CLI_EXIT_OK;
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (preparation->code != 0 && !invalid)
        exit_code = cli_error_exit_code(&preparation->error);
    if (call->format != CLI_FORMAT_TEXT)
        return validate_print_json(call, preparation, exit_code);
    if (preparation->code != 0 && !invalid)
        return cli_fail(call, &preparation->error, exit_code);
    if (preparation->plan != NULL)
        return print_plan(call, preparation);
    feature_problems_text(preparation, &out);
    cli_remark(bl_buffer_text(&out));
    return exit_code;
}

int feature_validate_command(const struct feature_options *options)
{
    struct validation validation = {.options = options};
    struct bl_error error = {0};
    int exit_code;

    if (cli_loop_run("feature validate", validate_main, &validation, &error) != 0)
        exit_code = cli_fail(options->call, &error, cli_error_exit_code(&error));
    else
        exit_code = validate_answer(options->call, validation.preparation);
    feature_preparation_free(validation.preparation);
    return exit_code;
}
