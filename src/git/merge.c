#include "repository.h"

#include <unistd.h>

#define MERGE "merge a task's branch"
#define INTO  "merge into a worktree"
#define SWAP  "move a branch"

/* ---- Commits --------------------------------------------------------------------------------- */

/* Takes the tree, then the names of the conflicting paths, each ended by NUL. */
static int take_tree(struct git_repository *git, struct bl_arena *arena, struct bl_text output,
                     char ret_tree[GIT_ID_SIZE], const char *const **ret_conflicts)
{
    struct bl_text part;
    size_t count = 0;
    if (!git_part_next(&output, &part) || !git_id_take(git, part, ret_tree))
        return BL_EPARSE;
    for (size_t i = 0; i < output.size; i++)
        count += output.data[i] == '\0';
    const char **paths = bl_arena_alloc(arena, (count + 2) * sizeof *paths);
    count = 0;
    while (git_part_next(&output, &part) && part.size > 0)
        paths[count++] = part.data;
    paths[count] = NULL;
    *ret_conflicts = paths;
    return 0;
}

static int merge_commits(struct git_write *write, struct bl_arena *arena, const char *ours,
                         const char *theirs, const char *message,
                         struct git_merge_result *ret_result, struct bl_error *error)
{
    struct git_repository *git = write->git;
    struct bl_git_call call = {.operation = MERGE,
                               .directory = git->repository,
                               .folder = git->own_folder,
                               .writes = true};
    struct bl_git_answer answer;
    char tree[GIT_ID_SIZE];
    int code = git_write_call(write, arena, &call,
                              BL_GIT_ARGUMENTS("merge-tree", "--write-tree", "-z", "--name-only",
                                               "--no-messages", ours, theirs),
                              NULL, &answer, error);
    if (code != 0)
        return code;
    if (answer.status > 1)
        return bl_git_refuse(&call, &answer, error);
    if (take_tree(git, arena, answer.output, tree, &ret_result->conflicts) != 0)
        return bl_error_set(error, BL_EPARSE, BL_KIND_FEATURE, MERGE, git->repository,
                            "git merge-tree returned no tree");
    ret_result->clean = answer.status == 0;
    if (!ret_result->clean)
        return 0;
    call.input = bl_text_from(message);
    code =
        git_write_call(write, arena, &call,
                       BL_GIT_ARGUMENTS("commit-tree", tree, "-p", ours, "-p", theirs, "-F", "-"),
                       NULL, &answer, error);
    if (code == 0 &&
        (answer.status != 0 || !git_id_take(git, bl_text_trim(answer.output), ret_result->commit)))
        code = bl_git_refuse(&call, &answer, error);
    return code;
}

int git_merge_commits(struct git_repository *git, struct bl_arena *arena, const char *ours,
                      const char *theirs, const char *message, struct git_merge_result *ret_result,
                      struct bl_error *error)
{
    static const char *const none[] = {NULL};
    struct git_write write;
    *ret_result = (struct git_merge_result){.conflicts = none};
    int code = git_write_begin(&write, git, MERGE, error);
    if (code != 0)
        return code;
    code = merge_commits(&write, arena, ours, theirs, message, ret_result, error);
    git_write_end(&write);
    return code;
}

/* ---- Worktrees ------------------------------------------------------------------------------- */

static int merge_into(struct git_write *write, struct bl_arena *arena, const char *worktree,
                      const char *folder, const char *commit, struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = INTO, .directory = worktree, .folder = folder, .writes = true};
    struct bl_git_answer answer;
    const char *under_way = git_text(arena, "%s/MERGE_HEAD", folder);
    struct git_locks locks;
    git_locks_of(&locks, arena, write->git, folder, NULL, worktree);
    if (access(under_way, F_OK) == 0)
        return 0;
    int code = git_write_call(write, arena, &call,
                              BL_GIT_ARGUMENTS("merge", "-q", "--no-ff", "--no-commit", "--no-edit",
                                               "--no-stat", "--no-verify", commit),
                              &locks, &answer, error);
    /* Conflicts are expected. A merge that could not begin has left no MERGE_HEAD. */
    if (code == 0 && answer.status != 0 && access(under_way, F_OK) != 0)
        code = bl_git_refuse(&call, &answer, error);
    return code;
}

int git_merge_into(struct git_repository *git, const char *worktree, const char *commit,
                   struct bl_error *error)
{
    struct git_write write;
    struct bl_arena arena = {0};
    const char *folder;
    int code = git_folder_find(git, &arena, worktree, &folder);
    if (code != 0)
        bl_error_set(error, code, BL_KIND_FEATURE, INTO, worktree,
                     "not a worktree of this repository");
    else
        code = git_write_begin(&write, git, INTO, error);
    if (code == 0) {
        code = merge_into(&write, &arena, worktree, folder, commit, error);
        git_write_end(&write);
    }
    bl_arena_done(&arena);
    return code;
}

/* ---- Refs ------------------------------------------------------------------------------------ */

/* A branch may be deleted only if another ref keeps its commits and it is not checked out. */
static int check_deletion(struct git_repository *git, struct bl_arena *arena, const char *ref,
                          const char *old, struct bl_error *error)
{
    struct bl_git_call call = {
        .operation = SWAP, .directory = git->repository, .folder = git->own_folder};
    struct bl_git_answer answer;
    struct bl_list worktrees;
    struct bl_text line;
    git_worktrees_list(git, arena, &worktrees);
    BL_LIST_EACH (link, &worktrees) {
        struct git_worktree *worktree = BL_CONTAINER(link, struct git_worktree, link);
        if (worktree->branch != NULL && strcmp(worktree->branch, ref) == 0)
            return bl_error_set(error, BL_EREFUSED, BL_KIND_FEATURE, SWAP, ref, "checked out in %s",
                                worktree->path);
    }
    int code = bl_git_run(
        &git->runner, arena, &call,
        BL_GIT_ARGUMENTS("for-each-ref", "--format=%(refname)", "--count=2", "--contains", old),
        &answer, error);
    if (code != 0)
        return code;
    if (answer.status != 0)
        return bl_git_refuse(&call, &answer, error);
    while (bl_text_split(&answer.output, '\n', &line))
        if (!bl_text_equal(line, bl_text_from(ref)))
            return 0;
    return bl_error_set(error, BL_EREFUSED, BL_KIND_FEATURE, SWAP, ref,
                        "not deleted: no other ref has its commits");
}

/* Adds the shared locks of a ref update. To delete a ref, git locks the packed refs, and rewrites
 * them if the ref is among them; to move a ref that is checked out, it locks HEAD. */
static void add_shared(struct git_locks *locks, struct bl_arena *arena, struct git_repository *git,
                       const char *ref, bool goes)
{
    const char *head = git_text(arena, "%s/HEAD", git->own_folder);
    struct bl_text there = bl_text_trim(git_file_read(arena, head));
    if (goes) {
        /* They are removed in this order: git does not make the second while the first exists. */
        locks->shared[0] = git_text(arena, "%s/packed-refs.new", git->folder);
        locks->shared[1] = git_text(arena, "%s/packed-refs.lock", git->folder);
    } else if (bl_text_equal(there, bl_text_from(git_text(arena, "ref: %s", ref)))) {
        locks->shared[0] = git_text(arena, "%s.lock", head);
    }
}

static int git_merge_swap(struct git_write *write, struct bl_arena *arena, const char *ref,
                          const char *old, const char *new_id, const char *reason,
                          struct bl_error *error)
{
    struct git_repository *git = write->git;
    struct bl_git_call call = {
        .operation = SWAP, .directory = git->repository, .folder = git->own_folder, .writes = true};
    struct bl_git_answer answer;
    char now[GIT_ID_SIZE];
    struct git_locks locks = {.own = {git_text(arena, "%s/%s.lock", git->folder, ref)}};
    add_shared(&locks, arena, git, ref, new_id == NULL);
    const char *const *removes = BL_GIT_ARGUMENTS("update-ref", "--no-deref", "-d", ref, old);
    const char *const *moves = BL_GIT_ARGUMENTS("update-ref", "--no-deref", "--create-reflog", "-m",
                                                reason, ref, new_id, old != NULL ? old : "");
    int code = new_id == NULL ? check_deletion(git, arena, ref, old, error) : 0;
    if (code == 0)
        code = git_write_call(write, arena, &call, new_id != NULL ? moves : removes, &locks,
                              &answer, error);
    if (code != 0 || answer.status == 0)
        return code;
    /* Checks whether the ref is at another commit, or something else failed. */
    code = git_ref_find(git, ref, now, error);
    if (code != 0 && code != BL_ENOENT)
        return code;
    if (old != NULL ? code == BL_ENOENT || strcmp(now, old) != 0 : code == 0)
        return bl_error_set(error, BL_EBUSY, BL_KIND_FEATURE, SWAP, ref,
                            "it is at %.12s, not at %.12s", code == 0 ? now : "no commit",
                            old != NULL ? old : "no commit");
    return bl_git_refuse(&call, &answer, error);
}

int git_ref_swap(struct git_repository *git, const char *ref, const char *old, const char *new_id,
                 const char *reason, struct bl_error *error)
{
    struct git_write write;
    struct bl_arena arena = {0};
    int code = 0;
    if (old == NULL && new_id == NULL)
        code = bl_error_set(error, BL_EINVAL, BL_KIND_FEATURE, SWAP, ref,
                            "no old and no new commit given");
    if (code == 0)
        code = git_write_begin(&write, git, SWAP, error);
    if (code == 0) {
        code = git_merge_swap(&write, &arena, ref, old, new_id,
                              reason != NULL && reason[0] != '\0' ? reason : "belay", error);
        git_write_end(&write);
    }
    bl_arena_done(&arena);
    return code;
}
