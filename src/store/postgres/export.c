/* Design notes.
 *
 * An export reads the head of the session first: its row, and the last key of each table. Then it
 * reads pages up to those, each a job of its own, so that other readers come in between, and no
 * transaction is held open. Rows up to those keys never change, except that receipts, checkpoints
 * and values are replaced: their newest content is exported.
 *
 * A page is as many rows as fit into PAGE_BYTES, but at least one. The server knows the sizes
 * without reading the bodies. Lines are written by a worker thread, because parsing the
 * bodies of a page would hold up the loop. */
#include "postgres.h"

/* ---- Pages ---- */

#define PAGE_BYTES "1048576"
#define PAGE_ROWS  "256"

/* Heads: the last columns of the session's row. */
enum {
    HEAD_KEY = 18,
    HEAD_FIRST, /* one for each type of lines from STORE_LINE_TURN on; null: there are none */
};

/* A page, or the head. */
struct export_page {
    struct store_job job;
    char id[STORE_SESSION_ID_SIZE];
    enum store_line_type type;
    int64_t session; /* key */
    int64_t after;   /* number or key; of a checkpoint 0: it starts with the first */
    int64_t until;
    struct bl_text name; /* of a checkpoint, after which it starts */
    struct pg_kept rows; /* the answer; in the output */
};

static const char head_statement[] =
    "select directory, title, parent, created, updated, turns_total, context_from, input, output,"
    " spent_input, spent_output, cost, cost_max, cost_unknown, agent_of, agent_turn, persona,"
    " (select messages from belay.summary where session = key), key, nullif(turns_total, 0),"
    " (select max(key) from belay.attempt where session = s.key),"
    " (select max(key) from belay.journal where session = s.key),"
    " (select max(key) from belay.receipt where session = s.key),"
    " (select count(*) from belay.checkpoint where session = s.key having count(*) > 0),"
    " (select max(key) from belay.cell where session = s.key and terminal is not null),"
    " (select max(key) from belay.cell_value where session = s.key),"
    " (select max(key) from belay.cell_tombstone where session = s.key)"
    " from belay.session s where id = $1";

/* The rows after $2 in the order of `place`, whose value is the last column. */
#define PAGE(columns, place, size, table, range)                                                   \
    "select " columns ", " place " from (select *, sum(" size ") over (order by " place            \
    ") - (" size ") as before from (select * from belay." table " where session = $1 and " range   \
    " order by " place " limit " PAGE_ROWS ") p) q where before < " PAGE_BYTES " order by " place
#define SIZE(body) "coalesce(length(" body "), 0)::bigint"
#define KEYS       "key > $2 and key <= $3"

static const char *const page_statements[] = {
    [STORE_LINE_TURN] =
        PAGE("number, id, run, interrupted, ended, input, output, spent_input, spent_output, cost,"
             " cost_max, cost_unknown, result, messages, events",
             "number", SIZE("result") " + " SIZE("messages") " + " SIZE("events"), "turn",
             "number > $2 and number <= $3"),
    [STORE_LINE_ATTEMPT] =
        PAGE("id, run, state, started, ended, spent_input, spent_output, cost, cost_max,"
             " cost_unknown, receipt, prompt, result",
             "key", SIZE("prompt") " + " SIZE("result"), "attempt", KEYS),
    [STORE_LINE_EVENT] = PAGE("run, lines", "key", SIZE("lines"), "journal", KEYS),
    [STORE_LINE_RECEIPT] = PAGE("id, body", "key", SIZE("body"), "receipt", KEYS),
    /* A name may be empty. */
    [STORE_LINE_CHECKPOINT] =
        PAGE("name, body", "name", SIZE("body"), "checkpoint", "(name > $2 or $3 = 0)"),
    /* A cell that has not ended is not part of the history yet, like a running turn. */
    [STORE_LINE_CELL] = PAGE("id, digest, created, ended, deadline_ms, generation, completed,"
                             " terminal, yielded_generation, yielded",
                             "key", SIZE("terminal") " + " SIZE("yielded"), "cell",
                             KEYS " and terminal is not null"),
    [STORE_LINE_CELL_VALUE] = PAGE("name, body", "key", SIZE("body"), "cell_value", KEYS),
    [STORE_LINE_TOMBSTONE] =
        PAGE("id, digest, buried", "key", "64::bigint", "cell_tombstone", KEYS),
};

static int page_read_head(struct pg_work *work, struct export_page *page, struct bl_error *error)
{
    struct pg_call *call = pg_call_new(&work->arena, head_statement, "s", page->id);
    int code = pg_ask(work, call, error);
    bool found = code == 0 && pg_rows(call) == 1;
    if (found)
        pg_keep_rows(call, &page->job.output, &page->rows);
    pg_call_done(call);
    return code != 0 || found ? code : pg_refuse_missing(work, page->id, error);
}

static int page_run(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct export_page *page = BL_CONTAINER(job, struct export_page, job);
    if (page->type == STORE_LINE_SESSION)
        return page_read_head(work, page, error);
    const char *sql = page_statements[page->type];
    struct pg_call *rows =
        page->type == STORE_LINE_CHECKPOINT
            ? pg_call_new(&work->arena, sql, "ibi", page->session, page->name, page->after)
            : pg_call_new(&work->arena, sql, "iii", page->session, page->after, page->until);
    struct pg_call *there =
        pg_call_new(&work->arena, "select 1 from belay.session where key = $1", "i", page->session);
    struct pg_call *calls[] = {rows, there};
    int code = pg_ask_all(work, calls, BL_COUNT(calls), error);
    if (code == 0 && pg_rows(there) == 0)
        code = bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "export", page->id,
                            "session %s was deleted while it was exported", page->id);
    if (code == 0)
        pg_keep_rows(rows, &job->output, &page->rows);
    pg_calls_done(calls, BL_COUNT(calls));
    return code;
}

const struct pg_operation pg_export_page = {.run = page_run};

/* ---- The walk ---- */

/* The part of a walk that a worker thread needs. */
struct export_walk {
    struct store_export export;
    struct bl_buffer lines;
    enum store_line_type type;
    struct export_page *page; /* NULL: none, as at the end */
    struct bl_error error;
    int code;
};

struct store_cursor {
    struct store_lane *reader;
    struct export_walk *walk; /* NULL: a thread has it, and frees it */
    struct bl_arena arena;    /* of the head, and the place of the last row */
    struct pg_kept head;
    enum store_line_type type; /* of the next page */
    int64_t after;
    struct bl_text name;
    bool over;
};

static void walk_free(void *payload)
{
    struct export_walk *walk = payload;
    if (walk->page != NULL)
        store_job_leave(&walk->page->job);
    store_export_done(&walk->export);
    bl_buffer_done(&walk->lines);
    bl_free(walk);
}

struct store_cursor *pg_export_new(const void *state, const char *id)
{
    const struct pg_store *store = state;
    struct store_cursor *cursor = bl_zalloc(sizeof *cursor);
    cursor->reader = store->reader;
    cursor->walk = bl_zalloc(sizeof *cursor->walk);
    store_export_init(&cursor->walk->export, id);
    bl_buffer_init(&cursor->walk->lines, SIZE_MAX / 2);
    return cursor;
}

void pg_export_free(struct store_cursor *cursor)
{
    if (cursor == NULL)
        return;
    if (cursor->walk != NULL)
        walk_free(cursor->walk);
    bl_arena_done(&cursor->arena);
    bl_free(cursor);
}

/* Reads a page in the lane of readers. */
static int walk_read(struct store_cursor *cursor, int64_t until, struct bl_error *error)
{
    struct export_walk *walk = cursor->walk;
    struct export_page *page = store_job_new(STORE_EXPORT_PAGE, sizeof *page);
    int code;
    bl_text_into(page->id, sizeof page->id, walk->export.id);
    page->type = cursor->type;
    page->after = cursor->after;
    page->until = until;
    page->name = store_job_text(&page->job, cursor->name);
    if (cursor->type != STORE_LINE_SESSION) {
        struct store_row head = pg_kept_row(&cursor->head, 0);
        page->session = store_row_integer(&head, HEAD_KEY);
    }
    if (store_lane_call(cursor->reader, &page->job, &code, error) == STORE_ANSWERED && code == 0)
        walk->page = page;
    else
        store_job_leave(&page->job);
    return code;
}

static void walk_write(void *payload)
{
    struct export_walk *walk = payload;
    bl_buffer_clear(&walk->lines);
    store_export_step(&walk->export, &walk->lines, &walk->error);
    if (walk->type == STORE_LINE_END)
        walk->code = store_export_put(&walk->export, STORE_LINE_END, NULL);
    for (int i = 0; walk->page != NULL && walk->code == 0 && i < walk->page->rows.rows; i++) {
        struct store_row row = pg_kept_row(&walk->page->rows, i);
        walk->code = store_export_put(&walk->export, walk->type, &row);
    }
}

/* Writes the lines of the page, on a worker thread, and leaves the page. */
static int walk_write_page(struct store_cursor *cursor, struct bl_buffer *out,
                           struct bl_error *error)
{
    struct export_walk *walk = cursor->walk;
    bool dropped;
    int code = store_work(walk_write, walk_free, walk, walk->export.id, &dropped, error);
    if (dropped)
        cursor->walk = NULL;
    if (code != 0)
        return code;
    if (walk->page != NULL)
        store_job_leave(&walk->page->job);
    walk->page = NULL;
    if (walk->code != 0) {
        *error = walk->error;
        return walk->code;
    }
    bl_buffer_append(out, bl_buffer_text(&walk->lines));
    return 0;
}

static void walk_to(struct store_cursor *cursor, enum store_line_type type)
{
    cursor->type = type;
    cursor->after = 0;
    cursor->name = BL_TEXT("");
}

/* Notes where the page ends: the next one starts there, or is of the next type. */
static void walk_on(struct store_cursor *cursor, int64_t until)
{
    struct pg_kept *rows = &cursor->walk->page->rows;
    if (cursor->type == STORE_LINE_SESSION) {
        pg_kept_copy(rows, &cursor->arena, &cursor->head);
        walk_to(cursor, STORE_LINE_TURN);
        return;
    }
    struct store_row last = pg_kept_row(rows, rows->rows - 1);
    int place = rows->columns - 1;
    if (rows->rows > 0 && cursor->type == STORE_LINE_CHECKPOINT) {
        cursor->name = store_row_copy(&cursor->arena, &last, place);
        cursor->after = 1;
        return;
    }
    if (rows->rows > 0)
        cursor->after = store_row_integer(&last, place);
    if (rows->rows == 0 || cursor->after >= until)
        walk_to(cursor, cursor->type + 1);
}

/* One page, or the end. */
static int walk_step(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error)
{
    struct export_walk *walk = cursor->walk;
    int64_t until = 0;
    while (cursor->type != STORE_LINE_SESSION && cursor->type != STORE_LINE_END) {
        struct store_row head = pg_kept_row(&cursor->head, 0);
        until = store_row_integer(&head, HEAD_FIRST + (int)(cursor->type - STORE_LINE_TURN));
        if (until > 0)
            break;
        walk_to(cursor, cursor->type + 1);
    }
    walk->type = cursor->type;
    if (cursor->type == STORE_LINE_END) {
        cursor->over = true;
        return walk_write_page(cursor, out, error);
    }
    int code = walk_read(cursor, until, error);
    if (code != 0)
        return code;
    walk_on(cursor, until);
    return walk_write_page(cursor, out, error);
}

int pg_export_next(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error)
{
    int code = 0;
    while (code == 0 && !cursor->over && out->size == 0)
        code = walk_step(cursor, out, error);
    return code;
}
