/* Members of a fleet with random faults, from seeds. The rule: when a worker is taken over, its work
 * has ended, its grace period included, unless its machine was frozen: then its wardens' time has
 * passed. */
#include <stdio.h>

#include "simulation.h"

#define STEPS 120

struct sim_play {
    uint64_t seed;
    unsigned takeovers;
    unsigned stops;
};

static void check_rule(const struct sim_worker *worker, uint64_t seed)
{
    struct bl_stop stop;
    if (!worker->lost)
        return;
    bl_scope_stop_read(&worker->work, &stop);
    bool ended = stop.reason == BL_STOP_LEASE_LOST && stop.time_ns + GRACE < worker->lost_ns;
    if (!CHECK(ended))
        fprintf(stderr, "seed %llu: %s was taken over at %llu ms, and stopped at %llu ms\n",
                (unsigned long long)seed, worker->id, (unsigned long long)(worker->lost_ns / MS),
                (unsigned long long)(stop.time_ns / MS));
}

static int play(void *argument)
{
    struct sim_play *play = argument;
    struct sim_server *server = bl_alloc(sizeof *server);
    struct bl_random random;
    bl_random_seed(&random, play->seed);
    sim_init(server);
    bl_random_seed(&server->random, play->seed);
    unsigned count = 2 + (unsigned)bl_random_below(&random, 7);
    for (unsigned i = 0; i < count; i++) {
        struct sim_worker *worker = sim_add(server);
        worker->drift_ppm = (int64_t)bl_random_below(&random, 401) - 200;
        sim_join(worker, GRACE);
        bl_sleep(bl_random_below(&random, RENEW));
    }
    for (int step = 0; step < STEPS; step++) {
        struct sim_worker *worker = &server->workers[bl_random_below(&random, count)];
        worker->fault = (enum sim_fault)bl_random_below(&random, SIM_FAULTS);
        if (bl_random_below(&random, 3) == 0)
            worker->fault = SIM_NONE;
        if (bl_random_below(&random, 30) == 0)
            server->starts++;
        bl_sleep(bl_random_below(&random, 4 * RENEW));
    }
    for (unsigned i = 0; i < count; i++) {
        check_rule(&server->workers[i], play->seed);
        play->takeovers += server->workers[i].taken;
        play->stops += bl_fleet_lost(server->workers[i].member);
    }
    sim_close(server);
    return 0;
}

static void work_has_ended_before_any_takeover(void **state BL_UNUSED)
{
    unsigned takeovers = 0, stops = 0;
    unsigned long seeds = suite_rounds(500, 20000);
    for (unsigned long seed = 1; seed <= seeds; seed++) {
        struct sim_play one = {.seed = seed};
        run_in_virtual_loop(seed, play, &one);
        takeovers += one.takeovers;
        stops += one.stops;
    }
    /* The faults reach what they are for. */
    assert_true(takeovers > seeds / 4 && stops > takeovers);
}

SUITE(simulation, cmocka_unit_test(work_has_ended_before_any_takeover));
