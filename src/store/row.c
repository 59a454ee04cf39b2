/* Rows of any form of storage. */
#include "form.h"

struct bl_text store_row_text(const struct store_row *row, int column)
{
    return row->columns->text(row, column);
}

struct bl_text store_row_copy(struct bl_arena *arena, const struct store_row *row, int column)
{
    return bl_arena_text(arena, store_row_text(row, column));
}

const char *store_row_string(struct bl_arena *arena, const struct store_row *row, int column)
{
    return store_row_null(row, column) ? NULL : store_row_copy(arena, row, column).data;
}

void store_row_into(char *out, size_t size, const struct store_row *row, int column)
{
    bl_text_into(out, size, store_row_text(row, column).data);
}

int64_t store_row_integer(const struct store_row *row, int column)
{
    return row->columns->integer(row, column);
}

int64_t store_row_time(const struct store_row *row, int column)
{
    return row->columns->time(row, column);
}

uint64_t store_row_count(const struct store_row *row, int column)
{
    int64_t value = store_row_integer(row, column);
    return value < 0 ? 0 : (uint64_t)value;
}

double store_row_real(const struct store_row *row, int column)
{
    return row->columns->real(row, column);
}

bool store_row_flag(const struct store_row *row, int column)
{
    return store_row_integer(row, column) != 0;
}

bool store_row_null(const struct store_row *row, int column)
{
    return row->columns->null(row, column);
}

struct bl_usage store_row_usage(const struct store_row *row, int column)
{
    return (struct bl_usage){store_row_count(row, column), store_row_count(row, column + 1)};
}

struct bl_spent store_row_spent(const struct store_row *row, int column)
{
    return (struct bl_spent){
        .usage = store_row_usage(row, column),
        .cost_usd = store_row_real(row, column + 2),
        .cost_usd_max = store_row_real(row, column + 3),
        .cost_unknown = store_row_flag(row, column + 4),
    };
}
