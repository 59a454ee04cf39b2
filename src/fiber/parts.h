/* What the files of this room share: the loop, the fiber, and the one way to wait. */
#ifndef BELAY_FIBER_PARTS_H
#define BELAY_FIBER_PARTS_H

#include <pthread.h>
#include <uv.h>

#include <belay/fiber.h>

#include "stack.h"
#include "timer.h"

#define FIBER_NAME_SIZE 32

/*   new      --fiber_start-->         ready
 *   ready    --loop-->                running
 *   running  --bl_yield-->            ready
 *   running  --fiber_wait-->          parked
 *   parked   --fiber_wake, once-->    ready
 *   running  --main returns-->        ended
 *
 * fiber_move alone moves it. */
enum fiber_state {
    FIBER_NEW,
    FIBER_READY,
    FIBER_RUNNING,
    FIBER_PARKED,
    FIBER_ENDED,
};

/* How far a stop reaches into a wait. */
enum fiber_wait_mode {
    WAIT_STOPPABLE, /* the rule */
    WAIT_SHIELDED,  /* only the limit of a shield around it: calls of worker threads */
    WAIT_TO_THE_END /* nothing: the end of a nursery, whose fibers are stopped */
};

/* Owned by its nursery while it runs. One that has ended is kept for its handle if that was asked
 * for, else recycled. */
struct bl_fiber {
    /* What waking touches comes first, then what running does, then the rest: a stop of very many
     * fibers is a walk through memory. */
    struct bl_loop *loop;
    struct bl_list scope_link; /* in the waiters of the scope that may wake it */
    struct bl_list queue_link; /* ready queue, or queue of what it waits for */
    timer_id timer;
    int wait_result;
    enum fiber_state state;
    void *context;          /* where to go on, while it does not run */
    struct bl_scope *scope; /* what it runs in now */
    const char *wait_for;
    char *stack; /* low end; NULL once ended */
    struct bl_nursery *nursery;
    struct bl_list nursery_link;
    struct bl_list all_link;
    struct bl_list joining; /* fibers that wait for its end */
    int result;
    bool handle; /* somebody may still ask for it */
    bl_fiber_main *main;
    void *argument;
    void *wait_data; /* for what it waits for: where an item is or goes */
    uint64_t wait_since_ns;
    void *frame;      /* innermost frame, while parked */
    void *fake_stack; /* the address sanitizer's */
    char name[FIBER_NAME_SIZE];
};

struct bl_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_poll_t timer_poll;
    int timer_fd;
    uint64_t timer_armed_ns; /* what timer_fd is set to; BL_NEVER: nothing */
    struct bl_clock clock;
    uint64_t turn_ns; /* when this turn began */
    struct bl_scope scope;
    _Atomic(struct bl_scope *) pending; /* stopped, not delivered; newest first */
    _Atomic(bool) polling;              /* asleep, or about to be: must be woken by `wake` */
    struct bl_list due_hooks;
    struct bl_list ready;
    struct bl_list fibers; /* all that have not ended */
    struct bl_list recycled;
    struct bl_fiber *running;
    void *context;         /* the loop's own, while a fiber runs */
    const void *stack_low; /* the loop's own stack, for the address sanitizer */
    size_t stack_size;
    struct stacks stacks;
    struct timers timers;
    timer_id trim_timer;
    bool virtual_time;
    bool shuffled;
    _Atomic(uint64_t) virtual_now_ns;
    struct bl_random random;
    uint32_t external; /* fibers whose waking comes from outside: descriptors, signals, threads */
    struct workers *workers;
};

/* Loop whose turn it is on this thread. */
extern _Thread_local struct bl_loop *loop_current;

/* The one way to wait. Parks the running fiber, in `queue` if not NULL, until fiber_wake or, as
 * `mode` says, a stop. Returns what it was woken with: 0 or a code. Stoppable and shielded waits
 * return at once in a stopped scope, without parking. */
int fiber_wait(struct bl_list *queue, const char *wait_for, enum fiber_wait_mode mode);
/* Makes a parked fiber ready; whoever comes first decides, later calls do nothing. It is in no
 * queue any more when this returns. */
void fiber_wake(struct bl_fiber *fiber, int result);
/* First fiber of a queue, or NULL. */
struct bl_fiber *fiber_first(struct bl_list *queue);

/* Runs one ready fiber until it waits or ends. */
void fiber_resume(struct bl_loop *loop, struct bl_fiber *fiber);
/* Frees the recycled ones. */
void fiber_pool_done(struct bl_loop *loop);
int fiber_start(struct bl_loop *loop, struct bl_nursery *nursery, struct bl_scope *scope,
                const char *name, bl_fiber_main *main, void *argument, struct bl_fiber **ret_fiber);

/* 0, BL_ECANCELED or BL_ETIMEDOUT, without the clock. */
int scope_code(const struct bl_scope *scope);
void scope_init_root(struct bl_scope *scope, struct bl_loop *loop);
/* Hands down all stops that were asked for since: marks, wakes, and collects the hooks. */
void scope_deliver_pending(struct bl_loop *loop);
void scope_run_hooks(struct bl_loop *loop);

/* Fibers have run so long that timers and the system's events must be looked at. */
bool loop_turn_is_long(const struct bl_loop *loop);
/* Makes a sleeping loop turn. From any thread and signal handler. */
void loop_wake(struct bl_loop *loop);

/* For the log: the ids of the scopes around the running fiber; nothing outside of one. */
void describe_place(char *out, size_t out_size);

/* A wait whose waking comes from outside: virtual time stands still while there is one. */
int fiber_wait_external(struct bl_list *queue, const char *wait_for, enum fiber_wait_mode mode);

struct workers *workers_new(struct bl_loop *loop, uint32_t threads_max);
/* True when a thread has finished something that is not delivered yet. */
bool workers_finished(struct bl_loop *loop);
/* Delivers it; part of each turn. */
void workers_deliver(struct bl_loop *loop);
/* Ends the idle threads. False: one is stuck in a call. */
bool workers_done(struct bl_loop *loop);

/* Name of the function around an address of this program or its libraries, and how far in. */
struct symbols;
/* Writes "    #0 name+0x12" lines of the frames above `frame`, which lie inside the fiber's stack.
 */
int backtrace_write(const struct bl_fiber *fiber, const struct symbols *symbols,
                    struct bl_buffer *out);
struct symbols *symbols_new(void);
void symbols_free(struct symbols *symbols);
const char *symbols_find(const struct symbols *symbols, const void *address, size_t *ret_offset);

#endif
