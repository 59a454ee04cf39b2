/* Standard output for a run: a writer that never blocks the loop.
 *
 * What is written is kept until a fiber has drained it into the pipe, socket or terminal; a reader
 * that is slow holds up whoever writes, and one that goes stops the run. Regular files and devices
 * that cannot be waited for are written at once. */
#ifndef BELAY_CLI_STREAM_H
#define BELAY_CLI_STREAM_H

#include <belay/fiber.h>

/* So much may be pending before whoever writes has to wait. */
#define CLI_STREAM_PENDING_MAX ((size_t)1024 * 1024)
/* After a stop the reader has so long for its next byte. */
#define CLI_STREAM_LINGER_NS (250 * BL_NS_PER_MS)

/* Embedded by its owner. */
struct cli_stream {
    int fd;   /* a description of our own, where there can be one; else the caller's */
    bool own; /* of fd */
    bool terminal;
    struct bl_scope *run;
    struct bl_scope *patience;
    struct bl_descriptor *descriptor; /* NULL: written at once */
    struct bl_buffer pending;
    size_t drained;   /* bytes at the front of `pending` that have been written */
    uint64_t written; /* in all */
    struct bl_nursery nursery;
    struct bl_semaphore more;     /* given when there is something to drain */
    struct bl_semaphore progress; /* given to each who waits when bytes have gone, or it failed */
    uint32_t waiting;
    bool idle;  /* the one who drains waits for more */
    int failed; /* errno; 0: fine */
};

/* Opens it, and starts what drains it in the running fiber's scope. `run` is stopped when the
 * reader is gone; `patience`, which is never claimed, ends all waiting for the reader. BL_ECLOSED:
 * it cannot be written at all; nothing is open then. */
int cli_stream_open(struct cli_stream *stream, int fd, struct bl_scope *run,
                    struct bl_scope *patience, struct bl_error *error);
/* Takes all of it. Waits while too much is pending, unless the running fiber is stopped or
 * patience has ended: then it is taken at once. After a failure it is dropped. */
void cli_stream_write(struct cli_stream *stream, struct bl_text text);
/* The same of a text that may hold words of others, for people: where it goes to a terminal, what a
 * terminal would obey is shown escaped. */
void cli_stream_say(struct cli_stream *stream, struct bl_text text);
/* As cli_stream_write for those who must not wait: false, and nothing is taken, when more than
 * `pending_max` is pending already, or after a failure. */
bool cli_stream_offer(struct cli_stream *stream, struct bl_text text, size_t pending_max);
/* Waits until all is written: as long as patience lasts, and after that
 * until the reader has taken nothing for CLI_STREAM_LINGER_NS. False: some of it was not written.
 */
bool cli_stream_flush(struct cli_stream *stream);
/* Drops what is pending, and leaves the descriptor as it was. */
void cli_stream_close(struct cli_stream *stream);

#endif
