/* Declarations shared by the files of JSON-RPC. */
#ifndef BELAY_WIRE_RPC_PARTS_H
#define BELAY_WIRE_RPC_PARTS_H

#include <belay/rpc.h>

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Splits bytes into lines at LF only. A line that is too long is reported once, as soon as that is
 * known, and skipped without storing it. Embedded by its owner. */
struct rpc_lines {
    struct bl_buffer pending; /* an unfinished line */
    size_t line_max;
    bool skipping;
};

/* Takes a line without LF or CRLF, or an empty one with `too_long`. A result other than 0 ends the
 * feed. May wait. */
typedef int rpc_line_take(void *context, struct bl_text line, bool too_long);

void rpc_lines_init(struct rpc_lines *lines, size_t line_max);
void rpc_lines_done(struct rpc_lines *lines);
int rpc_lines_feed(struct rpc_lines *lines, struct bl_text bytes, rpc_line_take *take,
                   void *context);
/* Ends the input: the rest without an LF is a line, too. */
int rpc_lines_end(struct rpc_lines *lines, rpc_line_take *take, void *context);

/* ---- Output queue ---------------------------------------------------------------------------- */

/* Messages in order. A message is written at once if none is queued before it. Embedded by its
 * owner. */
struct rpc_queue {
    int fd;
    bool socket;
    bool quiet; /* SIGPIPE must be suppressed */
    struct bl_list blocks;
    size_t gone;         /* bytes of the first block already written */
    size_t size;         /* bytes queued */
    uint64_t accepted;   /* bytes written so far */
    uint64_t waiting_ns; /* time of the last progress while bytes are queued */
};

void rpc_queue_init(struct rpc_queue *queue, int fd);
void rpc_queue_clear(struct rpc_queue *queue); /* drops all queued messages */
/* Takes a message with its LF. Returns 0 if nothing is queued, BL_EAGAIN if something is, or
 * another code if the output fails. */
int rpc_queue_put(struct rpc_queue *queue, struct bl_text message);
/* The same; text may be added to this message under `key`. Its last `tail_size` bytes come after
 * the text. */
int rpc_queue_put_open(struct rpc_queue *queue, struct bl_text message, struct bl_text key,
                       size_t tail_size);
/* Inserts `text` before the tail of the last message. Returns false if there is none, if it has
 * another key, or if it is already being written. */
bool rpc_queue_join(struct rpc_queue *queue, struct bl_text key, struct bl_text text);
/* Writes as much as the descriptor takes. Returns the codes of rpc_queue_put. */
int rpc_queue_write(struct rpc_queue *queue);

/* ---- A connection ---------------------------------------------------------------------------- */

/* An event for which several fibers can wait. */
struct rpc_event {
    struct bl_semaphore semaphore;
    unsigned waiting;
};

/* One direction of a connection. */
struct rpc_end {
    int fd;
    bool own;                         /* opened again by us, so closed by us */
    struct bl_descriptor *descriptor; /* NULL: never blocks (a regular file) */
};

struct bl_rpc {
    struct bl_rpc_options options;
    struct bl_nursery *nursery;
    struct rpc_end in;
    struct rpc_end out; /* shares the descriptor of `in` if both are the same */
    struct rpc_lines lines;
    struct rpc_queue queue;
    struct bl_buffer message; /* the message being written */
    struct bl_buffer escaped; /* an escaped piece of text */
    struct bl_arena arena;    /* for the line being read */
    struct bl_scope reading;
    struct bl_scope writing; /* a shield: answers are written regardless of stops */
    bool writing_begun;
    struct bl_semaphore more; /* wakes the writing fiber */
    bool idle;                /* the writing fiber waits for `more` */
    struct rpc_event
        progress; /* bytes were written, a call or a fiber has ended, or the peer is disconnected */
    struct bl_list calls;
    uint32_t call_count;
    struct bl_list asks;
    int64_t next_id;
    uint32_t fibers;      /* reading, writing and watching fibers */
    uint32_t users;       /* fibers that wait in a function here and use the connection
                             afterwards */
    const char *gone_why; /* NULL: connected */
    bool broken;          /* output has failed */
    bool input_ended;     /* or is not read any more */
    bool closing;
    bool ended;
};

struct bl_rpc_call {
    struct bl_list link;
    struct bl_rpc *rpc;
    struct bl_rpc_message message;
    struct bl_arena arena;
    struct bl_scope scope;
    void (*main)(void *context, struct bl_rpc_call *call);
    void *context;
    bool started;
    bool answered;
};

int rpc_event_wait(struct rpc_event *event);
void rpc_event_signal(struct rpc_event *event);

/* Sends `rpc->message`, which has no LF; never waits. */
void rpc_send(struct bl_rpc *rpc);
void rpc_forget(struct bl_buffer *buffer);   /* empties the buffer, and frees it if it is large */
void rpc_sent(struct bl_rpc *rpc, int code); /* handles the result of the queue */
/* The peer has let too much pile up, or for too long: disconnects it. */
void rpc_takes_nothing(struct bl_rpc *rpc);
const char *rpc_origin(const struct bl_rpc *rpc);

/* Serves a request; called in the reading fiber. Takes over `rpc->arena`, which holds the message.
 */
void rpc_call_begin(struct bl_rpc *rpc, const struct bl_rpc_message *message);
void rpc_calls_stop(struct bl_rpc *rpc, enum bl_stop_reason reason);
/* Handles an answer to one of our requests. */
void rpc_ask_end(struct bl_rpc *rpc, const struct bl_rpc_message *message, struct bl_text line);
/* Fails all of our requests that are waiting for an answer. */
void rpc_asks_fail(struct bl_rpc *rpc);

#endif
