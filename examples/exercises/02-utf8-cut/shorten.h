/* Titles that fit. */
#ifndef SHORTEN_H
#define SHORTEN_H

#include <stddef.h>

/* Copies `text` (UTF-8) into `out` of `size` bytes, zero byte included. What does not fit is cut at
 * the end of a character and ends in "…", where there is room for that. */
void shorten(char *out, size_t size, const char *text);

#endif
