#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/parts.h"

#define FOLDER "control"

static int folder_refuse(int code, const char *why, struct bl_error *error)
{
    char path[SERVE_PATH_SIZE];
    if (serve_path("", path, sizeof path) != 0)
        bl_text_into(path, sizeof path, FOLDER);
    bl_error_set(error, code, BL_KIND_FILESYSTEM, "open the runtime folder", path, "%s: %s", path,
                 why);
    bl_error_hint(error, "remove it, or set XDG_RUNTIME_DIR to another folder");
    return code;
}

/* It must be accessible to this user alone, like its parent. */
static int control_folder_check(int fd, struct bl_error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return folder_refuse(bl_error_from_errno(errno), strerror(errno), error);
    if (status.st_uid != geteuid())
        return folder_refuse(BL_EACCES, "owned by another user", error);
    if ((status.st_mode & 077) != 0)
        return folder_refuse(BL_EACCES, "other users can access it (its mode must be 0700)", error);
    return 0;
}

int serve_folder_open(bool create, int *ret_fd, struct bl_error *error)
{
    int outer;
    int code = bl_runtime_folder_open(create, &outer, error);
    if (code != 0)
        return code;
    if (create && mkdirat(outer, FOLDER, 0700) != 0 && errno != EEXIST)
        code = folder_refuse(bl_error_from_errno(errno), strerror(errno), error);
    int fd =
        code != 0 ? -1 : openat(outer, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int why = errno;
    close(outer);
    if (code != 0)
        return code;
    if (fd < 0 && why == ENOENT)
        return BL_ENOENT;
    if (fd < 0)
        return folder_refuse(why == ELOOP || why == ENOTDIR ? BL_EACCES : bl_error_from_errno(why),
                             why == ELOOP ? "is a symbolic link" : strerror(why), error);
    code = control_folder_check(fd, error);
    if (code != 0) {
        close(fd);
        return code;
    }
    *ret_fd = fd;
    return 0;
}

int serve_path(const char *name, char *out, size_t out_size)
{
    int code = bl_runtime_folder(out, out_size, NULL);
    if (code != 0)
        return code;
    size_t used = strlen(out);
    int size = snprintf(out + used, out_size - used, "/" FOLDER "/%s", name);
    return size < 0 || (size_t)size >= out_size - used ? BL_ELIMIT : 0;
}

bool serve_name_is_socket(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz234567");
    return size == 20 && strcmp(name + size, ".sock") == 0;
}

void serve_trace_name(const char *name, char out[SERVE_NAME_SIZE])
{
    const char *dot = strrchr(name, '.');
    snprintf(out, SERVE_NAME_SIZE, "%.*s.json", dot != NULL ? (int)(dot - name) : 0, name);
}
