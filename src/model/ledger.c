#include <belay/model.h>

void bl_ledger_init(struct bl_ledger *ledger, double limit_usd, struct bl_scope *scope)
{
    *ledger = (struct bl_ledger){.limit_usd = limit_usd, .scope = scope};
}

double bl_ledger_left(const struct bl_ledger *ledger)
{
    double left_usd = ledger->limit_usd - ledger->booked_usd - ledger->reserved_usd;

    return ledger->overrun || left_usd < 0 ? 0 : left_usd;
}

bool bl_ledger_reserve(struct bl_ledger *ledger, double usd)
{
    /* Reserving 0 always succeeds, except after an overrun. */
    if (ledger->overrun || usd > bl_ledger_left(ledger))
        return false;
    ledger->reserved_usd += usd;
    return true;
}

bool bl_ledger_settle(struct bl_ledger *ledger, double reserved_usd, double usd)
{
    ledger->reserved_usd -= reserved_usd;
    ledger->booked_usd += usd;
    /* Sums of decimal fractions are not exact: a difference of less than a millionth of a cent is
     * ignored. */
    if (usd <= reserved_usd + 1e-8)
        return true;
    ledger->overrun = true;
    if (ledger->scope != NULL)
        bl_scope_stop(ledger->scope, BL_STOP_BUDGET, "overrun");
    return false;
}
