/* Simulates a bad disk in the program that loads it. While the file named by BELAY_TEST_FULL
 * exists, no write to a store succeeds; with BELAY_TEST_BROKEN, no sync of it succeeds; with
 * BELAY_TEST_SLOW, each sync takes half a second. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOW_US 500000

/* Returns whether the file named by the variable exists and the descriptor is a store's. */
static int is_bad(const char *variable, int fd)
{
    const char *mark = getenv(variable);
    char name[64], path[4096];
    if (mark == NULL || access(mark, F_OK) != 0)
        return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    return strstr(path, "/sessions.db") != NULL;
}

static int is_full(int fd)
{
    int full = is_bad("BELAY_TEST_FULL", fd);
    if (full)
        errno = ENOSPC;
    return full;
}

static int is_broken(int fd)
{
    int broken = is_bad("BELAY_TEST_BROKEN", fd);
    if (is_bad("BELAY_TEST_SLOW", fd))
        usleep(SLOW_US);
    if (broken)
        errno = EIO;
    return broken;
}

int fsync(int fd)
{
    static int (*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    return is_broken(fd) ? -1 : real(fd);
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    return is_broken(fd) ? -1 : real(fd);
}

/* Both names that a library may use, whatever the headers define here. */
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
