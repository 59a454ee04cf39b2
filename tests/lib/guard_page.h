/* Memory at the edge of an inaccessible page: a library that reads one byte too many is killed by a
 * signal, even if it was built without sanitizers. */
#ifndef BELAY_TESTS_GUARD_PAGE_H
#define BELAY_TESTS_GUARD_PAGE_H

#include <belay/base.h>

/* Pages between two inaccessible ones; grows as needed. Embedded by its owner, zeroed at first. */
struct guard_page {
    char *map;
    size_t size; /* of the pages between */
};

void guard_page_done(struct guard_page *guard);
/* Returns a copy that ends directly before an unmapped page, or begins directly after one. Valid
 * until the next call for this `guard`. */
struct bl_text guard_page_before(struct guard_page *guard, struct bl_text text);
struct bl_text guard_page_after(struct guard_page *guard, struct bl_text text);

/* From now on, each allocation of this process, in any library, ends directly before an unmapped
 * page (except for at most 15 bytes of alignment), and is unmapped when it is freed. Only in
 * programs that link guard_heap.c, which has no effect in sanitized builds. Slow: about 5 µs per
 * allocation. */
void guard_heap_begin(void);
void guard_heap_end(void);

#endif
