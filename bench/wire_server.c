#include "wire_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

static const char finish[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: [DONE]\n\n";
static const char head[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

static int listen_somewhere(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 4096) != 0)
        report_die("cannot listen on loopback");
    getsockname(fd, (struct sockaddr *)&address, &size);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* Reads a request with its body: unread bytes would turn our close into a reset. */
static void read_request(int fd)
{
    char bytes[16384];
    size_t size = 0, wanted = sizeof bytes - 1;
    ssize_t count;

    while (size < wanted && (count = read(fd, bytes + size, wanted - size)) > 0) {
        size += (size_t)count;
        bytes[size] = '\0';
        const char *end = strstr(bytes, "\r\n\r\n");
        const char *length = strcasestr(bytes, "content-length:");
        if (end != NULL)
            wanted =
                (size_t)(end + 4 - bytes) +
                (length != NULL ? strtoul(length + sizeof "content-length:" - 1, NULL, 10) : 0);
    }
}

static void write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t count = write(fd, bytes, size);
        if (count <= 0)
            return;
        bytes += count;
        size -= (size_t)count;
    }
}

static void flood(int listener, const char *event, unsigned events)
{
    size_t size = strlen(event), per_block = 65536 / size;
    char *block = malloc(per_block * size);

    for (size_t i = 0; block != NULL && i < per_block; i++)
        memcpy(block + i * size, event, size);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        read_request(fd);
        write_all(fd, head, sizeof head - 1);
        for (unsigned left = events; left > 0;) {
            size_t count = left < per_block ? left : per_block;
            write_all(fd, block, count * size);
            left -= (unsigned)count;
        }
        write_all(fd, finish, sizeof finish - 1);
        close(fd);
    }
}

/* Sends the event to clients that have sent a request, and closes the connections of clients that
 * have closed. */
static void hold(int listener, const char *event)
{
    struct epoll_event events[256], watch = {.events = EPOLLIN, .data.fd = listener};
    int poll = epoll_create1(EPOLL_CLOEXEC);

    fcntl(listener, F_SETFL, O_NONBLOCK);
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &watch);
    for (;;) {
        int count = epoll_wait(poll, events, 256, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            char bytes[16384];
            if (fd == listener) {
                while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    watch = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &watch);
                }
                continue;
            }
            ssize_t size = read(fd, bytes, sizeof bytes);
            if (size > 0) {
                write_all(fd, head, sizeof head - 1);
                write_all(fd, event, strlen(event));
            } else if (size == 0 || errno != EAGAIN) {
                close(fd);
            }
        }
    }
}

static void tell(int listener, const char *event, int arrivals)
{
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        read_request(fd);
        double now = report_wall_ns();
        write_all(arrivals, (const char *)&now, sizeof now);
        write_all(fd, head, sizeof head - 1);
        write_all(fd, event, strlen(event));
        write_all(fd, finish, sizeof finish - 1);
        close(fd);
    }
}

enum manner {
    FLOOD,
    HOLD,
    TELL
};

static struct wire_server start(enum manner manner, const char *event, unsigned events)
{
    struct wire_server server = {0};
    int listener = listen_somewhere(&server.port);
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        report_die("no pipe");
    server.pid = fork();
    if (server.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_IGN);
        if (manner == FLOOD)
            flood(listener, event, events);
        else if (manner == HOLD)
            hold(listener, event);
        else
            tell(listener, event, ends[1]);
        _exit(0);
    }
    close(listener);
    close(ends[1]);
    server.arrivals = ends[0];
    return server;
}

struct wire_server wire_server_flood(const char *event, unsigned events)
{
    return start(FLOOD, event, events);
}

struct wire_server wire_server_hold(const char *event)
{
    return start(HOLD, event, 0);
}

struct wire_server wire_server_tell(const char *event)
{
    return start(TELL, event, 0);
}

void wire_server_end(struct wire_server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    close(server->arrivals);
}
