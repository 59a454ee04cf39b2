#include "journal.h"

bool stamp_format(time_t when, char *out, size_t size)
{
    struct tm parts;

    if (localtime_r(&when, &parts) == NULL)
        return false;
    return strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0;
}
