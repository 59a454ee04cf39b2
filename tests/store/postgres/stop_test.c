/* Stops of items and sessions: what they refuse, and how they end. */
#include <pgproxy.h>
#include <stdio.h>

#include "hand.h"

#define PLAIN "{\"prompt\":\"p\"}"

/* Holds a session for an item, as its run. */
static int hold_for(struct holding *holding, struct hand *hand, const char *session,
                    const char *item)
{
    return hold_with(
        holding, hand->store,
        &(struct bl_store_hold_options){.id = session, .directory = "/d", .run_id = item});
}

static int commit_refused(struct holding *holding, const char *turn_id)
{
    holding->error = (struct bl_error){0};
    struct bl_settlement settlement;
    fill_settlement(&settlement, turn_id);
    return holding->table->commit(holding->table->context, &settlement, &holding->error);
}

/* ---- Waiting items ---- */

POSTGRES_TEST(W44_an_item_that_waits_never_starts)
{
    struct hand hand;
    struct bl_fleet_view view;
    hand_open(&hand, place, "host-a", "main");
    change_file(place, "select set_limit('k', 1)");
    const char *queued = hand_offer(&hand, "{\"prompt\":\"p\",\"limit_key\":\"k\"}");
    const char *parked = hand_offer(&hand, "{\"prompt\":\"p\",\"limit_key\":\"k\"}");
    const char *next = hand_offer(&hand, "{\"prompt\":\"p\",\"limit_key\":\"k\"}");
    const char *delayed = hand_offer(&hand, "{\"prompt\":\"p\",\"delay\":3600}");
    const char *ids[] = {parked, queued, delayed};
    CHECK(strcmp(hand_state(&hand, parked), "parked") == 0);
    CHECK(hand_stop(&hand, queued, "call-1") == NULL);
    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        const char *stop = hand_stop(&hand, ids[i], NULL);
        if (!CHECK(stop != NULL))
            break;
        CHECK(strcmp(hand_fate(&hand, stop), "never_started fenced") == 0);
        CHECK_EQUAL(hand.table->look(hand.table->context, &hand.arena, ids[i], &view, NULL), 0);
        CHECK(view.state == BL_FLEET_CANCELLED && view.exit_code == 130 && view.worker == NULL);
        /* Again: the same stop. */
        CHECK(strcmp(hand_stop(&hand, ids[i], NULL), stop) == 0);
    }
    CHECK(hand_beat(&hand) == 0 && bl_list_empty(&hand.beat.orders));
    /* The permit was passed on. */
    CHECK(hand_claim(&hand, 8) == 1 && strcmp(hand.items[0].id, next) == 0);
    CHECK_EQUAL(ask_integer(place, "select in_use from permit"), 1);
    CHECK(hand_stop(&hand, "run_none", NULL) == NULL);
    CHECK(strcmp(hand.error.message, "no work with the id run_none waits or runs") == 0);
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
    CHECK(hand_stop(&hand, next, NULL) == NULL);
    hand_close(&hand);
}

/* ---- Running items ---- */

POSTGRES_TEST(W42_no_turn_of_a_stopped_item_enters_the_store)
{
    struct hand hand, other;
    struct holding holding, agent;
    struct bl_fleet_view view;
    hand_open(&hand, place, "host-a", "main");
    hand_open(&other, place, "host-b", NULL);
    const char *id = hand_offer(&other, PLAIN);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    CHECK_EQUAL(hold_for(&holding, &hand, "s-1", id), 0);
    CHECK_EQUAL(hold_with(&agent, hand.store,
                          &(struct bl_store_hold_options){
                              .id = "s-agent", .directory = "/d", .agent_of = "s-1"}),
                0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(begin_turn(&agent, "turn_a"), 0);
    const char *stop = hand_stop(&other, id, NULL);
    CHECK(strcmp(hand_state(&other, id), "stopping") == 0);
    CHECK(strcmp(hand_fate(&other, stop), "open fenced") == 0);
    CHECK_EQUAL(commit_refused(&holding, "turn_2"), BL_ECANCELED);
    CHECK(strcmp(holding.error.message, "session s-1 was stopped by a test") == 0);
    CHECK(strcmp(holding.error.name, "stopped") == 0);
    CHECK_EQUAL(commit_refused(&agent, "turn_a"), BL_ECANCELED);
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_3"), BL_ECANCELED);
    CHECK_EQUAL(ask_integer(place, "select turns_total from session where id = 's-1'"), 1);
    /* Each heartbeat has the order until it is answered. */
    CHECK_EQUAL(hand_beat(&hand), 0);
    const struct bl_fleet_order *order = hand_order(&hand, id);
    CHECK(order != NULL && strcmp(order->stop, stop) == 0 && order->part == NULL && !order->now);
    CHECK(strcmp(order->origin, "a test") == 0);
    release(&holding);
    release(&agent);
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_CANCELLED));
    CHECK(strcmp(hand_fate(&other, stop), "aborted fenced") == 0);
    CHECK(strcmp(hand_stop(&other, id, NULL), stop) == 0);
    CHECK(hand_beat(&hand) == 0 && bl_list_empty(&hand.beat.orders));
    CHECK_EQUAL(other.table->look(other.table->context, &other.arena, id, &view, NULL), 0);
    CHECK(view.state == BL_FLEET_CANCELLED && strcmp(view.session, "s-1") == 0);
    /* The next hold is free of it. */
    CHECK_EQUAL(hold(&holding, other.store, "s-1"), 0);
    add_turn(&holding, "turn_4");
    release(&holding);
    hand_close(&hand);
    hand_close(&other);
}

POSTGRES_TEST(a_session_that_is_held_for_a_stopped_item_is_stopped_from_the_start)
{
    struct hand hand;
    struct holding holding, agent;
    hand_open(&hand, place, "host-a", "main");
    const char *id = hand_offer(&hand, PLAIN);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    CHECK(hand_stop(&hand, id, NULL) != NULL);
    CHECK_EQUAL(hold_for(&holding, &hand, "s-1", id), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), BL_ECANCELED);
    CHECK_EQUAL(hold_with(&agent, hand.store,
                          &(struct bl_store_hold_options){
                              .id = "s-agent", .directory = "/d", .agent_of = "s-1"}),
                0);
    CHECK_EQUAL(begin_turn(&agent, "turn_1"), BL_ECANCELED);
    release(&holding);
    release(&agent);
    hand_close(&hand);
}

POSTGRES_TEST(the_end_of_a_stopped_item_says_what_won)
{
    struct hand hand;
    struct holding holding;
    const char *ids[3], *stops[3];
    hand_open(&hand, place, "host-a", "main");
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        ids[i] = hand_offer(&hand, PLAIN);
    CHECK_EQUAL(hand_claim(&hand, 8), 3);
    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        char turn[16], session[16];
        snprintf(turn, sizeof turn, "turn_%zu", i);
        snprintf(session, sizeof session, "s-%zu", i);
        CHECK_EQUAL(hold_for(&holding, &hand, session, ids[i]), 0);
        CHECK_EQUAL(begin_turn(&holding, turn), 0);
        if (i == 0)
            CHECK_EQUAL(commit_turn(&holding, turn), 0);
        stops[i] = hand_stop(&hand, ids[i], NULL);
        if (i > 0) {
            CHECK_EQUAL(commit_refused(&holding, turn), BL_ECANCELED);
            CHECK_EQUAL(reject_turn(&holding, turn), 0);
        }
        release(&holding);
    }
    /* The turn came first; it was refused; a retry is not made. */
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
    CHECK(hand_finish(&hand, &hand.items[1], BL_FLEET_COMPLETED));
    CHECK(hand_finish(&hand, &hand.items[2], BL_FLEET_DELAYED));
    CHECK(strcmp(hand_state(&hand, ids[0]), "completed") == 0);
    CHECK(strcmp(hand_state(&hand, ids[1]), "cancelled") == 0);
    CHECK(strcmp(hand_state(&hand, ids[2]), "cancelled") == 0);
    CHECK(strcmp(hand_fate(&hand, stops[0]), "finished fenced") == 0);
    CHECK(strcmp(hand_fate(&hand, stops[1]), "aborted fenced") == 0);
    hand_close(&hand);
}

POSTGRES_TEST(a_part_is_told_to_its_worker_and_nothing_is_refused)
{
    struct hand hand;
    struct holding holding;
    hand_open(&hand, place, "host-a", "main");
    const char *id = hand_offer(&hand, PLAIN);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    CHECK_EQUAL(hold_for(&holding, &hand, "s-1", id), 0);
    const char *stop = hand_stop(&hand, id, "call-1");
    CHECK(strcmp(hand_stop(&hand, id, "call-1"), stop) == 0);
    CHECK(strcmp(hand_stop(&hand, id, "call-2"), stop) != 0);
    CHECK(strcmp(hand_fate(&hand, stop), "open") == 0);
    CHECK_EQUAL(hand_beat(&hand), 0);
    const struct bl_fleet_order *order = hand_order(&hand, id);
    CHECK(order != NULL && strncmp(order->part, "call-", 5) == 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(hand.table->answer(hand.table->context, stop, id, "aborted", BL_TEXT("{}"), NULL),
                0);
    CHECK_EQUAL(hand.table->answer(hand.table->context, stop, id, "killed", BL_TEXT("{}"), NULL),
                0);
    CHECK(strcmp(hand_fate(&hand, stop), "aborted") == 0);
    release(&holding);
    CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
    hand_close(&hand);
}

/* ---- Without an item ---- */

POSTGRES_TEST(a_session_that_is_held_locally_is_stopped_until_its_worker_answers)
{
    struct hand hand, other;
    struct holding holding;
    hand_open(&hand, place, "host-a", NULL);
    hand_open(&other, place, "host-b", NULL);
    CHECK_EQUAL(hold_for(&holding, &hand, "s-1", "run_local"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), 0);
    /* By the id of the run as well. */
    const char *stop = hand_stop(&other, "run_local", NULL);
    CHECK(stop != NULL && strcmp(hand_stop(&other, "s-1", NULL), stop) == 0);
    CHECK_EQUAL(commit_refused(&holding, "turn_1"), BL_ECANCELED);
    CHECK_EQUAL(reject_turn(&holding, "turn_1"), 0);
    CHECK_EQUAL(hand_beat(&hand), 0);
    const struct bl_fleet_order *order = hand_order(&hand, "s-1");
    CHECK(order != NULL && strcmp(order->stop, stop) == 0);
    CHECK_EQUAL(hand.table->answer(hand.table->context, stop, "s-1", "aborted",
                                   BL_TEXT("{\"id\":\"rcp_1\"}"), NULL),
                0);
    CHECK(strcmp(hand_fate(&other, stop), "aborted fenced") == 0);
    CHECK(hand_beat(&hand) == 0 && bl_list_empty(&hand.beat.orders));
    add_turn(&holding, "turn_2");
    release(&holding);
    /* It is not held: only the earlier stop is left. */
    CHECK(strcmp(hand_stop(&other, "s-1", NULL), stop) == 0);
    CHECK(hand_stop(&other, "s-2", NULL) == NULL);
    hand_close(&hand);
    hand_close(&other);
}

/* ---- Lost workers ---- */

POSTGRES_TEST(a_stopped_item_of_a_lost_worker_is_cancelled_and_answered_later)
{
    struct hand lost, hand;
    struct holding holding;
    hand_open(&lost, place, "host-a", "main");
    hand_open(&hand, place, "host-b", "main");
    const char *id = hand_offer(&lost, PLAIN);
    CHECK_EQUAL(hand_claim(&lost, 1), 1);
    const char *part = hand_stop(&hand, id, "call-1"), *stop = hand_stop(&hand, id, NULL);
    CHECK_EQUAL(hold_for(&holding, &lost, "s-1", "run_local"), 0);
    const char *local = hand_stop(&hand, "s-1", "call-1");
    hand_take_over(&hand, &lost);
    CHECK(strcmp(hand_state(&hand, id), "cancelled") == 0);
    CHECK_EQUAL(hand_claim(&hand, 8), 0);
    CHECK(strcmp(hand_fate(&hand, stop), "open fenced") == 0);
    CHECK(strcmp(hand_fate(&hand, part), "open fenced") == 0);
    CHECK(strcmp(hand_fate(&hand, local), "open fenced") == 0);
    CHECK(!hand_finish(&lost, &lost.items[0], BL_FLEET_CANCELLED));
    CHECK_EQUAL(hand.table->answer(hand.table->context, stop, id, "killed", BL_TEXT("{}"), NULL),
                0);
    CHECK(strcmp(hand_fate(&hand, stop), "killed fenced") == 0);
    release(&holding);
    hand_close(&lost);
    hand_close(&hand);
}

/* ---- Races ---- */

struct race {
    struct hand *hand; /* that stops */
    const char *id;
    const char *stop;
    struct holding holding;
    uint64_t stop_ns, commit_ns; /* when they begin */
    int code;
};

static int race_stop(void *argument)
{
    struct race *race = argument;
    bl_sleep(race->stop_ns);
    race->stop = hand_stop(race->hand, race->id, NULL);
    return 0;
}

static int race_commit(void *argument)
{
    struct race *race = argument;
    bl_sleep(race->commit_ns);
    race->code = commit_refused(&race->holding, "turn_1");
    return 0;
}

POSTGRES_TEST(W43_either_the_stop_or_the_commit_wins)
{
    struct hand hand, other;
    struct bl_random random;
    unsigned long rounds = suite_rounds(200, 10000), wins[2] = {0};
    char sql[160], session[32];
    bl_random_seed(&random, 43);
    hand_open(&hand, place, "host-a", "main");
    hand_open(&other, place, "host-b", NULL);
    for (unsigned long round = 0; round < rounds; round++) {
        struct race race = {.hand = &other};
        /* Whichever takes longer on this machine, each comes first now and then. */
        *(round % 2 == 0 ? &race.stop_ns : &race.commit_ns) =
            bl_random_below(&random, 5 * BL_NS_PER_MS);
        struct bl_nursery nursery;
        race.id = hand_offer(&hand, PLAIN);
        CHECK_EQUAL(hand_claim(&hand, 1), 1);
        snprintf(session, sizeof session, "s-%lu", round);
        CHECK_EQUAL(hold_for(&race.holding, &hand, session, race.id), 0);
        CHECK_EQUAL(begin_turn(&race.holding, "turn_1"), 0);
        bl_nursery_init(&nursery, bl_scope_current());
        bl_nursery_spawn(&nursery, NULL, "stop", race_stop, &race, NULL);
        bl_nursery_spawn(&nursery, NULL, "commit", race_commit, &race, NULL);
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        bool committed = race.code == 0;
        CHECK(committed || race.code == BL_ECANCELED);
        if (!committed)
            CHECK_EQUAL(reject_turn(&race.holding, "turn_1"), 0);
        release(&race.holding);
        /* A worker that does not know what won. */
        CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
        snprintf(sql, sizeof sql, "select turns_total from session where id = '%s'", session);
        CHECK_EQUAL(ask_integer(place, sql), committed);
        CHECK(strcmp(hand_state(&hand, race.id), committed ? "completed" : "cancelled") == 0);
        CHECK(strcmp(hand_fate(&hand, race.stop),
                     committed ? "finished fenced" : "aborted fenced") == 0);
        wins[committed]++;
        bl_arena_reset(&hand.arena);
        bl_arena_reset(&other.arena);
    }
    CHECK(wins[0] >= rounds / 100 && wins[1] >= rounds / 100);
    hand_close(&hand);
    hand_close(&other);
}

POSTGRES_TEST(the_fate_of_an_item_is_what_its_worker_saw)
{
    struct hand hand;
    bool taken = false;
    hand_open(&hand, place, "host-a", "main");
    const char *id = hand_offer(&hand, PLAIN);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    const char *stop = hand_stop(&hand, id, NULL);
    struct bl_fleet_end end = {.id = id,
                               .epoch = hand.items[0].epoch,
                               .state = BL_FLEET_CANCELLED,
                               .exit_code = 130,
                               .fate = "killed"};
    CHECK_EQUAL(hand.table->finish(hand.table->context, &end, &taken, NULL), 0);
    CHECK(taken && strcmp(hand_fate(&hand, stop), "killed fenced") == 0);
    hand_close(&hand);
}

PROXY_TEST(a_repeated_stop_is_the_same_stop)
{
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    const char *id = hand_offer(&hand, PLAIN);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    place_lose_answer(place, "belay.stop(");
    CHECK(hand_stop(&hand, id, NULL) != NULL);
    const char *stop = NULL;
    CHECK_EQUAL(
        hand.table->stop(hand.table->context, &hand.arena, id, NULL, "another", true, &stop, NULL),
        0);
    CHECK_EQUAL(ask_integer(place, "select count(*) from stop"), 1);
    /* Asked for again without grace periods. */
    CHECK(hand_beat(&hand) == 0 && hand_order(&hand, id)->now);
    place_lose_answer(place, "belay.answer(");
    CHECK_EQUAL(hand.table->answer(hand.table->context, stop, id, "killed", BL_TEXT("{}"), NULL),
                0);
    CHECK(strcmp(hand_fate(&hand, stop), "killed fenced") == 0);
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 2);
    hand_close(&hand);
}

SUITE(pg_stop, cmocka_unit_test(W44_an_item_that_waits_never_starts),
      cmocka_unit_test(W42_no_turn_of_a_stopped_item_enters_the_store),
      cmocka_unit_test(a_session_that_is_held_for_a_stopped_item_is_stopped_from_the_start),
      cmocka_unit_test(the_end_of_a_stopped_item_says_what_won),
      cmocka_unit_test(a_part_is_told_to_its_worker_and_nothing_is_refused),
      cmocka_unit_test(a_session_that_is_held_locally_is_stopped_until_its_worker_answers),
      cmocka_unit_test(a_stopped_item_of_a_lost_worker_is_cancelled_and_answered_later),
      cmocka_unit_test(W43_either_the_stop_or_the_commit_wins),
      cmocka_unit_test(the_fate_of_an_item_is_what_its_worker_saw),
      cmocka_unit_test(a_repeated_stop_is_the_same_stop));
