/* Cells in a database: writes whose answer does not come are repeated, and burials of many sessions
 * at once. */
#include <pgproxy.h>
#include <stdio.h>

#include "helpers.h"

#define US 1000

static int64_t tombstones_left(const struct place *place)
{
    int64_t count = ask_integer(place, "select count(*) from cell_tombstone");
    CHECK_EQUAL(ask_integer(place, "select count from tombstones"), count);
    return count;
}

PROXY_TEST(cell_writes_whose_answer_is_lost_take_place_once)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    place_lose_answer(place, "belay.admit_cell");
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    place_lose_answer(place, "belay.start_cell");
    CHECK_EQUAL(bl_store_cell_started(holding.held, BL_TEXT("c-1"), 4711, 99, NULL), 0);
    place_lose_answer(place, "belay.yield_cell");
    CHECK_EQUAL(yield_cell(&holding, "c-1"), 0);
    place_lose_answer(place, "belay.end_cell");
    CHECK_EQUAL(end_cell(&holding, "c-1", "k", "1"), 0);
    place_lose_answer(place, "from belay.cell where");
    CHECK(cells_are(&holding, "c-1 | k=1"));
    CHECK_EQUAL(ask_integer(place, "select pid from cell where generation = 2"), 4711);
    place_lose_answer(place, "belay.bury_cell");
    CHECK_EQUAL(bury_cell(&holding, "c-1", 1, 10), 0);
    CHECK_EQUAL(tombstones_left(place), 1);
    place_lose_answer(place, "belay.forget_cells");
    CHECK_EQUAL(bl_store_cells_forget(holding.held, NULL), 0);
    CHECK_EQUAL(tombstones_left(place), 0);
    CHECK(cells_are(&holding, "|"));
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 7);
    release(&holding);
    bl_store_close(store);
}

/* It finds a cell that it did not make. */
PROXY_TEST(repeated_admission_of_a_used_id_is_refused)
{
    static const char digest_two[32] = "two\0digests";
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_store_cell later = make_cell("c-1"), changed = make_cell("c-1");
    later.created_wall_ns += US;
    changed.digest = (struct bl_text){digest_two, sizeof digest_two};
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    place_lose_answer(place, "belay.admit_cell");
    CHECK_EQUAL(bl_store_cell_admit(holding.held, &later, NULL), BL_EEXIST);
    place_lose_answer(place, "belay.admit_cell");
    CHECK_EQUAL(bl_store_cell_admit(holding.held, &changed, NULL), BL_EBUSY);
    CHECK_EQUAL(yield_cell(&holding, "c-1"), 0);
    place_lose_answer(place, "belay.admit_cell");
    CHECK_EQUAL(admit_cell(&holding, "c-1"), BL_EEXIST);
    CHECK_EQUAL(end_cell(&holding, "c-1", NULL, NULL), 0);
    CHECK_EQUAL(bury_cell(&holding, "c-1", 1, 10), 0);
    place_lose_answer(place, "belay.admit_cell");
    CHECK_EQUAL(admit_cell(&holding, "c-1"), BL_EEXIST);
    place_lose_answer(place, "belay.bury_cell");
    CHECK_EQUAL(bury_cell(&holding, "c-2", 1, 10), BL_ENOENT);
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 5);
    release(&holding);
    bl_store_close(store);
}

static int admit_briefly(void *argument)
{
    struct bl_scope shield;
    bl_shield_begin(&shield, 20 * MS);
    int code = admit_cell(argument, "c-1");
    bl_shield_end(&shield);
    return code;
}

/* The caller leaves while the answer is held back. */
PROXY_TEST(admission_without_an_answer_is_withdrawn_from_a_database)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    int result;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    pg_proxy_fault(
        place->proxy,
        &(struct pg_fault){.type = PG_HOLD_READY, .times = 1, .match = "belay.admit_cell"});
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "admit", admit_briefly, &holding, &fiber);
    CHECK_EQUAL(bl_fiber_join(fiber, &result), 0);
    CHECK_EQUAL(result, BL_ETIMEDOUT);
    bl_nursery_done(&nursery);
    pg_proxy_fault(place->proxy, NULL);
    CHECK_EQUAL(admit_cell(&holding, "c-2"), 0);
    CHECK(cells_are(&holding, "c-2? |"));
    release(&holding);
    bl_store_close(store);
}

PROXY_TEST(a_cell_that_was_terminated_names_its_receipt)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    char id[32];
    struct bl_store_cell cell = make_cell("c-1");
    cell.terminal = BL_TEXT("{\"type\":\"terminated\",\"receipt\":{\"id\":\"rcp_1\"}}");
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(bl_store_cell_end(holding.held, &cell, NULL, NULL, (struct bl_text){0}, NULL), 0);
    ask_text(place, "select receipt from cell", id, sizeof id);
    CHECK(strcmp(id, "rcp_1") == 0);
    release(&holding);
    bl_store_close(store);
}

/* ---- Late arrivals ---- */

PROXY_TEST(cell_write_that_arrives_late_changes_nothing)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    place_deliver_late(place, "belay.admit_cell");
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(bl_store_cells_forget(holding.held, NULL), 0);
    bl_sleep(PLACE_LATE_NS);
    CHECK(cells_are(&holding, "|"));
    CHECK_EQUAL(admit_cell(&holding, "c-2"), 0);
    place_deliver_late(place, "belay.forget_cells");
    CHECK_EQUAL(bl_store_cells_forget(holding.held, NULL), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-3"), 0);
    bl_sleep(PLACE_LATE_NS);
    CHECK(cells_are(&holding, "c-3? |"));
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 2);
    release(&holding);
    bl_store_close(store);
}

PROXY_TEST(begin_that_arrives_late_begins_nothing)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    place_deliver_late(place, "belay.begin_turns");
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), 0);
    CHECK_EQUAL(commit_turn(&holding, "turn_1"), 0);
    bl_sleep(PLACE_LATE_NS);
    CHECK_EQUAL(ask_integer(place, "select count(*) from session where attempt is not null"), 0);
    add_turn(&holding, "turn_2");
    release(&holding);
    bl_store_close(store);
}

/* A note is in the journal once, although the epoch differs from that of its first try. */
PROXY_TEST(note_whose_answer_is_lost_is_written_once)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (int i = 0; i < 3; i++) {
        place_lose_answer(place, "belay.note");
        CHECK_EQUAL(holding.table->note(holding.table->context,
                                        BL_TEXT("{\"type\":\"usage\",\"seq\":1}\n"), "rcp_1",
                                        BL_TEXT("{\"id\":\"rcp_1\"}"), NULL),
                    0);
    }
    CHECK_EQUAL(ask_integer(place, "select count(*) from journal"), 3);
    release(&holding);
    bl_store_close(store);
}

struct one_cell {
    struct holding *holding;
    char id[16];
    int code;
};

static int live_whole(void *argument)
{
    struct one_cell *one = argument;
    struct bl_store_cell cell = make_cell(one->id);
    struct bl_store_session *held = one->holding->held;
    cell.yielded = BL_TEXT("{}");
    cell.terminal = BL_TEXT("{}");
    one->code = bl_store_cell_admit(held, &cell, NULL);
    if (one->code == 0)
        one->code = bl_store_cell_yield(held, &cell, NULL);
    if (one->code == 0)
        one->code = bl_store_cell_end(held, &cell, NULL, NULL, (struct bl_text){0}, NULL);
    return 0;
}

enum {
    CELLS = 32
};

/* The epoch is raised under writes that are queued. */
PROXY_TEST(cells_continue_while_a_commit_is_in_doubt)
{
    struct bl_store *store = store_at(place);
    struct one_cell cells[CELLS];
    struct bl_nursery nursery;
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (unsigned round = 0; round < suite_rounds(5, 100); round++) {
        char turn_id[24];
        snprintf(turn_id, sizeof turn_id, "turn_%u", round);
        CHECK_EQUAL(begin_turn(&holding, turn_id), 0);
        place_lose_answer(place, "belay.commit_turns");
        bl_nursery_init(&nursery, bl_scope_current());
        for (unsigned i = 0; i < CELLS; i++) {
            cells[i] = (struct one_cell){.holding = &holding};
            snprintf(cells[i].id, sizeof cells[i].id, "c-%u-%u", round, i);
            bl_nursery_spawn(&nursery, NULL, "cell", live_whole, &cells[i], NULL);
        }
        CHECK_EQUAL(commit_turn(&holding, turn_id), 0);
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        for (unsigned i = 0; i < CELLS; i++)
            CHECK_EQUAL(cells[i].code, 0);
    }
    CHECK_EQUAL(ask_integer(place, "select count(*) from cell where terminal is not null"),
                CELLS * suite_rounds(5, 100));
    CHECK_EQUAL(pg_proxy_hits(place->proxy), suite_rounds(5, 100));
    release(&holding);
    bl_store_close(store);
}

/* ---- Many sessions ---- */

struct burier {
    struct bl_store *store;
    unsigned number;
    int code;
};

/* Buries one cell after another, and forgets them sometimes. */
static int bury_many(void *argument)
{
    struct burier *burier = argument;
    struct holding holding;
    char id[24];
    snprintf(id, sizeof id, "s-%u", burier->number);
    burier->code = hold(&holding, burier->store, id);
    for (unsigned i = 0; burier->code == 0 && i < suite_rounds(40, 1000); i++) {
        struct one_cell one = {.holding = &holding};
        snprintf(one.id, sizeof one.id, "c-%u", i);
        live_whole(&one);
        burier->code = one.code;
        if (burier->code == 0)
            burier->code = bury_cell(&holding, one.id, (int64_t)i * US, 10);
        if (burier->code == 0 && i % 7 == burier->number % 7)
            burier->code = bl_store_cells_forget(holding.held, NULL);
    }
    if (burier->code != 0)
        fprintf(stderr, "%s\n", holding.error.message);
    release(&holding);
    return 0;
}

PROXY_TEST(burials_of_many_sessions_keep_the_count)
{
    struct bl_store *stores[] = {store_at(place), store_at(place), store_at(place)};
    struct burier buriers[12];
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < BL_COUNT(buriers); i++) {
        buriers[i] = (struct burier){.store = stores[i % BL_COUNT(stores)], .number = i};
        bl_nursery_spawn(&nursery, NULL, "burier", bury_many, &buriers[i], NULL);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    for (unsigned i = 0; i < BL_COUNT(buriers); i++)
        CHECK_EQUAL(buriers[i].code, 0);
    /* Concurrent burials may exceed the limit for a moment. */
    CHECK(tombstones_left(place) <= 10 + (int64_t)BL_COUNT(buriers));
    CHECK_EQUAL(ask_integer(place, "select deadlocks from pg_stat_database"
                                   " where datname = current_database()"),
                0);
    for (unsigned i = 0; i < BL_COUNT(stores); i++)
        bl_store_close(stores[i]);
}

SUITE(pg_cell, cmocka_unit_test(cell_writes_whose_answer_is_lost_take_place_once),
      cmocka_unit_test(repeated_admission_of_a_used_id_is_refused),
      cmocka_unit_test(admission_without_an_answer_is_withdrawn_from_a_database),
      cmocka_unit_test(a_cell_that_was_terminated_names_its_receipt),
      cmocka_unit_test(cell_write_that_arrives_late_changes_nothing),
      cmocka_unit_test(begin_that_arrives_late_begins_nothing),
      cmocka_unit_test(note_whose_answer_is_lost_is_written_once),
      cmocka_unit_test(cells_continue_while_a_commit_is_in_doubt),
      cmocka_unit_test(burials_of_many_sessions_keep_the_count));
