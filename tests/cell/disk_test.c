/* Disks that fail at the end of a cell: every answer holds after a restart. */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "actor.h"

/* ---- The process with the failing disk ---- */

static void fail_syncs(int count)
{
    _Atomic int *syncs = dlsym(RTLD_DEFAULT, "faulty_syncs");
    if (CHECK(syncs != NULL))
        atomic_store(syncs, count);
}

static void report_end(struct house *house, int code, const char *text)
{
    actor_report("%s '%s', %llu ended, %s",
                 code == 0 ? "answered" : bl_cell_code_name(house->fault.code),
                 code == 0 ? text : "", (unsigned long long)house->events[BL_CELL_EVENT_ENDED],
                 house_state(house, "c-1"));
}

static void report_terminate(struct house *house, const char *id)
{
    int code = house_terminate(house, "c-1", id);
    report_end(house, code, code == 0 ? house_ended_text(house) : "");
}

/* Terminates a cell; the next `failures` syncs fail, and then the disk works again. */
static int terminate_on(int failures, bool recovers)
{
    struct house *house = bl_zalloc(sizeof *house);

    actor_open(house);
    house_create(house, "c-1", "store('k', 1); await tools.mark({}); text('a'); for (;;);");
    house_await_output(house, "c-1", 1);
    fail_syncs(failures);
    report_terminate(house, "t-1");
    if (failures > 1) {
        report_end(house, house_observe(house, "c-1", 1, 0), "observed");
        report_end(house, house_release(house, "c-1", 1), "released");
    }
    if (recovers) {
        fail_syncs(0);
        report_terminate(house, "t-2");
        report_end(house, house_observe(house, "c-1", 1, 0), "observed");
    }
    actor_report("over");
    bl_sleep(ROLE_LIFE_S * BL_NS_PER_S);
    return 0;
}

int role_terminate_sync(void *argument BL_UNUSED)
{
    return terminate_on(1, false);
}

int role_terminate_dead(void *argument BL_UNUSED)
{
    return terminate_on(1000000, false);
}

int role_terminate_recovers(void *argument BL_UNUSED)
{
    return terminate_on(1000000, true);
}

static int complete_on(int failures)
{
    struct house *house = bl_zalloc(sizeof *house);

    actor_open(house);
    house_create(house, "c-1", "store('k', 1); text('a'); await tools.gate({});");
    house_await_output(house, "c-1", 1);
    fail_syncs(failures);
    bl_semaphore_give(&house->gate);
    int code = house_observe(house, "c-1", 1, 60000);
    const struct bl_cell_error *error = house->seen.completed.error;
    report_end(house, code, error != NULL ? bl_cell_error_kind_name(error->kind) : "");
    actor_report("over");
    bl_sleep(ROLE_LIFE_S * BL_NS_PER_S);
    return 0;
}

int role_complete_sync(void *argument BL_UNUSED)
{
    return complete_on(1);
}

int role_complete_dead(void *argument BL_UNUSED)
{
    return complete_on(1000000);
}

/* ---- The checks ---- */

/* The role reports these lines and is killed; then the house is opened on its store. */
static void fail_and_open(struct house *house, const char *role, const char *const *lines)
{
    struct actor actor;
    char line[512] = "";

    actor_start_faulty(&actor, role, house->folder);
    for (; *lines != NULL; lines++) {
        bool more = actor_line(&actor, line, sizeof line);
        if (!CHECK(more && strcmp(line, *lines) == 0))
            fprintf(stderr, "%s: expected \"%s\", got \"%s\"\n", role, *lines, line);
    }
    kill(actor.pid, SIGKILL);
    actor_end(&actor);
    house_open(house);
}

static int sync_fails_terminating(struct house *house)
{
    fail_and_open(house, "terminate-sync",
                  (const char *const[]){"answered 'a', 1 ended, terminated", "over", NULL});
    host_left_terminated(house, "terminate:t-1", "a");
    CHECK(!host_left_stored(house, "c-2"));
    house_close(house);
    return 0;
}

/* An end that cannot be recorded is reported to no caller. */
#define REFUSED "store_failed '', 0 ended, terminating"

static int disk_dead_terminating(struct house *house)
{
    fail_and_open(house, "terminate-dead",
                  (const char *const[]){REFUSED, REFUSED, REFUSED, "over", NULL});
    host_left_terminated(house, "host_lost", "");
    CHECK(!host_left_stored(house, "c-2"));
    house_close(house);
    return 0;
}

static int disk_recovers(struct house *house)
{
    fail_and_open(house, "terminate-recovers",
                  (const char *const[]){REFUSED, REFUSED, REFUSED,
                                        "answered 'a', 1 ended, terminated",
                                        "answered 'observed', 1 ended, terminated", "over", NULL});
    host_left_terminated(house, "terminate:t-1", "a");
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int sync_fails_completing(struct house *house)
{
    fail_and_open(
        house, "complete-sync",
        (const char *const[]){"answered 'store_failed', 1 ended, completed", "over", NULL});
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    CHECK(!host_left_stored(house, "c-2"));
    house_close(house);
    return 0;
}

/* The store was reported to have failed, so neither the end nor the value may exist. */
static int disk_dead_completing(struct house *house)
{
    fail_and_open(
        house, "complete-dead",
        (const char *const[]){"answered 'store_failed', 1 ended, completed", "over", NULL});
    host_left_terminated(house, "host_lost", "");
    CHECK(!host_left_stored(house, "c-2"));
    house_close(house);
    return 0;
}

/* Closing the session is the last attempt. */
static int recorded_at_the_close(struct house *house)
{
    struct asker *asker = bl_zalloc(sizeof *asker);

    CHECK_EQUAL(house_create(house, "c-1", "text('a'); for (;;);"), 0);
    house_await_output(house, "c-1", 1);
    int64_t worker = house_worker_pid(house, "c-1");
    asker_observe(asker, house, "c-1", 1, 60000);
    bl_yield();
    house_fault(house, "cell.store.write=fail");
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_STORE_FAILED);
    CHECK_EQUAL(asker_join(asker), BL_EREFUSED);
    CHECK_EQUAL(asker->fault.code, BL_CELL_STORE_FAILED);
    asker_done(asker);
    CHECK_EQUAL(house->events[BL_CELL_EVENT_ENDED], 0);
    CHECK(!house_process_lives(worker));
    house_fault(house, "");
    house_close(house);
    CHECK_EQUAL(house->events[BL_CELL_EVENT_ENDED], 1);
    house_open(house);
    host_left_terminated(house, "terminate:t-1", "a");
    bl_free(asker);
    return 0;
}

EMPTY_HOUSE_TEST(an_end_whose_sync_failed_is_recorded_before_it_is_reported, sync_fails_terminating)
EMPTY_HOUSE_TEST(an_end_that_cannot_be_recorded_is_not_reported, disk_dead_terminating)
EMPTY_HOUSE_TEST(an_unrecorded_end_is_recorded_at_the_next_request, disk_recovers)
EMPTY_HOUSE_TEST(a_completion_whose_sync_failed_is_recorded_without_its_values,
                 sync_fails_completing)
EMPTY_HOUSE_TEST(a_completion_that_cannot_be_recorded_reports_that_the_store_failed,
                 disk_dead_completing)
HOUSE_TEST(an_end_that_the_store_refused_is_recorded_when_its_session_closes, recorded_at_the_close)

SUITE(disk, cmocka_unit_test(an_end_whose_sync_failed_is_recorded_before_it_is_reported),
      cmocka_unit_test(an_end_that_cannot_be_recorded_is_not_reported),
      cmocka_unit_test(an_unrecorded_end_is_recorded_at_the_next_request),
      cmocka_unit_test(a_completion_whose_sync_failed_is_recorded_without_its_values),
      cmocka_unit_test(a_completion_that_cannot_be_recorded_reports_that_the_store_failed),
      cmocka_unit_test(an_end_that_the_store_refused_is_recorded_when_its_session_closes));
