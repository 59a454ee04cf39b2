/* Design notes. A file is streamed, in pieces of one size, whatever its own: lines before the page
 * are counted, those of the page are kept up to a length, and those after it are counted again, so
 * that the result can say what it left out. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/parts.h"

#define PIECE_SIZE      ((size_t)256 * 1024)
#define HEAD_SIZE       ((size_t)8192) /* tells text from other files */
#define LINES_DEFAULT   2000
#define LINE_CHARACTERS ((size_t)2000)
#define LINE_BYTES      (LINE_CHARACTERS * 4)
/* So much more is read behind the page to count lines, or of one line to find its end. */
#define COUNT_MAX ((uint64_t)64 * 1024 * 1024)
#define NOTES_MAX ((size_t)512)

struct read_job {
    struct file_job file;
    int64_t offset; /* the first line of the page, from 1 */
    int64_t limit;
    char *piece;
    struct bl_buffer line; /* what is kept of the line under way */
    uint64_t line_size;    /* all of it, without its end */
    int64_t number;        /* of the line under way, from 1 */
    int64_t next;          /* the first line after the page; 0: the page is not full */
    uint64_t behind;       /* bytes read since it is full */
    uint64_t lines_with_return;
    bool beyond_count; /* the rest was not even counted */
    bool marked;       /* begins with a byte order mark */
    bool broken;       /* something was no text */
    bool unfinished;   /* the last line has no end */
};

/* ---- Lines ----------------------------------------------------------------------------------- */

/* So much of a line as may be shown. */
static struct bl_text builtin_read_cut_line(const struct read_job *job, struct bl_text line)
{
    size_t bytes = 0, most = job->file.output_max / 2;
    for (size_t i = 0; i < LINE_CHARACTERS && bytes < line.size; i++) {
        uint32_t code_point;
        size_t size =
            bl_utf8_decode((struct bl_text){line.data + bytes, line.size - bytes}, &code_point);
        if (bytes + size > most)
            break;
        bytes += size > 0 ? size : 1;
    }
    return (struct bl_text){line.data, bytes};
}

/* Bytes that belong to no character, and NUL, become U+FFFD. */
static void add_valid(struct read_job *job, struct bl_text bytes)
{
    struct output_filter filter = {0};
    if (bl_utf8_valid(bytes) && memchr(bytes.data, '\0', bytes.size) == NULL) {
        bl_buffer_append(&job->file.out, bytes);
        return;
    }
    job->broken = true;
    for (size_t i = 0; i < bytes.size; i++)
        if (job->line.data[i] == '\0')
            job->line.data[i] = (char)0xFF;
    output_filter_add(&filter, bytes, &job->file.out);
    output_filter_end(&filter, &job->file.out);
}

/* The line under way has ended. */
static void show_line(struct read_job *job)
{
    struct bl_text line = bl_buffer_text(&job->line);
    if (job->line_size == line.size && line.size > 0 && line.data[line.size - 1] == '\r') {
        job->lines_with_return++;
        job->line_size--;
        line.size--;
    }
    struct bl_buffer *out = &job->file.out;
    struct bl_text shown = line.size > 0 ? builtin_read_cut_line(job, line) : line;
    if (out->size > 0 && out->size + shown.size + NOTES_MAX > job->file.output_max) {
        job->next = job->number;
        return;
    }
    bl_buffer_printf(out, "%6" PRId64 "\t", job->number);
    if (shown.size > 0)
        add_valid(job, shown);
    if (shown.size < job->line_size)
        bl_buffer_printf(out, " [%s%s more in this line]", job->beyond_count ? "at least " : "",
                         file_size_text(&job->file.arena, job->line_size - shown.size));
    bl_buffer_append_byte(out, '\n');
    if (job->number - job->offset + 1 >= job->limit)
        job->next = job->number + 1;
}

static bool on_page(const struct read_job *job)
{
    return job->number >= job->offset && job->next == 0;
}

static void builtin_read_end_line(struct read_job *job)
{
    if (on_page(job))
        show_line(job);
    bl_buffer_clear(&job->line);
    job->line_size = 0;
    job->number++;
}

static void take_bytes(struct read_job *job, struct bl_text bytes)
{
    while (bytes.size > 0) {
        const char *end = memchr(bytes.data, '\n', bytes.size);
        size_t size = end != NULL ? (size_t)(end - bytes.data) : bytes.size;
        if (on_page(job)) {
            size_t room = LINE_BYTES + 1 - job->line.size;
            bl_buffer_append(&job->line, (struct bl_text){bytes.data, size < room ? size : room});
        }
        job->line_size += size;
        if (end != NULL)
            builtin_read_end_line(job);
        size += end != NULL;
        bytes = (struct bl_text){bytes.data + size, bytes.size - size};
    }
}

/* ---- The file -------------------------------------------------------------------------------- */

/* What its first bytes show; NULL: it is text. */
static const char *not_text(struct bl_text head)
{
    bool cut;
    if (bl_text_starts_with(head, BL_TEXT("\xFF\xFE")) ||
        bl_text_starts_with(head, BL_TEXT("\xFE\xFF")))
        return "text in UTF-16, not UTF-8";
    if (memchr(head.data, '\0', head.size) != NULL)
        return "a binary file";
    if (bl_utf8_valid_prefix(head, &cut) < head.size && !(cut && head.size == HEAD_SIZE))
        return "not UTF-8: a binary file, or text in another encoding";
    return NULL;
}

static int fail_read(struct read_job *job, const struct tool_path *path)
{
    int code = errno;
    return file_job_fail(&job->file, "'%s' cannot be read: %s",
                         tool_path_show(&job->file.arena, path->shown), strerrordesc_np(code));
}

/* The first piece. True: there is more to do. */
static bool builtin_read_begin(struct read_job *job, const struct tool_path *path,
                               struct bl_text bytes, uint64_t size)
{
    const char *shown = tool_path_show(&job->file.arena, path->shown);
    const char *wrong =
        not_text((struct bl_text){bytes.data, bytes.size < HEAD_SIZE ? bytes.size : HEAD_SIZE});
    if (bytes.size == 0) {
        bl_buffer_printf(&job->file.out, "'%s' is empty.", shown);
        return false;
    }
    if (wrong != NULL) {
        file_job_fail(&job->file,
                      "'%s' is %s (%s), and is not shown. Use bash to look into it: file, xxd, "
                      "iconv.",
                      shown, wrong, file_size_text(&job->file.arena, size));
        return false;
    }
    job->marked = bl_text_starts_with(bytes, BL_TEXT("\xEF\xBB\xBF"));
    if (job->marked && bytes.size == 3)
        bl_buffer_printf(&job->file.out, "'%s' is empty but for a byte order mark.", shown);
    return !job->marked || bytes.size > 3;
}

/* 0, or BL_ECANCELED. */
static int stream(struct read_job *job, int fd, const struct tool_path *path, uint64_t size,
                  const atomic_bool *stopped)
{
    bool first = true;
    while (!job->beyond_count) {
        if (atomic_load(stopped))
            return BL_ECANCELED;
        ssize_t count = read(fd, job->piece, PIECE_SIZE);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_read(job, path);
        struct bl_text bytes = {job->piece, (size_t)count};
        if (first && !builtin_read_begin(job, path, bytes, size))
            return 0;
        if (first && job->marked)
            bytes = (struct bl_text){bytes.data + 3, bytes.size - 3};
        if (count == 0)
            break;
        first = false;
        take_bytes(job, bytes);
        job->behind += job->next != 0 ? (uint64_t)count : 0;
        job->beyond_count = job->behind > COUNT_MAX || (on_page(job) && job->line_size > COUNT_MAX);
    }
    job->unfinished = job->line_size > 0 && !job->beyond_count;
    if (job->line_size > 0)
        builtin_read_end_line(job);
    if (job->beyond_count && job->next == 0)
        job->next = job->number;
    return 0;
}

/* ---- The result ------------------------------------------------------------------------------ */

static void note_range(struct read_job *job, int64_t from, int64_t to, const char *what)
{
    if (to == from)
        bl_buffer_printf(&job->file.out, "[line %" PRId64 " left out%s]\n", from, what);
    else if (to > from)
        bl_buffer_printf(&job->file.out, "[lines %" PRId64 "-%" PRId64 " left out%s]\n", from, to,
                         what);
}

static void add_notes(struct read_job *job, uint64_t size)
{
    struct bl_arena *arena = &job->file.arena;
    struct bl_buffer *out = &job->file.out;
    int64_t lines = job->number - 1;
    bool to_the_end = job->next == 0 || job->next > lines;
    note_range(job, 1, job->offset - 1, "");
    if (job->beyond_count)
        bl_buffer_printf(out,
                         "[all from line %" PRId64 " on left out; the file has %s: read again with "
                         "offset %" PRId64 "]\n",
                         job->next, file_size_text(arena, size), job->next);
    else if (!to_the_end)
        note_range(job, job->next, lines,
                   bl_arena_printf(arena, ": read again with offset %" PRId64, job->next).data);
    if (job->marked && job->offset == 1)
        bl_buffer_printf(out, "[the file begins with a byte order mark]\n");
    if (job->lines_with_return > 0)
        bl_buffer_printf(out, "[lines end in CR LF]\n");
    if (job->unfinished && to_the_end)
        bl_buffer_printf(out, "[no newline at the end of the file]\n");
    if (job->broken)
        bl_buffer_printf(out, "[bytes that are no text are shown as \xEF\xBF\xBD]\n");
}

static int builtin_read_run(void *payload, const atomic_bool *stopped)
{
    struct read_job *job = payload;
    struct tool_path path;
    struct stat status;
    if (!file_job_resolve(&job->file, PATH_READ, &path))
        return 0;
    int fd = file_open(&job->file, &path, &status);
    if (fd < 0)
        return 0;
    job->number = 1;
    job->piece = bl_arena_alloc(&job->file.arena, PIECE_SIZE);
    bl_buffer_init(&job->line, LINE_BYTES + 1);
    int code = stream(job, fd, &path, (uint64_t)status.st_size, stopped);
    bl_buffer_done(&job->line);
    close(fd);
    if (code != 0 || job->file.is_error || job->number == 1)
        return code;
    if (job->offset >= job->number)
        return file_job_fail(&job->file,
                             "'%s' has %" PRId64 " line%s: offset %" PRId64 " is past its end.",
                             tool_path_show(&job->file.arena, path.shown), job->number - 1,
                             job->number == 2 ? "" : "s", job->offset);
    add_notes(job, (uint64_t)status.st_size);
    return 0;
}

static int builtin_read_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                             struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct read_job *job = file_job_new(sizeof *job, toolbox, call);
    job->offset = 1;
    job->limit = LINES_DEFAULT;
    bl_json_int64(bl_json_get(call->input, BL_TEXT("offset")), &job->offset);
    bl_json_int64(bl_json_get(call->input, BL_TEXT("limit")), &job->limit);
    return file_job_call(&job->file, builtin_read_run, "nothing was read", call, ret_result, error);
}

const struct tool_entry tool_read = {
    .name = "read",
    .subject = "path",
    .kind = SUBJECT_PATH,
    .reads = true,
    .parallel = true,
    .schema = "{\"type\":\"object\",\"properties\":{"
              "\"path\":{\"type\":\"string\",\"minLength\":1,"
              "\"description\":\"The file, relative to the workspace or absolute.\"},"
              "\"offset\":{\"type\":\"integer\",\"minimum\":1,"
              "\"description\":\"The first line to show; the file begins with line 1.\"},"
              "\"limit\":{\"type\":\"integer\",\"minimum\":1,"
              "\"description\":\"How many lines to show; 2000 if not given.\"}},"
              "\"required\":[\"path\"],\"additionalProperties\":false}",
    .description =
        "Shows a text file of the workspace, each line with its number and a tab before it, which "
        "are not part of the file. Shows 2000 lines at most unless 'limit' says otherwise, and "
        "less when they are long; notes in brackets at the end say which lines were left out and "
        "with which 'offset' to go on. Binary files are not shown. To list a folder use ls.",
    .call = builtin_read_call,
};
