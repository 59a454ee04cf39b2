/* A prompt: the names in it are in their order within its bytes, and are paths that can be
 * looked for. */
#include <belay/runtime.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text rest = {(const char *)data, size};
    const char *end = rest.data + size, *last = rest.data;
    struct bl_reference reference;
    while (bl_reference_next(&rest, &reference)) {
        struct bl_text path = reference.path;
        if (path.size == 0 || path.data < last || path.data + path.size > end ||
            memchr(path.data, '\0', path.size) != NULL || rest.data + rest.size != end ||
            (!reference.marked && !bl_reference_is_image(path)))
            __builtin_trap();
        last = path.data + path.size;
    }
    return 0;
}
