/* The tool grep: finds lines that match a pattern, in all files below a folder. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "search.h"

#define CONTENT_LINES_DEFAULT 250
#define FILES_DEFAULT         1000

struct grep_job {
    struct file_job file;
    struct tool_grep_input input;
    int64_t limit; /* number of lines or files */
    struct tool_path path;
    struct bl_pattern *pattern;
    struct wild_set set;
    struct grep_request request;
    struct grep_searcher *searchers[WALK_THREADS_MAX]; /* one for each thread */
    struct shelf shelf;
    atomic_ullong matches;
    atomic_ullong files; /* with matches */
    atomic_ullong searched;
    atomic_ullong binary;
    atomic_ullong unreadable;
    atomic_ullong long_lines;
};

static void grep_count(atomic_ullong *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void search_file(struct grep_job *job, unsigned worker, int fd, struct bl_text path)
{
    struct grep_found found;
    if (job->searchers[worker] == NULL)
        job->searchers[worker] = grep_searcher_new(&job->request);
    bool prints = job->request.output == GREP_CONTENT && shelf_wants(&job->shelf, 0, path);
    switch (grep_search(job->searchers[worker], fd, prints, &found)) {
    case GREP_BINARY: grep_count(&job->binary, 1); return;
    case GREP_UNREADABLE: grep_count(&job->unreadable, 1); return;
    case GREP_SEARCHED: break;
    }
    grep_count(&job->searched, 1);
    grep_count(&job->long_lines, found.long_lines);
    if (found.matches == 0)
        return;
    grep_count(&job->files, 1);
    grep_count(&job->matches, found.matches);
    bool content = job->request.output == GREP_CONTENT;
    if (!content || found.lines > 0)
        shelf_add(&job->shelf, &(struct shelf_item){.weight = content ? found.lines : 1,
                                                    .matches = found.matches,
                                                    .path = path,
                                                    .text = found.text});
}

static void grep_take(void *context, const struct walk_file *file)
{
    struct grep_job *job = context;
    int fd =
        openat(file->folder, file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        search_file(job, file->worker, fd, file->path);
        close(fd);
    } else if (errno != ENOENT && errno != ELOOP) {
        grep_count(&job->unreadable, 1);
    }
}

static bool grep_wants(void *context, struct bl_text path, size_t name)
{
    const struct grep_job *job = context;
    return wild_set_match(&job->set, path, name);
}

static bool grep_enters(void *context, struct bl_text folder, size_t name)
{
    const struct grep_job *job = context;
    return wild_set_enters(&job->set, folder, name);
}

/* ---- The result ------------------------------------------------------------------------------ */

/* Prints lines of one file, up to `lines_max` matching lines and as much as there is room for.
 * Returns the number of matching lines. */
static uint64_t print_lines(struct grep_job *job, struct bl_text text, uint64_t lines_max)
{
    struct bl_buffer *out = &job->file.out;
    struct bl_text line;
    uint64_t lines = 0;
    while (lines < lines_max && out->size < job->file.output_max &&
           bl_text_split(&text, '\n', &line)) {
        lines += line.data[strspn(line.data, "0123456789")] == ':';
        bl_buffer_append(out, line);
        bl_buffer_append_byte(out, '\n');
    }
    return lines;
}

/* Numbers of lines and files shown. */
struct shown {
    uint64_t lines;
    uint64_t files;
};

static struct shown print_items(struct grep_job *job)
{
    struct bl_buffer *out = &job->file.out;
    struct shown shown = {0};
    uint64_t limit = (uint64_t)job->limit;
    shelf_sort(&job->shelf);
    for (size_t i = 0; i < job->shelf.count && out->size < job->file.output_max; i++) {
        const struct shelf_item *item = job->shelf.items[i];
        bool content = job->request.output == GREP_CONTENT;
        if ((content ? shown.lines : shown.files) >= limit)
            break;
        if (content && i > 0)
            bl_buffer_append_byte(out, '\n');
        bool counts = job->request.output == GREP_COUNT;
        search_print_path(out, job->path.shown, item->path, counts ? ":" : "\n");
        if (counts)
            bl_buffer_printf(out, "%" PRIu64 "\n", item->matches);
        if (content)
            shown.lines += print_lines(job, item->text, limit - shown.lines);
        shown.files++;
    }
    return shown;
}

static void print_left_out(struct grep_job *job, struct shown shown)
{
    struct bl_buffer *out = &job->file.out;
    uint64_t lines = atomic_load(&job->matches) - shown.lines;
    uint64_t files = atomic_load(&job->files);
    bool content = job->request.output == GREP_CONTENT;
    if (content ? lines == 0 : files == shown.files)
        return;
    if (content)
        bl_buffer_printf(out,
                         "[%" PRIu64 " more matching line%s left out; %" PRIu64 " file%s matches",
                         lines, lines == 1 ? "" : "s", files, files == 1 ? " has" : "s have");
    else
        bl_buffer_printf(out, "[%" PRIu64 " more file%s left out", files - shown.files,
                         files - shown.files == 1 ? "" : "s");
    bl_buffer_append(out, out->size >= job->file.output_max
                              ? BL_TEXT(": narrow pattern, path or glob]\n")
                              : BL_TEXT(": narrow pattern, path or glob, or raise head_limit]\n"));
}

static void grep_print_found(struct grep_job *job, const struct walk *walk)
{
    struct bl_buffer *out = &job->file.out;
    uint64_t searched = atomic_load(&job->searched), binary = atomic_load(&job->binary);
    uint64_t unreadable = atomic_load(&job->unreadable), cut = atomic_load(&job->long_lines);
    print_left_out(job, print_items(job));
    if (atomic_load(&job->files) == 0)
        bl_buffer_printf(out, "No matches in %" PRIu64 " %s.\n", searched,
                         searched == 1 ? "file" : "files");
    if (binary > 0)
        bl_buffer_printf(out, "[%" PRIu64 " binary %s not searched]\n", binary,
                         binary == 1 ? "file was" : "files were");
    if (unreadable > 0)
        bl_buffer_printf(out, "[%" PRIu64 " %s not be read]\n", unreadable,
                         unreadable == 1 ? "file could" : "files could");
    if (cut > 0)
        bl_buffer_printf(out, "[%" PRIu64 " %s longer than 8 MiB: the rest was not searched]\n",
                         cut, cut == 1 ? "line is" : "lines are");
    search_print_unseen(out, walk->folders_unreadable, walk->rules_unreadable);
}

/* ---- The call -------------------------------------------------------------------------------- */

static bool grep_compile(struct grep_job *job)
{
    struct bl_error *error = bl_arena_zalloc(&job->file.arena, sizeof *error);
    struct bl_text source = job->input.pattern;
    /* Syntax of other engines with the same meaning. */
    if (bl_text_starts_with(source, BL_TEXT("(?i)"))) {
        source = (struct bl_text){source.data + 4, source.size - 4};
        job->input.ignores_case = true;
    }
    if (bl_text_find(source, BL_TEXT("[[:")) >= 0) {
        file_job_fail(
            &job->file,
            "Classes such as [[:alpha:]] are not supported: use \\w, \\d, \\s or \\p{L}.");
        return false;
    }
    int code = job->input.ignores_case ? bl_pattern_new_caseless(source, &job->pattern, error)
                                       : bl_pattern_new(source, &job->pattern, error);
    if (code != 0)
        file_job_fail(&job->file,
                      "Invalid regular expression: %s. Put a backslash before each of . * + ? ( ) "
                      "[ ] { } | ^ $ \\ to match it literally.",
                      error->message);
    return code == 0;
}

static bool read_glob(struct grep_job *job)
{
    struct bl_text glob = job->input.glob;
    const char *wrong;
    bool negated = bl_text_starts_with(glob, BL_TEXT("!"));
    if (glob.size == 0)
        return true;
    glob = (struct bl_text){glob.data + negated, glob.size - negated};
    if (!wild_set_read(&job->file.arena, glob, 0, &job->set, &wrong)) {
        file_job_fail(&job->file, "Invalid glob: %s.", wrong);
        return false;
    }
    job->set.negated = negated;
    return true;
}

/* Searches everything below the path, or the file at the path. */
static int search_all(struct grep_job *job, const atomic_bool *stopped)
{
    struct walk walk = {.top = job->path.absolute.data,
                        .home = job->path.root->path,
                        .denials = &job->file.denials,
                        .workspace = job->file.roots.workspace.path,
                        .stopped = stopped,
                        .heavy = true,
                        .context = job,
                        .take = grep_take};
    struct stat status = {0};
    int fd = tool_path_open(&job->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return search_fail_open(&job->file, &job->path, -fd, "");
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        search_file(job, 0, fd, (struct bl_text){"", 0});
    } else if (S_ISDIR(status.st_mode)) {
        walk.descriptor = fd;
        walk.wants = job->input.glob.size > 0 ? grep_wants : NULL;
        walk.enters = job->input.glob.size > 0 ? grep_enters : NULL;
        walk_run(&walk);
    } else {
        file_job_fail(&job->file, "'%s' is a %s, not a file.",
                      tool_path_show(&job->file.arena, job->path.shown), file_kind(status.st_mode));
    }
    close(fd);
    if (atomic_load(stopped))
        return BL_ECANCELED;
    if (!job->file.is_error)
        grep_print_found(job, &walk);
    return 0;
}

static int grep_run(void *payload, const atomic_bool *stopped)
{
    struct grep_job *job = payload;
    if (!file_job_resolve(&job->file, PATH_READ, &job->path) || !grep_compile(job))
        return 0;
    int code = 0;
    if (read_glob(job)) {
        job->request.pattern = job->pattern;
        job->request.stopped = stopped;
        job->request.lines_max = (uint64_t)job->limit;
        job->request.bytes_max = job->file.output_max;
        shelf_init(&job->shelf, (uint64_t)job->limit, job->file.output_max);
        code = search_all(job, stopped);
        shelf_done(&job->shelf);
        for (unsigned i = 0; i < WALK_THREADS_MAX; i++)
            grep_searcher_free(job->searchers[i]);
    }
    bl_pattern_free(job->pattern);
    return code;
}

static int grep_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct grep_job *job = file_job_new(sizeof *job, toolbox);
    const struct tool_grep_input *input = &job->input;
    file_job_read(&job->file, call, &tool_grep_input, &job->input, &input->path);
    job->request.output = input->output <= GREP_COUNT ? input->output : GREP_CONTENT;
    job->request.context = input->context;
    job->limit = input->head_limit > 0                 ? input->head_limit
                 : job->request.output == GREP_CONTENT ? CONTENT_LINES_DEFAULT
                                                       : FILES_DEFAULT;
    return file_job_call(&job->file, grep_run, "nothing was searched", call, ret_result, error);
}

static const char *grep_check(const void *given)
{
    struct bl_text glob = ((const struct tool_grep_input *)given)->glob;
    return glob.size > 0 && memchr(glob.data, '\0', glob.size) != NULL
               ? "the glob contains a NUL byte"
               : NULL;
}

static const char *const grep_outputs[] = {
    [GREP_CONTENT] = "content", [GREP_FILES] = "files", [GREP_COUNT] = "count"};
static const struct bl_names output_names = BL_NAMES(grep_outputs);

#define BL_RECORD_STRUCT struct tool_grep_input
static const struct bl_member grep_members[] = {
    BL_MEMBER_TEXT(
        "pattern", pattern, .least = 1, .most = 4096, .characters = true,
        .about = "Regular expression in JavaScript syntax, without lookaround and backreferences."),
    BL_MEMBER_TEXT("path", path, .optional = true, .least = 1,
                   .about = "Folder or file to search, relative to the workspace or absolute; "
                            "default: the workspace."),
    BL_MEMBER_TEXT("glob", glob, .optional = true, .least = 1, .most = 4096, .characters = true,
                   .about = "Search only matching files, for example '*.{c,h}' or 'src/**'; "
                            "'!*.md' searches all others."),
    BL_MEMBER_ENUM("output", output, &output_names, .optional = true,
                   .about = "content (default): matching lines with their numbers; files: paths of "
                            "files with matches; count: paths with the number of matching lines."),
    BL_MEMBER_INTEGER("context", context, .optional = true, .most = 50,
                      .about = "Number of lines to show before and after each match."),
    BL_MEMBER_BOOLEAN("ignore_case", ignores_case, .optional = true),
    BL_MEMBER_INTEGER(
        "head_limit", head_limit, .optional = true, .least = 1, .most = 10000,
        .about = "Maximum number of matching lines (default 250) or files (default 1000)."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_grep_input =
    BL_RECORD("input of grep", struct tool_grep_input, grep_members, .closed = true);

const struct tool_entry tool_grep = {
    .name = "grep",
    .subject = offsetof(struct tool_grep_input, path),
    .kind = SUBJECT_PATH,
    .reads = true,
    .parallel = true,
    .input = &tool_grep_input,
    .description = "Searches files for lines that match a regular expression; a match cannot span "
                   "lines. Results are sorted by path: each path is followed by its lines as "
                   "'number:text' and context as 'number-text'; long lines are truncated. Hidden "
                   "files are searched; binary files and files ignored by .gitignore or .ignore "
                   "are not; links are not followed. 'glob' is relative to 'path'; a glob without "
                   "'/' matches names in all folders. Reports what was left out.",
    .check = grep_check,
    .call = grep_call,
};
