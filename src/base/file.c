#include <belay/base.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct bl_text bl_file_read(int directory, const char *path, char *out, size_t out_size)
{
    size_t size = 0;
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && size < out_size) {
        ssize_t count = read(fd, out + size, out_size - size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        size += (size_t)count;
    }
    if (fd >= 0)
        close(fd);
    return (struct bl_text){out, size};
}

#define PIECE_SIZE ((size_t)65536)

static int fail(int code, const char *why, const char **ret_why)
{
    *ret_why = why;
    return code;
}

static int load(int fd, size_t size_max, struct bl_buffer *out, const char **ret_why)
{
    struct stat status;

    if (fd < 0 || fstat(fd, &status) != 0)
        return fail(errno == ENOTDIR ? BL_ENOENT : bl_error_from_errno(errno),
                    strerrordesc_np(errno), ret_why);
    if (S_ISDIR(status.st_mode))
        return fail(BL_EINVAL, "it is a directory", ret_why);
    if (!S_ISREG(status.st_mode))
        return fail(BL_EINVAL, "it is not a regular file", ret_why);
    for (;;) {
        if (out->size > size_max || bl_buffer_reserve(out, PIECE_SIZE) != 0)
            return fail(BL_ELIMIT, "it is too large", ret_why);
        ssize_t count = read(fd, out->data + out->size, PIECE_SIZE);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail(bl_error_from_errno(errno), strerrordesc_np(errno), ret_why);
        if (count == 0)
            return 0;
        out->size += (size_t)count;
    }
}

int bl_file_load(const char *path, size_t size_max, struct bl_buffer *out, const char **ret_why)
{
    bl_buffer_init(out, size_max + 2 * PIECE_SIZE);
    /* Not to wait for the other end of a FIFO, which is refused anyway. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int code = load(fd, size_max, out, ret_why);
    if (fd >= 0)
        close(fd);
    return code;
}

size_t bl_repository_size(struct bl_arena *arena, const char *directory)
{
    size_t size = strlen(directory);

    for (size_t end = size; end > 0; end--) {
        if (end != size && directory[end] != '/')
            continue;
        struct bl_text path = bl_arena_printf(arena, "%.*s/.git", (int)end, directory);
        if (access(path.data, F_OK) == 0)
            return end;
    }
    return size;
}
