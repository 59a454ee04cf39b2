#include "aim.h"

void aim_init(struct aim *aim, uint64_t seed, double range)
{
    aim->range = range;
    bl_random_seed(&aim->random, seed);
}

uint64_t aim_take(struct aim *aim)
{
    return bl_random_below(&aim->random, (uint64_t)aim->range + 1);
}

void aim_settle(struct aim *aim, bool lost)
{
    aim->range *= lost ? 0.97 : 1.03;
}
