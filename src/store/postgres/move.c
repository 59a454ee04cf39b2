/* Copying and deleting sessions. */
#include "postgres.h"

/* Columns of belay.delete_session. */
enum {
    DELETE_VERDICT,
    DELETE_HELD_ID,
    DELETE_LEASE,
};

/* Workers of this host that are found dead by one deletion. */
#define DEAD_MAX 100

static struct store_look *move_look(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_look, job);
}

/* ---- Fork ---- */

/* Made once for a job: a fork that is repeated finds its session. */
static const char *fork_id(struct store_look *look)
{
    char id[BL_ID_SIZE];
    if (look->new_id == NULL) {
        bl_id_make(id, "s-");
        look->new_id = store_job_string(&look->job, id);
    }
    return look->new_id;
}

static int fork_run(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_look *look = move_look(job);
    const char *id = fork_id(look);
    struct pg_call *call =
        pg_call_new(&work->arena, "select belay.fork_session($1, $2, $3, $4, $5)", "ssswo",
                    look->id, id, look->self.host, look->wall_ns, (int)job->sent);
    int code = pg_ask(work, call, error);
    struct store_row row = pg_row(call, 0);
    struct bl_text verdict = code == 0 ? store_row_text(&row, 0) : BL_TEXT("");
    if (bl_text_equal(verdict, BL_TEXT("made")))
        look->made_id = bl_arena_text(&job->output, bl_text_from(id)).data;
    else if (bl_text_equal(verdict, BL_TEXT("used")))
        code = store_refuse_used_id(STORE_FORK, id, error);
    else if (code == 0)
        code = pg_refuse_missing(work, look->id, error);
    pg_call_done(call);
    return code;
}

const struct pg_operation pg_fork = {.run = fork_run};

/* ---- Delete ---- */

/* Tries once. BL_EAGAIN: a holder is dead on this host, and was added to `dead`. */
static int delete_try(struct pg_work *work, struct store_look *look, struct pg_array *dead,
                      struct bl_error *error)
{
    struct store_lease lease;
    struct pg_call *call = pg_call_new(&work->arena, "select * from belay.delete_session($1, $2)",
                                       "sA", look->id, dead);
    int code = pg_ask(work, call, error);
    struct store_row row = pg_row(call, 0);
    struct bl_text verdict = code == 0 ? store_row_text(&row, DELETE_VERDICT) : BL_TEXT("");
    if (bl_text_equal(verdict, BL_TEXT("busy"))) {
        store_lease_read(&row, DELETE_LEASE, &lease);
        const char *held = store_row_string(&work->arena, &row, DELETE_HELD_ID);
        if (store_lease_binds(&lease, &look->self, look->wall_ns) || dead->count == DEAD_MAX)
            code = store_refuse_delete(look->id, held, &lease, error);
        else
            code = BL_EAGAIN;
        pg_array_add_text(dead, bl_text_from(lease.owner));
    } else if (bl_text_equal(verdict, BL_TEXT("missing")) && !look->job.sent) {
        /* After a try whose answer was lost, a missing session is a deleted one. */
        code = pg_refuse_missing(work, look->id, error);
    }
    pg_call_done(call);
    return code;
}

static int delete_run(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct pg_array dead;
    int code;
    pg_array_init(&dead, 't');
    do
        code = delete_try(work, move_look(job), &dead, error);
    while (code == BL_EAGAIN);
    pg_array_done(&dead);
    return code;
}

const struct pg_operation pg_delete = {.run = delete_run};
