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

/* ---- Requests ---- */

struct requester {
    struct bl_store *store;
    struct bl_arena arena;
    const char *spec;
    const char *id;
    int code;
    struct bl_error error;
};

static int request_once(void *argument)
{
    struct requester *requester = argument;
    const struct bl_fleet_store *table = bl_store_fleet_table(requester->store);
    requester->id = "";
    requester->error = (struct bl_error){0};
    requester->code = table->offer(table->context, &requester->arena, bl_text_from(requester->spec),
                                   &requester->id, &requester->error);
    return 0;
}

POSTGRES_TEST(W33_a_request_makes_one_item)
{
    struct requester requesters[10] = {0};
    char spec[80];
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    for (size_t i = 0; i < BL_COUNT(requesters); i++)
        requesters[i].store = store_at(place);
    for (unsigned long round = 0; round < suite_rounds(5, 100); round++) {
        struct bl_nursery nursery;
        snprintf(spec, sizeof spec, "{\"prompt\":\"p\",\"request_id\":\"r-%lu\"}", round);
        bl_nursery_init(&nursery, bl_scope_current());
        for (size_t i = 0; i < BL_COUNT(requesters); i++) {
            requesters[i].spec = spec;
            bl_nursery_spawn(&nursery, NULL, "requester", request_once, &requesters[i], NULL);
        }
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        for (size_t i = 0; i < BL_COUNT(requesters); i++)
            CHECK(requesters[i].code == 0 && strcmp(requesters[i].id, requesters[0].id) == 0);
        CHECK_EQUAL(hand_claim(&hand, 8), 1);
        CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
        /* After its end. */
        CHECK(strcmp(hand_offer(&hand, spec), requesters[0].id) == 0);
        CHECK_EQUAL(hand_claim(&hand, 8), 0);
    }
    requesters[0].spec = "{\"prompt\":\"q\",\"request_id\":\"r-0\"}";
    request_once(&requesters[0]);
    CHECK(requesters[0].code == BL_EINVAL && requesters[0].error.kind == BL_KIND_USAGE);
    CHECK(strcmp(requesters[0].error.message, "request r-0 was made with another prompt") == 0);
    for (size_t i = 0; i < BL_COUNT(requesters); i++) {
        bl_store_close(requesters[i].store);
        bl_arena_done(&requesters[i].arena);
    }
    hand_close(&hand);
}

/* ---- Offers from SQL ---- */

POSTGRES_TEST(W34_items_are_submitted_in_SQL_by_roles_that_see_their_own)
{
    struct hand hand;
    char id[BL_ID_SIZE], other[BL_ID_SIZE], sql[400];
    hand_open(&hand, place, "host-a", "main");
    change_file(place, "create role belay_test_a login in role belay_submit;"
                       " create role belay_test_b login in role belay_submit;"
                       " create role belay_test_c login in role belay_test_a, belay_submit");
    change_file(place, "begin; select submit('{\"prompt\":\"p\"}'); rollback");
    CHECK_EQUAL(hand_claim(&hand, 8), 0);
    ask_text(place, "set session authorization belay_test_a; select submit('{\"prompt\":\"p\"}')",
             id, sizeof id);
    ask_text(place, "set session authorization belay_test_b; select submit('{\"prompt\":\"p\"}')",
             other, sizeof other);
    CHECK_EQUAL(hand_claim(&hand, 8), 2);
    struct bl_fleet_view view;
    CHECK_EQUAL(hand.table->look(hand.table->context, &hand.arena, id, &view, NULL), 0);
    CHECK(strcmp(view.submitter, "belay_test_a") == 0);
    static const struct {
        const char *user;
        int sees;
    } cases[] = {{"belay_test_a", 1}, {"belay_test_b", 0}, {"belay_test_c", 1}};
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        snprintf(
            sql, sizeof sql,
            "set session authorization %s; select (select count(*) from look('%s')) * 10 + (select"
            " count(*) from list(null, null, null, true, null, 10))",
            cases[i].user, id);
        CHECK_EQUAL(ask_integer(place, sql), cases[i].sees * 10 + 1);
        snprintf(sql, sizeof sql,
                 "set session authorization %s; select (cancel('%s') is not null)::int",
                 cases[i].user, i == 0 ? other : id);
        CHECK_EQUAL(ask_integer(place, sql), i == 2);
    }
    /* Nothing else may be called or read. */
    CHECK_EQUAL(ask_integer(place, "select count(*) from pg_proc p where pronamespace ="
                                   " 'belay'::regnamespace and has_function_privilege("
                                   "'belay_test_a', p.oid, 'execute')"),
                8);
    CHECK_EQUAL(ask_integer(place, "select count(*) from pg_class where relnamespace ="
                                   " 'belay'::regnamespace and relkind in ('r', 'v', 'p') and"
                                   " has_table_privilege('belay_test_a', oid, 'select')"),
                1);
    change_file(place, "drop role belay_test_c, belay_test_a, belay_test_b");
    hand_close(&hand);
}

POSTGRES_TEST(an_item_that_is_not_well_formed_is_refused)
{
    static const struct {
        const char *spec;
        const char *message;
    } cases[] = {
        {"[1]", "the item is not a JSON object"},
        {"{", "the item cannot be read as JSON: invalid input syntax for type json"},
        {"{\"prompt\":\"\xff\"}",
         "the item cannot be read as JSON: invalid byte sequence for encoding \"UTF8\": 0xff"},
        {"{}", "the item has no prompt"},
        {"{\"prompt\":7}", "invalid value 7 for prompt of an item (expected a text)"},
        {"{\"prompt\":\"p\",\"header\":\"x\"}", "unknown key 'header' of an item"},
        {"{\"prompt\":\"p\",\"pool\":\"a\",\"pool\":\"b\"}", "the item has two values for pool"},
        {"{\"prompt\":\"p\",\"pool\":\"a\\u0000\"}",
         "invalid value \"a\\u0001\" for pool of an item (expected 1 to 64 of A-Z, a-z, 0-9, '.', "
         "'_'"
         " and '-')"},
        {"{\"prompt\":\"p\",\"priority\":1.5}",
         "invalid value 1.5 for priority of an item (expected a whole number from -9 to 9)"},
        {"{\"prompt\":\"p\",\"timeout\":\"2 weeks\"}",
         "invalid value \"2 weeks\" for timeout of an item (expected seconds, or a duration such as"
         " 90s, 2.5m, 1h)"},
        {"{\"prompt\":\"p\",\"labels\":[\"a=b\",7]}",
         "invalid value [\"a=b\",7] for labels of an item (expected a list of at most 32 "
         "KEY=VALUE)"},
        {"{\"prompt\":\"p\",\"at\":\"2026-02-30T00:00:00Z\"}",
         "invalid value \"2026-02-30T00:00:00Z\" for at of an item (expected a time such as"
         " 2026-11-20T08:00:00Z)"},
        {"{\"prompt\":\"p\",\"at\":\"2026-02-03T00:00:00Z\",\"delay\":1}",
         "the item has both delay and at"},
        {"{\"prompt\":\"p\",\"max_turns\":1e400000}",
         "the item cannot be read as JSON: value overflows numeric format"},
    };
    struct hand hand;
    const char *id;
    hand_open(&hand, place, "host-a", NULL);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        hand.error = (struct bl_error){0};
        CHECK_EQUAL(hand.table->offer(hand.table->context, &hand.arena, bl_text_from(cases[i].spec),
                                      &id, &hand.error),
                    BL_EINVAL);
        CHECK_EQUAL(hand.error.kind, BL_KIND_USAGE);
        if (!CHECK(strcmp(hand.error.message, cases[i].message) == 0))
            fprintf(stderr, "%s\n", hand.error.message);
    }
    struct bl_text large = {bl_zalloc((size_t)33 * 1024 * 1024 + 1), (size_t)33 * 1024 * 1024 + 1};
    hand.error = (struct bl_error){0};
    CHECK_EQUAL(hand.table->offer(hand.table->context, &hand.arena, large, &id, &hand.error),
                BL_EINVAL);
    CHECK(strcmp(hand.error.message, "the item has 34603009 bytes (expected at most 33 MiB)") == 0);
    bl_free((void *)(uintptr_t)large.data);
    CHECK_EQUAL(ask_integer(place, "select count(*) from item"), 0);
    hand_close(&hand);
}

POSTGRES_TEST(W4_a_prompt_is_kept_byte_for_byte)
{
    struct hand hand;
    BL_AUTO_BUFFER(spec, (size_t)40 * 1024 * 1024);
    bl_buffer_append(&spec,
                     BL_TEXT("{ \"prompt\" : \"\\u0000 \\\\u0000 \\\\\\u0000 \xc3\xa4\\u00e4 '"));
    size_t size = (size_t)suite_rounds(1, 32) * 1024 * 1024;
    while (spec.size < size)
        bl_buffer_append(&spec, BL_TEXT("0123456789abcdef0123456789abcdef0123456789abcdef"));
    bl_buffer_append(&spec, BL_TEXT("\", \"request_id\":\"r\", \"max_budget_usd\": 1.10}"));
    hand_open(&hand, place, "host-a", "main");
    bl_buffer_append(&spec, (struct bl_text){"", 1});
    hand_offer(&hand, spec.data);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    CHECK(bl_text_equal(hand.items[0].spec, (struct bl_text){spec.data, spec.size - 1}));
    hand_close(&hand);
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
      cmocka_unit_test(W33_a_request_makes_one_item),
      cmocka_unit_test(W34_items_are_submitted_in_SQL_by_roles_that_see_their_own),
      cmocka_unit_test(an_item_that_is_not_well_formed_is_refused),
      cmocka_unit_test(W4_a_prompt_is_kept_byte_for_byte),
      cmocka_unit_test(W36_a_delayed_item_is_claimed_after_its_time),
      cmocka_unit_test(W36_a_paused_pool_gives_no_items),
      cmocka_unit_test(W36_an_item_waits_for_a_worker_that_fits),
      cmocka_unit_test(items_are_listed_page_by_page),
      cmocka_unit_test(a_worker_hears_of_items_and_stops),
      cmocka_unit_test(heartbeats_do_not_wait_for_a_worker_that_listens),
      cmocka_unit_test(W7_a_worker_behind_a_pooler_polls));
