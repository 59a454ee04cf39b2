#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <uv.h>

#include "fibers.h"

#define MS BL_NS_PER_MS

static int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void out_of_descriptors_is_an_error_with_a_hint(void **state)
{
    (void)state;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int open_now = open_descriptors() - 3;
    /* Tries each number of descriptors that is too small, until it suffices. */
    int code = BL_EMFILE, tries = 0;
    for (int spare = 0; code != 0 && tries < 32; spare++, tries++) {
        struct bl_loop *loop = NULL;
        struct bl_error error = {0};
        limit = before;
        limit.rlim_cur = (rlim_t)(open_now + spare);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        code = bl_loop_new(NULL, &loop, &error);
        setrlimit(RLIMIT_NOFILE, &before);
        if (code != 0) {
            assert_int_equal(code, BL_EMFILE);
            assert_int_equal(error.kind, BL_KIND_RUNTIME);
            assert_non_null(strstr(error.hint, "ulimit -n"));
        } else {
            assert_int_equal(bl_loop_free(loop), 0);
        }
        assert_int_equal(open_descriptors() - 3, open_now);
    }
    assert_int_equal(code, 0);
    assert_true(tries > 2);
}

static void *no_memory(size_t count BL_UNUSED, size_t size BL_UNUSED)
{
    return NULL;
}

/* Covers the allocations whose failure libuv reports; other failures end the process. */
static void out_of_memory_for_the_event_loop_is_an_error(void **state)
{
    (void)state;
    struct bl_loop *loop = NULL;
    int before = open_descriptors();
    uv_replace_allocator(malloc, realloc, no_memory, free);
    int code = bl_loop_new(NULL, &loop, NULL);
    uv_replace_allocator(malloc, realloc, calloc, free);
    assert_int_equal(code, BL_ELIMIT);
    assert_null(loop);
    assert_int_equal(open_descriptors(), before);
}

static int nothing(void *argument)
{
    (void)argument;
    return 5;
}

static void a_loop_runs_more_than_once_and_leaves_no_descriptor(void **state)
{
    (void)state;
    struct bl_loop *loop;
    int before = open_descriptors();
    assert_int_equal(bl_loop_new(NULL, &loop, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bl_loop_run(loop, "main", nothing, NULL), 5);
    assert_null(bl_loop_current());
    assert_null(bl_fiber_current());
    assert_int_equal(bl_loop_free(loop), 0);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(bl_loop_free(NULL), 0);
}

struct diary {
    char text[512];
    size_t size;
    struct bl_nursery nursery;
};

struct writer {
    struct diary *diary;
    char letter;
};

static int keep_diary(void *argument)
{
    struct writer *writer = argument;
    for (int i = 0; i < 10; i++) {
        writer->diary->text[writer->diary->size++] = writer->letter;
        if (i % 3 == 2)
            bl_sleep((uint64_t)(writer->letter % 4) * MS);
        else
            bl_yield();
    }
    return 0;
}

static int diary_main(void *argument)
{
    struct diary *diary = argument;
    struct writer writers[6];
    bl_nursery_init(&diary->nursery, bl_scope_current());
    for (int i = 0; i < 6; i++) {
        writers[i] = (struct writer){diary, (char)('a' + i)};
        bl_nursery_spawn(&diary->nursery, NULL, "writer", keep_diary, &writers[i], NULL);
    }
    bl_nursery_join(&diary->nursery);
    bl_nursery_done(&diary->nursery);
    return 0;
}

static void the_order_of_fibers_depends_only_on_the_seed(void **state)
{
    (void)state;
    static struct diary first, second, other;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    memset(&other, 0, sizeof other);
    run_in_virtual_loop(7, diary_main, &first);
    run_in_virtual_loop(7, diary_main, &second);
    run_in_virtual_loop(8, diary_main, &other);
    assert_int_equal(first.size, 60);
    assert_string_equal(first.text, second.text);
    assert_string_not_equal(first.text, other.text);
}

static int sleep_a_year(void *argument)
{
    (void)argument;
    uint64_t start_ns = bl_now_ns();
    CHECK_EQUAL(bl_sleep(365 * 86400 * BL_NS_PER_S), 0);
    CHECK_EQUAL(bl_now_ns() - start_ns, 365 * 86400 * BL_NS_PER_S);
    return 0;
}

static void virtual_time_jumps(void **state)
{
    (void)state;
    run_in_virtual_loop(0, sleep_a_year, NULL);
}

static void *stop_in_a_while(void *argument)
{
    usleep(20000);
    bl_scope_stop(argument, BL_STOP_USER, "thread");
    return NULL;
}

static int wait_for_a_thread(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_scope scope;
    pthread_t thread;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < 100; i++)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "short", nothing, NULL, NULL), 0);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    bl_scope_init(&scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&scope);
    uint64_t start_ns = bl_now_ns();
    struct turns *turns = turns_begin();
    CHECK_EQUAL(pthread_create(&thread, NULL, stop_in_a_while, &scope), 0);
    CHECK_EQUAL(bl_sleep(BL_NEVER), BL_ECANCELED);
    CHECK(turns_end(turns) < 10);
    CHECK_EQUAL(bl_now_ns(), start_ns);
    bl_scope_enter(outer);
    pthread_join(thread, NULL);
    bl_scope_done(&scope);
    return 0;
}

/* Also if very many stacks are free, which a loop in real time would return to the system. */
static void virtual_time_does_not_advance_while_nothing_sleeps(void **state)
{
    (void)state;
    run_in_virtual_loop(0, wait_for_a_thread, NULL);
}

static int sleeps_are_not_short(void *argument)
{
    (void)argument;
    static const uint64_t durations_ns[] = {1, 1000, 50000, 700000, 1500000, 12000000};
    for (size_t i = 0; i < BL_COUNT(durations_ns); i++) {
        uint64_t start_ns = bl_now_ns();
        CHECK_EQUAL(bl_sleep(durations_ns[i]), 0);
        CHECK(bl_now_ns() - start_ns >= durations_ns[i]);
    }
    return 0;
}

static void a_sleep_is_never_shorter_than_asked(void **state)
{
    (void)state;
    run_in_loop(sleeps_are_not_short, NULL);
}

static int sleep_forever(void *argument)
{
    (void)argument;
    return bl_sleep(BL_NEVER);
}

static int root_stops_all(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    int result = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "forever", sleep_forever, NULL, &fiber);
    bl_yield();
    bl_scope_stop(bl_loop_scope(bl_loop_current()), BL_STOP_SHUTDOWN, "test");
    CHECK_EQUAL(bl_fiber_join(fiber, &result), BL_ECANCELED);
    bl_nursery_done(&nursery);
    return 0;
}

static void stopping_the_loops_scope_stops_everything(void **state)
{
    (void)state;
    run_in_loop(root_stops_all, NULL);
}

struct spinner {
    bool slept;
    bool starved; /* it spun for 20 s, and the sleep of 5 ms had not ended */
};

static int spin(void *argument)
{
    struct spinner *spinner = argument;
    uint64_t end_ns = bl_now_ns() + 20 * BL_NS_PER_S;
    while (!spinner->slept && !spinner->starved) {
        spinner->starved = bl_now_ns() > end_ns;
        bl_yield();
    }
    return 0;
}

static int sleep_beside_spinners(void *argument)
{
    struct spinner *spinner = argument;
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "spinner", spin, spinner, NULL), 0);
    CHECK_EQUAL(bl_sleep(5 * MS), 0);
    spinner->slept = true;
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    return 0;
}

static void fibers_that_only_yield_do_not_starve_timers(void **state)
{
    struct spinner spinner = {0};
    (void)state;
    run_in_loop(sleep_beside_spinners, &spinner);
    assert_true(spinner.slept && !spinner.starved);
}

struct loop_call {
    const char *stack; /* of the fiber */
    bool on_fiber;     /* the call ran on it */
    bool in_fiber;     /* it was a fiber's */
    struct bl_semaphore woken;
    int order;
    int call_was, wait_was;
};

static void call_on_loop(void *argument)
{
    struct loop_call *call = argument;
    char here;
    ptrdiff_t distance = &here - call->stack;
    call->on_fiber = distance > -65536 && distance < 65536;
    call->in_fiber = bl_fiber_current() != NULL;
    bl_semaphore_give(&call->woken);
    call->call_was = ++call->order;
}

static int wait_for_call(void *argument)
{
    struct loop_call *call = argument;
    int code = bl_semaphore_take(&call->woken);
    call->wait_was = ++call->order;
    return code;
}

static int call_from_fiber(void *argument)
{
    (void)argument;
    char here;
    struct loop_call call = {.stack = &here};
    struct bl_nursery nursery;
    bl_semaphore_init(&call.woken, 0);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "waits", wait_for_call, &call, NULL);
    bl_yield();
    bl_loop_call(call_on_loop, &call);
    CHECK_EQUAL(call.order, 1);
    CHECK(!call.on_fiber && !call.in_fiber);
    CHECK(bl_fiber_current() != NULL);
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "test");
    bl_nursery_done(&nursery);
    CHECK_EQUAL(call.call_was, 1);
    CHECK_EQUAL(call.wait_was, 2);
    /* A stop does not prevent it. */
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *before = bl_scope_enter(&scope);
    bl_loop_call(call_on_loop, &call);
    bl_scope_enter(before);
    bl_scope_done(&scope);
    CHECK_EQUAL(call.call_was, 3);
    return 0;
}

static void give_from_timer(uv_timer_t *timer)
{
    bl_semaphore_give(timer->data);
}

static void start_due_timer(void *argument)
{
    uv_timer_start(argument, give_from_timer, 0, 0);
}

static void count_closed(uv_handle_t *handle)
{
    bl_semaphore_give(handle->data);
}

/* The timer is due before libuv polls. */
static int wake_from_due_timer(void *argument)
{
    (void)argument;
    uv_timer_t timer;
    struct bl_semaphore given;
    struct bl_scope limit;
    bl_semaphore_init(&given, 0);
    uv_timer_init(bl_loop_uv(bl_loop_current()), &timer);
    timer.data = &given;
    bl_loop_call(start_due_timer, &timer);
    bl_limit_begin(&limit, 20 * BL_NS_PER_S);
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(bl_semaphore_take(&given), 0);
    CHECK(bl_now_ns() - from_ns < 10 * BL_NS_PER_S);
    bl_limit_end(&limit);
    uv_close((uv_handle_t *)&timer, count_closed);
    CHECK_EQUAL(bl_semaphore_take(&given), 0);
    return 0;
}

static void a_fiber_that_a_due_timer_wakes_runs_at_once(void **state)
{
    (void)state;
    run_in_loop(wake_from_due_timer, NULL);
}

static void a_function_runs_on_the_loops_stack_before_the_fibers_it_wakes(void **state)
{
    (void)state;
    run_in_loop(call_from_fiber, NULL);
}

SUITE(loop, cmocka_unit_test(a_fiber_that_a_due_timer_wakes_runs_at_once),
      cmocka_unit_test(a_function_runs_on_the_loops_stack_before_the_fibers_it_wakes),
      cmocka_unit_test(fibers_that_only_yield_do_not_starve_timers),
      cmocka_unit_test(out_of_memory_for_the_event_loop_is_an_error),
      cmocka_unit_test(out_of_descriptors_is_an_error_with_a_hint),
      cmocka_unit_test(a_loop_runs_more_than_once_and_leaves_no_descriptor),
      cmocka_unit_test(the_order_of_fibers_depends_only_on_the_seed),
      cmocka_unit_test(virtual_time_does_not_advance_while_nothing_sleeps),
      cmocka_unit_test(virtual_time_jumps), cmocka_unit_test(a_sleep_is_never_shorter_than_asked),
      cmocka_unit_test(stopping_the_loops_scope_stops_everything));
