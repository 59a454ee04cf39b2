/* What the sources of postgres.h share. */
#ifndef BELAY_TESTS_POSTGRES_SERVER_H
#define BELAY_TESTS_POSTGRES_SERVER_H

#include <belay/base.h>

#include "postgres.h"

#define PG_POLL_MS 5

/* Given to initdb; a change of these needs a change of the name of the copy. */
#define PG_INITIAL_FORM "1"

struct pg_programs {
    const char *missing; /* the reason, or NULL */
    char folder[400];    /* of the programs */
    char keeper[256];
    char copy[256]; /* of a data folder after initdb; empty: there is no place to keep it */
    uid_t user;
    gid_t group;
};

/* Looks for them once. */
const struct pg_programs *pg_programs(void);

int64_t pg_now_ms(void); /* of the monotonic clock */
/* Prints the message, and the end of the log if there is a server; returns false. */
bool pg_fail(const struct pg_server *server, const char *format, ...) BL_PRINTF(2, 3);

/* A request to the keeper: words that end in NUL. */
struct pg_request {
    char bytes[8192];
    size_t size;
};

void pg_word(struct pg_request *request, const char *format, ...) BL_PRINTF(2, 3);
/* Sends the request, and writes the answer. */
bool pg_call(struct pg_server *server, const struct pg_request *request, char *out,
             size_t out_size);

/* Makes an empty folder, and the keeper that will remove it. */
bool pg_folder_make(struct pg_server *server);
/* Adds to a file of the data folder: of several lines for a setting the last one counts. */
bool pg_append(struct pg_server *server, const char *name, const char *format, ...) BL_PRINTF(3, 4);
/* Adds these options to the configuration. NULL: the defaults. */
bool pg_configure(struct pg_server *server, const struct pg_options *options);

#endif
