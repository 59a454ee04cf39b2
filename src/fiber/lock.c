#include <assert.h>

#include "parts.h"

void bl_semaphore_init(struct bl_semaphore *semaphore, uint64_t count)
{
    semaphore->count = count;
    bl_list_init(&semaphore->queue);
}

int bl_semaphore_try_take(struct bl_semaphore *semaphore)
{
    if (semaphore->count == 0)
        return BL_EAGAIN;
    semaphore->count--;
    return 0;
}

int bl_semaphore_take(struct bl_semaphore *semaphore)
{
    int code = scope_code(bl_scope_current());
    if (code != 0)
        return code;
    if (bl_semaphore_try_take(semaphore) == 0)
        return 0;
    return fiber_wait(&semaphore->queue, "a semaphore", WAIT_STOPPABLE);
}

/* Passes the unit directly to the first waiting fiber, if there is one, so that no other fiber can
 * take it in between. */
void bl_semaphore_give(struct bl_semaphore *semaphore)
{
    struct bl_fiber *next = fiber_first(&semaphore->queue);
    if (next != NULL)
        fiber_wake(next, 0);
    else
        semaphore->count++;
}

void bl_lock_init(struct bl_lock *lock)
{
    bl_semaphore_init(&lock->semaphore, 1);
    lock->owner = NULL;
}

int bl_lock_take(struct bl_lock *lock)
{
    assert(lock->owner != bl_fiber_current());
    int code = bl_semaphore_take(&lock->semaphore);
    if (code == 0)
        lock->owner = bl_fiber_current();
    return code;
}

void bl_lock_give(struct bl_lock *lock)
{
    assert(lock->owner == bl_fiber_current());
    lock->owner = NULL;
    bl_semaphore_give(&lock->semaphore);
}
