#include "suite.h"

#include <belay/turn.h>

static void ids_are_checked(void **state)
{
    static const char *const good[] = {
        "a-z-0-9",
        "a",
        "z",
        "0",
        "9",
        "-",
        "my-session-7",
        "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"};
    static const struct {
        const char *id, *message;
    } bad[] = {{"", "a session id cannot be empty"},
               {"/", "'/' is not a session id: character 1 is not allowed"},
               {"..", "character 1 is not allowed"},
               {"a/b", "'a/b' is not a session id: character 2 is not allowed"},
               {"A", "character 1"},
               {"a b", "character 2"},
               {"a_b", "character 2"},
               {"abc\n", "character 4"},
               {"\xc3\xa9", "character 1"},
               {"a.b", "character 2"},
               {"`", "character 1"},
               {"{", "character 1"},
               {":", "character 1"},
               {"aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddde",
                "a session id has at most 64 characters"}};
    char *huge = bl_alloc(10001);

    (void)state;
    for (size_t i = 0; i < BL_COUNT(good); i++)
        assert_int_equal(bl_session_id_check(good[i], NULL), 0);
    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        struct bl_error error = {0};
        assert_int_equal(bl_session_id_check(bad[i].id, &error), BL_EINVAL);
        assert_int_equal(error.kind, BL_KIND_USAGE);
        assert_non_null(strstr(error.message, bad[i].message));
        assert_string_equal(error.hint, "use 1 to 64 characters from a-z, 0-9 and -");
    }
    memset(huge, 'a', 10000);
    huge[10000] = '\0';
    assert_int_equal(bl_session_id_check(huge, NULL), BL_EINVAL);
    bl_free(huge);
}

static void oldest_turns_leave_first(void **state)
{
    struct bl_session session;
    struct bl_turn_record *records[3];

    (void)state;
    bl_session_init(&session, "s");
    for (size_t i = 0; i < 3; i++) {
        records[i] = bl_turn_record_new();
        bl_session_add(&session, records[i]);
    }
    bl_session_drop(&session, 2, NULL);
    assert_int_equal(session.turns_in_context, 1);
    assert_ptr_equal(session.turns.next, &records[2]->link);
    bl_session_drop(&session, 7, NULL);
    assert_int_equal(session.turns_in_context, 0);
    bl_session_done(&session);
    bl_turn_record_free(NULL);
}

static void usage_never_wraps(void **state)
{
    struct bl_usage usage = {UINT64_MAX - 1, 5};

    (void)state;
    bl_usage_add(&usage, &(struct bl_usage){10, 1});
    assert_true(usage.input_tokens == UINT64_MAX);
    assert_int_equal(usage.output_tokens, 6);
    assert_true(bl_usage_total(&usage) == UINT64_MAX);
}

static void spent_round_trips(void **state)
{
    struct bl_spent rows[] = {{.usage = {1, 2}, .cost_usd = 0.25, .cost_usd_max = 0.5},
                              {.usage = {3, 4}, .cost_unknown = true},
                              {.cost_usd = 0}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_arena arena;
        struct bl_buffer out;
        struct bl_json_writer writer;
        const struct bl_json *value;
        struct bl_spent read;
        bl_arena_init(&arena);
        bl_buffer_init(&out, 4096);
        bl_json_writer_init(&writer, &out);
        bl_record_write(&writer, &bl_spent_record, &rows[i]);
        assert_int_equal(bl_json_read(&arena, bl_buffer_text(&out), NULL, &value, NULL), 0);
        bl_record_take(NULL, &bl_spent_record, value, &read);
        assert_int_equal(read.usage.input_tokens, rows[i].usage.input_tokens);
        assert_int_equal(read.usage.output_tokens, rows[i].usage.output_tokens);
        assert_int_equal(read.cost_unknown, rows[i].cost_unknown);
        assert_true(read.cost_usd == rows[i].cost_usd);
        assert_true(read.cost_usd_max == rows[i].cost_usd_max);
        bl_buffer_done(&out);
        bl_arena_done(&arena);
    }
}

SUITE(session, cmocka_unit_test(ids_are_checked), cmocka_unit_test(oldest_turns_leave_first),
      cmocka_unit_test(usage_never_wraps), cmocka_unit_test(spent_round_trips));
