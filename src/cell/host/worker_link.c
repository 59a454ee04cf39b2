/* The host's end of a worker: starts it in a warden, exchanges frames with it, and ends it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/worker/protocol.h"
#include "host.h"

#define READY_NS_MAX (5 * BL_NS_PER_S)
/* From the close of its link to its exit; long enough for a busy machine. */
#define DYING_NS_MAX (2 * BL_NS_PER_S)

/* It needs nothing of the host's environment but the time zone. */
static const char *const *worker_environment(struct bl_arena *arena)
{
    const char **variables = bl_arena_zalloc(arena, 3 * sizeof *variables);
    const char *zone = getenv("TZ");

    variables[0] = "LC_ALL=C.UTF-8";
    if (zone != NULL)
        variables[1] = bl_arena_printf(arena, "TZ=%s", zone).data;
    return variables;
}

static int take_ready(void *context, struct bl_text bytes)
{
    struct cell_worker_frame frame;
    bool *ready = context;
    BL_AUTO_ARENA(arena);

    *ready = cell_worker_frame_read(&arena, bytes, &frame) == 0 && frame.type == CELL_WORKER_READY;
    return BL_ECLOSED; /* no other frame comes before `start` */
}

/* Waits until the worker reports that it is ready. Anything else is a failure. */
static int await_ready(struct cell_worker *worker)
{
    struct bl_scope limited;
    bool ready = false;
    char bytes[256];
    int code = 0;

    bl_limit_begin(&limited, READY_NS_MAX);
    while (code == 0) {
        size_t size;
        code = bl_descriptor_read(worker->descriptor, bytes, sizeof bytes, &size);
        if (code == 0 && size == 0)
            code = BL_EPIPE;
        else if (code == 0)
            code =
                bl_frames_feed(&worker->frames, (struct bl_text){bytes, size}, take_ready, &ready);
    }
    bl_limit_end(&limited);
    if (ready)
        return 0;
    /* Our own time limit is not a stop of the caller. */
    return code == BL_ETIMEDOUT && bl_check() == 0 ? BL_EIO : code == BL_ECLOSED ? BL_EPARSE : code;
}

static int open_link(struct cell_worker *worker, int *ret_end)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return bl_error_from_errno(errno);
    worker->fd = ends[0];
    *ret_end = ends[1];
    return bl_descriptor_new(worker->fd, &worker->descriptor);
}

static int worker_link_explain(struct cell_worker *worker, int code, const char *path,
                               struct bl_error *error)
{
    struct bl_warden_end end;

    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    cell_worker_reap(worker, &end);
    bool refused = cell_worker_exited(&end, WORKER_EXIT_LOCKDOWN);
    bl_error_set(error, code, BL_KIND_CELL, "start a worker", path,
                 refused ? "the worker cannot be locked down on this machine"
                         : "the worker did not start: %s",
                 bl_error_text(code));
    return refused ? BL_ENOTSUP : BL_EIO;
}

int cell_worker_start(const char *path, struct cell_worker **ret_worker, struct bl_error *error)
{
    struct cell_worker *worker = bl_zalloc(sizeof *worker);
    struct bl_arena arena = {0};
    int far_end = -1;

    worker->fd = -1;
    bl_list_init(&worker->link);
    bl_lock_init(&worker->writing);
    bl_frames_init(&worker->frames, WORKER_FRAME_MAX);
    int code = open_link(worker, &far_end);
    if (code == 0) {
        struct bl_warden_options options = {
            .arguments = (const char *const[]){path, NULL},
            .environment = worker_environment(&arena),
            .directory = "/",
            .input = far_end,
            .output = -1,
            .error = -1,
            .grace_ms = BL_CELL_GRACE_MS,
        };
        code = bl_warden_start(&options, &worker->warden, error);
    }
    if (far_end >= 0)
        close(far_end);
    bl_arena_done(&arena);
    if (code == 0) {
        worker->pid = bl_warden_pid(worker->warden);
        worker->pid_started = bl_store_process_started(worker->pid);
        code = await_ready(worker);
        if (code != 0)
            code = worker_link_explain(worker, code, path, error);
    }
    if (code != 0)
        cell_worker_free(worker);
    else
        *ret_worker = worker;
    return code;
}

/* Resets the nice value of the worker and its session, which speeds up its exit: that takes some
 * processor time, for which a nice process waits long on a busy machine. Without the permission, it
 * waits. */
static void worker_link_hurry(const struct cell_worker *worker)
{
    char path[48];

    if (worker->pid <= 0)
        return;
    setpriority(PRIO_PROCESS, (id_t)worker->pid, 0);
    snprintf(path, sizeof path, "/proc/%d/autogroup", (int)worker->pid);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    dprintf(file, "0");
    close(file);
}

void cell_worker_stop(struct cell_worker *worker, uint32_t grace_ms, struct bl_warden_end *ret_end)
{
    worker_link_hurry(worker);
    bl_warden_stop(worker->warden, SIGTERM, grace_ms, ret_end);
}

static bool has_closed_its_link(const struct cell_worker *worker)
{
    char byte;
    ssize_t count = recv(worker->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

void cell_worker_reap(struct cell_worker *worker, struct bl_warden_end *ret_end)
{
    struct bl_scope limited;
    int code = BL_ETIMEDOUT;

    if (has_closed_its_link(worker)) {
        worker_link_hurry(worker);
        bl_shield_begin(&limited, DYING_NS_MAX);
        code = bl_warden_wait(worker->warden, ret_end);
        bl_shield_end(&limited);
    }
    if (code != 0)
        cell_worker_stop(worker, 0, ret_end);
}

bool cell_worker_exited(const struct bl_warden_end *end, int status)
{
    return end->how != BL_END_LOST && !end->by_signal && end->status == status;
}

void cell_worker_free(struct cell_worker *worker)
{
    if (worker == NULL)
        return;
    worker_link_hurry(worker);
    bl_warden_free(worker->warden);
    bl_descriptor_free(worker->descriptor);
    if (worker->fd >= 0)
        close(worker->fd);
    bl_frames_done(&worker->frames);
    bl_free(worker);
}

bool cell_worker_alive(const struct cell_worker *worker)
{
    char byte;
    ssize_t count = recv(worker->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return count < 0 && errno == EAGAIN; /* a waiting worker sends nothing */
}

/* Raises no SIGPIPE if the worker has exited: the library does not own the process's signals. */
static int send_all(struct cell_worker *worker, const void *data, size_t size)
{
    const char *bytes = data;
    int code = bl_check();

    while (code == 0 && size > 0) {
        ssize_t count = send(worker->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            bytes += count;
            size -= (size_t)count;
        } else if (errno == EAGAIN) {
            code = bl_descriptor_wait(worker->descriptor, BL_WRITABLE, NULL);
        } else if (errno != EINTR) {
            code = bl_error_from_errno(errno);
        }
    }
    return code;
}

int cell_worker_send(struct cell_worker *worker, const struct cell_worker_frame *frame)
{
    struct bl_json_writer writer;
    uint8_t head[BL_FRAME_HEAD_SIZE];
    BL_AUTO_BUFFER(json, WORKER_FRAME_MAX);

    bl_json_writer_init(&writer, &json);
    bl_record_write(&writer, &cell_worker_frame_record, frame);
    int code = bl_json_writer_done(&writer);
    if (code == 0)
        code = bl_lock_take(&worker->writing);
    if (code != 0)
        return code;
    bl_frame_head(head, (uint32_t)json.size);
    code = send_all(worker, head, sizeof head);
    if (code == 0)
        code = send_all(worker, json.data, json.size);
    bl_lock_give(&worker->writing);
    return code;
}
