/* Delays that make two events coincide. They are adjusted during the test, so that each event is
 * first half of the time. A test of a race asserts that both have been first. */
#ifndef BELAY_TESTS_AIM_H
#define BELAY_TESTS_AIM_H

#include <stdbool.h>
#include <stdint.h>

#include <belay/base.h>

struct aim {
    struct bl_random random;
    double range; /* of delays */
};

void aim_init(struct aim *aim, uint64_t seed, double range);
/* The next delay, in the unit of the range. */
uint64_t aim_take(struct aim *aim);
/* Call it after each round. `lost`: the delayed event was last. */
void aim_settle(struct aim *aim, bool lost);

#endif
