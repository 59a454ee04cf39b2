/* Design notes.
 *
 * An arena is a list of chunks, newest first. Only the newest is allocated from, so that a rewind
 * to a mark only truncates the list. Chunks start at 4 KiB and double up to 1 MiB; a larger
 * allocation gets a chunk of its own size. [next, end) is always a multiple of 16 bytes, so that
 * the common path can test the requested size without rounding it first.
 *
 * Under AddressSanitizer all memory that is not allocated is poisoned, including 16 bytes after
 * each allocation; at the end of a chunk, the sanitizer's own red zone does this. */
#include <belay/base.h>

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif
#ifndef ARENA_POISONS
#define ARENA_POISONS 0
#endif

#if ARENA_POISONS
#include <sanitizer/asan_interface.h>
#define RED_ZONE ((size_t)16)
#else
#define RED_ZONE ((size_t)0)
#endif

#define ALIGNMENT  ((size_t)16)
#define CHUNK_MIN  ((size_t)1024)
#define CHUNK_MAX  ((size_t)1 << 20)
#define PRINTF_MIN 256
/* The smallest block whose pages are released when it has moved. */
#define RELEASE_MIN ((size_t)256 * 1024)

struct bl_arena_chunk {
    _Alignas(16) struct bl_arena_chunk *older;
    size_t size; /* with this header */
};

_Static_assert(sizeof(struct bl_arena_chunk) % 16 == 0, "what follows the header is aligned");

#if ARENA_POISONS
/* Not inline and not const: gcc would otherwise report a read of uninitialised memory. */
static __attribute__((noinline)) void poison(char *memory, size_t size)
{
    __asan_poison_memory_region(memory, size);
}

static void unpoison(char *memory, size_t size)
{
    __asan_unpoison_memory_region(memory, size);
}
#else
static inline void poison(char *memory BL_UNUSED, size_t size BL_UNUSED) {}

static inline void unpoison(char *memory BL_UNUSED, size_t size BL_UNUSED) {}
#endif

void bl_out_of_memory(size_t size)
{
    char line[96];
    int length = snprintf(line, sizeof line, "belay: out of memory (%zu bytes requested)\n", size);
    /* If this fails, nothing more can be done. */
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
        abort();
    abort();
}

void *bl_alloc(size_t size)
{
    void *memory = malloc(size == 0 ? 1 : size);
    if (memory == NULL)
        bl_out_of_memory(size);
    return memory;
}

void *bl_zalloc(size_t size)
{
    void *memory = calloc(1, size == 0 ? 1 : size);
    if (memory == NULL)
        bl_out_of_memory(size);
    return memory;
}

void *bl_realloc(void *memory, size_t size)
{
    void *moved = realloc(memory, size == 0 ? 1 : size);
    if (moved == NULL)
        bl_out_of_memory(size);
    return moved;
}

void bl_free(void *memory)
{
    free(memory);
}

static char *chunk_start(struct bl_arena_chunk *chunk)
{
    return (char *)(chunk + 1);
}

static char *arena_chunk_end(struct bl_arena_chunk *chunk)
{
    return (char *)chunk + chunk->size;
}

/* Frees the chunks that are newer than `last`; NULL frees all. */
static void free_chunks(struct bl_arena *arena, struct bl_arena_chunk *last)
{
    while (arena->chunk != last) {
        struct bl_arena_chunk *chunk = arena->chunk;
        arena->chunk = chunk->older;
        arena->allocated -= chunk->size;
        unpoison((char *)chunk, chunk->size);
        free(chunk);
    }
}

/* Marks the newest chunk as free from `next` on. Without a chunk the arena is empty. */
static void set_next(struct bl_arena *arena, char *next)
{
    if (arena->chunk == NULL) {
        arena->next = NULL;
        arena->end = NULL;
        return;
    }
    arena->next = next;
    arena->end = arena_chunk_end(arena->chunk);
    poison(next, (size_t)(arena->end - next));
}

void bl_arena_init(struct bl_arena *arena)
{
    *arena = (struct bl_arena){0};
}

void bl_arena_done(struct bl_arena *arena)
{
    free_chunks(arena, NULL);
    set_next(arena, NULL);
}

void bl_arena_reset(struct bl_arena *arena)
{
    struct bl_arena_chunk *largest = arena->chunk;
    if (largest == NULL)
        return;
    for (struct bl_arena_chunk *chunk = largest->older; chunk != NULL; chunk = chunk->older) {
        if (chunk->size > largest->size)
            largest = chunk;
    }
    free_chunks(arena, largest);
    arena->chunk = largest->older;
    free_chunks(arena, NULL);
    largest->older = NULL;
    arena->chunk = largest;
    set_next(arena, chunk_start(largest));
}

struct bl_arena_mark bl_arena_mark(const struct bl_arena *arena)
{
    return (struct bl_arena_mark){arena->chunk, arena->next};
}

void bl_arena_rewind(struct bl_arena *arena, struct bl_arena_mark mark)
{
    free_chunks(arena, mark.chunk);
    set_next(arena, mark.next);
}

/* Rounds `size` up to whole units, at least one, so that empty allocations have distinct addresses.
 * The size must fit a chunk. */
static inline size_t rounded(size_t size)
{
    return (size + (size == 0) + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

/* The address of the allocation after one of `size` bytes at `memory` in the newest chunk. */
static inline char *arena_after(const struct bl_arena *arena, char *memory, size_t size)
{
    char *next = memory + rounded(size);
    return next == arena->end ? next : next + RED_ZONE;
}

/* Adds a chunk at the front, with room for `size` bytes, a multiple of 16. */
static void add_chunk(struct bl_arena *arena, size_t size)
{
    size_t total = CHUNK_MIN;
    if (arena->chunk != NULL)
        total = arena->chunk->size < CHUNK_MAX / 2 ? arena->chunk->size * 2 : CHUNK_MAX;
    if (size > total - sizeof(struct bl_arena_chunk))
        total = size + sizeof(struct bl_arena_chunk);

    struct bl_arena_chunk *chunk = bl_alloc(total);
    chunk->older = arena->chunk;
    chunk->size = total;
    arena->chunk = chunk;
    arena->allocated += total;
    set_next(arena, chunk_start(chunk));
}

/* The rare case of bl_arena_alloc: the chunk is full, or the size is 0. */
static __attribute__((noinline)) void *alloc_slowly(struct bl_arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX - CHUNK_MIN)
        bl_out_of_memory(size);
    if (rounded(size) > (uintptr_t)arena->end - (uintptr_t)arena->next)
        add_chunk(arena, rounded(size));
    char *memory = arena->next;
    arena->next = arena_after(arena, memory, size);
    unpoison(memory, size);
    return memory;
}

void *bl_arena_alloc(struct bl_arena *arena, size_t size)
{
    /* Size 0 wraps around and takes the slow path, like any size that does not fit. */
    if (__builtin_expect(size - 1 >= (uintptr_t)arena->end - (uintptr_t)arena->next, 0))
        return alloc_slowly(arena, size);
    char *memory = arena->next;
    arena->next = arena_after(arena, memory, size);
    unpoison(memory, size);
    return memory;
}

void *bl_arena_zalloc(struct bl_arena *arena, size_t size)
{
    return memset(bl_arena_alloc(arena, size), 0, size);
}

/* Releases the pages of a block that has moved. It is not read again, and a text that grows to
 * megabytes would leave megabytes unused. Its addresses stay reserved, because marks depend on the
 * chunk. */
static void release_pages(char *memory, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)memory + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)memory + size) & ~(page - 1);

    if (to > from)
        (void)madvise(memory + (from - (uintptr_t)memory), to - from, MADV_DONTNEED);
}

/* NULL makes a new allocation. A block that is not the newest stays in place as long as the new
 * size fits its rounded size. */
void *bl_arena_resize(struct bl_arena *arena, void *memory, size_t old_size, size_t new_size)
{
    if (memory == NULL)
        return bl_arena_alloc(arena, new_size);

    bool newest = arena_after(arena, memory, old_size) == arena->next;
    size_t room = newest ? (uintptr_t)arena->end - (uintptr_t)memory : rounded(old_size);
    if (new_size <= room) {
        poison(memory, room);
        unpoison(memory, new_size);
        if (newest)
            arena->next = arena_after(arena, memory, new_size);
        return memory;
    }

    void *moved = bl_arena_alloc(arena, new_size);
    memcpy(moved, memory, old_size < new_size ? old_size : new_size);
    poison(memory, old_size);
    if (old_size >= RELEASE_MIN)
        release_pages(memory, old_size);
    return moved;
}

struct bl_text bl_arena_text(struct bl_arena *arena, struct bl_text text)
{
    if (text.size >= PTRDIFF_MAX)
        bl_out_of_memory(text.size);
    char *copy = bl_arena_alloc(arena, text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return (struct bl_text){copy, text.size};
}

/* Most texts fit the buffer here and are formatted once. A text that cannot be formatted (over
 * INT_MAX bytes) becomes empty. */
struct bl_text bl_arena_vprintf(struct bl_arena *arena, const char *format, va_list arguments)
{
    assert(format != NULL);
    char text[PRINTF_MIN];
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(text, sizeof text, format, arguments);
    struct bl_text result = {text, length < 0 ? 0 : (size_t)length};
    if (result.size < sizeof text) {
        result = bl_arena_text(arena, result);
    } else {
        char *memory = bl_arena_alloc(arena, result.size + 1);
        vsnprintf(memory, result.size + 1, format, again);
        result.data = memory;
    }
    va_end(again);
    return result;
}

struct bl_text bl_arena_printf(struct bl_arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct bl_text text = bl_arena_vprintf(arena, format, arguments);
    va_end(arguments);
    return text;
}
