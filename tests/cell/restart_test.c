/* Hosts that are killed, and later hosts on the same store. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "actor.h"

#define SLEEP "await tools.sleep({});"

/* ---- Roles ----------------------------------------------------------------------------------- */

/* Number of cells of the killed host; this process and the role use the same. */
static unsigned killed_cells(void)
{
    return figure_taking() ? 20 : (unsigned)suite_rounds(6, 20);
}

/* Creates many cells that never end; reports the pids of all workers, with the spares. */
int role_cells(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);
    unsigned cells = killed_cells();
    char id[16];

    actor_open(house);
    for (unsigned i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        house_create(house, id, i % 2 == 0 ? "text('x'); for (;;);" : "text('x');" SLEEP);
        house_await_output(house, id, 1);
        actor_report("%lld", (long long)house_worker_pid(house, id));
    }
    house_warm(house, 2);
    BL_LIST_EACH (link, &house->host->pool.spares)
        actor_report("%lld", (long long)BL_CONTAINER(link, struct cell_worker, link)->pid);
    actor_report("all");
    bl_sleep(ROLE_LIFE_S * BL_NS_PER_S);
    return 0;
}

/* Terminates a cell that has printed. */
int role_terminate(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);

    actor_open(house);
    house_create(house, "c-1", "store('k', 1); await tools.mark({}); text('a'); for (;;);");
    house_await_output(house, "c-1", 1);
    actor_report("%lld", (long long)house_worker_pid(house, "c-1"));
    house_terminate(house, "c-1", "t-1");
    actor_report("terminated");
    _exit(3);
}

int role_complete(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);

    actor_open(house);
    house_create(house, "c-1", "store('k', 1); await tools.mark({}); text('a');");
    house_observe(house, "c-1", 1, 60000);
    actor_report("completed");
    _exit(3);
}

/* A cell that has printed, yielded once and been observed. */
int role_observe(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);

    actor_open(house);
    house_create(house, "c-1", "await tools.mark({}); text('a');" SLEEP);
    house_await_output(house, "c-1", 1);
    house_observe(house, "c-1", 1, 0);
    actor_report("observed %s", house_seen_text(house));
    _exit(3);
}

/* ---- The next host --------------------------------------------------------------------------- */

struct pids {
    int64_t all[64];
    unsigned count;
};

static bool all_gone(void *argument)
{
    const struct pids *pids = argument;

    for (unsigned i = 0; i < pids->count; i++)
        if (house_process_lives(pids->all[i]))
            return false;
    return true;
}

static int host_killed(struct house *house)
{
    struct pids *pids = bl_zalloc(sizeof *pids);
    struct actor actor;
    char line[64];

    actor_start(&actor, "cells", house->folder, NULL);
    while (actor_line(&actor, line, sizeof line) && strcmp(line, "all") != 0)
        if (CHECK(pids->count < BL_COUNT(pids->all)))
            pids->all[pids->count++] = atoll(line);
    CHECK_EQUAL(pids->count, killed_cells() + 2);
    CHECK(!all_gone(pids));
    kill(actor.pid, SIGKILL);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(actor_end(&actor), -1);
    CHECK(house_until(all_gone, pids));
    CHECK(figure_since("C10 workers after kill -9 of their host", since_ns, 100));
    /* In the next host, all of them have an end. */
    house_open(house);
    for (unsigned i = 0; i + 2 < pids->count; i++) {
        snprintf(line, sizeof line, "c-%u", i);
        CHECK_EQUAL(house_observe(house, line, 1, 0), 0);
        if (!CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED))
            continue;
        CHECK(house_receipt_says(house->seen.terminated.receipt, "reason", "owner_died"));
        CHECK(house_receipt_says(house->seen.terminated.receipt, "origin", "host_lost"));
        CHECK_EQUAL(house_receipt_number(house->seen.terminated.receipt, "survivors"), 0);
    }
    house_close(house);
    bl_free(pids);
    return 0;
}

/* The role dies at its fault; then the house is opened on its store. */
static void die_and_open(struct house *house, const char *role, const char *fault)
{
    struct actor actor;
    char line[512];

    actor_start(&actor, role, house->folder, fault);
    while (actor_line(&actor, line, sizeof line))
        CHECK(strchr("0123456789", line[0]) != NULL);
    CHECK_EQUAL(actor_end(&actor), -1);
    house_open(house);
}

static int killed_terminating(struct house *house)
{
    die_and_open(house, "terminate", "cell.terminate.stopped=kill");
    host_left_terminated(house, "host_lost", "");
    CHECK(!host_left_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_terminated(struct house *house)
{
    die_and_open(house, "terminate", "cell.terminate.recorded=kill");
    host_left_terminated(house, "terminate:t-1", "a");
    CHECK(!host_left_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_completing(struct house *house)
{
    die_and_open(house, "complete", "cell.complete.claimed=kill");
    host_left_terminated(house, "host_lost", "");
    CHECK(!host_left_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_completed(struct house *house)
{
    die_and_open(house, "complete", "cell.complete.recorded=kill");
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
        CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
        CHECK(strcmp(house_seen_text(house), "a") == 0);
        CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
        CHECK(house_same(house));
    }
    CHECK(host_left_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_admitted(struct house *house)
{
    die_and_open(house, "observe", "cell.create.admitted=kill");
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(house_create(house, "c-1", "await tools.mark({}); text('a');" SLEEP), 0);
    CHECK_EQUAL(house_create(house, "c-1", "text('other')"), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_CONFLICT);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 60000), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED);
    host_left_terminated(house, "host_lost", "");
    CHECK(house_marks(house) <= 1);
    house_close(house);
    return 0;
}

static int killed_decided(struct house *house)
{
    die_and_open(house, "observe", "cell.observe.decided=kill");
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    struct bl_text first = house->seen.json;
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(bl_text_equal(house->seen.json, first));
    CHECK_EQUAL(house_observe(house, "c-1", 2, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED);
    host_left_terminated(house, "host_lost", "");
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

/* While one host lives, no other gets the session. */
static int host_alive(struct house *house)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_cell_host_options options = {.spares = 1};
    struct bl_cell_session_options session = {.id = "s-1", .directory = "/"};
    struct bl_cell_session *other = NULL;
    struct bl_cell_host *host;
    struct bl_store *store;

    house_open(house);
    CHECK_EQUAL(bl_store_open(house->path, &store, error), 0);
    options.store = store;
    CHECK_EQUAL(bl_cell_host_start(&house->nursery, &options, &host, error), 0);
    CHECK_EQUAL(bl_cell_session_open(host, &session, &other, &house->fault), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_SESSION_BUSY);
    CHECK(strcmp(house->fault.id, "s-1") == 0);
    CHECK(house->fault.message[0] != '\0');
    CHECK_EQUAL(bl_cell_session_open(house->host, &session, &other, &house->fault), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_SESSION_BUSY);
    CHECK(house->fault.message[0] != '\0');
    bl_cell_session_close(house->session, false, BL_STOP_USER, "test", NULL);
    CHECK_EQUAL(bl_cell_session_open(host, &session, &other, &house->fault), 0);
    bl_cell_host_stop(host, BL_STOP_SHUTDOWN, "test");
    bl_store_close(store);
    house_close(house);
    bl_free(error);
    return 0;
}

/* After `forget`, nothing is left of the session. */
static int forgotten(struct house *house)
{
    struct bl_buffer receipt;

    house_open(house);
    CHECK_EQUAL(house_create(house, "c-1", "store('k', 1); text('a')"), 0);
    CHECK(house_finish(house, "c-1") != NULL);
    CHECK_EQUAL(house_create(house, "c-2", "text('a'); for (;;);"), 0);
    house_await_output(house, "c-2", 1);
    bl_buffer_init(&receipt, SIZE_MAX);
    bl_cell_session_close(house->session, true, BL_STOP_USER, "close", &receipt);
    CHECK(receipt.size > 0);
    house->session = house_session(house, "s-1");
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_MISSING);
    CHECK(!host_left_stored(house, "c-1"));
    bl_buffer_done(&receipt);
    house_close(house);
    return 0;
}

/* Leaves the records of a cell that has not ended, as a killed host does. */
static void leave_cell(struct house *house, int64_t worker)
{
    static const char digest[32] = "";
    const struct bl_store_hold_options options = {
        .id = "s-1", .directory = "/", .run_id = "run_lost"};
    const struct bl_store_cell cell = {
        .id = BL_TEXT("c-1"),
        .digest = {digest, sizeof digest},
        .created_wall_ns = 1,
        .deadline_ms = 1000,
        .pid = worker,
        .pid_started = worker != 0 ? bl_store_process_started(worker) : 0,
    };
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_session context;
    struct bl_store_session *held;
    struct bl_store *store;

    bl_session_init(&context, "");
    CHECK_EQUAL(bl_store_open(house->path, &store, error), 0);
    CHECK_EQUAL(bl_store_hold(store, &options, &context, &held, error), 0);
    CHECK_EQUAL(bl_store_cell_admit(held, &cell, error), 0);
    bl_store_release(held);
    bl_store_close(store);
    bl_session_done(&context);
    bl_free(error);
}

static int worker_left(struct house *house)
{
    leave_cell(house, getpid());
    house_open(house);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED);
    const struct bl_json *receipt = house->seen.terminated.receipt;
    CHECK(house_receipt_says(receipt, "origin", "host_lost"));
    CHECK_EQUAL(house_receipt_number(receipt, "survivors"), 1);
    CHECK(house_receipt_says(receipt, "mechanism", "subreaper"));
    house_close(house);
    return 0;
}

static int worker_not_on_record(struct house *house)
{
    leave_cell(house, 0);
    house_open(house);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED);
    const struct bl_json *receipt = house->seen.terminated.receipt;
    CHECK(bl_json_is(bl_json_get(receipt, BL_TEXT("survivors")), BL_JSON_NULL));
    CHECK(house_receipt_says(receipt, "unverified", "the last holder is unknown"));
    CHECK(house_receipt_says(receipt, "mechanism", "none"));
    house_close(house);
    return 0;
}

EMPTY_HOUSE_TEST(a_worker_that_outlives_its_host_is_a_survivor, worker_left)
EMPTY_HOUSE_TEST(nothing_is_claimed_about_an_unrecorded_worker, worker_not_on_record)
EMPTY_HOUSE_TEST(C10_a_killed_host_leaves_no_worker, host_killed)
EMPTY_HOUSE_TEST(C26_a_cell_terminated_during_a_kill_is_terminated, killed_terminating)
EMPTY_HOUSE_TEST(C26_a_record_written_before_a_kill_is_kept, killed_terminated)
EMPTY_HOUSE_TEST(C27_a_completion_cut_off_by_a_kill_stores_nothing, killed_completing)
EMPTY_HOUSE_TEST(C27_a_completion_before_a_kill_is_kept, killed_completed)
EMPTY_HOUSE_TEST(C28_a_cell_admitted_before_a_kill_runs_at_most_once, killed_admitted)
EMPTY_HOUSE_TEST(C28_a_decision_before_a_kill_is_answered_again, killed_decided)
EMPTY_HOUSE_TEST(a_session_of_a_live_host_is_busy, host_alive)
EMPTY_HOUSE_TEST(a_forgotten_session_is_empty, forgotten)

SUITE(restart, cmocka_unit_test(C10_a_killed_host_leaves_no_worker),
      cmocka_unit_test(C26_a_cell_terminated_during_a_kill_is_terminated),
      cmocka_unit_test(C26_a_record_written_before_a_kill_is_kept),
      cmocka_unit_test(C27_a_completion_cut_off_by_a_kill_stores_nothing),
      cmocka_unit_test(C27_a_completion_before_a_kill_is_kept),
      cmocka_unit_test(C28_a_cell_admitted_before_a_kill_runs_at_most_once),
      cmocka_unit_test(C28_a_decision_before_a_kill_is_answered_again),
      cmocka_unit_test(a_worker_that_outlives_its_host_is_a_survivor),
      cmocka_unit_test(nothing_is_claimed_about_an_unrecorded_worker),
      cmocka_unit_test(a_session_of_a_live_host_is_busy),
      cmocka_unit_test(a_forgotten_session_is_empty));
