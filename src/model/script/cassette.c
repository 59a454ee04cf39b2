#include "cassette.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define OPERATION "read the cassette"
/* A body may be as deep as the JSON reader allows, and is nested in a line. */
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

/* ---- Lines ----------------------------------------------------------------------------------- */

static const int64_t known_versions[] = {CASSETTE_VERSION};
static const struct bl_numbers versions = BL_NUMBERS(known_versions);
static const struct bl_form base64_form = {.expected = "base64", .fits = bl_base64_valid};

#define BL_RECORD_STRUCT struct cassette_head
static const struct bl_member head_members[] = {
    BL_MEMBER_INTEGER("belay_cassette", version, .numbers = &versions,
                      .about = "The version of the file format."),
    BL_MEMBER_TIME("created", created_wall_ns, .optional = true, .about = "UTC."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record cassette_head_record =
    BL_RECORD("cassette_head", struct cassette_head, head_members);

#define BL_RECORD_STRUCT struct cassette_headers
static const struct bl_member headers_members[] = {
    BL_MEMBER_TEXT("content-type", content_type, .optional = true),
    BL_MEMBER_TEXT("retry-after", retry_after, .optional = true),
    BL_MEMBER_TEXT("retry-after-ms", retry_after_ms, .optional = true),
    BL_MEMBER_TEXT("x-should-retry", should_retry, .optional = true),
    BL_MEMBER_TEXT("request-id", request_id, .optional = true),
    BL_MEMBER_TEXT("x-request-id", x_request_id, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record cassette_headers_record =
    BL_RECORD("cassette_headers", struct cassette_headers, headers_members,
              .about = "Headers of the answer; others are not recorded.");

#define BL_RECORD_STRUCT struct cassette_piece
static const struct bl_member piece_members[] = {
    BL_MEMBER_INTEGER("ms", ms, .about = "Milliseconds since the request."),
    BL_MEMBER_TEXT("text", text, .either = true),
    BL_MEMBER_TEXT("base64", base64, .either = true, .form = &base64_form,
                   .about = "Instead of text, if the bytes are not valid UTF-8."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record piece_record =
    BL_RECORD("cassette_piece", struct cassette_piece, piece_members);
static const struct bl_member piece_element = BL_ELEMENT(struct cassette_piece, &piece_record);

#define BL_RECORD_STRUCT struct cassette_exchange
static const struct bl_member exchange_members[] = {
    BL_MEMBER_TEXT("method", method),
    BL_MEMBER_TEXT("path", path, .about = "With its query, without the host."),
    BL_MEMBER_JSON("body", body, .either = true, BL_UNLESS(is_text), BL_ENCODED(body_json),
                   .about = "The request body as JSON."),
    BL_MEMBER_TEXT("body_text", body_text, .either = true, BL_KNOWN(is_text),
                   .about = "The request body, if it is not JSON."),
    BL_MEMBER_INTEGER("status", status, .most = 999, .about = "0 if there was no answer."),
    BL_MEMBER_JSON("headers", headers, .record = &cassette_headers_record,
                   BL_ENCODED(headers_json)),
    BL_MEMBER_ARRAY("pieces", pieces, piece_count, &piece_element,
                    .about = "The answer's body in pieces, as received."),
    BL_MEMBER_TEXT("end", end,
                   .about = "end: complete; cut: stopped; otherwise the code of the failure."),
    BL_MEMBER_TEXT("message", message, .optional = true, BL_KNOWN(failed),
                   .about = "The message of the failure."),
    BL_MEMBER_BOOLEAN("timed_out", timed_out, .optional = true, BL_KNOWN(failed),
                      .about = "The failure was a timeout."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record cassette_exchange_record =
    BL_RECORD("cassette_exchange", struct cassette_exchange, exchange_members);

/* ---- Reading lines --------------------------------------------------------------------------- */

/* A cassette being read. */
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
    int result =
        bl_error_set(loading->error, BL_EPARSE, BL_KIND_PARSE, OPERATION, loading->cassette->path,
                     "%s:%zu: %s", loading->cassette->path, loading->line, text);
    bl_error_hint(loading->error, "record it again with --record");
    return result;
}

static int fail_record(struct loading *loading, const struct bl_record_fault *fault)
{
    char why[400];

    bl_record_fault_text(fault, why, sizeof why);
    return fail_line(loading, "%s", why);
}

static int cassette_read_first(struct loading *loading, const struct bl_json *line)
{
    struct bl_record_fault fault;
    struct cassette_head head;
    int64_t version;

    if (bl_record_view(&loading->cassette->arena, &cassette_head_record, line, &head, &fault) == 0)
        return 0;
    if (fault.member != head_members)
        return fail_record(loading, &fault);
    if (!bl_json_int64(fault.node, &version))
        return fail_line(loading, "this is not a cassette: its first line is not "
                                  "{\"belay_cassette\":1,…}");
    return fail_line(loading, "unsupported cassette version %lld (expected %d)", (long long)version,
                     CASSETTE_VERSION);
}

static int read_exchange(struct loading *loading, const struct bl_json *line,
                         struct cassette_exchange *exchange)
{
    struct bl_arena *arena = &loading->cassette->arena;
    struct bl_record_fault fault;
    size_t kept = 0;

    if (bl_record_view(arena, &cassette_exchange_record, line, exchange, &fault) != 0)
        return fail_record(loading, &fault);
    exchange->line = loading->line;
    for (size_t i = 0; i < exchange->piece_count; i++) {
        struct cassette_piece *piece = &exchange->pieces[i];
        if (piece->base64.size > 0)
            bl_base64_decode(arena, piece->base64, &piece->text);
        /* An empty piece would look like the end. */
        if (piece->text.size > 0)
            exchange->pieces[kept++] = *piece;
    }
    exchange->piece_count = kept;
    return 0;
}

/* Reads one line; `last`: it has no newline, so it may be torn. */
static int cassette_read_line(struct loading *loading, struct bl_text text, bool last)
{
    struct bl_cassette *cassette = loading->cassette;
    struct bl_json_limits limits = {
        .size_max = CASSETTE_SIZE_MAX, .string_max = CASSETTE_SIZE_MAX, .depth_max = DEPTH_MAX};
    const struct bl_json *line;
    struct bl_json_fault fault;
    char where[256];

    if (bl_json_read(&cassette->arena, text, &limits, &line, &fault) != 0) {
        /* The process was killed in the middle of a write: earlier lines are good. */
        if (last && loading->line > 1) {
            cassette->torn = true;
            return 0;
        }
        bl_json_fault_text(&fault, where, sizeof where);
        return fail_line(loading, "not JSON: %s", where);
    }
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
                      result == BL_ELIMIT ? "record fewer requests per cassette"
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
        result =
            bl_error_set(error, bl_error_from_errno(cassette->failed), BL_KIND_FILESYSTEM,
                         "record a cassette", cassette->path, "%s: the recording is incomplete: %s",
                         cassette->path, strerrordesc_np(cassette->failed));
        bl_error_hint(error, "free some disk space, and record it again");
    }
    cassette_free(cassette);
    return result;
}
