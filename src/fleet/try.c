/* One try of an item: taken, run in a fiber of its own, and its end recorded.
 *
 * The fiber runs in the worker's service, which a stop does not reach, and enters the try's scope only
 * while the item runs: the end of a stopped try has to be recorded too. */
#include <assert.h>

#include <belay/json.h>

#include "parts.h"

#define DELAY_MAX_NS   (600 * BL_NS_PER_S)
#define DELAY_PART     5   /* a delay is random within this part of it */
#define EXIT_CANCELLED 130 /* of an item that was stopped before it ran */

static void try_move(struct fleet_try *one, enum fleet_try_state state)
{
    static const uint8_t allowed[] = {
        [FLEET_TRY_TAKING] = 1 << FLEET_TRY_RUNNING | 1 << FLEET_TRY_ENDING | 1 << FLEET_TRY_ENDED,
        [FLEET_TRY_RUNNING] = 1 << FLEET_TRY_ENDING | 1 << FLEET_TRY_ENDED,
        [FLEET_TRY_ENDING] = 1 << FLEET_TRY_ENDED,
        [FLEET_TRY_ENDED] = 0,
    };
    assert((allowed[one->state] >> state & 1) != 0);
    one->state = state;
    one->moved = ++one->worker->events;
}

/* ---- Stops ---- */

void fleet_try_lose(struct fleet_try *one, const char *origin)
{
    one->lost = true;
    bl_scope_stop(&one->scope, BL_STOP_LEASE_LOST, origin);
}

void fleet_try_return(struct fleet_try *one)
{
    if (bl_scope_stop(&one->scope, BL_STOP_SHUTDOWN, "drain"))
        one->returned = true;
}

static bool try_is_lost(const struct fleet_try *one)
{
    return one->lost || fleet_worker_lost(one->worker);
}

/* True if the work was stopped from outside, and so the try with it. */
static bool try_is_returned(const struct fleet_try *one)
{
    struct bl_stop stop;
    bl_scope_stop_read(&one->scope, &stop);
    return one->returned || (one->worker->stopped && stop.reason == BL_STOP_PARENT);
}

/* ---- The end ---- */

const char *fleet_fate(struct bl_text receipt)
{
    BL_AUTO_ARENA(arena);
    const struct bl_json *value;
    struct bl_receipt_row row;
    enum bl_fate fate = BL_FATE_ABORTED;
    if (receipt.size == 0 || bl_json_read(&arena, receipt, NULL, &value, NULL) != 0)
        return bl_fate_name(fate);
    bl_record_take(&arena, &bl_receipt_record, value, &row);
    BL_LIST_EACH (link, &row.units) {
        const char *unit = BL_CONTAINER(link, struct bl_unit_row, link)->fate;
        if (unit != NULL && strcmp(unit, bl_fate_name(BL_FATE_UNKNOWN)) == 0)
            return bl_fate_name(BL_FATE_UNKNOWN);
        if (unit != NULL && strcmp(unit, bl_fate_name(BL_FATE_KILLED)) == 0)
            fate = BL_FATE_KILLED;
    }
    return bl_fate_name(fate);
}

static uint64_t try_delay_ns(struct fleet_try *one, const struct bl_fleet_retries *retries)
{
    uint64_t delay_ns = retries->delay_ns;
    for (uint32_t i = 0; i < one->item.tries && delay_ns < DELAY_MAX_NS; i++)
        delay_ns *= 2;
    if (delay_ns > DELAY_MAX_NS)
        delay_ns = DELAY_MAX_NS;
    uint64_t part_ns = delay_ns / DELAY_PART;
    return delay_ns - part_ns + bl_random_below(&one->worker->random, 2 * part_ns + 1);
}

/* Decides what is recorded: the end, another try, or that the item is given back. */
static void try_decide(struct fleet_try *one)
{
    const struct bl_fleet_worker_options *options = &one->worker->options;
    struct bl_fleet_end *end = &one->one.end;
    if (one->state == FLEET_TRY_TAKING) { /* it never ran */
        end->state = one->asked ? BL_FLEET_CANCELLED : BL_FLEET_QUEUED;
        end->exit_code = one->asked ? EXIT_CANCELLED : 0;
        one->fate = bl_fate_name(BL_FATE_NEVER_STARTED);
        return;
    }
    assert(BL_FLEET_ENDED(end->state));
    bool won = end->state == BL_FLEET_COMPLETED || end->state == BL_FLEET_FAILED;
    one->fate = won ? bl_fate_name(BL_FATE_FINISHED) : fleet_fate(end->receipt);
    one->receipt = bl_arena_text(&one->kept, end->receipt);
    if (one->asked || end->state == BL_FLEET_COMPLETED)
        return;
    if (try_is_returned(one)) {
        end->state = BL_FLEET_QUEUED;
    } else if (end->state == BL_FLEET_FAILED && one->one.retryable) {
        struct bl_fleet_retries retries = options->retries(options->context, &one->item);
        if (one->item.tries < retries.most) {
            end->state = BL_FLEET_DELAYED;
            end->retry_ns = try_delay_ns(one, &retries);
        }
    }
}

/* Repeats the record until it is answered, or cannot be accepted any more. */
static void try_record(struct fleet_try *one)
{
    const struct bl_fleet_store *store = one->worker->options.member.store;
    uint64_t pause_ns = FLEET_RETRY_MIN_NS;
    int code = BL_ECANCELED;
    while (!fleet_worker_lost(one->worker)) {
        struct bl_scope limit;
        /* An order that arrived meanwhile ends what would be tried again. */
        if (one->asked && !BL_FLEET_ENDED(one->one.end.state))
            one->one.end.state = BL_FLEET_CANCELLED;
        bl_limit_begin(&limit, fleet_answer_ns(one->worker->member));
        code = store->finish(store->context, &one->one.end, &one->recorded, NULL);
        bl_limit_end(&limit);
        if (code == 0 || !fleet_worker_pause(one->worker, &pause_ns))
            break;
    }
    BL_LOG(BL_ROOM_FLEET, BL_LOG_INFO, "item ended", BL_LOG_STRING("item", one->item.id),
           BL_LOG_INTEGER("state", one->one.end.state), BL_LOG_STRING("fate", one->fate),
           BL_LOG_BOOLEAN("taken", one->recorded), BL_LOG_STRING("result", bl_error_text(code)));
}

/* ---- The fiber ---- */

/* Takes up an item that the worker owns. Returns false if it does not, or if that is unknown. */
static bool try_resume(struct fleet_try *one)
{
    const struct bl_fleet_store *store = one->worker->options.member.store;
    struct bl_scope limit;
    struct bl_fleet_item item = {0};
    uint64_t sent_ns = bl_now_ns();
    bl_limit_begin(&limit, fleet_answer_ns(one->worker->member));
    int code =
        store->resume(store->context, &one->arena, one->item.id, one->item.epoch, &item, NULL);
    bl_limit_end(&limit);
    BL_LOG(BL_ROOM_FLEET, BL_LOG_INFO, "item taken up", BL_LOG_STRING("item", one->item.id),
           BL_LOG_STRING("result", bl_error_text(code)));
    if (code != 0) {
        if (code != BL_ENOENT) /* the next heartbeat shows it again, at once */
            bl_sleep(FLEET_RETRY_MAX_NS);
        return false;
    }
    item.id = one->item.id;
    one->item = item;
    if (item.timed)
        bl_scope_set_deadline(&one->scope, bl_time_add(sent_ns, item.left_ns));
    return true;
}

/* True if the try is not to run: it is stopped before it began, or the worker ends. */
static bool try_is_over(const struct fleet_try *one)
{
    return one->asked || one->returned || one->worker->phase != FLEET_WORKING ||
           one->worker->stopped;
}

static void try_run(struct fleet_try *one)
{
    const struct bl_fleet_worker_options *options = &one->worker->options;
    try_move(one, FLEET_TRY_RUNNING);
    one->one.end.session = one->item.session;
    uint64_t from_ns = bl_now_ns();
    struct bl_scope *before = bl_scope_enter(&one->scope);
    options->run(options->context, &one->one);
    bl_scope_enter(before);
    one->one.ran_ns = bl_now_ns() - from_ns;
    while (one->parts > 0)
        bl_semaphore_take(&one->parts_ended);
}

static void try_end(struct fleet_try *one)
{
    struct bl_fleet_worker *worker = one->worker;
    try_move(one, FLEET_TRY_ENDED);
    worker->busy--;
    worker->idle_since_ns = bl_now_ns();
    bl_list_remove(&one->one.link);
    bl_list_push_back(&worker->ended, &one->one.link);
    if (one->next != NULL)
        bl_semaphore_give(&one->next->turn);
    bl_arena_done(&one->arena);
    fleet_orders_wake(one);
    if (!one->recorded)
        fleet_worker_doubt(worker);
    fleet_worker_want(worker);
    fleet_worker_move(worker);
}

static int try_main(void *argument)
{
    struct fleet_try *one = argument;
    const struct bl_fleet_worker_options *options = &one->worker->options;
    int code = bl_semaphore_take(&one->turn);
    bool owned = code == 0 && !try_is_lost(one);
    if (owned && one->owned_only && !try_is_over(one))
        owned = try_resume(one);
    if (owned && !try_is_lost(one)) {
        if (!try_is_over(one))
            try_run(one);
        one->one.end.id = one->item.id;
        one->one.end.epoch = one->item.epoch;
        bool ran = one->state == FLEET_TRY_RUNNING;
        try_decide(one);
        one->one.end.fate = one->fate;
        if (!try_is_lost(one)) {
            try_move(one, FLEET_TRY_ENDING);
            try_record(one);
        }
        if (ran && options->ended != NULL)
            options->ended(options->context, &one->one);
    }
    try_end(one);
    return code;
}

static void try_begin(struct fleet_try *one)
{
    struct bl_fleet_worker *worker = one->worker;
    struct fleet_try *before = NULL;
    BL_LIST_EACH (link, &worker->tries) {
        struct fleet_try *other = BL_CONTAINER(link, struct fleet_try, one.link);
        if (strcmp(other->item.id, one->item.id) == 0)
            before = other;
    }
    bl_semaphore_init(&one->turn, before == NULL ? 1 : 0);
    if (before != NULL) { /* its end is not known there yet, or it was taken away */
        before->next = one;
        if (before->state != FLEET_TRY_ENDING)
            fleet_try_lose(before, "not owned");
    }
    one->moved = ++worker->events;
    one->one.item = &one->item;
    one->one.scope = &one->scope;
    one->one.arena = &one->arena;
    bl_list_init(&one->orders);
    bl_semaphore_init(&one->parts_ended, 0);
    bl_list_push_back(&worker->tries, &one->one.link);
    worker->busy++;
    worker->clean = false;
    worker->idle_since_ns = bl_now_ns();
    if (bl_nursery_spawn(&worker->service, NULL, one->item.id, try_main, one, NULL) != 0) {
        /* No stack is free. The next heartbeat shows that it is owned and does not run. */
        try_end(one);
    }
}

static struct fleet_try *try_new(struct bl_fleet_worker *worker, const char *id, uint64_t epoch)
{
    struct fleet_try *one = bl_zalloc(sizeof *one);
    one->worker = worker;
    one->item.id = bl_arena_text(&one->kept, bl_text_from(id)).data;
    one->item.epoch = epoch;
    bl_scope_init(&one->scope, &worker->life);
    bl_scope_set_id(&one->scope, one->item.id);
    return one;
}

void fleet_try_claimed(struct bl_fleet_worker *worker, const struct bl_fleet_item *item,
                       uint64_t sent_ns)
{
    struct fleet_try *one = try_new(worker, item->id, item->epoch);
    const char *id = one->item.id;
    one->item = *item;
    one->item.id = id;
    one->item.spec = bl_arena_text(&one->arena, item->spec);
    if (item->session != NULL)
        one->item.session = bl_arena_text(&one->arena, bl_text_from(item->session)).data;
    if (item->timed)
        bl_scope_set_deadline(&one->scope, bl_time_add(sent_ns, item->left_ns));
    try_begin(one);
}

void fleet_try_owned(struct bl_fleet_worker *worker, const struct bl_fleet_owned *owned)
{
    struct fleet_try *one = try_new(worker, owned->id, owned->epoch);
    one->owned_only = true;
    try_begin(one);
}

static struct fleet_try *find_in(const struct bl_list *list, const char *item)
{
    for (const struct bl_list *link = list->previous; link != list; link = link->previous) {
        const struct fleet_try *one = BL_CONTAINER(link, struct fleet_try, one.link);
        if (strcmp(one->item.id, item) == 0)
            return (struct fleet_try *)one;
    }
    return NULL;
}

struct fleet_try *fleet_try_find(const struct bl_fleet_worker *worker, const char *item)
{
    struct fleet_try *one = find_in(&worker->tries, item);
    return one != NULL ? one : find_in(&worker->ended, item);
}

void fleet_try_free(struct fleet_try *one)
{
    bl_list_remove(&one->one.link);
    bl_scope_done(&one->scope);
    bl_arena_done(&one->arena);
    bl_arena_done(&one->kept);
    bl_free(one);
}
