#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/script/serve.h"
#include "recorder.h"

/* A clock that does not advance, so that every byte is predictable. */
static uint64_t still_monotonic(void *context BL_UNUSED)
{
    return 5 * BL_NS_PER_S;
}

static int64_t still_wall(void *context BL_UNUSED)
{
    return 1700000000ll * (int64_t)BL_NS_PER_S;
}

static const struct bl_clock still = {still_monotonic, still_wall, NULL};

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"how many words\"}]"

static void write_body(enum bl_api api, unsigned limit, bool stream, char *out, size_t size)
{
    const char *truth = stream ? "true" : "false";

    if (api == BL_API_OLLAMA)
        snprintf(out, size,
                 "{\"model\":\"model-a\",\"options\":{\"num_predict\":%u},\"stream\":%s," MESSAGES
                 "}",
                 limit, truth);
    else if (api == BL_API_OPENAI_RESPONSES)
        snprintf(out, size,
                 "{\"model\":\"model-a\",\"max_output_tokens\":%u,\"stream\":%s,\"tools\":[],"
                 "\"include\":[\"reasoning.encrypted_content\"],\"input\":\"how many words\"}",
                 limit, truth);
    else
        snprintf(out, size, "{\"model\":\"model-a\",\"max_tokens\":%u,\"stream\":%s," MESSAGES "}",
                 limit, truth);
}

/* One answer of a script, in a format. */
struct playing {
    enum bl_api api;
    bool stream;
    bool stream_usage;
    unsigned max_tokens;
    const char *script;
    struct bl_buffer out;
    unsigned starts;
    unsigned writes;
    struct bl_usage usage;
    bool truncated;
};

static int start(void *context)
{
    struct playing *playing = context;

    playing->starts++;
    return CHECK_EQUAL(playing->writes, 0) ? 0 : BL_EIO;
}

static int write_out(void *context, struct bl_text bytes)
{
    struct playing *playing = context;

    playing->writes++;
    return bl_buffer_append(&playing->out, bytes);
}

static int play_main(void *argument)
{
    struct playing *playing = argument;
    struct bl_script *script;
    struct script_request request;
    struct script_problem problem;
    struct script_answer answer;
    const struct script_reply *reply = NULL;
    struct bl_error error = {0};
    struct bl_model model;
    struct bl_arena arena;
    char body[512];

    bl_arena_init(&arena);
    CHECK_EQUAL(bl_script_parse(bl_text_from(playing->script), "t", &script, &error), 0);
    struct bl_script_player *player = bl_script_player_new(script, 1, &model);
    write_body(playing->api, playing->max_tokens > 0 ? playing->max_tokens : 1000, playing->stream,
               body, sizeof body);
    CHECK_EQUAL(
        script_request_read(&arena, playing->api, false, bl_text_from(body), &request, &problem),
        0);
    request.stream_usage = playing->stream_usage;
    script_answer_init(&answer, &request, &arena, &still, 7);
    answer.start = start;
    answer.write = write_out;
    answer.context = playing;
    answer.usage.input_tokens = 3;
    int result =
        script_attempt(player, request.newest, request.images, &answer.sink, &reply, &error);
    if (answer.truncated) {
        struct bl_usage usage = script_usage(reply, request.newest, answer.words);
        result = script_answer_finish(&answer, &usage, BL_ANSWER_MAX_TOKENS);
    }
    if (!playing->stream)
        bl_buffer_append(&playing->out, bl_buffer_text(&answer.out));
    playing->usage = answer.usage;
    playing->truncated = answer.truncated;
    script_answer_done(&answer);
    bl_script_player_free(player);
    bl_script_free(script);
    bl_arena_done(&arena);
    return result;
}

static void play(struct playing *playing)
{
    bl_buffer_init(&playing->out, 1u << 20);
    assert_int_equal(run_in_virtual_loop(1, play_main, playing), 0);
    assert_int_equal(playing->starts, playing->stream);
    bl_buffer_append_byte(&playing->out, '\0');
    playing->out.size--;
}

/* Compares with the exact bytes of a file. */
static void check_file(const char *name, const struct bl_buffer *out)
{
    struct bl_text expected = read_fixture(name);
    if (!bl_text_equal(expected, bl_buffer_text(out)))
        fail_msg("%s is not: %s", name, out->data);
    bl_free((void *)expected.data);
}

#define FULL                                                                                       \
    "replies:\n"                                                                                   \
    "- thinking: 'Hm, words.'\n"                                                                   \
    "  say: \"It is\\n\\\"three\\\" \\u00e9.\"\n"                                                  \
    "  pieces: 2\n"                                                                                \
    "  tools: [{name: count, id: call_a, input: {path: a/b, n: 2}}, {name: done}]\n"

static void each_format_streams_its_own_events(void **state BL_UNUSED)
{
    static const char *const names[] = {"serve/anthropic.sse", "serve/openai.sse",
                                        "serve/responses.sse", "serve/ollama.ndjson"};

    for (int api = BL_API_ANTHROPIC; api <= BL_API_OLLAMA; api++) {
        struct playing playing = {
            .api = (enum bl_api)api, .stream = true, .stream_usage = true, .script = FULL};
        play(&playing);
        check_file(names[api], &playing.out);
        /* Each piece is one write: two each for thinking and text, four for each of two calls (the
         * input of one has one byte per piece), usage and end; ollama has fewer. */
        assert_true(playing.writes >= 7);
        bl_buffer_done(&playing.out);
    }
}

static void without_a_stream_it_is_one_object(void **state BL_UNUSED)
{
    static const char *const names[] = {"serve/anthropic.json", "serve/openai.json",
                                        "serve/responses.json", "serve/ollama.json"};

    for (int api = BL_API_ANTHROPIC; api <= BL_API_OLLAMA; api++) {
        struct playing playing = {.api = (enum bl_api)api, .script = FULL};
        play(&playing);
        check_file(names[api], &playing.out);
        assert_int_equal(playing.writes, 0);
        bl_buffer_done(&playing.out);
    }
}

static void check_part(const struct playing *playing, const char *part)
{
    if (strstr(playing->out.data, part) == NULL)
        fail_msg("no %s in %s", part, playing->out.data);
}

static void usage_of_a_stream_is_sent_if_requested(void **state BL_UNUSED)
{
    struct playing playing = {
        .api = BL_API_OPENAI, .stream = true, .script = "replies: [{say: a b}]"};

    play(&playing);
    assert_null(strstr(playing.out.data, "usage"));
    check_part(&playing, "data: [DONE]\n\n");
    bl_buffer_done(&playing.out);
}

static void the_limit_of_tokens_cuts_after_that_many_words(void **state BL_UNUSED)
{
    static const char *const stops[] = {
        "\"stop_reason\":\"max_tokens\"", "\"finish_reason\":\"length\"",
        "\"reason\":\"max_output_tokens\"", "\"done_reason\":\"length\""};

    for (int api = BL_API_ANTHROPIC; api <= BL_API_OLLAMA; api++) {
        for (unsigned limit = 1; limit <= 5; limit++) {
            struct playing playing = {.api = (enum bl_api)api,
                                      .stream = limit % 2 == 0,
                                      .max_tokens = limit,
                                      .script = "replies: [{say: one two threefold four, pieces: "
                                                "7, tools: [{name: late}]}]"};
            play(&playing);
            assert_int_equal(playing.usage.input_tokens, 3);
            assert_int_equal(playing.usage.output_tokens, limit < 4 ? limit : 4);
            assert_int_equal(playing.truncated, limit < 4);
            assert_int_equal(strstr(playing.out.data, stops[api]) != NULL, limit < 4);
            assert_int_equal(strstr(playing.out.data, "late") != NULL, limit >= 4);
            bl_buffer_done(&playing.out);
        }
    }
}

static void usage_of_the_script_is_sent_at_any_limit(void **state BL_UNUSED)
{
    struct playing playing = {.api = BL_API_ANTHROPIC,
                              .max_tokens = 2,
                              .script =
                                  "replies: [{say: a b c d, usage: {input: 40, output: 50}}]"};

    play(&playing);
    check_part(&playing, "\"content\":[{\"type\":\"text\",\"text\":\"a b \"}]");
    check_part(&playing, "\"input_tokens\":40");
    check_part(&playing, "\"output_tokens\":50");
    bl_buffer_done(&playing.out);
}

static void each_end_has_its_name(void **state BL_UNUSED)
{
    static const struct {
        const char *stop;
        const char *words[4];
    } rows[] = {
        {"end", {"end_turn", "\"stop\"", "completed", "\"stop\""}},
        {"max_tokens", {"max_tokens", "length", "max_output_tokens", "length"}},
        {"refusal", {"\"refusal\"", "content_filter", "content_filter", "\"stop\""}},
    };
    char script[100];

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        snprintf(script, sizeof script, "replies: [{say: a, stop: %s}]", rows[i].stop);
        for (int api = BL_API_ANTHROPIC; api <= BL_API_OLLAMA; api++) {
            struct playing playing = {.api = (enum bl_api)api, .stream = true, .script = script};
            play(&playing);
            check_part(&playing, rows[i].words[api]);
            bl_buffer_done(&playing.out);
        }
    }
}

/* An invalid input is sent as a string. */
static void an_input_that_is_not_an_object_is_still_an_answer(void **state BL_UNUSED)
{
    for (int api = BL_API_ANTHROPIC; api <= BL_API_OLLAMA; api++) {
        struct playing playing = {.api = (enum bl_api)api,
                                  .script = "replies: [{tools: [{name: n, input_text: '{\"a'}]}]"};
        const struct bl_json *value;
        struct bl_arena arena = {0};
        play(&playing);
        assert_int_equal(bl_json_read(&arena, bl_buffer_text(&playing.out), NULL, &value, NULL), 0);
        check_part(&playing, "\"{\\\"a\"");
        bl_arena_done(&arena);
        bl_buffer_done(&playing.out);
    }
}

static void check_problem(const struct script_problem *problem, enum bl_api api, int status,
                          const char *body)
{
    struct bl_buffer out;
    struct bl_json_writer writer;

    bl_buffer_init(&out, 4096);
    bl_json_writer_init(&writer, &out);
    script_problem_write(&writer, problem, api, BL_TEXT("req_1"));
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, body);
    assert_int_equal(script_problem_status(problem, api), status);
    bl_buffer_done(&out);
}

static void problems_have_the_shape_of_their_format(void **state BL_UNUSED)
{
    struct script_problem overloaded = {.code = "overloaded"};
    struct script_problem bad = {.code = "bad_request", .param = "model", .message = "no model"};
    struct script_problem quota = {.code = "quota"}, forbidden = {.status = 403};

    check_problem(&overloaded, BL_API_ANTHROPIC, 529,
                  "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                  "\"Overloaded\"},\"request_id\":\"req_1\"}");
    check_problem(&overloaded, BL_API_OPENAI, 503,
                  "{\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"param\":null,"
                  "\"code\":\"slow_down\"}}");
    check_problem(&bad, BL_API_OPENAI_RESPONSES, 400,
                  "{\"error\":{\"message\":\"no model\",\"type\":\"invalid_request_error\","
                  "\"param\":\"model\",\"code\":null}}");
    check_problem(&bad, BL_API_OLLAMA, 400, "{\"error\":\"no model\"}");
    check_problem(&quota, BL_API_OPENAI, 429,
                  "{\"error\":{\"message\":\"The account has no credit left\",\"type\":"
                  "\"insufficient_quota\",\"param\":null,\"code\":\"insufficient_quota\"}}");
    check_problem(&forbidden, BL_API_ANTHROPIC, 403,
                  "{\"type\":\"error\",\"error\":{\"type\":\"permission_error\",\"message\":"
                  "\"The key is not valid\"},\"request_id\":\"req_1\"}");
}

/* ---- There and back -------------------------------------------------------------------------- */

/* The engine's view of an answer, however it was transmitted: pieces of text and thinking one by
 * one, calls as a whole, the newest usage, the end. */
struct gist {
    struct bl_sink sink;
    struct bl_buffer log;
    char names[4][32]; /* of calls */
    struct bl_usage usage;
};

static int take_gist(struct bl_sink *sink, const struct bl_piece *piece)
{
    struct gist *gist = BL_CONTAINER(sink, struct gist, sink);

    switch (piece->type) {
    case BL_PIECE_TEXT:
        return bl_buffer_printf(&gist->log, "text " BL_TEXT_FORMAT "|", BL_TEXT_ARG(piece->text));
    case BL_PIECE_THINKING:
        return piece->text.size == 0 ? 0
                                     : bl_buffer_printf(&gist->log, "thinking " BL_TEXT_FORMAT "|",
                                                        BL_TEXT_ARG(piece->text));
    case BL_PIECE_CALL_BEGIN:
        snprintf(gist->names[piece->index % 4], sizeof gist->names[0], BL_TEXT_FORMAT,
                 BL_TEXT_ARG(piece->name));
        return 0;
    case BL_PIECE_CALL_END:
        return bl_buffer_printf(&gist->log, "call %u %s " BL_TEXT_FORMAT " %s|", piece->index,
                                gist->names[piece->index % 4], BL_TEXT_ARG(piece->text),
                                piece->invalid.size > 0 ? "invalid" : "");
    case BL_PIECE_USAGE: gist->usage = piece->usage; return 0;
    case BL_PIECE_RETRY: return bl_buffer_printf(&gist->log, "retry %s|", piece->retry.code);
    case BL_PIECE_END:
        return bl_buffer_printf(&gist->log, "usage %llu %llu, end %d",
                                (unsigned long long)gist->usage.input_tokens,
                                (unsigned long long)gist->usage.output_tokens, (int)piece->end);
    case BL_PIECE_CALL_DELTA: break;
    }
    return 0;
}

/* Adds a tool call and its result. */
static void add_result(struct bl_arena *arena, struct bl_list *messages, const char *text)
{
    struct bl_message *message = bl_message_add(arena, messages, BL_ROLE_ASSISTANT);
    struct bl_block *call = bl_block_add(arena, message, BL_BLOCK_CALL);
    message = bl_message_add(arena, messages, BL_ROLE_USER);
    struct bl_block *result = bl_block_add(arena, message, BL_BLOCK_RESULT);

    call->id = result->id = BL_TEXT("call_77");
    call->name = BL_TEXT("read");
    call->input = BL_TEXT("{\"path\":\"a\"}");
    result->text = bl_text_from(text);
}

/* Calls the model, and returns the gist in the arena. `result_text` NULL: no tool was called. */
static const char *gist_of(struct bl_arena *arena, const struct bl_model *model, const char *text,
                           const char *result_text)
{
    struct gist gist = {.sink = {.take = take_gist}};
    struct bl_session session;
    struct bl_list messages;
    struct bl_error error = {0};

    bl_buffer_init(&gist.log, 1u << 20);
    bl_session_init(&session, "test");
    bl_list_init(&messages);
    struct bl_message *message = bl_message_add(arena, &messages, BL_ROLE_USER);
    bl_block_add(arena, message, BL_BLOCK_TEXT)->text = bl_text_from(text);
    if (result_text != NULL)
        add_result(arena, &messages, result_text);
    struct bl_request request = {.session = &session, .messages = &messages};
    int result = model->call(model->context, &request, &gist.sink, &error);
    if (result != 0)
        bl_buffer_printf(&gist.log, "error %s", error.name[0] != '\0' ? error.name : error.message);
    const char *copy = bl_arena_text(arena, bl_buffer_text(&gist.log)).data;
    bl_session_done(&session);
    bl_buffer_done(&gist.log);
    return copy;
}

/* A server of a script, in the test's own loop. */
struct served {
    struct bl_nursery nursery;
    struct bl_script *script;
    struct bl_script_server *server;
    struct bl_arena arena;
};

static void serve(struct served *served, const char *script)
{
    struct bl_script_server_options options = {0};
    struct bl_error error = {0};

    *served = (struct served){0};
    bl_arena_init(&served->arena);
    bl_nursery_init(&served->nursery, bl_scope_current());
    CHECK_EQUAL(bl_script_parse(bl_text_from(script), "test", &served->script, &error), 0);
    options.script = served->script;
    CHECK_EQUAL(bl_script_server_start(&served->nursery, &options, &served->server, &error), 0);
}

static void end_serving(struct served *served)
{
    bl_script_server_stop(served->server);
    bl_nursery_done(&served->nursery);
    bl_script_free(served->script);
    bl_arena_done(&served->arena);
}

/* Returns the base URL that a provider of the format is configured with. */
static const char *base_of(struct served *served, enum bl_api api)
{
    bool versioned = api == BL_API_OPENAI || api == BL_API_OPENAI_RESPONSES;
    return bl_arena_printf(&served->arena, "http://127.0.0.1:%u%s",
                           bl_script_server_port(served->server), versioned ? "/v1" : "")
        .data;
}

static const char round_script[] =
    "replies:\n"
    "- when: first\n"
    "  thinking: 'Think about it, and deeply.'\n"
    "  say: \"Some w\\u00f6rds,\\nand more.\"\n"
    "  pieces: 3\n"
    "- when: second\n"
    "  say: Calling.\n"
    "  tools: [{name: read, input: {path: /tmp/a, deep: [1, {b: null}]}}, {name: done}]\n"
    "  usage: {input: 11, output: 12}\n"
    "- when: third\n"
    "  tools: [{name: broken, input_text: '{\"a\": 1'}]\n"
    "- when: fourth\n"
    "  error: {status: 529, retry_after: 1ms, times: 2}\n"
    "- when: fourth\n"
    "  say: At last.\n"
    "- when: fifth\n"
    "  say: Cut\n"
    "  stop: max_tokens\n"
    "- when: sixth\n"
    "  error: {code: quota}\n"
    "- when: seventh\n"
    "  error: {code: context_overflow}\n";

static int round_main(void *argument)
{
    static const char *const prompts[] = {"the first", "the second", "the third",   "the fourth",
                                          "the fifth", "the sixth",  "the seventh", "the eighth"};
    enum bl_api api = *(const enum bl_api *)argument;
    struct bl_model here, there;
    struct bl_remote *remote = NULL;
    struct served served;
    struct bl_error error = {0};

    serve(&served, round_script);
    struct bl_script_player *player = bl_script_player_new(served.script, 3, &here);
    struct bl_provider provider = {
        .name = "test", .api = api, .base_url = base_of(&served, api), .key = "k-0123456789"};
    struct bl_profile profile = {.model = "m", .max_output_tokens = 500};
    struct bl_remote_options options = {.provider = &provider, .profile = &profile, .seed = 3};
    CHECK_EQUAL(bl_remote_new(&options, &remote, &there, &error), 0);
    for (size_t i = 0; i < BL_COUNT(prompts); i++) {
        const char *expected = gist_of(&served.arena, &here, prompts[i], NULL);
        const char *came = gist_of(&served.arena, &there, prompts[i], NULL);
        /* Differences that the wire format cannot express. */
        if (i == BL_COUNT(prompts) - 1)
            expected = "error bad_request";
        if (api == BL_API_OLLAMA && i == 2)
            CHECK(strstr(came, "call 0 broken") == came && strstr(came, "invalid") != NULL);
        else
            CHECK_STRING(came, expected);
    }
    bl_remote_free(remote);
    bl_script_player_free(player);
    end_serving(&served);
    return 0;
}

static void served_answers_are_read_back_as_played(void **state BL_UNUSED)
{
    for (int i = BL_API_ANTHROPIC; i <= BL_API_OLLAMA; i++) {
        enum bl_api api = (enum bl_api)i;
        run_in_loop(round_main, &api);
    }
}

/* ---- Cassettes ------------------------------------------------------------------------------- */

#define KEY "sk-live-0123456789abcdef"

static int cassette_main(void *argument)
{
    static const char *const prompts[] = {"first, with " KEY " in it", "second", "fourth"};
    static const char *const results[] = {NULL, "the file has \"" KEY "\"", NULL};
    enum bl_api api = *(const enum bl_api *)argument;
    struct bl_text secret = BL_TEXT(KEY);
    const char *recorded[BL_COUNT(prompts)];
    char path[] = "/tmp/belay-serve-XXXXXX";
    struct bl_remote *remote = NULL;
    struct bl_model model;
    struct served served;
    struct bl_error error = {0};

    serve(&served, round_script);
    CHECK(mkdtemp(path) != NULL);
    const char *file = bl_arena_printf(&served.arena, "%s/tape", path).data;
    struct bl_provider provider = {
        .name = "test", .api = api, .base_url = base_of(&served, api), .key = KEY};
    struct bl_profile profile = {.model = "m", .max_output_tokens = 500};
    struct bl_remote_options options = {.provider = &provider, .profile = &profile, .seed = 3};
    CHECK_EQUAL(bl_cassette_record(file, &secret, 1, &options.recorder, &error), 0);
    CHECK_EQUAL(bl_remote_new(&options, &remote, &model, &error), 0);
    for (size_t i = 0; i < BL_COUNT(prompts); i++)
        recorded[i] = gist_of(&served.arena, &model, prompts[i], results[i]);
    bl_remote_free(remote);
    CHECK_EQUAL(bl_cassette_close(options.recorder, &error), 0);
    /* From here on there is no network. */
    bl_script_server_stop(served.server);
    served.server = NULL;

    options.recorder = NULL;
    CHECK_EQUAL(bl_cassette_load(file, &options.replay, &error), 0);
    CHECK_EQUAL(bl_remote_new(&options, &remote, &model, &error), 0);
    for (size_t i = 0; i < BL_COUNT(prompts); i++)
        CHECK_STRING(gist_of(&served.arena, &model, prompts[i], results[i]), recorded[i]);
    CHECK_STRING(gist_of(&served.arena, &model, "never asked", NULL), "error no_match");
    bl_remote_free(remote);
    CHECK_EQUAL(bl_cassette_close(options.replay, &error), 0);
    struct bl_text text = suite_read_file(file);
    CHECK(bl_text_find(text, secret) < 0);
    CHECK(bl_text_find(text, BL_TEXT("first, with [removed] in it")) > 0);
    bl_free((void *)text.data);
    unlink(file);
    rmdir(path);
    end_serving(&served);
    return 0;
}

static void P44_a_cassette_holds_no_key_and_plays_the_same(void **state BL_UNUSED)
{
    for (int i = BL_API_ANTHROPIC; i <= BL_API_OLLAMA; i++) {
        enum bl_api api = (enum bl_api)i;
        run_in_loop(cassette_main, &api);
    }
}

SUITE(script_answer, cmocka_unit_test(each_format_streams_its_own_events),
      cmocka_unit_test(without_a_stream_it_is_one_object),
      cmocka_unit_test(usage_of_a_stream_is_sent_if_requested),
      cmocka_unit_test(the_limit_of_tokens_cuts_after_that_many_words),
      cmocka_unit_test(usage_of_the_script_is_sent_at_any_limit),
      cmocka_unit_test(each_end_has_its_name),
      cmocka_unit_test(an_input_that_is_not_an_object_is_still_an_answer),
      cmocka_unit_test(problems_have_the_shape_of_their_format),
      cmocka_unit_test(served_answers_are_read_back_as_played),
      cmocka_unit_test(P44_a_cassette_holds_no_key_and_plays_the_same));
