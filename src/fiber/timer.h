/* Timers of a loop: one heap, with lazy deletion.
 *
 * Clearing a timer is one store: its entry stays in the heap and is dropped when it comes up, or
 * when more entries are dead than alive. So a stop that ends 100,000 sleeping fibers sorts nothing.
 */
#ifndef BELAY_FIBER_TIMER_H
#define BELAY_FIBER_TIMER_H

#include <belay/base.h>

typedef void timer_fire(void *owner);

/* Slot and generation; 0 is no timer. */
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
/* Equal times fire in any order, but the same in each run. */
timer_id timer_set(struct timers *timers, uint64_t when_ns, timer_fire *fire, void *owner);
/* Harmless on 0 and on one that has fired. */
void timer_clear(struct timers *timers, timer_id id);
/* When the next one is due; BL_NEVER: none. */
uint64_t timers_next_ns(struct timers *timers);
/* Fires all that are due at `now_ns`; those set on the way wait for the next call unless due too.
 */
void timers_fire(struct timers *timers, uint64_t now_ns);

#endif
