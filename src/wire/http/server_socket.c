#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

static void server_socket_watch(struct server_socket *socket, int events);

static void hang_up(struct server_socket *socket)
{
    if (socket->served != NULL)
        bl_scope_stop(socket->served, BL_STOP_CLIENT_GONE, "connection");
}

static void server_socket_wake(struct server_socket *socket)
{
    if (socket->wanted == 0)
        return;
    socket->wanted = 0;
    bl_semaphore_give(&socket->ready);
}

/* Events are level-triggered: an event that no fiber waits for is disabled, or it would fire at
 * every turn. */
static void server_socket_ready(uv_poll_t *poll, int status, int events)
{
    struct server_socket *socket = poll->data;

    if (status < 0) {
        /* libuv has disabled it. The next system call reports the error. */
        socket->watched = 0;
        hang_up(socket);
        server_socket_wake(socket);
        return;
    }
    if ((events & UV_DISCONNECT) != 0)
        hang_up(socket);
    int waited_for = socket->wanted;
    if ((events & waited_for) != 0)
        server_socket_wake(socket);
    server_socket_watch(socket, socket->watched & ~(events & ~(waited_for & UV_READABLE)));
}

static void server_socket_watch(struct server_socket *socket, int events)
{
    if (events == socket->watched)
        return;
    socket->watched = events;
    if (events == 0)
        uv_poll_stop(&socket->poll);
    else
        uv_poll_start(&socket->poll, events, server_socket_ready);
}

int server_socket_new(int fd, struct server_socket **ret_socket)
{
    struct server_socket *socket = bl_zalloc(sizeof *socket);
    int status = uv_poll_init(bl_loop_uv(bl_loop_current()), &socket->poll, fd);

    if (status < 0) {
        close(fd);
        bl_free(socket);
        return bl_error_from_errno(status);
    }
    socket->fd = fd;
    socket->poll.data = socket;
    bl_semaphore_init(&socket->ready, 0);
    *ret_socket = socket;
    return 0;
}

static void server_socket_free_closed(uv_handle_t *handle)
{
    bl_free(handle->data);
}

void server_socket_free(struct server_socket *socket, bool reset)
{
    if (socket == NULL)
        return;
    uv_close((uv_handle_t *)&socket->poll, server_socket_free_closed);
    if (reset) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(socket->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    close(socket->fd);
}

void server_socket_serve(struct server_socket *socket, struct bl_scope *scope)
{
    socket->served = scope;
    if (scope == NULL)
        return;
    server_socket_watch(socket, socket->watched | UV_DISCONNECT);
}

static int server_socket_wait_for(struct server_socket *socket, int event)
{
    int code = bl_check();
    if (code != 0)
        return code;
    /* A token given at the same time as a stop would be left over. */
    bl_semaphore_init(&socket->ready, 0);
    socket->wanted = event;
    int hang_ups = socket->served != NULL ? UV_DISCONNECT : 0;
    server_socket_watch(socket, (socket->watched & ~UV_WRITABLE) | event | hang_ups);
    code = bl_semaphore_take(&socket->ready);
    socket->wanted = 0;
    return code;
}

int server_socket_wait(struct server_socket *socket)
{
    return server_socket_wait_for(socket, UV_READABLE);
}

int server_socket_read(struct server_socket *socket, void *data, size_t size, size_t *ret_size)
{
    int code = bl_check();

    while (code == 0) {
        ssize_t count = recv(socket->fd, data, size, 0);
        if (count >= 0) {
            *ret_size = (size_t)count;
            return 0;
        }
        if (errno == EAGAIN)
            code = server_socket_wait_for(socket, UV_READABLE);
        else if (errno != EINTR)
            code = bl_error_from_errno(errno);
    }
    return code;
}

/* Removes `size` bytes from the front of the vector. */
static void advance(struct msghdr *message, size_t size)
{
    while (message->msg_iovlen > 0 && size >= message->msg_iov->iov_len) {
        size -= message->msg_iov->iov_len;
        message->msg_iov++;
        message->msg_iovlen--;
    }
    if (message->msg_iovlen > 0) {
        message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + size;
        message->msg_iov->iov_len -= size;
    }
}

int server_socket_write(struct server_socket *socket, struct iovec *parts, int count,
                        bool *ret_begun)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    int code = bl_check();

    advance(&message, 0);
    while (code == 0 && message.msg_iovlen > 0) {
        ssize_t sent = sendmsg(socket->fd, &message, MSG_NOSIGNAL);
        if (sent >= 0) {
            advance(&message, (size_t)sent);
            if (ret_begun != NULL && sent > 0)
                *ret_begun = true;
        } else if (errno == EAGAIN) {
            code = server_socket_wait_for(socket, UV_WRITABLE);
        } else if (errno != EINTR) {
            hang_up(socket);
            code = BL_EPIPE;
        }
    }
    return code;
}
