/* Writes of a held feature: its lease, records of the newest generation, and events. Each write
 * checks the lease first: with another epoch, the feature has another holder. */
#include "sqlite.h"

/* ---- Hold ---- */

static int sqlite_make_feature(struct sqlite_link *link, struct store_feature_hold *hold,
                               struct bl_error *error)
{
    const struct bl_store_feature_options *options = &hold->options;
    int code = sqlite_change(link, error,
                             "INSERT INTO feature (created, updated, repository, id, name)"
                             " VALUES (?1, ?1, ?2, ?3, ?4)",
                             "isss", hold->claimant.wall_ns, options->repository, options->id,
                             options->name != NULL ? options->name : options->id);
    if (code < 0)
        return code;
    hold->grip.feature = sqlite3_last_insert_rowid(link->db);
    hold->generation = 1;
    return 0;
}

static int sqlite_feature_find_or_make(struct sqlite_link *link, struct store_feature_hold *hold,
                                       struct bl_error *error)
{
    const struct bl_store_feature_options *options = &hold->options;
    struct bl_error missing = {0};
    int code = sqlite_find_feature(link, options->repository, options->id, &hold->grip.feature,
                                   &hold->generation, &missing);
    if (code == BL_ENOENT && !options->must_exist)
        return sqlite_make_feature(link, hold, error);
    if (code != 0)
        *error = missing;
    return code;
}

int sqlite_feature_hold(struct sqlite_link *link, struct store_feature_hold *hold,
                        struct bl_error *error)
{
    struct store_lease before;
    hold->owner = (struct bl_store_owner){.life = BL_OWNER_NONE};
    int code = sqlite_feature_find_or_make(link, hold, error);
    if (code != 0)
        return code;
    code = sqlite_lease_read(link, &sqlite_leased_feature, hold->grip.feature, &before, error);
    if (code >= 0)
        code = store_feature_claim(hold, &before, error);
    if (code == 0)
        code = sqlite_lease_take(link, &sqlite_leased_feature, hold->grip.feature, &hold->claimant,
                                 hold->grip.epoch, error);
    if (code != 0)
        return code;
    if (hold->owner.life == BL_OWNER_DEAD)
        store_identity_settle(&hold->claimant.self, &before.holder, &hold->owner.left);
    code = sqlite_change(link, error,
                         "UPDATE feature SET name = coalesce(?, name), run = ? WHERE key = ?",
                         "ssi", hold->options.name, hold->options.run_id, hold->grip.feature);
    return code < 0 ? code : 0;
}

int sqlite_feature_release(struct sqlite_link *link, struct store_feature_write *write,
                           struct bl_error *error)
{
    return sqlite_lease_release(link, &sqlite_leased_feature, write->grip.feature,
                                write->grip.epoch, error);
}

/* ---- Write ---- */

static int sqlite_feature_refuse_stale(struct sqlite_link *link,
                                       const struct store_feature_write *write,
                                       struct bl_error *error)
{
    struct store_lease lease;
    int found = sqlite_lease_read(link, &sqlite_leased_feature, write->grip.feature, &lease, error);
    return found < 0 ? found : store_refuse_stale_feature(write, found == 1 ? &lease : NULL, error);
}

static int put_record(struct sqlite_link *link, const struct store_feature_write *write,
                      const struct bl_row *record, struct bl_error *error)
{
    int code;
    if (record->json.size == 0)
        code = sqlite_change(link, error,
                             "DELETE FROM feature_record WHERE feature = ? AND generation = ?"
                             " AND name = ?",
                             "ius", write->grip.feature, write->generation, record->name);
    else
        code = sqlite_change(link, error,
                             "INSERT INTO feature_record (feature, generation, name, json)"
                             " VALUES (?, ?, ?, ?) ON CONFLICT (feature, generation, name)"
                             " DO UPDATE SET json = excluded.json",
                             "iust", write->grip.feature, write->generation, record->name,
                             record->json);
    return code < 0 ? code : 0;
}

/* Adds an event with the next number, across all generations. */
static int add_event(struct sqlite_link *link, const struct store_feature_write *write,
                     struct bl_text event, struct bl_error *error)
{
    int code = sqlite_change(link, error,
                             "INSERT INTO feature_event (feature, generation, number, json)"
                             " VALUES (?1, ?2, 1 + coalesce((SELECT number FROM feature_event"
                             " WHERE feature = ?1 ORDER BY generation DESC, number DESC LIMIT 1),"
                             " 0), ?3)",
                             "iut", write->grip.feature, write->generation, event);
    return code < 0 ? code : 0;
}

/* Updates the feature's row: time of change and generation. */
static int touch(struct sqlite_link *link, struct store_feature_write *write,
                 struct bl_error *error)
{
    int code = 0;
    if (write->new_generation || write->event_count > 0 || !bl_list_empty(&write->records))
        code = sqlite_change(link, error,
                             "UPDATE feature SET updated = max(updated, ?),"
                             " generation = generation + ? WHERE key = ?",
                             "iii", write->wall_ns, (int64_t)write->new_generation,
                             write->grip.feature);
    if (code < 0)
        return code;
    sqlite3_stmt *rows = sqlite_query(link, error, "SELECT generation FROM feature WHERE key = ?",
                                      "i", write->grip.feature);
    struct store_row row = sqlite_row(rows);
    code = sqlite_next(link, rows, error);
    if (code == 0)
        return store_refuse_gone_feature(write, error);
    if (code != 1)
        return code;
    write->generation = store_row_count(&row, 0);
    sqlite_free(rows);
    return 0;
}

int sqlite_feature_write(struct sqlite_link *link, struct store_feature_write *write,
                         struct bl_error *error)
{
    int renewed = sqlite_lease_renew(link, &sqlite_leased_feature, write->grip.feature,
                                     write->grip.epoch, write->wall_ns, error);
    if (renewed <= 0)
        return renewed < 0 ? renewed : sqlite_feature_refuse_stale(link, write, error);
    int code = touch(link, write, error);
    BL_LIST_EACH (each, &write->records) {
        if (code == 0)
            code = put_record(link, write, BL_CONTAINER(each, struct bl_row, link), error);
    }
    for (size_t i = 0; i < write->event_count && code == 0; i++)
        code = add_event(link, write, write->events[i], error);
    return code;
}
