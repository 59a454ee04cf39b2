/* How fast cells start, and how many there can be. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

#define MINUTE 60000
#define MIB    ((uint64_t)1024 * 1024)

static int by_size(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

/* Kills the current spares: the next cell must start nevertheless. */
static void kill_spares(struct house *house)
{
    BL_LIST_EACH (link, &house->host->pool.spares)
        kill((pid_t)BL_CONTAINER(link, struct cell_worker, link)->pid, SIGKILL);
}

/* Cells one after the other: measures create and first output. */
static int one_by_one(struct house *house)
{
    unsigned long rounds = suite_rounds(figure_taking() ? 200 : 100, 1000);
    unsigned long kills = suite_rounds(25, 100); /* one kill after this many cells */
    uint64_t *replies = bl_alloc(rounds * sizeof *replies),
             *outputs = bl_alloc(rounds * sizeof *outputs);
    char id[32];

    house->options.spares = 0;
    house->options.eager = true;
    house_open(house);
    house_warm(house, 4);
    CHECK_EQUAL(house_create(house, "c-running", "text(1); await tools.gate({}); text(2);"), 0);
    for (unsigned long i = 0; i < rounds; i++) {
        snprintf(id, sizeof id, "c-%lu", i);
        if (i % kills == kills - 1)
            kill_spares(house);
        uint64_t since_ns = bl_now_ns();
        CHECK_EQUAL(house_create(house, id, "text('x'); yield_control();"), 0);
        replies[i] = bl_now_ns() - since_ns;
        CHECK_EQUAL(house_observe(house, id, 1, MINUTE), 0);
        outputs[i] = bl_now_ns() - since_ns;
        if (i % kills == kills - 1)
            CHECK(figure_since("C1 first output with no worker ready", since_ns, 50));
        CHECK(strcmp(house_seen_text(house), "x") == 0);
        CHECK_EQUAL(house_observe(house, id, 2, MINUTE), 0);
        if (CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED))
            CHECK(house->seen.completed.error == NULL);
        CHECK_EQUAL(house_release(house, id, 2), 0);
        house_forget(house);
    }
    qsort(replies, rounds, sizeof *replies, by_size);
    qsort(outputs, rounds, sizeof *outputs, by_size);
    CHECK(
        figure_at_most("C1 reply of create (p50)", (double)replies[rounds / 2] / BL_NS_PER_MS, 1));
    CHECK(figure_at_most("C1 reply of create (p99)",
                         (double)replies[rounds * 99 / 100] / BL_NS_PER_MS, 5));
    CHECK(figure_at_most("C1 first output (p99)", (double)outputs[rounds * 99 / 100] / BL_NS_PER_MS,
                         50));
    bl_semaphore_give(&house->gate);
    CHECK(strcmp(house_finish(house, "c-running"), "12") == 0);
    house_close(house);
    bl_free(replies);
    bl_free(outputs);
    return 0;
}

static int prints_and_sleeps(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-0", "text('warm')"), 0);
    CHECK(house_finish(house, "c-0") != NULL);
    house_warm(house, 1);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(
        house_create(house, "c-1", "text('a'); await new Promise(r => setTimeout(r, 60000));"), 0);
    CHECK(figure_since("C2 reply of create", since_ns, 5));
    house_await_output(house, "c-1", 1);
    CHECK(figure_since("C2 output of a cell that sleeps", since_ns, 1000));
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    return 0;
}

/* Creates as many cells as possible, with the same source. `idle`: they leave the processors to
 * each other. */
static unsigned fill(struct house *house, const char *source, bool idle)
{
    unsigned cells =
        figure_taking() ? BL_CELL_LIVE_MAX : (unsigned)suite_rounds(10, BL_CELL_LIVE_MAX);
    uint64_t since_ns;
    char id[16];

    house->options.live_max = cells;
    house->options.spares = 0;
    house->options.eager = true;
    house->options.memory_max = 16 * 1024 * MIB;
    house_open(house);
    house_warm(house, 4);
    since_ns = bl_now_ns();
    for (unsigned i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        CHECK_EQUAL(house_create_limited(house, id, source, 0, 16 * MIB, 0), 0);
    }
    if (idle)
        CHECK(figure_since("C3 admission of 128 cells", since_ns, 500));
    for (unsigned i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        house_await_output(house, id, 1);
    }
    if (idle)
        CHECK(figure_since("C3 first output of 128 cells", since_ns, 3000));
    return cells;
}

static int all_there(struct house *house)
{
    struct bl_buffer receipt;
    const struct bl_json *value;
    unsigned units = 0;
    unsigned cells = fill(house, "text('a'); await new Promise(r => setTimeout(r, 60000));", true);

    CHECK_EQUAL(house_create(house, "c-more", "text('a')"), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_LIMIT_REACHED);
    CHECK(strcmp(house->fault.limit, "live_cells") == 0);
    CHECK_EQUAL(house->fault.value, cells);
    CHECK_EQUAL(house_observe(house, "c-3", 1, 0), 0);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    bl_buffer_init(&receipt, SIZE_MAX);
    uint64_t since_ns = bl_now_ns();
    bl_cell_session_close(house->session, false, BL_STOP_USER, "close", &receipt);
    CHECK(figure_since("C3 close of a session with 128 cells", since_ns, 1000));
    CHECK_EQUAL(bl_json_read(&house->arena, bl_buffer_text(&receipt), NULL, &value, NULL), 0);
    CHECK_EQUAL(house_receipt_number(value, "survivors"), 0);
    CHECK(house_receipt_says(value, "scope", "s-1"));
    BL_JSON_EACH (unit, bl_json_get(value, BL_TEXT("units"))) {
        CHECK(house_receipt_says(unit, "kind", "cell"));
        units++;
    }
    CHECK_EQUAL(units, cells);
    bl_buffer_done(&receipt);
    house->session = house_session(house, "s-1");
    for (unsigned i = 0; i < cells; i++) {
        char id[16];
        snprintf(id, sizeof id, "c-%u", i);
        CHECK(strcmp(house_state(house, id), "terminated") == 0);
    }
    house_close(house);
    return 0;
}

static int all_busy(struct house *house)
{
    unsigned cells = fill(house, "text('a'); for (;;);", false);
    /* The workers are busy, and so are the processors: with two of them the median was between 104
     * and 137 ms, mostly by chance. */
    double bound_ms = sysconf(_SC_NPROCESSORS_ONLN) >= 4 ? 100 : 400;
    unsigned ended =
        figure_taking() ? 7 : 1; /* each of them a figure: many busy cells take long to start */
    struct bl_buffer ok;
    char id[16];

    for (unsigned i = 0; i < ended; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        uint64_t from_ns = bl_now_ns();
        CHECK_EQUAL(house_terminate(house, id, "t-1"), 0);
        CHECK(figure_since("C4 terminate of one of 128 busy cells", from_ns, bound_ms));
        CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED);
    }
    bl_buffer_init(&ok, SIZE_MAX);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(bl_cell_list(house->session, NULL, 1000, &ok, &house->fault), 0);
    CHECK(figure_since("C4 list of 128 busy cells", since_ns, 50));
    bl_buffer_done(&ok);
    for (unsigned i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        CHECK(strcmp(house_state(house, id), i < ended ? "terminated" : "running") == 0);
        if (i >= ended)
            CHECK(house_process_lives(house_worker_pid(house, id)));
    }
    house_close(house);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return first < second ? -1 : first > second;
}

static int no_two_alike(struct house *house)
{
    unsigned long cells = suite_rounds(20, 1000);
    double *numbers = bl_alloc(cells * sizeof *numbers);
    char id[32];

    house->options.spares = 0;
    house_open(house);
    for (unsigned long i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%lu", i);
        CHECK_EQUAL(house_create(house, id, "text(Math.random())"), 0);
        const char *text = house_finish(house, id);
        numbers[i] = text != NULL ? strtod(text, NULL) : 0;
        CHECK(numbers[i] > 0 && numbers[i] < 1);
        house_forget(house);
    }
    qsort(numbers, cells, sizeof *numbers, by_value);
    for (unsigned long i = 1; i < cells; i++)
        CHECK(numbers[i] > numbers[i - 1]);
    house_close(house);
    bl_free(numbers);
    return 0;
}

EMPTY_HOUSE_TEST(C1_cells_start_one_after_another_while_spares_are_killed, one_by_one)
HOUSE_TEST(C2_a_cell_that_sleeps_is_created_at_once, prints_and_sleeps)
EMPTY_HOUSE_TEST(C3_the_largest_number_of_cells_start_and_end_together, all_there)
EMPTY_HOUSE_TEST(C4_one_of_many_busy_cells_is_terminated_and_the_others_continue, all_busy)
EMPTY_HOUSE_TEST(C11_no_two_cells_share_random_numbers, no_two_alike)

SUITE(speed, cmocka_unit_test(C1_cells_start_one_after_another_while_spares_are_killed),
      cmocka_unit_test(C2_a_cell_that_sleeps_is_created_at_once),
      cmocka_unit_test(C3_the_largest_number_of_cells_start_and_end_together),
      cmocka_unit_test(C4_one_of_many_busy_cells_is_terminated_and_the_others_continue),
      cmocka_unit_test(C11_no_two_cells_share_random_numbers));
