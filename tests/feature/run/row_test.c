#include "helpers.h"

/* Every member, each with a value of its own. */
static const char full[] =
    "{\"id\":\"A\",\"name\":\"First\",\"wave\":2,\"state\":\"timed_out\",\"decision\":\"timeout\","
    "\"attempt\":3,\"turn\":4,\"turns_counted\":5,\"turns_max\":6,\"phase\":\"coach\","
    "\"verified\":\"passed\",\"started_at\":\"2026-11-16T10:00:00.001Z\","
    "\"ended_at\":\"2026-11-16T10:00:00.020Z\",\"elapsed_s\":7.5,\"deadline_s\":8.5,"
    "\"deadline_source\":\"plan\",\"grace_s\":9.5,"
    "\"last_activity_at\":\"2026-11-16T10:00:00.300Z\",\"last_activity\":\"tool\","
    "\"branch\":\"belay/F/A\",\"base_commit\":\"ba5e\",\"head_commit\":\"4ead\",\"merged\":true,"
    "\"merged_at\":\"2026-11-16T10:00:04.000Z\",\"worktree\":\"/w\",\"dirty\":false,"
    "\"reason\":\"timeout\",\"triggered_by\":\"timer\",\"spent\":{\"input_tokens\":10,"
    "\"output_tokens\":11,\"cost_usd\":0.25,\"cost_usd_max\":0.5},\"checkpoint\":{\"schema\":1},"
    "\"receipt\":\"rcp_a\",\"message\":\"m\",\"late_ms\":12.5,\"memory\":{\"stall\":{\"digest\":"
    "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"same\":13,"
    "\"unchanged\":14,\"verified\":[0,64],\"absent\":15,\"player_errors\":16},\"session\":\"s\","
    "\"feedback\":\"f\",\"feedback_turn\":17,\"last_verdict\":{\"v\":1},\"cut_off\":\"c\","
    "\"merge_turns\":18,\"approved_commit\":\"a99\"}}";

static const char empty[] =
    "{\"id\":\"\",\"name\":\"\",\"wave\":0,\"state\":\"pending\",\"decision\":null,"
    "\"attempt\":0,\"turn\":0,\"turns_counted\":0,\"turns_max\":null,\"phase\":null,"
    "\"verified\":null,\"started_at\":null,\"ended_at\":null,\"elapsed_s\":null,"
    "\"deadline_s\":null,\"deadline_source\":null,\"grace_s\":0.0,\"last_activity_at\":null,"
    "\"last_activity\":null,\"branch\":null,\"base_commit\":null,\"head_commit\":null,"
    "\"merged\":false,\"merged_at\":null,\"worktree\":null,\"dirty\":null,\"reason\":null,"
    "\"triggered_by\":null,\"spent\":null,\"checkpoint\":null,\"receipt\":null,"
    "\"message\":null,\"late_ms\":null,\"memory\":{\"stall\":{\"digest\":\"\",\"same\":0,"
    "\"unchanged\":0,\"verified\":[],\"absent\":0,\"player_errors\":0},\"session\":null,"
    "\"feedback\":null,\"feedback_turn\":0,\"last_verdict\":null,\"cut_off\":null,"
    "\"merge_turns\":0,\"approved_commit\":null}}";

static const struct bl_json *row_json(struct bl_arena *arena, struct bl_text text)
{
    const struct bl_json *value = NULL;
    assert_int_equal(bl_json_read(arena, text, NULL, &value, NULL), 0);
    return value;
}

/* Reads a row, and writes it again. */
static void row_check(const char *source, const char *expected)
{
    struct bl_arena arena;
    struct bl_buffer out;
    struct bl_json_writer writer;
    struct bl_task_row row;
    bl_arena_init(&arena);
    bl_buffer_init(&out, 65536);
    task_row_init(&row);
    task_row_read(row_json(&arena, bl_text_from(source)), &row);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &task_row_record, &row);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    if (!bl_json_equal(row_json(&arena, bl_buffer_text(&out)),
                       row_json(&arena, bl_text_from(expected))))
        fail_msg(BL_TEXT_FORMAT "\ninstead of\n%s", BL_TEXT_ARG(bl_buffer_text(&out)), expected);
    task_row_done(&row);
    bl_buffer_done(&out);
    bl_arena_done(&arena);
}

static void every_member_of_a_row_is_written_as_it_was_read(void **state)
{
    (void)state;
    row_check(full, full);
}

static void what_is_missing_in_a_row_is_not_known(void **state)
{
    (void)state;
    row_check("{}", empty);
    row_check(empty, empty);
}

SUITE(row, cmocka_unit_test(every_member_of_a_row_is_written_as_it_was_read),
      cmocka_unit_test(what_is_missing_in_a_row_is_not_known));
