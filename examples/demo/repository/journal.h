/* Lines with a time stamp in front. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* "2024-02-29T12:00:00Z", in UTC whatever the machine's time zone. False: `out` is too small. */
bool stamp_format(time_t when, char *out, size_t size);
/* The stamp, a blank, and the text. False: `out` is too small. */
bool journal_line(time_t when, const char *text, char *out, size_t size);

#endif
