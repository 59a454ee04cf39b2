#include "simulation.h"

#include <stdio.h>

void sim_init(struct sim_server *server)
{
    memset(server, 0, sizeof *server);
    server->starts = 1;
    server->seed = 1;
    bl_random_seed(&server->random, 1);
    bl_nursery_init(&server->fibers, bl_scope_current());
}

void sim_close(struct sim_server *server)
{
    bl_nursery_done(&server->fibers);
    for (unsigned i = 0; i < server->count; i++)
        sim_leave(&server->workers[i]);
    bl_free(server);
}

uint64_t sim_now(void *context)
{
    const struct sim_worker *worker = context;
    uint64_t now_ns = bl_now_ns();
    return now_ns + (uint64_t)((int64_t)(now_ns / 1000000) * worker->drift_ppm) + worker->jump_ns +
           SECOND;
}

int sim_travel(struct sim_worker *worker)
{
    if (worker->server->down)
        return BL_EIO;
    switch (worker->fault) {
    case SIM_LOST: worker->connection++; return BL_EIO;
    case SIM_SILENT:
        worker->connection++;
        return bl_sleep(1000 * SECOND) != 0 ? BL_ETIMEDOUT : BL_EIO;
    case SIM_SLOW: return bl_sleep(SIM_SLOW_NS);
    case SIM_UNEVEN: return bl_sleep(bl_random_below(&worker->server->random, SIM_SLOW_NS));
    case SIM_NONE:
    case SIM_LATE:
    case SIM_AFTER:
    case SIM_QUEUE_FAULTS: break;
    }
    return 0;
}

int sim_return(struct sim_worker *worker)
{
    if (worker->fault == SIM_SLOW)
        return bl_sleep(SIM_SLOW_NS);
    if (worker->fault == SIM_UNEVEN)
        return bl_sleep(bl_random_below(&worker->server->random, SIM_SLOW_NS));
    if (worker->fault != SIM_LATE && !worker->server->down)
        return 0;
    worker->connection++;
    return bl_sleep(1000 * SECOND) != 0 ? BL_ETIMEDOUT : BL_EIO;
}

static int sim_beat(void *context, struct bl_arena *arena, struct bl_fleet_beat *ret_beat,
                    struct bl_error *error BL_UNUSED)
{
    struct sim_worker *worker = context;
    struct sim_server *server = worker->server;
    uint64_t now_ns = bl_now_ns();
    worker->renewed = false;
    int code = sim_travel(worker);
    if (code != 0) {
        sim_trace(server, "%s has a heartbeat without an answer", worker->id);
        return code;
    }
    if (worker->told) { /* it knows that it was taken over, and registers as another one */
        snprintf(worker->id, sizeof worker->id, "w-%u.%u", (unsigned)(worker - server->workers) + 1,
                 ++worker->lives);
        worker->lost = worker->told = worker->draining = false;
    }
    if (!worker->lost) {
        worker->beat++;
        worker->beat_at_ns = now_ns;
    }
    worker->beats++;
    ret_beat->live = !worker->lost;
    if (!worker->lost)
        sim_queue_beat(worker, arena, ret_beat);
    code = sim_return(worker);
    if (code != 0)
        return code;
    worker->told = worker->place && !ret_beat->live;
    worker->renewed = true;
    sim_trace(server, "%s has its heartbeat's answer", worker->id);
    ret_beat->lease_ns = LEASE;
    ret_beat->renew_ns = RENEW;
    ret_beat->connection = worker->connection << 32 | server->starts;
    for (unsigned i = 0; i < server->count; i++) {
        struct sim_worker *other = &server->workers[i];
        if (other == worker || other->lost || other->gone ||
            now_ns - other->beat_at_ns < 3 * RENEW / 2)
            continue;
        struct bl_fleet_silent *silent = bl_arena_zalloc(arena, sizeof *silent);
        silent->worker = other->id;
        silent->beat = other->beat;
        bl_list_push_back(&ret_beat->silent, &silent->link);
    }
    return 0;
}

static int sim_take_over(void *context, const char *id, uint64_t beat, bool *ret_taken,
                         struct bl_error *error BL_UNUSED)
{
    struct sim_worker *worker = context;
    struct sim_server *server = worker->server;
    worker->tries++;
    if (worker->deaf)
        return bl_sleep(1000 * SECOND) != 0 ? BL_ETIMEDOUT : BL_EIO;
    int code = sim_travel(worker);
    if (code != 0)
        return code;
    for (unsigned i = 0; i < server->count; i++) {
        struct sim_worker *other = &server->workers[i];
        if (strcmp(other->id, id) != 0 || other->beat != beat || other->lost || worker->lost)
            continue;
        other->lost = true;
        other->lost_ns = bl_now_ns();
        worker->taken++;
        server->takeovers++;
        sim_queue_take_over(server, id);
        *ret_taken = true;
    }
    return sim_return(worker);
}

void sim_set_wardens(void *context, uint64_t until_ns)
{
    ((struct sim_worker *)context)->wardens_ns = until_ns;
}

struct sim_worker *sim_add(struct sim_server *server)
{
    struct sim_worker *worker = &server->workers[server->count++];
    *worker = (struct sim_worker){.server = server, .connection = 1};
    snprintf(worker->id, sizeof worker->id, "w-%u", server->count);
    worker->table =
        (struct bl_fleet_store){.context = worker, .beat = sim_beat, .take_over = sim_take_over};
    sim_queue_table(&worker->table);
    bl_semaphore_init(&worker->wake, 0);
    bl_scope_init(&worker->work, bl_scope_current());
    return worker;
}

void sim_join(struct sim_worker *worker, uint64_t grace_ns)
{
    struct bl_fleet_options options = {.store = &worker->table,
                                       .work = &worker->work,
                                       .grace_ns = grace_ns,
                                       .now_ns = sim_now,
                                       .wardens = sim_set_wardens,
                                       .context = worker,
                                       .stop_session = sim_stop_session,
                                       .stop_context = worker,
                                       .seed = bl_random_next(&worker->server->random) | 1};
    CHECK_EQUAL(bl_fleet_join(&options, &worker->member, NULL), 0);
}

void sim_leave(struct sim_worker *worker)
{
    bl_fleet_leave(worker->member);
    bl_scope_done(&worker->work);
}
