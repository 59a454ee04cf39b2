/* A member on virtual time: its heartbeats, the end of its lease, and takeovers. */
#include "fleet/parts.h"
#include "simulation.h"

static enum bl_stop_reason reason_of(const struct sim_worker *worker)
{
    struct bl_stop stop;
    bl_scope_stop_read(&worker->work, &stop);
    return stop.reason;
}

FLEET_TEST(a_member_renews_its_lease)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    CHECK_EQUAL(worker->beats, 1);
    CHECK_EQUAL(worker->wardens_ns, sim_now(worker) + LEASE - SECOND);
    bl_sleep(10 * RENEW + 10 * MS);
    CHECK_EQUAL(worker->beats, 11);
    CHECK(worker->wardens_ns > sim_now(worker) + LEASE - SECOND - RENEW);
    CHECK_EQUAL(reason_of(worker), BL_STOP_NONE);
    CHECK(!bl_fleet_lost(worker->member));
}

/* The lease runs from the moment before the heartbeat was sent. */
FLEET_TEST(a_slow_network_does_not_lengthen_the_lease)
{
    struct sim_worker *worker = sim_add(server);
    worker->fault = SIM_SLOW;
    uint64_t sent_ns = sim_now(worker);
    sim_join(worker, GRACE);
    CHECK(sim_now(worker) >= sent_ns + 2 * SIM_SLOW_NS);
    CHECK_EQUAL(worker->wardens_ns, sent_ns + LEASE - SECOND);
    worker->fault = SIM_LOST;
    bl_sleep(sent_ns + LEASE - GRACE - 2 * SECOND + 20 * MS - sim_now(worker));
    CHECK_EQUAL(reason_of(worker), BL_STOP_LEASE_LOST);
}

FLEET_TEST(leaving_frees_the_wardens)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    bl_fleet_leave(worker->member);
    worker->member = NULL;
    CHECK_EQUAL(worker->wardens_ns, 0);
    bl_sleep(10 * LEASE);
    CHECK_EQUAL(worker->beats, 1);
}

/* Each heartbeat repeats the order until it is answered. */
FLEET_TEST(a_session_is_stopped_once_for_another_process)
{
    struct sim_worker *worker = sim_add(server);
    static const struct {
        const char *session, *fate;
    } orders[] = {{"session_1", "killed"}, {"session_2", "finished"}};
    sim_join(worker, GRACE);
    for (unsigned i = 0; i < BL_COUNT(orders); i++) {
        worker->order_item = orders[i].session;
        bl_sleep(3 * RENEW);
        CHECK(worker->order_item == NULL && strcmp(worker->order_fate, orders[i].fate) == 0);
    }
    CHECK_EQUAL(worker->session_stops, 2);
    CHECK_EQUAL(reason_of(worker), BL_STOP_NONE);
}

FLEET_TEST(a_stop_is_answered_before_its_member_leaves)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    worker->order_item = "session_1";
    bl_semaphore_give(&worker->wake);
    bl_sleep(200 * MS);
    bl_fleet_leave(worker->member);
    worker->member = NULL;
    CHECK(worker->order_item == NULL && strcmp(worker->order_fate, "killed") == 0);
}

FLEET_TEST(joining_fails_without_a_store)
{
    struct sim_worker *worker = sim_add(server);
    struct bl_fleet_member *member = NULL;
    worker->fault = SIM_LOST;
    struct bl_fleet_options options = {
        .store = &worker->table, .work = &worker->work, .now_ns = sim_now, .context = worker};
    CHECK_EQUAL(bl_fleet_join(&options, &member, NULL), BL_EIO);
    CHECK(member == NULL);
}

/* With each kind of silence of the store, the work is stopped in time and not before. */
static void cut_off_by(struct sim_server *server, enum sim_fault fault)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    bl_sleep(2 * RENEW + 10 * MS);
    uint64_t renewed_ns = worker->wardens_ns - LEASE + SECOND;
    worker->fault = fault;
    bl_sleep(renewed_ns + LEASE - GRACE - 2 * SECOND - sim_now(worker) - 20 * MS);
    CHECK_EQUAL(reason_of(worker), BL_STOP_NONE);
    bl_sleep(40 * MS);
    CHECK_EQUAL(reason_of(worker), BL_STOP_LEASE_LOST);
    CHECK(bl_fleet_lost(worker->member));
    /* The wardens' time does not move any more. */
    CHECK_EQUAL(worker->wardens_ns, renewed_ns + LEASE - SECOND);
}

FLEET_TEST(work_is_stopped_before_the_lease_ends)
{
    cut_off_by(server, SIM_LOST);
}

FLEET_TEST(work_is_stopped_while_a_heartbeat_has_no_answer)
{
    cut_off_by(server, SIM_SILENT);
}

FLEET_TEST(work_is_stopped_when_only_answers_are_lost)
{
    cut_off_by(server, SIM_LATE);
}

FLEET_TEST(a_short_outage_stops_nothing)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    for (int i = 0; i < 20; i++) {
        worker->fault = i % 2 == 0 ? SIM_LOST : SIM_SILENT;
        bl_sleep(LEASE / 3);
        worker->fault = SIM_NONE;
        bl_sleep(3 * RENEW);
    }
    CHECK_EQUAL(reason_of(worker), BL_STOP_NONE);
}

FLEET_TEST(work_is_stopped_at_once_after_a_takeover)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    bl_sleep(RENEW / 2);
    worker->lost = true;
    bl_sleep(RENEW);
    CHECK_EQUAL(reason_of(worker), BL_STOP_LEASE_LOST);
}

/* However long the pause between heartbeats is. */
FLEET_TEST(a_lost_heartbeat_is_repeated_at_once)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    bl_sleep(RENEW / 2);
    worker->fault = SIM_LOST;
    bl_sleep(RENEW / 2 + 10 * MS);
    worker->fault = SIM_NONE;
    bl_sleep(100 * MS);
    CHECK_EQUAL(worker->beats, 2);
    CHECK(worker->wardens_ns > sim_now(worker) + LEASE - SECOND - 100 * MS);
}

/* The clock that counts suspended time continues; the sleep does not. */
FLEET_TEST(work_is_stopped_when_the_machine_wakes_after_its_lease)
{
    struct sim_worker *worker = sim_add(server);
    sim_join(worker, GRACE);
    bl_sleep(RENEW / 2);
    worker->fault = SIM_LOST;
    worker->jump_ns = 10 * LEASE;
    bl_sleep(RENEW);
    CHECK_EQUAL(reason_of(worker), BL_STOP_LEASE_LOST);
}

/* ---- Takeovers ---- */

FLEET_TEST(a_silent_worker_is_taken_over_after_its_lease)
{
    struct sim_worker *worker = sim_add(server), *silent = sim_add(server);
    sim_join(worker, GRACE);
    sim_join(silent, GRACE);
    bl_sleep(RENEW / 2);
    silent->fault = SIM_LOST;
    uint64_t from_ns = bl_now_ns();
    bl_sleep(LEASE + SECOND - RENEW);
    CHECK(!silent->lost);
    bl_sleep(6 * RENEW);
    CHECK(silent->lost && silent->lost_ns - from_ns >= LEASE);
    CHECK_EQUAL(worker->taken, 1);
}

/* The call of a takeover is swallowed: the member's own heartbeats do not wait for it. */
FLEET_TEST(a_takeover_without_an_answer_delays_no_heartbeat)
{
    struct sim_worker *worker = sim_add(server), *silent = sim_add(server);
    sim_join(worker, GRACE);
    sim_join(silent, GRACE);
    silent->fault = SIM_LOST;
    worker->deaf = true;
    bl_sleep(4 * LEASE);
    CHECK(worker->tries > 0 && worker->taken == 0);
    CHECK_EQUAL(reason_of(worker), BL_STOP_NONE);
    worker->deaf = false;
    bl_sleep(2 * LEASE);
    CHECK(silent->lost);
}

FLEET_TEST(a_worker_that_beats_is_not_taken_over)
{
    struct sim_worker *worker = sim_add(server), *slow = sim_add(server);
    sim_join(worker, GRACE);
    sim_join(slow, GRACE);
    for (int i = 0; i < 20; i++) {
        slow->fault = SIM_LOST;
        bl_sleep(LEASE / 2);
        slow->fault = SIM_NONE;
        bl_sleep(2 * RENEW);
    }
    CHECK_EQUAL(worker->taken, 0);
    CHECK(!slow->lost);
}

/* After a break of the connection, or a new start of the server, a whole lease is observed again. */
FLEET_TEST(observations_begin_again_with_each_connection)
{
    struct sim_worker *worker = sim_add(server), *silent = sim_add(server);
    sim_join(worker, GRACE);
    sim_join(silent, GRACE);
    silent->fault = SIM_LOST;
    for (int i = 0; i < 5; i++) {
        bl_sleep(LEASE);
        if (i % 2 == 0)
            worker->connection++;
        else
            server->starts++;
    }
    CHECK(!silent->lost);
    bl_sleep(LEASE + 6 * RENEW);
    CHECK(silent->lost);
}

/* ---- Silence ---- */

static void note(struct fleet_watch *watch, uint64_t beat, uint64_t connection, uint64_t now_ns)
{
    struct bl_fleet_silent silent = {.worker = "w", .beat = beat};
    struct bl_fleet_beat answer = {.connection = connection};
    bl_list_init(&answer.silent);
    bl_list_push_back(&answer.silent, &silent.link);
    fleet_watch_note(watch, &answer, now_ns);
}

static void silence_is_that_of_one_heartbeat(void **state BL_UNUSED)
{
    struct fleet_watch watch;
    struct bl_fleet_beat none = {.connection = 1};
    bl_list_init(&none.silent);
    fleet_watch_init(&watch);
    note(&watch, 1, 1, 10);
    assert_null(fleet_watch_take(&watch, 10, 19));
    /* Another heartbeat, another connection, and a worker that is not silent begin it again. */
    note(&watch, 2, 1, 19);
    assert_null(fleet_watch_take(&watch, 10, 28));
    note(&watch, 2, 2, 28);
    assert_null(fleet_watch_take(&watch, 10, 37));
    none.connection = 2;
    fleet_watch_note(&watch, &none, 37);
    note(&watch, 2, 2, 38);
    assert_null(fleet_watch_take(&watch, 10, 47));
    struct fleet_silence *silence = fleet_watch_take(&watch, 10, 48);
    assert_non_null(silence);
    assert_string_equal(silence->worker, "w");
    assert_int_equal(silence->beat, 2);
    bl_free(silence);
    assert_null(fleet_watch_take(&watch, 0, 100));
    fleet_watch_done(&watch);
}

SUITE(member, cmocka_unit_test(silence_is_that_of_one_heartbeat),
      cmocka_unit_test(a_slow_network_does_not_lengthen_the_lease),
      cmocka_unit_test(a_member_renews_its_lease), cmocka_unit_test(leaving_frees_the_wardens),
      cmocka_unit_test(a_session_is_stopped_once_for_another_process),
      cmocka_unit_test(a_stop_is_answered_before_its_member_leaves),
      cmocka_unit_test(joining_fails_without_a_store),
      cmocka_unit_test(work_is_stopped_before_the_lease_ends),
      cmocka_unit_test(work_is_stopped_while_a_heartbeat_has_no_answer),
      cmocka_unit_test(work_is_stopped_when_only_answers_are_lost),
      cmocka_unit_test(a_short_outage_stops_nothing),
      cmocka_unit_test(a_lost_heartbeat_is_repeated_at_once),
      cmocka_unit_test(work_is_stopped_at_once_after_a_takeover),
      cmocka_unit_test(work_is_stopped_when_the_machine_wakes_after_its_lease),
      cmocka_unit_test(a_silent_worker_is_taken_over_after_its_lease),
      cmocka_unit_test(a_takeover_without_an_answer_delays_no_heartbeat),
      cmocka_unit_test(a_worker_that_beats_is_not_taken_over),
      cmocka_unit_test(observations_begin_again_with_each_connection));
