#include <belay/store.h>

#include "cli/cli.h"
#include "probe.h"

struct database_probe {
    const char *where;
    struct bl_arena arena;
    struct bl_store_fleet fleet;
    struct bl_error error;
};

static int database_probe_main(void *argument)
{
    struct database_probe *probe = argument;

    return bl_store_fleet_read(probe->where, false, &probe->arena, &probe->fleet, &probe->error);
}

void probe_database(const char *where, struct probe_database *database)
{
    struct database_probe probe = {.where = where};
    struct probe_check *check = &database->check;

    *database = (struct probe_database){0};
    if (where == NULL || !bl_store_is_database(where))
        return;
    check->name = "database";
    if (cli_loop_run("doctor", database_probe_main, &probe, &probe.error) != 0) {
        probe_answer(check, PROBE_NO, "%s", probe.error.message);
        if (probe.error.hint[0] != '\0')
            probe_hint(check, "%s", probe.error.hint);
    } else {
        bl_text_into(database->server, sizeof database->server, probe.fleet.server);
        database->schema = probe.fleet.schema;
        database->round_trip_ms = probe.fleet.round_trip_ms;
        probe_answer(check, PROBE_OK,
                     "%.160s: PostgreSQL %s, schema version %lld, round trip %.2f ms",
                     probe.fleet.store, probe.fleet.server, (long long)probe.fleet.schema,
                     probe.fleet.round_trip_ms);
    }
    bl_arena_done(&probe.arena);
}
