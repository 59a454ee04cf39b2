/* What clients of the control socket ask. */
#ifndef BELAY_SERVE_REQUEST_H
#define BELAY_SERVE_REQUEST_H

#include "serve/parts.h"

#define SERVE_OFFERS_MAX 16

/* Methods of whoever does the work. */
struct serve_offers {
    struct bl_control_offer items[SERVE_OFFERS_MAX];
    size_t count;
};

/* What requests are about. */
struct serve_requests {
    struct bl_activities *activities;
    int64_t started_wall_ns;
    struct serve_offers offers;
    struct bl_list watchers;   /* struct serve_watcher */
    uint32_t answering;        /* requests under way; */
    struct bl_semaphore quiet; /* given when it is zero, while somebody waits for that */
    bool closing;
};

/* A client. Embedded by its owner. */
struct serve_client {
    struct serve_requests *requests;
    struct serve_watcher watcher;
    uint32_t asked;     /* requests so far */
    uint32_t answering; /* under way */
    uint64_t active_ns; /* when the last one came or was answered */
};

/* Answers a request, or has it answered in a fiber of its own: for bl_rpc_options, whose context is
 * the client. */
void serve_request(void *client, struct bl_rpc_call *call);

#endif
