/* A server for programs on this machine. It listens only on loopback, and answers only requests
 * that name a loopback host, so that no web page can reach it through its own host name.
 *
 * A peer that hangs up while it is served is treated as gone: the scope of its call stops at the
 * next turn of the loop. A peer that only shut down its sending side looks the same, and is treated
 * the same, because a call must not wait on behalf of a client that has disconnected. A response
 * that is made without waiting still reaches it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

#define CONNECTIONS_DEFAULT 1024u
#define BODY_DEFAULT        BL_WIRE_REQUEST_MAX
#define READ_SIZE           ((size_t)4096)
#define BODY_READ_SIZE      ((size_t)64 * 1024)
#define CHUNK_LINE_MAX      ((size_t)1024)
#define IDLE_NS             (120 * BL_NS_PER_S) /* between two requests */
#define HEAD_NS             (30 * BL_NS_PER_S)  /* from its first byte to its last */
#define BODY_NS             (60 * BL_NS_PER_S)  /* between two of its bytes */
#define LINGER_NS           (2 * BL_NS_PER_S)
#define LINGER_MAX          ((size_t)128 * 1024 * 1024)

struct bl_http_server {
    struct bl_http_server_options options;
    struct bl_nursery nursery;       /* of the connections */
    struct bl_semaphore connections; /* number that may still be accepted */
    struct bl_semaphore end;
    bool ended;
    struct server_socket *listener;
    uint16_t port;
};

struct connection {
    struct bl_http_server *server;
    struct server_socket *socket;
    struct bl_buffer input; /* bytes read beyond the current request */
    struct bl_http_call call;
};

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads more bytes into `out`, until `until_ns`. Returns 0; BL_ECLOSED: the peer has closed its
 * side; BL_EAGAIN: the time is up; otherwise a stop or a failure. */
static int http_server_read_more(struct connection *connection, struct bl_buffer *out, size_t size,
                                 uint64_t until_ns)
{
    struct bl_scope scope;
    size_t count = 0;

    bl_limit_begin_until(&scope, until_ns);
    /* An idle connection holds no memory for its next request. */
    int code = out->size == 0 ? server_socket_wait(connection->socket) : 0;
    if (code == 0)
        code = bl_buffer_reserve(out, size);
    if (code == 0)
        code = server_socket_read(connection->socket, out->data + out->size, size, &count);
    bl_limit_end(&scope);
    if (code == BL_ETIMEDOUT && bl_check() == 0)
        return BL_EAGAIN;
    if (code != 0)
        return code;
    out->size += count;
    return count > 0 ? 0 : BL_ECLOSED;
}

/* Returns the end of the header at the front of the input; 0 if it is incomplete; a negative value
 * if a line or the header exceeds its limit. `*line` is the start of its last, unfinished line. */
static ptrdiff_t find_head_end(struct bl_text input, size_t *line)
{
    for (;;) {
        const char *from = input.data + *line;
        size_t left = input.size - *line;
        const char *end = left > 0 ? memchr(from, '\n', left) : NULL;
        size_t size = end != NULL ? (size_t)(end - from) : left;
        if (size > BL_WIRE_HEADER_LINE_MAX || *line + size > BL_WIRE_HEADERS_MAX)
            return -1;
        if (end == NULL)
            return 0;
        *line += size + 1;
        if (size == 0 || (size == 1 && from[0] == '\r'))
            return (ptrdiff_t)*line;
    }
}

/* Skips blank lines before a request: some clients send an extra line after a body. */
static void skip_blank_lines(struct bl_buffer *input)
{
    size_t size = 0;

    while (size < input->size && (input->data[size] == '\r' || input->data[size] == '\n'))
        size++;
    if (size > 0)
        bl_buffer_consume(input, size);
}

/* Returns 0, a status to refuse the request with, or a negative code if there is nothing to answer.
 */
static int http_server_read_head(struct connection *connection, size_t *ret_size)
{
    struct bl_buffer *input = &connection->input;
    uint64_t until_ns = 0;
    size_t line = 0;

    skip_blank_lines(input);
    for (;;) {
        ptrdiff_t end = input->size > 0 ? find_head_end(bl_buffer_text(input), &line) : 0;
        if (end < 0)
            return 431;
        if (end > 0) {
            *ret_size = (size_t)end;
            return 0;
        }
        bool idle = input->size == 0;
        if (idle)
            until_ns = bl_time_add(bl_now_ns(), IDLE_NS);
        else if (line == 0 && until_ns == 0)
            until_ns = bl_time_add(bl_now_ns(), HEAD_NS);
        int code = http_server_read_more(connection, input, READ_SIZE, until_ns);
        if (code == BL_EAGAIN && !idle)
            return 408;
        if (code != 0)
            return code;
        if (idle) {
            until_ns = bl_time_add(bl_now_ns(), HEAD_NS);
            skip_blank_lines(input);
        }
    }
}

static int read_body_bytes(struct connection *connection, uint64_t length)
{
    struct bl_buffer *body = &connection->call.body;
    struct bl_buffer *input = &connection->input;
    size_t end = body->size + (size_t)length;
    size_t ready = input->size < length ? input->size : (size_t)length;

    if (ready > 0) {
        if (bl_buffer_append(body, (struct bl_text){input->data, ready}) != 0)
            return 413;
        bl_buffer_consume(input, ready);
    }
    while (body->size < end) {
        size_t size = end - body->size < BODY_READ_SIZE ? end - body->size : BODY_READ_SIZE;
        int code = http_server_read_more(connection, body, size, bl_time_add(bl_now_ns(), BODY_NS));
        if (code != 0)
            return code == BL_EAGAIN ? 408 : code == BL_ELIMIT ? 413 : code;
    }
    return 0;
}

/* Reads a line between chunks, without its ending. It is a view into the input, of which the caller
 * consumes `*ret_size` bytes. */
static int read_chunk_line(struct connection *connection, struct bl_text *ret_line,
                           size_t *ret_size)
{
    struct bl_buffer *input = &connection->input;

    for (;;) {
        const char *end = input->size > 0 ? memchr(input->data, '\n', input->size) : NULL;
        if (end != NULL) {
            size_t size = (size_t)(end - input->data);
            *ret_size = size + 1;
            if (size > 0 && end[-1] == '\r')
                size--;
            *ret_line = (struct bl_text){input->data, size};
            return size > CHUNK_LINE_MAX ? 400 : 0;
        }
        if (input->size > CHUNK_LINE_MAX)
            return 400;
        int code =
            http_server_read_more(connection, input, READ_SIZE, bl_time_add(bl_now_ns(), BODY_NS));
        if (code != 0)
            return code == BL_EAGAIN ? 408 : code;
    }
}

/* Parses a hexadecimal size; extensions after a semicolon are ignored. Returns false if it is
 * invalid. */
static bool read_chunk_size(struct bl_text line, uint64_t *ret_size)
{
    uint64_t size = 0;
    size_t i = 0;

    for (; i < line.size && i < 16; i++) {
        char byte = (char)(line.data[i] | ' ');
        if (line.data[i] >= '0' && line.data[i] <= '9')
            size = size << 4 | (uint64_t)(line.data[i] - '0');
        else if (byte >= 'a' && byte <= 'f')
            size = size << 4 | (uint64_t)(byte - 'a' + 10);
        else
            break;
    }
    if (i == 0)
        return false;
    *ret_size = size;
    struct bl_text rest = bl_text_trim((struct bl_text){line.data + i, line.size - i});
    return rest.size == 0 || rest.data[0] == ';';
}

static int read_chunks(struct connection *connection, size_t body_max)
{
    struct bl_buffer *body = &connection->call.body;
    struct bl_text line;
    uint64_t size;
    size_t used, trailers = 0;

    for (;;) {
        int code = read_chunk_line(connection, &line, &used);
        if (code != 0)
            return code;
        if (!read_chunk_size(line, &size))
            return 400;
        bl_buffer_consume(&connection->input, used);
        if (size == 0)
            break;
        if (size > body_max - body->size)
            return 413;
        code = read_body_bytes(connection, size);
        if (code == 0)
            code = read_chunk_line(connection, &line, &used);
        if (code != 0 || line.size > 0)
            return code != 0 ? code : 400;
        bl_buffer_consume(&connection->input, used);
    }
    for (;;) {
        int code = read_chunk_line(connection, &line, &used);
        if (code != 0)
            return code;
        bool last = line.size == 0;
        bl_buffer_consume(&connection->input, used);
        if (last)
            return 0;
        trailers += used;
        if (trailers > BL_WIRE_HEADERS_MAX)
            return 431;
    }
}

static int http_server_read_body(struct connection *connection)
{
    struct bl_http_call *call = &connection->call;
    size_t body_max = connection->server->options.body_max;

    if (!call->chunked && call->length == 0)
        return 0;
    if (call->length > body_max)
        return 413;
    if (call->continues && connection->input.size == 0) {
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
        struct iovec part = {(void *)(uintptr_t)text, sizeof text - 1};
        int code = server_socket_write(connection->socket, &part, 1, NULL);
        if (code != 0)
            return code;
    }
    bl_buffer_init(&call->body, body_max);
    return call->chunked ? read_chunks(connection, body_max)
                         : read_body_bytes(connection, call->length);
}

/* ---- A connection ---------------------------------------------------------------------------- */

static void http_server_serve_call(struct connection *connection)
{
    struct bl_http_call *call = &connection->call;
    const struct bl_http_server_options *options = &connection->server->options;

    bl_scope_init(&call->scope, bl_scope_current());
    struct bl_scope *before = bl_scope_enter(&call->scope);
    server_socket_serve(connection->socket, &call->scope);
    options->serve(options->context, call);
    bool stopped = bl_scope_stopped(&call->scope);
    if (call->state == CALL_OPEN && !stopped)
        bl_http_call_answer(call, 500, NULL, 0, (struct bl_text){NULL, 0});
    if (call->state != CALL_ENDED)
        bl_http_call_cut(call);
    if (call->socket != NULL)
        server_socket_serve(call->socket, NULL);
    bl_scope_enter(before);
    bl_scope_done(&call->scope);
}

/* Reads on after a refusal, because the peer may still be sending. An immediate close would reset
 * the connection and could discard the response before the peer has read it. */
static void http_server_linger(struct connection *connection)
{
    uint64_t until_ns = bl_time_add(bl_now_ns(), LINGER_NS);
    struct bl_buffer *input = &connection->input;

    shutdown(connection->socket->fd, SHUT_WR);
    for (size_t total = 0; total < LINGER_MAX; total += input->size) {
        bl_buffer_clear(input);
        if (http_server_read_more(connection, input, BODY_READ_SIZE, until_ns) != 0)
            return;
    }
}

/* Returns false if the request has been answered; its body may still arrive, and is not served. */
static bool admit_call(struct connection *connection)
{
    struct bl_http_call *call = &connection->call;
    const struct bl_http_server_options *options = &connection->server->options;
    bool keeps = call->keeps;

    if (options->admit == NULL)
        return true;
    call->keeps = false;
    call->refused = !options->admit(options->context, call);
    if (call->refused && call->state == CALL_OPEN)
        call_refuse(call, 500);
    if (!call->refused)
        call->keeps = keeps;
    return !call->refused;
}

/* Serves one request. Returns false if the connection ends. */
static bool http_server_serve_request(struct connection *connection)
{
    struct bl_http_call *call = &connection->call;
    size_t head_size = 0;
    int code = http_server_read_head(connection, &head_size);

    if (code < 0)
        return false;
    call_init(call, connection->socket);
    if (code == 0) {
        code = call_read_head(call, (struct bl_text){connection->input.data, head_size},
                              &connection->server->options);
        bl_buffer_consume(&connection->input, head_size);
    }
    bool admitted = code == 0 && admit_call(connection);
    if (admitted)
        code = http_server_read_body(connection);
    /* A stream may stay open for hours: it holds no memory that it does not need. */
    if (connection->input.size == 0)
        bl_buffer_done(&connection->input);
    if (admitted && code == 0)
        http_server_serve_call(connection);
    else if (code > 0)
        call_refuse(call, code);
    bool keeps_open = admitted && code == 0 && call->keeps && call->state == CALL_ENDED;
    connection->socket = call->socket;
    if (call->refused && connection->socket != NULL)
        http_server_linger(connection);
    call_done(call);
    return keeps_open;
}

static int serve_connection(void *argument)
{
    struct connection *connection = argument;
    struct bl_http_server *server = connection->server;

    while (http_server_serve_request(connection))
        ;
    server_socket_free(connection->socket, false);
    bl_buffer_done(&connection->input);
    bl_free(connection);
    bl_semaphore_give(&server->connections);
    return 0;
}

/* ---- Listening ------------------------------------------------------------------------------- */

static void take_connection(struct bl_http_server *server, int fd)
{
    struct connection *connection = bl_zalloc(sizeof *connection);
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->server = server;
    bl_buffer_init(&connection->input, BL_WIRE_HEADERS_MAX + 2 * BODY_READ_SIZE);
    int code = server_socket_new(fd, &connection->socket);
    if (code == 0)
        code = bl_nursery_spawn(&server->nursery, NULL, "http connection", serve_connection,
                                connection, NULL);
    if (code == 0)
        return;
    server_socket_free(connection->socket, true);
    bl_free(connection);
    bl_semaphore_give(&server->connections);
}

static void http_server_accept_until_stopped(struct bl_http_server *server)
{
    int code = bl_semaphore_take(&server->connections);

    while (code == 0) {
        int fd = accept4(server->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_connection(server, fd);
            code = bl_semaphore_take(&server->connections);
        } else if (errno == EAGAIN) {
            code = server_socket_wait(server->listener);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            /* Out of descriptors or memory: waits for other connections to end without a busy loop.
             */
            code = bl_sleep(10 * BL_NS_PER_MS);
        }
    }
}

static int run_server(void *argument)
{
    struct bl_http_server *server = argument;
    struct bl_scope *before = bl_scope_enter(&server->nursery.scope);

    http_server_accept_until_stopped(server);
    bl_scope_enter(before);
    server_socket_free(server->listener, false);
    bl_nursery_done(&server->nursery);
    server->ended = true;
    bl_semaphore_give(&server->end);
    return 0;
}

static int listen_on(struct bl_http_server *server, struct bl_error *error)
{
    const struct bl_http_server_options *options = &server->options;
    bool six = strchr(options->address, ':') != NULL;
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.any = {0}};
    socklen_t size = six ? sizeof address.six : sizeof address.four;
    char target[64];
    int on = 1;

    snprintf(target, sizeof target, six ? "[%s]:%u" : "%s:%u", options->address, options->port);
    if (six)
        address.six = (struct sockaddr_in6){.sin6_family = AF_INET6,
                                            .sin6_port = htons(options->port),
                                            .sin6_addr = in6addr_loopback};
    else
        address.four =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(options->port)};
    if (!six)
        inet_pton(AF_INET, options->address, &address.four.sin_addr);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, &address.any, size) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, &address.any, &size) == 0) {
        server->port = ntohs(six ? address.six.sin6_port : address.four.sin_port);
        return server_socket_new(fd, &server->listener);
    }
    int why = errno;
    if (fd >= 0)
        close(fd);
    int code = why == EADDRINUSE ? BL_EBUSY : bl_error_from_errno(why);
    bl_error_set(error, code, BL_KIND_RUNTIME, "listen", target, "cannot listen on %s: %s", target,
                 strerror(why));
    bl_error_hint(error, why == EADDRINUSE ? "choose another port, or 0 for any free port"
                         : why == EACCES   ? "ports below 1024 need root: choose another port"
                                         : "check the address and the permissions on this system");
    return code;
}

static bool is_loopback(const char *address)
{
    struct in_addr four;
    struct in6_addr six;

    if (inet_pton(AF_INET, address, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

int bl_http_server_start(struct bl_nursery *nursery, const struct bl_http_server_options *options,
                         struct bl_http_server **ret_server, struct bl_error *error)
{
    const char *address = options->address != NULL ? options->address : "";

    if (!is_loopback(address)) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "listen", address,
                     "the server listens only on loopback addresses");
        bl_error_hint(error, "use 127.0.0.1 or ::1");
        return BL_EINVAL;
    }
    struct bl_http_server *server = bl_zalloc(sizeof *server);
    server->options = *options;
    if (server->options.connections_max == 0)
        server->options.connections_max = CONNECTIONS_DEFAULT;
    if (server->options.body_max == 0)
        server->options.body_max = BODY_DEFAULT;
    bl_semaphore_init(&server->connections, server->options.connections_max);
    bl_semaphore_init(&server->end, 0);
    int code = listen_on(server, error);
    if (code != 0) {
        bl_free(server);
        return code;
    }
    bl_nursery_init(&server->nursery, &nursery->scope);
    code = bl_nursery_spawn(nursery, NULL, "http server", run_server, server, NULL);
    if (code != 0) {
        bl_error_set(error, code, BL_KIND_RUNTIME, "listen", address, "%s", bl_error_text(code));
        bl_nursery_done(&server->nursery);
        server_socket_free(server->listener, false);
        bl_free(server);
        return code;
    }
    *ret_server = server;
    return 0;
}

uint16_t bl_http_server_port(const struct bl_http_server *server)
{
    return server->port;
}

void bl_http_server_stop(struct bl_http_server *server)
{
    struct bl_scope shield;

    if (server == NULL)
        return;
    if (!server->ended) {
        bl_scope_stop(&server->nursery.scope, BL_STOP_SHUTDOWN, "http server");
        bl_shield_begin(&shield, BL_NEVER);
        bl_semaphore_take(&server->end);
        bl_shield_end(&shield);
    }
    bl_free(server);
}
