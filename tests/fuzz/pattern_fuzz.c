/* A pattern, a line feed, and the text to search: neither may crash, leak or take more than its
 * budget. */
#include <belay/base.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text text = {(const char *)data, size}, source;
    struct bl_pattern *pattern;
    struct bl_error error = {0};
    if (!bl_text_split(&text, '\n', &source))
        return 0;
    if (bl_pattern_new(source, &pattern, &error) < 0) {
        if (error.message[0] == '\0')
            __builtin_trap();
        return 0;
    }
    uint64_t steps = 1000000;
    bl_pattern_search_within(pattern, text, &steps);
    bl_pattern_free(pattern);
    return 0;
}
