#include "guard_page.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void guard_page_grow(struct guard_page *guard, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded = (size / page + 1) * page;

    if (guard->map != NULL && guard->size >= size)
        return;
    guard_page_done(guard);
    char *map = mmap(NULL, rounded + 2 * page, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map + page, rounded, PROT_READ | PROT_WRITE) != 0)
        abort();
    *guard = (struct guard_page){.map = map + page, .size = rounded};
}

void guard_page_done(struct guard_page *guard)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (guard->map != NULL)
        munmap(guard->map - page, guard->size + 2 * page);
    *guard = (struct guard_page){0};
}

static struct bl_text guard_page_copy(char *at, struct bl_text text)
{
    if (text.size > 0)
        memcpy(at, text.data, text.size);
    return (struct bl_text){at, text.size};
}

struct bl_text guard_page_before(struct guard_page *guard, struct bl_text text)
{
    guard_page_grow(guard, text.size);
    return guard_page_copy(guard->map + guard->size - text.size, text);
}

struct bl_text guard_page_after(struct guard_page *guard, struct bl_text text)
{
    guard_page_grow(guard, text.size);
    return guard_page_copy(guard->map, text);
}
