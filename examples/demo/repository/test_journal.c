#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void expect(time_t when, const char *wanted)
{
    char line[64] = "";

    if (journal_line(when, "started", line, sizeof line) && strcmp(line, wanted) == 0)
        return;
    printf("FAILED: '%s', expected '%s'\n", line, wanted);
    failed = 1;
}

int main(void)
{
    char small[8];

    /* Five hours behind UTC. */
    setenv("TZ", "EST5", 1);
    tzset();
    expect(0, "1970-01-01T00:00:00Z started");
    expect(1709208000, "2024-02-29T12:00:00Z started");
    if (journal_line(0, "started", small, sizeof small))
        failed = 1;
    puts(failed ? "red" : "green");
    return failed;
}
