/* Hosts that are killed, and the ones after them on the same store. */
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

#include "helpers.h"

#define ROLE_LIFE_S 120
#define REPORT_FD   3
#define SLEEP       "await tools.sleep({});"

extern char **environ;

struct actor {
    int pid;
    int report; /* the read end of its REPORT_FD */
};

/* ---- Another process -------------------------------------------------------------------------
 */

/* Starts this program as `role` in the folder; with `fault` as BELAY_FAULT, unless that is NULL. */
static void actor_start(struct actor *actor, const char *role, const char *folder,
                        const char *fault)
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

/* The next line that it reports, without its line feed; false: it has ended. */
static bool actor_line(struct actor *actor, char *out, size_t out_size)
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

/* Waits; its exit code, or -1 where a signal has ended it. */
static int actor_end(struct actor *actor)
{
    int status = 0;
    while (waitpid(actor->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(actor->report);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static BL_PRINTF(1, 2) void report(const char *format, ...)
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

/* ---- Roles ------------------------------------------------------------------------------------
 */

static const char *role_folder;

static void open_role(struct house *house)
{
    house_init(house, role_folder);
    house->options.spares = 2;
    house_open(house);
}

/* Of the host that is killed; this process and the role agree. */
static unsigned killed_cells(void)
{
    return figure_taking() ? 20 : (unsigned)suite_rounds(6, 20);
}

/* Many cells that never end; says the numbers of all workers, those that are ready, too. */
static int role_cells(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);
    unsigned cells = killed_cells();
    char id[16];

    open_role(house);
    for (unsigned i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        house_create(house, id, i % 2 == 0 ? "text('x'); for (;;);" : "text('x');" SLEEP);
        house_await_output(house, id, 1);
        report("%lld", (long long)house_worker_pid(house, id));
    }
    house_warm(house, 2);
    BL_LIST_EACH (link, &house->host->pool.spares)
        report("%lld", (long long)BL_CONTAINER(link, struct cell_worker, link)->pid);
    report("all");
    bl_sleep(ROLE_LIFE_S * BL_NS_PER_S);
    return 0;
}

/* One that has printed is terminated. */
static int role_terminate(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);

    open_role(house);
    house_create(house, "c-1", "store('k', 1); await tools.mark({}); text('a'); for (;;);");
    house_await_output(house, "c-1", 1);
    report("%lld", (long long)house_worker_pid(house, "c-1"));
    house_terminate(house, "c-1", "t-1");
    report("terminated");
    _exit(3);
}

static int role_complete(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);

    open_role(house);
    house_create(house, "c-1", "store('k', 1); await tools.mark({}); text('a');");
    house_observe(house, "c-1", 1, 60000);
    report("completed");
    _exit(3);
}

/* Printed, yielded once, observed. */
static int role_observe(void *argument BL_UNUSED)
{
    struct house *house = bl_zalloc(sizeof *house);

    open_role(house);
    house_create(house, "c-1", "await tools.mark({}); text('a');" SLEEP);
    house_await_output(house, "c-1", 1);
    house_observe(house, "c-1", 1, 0);
    report("observed %s", house_seen_text(house));
    _exit(3);
}

int role_main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        bl_fiber_main *main;
    } roles[] = {{"cells", role_cells},
                 {"terminate", role_terminate},
                 {"complete", role_complete},
                 {"observe", role_observe}};
    if (argument_count != 5)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bl_proc_protect(NULL); /* as the program does: its wardens are on record */
    alarm(ROLE_LIFE_S);
    role_folder = arguments[3];
    if (strcmp(arguments[4], "-") != 0)
        setenv("BELAY_FAULT", arguments[4], 1);
    for (size_t i = 0; i < BL_COUNT(roles); i++)
        if (strcmp(roles[i].name, arguments[2]) == 0)
            return run_in_role(roles[i].main, NULL) != 0;
    return 2;
}

/* ---- What is left of them ---------------------------------------------------------------------
 */

struct pids {
    int64_t all[64];
    unsigned count;
};

static bool all_gone(void *argument)
{
    const struct pids *pids = argument;

    for (unsigned i = 0; i < pids->count; i++)
        if (house_process_lives(pids->all[i]))
            return false;
    return true;
}

static int host_killed(struct house *house)
{
    struct pids *pids = bl_zalloc(sizeof *pids);
    struct actor actor;
    char line[64];

    actor_start(&actor, "cells", house->folder, NULL);
    while (actor_line(&actor, line, sizeof line) && strcmp(line, "all") != 0)
        if (CHECK(pids->count < BL_COUNT(pids->all)))
            pids->all[pids->count++] = atoll(line);
    CHECK_EQUAL(pids->count, killed_cells() + 2);
    CHECK(!all_gone(pids));
    kill(actor.pid, SIGKILL);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(actor_end(&actor), -1);
    CHECK(house_until(all_gone, pids));
    CHECK(figure_since("C10 workers after kill -9 of their host", since_ns, 100));
    /* All of them have an end in what comes after it. */
    house_open(house);
    for (unsigned i = 0; i + 2 < pids->count; i++) {
        snprintf(line, sizeof line, "c-%u", i);
        CHECK_EQUAL(house_observe(house, line, 1, 0), 0);
        if (!CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED))
            continue;
        CHECK(house_receipt_says(house->seen.terminated.receipt, "reason", "owner_died"));
        CHECK(house_receipt_says(house->seen.terminated.receipt, "origin", "host_lost"));
        CHECK_EQUAL(house_receipt_number(house->seen.terminated.receipt, "survivors"), 0);
    }
    house_close(house);
    bl_free(pids);
    return 0;
}

/* The role runs into its fault; the house is then opened on what it left. */
static void die_and_open(struct house *house, const char *role, const char *fault)
{
    struct actor actor;
    char line[512];

    actor_start(&actor, role, house->folder, fault);
    while (actor_line(&actor, line, sizeof line))
        CHECK(strchr("0123456789", line[0]) != NULL);
    CHECK_EQUAL(actor_end(&actor), -1);
    house_open(house);
}

/* Asked again, it is terminated, twice in the same bytes. */
static void check_terminated(struct house *house, const char *origin, const char *text)
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
    /* And so it is for the one after that. */
    first = bl_arena_text(&house->arena, first);
    house_close(house);
    house_open(house);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-2"), 0);
    CHECK(bl_text_equal(house->ended.json, first));
}

static bool is_stored(struct house *house, const char *id)
{
    CHECK_EQUAL(house_create(house, id, "text(load('k') === 1)"), 0);
    return strcmp(house_finish(house, id), "true") == 0;
}

static int killed_terminating(struct house *house)
{
    die_and_open(house, "terminate", "cell.terminate.stopped=kill");
    check_terminated(house, "host_lost", "");
    CHECK(!is_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_terminated(struct house *house)
{
    die_and_open(house, "terminate", "cell.terminate.recorded=kill");
    check_terminated(house, "terminate:t-1", "a");
    CHECK(!is_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_completing(struct house *house)
{
    die_and_open(house, "complete", "cell.complete.claimed=kill");
    check_terminated(house, "host_lost", "");
    CHECK(!is_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_completed(struct house *house)
{
    die_and_open(house, "complete", "cell.complete.recorded=kill");
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
        CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
        CHECK(strcmp(house_seen_text(house), "a") == 0);
        CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
        CHECK(house_same(house));
    }
    CHECK(is_stored(house, "c-2"));
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

static int killed_admitted(struct house *house)
{
    die_and_open(house, "observe", "cell.create.admitted=kill");
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(house_create(house, "c-1", "await tools.mark({}); text('a');" SLEEP), 0);
    CHECK_EQUAL(house_create(house, "c-1", "text('other')"), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_CONFLICT);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 60000), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED);
    check_terminated(house, "host_lost", "");
    CHECK(house_marks(house) <= 1);
    house_close(house);
    return 0;
}

static int killed_decided(struct house *house)
{
    die_and_open(house, "observe", "cell.observe.decided=kill");
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_YIELDED);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    struct bl_text first = house->seen.json;
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(bl_text_equal(house->seen.json, first));
    CHECK_EQUAL(house_observe(house, "c-1", 2, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED);
    check_terminated(house, "host_lost", "");
    CHECK_EQUAL(house_marks(house), 1);
    house_close(house);
    return 0;
}

/* While one host is there no other gets the session. */
static int host_alive(struct house *house)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_cell_host_options options = {.spares = 1};
    struct bl_cell_session_options session = {.id = "s-1", .directory = "/"};
    struct bl_cell_session *other = NULL;
    struct bl_cell_host *host;
    struct bl_store *store;

    house_open(house);
    CHECK_EQUAL(bl_store_open(house->path, &store, error), 0);
    options.store = store;
    CHECK_EQUAL(bl_cell_host_start(&house->nursery, &options, &host, error), 0);
    CHECK_EQUAL(bl_cell_session_open(host, &session, &other, &house->fault), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_SESSION_BUSY);
    CHECK(strcmp(house->fault.id, "s-1") == 0);
    CHECK(house->fault.message[0] != '\0');
    CHECK_EQUAL(bl_cell_session_open(house->host, &session, &other, &house->fault), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_SESSION_BUSY);
    CHECK(house->fault.message[0] != '\0');
    bl_cell_session_close(house->session, false, BL_STOP_USER, "test", NULL);
    CHECK_EQUAL(bl_cell_session_open(host, &session, &other, &house->fault), 0);
    bl_cell_host_stop(host, BL_STOP_SHUTDOWN, "test");
    bl_store_close(store);
    house_close(house);
    bl_free(error);
    return 0;
}

/* With `forget` nothing is left of it. */
static int forgotten(struct house *house)
{
    struct bl_buffer receipt;

    house_open(house);
    CHECK_EQUAL(house_create(house, "c-1", "store('k', 1); text('a')"), 0);
    CHECK(house_finish(house, "c-1") != NULL);
    CHECK_EQUAL(house_create(house, "c-2", "text('a'); for (;;);"), 0);
    house_await_output(house, "c-2", 1);
    bl_buffer_init(&receipt, SIZE_MAX);
    bl_cell_session_close(house->session, true, BL_STOP_USER, "close", &receipt);
    CHECK(receipt.size > 0);
    house->session = house_session(house, "s-1");
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_MISSING);
    CHECK(!is_stored(house, "c-1"));
    bl_buffer_done(&receipt);
    house_close(house);
    return 0;
}

EMPTY_HOUSE_TEST(C10_a_killed_host_leaves_no_worker, host_killed)
EMPTY_HOUSE_TEST(C26_a_host_killed_while_it_terminates_has_terminated, killed_terminating)
EMPTY_HOUSE_TEST(C26_a_host_killed_when_it_had_terminated_keeps_the_record, killed_terminated)
EMPTY_HOUSE_TEST(C27_a_host_killed_while_a_cell_completes_stores_nothing, killed_completing)
EMPTY_HOUSE_TEST(C27_a_host_killed_when_a_cell_had_completed_keeps_all, killed_completed)
EMPTY_HOUSE_TEST(C28_a_host_killed_at_an_admission_runs_it_once_at_most, killed_admitted)
EMPTY_HOUSE_TEST(C28_a_host_killed_at_a_decision_says_the_same_after, killed_decided)
EMPTY_HOUSE_TEST(a_session_of_a_live_host_is_busy, host_alive)
EMPTY_HOUSE_TEST(a_forgotten_session_has_nothing, forgotten)

SUITE(restart, cmocka_unit_test(C10_a_killed_host_leaves_no_worker),
      cmocka_unit_test(C26_a_host_killed_while_it_terminates_has_terminated),
      cmocka_unit_test(C26_a_host_killed_when_it_had_terminated_keeps_the_record),
      cmocka_unit_test(C27_a_host_killed_while_a_cell_completes_stores_nothing),
      cmocka_unit_test(C27_a_host_killed_when_a_cell_had_completed_keeps_all),
      cmocka_unit_test(C28_a_host_killed_at_an_admission_runs_it_once_at_most),
      cmocka_unit_test(C28_a_host_killed_at_a_decision_says_the_same_after),
      cmocka_unit_test(a_session_of_a_live_host_is_busy),
      cmocka_unit_test(a_forgotten_session_has_nothing));
