#include "suite.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic(unsigned long) assertions; /* of the running test */
static unsigned long started;             /* tests, in all suites */

void suite_assertion(void)
{
    atomic_fetch_add_explicit(&assertions, 1, memory_order_relaxed);
}

void suite_skip_at(const char *reason, const char *file, int line)
{
    print_message("[  REASON  ] %s\n", reason);
    _skip(file, line);
}

/* A test as cmocka runs it: the suite's test, wrapped in a check of its assertions. */
struct suite_case {
    const struct CMUnitTest *test;
    void *state;
};

static int suite_case_setup(void **state)
{
    struct suite_case *each = *state;
    return each->test->setup_func(&each->state);
}

static int suite_case_teardown(void **state)
{
    struct suite_case *each = *state;
    return each->test->teardown_func(&each->state);
}

#if defined(__SANITIZE_THREAD__)
void __sanitizer_symbolize_pc(void *pc, const char *format, char *out, size_t size);

/* Uses only functions that a signal handler may call. */
static void suite_crash_say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
        return;
}

/* cmocka only reports that there was a crash, and the sanitizer cannot walk the stack of a fiber.
 */
static void suite_crashed(int number)
{
    void *frames[64];
    char line[512];
    int count = backtrace(frames, (int)BL_COUNT(frames));
    snprintf(line, sizeof line, "signal %d, stack:", number);
    suite_crash_say(line);
    for (int i = 0; i < count; i++) {
        __sanitizer_symbolize_pc(frames[i], "    %p in %f %L", line, sizeof line);
        suite_crash_say(line);
    }
    signal(number, SIG_DFL); /* then the instruction is executed again */
}

static void suite_catch_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    void *frame;
    backtrace(&frame, 1); /* the first call loads a library, which a handler must not do */
    for (size_t i = 0; i < BL_COUNT(numbers); i++)
        signal(numbers[i], suite_crashed);
}
#else
static void suite_catch_crashes(void) {}
#endif

static void suite_case_run(void **state)
{
    struct suite_case *each = *state;
    started++;
    suite_catch_crashes();
    atomic_store(&assertions, 0);
    each->test->test_func(&each->state);
    if (atomic_load(&assertions) == 0)
        fail_msg("%s asserts nothing", each->test->name);
}

/* Returns the number of failed tests. */
static int suite_run(const struct suite *suite)
{
    struct CMUnitTest *tests = bl_alloc(suite->count * sizeof *tests);
    struct suite_case *cases = bl_alloc(suite->count * sizeof *cases);
    size_t count = 0;
    for (size_t j = 0; j < suite->count; j++) {
        const struct CMUnitTest *test = &suite->tests[j];
        if (!share_takes_next(suite))
            continue;
        size_t i = count++;
        cases[i] = (struct suite_case){test, test->initial_state};
        tests[i] = (struct CMUnitTest){
            test->name, suite_case_run, test->setup_func != NULL ? suite_case_setup : NULL,
            test->teardown_func != NULL ? suite_case_teardown : NULL, &cases[i]};
    }
    int result = _cmocka_run_group_tests(suite->name, tests, count, NULL, NULL);
    bl_free(cases);
    bl_free(tests);
    return result < 0 ? 1 : result;
}

int suite_main(int argument_count, char **arguments, const struct suite *const *suites,
               size_t suite_count)
{
    /* A shell in the background ignores them, and so do its children. */
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT};
    for (size_t i = 0; i < BL_COUNT(signals); i++)
        signal(signals[i], SIG_DFL);
    int failed = 0;
    int patterns = argument_count > 1 ? argument_count - 1 : 1;

    for (int i = 0; i < patterns; i++) {
        unsigned long before = started;
        cmocka_set_test_filter(argument_count > 1 ? arguments[i + 1] : NULL);
        for (size_t j = 0; j < suite_count; j++)
            failed += suite_run(suites[j]);
        if (started == before) {
            fprintf(stderr, "no test matches '%s'\n", argument_count > 1 ? arguments[i + 1] : "*");
            failed++;
        }
    }
    return failed > 100 ? 100 : failed;
}

unsigned long suite_rounds(unsigned long short_form, unsigned long full_form)
{
    const char *soak = getenv("BELAY_SOAK");
    return soak != NULL && strcmp(soak, "1") == 0 ? full_form : short_form;
}

void suite_skip_unless_soak(void)
{
    if (suite_rounds(0, 1) == 0)
        suite_skip("has a long form only (make soak)");
}

const char *suite_shared(const char *relative)
{
    static char path[4096];
    const char *root = getenv("BELAY_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/../shared/%s", root != NULL ? root : ".", relative);
    if (access(path, R_OK) != 0) {
        print_message("%s: %s\n", path, strerror(errno));
        suite_skip("no folder ../shared with the public suites");
    }
    return path;
}

struct bl_text suite_read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s: %s", path, strerror(errno));
    size_t size = 0, capacity = 65536;
    char *data = bl_alloc(capacity);
    for (;;) {
        size_t count = fread(data + size, 1, capacity - size, file);
        size += count;
        if (count == 0)
            break;
        if (size == capacity)
            data = bl_realloc(data, capacity *= 2);
    }
    fclose(file);
    return (struct bl_text){data, size};
}
