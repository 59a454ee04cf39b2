/* A control with clients of every kind, over real sockets. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"

#define PS BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ps\"}\n")

static struct served served;

/* Reads a file into a static buffer. */
static struct bl_text read_whole(const char *path)
{
    static char text[4096];
    return bl_file_read(AT_FDCWD, path, text, sizeof text);
}

static bool is_answer(const char *line)
{
    return strstr(line, "\"result\":{\"pid\":") != NULL;
}

/* Checks that the control still answers a valid request. */
static void check_lives(void)
{
    int fd = client_connect();
    client_send(fd, PS);
    CHECK(is_answer(client_line(fd)));
    close(fd);
}

static int answers(void *argument)
{
    struct stat status;
    (void)argument;
    served_start(&served);
    CHECK_EQUAL(stat(place_path(&served.place, place_socket(&served.place)), &status), 0);
    CHECK(S_ISSOCK(status.st_mode));
    CHECK_EQUAL(status.st_mode & 07777, 0600);
    CHECK_EQUAL(place_count(&served.place), 1);
    int fd = client_connect();
    /* Several requests in one write, and one request in several. */
    client_send(fd, PS);
    client_send(
        fd, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ps\"}\n\n{\"jsonrpc\":\"2.0\","));
    bl_sleep(20 * MS);
    client_send(fd, BL_TEXT("\"id\":3,\"method\":\"nap\"}\r\n"));
    CHECK(strstr(client_line(fd), "\"id\":1,\"result\"") != NULL);
    CHECK(strstr(client_line(fd), "\"id\":2,\"result\"") != NULL);
    CHECK(strstr(client_line(fd), "\"id\":3,\"error\":{\"code\":-32601") != NULL);
    close(fd);
    served_stop(&served);
    return 0;
}

static void requests_are_answered_in_order(void **state)
{
    (void)state;
    run_in_loop(answers, NULL);
}

static int garbage(void *argument)
{
    (void)argument;
    served_start(&served);
    struct bl_random random;
    char bytes[4096];
    bl_random_seed(&random, 3);
    for (unsigned long round = 0; round < suite_rounds(30, 3000); round++) {
        int fd = client_connect();
        size_t size = 1 + bl_random_below(&random, sizeof bytes - 1);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)bl_random_next(&random);
        bytes[size - 1] = '\n';
        client_send(fd, (struct bl_text){bytes, size});
        const char *line = client_line(fd);
        CHECK(strstr(line, "\"code\":-32") != NULL);
        close(fd);
    }
    check_lives();
    served_stop(&served);
    return 0;
}

static void garbage_is_answered_with_errors(void **state)
{
    (void)state;
    run_in_loop(garbage, NULL);
}

static int giant(void *argument)
{
    size_t size = BL_CONTROL_LINE_MAX + 1;
    char *line = bl_alloc(size);
    (void)argument;
    served_start(&served);
    memset(line, ' ', size);
    /* A line of the largest size. */
    memcpy(line, PS.data, PS.size - 1);
    line[BL_CONTROL_LINE_MAX] = '\n';
    int fd = client_connect();
    client_send(fd, (struct bl_text){line, size});
    CHECK(is_answer(client_line(fd)));
    /* A line that never ends. */
    line[BL_CONTROL_LINE_MAX] = ' ';
    client_send(fd, (struct bl_text){line, size});
    CHECK(strstr(client_line(fd),
                 "\"code\":-32700,\"message\":\"line too long (the limit is 65536 bytes)\"") !=
          NULL);
    /* It is skipped to its end, and the connection stays open. */
    client_send(fd, BL_TEXT("\n"));
    client_send(fd, PS);
    CHECK(is_answer(client_line(fd)));
    close(fd);
    bl_free(line);
    served_stop(&served);
    return 0;
}

static void a_giant_line_is_skipped_and_the_connection_lives(void **state)
{
    (void)state;
    run_in_loop(giant, NULL);
}

/* Clients that disconnect in the middle of a request or an answer. */
static int gone(void *argument)
{
    static struct bl_activity many[500];
    (void)argument;
    served_start(&served);
    for (size_t i = 0; i < BL_COUNT(many); i++) {
        many[i] = (struct bl_activity){.kind = "run", .scope = bl_scope_current()};
        snprintf(many[i].id, sizeof many[i].id, "run_%zu", i);
        bl_activity_begin(&served.activities, &many[i]);
    }
    for (int i = 0; i < 50; i++) {
        int fd = client_connect();
        if (i % 3 == 0)
            client_send(fd, BL_TEXT("{\"jsonrpc\":\"2.0\""));
        else
            for (int j = 0; j < 20; j++)
                client_send(fd, PS);
        if (i % 2 == 0)
            bl_yield();
        close(fd);
    }
    check_lives();
    for (size_t i = 0; i < BL_COUNT(many); i++)
        bl_activity_end(&many[i], (struct bl_text){0});
    served_stop(&served);
    return 0;
}

static void a_client_that_disconnects_mid_answer_affects_no_other(void **state)
{
    (void)state;
    run_in_loop(gone, NULL);
}

#define IMPATIENT_NS (600 * MS)

/* Sends requests and never reads: when the pipes are full, it is disconnected. */
static int never_reads(void *argument)
{
    static struct bl_activity many[2000];
    (void)argument;
    serve_timeout_ns = IMPATIENT_NS;
    served_start(&served);
    for (size_t i = 0; i < BL_COUNT(many); i++) {
        many[i] = (struct bl_activity){.kind = "run", .scope = bl_scope_current()};
        snprintf(many[i].id, sizeof many[i].id, "run_%zu", i);
        bl_activity_begin(&served.activities, &many[i]);
    }
    int fd = client_connect();
    for (int i = 0; i < 10; i++)
        client_send(fd, PS);
    double start_ms = now_ms();
    /* Meanwhile the loop runs. */
    int other = client_connect();
    client_send(other, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nap\"}\n"));
    CHECK(strstr(client_line(other), "-32601") != NULL);
    CHECK(now_ms() - start_ms < 15000);
    close(other);
    while (send(fd, PS.data, PS.size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 &&
           now_ms() - start_ms < 20000)
        bl_sleep(50 * MS);
    double dropped_ms = now_ms() - start_ms;
    CHECK(dropped_ms > 300 && dropped_ms < 20000);
    close(fd);
    for (size_t i = 0; i < BL_COUNT(many); i++)
        bl_activity_end(&many[i], (struct bl_text){0});
    served_stop(&served);
    serve_timeout_ns = BL_CONTROL_NS_MAX;
    return 0;
}

static void a_client_that_never_reads_is_disconnected(void **state)
{
    (void)state;
    run_in_loop(never_reads, NULL);
}

static int never_writes(void *argument)
{
    (void)argument;
    serve_timeout_ns = IMPATIENT_NS;
    served_start(&served);
    int silent = client_connect(), half = client_connect();
    client_send(half, BL_TEXT("{\"jsonrpc\":"));
    double start_ms = now_ms();
    CHECK(strcmp(client_line(silent), "") == 0);
    CHECK(strcmp(client_line(half), "") == 0);
    CHECK(now_ms() - start_ms > 500);
    close(silent);
    close(half);
    serve_timeout_ns = BL_CONTROL_NS_MAX;
    check_lives();
    served_stop(&served);
    return 0;
}

static void a_client_that_never_writes_is_disconnected(void **state)
{
    (void)state;
    run_in_loop(never_writes, NULL);
}

static int crowd(void *argument)
{
    enum {
        CROWD = 100
    };
    int fds[CROWD];
    size_t answered = 0, turned_away = 0;
    (void)argument;
    served_start(&served);
    for (size_t i = 0; i < CROWD; i++) {
        /* Until the control runs again, there is room for 64 waiting connections. */
        if (i % 40 == 39)
            bl_sleep(20 * MS);
        fds[i] = client_connect();
    }
    bl_sleep(20 * MS);
    for (size_t i = 0; i < CROWD; i++) {
        client_send(fds[i], PS);
        const char *line = client_line(fds[i]);
        answered += is_answer(line);
        turned_away += strstr(line, "\"code\":-32000") != NULL;
    }
    CHECK_EQUAL(answered, BL_CONTROL_CLIENTS_MAX);
    CHECK_EQUAL(turned_away, CROWD - BL_CONTROL_CLIENTS_MAX);
    for (size_t i = 0; i < CROWD; i++)
        close(fds[i]);
    bl_sleep(50 * MS);
    check_lives();
    served_stop(&served);
    return 0;
}

static void a_hundred_clients_get_an_answer_if_they_have_a_place(void **state)
{
    (void)state;
    run_in_loop(crowd, NULL);
}

/* ---- Cancel ---- */

struct work {
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_activity activity;
};

/* Waits to be stopped, takes a moment to unwind, and answers with its receipt. */
static int work_main(void *argument)
{
    struct work *work = argument;
    struct bl_unit unit;
    struct bl_buffer text;
    struct bl_json_writer writer;
    struct bl_scope shield;
    bl_unit_begin(&unit, BL_UNIT_MODEL, "model_1", NULL);
    bl_sleep(600 * BL_NS_PER_S);
    bl_shield_begin(&shield, BL_NS_PER_S);
    bl_sleep(100 * MS);
    bl_shield_end(&shield);
    bl_unit_end(&unit, BL_FATE_ABORTED);
    bl_buffer_init(&text, 65536);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&work->receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    bl_activity_end(&work->activity, bl_buffer_text(&text));
    bl_buffer_done(&text);
    return 0;
}

static void work_start(struct work *work, const char *id)
{
    bl_scope_init(&work->scope, &served.nursery.scope);
    bl_receipt_open(&work->receipt, &work->scope, id);
    work->activity = (struct bl_activity){.kind = "run", .scope = &work->scope};
    bl_text_into(work->activity.id, sizeof work->activity.id, id);
    bl_text_into(work->activity.session, sizeof work->activity.session, "session-1");
    bl_activity_begin(&served.activities, &work->activity);
    CHECK_EQUAL(bl_nursery_spawn(&served.nursery, &work->scope, "work", work_main, work, NULL), 0);
}

static void work_done(struct work *work)
{
    bl_receipt_close(&work->receipt);
    bl_scope_done(&work->scope);
}

static int cancels(void *argument)
{
    static struct work first, second;
    (void)argument;
    served_start(&served);
    work_start(&first, "run_1");
    work_start(&second, "run_2");
    bl_yield();
    int fd = client_connect(), also = client_connect();
    double start_ms = now_ms();
    struct bl_text cancel =
        BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"cancel\",\"params\":{"
                "\"id\":\"run_1\",\"origin\":\"the test\"}}\n");
    client_send(fd, cancel);
    client_send(also, cancel);
    const char *line = client_line(fd);
    CHECK(now_ms() - start_ms >= 95);
    CHECK(strstr(line, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"receipt\":{\"id\":\"rcp_") ==
          line);
    CHECK(strstr(line, "\"reason\":\"user\",\"origin\":\"the test\"") != NULL);
    CHECK(strstr(line, "\"survivors\":0") != NULL);
    CHECK(strstr(line, "\"fate\":\"aborted\"") != NULL);
    /* A second caller gets the same answer; a later one finds nothing. */
    CHECK(strstr(client_line(also), "\"receipt\":{\"id\":\"rcp_") != NULL);
    client_send(fd, cancel);
    CHECK(strstr(client_line(fd), "\"code\":-32004") != NULL);
    CHECK(!bl_scope_stopped(&second.scope));
    bl_scope_stop(&second.scope, BL_STOP_USER, "test");
    close(fd);
    close(also);
    bl_sleep(200 * MS);
    work_done(&first);
    work_done(&second);
    served_stop(&served);
    return 0;
}

static void a_cancel_is_answered_when_all_is_quiet(void **state)
{
    (void)state;
    run_in_loop(cancels, NULL);
}

/* The end of the control waits for answers in progress, but not forever. */
static int ends_in_answers(void *argument)
{
    static struct work work;
    static struct bl_activity stuck = {.kind = "run", .id = "stuck"};
    struct bl_scope scope;
    (void)argument;
    served_start(&served);
    work_start(&work, "run_1");
    bl_scope_init(&scope, bl_scope_current());
    stuck.scope = &scope;
    bl_activity_begin(&served.activities, &stuck);
    bl_yield();
    int fd = client_connect(), other = client_connect();
    client_send(fd,
                BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":"
                        "\"run_1\"}}\n"));
    client_send(other,
                BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":"
                        "\"stuck\"}}\n"));
    bl_sleep(20 * MS);
    double start_ms = now_ms();
    bl_control_stop(served.control);
    served.control = NULL;
    CHECK(now_ms() - start_ms < 10000);
    CHECK(strstr(client_line(fd), "\"receipt\":{\"id\":\"rcp_") != NULL);
    CHECK(strcmp(client_line(other), "") == 0);
    close(fd);
    close(other);
    work_done(&work);
    bl_activity_end(&stuck, (struct bl_text){0});
    bl_scope_done(&scope);
    served_stop(&served);
    return 0;
}

static void its_end_waits_for_answers_but_not_forever(void **state)
{
    (void)state;
    run_in_loop(ends_in_answers, NULL);
}

/* ---- The socket ---- */

static int names(void *argument)
{
    struct bl_control *second = NULL;
    struct bl_activities none;
    char name[SERVE_NAME_SIZE];
    (void)argument;
    served_start(&served);
    bl_text_into(name, sizeof name, place_socket(&served.place));
    bl_activities_init(&none);
    CHECK_EQUAL(bl_control_start(&served.nursery, &none, &second, NULL), 0);
    CHECK_EQUAL(place_count(&served.place), 2);
    bl_control_stop(second);
    CHECK_EQUAL(place_left(&served.place), 2);
    check_lives();
    /* A file with our name that is not ours stays. */
    CHECK_EQUAL(unlink(place_path(&served.place, name)), 0);
    close(open(place_path(&served.place, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    bl_control_stop(served.control);
    served.control = NULL;
    CHECK_EQUAL(unlink(place_path(&served.place, name)), 0);
    served_stop(&served);
    return 0;
}

static void it_takes_over_no_file_and_leaves_none_behind(void **state)
{
    (void)state;
    run_in_loop(names, NULL);
}

/* For the process that finds it dead. */
static int leaves_a_trace(void *argument)
{
    struct bl_text trace, pid;
    char name[SERVE_NAME_SIZE], number[32];
    (void)argument;
    served_start(&served);
    serve_trace_name(place_socket(&served.place), name);
    snprintf(number, sizeof number, "{\"pid\":%d,", (int)getpid());
    pid = bl_text_from(number);
    trace = read_whole(place_path(&served.place, name));
    CHECK(bl_text_starts_with(trace, pid));
    CHECK(bl_text_ends_with(trace, BL_TEXT("\"activities\":[]}")));
    struct bl_activity run = {
        .kind = "run", .id = "run_1", .session = "s", .scope = bl_scope_current()};
    struct bl_activity call = {.kind = "call", .id = "call_1", .scope = bl_scope_current()};
    bl_activity_begin(&served.activities, &run);
    bl_activity_begin(&served.activities, &call);
    trace = read_whole(place_path(&served.place, name));
    CHECK(bl_text_ends_with(trace, BL_TEXT("\"activities\":[{\"id\":\"run_1\",\"kind\":\"run\","
                                           "\"session\":\"s\"}]}")));
    bl_activity_end(&call, (struct bl_text){0});
    bl_activity_end(&run, (struct bl_text){0});
    trace = read_whole(place_path(&served.place, name));
    CHECK(bl_text_ends_with(trace, BL_TEXT("\"activities\":[]}")));
    served_stop(&served);
    return 0;
}

static void started_work_is_recorded_beside_the_socket(void **state)
{
    (void)state;
    run_in_loop(leaves_a_trace, NULL);
}

static int long_place(void *argument)
{
    struct place place;
    char path[512];
    (void)argument;
    place_make(&place);
    snprintf(path, sizeof path, "%s/%0100d", place.runtime, 0);
    CHECK_EQUAL(mkdir(path, 0700), 0);
    setenv("XDG_RUNTIME_DIR", path, 1);
    bl_nursery_init(&served.nursery, bl_scope_current());
    bl_activities_init(&served.activities);
    CHECK_EQUAL(bl_control_start(&served.nursery, &served.activities, &served.control, NULL), 0);
    check_lives();
    bl_control_stop(served.control);
    bl_nursery_done(&served.nursery);
    place_remove(&place);
    return 0;
}

static void a_place_with_a_long_name_works_too(void **state)
{
    (void)state;
    run_in_loop(long_place, NULL);
}

static int refused(void *argument)
{
    struct place place;
    struct bl_nursery nursery;
    struct bl_activities none;
    struct bl_control *control = NULL;
    struct bl_error error = {0};
    (void)argument;
    place_make(&place);
    place_make_folder(&place);
    CHECK_EQUAL(chmod(place_path(&place, ""), 0755), 0);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_activities_init(&none);
    CHECK_EQUAL(bl_control_start(&nursery, &none, &control, &error), BL_EACCES);
    CHECK(strstr(error.message, "other users can access it") != NULL);
    CHECK(control == NULL);
    bl_control_stop(NULL);
    bl_nursery_done(&nursery);
    place_remove(&place);
    return 0;
}

static void a_folder_that_others_can_access_is_refused(void **state)
{
    (void)state;
    run_in_loop(refused, NULL);
}

static int stop_above(void *argument)
{
    (void)argument;
    served_start(&served);
    int fd = client_connect();
    client_send(fd, PS);
    CHECK(is_answer(client_line(fd)));
    bl_scope_stop(&served.nursery.scope, BL_STOP_USER, "test");
    CHECK(strcmp(client_line(fd), "") == 0);
    close(fd);
    served_stop(&served);
    return 0;
}

static void a_stop_of_the_nursery_ends_it(void **state)
{
    (void)state;
    run_in_loop(stop_above, NULL);
}

/* Another user cannot reach the folder, and would get no answer if he could. */
static int stranger(void *argument)
{
    char path[512];
    int status = -1;
    (void)argument;
    served_start(&served);
    CHECK_EQUAL(chmod(served.place.runtime, 0755), 0);
    CHECK_EQUAL(chmod(place_path(&served.place, ".."), 0755), 0);
    CHECK_EQUAL(chmod(place_path(&served.place, ""), 0755), 0);
    bl_text_into(path, sizeof path, place_path(&served.place, place_socket(&served.place)));
    CHECK_EQUAL(chmod(path, 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        char byte;
        bl_text_into(address.sun_path, sizeof address.sun_path, path);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (setresuid(65534, 65534, 65534) != 0 ||
            connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            _exit(2);
        if (send(fd, PS.data, PS.size, MSG_NOSIGNAL) < 0)
            _exit(0);
        _exit(recv(fd, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    while (waitpid(child, &status, WNOHANG) == 0)
        bl_sleep(5 * MS);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
    served_stop(&served);
    return 0;
}

static void R1_another_user_gets_no_answer(void **state)
{
    (void)state;
    if (geteuid() != 0)
        suite_skip("needs root");
    run_in_loop(stranger, NULL);
}

SUITE(control, cmocka_unit_test(requests_are_answered_in_order),
      cmocka_unit_test(garbage_is_answered_with_errors),
      cmocka_unit_test(a_giant_line_is_skipped_and_the_connection_lives),
      cmocka_unit_test(a_client_that_disconnects_mid_answer_affects_no_other),
      cmocka_unit_test(a_client_that_never_reads_is_disconnected),
      cmocka_unit_test(a_client_that_never_writes_is_disconnected),
      cmocka_unit_test(a_hundred_clients_get_an_answer_if_they_have_a_place),
      cmocka_unit_test(a_cancel_is_answered_when_all_is_quiet),
      cmocka_unit_test(its_end_waits_for_answers_but_not_forever),
      cmocka_unit_test(it_takes_over_no_file_and_leaves_none_behind),
      cmocka_unit_test(started_work_is_recorded_beside_the_socket),
      cmocka_unit_test(a_place_with_a_long_name_works_too),
      cmocka_unit_test(a_folder_that_others_can_access_is_refused),
      cmocka_unit_test(a_stop_of_the_nursery_ends_it),
      cmocka_unit_test(R1_another_user_gets_no_answer));
