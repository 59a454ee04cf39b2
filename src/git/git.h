/* The repository of a feature: its commits, branches and worktrees, by the programs that
 * <belay/git.h> runs.
 *
 * Promises: writes go one at a time, in the process and (by a lock file of ours) between processes;
 * a write once begun is finished in a shield, so that a stop leaves no lock file; nothing here
 * resets, cleans, stashes, forces, or deletes a branch that is not merged; the user's checkout,
 * index and branch are not touched. Reads take no locks. Lock files that a killed belay left are
 * removed by the next one, once it is certain that nobody holds them.
 *
 * All functions are called in fibers; they wait. BL_ECANCELED, BL_ETIMEDOUT: the running fiber's
 * scope was stopped before it began (a write) or in it (a read). Other failures: kind feature, with
 * git's own words; a full disk is BL_ENOSPC, kind filesystem. */
#ifndef BELAY_GIT_GIT_H
#define BELAY_GIT_GIT_H

#include <belay/fiber.h>

#define GIT_ID_SIZE 72 /* of an object, SHA-1 or SHA-256, in hexadecimal */

struct git_repository;

/* `repository` is the top of a work tree. Errors, kind feature, each with a hint: no git, older
 * than 2.38, no repository, bare, no commit yet. */
int git_open(const char *repository, struct git_repository **ret_git, struct bl_error *error);
void git_close(struct git_repository *git);               /* NULL is fine */
const char *git_folder(const struct git_repository *git); /* the common git directory, absolute */
/* Nanoseconds that git programs took so far, and how many there were: for the benchmark. */
void git_share(const struct git_repository *git, uint64_t *ret_ns, uint64_t *ret_programs);

/* ---- Reading --------------------------------------------------------------------------------- */

/* The commit that a revision means. BL_ENOENT. */
int git_commit_find(struct git_repository *git, const char *revision, char ret_id[GIT_ID_SIZE],
                    struct bl_error *error);
/* The same of a full ref name ("refs/heads/belay/F/T"); BL_ENOENT without an error set. */
int git_ref_find(struct git_repository *git, const char *ref, char ret_id[GIT_ID_SIZE],
                 struct bl_error *error);

struct git_ref {
    struct bl_list link;
    const char *name;
    char id[GIT_ID_SIZE];
};

/* All below a prefix ("refs/heads/belay/"), sorted; in the arena. */
int git_refs_list(struct git_repository *git, struct bl_arena *arena, const char *prefix,
                  struct bl_list *ret_refs, struct bl_error *error);

#define GIT_FILES_MAX 1000 /* that a state lists; all are counted */

/* Where a work tree stands. In the arena. */
struct git_state {
    char head[GIT_ID_SIZE];
    const char *branch;       /* full ref; NULL: detached */
    const char *const *files; /* changed, staged, unmerged or untracked; end in NULL */
    size_t file_count;        /* of all */
    size_t untracked_count;   /* of these */
    size_t unmerged_count;
    bool merging; /* a merge is under way */
};

int git_state_read(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                   struct git_state *ret_state, struct bl_error *error);
bool git_is_ancestor(struct git_repository *git, const char *ancestor, const char *of);
/* The head of a branch, local or of a remote, that has a commit and whose full name does not begin
 * with `except`; empty: there is none. */
int git_keeper_find(struct git_repository *git, struct bl_arena *arena, const char *commit,
                    const char *except, char ret_id[GIT_ID_SIZE], struct bl_error *error);
/* Paths that differ between two commits, end in NULL. */
int git_changed_paths(struct git_repository *git, struct bl_arena *arena, const char *from,
                      const char *to, const char *const **ret_paths, struct bl_error *error);
/* The diff between them as text, valid UTF-8, at most `size_max` bytes; the rest is counted in its
 * last line. */
int git_diff_text(struct git_repository *git, struct bl_arena *arena, const char *from,
                  const char *to, size_t size_max, struct bl_text *ret_text,
                  struct bl_error *error);

/* A linked worktree, as its folder in the git directory says. In the arena. */
struct git_worktree {
    struct bl_list link;
    const char *folder; /* in the common git directory */
    const char *path;   /* of the work tree */
    const char *branch; /* full ref; NULL: detached */
    const char *note;   /* of its lock; NULL: not locked */
};

/* All of them, without running git. */
void git_worktrees_list(struct git_repository *git, struct bl_arena *arena,
                        struct bl_list *ret_list);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Removes lock files that a git of ours left when its belay was killed, unless another belay writes
 * at this moment. Every write begins with the same: this is for commands that only look. */
void git_left_clear(struct git_repository *git);

/* A worktree on `branch` (full ref): the branch is made at `base` where it is not there. `note`
 * (run, pid, start time) is the reason of its lock. A folder that is gone is made again from its
 * branch; a worktree that is there is taken as it is. `.belay/worktrees/` and `.belay/run/` are put
 * into info/exclude once. Lock files that a dead git of ours left in this worktree's or branch's
 * place are removed. */
int git_worktree_make(struct git_repository *git, const char *branch, const char *path,
                      const char *base, const char *note, struct bl_error *error);
/* Moves it aside, files and all, and detaches it from its branch at the same commit. One that was
 * cut off is finished by another call; one that is done is done. */
int git_worktree_move(struct git_repository *git, const char *path, const char *new_path,
                      struct bl_error *error);
/* One that is clean, without untracked files; refused by git otherwise. */
int git_worktree_remove(struct git_repository *git, const char *path, struct bl_error *error);

#define GIT_CHANGE_BYTES_MAX ((uint64_t)512 << 20)
#define GIT_CHANGE_FILES_MAX 50000

enum git_commit_end {
    GIT_COMMIT_NONE, /* nothing had changed */
    GIT_COMMIT_MADE,
    GIT_COMMIT_MOVED,      /* the worktree is not on its branch */
    GIT_COMMIT_REWRITTEN,  /* `expected` is not an ancestor any more */
    GIT_COMMIT_TOO_LARGE,  /* `why` names the largest paths */
    GIT_COMMIT_UNRESOLVED, /* conflict markers are left in files of a merge under way */
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
    struct bl_text why;     /* of refusals: for the Player, with the way back. Else empty, or what
                               was left out: a repository of its own in the worktree */
};

/* Commits all that git does not ignore, on top of what is there. */
int git_commit_all(struct git_repository *git, struct bl_arena *arena,
                   const struct git_commit_order *order, struct git_commit_result *ret_result,
                   struct bl_error *error);

struct git_merge_result {
    bool clean;
    char commit[GIT_ID_SIZE];     /* of the merge; parents: ours, theirs */
    const char *const *conflicts; /* paths; end in NULL */
};

/* A merge commit without any checkout (merge-tree, commit-tree), also where it could be a fast
 * forward. No ref moves. */
int git_merge_commits(struct git_repository *git, struct bl_arena *arena, const char *ours,
                      const char *theirs, const char *message, struct git_merge_result *ret_result,
                      struct bl_error *error);
/* Merges a commit into a worktree and leaves the conflicts there, not committed; one that is under
 * way is left as it is. */
int git_merge_into(struct git_repository *git, const char *worktree, const char *commit,
                   struct bl_error *error);
/* Moves a ref from `old` (NULL: it must not exist) to `new` (NULL: it goes; only for rescue moves,
 * merged branches). BL_EBUSY: it is not at `old`. BL_EREFUSED: it is to go, and is checked out, or
 * no other ref has its commits. */
int git_ref_swap(struct git_repository *git, const char *ref, const char *old, const char *new_id,
                 const char *reason, struct bl_error *error);

/* ---- Clean copies ---------------------------------------------------------------------------- */

/* A shared clone at a commit: a repository of its own, detached, whose objects are ours to read.
 * `path` must not exist; its parent is made. BL_ENOTSUP: the copy is there, but for submodules that
 * cannot be filled locally; after other failures there is none. */
int git_copy_make(struct git_repository *git, const char *commit, const char *path,
                  struct bl_error *error);
/* Puts the files that fit `patterns` (end in NULL; as in `protect`) into a copy as they are in
 * `base`: changed ones restored, added ones removed. */
int git_copy_protect(struct git_repository *git, const char *path, const char *base,
                     const char *const *patterns, struct bl_error *error);
/* Removes a folder of ours and all in it, without following links; blocking work is done on a
 * thread, in a shield. */
void git_copy_remove(struct git_repository *git, const char *path);
/* Does a path fit one of the patterns, which begin at the top? One star stays within a folder, two
 * do not; a name without wildcards at the end stands for all in that folder, too. */
bool git_path_fits(const char *const *patterns, const char *path);

#endif
