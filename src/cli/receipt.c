#include <belay/fiber.h>
#include <belay/record.h>

#include "cli.h"

void cli_receipt_line(const struct bl_json *receipt, struct bl_buffer *out)
{
    struct bl_receipt_row row;
    BL_AUTO_ARENA(arena);

    bl_record_take(&arena, &bl_receipt_record, receipt, &row);
    bl_receipt_row_line(&row, out);
}
