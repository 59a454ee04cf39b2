#include <stdio.h>
#include <sys/socket.h>

#include "exchange.h"

/* Disables curl's own connection timeout of five minutes: our timer decides. */
#define CURL_CONNECT_MS 0x7fffffffl
/* Bytes per read. Memory that is not written to costs nothing. */
#define READ_SIZE 65536l
/* Larger bodies take more than one write: their progress restarts the first_byte timer. */
#define SLOW_BODY_SIZE ((size_t)64 * 1024)
/* CURLE_TOO_LARGE, which older headers do not define. */
#define TOO_LARGE 100

/* ---- Failures -------------------------------------------------------------------------------- */

/* True if the network cut the handshake, which is not a failure of trust. */
static bool tls_was_cut(const struct bl_exchange *exchange)
{
    static const char *const marks[] = {"SSL_ERROR_SYSCALL", "reset by peer", "unexpected eof",
                                        "Broken pipe"};

    for (size_t i = 0; i < BL_COUNT(marks); i++) {
        if (strstr(exchange->curl_text, marks[i]) != NULL)
            return true;
    }
    return false;
}

static const char *failure_code(const struct bl_exchange *exchange, CURLcode result,
                                long connect_status)
{
    if (exchange->over_limit)
        return "limit";
    if (exchange->address_refused)
        return "address";
    switch ((int)result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return "dns";
    case CURLE_SSL_CONNECT_ERROR: return tls_was_cut(exchange) ? "connect" : "tls";
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_INVALIDCERTSTATUS: return "tls";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY: return "bad_response";
    /* A header line too long for curl: the first until curl 8.6, the second since. */
    case CURLE_OUT_OF_MEMORY:
    case TOO_LARGE: return "limit";
    default: break;
    }
    if (connect_status == 407)
        return "auth";
    return exchange->phase >= PHASE_SENDING ? "stream_cut" : "connect";
}

static void describe_failure(struct bl_exchange *exchange, CURLcode result)
{
    char text[sizeof exchange->failure.message];
    long connect_status = 0;

    curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
    const char *code = failure_code(exchange, result, connect_status);
    const char *curl_text =
        exchange->curl_text[0] != '\0' ? exchange->curl_text : curl_easy_strerror(result);
    if (exchange->over_limit)
        snprintf(text, sizeof text, "the response headers are too large");
    else if (exchange->address_refused)
        snprintf(text, sizeof text, "the address is not public");
    else if (connect_status >= 300)
        snprintf(text, sizeof text, "the proxy refused the connection with status %ld",
                 connect_status);
    else
        bl_text_into(text, sizeof text, curl_text);
    exchange_fail(exchange, code, false, text);
}

/* ---- Phase ----------------------------------------------------------------------------------- */

/* True if TCP is connected. curl reports that only after the whole handshake. */
static bool is_connected(const struct bl_exchange *exchange)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;

    return exchange->socket >= 0 &&
           getpeername(exchange->socket, (struct sockaddr *)&address, &size) == 0;
}

static enum bl_exchange_where connecting_where(const struct bl_exchange *exchange)
{
    long connect_status = 0;

    if (!is_connected(exchange))
        return BL_EXCHANGE_CONNECT;
    curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
    bool tunnel = exchange->proxy != NULL && exchange->url.secure;
    if (tunnel && (connect_status < 200 || connect_status >= 300))
        return BL_EXCHANGE_PROXY;
    return exchange->url.secure ? BL_EXCHANGE_TLS : BL_EXCHANGE_CONNECT;
}

enum bl_exchange_where transfer_where(const struct bl_exchange *exchange)
{
    switch (exchange->phase) {
    case PHASE_NEW: return BL_EXCHANGE_UNSENT;
    case PHASE_NAMES: return BL_EXCHANGE_DNS;
    case PHASE_CONNECTING: return connecting_where(exchange);
    case PHASE_SENDING:
        return exchange->uploaded < exchange->request.body.size ? BL_EXCHANGE_UPLOAD
                                                                : BL_EXCHANGE_HEADERS;
    case PHASE_ANSWERING:
    case PHASE_ENDED: break;
    }
    return exchange->headers_complete ? BL_EXCHANGE_BODY : BL_EXCHANGE_HEADERS;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void transfer_wake(struct bl_exchange *exchange)
{
    if (exchange->changed.count == 0)
        bl_semaphore_give(&exchange->changed);
}

/* Removes the handle from curl, which closes a connection that is not at a regular end. */
static void transfer_release(struct bl_exchange *exchange)
{
    if (exchange->easy == NULL)
        return;
    exchange->where = transfer_where(exchange);
    exchange_move(exchange, PHASE_ENDED);
    curl_multi_remove_handle(exchange->client->multi, exchange->easy);
    client_count(exchange->client, -1);
    curl_easy_cleanup(exchange->easy);
    curl_slist_free_all(exchange->headers_sent);
    curl_slist_free_all(exchange->addresses);
    exchange->easy = NULL;
    exchange->headers_sent = exchange->addresses = NULL;
}

/* Makes the close a reset if request bytes are unsent: otherwise the peer would have to read these
 * before it sees the close. */
static void drop_unsent(const struct bl_exchange *exchange)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    curl_socket_t active = CURL_SOCKET_BAD;

    if (exchange->phase != PHASE_SENDING || exchange->uploaded >= exchange->request.body.size)
        return;
    curl_easy_getinfo(exchange->easy, CURLINFO_ACTIVESOCKET, &active);
    if (active == CURL_SOCKET_BAD)
        active = exchange->socket;
    setsockopt(active, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

void transfer_cut(void *argument)
{
    struct bl_exchange *exchange = argument;

    exchange->was_cut = true;
    if (exchange->easy == NULL)
        return;
    drop_unsent(exchange);
    /* HTTP/2 would keep the connection open, and tell the server nothing. */
    curl_easy_setopt(exchange->easy, CURLOPT_FORBID_REUSE, 1l);
    transfer_release(exchange);
}

void exchange_ended(struct bl_exchange *exchange, CURLcode result)
{
    if (result != CURLE_OK)
        describe_failure(exchange, result);
    transfer_release(exchange);
    transfer_wake(exchange);
}

void exchange_unwatched(struct bl_exchange *exchange)
{
    if (exchange == NULL)
        return;
    exchange_fail(exchange, failure_code(exchange, CURLE_FAILED_INIT, 0), false,
                  "cannot watch the socket");
    transfer_wake(exchange);
}

static int note_socket(void *context, curl_socket_t socket, curlsocktype purpose BL_UNUSED)
{
    struct bl_exchange *exchange = context;

    exchange->socket = socket;
    return CURL_SOCKOPT_OK;
}

/* Checks the address that is actually connected to, regardless of what the name resolved to before.
 */
static curl_socket_t open_socket(void *context, curlsocktype purpose BL_UNUSED,
                                 struct curl_sockaddr *address)
{
    struct bl_exchange *exchange = context;

    if (exchange->client->options.public_only && exchange->proxy == NULL &&
        !bl_address_public(&address->addr)) {
        exchange->address_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int about_to_send(void *context, char *to BL_UNUSED, char *from BL_UNUSED,
                         int to_port BL_UNUSED, int from_port BL_UNUSED)
{
    struct bl_exchange *exchange = context;

    exchange_move(exchange, PHASE_SENDING);
    exchange->uploaded =
        exchange->request.body.size <= SLOW_BODY_SIZE ? exchange->request.body.size : 0;
    exchange_set_timer(exchange, exchange->request.first_byte_ns);
    return CURL_PREREQFUNC_OK;
}

static int uploading(void *context, curl_off_t download_total BL_UNUSED,
                     curl_off_t downloaded BL_UNUSED, curl_off_t total BL_UNUSED, curl_off_t sent)
{
    struct bl_exchange *exchange = context;

    if (exchange->phase == PHASE_SENDING && (uint64_t)sent > exchange->uploaded) {
        exchange->uploaded = (uint64_t)sent;
        exchange_set_timer(exchange, exchange->request.first_byte_ns);
    }
    return 0;
}

/* ---- Headers --------------------------------------------------------------------------------- */

static void transfer_begin_answer(struct bl_exchange *exchange, struct bl_text line)
{
    struct bl_text rest = line, word;
    int64_t status = 0;

    bl_text_split(&rest, ' ', &word);
    if (bl_text_split(&rest, ' ', &word))
        bl_text_to_int64(word, &status);
    exchange->status = (int)status;
    exchange_move(exchange, PHASE_ANSWERING);
    exchange->header_count = 0;
    bl_list_init(&exchange->headers);
}

static void keep_header(struct bl_exchange *exchange, struct bl_text line)
{
    const char *colon = memchr(line.data, ':', line.size);
    if (colon == NULL)
        return;
    struct received_header *header = bl_arena_zalloc(&exchange->arena, sizeof *header);
    size_t name_size = (size_t)(colon - line.data);
    char *name = bl_arena_alloc(&exchange->arena, name_size + 1);
    for (size_t i = 0; i < name_size; i++) {
        char byte = line.data[i];
        name[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte + ('a' - 'A')) : byte;
    }
    name[name_size] = '\0';
    header->name = (struct bl_text){name, name_size};
    header->value = bl_arena_text(
        &exchange->arena, bl_text_trim((struct bl_text){colon + 1, line.size - name_size - 1}));
    bl_list_push_back(&exchange->headers, &header->link);
}

static size_t transfer_take_header(char *data, size_t size, size_t count, void *context)
{
    struct bl_exchange *exchange = context;
    size_t bytes = size * count;
    struct bl_text line = bl_text_trim((struct bl_text){data, bytes});

    exchange->header_bytes += bytes;
    exchange->header_count++;
    if (bytes > BL_WIRE_HEADER_LINE_MAX || exchange->header_bytes > BL_WIRE_HEADERS_MAX ||
        exchange->header_count > BL_WIRE_HEADER_COUNT_MAX) {
        exchange->over_limit = true;
        return 0;
    }
    if (exchange->headers_complete) /* a trailer */
        return bytes;
    if (bl_text_starts_with(line, BL_TEXT("HTTP/"))) {
        transfer_begin_answer(exchange, line);
    } else if (line.size > 0) {
        keep_header(exchange, line);
    } else if (exchange->status >= 200) {
        exchange->headers_complete = true;
        exchange->stall_left_ns = exchange->request.stall_ns;
        bl_scope_set_deadline(&exchange->timing, BL_NEVER);
        transfer_wake(exchange);
    }
    return bytes;
}

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct bl_exchange *exchange = context;
    size_t bytes = size * count;

    if (exchange->received.size >= BL_WIRE_PENDING_MAX) {
        exchange->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    bl_buffer_append(&exchange->received, (struct bl_text){data, bytes});
    exchange->body_bytes += bytes;
    transfer_wake(exchange);
    return bytes;
}

/* ---- The start ------------------------------------------------------------------------------- */

static bool has_trust(struct bl_client *client)
{
    client_decide_trust(client);
    return client->ca_file != NULL || client->ca_folder != NULL;
}

static void set_trust(struct bl_exchange *exchange)
{
    const struct bl_client *client = exchange->client;

    curl_easy_setopt(exchange->easy, CURLOPT_SSL_VERIFYPEER, 1l);
    curl_easy_setopt(exchange->easy, CURLOPT_SSL_VERIFYHOST, 2l);
    curl_easy_setopt(exchange->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    /* With a file and no folder, curl reads the certificates once for all connections. */
    curl_easy_setopt(exchange->easy, CURLOPT_CAINFO, client->ca_file);
    curl_easy_setopt(exchange->easy, CURLOPT_CAPATH, client->ca_folder);
    curl_easy_setopt(exchange->easy, CURLOPT_PROXY_CAINFO, client->ca_file);
    curl_easy_setopt(exchange->easy, CURLOPT_PROXY_CAPATH, client->ca_folder);
}

static long http_version(const struct bl_exchange *exchange)
{
    if (!exchange->client->options.http2)
        return CURL_HTTP_VERSION_1_1;
    return exchange->url.secure ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
}

static void set_request(struct bl_exchange *exchange)
{
    CURL *easy = exchange->easy;
    const struct bl_http_request *request = &exchange->request;

    curl_easy_setopt(easy, CURLOPT_URL, request->url);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1l);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0l);
    if (strcmp(request->method, "GET") != 0) {
        curl_easy_setopt(easy, CURLOPT_POST, 1l);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                         request->body.data != NULL ? request->body.data : "");
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->headers_sent);
    /* Headers for the server are not sent to the proxy. */
    curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1l);
    curl_easy_setopt(easy, CURLOPT_PROXY, exchange->proxy != NULL ? exchange->proxy : "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    curl_easy_setopt(easy, CURLOPT_RESOLVE, exchange->addresses);
    if (exchange->client->options.decodes)
        curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip, deflate");
    long version = http_version(exchange);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version);
    /* This libcurl loses the second request on such a connection. */
    if (version == CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE)
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1l);
}

static void set_callbacks(struct bl_exchange *exchange)
{
    CURL *easy = exchange->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->curl_text);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1l);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, READ_SIZE);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CURL_CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, 60l);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, note_socket);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, about_to_send);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, transfer_take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    if (exchange->request.body.size > SLOW_BODY_SIZE) {
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0l);
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, uploading);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, exchange);
    }
}

void transfer_begin(void *argument)
{
    struct bl_exchange *exchange = argument;

    /* Stopped while it waited for its turn. */
    if (exchange->was_cut)
        return;
    exchange_move(exchange, PHASE_CONNECTING);
    if (exchange->url.secure && !has_trust(exchange->client)) {
        exchange_fail(exchange, "tls", false,
                      "no trusted certificates found: install "
                      "ca-certificates, or set SSL_CERT_FILE");
        return;
    }
    CURLM *multi = client_multi(exchange->client);
    exchange->easy = curl_easy_init();
    if (exchange->easy == NULL)
        bl_out_of_memory(0);
    set_request(exchange);
    set_callbacks(exchange);
    if (exchange->url.secure)
        set_trust(exchange);
    client_count(exchange->client, 1);
    CURLMcode code = curl_multi_add_handle(multi, exchange->easy);
    if (code == CURLM_OK)
        return;
    exchange_fail(exchange, "connect", false, curl_multi_strerror(code));
    transfer_release(exchange);
}

void transfer_resume(void *argument)
{
    struct bl_exchange *exchange = argument;

    if (exchange->easy != NULL)
        curl_easy_pause(exchange->easy, CURLPAUSE_CONT);
}
