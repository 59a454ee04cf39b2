/* Loops for tests of fibers, and assertions inside them. */
#ifndef BELAY_TESTS_FIBERS_H
#define BELAY_TESTS_FIBERS_H

#include <belay/fiber.h>

#include "suite.h"

/* Runs `main` as a fiber on a new loop, frees the loop, and fails the test if either fails. Returns
 * the result of `main`. */
int run_in_loop(bl_fiber_main *main, void *argument);
/* The same in virtual time, with this seed. */
int run_in_virtual_loop(uint64_t seed, bl_fiber_main *main, void *argument);

/* Like run_in_loop, outside of a test: the first failure goes to standard error. Returns the number
 * of failures. */
int run_in_role(bl_fiber_main *main, void *argument);

/* Counts how often the running fiber's loop polls the system for events: an idle loop sleeps. */
struct turns;
struct turns *turns_begin(void);
/* Returns the count; the loop frees `turns` in its next turn. */
unsigned turns_end(struct turns *turns);

/* Assertions inside fibers must not jump across stacks: they record the first failure, and
 * run_in_loop reports it afterwards. */
#define CHECK(condition) check_that(condition, #condition, __FILE__, __LINE__)
#define CHECK_EQUAL(a, b)                                                                          \
    check_equal((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__)
bool check_that(bool holds, const char *text, const char *file, int line);
bool check_equal(long long a, long long b, const char *text, const char *file, int line);

#endif
