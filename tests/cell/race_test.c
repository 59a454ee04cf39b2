/* Terminate against completion: one of them wins, and all answers agree. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "helpers.h"

struct race {
    struct house *house;
    struct bl_random random;
    uint64_t span_ns; /* terminate is sent within this time */
    unsigned long completed, terminated;
};

/* When terminate is sent. */
enum moment {
    AT_RANDOM,
    AT_ONCE,       /* before the worker has started */
    UNREAD,        /* the worker has settled, and its frame is still in the socket */
    COMPLETING,    /* the end is claimed, the record not written */
    AFTER_THE_END, /* the record is written */
    MOMENT_COUNT,
};

static bool is_completing(void *argument)
{
    const struct cell *cell = argument;
    return cell->state == CELL_COMPLETING || cell_has_ended(cell);
}

/* Blocks this thread, and so the cell, until its worker has sent everything. */
static void await_unread(const struct cell *cell)
{
    int waiting = 0, before = -1;

    while (cell->worker == NULL)
        bl_yield();
    bl_yield(); /* the start frame is sent */
    for (unsigned i = 0; i < 1000 && (waiting == 0 || waiting != before); i++) {
        before = waiting;
        usleep(50000);
        CHECK_EQUAL(ioctl(cell->worker->fd, FIONREAD, &waiting), 0);
    }
}

static void await_moment(struct race *race, const char *id, enum moment moment)
{
    struct cell *cell = cell_find(race->house->session, id);

    switch (moment) {
    case AT_RANDOM: bl_sleep(bl_random_below(&race->random, race->span_ns)); break;
    case UNREAD: await_unread(cell); break;
    case COMPLETING: CHECK(house_until(is_completing, cell)); break;
    case AFTER_THE_END: house_await_end(race->house, id); break;
    case AT_ONCE:
    case MOMENT_COUNT: break;
    }
}

/* Runs one cell; all requests for its end must agree. */
static bool run_one(struct race *race, unsigned long number, enum moment moment)
{
    struct house *house = race->house;
    char id[32], key[32], source[96];

    snprintf(id, sizeof id, "c-%lu", number);
    snprintf(key, sizeof key, "k%lu", number % 64);
    snprintf(source, sizeof source, "store('%s', %lu); text('x');", key, number);
    house_warm(house, 1);
    if (moment == COMPLETING)
        house_fault(house, "cell.complete.claimed=delay:50");
    CHECK_EQUAL(house_create(house, id, source), 0);
    await_moment(race, id, moment);
    if (!CHECK_EQUAL(house_terminate(house, id, "t-1"), 0))
        return false;
    house_fault(house, "");
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
    return completed;
}

/* Both sides of the deciding point, without chance. */
static int decided_before_and_after(struct house *house)
{
    static const bool completes[MOMENT_COUNT] = {[COMPLETING] = true, [AFTER_THE_END] = true};
    struct race race = {.house = house};

    CHECK_EQUAL(house_create(house, "c-0", "text(0);"), 0); /* spares are kept from now on */
    CHECK(house_finish(house, "c-0") != NULL);
    for (unsigned moment = AT_ONCE; moment < MOMENT_COUNT; moment++)
        if (!CHECK_EQUAL(run_one(&race, moment, (enum moment)moment), completes[moment]))
            fprintf(stderr, "at moment %u\n", moment);
    return 0;
}

/* Measures how long completion takes here, so that both outcomes occur. */
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
        run_one(&race, i + 1, AT_RANDOM);
    CHECK(race.completed >= least);
    CHECK(race.terminated >= least);
    CHECK_EQUAL(house->host->undelivered, 0);
    /* The store and the memory agree. */
    struct bl_text before = bl_arena_text(&house->arena, house->session->values->json);
    uint32_t keys = (uint32_t)house->session->by_key.count;
    house_close(house);
    house_open(house);
    CHECK_EQUAL(house->session->by_key.count, keys);
    CHECK_EQUAL(house->session->values->json.size, before.size);
    return 0;
}

HOUSE_TEST(C23_terminate_against_completion_has_one_outcome, race_for_the_end)
HOUSE_TEST(C23_terminate_wins_until_the_claim_and_never_after_it, decided_before_and_after)

SUITE(race, cmocka_unit_test(C23_terminate_against_completion_has_one_outcome),
      cmocka_unit_test(C23_terminate_wins_until_the_claim_and_never_after_it));
