/* Design notes. One mutex guards everything: the thread gives it up only to poll(2), so a call of
 * another thread changes a consistent state. Only the thread adds, closes and frees connections;
 * others mark them.
 *
 * A pair is a client's connection and the one to the server for it. Each end has the bytes of a
 * message that it has not sent completely (`input`), and a queue of messages to it, in order: the
 * first one that is held or delayed stops the rest. While a fault waits for a matching request, the
 * messages of an unfinished request are kept apart (`unfinished`). */
#ifndef BELAY_TESTS_POSTGRES_PAIR_H
#define BELAY_TESTS_POSTGRES_PAIR_H

#include <poll.h>
#include <pthread.h>

#include "pgproxy.h"
#include "server.h"

struct packet {
    struct packet *next;
    int64_t release_ms; /* not before */
    bool held;
    size_t size, sent;
    char bytes[];
};

struct packets {
    struct packet *first, *last;
    size_t size;
};

struct end {
    int fd;            /* -1: we have closed it */
    bool closed;       /* by the other side */
    size_t poll_index; /* 0: not polled */
    struct bl_buffer input;
    struct packets output;
};

struct pair {
    struct pair *next;
    struct end ends[2];
    bool started;     /* the client has sent its startup packet */
    bool established; /* the server was ready once */
    bool lost;        /* bytes were swallowed: it cannot continue */
    bool cut;         /* the client's connection is closed, and the server's has work left */
    bool dead;        /* to be removed */
    enum pg_fault_type fault;
    unsigned unanswered; /* requests, and the startup */
    struct packets unfinished;
};

struct pg_proxy {
    pthread_mutex_t lock;
    pthread_t thread;
    int listener, wake;
    uint16_t port, server_port;
    bool stopped;
    struct pair *pairs;
    size_t pair_count;
    struct pollfd *polled;
    size_t polled_capacity;

    struct pg_fault fault;
    char match[256];
    unsigned left; /* requests that the fault still affects, if it has a number */
    unsigned delay_ms;

    unsigned connections, hits;
    uint64_t messages[2][256];
};

/* True if the fault begins at once, and not with a request. */
bool pg_pair_fault_is_immediate(const struct pg_fault *fault);

/* Owns both descriptors. */
struct pair *pg_pair_new(const struct pg_proxy *proxy, int client, int server);
void pg_pair_free(struct pair *pair);
/* For other threads: both ends see the end of the connection now. */
void pg_pair_kill(struct pair *pair);
/* Reads some bytes of a side, and passes its complete messages on. */
void pg_pair_read(struct pg_proxy *proxy, struct pair *pair, enum pg_side from);
/* Sends the due packets. Returns when the next one is due, INT64_MAX if no time changes that. */
int64_t pg_pair_flush(struct pair *pair, enum pg_side to);
/* True when a side has closed, and all that can still reach the other one has been sent. */
bool pg_pair_is_over(const struct pair *pair);
/* Ends the fault of a pair. */
void pg_pair_recover(struct pg_proxy *proxy, struct pair *pair);

#endif
