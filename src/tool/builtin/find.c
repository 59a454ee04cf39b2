/* The tool glob: finds files by name, the newest first. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "search.h"

#define PATHS_MAX 1000u

struct glob_job {
    struct file_job file;
    struct tool_glob_input input;
    struct tool_path path;
    struct wild_set set;
    struct shelf shelf;
    atomic_ullong found;
};

/* ---- Walking --------------------------------------------------------------------------------- */

static bool glob_enters(void *context, struct bl_text folder, size_t name)
{
    const struct glob_job *job = context;
    return wild_set_enters(&job->set, folder, name);
}

static bool glob_wants(void *context, struct bl_text path, size_t name)
{
    const struct glob_job *job = context;
    return wild_set_match(&job->set, path, name);
}

static void glob_take(void *context, const struct walk_file *file)
{
    struct glob_job *job = context;
    struct stat status;
    /* It may have been removed meanwhile. */
    if (fstatat(file->folder, file->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    atomic_fetch_add_explicit(&job->found, 1, memory_order_relaxed);
    int64_t changed_ns =
        status.st_mtim.tv_sec * (int64_t)BL_NS_PER_S + (int64_t)status.st_mtim.tv_nsec;
    shelf_add(&job->shelf,
              &(struct shelf_item){.rank = changed_ns, .weight = 1, .path = file->path});
}

/* ---- The result ------------------------------------------------------------------------------ */

static void builtin_find_print_found(struct glob_job *job, const struct walk *walk)
{
    struct bl_buffer *out = &job->file.out;
    uint64_t found = atomic_load(&job->found), shown = 0;
    shelf_sort(&job->shelf);
    while (shown < job->shelf.count && out->size < job->file.output_max)
        search_print_path(out, job->path.shown, job->shelf.items[shown++]->path, "\n");
    if (found == 0)
        bl_buffer_append(out, BL_TEXT("No files match the pattern.\n"));
    if (shown < found)
        bl_buffer_printf(out,
                         "[%" PRIu64 " more file%s left out, all older: use a narrower pattern or "
                         "path]\n",
                         found - shown, found - shown == 1 ? "" : "s");
    search_print_unseen(out, walk->folders_unreadable, walk->rules_unreadable);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* Returns the part of an absolute pattern below the folder, or NULL if it is not below it. */
static const char *builtin_find_below(struct bl_text pattern, struct bl_text folder)
{
    bool is_below = bl_text_starts_with(pattern, folder) && pattern.size > folder.size &&
                    pattern.data[folder.size] == '/';
    return is_below ? pattern.data + folder.size : NULL;
}

/* An absolute pattern must begin with the folder to search, or with the workspace as it was named,
 * which may be through a link. */
static bool builtin_find_read_pattern(struct glob_job *job)
{
    struct bl_text pattern = job->input.pattern;
    const char *wrong = NULL;
    if (pattern.data[0] == '/') {
        const char *rest = builtin_find_below(pattern, job->path.absolute);
        if (rest == NULL && bl_text_equal(job->file.given, BL_TEXT(".")))
            rest = builtin_find_below(pattern, bl_text_from(job->file.roots.workspace.path));
        if (rest == NULL) {
            file_job_fail(&job->file,
                          "The pattern is absolute, but not below '%s'. Use a relative pattern, "
                          "and 'path' to search elsewhere.",
                          tool_path_show(&job->file.arena, job->path.absolute));
            return false;
        }
        pattern = (struct bl_text){rest, pattern.size - (size_t)(rest - pattern.data)};
    }
    if (bl_text_equal(pattern, BL_TEXT("..")) || bl_text_starts_with(pattern, BL_TEXT("../")) ||
        bl_text_find(pattern, BL_TEXT("/../")) >= 0)
        wrong = "it contains '..'; use 'path' to search elsewhere";
    if (wrong == NULL &&
        wild_set_read(&job->file.arena, pattern, WILD_NO_HIDDEN, &job->set, &wrong))
        return true;
    file_job_fail(&job->file, "Invalid pattern: %s.", wrong);
    return false;
}

static int glob_run(void *payload, const atomic_bool *stopped)
{
    struct glob_job *job = payload;
    if (!file_job_resolve(&job->file, PATH_READ, &job->path) || !builtin_find_read_pattern(job))
        return 0;
    int fd = tool_path_open(&job->path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return search_fail_open(
            &job->file, &job->path, -fd,
            "glob searches folders: use read to show the file, or grep to search it");
    struct walk walk = {.top = job->path.absolute.data,
                        .home = job->path.root->path,
                        .denials = &job->file.denials,
                        .workspace = job->file.roots.workspace.path,
                        .descriptor = fd,
                        .stopped = stopped,
                        .context = job,
                        .enters = glob_enters,
                        .wants = glob_wants,
                        .take = glob_take};
    shelf_init(&job->shelf, PATHS_MAX, job->file.output_max);
    walk_run(&walk);
    close(fd);
    bool whole = !atomic_load(stopped);
    if (whole)
        builtin_find_print_found(job, &walk);
    shelf_done(&job->shelf);
    return whole ? 0 : BL_ECANCELED;
}

static int glob_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct glob_job *job = file_job_new(sizeof *job, toolbox);
    file_job_read(&job->file, call, &tool_glob_input, &job->input, &job->input.path);
    return file_job_call(&job->file, glob_run, "nothing was listed", call, ret_result, error);
}

static const char *glob_check(const void *given)
{
    const struct tool_glob_input *input = given;
    return memchr(input->pattern.data, '\0', input->pattern.size) != NULL
               ? "the pattern contains a NUL byte"
               : NULL;
}

#define BL_RECORD_STRUCT struct tool_glob_input
static const struct bl_member glob_members[] = {
    BL_MEMBER_TEXT("pattern", pattern, .least = 1, .most = 4096, .characters = true,
                   .about = "For example 'src/**/*.c', '*.{h,c}', 'test_?.py', '[a-m]*'."),
    BL_MEMBER_TEXT(
        "path", path, .optional = true, .least = 1,
        .about =
            "Folder to search, relative to the workspace or absolute; default: the workspace."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_glob_input =
    BL_RECORD("input of glob", struct tool_glob_input, glob_members, .closed = true);

const struct tool_entry tool_glob = {
    .name = "glob",
    .subject = offsetof(struct tool_glob_input, path),
    .kind = SUBJECT_PATH,
    .reads = true,
    .parallel = true,
    .input = &tool_glob_input,
    .description = "Finds files by name. The pattern is relative to 'path'. '*', '?' and '[a-z]' "
                   "do not match '/', '**' matches any number of folders, and '{a,b}' matches "
                   "either; a pattern without '/' matches names in all folders ('./*.c': only in "
                   "'path' itself). Hidden files and folders are found only if the pattern names "
                   "their dot ('.github/**', '**/.env*'). Files ignored by .gitignore or .ignore "
                   "are skipped; links are not followed. Returns files, not folders, the most "
                   "recently changed first, at most 1000, and reports how many more there are.",
    .check = glob_check,
    .call = glob_call,
};
