#include "mcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

#define OPERATION    "read the token"
#define ELSEWHERE    "use another file with --token-file"
#define TOKEN_BYTES  32u
#define TOKEN_DIGITS (2 * TOKEN_BYTES)
/* 256 bits in base64, without padding. */
#define TOKEN_SIZE_MIN 43u
#define TOKEN_SIZE_MAX 512u

static int mcp_token_fail(const char *path, int failed, struct bl_error *error)
{
    bl_error_set(error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, OPERATION, path,
                 "the token file '%.300s' cannot be used: %s", path, strerrordesc_np(failed));
    bl_error_hint(error, ELSEWHERE);
    return bl_error_from_errno(failed);
}

int mcp_token_path(struct bl_arena *arena, const char **ret_path, struct bl_error *error)
{
    const char *folder = bl_user_folder(arena, BL_USER_STATE, bl_variable);

    if (folder != NULL) {
        *ret_path = bl_arena_printf(arena, "%s/mcp-token", folder).data;
        return 0;
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, OPERATION, "--token-file",
                 "no folder for the token: neither XDG_STATE_HOME nor HOME is set");
    bl_error_hint(error, "set HOME, or give --token-file");
    return BL_ENOENT;
}

/* ---- Reading a token ------------------------------------------------------------------------- */

static int check_token(const char *path, struct bl_text line, struct bl_error *error)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-._~+/=";
    size_t fitting = 0;

    while (fitting < line.size && memchr(allowed, line.data[fitting], sizeof allowed - 1) != NULL)
        fitting++;
    if (fitting == line.size && line.size >= TOKEN_SIZE_MIN && line.size <= TOKEN_SIZE_MAX)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, path,
                 "the token file '%.300s' has no valid token: its first line must have %u to %u of "
                 "the characters A-Z a-z 0-9 - . _ ~ + / =",
                 path, TOKEN_SIZE_MIN, TOKEN_SIZE_MAX);
    bl_error_hint(error, "remove the file, and belay creates a new one");
    return BL_EINVAL;
}

static int check_file(const char *path, int fd, struct bl_error *error)
{
    struct stat facts;

    if (fstat(fd, &facts) != 0)
        return mcp_token_fail(path, errno, error);
    if (!S_ISREG(facts.st_mode)) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, path,
                     "the token file '%.300s' is not a regular file", path);
        bl_error_hint(error, ELSEWHERE);
        return BL_EINVAL;
    }
    if (facts.st_uid == geteuid() && (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0)
        return 0;
    bl_error_set(error, BL_EACCES, BL_KIND_USAGE, OPERATION, path,
                 "other users have access to the token file '%.300s'", path);
    bl_error_hint(error, "restrict it to yourself: chmod 600 %.300s", path);
    return BL_EACCES;
}

/* Returns BL_ENOENT without setting `*error` if there is no such file. */
static int read_token(struct bl_arena *arena, const char *path, const char **ret_token,
                      struct bl_error *error)
{
    char data[TOKEN_SIZE_MAX + 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return errno == ENOENT ? BL_ENOENT : mcp_token_fail(path, errno, error);
    int code = check_file(path, fd, error);
    ssize_t count = code == 0 ? read(fd, data, sizeof data) : 0;
    if (count < 0)
        code = mcp_token_fail(path, errno, error);
    close(fd);
    if (code != 0)
        return code;
    struct bl_text rest = {data, (size_t)count}, line = {0};
    bl_text_split(&rest, '\n', &line);
    line = bl_text_trim(line);
    code = check_token(path, line, error);
    if (code == 0)
        *ret_token = bl_arena_text(arena, line).data;
    return code;
}

/* ---- Creating a token ------------------------------------------------------------------------ */

static bool write_token(int fd)
{
    unsigned char bytes[TOKEN_BYTES];
    char line[TOKEN_DIGITS + 2];

    bl_random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(line + 2 * i, 3, "%02x", bytes[i]);
    line[TOKEN_DIGITS] = '\n';
    return write(fd, line, TOKEN_DIGITS + 1) == (ssize_t)(TOKEN_DIGITS + 1) && fsync(fd) == 0;
}

/* Creates the file atomically, because another process may read or create it at the same time. If
 * two create it, the first one wins. */
static int make_token(struct bl_arena *arena, const char *path, struct bl_error *error)
{
    char *draft = bl_arena_alloc(arena, strlen(path) + sizeof ".XXXXXX");

    /* If the folder cannot be created, creating the file in it fails and reports the error. */
    bl_folder_make_above(path, 0700);
    memcpy(draft, path, strlen(path));
    memcpy(draft + strlen(path), ".XXXXXX", sizeof ".XXXXXX");
    int fd = mkostemp(draft, O_CLOEXEC);
    if (fd < 0)
        return mcp_token_fail(path, errno, error);
    int failed = write_token(fd) ? 0 : errno != 0 ? errno : EIO;
    close(fd);
    if (failed == 0 && link(draft, path) != 0 && errno != EEXIST)
        failed = errno;
    unlink(draft);
    return failed == 0 ? 0 : mcp_token_fail(path, failed, error);
}

int mcp_token_read(struct bl_arena *arena, const char *path, const char **ret_token,
                   struct bl_error *error)
{
    int code = read_token(arena, path, ret_token, error);

    if (code != BL_ENOENT)
        return code;
    code = make_token(arena, path, error);
    if (code == 0)
        code = read_token(arena, path, ret_token, error);
    if (code == BL_ENOENT)
        code = mcp_token_fail(path, ENOENT, error);
    return code;
}
