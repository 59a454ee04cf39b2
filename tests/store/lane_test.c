/* Lanes, with jobs of the test instead of a store. */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "helpers.h"

struct desk {
    struct store_lane lane;
    _Atomic bool closed; /* the thread waits */
    _Atomic int begun;   /* batches that the thread has taken */
    _Atomic int batches;
    _Atomic int jobs;
    _Atomic int largest;
    char order[64]; /* numbers of the first jobs, with a bar after each batch */
    size_t order_size;
};

static void put_down(struct desk *desk, char sign)
{
    if (desk->order_size < sizeof desk->order - 1)
        desk->order[desk->order_size++] = sign;
}

/* Runs jobs; every third one is refused. */
static void run_jobs(void *context, struct bl_list *jobs)
{
    struct desk *desk = context;
    int count = 0;
    atomic_fetch_add(&desk->begun, 1);
    while (atomic_load(&desk->closed))
        usleep(200);
    BL_LIST_EACH (link, jobs) {
        struct store_write *write =
            BL_CONTAINER(BL_CONTAINER(link, struct store_job, link), struct store_write, job);
        write->job.code = write->wall_ns % 3 == 0 ? BL_EEXIST : 0;
        if (write->job.code != 0)
            bl_error_set(&write->job.error, BL_EEXIST, BL_KIND_SESSION, "test", NULL,
                         "every third");
        count++;
        put_down(desk, (char)('0' + write->wall_ns));
    }
    put_down(desk, '|');
    atomic_fetch_add(&desk->batches, 1);
    atomic_fetch_add(&desk->jobs, count);
    if (count > atomic_load(&desk->largest))
        atomic_store(&desk->largest, count);
}

/* Waits until the thread has taken a batch, however busy the machine is. */
static void desk_await_begun(struct desk *desk)
{
    while (atomic_load(&desk->begun) == 0)
        CHECK_EQUAL(bl_sleep(MS), 0);
}

static void desk_init(struct desk *desk)
{
    *desk = (struct desk){0};
    store_lane_init(&desk->lane, "here", STORE_BATCH_JOBS_MAX, run_jobs, desk);
}

struct caller {
    struct desk *desk;
    int64_t number;
    size_t weight;
    bool urgent;
    uint64_t limit_ns; /* of a shield; 0: none */
    uint64_t linger_ns;
    enum store_lane_end end;
    int code;
    struct bl_error error;
};

static int call(void *argument)
{
    struct caller *caller = argument;
    struct bl_scope shield;
    struct store_write *write = store_job_new(STORE_RENEW, sizeof *write);
    write->wall_ns = caller->number;
    write->job.weight = caller->weight;
    write->job.urgent = caller->urgent;
    write->job.linger_ns = caller->linger_ns;
    if (caller->limit_ns != 0)
        bl_shield_begin(&shield, caller->limit_ns);
    caller->end = store_lane_call(&caller->desk->lane, &write->job, &caller->code, &caller->error);
    if (caller->limit_ns != 0)
        bl_shield_end(&shield);
    store_job_leave(&write->job);
    return 0;
}

static int everyone_gets_their_own_answer_body(void *argument BL_UNUSED)
{
    enum {
        COUNT = 700
    };
    struct desk desk;
    struct bl_nursery nursery;
    struct caller *callers = bl_zalloc(COUNT * sizeof *callers);
    desk_init(&desk);
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < COUNT; i++) {
        callers[i] = (struct caller){.desk = &desk, .number = i};
        bl_nursery_spawn(&nursery, NULL, "caller", call, &callers[i], NULL);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQUAL(callers[i].end, STORE_ANSWERED);
        CHECK_EQUAL(callers[i].code, i % 3 == 0 ? BL_EEXIST : 0);
        CHECK_EQUAL(callers[i].error.code, callers[i].code);
    }
    CHECK_EQUAL(desk.jobs, COUNT);
    CHECK(desk.batches < 10);
    CHECK(desk.largest <= STORE_BATCH_JOBS_MAX);
    CHECK(store_lane_close(&desk.lane));
    bl_free(callers);
    return 0;
}

static int batches_are_bounded_by_bytes_body(void *argument BL_UNUSED)
{
    struct desk desk;
    struct bl_nursery nursery;
    struct caller callers[6];
    desk_init(&desk);
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(callers); i++) {
        callers[i] =
            (struct caller){.desk = &desk, .number = 1, .weight = STORE_BATCH_BYTES_MAX / 2};
        bl_nursery_spawn(&nursery, NULL, "caller", call, &callers[i], NULL);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(desk.jobs, BL_COUNT(callers));
    CHECK_EQUAL(desk.largest, 2);
    CHECK(store_lane_close(&desk.lane));
    return 0;
}

/* Urgent jobs go ahead, in order; then all others have their turn, urgent or not. */
static int urgent_jobs_go_ahead_body(void *argument BL_UNUSED)
{
    static const struct {
        int64_t number;
        bool urgent;
    } jobs[] = {{1, false}, {2, false}, {4, true}, {5, false}, {7, true}, {8, true}};
    struct desk desk;
    struct bl_nursery nursery;
    struct caller callers[BL_COUNT(jobs)];
    desk_init(&desk);
    desk.lane.jobs_max = 2;
    atomic_store(&desk.closed, true);
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(callers); i++) {
        callers[i] =
            (struct caller){.desk = &desk, .number = jobs[i].number, .urgent = jobs[i].urgent};
        bl_nursery_spawn(&nursery, NULL, "caller", call, &callers[i], NULL);
        if (i == 0)
            desk_await_begun(&desk);
    }
    CHECK_EQUAL(bl_sleep(5 * MS), 0);
    atomic_store(&desk.closed, false);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    if (!CHECK(strcmp(desk.order, "1|47|25|8|") == 0))
        fprintf(stderr, "%s\n", desk.order);
    CHECK(store_lane_close(&desk.lane));
    return 0;
}

/* The leader leaves while the thread hangs. A job that waits in the same batch is answered
 * nevertheless, a queued one whose caller leaves is not run, and a late one is refused at once. */
static int leaving_callers_do_not_affect_others_body(void *argument BL_UNUSED)
{
    struct desk desk;
    struct bl_nursery nursery;
    struct caller leader = {.desk = &desk, .number = 1, .limit_ns = 500 * MS};
    struct caller patient = {.desk = &desk, .number = 1};
    struct caller hasty = {.desk = &desk, .number = 1, .limit_ns = 20 * MS};
    struct caller late = {.desk = &desk, .number = 1};
    desk_init(&desk);
    desk.lane.stuck_after_ns = 100 * MS;
    atomic_store(&desk.closed, true);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "leader", call, &leader, NULL);
    bl_nursery_spawn(&nursery, NULL, "patient", call, &patient, NULL);
    desk_await_begun(&desk);
    bl_nursery_spawn(&nursery, NULL, "hasty", call, &hasty, NULL);
    CHECK_EQUAL(bl_sleep(700 * MS), 0);
    CHECK_EQUAL(leader.end, STORE_NO_ANSWER);
    CHECK_EQUAL(leader.code, BL_ETIMEDOUT);
    CHECK_EQUAL(hasty.end, STORE_NOT_RUN);
    CHECK_EQUAL(hasty.code, BL_ETIMEDOUT);
    call(&late);
    CHECK_EQUAL(late.end, STORE_NOT_RUN);
    CHECK_EQUAL(late.code, BL_EBUSY);
    CHECK_EQUAL(late.error.kind, BL_KIND_FILESYSTEM);
    CHECK(!store_lane_close(&desk.lane));
    atomic_store(&desk.closed, false);
    bl_nursery_join(&nursery);
    CHECK_EQUAL(patient.end, STORE_ANSWERED);
    CHECK_EQUAL(patient.code, 0);
    late.error = (struct bl_error){0};
    call(&late);
    CHECK_EQUAL(late.end, STORE_ANSWERED);
    CHECK_EQUAL(desk.jobs, 3);
    bl_nursery_done(&nursery);
    CHECK(store_lane_close(&desk.lane));
    return 0;
}

/* Two jobs are running when a stop comes: one of the callers lingers for the answer. */
static int lingering_caller_gets_its_answer_body(void *argument BL_UNUSED)
{
    struct desk desk;
    struct bl_nursery nursery;
    struct caller plain = {.desk = &desk, .number = 1};
    struct caller lingering = {.desk = &desk, .number = 1, .linger_ns = 60 * BL_NS_PER_S};
    desk_init(&desk);
    atomic_store(&desk.closed, true);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "plain", call, &plain, NULL);
    bl_nursery_spawn(&nursery, NULL, "lingering", call, &lingering, NULL);
    desk_await_begun(&desk);
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_sleep(5 * MS), 0);
    CHECK_EQUAL(plain.end, STORE_NO_ANSWER);
    CHECK_EQUAL(plain.code, BL_ECANCELED);
    atomic_store(&desk.closed, false);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(lingering.end, STORE_ANSWERED);
    CHECK_EQUAL(lingering.code, 0);
    CHECK(store_lane_close(&desk.lane));
    return 0;
}

/* An urgent job is stopped before it has started: it did not go ahead, so another one may. */
static int caller_that_leaves_before_the_batch_did_not_go_ahead_body(void *argument BL_UNUSED)
{
    struct desk desk;
    struct bl_nursery leaving, staying;
    struct caller gone = {.desk = &desk, .number = 1, .urgent = true};
    struct caller plain = {.desk = &desk, .number = 2};
    struct caller urgent = {.desk = &desk, .number = 4, .urgent = true};
    desk_init(&desk);
    bl_nursery_init(&leaving, bl_scope_current());
    bl_nursery_init(&staying, bl_scope_current());
    bl_nursery_spawn(&leaving, NULL, "gone", call, &gone, NULL);
    bl_nursery_spawn(&staying, NULL, "plain", call, &plain, NULL);
    bl_nursery_spawn(&staying, NULL, "urgent", call, &urgent, NULL);
    while (desk.lane.leader == NULL)
        CHECK_EQUAL(bl_yield(), 0);
    bl_scope_stop(&leaving.scope, BL_STOP_USER, "test");
    bl_nursery_join(&staying);
    bl_nursery_done(&staying);
    bl_nursery_done(&leaving);
    CHECK_EQUAL(gone.end, STORE_NOT_RUN);
    CHECK_EQUAL(gone.code, BL_ECANCELED);
    if (!CHECK(strcmp(desk.order, "4|2|") == 0))
        fprintf(stderr, "%s\n", desk.order);
    CHECK(store_lane_close(&desk.lane));
    return 0;
}

/* Closing waits for a batch until that is stuck, and no longer. */
static int a_close_waits_no_longer_than_a_batch_may_take_body(void *argument BL_UNUSED)
{
    struct desk desk;
    struct bl_nursery nursery;
    struct caller caller = {.desk = &desk, .number = 1, .limit_ns = 200 * MS};
    desk_init(&desk);
    desk.lane.stuck_after_ns = 500 * MS;
    atomic_store(&desk.closed, true);
    uint64_t start_ns = bl_now_ns();
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "caller", call, &caller, NULL);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(caller.end, STORE_NO_ANSWER);
    CHECK_EQUAL(bl_sleep(250 * MS), 0);
    uint64_t asked_ns = bl_now_ns();
    CHECK(!store_lane_close(&desk.lane));
    CHECK(bl_now_ns() - start_ns >= 500 * MS);
    CHECK(bl_now_ns() - asked_ns < 500 * MS);
    atomic_store(&desk.closed, false);
    desk.lane.stuck_after_ns = 60 * BL_NS_PER_S;
    CHECK(store_lane_close(&desk.lane));
    return 0;
}

/* Many callers come and leave at random while the thread is slow and fast. */
static int come_and_go(void *argument)
{
    struct caller *caller = argument;
    struct bl_random random;
    bl_random_seed(&random, (uint64_t)caller->number);
    unsigned long rounds = suite_rounds(40, 2000);
    for (unsigned long i = 0; i < rounds; i++) {
        caller->error = (struct bl_error){0};
        caller->limit_ns = bl_random_below(&random, 2) == 0 ? 0 : 1 + bl_random_below(&random, MS);
        caller->urgent = bl_random_below(&random, 3) == 0;
        call(caller);
        if (caller->end == STORE_ANSWERED)
            CHECK_EQUAL(caller->code, caller->number % 3 == 0 ? BL_EEXIST : 0);
        else
            CHECK_EQUAL(caller->code, BL_ETIMEDOUT);
        if (bl_random_below(&random, 20) == 0)
            atomic_store(&caller->desk->closed, bl_random_below(&random, 2) == 0);
        if (caller->number == 0)
            atomic_store(&caller->desk->closed, false);
        bl_yield();
    }
    atomic_store(&caller->desk->closed, false);
    return 0;
}

/* Ensures that the thread is not blocked for good. */
static int keep_open(void *argument)
{
    struct desk *desk = argument;
    while (bl_sleep(2 * MS) == 0)
        atomic_store(&desk->closed, false);
    return 0;
}

static int callers_come_and_go_body(void *argument BL_UNUSED)
{
    struct desk desk;
    struct bl_nursery nursery, keeper;
    enum {
        COUNT = 24
    };
    struct caller *callers = bl_zalloc(COUNT * sizeof *callers);
    desk_init(&desk);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_init(&keeper, bl_scope_current());
    bl_nursery_spawn(&keeper, NULL, "keeper", keep_open, &desk, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        callers[i] = (struct caller){.desk = &desk, .number = (int64_t)i};
        bl_nursery_spawn(&nursery, NULL, "caller", come_and_go, &callers[i], NULL);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    bl_nursery_done(&keeper);
    atomic_store(&desk.closed, false);
    CHECK(store_lane_close(&desk.lane));
    bl_free(callers);
    return 0;
}

static void everyone_gets_their_own_answer(void **state BL_UNUSED)
{
    run_in_loop(everyone_gets_their_own_answer_body, NULL);
}

static void batches_are_bounded_by_bytes(void **state BL_UNUSED)
{
    run_in_loop(batches_are_bounded_by_bytes_body, NULL);
}

static void leaving_callers_do_not_affect_others(void **state BL_UNUSED)
{
    run_in_loop(leaving_callers_do_not_affect_others_body, NULL);
}

static void urgent_jobs_go_ahead(void **state BL_UNUSED)
{
    run_in_loop(urgent_jobs_go_ahead_body, NULL);
}

static void lingering_caller_gets_its_answer(void **state BL_UNUSED)
{
    run_in_loop(lingering_caller_gets_its_answer_body, NULL);
}

static void caller_that_leaves_before_the_batch_did_not_go_ahead(void **state BL_UNUSED)
{
    run_in_loop(caller_that_leaves_before_the_batch_did_not_go_ahead_body, NULL);
}

static void a_close_waits_no_longer_than_a_batch_may_take(void **state BL_UNUSED)
{
    run_in_loop(a_close_waits_no_longer_than_a_batch_may_take_body, NULL);
}

static void callers_come_and_go(void **state BL_UNUSED)
{
    run_in_loop(callers_come_and_go_body, NULL);
}

SUITE(lane, cmocka_unit_test(everyone_gets_their_own_answer),
      cmocka_unit_test(batches_are_bounded_by_bytes), cmocka_unit_test(urgent_jobs_go_ahead),
      cmocka_unit_test(leaving_callers_do_not_affect_others),
      cmocka_unit_test(caller_that_leaves_before_the_batch_did_not_go_ahead),
      cmocka_unit_test(a_close_waits_no_longer_than_a_batch_may_take),
      cmocka_unit_test(lingering_caller_gets_its_answer), cmocka_unit_test(callers_come_and_go));
