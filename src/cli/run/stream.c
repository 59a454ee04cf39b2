/* Design notes.
 *
 * If the descriptor supports waiting, two fibers serve it. One drains the buffer; the other watches
 * for a hang-up of the reader, so that a run notices it even when it has no output. Neither runs in
 * the run's scope: after a stop there is still a result to write.
 *
 * A writer may be a fiber whose scope is claimed, and then a stop would not wake its wait. So it
 * waits in `wait_limit`, which is never claimed: a reader that has stopped reading cannot delay
 * the writer past the deadline. A stop of the writer's own scope wakes it as well. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t pending_size(const struct cli_stream *stream)
{
    return stream->pending.size - stream->drained;
}

static void stream_tell_progress(struct cli_stream *stream)
{
    for (; stream->waiting > 0; stream->waiting--)
        bl_semaphore_give(&stream->progress);
}

/* Stops the run if the reader has closed its end, or if writing fails: the result could not be
 * delivered. */
static void stream_fail(struct cli_stream *stream, int failed)
{
    if (stream->failed != 0)
        return;
    stream->failed = failed;
    bl_buffer_clear(&stream->pending);
    stream->drained = 0;
    bl_scope_stop(stream->run, BL_STOP_CLIENT_GONE, "stdout");
    stream_tell_progress(stream);
}

/* Removes written bytes from the buffer, only in large pieces, so that a long text is not moved
 * after each write. */
static void forget_drained(struct cli_stream *stream)
{
    if (stream->drained == stream->pending.size) {
        bl_buffer_clear(&stream->pending);
        stream->drained = 0;
    } else if (stream->drained > stream->pending.size / 2) {
        bl_buffer_consume(&stream->pending, stream->drained);
        stream->drained = 0;
    }
}

/* Writes as much as possible without waiting. Returns 0 or the errno; EAGAIN means to wait. */
static int write_some(struct cli_stream *stream)
{
    while (pending_size(stream) > 0) {
        ssize_t count =
            write(stream->fd, stream->pending.data + stream->drained, pending_size(stream));
        if (count < 0 && errno != EINTR)
            return errno;
        if (count < 0)
            continue;
        stream->drained += (size_t)count;
        stream->written += (uint64_t)count;
        forget_drained(stream);
        stream_tell_progress(stream);
    }
    return 0;
}

static int drain_main(void *argument)
{
    struct cli_stream *stream = argument;
    int code = 0;

    while (code == 0 && stream->failed == 0) {
        int failed = write_some(stream);
        if (failed == EAGAIN)
            code = bl_descriptor_wait(stream->descriptor, BL_WRITABLE, NULL);
        else if (failed != 0)
            stream_fail(stream, failed);
        stream->idle = failed == 0;
        if (stream->idle)
            code = bl_semaphore_take(&stream->more);
    }
    return code;
}

/* True if the reader has hung up. A socket whose peer has only shut down its sending side may still
 * be read. */
static bool stream_reader_is_gone(int fd)
{
    struct pollfd poll_fd = {.fd = fd};
    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & (POLLERR | POLLHUP)) != 0;
}

static int stream_watch_main(void *argument)
{
    struct cli_stream *stream = argument;

    int code = bl_descriptor_wait(stream->descriptor, BL_HANGUP, NULL);
    if (code == 0 && stream_reader_is_gone(stream->fd))
        stream_fail(stream, EPIPE);
    return code;
}

/* A descriptor that was closed at the start has been replaced by one that is read-only. */
static int check_writable(int fd, struct bl_error *error)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
        return 0;
    return bl_error_set(error, BL_ECLOSED, BL_KIND_FILESYSTEM, "write", "standard output",
                        "cannot write standard output: %s", strerror(EBADF));
}

/* Opens a pipe or terminal again. A descriptor that is waited for must be non-blocking, which is a
 * property of the open file description, shared with the shell: after SIGKILL we could not restore
 * it. Returns -1 if it cannot be opened again (a socket, another user's terminal). */
static int stream_open_anew(int fd)
{
    struct stat status;
    char path[32];

    if (fstat(fd, &status) < 0 || !(S_ISFIFO(status.st_mode) || isatty(fd) == 1))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int cli_stream_open(struct cli_stream *stream, int fd, struct bl_scope *run,
                    struct bl_scope *wait_limit, struct bl_error *error)
{
    int code = check_writable(fd, error);

    if (code != 0)
        return code;
    *stream = (struct cli_stream){.fd = stream_open_anew(fd), .run = run, .wait_limit = wait_limit};
    stream->own = stream->fd >= 0;
    stream->terminal = isatty(fd) == 1;
    if (!stream->own)
        stream->fd = fd;
    bl_buffer_init(&stream->pending, SIZE_MAX / 2);
    bl_semaphore_init(&stream->more, 0);
    bl_semaphore_init(&stream->progress, 0);
    bl_nursery_init(&stream->nursery, bl_scope_current());
    code = bl_descriptor_new(stream->fd, &stream->descriptor);
    if (code == BL_ENOTSUP)
        return 0;
    if (code == 0)
        code = bl_nursery_spawn(&stream->nursery, NULL, "output", drain_main, stream, NULL);
    if (code == 0)
        code = bl_nursery_spawn(&stream->nursery, NULL, "reader", stream_watch_main, stream, NULL);
    if (code != 0) {
        cli_stream_close(stream);
        bl_error_set(error, code, BL_KIND_RUNTIME, "write", "standard output",
                     "cannot watch standard output: %s", bl_error_text(code));
    }
    return code;
}

/* Waits in the running fiber's scope until bytes are written. */
static int stream_await_progress(struct cli_stream *stream)
{
    stream->waiting++;
    int code = bl_semaphore_take(&stream->progress);
    if (code != 0 && stream->waiting > 0)
        stream->waiting--;
    return code;
}

struct room_wait {
    struct bl_stop_hook hook;
    struct cli_stream *stream;
};

static void wake_on_stop(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    (void)scope;
    stream_tell_progress(BL_CONTAINER(hook, struct room_wait, hook)->stream);
}

static void stream_await_room(struct cli_stream *stream)
{
    struct bl_scope *own = bl_scope_current();
    struct room_wait wait = {.stream = stream};
    int code = 0;

    bl_stop_hook_add(&wait.hook, own, wake_on_stop);
    bl_scope_enter(stream->wait_limit);
    while (code == 0 && stream->failed == 0 && !bl_scope_stopped(own) &&
           pending_size(stream) > CLI_STREAM_PENDING_MAX)
        code = stream_await_progress(stream);
    bl_scope_enter(own);
    bl_stop_hook_remove(&wait.hook);
}

/* Appends the text and wakes the draining fiber. */
static void stream_put(struct cli_stream *stream, struct bl_text text)
{
    bl_buffer_append(&stream->pending, text);
    if (stream->descriptor == NULL) {
        int failed = write_some(stream);
        if (failed != 0)
            stream_fail(stream, failed);
    } else if (stream->idle) {
        stream->idle = false;
        bl_semaphore_give(&stream->more);
    }
}

void cli_stream_write(struct cli_stream *stream, struct bl_text text)
{
    if (stream->failed != 0 || text.size == 0)
        return;
    stream_put(stream, text);
    if (stream->descriptor != NULL && pending_size(stream) > CLI_STREAM_PENDING_MAX)
        stream_await_room(stream);
}

void cli_stream_say(struct cli_stream *stream, struct bl_text text)
{
    BL_AUTO_BUFFER(shown, SIZE_MAX / 2);

    if (!stream->terminal) {
        cli_stream_write(stream, text);
        return;
    }
    bl_text_show(&shown, text, BL_SHOW_LINES);
    cli_stream_write(stream, bl_buffer_text(&shown));
}

bool cli_stream_offer(struct cli_stream *stream, struct bl_text text, size_t pending_max)
{
    if (stream->failed != 0 || pending_size(stream) > pending_max)
        return false;
    if (text.size > 0)
        stream_put(stream, text);
    return true;
}

/* Waits once for the reader after a stop. Returns false if it read nothing. */
static bool stream_linger(struct cli_stream *stream)
{
    struct bl_scope limit;
    uint64_t before = stream->written;

    bl_limit_begin(&limit, CLI_STREAM_LINGER_NS);
    while (stream->failed == 0 && stream->written == before && stream_await_progress(stream) == 0)
        continue;
    bl_limit_end(&limit);
    return stream->written != before;
}

bool cli_stream_flush(struct cli_stream *stream)
{
    bool lives = true;

    while (lives && stream->failed == 0 && pending_size(stream) > 0) {
        if (bl_scope_stopped(stream->wait_limit)) {
            lives = stream_linger(stream);
        } else {
            struct bl_scope *outer = bl_scope_enter(stream->wait_limit);
            stream_await_progress(stream);
            bl_scope_enter(outer);
        }
    }
    return stream->failed == 0 && pending_size(stream) == 0;
}

void cli_stream_close(struct cli_stream *stream)
{
    bl_nursery_done(&stream->nursery);
    bl_descriptor_free(stream->descriptor);
    bl_buffer_done(&stream->pending);
    if (stream->own)
        close(stream->fd);
    *stream = (struct cli_stream){.fd = -1, .failed = EBADF};
}
