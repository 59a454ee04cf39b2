#include "helpers.h"

#include <stdio.h>
#include <time.h>

/* Makes the digest of feedback with one such issue. */
static void digest_of(const char *file, const char *criterion, const char *description,
                      char out[65])
{
    struct bl_arena arena = {0};
    struct bl_list issues;
    bl_list_init(&issues);
    issue_add(&arena, &issues, ISSUE_MAJOR, ISSUE_OF_COACH, file, bl_text_from(description))
        ->criterion = criterion;
    feedback_digest(&issues, out);
    bl_arena_done(&arena);
}

static void compare(const char *a, const char *b, bool alike)
{
    char first[65], second[65];
    digest_of(NULL, NULL, a, first);
    digest_of(NULL, NULL, b, second);
    suite_fail_if((strcmp(first, second) == 0) != alike, "'%s' and '%s' are %s", a, b,
                  alike ? "not alike" : "alike");
}

static void case_spaces_numbers_durations_hashes_and_paths_are_normalized(void **state)
{
    (void)state;
    compare("It FAILS", " it  fails\n", true);
    compare("a\tb\nc", "a b c", true);
    compare("3 of 12 tests fail", "1 of 1,024 tests fail", true);
    compare("took 206 ms", "took 1.5 s", true);
    compare("took 206ms", "took 4 m 10 s", true);
    compare("after 2m30s.", "after 90 seconds.", true);
    compare("off by -3", "off by 12.75", true);
    compare("at 0x7ffe12 in", "at 0x55aa00ff in", true);
    compare("commit 3f2a91c fails", "commit 0badc0de99 fails", true);
    compare("id 550e8400-e29b-41d4-a716-446655440000", "id 123e4567-e89b-12d3-a456-426614174000",
            true);
    compare("in src/a.c:12: no", "in src/deep/b.c:7:5: no", true);
    compare("see `/tmp/x1/y`.", "see `../other`.", true);
    compare("in main.c the loop", "in parser.test.ts the loop", true);
    compare("at 2026-11-16T10:12:52.123Z", "at 2027-01-01T00:00:00.000Z", true);
    compare("test_12 fails", "test_7 fails", true);
}

static void different_words_differ(void **state)
{
    char first[65], second[65];
    (void)state;
    compare("it fails", "it leaks", false);
    compare("it fails", "it fails.", false);
    compare("a b", "ab", false);
    compare("", "x", false);
    compare("the feed is bad", "the face is bad", false);
    compare("see a.c", "see it", false);
    compare("3 tests", "tests", false);
    digest_of(NULL, "AC-001", "it fails", first);
    digest_of(NULL, "AC-002", "it fails", second);
    assert_string_not_equal(first, second);
    digest_of("src/a.c", NULL, "it fails", first);
    digest_of("src/b.c", NULL, "it fails", second);
    assert_string_equal(first, second);
}

/* No part of the text is scanned repeatedly. */
static void long_texts_take_linear_time(void **state)
{
    static const char *const pieces[] = {"-",  "1.", "~.",    "1z", "a/",
                                         "1 ", "0x", "12 m ", ".",  "é"};
    size_t size = 256 * 1024;
    char *text = bl_alloc(size + 1), out[65];
    (void)state;
    for (size_t i = 0; i < BL_COUNT(pieces); i++) {
        size_t length = strlen(pieces[i]);
        for (size_t j = 0; j < size; j++)
            text[j] = pieces[i][j % length];
        text[size] = '\0';
        clock_t begin = clock();
        digest_of(NULL, NULL, text, out);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        suite_fail_if(seconds > 5, "'%s' took %.1f s", pieces[i], seconds);
    }
    bl_free(text);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

/* A turn that ended in feedback with that text, and verified criterion `verified` of 8 (negative:
 * none). */
static bool turn(struct stall *stall, const char *description, int verified, bool changed)
{
    struct bl_arena arena = {0};
    struct bl_list issues;
    struct criterion_result criteria[8] = {{.id = "AC-001"}};
    struct verdict verdict = {.criteria = criteria, .criterion_count = BL_COUNT(criteria)};
    const char *why = "";
    bl_list_init(&issues);
    issue_add(&arena, &issues, ISSUE_MAJOR, ISSUE_OF_COACH, NULL, bl_text_from(description));
    if (verified >= 0)
        criteria[verified].verified = true;
    bool stalled = stall_after(stall, &verdict, &issues, changed, &why);
    assert_true(stalled == (why != NULL));
    bl_arena_done(&arena);
    return stalled;
}

static void F48_three_feedbacks_that_differ_in_numbers_and_paths_stall(void **state)
{
    struct stall stall = {0};
    (void)state;
    assert_false(turn(&stall, "3 of 10 fail in src/a.c:12 after 1.5 s", -1, true));
    assert_false(turn(&stall, "4 of 10 fail in src/b.c:7 after 206 ms", -1, true));
    assert_true(turn(&stall, "2 of 11 fail in lib/c.c:1 after 2 m", -1, true));
}

static void F48_different_feedback_restarts_the_count(void **state)
{
    struct stall stall = {0};
    (void)state;
    assert_false(turn(&stall, "it fails", -1, true));
    assert_false(turn(&stall, "it fails", -1, true));
    assert_false(turn(&stall, "it leaks", -1, true));
    assert_false(turn(&stall, "it fails", -1, true));
    assert_false(turn(&stall, "it fails", -1, true));
    assert_true(turn(&stall, "it fails", -1, true));
}

static void F48_criterion_newly_verified_in_turn_2_is_not_a_stall(void **state)
{
    struct stall stall = {0};
    (void)state;
    assert_false(turn(&stall, "3 fail", -1, true));
    assert_false(turn(&stall, "2 fail", 4, true));
    assert_false(turn(&stall, "1 fail", 4, true));
    /* From now on it takes five turns. */
    assert_false(turn(&stall, "1 fail", -1, true));
    assert_false(turn(&stall, "1 fail", 4, true));
    assert_false(turn(&stall, "1 fail", 4, true));
    assert_true(turn(&stall, "1 fail", 4, true));
}

static void F48_absent_turn_among_them_does_not_count(void **state)
{
    struct stall stall = {0};
    (void)state;
    assert_false(turn(&stall, "3 fail", -1, true));
    /* Turn 2 is absent, and does not count. */
    assert_false(turn(&stall, "2 fail", -1, true));
    assert_true(turn(&stall, "1 fail", -1, true));
}

static void three_turns_without_a_change_stall(void **state)
{
    struct stall stall = {0};
    (void)state;
    assert_false(turn(&stall, "alpha", 0, false));
    assert_false(turn(&stall, "beta", 1, false));
    assert_false(turn(&stall, "gamma", 2, true));
    assert_false(turn(&stall, "delta", 3, false));
    assert_false(turn(&stall, "epsilon", 4, false));
    assert_true(turn(&stall, "zeta", 5, false));
}

static void turn_without_a_verdict_counts(void **state)
{
    struct bl_arena arena = {0};
    struct bl_list issues;
    struct stall stall = {0};
    const char *why;
    (void)state;
    bl_list_init(&issues);
    issue_add(&arena, &issues, ISSUE_CRITICAL, ISSUE_OF_CLAIMS, NULL, BL_TEXT("left its branch"));
    assert_false(stall_after(&stall, NULL, &issues, true, &why));
    assert_false(stall_after(&stall, NULL, &issues, true, &why));
    assert_true(stall_after(&stall, NULL, &issues, true, &why));
    assert_string_equal(why,
                        "the same feedback in three turns in a row, with no verified criterion");
    bl_arena_done(&arena);
}

static void stall_is_read_as_written(void **state)
{
    struct stall stall = {.absent = 2, .player_errors = 1}, again;
    struct bl_arena arena = {0};
    struct bl_buffer text;
    struct bl_json_writer writer;
    const struct bl_json *value;
    (void)state;
    turn(&stall, "it fails", 7, false);
    stall.verified[3] = 1ull << 63 | 1;
    bl_buffer_init(&text, SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_record_write(&writer, &stall_record, &stall);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), NULL, &value, NULL), 0);
    bl_record_take(&arena, &stall_record, value, &again);
    assert_memory_equal(&stall, &again, sizeof stall);
    /* Anything else is an empty state. */
    static const struct stall none = {0};
    bl_record_take(&arena, &stall_record, NULL, &again);
    assert_memory_equal(&none, &again, sizeof none);
    assert_int_equal(bl_json_read(&arena,
                                  BL_TEXT("{\"digest\":\"x\",\"same\":-1,\"unchanged\":1e99,"
                                          "\"verified\":[-1,256,\"a\",1.5]}"),
                                  NULL, &value, NULL),
                     0);
    bl_record_take(&arena, &stall_record, value, &again);
    assert_memory_equal(&none, &again, sizeof none);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

SUITE(stall, cmocka_unit_test(case_spaces_numbers_durations_hashes_and_paths_are_normalized),
      cmocka_unit_test(different_words_differ), cmocka_unit_test(long_texts_take_linear_time),
      cmocka_unit_test(F48_three_feedbacks_that_differ_in_numbers_and_paths_stall),
      cmocka_unit_test(F48_different_feedback_restarts_the_count),
      cmocka_unit_test(F48_criterion_newly_verified_in_turn_2_is_not_a_stall),
      cmocka_unit_test(F48_absent_turn_among_them_does_not_count),
      cmocka_unit_test(three_turns_without_a_change_stall),
      cmocka_unit_test(turn_without_a_verdict_counts), cmocka_unit_test(stall_is_read_as_written));
