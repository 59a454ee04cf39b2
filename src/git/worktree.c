/* Worktrees of tasks.
 *
 * Design notes.
 *
 * `git worktree add` runs three more programs. A linked worktree consists of four small files,
 * described in gitrepository-layout(5). This file writes them, and one `git checkout` does the rest
 * with all of git's own checks. If the repository has an extension that needs more, git makes the
 * worktree.
 *
 * As in git, the reason of the lock is "initializing" until the worktree is complete. A worktree in
 * that state was never in use, so it may be made again from nothing. */
#include "repository.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKE          "make a worktree"
#define MOVE          "move a worktree aside"
#define REMOVE        "remove a worktree"
#define INITIALIZING  "initializing"
#define NAMES_MAX     1000
#define GUESSES_MAX   4
#define CLEAR_TRIES   20
#define CLEAR_WAIT_NS (50 * BL_NS_PER_MS)

/* ---- Finding --------------------------------------------------------------------------------- */

/* Returns the path before "/.git" in a worktree's gitdir file. */
static const char *read_place(struct bl_arena *arena, const char *folder)
{
    struct bl_text text = bl_text_trim(git_file_read(arena, git_text(arena, "%s/gitdir", folder)));
    if (!bl_text_ends_with(text, BL_TEXT("/.git")))
        return NULL;
    text.size -= strlen("/.git");
    if (text.data[0] == '/')
        return bl_arena_text(arena, text).data;
    char *real = realpath(git_text(arena, "%s/" BL_TEXT_FORMAT, folder, BL_TEXT_ARG(text)), NULL);
    const char *path = real != NULL ? bl_arena_text(arena, bl_text_from(real)).data : NULL;
    free(real);
    return path;
}

static const char *read_branch(struct bl_arena *arena, const char *folder)
{
    static const struct bl_text symbolic = BL_TEXT("ref: ");
    struct bl_text text = bl_text_trim(git_file_read(arena, git_text(arena, "%s/HEAD", folder)));
    if (!bl_text_starts_with(text, symbolic))
        return NULL;
    return git_text(arena, "%.*s", (int)(text.size - symbolic.size), text.data + symbolic.size);
}

static const char *read_note(struct bl_arena *arena, const char *folder)
{
    const char *path = git_text(arena, "%s/locked", folder);
    if (access(path, F_OK) != 0)
        return NULL;
    return git_text(arena, BL_TEXT_FORMAT, BL_TEXT_ARG(bl_text_trim(git_file_read(arena, path))));
}

void git_worktrees_list(struct git_repository *git, struct bl_arena *arena,
                        struct bl_list *ret_list)
{
    DIR *folders = opendir(git_text(arena, "%s/worktrees", git->folder));
    struct dirent *entry;
    bl_list_init(ret_list);
    while (folders != NULL && (entry = readdir(folders)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        struct git_worktree *worktree = bl_arena_zalloc(arena, sizeof *worktree);
        worktree->folder = git_text(arena, "%s/worktrees/%s", git->folder, entry->d_name);
        worktree->path = read_place(arena, worktree->folder);
        if (worktree->path == NULL)
            continue;
        worktree->branch = read_branch(arena, worktree->folder);
        worktree->note = read_note(arena, worktree->folder);
        bl_list_push_back(ret_list, &worktree->link);
    }
    if (folders != NULL)
        closedir(folders);
}

/* Returns the name of a worktree's folder, from the last two parts of its path: FEAT-TASK. */
static const char *folder_name(struct git_repository *git, struct bl_arena *arena, const char *path,
                               int number)
{
    const char *last = strrchr(path, '/'), *start = last;
    while (start > path && start[-1] != '/')
        start--;
    char *name = (char *)bl_arena_text(arena, bl_text_from(start)).data;
    for (char *at = name; *at != '\0'; at++)
        if (!((*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') ||
              (*at >= 'a' && *at <= 'z') || *at == '_' || (*at == '.' && at > name)))
            *at = '-';
    if (number == 0)
        return git_text(arena, "%s/worktrees/belay-%s", git->folder, name);
    return git_text(arena, "%s/worktrees/belay-%s-%d", git->folder, name, number);
}

/* Finds the folder of the worktree at `path`. With `beginning`, reads only folders whose names
 * begin with it, which are few. */
static const char *find_listed(struct git_repository *git, struct bl_arena *arena, const char *path,
                               const char *beginning)
{
    DIR *folders = opendir(git_text(arena, "%s/worktrees", git->folder));
    const char *found = NULL;
    struct dirent *entry;
    while (folders != NULL && found == NULL && (entry = readdir(folders)) != NULL) {
        if (entry->d_name[0] == '.' ||
            (beginning != NULL && strncmp(entry->d_name, beginning, strlen(beginning)) != 0))
            continue;
        const char *folder = git_text(arena, "%s/worktrees/%s", git->folder, entry->d_name);
        const char *place = read_place(arena, folder);
        if (place != NULL && strcmp(place, path) == 0)
            found = folder;
    }
    if (folders != NULL)
        closedir(folders);
    return found;
}

static const char *find_linked(struct git_repository *git, struct bl_arena *arena, const char *path)
{
    for (int i = 0; i < GUESSES_MAX; i++) {
        const char *folder = folder_name(git, arena, path, i);
        const char *place = read_place(arena, folder);
        if (place != NULL && strcmp(place, path) == 0)
            return folder;
    }
    return find_listed(git, arena, path, NULL);
}

/* The same for a place that may be empty: then no worktree was moved there, and one that was made
 * for it is named after it (by belay after the last two parts of the path, by git after the last).
 */
static const char *find_made(struct git_repository *git, struct bl_arena *arena, const char *path)
{
    if (access(path, F_OK) == 0)
        return find_linked(git, arena, path);
    const char *ours = strrchr(folder_name(git, arena, path, 0), '/') + 1;
    const char *found = find_listed(git, arena, path, ours);
    return found != NULL ? found : find_listed(git, arena, path, strrchr(path, '/') + 1);
}

int git_folder_find(struct git_repository *git, struct bl_arena *arena, const char *worktree,
                    const char **ret_folder)
{
    struct stat status;
    if (strcmp(worktree, git->repository) == 0) {
        *ret_folder = git->own_folder;
        return 0;
    }
    const char *folder = find_linked(git, arena, worktree);
    if (folder == NULL) {
        folder = git_text(arena, "%s/.git", worktree);
        if (lstat(folder, &status) != 0 || !S_ISDIR(status.st_mode))
            return BL_ENOENT;
    }
    *ret_folder = folder;
    return 0;
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* A worktree in the making. */
struct making {
    struct git_write write;
    struct bl_arena arena;
    struct git_repository *git;
    const char *branch; /* full ref */
    const char *path;
    const char *note;
    const char *folder; /* in the git directory */
    bool branch_there;
    char start[GIT_ID_SIZE];
    struct bl_error *error;
};

static int file_error(struct making *making, const char *path, int result)
{
    return result == 0 ? 0 : bl_git_fail(MAKE, path, -result, making->error);
}

static int worktree_put_file(struct making *making, const char *path, const char *text)
{
    return file_error(making, path, git_file_write(path, bl_text_from(text)));
}

static bool worktree_has_line(struct bl_text text, struct bl_text wanted)
{
    struct bl_text line;
    while (bl_text_split(&text, '\n', &line))
        if (bl_text_equal(bl_text_trim(line), wanted))
            return true;
    return false;
}

/* Hides worktrees and the files of runs from the user's `git status`. Plans and other files that
 * people write below .belay remain visible, so that they can be added. */
static int exclude(struct making *making)
{
    static const struct bl_text excluded[] = {BL_TEXT("/.belay/worktrees/"),
                                              BL_TEXT("/.belay/run/")};
    const char *folder = git_text(&making->arena, "%s/info", making->git->folder);
    const char *path = git_text(&making->arena, "%s/exclude", folder);
    struct bl_text text = git_file_read(&making->arena, path);
    const char *lines = text.size > 0 && text.data[text.size - 1] != '\n' ? "\n" : "";
    size_t before = strlen(lines);
    for (size_t i = 0; i < BL_COUNT(excluded); i++)
        if (!worktree_has_line(text, excluded[i]))
            lines =
                git_text(&making->arena, "%s" BL_TEXT_FORMAT "\n", lines, BL_TEXT_ARG(excluded[i]));
    if (strlen(lines) == before)
        return 0;
    int result = bl_folder_make(folder, 0777);
    if (result != 0)
        return file_error(making, folder, result);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, lines, strlen(lines)) != (ssize_t)strlen(lines))
        result = errno != 0 ? -errno : -EIO;
    if (fd >= 0)
        close(fd);
    return file_error(making, path, result);
}

static const char *short_branch(const char *branch)
{
    static const char prefix[] = "refs/heads/";
    return strncmp(branch, prefix, sizeof prefix - 1) == 0 ? branch + sizeof prefix - 1 : branch;
}

/* Removes the index and the state of a merge of the old folder, whose files are gone. Keeps its
 * log. */
static void discard_files(struct making *making)
{
    static const char *const names[] = {"index",          "index.lock",       "HEAD.lock",
                                        "ORIG_HEAD.lock", "MERGE_HEAD",       "MERGE_MSG",
                                        "MERGE_MODE",     "CHERRY_PICK_HEAD", "REVERT_HEAD",
                                        "AUTO_MERGE",     "AUTO_MERGE.lock"};
    for (size_t i = 0; i < BL_COUNT(names); i++)
        unlink(git_text(&making->arena, "%s/%s", making->folder, names[i]));
}

static int new_folder(struct making *making)
{
    int code = file_error(
        making, making->git->folder,
        bl_folder_make(git_text(&making->arena, "%s/worktrees", making->git->folder), 0777));
    for (int i = 0; code == 0 && i < NAMES_MAX; i++) {
        making->folder = folder_name(making->git, &making->arena, making->path, i);
        if (mkdir(making->folder, 0777) == 0)
            return 0;
        /* A folder that was begun and names no path yet can be used like a new one. */
        const char *note = errno == EEXIST ? read_note(&making->arena, making->folder) : NULL;
        if (note != NULL && strcmp(note, INITIALIZING) == 0 &&
            access(git_text(&making->arena, "%s/gitdir", making->folder), F_OK) != 0)
            return 0;
        if (errno != EEXIST && errno != ENOENT)
            code = bl_git_fail(MAKE, making->folder, errno, making->error);
    }
    return code != 0 ? code
                     : bl_error_set(making->error, BL_ELIMIT, BL_KIND_FEATURE, MAKE, making->path,
                                    "too many worktrees with that name");
}

/* Writes the four files of a linked worktree. The lock comes first, so that git does not prune it.
 */
static int write_files(struct making *making)
{
    struct bl_arena *arena = &making->arena;
    int code =
        worktree_put_file(making, git_text(arena, "%s/locked", making->folder), INITIALIZING);
    if (code == 0)
        discard_files(making);
    if (code == 0)
        code =
            worktree_put_file(making, git_text(arena, "%s/commondir", making->folder), "../..\n");
    if (code == 0)
        code = worktree_put_file(making, git_text(arena, "%s/HEAD", making->folder),
                                 git_text(arena, "%s\n", making->start));
    if (code == 0)
        code = worktree_put_file(making, git_text(arena, "%s/gitdir", making->folder),
                                 git_text(arena, "%s/.git\n", making->path));
    if (code == 0)
        code = file_error(making, making->path, bl_folder_make(making->path, 0777));
    if (code == 0)
        code = worktree_put_file(making, git_text(arena, "%s/.git", making->path),
                                 git_text(arena, "gitdir: %s\n", making->folder));
    return code;
}

/* True if the branch was made after the first look-up, by a git that briefly outlived its belay. */
static bool has_branch_now(struct making *making)
{
    char id[GIT_ID_SIZE];
    bool before = making->branch_there;
    if (!before)
        making->branch_there = git_ref_find(making->git, making->branch, id, NULL) == 0;
    return !before && making->branch_there;
}

static int check_out(struct making *making)
{
    struct bl_git_call call = {
        .operation = MAKE, .directory = making->path, .folder = making->folder, .writes = true};
    struct bl_git_answer answer;
    const char *name = short_branch(making->branch);
    const char *const *old = BL_GIT_ARGUMENTS("checkout", "-q", name, "--");
    const char *const *new_one =
        BL_GIT_ARGUMENTS("checkout", "-q", "--no-track", "-b", name, making->start, "--");
    struct git_locks locks;
    git_locks_of(&locks, &making->arena, making->git, making->folder, making->branch, making->path);
    int code = git_write_call(&making->write, &making->arena, &call,
                              making->branch_there ? old : new_one, &locks, &answer, making->error);
    if (code != 0 || answer.status == 0)
        return code;
    return has_branch_now(making) ? check_out(making)
                                  : bl_git_refuse(&call, &answer, making->error);
}

static int make_by_hand(struct making *making)
{
    bool fresh = making->folder == NULL;
    int code = fresh ? new_folder(making) : 0;
    if (code == 0)
        code = write_files(making);
    if (code == 0)
        code = check_out(making);
    /* A failure leaves nothing behind. After a stop, the next call starts again. */
    if (code != 0 && code != BL_ECANCELED && code != BL_ETIMEDOUT) {
        git_copy_remove(making->git, making->path);
        if (fresh && making->folder != NULL)
            git_copy_remove(making->git, making->folder);
    }
    return code;
}

static int make_by_git(struct making *making)
{
    struct bl_git_call call = {.operation = MAKE,
                               .directory = making->git->repository,
                               .folder = making->git->own_folder,
                               .writes = true};
    struct bl_git_answer answer;
    const char *name = short_branch(making->branch);
    const char *const *old = BL_GIT_ARGUMENTS("worktree", "add", "-q", making->path, name);
    const char *const *new_one = BL_GIT_ARGUMENTS("worktree", "add", "-q", "--no-track", "-b", name,
                                                  making->path, making->start);
    struct git_locks locks = {
        .own = {git_text(&making->arena, "%s/%s.lock", making->git->folder, making->branch)},
        .worktree = making->path};
    if (making->folder != NULL) /* its files are gone, but git would refuse to use the path */
        git_copy_remove(making->git, making->folder);
    int code = file_error(making, making->path, bl_folder_make(making->path, 0777));
    if (code == 0)
        code = git_write_call(&making->write, &making->arena, &call,
                              making->branch_there ? old : new_one, &locks, &answer, making->error);
    if (code == 0 && answer.status != 0)
        return has_branch_now(making) ? make_by_git(making)
                                      : bl_git_refuse(&call, &answer, making->error);
    if (code == 0)
        making->folder = find_linked(making->git, &making->arena, making->path);
    if (code == 0 && making->folder == NULL)
        code = bl_error_set(making->error, BL_ESYSTEM, BL_KIND_FEATURE, MAKE, making->path,
                            "git made the worktree, but does not list it");
    return code;
}

/* Uses an existing worktree as it is. Removes the locks that a dead git left there. */
static int worktree_take(struct making *making)
{
    struct stat status;
    struct git_locks locks;
    git_locks_of(&locks, &making->arena, making->git, making->folder, making->branch, making->path);
    const char *pointer = git_text(&making->arena, "%s/.git", making->path);
    for (int i = 0; i < CLEAR_TRIES; i++)
        if (git_locks_clear(making->git, &locks) || bl_sleep(CLEAR_WAIT_NS) != 0)
            break;
    if (lstat(pointer, &status) == 0)
        return 0;
    return worktree_put_file(making, pointer,
                             git_text(&making->arena, "gitdir: %s\n", making->folder));
}

/* Uses an existing worktree, completes one that was begun, or makes a new one. In the queue. */
static int make_worktree(struct making *making)
{
    struct stat status;
    making->folder = find_made(making->git, &making->arena, making->path);
    const char *note = making->folder != NULL ? read_note(&making->arena, making->folder) : NULL;
    if (note != NULL && strcmp(note, INITIALIZING) == 0)
        git_copy_remove(making->git, making->path);
    bool there = lstat(making->path, &status) == 0;
    if (there && making->folder == NULL && rmdir(making->path) != 0) {
        bl_error_set(making->error, BL_EEXIST, BL_KIND_FEATURE, MAKE, making->path,
                     "the path of the worktree is occupied by other files");
        bl_error_hint(making->error, "inspect them and move them away, or run with --fresh");
        return BL_EEXIST;
    }
    int code = exclude(making);
    if (code != 0)
        return code;
    bool taken = there && making->folder != NULL;
    if (taken)
        code = worktree_take(making);
    else
        code = making->git->plain_worktrees ? make_by_hand(making) : make_by_git(making);
    if (code == 0)
        code = worktree_put_file(making, git_text(&making->arena, "%s/locked", making->folder),
                                 making->note);
    if (code == 0)
        git_sight_begin(making->git, making->path, making->folder, taken ? NULL : making->start,
                        making->branch);
    return code;
}

int git_worktree_make(struct git_repository *git, const char *branch, const char *path,
                      const char *base, const char *note, struct bl_error *error)
{
    struct making making = {
        .git = git, .branch = branch, .path = path, .note = note, .error = error};
    int code = git_ref_find(git, branch, making.start, error);
    making.branch_there = code == 0;
    if (code == BL_ENOENT)
        code = git_id_take(git, bl_text_from(base), making.start)
                   ? 0
                   : git_commit_find(git, base, making.start, error);
    if (code == 0)
        code = git_write_begin(&making.write, git, MAKE, error);
    if (code == 0) {
        code = make_worktree(&making);
        git_write_end(&making.write);
    }
    bl_arena_done(&making.arena);
    return code;
}

/* ---- Moving, removing ------------------------------------------------------------------------ */

/* Detaches a worktree, which frees its branch for another one. Keeps its files, index and merge. */
static int detach(struct git_write *write, struct bl_arena *arena, const char *folder,
                  struct bl_error *error)
{
    struct git_repository *git = write->git;
    struct bl_git_call call = {
        .operation = MOVE, .directory = git->repository, .folder = folder, .writes = true};
    struct bl_git_answer answer;
    char id[GIT_ID_SIZE];
    const char *branch = read_branch(arena, folder);
    int code = branch != NULL ? git_ref_find(git, branch, id, error) : BL_ENOENT;
    if (code == BL_ENOENT)
        return 0;
    struct git_locks locks = {.own = {git_text(arena, "%s/HEAD.lock", folder)}};
    if (code == 0)
        code = git_write_call(
            write, arena, &call,
            BL_GIT_ARGUMENTS("update-ref", "--no-deref", "-m", "belay: moved aside", "HEAD", id),
            &locks, &answer, error);
    if (code == 0 && answer.status != 0)
        code = bl_git_refuse(&call, &answer, error);
    return code;
}

static int rename_folder(const char *path, const char *new_path, struct bl_error *error)
{
    int result = bl_folder_make_above(new_path, 0777);
    if (result != 0)
        return bl_git_fail(MOVE, new_path, -result, error);
    if (renameat2(AT_FDCWD, path, AT_FDCWD, new_path, RENAME_NOREPLACE) != 0)
        return bl_git_fail(MOVE, path, errno, error);
    return 0;
}

/* Renames the folder last: while it is in its old place, another call completes the move; once it
 * is not, the move is complete. */
static int move_worktree(struct git_write *write, struct bl_arena *arena, const char *path,
                         const char *new_path, struct bl_error *error)
{
    struct git_repository *git = write->git;
    const char *folder = find_linked(git, arena, path);
    if (folder == NULL)
        folder = find_linked(git, arena, new_path);
    if (folder == NULL)
        return bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, MOVE, path,
                            "not a worktree of this repository");
    bool there = access(path, F_OK) == 0;
    if (there && access(new_path, F_OK) == 0)
        return bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, MOVE, new_path, "already exists");
    int code = detach(write, arena, folder, error);
    if (code != 0)
        return code;
    int result = git_file_write(git_text(arena, "%s/gitdir", folder),
                                bl_text_from(git_text(arena, "%s/.git\n", new_path)));
    if (result != 0)
        return bl_git_fail(MOVE, folder, -result, error);
    return there ? rename_folder(path, new_path, error) : 0;
}

int git_worktree_move(struct git_repository *git, const char *path, const char *new_path,
                      struct bl_error *error)
{
    struct git_write write;
    struct bl_arena arena = {0};
    int code = git_write_begin(&write, git, MOVE, error);
    if (code == 0) {
        code = move_worktree(&write, &arena, path, new_path, error);
        git_write_end(&write);
    }
    bl_arena_done(&arena);
    return code;
}

static int remove_by_git(struct git_write *write, struct bl_arena *arena, const char *path,
                         struct bl_error *error)
{
    struct bl_git_call call = {.operation = REMOVE,
                               .directory = write->git->repository,
                               .folder = write->git->own_folder,
                               .writes = true};
    struct bl_git_answer answer;
    int code = git_write_call(write, arena, &call, BL_GIT_ARGUMENTS("worktree", "remove", path),
                              NULL, &answer, error);
    if (code == 0 && answer.status != 0)
        code = bl_git_refuse(&call, &answer, error);
    return code;
}

static int remove_worktree(struct git_write *write, struct bl_arena *arena, const char *path,
                           struct bl_error *error)
{
    const char *folder = find_linked(write->git, arena, path);
    if (folder == NULL)
        return access(path, F_OK) != 0
                   ? 0
                   : bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, REMOVE, path,
                                  "not a worktree of this "
                                  "repository");
    const char *lock = git_text(arena, "%s/locked", folder);
    const char *note = read_note(arena, folder);
    if (note != NULL && unlink(lock) != 0 && errno != ENOENT)
        return bl_git_fail(REMOVE, lock, errno, error);
    int code = remove_by_git(write, arena, path, error);
    if (code != 0 && note != NULL && access(folder, F_OK) == 0)
        git_file_write(lock, bl_text_from(note));
    /* Removes the folder of the feature and the folder of all features if they are empty. */
    char *parent = (char *)bl_arena_text(arena, bl_text_from(path)).data;
    for (int i = 0; code == 0 && i < 2 && strstr(parent, "/.belay/worktrees/") != NULL; i++) {
        *strrchr(parent, '/') = '\0';
        if (rmdir(parent) != 0)
            break;
    }
    return code;
}

int git_worktree_remove(struct git_repository *git, const char *path, struct bl_error *error)
{
    struct git_write write;
    struct bl_arena arena = {0};
    int code = git_write_begin(&write, git, REMOVE, error);
    if (code == 0) {
        code = remove_worktree(&write, &arena, path, error);
        git_write_end(&write);
    }
    bl_arena_done(&arena);
    return code;
}
