#include "path.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool is_part(const char *part, size_t size, const char *name)
{
    return strlen(name) == size && memcmp(part, name, size) == 0;
}

/* Takes the last part off; returns the length that is left. */
static size_t drop_part(const char *path, size_t length)
{
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length > 0 ? length - 1 : 0;
}

void path_normalise(char *path)
{
    size_t root = path[0] == '/';
    size_t length = root;
    const char *from = path + root;

    while (*from != '\0') {
        size_t size = strcspn(from, "/");
        if (is_part(from, size, "..")) {
            length = drop_part(path, length);
        } else if (!is_part(from, size, ".")) {
            if (length > root)
                path[length++] = '/';
            memmove(path + length, from, size);
            length += size;
        }
        from += size;
        if (*from == '/')
            from++;
    }
    path[length] = '\0';
}
