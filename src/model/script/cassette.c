#include "cassette.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define VERSION   1
#define OPERATION "read the cassette"
/* A body may be as deep as JSON is read, and stands in a line. */
#define DEPTH_MAX 160u

struct bl_cassette *cassette_new(const char *path)
{
    struct bl_cassette *cassette = bl_zalloc(sizeof *cassette);
    size_t size = strlen(path) + 1;

    cassette->path = bl_alloc(size);
    memcpy(cassette->path, path, size);
    cassette->fd = -1;
    bl_arena_init(&cassette->arena);
    return cassette;
}

void cassette_free(struct bl_cassette *cassette)
{
    cassette_secrets_free(cassette);
    bl_arena_done(&cassette->arena);
    bl_free(cassette->path);
    bl_free(cassette);
}

/* ---- Reading lines --------------------------------------------------------------------------- */

/* A cassette while it is read. */
struct loading {
    struct bl_cassette *cassette;
    size_t line; /* from 1 */
    struct bl_error *error;
};

static int fail_line(struct loading *loading, const char *format, ...) BL_PRINTF(2, 3);

static int fail_line(struct loading *loading, const char *format, ...)
{
    char text[400];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text[bl_utf8_valid_prefix(bl_text_from(text), NULL)] = '\0';
    int result = bl_error_set(loading->error, BL_EPARSE, BL_KIND_PARSE, OPERATION,
                              loading->cassette->path, "line %zu: %s", loading->line, text);
    bl_error_hint(loading->error, "record it again with --record");
    return result;
}

static int need(struct loading *loading, const struct bl_json *object, const char *key,
                enum bl_json_type type, const struct bl_json **ret_value)
{
    const struct bl_json *value = bl_json_get(object, bl_text_from(key));

    if (value == NULL)
        return fail_line(loading, "%s is missing", key);
    if (!bl_json_is(value, type))
        return fail_line(loading, "%s must be %s, is %s", key, bl_json_type_name(type),
                         bl_json_type_name(bl_json_type(value)));
    *ret_value = value;
    return 0;
}

static int cassette_read_first(struct loading *loading, const struct bl_json *line)
{
    int64_t version;

    if (!bl_json_int64(bl_json_get(line, BL_TEXT("belay_cassette")), &version))
        return fail_line(loading, "this is no cassette: its first line is not "
                                  "{\"belay_cassette\":1,…}");
    if (version != VERSION)
        return fail_line(loading, "this is a cassette of version %lld, and %d is known",
                         (long long)version, VERSION);
    return 0;
}

static int read_piece(struct loading *loading, const struct bl_json *piece, struct bl_text *out)
{
    const struct bl_json *text = bl_json_get(piece, BL_TEXT("text"));
    const struct bl_json *base64 = bl_json_get(piece, BL_TEXT("base64"));

    if (bl_json_is(text, BL_JSON_STRING)) {
        *out = bl_json_text(text);
        return 0;
    }
    if (bl_json_is(base64, BL_JSON_STRING) &&
        bl_base64_decode(&loading->cassette->arena, bl_json_text(base64), out))
        return 0;
    return fail_line(loading, "each of pieces must have a text, or bytes as base64");
}

static int read_pieces(struct loading *loading, const struct bl_json *pieces,
                       struct cassette_exchange *exchange)
{
    exchange->pieces = bl_arena_zalloc(&loading->cassette->arena,
                                       bl_json_size(pieces) * sizeof(*exchange->pieces));
    BL_JSON_EACH (piece, pieces) {
        int result = read_piece(loading, piece, &exchange->pieces[exchange->piece_count]);
        if (result != 0)
            return result;
        /* An empty one would look like the end. */
        exchange->piece_count += exchange->pieces[exchange->piece_count].size > 0;
    }
    return 0;
}

static int read_exchange(struct loading *loading, const struct bl_json *line,
                         struct cassette_exchange *exchange)
{
    const struct bl_json *method = NULL, *path = NULL, *status = NULL, *pieces = NULL, *end = NULL;
    int64_t number;

    int result = need(loading, line, "method", BL_JSON_STRING, &method);
    if (result == 0)
        result = need(loading, line, "path", BL_JSON_STRING, &path);
    if (result == 0)
        result = need(loading, line, "status", BL_JSON_INTEGER, &status);
    if (result == 0)
        result = need(loading, line, "headers", BL_JSON_OBJECT, &exchange->headers);
    if (result == 0)
        result = need(loading, line, "pieces", BL_JSON_ARRAY, &pieces);
    if (result == 0)
        result = need(loading, line, "end", BL_JSON_STRING, &end);
    if (result != 0)
        return result;
    if (!bl_json_int64(status, &number) || number < 0 || number > 999)
        return fail_line(loading, "status must be one of HTTP, or 0");
    exchange->line = loading->line;
    exchange->method = bl_json_text(method);
    exchange->path = bl_json_text(path);
    exchange->body = bl_json_get(line, BL_TEXT("body"));
    exchange->body_text = bl_json_text(bl_json_get(line, BL_TEXT("body_text")));
    exchange->status = (int)number;
    exchange->end = bl_json_text(end);
    exchange->message = bl_json_text(bl_json_get(line, BL_TEXT("message")));
    exchange->timed_out = bl_json_boolean(bl_json_get(line, BL_TEXT("timed_out")), false);
    return read_pieces(loading, pieces, exchange);
}

/* One line; `last`: it has no line end, so that it may be torn. */
static int cassette_read_line(struct loading *loading, struct bl_text text, bool last)
{
    struct bl_cassette *cassette = loading->cassette;
    struct bl_json_limits limits = {
        .size_max = CASSETTE_SIZE_MAX, .string_max = CASSETTE_SIZE_MAX, .depth_max = DEPTH_MAX};
    const struct bl_json *line;
    struct bl_json_fault fault;
    char where[256];

    if (bl_json_read(&cassette->arena, text, &limits, &line, &fault) != 0) {
        /* The process was killed in the middle of a write: what came before is good. */
        if (last && loading->line > 1) {
            cassette->torn = true;
            return 0;
        }
        bl_json_fault_text(&fault, where, sizeof where);
        return fail_line(loading, "it is not JSON: %s", where);
    }
    if (!bl_json_is(line, BL_JSON_OBJECT))
        return fail_line(loading, "it must be a JSON object, is %s",
                         bl_json_type_name(bl_json_type(line)));
    if (loading->line == 1)
        return cassette_read_first(loading, line);
    return read_exchange(loading, line, &cassette->exchanges[cassette->exchange_count++]);
}

static size_t cassette_count_lines(struct bl_text source)
{
    struct bl_text line;
    size_t count = 0;

    while (bl_text_split(&source, '\n', &line))
        count++;
    return count;
}

static int cassette_read_lines(struct loading *loading, struct bl_text source)
{
    struct bl_cassette *cassette = loading->cassette;
    bool whole = bl_text_ends_with(source, BL_TEXT("\n"));
    struct bl_text line;

    cassette->exchanges = bl_arena_zalloc(&cassette->arena, (cassette_count_lines(source) + 1) *
                                                                sizeof(*cassette->exchanges));
    while (bl_text_split(&source, '\n', &line)) {
        loading->line++;
        if (loading->line > 1 && bl_text_trim(line).size == 0)
            continue;
        int result = cassette_read_line(loading, line, source.size == 0 && !whole);
        if (result != 0)
            return result;
    }
    if (loading->line > 0)
        return 0;
    loading->line = 1;
    return fail_line(loading, "the file is empty");
}

int cassette_parse(const char *path, struct bl_text source, struct bl_cassette **ret_cassette,
                   struct bl_error *error)
{
    struct bl_cassette *cassette = cassette_new(path);
    struct loading loading = {.cassette = cassette, .error = error};

    int result = cassette_read_lines(&loading, source);
    if (result != 0) {
        cassette_free(cassette);
        return result;
    }
    *ret_cassette = cassette;
    return 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

int bl_cassette_load(const char *path, struct bl_cassette **ret_cassette, struct bl_error *error)
{
    struct bl_buffer source;
    const char *why;
    int result = bl_file_load(path, CASSETTE_SIZE_MAX, &source, &why);

    if (result == 0) {
        result = cassette_parse(path, bl_buffer_text(&source), ret_cassette, error);
    } else {
        bl_error_set(error, result, BL_KIND_FILESYSTEM, OPERATION, path, "%s",
                     result == BL_ELIMIT ? "the cassette is larger than 256 MiB" : why);
        bl_error_hint(error, "%s",
                      result == BL_ELIMIT ? "record less at a time"
                                          : "name a cassette; its path is relative to the working "
                                            "directory");
    }
    bl_buffer_done(&source);
    return result;
}

int bl_cassette_close(struct bl_cassette *cassette, struct bl_error *error)
{
    int result = 0;

    if (cassette == NULL)
        return 0;
    if (cassette->fd >= 0 && close(cassette->fd) != 0 && cassette->failed == 0)
        cassette->failed = errno;
    if (cassette->failed != 0) {
        result = bl_error_set(error, bl_error_from_errno(cassette->failed), BL_KIND_FILESYSTEM,
                              "record a cassette", cassette->path,
                              "%s: not all of it could be written: %s", cassette->path,
                              strerrordesc_np(cassette->failed));
        bl_error_hint(error, "make room, and record it again");
    }
    cassette_free(cassette);
    return result;
}
