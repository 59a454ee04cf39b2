/* Simulates a failing disk for the program into which it is loaded: syncs and writes that fail with
 * EIO, and syncs that hang. Inactive until the program arms it. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The faults to simulate, as numbers of calls. */
_Atomic int faulty_syncs;        /* syncs that fail */
_Atomic int faulty_syncs_spared; /* syncs that succeed before that */
_Atomic int faulty_writes;       /* writes that fail after a sync has failed */
_Atomic int faulty_hang;         /* not 0: a sync does not return */

static _Atomic int sync_has_failed;

/* Pages of the log. A kernel that could not write a page forgets that it is dirty: later syncs
 * report success, and the program reads what it wrote, until a power cut. Only another write of the
 * page brings it to the disk. */
#define PAGE_SIZE 4096
#define PAGES_MAX 16384

static char unsynced[PAGES_MAX], lost[PAGES_MAX];

/* Returns whether a power cut would lose that page of the log. Not to be called during a write. */
int faulty_page_lost(int page);

int faulty_page_lost(int page)
{
    return page >= 0 && page < PAGES_MAX && lost[page];
}

static int is_log(int fd)
{
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    return size > 4 && memcmp(path + size - 4, "-wal", 4) == 0;
}

static void note_write(int fd, off64_t offset, ssize_t size)
{
    if (size <= 0 || !is_log(fd))
        return;
    for (off64_t i = offset / PAGE_SIZE; i <= (offset + size - 1) / PAGE_SIZE && i < PAGES_MAX;
         i++) {
        unsynced[i] = 1;
        lost[i] = 0;
    }
}

static void note_sync(int fd, int failed)
{
    if (!is_log(fd))
        return;
    for (int i = 0; i < PAGES_MAX; i++) {
        lost[i] = lost[i] || (failed && unsynced[i]);
        unsynced[i] = 0;
    }
}

static void note_length(int fd, off64_t size)
{
    if (!is_log(fd))
        return;
    for (off64_t i = (size + PAGE_SIZE - 1) / PAGE_SIZE; i < PAGES_MAX; i++)
        unsynced[i] = lost[i] = 0;
}

static int sync_fails(void)
{
    while (atomic_load(&faulty_hang) != 0)
        usleep(1000);
    if (atomic_load(&faulty_syncs) <= 0)
        return 0;
    if (atomic_load(&faulty_syncs_spared) > 0) {
        atomic_fetch_sub(&faulty_syncs_spared, 1);
        return 0;
    }
    atomic_fetch_sub(&faulty_syncs, 1);
    atomic_store(&sync_has_failed, 1);
    errno = EIO;
    return 1;
}

int fsync(int fd)
{
    static int (*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    int failed = sync_fails();
    note_sync(fd, failed);
    return failed ? -1 : real(fd);
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    int failed = sync_fails();
    note_sync(fd, failed);
    return failed ? -1 : real(fd);
}

static int write_fails(void)
{
    if (atomic_load(&sync_has_failed) == 0 || atomic_load(&faulty_writes) <= 0)
        return 0;
    atomic_fetch_sub(&faulty_writes, 1);
    errno = EIO;
    return 1;
}

/* Both names that a library may use, regardless of what the headers map them to here. */
ssize_t faulty_pwrite(int fd, const void *data, size_t size, off64_t offset) __asm__("pwrite");
ssize_t faulty_pwrite64(int fd, const void *data, size_t size, off64_t offset) __asm__("pwrite64");

ssize_t faulty_pwrite(int fd, const void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    ssize_t written = write_fails() ? -1 : real(fd, data, size, offset);
    note_write(fd, offset, written);
    return written;
}

ssize_t faulty_pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
    ssize_t written = write_fails() ? -1 : real(fd, data, size, offset);
    note_write(fd, offset, written);
    return written;
}

int faulty_ftruncate(int fd, off64_t size) __asm__("ftruncate");
int faulty_ftruncate64(int fd, off64_t size) __asm__("ftruncate64");

int faulty_ftruncate(int fd, off64_t size)
{
    static int (*real)(int, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "ftruncate");
    note_length(fd, size);
    return real(fd, size);
}

int faulty_ftruncate64(int fd, off64_t size)
{
    static int (*real)(int, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "ftruncate64");
    note_length(fd, size);
    return real(fd, size);
}
