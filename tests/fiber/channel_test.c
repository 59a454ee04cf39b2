#include "fibers.h"

#define MS BL_NS_PER_MS

static int one_after_another(void *argument)
{
    (void)argument;
    struct bl_channel *channel = bl_channel_new(sizeof(int), 3);
    int item = 0;
    CHECK_EQUAL(bl_channel_try_receive(channel, &item), BL_EAGAIN);
    for (int i = 1; i <= 3; i++)
        CHECK_EQUAL(bl_channel_send(channel, &i), 0);
    CHECK_EQUAL(bl_channel_try_send(channel, &item), BL_EAGAIN);
    bl_channel_close(channel);
    CHECK_EQUAL(bl_channel_send(channel, &item), BL_ECLOSED);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQUAL(bl_channel_receive(channel, &item), 0);
        CHECK_EQUAL(item, i);
    }
    CHECK_EQUAL(bl_channel_receive(channel, &item), BL_ECLOSED);
    bl_channel_free(channel);
    return 0;
}

static void items_come_in_order_and_a_closed_channel_is_drained(void **state)
{
    (void)state;
    run_in_loop(one_after_another, NULL);
}

/* Senders and receivers, each of which is stopped at some moment. */
struct market {
    struct bl_channel *channel;
    uint64_t sent;     /* sum and number of what sends said went through */
    uint64_t received; /* and of what receives gave */
    uint64_t sends;
    uint64_t receives;
    uint64_t next;
};

static int sell(void *argument)
{
    struct market *market = argument;
    for (;;) {
        uint64_t item = ++market->next;
        int code = bl_channel_send(market->channel, &item);
        if (code != 0)
            return code;
        market->sent += item;
        market->sends++;
        if (item % 3 == 0 && bl_sleep(item % 7 * MS) != 0)
            return 0;
    }
}

static int buy(void *argument)
{
    struct market *market = argument;
    for (;;) {
        uint64_t item;
        int code = bl_channel_receive(market->channel, &item);
        if (code != 0)
            return code;
        market->received += item;
        market->receives++;
        if (item % 5 == 0 && bl_sleep(item % 11 * MS) != 0)
            return 0;
    }
}

static int trade(void *argument)
{
    uint64_t seed = *(uint64_t *)argument;
    struct bl_random random;
    struct market market = {.channel = bl_channel_new(sizeof(uint64_t), 1 + seed % 4)};
    struct bl_nursery nursery;
    struct bl_scope scopes[8];
    bl_random_seed(&random, seed);
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(scopes); i++) {
        bl_scope_init(&scopes[i], &nursery.scope);
        bl_scope_set_deadline(&scopes[i], bl_now_ns() + (1 + bl_random_below(&random, 60)) * MS);
        bl_nursery_spawn(&nursery, &scopes[i], "trader", i % 2 ? sell : buy, &market, NULL);
    }
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    /* What nobody took is still there; nothing is lost or doubled. */
    uint64_t item;
    while (bl_channel_try_receive(market.channel, &item) == 0) {
        market.received += item;
        market.receives++;
    }
    CHECK_EQUAL(market.sends, market.receives);
    CHECK_EQUAL(market.sent, market.received);
    CHECK(market.sends > 0);
    for (size_t i = 0; i < BL_COUNT(scopes); i++)
        bl_scope_done(&scopes[i]);
    bl_nursery_done(&nursery);
    bl_channel_free(market.channel);
    return 0;
}

static void an_item_is_received_exactly_once_whoever_is_stopped(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= suite_rounds(300, 5000); seed++)
        run_in_virtual_loop(seed, trade, &seed);
}

static int wait_for_item(void *argument)
{
    uint64_t item;
    return bl_channel_receive(argument, &item);
}

static int closing_wakes(void *argument)
{
    (void)argument;
    struct bl_channel *channel = bl_channel_new(sizeof(uint64_t), 1);
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    int result = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "receiver", wait_for_item, channel, &fiber);
    bl_yield();
    bl_channel_close(channel);
    CHECK_EQUAL(bl_fiber_join(fiber, &result), 0);
    CHECK_EQUAL(result, BL_ECLOSED);
    bl_nursery_done(&nursery);
    bl_channel_free(channel);
    return 0;
}

static void closing_wakes_who_waits(void **state)
{
    (void)state;
    run_in_loop(closing_wakes, NULL);
}

SUITE(channel, cmocka_unit_test(items_come_in_order_and_a_closed_channel_is_drained),
      cmocka_unit_test(an_item_is_received_exactly_once_whoever_is_stopped),
      cmocka_unit_test(closing_wakes_who_waits));
