/* Stacks of fibers: guarded, pooled, carved out of a few large mappings. */
#ifndef BELAY_FIBER_STACK_H
#define BELAY_FIBER_STACK_H

#include <belay/base.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_SIZE ((size_t)256 * 1024)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STACK_SIZE ((size_t)256 * 1024)
#endif
#endif
#ifndef STACK_SIZE
#define STACK_SIZE ((size_t)64 * 1024)
#endif
/* One large frame must not be able to jump over it. */
#define STACK_GUARD ((size_t)64 * 1024)

/* The number of guards that mprotect can make before the process reaches the kernel's limit of
 * mappings. */
#define STACK_PROTECTED_MAX 30000u

struct stacks {
    struct stack_slab *slabs; /* newest first */
    char **free;              /* low ends, last in, first out; the first `trimmed` hold no memory */
    size_t free_count;
    size_t free_capacity;
    size_t trimmed;
    size_t in_use;
    size_t maximum;
};

void stacks_init(struct stacks *stacks, size_t maximum);
void stacks_done(struct stacks *stacks);
/* Returns NULL if no stack is available. The guard is the STACK_GUARD bytes below the stack. */
char *stack_take(struct stacks *stacks);
void stack_give(struct stacks *stacks, char *stack);
/* Returns the memory of up to `most` free stacks to the system. Returns true if more are left. */
bool stacks_trim(struct stacks *stacks, size_t most);
/* Free stacks that hold memory. */
static inline size_t stacks_untrimmed(const struct stacks *stacks)
{
    return stacks->free_count - stacks->trimmed;
}
/* The offset of a fiber's first frame. Stacks are at equal distances, so their hot ends would share
 * the same few cache sets; this offset spreads them. */
size_t stack_colour(const char *stack);
bool stack_guard_regions_available(void);

#endif
