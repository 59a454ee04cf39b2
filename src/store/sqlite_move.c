/* Sessions copied and taken away. */
#include "sqlite.h"

int sqlite_fork(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    int64_t from, other;
    char id[BL_ID_SIZE];
    int code = sqlite_find_session(link, look->id, &from, error);
    if (code != 0)
        return code;
    bl_id_make(id, "s-");
    const char *new_id = look->new_id != NULL ? look->new_id : id;
    struct bl_error missing = {0};
    code = sqlite_find_session(link, new_id, &other, &missing);
    if (code == 0)
        return bl_error_set(error, BL_EEXIST, BL_KIND_SESSION, "fork", new_id,
                            "there is a session %s already", new_id);
    if (code != BL_ENOENT) {
        *error = missing;
        return code;
    }
    code = sqlite_change(link, error,
                         "INSERT INTO session (id, created, updated, turns_total, context_from,"
                         " input, output, spent_input, spent_output, cost, cost_max, cost_unknown,"
                         " directory, parent, title) SELECT ?1, ?2, ?2, turns_total, context_from,"
                         " input, output, spent_input, spent_output, cost, cost_max, cost_unknown,"
                         " directory, id, title FROM session WHERE key = ?3",
                         "sii", new_id, look->wall_ns, from);
    int64_t to = sqlite3_last_insert_rowid(link->db);
    if (code >= 0)
        code = sqlite_change(link, error,
                             "INSERT INTO turn (session, number, id, run, interrupted, ended,"
                             " input, output, spent_input, spent_output, cost, cost_max,"
                             " cost_unknown, result, messages, events) SELECT ?, number, id, run,"
                             " interrupted, ended, input, output, spent_input, spent_output, cost,"
                             " cost_max, cost_unknown, result, messages, events FROM turn"
                             " WHERE session = ? ORDER BY number",
                             "ii", to, from);
    if (code < 0)
        return code;
    look->made_id = bl_arena_text(&look->job.output, bl_text_from(new_id)).data;
    return 0;
}

static int refuse_held(struct sqlite_link *link, const struct store_look *look, int64_t session,
                       struct bl_error *error)
{
    struct sqlite_lease lease;
    char holder[160];
    int code = sqlite_lease_read(link, session, &lease, error);
    if (code < 0 || !sqlite_lease_binds(&lease, &look->self, look->wall_ns))
        return code < 0 ? code : 0;
    store_identity_text(&lease.holder, lease.since_wall_ns, holder, sizeof holder);
    bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "delete", look->id, "session %s is held by %s",
                 look->id, holder);
    bl_error_hint(error, "wait until it is done, or stop it: belay cancel %s", look->id);
    return BL_EBUSY;
}

int sqlite_delete(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    static const char *const statements[] = {
        "DELETE FROM checkpoint WHERE session = ?", "DELETE FROM journal WHERE session = ?",
        "DELETE FROM receipt WHERE session = ?",    "DELETE FROM attempt WHERE session = ?",
        "DELETE FROM running WHERE session = ?",    "DELETE FROM turn WHERE session = ?",
        "DELETE FROM run WHERE session = ?",        "DELETE FROM request WHERE session = ?",
        "DELETE FROM lease WHERE session = ?",      "DELETE FROM session WHERE key = ?",
    };
    int64_t session;
    int code = sqlite_find_session(link, look->id, &session, error);
    if (code == 0)
        code = refuse_held(link, look, session, error);
    for (size_t i = 0; i < BL_COUNT(statements) && code == 0; i++) {
        int changed = sqlite_change(link, error, statements[i], "i", session);
        code = changed < 0 ? changed : 0;
    }
    return code;
}
