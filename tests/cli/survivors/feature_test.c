/* `belay feature`: a task whose Player cannot be stopped. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../proof/place.h"
#include "../feature/field.h"
#include "left.h"

static struct held held;

static int feature_end(void **state)
{
    held_end(&held);
    return left_end(state);
}

static void feature_shell(const char *command)
{
    assert_int_equal(system(command), 0);
}

/* Creates a repository for a plan, which the ordinary user then owns. */
static void feature_begin(void)
{
    feature_shell("chown 0:0 . && git init -q . && git config user.name t && "
                  "git config user.email t@t");
}

static void feature_give(void)
{
    feature_shell(stage_printf("chown -R %d:%d .", PLACE_USER, PLACE_USER));
}

/* A plan of one task. */
static void feature_make_plan(const char *timeout)
{
    feature_begin();
    field_tasks("A",
                stage_printf("[sh, -c, '%s >%s & until grep -q ready %s; do sleep 0.01; done; "
                             "touch %s; wait']",
                             left_command(), stage_path("said"), stage_path("said"),
                             stage_path("unkillable")),
                "['true']", stage_printf("task_timeout: %s,", timeout), "");
    feature_give();
}

static void a_task_at_its_deadline_says_how_many_are_left(void **state BL_UNUSED)
{
    left_require();
    feature_make_plan("3s");
    START(&held, "feature", "run", "FEAT", "--json");
    held_wait(&held);
    const char *output = stage_output(&held);
    assert_non_null(strstr(output, "2 processes of 'A' could not be stopped"));
    assert_int_equal(held.exit_code, 1);
}

static const struct bl_json *feature_receipt(const struct bl_json *answer, const char *reason)
{
    BL_JSON_EACH (receipt, bl_json_get(answer, BL_TEXT("receipts")))
        if (strcmp(stage_text_at(receipt, "/reason"), reason) == 0)
            return receipt;
    fail_msg("no receipt with the reason %s", reason);
    return NULL;
}

/* Each process counts once: in the receipt of the feature, it is counted with its task. */
static void terminated_feature_reports_the_survivors(void **state BL_UNUSED)
{
    left_require();
    feature_make_plan("60s");
    START(&held, "feature", "run", "FEAT", "--json");
    stage_await_file(stage_path("unkillable"));
    for (int i = 0; i < 2; i++) /* the first signal lets the turn end */
        kill(held.pid, SIGTERM);
    held_wait(&held);
    const struct bl_json *answer = stage_json(stage_output(&held));
    left_check(feature_receipt(answer, "parent"));
    const struct bl_json *receipt = feature_receipt(answer, "signal");
    assert_int_equal(stage_number_at(receipt, "/survivors"), LEFT_COUNT);
    assert_string_equal(stage_text_at(receipt, "/units/0/kind"), "task");
    assert_int_equal(stage_number_at(receipt, "/units/0/survivors"), LEFT_COUNT);
    assert_int_equal(held.exit_code, 1);
}

/* A and B write the same file; in the turn that is to merge B, its Player cannot be stopped. */
static void cancelled_merge_turn_counts_each_survivor_once(void **state BL_UNUSED)
{
    static struct run run;

    left_require();
    feature_begin();
    field_write("shared.txt", "base\n");
    const char *merges = stage_printf(
        "if grep -q '<<<<<<<' shared.txt; then\n%s >%s &\nuntil grep -q ready %s; do sleep 0.01; "
        "done\ntouch %s\nwait\nfi\necho $BELAY_TASK >shared.txt",
        left_command(), stage_path("said"), stage_path("said"), stage_path("merging"));
    field_pair(field_player("player", merges), field_coach("coach", ""), "", "");
    feature_give();
    START(&held, "feature", "run", "FEAT", "--json");
    stage_await_file(stage_path("merging"));
    RUN(&run, "feature", "cancel", "FEAT/B");
    held_wait(&held);
    assert_non_null(strstr(run.out, LEFT_TEXT));
    const struct bl_json *answer = stage_json(stage_output(&held));
    left_check(feature_receipt(answer, "user"));
    assert_string_equal(stage_text_at(answer, "/error/message"),
                        "2 processes of 'B' could not be stopped");
    assert_int_equal(held.exit_code, 1);
}

#define FEATURE(test) cmocka_unit_test_setup_teardown(test, left_begin, feature_end)

SUITE(feature, FEATURE(cancelled_merge_turn_counts_each_survivor_once),
      FEATURE(a_task_at_its_deadline_says_how_many_are_left),
      FEATURE(terminated_feature_reports_the_survivors));
