/* The server's own: connections, what they ask, and the sessions that they have opened.
 *
 * Design notes.
 *
 * A connection is a fiber that reads. Each request of it is a fiber besides, so that no request
 * holds up another, nor the reading; only those for one cell begin in the order in which they came,
 * and what follows a create waits for its end. What is to be sent goes out at once where the other
 * side takes it, else it waits in one of two queues, of which one goes first.
 *
 *   new     --hello-->                                       ready
 *   new     --anything else, 5 s-->                          dead
 *   ready   --end of input, bye of any kind, too slow-->     dead
 *
 * From the moment when a connection is dead nothing that it sent begins, and what it waits for is
 * stopped; its fiber then sees to the rest. Sessions live on without it, for a while. */
#ifndef BELAY_CELL_SERVER_H
#define BELAY_CELL_SERVER_H

#include "cell/parts.h"

/* How long the other side may take: for its hello, between two bytes of one frame, and to take what
 * is left to be said at the end. Less only in tests. */
extern uint64_t server_hello_ns, server_silence_ns, server_farewell_ns;

struct server_connection;
struct server_call;

/* Fibers that wait for something to happen: each looks again when it is woken. */
struct server_signal {
    struct bl_list waiting;
};

int server_signal_wait(struct server_signal *signal);
void server_signal_tell(struct server_signal *signal);

struct bl_cell_server {
    struct bl_cell_server_options options;
    char instance[BL_ID_SIZE];
    char path[1024]; /* of its socket; "": none */
    struct bl_local_file file;
    int listener;
    struct bl_descriptor *descriptor;
    struct bl_nursery nursery; /* of the connections, and of what sees to sessions */
    struct bl_scope scope;
    struct bl_fiber *fiber;
    struct bl_list connections; /* oldest first */
    uint32_t connection_count;
    struct bl_map sessions;        /* by id: struct server_session */
    struct server_signal changed;  /* a request or a connection has ended */
    struct bl_semaphore lingering; /* given when there may be a new time to wait for */
    bool ended;                    /* of standard streams: the input */
    char *buffer; /* SERVER_READ_SIZE; used by whoever reads, and not across a wait */
};

#define SERVER_READ_SIZE ((size_t)64 * 1024)

void server_log(const struct bl_cell_server *server, const char *format, ...) BL_PRINTF(2, 3);

/* ---- client.c -------------------------------------------------------------------------------- */

/* Where a host usually listens. */
int cell_socket_path(char *out, size_t out_size, struct bl_error *error);

/* ---- server_connection.c --------------------------------------------------------------------- */

/* One frame to be sent, with its head. */
struct server_out {
    struct bl_list link;
    struct bl_buffer bytes;
    struct server_call *call; /* that it is about, while it waits; NULL: none */
};

struct server_connection {
    struct bl_list link;
    struct bl_cell_server *server;
    int input, output;
    struct bl_descriptor *reading, *writing; /* one and the same of a socket; NULL: a file */
    struct bl_scope scope;
    struct bl_nursery nursery; /* of its requests, and of what writes */
    bool ready, dead;
    struct bl_arena arena;
    struct bl_text client;
    unsigned capabilities;
    struct bl_frames frames;
    struct bl_text first;    /* the first frame, once it is there */
    struct bl_list openings; /* struct server_opening */
    unsigned opening_count;
    struct bl_list requests; /* struct server_request, in the order in which they came */
    unsigned request_count;
    struct bl_list urgent, usual; /* struct server_out */
    struct server_out *current;   /* being written */
    size_t written;               /* of it */
    size_t queued_frames, queued_bytes;
    bool blocked; /* the other side takes no more for now */
    struct bl_semaphore writing_wanted;
};

/* Takes the descriptors over, also when it fails. */
int server_connection_start(struct bl_cell_server *server, int input, int output);
/* Says goodbye and is dead from now on. `keep`: what waits to be sent is sent before. */
void server_connection_bye(struct server_connection *connection, const char *reason, bool keep,
                           const char *message);
/* Dead, without a word. */
void server_connection_drop(struct server_connection *connection);

/* A frame to be sent: begin, write one object with the writer, end. */
struct server_message {
    struct bl_json_writer writer;
    struct server_out *out;
};

void server_message_begin(struct server_message *message);
/* Sends it, or queues it. Of a dead connection it is thrown away. BL_ELIMIT: it is too large for a
 * frame, and was not sent. */
int server_message_end(struct server_message *message, struct server_connection *connection,
                       bool urgent, struct server_call *call);
/* There is room for what may as well be left unsaid. */
bool server_connection_idle(const struct server_connection *connection);
/* Takes a frame out of its queue, unsent. */
void server_out_drop(struct server_connection *connection, struct server_out *out);

/* ---- server_frame.c -------------------------------------------------------------------------- */

struct server_request {
    struct bl_list link;
    struct server_connection *connection;
    struct bl_arena arena;
    struct cell_frame *frame;
    const char *cell_id; /* NULL: it is about the session */
    struct bl_scope scope;
    bool started; /* its fiber is there, and its scope */
    bool begun;   /* that has begun with it */
};

/* One frame of a connection that is ready; a bl_line_take. */
int server_take_frame(void *connection, struct bl_text frame);
/* Those that have not begun never will, the others are stopped. */
void server_requests_stop(struct server_connection *connection);
/* A create of it is under way. */
bool server_requests_creating(const struct server_connection *connection);

/* ---- server_session.c ------------------------------------------------------------------------ */

/* A session that some connection has opened. */
struct server_session {
    struct bl_cell_server *server;
    char id[BL_CELL_ID_SIZE];
    struct bl_lock lock;             /* of opening and closing it */
    struct bl_cell_session *session; /* NULL: not open */
    bool closing;
    unsigned references;      /* by fibers that are at work on it */
    unsigned working;         /* operations that must end before it is closed */
    struct bl_list openings;  /* struct server_opening, newest last */
    uint64_t linger_ms;       /* of the newest */
    uint64_t linger_until_ns; /* without a connection; BL_NEVER: it has one */
    bool has_tools;           /* somebody has served them */
    struct bl_list calls;     /* struct server_call, oldest first */
    struct bl_list notifies;  /* struct server_notify, oldest first */
    size_t orphan_bytes;      /* of those whose cell has ended */
};

/* A connection has opened a session. */
struct server_opening {
    struct bl_list of_session, of_connection;
    struct server_session *session;
    struct server_connection *connection;
    bool serves_tools;
};

struct server_opening *server_opening_find(const struct server_connection *connection,
                                           const char *session_id);
int server_session_open(struct server_connection *connection, const struct cell_request *request,
                        struct bl_cell_fault *fault);
int server_session_close(struct server_connection *connection, const struct cell_request *request,
                         struct bl_buffer *ret_receipt, struct bl_cell_fault *fault);
/* One that this connection has opened, for an operation, until it is let go. */
int server_session_use(struct server_connection *connection, const struct cell_request *request,
                       struct server_session **ret_session, struct bl_cell_fault *fault);
void server_session_unuse(struct server_session *session);
/* The connection is dead: it has nothing open any more. */
void server_session_leave(struct server_connection *connection);
/* Closes those whose time without a connection is over; a fiber's main. */
int server_session_linger(void *server);
/* All of them. */
void server_sessions_end(struct bl_cell_server *server, enum bl_stop_reason reason,
                         const char *origin);

/* ---- server_call.c --------------------------------------------------------------------------- */

/* The port of a session; `context` is a struct server_session. */
void server_port_call(void *context, const struct bl_cell_call *call,
                      struct bl_cell_call_result *ret_result);
void server_port_notify(void *context, const char *cell_id, uint64_t seq, struct bl_text text);
void server_port_event(void *context, const struct bl_cell_event *event);
/* The reply has gone out: what its last connection had left unanswered goes to this one. */
void server_session_opened(struct server_connection *connection, const char *session_id);
/* The connection is dead: what was sent there is nowhere. */
void server_calls_leave(struct server_session *session, struct server_connection *connection);
void server_notifies_drop(struct server_session *session);
void server_tool_result(struct server_connection *connection, const struct cell_frame *frame);
void server_notify_ack(struct server_connection *connection, const struct cell_frame *frame);
/* The frame of a call waits to be sent; is being written: from now on the other side may have seen
 * it; waits no more, and was not sent unless that was said before. */
void server_call_queued(struct server_call *call, struct server_out *out);
void server_call_sent(struct server_call *call);
void server_call_unqueued(struct server_call *call);

#endif
