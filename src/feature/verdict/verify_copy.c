/* Copies `carry` paths from a worktree into its clean copy.
 *
 * Design notes.
 *
 * The worktree belongs to the Player: any part of a path may be a link to somewhere else, and any
 * file a FIFO. So both sides are walked from a descriptor of their top folder, name by name,
 * without following links.
 *
 * A thread does the work in short slices, because there are few threads and the store needs them
 * too. So the walk keeps an explicit stack, and each step is small. A stop is noticed between
 * slices; a thread that then hangs in a system call is abandoned. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verify.h"

#define DEPTH_MAX  128u
#define SLICE_NS   (10 * BL_NS_PER_MS)
#define PIECE_SIZE ((size_t)1 << 20)
#define READ_SIZE  ((size_t)64 * 1024)
/* Time for a thread to return after a stop, before it is abandoned. */
#define STOP_NS (200 * BL_NS_PER_MS)

/* A folder on both sides. */
struct level {
    DIR *from;
    int to;
    size_t path_size; /* size of its path */
    struct stat status;
};

/* The state of a walk. On the heap; the thread touches nothing else. */
struct carry {
    struct bl_arena arena; /* owns the lists */
    const char *const *paths;
    const char *const *protect;
    int from;
    int to;
    struct bl_buffer path; /* the current path, NUL-terminated */
    struct level levels[DEPTH_MAX];
    unsigned depth;
    /* The current file; -1: none. */
    int input;
    int output;
    struct stat status;
    bool by_hand; /* the system cannot copy this file by itself */
    char *piece;
    bool done;
    int failure;      /* errno; 0: none */
    const char *what; /* the failed operation */
};

static void verify_copy_fail(struct carry *carry, const char *what, int failure)
{
    if (carry->failure != 0)
        return;
    carry->failure = failure;
    carry->what = what;
}

static void verify_copy_close_end(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void set_path(struct carry *carry, size_t size, struct bl_text name)
{
    carry->path.size = size;
    if (size > 0)
        bl_buffer_append_byte(&carry->path, '/');
    bl_buffer_append(&carry->path, name);
    bl_buffer_append_byte(&carry->path, '\0');
    carry->path.size--;
}

/* Splits off the next part of a path. Returns false at its end. */
static bool next_part(struct bl_text *rest, struct bl_text *ret_part)
{
    while (bl_text_split(rest, '/', ret_part))
        if (ret_part->size > 0 && !bl_text_equal(*ret_part, BL_TEXT(".")))
            return true;
    return false;
}

/* Normalizes a path for patterns: single slashes, none at the end. */
static void set_whole_path(struct carry *carry, const char *path)
{
    struct bl_text rest = bl_text_from(path), part;
    carry->path.size = 0;
    while (next_part(&rest, &part))
        set_path(carry, carry->path.size, part);
}

/* Returns why a path is invalid, or NULL: it must be relative, stay in the folder, and not be git's
 * own. */
static const char *path_fault(const char *path)
{
    struct bl_text rest = bl_text_from(path), part;
    size_t count = 0;
    if (path[0] == '/')
        return "it is absolute";
    for (; next_part(&rest, &part); count++) {
        if (bl_text_equal(part, BL_TEXT("..")))
            return "it leaves the folder";
        if (count == 0 && bl_text_equal(part, BL_TEXT(".git")))
            return "it belongs to git";
    }
    return count == 0 ? "it names the folder itself" : NULL;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void set_times(int descriptor, const struct stat *status)
{
    const struct timespec times[2] = {status->st_atim, status->st_mtim};
    (void)futimens(descriptor, times);
}

static void finish_file(struct carry *carry)
{
    if (fchmod(carry->output, carry->status.st_mode & 0777) != 0)
        verify_copy_fail(carry, "set the mode of", errno);
    set_times(carry->output, &carry->status);
    verify_copy_close_end(&carry->input);
    verify_copy_close_end(&carry->output);
}

static ssize_t copy_by_hand(struct carry *carry)
{
    if (carry->piece == NULL)
        carry->piece = bl_alloc(READ_SIZE);
    ssize_t size = read(carry->input, carry->piece, READ_SIZE);
    for (ssize_t written = 0; written < size;) {
        ssize_t more = write(carry->output, carry->piece + written, (size_t)(size - written));
        if (more < 0 && errno != EINTR)
            return -1;
        written += more > 0 ? more : 0;
    }
    return size;
}

/* Copies a piece of the current file. */
static void copy_piece(struct carry *carry)
{
    ssize_t size = -1;
    if (!carry->by_hand)
        size = copy_file_range(carry->input, NULL, carry->output, NULL, PIECE_SIZE, 0);
    if (!carry->by_hand && size < 0 && errno != ENOSPC && errno != EDQUOT && errno != EIO)
        carry->by_hand = true;
    if (carry->by_hand)
        size = copy_by_hand(carry);
    if (size < 0 && errno != EINTR)
        verify_copy_fail(carry, "copy", errno);
    else if (size == 0)
        finish_file(carry);
}

/* Starts a file. It may have changed its type by now: opening a FIFO must not block. */
static void begin_file(struct carry *carry, int from, int to, const char *name)
{
    carry->by_hand = false;
    carry->input = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (carry->input < 0 || fstat(carry->input, &carry->status) != 0) {
        if (errno != ENOENT && errno != ELOOP)
            verify_copy_fail(carry, "read", errno);
        verify_copy_close_end(&carry->input);
        return;
    }
    if (S_ISREG(carry->status.st_mode))
        carry->output =
            openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (S_ISREG(carry->status.st_mode) && carry->output < 0 && errno != EEXIST)
        verify_copy_fail(carry, "create", errno);
    if (carry->output < 0)
        verify_copy_close_end(&carry->input);
    else if (ioctl(carry->output, FICLONE, carry->input) == 0)
        finish_file(carry);
}

static void copy_link(struct carry *carry, int from, int to, const char *name)
{
    char target[PATH_MAX];
    ssize_t size = readlinkat(from, name, target, sizeof target - 1);
    if (size >= 0) {
        target[size] = '\0';
        if (symlinkat(target, to, name) != 0 && errno != EEXIST)
            verify_copy_fail(carry, "create the link", errno);
    } else if (errno != ENOENT && errno != EINVAL) {
        verify_copy_fail(carry, "read the link", errno);
    }
}

/* ---- Folders --------------------------------------------------------------------------------- */

static bool is_other_kind(int failure)
{
    return failure == ENOENT || failure == ENOTDIR || failure == ELOOP;
}

/* Opens the folder of that name on the other side, and creates it if missing. Returns -1 after an
 * error, or if another type of file is in its place, which stays. */
static int enter_copy(struct carry *carry, int to, const char *name)
{
    if (mkdirat(to, name, 0700) != 0 && errno != EEXIST) {
        verify_copy_fail(carry, "create", errno);
        return -1;
    }
    int folder = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && !is_other_kind(errno))
        verify_copy_fail(carry, "open the copy of", errno);
    return folder;
}

static void begin_folder(struct carry *carry, int from, int to, const char *name)
{
    struct level *level = &carry->levels[carry->depth];
    if (carry->depth == DEPTH_MAX) {
        verify_copy_fail(carry, "go deeper than 128 folders, into", ELOOP);
        return;
    }
    int folder = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        if (!is_other_kind(errno))
            verify_copy_fail(carry, "open", errno);
        return;
    }
    int copy = fstat(folder, &level->status) == 0 ? enter_copy(carry, to, name) : -1;
    level->from = copy >= 0 ? fdopendir(folder) : NULL;
    if (level->from == NULL) {
        verify_copy_close_end(&folder);
        verify_copy_close_end(&copy);
        return;
    }
    level->to = copy;
    level->path_size = carry->path.size;
    carry->depth++;
}

/* Its owner can always remove its contents. */
static void end_folder(struct carry *carry)
{
    struct level *level = &carry->levels[--carry->depth];
    if (fchmod(level->to, (level->status.st_mode & 0777) | 0700) != 0)
        verify_copy_fail(carry, "set the mode of", errno);
    set_times(level->to, &level->status);
    closedir(level->from);
    close(level->to);
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* Starts or skips the entry of that name. */
static void begin_entry(struct carry *carry, int from, int to, const char *name)
{
    struct stat status;
    if (git_path_fits(carry->protect, carry->path.data))
        return;
    if (fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            verify_copy_fail(carry, "examine", errno);
    } else if (S_ISDIR(status.st_mode)) {
        begin_folder(carry, from, to, name);
    } else if (S_ISREG(status.st_mode)) {
        begin_file(carry, from, to, name);
    } else if (S_ISLNK(status.st_mode)) {
        copy_link(carry, from, to, name);
    }
}

static void step_folder(struct carry *carry)
{
    struct level *level = &carry->levels[carry->depth - 1];
    errno = 0;
    const struct dirent *entry = readdir(level->from);
    if (entry == NULL) {
        if (errno != 0)
            verify_copy_fail(carry, "list", errno);
        end_folder(carry);
        return;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return;
    set_path(carry, level->path_size, bl_text_from(entry->d_name));
    begin_entry(carry, dirfd(level->from), level->to, entry->d_name);
}

/* Opens the folder above the last part of the path, on one side. Returns -1 if it is missing or
 * cannot be opened. `*ret_name`, in the arena, is the last part. */
static int open_parent(struct carry *carry, int top, const char *path, bool make,
                       const char **ret_name)
{
    struct bl_text rest = bl_text_from(path), part, next;
    int folder = fcntl(top, F_DUPFD_CLOEXEC, 0);
    if (folder < 0)
        verify_copy_fail(carry, "open the folder of", errno);
    next_part(&rest, &part);
    *ret_name = bl_arena_text(&carry->arena, part).data;
    while (folder >= 0 && next_part(&rest, &next)) {
        int below =
            make ? enter_copy(carry, folder, *ret_name)
                 : openat(folder, *ret_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0 && !make && !is_other_kind(errno))
            verify_copy_fail(carry, "open the folder of", errno);
        close(folder);
        folder = below;
        *ret_name = bl_arena_text(&carry->arena, next).data;
    }
    return folder;
}

static void step_path(struct carry *carry)
{
    const char *path = *carry->paths, *name;
    struct stat status;
    if (path == NULL) {
        carry->done = true;
        return;
    }
    carry->paths++;
    set_whole_path(carry, path);
    int from = open_parent(carry, carry->from, path, false, &name);
    bool there = from >= 0 && fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    int to = there ? open_parent(carry, carry->to, path, true, &name) : -1;
    if (to >= 0)
        begin_entry(carry, from, to, name);
    verify_copy_close_end(&from);
    verify_copy_close_end(&to);
}

static uint64_t verify_copy_now_ns(void)
{
    return bl_clock_now_ns(&bl_clock_system);
}

static void run_slice(void *payload)
{
    struct carry *carry = payload;
    uint64_t end_ns = verify_copy_now_ns() + SLICE_NS;
    do {
        if (carry->input >= 0)
            copy_piece(carry);
        else if (carry->depth > 0)
            step_folder(carry);
        else
            step_path(carry);
    } while (!carry->done && carry->failure == 0 && verify_copy_now_ns() < end_ns);
}

static void free_carry(void *payload)
{
    struct carry *carry = payload;
    while (carry->depth > 0) {
        struct level *level = &carry->levels[--carry->depth];
        closedir(level->from);
        close(level->to);
    }
    verify_copy_close_end(&carry->input);
    verify_copy_close_end(&carry->output);
    verify_copy_close_end(&carry->from);
    verify_copy_close_end(&carry->to);
    bl_buffer_done(&carry->path);
    bl_arena_done(&carry->arena);
    bl_free(carry->piece);
    bl_free(carry);
}

/* ---- In a fiber ------------------------------------------------------------------------------ */

/* A running slice. It has no time limit until a stop sets one. */
struct slice {
    struct bl_stop_hook hook;
    struct bl_scope shield;
    struct bl_loop *loop;
};

static void end_slice_soon(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct slice *slice = BL_CONTAINER(hook, struct slice, hook);
    (void)scope;
    uint64_t now = bl_clock_now_ns(bl_loop_clock(slice->loop));
    bl_scope_set_deadline(&slice->shield, bl_time_add(now, STOP_NS));
}

static int call_slice(struct carry *carry, bool *ret_abandoned)
{
    struct slice slice = {.loop = bl_loop_current()};
    struct bl_scope *outer = bl_scope_current();
    bl_shield_begin(&slice.shield, BL_NEVER);
    bl_stop_hook_add(&slice.hook, outer, end_slice_soon);
    int code = bl_work_call(
        &(struct bl_work){.run = run_slice, .drop = free_carry, .payload = carry}, ret_abandoned);
    bl_stop_hook_remove(&slice.hook);
    bl_shield_end(&slice.shield);
    return code;
}

static const char *const *verify_copy_list(struct bl_arena *arena, const char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    const char **copy = bl_arena_zalloc(arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = bl_arena_text(arena, bl_text_from(list[i])).data;
    return copy;
}

static struct carry *make_carry(const char *from, const char *to, const char *const *paths,
                                const char *const *protect)
{
    struct carry *carry = bl_zalloc(sizeof *carry);
    carry->paths = verify_copy_list(&carry->arena, paths);
    carry->protect = verify_copy_list(&carry->arena, protect);
    carry->input = carry->output = -1;
    bl_buffer_init(&carry->path, SIZE_MAX);
    set_path(carry, 0, BL_TEXT("."));
    carry->from = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    carry->to = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (carry->from < 0 || carry->to < 0)
        verify_copy_fail(carry, "open the folder of", errno);
    return carry;
}

/* "cannot copy node_modules/a: No space left on device". */
static void say_failure(struct bl_arena *arena, const struct carry *carry, struct bl_text *ret_why)
{
    BL_AUTO_BUFFER(shown, SIZE_MAX);
    text_show(bl_buffer_text(&carry->path), &shown);
    *ret_why = bl_arena_printf(arena, "cannot %s " BL_TEXT_FORMAT ": %s", carry->what,
                               BL_TEXT_ARG(bl_buffer_text(&shown)), strerror(carry->failure));
}

/* Runs slices until the copy is complete, has failed or is stopped. */
static int run_carry(struct bl_arena *arena, struct carry *carry, struct bl_unit *unit,
                     struct bl_text *ret_why)
{
    bool abandoned = false;
    int code = bl_check();
    while (code == 0 && !carry->done && carry->failure == 0) {
        code = call_slice(carry, &abandoned);
        if (code == 0)
            code = bl_check();
    }
    if (abandoned) {
        bl_text_into(unit->detail, sizeof unit->detail, "the file system does not respond");
        bl_unit_end(unit, BL_FATE_UNKNOWN);
        return bl_check();
    }
    bl_unit_end(unit, code == 0 ? BL_FATE_FINISHED : BL_FATE_ABORTED);
    if (code == 0 && carry->failure != 0) {
        say_failure(arena, carry, ret_why);
        code = bl_error_from_errno(carry->failure);
    } else if (code == BL_ETHREADS) {
        *ret_why = BL_TEXT("no thread is available for the copy");
    }
    free_carry(carry);
    return code;
}

int verify_carry(struct bl_arena *arena, const char *task, const char *from, const char *to,
                 const char *const *paths, const char *const *protect, struct bl_text *ret_why)
{
    struct bl_unit unit;
    *ret_why = (struct bl_text){0};
    for (const char *const *path = paths; path != NULL && *path != NULL; path++) {
        const char *fault = path_fault(*path);
        if (fault != NULL) {
            *ret_why = bl_arena_printf(arena, "cannot carry '%s': %s", *path, fault);
            return BL_EINVAL;
        }
    }
    if (paths == NULL || *paths == NULL)
        return 0;
    bl_unit_begin(&unit, BL_UNIT_COMMAND, task, "carry");
    return run_carry(arena, make_carry(from, to, paths, protect), &unit, ret_why);
}
