/* What the files of the client share: the multi handle on the loop, watches of descriptors, chores
 * on the loop's stack, and names. */
#ifndef BELAY_WIRE_CLIENT_H
#define BELAY_WIRE_CLIENT_H

#include <ares.h>
#include <uv.h>

#include <belay/wire.h>

#include "curl.h"

/* A chore is done on the loop's stack, where curl, TLS and c-ares have the room that they need.
 * Embedded by the fiber that waits for it. */
struct client_chore {
    struct bl_list link;
    void (*run)(void *argument);
    void *argument;
    struct bl_semaphore done;
};

/* A descriptor of curl's or c-ares's that the loop watches. On the heap; freed when libuv lets go.
 */
struct client_watch {
    uv_poll_t poll;
    struct bl_list link;
    int fd;
    void *owner;
};

struct bl_client {
    struct bl_client_options options;
    CURLM *multi; /* NULL: nothing was sent yet */
    uv_timer_t timer;
    uv_idle_t idle; /* on while there are chores */
    struct bl_list chores;
    unsigned active;      /* exchanges in the multi handle */
    struct bl_list names; /* struct resolved_name, newest first */
    const char *ca_file;  /* NULL: none; decided on first use */
    const char *ca_folder;
    bool trust_decided;
    bool curl_loaded;
    unsigned handles; /* of libuv, not closed yet */
};

/* Runs it on the loop's stack, and waits for that, whatever stops the caller. */
void client_on_loop(struct bl_client *client, void (*run)(void *argument), void *argument);
/* In a fiber: BL_ENOTSUP with the error when there is no curl. */
int client_load(struct bl_client *client, struct bl_error *error);
/* On the loop's stack: the multi handle, made on first use. */
CURLM *client_multi(struct bl_client *client);
/* The number of exchanges changed: so many connections may be kept. */
void client_count(struct bl_client *client, int change);
/* Where trust comes from: SSL_CERT_FILE and SSL_CERT_DIR, or what the system has. */
void client_decide_trust(struct bl_client *client);

struct client_watch *client_watch_new(int fd, void *owner);
void client_watch_set(struct client_watch *watch, int events, uv_poll_cb callback);
void client_watch_free(struct client_watch *watch); /* NULL is fine */

/* exchange.c: curl has ended one. */
void exchange_ended(struct bl_exchange *exchange, CURLcode result);
/* Its socket cannot be watched, so it fails. NULL: a connection that curl closes by itself. */
void exchange_unwatched(struct bl_exchange *exchange);

/* ---- Names (resolver.c) ---------------------------------------------------------------------- */

/* How a look-up ended. */
struct resolver_answer {
    struct bl_text addresses; /* "192.0.2.1,[2001:db8::1]", in the arena */
    bool abandoned;           /* the system's resolver was left to itself */
    char message[160];        /* why there are none */
};

/* Waits for the addresses of a name. 0; BL_ECANCELED, BL_ETIMEDOUT; BL_ENOENT with the message. */
int resolver_find(struct bl_client *client, struct bl_arena *arena, struct bl_text host,
                  struct resolver_answer *ret_answer);
void resolver_forget(struct bl_client *client); /* all names that it kept */

#endif
