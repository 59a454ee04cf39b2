/* Git lock files that a killed program has left, and the proof that no process holds them.
 *
 * Design notes.
 *
 * A git that is killed with SIGKILL leaves its lock files behind, and every other git then fails
 * because of them. Some are in places where only belay writes (in the folder of a worktree, at a
 * branch of a task); others, such as packed-refs.lock, are also used by the user's git.
 * docs/decisions/0021 has the whole argument.
 *
 * While a program that takes locks runs, belay.lock names the files that it may leave: the mark. A
 * mark that is found belongs to a belay that was killed. By then the program is dead too: it had
 * belay.lock as its standard input, so that the kernel held the lock of the queue until its last
 * process had ended. (A program that needs its standard input is found in /proc.)
 *
 * The mark consists of fields that end in NUL: first the pid of the writer, then four fields for
 * each lock: "own" or "shared"; its earliest time, in nanoseconds by the clock of the file system,
 * or 0 for the time at which the mark was written; the worktree; the path. */
#include "repository.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A younger lock file may belong to a git that has left /proc and is about to remove the file. */
#define OWN_AGE_NS ((int64_t)(200 * BL_NS_PER_MS))
/* Other programs that take git's locks (an editor's, for example) cannot be found in /proc. They
 * hold a lock for milliseconds. */
#define SHARED_AGE_NS    ((int64_t)(1000 * BL_NS_PER_MS))
#define CLEAR_TRIES      30
#define CLEAR_WAIT_NS    (50 * BL_NS_PER_MS)
#define PLACE_SIZE       4096
#define PROCESS_NAME_MAX 32
#define PROCESS_TEXT_MAX ((size_t)256 << 10)
#define MARK_SIZE_MAX    ((size_t)256 << 10)

/* ---- Possible holders ------------------------------------------------------------------------ */

static bool lock_is_inside(const char *path, const char *folder)
{
    size_t size = folder != NULL ? strlen(folder) : 0;
    return size > 0 && strncmp(path, folder, size) == 0 &&
           (path[size] == '\0' || path[size] == '/');
}

static bool lock_is_git(struct bl_text name)
{
    name = bl_text_trim(name);
    return bl_text_equal(name, BL_TEXT("git")) || bl_text_starts_with(name, BL_TEXT("git-"));
}

static bool lock_is_here(const struct git_repository *git, const char *worktree, const char *place)
{
    return lock_is_inside(place, git->repository) || lock_is_inside(place, git->folder) ||
           lock_is_inside(place, worktree);
}

/* True if a git directory that was given to a process may be this repository's. A relative path
 * counts, because its base is not known. */
static bool lock_folder_matches(const struct git_repository *git, const char *worktree,
                                const char *folder)
{
    if (folder[0] != '/')
        return true;
    char *real = realpath(folder, NULL);
    bool here = lock_is_here(git, worktree, real != NULL ? real : folder);
    free(real);
    return here;
}

/* True if a /proc file of a process (its arguments, its environment) points it to this repository.
 */
static bool lock_file_names_repository(const struct git_repository *git, const char *worktree,
                                       int processes, const char *process, const char *file,
                                       char *out)
{
    static const char *const names[] = {"GIT_DIR=", "GIT_COMMON_DIR=", "--git-dir="};
    char path[300];
    bool told = false, next = false;
    snprintf(path, sizeof path, "%s/%s", process, file);
    struct bl_text text = bl_file_read(processes, path, out, PROCESS_TEXT_MAX - 1), part;
    out[text.size] = '\0';
    while (!told && git_part_next(&text, &part)) {
        told = next && lock_folder_matches(git, worktree, part.data);
        next = bl_text_equal(part, BL_TEXT("--git-dir"));
        for (size_t i = 0; i < BL_COUNT(names); i++)
            if (bl_text_starts_with(part, bl_text_from(names[i])))
                told = told || lock_folder_matches(git, worktree, part.data + strlen(names[i]));
    }
    return told;
}

/* True if this process may be working in the repository. A process of this user counts even if its
 * files cannot be read; a process of another user cannot have made a lock file of belay. */
static bool lock_works_here(const struct git_repository *git, const char *worktree, int processes,
                            const char *process, char *out)
{
    char path[300];
    struct stat status;
    snprintf(path, sizeof path, "%s/cwd", process);
    ssize_t size = readlinkat(processes, path, out, PLACE_SIZE - 1);
    if (size < 0)
        return (errno == EACCES || errno == EPERM) &&
               fstatat(processes, process, &status, 0) == 0 && status.st_uid == geteuid();
    out[size] = '\0';
    return lock_is_here(git, worktree, out) ||
           lock_file_names_repository(git, worktree, processes, process, "environ", out) ||
           lock_file_names_repository(git, worktree, processes, process, "cmdline", out);
}

/* True if a git may be working in this repository. */
static bool lock_has_holder(const struct git_repository *git, const char *worktree)
{
    DIR *processes = opendir("/proc");
    char *out = bl_alloc(PROCESS_TEXT_MAX);
    bool lives = processes == NULL;
    struct dirent *entry;
    while (!lives && (entry = readdir(processes)) != NULL) {
        char path[300], name[PROCESS_NAME_MAX];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "%s/comm", entry->d_name);
        if (lock_is_git(bl_file_read(dirfd(processes), path, name, sizeof name)))
            lives = lock_works_here(git, worktree, dirfd(processes), entry->d_name, out);
    }
    if (processes != NULL)
        closedir(processes);
    bl_free(out);
    return lives;
}

static int64_t lock_changed_ns(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * (int64_t)BL_NS_PER_S + status->st_mtim.tv_nsec;
}

static bool lock_clear_aged(struct git_repository *git, const char *path, const char *worktree,
                            int64_t age_min_ns)
{
    struct stat before, after;
    if (lstat(path, &before) != 0)
        return true;
    int64_t age_ns = bl_clock_wall_ns(&bl_clock_system) - lock_changed_ns(&before);
    if (!S_ISREG(before.st_mode) || before.st_uid != geteuid() || age_ns < age_min_ns ||
        lock_has_holder(git, worktree))
        return false;
    if (lstat(path, &after) != 0)
        return true;
    /* The file has changed: it is the lock of a live process. */
    if (before.st_ino != after.st_ino || lock_changed_ns(&before) != lock_changed_ns(&after))
        return false;
    return unlink(path) == 0;
}

void git_locks_of(struct git_locks *ret_locks, struct bl_arena *arena, struct git_repository *git,
                  const char *folder, const char *branch, const char *worktree)
{
    static const char *const names[] = {"index", "HEAD", "ORIG_HEAD", "AUTO_MERGE"};
    *ret_locks = (struct git_locks){.worktree = worktree};
    for (size_t i = 0; i < BL_COUNT(names); i++)
        ret_locks->own[i] = git_text(arena, "%s/%s.lock", folder, names[i]);
    if (branch != NULL)
        ret_locks->own[BL_COUNT(names)] = git_text(arena, "%s/%s.lock", git->folder, branch);
}

bool git_locks_clear(struct git_repository *git, const struct git_locks *locks)
{
    bool clear = true;
    for (size_t i = 0; i < BL_COUNT(locks->own) && locks->own[i] != NULL; i++)
        clear = lock_clear_aged(git, locks->own[i], locks->worktree, OWN_AGE_NS) && clear;
    return clear;
}

/* ---- Marks ----------------------------------------------------------------------------------- */

/* A lock that a mark names. */
struct lock_entry {
    bool shared;
    int64_t since_ns;
    struct bl_text worktree, path;
};

/* A tool can write into the git directory, and so can forge a mark. Only files that git itself
 * would leave there are removed, and none behind a link. */
static bool lock_may_remove(const struct git_repository *git, struct bl_text path)
{
    struct bl_arena arena = {0};
    char *folder = (char *)bl_arena_text(&arena, path).data, *slash = strrchr(folder, '/');
    bool packed = slash != NULL && strcmp(slash, "/packed-refs.new") == 0;
    bool named = slash > folder && (packed || bl_text_ends_with(path, BL_TEXT(".lock")));
    if (named)
        *slash = '\0';
    char *real = named ? realpath(folder, NULL) : NULL, *whole = realpath(git->folder, NULL);
    bool inside = real != NULL && whole != NULL && lock_is_inside(real, whole);
    free(real);
    free(whole);
    bl_arena_done(&arena);
    return inside;
}

static bool lock_entry_next(struct bl_text *rest, struct lock_entry *ret_entry)
{
    struct bl_text kind, since;
    if (!git_part_next(rest, &kind) || !git_part_next(rest, &since) ||
        !git_part_next(rest, &ret_entry->worktree) || !git_part_next(rest, &ret_entry->path))
        return false;
    ret_entry->shared = bl_text_equal(kind, BL_TEXT("shared"));
    return bl_text_to_int64(since, &ret_entry->since_ns) == 0 && ret_entry->path.size > 0 &&
           ret_entry->path.data[0] == '/';
}

static void lock_entry_put(struct bl_buffer *out, const struct lock_entry *entry)
{
    bl_buffer_printf(out, "%s", entry->shared ? "shared" : "own");
    bl_buffer_append_byte(out, '\0');
    bl_buffer_printf(out, "%" PRId64, entry->since_ns);
    bl_buffer_append_byte(out, '\0');
    bl_buffer_append(out, entry->worktree);
    bl_buffer_append_byte(out, '\0');
    bl_buffer_append(out, entry->path);
    bl_buffer_append_byte(out, '\0');
}

static void lock_entries_put(struct bl_buffer *out, bool shared, const char *const *paths,
                             size_t count, const char *worktree)
{
    for (size_t i = 0; i < count && paths[i] != NULL; i++)
        lock_entry_put(out, &(struct lock_entry){
                                .shared = shared,
                                .worktree = bl_text_from(worktree != NULL ? worktree : ""),
                                .path = bl_text_from(paths[i]),
                            });
}

/* Removes the lock of an entry. Returns false if it cannot be removed yet. A lock that existed
 * before the program, or belongs to another user, is not belay's, and is never removed. */
static bool lock_entry_clear(struct git_repository *git, const struct lock_entry *entry)
{
    struct stat status;
    const char *worktree = entry->worktree.size > 0 ? entry->worktree.data : NULL;
    if (lstat(entry->path.data, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid() || !lock_may_remove(git, entry->path))
        return true;
    if (!entry->shared)
        return lock_clear_aged(git, entry->path.data, worktree, OWN_AGE_NS);
    return lock_changed_ns(&status) < entry->since_ns ||
           lock_clear_aged(git, entry->path.data, worktree, SHARED_AGE_NS);
}

/* Tries all entries once. The remaining ones are kept in `git->left`. */
static bool lock_entries_clear(struct git_repository *git, struct bl_text entries,
                               int64_t marked_ns)
{
    struct lock_entry entry;
    bl_buffer_clear(&git->left);
    while (lock_entry_next(&entries, &entry)) {
        if (entry.since_ns == 0)
            entry.since_ns = marked_ns;
        if (!lock_entry_clear(git, &entry))
            lock_entry_put(&git->left, &entry);
    }
    return git->left.size == 0;
}

/* Empties the mark first: if belay is killed in between, the mark names nothing, and no program
 * runs.
 *
 *  */
void git_mark_program(struct git_repository *git, const struct git_locks *locks)
{
    BL_AUTO_BUFFER(text, 2 * MARK_SIZE_MAX);
    bl_buffer_printf(&text, "%d", (int)getpid());
    bl_buffer_append_byte(&text, '\0');
    bl_buffer_append(&text, bl_buffer_text(&git->left));
    if (locks != NULL) {
        lock_entries_put(&text, false, locks->own, BL_COUNT(locks->own), locks->worktree);
        lock_entries_put(&text, true, locks->shared, BL_COUNT(locks->shared), locks->worktree);
    }
    /* The mark only helps the next belay, so a failure is ignored. */
    if (ftruncate(git->lock, 0) != 0 ||
        pwrite(git->lock, text.data, text.size, 0) != (ssize_t)text.size)
        errno = 0;
}

void git_mark_begin(struct git_repository *git)
{
    struct stat status;
    char *text = bl_alloc(MARK_SIZE_MAX);
    ssize_t size = pread(git->lock, text, MARK_SIZE_MAX - 1, 0);
    struct bl_text rest = {text, size > 0 ? (size_t)size : 0}, pid;
    text[rest.size] = '\0';
    int64_t marked_ns = fstat(git->lock, &status) == 0 ? lock_changed_ns(&status) : INT64_MAX;
    /* Does not wait again for locks that this process could not remove before. */
    int tries = git->left.size > 0 ? 1 : CLEAR_TRIES;
    git_part_next(&rest, &pid);
    while (!lock_entries_clear(git, rest, marked_ns) && --tries > 0)
        if (bl_sleep(CLEAR_WAIT_NS) != 0)
            break;
    bl_free(text);
    git_mark_program(git, NULL);
}

void git_mark_end(struct git_repository *git)
{
    if (git->left.size > 0)
        git_mark_program(git, NULL);
    else
        while (ftruncate(git->lock, 0) != 0 && errno == EINTR)
            continue;
}
