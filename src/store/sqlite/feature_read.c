/* Reading features: the records of one, its events, and the list of all. */
#include "sqlite.h"

int sqlite_find_feature(struct sqlite_link *link, const char *repository, const char *id,
                        int64_t *ret_feature, uint64_t *ret_generation, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(
        link, error, "SELECT key, generation FROM feature WHERE repository = ? AND id = ?", "ss",
        repository, id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code < 0)
        return code;
    if (code == 1) {
        *ret_feature = store_row_integer(&row, 0);
        *ret_generation = store_row_count(&row, 1);
        sqlite_free(rows);
        return 0;
    }
    struct store_suggestion suggestion;
    store_suggestion_init(&suggestion, id);
    rows = sqlite_query(link, NULL,
                        "SELECT id FROM feature WHERE repository = ? ORDER BY updated DESC LIMIT ?",
                        "si", repository, (int64_t)STORE_SUGGEST_IDS_MAX);
    sqlite_suggest(link, rows, &suggestion);
    return store_refuse_missing_feature(id, repository, link->path, &suggestion, error);
}

static int feature_read_owner(struct sqlite_link *link, const struct store_feature_look *look,
                              int64_t feature, struct bl_store_owner *ret_owner,
                              struct bl_error *error)
{
    struct store_lease lease;
    int code = sqlite_lease_read(link, &sqlite_leased_feature, feature, &lease, error);
    if (code < 0)
        return code;
    store_lease_owner(&lease, &look->claimant, ret_owner);
    return 0;
}

/* Returns the first name after all that begin with the prefix. Names are compared as bytes: it is
 * the prefix with its last byte increased by one, or a byte that no text contains. */
static const char *end_of_prefix(struct bl_arena *arena, const char *prefix)
{
    size_t size = strlen(prefix);
    if (size == 0)
        return "\xff";
    char *end = bl_arena_alloc(arena, size + 1);
    memcpy(end, prefix, size + 1);
    end[size - 1] = (char)((unsigned char)end[size - 1] + 1);
    return end;
}

int sqlite_feature_load(struct sqlite_link *link, struct store_feature_look *look,
                        struct bl_error *error)
{
    struct bl_arena *arena = &look->job.output;
    int64_t feature;
    bl_list_init(&look->records);
    int code =
        sqlite_find_feature(link, look->repository, look->id, &feature, &look->generation, error);
    if (code == 0)
        code = feature_read_owner(link, look, feature, &look->owner, error);
    if (code != 0)
        return code;
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT name, json FROM feature_record WHERE feature = ? AND generation = ?"
        " AND name >= ? AND name < ? ORDER BY name",
        "iuss", feature, look->generation, look->prefix, end_of_prefix(arena, look->prefix));
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_feature_add_record(look, &row);
    return code;
}

int sqlite_feature_events(struct sqlite_link *link, struct store_feature_look *look,
                          struct bl_error *error)
{
    int64_t feature;
    bl_list_init(&look->records);
    int code =
        sqlite_find_feature(link, look->repository, look->id, &feature, &look->generation, error);
    if (code != 0)
        return code;
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT number, json FROM feature_event WHERE feature = ? AND generation = ?"
        " AND number > ? ORDER BY number LIMIT ?",
        "iuui", feature, look->generation, look->after,
        look->limit == 0 || look->limit > INT64_MAX ? (int64_t)-1 : (int64_t)look->limit);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_feature_add_event(look, &row);
    return code;
}

int sqlite_feature_list(struct sqlite_link *link, struct store_feature_look *look,
                        struct bl_error *error)
{
    int code;
    bl_list_init(&look->summaries);
    sqlite3_stmt *rows =
        sqlite_query(link, error,
                     "SELECT repository, id, feature.name, created, updated, json, feature.key"
                     " FROM feature LEFT JOIN feature_record AS record"
                     " ON record.feature = feature.key AND record.generation = feature.generation"
                     " AND record.name = 'feature' WHERE ?1 IS NULL OR repository = ?1"
                     " ORDER BY updated DESC, feature.key DESC",
                     "s", look->repository);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1) {
        struct bl_store_feature_summary *summary = store_feature_add_summary(look, &row);
        code = feature_read_owner(link, look, store_row_integer(&row, 6), &summary->owner, error);
        if (code != 0) {
            sqlite_free(rows);
            return code;
        }
    }
    return code;
}
