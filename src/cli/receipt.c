/* The line of a receipt for people, from its JSON; as bl_receipt_line has it. */
#include <inttypes.h>
#include <stdio.h>

#include <belay/fiber.h>

#include "cli.h"

#define DEPTH_MAX 8u

#define KINDS (BL_UNIT_TASK + 1)

/* Of all units, those of sub-agents too. */
struct sum {
    uint64_t counts[KINDS];
    uint64_t processes;
    uint64_t units;
};

uint64_t cli_receipt_number(const struct bl_json *object, struct bl_text key)
{
    int64_t number = 0;

    bl_json_int64(bl_json_get(object, key), &number);
    return number < 0 ? 0 : (uint64_t)number;
}

static void cli_receipt_add_units(struct sum *sum, const struct bl_json *units, unsigned depth)
{
    BL_JSON_EACH (unit, units) {
        struct bl_text kind = bl_json_text(bl_json_get(unit, BL_TEXT("kind")));
        bool of_processes = bl_json_get(unit, BL_TEXT("processes")) != NULL;
        sum->units++;
        sum->processes += cli_receipt_number(unit, BL_TEXT("processes"));
        /* A unit of processes is told by these. */
        for (size_t i = 0; i < KINDS; i++)
            sum->counts[i] +=
                !of_processes && bl_text_equal(kind, bl_text_from(bl_unit_kind_name(i)));
        if (depth < DEPTH_MAX)
            cli_receipt_add_units(sum, bl_json_get(unit, BL_TEXT("units")), depth + 1);
    }
}

void cli_receipt_ms(const struct bl_json *object, struct bl_text key, char out[32])
{
    double ms = 0;

    bl_json_double(bl_json_get(object, key), &ms);
    /* It was rounded to tenths. */
    if (!(ms > 0) || ms > 1e12)
        snprintf(out, 32, "less than 0.1 ms");
    else
        bl_duration_format((int64_t)(ms * 1e6), out);
}

uint64_t cli_receipt_line(const struct bl_json *receipt, struct bl_buffer *out)
{
    struct bl_text unverified;
    uint32_t survivors = bl_survivors_read(receipt, &unverified);
    const char *separator = ": ";
    struct sum sum = {0};
    char duration[32];

    cli_receipt_add_units(&sum, bl_json_get(receipt, BL_TEXT("units")), 0);
    cli_receipt_ms(receipt, BL_TEXT("quiet_ms"), duration);
    bl_buffer_printf(out, "Stopped in %s", duration);
    for (size_t i = 0; i < KINDS; i++) {
        if (sum.counts[i] == 0)
            continue;
        bl_buffer_printf(out, "%s%" PRIu64 " %s", separator, sum.counts[i],
                         bl_unit_kind_noun(i, sum.counts[i] != 1));
        separator = ", ";
    }
    if (sum.processes > 0)
        bl_buffer_printf(out, "%s%" PRIu64 " process%s", separator, sum.processes,
                         sum.processes == 1 ? "" : "es");
    bl_buffer_append(out, BL_TEXT(". "));
    bl_survivors_text(survivors, unverified, out);
    return sum.units;
}
