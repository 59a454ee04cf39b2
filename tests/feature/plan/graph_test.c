#include "plans.h"

#include <stdio.h>

#define ABC                                                                                        \
    "id: FEAT-A\nname: n\ntasks:\n"                                                                \
    "  - {id: A, file_path: tasks/A.md, dependencies: [%s]}\n"                                     \
    "  - {id: B, file_path: tasks/B.md, dependencies: [%s]}\n"                                     \
    "  - {id: C, file_path: tasks/C.md, dependencies: [%s]}\n%s"

static void expect_graph(const struct place *place, const char *a, const char *b, const char *c,
                         const char *more, const char *expected)
{
    char yaml[2048];

    snprintf(yaml, sizeof yaml, ABC, a, b, c, more);
    plans_expect(place, yaml, expected);
}

static void E04_waves_name_each_task_once(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "C", "");
    expect_graph(&place, "", "", "", "orchestration:\n  parallel_groups:\n  - [A, BB]\n  - [B]\n",
                 PLAN_FILE ":6: E04 C is not in a wave\n" PLAN_FILE
                           ":9: E04 wave 1 names BB, which does not exist. Did you mean "
                           "'B'?\n");
    expect_graph(&place, "", "", "", "orchestration: {parallel_groups: [[A, B, B], [C, A]]}\n",
                 PLAN_FILE ":7: E04 B is listed twice in wave 1\n" PLAN_FILE
                           ":7: E04 A is in wave 1 and in wave 2\n");
    expect_graph(&place, "", "", "", "orchestration: {parallel_groups: [A, B, {}]}\n",
                 PLAN_FILE ":7: E04 wave 1: expected a list of tasks, found a string\n" PLAN_FILE
                           ":7: E04 wave 2: expected a list of tasks, found a string\n" PLAN_FILE
                           ":7: E04 wave 3: expected a list of tasks, found a mapping\n");
    expect_graph(&place, "", "", "", "orchestration: {parallel_groups: 3}\n",
                 PLAN_FILE
                 ":7: E04 parallel_groups: expected a list of lists of tasks, found a string\n");
    expect_graph(&place, "", "", "", "orchestration: [a]\n",
                 PLAN_FILE ":7: E04 orchestration: expected a mapping, found a list\n");
    /* Ids are case-sensitive. */
    expect_graph(&place, "", "", "", "orchestration: {parallel_groups: [[a, A, B, C]]}\n",
                 PLAN_FILE ":7: E04 wave 1 names a, which does not exist.\n");
    place_done(&place);
}

static void E05_dependencies_are_known_and_acyclic(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "C", "");
    expect_graph(&place, "Z", "B", "", "",
                 PLAN_FILE ":4: E05 A depends on Z, which does not exist.\n" PLAN_FILE
                           ":5: E05 B depends on itself\n");
    expect_graph(&place, "B", "C", "A", "",
                 PLAN_FILE ":6: E05 cyclic dependencies: A → B → C → A\n");
    /* A cycle is one error, also with waves. */
    expect_graph(&place, "B", "C", "A", "orchestration: {parallel_groups: [[A], [B], [C]]}\n",
                 PLAN_FILE ":6: E05 cyclic dependencies: A → B → C → A\n");
    /* Two cycles through one task are two errors. */
    expect_graph(&place, "B, C", "A", "A", "",
                 PLAN_FILE ":5: E05 cyclic dependencies: A → B → A\n" PLAN_FILE
                           ":6: E05 cyclic dependencies: A → C → A\n");
    expect_graph(&place, "{x: y}", "[A]", "", "",
                 PLAN_FILE
                 ":4: E05 dependencies of A: expected a task id, found a mapping\n" PLAN_FILE
                 ":5: E05 dependencies of B: expected a task id, found a list\n");
    place_done(&place);
}

static void E05_suggests_at_most_three(void **state BL_UNUSED)
{
    struct place place;
    struct bl_buffer yaml;

    plans_make(&place);
    bl_buffer_init(&yaml, 1 << 16);
    bl_buffer_append(&yaml, BL_TEXT("id: FEAT-A\nname: n\ntasks:\n"));
    for (int i = 1; i <= 5; i++) {
        char id[32];
        snprintf(id, sizeof id, "TASK-10%d", i);
        plans_task(&place, id, "");
        bl_buffer_printf(&yaml, "- {id: %s, file_path: tasks/%s.md}\n", id, id);
    }
    plans_task(&place, "TASK-10", "");
    bl_buffer_append(&yaml, BL_TEXT("- {id: TASK-10, file_path: tasks/TASK-10.md, dependencies: [\n"
                                    "   TASK-109, TSAK-101]}\n\0"));
    plans_expect(&place, yaml.data,
                 PLAN_FILE ":10: E05 TASK-10 depends on TASK-109, which does not exist. Did "
                           "you mean 'TASK-10', 'TASK-101' or 'TASK-102'?\n" PLAN_FILE
                           ":10: E05 TASK-10 depends on TSAK-101, which does not exist. Did "
                           "you mean 'TASK-101', 'TASK-102' or 'TASK-103'?\n");
    bl_buffer_done(&yaml);
    place_done(&place);
}

static void E06_dependencies_are_in_earlier_waves(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "C", "");
    expect_graph(&place, "B", "", "", "orchestration: {parallel_groups: [[A], [C], [B]]}\n",
                 PLAN_FILE ":4: E06 A (wave 1) depends on B (wave 3): move A to wave 4 or "
                           "later\n");
    expect_graph(&place, "B", "", "A", "orchestration: {parallel_groups: [[A, B], [C]]}\n",
                 PLAN_FILE ":4: E06 A depends on B, but both are in wave 1: move A to wave 2 or "
                           "later\n");
    place_done(&place);
}

static void check_wave(const struct bl_plan *plan, size_t wave, const char *ids)
{
    char found[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < plan->waves[wave].count; i++) {
        const struct bl_plan_task *task = &plan->tasks[plan->waves[wave].tasks[i]];
        assert_int_equal(task->wave, wave);
        used += (size_t)snprintf(found + used, sizeof found - used, "%s ", task->id);
    }
    assert_string_equal(found, ids);
}

static void undeclared_waves_are_computed(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    char yaml[1024];

    plans_make(&place);
    plans_task(&place, "C", "");
    snprintf(yaml, sizeof yaml, ABC, "C", "", "B, B", "");
    plans_accept(&place, yaml, &loaded);
    assert_int_equal(loaded.plan->wave_count, 3);
    check_wave(loaded.plan, 0, "B ");
    check_wave(loaded.plan, 1, "C ");
    check_wave(loaded.plan, 2, "A ");
    assert_int_equal(loaded.plan->tasks[2].dependency_count, 1);
    plans_done(&loaded);
    snprintf(yaml, sizeof yaml, ABC, "", "", "A", "orchestration: {parallel_groups: []}\n");
    plans_accept(&place, yaml, &loaded);
    assert_int_equal(loaded.plan->wave_count, 2);
    check_wave(loaded.plan, 0, "A B ");
    check_wave(loaded.plan, 1, "C ");
    plans_done(&loaded);
    place_done(&place);
}

static void W_empty_waves_are_dropped(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    char yaml[1024];

    plans_make(&place);
    plans_task(&place, "C", "");
    snprintf(yaml, sizeof yaml, ABC, "", "", "",
             "orchestration: {parallel_groups: [[], [C, A], [], [B]]}\n"
             "smoke_gates: {after_wave: [3], command: make}\n");
    plans_accept(&place, yaml, &loaded);
    assert_string_equal(loaded.text.data,
                        PLAN_FILE ":7: warning: wave 1 is empty and is ignored\n" PLAN_FILE
                                  ":7: warning: wave 3 is empty and is ignored\n");
    assert_int_equal(loaded.plan->wave_count, 2);
    check_wave(loaded.plan, 0, "A C "); /* the plan's order, not the group's */
    check_wave(loaded.plan, 1, "B ");
    assert_true(loaded.plan->waves[0].gated);
    assert_false(loaded.plan->waves[1].gated);
    plans_done(&loaded);
    place_done(&place);
}

static void append_tasks(struct bl_buffer *yaml, size_t count, bool chain)
{
    bl_buffer_append(yaml, BL_TEXT("id: FEAT-A\nname: n\ntasks:\n"));
    for (size_t i = 0; i < count; i++) {
        bl_buffer_printf(yaml, "- {id: T%zu, file_path: tasks/none.md", i);
        if (chain && i > 0)
            bl_buffer_printf(yaml, ", dependencies: [T%zu]", i - 1);
        bl_buffer_append(yaml, BL_TEXT("}\n"));
    }
}

static void E01_counts_are_limited(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_buffer yaml;

    plans_make(&place);
    place_write(&place, "tasks/none.md", "---\ntitle: t\n---\n- a\n");
    bl_buffer_init(&yaml, 1 << 20);
    /* 501 tasks; a name of the last one is not a second error. */
    append_tasks(&yaml, 501, false);
    bl_buffer_append(&yaml, BL_TEXT("orchestration: {parallel_groups: [["));
    for (size_t i = 0; i < 501; i++)
        bl_buffer_printf(&yaml, "T%zu, ", i);
    bl_buffer_append(&yaml, BL_TEXT("]]}\n\0"));
    plans_expect(&place, yaml.data, PLAN_FILE ":3: E01 501 tasks (at most 500)\n");
    /* 101 waves, computed and declared. */
    bl_buffer_clear(&yaml);
    append_tasks(&yaml, 101, true);
    size_t tasks = yaml.size;
    bl_buffer_append_byte(&yaml, '\0');
    plans_expect(&place, yaml.data,
                 PLAN_FILE ":1: E01 more than 100 waves: the dependencies need 101\n");
    yaml.size = tasks;
    bl_buffer_append(&yaml, BL_TEXT("orchestration: {parallel_groups: ["));
    for (size_t i = 0; i < 101; i++)
        bl_buffer_printf(&yaml, "[T%zu], ", i);
    bl_buffer_append(&yaml, BL_TEXT("]}\n\0"));
    plans_expect(&place, yaml.data, PLAN_FILE ":105: E01 more than 100 waves\n");
    /* 65 dependencies. */
    bl_buffer_clear(&yaml);
    append_tasks(&yaml, 66, false);
    bl_buffer_append(&yaml, BL_TEXT("- {id: L, file_path: tasks/none.md, dependencies: ["));
    for (size_t i = 0; i < 65; i++)
        bl_buffer_printf(&yaml, "T%zu, ", i);
    bl_buffer_append(&yaml, BL_TEXT("]}\n\0"));
    plans_expect(&place, yaml.data, PLAN_FILE ":70: E01 L has 65 dependencies (at most 64)\n");
    /* At the limits the plan is valid. */
    bl_buffer_clear(&yaml);
    append_tasks(&yaml, 100, true);
    bl_buffer_append_byte(&yaml, '\0');
    plans_accept(&place, yaml.data, &loaded);
    assert_int_equal(loaded.plan->wave_count, 100);
    plans_done(&loaded);
    bl_buffer_done(&yaml);
    place_done(&place);
}

/* 500 tasks that all depend on many others: bounded time, complete cycles. */
static void cycles_of_500_tasks_are_reported_in_bounded_time(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_buffer yaml;

    plans_make(&place);
    place_write(&place, "tasks/none.md", "---\ntitle: t\n---\n- a\n");
    bl_buffer_init(&yaml, 1 << 20);
    bl_buffer_append(&yaml, BL_TEXT("id: FEAT-A\nname: n\ntasks:\n"));
    for (size_t i = 0; i < 500; i++) {
        bl_buffer_printf(&yaml, "- {id: T%zu, file_path: tasks/none.md, dependencies: [", i);
        for (size_t j = 1; j <= 64; j++)
            bl_buffer_printf(&yaml, "T%zu,", (i + j * 7) % 500);
        bl_buffer_append(&yaml, BL_TEXT("]}\n"));
    }
    bl_buffer_append_byte(&yaml, '\0');
    place_write(&place, PLAN_FILE, yaml.data);
    plans_load(&place, NULL, &loaded);
    assert_int_equal(loaded.code, BL_EINVAL);
    expect_in(bl_buffer_text(&loaded.text), "cyclic dependencies: T0 → ");
    plans_done(&loaded);
    bl_buffer_done(&yaml);
    place_done(&place);
}

SUITE(plan_graph, cmocka_unit_test(E04_waves_name_each_task_once),
      cmocka_unit_test(E05_dependencies_are_known_and_acyclic),
      cmocka_unit_test(E05_suggests_at_most_three),
      cmocka_unit_test(E06_dependencies_are_in_earlier_waves),
      cmocka_unit_test(undeclared_waves_are_computed), cmocka_unit_test(W_empty_waves_are_dropped),
      cmocka_unit_test(E01_counts_are_limited),
      cmocka_unit_test(cycles_of_500_tasks_are_reported_in_bounded_time));
