/* Design notes.
 *
 * Each lookup has its own c-ares channel, so that ending it closes only its own sockets. Results
 * are stored for a while. The system's resolver (getaddrinfo) runs in a thread, which a stop can
 * only abandon. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>

#include "client.h"

#define KEEP_NS   (60 * BL_NS_PER_S)
#define NAMES_MAX 64u

/* A name and its addresses, on the heap. */
struct resolved_name {
    struct bl_list link;
    uint64_t until_ns;
    char *host;
    char *addresses;
};

/* A lookup that is running. */
struct lookup {
    struct bl_client *client;
    struct bl_text host;
    ares_channel channel;
    bool open;
    uv_timer_t *timer; /* on the heap: libuv closes it later */
    struct bl_list watches;
    struct bl_buffer addresses;
    struct bl_semaphore ended;
    bool has_ended;
    int status;
};

/* ---- Stored results -------------------------------------------------------------------------- */

static void free_name(struct resolved_name *name)
{
    bl_list_remove(&name->link);
    bl_free(name->host);
    bl_free(name->addresses);
    bl_free(name);
}

void resolver_forget(struct bl_client *client)
{
    BL_LIST_EACH_SAFE (link, &client->names)
        free_name(BL_CONTAINER(link, struct resolved_name, link));
}

static char *resolver_copy_text(struct bl_text text)
{
    char *copy = bl_alloc(text.size + 1);

    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

static void keep_name(struct bl_client *client, struct bl_text host, struct bl_text addresses)
{
    struct resolved_name *name = bl_zalloc(sizeof *name);
    unsigned count = 0;

    name->host = resolver_copy_text(host);
    name->addresses = resolver_copy_text(addresses);
    name->until_ns = bl_now_ns() + KEEP_NS;
    bl_list_push_front(&client->names, &name->link);
    BL_LIST_EACH_SAFE (link, &client->names) {
        if (++count > NAMES_MAX)
            free_name(BL_CONTAINER(link, struct resolved_name, link));
    }
}

static bool resolver_find_kept(struct bl_client *client, struct bl_arena *arena,
                               struct bl_text host, struct bl_text *ret_addresses)
{
    uint64_t now_ns = bl_now_ns();

    BL_LIST_EACH_SAFE (link, &client->names) {
        struct resolved_name *name = BL_CONTAINER(link, struct resolved_name, link);
        if (name->until_ns <= now_ns) {
            free_name(name);
        } else if (bl_text_equal(bl_text_from(name->host), host)) {
            *ret_addresses = bl_arena_text(arena, bl_text_from(name->addresses));
            return true;
        }
    }
    return false;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static void add_address(struct bl_buffer *out, const struct sockaddr *address)
{
    char text[INET6_ADDRSTRLEN];
    bool six = address->sa_family == AF_INET6;
    const void *bytes = six ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)address)->sin_addr;

    if (inet_ntop(address->sa_family, bytes, text, sizeof text) == NULL)
        return;
    bl_buffer_printf(out, six ? "%s[%s]" : "%s%s", out->size > 0 ? "," : "", text);
}

static bool is_address(struct bl_text host)
{
    unsigned char bytes[16];
    char text[64];

    if (host.size >= sizeof text)
        return false;
    snprintf(text, sizeof text, BL_TEXT_FORMAT, BL_TEXT_ARG(host));
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* ---- c-ares on the loop ---------------------------------------------------------------------- */

static void lookup_timed(uv_timer_t *timer);

static void set_lookup_timer(struct lookup *lookup)
{
    struct timeval wait;

    if (lookup->has_ended || ares_timeout(lookup->channel, NULL, &wait) == NULL)
        uv_timer_stop(lookup->timer);
    else
        uv_timer_start(lookup->timer, lookup_timed,
                       (uint64_t)wait.tv_sec * 1000 + (uint64_t)wait.tv_usec / 1000 + 1, 0);
}

static void lookup_timed(uv_timer_t *timer)
{
    struct lookup *lookup = timer->data;

    ares_process_fd(lookup->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_lookup_timer(lookup);
}

static void lookup_ready(uv_poll_t *poll, int status, int events)
{
    const struct client_watch *watch = poll->data;
    struct lookup *lookup = watch->owner;
    bool read = status < 0 || (events & UV_READABLE), write = status < 0 || (events & UV_WRITABLE);

    ares_process_fd(lookup->channel, read ? watch->fd : ARES_SOCKET_BAD,
                    write ? watch->fd : ARES_SOCKET_BAD);
    set_lookup_timer(lookup);
}

static void watch_lookup(void *context, ares_socket_t socket, int readable, int writable)
{
    struct lookup *lookup = context;
    struct client_watch *watch = NULL;

    BL_LIST_EACH (link, &lookup->watches) {
        if (BL_CONTAINER(link, struct client_watch, link)->fd == socket)
            watch = BL_CONTAINER(link, struct client_watch, link);
    }
    if (!readable && !writable) {
        client_watch_free(watch);
        return;
    }
    if (watch == NULL) {
        watch = client_watch_new(socket, lookup);
        if (watch == NULL)
            return; /* c-ares gives up at its own timeout */
        bl_list_push_back(&lookup->watches, &watch->link);
    }
    client_watch_set(watch, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0),
                     lookup_ready);
}

static void lookup_ended(void *context, int status, int timeouts BL_UNUSED,
                         struct ares_addrinfo *found)
{
    struct lookup *lookup = context;

    if (status == ARES_SUCCESS) {
        for (struct ares_addrinfo_node *node = found->nodes; node != NULL; node = node->ai_next)
            add_address(&lookup->addresses, node->ai_addr);
    }
    if (found != NULL)
        ares_freeaddrinfo(found);
    lookup->status = status;
    lookup->has_ended = true;
    bl_semaphore_give(&lookup->ended);
}

static void begin_lookup(void *argument)
{
    struct lookup *lookup = argument;
    struct ares_options options = {.sock_state_cb = watch_lookup, .sock_state_cb_data = lookup};
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

    ares_library_init(ARES_LIB_INIT_ALL);
    lookup->status = ares_init_options(&lookup->channel, &options, ARES_OPT_SOCK_STATE_CB);
    if (lookup->status != ARES_SUCCESS) {
        lookup->has_ended = true;
        bl_semaphore_give(&lookup->ended);
        return;
    }
    lookup->open = true;
    lookup->timer = bl_zalloc(sizeof *lookup->timer);
    lookup->timer->data = lookup;
    uv_timer_init(bl_loop_uv(bl_loop_current()), lookup->timer);
    if (lookup->client->options.name_servers != NULL)
        ares_set_servers_ports_csv(lookup->channel, lookup->client->options.name_servers);
    ares_getaddrinfo(lookup->channel, lookup->host.data, NULL, &hints, lookup_ended, lookup);
    set_lookup_timer(lookup);
}

static void free_timer(uv_handle_t *handle)
{
    bl_free(handle);
}

static void end_lookup(void *argument)
{
    struct lookup *lookup = argument;

    if (!lookup->open)
        return;
    ares_destroy(lookup->channel);
    uv_close((uv_handle_t *)lookup->timer, free_timer);
    lookup->open = false;
}

/* A stop closes the sockets before any fiber runs. */
struct lookup_cut {
    struct bl_stop_hook hook;
    struct lookup *lookup;
};

static void cut_lookup(struct bl_stop_hook *hook, struct bl_scope *scope BL_UNUSED)
{
    end_lookup(BL_CONTAINER(hook, struct lookup_cut, hook)->lookup);
}

static int resolver_look_up(struct bl_client *client, struct bl_arena *arena, struct bl_text host,
                            struct resolver_answer *answer)
{
    struct lookup lookup = {.client = client, .host = bl_arena_text(arena, host)};
    struct lookup_cut cut = {.lookup = &lookup};

    bl_semaphore_init(&lookup.ended, 0);
    bl_list_init(&lookup.watches);
    bl_buffer_init(&lookup.addresses, 16 * 1024);
    bl_loop_call(begin_lookup, &lookup);
    bl_stop_hook_add(&cut.hook, bl_scope_current(), cut_lookup);
    int code = bl_semaphore_take(&lookup.ended);
    bl_stop_hook_remove(&cut.hook);
    if (lookup.open)
        bl_loop_call(end_lookup, &lookup);
    if (code == 0 && lookup.addresses.size == 0) {
        snprintf(answer->message, sizeof answer->message, "%s",
                 lookup.status == ARES_SUCCESS ? "no address found" : ares_strerror(lookup.status));
        code = BL_ENOENT;
    }
    if (code == 0)
        answer->addresses = bl_arena_text(arena, bl_buffer_text(&lookup.addresses));
    bl_buffer_done(&lookup.addresses);
    return code;
}

/* ---- The system's resolver ------------------------------------------------------------------- */

/* Data owned by the thread. */
struct system_lookup {
    char *host;
    int status;
    struct addrinfo *found;
};

static void run_system_lookup(void *payload)
{
    struct system_lookup *lookup = payload;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

    lookup->status = getaddrinfo(lookup->host, NULL, &hints, &lookup->found);
}

static void free_system_lookup(void *payload)
{
    struct system_lookup *lookup = payload;

    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    bl_free(lookup->host);
    bl_free(lookup);
}

static int ask_system(struct bl_arena *arena, struct bl_text host, struct resolver_answer *answer)
{
    struct system_lookup *lookup = bl_zalloc(sizeof *lookup);
    struct bl_work work = {.run = run_system_lookup,
                           .drop = free_system_lookup,
                           .payload = lookup,
                           .abandon_on_stop = true};
    struct bl_buffer addresses;

    lookup->host = resolver_copy_text(host);
    int code = bl_work_call(&work, &answer->abandoned);
    if (code != 0) {
        if (!answer->abandoned)
            free_system_lookup(lookup);
        return code;
    }
    bl_buffer_init(&addresses, 16 * 1024);
    for (const struct addrinfo *each = lookup->found; each != NULL; each = each->ai_next)
        add_address(&addresses, each->ai_addr);
    if (addresses.size == 0) {
        snprintf(answer->message, sizeof answer->message, "%s",
                 lookup->status != 0 ? gai_strerror(lookup->status) : "no address found");
        code = BL_ENOENT;
    } else {
        answer->addresses = bl_arena_text(arena, bl_buffer_text(&addresses));
    }
    bl_buffer_done(&addresses);
    free_system_lookup(lookup);
    return code;
}

/* ---- Lookup ---------------------------------------------------------------------------------- */

static bool is_localhost(struct bl_text host)
{
    return bl_text_equal(host, BL_TEXT("localhost")) ||
           bl_text_ends_with(host, BL_TEXT(".localhost"));
}

int resolver_find(struct bl_client *client, struct bl_arena *arena, struct bl_text host,
                  struct resolver_answer *ret_answer)
{
    *ret_answer = (struct resolver_answer){0};
    if (is_address(host))
        return 0;
    if (is_localhost(host)) {
        ret_answer->addresses = BL_TEXT("127.0.0.1,[::1]");
        return 0;
    }
    if (resolver_find_kept(client, arena, host, &ret_answer->addresses))
        return 0;
    int code = client->options.system_resolver ? ask_system(arena, host, ret_answer)
                                               : resolver_look_up(client, arena, host, ret_answer);
    if (code == 0)
        keep_name(client, host, ret_answer->addresses);
    return code;
}

int bl_resolve(struct bl_client *client, struct bl_arena *arena, struct bl_text host,
               struct bl_text *ret_addresses, struct bl_error *error)
{
    struct resolver_answer answer;
    int code = resolver_find(client, arena, host, &answer);
    if (code == 0)
        *ret_addresses = answer.addresses.size > 0 ? answer.addresses : host;
    else if (code == BL_ENOENT)
        bl_error_set(error, code, BL_KIND_RUNTIME, "look up", NULL,
                     "cannot find the host " BL_TEXT_FORMAT ": %s", BL_TEXT_ARG(host),
                     answer.message);
    return code;
}
