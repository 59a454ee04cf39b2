/* Workers on virtual time: single faults. */
#include <stdio.h>

#include "simulation.h"

#define DRAIN (10 * SECOND)

static struct sim_worker *work(struct sim_server *server)
{
    struct sim_worker *worker = sim_work(server, 4, DRAIN, 0);
    bl_sleep(10 * MS);
    return worker;
}

static void check_fate(const struct sim_item *item, const char *fate)
{
    if (!CHECK(strcmp(item->fate, fate) == 0))
        fprintf(stderr, "%s: '%s' is not '%s'\n", item->id, item->fate, fate);
}

/* ---- Claims ---- */

FLEET_TEST(an_offered_item_is_run_at_once)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 0);
    bl_sleep(20 * MS);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
    CHECK_EQUAL(item->runs, 1);
    CHECK(worker->claims <= 3);
}

FLEET_TEST(a_worker_claims_no_more_than_its_slots)
{
    work(server);
    for (int i = 0; i < 20; i++)
        sim_offer(server, SECOND);
    bl_sleep(SECOND / 2);
    for (unsigned i = 0; i < 20; i++)
        CHECK_EQUAL(server->items[i].runs, i < 4 ? 1 : 0);
    bl_sleep(5 * SECOND);
    CHECK_EQUAL(server->items[19].state, BL_FLEET_COMPLETED);
    CHECK(server->workers[0].claims <= 25);
}

/* Without wake-ups, the worker asks every second. */
FLEET_TEST(a_worker_that_is_not_woken_polls)
{
    struct sim_worker *worker = sim_work(server, 1, DRAIN, 0);
    worker->mute = true;
    bl_sleep(10 * MS);
    for (int i = 0; i < 10; i++) {
        struct sim_item *item = sim_offer(server, 0);
        bl_sleep(1400 * MS);
        CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
    }
    CHECK(worker->claims < 40);
}

/* W30. */
FLEET_TEST(a_claim_whose_answer_is_lost_is_taken_up_once)
{
    struct sim_worker *worker = work(server);
    for (int i = 0; i < 50; i++) {
        worker->unanswered = true;
        struct sim_item *item = sim_offer(server, 10 * MS);
        bl_sleep(RENEW + 200 * MS);
        CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
        CHECK_EQUAL(item->runs, 1);
        CHECK_EQUAL(item->claims, 1);
    }
    CHECK_EQUAL(worker->resumes, 50);
}

/* Its heartbeats are answered, and show that an item waits, or is owned. */
FLEET_TEST(calls_that_fail_are_not_repeated_at_once)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 0);
    worker->refuses = true;
    bl_sleep(30 * SECOND);
    CHECK(worker->claims > 10 && worker->claims < 60);
    worker->refuses = false;
    worker->unanswered = true;
    while (item->claims == 0)
        bl_sleep(MS);
    worker->refuses = true;
    unsigned resumes = worker->resumes;
    bl_sleep(30 * SECOND);
    CHECK(worker->resumes - resumes > 10 && worker->resumes - resumes < 60);
    CHECK(worker->beats < 200);
    worker->refuses = false;
    bl_sleep(3 * SECOND);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
}

FLEET_TEST(an_item_that_is_not_owned_any_more_is_stopped)
{
    work(server);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    bl_sleep(RENEW / 2);
    item->owner[0] = '\0';
    bl_sleep(RENEW + 100 * MS);
    CHECK(item->stop_ns != 0);
    CHECK_EQUAL(item->reason, BL_STOP_LEASE_LOST);
    CHECK_EQUAL(item->ends, 0);
    item->state = BL_FLEET_QUEUED;
    bl_sleep(2 * RENEW);
    CHECK_EQUAL(item->runs, 2);
}

/* The worker has it again while it is still at work on it: two tries, one after the other. */
FLEET_TEST(two_tries_of_an_item_do_not_overlap)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 5 * SECOND);
    item->linger_ns = GRACE;
    bl_sleep(RENEW / 2);
    item->owner[0] = '\0';
    item->state = BL_FLEET_QUEUED;
    bl_semaphore_give(&worker->wake);
    bl_sleep(GRACE / 2);
    CHECK(item->stop_ns != 0);
    CHECK_EQUAL(item->claims, 2);
    CHECK_EQUAL(item->runs, 1);
    bl_sleep(6 * SECOND);
    CHECK_EQUAL(item->runs, 2);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
}

/* Answers arrive in any order: claims, ends and heartbeats overtake each other. */
FLEET_TEST(an_uneven_network_runs_each_item_once)
{
    struct sim_worker *worker = work(server);
    unsigned stops = 0;
    worker->fault = SIM_UNEVEN;
    for (unsigned i = 0; i < 200; i++)
        sim_offer(server, bl_random_below(&server->random, SECOND))->linger_ns = 10 * MS;
    for (unsigned i = 0; i < 200; i++) {
        unsigned k = 0;
        while (k < 200 && server->items[k].state != BL_FLEET_RUNNING)
            k++;
        if (k < 200 && i % 2 == 0)
            stops += sim_stop(server, &server->items[k], i % 4 == 0);
        for (int beat = 0; beat < 4; beat++) {
            worker->wake.count = 1;
            bl_semaphore_give(&worker->wake);
            bl_sleep(100 * MS);
        }
    }
    bl_sleep(30 * SECOND);
    for (unsigned i = 0; i < 200; i++) {
        const struct sim_item *item = &server->items[i];
        CHECK_EQUAL(item->ends, 1);
        CHECK_EQUAL(item->claims, item->runs);
        CHECK(item->runs == 1 || strcmp(item->fate, "never_started") == 0);
        CHECK(item->answers <= 1 && item->hurried <= 1);
        CHECK(item->reason == BL_STOP_NONE || item->stopped);
    }
    CHECK(stops > 30);
    CHECK_EQUAL(worker->resumes, 0);
    CHECK_EQUAL(worker->refused, 0);
}

FLEET_TEST(a_drain_over_an_uneven_network_ends_each_item_once)
{
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        struct sim_worker *worker = sim_work(server, 8, DRAIN, 0);
        for (unsigned k = 0; k < 8; k++)
            sim_offer(server, bl_random_below(&server->random, 3 * SECOND));
        bl_sleep(10 * MS);
        worker->fault = SIM_UNEVEN;
        bl_fleet_drain(worker->worker);
        bl_sleep(6 * SECOND);
        CHECK_EQUAL(worker->result, 0);
        CHECK_EQUAL(worker->refused, 0);
    }
    for (unsigned i = 0; i < server->item_count; i++)
        CHECK_EQUAL(server->items[i].runs, 1);
}

FLEET_TEST(an_end_without_an_answer_is_repeated)
{
    struct sim_worker *worker = work(server);
    static const enum sim_fault faults[] = {SIM_LOST, SIM_SILENT, SIM_LATE, SIM_AFTER};
    for (unsigned i = 0; i < BL_COUNT(faults); i++) {
        struct sim_item *item = sim_offer(server, RENEW / 2);
        bl_sleep(RENEW / 4);
        worker->fault = faults[i];
        bl_sleep(RENEW);
        worker->fault = SIM_NONE;
        bl_sleep(3 * RENEW);
        CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
        CHECK_EQUAL(item->runs, 1);
    }
}

/* ---- Lost workers ---- */

/* W18. */
FLEET_TEST(items_of_a_dead_worker_are_run_by_another)
{
    struct sim_worker *first = work(server);
    struct sim_item *item = sim_offer(server, 20 * SECOND);
    bl_sleep(RENEW);
    struct sim_worker *second = work(server);
    sim_kill(first);
    uint64_t killed_ns = bl_now_ns();
    bl_sleep(LEASE - RENEW);
    CHECK_EQUAL(item->runs, 1);
    while (item->runs == 1 && bl_now_ns() < killed_ns + 2 * LEASE)
        bl_sleep(10 * MS);
    CHECK_EQUAL(item->runs, 2);
    CHECK_EQUAL(item->deaths, 1);
    CHECK(sim_owner(server, item) == second);
    bl_sleep(21 * SECOND);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
}

FLEET_TEST(a_worker_that_was_taken_over_registers_again)
{
    struct sim_worker *first = work(server), *second = work(server);
    sim_kill(second);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    bl_sleep(RENEW / 2);
    CHECK(sim_owner(server, item) == first);
    first->lost = true;
    sim_queue_take_over(server, first->id);
    bl_sleep(RENEW + 500 * MS);
    CHECK_EQUAL(item->reason, BL_STOP_LEASE_LOST);
    CHECK_EQUAL(item->runs, 2);
    CHECK_EQUAL(first->lives, 1);
    CHECK(sim_owner(server, item) == first);
    CHECK_EQUAL(item->ends, 0);
}

/* Nobody took over: the fence still holds, and the item continues as another attempt. */
FLEET_TEST(a_worker_that_comes_back_continues_its_items)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 20 * SECOND);
    bl_sleep(RENEW);
    worker->fault = SIM_SILENT;
    bl_sleep(2 * LEASE);
    CHECK_EQUAL(item->reason, BL_STOP_LEASE_LOST);
    worker->fault = SIM_NONE;
    bl_sleep(3 * SECOND);
    CHECK_EQUAL(item->runs, 2);
    CHECK_EQUAL(item->deaths, 0);
    CHECK_EQUAL(item->epoch, 2);
    bl_sleep(20 * SECOND);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
}

/* W28. */
FLEET_TEST(an_item_that_kills_its_workers_fails)
{
    for (int i = 0; i < 6; i++)
        sim_work(server, 1, DRAIN, 0);
    bl_sleep(10 * MS);
    struct sim_item *deadly = sim_offer(server, SECOND), *other = sim_offer(server, SECOND);
    deadly->deadly = true;
    bl_sleep(6 * LEASE);
    CHECK_EQUAL(deadly->state, BL_FLEET_FAILED);
    CHECK_EQUAL(deadly->runs, DEATHS_MAX);
    CHECK_EQUAL(deadly->deaths, DEATHS_MAX);
    CHECK_EQUAL(other->state, BL_FLEET_COMPLETED);
}

/* ---- Retries and deadlines ---- */

/* W35. */
FLEET_TEST(a_failed_item_is_retried_with_delays)
{
    struct sim_worker *worker = work(server);
    worker->retries = (struct bl_fleet_retries){3, 10 * SECOND};
    struct sim_item *item = sim_offer(server, 0);
    item->fails = 100;
    uint64_t from_ns = bl_now_ns();
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t delay_ns = (10 * SECOND) << i;
        bl_sleep(100 * MS);
        CHECK_EQUAL(item->state, BL_FLEET_DELAYED);
        CHECK_EQUAL(item->tries, i + 1);
        CHECK(item->end.retry_ns >= delay_ns * 8 / 10 && item->end.retry_ns <= delay_ns * 12 / 10);
        bl_sleep(item->end.retry_ns + RENEW);
        CHECK_EQUAL(item->runs, i + 2);
    }
    CHECK_EQUAL(item->state, BL_FLEET_FAILED);
    CHECK(bl_now_ns() - from_ns >= 56 * SECOND);
    item = sim_offer(server, 0);
    item->fails = 2;
    bl_sleep(50 * SECOND);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
    CHECK_EQUAL(item->runs, 3);
}

FLEET_TEST(a_delay_is_at_most_ten_minutes)
{
    struct sim_worker *worker = work(server);
    worker->retries = (struct bl_fleet_retries){40, 100 * SECOND};
    struct sim_item *item = sim_offer(server, 0);
    item->fails = 100;
    item->tries = 35;
    bl_sleep(100 * MS);
    CHECK_EQUAL(item->state, BL_FLEET_DELAYED);
    CHECK(item->end.retry_ns >= 480 * SECOND && item->end.retry_ns <= 720 * SECOND);
}

FLEET_TEST(an_item_that_was_cancelled_is_not_retried)
{
    work(server);
    struct sim_item *item = sim_offer(server, 10 * SECOND);
    item->fails = 100;
    bl_sleep(100 * MS);
    sim_stop(server, item, false);
    bl_sleep(100 * MS);
    CHECK_EQUAL(item->state, BL_FLEET_CANCELLED);
    CHECK_EQUAL(item->tries, 0);
}

/* It failed because it was stopped. */
FLEET_TEST(a_stop_is_no_reason_to_retry)
{
    work(server);
    struct sim_item *item = sim_offer(server, 10 * SECOND);
    item->fails_late = true;
    bl_sleep(100 * MS);
    sim_stop(server, item, false);
    bl_sleep(100 * MS);
    CHECK_EQUAL(item->state, BL_FLEET_FAILED);
    CHECK_EQUAL(item->tries, 0);
    check_fate(item, "finished");
}

/* W47: each way takes 200 ms. */
FLEET_TEST(a_slow_network_does_not_make_a_deadline_late)
{
    struct sim_worker *worker = work(server);
    worker->fault = SIM_SLOW;
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    item->timeout_ns = 10 * SECOND;
    worker->wake.count = 0;
    bl_semaphore_give(&worker->wake);
    while (item->deadline_ns == 0)
        bl_sleep(10 * MS);
    uint64_t claimed_ns = bl_now_ns();
    bl_sleep(11 * SECOND);
    CHECK_EQUAL(item->reason, BL_STOP_TIMEOUT);
    CHECK(item->stop_ns >= claimed_ns + 9500 * MS && item->stop_ns <= claimed_ns + 10200 * MS);
    CHECK_EQUAL(item->state, BL_FLEET_FAILED);
    CHECK_EQUAL(item->tries, 0);
}

/* ---- Drain ---- */

/* W29. */
FLEET_TEST(a_drained_worker_gives_back_what_does_not_end)
{
    struct sim_worker *first = work(server);
    struct sim_item *ends = sim_offer(server, 5 * SECOND), *stays = sim_offer(server, 20 * SECOND);
    bl_sleep(SECOND);
    struct sim_worker *second = work(server);
    bl_fleet_drain(first->worker);
    unsigned claims = first->claims;
    struct sim_item *later = sim_offer(server, SECOND);
    bl_sleep(DRAIN - 100 * MS);
    CHECK_EQUAL(ends->state, BL_FLEET_COMPLETED);
    CHECK_EQUAL(later->state, BL_FLEET_COMPLETED);
    CHECK_EQUAL(stays->stop_ns, 0);
    CHECK_EQUAL(first->result, 1);
    bl_sleep(500 * MS);
    CHECK_EQUAL(stays->reason, BL_STOP_SHUTDOWN);
    CHECK(sim_owner(server, stays) == second);
    CHECK_EQUAL(stays->deaths, 0);
    CHECK_EQUAL(stays->tries, 0);
    CHECK_EQUAL(first->claims, claims);
    CHECK_EQUAL(first->result, 0);
}

FLEET_TEST(a_second_drain_stops_at_once)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    item->linger_ns = GRACE / 2;
    bl_sleep(SECOND);
    bl_fleet_drain(worker->worker);
    bl_sleep(SECOND);
    CHECK_EQUAL(item->stop_ns, 0);
    bl_fleet_drain(worker->worker);
    bl_sleep(GRACE + 50 * MS);
    CHECK(item->stop_ns != 0);
    CHECK_EQUAL(item->state, BL_FLEET_QUEUED);
    bl_sleep(200 * MS);
    CHECK_EQUAL(worker->result, 0);
}

FLEET_TEST(the_store_can_drain_a_worker)
{
    struct sim_worker *worker = work(server);
    bl_sleep(RENEW / 2);
    worker->draining = true;
    bl_sleep(RENEW + 200 * MS);
    CHECK_EQUAL(worker->result, 0);
}

FLEET_TEST(an_idle_worker_drains)
{
    struct sim_worker *worker = sim_work(server, 2, DRAIN, 5 * SECOND);
    bl_sleep(3 * SECOND);
    struct sim_item *item = sim_offer(server, 20 * SECOND);
    bl_sleep(24 * SECOND);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
    CHECK_EQUAL(worker->result, 1);
    bl_sleep(2 * SECOND);
    CHECK_EQUAL(worker->result, 0);
}

/* An item whose claim has no answer is given back too. */
FLEET_TEST(a_drained_worker_gives_back_what_it_does_not_know)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, SECOND);
    worker->fault = SIM_LATE;
    bl_sleep(100 * MS);
    bl_fleet_drain(worker->worker);
    worker->fault = SIM_NONE;
    bl_sleep(2 * RENEW);
    CHECK_EQUAL(item->claims, 1);
    CHECK_EQUAL(item->runs, 0);
    CHECK_EQUAL(item->state, BL_FLEET_QUEUED);
    CHECK_EQUAL(worker->result, 0);
}

FLEET_TEST(a_stop_of_the_work_gives_the_items_back)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    bl_sleep(SECOND);
    bl_scope_stop(&worker->work, BL_STOP_SIGNAL, "SIGINT");
    bl_sleep(100 * MS);
    CHECK_EQUAL(item->state, BL_FLEET_QUEUED);
    CHECK_EQUAL(worker->result, BL_ECANCELED);
}

/* ---- Orders ---- */

FLEET_TEST(an_order_stops_an_item_and_is_answered)
{
    work(server);
    struct sim_item *gentle = sim_offer(server, 100 * SECOND);
    struct sim_item *rough = sim_offer(server, 100 * SECOND);
    gentle->linger_ns = 10 * MS;
    rough->linger_ns = GRACE;
    bl_sleep(RENEW / 2);
    sim_stop(server, gentle, false);
    sim_stop(server, rough, true);
    bl_sleep(GRACE + 150 * MS);
    CHECK_EQUAL(gentle->reason, BL_STOP_USER);
    CHECK_EQUAL(gentle->state, BL_FLEET_CANCELLED);
    CHECK_EQUAL(gentle->hurried, 0);
    check_fate(gentle, "aborted");
    CHECK_EQUAL(rough->hurried, 1);
    check_fate(rough, "killed");
    CHECK(strstr(rough->receipt, "rcp_1") != NULL);
    bl_sleep(5 * RENEW);
    CHECK_EQUAL(rough->hurried, 1);
}

FLEET_TEST(an_order_can_become_urgent)
{
    work(server);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    item->linger_ns = 3 * RENEW;
    bl_sleep(RENEW / 2);
    sim_stop(server, item, false);
    bl_sleep(RENEW);
    CHECK_EQUAL(item->hurried, 0);
    sim_stop(server, item, true);
    bl_sleep(RENEW);
    CHECK_EQUAL(item->hurried, 1);
}

/* The item is owned through a claim whose answer was lost. */
FLEET_TEST(an_order_for_an_item_that_never_ran_is_answered)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    worker->fault = SIM_LATE;
    bl_sleep(100 * MS);
    CHECK_EQUAL(item->claims, 1);
    sim_stop(server, item, false);
    worker->fault = SIM_NONE;
    bl_sleep(2 * RENEW);
    CHECK_EQUAL(item->state, BL_FLEET_CANCELLED);
    CHECK_EQUAL(item->runs, 0);
    check_fate(item, "never_started");
}

/* The item's end is on its way when it is stopped. */
FLEET_TEST(an_order_that_loses_the_race_is_answered)
{
    struct sim_worker *worker = work(server);
    worker->fault = SIM_SLOW;
    struct sim_item *item = sim_offer(server, 0);
    bl_semaphore_give(&worker->wake);
    while (item->runs == 0)
        bl_sleep(MS);
    bl_sleep(MS);
    sim_stop(server, item, false);
    bl_sleep(2 * RENEW);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
    check_fate(item, "finished");
}

/* A call to resume that arrives late gives the item another epoch: its end is refused, and it is still
 * owned. */
FLEET_TEST(an_order_waits_for_an_end_that_is_recorded)
{
    work(server);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    item->linger_ns = GRACE;
    bl_sleep(RENEW / 2);
    sim_stop(server, item, false);
    bl_sleep(GRACE / 2);
    item->epoch++;
    bl_sleep(GRACE / 2 + 10 * MS);
    bl_sleep(2 * RENEW);
    CHECK_EQUAL(item->state, BL_FLEET_CANCELLED);
    CHECK_EQUAL(item->runs, 1);
    CHECK_EQUAL(item->answers, 1);
}

FLEET_TEST(an_order_stops_a_part_or_a_session)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, 100 * SECOND);
    bl_sleep(100 * MS);
    static const struct {
        const char *item, *part, *fate;
    } orders[] = {
        {"run_1", "call_1", "killed"},
        {"run_1", "call_2", "finished"},
        {"session_1", NULL, "killed"},
        {"session_2", NULL, "finished"},
    };
    for (unsigned i = 0; i < BL_COUNT(orders); i++) {
        worker->order_part = orders[i].part;
        worker->order_item = orders[i].item;
        bl_sleep(3 * RENEW);
        CHECK(worker->order_item == NULL && strcmp(worker->order_fate, orders[i].fate) == 0);
    }
    CHECK_EQUAL(worker->part_stops, 2);
    CHECK_EQUAL(worker->session_stops, 2);
    CHECK_EQUAL(item->stop_ns, 0);
}

/* A part and the item that it is of are stopped at once: the try waits for the answer. */
FLEET_TEST(a_try_outlives_the_stop_of_its_part)
{
    struct sim_worker *worker = work(server);
    struct sim_item *item = sim_offer(server, RENEW + 50 * MS);
    worker->order_part = "call_1";
    worker->order_item = item->id;
    bl_sleep(3 * RENEW);
    CHECK_EQUAL(item->state, BL_FLEET_COMPLETED);
    CHECK(strcmp(worker->order_fate, "killed") == 0);
}

SUITE(worker, cmocka_unit_test(an_offered_item_is_run_at_once),
      cmocka_unit_test(a_worker_claims_no_more_than_its_slots),
      cmocka_unit_test(a_worker_that_is_not_woken_polls),
      cmocka_unit_test(a_claim_whose_answer_is_lost_is_taken_up_once),
      cmocka_unit_test(calls_that_fail_are_not_repeated_at_once),
      cmocka_unit_test(an_item_that_is_not_owned_any_more_is_stopped),
      cmocka_unit_test(two_tries_of_an_item_do_not_overlap),
      cmocka_unit_test(an_uneven_network_runs_each_item_once),
      cmocka_unit_test(an_end_without_an_answer_is_repeated),
      cmocka_unit_test(items_of_a_dead_worker_are_run_by_another),
      cmocka_unit_test(a_worker_that_was_taken_over_registers_again),
      cmocka_unit_test(a_worker_that_comes_back_continues_its_items),
      cmocka_unit_test(an_item_that_kills_its_workers_fails),
      cmocka_unit_test(a_failed_item_is_retried_with_delays),
      cmocka_unit_test(a_delay_is_at_most_ten_minutes),
      cmocka_unit_test(an_item_that_was_cancelled_is_not_retried),
      cmocka_unit_test(a_stop_is_no_reason_to_retry),
      cmocka_unit_test(a_slow_network_does_not_make_a_deadline_late),
      cmocka_unit_test(a_drained_worker_gives_back_what_does_not_end),
      cmocka_unit_test(a_second_drain_stops_at_once),
      cmocka_unit_test(the_store_can_drain_a_worker), cmocka_unit_test(an_idle_worker_drains),
      cmocka_unit_test(a_drained_worker_gives_back_what_it_does_not_know),
      cmocka_unit_test(a_stop_of_the_work_gives_the_items_back),
      cmocka_unit_test(an_order_stops_an_item_and_is_answered),
      cmocka_unit_test(an_order_can_become_urgent),
      cmocka_unit_test(an_order_for_an_item_that_never_ran_is_answered),
      cmocka_unit_test(an_order_that_loses_the_race_is_answered),
      cmocka_unit_test(an_order_waits_for_an_end_that_is_recorded),
      cmocka_unit_test(a_drain_over_an_uneven_network_ends_each_item_once),
      cmocka_unit_test(an_order_stops_a_part_or_a_session),
      cmocka_unit_test(a_try_outlives_the_stop_of_its_part));
