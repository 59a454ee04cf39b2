/* Tasks of other protocols: work that a client asks about later. */
#include "parts.h"

static const char *const ends[] = {"completed", "failed", "cancelled"};

static struct store_task *store_make_task(struct bl_store *store, enum store_operation operation,
                                          const char *id)
{
    struct store_task *task = store_job_new(operation, sizeof *task);
    task->job.durable = operation < STORE_CHECKPOINT_GET;
    task->job.linger_ns = task->job.durable ? STORE_LINGER_NS : 0;
    task->self = store->self;
    task->wall_ns = store_wall_ns();
    task->task.id = store_job_string(&task->job, id);
    return task;
}

/* Runs and leaves a job that writes. If its caller was stopped while it was running, the write may
 * have taken place: the caller is told so. */
static int run_write(struct bl_store *store, struct store_task *task, const char *operation,
                     struct bl_error *error)
{
    struct bl_error own = {0};
    int code;
    if (store_run(store, &task->job, &code, &own) == STORE_NO_ANSWER) {
        own = (struct bl_error){0};
        code = bl_error_set(&own, BL_EUNKNOWN, BL_KIND_FILESYSTEM, operation, store->where,
                            "the store did not respond: it is unknown whether task %.100s was "
                            "written",
                            task->task.id);
        bl_error_name_set(&own, "commit_unknown");
    }
    store_job_leave(&task->job);
    if (code != 0 && error != NULL && error->code == 0)
        *error = own;
    return code;
}

int bl_store_task_begin(struct bl_store *store, const struct bl_store_task *task,
                        struct bl_error *error)
{
    if (task->id == NULL || task->id[0] == '\0' || task->kind == NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "begin the task", task->id,
                            "a task needs an id and a kind");
    struct store_task *begin = store_make_task(store, STORE_TASK_BEGIN, task->id);
    begin->task.kind = store_job_string(&begin->job, task->kind);
    begin->task.session = store_job_string(&begin->job, task->session);
    begin->task.created_wall_ns =
        task->created_wall_ns != 0 ? task->created_wall_ns : begin->wall_ns;
    return run_write(store, begin, "begin the task", error);
}

static const char *find_end(const char *status)
{
    for (size_t i = 0; i < BL_COUNT(ends) && status != NULL; i++) {
        if (strcmp(ends[i], status) == 0)
            return ends[i];
    }
    return NULL;
}

int bl_store_task_end(struct bl_store *store, const struct bl_store_task *task,
                      struct bl_error *error)
{
    const char *status = find_end(task->status);
    if (status == NULL || task->id == NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "end the task", task->id,
                            "invalid end of a task (expected completed, failed or cancelled)");
    struct store_task *end = store_make_task(store, STORE_TASK_END, task->id);
    end->task.status = status;
    end->task.ended_wall_ns = task->ended_wall_ns != 0 ? task->ended_wall_ns : end->wall_ns;
    end->task.expires_wall_ns = task->expires_wall_ns > 0
                                    ? task->expires_wall_ns
                                    : end->task.ended_wall_ns + STORE_TASK_KEPT_NS;
    end->task.result = store_job_text(&end->job, task->result);
    end->task.receipt = store_job_text(&end->job, task->receipt);
    return run_write(store, end, "end the task", error);
}

static void copy_task(struct bl_arena *arena, const struct bl_store_task *from,
                      struct bl_store_task *to)
{
    *to = *from;
    to->id = bl_arena_text(arena, bl_text_from(from->id)).data;
    to->kind = bl_arena_text(arena, bl_text_from(from->kind)).data;
    to->status = bl_arena_text(arena, bl_text_from(from->status)).data;
    if (from->session != NULL)
        to->session = bl_arena_text(arena, bl_text_from(from->session)).data;
    to->result = bl_arena_text(arena, from->result);
    to->receipt = bl_arena_text(arena, from->receipt);
}

/* Runs and leaves a job whose answer is the task. */
static int run_get(struct bl_store *store, struct store_task *get, struct bl_arena *arena,
                   struct bl_store_task *ret_task, bool *ret_unsettled, struct bl_error *error)
{
    int code;
    bool answered = store_run(store, &get->job, &code, error) == STORE_ANSWERED && code == 0;
    if (answered) {
        *ret_unsettled = get->unsettled;
        if (get->found)
            copy_task(arena, &get->task, ret_task);
        else if (!get->unsettled)
            code = bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "look up the task", get->task.id,
                                "there is no task %.100s, or it has expired", get->task.id);
    }
    store_job_leave(&get->job);
    return code;
}

int bl_store_task_get(struct bl_store *store, struct bl_arena *arena, const char *id,
                      struct bl_store_task *ret_task, struct bl_error *error)
{
    bool unsettled = false;
    struct bl_store_task task = {0};
    int code =
        run_get(store, store_make_task(store, STORE_TASK_GET, id), arena, &task, &unsettled, error);
    /* Reading needs no lock; only the writes that it finds necessary wait for other writers. */
    if (code == 0 && unsettled && !store->reading) {
        task = (struct bl_store_task){0};
        code = run_get(store, store_make_task(store, STORE_TASK_SETTLE, id), arena, &task,
                       &unsettled, error);
    } else if (code == 0 && unsettled && task.id == NULL) {
        code = bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "look up the task", id,
                            "task %.100s has expired", id);
    }
    if (code == 0)
        *ret_task = task;
    return code;
}
