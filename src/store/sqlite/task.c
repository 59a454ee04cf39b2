/* Tasks of other protocols. A statement that matches only a working task ends it, so it ends once.
 * An ended task never changes, and is deleted when it has expired. */
#include "sqlite.h"

/* Limit for deletions along the way: results may be large, and a caller is waiting. */
#define EXPIRED_MAX 256

static int remove_expired(struct sqlite_link *link, const struct store_task *task,
                          struct bl_error *error)
{
    int code = sqlite_change(link, error,
                             "DELETE FROM task WHERE key IN (SELECT key FROM task"
                             " WHERE expires > 0 AND expires <= ? ORDER BY expires LIMIT ?)",
                             "ii", task->wall_ns, (int64_t)EXPIRED_MAX);
    /* The requested task in any case. */
    if (code >= 0)
        code = sqlite_change(link, error,
                             "DELETE FROM task WHERE id = ? AND expires > 0 AND expires <= ?", "si",
                             task->task.id, task->wall_ns);
    return code < 0 ? code : 0;
}

int sqlite_task_begin(struct sqlite_link *link, struct store_task *task, struct bl_error *error)
{
    const struct bl_store_task *begun = &task->task;
    const struct store_identity *self = &task->self;
    int code = remove_expired(link, task, error);
    if (code != 0)
        return code;
    int changed =
        sqlite_change(link, error,
                      "INSERT INTO task (id, kind, session, created, status, pid,"
                      " started, host, boot, pid_space) VALUES (?, ?, ?, ?, 'working',"
                      " ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                      "sssiiisss", begun->id, begun->kind, begun->session, begun->created_wall_ns,
                      self->pid, self->started, self->host, self->boot, self->pid_space);
    if (changed != 0)
        return changed < 0 ? changed : 0;
    return store_refuse_existing_task(begun->id, error);
}

int sqlite_task_end(struct sqlite_link *link, struct store_task *task, struct bl_error *error)
{
    const struct bl_store_task *end = &task->task;
    int changed = sqlite_change(link, error,
                                "UPDATE task SET status = ?, ended = ?, expires = ?, receipt = ?,"
                                " result = ? WHERE id = ? AND status = 'working'",
                                "siijjs", end->status, end->ended_wall_ns, end->expires_wall_ns,
                                end->receipt, end->result, end->id);
    if (changed != 0)
        return changed < 0 ? changed : 0;
    sqlite3_stmt *row = sqlite_query(link, error, "SELECT 1 FROM task WHERE id = ?", "s", end->id);
    int found = sqlite_next(link, row, error);
    if (found < 0)
        return found;
    if (found == 1)
        sqlite_free(row);
    return store_refuse_ended_task(end->id, found == 1, error);
}

/* ---- Reading ---- */

/* Fills in the answer. An expired task counts as missing. */
static int read_task(struct sqlite_link *link, struct store_task *task, struct bl_error *error)
{
    sqlite3_stmt *rows =
        sqlite_query(link, error,
                     "SELECT kind, session, created, ended, expires, status, pid, started, host,"
                     " boot, pid_space, receipt, result, NULL FROM task WHERE id = ? AND"
                     " (expires = 0 OR expires > ?)",
                     "si", task->task.id, task->wall_ns);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    task->found = code == 1;
    if (code != 1)
        return code;
    store_task_read(task, &row);
    sqlite_free(rows);
    return 0;
}

int sqlite_task_get(struct sqlite_link *link, struct store_task *task, struct bl_error *error)
{
    int code = read_task(link, task, error);
    if (code != 0)
        return code;
    task->unsettled = store_task_is_lost(task);
    if (task->unsettled)
        return 0;
    sqlite3_stmt *row =
        sqlite_query(link, error, "SELECT 1 FROM task WHERE expires > 0 AND expires <= ? LIMIT 1",
                     "i", task->wall_ns);
    code = sqlite_next(link, row, error);
    task->unsettled = code == 1;
    if (code == 1)
        sqlite_free(row);
    return code < 0 ? code : 0;
}

int sqlite_task_settle(struct sqlite_link *link, struct store_task *task, struct bl_error *error)
{
    task->unsettled = false;
    int code = remove_expired(link, task, error);
    if (code == 0)
        code = read_task(link, task, error);
    if (code != 0 || !store_task_is_lost(task))
        return code;
    /* Called under the writer's lock: no other process can end the task in between. */
    int changed =
        sqlite_change(link, error,
                      "UPDATE task SET status = 'failed', ended = ?, expires = ?"
                      " WHERE id = ? AND status = 'working'",
                      "iis", task->wall_ns, task->wall_ns + STORE_TASK_KEPT_NS, task->task.id);
    return changed < 0 ? changed : read_task(link, task, error);
}
