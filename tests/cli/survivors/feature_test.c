/* `belay feature`: a task whose Player cannot be stopped. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../proof/place.h"
#include "left.h"

static struct held held;

static int feature_end(void **state)
{
    held_end(&held);
    return left_end(state);
}

/* A repository of the ordinary user's, with a plan of one task. */
static void feature_make_plan(const char *timeout)
{
    const char *script = stage_path("plan.sh");
    FILE *file = fopen(script, "we");
    assert_non_null(file);
    fprintf(file,
            "set -e\ncd '%s'\ngit init -q .\ngit config user.name t\ngit config user.email t@t\n"
            "mkdir -p .belay/features tasks\n"
            "printf -- '---\\nid: A\\ntitle: Task A\\n---\\nDo A.\\n\\n## Acceptance Criteria\\n\\n"
            "- [ ] done\\n' >tasks/A.md\n"
            "cat >.belay/features/FEAT.yaml <<'END'\n"
            "id: FEAT\nname: A feature\ntasks:\n  - {id: A, file_path: tasks/A.md}\nbelay:\n"
            "  player: {command: [sh, -c, '%s']}\n  coach: {command: ['true']}\n"
            "  limits: {task_timeout: %s, min_turn_budget: 0s}\nEND\n"
            "git add -A\ngit commit -q -m plan\n",
            stage_path("work"), left_command(), timeout);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(system(stage_printf("setpriv --reuid %d --regid %d --clear-groups sh %s",
                                         PLACE_USER, PLACE_USER, script)),
                     0);
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

/* Each process counts once: its task stands for it in the receipt of the feature. */
static void a_feature_that_is_terminated_says_how_many_are_left(void **state BL_UNUSED)
{
    left_require();
    feature_make_plan("60s");
    START(&held, "feature", "run", "FEAT", "--json");
    held_await_at_least(&held, 2 + LEFT_COUNT);
    for (int i = 0; i < 2; i++) /* the first lets the turn end */
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

#define FEATURE(test) cmocka_unit_test_setup_teardown(test, left_begin, feature_end)

SUITE(feature, FEATURE(a_task_at_its_deadline_says_how_many_are_left),
      FEATURE(a_feature_that_is_terminated_says_how_many_are_left));
