#include "actor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_FD 3

extern char **environ;

void actor_start(struct actor *actor, const char *role, const char *folder, const char *fault)
{
    char self[] = "/proc/self/exe", option[] = "--role", none[] = "-";
    char *words[] = {self,
                     option,
                     (char *)(uintptr_t)role,
                     (char *)(uintptr_t)folder,
                     fault != NULL ? (char *)(uintptr_t)fault : none,
                     NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], REPORT_FD);
    CHECK_EQUAL(posix_spawn(&actor->pid, self, &actions, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    actor->report = ends[0];
}

void actor_start_faulty(struct actor *actor, const char *role, const char *folder)
{
    char path[4096], options[1024];
    const char *usual = getenv("ASAN_OPTIONS");

    snprintf(path, sizeof path, "%s/tests/store/libfaulty.so", getenv("BELAY_BUILD_ROOT"));
    snprintf(options, sizeof options, "verify_asan_link_order=0:%s", usual != NULL ? usual : "");
    setenv("LD_PRELOAD", path, 1);
    setenv("ASAN_OPTIONS", options, 1);
    actor_start(actor, role, folder, NULL);
    unsetenv("LD_PRELOAD");
    setenv("ASAN_OPTIONS", options + strlen("verify_asan_link_order=0:"), 1);
}

bool actor_line(struct actor *actor, char *out, size_t out_size)
{
    size_t size = 0;
    for (;;) {
        char byte;
        ssize_t count = read(actor->report, &byte, 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count != 1)
            return false;
        if (byte == '\n')
            break;
        if (size + 1 < out_size)
            out[size++] = byte;
    }
    out[size] = '\0';
    return true;
}

int actor_end(struct actor *actor)
{
    int status = 0;
    while (waitpid(actor->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(actor->report);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- The role ---- */

void actor_report(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (size > (int)sizeof line - 2)
        size = (int)sizeof line - 2;
    line[size] = '\n';
    CHECK_EQUAL(write(REPORT_FD, line, (size_t)size + 1), size + 1);
}

static const char *role_folder;

void actor_open(struct house *house)
{
    house_init(house, role_folder);
    house->options.spares = 2;
    house_open(house);
}

int role_main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        bl_fiber_main *main;
    } roles[] = {{"cells", role_cells},
                 {"terminate", role_terminate},
                 {"complete", role_complete},
                 {"observe", role_observe},
                 {"terminate-sync", role_terminate_sync},
                 {"terminate-dead", role_terminate_dead},
                 {"terminate-recovers", role_terminate_recovers},
                 {"complete-sync", role_complete_sync},
                 {"complete-dead", role_complete_dead}};
    if (argument_count == 3 && strcmp(arguments[2], "garbage") == 0)
        return garbage_main();
    if (argument_count == 4 && strcmp(arguments[2], "layers") == 0)
        return layers_main(arguments[3]);
    if (argument_count != 5)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bl_proc_protect(NULL); /* as the program does: its wardens are recorded */
    alarm(ROLE_LIFE_S);
    role_folder = arguments[3];
    if (strcmp(arguments[4], "-") != 0)
        setenv("BELAY_FAULT", arguments[4], 1);
    for (size_t i = 0; i < BL_COUNT(roles); i++)
        if (strcmp(roles[i].name, arguments[2]) == 0)
            return run_in_role(roles[i].main, NULL) != 0;
    return 2;
}

/* ---- The state after a killed host ---- */

void host_left_terminated(struct house *house, const char *origin, const char *text)
{
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    if (!CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED))
        return;
    struct bl_text first = house->ended.json;
    CHECK(strcmp(house_ended_text(house), text) == 0);
    CHECK(house_receipt_says(house->ended.terminated.receipt, "origin", origin));
    CHECK_EQUAL(house_receipt_number(house->ended.terminated.receipt, "survivors"), 0);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK(bl_text_equal(house->ended.json, first));
    CHECK_EQUAL(house_observe(house, "c-1", house->ended.terminated.generation, 0), 0);
    CHECK(house_same(house));
    /* The next open gives the same answer. */
    first = bl_arena_text(&house->arena, first);
    house_close(house);
    house_open(house);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-2"), 0);
    CHECK(bl_text_equal(house->ended.json, first));
}

bool host_left_stored(struct house *house, const char *id)
{
    CHECK_EQUAL(house_create(house, id, "text(load('k') === 1)"), 0);
    return strcmp(house_finish(house, id), "true") == 0;
}
