/* Private PostgreSQL servers: each in a temporary folder, with its own port, for one test process.
 *
 * A keeper process (keeper.c) runs the server and kills it with all its processes when the test
 * process ends, even if that is killed; then it removes the folder. Nothing is left of a test run.
 *
 * The functions block, for a limited time, in fibers too. Those that return bool print the reason
 * and the end of the server's log to standard error when they fail. None of them asserts, except
 * where it says so. Tests that use them need `depends: pg_keeper` in their meson.build. */
#ifndef BELAY_TESTS_POSTGRES_H
#define BELAY_TESTS_POSTGRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The superuser of every server. The Unix socket trusts all users; TCP requires the password. */
#define PG_USER     "postgres"
#define PG_PASSWORD "test-password"
/* Enough for every address below. */
#define PG_ADDRESS_SIZE 256

struct pg_options {
    unsigned max_connections; /* 0: 100 */
    const char *listen;       /* TCP addresses, separated by commas; NULL: 127.0.0.1 */
    const char *settings;     /* more lines for postgresql.conf; they take precedence */
    /* NAME=VALUE, ends in NULL: added to the server's environment, for example LD_PRELOAD. It is
     * used when the server starts and when it restarts: it must outlive the server. */
    const char *const *environment;
};

struct pg_server {
    char folder[96]; /* data/, log, and the Unix socket */
    uint16_t port;   /* reserved until pg_server_end: also while the server is stopped */
    pid_t pid;       /* of the postmaster; 0: not running */
    pid_t keeper;    /* 0: no server, and nothing to end */
    int control;     /* socket to the keeper */
    const char *const *environment;
};

/* Returns NULL if servers can be started here, else the reason why not. The programs are those of
 * $BELAY_POSTGRES_BIN, or of the newest version in /usr/lib/postgresql. */
const char *pg_missing(void);
/* Skips the running test if servers cannot be started here. Call it outside of fibers. */
void pg_skip_unless_available(void);

/* The server that all tests of this process share. It starts at the first call and ends when the
 * process exits. Skips the test where no server is installed, and fails it if the server does not
 * start: call it outside of fibers. */
struct pg_server *pg_server_shared(void);

/* Starts a server with an empty data folder. `options` may be NULL. After a failure there is
 * nothing to end. */
bool pg_server_start(struct pg_server *server, const struct pg_options *options);
/* Ends its sessions and stops it, as `pg_ctl stop --mode fast` does. */
bool pg_server_stop(struct pg_server *server);
/* A crash: kills the postmaster and all its processes by SIGKILL, at once. Returns when they are
 * gone. Data that was not synchronized survives, as the machine continues. */
bool pg_server_kill(struct pg_server *server);
/* Starts it again after a stop or a crash, with its data, at the same port. Returns when it accepts
 * connections, after any recovery. */
bool pg_server_restart(struct pg_server *server);
/* Kills it and removes its folder. Accepts a server that is not running or has ended. */
void pg_server_end(struct pg_server *server);

/* Write an address for clients into `out`, of PG_ADDRESS_SIZE. `user` NULL: PG_USER. Over the Unix
 * socket, "postgres://USER@/DATABASE?host=FOLDER&port=PORT"; over TCP,
 * "postgres://USER:PASSWORD@127.0.0.1:PORT/DATABASE", with the port of the server or of a proxy
 * in front of it. Give the roles that a test creates PG_PASSWORD too. */
void pg_server_address(const struct pg_server *server, const char *database, const char *user,
                       char *out);
void pg_tcp_address(uint16_t port, const char *database, const char *user, char *out);

/* Creates an empty database. The name is quoted. */
bool pg_server_database(struct pg_server *server, const char *name);
/* Run SQL in a connection of their own, as PG_USER, over the Unix socket. The first returns the
 * first column of the first row, and an empty text if that is NULL or there is no row. */
bool pg_server_ask(struct pg_server *server, const char *database, const char *sql, char *out,
                   size_t out_size);
/* INT64_MIN: not a number. */
int64_t pg_server_ask_integer(struct pg_server *server, const char *database, const char *sql);
bool pg_server_change(struct pg_server *server, const char *database, const char *sql);
/* Asks every few milliseconds until the answer is `expected`; false after `limit_ms`. */
bool pg_server_await(struct pg_server *server, const char *database, const char *sql,
                     const char *expected, unsigned limit_ms);

struct pg_standby_options {
    bool synchronous; /* commits of the primary wait for it from now on */
    /* Not 0: receives the log through this port of 127.0.0.1, a proxy in front of the primary. */
    uint16_t through;
    struct pg_options server;
};

/* Copies the running primary to a new server that follows it, and waits until it does. `options`
 * may be NULL. */
bool pg_server_follow(struct pg_server *standby, struct pg_server *primary,
                      const struct pg_standby_options *options);
/* Makes the standby a primary; returns when it accepts writes. It does not end the former one. */
bool pg_server_promote(struct pg_server *standby);

/* Prints the end of its log to standard error. */
void pg_server_print_log(const struct pg_server *server);

#endif
