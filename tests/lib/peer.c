#include "peer.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT_MAX   ((size_t)80 * 1024 * 1024)
#define READ_SIZE   ((size_t)64 * 1024)
#define FILLERS_MAX 64

/* One request as it was received. */
struct peer_record {
    char *bytes;
    size_t size;
    size_t head_size; /* with its blank line */
};

struct peer {
    struct bl_nursery nursery; /* of the connections */
    bool ended;
    struct bl_semaphore end;
    struct bl_semaphore quiet; /* for fibers that wait until no client is connected */
    unsigned waiting_for_quiet;
    int fd;
    uint16_t port;
    const struct peer_script *scripts;
    size_t script_count;
    int fillers[FILLERS_MAX]; /* our own connections that fill the queue of one that never accepts
                               */
    unsigned filler_count;
    unsigned connections;
    unsigned open;
    uint64_t bytes;
    uint64_t first_byte_ns;
    uint64_t closed_ns;
    struct peer_record *requests;
    unsigned request_count;
    unsigned request_capacity;
};

struct peer_connection {
    struct peer *peer;
    int fd;
    struct bl_descriptor *descriptor;
    const struct peer_act *acts;
    struct bl_buffer input; /* read, but not part of a request yet */
    bool gone;              /* the other end has closed */
};

/* ---- The full queue -------------------------------------------------------------------------- */

static struct sockaddr_in address_of(const struct peer *peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(peer->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static bool connected(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state == TCP_ESTABLISHED;
}

/* Connects to itself until a connection hangs: later ones will hang too. */
static void fill_queue(struct peer *peer)
{
    struct sockaddr_in address = address_of(peer);

    while (peer->filler_count < FILLERS_MAX) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return;
        peer->fillers[peer->filler_count++] = fd;
        if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS)
            return;
        if (!connected(fd))
            return;
    }
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Records that the other end has closed. Every act returns 0 to continue, BL_ECLOSED if the other
 * end has closed, or the code of a stop. */
static int note_gone(struct peer_connection *connection)
{
    struct peer *peer = connection->peer;

    if (!connection->gone) {
        connection->gone = true;
        peer->closed_ns = bl_now_ns();
        peer->open--;
    }
    while (peer->open == 0 && peer->waiting_for_quiet > 0) {
        peer->waiting_for_quiet--;
        bl_semaphore_give(&peer->quiet);
    }
    return BL_ECLOSED;
}

static int read_some(struct peer_connection *connection, size_t size)
{
    size_t count = 0;

    if (bl_buffer_reserve(&connection->input, size) != 0)
        return BL_ELIMIT;
    int code = bl_descriptor_read(connection->descriptor,
                                  connection->input.data + connection->input.size, size, &count);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    if (code != 0 || count == 0)
        return note_gone(connection);
    connection->input.size += count;
    if (connection->peer->bytes == 0 && count > 0)
        connection->peer->first_byte_ns = bl_now_ns();
    connection->peer->bytes += count;
    return 0;
}

static int send_all(struct peer_connection *connection, struct bl_text bytes)
{
    size_t sent = 0;

    while (sent < bytes.size) {
        ssize_t count = send(connection->fd, bytes.data + sent, bytes.size - sent, MSG_NOSIGNAL);
        if (count >= 0) {
            sent += (size_t)count;
        } else if (errno == EAGAIN) {
            unsigned events = 0;
            int code = bl_descriptor_wait(connection->descriptor, BL_WRITABLE | BL_HANGUP, &events);
            if (code != 0)
                return code;
            if ((events & BL_HANGUP) != 0)
                return note_gone(connection);
        } else if (errno != EINTR) {
            return note_gone(connection);
        }
    }
    return 0;
}

/* Waits until the time is over (0) or the other end has closed. Reads nothing, so that a sender
 * stays blocked. */
static int wait_closed(struct peer_connection *connection, uint64_t limit_ns)
{
    struct bl_scope scope;

    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_time_add(bl_now_ns(), limit_ns));
    struct bl_scope *before = bl_scope_enter(&scope);
    int code = bl_descriptor_wait(connection->descriptor, BL_HANGUP, NULL);
    bl_scope_enter(before);
    bl_scope_done(&scope);
    if (code == 0)
        return note_gone(connection);
    return bl_check();
}

/* ---- Requests -------------------------------------------------------------------------------- */

static struct bl_text header_in(struct bl_text head, const char *name)
{
    struct bl_text rest = head, line;
    size_t name_size = strlen(name);

    while (bl_text_split(&rest, '\n', &line)) {
        if (line.size > name_size && line.data[name_size] == ':' &&
            strncasecmp(line.data, name, name_size) == 0)
            return bl_text_trim(
                (struct bl_text){line.data + name_size + 1, line.size - name_size - 1});
    }
    return (struct bl_text){NULL, 0};
}

static void record_request(struct peer *peer, struct bl_text request, size_t head_size)
{
    if (peer->request_count == peer->request_capacity) {
        peer->request_capacity = peer->request_capacity == 0 ? 16 : peer->request_capacity * 2;
        peer->requests =
            bl_realloc(peer->requests, peer->request_capacity * sizeof *peer->requests);
    }
    char *bytes = bl_alloc(request.size + 1);
    memcpy(bytes, request.data, request.size);
    bytes[request.size] = '\0';
    peer->requests[peer->request_count++] = (struct peer_record){bytes, request.size, head_size};
}

static int read_request(struct peer_connection *connection)
{
    ptrdiff_t end;
    size_t searched = 0;

    for (;;) {
        struct bl_text all = bl_buffer_text(&connection->input);
        struct bl_text fresh = {all.data + searched, all.size - searched};
        end = bl_text_find(fresh, BL_TEXT("\r\n\r\n"));
        if (end >= 0)
            break;
        searched = all.size > 3 ? all.size - 3 : 0;
        int code = read_some(connection, READ_SIZE);
        if (code != 0)
            return code;
    }
    size_t head_size = searched + (size_t)end + 4;
    int64_t length = 0;
    struct bl_text head = {connection->input.data, head_size};
    bl_text_to_int64(header_in(head, "content-length"), &length);
    size_t size = head_size + (length > 0 ? (size_t)length : 0);
    while (connection->input.size < size) {
        int code = read_some(connection, READ_SIZE);
        if (code != 0)
            return code;
    }
    record_request(connection->peer, (struct bl_text){connection->input.data, size}, head_size);
    bl_buffer_consume(&connection->input, size);
    return 0;
}

/* ---- Acts ------------------------------------------------------------------------------------ */

static int send_in_pieces(struct peer_connection *connection, const struct peer_act *act)
{
    size_t step = act->number > 0 ? (size_t)act->number : 1;
    int code = 0;

    for (size_t at = 0; code == 0 && at < act->bytes.size; at += step) {
        if (at > 0 && act->pause_ns > 0)
            code = wait_closed(connection, act->pause_ns);
        size_t left = act->bytes.size - at;
        struct bl_text piece = {act->bytes.data + at, left < step ? left : step};
        if (code == 0)
            code = send_all(connection, piece);
    }
    return code;
}

static int send_often(struct peer_connection *connection, const struct peer_act *act,
                      uint64_t times)
{
    int code = 0;

    for (uint64_t i = 0; code == 0 && i < times; i++) {
        if (i > 0 && act->pause_ns > 0)
            code = wait_closed(connection, act->pause_ns);
        if (code == 0)
            code = send_all(connection, act->bytes);
    }
    return code;
}

static void reset_on_close(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

/* Performs one act. BL_ECLOSED: this connection is over. */
static int perform(struct peer_connection *connection, const struct peer_act *act)
{
    switch (act->type) {
    case PEER_READ_REQUEST: return read_request(connection);
    case PEER_READ_SOME: return read_some(connection, act->number > 0 ? (size_t)act->number : 1);
    case PEER_SEND: return send_all(connection, act->bytes);
    case PEER_SEND_DRIP: return send_in_pieces(connection, act);
    case PEER_SEND_ENDLESS: return send_often(connection, act, UINT64_MAX);
    case PEER_SEND_REPEAT: return send_often(connection, act, act->number);
    case PEER_PAUSE: return wait_closed(connection, act->pause_ns);
    case PEER_SILENCE: return wait_closed(connection, BL_NEVER);
    case PEER_RESET: reset_on_close(connection->fd); return BL_ECLOSED;
    case PEER_END:
    case PEER_CLOSE: return BL_ECLOSED;
    case PEER_AGAIN: return bl_yield();
    }
    return BL_EINVAL;
}

/* Reads the remaining bytes: a close with unread bytes would be a reset. */
static void drain(int fd)
{
    char junk[4096];

    shutdown(fd, SHUT_WR);
    while (recv(fd, junk, sizeof junk, MSG_DONTWAIT) > 0)
        ;
}

static void close_connection(struct peer_connection *connection, bool reset)
{
    struct peer *peer = connection->peer;

    if (!reset)
        drain(connection->fd);
    bl_descriptor_free(connection->descriptor);
    close(connection->fd);
    if (!connection->gone) {
        /* This close is the server's, not the other end's. */
        uint64_t closed_ns = peer->closed_ns;
        note_gone(connection);
        peer->closed_ns = closed_ns;
    }
    bl_buffer_done(&connection->input);
    bl_free(connection);
}

static int serve_connection(void *argument)
{
    struct peer_connection *connection = argument;
    const struct peer_act *act = connection->acts;

    while (perform(connection, act) == 0)
        act = act->type == PEER_AGAIN ? connection->acts : act + 1;
    close_connection(connection, act->type == PEER_RESET);
    return 0;
}

/* ---- The server ------------------------------------------------------------------------------ */

static void take_connection(struct peer *peer, int fd)
{
    struct peer_connection *connection = bl_zalloc(sizeof *connection);
    size_t script =
        peer->connections < peer->script_count ? peer->connections : peer->script_count - 1;
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->peer = peer;
    connection->fd = fd;
    connection->acts = peer->scripts[script].acts;
    bl_buffer_init(&connection->input, INPUT_MAX);
    if (bl_descriptor_new(fd, &connection->descriptor) != 0) {
        close(fd);
        bl_free(connection);
        return;
    }
    peer->connections++;
    peer->open++;
    if (bl_nursery_spawn(&peer->nursery, NULL, "peer connection", serve_connection, connection,
                         NULL) != 0)
        close_connection(connection, false);
}

static void accept_until_stopped(struct peer *peer)
{
    struct bl_descriptor *listener;

    if (bl_descriptor_new(peer->fd, &listener) != 0)
        return;
    int code = 0;
    while (code == 0) {
        int fd = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            take_connection(peer, fd);
        else if (errno == EAGAIN)
            code = bl_descriptor_wait(listener, BL_READABLE, NULL);
        else if (errno != EINTR && errno != ECONNABORTED)
            code = bl_sleep(BL_NS_PER_MS); /* out of descriptors, for example */
    }
    bl_descriptor_free(listener);
}

static int serve(void *argument)
{
    struct peer *peer = argument;
    struct bl_scope *before = bl_scope_enter(&peer->nursery.scope);

    if (peer->script_count > 0)
        accept_until_stopped(peer);
    else
        bl_sleep_until(BL_NEVER);
    bl_scope_enter(before);
    close(peer->fd);
    for (unsigned i = 0; i < peer->filler_count; i++)
        close(peer->fillers[i]);
    bl_nursery_done(&peer->nursery);
    peer->ended = true;
    bl_semaphore_give(&peer->end);
    return 0;
}

static bool listen_on_loopback(struct peer *peer)
{
    struct sockaddr_in address = address_of(peer);
    socklen_t size = sizeof address;

    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (peer->fd < 0)
        return false;
    int backlog = peer->script_count > 0 ? 4096 : 0;
    if (bind(peer->fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(peer->fd, backlog) < 0 ||
        getsockname(peer->fd, (struct sockaddr *)&address, &size) < 0) {
        close(peer->fd);
        return false;
    }
    peer->port = ntohs(address.sin_port);
    return true;
}

struct peer *peer_start(struct bl_nursery *nursery, const struct peer_script *scripts,
                        size_t script_count)
{
    struct peer *peer = bl_zalloc(sizeof *peer);

    peer->scripts = scripts;
    peer->script_count = script_count;
    bl_semaphore_init(&peer->end, 0);
    bl_semaphore_init(&peer->quiet, 0);
    if (!CHECK(listen_on_loopback(peer))) {
        bl_free(peer);
        return NULL;
    }
    if (script_count == 0)
        fill_queue(peer);
    bl_nursery_init(&peer->nursery, &nursery->scope);
    if (!CHECK_EQUAL(bl_nursery_spawn(nursery, NULL, "peer", serve, peer, NULL), 0)) {
        bl_nursery_done(&peer->nursery);
        close(peer->fd);
        bl_free(peer);
        return NULL;
    }
    return peer;
}

void peer_stop(struct peer *peer)
{
    struct bl_scope shield;

    if (peer == NULL)
        return;
    if (!peer->ended) {
        bl_scope_stop(&peer->nursery.scope, BL_STOP_SHUTDOWN, "peer_stop");
        bl_shield_begin(&shield, BL_NEVER / 2);
        bl_semaphore_take(&peer->end);
        bl_shield_end(&shield);
    }
    for (unsigned i = 0; i < peer->request_count; i++)
        bl_free(peer->requests[i].bytes);
    bl_free(peer->requests);
    bl_free(peer);
}

/* ---- Observations ---------------------------------------------------------------------------- */

uint16_t peer_port(const struct peer *peer)
{
    return peer->port;
}

const char *peer_url(const struct peer *peer, const char *path)
{
    static char url[1024];
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", peer->port, path);
    return url;
}

unsigned peer_connections(const struct peer *peer)
{
    return peer->connections;
}

unsigned peer_requests(const struct peer *peer)
{
    return peer->request_count;
}

unsigned peer_open(const struct peer *peer)
{
    return peer->open;
}

uint64_t peer_bytes(const struct peer *peer)
{
    return peer->bytes;
}

uint64_t peer_first_byte_ns(const struct peer *peer)
{
    return peer->first_byte_ns;
}

uint64_t peer_closed_ns(const struct peer *peer)
{
    return peer->closed_ns;
}

int peer_await_closed(struct peer *peer, uint64_t limit_ns)
{
    struct bl_scope scope;
    int code = 0;

    if (peer->open == 0)
        return 0;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_time_add(bl_now_ns(), limit_ns));
    struct bl_scope *before = bl_scope_enter(&scope);
    while (code == 0 && peer->open > 0) {
        peer->waiting_for_quiet++;
        code = bl_semaphore_take(&peer->quiet);
        if (code != 0)
            peer->waiting_for_quiet--;
    }
    bl_scope_enter(before);
    bl_scope_done(&scope);
    return code;
}

struct bl_text peer_request(const struct peer *peer, unsigned index)
{
    if (index >= peer->request_count)
        return (struct bl_text){NULL, 0};
    return (struct bl_text){peer->requests[index].bytes, peer->requests[index].size};
}

struct bl_text peer_request_body(const struct peer *peer, unsigned index)
{
    if (index >= peer->request_count)
        return (struct bl_text){NULL, 0};
    const struct peer_record *record = &peer->requests[index];
    return (struct bl_text){record->bytes + record->head_size, record->size - record->head_size};
}

struct bl_text peer_request_header(const struct peer *peer, unsigned index, const char *name)
{
    if (index >= peer->request_count)
        return (struct bl_text){NULL, 0};
    const struct peer_record *record = &peer->requests[index];
    return header_in((struct bl_text){record->bytes, record->head_size}, name);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static struct bl_text make_head(struct bl_arena *arena, int status, const char *content_type,
                                const char *framing, const char *more_headers)
{
    const char *more = more_headers != NULL ? more_headers : "";
    size_t size = strlen(more);
    const char *end = size > 0 && more[size - 1] != '\n' ? "\r\n" : "";

    if (content_type == NULL)
        return bl_arena_printf(arena, "HTTP/1.1 %d %s\r\n%s%s%s\r\n", status,
                               status == 200 ? "OK" : "Status", framing, more, end);
    return bl_arena_printf(arena, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s%s%s\r\n", status,
                           status == 200 ? "OK" : "Status", content_type, framing, more, end);
}

struct bl_text peer_answer(struct bl_arena *arena, int status, const char *content_type,
                           const char *more_headers, struct bl_text body)
{
    bool measured = more_headers != NULL && strcasestr(more_headers, "content-length:") != NULL;
    struct bl_text head = make_head(arena, status, content_type,
                                    measured ? "" : "Connection: close\r\n", more_headers);
    char *all = bl_arena_alloc(arena, head.size + body.size + 1);

    memcpy(all, head.data, head.size);
    if (body.size > 0)
        memcpy(all + head.size, body.data, body.size);
    all[head.size + body.size] = '\0';
    return (struct bl_text){all, head.size + body.size};
}

struct bl_text peer_head(struct bl_arena *arena, int status, const char *content_type,
                         const char *more_headers)
{
    return make_head(arena, status, content_type, "Transfer-Encoding: chunked\r\n", more_headers);
}

struct bl_text peer_chunk(struct bl_arena *arena, struct bl_text bytes)
{
    char *all = bl_arena_alloc(arena, bytes.size + 32);
    int head = snprintf(all, 24, "%zx\r\n", bytes.size);
    size_t size = (size_t)head;

    if (bytes.size > 0)
        memcpy(all + size, bytes.data, bytes.size);
    size += bytes.size;
    memcpy(all + size, "\r\n", 3);
    return (struct bl_text){all, size + 2};
}

unsigned peer_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    if (folder == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* without the folder itself */
}
