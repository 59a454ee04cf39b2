#include "shorten.h"

#include <stdio.h>

void shorten(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
}
