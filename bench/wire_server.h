/* The server for the benchmark, in a separate process: it floods the client, or sends one event and
 * holds the connection open. */
#ifndef BELAY_BENCH_WIRE_SERVER_H
#define BELAY_BENCH_WIRE_SERVER_H

#include <stdint.h>
#include <sys/types.h>

struct wire_server {
    pid_t pid;
    uint16_t port;
    int arrivals; /* of wire_server_tell: one time stamp (report_wall_ns) per request */
};

/* Answers each request with `event`, repeated `events` times, as fast as the client reads; one
 * connection at a time. */
struct wire_server wire_server_flood(const char *event, unsigned events);
/* Answers each request with `event`, and then holds its connection open. */
struct wire_server wire_server_hold(const char *event);
/* Reports when the first bytes of a request arrived, answers with `event`, and closes. */
struct wire_server wire_server_tell(const char *event);
void wire_server_end(struct wire_server *server);

#endif
