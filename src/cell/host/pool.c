/* Keeps workers ready. There is no process between the host and the workers' wardens: each worker
 * is started by itself, in a warden of its own, and a live engine is never forked. Spares that died
 * meanwhile are found when they are taken. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "host.h"

#define SPARES          4u
#define STARTING_MAX    4u
#define TRIES           3u
#define RETRY_NS        (20 * BL_NS_PER_MS)
#define REFILL_RETRY_NS (1 * BL_NS_PER_S)
/* Pause before a spare is replaced, so that the cell that took it does not compete with the new
 * worker for the processors. */
#define REFILL_PAUSE_NS (10 * BL_NS_PER_MS)

/* Tries once. A failure that every other try would repeat is kept in `unavailable`. */
static int try_start(struct cell_pool *pool, struct cell_worker **ret_worker,
                     struct bl_error *error)
{
    if (cell_fault_hit(pool->host, CELL_AT_WORKER_START) != CELL_GO_ON)
        return bl_error_set(error, BL_EIO, BL_KIND_CELL, "start a worker", pool->path,
                            "the worker did not start");
    int code = cell_worker_start(pool->path, ret_worker, error);
    if (code == BL_ENOENT || code == BL_EACCES || code == BL_ENOTSUP)
        bl_text_into(pool->unavailable, sizeof pool->unavailable, error->message);
    else if (code == 0)
        pool->unavailable[0] = '\0';
    return code;
}

static void add_spare(struct cell_pool *pool, struct cell_worker *worker)
{
    bl_list_push_back(&pool->spares, &worker->link);
    pool->spare_count++;
}

/* Keeps the wanted number of spares. Cells that wait for a worker come first. */
static int refill_main(void *argument)
{
    struct cell_pool *pool = argument;
    struct bl_scope *outer = bl_scope_enter(&pool->scope);
    struct bl_error *error = bl_alloc(sizeof *error);
    int code = 0;

    while (code == 0) {
        struct cell_worker *worker;
        if (pool->asleep || pool->spare_count >= pool->wanted || pool->waiting > 0) {
            code = bl_semaphore_take(&pool->refill);
            if (code == 0 && pool->spare_count > 0)
                code = bl_sleep(REFILL_PAUSE_NS);
            continue;
        }
        *error = (struct bl_error){0};
        code = try_start(pool, &worker, error);
        if (code == 0)
            add_spare(pool, worker);
        else if (code != BL_ECANCELED && code != BL_ETIMEDOUT)
            code = bl_sleep(REFILL_RETRY_NS);
    }
    bl_free(error);
    bl_scope_enter(outer);
    return 0;
}

static void pool_wake_refill(struct cell_pool *pool)
{
    pool->asleep = false;
    if (pool->refill.count == 0)
        bl_semaphore_give(&pool->refill);
}

int cell_pool_start(struct cell_pool *pool, struct bl_cell_host *host, const char *path,
                    uint32_t spares, bool eager, struct bl_error *error)
{
    *pool =
        (struct cell_pool){.host = host, .wanted = spares > 0 ? spares : SPARES, .asleep = !eager};
    bl_list_init(&pool->spares);
    bl_semaphore_init(&pool->starting, STARTING_MAX);
    bl_semaphore_init(&pool->refill, 0);
    if (path != NULL)
        bl_text_into(pool->path, sizeof pool->path, path);
    else
        bl_program_find("belay-cell-worker", "BELAY_CELL_WORKER", pool->path, sizeof pool->path);
    bl_scope_init(&pool->scope, &host->nursery->scope);
    int code = bl_nursery_spawn(host->nursery, NULL, "cell pool", refill_main, pool, &pool->fiber);
    if (code != 0) {
        bl_scope_done(&pool->scope);
        bl_error_set(error, code, BL_KIND_CELL, "start a cell host", "fibers", "%s",
                     bl_error_text(code));
    }
    return code;
}

void cell_pool_stop(struct cell_pool *pool)
{
    struct bl_list *link;

    bl_scope_stop(&pool->scope, BL_STOP_SHUTDOWN, "host");
    bl_fiber_join(pool->fiber, NULL);
    bl_scope_done(&pool->scope);
    while ((link = bl_list_pop_front(&pool->spares)) != NULL)
        cell_worker_free(BL_CONTAINER(link, struct cell_worker, link));
    pool->spare_count = 0;
}

bool cell_pool_available(const struct cell_pool *pool, char *ret_why, size_t size)
{
    if (pool->spare_count > 0)
        return true;
    if (access(pool->path, X_OK) != 0)
        snprintf(ret_why, size, "%.150s: %s", pool->path, strerror(errno));
    else
        bl_text_into(ret_why, size, pool->unavailable);
    return ret_why[0] == '\0';
}

struct cell_worker *cell_pool_take(struct cell_pool *pool)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(&pool->spares)) != NULL) {
        struct cell_worker *worker = BL_CONTAINER(link, struct cell_worker, link);
        bl_list_init(&worker->link);
        pool->spare_count--;
        pool_wake_refill(pool);
        if (cell_worker_alive(worker))
            return worker;
        cell_worker_free(worker);
    }
    return NULL;
}

void cell_pool_give_back(struct cell_pool *pool, struct cell_worker *worker)
{
    if (worker != NULL)
        add_spare(pool, worker);
}

/* Starts a worker when it is its turn: callers are served in order. */
static int start_in_turn(struct cell_pool *pool, struct cell_worker **ret_worker,
                         struct bl_error *error)
{
    int code = bl_semaphore_take(&pool->starting);

    if (code != 0)
        return code;
    for (unsigned i = 0; code == 0; i++) {
        *error = (struct bl_error){0};
        code = try_start(pool, ret_worker, error);
        if (code == 0 || code == BL_ECANCELED || code == BL_ETIMEDOUT || i + 1 == TRIES)
            break;
        code = bl_sleep(RETRY_NS);
    }
    bl_semaphore_give(&pool->starting);
    return code;
}

int cell_pool_start_one(struct cell_pool *pool, struct cell_worker **ret_worker,
                        struct bl_error *error)
{
    pool->waiting++;
    int code = start_in_turn(pool, ret_worker, error);
    pool->waiting--;
    pool_wake_refill(pool);
    return code;
}
