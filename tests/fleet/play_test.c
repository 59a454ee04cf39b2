/* Workers with random faults, from seeds: offers, stops, drains, cuts, freezes, deaths, restarts of the
 * server. The rules are checked where they can be broken: in simulation_queue.c and simulation_work.c. */
#include <stdio.h>
#include <stdlib.h>

#include "simulation.h"

#define STEPS 80

struct play {
    uint64_t seed;
    bool traced;
    unsigned takeovers, deaths, stops, fenced, killed, retries, resumes, given_back, failed;
};

static struct sim_item *play_item(struct sim_server *server, struct bl_random *random)
{
    return server->item_count == 0 ? NULL
                                   : &server->items[bl_random_below(random, server->item_count)];
}

static void play_offer(struct sim_server *server, struct bl_random *random)
{
    static const uint64_t lengths[] = {0, 1 * MS, 50 * MS, 500 * MS, 3 * SECOND, 20 * SECOND};
    if (server->item_count + 4 > ITEMS_MAX)
        return;
    for (uint64_t i = bl_random_below(random, 4) + 1; i > 0; i--) {
        struct sim_item *item = sim_offer(server, lengths[bl_random_below(random, 6)]);
        item->linger_ns = bl_random_below(random, GRACE);
        if (bl_random_below(random, 4) == 0)
            item->fails = (uint32_t)bl_random_below(random, 6);
        if (bl_random_below(random, 4) == 0)
            item->timeout_ns = bl_random_below(random, 15 * SECOND) + 1;
        if (bl_random_below(random, 40) == 0)
            item->deadly = true;
        item->fails_late = bl_random_below(random, 20) == 0;
    }
}

static void play_worker(struct sim_server *server, struct bl_random *random)
{
    static const uint64_t drains[] = {0, 1 * SECOND, 30 * SECOND};
    unsigned live = 0;
    for (unsigned i = 0; i < server->count; i++)
        live += server->workers[i].result == 1;
    if (server->count + 2 > WORKERS_MAX || live >= 6)
        return;
    uint64_t idle_ns = bl_random_below(random, 4) == 0 ? 5 * SECOND : 0;
    struct sim_worker *worker = sim_work(server, (uint32_t)bl_random_below(random, 5) + 1,
                                         drains[bl_random_below(random, 3)], idle_ns);
    worker->drift_ppm = (int64_t)bl_random_below(random, 401) - 200;
    worker->mute = bl_random_below(random, 4) == 0;
}

static void play_fault(struct sim_worker *worker, struct bl_random *random)
{
    if (worker->dead || worker->frozen)
        return;
    worker->fault = (enum sim_fault)bl_random_below(random, SIM_QUEUE_FAULTS);
    if (bl_random_below(random, 2) == 0)
        worker->fault = SIM_NONE;
    worker->unanswered = bl_random_below(random, 4) == 0;
}

static void play_step(struct sim_server *server, struct bl_random *random)
{
    struct sim_worker *worker = &server->workers[bl_random_below(random, server->count)];
    struct sim_item *item = play_item(server, random);
    switch (bl_random_below(random, 16)) {
    case 0:
    case 1:
    case 2:
    case 3: play_offer(server, random); break;
    case 4:
    case 5:
        if (item != NULL)
            sim_stop(server, item, bl_random_below(random, 3) == 0);
        break;
    case 6: play_worker(server, random); break;
    case 7:
        if (bl_random_below(random, 2) == 0)
            worker->draining = worker->result == 1;
        else
            bl_fleet_drain(worker->worker);
        break;
    case 8:
        if (!worker->dead)
            sim_freeze(worker, !worker->frozen);
        break;
    case 9:
        if (bl_random_below(random, 4) == 0)
            sim_kill(worker);
        break;
    case 10:
        server->starts++;
        server->down = bl_random_below(random, 2) == 0;
        break;
    case 11: server->down = false; break;
    default: play_fault(worker, random); break;
    }
}

static void play_count(const struct sim_server *server, struct play *play)
{
    play->takeovers += server->takeovers;
    for (unsigned i = 0; i < server->count; i++)
        play->resumes += server->workers[i].resumes;
    for (unsigned i = 0; i < server->item_count; i++) {
        const struct sim_item *item = &server->items[i];
        play->deaths += item->deaths;
        play->stops += item->stopped;
        play->fenced += item->fenced;
        play->killed += strcmp(item->fate, "killed") == 0;
        play->retries += item->tries;
        play->failed += item->deaths == DEATHS_MAX;
        play->given_back += item->claims > 1 + item->tries + item->deaths;
    }
}

static int play_main(void *argument)
{
    struct play *play = argument;
    struct sim_server *server = bl_alloc(sizeof *server);
    struct bl_random random;
    bl_random_seed(&random, play->seed);
    sim_init(server);
    server->seed = play->seed;
    server->traced = play->traced;
    bl_random_seed(&server->random, play->seed);
    for (uint64_t i = bl_random_below(&random, 3) + 2; i > 0; i--)
        play_worker(server, &random);
    for (int step = 0; step < STEPS; step++) {
        play_step(server, &random);
        bl_sleep(bl_random_below(&random, bl_random_below(&random, 3) == 0 ? 2 * RENEW : 300 * MS));
    }
    sim_settle(server);
    play_count(server, play);
    sim_close(server);
    return 0;
}

/* PLAY_SEED=11 traces that play, and runs no other. */
static void every_item_ends_once_whatever_happens(void **state BL_UNUSED)
{
    struct play all = {0};
    const char *only = getenv("PLAY_SEED");
    unsigned long seeds = suite_rounds(500, 20000);
    if (only != NULL) {
        struct play one = {.seed = strtoull(only, NULL, 10), .traced = true};
        run_in_virtual_loop(one.seed, play_main, &one);
        return;
    }
    for (unsigned long seed = 1; seed <= seeds; seed++) {
        all.seed = seed;
        run_in_virtual_loop(seed, play_main, &all);
    }
    if (getenv("PLAY_COUNTS") != NULL)
        fprintf(stderr,
                "takeovers %u deaths %u stops %u fenced %u killed %u retries %u resumes %u back %u "
                "failed %u\n",
                all.takeovers, all.deaths, all.stops, all.fenced, all.killed, all.retries,
                all.resumes, all.given_back, all.failed);
    /* The faults reach what they are for. */
    assert_true(all.takeovers > seeds / 4 && all.deaths > seeds / 4 && all.stops > seeds);
    assert_true(all.fenced > seeds / 20 && all.killed > seeds / 20 && all.retries > seeds / 4);
    assert_true(all.resumes > seeds / 4 && all.given_back > seeds / 20);
}

SUITE(play, cmocka_unit_test(every_item_ends_once_whatever_happens));
