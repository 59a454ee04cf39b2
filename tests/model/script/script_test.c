#include "recorder.h"

#include <stdio.h>

#define MS BL_NS_PER_MS

/* A player of `source`, and its sink. */
struct play {
    struct bl_script *script;
    struct bl_script_player *player;
    struct bl_model model;
    struct recorder recorder;
};

static void play_init(struct play *play, const char *source, uint64_t seed)
{
    play->script = source != NULL ? script_of(source) : bl_script_builtin();
    play->player = bl_script_player_new(play->script, seed, &play->model);
    recorder_init(&play->recorder);
}

static void play_done(struct play *play)
{
    recorder_done(&play->recorder);
    bl_script_player_free(play->player);
    bl_script_free(play->script);
}

static int ask(struct play *play, const char *text)
{
    return recorder_ask(&play->recorder, &play->model, text);
}

/* Runs one fiber on virtual time, with a player of `source`. */
static void with_script(const char *source, int (*main)(void *))
{
    struct play play;
    play_init(&play, source, 7);
    run_in_virtual_loop(7, main, &play);
    play_done(&play);
}

static int speak_in_pieces(void *argument)
{
    struct play *play = argument;
    uint64_t start_ns = bl_now_ns();
    CHECK_EQUAL(ask(play, "deploy it now"), 0);
    CHECK_EQUAL(bl_now_ns() - start_ns, 20 * MS);
    CHECK_LOG(&play->recorder, "text Work\ntext ing \ntext on \ntext it.\n"
                               "begin 0 call_1 bash\ndelta 0 {\"command\":\ndelta 0 \"sleep 60\"}\n"
                               "end 0 {\"command\":\"sleep 60\"}\nusage 12 7\nstop tool_calls\n");
    CHECK_STRING(play->recorder.sink.detail, "");
    CHECK_EQUAL(ask(play, "and then"), 0);
    CHECK_LOG(&play->recorder, "text done\nusage 2 1\nstop end\n");
    return 0;
}

static void the_example_of_the_contract_plays_as_written(void **state BL_UNUSED)
{
    with_script("name: wedge-demo\n"
                "replies:\n"
                "  - when: \"deploy\"\n"
                "    delay: 20ms\n"
                "    say: \"Working on it.\"\n"
                "    pieces: 4\n"
                "    tools: [{name: bash, input: {command: \"sleep 60\"}}]\n"
                "    usage: {input: 12, output: 7}\n"
                "  - {say: done, pieces: 1}\n"
                "repeat: false\n",
                speak_in_pieces);
}

static int short_texts(void *argument)
{
    struct play *play = argument;
    CHECK_EQUAL(ask(play, "x"), 0);
    CHECK_LOG(&play->recorder, "text h\ntext i\nusage 1 1\nstop end\n");
    CHECK_EQUAL(ask(play, ""), 0);
    CHECK_LOG(&play->recorder, "usage 0 0\nstop end\n");
    CHECK_EQUAL(ask(play, "x"), 0);
    CHECK_LOG(&play->recorder, "text \u00e4\ntext \U0001f600\ntext \u20ac\nusage 1 1\nstop end\n");
    CHECK_EQUAL(ask(play, "x"), 0);
    CHECK_LOG(&play->recorder, "text one two\nusage 1 2\nstop end\n");
    CHECK_EQUAL(ask(play, "x"), 0);
    CHECK_LOG(&play->recorder, "text a\ntext b\ntext c\nusage 1 1\nstop end\n");
    return 0;
}

static void pieces_are_cut_at_characters_and_never_empty(void **state BL_UNUSED)
{
    with_script("replies:\n"
                "  - say: hi\n"
                "  - say: ''\n"
                "  - {say: \"\u00e4\U0001f600\u20ac\", pieces: 3}\n"
                "  - {say: one two, pieces: 1}\n"
                "  - {say: abc, pieces: 1000}\n",
                short_texts);
}

/* However a text is cut, its pieces add up to the text, and each is valid UTF-8. */
static int any_pieces(void *argument BL_UNUSED)
{
    static const char *const alphabet[] = {"a", "\u00e4", "\u20ac", "\U0001f600", " "};
    struct bl_random random;
    bl_random_seed(&random, 3);
    for (unsigned long round = suite_rounds(300, 5000); round > 0; round--) {
        struct bl_buffer text, source;
        struct play play;
        bl_buffer_init(&text, 4096);
        bl_buffer_init(&source, 8192);
        uint64_t pieces = 1 + bl_random_below(&random, 12);
        for (uint64_t i = 1 + bl_random_below(&random, 40); i > 0; i--)
            bl_buffer_append(&text, bl_text_from(alphabet[bl_random_below(&random, 5)]));
        bl_buffer_printf(&source, "replies: [{say: \"" BL_TEXT_FORMAT "\", pieces: %llu}]%c",
                         BL_TEXT_ARG(bl_buffer_text(&text)), (unsigned long long)pieces, '\0');
        play_init(&play, source.data, 1);
        CHECK_EQUAL(ask(&play, "x"), 0);
        struct bl_text log = bl_buffer_text(&play.recorder.log), line;
        bl_buffer_clear(&source);
        while (bl_text_split(&log, '\n', &line) && bl_text_starts_with(line, BL_TEXT("text "))) {
            line = (struct bl_text){line.data + 5, line.size - 5};
            CHECK(line.size > 0 && bl_utf8_valid(line));
            bl_buffer_append(&source, line);
            pieces--;
        }
        CHECK(bl_text_equal(bl_buffer_text(&source), bl_buffer_text(&text)));
        CHECK(pieces < 12);
        play_done(&play);
        bl_buffer_done(&source);
        bl_buffer_done(&text);
    }
    return 0;
}

static void pieces_together_are_the_text(void **state BL_UNUSED)
{
    run_in_virtual_loop(1, any_pieces, NULL);
}

static int first_match_wins(void *argument)
{
    struct play *play = argument;
    CHECK_EQUAL(ask(play, "please test"), 0);
    CHECK_LOG(&play->recorder, "text T1\nusage 2 1\nstop end\n");
    CHECK_EQUAL(ask(play, "please build"), 0);
    CHECK_LOG(&play->recorder, "text B\nusage 2 1\nstop end\n");
    CHECK_EQUAL(ask(play, "please test"), 0);
    CHECK_LOG(&play->recorder, "text any\nusage 2 1\nstop end\n");
    CHECK_EQUAL(ask(play, "please test"), 0);
    CHECK_LOG(&play->recorder, "text T2\nusage 2 1\nstop end\n");
    CHECK_EQUAL(ask(play, "nothing fits"), BL_ENOENT);
    CHECK_EQUAL(play->recorder.error.kind, BL_KIND_PROVIDER);
    CHECK(!play->recorder.error.retryable);
    CHECK_STRING(play->recorder.error.name, "script_exhausted");
    CHECK_STRING(
        play->recorder.error.message,
        "the script 'test.yaml' has no reply left that matches the prompt: 4 of 5 are used");
    CHECK_EQUAL(ask(play, "42 times"), 0);
    CHECK_LOG(&play->recorder, "text N\nusage 2 1\nstop end\n");
    CHECK_EQUAL(ask(play, "42 times"), BL_ENOENT);
    CHECK_STRING(play->recorder.error.message,
                 "the script 'test.yaml' has no reply left: 5 of 5 are used");
    return 0;
}

static void the_first_unused_reply_that_fits_is_played(void **state BL_UNUSED)
{
    with_script("replies:\n"
                "  - {when: 'test|check', say: T1, pieces: 1}\n"
                "  - {when: build, say: B, pieces: 1}\n"
                "  - {say: any, pieces: 1}\n"
                "  - {when: test, say: T2, pieces: 1}\n"
                "  - {when: '^[0-9]+ ', say: N, pieces: 1}\n",
                first_match_wins);
}

static int start_over(void *argument)
{
    struct play *play = argument;
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(ask(play, "x"), 0);
        CHECK_LOG(&play->recorder, "text a\nusage 1 1\nstop end\n");
        CHECK_EQUAL(ask(play, "x"), 0);
        CHECK_LOG(&play->recorder, "text b\nusage 1 1\nstop end\n");
    }
    return 0;
}

static void repeat_starts_the_script_over(void **state BL_UNUSED)
{
    with_script("{\"replies\": [{\"say\": \"a\"}, {\"say\": \"b\"}], \"repeat\": true}",
                start_over);
}

static int repeat_without_fit(void *argument)
{
    struct play *play = argument;
    CHECK_EQUAL(ask(play, "no"), BL_ENOENT);
    CHECK_STRING(play->recorder.error.name, "script_exhausted");
    CHECK_EQUAL(ask(play, "yes"), 0);
    CHECK_EQUAL(ask(play, "yes"), 0);
    return 0;
}

static void a_repeating_script_where_nothing_fits_is_exhausted_and_no_loop(void **state BL_UNUSED)
{
    with_script("replies: [{when: 'yes', say: ok}]\nrepeat: true", repeat_without_fit);
}

static int all_kinds_of_pieces(void *argument)
{
    struct play *play = argument;
    uint64_t start_ns = bl_now_ns();
    CHECK_EQUAL(ask(play, "go"), 0);
    /* Between two pieces of thinking, and after them: 3 waits; two calls of 3 pieces follow. */
    CHECK_EQUAL(bl_now_ns() - start_ns, 9 * 5 * MS);
    CHECK_LOG(&play->recorder, "thinking hm\nthinking mm\ntext ye\ntext s.\n"
                               "begin 0 call_1 read\ndelta 0 {\ndelta 0 }\nend 0 {}\n"
                               "begin 1 mine bash\ndelta 1 {\"a\"\ndelta 1 :1}\nend 1 {\"a\":1}\n"
                               "usage 1 1\nstop max_tokens\n");
    CHECK_EQUAL(ask(play, "go"), 0);
    CHECK_LOG(&play->recorder,
              "begin 0 call_3 x\ndelta 0 [1\ndelta 0 ]\n"
              "end 0 [1] (the input must be a JSON object, found array)\n"
              "begin 1 call_2 y\n"
              "end 1  (the input is not JSON: offset 0 (line 1, column 1): expected "
              "a value, found the end near ``)\n"
              "usage 1 0\nstop tool_calls\n");
    CHECK_EQUAL(ask(play, "go"), 0);
    CHECK_LOG(&play->recorder, "usage 1 0\nstop refusal\n");
    return 0;
}

static void thinking_calls_ids_and_invalid_inputs_follow_the_script(void **state BL_UNUSED)
{
    with_script("replies:\n"
                "  - thinking: hmmm\n"
                "    say: yes.\n"
                "    pieces: 2\n"
                "    piece_delay: 5ms\n"
                "    tools:\n"
                "      - {name: read}\n"
                "      - {name: bash, id: mine, input: {a: 1}}\n"
                "    stop: max_tokens\n"
                "  - tools:\n"
                "      - {name: x, input: [1]}\n"
                "      - {name: y, id: call_2, input_text: ''}\n"
                "  - {say: '', stop: refusal}\n",
                all_kinds_of_pieces);
}

static int fail_twice(void *argument)
{
    struct play *play = argument;
    CHECK_EQUAL(ask(play, "go"), 0);
    CHECK_LOG(&play->recorder, "retry 1 of 4 overloaded 529\nretry 2 of 4 overloaded 529\n"
                               "text ok\nusage 1 1\nstop end\n");
    CHECK_EQUAL(ask(play, "go"), BL_EIO);
    CHECK_LOG(&play->recorder, "");
    CHECK_EQUAL(play->recorder.error.kind, BL_KIND_PROVIDER);
    CHECK_STRING(play->recorder.error.name, "bad_request");
    CHECK_STRING(play->recorder.error.target, "script");
    CHECK_STRING(play->recorder.error.message, "the provider refused the request (status 400): no");
    CHECK_EQUAL(ask(play, "go"), BL_EIO);
    CHECK_EQUAL(play->recorder.error.kind, BL_KIND_PROVIDER_TIMEOUT);
    CHECK_LOG(&play->recorder, "retry 1 of 4 stall 0\nretry 2 of 4 stall 0\n"
                               "retry 3 of 4 stall 0\nretry 4 of 4 stall 0\n");
    /* Five of its six failures are used up. */
    CHECK_EQUAL(ask(play, "go"), 0);
    CHECK_LOG(&play->recorder, "retry 1 of 4 stall 0\ntext b\nusage 1 1\nstop end\n");
    return 0;
}

static void errors_are_retried_with_the_next_reply(void **state BL_UNUSED)
{
    with_script("replies:\n"
                "  - error: {status: 529, times: 2}\n"
                "  - {say: ok, pieces: 1}\n"
                "  - error: {status: 400, message: 'no'}\n"
                "  - error: {code: stall, times: 6}\n"
                "  - {say: b, pieces: 1}\n",
                fail_twice);
}

static int fail_by_hint(void *argument)
{
    struct play *play = argument;
    uint64_t start_ns = bl_now_ns();
    CHECK_EQUAL(ask(play, "go"), 0);
    CHECK(bl_now_ns() - start_ns >= 1500 * MS && bl_now_ns() - start_ns <= 1875 * MS);
    CHECK_LOG(&play->recorder, "retry 1 of 4 rate_limited 429\ntext a\nusage 1 1\nstop end\n");
    CHECK_EQUAL(ask(play, "go"), BL_EIO);
    CHECK(!play->recorder.error.retryable);
    CHECK_EQUAL(ask(play, "go"), BL_EIO);
    CHECK_STRING(play->recorder.error.name, "no_time_to_retry");
    CHECK(play->recorder.error.retryable);
    CHECK_EQUAL(ask(play, "go"), BL_EIO);
    CHECK_STRING(play->recorder.error.name, "connect");
    CHECK_EQUAL(play->recorder.error.kind, BL_KIND_PROVIDER_TIMEOUT);
    return 0;
}

static void errors_carry_the_servers_hints(void **state BL_UNUSED)
{
    with_script("replies:\n"
                "  - error: {status: 429, retry_after: 1.5s}\n"
                "  - {say: a}\n"
                "  - error: {status: 500, should_retry: false}\n"
                "  - error: {status: 500, retry_after: 2m}\n"
                "  - error: {code: connect, should_retry: false}\n",
                fail_by_hint);
}

/* ---- Stops ---- */

struct stopped_ask {
    struct play *play;
    struct bl_scope scope;
    int result;
};

static int ask_to_stop(void *argument)
{
    struct stopped_ask *stopped = argument;
    stopped->result = ask(stopped->play, "go");
    return 0;
}

/* Calls the model, and stops the call after a while. Returns its code, and checks the detail. */
static int ask_and_stop(struct play *play, uint64_t after_ns, const char *detail)
{
    struct stopped_ask stopped = {.play = play};
    struct bl_nursery nursery;
    bl_scope_init(&stopped.scope, bl_scope_current());
    bl_nursery_init(&nursery, &stopped.scope);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "call", ask_to_stop, &stopped, NULL), 0);
    CHECK_EQUAL(bl_sleep(after_ns), 0);
    uint64_t stop_ns = bl_now_ns();
    bl_scope_stop(&stopped.scope, BL_STOP_USER, "test");
    bl_nursery_join(&nursery);
    CHECK_EQUAL(bl_now_ns(), stop_ns);
    CHECK_EQUAL(play->recorder.error.code, 0);
    CHECK_STRING(play->recorder.sink.detail, detail);
    bl_nursery_done(&nursery);
    bl_scope_done(&stopped.scope);
    return stopped.result;
}

static int stop_everywhere(void *argument)
{
    struct play *play = argument;
    CHECK_EQUAL(ask_and_stop(play, 3600 * BL_NS_PER_S, "before the first token"), BL_ECANCELED);
    CHECK_LOG(&play->recorder, "");
    CHECK_EQUAL(ask_and_stop(play, 3600 * BL_NS_PER_S, "stream cut after 3 bytes"), BL_ECANCELED);
    CHECK_LOG(&play->recorder, "text \u2026\n");
    CHECK_EQUAL(ask_and_stop(play, 3600 * BL_NS_PER_S, "stream cut after 4 bytes"), BL_ECANCELED);
    CHECK_LOG(&play->recorder, "thinking h\nthinking m\ntext ab\n");
    CHECK_EQUAL(ask_and_stop(play, 10 * MS, "before the first token"), BL_ECANCELED);
    CHECK_LOG(&play->recorder, "");
    CHECK_EQUAL(ask_and_stop(play, 25 * MS, "stream cut after 3 bytes"), BL_ECANCELED);
    CHECK_LOG(&play->recorder, "text a\ntext b\ntext c\n");
    CHECK_EQUAL(ask_and_stop(play, 5 * MS, "in backoff 1 of 4"), BL_ECANCELED);
    CHECK_LOG(&play->recorder, "retry 1 of 4 overloaded 529\n");
    return 0;
}

static void a_stop_works_at_any_phase_and_reports_it(void **state BL_UNUSED)
{
    with_script("replies:\n"
                "  - wedge: before_first_token\n"
                "    say: never\n"
                "  - wedge: after_first_token\n"
                "  - {wedge: after_first_token, thinking: hm, say: abcd, pieces: 2}\n"
                "    \n"
                "  - {say: late, delay: 20ms}\n"
                "  - {say: abcdef, pieces: 6, piece_delay: 10ms}\n"
                "  - error: {status: 529}\n",
                stop_everywhere);
}

static int deadline(void *argument)
{
    struct play *play = argument;
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 30 * MS);
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(ask(play, "x"), BL_ETIMEDOUT);
    CHECK_EQUAL(ask(play, "x"), BL_ETIMEDOUT);
    CHECK_STRING(play->recorder.sink.detail, "before the first token");
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    /* The second call was stopped before it took a reply. */
    CHECK_EQUAL(ask(play, "x"), 0);
    CHECK_LOG(&play->recorder, "text \u2026\ntext ok\nusage 1 1\nstop end\n");
    return 0;
}

static void a_deadline_ends_a_wedge_as_timed_out(void **state BL_UNUSED)
{
    with_script("replies: [{wedge: after_first_token}, {say: ok, pieces: 1}]", deadline);
}

static int refused_by_the_sink(void *argument)
{
    struct play *play = argument;
    for (unsigned at = 1; at <= 9; at++) {
        play->recorder.refuse_at = at;
        play->recorder.count = 0;
        CHECK_EQUAL(ask(play, "x"), BL_EPIPE);
        CHECK_EQUAL(play->recorder.count, at);
    }
    play->recorder.refuse_at = 0;
    CHECK_EQUAL(ask(play, "x"), 0);
    return 0;
}

static void the_call_returns_the_code_of_the_sink_at_once(void **state BL_UNUSED)
{
    with_script("replies: [{thinking: t, say: ab, pieces: 2, tools: [{name: n}]}]\nrepeat: true",
                refused_by_the_sink);
}

#define BUILTIN "This is Belay's built-in script model: it repeats your prompt and does not think. "

static void check_builtin(struct play *play, const char *prompt, const char *quoted)
{
    struct bl_text log, line;
    char answer[1024], expected[1024];
    size_t size = 0;

    bl_buffer_clear(&play->recorder.log);
    CHECK_EQUAL(ask(play, prompt), 0);
    log = bl_buffer_text(&play->recorder.log);
    while (bl_text_split(&log, '\n', &line) && bl_text_starts_with(line, BL_TEXT("text "))) {
        memcpy(answer + size, line.data + 5, line.size - 5);
        size += line.size - 5;
    }
    answer[size] = '\0';
    snprintf(expected, sizeof expected, BUILTIN "You said: %s.", quoted);
    CHECK_STRING(answer, expected);
}

/* Characters are quoted whole, at most 200 of them. */
static int builtin_answers(void *argument)
{
    struct play *play = argument;
    char prompt[500], quoted[500];

    check_builtin(play, " hello  there \n", "\"hello  there\" (2 words)");
    for (unsigned count = 199; count <= 201; count++) {
        for (unsigned i = 0; i < count; i++)
            memcpy(prompt + (size_t)i * 2, "\u00e4", 3);
        snprintf(quoted, sizeof quoted, "\"%.400s%s\" (1 word)", prompt,
                 count > 200 ? "\u2026" : "");
        check_builtin(play, prompt, quoted);
    }
    for (int i = 0; i < 100; i++)
        CHECK_EQUAL(ask(play, ""), 0);
    return 0;
}

static void the_built_in_script_answers_anything_any_number_of_times(void **state BL_UNUSED)
{
    with_script(NULL, builtin_answers);
}

static void it_estimates_words_and_costs_nothing(void **state BL_UNUSED)
{
    struct play play;
    play_init(&play, "name: demo\nreplies: [{say: a}]", 1);
    assert_int_equal(recorder_estimate(&play.model, ""), 0);
    assert_int_equal(recorder_estimate(&play.model, "  one\ttwo\nthree  "), 3);
    assert_int_equal(recorder_estimate(&play.model, "1\v2\f3\r4\b5\x0e6"), 4);
    assert_true(play.model.cost_usd(play.model.context, &(struct bl_usage){1, 2}) == 0);
    assert_string_equal(play.model.provider, "script");
    assert_string_equal(play.model.name, "demo");
    assert_string_equal(bl_script_name(play.script), "demo");
    play_done(&play);
    bl_script_player_free(NULL);
    bl_script_free(NULL);
}

/* Plays a run with random timing, and records it with its times. */
static int play_run(void *argument)
{
    struct play *play = argument;
    for (int i = 0; i < 6; i++) {
        ask(play, "go on");
        bl_buffer_printf(&play->recorder.log, "at %llu ms\n",
                         (unsigned long long)(bl_now_ns() / MS));
    }
    return 0;
}

static void the_same_seed_plays_the_same_run(void **state BL_UNUSED)
{
    static const char source[] = "replies:\n"
                                 "  - error: {status: 500, times: 3}\n"
                                 "  - {say: a b c, piece_delay: 3ms}\n"
                                 "  - error: {status: 529, times: 2}\n"
                                 "  - {tools: [{name: x}]}\n"
                                 "repeat: true\n";
    struct play first, second, third;
    play_init(&first, source, 11);
    play_init(&second, source, 11);
    play_init(&third, source, 12);
    run_in_virtual_loop(5, play_run, &first);
    run_in_virtual_loop(5, play_run, &second);
    run_in_virtual_loop(5, play_run, &third);
    assert_string_equal(recorder_log(&first.recorder), recorder_log(&second.recorder));
    assert_string_not_equal(recorder_log(&first.recorder), recorder_log(&third.recorder));
    play_done(&first);
    play_done(&second);
    play_done(&third);
}

static int play_on_real_time(void *argument)
{
    struct play *play = argument;
    CHECK_EQUAL(ask(play, "x"), 0);
    CHECK_LOG(&play->recorder, "text a\ntext b\nusage 1 1\nstop end\n");
    return 0;
}

static void it_plays_on_real_time_too(void **state BL_UNUSED)
{
    struct play play;
    play_init(&play, "replies: [{say: ab, delay: 1ms, piece_delay: 1ms}]", 1);
    run_in_loop(play_on_real_time, &play);
    play_done(&play);
}

SUITE(script, cmocka_unit_test(the_example_of_the_contract_plays_as_written),
      cmocka_unit_test(pieces_are_cut_at_characters_and_never_empty),
      cmocka_unit_test(pieces_together_are_the_text),
      cmocka_unit_test(the_first_unused_reply_that_fits_is_played),
      cmocka_unit_test(repeat_starts_the_script_over),
      cmocka_unit_test(a_repeating_script_where_nothing_fits_is_exhausted_and_no_loop),
      cmocka_unit_test(thinking_calls_ids_and_invalid_inputs_follow_the_script),
      cmocka_unit_test(errors_are_retried_with_the_next_reply),
      cmocka_unit_test(errors_carry_the_servers_hints),
      cmocka_unit_test(a_stop_works_at_any_phase_and_reports_it),
      cmocka_unit_test(a_deadline_ends_a_wedge_as_timed_out),
      cmocka_unit_test(the_call_returns_the_code_of_the_sink_at_once),
      cmocka_unit_test(the_built_in_script_answers_anything_any_number_of_times),
      cmocka_unit_test(it_estimates_words_and_costs_nothing),
      cmocka_unit_test(the_same_seed_plays_the_same_run),
      cmocka_unit_test(it_plays_on_real_time_too));
