#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static void shell(const char *command)
{
    static struct held shell_held;

    held_start(&shell_held, (const char *const[]){"sh", "-c", command, NULL}, HELD_NULL, RUN_KEEP);
    held_wait(&shell_held);
    if (shell_held.exit_code != 0)
        fail_msg("%s: %s", command, held_err(&shell_held));
    held_end(&shell_held);
}

static const struct bl_json *bootstrap(void)
{
    RUN(&run, "bootstrap", "hi", "--session", "s", "--sandbox", "off", "--json");
    return stage_answer(&run, "bootstrap", 0);
}

static void outside_a_repository_its_fields_are_null(void **state)
{
    (void)state;
    const struct bl_json *answer = bootstrap();
    assert_string_equal(stage_text_at(answer, "/workspace/cwd"), stage_path("work"));
    assert_true(stage_null_at(answer, "/workspace/git_branch"));
    assert_true(stage_null_at(answer, "/workspace/git_dirty"));
}

static void branch_and_changes_of_a_repository_are_reported(void **state)
{
    (void)state;
    if (system("git --version >/dev/null 2>&1") != 0)
        suite_skip("missing program: git");
    shell("git init -q -b trunk . && git -c user.name=a -c user.email=a@b commit -q "
          "--allow-empty -m first");
    const struct bl_json *answer = bootstrap();
    assert_string_equal(stage_text_at(answer, "/workspace/git_branch"), "trunk");
    assert_false(stage_true_at(answer, "/workspace/git_dirty"));
    stage_file("changed", "x");
    assert_true(stage_true_at(bootstrap(), "/workspace/git_dirty"));
    shell("git checkout -q --detach");
    assert_true(stage_null_at(bootstrap(), "/workspace/git_branch"));
}

#define PLANTED_KEY "belay-test-value-of-a-key"

/* Creates a repository in which a tool has planted programs that record their environment. */
static void plant(void)
{
    stage_file("planted", "#!/bin/sh\nenv >>"
                          "\"$(dirname \"$0\")/../ran\"\ncat\n");
    shell("git init -q -b trunk . && git config user.name a && git config user.email a@b && echo x "
          ">file && git add file && git commit -q -m first && chmod 755 planted && for k in "
          "core.fsmonitor core.pager core.sshCommand diff.external filter.planted.clean "
          "filter.planted.process; do git config $k \"$PWD/planted\"; done && git config "
          "filter.planted.required true && for h in post-index-change post-checkout; do cp planted "
          ".git/hooks/$h; done && echo '* filter=planted' >.gitattributes && touch -d tomorrow "
          "file");
}

static void check_nothing_ran(const char *const *before)
{
    static const char *const words[] = {"env",     "PLANTED_API_KEY=" PLANTED_KEY,
                                        "PROGRAM", "bootstrap",
                                        "hi",      "--session",
                                        "s",       "--sandbox",
                                        "off",     "--json",
                                        NULL};
    const char *all[24];
    size_t count = 0;

    for (; *before != NULL; before++)
        all[count++] = *before;
    for (size_t i = 0; i < BL_COUNT(words); i++)
        all[count++] =
            words[i] != NULL && strcmp(words[i], "PROGRAM") == 0 ? runner_program() : words[i];
    held_start(&held, all, HELD_NULL, RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    if (stage_exists(stage_path("ran")))
        fail_msg("a planted program ran");
    const struct bl_json *answer = stage_json(held_out(&held));
    assert_string_equal(stage_text_at(answer, "/workspace/git_branch"), "trunk");
    assert_true(stage_true_at(answer, "/workspace/git_dirty"));
}

static void programs_planted_in_a_repository_do_not_run(void **state)
{
    (void)state;
    plant();
    check_nothing_ran((const char *const[]){NULL});
    /* Plain git does run them. */
    shell("git status >/dev/null 2>&1 || true");
    assert_true(stage_exists(stage_path("ran")));
}

static void programs_planted_for_an_ordinary_user_do_not_run(void **state)
{
    (void)state;
    if (geteuid() != 0)
        suite_skip("needs root");
    plant();
    shell("chown -R 65534:65534 ..");
    check_nothing_ran(
        (const char *const[]){"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", NULL});
}

static void hanging_or_missing_git_causes_no_delay(void **state)
{
    const char *program = stage_file("git", "#!/bin/sh\nsleep 600\n");
    const char *path = stage_printf("PATH=%s:/usr/bin:/bin", stage_path("work"));

    (void)state;
    assert_int_equal(chmod(program, 0700), 0);
    runner_run_with(&run,
                    (const char *const[]){"bootstrap", "hi", "--sandbox", "off", "--json", NULL},
                    (const char *const[]){path, NULL}, RUN_KEEP);
    const struct bl_json *answer = stage_answer(&run, "bootstrap", 0);
    assert_true(stage_null_at(answer, "/workspace/git_dirty"));
    runner_run_with(&run,
                    (const char *const[]){"bootstrap", "hi", "--sandbox", "off", "--json", NULL},
                    (const char *const[]){"PATH=/nowhere", NULL}, RUN_KEEP);
    assert_true(stage_null_at(stage_answer(&run, "bootstrap", 0), "/workspace/git_branch"));
}

static void it_keeps_the_first_turn(void **state)
{
    (void)state;
    const struct bl_json *answer = bootstrap();
    assert_true(stage_true_at(answer, "/persisted"));
    assert_string_equal(stage_text_at(answer, "/turn/stop_reason"), "completed");
    assert_int_equal(stage_turns("s"), 1);
    RUN(&run, "bootstrap", "hi", "--session", "s", "--sandbox", "off", "--timeout", "200ms",
        "--provider", stage_script("replies: [{wedge: before_first_token}]\n"), "--json");
    answer = stage_answer(&run, "bootstrap", 124);
    assert_false(stage_true_at(answer, "/persisted"));
    assert_string_equal(stage_text_at(answer, "/turn/stop_reason"), "timeout");
    assert_int_equal(stage_turns("s"), 1);
}

static void it_is_stopped_as_run_is(void **state)
{
    (void)state;
    START(&held, "bootstrap", "hi", "--session", "s", "--sandbox", "off", "--provider",
          stage_script("replies: [{say: '', tools: [{name: bash, input: {command: 'sleep 600'}}]}]"
                       "\n"),
          "--yolo", "--json");
    held_await_at_least(&held, 3);
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 143);
    assert_string_equal(held_err(&held), "");
    const struct bl_json *answer = stage_json(held_out(&held));
    assert_string_equal(stage_text_at(answer, "/turn/stop_reason"), "cancelled");
    assert_int_equal(stage_number_at(answer, "/turn/receipt/survivors"), 0);
    assert_int_equal(held_count(&held), 0);
}

static void errors_are_as_those_of_run(void **state)
{
    (void)state;
    RUN(&run, "bootstrap", "hi", "--continuation-prompt", "more", "--json");
    stage_answer(&run, "bootstrap", 2);
    RUN(&run, "bootstrap", "hi", "--output-format", "stream-json");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "bootstrap", "hi", "--provider", "script:/nowhere.yaml", "--json");
    stage_answer(&run, "bootstrap", 1);
    RUN(&run, "bootstrap", "", "--json");
    stage_answer(&run, "bootstrap", 2);
}

SUITE(bootstrap, HELD(programs_planted_in_a_repository_do_not_run),
      HELD(programs_planted_for_an_ordinary_user_do_not_run),
      HELD(outside_a_repository_its_fields_are_null),
      HELD(branch_and_changes_of_a_repository_are_reported),
      HELD(hanging_or_missing_git_causes_no_delay), HELD(it_keeps_the_first_turn),
      HELD(it_is_stopped_as_run_is), HELD(errors_are_as_those_of_run));
