/* Shared by the tests of this room. */
#ifndef BELAY_TESTS_FEATURE_HELPERS_H
#define BELAY_TESTS_FEATURE_HELPERS_H

#include "../git/place.h"
#include "feature/parts.h"
#include "fibers.h"

#endif
