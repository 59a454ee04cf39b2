#include "recorder.h"

#define MS BL_NS_PER_MS

static struct bl_model_failure failure_of(int status, const char *code)
{
    return (struct bl_model_failure){
        .status = status, .code = code, .retry_after_ms = -1, .should_retry = -1};
}

/* The table of failure codes. */
static const struct {
    int status;
    const char *code;
    const char *name; /* the resulting code */
    enum bl_error_kind kind;
    bool retryable;
} table[] = {
    {0, "connect", "connect", BL_KIND_PROVIDER, true},
    {0, "dns", "dns", BL_KIND_PROVIDER, true},
    {0, "stream_cut", "stream_cut", BL_KIND_PROVIDER, true},
    {0, "tls", "tls", BL_KIND_PROVIDER, false},
    {307, "redirect", "redirect", BL_KIND_PROVIDER, false},
    {307, NULL, "redirect", BL_KIND_PROVIDER, false},
    {200, "bad_response", "bad_response", BL_KIND_PROVIDER, false},
    {200, NULL, "bad_response", BL_KIND_PROVIDER, false},
    {0, "limit", "limit", BL_KIND_PROVIDER, false},
    {0, "first_byte", "first_byte", BL_KIND_PROVIDER_TIMEOUT, true},
    {0, "stall", "stall", BL_KIND_PROVIDER_TIMEOUT, true},
    {408, NULL, "server", BL_KIND_PROVIDER, true},
    {409, NULL, "server", BL_KIND_PROVIDER, true},
    {500, NULL, "server", BL_KIND_PROVIDER, true},
    {503, NULL, "server", BL_KIND_PROVIDER, true},
    {599, NULL, "server", BL_KIND_PROVIDER, true},
    {429, NULL, "rate_limited", BL_KIND_PROVIDER, true},
    {529, NULL, "overloaded", BL_KIND_PROVIDER, true},
    {200, "overloaded", "overloaded", BL_KIND_PROVIDER, true},
    {400, NULL, "bad_request", BL_KIND_PROVIDER, false},
    {422, NULL, "bad_request", BL_KIND_PROVIDER, false},
    {418, NULL, "bad_request", BL_KIND_PROVIDER, false},
    {404, NULL, "not_found", BL_KIND_PROVIDER, false},
    {401, NULL, "auth", BL_KIND_AUTH, false},
    {403, NULL, "auth", BL_KIND_AUTH, false},
    {402, NULL, "quota", BL_KIND_PROVIDER, false},
    {429, "quota", "quota", BL_KIND_PROVIDER, false},
    {413, NULL, "context_overflow", BL_KIND_PROVIDER, false},
    {200, "refusal", "refusal", BL_KIND_PROVIDER, false},
    {500, "overrun", "overrun", BL_KIND_PROVIDER, false},
};

static void kinds_and_retries_follow_the_table(void **state BL_UNUSED)
{
    for (size_t i = 0; i < BL_COUNT(table); i++) {
        struct bl_model_failure failure = failure_of(table[i].status, table[i].code);
        if (table[i].code == NULL)
            assert_string_equal(bl_model_status_code(table[i].status), table[i].name);
        if (bl_model_failure_kind(&failure) != table[i].kind ||
            bl_model_failure_retryable(&failure) != table[i].retryable)
            fail_msg("row %zu: %s", i, table[i].name);
    }
}

static void the_connect_timer_is_a_provider_timeout(void **state BL_UNUSED)
{
    struct bl_model_failure failure = failure_of(0, "connect");
    failure.timed_out = true;
    assert_int_equal(bl_model_failure_kind(&failure), BL_KIND_PROVIDER_TIMEOUT);
    assert_true(bl_model_failure_retryable(&failure));
}

static void the_servers_word_on_retries_is_obeyed(void **state BL_UNUSED)
{
    for (size_t i = 0; i < BL_COUNT(table); i++) {
        struct bl_model_failure failure = failure_of(table[i].status, table[i].code);
        const char *name = table[i].name;
        failure.should_retry = 0;
        assert_false(bl_model_failure_retryable(&failure));
        failure.should_retry = 1;
        bool never = strcmp(name, "quota") == 0 || strcmp(name, "auth") == 0 ||
                     strcmp(name, "context_overflow") == 0;
        assert_int_equal(bl_model_failure_retryable(&failure), !never);
    }
}

/* The effect of one call of bl_model_retry on a fresh recorder. */
struct trial {
    struct recorder recorder;
    struct bl_model_retries retries;
    struct bl_random random;
    int result;
    uint64_t waited_ns;
};

static void try_retry(struct trial *trial, const struct bl_model_failure *failure)
{
    uint64_t start_ns = bl_now_ns();
    trial->recorder.error = (struct bl_error){0};
    trial->result = bl_model_retry(&trial->retries, failure, &trial->random, &trial->recorder.sink,
                                   "acme", &trial->recorder.error);
    trial->waited_ns = bl_now_ns() - start_ns;
}

static void trial_init(struct trial *trial, uint64_t seed)
{
    *trial = (struct trial){0};
    recorder_init(&trial->recorder);
    bl_random_seed(&trial->random, seed);
}

static int waits_grow(void *argument BL_UNUSED)
{
    static const uint64_t highest_ms[] = {500, 1000, 2000, 4000};
    struct bl_model_failure failure = failure_of(529, NULL);
    uint64_t longest_ms[4] = {0};

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct trial trial;
        trial_init(&trial, seed);
        for (unsigned i = 0; i < BL_MODEL_RETRIES_MAX; i++) {
            try_retry(&trial, &failure);
            CHECK_EQUAL(trial.result, 0);
            CHECK_EQUAL(trial.waited_ns, trial.recorder.retry_ms * MS);
            CHECK(trial.recorder.retry_ms >= 100 && trial.recorder.retry_ms <= highest_ms[i]);
            if (trial.recorder.retry_ms > longest_ms[i])
                longest_ms[i] = trial.recorder.retry_ms;
            CHECK_STRING(trial.recorder.sink.detail, "");
        }
        CHECK_LOG(&trial.recorder, "retry 1 of 4 overloaded 529\nretry 2 of 4 overloaded 529\n"
                                   "retry 3 of 4 overloaded 529\nretry 4 of 4 overloaded 529\n");
        try_retry(&trial, &failure);
        CHECK_EQUAL(trial.result, BL_EIO);
        CHECK_EQUAL(trial.recorder.error.kind, BL_KIND_PROVIDER);
        CHECK(trial.recorder.error.retryable);
        CHECK_STRING(trial.recorder.error.name, "overloaded");
        CHECK_STRING(trial.recorder.error.operation, "call the model");
        CHECK_STRING(trial.recorder.error.target, "acme");
        CHECK_STRING(trial.recorder.error.message,
                     "the provider is overloaded (status 529), after 4 retries");
        CHECK(trial.recorder.error.hint[0] != '\0');
        CHECK_LOG(&trial.recorder, "");
        recorder_done(&trial.recorder);
    }
    for (unsigned i = 0; i < 4; i++)
        CHECK(longest_ms[i] > highest_ms[i] * 3 / 4);
    return 0;
}

static void waits_are_random_and_grow_and_end_after_four(void **state BL_UNUSED)
{
    run_in_virtual_loop(1, waits_grow, NULL);
}

static int hints_are_minimums(void *argument BL_UNUSED)
{
    struct bl_model_failure failure = failure_of(429, NULL);
    failure.retry_after_ms = 2000;
    uint64_t shortest_ms = UINT64_MAX, longest_ms = 0;

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct trial trial;
        trial_init(&trial, seed);
        try_retry(&trial, &failure);
        CHECK_EQUAL(trial.result, 0);
        CHECK_EQUAL(trial.waited_ns, trial.recorder.retry_ms * MS);
        if (trial.recorder.retry_ms < shortest_ms)
            shortest_ms = trial.recorder.retry_ms;
        if (trial.recorder.retry_ms > longest_ms)
            longest_ms = trial.recorder.retry_ms;
        recorder_done(&trial.recorder);
    }
    CHECK(shortest_ms >= 2000 && shortest_ms < 2100);
    CHECK(longest_ms <= 2500 && longest_ms > 2400);
    return 0;
}

static void a_hint_is_a_minimum_with_up_to_a_quarter_more(void **state BL_UNUSED)
{
    run_in_virtual_loop(1, hints_are_minimums, NULL);
}

static int no_time(void *argument BL_UNUSED)
{
    struct bl_model_failure failure = failure_of(503, NULL);
    struct trial trial;
    trial_init(&trial, 1);

    failure.retry_after_ms = 60000;
    try_retry(&trial, &failure);
    CHECK_EQUAL(trial.result, 0);
    failure.retry_after_ms = 60001;
    try_retry(&trial, &failure);
    CHECK_EQUAL(trial.result, BL_EIO);
    CHECK_EQUAL(trial.waited_ns, 0);
    CHECK(trial.recorder.error.retryable);
    CHECK_EQUAL(trial.recorder.error.kind, BL_KIND_PROVIDER);
    CHECK_STRING(trial.recorder.error.name, "no_time_to_retry");

    /* A wait that would end exactly at the deadline is too long; a shorter one is not. */
    struct bl_scope scope, *outer;
    failure.retry_after_ms = 0;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 3 * MS);
    outer = bl_scope_enter(&scope);
    try_retry(&trial, &failure);
    CHECK_EQUAL(trial.result, 0);
    failure.retry_after_ms = 3;
    try_retry(&trial, &failure);
    CHECK_EQUAL(trial.result, BL_EIO);
    CHECK_STRING(trial.recorder.error.name, "no_time_to_retry");
    CHECK(trial.recorder.error.retryable);
    bl_scope_set_deadline(&scope, bl_now_ns() + 2000 * MS);
    failure.retry_after_ms = 10000;
    try_retry(&trial, &failure);
    CHECK_STRING(trial.recorder.error.name, "no_time_to_retry");
    CHECK_EQUAL(trial.waited_ns, 0);
    /* A failure that must not be retried is returned as it is, also without time. */
    struct bl_model_failure refused = failure_of(401, NULL);
    try_retry(&trial, &refused);
    CHECK_EQUAL(trial.result, BL_EACCES);
    CHECK_EQUAL(trial.recorder.error.kind, BL_KIND_AUTH);
    CHECK_STRING(trial.recorder.error.name, "auth");
    CHECK(!trial.recorder.error.retryable);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    recorder_done(&trial.recorder);
    return 0;
}

static void without_time_it_fails_at_once_and_may_be_tried_again(void **state BL_UNUSED)
{
    run_in_virtual_loop(1, no_time, NULL);
}

struct stopper {
    struct bl_scope scope;
    struct trial trial;
};

static int retry_in_scope(void *argument)
{
    struct stopper *stopper = argument;
    struct bl_model_failure failure = failure_of(529, NULL);
    failure.retry_after_ms = 50000;
    stopper->trial.retries.attempt = 1;
    try_retry(&stopper->trial, &failure);
    return 0;
}

static int stop_in_backoff(void *argument BL_UNUSED)
{
    struct stopper stopper;
    struct bl_nursery nursery;
    trial_init(&stopper.trial, 1);
    bl_scope_init(&stopper.scope, bl_scope_current());
    bl_nursery_init(&nursery, &stopper.scope);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "call", retry_in_scope, &stopper, NULL), 0);
    CHECK_EQUAL(bl_sleep(10 * MS), 0);
    CHECK(bl_scope_stop(&stopper.scope, BL_STOP_USER, "test"));
    bl_nursery_join(&nursery);
    CHECK_EQUAL(stopper.trial.result, BL_ECANCELED);
    CHECK_EQUAL(stopper.trial.waited_ns, 10 * MS);
    CHECK_EQUAL(stopper.trial.recorder.error.code, 0);
    CHECK_STRING(stopper.trial.recorder.sink.detail, "in backoff 2 of 4");
    CHECK_LOG(&stopper.trial.recorder, "retry 2 of 4 overloaded 529\n");
    bl_nursery_done(&nursery);
    bl_scope_done(&stopper.scope);
    recorder_done(&stopper.trial.recorder);
    return 0;
}

static void a_stop_ends_the_wait_and_reports_its_position(void **state BL_UNUSED)
{
    run_in_virtual_loop(1, stop_in_backoff, NULL);
}

static int stopped_before(void *argument BL_UNUSED)
{
    struct bl_model_failure failure = failure_of(529, NULL);
    struct bl_scope scope;
    struct trial trial;
    trial_init(&trial, 1);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *outer = bl_scope_enter(&scope);
    try_retry(&trial, &failure);
    bl_scope_enter(outer);
    CHECK_EQUAL(trial.result, BL_ECANCELED);
    CHECK_LOG(&trial.recorder, "");

    trial.recorder.refuse_at = 1;
    trial.recorder.count = 0;
    try_retry(&trial, &failure);
    CHECK_EQUAL(trial.result, BL_EPIPE);
    CHECK_EQUAL(trial.waited_ns, 0);
    bl_scope_done(&scope);
    recorder_done(&trial.recorder);
    return 0;
}

static void after_a_stop_no_retry_is_reported_and_a_refusing_sink_ends_it(void **state BL_UNUSED)
{
    run_in_virtual_loop(1, stopped_before, NULL);
}

static int messages_name_all(void *argument BL_UNUSED)
{
    struct bl_model_failure failure = failure_of(0, "connect");
    struct trial trial;
    trial_init(&trial, 1);
    failure.timed_out = true;
    failure.should_retry = 0;
    trial.retries.attempt = 1;
    bl_text_into(failure.message, sizeof failure.message, "10 s are over");
    try_retry(&trial, &failure);
    CHECK_EQUAL(trial.recorder.error.kind, BL_KIND_PROVIDER_TIMEOUT);
    CHECK_STRING(trial.recorder.error.message,
                 "timed out connecting to the provider, after 1 retry: 10 s are over");
    recorder_done(&trial.recorder);
    return 0;
}

static void the_message_has_the_failure_the_retries_and_the_servers_message(void **state BL_UNUSED)
{
    run_in_virtual_loop(1, messages_name_all, NULL);
}

SUITE(retry, cmocka_unit_test(kinds_and_retries_follow_the_table),
      cmocka_unit_test(the_connect_timer_is_a_provider_timeout),
      cmocka_unit_test(the_servers_word_on_retries_is_obeyed),
      cmocka_unit_test(waits_are_random_and_grow_and_end_after_four),
      cmocka_unit_test(a_hint_is_a_minimum_with_up_to_a_quarter_more),
      cmocka_unit_test(without_time_it_fails_at_once_and_may_be_tried_again),
      cmocka_unit_test(a_stop_ends_the_wait_and_reports_its_position),
      cmocka_unit_test(after_a_stop_no_retry_is_reported_and_a_refusing_sink_ends_it),
      cmocka_unit_test(the_message_has_the_failure_the_retries_and_the_servers_message));
