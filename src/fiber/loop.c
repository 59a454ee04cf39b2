/* Design notes.
 *
 * A turn of the loop: pending stops are delivered, due timers fire, finished work of threads is
 * delivered, hooks run, then the ready fibers run. Then the loop polls the system for events, and
 * sleeps only if nothing is ready. The loop has its own timers (timer.c), and one timerfd wakes it
 * for the earliest; libuv's timers have a resolution of a millisecond and pay for each removal.
 *
 * Sleeping and waking race with other threads as in any event count: the loop sets `polling`, then
 * reads `pending` once more; the other thread pushes, then reads `polling`. Both are sequentially
 * consistent, so at least one of them sees the other. */
#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "parts.h"

/* The time that fibers may run before the loop checks timers and the system's events again, and the
 * number of resumed fibers per reading of the clock. */
#define TURN_NS_MAX      (200 * BL_NS_PER_US)
#define RESUMES_PER_LOOK 32

bool loop_turn_is_long(const struct bl_loop *loop)
{
    return bl_clock_now_ns(&loop->clock) - loop->turn_ns > TURN_NS_MAX;
}

static uint64_t virtual_monotonic_ns(void *context)
{
    struct bl_loop *loop = context;
    return atomic_load_explicit(&loop->virtual_now_ns, memory_order_relaxed);
}

/* Starts at a fixed date, so that the output of a simulation is reproducible. */
static int64_t virtual_wall_ns(void *context)
{
    return (int64_t)(1700000000ull * BL_NS_PER_S + virtual_monotonic_ns(context));
}

static void woken(uv_async_t *handle)
{
    (void)handle;
}

static void timer_readable(uv_poll_t *handle, int status, int events)
{
    struct bl_loop *loop = handle->data;
    uint64_t expirations;
    (void)status;
    (void)events;
    if (read(loop->timer_fd, &expirations, sizeof expirations) > 0)
        loop->timer_armed_ns = BL_NEVER;
}

static int fiber_loop_fail(struct bl_error *error, const char *what, int system_code)
{
    int code = bl_error_from_errno(system_code);
    bl_error_set(error, code, BL_KIND_RUNTIME, "start the loop", what, "%s: %s", what,
                 bl_error_text(code));
    if (code == BL_EMFILE)
        bl_error_hint(error, "raise the limit for open files (ulimit -n), or close some");
    return code;
}

/* Checks that descriptors are available. The steps after this open up to as many as `fds` holds;
 * libuv aborts if it cannot open some of its own, and leaks others when it fails. */
static int try_descriptors(void)
{
    int fds[8];
    size_t count = 0;
    int status = 0;
    while (count < BL_COUNT(fds) && status == 0) {
        fds[count] = eventfd(0, EFD_CLOEXEC);
        if (fds[count] < 0)
            status = errno;
        else
            count++;
    }
    while (count > 0)
        close(fds[--count]);
    return status;
}

static int open_handles(struct bl_loop *loop, struct bl_error *error)
{
    int status = try_descriptors();
    if (status != 0)
        return fiber_loop_fail(error, "descriptors", status);
    status = uv_loop_init(&loop->uv);
    if (status < 0)
        return fiber_loop_fail(error, "event loop", status);
    status = uv_async_init(&loop->uv, &loop->wake, woken);
    if (status < 0) {
        uv_loop_close(&loop->uv);
        return fiber_loop_fail(error, "wake-up descriptor", status);
    }
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    status =
        loop->timer_fd < 0 ? -errno : uv_poll_init(&loop->uv, &loop->timer_poll, loop->timer_fd);
    if (status < 0) {
        close(loop->timer_fd);
        uv_close((uv_handle_t *)&loop->wake, NULL);
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        uv_loop_close(&loop->uv);
        return fiber_loop_fail(error, "timer descriptor", status);
    }
    loop->timer_poll.data = loop;
    uv_poll_start(&loop->timer_poll, UV_READABLE, timer_readable);
    return 0;
}

int bl_loop_new(const struct bl_loop_options *options, struct bl_loop **ret_loop,
                struct bl_error *error)
{
    static const struct bl_loop_options defaults;
    if (options == NULL)
        options = &defaults;
    struct bl_loop *loop = bl_zalloc(sizeof *loop);
    int code = open_handles(loop, error);
    if (code != 0) {
        bl_free(loop);
        return code;
    }
    loop->timer_armed_ns = BL_NEVER;
    loop->clock = bl_clock_system;
    loop->virtual_time = options->virtual_time;
    loop->shuffled = options->seed != 0;
    bl_random_seed(&loop->random, options->seed);
    if (options->virtual_time)
        loop->clock = (struct bl_clock){virtual_monotonic_ns, virtual_wall_ns, loop};
    struct bl_stack_facts facts;
    bl_loop_stack_facts(&facts);
    uint32_t fibers_max = facts.fibers_max;
    if (options->fibers_max != 0 && (fibers_max == 0 || options->fibers_max < fibers_max))
        fibers_max = options->fibers_max;
    stacks_init(&loop->stacks, fibers_max);
    timers_init(&loop->timers);
    bl_list_init(&loop->due_hooks);
    bl_list_init(&loop->ready);
    bl_list_init(&loop->fibers);
    bl_list_init(&loop->recycled);
    scope_init_root(&loop->scope, loop);
    bl_log_set_place(describe_place);
    loop->workers = workers_new(loop, options->threads_max == 0 ? 4 : options->threads_max);
    *ret_loop = loop;
    return 0;
}

int bl_loop_free(struct bl_loop *loop)
{
    if (loop == NULL)
        return 0;
    assert(loop_current != loop && bl_list_empty(&loop->fibers));
    if (!workers_done(loop))
        return BL_EBUSY;
    bl_scope_done(&loop->scope);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->timer_poll, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    int status = uv_loop_close(&loop->uv);
    assert(status == 0);
    (void)status;
    close(loop->timer_fd);
    fiber_pool_done(loop);
    stacks_done(&loop->stacks);
    timers_done(&loop->timers);
    bl_free(loop);
    return 0;
}

int bl_loop_once(const char *name, bl_fiber_main *main, void *argument, struct bl_error *error)
{
    struct bl_loop *loop;

    int code = bl_loop_new(NULL, &loop, error);
    if (code != 0)
        return code;
    code = bl_loop_run(loop, name, main, argument);
    bl_loop_free(loop);
    return code;
}

struct bl_scope *bl_loop_scope(struct bl_loop *loop)
{
    return &loop->scope;
}

const struct bl_clock *bl_loop_clock(struct bl_loop *loop)
{
    return &loop->clock;
}

struct uv_loop_s *bl_loop_uv(struct bl_loop *loop)
{
    return &loop->uv;
}

void bl_loop_stack_facts(struct bl_stack_facts *ret_facts)
{
    bool regions = stack_guard_regions_available();
    ret_facts->size = STACK_SIZE;
    ret_facts->guard = regions ? "guard regions" : "protected pages";
    ret_facts->fibers_max = regions ? 0 : STACK_PROTECTED_MAX;
}

void loop_wake(struct bl_loop *loop)
{
    if (atomic_load(&loop->polling))
        uv_async_send(&loop->wake);
}

/* Sets the timerfd to the earliest timer. A time in the past fires at once. */
static void arm_timer(struct bl_loop *loop)
{
    uint64_t next_ns = timers_next_ns(&loop->timers);
    if (next_ns == loop->timer_armed_ns)
        return;
    struct itimerspec when = {0};
    if (next_ns != BL_NEVER) {
        when.it_value.tv_sec = (time_t)(next_ns / BL_NS_PER_S);
        when.it_value.tv_nsec = (long)(next_ns % BL_NS_PER_S);
    }
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    loop->timer_armed_ns = next_ns;
}

/* Polls the system for events. Sleeps until one arrives if `may_sleep` and no request has arrived
 * in the meantime. */
static void poll_events(struct bl_loop *loop, bool may_sleep)
{
    atomic_store(&loop->polling, true);
    if (atomic_load(&loop->pending) != NULL || workers_finished(loop))
        may_sleep = false;
    uv_run(&loop->uv, may_sleep ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    atomic_store(&loop->polling, false);
}

/* Advances virtual time to the next timer when no fiber can run. */
static void advance_virtual_time(struct bl_loop *loop)
{
    uint64_t next_ns = timers_next_ns(&loop->timers);
    if (loop->external > 0)
        poll_events(loop, true);
    else if (next_ns != BL_NEVER)
        atomic_store_explicit(&loop->virtual_now_ns, next_ns, memory_order_relaxed);
    else
        poll_events(loop, true); /* only another thread can make a fiber ready */
}

/* With very many fibers each stack is cold, down to the page tables, so the innermost frame of the
 * next fiber is prefetched while this one runs. */
static void prefetch_next(struct bl_loop *loop)
{
    if (!bl_list_empty(&loop->ready))
        __builtin_prefetch(fiber_first(&loop->ready)->context);
}

static void run_ready(struct bl_loop *loop)
{
    for (unsigned resumes = 1;; resumes++) {
        struct bl_list *link = bl_list_pop_front(&loop->ready);
        if (link == NULL)
            return;
        prefetch_next(loop);
        fiber_resume(loop, BL_CONTAINER(link, struct bl_fiber, queue_link));
        if (atomic_load_explicit(&loop->pending, memory_order_relaxed) != NULL)
            return;
        if (resumes % RESUMES_PER_LOOK == 0 && (loop->virtual_time || loop_turn_is_long(loop)))
            return;
    }
}

static void turn(struct bl_loop *loop)
{
    loop->turn_ns = bl_clock_now_ns(&loop->clock);
    timers_fire(&loop->timers, loop->turn_ns);
    scope_deliver_pending(loop);
    workers_deliver(loop);
    scope_run_hooks(loop);
    run_ready(loop);
    bool idle = bl_list_empty(&loop->ready) && bl_list_empty(&loop->due_hooks) &&
                !bl_list_empty(&loop->fibers) && atomic_load(&loop->pending) == NULL;
    if (loop->virtual_time && idle) {
        advance_virtual_time(loop);
        return;
    }
    if (idle && !loop->virtual_time)
        arm_timer(loop);
    poll_events(loop, idle);
}

struct main_call {
    bl_fiber_main *main;
    void *argument;
    int result;
};

static int fiber_loop_call_main(void *argument)
{
    struct main_call *call = argument;
    call->result = call->main(call->argument);
    return call->result;
}

/* A switch of stacks saves and loads the floating-point status word. On x86-64, loading a word that
 * differs in a single sticky flag (after a division, for example) makes a switch take 80 ns instead
 * of 6. So all fibers run with all sticky flags raised, which computing cannot change. Returns the
 * previous word. */
static unsigned raise_sticky_flags(void)
{
#if defined(__SSE__)
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x3F);
    return before;
#else
    return 0;
#endif
}

static void restore_sticky_flags(unsigned before)
{
#if defined(__SSE__)
    __builtin_ia32_ldmxcsr(before);
#else
    (void)before;
#endif
}

int bl_loop_run(struct bl_loop *loop, const char *name, bl_fiber_main *main, void *argument)
{
    assert(loop_current == NULL);
    unsigned status_word = raise_sticky_flags();
    struct main_call call = {main, argument, 0};
    int code = fiber_start(loop, NULL, &loop->scope, name, fiber_loop_call_main, &call, NULL);
    if (code == 0) {
        loop_current = loop;
        while (!bl_list_empty(&loop->fibers))
            turn(loop);
        scope_run_hooks(loop);
        loop_current = NULL;
    }
    restore_sticky_flags(status_word);
    return code == 0 ? call.result : code;
}
