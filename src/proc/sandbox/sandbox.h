/* What the files of the sandbox share: the mounts of a view, and who adds which. */
#ifndef BELAY_PROC_SANDBOX_H
#define BELAY_PROC_SANDBOX_H

#include <belay/proc.h>

/* ---- sandbox_mounts.c ------------------------------------------------------------------------ */

/* By strength: of two mounts at one path, neither of them named, the later kind wins. */
enum mount_kind {
    MOUNT_WRITE, /* the folder, writable */
    MOUNT_READ,  /* the file or folder, read-only */
    MOUNT_NULL,  /* /dev/null: hides a file or a socket */
    MOUNT_EMPTY, /* an empty tmpfs: hides a folder */
};

struct mount {
    const char *path; /* absolute, without links */
    enum mount_kind kind;
    bool named; /* by the caller: wins over what the tables say of that path */
};

/* In the arena. */
struct mounts {
    struct bl_arena *arena;
    struct mount *items;
    size_t count;
    size_t room;
};

/* Copies the path. */
void mounts_add(struct mounts *mounts, const char *path, enum mount_kind kind, bool named);
/* Puts them in the order in which they are made, outer ones first, and leaves out those that change
 * nothing. */
void mounts_settle(struct mounts *mounts);
/* True when it is the folder, or below it; both absolute, without links. */
bool sandbox_path_below(const char *path, const char *folder);

/* ---- sandbox.c ------------------------------------------------------------------------------- */

/* Of a list that ends in NULL; NULL: none. */
size_t sandbox_list_count(const char *const *list);

/* ---- sandbox_hide.c -------------------------------------------------------------------------- */

/* Adds what no command gets to see, but for the secrets in `shown` (may be NULL). */
void sandbox_hide(struct mounts *mounts, const char *const *shown, bool network);
/* The folders of belay itself, whether they exist or not: each with its links followed as far as it
 * exists. In the arena; end in NULL. */
const char *const *sandbox_own_folders(struct bl_arena *arena);
/* The same for the user's own configuration of Git, which belay's git obeys, too. */
const char *const *sandbox_git_configs(struct bl_arena *arena);

/* ---- sandbox_pins.c -------------------------------------------------------------------------- */

/* Adds what is read-only or held in place inside of writable folders. BL_EACCES: a pinned folder
 * was replaced. */
int sandbox_pins_mount(const struct bl_sandbox_pins *pins, struct mounts *mounts,
                       struct bl_error *error);
/* True when the folder, by its path without links, is one of the view's, and still the same. */
bool sandbox_pins_have(const struct bl_sandbox_pins *pins, const char *path);
/* Says that a folder was replaced. Returns BL_EACCES. */
int sandbox_replaced(const char *path, struct bl_error *error);

#endif
