/* Statements: their parameters and rows in the binary format of the protocol. */
#include <assert.h>
#include <stdarg.h>

#include "postgres.h"

/* OIDs of types, and of their arrays. */
struct pg_type {
    char letter;
    Oid element;
    Oid array;
};

static const struct pg_type pg_types[] = {
    {'i', 20, 1016},   {'u', 20, 1016}, {'d', 701, 1022}, {'o', 16, 1000}, {'w', 1184, 1185},
    {'v', 1184, 1185}, {'s', 25, 1009}, {'t', 25, 1009},  {'b', 17, 1001}, {'j', 17, 1001},
};

/* Microseconds between 1970 and 2000, where times of the protocol start. */
#define EPOCH_US ((int64_t)946684800 * 1000000)

static const struct pg_type *find_type(char letter)
{
    for (size_t i = 0; i < BL_COUNT(pg_types); i++) {
        if (pg_types[i].letter == letter)
            return &pg_types[i];
    }
    assert(false);
    return NULL;
}

static void put_big_endian(unsigned char *out, uint64_t value, int size)
{
    for (int i = size - 1; i >= 0; i--, value >>= 8)
        out[i] = (unsigned char)value;
}

static uint64_t get_big_endian(const char *data, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | (unsigned char)data[i];
    return value;
}

static uint64_t real_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Times of the protocol are in microseconds. */
static int64_t wire_time(int64_t wall_ns)
{
    int64_t us = wall_ns / 1000 - (wall_ns % 1000 < 0);
    return us - EPOCH_US;
}

/* ---- Arrays ---- */

void pg_array_init(struct pg_array *array, char type)
{
    static const unsigned char head[20] = {0};
    *array = (struct pg_array){.type = type};
    bl_buffer_init(&array->bytes, SIZE_MAX / 2);
    bl_buffer_append(&array->bytes, (struct bl_text){(const char *)head, sizeof head});
}

void pg_array_done(struct pg_array *array)
{
    bl_buffer_done(&array->bytes);
}

static void array_add(struct pg_array *array, const void *data, size_t size)
{
    unsigned char length[4];
    put_big_endian(length, size, 4);
    bl_buffer_append(&array->bytes, (struct bl_text){(const char *)length, 4});
    bl_buffer_append(&array->bytes, (struct bl_text){data, size});
    array->count++;
}

void pg_array_add_integer(struct pg_array *array, int64_t value)
{
    unsigned char bytes[8];
    int size = array->type == 'o' ? 1 : 8;
    put_big_endian(bytes, (uint64_t)(array->type == 'w' ? wire_time(value) : value), size);
    array_add(array, bytes, (size_t)size);
}

void pg_array_add_real(struct pg_array *array, double value)
{
    unsigned char bytes[8];
    put_big_endian(bytes, real_bits(value), 8);
    array_add(array, bytes, 8);
}

void pg_array_add_text(struct pg_array *array, struct bl_text text)
{
    array_add(array, text.data, text.size);
}

void pg_array_add_optional(struct pg_array *array, struct bl_text text)
{
    static const char null[4] = {-1, -1, -1, -1};
    if (text.size > 0) {
        array_add(array, text.data, text.size);
        return;
    }
    bl_buffer_append(&array->bytes, (struct bl_text){null, 4});
    array->count++;
}

/* Fills in the header: dimensions, whether there are nulls, type, size, first index. */
static struct bl_text array_end(struct pg_array *array)
{
    unsigned char *head = (unsigned char *)array->bytes.data;
    if (array->count == 0) {
        put_big_endian(head, 0, 4);
        put_big_endian(head + 8, find_type(array->type)->element, 4);
        return (struct bl_text){array->bytes.data, 12};
    }
    put_big_endian(head, 1, 4);
    put_big_endian(head + 4, 1, 4);
    put_big_endian(head + 8, find_type(array->type)->element, 4);
    put_big_endian(head + 12, array->count, 4);
    put_big_endian(head + 16, 1, 4);
    return bl_buffer_text(&array->bytes);
}

/* ---- Calls ---- */

static void set_value(struct pg_call *call, Oid type, struct bl_text value)
{
    int i = call->count++;
    assert(i < PG_PARAMETERS_MAX);
    call->types[i] = type;
    /* NULL is null, and an empty text is not. */
    call->values[i] = value.data;
    call->sizes[i] = (int)value.size;
}

static void set_number(struct pg_call *call, struct bl_arena *arena, Oid type, uint64_t value,
                       int size)
{
    unsigned char *bytes = bl_arena_alloc(arena, 8);
    put_big_endian(bytes, value, size);
    set_value(call, type, (struct bl_text){(const char *)bytes, (size_t)size});
}

static void set_parameter(struct pg_call *call, struct bl_arena *arena, char letter,
                          va_list *values)
{
    const char *string;
    struct bl_text text;
    uint64_t count;
    int64_t integer;
    if (letter >= 'A' && letter <= 'Z') {
        struct pg_array *array = va_arg(*values, struct pg_array *);
        set_value(call, find_type(array->type)->array, array_end(array));
        return;
    }
    Oid type = find_type(letter)->element;
    switch (letter) {
    case 'i': set_number(call, arena, type, (uint64_t)va_arg(*values, int64_t), 8); break;
    case 'u':
        count = va_arg(*values, uint64_t);
        set_number(call, arena, type, count > INT64_MAX ? INT64_MAX : count, 8);
        break;
    case 'd': set_number(call, arena, type, real_bits(va_arg(*values, double)), 8); break;
    case 'o': set_number(call, arena, type, va_arg(*values, int) != 0, 1); break;
    case 'w':
    case 'v':
        integer = va_arg(*values, int64_t);
        if (letter == 'v' && integer == 0)
            set_value(call, type, (struct bl_text){0});
        else
            set_number(call, arena, type, (uint64_t)wire_time(integer), 8);
        break;
    case 's':
        string = va_arg(*values, const char *);
        set_value(call, type, string == NULL ? (struct bl_text){0} : bl_text_from(string));
        break;
    default: /* t, b, j */
        text = va_arg(*values, struct bl_text);
        if (letter == 'j' && text.size == 0)
            text = (struct bl_text){0};
        else if (text.size == 0)
            text = BL_TEXT("");
        set_value(call, type, text);
        break;
    }
}

struct pg_call *pg_call_new(struct bl_arena *arena, const char *sql, const char *types, ...)
{
    struct pg_call *call = bl_arena_zalloc(arena, sizeof *call);
    va_list values;
    call->sql = sql;
    bl_list_init(&call->link);
    va_start(values, types);
    for (; *types != '\0'; types++)
        set_parameter(call, arena, *types, &values);
    va_end(values);
    return call;
}

void pg_call_keep(struct pg_call *call, struct bl_arena *arena)
{
    for (int i = 0; i < call->count; i++) {
        struct bl_text value = {call->values[i], (size_t)call->sizes[i]};
        if (value.data != NULL)
            call->values[i] = bl_arena_text(arena, value).data;
    }
}

void pg_call_done(struct pg_call *call)
{
    if (call->result != NULL)
        PQclear(call->result);
    call->result = NULL;
}

/* ---- Rows ---- */

int pg_rows(const struct pg_call *call)
{
    return call->result != NULL ? PQntuples(call->result) : 0;
}

static struct bl_text row_text(const struct store_row *row, int column)
{
    const struct pg_call *call = row->source;
    if (PQgetisnull(call->result, row->number, column))
        return BL_TEXT("");
    return (struct bl_text){PQgetvalue(call->result, row->number, column),
                            (size_t)PQgetlength(call->result, row->number, column)};
}

static bool row_null(const struct store_row *row, int column)
{
    const struct pg_call *call = row->source;
    return PQgetisnull(call->result, row->number, column);
}

static int64_t row_integer(const struct store_row *row, int column)
{
    struct bl_text value = store_row_text(row, column);
    if (value.size == 4)
        return (int32_t)get_big_endian(value.data, 4);
    return (int64_t)get_big_endian(value.data, (int)value.size);
}

static int64_t row_time(const struct store_row *row, int column)
{
    return store_row_null(row, column) ? 0 : (row_integer(row, column) + EPOCH_US) * 1000;
}

static double row_real(const struct store_row *row, int column)
{
    uint64_t bits = (uint64_t)row_integer(row, column);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct store_row pg_row(struct pg_call *call, int number)
{
    static const struct store_columns columns = {row_text, row_integer, row_time, row_real,
                                                 row_null};
    return (struct store_row){.columns = &columns, .source = call, .number = number};
}

/* ---- Rows that are kept ---- */

void pg_keep_rows(const struct pg_call *call, struct bl_arena *arena, struct pg_kept *ret_kept)
{
    int rows = pg_rows(call), columns = PQnfields(call->result);
    size_t count = (size_t)rows * (size_t)columns;
    *ret_kept =
        (struct pg_kept){rows, columns, bl_arena_zalloc(arena, count * sizeof(struct bl_text))};
    for (size_t i = 0; i < count; i++) {
        int row = (int)(i / (size_t)columns), column = (int)(i % (size_t)columns);
        if (!PQgetisnull(call->result, row, column))
            ret_kept->values[i] = bl_arena_text(
                arena, (struct bl_text){PQgetvalue(call->result, row, column),
                                        (size_t)PQgetlength(call->result, row, column)});
    }
}

void pg_kept_copy(const struct pg_kept *kept, struct bl_arena *arena, struct pg_kept *ret_copy)
{
    size_t count = (size_t)kept->rows * (size_t)kept->columns;
    *ret_copy = *kept;
    ret_copy->values = bl_arena_zalloc(arena, count * sizeof(struct bl_text));
    for (size_t i = 0; i < count; i++) {
        if (kept->values[i].data != NULL)
            ret_copy->values[i] = bl_arena_text(arena, kept->values[i]);
    }
}

static const struct bl_text *kept_value(const struct store_row *row, int column)
{
    const struct pg_kept *kept = row->source;
    return &kept->values[(size_t)row->number * (size_t)kept->columns + (size_t)column];
}

static struct bl_text kept_text(const struct store_row *row, int column)
{
    const struct bl_text *value = kept_value(row, column);
    return value->data == NULL ? BL_TEXT("") : *value;
}

static bool kept_null(const struct store_row *row, int column)
{
    return kept_value(row, column)->data == NULL;
}

struct store_row pg_kept_row(struct pg_kept *kept, int number)
{
    static const struct store_columns columns = {kept_text, row_integer, row_time, row_real,
                                                 kept_null};
    return (struct store_row){.columns = &columns, .source = kept, .number = number};
}
