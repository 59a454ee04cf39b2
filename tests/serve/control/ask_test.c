/* Requests to other, real processes. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "place.h"

static struct place place;

static int no_process(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_list processes;
    struct bl_text receipt;
    struct bl_error error = {0};
    (void)argument;
    place_make(&place);
    for (int with_folder = 0; with_folder < 2; with_folder++) {
        error = (struct bl_error){0};
        if (with_folder != 0)
            place_make_folder(&place);
        CHECK_EQUAL(bl_control_list(&arena, &processes, &error), 0);
        CHECK(bl_list_empty(&processes));
        CHECK_EQUAL(bl_control_cancel(&arena, "run_x", NULL, false, &receipt, &error), BL_ENOENT);
        CHECK(strcmp(error.message, "no running work with id 'run_x'") == 0);
        CHECK(strcmp(error.hint, "'belay ps' lists running work, with its ids") == 0);
    }
    CHECK_EQUAL(chmod(place_path(&place, ""), 0755), 0);
    error = (struct bl_error){0};
    CHECK_EQUAL(bl_control_list(&arena, &processes, &error), BL_EACCES);
    CHECK_EQUAL(bl_control_cancel(&arena, "run_x", NULL, false, &receipt, &error), BL_EACCES);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void without_processes_there_is_no_work(void **state)
{
    (void)state;
    run_in_loop(no_process, NULL);
}

/* Returns how many answer; and how many are silent or dead (may be NULL). */
static size_t count_states(struct bl_arena *arena, size_t *ret_silent, size_t *ret_dead)
{
    struct bl_list processes;
    size_t counts[3] = {0};
    int64_t last = -1;
    CHECK_EQUAL(bl_control_list(arena, &processes, NULL), 0);
    BL_LIST_EACH (link, &processes) {
        struct bl_control_process *process = BL_CONTAINER(link, struct bl_control_process, link);
        CHECK(process->pid > last);
        CHECK(process->state != BL_CONTROL_SILENT || bl_list_empty(&process->activities));
        last = process->pid;
        counts[process->state]++;
    }
    if (ret_silent != NULL)
        *ret_silent = counts[BL_CONTROL_SILENT];
    if (ret_dead != NULL)
        *ret_dead = counts[BL_CONTROL_DEAD];
    return counts[BL_CONTROL_ANSWERING];
}

static size_t count_processes(struct bl_arena *arena)
{
    return count_states(arena, NULL, NULL);
}

static int two(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_text receipt = {0};
    struct bl_error error = {0};
    (void)argument;
    place_make(&place);
    pid_t first = role_start("idle", "run_a"), second = role_start("idle", "run_b");
    role_await("run_a", "model");
    role_await("run_b", "model");
    CHECK_EQUAL(count_processes(&arena), 2);
    CHECK_EQUAL(bl_control_cancel(&arena, "run_c", NULL, false, &receipt, &error), BL_ENOENT);
    CHECK_EQUAL(bl_control_cancel(&arena, "run_b", "the test", false, &receipt, &error), 0);
    CHECK(bl_text_find(receipt, BL_TEXT("\"scope\":\"run_b\",\"reason\":\"user\",\"origin\":\"the "
                                        "test\"")) > 0);
    CHECK_EQUAL(role_end(second), 0);
    CHECK_EQUAL(count_processes(&arena), 1);
    /* By its session. */
    CHECK_EQUAL(bl_control_cancel(&arena, "session-of-run_a", NULL, false, &receipt, &error), 0);
    CHECK(
        bl_text_find(receipt, BL_TEXT("\"scope\":\"run_a\",\"reason\":\"user\",\"origin\":\"belay "
                                      "cancel\"")) > 0);
    CHECK_EQUAL(role_end(first), 0);
    CHECK_EQUAL(place_left(&place), 0);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void cancel_stops_the_process_that_has_the_id(void **state)
{
    (void)state;
    run_in_loop(two, NULL);
}

static int real_tool(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_text receipt = {0};
    struct bl_error error = {0};
    const struct bl_json *value = NULL;
    int64_t number = -1;
    (void)argument;
    place_make(&place);
    pid_t child = role_start("bash", "run_tool");
    role_await("run_tool", "tool bash");
    double start_ms = now_ms();
    CHECK_EQUAL(bl_control_cancel(&arena, "run_tool", NULL, false, &receipt, &error), 0);
    CHECK(now_ms() - start_ms < 10000);
    CHECK_EQUAL(bl_json_read(&arena, receipt, NULL, &value, NULL), 0);
#define TEXT_AT(pointer) bl_json_text(bl_json_pointer(value, BL_TEXT(pointer)))
    CHECK(bl_text_equal(TEXT_AT("/units/0/kind"), BL_TEXT("tool")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/name"), BL_TEXT("bash")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/fate"), BL_TEXT("aborted")));
    CHECK(bl_text_equal(TEXT_AT("/reason"), BL_TEXT("user")));
#undef TEXT_AT
    CHECK(bl_json_int64(bl_json_pointer(value, BL_TEXT("/survivors")), &number));
    CHECK_EQUAL(number, 0);
    CHECK(bl_json_int64(bl_json_pointer(value, BL_TEXT("/units/0/processes")), &number));
    CHECK(number >= 4);
    CHECK_EQUAL(role_end(child), 0);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void a_run_with_a_real_tool_is_stopped_from_another_process(void **state)
{
    (void)state;
    run_in_loop(real_tool, NULL);
}

static int finished(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_text receipt = BL_TEXT("not touched");
    (void)argument;
    place_make(&place);
    pid_t child = role_start("finish", "run_f");
    role_await("run_f", NULL);
    CHECK_EQUAL(bl_control_cancel(&arena, "run_f", NULL, false, &receipt, NULL), 0);
    CHECK_EQUAL(receipt.size, 0);
    CHECK_EQUAL(role_end(child), 0);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void work_that_had_ended_has_no_receipt(void **state)
{
    (void)state;
    run_in_loop(finished, NULL);
}

/* A socket without a listener is removed; other files stay. */
static int stale(void *argument)
{
    struct bl_arena arena = {0};
    (void)argument;
    place_make(&place);
    pid_t killed = role_start("idle", "run_k"), alive = role_start("idle", "run_l");
    role_await("run_k", NULL);
    role_await("run_l", NULL);
    kill(killed, SIGKILL);
    CHECK_EQUAL(role_end(killed), 128 + SIGKILL);
    place_leave_dead(&place, DEAD_SOCKET);
    CHECK_EQUAL(mkdir(place_path(&place, "zzzzzzzzzzzzzzzzzzzz.sock"), 0700), 0);
    CHECK_EQUAL(place_count(&place), 4);
    size_t dead = 0;
    CHECK_EQUAL(count_states(&arena, NULL, &dead), 1);
    CHECK_EQUAL(dead, 2);
    CHECK_EQUAL(place_count(&place), 2);
    CHECK_EQUAL(rmdir(place_path(&place, "zzzzzzzzzzzzzzzzzzzz.sock")), 0);
    kill(alive, SIGKILL);
    CHECK_EQUAL(role_end(alive), 128 + SIGKILL);
    CHECK_EQUAL(count_states(&arena, NULL, &dead), 0);
    CHECK_EQUAL(dead, 1);
    CHECK_EQUAL(place_left(&place), 0);
    /* It is reported once. */
    CHECK_EQUAL(count_states(&arena, NULL, &dead), 0);
    CHECK_EQUAL(dead, 0);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void sockets_of_killed_processes_are_removed(void **state)
{
    (void)state;
    run_in_loop(stale, NULL);
}

static int relics(void *argument)
{
    struct bl_arena arena = {0};
    static const char old[] = ".0000000000000001", young[] = ".0000000000000002";
    (void)argument;
    place_make(&place);
    place_make_folder(&place);
    place_leave_dead(&place, old);
    place_leave_dead(&place, young);
    place_leave_dead(&place, ".not-ours");
    struct timespec times[2] = {{.tv_sec = time(NULL) - 100}, {.tv_sec = time(NULL) - 100}};
    CHECK_EQUAL(utimensat(AT_FDCWD, place_path(&place, old), times, 0), 0);
    CHECK_EQUAL(utimensat(AT_FDCWD, place_path(&place, ".not-ours"), times, 0), 0);
    CHECK_EQUAL(count_processes(&arena), 0);
    CHECK_EQUAL(place_count(&place), 2);
    CHECK_EQUAL(access(place_path(&place, young), F_OK), 0);
    CHECK_EQUAL(access(place_path(&place, ".not-ours"), F_OK), 0);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void old_sockets_that_were_never_renamed_are_removed(void **state)
{
    (void)state;
    run_in_loop(relics, NULL);
}

/* A paused process is reported as silent, and keeps its socket. */
static int paused(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_text receipt;
    struct bl_error error = {0};
    (void)argument;
    place_make(&place);
    pid_t still = role_start("idle", "run_s"), alive = role_start("idle", "run_t");
    role_await("run_s", NULL);
    role_await("run_t", NULL);
    kill(still, SIGSTOP);
    double start_ms = now_ms();
    size_t silent = 0;
    CHECK_EQUAL(count_states(&arena, &silent, NULL), 1);
    CHECK_EQUAL(silent, 1);
    CHECK(now_ms() - start_ms < 15000);
    CHECK_EQUAL(bl_control_cancel(&arena, "run_s", NULL, false, &receipt, &error), BL_ENOENT);
    CHECK(strstr(error.hint, "does not answer, and may have it") != NULL);
    CHECK_EQUAL(bl_control_cancel(&arena, "run_t", NULL, false, &receipt, NULL), 0);
    CHECK(receipt.size > 0);
    CHECK_EQUAL(role_end(alive), 0);
    kill(still, SIGCONT);
    role_await("run_s", NULL);
    CHECK_EQUAL(bl_control_cancel(&arena, "run_s", NULL, false, &receipt, NULL), 0);
    CHECK_EQUAL(role_end(still), 0);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void a_paused_process_delays_no_other(void **state)
{
    (void)state;
    run_in_loop(paused, NULL);
}

struct kill_later {
    pid_t pid;
    bool stop_scope;
    struct bl_scope scope;
};

static int kill_later(void *argument)
{
    struct kill_later *later = argument;
    role_await("run_u", "stopping");
    if (later->stop_scope)
        bl_scope_stop(&later->scope, BL_STOP_USER, "test");
    else
        kill(later->pid, SIGKILL);
    return 0;
}

/* Work that does not end when it is stopped: the caller gives up, or the process dies. */
static int stuck(void *argument)
{
    struct kill_later later = {.stop_scope = *(bool *)argument};
    struct bl_arena arena = {0};
    struct bl_text receipt;
    struct bl_error error = {0};
    struct bl_nursery nursery;
    place_make(&place);
    later.pid = role_start("stuck", "run_u");
    role_await("run_u", NULL);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_scope_init(&later.scope, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "later", kill_later, &later, NULL), 0);
    struct bl_scope *outer = bl_scope_enter(&later.scope);
    int code = bl_control_cancel(&arena, "run_u", NULL, false, &receipt, &error);
    bl_scope_enter(outer);
    CHECK_EQUAL(code, later.stop_scope ? BL_ECANCELED : BL_EUNKNOWN);
    if (!later.stop_scope)
        CHECK(strstr(error.message, "exited without an answer") != NULL);
    kill(later.pid, SIGKILL);
    CHECK_EQUAL(role_end(later.pid), 128 + SIGKILL);
    bl_nursery_done(&nursery);
    bl_scope_done(&later.scope);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void a_process_killed_during_a_cancel_is_reported(void **state)
{
    bool stop_scope = false;
    (void)state;
    run_in_loop(stuck, &stop_scope);
}

static void the_caller_can_give_up(void **state)
{
    bool stop_scope = true;
    (void)state;
    run_in_loop(stuck, &stop_scope);
}

/* Among any number of other clients, a client that waits a little finds a place. */
static int busy(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_list processes;
    static struct served served;
    int fds[BL_CONTROL_CLIENTS_MAX];
    (void)argument;
    serve_timeout_ns = BL_CONTROL_NS_MAX / 2;
    serve_word_ns = BL_CONTROL_NS_MAX;
    served_start(&served);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        fds[i] = client_connect();
    bl_sleep(600 * MS);
    /* These are disconnected once they have been silent for the time limit. */
    CHECK_EQUAL(bl_control_list(&arena, &processes, NULL), 0);
    CHECK(!bl_list_empty(&processes) &&
          BL_CONTAINER(processes.next, struct bl_control_process, link)->state ==
              BL_CONTROL_ANSWERING);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        close(fds[i]);
    bl_arena_done(&arena);
    served_stop(&served);
    serve_timeout_ns = BL_CONTROL_NS_MAX;
    serve_word_ns = BL_CONTROL_WORD_NS_MAX;
    return 0;
}

static void a_client_without_a_place_tries_again(void **state)
{
    (void)state;
    run_in_loop(busy, NULL);
}

/* Processes start and end while others ask constantly: none is ever taken for dead. */
static int churn(void *argument)
{
    struct bl_arena arena = {0};
    pid_t pids[4];
    char id[32];
    (void)argument;
    place_make(&place);
    for (unsigned long round = 0; round < suite_rounds(3, 100); round++) {
        for (size_t i = 0; i < BL_COUNT(pids); i++) {
            snprintf(id, sizeof id, "run_%zu", i);
            pids[i] = role_start("idle", id);
        }
        for (size_t i = 0; i < BL_COUNT(pids); i++) {
            struct bl_text receipt = {0};
            snprintf(id, sizeof id, "run_%zu", i);
            role_await(id, NULL);
            CHECK_EQUAL(bl_control_cancel(&arena, id, NULL, false, &receipt, NULL), 0);
            CHECK(receipt.size > 0);
        }
        for (size_t i = 0; i < BL_COUNT(pids); i++)
            CHECK_EQUAL(role_end(pids[i]), 0);
        CHECK_EQUAL(place_left(&place), 0);
        bl_arena_reset(&arena);
    }
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void processes_come_and_go_and_every_cancel_is_answered(void **state)
{
    (void)state;
    run_in_loop(churn, NULL);
}

SUITE(ask, cmocka_unit_test(without_processes_there_is_no_work),
      cmocka_unit_test(cancel_stops_the_process_that_has_the_id),
      cmocka_unit_test(a_run_with_a_real_tool_is_stopped_from_another_process),
      cmocka_unit_test(work_that_had_ended_has_no_receipt),
      cmocka_unit_test(sockets_of_killed_processes_are_removed),
      cmocka_unit_test(old_sockets_that_were_never_renamed_are_removed),
      cmocka_unit_test(a_paused_process_delays_no_other),
      cmocka_unit_test(a_process_killed_during_a_cancel_is_reported),
      cmocka_unit_test(the_caller_can_give_up),
      cmocka_unit_test(a_client_without_a_place_tries_again),
      cmocka_unit_test(processes_come_and_go_and_every_cancel_is_answered));
