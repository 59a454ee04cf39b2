/* A proxy with TLS and HTTP/2 in front of a peer: nghttpx, in a separate process. */
#ifndef BELAY_TESTS_FRONT_H
#define BELAY_TESTS_FRONT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct front {
    char folder[64]; /* of its certificates */
    char bundle[96]; /* the CA file that makes good.pem trusted */
    char url[64];
    uint16_t port;
    pid_t pid;
};

/* True if this machine has nghttpx and openssl; tests without them are skipped. */
bool front_available(void);
/* Makes certificates: good.pem, which is valid, and self.pem, expired.pem and other.pem, which are
 * not. front_forget removes them. */
void front_certify(struct front *front);
void front_forget(const struct front *front);
/* Starts it in front of the peer at port `backend`, with one of those certificates, or with NULL
 * for HTTP/2 without TLS. Call it in a fiber. */
void front_start(struct front *front, const char *certificate, uint16_t backend);
void front_stop(struct front *front);

#endif
