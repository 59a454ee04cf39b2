#include "trial.h"

extern const struct suite tree_suite, attack_suite, property_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {&tree_suite, &attack_suite, &property_suite};

    suite_share(argument_count, 3);
    observer_open();
    int failed = suite_main(argument_count, arguments, suites, BL_COUNT(suites));
    trial_close();
    observer_close();
    return failed;
}
