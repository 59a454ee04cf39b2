#include "size.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define UNTOUCHED 77u

int main(void)
{
    static const struct {
        const char *text;
        bool fits;
        uint64_t size;
    } table[] = {
        {"0", true, 0},
        {"4096", true, 4096},
        {"64K", true, 65536},
        {"3M", true, 3145728},
        {"2G", true, 2147483648u},
        {"1T", true, 1099511627776u},
        {"16777215T", true, 18446742974197923840u},
        {"16777216T", false, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999999999999999", false, 0},
        {"18014398509481984K", false, 0},
        {"", false, 0},
        {"K", false, 0},
        {"12x", false, 0},
        {"12KB", false, 0},
        {"-1", false, 0},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t size = UNTOUCHED, expected = table[i].fits ? table[i].size : UNTOUCHED;
        bool fits = parse_size(table[i].text, &size);
        if (fits == table[i].fits && size == expected)
            continue;
        printf("'%s': %s %" PRIu64 ", expected %s %" PRIu64 "\n", table[i].text,
               fits ? "taken, as" : "refused,", size, table[i].fits ? "taken, as" : "refused,",
               expected);
        failed = 1;
    }
    puts(failed ? "failed" : "passed");
    return failed;
}
