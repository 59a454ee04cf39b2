#include "script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_load(const char *path, int code, const char *message, const char *hint,
                     struct bl_error *error)
{
    bl_error_set(error, code, BL_KIND_FILESYSTEM, SCRIPT_OPERATION, path, "%s", message);
    bl_error_hint(error, "%s", hint);
    return code;
}

/* All that `fd` has, which is a regular file; what is over the limit is refused. */
static int read_all(int fd, const char *path, struct bl_buffer *out, struct bl_error *error)
{
    for (;;) {
        if (bl_buffer_reserve(out, 65536) != 0)
            return fail_load(path, BL_ELIMIT, "the script is larger than 16 MiB",
                             "name a file that is a script", error);
        ssize_t count = read(fd, out->data + out->size, 65536);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_load(path, bl_error_from_errno(errno), strerrordesc_np(errno),
                             "check the file", error);
        if (count == 0)
            return 0;
        out->size += (size_t)count;
    }
}

/* What is wrong in a file is told with its name. */
static void name_file(const char *path, struct bl_error *error)
{
    struct bl_error inside = *error;
    char shown[160];

    bl_text_into(shown, sizeof shown, path);
    snprintf(error->message, sizeof error->message, "%s: %.340s", shown, inside.message);
    error->message[bl_utf8_valid_prefix(bl_text_from(error->message), NULL)] = '\0';
}

static int load_open(int fd, const char *path, struct bl_script **ret_script,
                     struct bl_error *error)
{
    struct bl_buffer source;
    struct stat status;

    if (fstat(fd, &status) != 0)
        return fail_load(path, bl_error_from_errno(errno), strerrordesc_np(errno), "check the file",
                         error);
    if (S_ISDIR(status.st_mode))
        return fail_load(path, BL_EINVAL, "it is a directory", "name the script in it", error);
    if (!S_ISREG(status.st_mode))
        return fail_load(path, BL_EINVAL, "it is not a regular file",
                         "write the script to a file, and name that", error);
    bl_buffer_init(&source, SCRIPT_SIZE_MAX + 65536);
    int result = read_all(fd, path, &source, error);
    if (result == 0)
        result = bl_script_parse(bl_buffer_text(&source), path, ret_script, error);
    if (result == BL_EPARSE && error != NULL)
        name_file(path, error);
    bl_buffer_done(&source);
    return result;
}

int bl_script_load(const char *path, struct bl_script **ret_script, struct bl_error *error)
{
    /* Not to wait for the other end of a FIFO, which is refused anyway. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail_load(path, bl_error_from_errno(errno), strerrordesc_np(errno),
                         "check the path; it is relative to the working directory", error);
    int result = load_open(fd, path, ret_script, error);
    close(fd);
    return result;
}
