/* Declarations shared by the files of this room: the loop, the fiber, and the single wait function.
 */
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
 * Only fiber_move changes the state. */
enum fiber_state {
    FIBER_NEW,
    FIBER_READY,
    FIBER_RUNNING,
    FIBER_PARKED,
    FIBER_ENDED,
};

/* Which stops end a wait. */
enum fiber_wait_mode {
    WAIT_STOPPABLE, /* any stop; the default */
    WAIT_SHIELDED,  /* only the limit of an enclosing shield: calls of worker threads */
    WAIT_TO_THE_END /* none: the end of a nursery, whose fibers are stopped */
};

/* Owned by its nursery while it runs. After its end it is kept if the caller has a handle, and
 * recycled otherwise. */
struct bl_fiber {
    /* Fields for waking come first, then those for running, then the rest, because a stop of very
     * many fibers touches all of them in memory. */
    struct bl_loop *loop;
    struct bl_list scope_link; /* in the waiters of the scope that may wake it */
    struct bl_list queue_link; /* in the ready queue, or in the queue that it waits in */
    timer_id timer;
    int wait_result;
    enum fiber_state state;
    void *context;          /* where to resume, while it does not run */
    struct bl_scope *scope; /* its current scope */
    const char *wait_for;
    char *stack; /* low end; NULL once ended */
    struct bl_nursery *nursery;
    struct bl_list nursery_link;
    struct bl_list all_link;
    struct bl_list joining; /* fibers that wait for its end */
    int result;
    bool handle; /* the caller has a handle to it */
    bl_fiber_main *main;
    void *argument;
    void *wait_data;              /* for the object that it waits for: where an item is or goes */
    void (*call)(void *argument); /* what the loop runs on its stack before it resumes the fiber */
    void *call_argument;
    uint64_t wait_since_ns;
    void *frame;      /* innermost frame, while parked */
    void *fake_stack; /* for the address sanitizer */
    char name[FIBER_NAME_SIZE];
};

struct bl_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_poll_t timer_poll;
    int timer_fd;
    uint64_t timer_armed_ns; /* setting of timer_fd; BL_NEVER: none */
    struct bl_clock clock;
    uint64_t turn_ns; /* when this turn began */
    struct bl_scope scope;
    _Atomic(struct bl_scope *) pending; /* stopped, not delivered; newest first */
    _Atomic(bool) polling;              /* asleep or about to sleep: must be woken by `wake` */
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
    uint32_t external; /* fibers that wait for outside events: descriptors, signals, threads */
    struct workers *workers;
};

/* The loop that runs on this thread. */
extern _Thread_local struct bl_loop *loop_current;

/* The function behind every wait. Parks the running fiber, in `queue` if not NULL, until fiber_wake
 * or a stop that `mode` admits. Returns the result of fiber_wake or the code of the stop. Stoppable
 * and shielded waits return at once in a stopped scope, without parking. */
int fiber_wait(struct bl_list *queue, const char *wait_for, enum fiber_wait_mode mode);
/* Makes a parked fiber ready and removes it from its queue. The first call sets the result; later
 * calls do nothing. */
void fiber_wake(struct bl_fiber *fiber, int result);
/* First fiber of a queue, or NULL. */
struct bl_fiber *fiber_first(struct bl_list *queue);

/* Runs one ready fiber until it waits or ends. */
void fiber_resume(struct bl_loop *loop, struct bl_fiber *fiber);
/* Frees the recycled fibers. */
void fiber_pool_done(struct bl_loop *loop);
int fiber_start(struct bl_loop *loop, struct bl_nursery *nursery, struct bl_scope *scope,
                const char *name, bl_fiber_main *main, void *argument, struct bl_fiber **ret_fiber);

/* Returns 0, BL_ECANCELED or BL_ETIMEDOUT without reading the clock. */
int scope_code(const struct bl_scope *scope);
void scope_init_root(struct bl_scope *scope, struct bl_loop *loop);
/* Delivers all pending stops: marks scopes, wakes fibers, and collects the hooks. */
void scope_deliver_pending(struct bl_loop *loop);
void scope_run_hooks(struct bl_loop *loop);

/* True if fibers have run so long that timers and the system's events must be checked. */
bool loop_turn_is_long(const struct bl_loop *loop);
/* Wakes a sleeping loop. May be called from any thread and from a signal handler. */
void loop_wake(struct bl_loop *loop);

/* Writes the ids of the running fiber's scopes, for the log; nothing outside of a fiber. */
void describe_place(char *out, size_t out_size);

/* Waits for an outside event: virtual time does not advance during such a wait. */
int fiber_wait_external(struct bl_list *queue, const char *wait_for, enum fiber_wait_mode mode);

struct workers *workers_new(struct bl_loop *loop, uint32_t threads_max);
/* True if a thread has finished work that is not delivered yet. */
bool workers_finished(struct bl_loop *loop);
/* Delivers finished work; part of each turn. */
void workers_deliver(struct bl_loop *loop);
/* Ends the idle threads. Returns false if a thread is stuck in a call. */
bool workers_done(struct bl_loop *loop);

/* Finds the function that contains an address of this program, and the offset in it. */
struct symbols;
/* Writes lines "    #0 name+0x12" for the parked fiber's frames, as far as they are in its stack.
 */
int backtrace_write(const struct bl_fiber *fiber, const struct symbols *symbols,
                    struct bl_buffer *out);
struct symbols *symbols_new(void);
void symbols_free(struct symbols *symbols);
const char *symbols_find(const struct symbols *symbols, const void *address, size_t *ret_offset);

#endif
