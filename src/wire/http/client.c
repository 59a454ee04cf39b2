/* Design notes.
 *
 * Each client has one curl multi handle on the loop. libuv watches its sockets and runs its one
 * timer. It is called only on the loop's own stack: from those callbacks, from stop hooks, and by
 * bl_loop_call. A fiber's stack is too small for TLS, whose stack use is unknown.
 *
 * A client that was never used has no multi handle and costs nothing. */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

/* Idle connections kept in addition to the active ones. */
#define IDLE_CONNECTIONS_MAX 8

/* ---- Watches --------------------------------------------------------------------------------- */

struct client_watch *client_watch_new(int fd, void *owner)
{
    struct client_watch *watch = bl_zalloc(sizeof *watch);

    bl_list_init(&watch->link);
    watch->fd = fd;
    watch->owner = owner;
    watch->poll.data = watch;
    if (uv_poll_init(bl_loop_uv(bl_loop_current()), &watch->poll, fd) == 0)
        return watch;
    bl_free(watch);
    return NULL;
}

void client_watch_set(struct client_watch *watch, int events, uv_poll_cb callback)
{
    if (events == 0)
        uv_poll_stop(&watch->poll);
    else
        uv_poll_start(&watch->poll, events, callback);
}

static void free_watch(uv_handle_t *handle)
{
    bl_free(handle->data);
}

void client_watch_free(struct client_watch *watch)
{
    if (watch == NULL)
        return;
    bl_list_remove(&watch->link);
    uv_close((uv_handle_t *)&watch->poll, free_watch);
}

/* ---- curl on the loop ------------------------------------------------------------------------ */

static struct bl_exchange *client_exchange_of(CURL *easy)
{
    char *exchange = NULL;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &exchange);
    return (struct bl_exchange *)(void *)exchange;
}

/* Completes the exchanges that curl has ended. */
static void http_client_collect(struct bl_client *client)
{
    int left;
    CURLMsg *message;

    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        /* The message becomes invalid with its handle. */
        CURLcode result = message->data.result;
        exchange_ended(client_exchange_of(message->easy_handle), result);
    }
}

static void act(struct bl_client *client, curl_socket_t socket, int events)
{
    int running;

    curl_multi_socket_action(client->multi, socket, events, &running);
    http_client_collect(client);
}

static void http_client_socket_ready(uv_poll_t *poll, int status, int events)
{
    const struct client_watch *watch = poll->data;
    int flags = 0;

    if (status < 0)
        flags = CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    act(watch->owner, watch->fd, flags);
}

static int watch_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *known)
{
    struct bl_client *client = context;
    struct client_watch *watch = known;

    if (what == CURL_POLL_REMOVE) {
        client_watch_free(watch);
        curl_multi_assign(client->multi, socket, NULL);
        return 0;
    }
    if (watch == NULL) {
        watch = client_watch_new(socket, client);
        if (watch == NULL) {
            /* An error code would end every exchange of this client, now and later. */
            exchange_unwatched(client_exchange_of(easy));
            return 0;
        }
        curl_multi_assign(client->multi, socket, watch);
    }
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    client_watch_set(watch, events, http_client_socket_ready);
    return 0;
}

static void timer_fired(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timer(CURLM *multi BL_UNUSED, long timeout_ms, void *context)
{
    struct bl_client *client = context;

    if (timeout_ms < 0)
        return uv_timer_stop(&client->timer);
    return uv_timer_start(&client->timer, timer_fired, (uint64_t)timeout_ms, 0);
}

static void load_curl(void *argument)
{
    const char **fault = argument;

    *fault = curl_load();
}

int client_load(struct bl_client *client, struct bl_error *error)
{
    const char *fault;

    if (client->curl_loaded)
        return 0;
    bl_loop_call(load_curl, &fault);
    client->curl_loaded = fault[0] == '\0';
    if (client->curl_loaded)
        return 0;
    bl_error_set(error, BL_ENOTSUP, BL_KIND_RUNTIME, "send a request", "libcurl",
                 "cannot load libcurl: %s", fault);
    bl_error_hint(error, "install libcurl4");
    return BL_ENOTSUP;
}

CURLM *client_multi(struct bl_client *client)
{
    if (client->multi != NULL)
        return client->multi;
    client->multi = curl_multi_init();
    if (client->multi == NULL)
        bl_out_of_memory(0);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    return client->multi;
}

void client_count(struct bl_client *client, int change)
{
    client->active = (unsigned)((int)client->active + change);
    /* When an exchange ends, curl closes idle connections above this limit. It counts active ones
     * as well, but not yet the end of this one. */
    long others = client->active > 0 ? (long)client->active - 1 : 0;
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, others + IDLE_CONNECTIONS_MAX);
}

/* ---- Trusted certificates -------------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

void client_decide_trust(struct bl_client *client)
{
    /* Locations used by Linux distributions. */
    static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    };

    if (client->trust_decided)
        return;
    client->trust_decided = true;
    client->ca_file = client->options.ca_file;
    if (client->ca_file != NULL)
        return;
    client->ca_file = variable("SSL_CERT_FILE");
    client->ca_folder = variable("SSL_CERT_DIR");
    if (client->ca_file != NULL || client->ca_folder != NULL)
        return;
    for (size_t i = 0; i < BL_COUNT(bundles) && client->ca_file == NULL; i++) {
        if (access(bundles[i], R_OK) == 0)
            client->ca_file = bundles[i];
    }
}

/* ---- Creation and end ------------------------------------------------------------------------ */

struct bl_client *bl_client_new(const struct bl_client_options *options)
{
    struct bl_client *client = bl_zalloc(sizeof *client);
    uv_loop_t *loop = bl_loop_uv(bl_loop_current());

    client->options = *options;
    bl_list_init(&client->names);
    uv_timer_init(loop, &client->timer);
    client->timer.data = client;
    return client;
}

static void close_multi(void *argument)
{
    struct bl_client *client = argument;

    if (client->multi != NULL)
        curl_multi_cleanup(client->multi);
}

static void http_client_closed(uv_handle_t *handle)
{
    bl_free(handle->data);
}

void bl_client_free(struct bl_client *client)
{
    if (client == NULL)
        return;
    assert(client->active == 0);
    if (client->multi != NULL)
        bl_loop_call(close_multi, client);
    resolver_forget(client);
    uv_close((uv_handle_t *)&client->timer, http_client_closed);
}
