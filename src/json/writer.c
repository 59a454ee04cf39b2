#include "parts.h"
#include "scan.h"

#include <assert.h>
#include <math.h>

/* Room that write_compact always has free, enough for any node except a long string: comma, quotes,
 * colon, a number, and the excess of a copy by whole words. */
#define COMPACT_ROOM 80u

static inline int buffer_room(struct bl_buffer *out, size_t size)
{
    if (__builtin_expect(out->capacity - out->size >= size, 1))
        return 0;
    return bl_buffer_reserve(out, size);
}

/* Writes the escape of a control character, a quote or a backslash; returns its size, 2 or 6. */
static size_t escape_byte(unsigned char byte, char out[6])
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char letter = byte < 0x20 ? shorts[byte] : (char)byte;

    out[0] = '\\';
    if (letter != 0) {
        out[1] = letter;
        return 2;
    }
    memcpy(out + 1, "u00", 3);
    out[4] = hex[byte >> 4];
    out[5] = hex[byte & 15];
    return 6;
}

/* Number of bytes from `at` on that need no escape in a string. */
static size_t clean_run(const char *at, size_t size, bool trusted)
{
    size_t count = 0;

    for (; size - count >= 8; count += 8) {
        uint64_t marks = scan_special(scan_load(at + count), !trusted);
        if (marks != 0)
            return count + scan_first(marks);
    }
    for (; count < size; count++) {
        unsigned char byte = (unsigned char)at[count];
        if (byte < 0x20 || byte == '"' || byte == '\\' || (byte >= 0x80 && !trusted))
            break;
    }
    return count;
}

int json_string_append(struct bl_buffer *out, struct bl_text text, bool trusted)
{
    const char *at = text.data;
    size_t left = text.size;
    size_t size_before = out->size;

    /* Replacements are never shorter than the original, so this never reserves too much. */
    int result = buffer_room(out, left + 2);
    if (result != 0)
        return result;
    out->data[out->size++] = '"';
    while (left > 0) {
        size_t run = clean_run(at, left, trusted);
        memcpy(out->data + out->size, at, run);
        out->size += run;
        at += run;
        left -= run;
        if (left == 0)
            break;
        char part[6];
        size_t part_size;
        unsigned taken = 1, broken;
        if ((unsigned char)*at < 0x80) {
            part_size = escape_byte((unsigned char)*at, part);
        } else if ((taken = scan_sequence(at, left, &broken)) != 0) {
            memcpy(part, at, part_size = taken);
        } else {
            taken = broken;
            memcpy(part, "\xef\xbf\xbd", part_size = 3);
        }
        at += taken;
        left -= taken;
        result = buffer_room(out, part_size + left + 1);
        if (result != 0) {
            out->size = size_before;
            return result;
        }
        memcpy(out->data + out->size, part, part_size);
        out->size += part_size;
    }
    out->data[out->size++] = '"';
    return 0;
}

void bl_json_writer_init(struct bl_json_writer *writer, struct bl_buffer *out)
{
    *writer = (struct bl_json_writer){.out = out};
}

void bl_json_writer_indent(struct bl_json_writer *writer, uint32_t spaces)
{
    writer->indent = spaces;
}

int bl_json_writer_done(struct bl_json_writer *writer)
{
    if (writer->error == 0 && (writer->depth > 0 || !writer->comma))
        writer->error = BL_EINVAL;
    return writer->error;
}

static inline bool in_object(const struct bl_json_writer *writer)
{
    uint32_t level = writer->depth - 1;

    return writer->depth > 0 && (writer->objects[level / 64] >> level % 64 & 1) != 0;
}

static void writer_append(struct bl_json_writer *writer, struct bl_text text)
{
    if (writer->error == 0)
        writer->error = bl_buffer_append(writer->out, text);
}

static inline void writer_append_byte(struct bl_json_writer *writer, char byte)
{
    writer->error = buffer_room(writer->out, 1);
    if (writer->error == 0)
        writer->out->data[writer->out->size++] = byte;
}

static void writer_append_line(struct bl_json_writer *writer)
{
    writer_append(writer, BL_TEXT("\n"));
    if (writer->error != 0)
        return;
    size_t spaces = (size_t)writer->depth * writer->indent;
    writer->error = bl_buffer_reserve(writer->out, spaces);
    if (writer->error != 0)
        return;
    memset(writer->out->data + writer->out->size, ' ', spaces);
    writer->out->size += spaces;
}

/* Writes the text before a value or, with `key`, before a key. Returns false after an error:
 * nothing may be written. */
static inline bool writer_begin(struct bl_json_writer *writer, bool key)
{
    if (writer->error != 0)
        return false;
    bool fits =
        key ? in_object(writer) && !writer->after_key : writer->after_key || !in_object(writer);
    /* A second value at the top. */
    if (writer->depth == 0 && writer->comma)
        fits = false;
    assert(fits && "a value or key where none is due");
    if (!fits) {
        writer->error = BL_EINVAL;
        return false;
    }
    if (writer->after_key) {
        writer->after_key = false;
        return true;
    }
    if (writer->comma)
        writer_append_byte(writer, ',');
    if (writer->indent > 0 && writer->depth > 0)
        writer_append_line(writer);
    return writer->error == 0;
}

static void write_open(struct bl_json_writer *writer, bool object)
{
    if (!writer_begin(writer, false))
        return;
    if (writer->depth == BL_JSON_WRITE_DEPTH_MAX) {
        writer->error = BL_EINVAL;
        return;
    }
    uint64_t bit = 1ull << writer->depth % 64;
    uint64_t *word = &writer->objects[writer->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    writer->depth++;
    writer->comma = false;
    writer_append_byte(writer, object ? '{' : '[');
}

void bl_json_write_object(struct bl_json_writer *writer)
{
    write_open(writer, true);
}

void bl_json_write_array(struct bl_json_writer *writer)
{
    write_open(writer, false);
}

void bl_json_write_end(struct bl_json_writer *writer)
{
    if (writer->error != 0)
        return;
    bool fits = writer->depth > 0 && !writer->after_key;
    assert(fits && "nothing to close, or a key without its value");
    if (!fits) {
        writer->error = BL_EINVAL;
        return;
    }
    bool object = in_object(writer);
    writer->depth--;
    if (writer->indent > 0 && writer->comma)
        writer_append_line(writer);
    writer->comma = true;
    if (writer->error == 0)
        writer_append_byte(writer, object ? '}' : ']');
}

static void write_quoted(struct bl_json_writer *writer, struct bl_text text, bool key, bool trusted)
{
    if (!writer_begin(writer, key))
        return;
    writer->comma = true;
    writer->error = json_string_append(writer->out, text, trusted);
    if (!key)
        return;
    writer->after_key = true;
    writer_append(writer, writer->indent > 0 ? BL_TEXT(": ") : BL_TEXT(":"));
}

void bl_json_write_key(struct bl_json_writer *writer, struct bl_text key)
{
    write_quoted(writer, key, true, false);
}

void json_write_name(struct bl_json_writer *writer, const char *name)
{
    struct bl_buffer *out = writer->out;
    size_t size = strlen(name);

    if (!writer_begin(writer, true))
        return;
    writer->error = buffer_room(out, size + 3);
    if (writer->error != 0)
        return;
    out->data[out->size] = '"';
    memcpy(out->data + out->size + 1, name, size);
    memcpy(out->data + out->size + 1 + size, "\":", 2);
    out->size += size + 3;
    writer->comma = writer->after_key = true;
    if (writer->indent > 0)
        writer_append_byte(writer, ' ');
}

void bl_json_write_text(struct bl_json_writer *writer, struct bl_text text)
{
    write_quoted(writer, text, false, false);
}

void bl_json_write_string(struct bl_json_writer *writer, const char *string)
{
    if (string == NULL)
        bl_json_write_null(writer);
    else
        bl_json_write_text(writer, bl_text_from(string));
}

void bl_json_write_raw(struct bl_json_writer *writer, struct bl_text json)
{
    if (!writer_begin(writer, false))
        return;
    writer->comma = true;
    writer_append(writer, json);
}

void bl_json_write_int64(struct bl_json_writer *writer, int64_t value)
{
    char digits[32];
    size_t size = json_integer_format(value, digits);

    bl_json_write_raw(writer, (struct bl_text){digits, size});
}

void bl_json_write_uint64(struct bl_json_writer *writer, uint64_t value)
{
    char digits[32];
    size_t size = json_unsigned_format(value, digits);

    bl_json_write_raw(writer, (struct bl_text){digits, size});
}

void bl_json_write_double(struct bl_json_writer *writer, double value)
{
    char digits[32];

    if (!isfinite(value)) {
        if (writer_begin(writer, false))
            writer->error = BL_EINVAL;
        return;
    }
    bl_json_write_raw(writer, (struct bl_text){digits, json_double_format(value, digits)});
}

void bl_json_write_boolean(struct bl_json_writer *writer, bool value)
{
    bl_json_write_raw(writer, value ? BL_TEXT("true") : BL_TEXT("false"));
}

void bl_json_write_null(struct bl_json_writer *writer)
{
    bl_json_write_raw(writer, BL_TEXT("null"));
}

/* Writes a tree with the functions above: with indentation, or close to the buffer's maximum. */
static void write_nodes(struct bl_json_writer *writer, const struct bl_json *value)
{
    const struct bl_json *stop = bl_json_next(value);

    for (const struct bl_json *node = value; node != stop && writer->error == 0; node++) {
        switch (bl_json_type(node)) {
        case BL_JSON_NULL: bl_json_write_null(writer); break;
        case BL_JSON_BOOLEAN: bl_json_write_boolean(writer, node->boolean); break;
        case BL_JSON_INTEGER: bl_json_write_int64(writer, node->integer); break;
        case BL_JSON_UNSIGNED: bl_json_write_uint64(writer, node->unsigned_integer); break;
        case BL_JSON_DOUBLE: bl_json_write_double(writer, node->number); break;
        case BL_JSON_STRING:
            /* A key that is written on its own is a value. */
            write_quoted(writer, bl_json_text(node), (node->flags & JSON_KEY) != 0 && node != value,
                         (node->flags & JSON_VALID) != 0);
            break;
        case BL_JSON_ARRAY: bl_json_write_array(writer); break;
        case BL_JSON_OBJECT: bl_json_write_object(writer); break;
        case BL_JSON_END: bl_json_write_end(writer); break;
        }
    }
}

/* Copies in whole words if `size` is small: `out` has COMPACT_ROOM and `in` has JSON_PADDING bytes
 * to spare. */
static inline char *copy_plain(char *out, const char *in, size_t size)
{
    if (size <= 32) {
        memcpy(out, in, 16);
        if (size > 16)
            memcpy(out + 16, in + 16, 16);
    } else {
        memcpy(out, in, size);
    }
    return out + size;
}

/* Ensures `size` + COMPACT_ROOM bytes at `at`. Returns the new position, or NULL if over the limit.
 */
static inline char *compact_room(struct bl_buffer *out, char *at, size_t size)
{
    if (__builtin_expect((size_t)(out->data + out->capacity - at) >= size + COMPACT_ROOM, 1))
        return at;
    out->size = (size_t)(at - out->data);
    return bl_buffer_reserve(out, size + COMPACT_ROOM) == 0 ? out->data + out->size : NULL;
}

/* Writes a string node and, after a key, its colon. Returns NULL if over the limit. */
static inline char *compact_string(struct bl_buffer *out, char *at, const struct bl_json *node,
                                   bool key)
{
    if ((node->flags & JSON_PLAIN) != 0) {
        at = compact_room(out, at, node->size);
        if (at == NULL)
            return NULL;
        *at++ = '"';
        at = copy_plain(at, node->string, node->size);
        *at++ = '"';
    } else {
        out->size = (size_t)(at - out->data);
        if (json_string_append(out, bl_json_text(node), (node->flags & JSON_VALID) != 0) != 0)
            return NULL;
        at = compact_room(out, out->data + out->size, 0);
        if (at == NULL)
            return NULL;
    }
    *at = ':';
    return at + key;
}

/* Writes any node except a string. The caller has reserved the room. */
static inline char *compact_scalar(char *at, const struct bl_json *node)
{
    switch (bl_json_type(node)) {
    case BL_JSON_NULL: memcpy(at, "null", 4); return at + 4;
    case BL_JSON_BOOLEAN:
        memcpy(at, node->boolean ? "true " : "false", 5);
        return at + 5 - node->boolean;
    case BL_JSON_INTEGER: return at + json_integer_format(node->integer, at);
    case BL_JSON_UNSIGNED: return at + json_unsigned_format(node->unsigned_integer, at);
    case BL_JSON_DOUBLE: return at + json_double_format(node->number, at);
    case BL_JSON_ARRAY: *at = '['; return at + 1;
    case BL_JSON_OBJECT: *at = '{'; return at + 1;
    case BL_JSON_END: *at = (node->flags & JSON_CLOSES_OBJECT) != 0 ? '}' : ']'; return at + 1;
    case BL_JSON_STRING: break;
    }
    return at;
}

/* Writes a tree on one line, in one pass over its nodes: the previous node decides whether a comma
 * is due. Reserves slightly more room than it needs, so BL_ELIMIT means that the tree may not fit.
 */
static int write_compact(struct bl_buffer *out, const struct bl_json *value, uint32_t depth)
{
    const struct bl_json *stop = bl_json_next(value);
    bool comma = false;

    if (buffer_room(out, COMPACT_ROOM) != 0)
        return BL_ELIMIT;
    char *at = out->data + out->size;
    for (const struct bl_json *node = value; node != stop && at != NULL; node++) {
        bool opens = node->type == BL_JSON_ARRAY || node->type == BL_JSON_OBJECT;
        bool ends = node->type == BL_JSON_END;
        *at = ',';
        at += comma && !ends;
        comma = !opens;
        if (node->type == BL_JSON_STRING) {
            bool key = (node->flags & JSON_KEY) != 0 && node != value;
            at = compact_string(out, at, node, key);
            comma = !key;
            if (at == NULL)
                break;
        } else {
            depth = depth + opens - ends;
            if (depth > BL_JSON_WRITE_DEPTH_MAX)
                return BL_EINVAL;
            at = compact_scalar(at, node);
        }
        at = compact_room(out, at, 0);
    }
    if (at == NULL)
        return BL_ELIMIT;
    out->size = (size_t)(at - out->data);
    return 0;
}

void bl_json_write_value(struct bl_json_writer *writer, const struct bl_json *value)
{
    if (value == NULL) {
        bl_json_write_null(writer);
        return;
    }
    if (writer->indent > 0) {
        write_nodes(writer, value);
        return;
    }
    bool comma = writer->comma, after_key = writer->after_key;
    size_t size_before = writer->out->size;
    if (!writer_begin(writer, false))
        return;
    int result = write_compact(writer->out, value, writer->depth);
    if (result == BL_ELIMIT) {
        writer->comma = comma;
        writer->after_key = after_key;
        writer->out->size = size_before;
        write_nodes(writer, value);
        return;
    }
    writer->error = result;
    writer->comma = true;
}

void bl_json_put_text(struct bl_json_writer *writer, const char *key, struct bl_text value)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_text(writer, value);
}

void bl_json_put_string(struct bl_json_writer *writer, const char *key, const char *value)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_string(writer, value);
}

void bl_json_put_uint64(struct bl_json_writer *writer, const char *key, uint64_t value)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_uint64(writer, value);
}

void bl_json_put_boolean(struct bl_json_writer *writer, const char *key, bool value)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_boolean(writer, value);
}

void bl_json_put_json(struct bl_json_writer *writer, const char *key, struct bl_text json)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_raw(writer, json.size > 0 ? json : BL_TEXT("null"));
}

struct bl_text bl_json_value_text(struct bl_arena *arena, const struct bl_json *value)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, value);
    return bl_arena_text(arena, bl_buffer_text(&out));
}

struct bl_text bl_json_quote(struct bl_arena *arena, struct bl_text text)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    bl_json_write_text(&writer, text);
    return bl_arena_text(arena, bl_buffer_text(&out));
}
