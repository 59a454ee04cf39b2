#include <signal.h>
#include <unistd.h>

#include "fibers.h"

static int signals(void *argument)
{
    (void)argument;
    struct bl_signal *signal;
    struct bl_scope scope;
    uint64_t count = 0;
    CHECK_EQUAL(bl_signal_new(SIGUSR1, &signal), 0);
    for (int i = 0; i < 3; i++) {
        kill(getpid(), SIGUSR1);
        CHECK_EQUAL(bl_signal_wait(signal, &count), 0);
        CHECK_EQUAL(count, 1);
    }
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 5 * BL_NS_PER_MS);
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(bl_signal_wait(signal, &count), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    /* A signal that arrives while no fiber waits ends the next wait. */
    kill(getpid(), SIGUSR1);
    CHECK_EQUAL(bl_sleep(5 * BL_NS_PER_MS), 0);
    CHECK_EQUAL(bl_signal_wait(signal, &count), 0);
    bl_signal_free(signal);
    bl_signal_free(NULL);
    struct bl_signal *never;
    CHECK_EQUAL(bl_signal_new(SIGKILL, &never), BL_EINVAL);
    return 0;
}

static void waiting_for_signals_misses_none(void **state)
{
    (void)state;
    run_in_loop(signals, NULL);
}

SUITE(signal, cmocka_unit_test(waiting_for_signals_misses_none));
