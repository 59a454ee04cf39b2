#include "size.h"

#include <string.h>

bool parse_size(const char *text, uint64_t *ret_size)
{
    static const char suffixes[] = "KMGT";
    uint64_t size = 0;

    while (*text >= '0' && *text <= '9')
        size = size * 10 + (uint64_t)(*text++ - '0');
    if (*text != '\0') {
        const char *suffix = strchr(suffixes, *text);
        if (suffix == NULL || text[1] != '\0')
            return false;
        size <<= 10 * (suffix - suffixes + 1);
    }
    *ret_size = size;
    return true;
}
