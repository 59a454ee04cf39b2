/* Design notes.
 *
 * Bubblewrap makes the view; death is the warden's: neither --die-with-parent nor --new-session.
 * Mounts are made in the order of the arguments, so the workspace comes last, over the private /tmp
 * that may hide it. Root keeps only the capabilities that work on files and users: with
 * CAP_SYS_ADMIN the read-only root could be mounted writable again, and with CAP_DAC_READ_SEARCH
 * any file be opened by its handle through the workspace. For other users bubblewrap keeps none. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe.h"

static const char *const base_view[] = {
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--tmpfs",
    "/tmp",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    /* It may name a folder that cannot be written, or is not there any more: /tmp is. */
    "--unsetenv",
    "TMPDIR",
    NULL,
};

static const char *const root_capabilities[] = {
    "--cap-drop", "ALL",        "--cap-add", "CAP_CHOWN",  "--cap-add", "CAP_DAC_OVERRIDE",
    "--cap-add",  "CAP_FOWNER", "--cap-add", "CAP_FSETID", "--cap-add", "CAP_KILL",
    "--cap-add",  "CAP_SETGID", "--cap-add", "CAP_SETUID", NULL,
};

/* Room for what the options below may add to the lists above. */
#define OPTIONS_MAX (BL_COUNT(base_view) + BL_COUNT(root_capabilities) + 16)

struct words {
    struct bl_arena *arena;
    const char **items;
    size_t count;
};

static void add(struct words *words, const char *word)
{
    words->items[words->count++] = bl_arena_text(words->arena, bl_text_from(word)).data;
}

static void add_all(struct words *words, const char *const *list)
{
    for (; *list != NULL; list++)
        add(words, *list);
}

static size_t count_words(const char *const *list)
{
    size_t count = 0;

    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

/* Three words bind a folder. */
static struct words words_for(struct bl_arena *arena, const struct bl_sandbox_view *view,
                              const char *const *arguments)
{
    size_t folders =
        count_words(view->folders) + count_words(view->readable) + count_words(view->writable);
    size_t room = OPTIONS_MAX + 3 * folders + count_words(arguments) + 1;

    return (struct words){.arena = arena,
                          .items = bl_arena_zalloc(arena, room * sizeof(const char *))};
}

static const char *const names[] = {
    [BL_SANDBOX_OFF] = "off",
    [BL_SANDBOX_WORKSPACE] = "workspace",
    [BL_SANDBOX_READ_ONLY] = "read-only",
};

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
    bl_error_hint(error, "it is read-only, workspace or off");
    return BL_EINVAL;
}

bool proc_bubblewrap_find(char *out, size_t out_size, struct bl_container_check *check)
{
    if (proc_program_find(getenv("PATH"), "bwrap", out, out_size))
        return true;
    *check = (struct bl_container_check){0};
    proc_check_answer(check, false, "no bwrap in PATH");
    proc_check_hint(check, "install the package bubblewrap");
    return false;
}

/* Bound read-only too, because it may lie below /tmp; the root itself is in sight. */
static void add_folder(struct words *words, bool writable, const char *folder)
{
    if (strcmp(folder, "/") == 0)
        return;
    add(words, writable ? "--bind" : "--ro-bind");
    add(words, folder);
    add(words, folder);
}

static void add_folders(struct words *words, bool writable, const char *const *folders)
{
    for (; folders != NULL && *folders != NULL; folders++)
        add_folder(words, writable, *folders);
}

/* What is only to be read comes first: it takes nothing from what may be written. */
const char *const *proc_bubblewrap_arguments(struct bl_arena *arena, const char *path,
                                             const struct bl_sandbox_view *view,
                                             const char *const *arguments)
{
    struct words words = words_for(arena, view, arguments);
    bool writable = view->sandbox == BL_SANDBOX_WORKSPACE;

    add(&words, path);
    add_all(&words, base_view);
    if (!view->network)
        add(&words, "--unshare-net");
    if (getuid() == 0)
        add_all(&words, root_capabilities);
    add_folders(&words, false, view->readable);
    add_folders(&words, writable, view->folders);
    add_folders(&words, true, view->writable);
    if (view->workspace != NULL) {
        add_folder(&words, writable, view->workspace);
        add(&words, "--chdir");
        add(&words, view->workspace);
    }
    add(&words, "--");
    add_all(&words, arguments);
    return words.items;
}

/* Its path without symbolic links, which a mount inside would follow to somewhere else. */
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
                            BL_KIND_FILESYSTEM, "enter the sandbox", folder, "the %s %s: %s", what,
                            folder, strerror(failure));
    }
    *ret_path = bl_arena_text(arena, bl_text_from(path)).data;
    free(path);
    if (sandbox != BL_SANDBOX_WORKSPACE || strcmp(*ret_path, "/") != 0)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "enter the sandbox", folder,
                 "with the root as %s, nothing would be protected", what);
    bl_error_hint(error, "choose a folder, or the sandbox read-only or off");
    return BL_EINVAL;
}

/* `optional`: those that are not there are left out. */
static int canonical_folders(struct bl_arena *arena, enum bl_sandbox sandbox, bool optional,
                             const char *const *folders, const char *const **ret_folders,
                             struct bl_error *error)
{
    size_t count = count_words(folders);
    size_t kept = 0;
    const char **result = bl_arena_zalloc(arena, (count + 1) * sizeof *result);

    for (size_t i = 0; i < count; i++) {
        int code = canonical_folder(arena, sandbox, "folder", folders[i], &result[kept],
                                    optional ? NULL : error);
        if (code == 0)
            kept++;
        else if (!optional)
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
    int code = 0;

    if (view->workspace != NULL)
        code = canonical_folder(arena, view->sandbox, "workspace", view->workspace,
                                &view->workspace, error);
    if (code == 0)
        code = canonical_folders(arena, view->sandbox, false, view->folders, &view->folders, error);
    if (code == 0)
        code = canonical_folders(arena, BL_SANDBOX_WORKSPACE, false, view->writable,
                                 &view->writable, error);
    if (code == 0)
        code = canonical_folders(arena, BL_SANDBOX_READ_ONLY, true, view->readable, &view->readable,
                                 error);
    return code;
}

static int refuse(const struct bl_container_check *check, struct bl_error *error)
{
    bl_error_set(error, BL_ENOTSUP, BL_KIND_RUNTIME, "enter the sandbox", "bwrap",
                 "the sandbox is not available: %s", check->detail);
    if (check->hint[0] != '\0')
        bl_error_hint(error, "%s", check->hint);
    return BL_ENOTSUP;
}

/* The command starts in the workspace. BL_EINVAL: there is no command, no folder of that name, or
 * the workspace is the root of all. With BL_SANDBOX_OFF the arguments are copied as they are. */
int bl_sandbox_wrap_view(struct bl_arena *arena, const struct bl_sandbox_view *view,
                         const char *const *arguments, const char *const **ret_arguments,
                         struct bl_error *error)
{
    struct bl_sandbox_view canonical = *view;
    struct bl_container_check check;

    if (arguments == NULL || arguments[0] == NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "enter the sandbox", "",
                            "there is no command");
    if (view->sandbox == BL_SANDBOX_OFF) {
        struct words words = words_for(arena, view, arguments);
        add_all(&words, arguments);
        *ret_arguments = words.items;
        return 0;
    }
    if (view->workspace == NULL && view->sandbox == BL_SANDBOX_WORKSPACE)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "enter the sandbox", "",
                            "there is no workspace");
    int code = canonical_view(arena, &canonical, error);
    if (code != 0)
        return code;
    char *path = bl_arena_alloc(arena, PATH_MAX);
    if (!proc_bubblewrap_find(path, PATH_MAX, &check))
        return refuse(&check, error);
    bl_sandbox_check(&check);
    if (!check.available)
        return refuse(&check, error);
    *ret_arguments = proc_bubblewrap_arguments(arena, path, &canonical, arguments);
    return 0;
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
