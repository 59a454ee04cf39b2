/* The schema of a database: schema/, in the order of its files. */
#include <stdio.h>

#include "postgres.h"
#include "schema.h"

const char *bl_store_schema(void)
{
    return schema_source;
}

/* Returns whether the schema `belay` that is there has a table that Belay creates. */
static bool schema_is_ours(struct pg_link *link)
{
    BL_AUTO_ARENA(arena);
    struct pg_call *call = pg_call_new(&arena, "select to_regclass('belay.fleet') is not null", "");
    bool ours = false;
    if (pg_link_ask(link, call, "look for the schema", NULL) == 0 && pg_rows(call) == 1) {
        struct store_row row = pg_row(call, 0);
        ours = store_row_flag(&row, 0);
    }
    pg_call_done(call);
    return ours;
}

static int refuse_existing(struct pg_link *link, struct bl_error *error)
{
    const char *shown = link->store->address.shown;
    bool ours = schema_is_ours(link);
    int code = ours ? BL_EEXIST : BL_ENOTSUP;
    *error = (struct bl_error){0};
    bl_error_set(error, code, BL_KIND_SESSION, "create the schema", shown,
                 ours ? "%.200s has the schema already"
                      : "%.200s has a schema 'belay' that is not Belay's",
                 shown);
    bl_error_hint(error, ours ? "nothing was changed: use the database with --store"
                              : "nothing was changed: use another database, or rename that schema");
    return code;
}

/* Explains why the schema could not be created. */
static int refuse_create(struct pg_link *link, const struct pg_call *call, int code,
                         struct bl_error *error)
{
    if (strcmp(pg_state(call), "42P06") == 0)
        return refuse_existing(link, error);
    if (code == BL_EACCES) {
        error->hint[0] = '\0';
        bl_error_hint(error, "the user needs CREATE on the database and CREATEROLE; or let an "
                             "administrator run the SQL of 'belay fleet init --plan'");
    }
    return code;
}

int bl_store_create(const char *where, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    struct pg_store store;
    struct bl_error own = {0};
    int code = pg_visit(&store, where, false, "belay fleet init", &own);
    if (code == 0) {
        /* One statement, and so one transaction. */
        struct bl_text sql = bl_arena_printf(
            &arena, "do $belay$ begin execute $schema$%s$schema$; end $belay$", schema_source);
        struct pg_call *call = pg_call_new(&arena, sql.data, "");
        code = pg_link_ask(&store.work, call, "create the schema", &own);
        if (code != 0)
            code = refuse_create(&store.work, call, code, &own);
        pg_call_done(call);
    }
    pg_visit_end(&store);
    if (code != 0 && error != NULL && error->code == 0)
        *error = own;
    return code;
}
