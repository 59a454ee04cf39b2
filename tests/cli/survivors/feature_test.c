/* `belay feature`: a task whose Player cannot be stopped. */
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
static void feature_make_plan(void)
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
            "  limits: {task_timeout: 3s, min_turn_budget: 0s}\nEND\n"
            "git add -A\ngit commit -q -m plan\n",
            stage_path("work"), left_command());
    assert_int_equal(fclose(file), 0);
    assert_int_equal(system(stage_printf("setpriv --reuid %d --regid %d --clear-groups sh %s",
                                         PLACE_USER, PLACE_USER, script)),
                     0);
}

static void a_task_at_its_deadline_says_how_many_are_left(void **state BL_UNUSED)
{
    left_require();
    feature_make_plan();
    START(&held, "feature", "run", "FEAT", "--json");
    held_wait(&held);
    const char *output = stage_output(&held);
    assert_non_null(strstr(output, "2 processes of 'A' could not be stopped"));
    assert_int_equal(held.exit_code, 1);
}

SUITE(feature, cmocka_unit_test_setup_teardown(a_task_at_its_deadline_says_how_many_are_left,
                                               left_begin, feature_end));
