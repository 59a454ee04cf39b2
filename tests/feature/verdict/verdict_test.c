#include "helpers.h"

#include <stdio.h>

static struct bl_criterion criteria[] = {
    {.id = "AC-001", .text = BL_TEXT("It stores.")},
    {.id = "AC-002", .text = BL_TEXT("It loads.")},
};

static const struct bl_plan_task task = {
    .id = "TASK-A", .name = "Store", .criteria = criteria, .criterion_count = 2};

#define VERIFIED                                                                                   \
    "[{\"id\":\"AC-002\",\"result\":\"verified\",\"notes\":\"loads\"},"                            \
    "{\"id\":\"AC-001\",\"result\":\"verified\"}]"
#define APPROVAL                                                                                   \
    "{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"rationale\":\"fine\","             \
    "\"criteria\":" VERIFIED ",\"issues\":[]}"

/* A verdict and the result of parsing it. */
struct trial {
    struct bl_arena arena;
    struct verdict verdict;
    struct bl_text reason;
    int code;
};

static void try_text(struct trial *trial, struct bl_text text)
{
    *trial = (struct trial){.code = 0};
    trial->code = verdict_parse(&trial->arena, text, &task, 3, &trial->verdict, &trial->reason);
}

/* Expects a refusal with this reason. */
static void refuses(const char *text, const char *reason)
{
    struct trial trial;
    try_text(&trial, bl_text_from(text));
    if (trial.code != BL_EPARSE || bl_text_find(trial.reason, bl_text_from(reason)) < 0)
        fail_msg("%s: code %d, reason '%.*s', expected '%s'", text, trial.code,
                 BL_TEXT_ARG(trial.reason), reason);
    assert_false(trial.verdict.approve);
    assert_true(bl_list_empty(&trial.verdict.issues));
    assert_true(bl_utf8_valid(trial.reason));
    bl_arena_done(&trial.arena);
}

static void takes(const char *text)
{
    struct trial trial;
    try_text(&trial, bl_text_from(text));
    if (trial.code != 0)
        fail_msg("%s: %.*s", text, BL_TEXT_ARG(trial.reason));
    bl_arena_done(&trial.arena);
}

/* ---- Valid verdicts -------------------------------------------------------------------------- */

static void approval_is_read_in_plan_order(void **state)
{
    struct trial trial;
    (void)state;
    try_text(&trial, BL_TEXT(APPROVAL));
    assert_int_equal(trial.code, 0);
    assert_true(trial.verdict.approve);
    assert_int_equal(trial.verdict.criterion_count, 2);
    assert_string_equal(trial.verdict.criteria[0].id, "AC-001");
    assert_true(trial.verdict.criteria[0].verified && trial.verdict.criteria[1].verified);
    assert_int_equal(trial.verdict.criteria[0].notes.size, 0);
    assert_true(bl_text_equal(trial.verdict.criteria[1].notes, BL_TEXT("loads")));
    assert_true(bl_text_equal(trial.verdict.rationale, BL_TEXT("fine")));
    assert_true(bl_text_equal(trial.verdict.json, BL_TEXT(APPROVAL)));
    assert_int_equal(trial.reason.size, 0);
    bl_arena_done(&trial.arena);
}

static void feedback_keeps_its_issues_in_order(void **state)
{
    struct trial trial;
    (void)state;
    try_text(&trial,
             BL_TEXT("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"feedback\",\"criteria\":["
                     "{\"id\":\"AC-001\",\"result\":\"rejected\",\"notes\":null},"
                     "{\"id\":\"AC-002\",\"result\":\"verified\"}],\"issues\":["
                     "{\"severity\":\"minor\",\"description\":\"one\",\"criterion\":null,"
                     "\"file\":null,\"line\":null,\"suggestion\":null},"
                     "{\"severity\":\"critical\",\"criterion\":\"AC-001\",\"file\":\"src/a.c\","
                     "\"line\":12,\"description\":\"two\",\"suggestion\":\"do it\"}]}"));
    assert_int_equal(trial.code, 0);
    assert_false(trial.verdict.approve);
    assert_false(trial.verdict.criteria[0].verified);
    assert_true(trial.verdict.criteria[1].verified);
    const struct issue *first = BL_CONTAINER(trial.verdict.issues.next, struct issue, link);
    const struct issue *second = BL_CONTAINER(first->link.next, struct issue, link);
    assert_int_equal(first->severity, ISSUE_MINOR);
    assert_null(first->criterion);
    assert_null(first->file);
    assert_int_equal(second->severity, ISSUE_CRITICAL);
    assert_int_equal(second->source, ISSUE_OF_COACH);
    assert_string_equal(second->criterion, "AC-001");
    assert_string_equal(second->file, "src/a.c");
    assert_int_equal(second->line, 12);
    assert_true(bl_text_equal(second->suggestion, BL_TEXT("do it")));
    assert_ptr_equal(second->link.next, &trial.verdict.issues);
    bl_arena_done(&trial.arena);
}

static void fenced_block_in_prose_is_accepted(void **state)
{
    (void)state;
    takes("I looked at all of it.\n\n```json\n" APPROVAL "\n```\nThat is all.\n");
    takes("  " APPROVAL "\n\n");
    /* A quotation of the Player may come first; the last block counts. */
    refuses("The Player wrote:\n```json\n" APPROVAL
            "\n```\nI say:\n```json\n{\"task\":\"TASK-A\"}\n"
            "```\n",
            "turn: missing");
}

static void verdict_on_a_task_without_criteria_needs_none(void **state)
{
    static const struct bl_plan_task bare = {.id = "TASK-A"};
    struct bl_text text =
        BL_TEXT("{\"task\":\"TASK-A\",\"turn\":1,\"decision\":\"approve\",\"rationale\":\"ok\"}");
    struct bl_arena arena = {0};
    struct verdict verdict;
    struct bl_text reason;
    (void)state;
    assert_int_equal(verdict_parse(&arena, text, &bare, 1, &verdict, &reason), 0);
    assert_true(verdict.approve);
    text = BL_TEXT("{\"task\":\"TASK-A\",\"turn\":1,\"decision\":\"approve\","
                   "\"criteria\":[{\"id\":\"AC-001\",\"result\":\"verified\"}]}");
    assert_int_equal(verdict_parse(&arena, text, &bare, 1, &verdict, &reason), BL_EPARSE);
    assert_true(bl_text_find(reason, BL_TEXT("the task has none")) >= 0);
    bl_arena_done(&arena);
}

/* ---- Malformed verdicts ---------------------------------------------------------------------- */

static void F46_prose_is_not_a_verdict(void **state)
{
    (void)state;
    refuses("", "no verdict");
    refuses(" \n\t", "no verdict");
    refuses("I approve of this work.", "it is not one JSON object");
    refuses("approve", "it is not one JSON object");
    refuses("[" APPROVAL "]", "it is not one JSON object, but a list");
    refuses("\"approve\"", "it is not one JSON object, but a string");
    refuses(APPROVAL APPROVAL, "it is not one JSON object");
    refuses("{\"task\":\"TASK-A\",", "it is not one JSON object");
    refuses("```json\n" APPROVAL "\n" APPROVAL "\n```", "it is not one JSON object");
    refuses("\xff\xfe{}", "it is not one JSON object");
}

static void F46_unknown_key_is_refused(void **state)
{
    (void)state;
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":" VERIFIED
            ",\"confidence\":1}",
            "unknown member \"confidence\" in verdict; expected one of task, turn, decision");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"id\":\"AC-001\",\"result\":\"verified\",\"Notes\":\"\"},"
            "{\"id\":\"AC-002\",\"result\":\"verified\"}]}",
            "criteria[0]: unknown member \"Notes\" in criterion; did you mean \"notes\"?");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"feedback\",\"criteria\":" VERIFIED
            ",\"issues\":[{\"severity\":\"note\",\"description\":\"a\"},"
            "{\"severity\":\"note\",\"description\":\"b\",\"source\":\"verify\"}]}",
            "issues[1]: unknown member \"source\" in issue");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":" VERIFIED
            ",\"\\u001b[2J\":1}",
            "unknown member \"\\u001b[2J\"");
}

static void F46_duplicate_key_is_refused(void **state)
{
    (void)state;
    refuses("{\"decision\":\"feedback\",\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\","
            "\"criteria\":" VERIFIED "}",
            "a key that is not a duplicate");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"id\":\"AC-001\",\"result\":\"rejected\",\"result\":\"verified\"},"
            "{\"id\":\"AC-002\",\"result\":\"verified\"}]}",
            "a key that is not a duplicate");
}

static void F46_another_task_or_turn_is_refused(void **state)
{
    (void)state;
    refuses("{\"task\":\"TASK-B\",\"turn\":3,\"decision\":\"approve\",\"criteria\":" VERIFIED "}",
            "it is for task 'TASK-B', not for TASK-A");
    refuses("{\"turn\":3,\"decision\":\"approve\",\"criteria\":" VERIFIED "}",
            "task: missing; expected a string");
    refuses("{\"task\":\"TASK-A\",\"turn\":2,\"decision\":\"approve\",\"criteria\":" VERIFIED "}",
            "it is for turn 2, not for turn 3");
    refuses("{\"task\":\"TASK-A\",\"turn\":\"3\",\"decision\":\"approve\",\"criteria\":" VERIFIED
            "}",
            "turn: expected a whole number of at least 1, found \"3\"");
    refuses("{\"task\":\"TASK-A\",\"turn\":3.5,\"decision\":\"approve\",\"criteria\":" VERIFIED "}",
            "turn: expected a whole number");
    refuses("{\"task\":\"TASK-A\",\"decision\":\"approve\",\"criteria\":" VERIFIED "}",
            "turn: missing");
}

static void F46_unknown_decision_is_refused(void **state)
{
    (void)state;
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approved\",\"criteria\":" VERIFIED "}",
            "decision: expected one of feedback, approve, found \"approved\"; did you mean "
            "\"approve\"?");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":true,\"criteria\":" VERIFIED "}",
            "decision: expected one of feedback, approve, found true");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"criteria\":" VERIFIED "}",
            "decision: missing; expected one of feedback, approve");
}

static void F46_each_criterion_is_listed_once(void **state)
{
    (void)state;
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"id\":\"AC-001\",\"result\":\"verified\"}]}",
            "criterion AC-002 is missing");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\"}",
            "criterion AC-001 is missing from 'criteria'; criterion AC-002 is missing");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"id\":\"AC-001\",\"result\":\"verified\"},{\"id\":\"AC-002\","
            "\"result\":\"verified\"},{\"id\":\"AC-003\",\"result\":\"verified\"}]}",
            "criteria[2]: unknown criterion 'AC-003'; the task has AC-001, AC-002");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"id\":\"AC-001\",\"result\":\"verified\"},{\"id\":\"AC-002\","
            "\"result\":\"verified\"},{\"id\":\"AC-001\",\"result\":\"rejected\"}]}",
            "criterion AC-001 is listed twice");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"id\":\"AC-001\",\"result\":\"yes\"},{\"id\":\"AC-002\",\"result\":\"verified\"}]}",
            "criteria[0].result: expected one of rejected, verified, found \"yes\"");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "{\"AC-001\":\"verified\"}}",
            "criteria: expected a list");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":[\"AC-001\"]}",
            "criteria[0]: expected an object, found \"AC-001\"");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"result\":\"verified\"}]}",
            "criteria[0].id: missing");
}

static void F46_feedback_needs_an_issue(void **state)
{
    (void)state;
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"feedback\",\"criteria\":" VERIFIED
            ",\"issues\":[]}",
            "it is feedback without an issue");
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"feedback\",\"criteria\":" VERIFIED "}",
            "it is feedback without an issue");
}

static void F46_approval_with_a_rejected_criterion_is_refused(void **state)
{
    (void)state;
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":"
            "[{\"id\":\"AC-001\",\"result\":\"verified\"},"
            "{\"id\":\"AC-002\",\"result\":\"rejected\"}]}",
            "it approves and rejects a criterion");
}

static void F46_approval_with_a_critical_issue_is_refused(void **state)
{
    (void)state;
    refuses("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":" VERIFIED
            ",\"issues\":[{\"severity\":\"critical\",\"description\":\"it leaks\"}]}",
            "it approves with a critical issue");
    takes("{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\",\"criteria\":" VERIFIED
          ",\"issues\":[{\"severity\":\"major\",\"description\":\"later\"}]}");
}

static void F46_issues_need_a_description(void **state)
{
    (void)state;
#define WITH_ISSUE(issue)                                                                          \
    "{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"feedback\",\"criteria\":" VERIFIED             \
    ",\"issues\":[" issue "]}"
    refuses(WITH_ISSUE("{\"severity\":\"note\"}"),
            "issues[0].description: missing; expected a description of what is wrong");
    refuses(WITH_ISSUE("{\"severity\":\"note\",\"description\":\"  \"}"),
            "issues[0].description: expected a description of what is wrong");
    refuses(WITH_ISSUE("{\"severity\":\"blocker\",\"description\":\"a\"}"),
            "issues[0].severity: expected one of critical, major, minor, note, found \"blocker\"");
    refuses(WITH_ISSUE("{\"severity\":\"note\",\"description\":\"a\",\"criterion\":\"AC-9\"}"),
            "issues[0]: unknown criterion 'AC-9'");
    refuses(WITH_ISSUE("{\"severity\":\"note\",\"description\":\"a\",\"line\":-1}"),
            "issues[0].line: expected a whole number");
    refuses(WITH_ISSUE("{\"severity\":\"note\",\"description\":\"a\",\"line\":\"12\"}"),
            "issues[0].line: expected a whole number");
    refuses(WITH_ISSUE("{\"severity\":\"note\",\"description\":\"a\",\"file\":\"a\\u0000b\"}"),
            "issues[0].file: expected a string");
    refuses(WITH_ISSUE("{\"severity\":\"note\",\"description\":[\"a\"]}"),
            "issues[0].description: expected a description of what is wrong, found a list");
    refuses(WITH_ISSUE("\"it leaks\""), "issues[0]: expected an object, found \"it leaks\"");
#undef WITH_ISSUE
}

static void F46_oversized_verdict_is_refused(void **state)
{
    struct bl_buffer text;
    struct trial trial;
    (void)state;
    bl_buffer_init(&text, SIZE_MAX);
    bl_buffer_printf(&text, "{\"task\":\"TASK-A\",\"turn\":3,\"decision\":\"approve\","
                            "\"criteria\":" VERIFIED ",\"rationale\":\"");
    while (text.size < VERDICT_SIZE_MAX - 2)
        bl_buffer_append_byte(&text, 'x');
    bl_buffer_append(&text, BL_TEXT("\"}"));
    try_text(&trial, bl_buffer_text(&text));
    assert_int_equal(trial.code, 0);
    bl_arena_done(&trial.arena);
    text.size -= 2;
    bl_buffer_append(&text, BL_TEXT("x\"}"));
    try_text(&trial, bl_buffer_text(&text));
    assert_int_equal(trial.code, BL_EPARSE);
    assert_true(bl_text_find(trial.reason, BL_TEXT("at most 262144 are allowed")) >= 0);
    bl_arena_done(&trial.arena);
    bl_buffer_done(&text);
}

/* There are only three tries: one reason lists all problems. */
static void reason_lists_all_problems_and_is_bounded(void **state)
{
    struct bl_buffer text;
    struct trial trial;
    (void)state;
    refuses("{\"task\":\"TASK-B\",\"turn\":1,\"decision\":\"no\",\"criteria\":[],\"x\":1}",
            "decision: expected one of feedback, approve, found \"no\"; unknown member \"x\" in "
            "verdict; "
            "expected one of task, turn, decision, rationale, criteria, issues; it is for task "
            "'TASK-B', not for TASK-A; it is for turn 1, not for turn 3; criterion AC-001 is "
            "missing from 'criteria'; criterion AC-002 is missing");
    bl_buffer_init(&text, SIZE_MAX);
    bl_buffer_append(&text, BL_TEXT("{"));
    for (int i = 0; i < 5000; i++)
        bl_buffer_printf(&text, "\"key%d\":0,", i);
    bl_buffer_append(&text, BL_TEXT("\"turn\":3}"));
    try_text(&trial, bl_buffer_text(&text));
    assert_int_equal(trial.code, BL_EPARSE);
    assert_true(bl_text_ends_with(trial.reason, BL_TEXT("; and 4996 more")));
    assert_true(trial.reason.size < 2048);
    bl_arena_done(&trial.arena);
    bl_buffer_done(&text);
}

SUITE(verdict, cmocka_unit_test(approval_is_read_in_plan_order),
      cmocka_unit_test(feedback_keeps_its_issues_in_order),
      cmocka_unit_test(fenced_block_in_prose_is_accepted),
      cmocka_unit_test(verdict_on_a_task_without_criteria_needs_none),
      cmocka_unit_test(F46_prose_is_not_a_verdict), cmocka_unit_test(F46_unknown_key_is_refused),
      cmocka_unit_test(F46_duplicate_key_is_refused),
      cmocka_unit_test(F46_another_task_or_turn_is_refused),
      cmocka_unit_test(F46_unknown_decision_is_refused),
      cmocka_unit_test(F46_each_criterion_is_listed_once),
      cmocka_unit_test(F46_feedback_needs_an_issue),
      cmocka_unit_test(F46_approval_with_a_rejected_criterion_is_refused),
      cmocka_unit_test(F46_approval_with_a_critical_issue_is_refused),
      cmocka_unit_test(F46_issues_need_a_description),
      cmocka_unit_test(F46_oversized_verdict_is_refused),
      cmocka_unit_test(reason_lists_all_problems_and_is_bounded));
