/* The other end, in a process of its own: floods, or says one thing and holds the line. */
#ifndef BELAY_BENCH_WIRE_SERVER_H
#define BELAY_BENCH_WIRE_SERVER_H

#include <stdint.h>
#include <sys/types.h>

struct wire_server {
    pid_t pid;
    uint16_t port;
    int arrivals; /* of a server that tells: one time stamp (report_wall_ns) a request */
};

/* Answers each request with `events` events of `event`, as fast as they are taken, one connection
 * at a time. */
struct wire_server wire_server_flood(const char *event, unsigned events);
/* Answers each request with `event`, and then holds its connection open. */
struct wire_server wire_server_hold(const char *event);
/* Tells when the first bytes of a request came, and answers with `event` and the end. */
struct wire_server wire_server_tell(const char *event);
void wire_server_end(struct wire_server *server);

#endif
