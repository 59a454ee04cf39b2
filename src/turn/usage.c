#include "parts.h"

/* A provider's numbers are untrusted: saturate instead of wrapping. */
static uint64_t usage_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t bl_usage_total(const struct bl_usage *usage)
{
    return usage_add(usage->input_tokens, usage->output_tokens);
}

void bl_usage_add(struct bl_usage *usage, const struct bl_usage *more)
{
    usage->input_tokens = usage_add(usage->input_tokens, more->input_tokens);
    usage->output_tokens = usage_add(usage->output_tokens, more->output_tokens);
}

void bl_spent_add(struct bl_spent *spent, const struct bl_spent *more)
{
    bl_usage_add(&spent->usage, &more->usage);
    spent->cost_unknown = spent->cost_unknown || more->cost_unknown;
    spent->cost_usd += more->cost_usd;
    spent->cost_usd_max += more->cost_usd_max;
}

#define BL_RECORD_STRUCT struct bl_usage
static const struct bl_member usage_members[] = {
    BL_MEMBER_INTEGER("input_tokens", input_tokens, .most = INT64_MAX,
                      .about = "Includes cached input."),
    BL_MEMBER_INTEGER("output_tokens", output_tokens, .most = INT64_MAX,
                      .about = "Includes reasoning."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_usage_record = BL_RECORD(
    "usage", struct bl_usage, usage_members, .closed = true, .about = "Tokens of committed work.");

#define BL_RECORD_STRUCT struct bl_spent
static const struct bl_member spent_members[] = {
    BL_MEMBER_INTEGER("input_tokens", usage.input_tokens, .most = INT64_MAX,
                      .about = "Includes cached input."),
    BL_MEMBER_INTEGER("output_tokens", usage.output_tokens, .most = INT64_MAX,
                      .about = "Includes reasoning."),
    BL_MEMBER_NUMBER("cost_usd", cost_usd, .nullable = true, BL_UNLESS(cost_unknown),
                     .about = "null if the cost of some part is unknown."),
    BL_MEMBER_NUMBER("cost_usd_max", cost_usd_max, .nullable = true, BL_UNLESS(cost_unknown),
                     .about = "Includes the full reservation of calls that were cut."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_spent_record =
    BL_RECORD("spent", struct bl_spent, spent_members, .closed = true,
              .about = "All usage, rejected work included, because the provider bills it.");
