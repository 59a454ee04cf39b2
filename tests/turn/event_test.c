#include "stage.h"

#include <stdio.h>

#define USAGE "\"usage\":{\"input_tokens\":1,\"output_tokens\":2}"
#define SPENT                                                                                      \
    "\"spent\":{\"input_tokens\":1,\"output_tokens\":2,\"cost_usd\":null,\"cost_usd_max\":null}"
#define DETAIL                                                                                     \
    "\"cache_read_tokens\":4,\"cache_write_tokens\":5,\"reasoning_tokens\":6,\"estimated\":true"

/* The members of each type, for an event that has every member set. */
static const char *const own_members[] = {
    [BL_EVENT_RUN_STARTED] = "\"prompt\":\"T\",\"provider\":\"p\",\"model\":\"m\"",
    [BL_EVENT_TURN_STARTED] = "\"prompt\":\"T\"",
    [BL_EVENT_TEXT_DELTA] = "\"text\":\"T\"",
    [BL_EVENT_THINKING_DELTA] = "\"text\":\"T\"",
    [BL_EVENT_TOOL_REQUESTED] = "\"id\":\"I\",\"name\":\"N\",\"input\":{\"j\":1}",
    [BL_EVENT_PERMISSION_ASKED] = "\"id\":\"I\",\"name\":\"N\",\"text\":\"T\"",
    [BL_EVENT_PERMISSION_ANSWERED] =
        "\"id\":\"I\",\"name\":\"N\",\"answer\":\"S\",\"reason\":\"T\"",
    [BL_EVENT_TOOL_STARTED] = "\"id\":\"I\",\"name\":\"N\"",
    [BL_EVENT_TOOL_OUTPUT] = "\"id\":\"I\",\"text\":\"T\"",
    [BL_EVENT_TOOL_ENDED] = "\"id\":\"I\",\"name\":\"N\",\"status\":\"S\",\"ms\":7,"
                            "\"input\":{\"j\":1},\"result\":\"T\"",
    [BL_EVENT_SUBAGENT_STARTED] = "\"id\":\"I\",\"name\":\"N\",\"child\":\"H\","
                                  "\"child_session\":\"O\",\"prompt\":\"T\"",
    [BL_EVENT_SUBAGENT_ENDED] =
        "\"id\":\"I\",\"name\":\"N\",\"child\":\"H\","
        "\"child_session\":\"O\",\"stop_reason\":\"S\",\"ms\":7," USAGE "," SPENT,
    [BL_EVENT_CELL_CREATED] = "\"id\":\"I\",\"cell\":\"C\"",
    [BL_EVENT_CELL_YIELDED] = "\"id\":\"I\",\"cell\":\"C\",\"generation\":2",
    [BL_EVENT_CELL_ENDED] = "\"id\":\"I\",\"cell\":\"C\",\"generation\":2,\"status\":\"S\","
                            "\"receipt\":{\"j\":1},\"output\":\"T\"",
    [BL_EVENT_CELL_SETTLED] = "\"id\":\"I\",\"cell\":\"C\",\"generation\":2,\"status\":\"S\","
                              "\"receipt\":{\"j\":1},\"output\":\"T\"",
    [BL_EVENT_MESSAGE_INJECTED] = "\"id\":\"I\",\"text\":\"T\",\"delivered\":\"S\"",
    [BL_EVENT_MESSAGE_UNDELIVERED] = "\"id\":\"I\",\"text\":\"T\"",
    [BL_EVENT_FINISH_REQUESTED] = "\"origin\":\"T\"",
    [BL_EVENT_COMPACTED] = "\"turns_dropped\":1",
    [BL_EVENT_RETRY] = "\"attempt\":1,\"of\":4,\"wait_ms\":9,\"code\":\"overloaded\","
                       "\"status\":529,\"discarded\":true",
    [BL_EVENT_USAGE] = USAGE "," SPENT "," DETAIL,
    [BL_EVENT_CANCEL_REQUESTED] = "\"reason\":\"N\",\"origin\":\"T\"",
    [BL_EVENT_RECEIPT] = "\"id\":\"I\",\"receipt\":{\"j\":1}",
    [BL_EVENT_TURN_ENDED] = "\"result\":{\"j\":1}",
    [BL_EVENT_RUN_ENDED] = "\"stop_reason\":\"N\",\"turns_completed\":1," USAGE "," SPENT,
    [BL_EVENT_WARNING] = "\"message\":\"T\"",
    [BL_EVENT_ERROR] = "\"error\":{\"kind\":\"session\",\"operation\":\"o\",\"target\":\"t\","
                       "\"retryable\":false,\"message\":\"m\",\"hint\":null}",
};

static const struct bl_piece piece = {
    .type = BL_PIECE_RETRY,
    .usage_detail = {.cache_read_tokens = 4, .cache_write_tokens = 5, .reasoning_tokens = 6},
    .estimated = true,
    .retry = {.attempt = 1, .of = 4, .wait_ms = 9, .status = 529, .code = "overloaded"}};
static const struct bl_usage usage = {1, 2};

static void check_written(const struct bl_event *event, const char *own)
{
    struct bl_json_writer writer;
    struct bl_buffer out;
    char expected[1024];

    snprintf(expected, sizeof expected,
             "{\"type\":\"%s\",\"seq\":5,\"time\":\"1970-01-01T00:00:00.000Z\",\"run\":\"run_a\","
             "\"session\":\"s\",\"agent\":null,\"turn\":null,%s}",
             bl_event_type_name(event->type), own);
    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_event_write(&writer, event);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append(&out, (struct bl_text){"", 1});
    assert_string_equal(bl_buffer_text(&out).data, expected);
    bl_buffer_done(&out);
}

static void every_event_has_the_common_members_and_its_own(void **state)
{
    struct bl_model model = {.provider = "p", .name = "m"};
    struct bl_spent spent = {.usage = {1, 2}, .cost_unknown = true};
    struct bl_error error = {0};

    (void)state;
    bl_error_set(&error, BL_EINVAL, BL_KIND_SESSION, "o", "t", "m");
    assert_int_equal(BL_COUNT(own_members), BL_EVENT_ERROR + 1);
    for (size_t i = 0; i < BL_COUNT(own_members); i++) {
        struct bl_event event = {.type = (enum bl_event_type)i,
                                 .seq = 5,
                                 .run = "run_a",
                                 .session = "s",
                                 .id = BL_TEXT("I"),
                                 .name = BL_TEXT("N"),
                                 .text = BL_TEXT("T"),
                                 .json = BL_TEXT("{\"j\":1}"),
                                 .nested = true,
                                 .status = "S",
                                 .child = "H",
                                 .child_session = "O",
                                 .cell = "C",
                                 .generation = 2,
                                 .ms = 7,
                                 .piece = &piece,
                                 .usage = &usage,
                                 .spent = &spent,
                                 .count = 1,
                                 .error = &error,
                                 .model = &model};
        check_written(&event, own_members[i]);
    }
}

static void missing_values_of_an_event_are_null_or_absent(void **state)
{
    static const struct bl_piece unanswered = {.type = BL_PIECE_RETRY,
                                               .retry = {.attempt = 1, .of = 4, .code = "network"}};
    static const struct {
        struct bl_event event;
        const char *own;
    } rows[] = {
        {{.type = BL_EVENT_RETRY, .piece = &unanswered},
         "\"attempt\":1,\"of\":4,\"wait_ms\":0,\"code\":\"network\",\"status\":null,"
         "\"discarded\":false"},
        {{.type = BL_EVENT_TOOL_ENDED, .text = BL_TEXT("T")},
         "\"id\":\"\",\"name\":\"\",\"status\":null,\"ms\":0"},
        {{.type = BL_EVENT_RUN_ENDED, .usage = &usage},
         "\"stop_reason\":\"\",\"turns_completed\":0," USAGE},
        {{.type = BL_EVENT_CELL_ENDED},
         "\"cell\":null,\"generation\":null,\"status\":null,\"receipt\":null"},
        {{.type = BL_EVENT_CELL_YIELDED, .generation = 1}, "\"cell\":null,\"generation\":1"},
        {{.type = BL_EVENT_RECEIPT}, "\"receipt\":null"},
        {{.type = BL_EVENT_TOOL_REQUESTED}, "\"id\":\"\",\"name\":\"\",\"input\":null"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_event event = rows[i].event;
        event.seq = 5;
        event.run = "run_a";
        event.session = "s";
        check_written(&event, rows[i].own);
    }
    assert_string_equal(bl_event_type_name((enum bl_event_type)BL_COUNT(own_members)), "unknown");
}

SCENE(deltas_and_output_are_emitted_but_not_stored)
{
    stage_line(stage, (struct line){.say = "hello", .tool = "work"});
    stage->commit_code = BL_EIO; /* refused events stay pending */
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

SCENE(store_is_not_called_without_pending_events)
{
    CHECK_EQUAL(bl_journal_note(&stage->journal, NULL), 0);
    CHECK_EQUAL(stage->noted, 0);
    bl_journal_emit(&stage->journal, &(struct bl_event){.type = BL_EVENT_WARNING});
    CHECK_EQUAL(bl_journal_note(&stage->journal, NULL), 0);
    CHECK_EQUAL(stage->noted, 1);
    CHECK_EQUAL(bl_journal_note(&stage->journal, NULL), 0);
    CHECK_EQUAL(stage->noted, 1);
    struct bl_error error = {0};
    stage->note_code = BL_EIO;
    bl_journal_emit(&stage->journal, &(struct bl_event){.type = BL_EVENT_WARNING});
    CHECK_EQUAL(bl_journal_note(&stage->journal, &error), BL_EIO);
    CHECK_EQUAL(error.code, BL_EIO);
    return 0;
}

SUITE(event, cmocka_unit_test(store_is_not_called_without_pending_events),
      cmocka_unit_test(every_event_has_the_common_members_and_its_own),
      cmocka_unit_test(missing_values_of_an_event_are_null_or_absent),
      cmocka_unit_test(deltas_and_output_are_emitted_but_not_stored));
