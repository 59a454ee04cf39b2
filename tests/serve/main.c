#include <stdlib.h>

#include "place.h"

extern const struct suite answer_suite, ask_suite, control_suite, folder_suite, line_suite,
    offer_suite, request_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {&folder_suite,  &line_suite, &request_suite,
                                                 &control_suite, &ask_suite,  &offer_suite,
                                                 &answer_suite};
    setenv("BELAY_WARDEN", BELAY_WARDEN_PATH, 0);
    if (argument_count > 1 && strcmp(arguments[1], "--role") == 0)
        return role_main(argument_count, arguments);
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
