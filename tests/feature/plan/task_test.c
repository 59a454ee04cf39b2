#include "plans.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void E02_tasks_have_ids_and_files(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_task(&place, "bad id", "");
    plans_expect(
        &place,
        "id: FEAT-A\nname: n\ntasks:\n"
        "- {file_path: tasks/A.md}\n"
        "- {id: B}\n"
        "- {id: -x, file_path: tasks/A.md}\n"
        "- {id: b, file_path: tasks/B.md}\n"
        "- {id: B, file_path: tasks/B.md}\n"
        "- just text\n"
        "- {id: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, "
        "file_path: ''}\n",
        PLAN_FILE
        ":4: E02 task 1 has no id\n" PLAN_FILE ":5: E02 B has no file_path\n" PLAN_FILE
        ":6: E02 invalid id '-x' (expected 1 to 64 of A-Z, a-z, 0-9, _ and -, starting with a "
        "letter or digit)\n" PLAN_FILE
        ":7: E02 the id b is already used in line 5, in other case\n" PLAN_FILE
        ":8: E02 the id B is already used in line 5\n" PLAN_FILE
        ":9: E02 task 6: expected a mapping with id and file_path, found a string\n" PLAN_FILE
        ":10: E02 invalid id 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' "
        "(expected 1 to 64 of A-Z, a-z, 0-9, _ and -, starting with a letter or digit)\n" PLAN_FILE
        ":10: E02 the file_path of "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa is empty\ntasks/A.md:2: "
        "E02 the id is 'A' here, but -x in the feature file\n");
    place_done(&place);
}

static void E02_ids_agree_and_criteria_have_unique_ids(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    place_write(&place, "tasks/A.md",
                "---\ntitle: t\nid: AA\n---\nText\n## Acceptance Criteria\n- one\n- AC-001: two\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:3: E02 the id is 'AA' here, but A in the feature file\n"
                 "tasks/A.md:8: E02 duplicate criterion AC-001\n");
    place_done(&place);
}

static void E03_task_files_are_in_the_repository(void **state BL_UNUSED)
{
    struct place place;
    char path[400], expected[2048];

    plans_make(&place);
    place_write(&place, "../out.md", "---\nid: E\n---\n");
    place_write(&place, "tasks/folder.md/x", "");
    snprintf(path, sizeof path, "%s/tasks/link.md", place.repository);
    assert_int_equal(symlink("../../out.md", path), 0);
    snprintf(path, sizeof path, "%s/tasks/loop.md", place.repository);
    assert_int_equal(symlink("loop.md", path), 0);
    snprintf(expected, sizeof expected,
             PLAN_FILE
             ":4: E03 /etc/a.md is absolute: file_path is relative to the top of the "
             "repository\n" PLAN_FILE ":5: E03 ../out.md leaves the repository\n" PLAN_FILE
             ":6: E03 tasks/A.txt is not a .md file\n" PLAN_FILE
             ":7: E03 tasks/folder.md is a directory\n" PLAN_FILE
             ":8: E03 tasks/link.md leaves the repository: it resolves to %s/out.md\n" PLAN_FILE
             ":9: E03 no such file: tasks/none.md\n" PLAN_FILE
             ":10: E03 tasks is a directory\n" PLAN_FILE
             ":11: E03 tasks/loop.md cannot be reached: Too many levels of symbolic "
             "links\n",
             place.root);
    plans_expect(&place,
                 "id: FEAT-A\nname: n\ntasks:\n"
                 "- {id: A, file_path: /etc/a.md}\n"
                 "- {id: B, file_path: ../out.md}\n"
                 "- {id: C, file_path: tasks/A.txt}\n"
                 "- {id: D, file_path: tasks/folder.md}\n"
                 "- {id: E, file_path: tasks/link.md}\n"
                 "- {id: F, file_path: tasks/none.md}\n"
                 "- {id: G, file_path: tasks}\n"
                 "- {id: H, file_path: tasks/loop.md}\n",
                 expected);
    /* A link that stays inside is valid, and so is a detour. */
    snprintf(path, sizeof path, "%s/tasks/inner.md", place.repository);
    assert_int_equal(symlink("A.md", path), 0);
    plans_expect(
        &place,
        "id: FEAT-A\nname: n\ntasks:\n"
        "- {id: A, file_path: tasks/inner.md}\n- {id: B, file_path: tasks/../tasks/B.md}\n",
        "");
    place_done(&place);
}

static void E01_front_matter_is_present_and_closed(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    place_write(&place, "tasks/A.md", "# No front matter\n");
    place_write(&place, "tasks/B.md", "---\nid: B\nnever ended\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:1: E01 missing front matter: a task file starts with a line ---, "
                 "then id: and title:, then a line ---\n"
                 "tasks/B.md:1: E01 the front matter is not closed: a line --- is missing\n");
    place_write(&place, "tasks/A.md",
                "---\nid: [A\n---\n## Acceptance Criteria\n- AC-1: a\n"
                "- AC-1: b\n");
    place_write(&place, "tasks/B.md", "---\n- B\n---\n");
    /* Invalid YAML in one file hides neither its body nor the other file. */
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:3: E01 line 3, column 1: not well-formed: expected ',' or ']', found "
                 "the end\n"
                 "tasks/A.md:6: E02 duplicate criterion AC-1\n"
                 "tasks/B.md:2: E01 expected one YAML mapping, found a list\n");
    place_write(&place, "tasks/A.md",
                "\xef\xbb\xbf---\r\nid: A\r\nid: A\r\n---\r\n\r\n"
                "## Acceptance Criteria\r\n- x\r\n");
    plans_task(&place, "B", "");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:3: E01 duplicate key 'id' (first used in line 2)\n");
    place_done(&place);
}

static void E01_criteria_are_limited(void **state BL_UNUSED)
{
    struct place place;
    struct bl_buffer text;

    plans_make(&place);
    bl_buffer_init(&text, 1 << 16);
    bl_buffer_append(&text, BL_TEXT("---\nid: A\n---\n## Acceptance Criteria\n"));
    for (int i = 0; i < 203; i++)
        bl_buffer_append(&text, BL_TEXT("- x\n"));
    bl_buffer_append_byte(&text, '\0');
    place_write(&place, "tasks/A.md", text.data);
    plans_expect(&place, PLAN_HEAD, "tasks/A.md:205: E01 A has more than 200 criteria\n");
    bl_buffer_done(&text);
    place_done(&place);
}

/* Checks the criteria of A, as "ID|text" lines. */
static void expect_criteria(const struct place *place, const char *file, const char *expected)
{
    struct loaded loaded;
    struct bl_buffer found;

    place_write(place, "tasks/A.md", file);
    plans_accept(place, PLAN_HEAD, &loaded);
    bl_buffer_init(&found, 1 << 16);
    for (size_t i = 0; i < loaded.plan->tasks[0].criterion_count; i++) {
        const struct bl_criterion *criterion = &loaded.plan->tasks[0].criteria[i];
        bl_buffer_printf(&found, "%s|" BL_TEXT_FORMAT "\n", criterion->id,
                         BL_TEXT_ARG(criterion->text));
    }
    bl_buffer_append_byte(&found, '\0');
    if (strcmp(found.data, expected) != 0)
        fail_msg("for:\n%s\nexpected:\n%s\nfound:\n%s", file, expected, found.data);
    bl_buffer_done(&found);
    plans_done(&loaded);
}

#define FRONT "---\nid: A\n---\n"

static void criteria_are_the_top_level_items(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    expect_criteria(&place,
                    FRONT "# T\n- not this\n\n## Acceptance Criteria\n\nIntro\n\n"
                          "- [ ] open\n- [x] ticked\n- plain\n* star\n"
                          "- AC-107: named\n- **AC-108**: bold\n- **AC-109:** bold too\n"
                          "- [link](x) is text\n- AC-: no id\n- [ ]\n---\n1. numbered\n"
                          "### Sub\n- after a deeper heading\n\n## Notes\n- nor this\n",
                    "AC-001|open\nAC-002|ticked\nAC-003|plain\nAC-004|star\nAC-107|named\n"
                    "AC-108|bold\nAC-109|bold too\nAC-008|[link](x) is text\n"
                    "AC-009|AC-: no id\nAC-010|after a deeper heading\n");
    place_done(&place);
}

static void deeper_lines_belong_to_the_item_above(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    expect_criteria(&place,
                    FRONT "## acceptance criteria:\n"
                          "- [ ] one\n  - deeper\n    * deeper still\n  goes on\nlazily\n\n"
                          "  a paragraph of it\n\nno part of it\n"
                          "- two\n  ```\n  - code\n## Acceptance Criteria\n  ```\n- three\n",
                    "AC-001|one\n  - deeper\n    * deeper still\n  goes on\nlazily\n\n"
                    "  a paragraph of it\n"
                    "AC-002|two\n  ```\n  - code\n## Acceptance Criteria\n  ```\n"
                    "AC-003|three\n");
    expect_criteria(&place,
                    FRONT "```\n## Acceptance Criteria\n- code\n```\n"
                          "## Acceptance Criteria\n  - indented\n     - deeper\n  - next\n"
                          "~~~\n- code\n~~~\n# Other\n- x\n",
                    "AC-001|indented\n     - deeper\nAC-002|next\n~~~\n- code\n~~~\n");
    place_done(&place);
}

static void criteria_may_be_in_the_front_matter(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    expect_criteria(&place,
                    "---\nid: A\nacceptance_criteria:\n- first\n- AC-9: pair\n- 'AC-5: text'\n"
                    "---\nBody\n",
                    "AC-001|first\nAC-9|pair\nAC-5|text\n");
    expect_criteria(&place,
                    "---\nid: A\nacceptance_criteria: |\n  - [ ] first\n  - [x] second\n---\n",
                    "AC-001|first\nAC-002|second\n");
    expect_criteria(&place, "---\nid: A\nacceptance_criteria: It just works.\n---\n",
                    "AC-001|It just works.\n");
    /* The body takes precedence. */
    expect_criteria(&place,
                    "---\nid: A\nacceptance_criteria: no\n---\n## Acceptance Criteria\n- yes\n",
                    "AC-001|yes\n");
    place_write(&place, "tasks/A.md", "---\nid: A\nacceptance_criteria:\n- [a]\n---\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:4: E02 acceptance criterion: expected text, found a list\n");
    place_done(&place);
}

static void body_is_complete(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    place_write(
        &place, "tasks/A.md",
        "---\nid: A\ntitle: Title\n---\n\n# Head\n---\nText\n## Acceptance Criteria\n- x\n\n");
    plans_accept(&place, PLAN_HEAD, &loaded);
    const struct bl_plan_task *task = &loaded.plan->tasks[0];
    assert_true(
        bl_text_equal(task->body, BL_TEXT("# Head\n---\nText\n## Acceptance Criteria\n- x")));
    assert_string_equal(task->name, "Title");
    assert_string_equal(task->file, "tasks/A.md");
    plans_done(&loaded);
    place_done(&place);
}

static void manual_tasks_and_statuses_of_the_plan(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_task(&place, "B", "task_type: operator_handoff\n");
    plans_task(&place, "C", "");
    plans_accept(
        &place,
        "id: FEAT-A\nname: n\ntasks:\n"
        "- {id: A, file_path: tasks/A.md, implementation_mode: manual, status: deferred}\n"
        "- {id: B, file_path: tasks/B.md, status: in_progress, name: Bee}\n"
        "- {id: C, file_path: tasks/C.md, implementation_mode: direct, status: completed}\n"
        "execution: {current_wave: 7}\n",
        &loaded);
    const struct bl_plan_task *tasks = loaded.plan->tasks;
    assert_true(tasks[0].manual && tasks[1].manual && !tasks[2].manual);
    assert_string_equal(tasks[0].status, "deferred");
    assert_string_equal(tasks[1].status, "in_progress");
    assert_string_equal(tasks[2].status, "completed");
    assert_string_equal(tasks[2].mode, "direct");
    assert_null(tasks[1].mode);
    assert_string_equal(tasks[1].name, "Bee");
    plans_done(&loaded);
    place_done(&place);
}

static void W_missing_criteria_and_different_dependencies(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    place_write(&place, "tasks/A.md", "---\nid: A\n---\nText\n");
    plans_task(&place, "B", "dependencies: [X]\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:1: warning: A has no acceptance criteria for the Coach to check\n"
                 "tasks/B.md:4: warning: the dependencies differ from those in the feature file, "
                 "which are used\n");
    plans_task(&place, "A", "dependencies: []\n");
    plans_task(&place, "B", "dependencies: A\n");
    plans_expect(&place, PLAN_HEAD, "");
    place_done(&place);
}

static void digest_covers_all_files(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    char first[72];

    plans_make(&place);
    plans_accept(&place, PLAN_HEAD, &loaded);
    memcpy(first, loaded.plan->digest, sizeof first);
    assert_int_equal(strlen(first), 71);
    assert_memory_equal(first, "sha256:", 7);
    plans_done(&loaded);
    plans_accept(&place, PLAN_HEAD, &loaded);
    assert_string_equal(loaded.plan->digest, first);
    plans_done(&loaded);
    plans_accept(&place, PLAN_HEAD "# more\n", &loaded);
    assert_string_not_equal(loaded.plan->digest, first);
    plans_done(&loaded);
    plans_task(&place, "B", "x: y\n");
    plans_accept(&place, PLAN_HEAD, &loaded);
    assert_string_not_equal(loaded.plan->digest, first);
    plans_done(&loaded);
    place_done(&place);
}

SUITE(plan_task, cmocka_unit_test(E02_tasks_have_ids_and_files),
      cmocka_unit_test(E02_ids_agree_and_criteria_have_unique_ids),
      cmocka_unit_test(E03_task_files_are_in_the_repository),
      cmocka_unit_test(E01_front_matter_is_present_and_closed),
      cmocka_unit_test(E01_criteria_are_limited),
      cmocka_unit_test(criteria_are_the_top_level_items),
      cmocka_unit_test(deeper_lines_belong_to_the_item_above),
      cmocka_unit_test(criteria_may_be_in_the_front_matter), cmocka_unit_test(body_is_complete),
      cmocka_unit_test(manual_tasks_and_statuses_of_the_plan),
      cmocka_unit_test(W_missing_criteria_and_different_dependencies),
      cmocka_unit_test(digest_covers_all_files));
