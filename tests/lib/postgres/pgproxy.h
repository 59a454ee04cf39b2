/* A proxy between clients and a PostgreSQL server that knows the boundaries of the messages of
 * protocol version 3, and loses, holds and delays them on demand.
 *
 * It runs in a thread of the test. The functions may be called from any thread and any fiber, and
 * take effect before they return. It refuses TLS, as the test servers do.
 *
 * A request is all that a client sends up to a Sync, a simple query or a function call. */
#ifndef BELAY_TESTS_PGPROXY_H
#define BELAY_TESTS_PGPROXY_H

#include <stdbool.h>
#include <stdint.h>

enum pg_fault_type {
    PG_PASS, /* none: forwards everything */
    /* Drops the server's messages: the client waits for its answer. */
    PG_DROP,
    /* Drops the server's messages, and closes the client's connection at the first one. The
     * server's connection stays open until all requests that it has received are answered. */
    PG_DROP_AND_CUT,
    /* Holds back ReadyForQuery and what follows it; passes rows on. */
    PG_HOLD_READY,
    /* Holds back Sync and what follows it, and sends Flush instead: the client gets the rows of a
     * transaction that the server has not committed. Simple queries pass. */
    PG_HOLD_SYNC,
    /* Closes the client's connection when it has sent a request, and delivers that `late_ms` later.
     * Drops the answers. */
    PG_CUT_AND_DELIVER,
    /* Swallows all bytes of both sides, and hides from each that the other one closes. Accepts new
     * connections, and swallows theirs. */
    PG_HALF_OPEN,
    /* Closes new connections at once. Open ones continue. */
    PG_REFUSE,
};

struct pg_fault {
    enum pg_fault_type type;
    unsigned late_ms;
    /* With a number or with `match`, the fault begins with a request, affects the connection of that
     * request alone, and ends after that number of requests; 0: it does not end. Without both it
     * affects all connections, open and new ones, at once. PG_HOLD_SYNC and PG_CUT_AND_DELIVER
     * begin with a request in any case. Connections that are being opened have no requests. */
    unsigned times;
    /* Only requests with a message that contains this text: of SQL, or of a parameter. */
    const char *match;
};

enum pg_side {
    PG_CLIENT,
    PG_SERVER,
};

struct pg_proxy;

/* Listens at a free port of 127.0.0.1, and connects to `server_port` there for each client. NULL:
 * it cannot. */
struct pg_proxy *pg_proxy_start(uint16_t server_port);
/* Closes all connections. NULL is fine. */
void pg_proxy_stop(struct pg_proxy *proxy);
uint16_t pg_proxy_port(const struct pg_proxy *proxy);

/* Replaces the fault; NULL: none. Messages that were held back are delivered. Connections that lost
 * bytes to PG_DROP or PG_HALF_OPEN are closed, as they cannot continue. Late deliveries remain. */
void pg_proxy_fault(struct pg_proxy *proxy, const struct pg_fault *fault);
/* Messages that arrive from now on are delivered that much later, in both directions. */
void pg_proxy_delay(struct pg_proxy *proxy, unsigned delay_ms);
/* Closes all connections on both sides, with everything held back or delayed. */
void pg_proxy_cut(struct pg_proxy *proxy);

unsigned pg_proxy_connections(struct pg_proxy *proxy); /* accepted so far */
unsigned pg_proxy_open(struct pg_proxy *proxy);        /* clients connected now */
unsigned pg_proxy_hits(struct pg_proxy *proxy);        /* requests that a fault began with */
/* Number of messages that `side` has sent, by their type byte ('Q', 'S', 'Z'...). 0: the packets
 * before the first message of a client. Swallowed bytes are not counted. */
uint64_t pg_proxy_messages(struct pg_proxy *proxy, enum pg_side side, char type);

#endif
