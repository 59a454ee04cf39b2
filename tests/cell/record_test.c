/* Records: how long they are kept, and what is left afterwards. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

#define MINUTE 60000

static bool is_gone(struct house *house, const char *id, const char *source)
{
    return CHECK_EQUAL(house_create(house, id, source), BL_EREFUSED) &&
           CHECK_EQUAL(house->fault.code, BL_CELL_GONE) && CHECK(strcmp(house->fault.id, id) == 0);
}

static bool is_missing(struct house *house, const char *id)
{
    CHECK_EQUAL(house_observe(house, id, 1, 0), 0);
    CHECK_EQUAL(house_terminate(house, id, "t-1"), 0);
    return CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_MISSING) &&
           CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_MISSING);
}

static void run_marked(struct house *house, const char *id)
{
    CHECK_EQUAL(house_create(house, id, "await tools.mark({}); text('a');"), 0);
    CHECK(strcmp(house_finish(house, id), "a") == 0);
}

static int released(struct house *house)
{
    enum bl_cell_release_outcome outcome;

    house->options.records_max = 2;
    house_open(house);
    run_marked(house, "c-1");
    CHECK_EQUAL(house_release(house, "c-1", 2), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_WRONG_GENERATION);
    CHECK_EQUAL(house->fault.expected, 1);
    CHECK_EQUAL(house_release(house, "c-1", 1), 0);
    is_missing(house, "c-1");
    is_gone(house, "c-1", "await tools.mark({}); text('a');");
    CHECK_EQUAL(house_release(house, "c-1", 1), 0); /* repeated */
    CHECK_EQUAL(bl_cell_release(house->session, "c-9", 1, &outcome, &house->fault), 0);
    CHECK_EQUAL(outcome, BL_CELL_RELEASE_MISSING);
    CHECK_EQUAL(house_create(house, "c-1", "text('other')"), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_CONFLICT);
    /* The oldest record is dropped when there are too many. */
    run_marked(house, "c-2");
    run_marked(house, "c-3");
    run_marked(house, "c-4");
    for (unsigned i = 0; i < 10000 && cell_find(house->session, "c-2") != NULL; i++)
        bl_sleep(BL_NS_PER_MS);
    is_missing(house, "c-2");
    is_gone(house, "c-2", "await tools.mark({}); text('a');");
    CHECK_EQUAL(house_observe(house, "c-3", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    CHECK_EQUAL(house_marks(house), 4);
    house_close(house);
    house_open(house);
    is_gone(house, "c-1", "await tools.mark({}); text('a');");
    is_gone(house, "c-2", "await tools.mark({}); text('a');");
    CHECK_EQUAL(house_marks(house), 4);
    house_close(house);
    return 0;
}

static int created_twice(struct house *house)
{
    house_fault(house, "cell.store.write=fail@1");
    CHECK_EQUAL(house_create(house, "c-1", "await tools.mark({})"), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_STORE_FAILED);
    is_missing(house, "c-1");
    CHECK_EQUAL(house_create(house, "c-1", "await tools.mark({})"), 0);
    CHECK_EQUAL(house_create(house, "c-1", "await tools.mark({})"), 0);
    /* The deadline does not count: a retry has less time left. */
    CHECK_EQUAL(house_create_limited(house, "c-1", "await tools.mark({})", 1000, 0, 0), 0);
    CHECK_EQUAL(house_create_limited(house, "c-1", "await tools.mark({})", 0, 1 << 20, 0),
                BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_CONFLICT);
    CHECK(strcmp(house->fault.id, "c-1") == 0);
    CHECK(house_finish(house, "c-1") != NULL);
    CHECK_EQUAL(house_create(house, "c-1", "await tools.mark({})"), 0);
    CHECK_EQUAL(house_marks(house), 1);
    CHECK_EQUAL(house->events[BL_CELL_EVENT_CREATED], 1);
    return 0;
}

static int not_ended(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "await tools.sleep({})"), 0);
    CHECK_EQUAL(house_release(house, "c-1", 1), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_NOT_TERMINAL);
    CHECK(strcmp(house->fault.id, "c-1") == 0);
    return 0;
}

/* ---- Limits ---- */

static uint64_t memory_now(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (CHECK(file != NULL)) {
        CHECK_EQUAL(fscanf(file, "%*d %ld", &pages), 1);
        fclose(file);
    }
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t size_of_store(const struct house *house)
{
    static const char *const ends[] = {"", "-wal"};
    struct stat status;
    uint64_t size = 0;
    char path[128];

    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        snprintf(path, sizeof path, "%s%s", house->path, ends[i]);
        if (stat(path, &status) == 0)
            size += (uint64_t)status.st_size;
    }
    return size;
}

/* Sanitizers keep freed memory. */
static void check_memory(uint64_t before, uint64_t most)
{
    uint64_t now = memory_now();

    if (SUITE_SANITIZED)
        return;
    if (!CHECK(now <= before + most))
        fprintf(stderr, "%llu bytes more\n", (unsigned long long)(now - before));
}

static void ask_unknown(struct house *house, unsigned long from, unsigned long to)
{
    char id[40];

    for (unsigned long i = from; i < to; i++) {
        snprintf(id, sizeof id, "c-%lx-%lu", i * 2654435761u, i);
        if (i % 2 == 0) {
            CHECK_EQUAL(house_observe(house, id, 1 + i % 5, MINUTE), 0);
            CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_MISSING);
        } else {
            CHECK_EQUAL(house_terminate(house, id, "t-1"), 0);
            CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_MISSING);
        }
        if (i % 64 == 0)
            house_forget(house);
    }
}

static int unknown_ids(struct house *house)
{
    unsigned long rounds = suite_rounds(20000, 1000000);

    ask_unknown(house, 0, 1000);
    uint64_t memory = memory_now(), stored = size_of_store(house);
    ask_unknown(house, 1000, rounds);
    check_memory(memory, 1024 * 1024);
    CHECK_EQUAL(size_of_store(house), stored);
    CHECK_EQUAL(house->session->cells.count, 0);
    return 0;
}

static void pass_through(struct house *house, unsigned long from, unsigned long to)
{
    char id[32];

    for (unsigned long i = from; i < to; i++) {
        snprintf(id, sizeof id, "c-%lu", i);
        CHECK_EQUAL(house_create(house, id, "text('x'.repeat(100))"), 0);
        CHECK_EQUAL(house_observe(house, id, 1, MINUTE), 0);
        CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
        CHECK_EQUAL(house_release(house, id, 1), 0);
        house_forget(house);
    }
}

static int released_each(struct house *house)
{
    unsigned long rounds = suite_rounds(24, 10000);

    pass_through(house, 0, rounds / 4);
    uint64_t memory = memory_now();
    pass_through(house, rounds / 4, rounds);
    check_memory(memory, 2 * 1024 * 1024);
    CHECK_EQUAL(house->session->cells.count, 0);
    CHECK_EQUAL(house->host->ended_count, 0);
    CHECK_EQUAL(house->host->ended_bytes, 0);
    CHECK_EQUAL(house->host->undelivered, 0);
    return 0;
}

static bool all_left(void *argument)
{
    const struct house *house = argument;
    return house->host->live == 0 && house->host->ended_count <= house->host->records_max &&
           house->host->ended_bytes <= house->host->records_bytes_max && house->session->users == 0;
}

static void keep_all(struct house *house, unsigned long cells, const char *source)
{
    char id[32];

    for (unsigned long i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%05lu", i);
        CHECK_EQUAL(house_create(house, id, source), 0);
        house_await_end(house, id);
        house_forget(house);
    }
    CHECK(house_until(all_left, house));
}

static int released_never(struct house *house)
{
    unsigned long cells = suite_rounds(20, 2000);
    char id[32];

    house->options.records_max = (uint32_t)suite_rounds(8, 0);
    house_open(house);
    keep_all(house, cells, "text('a')");
    uint32_t most = house->host->records_max;
    CHECK_EQUAL(house->host->ended_count, most);
    CHECK_EQUAL(house->session->cells.count, most);
    for (unsigned long i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%05lu", i);
        CHECK_EQUAL(house_observe(house, id, 1, 0), 0);
        CHECK_EQUAL(house->seen.type,
                    i < cells - most ? BL_CELL_OBSERVE_MISSING : BL_CELL_OBSERVE_COMPLETED);
        house_forget(house);
    }
    house_close(house);
    return 0;
}

/* Also by bytes: 64 MiB, or a limit for three records here. */
static int released_never_large(struct house *house)
{
    house->options.records_bytes_max = 350000;
    house_open(house);
    keep_all(house, 6, "text('x'.repeat(100000))");
    CHECK_EQUAL(house->host->ended_count, 3);
    is_missing(house, "c-00002");
    CHECK_EQUAL(house_observe(house, "c-00003", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    house_close(house);
    return 0;
}

/* The session with the most records loses one first. */
static int fair(struct house *house)
{
    struct bl_cell_session *other;

    house->options.records_max = 4;
    house_open(house);
    other = house_session(house, "s-2");
    struct bl_cell_session *first = house->session;
    CHECK_EQUAL(house_create(house, "c-a", "text('a')"), 0);
    house_await_end(house, "c-a");
    house->session = other;
    keep_all(house, 6, "text('b')");
    house->session = first;
    CHECK_EQUAL(house_observe(house, "c-a", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    CHECK_EQUAL(other->cells.count, 3);
    house_close(house);
    return 0;
}

/* The cells of a session, page by page, by id. */
static int listed(struct house *house)
{
    const struct bl_json *value;
    struct bl_buffer ok;

    run_marked(house, "c-2");
    run_marked(house, "c-1");
    CHECK_EQUAL(house_create(house, "c-3",
                             "setTimeout(() => {}, 60000); text('a'); await tools.sleep({});"),
                0);
    house_await_output(house, "c-3", 1);
    while (cell_find(house->session, "c-3")->timers == 0)
        bl_sleep(BL_NS_PER_MS);
    bl_buffer_init(&ok, SIZE_MAX);
    CHECK_EQUAL(bl_cell_list(house->session, NULL, 2, &ok, &house->fault), 0);
    const char *page = bl_arena_text(&house->arena, bl_buffer_text(&ok)).data;
    CHECK(strstr(page, "\"c-1\"") < strstr(page, "\"c-2\""));
    CHECK(strstr(page, "\"c-3\"") == NULL && strstr(page, "\"more\":true") != NULL);
    bl_buffer_clear(&ok);
    CHECK_EQUAL(bl_cell_list(house->session, "c-2", 2, &ok, &house->fault), 0);
    CHECK_EQUAL(bl_json_read(&house->arena, bl_buffer_text(&ok), NULL, &value, NULL), 0);
    BL_JSON_EACH (cell, bl_json_get(value, BL_TEXT("cells"))) {
        CHECK(house_receipt_says(cell, "cell_id", "c-3"));
        CHECK(house_receipt_says(cell, "state", "running"));
        CHECK_EQUAL(house_receipt_number(cell, "generation"), 0);
        CHECK_EQUAL(house_receipt_number(cell, "calls"), 1);
        CHECK_EQUAL(house_receipt_number(cell, "timers"), 1);
        CHECK_EQUAL(house_receipt_number(cell, "undelivered_bytes"),
                    strlen("{\"type\":\"text\",\"text\":\"a\"}"));
        CHECK(house_receipt_number(cell, "deadline_left_ms") > 29 * MINUTE);
    }
    bl_buffer_done(&ok);
    return 0;
}

EMPTY_HOUSE_TEST(C13_a_released_or_evicted_cell_does_not_run_again, released)
HOUSE_TEST(C13_a_create_that_failed_leaves_nothing_and_one_that_did_not_runs_once, created_twice)
HOUSE_TEST(a_live_cell_is_not_released, not_ended)
HOUSE_TEST(C29_unknown_ids_allocate_nothing, unknown_ids)
HOUSE_TEST(C30_cells_that_are_released_leave_nothing, released_each)
EMPTY_HOUSE_TEST(C30_cells_that_are_never_released_are_evicted, released_never)
EMPTY_HOUSE_TEST(C30_records_are_bounded_by_bytes_too, released_never_large)
EMPTY_HOUSE_TEST(C30_the_largest_session_is_evicted_from_first, fair)
HOUSE_TEST(cells_are_listed_page_by_page, listed)

SUITE(record, cmocka_unit_test(C13_a_released_or_evicted_cell_does_not_run_again),
      cmocka_unit_test(C13_a_create_that_failed_leaves_nothing_and_one_that_did_not_runs_once),
      cmocka_unit_test(a_live_cell_is_not_released),
      cmocka_unit_test(C29_unknown_ids_allocate_nothing),
      cmocka_unit_test(C30_cells_that_are_released_leave_nothing),
      cmocka_unit_test(C30_cells_that_are_never_released_are_evicted),
      cmocka_unit_test(C30_records_are_bounded_by_bytes_too),
      cmocka_unit_test(C30_the_largest_session_is_evicted_from_first),
      cmocka_unit_test(cells_are_listed_page_by_page));
