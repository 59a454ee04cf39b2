/* Whole runs from a seed, on virtual time: random answers, tools, failures, refusals of the store,
 * budgets, deadlines and stops at random moments. Result, memory, store and events always agree. */
#include "stage.h"

static struct bl_random chance;

static bool one_in(uint64_t n)
{
    return bl_random_below(&chance, n) == 0;
}

static void random_lines(struct stage *stage)
{
    static const char *const texts[] = {"ok", "one two three", "a much longer answer it is", NULL};

    while (stage->line_count < 12) {
        struct line line = {.say = texts[bl_random_below(&chance, 3)],
                            .delay_ns = bl_random_below(&chance, 5) * MS,
                            .input_tokens = bl_random_below(&chance, 20),
                            .output_tokens = bl_random_below(&chance, 20),
                            .retries = one_in(6) ? 2 : 0,
                            .no_usage = one_in(5),
                            .wedge = one_in(12)};
        if (one_in(3)) {
            line.tool = one_in(8) ? "nothing" : "work";
            line.calls = (uint32_t)bl_random_below(&chance, 4);
            line.input = one_in(8) ? "{\"cut" : NULL;
        }
        if (one_in(15)) {
            line.fail = BL_EIO;
            line.fail_kind = BL_KIND_PROVIDER;
        }
        stage_line(stage, line);
    }
}

static void random_weather(struct stage *stage, struct bl_run_options *options)
{
    struct bl_turn_limits *limits = &stage->engine.limits;

    stage->tool_ns = bl_random_below(&chance, 10) * MS;
    stage->store_ns = one_in(3) ? bl_random_below(&chance, 10) * MS : 0;
    stage->tool_deny = one_in(10);
    stage->estimate = bl_random_below(&chance, 10);
    limits->keep = one_in(2);
    limits->synthesize = one_in(2);
    limits->max_steps = one_in(3) ? bl_random_below(&chance, 5) : BL_UNLIMITED;
    limits->max_budget_tokens = one_in(3) ? bl_random_below(&chance, 120) : BL_UNLIMITED;
    limits->max_session_turns = one_in(4) ? bl_random_below(&chance, 6) : BL_UNLIMITED;
    limits->compact_after_turns = one_in(3) ? 1 + bl_random_below(&chance, 3) : BL_UNLIMITED;
    if (one_in(8))
        stage->commit_code = one_in(2) ? BL_ENOSPC : BL_EUNKNOWN;
    options->timed = one_in(3);
    options->timeout_ns = (int64_t)bl_random_below(&chance, 80 * MS);
}

/* The turns that the listener received, to compare with the run's result. */
static struct {
    char ended[16][BL_ID_SIZE];
    size_t count;
    uint64_t completed;
} heard;

static void hear(struct stage *stage, const struct bl_event *event)
{
    (void)stage;
    if (event->type != BL_EVENT_TURN_ENDED)
        return;
    bl_text_into(heard.ended[heard.count++ % 16], BL_ID_SIZE, event->turn);
    heard.completed += bl_text_find(event->json, BL_TEXT("\"stop_reason\":\"completed\"")) >= 0;
}

static void check_run(struct stage *stage, const struct bl_run_result *result)
{
    size_t index = 0, changed = 0;
    struct bl_usage usage = {0};

    BL_LIST_EACH (link, &result->turns) {
        const struct bl_turn_result *turn = BL_CONTAINER(link, struct bl_turn_result, link);
        bool is_last = link->next == &result->turns;
        CHECK(is_last || turn->end == BL_TURN_COMPLETED);
        CHECK(index < heard.count && strcmp(heard.ended[index], turn->turn_id) == 0);
        index++;
        if (turn->end != BL_TURN_COMPLETED && !turn->interrupted)
            continue;
        CHECK(changed < stage->turn_count);
        CHECK(bl_text_equal(bl_text_from(stage->turns[changed].result), turn->json));
        CHECK_EQUAL(stage->turns[changed].interrupted, turn->interrupted);
        changed++;
        bl_usage_add(&usage, &turn->usage);
    }
    CHECK_EQUAL(index, heard.count);
    CHECK_EQUAL(heard.completed, result->turns_completed);
    CHECK_EQUAL(changed, stage->turn_count);
    CHECK_EQUAL(changed, stage->session.turns_total);
    CHECK_EQUAL(bl_usage_total(&usage), bl_usage_total(&stage->session.usage));
    CHECK_EQUAL(stage->session.turns_in_context, stage->session.turns_total - stage->turns_dropped);
    bool stopped = result->end == BL_TURN_CANCELLED || result->end == BL_TURN_TIMEOUT;
    CHECK(!stopped || result->receipt.size > 0);
    CHECK(result->end != BL_TURN_TIMEOUT || result->stop.reason == BL_STOP_TIMEOUT);
    CHECK(bl_list_empty(&stage->receipt.live));
}

static int run_main(void *argument)
{
    uint64_t seed = *(uint64_t *)argument;
    struct stage *stage = bl_alloc(sizeof *stage);
    struct bl_run_options options = {.run_id = "run_stage",
                                     .prompt = BL_TEXT("go"),
                                     .continues = true,
                                     .continuation = BL_TEXT("on"),
                                     .max_turns = 5};
    struct bl_run_result result;
    struct stopper stopper;

    bl_random_seed(&chance, seed);
    memset(&heard, 0, sizeof heard);
    stage_init(stage);
    random_lines(stage);
    random_weather(stage, &options);
    stage->on_event = hear;
    /* Only a stop ends a wedge. */
    stop_after(&stopper, stage, one_in(2) ? bl_random_below(&chance, 100 * MS) : BL_NS_PER_S,
               BL_STOP_USER);
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &result);
    check_run(stage, &result);
    bl_nursery_done(&stopper.nursery);
    stage_done(stage);
    bl_free(stage);
    return (int)result.end;
}

static void result_memory_store_and_events_always_agree(void **state)
{
    uint64_t seeds = suite_rounds(SUITE_SANITIZED ? 1500 : 5000, 100000);
    uint64_t ends[8] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        ends[run_in_virtual_loop(seed, run_main, &seed) & 7]++;
    for (size_t end = 0; end <= BL_TURN_ERROR; end++) {
        print_message("%s: %lu\n", bl_turn_end_name((enum bl_turn_end)end),
                      (unsigned long)ends[end]);
        assert_true(ends[end] > 0);
    }
}

SUITE(simulation, cmocka_unit_test(result_memory_store_and_events_always_agree));
