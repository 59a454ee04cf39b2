/* Requests, answers and notifications over a connection. */
#include "rpc_room.h"

/* ---- Requests -------------------------------------------------------------------------------- */

static int answers(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT(REQUEST("1", "now") REQUEST("\"b\"", "now") "\n \r\n" REQUEST("null", "now")));
    CHECK(hears(RESULT("1", "\"now\"")));
    CHECK(hears(RESULT("\"b\"", "\"now\"")));
    CHECK(hears(RESULT("null", "\"now\"")));
    say(BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\",\"params\":{\"a\":[1,2]}}\r\n"));
    CHECK(hears(RESULT("2", "{\"a\":[1,2]}")));
    say(BL_TEXT(REQUEST("3", "nap") REQUEST("4", "bad") REQUEST("5", "forget")));
    CHECK(hears(FAILURE("3", "-32601") "\"message\":\"there is no such method: nap\"}}"));
    CHECK(hears(FAILURE("4", "-32602") "\"message\":\"bad\",\"data\":{\"path\":\"/a\"}}}"));
    CHECK(hears_begin(FAILURE("5", "-32603")));
    /* A dropped request has no answer, and its id is free again. */
    say(BL_TEXT(REQUEST("6", "drop")));
    check_lives();
    say(BL_TEXT(REQUEST("6", "now")));
    CHECK(hears(RESULT("6", "\"now\"")));
    CHECK_EQUAL(room.faults, 0);
    CHECK_EQUAL(bl_rpc_queued(room.rpc), 0);
    close_room(fd);
    return 0;
}

IN_LOOP(each_request_is_answered_exactly_once, answers)

static int unwanted(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"now\"}\n"
                "{\"jsonrpc\":\"2.0\",\"method\":\"whatever\",\"params\":[1]}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":1}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"m\"}}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}\n"));
    check_lives();
    CHECK_EQUAL(room.notified, 2);
    CHECK(strcmp(room.last, "whatever") == 0);
    CHECK_EQUAL(room.served, 1);
    CHECK_EQUAL(room.faults, 0);
    close_room(fd);
    return 0;
}

IN_LOOP(notifications_and_answers_that_nobody_waits_for_are_not_answered, unwanted)

static int doubles(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT(REQUEST("1", "hang") REQUEST("\"1\"", "hang") REQUEST("1", "now")));
    CHECK(hears_begin(FAILURE("1", "-32600") "\"message\":\"a request with this id"));
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    bl_semaphore_give(&room.go);
    CHECK(hears(RESULT("1", "\"given\"")));
    bl_semaphore_give(&room.go);
    CHECK(hears(RESULT("\"1\"", "\"given\"")));
    say(BL_TEXT(REQUEST("1", "now")));
    CHECK(hears(RESULT("1", "\"now\"")));
    close_room(fd);
    return 0;
}

IN_LOOP(an_id_in_flight_is_refused_and_free_once_it_is_answered, doubles)

static int one_stops(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT(REQUEST("1", "hang") REQUEST("2", "hang") REQUEST("3", "hang")));
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    say(BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"requestId\":2}}\n"
                "{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"requestId\":9}}\n"));
    CHECK(hears(RESULT("2", "\"stopped\"")));
    CHECK_EQUAL(room.reason, BL_STOP_USER);
    CHECK_EQUAL(room.serving, 2);
    bl_semaphore_give(&room.go);
    bl_semaphore_give(&room.go);
    CHECK(hears(RESULT("1", "\"given\"")));
    CHECK(hears(RESULT("3", "\"given\"")));
    room.reason = BL_STOP_NONE;
    close_room(fd);
    return 0;
}

IN_LOOP(each_call_has_its_own_scope, one_stops)

static int many(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){.calls_max = 4});
    for (int i = 0; i < 20; i++) {
        char line[80];
        int size =
            snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"hang\"}\n", i);
        say((struct bl_text){line, (size_t)size});
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    for (int i = 0; i < 20; i++)
        bl_yield();
    CHECK_EQUAL(room.serving, 4);
    for (int i = 0; i < 20; i++) {
        bl_semaphore_give(&room.go);
        CHECK(hears_begin("{\"jsonrpc\":\"2.0\",\"id\":"));
        CHECK(room.serving <= 4);
    }
    CHECK_EQUAL(room.served, 20);
    close_room(fd);
    return 0;
}

IN_LOOP(calls_beyond_the_limit_are_not_read, many)

/* ---- Pieces ---------------------------------------------------------------------------------- */

static int pieces(void *argument)
{
    static const char *const words[] = {"one ", "t\"wo\n", "\xE2\x82\xAC", "", "\x01 four"};
    struct bl_buffer text;
    unsigned messages = 0, count = 2000;
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    /* Alone in the queue it is sent at once. */
    struct bl_rpc_piece piece = {.method = "update",
                                 .key = BL_TEXT("m1"),
                                 .head = BL_TEXT("{\"id\":1,\n\"text\":"),
                                 .text = BL_TEXT("a\"b"),
                                 .tail = BL_TEXT(",\"end\":[]}")};
    CHECK_EQUAL(bl_rpc_notify_piece(room.rpc, &piece), 0);
    CHECK(hears("{\"jsonrpc\":\"2.0\",\"method\":\"update\",\"params\":{\"id\":1, \"text\":"
                "\"a\\\"b\",\"end\":[]}}"));
    bl_buffer_init(&text, (size_t)8 << 20);
    while (bl_rpc_queued(room.rpc) == 0)
        CHECK_EQUAL(bl_rpc_notify(room.rpc, "n", params_of_1_KiB()), 0);
    for (unsigned i = 0; i < count; i++) {
        piece.text = bl_text_from(words[i % BL_COUNT(words)]);
        bl_buffer_append(&text, piece.text);
        CHECK_EQUAL(bl_rpc_notify_piece(room.rpc, &piece), 0);
    }
    struct bl_rpc_piece other = piece;
    other.key = BL_TEXT("m2");
    other.text = BL_TEXT("z");
    CHECK_EQUAL(bl_rpc_notify_piece(room.rpc, &other), 0);
    CHECK_EQUAL(bl_rpc_notify(room.rpc, "last", (struct bl_text){0}), 0);
    struct bl_arena arena = {0};
    struct bl_buffer joined;
    bl_buffer_init(&joined, (size_t)8 << 20);
    struct bl_text line;
    while ((line = hear()).size > 0 && bl_text_find(line, BL_TEXT("\"last\"")) < 0) {
        const struct bl_json *value = NULL;
        CHECK_EQUAL(bl_json_read(&arena, line, NULL, &value, NULL), 0);
        struct bl_text method = bl_json_text(bl_json_get(value, BL_TEXT("method")));
        if (!bl_text_equal(method, BL_TEXT("update")))
            continue;
        messages++;
        bl_buffer_append(&joined, bl_json_text(bl_json_pointer(value, BL_TEXT("/params/text"))));
        CHECK(bl_json_is(bl_json_pointer(value, BL_TEXT("/params/end")), BL_JSON_ARRAY));
    }
    bl_buffer_append(&text, BL_TEXT("z"));
    CHECK(bl_text_equal(bl_buffer_text(&joined), bl_buffer_text(&text)));
    CHECK_EQUAL(messages, 2);
    bl_buffer_done(&joined);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
    close_room(fd);
    return 0;
}

IN_LOOP(pieces_that_wait_are_joined_and_no_byte_is_lost, pieces)

/* ---- Requests to the peer ---- */

struct asking {
    struct bl_scope scope;
    struct bl_arena arena;
    const struct bl_json *result;
    struct bl_rpc_failure failure;
    struct bl_error error;
    int code;
    bool ended;
};

static int ask_main(void *argument)
{
    struct asking *asking = argument;
    asking->code = bl_rpc_ask(room.rpc, "question", BL_TEXT("{\"q\":1}"), &asking->arena,
                              &asking->result, &asking->failure, &asking->error);
    asking->ended = true;
    return 0;
}

static void ask_begin_in(struct bl_nursery *nursery, struct asking *asking)
{
    *asking = (struct asking){0};
    bl_scope_init(&asking->scope, &nursery->scope);
    CHECK_EQUAL(bl_nursery_spawn(nursery, &asking->scope, "ask", ask_main, asking, NULL), 0);
}

static void ask_begin(struct asking *asking)
{
    ask_begin_in(&room.nursery, asking);
}

static void ask_end(struct asking *asking)
{
    while (!asking->ended)
        bl_sleep(MS);
    bl_sleep(MS);
    bl_scope_done(&asking->scope);
    bl_arena_done(&asking->arena);
}

#define QUESTION(id)                                                                               \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"question\",\"params\":{\"q\":1}}"

static int asks(void *argument)
{
    struct asking first, second;
    int64_t number = 0;
    (void)argument;
    int fd = open_room((struct bl_rpc_options){.cancel_method = "$/cancel_request"});
    ask_begin(&first);
    ask_begin(&second);
    CHECK(hears(QUESTION("1")));
    CHECK(hears(QUESTION("2")));
    /* In any order; the result is in the caller's memory. */
    say(BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"n\":22}}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-7,\"message\":\"no\","
                "\"data\":[3]}}\n"));
    while (!first.ended || !second.ended)
        bl_sleep(MS);
    CHECK_EQUAL(second.code, 0);
    CHECK(bl_json_int64(bl_json_get(second.result, BL_TEXT("n")), &number) && number == 22);
    CHECK_EQUAL(first.code, BL_EREFUSED);
    CHECK_EQUAL(first.failure.code, -7);
    CHECK(bl_text_equal(first.failure.message, BL_TEXT("no")));
    CHECK(bl_json_int64(bl_json_at(first.failure.data, 0), &number) && number == 3);
    CHECK_EQUAL(first.error.kind, BL_KIND_DELIVERY);
    ask_end(&first);
    ask_end(&second);
    /* Given up: the request is cancelled, and a late answer is dropped. */
    ask_begin(&first);
    CHECK(hears(QUESTION("3")));
    bl_scope_stop(&first.scope, BL_STOP_USER, "test");
    CHECK(hears("{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":"
                "{\"requestId\":3}}"));
    say(BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":1}\n"));
    check_lives();
    CHECK_EQUAL(first.code, BL_ECANCELED);
    CHECK(first.result == NULL);
    ask_end(&first);
    /* The peer could not read it: an error without an id answers the only open request. */
    ask_begin(&first);
    CHECK(hears(QUESTION("4")));
    say(BL_TEXT(
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}\n"));
    ask_end(&first);
    CHECK_EQUAL(first.code, BL_EREFUSED);
    CHECK_EQUAL(first.failure.code, BL_RPC_PARSE);
    /* The peer disconnects. */
    ask_begin(&first);
    CHECK(hears(QUESTION("5")));
    peer_go();
    while (!first.ended)
        bl_sleep(MS);
    CHECK_EQUAL(first.code, BL_EPIPE);
    CHECK_EQUAL(first.error.kind, BL_KIND_DELIVERY);
    ask_end(&first);
    ask_begin(&first);
    ask_end(&first);
    CHECK_EQUAL(first.code, BL_EPIPE);
    close_room(fd);
    return 0;
}

IN_LOOP(requests_are_answered_refused_cancelled_or_lost, asks)

/* A peer that refuses the connection answers before it is asked. */
static int turned_away(void *argument)
{
    struct asking asking;
    struct bl_text line = BL_TEXT(
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"m\"}}\n");
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(line);
    peer_go();
    ask_begin(&asking);
    ask_end(&asking);
    CHECK_EQUAL(asking.code, BL_EREFUSED);
    CHECK_EQUAL(asking.failure.code, BL_RPC_BUSY);
    CHECK_EQUAL(room.gone, 1);
    close_room(fd);
    return 0;
}

IN_LOOP(answer_that_arrived_before_its_request_is_read, turned_away)

static int asks_at_close(void *argument)
{
    struct asking asking;
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    ask_begin(&asking);
    CHECK(hears(QUESTION("1")));
    bl_rpc_close(room.rpc, 0);
    room.rpc = NULL;
    ask_end(&asking);
    CHECK_EQUAL(asking.code, BL_EPIPE);
    CHECK_EQUAL(room.gone, 0);
    close_room(fd);
    return 0;
}

IN_LOOP(closing_ends_the_wait_for_an_answer, asks_at_close)

/* The reader was stopped with its nursery: neither the answer nor the end of the peer will be read.
 */
static int asks_without_reader(void *argument)
{
    struct asking asking;
    struct bl_nursery askers;
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    bl_nursery_init(&askers, bl_scope_current());
    ask_begin_in(&askers, &asking);
    CHECK(hears(QUESTION("1")));
    bl_scope_stop(&room.nursery.scope, BL_STOP_SIGNAL, "SIGTERM");
    bl_sleep(20 * MS);
    CHECK(!asking.ended);
    peer_go();
    bl_rpc_notify(room.rpc, "n", (struct bl_text){0});
    ask_end(&asking);
    CHECK_EQUAL(asking.code, BL_EPIPE);
    CHECK(strcmp(room.why, "broken output") == 0);
    bl_nursery_done(&askers);
    close_room(fd);
    return 0;
}

IN_LOOP(failed_output_ends_a_request_after_the_reader_has_stopped, asks_without_reader)

SUITE(rpc_call, cmocka_unit_test(each_request_is_answered_exactly_once),
      cmocka_unit_test(notifications_and_answers_that_nobody_waits_for_are_not_answered),
      cmocka_unit_test(an_id_in_flight_is_refused_and_free_once_it_is_answered),
      cmocka_unit_test(each_call_has_its_own_scope),
      cmocka_unit_test(calls_beyond_the_limit_are_not_read),
      cmocka_unit_test(pieces_that_wait_are_joined_and_no_byte_is_lost),
      cmocka_unit_test(requests_are_answered_refused_cancelled_or_lost),
      cmocka_unit_test(answer_that_arrived_before_its_request_is_read),
      cmocka_unit_test(closing_ends_the_wait_for_an_answer),
      cmocka_unit_test(failed_output_ends_a_request_after_the_reader_has_stopped));
