#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"
#include "probe.h"

#define MOUNTS_MAX     ((size_t)256 * 1024)
#define MEMBERSHIP_MAX ((size_t)8 * 1024)
#define RMDIR_TRIES    100

/* Finds the path after "0::" in /proc/self/cgroup. A path outside the root of this cgroup namespace
 * ("/../x") cannot be reached, and returns false. */
static bool find_own_path(struct bl_text membership, struct bl_text *ret_path)
{
    struct bl_text line;

    while (bl_text_split(&membership, '\n', &line)) {
        if (!bl_text_starts_with(line, BL_TEXT("0::/")))
            continue;
        *ret_path = (struct bl_text){line.data + 3, line.size - 3};
        return !bl_text_equal(*ret_path, BL_TEXT("/..")) &&
               !bl_text_starts_with(*ret_path, BL_TEXT("/../"));
    }
    return false;
}

/* Parses a line of mountinfo: "36 35 98:0 /root /mount/point rw - cgroup2 source options". */
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

/* Takes one byte off the front of a path from mountinfo, in which the kernel escapes these four. */
static char container_cgroup_take_byte(struct bl_text *path)
{
    static const struct {
        struct bl_text text;
        char byte;
    } escapes[] = {{BL_TEXT("\\040"), ' '},
                   {BL_TEXT("\\011"), '\t'},
                   {BL_TEXT("\\012"), '\n'},
                   {BL_TEXT("\\134"), '\\'}};
    size_t used = 1;
    char byte = path->data[0];

    for (size_t i = 0; i < BL_COUNT(escapes); i++) {
        if (bl_text_starts_with(*path, escapes[i].text)) {
            byte = escapes[i].byte;
            used = escapes[i].text.size;
        }
    }
    path->data += used;
    path->size -= used;
    return byte;
}

/* Finds the part of `path` below `root`: a mount may show only the part of the hierarchy that
 * starts at `root`. */
static bool path_below(struct bl_text root, struct bl_text path, struct bl_text *ret_rest)
{
    if (bl_text_equal(root, BL_TEXT("/")))
        root.size = 0;
    while (root.size > 0) {
        if (path.size == 0 || path.data[0] != container_cgroup_take_byte(&root))
            return false;
        path.data++;
        path.size--;
    }
    if (path.size > 0 && path.data[0] != '/')
        return false;
    if (bl_text_equal(path, BL_TEXT("/")))
        path.size = 0;
    *ret_rest = path;
    return true;
}

/* Writes the mount point, unescaped, and then `rest` unchanged: names of cgroups contain their own
 * backslashes (systemd writes "-" as "\x2d"). Returns false if it does not fit. */
static bool container_cgroup_join(struct bl_text point, struct bl_text rest, char *out,
                                  size_t out_size)
{
    size_t length = 0;

    while (point.size > 0 && length < out_size)
        out[length++] = container_cgroup_take_byte(&point);
    if (length + rest.size >= out_size)
        return false;
    memcpy(out + length, rest.data, rest.size);
    out[length + rest.size] = '\0';
    return true;
}

bool proc_cgroup_locate(struct bl_text mounts, struct bl_text membership, char *out,
                        size_t out_size)
{
    struct bl_text line, root, point, path, rest;
    bool mounted = false;

    if (!find_own_path(membership, &path)) {
        snprintf(out, out_size, "this process is not in a cgroup of version 2");
        return false;
    }
    while (bl_text_split(&mounts, '\n', &line)) {
        if (!parse_mount(line, &root, &point))
            continue;
        mounted = true;
        if (path_below(root, path, &rest) && container_cgroup_join(point, rest, out, out_size))
            return true;
    }
    snprintf(out, out_size, "%s",
             mounted ? "this process's cgroup is outside the mounted hierarchy"
                     : "no cgroup2 file system is mounted");
    return false;
}

/* The last known directory of our cgroup. The list of mounts can be long and seldom changes, so it
 * is read again only if this process is in another cgroup, or if the directory is no longer a
 * cgroup. */
static struct {
    pthread_mutex_t guard;
    char membership[MEMBERSHIP_MAX];
    size_t membership_size;
    char directory[PATH_MAX]; /* empty: unknown */
} memory = {.guard = PTHREAD_MUTEX_INITIALIZER};

static bool is_remembered(struct bl_text membership)
{
    struct statfs status;

    return memory.directory[0] != '\0' &&
           bl_text_equal(membership, (struct bl_text){memory.membership, memory.membership_size}) &&
           statfs(memory.directory, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

/* Called with the guard held. */
static bool locate_again(struct bl_text membership, char *out)
{
    char *data = bl_alloc(MOUNTS_MAX);
    struct bl_text mounts = bl_file_read(AT_FDCWD, "/proc/self/mountinfo", data, MOUNTS_MAX);
    bool found = proc_cgroup_locate(mounts, membership, out, PATH_MAX);

    bl_free(data);
    memory.directory[0] = '\0';
    if (found) {
        memcpy(memory.membership, membership.data, membership.size);
        memory.membership_size = membership.size;
        memcpy(memory.directory, out, strlen(out) + 1);
    }
    return found;
}

/* Finds the current directory of our cgroup; a process may be moved. `out` has room for PATH_MAX
 * bytes. Returns false with the reason in `out`. */
static bool locate_own(char *out)
{
    char *data = bl_alloc(MEMBERSHIP_MAX);
    struct bl_text membership = bl_file_read(AT_FDCWD, "/proc/self/cgroup", data, MEMBERSHIP_MAX);
    bool found = true;

    pthread_mutex_lock(&memory.guard);
    if (is_remembered(membership))
        memcpy(out, memory.directory, strlen(memory.directory) + 1);
    else
        found = locate_again(membership, out);
    pthread_mutex_unlock(&memory.guard);
    bl_free(data);
    return found;
}

/* Linux 5.14 introduced cgroup.kill. The root of the hierarchy does not have this file. */
static bool kernel_has_kill(void)
{
    struct utsname names;
    char *end;

    if (uname(&names) != 0)
        return false;
    unsigned long major = strtoul(names.release, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return major > 5 || (major == 5 && minor >= 14);
}

/* True if processes can be put into new cgroups below this one, which requires the type "domain".
 * The root has no such file. */
static bool is_domain(int directory)
{
    char data[64];
    struct bl_text type = bl_text_trim(bl_file_read(directory, "cgroup.type", data, sizeof data));

    return type.size == 0 || bl_text_equal(type, BL_TEXT("domain"));
}

static bool container_cgroup_is_usable(int directory)
{
    return faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) == 0 &&
           faccessat(directory, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
           (faccessat(directory, "cgroup.kill", F_OK, 0) == 0 || kernel_has_kill()) &&
           is_domain(directory);
}

bool proc_cgroup_directory(char *out, size_t out_size)
{
    char *own = bl_alloc(PATH_MAX);
    bool usable = false;

    if (locate_own(own)) {
        int directory = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC);
        usable = directory >= 0 && container_cgroup_is_usable(directory);
        if (directory >= 0)
            close(directory);
    }
    if (usable && out != NULL)
        usable = (size_t)snprintf(out, out_size, "%s", own) < out_size;
    bl_free(own);
    return usable;
}

/* Sleeps until it is killed; ends by itself if that fails. */
static int sleeper(void)
{
    struct timespec limit = {.tv_sec = 2 * proc_probe_limit_ms / 1000};

    nanosleep(&limit, NULL);
    return 0;
}

/* Writes to a control file of the cgroup. Returns 0 or the errno. */
static int write_control(int directory, const char *file, const char *value)
{
    int fd = openat(directory, file, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return errno;
    int result = write(fd, value, strlen(value)) < 0 ? errno : 0;
    close(fd);
    return result;
}

/* Puts a child into the cgroup `directory`, created in `own`, and kills it there, as a warden
 * would. */
static void try_kill(struct bl_container_check *check, const char *own, int directory)
{
    struct proc_child child;
    struct proc_child_end end;
    char number[16];

    int result = proc_child_start(&child, 0, sleeper);
    if (result != 0) {
        proc_check_untried(check, "cannot start a child: %s", strerror(-result));
        return;
    }
    snprintf(number, sizeof number, "%d", (int)child.pid);
    int moved = write_control(directory, "cgroup.procs", number);
    int killed = moved == 0 ? write_control(directory, "cgroup.kill", "1") : 0;
    if (moved != 0 || killed != 0)
        kill(child.pid, SIGKILL);
    proc_child_wait(&child, &end);

    if (moved != 0) {
        proc_check_answer(check, false, "cannot move a process into a new cgroup: %s",
                          strerror(moved));
        proc_check_hint(check, "start belay with 'systemd-run --user --scope -p Delegate=yes'");
    } else if (killed == ENOENT) {
        proc_check_answer(check, false, "the kernel does not support cgroup.kill");
        proc_check_hint(check, "use Linux 5.14 or later");
    } else if (killed != 0) {
        proc_check_answer(check, false, "cgroup.kill: %s", strerror(killed));
    } else if (end.timed_out || !end.by_signal || end.status != SIGKILL) {
        proc_check_answer(check, false, "cgroup.kill did not kill a test process");
    } else {
        proc_check_answer(check, true, "cgroup.kill works below %.170s", own);
    }
}

/* The directory stays busy for a moment after its last process was reaped. */
static void remove_directory(int parent, const char *name)
{
    struct timespec pause = {.tv_nsec = 10 * (long)BL_NS_PER_MS};

    for (int i = 0; i < RMDIR_TRIES && unlinkat(parent, name, AT_REMOVEDIR) != 0; i++) {
        if (errno != EBUSY)
            return;
        nanosleep(&pause, NULL);
    }
}

static void explain_mkdir(struct bl_container_check *check, const char *own, int code)
{
    if (code == EROFS) {
        proc_check_answer(check, false, "%.160s is mounted read-only", own);
        proc_check_hint(check, "in a container, mount the cgroup file system writable");
    } else if (code == EACCES || code == EPERM) {
        proc_check_answer(check, false, "%.160s is not delegated to this user", own);
        proc_check_hint(check, "start belay with 'systemd-run --user --scope -p Delegate=yes'");
    } else if (code == EMFILE || code == ENFILE || code == ENOMEM) {
        proc_check_untried(check, "cannot create a cgroup: %s", strerror(code));
    } else {
        proc_check_answer(check, false, "cannot create a cgroup in %.120s: %s", own,
                          strerror(code));
    }
}

/* Creates a cgroup below this process's own, kills a child in it, and removes it. Signals are
 * blocked meanwhile, so that Ctrl-C leaves no directory behind. The name is random: a process in
 * another PID namespace may have the same pid. */
static void try_directory(struct bl_container_check *check, const char *own)
{
    char name[32];
    uint32_t chance;
    sigset_t all, before;

    bl_random_bytes(&chance, sizeof chance);
    snprintf(name, sizeof name, "belay-probe-%08x", (unsigned)chance);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int parent = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0 && mkdirat(parent, name, 0755) == 0) {
        int directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory >= 0) {
            try_kill(check, own, directory);
            close(directory);
        } else {
            proc_check_untried(check, "%.120s: %s", own, strerror(errno));
        }
        remove_directory(parent, name);
    } else {
        explain_mkdir(check, own, errno);
    }
    if (parent >= 0)
        close(parent);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void proc_cgroup_probe(struct bl_container_check *check)
{
    char *own = bl_alloc(PATH_MAX);

    if (locate_own(own)) {
        try_directory(check, own);
    } else {
        proc_check_answer(check, false, "%.190s", own);
        proc_check_hint(check, "run 'mount -t cgroup2 none /sys/fs/cgroup', or boot with "
                               "systemd.unified_cgroup_hierarchy=1");
    }
    bl_free(own);
}

/* ---- Cgroups of wardens ---------------------------------------------------------------------- */

#define CGROUP_PREFIX      "belay-"
#define CGROUP_RANDOM_SIZE 16u

/* Removes cgroups that stayed because Belay and a warden were killed at the same time; they are
 * empty when their processes have ended. Runs once for each process. A cgroup younger than a minute
 * may be about to be used, and one that is not empty cannot be removed. */
static void remove_relics(const char *directory)
{
    static bool looked;
    DIR *entries = looked ? NULL : opendir(directory);
    struct dirent *entry;

    looked = true;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        struct stat status;
        if (strncmp(entry->d_name, CGROUP_PREFIX, strlen(CGROUP_PREFIX)) == 0 &&
            strlen(entry->d_name) == strlen(CGROUP_PREFIX) + CGROUP_RANDOM_SIZE &&
            fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            status.st_mtime + 60 < time(NULL))
            unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
    }
    if (entries != NULL)
        closedir(entries);
}

/* The name is random: a warden in another PID namespace may have the same pid. */
void proc_cgroup_name(char *out, size_t out_size)
{
    char directory[4000];
    uint64_t chance;

    snprintf(out, out_size, "-");
    if (!proc_cgroup_directory(directory, sizeof directory))
        return;
    remove_relics(directory);
    bl_random_bytes(&chance, sizeof chance);
    snprintf(out, out_size, "%s/" CGROUP_PREFIX "%016llx", directory, (unsigned long long)chance);
}
