#include "cassette.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

/* Limit of a line. */
#define LINE_SIZE_MAX (2 * CASSETTE_SIZE_MAX)

/* A received piece: bytes [start, start + size) of the body. */
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
    struct cassette_headers headers;
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

/* Writes a whole line or nothing: a line that a full disk cuts is removed again. */
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
        errno = cassette->failed; /* the line is torn then, which the reader detects */
}

static void write_first(struct bl_cassette *cassette)
{
    BL_AUTO_ARENA(arena);
    const struct cassette_head head = {.version = CASSETTE_VERSION,
                                       .created_wall_ns = bl_clock_wall_ns(&bl_clock_system)};

    cassette_record_write_line(
        cassette,
        bl_arena_printf(&arena, BL_TEXT_FORMAT "\n",
                        BL_TEXT_ARG(bl_record_text(&arena, &cassette_head_record, &head))));
}

int bl_cassette_record(const char *path, const struct bl_text *secrets, size_t secret_count,
                       struct bl_cassette **ret_cassette, struct bl_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0) {
        int result =
            bl_error_set(error, bl_error_from_errno(errno), BL_KIND_FILESYSTEM, "record a cassette",
                         path, "%s: %s", path, strerrordesc_np(errno));
        bl_error_hint(error, errno == EEXIST ? "name a file that does not exist yet"
                                             : "check the path, and that its folder exists");
        return result;
    }
    struct bl_cassette *cassette = cassette_new(path);
    cassette->fd = fd;
    cassette_secrets_set(cassette, secrets, secret_count);
    write_first(cassette);
    *ret_cassette = cassette;
    return 0;
}

/* ---- Without secrets ------------------------------------------------------------------------- */

static struct bl_text cassette_record_clean(struct cassette_take *take, struct bl_text text)
{
    return cassette_secrets_remove(take->cassette, &take->arena, text);
}

/* Writes a number, or [removed] if its digits are a secret. */
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

/* Writes a tree without its secrets. Nodes are in document order, so no recursion is needed: an END
 * closes the open container, and strings in an object alternate between key and value. */
static void write_clean_tree(struct cassette_take *take, struct bl_json_writer *writer,
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
            if (in_object && !writer->after_key)
                bl_json_write_key(writer, cassette_record_clean(take, bl_json_text(node)));
            else
                bl_json_write_text(writer, cassette_record_clean(take, bl_json_text(node)));
            break;
        case BL_JSON_INTEGER:
        case BL_JSON_UNSIGNED:
        case BL_JSON_DOUBLE: write_clean_number(take, writer, node); break;
        case BL_JSON_NULL:
        case BL_JSON_BOOLEAN: bl_json_write_value(writer, node); break;
        }
    }
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
    const struct bl_member *member = cassette_headers_record.members;

    for (; member->type != BL_TYPE_END; member++) {
        if (strcasecmp(name, member->name) == 0)
            *(struct bl_text *)(void *)((char *)&take->headers + member->offset) =
                bl_arena_text(&take->arena, cassette_record_clean(take, value));
    }
}

void cassette_take_headers(struct cassette_take *take, const struct bl_exchange *exchange)
{
    const struct bl_member *member = cassette_headers_record.members;

    cassette_take_status(take, bl_exchange_status(exchange));
    for (; member->type != BL_TYPE_END; member++)
        cassette_take_header(take, member->name, bl_exchange_header(exchange, member->name));
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

static void put_body(struct cassette_take *take, struct cassette_exchange *exchange,
                     struct bl_buffer *json)
{
    const struct bl_json *body;
    struct bl_json_writer writer;
    BL_AUTO_ARENA(arena);

    exchange->is_text = bl_json_read(&arena, take->body, NULL, &body, NULL) != 0;
    if (exchange->is_text) {
        exchange->body_text = cassette_record_clean(take, take->body);
        return;
    }
    bl_json_writer_init(&writer, json);
    write_clean_tree(take, &writer, body);
    take->too_large = take->too_large || bl_json_writer_done(&writer) != 0;
    exchange->body_json = bl_buffer_text(json);
}

static struct cassette_piece cassette_record_piece(struct bl_arena *arena, uint64_t ms,
                                                   struct bl_text bytes)
{
    struct cassette_piece piece = {.ms = ms};
    BL_AUTO_BUFFER(encoded, LINE_SIZE_MAX);

    if (bl_utf8_valid(bytes)) {
        piece.text = bl_arena_text(arena, bytes);
    } else {
        bl_base64_encode(&encoded, bytes);
        piece.base64 = bl_arena_text(arena, bl_buffer_text(&encoded));
    }
    return piece;
}

static void put_pieces(struct cassette_take *take, struct cassette_exchange *exchange)
{
    struct bl_text all = bl_buffer_text(&take->bytes);
    const struct piece *list = (const struct piece *)(const void *)take->pieces.data;
    size_t count = take->pieces.size / sizeof(*list);
    struct bl_buffer ranges, clean;

    cassette_secrets_find(take->cassette, all, true, &ranges);
    bl_buffer_init(&clean, LINE_SIZE_MAX);
    exchange->pieces = bl_arena_zalloc(&take->arena, count * sizeof(*exchange->pieces));
    for (size_t i = 0; i < count; i++) {
        bl_buffer_clear(&clean);
        cassette_secrets_cut(all, list[i].start, list[i].start + list[i].size, &ranges, &clean);
        if (clean.size > 0)
            exchange->pieces[exchange->piece_count++] =
                cassette_record_piece(&take->arena, list[i].ms, bl_buffer_text(&clean));
    }
    bl_buffer_done(&clean);
    bl_buffer_done(&ranges);
}

void cassette_take_end(struct cassette_take *take, const struct bl_wire_failure *failure, bool cut)
{
    struct bl_buffer line, body;
    struct bl_json_writer writer;

    if (take == NULL)
        return;
    struct cassette_exchange exchange = {
        .method = cassette_record_clean(take, take->method),
        .path = cassette_record_clean(take, take->path),
        .status = take->status,
        .headers_json = bl_record_text(&take->arena, &cassette_headers_record, &take->headers),
        .end = cut ? BL_TEXT("cut") : BL_TEXT("end"),
        .failed = failure != NULL && failure->code != NULL,
    };
    if (exchange.failed) {
        exchange.end = bl_text_from(failure->code);
        exchange.message = cassette_record_clean(take, bl_text_from(failure->message));
        exchange.timed_out = failure->timed_out;
    }
    bl_buffer_init(&line, LINE_SIZE_MAX);
    bl_buffer_init(&body, LINE_SIZE_MAX);
    put_body(take, &exchange, &body);
    put_pieces(take, &exchange);
    bl_json_writer_init(&writer, &line);
    bl_record_write(&writer, &cassette_exchange_record, &exchange);
    if (bl_json_writer_done(&writer) != 0 || bl_buffer_append_byte(&line, '\n') != 0 ||
        take->too_large) {
        if (take->cassette->failed == 0)
            take->cassette->failed = EFBIG;
    } else {
        cassette_record_write_line(take->cassette, bl_buffer_text(&line));
    }
    bl_buffer_done(&line);
    bl_buffer_done(&body);
    bl_buffer_done(&take->bytes);
    bl_buffer_done(&take->pieces);
    bl_arena_done(&take->arena);
    bl_free(take);
}
