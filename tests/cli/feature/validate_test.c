/* `belay feature validate` reports errors at once, and the same ones as `run`. */
#include "scenes.h"

#include <unistd.h>

/* A plan whose seats are configured agents. */
static void plan_agents(const char *belay)
{
    field_task("A", "");
    field_plan(stage_printf("tasks:\n  - {id: A, file_path: tasks/A.md}\n%s", belay));
    field_commit();
}

/* Expects that exit code and text on standard error from `validate NAME` and `run NAME`; nothing
 * starts. */
static void expect_both(const char *name, int exit_code, const char *message)
{
    static const char *const verbs[] = {"validate", "run"};
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        const struct run *run = FEATURE_RUN(exit_code, verbs[i], name);
        scene_expect(run->err, message);
        assert_string_equal(run->out, "");
    }
    const struct run *run = FEATURE_RUN(0, "list", "--json");
    assert_int_equal(stage_size_at(stage_json(run->out), "/features"), 0);
}

static void agent_without_a_model_is_an_error(void **state)
{
    (void)state;
    plan_agents("");
    expect_both("FEAT", 2, "E09 the player is an agent, but no model is configured for it");
    scene_expect(FEATURE_RUN(2, "validate", "FEAT")->err, "E09 the coach is an agent");
    scene_expect(FEATURE_RUN(2, "validate", "FEAT")->err, "the plan has 2 errors");
}

static void agent_without_a_key_is_an_error_at_its_line(void **state)
{
    (void)state;
    plan_agents(stage_printf("belay:\n  coach: {command: %s}\n"
                             "  player: {provider: anthropic, model: some-model}\n",
                             field_coach("coach", "")));
    expect_both("FEAT", 2,
                "FEAT.yaml:7: E09 the player is an agent, but there is no key for provider "
                "anthropic; set ANTHROPIC_API_KEY");
    scene_expect(FEATURE_RUN(2, "validate", "FEAT")->err, "the plan has 1 error\n");
}

static void manual_task_needs_no_model(void **state)
{
    (void)state;
    field_task("A", "");
    field_plan("tasks:\n  - {id: A, file_path: tasks/A.md, implementation_mode: manual}\n");
    field_commit();
    FEATURE_RUN(0, "validate", "FEAT");
}

static void file_that_is_not_a_plan_is_described(void **state)
{
    (void)state;
    field_tasks("A", field_player("player", ""), field_coach("coach", ""), "", "");
    field_write("empty.yaml", "");
    scene_expect(FEATURE_RUN(2, "validate")->err, "missing argument FEAT");
    scene_expect(FEATURE_RUN(2, "validate")->err, "plans here: FEAT\n");
    scene_expect(FEATURE_RUN(2, "run")->err, "plans here: FEAT\n");
    expect_both(".", 2, "this is a folder, not a plan. The plan here is FEAT.");
    expect_both(".belay/features/", 2, "The plan here is FEAT.");
    expect_both("FEET", 2, "no feature FEET");
    expect_both("FEET", 2, "Did you mean 'FEAT'?");
    expect_both("OTHER", 2, "The plan here is FEAT.");
    expect_both(".belay/features/FEAT", 2, "Did you mean '.belay/features/FEAT.yaml'?");
    expect_both("tasks/A.md", 2, "this is a Markdown file, but a plan is a YAML file");
    expect_both("README.md", 2, "this is a Markdown file");
    expect_both("empty.yaml", 2, "the file is empty; a plan needs an id, a name and tasks");
    scene_expect(FEATURE_RUN(2, "validate", "FEAT/A")->err,
                 "omit the task: belay feature validate FEAT\n");
    scene_expect(FEATURE_RUN(2, "run", "FEAT/A")->err, "belay feature run FEAT --task A\n");
}

static void validate_refuses_a_repository_like_run(void **state)
{
    (void)state;
    field_tasks("A", field_player("player", ""), field_coach("coach", ""), "", "");
    field_git("branch belay");
    expect_both("FEAT", 1, "branch 'belay' exists");
    field_git("branch -D belay -q");
    scene_shell("mkdir ../plain ../empty && cp -r .belay tasks ../plain && "
                "cp -r .belay tasks ../empty && git init -q ../empty");
    assert_int_equal(chdir(stage_path("empty")), 0);
    expect_both("FEAT", 1, "the repository has no commits yet");
    assert_int_equal(chdir(stage_path("plain")), 0);
    scene_expect(FEATURE_RUN(1, "validate", "FEAT")->err, "is not in a git repository");
    const struct run *run = FEATURE_RUN(1, "validate", ".belay/features/FEAT.yaml", "--json");
    const struct bl_json *answer = stage_answer(run, "feature-validate", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "feature");
    assert_int_equal(chdir(stage_path("work")), 0);
}

SUITE(validate, FIELD(agent_without_a_model_is_an_error),
      FIELD(agent_without_a_key_is_an_error_at_its_line), FIELD(manual_task_needs_no_model),
      FIELD(file_that_is_not_a_plan_is_described), FIELD(validate_refuses_a_repository_like_run));
