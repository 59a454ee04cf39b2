/* Design notes.
 *
 * Bubblewrap only makes the view. Ending the command is the warden's task, so neither
 * --die-with-parent nor --new-session is used. Mounts are made in the order of the arguments
 * (mounts.c). Root keeps only the capabilities for files and users: with CAP_SYS_ADMIN it could
 * remount the read-only root writable, and with CAP_DAC_READ_SEARCH it could open any file by its
 * handle through the workspace. For other users bubblewrap drops all capabilities. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/probe.h"
#include "sandbox.h"

static const char *const base_view[] = {
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    NULL,
};

/* They may name a folder that is read-only or hidden (/tmp is available instead), or a socket that
 * commands cannot reach. */
static const char *const dropped_variables[] = {
    "TMPDIR",        "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK", "SSH_AGENT_PID",   "GPG_AGENT_INFO",
    "DISPLAY",       "WAYLAND_DISPLAY",
};

static const char *const root_capabilities[] = {
    "--cap-drop", "ALL",        "--cap-add", "CAP_CHOWN",  "--cap-add", "CAP_DAC_OVERRIDE",
    "--cap-add",  "CAP_FOWNER", "--cap-add", "CAP_FSETID", "--cap-add", "CAP_KILL",
    "--cap-add",  "CAP_SETGID", "--cap-add", "CAP_SETUID", NULL,
};

/* These contain settings of the machine, which root may write without any capability; bubblewrap
 * itself protects /proc/bus, /proc/irq and /proc/sysrq-trigger. Other users cannot write them, and
 * a mount on /proc would prevent their commands from creating sandboxes inside this one. */
static const char *const kernel_settings[] = {"/proc/fs", "/proc/scsi", "/proc/sys"};

/* Room for the lists above and the options below; a mount takes three words. */
#define OPTIONS_MAX                                                                                \
    (BL_COUNT(base_view) + 2 * BL_COUNT(dropped_variables) + BL_COUNT(root_capabilities) +         \
     3 * BL_COUNT(kernel_settings) + 16)

struct words {
    struct bl_arena *arena;
    const char **items;
    size_t count;
};

static void sandbox_add(struct words *words, const char *word)
{
    words->items[words->count++] = bl_arena_text(words->arena, bl_text_from(word)).data;
}

static void add_all(struct words *words, const char *const *list)
{
    for (; *list != NULL; list++)
        sandbox_add(words, *list);
}

static void add_option(struct words *words, const char *option, const char *from, const char *to)
{
    sandbox_add(words, option);
    sandbox_add(words, from);
    if (to != NULL)
        sandbox_add(words, to);
}

size_t sandbox_list_count(const char *const *list)
{
    size_t count = 0;

    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

static struct words words_for(struct bl_arena *arena, size_t mounts, const char *const *arguments)
{
    size_t room = OPTIONS_MAX + 3 * mounts + sandbox_list_count(arguments) + 1;

    return (struct words){.arena = arena,
                          .items = bl_arena_zalloc(arena, room * sizeof(const char *))};
}

static const char *const names[] = {
    [BL_SANDBOX_OFF] = "off",
    [BL_SANDBOX_WORKSPACE] = "workspace",
    [BL_SANDBOX_READ_ONLY] = "read-only",
};
const struct bl_names bl_sandbox_names = BL_NAMES(names);

const char *bl_sandbox_name(enum bl_sandbox sandbox)
{
    return (size_t)sandbox < BL_COUNT(names) ? names[sandbox] : "unknown";
}

int bl_sandbox_parse(const char *text, enum bl_sandbox *ret_sandbox, struct bl_error *error)
{
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_sandbox = (enum bl_sandbox)i;
            return 0;
        }
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose a sandbox", text, "unknown sandbox '%s'",
                 text);
    bl_error_hint(error, "choose read-only, workspace or off");
    return BL_EINVAL;
}

bool proc_bubblewrap_find(char *out, size_t out_size, struct bl_container_check *check)
{
    if (proc_program_find(getenv("PATH"), "bwrap", out, out_size))
        return true;
    *check = (struct bl_container_check){0};
    proc_check_answer(check, false, "bwrap not found in PATH");
    proc_check_hint(check, "install bubblewrap");
    return false;
}

static void add_mount(struct words *words, const struct mount *mount)
{
    switch (mount->kind) {
    case MOUNT_WRITE: add_option(words, "--bind", mount->path, mount->path); break;
    case MOUNT_READ: add_option(words, "--ro-bind", mount->path, mount->path); break;
    case MOUNT_NULL: add_option(words, "--dev-bind", "/dev/null", mount->path); break;
    case MOUNT_EMPTY: add_option(words, "--tmpfs", mount->path, NULL); break;
    }
}

const char *const *proc_bubblewrap_arguments(struct bl_arena *arena, const char *path,
                                             const struct bl_sandbox_view *view,
                                             const struct mounts *mounts,
                                             const char *const *arguments)
{
    struct words words = words_for(arena, mounts->count, arguments);

    sandbox_add(&words, path);
    add_all(&words, base_view);
    for (size_t i = 0; i < BL_COUNT(dropped_variables); i++)
        add_option(&words, "--unsetenv", dropped_variables[i], NULL);
    if (!view->network)
        sandbox_add(&words, "--unshare-net");
    if (getuid() == 0) {
        add_all(&words, root_capabilities);
        for (size_t i = 0; i < BL_COUNT(kernel_settings); i++)
            if (access(kernel_settings[i], F_OK) == 0)
                add_option(&words, "--ro-bind", kernel_settings[i], kernel_settings[i]);
    }
    for (size_t i = 0; i < mounts->count; i++)
        add_mount(&words, &mounts->items[i]);
    if (view->workspace != NULL)
        add_option(&words, "--chdir", view->workspace, NULL);
    sandbox_add(&words, "--");
    add_all(&words, arguments);
    return words.items;
}

static void add_folders(struct mounts *mounts, bool writable, const char *const *folders)
{
    for (; folders != NULL && *folders != NULL; folders++)
        mounts_add(mounts, *folders, writable ? MOUNT_WRITE : MOUNT_READ, true);
}

int proc_bubblewrap_mounts(const struct bl_sandbox_view *view, struct mounts *mounts,
                           struct bl_error *error)
{
    bool writable = view->sandbox == BL_SANDBOX_WORKSPACE;
    const char *const workspace[] = {view->workspace, NULL};

    add_folders(mounts, writable, workspace);
    add_folders(mounts, writable, view->folders);
    add_folders(mounts, false, view->readable);
    add_folders(mounts, true, view->writable);
    struct bl_sandbox_pins *own = view->pins == NULL ? bl_sandbox_pins_new(view) : NULL;
    int code = sandbox_pins_mount(own != NULL ? own : view->pins, mounts, error);
    bl_sandbox_pins_free(own);
    /* After the pins, which may have created folders of Belay. */
    sandbox_hide(mounts, view->shown, view->network);
    mounts_settle(mounts);
    return code;
}

/* Resolves symbolic links, because a mount inside the sandbox would follow them elsewhere. */
static int canonical_folder(struct bl_arena *arena, enum bl_sandbox sandbox, const char *what,
                            const char *folder, const char **ret_path, struct bl_error *error)
{
    struct stat status;

    char *path = realpath(folder, NULL);
    int failure = path == NULL || stat(path, &status) != 0 ? errno : 0;
    if (failure == 0 && !S_ISDIR(status.st_mode))
        failure = ENOTDIR;
    if (failure != 0) {
        free(path);
        return bl_error_set(error, failure == ENOTDIR ? BL_EINVAL : bl_error_from_errno(failure),
                            BL_KIND_FILESYSTEM, "enter the sandbox", folder,
                            "cannot use the %s %s: %s", what, folder, strerror(failure));
    }
    *ret_path = bl_arena_text(arena, bl_text_from(path)).data;
    free(path);
    if (sandbox != BL_SANDBOX_WORKSPACE || strcmp(*ret_path, "/") != 0)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "enter the sandbox", folder,
                 "with / as the %s, nothing would be protected", what);
    bl_error_hint(error, "choose another folder, or the sandbox read-only or off");
    return BL_EINVAL;
}

/* How to resolve a list of folders for a view. */
struct folder_list {
    struct bl_arena *arena;
    const struct bl_sandbox_pins *pins; /* folders not pinned in it are refused; NULL: all are
                                           allowed */
    enum bl_sandbox sandbox;
    const char *what;
    bool optional; /* skip folders that do not exist */
};

static int canonical_folders(const struct folder_list *list, const char *const *folders,
                             const char *const **ret_folders, struct bl_error *error)
{
    size_t count = sandbox_list_count(folders);
    size_t kept = 0;
    const char **result = bl_arena_zalloc(list->arena, (count + 1) * sizeof *result);

    error = list->optional ? NULL : error;
    for (size_t i = 0; i < count; i++) {
        int code = canonical_folder(list->arena, list->sandbox, list->what, folders[i],
                                    &result[kept], error);
        if (code == 0 && list->pins != NULL && !sandbox_pins_have(list->pins, result[kept]))
            code = sandbox_replaced(folders[i], error);
        if (code == 0)
            kept++;
        else if (!list->optional)
            return code;
        else
            result[kept] = NULL;
    }
    *ret_folders = result;
    return 0;
}

static int canonical_view(struct bl_arena *arena, struct bl_sandbox_view *view,
                          struct bl_error *error)
{
    struct folder_list list = {
        .arena = arena, .pins = view->pins, .sandbox = view->sandbox, .what = "workspace"};
    const char *const *workspace = (const char *const[]){view->workspace, NULL};

    int code = canonical_folders(&list, workspace, &workspace, error);
    view->workspace = code == 0 ? workspace[0] : NULL;
    list.what = "folder";
    if (code == 0)
        code = canonical_folders(&list, view->folders, &view->folders, error);
    list.sandbox = BL_SANDBOX_WORKSPACE;
    if (code == 0)
        code = canonical_folders(&list, view->writable, &view->writable, error);
    list.sandbox = BL_SANDBOX_READ_ONLY;
    list.optional = true;
    if (code == 0)
        code = canonical_folders(&list, view->readable, &view->readable, error);
    return code;
}

static int sandbox_refuse(const struct bl_container_check *check, struct bl_error *error)
{
    bl_error_set(error, BL_ENOTSUP, BL_KIND_RUNTIME, "enter the sandbox", "bwrap",
                 "the sandbox is not available: %s", check->detail);
    if (check->hint[0] != '\0')
        bl_error_hint(error, "%s", check->hint);
    return BL_ENOTSUP;
}

/* The command starts in the workspace. BL_EINVAL: there is no command or no such folder, or the
 * workspace is /. With BL_SANDBOX_OFF the arguments are copied unchanged. */
int bl_sandbox_wrap_view(struct bl_arena *arena, const struct bl_sandbox_view *view,
                         const char *const *arguments, const char *const **ret_arguments,
                         struct bl_error *error)
{
    struct bl_sandbox_view canonical = *view;
    struct bl_container_check check;

    if (arguments == NULL || arguments[0] == NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "enter the sandbox", "",
                            "no command given");
    if (view->sandbox == BL_SANDBOX_OFF) {
        struct words words = words_for(arena, 0, arguments);
        add_all(&words, arguments);
        *ret_arguments = words.items;
        return 0;
    }
    if (view->workspace == NULL && view->sandbox == BL_SANDBOX_WORKSPACE)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "enter the sandbox", "",
                            "no workspace given");
    int code = canonical_view(arena, &canonical, error);
    if (code != 0)
        return code;
    char *path = bl_arena_alloc(arena, PATH_MAX);
    if (!proc_bubblewrap_find(path, PATH_MAX, &check))
        return sandbox_refuse(&check, error);
    bl_sandbox_check(&check);
    if (!check.available)
        return sandbox_refuse(&check, error);
    struct mounts mounts = {.arena = arena};
    code = proc_bubblewrap_mounts(&canonical, &mounts, error);
    if (code == 0)
        *ret_arguments = proc_bubblewrap_arguments(arena, path, &canonical, &mounts, arguments);
    return code;
}

int bl_sandbox_wrap(struct bl_arena *arena, enum bl_sandbox sandbox, const char *workspace,
                    const char *const *folders, bool network, const char *const *arguments,
                    const char *const **ret_arguments, struct bl_error *error)
{
    struct bl_sandbox_view view = {
        .sandbox = sandbox, .workspace = workspace, .folders = folders, .network = network};

    return bl_sandbox_wrap_view(arena, &view, arguments, ret_arguments, error);
}

enum bl_mechanism bl_sandbox_container(enum bl_mechanism wanted)
{
    struct bl_container_check check;

    if (wanted != BL_MECHANISM_NONE)
        return wanted;
    bl_container_check(BL_MECHANISM_PIDNS, &check);
    return check.available ? BL_MECHANISM_PIDNS : wanted;
}
