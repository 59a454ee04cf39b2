#include <belay/base.h>

#include <errno.h>
#include <fcntl.h>
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
