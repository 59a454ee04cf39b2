#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/agent.h>

#define INSTRUCTIONS_MAX ((size_t)256 * 1024)
#define FILE_NAME        "AGENTS.md"

/* Adds the file to the list if it is there. */
static int add_file(struct bl_arena *arena, const char *path, struct bl_list *list,
                    struct bl_error *error)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        const char *why = fd < 0 ? strerror(errno) : "not a regular file";
        if (fd >= 0)
            close(fd);
        return bl_error_set(error, BL_EIO, BL_KIND_FILESYSTEM, "read instructions", path,
                            "cannot read %s: %s", path, why);
    }
    char *data = bl_arena_alloc(arena, INSTRUCTIONS_MAX + 2);
    struct bl_text text = {data, 0};
    ssize_t count;
    while (text.size <= INSTRUCTIONS_MAX &&
           (count = read(fd, data + text.size, INSTRUCTIONS_MAX + 1 - text.size)) > 0)
        text.size += (size_t)count;
    close(fd);
    bl_arena_resize(arena, data, INSTRUCTIONS_MAX + 2, text.size);
    if (text.size > INSTRUCTIONS_MAX)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_FILESYSTEM, "read instructions", path,
                            "%s is larger than 256 KiB", path);
    if (!bl_utf8_valid(text))
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, "read instructions", path,
                            "%s is not valid UTF-8", path);
    struct bl_instruction *instruction = bl_arena_alloc(arena, sizeof *instruction);
    instruction->path = path;
    instruction->text = text;
    bl_list_push_back(list, &instruction->link);
    return 0;
}

static int add_users_own(struct bl_arena *arena, struct bl_list *list, struct bl_error *error)
{
    const char *configuration = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");

    if (configuration != NULL && configuration[0] == '/')
        return add_file(arena, bl_arena_printf(arena, "%s/belay/" FILE_NAME, configuration).data,
                        list, error);
    if (home != NULL && home[0] == '/')
        return add_file(arena, bl_arena_printf(arena, "%s/.config/belay/" FILE_NAME, home).data,
                        list, error);
    return 0;
}

int bl_instructions_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_list,
                         struct bl_error *error)
{
    size_t size = strlen(directory);

    bl_list_init(ret_list);
    int code = add_users_own(arena, ret_list, error);
    for (size_t end = bl_repository_size(arena, directory); code == 0 && end <= size; end++) {
        if (end != size && directory[end] != '/')
            continue;
        code = add_file(arena, bl_arena_printf(arena, "%.*s/" FILE_NAME, (int)end, directory).data,
                        ret_list, error);
    }
    return code;
}
