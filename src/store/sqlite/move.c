/* Copying and deleting sessions. */
#include "sqlite.h"

int sqlite_fork_session(struct sqlite_link *link, int64_t from, const char *id, int64_t wall_ns,
                        int64_t *ret_session, struct bl_error *error)
{
    int code =
        sqlite_change(link, error,
                      "INSERT INTO session (id, created, updated, turns_total, context_from,"
                      " input, output, spent_input, spent_output, cost, cost_max, cost_unknown,"
                      " directory, parent, title) SELECT ?1, ?2, ?2, turns_total, context_from,"
                      " input, output, spent_input, spent_output, cost, cost_max, cost_unknown,"
                      " directory, id, title FROM session WHERE key = ?3",
                      "sii", id, wall_ns, from);
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
    if (code >= 0)
        code = sqlite_change(link, error,
                             "INSERT INTO summary (session, messages) SELECT ?, messages"
                             " FROM summary WHERE session = ?",
                             "ii", to, from);
    if (code >= 0)
        code = sqlite_change(link, error,
                             "INSERT INTO cell_value (session, name, body) SELECT ?, name, body"
                             " FROM cell_value WHERE session = ? ORDER BY key",
                             "ii", to, from);
    if (code < 0)
        return code;
    *ret_session = to;
    return 0;
}

int sqlite_fork(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    int64_t from, other, to;
    char id[BL_ID_SIZE];
    int code = sqlite_find_session(link, look->id, &from, error);
    if (code != 0)
        return code;
    bl_id_make(id, "s-");
    const char *new_id = look->new_id != NULL ? look->new_id : id;
    struct bl_error missing = {0};
    code = sqlite_find_session(link, new_id, &other, &missing);
    if (code == 0)
        return store_refuse_used_id(STORE_FORK, new_id, error);
    if (code != BL_ENOENT) {
        *error = missing;
        return code;
    }
    code = sqlite_fork_session(link, from, new_id, look->wall_ns, &to, error);
    if (code == 0)
        look->made_id = bl_arena_text(&look->job.output, bl_text_from(new_id)).data;
    return code;
}

/* A session to delete: the named one, or one of its sub-agents. */
struct doomed {
    struct bl_list link;
    int64_t key;
    const char *id;
};

/* Names from an import may form cycles: each session is listed once. */
static int find_doomed(struct sqlite_link *link, struct store_look *look, int64_t session,
                       struct bl_list *doomed, struct bl_error *error)
{
    struct bl_arena *arena = &look->job.output;
    int code;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "WITH RECURSIVE tree (key, id) AS ("
                                      " SELECT key, id FROM session WHERE key = ? UNION"
                                      " SELECT session.key, session.id FROM tree JOIN session"
                                      " ON session.agent_of = tree.id) SELECT key, id FROM tree",
                                      "i", session);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1) {
        struct doomed *each = bl_arena_alloc(arena, sizeof *each);
        each->key = store_row_integer(&row, 0);
        each->id = store_row_string(arena, &row, 1);
        bl_list_push_back(doomed, &each->link);
    }
    return code;
}

static int move_refuse_held(struct sqlite_link *link, const struct store_look *look,
                            const struct doomed *doomed, struct bl_error *error)
{
    struct store_lease lease;
    int code = sqlite_lease_read(link, &sqlite_leased_session, doomed->key, &lease, error);
    if (code < 0 || !store_lease_binds(&lease, &look->self, look->wall_ns))
        return code < 0 ? code : 0;
    return store_refuse_delete(look->id, doomed->id, &lease, error);
}

static int delete_one(struct sqlite_link *link, int64_t session, struct bl_error *error)
{
    static const char *const statements[] = {
        "DELETE FROM checkpoint WHERE session = ?",
        "DELETE FROM journal WHERE session = ?",
        "DELETE FROM receipt WHERE session = ?",
        "DELETE FROM attempt WHERE session = ?",
        "DELETE FROM running WHERE session = ?",
        "DELETE FROM turn WHERE session = ?",
        "DELETE FROM run WHERE session = ?",
        "DELETE FROM request WHERE session = ?",
        "DELETE FROM summary WHERE session = ?",
        "DELETE FROM lease WHERE session = ?",
        "DELETE FROM task WHERE session = (SELECT id FROM session WHERE key = ?)",
        "DELETE FROM session WHERE key = ?",
    };
    int code = sqlite_cells_delete(link, session, error);
    for (size_t i = 0; i < BL_COUNT(statements) && code == 0; i++) {
        int changed = sqlite_change(link, error, statements[i], "i", session);
        code = changed < 0 ? changed : 0;
    }
    return code;
}

int sqlite_delete(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    struct bl_list doomed;
    int64_t session;
    bl_list_init(&doomed);
    int code = sqlite_find_session(link, look->id, &session, error);
    if (code == 0)
        code = find_doomed(link, look, session, &doomed, error);
    BL_LIST_EACH (each, &doomed) {
        if (code == 0)
            code = move_refuse_held(link, look, BL_CONTAINER(each, struct doomed, link), error);
    }
    BL_LIST_EACH (each, &doomed) {
        if (code == 0)
            code = delete_one(link, BL_CONTAINER(each, struct doomed, link)->key, error);
    }
    return code;
}
