#include <belay/base.h>
#include <belay/version.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 1024

static bool runtime_is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Ignores an XDG_RUNTIME_DIR that does not exist (after su, in containers). */
int bl_runtime_folder(char *out, size_t out_size, struct bl_error *error)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int size;
    if (runtime != NULL && runtime[0] == '/' && runtime_is_folder(runtime))
        size = snprintf(out, out_size, "%s/belay", runtime);
    else
        size = snprintf(out, out_size, "/tmp/belay-%u", (unsigned)geteuid());
    if (size < 0 || (size_t)size >= out_size)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_FILESYSTEM, "find the runtime folder",
                            "XDG_RUNTIME_DIR", "the path of the folder is too long");
    return 0;
}

static int refuse_folder(int code, const char *path, const char *why, struct bl_error *error)
{
    bl_error_set(error, code, BL_KIND_FILESYSTEM, "open the runtime folder", path, "%s: %s", path,
                 why);
    bl_error_hint(error, "remove it, or set XDG_RUNTIME_DIR to another folder");
    return code;
}

/* Refuses a folder that is not private. In a folder that all users share, such as /tmp, another
 * user may have made it first. */
static int check_folder(int fd, const char *path, struct bl_error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return refuse_folder(bl_error_from_errno(errno), path, strerror(errno), error);
    if (status.st_uid != geteuid())
        return refuse_folder(BL_EACCES, path, "owned by another user", error);
    if ((status.st_mode & 077) != 0)
        return refuse_folder(BL_EACCES, path, "other users can access it (its mode must be 0700)",
                             error);
    return 0;
}

int bl_runtime_folder_open(bool create, int *ret_fd, struct bl_error *error)
{
    char path[PATH_SIZE];
    int code = bl_runtime_folder(path, sizeof path, error);
    if (code != 0)
        return code;
    if (create && mkdir(path, 0700) != 0 && errno != EEXIST)
        return refuse_folder(bl_error_from_errno(errno), path, strerror(errno), error);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return BL_ENOENT;
    if (fd < 0)
        return refuse_folder(errno == ELOOP || errno == ENOTDIR ? BL_EACCES
                                                                : bl_error_from_errno(errno),
                             path, errno == ELOOP ? "is a symbolic link" : strerror(errno), error);
    code = check_folder(fd, path, error);
    if (code != 0) {
        close(fd);
        return code;
    }
    *ret_fd = fd;
    return 0;
}

const char *bl_version(void)
{
    return BELAY_VERSION;
}
