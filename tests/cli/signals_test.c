#include "cli/signals.h"

#include <unistd.h>

#include "fibers.h"
#include "held.h"

struct hurried {
    unsigned count;
};

static void hurry(void *context)
{
    struct hurried *hurried = context;
    hurried->count++;
}

/* Sends a signal to this process and lets the loop deliver it. */
static void send(int number)
{
    kill(getpid(), number);
    for (int i = 0; i < 20; i++)
        bl_sleep(BL_NS_PER_MS);
}

static int first_and_later(void *argument)
{
    struct cli_signals signals = {0};
    struct hurried hurried = {0};
    struct bl_scope scope;
    struct bl_stop stop;

    (void)argument;
    bl_scope_init(&scope, bl_scope_current());
    CHECK_EQUAL(cli_signals_start(&signals, &scope, hurry, &hurried), 0);
    send(SIGTERM);
    bl_scope_stop_read(&scope, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_SIGNAL);
    CHECK(strcmp(stop.origin, "SIGTERM") == 0);
    CHECK_EQUAL(signals.first, SIGTERM);
    CHECK_EQUAL(hurried.count, 0);
    send(SIGINT);
    CHECK_EQUAL(hurried.count, 1);
    send(SIGHUP);
    CHECK_EQUAL(hurried.count, 2);
    CHECK_EQUAL(signals.first, SIGTERM);
    cli_signals_end(&signals);
    bl_scope_done(&scope);
    return 0;
}

static void the_first_signal_stops_and_each_later_one_hurries(void **state)
{
    (void)state;
    run_in_loop(first_and_later, NULL);
}

static int claimed(void *argument)
{
    struct cli_signals signals = {0};
    struct hurried hurried = {0};
    struct bl_scope scope, after;
    struct bl_stop stop;

    (void)argument;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_init(&after, bl_scope_current());
    signals.after = &after;
    CHECK_EQUAL(cli_signals_start(&signals, &scope, hurry, &hurried), 0);
    CHECK_EQUAL(bl_scope_claim(&scope), 0);
    send(SIGINT);
    CHECK(!bl_scope_stopped(&scope));
    bl_scope_stop_read(&after, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_SIGNAL);
    CHECK(strcmp(stop.origin, "SIGINT") == 0);
    cli_signals_end(&signals);
    bl_scope_done(&after);
    bl_scope_done(&scope);
    return 0;
}

static void signal_after_the_work_stops_the_next_scope(void **state)
{
    (void)state;
    run_in_loop(claimed, NULL);
}

static int held_back(void *argument)
{
    struct cli_signals *signals = argument;
    struct hurried hurried = {0};
    struct bl_scope scope;

    bl_scope_init(&scope, bl_scope_current());
    CHECK_EQUAL(cli_signals_start(signals, &scope, hurry, &hurried), 0);
    for (int i = 0; i < 20; i++)
        bl_sleep(BL_NS_PER_MS);
    CHECK(bl_scope_stopped(&scope));
    CHECK_EQUAL(signals->first, SIGINT);
    cli_signals_end(signals);
    bl_scope_done(&scope);
    return 0;
}

static void blocked_signals_are_delivered_to_listeners(void **state)
{
    struct cli_signals signals = {0};
    sigset_t mask;

    (void)state;
    cli_signals_block(&signals);
    kill(getpid(), SIGINT);
    run_in_loop(held_back, &signals);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT));
}

static int with_hangup_ignored(void *argument)
{
    struct cli_signals signals = {0};
    struct hurried hurried = {0};
    struct bl_scope scope;

    (void)argument;
    bl_scope_init(&scope, bl_scope_current());
    CHECK_EQUAL(cli_signals_start(&signals, &scope, hurry, &hurried), 0);
    send(SIGHUP);
    CHECK(!bl_scope_stopped(&scope));
    cli_signals_end(&signals);
    bl_scope_done(&scope);
    return 0;
}

static void ignored_sighup_stays_ignored(void **state)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;

    (void)state;
    sigaction(SIGHUP, &ignored, &before);
    assert_true(cli_signal_ignored(SIGHUP));
    run_in_loop(with_hangup_ignored, NULL);
    sigaction(SIGHUP, &before, NULL);
    assert_false(cli_signal_ignored(SIGHUP));
}

SUITE(signals, cmocka_unit_test(the_first_signal_stops_and_each_later_one_hurries),
      cmocka_unit_test(signal_after_the_work_stops_the_next_scope),
      cmocka_unit_test(blocked_signals_are_delivered_to_listeners),
      cmocka_unit_test(ignored_sighup_stays_ignored));
