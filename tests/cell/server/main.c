#include <belay/proc.h>

#include "suite.h"

extern const struct suite server_suite, server_limit_suite, server_bad_suite, reconnect_suite,
    lossy_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {&server_suite, &server_limit_suite,
                                                 &server_bad_suite, &reconnect_suite, &lossy_suite};
    bl_proc_adopt_orphans(); /* as the program does */
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
