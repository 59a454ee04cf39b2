/* One client with one exchange at a time, for tests. */
#ifndef BELAY_TESTS_WIRE_ASKING_H
#define BELAY_TESTS_WIRE_ASKING_H

#include "peer.h"

#define MS BL_NS_PER_MS

struct asking {
    struct bl_client *client;
    struct bl_client_options options;
    struct bl_http_request request;
    struct bl_buffer body; /* of the response */
    struct bl_wire_failure failure;
    struct bl_error error;
    int status;
    char place[64];
    uint64_t duration_ns;
    bool abandoned;
    bool no_end; /* the body is not read, only the headers */
};

void asking_init(struct asking *asking); /* without a client: set the options first */
void asking_done(struct asking *asking);
/* Runs one complete exchange in the running fiber. Returns its result. */
int ask(struct asking *asking, const char *url);

/* A fiber that runs an exchange, so that it can be stopped from outside. */
struct asker {
    struct asking *asking;
    const char *url;
    struct bl_nursery nursery;
    int code;
    bool ended;
    uint64_t ended_ns;
};

void asker_start(struct asker *asker, struct asking *asking, const char *url);
/* Stops it and waits for its end; returns the time from the stop to the end. */
uint64_t asker_stop(struct asker *asker);
void asker_join(struct asker *asker);

#endif
