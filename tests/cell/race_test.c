/* Terminate against completion: one of them wins, and everybody says which. */
#include <stdio.h>

#include "helpers.h"

struct race {
    struct house *house;
    struct bl_random random;
    uint64_t span_ns; /* terminate comes within that */
    unsigned long completed, terminated;
};

/* One cell; the ways to ask for its end agree. */
static void run_one(struct race *race, unsigned long number)
{
    struct house *house = race->house;
    char id[32], key[32], source[96];

    snprintf(id, sizeof id, "c-%lu", number);
    snprintf(key, sizeof key, "k%lu", number % 64);
    snprintf(source, sizeof source, "store('%s', %lu); text('x');", key, number);
    house_warm(house, 1);
    CHECK_EQUAL(house_create(house, id, source), 0);
    bl_sleep(bl_random_below(&race->random, race->span_ns));
    if (!CHECK_EQUAL(house_terminate(house, id, "t-1"), 0))
        return;
    bool completed = house->ended.type == BL_CELL_TERMINATE_COMPLETED;
    CHECK(completed || house->ended.type == BL_CELL_TERMINATE_TERMINATED);
    CHECK_EQUAL(house_observe(house, id, 1, 0), 0);
    CHECK(house_same(house));
    CHECK(strcmp(house_state(house, id), completed ? "completed" : "terminated") == 0);
    const struct bl_buffer *value = bl_map_get(&house->session->by_key, bl_text_from(key));
    char text[32] = "";
    if (value != NULL)
        bl_text_into(text, sizeof text, bl_arena_text(&house->arena, bl_buffer_text(value)).data);
    snprintf(source, sizeof source, "%lu", number);
    CHECK_EQUAL(strcmp(text, source) == 0, completed);
    if (completed) {
        CHECK(house->ended.completed.error == NULL);
        CHECK(strcmp(house_ended_text(house), "x") == 0);
        race->completed++;
    } else {
        CHECK_EQUAL(house_receipt_number(house->ended.terminated.receipt, "survivors"), 0);
        race->terminated++;
    }
    CHECK_EQUAL(house_release(house, id, 1), 0);
    house_forget(house);
}

/* How long it takes to complete here, so that both outcomes are met. */
static uint64_t measure(struct house *house)
{
    uint64_t least_ns = UINT64_MAX;
    char id[32];

    for (unsigned i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "c-m%u", i);
        if (i > 0)
            house_warm(house, 1);
        uint64_t since_ns = bl_now_ns();
        CHECK_EQUAL(house_create(house, id, "store('m', 1); text('x');"), 0);
        CHECK_EQUAL(house_observe(house, id, 1, 60000), 0);
        uint64_t took_ns = bl_now_ns() - since_ns;
        if (i > 0 && took_ns < least_ns)
            least_ns = took_ns;
    }
    return least_ns;
}

static int race_for_the_end(struct house *house)
{
    struct race race = {.house = house};
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 20 : 40, 10000);
    unsigned long least = suite_rounds(1, 100);
    uint64_t seed = 0;

    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&race.random, seed);
    race.span_ns = 2 * measure(house);
    if (race.span_ns < 2 * BL_NS_PER_MS)
        race.span_ns = 2 * BL_NS_PER_MS;
    for (unsigned long i = 0;
         i < rounds || (i < 4 * rounds && (race.completed < least || race.terminated < least)); i++)
        run_one(&race, i + 1);
    CHECK(race.completed >= least);
    CHECK(race.terminated >= least);
    CHECK_EQUAL(house->host->undelivered, 0);
    /* What is in the store is what is in memory. */
    struct bl_text before = bl_arena_text(&house->arena, house->session->values->json);
    uint32_t keys = (uint32_t)house->session->by_key.count;
    house_close(house);
    house_open(house);
    CHECK_EQUAL(house->session->by_key.count, keys);
    CHECK_EQUAL(house->session->values->json.size, before.size);
    return 0;
}

HOUSE_TEST(C23_terminate_against_completion_has_one_outcome, race_for_the_end)

SUITE(race, cmocka_unit_test(C23_terminate_against_completion_has_one_outcome));
