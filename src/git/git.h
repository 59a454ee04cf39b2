/* The repository of a feature: its commits, branches and worktrees, through the programs that
 * <belay/git.h> runs.
 *
 * Promises: writes run one at a time, within the process and (by a lock file of belay) between
 * processes. A write that has begun is finished in a shield, so that a stop leaves no lock file. No
 * function resets, cleans, stashes, forces, or deletes a branch that is not merged. The user's
 * checkout, index and branch are not changed. Reads take no locks. Lock files that a killed belay
 * left are removed by the next one, once it is certain that no process holds them.
 *
 * All functions wait, and must be called in fibers. BL_ECANCELED, BL_ETIMEDOUT: the running fiber's
 * scope was stopped before a write or during a read. Other failures have kind feature and git's own
 * message; a full disk is BL_ENOSPC, kind filesystem. */
#ifndef BELAY_GIT_GIT_H
#define BELAY_GIT_GIT_H

#include <belay/fiber.h>

#define GIT_ID_SIZE 72 /* of an object, SHA-1 or SHA-256, in hexadecimal */

struct git_repository;

/* Opens the repository; `repository` is the top of a work tree. Errors, kind feature, each with a
 * hint: no git, git older than 2.38, no repository, a bare repository, no commit yet. */
int git_open(const char *repository, struct git_repository **ret_git, struct bl_error *error);
void git_close(struct git_repository *git);               /* NULL is fine */
const char *git_folder(const struct git_repository *git); /* the common git directory, absolute */
/* Total run time of git programs in nanoseconds, and their number: for the benchmark. */
void git_share(const struct git_repository *git, uint64_t *ret_ns, uint64_t *ret_programs);

/* ---- Reading --------------------------------------------------------------------------------- */

/* Finds the commit that a revision names. BL_ENOENT. */
int git_commit_find(struct git_repository *git, const char *revision, char ret_id[GIT_ID_SIZE],
                    struct bl_error *error);
/* The same for a full ref name ("refs/heads/belay/F/T"). BL_ENOENT does not set the error. */
int git_ref_find(struct git_repository *git, const char *ref, char ret_id[GIT_ID_SIZE],
                 struct bl_error *error);

struct git_ref {
    struct bl_list link;
    const char *name;
    char id[GIT_ID_SIZE];
};

/* Lists all refs below a prefix ("refs/heads/belay/"), sorted; in the arena. */
int git_refs_list(struct git_repository *git, struct bl_arena *arena, const char *prefix,
                  struct bl_list *ret_refs, struct bl_error *error);

#define GIT_FILES_MAX 1000 /* files that a state lists; all are counted */

/* The state of a work tree. In the arena. */
struct git_state {
    char head[GIT_ID_SIZE];
    const char *branch;       /* full ref; NULL: detached */
    const char *const *files; /* changed, staged, unmerged or untracked; end in NULL */
    size_t file_count;        /* of all of them */
    size_t untracked_count;   /* of these */
    size_t unmerged_count;
    bool merging; /* a merge is under way */
};

int git_state_read(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                   struct git_state *ret_state, struct bl_error *error);
bool git_is_ancestor(struct git_repository *git, const char *ancestor, const char *of);
/* Finds the head of a local or remote branch that contains a commit and whose full name does not
 * begin with `except`. Empty if there is none. */
int git_keeper_find(struct git_repository *git, struct bl_arena *arena, const char *commit,
                    const char *except, char ret_id[GIT_ID_SIZE], struct bl_error *error);
/* Lists the paths that differ between two commits; ends in NULL. */
int git_changed_paths(struct git_repository *git, struct bl_arena *arena, const char *from,
                      const char *to, const char *const **ret_paths, struct bl_error *error);
/* Returns the diff between two commits as valid UTF-8, at most `size_max` bytes. The last line
 * gives the number of bytes left out. */
int git_diff_text(struct git_repository *git, struct bl_arena *arena, const char *from,
                  const char *to, size_t size_max, struct bl_text *ret_text,
                  struct bl_error *error);

/* A linked worktree, as described by its folder in the git directory. In the arena. */
struct git_worktree {
    struct bl_list link;
    const char *folder; /* in the common git directory */
    const char *path;   /* of the work tree */
    const char *branch; /* full ref; NULL: detached */
    const char *note;   /* of its lock; NULL: not locked */
};

/* Lists all of them without running git. */
void git_worktrees_list(struct git_repository *git, struct bl_arena *arena,
                        struct bl_list *ret_list);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Removes lock files that a git of belay left when its belay was killed, unless another belay is
 * writing. Every write begins with the same clean-up; this is for commands that only read. */
void git_left_clear(struct git_repository *git);

/* Makes a worktree on `branch` (full ref), which is created at `base` if it does not exist. `note`
 * (run, pid, start time) is the reason of its lock. A missing folder is made again from its branch;
 * an existing worktree is used as it is. `.belay/worktrees/` and `.belay/run/` are added to
 * info/exclude once. Removes lock files that a dead git of belay left for this worktree or branch.
 */
int git_worktree_make(struct git_repository *git, const char *branch, const char *path,
                      const char *base, const char *note, struct bl_error *error);
/* Moves a worktree with its files aside, and detaches it from its branch at the same commit. A move
 * that was interrupted is completed by another call; after a complete move, a call does nothing. */
int git_worktree_move(struct git_repository *git, const char *path, const char *new_path,
                      struct bl_error *error);
/* Removes a clean worktree. Git refuses if it has changes or untracked files. */
int git_worktree_remove(struct git_repository *git, const char *path, struct bl_error *error);

#define GIT_CHANGE_BYTES_MAX ((uint64_t)512 << 20)
#define GIT_CHANGE_FILES_MAX 50000

enum git_commit_end {
    GIT_COMMIT_NONE, /* nothing had changed */
    GIT_COMMIT_MADE,
    GIT_COMMIT_MOVED,      /* the worktree is not on its branch */
    GIT_COMMIT_REWRITTEN,  /* `expected` is no longer an ancestor */
    GIT_COMMIT_TOO_LARGE,  /* `why` names the largest paths */
    GIT_COMMIT_UNRESOLVED, /* files of a merge in progress still have conflict markers */
};

struct git_commit_order {
    const char *worktree;
    const char *branch;   /* full ref that it must be on */
    const char *expected; /* commit that must still be an ancestor of its head */
    const char *message;  /* whole, with trailers */
};

struct git_commit_result {
    enum git_commit_end end;
    char head[GIT_ID_SIZE]; /* after it */
    struct bl_text why;     /* of a refusal: a text for the Player that says how to recover. Else
                               empty, or what was left out: a nested repository */
};

/* Commits all changes that git does not ignore, on top of the branch. */
int git_commit_all(struct git_repository *git, struct bl_arena *arena,
                   const struct git_commit_order *order, struct git_commit_result *ret_result,
                   struct bl_error *error);

struct git_merge_result {
    bool clean;
    char commit[GIT_ID_SIZE];     /* of the merge; parents: ours, theirs */
    const char *const *conflicts; /* paths; end in NULL */
};

/* Makes a merge commit without a checkout (merge-tree, commit-tree), even if a fast-forward is
 * possible. No ref moves. */
int git_merge_commits(struct git_repository *git, struct bl_arena *arena, const char *ours,
                      const char *theirs, const char *message, struct git_merge_result *ret_result,
                      struct bl_error *error);
/* Merges a commit into a worktree and leaves the conflicts there, uncommitted. A merge in progress
 * is left unchanged. */
int git_merge_into(struct git_repository *git, const char *worktree, const char *commit,
                   struct bl_error *error);
/* Moves a ref from `old` (NULL: it must not exist) to `new_id` (NULL: it is deleted; only for
 * rescue moves and merged branches). BL_EBUSY: the ref is not at `old`. BL_EREFUSED: it cannot be
 * deleted, because it is checked out or no other ref has its commits. */
int git_ref_swap(struct git_repository *git, const char *ref, const char *old, const char *new_id,
                 const char *reason, struct bl_error *error);

/* ---- Clean copies ---------------------------------------------------------------------------- */

/* Makes a shared clone at a commit: a separate repository with a detached HEAD, which reads objects
 * from this one. `path` must not exist; its parent is made. BL_ENOTSUP: the copy was made, without
 * submodules that cannot be filled locally. After other failures there is no copy. */
int git_copy_make(struct git_repository *git, const char *commit, const char *path,
                  struct bl_error *error);
/* Restores the files of a copy that match `patterns` (end in NULL; as in `protect`) to their state
 * in `base`: changed files are restored, added ones removed. */
int git_copy_protect(struct git_repository *git, const char *path, const char *base,
                     const char *const *patterns, struct bl_error *error);
/* Removes a folder of belay and its contents, without following links. The blocking work is done on
 * a thread, in a shield. */
void git_copy_remove(struct git_repository *git, const char *path);
/* True if a path matches one of the patterns, which are anchored at the top. One star matches
 * within a folder, two across folders. A last part without wildcards also matches everything in the
 * folder of that name. */
bool git_path_fits(const char *const *patterns, const char *path);

#endif
