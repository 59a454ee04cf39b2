#include "cassette.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

/* What of a line is not the body or the bytes that came. */
#define LINE_SIZE_MAX (2 * CASSETTE_SIZE_MAX)

static const char *const allowed_headers[] = {
    "content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id",
};

/* A piece that came: bytes [start, start + size) of all. */
struct piece {
    size_t start;
    size_t size;
    uint64_t ms; /* since the request */
};

struct cassette_take {
    struct bl_cassette *cassette;
    struct bl_arena arena;
    struct bl_text method;
    struct bl_text path;
    struct bl_text body;
    uint64_t begun_ns;
    int status;
    struct bl_text headers[BL_COUNT(allowed_headers)]; /* data NULL: not there */
    struct bl_buffer bytes;
    struct bl_buffer pieces; /* struct piece */
    bool too_large;
};

static uint64_t cassette_record_now_ns(void)
{
    struct bl_loop *loop = bl_loop_current();

    return bl_clock_now_ns(loop != NULL ? bl_loop_clock(loop) : &bl_clock_system);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* A line, all of it or nothing: what a full disk cuts off is taken back. */
static void cassette_record_write_line(struct bl_cassette *cassette, struct bl_text line)
{
    off_t before = lseek(cassette->fd, 0, SEEK_END);

    while (cassette->failed == 0 && line.size > 0) {
        ssize_t count = write(cassette->fd, line.data, line.size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            cassette->failed = errno;
            break;
        }
        line.data += count;
        line.size -= (size_t)count;
    }
    if (cassette->failed != 0 && before >= 0 && ftruncate(cassette->fd, before) != 0)
        errno = cassette->failed; /* it is torn then, which whoever reads it sees */
}

static void write_first(struct bl_cassette *cassette)
{
    BL_AUTO_BUFFER(line, 256);
    struct bl_json_writer writer;
    char now[32];

    bl_time_format(bl_clock_wall_ns(&bl_clock_system), now);
    bl_json_writer_init(&writer, &line);
    bl_json_write_object(&writer);
    bl_json_put_uint64(&writer, "belay_cassette", 1);
    bl_json_put_string(&writer, "created", now);
    bl_json_write_end(&writer);
    bl_buffer_append_byte(&line, '\n');
    cassette_record_write_line(cassette, bl_buffer_text(&line));
}

int bl_cassette_record(const char *path, const struct bl_text *secrets, size_t secret_count,
                       struct bl_cassette **ret_cassette, struct bl_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0) {
        int result =
            bl_error_set(error, bl_error_from_errno(errno), BL_KIND_FILESYSTEM, "record a cassette",
                         path, "%s: %s", path, strerrordesc_np(errno));
        bl_error_hint(error, errno == EEXIST ? "name a file that is not there yet"
                                             : "check the path, and whether its folder is there");
        return result;
    }
    struct bl_cassette *cassette = cassette_new(path);
    cassette->fd = fd;
    cassette_secrets_set(cassette, secrets, secret_count);
    write_first(cassette);
    *ret_cassette = cassette;
    return 0;
}

/* ---- One exchange ---------------------------------------------------------------------------- */

struct cassette_take *cassette_take_begin(struct bl_cassette *cassette, const char *method,
                                          const char *path, struct bl_text body)
{
    struct cassette_take *take = bl_zalloc(sizeof *take);

    take->cassette = cassette;
    bl_arena_init(&take->arena);
    take->method = bl_arena_text(&take->arena, bl_text_from(method));
    take->path = bl_arena_text(&take->arena, bl_text_from(path));
    take->body = bl_arena_text(&take->arena, body);
    take->begun_ns = cassette_record_now_ns();
    bl_buffer_init(&take->bytes, CASSETTE_SIZE_MAX);
    bl_buffer_init(&take->pieces, CASSETTE_SIZE_MAX);
    return take;
}

void cassette_take_status(struct cassette_take *take, int status)
{
    take->status = status;
}

void cassette_take_header(struct cassette_take *take, const char *name, struct bl_text value)
{
    for (size_t i = 0; i < BL_COUNT(allowed_headers); i++) {
        if (strcasecmp(name, allowed_headers[i]) == 0)
            take->headers[i] = bl_arena_text(&take->arena, value);
    }
}

void cassette_take_headers(struct cassette_take *take, const struct bl_exchange *exchange)
{
    cassette_take_status(take, bl_exchange_status(exchange));
    for (size_t i = 0; i < BL_COUNT(allowed_headers); i++) {
        struct bl_text value = bl_exchange_header(exchange, allowed_headers[i]);
        if (value.size > 0)
            cassette_take_header(take, allowed_headers[i], value);
    }
}

void cassette_take_bytes(struct cassette_take *take, struct bl_text bytes)
{
    struct piece piece = {.start = take->bytes.size,
                          .size = bytes.size,
                          .ms = (cassette_record_now_ns() - take->begun_ns) / BL_NS_PER_MS};

    if (bytes.size == 0 || take->too_large)
        return;
    take->too_large =
        bl_buffer_append(&take->bytes, bytes) != 0 ||
        bl_buffer_append(&take->pieces, (struct bl_text){(const char *)&piece, sizeof piece}) != 0;
}

/* ---- Writing it ------------------------------------------------------------------------------ */

static void write_clean(const struct cassette_take *take, struct bl_json_writer *writer,
                        struct bl_text text)
{
    BL_AUTO_ARENA(arena);

    bl_json_write_text(writer, cassette_secrets_remove(take->cassette, &arena, text));
}

/* A number whose digits are a secret is none to be written. */
static void write_clean_number(const struct cassette_take *take, struct bl_json_writer *writer,
                               const struct bl_json *value)
{
    struct bl_json_writer inner;
    struct bl_buffer digits, ranges;

    bl_buffer_init(&digits, 64);
    bl_json_writer_init(&inner, &digits);
    bl_json_write_value(&inner, value);
    cassette_secrets_find(take->cassette, bl_buffer_text(&digits), false, &ranges);
    if (ranges.size > 0)
        bl_json_write_string(writer, CASSETTE_REMOVED);
    else
        bl_json_write_value(writer, value);
    bl_buffer_done(&ranges);
    bl_buffer_done(&digits);
}

/* A tree without its secrets. Nodes stand in document order, so that nothing recurses: an END
 * closes what is open, and strings in an object are keys and values by turns. */
static void write_clean_tree(const struct cassette_take *take, struct bl_json_writer *writer,
                             const struct bl_json *root)
{
    const struct bl_json *end = bl_json_next(root);
    uint32_t base = writer->depth;

    for (const struct bl_json *node = root; node < end; node++) {
        bool in_object =
            writer->depth > base &&
            (writer->objects[(writer->depth - 1) / 64] >> ((writer->depth - 1) % 64) & 1) != 0;
        switch (bl_json_type(node)) {
        case BL_JSON_OBJECT: bl_json_write_object(writer); break;
        case BL_JSON_ARRAY: bl_json_write_array(writer); break;
        case BL_JSON_END: bl_json_write_end(writer); break;
        case BL_JSON_STRING:
            if (in_object && !writer->after_key) {
                struct bl_arena arena;
                bl_arena_init(&arena);
                bl_json_write_key(
                    writer, cassette_secrets_remove(take->cassette, &arena, bl_json_text(node)));
                bl_arena_done(&arena);
            } else {
                write_clean(take, writer, bl_json_text(node));
            }
            break;
        case BL_JSON_INTEGER:
        case BL_JSON_UNSIGNED:
        case BL_JSON_DOUBLE: write_clean_number(take, writer, node); break;
        case BL_JSON_NULL:
        case BL_JSON_BOOLEAN: bl_json_write_value(writer, node); break;
        }
    }
}

static void put_body(struct cassette_take *take, struct bl_json_writer *writer)
{
    const struct bl_json *body;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, take->body, NULL, &body, NULL) == 0) {
        bl_json_write_key(writer, BL_TEXT("body"));
        write_clean_tree(take, writer, body);
    } else {
        bl_json_write_key(writer, BL_TEXT("body_text"));
        write_clean(take, writer, take->body);
    }
}

static void put_headers(struct cassette_take *take, struct bl_json_writer *writer)
{
    bl_json_write_key(writer, BL_TEXT("headers"));
    bl_json_write_object(writer);
    for (size_t i = 0; i < BL_COUNT(allowed_headers); i++) {
        if (take->headers[i].data == NULL)
            continue;
        bl_json_write_key(writer, bl_text_from(allowed_headers[i]));
        write_clean(take, writer, take->headers[i]);
    }
    bl_json_write_end(writer);
}

static void write_piece(struct bl_json_writer *writer, uint64_t ms, struct bl_text bytes)
{
    struct bl_buffer encoded;

    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "ms", ms);
    if (bl_utf8_valid(bytes)) {
        bl_json_put_text(writer, "text", bytes);
    } else {
        bl_buffer_init(&encoded, LINE_SIZE_MAX);
        bl_base64_encode(&encoded, bytes);
        bl_json_put_text(writer, "base64", bl_buffer_text(&encoded));
        bl_buffer_done(&encoded);
    }
    bl_json_write_end(writer);
}

static void put_pieces(struct cassette_take *take, struct bl_json_writer *writer)
{
    struct bl_text all = bl_buffer_text(&take->bytes);
    const struct piece *list = (const struct piece *)(const void *)take->pieces.data;
    struct bl_buffer ranges, clean;

    cassette_secrets_find(take->cassette, all, true, &ranges);
    bl_buffer_init(&clean, LINE_SIZE_MAX);
    bl_json_write_key(writer, BL_TEXT("pieces"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < take->pieces.size / sizeof(*list); i++) {
        bl_buffer_clear(&clean);
        cassette_secrets_cut(all, list[i].start, list[i].start + list[i].size, &ranges, &clean);
        if (clean.size > 0)
            write_piece(writer, list[i].ms, bl_buffer_text(&clean));
    }
    bl_json_write_end(writer);
    bl_buffer_done(&clean);
    bl_buffer_done(&ranges);
}

static void cassette_record_put_end(struct cassette_take *take, struct bl_json_writer *writer,
                                    const struct bl_wire_failure *failure, bool cut)
{
    bl_json_write_key(writer, BL_TEXT("end"));
    if (failure == NULL || failure->code == NULL) {
        bl_json_write_string(writer, cut ? "cut" : "end");
        return;
    }
    bl_json_write_string(writer, failure->code);
    bl_json_write_key(writer, BL_TEXT("message"));
    write_clean(take, writer, bl_text_from(failure->message));
    bl_json_put_boolean(writer, "timed_out", failure->timed_out);
}

void cassette_take_end(struct cassette_take *take, const struct bl_wire_failure *failure, bool cut)
{
    struct bl_buffer line;
    struct bl_json_writer writer;

    if (take == NULL)
        return;
    bl_buffer_init(&line, LINE_SIZE_MAX);
    bl_json_writer_init(&writer, &line);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("method"));
    write_clean(take, &writer, take->method);
    bl_json_write_key(&writer, BL_TEXT("path"));
    write_clean(take, &writer, take->path);
    put_body(take, &writer);
    bl_json_write_key(&writer, BL_TEXT("status"));
    bl_json_write_int64(&writer, take->status);
    put_headers(take, &writer);
    put_pieces(take, &writer);
    cassette_record_put_end(take, &writer, failure, cut);
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) != 0 || bl_buffer_append_byte(&line, '\n') != 0 ||
        take->too_large) {
        if (take->cassette->failed == 0)
            take->cassette->failed = EFBIG;
    } else {
        cassette_record_write_line(take->cassette, bl_buffer_text(&line));
    }
    bl_buffer_done(&line);
    bl_buffer_done(&take->bytes);
    bl_buffer_done(&take->pieces);
    bl_arena_done(&take->arena);
    bl_free(take);
}
