/* A disk that fails, for the program that it is loaded into: syncs that say EIO, writes that do,
 * syncs that hang. Off until the program arms it. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

/* What goes wrong from now on, by number of calls. */
_Atomic int faulty_syncs;        /* so many syncs fail */
_Atomic int faulty_syncs_spared; /* after so many that do not */
_Atomic int faulty_writes;       /* once a sync has failed, so many writes do */
_Atomic int faulty_hang;         /* not 0: a sync does not come back */

static _Atomic int sync_has_failed;

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
    return sync_fails() ? -1 : real(fd);
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    return sync_fails() ? -1 : real(fd);
}

static int write_fails(void)
{
    if (atomic_load(&sync_has_failed) == 0 || atomic_load(&faulty_writes) <= 0)
        return 0;
    atomic_fetch_sub(&faulty_writes, 1);
    errno = EIO;
    return 1;
}

/* Both names that a library may have been built with, whatever the headers make of them here. */
ssize_t faulty_pwrite(int fd, const void *data, size_t size, off64_t offset) __asm__("pwrite");
ssize_t faulty_pwrite64(int fd, const void *data, size_t size, off64_t offset) __asm__("pwrite64");

ssize_t faulty_pwrite(int fd, const void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    return write_fails() ? -1 : real(fd, data, size, offset);
}

ssize_t faulty_pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
    return write_fails() ? -1 : real(fd, data, size, offset);
}
