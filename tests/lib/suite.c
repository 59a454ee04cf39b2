#include "suite.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int suite_main(int argument_count, char **arguments, const struct suite *const *suites,
               size_t suite_count)
{
    /* A shell in the background has them ignored, and so have its children. */
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT};
    for (size_t i = 0; i < BL_COUNT(signals); i++)
        signal(signals[i], SIG_DFL);
    int failed = 0;
    int patterns = argument_count > 1 ? argument_count - 1 : 1;

    for (int i = 0; i < patterns; i++) {
        cmocka_set_test_filter(argument_count > 1 ? arguments[i + 1] : NULL);
        for (size_t j = 0; j < suite_count; j++) {
            int result = _cmocka_run_group_tests(suites[j]->name, suites[j]->tests,
                                                 suites[j]->count, NULL, NULL);
            failed += result < 0 ? 1 : result;
        }
    }
    return failed > 100 ? 100 : failed;
}

unsigned long suite_rounds(unsigned long short_form, unsigned long full_form)
{
    const char *soak = getenv("BELAY_SOAK");
    return soak != NULL && strcmp(soak, "1") == 0 ? full_form : short_form;
}

const char *suite_shared(const char *relative)
{
    static char path[4096];
    const char *root = getenv("BELAY_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/../shared/%s", root != NULL ? root : ".", relative);
    return access(path, R_OK) == 0 ? path : NULL;
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
