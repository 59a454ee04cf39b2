#include <stdio.h>

#include "remotely.h"

#define LIMIT_USD   0.05
#define AGENTS      8u
#define TURNS_MAX   4u
#define WORDS       400u /* of a prompt; five bytes each */
#define OUTPUT_MAX  512u /* most that the server uses: the least that is ever requested */
#define SAME_USD    1e-9
#define SCRIPT_SIZE 16384u

/* ---- The ledger itself ----------------------------------------------------------------------- */

static void ledger_reserves_only_the_rest_of_the_limit(void **state BL_UNUSED)
{
    struct bl_ledger ledger;

    bl_ledger_init(&ledger, 1, NULL);
    assert_true(bl_ledger_reserve(&ledger, 0.75));
    assert_false(bl_ledger_reserve(&ledger, 0.5));
    assert_true(bl_ledger_reserve(&ledger, 0.25));
    assert_true(bl_ledger_left(&ledger) == 0);
    assert_true(bl_ledger_reserve(&ledger, 0));
    assert_false(bl_ledger_reserve(&ledger, 0.001));
    assert_true(bl_ledger_settle(&ledger, 0.75, 0.25));
    assert_true(bl_ledger_left(&ledger) == 0.5);
    assert_true(bl_ledger_settle(&ledger, 0.25, 0.25));
    assert_true(bl_ledger_left(&ledger) == 0.5);
    assert_true(ledger.reserved_usd == 0 && ledger.booked_usd == 0.5);
}

static void nothing_is_left_after_an_overrun(void **state BL_UNUSED)
{
    struct bl_ledger ledger;

    bl_ledger_init(&ledger, 1, NULL);
    assert_true(bl_ledger_reserve(&ledger, 0.1));
    assert_false(bl_ledger_settle(&ledger, 0.1, 0.2));
    assert_true(ledger.overrun);
    assert_true(bl_ledger_left(&ledger) == 0);
    assert_false(bl_ledger_reserve(&ledger, 0));
}

static int pauses(void *argument BL_UNUSED)
{
    static struct remotely remotely;
    struct bl_ledger ledger;
    struct bl_text paused = read_fixture("anthropic/pause.sse");
    struct bl_text silent = read_fixture("anthropic/no_usage.sse");

    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 200, "", "text/event-stream", paused);
    remotely_answer(&remotely, 200, "", "text/event-stream", silent);
    remotely.profile.price = (struct bl_price){.known = true, .input = 1, .output = 1};
    remotely.profile.max_output_tokens = 1000;
    remotely.ledger = &ledger;
    bl_ledger_init(&ledger, 1, NULL);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Search."), 0);
    CHECK_EQUAL(peer_requests(remotely.peer), 2);
    /* 70 reported tokens, and the most that the second call may have cost. */
    double most_usd = (70 + (double)peer_request_body(remotely.peer, 1).size + 1000) / 1000 / 1000;
    CHECK(ledger.booked_usd > most_usd - SAME_USD && ledger.booked_usd < most_usd + SAME_USD);
    const char *log = recorder_log(&remotely.recorder);
    CHECK(strstr(log, "usage 30 40") != NULL);
    CHECK(strstr(log, " estimated") != NULL);
    remotely_done(&remotely);
    bl_free((void *)(uintptr_t)paused.data);
    bl_free((void *)(uintptr_t)silent.data);
    return 0;
}

static void part_of_an_answer_without_usage_is_booked_whole(void **state BL_UNUSED)
{
    run_in_loop(pauses, NULL);
}

/* An image of a million bytes reserves its highest cost, which does not depend on its size. */
static int shows(void *argument)
{
    uint64_t tokens_max = *(const uint64_t *)argument;
    static struct remotely remotely;
    struct bl_ledger ledger;
    struct asking asking;
    struct bl_text silent = read_fixture("anthropic/no_usage.sse");
    char *data = bl_alloc(1000000);

    memset(data, 'A', 1000000);
    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 200, "", "text/event-stream", silent);
    remotely.profile.price = (struct bl_price){.known = true, .input = 1, .output = 1};
    remotely.profile.max_output_tokens = 1000;
    remotely.profile.image_tokens_max = tokens_max;
    remotely.ledger = &ledger;
    bl_ledger_init(&ledger, 0.1, NULL);
    remotely_open(&remotely);
    asking_init(&asking, &model_api_anthropic, "test", "[]");
    struct bl_message *message = bl_message_add(&asking.arena, &asking.messages, BL_ROLE_USER);
    struct bl_block *image = bl_block_add(&asking.arena, message, BL_BLOCK_IMAGE);
    image->name = BL_TEXT("image/png");
    image->text = (struct bl_text){data, 1000000};
    CHECK_EQUAL(remotely.model.estimate(remotely.model.context, &asking.request), 1600);
    CHECK_EQUAL(remotely.model.call(remotely.model.context, &asking.request,
                                    &remotely.recorder.sink, &remotely.recorder.error),
                0);
    size_t text = peer_request_body(remotely.peer, 0).size - 1000000;
    double most_usd = ((double)text + (double)(tokens_max > 0 ? tokens_max : 50000) + 1000) / 1e6;
    CHECK(ledger.booked_usd > most_usd - SAME_USD && ledger.booked_usd < most_usd + SAME_USD);
    asking_done(&asking);
    remotely_done(&remotely);
    bl_free(data);
    bl_free((void *)(uintptr_t)silent.data);
    return 0;
}

static void an_image_is_reserved_for_by_its_tokens(void **state BL_UNUSED)
{
    run_in_loop(shows, &(uint64_t){0});
    run_in_loop(shows, &(uint64_t){1600});
}

/* ---- Agents at a market ---------------------------------------------------------------------- */

static const struct bl_price price = {
    .known = true, .input = 1, .output = 5, .cache_read = 0.1, .cache_write = 1.25};

/* A server that keeps a bill, and agents that share one limit. */
struct market {
    struct bl_random random;
    struct bl_nursery nursery;
    struct bl_ledger ledger;
    struct bl_provider provider;
    struct bl_profile profile;
    struct bl_remote *remote;
    struct bl_model model; /* of the remote */
    struct bl_script *script;
    struct bl_script_server *server;
    bool stops; /* at random, during the calls */
    double bill_usd;
    unsigned served;  /* requests for an answer that reached the server */
    unsigned sent;    /* attempts that the cost limit allowed */
    unsigned refused; /* attempts that it refused */
    char url[64];
    char prompt[WORDS * 5 + 1];
};

struct agent {
    struct market *market;
    struct bl_scope scope;
    struct bl_arena arena;
    struct bl_session session;
    struct bl_engine engine;
    struct bl_model model;
    struct bl_turn_result result;
    unsigned executions;
};

static void keep_bill(void *context, const struct bl_script_served *served)
{
    struct market *market = context;

    if (bl_text_equal(served->path, BL_TEXT("/v1/messages/count_tokens")))
        return;
    market->served++;
    market->bill_usd += bl_price_cost(&price, &served->usage, &(struct bl_usage_detail){0});
}

/* ---- Random scripts -------------------------------------------------------------------------- */

static void add_reply(struct market *market, struct bl_buffer *out)
{
    struct bl_random *random = &market->random;
    static const int statuses[] = {529, 500, 429, 400, 503};
    uint64_t kind = bl_random_below(random, 20);

    if (kind == 0) {
        bl_buffer_printf(out, "{\"error\":{\"status\":%d,\"retry_after\":\"1ms\"}}",
                         statuses[bl_random_below(random, BL_COUNT(statuses))]);
        return;
    }
    /* These wait for a long time: only used with stops. */
    if (market->stops && kind == 1) {
        bl_buffer_printf(out, "{\"error\":{\"code\":\"stream_cut\"}}");
        return;
    }
    bl_buffer_printf(out, "{\"usage\":{\"input\":%llu,\"output\":%llu},\"pieces\":%llu",
                     (unsigned long long)bl_random_below(random, WORDS + 1),
                     (unsigned long long)bl_random_below(random, OUTPUT_MAX + 1),
                     1 + (unsigned long long)bl_random_below(random, 6));
    if (market->stops && kind == 2)
        bl_buffer_printf(out, ",\"wedge\":\"%s_first_token\"",
                         bl_random_below(random, 2) == 0 ? "before" : "after");
    if (kind % 3 == 0)
        bl_buffer_printf(out, ",\"piece_delay\":\"1ms\"");
    if (kind % 4 == 0)
        bl_buffer_printf(out, ",\"thinking\":\"Let me see.\"");
    if (kind % 5 < 2)
        bl_buffer_printf(out, ",\"tools\":[{\"name\":\"count\"}]");
    bl_buffer_printf(out, ",\"say\":\"Some words for you.\"}");
}

static void make_script(struct market *market)
{
    uint64_t count = 4 + bl_random_below(&market->random, 24);
    struct bl_buffer out;
    struct bl_error error = {0};

    bl_buffer_init(&out, SCRIPT_SIZE);
    bl_buffer_printf(&out, "{\"repeat\":true,\"replies\":[");
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0)
            bl_buffer_append_byte(&out, ',');
        add_reply(market, &out);
    }
    bl_buffer_printf(&out, "]}");
    if (!CHECK_EQUAL(bl_script_parse(bl_buffer_text(&out), "chance", &market->script, &error), 0))
        fprintf(stderr, "%s\n", error.message);
    bl_buffer_done(&out);
}

/* ---- One agent ------------------------------------------------------------------------------- */

/* Forwards pieces, and counts attempts. */
struct counting_sink {
    struct bl_sink sink;
    struct bl_sink *outer;
    unsigned retries;
};

static int take_piece(struct bl_sink *sink, const struct bl_piece *piece)
{
    struct counting_sink *counting = BL_CONTAINER(sink, struct counting_sink, sink);

    counting->retries += piece->type == BL_PIECE_RETRY;
    counting->outer->reserved_usd = sink->reserved_usd;
    return counting->outer->take(counting->outer, piece);
}

static int counted_call(void *context, const struct bl_request *request, struct bl_sink *sink,
                        struct bl_error *error)
{
    struct market *market = context;
    struct counting_sink *counting = bl_zalloc(sizeof *counting);

    counting->sink.take = take_piece;
    counting->outer = sink;
    int code = market->model.call(market->model.context, request, &counting->sink, error);
    market->sent += 1 + counting->retries;
    if (code == BL_EBUDGET) {
        market->sent--;
        market->refused++;
        CHECK(strcmp(counting->sink.detail, "never sent") == 0);
    }
    sink->reserved_usd = counting->sink.reserved_usd;
    bl_text_into(sink->detail, sizeof sink->detail, counting->sink.detail);
    bl_free(counting);
    return code;
}

static uint64_t counted_estimate(void *context, const struct bl_request *request)
{
    const struct market *market = context;
    return market->model.estimate(market->model.context, request);
}

static enum bl_permit permit(void *context BL_UNUSED, const struct bl_tool_call *call BL_UNUSED,
                             char *ret_reason BL_UNUSED, size_t reason_size BL_UNUSED)
{
    return BL_PERMIT_ALLOWED;
}

static int count(void *context, const struct bl_tool_call *call BL_UNUSED,
                 struct bl_tool_result *ret_result, struct bl_error *error BL_UNUSED)
{
    struct agent *agent = context;

    agent->executions++;
    *ret_result = (struct bl_tool_result){.text = BL_TEXT("one more")};
    return 0;
}

static void take_turns(struct agent *agent)
{
    struct market *market = agent->market;
    struct bl_receipt receipt;
    struct bl_journal journal;

    bl_receipt_open(&receipt, &agent->scope, "agent");
    bl_journal_init(&journal, &agent->engine, "run_test", agent->session.id);
    for (unsigned i = 0; i < TURNS_MAX; i++) {
        bl_turn_run(&agent->engine, &agent->session,
                    &(struct bl_turn_options){.scope = &agent->scope,
                                              .receipt = &receipt,
                                              .journal = &journal,
                                              .prompt = bl_text_from(market->prompt)},
                    &agent->arena, &agent->result);
        if (agent->result.end != BL_TURN_COMPLETED)
            break;
    }
    bl_journal_done(&journal);
    bl_receipt_close(&receipt);
}

static int agent_main(void *argument)
{
    static const struct bl_tool_offer offers[] = {
        {"count", "Counts.", BL_TEXT("{\"type\":\"object\"}"), NULL, false}};
    struct agent *agent = argument;
    struct market *market = agent->market;
    struct bl_tools tools = {.context = agent,
                             .offers = offers,
                             .offer_count = BL_COUNT(offers),
                             .permit = permit,
                             .call = count};

    agent->model = market->model;
    agent->model.context = market;
    agent->model.call = counted_call;
    agent->model.estimate = counted_estimate;
    agent->model.cost_usd = NULL;
    bl_arena_init(&agent->arena);
    bl_session_init(&agent->session, "agent");
    agent->engine = (struct bl_engine){
        .model = &agent->model, .tools = &tools, .clock = bl_loop_clock(bl_loop_current())};
    bl_turn_limits_init(&agent->engine.limits);
    agent->engine.limits.max_steps = 6;
    take_turns(agent);
    bl_session_done(&agent->session);
    bl_arena_done(&agent->arena);
    return 0;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void market_open(struct market *market, uint64_t seed)
{
    static const char *const bases[] = {"", "/v1", "/v1", ""};
    struct bl_error error = {0};

    bl_random_seed(&market->random, seed);
    market->stops = seed % 2 == 1;
    for (unsigned i = 0; i < WORDS; i++)
        memcpy(market->prompt + (size_t)i * 5, "word ", 6);
    make_script(market);
    bl_nursery_init(&market->nursery, bl_scope_current());
    bl_ledger_init(&market->ledger, LIMIT_USD, NULL);
    struct bl_script_server_options server = {
        .script = market->script, .seed = seed, .journal = keep_bill, .context = market};
    CHECK_EQUAL(bl_script_server_start(&market->nursery, &server, &market->server, &error), 0);
    enum bl_api api = (enum bl_api)(seed / 2 % 4);
    snprintf(market->url, sizeof market->url, "http://127.0.0.1:%u%s",
             bl_script_server_port(market->server), bases[api]);
    market->provider = (struct bl_provider){.name = "there", .api = api, .base_url = market->url};
    market->profile = (struct bl_profile){.model = "test-1",
                                          .price = price,
                                          .max_output_tokens =
                                              OUTPUT_MAX + bl_random_below(&market->random, 1000)};
    struct bl_remote_options options = {.provider = &market->provider,
                                        .profile = &market->profile,
                                        .ledger = &market->ledger,
                                        .seed = seed};
    CHECK_EQUAL(bl_remote_new(&options, &market->remote, &market->model, &error), 0);
}

static void market_close(struct market *market)
{
    bl_remote_free(market->remote);
    bl_script_server_stop(market->server);
    bl_nursery_done(&market->nursery);
    bl_script_free(market->script);
}

/* Stops one after the other, then the rest at once. */
static void stop_agents(struct market *market, struct agent *agents)
{
    for (unsigned i = 0; i < AGENTS; i++) {
        bl_sleep(bl_random_below(&market->random, 8) * MS);
        bl_scope_stop(&agents[i].scope, BL_STOP_USER, "test");
    }
}

static void run_agents(struct market *market)
{
    struct agent *agents = bl_zalloc(AGENTS * sizeof *agents);
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < AGENTS; i++) {
        agents[i].market = market;
        bl_scope_init(&agents[i].scope, &nursery.scope);
        CHECK_EQUAL(
            bl_nursery_spawn(&nursery, &agents[i].scope, "agent", agent_main, &agents[i], NULL), 0);
    }
    if (market->stops)
        stop_agents(market, agents);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    for (unsigned i = 0; i < AGENTS; i++)
        bl_scope_done(&agents[i].scope);
    bl_nursery_done(&nursery);
    bl_free(agents);
}

static int bills(void *argument)
{
    unsigned *refused = argument;
    unsigned long rounds = suite_rounds(30, 1000);

    for (unsigned long seed = 0; seed < rounds; seed++) {
        struct market *market = bl_zalloc(sizeof *market);
        market_open(market, seed);
        run_agents(market);
        market_close(market);
        const struct bl_ledger *ledger = &market->ledger;
        bool within = market->bill_usd <= LIMIT_USD + SAME_USD &&
                      market->bill_usd <= ledger->booked_usd + SAME_USD &&
                      ledger->booked_usd <= LIMIT_USD + SAME_USD && !ledger->overrun &&
                      ledger->reserved_usd < SAME_USD && ledger->reserved_usd > -SAME_USD;
        /* Stopped attempts may not have been sent. */
        bool counted =
            market->stops ? market->served <= market->sent : market->served == market->sent;
        if (!CHECK(within && counted))
            fprintf(stderr, "seed %lu: bill %f, booked %f, reserved %g, served %u, sent %u\n", seed,
                    market->bill_usd, ledger->booked_usd, ledger->reserved_usd, market->served,
                    market->sent);
        *refused += market->refused;
        bl_free(market);
    }
    return 0;
}

static void P42_bill_of_parallel_agents_is_within_their_one_limit(void **state BL_UNUSED)
{
    unsigned refused = 0;

    run_in_loop(bills, &refused);
    /* Otherwise the limit was never reached. */
    assert_true(refused > 0);
}

SUITE(ledger, cmocka_unit_test(ledger_reserves_only_the_rest_of_the_limit),
      cmocka_unit_test(nothing_is_left_after_an_overrun),
      cmocka_unit_test(part_of_an_answer_without_usage_is_booked_whole),
      cmocka_unit_test(an_image_is_reserved_for_by_its_tokens),
      cmocka_unit_test(P42_bill_of_parallel_agents_is_within_their_one_limit));
