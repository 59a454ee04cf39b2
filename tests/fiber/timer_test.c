#include "fiber/timer.h"

#include <time.h>

#include "suite.h"

struct alarm {
    uint64_t when_ns;
    timer_id id;
    bool set;
    unsigned fired;
};

static uint64_t now_ns;

static void ring(void *owner)
{
    struct alarm *alarm = owner;
    assert_true(alarm->set && alarm->when_ns <= now_ns);
    alarm->set = false;
    alarm->fired++;
}

static uint64_t earliest(const struct alarm *alarms, size_t count)
{
    uint64_t least = BL_NEVER;
    for (size_t i = 0; i < count; i++)
        if (alarms[i].set && alarms[i].when_ns < least)
            least = alarms[i].when_ns;
    return least;
}

static void timers_agree_with_a_plain_list(void **state)
{
    (void)state;
    static struct alarm alarms[300];
    struct timers timers;
    struct bl_random random;
    bl_random_seed(&random, 3);
    memset(alarms, 0, sizeof alarms);
    now_ns = 0;
    timers_init(&timers);
    for (int i = 0; i < 50000; i++) {
        struct alarm *alarm = &alarms[bl_random_below(&random, BL_COUNT(alarms))];
        uint64_t what = bl_random_below(&random, 10);
        if (what < 6 && !alarm->set) {
            alarm->when_ns = now_ns + bl_random_below(&random, 1000);
            alarm->id = timer_set(&timers, alarm->when_ns, ring, alarm);
            alarm->set = true;
        } else if (what < 9) {
            timer_clear(&timers, alarm->id); /* often already fired, which is harmless */
            alarm->set = false;
        } else {
            now_ns += bl_random_below(&random, 100);
            timers_fire(&timers, now_ns);
        }
        uint64_t next_ns = earliest(alarms, BL_COUNT(alarms));
        assert_int_equal(timers_next_ns(&timers), next_ns);
    }
    timers_done(&timers);
}

static void cleared_timers_do_not_accumulate(void **state)
{
    (void)state;
    struct timers timers;
    struct alarm alarm = {0};
    timers_init(&timers);
    timer_clear(&timers, 0);
    for (int i = 0; i < 1000000; i++)
        timer_clear(&timers, timer_set(&timers, 1000, ring, &alarm));
    assert_true(timers.count <= 1025);
    assert_int_equal(timers_next_ns(&timers), BL_NEVER);
    timers_done(&timers);
}

/* Most of very many timers are cleared; the rest fire in order. */
static void remaining_timers_of_many_fire_in_order(void **state)
{
    (void)state;
    enum {
        COUNT = 3000,
        STRIDE = 1301, /* visits all of them, in no particular order */
        KEPT_OF = 20
    };
    static struct alarm alarms[COUNT];
    struct bl_random random;
    bl_random_seed(&random, 5);
    for (int round = 0; round < 20; round++) {
        struct timers timers;
        timers_init(&timers);
        now_ns = 0;
        for (size_t i = 0; i < COUNT; i++) {
            alarms[i] = (struct alarm){.when_ns = bl_random_below(&random, 1000000), .set = true};
            alarms[i].id = timer_set(&timers, alarms[i].when_ns, ring, &alarms[i]);
        }
        for (size_t i = 0; i < COUNT; i++) {
            struct alarm *alarm = &alarms[i * STRIDE % COUNT];
            if (i % KEPT_OF == 0)
                continue;
            timer_clear(&timers, alarm->id);
            alarm->set = false;
        }
        for (size_t i = 0; i < COUNT / KEPT_OF; i++) {
            uint64_t next_ns = earliest(alarms, COUNT);
            assert_int_equal(timers_next_ns(&timers), next_ns);
            now_ns = next_ns;
            timers_fire(&timers, now_ns);
        }
        assert_int_equal(timers_next_ns(&timers), BL_NEVER);
        timers_done(&timers);
    }
}

static uint64_t thread_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * BL_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A stop of 100,000 sleeping fibers sorts nothing. */
static void clearing_very_many_timers_costs_little(void **state)
{
    (void)state;
    enum {
        COUNT = 100000
    };
    static timer_id ids[COUNT];
    struct timers timers;
    struct alarm alarm = {0};
    timers_init(&timers);
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = timer_set(&timers, i, ring, &alarm);
    uint64_t start_ns = thread_time_ns();
    for (size_t i = 0; i < COUNT && thread_time_ns() - start_ns < 2 * BL_NS_PER_S; i++)
        timer_clear(&timers, ids[i]);
    assert_int_equal(timers_next_ns(&timers), BL_NEVER);
    timers_done(&timers);
}

SUITE(timer, cmocka_unit_test(clearing_very_many_timers_costs_little),
      cmocka_unit_test(remaining_timers_of_many_fire_in_order),
      cmocka_unit_test(timers_agree_with_a_plain_list),
      cmocka_unit_test(cleared_timers_do_not_accumulate));
