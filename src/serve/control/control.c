/* Design notes.
 *
 * One fiber accepts clients, and one fiber for each client supervises its connection: a client that
 * sends no request, or no further one, is disconnected. They run in a scope below the caller's
 * nursery, so that stopping the nursery ends them.
 *
 * A process whose run was cancelled exits soon after, and the answer is still to be written. So the
 * end waits a moment for answers in progress.
 *
 * A file beside the socket records the process and the runs that it has started. If the process is
 * killed, whichever process finds the dead socket can tell what it was. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "request.h"

#define BACKLOG 64
/* Time limit for answers in progress when the control is stopped. */
#define DRAIN_NS_MAX (1 * BL_NS_PER_S)
#define DRAIN_NS     (2 * BL_NS_PER_MS)
#define LINGER_NS    (200 * BL_NS_PER_MS)
/* Time limit for the control's fibers, which end at their next wait. */
#define END_NS_MAX (60 * BL_NS_PER_S)
/* Pause when the process is out of descriptors. */
#define RETRY_NS (100 * BL_NS_PER_MS)
/* Limits of the file beside the socket, and of the activities in it. */
#define TRACE_MAX  ((size_t)64 * 1024)
#define TRACED_MAX 64

uint64_t serve_timeout_ns = BL_CONTROL_NS_MAX;
uint64_t serve_word_ns = BL_CONTROL_WORD_NS_MAX;

struct bl_control {
    struct serve_requests requests;
    struct bl_scope scope;
    struct bl_fiber *fiber;
    int folder;
    int listener;
    struct bl_descriptor *descriptor;
    struct bl_nursery clients;
    uint32_t client_count;
    char name[SERVE_NAME_SIZE];
    char trace[SERVE_NAME_SIZE];
    char path[SERVE_PATH_SIZE];
    struct bl_local_file file;
};

struct client {
    struct serve_client asks; /* the context of its connection */
    struct bl_control *control;
    int fd;
};

/* ---- Clients --------------------------------------------------------------------------------- */

/* Returns whether the client has been silent for longer than it may. */
static bool is_idle(const struct client *client)
{
    uint64_t limit_ns = client->asks.asked > 0 ? BL_CONTROL_IDLE_NS_MAX : serve_timeout_ns;
    return client->asks.answering == 0 && bl_list_empty(&client->asks.watcher.link) &&
           bl_now_ns() >= bl_time_add(client->asks.active_ns, limit_ns);
}

/* Supervises a client until it disconnects or is idle for too long. */
static void control_supervise(struct client *client, struct bl_rpc *rpc)
{
    struct bl_scope *outer = bl_scope_current();
    while (!bl_scope_stopped(outer) && !bl_rpc_gone(rpc) && !is_idle(client)) {
        struct bl_scope limit;
        bl_limit_begin(&limit, serve_timeout_ns);
        bl_rpc_wait_gone(rpc);
        bl_limit_end(&limit);
        serve_watcher_settle(&client->asks.watcher);
    }
}

/* Lets a watcher that reads get everything that is queued; does not wait for one that reads
 * nothing. Returns how long sending the queue may still take. */
static uint64_t drain_client(struct client *client, const struct bl_rpc *rpc)
{
    struct bl_scope shield;
    size_t least = SIZE_MAX, waiting;
    uint64_t taken_ns = bl_now_ns();
    serve_watcher_settle(&client->asks.watcher);
    if (bl_list_empty(&client->asks.watcher.link))
        return LINGER_NS;
    bl_shield_begin(&shield, DRAIN_NS_MAX);
    while (!bl_rpc_gone(rpc) && (waiting = bl_rpc_queued(rpc)) > 0) {
        if (waiting < least)
            taken_ns = bl_now_ns();
        least = waiting;
        if (bl_now_ns() - taken_ns >= LINGER_NS || bl_sleep(DRAIN_NS) != 0)
            break;
    }
    bl_shield_end(&shield);
    bl_list_remove(&client->asks.watcher.link);
    return 0;
}

static int client_main(void *argument)
{
    struct client *client = argument;
    struct bl_control *control = client->control;
    struct bl_nursery nursery;
    struct bl_rpc *rpc = NULL;
    const struct bl_rpc_options options = {
        .in = client->fd,
        .out = client->fd,
        .line_max = BL_CONTROL_LINE_MAX,
        .take_ns = serve_timeout_ns,
        .half_open = true,
        .request = serve_request,
        .context = &client->asks,
        .origin = "control",
    };
    bl_nursery_init(&nursery, bl_scope_current());
    if (bl_rpc_open(&nursery, &options, &rpc, NULL) == 0) {
        control_supervise(client, rpc);
        bl_rpc_close(rpc, drain_client(client, rpc));
    }
    bl_nursery_done(&nursery);
    close(client->fd);
    control->client_count--;
    bl_free(client);
    return 0;
}

static void refuse_client(int fd)
{
    struct bl_buffer answer;
    bl_buffer_init(&answer, 4096);
    bl_rpc_write_error(&answer, NULL, BL_RPC_BUSY, "too many clients: try again",
                       (struct bl_text){0});
    bl_buffer_append_byte(&answer, '\n');
    /* A new connection has room for it. */
    if (send(fd, answer.data, answer.size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        errno = 0;
    bl_buffer_done(&answer);
    close(fd);
}

static void control_admit(struct bl_control *control, int fd)
{
    if (!bl_local_peer_is_ours(fd)) {
        close(fd);
        return;
    }
    if (control->client_count >= BL_CONTROL_CLIENTS_MAX) {
        refuse_client(fd);
        return;
    }
    struct client *client = bl_zalloc(sizeof *client);
    client->control = control;
    client->fd = fd;
    client->asks.requests = &control->requests;
    client->asks.active_ns = bl_now_ns();
    bl_list_init(&client->asks.watcher.link);
    if (bl_nursery_spawn(&control->clients, NULL, "control client", client_main, client, NULL) !=
        0) {
        close(fd);
        bl_free(client);
        return;
    }
    control->client_count++;
}

static int control_main(void *argument)
{
    struct bl_control *control = argument;
    int code = 0;
    bl_nursery_init(&control->clients, bl_scope_current());
    while (code == 0) {
        int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            control_admit(control, fd);
        else if (errno == EAGAIN)
            code = bl_descriptor_wait(control->descriptor, BL_READABLE, NULL);
        else if (errno != EINTR && errno != ECONNABORTED)
            code = bl_sleep(RETRY_NS);
        if (fd >= 0)
            code = bl_yield(); /* a flood of clients must not starve the rest */
    }
    bl_nursery_done(&control->clients);
    return code;
}

/* ---- The file beside the socket -------------------------------------------------------------- */

static bool is_traced(const struct bl_activity *activity)
{
    return strcmp(activity->kind, "run") == 0 || strcmp(activity->kind, "feature") == 0;
}

static void write_trace(struct bl_json_writer *writer, const struct bl_control *control)
{
    struct control_state state = {.pid = getpid(),
                                  .started_wall_ns = control->requests.started_wall_ns};
    struct bl_arena arena = {0};
    unsigned count = 0;
    bl_list_init(&state.activities);
    BL_LIST_EACH (link, &control->requests.activities->list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (is_traced(activity) && ++count <= TRACED_MAX)
            bl_list_push_back(&state.activities, &bl_activity_view(&arena, activity)->link);
    }
    bl_record_write(writer, &control_trace_record, &state);
    bl_arena_done(&arena);
}

/* Replaces the file atomically, so that a reader finds the old or the new one. Errors are ignored:
 * the work does not depend on the file. Its blocks are allocated first: when a file without
 * allocated blocks is renamed over another, ext4 writes it to disk during the rename, and the whole
 * process would wait for that. */
static void leave_trace(const struct bl_control *control)
{
    char hidden[SERVE_NAME_SIZE + 8];
    BL_AUTO_BUFFER(text, TRACE_MAX);
    struct bl_json_writer writer;
    bl_json_writer_init(&writer, &text);
    write_trace(&writer, control);
    snprintf(hidden, sizeof hidden, ".%s", control->trace);
    int fd = bl_json_writer_done(&writer) != 0
                 ? -1
                 : openat(control->folder, hidden,
                          O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)text.size);
        bool whole = write(fd, text.data, text.size) == (ssize_t)text.size;
        close(fd);
        if (!whole || renameat(control->folder, hidden, control->folder, control->trace) != 0)
            unlinkat(control->folder, hidden, 0);
    }
}

static void on_change(void *context, const struct bl_activity *activity)
{
    const struct bl_control *control = context;
    if (is_traced(activity))
        leave_trace(control);
    serve_watchers_follow(&control->requests.watchers, &control->requests.activities->list);
}

static void control_on_event(void *context, const struct bl_event *event)
{
    const struct bl_control *control = context;
    if (!bl_list_empty(&control->requests.watchers))
        serve_watchers_tell(&control->requests.watchers, event);
}

/* ---- The socket ------------------------------------------------------------------------------ */

/* The name is random because pids repeat between PID namespaces. */
static int control_open_socket(struct bl_control *control, struct bl_error *error)
{
    char id[BL_ID_SIZE];
    int code = serve_folder_open(true, &control->folder, error);
    if (code != 0)
        return code;
    bl_id_make(id, "");
    snprintf(control->name, sizeof control->name, "%s.sock", id);
    serve_trace_name(control->name, control->trace);
    code = serve_path(control->name, control->path, sizeof control->path);
    if (code == 0)
        code = bl_local_listen(control->path, BACKLOG, &control->listener, &control->file, NULL);
    return code != 0 ? code : bl_descriptor_new(control->listener, &control->descriptor);
}

static void remove_socket(struct bl_control *control)
{
    if (control->file.inode == 0)
        return;
    bl_local_remove(control->path, &control->file);
    unlinkat(control->folder, control->trace, 0);
    control->file.inode = 0;
}

static void control_free(struct bl_control *control)
{
    remove_socket(control);
    bl_descriptor_free(control->descriptor);
    if (control->listener >= 0)
        close(control->listener);
    if (control->folder >= 0)
        close(control->folder);
    bl_scope_done(&control->scope);
    bl_free(control);
}

static void watch_activities(struct bl_control *control)
{
    struct bl_activities *activities = control->requests.activities;
    activities->told = control_on_event;
    activities->changed = on_change;
    activities->context = control;
    leave_trace(control);
}

int bl_control_start(struct bl_nursery *nursery, struct bl_activities *activities,
                     struct bl_control **ret_control, struct bl_error *error)
{
    struct bl_control *control = bl_zalloc(sizeof *control);
    control->requests.activities = activities;
    control->requests.started_wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
    control->listener = control->folder = -1;
    bl_list_init(&control->requests.watchers);
    bl_semaphore_init(&control->requests.quiet, 0);
    bl_scope_init(&control->scope, &nursery->scope);
    int code = control_open_socket(control, error);
    if (code == 0)
        code = bl_nursery_spawn(nursery, &control->scope, "control", control_main, control,
                                &control->fiber);
    if (code != 0) {
        bl_error_set(error, code, BL_KIND_RUNTIME, "open the control socket", control->name,
                     "cannot listen on %s: %s",
                     control->name[0] != '\0' ? control->name : "a socket", bl_error_text(code));
        control_free(control);
        return code;
    }
    watch_activities(control);
    *ret_control = control;
    return 0;
}

void bl_control_offer(struct bl_control *control, const struct bl_control_offer *offer)
{
    struct serve_offers *offers = &control->requests.offers;
    assert(offers->count < SERVE_OFFERS_MAX);
    offers->items[offers->count++] = *offer;
}

void bl_control_stop(struct bl_control *control)
{
    struct bl_scope shield;
    if (control == NULL)
        return;
    struct serve_requests *requests = &control->requests;
    if (requests->activities->context == control) {
        requests->activities->told = NULL;
        requests->activities->changed = NULL;
        requests->activities->context = NULL;
    }
    remove_socket(control);
    requests->closing = true;
    if (requests->answering > 0) {
        bl_shield_begin(&shield, DRAIN_NS_MAX);
        bl_semaphore_take(&requests->quiet);
        bl_shield_end(&shield);
    }
    bl_scope_stop(&control->scope, BL_STOP_SHUTDOWN, "control");
    bl_shield_begin(&shield, END_NS_MAX);
    int code = bl_fiber_join(control->fiber, NULL);
    bl_shield_end(&shield);
    assert(code == 0);
    (void)code;
    control_free(control);
}
