/* One call of the model, piece by piece: what is kept, what is refused, and what it costs. */
#include "stage.h"

#define PIECES(...)                                                                                \
    .pieces = (const struct bl_piece[]){__VA_ARGS__},                                              \
    .piece_count = sizeof((const struct bl_piece[]){__VA_ARGS__}) / sizeof(struct bl_piece)
#define SAY(said)                                                                                  \
    {                                                                                              \
        .type = BL_PIECE_TEXT, .text = BL_TEXT(said)                                               \
    }
#define THINK(said)                                                                                \
    {                                                                                              \
        .type = BL_PIECE_THINKING, .text = BL_TEXT(said)                                           \
    }
#define BEGIN(number, its_id)                                                                      \
    {                                                                                              \
        .type = BL_PIECE_CALL_BEGIN, .index = number, .id = BL_TEXT(its_id),                       \
        .name = BL_TEXT("work")                                                                    \
    }
#define FINISH(number)                                                                             \
    {                                                                                              \
        .type = BL_PIECE_CALL_END, .index = number, .text = BL_TEXT("{}")                          \
    }
#define USED(input, output)                                                                        \
    {                                                                                              \
        .type = BL_PIECE_USAGE, .usage = { input, output }                                         \
    }
#define RETRY                                                                                      \
    {                                                                                              \
        .type = BL_PIECE_RETRY                                                                     \
    }
#define END                                                                                        \
    {                                                                                              \
        .type = BL_PIECE_END                                                                       \
    }

/* The limit for an answer's text, and for the input of a call. */
#define TEXT_MAX BL_ANSWER_SIZE_MAX

SCENE(answer_is_kept_block_by_block)
{
    stage_line(
        stage,
        (struct line){PIECES(
            THINK("h"),
            {.type = BL_PIECE_THINKING, .text = BL_TEXT("m"), .opaque = BL_TEXT("{\"s\":1}")},
            THINK("so"), SAY("a"), SAY("b"), BEGIN(0, "c1"), SAY("c"), BEGIN(1, "c2"),
            {.type = BL_PIECE_CALL_DELTA, .text = BL_TEXT("{\"n\"")},
            {.type = BL_PIECE_CALL_END,
             .index = 1,
             .text = BL_TEXT("{\"n\":2}"),
             .opaque = BL_TEXT("[2]")},
            FINISH(0), END)});
    stage_line(stage, (struct line){.say = "done"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(has(bl_text_from(stage->turns[0].messages),
              "{\"role\":\"assistant\",\"content\":["
              "{\"type\":\"thinking\",\"text\":\"hm\",\"opaque\":{\"s\":1}},"
              "{\"type\":\"thinking\",\"text\":\"so\"},{\"type\":\"text\",\"text\":\"ab\"},"
              "{\"type\":\"tool_call\",\"id\":\"c1\",\"name\":\"work\",\"input\":{}},"
              "{\"type\":\"text\",\"text\":\"c\"},"
              "{\"type\":\"tool_call\",\"id\":\"c2\",\"name\":\"work\",\"input\":{\"n\":2},"
              "\"opaque\":[2]}]}"));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_THINKING_DELTA), 3);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TEXT_DELTA), 3 + 1);
    return 0;
}

SCENE(answer_whose_calls_do_not_end_once_each_is_an_error)
{
    const struct line lines[] = {
        {PIECES(FINISH(0), END)},
        {PIECES(BEGIN(0, "c1"), FINISH(1), END)},
        {PIECES(BEGIN(0, "c1"), FINISH(0), FINISH(0), END)},
        {PIECES({.type = BL_PIECE_END + 1}, END)},
        {PIECES(BEGIN(0, "c1"), FINISH(0), BEGIN(1, "c2"), END)},
    };

    for (size_t i = 0; i < BL_COUNT(lines); i++) {
        stage_line(stage, lines[i]);
        struct bl_turn_result *result = stage_turn(stage, "go");
        CHECK_EQUAL(result->end, BL_TURN_ERROR);
        CHECK_EQUAL(result->error.code, i + 1 < BL_COUNT(lines) ? BL_EINVAL : BL_EPARSE);
        CHECK_EQUAL(result->error.kind, BL_KIND_PROVIDER);
        CHECK_EQUAL(stage->tool_calls, 0);
        stage_check_agreement(stage, result);
    }
    return 0;
}

/* Ending a call that never began fails with another code: everything up to there was accepted. */
SCENE(answer_that_is_too_long_is_refused)
{
    char *bytes = bl_alloc(TEXT_MAX + 1);
    struct bl_text longest = {bytes, TEXT_MAX - 16}, longer = {bytes, TEXT_MAX + 1};
    const struct line lines[] = {
        {PIECES({.type = BL_PIECE_THINKING, .text = longest}, FINISH(0))},
        {PIECES({.type = BL_PIECE_THINKING, .text = longest}, THINK("seventeen letters"),
                FINISH(0))},
        {PIECES({.type = BL_PIECE_THINKING, .text = longer}, FINISH(0))},
        {PIECES(BEGIN(0, "c1"), {.type = BL_PIECE_CALL_END, .text = longest}, FINISH(1))},
        {PIECES(BEGIN(0, "c1"), {.type = BL_PIECE_CALL_END, .text = longer}, FINISH(1))},
    };
    static const bool taken[BL_COUNT(lines)] = {true, false, false, true, false};

    memset(bytes, 'x', TEXT_MAX + 1);
    for (size_t i = 0; i < BL_COUNT(lines); i++) {
        stage_line(stage, lines[i]);
        struct bl_turn_result *result = stage_turn(stage, "go");
        CHECK_EQUAL(result->end, BL_TURN_ERROR);
        CHECK_EQUAL(result->error.code, taken[i] ? BL_EINVAL : BL_ELIMIT);
        CHECK_EQUAL(has(result->json, "the answer exceeds the limit of 8 MiB"), !taken[i]);
    }
    bl_free(bytes);
    return 0;
}

static double costs_nothing(void *context BL_UNUSED, const struct bl_usage *usage BL_UNUSED)
{
    return 0;
}

static double costs_nobody_knows_what(void *context BL_UNUSED,
                                      const struct bl_usage *usage BL_UNUSED)
{
    return -1;
}

SCENE(cost_is_reported_or_computed_from_the_price_or_unknown)
{
    const struct line told = {PIECES(
        SAY("ok"), {.type = BL_PIECE_USAGE, .usage = {3, 1}, .cost_known = true, .cost_usd = 0.25},
        END)};
    const struct line untold = {PIECES(SAY("ok"), USED(3, 1), END)};
    double (*by_price)(void *, const struct bl_usage *) = stage->model.cost_usd;
    const struct {
        struct line line;
        double (*price)(void *, const struct bl_usage *);
        double usd; /* below 0: unknown */
    } rows[] = {
        {told, by_price, 0.25},     {told, NULL, 0.25}, {untold, by_price, 2},
        {untold, costs_nothing, 0}, {untold, NULL, -1}, {untold, costs_nobody_knows_what, -1},
    };

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        stage->model.cost_usd = rows[i].price;
        stage_line(stage, rows[i].line);
        struct bl_turn_result *result = stage_turn(stage, "go");
        CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
        CHECK_EQUAL(bl_usage_total(&result->spent.usage), 4);
        CHECK_EQUAL(result->spent.cost_unknown, rows[i].usd < 0);
        CHECK(rows[i].usd < 0 || result->spent.cost_usd == rows[i].usd);
        CHECK(rows[i].usd < 0 || result->spent.cost_usd_max == rows[i].usd);
    }
    return 0;
}

SCENE(every_attempt_of_a_call_is_spent_and_only_the_last_is_used)
{
    /* The estimate of a request is 4; half a dollar a token. */
    const struct {
        struct line line;
        uint64_t used, spent;
    } rows[] = {
        {{PIECES(SAY("lost"), USED(7, 1), RETRY, SAY("ok"), USED(2, 2), END)}, 4, 8 + 4},
        /* The usage of the first attempt says nothing about the second. */
        {{PIECES(SAY("lost"), USED(7, 1), RETRY, SAY("eightbyt"), END)}, 6, 8 + 6},
        {{PIECES(SAY("lost"), RETRY, SAY("ok"), USED(2, 2), END)}, 4, 5 + 4},
        /* An attempt without any piece spends and discards nothing. */
        {{PIECES(SAY("lost"), RETRY, RETRY, SAY("ok"), USED(2, 2), END)}, 4, 5 + 4},
        {{PIECES(BEGIN(0, "c1"), RETRY, SAY("ok"), USED(2, 2), END)}, 4, 4},
        {{PIECES(BEGIN(0, "c1"), FINISH(0), RETRY, SAY("ok"), USED(2, 2), END)}, 4, 5 + 4},
        {{PIECES(SAY("ok"), END)}, 5, 5},
        {{PIECES(END)}, 4, 4},
    };

    stage->estimate = 4;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        stage_line(stage, rows[i].line);
        struct bl_turn_result *result = stage_turn(stage, "go");
        CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
        CHECK_EQUAL(bl_usage_total(&result->usage), rows[i].used);
        CHECK_EQUAL(bl_usage_total(&result->spent.usage), rows[i].spent);
        CHECK(result->spent.cost_usd == (double)rows[i].spent / 2);
        CHECK_EQUAL(result->truncated, false);
        CHECK(!has(result->output, "lost"));
    }
    CHECK_EQUAL(stage->tool_calls, 0);
    return 0;
}

/* A turn that is stopped or fails. */
static struct bl_turn_result *cut(struct stage *stage, struct line line)
{
    struct stopper stopper;

    stage_rearm(stage);
    stage_line(stage, line);
    stop_after(&stopper, stage, 5 * MS, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    return result;
}

SCENE(cut_call_is_spent_if_anything_may_be_owed_for_it)
{
    const struct {
        struct line line;
        uint64_t spent;
        double usd_max;
    } rows[] = {
        {{.wedge = true}, 4, 2},
        {{.wedge = true, .unbilled = true}, 0, 0},
        {{PIECES(SAY("four")), .wedge = true, .unbilled = true}, 5, 2.5},
        {{PIECES(USED(2, 1)), .wedge = true, .unbilled = true}, 3, 1.5},
        /* The reservation is for the attempt before the retry. */
        {{PIECES(SAY("four"), RETRY), .wedge = true, .reserved_usd = 40}, 5 + 4, 40 + 2},
        {{PIECES(SAY("four"), RETRY), .wedge = true, .reserved_usd = 40, .unbilled = true}, 5, 40},
        {{.fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER}, 0, 0},
        {{.fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER, .reserved_usd = 0.5}, 4, 2},
        {{PIECES(USED(2, 1)), .fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER}, 3, 1.5},
    };

    stage->estimate = 4;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_turn_result *result = cut(stage, rows[i].line);
        CHECK_EQUAL(result->end, rows[i].line.fail != 0 ? BL_TURN_ERROR : BL_TURN_CANCELLED);
        CHECK_EQUAL(bl_usage_total(&result->usage), 0);
        CHECK_EQUAL(bl_usage_total(&result->spent.usage), rows[i].spent);
        CHECK(result->spent.cost_usd_max == rows[i].usd_max);
    }
    return 0;
}

SCENE(fate_of_a_call_that_could_not_be_ended_is_unknown)
{
    struct bl_turn_result *result = cut(stage, (struct line){.wedge = true});

    CHECK(has(result->receipt, "\"name\":\"stage-1\",\"fate\":\"aborted\""));
    result = cut(stage, (struct line){.wedge = true, .abandoned = true});
    CHECK(has(result->receipt, "\"name\":\"stage-1\",\"fate\":\"unknown\""));
    return 0;
}

static void stop_at_first_delta(struct stage *stage, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&stage->scope, BL_STOP_BUDGET, "cost");
}

SCENE(answer_that_costs_more_than_was_reserved_is_an_error_although_it_stops_the_run)
{
    stage->on_event = stop_at_first_delta;
    stage_line(stage, (struct line){.say = "dear",
                                    .fail = BL_EIO,
                                    .fail_kind = BL_KIND_PROVIDER,
                                    .fail_name = "overrun"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK(has(result->json, "\"code\":\"overrun\""));
    stage_rearm(stage);
    stage_line(stage, (struct line){.say = "dear", .fail = BL_EIO});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_BUDGET);
    return 0;
}

static unsigned refreshed;

static void refresh(void *context BL_UNUSED)
{
    refreshed++;
}

static void stop_in_refresh(void *context)
{
    struct stage *stage = context;

    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(tools_are_refreshed_before_each_request_and_a_stop_sends_none)
{
    refreshed = 0;
    stage->tools.refresh = refresh;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(refreshed, 2);
    stage->tools.refresh = stop_in_refresh;
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_CANCELLED);
    CHECK_EQUAL(stage->requests, 2);
    return 0;
}

SUITE(answer, cmocka_unit_test(answer_is_kept_block_by_block),
      cmocka_unit_test(answer_whose_calls_do_not_end_once_each_is_an_error),
      cmocka_unit_test(answer_that_is_too_long_is_refused),
      cmocka_unit_test(cost_is_reported_or_computed_from_the_price_or_unknown),
      cmocka_unit_test(every_attempt_of_a_call_is_spent_and_only_the_last_is_used),
      cmocka_unit_test(cut_call_is_spent_if_anything_may_be_owed_for_it),
      cmocka_unit_test(fate_of_a_call_that_could_not_be_ended_is_unknown),
      cmocka_unit_test(
          answer_that_costs_more_than_was_reserved_is_an_error_although_it_stops_the_run),
      cmocka_unit_test(tools_are_refreshed_before_each_request_and_a_stop_sends_none));
