/* A disk that is full, for the program that it is loaded into: while the file that BELAY_TEST_FULL
 * names is there, nothing more goes into a store. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_full(int fd)
{
    const char *mark = getenv("BELAY_TEST_FULL");
    char name[64], path[4096];
    if (mark == NULL || access(mark, F_OK) != 0)
        return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    if (strstr(path, "/sessions.db") == NULL)
        return 0;
    errno = ENOSPC;
    return 1;
}

/* Both names that a library may have been built with, whatever the headers make of them here. */
ssize_t full_pwrite(int fd, const void *data, size_t size, off64_t offset) __asm__("pwrite");
ssize_t full_pwrite64(int fd, const void *data, size_t size, off64_t offset) __asm__("pwrite64");

ssize_t full_pwrite(int fd, const void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    return is_full(fd) ? -1 : real(fd, data, size, offset);
}

ssize_t full_pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
    return is_full(fd) ? -1 : real(fd, data, size, offset);
}
