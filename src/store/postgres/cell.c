/* Cells of a session and the stored values. A write is one call, whose verdict says what was found.
 * A write that is repeated after a lost answer recognizes its own effect. */
#include "postgres.h"

static const struct store_write *cell_write_of(const struct store_job *job)
{
    return BL_CONTAINER(job, const struct store_write, job);
}

/* Columns of the answer: the verdict, and the digest or the end of the cell that is there. */
static int take_verdict(struct pg_work *work, struct store_job *job, struct pg_call *call,
                        struct bl_error *error)
{
    const struct store_write *write = cell_write_of(job);
    if (pg_rows(call) != 1)
        return BL_ESYSTEM;
    struct store_row row = pg_row(call, 0);
    struct bl_text verdict = store_row_text(&row, 0), known = store_row_text(&row, 1);
    if (bl_text_equal(verdict, BL_TEXT("done")))
        return 0;
    if (bl_text_equal(verdict, BL_TEXT("stale")))
        return pg_refuse_stale(work, write, error);
    if (bl_text_equal(verdict, BL_TEXT("used")))
        return store_refuse_used_cell(write, known, error);
    if (bl_text_equal(verdict, BL_TEXT("missing")))
        return store_refuse_missing_cell(write, error);
    if (bl_text_equal(verdict, BL_TEXT("ended")))
        return store_refuse_ended_cell(write, known, error);
    return BL_ESYSTEM;
}

/* ---- Admission ---- */

static struct pg_call *call_admit(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = cell_write_of(job);
    const struct bl_store_cell *cell = &write->cell.record;
    return pg_call_new(
        &work->arena,
        "select verdict, known from belay.admit_cell($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        "siuootwiiib", work->store->owner, write->grip.session, write->grip.epoch,
        (int)job->durable, (int)job->sent, cell->id, cell->created_wall_ns, cell->deadline_ms,
        cell->pid, cell->pid_started, cell->digest);
}

static struct pg_call *call_withdraw(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = cell_write_of(job);
    return pg_call_new(&work->arena,
                       "select verdict, known from belay.withdraw_cell($1, $2, $3, $4, $5)",
                       "siuot", work->store->owner, write->grip.session, write->grip.epoch,
                       (int)job->durable, write->cell.record.id);
}

const struct pg_operation pg_cell_admit = {.call = call_admit, .take = take_verdict};
const struct pg_operation pg_cell_withdraw = {.call = call_withdraw, .take = take_verdict};

/* ---- While it runs ---- */

static struct pg_call *call_started(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = cell_write_of(job);
    const struct bl_store_cell *cell = &write->cell.record;
    return pg_call_new(&work->arena,
                       "select verdict, known from belay.start_cell($1, $2, $3, $4, $5, $6, $7)",
                       "siuotii", work->store->owner, write->grip.session, write->grip.epoch,
                       (int)job->durable, cell->id, cell->pid, cell->pid_started);
}

static struct pg_call *call_yield(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = cell_write_of(job);
    const struct bl_store_cell *cell = &write->cell.record;
    return pg_call_new(&work->arena,
                       "select verdict, known from belay.yield_cell($1, $2, $3, $4, $5, $6, $7)",
                       "siuotuj", work->store->owner, write->grip.session, write->grip.epoch,
                       (int)job->durable, cell->id, cell->generation, cell->yielded);
}

const struct pg_operation pg_cell_started = {.call = call_started, .take = take_verdict};
const struct pg_operation pg_cell_yield = {.call = call_yield, .take = take_verdict};

/* ---- The end ---- */

static struct pg_call *call_end(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = cell_write_of(job);
    const struct bl_store_cell *cell = &write->cell.record;
    bool stopped = write->cell.receipt.size > 0;
    struct pg_array names, bodies;
    pg_array_init(&names, 'b');
    pg_array_init(&bodies, 'b');
    BL_LIST_EACH (link, &write->cell.values) {
        const struct bl_store_value *value = BL_CONTAINER(link, struct bl_store_value, link);
        pg_array_add_text(&names, value->key);
        pg_array_add_optional(&bodies, value->json);
    }
    struct pg_call *call = pg_call_new(
        &work->arena,
        "select verdict, known from belay.end_cell($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
        " $12, $13, $14, $15, $16, $17)",
        "siuotuuovjbsAAssj", work->store->owner, write->grip.session, write->grip.epoch,
        (int)job->durable, cell->id, cell->yielded_generation, cell->generation,
        (int)cell->completed, cell->ended_wall_ns, cell->yielded, cell->terminal,
        pg_receipt_id(&work->arena, cell->terminal), &names, &bodies,
        stopped ? write->cell.receipt_id : NULL,
        pg_receipt_scope(&work->arena, write->cell.receipt), write->cell.receipt);
    pg_call_keep(call, &work->arena);
    pg_array_done(&names);
    pg_array_done(&bodies);
    return call;
}

const struct pg_operation pg_cell_end = {.call = call_end, .take = take_verdict};

/* ---- Tombstones ---- */

/* Returns the time before which tombstones are too old; INT64_MIN: none is. */
static int64_t oldest_allowed(const struct store_write *write)
{
    int64_t wall_ns;
    if (write->cell.tombstone_ns_max > INT64_MAX ||
        __builtin_sub_overflow(write->wall_ns, (int64_t)write->cell.tombstone_ns_max, &wall_ns))
        return INT64_MIN;
    return wall_ns;
}

static struct pg_call *call_bury(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = cell_write_of(job);
    return pg_call_new(
        &work->arena,
        "select verdict, known from belay.bury_cell($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        "siuootwuw", work->store->owner, write->grip.session, write->grip.epoch, (int)job->durable,
        (int)job->sent, write->cell.record.id, write->wall_ns, write->cell.tombstones_max,
        oldest_allowed(write));
}

static struct pg_call *call_forget(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = cell_write_of(job);
    return pg_call_new(
        &work->arena, "select verdict, known from belay.forget_cells($1, $2, $3, $4)", "siuo",
        work->store->owner, write->grip.session, write->grip.epoch, (int)job->durable);
}

const struct pg_operation pg_cell_bury = {.call = call_bury, .take = take_verdict};
const struct pg_operation pg_cells_forget = {.call = call_forget, .take = take_verdict};

/* ---- Reading ---- */

static int run_cells_load(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_look *look = BL_CONTAINER(job, struct store_look, job);
    struct pg_call *cells = pg_call_new(&work->arena,
                                        "select id, digest, created, deadline_ms, pid, pid_started,"
                                        " yielded_generation, generation, completed, ended,"
                                        " yielded, terminal from belay.cell where session = $1"
                                        " order by key",
                                        "i", look->session);
    struct pg_call *values = pg_call_new(
        &work->arena, "select name, body from belay.cell_value where session = $1 order by key",
        "i", look->session);
    struct pg_call *calls[] = {cells, values};
    bl_list_init(&look->cells);
    bl_list_init(&look->values);
    int code = pg_ask_all(work, calls, BL_COUNT(calls), error);
    for (int i = 0; code == 0 && i < pg_rows(cells); i++) {
        struct store_row row = pg_row(cells, i);
        store_look_add_cell(look, &row);
    }
    for (int i = 0; code == 0 && i < pg_rows(values); i++) {
        struct store_row row = pg_row(values, i);
        store_look_add_value(look, &row);
    }
    pg_calls_done(calls, BL_COUNT(calls));
    return code;
}

static struct pg_call *call_buried(struct pg_work *work, struct store_job *job)
{
    const struct store_look *look = BL_CONTAINER(job, struct store_look, job);
    return pg_call_new(
        &work->arena,
        "select exists (select 1 from belay.cell_tombstone where session = $1 and id = $2)", "it",
        look->session, look->cell_id);
}

static int take_buried(struct pg_work *work BL_UNUSED, struct store_job *job, struct pg_call *call,
                       struct bl_error *error BL_UNUSED)
{
    struct store_look *look = BL_CONTAINER(job, struct store_look, job);
    if (pg_rows(call) != 1)
        return BL_ESYSTEM;
    struct store_row row = pg_row(call, 0);
    look->buried = store_row_flag(&row, 0);
    return 0;
}

const struct pg_operation pg_cells_load = {.run = run_cells_load};
const struct pg_operation pg_cell_buried = {.call = call_buried, .take = take_buried};
