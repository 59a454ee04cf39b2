#include "stack.h"

#include <errno.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define UNPOISON(memory, size) ASAN_UNPOISON_MEMORY_REGION(memory, size)
#else
#define UNPOISON(memory, size) ((void)(memory), (void)(size))
#endif

/* Kernel 6.13; not in the headers of this distribution. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define STACK_DISTANCE (STACK_SIZE + STACK_GUARD)
#define SLAB_FIRST     16
#define SLAB_LARGEST   8192

/* One mapping. `carved` stacks of it have been handed out at least once. */
struct stack_slab {
    struct stack_slab *next;
    char *base;
    size_t count;
    size_t carved;
};

bool stack_guard_regions_available(void)
{
    size_t page = 4096;
    void *probe = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED)
        return false;
    bool available = madvise(probe, page, MADV_GUARD_INSTALL) == 0;
    munmap(probe, page);
    return available;
}

void stacks_init(struct stacks *stacks, size_t maximum)
{
    memset(stacks, 0, sizeof *stacks);
    stacks->maximum = maximum == 0 ? SIZE_MAX : maximum;
}

void stacks_done(struct stacks *stacks)
{
    while (stacks->slabs != NULL) {
        struct stack_slab *slab = stacks->slabs;
        stacks->slabs = slab->next;
        /* The next mapping at this address is not a fiber's stack. */
        UNPOISON(slab->base, slab->carved * STACK_DISTANCE);
        munmap(slab->base, slab->count * STACK_DISTANCE);
        bl_free(slab);
    }
    bl_free(stacks->free);
    memset(stacks, 0, sizeof *stacks);
}

/* Adds a slab, twice as large as the previous one, or smaller if the system has no room for it. */
static bool add_slab(struct stacks *stacks)
{
    size_t count = stacks->slabs == NULL ? SLAB_FIRST : stacks->slabs->count * 2;
    if (count > SLAB_LARGEST)
        count = SLAB_LARGEST;
    void *base = MAP_FAILED;
    for (; count > 0; count /= 2) {
        base = mmap(NULL, count * STACK_DISTANCE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (base != MAP_FAILED)
            break;
    }
    if (base == MAP_FAILED)
        return false;
    /* With huge pages each stack would hold 2 MiB. Not fatal where there are none. */
    madvise(base, count * STACK_DISTANCE, MADV_NOHUGEPAGE);
    struct stack_slab *slab = bl_alloc(sizeof *slab);
    *slab = (struct stack_slab){stacks->slabs, base, count, 0};
    stacks->slabs = slab;
    return true;
}

static bool install_guard(char *guard)
{
    if (madvise(guard, STACK_GUARD, MADV_GUARD_INSTALL) == 0)
        return true;
    return errno == EINVAL && mprotect(guard, STACK_GUARD, PROT_NONE) == 0;
}

char *stack_take(struct stacks *stacks)
{
    if (stacks->in_use >= stacks->maximum)
        return NULL;
    if (stacks->free_count > 0) {
        char *stack = stacks->free[--stacks->free_count];
        if (stacks->trimmed > stacks->free_count)
            stacks->trimmed = stacks->free_count;
        stacks->in_use++;
        UNPOISON(stack, STACK_SIZE);
        return stack;
    }
    if (stacks->slabs == NULL || stacks->slabs->carved == stacks->slabs->count)
        if (!add_slab(stacks))
            return NULL;
    struct stack_slab *slab = stacks->slabs;
    char *guard = slab->base + slab->carved * STACK_DISTANCE;
    if (!install_guard(guard))
        return NULL;
    slab->carved++;
    stacks->in_use++;
    return guard + STACK_GUARD;
}

void stack_give(struct stacks *stacks, char *stack)
{
    if (stacks->free_count == stacks->free_capacity) {
        stacks->free_capacity = stacks->free_capacity == 0 ? 64 : stacks->free_capacity * 2;
        stacks->free = bl_realloc(stacks->free, stacks->free_capacity * sizeof *stacks->free);
    }
    stacks->free[stacks->free_count++] = stack;
    stacks->in_use--;
}

bool stacks_trim(struct stacks *stacks, size_t most)
{
    while (most-- > 0 && stacks->trimmed < stacks->free_count)
        madvise(stacks->free[stacks->trimmed++], STACK_SIZE, MADV_DONTNEED);
    return stacks->trimmed < stacks->free_count;
}

size_t stack_colour(const char *stack)
{
    return (uintptr_t)stack / STACK_DISTANCE % 16 * 64;
}
