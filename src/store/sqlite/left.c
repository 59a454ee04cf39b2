/* Settles what a dead holder of a session left: the attempt that was cut off, background processes,
 * and a receipt for them. */
#include "sqlite.h"

/* Raises `*last` to the number of the last event that the query finds. */
static int left_last_number(struct sqlite_link *link, struct store_hold *hold, const char *run,
                            const char *sql, uint64_t *last, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(link, error, sql, "is", hold->grip.session, run);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    uint64_t seq = store_left_seq(hold, &row);
    sqlite_free(rows);
    if (seq > *last)
        *last = seq;
    return 0;
}

/* Returns the number of the last event of the run in the store. */
static int left_last_event(struct sqlite_link *link, struct store_hold *hold, const char *run,
                           uint64_t *ret_last, struct bl_error *error)
{
    static const char *const queries[] = {
        "SELECT events FROM turn WHERE session = ? AND run = ? ORDER BY number DESC LIMIT 1",
        "SELECT lines FROM journal WHERE session = ? AND run = ? ORDER BY key DESC LIMIT 1"};
    int code = 0;
    *ret_last = 0;
    for (size_t i = 0; i < BL_COUNT(queries) && code == 0; i++)
        code = left_last_number(link, hold, run, queries[i], ret_last, error);
    return code;
}

/* `turn` NULL: no turn was running. */
static int left_note_receipt(struct sqlite_link *link, struct store_hold *hold, const char *turn,
                             const char *run, struct bl_error *error)
{
    struct bl_buffer receipt, events;
    uint64_t last;
    int code = left_last_event(link, hold, run, &last, error);
    if (code != 0)
        return code;
    bl_buffer_init(&receipt, 65536);
    bl_buffer_init(&events, 65536);
    store_left_write(hold, run, turn, last, &receipt, &events);
    code = sqlite_add_beside(link, hold->grip.session, run, bl_buffer_text(&events),
                             hold->recovery.receipt_id, bl_buffer_text(&receipt), error);
    bl_buffer_done(&receipt);
    bl_buffer_done(&events);
    return code < 0 ? code : 0;
}

static int left_cut_off(struct sqlite_link *link, struct store_hold *hold, const char *turn,
                        const char *run, struct bl_error *error)
{
    if (!hold->recovery.owner_died)
        store_identity_settle(&hold->claimant.self, &hold->before, &hold->recovery.left);
    store_left_cut_off(hold, turn);
    int code =
        sqlite_change(link, error,
                      "INSERT INTO attempt (session, id, run, state, started, ended, receipt,"
                      " prompt) SELECT session, id, run, 'cut_off', started, ?, ?, prompt"
                      " FROM running WHERE session = ?",
                      "isi", hold->claimant.wall_ns, hold->recovery.receipt_id, hold->grip.session);
    if (code >= 0)
        code = sqlite_end_running(link, hold->grip.session, bl_text_from(turn), error);
    return code < 0 ? code : left_note_receipt(link, hold, turn, run, error);
}

/* Handles a dead owner whose wardens stopped processes although no turn was running. */
static int left_settle_background(struct sqlite_link *link, struct store_hold *hold,
                                  struct bl_error *error)
{
    if (!store_left_processes(hold))
        return 0;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT id FROM run WHERE session = ? ORDER BY started DESC"
                                      " LIMIT 1",
                                      "i", hold->grip.session);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    const char *run = store_row_string(&hold->job.output, &row, 0);
    sqlite_free(rows);
    store_left_cut_off(hold, NULL);
    return left_note_receipt(link, hold, NULL, run, error);
}

/* An attempt recorded as running is not running: the session was not held, or its holder is dead.
 */
int sqlite_settle_left(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(link, error, "SELECT id, run FROM running WHERE session = ?",
                                      "i", hold->grip.session);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code == 0)
        return left_settle_background(link, hold, error);
    if (code != 1)
        return code;
    const char *turn = store_row_string(&hold->job.output, &row, 0);
    const char *run = store_row_string(&hold->job.output, &row, 1);
    sqlite_free(rows);
    return left_cut_off(link, hold, turn, run, error);
}
