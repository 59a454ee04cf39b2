#include "fibers.h"

#define MS BL_NS_PER_MS

struct room {
    struct bl_lock lock;
    struct bl_semaphore seats;
    int inside;
    int most;
    int visits;
};

static int visit_alone(void *argument)
{
    struct room *room = argument;
    int code = bl_lock_take(&room->lock);
    if (code != 0)
        return code;
    CHECK_EQUAL(room->inside++, 0);
    bl_sleep(3 * MS);
    room->inside--;
    room->visits++;
    bl_lock_give(&room->lock);
    return 0;
}

static int take_a_seat(void *argument)
{
    struct room *room = argument;
    int code = bl_semaphore_take(&room->seats);
    if (code != 0)
        return code;
    if (++room->inside > room->most)
        room->most = room->inside;
    bl_sleep(3 * MS);
    room->inside--;
    room->visits++;
    bl_semaphore_give(&room->seats);
    return 0;
}

/* Twenty visitors, of which the fifth, sixth and seventh give up after 5 ms. */
static int let_in(struct room *room, bl_fiber_main *visit)
{
    struct bl_nursery nursery;
    struct bl_scope impatient;
    bl_lock_init(&room->lock);
    bl_semaphore_init(&room->seats, 4);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_scope_init(&impatient, &nursery.scope);
    bl_scope_set_deadline(&impatient, bl_now_ns() + MS);
    for (int i = 0; i < 20; i++)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, i >= 5 && i < 8 ? &impatient : NULL, "visitor",
                                     visit, room, NULL),
                    0);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(room->visits, 17);
    bl_scope_done(&impatient);
    bl_nursery_done(&nursery);
    return 0;
}

static int lock_main(void *argument)
{
    struct room room = {.inside = 0};
    (void)argument;
    let_in(&room, visit_alone);
    CHECK_EQUAL(bl_lock_take(&room.lock), 0);
    bl_lock_give(&room.lock);
    return 0;
}

static void a_lock_admits_one_and_survives_waiters_that_give_up(void **state)
{
    (void)state;
    run_in_virtual_loop(0, lock_main, NULL);
}

static int semaphore_main(void *argument)
{
    struct room room = {.inside = 0};
    (void)argument;
    let_in(&room, take_a_seat);
    CHECK_EQUAL(room.most, 4);
    CHECK_EQUAL(room.seats.count, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(bl_semaphore_try_take(&room.seats), 0);
    CHECK_EQUAL(bl_semaphore_try_take(&room.seats), BL_EAGAIN);
    return 0;
}

static void a_semaphore_admits_its_count_and_loses_no_unit(void **state)
{
    (void)state;
    run_in_virtual_loop(0, semaphore_main, NULL);
}

SUITE(lock, cmocka_unit_test(a_lock_admits_one_and_survives_waiters_that_give_up),
      cmocka_unit_test(a_semaphore_admits_its_count_and_loses_no_unit));
