#include "helpers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../proof/place.h"

#define AWAIT_MS   20000
#define CLEAN_MS   5000
#define LEAVING_MS 5000 /* for a warden whose work is done */

enum bl_mechanism each_container[3] = {BL_MECHANISM_PIDNS, BL_MECHANISM_CGROUP2,
                                       BL_MECHANISM_SUBREAPER};

enum bl_mechanism container_of_test(void **state)
{
    enum bl_mechanism container = *(enum bl_mechanism *)*state;
    struct bl_container_check check;
    bl_container_check(container, &check);
    if (!check.available) {
        print_message("%s is not available: %s\n", bl_mechanism_name(container), check.detail);
        suite_skip("container mechanism not available");
    }
    return container;
}

void run_in_child(int (*main)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_LIFE_S);
        _exit(main());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == EXIT_NO_MOUNTS)
        suite_skip("needs the right to mount");
    assert_int_equal(WEXITSTATUS(status), 0);
}

double now_ms(void)
{
    return (double)bl_clock_now_ns(&bl_clock_system) / (double)MS;
}

void nap_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * (long)MS};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void marker_make(char marker[MARKER_MAX])
{
    uint64_t number;
    bl_random_bytes(&number, sizeof number);
    snprintf(marker, MARKER_MAX, "BELAY_TEST_MARKER=%016llx", (unsigned long long)number);
}

size_t process_read(const char *pid, const char *file, char *out, size_t out_size)
{
    char path[NAME_MAX + 32];

    snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
    return place_read(path, out, out_size);
}

/* Returns the letter after the last ')' of the line. */
static char state_of(const char *pid)
{
    char line[256];
    process_read(pid, "stat", line, sizeof line);
    const char *end = strrchr(line, ')');
    return end != NULL && end[1] == ' ' ? end[2] : '\0';
}

const struct marked *marker_scan(const char *marker, const char *name, char process_state)
{
    static struct marked found;
    static char variables[128 * 1024];
    char comm[32];
    DIR *directory = opendir("/proc");

    found.tools = found.wardens = found.ready = found.in_state = 0;
    if (!CHECK(directory != NULL))
        return &found;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        /* A zombie has no environment. The marker can be anywhere in it, since shells sort. */
        size_t size = process_read(entry->d_name, "environ", variables, sizeof variables);
        if (memmem(variables, size, marker, strlen(marker)) == NULL)
            continue;
        comm[0] = '\0';
        process_read(entry->d_name, "comm", comm, sizeof comm);
        comm[strcspn(comm, "\n")] = '\0';
        if (strncmp(comm, "warden", 6) == 0 || strncmp(comm, "belay", 5) == 0) {
            found.wardens++;
            continue;
        }
        found.ready += strcmp(comm, name != NULL ? name : READY_NAME) == 0;
        found.in_state += process_state != '\0' && state_of(entry->d_name) == process_state;
        if (found.tools < BL_COUNT(found.pids))
            found.pids[found.tools] = (pid_t)strtol(entry->d_name, NULL, 10);
        found.tools++;
    }
    closedir(directory);
    return &found;
}

size_t marker_count(const char *marker)
{
    for (int i = 0; i < 3; i++) {
        size_t count = marker_scan(marker, NULL, '\0')->tools;
        if (count > 0)
            return count;
    }
    return 0;
}

size_t marker_kill(const char *marker)
{
    double end_ms = now_ms() + CLEAN_MS;
    size_t first = 0;
    for (bool begun = false; now_ms() < end_ms; begun = true) {
        const struct marked *found = marker_scan(marker, NULL, '\0');
        if (!begun)
            first = found->tools;
        if (found->tools + found->wardens == 0)
            break;
        /* A warden whose tree has ended exits by itself. */
        for (size_t i = 0; i < found->tools && i < BL_COUNT(found->pids); i++)
            kill(found->pids[i], SIGKILL);
        nap_ms(2);
    }
    return first;
}

const char *path_of_nasty(void)
{
    static char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - sizeof "/nasty");
    if (size < 0)
        return "nasty";
    path[size] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash, sizeof path - (size_t)(slash - path), "/nasty");
    return path;
}

void tool_set_command(struct tool *tool, const char *const *words)
{
    size_t count = 0;
    while (words[count] != NULL && count + 1 < BL_COUNT(tool->arguments)) {
        tool->arguments[count] = words[count];
        count++;
    }
    tool->arguments[count] = NULL;
}

void tool_init(struct tool *tool, enum bl_mechanism container, const char *const *words)
{
    size_t count = 0;
    *tool = (struct tool){.arguments = {path_of_nasty()}};
    for (size_t i = 0; words[i] != NULL && i + 2 < BL_COUNT(tool->arguments); i++)
        tool->arguments[i + 1] = words[i];
    marker_make(tool->marker);
    while (environ[count] != NULL)
        count++;
    tool->environment = bl_zalloc((count + 2) * sizeof *tool->environment);
    tool->environment[0] = tool->marker;
    for (size_t i = 0; i < count; i++)
        tool->environment[i + 1] = environ[i];
    tool->options = (struct bl_warden_options){
        .arguments = tool->arguments,
        .environment = tool->environment,
        .input = -1,
        .output = -1,
        .error = -1,
        .container = container,
        .grace_ms = BL_GRACE_MS_DEFAULT,
    };
}

int tool_start(struct tool *tool)
{
    struct bl_error error = {0};
    int code = bl_warden_start(&tool->options, &tool->warden, &error);
    if (!CHECK_EQUAL(code, 0))
        fprintf(stderr, "%s: %s (%s)\n", error.target, error.message, error.hint);
    return code;
}

static void await(struct tool *tool, const char *name, char process_state, size_t count)
{
    double end_ms = now_ms() + AWAIT_MS;
    const struct marked *found;
    do {
        found = marker_scan(tool->marker, name, process_state);
        if ((process_state != '\0' ? found->in_state : found->ready) >= count)
            return;
    } while (bl_sleep(2 * MS) == 0 && now_ms() < end_ms);
    fprintf(stderr, "%s: %zu of %zu stand\n", tool->arguments[1],
            process_state != '\0' ? found->in_state : found->ready, count);
    CHECK(!"the tree came to stand");
}

void tool_await(struct tool *tool, const char *name, size_t count)
{
    await(tool, name, '\0', count);
}

void tool_await_state(struct tool *tool, char process_state, size_t count)
{
    await(tool, NULL, process_state, count);
}

double tool_stop(struct tool *tool, uint32_t grace_ms, struct bl_warden_end *ret_end)
{
    double start_ms = now_ms();
    bl_warden_stop(tool->warden, 0, grace_ms, ret_end);
    double elapsed_ms = now_ms() - start_ms;
    CHECK_EQUAL(marker_count(tool->marker), 0);
    CHECK_EQUAL(ret_end->survivors, 0);
    CHECK_EQUAL(ret_end->mechanism, tool->options.container);
    return elapsed_ms;
}

void tool_done(struct tool *tool)
{
    double end_ms = now_ms() + LEAVING_MS;
    bl_warden_free(tool->warden);
    tool->warden = NULL;
    CHECK_EQUAL(marker_count(tool->marker), 0);
    while (marker_scan(tool->marker, NULL, '\0')->wardens > 0 && now_ms() < end_ms)
        nap_ms(1);
    CHECK_EQUAL(marker_scan(tool->marker, NULL, '\0')->wardens, 0);
    marker_kill(tool->marker);
    bl_free(tool->environment);
    tool->environment = NULL;
}

/* Returns the fourth field, after the state; 0 if there is no such process. */
static pid_t parent_of(pid_t pid)
{
    char name[16], line[256];
    snprintf(name, sizeof name, "%d", (int)pid);
    process_read(name, "stat", line, sizeof line);
    const char *end = strrchr(line, ')');
    return end != NULL && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

pid_t warden_of(pid_t command)
{
    for (pid_t pid = command; pid > 1;) {
        pid_t parent = parent_of(pid);
        if (parent == getpid())
            return pid;
        pid = parent;
    }
    return 0;
}

void tool_run(struct tool *tool, char *out, size_t out_size, struct bl_warden_end *ret_end)
{
    struct bl_capture capture;
    struct bl_buffer text;
    struct bl_error error = {0};
    struct bl_command command = {.kind = BL_UNIT_COMMAND,
                                 .id = "test",
                                 .name = tool->arguments[1],
                                 .options = tool->options,
                                 .capture = &capture};

    bl_capture_init(&capture, 8192);
    bl_buffer_init(&text, 16384);
    if (!CHECK_EQUAL(bl_command_run(&command, ret_end, &error), 0))
        fprintf(stderr, "%s: %s (%s)\n", error.target, error.message, error.hint);
    CHECK_EQUAL(bl_capture_text(&capture, &text), 0);
    size_t size = text.size < out_size ? text.size : out_size - 1;
    memcpy(out, text.data != NULL ? text.data : "", size);
    out[size] = '\0';
    CHECK_EQUAL(marker_count(tool->marker), 0);
    bl_buffer_done(&text);
    bl_capture_done(&capture);
}

void role_tool_init(struct tool *tool, const struct role *role, const char *const *words)
{
    tool_init(tool, role->container, words);
    snprintf(tool->marker, sizeof tool->marker, "%s", role->marker);
}

void belay_start(struct belay *belay, const char *role, enum bl_mechanism container)
{
    char self[] = "/proc/self/exe", option[] = "--role", name[16], container_name[16];
    char *words[] = {self, option, name, container_name, belay->marker, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];

    snprintf(name, sizeof name, "%s", role);
    snprintf(container_name, sizeof container_name, "%s", bl_mechanism_name(container));
    marker_make(belay->marker);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    belay->errors = memfd_create("errors", MFD_CLOEXEC);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, belay->errors, 2);
    /* dup2 of a descriptor to itself would keep close-on-exec. */
    int report = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    posix_spawn_file_actions_adddup2(&actions, report, REPORT_FD);
    int code = posix_spawn(&belay->pid, self, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(report);
    close(ends[1]);
    belay->report = ends[0];
    assert_int_equal(code, 0);
}

void belay_hear(const struct belay *belay, void *out, size_t size)
{
    struct pollfd report = {.fd = belay->report, .events = POLLIN};
    if (poll(&report, 1, 30000) != 1 || read(belay->report, out, size) != (ssize_t)size) {
        kill(belay->pid, SIGKILL);
        marker_kill(belay->marker);
        fail_msg("the other belay says nothing");
    }
}

int belay_end(struct belay *belay)
{
    char text[2048];
    int status = -1;
    while (waitpid(belay->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    ssize_t size = pread(belay->errors, text, sizeof text - 1, 0);
    if (size > 0) {
        text[size] = '\0';
        print_error("%s", text);
    }
    close(belay->errors);
    close(belay->report);
    return status;
}
