/* Timers of a loop: one heap, with lazy deletion.
 *
 * Clearing a timer is one store: its entry stays in the heap and is dropped when it is due, or when
 * more entries are dead than alive. So a stop that ends 100,000 sleeping fibers sorts nothing.
 */
#ifndef BELAY_FIBER_TIMER_H
#define BELAY_FIBER_TIMER_H

#include <belay/base.h>

typedef void timer_fire(void *owner);

/* Slot and generation; 0 means no timer. */
typedef uint64_t timer_id;

struct timers {
    struct timer_entry *heap; /* 4-ary, earliest first */
    size_t count;
    size_t capacity;
    struct timer_slot *slots;
    uint32_t slot_count;
    uint32_t slot_capacity;
    uint32_t free_slot; /* index + 1; 0: none */
    size_t live;
};

void timers_init(struct timers *timers);
void timers_done(struct timers *timers);
/* Timers for the same time fire in an unspecified order, which is the same in each run. */
timer_id timer_set(struct timers *timers, uint64_t when_ns, timer_fire *fire, void *owner);
/* Harmless for 0 and for a timer that has fired. */
void timer_clear(struct timers *timers, timer_id id);
/* The time of the next timer; BL_NEVER: none. */
uint64_t timers_next_ns(struct timers *timers);
/* Fires all timers that are due at `now_ns`, including those set meanwhile; the others wait for the
 * next call. */
void timers_fire(struct timers *timers, uint64_t now_ns);

#endif
