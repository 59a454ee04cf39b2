/* Methods that a program offers, and their callers: in this process and in others. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "place.h"

#define CALLERS 8u
#define MEETING 8u

static struct served served;

/* State shared by the offers of this file. */
static struct {
    unsigned calls;
    unsigned inside;
    int ended; /* return value of the wait in a waiting method */
    struct bl_semaphore begun, go;
} seen;

static int echo(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                struct bl_error *error)
{
    struct bl_json_writer writer;
    (void)error;
    seen.calls++;
    bl_json_writer_init(&writer, ret_result);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "context", context);
    bl_json_write_key(&writer, BL_TEXT("params"));
    bl_json_write_value(&writer, params);
    bl_json_write_end(&writer);
    return bl_json_writer_done(&writer);
}

/* Other fibers run in between. */
static int nap(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
               struct bl_error *error)
{
    bl_yield();
    return echo(context, params, ret_result, error);
}

/* Continues when MEETING of them have arrived. */
static int meet(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                struct bl_error *error)
{
    int code = 0;
    if (++seen.inside % MEETING != 0)
        code = bl_semaphore_take(&seen.go);
    else
        for (unsigned i = 1; i < MEETING; i++)
            bl_semaphore_give(&seen.go);
    return code != 0 ? code : echo(context, params, ret_result, error);
}

static int refuse(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                  struct bl_error *error)
{
    (void)context, (void)params;
    bl_buffer_append(ret_result, BL_TEXT("{\"half"));
    bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, "extend", "TASK-1", "\"it\" has\nfired\x1b[1m");
    bl_error_hint(error, "resume it");
    bl_error_name_set(error, "too_late");
    error->retryable = true;
    return BL_EEXIST;
}

static int refuse_without_a_word(void *context, const struct bl_json *params,
                                 struct bl_buffer *ret_result, struct bl_error *error)
{
    (void)context, (void)params, (void)ret_result, (void)error;
    return BL_ENOSPC;
}

static int spread(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                  struct bl_error *error)
{
    (void)context, (void)params, (void)error;
    return bl_buffer_append(ret_result, BL_TEXT("\n{\n  \"a\":\n\n 1}\n"));
}

static int nothing(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                   struct bl_error *error)
{
    (void)context, (void)params, (void)ret_result, (void)error;
    return 0;
}

/* A text of the requested size. */
static int large(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                 struct bl_error *error)
{
    int64_t size = 0;
    (void)context, (void)error;
    bl_json_int64(bl_json_get(params, BL_TEXT("size")), &size);
    bl_buffer_append_byte(ret_result, '"');
    bl_buffer_reserve(ret_result, (size_t)size);
    memset(ret_result->data + ret_result->size, 'x', (size_t)size);
    ret_result->size += (size_t)size;
    return bl_buffer_append_byte(ret_result, '"');
}

static int hang(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                struct bl_error *error)
{
    (void)context, (void)params, (void)error;
    bl_semaphore_give(&seen.begun);
    seen.ended = bl_semaphore_take(&seen.go);
    if (seen.ended == 0)
        bl_buffer_append(ret_result, BL_TEXT("\"gone on\""));
    bl_semaphore_give(&seen.begun);
    return seen.ended;
}

static const struct bl_control_offer offers[] = {
    {"test.echo", echo, "here"},
    {"test.nap", nap, "here"},
    {"test.refuse", refuse, NULL},
    {"test.large", large, NULL},
    {"test.spread", spread, NULL},
    {"test.nothing", nothing, NULL},
    {"test.hang", hang, NULL},
    {"test.meet", meet, "here"},
    {"test.mute", refuse_without_a_word, NULL},
};

static void begin(void)
{
    memset(&seen, 0, sizeof seen);
    bl_semaphore_init(&seen.begun, 0);
    bl_semaphore_init(&seen.go, 0);
    served_start(&served);
    for (size_t i = 0; i < BL_COUNT(offers); i++)
        bl_control_offer(served.control, &offers[i]);
}

static int call(struct bl_arena *arena, const char *method, const char *params,
                struct bl_text *ret_result, struct bl_error *error)
{
    *error = (struct bl_error){0};
    *ret_result = (struct bl_text){0};
    return bl_control_call(arena, getpid(), method, bl_text_from(params), ret_result, error);
}

/* ---- Results --------------------------------------------------------------------------------- */

static int results(void *argument)
{
    static const struct {
        const char *method, *params, *result;
    } cases[] = {
        {"test.echo", NULL, "{\"context\":\"here\",\"params\":null}"},
        {"test.echo", "{\"a\":[1,null]}", "{\"context\":\"here\",\"params\":{\"a\":[1,null]}}"},
        {"test.echo", "[\"\\n\"]", "{\"context\":\"here\",\"params\":[\"\\n\"]}"},
        {"test.nap", "{}", "{\"context\":\"here\",\"params\":{}}"},
        {"test.spread", NULL, "{\"a\":1}"},
        {"test.nothing", NULL, "null"},
    };
    struct bl_arena arena = {0};
    struct bl_error error;
    struct bl_text result;
    (void)argument;
    begin();
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        CHECK_EQUAL(call(&arena, cases[i].method, cases[i].params, &result, &error), 0);
        if (!CHECK(bl_text_equal(result, bl_text_from(cases[i].result))))
            fprintf(stderr, "%s: " BL_TEXT_FORMAT "\n", cases[i].method, BL_TEXT_ARG(result));
    }
    /* The built-in methods still exist. */
    CHECK_EQUAL(call(&arena, "ps", NULL, &result, &error), 0);
    CHECK(bl_text_find(result, BL_TEXT("\"activities\":[]")) > 0);
    bl_arena_done(&arena);
    served_stop(&served);
    return 0;
}

static void an_offer_is_called_with_its_params_and_its_result_comes_back(void **state)
{
    (void)state;
    run_in_loop(results, NULL);
}

static int sizes(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_error error;
    struct bl_text result;
    struct bl_buffer params;
    (void)argument;
    begin();
    CHECK_EQUAL(call(&arena, "test.large", "{\"size\":16776958}", &result, &error), 0);
    CHECK_EQUAL(result.size, (16 << 20) - 256);
    /* It fits into the method's buffer, but not into an answer. */
    CHECK_EQUAL(call(&arena, "test.large", "{\"size\":16776959}", &result, &error), BL_EUNKNOWN);
    CHECK(strstr(error.message, "the result does not fit into an answer") != NULL);
    /* The largest that fits into a line, and the smallest that does not. */
    bl_buffer_init(&params, 1 << 20);
    struct bl_text frame = BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"test.echo\","
                                   "\"params\":[\"\"]}");
    bl_buffer_append(&params, BL_TEXT("[\""));
    while (params.size + frame.size - 4 < BL_CONTROL_LINE_MAX)
        bl_buffer_append_byte(&params, 'x');
    bl_buffer_append(&params, BL_TEXT("\"]"));
    params.size -= 2;
    memmove(params.data + params.size - 2, "\"]", 2);
    bl_buffer_append_byte(&params, '\0');
    CHECK_EQUAL(call(&arena, "test.echo", params.data, &result, &error), 0);
    CHECK_EQUAL(result.size, params.size - 1 + strlen("{\"context\":\"here\",\"params\":}"));
    params.data[params.size - 3] = 'x';
    params.data[params.size - 2] = '"';
    params.data[params.size - 1] = ']';
    bl_buffer_append_byte(&params, '\0');
    CHECK_EQUAL(call(&arena, "test.echo", params.data, &result, &error), BL_ELIMIT);
    CHECK_EQUAL(error.kind, BL_KIND_USAGE);
    CHECK_EQUAL(seen.calls, 1);
    bl_buffer_done(&params);
    bl_arena_done(&arena);
    served_stop(&served);
    return 0;
}

static void requests_have_64_KiB_and_answers_16_MiB(void **state)
{
    (void)state;
    run_in_loop(sizes, NULL);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static int errors(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_error error, expected = {0};
    struct bl_text result;
    struct bl_buffer unused;
    (void)argument;
    begin();
    bl_buffer_init(&unused, 100);
    refuse(NULL, NULL, &unused, &expected);
    bl_buffer_done(&unused);
    CHECK_EQUAL(call(&arena, "test.refuse", NULL, &result, &error), BL_EEXIST);
    CHECK_EQUAL(error.code, expected.code);
    CHECK_EQUAL(error.kind, expected.kind);
    CHECK_EQUAL(error.retryable, expected.retryable);
    CHECK(strcmp(error.name, expected.name) == 0);
    CHECK(strcmp(error.operation, expected.operation) == 0);
    CHECK(strcmp(error.target, expected.target) == 0);
    CHECK(strcmp(error.message, expected.message) == 0);
    CHECK(strcmp(error.hint, expected.hint) == 0);
    CHECK_EQUAL(result.size, 0);
    CHECK_EQUAL(
        bl_control_call(&arena, getpid(), "test.refuse", (struct bl_text){0}, &result, NULL),
        BL_EEXIST);
    CHECK_EQUAL(call(&arena, "test.mute", NULL, &result, &error), BL_ENOSPC);
    CHECK(strcmp(error.message, "no space left") == 0);
    CHECK_EQUAL(call(&arena, "test.eco", NULL, &result, &error), BL_ENOTSUP);
    CHECK_EQUAL(error.kind, BL_KIND_DELIVERY);
    CHECK(strstr(error.message,
                 "unknown method (expected ps, cancel, finish, status, inject, watch, "
                 "debug, test.echo, test.nap, ") != NULL);
    CHECK(strstr(error.message, " or test.mute)") != NULL);
    CHECK_EQUAL(call(&arena, "cancel", "{}", &result, &error), BL_EINVAL);
    CHECK_EQUAL(call(&arena, "cancel", "{\"id\":\"x\"}", &result, &error), BL_ENOENT);
    /* On the wire, the code is the error's own, and the object has the rest. */
    int fd = client_connect();
    client_send(fd, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"test.refuse\"}\n"));
    CHECK(strcmp(client_line(fd),
                 "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-1008,\"message\":\"\\\"it"
                 "\\\" has\\nfired\\u001b[1m\",\"data\":{\"kind\":\"feature\",\"operation\":"
                 "\"extend\",\"target\":\"TASK-1\",\"retryable\":true,\"message\":\"\\\"it\\\" has"
                 "\\nfired\\u001b[1m\",\"hint\":\"resume it\",\"code\":\"too_late\"}}}") == 0);
    close(fd);
    bl_arena_done(&arena);
    served_stop(&served);
    return 0;
}

static void an_error_comes_back_as_it_was_set(void **state)
{
    (void)state;
    run_in_loop(errors, NULL);
}

/* ---- Missing and silent processes ------------------------------------------------------------ */

static int absent(void *argument)
{
    struct bl_arena arena = {0};
    struct bl_error error;
    struct bl_text result;
    (void)argument;
    place_make(&served.place);
    CHECK_EQUAL(call(&arena, "test.echo", NULL, &result, &error), BL_ENOENT);
    CHECK_EQUAL(error.kind, BL_KIND_DELIVERY);
    place_remove(&served.place);
    begin();
    error = (struct bl_error){0};
    CHECK_EQUAL(bl_control_call(&arena, 999999999, "ps", (struct bl_text){0}, &result, &error),
                BL_ENOENT);
    CHECK(strcmp(error.message, "no process with pid 999999999 listens") == 0);
    /* Files of dead processes with that pid are skipped and removed. */
    place_leave_dead(&served.place, DEAD_SOCKET);
    place_leave_dead(&served.place, "zzzzzzzzzzzzzzzzzzzz.sock");
    CHECK_EQUAL(place_count(&served.place), 3);
    CHECK_EQUAL(call(&arena, "test.echo", NULL, &result, &error), 0);
    CHECK_EQUAL(call(&arena, "test.unknown", NULL, &result, &error), BL_ENOTSUP);
    CHECK_EQUAL(place_count(&served.place), 1);
    bl_arena_done(&arena);
    served_stop(&served);
    return 0;
}

static void a_process_that_is_not_there_is_not_found(void **state)
{
    (void)state;
    run_in_loop(absent, NULL);
}

struct waiting_call {
    int64_t pid;
    const char *method;
    struct bl_arena arena;
    struct bl_scope scope;
    struct bl_text result;
    struct bl_error error;
    int code;
    bool ended;
};

static int waiting_main(void *argument)
{
    struct waiting_call *waiting = argument;
    waiting->code = bl_control_call(&waiting->arena, waiting->pid, waiting->method,
                                    (struct bl_text){0}, &waiting->result, &waiting->error);
    waiting->ended = true;
    return 0;
}

static void call_beside(struct bl_nursery *nursery, struct waiting_call *waiting)
{
    bl_nursery_init(nursery, bl_scope_current());
    bl_scope_init(&waiting->scope, &nursery->scope);
    CHECK_EQUAL(bl_nursery_spawn(nursery, &waiting->scope, "call", waiting_main, waiting, NULL), 0);
}

static void end_beside(struct bl_nursery *nursery, struct waiting_call *waiting)
{
    CHECK_EQUAL(bl_nursery_join(nursery), 0);
    bl_scope_done(&waiting->scope);
    bl_nursery_done(nursery);
    bl_arena_done(&waiting->arena);
}

/* A paused process is reported; a slow one, which answers other clients meanwhile, is waited for;
 * one that dies is reported. */
static int silent(void *argument)
{
    struct waiting_call waiting = {.method = "role.hang"};
    struct bl_nursery nursery;
    struct bl_error error = {0};
    struct bl_text result;
    (void)argument;
    place_make(&served.place);
    serve_timeout_ns = 50 * MS;
    pid_t pid = role_start("offer", "run_o");
    role_await("run_o", NULL);
    waiting.pid = pid;
    call_beside(&nursery, &waiting);
    bl_sleep(6 * serve_timeout_ns);
    CHECK(!waiting.ended);
    kill(pid, SIGSTOP);
    CHECK_EQUAL(bl_control_call(&waiting.arena, pid, "ps", (struct bl_text){0}, &result, &error),
                BL_EAGAIN);
    CHECK(strstr(error.message, "listens but does not answer") != NULL);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(waiting.code, BL_EAGAIN);
    end_beside(&nursery, &waiting);
    kill(pid, SIGCONT);
    role_await("run_o", NULL);
    waiting = (struct waiting_call){.method = "role.hang", .pid = pid};
    call_beside(&nursery, &waiting);
    bl_sleep(2 * serve_timeout_ns);
    kill(pid, SIGKILL);
    CHECK_EQUAL(role_end(pid), 128 + SIGKILL);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(waiting.code, BL_EUNKNOWN);
    CHECK(strstr(waiting.error.message, "exited without an answer") != NULL);
    end_beside(&nursery, &waiting);
    serve_timeout_ns = BL_CONTROL_NS_MAX;
    place_remove(&served.place);
    return 0;
}

static void a_paused_or_dead_process_is_reported_and_a_slow_one_is_waited_for(void **state)
{
    (void)state;
    run_in_loop(silent, NULL);
}

/* The caller gives up: the client disconnects, and the method's fiber is stopped. */
static int given_up(void *argument)
{
    struct waiting_call waiting = {.method = "test.hang", .pid = getpid()};
    struct bl_nursery nursery;
    (void)argument;
    begin();
    call_beside(&nursery, &waiting);
    CHECK_EQUAL(bl_semaphore_take(&seen.begun), 0);
    bl_scope_stop(&waiting.scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(waiting.code, BL_ECANCELED);
    CHECK_EQUAL(bl_semaphore_take(&seen.begun), 0);
    CHECK_EQUAL(seen.ended, BL_ECANCELED);
    end_beside(&nursery, &waiting);
    served_stop(&served);
    return 0;
}

static void when_the_caller_gives_up_its_method_is_stopped(void **state)
{
    (void)state;
    run_in_loop(given_up, NULL);
}

/* A client that has closed its sending side still gets the answer; one that then disconnects does
 * not. */
static int half_closed(void *argument)
{
    (void)argument;
    begin();
    for (int goes = 0; goes < 2; goes++) {
        int fd = client_connect();
        client_send(fd, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"test.hang\"}\n"));
        CHECK_EQUAL(bl_semaphore_take(&seen.begun), 0);
        CHECK_EQUAL(shutdown(fd, SHUT_WR), 0);
        bl_sleep(20 * MS);
        CHECK_EQUAL(bl_semaphore_try_take(&seen.begun), BL_EAGAIN);
        if (goes == 0) {
            bl_semaphore_give(&seen.go);
            CHECK(strcmp(client_line(fd),
                         "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"gone on\"}") == 0);
        }
        close(fd);
        CHECK_EQUAL(bl_semaphore_take(&seen.begun), 0);
        CHECK_EQUAL(seen.ended, goes == 0 ? 0 : BL_ECANCELED);
    }
    served_stop(&served);
    return 0;
}

static void a_client_that_has_sent_its_last_byte_is_answered(void **state)
{
    (void)state;
    run_in_loop(half_closed, NULL);
}

/* The end of the control ends a waiting method, and its caller is notified. */
static int ended(void *argument)
{
    struct waiting_call waiting = {.method = "test.hang", .pid = getpid()};
    struct bl_nursery nursery;
    (void)argument;
    begin();
    call_beside(&nursery, &waiting);
    CHECK_EQUAL(bl_semaphore_take(&seen.begun), 0);
    served_stop(&served);
    CHECK_EQUAL(seen.ended, BL_ECANCELED);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(waiting.code, BL_EUNKNOWN);
    end_beside(&nursery, &waiting);
    return 0;
}

static void the_end_of_the_control_ends_a_method_that_waits(void **state)
{
    (void)state;
    run_in_loop(ended, NULL);
}

/* ---- Many callers ---------------------------------------------------------------------------- */

/* All places are taken for longer than any timeout. */
static int crowd(void *argument)
{
    struct waiting_call waiting = {.method = "test.echo", .pid = getpid()};
    struct bl_nursery nursery;
    int fds[BL_CONTROL_CLIENTS_MAX];
    (void)argument;
    begin();
    for (size_t i = 0; i < BL_COUNT(fds); i++) {
        fds[i] = client_connect();
        client_send(fds[i], BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"test.echo\"}\n"));
        CHECK(client_line(fds[i])[0] == '{');
    }
    serve_timeout_ns = 50 * MS;
    call_beside(&nursery, &waiting);
    bl_sleep(4 * serve_timeout_ns);
    CHECK(!waiting.ended);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        close(fds[i]);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(waiting.code, 0);
    CHECK_EQUAL(seen.calls, BL_CONTROL_CLIENTS_MAX + 1);
    end_beside(&nursery, &waiting);
    served_stop(&served);
    serve_timeout_ns = BL_CONTROL_NS_MAX;
    return 0;
}

static void a_client_without_a_place_is_accepted_later(void **state)
{
    (void)state;
    run_in_loop(crowd, NULL);
}

static int calls_of_processes(void *argument)
{
    unsigned long each = suite_rounds(125, 2000);
    pid_t callers[CALLERS];
    char what[64];
    (void)argument;
    begin();
    snprintf(what, sizeof what, "%d:%lu", (int)getpid(), each);
    for (size_t i = 0; i < CALLERS; i++)
        callers[i] = role_start("call", what);
    for (size_t i = 0; i < CALLERS; i++)
        CHECK_EQUAL(role_end(callers[i]), 0);
    CHECK_EQUAL(seen.calls, CALLERS * each);
    served_stop(&served);
    return 0;
}

static void a_thousand_calls_from_8_processes_are_all_answered(void **state)
{
    (void)state;
    run_in_loop(calls_of_processes, NULL);
}

/* More callers at once than there are places. */
static int flood(void *argument)
{
    static struct waiting_call calls[4 * BL_CONTROL_CLIENTS_MAX];
    struct bl_nursery nursery;
    (void)argument;
    begin();
    memset(calls, 0, sizeof calls);
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(calls); i++) {
        calls[i] = (struct waiting_call){.method = "test.meet", .pid = getpid()};
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "call", waiting_main, &calls[i], NULL), 0);
    }
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    for (size_t i = 0; i < BL_COUNT(calls); i++) {
        CHECK_EQUAL(calls[i].code, 0);
        bl_arena_done(&calls[i].arena);
    }
    CHECK_EQUAL(seen.calls, BL_COUNT(calls));
    served_stop(&served);
    return 0;
}

static void calls_work_side_by_side_each_in_its_own_fiber(void **state)
{
    (void)state;
    run_in_loop(flood, NULL);
}

SUITE(offer, cmocka_unit_test(an_offer_is_called_with_its_params_and_its_result_comes_back),
      cmocka_unit_test(requests_have_64_KiB_and_answers_16_MiB),
      cmocka_unit_test(an_error_comes_back_as_it_was_set),
      cmocka_unit_test(a_process_that_is_not_there_is_not_found),
      cmocka_unit_test(a_paused_or_dead_process_is_reported_and_a_slow_one_is_waited_for),
      cmocka_unit_test(when_the_caller_gives_up_its_method_is_stopped),
      cmocka_unit_test(a_client_that_has_sent_its_last_byte_is_answered),
      cmocka_unit_test(the_end_of_the_control_ends_a_method_that_waits),
      cmocka_unit_test(a_client_without_a_place_is_accepted_later),
      cmocka_unit_test(a_thousand_calls_from_8_processes_are_all_answered),
      cmocka_unit_test(calls_work_side_by_side_each_in_its_own_fiber));
