/* Generations: requests, decisions and repeated answers. */
#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"

#define SLEEP  "await tools.sleep({});"
#define MINUTE 60000

/* ---- Callers that leave ---- */

static int left_and_back(struct house *house)
{
    struct asker *asker = bl_zalloc(sizeof *asker);

    CHECK_EQUAL(house_create(house, "c-1", "text('a');" SLEEP), 0);
    house_await_output(house, "c-1", 1);
    asker_observe(asker, house, "c-1", 1, MINUTE);
    bl_sleep(5 * BL_NS_PER_MS);
    CHECK(!asker_answered(asker));
    asker_stop(asker);
    CHECK_EQUAL(asker_join(asker), BL_ECANCELED);
    CHECK_EQUAL(asker->fault.code, BL_CELL_CANCELLED);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(figure_since("C14 observe after a caller left", since_ns, 50));
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    CHECK_EQUAL(house_observe(house, "c-1", 2, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK_EQUAL(house->seen.yielded.generation, 2);
    asker_done(asker);
    bl_free(asker);
    return 0;
}

static int two_callers(struct house *house)
{
    struct asker *askers = bl_zalloc(2 * sizeof *askers);

    CHECK_EQUAL(house_create(house, "c-1", "text('a');" SLEEP), 0);
    house_await_output(house, "c-1", 1);
    asker_observe(&askers[0], house, "c-1", 1, MINUTE);
    asker_observe(&askers[1], house, "c-1", 1, 100);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQUAL(asker_join(&askers[i]), 0);
        CHECK(figure_between("C15 yield time of two callers",
                             (double)(askers[i].ended_ns - askers[1].began_ns) / BL_NS_PER_MS, 100,
                             150));
        CHECK(bl_text_equal(askers[i].json, askers[0].json));
    }
    asker_done(&askers[0]);
    asker_done(&askers[1]);
    bl_free(askers);
    return 0;
}

static int many_callers(struct house *house)
{
    struct asker *askers = bl_zalloc((BL_CELL_WAITERS_MAX + 1) * sizeof *askers);

    CHECK_EQUAL(house_create(house, "c-1", SLEEP), 0);
    for (unsigned i = 0; i < BL_CELL_WAITERS_MAX; i++)
        asker_observe(&askers[i], house, "c-1", 1, MINUTE);
    bl_sleep(BL_NS_PER_MS);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_LIMIT_REACHED);
    CHECK(strcmp(house->fault.limit, "waiters") == 0);
    CHECK_EQUAL(house->fault.value, BL_CELL_WAITERS_MAX);
    asker_stop(&askers[3]);
    CHECK_EQUAL(asker_join(&askers[3]), BL_ECANCELED);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    for (unsigned i = 0; i < BL_CELL_WAITERS_MAX; i++) {
        if (i != 3 && CHECK_EQUAL(asker_join(&askers[i]), 0))
            CHECK(bl_text_equal(askers[i].json, house->seen.json));
        asker_done(&askers[i]);
    }
    bl_free(askers);
    return 0;
}

/* ---- Every item once, in order ---- */

struct reader {
    struct house *house;
    struct bl_random random;
    uint64_t generation;
    uint64_t next;           /* the next number expected */
    struct bl_buffer before; /* the earlier answer for this generation; empty: none yet */
    uint64_t lost, cut;
};

/* Reads an answer, or loses it; the repeated answer must then be the same. */
static void read_answer(struct reader *reader, struct bl_text json)
{
    struct house *house = reader->house;

    if (reader->before.size > 0)
        CHECK(bl_text_equal(bl_buffer_text(&reader->before), json));
    if (bl_random_below(&reader->random, 3) == 0) {
        bl_buffer_clear(&reader->before);
        bl_buffer_append(&reader->before, json);
        reader->lost++;
        return;
    }
    bl_buffer_clear(&reader->before);
    CHECK_EQUAL(bl_cell_observe_outcome_read(&house->arena, json, &house->seen, NULL), 0);
    const struct bl_list *items = house->seen.type == BL_CELL_OBSERVE_YIELDED
                                      ? &house->seen.yielded.items
                                      : &house->seen.terminated.items;
    BL_LIST_EACH (link, items) {
        int64_t number = -1;
        bl_text_to_int64(BL_CONTAINER(link, struct bl_cell_item, link)->text, &number);
        CHECK_EQUAL(number, reader->next);
        reader->next++;
    }
    reader->generation++;
}

static void cut_off_once(struct reader *reader)
{
    struct asker *asker = bl_zalloc(sizeof *asker);

    asker_observe(asker, reader->house, "c-1", reader->generation,
                  bl_random_below(&reader->random, 4));
    bl_sleep(bl_random_below(&reader->random, 3 * BL_NS_PER_MS));
    asker_stop(asker);
    if (asker_join(asker) == 0)
        read_answer(reader, asker->json);
    else if (CHECK_EQUAL(asker->fault.code, BL_CELL_CANCELLED))
        reader->cut++;
    asker_done(asker);
    bl_free(asker);
    house_forget(reader->house);
}

static int cut_off(struct house *house)
{
    struct reader reader = {.house = house, .generation = 1};
    unsigned long rounds = suite_rounds(60, 1000);
    uint64_t seed = 0;

    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&reader.random, seed);
    bl_buffer_init(&reader.before, SIZE_MAX);
    CHECK_EQUAL(house_create(house, "c-1",
                             "for (let i = 0;; i++) { text(i);"
                             " if (i % 7 == 0) await new Promise(r => setTimeout(r, 1)); }"),
                0);
    house_await_output(house, "c-1", 1);
    while (reader.lost + reader.cut < rounds)
        cut_off_once(&reader);
    CHECK(reader.lost > 0 && reader.cut > 0);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    if (reader.before.size > 0) { /* the last one was lost: it is still the same */
        CHECK_EQUAL(house_observe(house, "c-1", reader.generation, 0), 0);
        CHECK(bl_text_equal(house->seen.json, bl_buffer_text(&reader.before)));
    }
    while (house->seen.type != BL_CELL_OBSERVE_TERMINATED || reader.before.size > 0) {
        if (!CHECK_EQUAL(house_observe(house, "c-1", reader.generation, 0), 0))
            break;
        read_answer(&reader, house->seen.json);
    }
    CHECK(reader.next > 0);
    CHECK_EQUAL(house->host->undelivered, 0);
    bl_buffer_done(&reader.before);
    return 0;
}

/* ---- Valid generations ---- */

static bool refused_generation(struct house *house, uint64_t generation, uint64_t expected,
                               uint64_t retained)
{
    bool refused = CHECK_EQUAL(house_observe(house, "c-1", generation, 0), BL_EREFUSED);

    CHECK_EQUAL(house->fault.code, BL_CELL_WRONG_GENERATION);
    CHECK_EQUAL(house->fault.expected, expected);
    CHECK_EQUAL(house->fault.retained_count, retained == 0 ? 0 : 1);
    CHECK_EQUAL(house->fault.retained[0], retained);
    return refused;
}

static int wrong_generations(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text('a');" SLEEP), 0);
    refused_generation(house, 2, 1, 0);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house_observe(house, "c-1", 2, 0), 0);
    refused_generation(house, 1, 3, 2);
    refused_generation(house, 7, 3, 2);
    refused_generation(house, 0, 3, 2);
    CHECK_EQUAL(house_observe(house, "c-1", 2, 0), 0);
    CHECK_EQUAL(house->seen.yielded.generation, 2);
    CHECK_EQUAL(house_observe(house, "c-1", 3, 0), 0);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK_EQUAL(house->ended.terminated.generation, 4);
    CHECK_EQUAL(house_observe(house, "c-1", 9, 0), BL_EREFUSED);
    CHECK_EQUAL(house->fault.expected, 4);
    CHECK_EQUAL(house->fault.retained_count, 2);
    CHECK_EQUAL(house_observe(house, "c-1", 4, 0), 0);
    CHECK(house_same(house));
    refused_generation(house, 3, 4, 4);
    return 0;
}

static int store_fails(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text('a'); text('b');" SLEEP), 0);
    house_await_output(house, "c-1", 50);
    house_fault(house, "cell.store.write=fail@1");
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_STORE_FAILED);
    CHECK(house->fault.detail[0] != '\0');
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(strcmp(house_seen_text(house), "ab") == 0);
    CHECK_EQUAL(house_observe(house, "c-1", 2, 0), 0);
    CHECK(strcmp(house_seen_text(house), "") == 0);
    CHECK_EQUAL(house->host->undelivered, 0);
    return 0;
}

/* Output that arrives while a decision is written follows what is put back. */
static int store_fails_in_a_flood(struct house *house)
{
    char expected[16];
    const char *text = "";
    unsigned next = 0;

    CHECK_EQUAL(house_create(house, "c-1",
                             "for (let i = 0; i < 3000; i++) { text(i % 10);"
                             " if (i % 100 == 0) await new Promise(r => setTimeout(r, 0)); }"),
                0);
    for (uint64_t generation = 1;;) {
        house_fault(house, "cell.store.write=fail@1");
        int code = house_observe(house, "c-1", generation, 1);
        if (code != 0) {
            CHECK_EQUAL(house->fault.code, BL_CELL_STORE_FAILED);
            if (!CHECK_EQUAL(house_observe(house, "c-1", generation, 0), 0))
                return 0;
        }
        text = house_seen_text(house);
        for (; *text != '\0'; text++, next++) {
            snprintf(expected, sizeof expected, "%u", next % 10);
            CHECK(*text == expected[0]);
        }
        if (house->seen.type != BL_CELL_OBSERVE_YIELDED)
            break;
        generation++;
    }
    CHECK_EQUAL(next, 3000);
    CHECK_EQUAL(house->host->undelivered, 0);
    return 0;
}

static int read_again(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text('a'); throw new TypeError('no');"), 0);
    house_await_end(house, "c-1");
    CHECK_EQUAL(house_observe(house, "c-1", 1, MINUTE), 0);
    CHECK_EQUAL(house->seen.completed.generation, 1);
    struct bl_text first = house->seen.json;
    struct bl_arena arena = house->arena; /* owns the first answer */
    bl_arena_init(&house->arena);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK_EQUAL(house_observe(house, "c-1", 1 + i % 2, i), 0);
        CHECK(bl_text_equal(house->seen.json, first));
        house_forget(house);
    }
    bl_arena_done(&arena);
    return 0;
}

/* ---- Decisions ---- */

static void yields_a_then_b(struct house *house, const char *id, uint64_t delay_ms, bool ended)
{
    CHECK_EQUAL(house_create(house, id, "text('a'); yield_control(); text('b');"), 0);
    if (ended)
        house_await_end(house, id);
    bl_sleep(delay_ms * BL_NS_PER_MS);
    CHECK_EQUAL(house_observe(house, id, 1, MINUTE), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    CHECK(!house->seen.yielded.stalled);
    struct bl_text first = house->seen.json;
    CHECK_EQUAL(house_observe(house, id, 1, MINUTE), 0);
    CHECK(bl_text_equal(first, house->seen.json));
    CHECK_EQUAL(house_observe(house, id, 2, MINUTE), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    CHECK(strcmp(house_seen_text(house), "b") == 0);
    CHECK_EQUAL(house->seen.completed.generation, 2);
}

static int first_yield(struct house *house)
{
    yields_a_then_b(house, "c-1", 0, false);
    yields_a_then_b(house, "c-2", 5, false);
    yields_a_then_b(house, "c-3", suite_rounds(0, 500), true);
    CHECK_EQUAL(house_create(house, "c-4", "text('a'); yield_control(); text('b');" SLEEP), 0);
    while (house->calls_begun == 0)
        bl_sleep(BL_NS_PER_MS);
    CHECK_EQUAL(house_terminate(house, "c-4", "t-1"), 0);
    CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED);
    CHECK_EQUAL(house->ended.terminated.generation, 2);
    CHECK(strcmp(house_ended_text(house), "b") == 0);
    CHECK_EQUAL(house_observe(house, "c-4", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    CHECK_EQUAL(house_observe(house, "c-4", 2, 0), 0);
    CHECK(house_same(house));
    CHECK_EQUAL(house->host->undelivered, 0);
    return 0;
}

static bool is_completing(void *argument)
{
    struct house *house = argument;
    return cell_find(house->session, "c-1")->state == CELL_COMPLETING;
}

/* A generation decided by the end is reported once the end is in the store. */
static int first_yield_at_the_end(struct house *house)
{
    CHECK_EQUAL(
        house_create(house, "c-1", "text('a'); yield_control(); text('b'); await tools.gate({});"),
        0);
    while (house->calls_begun == 0)
        bl_sleep(BL_NS_PER_MS);
    house_fault(house, "cell.store.write=delay:60");
    bl_semaphore_give(&house->gate);
    CHECK(house_until(is_completing, house));
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(cell_has_ended(cell_find(house->session, "c-1")));
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    CHECK_EQUAL(house_observe(house, "c-1", 2, 0), 0);
    CHECK(strcmp(house_seen_text(house), "b") == 0);
    house_fault(house, "");
    return 0;
}

static int unseen_yields(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1",
                             "text('first'); yield_control(); await tools.gate({});"
                             "for (let i = 0; i < 100; i++) { text('x'); yield_control(); }" SLEEP),
                0);
    CHECK_EQUAL(house_observe(house, "c-1", 1, MINUTE), 0);
    CHECK(strcmp(house_seen_text(house), "first") == 0);
    bl_semaphore_give(&house->gate);
    while (house->calls_begun < 2)
        bl_sleep(BL_NS_PER_MS);
    CHECK_EQUAL(house_observe(house, "c-1", 2, 50), 0);
    CHECK_EQUAL(strlen(house_seen_text(house)), 100);
    return 0;
}

/* A yield answers a waiting caller long before its yield time. */
static int waited_yield(struct house *house)
{
    struct asker *asker = bl_zalloc(sizeof *asker);

    CHECK_EQUAL(house_create(house, "c-1",
                             "text(1); await tools.gate({}); text(2); yield_control();"
                             "await tools.gate({}); text(3);"),
                0);
    asker_observe(asker, house, "c-1", 1, MINUTE);
    house_await_output(house, "c-1", 1);
    CHECK(!asker_answered(asker));
    bl_semaphore_give(&house->gate);
    CHECK_EQUAL(asker_join(asker), 0);
    CHECK_EQUAL(house_observe(house, "c-1", 1, MINUTE), 0);
    CHECK(strcmp(house_seen_text(house), "12") == 0);
    bl_semaphore_give(&house->gate);
    CHECK_EQUAL(house_observe(house, "c-1", 2, MINUTE), 0);
    CHECK(strcmp(house_seen_text(house), "3") == 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    asker_done(asker);
    bl_free(asker);
    return 0;
}

static int stalls(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text('a'); await new Promise(() => {});"), 0);
    house_await_output(house, "c-1", 1);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_observe(house, "c-1", 1, MINUTE), 0);
    CHECK(figure_since("C34 observe of a stalled cell", since_ns, 50));
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(house->seen.yielded.stalled);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    since_ns = bl_now_ns();
    CHECK_EQUAL(house_observe(house, "c-1", 2, 100), 0);
    CHECK(bl_now_ns() - since_ns >= 100 * BL_NS_PER_MS);
    CHECK(!house->seen.yielded.stalled);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED);
    return 0;
}

/* A call or a timer can still wake the cell. */
static int does_not_stall(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", SLEEP), 0);
    CHECK_EQUAL(house_create(house, "c-2", "await new Promise(r => setTimeout(r, 60000));"), 0);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 50), 0);
    CHECK(!house->seen.yielded.stalled);
    CHECK_EQUAL(house_observe(house, "c-2", 1, 50), 0);
    CHECK(!house->seen.yielded.stalled);
    return 0;
}

HOUSE_TEST(C14_a_caller_that_left_consumes_nothing, left_and_back)
HOUSE_TEST(C15_callers_of_one_generation_share_the_earliest_yield_time, two_callers)
HOUSE_TEST(a_ninth_caller_of_a_generation_is_refused, many_callers)
HOUSE_TEST(C16_callers_cut_off_at_any_moment_get_every_item_once_in_order, cut_off)
HOUSE_TEST(C17_a_wrong_generation_is_refused_with_the_expected_one, wrong_generations)
HOUSE_TEST(C18_items_of_an_unstored_outcome_are_in_the_next_one, store_fails)
HOUSE_TEST(C18_they_stay_in_order_in_a_flood, store_fails_in_a_flood)
HOUSE_TEST(C19_the_end_reads_the_same_a_thousand_times, read_again)
HOUSE_TEST(C32_the_first_yield_is_remembered, first_yield)
HOUSE_TEST(C32_a_yield_decided_at_the_end_is_stored_before_it_is_reported, first_yield_at_the_end)
HOUSE_TEST(C33_yields_without_a_waiting_caller_do_nothing, unseen_yields)
HOUSE_TEST(a_yield_answers_waiting_callers, waited_yield)
HOUSE_TEST(C34_a_promise_that_never_settles_stalls_once, stalls)
HOUSE_TEST(a_cell_that_can_be_woken_has_not_stalled, does_not_stall)

SUITE(observe, cmocka_unit_test(C14_a_caller_that_left_consumes_nothing),
      cmocka_unit_test(C15_callers_of_one_generation_share_the_earliest_yield_time),
      cmocka_unit_test(a_ninth_caller_of_a_generation_is_refused),
      cmocka_unit_test(C16_callers_cut_off_at_any_moment_get_every_item_once_in_order),
      cmocka_unit_test(C17_a_wrong_generation_is_refused_with_the_expected_one),
      cmocka_unit_test(C18_items_of_an_unstored_outcome_are_in_the_next_one),
      cmocka_unit_test(C18_they_stay_in_order_in_a_flood),
      cmocka_unit_test(C19_the_end_reads_the_same_a_thousand_times),
      cmocka_unit_test(C32_the_first_yield_is_remembered),
      cmocka_unit_test(C32_a_yield_decided_at_the_end_is_stored_before_it_is_reported),
      cmocka_unit_test(C33_yields_without_a_waiting_caller_do_nothing),
      cmocka_unit_test(a_yield_answers_waiting_callers),
      cmocka_unit_test(C34_a_promise_that_never_settles_stalls_once),
      cmocka_unit_test(a_cell_that_can_be_woken_has_not_stalled));
