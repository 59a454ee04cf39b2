/* Writes of a held session. The server refuses a write under another epoch in the row that it
 * would change. */
#include <assert.h>
#include <stdlib.h>

#include "postgres.h"

static struct store_write *write_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_write, job);
}

/* ---- Members of bodies ---- */

#define BODY_MAX ((size_t)1024 * 1024 * 1024)

const struct bl_json *pg_body(struct bl_arena *arena, struct bl_text body)
{
    /* What a model or a tool has written may contain unpaired surrogates. */
    static const struct bl_json_limits limits = {
        .size_max = BODY_MAX, .string_max = BODY_MAX, .replace_surrogates = true};
    const struct bl_json *value;
    if (body.size == 0 || bl_json_read(arena, body, &limits, &value, NULL) != 0)
        return NULL;
    return value;
}

const char *pg_string(struct bl_arena *arena, const struct bl_json *value)
{
    struct bl_text text = bl_json_text(value);
    if (!bl_json_is(value, BL_JSON_STRING) || memchr(text.data, '\0', text.size) != NULL ||
        !bl_utf8_valid(text))
        return NULL;
    return bl_arena_text(arena, text).data;
}

const char *pg_receipt_id(struct bl_arena *arena, struct bl_text result)
{
    BL_AUTO_ARENA(parsed);
    return pg_string(arena, bl_json_pointer(pg_body(&parsed, result), BL_TEXT("/receipt/id")));
}

const char *pg_receipt_scope(struct bl_arena *arena, struct bl_text receipt)
{
    BL_AUTO_ARENA(parsed);
    return pg_string(arena, bl_json_get(pg_body(&parsed, receipt), BL_TEXT("scope")));
}

static struct bl_text turn_prompt(struct bl_arena *arena, struct bl_text result)
{
    BL_AUTO_ARENA(parsed);
    return bl_arena_text(arena,
                         bl_json_text(bl_json_get(pg_body(&parsed, result), BL_TEXT("prompt"))));
}

/* ---- Refusals ---- */

/* What the row of a session says about its fence. */
struct fence {
    bool found;
    struct store_lease lease;
    uint64_t turns;
    bool running;       /* an attempt */
    const char *stop;   /* NULL: it is not stopped */
    const char *origin; /* of the stop; may be NULL */
};

static int turn_read_fence(struct pg_work *work, int64_t session, struct fence *ret_fence,
                           struct bl_error *error)
{
    struct pg_call *call =
        pg_call_new(&work->arena,
                    "select " PG_LEASE_COLUMNS ", s.turns_total, s.attempt is not null,"
                    " s.stop, (select origin from belay.stop where id = s.stop)"
                    " from belay.session s " PG_LEASE_WORKER " where s.key = $1",
                    "i", session);
    int code = pg_ask(work, call, error);
    *ret_fence = (struct fence){.found = code == 0 && pg_rows(call) == 1};
    if (ret_fence->found) {
        struct store_row row = pg_row(call, 0);
        store_lease_read(&row, 0, &ret_fence->lease);
        ret_fence->turns = store_row_count(&row, 10);
        ret_fence->running = store_row_flag(&row, 11);
        ret_fence->stop = store_row_string(&work->arena, &row, 12);
        ret_fence->origin = store_row_string(&work->arena, &row, 13);
    }
    pg_call_done(call);
    return code;
}

int pg_refuse_stale(struct pg_work *work, const struct store_write *write, struct bl_error *error)
{
    struct fence fence;
    int code = turn_read_fence(work, write->grip.session, &fence, error);
    return code != 0 ? code
                     : store_refuse_stale_session(write, fence.found ? &fence.lease : NULL, error);
}

/* Takes the answer of a call whose only column says whether the fence holds. */
static int turn_take_fenced(struct pg_work *work, struct store_job *job, struct pg_call *call,
                            struct bl_error *error)
{
    struct store_row row = pg_row(call, 0);
    if (pg_rows(call) == 1 && store_row_flag(&row, 0))
        return 0;
    return pg_refuse_stale(work, write_of(job), error);
}

/* ---- Groups: turns that begin, turns that commit ---- */

/* The jobs of a group, one for each session. */
struct group {
    struct pg_work *work;
    struct store_write **writes;
    size_t count;
};

static int compare_writes(const void *a, const void *b)
{
    int64_t first = (*(struct store_write *const *)a)->grip.session;
    int64_t second = (*(struct store_write *const *)b)->grip.session;
    return (first > second) - (first < second);
}

/* Sorted by session, in which order the server locks them. */
static void turn_gather(struct group *group, struct bl_list *jobs, enum store_operation operation)
{
    struct store_write **writes;
    size_t most = 0, count = 0;
    BL_LIST_EACH (link, jobs)
        most++;
    group->writes = writes =
        bl_arena_alloc(&group->work->arena, most * sizeof(struct store_write *));
    BL_LIST_EACH (link, jobs) {
        struct store_job *job = BL_CONTAINER(link, struct store_job, link);
        if (!job->settled && job->operation == operation)
            writes[count++] = write_of(job);
    }
    qsort(writes, count, sizeof *writes, compare_writes);
    /* Another one of the same session, whose caller has left, waits for the next round. */
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_writes(&writes[i], &writes[i - 1]) != 0)
            writes[group->count++] = writes[i];
    }
}

/* Marks the writes whose sessions the answer names. */
static bool *read_taken(const struct group *group, struct pg_call *call)
{
    bool *taken = bl_arena_zalloc(&group->work->arena, group->count);
    for (int i = 0; i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        struct store_write key = {.grip = {.session = store_row_integer(&row, 0)}};
        const struct store_write *sought = &key;
        struct store_write **found =
            bsearch(&sought, group->writes, group->count, sizeof *group->writes, compare_writes);
        if (found != NULL)
            taken[found - group->writes] = true;
    }
    return taken;
}

/* Runs the call of a group; writes that it did not take are passed to `refuse`. If the server fails
 * it, none of the group was written. */
static int turn_run_group(struct group *group, struct pg_call *call,
                          int (*refuse)(struct pg_work *work, struct store_write *write,
                                        struct bl_error *error))
{
    struct pg_work *work = group->work;
    struct bl_error error = {0};
    int code = pg_ask(work, call, &error);
    bool answered = call->answered;
    int lost = answered && code != BL_ECANCELED ? 0 : code;
    bool *taken = code == 0 ? read_taken(group, call) : NULL;
    for (size_t i = 0; i < group->count && lost == 0; i++) {
        struct store_write *write = group->writes[i];
        write->job.error = (struct bl_error){0};
        if (code != 0) {
            write->job.error = error;
            pg_settle(&write->job, code);
        } else if (taken[i]) {
            pg_settle(&write->job, 0);
        } else {
            int refused = refuse(work, write, &write->job.error);
            /* A stop of the session has an error; one of this store has none. */
            if (refused == BL_EPIPE || (refused == BL_ECANCELED && write->job.error.code == 0))
                lost = refused;
            else if (refused != BL_EAGAIN)
                pg_settle(&write->job, refused);
        }
    }
    for (size_t i = 0; i < group->count; i++)
        group->writes[i]->job.sent = group->writes[i]->job.sent || !answered;
    pg_call_done(call);
    return lost;
}

/* Runs groups until no write is left for another one. */
static int run_rounds(struct pg_work *work, struct bl_list *jobs,
                      int (*round)(struct pg_work *work, struct bl_list *jobs, size_t *ret_count))
{
    size_t count = 1;
    int code = 0;
    for (int tries = 0; code == 0 && count > 0 && tries < 50; tries++)
        code = round(work, jobs, &count);
    return code;
}

/* A stop that is recorded in the row: no turn begins or commits under this hold. */
static int turn_refuse_stopped(const struct store_write *write, const struct fence *fence,
                               struct bl_error *error)
{
    bl_error_set(error, BL_ECANCELED, BL_KIND_SESSION, "write to the session", write->id,
                 "session %s was stopped by %.80s", write->id,
                 fence->origin != NULL ? fence->origin : "another process");
    bl_error_name_set(error, "stopped");
    return BL_ECANCELED;
}

static int refuse_begin(struct pg_work *work, struct store_write *write, struct bl_error *error)
{
    struct fence fence;
    int code = turn_read_fence(work, write->grip.session, &fence, error);
    if (code != 0)
        return code;
    if (fence.found && fence.lease.epoch == write->grip.epoch && fence.stop != NULL)
        return turn_refuse_stopped(write, &fence, error);
    return store_refuse_stale_session(write, fence.found ? &fence.lease : NULL, error);
}

static int begin_round(struct pg_work *work, struct bl_list *jobs, size_t *ret_count)
{
    struct group group = {.work = work};
    struct pg_array columns[6];
    static const char types[] = "iittwb";
    turn_gather(&group, jobs, STORE_BEGIN);
    *ret_count = group.count;
    if (group.count == 0)
        return 0;
    for (size_t i = 0; i < BL_COUNT(columns); i++)
        pg_array_init(&columns[i], types[i]);
    for (size_t i = 0; i < group.count; i++) {
        const struct store_write *write = group.writes[i];
        pg_array_add_integer(&columns[0], write->grip.session);
        pg_array_add_integer(&columns[1], (int64_t)write->grip.epoch);
        pg_array_add_text(&columns[2], write->attempt.turn_id);
        pg_array_add_text(&columns[3], bl_text_from(write->run));
        pg_array_add_integer(&columns[4], write->attempt.started_wall_ns);
        pg_array_add_text(&columns[5], write->attempt.prompt);
    }
    struct pg_call *call =
        pg_call_new(&work->arena, "select belay.begin_turns($1, $2, $3, $4, $5, $6, $7)", "sAAAAAA",
                    work->store->owner, &columns[0], &columns[1], &columns[2], &columns[3],
                    &columns[4], &columns[5]);
    int code = turn_run_group(&group, call, refuse_begin);
    for (size_t i = 0; i < BL_COUNT(columns); i++)
        pg_array_done(&columns[i]);
    return code;
}

int pg_run_begins(struct pg_work *work, struct bl_list *jobs)
{
    return run_rounds(work, jobs, begin_round);
}

/* ---- Commits ---- */

#define COMMIT_COLUMNS 23

static void turn_add_commit(struct pg_array *columns, struct bl_arena *arena,
                            const struct store_write *write)
{
    const struct bl_settlement *settlement = &write->settlement;
    const struct bl_spent *spent = &settlement->spent;
    const char *scope = pg_receipt_scope(arena, settlement->receipt);
    bool stopped = settlement->receipt.size > 0;
    int64_t integers[] = {write->grip.session, (int64_t)write->grip.epoch,
                          (int64_t)write->turns_known};
    uint64_t figures[] = {settlement->usage.input_tokens, settlement->usage.output_tokens,
                          spent->usage.input_tokens, spent->usage.output_tokens};
    int next = 0;
    for (size_t i = 0; i < BL_COUNT(integers); i++)
        pg_array_add_integer(&columns[next++], integers[i]);
    pg_array_add_text(&columns[next++], settlement->turn_id);
    pg_array_add_text(&columns[next++], bl_text_from(write->run));
    pg_array_add_integer(&columns[next++], settlement->interrupted);
    pg_array_add_integer(&columns[next++], settlement->ended_wall_ns);
    for (size_t i = 0; i < BL_COUNT(figures); i++)
        pg_array_add_integer(&columns[next++],
                             figures[i] > INT64_MAX ? INT64_MAX : (int64_t)figures[i]);
    pg_array_add_real(&columns[next++], spent->cost_usd);
    pg_array_add_real(&columns[next++], spent->cost_usd_max);
    pg_array_add_integer(&columns[next++], spent->cost_unknown);
    pg_array_add_integer(&columns[next++], settlement->turns_dropped > INT64_MAX
                                               ? INT64_MAX
                                               : (int64_t)settlement->turns_dropped);
    pg_array_add_optional(&columns[next++], write->title);
    pg_array_add_text(&columns[next++], settlement->result);
    pg_array_add_text(&columns[next++], settlement->messages);
    pg_array_add_text(&columns[next++], settlement->events);
    pg_array_add_optional(&columns[next++], settlement->summary);
    pg_array_add_optional(&columns[next++], bl_text_from(stopped ? settlement->receipt_id : ""));
    pg_array_add_optional(&columns[next++], bl_text_from(scope));
    pg_array_add_optional(&columns[next++], settlement->receipt);
    assert(next == COMMIT_COLUMNS);
}

/* Records the beginning of a turn again: it is not synced, so a crash of the server may lose it. */
static int begin_again(struct pg_work *work, const struct store_write *write,
                       struct bl_error *error)
{
    struct pg_call *call = pg_call_new(
        &work->arena,
        "select belay.begin_turns($1, array[$2], array[$3], array[$4], array[$5], array[$6],"
        " array[$7])",
        "siutswb", work->store->owner, write->grip.session, write->grip.epoch,
        write->settlement.turn_id, write->run, write->settlement.ended_wall_ns, BL_TEXT(""));
    int code = pg_ask(work, call, error);
    pg_call_done(call);
    return code != 0 ? code : BL_EAGAIN;
}

/* Explains why the server did not take a commit. BL_EAGAIN: try it again. */
static int turn_refuse_commit(struct pg_work *work, struct store_write *write,
                              struct bl_error *error)
{
    struct fence fence;
    int code = turn_read_fence(work, write->grip.session, &fence, error);
    if (code != 0)
        return code;
    if (!fence.found || fence.lease.epoch != write->grip.epoch)
        return store_refuse_stale_session(write, fence.found ? &fence.lease : NULL, error);
    if (fence.stop != NULL)
        return turn_refuse_stopped(write, &fence, error);
    if (fence.turns < write->turns_known) {
        bl_error_set(error, BL_EIO, BL_KIND_SESSION, "commit", write->id,
                     "the database has lost turns of session %s: turn %llu is missing", write->id,
                     (unsigned long long)fence.turns + 1);
        bl_error_hint(error,
                      "'belay session show %s' shows what is left; 'belay session fork %s' "
                      "continues from there",
                      write->id, write->id);
        bl_error_name_set(error, "history_lost");
        return BL_EIO;
    }
    if (write->begun && !fence.running && fence.turns == write->turns_known)
        return begin_again(work, write, error);
    return store_refuse_ended_turn(write, error);
}

static int commit_round(struct pg_work *work, struct bl_list *jobs, size_t *ret_count)
{
    static const char types[] = "iiittowiiiiddoitbbbbttb";
    struct group group = {.work = work};
    struct pg_array columns[COMMIT_COLUMNS];
    turn_gather(&group, jobs, STORE_COMMIT);
    *ret_count = group.count;
    if (group.count == 0)
        return 0;
    for (size_t i = 0; i < COMMIT_COLUMNS; i++)
        pg_array_init(&columns[i], types[i]);
    for (size_t i = 0; i < group.count; i++)
        turn_add_commit(columns, &work->arena, group.writes[i]);
    struct pg_array *c = columns;
    struct pg_call *call =
        pg_call_new(&work->arena,
                    "select belay.commit_turns($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, "
                    "$13, $14, $15,"
                    " $16, $17, $18, $19, $20, $21, $22, $23, $24)",
                    "sAAAAAAAAAAAAAAAAAAAAAAA", work->store->owner, c, c + 1, c + 2, c + 3, c + 4,
                    c + 5, c + 6, c + 7, c + 8, c + 9, c + 10, c + 11, c + 12, c + 13, c + 14,
                    c + 15, c + 16, c + 17, c + 18, c + 19, c + 20, c + 21, c + 22);
    int code = turn_run_group(&group, call, turn_refuse_commit);
    for (size_t i = 0; i < COMMIT_COLUMNS; i++)
        pg_array_done(&columns[i]);
    return code;
}

int pg_run_commits(struct pg_work *work, struct bl_list *jobs)
{
    return run_rounds(work, jobs, commit_round);
}

/* Run as groups. */
const struct pg_operation pg_begin = {0}, pg_commit = {0};

/* ---- Other writes ---- */

/* The key under which the job adds to a journal; the same when it is repeated. */
static int64_t turn_journal_key(const struct store_write *write)
{
    return (int64_t)(write->epoch_made << 32 | (write->number & 0xffffffff));
}

static struct pg_call *call_reject(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = write_of(job);
    const struct bl_settlement *end = &write->settlement;
    return pg_call_new(
        &work->arena,
        "select belay.reject_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,"
        " $16, $17, $18, $19)",
        "siuosijssjtwuuddobj", work->store->owner, write->grip.session, write->grip.epoch,
        (int)job->durable, write->run, turn_journal_key(write), end->events,
        end->receipt.size > 0 ? end->receipt_id : NULL,
        pg_receipt_scope(&work->arena, end->receipt), end->receipt, end->turn_id,
        end->ended_wall_ns, PG_SPENT(&end->spent), turn_prompt(&work->arena, end->result),
        end->result);
}

static struct pg_call *call_note(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = write_of(job);
    const struct bl_settlement *end = &write->settlement;
    return pg_call_new(&work->arena, "select belay.note($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                       "siuosijssj", work->store->owner, write->grip.session, write->grip.epoch,
                       (int)job->durable, write->run, turn_journal_key(write), end->events,
                       end->receipt_id, pg_receipt_scope(&work->arena, end->receipt), end->receipt);
}

static struct pg_call *call_compact(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = write_of(job);
    const struct bl_settlement *end = &write->settlement;
    return pg_call_new(&work->arena,
                       "select belay.compact($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, "
                       "$13, $14, $15, $16,"
                       " $17, $18, $19, $20, $21)",
                       "siuosijssjwuuuudd"
                       "outj",
                       work->store->owner, write->grip.session, write->grip.epoch,
                       (int)job->durable, write->run, turn_journal_key(write), end->events,
                       end->receipt_id, pg_receipt_scope(&work->arena, end->receipt), end->receipt,
                       end->ended_wall_ns, end->usage.input_tokens, end->usage.output_tokens,
                       PG_SPENT(&end->spent), end->turns_dropped, write->title, end->summary);
}

static struct pg_call *call_put_checkpoint(struct pg_work *work, struct store_job *job)
{
    const struct store_write *write = write_of(job);
    return pg_call_new(&work->arena, "select belay.put_checkpoint($1, $2, $3, $4, $5, $6)",
                       "siuobb", work->store->owner, write->grip.session, write->grip.epoch,
                       (int)job->durable, bl_text_from(write->checkpoint.name),
                       write->checkpoint.json);
}

const struct pg_operation pg_reject = {.call = call_reject, .take = turn_take_fenced};
const struct pg_operation pg_note = {.call = call_note, .take = turn_take_fenced};
const struct pg_operation pg_compact = {.call = call_compact, .take = turn_take_fenced};
const struct pg_operation pg_checkpoint_put = {.call = call_put_checkpoint,
                                               .take = turn_take_fenced};
