/* One test binary per room; one suite per source file. A test file ends in
 *     SUITE(arena, cmocka_unit_test(aligns), cmocka_unit_test(grows));
 * and its room's main.c lists it: SUITE_MAIN(&arena_suite, &map_suite). */
#ifndef BELAY_TESTS_SUITE_H
#define BELAY_TESTS_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <belay/base.h>

struct suite {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
};

#define SUITE(name, ...)                                                                           \
    extern const struct suite name##_suite;                                                        \
    static const struct CMUnitTest name##_tests[] = {__VA_ARGS__};                                 \
    const struct suite name##_suite = {#name, name##_tests, BL_COUNT(name##_tests)}

/* Runs the suites; arguments are patterns (as of cmocka, "F12_*") of tests to run. Returns how many
 * failed, 1 at least when something did. */
int suite_main(int argument_count, char **arguments, const struct suite *const *suites,
               size_t suite_count);

#define SUITE_MAIN(...)                                                                            \
    int main(int argument_count, char **arguments)                                                 \
    {                                                                                              \
        const struct suite *const suites[] = {__VA_ARGS__};                                        \
        return suite_main(argument_count, arguments, suites, BL_COUNT(suites));                    \
    }

/* How often a long test runs its body: `short_form` in `make test`, `full_form` in `make soak`
 * (BELAY_SOAK=1). */
unsigned long suite_rounds(unsigned long short_form, unsigned long full_form);

/* Path of a file or folder of `../shared`, or NULL where it is absent: the test then calls skip()
 * after printing its name. `relative` is below shared/. The result is static. */
const char *suite_shared(const char *relative);

/* Reads a whole file into memory that the caller frees with bl_free; fails the test when it cannot.
 */
struct bl_text suite_read_file(const char *path);

/* True in builds with address, thread or undefined-behaviour sanitizers, which are 2 to 20 times
 * slower: long tests divide their rounds. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SUITE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SUITE_SANITIZED 1
#endif
#endif
#ifndef SUITE_SANITIZED
#define SUITE_SANITIZED 0
#endif

#endif
