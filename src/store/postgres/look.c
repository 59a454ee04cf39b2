/* Reading sessions. The calls of a look are one pipeline, and see the same moment. */
#include "postgres.h"

/* Rows that are taken before other fibers run. */
#define ROWS_AT_ONCE 64

static struct store_look *look_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_look, job);
}

/* ---- Not found ---- */

int pg_suggest(struct pg_work *work, struct pg_call *ids, const char *word,
               struct store_suggestion *ret_suggestion, struct bl_error *error)
{
    store_suggestion_init(ret_suggestion, word);
    int code = pg_ask(work, ids, error);
    for (int i = 0; code == 0 && i < pg_rows(ids); i++) {
        struct store_row row = pg_row(ids, i);
        store_suggestion_offer(ret_suggestion, store_row_text(&row, 0).data);
    }
    pg_call_done(ids);
    return code;
}

int pg_refuse_missing(struct pg_work *work, const char *id, struct bl_error *error)
{
    struct store_suggestion suggestion;
    struct pg_call *ids =
        pg_call_new(&work->arena, "select id from belay.session order by updated desc limit $1",
                    "i", (int64_t)STORE_SUGGEST_IDS_MAX);
    int code = pg_suggest(work, ids, id, &suggestion, error);
    return code != 0
               ? code
               : store_refuse_missing_session(id, work->store->address.shown, &suggestion, error);
}

/* ---- Looks ---- */

int pg_ask_all(struct pg_work *work, struct pg_call *const *calls, size_t count,
               struct bl_error *error)
{
    /* After its own sync point, the end is also reached if a call fails. */
    struct pg_call *begin =
        pg_call_new(&work->arena, "begin isolation level repeatable read read only", "");
    struct pg_call *end = pg_call_new(&work->arena, "commit", "");
    struct bl_list list;
    bl_list_init(&list);
    begin->joined = true;
    bl_list_push_back(&list, &begin->link);
    for (size_t i = 0; i < count; i++) {
        calls[i]->joined = i + 1 < count;
        bl_list_push_back(&list, &calls[i]->link);
    }
    bl_list_push_back(&list, &end->link);
    int code = pg_link_ask_all(work->link, &list, "use the store", error);
    pg_call_done(begin);
    pg_call_done(end);
    return code;
}

void pg_calls_done(struct pg_call *const *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pg_call_done(calls[i]);
}

void pg_breathe(int row)
{
    if (row % ROWS_AT_ONCE == ROWS_AT_ONCE - 1)
        bl_yield();
}

/* ---- Summaries ---- */

/* Of `s`, with its last worker `w` and the totals of its attempts `a`. */
#define SUMMARY_COLUMNS                                                                            \
    "s.id, s.directory, s.title, s.parent, s.created, s.updated, s.turns_total, s.input, "         \
    "s.output,"                                                                                    \
    " s.spent_input, s.spent_output, s.cost, s.cost_max, s.cost_unknown, s.agent_of, "             \
    "s.agent_turn,"                                                                                \
    " s.persona, " PG_LEASE_COLUMNS ", a.*"
#define SUMMARY_LEASE    17
#define SUMMARY_ATTEMPTS 27

#define LARGEST "9223372036854775807"
#define SUMMARY_JOINS                                                                              \
    PG_LEASE_WORKER                                                                                \
    " left join lateral (select count(*),"                                                         \
    " least(coalesce(sum(spent_input), 0), " LARGEST ")::bigint,"                                  \
    " least(coalesce(sum(spent_output), 0), " LARGEST ")::bigint,"                                 \
    " coalesce(sum(cost order by key), 0), coalesce(sum(cost_max order by key), 0),"               \
    " coalesce(bool_or(cost_unknown), false) from belay.attempt where session = s.key) a on true"

static void look_read_summary(struct store_look *look, const struct store_row *row,
                              struct bl_store_summary *ret_summary)
{
    struct store_lease lease;
    store_summary_read(row, &look->job.output, ret_summary);
    store_summary_add_attempts(ret_summary, row, SUMMARY_ATTEMPTS);
    store_lease_read(row, SUMMARY_LEASE, &lease);
    store_summary_add_holder(ret_summary, look, &lease);
}

/* Two hosts may have the same path. A directory is one of this host. */
static struct pg_call *look_call_list(struct pg_work *work, const struct store_look *look)
{
    return pg_call_new(
        &work->arena,
        "select " SUMMARY_COLUMNS " from (select * from belay.session s"
        " where ($1 is null or (s.host = $2 and s.directory = $1))"
        " and ($3 or s.agent_of is null) and ($4 is null or s.updated < $5"
        " or (s.updated = $5 and s.id collate \"C\" > $4))"
        " order by s.updated desc, s.id collate \"C\" limit nullif($6, 0)) s " SUMMARY_JOINS
        " order by s.updated desc, s.id collate \"C\"",
        "ssoswu", look->directory, look->self.host, (int)look->agents, look->after_id,
        look->after_updated_wall_ns, look->limit);
}

static int look_run_list(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_look *look = look_of(job);
    struct pg_call *call = look_call_list(work, look);
    int code = pg_ask(work, call, error);
    bl_list_init(&look->summaries);
    for (int i = 0; code == 0 && i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        struct bl_store_summary *summary = bl_arena_alloc(&job->output, sizeof *summary);
        look_read_summary(look, &row, summary);
        bl_list_push_back(&look->summaries, &summary->link);
        pg_breathe(i);
    }
    pg_call_done(call);
    return code;
}

/* ---- One session ---- */

#define SESSION_KEY "(select key from belay.session where id = $1)"

enum {
    SHOW_SUMMARY,
    SHOW_TURNS,
    SHOW_ATTEMPTS,
    SHOW_RECEIPTS,
    SHOW_CALLS,
};

static const char *const show_statements[] = {
    [SHOW_SUMMARY] =
        "select " SUMMARY_COLUMNS " from belay.session s " SUMMARY_JOINS " where s.id = $1",
    [SHOW_TURNS] = "select result from belay.turn where session = " SESSION_KEY " order by number",
    [SHOW_ATTEMPTS] =
        "select a.id, a.state, a.prompt, a.started, a.ended, a.result, r.body, a.key as place"
        " from belay.attempt a left join belay.receipt r on r.session = a.session"
        " and r.id = a.receipt where a.session = " SESSION_KEY
        " union all select attempt, 'running', attempt_prompt, attempt_at, null, null, "
        "null, " LARGEST " from belay.session where id = $1 and attempt is not null order by place",
    /* Of stops that belong to no turn or attempt. */
    [SHOW_RECEIPTS] = "select body from belay.receipt r where session = " SESSION_KEY
                      " and not exists (select 1 from belay.attempt a where a.session = r.session"
                      " and a.receipt = r.id) and not exists (select 1 from belay.turn t"
                      " where t.session = r.session and t.receipt = r.id) order by key",
};

static void look_take_texts(struct store_look *look, struct pg_call *call,
                            struct store_texts *texts)
{
    struct bl_arena *arena = &look->job.output;
    for (int i = 0; i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        store_texts_add(texts, arena, store_row_copy(arena, &row, 0));
        pg_breathe(i);
    }
}

static void look_take_shown(struct store_look *look, struct pg_call *const *calls)
{
    struct bl_arena *arena = &look->job.output;
    struct store_texts turns = {0}, attempts = {0}, receipts = {0};
    struct store_row row = pg_row(calls[SHOW_SUMMARY], 0);
    look_read_summary(look, &row, &look->view.summary);
    if (!look->brief) {
        look_take_texts(look, calls[SHOW_TURNS], &turns);
        look_take_texts(look, calls[SHOW_RECEIPTS], &receipts);
        for (int i = 0; i < pg_rows(calls[SHOW_ATTEMPTS]); i++) {
            row = pg_row(calls[SHOW_ATTEMPTS], i);
            store_texts_add(&attempts, arena, store_attempt_json(arena, &row));
            pg_breathe(i);
        }
    }
    store_look_take_texts(look, &turns, &attempts, &receipts);
}

static int look_run_show(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_look *look = look_of(job);
    struct pg_call *calls[SHOW_CALLS];
    size_t count = look->brief ? 1 : SHOW_CALLS;
    for (size_t i = 0; i < count; i++)
        calls[i] = pg_call_new(&work->arena, show_statements[i], "s", look->id);
    int code = pg_ask_all(work, calls, count, error);
    bool found = code == 0 && pg_rows(calls[SHOW_SUMMARY]) == 1;
    if (found)
        look_take_shown(look, calls);
    pg_calls_done(calls, count);
    return code != 0 || found ? code : pg_refuse_missing(work, look->id, error);
}

static int look_run_turns(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_look *look = look_of(job);
    struct pg_call *calls[] = {
        pg_call_new(&work->arena, "select 1 from belay.session where id = $1", "s", look->id),
        pg_call_new(&work->arena,
                    "select id, interrupted, messages from belay.turn where session = " SESSION_KEY
                    " order by number",
                    "s", look->id),
    };
    int code = pg_ask_all(work, calls, BL_COUNT(calls), error);
    bool found = code == 0 && pg_rows(calls[0]) == 1;
    bl_list_init(&look->turns);
    for (int i = 0; found && i < pg_rows(calls[1]); i++) {
        struct store_row row = pg_row(calls[1], i);
        store_look_add_turn(look, &row);
        pg_breathe(i);
    }
    pg_calls_done(calls, BL_COUNT(calls));
    return code != 0 || found ? code : pg_refuse_missing(work, look->id, error);
}

static int look_run_checkpoint(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_look *look = look_of(job);
    struct pg_call *calls[] = {
        pg_call_new(&work->arena, "select 1 from belay.session where id = $1", "s", look->id),
        pg_call_new(&work->arena,
                    "select body from belay.checkpoint where session = " SESSION_KEY
                    " and name = $2",
                    "sb", look->id, bl_text_from(look->name)),
    };
    int code = pg_ask_all(work, calls, BL_COUNT(calls), error);
    bool known = code == 0 && pg_rows(calls[0]) == 1, found = known && pg_rows(calls[1]) == 1;
    if (found) {
        struct store_row row = pg_row(calls[1], 0);
        look->json = store_row_copy(&job->output, &row, 0);
    }
    pg_calls_done(calls, BL_COUNT(calls));
    if (code != 0 || found)
        return code;
    return known ? store_refuse_missing_checkpoint(look->id, look->name, error)
                 : pg_refuse_missing(work, look->id, error);
}

const struct pg_operation pg_list = {.run = look_run_list};
const struct pg_operation pg_show = {.run = look_run_show};
const struct pg_operation pg_turns = {.run = look_run_turns};
const struct pg_operation pg_checkpoint_get = {.run = look_run_checkpoint};
