/* A byte server on loopback, for tests of clients: it sends exactly the scripted bytes at the
 * scripted times, and misbehaves on demand. It runs in fibers of the test's own loop.
 *
 * A script is a list of acts for one connection. Connections take the scripts in order; the last
 * script serves all later connections. */
#ifndef BELAY_TESTS_PEER_H
#define BELAY_TESTS_PEER_H

#include <belay/wire.h>

#include "fibers.h"

struct peer_act {
    enum {
        PEER_END,          /* of the list: closes properly */
        PEER_READ_REQUEST, /* reads one whole request: headers, and the body by its length */
        PEER_READ_SOME,    /* one read of at most `number` bytes, then continues */
        PEER_SEND,         /* `bytes` in one write */
        PEER_SEND_DRIP,    /* `bytes`, `number` at a time, `pause_ns` between */
        PEER_SEND_ENDLESS, /* `bytes` again and again until the other end closes */
        PEER_SEND_REPEAT,  /* `bytes`, `number` times, `pause_ns` between */
        PEER_PAUSE,        /* `pause_ns` */
        PEER_SILENCE,      /* until the other end closes; reads nothing, like all acts but reads */
        PEER_RESET,        /* closes with a reset */
        PEER_CLOSE,        /* closes properly */
        PEER_AGAIN,        /* from the beginning of the list, on the same connection */
    } type;
    struct bl_text bytes;
    uint64_t number;
    uint64_t pause_ns;
};

struct peer_script {
    const struct peer_act *acts; /* ends in PEER_END */
};

struct peer;

/* Listens on 127.0.0.1 at a free port. The acts must outlive it. Without a script, it does not
 * accept connections and its queue is full from the start: connections hang half-open. */
struct peer *peer_start(struct bl_nursery *nursery, const struct peer_script *scripts,
                        size_t script_count);
uint16_t peer_port(const struct peer *peer);
/* Returns "http://127.0.0.1:PORT" followed by `path`. Static, valid until the next call. */
const char *peer_url(const struct peer *peer, const char *path);
/* Closes everything and waits for its fibers. Call it before its nursery is done. NULL is fine. */
void peer_stop(struct peer *peer);

unsigned peer_connections(const struct peer *peer); /* accepted so far */
unsigned peer_requests(const struct peer *peer);    /* read so far */
unsigned peer_open(const struct peer *peer);        /* not closed by the other end yet */
uint64_t peer_bytes(const struct peer *peer);       /* received, over all */
/* The time of the first of these bytes, by the loop's clock; 0: none. */
uint64_t peer_first_byte_ns(const struct peer *peer);
/* The time at which the other end last closed a connection, by the loop's clock; 0: never. */
uint64_t peer_closed_ns(const struct peer *peer);
/* Waits until no client is connected any more, at most `limit_ns`. */
int peer_await_closed(struct peer *peer, uint64_t limit_ns);
/* Request number `index` (from 0), head and body as received; empty if it was not read. */
struct bl_text peer_request(const struct peer *peer, unsigned index);
struct bl_text peer_request_body(const struct peer *peer, unsigned index);
/* Value of a header of that request; empty if there is none. */
struct bl_text peer_request_header(const struct peer *peer, unsigned index, const char *name);

/* Returns "HTTP/1.1 200 OK" with that type, and the body, for PEER_SEND: not chunked (the body ends
 * with the connection, unless a Content-Length is among `more_headers`). In `arena`. Type and more
 * headers may be NULL. */
struct bl_text peer_answer(struct bl_arena *arena, int status, const char *content_type,
                           const char *more_headers, struct bl_text body);
/* Return only the head of such an answer, with Transfer-Encoding: chunked; and one chunk (an empty
 * one is the last). */
struct bl_text peer_head(struct bl_arena *arena, int status, const char *content_type,
                         const char *more_headers);
struct bl_text peer_chunk(struct bl_arena *arena, struct bl_text bytes);

/* Number of open descriptors of this process. */
unsigned peer_descriptors(void);

#endif
