#include "parts.h"

/* A provider's figure is from outside: it never wraps ours. */
static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t bl_usage_total(const struct bl_usage *usage)
{
    return add(usage->input_tokens, usage->output_tokens);
}

void bl_usage_add(struct bl_usage *usage, const struct bl_usage *more)
{
    usage->input_tokens = add(usage->input_tokens, more->input_tokens);
    usage->output_tokens = add(usage->output_tokens, more->output_tokens);
}

void bl_spent_add(struct bl_spent *spent, const struct bl_spent *more)
{
    bl_usage_add(&spent->usage, &more->usage);
    spent->cost_unknown = spent->cost_unknown || more->cost_unknown;
    spent->cost_usd += more->cost_usd;
    spent->cost_usd_max += more->cost_usd_max;
}

static void write_tokens(struct bl_json_writer *writer, const struct bl_usage *usage)
{
    bl_json_put_uint64(writer, "input_tokens", usage->input_tokens);
    bl_json_put_uint64(writer, "output_tokens", usage->output_tokens);
}

void bl_usage_write(struct bl_json_writer *writer, const struct bl_usage *usage)
{
    bl_json_write_object(writer);
    write_tokens(writer, usage);
    bl_json_write_end(writer);
}

static void write_cost(struct bl_json_writer *writer, const char *key, bool unknown, double usd)
{
    bl_json_write_key(writer, bl_text_from(key));
    if (unknown)
        bl_json_write_null(writer);
    else
        bl_json_write_double(writer, usd);
}

void bl_spent_write(struct bl_json_writer *writer, const struct bl_spent *spent)
{
    bl_json_write_object(writer);
    write_tokens(writer, &spent->usage);
    write_cost(writer, "cost_usd", spent->cost_unknown, spent->cost_usd);
    write_cost(writer, "cost_usd_max", spent->cost_unknown, spent->cost_usd_max);
    bl_json_write_end(writer);
}

static uint64_t read_count(const struct bl_json *object, struct bl_text key)
{
    int64_t value;
    bool known = bl_json_int64(bl_json_get(object, key), &value) && value > 0;
    return known ? (uint64_t)value : 0;
}

void bl_spent_read(const struct bl_json *value, struct bl_spent *ret_spent)
{
    *ret_spent = (struct bl_spent){0};
    ret_spent->usage.input_tokens = read_count(value, BL_TEXT("input_tokens"));
    ret_spent->usage.output_tokens = read_count(value, BL_TEXT("output_tokens"));
    const struct bl_json *cost = bl_json_get(value, BL_TEXT("cost_usd"));
    ret_spent->cost_unknown = bl_json_is(cost, BL_JSON_NULL);
    bl_json_double(cost, &ret_spent->cost_usd);
    bl_json_double(bl_json_get(value, BL_TEXT("cost_usd_max")), &ret_spent->cost_usd_max);
}
