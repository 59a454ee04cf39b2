/* Bytes of a JSON-RPC connection, whole and in pieces: the same lines and the same messages, each a
 * message or a fault with an answer, which reads back. The first byte chooses the pieces, and a
 * small limit for half of the runs. */
#include <stdio.h>
#include <stdlib.h>

#include "wire/rpc/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "rpc_fuzz: %s\n", what);
    abort();
}

/* What we would send is one line, and a message again. */
static void check_answer(struct bl_arena *arena, const struct bl_json *id, struct bl_buffer *out,
                         size_t begin)
{
    struct bl_text line = {out->data + begin, out->size - begin};
    struct bl_rpc_message message;
    struct bl_rpc_fault fault;

    check(line.size > 0 && memchr(line.data, '\n', line.size) == NULL, "an answer of two lines");
    check(bl_rpc_message_read(arena, line, &message, &fault) == 0,
          "an answer that is not a message");
    check(message.type == BL_RPC_ERROR && bl_rpc_id_equal(message.id, id), "an answer to another");
}

static int take(void *context, struct bl_text line, bool too_long)
{
    struct bl_buffer *seen = context;
    struct bl_arena arena = {0};
    struct bl_rpc_message message = {0};
    struct bl_rpc_fault fault = {.code = BL_RPC_PARSE, .message = "too long"};
    size_t begin = seen->size;
    int code = too_long ? BL_EPARSE : bl_rpc_message_read(&arena, line, &message, &fault);

    if (code != 0) {
        check(code == BL_EPARSE, "a code that is not promised");
        check(fault.code == BL_RPC_PARSE || fault.code == BL_RPC_INVALID_REQUEST, "a strange code");
        check(fault.message[0] != '\0', "a fault without a message");
        bl_rpc_write_error(seen, fault.id, fault.code, fault.message, (struct bl_text){0});
        check_answer(&arena, fault.id, seen, begin);
    } else if (message.type == BL_RPC_REQUEST) {
        check(message.id != NULL, "a request without an id");
        bl_rpc_write_error(seen, message.id, BL_RPC_NO_METHOD, "no", (struct bl_text){0});
        check_answer(&arena, message.id, seen, begin);
    } else {
        check(message.type != BL_RPC_RESULT || message.result != NULL, "a result without one");
        bl_buffer_append(seen, line);
    }
    bl_buffer_append_byte(seen, '\n');
    bl_arena_done(&arena);
    return 0;
}

static void read_in_pieces(struct bl_text bytes, size_t piece_max, size_t limit,
                           struct bl_buffer *seen)
{
    struct rpc_lines lines;
    uint32_t turn = 1;

    rpc_lines_init(&lines, limit);
    for (size_t at = 0; at < bytes.size;) {
        turn = turn * 1103515245u + 12345u;
        size_t size = piece_max == 0 ? bytes.size : turn / 65536u % piece_max + 1;
        if (size > bytes.size - at)
            size = bytes.size - at;
        /* In memory of its own: a view that outlives its piece is found out. */
        char *piece = bl_alloc(size);
        memcpy(piece, bytes.data + at, size);
        check(rpc_lines_feed(&lines, (struct bl_text){piece, size}, take, seen) == 0, "a code");
        bl_free(piece);
        at += size;
        check(lines.pending.size <= limit + 1, "a line over its limit");
    }
    check(rpc_lines_end(&lines, take, seen) == 0, "a code at the end");
    rpc_lines_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bl_text bytes = {(const char *)data + 1, size - 1};
    size_t limit = (data[0] & 1) != 0 ? 24 : (size_t)1 << 20;
    struct bl_buffer whole, pieces;

    bl_buffer_init(&whole, (size_t)256 << 20);
    bl_buffer_init(&pieces, (size_t)256 << 20);
    read_in_pieces(bytes, 0, limit, &whole);
    read_in_pieces(bytes, (size_t)data[0] / 2 + 1, limit, &pieces);
    check(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)),
          "the pieces decide what the messages are");
    bl_buffer_done(&whole);
    bl_buffer_done(&pieces);
    return 0;
}
