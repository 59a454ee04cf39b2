/* Standard output for a run: a writer that never blocks the loop.
 *
 * Output is buffered until a fiber has drained it into the pipe, socket or terminal. A slow reader
 * delays the writer (back-pressure), and a reader that closes its end stops the run. Regular files,
 * and devices that do not support waiting, are written immediately. */
#ifndef BELAY_CLI_STREAM_H
#define BELAY_CLI_STREAM_H

#include <belay/fiber.h>

/* Number of bytes that may be pending before a writer has to wait. */
#define CLI_STREAM_PENDING_MAX ((size_t)1024 * 1024)
/* Time that the reader has for its next byte after a stop. */
#define CLI_STREAM_LINGER_NS (250 * BL_NS_PER_MS)

/* Embedded by its owner. */
struct cli_stream {
    int fd;   /* with an open file description of our own if possible; else the caller's */
    bool own; /* `fd` is ours */
    bool terminal;
    struct bl_scope *run;
    struct bl_scope *wait_limit;
    struct bl_descriptor *descriptor; /* NULL if written immediately */
    struct bl_buffer pending;
    size_t drained;   /* bytes at the front of `pending` that have been written */
    uint64_t written; /* total */
    struct bl_nursery nursery;
    struct bl_semaphore more;     /* given when there is something to drain */
    struct bl_semaphore progress; /* given to each waiter when bytes are written or writing fails */
    uint32_t waiting;
    bool idle;  /* the draining fiber waits for more */
    int failed; /* errno; 0 if none */
};

/* Opens the stream and starts its draining fiber in the running fiber's scope. `run` is stopped
 * when the reader closes its end; a stop of `wait_limit`, which is never claimed, ends all waiting
 * for the reader. Returns BL_ECLOSED, with nothing open, if the descriptor is not writable. */
int cli_stream_open(struct cli_stream *stream, int fd, struct bl_scope *run,
                    struct bl_scope *wait_limit, struct bl_error *error);
/* Accepts all of the text. Waits while too much is pending, unless the running fiber or
 * `wait_limit` is stopped: then it returns immediately. After a failure the text is dropped. */
void cli_stream_write(struct cli_stream *stream, struct bl_text text);
/* The same for a text for people that may contain foreign text: on a terminal, control sequences
 * are shown escaped. */
void cli_stream_say(struct cli_stream *stream, struct bl_text text);
/* As cli_stream_write, but never waits: returns false and accepts nothing if more than
 * `pending_max` bytes are already pending, or after a failure. */
bool cli_stream_offer(struct cli_stream *stream, struct bl_text text, size_t pending_max);
/* Waits until everything is written; after a stop of `wait_limit`, only until the reader has read
 * nothing for CLI_STREAM_LINGER_NS. Returns false if some of it was not written. */
bool cli_stream_flush(struct cli_stream *stream);
/* Drops pending bytes and leaves the caller's descriptor unchanged. */
void cli_stream_close(struct cli_stream *stream);

#endif
