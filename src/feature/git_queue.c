/* The queue of programs of git that write.
 *
 * Design notes.
 *
 * The turn in the queue is a lock in the process and flock on `belay.lock` between processes. While
 * a turn lasts, that file says since when; a text that is found there was left by a writer that was
 * killed in the middle, and says when that was. */
#include "git_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRY_NS     (2 * BL_NS_PER_MS)
#define LOCK_TRY_NS_MAX (50 * BL_NS_PER_MS)
/* A lock file younger than that may belong to a git that is not in /proc any more, and about to
 * take it away. */
#define STALE_AGE_NS ((int64_t)(200 * BL_NS_PER_MS))
/* The clocks of files are a little coarser than ours. */
#define CLOCK_SLACK_NS ((int64_t)BL_NS_PER_S)
/* Without a stop a write takes what it takes: ten years. */
#define WRITE_NS_MAX     (10ull * 365 * 86400 * BL_NS_PER_S)
#define PLACE_SIZE       4096
#define PROCESS_NAME_MAX 32

/* ---- Locks that the dead left ---------------------------------------------------------------- */

static bool is_inside(const char *path, const char *folder)
{
    size_t size = folder != NULL ? strlen(folder) : 0;
    return size > 0 && strncmp(path, folder, size) == 0 &&
           (path[size] == '\0' || path[size] == '/');
}

static bool is_git(struct bl_text name)
{
    name = bl_text_trim(name);
    return bl_text_equal(name, BL_TEXT("git")) || bl_text_starts_with(name, BL_TEXT("git-"));
}

/* Does this process stand in the repository? Of our own kind it counts also when it does not let us
 * look; one of another user cannot have made a lock file of ours. */
static bool stands_here(const struct feature_git *git, const char *worktree, int processes,
                        const char *process, char *place)
{
    char path[300];
    struct stat status;
    snprintf(path, sizeof path, "%s/cwd", process);
    ssize_t size = readlinkat(processes, path, place, PLACE_SIZE - 1);
    if (size < 0)
        return (errno == EACCES || errno == EPERM) &&
               fstatat(processes, process, &status, 0) == 0 && status.st_uid == geteuid();
    place[size] = '\0';
    return is_inside(place, git->repository) || is_inside(place, git->folder) ||
           is_inside(place, worktree);
}

/* Is a git at work in this repository? */
static bool git_lives(const struct feature_git *git, const char *worktree)
{
    DIR *processes = opendir("/proc");
    char *place = bl_alloc(PLACE_SIZE);
    bool lives = processes == NULL;
    struct dirent *entry;
    while (!lives && (entry = readdir(processes)) != NULL) {
        char path[300], name[PROCESS_NAME_MAX];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "%s/comm", entry->d_name);
        if (is_git(bl_file_read(dirfd(processes), path, name, sizeof name)))
            lives = stands_here(git, worktree, dirfd(processes), entry->d_name, place);
    }
    if (processes != NULL)
        closedir(processes);
    bl_free(place);
    return lives;
}

static int64_t changed_wall_ns(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * (int64_t)BL_NS_PER_S + status->st_mtim.tv_nsec;
}

bool git_lock_clear(struct feature_git *git, const char *path, const char *worktree)
{
    struct stat before, after;
    if (lstat(path, &before) != 0)
        return true;
    int64_t age_ns = bl_clock_wall_ns(&bl_clock_system) - changed_wall_ns(&before);
    if (!S_ISREG(before.st_mode) || before.st_uid != geteuid() || age_ns < STALE_AGE_NS ||
        git_lives(git, worktree))
        return false;
    if (lstat(path, &after) != 0)
        return true;
    /* Another lock by now: it is somebody's who lives. */
    if (before.st_ino != after.st_ino || changed_wall_ns(&before) != changed_wall_ns(&after))
        return false;
    return unlink(path) == 0;
}

bool git_locks_clear(struct feature_git *git, const char *const *places, const char *worktree)
{
    bool clear = true;
    for (; places != NULL && *places != NULL; places++)
        clear = git_lock_clear(git, *places, worktree) && clear;
    return clear;
}

/* A writer was killed in the middle. What it may have left beside its own places is the lock of
 * packed refs, which deleting a branch needs: that goes if it was made in that writer's time. */
static void clear_after_death(struct feature_git *git, int64_t begun_wall_ns)
{
    struct stat status;
    struct bl_arena arena = {0};
    const char *path = git_text(&arena, "%s/packed-refs.lock", git->folder);
    int64_t last_ns = begun_wall_ns + (int64_t)(GIT_BUSY_NS + GIT_SHIELD_NS) + CLOCK_SLACK_NS;
    for (int tries = 0; tries < 20 && lstat(path, &status) == 0; tries++) {
        int64_t made_ns = changed_wall_ns(&status);
        if (made_ns < begun_wall_ns - CLOCK_SLACK_NS || made_ns > last_ns ||
            git_lock_clear(git, path, NULL) || bl_sleep(LOCK_TRY_NS_MAX) != 0)
            break;
    }
    bl_arena_done(&arena);
}

/* ---- The queue ------------------------------------------------------------------------------- */

static int open_lock(struct feature_git *git, struct bl_error *error)
{
    struct stat status;
    if (git->lock >= 0 && fstat(git->lock, &status) == 0 && status.st_nlink > 0)
        return 0;
    if (git->lock >= 0)
        close(git->lock);
    struct bl_arena arena = {0};
    const char *path = git_text(&arena, "%s/belay.lock", git->folder);
    git->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    int code = git->lock >= 0 ? 0 : bl_git_fail("write to the repository", path, errno, error);
    bl_arena_done(&arena);
    return code;
}

static struct bl_text read_lock(struct feature_git *git, char *out, size_t size)
{
    ssize_t count = pread(git->lock, out, size - 1, 0);
    out[count > 0 ? count : 0] = '\0';
    return bl_text_trim((struct bl_text){out, count > 0 ? (size_t)count : 0});
}

static int take_lock(struct feature_git *git, const char *operation, struct bl_error *error)
{
    char owner[64];
    uint64_t pause_ns = LOCK_TRY_NS, end_ns = bl_now_ns() + GIT_BUSY_NS;
    for (;;) {
        int code = open_lock(git, error);
        if (code != 0)
            return code;
        if (flock(git->lock, LOCK_EX | LOCK_NB) == 0) {
            struct stat status;
            if (fstat(git->lock, &status) == 0 && status.st_nlink > 0)
                return 0;
            continue; /* it was deleted before we had it */
        }
        if (errno != EWOULDBLOCK && errno != EINTR)
            return bl_git_fail(operation, git->folder, errno, error);
        if (bl_now_ns() >= end_ns) {
            struct bl_text text = read_lock(git, owner, sizeof owner);
            struct bl_text pid = {0};
            bl_text_split(&text, ' ', &pid);
            bl_error_set(error, BL_EBUSY, BL_KIND_FEATURE, operation, git->folder,
                         "another belay (pid " BL_TEXT_FORMAT
                         ") has been writing to this repository for 10 s",
                         BL_TEXT_ARG(pid));
            return BL_EBUSY;
        }
        code = bl_sleep(pause_ns);
        if (code != 0)
            return code;
        pause_ns = pause_ns * 2 < LOCK_TRY_NS_MAX ? pause_ns * 2 : LOCK_TRY_NS_MAX;
    }
}

/* On the loop's stack: from now on the write has that long. */
static void stop_came(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct git_write *write = BL_CONTAINER(hook, struct git_write, hook);
    (void)scope;
    bl_scope_set_deadline(&write->shield,
                          bl_clock_now_ns(bl_loop_clock(write->loop)) + GIT_SHIELD_NS);
}

/* Says that a write has begun, and sees to what one before it left. */
static void mark_begun(struct feature_git *git)
{
    char text[64];
    struct bl_text left = read_lock(git, text, sizeof text), part;
    int64_t begun_wall_ns;
    if (left.size > 0 && bl_text_split(&left, ' ', &part) &&
        bl_text_to_int64(left, &begun_wall_ns) == 0)
        clear_after_death(git, begun_wall_ns);
    int size = snprintf(text, sizeof text, "%d %" PRId64 "\n", (int)getpid(),
                        bl_clock_wall_ns(&bl_clock_system));
    /* It is a help for the next one: without it all goes on. */
    if (pwrite(git->lock, text, (size_t)size, 0) != size || ftruncate(git->lock, size) != 0)
        return;
}

int git_write_begin(struct git_write *write, struct feature_git *git, const char *operation,
                    struct bl_error *error)
{
    int code = bl_check();
    if (code == 0)
        code = bl_lock_take(&git->queue);
    if (code != 0)
        return code;
    code = take_lock(git, operation, error);
    if (code != 0) {
        bl_lock_give(&git->queue);
        return code;
    }
    write->git = git;
    write->loop = bl_loop_current();
    write->outer = bl_scope_current();
    bl_shield_begin(&write->shield, WRITE_NS_MAX);
    bl_stop_hook_add(&write->hook, write->outer, stop_came);
    mark_begun(git);
    return 0;
}

void git_write_end(struct git_write *write)
{
    struct feature_git *git = write->git;
    bl_stop_hook_remove(&write->hook);
    bl_shield_end(&write->shield);
    /* Emptied, also when the file is gone from its place; the next one then makes it anew. */
    while (ftruncate(git->lock, 0) != 0 && errno == EINTR)
        continue;
    flock(git->lock, LOCK_UN);
    bl_lock_give(&git->queue);
}

/* While no program runs a stop ends it at once: so the pause is outside of the shield. */
static int pause_outside(struct git_write *write, uint64_t pause_ns)
{
    bl_scope_enter(write->outer);
    int code = bl_sleep(pause_ns);
    bl_scope_enter(&write->shield);
    return code;
}

int git_write_call(struct git_write *write, struct bl_arena *arena, const struct bl_git_call *call,
                   const char *const *arguments, const char *const *places, const char *worktree,
                   struct bl_git_answer *ret_answer, struct bl_error *error)
{
    uint64_t pause_ns = LOCK_TRY_NS, end_ns = bl_now_ns() + GIT_BUSY_NS;
    for (;;) {
        int code = bl_git_run(&write->git->runner, arena, call, arguments, ret_answer, error);
        if (code == BL_ETIMEDOUT || code == BL_ECANCELED) {
            /* The shield's limit; what was asked for is the stop around it. */
            int outer = bl_scope_check(write->outer);
            return outer != 0 ? outer : code;
        }
        if (code != 0 || !bl_git_is_busy(ret_answer) || bl_now_ns() >= end_ns)
            return code;
        git_locks_clear(write->git, places, worktree);
        code = pause_outside(write, pause_ns);
        if (code != 0)
            return code;
        pause_ns = pause_ns * 2 < LOCK_TRY_NS_MAX ? pause_ns * 2 : LOCK_TRY_NS_MAX;
    }
}
