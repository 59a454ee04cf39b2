/* Design notes.
 *
 * A batch is one transaction. A job that is refused must not affect the others: then the batch is
 * rolled back and run again with each job in a savepoint, so that only this job is rolled back.
 * Savepoints are not used from the start, because they copy every page that a job touches, which
 * halves the throughput of a busy store, and refusals are rare. A batch that does not fit on the
 * disk is retried job by job.
 *
 * Durability: a batch with a durable job is synced before it is answered, together with everything
 * written before. A batch that only begins or rejects turns, notes, holds or releases is not
 * synced. It survives the end of the process; after a power loss the store is in a state not older
 * than the last synced batch. No caller was promised more.
 *
 * A failed sync does not remove the data: SQLite has rolled the transaction back, but its complete
 * frames are in the log, and a process that opened the file after this one was killed would find
 * them committed. So a small transaction is written over them before any caller is told that its
 * job was refused. It is not synced, because syncing has just failed; it protects against a kill,
 * and a kernel that lost the sync of the frames has lost the frames. From then on the log is not
 * trusted: before another job is answered as durable, even of the same batch, the whole log is
 * moved into the file and synced, and a new log is started. */
#include "sqlite.h"

#define CHECKPOINT_PAGES 1000

static int sqlite_write_begin(struct sqlite_link *link, enum sqlite_synchronous synchronous,
                              struct bl_error *error)
{
    static const char *const pragmas[] = {"PRAGMA synchronous = OFF", "PRAGMA synchronous = NORMAL",
                                          "PRAGMA synchronous = FULL"};
    int code = 0;
    if (link->synchronous != synchronous)
        code = sqlite_execute(link, pragmas[synchronous], error);
    if (code != 0)
        return code;
    link->synchronous = synchronous;
    return sqlite_change(link, error, "BEGIN IMMEDIATE", "") < 0 ? error->code : 0;
}

static void roll_back(struct sqlite_link *link)
{
    if (sqlite3_get_autocommit(link->db) == 0)
        sqlite3_exec(link->db, "ROLLBACK", NULL, NULL, NULL);
}

static int run_operation(struct sqlite_link *link, struct store_job *job, struct bl_error *error)
{
    void *whole = job;
    switch (job->operation) {
    case STORE_HOLD: return sqlite_hold(link, whole, error);
    case STORE_FEATURE_HOLD: return sqlite_feature_hold(link, whole, error);
    case STORE_FEATURE_WRITE: return sqlite_feature_write(link, whole, error);
    case STORE_FEATURE_RELEASE: return sqlite_feature_release(link, whole, error);
    case STORE_TASK_BEGIN: return sqlite_task_begin(link, whole, error);
    case STORE_TASK_END: return sqlite_task_end(link, whole, error);
    case STORE_TASK_SETTLE: return sqlite_task_settle(link, whole, error);
    case STORE_IMPORT: return sqlite_import(link, whole, error);
    case STORE_FORK: return sqlite_fork(link, whole, error);
    case STORE_DELETE: return sqlite_delete(link, whole, error);
    case STORE_RELEASE:
    case STORE_RENEW:
    case STORE_BEGIN:
    case STORE_COMMIT:
    case STORE_REJECT:
    case STORE_NOTE:
    case STORE_COMPACT:
    case STORE_CHECKPOINT_PUT:
    case STORE_CELL_ADMIT:
    case STORE_CELL_STARTED:
    case STORE_CELL_YIELD:
    case STORE_CELL_END:
    case STORE_CELL_BURY:
    case STORE_CELL_WITHDRAW:
    case STORE_CELLS_FORGET: return sqlite_session_write(link, whole, error);
    case STORE_CHECKPOINT_GET:
    case STORE_LIST:
    case STORE_SHOW:
    case STORE_CELLS_LOAD:
    case STORE_CELL_BURIED:
    case STORE_FEATURE_LOAD:
    case STORE_FEATURE_EVENTS:
    case STORE_FEATURE_LIST:
    case STORE_TASK_GET:
    case STORE_FIND:
    case STORE_TURNS:
    case STORE_EXPORT_PAGE: break;
    }
    return bl_error_set(error, BL_EINVAL, BL_KIND_UNKNOWN, "store", link->path, "not a write");
}

/* Returns false if the whole transaction has been or must be rolled back. */
static bool run_job(struct sqlite_link *link, struct store_job *job, bool alone)
{
    job->error = (struct bl_error){0};
    bl_arena_reset(&job->output);
    job->code = alone ? sqlite_change(link, &job->error, "SAVEPOINT job", "") : 0;
    if (job->code < 0)
        return false;
    job->code = run_operation(link, job, &job->error);
    if (sqlite3_get_autocommit(link->db) != 0)
        return false;
    if (!alone)
        return job->code == 0;
    if (job->code != 0 && sqlite_change(link, NULL, "ROLLBACK TO job", "") < 0)
        return false;
    return sqlite_change(link, NULL, "RELEASE job", "") >= 0;
}

static void sqlite_write_refuse(struct store_job *job, int code, const struct bl_error *error)
{
    job->code = code;
    job->error = *error;
    job->settled = true;
}

static void refuse_all(struct bl_list *jobs, int code, const struct bl_error *error)
{
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        if (!job->settled)
            sqlite_write_refuse(job, code, error);
    }
}

/* Overwrites what a failed sync left in the log. */
static int write_void(struct sqlite_link *link, struct bl_list *jobs, struct store_job *only,
                      struct bl_error *error)
{
    link->untrusted = true;
    int code = sqlite_write_begin(link, SQLITE_SYNCHRONOUS_OFF, error);
    if (code == 0)
        code = sqlite_change(link, error, "UPDATE store SET voids = voids + 1", "");
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        if (code < 0 || job->settled || (only != NULL && job != only))
            continue;
        if (job->operation == STORE_COMMIT && job->code == 0)
            code = sqlite_commit_void(link, (void *)job, error);
    }
    if (code >= 0)
        code = sqlite_change(link, error, "COMMIT", "");
    roll_back(link);
    return code < 0 ? code : 0;
}

/* Refuses the remaining jobs after a failed sync. */
static void make_void(struct sqlite_link *link, struct bl_list *jobs, struct store_job *only,
                      const struct bl_error *sync_error)
{
    struct bl_error void_error = {0}, error = *sync_error;
    if (write_void(link, jobs, only, &void_error) != 0) {
        error = (struct bl_error){0};
        bl_error_set(&error, BL_EUNKNOWN, BL_KIND_FILESYSTEM, "commit", link->path,
                     "the disk failed (%.180s), and what was written could not be undone "
                     "(%.180s)",
                     sync_error->message, void_error.message);
        bl_error_hint(&error, "open it again to find out what was saved");
        bl_error_name_set(&error, "commit_unknown");
    }
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        if (!job->settled && (only == NULL || job == only) && job->code == 0)
            sqlite_write_refuse(job, error.code, &error);
    }
}

static bool any_durable(struct bl_list *jobs)
{
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        if (job->durable && !job->settled)
            return true;
    }
    return false;
}

enum group_end {
    GROUP_WELL,
    GROUP_REFUSED,     /* a job was refused; the rest can continue without it */
    GROUP_FAILED,      /* failed, and none of it is in the file */
    GROUP_SYNC_FAILED, /* failed, and its data may be found in the file */
};

/* Runs the unsettled jobs, or only one, in one transaction; `alone`: each in a savepoint. */
static enum group_end run_group(struct sqlite_link *link, struct bl_list *jobs,
                                struct store_job *only, bool alone, struct bl_error *error)
{
    bool durable = only != NULL ? only->durable : any_durable(jobs);
    enum group_end end = GROUP_WELL;
    if (sqlite_write_begin(link, durable ? SQLITE_SYNCHRONOUS_FULL : SQLITE_SYNCHRONOUS_NORMAL,
                           error) != 0)
        end = GROUP_FAILED;
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        if (end != GROUP_WELL || job->settled || (only != NULL && job != only))
            continue;
        if (run_job(link, job, alone))
            continue;
        bool whole = !alone && sqlite3_get_autocommit(link->db) == 0;
        end = whole ? GROUP_REFUSED : GROUP_FAILED;
        *error = job->error;
        if (error->code == 0)
            sqlite_fail(link, sqlite3_extended_errcode(link->db), "write", error);
    }
    if (end == GROUP_WELL && sqlite_change(link, error, "COMMIT", "") < 0) {
        int result = sqlite3_extended_errcode(link->db);
        /* A frame that was not written completely is not a commit; only a later failure can leave
         * one. */
        end = (result & 0xff) == SQLITE_IOERR && result != SQLITE_IOERR_WRITE ? GROUP_SYNC_FAILED
                                                                              : GROUP_FAILED;
    }
    roll_back(link);
    return end;
}

static bool worth_another_try(const struct bl_error *error)
{
    return error->code == BL_ENOSPC || error->code == BL_EIO;
}

/* Moves the log into the file, and starts a new log. */
static int restore_trust(struct sqlite_link *link, struct bl_error *error)
{
    int code = sqlite_execute(link, "PRAGMA synchronous = FULL", error);
    if (code != 0)
        return code;
    link->synchronous = SQLITE_SYNCHRONOUS_FULL;
    int result =
        sqlite3_wal_checkpoint_v2(link->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (result != SQLITE_OK)
        return sqlite_fail(link, result, "bring the store up to date after a failed write", error);
    link->untrusted = false;
    return 0;
}

static void run_one_by_one(struct sqlite_link *link, struct bl_list *jobs)
{
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        struct bl_error error = {0};
        if (job->settled)
            continue;
        /* The sync of an earlier job may have failed. */
        if (link->untrusted && job->durable && restore_trust(link, &error) != 0) {
            sqlite_write_refuse(job, error.code, &error);
            continue;
        }
        switch (run_group(link, jobs, job, false, &error)) {
        case GROUP_WELL:
        case GROUP_REFUSED: break;
        case GROUP_FAILED: sqlite_write_refuse(job, error.code, &error); break;
        case GROUP_SYNC_FAILED: make_void(link, jobs, job, &error); break;
        }
    }
}

static void refuse_durable(struct bl_list *jobs, const struct bl_error *error)
{
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        if (job->durable)
            sqlite_write_refuse(job, error->code, error);
    }
}

/* Keeps the log short. A failure loses nothing; the next call tries again. */
static void shorten_log(struct sqlite_link *link)
{
    if (link->wal_pages < CHECKPOINT_PAGES || link->untrusted)
        return;
    int result = sqlite3_wal_checkpoint_v2(link->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if ((result & 0xff) == SQLITE_IOERR)
        link->untrusted = true;
    link->wal_pages = 0;
}

void sqlite_write(void *state, struct bl_list *jobs)
{
    struct sqlite_link *link = &((struct sqlite_store *)state)->writer;
    struct bl_error error = {0};
    if (link->damaged) {
        sqlite_fail(link, SQLITE_CORRUPT, "write", &error);
        refuse_all(jobs, error.code, &error);
        return;
    }
    if (link->untrusted && any_durable(jobs) && restore_trust(link, &error) != 0) {
        refuse_durable(jobs, &error);
        error = (struct bl_error){0};
    }
    bool one = jobs->next->next == jobs;
    enum group_end end = run_group(link, jobs, NULL, false, &error);
    if (end == GROUP_REFUSED && !one) {
        error = (struct bl_error){0};
        end = run_group(link, jobs, NULL, true, &error);
    }
    switch (end) {
    case GROUP_WELL: shorten_log(link); break;
    case GROUP_REFUSED: break;
    case GROUP_SYNC_FAILED: make_void(link, jobs, NULL, &error); break;
    case GROUP_FAILED:
        if (worth_another_try(&error) && !link->damaged && !one)
            run_one_by_one(link, jobs);
        else
            refuse_all(jobs, error.code, &error);
        break;
    }
}
