#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

/* Time limit for the host's answer to hello. */
#define READY_NS (10 * BL_NS_PER_S)

struct bl_cell_client {
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_frames frames;
    uint64_t next_id;
    char path[1024];
    char *buffer;
    struct bl_text rest; /* part of `buffer` that was not fed yet */
};

/* A received frame. */
struct taking {
    struct bl_arena *arena;
    struct bl_text frame;
};

int cell_socket_path(char *out, size_t out_size, struct bl_error *error)
{
    int code = bl_runtime_folder(out, out_size, error);
    if (code != 0)
        return code;
    size_t used = strlen(out);
    int size = snprintf(out + used, out_size - used, "/cell.sock");
    if (size < 0 || (size_t)size >= out_size - used)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_FILESYSTEM, "find the cell host",
                            "XDG_RUNTIME_DIR", "the path of the folder is too long");
    return 0;
}

static int server_client_fail(const struct bl_cell_client *client, int code, const char *what,
                              struct bl_error *error)
{
    if (code != BL_ECANCELED && code != BL_ETIMEDOUT)
        bl_error_set(error, code, BL_KIND_CELL, "call the cell host", client->path, "%s: %s",
                     client->path, what);
    return code;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static int server_client_send_frame(struct bl_cell_client *client, struct bl_buffer *frame,
                                    struct bl_error *error)
{
    size_t sent = 0;
    int code = bl_check();
    if (frame->size - BL_FRAME_HEAD_SIZE > BL_CELL_FRAME_MAX)
        return server_client_fail(client, BL_ELIMIT, "the request is larger than 32 MiB", error);
    bl_frame_head((uint8_t *)frame->data, (uint32_t)(frame->size - BL_FRAME_HEAD_SIZE));
    while (code == 0 && sent < frame->size) {
        ssize_t size =
            send(client->fd, frame->data + sent, frame->size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size >= 0)
            sent += (size_t)size;
        else if (errno == EAGAIN)
            code = bl_descriptor_wait(client->descriptor, BL_WRITABLE, NULL);
        else if (errno != EINTR)
            code = BL_EPIPE;
    }
    return code == BL_EPIPE
               ? server_client_fail(client, BL_EUNKNOWN, "the host closed the connection", error)
               : code;
}

/* Ends, sends and frees the frame. */
static int finish_frame(struct bl_cell_client *client, struct bl_json_writer *writer,
                        struct bl_buffer *frame, struct bl_error *error)
{
    int code = bl_json_writer_done(writer);
    if (code != 0)
        server_client_fail(client, code, "cannot encode the request", error);
    else
        code = server_client_send_frame(client, frame, error);
    bl_buffer_done(frame);
    return code;
}

static void begin_frame(struct bl_json_writer *writer, struct bl_buffer *frame)
{
    static const char head[BL_FRAME_HEAD_SIZE];
    bl_buffer_init(frame, SIZE_MAX);
    bl_buffer_append(frame, (struct bl_text){head, sizeof head});
    bl_json_writer_init(writer, frame);
}

static int server_client_take(void *context, struct bl_text frame)
{
    struct taking *taking = context;
    taking->frame = bl_arena_text(taking->arena, frame);
    return BL_EAGAIN; /* one at a time */
}

static int server_client_read_more(struct bl_cell_client *client)
{
    size_t size;
    int code = bl_descriptor_read(client->descriptor, client->buffer, SERVER_READ_SIZE, &size);
    if (code != 0)
        return code == BL_ECANCELED || code == BL_ETIMEDOUT ? code : BL_ECLOSED;
    client->rest = (struct bl_text){client->buffer, size};
    return size > 0 ? 0 : BL_ECLOSED;
}

/* Feeds at most the rest of one frame, so that at most one frame results. The bytes after it are
 * kept. */
static int server_client_feed(struct bl_cell_client *client, struct taking *taking)
{
    const struct bl_buffer *pending = &client->frames.pending;
    const uint8_t *head = (const uint8_t *)pending->data;
    size_t most = BL_FRAME_HEAD_SIZE - pending->size;
    if (pending->size >= BL_FRAME_HEAD_SIZE)
        most = BL_FRAME_HEAD_SIZE + ((size_t)head[0] << 24) + ((size_t)head[1] << 16) +
               ((size_t)head[2] << 8) + head[3] - pending->size;
    struct bl_text part = {client->rest.data, most < client->rest.size ? most : client->rest.size};
    client->rest.data += part.size;
    client->rest.size -= part.size;
    return bl_frames_feed(&client->frames, part, server_client_take, taking);
}

/* Receives and decodes the host's next frame, in the arena. */
static int server_client_receive(struct bl_cell_client *client, struct bl_arena *arena,
                                 struct cell_frame *ret_frame, struct bl_error *error)
{
    struct taking taking = {.arena = arena};
    int code = 0;
    while (code == 0) {
        if (client->rest.size == 0)
            code = server_client_read_more(client);
        if (code == 0)
            code = server_client_feed(client, &taking);
    }
    if (code == BL_EAGAIN)
        return cell_host_frame_read(arena, taking.frame, ret_frame, error);
    if (code == BL_ECLOSED)
        return server_client_fail(client, BL_EUNKNOWN, "the host closed the connection", error);
    return server_client_fail(client, code, "the peer sent an invalid frame", error);
}

static int server_client_refuse(const struct bl_cell_client *client, const struct cell_frame *frame,
                                struct bl_error *error)
{
    bool rejected = frame->type == CELL_FRAME_REJECTED;
    const char *reason = rejected ? bl_names_get(&cell_rejections, frame->rejected.type)
                         : frame->type == CELL_FRAME_BYE ? frame->bye.reason
                                                         : "an unexpected frame";
    struct bl_text text = rejected ? frame->rejected.text : frame->text;

    bl_error_set(error, BL_EUNKNOWN, BL_KIND_CELL, "call the cell host", client->path,
                 "the host sent %s: " BL_TEXT_FORMAT, reason, BL_TEXT_ARG(text));
    return BL_EUNKNOWN;
}

/* ---- Open, call, close ----------------------------------------------------------------------- */

static int shake_hands(struct bl_cell_client *client, const char *name, struct bl_error *error)
{
    struct bl_json_writer writer;
    struct bl_buffer out;
    BL_AUTO_ARENA(arena);
    begin_frame(&writer, &out);
    cell_hello_write(&writer, name, 0);
    int code = finish_frame(client, &writer, &out, error);
    if (code != 0)
        return code;
    struct cell_frame *frame = bl_arena_zalloc(&arena, sizeof *frame);
    code = server_client_receive(client, &arena, frame, error);
    if (code == 0 && frame->type != CELL_FRAME_READY)
        code = server_client_refuse(client, frame, error);
    return code;
}

/* Limits the time for a host that accepts the connection and sends nothing. */
static int shake_hands_in_time(struct bl_cell_client *client, const char *name,
                               struct bl_error *error)
{
    struct bl_scope limit, *outer = bl_scope_current();
    bl_limit_begin(&limit, READY_NS);
    int code = shake_hands(client, name, error);
    bl_limit_end(&limit);
    if (code == BL_ETIMEDOUT && bl_scope_check(outer) == 0)
        return server_client_fail(client, BL_EUNKNOWN, "the host does not answer", error);
    return code;
}

static int no_host(const struct bl_cell_client *client, struct bl_error *error)
{
    bl_error_set(error, BL_ENOENT, BL_KIND_CELL, "connect to the cell host", client->path,
                 "no cell host listens at %s", client->path);
    bl_error_hint(error, "start one with 'belay cell serve'");
    return BL_ENOENT;
}

static int server_client_find_path(struct bl_cell_client *client, const char *socket,
                                   struct bl_error *error)
{
    if (socket == NULL)
        return cell_socket_path(client->path, sizeof client->path, error);
    if (strlen(socket) >= sizeof client->path)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, "connect to the cell host", socket,
                            "the path of the socket is too long");
    bl_text_into(client->path, sizeof client->path, socket);
    return 0;
}

int bl_cell_client_open(const struct bl_cell_client_options *options,
                        struct bl_cell_client **ret_client, struct bl_error *error)
{
    struct bl_cell_client *client = bl_zalloc(sizeof *client);
    client->fd = -1;
    client->next_id = 1;
    client->buffer = bl_alloc(SERVER_READ_SIZE);
    bl_frames_init(&client->frames, BL_CELL_FRAME_MAX);
    int code = server_client_find_path(client, options->socket, error);
    if (code == 0) {
        code = bl_local_connect(client->path, &client->fd, NULL);
        if (code == BL_ENOENT)
            no_host(client, error);
        else if (code != 0)
            server_client_fail(client, code, bl_error_text(code), error);
    }
    if (code == 0)
        code = bl_descriptor_new(client->fd, &client->descriptor);
    if (code == 0)
        code = shake_hands_in_time(client, options->name, error);
    if (code != 0) {
        bl_cell_client_close(client);
        return code;
    }
    *ret_client = client;
    return 0;
}

void bl_cell_client_close(struct bl_cell_client *client)
{
    if (client == NULL)
        return;
    bl_descriptor_free(client->descriptor);
    if (client->fd >= 0)
        close(client->fd);
    bl_frames_done(&client->frames);
    bl_free(client->buffer);
    bl_free(client);
}

static int server_client_ask(struct bl_cell_client *client, const struct cell_request *request,
                             struct bl_error *error)
{
    struct bl_json_writer writer;
    struct bl_buffer out;
    begin_frame(&writer, &out);
    cell_frame_write(&writer,
                     &(struct cell_frame){.type = CELL_FRAME_REQUEST, .request = *request});
    return finish_frame(client, &writer, &out, error);
}

/* Sends the request and waits for its answer. BL_EREFUSED if that is an `err`. */
static int server_client_await(struct bl_cell_client *client, struct cell_request request,
                               struct bl_arena *arena, struct cell_frame *ret_frame,
                               struct bl_cell_fault *fault, struct bl_error *error)
{
    request.id = client->next_id++;
    int code = server_client_ask(client, &request, error);
    while (code == 0) {
        code = server_client_receive(client, arena, ret_frame, error);
        if (code == 0 && ret_frame->type == CELL_FRAME_BYE)
            code = server_client_refuse(client, ret_frame, error);
        /* Skips hints, and replies to requests that were given up. */
        if (code == 0 && ret_frame->type == CELL_FRAME_REPLY && ret_frame->reply.id == request.id)
            break;
    }
    if (code == 0 && ret_frame->reply.err != NULL) {
        *fault = *ret_frame->reply.err;
        return BL_EREFUSED;
    }
    return code;
}

int cell_client_request(struct bl_cell_client *client, const struct cell_request *request,
                        struct bl_arena *arena, struct cell_ok *ret_ok, struct bl_text *ret_json,
                        struct bl_cell_fault *fault, struct bl_error *error)
{
    struct cell_frame *frame = bl_arena_zalloc(arena, sizeof *frame);
    int code = server_client_await(client, *request, arena, frame, fault, error);
    if (code == 0)
        code = cell_ok_read(arena, request->op, frame->reply.ok, ret_ok, error);
    if (code == 0)
        *ret_json = frame->reply.ok_json;
    return code;
}

int bl_cell_client_call(struct bl_cell_client *client, const char *op, struct bl_text args,
                        struct bl_arena *arena, struct bl_text *ret_ok, struct bl_cell_fault *fault,
                        struct bl_error *error)
{
    struct cell_frame *frame = bl_arena_zalloc(arena, sizeof *frame);
    struct cell_request request = {.args_json = args};
    if (!cell_operation_parse(bl_text_from(op), &request.op))
        return bl_error_set(error, BL_EINVAL, BL_KIND_CELL, "call the cell host", op,
                            "unknown operation");
    int code = server_client_await(client, request, arena, frame, fault, error);
    if (code == 0)
        *ret_ok = frame->reply.ok_json;
    return code;
}
