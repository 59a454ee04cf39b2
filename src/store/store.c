#include <stdlib.h>

#include "parts.h"

/* How long closing a store may delay the end of the program. */
#define CLOSE_NS BL_NS_PER_S

/* Stores whose thread is blocked and uses them until the process exits. The list keeps leak
 * checkers from reporting them. */
static _Thread_local struct bl_store *left_stores;

int64_t store_wall_ns(void)
{
    return bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
}

int bl_store_default_path(struct bl_arena *arena, const char **ret_path, struct bl_error *error)
{
    const char *folder = bl_user_folder(arena, BL_USER_DATA, NULL);
    if (folder != NULL) {
        *ret_path = bl_arena_printf(arena, "%s/sessions.db", folder).data;
        return 0;
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "open the store", NULL,
                 "no default store: neither XDG_DATA_HOME nor HOME is set");
    bl_error_hint(error, "name a store with --store or BELAY_STORE");
    return BL_ENOENT;
}

/* ---- Work on a thread, outside the lanes ---- */

int store_work(void (*run)(void *payload), void (*drop)(void *payload), void *payload,
               const char *where, bool *ret_dropped, struct bl_error *error)
{
    int code = bl_work_call(
        &(struct bl_work){.run = run, .drop = drop, .payload = payload, .abandon_on_stop = true},
        ret_dropped);
    if (code == BL_ETHREADS)
        bl_error_set(error, code, BL_KIND_RUNTIME, "store", where,
                     "no thread available for the store");
    else if (code != 0)
        bl_error_set(error, code, BL_KIND_FILESYSTEM, "store", where,
                     "stopped before the store responded");
    return code;
}

int store_form_call(const struct store_form *form, void (*run)(void *payload),
                    void (*drop)(void *payload), void *payload, const char *where,
                    bool *ret_dropped, struct bl_error *error)
{
    *ret_dropped = false;
    if (!form->on_loop)
        return store_work(run, drop, payload, where, ret_dropped, error);
    run(payload);
    return 0;
}

/* ---- Open, close ---- */

static void run_opening(void *payload)
{
    struct store_opening *opening = payload;
    opening->code = opening->form->open(opening, &opening->error);
}

static void run_checking(void *payload)
{
    struct store_opening *opening = payload;
    opening->code = opening->form->check(opening, &opening->error);
}

static void free_opening(void *payload)
{
    struct store_opening *opening = payload;
    bl_free(opening->where);
    bl_free(opening);
}

/* The caller has left. Runs on the loop's thread, which closing may delay for a moment. */
static void drop_opening(void *payload)
{
    struct store_opening *opening = payload;
    if (opening->code == 0)
        opening->form->close(opening->state);
    free_opening(opening);
}

static int check_where(const char *where, struct bl_error *error)
{
    if (where[0] != '\0')
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "open the store", NULL,
                 "the path of the store is empty");
    bl_error_hint(error, "use a file or the address of a database with --store");
    return BL_EINVAL;
}

static struct bl_store *make_store(struct store_opening *opening)
{
    struct bl_store *store = bl_zalloc(sizeof *store);
    bl_list_init(&store->handles);
    store->form = opening->form;
    store->state = opening->state;
    store->where = opening->where;
    store->reading = opening->reading;
    opening->where = NULL;
    store->self = opening->self;
    memcpy(store->owner, opening->owner, sizeof store->owner);
    store_lane_init(&store->writer, store->where, STORE_BATCH_JOBS_MAX, store->form->write,
                    store->state);
    store_lane_init(&store->reader, store->where, 1, store->form->read, store->state);
    store->writer.served = store->reader.served = store->form->serve != NULL;
    return store;
}

static struct store_opening *make_opening(const char *where, bool reading)
{
    size_t size = strlen(where) + 1;
    struct store_opening *opening = bl_zalloc(sizeof *opening);
    opening->form = bl_store_is_database(where) ? &store_postgres : &store_sqlite;
    opening->reading = reading;
    store_identity_read(&opening->self);
    bl_id_make(opening->owner, "own_");
    opening->where = bl_alloc(size);
    memcpy(opening->where, where, size);
    return opening;
}

/* Closes the store if there is no fiber to serve it. */
static int serve(struct bl_store *store, struct bl_error *error)
{
    int code = 0;
    if (store->form->serve != NULL)
        code = store->form->serve(store->state, &store->writer, &store->reader);
    if (code == 0)
        return 0;
    bl_error_set(error, code, BL_KIND_RUNTIME, "open the store", store->where,
                 "no fiber available for the store");
    bl_store_close(store);
    return code;
}

static int open_store(const char *where, bool reading, struct bl_store **ret_store,
                      struct bl_error *error)
{
    bool dropped;
    int code = check_where(where, error);
    if (code != 0)
        return code;
    struct store_opening *opening = make_opening(where, reading);
    code = store_form_call(opening->form, run_opening, drop_opening, opening, opening->where,
                           &dropped, error);
    if (dropped)
        return code;
    if (code == 0 && opening->code != 0) {
        code = opening->code;
        if (error != NULL && error->code == 0)
            *error = opening->error;
    } else if (code == 0) {
        *ret_store = make_store(opening);
        code = serve(*ret_store, error);
    }
    free_opening(opening);
    return code;
}

int bl_store_open(const char *where, struct bl_store **ret_store, struct bl_error *error)
{
    return open_store(where, false, ret_store, error);
}

int bl_store_open_reading(const char *where, struct bl_store **ret_store, struct bl_error *error)
{
    return open_store(where, true, ret_store, error);
}

int bl_store_check(const char *where, struct bl_error *error)
{
    bool dropped;
    int code = check_where(where, error);
    if (code != 0)
        return code;
    struct store_opening *opening = make_opening(where, true);
    code =
        store_form_call(opening->form, run_checking, free_opening, opening, where, &dropped, error);
    if (dropped)
        return code;
    if (code == 0)
        code = opening->code;
    if (code != 0 && error != NULL && error->code == 0)
        *error = opening->error;
    free_opening(opening);
    return code;
}

const char *bl_store_where(const struct bl_store *store)
{
    return store->where;
}

const struct bl_fleet_store *bl_store_fleet_table(struct bl_store *store)
{
    return store->form->fleet != NULL && !store->reading ? store->form->fleet(store->state) : NULL;
}

static void run_closing(void *payload)
{
    struct bl_store *store = payload;
    store->form->close(store->state);
    store->state = NULL;
}

static void free_store(void *payload)
{
    struct bl_store *store = payload;
    bl_free(store->where);
    bl_free(store);
}

void bl_store_close(struct bl_store *store)
{
    struct bl_scope shield;
    bool dropped = false;
    if (store == NULL)
        return;
    bool idle = store_lane_close(&store->writer);
    idle = store_lane_close(&store->reader) && idle;
    int code = BL_EBUSY;
    if (idle) {
        bl_shield_begin(&shield, CLOSE_NS);
        code = store_form_call(store->form, run_closing, free_store, store, store->where, &dropped,
                               NULL);
        bl_shield_end(&shield);
    }
    if (code == 0) {
        free_store(store);
    } else if (!dropped) {
        store->left_next = left_stores;
        left_stores = store;
    }
}

/* ---- Handles ---- */

/* Limits a batch to half of the concurrent work, so that the loop runs the other turns meanwhile:
 * with all of it in one batch, loop and thread would wait for each other alternately. A few jobs
 * share one sync. */
void store_share_batches(struct bl_store *store)
{
    size_t half = ((size_t)store->handle_count + store->cell_writes + store->feature_writes) / 2;
    half = half < STORE_BATCH_JOBS_MIN ? STORE_BATCH_JOBS_MIN : half;
    store->writer.jobs_max = half > STORE_BATCH_JOBS_MAX ? STORE_BATCH_JOBS_MAX : half;
}

void store_handle_open(struct store_handle *handle, struct bl_store *store)
{
    handle->number = ++store->handle_last;
    bl_list_push_back(&store->handles, &handle->link);
    store->handle_count++;
    store_share_batches(store);
}

void store_handle_close(struct store_handle *handle, struct bl_store *store)
{
    bl_list_remove(&handle->link);
    store->handle_count--;
    store_share_batches(store);
}

void store_claimant_fill(struct store_claimant *claimant, struct bl_store *store,
                         const struct store_handle *handle, struct bl_arena *arena)
{
    uint64_t *handles = bl_arena_alloc(arena, store->handle_count * sizeof *handles);
    *claimant = (struct store_claimant){
        .self = store->self,
        .handle = handle != NULL ? handle->number : 0,
        .handles = handles,
        .wall_ns = store_wall_ns(),
    };
    memcpy(claimant->owner, store->owner, sizeof claimant->owner);
    BL_LIST_EACH (link, &store->handles)
        handles[claimant->handle_count++] = BL_CONTAINER(link, struct store_handle, link)->number;
}

/* ---- Jobs ---- */

bool store_only_reads(enum store_operation operation)
{
    return operation >= STORE_CHECKPOINT_GET;
}

/* Over a network, operations on whole sessions must not hold up the commits of others. */
static bool moves(const struct bl_store *store, enum store_operation operation)
{
    return store->form->on_loop &&
           (operation == STORE_IMPORT || operation == STORE_FORK || operation == STORE_DELETE);
}

enum store_lane_end store_run(struct bl_store *store, struct store_job *job, int *ret_code,
                              struct bl_error *error)
{
    if (store_only_reads(job->operation))
        return store_lane_call(&store->reader, job, ret_code, error);
    if (!store->reading)
        return store_lane_call(moves(store, job->operation) ? &store->reader : &store->writer, job,
                               ret_code, error);
    *ret_code = bl_error_set(error, BL_EACCES, BL_KIND_FILESYSTEM, "write", store->where,
                             "the store was opened for reading only");
    return STORE_NOT_RUN;
}
