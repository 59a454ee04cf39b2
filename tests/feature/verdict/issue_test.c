#include "helpers.h"

#include <stdio.h>

/* Issues of a test. */
struct board {
    struct bl_arena arena;
    struct bl_list issues;
};

static void board_make(struct board *board)
{
    *board = (struct board){.arena = {0}};
    bl_list_init(&board->issues);
}

static struct issue *add(struct board *board, enum issue_severity severity,
                         enum issue_source source, const char *description)
{
    return issue_add(&board->arena, &board->issues, severity, source, NULL,
                     bl_text_from(description));
}

static size_t count(const struct board *board)
{
    size_t number = 0;
    BL_LIST_EACH (link, &board->issues)
        number++;
    return number;
}

static const struct issue *issue_at(const struct board *board, size_t index)
{
    const struct bl_list *link = board->issues.next;
    for (; index > 0; index--)
        link = link->next;
    return BL_CONTAINER(link, struct issue, link);
}

static struct bl_text last_line(struct bl_text text)
{
    struct bl_text line, last = {0};
    while (bl_text_split(&text, '\n', &line))
        last = line;
    return last;
}

static void order_is_severity_then_source_then_order(void **state)
{
    static const char *const wanted[] = {"f", "c", "g", "e", "b", "d", "a"};
    struct board board;
    (void)state;
    board_make(&board);
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, "a");
    add(&board, ISSUE_MAJOR, ISSUE_OF_COACH, "b");
    add(&board, ISSUE_CRITICAL, ISSUE_OF_COACH, "c");
    add(&board, ISSUE_MAJOR, ISSUE_OF_COACH, "d");
    add(&board, ISSUE_MAJOR, ISSUE_OF_CLAIMS, "e");
    add(&board, ISSUE_CRITICAL, ISSUE_OF_VERIFY, "f");
    add(&board, ISSUE_CRITICAL, ISSUE_OF_COACH, "g");
    issues_sort(&board.issues);
    assert_int_equal(count(&board), BL_COUNT(wanted));
    for (size_t i = 0; i < BL_COUNT(wanted); i++)
        assert_string_equal(issue_at(&board, i)->description.data, wanted[i]);
    bl_arena_done(&board.arena);
}

static void equal_issues_are_merged_with_the_highest_severity(void **state)
{
    struct board board;
    (void)state;
    board_make(&board);
    add(&board, ISSUE_MINOR, ISSUE_OF_COACH, "same");
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, "other");
    add(&board, ISSUE_CRITICAL, ISSUE_OF_CLAIMS, " same\n")->suggestion = BL_TEXT("fix it");
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, "same")->line = 3;
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, "same")->suggestion = BL_TEXT("drop it");
    issues_sort(&board.issues);
    assert_int_equal(count(&board), 4);
    assert_int_equal(issue_at(&board, 0)->severity, ISSUE_CRITICAL);
    assert_int_equal(issue_at(&board, 0)->source, ISSUE_OF_CLAIMS);
    assert_true(bl_text_equal(issue_at(&board, 0)->suggestion, BL_TEXT("fix it")));
    /* Another line or another suggestion makes another issue. */
    assert_string_equal(issue_at(&board, 1)->description.data, "other");
    assert_int_equal(issue_at(&board, 2)->line, 3);
    assert_true(bl_text_equal(issue_at(&board, 3)->suggestion, BL_TEXT("drop it")));
    bl_arena_done(&board.arena);
}

/* Issues are stored with verifications and turns. */
static void issue_is_read_as_written(void **state)
{
    struct board board;
    struct verify_outcome outcome = {.value = BL_VERIFIED_FAILED}, again;
    struct bl_buffer text;
    struct bl_json_writer writer;
    const struct bl_json *value;
    (void)state;
    board_make(&board);
    struct issue *issue = add(&board, ISSUE_MAJOR, ISSUE_OF_CLAIMS, "bad \xff \x1b text");
    issue->criterion = "AC-001";
    issue->file = "a b.c";
    issue->line = 7;
    issue->suggestion = BL_TEXT("so");
    add(&board, ISSUE_NOTE, ISSUE_OF_VERIFY, "plain");
    bl_list_init(&outcome.issues);
    issues_move(&board.issues, &outcome.issues);
    bl_buffer_init(&text, SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_record_write(&writer, &verify_record, &outcome);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    assert_int_equal(bl_json_read(&board.arena, bl_buffer_text(&text), NULL, &value, NULL), 0);
    bl_record_take(&board.arena, &verify_record, value, &again);
    assert_true(bl_record_equal(&verify_record, &outcome, &again));
    issues_move(&again.issues, &board.issues);
    assert_int_equal(issue_at(&board, 0)->line, 7);
    assert_int_equal(issue_at(&board, 1)->source, ISSUE_OF_VERIFY);
    /* Anything else is omitted. */
    assert_int_equal(bl_json_read(&board.arena,
                                  BL_TEXT("{\"value\":\"failed\",\"issues\":[1,{},{\"severity\":"
                                          "\"bad\",\"source\":\"coach\",\"description\":\"a\"},"
                                          "{\"severity\":\"note\"}]}"),
                                  NULL, &value, NULL),
                     0);
    bl_record_take(&board.arena, &verify_record, value, &again);
    assert_true(bl_list_empty(&again.issues));
    bl_buffer_done(&text);
    bl_arena_done(&board.arena);
}

/* ---- Feedback -------------------------------------------------------------------------------- */

static void F47_critical_issue_is_first_and_the_last_line_counts_omissions(void **state)
{
    struct board board;
    (void)state;
    board_make(&board);
    for (int i = 0; i < 12; i++)
        add(&board, ISSUE_NOTE, ISSUE_OF_COACH,
            bl_arena_printf(&board.arena, "a note, the %dth", i).data);
    add(&board, ISSUE_CRITICAL, ISSUE_OF_COACH, "it crashes");
    issues_sort(&board.issues);
    struct bl_text text = feedback_make(&board.arena, &board.issues, 10, "/x/feedback.md");
    assert_true(bl_text_starts_with(text, BL_TEXT("1. critical (coach): it crashes\n2. note ")));
    assert_true(bl_text_find(text, BL_TEXT("\n10. note (coach): a note, the 8th\n")) > 0);
    assert_true(bl_text_find(text, BL_TEXT("the 9th")) < 0);
    assert_true(bl_text_equal(last_line(text), BL_TEXT("… and 3 more (3 note): /x/feedback.md")));
    bl_arena_done(&board.arena);
}

static void F47_omitted_issues_are_counted_by_severity(void **state)
{
    struct board board;
    (void)state;
    board_make(&board);
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, "a");
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, "b");
    add(&board, ISSUE_MINOR, ISSUE_OF_COACH, "c");
    add(&board, ISSUE_MAJOR, ISSUE_OF_COACH, "d");
    issues_sort(&board.issues);
    struct bl_text text = feedback_make(&board.arena, &board.issues, 1, "PATH");
    assert_string_equal(text.data, "1. major (coach): d\n… and 3 more (1 minor, 2 note): PATH\n");
    text = feedback_make(&board.arena, &board.issues, 4, "PATH");
    assert_string_equal(text.data, "1. major (coach): d\n2. minor (coach): c\n3. note (coach): a\n"
                                   "4. note (coach): b\n");
    bl_list_init(&board.issues);
    assert_int_equal(feedback_make(&board.arena, &board.issues, 10, "PATH").size, 0);
    bl_arena_done(&board.arena);
}

static void issue_has_a_place_and_a_suggestion(void **state)
{
    struct board board;
    (void)state;
    board_make(&board);
    struct issue *issue = add(&board, ISSUE_MAJOR, ISSUE_OF_COACH, "leaks\n\nalways\n2. critical");
    issue->criterion = "AC-001";
    issue->file = "src/a.c";
    issue->line = 12;
    issue->suggestion = BL_TEXT("free it");
    struct bl_text text = feedback_make(&board.arena, &board.issues, 10, "PATH");
    assert_string_equal(text.data,
                        "1. major (coach) AC-001 src/a.c:12: leaks\n\n   always\n   2. critical\n"
                        "   Suggestion: free it\n");
    bl_arena_done(&board.arena);
}

static void feedback_stays_within_8_KiB_and_the_first_fits(void **state)
{
    struct board board;
    char *huge = bl_alloc(200 * 1024);
    (void)state;
    board_make(&board);
    /* Escapes, indents and long names together. */
    for (size_t i = 0; i < 200 * 1024 - 1; i++)
        huge[i] = i % 2 == 0 ? '\n' : '\x01';
    huge[200 * 1024 - 1] = '\0';
    struct issue *issue = add(&board, ISSUE_CRITICAL, ISSUE_OF_COACH, huge);
    issue->suggestion = issue->description;
    issue->file = issue->criterion = issue->description.data;
    issue->line = INT64_MAX;
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, huge);
    struct bl_text text = feedback_make(&board.arena, &board.issues, UINT32_MAX, huge + 1);
    assert_true(text.size <= FEEDBACK_SIZE_MAX);
    assert_true(bl_text_starts_with(text, BL_TEXT("1. critical (coach) \\x01")));
    assert_true(bl_text_find(text, BL_TEXT("… and 1 more (1 note): ")) > 0);
    assert_true(bl_utf8_valid(text));
    /* Without a path, this is the full list. */
    text = feedback_make(&board.arena, &board.issues, UINT32_MAX, NULL);
    assert_true(text.size > 1000000);
    bl_free(huge);
    bl_arena_done(&board.arena);
}

static void smaller_issue_does_not_overtake(void **state)
{
    struct board board;
    char large[4500];
    (void)state;
    board_make(&board);
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    add(&board, ISSUE_MAJOR, ISSUE_OF_COACH, large);
    large[0] = 'y';
    add(&board, ISSUE_MAJOR, ISSUE_OF_COACH, large);
    add(&board, ISSUE_NOTE, ISSUE_OF_COACH, "small");
    struct bl_text text = feedback_make(&board.arena, &board.issues, 10, "PATH");
    assert_true(bl_text_find(text, BL_TEXT("small")) < 0);
    assert_true(bl_text_equal(last_line(text), BL_TEXT("… and 2 more (1 major, 1 note): PATH")));
    bl_arena_done(&board.arena);
}

static void cut_text_names_the_full_one(void **state)
{
    struct board board;
    char large[6000];
    (void)state;
    board_make(&board);
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    add(&board, ISSUE_MAJOR, ISSUE_OF_COACH, large);
    struct bl_text text = feedback_make(&board.arena, &board.issues, 10, "PATH");
    assert_true(bl_text_find(text, BL_TEXT("xx …\n")) > 0);
    assert_true(bl_text_equal(last_line(text), BL_TEXT("… shortened; full texts: PATH")));
    bl_arena_done(&board.arena);
}

static void hostile_text_is_shown_escaped(void **state)
{
    struct bl_buffer out;
    (void)state;
    bl_buffer_init(&out, SIZE_MAX);
    text_show(BL_TEXT("a\x1b[2J\tb\r\n\x7f\xc2\x85\xff\xe2\x82z\0ü"), &out);
    assert_true(bl_text_equal(
        bl_buffer_text(&out),
        BL_TEXT("a\\x1b[2J\tb\n\\x7f\\u0085\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\\x00ü")));
    bl_buffer_done(&out);
}

SUITE(issue, cmocka_unit_test(order_is_severity_then_source_then_order),
      cmocka_unit_test(equal_issues_are_merged_with_the_highest_severity),
      cmocka_unit_test(issue_is_read_as_written),
      cmocka_unit_test(F47_critical_issue_is_first_and_the_last_line_counts_omissions),
      cmocka_unit_test(F47_omitted_issues_are_counted_by_severity),
      cmocka_unit_test(issue_has_a_place_and_a_suggestion),
      cmocka_unit_test(feedback_stays_within_8_KiB_and_the_first_fits),
      cmocka_unit_test(smaller_issue_does_not_overtake),
      cmocka_unit_test(cut_text_names_the_full_one),
      cmocka_unit_test(hostile_text_is_shown_escaped));
