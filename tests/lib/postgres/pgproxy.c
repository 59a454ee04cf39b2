#include "pgproxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"

#define QUEUE_MAX ((size_t)4 * 1024 * 1024) /* then the other end is not read */

/* ---- The thread ------------------------------------------------------------------------------ */

static int proxy_connect(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0 &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static void proxy_accept(struct pg_proxy *proxy)
{
    int on = 1, client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (client < 0)
        return;
    proxy->connections++;
    int server = proxy->fault.type != PG_REFUSE ? proxy_connect(proxy->server_port) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct pair *pair = pg_pair_new(proxy, client, server);
    pair->next = proxy->pairs;
    proxy->pairs = pair;
    proxy->pair_count++;
}

static void proxy_poll_end(struct pg_proxy *proxy, struct pair *pair, enum pg_side side,
                           bool has_due, size_t *count)
{
    struct end *end = &pair->ends[side];
    const struct end *other = &pair->ends[1 - side];
    short events = 0;

    end->poll_index = 0;
    if (end->fd < 0 || end->closed)
        return;
    if (other->output.size < QUEUE_MAX || pair->cut || pair->fault == PG_HALF_OPEN)
        events |= POLLIN;
    if (has_due)
        events |= POLLOUT;
    if (events == 0)
        return;
    end->poll_index = *count;
    proxy->polled[(*count)++] = (struct pollfd){.fd = end->fd, .events = events};
}

/* Sends what is due, removes what is over, and lists what to poll. Returns the time limit. */
static int proxy_prepare(struct pg_proxy *proxy, size_t *ret_count)
{
    int64_t next_ms = INT64_MAX, now_ms = pg_now_ms();
    size_t count = 2;

    if (proxy->polled_capacity < 2 + 2 * proxy->pair_count) {
        proxy->polled_capacity = 2 * (2 + 2 * proxy->pair_count);
        proxy->polled = bl_realloc(proxy->polled, proxy->polled_capacity * sizeof *proxy->polled);
    }
    proxy->polled[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    proxy->polled[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    for (struct pair **at = &proxy->pairs; *at != NULL;) {
        struct pair *pair = *at;
        bool due[2];
        for (enum pg_side side = PG_CLIENT; side <= PG_SERVER; side++) {
            int64_t more_ms = pair->dead ? INT64_MAX : pg_pair_flush(pair, side);
            const struct packet *first = pair->ends[side].output.first;
            due[side] = first != NULL && !first->held && first->release_ms <= now_ms;
            next_ms = more_ms < next_ms ? more_ms : next_ms;
        }
        if (pg_pair_is_over(pair)) {
            *at = pair->next;
            proxy->pair_count--;
            pg_pair_free(pair);
            continue;
        }
        for (enum pg_side side = PG_CLIENT; side <= PG_SERVER; side++)
            proxy_poll_end(proxy, pair, side, due[side], &count);
        at = &pair->next;
    }
    *ret_count = count;
    if (next_ms == INT64_MAX)
        return -1;
    return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

static void *proxy_main(void *argument)
{
    struct pg_proxy *proxy = argument;

    pthread_mutex_lock(&proxy->lock);
    while (!proxy->stopped) {
        size_t count;
        uint64_t wakes;
        int timeout_ms = proxy_prepare(proxy, &count);
        pthread_mutex_unlock(&proxy->lock);
        poll(proxy->polled, count, timeout_ms);
        pthread_mutex_lock(&proxy->lock);
        if (proxy->polled[0].revents != 0 && read(proxy->wake, &wakes, sizeof wakes) < 0)
            continue;
        for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
            for (enum pg_side side = PG_CLIENT; side <= PG_SERVER; side++) {
                size_t index = pair->ends[side].poll_index;
                if (index > 0 && !pair->dead &&
                    (proxy->polled[index].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
                    pg_pair_read(proxy, pair, side);
            }
        }
        if (proxy->polled[1].revents != 0)
            proxy_accept(proxy);
    }
    pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

/* ---- For tests ------------------------------------------------------------------------------- */

static bool proxy_listen(struct pg_proxy *proxy)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (proxy->listener < 0 || proxy->wake < 0 ||
        bind(proxy->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(proxy->listener, 4096) < 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &size) < 0)
        return false;
    proxy->port = ntohs(address.sin_port);
    return true;
}

static bool proxy_spawn(struct pg_proxy *proxy)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&proxy->thread, NULL, proxy_main, proxy) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void proxy_free(struct pg_proxy *proxy)
{
    while (proxy->pairs != NULL) {
        struct pair *next = proxy->pairs->next;
        pg_pair_free(proxy->pairs);
        proxy->pairs = next;
    }
    if (proxy->listener >= 0)
        close(proxy->listener);
    if (proxy->wake >= 0)
        close(proxy->wake);
    pthread_mutex_destroy(&proxy->lock);
    bl_free(proxy->polled);
    bl_free(proxy);
}

struct pg_proxy *pg_proxy_start(uint16_t server_port)
{
    struct pg_proxy *proxy = bl_zalloc(sizeof *proxy);

    proxy->server_port = server_port;
    pthread_mutex_init(&proxy->lock, NULL);
    if (proxy_listen(proxy) && proxy_spawn(proxy))
        return proxy;
    perror("no proxy");
    proxy_free(proxy);
    return NULL;
}

/* After a change by another thread. */
static void proxy_unlock(struct pg_proxy *proxy)
{
    uint64_t one = 1;

    if (write(proxy->wake, &one, sizeof one) < 0)
        perror("eventfd");
    pthread_mutex_unlock(&proxy->lock);
}

void pg_proxy_stop(struct pg_proxy *proxy)
{
    if (proxy == NULL)
        return;
    pthread_mutex_lock(&proxy->lock);
    proxy->stopped = true;
    proxy_unlock(proxy);
    pthread_join(proxy->thread, NULL);
    proxy_free(proxy);
}

uint16_t pg_proxy_port(const struct pg_proxy *proxy)
{
    return proxy->port;
}

void pg_proxy_fault(struct pg_proxy *proxy, const struct pg_fault *fault)
{
    static const struct pg_fault none;

    pthread_mutex_lock(&proxy->lock);
    for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next)
        pg_pair_recover(proxy, pair);
    proxy->fault = fault != NULL ? *fault : none;
    proxy->left = proxy->fault.times;
    bl_text_into(proxy->match, sizeof proxy->match, proxy->fault.match);
    if (proxy->fault.match != NULL)
        proxy->fault.match = proxy->match;
    if (pg_pair_fault_is_immediate(&proxy->fault)) {
        for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
            if (!pair->cut)
                pair->fault = proxy->fault.type;
        }
    }
    proxy_unlock(proxy);
}

void pg_proxy_delay(struct pg_proxy *proxy, unsigned delay_ms)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->delay_ms = delay_ms;
    proxy_unlock(proxy);
}

void pg_proxy_cut(struct pg_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next)
        pg_pair_kill(pair);
    proxy_unlock(proxy);
}

unsigned pg_proxy_connections(struct pg_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    unsigned count = proxy->connections;
    pthread_mutex_unlock(&proxy->lock);
    return count;
}

unsigned pg_proxy_open(struct pg_proxy *proxy)
{
    unsigned count = 0;

    pthread_mutex_lock(&proxy->lock);
    for (const struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next)
        count += !pair->dead && pair->ends[PG_CLIENT].fd >= 0 && !pair->ends[PG_CLIENT].closed;
    pthread_mutex_unlock(&proxy->lock);
    return count;
}

unsigned pg_proxy_hits(struct pg_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    unsigned count = proxy->hits;
    pthread_mutex_unlock(&proxy->lock);
    return count;
}

uint64_t pg_proxy_messages(struct pg_proxy *proxy, enum pg_side side, char type)
{
    pthread_mutex_lock(&proxy->lock);
    uint64_t count = proxy->messages[side][(unsigned char)type];
    pthread_mutex_unlock(&proxy->lock);
    return count;
}
