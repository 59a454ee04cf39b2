/* Design notes.
 *
 * A view is a list of mounts from three sources: folders that the caller names, tables of hidden
 * paths, and paths that are held in place inside writable folders. Two rules resolve conflicts: an
 * inner mount is made after an outer one, and at the same path the caller's mount wins.
 *
 * A folder that the caller names inside an equally writable one is left out. A command could have
 * replaced it with a link, and bubblewrap would bind the link's target. The remaining folders are
 * not in any folder that a command may write to, so no command can replace them. */
#include <stdlib.h>

#include "sandbox.h"

bool sandbox_path_below(const char *path, const char *folder)
{
    size_t size = strlen(folder);

    if (size == 1)
        return true;
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

void mounts_add(struct mounts *mounts, const char *path, enum mount_kind kind, bool named)
{
    if (strcmp(path, "/") == 0) /* visible anyway, and never writable */
        return;
    if (mounts->count == mounts->room) {
        size_t room = mounts->room > 0 ? 2 * mounts->room : 32;
        struct mount *items = bl_arena_alloc(mounts->arena, room * sizeof *items);
        if (mounts->count > 0)
            memcpy(items, mounts->items, mounts->count * sizeof *items);
        mounts->items = items;
        mounts->room = room;
    }
    mounts->items[mounts->count++] = (struct mount){
        .path = bl_arena_text(mounts->arena, bl_text_from(path)).data,
        .kind = kind,
        .named = named,
    };
}

/* Sorts outer paths before inner ones; at the same path, the mount that wins comes first. */
static int mount_compare(const void *left, const void *right)
{
    const struct mount *a = left, *b = right;
    int order = strcmp(a->path, b->path);

    if (order != 0)
        return order;
    if (a->named != b->named)
        return a->named ? -1 : 1;
    return a->named ? (int)a->kind - (int)b->kind : (int)b->kind - (int)a->kind;
}

/* Returns the innermost mount around a path, or NULL for the root, which is read-only. */
static const struct mount *mount_around(const struct mounts *mounts, const char *path)
{
    for (size_t i = mounts->count; i > 0; i--)
        if (sandbox_path_below(path, mounts->items[i - 1].path))
            return &mounts->items[i - 1];
    return NULL;
}

static bool mount_changes(const struct mount *mount, const struct mount *around)
{
    bool writable = around != NULL && around->kind == MOUNT_WRITE;
    bool hidden = around != NULL && around->kind == MOUNT_EMPTY;

    switch (mount->kind) {
    case MOUNT_WRITE: return mount->named ? !writable : writable;
    case MOUNT_READ: return mount->named ? hidden : writable;
    case MOUNT_NULL:
    case MOUNT_EMPTY: return !hidden;
    }
    return true;
}

void mounts_settle(struct mounts *mounts)
{
    struct mounts kept = *mounts;

    kept.count = 0;
    if (mounts->count > 0)
        qsort(mounts->items, mounts->count, sizeof *mounts->items, mount_compare);
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *mount = &mounts->items[i];
        bool decided = i > 0 && strcmp(mounts->items[i - 1].path, mount->path) == 0;
        if (!decided && mount_changes(mount, mount_around(&kept, mount->path)))
            kept.items[kept.count++] = *mount;
    }
    mounts->count = kept.count;
}
