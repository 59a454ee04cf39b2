#include "recorder.h"

static void scene_init(struct asking *scene)
{
    asking_init(scene, &model_api_openai, "test", "[]");
}

static void write_list(const struct bl_list *messages, struct bl_buffer *out)
{
    struct bl_json_writer writer;
    bl_json_writer_init(&writer, out);
    bl_messages_write(&writer, messages);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append_byte(out, '\0');
}

static void expect_sent(struct asking *scene, const char *json)
{
    struct bl_buffer before, sent, after;
    struct bl_list list;
    bl_buffer_init(&before, 1u << 20);
    bl_buffer_init(&sent, 1u << 20);
    bl_buffer_init(&after, 1u << 20);
    write_list(&scene->messages, &before);
    model_conversation(&scene->build, &list);
    write_list(&list, &sent);
    assert_string_equal(sent.data, json);
    /* The original is unchanged. */
    write_list(&scene->messages, &after);
    assert_string_equal(before.data, after.data);
    bl_buffer_done(&before);
    bl_buffer_done(&sent);
    bl_buffer_done(&after);
}

#define SAID(role, text)                                                                           \
    "{\"role\":\"" role "\",\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]}"
#define ANSWER(blocks) "{\"role\":\"assistant\",\"content\":[" blocks "]}"
#define USER(blocks)   "{\"role\":\"user\",\"content\":[" blocks "]}"
#define TEXT(text)     "{\"type\":\"text\",\"text\":\"" text "\"}"
#define CALL(id)       "{\"type\":\"tool_call\",\"id\":\"" id "\",\"name\":\"x\",\"input\":{\"a\":1}}"
#define RESULT(id, text)                                                                           \
    "{\"type\":\"tool_result\",\"id\":\"" id "\",\"text\":\"" text "\",\"is_error\":false}"
#define CUT(id)                                                                                    \
    "{\"type\":\"tool_result\",\"id\":\"" id                                                       \
    "\",\"text\":\"No result: the call was cut off.\",\"is_error\":true}"

static void turns_that_are_not_skipped_come_first(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene);
    asking_add_turn(&scene, "[" SAID("user", "one") "," SAID("assistant", "1") "]");
    asking_add_turn(&scene, "[" SAID("user", "two") "," SAID("assistant", "2 ") "]");
    asking_add(&scene, "[" SAID("user", "three") "]");
    scene.request.turns_skipped = 1;
    expect_sent(&scene,
                "[" SAID("user", "two") "," SAID("assistant", "2 ") "," SAID("user", "three") "]");
    scene.request.turns_skipped = 9;
    expect_sent(&scene, "[" SAID("user", "three") "]");
    scene.request.session = NULL;
    expect_sent(&scene, "[" SAID("user", "three") "]");
    asking_done(&scene);
}

static void a_summary_is_one_message_with_the_prompt_that_follows_it(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene);
    asking_sum_up(&scene);
    asking_add(&scene, "[" SAID("user", "four") "]");
    expect_sent(&scene, "[" USER(TEXT("So far: one and two.") "," TEXT("three")) "," SAID(
                            "assistant", "3") "," SAID("user", "four") "]");
    assert_int_equal(model_request_bytes(&scene.request), 20 + 5 + 1 + 4);
    scene.request.turns_skipped = 3;
    expect_sent(&scene, "[" USER(TEXT("So far: one and two.") "," TEXT("four")) "]");
    scene.request.summary = NULL;
    expect_sent(&scene, "[" SAID("user", "four") "]");
    asking_done(&scene);
}

static uint64_t input_max(enum bl_api api, const struct bl_profile *profile)
{
    struct bl_provider provider = {.name = "there", .api = api, .base_url = "http://127.0.0.1:9"};
    struct bl_remote_options options = {.provider = &provider, .profile = profile};
    struct bl_remote *remote;
    struct bl_model model;
    struct bl_error error = {0};

    assert_int_equal(bl_remote_new(&options, &remote, &model, &error), 0);
    bl_remote_free(remote);
    return model.input_tokens_max;
}

static void room_for_the_answer_is_kept_in_the_context(void **state BL_UNUSED)
{
    static const struct {
        enum bl_api api;
        struct bl_profile profile;
        uint64_t tokens;
    } cases[] = {
        {BL_API_ANTHROPIC, {.model = "m"}, 0},
        {BL_API_ANTHROPIC, {.model = "m", .context_window = 200000}, 200000 - 8192},
        {BL_API_ANTHROPIC,
         {.model = "m", .context_window = 200000, .max_output_tokens = 64000},
         136000},
        {BL_API_OPENAI, {.model = "m", .context_window = 100000}, 100000 - 8192},
        {BL_API_OPENAI, {.model = "m", .context_window = 9001, .max_output_tokens = 9000}, 4501},
        {BL_API_OPENAI_RESPONSES, {.model = "m", .context_window = 2}, 1},
        {BL_API_OLLAMA, {.model = "m", .num_ctx = 32768}, 32768 - 8192},
        {BL_API_OLLAMA, {.model = "m", .num_ctx = 8192, .context_window = 32768}, 4096},
        {BL_API_OPENAI, {.model = "m", .num_ctx = 8192}, 0},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++)
        assert_int_equal(input_max(cases[i].api, &cases[i].profile), cases[i].tokens);
}

static void empty_texts_and_messages_are_left_out(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene);
    asking_add(&scene,
               "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"},"
               "{\"type\":\"text\",\"text\":\" go \"}]},"
               "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"\"}]},"
               "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\" \\n\"}]}]");
    expect_sent(&scene, "[" SAID("user", " go ") "]");
    asking_done(&scene);
}

static void only_an_answer_to_continue_loses_its_white_space(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene);
    asking_add(&scene, "[" SAID("user", "a ") "," SAID("assistant", " b \\n ") "]");
    expect_sent(&scene, "[" SAID("user", "a ") "," SAID("assistant", " b") "]");
    asking_add(&scene, "[" SAID("user", "c ") "]");
    expect_sent(&scene,
                "[" SAID("user", "a ") "," SAID("assistant", " b \\n ") "," SAID("user", "c ") "]");
    asking_done(&scene);
}

static void every_call_has_exactly_one_result_in_its_order(void **state BL_UNUSED)
{
    static const char turn[] =
        "[" SAID("user", "go") "," ANSWER(CALL("a") "," CALL("b") "," CALL("c")) "," USER(
            TEXT("and") "," RESULT("c", "3") "," RESULT("a", "1") "," RESULT(
                "a", "again") "," RESULT("z", "of nothing")) "]";
    static const char sent[] =
        "[" SAID("user", "go") "," ANSWER(CALL("a") "," CALL("b") "," CALL("c")) "," USER(RESULT(
            "a", "1") "," CUT("b") "," RESULT("c", "3") "," TEXT("and") "," TEXT("more")) "]";
    struct asking scene;
    scene_init(&scene);
    asking_add_turn(&scene, turn);
    asking_add(&scene, "[" SAID("user", "more") "]");
    expect_sent(&scene, sent);
    asking_done(&scene);
}

static void a_call_at_the_very_end_gets_a_result(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene);
    asking_add(&scene, "[" SAID("user", "go") "," ANSWER(CALL("a")) "]");
    expect_sent(&scene, "[" SAID("user", "go") "," ANSWER(CALL("a")) "," USER(CUT("a")) "]");
    asking_done(&scene);
}

/* A result has the name of its tool, which some formats need. */
static void a_result_knows_the_name_of_its_tool(void **state BL_UNUSED)
{
    struct asking scene;
    struct bl_list list;
    scene_init(&scene);
    asking_add(&scene, "[" SAID("user", "go") "," ANSWER(CALL("a")) "," USER(RESULT("a", "1")) "]");
    model_conversation(&scene.build, &list);
    const struct bl_message *last = BL_CONTAINER(list.previous, struct bl_message, link);
    const struct bl_block *result = BL_CONTAINER(last->blocks.next, struct bl_block, link);
    assert_true(bl_text_equal(result->name, BL_TEXT("x")));
    asking_done(&scene);
}

static void an_invalid_call_is_sent_back_as_a_valid_one(void **state BL_UNUSED)
{
    struct asking scene;
    struct bl_list list;
    scene_init(&scene);
    asking_add(
        &scene,
        "[" SAID("user", "go") ",{\"role\":\"assistant\",\"content\":["
                               "{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"\","
                               "\"input_text\":\"{\\\"a\",\"invalid\":\"cut\"},"
                               "{\"type\":\"tool_call\",\"id\":\"b\",\"name\":\"x\","
                               "\"input_text\":\"{\\\"a\\\":1}\",\"invalid\":\"no fit\"}]}]");
    model_conversation(&scene.build, &list);
    const struct bl_message *answer = BL_CONTAINER(list.next->next, struct bl_message, link);
    const struct bl_block *a = BL_CONTAINER(answer->blocks.next, struct bl_block, link);
    const struct bl_block *b = BL_CONTAINER(answer->blocks.previous, struct bl_block, link);
    assert_true(bl_text_equal(a->input, BL_TEXT("{}")));
    assert_true(bl_text_equal(a->name, BL_TEXT("unknown")));
    assert_true(bl_text_equal(b->input, BL_TEXT("{\"a\":1}")));
    asking_done(&scene);
}

static void an_empty_conversation_is_empty(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene);
    expect_sent(&scene, "[]");
    scene.request.messages = NULL;
    struct bl_list list;
    model_conversation(&scene.build, &list);
    assert_true(bl_list_empty(&list));
    assert_int_equal(model_request_bytes(&scene.request), 0);
    asking_done(&scene);
}

static void all_text_that_is_sent_is_counted(void **state BL_UNUSED)
{
    static const struct bl_tool_offer tools[] = {{"abc", "de", {"{}", 2}, NULL, false},
                                                 {"f", NULL, {NULL, 0}, NULL, false}};
    struct asking scene;
    scene_init(&scene);
    asking_add_turn(&scene, "[" SAID("user", "12345") "]");
    asking_add_turn(&scene, "[" SAID("user", "123") "]");
    asking_add(&scene,
               "[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"12\","
               "\"opaque\":[1]}," CALL("id") "]}]");
    scene.request.system = BL_TEXT("sys");
    scene.request.schema = BL_TEXT("{ }");
    scene.request.tools = tools;
    scene.request.tool_count = 2;
    assert_int_equal(model_request_bytes(&scene.request), 3 + 3 + 8 + 8 + 2 + 3 + 2 + 1 + 7);
    scene.request.turns_skipped = 1;
    assert_int_equal(model_request_bytes(&scene.request), 3 + 3 + 8 + 3 + 2 + 3 + 2 + 1 + 7);
    asking_done(&scene);
}

#define IMAGE(data, more)                                                                          \
    "{\"type\":\"image\",\"media_type\":\"image/png\",\"data\":\"" data "\"" more "}"
#define UNTAKEN "[image image/png, 3 bytes: this model does not accept images]"

static void images_are_text_for_a_model_without_images(void **state BL_UNUSED)
{
    static const struct {
        enum bl_api api;
        struct bl_profile profile;
        bool takes;
    } cases[] = {
        {BL_API_ANTHROPIC, {.model = "m"}, true},
        {BL_API_OPENAI, {.model = "m"}, true},
        {BL_API_OPENAI_RESPONSES, {.model = "m"}, true},
        {BL_API_OLLAMA, {.model = "m"}, false},
        {BL_API_OLLAMA, {.model = "m", .images_chosen = true, .images = true}, true},
        {BL_API_ANTHROPIC, {.model = "m", .images_chosen = true}, false},
    };
    struct asking scene;

    for (size_t i = 0; i < BL_COUNT(cases); i++)
        assert_int_equal(model_takes_images(cases[i].api, &cases[i].profile), cases[i].takes);
    scene_init(&scene);
    asking_add_turn(&scene,
                    "[" USER(TEXT("look") "," IMAGE("AAAA", "")) "," SAID("assistant", "1") "]");
    asking_add(&scene, "[" SAID("user", "go") "," ANSWER(CALL("a")) "," USER(
                           RESULT("a", "1") "," IMAGE("AAAA", ",\"id\":\"a\"")) "]");
    scene.profile.images_chosen = true;
    expect_sent(
        &scene,
        "[" USER(TEXT("look") "," TEXT(UNTAKEN)) "," SAID("assistant", "1") "," SAID(
            "user", "go") "," ANSWER(CALL("a")) "," USER(RESULT("a", "1") "," TEXT(UNTAKEN)) "]");
    asking_done(&scene);
}

/* Adds `count` messages of the user, each with one image of `size` bytes, with answers between
 * them. */
static void add_images(struct asking *scene, unsigned count, size_t size)
{
    char *data = bl_alloc(size);

    memset(data, 'A', size);
    for (unsigned i = 0; i < count; i++) {
        struct bl_message *message = bl_message_add(&scene->arena, &scene->messages, BL_ROLE_USER);
        struct bl_block *image = bl_block_add(&scene->arena, message, BL_BLOCK_IMAGE);
        image->name = BL_TEXT("image/png");
        image->text = bl_arena_text(&scene->arena, (struct bl_text){data, size});
        message = bl_message_add(&scene->arena, &scene->messages, BL_ROLE_ASSISTANT);
        bl_block_add(&scene->arena, message, BL_BLOCK_TEXT)->text = BL_TEXT("ok");
    }
    bl_free(data);
}

static void expect_newest_images(unsigned count, size_t size, unsigned sent)
{
    struct asking scene;
    struct model_images images = {0};
    struct bl_list list;
    unsigned number = 0;

    scene_init(&scene);
    add_images(&scene, count, size);
    scene.build.sent = &images;
    model_conversation(&scene.build, &list);
    assert_int_equal(images.count, sent);
    BL_LIST_EACH (link, &list) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        const struct bl_block *block = BL_CONTAINER(message->blocks.next, struct bl_block, link);
        if (message->role != BL_ROLE_USER)
            continue;
        bool kept = number++ >= count - sent;
        assert_int_equal(block->type, kept ? BL_BLOCK_IMAGE : BL_BLOCK_TEXT);
        if (!kept)
            assert_true(
                bl_text_ends_with(block->text, BL_TEXT(": left out in favour of newer images]")));
    }
    assert_int_equal(number, count);
    assert_int_equal(model_request_bytes(&scene.request), count * (1600 * 4 + 2));
    asking_done(&scene);
}

static void the_newest_images_are_sent_as_far_as_a_request_holds_them(void **state BL_UNUSED)
{
    expect_newest_images(3, 4, 3);
    expect_newest_images(105, 4, 100);
    expect_newest_images(6, BL_IMAGE_SIZE_MAX, 4);
}

static void the_instruction_holds_the_schema(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene);
    assert_int_equal(model_schema_instruction(&scene.arena, &scene.request).size, 0);
    scene.request.schema = BL_TEXT("{\"type\":\"array\"}");
    assert_true(bl_text_ends_with(model_schema_instruction(&scene.arena, &scene.request),
                                  BL_TEXT(":\n{\"type\":\"array\"}")));
    asking_done(&scene);
}

static void a_prompt_of_one_character_is_sent_in_every_format(void **state BL_UNUSED)
{
    static const struct model_api *const apis[] = {&model_api_anthropic, &model_api_openai,
                                                   &model_api_openai_responses, &model_api_ollama};
    struct asking asking;

    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        asking_init(&asking, apis[i], "test", ASKED_TEXT("?"));
        assert_true(asking_has(&asking, "\"?\""));
        asking_done(&asking);
    }
}

SUITE(request, cmocka_unit_test(turns_that_are_not_skipped_come_first),
      cmocka_unit_test(a_summary_is_one_message_with_the_prompt_that_follows_it),
      cmocka_unit_test(room_for_the_answer_is_kept_in_the_context),
      cmocka_unit_test(empty_texts_and_messages_are_left_out),
      cmocka_unit_test(only_an_answer_to_continue_loses_its_white_space),
      cmocka_unit_test(every_call_has_exactly_one_result_in_its_order),
      cmocka_unit_test(a_call_at_the_very_end_gets_a_result),
      cmocka_unit_test(a_result_knows_the_name_of_its_tool),
      cmocka_unit_test(an_invalid_call_is_sent_back_as_a_valid_one),
      cmocka_unit_test(an_empty_conversation_is_empty),
      cmocka_unit_test(all_text_that_is_sent_is_counted),
      cmocka_unit_test(images_are_text_for_a_model_without_images),
      cmocka_unit_test(the_newest_images_are_sent_as_far_as_a_request_holds_them),
      cmocka_unit_test(a_prompt_of_one_character_is_sent_in_every_format),
      cmocka_unit_test(the_instruction_holds_the_schema));
