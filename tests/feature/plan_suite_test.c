/* Whole plans: the acceptance lines, and plans written by other tools. */
#include "plans.h"

#include <dirent.h>
#include <stdio.h>

static size_t count_problems(const struct loaded *loaded)
{
    size_t count = 0;

    BL_LIST_EACH (link, &loaded->problems)
        count++;
    return count;
}

static void F38_all_errors_are_reported_at_once(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_task(&place, "TASK-A", "");
    plans_task(&place, "TASK-B", "");
    plans_task(&place, "TASK-C", "belay:\n  limits: {turns: 0}\n");
    plans_task(&place, "TASK-D", "");
    plans_expect(
        &place,
        "id: FEAT A\n"                                                         /* 1 */
        "name: Faults\n"                                                       /* 2 */
        "tasks:\n"                                                             /* 3 */
        "- {id: TASK-A, file_path: tasks/TASK-A.md, dependencies: [TASK-B]}\n" /* 4 */
        "- {id: TASK-B, file_path: tasks/TASK-B.md, status: done}\n"           /* 5 */
        "- {id: TASK-C, file_path: tasks/TASK-C.md, dependencies: [TASK-X]}\n" /* 6 */
        "- {id: TASK-D, file_path: tasks/TASK-D.md, complexity: 11}\n"         /* 7 */
        "- {id: TASK-E, file_path: tasks/none.md}\n"                           /* 8 */
        "orchestration:\n"                                                     /* 9 */
        "  parallel_groups:\n"                                                 /* 10 */
        "  - [TASK-A, TASK-D]\n"                                               /* 11 */
        "  - [TASK-C, TASK-F]\n"                                               /* 12 */
        "  - [TASK-B]\n"                                                       /* 13 */
        "smoke_gates: {after_wave: 9, command: make}\n"                        /* 14 */
        "belay:\n"                                                             /* 15 */
        "  player: {acp: some}\n"                                              /* 16 */
        "  verify: {commands: ['']}\n",                                        /* 17 */
        PLAN_FILE
        ":1: E02 invalid id 'FEAT A' (expected 1 to 64 of A-Z, a-z, 0-9, _ and -, starting with a "
        "letter or digit)\n" PLAN_FILE
        ":4: E06 TASK-A (wave 1) depends on TASK-B (wave 3): move TASK-A "
        "to wave 4 or later\n" PLAN_FILE
        ":5: E08 status: expected one of pending, in_progress, completed, failed, skipped, "
        "deferred, backlog, in_review, found \"done\"\n" PLAN_FILE
        ":6: E05 TASK-C depends on TASK-X, which does not exist. Did you mean 'TASK-A', "
        "'TASK-B' or 'TASK-C'?\n" PLAN_FILE
        ":7: E07 complexity: expected a whole number from 1 to 10, found 11\n" PLAN_FILE
        ":8: E03 no such file: tasks/none.md\n" PLAN_FILE
        ":8: E04 TASK-E is not in a wave\n" PLAN_FILE
        ":12: E04 wave 2 names TASK-F, which does not exist. Did you mean 'TASK-A', 'TASK-B' "
        "or 'TASK-C'?\n" PLAN_FILE
        ":14: E08 the gate is after wave 9, but the plan has 3 waves\n" PLAN_FILE
        ":16: E09 the player uses acp: not supported yet\n" PLAN_FILE
        ":17: E10 commands[0]: expected a non-empty command, found "
        "\"\"\ntasks/TASK-C.md:5: E07 turns: expected a whole number from 1 to 50, found 0\n");
    plans_load(&place, NULL, &loaded);
    assert_int_equal(loaded.code, BL_EINVAL);
    assert_int_equal(loaded.error.kind, BL_KIND_USAGE);
    assert_int_equal(count_problems(&loaded), 12);
    expect_in(bl_text_from(loaded.error.message), PLAN_FILE ":1: E02 invalid id 'FEAT A'");
    expect_in(bl_text_from(loaded.error.hint), "11 more");
    plans_done(&loaded);
    place_done(&place);
}

static void F39_guardkit_plan_loads_unchanged(void **state BL_UNUSED)
{
    static const char yaml[] =
        "id: FEAT-GK\nname: Search\ndescription: 'Search\n  in many lines'\n"
        "created: '2026-01-24T15:00:00Z'\nstatus: in_progress\ncomplexity: 5\n"
        "estimated_tasks: 2\ntasks:\n"
        "- id: TASK-GK-001\n  name: Index\n"
        "  file_path: tasks/backlog/search/TASK-GK-001-index.md\n  complexity: 5\n"
        "  dependencies: []\n  status: completed\n  implementation_mode: task-work\n"
        "  estimated_minutes: 30\n  result:\n    total_turns: 2\n    final_decision: approved\n"
        "    error: null\n  turns_completed: 2\n  current_turn: 0\n"
        "  started_at: '2026-01-25T22:03:02.810894'\n  requires_infrastructure: []\n"
        "- id: TASK-GK-002\n  name: Query\n"
        "  file_path: tasks/backlog/search/TASK-GK-002-query.md\n  complexity: 3\n"
        "  dependencies:\n  - TASK-GK-001\n  status: failed\n  implementation_mode: direct\n"
        "  estimated_minutes: 20\n"
        "orchestration:\n  parallel_groups:\n  - - TASK-GK-001\n  - - TASK-GK-002\n"
        "  estimated_duration_minutes: 50\n  recommended_parallel: 2\n"
        "smoke_gates:\n  after_wave: 2\n  command: 'set -e\n\n    make smoke\n\n    '\n"
        "  expected_exit: 0\n  timeout: 120\n  exit5_is_hard_fail: false\n"
        "preflight_strict: false\nevidence_repos: []\n"
        "execution:\n  started_at: '2026-01-25T22:03:02.804358'\n  current_wave: 1\n"
        "  completed_waves:\n  - 1\n  archived_at: null\n";
    static const char *const file = ".guardkit/features/FEAT-GK.yaml";
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    place_write(&place, file, yaml);
    place_write(&place, "tasks/backlog/search/TASK-GK-001-index.md",
                "---\nid: TASK-GK-001\ntitle: Index\nstatus: completed\ntask_type: feature\n"
                "priority: high\ncomplexity: 5\nwave: 1\nautobuild_state:\n  current_turn: 1\n"
                "---\n# Index\n\n## Acceptance Criteria\n- [x] builds an index\n");
    place_write(&place, "tasks/backlog/search/TASK-GK-002-query.md",
                "---\nid: TASK-GK-002\ntitle: Query\ntags: [a]\nautobuild:\n  enabled: true\n"
                "  max_turns: 8\n  task_timeout: 3000\n---\n# Query\n"
                "\n## Acceptance Criteria\n- [ ] answers\n  - quickly\n");
    struct bl_plan_options options = {.name = "FEAT-GK", .directory = place.repository};
    plans_load(&place, &options, &loaded);
    if (loaded.code != 0)
        fail_msg("%s", loaded.text.data);
    assert_string_equal(loaded.text.data, "");
    const struct bl_plan *plan = loaded.plan;
    assert_string_equal(plan->tasks[0].status, "completed");
    assert_string_equal(plan->tasks[1].status, "failed");
    assert_int_equal(plan->tasks[1].limits.turns, 8);
    assert_int_equal(plan->tasks[1].deadline_ns, 3000 * BL_NS_PER_S);
    assert_int_equal(plan->limits.parallel, 2);
    assert_true(plan->waves[1].gated && !plan->waves[0].gated);
    plans_done(&loaded);
    struct bl_text after = place_read(&place, file);
    assert_true(bl_text_equal(after, bl_text_from(yaml)));
    bl_free((void *)after.data);
    place_done(&place);
}

/* Loads a plan of the suite. Its problems must name each missing task file. */
static void load_one(const struct place *place, const char *folder, const char *name,
                     bool with_files)
{
    struct bl_arena arena;
    struct bl_document document;
    struct loaded loaded;
    char path[4200], relative[512], line[1024];

    bl_arena_init(&arena);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct bl_text yaml = suite_read_file(path);
    snprintf(relative, sizeof relative, ".guardkit/features/%s", name);
    char *copy = bl_zalloc(yaml.size + 1);
    memcpy(copy, yaml.data, yaml.size);
    place_write(place, relative, copy);
    assert_int_equal(bl_document_read(&arena, yaml, NULL, &document, NULL), 0);
    const struct bl_json *tasks = bl_json_get(document.root, BL_TEXT("tasks"));
    BL_JSON_EACH (task, tasks) {
        struct bl_text file = bl_json_text(bl_json_get(task, BL_TEXT("file_path")));
        struct bl_text id = bl_json_text(bl_json_get(task, BL_TEXT("id")));
        snprintf(path, sizeof path, BL_TEXT_FORMAT, BL_TEXT_ARG(file));
        snprintf(line, sizeof line,
                 "---\nid: " BL_TEXT_FORMAT "\n---\n## Acceptance Criteria\n- x\n",
                 BL_TEXT_ARG(id));
        if (with_files && bl_text_ends_with(file, BL_TEXT(".md")) && file.data[0] != '/')
            place_write(place, path, line);
    }
    struct bl_plan_options options = {.name = relative, .directory = place->repository};
    plans_load(place, &options, &loaded);
    if (!with_files) {
        assert_int_equal(loaded.code, BL_EINVAL);
        BL_JSON_EACH (task, tasks) {
            struct bl_text file = bl_json_text(bl_json_get(task, BL_TEXT("file_path")));
            snprintf(line, sizeof line, "E03 no such file: " BL_TEXT_FORMAT "\n",
                     BL_TEXT_ARG(file));
            if (bl_text_ends_with(file, BL_TEXT(".md")))
                expect_in(bl_buffer_text(&loaded.text), line);
        }
    } else {
        print_message("%s: %s\n", name, loaded.code == 0 ? "fine" : "refused");
        BL_LIST_EACH (link, &loaded.problems) {
            const struct bl_plan_problem *problem =
                BL_CONTAINER(link, struct bl_plan_problem, link);
            assert_true(problem->line > 0);
        }
    }
    plans_done(&loaded);
    bl_free(copy);
    bl_free((void *)yaml.data);
    bl_arena_done(&arena);
}

static void all_plans_of_the_suite_are_reported_on(void **state BL_UNUSED)
{
    const char *shared = suite_shared("suites/features");
    struct place place;
    char folder[3800];
    unsigned count = 0;

    snprintf(folder, sizeof folder, "%s", shared);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!bl_text_ends_with(bl_text_from(entry->d_name), BL_TEXT(".yaml")))
            continue;
        plans_make(&place);
        load_one(&place, folder, entry->d_name, false);
        load_one(&place, folder, entry->d_name, true);
        place_done(&place);
        count++;
    }
    closedir(directory);
    assert_true(count >= 20);
}

SUITE(plan_suite, cmocka_unit_test(F38_all_errors_are_reported_at_once),
      cmocka_unit_test(F39_guardkit_plan_loads_unchanged),
      cmocka_unit_test(all_plans_of_the_suite_are_reported_on));
