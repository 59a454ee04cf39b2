#include "plans.h"

#include <stdio.h>

/* Checks the deadline of A, and its source, everywhere it is shown. */
static void expect_deadline(const struct place *place, const char *yaml,
                            const struct bl_plan_overrides *overrides, const char *text,
                            double deadline_s, const char *source)
{
    struct bl_plan_options options = {
        .name = "FEAT-A", .directory = place->repository, .overrides = overrides};
    struct loaded loaded;
    struct bl_buffer out;
    const struct bl_json *json;
    char found[96], line[160];
    double written;

    place_write(place, PLAN_FILE, yaml);
    plans_load(place, &options, &loaded);
    if (loaded.code != 0)
        fail_msg("refused: %s", loaded.text.data);
    const struct bl_plan_task *task = &loaded.plan->tasks[0];
    assert_int_equal(task->deadline_ns, (uint64_t)(deadline_s * 1e9));
    assert_string_equal(task->deadline_source, source);
    bl_plan_deadline_text(task, found);
    assert_string_equal(found, text);
    /* validate and the store have the same number. */
    bl_buffer_init(&out, 1 << 20);
    assert_int_equal(bl_plan_text(loaded.plan, &out), 0);
    snprintf(line, sizeof line, "deadline: %s (%s)", text, source);
    expect_in(bl_buffer_text(&out), line);
    struct bl_text written_plan = bl_plan_json(&loaded.arena, loaded.plan);
    assert_int_equal(bl_json_read(&loaded.arena, written_plan, NULL, &json, NULL), 0);
    assert_true(bl_json_double(bl_json_pointer(json, BL_TEXT("/tasks/0/deadline_s")), &written));
    assert_true(written == deadline_s);
    bl_buffer_done(&out);
    plans_done(&loaded);
}

static void F30_declared_deadline_is_enforced(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    expect_deadline(&place, PLAN_HEAD, NULL, "40m", 2400, "default");
    expect_deadline(&place,
                    PLAN_HEAD "belay: {limits: {task_timeout: 45m, timeout_multiplier: 2}}\n", NULL,
                    "1h 30m", 5400, "feature");
    expect_deadline(&place,
                    PLAN_HEAD "belay: {limits: {task_timeout: 1s, timeout_multiplier: 2}}\n", NULL,
                    "2 s", 2, "feature");
    expect_deadline(&place, PLAN_HEAD "belay: {limits: {coach_grace: 120s}}\n", NULL,
                    "40m + 2m coach grace", 2400, "default");
    expect_deadline(&place, PLAN_HEAD "belay: {limits: {task_timeout: 1.5, coach_grace: 250ms}}\n",
                    NULL, "1.5 s + 250 ms coach grace", 1.5, "feature");
    place_done(&place);
}

static void deadlines_follow_the_precedence(void **state BL_UNUSED)
{
    static const char feature[] =
        PLAN_HEAD "belay: {limits: {task_timeout: 100, timeout_multiplier: 2, turns: 7}}\n";
    struct bl_plan_overrides overrides = {.task_timeout_ns = 10 * BL_NS_PER_S};
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    expect_deadline(&place, feature, NULL, "3m 20s", 200, "feature");
    plans_task(&place, "A", "autobuild: {task_timeout: 4500, max_turns: 9, other: [1]}\n");
    expect_deadline(&place, feature, NULL, "2h 30m", 9000, "autobuild");
    plans_accept(&place, feature, &loaded);
    assert_int_equal(loaded.plan->tasks[0].limits.turns, 9);
    assert_int_equal(loaded.plan->tasks[1].limits.turns, 7);
    assert_int_equal(loaded.plan->limits.turns, 7);
    plans_done(&loaded);
    plans_task(&place, "A",
               "autobuild: {task_timeout: 4500, max_turns: 9}\n"
               "belay: {limits: {task_timeout: 30s, turns: 3}}\n");
    expect_deadline(&place, feature, NULL, "1m", 60, "task");
    expect_deadline(&place, feature, &overrides, "20 s", 20, "command line");
    overrides.timeout_multiplier = 0.5;
    expect_deadline(&place, feature, &overrides, "5 s", 5, "command line");
    place_done(&place);
}

static void command_line_overrides_everything(void **state BL_UNUSED)
{
    struct bl_plan_overrides overrides = {
        .parallel = 9,
        .turns = 11,
        .feature_timeout_set = true,
        .feature_timeout_ns = 5 * BL_NS_PER_S,
        .on_failure_set = true,
        .on_failure = BL_ON_FAILURE_CONTINUE,
        .coach_grace_set = true,
        .coach_grace_ns = 0,
        .drain_set = true,
        .drain_ns = 0,
        .max_budget_tokens = 77,
        .max_budget_usd_set = true,
        .max_budget_usd = 0.25,
    };
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_task(&place, "A", "belay: {limits: {turns: 3, coach_grace: 9s, max_budget_tokens: 5}}\n");
    place_write(&place, PLAN_FILE,
                PLAN_HEAD "orchestration: {recommended_parallel: 1}\n"
                          "belay:\n  on_failure: cancel_siblings\n"
                          "  limits: {parallel: 2, turns: 4, feature_timeout: 1h, drain: 3s,\n"
                          "    coach_grace: 8s, max_budget_tokens: 10, max_budget_usd: 3}\n");
    struct bl_plan_options options = {
        .name = "FEAT-A", .directory = place.repository, .overrides = &overrides};
    plans_load(&place, &options, &loaded);
    assert_int_equal(loaded.code, 0);
    const struct bl_plan *plan = loaded.plan;
    assert_int_equal(plan->limits.parallel, 9);
    assert_int_equal(plan->limits.turns, 11);
    assert_int_equal(plan->tasks[0].limits.turns, 11);
    assert_int_equal(plan->limits.feature_timeout_ns, 5 * BL_NS_PER_S);
    assert_int_equal(plan->on_failure, BL_ON_FAILURE_CONTINUE);
    assert_int_equal(plan->tasks[0].limits.coach_grace_ns, 0);
    assert_int_equal(plan->limits.drain_ns, 0);
    /* The command line sets the feature's budget; a task keeps its own. */
    assert_int_equal(plan->limits.max_budget_tokens, 77);
    assert_true(plan->limits.max_budget_usd == 0.25);
    assert_int_equal(plan->tasks[0].limits.max_budget_tokens, 5);
    assert_int_equal(plan->tasks[1].limits.max_budget_tokens, BL_UNLIMITED);
    assert_true(plan->tasks[1].limits.max_budget_usd < 0);
    plans_done(&loaded);
    place_done(&place);
}

static uint32_t parallel_of(const struct place *place, const char *more)
{
    struct loaded loaded;
    char yaml[1024];

    snprintf(yaml, sizeof yaml, PLAN_HEAD "%s", more);
    plans_accept(place, yaml, &loaded);
    uint32_t parallel = loaded.plan->limits.parallel;
    plans_done(&loaded);
    return parallel;
}

static void recommendation_only_lowers_the_limit(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    assert_int_equal(parallel_of(&place, ""), 4);
    assert_int_equal(parallel_of(&place, "orchestration: {recommended_parallel: 1}\n"
                                         "belay: {limits: {parallel: 2}}\n"),
                     1);
    assert_int_equal(parallel_of(&place, "orchestration: {recommended_parallel: 8}\n"
                                         "belay: {limits: {parallel: 2}}\n"),
                     2);
    assert_int_equal(parallel_of(&place, "orchestration: {recommended_parallel: 100}\n"), 4);
    place_done(&place);
}

static void defaults_match_the_documentation(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_accept(&place,
                 PLAN_HEAD "belay: {limits: {feature_timeout: null, max_budget_tokens: ~, "
                           "max_budget_usd: }}\n",
                 &loaded);
    const struct bl_feature_limits *limits = &loaded.plan->limits;
    assert_int_equal(limits->task_timeout_ns, 2400 * BL_NS_PER_S);
    assert_int_equal(limits->feature_timeout_ns, 0);
    assert_int_equal(limits->turns, 5);
    assert_int_equal(limits->min_turn_budget_ns, 120 * BL_NS_PER_S);
    assert_int_equal(limits->coach_grace_ns, 0);
    assert_int_equal(limits->drain_ns, 10 * BL_NS_PER_S);
    assert_int_equal(limits->merge_turns, 2);
    assert_int_equal(limits->merge_timeout_ns, 600 * BL_NS_PER_S);
    assert_int_equal(limits->feedback_issues, 10);
    assert_int_equal(limits->max_budget_tokens, BL_UNLIMITED);
    assert_true(limits->max_budget_usd < 0);
    assert_int_equal(loaded.plan->on_failure, BL_ON_FAILURE_WAVE_END);
    assert_int_equal(loaded.plan->tasks[0].verify.timeout_ns, 600 * BL_NS_PER_S);
    plans_done(&loaded);
    place_done(&place);
}

static void E07_limits_are_in_range(void **state BL_UNUSED)
{
    static const char *const wrong[] = {
        "turns: 0",
        "turns: 51",
        "turns: 1.5",
        "turns: many",
        "parallel: 0",
        "parallel: 65",
        "timeout_multiplier: 0.09",
        "timeout_multiplier: 101",
        "timeout_multiplier: .inf",
        "task_timeout: 0",
        "task_timeout: -1s",
        "task_timeout: .inf",
        "task_timeout: .nan",
        "task_timeout: 7.1e9",
        "task_timeout: 169h",
        "task_timeout: soon",
        "feature_timeout: 0s",
        "coach_grace: -1s",
        "drain: -0.5",
        "min_turn_budget: -1",
        "merge_timeout: 0",
        "merge_turns: -1",
        "feedback_issues: 0",
        "max_budget_tokens: -1",
        "max_budget_usd: -0.01",
        "max_budget_usd: 1e999",
        "task_timeout: [1]",
        "turns: null",
        "drain: {}",
    };
    static const char *const right[] = {
        "turns: 50",          "parallel: 64",      "timeout_multiplier: 100",
        "task_timeout: 168h", "coach_grace: 0",    "drain: 0s",
        "min_turn_budget: 0", "max_budget_usd: 0", "max_budget_tokens: 0",
        "task_timeout: 1ms",  "merge_turns: 0",    "timeout_multiplier: 0.1",
    };
    struct place place;
    struct loaded loaded;
    char yaml[1024], start[128];

    plans_make(&place);
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        snprintf(yaml, sizeof yaml, PLAN_HEAD "belay:\n  limits:\n    %s\n", wrong[i]);
        place_write(&place, PLAN_FILE, yaml);
        plans_load(&place, NULL, &loaded);
        struct bl_text name = {wrong[i], strcspn(wrong[i], ":")};
        snprintf(start, sizeof start, PLAN_FILE ":8: E07 " BL_TEXT_FORMAT ": expected",
                 BL_TEXT_ARG(name));
        if (!bl_text_starts_with(bl_buffer_text(&loaded.text), bl_text_from(start)) ||
            loaded.problems.next->next != &loaded.problems)
            fail_msg("%s: %s", wrong[i], loaded.text.data);
        plans_done(&loaded);
    }
    for (size_t i = 0; i < BL_COUNT(right); i++) {
        snprintf(yaml, sizeof yaml, PLAN_HEAD "belay:\n  limits:\n    %s\n", right[i]);
        plans_accept(&place, yaml, &loaded);
        plans_done(&loaded);
    }
    place_done(&place);
}

static void E07_task_files_and_numbers_of_tasks(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "A", "autobuild:\n  task_timeout: -3\n  max_turns: 99\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:5: E07 task_timeout: expected a duration above zero and at most 7d "
                 "such as 20ms, 90s or 1.5h (a number alone is seconds), found -3\ntasks/A.md:6: "
                 "E07 max_turns: expected a whole number from 1 to 50, found 99\n");
    plans_task(&place, "A", "");
    plans_expect(
        &place,
        "id: FEAT-A\nname: n\ntasks:\n"
        "- {id: A, file_path: tasks/A.md, complexity: 11, estimated_minutes: -1}\n"
        "- {id: B, file_path: tasks/B.md, complexity: hard, estimated_minutes: long}\n"
        "orchestration: {recommended_parallel: 0}\n",
        PLAN_FILE
        ":4: E07 complexity: expected a whole number from 1 to 10, found 11\n" PLAN_FILE
        ":4: E07 estimated_minutes: expected a number from 0 to 1000000, found -1\n" PLAN_FILE
        ":5: E07 complexity: expected a whole number from 1 to 10, found \"hard\"\n" PLAN_FILE
        ":5: E07 estimated_minutes: expected a number from 0 to 1000000, found \"long\"\n" PLAN_FILE
        ":6: E07 recommended_parallel: expected a whole number of at least 1, found 0\n");
    place_done(&place);
}

static void E08_task_sets_only_its_own_limits(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "A", "belay:\n  limits: {parallel: 2, turnz: 3}\n  on_failure: continue\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:5: E08 parallel is a limit of the feature: set it in the feature "
                 "file\ntasks/A.md:5: E08 unknown member \"turnz\" in limits; did you mean "
                 "\"turns\"?\ntasks/A.md:6: E08 unknown member \"on_failure\" in a task's belay; "
                 "expected one of player, coach, limits, verify\n");
    place_done(&place);
}

static void W_short_deadlines_are_warnings(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    /* One warning for all tasks that inherit it from the feature. */
    plans_expect(&place, PLAN_HEAD "belay:\n  limits:\n    task_timeout: 60s\n",
                 PLAN_FILE ":8: warning: task_timeout (1m) is below min_turn_budget (2m): "
                           "there is no second turn\n");
    plans_task(&place, "A", "autobuild:\n  task_timeout: 5\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:5: warning: task_timeout (5 s) is below min_turn_budget (2m): "
                 "there is no second turn\n");
    plans_expect(&place,
                 "id: FEAT-A\nname: n\ntasks:\n"
                 "- {id: B, file_path: tasks/B.md, estimated_minutes: 41}\n",
                 PLAN_FILE
                 ":4: warning: B is estimated at 41 minutes, but its deadline of 40m applies\n");
    place_done(&place);
}

SUITE(plan_limits, cmocka_unit_test(F30_declared_deadline_is_enforced),
      cmocka_unit_test(deadlines_follow_the_precedence),
      cmocka_unit_test(command_line_overrides_everything),
      cmocka_unit_test(recommendation_only_lowers_the_limit),
      cmocka_unit_test(defaults_match_the_documentation), cmocka_unit_test(E07_limits_are_in_range),
      cmocka_unit_test(E07_task_files_and_numbers_of_tasks),
      cmocka_unit_test(E08_task_sets_only_its_own_limits),
      cmocka_unit_test(W_short_deadlines_are_warnings));
