#include <stdio.h>
#include <unistd.h>

#include "place.h"

#define ERROR(id, code, message)                                                                   \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":" code ",\"message\":\"" message "\"}" \
    "}"
#define WRONG(id, path, message)                                                                   \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":-32602,\"message\":\"" message         \
    "\",\"data\":{\"path\":\"" path "\"}}}"
#define CANCEL(params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":" params "}"
#define ID_MISSING     "id: missing; expected a string that is not empty"
#define NO_METHOD      "unknown method (expected ps, cancel, finish, status, inject, watch or debug)"

static struct served served;

static const struct {
    const char *line, *answer; /* an answer that ends in '*' is compared up to there; empty: no
                                  answer */
} cases[] = {
    {"", ""},
    {"  \r", ""},
    {"{", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"offset 1*"},
    {"hello", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,*"},
    {"[]",
     ERROR("null", "-32600", "a message must be one JSON object (batches are not supported)")},
    {"{\"id\":7,\"method\":\"ps\"}", ERROR("7", "-32600", "\\\"jsonrpc\\\" must be \\\"2.0\\\"")},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"nap\"}", ERROR("\"a\"", "-32601", NO_METHOD)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"\"}", ERROR("1.5", "-32601", NO_METHOD)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\"}", WRONG("1", "/id", ID_MISSING)},
    {CANCEL("[]"), WRONG("1", "", "expected an object, found an empty array")},
    {CANCEL("{\"id\":\"\"}"),
     WRONG("1", "/id", "id: expected a string that is not empty, found \\\"\\\"")},
    {CANCEL("{\"id\":5}"), WRONG("1", "/id", "id: expected a string that is not empty, found 5")},
    {CANCEL("{\"id\":\"x\",\"origin\":1}"),
     WRONG("1", "/origin", "origin: expected a string, found 1")},
    {CANCEL("{\"id\":\"x\",\"reason\":1}"),
     WRONG("1", "/reason", "reason: expected a string, found 1")},
    {CANCEL("{\"id\":\"x\",\"now\":1}"),
     WRONG("1", "/now", "now: expected true or false, found 1")},
    {CANCEL("{\"id\":\"run_x\"}"), ERROR("1", "-32004", "no running work with that id")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}", WRONG("1", "/id", ID_MISSING)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{\"id\":\"run_x\"}}",
     ERROR("1", "-32004", "no running work with that id")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"inject\",\"params\":{\"session\":\"s\"}}",
     WRONG("1", "/text", "text: missing; expected a string that is not empty")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"inject\",\"params\":{\"text\":\"t\"}}",
     WRONG("1", "/session", "session: missing; expected a string that is not empty")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"inject\",\"params\":{\"session\":\"s\",\"text\":"
     "\"t\"}}",
     ERROR("1", "-32004", "no running work with that id")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"watch\",\"params\":{\"id\":[]}}",
     WRONG("1", "/id", "id: expected a string, found an empty array")},
    /* Notifications. */
    {"{\"jsonrpc\":\"2.0\",\"method\":\"ps\"}", ""},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"id\":\"x\"}}", ""},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"nap\"}", ""},
};

static void check_answer(int fd, const char *line, const char *answer)
{
    struct bl_text expected = bl_text_from(answer);
    bool open = bl_text_ends_with(expected, BL_TEXT("*"));
    expected.size -= open;
    client_send(fd, bl_text_from(line));
    client_send(fd, BL_TEXT("\n"));
    if (expected.size == 0)
        return;
    struct bl_text got = bl_text_from(client_line(fd));
    if (!CHECK(open ? bl_text_starts_with(got, expected) : bl_text_equal(got, expected)))
        fprintf(stderr, "%s: " BL_TEXT_FORMAT "\n", line, BL_TEXT_ARG(got));
}

static int table(void *argument)
{
    (void)argument;
    served_start(&served);
    int fd = client_connect();
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        check_answer(fd, cases[i].line, cases[i].answer);
    close(fd);
    served_stop(&served);
    return 0;
}

static void each_line_has_its_answer(void **state)
{
    (void)state;
    run_in_loop(table, NULL);
}

/* ---- Activities ------------------------------------------------------------------------------ */

static char injected[256];

static int take_message(struct bl_activity *activity, struct bl_text text, char ret_id[BL_ID_SIZE])
{
    if (strcmp(activity->id, "run_closed") == 0)
        return BL_ECLOSED;
    snprintf(injected, sizeof injected, "%s:" BL_TEXT_FORMAT, activity->id, BL_TEXT_ARG(text));
    bl_text_into(ret_id, BL_ID_SIZE, "msg_1");
    return 0;
}

static struct bl_activity run = {
    .kind = "run", .id = "run_1", .session = "s-1", .inject = take_message};
static struct bl_activity call = {.kind = "call", .id = "call_1", .session = "s-1", .run = "run_1"};
static struct bl_activity closed = {
    .kind = "run", .id = "run_closed", .session = "s-2", .inject = take_message};
static struct bl_activity *const all[] = {&run, &call, &closed};

static void begin(void)
{
    served_start(&served);
    for (size_t i = 0; i < BL_COUNT(all); i++) {
        all[i]->scope = bl_scope_current();
        bl_activity_begin(&served.activities, all[i]);
    }
}

static void end(int fd)
{
    close(fd);
    for (size_t i = 0; i < BL_COUNT(all); i++)
        bl_activity_end(all[i], (struct bl_text){0});
    served_stop(&served);
}

static int ps(void *argument)
{
    char expected[200];
    (void)argument;
    begin();
    int fd = client_connect();
    snprintf(expected, sizeof expected,
             "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"pid\":%d,\"started_at\":\"2*",
             (int)getpid());
    check_answer(fd, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ps\"}", expected);
    check_answer(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ps\"}", "*");
    const char *line = client_line(fd);
    CHECK(strstr(line, "\"activities\":[{\"id\":\"run_1\",\"name\":\"run_1\",") != NULL);
    CHECK(strstr(line, "{\"id\":\"call_1\",\"name\":\"run_1/call_1\",\"kind\":\"call\",") != NULL);
    end(fd);
    return 0;
}

static void ps_lists_running_work(void **state)
{
    (void)state;
    run_in_loop(ps, NULL);
}

static size_t count(const char *text, const char *part)
{
    size_t found = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

static int status(void *argument)
{
    static const struct {
        const char *id;
        size_t found;
    } asked[] = {{"run_1", 1}, {"call_1", 1}, {"run_1/call_1", 1}, {"s-1", 2}};
    (void)argument;
    begin();
    int fd = client_connect();
    for (size_t i = 0; i < BL_COUNT(asked); i++) {
        char line[160];
        snprintf(line, sizeof line,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{\"id\":\"%s\"}}",
                 asked[i].id);
        check_answer(fd, line, "*");
        CHECK_EQUAL(count(client_line(fd), "\"age_ms\""), asked[i].found);
    }
    end(fd);
    return 0;
}

static void status_describes_one_activity(void **state)
{
    (void)state;
    run_in_loop(status, NULL);
}

static int inject(void *argument)
{
    (void)argument;
    begin();
    int fd = client_connect();
    check_answer(fd,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"inject\",\"params\":{\"session\":"
                 "\"s-1\",\"text\":\"also this\"}}",
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"id\":\"msg_1\"}}");
    CHECK(strcmp(injected, "run_1:also this") == 0);
    check_answer(fd,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"inject\",\"params\":{\"session\":"
                 "\"s-2\",\"text\":\"too late\"}}",
                 ERROR("1", "-32600", "closed"));
    end(fd);
    return 0;
}

static void inject_sends_a_message_to_the_turn_of_a_session(void **state)
{
    (void)state;
    run_in_loop(inject, NULL);
}

SUITE(request, cmocka_unit_test(each_line_has_its_answer), cmocka_unit_test(ps_lists_running_work),
      cmocka_unit_test(status_describes_one_activity),
      cmocka_unit_test(inject_sends_a_message_to_the_turn_of_a_session));
