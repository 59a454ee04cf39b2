#include <stdio.h>

#include "figure.h"
#include "remotely.h"

static const enum bl_api apis[] = {BL_API_ANTHROPIC, BL_API_OPENAI, BL_API_OPENAI_RESPONSES,
                                   BL_API_OLLAMA};

static bool log_has(struct remotely *remotely, const char *part)
{
    bool has = strstr(recorder_log(&remotely->recorder), part) != NULL;

    if (!has)
        fprintf(stderr, "no '%s' in:\n%s", part, recorder_log(&remotely->recorder));
    return has;
}

static unsigned log_count(struct remotely *remotely, const char *part)
{
    unsigned count = 0;

    for (const char *at = recorder_log(&remotely->recorder); (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static int hello(void *argument)
{
    static struct remotely remotely;

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        remotely_init(&remotely, apis[i]);
        remotely_answer_hello(&remotely);
        remotely_open(&remotely);
        CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
        CHECK(log_has(&remotely, "text Hi.\n"));
        CHECK(log_has(&remotely, "usage 3 2\n"));
        CHECK(log_has(&remotely, "stop end\n"));
        CHECK_STRING(remotely.recorder.sink.detail, "");
        CHECK_EQUAL(peer_requests(remotely.peer), 1);
        remotely_done(&remotely);
    }
    return 0;
}

static void every_format_answers(void **state BL_UNUSED)
{
    run_in_loop(hello, NULL);
}

/* ---- Retries --------------------------------------------------------------------------------- */

static int final_failures(void *argument)
{
    static const struct {
        int status;
        const char *headers, *body, *code;
        enum bl_error_kind kind;
    } cases[] = {
        {400, "", "{\"error\":{\"message\":\"no\"}}", "bad_request", BL_KIND_PROVIDER},
        {401, "", "{\"error\":{\"message\":\"wrong key: sk-test-key\"}}", "auth", BL_KIND_AUTH},
        {402, "", "{\"error\":{\"message\":\"no\"}}", "quota", BL_KIND_PROVIDER},
        {402, "x-should-retry: true\r\n", "{}", "quota", BL_KIND_PROVIDER},
        {403, "", "{\"error\":{\"message\":\"no\"}}", "auth", BL_KIND_AUTH},
        {404, "", "{\"error\":{\"message\":\"no\"}}", "not_found", BL_KIND_PROVIDER},
        {413, "", "too large", "context_overflow", BL_KIND_PROVIDER},
        {422, "", "{\"detail\":\"no\"}", "bad_request", BL_KIND_PROVIDER},
        {429, "",
         "{\"error\":{\"message\":\"no\",\"type\":\"insufficient_quota\",\"code\":"
         "\"insufficient_quota\"}}",
         "quota", BL_KIND_PROVIDER},
        {429, "", "{\"error\":{\"message\":\"no\",\"code\":\"enforced_spend_limit_reached\"}}",
         "quota", BL_KIND_PROVIDER},
        {503, "x-should-retry: false\r\n", "{}", "server", BL_KIND_PROVIDER},
    };
    static struct remotely remotely;

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        for (size_t j = 0; j < BL_COUNT(apis); j++) {
            remotely_init(&remotely, apis[j]);
            remotely_answer(&remotely, cases[i].status, cases[i].headers, "application/json",
                            bl_text_from(cases[i].body));
            remotely_open(&remotely);
            CHECK_EQUAL(remotely_ask(&remotely, "Say hi.") == 0, 0);
            CHECK_EQUAL(peer_requests(remotely.peer), 1);
            if (!CHECK(strcmp(remotely.recorder.error.name, cases[i].code) == 0 &&
                       remotely.recorder.error.kind == cases[i].kind))
                fprintf(stderr, "%d, format %zu: %s: %s\n", cases[i].status, j,
                        remotely.recorder.error.name, remotely.recorder.error.message);
            CHECK(remotely.recorder.error.hint[0] != '\0');
            CHECK(strstr(remotely.recorder.error.message, "sk-test-key") == NULL);
            remotely_done(&remotely);
        }
    }
    return 0;
}

static void P38_permanent_failure_is_not_retried(void **state BL_UNUSED)
{
    run_in_loop(final_failures, NULL);
}

static int should_retry(void *argument)
{
    static struct remotely remotely;

    (void)argument;
    remotely_init(&remotely, BL_API_OPENAI);
    remotely_answer(&remotely, 400, "x-should-retry: true\r\nretry-after-ms: 1\r\n",
                    "application/json", BL_TEXT("{\"error\":{\"message\":\"once more\"}}"));
    remotely_answer_hello(&remotely);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
    CHECK_EQUAL(peer_requests(remotely.peer), 2);
    CHECK(log_has(&remotely, "retry 1 of 4 bad_request 400\n"));
    remotely_done(&remotely);
    return 0;
}

static void P39_retry_hints_of_the_server_are_obeyed(void **state BL_UNUSED)
{
    run_in_loop(should_retry, NULL);
}

static int cut_and_retried(void *argument)
{
    static struct remotely remotely;

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        struct bl_text stream = remotely_hello(apis[i]);
        remotely_init(&remotely, apis[i]);
        /* After the text, and before the end. */
        ptrdiff_t text = bl_text_find(stream, BL_TEXT("Hi."));
        size_t size = (size_t)text;
        while (stream.data[size] != '\n')
            size++;
        remotely_cut(&remotely, stream, size + 2);
        remotely_answer_hello(&remotely);
        remotely_open(&remotely);
        CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
        CHECK_EQUAL(peer_requests(remotely.peer), 2);
        CHECK(log_has(&remotely, "text Hi.\nretry 1 of 4 stream_cut 200\n"));
        CHECK_EQUAL(log_count(&remotely, "stop end"), 1);
        remotely_done(&remotely);
    }
    return 0;
}

static void P29_P41_stream_that_is_cut_is_asked_for_again(void **state BL_UNUSED)
{
    run_in_loop(cut_and_retried, NULL);
}

/* ---- Strange answers ------------------------------------------------------------------------- */

static int strange(void *argument)
{
    static const struct {
        const char *type, *body, *code;
        int status;
    } cases[] = {
        {"text/html", "<html><title>Sign in</title></html>", "bad_response", 200},
        {"application/json", "<!doctype html><title>Oh</title>", "bad_response", 200},
        {"text/event-stream", "data: not json\n\n", "bad_response", 200},
        {"application/json",
         "{\"error\":{\"message\":\"invalid x-api-key\",\"type\":"
         "\"authentication_error\"}}",
         "auth", 200},
        {"text/html", "<html>moved</html>", "redirect", 307},
    };
    static struct remotely remotely;

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        remotely_init(&remotely, BL_API_ANTHROPIC);
        remotely_answer(&remotely, cases[i].status, "Location: http://127.0.0.1:9/elsewhere\r\n",
                        cases[i].type, bl_text_from(cases[i].body));
        remotely_open(&remotely);
        CHECK(remotely_ask(&remotely, "Say hi.") != 0);
        if (!CHECK(strcmp(remotely.recorder.error.name, cases[i].code) == 0))
            fprintf(stderr, "%zu: %s: %s\n", i, remotely.recorder.error.name,
                    remotely.recorder.error.message);
        CHECK_EQUAL(peer_requests(remotely.peer), 1);
        remotely_done(&remotely);
    }
    return 0;
}

static void P13_P30_invalid_answers_are_reported(void **state BL_UNUSED)
{
    run_in_loop(strange, NULL);
}

static int too_large(void *argument)
{
    static char piece[1 << 20];
    static struct remotely remotely;

    (void)argument;
    memset(piece, 'a', sizeof piece);
    for (int endless = 0; endless < 2; endless++) {
        struct peer_act acts[] = {
            {.type = PEER_READ_REQUEST},
            {.type = PEER_SEND,
             .bytes =
                 BL_TEXT("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: \"")},
            {.type = endless ? PEER_SEND_ENDLESS : PEER_SEND_REPEAT,
             .bytes = {piece, sizeof piece},
             .number = 17},
            {.type = PEER_SILENCE}};
        remotely_init(&remotely, BL_API_ANTHROPIC);
        remotely_acts(&remotely, acts, BL_COUNT(acts));
        remotely_open(&remotely);
        double before_kib = figure_memory_kib();
        CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), BL_EIO);
        CHECK(figure_growth(endless ? "P14 memory for an endless line"
                                    : "P14 memory for an event of 17 MiB",
                            before_kib, 40));
        CHECK_STRING(remotely.recorder.error.name, "limit");
        CHECK(!remotely.recorder.error.retryable);
        remotely_done(&remotely);
    }
    return 0;
}

static void P14_event_of_17_mebibytes_and_endless_lines_are_over_the_limit(void **state BL_UNUSED)
{
    run_in_loop(too_large, NULL);
}

/* ---- Fields that a server does not know ------------------------------------------------------ */

static int learns(void *argument)
{
    static struct remotely remotely;

    (void)argument;
    remotely_init(&remotely, BL_API_OPENAI);
    remotely_answer(&remotely, 400, "", "application/json",
                    BL_TEXT("{\"error\":{\"message\":\"Unrecognized request argument supplied: "
                            "stream_options\",\"type\":\"invalid_request_error\"}}"));
    remotely_answer_hello(&remotely);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
    CHECK_EQUAL(peer_requests(remotely.peer), 2);
    CHECK(bl_text_find(peer_request_body(remotely.peer, 0), BL_TEXT("stream_options")) >= 0);
    CHECK_EQUAL(bl_text_find(peer_request_body(remotely.peer, 1), BL_TEXT("stream_options")), -1);
    CHECK_EQUAL(log_count(&remotely, "retry"), 0);
    for (unsigned i = 3; i <= 5; i++) {
        CHECK_EQUAL(remotely_ask(&remotely, "Again."), 0);
        CHECK_EQUAL(peer_requests(remotely.peer), i);
    }
    remotely_done(&remotely);
    return 0;
}

static int learns_to_think(void *argument)
{
    static struct remotely remotely;

    (void)argument;
    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 400, "", "application/json",
                    BL_TEXT("{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
                            "\"message\":\"thinking.type enabled is not supported by this model, "
                            "use adaptive\"}}"));
    remotely_answer_hello(&remotely);
    remotely.profile.thinking = BL_EFFORT_MEDIUM;
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
    CHECK_EQUAL(peer_requests(remotely.peer), 2);
    CHECK(bl_text_find(peer_request_body(remotely.peer, 0), BL_TEXT("budget_tokens")) >= 0);
    struct bl_text adaptive = BL_TEXT("\"thinking\":{\"type\":\"adaptive\"}");
    CHECK(bl_text_find(peer_request_body(remotely.peer, 1), adaptive) >= 0);
    remotely_done(&remotely);
    return 0;
}

static void model_that_refuses_a_thinking_budget_gets_adaptive_thinking(void **state BL_UNUSED)
{
    run_in_loop(learns_to_think, NULL);
}

static void P31_field_that_a_server_refuses_is_left_out_from_then_on(void **state BL_UNUSED)
{
    run_in_loop(learns, NULL);
}

/* ---- Pauses ---------------------------------------------------------------------------------- */

static int pauses(void *argument)
{
    static struct remotely remotely;
    struct bl_text paused = read_fixture("anthropic/pause.sse");

    (void)argument;
    remotely_init(&remotely, BL_API_ANTHROPIC);
    for (int i = 0; i < 3; i++)
        remotely_answer(&remotely, 200, "", "text/event-stream", paused);
    remotely_answer_hello(&remotely);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Search."), 0);
    CHECK_EQUAL(peer_requests(remotely.peer), 4);
    CHECK_EQUAL(log_count(&remotely, "stop "), 1);
    CHECK_EQUAL(log_count(&remotely, "retry"), 0);
    CHECK(peer_request_body(remotely.peer, 3).size > peer_request_body(remotely.peer, 0).size);
    remotely_done(&remotely);
    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 200, "", "text/event-stream", paused);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Search."), BL_EIO);
    CHECK_EQUAL(peer_requests(remotely.peer), 1 + MODEL_PAUSES_MAX);
    CHECK_STRING(remotely.recorder.error.name, "bad_response");
    remotely_done(&remotely);
    bl_free((void *)(uintptr_t)paused.data);
    return 0;
}

static void P35_paused_answer_is_sent_back_unchanged(void **state BL_UNUSED)
{
    run_in_loop(pauses, NULL);
}

/* ---- Cost ------------------------------------------------------------------------------------ */

static int reserves(void *argument)
{
    static struct remotely remotely;
    struct bl_ledger ledger;

    (void)argument;
    remotely_init(&remotely, BL_API_OPENAI);
    remotely_answer_hello(&remotely);
    remotely.profile.price = (struct bl_price){.known = true, .input = 10, .output = 100};
    remotely.profile.max_output_tokens = 4000;
    remotely.ledger = &ledger;
    /* 4,000 tokens of output would cost 0.4 USD: the limit lowers it. */
    bl_ledger_init(&ledger, 0.1, NULL);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
    struct bl_text body = peer_request_body(remotely.peer, 0);
    CHECK(bl_text_find(body, BL_TEXT("\"max_completion_tokens\":9")) >= 0);
    /* Three in, two out. */
    CHECK(ledger.booked_usd > 0.000229 && ledger.booked_usd < 0.000231);
    CHECK(ledger.reserved_usd < 1e-12);
    /* Too little for 512 tokens: nothing is sent. */
    ledger.booked_usd = 0.06;
    remotely.recorder.error = (struct bl_error){0};
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), BL_EBUDGET);
    CHECK_EQUAL(peer_requests(remotely.peer), 1);
    CHECK_STRING(remotely.recorder.sink.detail, "never sent");
    remotely_done(&remotely);
    return 0;
}

static void output_is_lowered_to_what_the_limit_pays_for(void **state BL_UNUSED)
{
    run_in_loop(reserves, NULL);
}

static int keeps_or_gives_back(void *argument)
{
    static const struct {
        int status;
        bool cut;
        bool kept;
    } cases[] = {{400, false, false}, {401, false, false}, {529, false, false}, {200, true, true}};
    static struct remotely remotely;

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_ledger ledger;
        remotely_init(&remotely, BL_API_ANTHROPIC);
        if (cases[i].cut)
            remotely_cut(&remotely, remotely_hello(BL_API_ANTHROPIC), 300);
        else
            remotely_answer(&remotely, cases[i].status, "x-should-retry: false\r\n",
                            "application/json", BL_TEXT("{}"));
        remotely.profile.price = (struct bl_price){
            .known = true, .input = 1, .output = 10, .cache_write = 1, .cache_read = 1};
        remotely.profile.max_output_tokens = 1000;
        remotely.ledger = &ledger;
        bl_ledger_init(&ledger, 0.013, NULL);
        remotely_open(&remotely);
        CHECK(remotely_ask(&remotely, "Say hi.") != 0);
        CHECK(cases[i].kept ? ledger.booked_usd > 0.01 : ledger.booked_usd == 0);
        CHECK(ledger.reserved_usd < 1e-12);
        remotely_done(&remotely);
    }
    return 0;
}

static void unbilled_reservation_is_released_and_that_of_a_cut_call_is_kept(void **state BL_UNUSED)
{
    run_in_loop(keeps_or_gives_back, NULL);
}

static int overruns(void *argument)
{
    static struct remotely remotely;
    struct bl_ledger ledger;
    struct bl_scope scope;

    (void)argument;
    remotely_init(&remotely, BL_API_OPENAI);
    remotely_answer(&remotely, 200, "", "text/event-stream",
                    BL_TEXT("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi.\"},"
                            "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,"
                            "\"completion_tokens\":9000000}}\n\ndata: [DONE]\n\n"));
    remotely.profile.price = (struct bl_price){.known = true, .input = 1, .output = 10};
    remotely.profile.max_output_tokens = 1000;
    remotely.ledger = &ledger;
    bl_scope_init(&scope, bl_scope_current());
    bl_ledger_init(&ledger, 1, &scope);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), BL_EIO);
    CHECK_STRING(remotely.recorder.error.name, "overrun");
    CHECK(bl_scope_stopped(&scope));
    struct bl_stop stop;
    bl_scope_stop_read(&scope, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_BUDGET);
    CHECK_EQUAL(bl_ledger_left(&ledger) > 0, 0);
    remotely_done(&remotely);
    bl_scope_done(&scope);
    return 0;
}

static void server_that_bills_more_than_reserved_stops_the_run(void **state BL_UNUSED)
{
    run_in_loop(overruns, NULL);
}

static void P43_limit_without_a_price_is_refused(void **state BL_UNUSED)
{
    struct bl_ledger ledger;
    struct bl_provider provider = {
        .name = "there", .api = BL_API_OPENAI, .base_url = "http://127.0.0.1:9"};
    struct bl_profile profile = {.model = "test-1"};
    struct bl_remote_options options = {
        .provider = &provider, .profile = &profile, .ledger = &ledger};
    struct bl_remote *remote;
    struct bl_model model;
    struct bl_error error = {0};

    bl_ledger_init(&ledger, 1, NULL);
    assert_int_equal(bl_remote_new(&options, &remote, &model, &error), BL_EINVAL);
    assert_int_equal(error.kind, BL_KIND_USAGE);
}

SUITE(remote, cmocka_unit_test(every_format_answers),
      cmocka_unit_test(P13_P30_invalid_answers_are_reported),
      cmocka_unit_test(P14_event_of_17_mebibytes_and_endless_lines_are_over_the_limit),
      cmocka_unit_test(P29_P41_stream_that_is_cut_is_asked_for_again),
      cmocka_unit_test(P31_field_that_a_server_refuses_is_left_out_from_then_on),
      cmocka_unit_test(model_that_refuses_a_thinking_budget_gets_adaptive_thinking),
      cmocka_unit_test(P35_paused_answer_is_sent_back_unchanged),
      cmocka_unit_test(P38_permanent_failure_is_not_retried),
      cmocka_unit_test(P39_retry_hints_of_the_server_are_obeyed),
      cmocka_unit_test(output_is_lowered_to_what_the_limit_pays_for),
      cmocka_unit_test(unbilled_reservation_is_released_and_that_of_a_cut_call_is_kept),
      cmocka_unit_test(server_that_bills_more_than_reserved_stops_the_run),
      cmocka_unit_test(P43_limit_without_a_price_is_refused));
