#include <inttypes.h>

#include "cli/columns.h"
#include "fleet.h"

void fleet_init_text(struct bl_buffer *out, const struct fleet_work *work)
{
    if (work->sql != NULL) {
        bl_buffer_append(out, bl_text_from(work->sql));
        return;
    }
    if (work->created)
        bl_buffer_printf(out,
                         "Created the schema 'belay' in %s.\n"
                         "Its users need the role belay_worker, or belay_read to read only.\n",
                         work->shown);
    else
        bl_buffer_printf(out, "%s has the schema already (version %" PRId64 "): nothing to do.\n",
                         work->shown, work->fleet.schema);
    /* It may have a password, which is not shown. */
    const char *usual = bl_variable("BELAY_STORE");
    bool named = usual == NULL || strcmp(usual, work->where) != 0;
    bl_buffer_printf(out, "Try: belay run 'say hello'%s%s%s\n", named ? " --store '" : "",
                     named ? work->shown : "", named ? "'" : "");
}

enum fleet_column {
    FLEET_WORKER,
    FLEET_HOST,
    FLEET_PID,
    FLEET_STATE,
    FLEET_HEARTBEAT,
    FLEET_SESSIONS,
    FLEET_COLUMNS,
};

static const struct cli_column fleet_columns[FLEET_COLUMNS] = {
    [FLEET_WORKER] = {"WORKER", 10, 0, false, false},
    [FLEET_HOST] = {"HOST", 0, 8, false, false},
    [FLEET_PID] = {"PID", 0, 0, true, false},
    [FLEET_STATE] = {"STATE", 0, 0, false, false},
    [FLEET_HEARTBEAT] = {"LAST HEARTBEAT", 30, 0, false, false},
    [FLEET_SESSIONS] = {"SESSIONS", 20, 0, true, false},
};

static void fleet_duration(uint64_t ms, char out[32])
{
    if (ms < (uint64_t)INT64_MAX / BL_NS_PER_MS)
        bl_duration_format((int64_t)(ms * BL_NS_PER_MS), out);
    else
        bl_text_into(out, 32, "-");
}

static void fleet_fill_worker(struct bl_arena *arena, const struct bl_store_worker *worker,
                              struct bl_text cells[FLEET_COLUMNS])
{
    char age[32];

    fleet_duration(worker->heartbeat_age_ms, age);
    cells[FLEET_WORKER] = cli_columns_cell(arena, bl_text_from(worker->id));
    cells[FLEET_HOST] = cli_columns_cell(arena, bl_text_from(worker->host));
    cells[FLEET_PID] = bl_arena_printf(arena, "%" PRId64, worker->pid);
    cells[FLEET_STATE] = cli_columns_cell(arena, bl_text_from(worker->state));
    cells[FLEET_HEARTBEAT] = bl_arena_printf(arena, "%s ago", age);
    cells[FLEET_SESSIONS] = bl_arena_printf(arena, "%" PRIu64, worker->sessions);
}

static void fleet_append_workers(struct bl_buffer *out, const struct bl_store_fleet *fleet)
{
    BL_AUTO_ARENA(arena);
    size_t count = 0, rows = 0;

    BL_LIST_EACH (link, &fleet->workers)
        count++;
    if (count == 0)
        return;
    struct bl_text *cells = bl_arena_zalloc(&arena, count * FLEET_COLUMNS * sizeof *cells);
    BL_LIST_EACH (link, &fleet->workers)
        fleet_fill_worker(&arena, BL_CONTAINER(link, struct bl_store_worker, link),
                          cells + FLEET_COLUMNS * rows++);
    bl_buffer_append_byte(out, '\n');
    cli_columns_write(out, fleet_columns, FLEET_COLUMNS, cells, rows, cli_columns_width());
    if (fleet->workers_total > count)
        bl_buffer_printf(out, "… and %" PRIu64 " more\n", fleet->workers_total - count);
}

void fleet_status_text(struct bl_buffer *out, const struct fleet_work *work)
{
    const struct bl_store_fleet *fleet = &work->fleet;
    char lease[32], renew[32];

    fleet_duration(fleet->lease_ms, lease);
    fleet_duration(fleet->renew_ms, renew);
    bl_buffer_printf(out,
                     "Store    %s\n"
                     "Server   PostgreSQL %s, round trip %.2f ms\n"
                     "Schema   version %" PRId64 "\n"
                     "Lease    %s, renewed every %s\n"
                     "Workers  %" PRIu64 "\n",
                     fleet->store, fleet->server, fleet->round_trip_ms, fleet->schema, lease, renew,
                     fleet->workers_total);
    fleet_append_workers(out, fleet);
}

enum fleet_item_column {
    FLEET_ITEM,
    FLEET_ITEM_STATE,
    FLEET_ITEM_POOL,
    FLEET_ITEM_AGE,
    FLEET_ITEM_TRIES,
    FLEET_ITEM_HOST,
    FLEET_ITEM_SUBMITTER,
    FLEET_ITEM_COLUMNS,
};

static const struct cli_column fleet_item_columns[FLEET_ITEM_COLUMNS] = {
    [FLEET_ITEM] = {"ITEM", 0, 10, false, false},
    [FLEET_ITEM_STATE] = {"STATE", 0, 0, false, false},
    [FLEET_ITEM_POOL] = {"POOL", 20, 0, false, false},
    [FLEET_ITEM_AGE] = {"AGE", 0, 0, true, false},
    [FLEET_ITEM_TRIES] = {"RETRIES", 30, 0, true, false},
    [FLEET_ITEM_HOST] = {"HOST", 10, 0, false, false},
    [FLEET_ITEM_SUBMITTER] = {"SUBMITTER", 40, 0, false, false},
};

static void fleet_fill_item(struct bl_arena *arena, const struct bl_fleet_view *item,
                            struct bl_text cells[FLEET_ITEM_COLUMNS])
{
    char age[32];

    fleet_duration(item->age_ms > 0 ? (uint64_t)item->age_ms : 0, age);
    cells[FLEET_ITEM] = cli_columns_cell(arena, bl_text_from(item->id));
    cells[FLEET_ITEM_STATE] = bl_text_from(bl_names_get(&bl_fleet_states, item->state));
    cells[FLEET_ITEM_POOL] = cli_columns_cell(arena, bl_text_from(item->pool));
    cells[FLEET_ITEM_AGE] = bl_arena_printf(arena, "%s", age);
    cells[FLEET_ITEM_TRIES] = bl_arena_printf(arena, "%" PRIu32, item->tries + item->deaths);
    cells[FLEET_ITEM_HOST] =
        cli_columns_cell(arena, bl_text_from(item->host != NULL ? item->host : "-"));
    cells[FLEET_ITEM_SUBMITTER] = cli_columns_cell(arena, bl_text_from(item->submitter));
}

void fleet_items_text(struct bl_buffer *out, const struct bl_list *items)
{
    BL_AUTO_ARENA(arena);
    size_t count = 0, rows = 0;

    BL_LIST_EACH (link, items)
        count++;
    if (count == 0)
        return;
    struct bl_text *cells = bl_arena_zalloc(&arena, count * FLEET_ITEM_COLUMNS * sizeof *cells);
    BL_LIST_EACH (link, items)
        fleet_fill_item(&arena, BL_CONTAINER(link, struct bl_fleet_view, link),
                        cells + FLEET_ITEM_COLUMNS * rows++);
    cli_columns_write(out, fleet_item_columns, FLEET_ITEM_COLUMNS, cells, rows,
                      cli_columns_width());
}

void fleet_list_text(struct bl_buffer *out, const struct fleet_work *work)
{
    if (bl_list_empty(&work->items))
        bl_buffer_append(out, BL_TEXT("No items.\n"));
    fleet_items_text(out, &work->items);
    if (work->next != NULL)
        bl_buffer_printf(out, "There may be more: belay fleet list --after %s\n", work->next);
}
