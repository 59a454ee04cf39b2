#include "server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128
/* Pause when the process is out of descriptors. */
#define RETRY_NS (100 * BL_NS_PER_MS)
/* The server's fibers end at their next wait, except those that must finish something. */
#define END_NS_MAX (600 * BL_NS_PER_S)

/* ---- Signals --------------------------------------------------------------------------------- */

struct waiting {
    struct bl_list link;
    struct bl_semaphore told;
};

int server_signal_wait(struct server_signal *signal)
{
    struct waiting waiting;
    bl_semaphore_init(&waiting.told, 0);
    bl_list_push_back(&signal->waiting, &waiting.link);
    int code = bl_semaphore_take(&waiting.told);
    bl_list_remove(&waiting.link);
    return code;
}

void server_signal_tell(struct server_signal *signal)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&signal->waiting)) != NULL)
        bl_semaphore_give(&BL_CONTAINER(link, struct waiting, link)->told);
}

/* ---- Clients --------------------------------------------------------------------------------- */

void server_log(const struct bl_cell_server *server, const char *format, ...)
{
    char line[400];
    va_list arguments;
    if (server->options.log == NULL)
        return;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0)
        return;
    /* A client's name must not forge a log line. */
    for (char *at = line; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    struct bl_text text = {line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1};
    server->options.log(server->options.context, bl_utf8_cut(text, text.size));
}

static void server_admit(struct bl_cell_server *server, int fd)
{
    if (!bl_local_peer_is_ours(fd)) {
        close(fd);
        server_log(server, "rejected a client of another user");
        return;
    }
    if (server->connection_count >= BL_CELL_CONNECTIONS_MAX) {
        close(fd);
        server_log(server, "rejected a client: %u connections are open", server->connection_count);
        return;
    }
    int code = server_connection_start(server, fd, fd);
    if (code != 0)
        server_log(server, "rejected a client: %s", bl_error_text(code));
}

static void server_accept_until_stopped(struct bl_cell_server *server)
{
    int code = 0;
    while (code == 0) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            server_admit(server, fd);
        else if (errno == EAGAIN)
            code = bl_descriptor_wait(server->descriptor, BL_READABLE, NULL);
        else if (errno != EINTR && errno != ECONNABORTED)
            code = bl_sleep(RETRY_NS);
        if (fd >= 0)
            code = bl_yield(); /* a flood of clients must not starve the rest */
    }
}

static int server_main(void *argument)
{
    struct bl_cell_server *server = argument;
    if (server->listener >= 0)
        server_accept_until_stopped(server);
    else
        bl_sleep(BL_NEVER);
    bl_nursery_done(&server->nursery);
    return 0;
}

/* ---- Start ----------------------------------------------------------------------------------- */

static int server_find_path(struct bl_cell_server *server, struct bl_error *error)
{
    int folder;
    size_t size = sizeof server->path;
    if (server->options.socket != NULL) {
        if (strlen(server->options.socket) >= size)
            return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, "serve cells",
                                server->options.socket, "the path of the socket is too long");
        bl_text_into(server->path, size, server->options.socket);
        return 0;
    }
    int code = bl_runtime_folder_open(true, &folder, error);
    if (code != 0)
        return code;
    close(folder);
    return cell_socket_path(server->path, size, error);
}

static int server_open_socket(struct bl_cell_server *server, struct bl_error *error)
{
    int code = server_find_path(server, error);
    if (code == 0)
        code = bl_local_listen(server->path, BACKLOG, &server->listener, &server->file, error);
    if (code == BL_EBUSY)
        bl_error_hint(error, "use that host, or choose another socket with --socket");
    return code != 0 ? code : bl_descriptor_new(server->listener, &server->descriptor);
}

/* Duplicates the streams; the originals stay the caller's. */
static int open_streams(struct bl_cell_server *server)
{
    int input = fcntl(server->options.input, F_DUPFD_CLOEXEC, 3);
    if (input < 0)
        return bl_error_from_errno(errno);
    int output = fcntl(server->options.output, F_DUPFD_CLOEXEC, 3);
    if (output < 0) {
        int code = bl_error_from_errno(errno);
        close(input);
        return code;
    }
    return server_connection_start(server, input, output);
}

static void server_free(struct bl_cell_server *server)
{
    bl_local_remove(server->path, &server->file);
    bl_descriptor_free(server->descriptor);
    if (server->listener >= 0)
        close(server->listener);
    bl_scope_done(&server->scope);
    bl_map_done(&server->sessions);
    bl_free(server->buffer);
    bl_free(server);
}

static struct bl_cell_server *server_new(struct bl_nursery *nursery,
                                         const struct bl_cell_server_options *options)
{
    struct bl_cell_server *server = bl_zalloc(sizeof *server);
    server->options = *options;
    server->listener = -1;
    server->buffer = bl_alloc(SERVER_READ_SIZE);
    bl_id_make(server->instance, "h-");
    bl_list_init(&server->connections);
    bl_list_init(&server->changed.waiting);
    bl_map_init(&server->sessions);
    bl_semaphore_init(&server->lingering, 0);
    bl_scope_init(&server->scope, &nursery->scope);
    return server;
}

static int server_begin(struct bl_cell_server *server, struct bl_nursery *nursery)
{
    bl_nursery_init(&server->nursery, &server->scope);
    int code = bl_nursery_spawn(&server->nursery, NULL, "cell sessions", server_session_linger,
                                server, NULL);
    if (code == 0 && server->listener < 0)
        code = open_streams(server);
    if (code == 0)
        code = bl_nursery_spawn(nursery, &server->scope, "cell server", server_main, server,
                                &server->fiber);
    if (code != 0)
        bl_nursery_done(&server->nursery);
    return code;
}

int bl_cell_server_start(struct bl_nursery *nursery, const struct bl_cell_server_options *options,
                         struct bl_cell_server **ret_server, struct bl_error *error)
{
    struct bl_cell_server *server = server_new(nursery, options);
    int code = options->input >= 0 ? 0 : server_open_socket(server, error);
    if (code == 0)
        code = server_begin(server, nursery);
    if (code != 0) {
        bl_error_set(error, code, BL_KIND_RUNTIME, "serve cells", server->path,
                     "cannot serve cells: %s", bl_error_text(code));
        server_free(server);
        return code;
    }
    *ret_server = server;
    return 0;
}

const char *bl_cell_server_path(const struct bl_cell_server *server)
{
    return server->path[0] != '\0' ? server->path : NULL;
}

int bl_cell_server_wait(struct bl_cell_server *server)
{
    int code = 0;
    while (code == 0 && !server->ended)
        code = server_signal_wait(&server->changed);
    return code;
}

void bl_cell_server_stop(struct bl_cell_server *server, enum bl_stop_reason reason,
                         const char *origin)
{
    struct bl_scope shield;
    if (server == NULL)
        return;
    bl_local_remove(server->path, &server->file);
    BL_LIST_EACH (link, &server->connections)
        server_connection_bye(BL_CONTAINER(link, struct server_connection, link), "shutting_down",
                              true, "the host is shutting down");
    bl_scope_stop(&server->scope, BL_STOP_SHUTDOWN, "cell server");
    bl_shield_begin(&shield, END_NS_MAX);
    int code = bl_fiber_join(server->fiber, NULL);
    assert(code == 0);
    (void)code;
    server_sessions_end(server, reason, origin);
    bl_shield_end(&shield);
    server_free(server);
}
