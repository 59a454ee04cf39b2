#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/parts.h"

#define SIZE_MAX_OF_FILE ((size_t)32 * 1024 * 1024)
#define PLACES_MAX       ((size_t)20) /* that are told of */
#define HUNKS_MAX        3u           /* that are shown */
#define HUNK_LINES_MAX   30u          /* of each side */
#define CONTEXT_LINES    2u

struct edit_job {
    struct file_job file;
    struct bl_text old;
    struct bl_text new;
    bool all;
    struct tool_path path;
    const char *shown;
    struct bl_text content; /* before */
    struct bl_text result;
    size_t count;              /* of places where it stands */
    size_t places[PLACES_MAX]; /* the first of them */
};

/* A run of whole lines that became another. */
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

/* Counts the places, none of which overlap, and notes the first. */
static void find_places(struct edit_job *job, const atomic_bool *stopped)
{
    const char *at;
    job->count = 0;
    for (size_t from = 0;
         !atomic_load(stopped) && (at = edit_find(job->content, from, job->old)) != NULL;) {
        size_t place = (size_t)(at - job->content.data);
        if (job->count < PLACES_MAX)
            job->places[job->count] = place;
        job->count++;
        from = place + job->old.size;
    }
    /* One that overlaps with the only one would do as well: it is not clear which is meant. */
    if (job->count == 1 && !job->all &&
        (at = edit_find(job->content, job->places[0] + 1, job->old)) != NULL)
        job->places[job->count++] = (size_t)(at - job->content.data);
}

/* Every line of the file ends in CR LF, and there is one. */
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

/* Models write LF: in a file of CR LF that is what is meant. */
static void adapt_line_ends(struct edit_job *job)
{
    struct bl_arena *arena = &job->file.arena;
    if (memchr(job->old.data, '\r', job->old.size) != NULL ||
        memchr(job->new.data, '\r', job->new.size) != NULL || !ends_in_return(job->content))
        return;
    job->old = with_returns(arena, job->old);
    job->new = with_returns(arena, job->new);
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

/* False: the text is not there, or more than once, or the call was stopped. */
static bool find_what_is_meant(struct edit_job *job, const atomic_bool *stopped)
{
    struct file_job *file = &job->file;
    adapt_line_ends(job);
    find_places(job, stopped);
    if (atomic_load(stopped))
        return false;
    if (job->count == 0) {
        edit_miss_explain(file, job->shown, job->content, job->old, stopped);
        return false;
    }
    if (job->count == 1 || job->all)
        return true;
    file_job_fail(file, "old_string stands %zu times in '%s', at ", job->count, job->shown);
    add_places(job);
    bl_buffer_printf(&file->out, ". Nothing was changed. Give more of the text around the one that "
                                 "is meant, or set replace_all.");
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
        const char *at = memmem(rest.data, rest.size, job->old.data, job->old.size);
        size_t before = (size_t)(at - rest.data), skip = before + job->old.size;
        code = bl_buffer_append(&out, (struct bl_text){rest.data, before});
        if (code == 0)
            code = bl_buffer_append(&out, job->new);
        rest = (struct bl_text){rest.data + skip, rest.size - skip};
    }
    if (code == 0)
        code = bl_buffer_append(&out, rest);
    if (code != 0)
        file_job_fail(&job->file, "'%s' would become larger than %s; nothing was changed.",
                      job->shown, file_size_text(&job->file.arena, SIZE_MAX_OF_FILE));
    else
        job->result = bl_arena_text(&job->file.arena, bl_buffer_text(&out));
    return code == 0;
}

/* ---- What changed ---------------------------------------------------------------------------- */

/* The whole lines around the places from `*index` on that touch each other. */
static struct hunk next_hunk(const struct edit_job *job, size_t *index)
{
    size_t grown = job->new.size - job->old.size; /* may wrap, and wraps back */
    struct hunk hunk = {.old_from = edit_line_start(job->content, job->places[*index])};
    hunk.new_from = hunk.old_from + *index * grown;
    do {
        size_t end = job->places[*index] + job->old.size;
        bool whole = job->content.data[end - 1] == '\n' &&
                     (job->new.size > 0 ? job->new.data[job->new.size - 1] == '\n'
                                        : job->places[*index] == hunk.old_from);
        hunk.old_to = whole ? end : edit_line_end(job->content, end);
        ++*index;
    } while (*index < job->count && *index < PLACES_MAX && job->places[*index] < hunk.old_to);
    hunk.new_to = hunk.old_to + *index * grown;
    return hunk;
}

/* Without the lines at both ends that stayed as they were. */
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

/* At most so many lines of [from, to), each with that mark; the rest is counted. */
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
        bl_buffer_printf(&job->file.out, "[%zu more replacements are not shown]\n",
                         job->count - index);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* Without a text to look for: a file that is not there yet, or holds nothing. */
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
                             "old_string is empty, and '%s' is not (%s). Give the text to replace, "
                             "or use write to replace all of it.",
                             job->shown, file_size_text(&file->arena, (uint64_t)status.st_size));
    int code = file_replace(file, &job->path, job->new, there ? &status : NULL, stopped, &replaced);
    if (code == 0 && !file->is_error)
        bl_buffer_printf(&file->out, "%s '%s': %s.", replaced.existed ? "Filled" : "Created",
                         job->shown, file_size_text(&file->arena, job->new.size));
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
        return file_job_fail(file, "'%s' is a binary file, and was not changed.", job->shown);
    if (!find_what_is_meant(job, stopped) || !replace_places(job, stopped))
        return atomic_load(stopped) ? BL_ECANCELED : 0;
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
    /* For one that is to be read, what is not there is told with what may have been meant. */
    if (job->old.size > 0 && !file_job_resolve(&job->file, PATH_READ, &job->path))
        return 0;
    if (!file_job_resolve(&job->file, PATH_WRITE, &job->path))
        return 0;
    job->shown = tool_path_show(&job->file.arena, job->path.shown);
    return job->old.size > 0 ? change_file(job, stopped) : create_file(job, stopped);
}

static int edit_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct edit_job *job = file_job_new(sizeof *job, toolbox, call);
    job->old = file_job_text(&job->file, call, "old_string");
    job->new = file_job_text(&job->file, call, "new_string");
    job->all = bl_json_boolean(bl_json_get(call->input, BL_TEXT("replace_all")), false);
    return file_job_call(&job->file, edit_run, "nothing was changed", call, ret_result, error);
}

static const char *edit_check(const struct bl_json *input)
{
    if (bl_text_equal(bl_json_text(bl_json_get(input, BL_TEXT("old_string"))),
                      bl_json_text(bl_json_get(input, BL_TEXT("new_string")))))
        return "old_string and new_string are the same, so nothing would change";
    return NULL;
}

const struct tool_entry tool_edit = {
    .name = "edit",
    .subject = "path",
    .kind = SUBJECT_PATH,
    .schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"path\":{\"type\":\"string\",\"minLength\":1,"
        "\"description\":\"The file, relative to the workspace or absolute.\"},"
        "\"old_string\":{\"type\":\"string\","
        "\"description\":\"The text to replace, exactly as it stands in the file, white space "
        "included, without the line numbers that read shows; enough of it that it stands there "
        "only once. Empty: to make a new file.\"},"
        "\"new_string\":{\"type\":\"string\","
        "\"description\":\"What to put in its place; empty to take it out.\"},"
        "\"replace_all\":{\"type\":\"boolean\","
        "\"description\":\"Replace it wherever it stands; false if not given.\"}},"
        "\"required\":[\"path\",\"old_string\",\"new_string\"],\"additionalProperties\":false}",
    .description =
        "Replaces a piece of text in a file of the workspace, in one step. The text must match "
        "exactly and, without 'replace_all', stand there only once; otherwise nothing is changed, "
        "and the answer says what is nearest or where it stands. Line ends and mode of the file "
        "are kept. Shows what changed. Read the file first.",
    .check = edit_check,
    .call = edit_call,
};
