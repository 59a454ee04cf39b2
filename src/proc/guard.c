/* Records of wardens, and the guard that watches over them (warden/guard.c). They are needed when
 * this process is killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"
#include "record.h"

#define RECORDS_PREFIX "wardens-"
#define RELIC_S        (24 * 3600)
#define RELIC_SHARE    16

/* State of this process. After the start only the loop's thread uses it. */
static struct {
    int folder;
    int records; /* -1: no records are kept */
    char name[RECORDS_NAME_SIZE];
    uint8_t used[RECORDS_MAX / 8];
    struct proc_started guard; /* pid 0: not started */
} own = {.folder = -1, .records = -1};

void proc_records_name(int64_t pid, int64_t started, char out[RECORDS_NAME_SIZE])
{
    snprintf(out, RECORDS_NAME_SIZE, RECORDS_PREFIX "%lld-%lld", (long long)pid,
             (long long)started);
}

int bl_proc_protect(struct bl_error *error)
{
    pid_t pid = getpid();
    prctl(PR_SET_DUMPABLE, 0);
    if (own.records >= 0)
        return 0;
    int code = bl_runtime_folder_open(true, &own.folder, error);
    if (code != 0)
        return code;
    proc_records_name(pid, (int64_t)tree_started(proc_view(), pid), own.name);
    own.records =
        openat(own.folder, own.name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (own.records >= 0)
        return 0;
    code = bl_error_from_errno(errno);
    close(own.folder);
    return bl_error_set(error, code, BL_KIND_FILESYSTEM, "record wardens", own.name,
                        "cannot create '%s' in the runtime folder: %s", own.name, strerror(errno));
}

int proc_records_fd(void)
{
    return own.records;
}

pid_t proc_guard_pid(void)
{
    return own.guard.pid;
}

/* Kills the guard. Without wardens it has nothing to do, and it has no other way to end. */
static void guard_end(void)
{
    kill(own.guard.pid, SIGKILL);
    close(own.guard.lifeline);
    waitid(P_PIDFD, (id_t)own.guard.pidfd, &(siginfo_t){0}, WEXITED);
    close(own.guard.pidfd);
    own.guard = (struct proc_started){0};
}

/* A guard that was killed is replaced. If it cannot be started, the wardens run without it: they
 * need it only when they are attacked. */
void proc_guard_ensure(void)
{
    if (own.records < 0)
        return;
    siginfo_t info = {0};
    if (own.guard.pid != 0 &&
        waitid(P_PIDFD, (id_t)own.guard.pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0)
        guard_end();
    if (own.guard.pid == 0 && proc_start_guard(own.records, &own.guard, NULL) != 0)
        own.guard = (struct proc_started){0};
}

/* Drops the record file. A file in which a warden is missing would say that it never existed; a
 * missing file is treated as unknown. */
static void guard_drop_records(void)
{
    unlinkat(own.folder, own.name, 0);
    close(own.records);
    own.records = -1;
}

/* Writes the slot now, so that a full disk is found before the warden is started. */
int proc_record_take(void)
{
    if (own.records < 0)
        return -1;
    for (int i = 0; i < RECORDS_MAX; i++) {
        if ((own.used[i / 8] >> (i % 8) & 1) != 0)
            continue;
        if (!record_write(own.records, i, &(struct record){.magic = RECORD_MAGIC}))
            break;
        own.used[i / 8] |= (uint8_t)(1u << (i % 8));
        return i;
    }
    guard_drop_records();
    return -1;
}

void proc_record_free(int number)
{
    if (number < 0)
        return;
    record_write(own.records, number, &(struct record){.magic = RECORD_MAGIC});
    own.used[number / 8] &= (uint8_t) ~(1u << (number % 8));
}

/* Removes old record files. The file of a process that was killed is kept for a day, because each
 * of its sessions reads it when it is next opened. One process in sixteen does this. */
static void guard_remove_relics(void)
{
    if (getpid() % RELIC_SHARE != 0)
        return;
    int fd = openat(own.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        struct stat status;
        if (strncmp(entry->d_name, RECORDS_PREFIX, strlen(RECORDS_PREFIX)) == 0 &&
            fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            status.st_mtime + RELIC_S < time(NULL))
            unlinkat(fd, entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
}

void bl_proc_protect_end(void)
{
    if (own.guard.pid != 0) {
        guard_end();
        guard_remove_relics();
    }
    if (own.records < 0)
        return;
    unlinkat(own.folder, own.name, 0);
    close(own.folder);
    close(own.records);
    own.records = -1;
}
