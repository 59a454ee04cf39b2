/* Declarations shared by the files of the client: the multi handle on the loop, watches for
 * descriptors, and name lookups. */
#ifndef BELAY_WIRE_CLIENT_H
#define BELAY_WIRE_CLIENT_H

#include <ares.h>
#include <uv.h>

#include <belay/wire.h>

#include "curl.h"

/* A function that runs on the loop's stack, which is large enough for curl, TLS and c-ares.
 * Embedded by the fiber that waits for it. */
/* A descriptor of curl or c-ares that the loop watches. Allocated on the heap, and freed when libuv
 * has closed it. */
struct client_watch {
    uv_poll_t poll;
    struct bl_list link;
    int fd;
    void *owner;
};

struct bl_client {
    struct bl_client_options options;
    CURLM *multi; /* NULL: nothing has been sent */
    uv_timer_t timer;
    unsigned active;      /* exchanges in the multi handle */
    struct bl_list names; /* struct resolved_name, newest first */
    const char *ca_file;  /* NULL: none; chosen on first use */
    const char *ca_folder;
    bool trust_decided;
    bool curl_loaded;
};

/* Loads curl; called in a fiber. BL_ENOTSUP with the error if it is not available. */
int client_load(struct bl_client *client, struct bl_error *error);
/* Returns the multi handle, created on first use; on the loop's stack. */
CURLM *client_multi(struct bl_client *client);
/* Changes the number of active exchanges, and with it the number of connections that may be kept.
 */
void client_count(struct bl_client *client, int change);
/* Chooses the trusted certificates: SSL_CERT_FILE and SSL_CERT_DIR, or those of the system. */
void client_decide_trust(struct bl_client *client);

struct client_watch *client_watch_new(int fd, void *owner);
void client_watch_set(struct client_watch *watch, int events, uv_poll_cb callback);
void client_watch_free(struct client_watch *watch); /* NULL is allowed */

/* exchange.c: curl has ended an exchange. */
void exchange_ended(struct bl_exchange *exchange, CURLcode result);
/* The exchange fails because its socket cannot be watched. NULL: a connection that curl closes by
 * itself. */
void exchange_unwatched(struct bl_exchange *exchange);

/* ---- Name lookups (resolver.c) --------------------------------------------------------------- */

/* The result of a lookup. */
struct resolver_answer {
    struct bl_text addresses; /* "192.0.2.1,[2001:db8::1]", in the arena */
    bool abandoned;           /* a stop left the system's resolver running */
    char message[160];        /* why there are no addresses */
};

/* Waits for the addresses of a name. Returns 0; BL_ECANCELED or BL_ETIMEDOUT; BL_ENOENT with the
 * message. */
int resolver_find(struct bl_client *client, struct bl_arena *arena, struct bl_text host,
                  struct resolver_answer *ret_answer);
void resolver_forget(struct bl_client *client); /* drops all stored names */

#endif
