/* A worker: claims items with its free slots, compares what it runs with what the store says that it
 * owns, and drains.
 *
 * Fibers of a life: heartbeats (member.c), the listener, the claimer, one for each try and one for each
 * order. They run in a shield, because the ends of stopped tries have to be recorded, and end with the
 * life. The fiber of bl_fleet_work keeps the times. */
#include <assert.h>

#include "parts.h"

#define CLAIM_MAX     8u
#define SPREAD_NS     BL_NS_PER_MS /* for each live worker, before a claim after a wake-up */
#define SPREAD_MAX_NS (2 * BL_NS_PER_S)
#define LISTEN_NS     (60 * BL_NS_PER_S)
#define POLL_NS       BL_NS_PER_S /* without wake-ups, within POLL_PART_NS */
#define POLL_PART_NS  (300 * BL_NS_PER_MS)
#define JOIN_PAUSE_NS FLEET_RETRY_MAX_NS

void fleet_worker_move(struct bl_fleet_worker *worker)
{
    if (worker->moved.count == 0)
        bl_semaphore_give(&worker->moved);
}

bool fleet_worker_lost(const struct bl_fleet_worker *worker)
{
    return worker->member != NULL && bl_fleet_lost(worker->member);
}

bool fleet_worker_pause(struct bl_fleet_worker *worker, uint64_t *pause_ns)
{
    if (fleet_worker_lost(worker) || bl_sleep(*pause_ns) != 0)
        return false;
    *pause_ns = fleet_retry_next(*pause_ns);
    return !worker->stopped || bl_now_ns() < worker->give_up_ns;
}

/* ---- Claims ---- */

static bool worker_may_claim(const struct bl_fleet_worker *worker)
{
    return worker->phase == FLEET_WORKING && !worker->stopped && !worker->doubt &&
           !fleet_worker_lost(worker) && worker->busy < worker->options.place.slots;
}

void fleet_worker_want(struct bl_fleet_worker *worker)
{
    if (worker->wanted.count == 0 && worker_may_claim(worker))
        bl_semaphore_give(&worker->wanted);
}

void fleet_worker_doubt(struct bl_fleet_worker *worker)
{
    worker->doubt = true;
    worker->doubted = ++worker->events;
    fleet_hasten(worker->member);
}

/* Claims once. Returns 0, BL_EAGAIN if there may be more, or the error of the store. */
static int worker_claim(struct bl_fleet_worker *worker)
{
    BL_AUTO_ARENA(arena);
    const struct bl_fleet_store *store = worker->options.member.store;
    uint32_t most = worker->options.place.slots - worker->busy, count = 0;
    uint64_t sent_ns = bl_now_ns();
    struct bl_list items;
    struct bl_scope limit;
    if (most > CLAIM_MAX)
        most = CLAIM_MAX;
    bl_list_init(&items);
    worker->claiming = true;
    worker->clean = false;
    bl_limit_begin(&limit, fleet_answer_ns(worker->member));
    int code = store->claim(store->context, &arena, most, &items, NULL);
    bl_limit_end(&limit);
    worker->claiming = false;
    worker->claimed = ++worker->events;
    if (code != 0) {
        fleet_worker_doubt(worker);
        return code;
    }
    BL_LIST_EACH (link, &items) {
        fleet_try_claimed(worker, BL_CONTAINER(link, struct bl_fleet_item, link), sent_ns);
        count++;
    }
    assert(count <= most);
    return count == most ? BL_EAGAIN : 0;
}

static int claim_spread(struct bl_fleet_worker *worker)
{
    uint64_t spread_ns = (worker->workers_live > 0 ? worker->workers_live : 1) * SPREAD_NS;
    if (!worker->woken)
        return 0;
    worker->woken = false;
    return bl_sleep(
        bl_random_below(&worker->random, spread_ns < SPREAD_MAX_NS ? spread_ns : SPREAD_MAX_NS));
}

static int claim_main(void *argument)
{
    struct bl_fleet_worker *worker = argument;
    uint64_t pause_ns = FLEET_RETRY_MIN_NS;
    int code;
    while ((code = bl_semaphore_take(&worker->wanted)) == 0 && (code = claim_spread(worker)) == 0) {
        code = worker_may_claim(worker) ? BL_EAGAIN : 0;
        while (code == BL_EAGAIN && worker_may_claim(worker))
            code = worker_claim(worker);
        if (code == 0 || code == BL_EAGAIN) {
            pause_ns = FLEET_RETRY_MIN_NS;
        } else { /* heartbeats may be answered meanwhile, and show that items wait */
            bl_sleep(pause_ns);
            pause_ns = fleet_retry_next(pause_ns);
        }
    }
    return code;
}

static int listen_main(void *argument)
{
    struct bl_fleet_worker *worker = argument;
    const struct bl_fleet_store *store = worker->options.member.store;
    while (bl_check() == 0) {
        int code = store->listen(store->context, LISTEN_NS);
        if (code == BL_ETIMEDOUT)
            continue;
        if (code != 0)
            bl_sleep(POLL_NS - POLL_PART_NS +
                     bl_random_below(&worker->random, 2 * POLL_PART_NS + 1));
        worker->woken = true;
        fleet_worker_want(worker);
        if (!bl_list_empty(&worker->tries)) /* it may be a stop */
            fleet_hasten(worker->member);
    }
    return BL_ECANCELED;
}

/* ---- Drain ---- */

static void worker_drain(struct bl_fleet_worker *worker, enum fleet_phase phase, const char *cause)
{
    if (phase <= worker->phase)
        return;
    BL_LOG(BL_ROOM_FLEET, BL_LOG_INFO, "worker drains", BL_LOG_STRING("cause", cause),
           BL_LOG_INTEGER("items", worker->busy),
           BL_LOG_BOOLEAN("stopped", phase == FLEET_RETURNING));
    worker->phase = phase;
    worker->drain_until_ns = bl_time_add(bl_now_ns(), worker->options.drain_ns);
    if (phase == FLEET_RETURNING) {
        BL_LIST_EACH (link, &worker->tries)
            fleet_try_return(BL_CONTAINER(link, struct fleet_try, one.link));
    }
    fleet_worker_move(worker);
}

void bl_fleet_drain(struct bl_fleet_worker *worker)
{
    if (worker != NULL)
        worker_drain(worker, worker->drains++ == 0 ? FLEET_DRAINING : FLEET_RETURNING, "request");
}

/* ---- Heartbeats ---- */

static void worker_beat_sent(void *context)
{
    struct bl_fleet_worker *worker = context;
    worker->sent = worker->events;
}

static const struct bl_fleet_owned *owned_find(const struct bl_fleet_beat *beat,
                                               const struct bl_fleet_item *item)
{
    BL_LIST_EACH (link, &beat->owned) {
        const struct bl_fleet_owned *owned = BL_CONTAINER(link, struct bl_fleet_owned, link);
        if (owned->epoch == item->epoch && strcmp(owned->id, item->id) == 0)
            return owned;
    }
    return NULL;
}

/* Compares what is owned with what was running when the heartbeat was sent. */
static void worker_compare(struct bl_fleet_worker *worker, const struct bl_fleet_beat *beat)
{
    BL_LIST_EACH (link, &worker->tries) {
        struct fleet_try *one = BL_CONTAINER(link, struct fleet_try, one.link);
        if (one->state == FLEET_TRY_RUNNING && one->moved <= worker->sent && !one->lost &&
            owned_find(beat, &one->item) == NULL)
            fleet_try_lose(one, "not owned");
    }
    BL_LIST_EACH (link, &beat->owned) {
        const struct bl_fleet_owned *owned = BL_CONTAINER(link, struct bl_fleet_owned, link);
        const struct fleet_try *one = fleet_try_find(worker, owned->id);
        if (one != NULL && (one->state != FLEET_TRY_ENDED || one->moved > worker->sent))
            continue;
        /* It may be in the answer to a claim that is still under way, or came meanwhile. */
        if (worker->claiming || worker->claimed > worker->sent)
            fleet_worker_doubt(worker);
        else
            fleet_try_owned(worker, owned);
    }
}

static void worker_purge(struct bl_fleet_worker *worker)
{
    fleet_orders_purge(worker);
    BL_LIST_EACH_SAFE (link, &worker->ended) {
        struct fleet_try *one = BL_CONTAINER(link, struct fleet_try, one.link);
        if (one->moved <= worker->sent && bl_list_empty(&one->orders))
            fleet_try_free(one);
    }
}

static void worker_beat_answered(void *context, const struct bl_fleet_beat *beat)
{
    struct bl_fleet_worker *worker = context;
    if (worker->over)
        return;
    worker->workers_live = beat->workers_live;
    if (worker->doubt && worker->doubted <= worker->sent)
        worker->doubt = false;
    if (beat->draining)
        worker_drain(worker, FLEET_DRAINING, "store");
    worker_compare(worker, beat);
    fleet_orders_purge(worker);
    fleet_orders_take(worker, beat);
    worker_purge(worker);
    worker->clean = bl_list_empty(&worker->tries) && bl_list_empty(&worker->ended) &&
                    bl_list_empty(&worker->orders) && !worker->claiming &&
                    worker->claimed <= worker->sent;
    if (beat->waiting)
        fleet_worker_want(worker);
    fleet_worker_move(worker);
}

/* The reason of a scope's own stop is exact; below a stopped scope it is only `parent`. */
static void worker_lost(void *context, const char *origin)
{
    struct bl_fleet_worker *worker = context;
    BL_LIST_EACH (link, &worker->tries)
        fleet_try_lose(BL_CONTAINER(link, struct fleet_try, one.link), origin);
}

/* ---- A life ---- */

/* The lease is lost, or the worker is stopped. */
static void life_stopped(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct bl_fleet_worker *worker = BL_CONTAINER(hook, struct bl_fleet_worker, life_hook);
    struct bl_stop stop;
    bl_scope_stop_read(scope, &stop);
    if (stop.reason != BL_STOP_LEASE_LOST) {
        worker->stopped = true;
        worker->give_up_ns = bl_now_ns() + worker->options.member.grace_ns + BL_STORE_NS_MAX;
    }
    fleet_worker_move(worker);
}

static bool life_over(const struct bl_fleet_worker *worker)
{
    if (!bl_list_empty(&worker->tries))
        return false;
    if (fleet_worker_lost(worker))
        return true;
    if (worker->stopped)
        return bl_list_empty(&worker->orders) || bl_now_ns() >= worker->give_up_ns;
    return worker->phase != FLEET_WORKING && worker->clean;
}

/* Drains when it is time to. Returns how long to wait. */
static uint64_t life_times(struct bl_fleet_worker *worker)
{
    uint64_t now_ns = bl_now_ns(), idle_ns = worker->options.until_idle_ns, until_ns = BL_NEVER;
    if (worker->phase == FLEET_WORKING && idle_ns > 0 && bl_list_empty(&worker->tries)) {
        until_ns = bl_time_add(worker->idle_since_ns, idle_ns);
        if (now_ns >= until_ns)
            worker_drain(worker, FLEET_DRAINING, "idle");
    }
    if (worker->phase == FLEET_DRAINING) {
        until_ns = worker->drain_until_ns;
        if (now_ns >= until_ns)
            worker_drain(worker, FLEET_RETURNING, "time");
    }
    if (worker->stopped)
        until_ns = worker->give_up_ns;
    /* A heartbeat shows whether all is given back. */
    if (worker->phase != FLEET_WORKING && bl_list_empty(&worker->tries) && !worker->clean)
        fleet_hasten(worker->member);
    return now_ns >= until_ns ? BL_NEVER : until_ns - now_ns;
}

static void life_main(struct bl_fleet_worker *worker)
{
    while (!life_over(worker)) {
        struct bl_scope limit;
        uint64_t wait_ns = life_times(worker);
        bl_limit_begin(&limit, wait_ns);
        bl_semaphore_take(&worker->moved);
        bl_limit_end(&limit);
    }
}

static int life_begin(struct bl_fleet_worker *worker, struct bl_error *error)
{
    struct fleet_hooks hooks = {worker_beat_sent, worker_beat_answered, worker_lost, worker};
    struct bl_fleet_options options = worker->options.member;
    options.work = &worker->life;
    worker->doubt = worker->clean = worker->claiming = worker->over = false;
    worker->idle_since_ns = bl_now_ns();
    bl_semaphore_init(&worker->wanted, 0);
    struct bl_scope *before = bl_scope_enter(&worker->life);
    int code = fleet_join(&options, &hooks, &worker->member, error);
    bl_scope_enter(before);
    if (code == 0)
        code = bl_nursery_spawn(&worker->service, NULL, "fleet: claims", claim_main, worker, NULL);
    if (code == 0)
        code =
            bl_nursery_spawn(&worker->service, NULL, "fleet: listener", listen_main, worker, NULL);
    fleet_worker_want(worker);
    return code;
}

/* Returns 0 when it was drained, BL_ECANCELED when it was stopped, BL_EAGAIN when its lease was lost,
 * or the error of joining. */
static int worker_live(struct bl_fleet_worker *worker, struct bl_error *error)
{
    bl_scope_init(&worker->life, worker->options.member.work);
    bl_stop_hook_add(&worker->life_hook, &worker->life, life_stopped);
    bl_shield_init(&worker->shield, bl_loop_scope(bl_loop_current()));
    bl_nursery_init(&worker->service, &worker->shield);
    int code = life_begin(worker, error);
    if (code == 0) {
        life_main(worker);
        code = fleet_worker_lost(worker) && !worker->stopped ? BL_EAGAIN : 0;
    }
    worker->over = true;
    if (worker->stopped)
        code = BL_ECANCELED;
    bl_nursery_done(&worker->service);
    bl_scope_done(&worker->shield);
    bl_fleet_leave(worker->member);
    worker->member = NULL;
    fleet_orders_free(worker);
    BL_LIST_EACH_SAFE (link, &worker->tries)
        fleet_try_free(BL_CONTAINER(link, struct fleet_try, one.link));
    BL_LIST_EACH_SAFE (link, &worker->ended)
        fleet_try_free(BL_CONTAINER(link, struct fleet_try, one.link));
    bl_stop_hook_remove(&worker->life_hook);
    bl_scope_done(&worker->life);
    return code;
}

/* ---- All lives ---- */

struct worker_above {
    struct bl_stop_hook hook;
    struct bl_fleet_worker *worker;
};

/* The fiber of bl_fleet_work is stopped, by a scope that need not be the work's. */
static void above_stopped(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct bl_fleet_worker *worker = BL_CONTAINER(hook, struct worker_above, hook)->worker;
    struct bl_stop stop;
    bl_scope_stop_read(scope, &stop);
    worker->stopped = true;
    if (worker->member != NULL)
        bl_scope_stop(&worker->life, BL_STOP_PARENT, stop.origin);
    fleet_worker_move(worker);
}

static int worker_lives(struct bl_fleet_worker *worker, struct bl_error *error)
{
    int code = worker_live(worker, error);
    if (code != BL_EAGAIN)
        return code;
    /* A worker that has worked waits for the store to come back. */
    while (code != 0 && !worker->stopped && worker->phase == FLEET_WORKING) {
        if (code != BL_EAGAIN) {
            struct bl_scope limit;
            bl_limit_begin(&limit, JOIN_PAUSE_NS);
            bl_semaphore_take(&worker->moved);
            bl_limit_end(&limit);
        }
        if (!worker->stopped && worker->phase == FLEET_WORKING)
            code = worker_live(worker, NULL);
    }
    /* A lease that was lost during the drain: what is still owned is given back, if the store
     * answers now. */
    do {
        if (code != 0 && !worker->stopped)
            code = worker_live(worker, NULL);
    } while (code == BL_EAGAIN && !worker->stopped);
    return worker->stopped ? BL_ECANCELED : 0;
}

int bl_fleet_work(const struct bl_fleet_worker_options *options,
                  struct bl_fleet_worker **ret_worker, struct bl_error *error)
{
    struct bl_fleet_worker *worker = bl_zalloc(sizeof *worker);
    struct worker_above above = {.worker = worker};
    struct bl_scope shield;
    worker->options = *options;
    fleet_random_seed(&worker->random, options->member.seed);
    bl_semaphore_init(&worker->moved, 0);
    bl_list_init(&worker->tries);
    bl_list_init(&worker->ended);
    bl_list_init(&worker->orders);
    *ret_worker = worker;
    options->member.store->enlist(options->member.store->context, &options->place);
    bl_stop_hook_add(&above.hook, bl_scope_current(), above_stopped);
    bl_shield_begin(&shield, BL_NEVER);
    int code = worker_lives(worker, error);
    bl_shield_end(&shield);
    bl_stop_hook_remove(&above.hook);
    *ret_worker = NULL;
    bl_free(worker);
    return code;
}
