/* One test binary per room, one suite per source file. A test file ends in
 *     SUITE(arena, cmocka_unit_test(aligns), cmocka_unit_test(grows));
 * and its room's main.c lists it: SUITE_MAIN(&arena_suite, &map_suite).
 *
 * A test that ends without a single assertion fails, and a test that skips gives a reason. */
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

/* Counts an assertion of the running test. May be called from any thread. cmocka's own assertions
 * call it, and so does every other check that can fail a test. */
void suite_assertion(void);

#define _assert_true(...)             (suite_assertion(), (_assert_true)(__VA_ARGS__))
#define _assert_return_code(...)      (suite_assertion(), (_assert_return_code)(__VA_ARGS__))
#define _assert_float_equal(...)      (suite_assertion(), (_assert_float_equal)(__VA_ARGS__))
#define _assert_float_not_equal(...)  (suite_assertion(), (_assert_float_not_equal)(__VA_ARGS__))
#define _assert_int_equal(...)        (suite_assertion(), (_assert_int_equal)(__VA_ARGS__))
#define _assert_int_not_equal(...)    (suite_assertion(), (_assert_int_not_equal)(__VA_ARGS__))
#define _assert_string_equal(...)     (suite_assertion(), (_assert_string_equal)(__VA_ARGS__))
#define _assert_string_not_equal(...) (suite_assertion(), (_assert_string_not_equal)(__VA_ARGS__))
#define _assert_memory_equal(...)     (suite_assertion(), (_assert_memory_equal)(__VA_ARGS__))
#define _assert_memory_not_equal(...) (suite_assertion(), (_assert_memory_not_equal)(__VA_ARGS__))
#define _assert_in_range(...)         (suite_assertion(), (_assert_in_range)(__VA_ARGS__))
#define _assert_not_in_range(...)     (suite_assertion(), (_assert_not_in_range)(__VA_ARGS__))
#define _assert_in_set(...)           (suite_assertion(), (_assert_in_set)(__VA_ARGS__))
#define _assert_not_in_set(...)       (suite_assertion(), (_assert_not_in_set)(__VA_ARGS__))

/* An assertion with its own message, for rows of a table. */
#define suite_fail_if(condition, ...)                                                              \
    do {                                                                                           \
        suite_assertion();                                                                         \
        if (condition)                                                                             \
            fail_msg(__VA_ARGS__);                                                                 \
    } while (0)

/* Ends the running test as skipped. scripts/test-run counts skips by `reason`: use the same text
 * for the same cause, and print details that differ from machine to machine before. */
#undef skip
#define suite_skip(reason) suite_skip_at(reason, __FILE__, __LINE__)
void suite_skip_at(const char *reason, const char *file, int line);

struct suite {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
    bool together; /* see SUITE_TOGETHER */
};

#define SUITE_DEFINE(name, is_together, ...)                                                       \
    extern const struct suite name##_suite;                                                        \
    static const struct CMUnitTest name##_tests[] = {__VA_ARGS__};                                 \
    const struct suite name##_suite = {#name, name##_tests, BL_COUNT(name##_tests), is_together}
#define SUITE(name, ...) SUITE_DEFINE(name, false, __VA_ARGS__)
/* Tests that see what the others do to the machine: they never run beside each other. */
#define SUITE_TOGETHER(name, ...) SUITE_DEFINE(name, true, __VA_ARGS__)

/* Runs the suites; arguments are patterns of tests to run, like cmocka's ("F12_*"). Returns the
 * number of failures, at least 1 if anything failed; a pattern that matches no test is a failure.
 */
int suite_main(int argument_count, char **arguments, const struct suite *const *suites,
               size_t suite_count);

/* Runs the tests in `shares` processes at once (8 at most), each of which returns with its share of
 * the tests; the caller's process ends here, with the output of all and the sum of their failures.
 * For suites that mostly wait, and run alone. Does nothing in the soak, or if patterns are given. */
void suite_share(int argument_count, unsigned shares);
/* True if the next test of a suite is in the share of this process. */
bool share_takes_next(const struct suite *suite);

#define SUITE_MAIN(...)                                                                            \
    int main(int argument_count, char **arguments)                                                 \
    {                                                                                              \
        const struct suite *const suites[] = {__VA_ARGS__};                                        \
        return suite_main(argument_count, arguments, suites, BL_COUNT(suites));                    \
    }

/* How often a long test runs its body: `short_form` in `make test`, `full_form` in `make soak`
 * (BELAY_SOAK=1). */
unsigned long suite_rounds(unsigned long short_form, unsigned long full_form);
/* Skips a test that has no short form. */
void suite_skip_unless_soak(void);

/* Path of a file or folder in `../shared`; skips the test if it does not exist. `relative` is below
 * shared/. The result is static. */
const char *suite_shared(const char *relative);

/* Reads a whole file into memory that the caller frees with bl_free; fails the test on an error. */
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
