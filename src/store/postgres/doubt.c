/* Writes whose answer was lost. The server may still receive them. Before they are repeated, the
 * epoch of their session is raised, so that they are refused if they arrive late. A commit that
 * took place is not repeated.
 *
 * Other writes of the same hold may be queued with the old epoch. They get the new one when they
 * are run. */
#include "postgres.h"

struct pg_raised {
    struct bl_list link;
    uint64_t handle;
    uint64_t epoch;
    uint64_t connection; /* what was sent over earlier ones is refused */
};

static struct pg_raised *find_raised(const struct pg_store *store, uint64_t handle)
{
    BL_LIST_EACH (link, &store->raised) {
        struct pg_raised *raised = BL_CONTAINER(link, struct pg_raised, link);
        if (raised->handle == handle)
            return raised;
    }
    return NULL;
}

static void set_raised(struct pg_work *work, uint64_t handle, uint64_t epoch)
{
    struct pg_raised *raised = find_raised(work->store, handle);
    if (raised == NULL) {
        raised = bl_zalloc(sizeof *raised);
        raised->handle = handle;
        bl_list_push_back(&work->store->raised, &raised->link);
    }
    raised->epoch = epoch;
    raised->connection = work->link->connection;
}

void pg_doubt_forget(struct pg_store *store, uint64_t handle)
{
    struct pg_raised *raised = find_raised(store, handle);
    if (raised != NULL) {
        bl_list_remove(&raised->link);
        bl_free(raised);
    }
}

void pg_doubts_free(struct pg_store *store)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&store->raised)) != NULL)
        bl_free(BL_CONTAINER(link, struct pg_raised, link));
}

/* Returns NULL for a job that is not a write under a fence. */
static struct store_write *fenced_write(struct store_job *job)
{
    bool fenced = job->operation >= STORE_RELEASE && job->operation <= STORE_CELLS_FORGET &&
                  job->operation != STORE_RENEW;
    return fenced ? BL_CONTAINER(job, struct store_write, job) : NULL;
}

static void take_epoch(const struct pg_store *store, struct store_write *write)
{
    const struct pg_raised *raised = find_raised(store, write->handle);
    if (raised != NULL && raised->epoch > write->grip.epoch)
        write->grip.epoch = raised->epoch;
}

/* Raises the epoch. `*ret_held` false: the fence is lost. `*ret_there`: the session's newest turn is
 * that of the write. */
static int raise_epoch(struct pg_work *work, struct store_write *write, bool *ret_held,
                       bool *ret_there)
{
    struct pg_call *call = pg_call_new(
        &work->arena, "select newest_turn, new_epoch from belay.in_doubt($1, $2, $3, $4)", "siuu",
        work->store->owner, write->grip.session, write->handle, write->grip.epoch);
    int code = pg_ask(work, call, NULL);
    *ret_held = code == 0 && pg_rows(call) == 1;
    *ret_there = false;
    if (*ret_held) {
        struct store_row row = pg_row(call, 0);
        if (write->job.operation == STORE_COMMIT)
            *ret_there = bl_text_equal(store_row_text(&row, 0), write->settlement.turn_id);
        write->grip.epoch = store_row_count(&row, 1);
        set_raised(work, write->handle, write->grip.epoch);
    }
    pg_call_done(call);
    return code;
}

/* Looks for the turn of a commit after the fence was lost. */
static int doubt_find_turn(struct pg_work *work, const struct store_write *write, bool *ret_there)
{
    struct pg_call *call = pg_call_new(
        &work->arena, "select 1 from belay.turn where session = $1 and number = $2 and id = $3",
        "iut", write->grip.session, write->turns_known + 1, write->settlement.turn_id);
    int code = pg_ask(work, call, NULL);
    *ret_there = code == 0 && pg_rows(call) == 1;
    pg_call_done(call);
    return code;
}

static int settle_commit(struct pg_work *work, struct store_write *write)
{
    struct store_job *job = &write->job;
    bool held, there;
    int code = raise_epoch(work, write, &held, &there);
    if (code == 0 && !held)
        code = doubt_find_turn(work, write, &there);
    if (code != 0)
        return code;
    if (there) {
        pg_settle(job, 0);
    } else if (!held) {
        job->error = (struct bl_error){0};
        code = pg_refuse_stale(work, write, &job->error);
        if (code == BL_EPIPE || code == BL_ECANCELED)
            return code;
        pg_settle(job, code);
    }
    job->sent = false;
    return 0;
}

/* Any code means that the job is still in doubt. */
static int settle_doubt(struct pg_work *work, struct store_write *write)
{
    const struct pg_raised *raised = find_raised(work->store, write->handle);
    bool held, there;
    take_epoch(work->store, write);
    if (write->job.operation == STORE_COMMIT)
        return settle_commit(work, write);
    if (raised != NULL && raised->connection == work->link->connection)
        return 0;
    return raise_epoch(work, write, &held, &there);
}

int pg_settle_doubts(struct pg_work *work, struct bl_list *jobs)
{
    int code = 0;
    BL_LIST_EACH (link, jobs) {
        struct store_job *job = BL_CONTAINER(link, struct store_job, link);
        if (code == 0 && !job->settled && job->sent && fenced_write(job) != NULL)
            code = settle_doubt(work, fenced_write(job));
    }
    BL_LIST_EACH (link, jobs) {
        struct store_write *write = fenced_write(BL_CONTAINER(link, struct store_job, link));
        if (write != NULL)
            take_epoch(work->store, write);
    }
    return code;
}
