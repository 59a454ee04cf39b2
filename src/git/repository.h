/* Declarations shared by the files of a repository. */
#ifndef BELAY_GIT_REPOSITORY_H
#define BELAY_GIT_REPOSITORY_H

#include <belay/git.h>

#include "git.h"

#define GIT_BUSY_NS   (10 * BL_NS_PER_S) /* how long to wait for the lock of another program */
#define GIT_SHIELD_NS (5 * BL_NS_PER_S)  /* how long a write may continue after a stop */

struct git_repository {
    struct bl_arena arena;
    const char *repository;
    const char *own_folder;     /* git directory of the repository's own work tree */
    const char *folder;         /* the common git directory */
    size_t id_size;             /* digits of an object's name */
    size_t change_files_max;    /* GIT_CHANGE_FILES_MAX; smaller in tests */
    bool plain_refs;            /* refs are files */
    bool plain_worktrees;       /* worktrees need only the four files */
    struct bl_text copy_config; /* of a clean copy */
    int lock;                   /* belay.lock; -1: not open yet */
    struct bl_buffer left;      /* entries of the mark for locks that could not be removed yet */
    struct bl_list sights;      /* of worktrees that were clean */
    struct bl_lock queue;
    struct bl_git runner;
};

/* ---- The queue of writes --------------------------------------------------------------------- */

/* A turn in the queue. Embedded by the writer; lives on its fiber's stack. */
struct git_write {
    struct git_repository *git;
    struct bl_loop *loop;
    struct bl_scope *outer;
    struct bl_scope shield;
    struct bl_stop_hook hook;
};

/* Waits for its turn, and begins a shield that ends GIT_SHIELD_NS after a stop of the enclosing
 * scope. BL_ECANCELED, BL_ETIMEDOUT: stopped, and no lock is held. BL_EBUSY, kind feature: another
 * belay holds the repository. */
int git_write_begin(struct git_write *write, struct git_repository *git, const char *operation,
                    struct bl_error *error);
void git_write_end(struct git_write *write);
/* Lock files that a program takes, and leaves behind if it is killed. Lists end in NULL or are
 * full.
 *
 *  */
struct git_locks {
    const char *own[5];    /* for a worktree or branch of belay */
    const char *shared[2]; /* also taken by the user's git */
    const char *worktree;  /* another directory in which a holder may run; may be NULL */
};

/* Lists the locks of a program in a worktree with git directory `folder`. `branch` may be NULL. */
void git_locks_of(struct git_locks *ret_locks, struct bl_arena *arena, struct git_repository *git,
                  const char *folder, const char *branch, const char *worktree);

/* Runs a program in the turn, and retries while one of git's locks is held. Of `locks` (NULL: it
 * takes none), its own are removed once no process can hold them any more. */
int git_write_call(struct git_write *write, struct bl_arena *arena, const struct bl_git_call *call,
                   const char *const *arguments, const struct git_locks *locks,
                   struct bl_git_answer *ret_answer, struct bl_error *error);

/* ---- Locks left by killed programs -----------------------------------------------------------
 * Only for use in a turn of the queue. */

/* Removes its own locks that a dead git of belay left. Returns false if one exists and its holder
 * may be alive. */
bool git_locks_clear(struct git_repository *git, const struct git_locks *locks);
/* Removes the locks that belay.lock names: their belay was killed while it wrote. Waits briefly;
 * locks that cannot be removed yet are tried again in later turns. */
void git_mark_begin(struct git_repository *git);
/* Records the locks that the next program may leave; NULL: no program runs. */
void git_mark_program(struct git_repository *git, const struct git_locks *locks);
void git_mark_end(struct git_repository *git);

/* ---- Small things ---------------------------------------------------------------------------- */

bool git_is_id(const struct git_repository *git, struct bl_text text);
/* Copies an id. Returns false if the text is not an id. */
bool git_id_take(const struct git_repository *git, struct bl_text text, char ret_id[GIT_ID_SIZE]);
/* Takes the next part of a text whose parts end in NUL. */
bool git_part_next(struct bl_text *rest, struct bl_text *ret_part);
/* Finds the git directory of a work tree of belay: the repository, a linked worktree or a copy. In
 * the arena. BL_ENOENT: there is none; no error is set. */
int git_folder_find(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                    const char **ret_folder);
/* Writes a small file atomically: under another name, then renamed. */
int git_file_write(const char *path, struct bl_text text);
/* Writes a new file in place, which no program reads yet. */
int git_file_make(const char *path, struct bl_text text);
/* Returns the contents of a small file, followed by a NUL, in the arena. Empty if the file does not
 * exist or is too large. */
struct bl_text git_file_read(struct bl_arena *arena, const char *path);
#define git_text(arena, ...) (bl_arena_printf(arena, __VA_ARGS__).data)
/* Returns a name for a message: control characters escaped, truncated to 200 bytes. */
const char *git_shown(struct bl_arena *arena, struct bl_text name);

/* ---- Digests of worktrees -------------------------------------------------------------------- */

/* Digests that every change alters. */
struct git_look {
    int64_t taken_wall_ns;
    uint8_t files[32]; /* of all files in the work tree */
    uint8_t own[32];   /* of its git directory: index, HEAD, a merge */
};

void git_sights_done(struct git_repository *git);
/* Starts to track a worktree. `head` and `branch` are the position at which it is clean; NULL if
 * that is not known. */
void git_sight_begin(struct git_repository *git, const char *worktree, const char *folder,
                     const char *head, const char *branch);
/* True if a worktree is clean, because nothing has changed since it was. `*ret_branch` stays owned
 * by the repository. */
bool git_sight_holds(struct git_repository *git, const char *worktree, const char *folder,
                     const char **ret_branch, char ret_head[GIT_ID_SIZE]);
/* Takes the digests of a tracked worktree. Returns false if that is not possible. */
bool git_sight_look(struct git_repository *git, const char *worktree, const char *folder,
                    struct git_look *ret_look);
/* Records that a worktree is clean: git found so after the digests `before` were taken; or, with
 * `committed`, all files of those digests are in `head`. Has no effect if the worktree has changed.
 */
void git_sight_keep(struct git_repository *git, const char *worktree, const char *folder,
                    const struct git_look *before, bool committed, const char *head,
                    const char *branch);

/* ---- Status ---------------------------------------------------------------------------------- */

struct git_entry {
    char kind;   /* '1', '2' changed, 'u' unmerged, '?' untracked */
    bool nested; /* a nested repository, not a submodule */
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
    bool looked;        /* `look` was taken before git ran */
    struct git_look look;
};

int git_status_read(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                    struct git_status *ret_status, struct bl_error *error);

#endif
