#include <stdio.h>
#include <unistd.h>

#include "place.h"

#define ERROR(id, code, message)                                                                   \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":" code ",\"message\":\"" message       \
    "\"}}\n"
#define NOT_PARAMS "cancel takes {\\\"id\\\": text, \\\"origin\\\": text (optional)}"

static const struct {
    const char *line, *answer; /* an answer that ends in '*' may go on */
} cases[] = {
    {"", ""},
    {"  \r", ""},
    {"{", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"offset 1*"},
    {"hello", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,*"},
    {"\xFF\xFE", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,*"},
    {"{} {}", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,*"},
    {"[]", ERROR("null", "-32600", "a request is one JSON object (batches are not taken)")},
    {"12", ERROR("null", "-32600", "a request is one JSON object (batches are not taken)")},
    {"{}", ERROR("null", "-32600", "\\\"jsonrpc\\\" must be \\\"2.0\\\"")},
    {"{\"id\":7,\"method\":\"ps\"}", ERROR("7", "-32600", "\\\"jsonrpc\\\" must be \\\"2.0\\\"")},
    {"{\"jsonrpc\":\"2.0\",\"id\":7}", ERROR("7", "-32600", "\\\"method\\\" must be a text")},
    {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ps\"}",
     ERROR("null", "-32600", "\\\"id\\\" must be a text, a number or null")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ps\",\"params\":3}",
     ERROR("1", "-32600", "\\\"params\\\" must be an object or an array")},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"nap\"}",
     ERROR("\"a\"", "-32601", "there is no such method: ps and cancel there are")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"\"}",
     ERROR("1.5", "-32601", "there is no such method: ps and cancel there are")},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\"}", ERROR("1", "-32602", NOT_PARAMS)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":[]}",
     ERROR("1", "-32602", NOT_PARAMS)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":\"\"}}",
     ERROR("1", "-32602", NOT_PARAMS)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":5}}",
     ERROR("1", "-32602", NOT_PARAMS)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":\"x\",\"origin\":1}}",
     ERROR("1", "-32602", NOT_PARAMS)},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":\"run_x\"}}",
     ERROR("1", "-32004", "nothing of that id runs")},
    {"{\"jsonrpc\":\"2.0\",\"id\":18446744073709551615,\"method\":\"cancel\",\"params\":{\"id\":"
     "\"x\"}}",
     ERROR("18446744073709551615", "-32004", "nothing of that id runs")},
    /* Notifications. */
    {"{\"jsonrpc\":\"2.0\",\"method\":\"ps\"}", ""},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"id\":\"x\"}}", ""},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"nap\"}", ""},
};

static int table(void *argument)
{
    struct bl_activities activities;
    struct serve_requests requests = {.activities = &activities};
    struct bl_buffer answer;
    (void)argument;
    bl_activities_init(&activities);
    bl_buffer_init(&answer, 1 << 20);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_text expected = bl_text_from(cases[i].answer);
        bool open = bl_text_ends_with(expected, BL_TEXT("*"));
        bl_buffer_clear(&answer);
        CHECK_EQUAL(serve_request(&requests, bl_text_from(cases[i].line), &answer), 0);
        struct bl_text got = bl_buffer_text(&answer);
        expected.size -= open;
        if (!CHECK(open ? bl_text_starts_with(got, expected) : bl_text_equal(got, expected)))
            fprintf(stderr, "%s: " BL_TEXT_FORMAT "\n", cases[i].line, BL_TEXT_ARG(got));
        CHECK(got.size == 0 || got.data[got.size - 1] == '\n');
    }
    bl_buffer_done(&answer);
    return 0;
}

static void each_line_has_its_answer(void **state)
{
    (void)state;
    run_in_loop(table, NULL);
}

static int ps(void *argument)
{
    static struct bl_activity activity = {.kind = "run", .id = "run_1", .session = "s-1"};
    struct bl_activities activities;
    struct serve_requests requests = {.activities = &activities,
                                      .started_wall_ns = 1700000000123456789};
    struct bl_buffer answer;
    char expected[200];
    (void)argument;
    bl_activities_init(&activities);
    activity.scope = bl_scope_current();
    bl_activity_begin(&activities, &activity);
    bl_buffer_init(&answer, 1 << 20);
    CHECK_EQUAL(serve_request(&requests,
                              BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ps\"}"),
                              &answer),
                0);
    snprintf(expected, sizeof expected,
             "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"pid\":%d,\"started_at\":\"2023-11-"
             "14T22:13:20.123Z\",\"activities\":[{\"id\":\"run_1\",",
             (int)getpid());
    CHECK(bl_text_starts_with(bl_buffer_text(&answer), bl_text_from(expected)));
    /* An answer that does not fit says so. */
    bl_buffer_done(&answer);
    bl_buffer_init(&answer, 160);
    CHECK_EQUAL(serve_request(&requests,
                              BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ps\"}"), &answer),
                0);
    CHECK(bl_text_equal(bl_buffer_text(&answer),
                        BL_TEXT(ERROR("1", "-32603", "more runs than an answer holds"))));
    bl_activity_end(&activity, (struct bl_text){0});
    bl_buffer_done(&answer);
    return 0;
}

static void ps_says_what_runs(void **state)
{
    (void)state;
    run_in_loop(ps, NULL);
}

SUITE(request, cmocka_unit_test(each_line_has_its_answer), cmocka_unit_test(ps_says_what_runs));
