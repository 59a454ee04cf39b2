#include "simulation.h"

extern const struct suite member_suite, simulation_suite;

SUITE_MAIN(&member_suite, &simulation_suite)
