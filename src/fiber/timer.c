#include "timer.h"

#include <assert.h>

struct timer_entry {
    uint64_t when_ns;
    uint32_t slot;
    uint32_t generation;
};

/* `generation` is odd while the slot is in use; an entry whose generation differs is dead. */
struct timer_slot {
    timer_fire *fire;
    void *owner;
    uint32_t generation;
    uint32_t next_free; /* index + 1 */
};

void timers_init(struct timers *timers)
{
    memset(timers, 0, sizeof *timers);
}

void timers_done(struct timers *timers)
{
    bl_free(timers->heap);
    bl_free(timers->slots);
}

static bool entry_dead(const struct timers *timers, const struct timer_entry *entry)
{
    return timers->slots[entry->slot].generation != entry->generation;
}

static void sift_up(struct timers *timers, size_t position, struct timer_entry entry)
{
    while (position > 0) {
        size_t parent = (position - 1) / 4;
        if (timers->heap[parent].when_ns <= entry.when_ns)
            break;
        timers->heap[position] = timers->heap[parent];
        position = parent;
    }
    timers->heap[position] = entry;
}

static void sift_down(struct timers *timers, size_t position, struct timer_entry entry)
{
    for (;;) {
        size_t first = position * 4 + 1;
        if (first >= timers->count)
            break;
        size_t last = first + 4 < timers->count ? first + 4 : timers->count;
        size_t least = first;
        for (size_t i = first + 1; i < last; i++)
            if (timers->heap[i].when_ns < timers->heap[least].when_ns)
                least = i;
        if (timers->heap[least].when_ns >= entry.when_ns)
            break;
        timers->heap[position] = timers->heap[least];
        position = least;
    }
    timers->heap[position] = entry;
}

/* Drops the dead entries and makes a heap of the rest. */
static void timer_compact(struct timers *timers)
{
    size_t kept = 0;
    for (size_t i = 0; i < timers->count; i++)
        if (!entry_dead(timers, &timers->heap[i]))
            timers->heap[kept++] = timers->heap[i];
    timers->count = kept;
    for (size_t i = kept / 4 + 1; i-- > 0;)
        if (i < kept)
            sift_down(timers, i, timers->heap[i]);
}

static uint32_t timer_take_slot(struct timers *timers)
{
    if (timers->free_slot != 0) {
        uint32_t slot = timers->free_slot - 1;
        timers->free_slot = timers->slots[slot].next_free;
        return slot;
    }
    if (timers->slot_count == timers->slot_capacity) {
        timers->slot_capacity = timers->slot_capacity == 0 ? 16 : timers->slot_capacity * 2;
        timers->slots = bl_realloc(timers->slots, timers->slot_capacity * sizeof *timers->slots);
    }
    timers->slots[timers->slot_count] = (struct timer_slot){0};
    return timers->slot_count++;
}

static void give_slot(struct timers *timers, uint32_t slot)
{
    timers->slots[slot].generation++;
    timers->slots[slot].next_free = timers->free_slot;
    timers->free_slot = slot + 1;
    timers->live--;
}

timer_id timer_set(struct timers *timers, uint64_t when_ns, timer_fire *fire, void *owner)
{
    if (timers->count == timers->capacity) {
        timers->capacity = timers->capacity == 0 ? 16 : timers->capacity * 2;
        timers->heap = bl_realloc(timers->heap, timers->capacity * sizeof *timers->heap);
    }
    uint32_t index = timer_take_slot(timers);
    struct timer_slot *slot = &timers->slots[index];
    slot->fire = fire;
    slot->owner = owner;
    slot->generation++;
    assert(slot->generation & 1);
    timers->live++;
    timers->count++;
    sift_up(timers, timers->count - 1, (struct timer_entry){when_ns, index, slot->generation});
    return (uint64_t)index << 32 | slot->generation;
}

void timer_clear(struct timers *timers, timer_id id)
{
    uint32_t slot = (uint32_t)(id >> 32);
    if (id == 0 || timers->slots[slot].generation != (uint32_t)id)
        return;
    give_slot(timers, slot);
    if (timers->count > 1024 && timers->live < timers->count / 8)
        timer_compact(timers);
}

static void drop_first(struct timers *timers)
{
    struct timer_entry last = timers->heap[--timers->count];
    sift_down(timers, 0, last);
}

uint64_t timers_next_ns(struct timers *timers)
{
    while (timers->count > 0 && entry_dead(timers, &timers->heap[0]))
        drop_first(timers);
    return timers->count > 0 ? timers->heap[0].when_ns : BL_NEVER;
}

void timers_fire(struct timers *timers, uint64_t now_ns)
{
    while (timers_next_ns(timers) <= now_ns && timers->count > 0) {
        uint32_t index = timers->heap[0].slot;
        struct timer_slot slot = timers->slots[index];
        give_slot(timers, index);
        drop_first(timers);
        slot.fire(slot.owner);
    }
}
