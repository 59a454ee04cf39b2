/* Holding a session: finds or creates it, takes its lease, settles what a dead holder left,
 * registers the run, and loads the model's context. It is one job, so it is atomic. */
#include "sqlite.h"

/* ---- Not found ---- */

void sqlite_suggest(struct sqlite_link *link, sqlite3_stmt *rows,
                    struct store_suggestion *suggestion)
{
    struct store_row row = sqlite_row(rows);
    while (sqlite_next(link, rows, NULL) == 1)
        store_suggestion_offer(suggestion, store_row_text(&row, 0).data);
}

int sqlite_find_session(struct sqlite_link *link, const char *id, int64_t *ret_session,
                        struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(link, error, "SELECT key FROM session WHERE id = ?", "s", id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code < 0)
        return code;
    if (code == 1) {
        *ret_session = store_row_integer(&row, 0);
        sqlite_free(rows);
        return 0;
    }
    struct store_suggestion suggestion;
    store_suggestion_init(&suggestion, id);
    rows = sqlite_query(link, NULL, "SELECT id FROM session ORDER BY updated DESC LIMIT ?", "i",
                        (int64_t)STORE_SUGGEST_IDS_MAX);
    sqlite_suggest(link, rows, &suggestion);
    return store_refuse_missing_session(id, link->path, &suggestion, error);
}

/* ---- Finding the session ---- */

static int sqlite_hold_make_session(struct sqlite_link *link, struct store_hold *hold,
                                    struct bl_error *error)
{
    const struct bl_store_hold_options *options = &hold->options;
    store_hold_name(hold);
    int code = sqlite_change(link, error,
                             "INSERT INTO session (id, created, updated, directory, title,"
                             " agent_of, agent_turn, persona)"
                             " VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7)",
                             "sisssss", hold->id, hold->claimant.wall_ns,
                             options->directory != NULL ? options->directory : "", hold->title,
                             options->agent_of, options->agent_turn, options->persona);
    if (code < 0)
        return code;
    hold->grip.session = sqlite3_last_insert_rowid(link->db);
    return 0;
}

/* Returns 1 if the request was made before and its session is found, 0 if it is new, or a code. */
static int find_by_request(struct sqlite_link *link, struct store_hold *hold,
                           struct bl_error *error)
{
    const struct bl_store_hold_options *options = &hold->options;
    if (options->request_id == NULL)
        return 0;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT session.key, session.id, request.prompt FROM request"
                                      " JOIN session ON session.key = request.session"
                                      " WHERE request.id = ?",
                                      "s", options->request_id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    store_hold_take_session(hold, &row);
    code = store_request_check(hold, store_row_text(&row, 2), error);
    sqlite_free(rows);
    return code == 0 ? 1 : code;
}

static int find_newest(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error)
{
    const char *directory = hold->options.directory != NULL ? hold->options.directory : "";
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT key, id FROM session WHERE directory = ? AND"
                                      " agent_of IS NULL ORDER BY updated DESC, key DESC LIMIT 1",
                                      "s", directory);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code == 0)
        return store_refuse_no_newest(directory, error);
    if (code != 1)
        return code;
    store_hold_take_session(hold, &row);
    sqlite_free(rows);
    return 0;
}

static int sqlite_hold_choose(struct sqlite_link *link, struct store_hold *hold,
                              struct bl_error *error)
{
    const struct bl_store_hold_options *options = &hold->options;
    struct bl_error missing = {0};
    int code = find_by_request(link, hold, error);
    if (code != 0)
        return code == 1 ? 0 : code;
    if (options->id == NULL)
        return options->newest ? find_newest(link, hold, error)
                               : sqlite_hold_make_session(link, hold, error);
    bl_text_into(hold->id, sizeof hold->id, options->id);
    code = sqlite_find_session(link, options->id, &hold->grip.session, &missing);
    if (code == BL_ENOENT && !options->must_exist && !options->fork)
        return sqlite_hold_make_session(link, hold, error);
    if (code != 0)
        *error = missing;
    return code;
}

/* Returns the named session, or a copy of it. */
static int sqlite_hold_find_or_make(struct sqlite_link *link, struct store_hold *hold,
                                    struct bl_error *error)
{
    int code = sqlite_hold_choose(link, hold, error);
    if (code != 0 || !hold->options.fork)
        return code;
    bl_id_make(hold->id, "s-");
    return sqlite_fork_session(link, hold->grip.session, hold->id, hold->claimant.wall_ns,
                               &hold->grip.session, error);
}

/* ---- Leases ---- */

/* The tables of sessions and features have the same columns except for the key. */
#define LEASED(table, key)                                                                         \
    {                                                                                              \
        .read = "SELECT epoch, owner, handle, pid, started, since, until, host, boot, pid_space"   \
                " FROM " table " WHERE " key " = ?",                                               \
        .take = "INSERT OR REPLACE INTO " table " (" key ", epoch, owner, handle, pid, started,"   \
                " since, until, host, boot, pid_space) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  \
        .renew = "UPDATE " table " SET until = ? WHERE " key " = ? AND epoch = ?",                 \
        .release = "UPDATE " table " SET owner = NULL WHERE " key " = ? AND epoch = ?",            \
    }

const struct sqlite_leased sqlite_leased_session = LEASED("lease", "session");
const struct sqlite_leased sqlite_leased_feature = LEASED("feature_lease", "feature");

int sqlite_lease_read(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                      struct store_lease *ret_lease, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(link, error, leased->read, "i", key);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    *ret_lease = (struct store_lease){0};
    if (code != 1)
        return code;
    store_lease_read(&row, 0, ret_lease);
    sqlite_free(rows);
    return 1;
}

int sqlite_lease_take(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                      const struct store_claimant *claimant, uint64_t epoch, struct bl_error *error)
{
    const struct store_identity *self = &claimant->self;
    int code = sqlite_change(link, error, leased->take, "iusuiiiisss", key, epoch, claimant->owner,
                             claimant->handle, self->pid, self->started, claimant->wall_ns,
                             claimant->wall_ns + (int64_t)STORE_LEASE_NS, self->host, self->boot,
                             self->pid_space);
    return code < 0 ? code : 0;
}

int sqlite_lease_renew(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                       uint64_t epoch, int64_t wall_ns, struct bl_error *error)
{
    return sqlite_change(link, error, leased->renew, "iiu", wall_ns + (int64_t)STORE_LEASE_NS, key,
                         epoch);
}

int sqlite_lease_release(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                         uint64_t epoch, struct bl_error *error)
{
    int changed = sqlite_change(link, error, leased->release, "iu", key, epoch);
    return changed < 0 ? changed : 0;
}

static int take_lease(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error)
{
    struct store_lease before;
    int code = sqlite_lease_read(link, &sqlite_leased_session, hold->grip.session, &before, error);
    if (code >= 0)
        code = store_hold_claim(hold, &before, error);
    if (code == 0)
        code = sqlite_lease_take(link, &sqlite_leased_session, hold->grip.session, &hold->claimant,
                                 hold->grip.epoch, error);
    if (code == 0 && hold->recovery.owner_died)
        store_identity_settle(&hold->claimant.self, &hold->before, &hold->recovery.left);
    return code;
}

/* ---- The run and its context ---- */

static int register_run(struct sqlite_link *link, const struct store_hold *hold,
                        struct bl_error *error)
{
    const struct bl_store_hold_options *options = &hold->options;
    int code = 0;
    if (options->request_id != NULL)
        code = sqlite_change(link, error,
                             "INSERT OR IGNORE INTO request (id, session, prompt) VALUES (?, ?, ?)",
                             "sit", options->request_id, hold->grip.session, options->prompt);
    if (code >= 0 && options->run_id != NULL)
        code = sqlite_change(link, error,
                             "INSERT OR IGNORE INTO run (id, session, request, started)"
                             " VALUES (?, ?, ?, ?)",
                             "sisi", options->run_id, hold->grip.session, options->request_id,
                             hold->claimant.wall_ns);
    return code < 0 ? code : 0;
}

/* The kept part of an interrupted turn is not a result: the turn is run again. */
static int load_recorded(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error)
{
    int code;
    if (hold->options.request_id == NULL)
        return 0;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT result FROM turn WHERE session = ? AND run IN"
                                      " (SELECT id FROM run WHERE request = ?) AND interrupted = 0"
                                      " ORDER BY number",
                                      "is", hold->grip.session, hold->options.request_id);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_hold_add_recorded(hold, &row);
    return code;
}

static int load_counters(struct sqlite_link *link, struct store_hold *hold, int64_t *ret_from,
                         struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT turns_total, context_from, input, output, (SELECT id"
                                      " FROM turn WHERE session = session.key AND number ="
                                      " turns_total) FROM session WHERE key = ?",
                                      "i", hold->grip.session);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code == 0 ? BL_ENOENT : code;
    *ret_from = store_hold_take_counters(hold, &row, 0);
    sqlite_free(rows);
    return 0;
}

/* Loads the summary of the turns that the model does not see any more. */
static int load_summary(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(link, error, "SELECT messages FROM summary WHERE session = ?",
                                      "i", hold->grip.session);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    code = store_hold_take_summary(hold, &row, error);
    sqlite_free(rows);
    return code;
}

static int load_context(struct sqlite_link *link, struct store_hold *hold, int64_t from,
                        struct bl_error *error)
{
    int code;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT messages, number FROM turn WHERE session = ? AND"
                                      " number >= ? ORDER BY number",
                                      "ii", hold->grip.session, from);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1) {
        code = store_hold_add_turn(hold, &row, error);
        if (code != 0) {
            sqlite_free(rows);
            return code;
        }
    }
    return code;
}

int sqlite_hold(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error)
{
    int64_t from = 1;
    store_hold_begin(hold);
    int code = sqlite_hold_find_or_make(link, hold, error);
    if (code == 0)
        code = take_lease(link, hold, error);
    if (code == 0)
        code = sqlite_settle_left(link, hold, error);
    if (code == 0)
        code = register_run(link, hold, error);
    if (code == 0)
        code = load_recorded(link, hold, error);
    if (code == 0)
        code = load_counters(link, hold, &from, error);
    if (code == 0)
        code = load_summary(link, hold, error);
    if (code == 0)
        code = load_context(link, hold, from, error);
    return code;
}
