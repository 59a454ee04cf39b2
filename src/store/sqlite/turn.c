/* Writes of a held session. Each operation first checks the lease: with another epoch, the session
 * has another holder. */
#include "sqlite.h"

#define SPENT_TYPES "uuddi"
#define SPENT_VALUES(s)                                                                            \
    (s).usage.input_tokens, (s).usage.output_tokens, (s).cost_usd, (s).cost_usd_max,               \
        (int64_t)(s).cost_unknown

static int sqlite_turn_refuse_stale(struct sqlite_link *link, const struct store_write *write,
                                    struct bl_error *error)
{
    struct store_lease lease;
    int found = sqlite_lease_read(link, &sqlite_leased_session, write->grip.session, &lease, error);
    return found < 0 ? found : store_refuse_stale_session(write, found == 1 ? &lease : NULL, error);
}

static int check_epoch(struct sqlite_link *link, const struct store_write *write,
                       struct bl_error *error)
{
    sqlite3_stmt *row =
        sqlite_query(link, error, "SELECT 1 FROM lease WHERE session = ? AND epoch = ?", "iu",
                     write->grip.session, write->grip.epoch);
    int found = sqlite_next(link, row, error);
    if (found == 1)
        sqlite_free(row);
    return found == 1 ? 0 : found < 0 ? found : sqlite_turn_refuse_stale(link, write, error);
}

static int renew(struct sqlite_link *link, const struct store_write *write, struct bl_error *error)
{
    int changed = sqlite_lease_renew(link, &sqlite_leased_session, write->grip.session,
                                     write->grip.epoch, write->wall_ns, error);
    return changed < 0 ? changed : 0;
}

int sqlite_add_beside(struct sqlite_link *link, int64_t session, const char *run,
                      struct bl_text events, const char *receipt_id, struct bl_text receipt,
                      struct bl_error *error)
{
    int code = 0;
    if (events.size > 0)
        code =
            sqlite_change(link, error, "INSERT INTO journal (session, run, lines) VALUES (?, ?, ?)",
                          "ist", session, run, events);
    /* A run's receipt may be written twice: with its turn, and again at the end of the run with
     * more content. */
    if (code >= 0 && receipt.size > 0)
        code = sqlite_change(link, error,
                             "INSERT INTO receipt (session, id, body) VALUES (?, ?, ?)"
                             " ON CONFLICT (session, id) DO UPDATE SET body = excluded.body",
                             "ist", session, receipt_id, receipt);
    return code < 0 ? code : 0;
}

int sqlite_end_running(struct sqlite_link *link, int64_t session, struct bl_text turn_id,
                       struct bl_error *error)
{
    return sqlite_change(link, error, "DELETE FROM running WHERE session = ? AND id = ?", "it",
                         session, turn_id);
}

static int sqlite_begin_turn(struct sqlite_link *link, const struct store_write *write,
                             struct bl_error *error)
{
    const struct bl_attempt *attempt = &write->attempt;
    int changed =
        sqlite_change(link, error,
                      "INSERT OR REPLACE INTO running (session, id, run, started, prompt)"
                      " SELECT session, ?, ?, ?, ? FROM lease WHERE session = ? AND epoch = ?",
                      "tsitiu", attempt->turn_id, write->run, attempt->started_wall_ns,
                      attempt->prompt, write->grip.session, write->grip.epoch);
    return changed < 0 ? changed : changed == 0 ? sqlite_turn_refuse_stale(link, write, error) : 0;
}

/* Refuses a commit under another epoch, or of an attempt that is not running. */
static int refuse_commit(struct sqlite_link *link, const struct store_write *write,
                         struct bl_error *error)
{
    int code = check_epoch(link, write, error);
    if (code != 0)
        return code;
    return store_refuse_ended_turn(write, error);
}

/* Updates the session's row, which only commits change, and the summary of the turns that leave the
 * context. `turns` is the number of new turns: 1, or 0 for a compaction. */
static int count_commit(struct sqlite_link *link, const struct store_write *write, int64_t turns,
                        struct bl_error *error)
{
    const struct bl_settlement *settlement = &write->settlement;
    /* Figures come from providers, so a sum is limited to what the column can hold. */
    int changed = sqlite_change(
        link, error,
        "UPDATE session SET updated = max(updated, ?1), turns_total = turns_total + ?11,"
        " context_from = min(context_from + ?2, turns_total + ?11 + 1),"
        " input = input + min(?3, 9223372036854775807 - input),"
        " output = output + min(?4, 9223372036854775807 - output),"
        " spent_input = spent_input + min(?5, 9223372036854775807 - spent_input),"
        " spent_output = spent_output + min(?6, 9223372036854775807 - spent_output),"
        " cost = cost + ?7, cost_max = cost_max + ?8, cost_unknown = cost_unknown | ?9,"
        " title = CASE title WHEN '' THEN ?12 ELSE title END"
        " WHERE key = ?10",
        "iuuu" SPENT_TYPES "iit", settlement->ended_wall_ns, settlement->turns_dropped,
        settlement->usage.input_tokens, settlement->usage.output_tokens,
        SPENT_VALUES(settlement->spent), write->grip.session, turns, write->title);
    if (changed >= 0 && settlement->summary.size > 0)
        changed = sqlite_change(link, error,
                                "INSERT INTO summary (session, messages) VALUES (?, ?)"
                                " ON CONFLICT (session) DO UPDATE SET messages = excluded.messages",
                                "it", write->grip.session, settlement->summary);
    return changed < 0 ? changed : 0;
}

static int sqlite_commit_turn(struct sqlite_link *link, const struct store_write *write,
                              struct bl_error *error)
{
    const struct bl_settlement *settlement = &write->settlement;
    int changed = sqlite_change(link, error,
                                "DELETE FROM running WHERE session = ?1 AND id = ?2 AND EXISTS"
                                " (SELECT 1 FROM lease WHERE session = ?1 AND epoch = ?3)",
                                "itu", write->grip.session, settlement->turn_id, write->grip.epoch);
    if (changed == 0)
        return refuse_commit(link, write, error);
    int code = changed < 0 ? changed : count_commit(link, write, 1, error);
    if (code == 0)
        code = sqlite_change(
            link, error,
            "INSERT INTO turn (session, number, id, run, interrupted, ended, input, output,"
            " spent_input, spent_output, cost, cost_max, cost_unknown, result, messages, events)"
            " SELECT key, turns_total, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM session"
            " WHERE key = ?",
            "tsiiuu" SPENT_TYPES "ttti", settlement->turn_id, write->run,
            (int64_t)settlement->interrupted, settlement->ended_wall_ns,
            settlement->usage.input_tokens, settlement->usage.output_tokens,
            SPENT_VALUES(settlement->spent), settlement->result, settlement->messages,
            settlement->events, write->grip.session);
    if (code < 0)
        return code;
    return sqlite_add_beside(link, write->grip.session, write->run, (struct bl_text){0},
                             settlement->receipt_id, settlement->receipt, error);
}

/* Called under an epoch that has been checked. */
static int sqlite_turn_compact(struct sqlite_link *link, const struct store_write *write,
                               struct bl_error *error)
{
    const struct bl_settlement *settlement = &write->settlement;
    int code = count_commit(link, write, 0, error);
    if (code != 0)
        return code;
    return sqlite_add_beside(link, write->grip.session, write->run, settlement->events,
                             settlement->receipt_id, settlement->receipt, error);
}

/* Records an attempt that was never begun; adds the result to one whose commit was voided. */
static int sqlite_reject_turn(struct sqlite_link *link, const struct store_write *write,
                              struct bl_error *error)
{
    const struct bl_settlement *settlement = &write->settlement;
    int code = sqlite_change(
        link, error,
        "INSERT INTO attempt (session, id, run, state, started, ended, spent_input, spent_output,"
        " cost, cost_max, cost_unknown, receipt, prompt, result) VALUES (?1, ?2, ?3, 'rejected',"
        " coalesce((SELECT started FROM running WHERE session = ?1 AND id = ?2), ?4), ?4, ?5, ?6,"
        " ?7, ?8, ?9, ?10, coalesce((SELECT prompt FROM running WHERE session = ?1 AND id = ?2),"
        " CASE WHEN json_valid(?11) THEN json_extract(?11, '$.prompt') END, ''), ?11)"
        " ON CONFLICT (session, id) DO UPDATE SET state = 'rejected', ended = excluded.ended,"
        " spent_input = excluded.spent_input, spent_output = excluded.spent_output,"
        " cost = excluded.cost, cost_max = excluded.cost_max,"
        " cost_unknown = excluded.cost_unknown, receipt = excluded.receipt,"
        " result = excluded.result",
        "itsi" SPENT_TYPES "sj", write->grip.session, settlement->turn_id, write->run,
        settlement->ended_wall_ns, SPENT_VALUES(settlement->spent),
        settlement->receipt.size > 0 ? settlement->receipt_id : NULL, settlement->result);
    if (code >= 0)
        code = sqlite_end_running(link, write->grip.session, settlement->turn_id, error);
    if (code < 0)
        return code;
    return sqlite_add_beside(link, write->grip.session, write->run, settlement->events,
                             settlement->receipt_id, settlement->receipt, error);
}

int sqlite_commit_void(struct sqlite_link *link, const struct store_write *write,
                       struct bl_error *error)
{
    const struct bl_settlement *settlement = &write->settlement;
    int changed = sqlite_change(
        link, error,
        "INSERT INTO attempt (session, id, run, state, started, ended, spent_input, spent_output,"
        " cost, cost_max, cost_unknown, prompt) SELECT session, id, run, 'rejected', started,"
        " ?, ?, ?, ?, ?, ?, prompt FROM running WHERE session = ? AND id = ?",
        "i" SPENT_TYPES "it", settlement->ended_wall_ns, SPENT_VALUES(settlement->spent),
        write->grip.session, settlement->turn_id);
    if (changed >= 0)
        changed = sqlite_end_running(link, write->grip.session, settlement->turn_id, error);
    return changed < 0 ? changed : 0;
}

static int sqlite_turn_put_checkpoint(struct sqlite_link *link, const struct store_write *write,
                                      struct bl_error *error)
{
    int code =
        sqlite_change(link, error,
                      "INSERT INTO checkpoint (session, name, body) VALUES (?, ?, ?)"
                      " ON CONFLICT (session, name) DO UPDATE SET body = excluded.body",
                      "ist", write->grip.session, write->checkpoint.name, write->checkpoint.json);
    return code < 0 ? code : 0;
}

int sqlite_session_write(struct sqlite_link *link, struct store_write *write,
                         struct bl_error *error)
{
    if (write->job.operation == STORE_RELEASE)
        return sqlite_lease_release(link, &sqlite_leased_session, write->grip.session,
                                    write->grip.epoch, error);
    /* Each turn uses these two: they check the lease in the statement that writes. */
    if (write->job.operation == STORE_BEGIN)
        return sqlite_begin_turn(link, write, error);
    if (write->job.operation == STORE_COMMIT)
        return sqlite_commit_turn(link, write, error);
    int code = check_epoch(link, write, error);
    if (code != 0)
        return code;
    switch (write->job.operation) {
    case STORE_REJECT: return sqlite_reject_turn(link, write, error);
    case STORE_NOTE:
        return sqlite_add_beside(link, write->grip.session, write->run, write->settlement.events,
                                 write->settlement.receipt_id, write->settlement.receipt, error);
    case STORE_COMPACT: return sqlite_turn_compact(link, write, error);
    case STORE_CHECKPOINT_PUT: return sqlite_turn_put_checkpoint(link, write, error);
    case STORE_RENEW: return renew(link, write, error);
    case STORE_CELL_ADMIT:
    case STORE_CELL_STARTED:
    case STORE_CELL_YIELD:
    case STORE_CELL_END:
    case STORE_CELL_BURY:
    case STORE_CELL_WITHDRAW:
    case STORE_CELLS_FORGET: return sqlite_cell_write(link, write, error);
    case STORE_FEATURE_HOLD:
    case STORE_FEATURE_WRITE:
    case STORE_FEATURE_RELEASE:
    case STORE_FEATURE_LOAD:
    case STORE_FEATURE_EVENTS:
    case STORE_FEATURE_LIST:
    case STORE_TASK_BEGIN:
    case STORE_TASK_END:
    case STORE_TASK_SETTLE:
    case STORE_TASK_GET:
    case STORE_FIND:
    case STORE_TURNS:
    case STORE_EXPORT_PAGE:
    case STORE_HOLD:
    case STORE_BEGIN:
    case STORE_COMMIT:
    case STORE_RELEASE:
    case STORE_IMPORT:
    case STORE_FORK:
    case STORE_DELETE:
    case STORE_CHECKPOINT_GET:
    case STORE_LIST:
    case STORE_SHOW:
    case STORE_CELLS_LOAD:
    case STORE_CELL_BURIED: break;
    }
    return 0;
}
