#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setup.h"

static bool write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t count = write(fd, text.data, text.size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        text = (struct bl_text){text.data + count, text.size - (size_t)count};
    }
    return fsync(fd) == 0;
}

/* Returns the mode of the new file: that of the file it replaces, or 0600 for a secret. */
static mode_t write_mode(const char *path, bool secret)
{
    struct stat status;
    mode_t mask = umask(022);

    umask(mask);
    if (secret)
        return 0600;
    return stat(path, &status) == 0 ? status.st_mode & 0777 : 0666 & ~mask;
}

int setup_write(const char *path, struct bl_text text, bool secret, bool replace,
                struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    char *draft = (char *)(uintptr_t)bl_arena_printf(&arena, "%s.XXXXXX", path).data;

    /* If the folder cannot be created, creating the file in it fails and reports the error. */
    bl_folder_make_above(path, 0700);
    int fd = mkostemp(draft, O_CLOEXEC);
    int failed = fd < 0 ? errno : 0;
    if (failed == 0 && (fchmod(fd, write_mode(path, secret)) != 0 || !write_all(fd, text)))
        failed = errno != 0 ? errno : EIO;
    if (fd >= 0)
        close(fd);
    if (failed == 0 && (replace ? rename(draft, path) : link(draft, path)) != 0)
        failed = errno;
    if (fd >= 0 && (failed != 0 || !replace))
        unlink(draft);
    if (failed == EEXIST)
        return bl_error_set(error, BL_EEXIST, BL_KIND_FILESYSTEM, "write a file", path,
                            "'%s' already exists", path);
    if (failed != 0)
        return bl_error_set(error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "write a file",
                            path, "cannot write '%s': %s", path, strerrordesc_np(failed));
    return 0;
}

int setup_config_path(struct bl_arena *arena, const char *name, const char **ret_path,
                      struct bl_error *error)
{
    const char *folder = bl_user_folder(arena, BL_USER_CONFIG, NULL);

    if (folder == NULL) {
        bl_error_set(error, BL_ENOENT, BL_KIND_FILESYSTEM, "find the configuration", NULL,
                     "there is no folder for the configuration");
        bl_error_hint(error, "set HOME or XDG_CONFIG_HOME");
        return BL_ENOENT;
    }
    *ret_path = bl_arena_printf(arena, "%s/%s", folder, name).data;
    return 0;
}
