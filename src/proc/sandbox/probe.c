#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#include "proc/probe.h"
#include "sandbox.h"

#define OUTPUT_MAX 512u

/* Copies the first line of a program's output, without control characters. */
static void first_line(struct bl_buffer *output, char *out, size_t out_size)
{
    struct bl_text rest = bl_text_trim(bl_buffer_text(output));
    struct bl_text line = {0};
    size_t size = 0;

    bl_text_split(&rest, '\n', &line);
    line.size = bl_utf8_valid_prefix(line, NULL);
    line = bl_utf8_cut(line, out_size - 1);
    for (; size < line.size; size++) {
        unsigned char byte = (unsigned char)line.data[size];
        out[size] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
    }
    out[size] = '\0';
}

/* Finds the version: "bubblewrap 0.8.0" gives 0.8.0. */
static void find_version(struct bl_container_check *check, const char *path)
{
    const char *const arguments[] = {path, "--version", NULL};
    BL_AUTO_BUFFER(output, OUTPUT_MAX);
    struct proc_child_end end;
    char line[sizeof check->version];

    if (proc_program_run(arguments, proc_probe_limit_ms, &output, &end) == 0 && !end.timed_out &&
        !end.by_signal && end.status == 0) {
        first_line(&output, line, sizeof line);
        const char *space = strrchr(line, ' ');
        snprintf(check->version, sizeof check->version, "%s", space != NULL ? space + 1 : line);
    }
}

static void probe_explain(struct bl_container_check *check, const char *path, int result,
                          const struct proc_child_end *end, struct bl_buffer *output)
{
    char line[160];

    first_line(output, line, sizeof line);
    if (result == -EAGAIN || result == -ENOMEM || result == -EMFILE || result == -ENFILE) {
        proc_check_untried(check, "cannot start %.100s: %s", path, strerror(-result));
    } else if (result != 0) {
        proc_check_answer(check, false, "cannot start %.100s: %s", path, strerror(-result));
    } else if (end->timed_out) {
        proc_check_answer(check, false, "%.100s timed out after %d s", path,
                          proc_probe_limit_ms / 1000);
    } else if (end->by_signal) {
        proc_check_answer(check, false, "%.100s was killed by signal %d", path, end->status);
    } else if (end->status != 0) {
        proc_check_answer(check, false, "does not work here: %s",
                          line[0] != '\0' ? line : "no output");
        proc_check_hint(
            check, "bubblewrap needs user namespaces, and does not work in a chroot; see pidns in "
                   "'belay doctor'");
    } else {
        proc_check_answer(check, true, "%.100s", path);
    }
}

/* Uses the arguments that a tool would get, without network: bringing up the loopback interface is
 * the step that most often fails in a container. Only here the command is the first process of its
 * namespace: bubblewrap does not wait for a first process of its own, which would become an orphan
 * of this process if it is a subreaper. */
void proc_bubblewrap_probe(const char *path, struct bl_container_check *check)
{
    static const char *const command[] = {"true", NULL};
    struct bl_arena arena = {0};
    BL_AUTO_BUFFER(output, OUTPUT_MAX);
    struct proc_child_end end = {0};

    *check = (struct bl_container_check){0};
    find_version(check, path);
    const struct bl_sandbox_view view = {.sandbox = BL_SANDBOX_READ_ONLY};
    struct mounts mounts = {.arena = &arena};
    proc_bubblewrap_mounts(&view, &mounts, NULL);
    const char *const *wrapped = proc_bubblewrap_arguments(&arena, path, &view, &mounts, command);
    size_t count = 0;
    while (wrapped[count] != NULL)
        count++;
    const char **arguments = bl_arena_alloc(&arena, (count + 2) * sizeof *arguments);
    arguments[0] = path;
    arguments[1] = "--as-pid-1";
    memcpy(arguments + 2, wrapped + 1, count * sizeof *arguments);
    int result = proc_program_run(arguments, proc_probe_limit_ms, &output, &end);
    probe_explain(check, path, result, &end, &output);
    bl_arena_done(&arena);
}

/* PATH may lead to another program later; only the result for the last one is stored. */
void bl_sandbox_check(struct bl_container_check *ret_check)
{
    static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
    static char known_path[PATH_MAX];
    static struct bl_container_check known;
    char *path = bl_alloc(PATH_MAX);

    if (proc_bubblewrap_find(path, PATH_MAX, ret_check)) {
        pthread_mutex_lock(&guard);
        if (strcmp(path, known_path) != 0) {
            proc_bubblewrap_probe(path, &known);
            memcpy(known_path, path, strlen(path) + 1);
            if (known.untried)
                known_path[0] = '\0';
        }
        *ret_check = known;
        pthread_mutex_unlock(&guard);
    }
    bl_free(path);
}
