#include "pgbouncer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

#define BOUNCER_PROGRAM "/usr/sbin/pgbouncer"
#define BOUNCER_MS      20000

static const char *pg_bouncer_program(void)
{
    const char *given = getenv("BELAY_PGBOUNCER");
    return given != NULL ? given : BOUNCER_PROGRAM;
}

const char *pg_bouncer_missing(void)
{
    if (pg_missing() != NULL)
        return pg_missing();
    return access(pg_bouncer_program(), X_OK) < 0 ? "no PgBouncer here (scripts/deps test)" : NULL;
}

/* A server that was down is tried again at once. */
static bool pg_bouncer_configure(const struct pg_bouncer *bouncer, const struct pg_server *server)
{
    char path[160];
    snprintf(path, sizeof path, "%s/pgbouncer.ini", bouncer->home.folder);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return pg_fail(NULL, "%s: %s", path, strerror(errno));
    fprintf(file,
            "[databases]\n"
            "* = host=%s port=%u user=%s\n"
            "[pgbouncer]\n"
            "listen_addr = 127.0.0.1\n"
            "listen_port = %u\n"
            "unix_socket_dir =\n"
            "auth_type = any\n"
            "pool_mode = transaction\n"
            "default_pool_size = 10\n"
            "max_client_conn = 500\n"
            "server_login_retry = 1\n"
            "log_connections = 0\n"
            "log_disconnections = 0\n",
            server->folder, server->port, PG_USER, bouncer->home.port);
    return fclose(file) == 0;
}

static bool pg_bouncer_accepts(const struct pg_bouncer *bouncer)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(bouncer->home.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool accepts = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return accepts;
}

bool pg_bouncer_start(struct pg_bouncer *bouncer, const struct pg_server *server)
{
    struct pg_request request = {.size = 0};
    char answer[64];
    int64_t deadline = pg_now_ms() + BOUNCER_MS;
    bool started = pg_folder_make(&bouncer->home) && pg_bouncer_configure(bouncer, server);
    pg_word(&request, "serve");
    pg_word(&request, "server");
    pg_word(&request, "%s", pg_bouncer_program());
    pg_word(&request, "%s/pgbouncer.ini", bouncer->home.folder);
    started = started && pg_call(&bouncer->home, &request, answer, sizeof answer) &&
              strncmp(answer, "pid ", 4) == 0;
    while (started && !pg_bouncer_accepts(bouncer) && pg_now_ms() < deadline)
        poll(NULL, 0, PG_POLL_MS);
    if (started && pg_bouncer_accepts(bouncer))
        return true;
    pg_fail(&bouncer->home, "PgBouncer does not start");
    pg_bouncer_end(bouncer);
    return false;
}

void pg_bouncer_end(struct pg_bouncer *bouncer)
{
    pg_server_end(&bouncer->home);
}
