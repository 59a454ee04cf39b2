#include "simulation.h"

extern const struct suite member_suite, play_suite, simulation_suite, worker_suite;

SUITE_MAIN(&member_suite, &worker_suite, &simulation_suite, &play_suite)
