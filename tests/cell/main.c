#include "helpers.h"

extern const struct suite life_suite, observe_suite, terminate_suite, race_suite, record_suite,
    values_suite, restart_suite, disk_suite, garbage_suite, limit_suite, nested_suite, speed_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {&life_suite,    &observe_suite, &terminate_suite,
                                                 &race_suite,    &record_suite,  &values_suite,
                                                 &restart_suite, &disk_suite,    &garbage_suite,
                                                 &limit_suite,   &nested_suite,  &speed_suite};
    /* As the program does: if a warden is given up on a busy machine, this process takes its place.
     * The roles are its children, too, and live only while it has no wardens. */
    bl_proc_adopt_orphans();
    if (argument_count > 1 && strcmp(arguments[1], "--role") == 0)
        return role_main(argument_count, arguments);
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
