/* A pattern, a line feed, and the text to search: neither may crash, leak or take more than its
 * budget, and the finder of lines finds what the search finds in each. */
#include <belay/base.h>

#define LINES_MAX_SIZE 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare_lines(const struct bl_pattern *pattern, struct bl_text text)
{
    struct bl_line_finder *finder = bl_line_finder_new(pattern, NULL);
    struct bl_text rest = text, line, found;
    size_t offset = 0;
    while (bl_text_split(&rest, '\n', &line)) {
        if (line.size > 0 && line.data[line.size - 1] == '\r')
            line.size--;
        if (bl_pattern_search(pattern, line) &&
            (!bl_line_finder_next(finder, text, &offset, &found) || found.data != line.data))
            __builtin_trap();
    }
    if (bl_line_finder_next(finder, text, &offset, &found))
        __builtin_trap();
    bl_line_finder_free(finder);
}

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
    if (text.size < LINES_MAX_SIZE && steps > 0)
        compare_lines(pattern, text);
    bl_pattern_free(pattern);
    return 0;
}
