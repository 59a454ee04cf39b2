#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* A runtime folder that is named and not there (after su, in containers) is none. */
int bl_control_folder(char *out, size_t out_size, struct bl_error *error)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int size;
    if (runtime != NULL && runtime[0] == '/' && is_folder(runtime))
        size = snprintf(out, out_size, "%s/belay", runtime);
    else
        size = snprintf(out, out_size, "/tmp/belay-%u", (unsigned)geteuid());
    if (size < 0 || (size_t)size >= out_size)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_FILESYSTEM, "find the control sockets",
                            "XDG_RUNTIME_DIR", "the name of the folder is too long");
    return 0;
}

static int refuse(int code, const char *path, const char *why, struct bl_error *error)
{
    bl_error_set(error, code, BL_KIND_FILESYSTEM, "open the folder of control sockets", path,
                 "%s: %s", path, why);
    bl_error_hint(error, "remove it, or name another folder by XDG_RUNTIME_DIR");
    return code;
}

/* In a folder of everybody's somebody else may have made it first: then nothing is said or heard
 * there. */
static int check_folder(int fd, const char *path, struct bl_error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return refuse(bl_error_from_errno(errno), path, strerror(errno), error);
    if (status.st_uid != geteuid())
        return refuse(BL_EACCES, path, "it belongs to another user", error);
    if ((status.st_mode & 077) != 0)
        return refuse(BL_EACCES, path, "others may look into it (its mode must be 0700)", error);
    return 0;
}

int serve_folder_open(bool create, int *ret_fd, struct bl_error *error)
{
    char path[1024];
    int code = bl_control_folder(path, sizeof path, error);
    if (code != 0)
        return code;
    if (create && mkdir(path, 0700) != 0 && errno != EEXIST)
        return refuse(bl_error_from_errno(errno), path, strerror(errno), error);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return BL_ENOENT;
    if (fd < 0)
        return refuse(errno == ELOOP || errno == ENOTDIR ? BL_EACCES : bl_error_from_errno(errno),
                      path, errno == ELOOP ? "it is a symbolic link" : strerror(errno), error);
    code = check_folder(fd, path, error);
    if (code != 0) {
        close(fd);
        return code;
    }
    *ret_fd = fd;
    return 0;
}

void serve_address(int folder, const char *name, struct sockaddr_un *ret_address)
{
    char path[1024];
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t most = sizeof ret_address->sun_path;
    int size = bl_control_folder(path, sizeof path, NULL) != 0
                   ? -1
                   : snprintf(ret_address->sun_path, most, "%s/%s", path, name);
    if (size < 0 || (size_t)size >= most)
        snprintf(ret_address->sun_path, most, "/proc/self/fd/%d/%s", folder, name);
}

bool serve_name_parse(const char *name, int64_t *ret_pid)
{
    size_t size = strspn(name, "0123456789");
    const char *rest = name + size;
    if (rest[0] == '-' && isdigit((unsigned char)rest[1]))
        rest += 1 + strspn(rest + 1, "0123456789");
    return strcmp(rest, ".sock") == 0 &&
           bl_text_to_int64((struct bl_text){name, size}, ret_pid) == 0;
}

void serve_name_hidden(uint64_t chance, char out[32])
{
    snprintf(out, 32, ".%016llx", (unsigned long long)chance);
}

bool serve_name_is_hidden(const char *name)
{
    return name[0] == '.' && strspn(name + 1, "0123456789abcdef") == 16 && name[17] == '\0';
}

int serve_connect(int folder, const char *name, int *ret_fd)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return bl_error_from_errno(errno);
    serve_address(folder, name, &address);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        *ret_fd = fd;
        return 0;
    }
    int code = errno == ECONNREFUSED ? BL_ENOENT : bl_error_from_errno(errno);
    close(fd);
    return code;
}
