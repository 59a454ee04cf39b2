#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMAND_SIZE 4096
#define OUTPUT_MAX   ((size_t)1 << 20)

static void run_shell(const char *command)
{
    int status = system(command);
    if (status != 0)
        fail_msg("'%s' gave status %d", command, status);
}

void place_make(struct place *place)
{
    const char *temporary = getenv("TMPDIR");
    char path[200];
    snprintf(path, sizeof path, "%s/belay-feature-XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(path));
    char *real = realpath(path, NULL);
    assert_non_null(real);
    bl_text_into(place->root, sizeof place->root, real);
    free(real);
    snprintf(place->repository, sizeof place->repository, "%s/repo", place->root);
    char command[COMMAND_SIZE];
    snprintf(command, sizeof command,
             "git init -q -b main '%s' && cd '%s' && git config user.name Test && "
             "git config user.email test@example.test && echo hello > README.md && "
             "git add -A && git commit -q -m first",
             place->repository, place->repository);
    run_shell(command);
}

void place_done(struct place *place)
{
    char command[COMMAND_SIZE];
    snprintf(command, sizeof command, "chmod -R u+rwX '%s'; rm -rf '%s'", place->root, place->root);
    run_shell(command);
}

static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) != 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
}

void place_write(const struct place *place, const char *path, const char *text)
{
    char full[1024];
    snprintf(full, sizeof full, "%s/%s", place->repository, path);
    make_folders(full);
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

struct bl_text place_read(const struct place *place, const char *path)
{
    char full[1024];
    snprintf(full, sizeof full, "%s/%s", place->repository, path);
    if (access(full, R_OK) != 0)
        return (struct bl_text){0};
    return suite_read_file(full);
}

void place_git(const struct place *place, const char *arguments)
{
    char command[COMMAND_SIZE];
    snprintf(command, sizeof command, "git -C '%s' %s", place->repository, arguments);
    run_shell(command);
}

char *place_git_output(const struct place *place, const char *arguments)
{
    char command[COMMAND_SIZE];
    snprintf(command, sizeof command, "git -C '%s' %s", place->repository, arguments);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    char *text = bl_zalloc(OUTPUT_MAX);
    size_t size = fread(text, 1, OUTPUT_MAX - 1, pipe);
    if (pclose(pipe) != 0)
        fail_msg("'%s' failed", command);
    while (size > 0 && text[size - 1] == '\n')
        text[--size] = '\0';
    return text;
}
