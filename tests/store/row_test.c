/* Rows that no database has made: what every form of storage relies on. */
#include <stdlib.h>

#include "helpers.h"

/* The source of a row: one string for each column, NULL for null. */
static struct bl_text strings_text(const struct store_row *row, int column)
{
    return bl_text_from(((const char *const *)row->source)[column]);
}

static int64_t strings_integer(const struct store_row *row, int column)
{
    const char *string = ((const char *const *)row->source)[column];
    return string == NULL ? 0 : strtoll(string, NULL, 10);
}

static double strings_real(const struct store_row *row, int column)
{
    const char *string = ((const char *const *)row->source)[column];
    return string == NULL ? 0 : strtod(string, NULL);
}

static bool strings_null(const struct store_row *row, int column)
{
    return ((const char *const *)row->source)[column] == NULL;
}

static struct store_row row_of(const char **strings)
{
    static const struct store_columns columns = {
        .text = strings_text,
        .integer = strings_integer,
        .time = strings_integer,
        .real = strings_real,
        .null = strings_null,
    };
    return (struct store_row){.columns = &columns, .source = strings};
}

static void columns_are_read_by_their_type(void **state BL_UNUSED)
{
    const char *strings[] = {"word", NULL, "-1", "7", "8", "0.5", "2.5", "1"};
    struct store_row row = row_of(strings);
    struct bl_spent spent = store_row_spent(&row, 3);
    struct bl_arena arena = {0};
    char field[3] = "??";
    CHECK(strcmp(store_row_string(&arena, &row, 0), "word") == 0);
    CHECK(store_row_string(&arena, &row, 1) == NULL);
    CHECK_EQUAL(store_row_copy(&arena, &row, 1).size, 0);
    store_row_into(field, sizeof field, &row, 0);
    CHECK(strcmp(field, "wo") == 0);
    store_row_into(field, sizeof field, &row, 1);
    CHECK(strcmp(field, "") == 0);
    CHECK_EQUAL(store_row_integer(&row, 2), -1);
    CHECK_EQUAL(store_row_count(&row, 2), 0);
    CHECK(store_row_flag(&row, 2) && !store_row_flag(&row, 1));
    CHECK_EQUAL(store_row_usage(&row, 3).output_tokens, 8);
    CHECK_EQUAL(spent.usage.input_tokens, 7);
    CHECK(spent.cost_usd == 0.5 && spent.cost_usd_max == 2.5 && spent.cost_unknown);
    bl_arena_done(&arena);
}

static void lease_is_read_from_any_column(void **state BL_UNUSED)
{
    const char *held[] = {"key", "3", "owner", "9", "11", "12", "13", "14", "h", "b", "p"};
    const char *released[] = {"3", NULL, "9", "11", "12", "13", "14", "h", "b", "p"};
    const char *none[10] = {NULL};
    struct store_row row = row_of(held);
    struct store_lease lease;
    store_lease_read(&row, 1, &lease);
    CHECK(lease.held && lease.epoch == 3 && lease.handle == 9);
    CHECK(lease.holder.pid == 11 && lease.holder.started == 12);
    CHECK(lease.since_wall_ns == 13 && lease.until_wall_ns == 14);
    CHECK(strcmp(lease.owner, "owner") == 0 && strcmp(lease.holder.host, "h") == 0);
    CHECK(strcmp(lease.holder.boot, "b") == 0 && strcmp(lease.holder.pid_space, "p") == 0);
    row = row_of(released);
    store_lease_read(&row, 0, &lease);
    CHECK(!lease.held && lease.epoch == 3 && lease.owner[0] == '\0');
    row = row_of(none);
    store_lease_read(&row, 0, &lease);
    CHECK(!lease.held && lease.epoch == 0 && lease.holder.host[0] == '\0');
}

SUITE(row, cmocka_unit_test(columns_are_read_by_their_type),
      cmocka_unit_test(lease_is_read_from_any_column));
