#include "helpers.h"

extern const struct suite postgres_suite, proxy_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {&postgres_suite, &proxy_suite};
    if (argument_count == 3 && strcmp(arguments[1], "--role") == 0)
        return role_main(arguments[2]);
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
