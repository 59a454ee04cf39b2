/* What the files of JSON-RPC share. */
#ifndef BELAY_WIRE_RPC_PARTS_H
#define BELAY_WIRE_RPC_PARTS_H

#include <belay/rpc.h>

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Cuts bytes into lines at LF, and at nothing else. One that is too long is told once, as soon as
 * it is, and skipped to its end without being kept. Embedded by its owner. */
struct rpc_lines {
    struct bl_buffer pending; /* of a line that has not ended */
    size_t line_max;
    bool skipping;
};

/* `line` without LF and a CR before it; empty and `too_long`: one that was. What it returns other
 * than 0 ends the feeding. May wait. */
typedef int rpc_line_take(void *context, struct bl_text line, bool too_long);

void rpc_lines_init(struct rpc_lines *lines, size_t line_max);
void rpc_lines_done(struct rpc_lines *lines);
int rpc_lines_feed(struct rpc_lines *lines, struct bl_text bytes, rpc_line_take *take,
                   void *context);
/* The end of input: what stands without an LF is a line, too. */
int rpc_lines_end(struct rpc_lines *lines, rpc_line_take *take, void *context);

/* ---- What waits to be written ---------------------------------------------------------------- */

/* Messages in order. A message is written at once where nothing waits before it. Embedded by its
 * owner. */
struct rpc_queue {
    int fd;
    bool socket;
    bool quiet; /* SIGPIPE must be kept from coming */
    struct bl_list blocks;
    size_t gone;         /* bytes of the first block that went out */
    size_t size;         /* bytes that wait */
    uint64_t accepted;   /* bytes that went out, ever */
    uint64_t waiting_ns; /* since when nothing has gone out, while something waits */
};

void rpc_queue_init(struct rpc_queue *queue, int fd);
void rpc_queue_clear(struct rpc_queue *queue); /* forgets what waits */
/* Takes a message, with its LF. 0: nothing waits; BL_EAGAIN: something does; else it cannot be
 * written. */
int rpc_queue_put(struct rpc_queue *queue, struct bl_text message);
/* The same, and what comes under that key may be put into it: `tail_size` of its last bytes stand
 * after the text. */
int rpc_queue_put_open(struct rpc_queue *queue, struct bl_text message, struct bl_text key,
                       size_t tail_size);
/* Puts `text` before the tail of the last message. False: that has another key, or goes out
 * already, or there is none. */
bool rpc_queue_join(struct rpc_queue *queue, struct bl_text key, struct bl_text text);
/* Writes what the descriptor takes. As rpc_queue_put. */
int rpc_queue_write(struct rpc_queue *queue);

/* ---- A connection ---------------------------------------------------------------------------- */

/* Something that several fibers may wait for. */
struct rpc_event {
    struct bl_semaphore semaphore;
    unsigned waiting;
};

/* One direction. */
struct rpc_end {
    int fd;
    bool own;                         /* opened anew: ours to close */
    struct bl_descriptor *descriptor; /* NULL: it never blocks (a regular file) */
};

struct bl_rpc {
    struct bl_rpc_options options;
    struct bl_nursery *nursery;
    struct rpc_end in;
    struct rpc_end out; /* `descriptor` is that of `in` where both are one */
    struct rpc_lines lines;
    struct rpc_queue queue;
    struct bl_buffer message; /* that is made just now */
    struct bl_buffer escaped; /* a piece of text */
    struct bl_arena arena;    /* of the line that is read just now */
    struct bl_scope reading;
    struct bl_scope writing; /* a shield: answers go out whatever stops */
    bool writing_begun;
    struct bl_semaphore more; /* for the fiber that writes; */
    bool idle;                /* which waits for it */
    struct rpc_event
        progress; /* bytes went out, a call or a fiber has ended, or the peer has gone */
    struct bl_list calls;
    uint32_t call_count;
    struct bl_list asks;
    int64_t next_id;
    uint32_t fibers;      /* that read, write and watch */
    uint32_t users;       /* who wait in here, and look at it after */
    const char *gone_why; /* NULL: it is there */
    bool broken;          /* nothing can be written */
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
void rpc_event_tell(struct rpc_event *event);

/* Sends what stands in `rpc->message`, without its LF; never waits. */
void rpc_send(struct bl_rpc *rpc);
void rpc_forget(struct bl_buffer *buffer);   /* empties it; what is large is given back */
void rpc_sent(struct bl_rpc *rpc, int code); /* what the queue said */
/* The peer has let too much pile up, or for too long: it is gone. */
void rpc_takes_nothing(struct bl_rpc *rpc);
const char *rpc_origin(const struct bl_rpc *rpc);

/* A request, in the fiber that reads: has it served. Takes `rpc->arena`, where it was read into. */
void rpc_call_begin(struct bl_rpc *rpc, const struct bl_rpc_message *message);
void rpc_calls_stop(struct bl_rpc *rpc, enum bl_stop_reason reason);
/* An answer to something that was asked. */
void rpc_ask_end(struct bl_rpc *rpc, const struct bl_rpc_message *message, struct bl_text line);
/* Nobody will answer any more. */
void rpc_asks_fail(struct bl_rpc *rpc);

#endif
