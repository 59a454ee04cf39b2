#include "helpers.h"

/* Every member with its own value. */
static const char full[] =
    "{\"id\":\"A\",\"name\":\"First\",\"wave\":2,\"state\":\"timed_out\",\"decision\":\"timeout\","
    "\"attempt\":3,\"turn\":4,\"turns_counted\":5,\"turns_max\":6,\"phase\":\"coach\","
    "\"verified\":\"passed\",\"started_at\":\"2026-11-16T10:00:00.001Z\","
    "\"ended_at\":\"2026-11-16T10:00:00.020Z\",\"deadline_at\":\"2026-11-16T10:40:00.000Z\","
    "\"held_left_s\":6.5,\"elapsed_s\":7.5,\"deadline_s\":8.5,"
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
    "\"verified\":null,\"started_at\":null,\"ended_at\":null,\"deadline_at\":null,"
    "\"held_left_s\":null,\"elapsed_s\":null,"
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

static void every_member_of_a_row_is_written_as_read(void **state)
{
    (void)state;
    row_check(full, full);
}

static void missing_members_of_a_row_are_unknown(void **state)
{
    (void)state;
    row_check("{}", empty);
    row_check(empty, empty);
}

/* ---- The feature and its waves --------------------------------------------------------------- */

#define FEATURE(exit_code, more)                                                                   \
    "{\"feature\":\"F\",\"name\":\"Feature\",\"repository\":\"/r\",\"run_id\":\"run_1\","          \
    "\"state\":\"failed\",\"plan_digest\":\"sha256:00\",\"base_commit\":\"abc\","                  \
    "\"result_branch\":\"belay/F/_result\",\"result_commit\":null,"                                \
    "\"started_at\":\"2026-11-16T10:00:00.000Z\",\"ended_at\":null,\"reason\":\"user\","           \
    "\"origin\":\"SIGINT\",\"exit_code\":" exit_code ",\"parallel\":2,"                            \
    "\"feature_deadline_s\":1.5,\"deadline_at\":null,\"receipt\":\"rcp_a\",\"unverified\":true,"   \
    "\"error\":{\"kind\":\"feature\",\"operation\":\"o\",\"target\":\"t\",\"retryable\":false,"    \
    "\"message\":\"m\",\"hint\":\"h\"},\"tasks_done\":3,\"tasks_total\":4,\"spent\":{"             \
    "\"input_tokens\":1,\"output_tokens\":2,\"cost_usd\":0.5,\"cost_usd_max\":0.5}," more          \
    "\"warnings\":[\"one\",\"two\"]}"

static void feature_row_is_written_as_read(void **state)
{
    struct bl_arena arena = {0};
    struct feature_record record;
    (void)state;
    bl_record_take(&arena, &feature_row_record, row_json(&arena, BL_TEXT(FEATURE("null", ""))),
                   &record);
    assert_string_equal(record_json(&arena, &feature_row_record, &record).data,
                        FEATURE("null", ""));
    /* As an older or a newer belay wrote it. */
    bl_record_take(&arena, &feature_row_record,
                   row_json(&arena, BL_TEXT(FEATURE("-1", "\"newer\":{},"))), &record);
    assert_int_equal(record.view.exit_code, -1);
    assert_string_equal(record_json(&arena, &feature_row_record, &record).data,
                        FEATURE("null", ""));
    bl_arena_done(&arena);
}

static void wave_row_is_written_as_read(void **state)
{
    static const char *const rows[] = {
        "{\"n\":2,\"state\":\"unverified\",\"gate\":\"absent\","
        "\"started_at\":\"2026-11-16T10:00:00.000Z\",\"ended_at\":\"2026-11-16T10:00:01.000Z\","
        "\"tasks\":[\"A\",\"B\"],\"message\":\"m\"}",
        "{\"n\":1,\"state\":\"pending\",\"gate\":null,\"started_at\":null,\"ended_at\":null,"
        "\"tasks\":[]}",
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_arena arena = {0};
        struct wave_record record;
        bl_record_take(&arena, &wave_row_record, row_json(&arena, bl_text_from(rows[i])), &record);
        assert_string_equal(record_json(&arena, &wave_row_record, &record).data, rows[i]);
        bl_arena_done(&arena);
    }
}

/* ---- Turns ----------------------------------------------------------------------------------- */

#define TURN(decision, outcome)                                                                    \
    "{\"task\":\"A\",\"attempt\":2,\"turn\":3,\"merge\":true,"                                     \
    "\"started_at\":\"2026-11-16T10:00:00.000Z\",\"ended_at\":null,\"counted\":false,"             \
    "\"decision\":" decision ",\"phases\":[{\"phase\":\"player\","                                 \
    "\"started_at\":\"2026-11-16T10:00:00.000Z\",\"ended_at\":\"2026-11-16T10:00:01.500Z\","       \
    "\"ms\":1500,\"outcome\":\"ended\"},{\"phase\":\"verify\",\"started_at\":null,"                \
    "\"ended_at\":null,\"ms\":null,\"outcome\":\"carried\"},{\"phase\":\"coach\","                 \
    "\"started_at\":\"2026-11-16T10:00:02.000Z\",\"ended_at\":null,\"ms\":null,"                   \
    "\"outcome\":\"" outcome "\"}],\"player\":{\"text\":\"done\",\"result\":{\"summary\":\"s\"},"  \
    "\"exit_code\":4,\"changed\":true,\"head_commit\":\"4ead\"},\"verify\":{\"value\":\"failed\"," \
    "\"why\":\"w\",\"tail\":\"t\",\"runs\":[{\"command\":\"make\",\"setup\":false,"                \
    "\"exit_code\":null,\"ms\":7}],\"issues\":[{\"severity\":\"note\",\"source\":\"verify\","      \
    "\"description\":\"n\"}]},\"verdict\":{\"v\":1},\"issues\":[{\"severity\":\"major\","          \
    "\"source\":\"claims\",\"file\":\"a.c\",\"line\":9,\"description\":\"d\"}],\"feedback\":"      \
    "\"f\","                                                                                       \
    "\"spent\":{\"input_tokens\":1,\"output_tokens\":2,\"cost_usd\":0.5,\"cost_usd_max\":0.5}}"

static void turn_is_written_as_read(void **state)
{
    struct bl_arena arena = {0};
    struct task_turn turn;
    (void)state;
    assert_true(task_turn_read(&arena, BL_TEXT(TURN("\"feedback\"", "running")), &turn));
    assert_string_equal(record_json(&arena, &task_turn_record, &turn).data,
                        TURN("\"feedback\"", "running"));
    assert_false(task_turn_read(&arena, BL_TEXT("{"), &turn));
    bl_arena_done(&arena);
}

static void turn_takes_over_the_phases_of_one_that_was_cut_off(void **state)
{
    struct task_turn turn;
    (void)state;
    task_turn_init(&turn, "A");
    task_turn_carry(&turn, BL_TEXT(TURN("null", "running")));
    assert_string_equal(
        record_json(&turn.arena, &task_turn_record, &turn).data,
        "{\"task\":\"A\",\"attempt\":0,\"turn\":0,\"merge\":false,\"started_at\":null,"
        "\"ended_at\":null,\"counted\":false,\"decision\":null,\"phases\":[{\"phase\":\"player\","
        "\"started_at\":null,\"ended_at\":null,\"ms\":null,\"outcome\":\"carried\"},"
        "{\"phase\":\"verify\",\"started_at\":null,\"ended_at\":null,\"ms\":null,"
        "\"outcome\":\"carried\"}],\"player\":{\"text\":\"done\",\"result\":{\"summary\":\"s\"},"
        "\"exit_code\":4,\"changed\":true,\"head_commit\":\"4ead\"},\"verify\":{\"value\":"
        "\"failed\",\"why\":\"w\",\"tail\":\"t\",\"runs\":[{\"command\":\"make\",\"setup\":false,"
        "\"exit_code\":null,\"ms\":7}],\"issues\":[{\"severity\":\"note\",\"source\":\"verify\","
        "\"description\":\"n\"}]},\"verdict\":null,\"issues\":[{\"severity\":\"major\","
        "\"source\":\"claims\",\"file\":\"a.c\",\"line\":9,\"description\":\"d\"}],"
        "\"feedback\":null,\"spent\":{\"input_tokens\":0,\"output_tokens\":0,\"cost_usd\":0.0,"
        "\"cost_usd_max\":0.0}}");
    task_turn_done(&turn);
}

/* A complete turn leaves only feedback, also one whose decision a newer belay named. */
static void turn_takes_nothing_over_from_a_complete_one(void **state)
{
    static const char *const ended[] = {TURN("\"feedback\"", "ended"), TURN("\"newer\"", "ended"),
                                        "{}", "[]"};
    (void)state;
    for (size_t i = 0; i < BL_COUNT(ended); i++) {
        struct task_turn turn;
        task_turn_init(&turn, "A");
        task_turn_carry(&turn, bl_text_from(ended[i]));
        assert_int_equal(turn.phase_count, 0);
        assert_false(turn.played || turn.verified);
        task_turn_done(&turn);
    }
}

static void turn_of_a_dead_runner_is_cancelled_at_its_last_known_time(void **state)
{
    const struct bl_task_row row = {.active_wall_ns = 1794823203250000000};
    struct bl_arena arena = {0};
    struct task_turn turn;
    (void)state;
    struct bl_text settled = turn_settle(&arena, BL_TEXT(TURN("null", "running")), &row);
    assert_true(task_turn_read(&arena, settled, &turn));
    assert_string_equal(turn.decision, "cancelled");
    assert_int_equal(turn.ended_wall_ns, row.active_wall_ns);
    assert_int_equal(turn.phases[2].state, TURN_PHASE_STOPPED);
    assert_int_equal(turn.phases[2].ended_wall_ns, row.active_wall_ns);
    assert_int_equal(turn.phases[0].state, TURN_PHASE_ENDED);
    assert_int_equal(turn.phases[0].ms, 1500);
    struct bl_text ended = BL_TEXT(TURN("\"timeout\"", "stopped"));
    assert_ptr_equal(turn_settle(&arena, ended, &row).data, ended.data);
    bl_arena_done(&arena);
}

SUITE(row, cmocka_unit_test(feature_row_is_written_as_read),
      cmocka_unit_test(wave_row_is_written_as_read), cmocka_unit_test(turn_is_written_as_read),
      cmocka_unit_test(turn_takes_over_the_phases_of_one_that_was_cut_off),
      cmocka_unit_test(turn_takes_nothing_over_from_a_complete_one),
      cmocka_unit_test(turn_of_a_dead_runner_is_cancelled_at_its_last_known_time),
      cmocka_unit_test(every_member_of_a_row_is_written_as_read),
      cmocka_unit_test(missing_members_of_a_row_are_unknown));
