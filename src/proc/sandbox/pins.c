/* Design notes.
 *
 * Inside a writable folder some paths must not change: outside the sandbox, Git executes what
 * .git/config and .git/hooks contain, and Belay what its own configuration contains. A read-only
 * mount on such a path is not enough: a command could rename the folders around it and put a copy
 * with other content in their place. But a mount point cannot be renamed or removed, so each folder
 * between the writable folder and the path is bind-mounted to itself.
 *
 * Such a mount is safe only if no command can replace the folder with a link at that moment. So
 * only paths that exist at the start are held: each is a mount point in every sandbox from the
 * first command on, and its device and inode numbers are compared before each command. A .git that
 * is created later, for example by a command, is not protected. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox.h"

struct held {
    struct bl_pin pin;       /* path only, if it is read-only */
    enum mount_kind kind;    /* MOUNT_WRITE: held in place; MOUNT_READ: read-only */
    enum mount_kind missing; /* mounted in its place if it does not exist; MOUNT_WRITE: nothing */
};

struct bl_sandbox_pins {
    struct bl_arena arena;
    struct bl_pin *folders; /* all folders of the view */
    size_t folder_count;
    struct held *held;
    size_t held_count;
    size_t held_room;
    struct bl_pin *clean; /* Git directories that had no `commondir`; at most two for each folder */
    size_t clean_count;
};

/* Exists only in the Git directories of worktrees. */
#define REDIRECTION "commondir"
/* The setting that makes Git read `config.worktree`. */
#define WORKTREE_CONFIG "worktreeConfig"
/* Size limit for reading a configuration; a larger one is treated as having the setting. */
#define CONFIG_MAX ((size_t)1024 * 1024)

/* Parts of a Git directory that name programs to run, or files with such names. Git creates the
 * first two itself, so these may be mounted where they do not exist. */
static const struct {
    const char *name;
    enum mount_kind missing; /* as in struct held */
} git_parts[] = {
    {"config", MOUNT_NULL},     {"hooks", MOUNT_EMPTY},   {"config.worktree", MOUNT_WRITE},
    {REDIRECTION, MOUNT_WRITE}, {"modules", MOUNT_WRITE}, {"worktrees", MOUNT_WRITE},
};

static bool pins_is_folder(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static void pins_add(struct bl_sandbox_pins *pins, const char *path, enum mount_kind kind,
                     enum mount_kind missing)
{
    struct held held = {.pin = {.path = path, .fd = -1}, .kind = kind, .missing = missing};

    for (size_t i = 0; i < pins->held_count; i++)
        if (strcmp(pins->held[i].pin.path, path) == 0)
            return;
    if (kind == MOUNT_WRITE && bl_pin_folder(&pins->arena, path, &held.pin) != 0)
        return;
    if (pins->held_count == pins->held_room) {
        pins->held_room = pins->held_room > 0 ? 2 * pins->held_room : 16;
        struct held *more = bl_arena_zalloc(&pins->arena, pins->held_room * sizeof *more);
        if (pins->held_count > 0)
            memcpy(more, pins->held, pins->held_count * sizeof *more);
        pins->held = more;
    }
    pins->held[pins->held_count++] = held;
}

/* ---- Git ------------------------------------------------------------------------------------- */

/* True if Git would read `config.worktree` if a command created one. `git sparse-checkout` enables
 * that. */
static bool pin_reads_worktree_config(struct bl_arena *arena, const char *folder)
{
    const char *path = bl_arena_printf(arena, "%s/config", folder).data, *why;
    struct bl_buffer text;
    int code = bl_file_load(path, CONFIG_MAX, &text, &why);

    if (code == 0)
        bl_buffer_append_byte(&text, '\0');
    bool reads = code == 0 ? strcasestr(text.data, WORKTREE_CONFIG) != NULL : code != BL_ENOENT;
    bl_buffer_done(&text);
    return reads;
}

static void pin_git_parts(struct bl_sandbox_pins *pins, const char *folder)
{
    struct stat status;
    bool reads = pin_reads_worktree_config(&pins->arena, folder);

    for (size_t i = 0; i < BL_COUNT(git_parts); i++) {
        const char *path = bl_arena_printf(&pins->arena, "%s/%s", folder, git_parts[i].name).data;
        bool there = lstat(path, &status) == 0;
        bool absent = !there && errno == ENOENT;
        bool plain = there && (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode));
        enum mount_kind missing = git_parts[i].missing;
        if (reads && strcmp(git_parts[i].name, "config.worktree") == 0)
            missing = MOUNT_NULL;
        if (plain || (absent && missing != MOUNT_WRITE))
            pins_add(pins, path, MOUNT_READ, missing);
    }
    struct bl_pin *clean = &pins->clean[pins->clean_count];
    const char *redirection = bl_arena_printf(&pins->arena, "%s/" REDIRECTION, folder).data;
    if (lstat(redirection, &status) != 0 && errno == ENOENT &&
        bl_pin_folder(&pins->arena, folder, clean) == 0)
        pins->clean_count++;
}

/* True if Git would treat the folder itself as a repository, as with `--add-dir /repository/.git`.
 */
static bool is_git_folder(struct bl_arena *arena, const char *folder)
{
    return access(bl_arena_printf(arena, "%s/HEAD", folder).data, F_OK) == 0 &&
           pins_is_folder(bl_arena_printf(arena, "%s/objects", folder).data) &&
           pins_is_folder(bl_arena_printf(arena, "%s/refs", folder).data);
}

static void pin_git(struct bl_sandbox_pins *pins, const char *root)
{
    const char *path = bl_arena_printf(&pins->arena, "%s/.git", root).data;
    struct stat status;

    if (is_git_folder(&pins->arena, root))
        pin_git_parts(pins, root);
    if (lstat(path, &status) != 0)
        return;
    if (S_ISREG(status.st_mode)) { /* of a worktree: contains the path of the Git directory */
        pins_add(pins, path, MOUNT_READ, MOUNT_WRITE);
    } else if (S_ISDIR(status.st_mode)) {
        pins_add(pins, path, MOUNT_WRITE, MOUNT_WRITE);
        pin_git_parts(pins, path);
    }
}

/* ---- Private paths --------------------------------------------------------------------------- */

static bool is_inside(const char *path, const char *root)
{
    return strcmp(path, root) != 0 && sandbox_path_below(path, root);
}

/* Holds the folders between the root and the path, excluding both. */
static void pin_between(struct bl_sandbox_pins *pins, const char *root, const char *path)
{
    for (size_t end = strlen(root) + 1; path[end] != '\0'; end++) {
        if (path[end] != '/')
            continue;
        const char *folder = bl_arena_text(&pins->arena, (struct bl_text){path, end}).data;
        if (!pins_is_folder(folder))
            return;
        pins_add(pins, folder, MOUNT_WRITE, MOUNT_WRITE);
    }
}

/* Creates missing folders of Belay, because a command could create a configuration in them. */
static void pin_private(struct bl_sandbox_pins *pins, const char *root)
{
    const char *const *paths = sandbox_own_folders(&pins->arena);

    for (; *paths != NULL; paths++) {
        if (!is_inside(*paths, root))
            continue;
        bl_folder_make(*paths, 0700);
        pin_between(pins, root, *paths);
    }
    for (paths = bl_sandbox_secrets(&pins->arena); *paths != NULL; paths++)
        if (is_inside(*paths, root))
            pin_between(pins, root, *paths);
}

/* Outside the sandbox, Git obeys this configuration, for the user and for Belay. */
static void pin_git_configs(struct bl_sandbox_pins *pins, const char *root)
{
    const char *const *paths = sandbox_git_configs(&pins->arena);

    for (; *paths != NULL; paths++) {
        if (!is_inside(*paths, root))
            continue;
        struct bl_text parent = {*paths, (size_t)(strrchr(*paths, '/') - *paths)};
        bl_folder_make(bl_arena_text(&pins->arena, parent).data, 0700);
        pin_between(pins, root, *paths);
        pins_add(pins, *paths, MOUNT_READ, MOUNT_NULL);
    }
}

/* ---- All pins -------------------------------------------------------------------------------- */

static void pins_add_folders(struct bl_sandbox_pins *pins, const char *const *folders,
                             bool writable)
{
    for (; folders != NULL && *folders != NULL; folders++) {
        struct bl_pin *pin = &pins->folders[pins->folder_count];
        if (bl_pin_folder(&pins->arena, *folders, pin) != 0)
            continue;
        pins->folder_count++;
        if (!writable || strcmp(pin->path, "/") == 0)
            continue;
        pin_git(pins, pin->path);
        pin_private(pins, pin->path);
        pin_git_configs(pins, pin->path);
    }
}

struct bl_sandbox_pins *bl_sandbox_pins_new(const struct bl_sandbox_view *view)
{
    struct bl_sandbox_pins *pins = bl_zalloc(sizeof *pins);
    bool writable = view->sandbox == BL_SANDBOX_WORKSPACE;
    const char *const workspace[] = {view->workspace, NULL};
    size_t count = 1 + sandbox_list_count(view->folders) + sandbox_list_count(view->readable) +
                   sandbox_list_count(view->writable);

    bl_arena_init(&pins->arena);
    pins->folders = bl_arena_zalloc(&pins->arena, count * sizeof *pins->folders);
    pins->clean = bl_arena_zalloc(&pins->arena, 2 * count * sizeof *pins->clean);
    pins_add_folders(pins, workspace, writable);
    pins_add_folders(pins, view->folders, writable);
    pins_add_folders(pins, view->readable, false);
    pins_add_folders(pins, view->writable, true);
    return pins;
}

void bl_sandbox_pins_free(struct bl_sandbox_pins *pins)
{
    if (pins == NULL)
        return;
    for (size_t i = 0; i < pins->held_count; i++)
        bl_pin_done(&pins->held[i].pin);
    for (size_t i = 0; i < pins->folder_count; i++)
        bl_pin_done(&pins->folders[i]);
    for (size_t i = 0; i < pins->clean_count; i++)
        bl_pin_done(&pins->clean[i]);
    bl_arena_done(&pins->arena);
    bl_free(pins);
}

const char *bl_sandbox_pins_sweep(const struct bl_sandbox_pins *pins)
{
    const char *path = NULL;

    for (size_t i = 0; i < pins->clean_count; i++) {
        int folder = bl_pin_open(&pins->clean[i]);
        if (folder < 0)
            continue;
        if (unlinkat(folder, REDIRECTION, 0) == 0)
            path = pins->clean[i].path;
        close(folder);
    }
    return path;
}

int sandbox_replaced(const char *path, struct bl_error *error)
{
    bl_error_set(error, BL_EACCES, BL_KIND_FILESYSTEM, "enter the sandbox", path,
                 "%s was replaced by another folder", path);
    bl_error_hint(error, "restart to use the new folder");
    return BL_EACCES;
}

bool sandbox_pins_have(const struct bl_sandbox_pins *pins, const char *path)
{
    for (size_t i = 0; i < pins->folder_count; i++)
        if (strcmp(pins->folders[i].path, path) == 0)
            return bl_pin_check(&pins->folders[i]) == 0;
    return false;
}

static bool has_parent(struct bl_arena *arena, const char *path)
{
    struct bl_text parent = {path, (size_t)(strrchr(path, '/') - path)};

    return pins_is_folder(bl_arena_text(arena, parent).data);
}

/* A folder that was replaced must not be mounted: a command could have put a link there. */
int sandbox_pins_mount(const struct bl_sandbox_pins *pins, struct mounts *mounts,
                       struct bl_error *error)
{
    struct stat status;

    for (size_t i = 0; i < pins->held_count; i++) {
        const struct held *held = &pins->held[i];
        const char *path = held->pin.path;
        bool there = lstat(path, &status) == 0;
        bool replaced = there && S_ISLNK(status.st_mode);
        if (there && held->kind == MOUNT_WRITE)
            replaced = bl_pin_check(&held->pin) == -ESTALE;
        if (replaced)
            return sandbox_replaced(path, error);
        if (there)
            mounts_add(mounts, path, held->kind, false);
        else if (held->missing != MOUNT_WRITE && has_parent(mounts->arena, path))
            mounts_add(mounts, path, held->missing, false);
    }
    return 0;
}
