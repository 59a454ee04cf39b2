/* Design notes.
 *
 * Each connection is served by a fiber of its own, which runs one batch of jobs after another, and
 * is not stopped with a caller: a job that has been sent runs to its end. The calls of a
 * batch go out as one pipeline, each in a transaction of its own, so that one that is refused does
 * not fail the others; turns that begin or commit share one call, and one sync of the server's log.
 *
 * A connection may be lost at any moment. Jobs that have no answer yet are run again on the next
 * one. All writes but a commit can be repeated: they say which write they are. A commit without an
 * answer is settled first (doubt.c). A job that has waited for too long ends with an error that says
 * whether it may have taken place. */
#include <assert.h>
#include <stdio.h>

#include "postgres.h"

/* Between attempts to connect. */
#define RETRY_MIN_NS (10 * BL_NS_PER_MS)
#define RETRY_MAX_NS (2 * BL_NS_PER_S)

static const struct pg_operation *operation_of(struct store_job *job)
{
    static const struct pg_operation *const operations[] = {
        [STORE_HOLD] = &pg_hold,
        [STORE_RELEASE] = &pg_release,
        [STORE_RENEW] = &pg_renew,
        [STORE_BEGIN] = &pg_begin,
        [STORE_COMMIT] = &pg_commit,
        [STORE_REJECT] = &pg_reject,
        [STORE_NOTE] = &pg_note,
        [STORE_COMPACT] = &pg_compact,
        [STORE_CHECKPOINT_PUT] = &pg_checkpoint_put,
        [STORE_CELL_ADMIT] = &pg_cell_admit,
        [STORE_CELL_STARTED] = &pg_cell_started,
        [STORE_CELL_YIELD] = &pg_cell_yield,
        [STORE_CELL_END] = &pg_cell_end,
        [STORE_CELL_BURY] = &pg_cell_bury,
        [STORE_CELL_WITHDRAW] = &pg_cell_withdraw,
        [STORE_CELLS_FORGET] = &pg_cells_forget,
        [STORE_TASK_BEGIN] = &pg_task_begin,
        [STORE_TASK_END] = &pg_task_end,
        [STORE_TASK_SETTLE] = &pg_task_settle,
        [STORE_FEATURE_HOLD] = &pg_feature_hold,
        [STORE_FEATURE_WRITE] = &pg_feature_write,
        [STORE_FEATURE_RELEASE] = &pg_feature_release,
        [STORE_FEATURE_LOAD] = &pg_feature_load,
        [STORE_FEATURE_EVENTS] = &pg_feature_events,
        [STORE_FEATURE_LIST] = &pg_feature_list,
        [STORE_CELLS_LOAD] = &pg_cells_load,
        [STORE_CELL_BURIED] = &pg_cell_buried,
        [STORE_TASK_GET] = &pg_task_get,
        [STORE_IMPORT] = &pg_import,
        [STORE_FORK] = &pg_fork,
        [STORE_DELETE] = &pg_delete,
        [STORE_CHECKPOINT_GET] = &pg_checkpoint_get,
        [STORE_LIST] = &pg_list,
        [STORE_SHOW] = &pg_show,
        [STORE_FIND] = &pg_find,
        [STORE_TURNS] = &pg_turns,
        [STORE_EXPORT_PAGE] = &pg_export_page,
    };
    if (job->operation == STORE_FEATURE_WRITE && pg_feature_only_renews(job))
        return &pg_feature_renew;
    return operations[job->operation];
}

/* ---- Batches ---- */

/* After this time without an answer to a heartbeat, the worker cannot rule out a takeover. */
#define LEASE_MARGIN_NS (4 * BL_NS_PER_S)

static uint64_t pg_answer_ns(const struct pg_store *store)
{
    uint64_t lease_ns = (uint64_t)store->lease_ms * BL_NS_PER_MS;
    uint64_t end_ns =
        store->beat_ns + (lease_ns > LEASE_MARGIN_NS ? lease_ns - LEASE_MARGIN_NS : 0);
    uint64_t now_ns = bl_now_ns();
    return end_ns > now_ns + BL_STORE_NS_MAX ? end_ns - now_ns : BL_STORE_NS_MAX;
}

static uint64_t answer_ns(void *state)
{
    return pg_answer_ns(state);
}

static struct store_job *job_of(struct bl_list *link)
{
    return BL_CONTAINER(link, struct store_job, link);
}

void pg_settle(struct store_job *job, int code)
{
    job->code = code;
    job->settled = true;
    if (code != 0 && job->error.code == 0)
        bl_error_set(&job->error, code, BL_KIND_SESSION, "use the store", NULL, "%s",
                     bl_error_text(code));
}

/* Takes the answer of a job's call, or leaves the job to be run again. */
static void pg_take_answer(struct pg_work *work, struct store_job *job, struct pg_call *call)
{
    if (!call->answered || (pg_transient(call) && ++job->tries < PG_TRIES_MAX)) {
        job->sent = job->sent || !call->answered;
        return;
    }
    int code = pg_failed(work->link, call, "use the store", &job->error);
    if (code == 0)
        code = operation_of(job)->take(work, job, call, &job->error);
    /* A refusal may need another call, to find out why. */
    if (code == BL_EPIPE)
        job->error = (struct bl_error){0};
    else
        pg_settle(job, code);
}

/* A call and its job. */
struct pg_errand {
    struct bl_list link;
    struct store_job *job;
    struct pg_call *call;
};

/* Runs the jobs that are one call each as one pipeline. Returns BL_EPIPE if the connection is lost,
 * or BL_ECANCELED. */
static int run_calls(struct pg_work *work, struct bl_list *jobs)
{
    struct bl_list errands, calls;
    int code = 0;
    bl_list_init(&errands);
    bl_list_init(&calls);
    BL_LIST_EACH (link, jobs) {
        struct store_job *job = job_of(link);
        const struct pg_operation *operation = operation_of(job);
        if (job->settled || operation->call == NULL)
            continue;
        struct pg_errand *errand = bl_arena_alloc(&work->arena, sizeof *errand);
        job->error = (struct bl_error){0};
        bl_arena_reset(&job->output);
        *errand = (struct pg_errand){.job = job, .call = operation->call(work, job)};
        bl_list_push_back(&errands, &errand->link);
        bl_list_push_back(&calls, &errand->call->link);
    }
    code = pg_link_run(work->link, &calls, NULL);
    BL_LIST_EACH (link, &errands) {
        struct pg_errand *errand = BL_CONTAINER(link, struct pg_errand, link);
        pg_take_answer(work, errand->job, errand->call);
        pg_call_done(errand->call);
    }
    return code;
}

/* Runs the jobs of several steps, one after another. */
static int pg_run_steps(struct pg_work *work, struct bl_list *jobs)
{
    BL_LIST_EACH (link, jobs) {
        struct store_job *job = job_of(link);
        if (job->settled || operation_of(job)->run == NULL)
            continue;
        job->error = (struct bl_error){0};
        bl_arena_reset(&job->output);
        int code = operation_of(job)->run(work, job, &job->error);
        if (code == BL_EPIPE || code == BL_ECANCELED) {
            job->sent = true;
            return code;
        }
        pg_settle(job, code);
    }
    return 0;
}

static int run_jobs(struct pg_work *work, struct bl_list *jobs)
{
    int code = pg_settle_doubts(work, jobs);
    if (code == 0)
        code = pg_run_begins(work, jobs);
    if (code == 0)
        code = pg_run_commits(work, jobs);
    if (code == 0)
        code = run_calls(work, jobs);
    return code == 0 ? pg_run_steps(work, jobs) : code;
}

static bool all_settled(struct bl_list *jobs)
{
    BL_LIST_EACH (link, jobs) {
        if (!job_of(link)->settled)
            return false;
    }
    return true;
}

/* Ends a job that could not be done. */
static void give_up(struct pg_store *store, struct store_job *job, const struct bl_error *why)
{
    if (!job->sent || store_only_reads(job->operation)) {
        job->error = *why;
        pg_settle(job, why->code);
        return;
    }
    job->error = (struct bl_error){0};
    bl_error_set(&job->error, BL_EUNKNOWN, BL_KIND_SESSION, "write to the store",
                 store->address.shown, "it is unknown whether the write took place: %.300s",
                 why->message);
    bl_error_hint(&job->error, "open it again to find out what was saved");
    bl_error_name_set(&job->error, "commit_unknown");
    pg_settle(job, BL_EUNKNOWN);
}

/* A commit waits as long as this worker can be sure of its lease. Anything else waits for a few
 * seconds, and not at all if the server has been gone for that long. */
static uint64_t until_ns(const struct pg_store *store, const struct store_job *job)
{
    bool claimed = job->operation == STORE_COMMIT || job->operation == STORE_COMPACT;
    if (claimed)
        return bl_time_add(job->queued_ns, pg_answer_ns(store));
    bool gone = store->gone_ns != 0 && store->gone_ns < job->queued_ns;
    return bl_time_add(gone ? store->gone_ns : job->queued_ns, BL_STORE_NS_MAX);
}

/* Ends the jobs that have waited for too long; `all`: all that are not settled. */
static void give_up_due(struct pg_store *store, struct bl_list *jobs, const struct bl_error *why,
                        bool all)
{
    uint64_t now_ns = bl_now_ns();
    BL_LIST_EACH (link, jobs) {
        struct store_job *job = job_of(link);
        if (!job->settled && (all || now_ns >= until_ns(store, job)))
            give_up(store, job, why);
    }
}

/* Ends jobs that were sent and must not be repeated: their outcome is unknown. */
static void settle_once(struct bl_list *jobs)
{
    BL_LIST_EACH (link, jobs) {
        struct store_job *job = job_of(link);
        if (job->settled || !job->sent || !operation_of(job)->once)
            continue;
        bl_error_set(&job->error, BL_EUNKNOWN, BL_KIND_SESSION, "write to the store", NULL,
                     "the connection to the database was lost: it is unknown whether the write "
                     "took place");
        bl_error_hint(&job->error, "'belay session list' shows the sessions of this store");
        bl_error_name_set(&job->error, "commit_unknown");
        pg_settle(job, BL_EUNKNOWN);
    }
}

/* Tries once to run the jobs. Returns 0, or why it could not. */
static int try_batch(struct pg_work *work, struct bl_list *jobs, struct bl_error *ret_why)
{
    const char *where = work->store->address.shown;
    *ret_why = (struct bl_error){0};
    int code = pg_link_open(work->link, ret_why);
    if (code == 0)
        code = run_jobs(work, jobs);
    if (code == 0)
        work->store->gone_ns = 0;
    else if (work->store->gone_ns == 0)
        work->store->gone_ns = bl_now_ns();
    bl_arena_reset(&work->arena);
    settle_once(jobs);
    if (code != 0 && ret_why->code == 0) {
        bl_error_set(ret_why, BL_EIO, BL_KIND_SESSION, "use the store", where,
                     "the connection to %.200s is lost", where);
        ret_why->retryable = true;
    }
    return code;
}

static void run_batch(struct pg_link *link, struct bl_list *jobs)
{
    struct pg_work work = {.store = link->store, .link = link};
    uint64_t nap_ns = RETRY_MIN_NS;
    struct bl_error why;
    bool over = false;
    while (!all_settled(jobs) && !over) {
        if (try_batch(&work, jobs, &why) == 0)
            continue;
        over = !why.retryable || bl_sleep(nap_ns) != 0;
        give_up_due(link->store, jobs, &why, over);
        nap_ns = 2 * nap_ns > RETRY_MAX_NS ? RETRY_MAX_NS : 2 * nap_ns;
    }
    bl_arena_done(&work.arena);
}

static void write_batch(void *state, struct bl_list *jobs)
{
    run_batch(&((struct pg_store *)state)->work, jobs);
}

static void read_batch(void *state, struct bl_list *jobs)
{
    run_batch(&((struct pg_store *)state)->read, jobs);
}

/* ---- Open and close ---- */

int pg_check_server(struct pg_link *link, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    struct pg_store *store = link->store;
    int server = PQserverVersion(link->conn);
    if (server < 130000) {
        bl_error_set(error, BL_ENOTSUP, BL_KIND_SESSION, "open the store", store->address.shown,
                     "the server of %.200s has version %d.%d (expected 13 or newer)",
                     store->address.shown, server / 10000, server / 100 % 100);
        return BL_ENOTSUP;
    }
    struct pg_call *call =
        pg_call_new(&arena,
                    "select version, oldest, lease_ms, renew_ms, current_setting('fsync'),"
                    " current_setting('full_page_writes') from belay.fleet",
                    "");
    int code = pg_link_ask(link, call, "open the store", error);
    if (code == 0 && pg_rows(call) == 1) {
        struct store_row row = pg_row(call, 0);
        int64_t version = store_row_integer(&row, 0), oldest = store_row_integer(&row, 1);
        store->schema = version;
        store->lease_ms = store_row_integer(&row, 2);
        store->renew_ms = store_row_integer(&row, 3);
        bool safe = bl_text_equal(store_row_text(&row, 4), BL_TEXT("on")) &&
                    bl_text_equal(store_row_text(&row, 5), BL_TEXT("on"));
        if (oldest > PG_SCHEMA_VERSION || version < PG_SCHEMA_VERSION) {
            bl_error_set(error, BL_ENOTSUP, BL_KIND_SESSION, "open the store", store->address.shown,
                         "the schema of %.160s has version %lld, and this Belay needs version %d",
                         store->address.shown, (long long)version, PG_SCHEMA_VERSION);
            bl_error_hint(error,
                          version < PG_SCHEMA_VERSION
                              ? "use the version of Belay that created it, or another database"
                              : "install a newer version of Belay");
            code = BL_ENOTSUP;
        } else if (!safe) {
            bl_error_set(error, BL_ENOTSUP, BL_KIND_SESSION, "open the store", store->address.shown,
                         "the server of %.200s has fsync or full_page_writes off: a crash would "
                         "lose committed turns",
                         store->address.shown);
            bl_error_hint(error, "turn both on in postgresql.conf");
            code = BL_ENOTSUP;
        }
    } else if (code == 0) {
        code =
            bl_error_set(error, BL_ENOTSUP, BL_KIND_SESSION, "open the store", store->address.shown,
                         "the schema of %.200s is empty", store->address.shown);
    }
    pg_call_done(call);
    return code;
}

static void pg_free(struct pg_store *store)
{
    pg_doubts_free(store);
    pg_link_close(&store->queue);
    pg_link_close(&store->control);
    bl_arena_done(&store->place);
    pg_link_close(&store->read);
    pg_link_close(&store->work);
    bl_client_free(store->resolver);
    pg_address_done(&store->address);
    bl_free(store);
}

static int pg_open(struct store_opening *opening, struct bl_error *error)
{
    struct pg_store *store = bl_zalloc(sizeof *store);
    store->reading = opening->reading;
    store->self = opening->self;
    bl_text_into(store->owner, sizeof store->owner, opening->owner);
    bl_list_init(&store->raised);
    store->work = (struct pg_link){.store = store, .silence_ns = PG_SILENCE_NS};
    store->read = (struct pg_link){.store = store, .silence_ns = PG_SILENCE_LONG_NS};
    store->control = (struct pg_link){.store = store, .silence_ns = PG_SILENCE_NS};
    bl_lock_init(&store->controls);
    store->queue = (struct pg_link){.store = store, .silence_ns = PG_SILENCE_NS};
    bl_lock_init(&store->queues);
    store->resolver = bl_client_new(&(struct bl_client_options){0});
    struct pg_link *first = store->reading ? &store->read : &store->work;
    int code =
        pg_address_make(opening->where, store->reading, store->owner, &store->address, error);
    if (code == 0)
        code = pg_link_open(first, error);
    if (code == 0)
        code = pg_check_server(first, error);
    if (code != 0) {
        pg_free(store);
        return code;
    }
    /* From here on it is shown to users. */
    snprintf(opening->where, strlen(opening->where) + 1, "%s", store->address.shown);
    opening->state = store;
    return 0;
}

static int pg_check(struct store_opening *opening, struct bl_error *error)
{
    opening->reading = true;
    int code = pg_open(opening, error);
    if (code == 0)
        pg_free(opening->state);
    return code;
}

/* ---- Service ---- */

static int serve_lane(void *argument)
{
    return store_lane_serve(argument);
}

static int pg_serve(void *state, struct store_lane *writer, struct store_lane *reader)
{
    struct pg_store *store = state;
    store->reader = reader;
    bl_shield_init(&store->shield, bl_loop_scope(bl_loop_current()));
    bl_nursery_init(&store->service, &store->shield);
    int code = bl_nursery_spawn(&store->service, NULL, "store: write", serve_lane, writer, NULL);
    if (code == 0)
        code = bl_nursery_spawn(&store->service, NULL, "store: read", serve_lane, reader, NULL);
    return code;
}

/* Tells the fleet that this worker holds nothing any more. If that fails, another worker finds it
 * lost after a while. */
static void say_goodbye(struct pg_store *store)
{
    BL_AUTO_ARENA(arena);
    if (!store->registered || store->work.conn == NULL)
        return;
    struct pg_call *call = pg_call_new(&arena, "select belay.leave($1)", "s", store->owner);
    pg_link_ask(&store->work, call, "leave", NULL);
    pg_call_done(call);
}

static void pg_close(void *state)
{
    struct pg_store *store = state;
    bl_nursery_done(&store->service);
    bl_scope_done(&store->shield);
    say_goodbye(store);
    pg_free(store);
}

const struct store_form store_postgres = {
    .on_loop = true,
    .open = pg_open,
    .check = pg_check,
    .serve = pg_serve,
    .close = pg_close,
    .write = write_batch,
    .read = read_batch,
    .answer_ns = answer_ns,
    .fleet = pg_fleet,
    .export_new = pg_export_new,
    .export_next = pg_export_next,
    .export_free = pg_export_free,
};
