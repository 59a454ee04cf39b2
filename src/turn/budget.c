#include "parts.h"

bool bl_budget_reserve(struct bl_budget *budget, uint64_t tokens)
{
    for (struct bl_budget *each = budget; each != NULL; each = each->above) {
        uint64_t taken = each->used + each->reserved;
        if (each->limit != BL_UNLIMITED && (taken > each->limit || tokens > each->limit - taken))
            return false;
    }
    for (struct bl_budget *each = budget; each != NULL; each = each->above)
        each->reserved += tokens;
    return true;
}

void bl_budget_settle(struct bl_budget *budget, uint64_t reserved, uint64_t used)
{
    for (struct bl_budget *each = budget; each != NULL; each = each->above) {
        each->reserved -= reserved;
        each->used += used;
    }
}

bool bl_budget_passed(const struct bl_budget *budget)
{
    for (; budget != NULL; budget = budget->above) {
        if (budget->limit != BL_UNLIMITED && budget->used > budget->limit)
            return true;
    }
    return false;
}
