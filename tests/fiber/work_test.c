#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fibers.h"

#define MS BL_NS_PER_MS

struct sum {
    int a, b, result;
    pthread_t thread;
};

static void add(void *payload)
{
    struct sum *sum = payload;
    sum->result = sum->a + sum->b;
    sum->thread = pthread_self();
}

static int add_on_a_thread(void *argument)
{
    (void)argument;
    struct sum sum = {2, 3, 0, pthread_self()};
    bool abandoned;
    struct bl_work work = {.run = add, .payload = &sum};
    CHECK_EQUAL(bl_work_call(&work, &abandoned), 0);
    CHECK_EQUAL(sum.result, 5);
    CHECK(!pthread_equal(sum.thread, pthread_self()));
    return 0;
}

static void work_runs_on_another_thread(void **state)
{
    (void)state;
    run_in_loop(add_on_a_thread, NULL);
}

struct worker_facts {
    sigset_t mask;
    int detached;
    size_t stack_size;
};

static void look_at_thread(void *payload)
{
    struct worker_facts *facts = payload;
    pthread_attr_t attributes;
    pthread_sigmask(SIG_SETMASK, NULL, &facts->mask);
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getdetachstate(&attributes, &facts->detached);
    pthread_attr_getstacksize(&attributes, &facts->stack_size);
    pthread_attr_destroy(&attributes);
}

static int see_a_worker(void *argument)
{
    (void)argument;
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGWINCH};
    struct worker_facts facts;
    sigset_t before, after;
    bool abandoned;
    struct bl_work work = {.run = look_at_thread, .payload = &facts};
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    CHECK_EQUAL(bl_work_call(&work, &abandoned), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < BL_COUNT(signals); i++) {
        CHECK(sigismember(&facts.mask, signals[i]) == 1);
        CHECK_EQUAL(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
    CHECK_EQUAL(facts.detached, PTHREAD_CREATE_DETACHED);
    CHECK(facts.stack_size < 1024 * 1024);
    return 0;
}

static void a_worker_is_small_and_leaves_signals_to_the_program(void **state BL_UNUSED)
{
    run_in_loop(see_a_worker, NULL);
}

static int call_add(void *argument)
{
    struct sum *sum = argument;
    bool abandoned;
    struct bl_work work = {.run = add, .payload = sum};
    return bl_work_call(&work, &abandoned);
}

static int many_calls(void *argument)
{
    (void)argument;
    static struct sum sums[500];
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < 500; i++) {
        sums[i] = (struct sum){i, 1, 0, pthread_self()};
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "caller", call_add, &sums[i], NULL), 0);
    }
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    for (int i = 0; i < 500; i++)
        CHECK_EQUAL(sums[i].result, i + 1);
    bl_nursery_done(&nursery);
    return 0;
}

static void many_calls_share_a_few_threads(void **state)
{
    (void)state;
    run_in_loop(many_calls, NULL);
}

/* A call that runs until it is released. */
struct slow {
    _Atomic(bool) begun;
    _Atomic(bool) go;
    bool finished;
    bool dropped;
};

static void be_slow(void *payload)
{
    struct slow *slow = payload;
    atomic_store(&slow->begun, true);
    while (!atomic_load(&slow->go))
        usleep(500);
    slow->finished = true;
}

static void drop_slow(void *payload)
{
    struct slow *slow = payload;
    CHECK(slow->finished);
    slow->dropped = true;
}

static int call_slow(void *argument)
{
    bool abandoned = true;
    struct bl_work work = {.run = be_slow, .drop = drop_slow, .payload = argument};
    int code = bl_work_call(&work, &abandoned);
    CHECK(!abandoned);
    return code;
}

static int stop_does_not_wake(void *argument)
{
    struct slow *slow = argument;
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "caller", call_slow, slow, &fiber);
    while (!atomic_load(&slow->begun))
        bl_sleep(MS);
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_sleep(10 * MS), 0);
    CHECK(!bl_fiber_ended(fiber));
    atomic_store(&slow->go, true);
    int result = -1;
    CHECK_EQUAL(bl_fiber_join(fiber, &result), 0);
    CHECK_EQUAL(result, 0);
    CHECK(slow->finished && !slow->dropped);
    bl_nursery_done(&nursery);
    return 0;
}

static void a_stop_does_not_wake_the_caller_of_a_thread(void **state)
{
    (void)state;
    struct slow slow = {.finished = false};
    run_in_loop(stop_does_not_wake, &slow);
}

static int call_stoppable(void *argument)
{
    struct slow *slow = argument;
    bool abandoned = true;
    struct bl_work work = {
        .run = be_slow, .drop = drop_slow, .payload = slow, .abandon_on_stop = true};
    int code = bl_work_call(&work, &abandoned);
    CHECK(!abandoned && slow->finished && !slow->dropped);
    return code;
}

/* The work is done and the scope stopped before the loop has reported either to the caller. */
static int both_at_once(void *argument)
{
    struct slow *slow = argument;
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    int result = -1;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "caller", call_stoppable, slow, &fiber);
    while (!atomic_load(&slow->begun))
        bl_sleep(MS);
    atomic_store(&slow->go, true);
    usleep(50000);
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_fiber_join(fiber, &result), 0);
    CHECK_EQUAL(result, 0);
    bl_nursery_done(&nursery);
    return 0;
}

static void work_finished_in_the_turn_of_a_stop_returns_to_the_caller(void **state)
{
    (void)state;
    struct slow slow = {.finished = false};
    run_in_loop(both_at_once, &slow);
}

static int shield_ends_it(void *argument)
{
    struct slow *slow = argument;
    struct bl_scope shield;
    bool abandoned = false;
    struct bl_work work = {.run = be_slow, .drop = drop_slow, .payload = slow};
    bl_shield_begin(&shield, 20 * MS);
    CHECK_EQUAL(bl_work_call(&work, &abandoned), BL_ETIMEDOUT);
    bl_shield_end(&shield);
    CHECK(abandoned && !slow->finished);
    /* The stuck thread does not occupy a place in the pool. */
    struct sum sum = {1, 1, 0, pthread_self()};
    CHECK_EQUAL(call_add(&sum), 0);
    CHECK_EQUAL(sum.result, 2);
    return 0;
}

static void the_limit_of_a_shield_abandons_the_call_and_the_loop_is_kept_for_the_thread(
    void **state)
{
    (void)state;
    struct slow slow = {.finished = false};
    struct bl_loop *loop;
    struct bl_loop_options options = {.threads_max = 1};
    assert_int_equal(bl_loop_new(&options, &loop, NULL), 0);
    assert_int_equal(bl_loop_run(loop, "test", shield_ends_it, &slow), 0);
    assert_int_equal(bl_loop_free(loop), BL_EBUSY);
    assert_false(slow.dropped);
    atomic_store(&slow.go, true);
    while (bl_loop_free(loop) != 0)
        usleep(1000);
    assert_true(slow.finished && slow.dropped);
}

static int leave_the_queue(void *argument)
{
    struct slow *slow = argument;
    struct bl_nursery nursery;
    struct bl_scope scope;
    struct slow second = {.finished = false};
    bool abandoned = true;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "first", call_slow, slow, NULL);
    while (!atomic_load(&slow->begun))
        bl_sleep(MS);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 5 * MS);
    struct bl_scope *outer = bl_scope_enter(&scope);
    struct bl_work work = {
        .run = be_slow, .drop = drop_slow, .payload = &second, .abandon_on_stop = true};
    CHECK_EQUAL(bl_work_call(&work, &abandoned), BL_ETIMEDOUT);
    CHECK(!abandoned && !atomic_load(&second.begun));
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    atomic_store(&slow->go, true);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    return 0;
}

static void queued_work_is_withdrawn_at_a_stop(void **state)
{
    (void)state;
    struct slow slow = {.finished = false};
    struct bl_loop *loop;
    struct bl_loop_options options = {.threads_max = 1};
    assert_int_equal(bl_loop_new(&options, &loop, NULL), 0);
    assert_int_equal(bl_loop_run(loop, "test", leave_the_queue, &slow), 0);
    assert_int_equal(bl_loop_free(loop), 0);
}

/* Forbids new threads, or allows them again. The limit works only for an ordinary user. */
static void forbid_threads(bool forbidden)
{
    static struct rlimit before;
    struct rlimit limit;
    if (forbidden)
        getrlimit(RLIMIT_NPROC, &before);
    limit = before;
    if (forbidden)
        limit.rlim_cur = 1;
    CHECK_EQUAL(setrlimit(RLIMIT_NPROC, &limit), 0);
}

static int call_without_threads(void *argument)
{
    (void)argument;
    struct sum sum = {2, 2, 0, pthread_self()};
    struct slow slow = {.finished = false};
    struct bl_nursery nursery;
    struct bl_fiber *first, *second;
    int result = -1;
    forbid_threads(true);
    CHECK_EQUAL(call_add(&sum), BL_ETHREADS);
    CHECK_EQUAL(call_add(&sum), BL_ETHREADS);
    CHECK_EQUAL(sum.result, 0);
    forbid_threads(false);
    CHECK_EQUAL(call_add(&sum), 0);
    CHECK_EQUAL(sum.result, 4);
    /* With one thread, all calls run in turn. */
    forbid_threads(true);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "first", call_slow, &slow, &first);
    while (!atomic_load(&slow.begun))
        bl_sleep(MS);
    sum = (struct sum){3, 3, 0, pthread_self()};
    bl_nursery_spawn(&nursery, NULL, "second", call_add, &sum, &second);
    CHECK_EQUAL(bl_sleep(10 * MS), 0);
    CHECK(!bl_fiber_ended(second));
    atomic_store(&slow.go, true);
    CHECK_EQUAL(bl_fiber_join(second, &result), 0);
    CHECK_EQUAL(result, 0);
    CHECK_EQUAL(sum.result, 6);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    return 0;
}

static void without_a_thread_a_call_fails_and_with_one_it_waits_its_turn(void **state BL_UNUSED)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(60); /* a call that never returns fails the test too */
        if (getuid() == 0 && setresuid(64000, 64000, 64000) != 0)
            _exit(2);
        _exit(run_in_role(call_without_threads, NULL) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

struct meeting {
    int ends[2];
    bool met;
};

static void wait_there(void *payload)
{
    struct meeting *meeting = payload;
    struct pollfd poll_fd = {.fd = meeting->ends[0], .events = POLLIN};
    meeting->met = poll(&poll_fd, 1, 10000) == 1;
}

static void come_there(void *payload)
{
    struct meeting *meeting = payload;
    CHECK_EQUAL(write(meeting->ends[1], "x", 1), 1);
}

static int call_wait(void *argument)
{
    bool abandoned;
    return bl_work_call(&(struct bl_work){.run = wait_there, .payload = argument}, &abandoned);
}

/* One thread is idle when two calls come at once, and the first needs the second. */
static int two_at_once(void *argument)
{
    struct sum sum = {1, 1, 0, pthread_self()};
    struct meeting meeting;
    struct bl_nursery nursery;
    bool abandoned;
    (void)argument;
    CHECK_EQUAL(pipe2(meeting.ends, O_CLOEXEC), 0);
    CHECK_EQUAL(call_add(&sum), 0);
    bl_sleep(MS);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "first", call_wait, &meeting, NULL), 0);
    bl_yield();
    struct bl_work second = {.run = come_there, .payload = &meeting};
    CHECK_EQUAL(bl_work_call(&second, &abandoned), 0);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    CHECK(meeting.met);
    close(meeting.ends[0]);
    close(meeting.ends[1]);
    return 0;
}

static void no_call_waits_for_another_below_the_thread_limit(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        run_in_loop(two_at_once, NULL);
}

static void sleep_some(void *payload)
{
    usleep(*(useconds_t *)payload);
}

static int hold_time(void *argument)
{
    (void)argument;
    useconds_t pause_us = 3000;
    bool abandoned;
    uint64_t start_ns = bl_now_ns();
    struct bl_work work = {.run = sleep_some, .payload = &pause_us};
    CHECK_EQUAL(bl_work_call(&work, &abandoned), 0);
    CHECK_EQUAL(bl_now_ns(), start_ns);
    return 0;
}

static void virtual_time_does_not_advance_while_a_thread_works(void **state)
{
    (void)state;
    run_in_virtual_loop(1, hold_time, NULL);
}

SUITE(work, cmocka_unit_test(work_runs_on_another_thread),
      cmocka_unit_test(a_worker_is_small_and_leaves_signals_to_the_program),
      cmocka_unit_test(without_a_thread_a_call_fails_and_with_one_it_waits_its_turn),
      cmocka_unit_test(many_calls_share_a_few_threads),
      cmocka_unit_test(a_stop_does_not_wake_the_caller_of_a_thread),
      cmocka_unit_test(work_finished_in_the_turn_of_a_stop_returns_to_the_caller),
      cmocka_unit_test(the_limit_of_a_shield_abandons_the_call_and_the_loop_is_kept_for_the_thread),
      cmocka_unit_test(queued_work_is_withdrawn_at_a_stop),
      cmocka_unit_test(no_call_waits_for_another_below_the_thread_limit),
      cmocka_unit_test(virtual_time_does_not_advance_while_a_thread_works));
