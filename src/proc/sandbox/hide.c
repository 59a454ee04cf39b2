/* What no command in a sandbox gets to see. Each table is the one place where its kind is named;
 * docs/agents.md lists the same for users. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox.h"

/* Below the home of the user; what begins with .config/ below XDG_CONFIG_HOME where that is set. */
static const char *const secrets[] = {
    /* Private keys and passwords; the first two have sockets of agents as well. */
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
    /* Keys and tokens of cloud services, clusters and registries of images. */
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
    ".my.cnf",
    /* Sessions and passwords in browsers. */
    ".mozilla",
    ".config/chromium",
    ".config/google-chrome",
};

/* Sockets of the machine's services and of this user's programs. The private /tmp hides those of
 * X11, of ssh-agent and of tmux. XDG_RUNTIME_DIR is hidden with them, wherever it is. */
static const char *const hidden_folders[] = {"/tmp", "/run", "/var/run"};

/* Below them, and needed: on NixOS and Guix the programs of the system are here. */
static const char *const kept_paths[] = {"/run/current-system", "/run/booted-system",
                                         "/run/opengl-driver", "/run/wrappers"};

/* A path without links, as far as it exists. In the arena. */
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

/* As they are named, links and all. */
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

/* True when the path is in one of these, and the root is not. */
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
        return "Git may run what is written there";
    if (is_private(sandbox_own_folders(arena), root, path))
        return "it is one of belay's own files";
    if (is_private(bl_sandbox_secrets(arena), root, path))
        return "secrets are kept there";
    return NULL;
}

/* Where the path leads; nothing, when it leads nowhere or is one of those that are shown. */
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

/* A line of /proc/net/unix: "Num: RefCount Protocol Flags Type St Inode Path". NULL: it is not a
 * socket that a command could reach by a path. */
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

/* True when nothing that the caller names brings the path back into sight. */
static bool is_out_of_sight(const struct mounts *mounts, const char *path)
{
    bool hidden = sandbox_path_below(path, "/dev");

    for (size_t i = 0; i < BL_COUNT(hidden_folders); i++)
        hidden = hidden || sandbox_path_below(path, hidden_folders[i]);
    for (size_t i = 0; hidden && i < mounts->count; i++)
        hidden = !mounts->items[i].named || !sandbox_path_below(path, mounts->items[i].path);
    return hidden;
}

/* Read-only mounts do not keep anybody from connecting to a socket: it takes a mount on each. */
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

/* ---- All ------------------------------------------------------------------------------------- */

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
    /* systemd-resolved and others keep it in /run. */
    if (resolver != NULL)
        mounts_add(mounts, resolver, MOUNT_READ, true);
    free(resolver);
    if (!network)
        hide_sockets(mounts);
}
