#include "helpers.h"

#include <stdio.h>

static void finds(const char *output, const char *wanted)
{
    struct bl_text found = result_find(bl_text_from(output));
    suite_fail_if(!bl_text_equal(found, bl_text_from(wanted)), "in '%s': '%.*s', expected '%s'",
                  output, BL_TEXT_ARG(found), wanted);
}

static void last_fenced_json_block_counts(void **state)
{
    (void)state;
    finds("", "");
    finds("no result here", "");
    finds("a\n```json\n{\"a\":1}\n```\nb\n```json\n{\"b\":2}\n```\n", "{\"b\":2}");
    finds("a\n```JSON title\n{\"a\":1}\n```\n```\n{\"b\":2}\n```\n", "{\"a\":1}");
    finds("```jsonc\n{\"a\":1}\n```\n", "");
    finds("  ~~~ json\n  {\"a\":1}\n  ~~~\r\n", "{\"a\":1}");
    finds("````md\n```json\n{\"a\":1}\n```\n````\n", "");
    finds("````json\n{\"a\":\"```\"}\n```\n````", "{\"a\":\"```\"}\n```");
    /* An unclosed json block extends to the end; an unclosed fence of other text hides nothing. */
    finds("x\n```json\n{\"a\":1}\n", "{\"a\":1}");
    finds("log: ```\n```\nmore\n```json\n{\"a\":1}\n```\n", "{\"a\":1}");
    finds("`code` and ```json {\"a\":1}```\n", "");
    finds("```json\n```\n", "");
    /* The contents are checked elsewhere. */
    finds("```json\nprose\n```\n", "prose");
}

static void whole_output_counts_if_it_is_one_object(void **state)
{
    (void)state;
    finds(" \n{\"a\":1}\n\n", "{\"a\":1}");
    finds("{\"a\":1} and more", "");
    finds("{\"a\":1}{\"b\":1}", "");
    finds("[1]", "");
    finds("log\n{\"a\":1}", "");
}

/* ---- The result ------------------------------------------------------------------------------ */

static void complete_result_is_read(void **state)
{
    struct bl_arena arena = {0};
    struct player_result result;
    struct bl_text problem;
    (void)state;
    player_result_parse(
        &arena,
        BL_TEXT("{\"summary\":\"done\",\"done\":[\"a\",\"b\"],\"not_done\":[],\"files\":[\"x.c\"],"
                "\"tests\":{\"ran\":true,\"passed\":true},\"blocked\":null,\"usage\":"
                "{\"input_tokens\":100,\"output_tokens\":20,\"cost_usd\":0.5},\"more\":{}}"),
        &result, &problem);
    assert_true(result.given);
    assert_int_equal(problem.size, 0);
    assert_true(bl_text_equal(result.summary, BL_TEXT("done")));
    assert_string_equal(result.done[1], "b");
    assert_null(result.done[2]);
    assert_null(result.not_done[0]);
    assert_string_equal(result.files[0], "x.c");
    assert_true(result.tests_claimed);
    assert_false(result.blocked);
    assert_true(result.usage_known);
    assert_int_equal(result.spent.usage.input_tokens, 100);
    assert_int_equal(result.spent.usage.output_tokens, 20);
    assert_true(result.spent.cost_usd == 0.5 && !result.spent.cost_unknown);
    bl_arena_done(&arena);
}

static void all_members_are_optional(void **state)
{
    struct bl_arena arena = {0};
    struct player_result result;
    struct bl_text problem;
    (void)state;
    player_result_parse(&arena, BL_TEXT("{}"), &result, &problem);
    assert_true(result.given);
    assert_non_null(result.files);
    assert_null(result.files[0]);
    assert_false(result.usage_known);
    assert_false(result.tests_claimed);
    player_result_parse(&arena, (struct bl_text){0}, &result, &problem);
    assert_false(result.given);
    assert_int_equal(problem.size, 0);
    assert_null(result.done[0]);
    player_result_parse(&arena, BL_TEXT("{\"usage\":{\"input_tokens\":7}}"), &result, &problem);
    assert_true(result.usage_known && result.spent.cost_unknown);
    player_result_parse(&arena, BL_TEXT("{\"blocked\":{\"reason\":\"no key\",\"needs\":\"one\"}}"),
                        &result, &problem);
    assert_true(result.blocked);
    assert_true(bl_text_equal(result.blocked_reason, BL_TEXT("no key")));
    assert_true(bl_text_equal(result.blocked_needs, BL_TEXT("one")));
    player_result_parse(&arena, BL_TEXT("{\"blocked\":false}"), &result, &problem);
    assert_true(result.given && !result.blocked);
    bl_arena_done(&arena);
}

static void tests_may_be_numbers(void **state)
{
    static const struct {
        const char *tests;
        bool claimed;
    } cases[] = {
        {"{\"ran\":12,\"passed\":12}", true},
        {"{\"ran\":12,\"passed\":11}", false},
        {"{\"ran\":12,\"passed\":true}", true},
        {"{\"ran\":true,\"passed\":false}", false},
        {"{\"ran\":0,\"passed\":0}", false},
        {"{\"ran\":false,\"passed\":true}", false},
        {"null", false},
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct player_result result;
        struct bl_text problem;
        player_result_parse(&arena, bl_arena_printf(&arena, "{\"tests\":%s}", cases[i].tests),
                            &result, &problem);
        assert_true(result.given);
        if (result.tests_claimed != cases[i].claimed)
            fail_msg("%s", cases[i].tests);
        bl_arena_done(&arena);
    }
}

static void malformed_player_result_is_ignored_and_reported(void **state)
{
    static const char *const cases[][2] = {
        {"I am done.", "it is not one JSON object"},
        {"```json\n[]\n```", "it is not one JSON object, but an empty list"},
        {"{\"summary\":\"a\"", "it is not one JSON object"},
        {"{\"summary\":1}", "summary: expected a string or null, found 1"},
        {"{\"files\":\"a.c\"}", "files: expected a list"},
        {"{\"files\":[1]}", "files[0]: expected a string, found 1"},
        {"{\"files\":[\"a\\u0000b\"]}", "files[0]: expected a string"},
        {"{\"tests\":true}", "tests: expected an object, found true"},
        {"{\"tests\":{\"ran\":\"yes\"}}",
         "tests.ran: expected true, false or a number, found a string"},
        {"{\"blocked\":\"no key\"}", "blocked: expected an object, found \"no key\""},
        {"{\"usage\":{\"input_tokens\":-1}}", "usage.input_tokens: expected a whole number"},
        {"{\"usage\":{\"cost_usd\":\"0.1\"}}", "usage.cost_usd: expected a number"},
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct player_result result;
        struct bl_text problem;
        player_result_parse(&arena, bl_text_from(cases[i][0]), &result, &problem);
        if (result.given || bl_text_find(problem, bl_text_from(cases[i][1])) < 0)
            fail_msg("%s: '%.*s'", cases[i][0], BL_TEXT_ARG(problem));
        assert_null(result.files[0]);
        assert_false(result.blocked || result.usage_known);
        bl_arena_done(&arena);
    }
}

static void oversized_result_is_ignored(void **state)
{
    struct bl_arena arena = {0};
    struct bl_buffer text;
    struct player_result result;
    struct bl_text problem;
    (void)state;
    bl_buffer_init(&text, SIZE_MAX);
    bl_buffer_append(&text, BL_TEXT("{\"summary\":\""));
    while (text.size < VERDICT_SIZE_MAX)
        bl_buffer_append_byte(&text, 'x');
    bl_buffer_append(&text, BL_TEXT("\"}"));
    player_result_parse(&arena, bl_buffer_text(&text), &result, &problem);
    assert_false(result.given);
    assert_true(bl_text_find(problem, BL_TEXT("at most 262144")) >= 0);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

/* ---- Claims ---------------------------------------------------------------------------------- */

static void claimed_but_unchanged_file_is_a_major_issue(void **state)
{
    static const char *const changed[] = {"src/a.c", "docs/b c.md", "deep/er/x", NULL};
    struct bl_arena arena = {0};
    struct bl_list issues;
    struct player_result result;
    struct bl_text problem;
    (void)state;
    bl_list_init(&issues);
    player_result_parse(&arena,
                        BL_TEXT("{\"files\":[\"src/a.c\",\"./src//a.c\",\"docs/b c.md\",\"deep/\","
                                "\"/work/tree/src/a.c\",\"src/missing.c\",\"rc/a.c\",\"\"]}"),
                        &result, &problem);
    player_claims_check(&arena, &result, changed, &issues);
    const struct issue *first = BL_CONTAINER(issues.next, struct issue, link);
    const struct issue *second = BL_CONTAINER(first->link.next, struct issue, link);
    assert_string_equal(first->file, "src/missing.c");
    assert_int_equal(first->severity, ISSUE_MAJOR);
    assert_int_equal(first->source, ISSUE_OF_CLAIMS);
    assert_string_equal(second->file, "rc/a.c");
    assert_ptr_equal(second->link.next, &issues);
    bl_arena_done(&arena);
}

static void issues_for_wrong_claims_are_bounded(void **state)
{
    static const char *const changed[] = {"a", NULL};
    struct bl_arena arena = {0};
    struct bl_list issues;
    struct bl_buffer text;
    struct player_result result;
    struct bl_text problem;
    size_t count = 0;
    (void)state;
    bl_list_init(&issues);
    bl_buffer_init(&text, SIZE_MAX);
    bl_buffer_append(&text, BL_TEXT("{\"files\":["));
    for (int i = 0; i < 9000; i++)
        bl_buffer_printf(&text, "%s\"f%d\"", i > 0 ? "," : "", i);
    bl_buffer_append(&text, BL_TEXT("]}"));
    player_result_parse(&arena, bl_buffer_text(&text), &result, &problem);
    assert_true(result.given);
    player_claims_check(&arena, &result, changed, &issues);
    BL_LIST_EACH (link, &issues)
        count++;
    assert_int_equal(count, 101);
    const struct issue *last = BL_CONTAINER(issues.previous, struct issue, link);
    assert_true(bl_text_find(last->description, BL_TEXT("8900 more unchanged files")) >= 0);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

SUITE(player_result, cmocka_unit_test(last_fenced_json_block_counts),
      cmocka_unit_test(whole_output_counts_if_it_is_one_object),
      cmocka_unit_test(complete_result_is_read), cmocka_unit_test(all_members_are_optional),
      cmocka_unit_test(tests_may_be_numbers),
      cmocka_unit_test(malformed_player_result_is_ignored_and_reported),
      cmocka_unit_test(oversized_result_is_ignored),
      cmocka_unit_test(claimed_but_unchanged_file_is_a_major_issue),
      cmocka_unit_test(issues_for_wrong_claims_are_bounded));
