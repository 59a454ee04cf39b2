#include <belay/base.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct bl_text bl_file_read(int directory, const char *path, char *out, size_t out_size)
{
    size_t size = 0;
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && size < out_size) {
        ssize_t count = read(fd, out + size, out_size - size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        size += (size_t)count;
    }
    if (fd >= 0)
        close(fd);
    return (struct bl_text){out, size};
}

#define PIECE_SIZE ((size_t)65536)

static int base_file_fail(int code, const char *why, const char **ret_why)
{
    *ret_why = why;
    return code;
}

int bl_descriptor_load(int fd, size_t size_max, struct bl_buffer *out, const char **ret_why)
{
    bl_buffer_init(out, size_max + 2 * PIECE_SIZE);
    for (;;) {
        if (out->size > size_max || bl_buffer_reserve(out, PIECE_SIZE) != 0)
            return base_file_fail(BL_ELIMIT, "too large", ret_why);
        ssize_t count = read(fd, out->data + out->size, PIECE_SIZE);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return base_file_fail(bl_error_from_errno(errno), strerrordesc_np(errno), ret_why);
        if (count == 0)
            return 0;
        out->size += (size_t)count;
    }
}

static int base_file_load(int fd, size_t size_max, struct bl_buffer *out, const char **ret_why)
{
    struct stat status;

    if (fd < 0 || fstat(fd, &status) != 0)
        return base_file_fail(errno == ENOTDIR ? BL_ENOENT : bl_error_from_errno(errno),
                              strerrordesc_np(errno), ret_why);
    if (S_ISDIR(status.st_mode))
        return base_file_fail(BL_EINVAL, "is a directory", ret_why);
    if (!S_ISREG(status.st_mode))
        return base_file_fail(BL_EINVAL, "not a regular file", ret_why);
    return bl_descriptor_load(fd, size_max, out, ret_why);
}

/* True if the open file is below `root`. Checks the descriptor and not the path, so that the file
 * cannot be exchanged in between. */
static bool lies_below(int fd, const char *root)
{
    char link[32], path[PATH_MAX];
    char *real = realpath(root, NULL);

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t count = readlink(link, path, sizeof path);
    size_t size = real != NULL ? strlen(real) : 0;
    /* "/" already ends in the slash that follows any other root. */
    size_t shared = size == 1 ? 0 : size;
    bool below = size > 0 && count > (ssize_t)shared && count < (ssize_t)sizeof path &&
                 memcmp(path, real, shared) == 0 && path[shared] == '/';
    free(real);
    return below;
}

int bl_file_load_below(const char *root, const char *path, size_t size_max, struct bl_buffer *out,
                       const char **ret_why)
{
    bl_buffer_init(out, size_max + 2 * PIECE_SIZE);
    /* O_NONBLOCK, so as not to wait for the other end of a FIFO, which is refused anyway. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int code =
        fd >= 0 && root != NULL && !lies_below(fd, root)
            ? base_file_fail(BL_EREFUSED, "is a link to a file outside of the folder", ret_why)
            : base_file_load(fd, size_max, out, ret_why);
    if (fd >= 0)
        close(fd);
    return code;
}

int bl_file_load(const char *path, size_t size_max, struct bl_buffer *out, const char **ret_why)
{
    return bl_file_load_below(NULL, path, size_max, out, ret_why);
}

/* Tries the folder itself first. Its parents usually exist, and trying each of them would wait for
 * the holders of their locks. */
static int make_folder(char *path, unsigned mode)
{
    int result = mkdir(path, mode) == 0 || errno == EEXIST ? 0 : -errno;
    if (result != -ENOENT)
        return result;
    result = 0;
    for (char *slash = strchr(path + 1, '/'); slash != NULL && result == 0;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, mode) != 0 && errno != EEXIST)
            result = -errno;
        *slash = '/';
    }
    if (result == 0 && mkdir(path, mode) != 0 && errno != EEXIST)
        result = -errno;
    return result;
}

static int make_part(struct bl_text path, unsigned mode)
{
    struct bl_arena arena = {0};
    int result = make_folder((char *)bl_arena_text(&arena, path).data, mode);
    bl_arena_done(&arena);
    return result;
}

int bl_folder_make(const char *path, unsigned mode)
{
    return make_part(bl_text_from(path), mode);
}

int bl_folder_make_above(const char *path, unsigned mode)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL || slash == path
               ? 0
               : make_part((struct bl_text){path, (size_t)(slash - path)}, mode);
}

const char *bl_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *bl_user_folder(struct bl_arena *arena, enum bl_user_folder which,
                           const char *(*variable)(const char *name))
{
    static const struct {
        const char *name;
        const char *below;
    } places[] = {
        [BL_USER_CONFIG] = {"XDG_CONFIG_HOME", ".config"},
        [BL_USER_DATA] = {"XDG_DATA_HOME", ".local/share"},
        [BL_USER_STATE] = {"XDG_STATE_HOME", ".local/state"},
    };
    variable = variable != NULL ? variable : bl_variable;
    const char *own = variable(places[which].name), *home = variable("HOME");
    if (own != NULL && own[0] == '/')
        return bl_arena_printf(arena, "%s/belay", own).data;
    if (home != NULL && home[0] == '/')
        return bl_arena_printf(arena, "%s/%s/belay", home, places[which].below).data;
    return NULL;
}

size_t bl_repository_size(struct bl_arena *arena, const char *directory)
{
    size_t size = strlen(directory);

    for (size_t end = size; end > 0; end--) {
        if (end != size && directory[end] != '/')
            continue;
        struct bl_text path = bl_arena_printf(arena, "%.*s/.git", (int)end, directory);
        if (access(path.data, F_OK) == 0)
            return end;
    }
    return size;
}
