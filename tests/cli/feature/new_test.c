/* `belay feature new`: plans made from lists of tasks and by a model can run. */
#include "scenes.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Configures a model that is never called, so that the plan has no warnings. */
static void name_a_model(void)
{
    setenv("BELAY_PROVIDER", stage_script("replies: [{wedge: before_first_token}]\n"), 1);
}

static const char *plan_text(const char *id)
{
    return scene_file(stage_printf("work/.belay/features/%s.yaml", id));
}

static const char *task_text(const char *id, const char *task)
{
    return scene_file(stage_printf("work/.belay/features/%s/%s.md", id, task));
}

static size_t files_there(void)
{
    return (size_t)atoi(scene_shell("find .belay -type f 2>/dev/null | wc -l"));
}

/* Runs `belay feature new` with that standard input. */
static const char *new_from(const char *arguments, const char *input)
{
    field_write("../input", input);
    return scene_shell(stage_printf("%s feature new %s < ../input", runner_program(), arguments));
}

static void list_of_tasks_makes_a_plan_that_runs(void **state)
{
    (void)state;
    name_a_model();
    const struct run *run =
        FEATURE_RUN(0, "new", "FEAT-LOGIN", "Store tokens", "Refuse expired: tokens (after 1)",
                    "--name", "Login", "--verify", "test -e LOGIN-001.txt");
    assert_string_equal(run->out,
                        "FEAT-LOGIN: Login: 2 tasks in 2 waves\n"
                        "wave 1\n"
                        "  LOGIN-001  Store tokens\n"
                        "wave 2\n"
                        "  LOGIN-002  Refuse expired: tokens, after LOGIN-001\n"
                        "Wrote .belay/features/FEAT-LOGIN.yaml and 2 task files in "
                        ".belay/features/FEAT-LOGIN.\n"
                        "2 tasks have no criterion but the title: add criteria to the task "
                        "files.\n"
                        "Next: belay feature run FEAT-LOGIN\n");
    assert_string_equal(run->err, "");
    FEATURE_RUN(0, "validate", "FEAT-LOGIN");
    scene_shell(stage_printf("printf '  player: {command: %s}\\n  coach: {command: %s}\\n' >> "
                             ".belay/features/FEAT-LOGIN.yaml",
                             field_player("player", ""), field_coach("coach", "")));
    field_commit();
    run = FEATURE_RUN(0, "run", "FEAT-LOGIN");
    scene_expect(run->out, "FEAT-LOGIN completed: 2 of 2 tasks done");
    assert_string_equal(field_git_output("show belay/FEAT-LOGIN/_result:LOGIN-002.txt"), "turn 1");
}

static void checklist_has_criteria_and_done_tasks(void **state)
{
    (void)state;
    name_a_model();
    const char *out =
        new_from("FEAT-LIST", "# Login\n\nTokens and sessions.\n\n## Tasks\n\n"
                              "- [x] STORE: Store tokens\n"
                              "- [ ] Refuse expired ones (after STORE)\n"
                              "  - a token of yesterday is refused\n"
                              "  - [ ] the log says so\n\n"
                              "  Look at clock.c first.\n\n## Notes\n\nNothing else.\n");
    scene_expect(out, "FEAT-LIST: Login: 2 tasks in 2 waves\n");
    const char *plan = plan_text("FEAT-LIST");
    scene_expect(plan, "  - id: STORE\n    name: \"Store tokens\"\n");
    scene_expect(plan, "    status: completed\n");
    scene_expect(plan, "    dependencies: [STORE]\n");
    scene_expect(plan, "description: \"Tokens and sessions.");
    const char *task = task_text("FEAT-LIST", "LIST-002");
    scene_expect(task, "Look at clock.c first.\n\n## Acceptance Criteria\n\n"
                       "- [ ] a token of yesterday is refused\n- [ ] the log says so\n");
}

static void headings_are_tasks_with_the_text_below(void **state)
{
    (void)state;
    name_a_model();
    const char *markdown = "# Login\n\nWhat it is for.\n\n## Store tokens\n\nIn SQLite.\n\n"
                           "```\n## not a task\n```\n\n### Acceptance criteria\n\n"
                           "- a token survives a restart\n\n## Refuse expired ones (after #1)\n";
    field_write("tasks.md", markdown);
    const struct run *run = FEATURE_RUN(0, "new", "FEAT-HEAD", "--from", "tasks.md", "--json");
    const struct bl_json *answer = stage_answer(run, "feature-new", 0);
    assert_true(stage_true_at(answer, "/written"));
    assert_int_equal(stage_size_at(answer, "/files"), 3);
    assert_int_equal(stage_size_at(answer, "/plan/waves"), 2);
    const char *task = task_text("FEAT-HEAD", "HEAD-001");
    scene_expect(task, "In SQLite.\n\n```\n## not a task\n```\n\n## Acceptance Criteria\n\n"
                       "- [ ] a token survives a restart\n");
    scene_expect(plan_text("FEAT-HEAD"), "name: \"Login\"\ndescription: \"What it is for.\"\n");
}

static void each_line_is_a_task_and_in_order_chains_them(void **state)
{
    (void)state;
    name_a_model();
    const char *out =
        new_from("FEAT-LINES --in-order", "first\n\nsecond\nthird: \"quoted\" \\ x\n");
    scene_expect(out, "3 tasks in 3 waves\n");
    scene_expect(out, "LINES-003  third: \"quoted\" \\ x, after LINES-002\n");
    out = new_from("FEAT-SIDE", "first\nsecond\nthird\n");
    scene_expect(out, "3 tasks in 1 wave\n");
}

static void nothing_is_overwritten(void **state)
{
    (void)state;
    name_a_model();
    FEATURE_RUN(0, "new", "FEAT-ONE", "first");
    const char *before = plan_text("FEAT-ONE");
    const struct run *run = FEATURE_RUN(1, "new", "FEAT-ONE", "other");
    scene_expect(run->err, "the plan FEAT-ONE already exists, and is not overwritten");
    assert_string_equal(plan_text("FEAT-ONE"), before);
    /* An existing folder of task files is refused too. */
    scene_shell("rm .belay/features/FEAT-ONE.yaml");
    run = FEATURE_RUN(1, "new", "FEAT-ONE", "other");
    scene_expect(run->err, ".belay/features/FEAT-ONE already exists");
    scene_expect(task_text("FEAT-ONE", "ONE-001"), "first\n");
    assert_int_equal(files_there(), 1);
}

static void dry_run_shows_the_files_and_writes_none(void **state)
{
    (void)state;
    name_a_model();
    const struct run *run = FEATURE_RUN(0, "new", "FEAT-DRY", "first", "--dry-run");
    scene_expect(run->out, "--- .belay/features/FEAT-DRY.yaml\nid: FEAT-DRY\n");
    scene_expect(run->out, "--- .belay/features/FEAT-DRY/DRY-001.md\n---\nid: DRY-001\n");
    scene_expect(run->out, "Nothing was written (--dry-run).\n");
    assert_int_equal(files_there(), 0);
}

static void expect_refused(const char *const *words, int exit_code, const char *message)
{
    const struct run *run = field_run(exit_code, words);
    scene_expect(run->err, message);
    assert_string_equal(run->out, "");
    assert_int_equal(files_there(), 0);
}
#define REFUSED(exit_code, message, ...)                                                           \
    expect_refused((const char *const[]){"feature", "new", __VA_ARGS__, NULL}, exit_code, message)

static void errors_are_reported_before_anything_is_written(void **state)
{
    (void)state;
    name_a_model();
    REFUSED(2, "E05 ", "FEAT-A", "X: one (after Y)", "Y: two (after X)");
    REFUSED(2, "the plan has 1 error; nothing was written", "FEAT-A", "X: one (after X)");
    REFUSED(2, "depends on 'Z', which does not exist", "FEAT-A", "X: one", "two (after Z)");
    REFUSED(2, "use a task's number, from 1 to 2, or its id", "FEAT-A", "one", "two (after 7)");
    REFUSED(2, "E02 ", "FEAT-A", "X: one", "x: two", "X: three");
    REFUSED(2, "such as FEAT-LOGIN-PAGE", "Login page", "one");
    REFUSED(2, "no tasks given", "FEAT-A");
    REFUSED(2, "no tasks given", "FEAT-A", " ");
    REFUSED(2, "tasks given in more than one way", "FEAT-A", "one", "--from", "tasks.md");
    REFUSED(1, "cannot read none.md", "FEAT-A", "--from", "none.md");
    field_write("binary", "\xff\xfe one\n");
    REFUSED(2, "the task list is not UTF-8 text", "FEAT-A", "--from", "binary");
    scene_shell("mkdir ../plain");
    assert_int_equal(chdir(stage_path("plain")), 0);
    REFUSED(1, "is not in a git repository", "FEAT-A", "one");
    assert_int_equal(chdir(stage_path("work")), 0);
}

static void plan_without_a_model_is_written_with_a_warning(void **state)
{
    (void)state;
    const struct run *run = FEATURE_RUN(0, "new", "FEAT-A", "one");
    scene_expect(run->out, "warning: the player is an agent, but no model is configured for it");
    scene_expect(FEATURE_RUN(2, "validate", "FEAT-A")->err, "E09 the player is an agent");
}

#define PLANNED(after)                                                                             \
    "{\"name\":\"Login\",\"description\":\"Tokens\",\"tasks\":["                                   \
    "{\"title\":\"Store tokens\",\"description\":\"In SQLite.\",\"criteria\":[\"it survives\"],"   \
    "\"after\":[" after "]},"                                                                      \
    "{\"title\":\"Refuse\",\"description\":\"Old ones.\",\"criteria\":[\"it is refused\"],"        \
    "\"after\":[1]}]}"

static void model_plans_and_gets_errors_back(void **state)
{
    (void)state;
    setenv("BELAY_PROVIDER",
           stage_script("replies:\n- say: '" PLANNED("2") "'\n- say: '" PLANNED("") "'\n"), 1);
    const struct run *run = FEATURE_RUN(0, "new", "FEAT-M", "--prompt", "add a login");
    scene_expect(run->out, "FEAT-M: Login: 2 tasks in 2 waves\n");
    scene_expect(task_text("FEAT-M", "M-001"), "In SQLite.\n\n## Acceptance Criteria\n\n"
                                               "- [ ] it survives\n");
    RUN((struct run *)run, "session", "list", "--json");
    const struct bl_json *sessions = stage_json(run->out);
    const char *id = stage_text_at(sessions, "/sessions/0/session_id");
    RUN((struct run *)run, "session", "show", id, "--json");
    scene_expect(run->out, "The plan is invalid:");
    scene_expect(run->out, "E05");
}

static void invalid_plans_of_a_model_are_not_written(void **state)
{
    (void)state;
    setenv("BELAY_PROVIDER",
           stage_script("replies: [{say: '" PLANNED("2") "'}, {say: '" PLANNED(
               "2") "'}, {say: '" PLANNED("1") "'}]\n"),
           1);
    const struct run *run = FEATURE_RUN(2, "new", "FEAT-M", "--prompt", "add a login");
    scene_expect(run->err, "E05 ");
    scene_expect(run->err, "nothing was written");
    assert_int_equal(files_there(), 0);
}

static void stop_while_the_model_plans_has_a_receipt(void **state)
{
    struct held held = {0};
    (void)state;
    name_a_model();
    START(&held, "feature", "new", "FEAT-M", "--prompt", "add a login");
    double end = field_now() + 30;
    static struct run run;
    do
        RUN(&run, "session", "list", "--json");
    while (strstr(run.out, "session_id\":\"") == NULL && field_now() < end);
    kill(held.pid, SIGINT);
    held_wait(&held);
    assert_int_equal(held.exit_code, 130);
    scene_expect(held_err(&held), "Nothing left running.");
    assert_int_equal(files_there(), 0);
    held_end(&held);
}

SUITE(new, FIELD(list_of_tasks_makes_a_plan_that_runs),
      FIELD(checklist_has_criteria_and_done_tasks), FIELD(headings_are_tasks_with_the_text_below),
      FIELD(each_line_is_a_task_and_in_order_chains_them), FIELD(nothing_is_overwritten),
      FIELD(dry_run_shows_the_files_and_writes_none),
      FIELD(errors_are_reported_before_anything_is_written),
      FIELD(plan_without_a_model_is_written_with_a_warning),
      FIELD(model_plans_and_gets_errors_back), FIELD(invalid_plans_of_a_model_are_not_written),
      FIELD(stop_while_the_model_plans_has_a_receipt));
