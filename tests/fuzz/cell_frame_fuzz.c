/* Bytes of a cell's wire, either way: cut into frames, whole and in pieces, and each frame read as
 * a host and as a client do. Nothing may crash, leak or hang; what is refused says why; what is
 * taken is, once written, taken as the same. The golden files of tests/cell/wire are the corpus. */
#include <stdio.h>
#include <stdlib.h>

#include <belay/wire.h>

#include "cell/codec/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAME_MAX ((size_t)1 << 20)
#define TEXT_MAX  ((size_t)16 << 20)

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "cell_frame_fuzz: %s\n", what);
    abort();
}

/* ---- Cutting --------------------------------------------------------------------------------- */

static int take(void *context, struct bl_text frame)
{
    struct bl_buffer *all = context;

    check(frame.size > 0 && frame.size <= FRAME_MAX, "a frame beyond its limits");
    bl_buffer_append(all, frame);
    bl_buffer_append_byte(all, '\n');
    return 0;
}

static int cut(struct bl_text bytes, size_t piece_size, struct bl_buffer *all)
{
    struct bl_frames frames;
    int code = 0;

    bl_frames_init(&frames, FRAME_MAX);
    for (size_t at = 0; code == 0 && at < bytes.size; at += piece_size) {
        size_t size = bytes.size - at < piece_size ? bytes.size - at : piece_size;
        char *piece = bl_alloc(size); /* a view that outlives its piece is found out */
        memcpy(piece, bytes.data + at, size);
        code = bl_frames_feed(&frames, (struct bl_text){piece, size}, take, all);
        bl_free(piece);
    }
    check(code == 0 || code == BL_ELIMIT, "a code that is not promised");
    bl_frames_done(&frames);
    return code;
}

static void check_cuts(struct bl_text bytes)
{
    struct bl_buffer whole, pieces;

    bl_buffer_init(&whole, TEXT_MAX);
    bl_buffer_init(&pieces, TEXT_MAX);
    int whole_code = cut(bytes, bytes.size, &whole);
    int pieces_code = cut(bytes, 7, &pieces);
    check(whole_code == pieces_code, "the pieces decide whether it is over the limit");
    check(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)),
          "the pieces decide what the frames are");
    bl_buffer_done(&whole);
    bl_buffer_done(&pieces);
}

/* ---- As a host ------------------------------------------------------------------------------- */

static void write_frame(struct bl_buffer *out, const struct cell_frame *frame)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    cell_frame_write(&writer, frame);
    check(bl_json_writer_done(&writer) == 0, "a message that cannot be written");
}

/* Writes the answer to a request that is refused; what a client makes of it. */
static void check_refusal(struct bl_arena *arena, const struct cell_frame *frame)
{
    struct cell_frame answer;
    struct bl_json_writer writer;
    struct bl_buffer out;

    check(frame->type == CELL_FRAME_REQUEST, "refused, and no request");
    bl_buffer_init(&out, TEXT_MAX);
    bl_json_writer_init(&writer, &out);
    cell_reply_err_write(&writer, frame->request.id, frame->op_text, frame->refusal);
    check(bl_json_writer_done(&writer) == 0, "a refusal that cannot be written");
    check(cell_host_frame_read(arena, bl_buffer_text(&out), &answer, NULL) == 0,
          "a refusal that cannot be read");
    check(answer.reply.err != NULL && answer.reply.id == frame->request.id &&
              answer.reply.err->code == frame->refusal->code,
          "a refusal that is read as another");
    check(strcmp(answer.reply.err->message, frame->refusal->message) == 0 &&
              strcmp(answer.reply.err->path, frame->refusal->path) == 0,
          "a refusal that says something else");
    bl_buffer_done(&out);
}

static void read_as_host(struct bl_text bytes, bool first)
{
    struct cell_frame frame, again;
    struct bl_buffer once, twice;
    char message[160] = "";
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_buffer_init(&once, TEXT_MAX);
    bl_buffer_init(&twice, TEXT_MAX);
    int code = cell_frame_read(&arena, bytes, first, &frame, message, sizeof message);
    check(code == 0 || code == BL_EPARSE, "a code that is not promised");
    check(code == 0 || (message[0] != '\0' && bl_utf8_valid(bl_text_from(message))),
          "refused without a word");
    if (code == 0 && frame.refusal != NULL) {
        check_refusal(&arena, &frame);
    } else if (code == 0) {
        write_frame(&once, &frame);
        check(cell_frame_read(&arena, bl_buffer_text(&once), first, &again, message,
                              sizeof message) == 0 &&
                  again.refusal == NULL && again.type == frame.type,
              "what was written is not taken");
        write_frame(&twice, &again);
        check(bl_text_equal(bl_buffer_text(&once), bl_buffer_text(&twice)),
              "what was written is taken as something else");
    }
    bl_buffer_done(&once);
    bl_buffer_done(&twice);
    bl_arena_done(&arena);
}

/* ---- As a client ----------------------------------------------------------------------------- */

/* The outcome readers agree with the check of replies, and with each other. */
static void check_outcome(struct bl_arena *arena, const struct cell_reply *reply)
{
    struct bl_cell_observe_outcome observed;
    struct bl_cell_terminate_outcome terminated;

    int observe_code = bl_cell_observe_outcome_read(arena, reply->ok_json, &observed, NULL);
    int terminate_code = bl_cell_terminate_outcome_read(arena, reply->ok_json, &terminated, NULL);
    if (bl_text_equal(reply->op, BL_TEXT("observe")))
        check(observe_code == 0 && bl_text_equal(observed.json, reply->ok_json),
              "an answer of observe that is not an outcome of it");
    if (bl_text_equal(reply->op, BL_TEXT("terminate")))
        check(terminate_code == 0 && bl_text_equal(terminated.json, reply->ok_json),
              "an answer of terminate that is not an outcome of it");
    if (observe_code == 0 && observed.type == BL_CELL_OBSERVE_YIELDED)
        check(terminate_code == BL_EPARSE, "terminate has yielded");
    if (observe_code == 0 && observed.type == BL_CELL_OBSERVE_COMPLETED) {
        check(terminate_code == 0 && terminated.type == BL_CELL_TERMINATE_COMPLETED &&
                  terminated.completed.generation == observed.completed.generation,
              "one end, read in two ways");
        BL_LIST_EACH (link, &observed.completed.items) {
            struct bl_cell_item *item = BL_CONTAINER(link, struct bl_cell_item, link);
            check(bl_utf8_valid(item->image ? item->url : item->text), "an item of broken text");
        }
    }
}

static void read_as_client(struct bl_text bytes)
{
    struct cell_frame frame, again;
    struct bl_error error = {0};
    struct bl_buffer once, twice;
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_buffer_init(&once, TEXT_MAX);
    bl_buffer_init(&twice, TEXT_MAX);
    int code = cell_host_frame_read(&arena, bytes, &frame, &error);
    check(code == 0 || (code == BL_EPARSE && error.message[0] != '\0'), "refused without a word");
    if (code == 0) {
        if (frame.type == CELL_FRAME_REPLY && frame.reply.ok != NULL)
            check_outcome(&arena, &frame.reply);
        write_frame(&once, &frame);
        check(cell_host_frame_read(&arena, bl_buffer_text(&once), &again, NULL) == 0 &&
                  again.type == frame.type,
              "what was written is not taken");
        write_frame(&twice, &again);
        check(bl_text_equal(bl_buffer_text(&once), bl_buffer_text(&twice)),
              "what was written is taken as something else");
    }
    bl_buffer_done(&once);
    bl_buffer_done(&twice);
    bl_arena_done(&arena);
}

static void read_outcomes(struct bl_text bytes)
{
    struct bl_cell_observe_outcome observed;
    struct bl_cell_terminate_outcome terminated;
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_cell_observe_outcome_read(&arena, bytes, &observed, NULL);
    bl_cell_terminate_outcome_read(&arena, bytes, &terminated, NULL);
    bl_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text bytes = {(const char *)data, size};

    if (size == 0)
        return 0;
    check_cuts(bytes);
    /* Whatever length is announced: what comes after it is the part with something in it. */
    if (size > BL_FRAME_HEAD_SIZE && data[0] == 0) {
        bytes.data += BL_FRAME_HEAD_SIZE;
        bytes.size -= BL_FRAME_HEAD_SIZE;
    }
    read_as_host(bytes, true);
    read_as_host(bytes, false);
    read_as_client(bytes);
    read_outcomes(bytes);
    return 0;
}
