/* A worker of the tests of the queue: a store of its own, and the functions that a fleet works with. */
#ifndef BELAY_TESTS_STORE_HAND_H
#define BELAY_TESTS_STORE_HAND_H

#include "helpers.h"

#define HAND_CLAIM_MAX 8

struct hand {
    const struct place *place;
    struct bl_store *store;
    const struct bl_fleet_store *table;
    struct bl_arena arena; /* of all that the functions return */
    struct bl_fleet_beat beat;
    struct bl_fleet_item items[HAND_CLAIM_MAX]; /* of the last claim */
    size_t count;
    struct bl_error error;
};

/* Opens a store as on that host, and sends the first heartbeat. `pool` NULL: it claims nothing. */
void hand_open(struct hand *hand, const struct place *place, const char *host, const char *pool);
void hand_close(struct hand *hand);
/* Returns the id of the worker. */
const char *hand_id(struct hand *hand);
int hand_beat(struct hand *hand);
/* Returns the epoch under which the last heartbeat shows the item; 0: it does not. */
uint64_t hand_owns(const struct hand *hand, const char *id);
/* Returns the order of the last heartbeat for an item or a session; NULL: there is none. */
const struct bl_fleet_order *hand_order(const struct hand *hand, const char *item);
/* Return the id of an offered item, checked to be accepted; a text with '' for quotes. */
const char *hand_offer(struct hand *hand, const char *spec);
/* Claims, checks that it succeeds, and returns the number of items. */
size_t hand_claim(struct hand *hand, uint32_t most);
/* Records the end of an item; returns whether it was taken. */
bool hand_finish(struct hand *hand, const struct bl_fleet_item *item, enum bl_fleet_state state);
/* Takes over from another worker, with its present heartbeat; checks that it succeeds. */
void hand_take_over(struct hand *hand, struct hand *from);
/* Returns the name of the item's state; "" if there is none. */
const char *hand_state(struct hand *hand, const char *id);
/* Stops, and returns the id of the stop; NULL: there was nothing to stop. */
const char *hand_stop(struct hand *hand, const char *target, const char *part);
/* Returns "FATE[ fenced]" of the only unit of a stop, or "open". */
const char *hand_fate(struct hand *hand, const char *stop);

#endif
