#include "runner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/json.h>

#include "proc/parts.h"

#define WORDS_MAX 48u

const char *runner_program(void)
{
    static char path[PATH_MAX];
    const char *root = getenv("BELAY_BUILD_ROOT");

    if (root == NULL)
        fail_msg("BELAY_BUILD_ROOT is not set");
    snprintf(path, sizeof path, "%s/belay", root);
    return path;
}

static void read_back(int fd, char *out)
{
    ssize_t size = pread(fd, out, RUN_OUTPUT_MAX - 1, 0);
    assert_true(size >= 0);
    out[size] = '\0';
    close(fd);
}

/* Returns our environment with `added` in front, where getenv finds it first. Leak detection costs
 * seconds per process, and is done in tests that link the library; the same holds for waiting for
 * races at exit. */
static char **make_environment(const char *const *added)
{
    size_t count = 0, used = 0;

    while (environ[count] != NULL)
        count++;
    char **result = bl_zalloc((count + WORDS_MAX) * sizeof *result);
    result[used++] = (char *)"ASAN_OPTIONS=detect_leaks=0";
    result[used++] = (char *)"TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0";
    for (size_t i = 0; added != NULL && added[i] != NULL && i < WORDS_MAX - 3; i++)
        result[used++] = (char *)added[i];
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "ASAN_OPTIONS=", 13) != 0 &&
            strncmp(environ[i], "TSAN_OPTIONS=", 13) != 0 &&
            strncmp(environ[i], "NO_COLOR=", 9) != 0)
            result[used++] = environ[i];
    }
    return result;
}

void runner_run_with(struct run *run, const char *const *arguments, const char *const *environment,
                     int output_fd)
{
    char *words[WORDS_MAX] = {(char *)runner_program()};
    posix_spawn_file_actions_t actions;
    int status;

    for (size_t i = 0; arguments[i] != NULL; i++) {
        assert_true(i + 2 < WORDS_MAX);
        words[i + 1] = (char *)arguments[i];
    }
    int out = memfd_create("out", MFD_CLOEXEC);
    int err = memfd_create("err", MFD_CLOEXEC);
    assert_true(out >= 0 && err >= 0);
    char **variables = make_environment(environment);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (output_fd == RUN_CLOSE)
        posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO);
    else
        posix_spawn_file_actions_adddup2(&actions, output_fd == RUN_KEEP ? out : output_fd,
                                         STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    run->from_ns = bl_clock_now_ns(&bl_clock_system);
    int result = posix_spawn(&run->pid, words[0], &actions, NULL, words, variables);
    posix_spawn_file_actions_destroy(&actions);
    bl_free(variables);
    if (result != 0)
        fail_msg("%s: %s", words[0], strerror(result));
    assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
    run->to_ns = bl_clock_now_ns(&bl_clock_system);
    run->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_back(out, run->out);
    read_back(err, run->err);
}

static const struct bl_json *read_json(struct bl_arena *arena, struct bl_text text)
{
    struct bl_json_fault fault;
    const struct bl_json *value = NULL;

    if (bl_json_read(arena, text, NULL, &value, &fault) != 0) {
        char message[256];
        bl_json_fault_text(&fault, message, sizeof message);
        fail_msg("%s", message);
    }
    return value;
}

void runner_check_schema(const char *name, const char *json)
{
    struct bl_arena arena;
    struct bl_list problems;
    struct bl_json_schema *schema = NULL;
    struct bl_error error = {0};
    char path[PATH_MAX];
    const char *root = getenv("BELAY_SOURCE_ROOT");

    bl_arena_init(&arena);
    snprintf(path, sizeof path, "%s/docs/schemas/%s.json", root != NULL ? root : ".", name);
    struct bl_text source = suite_read_file(path);
    if (bl_json_schema_new(read_json(&arena, source), &schema, &error) != 0)
        fail_msg("%s: %s", path, error.message);
    assert_int_equal(bl_json_schema_ignored(schema, 0).size, 0);
    int result =
        bl_json_schema_check(schema, read_json(&arena, bl_text_from(json)), &arena, &problems);
    BL_LIST_EACH (link, &problems) {
        struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        print_error("%s: " BL_TEXT_FORMAT " " BL_TEXT_FORMAT "\n", name, BL_TEXT_ARG(problem->path),
                    BL_TEXT_ARG(problem->message));
    }
    assert_int_equal(result, 0);
    bl_json_schema_free(schema);
    bl_free((void *)source.data);
    bl_arena_done(&arena);
}

size_t runner_count_cgroups(void)
{
    char own[PATH_MAX];
    size_t count = 0;

    if (!proc_cgroup_directory(own, sizeof own))
        return 0;
    DIR *directory = opendir(own);
    if (directory == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += strncmp(entry->d_name, "belay-probe-", 12) == 0;
    closedir(directory);
    return count;
}
