/* Ends from outside: how fast, how reliably, and which callers get them. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "helpers.h"

#define SLEEP  "await tools.sleep({});"
#define MINUTE 60000

/* ---- Any code ---- */

static void stopped(struct house *house, const char *id, const char *figure, const char *source)
{
    const struct bl_json *receipt, *unit;
    char origin[80];

    CHECK_EQUAL(house_create(house, id, source), 0);
    house_await_output(house, id, 1);
    int64_t pid = house_worker_pid(house, id);
    CHECK(house_process_lives(pid));
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_terminate(house, id, "t-1"), 0);
    CHECK(figure_since(figure, since_ns, 70));
    CHECK(!house_process_lives(pid));
    if (!CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED))
        return;
    CHECK(strcmp(house_ended_text(house), "x") == 0);
    receipt = house->ended.terminated.receipt;
    snprintf(origin, sizeof origin, "terminate:%s", "t-1");
    CHECK(house_receipt_says(receipt, "scope", id));
    CHECK(house_receipt_says(receipt, "reason", "user"));
    CHECK(house_receipt_says(receipt, "origin", origin));
    CHECK_EQUAL(house_receipt_number(receipt, "survivors"), 0);
    unit = house_receipt_unit(receipt, "cell");
    if (CHECK(unit != NULL)) {
        CHECK(house_receipt_says(unit, "id", id));
        struct bl_text fate = bl_json_text(bl_json_get(unit, BL_TEXT("fate")));
        CHECK(bl_text_equal(fate, BL_TEXT("aborted")) || bl_text_equal(fate, BL_TEXT("killed")));
    }
}

static int stopped_anyway(struct house *house)
{
    stopped(house, "c-1", "C5 terminate of an endless loop", "text('x'); for (;;);");
    stopped(house, "c-2", "C5 terminate of endless jobs", "text('x'); for (;;) await null;");
    stopped(house, "c-3", "C5 terminate of a promise never settled",
            "text('x'); await new Promise(() => {});");
    stopped(house, "c-4", "C5 terminate of a backtracking regexp",
            "text('x'); /^(a+)+$/.test('a'.repeat(64) + 'b'); text('y');");
    stopped(house, "c-5", "C5 terminate of 1,000 pending timers",
            "for (let i = 0; i < 1000; i++) setTimeout(() => text('y'), 60000 + i);"
            "text('x'); await new Promise(() => {});");
    return 0;
}

static bool has_worker(void *argument)
{
    return house_worker_pid(argument, "c-1") != 0;
}

/* The last stage: exactly the grace period, and then SIGKILL. */
static int ignores_sigterm(struct house *house)
{
    house_use_script(house, "trap '' TERM\nready\nexec sleep 60\n");
    house_open(house);
    CHECK_EQUAL(house_create(house, "c-1", "text('x');"), 0);
    CHECK(house_until(has_worker, house));
    int64_t pid = house_worker_pid(house, "c-1");
    CHECK(house_process_lives(pid));
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK(figure_between("C5 terminate of a worker that ignores SIGTERM",
                         (double)(bl_now_ns() - since_ns) / BL_NS_PER_MS, BL_CELL_GRACE_MS, 70));
    CHECK(!house_process_lives(pid));
    if (CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED)) {
        const struct bl_json *receipt = house->ended.terminated.receipt;
        CHECK_EQUAL(house_receipt_number(receipt, "survivors"), 0);
        CHECK(house_receipt_says(house_receipt_unit(receipt, "cell"), "fate", "killed"));
    }
    house_close(house);
    return 0;
}

/* Terminated before the worker has read a line of the source. */
static int stopped_at_once(struct house *house)
{
    char id[16];

    for (unsigned i = 0; i < 6; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        if (i % 2 == 0)
            house_warm(house, i == 0 ? 0 : 1);
        CHECK_EQUAL(house_create(house, id, "await tools.mark({}); for (;;);"), 0);
        for (unsigned j = 0; j < i / 2; j++)
            bl_yield();
        CHECK_EQUAL(house_terminate(house, id, "t-1"), 0);
        if (!CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED))
            continue;
        const struct bl_json *receipt = house->ended.terminated.receipt;
        CHECK_EQUAL(house_receipt_number(receipt, "survivors"), 0);
        CHECK(house_receipt_unit(receipt, "cell") != NULL);
        CHECK(!house_process_lives(house_worker_pid(house, id)));
    }
    return 0;
}

/* ---- The same answer for all ---- */

static int stopped_by_many(struct house *house)
{
    enum {
        OTHERS = 50
    };
    struct asker *askers = bl_zalloc((OTHERS + 2) * sizeof *askers);
    char id[16];

    CHECK_EQUAL(house_create(house, "c-1", "text('a'); for (;;);"), 0);
    house_await_output(house, "c-1", 1);
    for (unsigned i = 0; i < OTHERS + 2; i++) {
        snprintf(id, sizeof id, "t-%u", i < 2 ? 0 : i);
        asker_terminate(&askers[i], house, "c-1", id);
    }
    for (unsigned i = 0; i < OTHERS + 2; i++) {
        CHECK_EQUAL(asker_join(&askers[i]), 0);
        CHECK(bl_text_equal(askers[i].json, askers[0].json));
    }
    CHECK_EQUAL(house_terminate(house, "c-1", "t-0"), 0);
    CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED);
    CHECK(bl_text_equal(house->ended.json, askers[0].json));
    CHECK(house_receipt_says(house->ended.terminated.receipt, "origin", "terminate:t-0"));
    CHECK_EQUAL(house_terminate(house, "c-1", "t-late"), 0);
    CHECK(bl_text_equal(house->ended.json, askers[0].json));
    CHECK_EQUAL(house->events[BL_CELL_EVENT_ENDED], 1);
    for (unsigned i = 0; i < OTHERS + 2; i++)
        asker_done(&askers[i]);
    bl_free(askers);
    return 0;
}

static int stopped_while_observed(struct house *house)
{
    struct asker *asker = bl_zalloc(sizeof *asker);

    CHECK_EQUAL(house_create(house, "c-1", "text('a');" SLEEP), 0);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    asker_observe(asker, house, "c-1", 2, MINUTE);
    bl_sleep(5 * BL_NS_PER_MS);
    CHECK(!asker_answered(asker));
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK_EQUAL(asker_join(asker), 0);
    CHECK(bl_text_equal(asker->json, house->ended.json));
    CHECK_EQUAL(house->ended.terminated.generation, 2);
    asker_done(asker);
    bl_free(asker);
    return 0;
}

static int stopped_after_its_end(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text('a'); text('b');"), 0);
    house_await_end(house, "c-1");
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_COMPLETED);
    CHECK(strcmp(house_ended_text(house), "ab") == 0);
    struct bl_text first = house->ended.json;
    for (unsigned i = 2; i <= 100; i++) {
        CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
        CHECK(bl_text_equal(house->ended.json, first));
    }
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(house_same(house));
    CHECK_EQUAL(house_terminate(house, "c-2", "t-1"), 0);
    CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_MISSING);
    return 0;
}

/* A caller that leaves does not take back the stop. */
static int caller_left(struct house *house)
{
    struct asker *asker = bl_zalloc(sizeof *asker);

    CHECK_EQUAL(house_create(house, "c-1", "text('a'); for (;;);"), 0);
    house_await_output(house, "c-1", 1);
    asker_terminate(asker, house, "c-1", "t-1");
    bl_yield();
    asker_stop(asker);
    CHECK_EQUAL(asker_join(asker), BL_ECANCELED);
    CHECK_EQUAL(asker->fault.code, BL_CELL_CANCELLED);
    house_await_end(house, "c-1");
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED);
    asker_done(asker);
    bl_free(asker);
    return 0;
}

/* ---- Output before the stop ---- */

/* Checks that the numbers of the items continue at `next`. Returns the number that follows. */
static uint64_t check_row(const struct bl_list *items, uint64_t next)
{
    BL_LIST_EACH (link, items) {
        int64_t number = -1;
        bl_text_to_int64(BL_CONTAINER(link, struct bl_cell_item, link)->text, &number);
        CHECK_EQUAL(number, next);
        next++;
    }
    return next;
}

static int flooded(struct house *house)
{
    CHECK_EQUAL(house_create_limited(house, "c-1", "for (let i = 0;; i++) text(i);", 0, 0,
                                     BL_CELL_OUTPUT_MAX),
                0);
    CHECK_EQUAL(house_create(house, "c-2", "text('x'); for (;;) await null;"), 0);
    house_await_output(house, "c-2", 1);
    house_await_output(house, "c-1", 1);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(figure_since("C31 observe of a flood", since_ns, 50));
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    uint64_t next = check_row(&house->seen.yielded.items, 0);
    CHECK(next > 0);
    since_ns = bl_now_ns();
    CHECK_EQUAL(house_observe(house, "c-2", 1, 0), 0);
    CHECK(figure_since("C31 observe of a flood's neighbour", since_ns, 50));
    since_ns = bl_now_ns();
    CHECK_EQUAL(house_terminate(house, "c-2", "t-1"), 0);
    CHECK(figure_since("C31 terminate of a flood's neighbour", since_ns, 100));
    since_ns = bl_now_ns();
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK(figure_since("C31 terminate of a flood", since_ns, 100));
    if (CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED))
        CHECK(check_row(&house->ended.terminated.items, next) >= next);
    CHECK_EQUAL(house->host->undelivered, 0);
    return 0;
}

/* Output in the socket at the time of the stop was written before it, and takes more reads than the
 * one that may be in progress. This thread blocks until it is there, so the cell reads nothing
 * meanwhile. */
static int unread(struct house *house)
{
    enum {
        ITEMS = 9,
        PENDING = ITEMS * 16000
    };
    int waiting = 0;

    _Static_assert(PENDING > 2 * CELL_READ_SIZE, "more than two reads take");
    CHECK_EQUAL(house_create(house, "c-1", "text(0);"), 0);
    CHECK(house_finish(house, "c-1") != NULL);
    house_warm(house, 1);
    CHECK_EQUAL(house_create(house, "c-2",
                             "const begin = Date.now() + 500; while (Date.now() < begin);"
                             "for (let i = 0; i < 9; i++) text(`${i}`.padStart(16000, '0'));"
                             "for (;;);"),
                0);
    bl_yield();
    bl_yield();
    const struct cell *cell = cell_find(house->session, "c-2");
    for (unsigned i = 0; i < 1000 && waiting < PENDING; i++) {
        usleep(10000);
        CHECK_EQUAL(ioctl(cell->worker->fd, FIONREAD, &waiting), 0);
    }
    CHECK(waiting >= PENDING);
    CHECK_EQUAL(cell->output.size, 0);
    CHECK_EQUAL(house_terminate(house, "c-2", "t-1"), 0);
    if (CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED))
        CHECK_EQUAL(check_row(&house->ended.terminated.items, 0), ITEMS);
    return 0;
}

/* ---- Turns, sessions and hosts ---- */

static int stopped_with_a_turn(struct house *house)
{
    struct bl_scope turn;
    struct bl_cell_create create = {.cell_id = "c-1", .scope = &turn};

    create.source = BL_TEXT("text('a'); for (;;);");
    bl_scope_init(&turn, bl_scope_current());
    CHECK_EQUAL(bl_cell_create(house->session, &create, &house->fault), 0);
    CHECK_EQUAL(house_create(house, "c-2", "text('a');" SLEEP), 0);
    house_await_output(house, "c-1", 1);
    house_await_output(house, "c-2", 1);
    bl_scope_stop(&turn, BL_STOP_USER, "ctrl-c");
    bl_cell_join(house->session, &turn);
    CHECK(strcmp(house_state(house, "c-1"), "terminated") == 0);
    CHECK(strcmp(house_state(house, "c-2"), "running") == 0);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    if (CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED)) {
        CHECK(house_receipt_says(house->seen.terminated.receipt, "reason", "parent"));
        CHECK(house_receipt_says(house->seen.terminated.receipt, "origin", "ctrl-c"));
        CHECK_EQUAL(house_receipt_number(house->seen.terminated.receipt, "survivors"), 0);
    }
    bl_scope_done(&turn);
    return 0;
}

static bool is_terminating(void *argument)
{
    return strcmp(house_state(argument, "c-1"), "terminating") == 0;
}

/* While a cell is being terminated, the turn above it is stopped. Both receipts have the processes
 * left by the cell's calls. */
static int stopped_before_its_turn(struct house *house)
{
    struct asker *asker = bl_zalloc(sizeof *asker);
    struct bl_receipt receipt;
    struct bl_scope turn;

    bl_scope_init(&turn, bl_scope_current());
    bl_receipt_open(&receipt, &turn, "turn");
    CHECK_EQUAL(house_create_below(house, &turn, "c-1", "await tools.left({});"), 0);
    while (house->calls_begun < 1)
        bl_sleep(BL_NS_PER_MS);
    asker_terminate(asker, house, "c-1", "t-1");
    CHECK(house_until(is_terminating, house));
    bl_scope_stop(&turn, BL_STOP_USER, "ctrl-c");
    bl_semaphore_give(&house->gate);
    CHECK_EQUAL(asker_join(asker), 0);
    bl_cell_join(house->session, &turn);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    if (CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED)) {
        CHECK(house_receipt_says(house->seen.terminated.receipt, "reason", "user"));
        CHECK_EQUAL(house_receipt_number(house->seen.terminated.receipt, "survivors"), 2);
    }
    CHECK(bl_receipt_ready(&receipt));
    CHECK_EQUAL(bl_receipt_survivors(&receipt), 2);
    if (CHECK(!bl_list_empty(&receipt.stopped))) {
        const struct bl_unit *unit = BL_CONTAINER(receipt.stopped.next, struct bl_unit, link);
        CHECK_EQUAL(unit->kind, BL_UNIT_CELL);
        CHECK_EQUAL(unit->processes, 1);
        CHECK(unit->link.next == &receipt.stopped);
    }
    bl_receipt_close(&receipt);
    bl_scope_done(&turn);
    asker_done(asker);
    bl_free(asker);
    return 0;
}

struct closing {
    struct house *house;
    struct bl_cell_session *session;
};

static int close_session(void *argument)
{
    struct closing *closing = argument;

    bl_cell_session_close(closing->session, false, BL_STOP_USER, "close", NULL);
    return 0;
}

/* The host ends while another fiber closes one of its sessions. */
static int stopped_while_closed(struct house *house)
{
    struct closing closing = {house, house_session(house, "s-2")};
    struct bl_cell_session *first = house->session;

    house->session = closing.session;
    CHECK_EQUAL(house_create(house, "c-1", "text('x'); for (;;);"), 0);
    house_await_output(house, "c-1", 1);
    house->session = first;
    bl_list_remove(&closing.session->link); /* so that it comes first */
    bl_list_push_front(&house->host->sessions, &closing.session->link);
    CHECK_EQUAL(bl_nursery_spawn(&house->nursery, NULL, "close", close_session, &closing, NULL), 0);
    bl_yield();
    return 0;
}

static int open_session(void *argument)
{
    struct house *house = argument;
    struct bl_cell_session_options options = {.id = "s-2", .directory = "/"};
    struct bl_cell_session *session;
    struct bl_cell_fault *fault = bl_zalloc(sizeof *fault);

    if (bl_cell_session_open(house->host, &options, &session, fault) != 0)
        CHECK_EQUAL(fault->code, BL_CELL_SHUTTING_DOWN);
    bl_free(fault);
    return 0;
}

/* The host ends while one of its sessions is being opened. */
static int stopped_while_opened(struct house *house)
{
    CHECK_EQUAL(bl_nursery_spawn(&house->nursery, NULL, "open", open_session, house, NULL), 0);
    bl_yield();
    return 0;
}

/* A session is closed during an admission that the store then refuses. */
struct creation {
    struct house *house;
    int code;
};

static int create_one(void *argument)
{
    struct creation *creation = argument;

    creation->code = house_create(creation->house, "c-1", "text('x')");
    return 0;
}

static int closed_while_created(struct house *house)
{
    struct creation creation = {house, 0};
    struct bl_fiber *fiber;

    CHECK_EQUAL(house_create(house, "c-1", "text('x')"), 0);
    CHECK(house_finish(house, "c-1") != NULL);
    CHECK_EQUAL(house_release(house, "c-1", 1), 0);
    house_fault(house, "cell.store.write=delay:30");
    bl_nursery_spawn(&house->nursery, NULL, "create", create_one, &creation, &fiber);
    bl_sleep(10 * BL_NS_PER_MS);
    uint64_t since_ns = bl_now_ns();
    bl_cell_session_close(house->session, false, BL_STOP_USER, "close", NULL);
    house->session = NULL;
    CHECK(bl_now_ns() - since_ns < 20 * BL_NS_PER_S);
    CHECK_EQUAL(bl_fiber_join(fiber, NULL), 0);
    CHECK_EQUAL(creation.code, BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_GONE);
    return 0;
}

HOUSE_TEST(C5_terminate_ends_a_cell_in_any_code, stopped_anyway)
HOUSE_TEST(C5_terminate_ends_a_cell_that_has_just_been_created, stopped_at_once)
EMPTY_HOUSE_TEST(C5_a_worker_that_ignores_SIGTERM_is_killed_after_the_grace_period, ignores_sigterm)
HOUSE_TEST(C20_all_terminates_get_the_same_answer, stopped_by_many)
HOUSE_TEST(C21_observe_and_terminate_get_the_same_end, stopped_while_observed)
HOUSE_TEST(C22_terminate_of_a_completed_cell_says_so_each_time, stopped_after_its_end)
HOUSE_TEST(a_caller_that_leaves_does_not_take_back_the_stop, caller_left)
HOUSE_TEST(survivors_of_a_cell_terminated_alone_are_in_the_parent_receipt, stopped_before_its_turn)
HOUSE_TEST(C31_a_flood_delays_neither_observe_nor_terminate, flooded)
HOUSE_TEST(C31_what_the_cell_wrote_before_the_stop_is_in_the_record, unread)
HOUSE_TEST(a_cell_of_a_turn_ends_with_it, stopped_with_a_turn)
HOUSE_TEST(a_host_ends_while_a_session_of_it_is_closed, stopped_while_closed)
HOUSE_TEST(a_host_ends_while_a_session_of_it_is_opened, stopped_while_opened)
HOUSE_TEST(a_session_is_closed_while_a_cell_of_it_is_admitted, closed_while_created)

SUITE(terminate, cmocka_unit_test(C5_terminate_ends_a_cell_in_any_code),
      cmocka_unit_test(C5_terminate_ends_a_cell_that_has_just_been_created),
      cmocka_unit_test(C5_a_worker_that_ignores_SIGTERM_is_killed_after_the_grace_period),
      cmocka_unit_test(C20_all_terminates_get_the_same_answer),
      cmocka_unit_test(C21_observe_and_terminate_get_the_same_end),
      cmocka_unit_test(C22_terminate_of_a_completed_cell_says_so_each_time),
      cmocka_unit_test(a_caller_that_leaves_does_not_take_back_the_stop),
      cmocka_unit_test(survivors_of_a_cell_terminated_alone_are_in_the_parent_receipt),
      cmocka_unit_test(C31_a_flood_delays_neither_observe_nor_terminate),
      cmocka_unit_test(C31_what_the_cell_wrote_before_the_stop_is_in_the_record),
      cmocka_unit_test(a_cell_of_a_turn_ends_with_it),
      cmocka_unit_test(a_host_ends_while_a_session_of_it_is_closed),
      cmocka_unit_test(a_host_ends_while_a_session_of_it_is_opened),
      cmocka_unit_test(a_session_is_closed_while_a_cell_of_it_is_admitted));
