#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parts.h"

uint64_t serve_patience_ns = BL_CONTROL_NS_MAX;

int serve_line_init(struct serve_line *line, int fd, size_t line_max)
{
    *line = (struct serve_line){.fd = fd};
    bl_buffer_init(&line->in, line_max + 1);
    return bl_descriptor_new(fd, &line->descriptor);
}

void serve_line_done(struct serve_line *line)
{
    bl_descriptor_free(line->descriptor);
    close(line->fd);
    bl_buffer_done(&line->in);
}

/* Waits with a limit of its own: BL_EAGAIN when that was reached. */
static int wait_until(struct serve_line *line, unsigned events, uint64_t deadline_ns)
{
    struct bl_scope limit, *outer = bl_scope_current();
    bl_scope_init(&limit, outer);
    bl_scope_set_deadline(&limit, deadline_ns);
    bl_scope_enter(&limit);
    int code = bl_descriptor_wait(line->descriptor, events, NULL);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    if (code == BL_ETIMEDOUT && bl_scope_check(outer) == 0)
        return BL_EAGAIN;
    return code;
}

/* Some more bytes. */
static int read_more(struct serve_line *line, uint64_t deadline_ns)
{
    struct bl_buffer *in = &line->in;
    size_t room = in->maximum - in->size;
    if (room == 0)
        return BL_ELIMIT;
    bl_buffer_reserve(in, room < 4096 ? room : 4096);
    for (;;) {
        int code = bl_check();
        if (code != 0)
            return code;
        ssize_t size =
            recv(line->fd, in->data + in->size,
                 in->capacity - in->size < room ? in->capacity - in->size : room, MSG_DONTWAIT);
        if (size > 0) {
            in->size += (size_t)size;
            return 0;
        }
        if (size == 0 || errno == ECONNRESET)
            return BL_ECLOSED;
        if (errno != EAGAIN && errno != EINTR)
            return bl_error_from_errno(errno);
        code = errno == EINTR ? 0 : wait_until(line, BL_READABLE, deadline_ns);
        if (code != 0)
            return code;
    }
}

int serve_line_read(struct serve_line *line, uint64_t idle_ns, uint64_t limit_ns,
                    struct bl_text *ret_line)
{
    struct bl_buffer *in = &line->in;
    bl_buffer_consume(in, line->taken);
    line->taken = 0;
    size_t seen = 0;
    uint64_t deadline_ns = bl_time_add(bl_now_ns(), in->size > 0 ? limit_ns : idle_ns);
    for (;;) {
        const char *end = in->size > seen ? memchr(in->data + seen, '\n', in->size - seen) : NULL;
        if (end != NULL) {
            *ret_line = (struct bl_text){in->data, (size_t)(end - in->data)};
            line->taken = ret_line->size + 1;
            return 0;
        }
        bool begins = in->size == 0;
        seen = in->size;
        int code = read_more(line, deadline_ns);
        if (code != 0)
            return code;
        if (begins)
            deadline_ns = bl_time_add(bl_now_ns(), limit_ns);
    }
}

int serve_line_write(struct serve_line *line, struct bl_text text, uint64_t limit_ns)
{
    uint64_t deadline_ns = bl_time_add(bl_now_ns(), limit_ns);
    int code = bl_check();
    while (code == 0 && text.size > 0) {
        /* Not by write: a peer that has gone must not raise a signal. */
        ssize_t size = send(line->fd, text.data, text.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size >= 0) {
            text.data += size;
            text.size -= (size_t)size;
        } else if (errno == EAGAIN) {
            code = wait_until(line, BL_WRITABLE, deadline_ns);
        } else if (errno != EINTR) {
            code = errno == EPIPE || errno == ECONNRESET ? BL_EPIPE : bl_error_from_errno(errno);
        }
    }
    return code;
}
