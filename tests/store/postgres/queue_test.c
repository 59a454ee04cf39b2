/* The queue: offers, claims and ends of items. */
#include <pgproxy.h>
#include <stdio.h>
#include <stdlib.h>

#include "hand.h"

#define PLAIN "{\"prompt\":\"p\"}"

/* ---- Claims and ends ---- */

POSTGRES_TEST(an_item_is_claimed_once_and_its_end_is_recorded)
{
    struct hand a, b;
    struct bl_fleet_view view;
    bool taken;
    hand_open(&a, place, "host-a", "main");
    hand_open(&b, place, "host-b", "main");
    CHECK_EQUAL(hand_claim(&a, 4), 0);
    const char *id =
        hand_offer(&b, "{\"prompt\":\"p\",\"timeout\":\"90s\",\"session\":\"s-1\",\"labels\":[]}");
    CHECK(strncmp(id, "run_", 4) == 0);
    CHECK(strcmp(hand_state(&a, id), "queued") == 0);
    CHECK(hand_beat(&a) == 0 && a.beat.waiting && !a.beat.draining);
    CHECK_EQUAL(hand_claim(&a, 4), 1);
    CHECK_EQUAL(hand_claim(&b, 4), 0);
    const struct bl_fleet_item *item = &a.items[0];
    CHECK(strcmp(item->id, id) == 0 && strcmp(item->session, "s-1") == 0);
    CHECK_EQUAL(item->epoch, 1);
    CHECK(item->timed && item->left_ns <= 90 * BL_NS_PER_S && item->left_ns > 60 * BL_NS_PER_S);
    CHECK(hand_beat(&a) == 0 && hand_owns(&a, id) == 1 && !a.beat.waiting);
    CHECK(hand_beat(&b) == 0 && hand_owns(&b, id) == 0);
    struct bl_fleet_end end = {.id = id,
                               .epoch = 1,
                               .state = BL_FLEET_FAILED,
                               .exit_code = 3,
                               .session = "s-2",
                               .envelope = BL_TEXT("{\"a\":\"\\u0000\"}")};
    /* Not by another worker, and not under another epoch. */
    CHECK(b.table->finish(b.table->context, &end, &taken, NULL) == 0 && !taken);
    end.epoch = 2;
    CHECK(a.table->finish(a.table->context, &end, &taken, NULL) == 0 && !taken);
    CHECK(strcmp(hand_state(&a, id), "running") == 0);
    end.epoch = 1;
    for (int i = 0; i < 3; i++)
        CHECK(a.table->finish(a.table->context, &end, &taken, NULL) == 0 && taken);
    CHECK_EQUAL(b.table->look(b.table->context, &b.arena, id, &view, NULL), 0);
    CHECK(view.state == BL_FLEET_FAILED && view.exit_code == 3 && strcmp(view.host, "host-a") == 0);
    CHECK(strcmp(view.session, "s-2") == 0 && strcmp(view.worker, hand_id(&a)) == 0);
    CHECK(bl_text_equal(view.envelope, end.envelope) && view.receipt.size == 0);
    CHECK(bl_text_equal(view.spec, BL_TEXT("{\"prompt\":\"p\",\"timeout\":\"90s\",\"session\":"
                                           "\"s-1\",\"labels\":[]}")));
    CHECK_EQUAL(ask_integer(place, "select count(*) from item"), 0);
    CHECK_EQUAL(ask_integer(place, "select count(*) from ended"), 1);
    CHECK_EQUAL(ask_integer(place, "select count(*) from ended_default"), 0);
    CHECK_EQUAL(b.table->look(b.table->context, &b.arena, "run_x", &view, NULL), BL_ENOENT);
    hand_close(&a);
    hand_close(&b);
}

PROXY_TEST(a_repeated_offer_or_end_changes_nothing)
{
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    place_lose_answer(place, "belay.offer(");
    const char *id = hand_offer(&hand, "{\"prompt\":\"p\",\"limit_key\":\"k\"}");
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 1);
    CHECK_EQUAL(ask_integer(place, "select count(*) from item"), 1);
    CHECK_EQUAL(hand_claim(&hand, 8), 1);
    place_lose_answer(place, "belay.finish(");
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_DELAYED));
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 2);
    CHECK_EQUAL(ask_integer(place, "select tries from item"), 1);
    CHECK_EQUAL(ask_integer(place, "select in_use from permit"), 0);
    CHECK(hand_beat(&hand) == 0 && hand_claim(&hand, 8) == 1);
    place_deliver_late(place, "belay.finish(");
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
    /* An item that was offered before, and has ended. */
    place_deliver_late(place, "belay.offer(");
    const char *late = hand_offer(&hand, PLAIN);
    CHECK(hand_claim(&hand, 8) == 1 && strcmp(hand.items[0].id, late) == 0);
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
    bl_sleep(2 * PLACE_LATE_NS);
    CHECK_EQUAL(ask_integer(place, "select count(*) from ended"), 2);
    CHECK_EQUAL(ask_integer(place, "select count(*) from item"), 0);
    CHECK_EQUAL(ask_integer(place, "select in_use from permit"), 0);
    CHECK(strcmp(hand_state(&hand, id), "completed") == 0);
    hand_close(&hand);
}

PROXY_TEST(W30_claim_without_an_answer_is_taken_up_after_a_heartbeat)
{
    struct hand hand;
    struct bl_list items;
    struct bl_fleet_item item;
    hand_open(&hand, place, "host-a", "main");
    for (unsigned long round = 0; round < suite_rounds(5, 200); round++) {
        const char *id = hand_offer(&hand, PLAIN);
        place_lose_answer(place, "belay.claim(");
        bl_list_init(&items);
        CHECK(hand.table->claim(hand.table->context, &hand.arena, 4, &items, NULL) != 0);
        CHECK(bl_list_empty(&items));
        CHECK(hand_beat(&hand) == 0 && hand_owns(&hand, id) == 1);
        CHECK_EQUAL(hand_claim(&hand, 4), 0);
        CHECK_EQUAL(hand.table->resume(hand.table->context, &hand.arena, id, 1, &item, NULL), 0);
        CHECK(item.epoch == 2 && bl_text_equal(item.spec, BL_TEXT(PLAIN)));
        CHECK_EQUAL(hand.table->resume(hand.table->context, &hand.arena, id, 1, &item, NULL),
                    BL_ENOENT);
        CHECK(hand_finish(&hand, &item, BL_FLEET_COMPLETED));
    }
    CHECK_EQUAL(ask_integer(place, "select count(*) from ended where epoch = 2"),
                (int64_t)suite_rounds(5, 200));
    hand_close(&hand);
}

/* ---- Lost workers ---- */

POSTGRES_TEST(W28_an_item_fails_after_the_third_death)
{
    struct hand hands[4];
    struct bl_fleet_view view;
    for (size_t i = 0; i < BL_COUNT(hands); i++)
        hand_open(&hands[i], place, i % 2 == 0 ? "host-a" : "host-b", "main");
    const char *id = hand_offer(&hands[3], "{\"prompt\":\"p\",\"limit_key\":\"k\"}");
    const char *other = hand_offer(&hands[3], PLAIN);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQUAL(hand_claim(&hands[i], 1), 1);
        CHECK(strcmp(hands[i].items[0].id, id) == 0);
        CHECK_EQUAL(hands[i].items[0].deaths, i);
        hand_take_over(&hands[3], &hands[i]);
        CHECK(!hand_finish(&hands[i], &hands[i].items[0], BL_FLEET_COMPLETED));
        CHECK_EQUAL(hand_claim(&hands[i], 1), 0);
        CHECK_EQUAL(ask_integer(place, "select in_use from permit"), i < 2 ? 1 : 0);
    }
    CHECK_EQUAL(hands[3].table->look(hands[3].table->context, &hands[3].arena, id, &view, NULL), 0);
    CHECK(view.state == BL_FLEET_FAILED && view.deaths == 3 && view.exit_code == 1);
    CHECK(bl_text_find(view.envelope, BL_TEXT("3 workers died while they ran it")) >= 0);
    CHECK(hand_claim(&hands[3], 8) == 1 && strcmp(hands[3].items[0].id, other) == 0);
    CHECK(hand_finish(&hands[3], &hands[3].items[0], BL_FLEET_COMPLETED));
    for (size_t i = 0; i < BL_COUNT(hands); i++)
        hand_close(&hands[i]);
}

POSTGRES_TEST(a_worker_that_is_dead_on_the_same_host_is_taken_over_at_once)
{
    struct hand dead, hand, other;
    hand_open(&dead, place, "host-a", "main");
    const char *id = hand_offer(&dead, PLAIN);
    CHECK_EQUAL(hand_claim(&dead, 1), 1);
    hand_open(&other, place, "host-b", "main");
    hand_open(&hand, place, "host-a", "main");
    change_file(place,
                "update worker set pid = 1, started = 1 where id = (select owner from item)");
    CHECK(hand_beat(&other) == 0 && strcmp(hand_state(&hand, id), "running") == 0);
    CHECK(hand_beat(&hand) == 0 && hand_claim(&hand, 1) == 1);
    CHECK(hand.items[0].deaths == 1 && hand.items[0].epoch == 3);
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
    hand_close(&dead);
    hand_close(&hand);
    hand_close(&other);
}

SUITE(pg_queue, cmocka_unit_test(an_item_is_claimed_once_and_its_end_is_recorded),
      cmocka_unit_test(a_repeated_offer_or_end_changes_nothing),
      cmocka_unit_test(W30_claim_without_an_answer_is_taken_up_after_a_heartbeat),
      cmocka_unit_test(W28_an_item_fails_after_the_third_death),
      cmocka_unit_test(a_worker_that_is_dead_on_the_same_host_is_taken_over_at_once));
