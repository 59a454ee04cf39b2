#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <belay/proc.h>

int bl_pin_folder(struct bl_arena *arena, const char *folder, struct bl_pin *ret_pin)
{
    char *path = realpath(folder, NULL);
    struct stat status;

    *ret_pin = (struct bl_pin){.path = folder, .fd = -1};
    if (path == NULL)
        return -errno;
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int code = errno;
        if (fd >= 0)
            close(fd);
        free(path);
        return -code;
    }
    *ret_pin = (struct bl_pin){
        .path = bl_arena_text(arena, bl_text_from(path)).data,
        .device = status.st_dev,
        .inode = status.st_ino,
        .fd = fd,
    };
    free(path);
    return 0;
}

void bl_pin_done(struct bl_pin *pin)
{
    if (pin->fd >= 0)
        close(pin->fd);
    pin->fd = -1;
}

/* If the system cannot refuse symbolic links on the way, device and inode numbers alone decide. */
int bl_pin_open(const struct bl_pin *pin)
{
    const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                                 .resolve = RESOLVE_NO_SYMLINKS};
    struct stat status;
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, pin->path, &how, sizeof how);

    if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN))
        fd = open(pin->path, (int)how.flags);
    if (fd < 0)
        return errno == ELOOP || errno == ENOTDIR ? -ESTALE : -errno;
    if (fstat(fd, &status) == 0 && status.st_dev == pin->device && status.st_ino == pin->inode)
        return fd;
    close(fd);
    return -ESTALE;
}

int bl_pin_check(const struct bl_pin *pin)
{
    int fd = bl_pin_open(pin);

    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}
