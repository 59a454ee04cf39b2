/* Requests of clients of the control socket. */
#ifndef BELAY_SERVE_REQUEST_H
#define BELAY_SERVE_REQUEST_H

#include "serve/parts.h"

#define SERVE_OFFERS_MAX 16

/* Methods that the program offers. */
struct serve_offers {
    struct bl_control_offer items[SERVE_OFFERS_MAX];
    size_t count;
};

/* State shared by all clients. */
struct serve_requests {
    struct bl_activities *activities;
    int64_t started_wall_ns;
    struct serve_offers offers;
    struct bl_list watchers;   /* struct serve_watcher */
    uint32_t answering;        /* requests in progress */
    struct bl_semaphore quiet; /* given when `answering` reaches zero while closing */
    bool closing;
};

/* A client. Embedded by its owner. */
struct serve_client {
    struct serve_requests *requests;
    struct serve_watcher watcher;
    uint32_t asked;     /* number of requests so far */
    uint32_t answering; /* requests in progress */
    uint64_t active_ns; /* when the last request arrived or was answered */
};

/* Answers a request, or starts a fiber that does: for bl_rpc_options, with the client as the
 * context. */
void serve_request(void *client, struct bl_rpc_call *call);

#endif
