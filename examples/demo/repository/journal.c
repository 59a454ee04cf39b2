#include "journal.h"

#include <stdio.h>

bool journal_line(time_t when, const char *text, char *out, size_t size)
{
    char stamp[32];

    if (!stamp_format(when, stamp, sizeof stamp))
        return false;
    return (size_t)snprintf(out, size, "%s %s", stamp, text) < size;
}
