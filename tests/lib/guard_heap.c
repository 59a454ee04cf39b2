/* Replaces malloc and related functions of the whole program, for parsers that copy their input
 * before they read it.
 *
 * Design notes. A region of addresses is reserved once. An allocation takes the next free units of
 * it, is placed at their end, and is followed by one inaccessible unit. Freed memory is
 * inaccessible too, until the search for free units comes round again, so that a use after free is
 * detected. While guarding is off, and for earlier memory, glibc's own functions are used.
 * Sanitizers have their own malloc: with them, this file does nothing. */
#include "guard_page.h"

#include "suite.h"

#if SUITE_SANITIZED

void guard_heap_begin(void) {}

void guard_heap_end(void) {}

#else

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAP_UNIT     ((size_t)64 * 1024) /* no page of any machine is larger */
#define HEAP_UNITS    ((size_t)1 << 18)
#define HEAP_USED_MAX ((size_t)16 * 1024) /* each takes two mappings of 65,530 */
#define HEAP_ALIGN    ((size_t)16)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void __libc_free(void *pointer);

static struct {
    pthread_mutex_t lock;
    char *map;
    size_t sizes[HEAP_UNITS]; /* by the first unit of an allocation */
    bool taken[HEAP_UNITS];
    size_t next, used;
    bool on;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

void guard_heap_begin(void)
{
    pthread_mutex_lock(&heap.lock);
    if (heap.map == NULL) {
        void *map = mmap(NULL, HEAP_UNITS * HEAP_UNIT, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED)
            abort();
        heap.map = map;
    }
    heap.on = true;
    pthread_mutex_unlock(&heap.lock);
}

void guard_heap_end(void)
{
    pthread_mutex_lock(&heap.lock);
    heap.on = false;
    pthread_mutex_unlock(&heap.lock);
}

static size_t guard_heap_units(size_t size)
{
    return (size + HEAP_UNIT - 1) / HEAP_UNIT + 1;
}

/* Returns the first of `count` consecutive free units, or HEAP_UNITS if there are none. */
static size_t guard_heap_find(size_t count)
{
    size_t run = 0;

    for (size_t looked = 0; looked < HEAP_UNITS; looked++) {
        size_t at = (heap.next + looked) % HEAP_UNITS;
        run = at == 0 ? 0 : run;
        run = heap.taken[at] ? 0 : run + 1;
        if (run == count)
            return at + 1 - count;
    }
    return HEAP_UNITS;
}

static char *guard_heap_place(size_t unit, size_t size)
{
    return heap.map + (unit + guard_heap_units(size) - 1) * HEAP_UNIT - size;
}

/* Returns NULL if glibc's heap must be used. A size that is not a multiple of 16 needs no alignment
 * of 16. */
static void *guard_heap_take(size_t size)
{
    void *place = NULL;

    pthread_mutex_lock(&heap.lock);
    size_t count = guard_heap_units(size), unit = HEAP_UNITS;
    if (heap.on && size < HEAP_UNITS / 4 * HEAP_UNIT && heap.used < HEAP_USED_MAX)
        unit = guard_heap_find(count);
    if (unit < HEAP_UNITS && mprotect(heap.map + unit * HEAP_UNIT, (count - 1) * HEAP_UNIT,
                                      PROT_READ | PROT_WRITE) == 0) {
        memset(heap.taken + unit, 1, count);
        heap.sizes[unit] = size;
        heap.next = (unit + count) % HEAP_UNITS;
        heap.used++;
        place = guard_heap_place(unit, size);
    }
    pthread_mutex_unlock(&heap.lock);
    return place;
}

static bool guard_heap_has(const void *pointer)
{
    const char *at = pointer;

    return heap.map != NULL && at >= heap.map && at < heap.map + HEAP_UNITS * HEAP_UNIT;
}

/* Returns the first unit of an allocation; any other pointer is a bug of the caller. An empty
 * allocation is at the start of the inaccessible unit. */
static size_t guard_heap_unit(const void *pointer)
{
    size_t unit = (size_t)((const char *)pointer - heap.map) / HEAP_UNIT;

    if (!heap.taken[unit] || guard_heap_place(unit, heap.sizes[unit]) != pointer)
        abort();
    return unit;
}

static void guard_heap_give(void *pointer)
{
    pthread_mutex_lock(&heap.lock);
    size_t unit = guard_heap_unit(pointer), count = guard_heap_units(heap.sizes[unit]);
    if (mmap(heap.map + unit * HEAP_UNIT, count * HEAP_UNIT, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    memset(heap.taken + unit, 0, count);
    heap.used--;
    pthread_mutex_unlock(&heap.lock);
}

void *malloc(size_t size)
{
    void *place = heap.on ? guard_heap_take(size) : NULL;

    return place != NULL ? place : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    /* Units are zeroed when they are taken. */
    void *place = heap.on ? guard_heap_take(bytes) : NULL;
    return place != NULL ? place : __libc_calloc(count, size);
}

void free(void *pointer)
{
    if (guard_heap_has(pointer))
        guard_heap_give(pointer);
    else
        __libc_free(pointer);
}

void *realloc(void *pointer, size_t size)
{
    if (!guard_heap_has(pointer) && (pointer != NULL || !heap.on))
        return __libc_realloc(pointer, size);
    void *place = malloc(size);
    if (pointer == NULL || place == NULL)
        return place;
    size_t before = heap.sizes[guard_heap_unit(pointer)];
    memcpy(place, pointer, before < size ? before : size);
    free(pointer);
    return place;
}

#endif
