/* Workers at work in the simulated store: what their items do, and the rules that hold meanwhile. */
#include <stdio.h>
#include <stdlib.h>

#include "simulation.h"

static const char receipt_killed[] = "{\"id\":\"rcp_1\",\"survivors\":0,\"units\":[{\"kind\":"
                                     "\"tool\",\"id\":\"c\",\"name\":\"exec\","
                                     "\"fate\":\"killed\",\"survivors\":0}]}";

/* ---- Bodies ---- */

/* Nobody else is at work on the item, unless its machine was frozen. */
static struct sim_body *body_begin(struct sim_worker *worker, struct sim_item *item, uint64_t epoch)
{
    struct sim_server *server = worker->server;
    struct sim_body *body = NULL;
    for (unsigned i = 0; i < BODIES_MAX; i++) {
        struct sim_body *other = &item->bodies[i];
        if (other->worker == NULL)
            body = other;
        else
            sim_rule(server, other->worker != worker && other->ghost,
                     "two owners are at work on it", item->id);
    }
    sim_rule(server, item->fate[0] == '\0', "it began after its stop was answered", item->id);
    sim_rule(server, body != NULL, "it has too many owners", item->id);
    *body = (struct sim_body){.worker = worker, .epoch = epoch, .ghost = worker->frozen};
    worker->running++;
    item->runs++;
    sim_trace(server, "%s begins at %s", item->id, worker->id);
    return body;
}

static void sleep_shielded(uint64_t sleep_ns)
{
    struct bl_scope shield;
    bl_shield_begin(&shield, BL_NEVER);
    bl_sleep(sleep_ns);
    bl_shield_end(&shield);
}

/* Unwinds as a tool does: some time after the stop, and not before its machine runs again. */
static void body_unwind(struct sim_worker *worker, struct sim_item *item, struct bl_fleet_try *one,
                        uint64_t begun_ns)
{
    struct bl_stop stop;
    bl_scope_stop_read(one->scope, &stop);
    item->stop_ns = bl_now_ns();
    item->reason = stop.reason;
    sim_rule(worker->server,
             item->deadline_ns == 0 || worker->frozen || item->stop_ns <= begun_ns ||
                 item->stop_ns <= item->deadline_ns + 10 * MS,
             "it ran past its deadline", item->id);
    if (!worker->dead)
        sleep_shielded(item->linger_ns);
    while (worker->frozen && !worker->dead)
        sleep_shielded(50 * MS);
    if (stop.reason == BL_STOP_TIMEOUT) {
        one->end.state = BL_FLEET_FAILED;
        one->end.exit_code = 124;
        return;
    }
    one->end.state = item->fails_late ? BL_FLEET_FAILED : BL_FLEET_CANCELLED;
    one->end.exit_code = 130;
    one->retryable = item->fails_late;
    if (item->linger_ns > GRACE / 2)
        one->end.receipt = bl_text_from(receipt_killed);
}

static void work_run(void *context, struct bl_fleet_try *one)
{
    struct sim_worker *worker = context;
    struct sim_server *server = worker->server;
    struct sim_item *item = &server->items[atoi(one->item->id + 4) - 1];
    struct sim_body *body = body_begin(worker, item, one->item->epoch);
    if (item->deadly)
        sim_kill(worker);
    uint64_t begun_ns = bl_now_ns();
    if (bl_sleep(item->length_ns) != 0) {
        body_unwind(worker, item, one, begun_ns);
    } else if (one->item->tries < item->fails) {
        one->end.state = BL_FLEET_FAILED;
        one->end.exit_code = 1;
        one->retryable = true;
    } else {
        one->end.state = BL_FLEET_COMPLETED;
    }
    sim_trace(server, "%s ends at %s: state %d", item->id, worker->id, one->end.state);
    if (body->worker == worker) /* it was not killed */
        *body = (struct sim_body){0};
    worker->running--;
}

static struct bl_fleet_retries work_retries(void *context,
                                            const struct bl_fleet_item *item BL_UNUSED)
{
    return ((struct sim_worker *)context)->retries;
}

static void work_hurry(void *context, struct bl_fleet_try *one)
{
    struct sim_worker *worker = context;
    worker->server->items[atoi(one->item->id + 4) - 1].hurried++;
}

static bool work_stop_part(void *context, struct bl_fleet_try *one,
                           const struct bl_fleet_order *order, struct bl_arena *arena BL_UNUSED,
                           struct bl_text *ret_receipt)
{
    struct sim_worker *worker = context;
    const struct sim_item *item = &worker->server->items[atoi(one->item->id + 4) - 1];
    worker->part_stops++;
    bl_sleep(100 * MS);
    sim_rule(worker->server, item->ends == 0, "its end was recorded while a part was stopped",
             item->id);
    *ret_receipt = bl_text_from(receipt_killed);
    return strcmp(order->part, "call_1") == 0;
}

bool sim_stop_session(void *context, const struct bl_fleet_order *order,
                      struct bl_arena *arena BL_UNUSED, struct bl_text *ret_receipt)
{
    struct sim_worker *worker = context;
    worker->session_stops++;
    *ret_receipt = bl_text_from(receipt_killed);
    return strcmp(order->item, "session_1") == 0;
}

/* ---- Workers ---- */

struct sim_start {
    struct sim_worker *worker;
    uint64_t drain_ns;
    uint64_t until_idle_ns;
};

/* A worker that was drained holds nothing, unless it lost its lease, or a claim arrived late. The store
 * takes the rest back when it leaves. */
static void work_leave(struct sim_worker *worker)
{
    struct sim_server *server = worker->server;
    for (unsigned i = 0; i < server->item_count; i++) {
        struct sim_item *item = &server->items[i];
        if (strcmp(item->owner, worker->id) == 0)
            sim_rule(server, !worker->renewed || item->late || worker->result != 0,
                     "a drained worker holds it", item->id);
    }
    worker->gone = true;
    sim_queue_leave(server, worker->id);
}

static int work_main(void *argument)
{
    struct sim_start *start = argument;
    struct sim_worker *worker = start->worker;
    struct bl_fleet_worker_options options = {
        .member = {.store = &worker->table,
                   .work = &worker->work,
                   .grace_ns = GRACE,
                   .now_ns = sim_now,
                   .wardens = sim_set_wardens,
                   .context = worker,
                   .stop_session = sim_stop_session,
                   .stop_context = worker,
                   .seed = bl_random_next(&worker->server->random) | 1},
        .place = {.pool = "main", .slots = worker->slots},
        .drain_ns = start->drain_ns,
        .until_idle_ns = start->until_idle_ns,
        .run = work_run,
        .retries = work_retries,
        .hurry = work_hurry,
        .stop_part = work_stop_part,
        .context = worker,
    };
    bl_free(start);
    worker->result = 1;
    worker->result = bl_fleet_work(&options, &worker->worker, NULL);
    sim_trace(worker->server, "%s returns %d", worker->id, worker->result);
    if (!worker->dead && !worker->lost)
        work_leave(worker);
    return 0;
}

struct sim_worker *sim_work(struct sim_server *server, uint32_t slots, uint64_t drain_ns,
                            uint64_t until_idle_ns)
{
    struct sim_start *start = bl_alloc(sizeof *start);
    struct sim_worker *worker = sim_add(server);
    worker->slots = slots;
    worker->result = 1;
    worker->retries = (struct bl_fleet_retries){3, SECOND};
    *start = (struct sim_start){worker, drain_ns, until_idle_ns};
    CHECK_EQUAL(bl_nursery_spawn(&server->fibers, NULL, worker->id, work_main, start, NULL), 0);
    return worker;
}

void sim_kill(struct sim_worker *worker)
{
    struct sim_server *server = worker->server;
    worker->dead = true;
    worker->fault = SIM_SILENT;
    for (unsigned i = 0; i < server->item_count; i++) {
        for (unsigned k = 0; k < BODIES_MAX; k++) {
            struct sim_body *body = &server->items[i].bodies[k];
            if (body->worker == worker)
                *body = (struct sim_body){0};
        }
    }
    bl_scope_stop(&worker->work, BL_STOP_USER, "killed");
}

void sim_freeze(struct sim_worker *worker, bool frozen)
{
    struct sim_server *server = worker->server;
    worker->frozen = frozen;
    worker->fault = frozen ? SIM_SILENT : SIM_NONE;
    for (unsigned i = 0; i < server->item_count; i++) {
        for (unsigned k = 0; k < BODIES_MAX; k++) {
            struct sim_body *body = &server->items[i].bodies[k];
            if (body->worker == worker)
                body->ghost = true;
        }
    }
}

/* ---- The end ---- */

static bool all_ended(const struct sim_server *server)
{
    for (unsigned i = 0; i < server->item_count; i++) {
        const struct sim_item *item = &server->items[i];
        if (!BL_FLEET_ENDED(item->state) ||
            (item->stopped && !item->fenced && item->fate[0] == '\0'))
            return false;
    }
    return true;
}

static void describe(const struct sim_server *server)
{
    for (unsigned i = 0; i < server->item_count; i++) {
        const struct sim_item *item = &server->items[i];
        if (!BL_FLEET_ENDED(item->state))
            fprintf(stderr, "%s: state %d, owner '%s', epoch %llu, %u tries, %u deaths, %u runs\n",
                    item->id, item->state, item->owner, (unsigned long long)item->epoch,
                    item->tries, item->deaths, item->runs);
    }
    for (unsigned i = 0; i < server->count; i++) {
        const struct sim_worker *worker = &server->workers[i];
        fprintf(stderr, "%s: result %d%s%s%s%s, %u running, %u slots, %u beats\n", worker->id,
                worker->result, worker->lost ? ", lost" : "", worker->gone ? ", gone" : "",
                worker->dead ? ", dead" : "", worker->draining ? ", draining" : "", worker->running,
                worker->slots, worker->beats);
    }
}

static void check_item(struct sim_server *server, const struct sim_item *item)
{
    sim_rule(server, BL_FLEET_ENDED(item->state), "it waits forever", item->id);
    sim_rule(server, item->ends == 1, "it did not end once", item->id);
    sim_rule(server, item->deaths <= DEATHS_MAX, "it killed too many workers", item->id);
    sim_rule(server, item->tries <= 3, "it was tried too often", item->id);
    sim_rule(server, !item->stopped || item->fenced || item->fate[0] != '\0',
             "its stop was not answered", item->id);
}

void sim_settle(struct sim_server *server)
{
    server->down = false;
    for (unsigned i = 0; i < server->count; i++) {
        struct sim_worker *worker = &server->workers[i];
        if (!worker->dead) {
            sim_freeze(worker, false);
            worker->deaf = false;
        }
    }
    for (unsigned i = 0; i < server->item_count; i++)
        server->items[i].deadly = false;
    sim_work(server, 4, 5 * SECOND, 0);
    bl_sleep(SECOND);
    for (int i = 0; i < 300 && !all_ended(server); i++)
        bl_sleep(SECOND);
    if (!all_ended(server))
        describe(server);
    for (unsigned i = 0; i < server->item_count; i++)
        check_item(server, &server->items[i]);
    for (unsigned i = 0; i < server->count; i++) {
        if (server->workers[i].result == 1)
            bl_fleet_drain(server->workers[i].worker);
    }
    bl_sleep(4 * LEASE);
    for (unsigned i = 0; i < server->count; i++)
        sim_rule(server, server->workers[i].result != 1, "it does not end", server->workers[i].id);
}
