/* The real operations of the loop: git, seats, verification, the store. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "feature/parts.h"

void feature_branch(const struct bl_feature *feature, const char *task, char out[FEATURE_REF_SIZE])
{
    snprintf(out, FEATURE_REF_SIZE, "refs/heads/belay/%s/%s", feature->plan->id, task);
}

void task_ref(const struct bl_task_row *row, char out[FEATURE_REF_SIZE])
{
    snprintf(out, FEATURE_REF_SIZE, "refs/heads/%s", row->branch);
}

int feature_folder_make(const char *path, struct bl_error *error)
{
    int failed = -bl_folder_make_above(path, 0777);
    if (failed == 0 && mkdir(path, 0700) != 0 && errno != EEXIST)
        failed = errno;
    if (failed == 0)
        return 0;
    return bl_error_set(error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "make a folder",
                        path, "cannot create '%s': %s", path, strerror(failed));
}

/* Wave 1 starts from the base of the run, later waves from the work merged so far. */
static void run_means_find_base(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    struct bl_task_row *row = &task->row;
    if (row->base_commit[0] != '\0')
        return;
    bl_text_into(row->base_commit, sizeof row->base_commit,
                 feature->row.result_commit[0] != '\0' ? feature->row.result_commit
                                                       : feature->row.base_commit);
}

static int run_means_resume(struct feature_task *task, struct bl_error *error)
{
    struct bl_task_row *row = &task->row;
    struct git_state state;
    BL_AUTO_ARENA(arena);
    int code = git_state_read(task->feature->git, &arena, row->worktree.data, &state, error);
    if (code == 0) {
        /* Phases can be taken over only if the tree is unchanged since then. */
        if (strcmp(row->head_commit, state.head) != 0 || state.file_count > 0)
            row_text_set(&task->carry, (struct bl_text){0});
        bl_text_into(row->head_commit, sizeof row->head_commit, state.head);
        row->dirty = state.file_count > 0;
    }
    return code;
}

static int feature_means_prepare(struct feature_task *task, struct bl_error *error)
{
    struct bl_feature *feature = task->feature;
    struct bl_task_row *row = &task->row;
    char note[200], ref[FEATURE_REF_SIZE];
    bool again = row->head_commit[0] != '\0';
    int code = feature_folder_make(task->scratch, error);
    if (code != 0)
        return code;
    run_means_find_base(task);
    bl_text_into(task->compare_base, sizeof task->compare_base, row->base_commit);
    feature_branch(feature, row->id, ref);
    if (row->branch[0] != '\0')
        task_ref(row, ref);
    bl_text_into(row->branch, sizeof row->branch, ref + strlen("refs/heads/"));
    if (again && access(row->worktree.data, F_OK) != 0)
        event_warn(feature, task,
                   "the worktree of %s is missing: it is restored from its branch, and "
                   "uncommitted files are lost",
                   row->id);
    snprintf(note, sizeof note, "belay %s pid %ld started %lld", feature->row.run_id,
             (long)getpid(), (long long)bl_store_process_started(getpid()));
    code = git_worktree_make(feature->git, ref, row->worktree.data, row->base_commit, note, error);
    if (code != 0)
        return code;
    if (again)
        return run_means_resume(task, error);
    bl_text_into(row->head_commit, sizeof row->head_commit, row->base_commit);
    row->dirty = 0;
    return 0;
}

static void run_means_play(struct feature_task *task, const struct seat_order *order,
                           struct bl_arena *arena, struct seat_outcome *ret_outcome)
{
    seat_run(&task->feature->house, order, arena, ret_outcome);
}

static int run_means_commit(struct feature_task *task, struct bl_arena *arena, const char *message,
                            struct git_commit_result *ret_result, struct bl_error *error)
{
    char ref[FEATURE_REF_SIZE];
    struct git_commit_order order = {
        .worktree = task->row.worktree.data,
        .branch = ref,
        .expected = task->row.head_commit,
        .message = message,
    };
    task_ref(&task->row, ref);
    return git_commit_all(task->feature->git, arena, &order, ret_result, error);
}

static int state(struct feature_task *task, struct bl_arena *arena, struct git_state *ret_state,
                 struct bl_error *error)
{
    return git_state_read(task->feature->git, arena, task->row.worktree.data, ret_state, error);
}

static int run_means_changed(struct feature_task *task, struct bl_arena *arena,
                             const char *const **ret_paths, struct bl_error *error)
{
    return git_changed_paths(task->feature->git, arena, task->compare_base, task->row.head_commit,
                             ret_paths, error);
}

static int diff(struct feature_task *task, struct bl_arena *arena, struct bl_text *ret_text,
                struct bl_error *error)
{
    *ret_text = (struct bl_text){0};
    if (strcmp(task->compare_base, task->row.head_commit) == 0)
        return 0;
    return git_diff_text(task->feature->git, arena, task->compare_base, task->row.head_commit,
                         FEATURE_DIFF_MAX, ret_text, error);
}

static int verify(struct feature_task *task, const struct verify_order *order,
                  struct bl_arena *arena, struct verify_outcome *ret_outcome)
{
    return verify_run(&task->feature->house, task->feature->git, order, arena, ret_outcome);
}

static int copy_make(struct feature_task *task, const char *path, struct bl_error *error)
{
    int code = git_copy_make(task->feature->git, task->row.head_commit, path, error);
    /* The Coach can read the copy without its submodules. */
    return code == BL_ENOTSUP ? 0 : code;
}

static void copy_remove(struct feature_task *task, const char *path)
{
    git_copy_remove(task->feature->git, path);
}

static int write_store(struct bl_feature *feature, const struct bl_store_feature_write *write,
                       struct bl_error *error)
{
    return bl_store_feature_write(feature->held, write, error);
}

const struct feature_means feature_means_real = {
    .prepare = feature_means_prepare,
    .play = run_means_play,
    .commit = run_means_commit,
    .state = state,
    .changed = run_means_changed,
    .diff = diff,
    .verify = verify,
    .copy_make = copy_make,
    .copy_remove = copy_remove,
    .merge = wave_merge,
    .write = write_store,
};
