/* Private PgBouncers in transaction mode, in front of a private server (postgres.h). A keeper of its
 * own runs each, and kills it when the test process ends. */
#ifndef BELAY_TESTS_PGBOUNCER_H
#define BELAY_TESTS_PGBOUNCER_H

#include "postgres.h"

struct pg_bouncer {
    struct pg_server home; /* its folder, port and keeper; not a server */
};

/* Returns NULL if it can be started here, else the reason why not. The program is that of
 * $BELAY_PGBOUNCER, or of the distribution. */
const char *pg_bouncer_missing(void);
/* Starts one that passes all databases of the server on, and returns when it listens at its port of
 * 127.0.0.1. It asks for no password. After a failure there is nothing to end. */
bool pg_bouncer_start(struct pg_bouncer *bouncer, const struct pg_server *server);
void pg_bouncer_end(struct pg_bouncer *bouncer);

#endif
