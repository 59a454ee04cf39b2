#include "place.h"

#include <fcntl.h>
#include <grp.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

size_t place_read(const char *path, char *out, size_t size)
{
    size_t total = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    /* A read returns one page at most. */
    for (ssize_t got = 1; fd >= 0 && got > 0 && total < size - 1;) {
        got = read(fd, out + total, size - 1 - total);
        total += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    out[total] = '\0';
    return total;
}

bool place_copy_setuid(const char *program, const char *path, uid_t owner)
{
    struct stat status;
    int from = open(program, O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    bool copied = from >= 0 && to >= 0 && fstat(from, &status) == 0;
    for (off_t left = copied ? status.st_size : 0; copied && left > 0;) {
        ssize_t size = sendfile(to, from, NULL, (size_t)left);
        copied = size > 0;
        left -= size;
    }
    copied = copied && fchown(to, owner, owner) == 0 && fchmod(to, 04755) == 0;
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return copied;
}

bool place_become(uid_t user)
{
    return setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 &&
           setresuid(user, user, user) == 0;
}

bool place_find_mount(const char *type, const char *option, char *out, size_t size)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    bool found = false;
    for (struct mntent *entry; mounts != NULL && !found && (entry = getmntent(mounts)) != NULL;) {
        found = strcmp(entry->mnt_type, type) == 0 &&
                (option == NULL || hasmntopt(entry, option) != NULL);
        if (found)
            snprintf(out, size, "%s", entry->mnt_dir);
    }
    if (mounts != NULL)
        endmntent(mounts);
    return found;
}
