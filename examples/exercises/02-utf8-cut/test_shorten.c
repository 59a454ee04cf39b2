#include "shorten.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    static const struct {
        const char *text;
        size_t size;
        const char *expected;
    } table[] = {
        {"plain", 16, "plain"},
        {"plain", 6, "plain"},
        {"plain text", 8, "plai…"},
        {"Größe", 8, "Größe"},
        {"Größe", 7, "Gr…"},
        {"Größen", 8, "Grö…"},
        {"a🧗b", 7, "a🧗b"},
        {"a🧗bc", 7, "a…"},
        {"🧗🧗", 8, "🧗…"},
        {"abcdef", 4, "…"},
        {"abcdef", 3, "ab"},
        {"ößä", 4, "…"},
        {"ößä", 3, "ö"},
        {"ößä", 2, ""},
        {"abc", 1, ""},
        {"", 1, ""},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char out[32];
        memset(out, '#', sizeof out);
        shorten(out, table[i].size, table[i].text);
        if (strcmp(out, table[i].expected) == 0 && out[table[i].size] == '#')
            continue;
        printf("'%s' in %zu bytes: '%s', expected '%s'\n", table[i].text, table[i].size, out,
               table[i].expected);
        failed = 1;
    }
    puts(failed ? "failed" : "passed");
    return failed;
}
