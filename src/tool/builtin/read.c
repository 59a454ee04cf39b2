/* A file is streamed, in pieces of a fixed size, into a page of its lines (page.c). */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/parts.h"

#define PIECE_SIZE ((size_t)256 * 1024)
#define HEAD_SIZE  ((size_t)8192) /* enough to tell text from other files */
/* Chosen so that the base64 text is within the limit of models. */

struct read_job {
    struct file_job file;
    struct tool_read_input input; /* with defaults filled in */
    char *piece;
    struct text_page page;
    bool marked;               /* begins with a byte order mark */
    bool unfinished;           /* the last line has no line ending */
    struct bl_text image_type; /* of an image; empty for other files */
};

/* ---- The file -------------------------------------------------------------------------------- */

/* Returns what the first bytes show, or NULL for text. */
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
    return file_job_fail(&job->file, "cannot read '%s': %s",
                         tool_path_show(&job->file.arena, path->shown), strerrordesc_np(code));
}

/* Handles the first piece. Returns true if there is more to do. */
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
    if (wrong != NULL && (job->image_type = bl_image_type(bytes)).size > 0)
        return false;
    if (wrong != NULL) {
        file_job_fail(&job->file,
                      "'%s' is %s (%s), and is not shown. Inspect it with bash: file, xxd, iconv.",
                      shown, wrong, file_size_text(&job->file.arena, size));
        return false;
    }
    job->marked = bl_text_starts_with(bytes, BL_TEXT("\xEF\xBB\xBF"));
    if (job->marked && bytes.size == 3)
        bl_buffer_printf(&job->file.out, "'%s' contains only a byte order mark.", shown);
    return !job->marked || bytes.size > 3;
}

/* Reads a whole image, for a model that takes images; the turn tells other models that they take
 * none. Returns 0, or BL_ECANCELED. */
static int read_image(struct read_job *job, int fd, const struct tool_path *path, uint64_t size,
                      const atomic_bool *stopped)
{
    struct bl_arena *arena = &job->file.arena;
    const char *shown = tool_path_show(arena, path->shown);
    BL_AUTO_BUFFER(content, BL_IMAGE_BYTES_MAX + PIECE_SIZE);
    BL_AUTO_BUFFER(digits, BL_IMAGE_SIZE_MAX);
    ssize_t count = 1;

    while (count > 0 && content.size <= BL_IMAGE_BYTES_MAX) {
        if (atomic_load(stopped))
            return BL_ECANCELED;
        count = pread(fd, job->piece, PIECE_SIZE, (off_t)content.size);
        if (count < 0 && errno != EINTR)
            return fail_read(job, path);
        if (count > 0)
            bl_buffer_append(&content, (struct bl_text){job->piece, (size_t)count});
        count = count < 0 ? 1 : count;
    }
    if (content.size > BL_IMAGE_BYTES_MAX ||
        bl_base64_encode(&digits, bl_buffer_text(&content)) != 0)
        return file_job_fail(&job->file,
                             "'%s' is an image of %s, but models accept at most %s. Make a smaller "
                             "copy, and read that.",
                             shown, file_size_text(arena, size),
                             file_size_text(arena, BL_IMAGE_BYTES_MAX));
    job->file.image = bl_arena_zalloc(arena, sizeof *job->file.image);
    job->file.image->name = job->image_type;
    job->file.image->text = bl_arena_text(arena, bl_buffer_text(&digits));
    bl_buffer_printf(&job->file.out, "'%s' is an image (" BL_TEXT_FORMAT ", %s).", shown,
                     BL_TEXT_ARG(job->image_type), file_size_text(arena, content.size));
    return 0;
}

/* Returns 0, or BL_ECANCELED. */
static int stream(struct read_job *job, int fd, const struct tool_path *path, uint64_t size,
                  const atomic_bool *stopped)
{
    bool first = true;
    while (!job->page.beyond_count) {
        if (atomic_load(stopped))
            return BL_ECANCELED;
        ssize_t count = read(fd, job->piece, PIECE_SIZE);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_read(job, path);
        struct bl_text bytes = {job->piece, (size_t)count};
        if (first && !builtin_read_begin(job, path, bytes, size))
            return job->image_type.size > 0 ? read_image(job, fd, path, size, stopped) : 0;
        if (first && job->marked)
            bytes = (struct bl_text){bytes.data + 3, bytes.size - 3};
        if (count == 0)
            break;
        first = false;
        text_page_add(&job->page, bytes);
    }
    job->unfinished = text_page_end(&job->page);
    return 0;
}

/* ---- The result ------------------------------------------------------------------------------ */

static void add_notes(struct read_job *job, uint64_t size)
{
    struct bl_buffer *out = &job->file.out;
    text_page_note(&job->page, "file", "read", size);
    if (job->marked && job->input.offset == 1)
        bl_buffer_printf(out, "[the file begins with a byte order mark]\n");
    if (job->page.lines_with_return > 0)
        bl_buffer_printf(out, "[lines end in CR LF]\n");
    if (job->unfinished && text_page_is_last(&job->page))
        bl_buffer_printf(out, "[no newline at the end of the file]\n");
    if (job->page.broken)
        bl_buffer_printf(out, "[invalid bytes are shown as \xEF\xBF\xBD]\n");
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
    job->piece = bl_arena_alloc(&job->file.arena, PIECE_SIZE);
    text_page_init(&job->page, &job->file.arena, &job->file.out, job->file.output_max,
                   job->input.offset, job->input.limit);
    int code = stream(job, fd, &path, (uint64_t)status.st_size, stopped);
    text_page_done(&job->page);
    close(fd);
    if (code != 0 || job->file.is_error || job->page.number == 1)
        return code;
    if (job->input.offset >= job->page.number)
        return file_job_fail(&job->file,
                             "'%s' has %" PRId64 " line%s: offset %" PRId64 " is past its end.",
                             tool_path_show(&job->file.arena, path.shown), job->page.number - 1,
                             job->page.number == 2 ? "" : "s", job->input.offset);
    add_notes(job, (uint64_t)status.st_size);
    return 0;
}

static int builtin_read_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                             struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct read_job *job = file_job_new(sizeof *job, toolbox);
    struct tool_read_input *input = &job->input;
    file_job_read(&job->file, call, &tool_read_input, input, &input->path);
    input->offset = input->offset > 0 ? input->offset : 1;
    input->limit = input->limit > 0 ? input->limit : TEXT_PAGE_LINES;
    return file_job_call(&job->file, builtin_read_run, "nothing was read", call, ret_result, error);
}

#define BL_RECORD_STRUCT struct tool_read_input
static const struct bl_member read_members[] = {
    BL_MEMBER_TEXT("path", path, .least = 1,
                   .about = "Path of the file, relative to the workspace or absolute."),
    BL_MEMBER_INTEGER("offset", offset, .optional = true, .least = 1,
                      .about = "First line to show, counted from 1."),
    BL_MEMBER_INTEGER("limit", limit, .optional = true, .least = 1,
                      .about = "Number of lines to show; default 2000."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_read_input =
    BL_RECORD("input of read", struct tool_read_input, read_members, .closed = true);

const struct tool_entry tool_read = {
    .name = "read",
    .subject = offsetof(struct tool_read_input, path),
    .kind = SUBJECT_PATH,
    .reads = true,
    .parallel = true,
    .input = &tool_read_input,
    .description =
        "Shows a text file of the workspace. Each line is preceded by its number and a tab, which "
        "are not part of the file. Shows at most 2000 lines unless 'limit' is given, and fewer if "
        "they are long; notes in brackets at the end report which lines were left out and the "
        "'offset' to continue with. Images (png, jpeg, gif, webp) are shown to models that accept "
        "images; other binary files are not shown. To list a folder, use ls.",
    .call = builtin_read_call,
};
