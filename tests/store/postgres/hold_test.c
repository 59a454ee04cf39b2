/* Holds of sessions whose answer is lost, or which arrive late. */
#include <pgproxy.h>
#include <stdio.h>

#include "helpers.h"

PROXY_TEST(a_repeated_hold_of_a_session_finds_the_same_dead_owner)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct actor actor;
    place_lose_answer(place, "belay.hold(");
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 1);
    CHECK(holding.held->grip.epoch == 1 && !bl_store_session_recovery(holding.held)->owner_died);
    add_turn(&holding, "turn_1");
    release(&holding);
    actor_start(&actor, "holder", place, "alpha", false);
    actor_expect(&actor, "no error");
    actor_kill(&actor);
    /* So the first call takes it, and its answer is lost. */
    change_file(place, "UPDATE worker SET state = 'lost' WHERE id = (SELECT owner FROM"
                       " session)");
    place_lose_answer(place, "belay.hold(");
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    const struct bl_store_recovery *recovery = bl_store_session_recovery(holding.held);
    char text[32];
    snprintf(text, sizeof text, "pid %d on ", (int)actor.pid);
    CHECK(recovery->owner_died && strncmp(recovery->owner, text, strlen(text)) == 0);
    CHECK(strcmp(recovery->cut_off, "turn_cut") == 0);
    CHECK(strstr(recovery->left.unverified, "this process") == NULL);
    CHECK_EQUAL(holding.held->grip.epoch, 3);
    add_turn(&holding, "turn_2");
    release(&holding);
    bl_store_close(store);
}

PROXY_TEST(a_late_hold_of_a_session_changes_nothing)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    place_deliver_late(place, "belay.hold(");
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    bl_sleep(PLACE_LATE_NS);
    CHECK_EQUAL(ask_integer(place, "SELECT epoch FROM session"), 1);
    add_turn(&holding, "turn_1");
    release(&holding);
    /* After its release. */
    place_deliver_late(place, "belay.hold(");
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    release(&holding);
    bl_sleep(PLACE_LATE_NS);
    CHECK_EQUAL(ask_integer(place, "SELECT count(owner) FROM session"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT epoch FROM session"), 2);
    bl_store_close(store);
}

SUITE(pg_hold, cmocka_unit_test(a_repeated_hold_of_a_session_finds_the_same_dead_owner),
      cmocka_unit_test(a_late_hold_of_a_session_changes_nothing));
