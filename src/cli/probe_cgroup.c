#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PROC_FILE_MAX ((size_t)256 * 1024)
#define RMDIR_TRIES   100

/* What stands behind "0::" in /proc/self/cgroup. */
static bool find_own_path(struct bl_text membership, struct bl_text *ret_path)
{
    struct bl_text line;

    while (bl_text_split(&membership, '\n', &line)) {
        if (!bl_text_starts_with(line, BL_TEXT("0::/")))
            continue;
        *ret_path = (struct bl_text){line.data + 3, line.size - 3};
        return true;
    }
    return false;
}

/* A line of mountinfo: "36 35 98:0 /root /mount/point rw - cgroup2 source options". */
static bool parse_mount(struct bl_text line, struct bl_text *ret_root, struct bl_text *ret_point)
{
    struct bl_text field;
    bool after_dash = false;

    for (unsigned i = 0; bl_text_split(&line, ' ', &field); i++) {
        if (after_dash)
            return bl_text_equal(field, BL_TEXT("cgroup2"));
        if (i == 3)
            *ret_root = field;
        else if (i == 4)
            *ret_point = field;
        else if (i > 5)
            after_dash = bl_text_equal(field, BL_TEXT("-"));
    }
    return false;
}

/* Appends with mountinfo's octal escapes ("\040") undone; false when it does not fit. */
static bool append_unescaped(char *out, size_t out_size, size_t *length, struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte == '\\' && i + 3 < text.size) {
            const char *digits = text.data + i + 1;
            byte =
                (unsigned char)((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
            i += 3;
        }
        if (*length + 1 >= out_size)
            return false;
        out[(*length)++] = (char)byte;
    }
    out[*length] = '\0';
    return true;
}

/* The mount may show only a part of the hierarchy, from `root` down: what of `path` lies below it.
 */
static bool path_below(struct bl_text root, struct bl_text path, struct bl_text *ret_rest)
{
    if (bl_text_equal(root, BL_TEXT("/")))
        root.size = 0;
    if (!bl_text_starts_with(path, root))
        return false;
    struct bl_text rest = {path.data + root.size, path.size - root.size};
    if (rest.size > 0 && rest.data[0] != '/')
        return false;
    if (bl_text_equal(rest, BL_TEXT("/")))
        rest.size = 0;
    *ret_rest = rest;
    return true;
}

bool probe_cgroup_directory(struct bl_text mounts, struct bl_text membership, char *out,
                            size_t out_size)
{
    struct bl_text line, root, point, path, rest;
    bool mounted = false;

    if (!find_own_path(membership, &path)) {
        snprintf(out, out_size, "this process is in no cgroup of version 2");
        return false;
    }
    while (bl_text_split(&mounts, '\n', &line)) {
        if (!parse_mount(line, &root, &point))
            continue;
        mounted = true;
        size_t length = 0;
        if (path_below(root, path, &rest) && append_unescaped(out, out_size, &length, point) &&
            append_unescaped(out, out_size, &length, rest))
            return true;
    }
    snprintf(out, out_size, "%s",
             mounted ? "this process's cgroup lies outside of what is mounted"
                     : "no cgroup2 file system is mounted");
    return false;
}

/* Stays until it is killed; ends by itself should that fail. */
static int sleeper(void)
{
    struct timespec limit = {.tv_sec = 2 * PROBE_LIMIT_MS / 1000};

    nanosleep(&limit, NULL);
    return 0;
}

/* Writes to a control file of the cgroup. Returns 0 or the errno. */
static int write_control(const char *directory, const char *file, const char *value)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path)
        return ENAMETOOLONG;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int result = write(fd, value, strlen(value)) < 0 ? errno : 0;
    close(fd);
    return result;
}

/* Puts a child into the cgroup `directory`, made in `own`, and kills it there, as a warden would.
 */
static void try_kill(struct probe_check *check, const char *own, const char *directory)
{
    struct probe_child child;
    struct probe_end end;
    char number[16];

    int result = probe_child_start(&child, 0, sleeper);
    if (result != 0) {
        probe_answer(check, PROBE_UNTRIED, "cannot start a child: %s", strerror(-result));
        return;
    }
    snprintf(number, sizeof number, "%d", (int)child.pid);
    int moved = write_control(directory, "cgroup.procs", number);
    int killed = moved == 0 ? write_control(directory, "cgroup.kill", "1") : 0;
    if (moved != 0 || killed != 0)
        kill(child.pid, SIGKILL);
    probe_child_wait(&child, &end);

    if (moved != 0) {
        probe_answer(check, PROBE_NO, "no process can be moved into a cgroup of ours: %s",
                     strerror(moved));
        probe_hint(check, "start belay by 'systemd-run --user --scope -p Delegate=yes'");
    } else if (killed == ENOENT) {
        probe_answer(check, PROBE_NO, "the kernel has no cgroup.kill");
        probe_hint(check, "use a kernel from 5.14 on");
    } else if (killed != 0) {
        probe_answer(check, PROBE_NO, "cgroup.kill: %s", strerror(killed));
    } else if (end.timed_out || !end.by_signal || end.status != SIGKILL) {
        probe_answer(check, PROBE_NO, "cgroup.kill did not kill");
    } else {
        probe_answer(check, PROBE_OK, "cgroup.kill works below %.180s", own);
    }
}

/* The directory is busy for a moment after its last process has been reaped. */
static void remove_directory(const char *path)
{
    struct timespec pause = {.tv_nsec = 10 * (long)BL_NS_PER_MS};

    for (int i = 0; i < RMDIR_TRIES && rmdir(path) != 0 && errno == EBUSY; i++)
        nanosleep(&pause, NULL);
}

static void explain_mkdir(struct probe_check *check, const char *own, int code)
{
    if (code == EROFS) {
        probe_answer(check, PROBE_NO, "%.180s is mounted read-only", own);
        probe_hint(check, "in a container, mount the cgroup file system writable");
    } else if (code == EACCES || code == EPERM) {
        probe_answer(check, PROBE_NO, "%.180s is not delegated to this user", own);
        probe_hint(check, "start belay by 'systemd-run --user --scope -p Delegate=yes'");
    } else {
        probe_answer(check, PROBE_NO, "no cgroup can be made in %.150s: %s", own, strerror(code));
    }
}

/* Makes a cgroup below this process's own, kills a child in it, and takes it away. Signals wait
 * meanwhile, so that Ctrl-C leaves no directory behind. */
static void try_directory(struct probe_check *check, const char *own)
{
    char path[PATH_MAX];
    sigset_t all, before;

    if (snprintf(path, sizeof path, "%s/belay-doctor-%d", own, (int)getpid()) >= (int)sizeof path) {
        probe_answer(check, PROBE_UNTRIED, "the path of this process's cgroup is too long");
        return;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    if (mkdir(path, 0755) == 0) {
        try_kill(check, own, path);
        remove_directory(path);
    } else {
        explain_mkdir(check, own, errno);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void probe_cgroup2(struct probe_check *check)
{
    char own[PATH_MAX];
    char membership_data[8192];

    *check = (struct probe_check){.name = "cgroup2"};
    char *mounts_data = bl_alloc(PROC_FILE_MAX);
    struct bl_text mounts = probe_read_file("/proc/self/mountinfo", mounts_data, PROC_FILE_MAX);
    struct bl_text membership =
        probe_read_file("/proc/self/cgroup", membership_data, sizeof membership_data);
    if (probe_cgroup_directory(mounts, membership, own, sizeof own)) {
        try_directory(check, own);
    } else {
        probe_answer(check, PROBE_NO, "%.200s", own);
        probe_hint(check, "mount -t cgroup2 none /sys/fs/cgroup, or boot with "
                          "systemd.unified_cgroup_hierarchy=1");
    }
    bl_free(mounts_data);
}
