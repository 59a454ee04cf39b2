/* wire: bytes to and from other programs over HTTP, and what they mean as lines and events.
 *
 * A client that can be cut off at any byte, a small server for loopback, and the parsers of what
 * flows between them. Knows nothing of models.
 *
 * Promises: a stop closes the socket at once, whatever the exchange was doing, and touches no
 * other exchange; nothing that arrives afterwards is read, delivered or counted. Every wait has its
 * own timer with its own name. Everything that comes from outside has a limit. Nothing here has a
 * thread, but for the system's resolver where that is asked for.
 *
 * All of it belongs to fibers of one loop. */
#ifndef BELAY_WIRE_H
#define BELAY_WIRE_H

#include <sys/uio.h>

#include <belay/fiber.h>
#include <belay/json.h>

BL_PUBLIC_BEGIN

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Cuts bytes that come in any pieces into lines, that end at LF, CR or CRLF (the line end is not
 * part of the line). A CR at the end of a piece ends its line at once; an LF that opens the next is
 * swallowed. Embedded by its owner. */
struct bl_lines {
    struct bl_buffer pending; /* of a line that has not ended */
    size_t line_max;
    bool after_cr;
};

/* Gets one line; it lives as long as the call. What it returns other than 0 ends the feeding, and
 * is what that returns. May wait. */
typedef int bl_line_take(void *context, struct bl_text line);

void bl_lines_init(struct bl_lines *lines, size_t line_max);
void bl_lines_done(struct bl_lines *lines);
/* BL_ELIMIT: a line is longer than line_max. */
int bl_lines_feed(struct bl_lines *lines, struct bl_text bytes, bl_line_take *take, void *context);
/* The end of input: what stands without a line end is a line too, unless it is empty. */
int bl_lines_end(struct bl_lines *lines, bl_line_take *take, void *context);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Cuts bytes that come in any pieces into frames: 4 bytes, an unsigned big-endian length, then so
 * many bytes. The length is checked before anything is allocated, and memory grows with what has
 * come, not with what is announced. Embedded by its owner. */
struct bl_frames {
    struct bl_buffer pending; /* of a frame that is not whole, its head included */
    size_t frame_max;         /* may be changed between frames */
};

#define BL_FRAME_HEAD_SIZE 4u

void bl_frames_init(struct bl_frames *frames, size_t frame_max);
void bl_frames_done(struct bl_frames *frames);
/* Gives each whole frame on, as with lines. BL_ELIMIT: a length of 0, or above frame_max; nothing
 * after it is read. */
int bl_frames_feed(struct bl_frames *frames, struct bl_text bytes, bl_line_take *take,
                   void *context);
bool bl_frames_partial(const struct bl_frames *frames); /* in the middle of one */
void bl_frame_head(uint8_t out[BL_FRAME_HEAD_SIZE], uint32_t size);

/* ---- Local sockets --------------------------------------------------------------------------- */

/* Which file a socket has: what is there under its name later may be another's. */
struct bl_local_file {
    uint64_t device;
    uint64_t inode; /* 0: none */
};

/* Listens at `path`, 0600. A socket that nobody answers is replaced; BL_EBUSY: somebody does;
 * BL_EEXIST: it is no socket, and stays as it is. Never seen before it listens. */
int bl_local_listen(const char *path, int backlog, int *ret_fd, struct bl_local_file *ret_file,
                    struct bl_error *error);
/* Removes it, if it is still that one. */
void bl_local_remove(const char *path, const struct bl_local_file *file);
/* What a socket is called before it listens; who is killed then leaves it behind. */
bool bl_local_hidden(const char *name);
/* Non-blocking. BL_ENOENT: nobody is there; BL_EAGAIN: too many wait to be let in. */
int bl_local_connect(const char *path, int *ret_fd, struct bl_error *error);
/* As writev(2); a pipe whose reader has gone says so (EPIPE), and raises no signal. */
ssize_t bl_write_quietly(int fd, const struct iovec *parts, int count);
/* The other end runs as our user (or as root), as the kernel says. */
bool bl_local_peer_is_ours(int fd);

/* ---- Server-sent events ---------------------------------------------------------------------- */

/* One event; lives as long as the call. Both are valid UTF-8: broken parts are U+FFFD. */
struct bl_sse_event {
    struct bl_text name; /* empty: none was given */
    struct bl_text data; /* may hold NUL; lines are joined by LF */
};

typedef int bl_sse_take(void *context, const struct bl_sse_event *event); /* as bl_line_take */

/* A parser by the WHATWG rules, on bytes, in one pass. Embedded by its owner. */
struct bl_sse {
    struct bl_lines lines;
    struct bl_buffer data;    /* of the event so far, each line ends in LF */
    struct bl_buffer name;    /* "event" of it */
    struct bl_buffer id;      /* last event id: stays from event to event */
    struct bl_buffer cleaned; /* data or name with its broken parts replaced */
    size_t event_max;
    int64_t retry_ms; /* negative: none was given */
    uint8_t bom_seen; /* bytes of a leading byte order mark so far; 3: past it */
};

void bl_sse_init(struct bl_sse *sse, size_t line_max, size_t event_max);
void bl_sse_done(struct bl_sse *sse);
/* BL_ELIMIT: a line or an event is too large. */
int bl_sse_feed(struct bl_sse *sse, struct bl_text bytes, bl_sse_take *take, void *context);
/* The end of input. The rules discard an event without its blank line; here it is given on when its
 * data is one complete JSON value or "[DONE]", because many servers end so. */
int bl_sse_end(struct bl_sse *sse, bl_sse_take *take, void *context);

/* ---- Addresses ------------------------------------------------------------------------------- */

/* The parts of "https://host:443/path?query". `host` without the brackets of an IPv6 address. */
struct bl_url {
    bool secure;
    struct bl_text host;
    uint16_t port;       /* given, or by the scheme */
    struct bl_text path; /* with the query; "/" at least */
};

/* http and https only; no user part, no fragment. In `arena`. BL_EINVAL: kind usage. */
int bl_url_parse(struct bl_arena *arena, const char *text, struct bl_url *ret_url,
                 struct bl_error *error);
/* localhost, *.localhost, 127.0.0.0/8, ::1. */
bool bl_url_loopback(const struct bl_url *url);

/* As the variables of the environment say; each may be NULL. Belongs to the caller. */
struct bl_proxies {
    const char *https; /* HTTPS_PROXY */
    const char *http;  /* HTTP_PROXY; only the lower-case name may come from a CGI's environment */
    const char *all;   /* ALL_PROXY */
    const char *no;    /* NO_PROXY: names, suffixes, CIDR, "*"; commas between them */
};

/* From this process's environment: lower-case names win, and http_proxy is read in lower case
 * alone where REQUEST_METHOD is set. */
void bl_proxies_read(struct bl_proxies *ret_proxies);
/* The proxy for that address, or NULL: direct. Loopback is always direct. */
const char *bl_proxies_choose(const struct bl_proxies *proxies, const struct bl_url *url);

/* The host and port of a proxy's value, "http://user:password@host:3128" or "host:3128". BL_EINVAL:
 * not one; `error` (may be NULL) does not repeat it, since it may hold a password. */
int bl_proxy_address(struct bl_arena *arena, const char *proxy, struct bl_url *ret_url,
                     struct bl_error *error);

/* ---- The client ------------------------------------------------------------------------------ */

#define BL_WIRE_HEADER_LINE_MAX  ((size_t)16 * 1024)
#define BL_WIRE_HEADERS_MAX      ((size_t)64 * 1024)
#define BL_WIRE_HEADER_COUNT_MAX 256u
#define BL_WIRE_REQUEST_MAX      ((size_t)64 * 1024 * 1024)
#define BL_WIRE_PENDING_MAX      ((size_t)1024 * 1024)

struct bl_client_options {
    bool http2;               /* one stream a connection; else HTTP/1.1 */
    bool system_resolver;     /* a stop then abandons its thread */
    const char *name_servers; /* "10.0.0.1,10.0.0.2:5353"; NULL: the system's */
    const char *ca_file;      /* NULL: SSL_CERT_FILE and SSL_CERT_DIR, or else the system's */
    struct bl_proxies proxies;
};

/* Connections and what is kept between exchanges. One for each (provider, key): connections of one
 * are never used by another. Belongs to one loop. */
struct bl_client;

/* In a fiber. Everything that costs time is put off until it is needed. Options are copied, but
 * not the strings. */
struct bl_client *bl_client_new(const struct bl_client_options *options);
/* In a fiber; no exchange of it may be left. Closes the idle connections. NULL is fine. */
void bl_client_free(struct bl_client *client);

struct bl_http_header {
    struct bl_text name; /* any case */
    struct bl_text value;
};

/* What is asked. Its memory is the caller's, and stays as it is until the exchange is freed. */
struct bl_http_request {
    const char *method;
    const char *url;
    const struct bl_http_header *headers;
    size_t header_count;
    struct bl_text body;
    /* Timers; 0: none. */
    uint64_t connect_ns;    /* from the start to a finished handshake, names and proxy included */
    uint64_t first_byte_ns; /* from the request sent (or its last progress) to the status line */
    uint64_t stall_ns;      /* between calls of bl_exchange_meaningful, while we wait for bytes */
};

/* Why an exchange failed. */
struct bl_wire_failure {
    const char *code; /* connect, dns, tls, auth (of a proxy), limit, first_byte, stall, stream_cut,
                         bad_response; NULL: it did not */
    bool timed_out;   /* by a timer: connect, first_byte, stall */
    char message[240];
};

/* One request and its answer. */
struct bl_exchange;

/* Makes one ready; its first wait sends it. Belongs to the running fiber and its scope. BL_EINVAL,
 * BL_ELIMIT with `error` (kind usage): it cannot be sent as it is, and nothing was; BL_ENOTSUP:
 * there is no libcurl on this machine. */
int bl_exchange_new(struct bl_client *client, const struct bl_http_request *request,
                    struct bl_exchange **ret_exchange, struct bl_error *error);
/* Cuts it off if it has not ended, and waits until its socket is closed. NULL is fine. */
void bl_exchange_free(struct bl_exchange *exchange);
/* Waits for status and headers. 0; BL_ECANCELED or BL_ETIMEDOUT: the caller's scope stopped, and
 * the socket is closed; BL_EIO: bl_exchange_failure says why. */
int bl_exchange_headers(struct bl_exchange *exchange);
/* Waits for the next bytes of the body: a view that stays until the next call. Size 0: its proper
 * end. Else as bl_exchange_headers. */
int bl_exchange_read(struct bl_exchange *exchange, struct bl_text *ret_bytes);
/* What came was worth waiting for: the stall timer starts anew. */
void bl_exchange_meaningful(struct bl_exchange *exchange);
/* Nothing more is wanted of the answer: throws its rest away, if that comes within the limit, so
 * that the connection can be used again. */
void bl_exchange_drain(struct bl_exchange *exchange, uint64_t limit_ns);
int bl_exchange_status(const struct bl_exchange *exchange);
/* Value of the first header of that name; empty: none. */
struct bl_text bl_exchange_header(const struct bl_exchange *exchange, const char *name);
const struct bl_wire_failure *bl_exchange_failure(const struct bl_exchange *exchange);
/* Where it is, or was when it was cut: "in dns", "in connect", "in proxy", "in tls", "in upload",
 * "before headers", "stream cut after 812 bytes". */
void bl_exchange_place(const struct bl_exchange *exchange, char *out, size_t size);
/* The resolver's thread was left behind by a stop. */
bool bl_exchange_abandoned(const struct bl_exchange *exchange);
/* No byte of the request had gone out: it cannot have been seen. */
bool bl_exchange_unsent(const struct bl_exchange *exchange);

/* ---- The server ------------------------------------------------------------------------------ */

/* HTTP/1.1 on a loopback address, one fiber a connection. */
struct bl_http_server;
struct bl_http_call;

struct bl_http_server_options {
    const char *address;      /* of loopback: "127.0.0.1", "::1" */
    uint16_t port;            /* 0: any that is free */
    uint32_t connections_max; /* 0: 1024; more wait in the system's queue */
    size_t body_max;          /* of a request; 0: 64 MiB */
    /* Another host than loopback that requests may name ("name.test:8080"). NULL: there is none. */
    bool (*knows_host)(void *context, struct bl_text host);
    /* Looks at a request when its head has come, before its body is read. False: it has answered
     * it, and the connection ends. Must not wait. NULL: every request is served. */
    bool (*admit)(void *context, struct bl_http_call *call);
    /* Answers one request, in a fiber of its connection, in a scope that stops (client_gone) when
     * the peer goes; one that only shut down its sending side counts as gone, but gets what is
     * answered without a wait. A call that it left unanswered is answered with 500; one that it
     * left unfinished is cut off. */
    void (*serve)(void *context, struct bl_http_call *call);
    void *context;
};

/* Listens, and serves in fibers of `nursery` until it is stopped. BL_EBUSY: the port is taken. */
int bl_http_server_start(struct bl_nursery *nursery, const struct bl_http_server_options *options,
                         struct bl_http_server **ret_server, struct bl_error *error);
uint16_t bl_http_server_port(const struct bl_http_server *server);
/* Closes the port and stops what is served; waits for the end of it. NULL is fine. */
void bl_http_server_stop(struct bl_http_server *server);

struct bl_text bl_http_call_method(const struct bl_http_call *call);
struct bl_text bl_http_call_path(const struct bl_http_call *call); /* with the query */
struct bl_text bl_http_call_header(const struct bl_http_call *call, const char *name);
struct bl_text bl_http_call_body(const struct bl_http_call *call);
struct bl_arena *bl_http_call_arena(struct bl_http_call *call); /* until the call has ended */
/* A whole answer. Content-Length is its business, as are Date and Connection. */
int bl_http_call_answer(struct bl_http_call *call, int status, const struct bl_http_header *headers,
                        size_t header_count, struct bl_text body);
/* An answer in pieces (chunked): begin, any number of writes, end. Each write goes out at once. */
int bl_http_call_begin(struct bl_http_call *call, int status, const struct bl_http_header *headers,
                       size_t header_count);
int bl_http_call_write(struct bl_http_call *call, struct bl_text bytes);
int bl_http_call_end(struct bl_http_call *call);
/* Closes the connection in the middle, with a reset. */
void bl_http_call_cut(struct bl_http_call *call);

BL_PUBLIC_END

#endif
