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

POSTGRES_TEST(an_item_that_is_given_back_keeps_its_place)
{
    struct hand a, b;
    hand_open(&a, place, "host-a", "main");
    hand_open(&b, place, "host-b", "main");
    const char *first = hand_offer(&a, "{\"prompt\":\"p\",\"limit_key\":\"k\",\"timeout\":60}");
    hand_offer(&a, PLAIN);
    CHECK_EQUAL(hand_claim(&a, 1), 1);
    change_file(place, "select drain(owner) from item where owner is not null");
    CHECK(hand_beat(&a) == 0 && a.beat.draining && !a.beat.waiting && a.beat.live);
    CHECK_EQUAL(hand_claim(&a, 8), 0);
    uint64_t left_ns = a.items[0].left_ns;
    CHECK(hand_finish(&a, &a.items[0], BL_FLEET_QUEUED));
    CHECK(hand_finish(&a, &a.items[0], BL_FLEET_QUEUED));
    CHECK_EQUAL(ask_integer(place, "select in_use from permit"), 1);
    CHECK_EQUAL(hand_claim(&b, 1), 1);
    CHECK(strcmp(b.items[0].id, first) == 0 && b.items[0].epoch == 2 && b.items[0].deaths == 0);
    CHECK(b.items[0].tries == 0 && b.items[0].left_ns <= left_ns);
    CHECK(hand_finish(&b, &b.items[0], BL_FLEET_COMPLETED));
    hand_close(&a);
    hand_close(&b);
}

/* ---- Order ---- */

/* Claims and ends items one by one, and returns how many of others came before the last of `key`. */
static int64_t run_until(struct hand *hand, const char *key, size_t count)
{
    int64_t passed = 0;
    char sql[160];
    while (count > 0 && CHECK_EQUAL(hand_claim(hand, 1), 1)) {
        snprintf(sql, sizeof sql, "select fair_key = '%s' from item where id = '%s'", key,
                 hand->items[0].id);
        char mine[8];
        ask_text(hand->place, sql, mine, sizeof mine);
        bool found = strcmp(mine, "t") == 0;
        count -= found;
        passed += !found;
        CHECK(hand_finish(hand, &hand->items[0], BL_FLEET_COMPLETED));
    }
    return passed;
}

static void offer_many(const struct place *place, const char *spec, unsigned count)
{
    char sql[300];
    snprintf(sql, sizeof sql, "select count(submit('%s')) from generate_series(1, %u)", spec,
             count);
    CHECK_EQUAL(ask_integer(place, sql), count);
}

POSTGRES_TEST(W31_a_key_waits_for_its_share_and_not_for_the_queue_of_another)
{
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    offer_many(place, "{\"prompt\":\"p\",\"key\":\"a\"}", 1000);
    CHECK_EQUAL(hand_claim(&hand, 4), 4);
    for (size_t i = 0; i < 4; i++)
        CHECK(hand_finish(&hand, &hand.items[i], BL_FLEET_COMPLETED));
    offer_many(place, "{\"prompt\":\"p\",\"key\":\"b\"}", 10);
    CHECK(run_until(&hand, "b", 10) < 30);
    /* Four to one. */
    offer_many(place, "{\"prompt\":\"p\",\"key\":\"c\",\"weight\":4}", 40);
    offer_many(place, "{\"prompt\":\"p\",\"key\":\"d\"}", 10);
    change_file(place, "delete from item where fair_key = 'a'");
    int64_t passed = run_until(&hand, "c", 40);
    CHECK(passed >= 9 && passed <= 11);
    hand_close(&hand);
}

POSTGRES_TEST(W31_a_priority_is_a_head_start)
{
    struct hand hand;
    unsigned passed = 0;
    char spec[80];
    hand_open(&hand, place, "host-a", "main");
    const char *low = hand_offer(&hand, "{\"prompt\":\"p\",\"key\":\"l\",\"priority\":-1}");
    const char *plain = hand_offer(&hand, "{\"prompt\":\"p\",\"key\":\"m\"}");
    const char *high = hand_offer(&hand, "{\"prompt\":\"p\",\"key\":\"h\",\"priority\":9}");
    CHECK_EQUAL(hand_claim(&hand, 2), 2);
    CHECK(strcmp(hand.items[0].id, high) == 0 && strcmp(hand.items[1].id, plain) == 0);
    /* Other keys come all the time, each for the first time, and the one with a low priority ends. */
    for (bool ended = false; !ended && passed < 300; passed++) {
        snprintf(spec, sizeof spec, "{\"prompt\":\"p\",\"key\":\"k-%u\"}", passed);
        hand_offer(&hand, spec);
        if (!CHECK_EQUAL(hand_claim(&hand, 1), 1))
            break;
        ended = strcmp(hand.items[0].id, low) == 0;
    }
    CHECK(passed < 110);
    hand_close(&hand);
}

/* ---- Limits ---- */

static int64_t limit_broken(const struct place *place)
{
    return ask_integer(
        place, "select count(*) from permit p where in_use > most or in_use <> (select count(*)"
               " from item where permit and limit_key = p.key)");
}

/* Takes over, ends, retries and cancels items at random until none is left. */
static void run_limited(struct hand *hands, size_t hand_count, const struct place *place,
                        struct bl_random *random)
{
    size_t running = 0;
    for (unsigned step = 0; step < 20000; step++) {
        struct hand *hand = &hands[bl_random_below(random, hand_count)];
        uint64_t dice = bl_random_below(random, 20);
        CHECK_EQUAL(hand_beat(hand), 0);
        if (dice == 0) {
            char id[BL_ID_SIZE] = "";
            ask_text(place, "select id from item order by md5(id || random()) limit 1", id,
                     sizeof id);
            CHECK(id[0] == '\0' || hand_stop(hand, id, NULL) != NULL);
        } else if (dice == 1) {
            struct hand *lost = hand == &hands[0] ? &hands[1] : &hands[0];
            hand_take_over(hand, lost);
            CHECK(hand_beat(lost) == 0 && !lost->beat.live);
            hand_close(lost);
            hand_open(lost, place, "host-a", "main");
        } else {
            hand_claim(hand, 3);
        }
        CHECK_EQUAL(limit_broken(place), 0);
        CHECK_EQUAL(hand_beat(hand), 0);
        BL_LIST_EACH (link, &hand->beat.owned) {
            const struct bl_fleet_owned *owned = BL_CONTAINER(link, struct bl_fleet_owned, link);
            struct bl_fleet_item item = {.id = owned->id, .epoch = owned->epoch};
            uint64_t end = bl_random_below(random, 8);
            if (end < 4)
                hand_finish(hand, &item,
                            end == 0   ? BL_FLEET_DELAYED
                            : end == 1 ? BL_FLEET_QUEUED
                                       : BL_FLEET_COMPLETED);
        }
        running += ask_integer(place, "select count(*) from item") == 0;
        if (running > 0)
            break;
        bl_arena_reset(&hand->arena);
    }
    CHECK(running > 0);
}

POSTGRES_TEST(W32_a_limit_is_never_exceeded_and_no_permit_is_lost)
{
    struct hand hands[4];
    struct bl_random random;
    char sql[200];
    unsigned count = (unsigned)suite_rounds(60, 2000);
    bl_random_seed(&random, 32);
    change_file(place, "select set_limit('k', 3); select set_limit('l', 1)");
    for (size_t i = 0; i < BL_COUNT(hands); i++)
        hand_open(&hands[i], place, i % 2 == 0 ? "host-a" : "host-b", "main");
    snprintf(
        sql, sizeof sql,
        "select count(submit(jsonb_build_object('prompt', 'p', 'delay', i %% 3 * 0.01, 'limit_key',"
        " case when i %% 4 = 0 then 'l' else 'k' end))) from generate_series(1, %u) i",
        count);
    CHECK_EQUAL(ask_integer(place, sql), count);
    run_limited(hands, BL_COUNT(hands), place, &random);
    CHECK_EQUAL(ask_integer(place, "select count(*) from ended"), count);
    CHECK_EQUAL(ask_integer(place, "select sum(in_use) from permit"), 0);
    for (size_t i = 0; i < BL_COUNT(hands); i++)
        hand_close(&hands[i]);
}

/* ---- Time, pauses, labels ---- */

POSTGRES_TEST(W36_a_delayed_item_is_claimed_after_its_time)
{
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    const char *id = hand_offer(&hand, "{\"prompt\":\"p\",\"delay\":\"300ms\"}");
    hand_offer(&hand, "{\"prompt\":\"p\",\"at\":\"2999-01-01T00:00:00+01:00\"}");
    CHECK(strcmp(hand_state(&hand, id), "delayed") == 0);
    CHECK(hand_beat(&hand) == 0 && !hand.beat.waiting && hand_claim(&hand, 8) == 0);
    for (int i = 0; i < 100 && !hand.beat.waiting; i++) {
        bl_sleep(50 * MS);
        CHECK_EQUAL(hand_beat(&hand), 0);
    }
    CHECK(hand.beat.waiting && hand_claim(&hand, 8) == 1);
    CHECK(strcmp(hand.items[0].id, id) == 0);
    CHECK(ask_integer(place, "select (claimed_at - offered_at >= interval '300ms')::int from item"
                             " where state = 'running'") == 1);
    CHECK_EQUAL(ask_integer(place, "select count(*) from item where state = 'delayed'"), 1);
    hand_close(&hand);
}

POSTGRES_TEST(W36_a_paused_pool_gives_no_items)
{
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    change_file(place, "select pause_pool('main', true)");
    hand_offer(&hand, PLAIN);
    CHECK(hand_beat(&hand) == 0 && !hand.beat.waiting && hand_claim(&hand, 8) == 0);
    change_file(place, "select pause_pool('main', false)");
    CHECK(hand_beat(&hand) == 0 && hand.beat.waiting && hand_claim(&hand, 8) == 1);
    hand_close(&hand);
}

POSTGRES_TEST(W36_an_item_waits_for_a_worker_that_fits)
{
    static const char *const labels[] = {"gpu=1", "zone=b", NULL};
    struct hand plain, other, fitting;
    hand_open(&plain, place, "host-a", "main");
    hand_open(&other, place, "host-a", "other");
    hand_open(&fitting, place, "host-a", NULL);
    const char *id = hand_offer(&plain, "{\"prompt\":\"p\",\"labels\":[\"gpu=1\"]}");
    const char *next = hand_offer(&plain, PLAIN);
    CHECK(hand_beat(&plain) == 0 && plain.beat.waiting);
    CHECK(hand_claim(&plain, 8) == 1 && strcmp(plain.items[0].id, next) == 0);
    CHECK(hand_beat(&plain) == 0 && !plain.beat.waiting && hand_claim(&plain, 8) == 0);
    CHECK(hand_beat(&other) == 0 && !other.beat.waiting && hand_claim(&other, 8) == 0);
    CHECK(hand_claim(&fitting, 8) == 0);
    fitting.table->enlist(fitting.table->context,
                          &(struct bl_fleet_place){.pool = "main", .labels = labels, .slots = 1});
    CHECK(hand_beat(&fitting) == 0 && fitting.beat.waiting && hand_claim(&fitting, 8) == 1);
    CHECK(strcmp(fitting.items[0].id, id) == 0);
    /* Its own host first. */
    CHECK(hand_finish(&fitting, &fitting.items[0], BL_FLEET_QUEUED));
    change_file(place,
                "update item set labels = '{}', host = 'host-b', host_until = clock_timestamp()"
                " + interval '1 hour' where state = 'queued'");
    CHECK_EQUAL(hand_claim(&plain, 8), 0);
    change_file(place, "update item set host_until = clock_timestamp() where state = 'queued'");
    CHECK_EQUAL(hand_claim(&plain, 8), 1);
    hand_close(&plain);
    hand_close(&other);
    hand_close(&fitting);
}

/* ---- Lists ---- */

static size_t list_ids(struct hand *hand, const struct bl_fleet_list *list, const char *ids[])
{
    struct bl_list views;
    size_t count = 0;
    bl_list_init(&views);
    CHECK_EQUAL(hand->table->list(hand->table->context, &hand->arena, list, &views, NULL), 0);
    BL_LIST_EACH (link, &views)
        ids[count++] = BL_CONTAINER(link, struct bl_fleet_view, link)->id;
    return count;
}

POSTGRES_TEST(items_are_listed_page_by_page)
{
    struct hand hand;
    const char *offered[6], *ids[10];
    hand_open(&hand, place, "host-a", "main");
    for (size_t i = 0; i < BL_COUNT(offered); i++)
        offered[i] = hand_offer(
            &hand, i % 2 == 0 ? PLAIN : "{\"prompt\":\"p\",\"pool\":\"b\",\"key\":\"k\"}");
    CHECK_EQUAL(hand_claim(&hand, 2), 2);
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
    struct bl_fleet_list list = {.ended = true, .most = 4};
    CHECK_EQUAL(list_ids(&hand, &list, ids), 4);
    list.after = ids[3];
    CHECK_EQUAL(list_ids(&hand, &list, ids + 4), 2);
    for (size_t i = 0; i < BL_COUNT(offered); i++)
        CHECK(strcmp(ids[i], offered[i]) == 0);
    list = (struct bl_fleet_list){.most = 10};
    CHECK(list_ids(&hand, &list, ids) == 5 && strcmp(ids[0], offered[1]) == 0);
    list.pool = "b";
    CHECK_EQUAL(list_ids(&hand, &list, ids), 3);
    list = (struct bl_fleet_list){.key = "k", .ended = true, .most = 10};
    CHECK_EQUAL(list_ids(&hand, &list, ids), 3);
    list = (struct bl_fleet_list){.chosen = true, .state = BL_FLEET_COMPLETED, .most = 10};
    CHECK(list_ids(&hand, &list, ids) == 1 && strcmp(ids[0], offered[0]) == 0);
    list.state = BL_FLEET_RUNNING;
    CHECK(list_ids(&hand, &list, ids) == 1 && strcmp(ids[0], offered[2]) == 0);
    hand_close(&hand);
}

/* ---- Wake-ups ---- */

static int listen_long(void *argument)
{
    struct hand *hand = argument;
    return hand->table->listen(hand->table->context, 60 * BL_NS_PER_S);
}

/* Starts to listen, lets `rouse` run, and returns how long it took from there. */
static uint64_t listen_while(struct hand *hand, void (*rouse)(struct hand *other),
                             struct hand *other)
{
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "listener", listen_long, hand, NULL);
    bl_sleep(100 * MS);
    uint64_t from_ns = bl_now_ns();
    rouse(other);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    return bl_now_ns() - from_ns;
}

static void rouse_by_offer(struct hand *other)
{
    hand_offer(other, PLAIN);
}

static void rouse_by_stop(struct hand *other)
{
    const struct bl_fleet_list running = {.chosen = true, .state = BL_FLEET_RUNNING, .most = 1};
    const char *id = "";
    list_ids(other, &running, &id);
    CHECK(hand_stop(other, id, NULL) != NULL);
}

POSTGRES_TEST(a_worker_hears_of_items_and_stops)
{
    struct hand hand, other;
    hand_open(&hand, place, "host-a", "main");
    hand_open(&other, place, "host-b", NULL);
    /* The first call only begins to listen. */
    CHECK_EQUAL(hand.table->listen(hand.table->context, BL_NS_PER_S), 0);
    CHECK(listen_while(&hand, rouse_by_offer, &other) < 10 * BL_NS_PER_S);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    CHECK(listen_while(&hand, rouse_by_stop, &other) < 10 * BL_NS_PER_S);
    CHECK(hand_beat(&hand) == 0 && hand_order(&hand, hand.items[0].id) != NULL);
    /* Nothing happens. */
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(hand.table->listen(hand.table->context, 200 * MS), 0);
    CHECK(bl_now_ns() - from_ns >= 200 * MS);
    hand_close(&hand);
    hand_close(&other);
}

static void rouse_after_heartbeats(struct hand *other)
{
    struct hand *hand = other + 1;
    for (int i = 0; i < 20; i++)
        CHECK_EQUAL(hand_beat(hand), 0);
    hand_offer(other, PLAIN);
    for (int i = 0; i < 20; i++)
        CHECK_EQUAL(hand_beat(hand), 0);
}

POSTGRES_TEST(heartbeats_do_not_wait_for_a_worker_that_listens)
{
    struct hand hands[2];
    hand_open(&hands[0], place, "host-b", NULL);
    hand_open(&hands[1], place, "host-a", "main");
    CHECK_EQUAL(hands[1].table->listen(hands[1].table->context, BL_NS_PER_S), 0);
    CHECK(listen_while(&hands[1], rouse_after_heartbeats, &hands[0]) < 20 * BL_NS_PER_S);
    hand_close(&hands[0]);
    hand_close(&hands[1]);
}

static void behind_a_pooler(struct place *place)
{
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(hand.table->listen(hand.table->context, 60 * BL_NS_PER_S), 0);
    CHECK(bl_now_ns() - from_ns >= BL_NS_PER_S && bl_now_ns() - from_ns < 30 * BL_NS_PER_S);
    hand_close(&hand);
}

/* A claim may arrive after the last heartbeat of a worker that drains. */
POSTGRES_TEST(W29_a_worker_that_leaves_gives_back_what_it_never_ran)
{
    struct hand a, b;
    hand_open(&a, place, "host-a", "main");
    hand_open(&b, place, "host-b", "main");
    const char *waits = hand_offer(&b, "{\"prompt\":\"p\"}");
    const char *stopped = hand_offer(&b, "{\"prompt\":\"q\"}");
    CHECK_EQUAL(hand_claim(&a, 8), 2);
    const char *stop = hand_stop(&b, stopped, NULL);
    hand_close(&a);
    CHECK(strcmp(hand_state(&b, waits), "queued") == 0);
    CHECK(strcmp(hand_state(&b, stopped), "cancelled") == 0);
    CHECK(strcmp(hand_fate(&b, stop), "never_started fenced") == 0);
    CHECK_EQUAL(hand_claim(&b, 8), 1);
    CHECK(b.items[0].deaths == 0 && b.items[0].epoch == 3);
    hand_close(&b);
}

static int behind_a_pooler_main(void *argument)
{
    behind_a_pooler(argument);
    return 0;
}

PLACE_TEST(behind_a_pooler, W7_a_worker_behind_a_pooler_polls, place_make_pooled)

SUITE(pg_queue, cmocka_unit_test(an_item_is_claimed_once_and_its_end_is_recorded),
      cmocka_unit_test(a_repeated_offer_or_end_changes_nothing),
      cmocka_unit_test(W30_claim_without_an_answer_is_taken_up_after_a_heartbeat),
      cmocka_unit_test(W28_an_item_fails_after_the_third_death),
      cmocka_unit_test(a_worker_that_is_dead_on_the_same_host_is_taken_over_at_once),
      cmocka_unit_test(an_item_that_is_given_back_keeps_its_place),
      cmocka_unit_test(W31_a_key_waits_for_its_share_and_not_for_the_queue_of_another),
      cmocka_unit_test(W31_a_priority_is_a_head_start),
      cmocka_unit_test(W32_a_limit_is_never_exceeded_and_no_permit_is_lost),
      cmocka_unit_test(W36_a_delayed_item_is_claimed_after_its_time),
      cmocka_unit_test(W36_a_paused_pool_gives_no_items),
      cmocka_unit_test(W36_an_item_waits_for_a_worker_that_fits),
      cmocka_unit_test(W29_a_worker_that_leaves_gives_back_what_it_never_ran),
      cmocka_unit_test(items_are_listed_page_by_page),
      cmocka_unit_test(a_worker_hears_of_items_and_stops),
      cmocka_unit_test(heartbeats_do_not_wait_for_a_worker_that_listens),
      cmocka_unit_test(W7_a_worker_behind_a_pooler_polls));
