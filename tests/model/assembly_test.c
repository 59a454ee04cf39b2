#include "recorder.h"

#include <stdio.h>

/* An answer being assembled, and its sink. */
struct scene {
    struct bl_arena arena;
    struct bl_session session;
    struct bl_list messages;
    struct bl_request request;
    struct bl_price price;
    struct recorder recorder;
    struct model_assembly assembly;
};

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){0};
    bl_arena_init(&scene->arena);
    bl_session_init(&scene->session, "test");
    bl_list_init(&scene->messages);
    recorder_init(&scene->recorder);
    scene->request = (struct bl_request){.session = &scene->session, .messages = &scene->messages};
    model_assembly_init(&scene->assembly, &scene->arena, &scene->request, &scene->price,
                        &scene->recorder.sink);
}

static void scene_done(struct scene *scene)
{
    model_assembly_done(&scene->assembly);
    recorder_done(&scene->recorder);
    bl_session_done(&scene->session);
    bl_arena_done(&scene->arena);
}

static void expect(struct scene *scene, const char *log)
{
    assert_string_equal(recorder_log(&scene->recorder), log);
    bl_buffer_clear(&scene->recorder.log);
}

static const struct bl_text nothing;

static struct model_call *new_call(struct scene *scene, const char *id, const char *name)
{
    struct model_call *call;
    assert_int_equal(model_call_new(&scene->assembly, bl_text_from(id), bl_text_from(name), &call),
                     0);
    return call;
}

static void input(struct scene *scene, struct model_call *call, const char *piece)
{
    assert_int_equal(model_call_input(&scene->assembly, call, bl_text_from(piece)), 0);
}

static void calls_are_reported_in_order_and_end_once(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    assert_int_equal(model_tell_text(&scene.assembly, BL_TEXT("hm")), 0);
    struct model_call *a = new_call(&scene, "a", "first"), *b = new_call(&scene, "b", "second");
    input(&scene, b, "{\"x\"");
    input(&scene, a, "");
    input(&scene, b, ":1}");
    assert_int_equal(model_call_end(&scene.assembly, a), 0);
    assert_int_equal(model_call_end(&scene.assembly, a), 0);
    input(&scene, a, "too late");
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_END), 0);
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_END), 0);
    expect(&scene, "text hm\nbegin 0 a first\nbegin 1 b second\ndelta 1 {\"x\"\ndelta 1 :1}\n"
                   "end 0 {}\nend 1 {\"x\":1}\nusage 1 3 estimated\nstop tool_calls\n");
    assert_true(scene.assembly.finished);
    assert_int_equal(scene.assembly.end, BL_ANSWER_TOOL_CALLS);
    scene_done(&scene);
}

static void a_call_is_reported_once_it_has_a_name(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    struct model_call *late = new_call(&scene, "a", ""), *named = new_call(&scene, "b", "get_");
    input(&scene, late, "{");
    expect(&scene, "begin 0 b get_\n");
    /* Too late to change the name: the call was reported. */
    assert_int_equal(model_call_name(&scene.assembly, named, BL_TEXT("weather")), 0);
    assert_int_equal(model_call_name(&scene.assembly, late, nothing), 0);
    assert_int_equal(model_call_name(&scene.assembly, late, BL_TEXT("read")), 0);
    assert_int_equal(model_call_name(&scene.assembly, late, BL_TEXT("read")), 0);
    assert_int_equal(model_call_name(&scene.assembly, late, BL_TEXT("_it")), 0);
    assert_int_equal(model_call_name(&scene.assembly, late, BL_TEXT("read_it_all")), 0);
    input(&scene, late, "}");
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_TOOL_CALLS), 0);
    expect(&scene, "begin 1 a read_it_all\ndelta 1 {\ndelta 1 }\nend 1 {}\nend 0 {}\n"
                   "usage 1 1 estimated\nstop tool_calls\n");
    scene_done(&scene);
}

static void a_call_without_a_name_is_invalid(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    input(&scene, new_call(&scene, "a", ""), "{}");
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_END), 0);
    expect(&scene, "begin 0 a \ndelta 0 {}\nend 0 {} (it does not name a tool)\n"
                   "usage 1 1 estimated\nstop tool_calls\n");
    scene_done(&scene);
}

static void add_call_block(struct bl_arena *arena, struct bl_list *messages, const char *id)
{
    struct bl_message *message = bl_message_add(arena, messages, BL_ROLE_ASSISTANT);
    struct bl_block *block = bl_block_add(arena, message, BL_BLOCK_CALL);
    block->id = bl_text_from(id);
}

static void ids_are_unique_in_the_conversation(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    struct bl_turn_record *record = bl_turn_record_new();
    add_call_block(&record->arena, &record->messages, "call_1");
    bl_session_add(&scene.session, record);
    add_call_block(&scene.arena, &scene.messages, "call_2");
    struct bl_turn_record *summary = bl_turn_record_new();
    add_call_block(&summary->arena, &summary->messages, "call_summed_up");
    scene.request.summary = summary;
    static const struct {
        const char *server, *ours;
    } ids[] = {
        {"", "call_3"},       {"call_0", "call_0"},         {"call_0", "call_4"},
        {"call_1", "call_5"}, {"call_2", "call_6"},         {"", "call_7"},
        {"toolu", "toolu"},   {"call_summed_up", "call_8"},
    };
    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        struct model_call *call = new_call(&scene, ids[i].server, "x");
        assert_true(bl_text_equal(call->id, bl_text_from(ids[i].ours)));
        assert_true(bl_text_equal(call->server_id, bl_text_from(ids[i].server)));
    }
    bl_turn_record_free(summary);
    scene_done(&scene);
}

static void P25_arguments_cut_at_any_byte_are_invalid(void **state BL_UNUSED)
{
    static const char whole[] = "{\"a\":[1,\"\\u00e4\\n\",null],\"b\":{\"c\":-1.5e3}}";

    for (size_t size = 0; size <= strlen(whole); size++) {
        struct scene scene;
        scene_init(&scene);
        struct model_call *call = new_call(&scene, "a", "write");
        assert_int_equal(model_call_input(&scene.assembly, call, (struct bl_text){whole, size}), 0);
        assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_MAX_TOKENS), 0);
        bool invalid = strstr(recorder_log(&scene.recorder), "(its input is cut off") != NULL;
        assert_int_equal(invalid, size < strlen(whole));
        scene_done(&scene);
    }
}

static void an_input_must_be_one_object(void **state BL_UNUSED)
{
    static const struct {
        const char *input, *log;
    } cases[] = {
        {"[1]", "[1] (its input is not a JSON object but of type array)"},
        {"null", "null (its input is not a JSON object but of type null)"},
        {" \n", "{}"},
        {" {} ", " {} "},
        {"{} {}", "{} {} (its input is cut off or is not JSON: offset 3 (line 1, column 4): "
                  "expected the end, found '{' near `{} {}`)"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct scene scene;
        char line[256];
        scene_init(&scene);
        input(&scene, new_call(&scene, "a", "x"), cases[i].input);
        bl_buffer_clear(&scene.recorder.log);
        assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_END), 0);
        snprintf(line, sizeof line, "end 0 %s\n", cases[i].log);
        if (strstr(recorder_log(&scene.recorder), line) != scene.recorder.log.data)
            fail_msg("%s: %s", cases[i].input, recorder_log(&scene.recorder));
        scene_done(&scene);
    }
}

static void the_authoritative_input_replaces_the_pieces(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    struct model_call *goes_on = new_call(&scene, "a", "x"), *differs = new_call(&scene, "b", "y");
    input(&scene, goes_on, "{\"a\"");
    input(&scene, differs, "{\"b");
    bl_buffer_clear(&scene.recorder.log);
    assert_int_equal(model_call_replace(&scene.assembly, goes_on, BL_TEXT("{\"a\":1}")), 0);
    assert_int_equal(model_call_replace(&scene.assembly, differs, BL_TEXT("{\"c\":2}")), 0);
    assert_int_equal(model_call_end(&scene.assembly, goes_on), 0);
    assert_int_equal(model_call_end(&scene.assembly, differs), 0);
    assert_int_equal(model_call_replace(&scene.assembly, differs, BL_TEXT("{}")), 0);
    expect(&scene, "delta 0 :1}\nend 0 {\"a\":1}\nend 1 {\"c\":2}\n");
    scene_done(&scene);
}

static void P14_more_calls_or_larger_arguments_than_the_limit_fail(void **state BL_UNUSED)
{
    struct scene scene;
    struct model_call *call;
    scene_init(&scene);
    for (unsigned i = 0; i < MODEL_CALLS_MAX; i++)
        new_call(&scene, "", "x");
    assert_int_equal(model_call_new(&scene.assembly, nothing, BL_TEXT("x"), &call), BL_EIO);
    assert_string_equal(scene.assembly.failure.code, "limit");
    scene_done(&scene);

    scene_init(&scene);
    call = new_call(&scene, "", "x");
    char *much = bl_zalloc(MODEL_ARGUMENTS_MAX);
    memset(much, ' ', MODEL_ARGUMENTS_MAX);
    struct bl_text text = {much, MODEL_ARGUMENTS_MAX};
    scene.recorder.log.maximum = 0;
    assert_int_equal(model_call_input(&scene.assembly, call, text), 0);
    assert_int_equal(model_call_input(&scene.assembly, call, BL_TEXT("}")), BL_EIO);
    assert_string_equal(scene.assembly.failure.code, "limit");
    assert_int_equal(scene.assembly.failure.retry_after_ms, -1);
    assert_int_equal(scene.assembly.failure.should_retry, -1);
    assert_int_equal(model_call_replace(&scene.assembly, call, BL_TEXT("{}")), 0);
    bl_free(much);
    scene_done(&scene);
}

static void P27_usage_replaces_and_has_its_cost(void **state BL_UNUSED)
{
    struct scene scene;
    struct bl_usage usage = {100, 1};
    struct bl_usage_detail detail = {60, 20, 0};
    scene_init(&scene);
    scene.price = (struct bl_price){.known = true,
                                    .input = 1000000,
                                    .output = 3000000,
                                    .cache_read = 100000,
                                    .cache_write = 2000000};
    assert_int_equal(model_tell_usage(&scene.assembly, &usage, &detail), 0);
    expect(&scene, "usage 100 1 cache 60 20 cost 69.000000\n");
    /* A repeated usage is not reported, and does not count as activity. */
    scene.assembly.meaningful = false;
    assert_int_equal(model_tell_usage(&scene.assembly, &usage, &detail), 0);
    expect(&scene, "");
    assert_false(scene.assembly.meaningful);
    usage.output_tokens = 9;
    detail.reasoning_tokens = 4;
    assert_int_equal(model_tell_usage(&scene.assembly, &usage, &detail), 0);
    assert_true(scene.assembly.meaningful);
    expect(&scene, "usage 100 9 cache 60 20 reasoning 4 cost 93.000000\n");
    /* Earlier requests of an answer that paused are included. */
    scene.price.long_above = 105;
    scene.price.long_input = scene.price.long_output = 2;
    scene.assembly.usage_before = (struct bl_usage){10, 10};
    scene.assembly.usage_detail_before = (struct bl_usage_detail){1, 2, 3};
    usage.output_tokens = 10;
    assert_int_equal(model_tell_usage(&scene.assembly, &usage, &detail), 0);
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_END), 0);
    expect(&scene, "usage 110 20 cache 61 22 reasoning 7 cost 137.100000\nstop end\n");
    scene_done(&scene);
}

static void P28_missing_usage_is_estimated_and_never_zero(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_END), 0);
    expect(&scene, "usage 1 1 estimated\nstop end\n");
    scene_done(&scene);

    scene_init(&scene);
    scene.request.system = BL_TEXT("12345");
    assert_int_equal(model_tell_text(&scene.assembly, BL_TEXT("123456789")), 0);
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_STOP_SEQUENCE), 0);
    expect(&scene, "text 123456789\nusage 2 3 estimated\nstop stop_sequence\n");
    scene_done(&scene);

    scene_init(&scene);
    assert_int_equal(
        model_tell_usage(&scene.assembly, &(struct bl_usage){0}, &(struct bl_usage_detail){0}), 0);
    assert_int_equal(model_tell_text(&scene.assembly, BL_TEXT("123456789")), 0);
    assert_int_equal(model_finish(&scene.assembly, BL_ANSWER_END), 0);
    expect(&scene, "usage 0 0\ntext 123456789\nusage 1 3 estimated\nstop end\n");
    scene_done(&scene);
}

static void the_calls_decide_the_finish_reason(void **state BL_UNUSED)
{
    static const struct {
        bool call;
        enum bl_answer_end said, is;
    } cases[] = {
        {true, BL_ANSWER_END, BL_ANSWER_TOOL_CALLS},
        {true, BL_ANSWER_MAX_TOKENS, BL_ANSWER_TOOL_CALLS},
        {true, BL_ANSWER_STOP_SEQUENCE, BL_ANSWER_TOOL_CALLS},
        {true, BL_ANSWER_REFUSAL, BL_ANSWER_REFUSAL},
        {false, BL_ANSWER_TOOL_CALLS, BL_ANSWER_END},
        {false, BL_ANSWER_MAX_TOKENS, BL_ANSWER_MAX_TOKENS},
        {false, BL_ANSWER_REFUSAL, BL_ANSWER_REFUSAL},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct scene scene;
        scene_init(&scene);
        if (cases[i].call)
            new_call(&scene, "a", "x");
        assert_int_equal(model_finish(&scene.assembly, cases[i].said), 0);
        assert_int_equal(scene.assembly.end, cases[i].is);
        scene_done(&scene);
    }
}

static void empty_pieces_are_not_reported(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    assert_int_equal(model_tell_text(&scene.assembly, nothing), 0);
    assert_int_equal(model_tell_thinking(&scene.assembly, nothing, nothing), 0);
    assert_false(scene.assembly.meaningful);
    expect(&scene, "");
    assert_int_equal(model_tell_thinking(&scene.assembly, nothing, BL_TEXT("1")), 0);
    assert_int_equal(model_tell_thinking(&scene.assembly, BL_TEXT("hm"), nothing), 0);
    expect(&scene, "thinking  opaque 1\nthinking hm\n");
    assert_true(scene.assembly.meaningful);
    scene_done(&scene);
}

/* Whichever piece the sink refuses, its code is returned, and no piece follows. */
static void code_of_the_sink_is_returned(void **state BL_UNUSED)
{
    for (unsigned refused = 1; refused <= 7; refused++) {
        struct scene scene;
        struct model_call *call = NULL;
        scene_init(&scene);
        scene.recorder.refuse_at = refused;
        int result = model_tell_thinking(&scene.assembly, BL_TEXT("a"), nothing);
        if (result == 0)
            result = model_tell_text(&scene.assembly, BL_TEXT("a"));
        if (result == 0)
            result = model_call_new(&scene.assembly, nothing, BL_TEXT("x"), &call);
        if (result == 0)
            result = model_call_input(&scene.assembly, call, BL_TEXT("{}"));
        if (result == 0)
            result = model_finish(&scene.assembly, BL_ANSWER_END);
        assert_int_equal(result, BL_EPIPE);
        assert_int_equal(scene.recorder.count, refused);
        assert_null(scene.assembly.failure.code);
        scene_done(&scene);
    }
}

static void the_first_failure_stays(void **state BL_UNUSED)
{
    struct scene scene;
    scene_init(&scene);
    assert_int_equal(model_fail(&scene.assembly, "server", 500, BL_TEXT("a\nb\x01")), BL_EIO);
    assert_int_equal(model_fail(&scene.assembly, "limit", 0, BL_TEXT("c")), BL_EIO);
    assert_string_equal(scene.assembly.failure.code, "server");
    assert_string_equal(scene.assembly.failure.message, "a b ");
    assert_int_equal(scene.assembly.failure.status, 500);
    scene_done(&scene);
}

static void P36_an_opaque_value_is_sent_only_to_its_own_model(void **state BL_UNUSED)
{
    static const struct bl_provider here = {.name = "anthropic"}, there = {.name = "local"};
    static const struct bl_profile model = {.model = "model-1"}, other = {.model = "model-2"};
    struct bl_arena arena;
    bl_arena_init(&arena);
    struct bl_text opaque =
        model_opaque_make(&arena, &here, &model, "signature", BL_TEXT("\"E/q\\\"==\""));
    assert_true(bl_text_equal(
        opaque,
        BL_TEXT("{\"provider\":\"anthropic\",\"model\":\"model-1\",\"signature\":\"E/q\\\"==\"}")));
    const struct bl_json *found = model_opaque_find(&arena, opaque, &here, &model, "signature");
    assert_true(bl_text_equal(bl_json_text(found), BL_TEXT("E/q\"==")));
    assert_null(model_opaque_find(&arena, opaque, &here, &model, "block"));
    assert_null(model_opaque_find(&arena, opaque, &there, &model, "signature"));
    assert_null(model_opaque_find(&arena, opaque, &here, &other, "signature"));
    assert_null(model_opaque_find(&arena, nothing, &here, &model, "signature"));
    assert_null(model_opaque_find(&arena, BL_TEXT("{"), &here, &model, "signature"));
    assert_null(model_opaque_find(&arena, BL_TEXT("7"), &here, &model, "signature"));
    bl_arena_done(&arena);
}

SUITE(assembly, cmocka_unit_test(calls_are_reported_in_order_and_end_once),
      cmocka_unit_test(a_call_is_reported_once_it_has_a_name),
      cmocka_unit_test(a_call_without_a_name_is_invalid),
      cmocka_unit_test(ids_are_unique_in_the_conversation),
      cmocka_unit_test(P25_arguments_cut_at_any_byte_are_invalid),
      cmocka_unit_test(an_input_must_be_one_object),
      cmocka_unit_test(the_authoritative_input_replaces_the_pieces),
      cmocka_unit_test(P14_more_calls_or_larger_arguments_than_the_limit_fail),
      cmocka_unit_test(P27_usage_replaces_and_has_its_cost),
      cmocka_unit_test(P28_missing_usage_is_estimated_and_never_zero),
      cmocka_unit_test(the_calls_decide_the_finish_reason),
      cmocka_unit_test(empty_pieces_are_not_reported),
      cmocka_unit_test(code_of_the_sink_is_returned), cmocka_unit_test(the_first_failure_stays),
      cmocka_unit_test(P36_an_opaque_value_is_sent_only_to_its_own_model));
