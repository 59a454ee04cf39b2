/* The parts of the HTTP carrier of `belay mcp`: requests and their errors (http.c), headers
 * (http_header.c), sessions and work (http_session.c), and event streams (http_stream.c).
 *
 * A request is work in a fiber of its own. Its messages are events of a stream, which the
 * connection of the request, or a later one, reads. So work outlives its connection where the
 * protocol requires that, and is stopped with it where the protocol requires that. */
#ifndef BELAY_SERVE_MCP_HTTP_H
#define BELAY_SERVE_MCP_HTTP_H

#include <belay/wire.h>

#include "mcp.h"

#define HTTP_BODY_MAX     ((size_t)8 << 20)
#define HTTP_SESSIONS_MAX 256u
#define HTTP_WORKS_MAX    64u /* at once, in one session */
/* What one stream keeps for a late reader: the oldest events are dropped first, the last one
 * stays. */
#define HTTP_EVENTS_MAX      1024u
#define HTTP_EVENTS_SIZE_MAX ((size_t)4 << 20)
/* Ended streams of one session that can still be read again. */
#define HTTP_STREAMS_KEPT_MAX 16u
#define HTTP_SESSION_ID_SIZE  33

/* A session without a connection for this long is ended: 60 s, shorter only in tests. */
extern uint64_t mcp_http_alone_ns;
/* If there is no answer within this time, the headers of a stream are sent, so that it can be
 * resumed and the client gets a first byte: 100 ms, shorter only in tests. */
extern uint64_t mcp_http_first_ns;
/* A client that reads nothing of an answer for this long is disconnected: 30 s, shorter only in
 * tests. */
extern uint64_t mcp_http_take_ns;

struct http_session;
struct http_work;

/* ---- Streams (http_stream.c) ----------------------------------------------------------------- */

/* The messages of one request. On the heap; freed with its last user. */
struct http_stream {
    struct bl_list link;   /* in its session, oldest first */
    uint32_t number;       /* in its session; first part of the ids of its events */
    bool has_ids;          /* it can be resumed */
    bool primes;           /* its first event has empty data, as 2025-11-25 requires */
    bool ended;            /* no more events follow */
    bool answered;         /* the last event is the answer */
    int status;            /* status of an answer that is not streamed */
    uint32_t users;        /* the work, the session, each reader */
    uint64_t next;         /* number of the next event; from 1 */
    struct bl_list events; /* oldest first */
    uint32_t event_count;
    size_t event_size;
    struct http_reader *reader; /* NULL if no connection reads it now */
    struct http_work *work;     /* NULL once it has ended */
};

/* Takes the semaphore; BL_EAGAIN if that time comes first. */
int http_wait(struct bl_semaphore *semaphore, uint64_t until_ns);

struct http_stream *http_stream_new(void); /* with one user: the caller */
void http_stream_drop(struct http_stream *stream);
/* Adds a message, one line of JSON. */
void http_stream_put(struct http_stream *stream, struct bl_text message);
/* Ends the stream after the last message; `answered` if that is the answer. */
void http_stream_end(struct http_stream *stream, bool answered, int status);
/* Writes the stream to the connection until it has ended: the events after number `after`; with
 * `resumed`, always as an event stream. A previous reader leaves. Returns 0 if everything is
 * written; otherwise the connection is closed, too slow or replaced, and must be closed. */
int http_stream_read(struct http_stream *stream, struct bl_http_call *call, uint64_t after,
                     bool resumed);
/* Returns whether it keeps events after that one. */
bool http_stream_has_after(const struct http_stream *stream, uint64_t number);
/* Parses "STREAM-EVENT". */
bool http_event_id_parse(struct bl_text id, uint32_t *ret_stream, uint64_t *ret_event);

/* ---- Headers (http_header.c) ----------------------------------------------------------------- */

/* Return whether a host or an origin is allowed: loopback, or in the list `more` (may be NULL). */
bool http_host_listed(const char *const *more, struct bl_text host);
bool http_origin_known(const char *const *more, struct bl_text origin);
/* Checks "Bearer TOKEN", in a time that does not depend on the token. */
bool http_token_right(struct bl_text authorization, const char *token);
bool http_is_json(struct bl_text content_type);
bool http_accepts(struct bl_text accept, const char *type); /* an empty `accept` accepts
                                                               everything */
/* Decodes a value of the form "=?base64?…?=". Returns false if it is malformed. */
bool http_header_value(struct bl_arena *arena, struct bl_text value, struct bl_text *ret_value);

/* Returns whether the arguments that the schema wants repeated in headers (x-mcp-header) agree. */
bool http_arguments_agree(struct bl_http_call *call, const struct bl_json *schema,
                          const struct bl_json *arguments);

/* ---- Sessions and work (http_session.c) ------------------------------------------------------ */

/* One for each process. */
struct http_carrier {
    struct mcp_server *server;
    const struct bl_mcp_server_options *options;
    struct bl_nursery nursery; /* of sessions and work; no stop of the caller reaches it */
    struct bl_map sessions;    /* by id; without those that are ending */
    uint32_t session_count;    /* with those that are ending */
    struct bl_list works;      /* outside sessions */
    uint32_t readers;          /* connections that are being answered */
    bool closing;
    struct bl_semaphore changed; /* given while closing when something has ended */
};

static inline void http_carrier_changed(struct http_carrier *carrier)
{
    if (carrier->closing)
        bl_semaphore_give(&carrier->changed);
}

/* One client of a 2025 version. A fiber of its own waits for its end and carries it out. */
struct http_session {
    struct http_carrier *carrier;
    char id[HTTP_SESSION_ID_SIZE];
    struct mcp_peer peer;
    struct bl_list works;
    uint32_t work_count;
    struct bl_list streams;
    uint32_t next_stream;
    struct http_stream *listening; /* read by a client that only listens: gets no events */
    uint32_t connections;
    uint64_t alone_since_ns;
    enum bl_stop_reason reason; /* reason of its end; none: it is open */
    char origin[80];
    bool ended;
    struct bl_semaphore changed;
    struct bl_semaphore end;
    uint32_t users; /* its fiber, and the calls that hold it */
};

/* One request in progress. */
struct http_work {
    struct bl_list link; /* in its session or the carrier */
    struct http_carrier *carrier;
    struct http_session *session; /* NULL: none */
    struct bl_arena arena;
    struct mcp_request request;
    struct mcp_peer peer; /* of a request without a session */
    struct bl_scope scope;
    struct http_stream *stream;
};

/* Makes a request without a session. The message must be in its arena. */
struct http_work *http_work_new(struct http_carrier *carrier);
/* Makes it a request of the session, which the caller holds. */
void http_work_join(struct http_work *work, struct http_session *session);
void http_work_free(struct http_work *work); /* only if not started; NULL is fine */
/* Starts it in a fiber. The caller becomes a user of its stream. BL_ESTACKS: nothing has
 * changed. */
int http_work_start(struct http_work *work, struct http_stream **ret_stream);
/* Writes a complete answer, one line of JSON; `reply` may be an error. */
void http_reply_write(struct bl_buffer *out, const struct bl_json *id,
                      const struct mcp_reply *reply);

/* Returns the status of an answer that is not streamed. */
int http_reply_status(const struct http_work *work, const struct mcp_reply *reply);

/* Opens a session whose peer expects `initialize`, held by the caller. BL_ELIMIT: too many. */
int http_session_open(struct http_carrier *carrier, struct http_session **ret_session);
/* Finds a session and holds it as another connection; NULL if there is none. */
struct http_session *http_session_hold(struct http_carrier *carrier, struct bl_text id);
void http_session_release(struct http_session *session);
/* Ends it with all its work in progress; the first reason counts. Does not wait. */
void http_session_end(struct http_session *session, enum bl_stop_reason reason, const char *origin);
/* Waits until all its work is quiet. */
int http_session_await_end(struct http_session *session);
/* Returns the request with that id, or NULL. */
struct http_work *http_session_find(const struct http_session *session, const struct bl_json *id);
/* Returns one of its streams, or NULL if it is unknown or was dropped. */
struct http_stream *http_session_stream(const struct http_session *session, uint32_t number);

#endif
