/* Design notes.
 *
 * An exchange has its own scope below that of its fiber. The deadline of that scope is the timer
 * that is running. So a stop from above and a timer end a wait in the same way: the same hook, on
 * the loop's stack, removes the handle from curl, which closes the socket, before any fiber runs
 * again. Afterwards the code checks which of the two it was.
 *
 *   new --headers--> names --> connecting --> sending --> answering --> ended
 *
 * `connecting` is TCP, proxy and TLS; `sending` begins when curl is about to write the request.
 *
 * Received bytes collect in one buffer. The reader swaps it for an empty one and works on its
 * contents without a copy. Above BL_WIRE_PENDING_MAX curl is paused, and with it the system's
 * buffers and the peer. The stall timer runs only while the reader waits. */
#include <assert.h>
#include <stdio.h>

#include "exchange.h"

/* Above this size, closing the connection is cheaper than reading the rest. */
#define DRAIN_MAX ((size_t)256 * 1024)

void exchange_move(struct bl_exchange *exchange, enum exchange_phase to)
{
    static const char *const names[] = {[PHASE_NEW] = "new",
                                        [PHASE_NAMES] = "names",
                                        [PHASE_CONNECTING] = "connecting",
                                        [PHASE_SENDING] = "sending",
                                        [PHASE_ANSWERING] = "answering",
                                        [PHASE_ENDED] = "ended"};
    assert(to >= exchange->phase);
    BL_LOG(BL_ROOM_WIRE, BL_LOG_TRACE, "phase", BL_LOG_STRING("from", names[exchange->phase]),
           BL_LOG_STRING("to", names[to]));
    exchange->phase = to;
}

int exchange_fail(struct bl_exchange *exchange, const char *code, bool timed_out,
                  const char *message)
{
    struct bl_wire_failure *failure = &exchange->failure;

    if (failure->code == NULL) {
        failure->code = code;
        failure->timed_out = timed_out;
        BL_LOG(BL_ROOM_WIRE, BL_LOG_DEBUG, "request failed", BL_LOG_STRING("code", code),
               BL_LOG_BOOLEAN("timed_out", timed_out));
        bl_text_into(failure->message, sizeof failure->message, message);
    }
    return BL_EIO;
}

void exchange_set_timer(struct bl_exchange *exchange, uint64_t duration_ns)
{
    bl_scope_set_deadline(&exchange->timing,
                          duration_ns == 0 ? BL_NEVER : bl_time_add(bl_now_ns(), duration_ns));
}

/* ---- Phase ----------------------------------------------------------------------------------- */

void bl_exchange_place(const struct bl_exchange *exchange, char *out, size_t size)
{
    static const char *const places[] = {[BL_EXCHANGE_UNSENT] = "never sent",
                                         [BL_EXCHANGE_DNS] = "in dns",
                                         [BL_EXCHANGE_CONNECT] = "in connect",
                                         [BL_EXCHANGE_PROXY] = "in proxy",
                                         [BL_EXCHANGE_TLS] = "in tls",
                                         [BL_EXCHANGE_UPLOAD] = "in upload",
                                         [BL_EXCHANGE_HEADERS] = "before headers"};
    enum bl_exchange_where where = bl_exchange_where(exchange);

    if (where != BL_EXCHANGE_BODY)
        bl_text_into(out, size, places[where]);
    else
        snprintf(out, size, "stream cut after %llu bytes",
                 (unsigned long long)exchange->body_bytes);
}

enum bl_exchange_where bl_exchange_where(const struct bl_exchange *exchange)
{
    return exchange->phase == PHASE_ENDED ? exchange->where : transfer_where(exchange);
}

bool bl_exchange_abandoned(const struct bl_exchange *exchange)
{
    return exchange->abandoned;
}

bool bl_exchange_unsent(const struct bl_exchange *exchange)
{
    if (exchange->phase != PHASE_ENDED)
        return exchange->phase < PHASE_SENDING;
    return exchange->where < BL_EXCHANGE_UPLOAD;
}

/* ---- Creation and end ------------------------------------------------------------------------ */

static void cut_by_stop(struct bl_stop_hook *hook, struct bl_scope *scope BL_UNUSED)
{
    transfer_cut(BL_CONTAINER(hook, struct bl_exchange, cut));
}

static struct curl_slist *exchange_append(struct curl_slist *list, struct bl_text line)
{
    struct curl_slist *longer = curl_slist_append(list, line.data);

    if (longer == NULL)
        bl_out_of_memory(line.size);
    return longer;
}

static bool header_fits(const struct bl_http_header *header)
{
    for (size_t i = 0; i < header->value.size; i++) {
        unsigned char byte = (unsigned char)header->value.data[i];
        if (byte < 0x20 && byte != '\t')
            return false;
    }
    return header->name.size > 0 && memchr(header->name.data, ':', header->name.size) == NULL;
}

/* Builds the header list, and removes headers that curl would add (Expect, Accept-Encoding). */
static int exchange_write_headers(struct bl_exchange *exchange, struct bl_error *error)
{
    const struct bl_http_request *request = &exchange->request;
    struct curl_slist *list = NULL;

    if (!exchange->client->options.decodes)
        list = exchange_append(list, BL_TEXT("Accept-Encoding: identity"));
    list = exchange_append(list, BL_TEXT("Expect:"));
    if (request->body.size == 0)
        list = exchange_append(list, BL_TEXT("Content-Type:"));
    for (size_t i = 0; i < request->header_count; i++) {
        const struct bl_http_header *header = &request->headers[i];
        if (!header_fits(header)) {
            curl_slist_free_all(list);
            /* The value is not shown: it may be a secret. */
            return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "send a request", request->url,
                                "the header '" BL_TEXT_FORMAT "' contains a line break or another "
                                "control character",
                                BL_TEXT_ARG(bl_utf8_cut(header->name, 64)));
        }
        /* In curl, a name with nothing after the colon means that the header is not sent. */
        const char *between = header->value.size > 0 ? ": " : ";";
        list = exchange_append(
            list, bl_arena_printf(&exchange->arena, BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT,
                                  BL_TEXT_ARG(header->name), between, BL_TEXT_ARG(header->value)));
    }
    exchange->headers_sent = list;
    return 0;
}

int bl_exchange_new(struct bl_client *client, const struct bl_http_request *request,
                    struct bl_exchange **ret_exchange, struct bl_error *error)
{
    struct bl_exchange *exchange = bl_zalloc(sizeof *exchange);

    exchange->client = client;
    exchange->socket = -1;
    exchange->request = *request;
    bl_arena_init(&exchange->arena);
    bl_list_init(&exchange->headers);
    bl_buffer_init(&exchange->received, BL_WIRE_PENDING_MAX + (size_t)16 * 1024 * 1024);
    bl_buffer_init(&exchange->taken, BL_WIRE_PENDING_MAX + (size_t)16 * 1024 * 1024);
    bl_semaphore_init(&exchange->changed, 0);
    int code = client_load(client, error);
    if (code == 0)
        code = bl_url_parse(&exchange->arena, request->url, &exchange->url, error);
    if (code == 0 && request->body.size > BL_WIRE_REQUEST_MAX)
        code = bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, "send a request", request->url,
                            "the request is larger than %zu MiB", BL_WIRE_REQUEST_MAX >> 20);
    if (code == 0)
        code = exchange_write_headers(exchange, error);
    if (code != 0) {
        bl_arena_done(&exchange->arena);
        bl_free(exchange);
        return code;
    }
    exchange->proxy = bl_proxies_choose(&client->options.proxies, &exchange->url);
    exchange->scope = bl_scope_current();
    bl_scope_init(&exchange->timing, exchange->scope);
    bl_stop_hook_add(&exchange->cut, &exchange->timing, cut_by_stop);
    *ret_exchange = exchange;
    return 0;
}

void bl_exchange_free(struct bl_exchange *exchange)
{
    if (exchange == NULL)
        return;
    bl_stop_hook_remove(&exchange->cut);
    if (exchange->easy != NULL)
        bl_loop_call(transfer_cut, exchange);
    bl_scope_done(&exchange->timing);
    curl_slist_free_all(exchange->headers_sent);
    curl_slist_free_all(exchange->addresses);
    bl_buffer_done(&exchange->received);
    bl_buffer_done(&exchange->taken);
    bl_arena_done(&exchange->arena);
    bl_free(exchange);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Handles the early end of a wait: a stop of the caller's scope, or a timer. */
static int stopped_or_late(struct bl_exchange *exchange, int code)
{
    static const char *const late[] = {
        [PHASE_NEW] = "connect",          [PHASE_NAMES] = "connect",
        [PHASE_CONNECTING] = "connect",   [PHASE_SENDING] = "first_byte",
        [PHASE_ANSWERING] = "first_byte", [PHASE_ENDED] = "stall",
    };
    static const char *const texts[] = {
        [BL_EXCHANGE_UNSENT] = "timed out before the request was sent",
        [BL_EXCHANGE_DNS] = "timed out looking up the host name",
        [BL_EXCHANGE_CONNECT] = "timed out connecting to the server",
        [BL_EXCHANGE_PROXY] = "timed out connecting through the proxy",
        [BL_EXCHANGE_TLS] = "timed out in the TLS handshake",
        [BL_EXCHANGE_UPLOAD] = "timed out sending the request",
        [BL_EXCHANGE_HEADERS] = "timed out waiting for response headers",
        [BL_EXCHANGE_BODY] = "timed out waiting for more of the response",
    };
    int above = bl_scope_check(exchange->scope);

    if (above != 0)
        return above;
    if (code != BL_ECANCELED && code != BL_ETIMEDOUT)
        return code;
    const char *timer = late[exchange->phase];
    if (exchange->phase == PHASE_ENDED && exchange->where != BL_EXCHANGE_BODY) {
        bool unsent = bl_exchange_unsent(exchange);
        timer = unsent ? "connect" : "first_byte";
    }
    return exchange_fail(exchange, timer, true, texts[bl_exchange_where(exchange)]);
}

/* Waits for news from curl, in the scope of the timers. */
static int wait_for_change(struct bl_exchange *exchange)
{
    struct bl_scope *outer = bl_scope_enter(&exchange->timing);
    int code = bl_semaphore_take(&exchange->changed);

    bl_scope_enter(outer);
    return code == 0 ? 0 : stopped_or_late(exchange, code);
}

/* Looks up the addresses of the server, or of its proxy. */
static int find_addresses(struct bl_exchange *exchange)
{
    struct resolver_answer answer;
    struct bl_url url = exchange->url;
    char text[sizeof exchange->failure.message];

    if (exchange->proxy != NULL &&
        bl_proxy_address(&exchange->arena, exchange->proxy, &url, NULL) != 0)
        return exchange_fail(exchange, "connect", false, "invalid proxy address");
    exchange_move(exchange, PHASE_NAMES);
    struct bl_scope *outer = bl_scope_enter(&exchange->timing);
    int code = resolver_find(exchange->client, &exchange->arena, url.host, &answer);
    bl_scope_enter(outer);
    exchange->abandoned = answer.abandoned;
    if (code == BL_ENOENT) {
        snprintf(text, sizeof text, "'" BL_TEXT_FORMAT "': %s",
                 BL_TEXT_ARG(bl_utf8_cut(url.host, 80)), answer.message);
        return exchange_fail(exchange, "dns", false, text);
    }
    if (code != 0)
        return stopped_or_late(exchange, code);
    if (answer.addresses.size > 0)
        exchange->addresses = exchange_append(
            NULL, bl_arena_printf(&exchange->arena, BL_TEXT_FORMAT ":%u:" BL_TEXT_FORMAT,
                                  BL_TEXT_ARG(url.host), url.port, BL_TEXT_ARG(answer.addresses)));
    return 0;
}

int bl_exchange_headers(struct bl_exchange *exchange)
{
    int code = bl_scope_check(exchange->scope);

    if (code == 0 && exchange->phase == PHASE_NEW) {
        exchange_set_timer(exchange, exchange->request.connect_ns);
        code = find_addresses(exchange);
        /* Only the host: the path or the query may contain a key. */
        BL_LOG(BL_ROOM_WIRE, BL_LOG_DEBUG, "request", BL_LOG_TEXT("host", exchange->url.host),
               BL_LOG_INTEGER("port", exchange->url.port),
               BL_LOG_STRING("look_up", bl_error_text(code)));
        if (code == 0)
            bl_loop_call(transfer_begin, exchange);
    }
    while (code == 0 && !exchange->headers_complete && exchange->failure.code == NULL)
        code = wait_for_change(exchange);
    if (code == 0 && !exchange->headers_complete)
        code = BL_EIO;
    BL_LOG(BL_ROOM_WIRE, BL_LOG_DEBUG, "response headers",
           BL_LOG_STRING("result", bl_error_text(code)),
           BL_LOG_INTEGER("status", bl_exchange_status(exchange)));
    return code;
}

/* Waits for bytes while the stall timer runs. */
static int wait_for_bytes(struct bl_exchange *exchange)
{
    uint64_t from_ns = bl_now_ns();
    bool timed = exchange->request.stall_ns != 0;

    if (timed)
        bl_scope_set_deadline(&exchange->timing, bl_time_add(from_ns, exchange->stall_left_ns));
    int code = wait_for_change(exchange);
    if (code == 0 && timed) {
        uint64_t waited_ns = bl_now_ns() - from_ns;
        exchange->stall_left_ns -=
            waited_ns < exchange->stall_left_ns ? waited_ns : exchange->stall_left_ns;
        bl_scope_set_deadline(&exchange->timing, BL_NEVER);
    }
    return code;
}

int bl_exchange_read(struct bl_exchange *exchange, struct bl_text *ret_bytes)
{
    int code = bl_scope_check(exchange->scope);

    bl_buffer_clear(&exchange->taken);
    while (code == 0 && exchange->received.size == 0 && exchange->easy != NULL &&
           exchange->failure.code == NULL)
        code = wait_for_bytes(exchange);
    if (code != 0)
        return code;
    struct bl_buffer full = exchange->received;
    exchange->received = exchange->taken;
    exchange->taken = full;
    *ret_bytes = bl_buffer_text(&exchange->taken);
    BL_LOG(BL_ROOM_WIRE, BL_LOG_TRACE, "received",
           BL_LOG_INTEGER("bytes", (int64_t)ret_bytes->size));
    if (ret_bytes->size == 0)
        return exchange->failure.code != NULL ? BL_EIO : 0;
    if (exchange->paused) {
        exchange->paused = false;
        bl_loop_call(transfer_resume, exchange);
    }
    return 0;
}

void bl_exchange_meaningful(struct bl_exchange *exchange)
{
    exchange->stall_left_ns = exchange->request.stall_ns;
}

void bl_exchange_drain(struct bl_exchange *exchange, uint64_t limit_ns)
{
    struct bl_text bytes = {0};
    size_t size = 0;

    exchange->request.stall_ns = exchange->stall_left_ns = limit_ns;
    while (size <= DRAIN_MAX && bl_exchange_read(exchange, &bytes) == 0 && bytes.size > 0)
        size += bytes.size;
}

int bl_exchange_status(const struct bl_exchange *exchange)
{
    return exchange->status;
}

struct bl_text bl_exchange_header(const struct bl_exchange *exchange, const char *name)
{
    BL_LIST_EACH (link, &exchange->headers) {
        const struct received_header *header = BL_CONTAINER(link, struct received_header, link);
        if (bl_text_equal(header->name, bl_text_from(name)))
            return header->value;
    }
    return (struct bl_text){0};
}

const struct bl_wire_failure *bl_exchange_failure(const struct bl_exchange *exchange)
{
    return &exchange->failure;
}
