#include "stage.h"

#define PNG  "iVBORw0KGgoAAAANSUhEUg=="
#define JPEG "/9j/4AAQSkZJRgABAQEASABI"

static void round_trips_every_kind_of_block(void **state)
{
    static const char json[] =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi \xc3\xa9\"},"
        "{\"type\":\"image\",\"media_type\":\"image/webp\",\"data\":\"AAAA\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"hm\",\"opaque\":"
        "{\"signature\":\"x\"}},{\"type\":\"text\",\"text\":\"\"},{\"type\":\"tool_call\",\"id\":"
        "\"c1\",\"name\":\"bash\",\"input\":{\"command\":\"ls\",\"n\":1.5}},{\"type\":\"tool_"
        "call\","
        "\"id\":\"c2\",\"name\":\"bash\",\"input_text\":\"{\\\"a\",\"invalid\":\"cut\"},{\"type\":"
        "\"tool_call\",\"id\":\"c3\",\"name\":\"\",\"input_text\":\"\",\"invalid\":\"no name\","
        "\"opaque\":null}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"c1\",\"text\":\"out\","
        "\"is_error\":false},{\"type\":\"tool_result\",\"id\":\"c2\",\"text\":\"no\",\"is_error\":"
        "true},{\"type\":\"image\",\"media_type\":\"image/png\",\"data\":\"" PNG
        "\",\"id\":\"c1\"}]}]";
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

#define CALL(input)                                                                                \
    "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":"         \
    "\"b\"," input "}]}]"

static void invalid_conversations_are_refused(void **state)
{
    static const char *const broken[] = {
        "",
        "{}",
        "[1]",
        "[{\"role\":\"robot\",\"content\":[]}]",
        "[{\"role\":\"user\"}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"video\"}]}]",
        "[{\"role\":\"user\",\"content\":[{}]}]",
        "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"name\":\"b\",\"input\":{}}"
        "]"
        "}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"media_type\":\"image/tiff\","
        "\"data\":\"AAAA\"}]}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"media_type\":\"image/png\","
        "\"data\":\"A AA\"}]}]",
        "[{\"role\":\"assistant\",\"content\":[{\"type\":\"image\",\"media_type\":\"image/png\","
        "\"data\":\"AAAA\"}]}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"text\":\"x\"}]}]",
        "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"b\"}"
        "]}]",
        "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"b\","
        "\"input\":[1]}]}]",
        CALL("\"input\":{},\"input_text\":\"{}\",\"invalid\":\"cut\""),
        CALL("\"input\":{},\"invalid\":\"cut\""),
        CALL("\"input_text\":\"{}\""),
        CALL("\"input\":{},\"text\":\"\""),
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"a\",\"text\":\"\"}]}"
        "]"};

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

/* ---- Images ---------------------------------------------------------------------------------- */

#define SIXTEEN "0123456789abcdef"

static void images_that_no_model_accepts_are_replaced_by_a_note(void **state BL_UNUSED)
{
    static char large[BL_IMAGE_SIZE_MAX + 5];
    static const struct {
        const char *type, *data, *problem, *note;
    } cases[] = {
        {"image/png", PNG, NULL, "[image image/png, 16 bytes]"},
        {"image/gif", "AAA=", NULL, "[image image/gif, 2 bytes]"},
        {"image/jpeg", "AA==", NULL, "[image image/jpeg, 1 bytes]"},
        {"~!", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image ~!, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"image/svg+xml", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image image/svg+xml, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image of unknown type, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"x]\n", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image of unknown type, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"]x", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image of unknown type, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"x]", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image of unknown type, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"\x7f", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image of unknown type, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {" x", "AAAA", "left out, models accept png, jpeg, gif and webp",
         "[image of unknown type, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"image/" SIXTEEN SIXTEEN SIXTEEN "abcdefghij", "AAAA",
         "left out, models accept png, jpeg, gif and webp",
         "[image image/" SIXTEEN SIXTEEN SIXTEEN
         "abcdefghij, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"image/" SIXTEEN SIXTEEN SIXTEEN "abcdefghijk", "AAAA",
         "left out, models accept png, jpeg, gif and webp",
         "[image of unknown type, 3 bytes: left out, models accept png, jpeg, gif and webp]"},
        {"image/png", "", "left out, invalid base64", NULL},
        {"image/png", "AAA", "left out, invalid base64", NULL},
        {"image/png", "A===", "left out, invalid base64",
         "[image image/png, 1 bytes: left out, invalid base64]"},
        {"image/png", "====", "left out, invalid base64", NULL},
        {"image/png", "AA\n=", "left out, invalid base64", NULL},
        {"image/png", "AA-_", "left out, invalid base64", NULL},
        {"image/webp", large + 4, NULL, "[image image/webp, 3.8 MiB]"},
        {"image/webp", large, "left out, larger than 5 MiB in base64",
         "[image image/webp, 3.8 MiB: left out, larger than 5 MiB in base64]"},
    };
    struct bl_arena arena;

    memset(large, 'A', sizeof large - 1);
    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_block image = {.name = bl_text_from(cases[i].type),
                                 .text = bl_text_from(cases[i].data)};
        const char *problem = bl_image_problem(&image);
        if (cases[i].problem == NULL)
            assert_null(problem);
        else
            assert_string_equal(problem, cases[i].problem);
        if (cases[i].note != NULL)
            assert_string_equal(bl_image_note(&arena, &image, problem).data, cases[i].note);
    }
    static const struct {
        size_t digits;
        const char *note;
    } sizes[] = {
        {1364, "[image image/png, 1023 bytes]"},  {1366, "[image image/png, 1 KiB]"},
        {1368, "[image image/png, 2 KiB]"},       {4096, "[image image/png, 3 KiB]"},
        {1398100, "[image image/png, 1024 KiB]"}, {1398102, "[image image/png, 1.0 MiB]"},
    };
    for (size_t i = 0; i < BL_COUNT(sizes); i++) {
        struct bl_block image = {.name = BL_TEXT("image/png"), .text = {large, sizes[i].digits}};
        assert_string_equal(bl_image_note(&arena, &image, NULL).data, sizes[i].note);
    }
    bl_arena_done(&arena);
}

struct pictures {
    struct bl_list list;
    struct bl_block blocks[24];
};

static void picture_add(struct pictures *pictures, size_t index, const char *type, const char *data)
{
    if (index == 0)
        bl_list_init(&pictures->list);
    pictures->blocks[index] = (struct bl_block){
        .type = BL_BLOCK_IMAGE, .name = bl_text_from(type), .text = bl_text_from(data)};
    bl_list_push_back(&pictures->list, &pictures->blocks[index].link);
}

/* One prompt with images. */
static void prompt_with(struct stage *stage, const struct pictures *pictures,
                        struct bl_run_result *result)
{
    struct bl_run_options options = {.run_id = "run_stage",
                                     .prompt = BL_TEXT("look"),
                                     .images = &pictures->list,
                                     .continues = true,
                                     .continuation = BL_TEXT("again"),
                                     .max_turns = 2};

    stage->last_seq = 0;
    stage_line(stage, (struct line){.say = "one"});
    stage_line(stage, (struct line){.say = "two"});
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, result);
    CHECK_EQUAL(result->turns_completed, 2);
}

SCENE(images_go_only_with_the_first_prompt_under_their_true_type)
{
    struct pictures pictures;
    struct bl_run_result result;

    stage->model.takes_images = true;
    picture_add(&pictures, 0, "image/png", PNG);
    picture_add(&pictures, 1, "image/png", JPEG);
    picture_add(&pictures, 2, "image/tiff", "AAAA");
    picture_add(&pictures, 3, "image/png", "R0lGODlhAQABAAAA");
    picture_add(&pictures, 4, "image/gif", "UklGRgAAAABXRUJQ");
    picture_add(&pictures, 5, "image/gif", "AAAAAAAAAAAAAAAA");
    picture_add(&pictures, 6, "image/gif", "iVBORw==");
    picture_add(&pictures, 7, "image/gif", "iVBORw0KGgoAAA==");
    prompt_with(stage, &pictures, &result);
    CHECK(
        has(bl_text_from(stage->turns[0].messages),
            "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"look\\n[image "
            "image/tiff, 3 bytes: left out, models accept png, jpeg, gif and webp]\"},"
            "{\"type\":\"image\",\"media_type\":\"image/png\",\"data\":\"" PNG "\"},"
            "{\"type\":\"image\",\"media_type\":\"image/jpeg\",\"data\":\"" JPEG "\"},"
            "{\"type\":\"image\",\"media_type\":\"image/gif\",\"data\":\"R0lGODlhAQABAAAA\"},"
            "{\"type\":\"image\",\"media_type\":\"image/webp\",\"data\":\"UklGRgAAAABXRUJQ\"},"
            "{\"type\":\"image\",\"media_type\":\"image/gif\",\"data\":\"AAAAAAAAAAAAAAAA\"},"
            /* Too short to show what they are. */
            "{\"type\":\"image\",\"media_type\":\"image/gif\",\"data\":\"iVBORw==\"},"
            "{\"type\":\"image\",\"media_type\":\"image/gif\",\"data\":\"iVBORw0KGgoAAA==\"}]},"));
    CHECK(!has(bl_text_from(stage->turns[1].messages), "image"));
    CHECK(has(bl_text_from(stage->turns[0].result), "\"prompt\":\"look\""));
    /* Memory has what was stored, independent of the owner of the bytes. */
    memset(&pictures, 0, sizeof pictures);
    CHECK(has(stage_memory(stage), JPEG));
    return 0;
}

SCENE(a_model_without_images_gets_a_note_in_the_prompt)
{
    struct pictures pictures;
    struct bl_run_result result;

    picture_add(&pictures, 0, "image/png", PNG);
    prompt_with(stage, &pictures, &result);
    CHECK(has(bl_text_from(stage->turns[0].messages),
              "\"content\":[{\"type\":\"text\",\"text\":\"look\\n[image image/png, 16 bytes: this "
              "model does not accept images]\"}]}"));
    return 0;
}

SCENE(a_message_has_twenty_images_at_most)
{
    struct pictures pictures;
    struct bl_run_result result;

    stage->model.takes_images = true;
    for (size_t i = 0; i < 22; i++)
        picture_add(&pictures, i, "image/png", PNG);
    prompt_with(stage, &pictures, &result);
    const struct bl_turn_record *record =
        BL_CONTAINER(stage->session.turns.next, struct bl_turn_record, link);
    const struct bl_message *message = BL_CONTAINER(record->messages.next, struct bl_message, link);
    size_t images = 0;
    BL_LIST_EACH (link, &message->blocks)
        images += BL_CONTAINER(link, struct bl_block, link)->type == BL_BLOCK_IMAGE;
    CHECK_EQUAL(images, 20);
    CHECK(
        has(bl_text_from(stage->turns[0].messages),
            "look\\n[image image/png, 16 bytes: left out, at most 20 images per message]\\n[image "
            "image/png, 16 bytes: left out, at most 20 images per message]\"}"));
    return 0;
}

/* Each call returns an image; the third call waits. */
static int show(struct stage *stage, const struct bl_tool_call *call, struct bl_tool_result *result,
                struct bl_error *error BL_UNUSED)
{
    struct pictures *pictures = bl_arena_alloc(call->arena, sizeof *pictures);
    bool waits = stage->tool_calls == 3;

    picture_add(pictures, 0, "image/png", PNG);
    result->text = stage->extra != NULL ? bl_text_from(stage->extra)
                                        : bl_arena_printf(call->arena, "shown by %s", call->id);
    result->images = &pictures->list;
    return waits ? bl_sleep(60 * BL_NS_PER_S) : 0;
}

#define RESULT_OF(id, error)                                                                       \
    "{\"type\":\"tool_result\",\"id\":\"" id "\",\"text\":\"shown by " id "\",\"is_error\":" error \
    "}"
#define IMAGE_OF(id)                                                                               \
    "{\"type\":\"image\",\"media_type\":\"image/png\",\"data\":\"" PNG "\",\"id\":\"" id "\"}"

SCENE(images_of_results_follow_all_results)
{
    stage->model.takes_images = true;
    stage->on_call = show;
    stage_line(stage, (struct line){.tool = "work", .calls = 2});
    stage_line(stage, (struct line){.say = "done"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK(has(bl_text_from(stage->turns[0].messages),
              "{\"role\":\"user\",\"content\":[" RESULT_OF("call_1_0", "false") "," RESULT_OF(
                  "call_1_1", "false") "," IMAGE_OF("call_1_0") "," IMAGE_OF("call_1_1") "]}"));
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(a_model_without_images_gets_a_note_in_the_result)
{
    stage->on_call = show;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "done"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK(has(bl_text_from(stage->turns[0].messages),
              "\"text\":\"shown by call_1_0\\n[image image/png, 16 bytes: this model does not "
              "accept images]\","));
    CHECK(!has(bl_text_from(stage->turns[0].messages), "\"image\""));
    static char *const printed[] = {"", "a line\n"};
    static const char *const results[] = {"\"text\":\"[image ", "\"text\":\"a line\\n[image "};
    for (size_t i = 0; i < BL_COUNT(printed); i++) {
        stage->extra = printed[i];
        stage_line(stage, (struct line){.tool = "work"});
        stage_line(stage, (struct line){.say = "done"});
        CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
        CHECK(has(bl_text_from(stage->turns[i + 1].messages), results[i]));
    }
    return 0;
}

SCENE(images_of_an_interrupted_turn_are_kept)
{
    struct stopper stopper;

    stage->model.takes_images = true;
    stage->engine.limits.keep = true;
    stage->on_call = show;
    stage_line(stage, (struct line){.tool = "work", .calls = 4});
    stop_after(&stopper, stage, 10 * MS, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK(result->interrupted);
    CHECK(has(bl_text_from(stage->turns[0].messages),
              RESULT_OF("call_1_2", "true") ",{\"type\":\"tool_result\",\"id\":\"call_1_3\","));
    CHECK(has(bl_text_from(stage->turns[0].messages),
              "\"is_error\":true}," IMAGE_OF("call_1_0") "," IMAGE_OF("call_1_1") "," IMAGE_OF(
                  "call_1_2") "]}"));
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SUITE(conversation, cmocka_unit_test(round_trips_every_kind_of_block),
      cmocka_unit_test(invalid_conversations_are_refused),
      cmocka_unit_test(finds_the_newest_text_of_a_user),
      cmocka_unit_test(images_that_no_model_accepts_are_replaced_by_a_note),
      cmocka_unit_test(images_go_only_with_the_first_prompt_under_their_true_type),
      cmocka_unit_test(a_model_without_images_gets_a_note_in_the_prompt),
      cmocka_unit_test(a_message_has_twenty_images_at_most),
      cmocka_unit_test(images_of_results_follow_all_results),
      cmocka_unit_test(a_model_without_images_gets_a_note_in_the_result),
      cmocka_unit_test(images_of_an_interrupted_turn_are_kept));
