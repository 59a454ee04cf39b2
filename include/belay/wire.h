/* wire: HTTP connections to other programs, and the parsers for lines and events.
 *
 * An HTTP client that can be cut off at any byte, a small loopback server, and the parsers for the
 * data between them. It knows nothing about models.
 *
 * Promises: a stop closes the socket at once, in any phase of the exchange, and affects no other
 * exchange; bytes that arrive afterwards are not read, delivered or counted. Each wait has its own
 * named timer. All external input is limited. No threads are used, except for the system's resolver
 * if it is selected.
 *
 * All objects belong to fibers of one loop. */
#ifndef BELAY_WIRE_H
#define BELAY_WIRE_H

#include <sys/uio.h>

#include <belay/fiber.h>
#include <belay/json.h>

BL_PUBLIC_BEGIN

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Splits input that arrives in arbitrary pieces into lines that end in LF, CR or CRLF; lines are
 * delivered without their ending. A CR at the end of a piece ends its line at once, and an LF at
 * the start of the next piece is skipped. Embedded by its owner. */
struct bl_lines {
    struct bl_buffer pending; /* an unfinished line */
    size_t line_max;
    bool after_cr;
};

/* Takes one line, which is valid during the call. A result other than 0 ends the feed, which
 * returns it. May wait. */
typedef int bl_line_take(void *context, struct bl_text line);

void bl_lines_init(struct bl_lines *lines, size_t line_max);
void bl_lines_done(struct bl_lines *lines);
/* Returns BL_ELIMIT if a line is longer than line_max. */
int bl_lines_feed(struct bl_lines *lines, struct bl_text bytes, bl_line_take *take, void *context);
/* Ends the input: a last line without an ending is delivered if it is not empty. */
int bl_lines_end(struct bl_lines *lines, bl_line_take *take, void *context);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Splits input that arrives in arbitrary pieces into frames: a 4-byte unsigned big-endian length,
 * then that number of bytes. The length is checked before anything is allocated, and memory grows
 * with the bytes received and not with the announced length. Embedded by its owner. */
struct bl_frames {
    struct bl_buffer pending; /* an incomplete frame with its header */
    size_t frame_max;         /* may be changed between frames */
};

#define BL_FRAME_HEAD_SIZE 4u

void bl_frames_init(struct bl_frames *frames, size_t frame_max);
void bl_frames_done(struct bl_frames *frames);
/* Delivers each complete frame, like bl_lines_feed. BL_ELIMIT: the length is 0 or above frame_max;
 * nothing after it is read. */
int bl_frames_feed(struct bl_frames *frames, struct bl_text bytes, bl_line_take *take,
                   void *context);
bool bl_frames_partial(const struct bl_frames *frames); /* true if a frame is incomplete */
void bl_frame_head(uint8_t out[BL_FRAME_HEAD_SIZE], uint32_t size);

/* ---- Local sockets --------------------------------------------------------------------------- */

/* Identifies the file of a socket: its path may later belong to another socket. */
struct bl_local_file {
    uint64_t device;
    uint64_t inode; /* 0: none */
};

/* Listens at `path` with mode 0600. Replaces a socket on which no process listens. BL_EBUSY: a
 * process listens on it; BL_EEXIST: the file is not a socket, and is left unchanged. The path
 * appears only after the socket listens. */
int bl_local_listen(const char *path, int backlog, int *ret_fd, struct bl_local_file *ret_file,
                    struct bl_error *error);
/* Removes the file if it is still that socket. */
void bl_local_remove(const char *path, const struct bl_local_file *file);
/* True if a file name is that of a socket before it listens; a process that is killed at that point
 * leaves it behind. */
bool bl_local_hidden(const char *name);
/* Connects a non-blocking socket. BL_ENOENT: no process listens; BL_EAGAIN: the listener's queue is
 * full. */
int bl_local_connect(const char *path, int *ret_fd, struct bl_error *error);
/* Like writev(2), but a pipe without a reader returns EPIPE and raises no signal. */
ssize_t bl_write_quietly(int fd, const struct iovec *parts, int count);
/* True if the peer runs as our user or as root, according to the kernel. */
bool bl_local_peer_is_ours(int fd);

/* ---- Server-sent events ---------------------------------------------------------------------- */

/* An event, valid during the call. Both texts are valid UTF-8: invalid bytes are replaced by
 * U+FFFD. */
struct bl_sse_event {
    struct bl_text name; /* empty if there was none */
    struct bl_text data; /* may contain NUL; lines are joined by LF */
};

typedef int bl_sse_take(void *context, const struct bl_sse_event *event); /* like bl_line_take */

/* A one-pass parser for server-sent events as the WHATWG specifies them. Embedded by its owner. */
struct bl_sse {
    struct bl_lines lines;
    struct bl_buffer data;    /* of the current event; each line ends in LF */
    struct bl_buffer name;    /* the "event" field */
    struct bl_buffer id;      /* last event id: kept across events */
    struct bl_buffer cleaned; /* data or name with invalid bytes replaced */
    size_t event_max;
    int64_t retry_ms; /* negative: none was received */
    uint8_t bom_seen; /* bytes of the byte order mark seen so far; 3: it is over */
};

void bl_sse_init(struct bl_sse *sse, size_t line_max, size_t event_max);
void bl_sse_done(struct bl_sse *sse);
/* Returns BL_ELIMIT if a line or an event is too large. */
int bl_sse_feed(struct bl_sse *sse, struct bl_text bytes, bl_sse_take *take, void *context);
/* Ends the input. The specification discards an event without its blank line. This function
 * delivers it if its data is one complete JSON value or "[DONE]", because many servers end that
 * way. */
int bl_sse_end(struct bl_sse *sse, bl_sse_take *take, void *context);

/* ---- Addresses ------------------------------------------------------------------------------- */

/* The parts of "https://host:443/path?query". `host` has no brackets around an IPv6 address. */
struct bl_url {
    bool secure;
    struct bl_text host;
    uint16_t port;       /* explicit, or the scheme's default */
    struct bl_text path; /* includes the query; at least "/" */
};

/* Parses an http or https URL without user information and fragment; in `arena`. BL_EINVAL (kind
 * usage): any other text. */
int bl_url_parse(struct bl_arena *arena, const char *text, struct bl_url *ret_url,
                 struct bl_error *error);
/* True for localhost, *.localhost, 127.0.0.0/8 and ::1. */
bool bl_url_loopback(const struct bl_url *url);

struct sockaddr;

/* True for an address that a server on the internet may have. False for addresses of this machine,
 * private, shared, link-local, multicast and documentation addresses, and for IPv6 addresses that
 * embed such an IPv4 address (IPv4-mapped, NAT64). */
bool bl_address_public(const struct sockaddr *address);
/* True if a host is recognizably not on the internet without a lookup: a non-public address,
 * localhost, a name without a dot, and names below local, internal and home.arpa. */
bool bl_url_private(const struct bl_url *url);

/* Values of the proxy variables; each may be NULL. Owned by the caller. */
struct bl_proxies {
    const char *https; /* HTTPS_PROXY */
    const char *http;  /* HTTP_PROXY; a CGI program reads only the lower-case variable */
    const char *all;   /* ALL_PROXY */
    const char *no;    /* NO_PROXY: comma-separated names, suffixes, CIDR ranges or "*" */
};

/* Reads this process's environment. Lower-case variables take precedence; if REQUEST_METHOD is set,
 * only the lower-case http_proxy is read. */
void bl_proxies_read(struct bl_proxies *ret_proxies);
/* Returns the proxy for that URL, or NULL for a direct connection. Loopback is always direct. */
const char *bl_proxies_choose(const struct bl_proxies *proxies, const struct bl_url *url);

/* Parses the host and port of a proxy: "http://user:password@host:3128" or "host:3128". BL_EINVAL:
 * invalid; `error` (may be NULL) does not contain the value, because it may hold a password. */
int bl_proxy_address(struct bl_arena *arena, const char *proxy, struct bl_url *ret_url,
                     struct bl_error *error);

/* ---- The client ------------------------------------------------------------------------------ */

#define BL_WIRE_HEADER_LINE_MAX  ((size_t)16 * 1024)
#define BL_WIRE_HEADERS_MAX      ((size_t)64 * 1024)
#define BL_WIRE_HEADER_COUNT_MAX 256u
#define BL_WIRE_REQUEST_MAX      ((size_t)64 * 1024 * 1024)
#define BL_WIRE_PENDING_MAX      ((size_t)1024 * 1024)

struct bl_client_options {
    bool http2;               /* one stream per connection; otherwise HTTP/1.1 */
    bool system_resolver;     /* use getaddrinfo in a thread, which a stop abandons */
    const char *name_servers; /* "10.0.0.1,10.0.0.2:5353"; NULL: those of the system */
    const char *ca_file;      /* NULL: SSL_CERT_FILE and SSL_CERT_DIR, or else those of the
                                 system */
    struct bl_proxies proxies;
    bool public_only; /* connects only to public addresses (bl_address_public) or the proxy */
    bool decodes;     /* accepts gzip and deflate, and delivers the decoded body */
};

/* Connections and other state kept between exchanges. Each (provider, key) has its own client, so
 * that connections are never shared between keys. Belongs to one loop. */
struct bl_client;

/* Called in a fiber. Expensive setup is deferred until it is needed. The options are copied, but
 * not their strings. */
struct bl_client *bl_client_new(const struct bl_client_options *options);
/* Called in a fiber when no exchange is left. Closes the idle connections. NULL is allowed. */
void bl_client_free(struct bl_client *client);

/* Waits for the addresses of a host, "192.0.2.1,[2001:db8::1]", in the arena; those of an address are
 * the address itself. BL_ENOENT: there are none. */
int bl_resolve(struct bl_client *client, struct bl_arena *arena, struct bl_text host,
               struct bl_text *ret_addresses, struct bl_error *error);

struct bl_http_header {
    struct bl_text name; /* in any case */
    struct bl_text value;
};

/* A request. Its memory belongs to the caller, and must not change until the exchange is freed. */
struct bl_http_request {
    const char *method;
    const char *url;
    const struct bl_http_header *headers;
    size_t header_count;
    struct bl_text body;
    /* Timers; 0 disables one. */
    uint64_t connect_ns;    /* from the start to the end of the handshake, including lookup and
                               proxy */
    uint64_t first_byte_ns; /* from the end of the request (or its last progress) to the status
                               line */
    uint64_t stall_ns;      /* between calls of bl_exchange_meaningful, counted while waiting for
                               bytes */
};

/* Why an exchange failed. */
struct bl_wire_failure {
    const char *code; /* connect, dns, tls, auth (of a proxy), limit, first_byte, stall, stream_cut,
                         bad_response, address (not public); NULL: no failure */
    bool timed_out;   /* a timer expired: connect, first_byte, stall */
    char message[240];
};

/* A request and its response. */
struct bl_exchange;

/* Creates an exchange; its first wait sends the request. It belongs to the running fiber and its
 * scope. BL_EINVAL, BL_ELIMIT with `error` (kind usage): the request is invalid, and nothing was
 * sent; BL_ENOTSUP: libcurl is not installed. */
int bl_exchange_new(struct bl_client *client, const struct bl_http_request *request,
                    struct bl_exchange **ret_exchange, struct bl_error *error);
/* Aborts an exchange that has not ended, and waits until its socket is closed. NULL is allowed. */
void bl_exchange_free(struct bl_exchange *exchange);
/* Waits for the status and headers. Returns 0; BL_ECANCELED or BL_ETIMEDOUT if the caller's scope
 * was stopped and the socket is closed; BL_EIO with the reason in bl_exchange_failure. */
int bl_exchange_headers(struct bl_exchange *exchange);
/* Waits for the next bytes of the body, a view that is valid until the next call. Size 0: the
 * regular end. Errors are those of bl_exchange_headers. */
int bl_exchange_read(struct bl_exchange *exchange, struct bl_text *ret_bytes);
/* Restarts the stall timer: the bytes received were meaningful. */
void bl_exchange_meaningful(struct bl_exchange *exchange);
/* Discards the rest of the response if it arrives within the limit, so that the connection can be
 * reused. */
void bl_exchange_drain(struct bl_exchange *exchange, uint64_t limit_ns);
int bl_exchange_status(const struct bl_exchange *exchange);
/* Returns the value of the first header with that name, or an empty text. */
struct bl_text bl_exchange_header(const struct bl_exchange *exchange, const char *name);
const struct bl_wire_failure *bl_exchange_failure(const struct bl_exchange *exchange);
/* Writes the current phase, or that in which it was aborted: "in dns", "in connect", "in proxy",
 * "in tls", "in upload", "before headers", "stream cut after 812 bytes". */
void bl_exchange_place(const struct bl_exchange *exchange, char *out, size_t size);
enum bl_exchange_where {
    BL_EXCHANGE_UNSENT,
    BL_EXCHANGE_DNS,
    BL_EXCHANGE_CONNECT,
    BL_EXCHANGE_PROXY,
    BL_EXCHANGE_TLS,
    BL_EXCHANGE_UPLOAD,
    BL_EXCHANGE_HEADERS,
    BL_EXCHANGE_BODY,
};
/* Returns the phase as a value. */
enum bl_exchange_where bl_exchange_where(const struct bl_exchange *exchange);
/* True if a stop has abandoned the resolver's thread. */
bool bl_exchange_abandoned(const struct bl_exchange *exchange);
/* True if no byte of the request was sent, so that the server cannot have seen it. */
bool bl_exchange_unsent(const struct bl_exchange *exchange);

/* ---- The server ------------------------------------------------------------------------------ */

/* An HTTP/1.1 server on a loopback address, with one fiber per connection. */
struct bl_http_server;
struct bl_http_call;

struct bl_http_server_options {
    const char *address;      /* loopback: "127.0.0.1", "::1" */
    uint16_t port;            /* 0: any free port */
    uint32_t connections_max; /* 0: 1024; further ones wait in the system's queue */
    size_t body_max;          /* of a request; 0: 64 MiB */
    /* True for a host other than loopback that requests may name ("name.test:8080"). NULL: none. */
    bool (*knows_host)(void *context, struct bl_text host);
    /* Checks a request when its header is complete, before the body is read. False: the callback
     * has answered it, and the connection is closed. Must not wait. NULL: every request is served.
     */
    bool (*admit)(void *context, struct bl_http_call *call);
    /* Answers a request in a fiber of its connection. Its scope is stopped (client_gone) when the
     * peer disconnects. A peer that only shut down its sending side counts as disconnected, but
     * receives an answer that is made without waiting. A call left unanswered gets status 500; one
     * left unfinished is aborted. */
    void (*serve)(void *context, struct bl_http_call *call);
    void *context;
};

/* Listens, and serves requests in fibers of `nursery` until it is stopped. BL_EBUSY: the port is in
 * use. */
int bl_http_server_start(struct bl_nursery *nursery, const struct bl_http_server_options *options,
                         struct bl_http_server **ret_server, struct bl_error *error);
uint16_t bl_http_server_port(const struct bl_http_server *server);
/* Closes the port, stops running calls and waits for their end. NULL is allowed. */
void bl_http_server_stop(struct bl_http_server *server);

struct bl_text bl_http_call_method(const struct bl_http_call *call);
struct bl_text bl_http_call_path(const struct bl_http_call *call); /* includes the query */
struct bl_text bl_http_call_header(const struct bl_http_call *call, const char *name);
struct bl_text bl_http_call_body(const struct bl_http_call *call);
struct bl_arena *bl_http_call_arena(struct bl_http_call *call); /* valid until the call ends */
/* Sends a complete response. Content-Length, Date and Connection are set by the server. */
int bl_http_call_answer(struct bl_http_call *call, int status, const struct bl_http_header *headers,
                        size_t header_count, struct bl_text body);
/* Sends a response in pieces (chunked): begin, any number of writes, end. Each write is sent at
 * once. */
int bl_http_call_begin(struct bl_http_call *call, int status, const struct bl_http_header *headers,
                       size_t header_count);
int bl_http_call_write(struct bl_http_call *call, struct bl_text bytes);
int bl_http_call_end(struct bl_http_call *call);
/* Resets the connection before the response is complete. */
void bl_http_call_cut(struct bl_http_call *call);

BL_PUBLIC_END

#endif
