#include "field.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "figure.h"

#define PATIENCE_S 30
#define STEP_NS    5000000

static void run_shell(const char *command)
{
    int status = system(command);
    if (status != 0)
        fail_msg("'%s' gave status %d", command, status);
}

int field_begin(void **state)
{
    stage_begin(state);
    run_shell("git init -q -b main . && git config user.name Test && "
              "git config user.email test@example.test && echo hello > README.md && "
              "git add -A && git commit -q -m first && mkdir ../seats");
    return 0;
}

/* Kills what a failed test left running: everything with this stage's home. */
static void end_what_is_left(void)
{
    char home[4096];
    pid_t left = 0;
    snprintf(home, sizeof home, "HOME=%s", getenv("HOME"));
    for (int i = 0; i < 500 && field_processes(home, &left) > 0 && left != getpid(); i++) {
        kill(left, SIGKILL);
        field_rest(0.002);
    }
}

int field_end(void **state)
{
    end_what_is_left();
    run_shell("chmod -R u+rwX .");
    return stage_end(state);
}

double field_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void field_rest(double seconds)
{
    struct timespec span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&span, NULL);
}

void field_window(const char *name, double seconds, double low, double high)
{
    if (!figure_between(name, (seconds - low) * 1e3, 0, (high - low) * 1e3))
        fail_msg("%s: %.3f s, not %.3f to %.3f s", name, seconds, low, high);
}

void field_bound(const char *name, double seconds, double high)
{
    field_window(name, seconds, 0, high);
}

static void rest(void)
{
    struct timespec step = {0, STEP_NS};
    nanosleep(&step, NULL);
}

/* ---- The plan -------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    char folder[4096];
    bl_text_into(folder, sizeof folder, path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0777) != 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

void field_touch(const char *path)
{
    write_file(path, "");
}

const char *field_seat(const char *name, const char *shell)
{
    const char *path = stage_path(stage_printf("seats/%s.sh", name));
    write_file(path, shell);
    return stage_printf("[sh, %s]", path);
}

const char *field_verdict(void)
{
    const char *path = stage_path("seats/verdict");
    if (!stage_exists(path))
        write_file(path,
                   "verdict() {\n"
                   "cat > \"$BELAY_RESULT.part\" <<END\n"
                   "{\"task\":\"$BELAY_TASK\",\"turn\":$BELAY_TURN,\"decision\":\"$1\","
                   "\"rationale\":\"because\",\"criteria\":[{\"id\":\"AC-001\",\"result\":\"$2\","
                   "\"notes\":\"\"}],\"issues\":$3}\n"
                   "END\n"
                   "mv \"$BELAY_RESULT.part\" \"$BELAY_RESULT\"\n"
                   "}\n");
    return path;
}

const char *field_player(const char *name, const char *before)
{
    return field_seat(name, stage_printf("cat > \"$BELAY_RESULT.prompt\"\n%s\n"
                                         "echo \"turn $BELAY_TURN\" > \"$BELAY_TASK.txt\"\n"
                                         "echo '{\"summary\":\"done\"}' > \"$BELAY_RESULT\"\n",
                                         before));
}

const char *field_coach(const char *name, const char *before)
{
    return field_seat(name,
                      stage_printf("cat > /dev/null\n. %s\n%s\nverdict approve verified '[]'\n",
                                   field_verdict(), before));
}

void field_write(const char *path, const char *text)
{
    write_file(stage_path(stage_printf("work/%s", path)), text);
}

void field_task(const char *id, const char *front_matter)
{
    field_write(stage_printf("tasks/%s.md", id),
                stage_printf("---\nid: %s\ntitle: Task %s\n%s---\nDo %s.\n\n"
                             "## Acceptance Criteria\n\n- [ ] %s.txt is there\n",
                             id, id, front_matter, id, id));
}

void field_plan(const char *yaml)
{
    field_write(".belay/features/FEAT.yaml", stage_printf("id: FEAT\nname: A feature\n%s", yaml));
}

void field_pair(const char *player, const char *coach, const char *limits, const char *more)
{
    field_task("A", "");
    field_task("B", "");
    field_plan(stage_printf("tasks:\n"
                            "  - {id: A, file_path: tasks/A.md}\n"
                            "  - {id: B, file_path: tasks/B.md}\n"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n"
                            "  limits: {%s min_turn_budget: 0s}\n%s",
                            player, coach, limits, more));
    field_commit();
}

void field_tasks(const char *ids, const char *player, const char *coach, const char *limits,
                 const char *more)
{
    struct bl_text rest_of = bl_text_from(ids), id;
    const char *tasks = "";
    while (bl_text_split(&rest_of, ' ', &id)) {
        const char *name = stage_keep(id);
        field_task(name, "");
        tasks = stage_printf("%s  - {id: %s, file_path: tasks/%s.md}\n", tasks, name, name);
    }
    field_plan(stage_printf("tasks:\n%s"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n"
                            "  limits: {%s min_turn_budget: 0s}\n%s",
                            tasks, player, coach, limits, more));
    field_commit();
}

void field_git(const char *arguments)
{
    run_shell(stage_printf("git %s", arguments));
}

const char *field_git_output(const char *arguments)
{
    static char text[65536];
    FILE *pipe = popen(stage_printf("git %s", arguments), "re");
    assert_non_null(pipe);
    size_t size = fread(text, 1, sizeof text - 1, pipe);
    if (pclose(pipe) != 0)
        fail_msg("git %s failed", arguments);
    while (size > 0 && text[size - 1] == '\n')
        size--;
    return stage_keep((struct bl_text){text, size});
}

void field_commit(void)
{
    run_shell("git add -A && git commit -q -m plan");
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* Returns the path of the library, beside this program. */
static const char *bad_disk_library(void)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(size > 0);
    path[size] = '\0';
    *strrchr(path, '/') = '\0';
    return stage_printf("%s/libbad_disk.so", path);
}

void field_start_on_bad_disk(struct held *held, const char *verb, const char *variable,
                             const char *mark)
{
    const char *const words[] = {"env",
                                 stage_printf("LD_PRELOAD=%s", bad_disk_library()),
                                 stage_printf("%s=%s", variable, mark),
                                 "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0",
                                 runner_program(),
                                 "feature",
                                 verb,
                                 "FEAT",
                                 "--output-format",
                                 "stream-json",
                                 NULL};
    held_start(held, words, HELD_NULL, RUN_KEEP);
}

static bool is_member(const struct bl_json *event, const char *key, const char *value)
{
    return value == NULL ||
           bl_text_equal(bl_json_text(bl_json_get(event, bl_text_from(key))), bl_text_from(value));
}

/* Returns the n-th match; `*ret_count` is the number of matches. */
static const struct bl_json *find(const struct held *held, const char *type, const char *task,
                                  const char *phase, size_t n, size_t *ret_count)
{
    const char *line = stage_output(held);
    const struct bl_json *found = NULL;
    char mark[64];
    snprintf(mark, sizeof mark, "\"type\":\"%s\"", type);
    *ret_count = 0;
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct bl_text text = {line, (size_t)(end - line)};
        if (bl_text_find(text, bl_text_from(mark)) < 0)
            continue;
        const struct bl_json *event = stage_json(stage_keep(text));
        if (!is_member(event, "type", type) || !is_member(event, "task", task) ||
            !is_member(event, "phase", phase))
            continue;
        if ((*ret_count)++ == n)
            found = event;
    }
    return found;
}

const struct bl_json *field_event(const struct held *held, const char *type, const char *task,
                                  size_t n)
{
    size_t count;
    return find(held, type, task, NULL, n, &count);
}

size_t field_count(const struct held *held, const char *type, const char *task)
{
    size_t count;
    find(held, type, task, NULL, SIZE_MAX, &count);
    return count;
}

size_t field_count_phase(const struct held *held, const char *type, const char *task,
                         const char *phase)
{
    size_t count;
    find(held, type, task, phase, SIZE_MAX, &count);
    return count;
}

const struct bl_json *field_await_phase(struct held *held, const char *type, const char *task,
                                        const char *phase, size_t n)
{
    double end = field_now() + PATIENCE_S;
    size_t count;
    const struct bl_json *event;
    while ((event = find(held, type, task, phase, n, &count)) == NULL) {
        if (field_now() > end)
            fail_msg("no %s of %s (%s) came; standard error: %.2000s", type,
                     task != NULL ? task : "any task", phase != NULL ? phase : "any phase",
                     held_err(held));
        rest();
    }
    return event;
}

const struct bl_json *field_await(struct held *held, const char *type, const char *task, size_t n)
{
    return field_await_phase(held, type, task, NULL, n);
}

double field_time(const struct bl_json *event)
{
    struct tm parts = {0};
    const char *text = stage_text_at(event, "/time");
    const char *fraction = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    assert_non_null(fraction);
    return (double)timegm(&parts) + strtod(fraction, NULL);
}

size_t field_line(const struct held *held, const struct bl_json *event)
{
    int64_t wanted = stage_number_at(event, "/seq");
    const char *line = stage_output(held);
    char mark[48];
    snprintf(mark, sizeof mark, "\"seq\":%lld,", (long long)wanted);
    size_t number = 0;
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1, number++)
        if (bl_text_find((struct bl_text){line, (size_t)(end - line)}, bl_text_from(mark)) >= 0)
            return number;
    fail_msg("the event is not in the output");
    return 0;
}

const struct bl_json *field_end_of(struct held *held, int exit_code)
{
    held_wait(held);
    if (held->exit_code != exit_code)
        fail_msg("exit code %d, not %d; output: %.3000s; standard error: %.2000s", held->exit_code,
                 exit_code, stage_output(held), held_err(held));
    return stage_json(stage_last_line(stage_output(held)));
}

const struct bl_json *field_row(const struct bl_json *envelope, const char *task)
{
    BL_JSON_EACH (wave, bl_json_get(envelope, BL_TEXT("waves"))) {
        BL_JSON_EACH (row, bl_json_get(wave, BL_TEXT("tasks"))) {
            if (is_member(row, "id", task))
                return row;
        }
    }
    fail_msg("there is no task %s in the envelope", task);
    return NULL;
}

const struct run *field_run(int exit_code, const char *const *words)
{
    static struct run run;
    runner_run_with(&run, words, NULL, RUN_KEEP);
    if (run.exit_code != exit_code)
        fail_msg("exit code %d, not %d; output: %.3000s; standard error: %.2000s", run.exit_code,
                 exit_code, run.out, run.err);
    return &run;
}

const struct bl_json *field_status(const char *name)
{
    const struct run *run = FEATURE_RUN(0, "status", name, "--json");
    return stage_json(run->out);
}

/* Returns whether a process of this test's stage has the text: other tests may run beside it. */
static bool carries(const char *process, const char *text)
{
    static char environment[65536];
    const char *home = getenv("HOME");
    char path[64], name[32] = "";
    bool ours = false, found = false;
    snprintf(path, sizeof path, "/proc/%.16s/comm", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, name, sizeof name - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (size <= 0 || strcmp(name, "warden\n") == 0 || strncmp(name, "belay-warden", 12) == 0)
        return false;
    snprintf(path, sizeof path, "/proc/%.16s/environ", process);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    size = fd >= 0 ? read(fd, environment, sizeof environment - 1) : -1;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < size; i += (ssize_t)strlen(environment + i) + 1) {
        environment[size] = '\0';
        found = found || strcmp(environment + i, text) == 0;
        ours = ours || (strncmp(environment + i, "HOME=", 5) == 0 && home != NULL &&
                        strcmp(environment + i + 5, home) == 0);
    }
    return ours && found;
}

size_t field_processes(const char *text, pid_t *ret_first)
{
    DIR *folder = opendir("/proc");
    size_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]) && carries(entry->d_name, text)) {
            if (count++ == 0 && ret_first != NULL)
                *ret_first = (pid_t)strtol(entry->d_name, NULL, 10);
        }
    closedir(folder);
    return count;
}

void field_await_processes(const char *text, size_t count)
{
    double end = field_now() + PATIENCE_S;
    while (field_processes(text, NULL) != count) {
        if (field_now() > end)
            fail_msg("%zu processes with %s, not %zu", field_processes(text, NULL), text, count);
        rest();
    }
}
