#include "stage.h"

#include <stdio.h>

/* Each type with all that it can carry; keys that must be there. */
static void every_event_has_the_common_members_and_its_own(void **state)
{
    static const struct {
        enum bl_event_type type;
        const char *own;
    } rows[] = {
        {BL_EVENT_RUN_STARTED, "\"prompt\":\"T\",\"provider\":\"p\",\"model\":\"m\""},
        {BL_EVENT_TURN_STARTED, "\"prompt\":\"T\""},
        {BL_EVENT_TEXT_DELTA, "\"text\":\"T\""},
        {BL_EVENT_THINKING_DELTA, "\"text\":\"T\""},
        {BL_EVENT_TOOL_REQUESTED, "\"id\":\"I\",\"name\":\"N\",\"input\":{\"j\":1}"},
        {BL_EVENT_PERMISSION_ASKED, "\"id\":\"I\",\"name\":\"N\",\"text\":\"T\""},
        {BL_EVENT_PERMISSION_ANSWERED,
         "\"id\":\"I\",\"name\":\"N\",\"answer\":\"S\",\"reason\":\"T\""},
        {BL_EVENT_TOOL_STARTED, "\"id\":\"I\",\"name\":\"N\""},
        {BL_EVENT_TOOL_OUTPUT, "\"id\":\"I\",\"text\":\"T\""},
        {BL_EVENT_TOOL_ENDED, "\"id\":\"I\",\"name\":\"N\",\"status\":\"S\",\"ms\":7"},
        {BL_EVENT_CELL_CREATED, "\"id\":\"I\",\"cell\":\"C\"}"},
        {BL_EVENT_CELL_YIELDED, "\"id\":\"I\",\"cell\":\"C\",\"generation\":2}"},
        {BL_EVENT_CELL_ENDED, "\"cell\":\"C\",\"generation\":2,\"status\":\"S\","
                              "\"receipt\":{\"j\":1},\"output\":\"T\"}"},
        {BL_EVENT_CELL_SETTLED, "\"cell\":\"C\",\"generation\":2,\"status\":\"S\","
                                "\"receipt\":{\"j\":1},\"output\":\"T\"}"},
        {BL_EVENT_COMPACTED, "\"turns_dropped\":3"},
        {BL_EVENT_RETRY,
         "\"attempt\":1,\"of\":4,\"wait_ms\":9,\"code\":\"overloaded\",\"status\":529,"
         "\"discarded\":true"},
        {BL_EVENT_USAGE, "\"usage\":{\"input_tokens\":1,\"output_tokens\":2}"},
        {BL_EVENT_CANCEL_REQUESTED, "\"reason\":\"N\",\"origin\":\"T\""},
        {BL_EVENT_RECEIPT, "\"id\":\"I\",\"receipt\":{\"j\":1}"},
        {BL_EVENT_TURN_ENDED, "\"result\":{\"j\":1}"},
        {BL_EVENT_RUN_ENDED, "\"stop_reason\":\"N\",\"turns_completed\":3,\"usage\":"},
        {BL_EVENT_WARNING, "\"message\":\"T\""},
        {BL_EVENT_ERROR, "\"error\":{\"kind\":\"session\""},
    };
    struct bl_model model = {.provider = "p", .name = "m"};
    struct bl_usage usage = {1, 2};
    struct bl_spent spent = {.usage = {1, 2}, .cost_unknown = true};
    struct bl_error error = {0};
    struct bl_piece piece = {.type = BL_PIECE_RETRY};

    (void)state;
    bl_error_set(&error, BL_EINVAL, BL_KIND_SESSION, "o", "t", "m");
    piece.retry.attempt = 1;
    piece.retry.of = 4;
    piece.retry.wait_ms = 9;
    piece.retry.status = 529;
    bl_text_into(piece.retry.code, sizeof piece.retry.code, "overloaded");
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_event event = {.type = rows[i].type,
                                 .seq = 5,
                                 .run = "run_a",
                                 .session = "s",
                                 .id = BL_TEXT("I"),
                                 .name = BL_TEXT("N"),
                                 .text = BL_TEXT("T"),
                                 .json = BL_TEXT("{\"j\":1}"),
                                 .status = "S",
                                 .cell = "C",
                                 .generation = 2,
                                 .ms = 7,
                                 .piece = &piece,
                                 .usage = &usage,
                                 .spent = rows[i].type == BL_EVENT_USAGE ? NULL : &spent,
                                 .count = 3,
                                 .error = &error,
                                 .model = &model};
        struct bl_buffer out;
        struct bl_json_writer writer;
        char common[160];
        snprintf(
            common, sizeof common,
            "{\"type\":\"%s\",\"seq\":5,\"time\":\"1970-01-01T00:00:00.000Z\",\"run\":\"run_a\","
            "\"session\":\"s\",\"agent\":null,\"turn\":null,",
            bl_event_type_name(rows[i].type));
        bl_buffer_init(&out, 65536);
        bl_json_writer_init(&writer, &out);
        bl_event_write(&writer, &event);
        assert_int_equal(bl_json_writer_done(&writer), 0);
        assert_true(bl_text_starts_with(bl_buffer_text(&out), bl_text_from(common)));
        assert_true(has(bl_buffer_text(&out), rows[i].own));
        bl_buffer_done(&out);
    }
}

SCENE(deltas_and_output_are_told_and_not_written_down)
{
    stage_line(stage, (struct line){.say = "hello", .tool = "work"});
    stage->commit_code = BL_EIO; /* what was not taken stays pending */
    stage->reject_code = BL_EIO;
    stage_line(stage, (struct line){.say = "bye"});
    stage_turn(stage, "go");
    struct bl_text pending = bl_buffer_text(&stage->journal.pending);
    CHECK(has(pending, "\"type\":\"tool_started\""));
    CHECK(has(pending, "\"type\":\"turn_ended\""));
    CHECK(!has(pending, "text_delta"));
    CHECK(!has(pending, "tool_output"));
    CHECK(!has(pending, "\"type\":\"usage\""));
    CHECK(!has(pending, "\"stop_reason\":\"completed\""));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_ERROR), 1);
    return 0;
}

SUITE(event, cmocka_unit_test(every_event_has_the_common_members_and_its_own),
      cmocka_unit_test(deltas_and_output_are_told_and_not_written_down));
