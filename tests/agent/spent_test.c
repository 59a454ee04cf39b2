/* The cost of a turn with a provider, also of one that was cut or retried. */
#include "provided.h"

#include <stdio.h>

#define SAME_USD   1e-12
#define OUTPUT_MAX 1000u

static const struct bl_price price = {
    .known = true, .input = 3, .output = 15, .cache_read = 0.3, .cache_write = 3.75};

static bool same(double a, double b)
{
    return a - b < SAME_USD && b - a < SAME_USD;
}

static void init_priced(struct provided *provided, struct bl_ledger *ledger)
{
    provided_init(provided, BL_API_ANTHROPIC);
    provided->profile.price = price;
    provided->profile.max_output_tokens = OUTPUT_MAX;
    provided->ledger = ledger;
    if (ledger != NULL)
        bl_ledger_init(ledger, 1, NULL);
}

/* Returns the most that the request may cost: all of its bytes, and all of the output. */
static double worst(const struct provided *provided, unsigned request)
{
    return bl_price_worst(&price, peer_request_body(provided->peer, request).size, OUTPUT_MAX);
}

static double cost(uint64_t input, uint64_t output)
{
    return bl_price_cost(&price, &(struct bl_usage){input, output}, &(struct bl_usage_detail){0});
}

/* Stops the turn at that event. */
struct stopper {
    struct provided *provided;
    struct bl_listener inner;
    enum bl_event_type at;
};

static void hear_and_stop(void *context, const struct bl_event *event)
{
    struct stopper *stopper = context;

    stopper->inner.event(stopper->inner.context, event);
    if (event->type == stopper->at)
        bl_scope_stop(&stopper->provided->scope, BL_STOP_USER, "test");
}

static void stop_at(struct stopper *stopper, struct provided *provided, enum bl_event_type at)
{
    *stopper = (struct stopper){provided, provided->listener, at};
    provided->listener = (struct bl_listener){hear_and_stop, stopper};
}

/* Returns the stream up to the end of its text. */
static struct bl_text beginning(void)
{
    struct bl_text stream = remotely_hello(BL_API_ANTHROPIC);

    return (struct bl_text){stream.data,
                            (size_t)bl_text_find(stream, BL_TEXT("data: {\"type\":\"message_d"))};
}

static int cut_turn(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);
    struct bl_ledger ledger;
    struct stopper stopper;
    char detail[64];

    for (int limited = 0; limited < 2; limited++) {
        init_priced(provided, limited ? &ledger : NULL);
        provided_silence(provided, beginning());
        provided_open(provided);
        stop_at(&stopper, provided, BL_EVENT_TEXT_DELTA);
        CHECK_EQUAL(provided_turn(provided, "Say hi."), BL_TURN_CANCELLED);
        const struct bl_spent *spent = &provided->result.spent;
        /* By the usage snapshot that arrived. */
        CHECK_EQUAL(spent->usage.input_tokens, 3);
        CHECK_EQUAL(spent->usage.output_tokens, 1);
        CHECK(!spent->cost_unknown);
        CHECK(same(spent->cost_usd, cost(3, 1)));
        CHECK(same(spent->cost_usd_max, worst(provided, 0)));
        CHECK_EQUAL(bl_usage_total(&provided->result.usage), 0);
        snprintf(detail, sizeof detail, "\"stream cut after %zu bytes\"", beginning().size);
        CHECK(has(provided->result.receipt, detail));
        CHECK(has(provided->result.receipt, "\"fate\":\"aborted\""));
        if (limited) {
            CHECK(same(ledger.booked_usd, worst(provided, 0)));
            CHECK(same(ledger.reserved_usd, 0));
        }
        provided_done(provided);
    }
    bl_free(provided);
    return 0;
}

static void turn_that_was_cut_may_cost_all_that_was_reserved(void **state BL_UNUSED)
{
    run_in_loop(cut_turn, NULL);
}

static int failed_attempts(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);
    struct bl_ledger ledger;

    init_priced(provided, &ledger);
    provided_cut(provided, remotely_hello(BL_API_ANTHROPIC), beginning().size, true);
    provided_error(provided, 529, "retry-after-ms: 1", "{}");
    provided_hello(provided);
    provided_open(provided);
    CHECK_EQUAL(provided_turn(provided, "Say hi."), BL_TURN_COMPLETED);
    CHECK_EQUAL(peer_requests(provided->peer), 3);
    CHECK_EQUAL(provided->retries, 2);
    const struct bl_turn_result *result = &provided->result;
    CHECK_EQUAL(result->usage.input_tokens, 3);
    CHECK_EQUAL(result->usage.output_tokens, 2);
    CHECK_EQUAL(result->spent.usage.input_tokens, 6);
    CHECK_EQUAL(result->spent.usage.output_tokens, 3);
    CHECK(same(result->spent.cost_usd, cost(3, 1) + cost(3, 2)));
    /* A refusal with 529 is not billed. */
    CHECK(same(result->spent.cost_usd_max, worst(provided, 0) + cost(3, 2)));
    CHECK(same(ledger.booked_usd, result->spent.cost_usd_max));
    CHECK_EQUAL(bl_usage_total(&provided->session.usage), 5);
    provided_done(provided);
    bl_free(provided);
    return 0;
}

static void attempts_that_failed_are_spent_and_not_used(void **state BL_UNUSED)
{
    run_in_loop(failed_attempts, NULL);
}

static int stopped_in_backoff(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);
    struct bl_ledger ledger;
    struct stopper stopper;

    init_priced(provided, &ledger);
    provided_error(provided, 529, "retry-after-ms: 30000", "{}");
    provided_open(provided);
    stop_at(&stopper, provided, BL_EVENT_RETRY);
    CHECK_EQUAL(provided_turn(provided, "Say hi."), BL_TURN_CANCELLED);
    CHECK(has(provided->result.receipt, "\"in backoff 1 of 4\""));
    CHECK(has(provided->result.receipt, "\"fate\":\"aborted\""));
    CHECK_EQUAL(peer_requests(provided->peer), 1);
    /* Nothing was in flight, and the failed attempt is not billed. */
    CHECK_EQUAL(bl_usage_total(&provided->result.spent.usage), 0);
    CHECK(same(provided->result.spent.cost_usd, 0));
    CHECK(same(provided->result.spent.cost_usd_max, 0));
    CHECK(same(ledger.booked_usd, 0));
    provided_done(provided);
    bl_free(provided);
    return 0;
}

static void P1_stop_in_backoff_is_in_the_receipt_and_costs_nothing(void **state BL_UNUSED)
{
    run_in_loop(stopped_in_backoff, NULL);
}

static int never_sent(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);
    struct bl_ledger ledger;

    init_priced(provided, &ledger);
    /* Connecting hangs. */
    provided_open(provided);
    provided->turn_ns = 100 * MS;
    CHECK_EQUAL(provided_turn(provided, "Say hi."), BL_TURN_TIMEOUT);
    CHECK(has(provided->result.receipt, "\"in connect\""));
    CHECK_EQUAL(bl_usage_total(&provided->result.spent.usage), 0);
    CHECK(same(provided->result.spent.cost_usd_max, 0));
    CHECK(same(ledger.booked_usd, 0) && same(ledger.reserved_usd, 0));
    provided_done(provided);
    bl_free(provided);
    return 0;
}

static void turn_that_was_stopped_before_it_was_sent_costs_nothing(void **state BL_UNUSED)
{
    run_in_loop(never_sent, NULL);
}

static int refused_for_cost(void *argument BL_UNUSED)
{
    struct provided *provided = bl_alloc(sizeof *provided);
    struct bl_ledger ledger;

    init_priced(provided, &ledger);
    provided->provider.api = BL_API_OPENAI; /* this format has no token counter */
    provided_hello(provided);
    provided_open(provided);
    ledger.limit_usd = 0.0001;
    CHECK_EQUAL(provided_turn(provided, "Say hi."), BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(peer_requests(provided->peer), 0);
    CHECK_EQUAL(bl_usage_total(&provided->result.spent.usage), 0);
    CHECK(same(provided->result.spent.cost_usd_max, 0));
    ledger.limit_usd = 1;
    CHECK_EQUAL(provided_turn(provided, "Say hi."), BL_TURN_COMPLETED);
    CHECK(same(ledger.booked_usd, cost(3, 2)));
    provided_done(provided);
    bl_free(provided);
    return 0;
}

static void turn_that_the_limit_does_not_cover_is_not_sent(void **state BL_UNUSED)
{
    run_in_loop(refused_for_cost, NULL);
}

SUITE(spent, cmocka_unit_test(P1_stop_in_backoff_is_in_the_receipt_and_costs_nothing),
      cmocka_unit_test(turn_that_was_cut_may_cost_all_that_was_reserved),
      cmocka_unit_test(attempts_that_failed_are_spent_and_not_used),
      cmocka_unit_test(turn_that_was_stopped_before_it_was_sent_costs_nothing),
      cmocka_unit_test(turn_that_the_limit_does_not_cover_is_not_sent));
