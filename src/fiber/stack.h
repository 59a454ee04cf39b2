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

/* How many guards mprotect can make before the kernel's limit of mappings ends the process's luck.
 */
#define STACK_PROTECTED_MAX 30000u

struct stacks {
    struct stack_slab *slabs; /* newest first */
    char **free;              /* low ends, last in first out; the lowest `trimmed` hold no memory */
    size_t free_count;
    size_t free_capacity;
    size_t trimmed;
    size_t in_use;
    size_t maximum;
};

void stacks_init(struct stacks *stacks, size_t maximum);
void stacks_done(struct stacks *stacks);
/* NULL: none to be had. The guard is the STACK_GUARD bytes below it. */
char *stack_take(struct stacks *stacks);
void stack_give(struct stacks *stacks, char *stack);
/* Gives the memory of up to `most` free stacks back to the system; true when more are left. */
bool stacks_trim(struct stacks *stacks, size_t most);
/* Free stacks that hold memory. */
static inline size_t stacks_untrimmed(const struct stacks *stacks)
{
    return stacks->free_count - stacks->trimmed;
}
/* Where a fiber's first frame begins: stacks lie at equal distances, so their hot ends would share
 * the same few cache sets; this spreads them. */
size_t stack_colour(const char *stack);
bool stack_guard_regions_available(void);

#endif
