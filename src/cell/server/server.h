/* The server's internals: connections, their requests, and the sessions that they have opened.
 *
 * Design notes.
 *
 * A connection is a fiber that reads. Each of its requests is another fiber, so that no request
 * delays the reading or another request. Only requests for one cell begin in the order of their
 * arrival, and a request after a create waits for the create's end. Frames are sent at once if the
 * client takes them; otherwise they wait in one of two queues, of which the urgent one goes first.
 *
 *   new     --hello-->                                       ready
 *   new     --anything else, 5 s-->                          dead
 *   ready   --end of input, bye of any kind, too slow-->     dead
 *
 * Once a connection is dead, none of its pending requests begins, and those in progress are
 * stopped; its fiber then cleans up. Its sessions live on without it for a while. */
#ifndef BELAY_CELL_SERVER_H
#define BELAY_CELL_SERVER_H

#include "cell/parts.h"

/* Time limits for a client's hello, between two bytes of one frame, and for taking the last frames
 * at the end. Shorter only in tests. */
extern uint64_t server_hello_ns, server_silence_ns, server_farewell_ns;

struct server_connection;
struct server_call;

/* Fibers that wait for an event. Each checks its condition again when it is woken. */
struct server_signal {
    struct bl_list waiting;
};

int server_signal_wait(struct server_signal *signal);
void server_signal_tell(struct server_signal *signal);

struct bl_cell_server {
    struct bl_cell_server_options options;
    char instance[BL_ID_SIZE];
    char path[1024]; /* of its socket, or "" */
    struct bl_local_file file;
    int listener;
    struct bl_descriptor *descriptor;
    struct bl_nursery nursery; /* of the connections and of the fibers that close sessions */
    struct bl_scope scope;
    struct bl_fiber *fiber;
    struct bl_list connections; /* oldest first */
    uint32_t connection_count;
    struct bl_map sessions;        /* by id: struct server_session */
    struct server_signal changed;  /* a request or a connection has ended */
    struct bl_semaphore lingering; /* given when the next time to wait for may have changed */
    bool ended;                    /* on standard streams: the connection has ended */
    char *buffer; /* SERVER_READ_SIZE; shared by all readers, not kept across a wait */
};

#define SERVER_READ_SIZE ((size_t)64 * 1024)

void server_log(const struct bl_cell_server *server, const char *format, ...) BL_PRINTF(2, 3);

/* ---- client.c -------------------------------------------------------------------------------- */

/* The default path of a host's socket. */
int cell_socket_path(char *out, size_t out_size, struct bl_error *error);

/* ---- connection.c ---------------------------------------------------------------------------- */

/* A frame to be sent, with its head. */
struct server_out {
    struct bl_list link;
    struct bl_buffer bytes;
    struct server_call *call; /* the call that it carries, while it is queued, or NULL */
};

struct server_connection {
    struct bl_list link;
    struct bl_cell_server *server;
    int input, output;
    struct bl_descriptor *reading, *writing; /* the same for a socket; NULL for a regular file */
    struct bl_scope scope;
    struct bl_nursery nursery; /* of its requests and of the fiber that writes */
    bool ready, dead;
    struct bl_arena arena;
    struct bl_text client;
    unsigned capabilities;
    struct bl_frames frames;
    struct bl_text first;    /* the first frame, once it is complete */
    struct bl_list openings; /* struct server_opening */
    unsigned opening_count;
    struct bl_list requests; /* struct server_request, in order of arrival */
    unsigned request_count;
    struct bl_list urgent, usual; /* struct server_out */
    struct server_out *current;   /* being written */
    size_t written;               /* bytes of `current` */
    size_t queued_frames, queued_bytes;
    bool blocked; /* the client takes no more for now */
    struct bl_semaphore writing_wanted;
};

/* Takes ownership of the descriptors, even if it fails. */
int server_connection_start(struct bl_cell_server *server, int input, int output);
/* Sends bye and marks the connection dead. With `keep`, queued frames are sent first. */
void server_connection_bye(struct server_connection *connection, const char *reason, bool keep,
                           const char *message);
/* Marks the connection dead without bye. */
void server_connection_drop(struct server_connection *connection);

/* Builds a frame to be sent: begin, write one object with the writer, end. */
struct server_message {
    struct bl_json_writer writer;
    struct server_out *out;
};

void server_message_begin(struct server_message *message);
/* Sends the frame, or queues it; discards it if the connection is dead. BL_ELIMIT if it is larger
 * than a frame may be; then it was not sent. */
int server_message_end(struct server_message *message, struct server_connection *connection,
                       bool urgent, struct server_call *call);
/* Returns whether the queue has room for frames that may be left out. */
bool server_connection_idle(const struct server_connection *connection);
/* Removes an unsent frame from its queue. */
void server_out_drop(struct server_connection *connection, struct server_out *out);

/* ---- frame.c --------------------------------------------------------------------------------- */

struct server_request {
    struct bl_list link;
    struct server_connection *connection;
    struct bl_arena arena;
    struct cell_frame *frame;
    const char *cell_id; /* NULL if it is about the session */
    struct bl_scope scope;
    bool started; /* its fiber and its scope exist */
    bool begun;   /* the fiber runs */
};

/* Handles one frame of a ready connection; a bl_line_take. */
int server_take_frame(void *connection, struct bl_text frame);
/* Drops the requests that have not started. */
void server_requests_stop(struct server_connection *connection);
/* Returns whether one of its creates is in progress. */
bool server_requests_creating(const struct server_connection *connection);

/* ---- session.c ------------------------------------------------------------------------------- */

/* A session that at least one connection has opened. */
struct server_session {
    struct bl_cell_server *server;
    char id[BL_CELL_ID_SIZE];
    struct bl_lock lock;             /* held while it is opened or closed */
    struct bl_cell_session *session; /* NULL: not open */
    bool closing;
    unsigned references;      /* held by fibers that use it */
    struct bl_list openings;  /* struct server_opening, newest last */
    uint64_t linger_ms;       /* from the newest open */
    uint64_t linger_until_ns; /* end of the time without a connection; BL_NEVER if it has one */
    bool has_tools;           /* some client has served tools */
    struct bl_list calls;     /* struct server_call, oldest first */
    struct bl_list notifies;  /* struct server_notify, oldest first */
    size_t orphan_bytes;      /* of texts whose cell has ended */
};

/* The opening of a session by a connection. */
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
/* Finds a session that this connection has opened, and holds it for an operation until
 * server_session_unuse. */
int server_session_use(struct server_connection *connection, const struct cell_request *request,
                       struct server_session **ret_session, struct bl_cell_fault *fault);
void server_session_unuse(struct server_session *session);
/* Removes the openings of a dead connection. */
void server_session_leave(struct server_connection *connection);
/* Closes sessions whose time without a connection is over. The main function of a fiber. */
int server_session_linger(void *server);
/* Closes all sessions. */
void server_sessions_end(struct bl_cell_server *server, enum bl_stop_reason reason,
                         const char *origin);

/* ---- call.c ---------------------------------------------------------------------------------- */

/* The port of a session; `context` is a struct server_session. */
void server_port_call(void *context, const struct bl_cell_call *call,
                      struct bl_cell_call_result *ret_result);
void server_port_notify(void *context, const char *cell_id, uint64_t seq, struct bl_text text);
void server_port_event(void *context, const struct bl_cell_event *event);
/* After the reply to an open was sent: sends this connection what an earlier one left
 * unanswered. */
void server_session_opened(struct server_connection *connection, const char *session_id);
/* Detaches calls and texts from a dead connection, so that they can be sent elsewhere. */
void server_calls_leave(struct server_session *session, struct server_connection *connection);
void server_notifies_drop(struct server_session *session);
void server_tool_result(struct server_connection *connection, const struct cell_frame *frame);
void server_notify_ack(struct server_connection *connection, const struct cell_frame *frame);
/* The frame of a call was queued; is being written, so that the client may see it from now on; or
 * has left the queue, unsent unless it was reported as being written before. */
void server_call_queued(struct server_call *call, struct server_out *out);
void server_call_sent(struct server_call *call);
void server_call_unqueued(struct server_call *call);

#endif
