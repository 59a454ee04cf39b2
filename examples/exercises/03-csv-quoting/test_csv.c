#include "csv.h"

#include <stdio.h>
#include <string.h>

#define MAX 4

/* Fields joined by '|', or "error". */
static void split(const char *line, char out[128])
{
    char copy[64], *fields[MAX];
    size_t used = 0;

    snprintf(copy, sizeof copy, "%s", line);
    int count = csv_split(copy, fields, MAX);
    snprintf(out, 128, "%s", count < 0 ? "error" : "");
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, 128 - used, "%s%s", i == 0 ? "" : "|", fields[i]);
}

int main(void)
{
    static const char *const table[][2] = {
        {"a,b,c", "a|b|c"},
        {"", ""},
        {",", "|"},
        {"a,,c", "a||c"},
        {"\"a\",b", "a|b"},
        {"\"Main Street 1, Springfield\",x", "Main Street 1, Springfield|x"},
        {"\"say \"\"hi\"\"\",\"\"\"\"", "say \"hi\"|\""},
        {"\"\",\"\"", "|"},
        {"a\"b,c", "a\"b|c"},
        {"\"open", "error"},
        {"\"closed\"too early,x", "error"},
        {"\"a,b\",\"c,d\",e,f", "a,b|c,d|e|f"},
        {"1,2,3,4,5", "error"},
    };
    char out[128];
    int failed = 0;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        split(table[i][0], out);
        if (strcmp(out, table[i][1]) == 0)
            continue;
        printf("<%s>: <%s>, expected <%s>\n", table[i][0], out, table[i][1]);
        failed = 1;
    }
    puts(failed ? "failed" : "passed");
    return failed;
}
