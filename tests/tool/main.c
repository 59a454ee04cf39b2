#include <stdlib.h>

#include "box.h"

extern const struct suite bash_suite, command_suite, glob_suite, output_suite, permission_suite,
    toolbox_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {&glob_suite,       &output_suite,  &command_suite,
                                                 &permission_suite, &toolbox_suite, &bash_suite};
    setenv("BELAY_WARDEN", BELAY_WARDEN_PATH, 0);
    if (argument_count > 1 && strcmp(arguments[1], "--role") == 0)
        return toolbox_role();
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
