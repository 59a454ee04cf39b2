#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

uint64_t server_hello_ns = 5 * BL_NS_PER_S;
uint64_t server_silence_ns = 30 * BL_NS_PER_S;
uint64_t server_farewell_ns = 1 * BL_NS_PER_S;

/* ---- Writing --------------------------------------------------------------------------------- */

static void out_free(struct server_out *out)
{
    bl_buffer_done(&out->bytes);
    bl_free(out);
}

/* Frees a frame that leaves its queue or was written, and detaches it from its call. */
static void out_forget(struct server_connection *connection, struct server_out *out)
{
    if (out->call != NULL)
        server_call_unqueued(out->call);
    out->call = NULL;
    connection->queued_frames--;
    connection->queued_bytes -= out->bytes.size;
    out_free(out);
}

void server_out_drop(struct server_connection *connection, struct server_out *out)
{
    bl_list_remove(&out->link);
    out_forget(connection, out);
}

static ssize_t connection_put(const struct server_connection *connection, const char *data,
                              size_t size)
{
    ssize_t sent = send(connection->output, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    struct iovec part = {(char *)(uintptr_t)data, size};
    return sent < 0 && errno == ENOTSOCK ? bl_write_quietly(connection->output, &part, 1) : sent;
}

static struct server_out *next_out(struct server_connection *connection)
{
    struct bl_list *link = bl_list_pop_front(&connection->urgent);
    if (link == NULL)
        link = bl_list_pop_front(&connection->usual);
    if (link == NULL)
        return NULL;
    struct server_out *out = BL_CONTAINER(link, struct server_out, link);
    if (out->call != NULL)
        server_call_sent(out->call);
    out->call = NULL;
    return out;
}

/* Sends as much as the client takes. 0: everything; BL_EAGAIN: it takes no more for now; BL_EPIPE:
 * the connection is closed. */
static int connection_flush(struct server_connection *connection)
{
    for (;;) {
        if (connection->current == NULL) {
            connection->current = next_out(connection);
            connection->written = 0;
        }
        struct server_out *out = connection->current;
        connection->blocked = false;
        if (out == NULL)
            return 0;
        ssize_t sent = connection_put(connection, out->bytes.data + connection->written,
                                      out->bytes.size - connection->written);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            connection->blocked = true;
            return BL_EAGAIN;
        }
        if (sent < 0)
            return BL_EPIPE;
        connection->written += (size_t)sent;
        if (connection->written == out->bytes.size) {
            connection->current = NULL;
            out_forget(connection, out);
        }
    }
}

static void connection_push(struct server_connection *connection, struct server_out *out,
                            bool urgent)
{
    bl_list_push_back(urgent ? &connection->urgent : &connection->usual, &out->link);
    connection->queued_frames++;
    connection->queued_bytes += out->bytes.size;
    if (connection->blocked)
        return;
    int code = connection_flush(connection);
    if (code == BL_EPIPE)
        server_connection_drop(connection);
    else if (code == BL_EAGAIN)
        bl_semaphore_give(&connection->writing_wanted);
}

static void drop_queue(struct server_connection *connection, struct bl_list *queue)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(queue)) != NULL)
        out_forget(connection, BL_CONTAINER(link, struct server_out, link));
}

void server_message_begin(struct server_message *message)
{
    static const char head[BL_FRAME_HEAD_SIZE];
    message->out = bl_zalloc(sizeof *message->out);
    bl_list_init(&message->out->link);
    bl_buffer_init(&message->out->bytes, BL_FRAME_HEAD_SIZE + BL_CELL_FRAME_MAX);
    bl_buffer_append(&message->out->bytes, (struct bl_text){head, sizeof head});
    bl_json_writer_init(&message->writer, &message->out->bytes);
}

/* Completes the frame. Returns NULL, and frees it, if it is too large. */
static struct server_out *connection_finish_message(struct server_message *message)
{
    struct server_out *out = message->out;
    if (bl_json_writer_done(&message->writer) != 0) {
        out_free(out);
        return NULL;
    }
    bl_frame_head((uint8_t *)out->bytes.data, (uint32_t)(out->bytes.size - BL_FRAME_HEAD_SIZE));
    return out;
}

int server_message_end(struct server_message *message, struct server_connection *connection,
                       bool urgent, struct server_call *call)
{
    struct server_out *out = connection_finish_message(message);
    if (out == NULL)
        return BL_ELIMIT;
    if (connection->dead) {
        out_free(out);
        return 0;
    }
    out->call = call;
    if (call != NULL)
        server_call_queued(call, out);
    connection_push(connection, out, urgent);
    if (connection->queued_frames > BL_CELL_QUEUE_FRAMES_MAX ||
        connection->queued_bytes > BL_CELL_QUEUE_BYTES_MAX)
        server_connection_bye(connection, "too_slow", false,
                              "too many unread frames: reconnect and repeat the requests");
    return 0;
}

bool server_connection_idle(const struct server_connection *connection)
{
    return !connection->dead && connection->queued_frames < BL_CELL_QUEUE_FRAMES_MAX / 2;
}

/* Continues writing when the client can take more. */
static int connection_write_main(void *argument)
{
    struct server_connection *connection = argument;
    int code = 0;
    while (code == 0) {
        code = bl_semaphore_take(&connection->writing_wanted);
        while (code == 0 && connection->blocked) {
            code = bl_descriptor_wait(connection->writing, BL_WRITABLE, NULL);
            if (code == 0 && connection_flush(connection) == BL_EPIPE)
                server_connection_drop(connection);
        }
    }
    return 0;
}

/* Sends the rest of the queues, within server_farewell_ns. */
static void say_farewell(struct server_connection *connection)
{
    struct bl_scope shield;
    bl_shield_begin(&shield, server_farewell_ns);
    int code = connection_flush(connection);
    while (code == BL_EAGAIN) {
        code = bl_descriptor_wait(connection->writing, BL_WRITABLE, NULL);
        if (code == 0)
            code = connection_flush(connection);
    }
    bl_shield_end(&shield);
}

/* ---- The end --------------------------------------------------------------------------------- */

void server_connection_drop(struct server_connection *connection)
{
    if (connection->dead)
        return;
    connection->dead = true;
    bl_scope_stop(&connection->scope, BL_STOP_CLIENT_GONE, "disconnect");
}

static void log_end(const struct server_connection *connection, const char *what,
                    struct bl_text message)
{
    struct bl_text client = connection->client.size > 0 ? connection->client : BL_TEXT("(unknown)");
    server_log(connection->server, "client " BL_TEXT_FORMAT ": %s: " BL_TEXT_FORMAT,
               BL_TEXT_ARG(client), what, BL_TEXT_ARG(message));
}

void server_connection_bye(struct server_connection *connection, const char *reason, bool keep,
                           const char *text)
{
    struct server_message message;
    if (connection->dead)
        return;
    connection->dead = true;
    log_end(connection, reason, bl_text_from(text));
    if (!keep) {
        drop_queue(connection, &connection->urgent);
        drop_queue(connection, &connection->usual);
    }
    server_message_begin(&message);
    cell_frame_write(&message.writer, &(struct cell_frame){.type = CELL_FRAME_BYE,
                                                           .bye.reason = reason,
                                                           .text = bl_text_from(text)});
    struct server_out *out = connection_finish_message(&message);
    if (out != NULL)
        connection_push(connection, out, false);
    bl_scope_stop(&connection->scope, BL_STOP_CLIENT_GONE, reason);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Waits with a deadline of its own: BL_EAGAIN when that is reached. */
static int wait_readable(struct server_connection *connection, uint64_t deadline_ns)
{
    struct bl_scope limit, *outer = bl_scope_current();
    if (deadline_ns == BL_NEVER)
        return bl_descriptor_wait(connection->reading, BL_READABLE, NULL);
    bl_limit_begin_until(&limit, deadline_ns);
    int code = bl_descriptor_wait(connection->reading, BL_READABLE, NULL);
    bl_limit_end(&limit);
    return code == BL_ETIMEDOUT && bl_scope_check(outer) == 0 ? BL_EAGAIN : code;
}

/* Reads some bytes into the server's buffer; they must be used before the next wait. BL_ECLOSED at
 * the end of input. */
static int connection_read_some(struct server_connection *connection, size_t most,
                                uint64_t deadline_ns, struct bl_text *ret_bytes)
{
    char *buffer = connection->server->buffer;
    for (;;) {
        int code = bl_check();
        if (code != 0)
            return code;
        ssize_t size = read(connection->input, buffer, most);
        if (size > 0) {
            *ret_bytes = (struct bl_text){buffer, (size_t)size};
            return 0;
        }
        if (size == 0 || (errno != EAGAIN && errno != EINTR))
            return BL_ECLOSED;
        if (errno == EAGAIN)
            code = wait_readable(connection, deadline_ns);
        if (code != 0)
            return code;
    }
}

static void connection_break_off(struct server_connection *connection, int code)
{
    if (code == BL_ELIMIT)
        server_connection_bye(connection, "protocol", true,
                              "a frame must have at least 1 byte, and at most the limit in `ready` "
                              "(65536 before it)");
    else if (code == BL_EAGAIN)
        server_connection_bye(connection, "protocol", true,
                              connection->ready ? "timed out in the middle of a frame"
                                                : "timed out waiting for hello");
    else if (code == BL_ECANCELED || code == BL_ETIMEDOUT) /* stopped from above; otherwise it is
                                                              dead already */
        server_connection_bye(connection, "shutting_down", true, "the host is shutting down");
    else
        server_connection_drop(connection);
}

static int take_first(void *context, struct bl_text frame)
{
    struct server_connection *connection = context;
    connection->first = bl_arena_text(&connection->arena, frame);
    return 0;
}

/* Returns how many bytes of the first frame are missing. The bytes after it stay unread until it is
 * known whether the client is accepted. */
static size_t missing_bytes(const struct bl_frames *frames)
{
    const uint8_t *head = (const uint8_t *)frames->pending.data;
    size_t size = frames->pending.size;
    if (size < BL_FRAME_HEAD_SIZE)
        return BL_FRAME_HEAD_SIZE - size;
    size_t whole = BL_FRAME_HEAD_SIZE + ((size_t)head[2] << 8) + head[3];
    if (head[1] != 0) /* exactly BL_CELL_FRAME_FIRST_MAX */
        whole = BL_FRAME_HEAD_SIZE + BL_CELL_FRAME_FIRST_MAX;
    return whole - size;
}

static int connection_read_first(struct server_connection *connection)
{
    uint64_t deadline_ns = bl_time_add(bl_now_ns(), server_hello_ns);
    struct bl_text bytes;
    int code = 0;
    while (code == 0 && connection->first.size == 0) {
        size_t most = missing_bytes(&connection->frames);
        code = connection_read_some(connection, most < SERVER_READ_SIZE ? most : SERVER_READ_SIZE,
                                    deadline_ns, &bytes);
        if (code == 0)
            code = bl_frames_feed(&connection->frames, bytes, take_first, connection);
    }
    return code;
}

/* Reads frame after frame. It never waits for a request: anything that takes time has a fiber of
 * its own. */
static int read_frames(struct server_connection *connection)
{
    struct bl_text bytes;
    int code = 0;
    while (code == 0) {
        bool partial = bl_frames_partial(&connection->frames);
        uint64_t deadline_ns =
            partial ? bl_time_add(bl_now_ns(), server_silence_ns) : (uint64_t)BL_NEVER;
        code = connection_read_some(connection, SERVER_READ_SIZE, deadline_ns, &bytes);
        if (code == 0)
            code = bl_frames_feed(&connection->frames, bytes, server_take_frame, connection);
        if (code == 0)
            code = bl_yield(); /* a client that floods the host must not starve the others */
    }
    return code;
}

/* ---- Hello ----------------------------------------------------------------------------------- */

static void connection_reject(struct server_connection *connection, enum cell_rejection rejection,
                              struct bl_text text)
{
    struct server_message message;
    server_message_begin(&message);
    cell_rejected_write(&message.writer, rejection, text);
    server_message_end(&message, connection, false, NULL);
    log_end(connection, "rejected", text.size > 0 ? text : BL_TEXT("no common version"));
    server_connection_drop(connection);
}

static bool same_client(const struct server_connection *a, const struct server_connection *b)
{
    return a != b && a->client.size > 0 && bl_text_equal(a->client, b->client);
}

static bool is_creating(const struct server_connection *newer)
{
    BL_LIST_EACH (link, &newer->server->connections) {
        const struct server_connection *other = BL_CONTAINER(link, struct server_connection, link);
        if (same_client(other, newer) && other->dead && server_requests_creating(other))
            return true;
    }
    return false;
}

/* Closes older connections of the same client, so that none of their pending requests begins. Waits
 * for their creates in progress. */
static int supersede(struct server_connection *newer)
{
    int code = 0;
    BL_LIST_EACH (link, &newer->server->connections) {
        struct server_connection *other = BL_CONTAINER(link, struct server_connection, link);
        if (same_client(other, newer))
            server_connection_bye(other, "superseded", false,
                                  "replaced by a newer connection of the same client");
    }
    while (code == 0 && is_creating(newer))
        code = server_signal_wait(&newer->server->changed);
    return code;
}

static int welcome(struct server_connection *connection)
{
    struct server_message message;
    int code = supersede(connection);
    if (code != 0)
        return code;
    connection->ready = true;
    connection->frames.frame_max = BL_CELL_FRAME_MAX;
    server_message_begin(&message);
    cell_ready_write(&message.writer, connection->capabilities, connection->server->instance,
                     cell_host_live_max(connection->server->options.host));
    server_message_end(&message, connection, false, NULL);
    server_log(connection->server, "client " BL_TEXT_FORMAT ": connected",
               BL_TEXT_ARG(connection->client));
    return 0;
}

static int greet(struct server_connection *connection)
{
    char message[160] = "";
    struct cell_frame *frame;
    int code = connection_read_first(connection);
    if (code != 0)
        return code;
    frame = bl_arena_zalloc(&connection->arena, sizeof *frame);
    if (cell_frame_read(&connection->arena, connection->first, true, frame, message,
                        sizeof message) != 0)
        connection_reject(connection, CELL_REJECTED_HELLO, bl_text_from(message));
    else if (!cell_hello_has_version(&frame->hello))
        connection_reject(connection, CELL_REJECTED_VERSION, BL_TEXT(""));
    else if (cell_hello_lacking(&frame->hello).size > 0)
        connection_reject(connection, CELL_REJECTED_CAPABILITY, cell_hello_lacking(&frame->hello));
    if (connection->dead)
        return BL_ECLOSED;
    connection->client = frame->hello.client;
    connection->capabilities = cell_hello_capabilities(&frame->hello);
    return welcome(connection);
}

/* ---- The life of a connection ---------------------------------------------------------------- */

static void connection_free(struct server_connection *connection)
{
    if (connection->current != NULL)
        out_forget(connection, connection->current);
    drop_queue(connection, &connection->urgent);
    drop_queue(connection, &connection->usual);
    bl_frames_done(&connection->frames);
    bl_arena_done(&connection->arena);
    bl_scope_done(&connection->scope);
    bl_descriptor_free(connection->reading);
    if (connection->writing != connection->reading)
        bl_descriptor_free(connection->writing);
    close(connection->input);
    if (connection->output != connection->input)
        close(connection->output);
    bl_free(connection);
}

static void connection_serve(struct server_connection *connection)
{
    int code = bl_nursery_spawn(&connection->nursery, NULL, "cell client writes",
                                connection_write_main, connection, NULL);
    if (code == 0)
        code = greet(connection);
    if (code == 0)
        code = read_frames(connection);
    connection_break_off(connection, code);
}

static int connection_main(void *argument)
{
    struct server_connection *connection = argument;
    struct bl_cell_server *server = connection->server;
    bl_nursery_init(&connection->nursery, &connection->scope);
    struct bl_scope *outer = bl_scope_enter(&connection->scope);
    connection_serve(connection);
    bl_scope_enter(outer);
    server_session_leave(connection);
    server_requests_stop(connection);
    bl_nursery_done(&connection->nursery);
    say_farewell(connection);
    bl_list_remove(&connection->link);
    server->connection_count--;
    if (server->path[0] == '\0')
        server->ended = true;
    connection_free(connection);
    server_signal_tell(&server->changed);
    return 0;
}

/* A regular file cannot be waited for, and need not be. */
static int connection_watch(int fd, struct bl_descriptor **ret_descriptor)
{
    int code = bl_descriptor_new(fd, ret_descriptor);
    return code == BL_ENOTSUP ? 0 : code;
}

int server_connection_start(struct bl_cell_server *server, int input, int output)
{
    struct server_connection *connection = bl_zalloc(sizeof *connection);
    connection->server = server;
    connection->input = input;
    connection->output = output;
    bl_scope_init(&connection->scope, &server->nursery.scope);
    bl_arena_init(&connection->arena);
    bl_frames_init(&connection->frames, BL_CELL_FRAME_FIRST_MAX);
    bl_list_init(&connection->link);
    bl_list_init(&connection->openings);
    bl_list_init(&connection->requests);
    bl_list_init(&connection->urgent);
    bl_list_init(&connection->usual);
    bl_semaphore_init(&connection->writing_wanted, 0);
    int code = connection_watch(input, &connection->reading);
    connection->writing = connection->reading;
    if (code == 0 && output != input) {
        connection->writing = NULL;
        code = connection_watch(output, &connection->writing);
    }
    if (code == 0)
        code = bl_nursery_spawn(&server->nursery, NULL, "cell client", connection_main, connection,
                                NULL);
    if (code != 0) {
        connection_free(connection);
        return code;
    }
    bl_list_push_back(&server->connections, &connection->link);
    server->connection_count++;
    return 0;
}
