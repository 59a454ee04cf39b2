/* Stops that others ask for, in the answers of heartbeats. Each heartbeat repeats an order until it is
 * answered; it is carried out once. An order for a whole item is answered when the item's end has been
 * recorded: by then the receipt is known, and nothing of the item is at work. */
#include "parts.h"

static struct fleet_order *order_find(const struct bl_fleet_worker *worker,
                                      const struct bl_fleet_order *order)
{
    BL_LIST_EACH (link, &worker->orders) {
        struct fleet_order *known = BL_CONTAINER(link, struct fleet_order, link);
        if (!known->dropped && strcmp(known->order.stop, order->stop) == 0 &&
            strcmp(known->order.item, order->item) == 0)
            return known;
    }
    return NULL;
}

/* ---- The answer ---- */

int fleet_order_answer(const struct bl_fleet_store *store, const struct bl_fleet_member *member,
                       const struct bl_fleet_order *order, const char *fate, struct bl_text receipt)
{
    struct bl_scope limit;
    bl_limit_begin(&limit, fleet_answer_ns(member));
    int code = store->answer(store->context, order->stop, order->item, fate, receipt, NULL);
    bl_limit_end(&limit);
    BL_LOG(BL_ROOM_FLEET, BL_LOG_INFO, "stop answered", BL_LOG_STRING("stop", order->stop),
           BL_LOG_STRING("item", order->item), BL_LOG_STRING("fate", fate),
           BL_LOG_STRING("result", bl_error_text(code)));
    return code;
}

static void order_answer(struct fleet_order *order, const char *fate, struct bl_text receipt)
{
    struct bl_fleet_worker *worker = order->worker;
    const struct bl_fleet_store *store = worker->options.member.store;
    uint64_t pause_ns = FLEET_RETRY_MIN_NS;
    while (!fleet_worker_lost(worker) &&
           fleet_order_answer(store, worker->member, &order->order, fate, receipt) != 0 &&
           fleet_worker_pause(worker, &pause_ns))
        continue;
}

/* Stops a part of a try, or a session, and returns its fate. What is not at work here has ended
 * before the order came. */
static const char *order_stop_inner(struct fleet_order *order, struct bl_text *ret_receipt)
{
    const struct bl_fleet_worker_options *options = &order->worker->options;
    const struct bl_fleet_options *member = &options->member;
    struct fleet_try *one = order->one;
    bool found = false;
    if (one != NULL && one->state == FLEET_TRY_RUNNING && options->stop_part != NULL) {
        one->parts++;
        found = options->stop_part(options->context, &one->one, &order->order, &order->arena,
                                   ret_receipt);
        one->parts--;
        bl_semaphore_give(&one->parts_ended);
    } else if (one == NULL && member->stop_session != NULL) {
        found =
            member->stop_session(member->stop_context, &order->order, &order->arena, ret_receipt);
    }
    return found ? fleet_fate(*ret_receipt) : bl_fate_name(BL_FATE_FINISHED);
}

/* Waits for the end of the try. Returns its fate; NULL: the order is dropped. */
static const char *order_wait(struct fleet_order *order, struct bl_text *ret_receipt)
{
    const struct fleet_try *one = order->one;
    if (!order->afterwards && (bl_semaphore_take(&order->ended) != 0 || order->dropped))
        return NULL;
    *ret_receipt = one->receipt;
    return one->fate;
}

static int order_main(void *argument)
{
    struct fleet_order *order = argument;
    struct bl_text receipt = {0};
    const char *fate = order->one != NULL && order->order.part == NULL
                           ? order_wait(order, &receipt)
                           : order_stop_inner(order, &receipt);
    if (fate != NULL)
        order_answer(order, fate, receipt);
    bl_list_remove(&order->waiting);
    order->one = NULL;
    order->answered = true;
    order->moved = ++order->worker->events;
    fleet_hasten(order->worker->member);
    fleet_worker_move(order->worker);
    return 0;
}

void fleet_orders_wake(struct fleet_try *one)
{
    BL_LIST_EACH (link, &one->orders) {
        struct fleet_order *order = BL_CONTAINER(link, struct fleet_order, waiting);
        order->dropped = order->order.part == NULL && !one->recorded;
        bl_semaphore_give(&order->ended);
    }
}

/* ---- Orders of a heartbeat ---- */

static void order_hurry(struct fleet_order *order)
{
    const struct bl_fleet_worker_options *options = &order->worker->options;
    order->order.now = true;
    if (order->one != NULL && order->order.part == NULL && order->one->state == FLEET_TRY_RUNNING &&
        options->hurry != NULL)
        options->hurry(options->context, &order->one->one);
}

static void order_free(struct fleet_order *order)
{
    bl_list_remove(&order->link);
    bl_list_remove(&order->waiting);
    bl_arena_done(&order->arena);
    bl_free(order);
}

static const char *keep(struct bl_arena *arena, const char *string)
{
    return string == NULL ? NULL : bl_arena_text(arena, bl_text_from(string)).data;
}

void fleet_order_copy(struct bl_arena *arena, const struct bl_fleet_order *from,
                      struct bl_fleet_order *ret_order)
{
    *ret_order = *from;
    ret_order->stop = keep(arena, from->stop);
    ret_order->item = keep(arena, from->item);
    ret_order->part = keep(arena, from->part);
    ret_order->origin = keep(arena, from->origin);
}

static void order_begin(struct bl_fleet_worker *worker, const struct bl_fleet_order *from,
                        struct fleet_try *one)
{
    struct fleet_order *order = bl_zalloc(sizeof *order);
    order->worker = worker;
    fleet_order_copy(&order->arena, from, &order->order);
    order->one = one;
    order->afterwards = one != NULL && one->state == FLEET_TRY_ENDED;
    bl_semaphore_init(&order->ended, 0);
    bl_list_init(&order->waiting);
    bl_list_push_back(&worker->orders, &order->link);
    if (bl_nursery_spawn(&worker->service, NULL, "fleet: stop", order_main, order, NULL) != 0) {
        order_free(order); /* no stack is free; the next heartbeat repeats it */
        return;
    }
    worker->clean = false;
    if (one != NULL)
        bl_list_push_back(&one->orders, &order->waiting);
    if (one != NULL && from->part == NULL && one->state != FLEET_TRY_ENDED) {
        one->asked = true;
        bl_scope_stop(&one->scope, BL_STOP_USER, from->origin);
        if (from->now)
            order_hurry(order);
    }
}

static bool order_is_owned(const struct bl_fleet_beat *beat, const char *item)
{
    BL_LIST_EACH (link, &beat->owned) {
        if (strcmp(BL_CONTAINER(link, struct bl_fleet_owned, link)->id, item) == 0)
            return true;
    }
    return false;
}

void fleet_orders_take(struct bl_fleet_worker *worker, const struct bl_fleet_beat *beat)
{
    BL_LIST_EACH (link, &beat->orders) {
        const struct bl_fleet_order *from = BL_CONTAINER(link, struct bl_fleet_order, link);
        struct fleet_order *known = order_find(worker, from);
        struct fleet_try *one = fleet_try_find(worker, from->item);
        bool ended = one == NULL || one->state == FLEET_TRY_ENDED;
        if (known != NULL && from->now && !known->order.now)
            order_hurry(known);
        /* An item that is owned, and has no try here, is about to have one: the next heartbeat
         * repeats the order. */
        if (known != NULL || (ended && order_is_owned(beat, from->item)))
            continue;
        order_begin(worker, from, ended && one != NULL && one->fate == NULL ? NULL : one);
    }
}

void fleet_orders_purge(struct bl_fleet_worker *worker)
{
    BL_LIST_EACH_SAFE (link, &worker->orders) {
        struct fleet_order *order = BL_CONTAINER(link, struct fleet_order, link);
        if (order->answered && order->moved <= worker->sent)
            order_free(order);
    }
}

void fleet_orders_free(struct bl_fleet_worker *worker)
{
    BL_LIST_EACH_SAFE (link, &worker->orders)
        order_free(BL_CONTAINER(link, struct fleet_order, link));
}
