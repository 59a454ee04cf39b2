/* Design notes.
 *
 * One fiber lets clients in, and one for each client reads a line, does what it says, and answers.
 * They run in a scope below the caller's nursery, so that a stop of that ends them.
 *
 * A process that was told to cancel its run ends soon after, and the answer is still to be written:
 * so the end waits a moment for the answers under way. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "request.h"

#define BACKLOG 64
/* Of sockets with our number: those of other PID namespaces on the same folder. */
#define NAMES_MAX 100
/* For answers that are under way when the control is stopped. */
#define DRAIN_NS_MAX (1 * BL_NS_PER_S)
/* Its fibers end at their next wait. */
#define END_NS_MAX (60 * BL_NS_PER_S)
/* When the machine has no more descriptors. */
#define RETRY_NS (100 * BL_NS_PER_MS)

struct bl_control {
    struct serve_requests requests;
    struct serve_offers offers;
    struct bl_scope scope;
    struct bl_fiber *fiber;
    int listener;
    struct bl_descriptor *descriptor;
    struct bl_nursery clients;
    uint32_t client_count;
    uint32_t answering; /* requests under way */
    bool closing;
    struct bl_semaphore drained; /* given when the last of them is answered, while closing */
    char name[48];
    char path[SERVE_PATH_SIZE];
    struct bl_local_file file;
};

struct client {
    struct bl_control *control;
    struct serve_line line;
};

/* ---- Clients --------------------------------------------------------------------------------- */

static void answered(struct bl_control *control)
{
    control->answering--;
    if (control->closing && control->answering == 0)
        bl_semaphore_give(&control->drained);
}

static int answer_line(struct client *client, struct bl_text line)
{
    struct bl_control *control = client->control;
    struct serve_requests requests = control->requests;
    struct bl_buffer answer;
    requests.client = &client->line;
    /* With room for the LF. */
    bl_buffer_init(&answer, SERVE_ANSWER_MAX + 1);
    control->answering++;
    int code = serve_request(&requests, line, &answer);
    if (code == 0)
        code = serve_line_write(&client->line, bl_buffer_text(&answer), serve_patience_ns);
    answered(control);
    bl_buffer_done(&answer);
    return code;
}

/* Line after line, until there are no more or one of them fails. */
static void serve_client(struct client *client)
{
    uint64_t idle_ns = serve_patience_ns;
    struct bl_text line;
    int code = 0;
    while (code == 0) {
        code = serve_line_read(&client->line, idle_ns, serve_patience_ns, &line);
        if (code == 0)
            code = answer_line(client, line);
        idle_ns = BL_CONTROL_IDLE_NS_MAX;
    }
    if (code == BL_ELIMIT) {
        struct bl_buffer answer;
        bl_buffer_init(&answer, 4096);
        serve_failure(&answer, NULL, BL_RPC_PARSE, "a line has at most 65536 bytes");
        serve_line_write(&client->line, bl_buffer_text(&answer), serve_patience_ns);
        bl_buffer_done(&answer);
    }
}

static int client_main(void *argument)
{
    struct client *client = argument;
    struct bl_control *control = client->control;
    serve_client(client);
    serve_line_done(&client->line);
    control->client_count--;
    bl_free(client);
    return 0;
}

static void turn_away(int fd)
{
    struct bl_buffer answer;
    bl_buffer_init(&answer, 4096);
    serve_failure(&answer, NULL, BL_RPC_BUSY, "too many clients: try again");
    /* A fresh connection has room for it. */
    if (send(fd, answer.data, answer.size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        errno = 0;
    bl_buffer_done(&answer);
    close(fd);
}

static void let_in(struct bl_control *control, int fd)
{
    if (!bl_local_peer_is_ours(fd)) {
        close(fd);
        return;
    }
    if (control->client_count >= BL_CONTROL_CLIENTS_MAX) {
        turn_away(fd);
        return;
    }
    struct client *client = bl_zalloc(sizeof *client);
    client->control = control;
    int code = serve_line_init(&client->line, fd, BL_CONTROL_LINE_MAX);
    if (code == 0)
        code =
            bl_nursery_spawn(&control->clients, NULL, "control client", client_main, client, NULL);
    if (code != 0) {
        serve_line_done(&client->line);
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
            let_in(control, fd);
        else if (errno == EAGAIN)
            code = bl_descriptor_wait(control->descriptor, BL_READABLE, NULL);
        else if (errno != EINTR && errno != ECONNABORTED)
            code = bl_sleep(RETRY_NS);
        if (fd >= 0)
            code = bl_yield(); /* a flood of clients is not all that there is to do */
    }
    bl_nursery_done(&control->clients);
    return code;
}

/* ---- The socket ------------------------------------------------------------------------------ */

/* PID.sock; PID-2.sock and so on where a process of another PID namespace listens there. */
static int open_socket(struct bl_control *control)
{
    int code = BL_EEXIST;
    for (int i = 1; i <= NAMES_MAX && (code == BL_EBUSY || code == BL_EEXIST); i++) {
        if (i == 1)
            snprintf(control->name, sizeof control->name, "%d.sock", (int)getpid());
        else
            snprintf(control->name, sizeof control->name, "%d-%d.sock", (int)getpid(), i);
        code = serve_path(control->name, control->path, sizeof control->path);
        if (code == 0)
            code =
                bl_local_listen(control->path, BACKLOG, &control->listener, &control->file, NULL);
    }
    return code != 0 ? code : bl_descriptor_new(control->listener, &control->descriptor);
}

/* The folder is made if it is not there, and looked at: it must be ours. */
static int check_folder(struct bl_error *error)
{
    int folder;
    int code = bl_runtime_folder_open(true, &folder, error);
    if (code == 0)
        close(folder);
    return code;
}

static void control_free(struct bl_control *control)
{
    bl_local_remove(control->path, &control->file);
    bl_descriptor_free(control->descriptor);
    if (control->listener >= 0)
        close(control->listener);
    bl_scope_done(&control->scope);
    bl_free(control);
}

int bl_control_start(struct bl_nursery *nursery, struct bl_activities *activities,
                     struct bl_control **ret_control, struct bl_error *error)
{
    struct bl_control *control = bl_zalloc(sizeof *control);
    control->requests.activities = activities;
    control->requests.offers = &control->offers;
    control->requests.started_wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
    control->listener = -1;
    bl_semaphore_init(&control->drained, 0);
    bl_scope_init(&control->scope, &nursery->scope);
    int code = check_folder(error);
    if (code == 0)
        code = open_socket(control);
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
    *ret_control = control;
    return 0;
}

void bl_control_offer(struct bl_control *control, const struct bl_control_offer *offer)
{
    assert(control->offers.count < SERVE_OFFERS_MAX);
    control->offers.items[control->offers.count++] = *offer;
}

void bl_control_stop(struct bl_control *control)
{
    struct bl_scope shield;
    if (control == NULL)
        return;
    bl_local_remove(control->path, &control->file);
    control->closing = true;
    if (control->answering > 0) {
        bl_shield_begin(&shield, DRAIN_NS_MAX);
        bl_semaphore_take(&control->drained);
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
