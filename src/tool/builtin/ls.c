/* Design notes. Folders are opened level by level, so that if there are more entries than fit,
 * upper levels are listed before deeper ones; then the tree is printed from its top. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/parts.h"

#define ENTRIES_MAX ((size_t)1000)
/* Maximum number of names of one folder that are sorted; more are only counted. */
#define NAMES_MAX ((size_t)100000)
#define NOTES_MAX ((size_t)256)

struct ls_entry {
    struct bl_list link;
    struct ls_entry *above; /* NULL for the top */
    const char *name;
    unsigned depth;
    unsigned mode;
    uint64_t size;
    const char *target;     /* of a link; else NULL */
    struct bl_list entries; /* of a folder */
    uint64_t left_out;      /* number of these that were left out */
    const char *unlisted;   /* why a folder was not opened; NULL if it was, or need not be */
};

struct ls_job {
    struct file_job file;
    struct tool_ls_input input;
    struct tool_path path;
    size_t count;
    struct bl_list opening; /* folders to open: struct ls_step */
};

struct ls_step {
    struct bl_list link;
    struct ls_entry *entry;
};

/* ---- Reading folders ------------------------------------------------------------------------- */

static struct ls_entry *ls_new_entry(struct ls_job *job, struct ls_entry *above, const char *name)
{
    struct ls_entry *entry = bl_arena_zalloc(&job->file.arena, sizeof *entry);
    entry->above = above;
    entry->name = name;
    entry->depth = above != NULL ? above->depth + 1 : 0;
    bl_list_init(&entry->entries);
    return entry;
}

/* Fills mode, size and link target of an entry of the folder `fd`. */
static void ls_look_at(struct ls_job *job, struct ls_entry *entry, int fd)
{
    char target[PATH_MAX];
    struct stat status;
    if (fstatat(fd, entry->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return; /* removed meanwhile: it has no mark */
    entry->mode = status.st_mode;
    entry->size = (uint64_t)status.st_size;
    if (!S_ISLNK(status.st_mode))
        return;
    ssize_t size = readlinkat(fd, entry->name, target, sizeof target);
    entry->target =
        tool_path_show(&job->file.arena, (struct bl_text){target, size > 0 ? (size_t)size : 0});
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Reads all names in the folder, sorted, and counts those beyond the limit. */
static size_t take_names(struct ls_job *job, DIR *stream, const atomic_bool *stopped,
                         const char ***ret_names, uint64_t *ret_more)
{
    size_t count = 0, capacity = 64;
    const char **names = bl_arena_alloc(&job->file.arena, capacity * sizeof *names);
    const struct dirent *each;
    *ret_more = 0;
    while (!atomic_load(stopped) && (each = readdir(stream)) != NULL) {
        if (strcmp(each->d_name, ".") == 0 || strcmp(each->d_name, "..") == 0)
            continue;
        if (count == NAMES_MAX) {
            ++*ret_more;
            continue;
        }
        if (count == capacity) {
            names = bl_arena_resize(&job->file.arena, names, capacity * sizeof *names,
                                    2 * capacity * sizeof *names);
            capacity *= 2;
        }
        names[count++] = bl_arena_text(&job->file.arena, bl_text_from(each->d_name)).data;
    }
    qsort(names, count, sizeof *names, by_name);
    *ret_names = names;
    return count;
}

static bool goes_deeper(const struct ls_job *job, const struct ls_entry *entry)
{
    return S_ISDIR(entry->mode) && entry->depth < job->input.depth;
}

static void plan_opening(struct ls_job *job, struct ls_entry *entry)
{
    struct ls_step *step = bl_arena_zalloc(&job->file.arena, sizeof *step);
    step->entry = entry;
    bl_list_push_back(&job->opening, &step->link);
}

/* Lists an open folder, as far as there is room. Takes ownership of the stream. */
static void ls_list_folder(struct ls_job *job, struct ls_entry *folder, DIR *stream,
                           const atomic_bool *stopped)
{
    const char **names;
    size_t count = take_names(job, stream, stopped, &names, &folder->left_out);
    for (size_t i = 0; i < count && !atomic_load(stopped); i++) {
        if (job->count == ENTRIES_MAX) {
            folder->left_out += count - i;
            break;
        }
        struct ls_entry *entry = ls_new_entry(job, folder, names[i]);
        ls_look_at(job, entry, dirfd(stream));
        bl_list_push_back(&folder->entries, &entry->link);
        job->count++;
        if (!goes_deeper(job, entry))
            continue;
        /* Thousands of objects of no interest. */
        if (strcmp(entry->name, ".git") == 0)
            entry->unlisted = "not listed";
        else
            plan_opening(job, entry);
    }
    closedir(stream);
}

static struct bl_text ls_path_of(struct ls_job *job, const struct ls_entry *entry)
{
    if (entry->above == NULL)
        return job->path.absolute;
    struct bl_text above = ls_path_of(job, entry->above);
    return bl_arena_printf(&job->file.arena, BL_TEXT_FORMAT "%s%s", BL_TEXT_ARG(above),
                           above.size == 1 ? "" : "/", entry->name);
}

static void ls_open_folder(struct ls_job *job, struct ls_entry *folder, const atomic_bool *stopped)
{
    if (job->count == ENTRIES_MAX) {
        folder->unlisted = "not listed: limit reached";
        return;
    }
    struct tool_path path = {.absolute = ls_path_of(job, folder), .root = job->path.root};
    int fd = tool_path_open(&path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (stream != NULL) {
        ls_list_folder(job, folder, stream, stopped);
        return;
    }
    int code = fd < 0 ? -fd : errno;
    if (fd >= 0)
        close(fd);
    folder->unlisted =
        bl_arena_printf(&job->file.arena, "cannot be listed: %s", strerrordesc_np(code)).data;
}

/* ---- The result ------------------------------------------------------------------------------ */

static const char *mark_of(const struct ls_entry *entry)
{
    switch (entry->mode & S_IFMT) {
    case S_IFDIR: return "/";
    case S_IFIFO: return "|";
    case S_IFSOCK: return "=";
    case S_IFCHR:
    case S_IFBLK: return "%";
    case S_IFREG: return (entry->mode & 0111u) != 0 ? "*" : "";
    default: return "";
    }
}

/* Returns false if there is no room for it. */
static bool print_entry(struct ls_job *job, const struct ls_entry *entry)
{
    struct bl_buffer *out = &job->file.out;
    size_t before = out->size;
    bl_buffer_printf(out, "%*s%s%s", (int)(entry->depth - 1) * 2, "",
                     tool_path_show(&job->file.arena, bl_text_from(entry->name)), mark_of(entry));
    if (entry->target != NULL)
        bl_buffer_printf(out, " -> %s", entry->target);
    else if (S_ISREG(entry->mode))
        bl_buffer_printf(out, "  %" PRIu64, entry->size);
    if (entry->unlisted != NULL)
        bl_buffer_printf(out, "  [%s]", entry->unlisted);
    else if (entry->left_out > 0)
        bl_buffer_printf(out, "  [%" PRIu64 " of its entries left out]", entry->left_out);
    bl_buffer_append_byte(out, '\n');
    if (out->size + NOTES_MAX <= job->file.output_max)
        return true;
    out->size = before;
    return false;
}

/* Returns the next entry of the printed tree, or NULL. */
static struct ls_entry *next_entry(const struct ls_entry *entry)
{
    if (!bl_list_empty(&entry->entries))
        return BL_CONTAINER(entry->entries.next, struct ls_entry, link);
    while (entry->above != NULL && entry->link.next == &entry->above->entries)
        entry = entry->above;
    return entry->above != NULL ? BL_CONTAINER(entry->link.next, struct ls_entry, link) : NULL;
}

static void print_tree(struct ls_job *job, struct ls_entry *top)
{
    size_t printed = 0;
    uint64_t left_out = 0;
    bool unlisted = false;
    for (struct ls_entry *entry = top; entry != NULL; entry = next_entry(entry)) {
        left_out += entry->left_out;
        unlisted = unlisted || entry->unlisted != NULL;
    }
    for (struct ls_entry *entry = next_entry(top); entry != NULL; entry = next_entry(entry)) {
        if (!print_entry(job, entry))
            break;
        printed++;
    }
    left_out += job->count - printed;
    if (left_out > 0)
        bl_buffer_printf(
            &job->file.out,
            "[%" PRIu64 " more entr%s left out%s: list a single folder, or use glob]\n", left_out,
            left_out == 1 ? "y" : "ies", unlisted ? ", besides those of unlisted folders" : "");
    else if (job->count == 0)
        bl_buffer_printf(&job->file.out, "'%s' is an empty folder.",
                         tool_path_show(&job->file.arena, job->path.shown));
}

static int ls_run(void *payload, const atomic_bool *stopped)
{
    struct ls_job *job = payload;
    struct bl_list *link;
    struct stat status;
    if (!file_job_resolve(&job->file, PATH_READ, &job->path))
        return 0;
    struct ls_entry *top = ls_new_entry(job, NULL, "");
    const char *shown = tool_path_show(&job->file.arena, job->path.shown);
    int fd = tool_path_open(&job->path, O_PATH);
    if (fd >= 0 && fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode)) {
        bl_buffer_printf(&job->file.out, "'%s' is a %s (%s), not a folder.", shown,
                         file_kind(status.st_mode),
                         file_size_text(&job->file.arena, (uint64_t)status.st_size));
        close(fd);
        return 0;
    }
    if (fd >= 0)
        close(fd);
    bl_list_init(&job->opening);
    plan_opening(job, top);
    while (!atomic_load(stopped) && (link = bl_list_pop_front(&job->opening)) != NULL)
        ls_open_folder(job, BL_CONTAINER(link, struct ls_step, link)->entry, stopped);
    if (atomic_load(stopped))
        return BL_ECANCELED;
    if (top->unlisted != NULL)
        return file_job_fail(&job->file, "'%s' %s", shown, top->unlisted);
    print_tree(job, top);
    return 0;
}

static int ls_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                   struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct ls_job *job = file_job_new(sizeof *job, toolbox);
    file_job_read(&job->file, call, &tool_ls_input, &job->input, &job->input.path);
    return file_job_call(&job->file, ls_run, "nothing was listed", call, ret_result, error);
}

#define BL_RECORD_STRUCT struct tool_ls_input
static const struct bl_member ls_members[] = {
    BL_MEMBER_TEXT(
        "path", path, .optional = true, .least = 1,
        .about = "Folder to list, relative to the workspace or absolute; default: the workspace."),
    BL_MEMBER_INTEGER("depth", depth, .optional = true, .none = 1, .least = 1, .most = 20,
                      .about = "Number of folder levels to list; default 1."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_ls_input =
    BL_RECORD("input of ls", struct tool_ls_input, ls_members, .closed = true);

const struct tool_entry tool_ls = {
    .name = "ls",
    .subject = offsetof(struct tool_ls_input, path),
    .kind = SUBJECT_PATH,
    .reads = true,
    .parallel = true,
    .input = &tool_ls_input,
    .description =
        "Lists a folder of the workspace, including hidden files, sorted by name, with deeper "
        "levels indented. Marks: '/' folder, '*' executable, '->' symbolic link (not followed), "
        "'|' FIFO, '=' socket, '%' device; files are followed by their size in bytes. Lists at "
        "most 1000 entries and reports how many were left out. To find files by name, use glob.",
    .call = ls_call,
};
