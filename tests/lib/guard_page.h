/* Memory at the edge of a page that cannot be touched: a library that reads one byte too many is
 * ended by a signal there, also where it was built without sanitizers. */
#ifndef BELAY_TESTS_GUARD_PAGE_H
#define BELAY_TESTS_GUARD_PAGE_H

#include <belay/base.h>

/* Pages between two that cannot be touched; grows as needed. Embedded by its owner, zero at first.
 */
struct guard_page {
    char *map;
    size_t size; /* of the pages between */
};

void guard_page_done(struct guard_page *guard);
/* A copy that ends right before an unmapped page, or begins right after one. Until the next call
 * for this `guard`. */
struct bl_text guard_page_before(struct guard_page *guard, struct bl_text text);
struct bl_text guard_page_after(struct guard_page *guard, struct bl_text text);

/* From now on each allocation of this process, whichever library asks for it, ends right before an
 * unmapped page (less what its alignment costs: at most 15 bytes), and is unmapped when it is
 * freed. Only in programs that link guard_heap.c, which has no effect in sanitized builds. Slow:
 * about 5 µs for each. */
void guard_heap_begin(void);
void guard_heap_end(void);

#endif
