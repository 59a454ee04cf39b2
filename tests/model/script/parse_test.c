#include "recorder.h"

static void errors_and_tools_are_checked(void **state BL_UNUSED)
{
    refuse_script("replies: [{error: {}}]", "test.yaml:1:19: error needs a status or a code",
                  "529");
    refuse_script("replies: [{error: {status: 99}}]",
                  "test.yaml:1:28: error.status: expected a whole number from 100 to 599, found 99",
                  "");
    refuse_script(
        "replies: [{error: {status: 500, times: 0}}]",
        "test.yaml:1:40: error.times: expected a whole number from 1 to 1000000000, found 0", "");
    refuse_script(
        "replies: [{error: {code: overload}}]",
        "test.yaml:1:26: error.code: expected one of connect, dns, stream_cut, tls, redirect, "
        "bad_response, limit, first_byte, stall, server, rate_limited, overloaded, bad_request, "
        "not_found, auth, quota, context_overflow, refusal, found \"overload\"",
        "did you mean \"overloaded\"?");
    refuse_script("replies: [{error: {status: 500}, say: a}]",
                  "test.yaml:1:34: a reply with error cannot have say", "next reply");
    refuse_script("replies: [{tools: {name: a}}]",
                  "test.yaml:1:19: tools: expected a list, found a mapping", "");
    refuse_script("replies: [{tools: [{input: {}}]}]",
                  "test.yaml:1:20: name: missing; expected a string that is not empty", "");
    refuse_script("replies: [{tools: [{name: ''}]}]",
                  "test.yaml:1:27: name: expected a string that is not empty, found \"\"", "");
    refuse_script("replies: [{tools: [{name: a, id: ''}]}]",
                  "test.yaml:1:34: id: expected a string that is not empty, found \"\"", "");
    refuse_script("replies: [{tools: [{name: a, input: {}, input_text: '{}'}]}]",
                  "test.yaml:1:53: a tool has either input or input_text", "");
}

static void invalid_yaml_and_json_are_refused_with_the_position(void **state BL_UNUSED)
{
    refuse_script("replies:\n  - say: \"open\n",
                  "test.yaml:3:1: expected the closing quote, found the end near `replies:\\n  - "
                  "say: \"open\\n`",
                  "a script is YAML or JSON: {");
    struct bl_script *script;
    struct bl_error error = {0};
    assert_int_equal(bl_script_parse((struct bl_text){"name: \xff", 7}, "x", &script, &error),
                     BL_EPARSE);
    assert_non_null(strstr(error.message, "x:1:7: expected valid UTF-8"));
    error = (struct bl_error){0};
    assert_int_equal(
        bl_script_parse(BL_TEXT("replies: [{say: a}, {say: b, say: c}]"), "x", &script, &error),
        BL_EPARSE);
    assert_non_null(strstr(error.message, "x:1:30: expected a key that"));
    error = (struct bl_error){0};
    assert_int_equal(
        bl_script_parse(BL_TEXT("{\"repeat\": true, \"repeat\": true}"), "x", &script, &error),
        BL_EPARSE);
    assert_non_null(strstr(error.message, "expected a key that"));
}

static void aliases_do_not_multiply_inputs_beyond_measure(void **state BL_UNUSED)
{
    struct bl_buffer source;
    struct bl_script *script;
    struct bl_error error = {0};

    bl_buffer_init(&source, 8u << 20);
    bl_buffer_append(&source, BL_TEXT("name: &big \""));
    for (unsigned i = 0; i < 1u << 20; i++)
        bl_buffer_append_byte(&source, 'x');
    bl_buffer_append(&source, BL_TEXT("\"\nreplies:\n- tools:\n"));
    for (unsigned i = 0; i < 1000; i++)
        bl_buffer_append(&source, BL_TEXT("  - {name: *big, input: {a: *big}}\n"));
    assert_int_equal(bl_script_parse(bl_buffer_text(&source), "x", &script, &error), BL_EPARSE);
    assert_non_null(strstr(error.message, "the inputs of all tools exceed 64 MiB"));
    bl_buffer_done(&source);
}

static void replies_are_limited(void **state BL_UNUSED)
{
    struct bl_buffer source;
    struct bl_script *script;
    struct bl_error error = {0};

    bl_buffer_init(&source, 8u << 20);
    bl_buffer_append(&source, BL_TEXT("replies:\n"));
    for (unsigned i = 0; i < 10000; i++)
        bl_buffer_append(&source, BL_TEXT("- say: a\n"));
    assert_int_equal(bl_script_parse(bl_buffer_text(&source), "x", &script, NULL), 0);
    bl_script_free(script);
    bl_buffer_append(&source, BL_TEXT("- say: a\n"));
    assert_int_equal(bl_script_parse(bl_buffer_text(&source), "x", &script, &error), BL_EPARSE);
    assert_string_equal(error.message,
                        "x:2:1: replies: expected a list of 1 to 10000 replies, found 10001");
    bl_buffer_done(&source);
}

static void a_script_may_say_how_large_its_context_is(void **state BL_UNUSED)
{
    struct bl_model model;
    struct bl_script *script = script_of("context_window: 1000\nreplies: [{say: a}]");
    struct bl_script_player *player = bl_script_player_new(script, 1, &model);

    assert_int_equal(model.input_tokens_max, 1000);
    bl_script_player_free(player);
    bl_script_free(script);
    script = script_of("replies: [{say: a}]");
    player = bl_script_player_new(script, 1, &model);
    assert_int_equal(model.input_tokens_max, 0);
    bl_script_player_free(player);
    bl_script_free(script);
    refuse_script(
        "context_window: 0\nreplies: [{say: a}]",
        "test.yaml:1:17: context_window: expected a whole number from 1 to 1000000000, found 0",
        "a script is YAML");
    refuse_script("context_windows: 1\nreplies: [{say: a}]",
                  "test.yaml:1:1: unknown member \"context_windows\" in a script",
                  "did you mean \"context_window\"?");
}

static void a_script_may_accept_images(void **state BL_UNUSED)
{
    struct bl_model model;
    struct bl_script *script = script_of("images: true\nreplies: [{say: a, images: 1}]");
    struct bl_script_player *player = bl_script_player_new(script, 1, &model);

    assert_true(model.takes_images);
    bl_script_player_free(player);
    bl_script_free(script);
    script = script_of("replies: [{say: a}]");
    player = bl_script_player_new(script, 1, &model);
    assert_false(model.takes_images);
    bl_script_player_free(player);
    bl_script_free(script);
    refuse_script("images: 2\nreplies: [{say: a}]",
                  "test.yaml:1:9: images: expected true or false, found 2", "a script is YAML");
    refuse_script("replies: [{say: a, images: 21}]",
                  "test.yaml:1:28: images: expected a whole number from 0 to 20, found 21",
                  "a script is YAML");
}

static void json_and_yaml_make_the_same_script(void **state BL_UNUSED)
{
    static const char *const sources[] = {
        "name: n\nreplies:\n- say: hi\n  delay: 1.5\n  when: a\nrepeat: true\n",
        "{\"name\": \"n\", \"replies\": [{\"say\": \"hi\", \"delay\": \"1.5s\", \"when\": \"a\"}], "
        "\"repeat\": true}",
        "{name: n, replies: [{say: hi, delay: 1500ms, when: a}], repeat: true}",
    };
    for (size_t i = 0; i < BL_COUNT(sources); i++) {
        struct bl_script *script = script_of(sources[i]);
        assert_string_equal(bl_script_name(script), "n");
        bl_script_free(script);
    }
    struct bl_script *unnamed = script_of("replies: [{say: a}]");
    assert_string_equal(bl_script_name(unnamed), "test.yaml");
    bl_script_free(unnamed);
}

SUITE(script_parse, cmocka_unit_test(errors_and_tools_are_checked),
      cmocka_unit_test(invalid_yaml_and_json_are_refused_with_the_position),
      cmocka_unit_test(aliases_do_not_multiply_inputs_beyond_measure),
      cmocka_unit_test(replies_are_limited),
      cmocka_unit_test(a_script_may_say_how_large_its_context_is),
      cmocka_unit_test(a_script_may_accept_images),
      cmocka_unit_test(json_and_yaml_make_the_same_script));
