#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/parts.h"

#define SIZE_MAX_OF_FILE ((size_t)32 * 1024 * 1024)
#define PLACES_MAX       ((size_t)20) /* listed in messages */
#define HUNKS_MAX        3u           /* shown */
#define HUNK_LINES_MAX   30u          /* on each side */
#define CONTEXT_LINES    2u

struct edit_job {
    struct file_job file;
    struct tool_edit_input input;
    bool rehearsed; /* everything is done but the change itself */
    struct tool_path path;
    const char *shown;
    struct bl_text content; /* before */
    struct bl_text result;
    size_t count;              /* number of places where the text occurs */
    size_t places[PLACES_MAX]; /* offsets of the first ones */
};

/* A range of whole lines that was replaced by another. */
struct hunk {
    size_t old_from, old_to;
    size_t new_from, new_to;
};

/* ---- Lines ----------------------------------------------------------------------------------- */

size_t edit_line_start(struct bl_text content, size_t offset)
{
    const char *end = offset > 0 ? memrchr(content.data, '\n', offset) : NULL;
    return end != NULL ? (size_t)(end - content.data) + 1 : 0;
}

size_t edit_line_end(struct bl_text content, size_t offset)
{
    const char *end =
        offset < content.size ? memchr(content.data + offset, '\n', content.size - offset) : NULL;
    return end != NULL ? (size_t)(end - content.data) + 1 : content.size;
}

uint64_t edit_line_at(struct bl_text content, size_t offset)
{
    uint64_t line = 1;
    const char *at = content.data, *end = content.data + offset;
    for (; at != end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
        line++;
    return line;
}

struct bl_text edit_line(struct bl_text content, size_t offset)
{
    size_t from = edit_line_start(content, offset), to = edit_line_end(content, offset);
    while (to > from && (content.data[to - 1] == '\n' || content.data[to - 1] == '\r'))
        to--;
    return (struct bl_text){content.data + from, to - from};
}

const char *edit_line_show(struct bl_arena *arena, struct bl_text line)
{
    struct bl_text cut = bl_utf8_cut(line, 200);
    return bl_arena_printf(arena, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(cut),
                           cut.size < line.size ? " …" : "")
        .data;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static const char *edit_find(struct bl_text content, size_t from, struct bl_text needle)
{
    return from <= content.size
               ? memmem(content.data + from, content.size - from, needle.data, needle.size)
               : NULL;
}

/* Counts the non-overlapping places, and stores the first. */
static void find_places(struct edit_job *job, const atomic_bool *stopped)
{
    const char *at;
    job->count = 0;
    for (size_t from = 0;
         !atomic_load(stopped) && (at = edit_find(job->content, from, job->input.old)) != NULL;) {
        size_t place = (size_t)(at - job->content.data);
        if (job->count < PLACES_MAX)
            job->places[job->count] = place;
        job->count++;
        from = place + job->input.old.size;
    }
    /* A second match that overlaps the only one would be just as valid: it is unclear which is
     * meant. */
    if (job->count == 1 && !job->input.all &&
        (at = edit_find(job->content, job->places[0] + 1, job->input.old)) != NULL)
        job->places[job->count++] = (size_t)(at - job->content.data);
}

/* Returns whether every line of the file ends in CR LF, and there is at least one. */
static bool ends_in_return(struct bl_text content)
{
    size_t lines = 0;
    for (size_t at = 0; (at = edit_line_end(content, at)) > 0 && content.data[at - 1] == '\n';
         lines++) {
        if (at < 2 || content.data[at - 2] != '\r')
            return false;
        if (at == content.size)
            return true;
    }
    return lines > 0;
}

static struct bl_text with_returns(struct bl_arena *arena, struct bl_text text)
{
    char *out = bl_arena_alloc(arena, 2 * text.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\n')
            out[size++] = '\r';
        out[size++] = text.data[i];
    }
    return (struct bl_text){out, size};
}

/* Models write LF: in a file with CR LF they mean CR LF. */
static void adapt_line_ends(struct edit_job *job)
{
    struct bl_arena *arena = &job->file.arena;
    if (memchr(job->input.old.data, '\r', job->input.old.size) != NULL ||
        memchr(job->input.new.data, '\r', job->input.new.size) != NULL ||
        !ends_in_return(job->content))
        return;
    job->input.old = with_returns(arena, job->input.old);
    job->input.new = with_returns(arena, job->input.new);
}

static void add_places(struct edit_job *job)
{
    struct bl_buffer *out = &job->file.out;
    size_t shown = job->count < PLACES_MAX ? job->count : PLACES_MAX;
    for (size_t i = 0; i < shown; i++)
        bl_buffer_printf(out, "%s%" PRIu64, i == 0 ? (job->count == 1 ? "line " : "lines ") : ", ",
                         edit_line_at(job->content, job->places[i]));
    if (job->count > shown)
        bl_buffer_printf(out, " and %zu more", job->count - shown);
}

/* Returns false if the text does not occur, occurs more than once, or the call was stopped. */
static bool find_match(struct edit_job *job, const atomic_bool *stopped)
{
    struct file_job *file = &job->file;
    adapt_line_ends(job);
    find_places(job, stopped);
    if (atomic_load(stopped))
        return false;
    if (job->count == 0) {
        edit_miss_explain(file, job->shown, job->content, job->input.old, stopped);
        return false;
    }
    if (job->count == 1 || job->input.all)
        return true;
    file_job_fail(file, "old_string occurs %zu times in '%s', at ", job->count, job->shown);
    add_places(job);
    bl_buffer_printf(&file->out, ". Nothing was changed. Include more of the surrounding text to "
                                 "make it unique, or set replace_all.");
    return false;
}

/* ---- The new content ------------------------------------------------------------------------- */

static bool replace_places(struct edit_job *job, const atomic_bool *stopped)
{
    BL_AUTO_BUFFER(out, SIZE_MAX_OF_FILE);
    struct bl_text rest = job->content;
    int code = 0;
    bl_buffer_reserve(&out, rest.size);
    for (size_t i = 0; code == 0 && i < job->count && !atomic_load(stopped); i++) {
        const char *at = memmem(rest.data, rest.size, job->input.old.data, job->input.old.size);
        size_t before = (size_t)(at - rest.data), skip = before + job->input.old.size;
        code = bl_buffer_append(&out, (struct bl_text){rest.data, before});
        if (code == 0)
            code = bl_buffer_append(&out, job->input.new);
        rest = (struct bl_text){rest.data + skip, rest.size - skip};
    }
    if (code == 0)
        code = bl_buffer_append(&out, rest);
    if (code != 0)
        file_job_fail(&job->file, "'%s' would be larger than %s; nothing was changed.", job->shown,
                      file_size_text(&job->file.arena, SIZE_MAX_OF_FILE));
    else
        job->result = bl_arena_text(&job->file.arena, bl_buffer_text(&out));
    return code == 0;
}

/* ---- Report of the changes ------------------------------------------------------------------- */

/* Returns the range of whole lines around the places from `*index` on whose lines touch. */
static struct hunk next_hunk(const struct edit_job *job, size_t *index)
{
    size_t grown = job->input.new.size - job->input.old.size; /* may wrap, and wraps back */
    struct hunk hunk = {.old_from = edit_line_start(job->content, job->places[*index])};
    hunk.new_from = hunk.old_from + *index * grown;
    do {
        size_t end = job->places[*index] + job->input.old.size;
        bool whole = job->content.data[end - 1] == '\n' &&
                     (job->input.new.size > 0 ? job->input.new.data[job->input.new.size - 1] == '\n'
                                              : job->places[*index] == hunk.old_from);
        hunk.old_to = whole ? end : edit_line_end(job->content, end);
        ++*index;
    } while (*index < job->count && *index < PLACES_MAX && job->places[*index] < hunk.old_to);
    hunk.new_to = hunk.old_to + *index * grown;
    return hunk;
}

/* Removes unchanged lines at both ends. */
static void trim_hunk(const struct edit_job *job, struct hunk *hunk)
{
    const struct bl_text old = job->content, new = job->result;
    for (;;) {
        size_t a = edit_line_end(old, hunk->old_from), b = edit_line_end(new, hunk->new_from);
        size_t size = a - hunk->old_from;
        if (hunk->old_from >= hunk->old_to || hunk->new_from >= hunk->new_to ||
            size != b - hunk->new_from ||
            memcmp(old.data + hunk->old_from, new.data + hunk->new_from, size) != 0)
            break;
        hunk->old_from = a;
        hunk->new_from = b;
    }
    while (hunk->old_to > hunk->old_from && hunk->new_to > hunk->new_from) {
        size_t a = edit_line_start(old, hunk->old_to - 1),
               b = edit_line_start(new, hunk->new_to - 1);
        size_t size = hunk->old_to - a;
        if (size != hunk->new_to - b || memcmp(old.data + a, new.data + b, size) != 0)
            break;
        hunk->old_to = a;
        hunk->new_to = b;
    }
}

/* Appends at most `most` lines of [from, to), each with that mark; the rest is counted. */
static void edit_add_lines(struct edit_job *job, char mark, struct bl_text content, size_t from,
                           size_t to, size_t most)
{
    struct bl_buffer *out = &job->file.out;
    size_t lines = 0;
    for (; from < to; from = edit_line_end(content, from), lines++)
        if (lines < most)
            bl_buffer_printf(out, "%c%s\n", mark,
                             edit_line_show(&job->file.arena, edit_line(content, from)));
    if (lines > most)
        bl_buffer_printf(out, "%c[%zu more %s]\n", mark, lines - most,
                         lines - most == 1 ? "line" : "lines");
}

static void add_hunk(struct edit_job *job, struct hunk hunk)
{
    const struct bl_text old = job->content;
    trim_hunk(job, &hunk);
    size_t from = hunk.old_from, to = hunk.old_to;
    for (unsigned i = 0; i < CONTEXT_LINES && from > 0; i++)
        from = edit_line_start(old, from - 1);
    for (unsigned i = 0; i < CONTEXT_LINES; i++)
        to = edit_line_end(old, to);
    bl_buffer_printf(&job->file.out, "@@ line %" PRIu64 " @@\n",
                     edit_line_at(job->result, hunk.new_from));
    edit_add_lines(job, ' ', old, from, hunk.old_from, CONTEXT_LINES);
    edit_add_lines(job, '-', old, hunk.old_from, hunk.old_to, HUNK_LINES_MAX);
    edit_add_lines(job, '+', job->result, hunk.new_from, hunk.new_to, HUNK_LINES_MAX);
    edit_add_lines(job, ' ', old, hunk.old_to, to, CONTEXT_LINES);
}

static void add_hunks(struct edit_job *job)
{
    size_t index = 0, known = job->count < PLACES_MAX ? job->count : PLACES_MAX;
    for (unsigned i = 0; i < HUNKS_MAX && index < known; i++)
        add_hunk(job, next_hunk(job, &index));
    if (index < job->count)
        bl_buffer_printf(&job->file.out, "[%zu more replacement%s not shown]\n", job->count - index,
                         job->count - index == 1 ? "" : "s");
}

/* ---- The call -------------------------------------------------------------------------------- */

/* Without a text to search for: the file must not exist yet, or be empty. */
static int create_file(struct edit_job *job, const atomic_bool *stopped)
{
    struct file_job *file = &job->file;
    struct file_replaced replaced;
    struct stat status;
    int fd = tool_path_open(&job->path, O_PATH);
    bool there = fd >= 0 && fstat(fd, &status) == 0;
    if (fd >= 0)
        close(fd);
    if (there && S_ISREG(status.st_mode) && status.st_size > 0)
        return file_job_fail(file,
                             "old_string is empty, but '%s' is not (%s). Give the text to replace, "
                             "or use write to replace the whole file.",
                             job->shown, file_size_text(&file->arena, (uint64_t)status.st_size));
    if (job->rehearsed)
        return 0;
    int code =
        file_replace(file, &job->path, job->input.new, there ? &status : NULL, stopped, &replaced);
    if (code == 0 && !file->is_error)
        bl_buffer_printf(&file->out, "%s '%s': %s.", replaced.existed ? "Wrote" : "Created",
                         job->shown, file_size_text(&file->arena, job->input.new.size));
    return code;
}

static int change_file(struct edit_job *job, const atomic_bool *stopped)
{
    struct file_job *file = &job->file;
    struct file_replaced replaced;
    struct stat status;
    if (!file_load(file, &job->path, SIZE_MAX_OF_FILE, stopped, &job->content, &status))
        return file->is_error ? 0 : BL_ECANCELED;
    if (memchr(job->content.data, '\0', job->content.size) != NULL)
        return file_job_fail(file, "'%s' is a binary file; it was not changed.", job->shown);
    if (!find_match(job, stopped) || !replace_places(job, stopped))
        return atomic_load(stopped) ? BL_ECANCELED : 0;
    if (job->rehearsed)
        return 0;
    int code = file_replace(file, &job->path, job->result, &status, stopped, &replaced);
    if (code != 0 || file->is_error)
        return code;
    bl_buffer_printf(&file->out, "Edited '%s': %zu replacement%s, at ", job->shown, job->count,
                     job->count == 1 ? "" : "s");
    add_places(job);
    bl_buffer_printf(&file->out, ".\n");
    add_hunks(job);
    return 0;
}

static int edit_run(void *payload, const atomic_bool *stopped)
{
    struct edit_job *job = payload;
    /* Resolving it for reading suggests similar names if it does not exist. */
    if (job->input.old.size > 0 && !file_job_resolve(&job->file, PATH_READ, &job->path))
        return 0;
    if (!file_job_resolve(&job->file, PATH_WRITE, &job->path))
        return 0;
    job->shown = tool_path_show(&job->file.arena, job->path.shown);
    return job->input.old.size > 0 ? change_file(job, stopped) : create_file(job, stopped);
}

static int edit_do(struct bl_toolbox *toolbox, const struct bl_tool_call *call, bool rehearsed,
                   struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct edit_job *job = file_job_new(sizeof *job, toolbox);
    job->rehearsed = rehearsed;
    file_job_read(&job->file, call, &tool_edit_input, &job->input, &job->input.path);
    return file_job_call(&job->file, edit_run, "nothing was changed", call, ret_result, error);
}

/* A call that the check found to fail was not permitted, so it must not change the file. */
static int edit_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    int code = edit_do(toolbox, call, call->fails, ret_result, error);
    if (code == 0 && call->fails && !ret_result->is_error)
        *ret_result = (struct bl_tool_result){
            .text = BL_TEXT("The file was changed by another program in the meantime, and the edit "
                            "was not made. Read the file again, then retry."),
            .is_error = true};
    return code;
}

static bool edit_fails(struct bl_toolbox *toolbox, const struct bl_tool_call *call)
{
    struct bl_tool_result result;
    struct bl_error error = {0};
    return edit_do(toolbox, call, true, &result, &error) == 0 && result.is_error;
}

static const char *edit_check(const void *given)
{
    const struct tool_edit_input *input = given;
    return bl_text_equal(input->old, input->new) ? "old_string and new_string are identical" : NULL;
}

#define BL_RECORD_STRUCT struct tool_edit_input
static const struct bl_member edit_members[] = {
    BL_MEMBER_TEXT("path", path, .least = 1,
                   .about = "Path of the file, relative to the workspace or absolute."),
    BL_MEMBER_TEXT("old_string", old,
                   .about = "Text to replace, exactly as in the file, including white space, but "
                            "without the line numbers that read shows. It must occur only once, "
                            "unless replace_all is set. Empty to create a new file."),
    BL_MEMBER_TEXT("new_string", new, .about = "Replacement text; empty to delete the old text."),
    BL_MEMBER_BOOLEAN("replace_all", all, .optional = true,
                      .about = "Replace all occurrences; default false."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_edit_input =
    BL_RECORD("input of edit", struct tool_edit_input, edit_members, .closed = true);

const struct tool_entry tool_edit = {
    .name = "edit",
    .subject = offsetof(struct tool_edit_input, path),
    .kind = SUBJECT_PATH,
    .input = &tool_edit_input,
    .description =
        "Replaces text in a file of the workspace, atomically. 'old_string' must match exactly "
        "and, without 'replace_all', occur only once; otherwise nothing is changed, and the result "
        "shows the nearest text or the lines where it occurs. Line endings and file mode are "
        "preserved. Returns the changed lines. Read the file first.",
    .check = edit_check,
    .call = edit_call,
    .fails = edit_fails,
};
