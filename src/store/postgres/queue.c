/* The queue of a fleet. Its calls go over a connection of their own, one at a time: a large item must
 * delay neither heartbeats nor commits. */
#include <math.h>
#include <stdio.h>

#include "postgres.h"

/* Between repetitions of a call. */
#define RETRY_MIN_NS (10 * BL_NS_PER_MS)
#define RETRY_MAX_NS (500 * BL_NS_PER_MS)

static const char *const state_names[] = {
    [BL_FLEET_DELAYED] = "delayed",         [BL_FLEET_PARKED] = "parked",
    [BL_FLEET_QUEUED] = "queued",           [BL_FLEET_RUNNING] = "running",
    [BL_FLEET_STOPPING] = "stopping",       [BL_FLEET_COMPLETED] = "completed",
    [BL_FLEET_FAILED] = "failed",           [BL_FLEET_CANCELLED] = "cancelled",
    [BL_FLEET_INTERRUPTED] = "interrupted",
};
const struct bl_names bl_fleet_states = BL_NAMES(state_names);

/* ---- Calls ---- */

/* Runs the call once. BL_EAGAIN: others were in the way at the same moment. */
static int queue_try(struct pg_store *store, struct pg_call *call, unsigned how,
                     const char *operation, struct bl_error *error)
{
    struct pg_link *link = &store->queue;
    int code = bl_lock_take(&store->queues);
    if (code != 0)
        return code;
    pg_call_done(call);
    call->answered = false;
    link->silence_ns = (how & PG_SLOW) != 0 ? PG_SILENCE_LONG_NS : PG_SILENCE_NS;
    code = pg_link_open(link, error);
    if (code == 0)
        code = pg_link_ask(link, call, operation, error);
    bl_lock_give(&store->queues);
    return code != 0 && pg_transient(call) ? BL_EAGAIN : code;
}

/* A description that is refused is an error of its user. */
static int queue_refuse(const struct pg_call *call, const char *operation, struct bl_error *error)
{
    const char *message = PQresultErrorField(call->result, PG_DIAG_MESSAGE_PRIMARY);
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, operation, NULL, "%s",
                 message != NULL ? message : "invalid item");
    return BL_EINVAL;
}

int pg_queue_ask(struct pg_store *store, struct pg_call *call, unsigned how, const char *operation,
                 struct bl_error *error)
{
    uint64_t until_ns = bl_time_add(bl_now_ns(), BL_STORE_NS_MAX), nap_ns = RETRY_MIN_NS;
    struct bl_error own;
    for (;;) {
        own = (struct bl_error){0};
        int code = queue_try(store, call, how, operation, &own);
        bool lost = code == BL_EPIPE || (code == BL_EIO && own.retryable);
        bool again = code == BL_EAGAIN || (lost && (how & PG_ONCE) == 0);
        if (code == 0)
            return 0;
        if (!again || bl_now_ns() + nap_ns >= until_ns || bl_sleep(nap_ns) != 0) {
            if (strcmp(pg_state(call), "22023") == 0)
                code = queue_refuse(call, operation, error);
            else if (error != NULL && error->code == 0)
                *error = own;
            pg_call_done(call);
            return code == BL_EAGAIN ? BL_EBUSY : code;
        }
        nap_ns = 2 * nap_ns > RETRY_MAX_NS ? RETRY_MAX_NS : 2 * nap_ns;
    }
}

/* ---- Workers ---- */

static void pg_enlist(void *context, const struct bl_fleet_place *place)
{
    struct pg_store *store = context;
    bl_arena_reset(&store->place);
    store->pool = bl_arena_text(&store->place, bl_text_from(place->pool)).data;
    store->slots = place->slots;
    store->label_count = 0;
    while (place->labels != NULL && place->labels[store->label_count] != NULL)
        store->label_count++;
    store->labels =
        bl_arena_alloc(&store->place, (store->label_count + 1) * sizeof(struct bl_text));
    for (size_t i = 0; i < store->label_count; i++)
        store->labels[i] = bl_arena_text(&store->place, bl_text_from(place->labels[i]));
    store->mark = -INFINITY;
}

/* Columns of the type belay.claimed. */
static void queue_take_item(struct pg_store *store, struct bl_arena *arena, struct pg_call *call,
                            int number, struct bl_fleet_item *ret_item)
{
    struct store_row row = pg_row(call, number);
    *ret_item = (struct bl_fleet_item){
        .id = store_row_string(arena, &row, 0),
        .spec = store_row_copy(arena, &row, 1),
        .session = store_row_string(arena, &row, 2),
        .epoch = store_row_count(&row, 3),
        .tries = (uint32_t)store_row_count(&row, 4),
        .deaths = (uint32_t)store_row_count(&row, 5),
        .timed = !store_row_null(&row, 6),
    };
    if (ret_item->timed)
        ret_item->left_ns = store_row_count(&row, 6) * BL_NS_PER_MS;
    if (store->mark < store_row_real(&row, 7))
        store->mark = store_row_real(&row, 7);
}

static int pg_claim(void *context, struct bl_arena *arena, uint32_t most, struct bl_list *ret_items,
                    struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(own);
    struct pg_call *call = pg_call_new(&own, "select * from belay.claim($1, $2, $3)", "sid",
                                       store->owner, (int64_t)most, store->mark);
    /* Items whose claim was not answered are found by the next heartbeat. */
    int code = pg_queue_ask(store, call, PG_ONCE, "claim items", error);
    for (int i = 0; code == 0 && i < pg_rows(call); i++) {
        struct bl_fleet_item *item = bl_arena_zalloc(arena, sizeof *item);
        queue_take_item(store, arena, call, i, item);
        bl_list_push_back(ret_items, &item->link);
    }
    pg_call_done(call);
    return code;
}

static int queue_refuse_missing(const char *id, const char *what, struct bl_error *error)
{
    return bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "find the item", id, "%s %.100s", what,
                        id);
}

static int pg_resume(void *context, struct bl_arena *arena, const char *id, uint64_t epoch,
                     struct bl_fleet_item *ret_item, struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(own);
    struct pg_call *call =
        pg_call_new(&own, "select * from belay.resume($1, $2, $3)", "ssu", store->owner, id, epoch);
    int code = pg_queue_ask(store, call, PG_ONCE, "resume an item", error);
    if (code == 0 && pg_rows(call) == 1)
        queue_take_item(store, arena, call, 0, ret_item);
    else if (code == 0)
        code = queue_refuse_missing(id, "this worker does not own item", error);
    pg_call_done(call);
    return code;
}

static int pg_finish(void *context, const struct bl_fleet_end *end, bool *ret_taken,
                     struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(arena);
    struct pg_call *call =
        pg_call_new(&arena, "select belay.finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                    "ssusuissjj", store->owner, end->id, end->epoch,
                    bl_names_get(&bl_fleet_states, end->state), end->retry_ns / BL_NS_PER_MS,
                    (int64_t)end->exit_code, end->session, end->fate, end->envelope, end->receipt);
    int code = pg_queue_ask(store, call, 0, "record the end of an item", error);
    if (code == 0) {
        struct store_row row = pg_row(call, 0);
        *ret_taken = store_row_flag(&row, 0);
    }
    pg_call_done(call);
    return code;
}

/* ---- Offers ---- */

static int pg_offer(void *context, struct bl_arena *arena, struct bl_text spec, const char **ret_id,
                    struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(own);
    char id[BL_ID_SIZE];
    bl_id_make(id, "run_");
    struct pg_call *call = pg_call_new(&own, "select belay.offer($1, $2)", "sb", id, spec);
    int code = pg_queue_ask(store, call, PG_SLOW, "submit", error);
    if (code == 0) {
        struct store_row row = pg_row(call, 0);
        *ret_id = store_row_string(arena, &row, 0);
    }
    pg_call_done(call);
    return code;
}

/* ---- Looking ---- */

/* Columns of the type belay.item_view. */
static void queue_take_view(struct bl_arena *arena, struct pg_call *call, int number,
                            struct bl_fleet_view *ret_view)
{
    struct store_row row = pg_row(call, number);
    size_t state = BL_FLEET_QUEUED;
    bl_names_find(&bl_fleet_states, store_row_text(&row, 2), &state);
    *ret_view = (struct bl_fleet_view){
        .id = store_row_string(arena, &row, 0),
        .kind = store_row_string(arena, &row, 1),
        .state = (enum bl_fleet_state)state,
        .pool = store_row_string(arena, &row, 3),
        .session = store_row_string(arena, &row, 4),
        .worker = store_row_string(arena, &row, 5),
        .host = store_row_string(arena, &row, 6),
        .submitter = store_row_string(arena, &row, 7),
        .tries = (uint32_t)store_row_count(&row, 8),
        .deaths = (uint32_t)store_row_count(&row, 9),
        .age_ms = store_row_integer(&row, 10),
        .exit_code = (int)store_row_integer(&row, 11),
        .envelope = store_row_copy(arena, &row, 12),
        .receipt = store_row_copy(arena, &row, 13),
        .spec = store_row_copy(arena, &row, 14),
    };
}

static int pg_look(void *context, struct bl_arena *arena, const char *id,
                   struct bl_fleet_view *ret_view, struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(own);
    struct pg_call *call = pg_call_new(&own, "select * from belay.look($1)", "s", id);
    int code = pg_queue_ask(store, call, PG_SLOW, "read the item", error);
    if (code == 0 && pg_rows(call) > 0)
        queue_take_view(arena, call, 0, ret_view);
    else if (code == 0)
        code = queue_refuse_missing(id, "there is no item", error);
    pg_call_done(call);
    return code;
}

static int pg_list_items(void *context, struct bl_arena *arena, const struct bl_fleet_list *list,
                         struct bl_list *ret_views, struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(own);
    struct pg_call *call =
        pg_call_new(&own, "select * from belay.list($1, $2, $3, $4, $5, $6)", "sssosi", list->pool,
                    list->key, list->chosen ? bl_names_get(&bl_fleet_states, list->state) : NULL,
                    (int)list->ended, list->after, (int64_t)list->most);
    int code = pg_queue_ask(store, call, PG_SLOW, "list the items", error);
    for (int i = 0; code == 0 && i < pg_rows(call); i++) {
        struct bl_fleet_view *view = bl_arena_zalloc(arena, sizeof *view);
        queue_take_view(arena, call, i, view);
        bl_list_push_back(ret_views, &view->link);
        pg_breathe(i);
    }
    pg_call_done(call);
    return code;
}

const struct bl_fleet_store *pg_fleet(void *state)
{
    struct pg_store *store = state;
    store->fleet = (struct bl_fleet_store){
        .context = store,
        .beat = pg_fleet_beat,
        .take_over = pg_fleet_take_over,
        .enlist = pg_enlist,
        .claim = pg_claim,
        .resume = pg_resume,
        .finish = pg_finish,
        .answer = pg_answer,
        .listen = pg_listen,
        .offer = pg_offer,
        .look = pg_look,
        .list = pg_list_items,
        .stop = pg_stop,
        .stopped = pg_stopped,
    };
    return &store->fleet;
}
