#include "stage.h"

static void round_trips_every_kind_of_block(void **state)
{
    static const char json[] =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi \xc3\xa9\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"hm\",\"opaque\":"
        "{\"signature\":\"x\"}},{\"type\":\"text\",\"text\":\"\"},{\"type\":\"tool_call\",\"id\":"
        "\"c1\",\"name\":\"bash\",\"input\":{\"command\":\"ls\",\"n\":1.5}},{\"type\":\"tool_"
        "call\","
        "\"id\":\"c2\",\"name\":\"bash\",\"input_text\":\"{\\\"a\",\"invalid\":\"cut\"}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"c1\",\"text\":\"out\","
        "\"is_error\":false},{\"type\":\"tool_result\",\"id\":\"c2\",\"text\":\"no\",\"is_error\":"
        "true}]}]";
    struct bl_arena arena;
    struct bl_list messages;
    struct bl_buffer out;
    struct bl_json_writer writer;

    (void)state;
    bl_arena_init(&arena);
    bl_list_init(&messages);
    assert_int_equal(bl_messages_read(&arena, bl_text_from(json), &messages), 0);
    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_messages_write(&writer, &messages);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    assert_true(bl_text_equal(bl_buffer_text(&out), bl_text_from(json)));
    bl_buffer_done(&out);
    bl_arena_done(&arena);
}

static void refuses_what_is_not_a_conversation(void **state)
{
    static const char *const broken[] = {
        "",
        "{}",
        "[1]",
        "[{\"role\":\"robot\",\"content\":[]}]",
        "[{\"role\":\"user\"}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"text\":\"x\"}]}]",
        "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"b\"}"
        "]}]",
        "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"b\","
        "\"input\":[1]}]}]"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(broken); i++) {
        struct bl_arena arena;
        struct bl_list messages;
        bl_arena_init(&arena);
        bl_list_init(&messages);
        assert_int_equal(bl_messages_read(&arena, bl_text_from(broken[i]), &messages), BL_EPARSE);
        assert_true(bl_list_empty(&messages));
        bl_arena_done(&arena);
    }
}

static void finds_the_newest_text_of_a_user(void **state)
{
    struct bl_session session;
    struct bl_list messages;
    struct bl_request request = {.session = &session, .messages = &messages};
    struct bl_turn_record *record = bl_turn_record_new();

    (void)state;
    bl_session_init(&session, "s");
    bl_list_init(&messages);
    assert_int_equal(bl_request_newest_text(&request).size, 0);
    assert_int_equal(
        bl_messages_read(
            &record->arena,
            BL_TEXT("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"old\"}]"
                    "},{\"role\":\"assistant\",\"content\":[]}]"),
            &record->messages),
        0);
    bl_session_add(&session, record);
    assert_true(bl_text_equal(bl_request_newest_text(&request), BL_TEXT("old")));
    assert_int_equal(
        bl_messages_read(
            &record->arena,
            BL_TEXT("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"new\"}]"
                    "},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":"
                    "\"c\",\"text\":\"x\",\"is_error\":false}]}]"),
            &messages),
        0);
    assert_true(bl_text_equal(bl_request_newest_text(&request), BL_TEXT("new")));
    bl_session_done(&session);
}

SUITE(conversation, cmocka_unit_test(round_trips_every_kind_of_block),
      cmocka_unit_test(refuses_what_is_not_a_conversation),
      cmocka_unit_test(finds_the_newest_text_of_a_user));
