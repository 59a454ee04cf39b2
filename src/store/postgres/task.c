/* Tasks of other protocols. The owner of a task is a worker: where its process is not visible, the
 * worker's row says whether it is at work. */
#include "postgres.h"

static struct store_task *task_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_task, job);
}

/* ---- Begin and end ---- */

/* Sets whether the task began: `done`, `used` or `lost`. */
static int ask_to_begin(struct pg_work *work, const struct store_task *task, char *ret_verdict,
                        size_t size, struct bl_error *error)
{
    const struct store_job *job = &task->job;
    const struct bl_store_task *begun = &task->task;
    struct pg_call *call =
        pg_call_new(&work->arena, "select belay.begin_task($1, $2, $3, $4, $5, $6, $7, $8)",
                    "soowsssw", work->store->owner, (int)job->durable, (int)job->sent,
                    task->wall_ns, begun->id, begun->kind, begun->session, begun->created_wall_ns);
    int code = pg_ask(work, call, error);
    if (code == 0 && pg_rows(call) == 1) {
        struct store_row row = pg_row(call, 0);
        store_row_into(ret_verdict, size, &row, 0);
    }
    pg_call_done(call);
    return code;
}

static int run_begin(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    const struct store_task *task = task_of(job);
    char verdict[16] = "lost";
    int code = 0;
    /* A worker that was lost registers again. */
    for (int tries = 0; code == 0 && tries < 3 && strcmp(verdict, "lost") == 0; tries++) {
        work->store->registered = work->store->registered && tries == 0;
        code = pg_register(work, error);
        if (code == 0)
            code = ask_to_begin(work, task, verdict, sizeof verdict, error);
    }
    if (code != 0 || strcmp(verdict, "done") == 0)
        return code;
    return strcmp(verdict, "used") == 0 ? store_refuse_existing_task(task->task.id, error)
                                        : BL_EBUSY;
}

static struct pg_call *call_end_task(struct pg_work *work, struct store_job *job)
{
    const struct bl_store_task *end = &task_of(job)->task;
    return pg_call_new(&work->arena, "select belay.end_task($1, $2, $3, $4, $5, $6, $7, $8)",
                       "oosswwjj", (int)job->durable, (int)job->sent, end->id, end->status,
                       end->ended_wall_ns, end->expires_wall_ns, end->receipt, end->result);
}

static int take_end_task(struct pg_work *work BL_UNUSED, struct store_job *job,
                         struct pg_call *call, struct bl_error *error)
{
    if (pg_rows(call) != 1)
        return BL_ESYSTEM;
    struct store_row row = pg_row(call, 0);
    struct bl_text verdict = store_row_text(&row, 0);
    if (bl_text_equal(verdict, BL_TEXT("done")))
        return 0;
    return store_refuse_ended_task(task_of(job)->task.id, bl_text_equal(verdict, BL_TEXT("ended")),
                                   error);
}

const struct pg_operation pg_task_begin = {.run = run_begin};
const struct pg_operation pg_task_end = {.call = call_end_task, .take = take_end_task};

/* ---- Reading ---- */

/* Columns after those of store_task_read. */
enum {
    TASK_KEY = 14,
    TASK_DUE, /* some task has expired */
};

/* One row, whose task is null if there is none. An expired task counts as missing. */
static struct pg_call *call_get(struct pg_work *work, struct store_job *job)
{
    const struct store_task *task = task_of(job);
    return pg_call_new(
        &work->arena,
        "select t.kind, t.session, t.created, t.ended, t.expires, t.status, t.pid, t.started,"
        " t.host, t.boot, t.pid_space, t.receipt, t.result,"
        " coalesce(w.state in ('live', 'draining'), false), t.key, due"
        " from (select exists (select 1 from belay.task where expires <= $2) as due) d"
        " left join belay.task t on t.id = $1 and (t.expires is null or t.expires > $2)"
        " left join belay.worker w on w.id = t.owner",
        "sw", task->task.id, task->wall_ns);
}

static int take_get(struct pg_work *work BL_UNUSED, struct store_job *job, struct pg_call *call,
                    struct bl_error *error BL_UNUSED)
{
    struct store_task *task = task_of(job);
    if (pg_rows(call) != 1)
        return BL_ESYSTEM;
    struct store_row row = pg_row(call, 0);
    task->found = !store_row_null(&row, TASK_KEY);
    if (task->found)
        store_task_read(task, &row);
    task->unsettled = store_task_is_lost(task) || store_row_flag(&row, TASK_DUE);
    return 0;
}

const struct pg_operation pg_task_get = {.call = call_get, .take = take_get};

/* ---- Settling ---- */

/* Runs a call without an answer. */
static int run_void(struct pg_work *work, struct pg_call *call, struct bl_error *error)
{
    int code = pg_ask(work, call, error);
    pg_call_done(call);
    return code;
}

/* Reads the task; `ret_key` is 0 if there is none. */
static int read_settled(struct pg_work *work, struct store_job *job, int64_t *ret_key,
                        struct bl_error *error)
{
    struct pg_call *call = call_get(work, job);
    int code = pg_ask(work, call, error);
    if (code == 0)
        code = take_get(work, job, call, error);
    if (code == 0) {
        struct store_row row = pg_row(call, 0);
        *ret_key = store_row_integer(&row, TASK_KEY);
    }
    pg_call_done(call);
    task_of(job)->unsettled = false;
    return code;
}

/* Deletes what has expired, and ends the task if its owner is lost. */
static int run_task_settle(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_task *task = task_of(job);
    int64_t key = 0;
    int code = run_void(work,
                        pg_call_new(&work->arena, "select belay.expire_tasks($1, $2)", "sw",
                                    task->task.id, task->wall_ns),
                        error);
    if (code == 0)
        code = read_settled(work, job, &key, error);
    if (code != 0 || !store_task_is_lost(task))
        return code;
    code = run_void(work,
                    pg_call_new(&work->arena, "select belay.fail_task($1, $2, $3, $4)", "oiww",
                                (int)job->durable, key, task->wall_ns,
                                task->wall_ns + STORE_TASK_KEPT_NS),
                    error);
    return code != 0 ? code : read_settled(work, job, &key, error);
}

const struct pg_operation pg_task_settle = {.run = run_task_settle};
