#include <stdlib.h>
#include <unistd.h>

#include "host.h"

/* Interval between searches for expired records. */
#define SWEEP_NS    (30 * BL_NS_PER_S)
#define STOP_NS_MAX (60 * BL_NS_PER_S)

/* Returns three quarters of the machine's memory. */
static uint64_t memory_default(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages / 4 * 3 * (uint64_t)size : UINT64_MAX;
}

static int sweep_main(void *argument)
{
    struct bl_cell_host *host = argument;
    struct bl_scope *outer = bl_scope_enter(&host->scope);

    while (bl_sleep(SWEEP_NS) == 0)
        cell_evict(host);
    bl_scope_enter(outer);
    return 0;
}

static struct bl_cell_host *host_make(struct bl_nursery *nursery,
                                      const struct bl_cell_host_options *options)
{
    struct bl_cell_host *host = bl_zalloc(sizeof *host);

    host->nursery = nursery;
    host->store = options->store;
    host->live_max = options->live_max != 0 ? options->live_max : BL_CELL_LIVE_MAX;
    host->memory_max = options->memory_max != 0 ? options->memory_max : memory_default();
    host->records_max = options->records_max != 0 ? options->records_max : BL_CELL_RECORDS_MAX;
    host->records_bytes_max =
        options->records_bytes_max != 0 ? options->records_bytes_max : BL_CELL_RECORDS_BYTES_MAX;
    host->record_ns_max =
        options->record_ns_max != 0 ? options->record_ns_max : BL_CELL_RECORD_NS_MAX;
    host->read_buffer = bl_alloc(CELL_READ_SIZE);
    bl_list_init(&host->sessions);
    bl_list_init(&host->ended);
    return host;
}

int bl_cell_host_start(struct bl_nursery *nursery, const struct bl_cell_host_options *options,
                       struct bl_cell_host **ret_host, struct bl_error *error)
{
    struct bl_cell_host *host = host_make(nursery, options);
    int code = cell_faults_parse(&host->faults, getenv("BELAY_FAULT"), error);

    if (code == 0)
        code = cell_pool_start(&host->pool, host, options->worker, options->spares, options->eager,
                               error);
    if (code != 0) {
        bl_free(host->read_buffer);
        bl_free(host);
        return code;
    }
    bl_scope_init(&host->scope, &nursery->scope);
    /* If it cannot start, expired records stay until new ones arrive. */
    bl_nursery_spawn(nursery, NULL, "cell records", sweep_main, host, &host->sweeper);
    *ret_host = host;
    return 0;
}

void bl_cell_host_stop(struct bl_cell_host *host, enum bl_stop_reason reason, const char *origin)
{
    struct bl_scope shield;

    if (host == NULL)
        return;
    host->stopping = true;
    bl_shield_begin(&shield, STOP_NS_MAX);
    while (!bl_list_empty(&host->sessions)) {
        struct bl_cell_session *session =
            BL_CONTAINER(host->sessions.next, struct bl_cell_session, link);
        if (session->closing) /* by another fiber, which frees it */
            bl_sleep(BL_NS_PER_MS);
        else
            bl_cell_session_close(session, false, reason, origin, NULL);
    }
    bl_scope_stop(&host->scope, reason, origin);
    if (host->sweeper != NULL)
        bl_fiber_join(host->sweeper, NULL);
    bl_scope_done(&host->scope);
    cell_pool_stop(&host->pool);
    bl_shield_end(&shield);
    bl_free(host->read_buffer);
    bl_free(host);
}

uint32_t cell_host_live_max(const struct bl_cell_host *host)
{
    return host->live_max;
}

int cell_store_write(struct bl_cell_host *host, struct bl_error *error,
                     int (*write)(void *context, struct bl_error *error), void *context)
{
    struct bl_scope shield;

    if (cell_fault_hit(host, CELL_AT_STORE_WRITE) != CELL_GO_ON)
        return bl_error_set(error, BL_EIO, BL_KIND_FILESYSTEM, "write a cell", "",
                            "the store cannot be written");
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = write(context, error);
    bl_shield_end(&shield);
    return code;
}
