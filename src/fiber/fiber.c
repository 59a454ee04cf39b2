#include <assert.h>

#include "parts.h"

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

/* The result of a switch by libboost-context: the context of the other side, and its argument. */
struct transfer {
    void *context;
    void *data;
};
struct transfer jump_fcontext(void *context, void *data);
void *make_fcontext(void *stack_top, size_t size, void (*entry)(struct transfer transfer));

_Thread_local struct bl_loop *loop_current;

struct bl_loop *bl_loop_current(void)
{
    return loop_current;
}

struct bl_fiber *bl_fiber_current(void)
{
    return loop_current == NULL ? NULL : loop_current->running;
}

const char *bl_fiber_name(const struct bl_fiber *fiber)
{
    return fiber->name;
}

bool bl_fiber_ended(const struct bl_fiber *fiber)
{
    return fiber->state == FIBER_ENDED;
}

uint64_t bl_now_ns(void)
{
    return bl_clock_now_ns(&loop_current->clock);
}

static void fiber_move(struct bl_fiber *fiber, enum fiber_state to)
{
    static const unsigned char moves[] = {
        [FIBER_NEW] = BL_TO(FIBER_READY),
        [FIBER_READY] = BL_TO(FIBER_RUNNING),
        [FIBER_RUNNING] = BL_TO(FIBER_READY) | BL_TO(FIBER_PARKED) | BL_TO(FIBER_ENDED),
        [FIBER_PARKED] = BL_TO(FIBER_READY),
        [FIBER_ENDED] = 0,
    };
    assert(BL_MAY_MOVE(moves, fiber->state, to));
    fiber->state = to;
}

/* Switches from a fiber to the loop. Returns when the fiber is resumed; never if it has ended. */
static void switch_to_loop(struct bl_fiber *fiber)
{
    struct bl_loop *loop = fiber->loop;
#ifdef FIBER_ASAN
    bool ended = fiber->state == FIBER_ENDED;
    __sanitizer_start_switch_fiber(ended ? NULL : &fiber->fake_stack, loop->stack_low,
                                   loop->stack_size);
#endif
    struct transfer transfer = jump_fcontext(loop->context, NULL);
    loop->context = transfer.context;
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL);
#endif
}

static void wake_all(struct bl_list *queue)
{
    struct bl_fiber *fiber;
    while ((fiber = fiber_first(queue)) != NULL)
        fiber_wake(fiber, 0);
}

static void fiber_entry(struct transfer transfer)
{
    struct bl_fiber *fiber = transfer.data;
    fiber->loop->context = transfer.context;
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(NULL, &fiber->loop->stack_low, &fiber->loop->stack_size);
#endif
    fiber->result = fiber->main(fiber->argument);
    fiber_move(fiber, FIBER_ENDED);
    switch_to_loop(fiber);
    __builtin_unreachable();
}

static struct bl_fiber *fiber_new(struct bl_loop *loop)
{
    struct bl_list *link = bl_list_pop_front(&loop->recycled);
    struct bl_fiber *fiber =
        link != NULL ? BL_CONTAINER(link, struct bl_fiber, all_link) : bl_alloc(sizeof *fiber);
    memset(fiber, 0, sizeof *fiber);
    return fiber;
}

void fiber_pool_done(struct bl_loop *loop)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&loop->recycled)) != NULL)
        bl_free(BL_CONTAINER(link, struct bl_fiber, all_link));
}

static void make_ready(struct bl_fiber *fiber)
{
    struct bl_loop *loop = fiber->loop;
    fiber_move(fiber, FIBER_READY);
    /* libuv runs the timers that are due before it polls: then it must not sleep any more. */
    if (atomic_load_explicit(&loop->polling, memory_order_relaxed))
        uv_stop(&loop->uv);
    if (loop->shuffled && (bl_random_next(&loop->random) & 1))
        bl_list_push_front(&loop->ready, &fiber->queue_link);
    else
        bl_list_push_back(&loop->ready, &fiber->queue_link);
}

int fiber_start(struct bl_loop *loop, struct bl_nursery *nursery, struct bl_scope *scope,
                const char *name, bl_fiber_main *main, void *argument, struct bl_fiber **ret_fiber)
{
    char *stack = stack_take(&loop->stacks);
    if (stack == NULL)
        return BL_ESTACKS;
    struct bl_fiber *fiber = fiber_new(loop);
    fiber->loop = loop;
    fiber->scope = scope;
    fiber->nursery = nursery;
    fiber->main = main;
    fiber->argument = argument;
    fiber->stack = stack;
    fiber->handle = ret_fiber != NULL;
    bl_text_into(fiber->name, sizeof fiber->name, name);
    bl_list_init(&fiber->nursery_link);
    bl_list_init(&fiber->scope_link);
    bl_list_init(&fiber->queue_link);
    bl_list_init(&fiber->joining);
    bl_list_push_back(&loop->fibers, &fiber->all_link);
    size_t size = STACK_SIZE - stack_colour(stack);
    fiber->context = make_fcontext(stack + size, size, fiber_entry);
    if (nursery != NULL) {
        bl_list_push_back(&nursery->fibers, &fiber->nursery_link);
        nursery->running++;
    }
    make_ready(fiber);
    if (ret_fiber != NULL)
        *ret_fiber = fiber;
    return 0;
}

static void trim_stacks(void *owner)
{
    struct bl_loop *loop = owner;
    loop->trim_timer = 0;
    if (stacks_trim(&loop->stacks, 1024))
        loop->trim_timer = timer_set(&loop->timers, bl_clock_now_ns(&loop->clock) + BL_NS_PER_MS,
                                     trim_stacks, loop);
}

/* Trims free stacks later: they keep their memory for a moment, because most loads recur. */
static void trim_later(struct bl_loop *loop)
{
    if (loop->virtual_time || loop->trim_timer != 0 || stacks_untrimmed(&loop->stacks) < 64)
        return;
    loop->trim_timer = timer_set(&loop->timers, bl_clock_now_ns(&loop->clock) + 500 * BL_NS_PER_MS,
                                 trim_stacks, loop);
}

static void fiber_end(struct bl_loop *loop, struct bl_fiber *fiber)
{
    stack_give(&loop->stacks, fiber->stack);
    fiber->stack = NULL;
    trim_later(loop);
    wake_all(&fiber->joining);
    bl_list_remove(&fiber->all_link);
    struct bl_nursery *nursery = fiber->nursery;
    if (nursery != NULL && --nursery->running == 0)
        wake_all(&nursery->joining);
    if (!fiber->handle) {
        bl_list_remove(&fiber->nursery_link);
        bl_list_push_front(&loop->recycled, &fiber->all_link);
    }
}

/* Switches from the loop to a fiber. Returns when the fiber waits, ends, or calls the loop. */
static void switch_to_fiber(struct bl_loop *loop, struct bl_fiber *fiber)
{
    loop->running = fiber;
#ifdef FIBER_ASAN
    void *fake_stack = NULL;
    __sanitizer_start_switch_fiber(&fake_stack, fiber->stack, STACK_SIZE);
#endif
    struct transfer transfer = jump_fcontext(fiber->context, fiber);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#endif
    fiber->context = transfer.context;
    loop->running = NULL;
}

void bl_loop_call(void (*run)(void *argument), void *argument)
{
    struct bl_fiber *self = bl_fiber_current();
    self->call = run;
    self->call_argument = argument;
    switch_to_loop(self);
}

void fiber_resume(struct bl_loop *loop, struct bl_fiber *fiber)
{
    assert(loop->running == NULL);
    fiber_move(fiber, FIBER_RUNNING);
    switch_to_fiber(loop, fiber);
    while (fiber->call != NULL) {
        void (*run)(void *argument) = fiber->call;
        fiber->call = NULL;
        run(fiber->call_argument);
        switch_to_fiber(loop, fiber);
    }
    if (fiber->state == FIBER_ENDED)
        fiber_end(loop, fiber);
}

struct bl_fiber *fiber_first(struct bl_list *queue)
{
    if (bl_list_empty(queue))
        return NULL;
    return BL_CONTAINER(queue->next, struct bl_fiber, queue_link);
}

/* The scope whose stop may end a wait, or NULL. */
static struct bl_scope *waking_scope(struct bl_scope *scope, enum fiber_wait_mode mode)
{
    switch (mode) {
    case WAIT_STOPPABLE: return scope;
    case WAIT_SHIELDED:
        while (scope != NULL && !scope->shield)
            scope = scope->parent;
        return scope;
    case WAIT_TO_THE_END: return NULL;
    }
    return NULL;
}

int fiber_wait(struct bl_list *queue, const char *wait_for, enum fiber_wait_mode mode)
{
    struct bl_loop *loop = loop_current;
    assert(loop != NULL && loop->running != NULL);
    struct bl_fiber *self = loop->running;
    if (mode != WAIT_TO_THE_END) {
        int code = scope_code(self->scope);
        if (code != 0) {
            timer_clear(&loop->timers, self->timer);
            self->timer = 0;
            return code;
        }
    }
    struct bl_scope *scope = waking_scope(self->scope, mode);
    if (scope != NULL)
        bl_list_push_back(&scope->waiters, &self->scope_link);
    if (queue != NULL)
        bl_list_push_back(queue, &self->queue_link);
    fiber_move(self, FIBER_PARKED);
    self->wait_for = wait_for;
    self->wait_since_ns = loop->turn_ns;
    self->frame = __builtin_frame_address(0);
    switch_to_loop(self);
    self->wait_for = NULL;
    return self->wait_result;
}

int fiber_wait_external(struct bl_list *queue, const char *wait_for, enum fiber_wait_mode mode)
{
    struct bl_loop *loop = loop_current;
    loop->external++;
    int code = fiber_wait(queue, wait_for, mode);
    loop->external--;
    return code;
}

void fiber_wake(struct bl_fiber *fiber, int result)
{
    if (fiber->state != FIBER_PARKED)
        return;
    bl_list_remove(&fiber->scope_link);
    bl_list_remove(&fiber->queue_link);
    if (fiber->timer != 0)
        timer_clear(&fiber->loop->timers, fiber->timer);
    fiber->timer = 0;
    fiber->wait_result = result;
    make_ready(fiber);
}

int bl_fiber_join(struct bl_fiber *fiber, int *ret_result)
{
    assert(fiber->handle && fiber != bl_fiber_current());
    if (fiber->state != FIBER_ENDED) {
        int code = fiber_wait(&fiber->joining, "a fiber's end", WAIT_STOPPABLE);
        if (code != 0)
            return code;
    }
    if (ret_result != NULL)
        *ret_result = fiber->result;
    return 0;
}

void bl_nursery_init(struct bl_nursery *nursery, struct bl_scope *parent)
{
    bl_scope_init(&nursery->scope, parent);
    bl_list_init(&nursery->fibers);
    bl_list_init(&nursery->joining);
    nursery->running = 0;
}

int bl_nursery_spawn(struct bl_nursery *nursery, struct bl_scope *scope, const char *name,
                     bl_fiber_main *main, void *argument, struct bl_fiber **ret_fiber)
{
    return fiber_start(nursery->scope.loop, nursery, scope == NULL ? &nursery->scope : scope, name,
                       main, argument, ret_fiber);
}

int bl_nursery_join(struct bl_nursery *nursery)
{
    while (nursery->running > 0) {
        int code = fiber_wait(&nursery->joining, "the fibers of a nursery", WAIT_STOPPABLE);
        if (code != 0)
            return code;
    }
    return 0;
}

void bl_nursery_done(struct bl_nursery *nursery)
{
    if (nursery->running > 0)
        bl_scope_stop(&nursery->scope, BL_STOP_PARENT, "nursery");
    while (nursery->running > 0)
        fiber_wait(&nursery->joining, "the end of a nursery", WAIT_TO_THE_END);
    struct bl_list *link;
    while ((link = bl_list_pop_front(&nursery->fibers)) != NULL) {
        struct bl_fiber *fiber = BL_CONTAINER(link, struct bl_fiber, nursery_link);
        bl_list_push_front(&fiber->loop->recycled, &fiber->all_link);
    }
    bl_scope_done(&nursery->scope);
}

static void sleep_over(void *owner)
{
    struct bl_fiber *fiber = owner;
    fiber->timer = 0;
    fiber_wake(fiber, 0);
}

int bl_sleep_until(uint64_t deadline_ns)
{
    struct bl_loop *loop = loop_current;
    if (deadline_ns != BL_NEVER)
        loop->running->timer = timer_set(&loop->timers, deadline_ns, sleep_over, loop->running);
    return fiber_wait(NULL, "sleep", WAIT_STOPPABLE);
}

int bl_sleep(uint64_t duration_ns)
{
    return bl_sleep_until(bl_time_add(bl_now_ns(), duration_ns));
}

/* A wait that ends at once: the fiber goes to the end of the ready queue. */
int bl_yield(void)
{
    struct bl_fiber *self = loop_current->running;
    int code = scope_code(self->scope);
    if (code != 0)
        return code;
    self->wait_result = 0;
    make_ready(self);
    self->frame = __builtin_frame_address(0);
    switch_to_loop(self);
    return 0;
}
