/* The seven rules, by name. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "fibers.h"

#define MS BL_NS_PER_MS

/* ---- Rule 1: level-triggered ---- */

static int every_wait_returns_at_once(void *argument)
{
    (void)argument;
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    struct bl_lock lock;
    struct bl_semaphore semaphore;
    struct bl_nursery nursery;
    int pipe_ends[2];
    bl_lock_init(&lock);
    bl_semaphore_init(&semaphore, 1);
    CHECK_EQUAL(pipe(pipe_ends), 0);
    struct bl_descriptor *descriptor;
    struct bl_signal *signal;
    CHECK_EQUAL(bl_descriptor_new(pipe_ends[0], &descriptor), 0);
    CHECK_EQUAL(bl_signal_new(SIGUSR2, &signal), 0);
    bl_nursery_init(&nursery, bl_scope_current());

    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK(bl_scope_stop(&scope, BL_STOP_USER, "test"));
    for (int i = 0; i < 3; i++) {
        bool abandoned = true;
        struct bl_work work = {.run = NULL};
        CHECK_EQUAL(bl_sleep(3600 * BL_NS_PER_S), BL_ECANCELED);
        CHECK_EQUAL(bl_sleep(0), BL_ECANCELED);
        CHECK_EQUAL(bl_yield(), BL_ECANCELED);
        CHECK_EQUAL(bl_lock_take(&lock), BL_ECANCELED);
        CHECK_EQUAL(bl_semaphore_take(&semaphore), BL_ECANCELED);
        CHECK_EQUAL(bl_descriptor_wait(descriptor, BL_READABLE, NULL), BL_ECANCELED);
        CHECK_EQUAL(bl_signal_wait(signal, NULL), BL_ECANCELED);
        CHECK_EQUAL(bl_work_call(&work, &abandoned), BL_ECANCELED);
        CHECK(!abandoned);
        CHECK_EQUAL(bl_check(), BL_ECANCELED);
    }
    bl_scope_enter(outer);
    CHECK_EQUAL(bl_sleep(1), 0);

    bl_nursery_done(&nursery);
    bl_signal_free(signal);
    bl_descriptor_free(descriptor);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    bl_scope_done(&scope);
    return 0;
}

static void rule_1_level_triggered_every_wait_returns_at_once_each_time(void **state)
{
    (void)state;
    run_in_loop(every_wait_returns_at_once, NULL);
}

static int sleep_long(void *argument)
{
    int *result = argument;
    *result = bl_sleep(3600 * BL_NS_PER_S);
    return *result;
}

static int stop_wakes_parked(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    int result = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "sleeper", sleep_long, &result, NULL), 0);
    CHECK_EQUAL(bl_sleep(5 * MS), 0);
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(result, BL_ECANCELED);
    bl_nursery_done(&nursery);
    return 0;
}

static void rule_1_a_stop_wakes_parked_fibers(void **state)
{
    (void)state;
    run_in_loop(stop_wakes_parked, NULL);
}

/* ---- Rule 2: first reason wins ---- */

static int first_reason_stays(void *argument)
{
    (void)argument;
    struct bl_scope scope;
    struct bl_stop stop;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop_read(&scope, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_NONE);
    uint64_t before_ns = bl_now_ns();
    CHECK(bl_scope_stop(&scope, BL_STOP_CLIENT_GONE, "first"));
    CHECK(!bl_scope_stop(&scope, BL_STOP_USER, "second"));
    bl_scope_stop_read(&scope, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_CLIENT_GONE);
    CHECK_EQUAL(strcmp(stop.origin, "first"), 0);
    CHECK(stop.time_ns >= before_ns && stop.time_ns <= bl_now_ns());
    bl_scope_done(&scope);
    return 0;
}

static void rule_2_first_reason_wins(void **state)
{
    (void)state;
    run_in_loop(first_reason_stays, NULL);
}

static int long_origins_are_cut(void *argument)
{
    (void)argument;
    struct bl_scope scope;
    struct bl_stop stop;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü");
    bl_scope_stop_read(&scope, &stop);
    CHECK_EQUAL(strlen(stop.origin), 78);
    CHECK(bl_utf8_valid(bl_text_from(stop.origin)));
    bl_scope_done(&scope);
    /* Without any character boundary, nothing is kept. */
    char middles[200];
    memset(middles, 0x80, sizeof middles - 1);
    middles[sizeof middles - 1] = '\0';
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, middles);
    bl_scope_stop_read(&scope, &stop);
    CHECK_EQUAL(strlen(stop.origin), 0);
    bl_scope_done(&scope);
    return 0;
}

static void rule_2_an_origin_is_truncated_at_a_character(void **state)
{
    (void)state;
    run_in_loop(long_origins_are_cut, NULL);
}

/* Stops one scope from 8 threads and a signal handler at once, repeatedly. */
struct storm {
    struct bl_scope scope;
    pthread_barrier_t start;
    _Atomic(int) winners;
    _Atomic(bool) over;
};

static struct storm *storm_of_handler;

static void stop_in_handler(int number)
{
    (void)number;
    int saved = errno;
    errno = EDOM;
    if (bl_scope_stop(&storm_of_handler->scope, BL_STOP_SIGNAL, "SIGALRM"))
        atomic_fetch_add(&storm_of_handler->winners, 1);
    if (errno != EDOM)
        abort();
    errno = saved;
}

static void *stop_many_times(void *argument)
{
    struct storm *storm = argument;
    for (;;) {
        pthread_barrier_wait(&storm->start);
        if (atomic_load(&storm->over))
            return NULL;
        for (int i = 0; i < 125; i++)
            if (bl_scope_stop(&storm->scope, BL_STOP_USER, "thread"))
                atomic_fetch_add(&storm->winners, 1);
        pthread_barrier_wait(&storm->start);
    }
}

static int storm_round(struct storm *storm)
{
    struct bl_nursery nursery;
    int result = 0;
    bl_scope_init(&storm->scope, bl_scope_current());
    bl_nursery_init(&nursery, &storm->scope);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "sleeper", sleep_long, &result, NULL), 0);
    CHECK_EQUAL(bl_yield(), 0);
    atomic_store(&storm->winners, 0);
    pthread_barrier_wait(&storm->start);
    raise(SIGALRM);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(result, BL_ECANCELED);
    pthread_barrier_wait(&storm->start);
    CHECK_EQUAL(atomic_load(&storm->winners), 1);
    struct bl_stop stop;
    bl_scope_stop_read(&storm->scope, &stop);
    CHECK(strcmp(stop.origin, stop.reason == BL_STOP_SIGNAL ? "SIGALRM" : "thread") == 0);
    bl_nursery_done(&nursery);
    bl_scope_done(&storm->scope);
    return 0;
}

static int storm_main(void *argument)
{
    struct storm *storm = argument;
    for (unsigned long i = 0; i < suite_rounds(200, 5000); i++)
        storm_round(storm);
    return 0;
}

static void rule_2_stops_from_8_threads_and_a_signal_handler_at_once_have_one_winner(void **state)
{
    (void)state;
    static struct storm storm;
    pthread_t threads[8];
    struct sigaction action = {.sa_handler = stop_in_handler}, before;
    storm_of_handler = &storm;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    pthread_barrier_init(&storm.start, NULL, BL_COUNT(threads) + 1);
    for (size_t i = 0; i < BL_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stop_many_times, &storm), 0);
    run_in_loop(storm_main, &storm);
    atomic_store(&storm.over, true);
    pthread_barrier_wait(&storm.start);
    for (size_t i = 0; i < BL_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&storm.start);
    sigaction(SIGALRM, &before, NULL);
}

static int wait_for_handler(void *argument)
{
    struct storm *storm = argument;
    bl_scope_init(&storm->scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&storm->scope);
    struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK_EQUAL(bl_sleep(3600 * BL_NS_PER_S), BL_ECANCELED);
    bl_scope_enter(outer);
    bl_scope_done(&storm->scope);
    return 0;
}

static void rule_2_a_signal_handler_wakes_a_sleeping_loop(void **state)
{
    (void)state;
    static struct storm storm;
    struct sigaction action = {.sa_handler = stop_in_handler}, before;
    storm_of_handler = &storm;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    run_in_loop(wait_for_handler, &storm);
    sigaction(SIGALRM, &before, NULL);
}

/* ---- Rule 3: down, never up ---- */

static int stops_go_down(void *argument)
{
    (void)argument;
    struct bl_scope parent, left, right, grandchild;
    struct bl_stop stop;
    bl_scope_init(&parent, bl_scope_current());
    bl_scope_init(&left, &parent);
    bl_scope_init(&right, &parent);
    bl_scope_init(&grandchild, &left);
    bl_scope_stop(&left, BL_STOP_USER, "left");
    /* Before the loop's next turn, and after. */
    for (int i = 0; i < 2; i++) {
        CHECK(bl_scope_stopped(&left) && bl_scope_stopped(&grandchild));
        CHECK(!bl_scope_stopped(&parent) && !bl_scope_stopped(&right));
        bl_scope_stop_read(&grandchild, &stop);
        CHECK_EQUAL(stop.reason, BL_STOP_PARENT);
        CHECK(strcmp(stop.origin, "left") == 0);
        CHECK_EQUAL(bl_yield(), 0);
        CHECK_EQUAL(bl_yield(), 0);
    }
    struct bl_scope late;
    bl_scope_init(&late, &grandchild);
    CHECK(bl_scope_stopped(&late));
    CHECK_EQUAL(bl_scope_claim(&late), BL_ECANCELED);
    bl_scope_done(&late);
    bl_scope_done(&grandchild);
    bl_scope_done(&left);
    bl_scope_done(&right);
    bl_scope_done(&parent);
    return 0;
}

static void rule_3_a_stop_goes_down_and_never_up_or_sideways(void **state)
{
    (void)state;
    run_in_loop(stops_go_down, NULL);
}

static int deadlines_are_inherited(void *argument)
{
    (void)argument;
    struct bl_scope parent, child;
    struct bl_stop stop;
    uint64_t start_ns = bl_now_ns();
    bl_scope_init(&parent, bl_scope_current());
    bl_scope_init(&child, &parent);
    CHECK_EQUAL(bl_scope_deadline_ns(&child), BL_NEVER);
    CHECK_EQUAL(bl_scope_set_deadline(&parent, start_ns + 50 * MS), 0);
    CHECK_EQUAL(bl_scope_set_deadline(&child, start_ns + 500 * MS), 0);
    CHECK_EQUAL(bl_scope_deadline_ns(&child), start_ns + 50 * MS);
    struct bl_scope *outer = bl_scope_enter(&child);
    CHECK_EQUAL(bl_sleep(3600 * BL_NS_PER_S), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_now_ns(), start_ns + 50 * MS);
    bl_scope_stop_read(&child, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_TIMEOUT);
    CHECK_EQUAL(stop.time_ns, start_ns + 50 * MS);
    bl_scope_enter(outer);
    bl_scope_done(&child);
    bl_scope_done(&parent);
    return 0;
}

static void rule_3_a_childs_deadline_is_never_later_than_its_parents(void **state)
{
    (void)state;
    run_in_virtual_loop(0, deadlines_are_inherited, NULL);
}

static int limits(void *argument)
{
    (void)argument;
    struct bl_scope limit, until, none, *outer = bl_scope_current();
    CHECK_EQUAL(bl_sleep(1000 * MS), 0);
    uint64_t start_ns = bl_now_ns();
    bl_limit_begin(&limit, 50 * MS);
    CHECK(bl_scope_current() == &limit);
    bl_limit_begin_until(&until, start_ns + 20 * MS);
    bl_limit_begin(&none, BL_NEVER);
    CHECK_EQUAL(bl_sleep(3600 * BL_NS_PER_S), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_now_ns(), start_ns + 20 * MS);
    bl_limit_end(&none);
    bl_limit_end(&until);
    CHECK(bl_scope_current() == &limit);
    CHECK_EQUAL(bl_sleep(3600 * BL_NS_PER_S), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_now_ns(), start_ns + 50 * MS);
    bl_limit_end(&limit);
    CHECK(bl_scope_current() == outer);
    CHECK_EQUAL(bl_sleep(MS), 0);
    return 0;
}

static void a_limit_ends_at_its_deadline_without_affecting_the_scope_above(void **state)
{
    (void)state;
    run_in_virtual_loop(0, limits, NULL);
}

static int deadlines_move(void *argument)
{
    (void)argument;
    struct bl_scope scope;
    uint64_t start_ns = bl_now_ns();
    bl_scope_init(&scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(bl_scope_set_deadline(&scope, start_ns + 10 * MS), 0);
    CHECK_EQUAL(bl_sleep(5 * MS), 0);
    CHECK_EQUAL(bl_scope_set_deadline(&scope, start_ns + 100 * MS), 0);
    CHECK_EQUAL(bl_sleep(50 * MS), 0);
    CHECK_EQUAL(bl_scope_set_deadline(&scope, BL_NEVER), 0);
    CHECK_EQUAL(bl_sleep(100 * MS), 0);
    CHECK_EQUAL(bl_scope_set_deadline(&scope, start_ns + 160 * MS), 0);
    CHECK_EQUAL(bl_sleep(3600 * BL_NS_PER_S), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_now_ns(), start_ns + 160 * MS);
    CHECK_EQUAL(bl_scope_set_deadline(&scope, BL_NEVER), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_sleep(1), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    return 0;
}

static void rule_3_a_deadline_moves_either_way_until_it_has_fired(void **state)
{
    (void)state;
    run_in_virtual_loop(0, deadlines_move, NULL);
}

static int odd_timeouts(void *argument)
{
    (void)argument;
    static const double refused[] = {
        -0.0, 1e300, -1e300, __builtin_inf(), -__builtin_inf(), __builtin_nan("")};
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(refused); i++) {
        struct bl_error error = {0};
        CHECK_EQUAL(bl_scope_set_timeout(&scope, refused[i], &error), BL_ERANGE);
        CHECK(error.message[0] != '\0' && error.hint[0] != '\0');
    }
    CHECK(!bl_scope_stopped(&scope));
    CHECK_EQUAL(bl_scope_set_timeout(&scope, 0.0, NULL), 0);
    CHECK_EQUAL(bl_scope_check(&scope), BL_ETIMEDOUT);
    bl_scope_done(&scope);
    bl_scope_init(&scope, bl_scope_current());
    CHECK_EQUAL(bl_scope_set_timeout(&scope, -5.0, NULL), 0);
    CHECK_EQUAL(bl_scope_check(&scope), BL_ETIMEDOUT);
    bl_scope_done(&scope);
    return 0;
}

static void rule_3_a_deadline_that_is_not_a_finite_number_is_an_error(void **state)
{
    (void)state;
    run_in_loop(odd_timeouts, NULL);
}

/* ---- Rule 4: join ---- */

static int linger(void *argument)
{
    int *stage = argument;
    struct bl_scope shield;
    bl_sleep(3600 * BL_NS_PER_S);
    bl_shield_begin(&shield, BL_NS_PER_S);
    CHECK_EQUAL(bl_sleep(30 * MS), 0);
    bl_shield_end(&shield);
    *stage = 1;
    return 7;
}

static int nursery_waits(void *argument)
{
    (void)argument;
    struct bl_scope scope;
    struct bl_nursery nursery;
    int stage = 0;
    bl_scope_init(&scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&scope);
    bl_nursery_init(&nursery, &scope);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "lingers", linger, &stage, NULL), 0);
    CHECK_EQUAL(bl_yield(), 0);
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_nursery_join(&nursery), BL_ECANCELED);
    CHECK_EQUAL(stage, 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(stage, 1);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    return 0;
}

static void rule_4_a_nursery_does_not_end_before_its_fibers(void **state)
{
    (void)state;
    run_in_virtual_loop(0, nursery_waits, NULL);
}

/* ---- Rule 5: shield ---- */

static int serve_shielded(void *argument)
{
    return bl_semaphore_take(argument);
}

/* A service lives until its owner ends it: a stop above does not reach its fibers. */
static int shield_serves(void *argument)
{
    (void)argument;
    struct bl_scope outer, shield;
    struct bl_nursery nursery;
    struct bl_semaphore end;
    struct bl_fiber *fiber;
    int result = 1;
    bl_semaphore_init(&end, 0);
    bl_scope_init(&outer, bl_scope_current());
    bl_shield_init(&shield, &outer);
    bl_nursery_init(&nursery, &shield);
    bl_nursery_spawn(&nursery, NULL, "service", serve_shielded, &end, &fiber);
    bl_scope_stop(&outer, BL_STOP_USER, "test");
    bl_sleep(5 * MS);
    CHECK(!bl_fiber_ended(fiber));
    bl_semaphore_give(&end);
    CHECK_EQUAL(bl_fiber_join(fiber, &result), 0);
    CHECK_EQUAL(result, 0);
    bl_nursery_done(&nursery);
    bl_scope_done(&shield);
    bl_scope_done(&outer);
    return 0;
}

static void a_shield_protects_the_fibers_of_a_service(void **state)
{
    (void)state;
    run_in_loop(shield_serves, NULL);
}

static int shield_holds(void *argument)
{
    (void)argument;
    struct bl_scope scope, shield, inner;
    bl_scope_init(&scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&scope);
    bl_scope_stop(&scope, BL_STOP_USER, "before");
    CHECK_EQUAL(bl_sleep(1), BL_ECANCELED);
    bl_shield_begin(&shield, 100 * MS);
    CHECK_EQUAL(bl_sleep(10 * MS), 0);
    bl_scope_init(&inner, &shield);
    bl_scope_enter(&inner);
    CHECK_EQUAL(bl_sleep(10 * MS), 0);
    CHECK(!bl_scope_stopped(&inner));
    uint64_t start_ns = bl_now_ns();
    CHECK_EQUAL(bl_sleep(3600 * BL_NS_PER_S), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_now_ns() - start_ns, 80 * MS);
    bl_scope_enter(&shield);
    bl_scope_done(&inner);
    bl_shield_end(&shield);
    CHECK_EQUAL(bl_sleep(1), BL_ECANCELED);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    return 0;
}

static void rule_5_a_stop_above_does_not_reach_a_shield_which_cannot_hang(void **state)
{
    (void)state;
    run_in_virtual_loop(0, shield_holds, NULL);
}

/* ---- Rule 6: claim ---- */

static int claim_is_final(void *argument)
{
    (void)argument;
    struct bl_scope loop_scope, turn, next, below;
    bl_scope_init(&loop_scope, bl_scope_current());
    bl_scope_init(&turn, &loop_scope);
    struct bl_scope *outer = bl_scope_enter(&turn);
    CHECK_EQUAL(bl_scope_set_deadline(&turn, bl_now_ns() + 5 * MS), 0);
    CHECK_EQUAL(bl_scope_claim(&turn), 0);
    CHECK_EQUAL(bl_scope_claim(&turn), BL_EBUSY);
    CHECK_EQUAL(bl_scope_set_deadline(&turn, 0), BL_EBUSY);
    CHECK_EQUAL(bl_scope_deadline_ns(&turn), BL_NEVER);
    CHECK(!bl_scope_stop(&turn, BL_STOP_USER, "late"));
    CHECK(bl_scope_stop(&loop_scope, BL_STOP_USER, "late"));
    CHECK(!bl_scope_stopped(&turn));
    /* Its waits, and those of the scopes below, wake neither for the stop nor for its deadline. */
    CHECK_EQUAL(bl_sleep(20 * MS), 0);
    bl_scope_init(&below, &turn);
    bl_scope_enter(&below);
    CHECK_EQUAL(bl_sleep(20 * MS), 0);
    bl_scope_enter(&turn);
    bl_scope_done(&below);
    CHECK_EQUAL(bl_check(), 0);
    bl_scope_enter(outer);
    bl_scope_done(&turn);
    /* The next turn below the stopped scope sees it. */
    bl_scope_init(&next, &loop_scope);
    CHECK_EQUAL(bl_scope_claim(&next), BL_ECANCELED);
    bl_scope_done(&next);
    bl_scope_done(&loop_scope);
    return 0;
}

static void rule_6_a_claimed_scope_cannot_be_stopped_and_its_waits_do_not_wake(void **state)
{
    (void)state;
    run_in_virtual_loop(0, claim_is_final, NULL);
}

static int claim_looks_up(void *argument)
{
    (void)argument;
    struct bl_scope above, turn;
    bl_scope_init(&above, bl_scope_current());
    bl_scope_init(&turn, &above);
    bl_scope_stop(&above, BL_STOP_USER, "above");
    CHECK_EQUAL(bl_scope_claim(&turn), BL_ECANCELED);
    struct bl_stop stop;
    bl_scope_stop_read(&turn, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_PARENT);
    bl_scope_done(&turn);
    bl_scope_done(&above);
    return 0;
}

static void rule_6_a_claim_does_not_overtake_a_stop_above_that_has_returned(void **state)
{
    (void)state;
    run_in_loop(claim_looks_up, NULL);
}

static int claim_looks_at_the_clock(void *argument)
{
    (void)argument;
    struct bl_scope above, turn;
    bl_scope_init(&above, bl_scope_current());
    bl_scope_init(&turn, &above);
    CHECK_EQUAL(bl_scope_set_deadline(&above, bl_now_ns() + 2 * MS), 0);
    struct bl_scope *outer = bl_scope_enter(&turn);
    /* The loop has no turn in which it could fire the deadline. */
    while (bl_now_ns() < bl_scope_deadline_ns(&above))
        CHECK(!bl_scope_stopped(&turn));
    CHECK_EQUAL(bl_scope_claim(&turn), BL_ETIMEDOUT);
    CHECK(bl_scope_stopped(&above));
    CHECK_EQUAL(bl_check(), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&turn);
    bl_scope_done(&above);
    return 0;
}

static void rule_6_a_claim_does_not_overtake_a_deadline_however_late_the_loop_is(void **state)
{
    (void)state;
    run_in_loop(claim_looks_at_the_clock, NULL);
}

static void pass_deadline(const struct bl_scope *scope)
{
    while (bl_now_ns() <= scope->deadline_ns)
        continue;
}

/* The loop has no turn in which it could fire a deadline. The check fires it, if it applies to the
 * scope. */
static int check_looks_at_the_clock(void *argument)
{
    (void)argument;
    struct bl_scope above, middle, below, shield;
    bl_scope_init(&above, bl_scope_current());
    bl_scope_init(&middle, &above);
    CHECK_EQUAL(bl_scope_set_deadline(&middle, bl_now_ns() + 20 * MS), 0);
    CHECK_EQUAL(bl_scope_claim(&middle), 0);
    bl_scope_init(&below, &middle);
    CHECK_EQUAL(bl_scope_set_deadline(&below, middle.deadline_ns + 1), 0);
    pass_deadline(&below);
    CHECK_EQUAL(bl_scope_check(&below), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_scope_check(&middle), 0);
    bl_scope_done(&below);
    bl_scope_done(&middle);

    CHECK_EQUAL(bl_scope_set_deadline(&above, bl_now_ns() + 10 * MS), 0);
    struct bl_scope *outer = bl_scope_enter(&above);
    bl_shield_begin(&shield, 20 * MS);
    pass_deadline(&above);
    CHECK(bl_check() == 0 || bl_now_ns() > shield.deadline_ns);
    CHECK(!bl_scope_stopped(&above));
    pass_deadline(&shield);
    CHECK_EQUAL(bl_check(), BL_ETIMEDOUT);
    bl_shield_end(&shield);
    CHECK_EQUAL(bl_check(), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&above);
    return 0;
}

static void rule_3_a_check_fires_the_deadlines_that_reach_its_scope(void **state)
{
    (void)state;
    run_in_loop(check_looks_at_the_clock, NULL);
}

static int deadline_of_this_instant(void *argument)
{
    (void)argument;
    struct bl_scope scope = {0};
    bl_scope_done(&scope); /* never initialised */
    CHECK_EQUAL(bl_sleep(MS), 0);
    bl_scope_init(&scope, bl_scope_current());
    CHECK_EQUAL(bl_scope_set_deadline(&scope, bl_now_ns() + 1), 0);
    CHECK(!bl_scope_stopped(&scope));
    CHECK_EQUAL(bl_scope_set_deadline(&scope, bl_now_ns()), 0);
    CHECK(bl_scope_stopped(&scope));
    bl_scope_done(&scope);
    bl_scope_init(&scope, bl_scope_current());
    CHECK_EQUAL(bl_scope_set_timeout(&scope, 0.5, NULL), 0);
    CHECK_EQUAL(bl_scope_deadline_ns(&scope), bl_now_ns() + 500 * MS);
    bl_scope_done(&scope);
    bl_scope_done(&scope); /* a second time */
    return 0;
}

static void rule_3_a_deadline_of_this_instant_has_passed(void **state)
{
    (void)state;
    run_in_virtual_loop(0, deadline_of_this_instant, NULL);
}

/* Stop and claim of one scope from two threads. The claim's delay follows the outcomes, so that
 * both happen at the same moment and each wins about half of the rounds. */
struct duel {
    struct bl_scope turn;
    _Atomic(unsigned long) round; /* the stopper may begin this one */
    _Atomic(unsigned long) stopped_round;
    _Atomic(bool) stop_won;
    _Atomic(bool) over; /* the stopper ends before its next round */
    unsigned long rounds;
    unsigned long claims;
};

static void spin(uint64_t times)
{
    for (; times > 0; times--)
        atomic_signal_fence(memory_order_seq_cst);
}

#define DELAY_MAX 20000

/* Waits until the other thread reaches a round. It may have no processor at the moment. */
static void await_round(const _Atomic(unsigned long) *round, unsigned long wanted)
{
    for (unsigned looks = 1; atomic_load(round) < wanted; looks++) {
        if (looks % 1000 == 0)
            sched_yield();
    }
}

static void *duel_stopper(void *argument)
{
    struct duel *duel = argument;
    struct bl_random random;
    bl_random_seed(&random, 1);
    for (unsigned long i = 1; i <= duel->rounds; i++) {
        await_round(&duel->round, i);
        if (atomic_load(&duel->over))
            break;
        spin(bl_random_below(&random, 64));
        atomic_store(&duel->stop_won, bl_scope_stop(&duel->turn, BL_STOP_USER, "duel"));
        atomic_store(&duel->stopped_round, i);
    }
    return NULL;
}

/* Checks that exactly one side has won, and that all sources agree. Otherwise the duel ends: a
 * scope that is claimed and on its way to the loop cannot be used again. */
static bool duel_has_one_winner(struct duel *duel, unsigned long round, bool claimed)
{
    struct bl_stop stop;
    /* Before the stopper has returned, so it may not have written the reason and origin yet. */
    bl_scope_stop_read(&duel->turn, &stop);
    await_round(&duel->stopped_round, round);
    bool one = CHECK(claimed != atomic_load(&duel->stop_won)) &&
               CHECK_EQUAL(bl_scope_stopped(&duel->turn), !claimed) &&
               CHECK_EQUAL(stop.reason, claimed ? BL_STOP_NONE : BL_STOP_USER) &&
               CHECK(strcmp(stop.origin, claimed ? "" : "duel") == 0);
    if (one)
        return true;
    atomic_store(&duel->over, true);
    atomic_store(&duel->round, round + 1);
    bl_yield();
    bl_scope_done(&duel->turn);
    return false;
}

static int duel_main(void *argument)
{
    struct duel *duel = argument;
    int64_t delay = 0;
    for (unsigned long i = 1; i <= duel->rounds; i++) {
        bl_scope_init(&duel->turn, bl_scope_current());
        atomic_store(&duel->round, i);
        spin((uint64_t)delay);
        /* The stopper does not come: there may be only one processor for both. */
        if (delay == DELAY_MAX)
            usleep(50);
        bool claimed = bl_scope_claim(&duel->turn) == 0;
        if (!duel_has_one_winner(duel, i, claimed))
            break;
        duel->claims += claimed;
        delay += claimed ? 4 : -4;
        if (delay < 0)
            delay = 0;
        /* On a busy machine the stopper may be late for a long time. That is no reason to wait
         * longer and longer. */
        if (delay > DELAY_MAX)
            delay = DELAY_MAX;
        bl_scope_done(&duel->turn);
    }
    return 0;
}

static void rule_6_stop_and_claim_in_the_same_instant_have_exactly_one_winner(void **state)
{
    (void)state;
    static struct duel duel;
    memset(&duel, 0, sizeof duel);
    duel.rounds = suite_rounds(100000, 1000000);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, duel_stopper, &duel), 0);
    run_in_loop(duel_main, &duel);
    pthread_join(thread, NULL);
    print_message("%lu duels, %lu won by the claim\n", duel.rounds, duel.claims);
    assert_true(duel.claims > 0 && duel.claims < duel.rounds);
}

/* ---- Rule 7: a check is a load ---- */

static int stop_is_seen_by_a_computing_fiber(void *argument)
{
    struct storm *storm = argument;
    struct bl_scope child;
    bl_scope_init(&storm->scope, bl_scope_current());
    bl_scope_init(&child, &storm->scope);
    CHECK(!bl_scope_stopped(&child));
    struct itimerval soon = {.it_value = {.tv_usec = 5000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    /* Never lets the loop run, and checks only the child. */
    while (!bl_scope_stopped(&child))
        continue;
    bl_scope_done(&child);
    bl_scope_done(&storm->scope);
    return 0;
}

static void rule_7_a_check_sees_a_stop_above_before_the_loop_has_a_turn(void **state)
{
    (void)state;
    static struct storm storm;
    struct sigaction action = {.sa_handler = stop_in_handler}, before;
    storm_of_handler = &storm;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    run_in_loop(stop_is_seen_by_a_computing_fiber, &storm);
    sigaction(SIGALRM, &before, NULL);
}

/* ---- Hooks ---- */

struct counted_hook {
    struct bl_stop_hook hook;
    int runs;
};

static void count_run(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct counted_hook *counted = BL_CONTAINER(hook, struct counted_hook, hook);
    CHECK(bl_scope_stopped(scope));
    counted->runs++;
}

static int hooks_run_once(void *argument)
{
    (void)argument;
    struct bl_scope scope, child;
    struct counted_hook on_child = {.runs = 0}, removed = {.runs = 0}, late = {.runs = 0};
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_init(&child, &scope);
    bl_stop_hook_add(&on_child.hook, &child, count_run);
    bl_stop_hook_add(&removed.hook, &child, count_run);
    bl_stop_hook_remove(&removed.hook);
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    CHECK_EQUAL(on_child.runs, 0);
    CHECK_EQUAL(bl_sleep(1), 0);
    CHECK_EQUAL(on_child.runs, 1);
    CHECK_EQUAL(removed.runs, 0);
    bl_stop_hook_add(&late.hook, &child, count_run);
    CHECK_EQUAL(bl_sleep(1), 0);
    CHECK_EQUAL(late.runs, 1);
    bl_stop_hook_remove(&late.hook);
    bl_stop_hook_remove(&on_child.hook);
    bl_scope_done(&child);
    bl_scope_done(&scope);
    return 0;
}

static void a_hook_runs_once_when_its_scope_stops(void **state)
{
    (void)state;
    run_in_loop(hooks_run_once, NULL);
}

struct noted_hook {
    struct bl_stop_hook hook;
    char letter;
    char *notes;
};

static void note_run(struct bl_stop_hook *hook, struct bl_scope *scope BL_UNUSED)
{
    struct noted_hook *noted = BL_CONTAINER(hook, struct noted_hook, hook);
    strncat(noted->notes, &noted->letter, 1);
}

static int note_and_end(void *argument)
{
    strcat(argument, "f");
    return 0;
}

/* Three scopes are stopped while another fiber is ready to run. */
static int stops_in_order(void *argument)
{
    (void)argument;
    char notes[8] = "";
    struct bl_nursery nursery;
    struct bl_scope scopes[3];
    struct noted_hook hooks[3];
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(scopes); i++) {
        hooks[i] = (struct noted_hook){.letter = (char)('a' + i), .notes = notes};
        bl_scope_init(&scopes[i], bl_scope_current());
        bl_stop_hook_add(&hooks[i].hook, &scopes[i], note_run);
    }
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "next", note_and_end, notes, NULL), 0);
    bl_scope_stop(&scopes[1], BL_STOP_USER, "test");
    bl_scope_stop(&scopes[2], BL_STOP_USER, "test");
    bl_scope_stop(&scopes[0], BL_STOP_USER, "test");
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK(strcmp(notes, "bcaf") == 0);
    bl_nursery_done(&nursery);
    for (size_t i = 0; i < BL_COUNT(scopes); i++)
        bl_scope_done(&scopes[i]);
    return 0;
}

static void stops_are_delivered_in_order_before_another_fiber_runs(void **state BL_UNUSED)
{
    run_in_loop(stops_in_order, NULL);
}

static int next_deadlines(void *argument)
{
    struct bl_scope scope, child, grandchild;

    (void)argument;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_init(&child, &scope);
    bl_scope_init(&grandchild, &child);
    CHECK(bl_scope_next_deadline_ns(&scope) == BL_NEVER);
    bl_scope_set_deadline(&grandchild, bl_now_ns() + 50 * BL_NS_PER_S);
    CHECK(bl_scope_next_deadline_ns(&scope) == grandchild.deadline_ns);
    CHECK(bl_scope_deadline_ns(&scope) == BL_NEVER);
    bl_scope_set_deadline(&scope, bl_now_ns() + 20 * BL_NS_PER_S);
    CHECK(bl_scope_next_deadline_ns(&scope) == scope.deadline_ns);
    bl_scope_set_deadline(&grandchild, bl_now_ns() + 10 * BL_NS_PER_S);
    CHECK(bl_scope_next_deadline_ns(&scope) == grandchild.deadline_ns);
    bl_scope_stop(&grandchild, BL_STOP_USER, "test");
    CHECK(bl_scope_next_deadline_ns(&scope) == scope.deadline_ns);
    /* The limit of a shield is not a deadline of the work. */
    struct bl_scope shield, *outer = bl_scope_enter(&child);
    bl_shield_begin(&shield, BL_NS_PER_S);
    CHECK(bl_scope_next_deadline_ns(&scope) == scope.deadline_ns);
    CHECK(bl_scope_deadline_ns(&shield) == shield.deadline_ns);
    bl_shield_end(&shield);
    bl_scope_enter(outer);
    bl_scope_done(&grandchild);
    bl_scope_done(&child);
    bl_scope_done(&scope);
    return 0;
}

static void the_next_deadline_includes_scopes_below(void **state BL_UNUSED)
{
    run_in_loop(next_deadlines, NULL);
}

SUITE(scope, cmocka_unit_test(a_shield_protects_the_fibers_of_a_service),
      cmocka_unit_test(the_next_deadline_includes_scopes_below),
      cmocka_unit_test(rule_1_level_triggered_every_wait_returns_at_once_each_time),
      cmocka_unit_test(rule_1_a_stop_wakes_parked_fibers),
      cmocka_unit_test(rule_2_first_reason_wins),
      cmocka_unit_test(rule_2_an_origin_is_truncated_at_a_character),
      cmocka_unit_test(rule_2_stops_from_8_threads_and_a_signal_handler_at_once_have_one_winner),
      cmocka_unit_test(rule_2_a_signal_handler_wakes_a_sleeping_loop),
      cmocka_unit_test(rule_3_a_stop_goes_down_and_never_up_or_sideways),
      cmocka_unit_test(rule_3_a_childs_deadline_is_never_later_than_its_parents),
      cmocka_unit_test(a_limit_ends_at_its_deadline_without_affecting_the_scope_above),
      cmocka_unit_test(rule_3_a_deadline_moves_either_way_until_it_has_fired),
      cmocka_unit_test(rule_3_a_deadline_that_is_not_a_finite_number_is_an_error),
      cmocka_unit_test(rule_3_a_check_fires_the_deadlines_that_reach_its_scope),
      cmocka_unit_test(rule_3_a_deadline_of_this_instant_has_passed),
      cmocka_unit_test(rule_4_a_nursery_does_not_end_before_its_fibers),
      cmocka_unit_test(rule_5_a_stop_above_does_not_reach_a_shield_which_cannot_hang),
      cmocka_unit_test(rule_6_a_claimed_scope_cannot_be_stopped_and_its_waits_do_not_wake),
      cmocka_unit_test(rule_6_a_claim_does_not_overtake_a_stop_above_that_has_returned),
      cmocka_unit_test(rule_6_a_claim_does_not_overtake_a_deadline_however_late_the_loop_is),
      cmocka_unit_test(rule_6_stop_and_claim_in_the_same_instant_have_exactly_one_winner),
      cmocka_unit_test(rule_7_a_check_sees_a_stop_above_before_the_loop_has_a_turn),
      cmocka_unit_test(a_hook_runs_once_when_its_scope_stops),
      cmocka_unit_test(stops_are_delivered_in_order_before_another_fiber_runs));
