/* Stops that others ask for, of what a member holds that claims no items: its sessions. Each heartbeat
 * repeats an order until it is answered; it is carried out once, in a fiber of its own. */
#include "parts.h"

#define LISTEN_NS (60 * BL_NS_PER_S)
/* How long the last answers may take when the member leaves. */
#define LEAVE_NS (2 * BL_NS_PER_S)

struct fleet_held {
    const struct bl_fleet_options *options; /* of the member */
    struct bl_fleet_member *member;
    struct bl_scope shield;
    struct bl_nursery listener;
    struct bl_nursery service; /* of the stops */
    struct bl_list stops;      /* struct held_stop */
};

struct held_stop {
    struct bl_list link;
    struct fleet_held *held;
    struct bl_arena arena;
    struct bl_fleet_order order; /* in the arena */
};

/* ---- One stop ---- */

static void held_answer(struct held_stop *stop, const char *fate, struct bl_text receipt)
{
    const struct bl_fleet_member *member = stop->held->member;
    const struct bl_fleet_store *store = stop->held->options->store;
    uint64_t pause_ns = FLEET_RETRY_MIN_NS;
    while (!bl_fleet_lost(member) &&
           fleet_order_answer(store, member, &stop->order, fate, receipt) != 0 &&
           bl_sleep(pause_ns) == 0)
        pause_ns = fleet_retry_next(pause_ns);
}

static int held_main(void *argument)
{
    struct held_stop *stop = argument;
    const struct bl_fleet_options *options = stop->held->options;
    struct bl_text receipt = {0};
    bool found = options->stop_session(options->stop_context, &stop->order, &stop->arena, &receipt);
    /* What is not at work here has ended before the order came. */
    held_answer(stop, found ? fleet_fate(receipt) : bl_fate_name(BL_FATE_FINISHED), receipt);
    return 0;
}

/* ---- Orders of a heartbeat ---- */

static struct held_stop *held_find(const struct fleet_held *held,
                                   const struct bl_fleet_order *order)
{
    BL_LIST_EACH (link, &held->stops) {
        struct held_stop *stop = BL_CONTAINER(link, struct held_stop, link);
        if (strcmp(stop->order.stop, order->stop) == 0 &&
            strcmp(stop->order.item, order->item) == 0 && (stop->order.now || !order->now))
            return stop;
    }
    return NULL;
}

static void held_free_stop(struct held_stop *stop)
{
    bl_list_remove(&stop->link);
    bl_arena_done(&stop->arena);
    bl_free(stop);
}

static void held_take(void *context, const struct bl_fleet_beat *beat)
{
    struct fleet_held *held = context;
    BL_LIST_EACH (link, &beat->orders) {
        const struct bl_fleet_order *order = BL_CONTAINER(link, struct bl_fleet_order, link);
        if (held_find(held, order) != NULL)
            continue;
        struct held_stop *stop = bl_zalloc(sizeof *stop);
        stop->held = held;
        fleet_order_copy(&stop->arena, order, &stop->order);
        bl_list_push_back(&held->stops, &stop->link);
        if (bl_nursery_spawn(&held->service, NULL, "fleet: stop", held_main, stop, NULL) != 0)
            held_free_stop(stop); /* no stack is free; the next heartbeat repeats it */
    }
}

static int held_listen(void *argument)
{
    struct fleet_held *held = argument;
    const struct bl_fleet_store *store = held->options->store;
    while (bl_check() == 0) {
        int code = store->listen(store->context, LISTEN_NS);
        if (code != 0 && code != BL_ETIMEDOUT)
            bl_sleep(FLEET_RETRY_MAX_NS);
        if (code != BL_ETIMEDOUT)
            fleet_hasten(held->member);
    }
    return BL_ECANCELED;
}

/* ---- Begin and end ---- */

struct fleet_held *fleet_held_new(struct bl_fleet_member *member,
                                  const struct bl_fleet_options *options,
                                  struct fleet_hooks *ret_hooks)
{
    struct fleet_held *held = bl_zalloc(sizeof *held);
    held->options = options;
    held->member = member;
    bl_list_init(&held->stops);
    bl_shield_init(&held->shield, bl_loop_scope(bl_loop_current()));
    bl_nursery_init(&held->listener, &held->shield);
    bl_nursery_init(&held->service, &held->shield);
    *ret_hooks = (struct fleet_hooks){.answered = held_take, .context = held};
    return held;
}

int fleet_held_listen(struct fleet_held *held)
{
    return bl_nursery_spawn(&held->listener, NULL, "fleet: listener", held_listen, held, NULL);
}

void fleet_held_free(struct fleet_held *held)
{
    struct bl_scope shield;
    if (held == NULL)
        return;
    bl_nursery_done(&held->listener);
    bl_shield_begin(&shield, LEAVE_NS);
    bl_nursery_join(&held->service);
    bl_shield_end(&shield);
    bl_nursery_done(&held->service);
    bl_scope_done(&held->shield);
    BL_LIST_EACH_SAFE (link, &held->stops)
        held_free_stop(BL_CONTAINER(link, struct held_stop, link));
    bl_free(held);
}
