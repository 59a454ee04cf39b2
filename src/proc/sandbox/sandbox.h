/* Declarations shared by the files of the sandbox: the mounts of a view. */
#ifndef BELAY_PROC_SANDBOX_H
#define BELAY_PROC_SANDBOX_H

#include <belay/proc.h>

/* ---- mounts.c -------------------------------------------------------------------------------- */

/* In ascending priority: if two mounts at the same path are not named by the caller, the later kind
 * wins. */
enum mount_kind {
    MOUNT_WRITE, /* the folder, writable */
    MOUNT_READ,  /* the file or folder, read-only */
    MOUNT_NULL,  /* /dev/null: hides a file or a socket */
    MOUNT_EMPTY, /* an empty tmpfs: hides a folder */
};

struct mount {
    const char *path; /* absolute, without symbolic links */
    enum mount_kind kind;
    bool named; /* by the caller: wins over the tables at the same path */
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
/* Sorts the mounts into the order in which they are made, outer ones first, and removes those that
 * have no effect. */
void mounts_settle(struct mounts *mounts);
/* True if the path is the folder or below it. Both are absolute and without symbolic links. */
bool sandbox_path_below(const char *path, const char *folder);

/* ---- sandbox.c ------------------------------------------------------------------------------- */

/* Returns the length of a list that ends in NULL; 0 if the list is NULL. */
size_t sandbox_list_count(const char *const *list);

/* ---- hide.c ---------------------------------------------------------------------------------- */

/* Adds the mounts that hide paths from all commands, except secrets in `shown` (may be NULL). */
void sandbox_hide(struct mounts *mounts, const char *const *shown, bool network);
/* Returns Belay's own folders, whether they exist or not, with symbolic links resolved as far as
 * they exist. In the arena; ends in NULL. */
const char *const *sandbox_own_folders(struct bl_arena *arena);
/* Returns the user's Git configuration files in the same way; Belay's own git obeys these, too. */
const char *const *sandbox_git_configs(struct bl_arena *arena);

/* ---- pins.c ---------------------------------------------------------------------------------- */

/* Adds the mounts for paths in writable folders that are read-only or held in place. BL_EACCES: a
 * pinned folder was replaced. */
int sandbox_pins_mount(const struct bl_sandbox_pins *pins, struct mounts *mounts,
                       struct bl_error *error);
/* True if the folder, by its path without symbolic links, is in the view and unchanged. */
bool sandbox_pins_have(const struct bl_sandbox_pins *pins, const char *path);
/* Reports that a folder was replaced. Returns BL_EACCES. */
int sandbox_replaced(const char *path, struct bl_error *error);

#endif
