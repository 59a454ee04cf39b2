#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"

_Static_assert(BL_READABLE == (int)UV_READABLE && BL_WRITABLE == (int)UV_WRITABLE &&
                   BL_HANGUP == (int)UV_DISCONNECT,
               "events are passed through");

/* The watcher stays on after an event, so that reading in a loop costs no system call per wait. It
 * is turned off when it fires and no fiber waits. */
struct bl_descriptor {
    uv_poll_t poll;
    int fd;
    int watched; /* events requested from libuv; 0: off */
    bool was_blocking;
    struct bl_list waiting;
};

/* The events that a fiber waits for, and those that occurred. */
struct descriptor_wait {
    unsigned wanted;
    unsigned got;
};

int bl_descriptor_new(int fd, struct bl_descriptor **ret_descriptor)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return bl_error_from_errno(errno);
    struct bl_descriptor *descriptor = bl_zalloc(sizeof *descriptor);
    int status = uv_poll_init(&loop_current->uv, &descriptor->poll, fd);
    if (status < 0) {
        bl_free(descriptor);
        return status == UV_EPERM ? BL_ENOTSUP : bl_error_from_errno(status);
    }
    descriptor->fd = fd;
    descriptor->was_blocking = (flags & O_NONBLOCK) == 0;
    descriptor->poll.data = descriptor;
    bl_list_init(&descriptor->waiting);
    *ret_descriptor = descriptor;
    return 0;
}

static void descriptor_free_closed(uv_handle_t *handle)
{
    bl_free(handle->data);
}

void bl_descriptor_free(struct bl_descriptor *descriptor)
{
    if (descriptor == NULL)
        return;
    assert(bl_list_empty(&descriptor->waiting));
    uv_close((uv_handle_t *)&descriptor->poll, descriptor_free_closed);
    if (descriptor->was_blocking) {
        int flags = fcntl(descriptor->fd, F_GETFL);
        if (flags >= 0)
            fcntl(descriptor->fd, F_SETFL, flags & ~O_NONBLOCK);
    }
}

static struct descriptor_wait *wait_of(struct bl_list *link)
{
    return BL_CONTAINER(link, struct bl_fiber, queue_link)->wait_data;
}

static void descriptor_watch(struct bl_descriptor *descriptor, int events);

static void descriptor_ready(uv_poll_t *handle, int status, int events)
{
    struct bl_descriptor *descriptor = handle->data;
    int wanted = 0;
    if (status < 0)
        descriptor->watched = 0; /* libuv has turned it off; the next system call reports why */
    BL_LIST_EACH_SAFE (link, &descriptor->waiting) {
        struct descriptor_wait *wait = wait_of(link);
        wait->got = status < 0 ? wait->wanted : wait->wanted & (unsigned)events;
        if (wait->got != 0)
            fiber_wake(BL_CONTAINER(link, struct bl_fiber, queue_link), 0);
        else
            wanted |= (int)wait->wanted;
    }
    /* Events are level-triggered: one that no fiber waits for would fire again and again. */
    descriptor_watch(descriptor,
                     bl_list_empty(&descriptor->waiting) ? descriptor->watched & ~events : wanted);
}

static void descriptor_watch(struct bl_descriptor *descriptor, int events)
{
    if (events == descriptor->watched)
        return;
    descriptor->watched = events;
    if (events == 0)
        uv_poll_stop(&descriptor->poll);
    else
        uv_poll_start(&descriptor->poll, events, descriptor_ready);
}

int bl_descriptor_wait(struct bl_descriptor *descriptor, unsigned events, unsigned *ret_events)
{
    struct descriptor_wait wait = {events, 0};
    if (((unsigned)descriptor->watched & events) != events)
        descriptor_watch(descriptor, descriptor->watched | (int)events);
    bl_fiber_current()->wait_data = &wait;
    int code = fiber_wait_external(&descriptor->waiting, "a descriptor", WAIT_STOPPABLE);
    if (code == 0 && ret_events != NULL)
        *ret_events = wait.got;
    return code;
}

/* A fiber whose descriptor is always ready never waits. Without this, the loop would not reach its
 * timers and signals, and no stop would reach the fiber. */
static void descriptor_let_loop_turn(void)
{
    if (loop_turn_is_long(loop_current))
        bl_yield();
}

int bl_descriptor_read(struct bl_descriptor *descriptor, void *data, size_t size, size_t *ret_size)
{
    descriptor_let_loop_turn();
    int code = scope_code(bl_scope_current());
    while (code == 0) {
        ssize_t count = read(descriptor->fd, data, size);
        if (count >= 0) {
            *ret_size = (size_t)count;
            return 0;
        }
        if (errno == EAGAIN)
            code = bl_descriptor_wait(descriptor, BL_READABLE, NULL);
        else if (errno != EINTR)
            code = bl_error_from_errno(errno);
    }
    return code;
}

int bl_descriptor_write(struct bl_descriptor *descriptor, const void *data, size_t size,
                        size_t *ret_size)
{
    const char *bytes = data;
    size_t written = 0;
    int code = scope_code(bl_scope_current());
    while (code == 0 && written < size) {
        ssize_t count = write(descriptor->fd, bytes + written, size - written);
        if (count >= 0)
            written += (size_t)count;
        else if (errno == EAGAIN)
            code = bl_descriptor_wait(descriptor, BL_WRITABLE, NULL);
        else if (errno != EINTR)
            code = bl_error_from_errno(errno);
    }
    if (ret_size != NULL)
        *ret_size = written;
    /* Last, so that bytes of several fibers are written in the order of their calls. */
    descriptor_let_loop_turn();
    return code;
}

int bl_child_wait(int pidfd, struct bl_child_end *ret_end)
{
    struct bl_descriptor *descriptor;
    int code = bl_descriptor_new(pidfd, &descriptor);
    if (code != 0)
        return code;
    code = bl_descriptor_wait(descriptor, BL_READABLE, NULL);
    bl_descriptor_free(descriptor);
    if (code != 0)
        return code;
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0)
        return bl_error_from_errno(errno);
    if (info.si_pid == 0)
        return BL_ECHILD;
    ret_end->by_signal = info.si_code != CLD_EXITED;
    ret_end->core_dumped = info.si_code == CLD_DUMPED;
    ret_end->status = info.si_status;
    return 0;
}
