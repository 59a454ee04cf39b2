/* Design notes.
 *
 * One fiber reads and dispatches each line. A message is written at once by the fiber that creates
 * it; only what the peer does not accept waits for the writing fiber. That fiber runs in a shield,
 * so that messages are still written after a stop. If output and input differ, a third fiber
 * detects a reader that disconnects while there is nothing to write.
 *
 * Requests, and lines that are answered with an error, wait for room in the queue and among the
 * calls, and block the lines behind them. This limits a peer that sends without reading.
 * Notifications and answers never wait, so a cancel is received even from a peer that reads
 * nothing.
 *
 * Fibers that wait in a function here and use the connection afterwards are counted (`users`):
 * close waits for them. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc.h"

#define CHUNK_SIZE ((size_t)64 * 1024)
/* Largest buffer that is kept after a message. */
#define KEPT_MAX ((size_t)256 * 1024)
/* Poll interval for a peer that has ended its output and may still read. */
#define HALF_OPEN_NS (100 * BL_NS_PER_MS)
/* Time to read what a peer wrote before its input broke. */
#define REST_NS (100 * BL_NS_PER_MS)

/* ---- Events ---------------------------------------------------------------------------------- */

int rpc_event_wait(struct rpc_event *event)
{
    event->waiting++;
    int code = bl_semaphore_take(&event->semaphore);
    if (code != 0 && event->waiting > 0)
        event->waiting--;
    return code;
}

void rpc_event_signal(struct rpc_event *event)
{
    for (; event->waiting > 0; event->waiting--)
        bl_semaphore_give(&event->semaphore);
}

const char *rpc_origin(const struct bl_rpc *rpc)
{
    return rpc->options.origin != NULL ? rpc->options.origin : "rpc";
}

/* ---- Input and output ------------------------------------------------------------------------ */

/* A descriptor that is waited for must be non-blocking. That is a property of the open file, which
 * other processes may share, and after SIGKILL it could not be restored. So a pipe or terminal is
 * opened again. Returns -1 if that is impossible (a socket, another user's file) or not needed. */
static int rpc_reopen(int fd, int mode)
{
    struct stat status;
    char path[32];
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_NONBLOCK) != 0 || fstat(fd, &status) < 0 ||
        !(S_ISFIFO(status.st_mode) || isatty(fd) == 1))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Checks a descriptor. If it was closed before the start, its number may belong to one of the
 * opposite direction. */
static int check_end(int fd, int mode, const char *name, struct bl_error *error)
{
    struct stat status;
    int flags = fcntl(fd, F_GETFL), wrong = mode == O_RDONLY ? O_WRONLY : O_RDONLY;
    if (flags < 0 || fstat(fd, &status) < 0 || (flags & O_ACCMODE) == wrong)
        return bl_error_set(error, BL_ECLOSED, BL_KIND_FILESYSTEM, "open a connection", name,
                            "the %s is closed", name);
    if (S_ISDIR(status.st_mode) || (flags & O_PATH) != 0)
        return bl_error_set(error, BL_ENOTSUP, BL_KIND_FILESYSTEM, "open a connection", name,
                            "the %s is not a pipe, socket, terminal or file", name);
    return 0;
}

static int end_open(struct rpc_end *end, int fd, int mode, const char *name, struct bl_error *error)
{
    int code = check_end(fd, mode, name, error);
    if (code != 0)
        return code;
    int reopened = rpc_reopen(fd, mode);
    end->descriptor = NULL;
    end->own = reopened >= 0;
    end->fd = end->own ? reopened : fd;
    code = bl_descriptor_new(end->fd, &end->descriptor);
    if (code == 0 || code == BL_ENOTSUP)
        return 0;
    return bl_error_set(error, code, BL_KIND_RUNTIME, "open a connection", name,
                        "cannot watch the %s: %s", name, bl_error_text(code));
}

static void end_close(struct rpc_end *end)
{
    bl_descriptor_free(end->descriptor);
    if (end->own)
        close(end->fd);
    *end = (struct rpc_end){.fd = -1};
}

/* ---- Disconnected peers ---------------------------------------------------------------------- */

static void rpc_lose(struct bl_rpc *rpc, const char *why)
{
    if (rpc->gone_why == NULL && !rpc->ended) {
        rpc->gone_why = why;
        BL_LOG(BL_ROOM_WIRE, BL_LOG_DEBUG, "peer gone", BL_LOG_STRING("of", rpc_origin(rpc)),
               BL_LOG_STRING("why", why));
        if (rpc->options.gone != NULL)
            rpc->options.gone(rpc->options.context, why);
        rpc_calls_stop(rpc, BL_STOP_CLIENT_GONE);
    }
    rpc_event_signal(&rpc->progress);
}

static void forget_output(struct bl_rpc *rpc)
{
    rpc->broken = true;
    rpc_queue_clear(&rpc->queue);
}

void rpc_takes_nothing(struct bl_rpc *rpc)
{
    forget_output(rpc);
    bl_scope_stop(&rpc->reading, BL_STOP_CLIENT_GONE, rpc_origin(rpc));
    rpc_lose(rpc, "takes nothing");
    rpc_asks_fail(rpc);
}

/* Handles failed output. A peer that has closed its side or has ended may have left answers to be
 * read, so reading continues until they end. The other end of a pipe may stay open, so for a pipe
 * that time is limited. */
static void rpc_broken(struct bl_rpc *rpc)
{
    bool socket = rpc->queue.socket && rpc->in.fd == rpc->out.fd;
    forget_output(rpc);
    if (!socket)
        bl_scope_set_deadline(&rpc->reading, bl_time_add(bl_now_ns(), REST_NS));
    rpc_lose(rpc, "broken output");
    if (rpc->input_ended)
        rpc_asks_fail(rpc);
}

bool bl_rpc_gone(const struct bl_rpc *rpc)
{
    return rpc->gone_why != NULL;
}

int bl_rpc_wait_gone(struct bl_rpc *rpc)
{
    int code = 0;
    rpc->users++;
    while (code == 0 && rpc->gone_why == NULL && !rpc->closing)
        code = rpc_event_wait(&rpc->progress);
    if (code == 0 && rpc->gone_why == NULL)
        code = BL_ECLOSED;
    rpc->users--;
    if (rpc->closing)
        rpc_event_signal(&rpc->progress);
    return code;
}

/* ---- Writing --------------------------------------------------------------------------------- */

void rpc_sent(struct bl_rpc *rpc, int code)
{
    if (code != 0 && code != BL_EAGAIN) {
        rpc_broken(rpc);
    } else if (code == BL_EAGAIN && rpc->idle) {
        rpc->idle = false;
        bl_semaphore_give(&rpc->more);
    }
}

void rpc_forget(struct bl_buffer *buffer)
{
    if (buffer->capacity > KEPT_MAX)
        bl_buffer_done(buffer);
    else
        bl_buffer_clear(buffer);
}

void rpc_send(struct bl_rpc *rpc)
{
    if (!rpc->broken) {
        bl_buffer_append_byte(&rpc->message, '\n');
        rpc_sent(rpc, rpc_queue_put(&rpc->queue, bl_buffer_text(&rpc->message)));
    }
    rpc_forget(&rpc->message);
}

/* Waits until the peer accepts more; disconnects it if it has accepted nothing for too long. */
static int await_writable(struct bl_rpc *rpc)
{
    struct bl_scope limit, *outer = bl_scope_current();
    bl_limit_begin_until(&limit, bl_time_add(rpc->queue.waiting_ns, rpc->options.take_ns));
    int code = bl_descriptor_wait(rpc->out.descriptor, BL_WRITABLE, NULL);
    bl_limit_end(&limit);
    if (code == BL_ETIMEDOUT && bl_scope_check(outer) == 0)
        rpc_takes_nothing(rpc);
    return bl_scope_check(outer);
}

static void write_waiting(struct bl_rpc *rpc)
{
    int code = 0;
    while (code == 0 && !rpc->ended) {
        uint64_t before = rpc->queue.accepted;
        int written = rpc->broken ? 0 : rpc_queue_write(&rpc->queue);
        if (rpc->queue.accepted != before || written == 0)
            rpc_event_signal(&rpc->progress);
        if (written == BL_EAGAIN) {
            code = await_writable(rpc);
        } else if (written != 0) {
            rpc_broken(rpc);
        } else {
            rpc->idle = true;
            code = bl_semaphore_take(&rpc->more);
        }
    }
}

static int fiber_ended(struct bl_rpc *rpc)
{
    rpc->fibers--;
    rpc_event_signal(&rpc->progress);
    return 0;
}

static int rpc_write_main(void *argument)
{
    struct bl_rpc *rpc = argument;
    if (!rpc->ended) {
        bl_shield_begin(&rpc->writing, BL_NEVER);
        rpc->writing_begun = true;
        write_waiting(rpc);
        rpc->writing_begun = false;
        bl_shield_end(&rpc->writing);
    }
    return fiber_ended(rpc);
}

/* True if both directions are closed. */
static bool hung_up(int fd)
{
    struct pollfd look = {.fd = fd};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

static int rpc_watch_main(void *argument)
{
    struct bl_rpc *rpc = argument;
    struct bl_scope *outer = bl_scope_enter(&rpc->reading);
    int code = bl_descriptor_wait(rpc->out.descriptor, BL_HANGUP, NULL);
    bl_scope_enter(outer);
    if (code == 0 && hung_up(rpc->out.fd))
        rpc_broken(rpc);
    return fiber_ended(rpc);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Waits until another answer can be queued and, for a request, another call can be started. */
static int await_place(struct bl_rpc *rpc, bool request)
{
    int code = bl_check();
    while (code == 0 && ((request && rpc->call_count >= rpc->options.calls_max) ||
                         rpc->queue.size > BL_RPC_QUEUE_MAX))
        code = rpc_event_wait(&rpc->progress);
    return code;
}

static int rpc_take_fault(struct bl_rpc *rpc, const struct bl_rpc_fault *fault, struct bl_text line)
{
    int code = await_place(rpc, false);
    if (code != 0)
        return code;
    bl_rpc_write_error(&rpc->message, fault->id, fault->code, fault->message, (struct bl_text){0});
    rpc_send(rpc);
    if (rpc->options.fault != NULL)
        rpc->options.fault(rpc->options.context, fault, line);
    return 0;
}

static int rpc_take_message(struct bl_rpc *rpc, const struct bl_rpc_message *message,
                            struct bl_text line)
{
    int code = 0;
    switch (message->type) {
    case BL_RPC_REQUEST:
        if (rpc->broken) /* the answer could not be delivered */
            return 0;
        code = await_place(rpc, true);
        if (code == 0)
            rpc_call_begin(rpc, message);
        break;
    case BL_RPC_NOTIFICATION:
        if (rpc->options.notification != NULL)
            rpc->options.notification(rpc->options.context, message->method, message->params);
        break;
    case BL_RPC_RESULT:
    case BL_RPC_ERROR: rpc_ask_end(rpc, message, line); break;
    }
    return code;
}

static int rpc_take_line(void *context, struct bl_text line, bool too_long)
{
    struct bl_rpc *rpc = context;
    struct bl_rpc_message message;
    struct bl_rpc_fault fault = {.code = BL_RPC_PARSE};
    int code;
    if (too_long) {
        snprintf(fault.message, sizeof fault.message, "line too long (the limit is %zu bytes)",
                 rpc->options.line_max);
        return rpc_take_fault(rpc, &fault, line);
    }
    if (bl_text_trim(line).size == 0)
        return 0;
    if (bl_rpc_message_read(&rpc->arena, line, &message, &fault) != 0)
        code = rpc_take_fault(rpc, &fault, line);
    else
        code = rpc_take_message(rpc, &message, line);
    bl_arena_reset(&rpc->arena);
    if (rpc->arena.allocated > KEPT_MAX)
        bl_arena_done(&rpc->arena);
    return code;
}

/* Reads some bytes; 0 bytes mean the end of file or an error. */
static int rpc_read_some(struct bl_rpc *rpc, char *chunk, bool wait, size_t *ret_size)
{
    int code = wait && rpc->in.descriptor != NULL
                   ? bl_descriptor_wait(rpc->in.descriptor, BL_READABLE, NULL)
                   : bl_yield();
    while (code == 0) {
        ssize_t size = read(rpc->in.fd, chunk, CHUNK_SIZE);
        if (size >= 0) {
            *ret_size = (size_t)size;
            return 0;
        }
        if (errno == EAGAIN && rpc->in.descriptor != NULL) {
            code = bl_descriptor_wait(rpc->in.descriptor, BL_READABLE, NULL);
        } else if (errno != EINTR) {
            *ret_size = 0;
            return 0;
        }
    }
    return code;
}

/* Returns 0 at the end of input, or why reading has stopped. */
static int rpc_read_lines(struct bl_rpc *rpc)
{
    char *chunk = bl_alloc(CHUNK_SIZE);
    size_t size = 1;
    bool wait = true;
    int code = 0;
    while (code == 0 && size > 0) {
        code = rpc_read_some(rpc, chunk, wait, &size);
        wait = size < CHUNK_SIZE;
        if (code == 0)
            code = size > 0 ? rpc_lines_feed(&rpc->lines, (struct bl_text){chunk, size},
                                             rpc_take_line, rpc)
                            : rpc_lines_end(&rpc->lines, rpc_take_line, rpc);
    }
    bl_free(chunk);
    return code;
}

/* Waits for progress, for `limit_ns` at most. */
static void rpc_await_progress(struct bl_rpc *rpc, uint64_t limit_ns)
{
    struct bl_scope limit;
    bl_limit_begin(&limit, limit_ns);
    rpc_event_wait(&rpc->progress);
    bl_limit_end(&limit);
}

/* Waits while a peer that has ended its output may still wait for answers. */
static int await_hang_up(struct bl_rpc *rpc)
{
    int code = 0;
    while (code == 0 && (rpc->call_count > 0 || rpc->queue.size > 0) && !hung_up(rpc->out.fd)) {
        rpc_await_progress(rpc, HALF_OPEN_NS);
        code = bl_check();
    }
    return code;
}

static int read_main(void *argument)
{
    struct bl_rpc *rpc = argument;
    struct bl_scope *outer = bl_scope_enter(&rpc->reading);
    int code = rpc_read_lines(rpc);
    if (code == 0 && rpc->options.half_open)
        code = await_hang_up(rpc);
    bl_scope_enter(outer);
    rpc->input_ended = true;
    if (code == 0)
        rpc_lose(rpc, "end of input");
    if (code == 0 || rpc->broken)
        rpc_asks_fail(rpc);
    return fiber_ended(rpc);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int rpc_open_ends(struct bl_rpc *rpc, const struct bl_rpc_options *options,
                         struct bl_error *error)
{
    int code = end_open(&rpc->in, options->in, O_RDONLY, "input", error);
    if (code == 0 && options->out == options->in) {
        rpc->out = rpc->in;
        code = check_end(options->out, O_WRONLY, "output", error);
        if (code == 0 && rpc->in.own) /* a terminal that was opened for reading */
            code = end_open(&rpc->out, options->out, O_WRONLY, "output", error);
    } else if (code == 0) {
        code = end_open(&rpc->out, options->out, O_WRONLY, "output", error);
    }
    return code;
}

static void close_ends(struct bl_rpc *rpc)
{
    if (rpc->out.descriptor != rpc->in.descriptor || rpc->out.fd != rpc->in.fd)
        end_close(&rpc->out);
    end_close(&rpc->in);
}

static int spawn(struct bl_rpc *rpc, const char *name, bl_fiber_main *main, struct bl_error *error)
{
    int code = bl_nursery_spawn(rpc->nursery, NULL, name, main, rpc, NULL);
    rpc->fibers += code == 0;
    return code == 0 ? 0
                     : bl_error_set(error, code, BL_KIND_RUNTIME, "open a connection", NULL,
                                    "cannot open a connection: %s", bl_error_text(code));
}

static int start_fibers(struct bl_rpc *rpc, struct bl_error *error)
{
    int code = spawn(rpc, "rpc read", read_main, error);
    if (code == 0 && rpc->out.descriptor != NULL)
        code = spawn(rpc, "rpc write", rpc_write_main, error);
    if (code == 0 && rpc->out.descriptor != NULL && rpc->out.descriptor != rpc->in.descriptor)
        code = spawn(rpc, "rpc watch", rpc_watch_main, error);
    return code;
}

static void rpc_free(struct bl_rpc *rpc)
{
    close_ends(rpc);
    rpc_queue_clear(&rpc->queue);
    rpc_lines_done(&rpc->lines);
    bl_buffer_done(&rpc->message);
    bl_buffer_done(&rpc->escaped);
    bl_arena_done(&rpc->arena);
    bl_scope_done(&rpc->reading);
    bl_free(rpc);
}

static void set_defaults(struct bl_rpc_options *options)
{
    if (options->line_max == 0)
        options->line_max = BL_RPC_LINE_MAX;
    if (options->calls_max == 0)
        options->calls_max = BL_RPC_CALLS_MAX;
    if (options->take_ns == 0)
        options->take_ns = BL_RPC_TAKE_NS_MAX;
}

int bl_rpc_open(struct bl_nursery *nursery, const struct bl_rpc_options *options,
                struct bl_rpc **ret_rpc, struct bl_error *error)
{
    struct bl_rpc *rpc = bl_zalloc(sizeof *rpc);
    rpc->options = *options;
    set_defaults(&rpc->options);
    rpc->nursery = nursery;
    rpc->in.fd = rpc->out.fd = -1;
    rpc->next_id = 1;
    bl_buffer_init(&rpc->message, SIZE_MAX / 2);
    bl_buffer_init(&rpc->escaped, SIZE_MAX / 2);
    bl_semaphore_init(&rpc->more, 0);
    bl_semaphore_init(&rpc->progress.semaphore, 0);
    bl_list_init(&rpc->calls);
    bl_list_init(&rpc->asks);
    bl_scope_init(&rpc->reading, &nursery->scope);
    rpc_lines_init(&rpc->lines, rpc->options.line_max);
    int code = rpc_open_ends(rpc, options, error);
    rpc_queue_init(&rpc->queue, rpc->out.fd);
    if (code == 0)
        code = start_fibers(rpc, error);
    if (code != 0) {
        bl_rpc_close(rpc, 0);
        return code;
    }
    *ret_rpc = rpc;
    return 0;
}

/* Waits until the queue is written, for `linger_ns` at most. */
static void rpc_linger(struct bl_rpc *rpc, uint64_t linger_ns)
{
    uint64_t end_ns = bl_time_add(bl_now_ns(), linger_ns), now_ns;
    while (rpc->queue.size > 0 && !rpc->broken && (now_ns = bl_now_ns()) < end_ns)
        rpc_await_progress(rpc, end_ns - now_ns);
}

void bl_rpc_close(struct bl_rpc *rpc, uint64_t linger_ns)
{
    struct bl_scope shield;
    if (rpc == NULL)
        return;
    rpc->closing = true;
    bl_scope_stop(&rpc->reading, BL_STOP_SHUTDOWN, rpc_origin(rpc));
    rpc_calls_stop(rpc, BL_STOP_SHUTDOWN);
    rpc_asks_fail(rpc);
    rpc_event_signal(&rpc->progress);
    bl_shield_begin(&shield, BL_NEVER);
    while (rpc->call_count > 0 || rpc->users > 0)
        rpc_event_wait(&rpc->progress);
    if (rpc->queue.size > 0 && linger_ns > 0)
        rpc_linger(rpc, linger_ns);
    rpc->ended = true;
    if (rpc->writing_begun)
        bl_scope_stop(&rpc->writing, BL_STOP_SHUTDOWN, rpc_origin(rpc));
    while (rpc->fibers > 0)
        rpc_event_wait(&rpc->progress);
    bl_shield_end(&shield);
    rpc_free(rpc);
}

size_t bl_rpc_queued(const struct bl_rpc *rpc)
{
    return rpc->queue.size;
}
