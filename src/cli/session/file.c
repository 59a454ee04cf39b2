#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "session.h"

#define INPUT_MAX ((size_t)2 * 1024 * 1024 * 1024)
#define READ_SIZE ((size_t)256 * 1024)

static int fail_file(struct session_work *work, const char *operation, const char *path, int failed)
{
    return bl_error_set(&work->error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, operation,
                        path, "cannot %s '%s': %s", operation, path, strerror(failed));
}

/* ---- Export ---------------------------------------------------------------------------------- */

struct export
{
    struct session_work *work;
    int fd; /* -1 for standard output */
    const char *path;
    int failed; /* errno */
};

static int session_file_write_line(void *context, struct bl_text line)
{
    struct export *export = context;

    export->work->lines++;
    if (export->fd < 0) {
        export->work->exit_code = cli_print_raw(export->work->call, line, CLI_EXIT_OK);
        return export->work->exit_code == CLI_EXIT_OK ? 0 : BL_EPIPE;
    }
    while (line.size > 0) {
        ssize_t count = write(export->fd, line.data, line.size);
        if (count < 0 && errno != EINTR) {
            export->failed = errno;
            return BL_EIO;
        }
        if (count > 0) {
            line.data += count;
            line.size -= (size_t)count;
        }
    }
    return 0;
}

/* Opens a new file beside `path`, under another name, with access for the owner only. */
static int open_beside(struct session_work *work, const char *path, const char **ret_beside)
{
    uint64_t random;

    bl_random_bytes(&random, sizeof random);
    *ret_beside =
        bl_arena_printf(&work->arena, "%s.%016llx", path, (unsigned long long)random).data;
    return open(*ret_beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int settle_file(struct export *export, const char *beside, int code)
{
    if (export->failed == 0 && code == 0 && fsync(export->fd) < 0)
        export->failed = errno;
    close(export->fd);
    if (export->failed == 0 && code == 0 && rename(beside, export->path) < 0)
        export->failed = errno;
    if (export->failed != 0) {
        export->work->error = (struct bl_error){0};
        code = fail_file(export->work, "write", export->path, export->failed);
    }
    if (code != 0)
        unlink(beside);
    return code;
}

int session_export(struct session_work *work)
{
    struct export export = {.work = work, .fd = -1, .path = work->file};
    const char *beside = NULL;

    work->id = work->source;
    work->path = export.path;
    if (export.path != NULL) {
        export.fd = open_beside(work, export.path, &beside);
        if (export.fd < 0)
            return fail_file(work, "write", export.path, errno);
    }
    int code =
        bl_store_export(work->store, work->id, session_file_write_line, &export, &work->error);
    return export.fd >= 0 ? settle_file(&export, beside, code) : code;
}

/* ---- Import ---------------------------------------------------------------------------------- */

int session_read_input(struct session_work *work, const char *path)
{
    bool standard = path == NULL || strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct bl_buffer buffer;
    ssize_t count = 1;

    if (standard)
        path = "standard input";
    if (fd < 0)
        return fail_file(work, "read", path, errno);
    bl_buffer_init(&buffer, INPUT_MAX);
    while (count != 0 && bl_buffer_reserve(&buffer, READ_SIZE) == 0) {
        count = read(fd, buffer.data + buffer.size, READ_SIZE);
        if (count < 0 && errno != EINTR)
            break;
        if (count > 0)
            buffer.size += (size_t)count;
    }
    int code = 0;
    if (count < 0)
        code = fail_file(work, "read", path, errno);
    else if (count > 0)
        code = bl_error_set(&work->error, BL_ELIMIT, BL_KIND_USAGE, "read", path,
                            "'%s' has more than %zu MiB", path, INPUT_MAX >> 20);
    else
        work->input = bl_arena_text(&work->arena, bl_buffer_text(&buffer));
    bl_buffer_done(&buffer);
    if (!standard)
        close(fd);
    return code;
}
