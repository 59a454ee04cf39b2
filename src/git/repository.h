/* What the files about git share. */
#ifndef BELAY_GIT_REPOSITORY_H
#define BELAY_GIT_REPOSITORY_H

#include <belay/git.h>

#include "git.h"

#define GIT_BUSY_NS   (10 * BL_NS_PER_S) /* a lock of others is waited for that long */
#define GIT_SHIELD_NS (5 * BL_NS_PER_S)  /* a write goes on for that long after a stop */

struct git_repository {
    struct bl_arena arena;
    const char *repository;
    const char *own_folder;     /* git directory of the repository's own work tree */
    const char *folder;         /* the common one */
    size_t id_size;             /* digits of an object's name */
    size_t change_files_max;    /* GIT_CHANGE_FILES_MAX; tests have a smaller one */
    bool plain_refs;            /* refs are files */
    bool plain_worktrees;       /* worktrees need no more than the four files */
    struct bl_text copy_config; /* of a clean copy */
    int lock;                   /* belay.lock; -1: not open yet */
    struct bl_buffer left;      /* entries of the mark: locks that could not be removed yet */
    struct bl_list sights;      /* of worktrees that were clean */
    struct bl_lock queue;
    struct bl_git runner;
};

/* ---- The queue of writes --------------------------------------------------------------------- */

/* A turn in the queue. Embedded by whoever writes; lives on its fiber's stack. */
struct git_write {
    struct git_repository *git;
    struct bl_loop *loop;
    struct bl_scope *outer;
    struct bl_scope shield;
    struct bl_stop_hook hook;
};

/* Waits for its turn, and begins a shield that ends GIT_SHIELD_NS after a stop of the scope around
 * it. BL_ECANCELED, BL_ETIMEDOUT: stopped, nothing is held. BL_EBUSY, kind feature: another belay
 * holds the repository. */
int git_write_begin(struct git_write *write, struct git_repository *git, const char *operation,
                    struct bl_error *error);
void git_write_end(struct git_write *write);
/* Lock files that a program takes, and leaves when it is killed. Lists end in NULL, or are full. */
struct git_locks {
    const char *own[5];    /* in the place of a worktree or branch of ours */
    const char *shared[2]; /* that the user's git takes as well */
    const char *worktree;  /* where else a holder would stand; may be NULL */
};

/* Of a program in a worktree whose git directory is `folder`. `branch` may be NULL. */
void git_locks_of(struct git_locks *ret_locks, struct bl_arena *arena, struct git_repository *git,
                  const char *folder, const char *branch, const char *worktree);

/* A program in the turn; while a lock of git's is busy it is tried again. `locks` (NULL: it takes
 * none): those of its own are removed where nobody can hold them any more. */
int git_write_call(struct git_write *write, struct bl_arena *arena, const struct bl_git_call *call,
                   const char *const *arguments, const struct git_locks *locks,
                   struct bl_git_answer *ret_answer, struct bl_error *error);

/* ---- Locks that the dead left ----------------------------------------------------------------
 * All of it only in a turn of the queue. */

/* Removes those of its own that a dead git of ours left; false: one is there, and somebody may
 * live. */
bool git_locks_clear(struct git_repository *git, const struct git_locks *locks);
/* Removes the locks that belay.lock names: their belay was killed while it wrote. Waits for a
 * moment; what cannot be removed yet is tried again in later turns. */
void git_mark_begin(struct git_repository *git);
/* Writes down what the program that is about to run may leave; NULL: none runs. */
void git_mark_program(struct git_repository *git, const struct git_locks *locks);
void git_mark_end(struct git_repository *git);

/* ---- Small things ---------------------------------------------------------------------------- */

bool git_is_id(const struct git_repository *git, struct bl_text text);
/* Copies an id; false: it is none. */
bool git_id_take(const struct git_repository *git, struct bl_text text, char ret_id[GIT_ID_SIZE]);
/* Arguments for whoever makes a list of paths: next part of a text of parts that end in NUL. */
bool git_part_next(struct bl_text *rest, struct bl_text *ret_part);
/* The git directory of a work tree of ours: the repository's, a linked one's, a copy's. In the
 * arena. BL_ENOENT without an error set: there is none. */
int git_folder_find(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                    const char **ret_folder);
/* Writes a small file at once: under another name, then renamed. */
int git_file_write(const char *path, struct bl_text text);
/* The same for one that is new, and that nobody looks at yet. */
int git_file_make(const char *path, struct bl_text text);
/* All of a small file; empty: it is not there, or too large. In the arena, with a NUL. */
struct bl_text git_file_read(struct bl_arena *arena, const char *path);
#define git_text(arena, ...) (bl_arena_printf(arena, __VA_ARGS__).data)
/* Shows a name in a message: control characters escaped, cut at 200 bytes. */
const char *git_shown(struct bl_arena *arena, struct bl_text name);

/* ---- What a worktree looks like -------------------------------------------------------------- */

/* Digests that no change leaves as they are. */
struct git_look {
    int64_t taken_wall_ns;
    uint8_t files[32]; /* of all in the work tree */
    uint8_t own[32];   /* of its git directory: index, HEAD, a merge */
};

void git_sights_done(struct git_repository *git);
/* From now on a worktree is looked at; `head` and `branch`: it is clean, and there; NULL: that is
 * not known. */
void git_sight_begin(struct git_repository *git, const char *worktree, const char *folder,
                     const char *head, const char *branch);
/* True: it is clean, because nothing has changed since it was. The branch is ours. */
bool git_sight_holds(struct git_repository *git, const char *worktree, const char *folder,
                     const char **ret_branch, char ret_head[GIT_ID_SIZE]);
/* What one looks like that is looked at at all; false: it cannot be said. */
bool git_sight_look(struct git_repository *git, const char *worktree, const char *folder,
                    struct git_look *ret_look);
/* It is clean, by what git found after that look; or `committed`, so that all files of that look
 * are in `head`. Kept if it still looks the same. */
void git_sight_keep(struct git_repository *git, const char *worktree, const char *folder,
                    const struct git_look *before, bool committed, const char *head,
                    const char *branch);

/* ---- What status says ------------------------------------------------------------------------ */

struct git_entry {
    char kind;   /* '1', '2' changed, 'u' unmerged, '?' untracked */
    bool nested; /* a repository of its own, not a submodule */
    const char *path;
};

struct git_status {
    char head[GIT_ID_SIZE]; /* empty: no commit yet */
    const char *branch;     /* full ref; NULL: detached */
    struct git_entry *entries;
    size_t count;
    bool cut; /* there are more */
    bool merging;
    const char *folder; /* git directory */
    bool looked;        /* before git did: */
    struct git_look look;
};

int git_status_read(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                    struct git_status *ret_status, struct bl_error *error);

#endif
