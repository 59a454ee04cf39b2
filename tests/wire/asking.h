/* One client and one exchange at a time, for tests. */
#ifndef BELAY_TESTS_WIRE_ASKING_H
#define BELAY_TESTS_WIRE_ASKING_H

#include "peer.h"

#define MS BL_NS_PER_MS

struct asking {
    struct bl_client *client;
    struct bl_client_options options;
    struct bl_http_request request;
    struct bl_buffer body; /* of the answer */
    struct bl_wire_failure failure;
    struct bl_error error;
    int status;
    char place[64];
    uint64_t duration_ns;
    bool abandoned;
    bool no_end; /* the answer is not read: headers only */
};

void asking_init(struct asking *asking); /* without a client: options first */
void asking_done(struct asking *asking);
/* One exchange, from beginning to end, in the running fiber. What it returned. */
int ask(struct asking *asking, const char *url);

/* A fiber that asks, so that it can be stopped from outside. */
struct asker {
    struct asking *asking;
    const char *url;
    struct bl_nursery nursery;
    int code;
    bool ended;
    uint64_t ended_ns;
};

void asker_start(struct asker *asker, struct asking *asking, const char *url);
/* Stops it, waits for its end; from the stop to its end. */
uint64_t asker_stop(struct asker *asker);
void asker_join(struct asker *asker);

#endif
