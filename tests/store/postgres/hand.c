#include "hand.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/postgres/postgres.h"

void hand_open(struct hand *hand, const struct place *place, const char *host, const char *pool)
{
    static const char *const none[] = {NULL};
    *hand = (struct hand){.place = place};
    setenv("BELAY_HOST", host, 1);
    hand->store = store_at(place);
    unsetenv("BELAY_HOST");
    hand->table = bl_store_fleet_table(hand->store);
    if (pool != NULL)
        hand->table->enlist(hand->table->context,
                            &(struct bl_fleet_place){.pool = pool, .labels = none, .slots = 4});
    CHECK_EQUAL(hand_beat(hand), 0);
}

void hand_close(struct hand *hand)
{
    bl_store_close(hand->store);
    bl_arena_done(&hand->arena);
}

const char *hand_id(struct hand *hand)
{
    const struct pg_store *store = hand->table->context;
    return store->owner;
}

int hand_beat(struct hand *hand)
{
    hand->beat = (struct bl_fleet_beat){0};
    bl_list_init(&hand->beat.silent);
    bl_list_init(&hand->beat.owned);
    bl_list_init(&hand->beat.orders);
    return hand->table->beat(hand->table->context, &hand->arena, &hand->beat, &hand->error);
}

uint64_t hand_owns(const struct hand *hand, const char *id)
{
    BL_LIST_EACH (link, &hand->beat.owned) {
        const struct bl_fleet_owned *owned = BL_CONTAINER(link, struct bl_fleet_owned, link);
        if (strcmp(owned->id, id) == 0)
            return owned->epoch;
    }
    return 0;
}

const struct bl_fleet_order *hand_order(const struct hand *hand, const char *item)
{
    BL_LIST_EACH (link, &hand->beat.orders) {
        const struct bl_fleet_order *order = BL_CONTAINER(link, struct bl_fleet_order, link);
        if (strcmp(order->item, item) == 0)
            return order;
    }
    return NULL;
}

const char *hand_offer(struct hand *hand, const char *spec)
{
    const char *id = "";
    hand->error = (struct bl_error){0};
    if (!CHECK_EQUAL(hand->table->offer(hand->table->context, &hand->arena, bl_text_from(spec), &id,
                                        &hand->error),
                     0))
        fprintf(stderr, "%s: %s\n", spec, hand->error.message);
    return id;
}

size_t hand_claim(struct hand *hand, uint32_t most)
{
    struct bl_list items;
    bl_list_init(&items);
    hand->count = 0;
    hand->error = (struct bl_error){0};
    if (!CHECK_EQUAL(
            hand->table->claim(hand->table->context, &hand->arena, most, &items, &hand->error), 0))
        fprintf(stderr, "%s\n", hand->error.message);
    BL_LIST_EACH (link, &items) {
        if (CHECK(hand->count < HAND_CLAIM_MAX))
            hand->items[hand->count++] = *BL_CONTAINER(link, struct bl_fleet_item, link);
    }
    return hand->count;
}

bool hand_finish(struct hand *hand, const struct bl_fleet_item *item, enum bl_fleet_state state)
{
    bool taken = false;
    struct bl_fleet_end end = {.id = item->id, .epoch = item->epoch, .state = state};
    hand->error = (struct bl_error){0};
    if (!CHECK_EQUAL(hand->table->finish(hand->table->context, &end, &taken, &hand->error), 0))
        fprintf(stderr, "%s\n", hand->error.message);
    return taken;
}

void hand_take_over(struct hand *hand, struct hand *from)
{
    char sql[160];
    bool taken = false;
    snprintf(sql, sizeof sql, "select beat from worker where id = '%s'", hand_id(from));
    CHECK_EQUAL(hand->table->take_over(hand->table->context, hand_id(from),
                                       (uint64_t)ask_integer(hand->place, sql), &taken, NULL),
                0);
    CHECK(taken);
}

const char *hand_state(struct hand *hand, const char *id)
{
    struct bl_fleet_view view;
    int code = hand->table->look(hand->table->context, &hand->arena, id, &view, NULL);
    return code == 0 ? bl_names_get(&bl_fleet_states, view.state) : "";
}

const char *hand_stop(struct hand *hand, const char *target, const char *part)
{
    const char *stop = NULL;
    hand->error = (struct bl_error){0};
    int code = hand->table->stop(hand->table->context, &hand->arena, target, part, "a test", false,
                                 &stop, &hand->error);
    CHECK(code == 0 || code == BL_ENOENT);
    return stop;
}

const char *hand_fate(struct hand *hand, const char *stop)
{
    struct bl_list items;
    bl_list_init(&items);
    CHECK_EQUAL(hand->table->stopped(hand->table->context, &hand->arena, stop, &items, NULL), 0);
    if (!CHECK(!bl_list_empty(&items) && items.next == items.previous))
        return "";
    const struct bl_fleet_stopped *unit = BL_CONTAINER(items.next, struct bl_fleet_stopped, link);
    return bl_arena_printf(&hand->arena, "%s%s", unit->fate != NULL ? unit->fate : "open",
                           unit->fenced ? " fenced" : "")
        .data;
}
