/* Cells of a held session. */
#include "parts.h"

/* Cells of a session write at the same time, from many fibers: each counts as separate work. */
static enum store_lane_end store_cell_run(struct bl_store_session *held, struct store_write *write,
                                          int *ret_code, struct bl_error *error)
{
    struct bl_store *store = held->store;
    write->job.linger_ns = STORE_LINGER_NS;
    store->cell_writes++;
    store_share_batches(store);
    enum store_lane_end end = store_write_run(held, write, ret_code, error);
    store->cell_writes--;
    store_share_batches(store);
    return end;
}

static struct store_write *store_cell_make_write(struct bl_store_session *held,
                                                 enum store_operation operation, struct bl_text id)
{
    struct store_write *write = store_write_new(held, operation);
    bl_list_init(&write->cell.values);
    write->cell.record.id = store_job_text(&write->job, id);
    return write;
}

/* ---- Admission ---- */

static void take_doubt(struct bl_store_session *held, struct bl_text id)
{
    struct store_doubt *doubt = bl_alloc(sizeof *doubt + id.size);
    doubt->size = id.size;
    memcpy(doubt->id, id.data, id.size);
    bl_list_push_back(&held->doubts, &doubt->link);
}

/* Each doubt is removed from the list before its job is queued, so that later jobs in the lane do
 * not queue it again. */
int store_doubts_settle(struct bl_store_session *held, struct bl_error *error)
{
    struct bl_list *link;
    int code = 0;
    while (code == 0 && (link = bl_list_pop_front(&held->doubts)) != NULL) {
        struct store_doubt *doubt = BL_CONTAINER(link, struct store_doubt, link);
        store_cell_run(held,
                       store_cell_make_write(held, STORE_CELL_WITHDRAW,
                                             (struct bl_text){doubt->id, doubt->size}),
                       &code, error);
        if (code == 0)
            bl_free(doubt);
        else
            bl_list_push_front(&held->doubts, link);
    }
    return code;
}

void store_doubts_free(struct bl_store_session *held)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&held->doubts)) != NULL)
        bl_free(BL_CONTAINER(link, struct store_doubt, link));
}

int bl_store_cell_admit(struct bl_store_session *held, const struct bl_store_cell *cell,
                        struct bl_error *error)
{
    int code = store_doubts_settle(held, error);
    if (code != 0)
        return code;
    struct store_write *write = store_cell_make_write(held, STORE_CELL_ADMIT, cell->id);
    struct bl_store_cell *record = &write->cell.record;
    record->digest = store_job_text(&write->job, cell->digest);
    record->created_wall_ns = cell->created_wall_ns;
    record->deadline_ms = cell->deadline_ms;
    record->pid = cell->pid;
    record->pid_started = cell->pid_started;
    if (store_cell_run(held, write, &code, error) == STORE_NO_ANSWER)
        take_doubt(held, cell->id);
    return code;
}

/* ---- While it runs ---- */

int bl_store_cell_started(struct bl_store_session *held, struct bl_text id, int64_t pid,
                          int64_t pid_started, struct bl_error *error)
{
    struct store_write *write = store_cell_make_write(held, STORE_CELL_STARTED, id);
    int code;
    write->cell.record.pid = pid;
    write->cell.record.pid_started = pid_started;
    store_cell_run(held, write, &code, error);
    return code;
}

int bl_store_cell_yield(struct bl_store_session *held, const struct bl_store_cell *cell,
                        struct bl_error *error)
{
    struct store_write *write = store_cell_make_write(held, STORE_CELL_YIELD, cell->id);
    int code;
    write->cell.record.generation = cell->generation;
    write->cell.record.yielded = store_job_text(&write->job, cell->yielded);
    store_cell_run(held, write, &code, error);
    return code;
}

/* ---- The end ---- */

static void copy_value(struct store_write *write, const struct bl_store_value *value)
{
    struct bl_store_value *copy = bl_arena_alloc(&write->job.input, sizeof *copy);
    copy->key = store_job_text(&write->job, value->key);
    copy->json = store_job_text(&write->job, value->json);
    bl_list_push_back(&write->cell.values, &copy->link);
}

int bl_store_cell_end(struct bl_store_session *held, const struct bl_store_cell *cell,
                      const struct bl_list *values, const char *receipt_id, struct bl_text receipt,
                      struct bl_error *error)
{
    struct store_write *write = store_cell_make_write(held, STORE_CELL_END, cell->id);
    struct bl_store_cell *record = &write->cell.record;
    struct bl_error own = {0};
    int code;
    record->yielded_generation = cell->yielded_generation;
    record->yielded = store_job_text(&write->job, cell->yielded);
    record->generation = cell->generation;
    record->terminal = store_job_text(&write->job, cell->terminal);
    record->completed = cell->completed;
    record->ended_wall_ns = cell->ended_wall_ns;
    if (values != NULL) {
        BL_LIST_EACH (link, values)
            copy_value(write, BL_CONTAINER(link, struct bl_store_value, link));
    }
    write->cell.receipt_id = store_job_string(&write->job, receipt_id);
    write->cell.receipt = store_job_text(&write->job, receipt);
    if (store_cell_run(held, write, &code, &own) == STORE_NO_ANSWER) {
        own = (struct bl_error){0};
        code =
            bl_error_set(&own, BL_EUNKNOWN, BL_KIND_FILESYSTEM, "end the cell", held->store->where,
                         "the store did not respond: it is unknown whether cell " BL_TEXT_FORMAT
                         " has ended in session %s",
                         BL_TEXT_ARG(cell->id), held->id);
        bl_error_name_set(&own, "commit_unknown");
    }
    if (code != 0 && error != NULL && error->code == 0)
        *error = own;
    return code;
}

int bl_store_cell_bury(struct bl_store_session *held, struct bl_text id, int64_t wall_ns,
                       uint64_t tombstones_max, uint64_t tombstone_ns_max, struct bl_error *error)
{
    struct store_write *write = store_cell_make_write(held, STORE_CELL_BURY, id);
    int code;
    write->wall_ns = wall_ns;
    write->cell.tombstones_max = tombstones_max;
    write->cell.tombstone_ns_max = tombstone_ns_max;
    store_cell_run(held, write, &code, error);
    return code;
}

int bl_store_cells_forget(struct bl_store_session *held, struct bl_error *error)
{
    int code;
    store_cell_run(held, store_cell_make_write(held, STORE_CELLS_FORGET, (struct bl_text){0}),
                   &code, error);
    return code;
}

/* ---- Reading ---- */

static struct store_look *store_cell_make_look(const struct bl_store_session *held,
                                               enum store_operation operation)
{
    struct store_look *look = store_job_new(operation, sizeof *look);
    look->session = held->grip.session;
    bl_list_init(&look->cells);
    bl_list_init(&look->values);
    return look;
}

static void copy_cell(struct bl_arena *arena, const struct bl_store_cell *from,
                      struct bl_list *ret_cells)
{
    struct bl_store_cell *to = bl_arena_alloc(arena, sizeof *to);
    *to = *from;
    to->id = bl_arena_text(arena, from->id);
    to->digest = bl_arena_text(arena, from->digest);
    to->yielded = bl_arena_text(arena, from->yielded);
    to->terminal = bl_arena_text(arena, from->terminal);
    bl_list_push_back(ret_cells, &to->link);
}

int bl_store_cells_load(struct bl_store_session *held, struct bl_arena *arena,
                        struct bl_list *ret_cells, struct bl_list *ret_values,
                        struct bl_error *error)
{
    struct store_look *look = store_cell_make_look(held, STORE_CELLS_LOAD);
    int code;
    if (store_run(held->store, &look->job, &code, error) == STORE_ANSWERED && code == 0) {
        bl_list_init(ret_cells);
        bl_list_init(ret_values);
        BL_LIST_EACH (link, &look->cells)
            copy_cell(arena, BL_CONTAINER(link, struct bl_store_cell, link), ret_cells);
        BL_LIST_EACH (link, &look->values) {
            const struct bl_store_value *from = BL_CONTAINER(link, struct bl_store_value, link);
            struct bl_store_value *to = bl_arena_alloc(arena, sizeof *to);
            to->key = bl_arena_text(arena, from->key);
            to->json = bl_arena_text(arena, from->json);
            bl_list_push_back(ret_values, &to->link);
        }
    }
    store_job_leave(&look->job);
    return code;
}

int bl_store_cell_buried(struct bl_store_session *held, struct bl_text id, bool *ret_buried,
                         struct bl_error *error)
{
    struct store_look *look = store_cell_make_look(held, STORE_CELL_BURIED);
    int code;
    look->cell_id = store_job_text(&look->job, id);
    if (store_run(held->store, &look->job, &code, error) == STORE_ANSWERED && code == 0)
        *ret_buried = look->buried;
    store_job_leave(&look->job);
    return code;
}
