/* File access for the tools: on worker threads, in whole steps. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/parts.h"

/* How long a thread may take to notice a stop before it is left behind. */
#define STOP_NS    (200 * BL_NS_PER_MS)
#define PIECE_SIZE ((size_t)256 * 1024)
/* Maximum length of a file name. */
#define NAME_MAX_SIZE ((size_t)255)

/* ---- Work on threads ------------------------------------------------------------------------- */

/* Shared with the thread; on the heap, and freed with the payload. */
struct work {
    struct tool_job job;
    atomic_bool stopped;
    int result;
};

/* The state on the fiber's side. */
struct work_wait {
    struct bl_stop_hook hook;
    struct bl_scope shield;
    struct bl_loop *loop;
    struct work *work;
};

static void work_run(void *payload)
{
    struct work *work = payload;
    work->result = work->job.run(work->job.payload, &work->stopped);
}

static void work_drop(void *payload)
{
    struct work *work = payload;
    work->job.drop(work->job.payload);
    bl_free(work);
}

/* The shield is unbounded until a stop sets its deadline. */
static void work_stop(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct work_wait *wait = BL_CONTAINER(hook, struct work_wait, hook);
    (void)scope;
    atomic_store(&wait->work->stopped, true);
    uint64_t now_ns = bl_clock_now_ns(bl_loop_clock(wait->loop));
    bl_scope_set_deadline(&wait->shield, bl_time_add(now_ns, STOP_NS));
}

static int work_wait(struct work *work, struct bl_scope *scope, bool *ret_abandoned)
{
    struct work_wait wait = {.loop = bl_loop_current(), .work = work};
    bl_shield_begin(&wait.shield, BL_NEVER);
    bl_stop_hook_add(&wait.hook, scope, work_stop);
    int code = bl_work_call(&(struct bl_work){.run = work_run, .drop = work_drop, .payload = work},
                            ret_abandoned);
    bl_stop_hook_remove(&wait.hook);
    bl_shield_end(&wait.shield);
    return code;
}

/* Returns the code of a call that did not complete. */
static int stop_code(struct bl_scope *scope)
{
    int code = bl_scope_check(scope);
    assert(code != 0);
    return code;
}

int tool_work(const struct bl_tool_call *call, struct tool_job *job)
{
    struct bl_unit unit;
    int code = bl_scope_check(call->scope);
    job->abandoned = false;
    if (code != 0) {
        job->drop(job->payload);
        return code;
    }
    struct work *work = bl_zalloc(sizeof *work);
    work->job = *job;
    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->name);
    code = work_wait(work, call->scope, &job->abandoned);
    if (job->abandoned) {
        bl_text_into(unit.detail, sizeof unit.detail, "the file system does not answer");
        bl_unit_end(&unit, BL_FATE_UNKNOWN);
        return stop_code(call->scope);
    }
    bool begun = code == 0;
    bool finished = begun && work->result == 0;
    bl_unit_end(&unit, finished ? BL_FATE_FINISHED
                       : begun  ? BL_FATE_ABORTED
                                : BL_FATE_NEVER_STARTED);
    if (!finished)
        job->drop(job->payload);
    bl_free(work);
    return finished ? 0 : code == BL_ETHREADS ? code : stop_code(call->scope);
}

/* ---- A call on files ------------------------------------------------------------------------- */

void *file_job_new(size_t size, const struct bl_toolbox *toolbox)
{
    struct file_job *job = bl_zalloc(size);
    bl_arena_init(&job->arena);
    bl_buffer_init(&job->out, SIZE_MAX);
    job->roots = tool_roots_copy(toolbox, &job->arena);
    job->denials = permission_denials(toolbox->permissions, "read", &job->arena);
    job->output_max = toolbox->output_max;
    return job;
}

void file_job_read(struct file_job *job, const struct bl_tool_call *call,
                   const struct bl_record *record, void *into, const struct bl_text *path)
{
    bl_record_take(&job->arena, record, call->input, into);
    job->given = path->size > 0 ? *path : BL_TEXT(".");
}

static void file_job_drop(void *payload)
{
    struct file_job *job = payload;
    bl_buffer_done(&job->out);
    bl_arena_done(&job->arena);
    bl_free(job);
}

/* File names may be any bytes. */
static struct bl_text valid_text(struct bl_arena *arena, struct bl_text text)
{
    struct output_filter filter = {0};
    BL_AUTO_BUFFER(valid, SIZE_MAX);
    if (bl_utf8_valid(text))
        return bl_arena_text(arena, text);
    output_filter_add(&filter, text, &valid);
    output_filter_end(&filter, &valid);
    return bl_arena_text(arena, bl_buffer_text(&valid));
}

/* Returns the job's image in the form of a result, copied into the call's arena. */
static const struct bl_list *file_job_images(const struct file_job *job, struct bl_arena *arena)
{
    if (job->image == NULL || job->is_error)
        return NULL;
    struct bl_list *images = bl_arena_alloc(arena, sizeof *images);
    struct bl_block *image = bl_arena_zalloc(arena, sizeof *image);
    bl_list_init(images);
    image->type = BL_BLOCK_IMAGE;
    image->name = bl_arena_text(arena, job->image->name);
    image->text = bl_arena_text(arena, job->image->text);
    bl_list_push_back(images, &image->link);
    return images;
}

int file_job_call(struct file_job *job, int (*run)(void *payload, const atomic_bool *stopped),
                  const char *undone, const struct bl_tool_call *call,
                  struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct tool_job work = {.run = run, .drop = file_job_drop, .payload = job};
    int code = tool_work(call, &work);
    *ret_result = (struct bl_tool_result){.is_error = true};
    if (code == 0) {
        ret_result->text = valid_text(call->arena, bl_buffer_text(&job->out));
        ret_result->is_error = job->is_error;
        ret_result->images = file_job_images(job, call->arena);
        file_job_drop(job);
    } else if (code == BL_ECANCELED || code == BL_ETIMEDOUT) {
        ret_result->text = bl_arena_printf(
            call->arena, "stopped: %s",
            work.abandoned ? "the file system does not answer, and the outcome is unknown"
                           : undone);
    } else {
        bl_error_set(error, code, BL_KIND_RUNTIME, "run a tool", call->name,
                     "no thread is available: %s", bl_error_text(code));
    }
    return code;
}

int file_job_fail(struct file_job *job, const char *format, ...)
{
    va_list arguments;
    bl_buffer_clear(&job->out);
    job->is_error = true;
    va_start(arguments, format);
    bl_buffer_vprintf(&job->out, format, arguments);
    va_end(arguments);
    return 0;
}

bool file_job_resolve(struct file_job *job, enum path_use use, struct tool_path *ret_path)
{
    struct bl_text wrong;
    if (tool_roots_resolve(&job->roots, &job->arena, job->given, use, ret_path, &wrong))
        return true;
    file_job_fail(job, BL_TEXT_FORMAT, BL_TEXT_ARG(wrong));
    return false;
}

const char *file_kind(unsigned mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "folder";
    case S_IFLNK: return "symbolic link";
    case S_IFIFO: return "FIFO";
    case S_IFSOCK: return "socket";
    case S_IFCHR:
    case S_IFBLK: return "device";
    default: return "special file";
    }
}

const char *file_size_text(struct bl_arena *arena, uint64_t bytes)
{
    char digits[24], text[32];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)bytes);
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            text[size++] = ',';
        text[size++] = digits[i];
    }
    text[size] = '\0';
    return bl_arena_printf(arena, "%s byte%s", text, bytes == 1 ? "" : "s").data;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int fail_system(struct file_job *job, const char *what, const struct tool_path *path,
                       int code)
{
    const char *shown = tool_path_show(&job->arena, path->shown);
    if (code == ELOOP || code == EXDEV)
        return file_job_fail(job, "'%s' was replaced by a link while it was in use; try again.",
                             shown);
    return file_job_fail(job, "cannot %s '%s': %s", what, shown, strerrordesc_np(code));
}

/* Returns true for a regular file; otherwise the job fails. */
static bool regular(struct file_job *job, const struct tool_path *path, const struct stat *status)
{
    const char *shown = tool_path_show(&job->arena, path->shown);
    if (S_ISREG(status->st_mode))
        return true;
    if (S_ISDIR(status->st_mode))
        file_job_fail(job, "'%s' is a folder, not a file. Use ls to list it.", shown);
    else
        file_job_fail(job, "'%s' is a %s, not a regular file.", shown, file_kind(status->st_mode));
    return false;
}

/* Opening a device may have side effects, so the file type is checked before, and once more
 * after. */
int file_open(struct file_job *job, const struct tool_path *path, struct stat *ret_status)
{
    static const int flags[] = {O_PATH, O_RDONLY | O_NONBLOCK | O_NOCTTY};
    int fd = -1;
    for (size_t i = 0; i < BL_COUNT(flags); i++) {
        if (fd >= 0)
            close(fd);
        fd = tool_path_open(path, flags[i]);
        if (fd < 0 || fstat(fd, ret_status) != 0) {
            fail_system(job, "read", path, fd < 0 ? -fd : errno);
            break;
        }
        if (!regular(job, path, ret_status))
            break;
    }
    if (job->is_error && fd >= 0)
        close(fd);
    return job->is_error ? -1 : fd;
}

static bool load_all(struct file_job *job, int fd, const struct tool_path *path, size_t size_max,
                     const atomic_bool *stopped, struct bl_buffer *out)
{
    for (;;) {
        if (atomic_load(stopped))
            return false;
        bl_buffer_reserve(out, PIECE_SIZE);
        ssize_t count = read(fd, out->data + out->size, PIECE_SIZE);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            fail_system(job, "read", path, errno);
        if (count <= 0)
            return count == 0;
        out->size += (size_t)count;
        if (out->size > size_max) {
            file_job_fail(job, "'%s' is larger than %s, the limit of this tool. Use bash.",
                          tool_path_show(&job->arena, path->shown),
                          file_size_text(&job->arena, size_max));
            return false;
        }
    }
}

bool file_load(struct file_job *job, const struct tool_path *path, size_t size_max,
               const atomic_bool *stopped, struct bl_text *ret_content, struct stat *ret_status)
{
    struct bl_buffer content;
    int fd = file_open(job, path, ret_status);
    if (fd < 0)
        return false;
    bl_buffer_init(&content, SIZE_MAX);
    bool loaded = load_all(job, fd, path, size_max, stopped, &content);
    if (loaded)
        *ret_content = bl_arena_text(&job->arena, bl_buffer_text(&content));
    bl_buffer_done(&content);
    close(fd);
    return loaded;
}

/* ---- Replacing ------------------------------------------------------------------------------- */

/* A replacement in progress. */
struct replacement {
    struct file_job *job;
    const struct tool_path *path;
    int folder;       /* the folder that contains it; -1 if not open */
    const char *name; /* in the folder */
    char temporary[NAME_MAX_SIZE + 1];
    unsigned folders_made;
    bool existed;
    struct stat before; /* if it existed */
};

static int fail_replacement(struct replacement *replacement, int code)
{
    return fail_system(replacement->job, "write", replacement->path, code);
}

/* Opens the folder of the file, and creates missing folders. */
static bool text_file_open_folder(struct replacement *replacement)
{
    const struct tool_path *path = replacement->path;
    struct bl_text rest = path->absolute, part, next;
    size_t skip = strlen(path->root->path);
    rest = (struct bl_text){rest.data + skip, rest.size - skip};
    int folder = bl_pin_open(path->root);
    int code = -folder;
    while (rest.size > 0 && rest.data[0] == '/')
        rest = (struct bl_text){rest.data + 1, rest.size - 1};
    if (folder >= 0 && rest.size == 0) { /* the root itself */
        code = EISDIR;
        close(folder);
        folder = -1;
    }
    next = rest;
    while (folder >= 0 && bl_text_split(&next, '/', &part) && next.size > 0) {
        const char *name = bl_arena_text(&replacement->job->arena, part).data;
        int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        int below = openat(folder, name, flags);
        if (below < 0 && errno == ENOENT) {
            replacement->folders_made += mkdirat(folder, name, 0777) == 0;
            below = openat(folder, name, flags);
        }
        code = errno;
        close(folder);
        folder = below;
    }
    replacement->folder = folder;
    const char *slash = strrchr(path->absolute.data, '/');
    replacement->name = slash + 1;
    if (folder < 0)
        fail_replacement(replacement, code);
    return folder >= 0;
}

/* Returns the path without its last part. */
static struct bl_text folder_of(struct bl_arena *arena, struct bl_text path)
{
    const char *slash = memrchr(path.data, '/', path.size);
    size_t size = slash == path.data ? 1 : (size_t)(slash - path.data);
    return bl_arena_text(arena, (struct bl_text){path.data, size});
}

/* Removes the folders created for a failed replacement; those used by others by now stay. */
static void remove_folders(struct replacement *replacement)
{
    struct bl_arena *arena = &replacement->job->arena;
    struct tool_path path = *replacement->path;
    struct bl_text folder = folder_of(arena, path.absolute);
    for (unsigned i = 0; i < replacement->folders_made; i++) {
        path.absolute = folder_of(arena, folder);
        int above = tool_path_open(&path, O_PATH | O_DIRECTORY);
        if (above < 0)
            return;
        unlinkat(above, strrchr(folder.data, '/') + 1, AT_REMOVEDIR);
        close(above);
        folder = path.absolute;
    }
}

/* Checks that the current file may be replaced. */
static bool check_place(struct replacement *replacement, const struct stat *expected)
{
    struct file_job *job = replacement->job;
    const struct stat *now = &replacement->before;
    const char *shown = tool_path_show(&job->arena, replacement->path->shown);
    int status =
        fstatat(replacement->folder, replacement->name, &replacement->before, AT_SYMLINK_NOFOLLOW);
    if (status != 0 && errno != ENOENT) {
        fail_replacement(replacement, errno);
        return false;
    }
    replacement->existed = status == 0;
    if (expected != NULL &&
        (status != 0 || now->st_ino != expected->st_ino || now->st_size != expected->st_size ||
         now->st_mtim.tv_sec != expected->st_mtim.tv_sec ||
         now->st_mtim.tv_nsec != expected->st_mtim.tv_nsec)) {
        file_job_fail(job,
                      "'%s' was changed by another program in the meantime, and was left as it is. "
                      "Read it again.",
                      shown);
        return false;
    }
    if (status != 0)
        return true;
    if (!regular(job, replacement->path, now))
        return false;
    if (faccessat(replacement->folder, replacement->name, W_OK, AT_EACCESS) == 0)
        return true;
    if (errno == EACCES)
        file_job_fail(job, "'%s' is write-protected (mode %04o); it was not changed.", shown,
                      now->st_mode & 07777u);
    else
        fail_replacement(replacement, errno);
    return false;
}

/* Creates a new file beside the old one. Returns its descriptor, or -1. */
static int create_temporary(struct replacement *replacement)
{
    char id[BL_ID_SIZE];
    for (unsigned i = 0; i < 8; i++) {
        bl_id_make(id, "");
        struct bl_text name =
            bl_utf8_cut(bl_text_from(replacement->name), NAME_MAX_SIZE - sizeof "..belay-12345678");
        snprintf(replacement->temporary, sizeof replacement->temporary,
                 "." BL_TEXT_FORMAT ".belay-%.8s", BL_TEXT_ARG(name), id);
        int fd = openat(replacement->folder, replacement->temporary,
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        replacement->existed ? 0600 : 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Copies owner and mode of the replaced file. Called after the last write, which would clear some
 * mode bits. If the owner cannot be set, the set-id bits are dropped. */
static int keep_mode(int fd, const struct stat *before)
{
    struct stat made;
    mode_t mode = before->st_mode & 07777u;
    if (fstat(fd, &made) != 0)
        return errno;
    if ((made.st_uid != before->st_uid || made.st_gid != before->st_gid) &&
        fchown(fd, before->st_uid, before->st_gid) != 0)
        mode &= 0777u;
    return fchmod(fd, mode) == 0 ? 0 : errno;
}

/* Returns 0, errno, or BL_ECANCELED. */
static int fill_temporary(int fd, struct bl_text content, const atomic_bool *stopped)
{
    while (content.size > 0) {
        if (atomic_load(stopped))
            return BL_ECANCELED;
        size_t size = content.size < PIECE_SIZE ? content.size : PIECE_SIZE;
        ssize_t count = write(fd, content.data, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return errno;
        content = (struct bl_text){content.data + count, content.size - (size_t)count};
    }
    return atomic_load(stopped) ? BL_ECANCELED : 0;
}

static int write_and_rename(struct replacement *replacement, struct bl_text content,
                            const struct stat *expected, const atomic_bool *stopped)
{
    int fd = create_temporary(replacement);
    if (fd < 0)
        return fail_replacement(replacement, errno);
    int code = fill_temporary(fd, content, stopped);
    if (code == 0 && replacement->existed)
        code = keep_mode(fd, &replacement->before);
    /* Some file systems report only now that there was no space. */
    if (close(fd) != 0 && code == 0)
        code = errno;
    if (code > 0)
        fail_replacement(replacement, code);
    bool done = code == 0 && check_place(replacement, expected);
    /* The last check: a thread that was left behind must not return later and do it after all. */
    if (done && atomic_load(stopped)) {
        code = BL_ECANCELED;
        done = false;
    }
    if (done && renameat(replacement->folder, replacement->temporary, replacement->folder,
                         replacement->name) != 0) {
        fail_replacement(replacement, errno);
        done = false;
    }
    if (!done)
        unlinkat(replacement->folder, replacement->temporary, 0);
    return code < 0 ? code : 0;
}

int file_replace(struct file_job *job, const struct tool_path *path, struct bl_text content,
                 const struct stat *expected, const atomic_bool *stopped,
                 struct file_replaced *ret_replaced)
{
    struct replacement *replacement = bl_arena_zalloc(&job->arena, sizeof *replacement);
    replacement->job = job;
    replacement->path = path;
    int code = 0;
    if (text_file_open_folder(replacement) && check_place(replacement, expected))
        code = write_and_rename(replacement, content, expected, stopped);
    if (replacement->folder >= 0)
        close(replacement->folder);
    if (code != 0 || job->is_error)
        remove_folders(replacement);
    ret_replaced->existed = replacement->existed;
    ret_replaced->size_before = replacement->existed ? (uint64_t)replacement->before.st_size : 0;
    return code;
}
