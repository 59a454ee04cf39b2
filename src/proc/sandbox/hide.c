/* The paths that every sandbox hides. Each table is the single list of its kind; docs/agents.md
 * lists the same for users. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox.h"

/* Below the user's home folder; entries that begin with .config/ are below XDG_CONFIG_HOME if it is
 * set. */
static const char *const secrets[] = {
    /* Private keys and passwords; the first two also contain agent sockets. */
    ".ssh",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".netrc",
    /* Tokens of Git servers. */
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/glab-cli",
    /* Keys and tokens of cloud services, clusters and container registries. */
    ".aws",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".docker",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    /* Tokens of package registries. */
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    /* Passwords of databases. */
    ".pgpass",
    ".pg_service.conf",
    ".my.cnf",
    /* Sessions and passwords in browsers. */
    ".mozilla",
    ".config/chromium",
    ".config/google-chrome",
};

/* Sockets of system services and of this user's programs. The private /tmp hides those of X11,
 * ssh-agent and tmux. XDG_RUNTIME_DIR is hidden as well, wherever it is. */
static const char *const hidden_folders[] = {"/tmp", "/run", "/var/run"};

/* Needed although they are below hidden folders: system programs of NixOS and Guix. */
static const char *const kept_paths[] = {"/run/current-system", "/run/booted-system",
                                         "/run/opengl-driver", "/run/wrappers"};

/* Resolves the symbolic links of a path as far as it exists. In the arena. */
static const char *real_path(struct bl_arena *arena, const char *path)
{
    for (size_t end = strlen(path); end > 0;) {
        const char *head = bl_arena_text(arena, (struct bl_text){path, end}).data;
        char *real = realpath(head, NULL);
        if (real != NULL) {
            const char *whole = bl_arena_printf(arena, "%s%s", real, path + end).data;
            free(real);
            return whole;
        }
        while (end > 0 && path[--end] != '/')
            continue;
    }
    return path;
}

static const char *secret_path(struct bl_arena *arena, const char *home, const char *secret)
{
    static const char prefix[] = ".config/";
    const char *config = getenv("XDG_CONFIG_HOME");
    bool below_config = strncmp(secret, prefix, sizeof prefix - 1) == 0;

    if (below_config && config != NULL && config[0] == '/')
        return bl_arena_printf(arena, "%s/%s", config, secret + sizeof prefix - 1).data;
    return bl_arena_printf(arena, "%s/%s", home, secret).data;
}

/* Lists the secret paths with links unresolved. */
static size_t secrets_name(struct bl_arena *arena, const char **out)
{
    const char *home = getenv("HOME");
    size_t count = 0;

    for (size_t i = 0; home != NULL && home[0] == '/' && i < BL_COUNT(secrets); i++)
        out[count++] = secret_path(arena, home, secrets[i]);
    return count;
}

#define OWN_MAX     4u
#define PRIVATE_MAX (BL_COUNT(secrets) + OWN_MAX)

static size_t own_name(struct bl_arena *arena, const char **out)
{
    static const enum bl_user_folder kinds[] = {BL_USER_CONFIG, BL_USER_DATA, BL_USER_STATE};
    char runtime[PATH_MAX];
    size_t count = 0;

    for (size_t i = 0; i < BL_COUNT(kinds); i++) {
        const char *folder = bl_user_folder(arena, kinds[i], NULL);
        if (folder != NULL)
            out[count++] = folder;
    }
    if (bl_runtime_folder(runtime, sizeof runtime, NULL) == 0)
        out[count++] = bl_arena_text(arena, bl_text_from(runtime)).data;
    return count;
}

static const char *const *real_paths(struct bl_arena *arena, const char **list)
{
    for (size_t i = 0; list[i] != NULL; i++)
        list[i] = real_path(arena, list[i]);
    return list;
}

const char *const *bl_sandbox_secrets(struct bl_arena *arena)
{
    const char **list = bl_arena_zalloc(arena, (PRIVATE_MAX + 1) * sizeof *list);

    secrets_name(arena, list);
    return real_paths(arena, list);
}

const char *const *sandbox_own_folders(struct bl_arena *arena)
{
    const char **list = bl_arena_zalloc(arena, (PRIVATE_MAX + 1) * sizeof *list);

    own_name(arena, list);
    return real_paths(arena, list);
}

const char *const *sandbox_git_configs(struct bl_arena *arena)
{
    const char *home = getenv("HOME"), *global = getenv("GIT_CONFIG_GLOBAL");
    const char **list = bl_arena_zalloc(arena, 4 * sizeof *list);
    size_t count = 0;

    if (global != NULL && global[0] == '/')
        list[count++] = global;
    if (home != NULL && home[0] == '/') {
        list[count++] = bl_arena_printf(arena, "%s/.gitconfig", home).data;
        list[count++] = secret_path(arena, home, ".config/git/config");
    }
    return real_paths(arena, list);
}

/* True if the path is in one of the folders in the list and the root is not. */
static bool is_private(const char *const *list, const char *root, const char *path)
{
    for (; *list != NULL; list++)
        if (sandbox_path_below(path, *list) && !sandbox_path_below(root, *list))
            return true;
    return false;
}

static bool is_in_git(const char *root, const char *path)
{
    const char *name = strrchr(root, '/');
    struct bl_text rest = bl_text_from(path + strlen(root)), part;

    if (name != NULL && strcmp(name, "/.git") == 0)
        return true;
    while (bl_text_split(&rest, '/', &part))
        if (bl_text_equal(part, BL_TEXT(".git")))
            return true;
    return false;
}

static bool hide_is_listed(const char *const *list, const char *path)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, path) == 0)
            return true;
    return false;
}

const char *bl_sandbox_guarded(struct bl_arena *arena, const char *root, const char *path)
{
    if (is_in_git(root, path) || hide_is_listed(sandbox_git_configs(arena), path))
        return "Git may execute it";
    if (is_private(sandbox_own_folders(arena), root, path))
        return "it belongs to Belay";
    if (is_private(bl_sandbox_secrets(arena), root, path))
        return "it may contain secrets";
    return NULL;
}

/* Hides the target of the path, unless it does not exist or is in `shown`. */
static void hide_path(struct mounts *mounts, const char *path, const char *const *shown)
{
    struct stat status;

    if (path == NULL || path[0] != '/' || stat(path, &status) != 0)
        return;
    char *real = realpath(path, NULL);
    if (real != NULL && !hide_is_listed(shown, real))
        mounts_add(mounts, real, S_ISDIR(status.st_mode) ? MOUNT_EMPTY : MOUNT_NULL, false);
    free(real);
}

/* ---- Sockets --------------------------------------------------------------------------------- */

#define SOCKET_ACCEPTS  0x10000u
#define SOCKET_DATAGRAM 2u
#define FIELD_FLAGS     3u
#define FIELD_TYPE      4u
#define FIELD_PATH      7u

/* Parses a line of /proc/net/unix: "Num: RefCount Protocol Flags Type St Inode Path". Returns the
 * path, or NULL if the socket cannot be reached by a path. */
static const char *socket_path(const char *line)
{
    unsigned long flags = 0, type = 0;

    for (unsigned field = 0; field < FIELD_PATH; field++) {
        if (field == FIELD_FLAGS)
            flags = strtoul(line, NULL, 16);
        if (field == FIELD_TYPE)
            type = strtoul(line, NULL, 16);
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    bool reachable = (flags & SOCKET_ACCEPTS) != 0 || type == SOCKET_DATAGRAM;
    return reachable && line[0] == '/' ? line : NULL;
}

/* True if the path is hidden and no folder that the caller names makes it visible again. */
static bool is_out_of_sight(const struct mounts *mounts, const char *path)
{
    bool hidden = sandbox_path_below(path, "/dev");

    for (size_t i = 0; i < BL_COUNT(hidden_folders); i++)
        hidden = hidden || sandbox_path_below(path, hidden_folders[i]);
    for (size_t i = 0; hidden && i < mounts->count; i++)
        hidden = !mounts->items[i].named || !sandbox_path_below(path, mounts->items[i].path);
    return hidden;
}

/* Hides each socket with a mount, because a read-only mount does not prevent connecting to it. */
static void hide_sockets(struct mounts *mounts)
{
    FILE *file = fopen("/proc/net/unix", "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    struct stat status;

    while (file != NULL && (size = getline(&line, &room, file)) > 0) {
        line[size - (line[size - 1] == '\n')] = '\0';
        const char *path = socket_path(line);
        bool hidden = path == NULL || is_out_of_sight(mounts, path);
        char *real = hidden ? NULL : realpath(path, NULL);
        if (real != NULL && lstat(real, &status) == 0 && S_ISSOCK(status.st_mode))
            mounts_add(mounts, real, MOUNT_NULL, false);
        free(real);
    }
    free(line);
    if (file != NULL)
        fclose(file);
}

/* ---- All hidden paths ------------------------------------------------------------------------ */

void sandbox_hide(struct mounts *mounts, const char *const *shown, bool network)
{
    const char *names[PRIVATE_MAX];
    size_t count = secrets_name(mounts->arena, names);
    char *resolver = network ? realpath("/etc/resolv.conf", NULL) : NULL;

    count += own_name(mounts->arena, names + count);
    for (size_t i = 0; i < count; i++)
        hide_path(mounts, names[i], shown);
    for (size_t i = 0; i < BL_COUNT(hidden_folders); i++)
        hide_path(mounts, hidden_folders[i], NULL);
    hide_path(mounts, getenv("XDG_RUNTIME_DIR"), NULL);
    for (size_t i = 0; i < BL_COUNT(kept_paths); i++)
        if (access(kept_paths[i], F_OK) == 0)
            mounts_add(mounts, kept_paths[i], MOUNT_READ, true);
    /* systemd-resolved and other programs keep it in /run. */
    if (resolver != NULL)
        mounts_add(mounts, resolver, MOUNT_READ, true);
    free(resolver);
    if (!network)
        hide_sockets(mounts);
}
