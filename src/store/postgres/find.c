/* Finds a piece of work by its id.
 *
 * The ids that have an index come first, in one pipeline; then those of features and cells, and at
 * last turns, whose table is scanned: an index of it would cost each commit. */
#include "postgres.h"

static struct store_find *find_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_find, job);
}

/* Takes the result, the id of the receipt, and the receipt as it is stored: it may have been
 * completed after the result was written. */
static void find_take_end(struct store_find *find, const struct store_row *row, int column)
{
    store_work_take_end(find, row, column);
    find->work.receipt = store_row_copy(&find->job.output, row, column + 2);
}

/* True if the lease in these columns has a live holder. */
static bool find_is_held(const struct store_find *find, const struct store_row *row, int column)
{
    struct store_lease lease;
    store_lease_read(row, column, &lease);
    return store_lease_binds(&lease, &find->self, find->wall_ns);
}

/* ---- Runs, sessions, receipts ---- */

/* The turn or attempt of session `s` that ended last, `n`, and its receipt `k`. */
#define NEWEST(of_run)                                                                             \
    " left join lateral (select result, receipt from ((select result, receipt, ended,"             \
    " 1 as committed from belay.turn where session = s.key" of_run                                 \
    " order by number desc limit 1) union all (select result, receipt, ended, 0"                   \
    " from belay.attempt where session = s.key" of_run " order by key desc limit 1)) e"            \
    " order by ended desc, committed desc limit 1) n on true"                                      \
    " left join belay.receipt k on k.session = s.key and k.id = n.receipt"

enum {
    FIND_RUN,
    FIND_SESSION,
    FIND_RECEIPT,
    FIND_KEYED,
};

static const char *const keyed_statements[] = {
    /* An attempt left by a dead holder counts as running until the session is held again, which
     * settles it. The last column is the receipt of a stop between turns, which no turn has. */
    [FIND_RUN] =
        "select s.id, r.key = (select max(key) from belay.run where session = r.session),"
        " s.attempt is not null and s.attempt_run = r.id, n.result, n.receipt, k.body,"
        " l.body, " PG_LEASE_COLUMNS
        " from belay.run r join belay.session s on s.key = r.session " PG_LEASE_WORKER NEWEST(
            " and run = r.id") " left join lateral (select body from (select id, body from "
                               "belay.receipt"
                               " where session = s.key and scope = r.id order by key desc limit 1) "
                               "last"
                               " where not exists (select 1 from belay.attempt where session = "
                               "s.key and receipt = last.id)"
                               " and not exists (select 1 from belay.turn where session = s.key "
                               "and run = r.id"
                               " and receipt = last.id)) l on true where r.id = $1",
    [FIND_SESSION] = "select s.attempt is not null, n.result, n.receipt, k.body, " PG_LEASE_COLUMNS
                     " from belay.session s " PG_LEASE_WORKER NEWEST("") " where s.id = $1",
    /* An import under another id has the same receipts: that of the first session is used. */
    [FIND_RECEIPT] = "select r.body, s.id from belay.receipt r join belay.session s"
                     " on s.key = r.session where r.id = $1 order by r.session limit 1",
};

static void find_take_run(struct store_find *find, const struct store_row *row)
{
    bool latest = store_row_flag(row, 1), running = store_row_flag(row, 2);
    find->work = (struct bl_store_work){
        .kind = "run",
        .id = find->id,
        .session = store_row_string(&find->job.output, row, 0),
        .ended = !running && !(latest && find_is_held(find, row, 7)),
    };
    find_take_end(find, row, 3);
    if (find->work.receipt.size == 0)
        find->work.receipt = store_row_copy(&find->job.output, row, 6);
}

static void find_take_session(struct store_find *find, const struct store_row *row)
{
    find->work = (struct bl_store_work){
        .kind = "session",
        .id = find->id,
        .session = find->id,
        .ended = !store_row_flag(row, 0) && !find_is_held(find, row, 4),
    };
    find_take_end(find, row, 1);
}

/* Also of a feature's receipt, which is in no session. */
static void find_take_receipt(struct store_find *find, const struct store_row *row)
{
    find->work = (struct bl_store_work){
        .kind = "receipt",
        .id = find->id,
        .session = store_row_string(&find->job.output, row, 1),
        .ended = true,
        .receipt = store_row_copy(&find->job.output, row, 0),
    };
}

typedef void find_taker(struct store_find *find, const struct store_row *row);

/* Takes the row of the first call that has one. */
static bool find_take_first(struct store_find *find, struct pg_call *const *calls,
                            find_taker *const *takers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pg_rows(calls[i]) == 0)
            continue;
        struct store_row row = pg_row(calls[i], 0);
        takers[i](find, &row);
        return true;
    }
    return false;
}

/* Returns 1 with the answer in `find`, 0 if it does not find the id, or a code; as the next two. */
static int find_keyed(struct pg_work *work, struct store_find *find, struct bl_error *error)
{
    static find_taker *const takers[] = {find_take_run, find_take_session, find_take_receipt};
    struct pg_call *calls[FIND_KEYED];
    for (size_t i = 0; i < FIND_KEYED; i++)
        calls[i] = pg_call_new(&work->arena, keyed_statements[i], "s", find->id);
    int code = pg_ask_all(work, calls, FIND_KEYED, error);
    if (code == 0)
        code = find_take_first(find, calls, takers, FIND_KEYED);
    pg_calls_done(calls, FIND_KEYED);
    return code;
}

/* ---- Features, their tasks, and cells ---- */

/* The record `r` of a feature or task `f`, and the receipt `k` that it names. */
#define RECORD_COLUMNS "r.json, coalesce(r.ended, false), k.json"
#define RECORD_RECEIPT                                                                             \
    " left join belay.feature_record k on k.feature = r.feature and k.generation = r.generation"   \
    " and k.name = 'receipt/' || r.receipt"

/* The same path on several hosts: that of this host is meant. If features of several repositories
 * have the same id, the path precedes it. */
#define FEATURES_NAMED(rest, tables, condition)                                                    \
    "select case count(*) over () when 1 then '' else repository || '/' end || id" rest            \
    ", key, generation from (select distinct on (f.repository, f.id) f.* from belay.feature "      \
    "f" tables " where " condition                                                                 \
    " order by f.repository, f.id, (f.host = $3) desc, f.key) f order by key"

enum {
    FIND_FEATURE_RECEIPT,
    FIND_FEATURE_RUN,
    FIND_CELLS,
    FIND_TASKS,
    FIND_FEATURES,
    FIND_HELD,
};

static const char *const held_statements[] = {
    [FIND_FEATURE_RECEIPT] = "select json, null::text from belay.feature_record"
                             " where name = 'receipt/' || $1"
                             " order by feature desc, generation desc limit 1",
    /* In the record, or as the run of the holder if there is no record yet. */
    [FIND_FEATURE_RUN] =
        "select " RECORD_COLUMNS " from (select feature, generation, 0 as place"
        " from belay.feature_record where run = $1 and name = 'feature' union all"
        " select key, generation, 1 from belay.feature where run = $1 order by place, feature"
        " limit 1) f left join belay.feature_record r on r.feature = f.feature"
        " and r.generation = f.generation and r.name = 'feature'" RECORD_RECEIPT,
    [FIND_CELLS] = "select s.id || '/' || h.id, s.key, 0::bigint from"
                   " (select session, id from belay.cell where id = $1 union"
                   " select session, id from belay.cell_tombstone where id = $1) h"
                   " join belay.session s on s.key = h.session where $2 is null or s.id = $2"
                   " order by s.key",
    [FIND_TASKS] = FEATURES_NAMED(
        " || '/' || $1",
        " join belay.feature_record r on r.feature = f.key and r.generation = f.generation"
        " and r.name = 'task/' || $1",
        "$2 is null or f.id = $2 or f.repository || '/' || f.id = $2"),
    [FIND_FEATURES] = FEATURES_NAMED("", "", "f.id = $1 and ($2 is null or f.repository = $2)"),
};

static void find_take_feature_run(struct store_find *find, const struct store_row *row)
{
    find->work = (struct bl_store_work){.kind = "run", .id = find->id};
    store_work_take_record(find, row);
}

static void find_gather(struct store_find *find, struct pg_call *call, const char *kind,
                        struct store_candidates *found)
{
    for (int i = 0; i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        store_candidates_add(found, find, kind, &row);
    }
}

/* Reads the only candidate. */
static int find_candidate(struct pg_work *work, struct store_find *find,
                          const struct store_candidate *only, struct bl_error *error)
{
    const char *record = store_work_take_candidate(find, only);
    struct pg_call *call =
        record == NULL
            ? pg_call_new(&work->arena,
                          "select c.terminal, c.receipt, c.terminal is not null, c.yielded, k.body"
                          " from belay.cell c left join belay.receipt k on k.session = c.session"
                          " and k.id = c.receipt where c.session = $1 and c.id = $2",
                          "is", only->holder, find->last)
            : pg_call_new(&work->arena,
                          "select " RECORD_COLUMNS " from belay.feature_record r" RECORD_RECEIPT
                          " where r.feature = $1 and r.generation = $2 and r.name = $3",
                          "iis", only->holder, only->generation, record);
    int code = pg_ask(work, call, error);
    bool found = code == 0 && pg_rows(call) == 1;
    struct store_row row = pg_row(call, 0);
    if (code == 0 && record == NULL)
        store_work_take_cell(find, found ? &row : NULL);
    if (found && record == NULL)
        find->work.receipt = store_row_copy(&find->job.output, &row, 4);
    if (found && record != NULL)
        store_work_take_record(find, &row);
    pg_call_done(call);
    return code != 0 ? code : 1;
}

static int find_in_holders(struct pg_work *work, struct store_find *find, struct bl_error *error)
{
    static find_taker *const takers[] = {find_take_receipt, find_take_feature_run};
    struct store_candidates found = {0};
    struct pg_call *calls[FIND_HELD];
    for (size_t i = 0; i < FIND_HELD; i++)
        calls[i] = i < FIND_CELLS ? pg_call_new(&work->arena, held_statements[i], "s", find->id)
                                  : pg_call_new(&work->arena, held_statements[i],
                                                i == FIND_CELLS ? "ss" : "sss", find->last,
                                                find->holder, find->self.host);
    int code = pg_ask_all(work, calls, FIND_HELD, error);
    if (code == 0)
        code = find_take_first(find, calls, takers, BL_COUNT(takers));
    if (code == 0)
        find_gather(find, calls[FIND_CELLS], "cell", &found);
    /* SESSION/CELL is a full name. A feature with the name of a session needs the path of its
     * repository. */
    if (code == 0 && (found.count == 0 || find->holder == NULL)) {
        find_gather(find, calls[FIND_TASKS], "task", &found);
        find_gather(find, calls[FIND_FEATURES], "feature", &found);
    }
    pg_calls_done(calls, FIND_HELD);
    if (code != 0 || found.count == 0)
        return code;
    if (found.count > 1)
        return store_refuse_ambiguous(find, &found, error);
    return find_candidate(work, find, &found.first, error);
}

/* ---- Turns ---- */

/* A fork has the turns of its parent: that of the older session is used. */
static int find_in_turns(struct pg_work *work, struct store_find *find, struct bl_error *error)
{
    struct pg_call *call = pg_call_new(
        &work->arena,
        "select s.id, h.ended, h.result, h.receipt, k.body from"
        " (select session, result, receipt, true as ended from belay.attempt where id = $1"
        " union all select key, null, null, false from belay.session where attempt = $1"
        " union all select session, result, receipt, true from belay.turn where id = $1) h"
        " join belay.session s on s.key = h.session left join belay.receipt k"
        " on k.session = h.session and k.id = h.receipt order by s.key limit 1",
        "s", find->id);
    int code = pg_ask(work, call, error);
    bool found = code == 0 && pg_rows(call) == 1;
    if (found) {
        struct store_row row = pg_row(call, 0);
        find->work = (struct bl_store_work){
            .kind = "turn",
            .id = find->id,
            .session = store_row_string(&find->job.output, &row, 0),
            .ended = store_row_flag(&row, 1),
        };
        find_take_end(find, &row, 2);
    }
    pg_call_done(call);
    return found ? 1 : code;
}

static int pg_run_find(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    static int (*const finders[])(struct pg_work *, struct store_find *,
                                  struct bl_error *) = {find_keyed, find_in_holders, find_in_turns};
    struct store_find *find = find_of(job);
    for (size_t i = 0; i < BL_COUNT(finders); i++) {
        int code = finders[i](work, find, error);
        if (code != 0)
            return code == 1 ? 0 : code;
    }
    return store_refuse_unknown_work(find, work->store->address.shown, error);
}

const struct pg_operation pg_find = {.run = pg_run_find};
