#include "suite.h"

extern const struct suite commit_suite, config_suite, copy_suite, lock_suite, merge_suite,
    program_suite, repository_suite, run_suite, sight_suite;

SUITE_MAIN(&config_suite, &run_suite, &repository_suite, &commit_suite, &copy_suite, &lock_suite,
           &merge_suite, &program_suite, &sight_suite)
