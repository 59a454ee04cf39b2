#include "server.h"

#include <stdio.h>
#include <string.h>

#define STANDBY_MS 30000

/* Copies the files of a running primary. */
static bool pg_base_backup(struct pg_server *standby, const struct pg_server *primary)
{
    struct pg_request request = {.size = 0};
    char answer[64];

    pg_word(&request, "run");
    pg_word(&request, "server");
    pg_word(&request, "%s/pg_basebackup", pg_programs()->folder);
    pg_word(&request, "--pgdata=%s/data", standby->folder);
    pg_word(&request, "--host=%s", primary->folder);
    pg_word(&request, "--port=%u", primary->port);
    pg_word(&request, "--username=" PG_USER);
    pg_word(&request, "--wal-method=stream");
    pg_word(&request, "--checkpoint=fast");
    pg_word(&request, "--no-sync");
    return (pg_call(standby, &request, answer, sizeof answer) && strcmp(answer, "exit 0") == 0) ||
           pg_fail(standby, "pg_basebackup failed: %s", answer);
}

/* Writes how it finds the primary. Its name there is standby_PORT. */
static bool pg_configure_standby(struct pg_server *standby, const struct pg_server *primary,
                                 const struct pg_standby_options *options)
{
    char host[128];

    if (options->through != 0)
        snprintf(host, sizeof host, "host=127.0.0.1 port=%u password=%s", options->through,
                 PG_PASSWORD);
    else
        snprintf(host, sizeof host, "host=%s port=%u", primary->folder, primary->port);
    return pg_configure(standby, &options->server) &&
           pg_append(standby, "postgresql.conf",
                     "primary_conninfo = '%s user=%s application_name=standby_%u'\n"
                     "wal_retrieve_retry_interval = 100ms\n",
                     host, PG_USER, standby->port) &&
           pg_append(standby, "standby.signal", "%s", "");
}

static bool pg_await_standby(struct pg_server *primary, const struct pg_server *standby,
                             bool synchronous)
{
    char sql[256];

    if (synchronous) {
        snprintf(sql, sizeof sql, "ALTER SYSTEM SET synchronous_standby_names = 'standby_%u'",
                 standby->port);
        if (!pg_server_change(primary, "postgres", sql) ||
            !pg_server_change(primary, "postgres", "SELECT pg_reload_conf()"))
            return false;
    }
    snprintf(sql, sizeof sql,
             "SELECT state || ' ' || sync_state FROM pg_stat_replication"
             " WHERE application_name = 'standby_%u'",
             standby->port);
    return pg_server_await(primary, "postgres", sql,
                           synchronous ? "streaming sync" : "streaming async", STANDBY_MS);
}

bool pg_server_follow(struct pg_server *standby, struct pg_server *primary,
                      const struct pg_standby_options *options)
{
    static const struct pg_standby_options defaults;

    if (options == NULL)
        options = &defaults;
    if (pg_folder_make(standby) && pg_base_backup(standby, primary) &&
        pg_configure_standby(standby, primary, options) && pg_server_restart(standby) &&
        /* The primary's own standbys are not those of this one. */
        pg_server_change(standby, "postgres", "ALTER SYSTEM RESET synchronous_standby_names") &&
        pg_await_standby(primary, standby, options->synchronous))
        return true;
    pg_server_end(standby);
    return false;
}

bool pg_server_promote(struct pg_server *standby)
{
    char answer[16];

    return pg_server_ask(standby, "postgres", "SELECT pg_promote(true, 30)", answer,
                         sizeof answer) &&
           (strcmp(answer, "t") == 0 || pg_fail(standby, "the standby does not become a primary"));
}
