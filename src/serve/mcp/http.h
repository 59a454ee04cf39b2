/* The parts of the HTTP carrier of `belay mcp`: requests and what is wrong with them (mcp_http.c),
 * sessions of the versions that have them and the work of each request (mcp_http_session.c), and
 * the events that go back (mcp_http_stream.c).
 *
 * A request is work in a fiber of its own; what comes of it are events of a stream; the connection
 * that brought the request, or a later one, reads the stream. So work outlives a connection where
 * the protocol wants that, and is stopped with it where the protocol wants that. */
#ifndef BELAY_SERVE_MCP_HTTP_H
#define BELAY_SERVE_MCP_HTTP_H

#include <belay/wire.h>

#include "mcp.h"

#define HTTP_BODY_MAX     ((size_t)8 << 20)
#define HTTP_SESSIONS_MAX 256u
#define HTTP_WORKS_MAX    64u /* at once, of one session */
/* What one stream holds for whoever reads it late: the oldest go first, the last one stays. */
#define HTTP_EVENTS_MAX      1024u
#define HTTP_EVENTS_SIZE_MAX ((size_t)4 << 20)
/* Streams that have ended and can still be read again, of one session. */
#define HTTP_STREAMS_KEPT_MAX 16u
#define HTTP_SESSION_ID_SIZE  33

/* Without any connection for so long a session's client is gone: 60 s, and less only in tests. */
extern uint64_t mcp_http_alone_ns;
/* After so long without an answer the headers of a stream go out, so that it can be resumed and no
 * client waits for a first byte: 100 ms, and less only in tests. */
extern uint64_t mcp_http_first_ns;
/* Who takes nothing of an answer for so long is gone: 30 s, and less only in tests. */
extern uint64_t mcp_http_take_ns;

struct http_session;
struct http_work;

/* ---- Streams (mcp_http_stream.c) ------------------------------------------------------------- */

/* What comes of one request. On the heap; freed when nobody uses it any more. */
struct http_stream {
    struct bl_list link;   /* of its session, oldest first */
    uint32_t number;       /* in its session; first part of the ids of its events */
    bool has_ids;          /* it can be resumed */
    bool primes;           /* its first event has empty data, as 2025-11-25 has it */
    bool ended;            /* no more events come */
    bool answered;         /* the last of them is the answer */
    int status;            /* of an answer that is not streamed */
    uint32_t users;        /* the work, the session, each reader */
    uint64_t next;         /* number of the next event; from 1 */
    struct bl_list events; /* oldest first */
    uint32_t event_count;
    size_t event_size;
    struct http_reader *reader; /* NULL: nobody reads it now */
    struct http_work *work;     /* NULL: it has ended */
};

/* Takes it; BL_EAGAIN: not before that time. */
int http_wait(struct bl_semaphore *semaphore, uint64_t until_ns);

struct http_stream *http_stream_new(void); /* used once: by the caller */
void http_stream_drop(struct http_stream *stream);
/* One more message, one line of JSON. */
void http_stream_put(struct http_stream *stream, struct bl_text message);
/* The end, after the last message, which is then `answered`. */
void http_stream_end(struct http_stream *stream, bool answered, int status);
/* Writes it to the connection until it has ended: events after the one of that number; `resumed`:
 * as a stream, whatever there is. Whoever reads it already leaves. 0: all is written. Else the
 * connection is gone, or slow, or was replaced: then that is closed. */
int http_stream_read(struct http_stream *stream, struct bl_http_call *call, uint64_t after,
                     bool resumed);
/* It holds events after that one. */
bool http_stream_has_after(const struct http_stream *stream, uint64_t number);
/* "STREAM-EVENT". */
bool http_event_id_parse(struct bl_text id, uint32_t *ret_stream, uint64_t *ret_event);

/* ---- Headers (mcp_http_header.c) ------------------------------------------------------------- */

/* Whether a host or an origin may ask: loopback, or one of those listed (`more`, may be NULL). */
bool http_host_listed(const char *const *more, struct bl_text host);
bool http_origin_known(const char *const *more, struct bl_text origin);
/* "Bearer TOKEN"; takes as long for a wrong one as for another wrong one. */
bool http_token_right(struct bl_text authorization, const char *token);
bool http_is_json(struct bl_text content_type);
bool http_accepts(struct bl_text accept, const char *type); /* an empty one accepts all */
/* A value as it was meant: "=?base64?…?=" is decoded. False: it is broken. */
bool http_header_value(struct bl_arena *arena, struct bl_text value, struct bl_text *ret_value);

/* Arguments that a tool's schema wants repeated in headers (x-mcp-header) are the same there. */
bool http_arguments_agree(struct bl_http_call *call, const struct bl_json *schema,
                          const struct bl_json *arguments);

/* ---- Sessions and work (mcp_http_session.c) -------------------------------------------------- */

/* All of a process. */
struct http_carrier {
    struct mcp_server *server;
    const struct bl_mcp_server_options *options;
    struct bl_nursery nursery; /* of sessions and work; no stop of the caller's reaches it */
    struct bl_map sessions;    /* by id; those that go on */
    uint32_t session_count;    /* those that end as well */
    struct bl_list works;      /* of no session */
    uint32_t readers;          /* connections that are answered */
    bool closing;
    struct bl_semaphore changed; /* something has ended, while closing */
};

static inline void http_carrier_changed(struct http_carrier *carrier)
{
    if (carrier->closing)
        bl_semaphore_give(&carrier->changed);
}

/* One client of 2025. Its fiber waits for the end of it and brings that about. */
struct http_session {
    struct http_carrier *carrier;
    char id[HTTP_SESSION_ID_SIZE];
    struct mcp_peer peer;
    struct bl_list works;
    uint32_t work_count;
    struct bl_list streams;
    uint32_t next_stream;
    struct http_stream *listening; /* what a client that only listens reads: nothing comes of it */
    uint32_t connections;
    uint64_t alone_since_ns;
    enum bl_stop_reason reason; /* of its end; none: it goes on */
    char origin[80];
    bool ended;
    struct bl_semaphore changed;
    struct bl_semaphore end;
    uint32_t users; /* its fiber, and calls that hold it */
};

/* One request under way. */
struct http_work {
    struct bl_list link; /* of its session, or of the carrier */
    struct http_carrier *carrier;
    struct http_session *session; /* NULL: a request without one */
    struct bl_arena arena;
    struct mcp_request request;
    struct mcp_peer peer; /* of a request without a session */
    struct bl_scope scope;
    struct http_stream *stream;
};

/* A request as yet without a session, in whose arena the message is to be. */
struct http_work *http_work_new(struct http_carrier *carrier);
/* Makes it a request of that session, which the caller holds. */
void http_work_join(struct http_work *work, struct http_session *session);
void http_work_free(struct http_work *work); /* that was not started; NULL is fine */
/* Serves it in a fiber. The caller gets a share of its stream. BL_ESTACKS: and all is as before. */
int http_work_start(struct http_work *work, struct http_stream **ret_stream);
/* A whole answer, one line of JSON; `reply` may be an error. */
void http_reply_write(struct bl_buffer *out, const struct bl_json *id,
                      const struct mcp_reply *reply);

/* With which status it is answered, where it is not streamed. */
int http_reply_status(const struct http_work *work, const struct mcp_reply *reply);

/* Starts one whose peer is ready for `initialize`; the caller holds it. BL_ELIMIT: too many. */
int http_session_open(struct http_carrier *carrier, struct http_session **ret_session);
/* Found, and held as by one more connection; NULL: there is none. */
struct http_session *http_session_hold(struct http_carrier *carrier, struct bl_text id);
void http_session_let_go(struct http_session *session);
/* Ends it, with all that it has under way; the first reason counts. Does not wait. */
void http_session_end(struct http_session *session, enum bl_stop_reason reason, const char *origin);
/* Waits until all of it is quiet. */
int http_session_await_end(struct http_session *session);
/* The one with that id; NULL: none. */
struct http_work *http_session_find(const struct http_session *session, const struct bl_json *id);
/* One of its streams; NULL: not known, or not any more. */
struct http_stream *http_session_stream(const struct http_session *session, uint32_t number);

#endif
