/* The queue of git programs that write.
 *
 * Design notes.
 *
 * A turn in the queue is a lock within the process and flock on `belay.lock` between processes. A
 * program without input has that file as its standard input, and so holds the lock too: the kernel
 * does not grant the lock again while a process of the program lives, even if its belay is dead.
 * lock.c defines the contents of the file. */
#include "repository.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRY_NS     (2 * BL_NS_PER_MS)
#define LOCK_TRY_NS_MAX (50 * BL_NS_PER_MS)
/* Without a stop, a write has no real limit: ten years. */
#define WRITE_NS_MAX (10ull * 365 * 86400 * BL_NS_PER_S)
/* An offset at which a program that reads its standard input finds the end of the file. */
#define LOCK_OFFSET ((off_t)1 << 40)

/* ---- The queue ------------------------------------------------------------------------------- */

static int open_lock(struct git_repository *git, struct bl_error *error)
{
    struct stat status;
    if (git->lock >= 0 && fstat(git->lock, &status) == 0 && status.st_nlink > 0)
        return 0;
    if (git->lock >= 0)
        close(git->lock);
    struct bl_arena arena = {0};
    const char *path = git_text(&arena, "%s/belay.lock", git->folder);
    git->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (git->lock >= 0)
        lseek(git->lock, LOCK_OFFSET, SEEK_SET);
    int code = git->lock >= 0 ? 0 : bl_git_fail("write to the repository", path, errno, error);
    bl_arena_done(&arena);
    return code;
}

/* Reads the pid of the writer. */
static struct bl_text read_lock(struct git_repository *git, char *out, size_t size)
{
    ssize_t count = pread(git->lock, out, size - 1, 0);
    out[count > 0 ? count : 0] = '\0';
    return bl_text_from(out);
}

static int take_lock(struct git_repository *git, const char *operation, struct bl_error *error)
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
            continue; /* the file was deleted before the lock was taken */
        }
        if (errno != EWOULDBLOCK && errno != EINTR)
            return bl_git_fail(operation, git->folder, errno, error);
        if (bl_now_ns() >= end_ns) {
            struct bl_text pid = read_lock(git, owner, sizeof owner);
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

/* Limits the time of the write after a stop. Runs on the loop's stack. */
static void stop_came(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct git_write *write = BL_CONTAINER(hook, struct git_write, hook);
    (void)scope;
    bl_scope_set_deadline(&write->shield,
                          bl_clock_now_ns(bl_loop_clock(write->loop)) + GIT_SHIELD_NS);
}

int git_write_begin(struct git_write *write, struct git_repository *git, const char *operation,
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
    git_mark_begin(git);
    return 0;
}

void git_write_end(struct git_write *write)
{
    struct git_repository *git = write->git;
    bl_stop_hook_remove(&write->hook);
    bl_shield_end(&write->shield);
    /* Also if the file was removed; the next writer then creates it again. */
    git_mark_end(git);
    flock(git->lock, LOCK_UN);
    bl_lock_give(&git->queue);
}

void git_left_clear(struct git_repository *git)
{
    if (bl_lock_take(&git->queue) != 0)
        return;
    if (open_lock(git, NULL) == 0 && flock(git->lock, LOCK_EX | LOCK_NB) == 0) {
        git_mark_begin(git);
        git_mark_end(git);
        flock(git->lock, LOCK_UN);
    }
    bl_lock_give(&git->queue);
}

/* Pauses outside the shield: while no program runs, a stop ends the write at once. */
static int pause_outside(struct git_write *write, uint64_t pause_ns)
{
    bl_scope_enter(write->outer);
    int code = bl_sleep(pause_ns);
    bl_scope_enter(&write->shield);
    return code;
}

int git_write_call(struct git_write *write, struct bl_arena *arena, const struct bl_git_call *call,
                   const char *const *arguments, const struct git_locks *locks,
                   struct bl_git_answer *ret_answer, struct bl_error *error)
{
    uint64_t pause_ns = LOCK_TRY_NS, end_ns = bl_now_ns() + GIT_BUSY_NS;
    struct bl_git_call held = *call;
    held.lock = write->git->lock;
    for (;;) {
        if (locks != NULL)
            git_mark_program(write->git, locks);
        int code = bl_git_run(&write->git->runner, arena, &held, arguments, ret_answer, error);
        if (locks != NULL)
            git_mark_program(write->git, NULL);
        if (code == BL_ETIMEDOUT || code == BL_ECANCELED) {
            /* The shield's limit was reached; report the stop of the enclosing scope. */
            int outer = bl_scope_check(write->outer);
            return outer != 0 ? outer : code;
        }
        if (code != 0 || !bl_git_is_busy(ret_answer) || bl_now_ns() >= end_ns)
            return code;
        if (locks != NULL)
            git_locks_clear(write->git, locks);
        code = pause_outside(write, pause_ns);
        if (code != 0)
            return code;
        pause_ns = pause_ns * 2 < LOCK_TRY_NS_MAX ? pause_ns * 2 : LOCK_TRY_NS_MAX;
    }
}
