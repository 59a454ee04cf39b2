#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The leak check at the end of a process takes 4 s with gcc 12 on arm64, and eight processes end at
 * once. */
#define AWAIT_MS 120000

double now_ms(void)
{
    return (double)bl_clock_now_ns(&bl_clock_system) / (double)MS;
}

/* ---- The folder ---- */

void place_make(struct place *place)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(place->runtime, sizeof place->runtime, "%.100s/belay-serve-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    CHECK(mkdtemp(place->runtime) != NULL);
    setenv("XDG_RUNTIME_DIR", place->runtime, 1);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

void place_remove(struct place *place)
{
    nftw(place->runtime, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    unsetenv("XDG_RUNTIME_DIR");
}

const char *place_path(const struct place *place, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/belay/control/%s", place->runtime, name);
    return path;
}

void place_make_folder(const struct place *place)
{
    int folder = -1;
    (void)place;
    CHECK_EQUAL(serve_folder_open(true, &folder, NULL), 0);
    close(folder);
}

static size_t count_entries(const struct place *place, bool traces, char *ret_socket)
{
    DIR *entries = opendir(place_path(place, ""));
    size_t count = 0;
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        struct bl_text name = bl_text_from(entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count += traces || !bl_text_ends_with(name, BL_TEXT(".json"));
        if (ret_socket != NULL && serve_name_is_socket(entry->d_name))
            bl_text_into(ret_socket, SERVE_NAME_SIZE, entry->d_name);
    }
    if (entries != NULL)
        closedir(entries);
    return count;
}

size_t place_count(const struct place *place)
{
    return count_entries(place, false, NULL);
}

size_t place_left(const struct place *place)
{
    return count_entries(place, true, NULL);
}

const char *place_socket(const struct place *place)
{
    static char name[SERVE_NAME_SIZE];
    name[0] = '\0';
    count_entries(place, true, name);
    return name;
}

void place_leave_dead(const struct place *place, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bl_text_into(address.sun_path, sizeof address.sun_path, place_path(place, name));
    CHECK_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

/* ---- A control in this process ---- */

void served_start(struct served *served)
{
    struct bl_error error = {0};
    place_make(&served->place);
    bl_nursery_init(&served->nursery, bl_scope_current());
    bl_activities_init(&served->activities);
    if (!CHECK_EQUAL(
            bl_control_start(&served->nursery, &served->activities, &served->control, &error), 0))
        fprintf(stderr, "%s (%s)\n", error.message, error.hint);
}

void served_stop(struct served *served)
{
    bl_control_stop(served->control);
    CHECK_EQUAL(place_left(&served->place), 0);
    bl_nursery_done(&served->nursery);
    place_remove(&served->place);
}

/* ---- Clients ---- */

int client_connect(void)
{
    struct place place;
    char path[SERVE_PATH_SIZE];
    int fd = -1;
    bl_text_into(place.runtime, sizeof place.runtime, getenv("XDG_RUNTIME_DIR"));
    CHECK_EQUAL(serve_path(place_socket(&place), path, sizeof path), 0);
    /* More connections at once than may wait: each one tries again. */
    double end_ms = now_ms() + AWAIT_MS;
    int code = bl_local_connect(path, &fd, NULL);
    while (code == BL_EAGAIN && now_ms() < end_ms && bl_sleep(BL_NS_PER_MS) == 0)
        code = bl_local_connect(path, &fd, NULL);
    CHECK_EQUAL(code, 0);
    return fd;
}

void client_send(int fd, struct bl_text text)
{
    double end_ms = now_ms() + AWAIT_MS;
    while (text.size > 0 && now_ms() < end_ms) {
        ssize_t size = send(fd, text.data, text.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0 && errno != EAGAIN)
            return;
        if (size < 0)
            bl_sleep(MS);
        text.data += size > 0 ? size : 0;
        text.size -= size > 0 ? (size_t)size : 0;
    }
    CHECK_EQUAL(text.size, 0);
}

const char *client_line(int fd)
{
    static char line[65536];
    size_t size = 0;
    double end_ms = now_ms() + AWAIT_MS;
    while (size + 1 < sizeof line && now_ms() < end_ms) {
        ssize_t count = recv(fd, line + size, 1, MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EAGAIN) || (count > 0 && line[size] == '\n'))
            break;
        if (count < 0)
            bl_sleep(MS);
        size += count > 0;
    }
    CHECK(now_ms() < end_ms);
    line[size] = '\0';
    return line;
}

/* ---- Other processes ---- */

pid_t role_start(const char *kind, const char *id)
{
    char path[4096] = "";
    pid_t pid = 0;
    CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    char *const arguments[] = {path, "--role", (char *)kind, (char *)id, NULL};
    CHECK_EQUAL(posix_spawn(&pid, path, NULL, NULL, arguments, environ), 0);
    return pid;
}

static bool is_listed(const char *id, const char *phase)
{
    struct bl_arena arena = {0};
    struct bl_list processes;
    bool found = false;
    CHECK_EQUAL(bl_control_list(&arena, &processes, NULL), 0);
    BL_LIST_EACH (link, &processes) {
        struct bl_control_process *process = BL_CONTAINER(link, struct bl_control_process, link);
        BL_LIST_EACH (at, &process->activities) {
            const struct bl_activity_view *activity =
                BL_CONTAINER(at, struct bl_activity_view, link);
            found =
                found || (bl_text_equal(activity->id, bl_text_from(id)) &&
                          (phase == NULL || bl_text_equal(activity->phase, bl_text_from(phase))));
        }
    }
    bl_arena_done(&arena);
    return found;
}

void role_await(const char *id, const char *phase)
{
    double end_ms = now_ms() + AWAIT_MS;
    bool found = false;
    while (!(found = is_listed(id, phase)) && now_ms() < end_ms)
        bl_sleep(10 * MS);
    CHECK(found);
}

int role_end(pid_t pid)
{
    double end_ms = now_ms() + AWAIT_MS;
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && now_ms() < end_ms)
        bl_sleep(5 * MS);
    if (!CHECK_EQUAL(ended, pid)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
