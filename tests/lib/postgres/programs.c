#include "server.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

#define PROGRAMS "/usr/lib/postgresql"

/* Finds the newest version of the distribution. Returns false if there is none. */
static bool pg_find_version(char *out, size_t size)
{
    DIR *folder = opendir(PROGRAMS);
    double best = 0;

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char path[500];
        double version = strtod(entry->d_name, NULL);
        snprintf(path, sizeof path, "%s/%s/bin/initdb", PROGRAMS, entry->d_name);
        if (version > best && access(path, X_OK) == 0) {
            best = version;
            snprintf(out, size, "%s/%s/bin", PROGRAMS, entry->d_name);
        }
    }
    if (folder != NULL)
        closedir(folder);
    return best > 0;
}

/* The server refuses to run as root. */
static bool pg_find_user(struct pg_programs *programs)
{
    programs->user = geteuid();
    programs->group = getegid();
    if (programs->user != 0)
        return true;
    struct passwd *entry = getpwnam("postgres");
    if (entry == NULL)
        entry = getpwnam("nobody");
    if (entry == NULL)
        return false;
    programs->user = entry->pw_uid;
    programs->group = entry->pw_gid;
    return true;
}

/* Returns the reason why there are none. */
static const char *pg_find_programs(struct pg_programs *programs)
{
    const char *given = getenv("BELAY_POSTGRES_BIN"), *build = getenv("BELAY_BUILD_ROOT");
    const char *keeper = getenv("BELAY_PG_KEEPER");
    char path[500];
    struct stat status;

    if (given != NULL)
        bl_text_into(programs->folder, sizeof programs->folder, given);
    else if (!pg_find_version(programs->folder, sizeof programs->folder))
        return "no PostgreSQL server here (scripts/deps test)";
    snprintf(path, sizeof path, "%s/postgres", programs->folder);
    if (stat(path, &status) < 0)
        return "no PostgreSQL server in $BELAY_POSTGRES_BIN";
    if (!pg_find_user(programs))
        return "root cannot run a PostgreSQL server, and there is neither a user postgres nor "
               "nobody";
    if (keeper == NULL || access(keeper, X_OK) < 0)
        return "no program in $BELAY_PG_KEEPER (run the tests with meson or scripts/test-room)";
    bl_text_into(programs->keeper, sizeof programs->keeper, keeper);
    if (build != NULL)
        snprintf(programs->copy, sizeof programs->copy, "%s/postgres-%s-%lld-%lld-%u", build,
                 PG_INITIAL_FORM, (long long)status.st_size, (long long)status.st_mtime,
                 (unsigned)programs->user);
    return NULL;
}

const struct pg_programs *pg_programs(void)
{
    static struct pg_programs programs;
    static bool found;

    if (!found)
        programs.missing = pg_find_programs(&programs);
    found = true;
    return &programs;
}

const char *pg_missing(void)
{
    return pg_programs()->missing;
}

void pg_skip_unless_available(void)
{
    if (pg_missing() != NULL)
        suite_skip(pg_missing());
}
