#include "records.h"

#include <stdio.h>
#include <stdlib.h>

#include <sqlite3.h>

#define BUSY_MS 1000

static sqlite3 *open_store(void)
{
    sqlite3 *db = NULL;
    int code =
        sqlite3_open_v2(stage_path("data/belay/sessions.db"), &db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK)
        fail_msg("the store cannot be opened: %s", sqlite3_errstr(code));
    sqlite3_busy_timeout(db, BUSY_MS);
    return db;
}

typedef void take_row(sqlite3_stmt *row, void *context);

static void each_row(const char *sql, take_row *take, void *context)
{
    sqlite3 *db = open_store();
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        take(statement, context);
        code = SQLITE_OK;
    }
    if (code != SQLITE_DONE)
        fail_msg("'%s': %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void take_first(sqlite3_stmt *row, void *context)
{
    const char **text = context;
    const char *value = (const char *)sqlite3_column_text(row, 0);
    if (*text == NULL && value != NULL)
        *text = stage_keep((struct bl_text){value, (size_t)sqlite3_column_bytes(row, 0)});
}

const char *records_text(const char *sql)
{
    const char *text = NULL;
    each_row(sql, take_first, &text);
    return text;
}

int64_t records_number(const char *sql)
{
    int64_t number = 0;
    const char *text = records_text(sql);
    if (text == NULL || bl_text_to_int64(bl_text_from(text), &number) != 0)
        fail_msg("'%s' gives no number", sql);
    return number;
}

bool records_change(const char *sql)
{
    sqlite3 *db = open_store();
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (code != SQLITE_OK && code != SQLITE_BUSY)
        fail_msg("'%s': %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
    return code == SQLITE_OK;
}

const struct bl_json *records_get(const char *name)
{
    const char *json = records_text(
        stage_printf("SELECT json FROM feature_record JOIN feature ON feature.key = feature"
                     " AND feature.generation = feature_record.generation"
                     " WHERE feature.id = 'FEAT' AND feature_record.name = '%s'",
                     name));
    return json != NULL ? stage_json(json) : NULL;
}

static void take_columns(sqlite3_stmt *row, void *context)
{
    for (int i = 0; i < sqlite3_column_count(row); i++) {
        const char *value = (const char *)sqlite3_column_text(row, i);
        bl_buffer_printf(context, "%s|", value != NULL ? value : "-");
    }
    bl_buffer_append_byte(context, '\n');
}

const char *records_all(void)
{
    struct bl_buffer text;
    bl_buffer_init(&text, (size_t)256 << 20);
    each_row("SELECT * FROM feature ORDER BY key", take_columns, &text);
    each_row("SELECT * FROM feature_lease ORDER BY feature", take_columns, &text);
    each_row("SELECT * FROM feature_record ORDER BY key", take_columns, &text);
    each_row("SELECT * FROM feature_event ORDER BY feature, number", take_columns, &text);
    const char *all = stage_keep(bl_buffer_text(&text));
    bl_buffer_done(&text);
    return all;
}

/* ---- Consistency ----------------------------------------------------------------------------- */

static void check_json(sqlite3_stmt *row, void *context)
{
    struct bl_arena arena = {0};
    const struct bl_json *value;
    struct bl_text json = {(const char *)sqlite3_column_text(row, 1),
                           (size_t)sqlite3_column_bytes(row, 1)};
    (void)context;
    if (bl_json_read(&arena, json, NULL, &value, NULL) != 0 || !bl_json_is(value, BL_JSON_OBJECT))
        fail_msg("%s is not a JSON object: '%.400s'", sqlite3_column_text(row, 0), json.data);
    bl_arena_done(&arena);
}

/* Attempts that are decided in their row, and their task_ended events. An attempt that ended with
 * its owner's death has no event. */
#define UNTOLD                                                                                     \
    "SELECT name || ' of generation ' || record.generation FROM feature_record AS record"          \
    " WHERE feature = %lld AND name LIKE 'attempt/%%'"                                             \
    " AND json ->> 'decision' <> 'interrupted' AND 1 <>"                                           \
    " (SELECT count(*) FROM feature_event AS event WHERE event.feature = record.feature"           \
    "  AND event.generation = record.generation AND event.json ->> 'type' = 'task_ended'"          \
    "  AND event.json ->> 'task' = record.json ->> 'id'"                                           \
    "  AND event.json ->> 'attempt' = record.json ->> 'attempt'"                                   \
    "  AND event.json ->> 'decision' = record.json ->> 'decision')"

#define UNRECORDED                                                                                 \
    "SELECT event.json FROM feature_event AS event WHERE feature = %lld"                           \
    " AND event.json ->> 'type' = 'task_ended'"                                                    \
    " AND NOT EXISTS (SELECT 1 FROM feature_record AS record"                                      \
    "  WHERE event.feature = record.feature AND event.generation = record.generation"              \
    "  AND record.name = printf('attempt/%%s/%%03d', event.json ->> 'task',"                       \
    "                           event.json ->> 'attempt'))"

void records_check(const char *id)
{
    const char *key = records_text(stage_printf("SELECT key FROM feature WHERE id = '%s'", id));
    long long feature = key != NULL ? strtoll(key, NULL, 10) : 0;
    assert_string_equal(records_text("PRAGMA quick_check"), "ok");
    each_row(stage_printf("SELECT name, json FROM feature_record WHERE feature = %lld", feature),
             check_json, NULL);
    each_row(stage_printf("SELECT number, json FROM feature_event WHERE feature = %lld", feature),
             check_json, NULL);
    const char *missing = records_text(stage_printf(UNTOLD, feature));
    if (missing != NULL)
        fail_msg("%s does not have exactly one event", missing);
    missing = records_text(stage_printf(UNRECORDED, feature));
    if (missing != NULL)
        fail_msg("there is no record of '%.400s'", missing);
}
