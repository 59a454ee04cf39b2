/* A server that speaks TLS and HTTP/2 in front of a peer: nghttpx, in a process of its own. */
#ifndef BELAY_TESTS_FRONT_H
#define BELAY_TESTS_FRONT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct front {
    char folder[64]; /* of its certificates */
    char bundle[96]; /* what to trust, to trust them */
    char url[64];
    uint16_t port;
    pid_t pid;
};

/* Whether this machine has nghttpx and openssl: a test without them is skipped. */
bool front_available(void);
/* Makes certificates (good.pem, and self.pem, expired.pem, other.pem, which are not), and removes
 * them. */
void front_certify(struct front *front);
void front_forget(const struct front *front);
/* In a fiber. Starts it before the peer at port `backend`, with one of those certificates, or NULL:
 * HTTP/2 in the clear. */
void front_start(struct front *front, const char *certificate, uint16_t backend);
void front_stop(struct front *front);

#endif
