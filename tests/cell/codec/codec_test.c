/* Frames of clients and other encoded data: messages, items, digests. */
#include "reading.h"

#include <stdio.h>

static void assert_breach(struct bl_text bytes, bool first)
{
    struct reading reading;

    read_bytes(&reading, bytes, first);
    if (reading.code != BL_EPARSE)
        fail_msg("%d: " BL_TEXT_FORMAT, reading.code, BL_TEXT_ARG(bytes));
    assert_true(strlen(reading.message) > 8);
    assert_true(bl_utf8_valid(bl_text_from(reading.message)));
    bl_arena_done(&reading.arena);
}

static void assert_breach_says(const char *json, bool first, const char *message)
{
    struct reading reading;

    read_bytes(&reading, bl_text_from(json), first);
    assert_int_equal(reading.code, BL_EPARSE);
    assert_string_equal(reading.message, message);
    bl_arena_done(&reading.arena);
}

/* ---- Hello ----------------------------------------------------------------------------------- */

#define HELLO(versions, requires, wants)                                                           \
    "{\"type\":\"hello\",\"client\":\"ide\",\"versions\":" versions                                \
    ",\"requires\":" requires ",\"wants\":" wants "}"

static void bad_input_first_frame_is_not_hello(void **state BL_UNUSED)
{
    assert_breach_says("{\"type\":\"cancel\",\"id\":1}", true,
                       "cancel is not allowed as the first frame: hello is required");
    assert_breach(BL_TEXT("{\"type\":\"ready\"}"), true);
    assert_breach(BL_TEXT("{}"), true);
    assert_breach(BL_TEXT("[]"), true);
    assert_breach_says(HELLO("[1]", "[]", "[]"), false,
                       "hello is allowed only once per connection");
}

static void bad_input_versions_of_a_hello(void **state BL_UNUSED)
{
    static const char *const bad[] = {
        HELLO("[]", "[]", "[]"),      HELLO("[0]", "[]", "[]"),     HELLO("[1,1]", "[]", "[]"),
        HELLO("[1,1.0]", "[]", "[]"), HELLO("[-1]", "[]", "[]"),    HELLO("[1.5]", "[]", "[]"),
        HELLO("[\"1\"]", "[]", "[]"), HELLO("[null]", "[]", "[]"),  HELLO("1", "[]", "[]"),
        HELLO("null", "[]", "[]"),    HELLO("[1e300]", "[]", "[]"),
    };

    for (size_t i = 0; i < BL_COUNT(bad); i++)
        assert_breach(bl_text_from(bad[i]), true);
    assert_breach_says(bad[0], true,
                       "versions: expected a list of 1 to 64 elements, found an empty array");
    assert_breach_says(bad[1], true,
                       "versions[0]: expected a whole number from 1 to 9007199254740991, found 0");
    assert_breach_says(bad[2], true, "versions[1]: duplicate of an earlier element: 1");
}

static void bad_input_blank_repeated_or_overlapping_capabilities(void **state BL_UNUSED)
{
    static const char *const bad[] = {
        HELLO("[1]", "[\"\"]", "[]"),
        HELLO("[1]", "[]", "[\" \\t\"]"),
        HELLO("[1]", "[]", "[\"tools\",\"tools\"]"),
        HELLO("[1]", "[\"x\",\"y\",\"x\"]", "[]"),
        HELLO("[1]", "[\"tools\"]", "[\"tools\"]"),
        HELLO("[1]", "[1]", "[]"),
        HELLO("[1]", "null", "[]"),
        HELLO("[1]", "[]", "{}"),
        "{\"type\":\"hello\",\"client\":\" \",\"versions\":[1],\"requires\":[],\"wants\":[]}",
        "{\"type\":\"hello\",\"client\":\"a\\u0000b\",\"versions\":[1],\"requires\":[],"
        "\"wants\":[]}",
        "{\"type\":\"hello\",\"versions\":[1],\"requires\":[],\"wants\":[]}",
        "{\"type\":\"hello\",\"client\":\"ide\",\"requires\":[],\"wants\":[]}",
        "{\"type\":\"hello\",\"client\":\"ide\",\"versions\":[1]}",
    };

    for (size_t i = 0; i < BL_COUNT(bad); i++)
        assert_breach(bl_text_from(bad[i]), true);
    assert_breach_says(bad[4], true, "wants[0]: also in requires");
}

static void a_hello_lists_versions_and_capabilities(void **state BL_UNUSED)
{
    struct reading reading;

    read_bytes(&reading,
               bl_text_from(HELLO("[3,1]", "[\"notify\",\"x\",\"y\"]", "[\"z\",\"tools\"]")), true);
    assert_int_equal(reading.code, 0);
    assert_int_equal(reading.frame.type, CELL_FRAME_HELLO);
    assert_true(cell_hello_has_version(&reading.frame.hello));
    assert_int_equal(cell_hello_capabilities(&reading.frame.hello),
                     CELL_CAPABILITY_TOOLS | CELL_CAPABILITY_NOTIFY);
    assert_true(bl_text_equal(cell_hello_lacking(&reading.frame.hello), BL_TEXT("x")));
    assert_true(bl_text_equal(reading.frame.hello.client, BL_TEXT("ide")));
    bl_arena_done(&reading.arena);
    read_bytes(&reading, bl_text_from(HELLO("[2,3]", "[]", "[]")), true);
    assert_int_equal(reading.code, 0);
    assert_false(cell_hello_has_version(&reading.frame.hello));
    assert_int_equal(cell_hello_lacking(&reading.frame.hello).size, 0);
    bl_arena_done(&reading.arena);
}

/* ---- Invalid frames -------------------------------------------------------------------------- */

static void bad_input_not_utf8_not_json_or_a_key_twice(void **state BL_UNUSED)
{
    static const struct bl_text bad[] = {
        {"{\"type\":\"cancel\",\"id\":1,\"x\":\"\xff\"}", 31},
        {"{\"type\":\"cancel\",\"id\":1", 23},
        {"{\"type\":\"cancel\",\"id\":1}}", 25},
        {"{\"type\":\"cancel\",\"id\":1}\0", 25},
        {"", 0},
        {"\0\0\0\0", 4},
        {"null", 4},
        {"{\"type\":\"cancel\",\"id\":1,\"id\":1}", 31},
        {"{\"type\":\"cancel\",\"id\":1,\"x\":{\"a\":1,\"\\u0061\":2}}", 47},
        {"{\"type\":\"cancel\",\"id\":1,\"x\":\"\\ud800\"}", 37},
        {"{\"type\":\"cancel\",\"id\":NaN}", 26},
    };

    for (size_t i = 0; i < BL_COUNT(bad); i++)
        assert_breach(bad[i], false);
    assert_breach_says("{\"type\":\"dance\"}", false,
                       "type: expected one of hello, request, cancel, tool_result, notify_ack, "
                       "ready, rejected, reply, tool_call, tool_cancel, notify, ended, bye, found "
                       "\"dance\"");
    assert_breach_says("{\"type\":\"bye\",\"reason\":\"protocol\",\"message\":\"\"}", false,
                       "bye is a frame that only hosts send");
    assert_breach(BL_TEXT("{\"type\":7}"), false);
}

static void bad_input_deeper_than_64(void **state BL_UNUSED)
{
    /* The frame itself is level 1. */
    for (unsigned depth = 62; depth <= 65; depth++) {
        struct reading reading;
        struct bl_buffer out;
        bl_buffer_init(&out, 4096);
        bl_buffer_append(&out, BL_TEXT("{\"type\":\"cancel\",\"id\":1,\"x\":"));
        for (unsigned i = 0; i < depth; i++)
            bl_buffer_append_byte(&out, '[');
        for (unsigned i = 0; i < depth; i++)
            bl_buffer_append_byte(&out, ']');
        bl_buffer_append_byte(&out, '}');
        read_bytes(&reading, bl_buffer_text(&out), false);
        assert_int_equal(reading.code, depth + 1 <= 64 ? 0 : BL_EPARSE);
        bl_arena_done(&reading.arena);
        bl_buffer_done(&out);
    }
}

static void bad_input_request_id(void **state BL_UNUSED)
{
    static const char *const bad[] = {
        "-1", "1.5", "9007199254740992",    "1e300", "\"7\"", "null", "true",
        "[]", "{}",  "18446744073709551616"};
    char json[200];

    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        snprintf(json, sizeof json, "{\"type\":\"request\",\"id\":%s,\"op\":\"list\",\"args\":{}}",
                 bad[i]);
        assert_breach(bl_text_from(json), false);
        snprintf(json, sizeof json, "{\"type\":\"cancel\",\"id\":%s}", bad[i]);
        assert_breach(bl_text_from(json), false);
    }
    assert_breach_says("{\"type\":\"request\",\"op\":\"list\",\"args\":{}}", false,
                       "id: missing; expected a whole number from 0 to 9007199254740991");
    assert_breach_says("{\"type\":\"cancel\",\"id\":-1}", false,
                       "id: expected a whole number from 0 to 9007199254740991, found -1");
    struct reading reading;
    read_bytes(&reading, BL_TEXT("{\"type\":\"cancel\",\"id\":9007199254740991}"), false);
    assert_int_equal(reading.code, 0);
    assert_int_equal(reading.frame.cancel.id, CELL_REQUEST_MAX);
    bl_arena_done(&reading.arena);
}

static void invalid_results_and_acknowledgements_are_breaches(void **state BL_UNUSED)
{
#define RESULT(rest)                                                                               \
    "{\"type\":\"tool_result\",\"session_id\":\"s\",\"cell_id\":\"c\",\"call_id\":\"a\"" rest "}"
    static const char *const bad[] = {
        RESULT(""),
        RESULT(",\"ok\":1,\"err\":{\"kind\":\"failed\",\"message\":\"m\"}"),
        RESULT(",\"err\":{\"kind\":\"other\",\"message\":\"m\"}"),
        RESULT(",\"err\":{\"kind\":\"failed\"}"),
        RESULT(",\"err\":null"),
        "{\"type\":\"tool_result\",\"session_id\":\"s\",\"cell_id\":\"../x\",\"call_id\":\"a\","
        "\"ok\":1}",
        "{\"type\":\"notify_ack\",\"session_id\":\"s\",\"cell_id\":\"c\",\"seq\":0}",
        "{\"type\":\"notify_ack\",\"session_id\":\"s\",\"cell_id\":\"c\",\"seq\":\"1\"}",
    };

    for (size_t i = 0; i < BL_COUNT(bad); i++)
        assert_breach(bl_text_from(bad[i]), false);
    assert_breach_says(bad[1], false, "expected either \"ok\" or \"err\", found both");
#undef RESULT
}

/* ---- Exact bytes ----------------------------------------------------------------------------- */

static void the_bytes_of_a_result_are_kept(void **state BL_UNUSED)
{
    static const char *const values[] = {"null",
                                         "-1.50e+3",
                                         "\"a\\\"]}\\\\\"",
                                         "\"\\\\\\\\\"",
                                         "[ 1 , {\"a\" : \"}\"} ,[[]]]",
                                         "{\"\\\\\":\"{[\",\"b\":[\"]\",{}]}",
                                         "\"\"",
                                         "[]",
                                         "{ }",
                                         "true"};
    static const char *const frames[] = {
        "{\"type\":\"tool_result\",\"session_id\":\"s\",\"cell_id\":\"c\",\"call_id\":\"a\",\"ok\":"
        "%s}",
        " {\n\t\"o\\u006b\" : %s , \"x\" : [\"ok\",{\"ok\":2}], "
        "\"call_id\":\"a\",\"cell_id\":\"c\","
        "\"session_id\":\"s\",\"type\":\"tool_result\"}\r\n",
        "{\"x\":{\"ok\":\"\\\\\",\"y\":[{}]},\"z\":\"\\\"ok\\\":5\",\"type\":\"tool_result\","
        "\"session_id\":\"s\",\"cell_id\":\"c\",\"call_id\":\"a\",\"ok\":\n%s\n,\"w\":1}",
    };
    char json[512];

    for (size_t i = 0; i < BL_COUNT(values); i++) {
        for (size_t j = 0; j < BL_COUNT(frames); j++) {
            struct reading reading;
            const char *at = strstr(frames[j], "%s");
            snprintf(json, sizeof json, "%.*s%s%s", (int)(at - frames[j]), frames[j], values[i],
                     at + 2);
            read_bytes(&reading, bl_text_from(json), false);
            if (reading.code != 0)
                fail_msg("%s: %s", reading.message, json);
            assert_true(reading.frame.tool_result.result.ok);
            assert_true(
                bl_text_equal(reading.frame.tool_result.result.json, bl_text_from(values[i])));
            bl_arena_done(&reading.arena);
        }
    }
}

/* 16 MiB of the input that is slowest to skip. */
static void a_frame_of_many_mib_is_read(void **state BL_UNUSED)
{
    static const char *const pieces[] = {"\\\\", "\\\"", "[],", "{},"};
    const size_t size = (size_t)(SUITE_SANITIZED ? 4 : 16) << 20;

    for (size_t i = 0; i < BL_COUNT(pieces); i++) {
        struct reading reading;
        struct bl_buffer out;
        bool string = pieces[i][0] == '\\';
        bl_buffer_init(&out, 2 * size);
        bl_buffer_append(&out, BL_TEXT("{\"type\":\"tool_result\",\"session_id\":\"s\","
                                       "\"cell_id\":\"c\",\"call_id\":\"a\",\"ok\":"));
        size_t before = out.size;
        bl_buffer_append_byte(&out, string ? '"' : '[');
        while (out.size < size)
            bl_buffer_append(&out, bl_text_from(pieces[i]));
        bl_buffer_append(&out, string ? BL_TEXT("\"") : BL_TEXT("0]"));
        size_t value = out.size - before;
        bl_buffer_append(&out, BL_TEXT(",\"after\":\"it\"}"));
        read_bytes(&reading, bl_buffer_text(&out), false);
        assert_int_equal(reading.code, 0);
        assert_int_equal(reading.frame.tool_result.result.json.size, value);
        bl_arena_done(&reading.arena);
        bl_buffer_done(&out);
    }
}

/* ---- Frames of workers ----------------------------------------------------------------------- */

static void assert_item(const char *json, const char *expected)
{
    struct cell_worker_frame frame;
    struct bl_arena arena;

    bl_arena_init(&arena);
    struct bl_text bytes = bl_arena_printf(&arena, "{\"type\":\"item\",\"item\":%s}", json);
    int code = cell_worker_frame_read(&arena, bytes, &frame);
    if (code != (expected != NULL ? 0 : BL_EPARSE))
        fail_msg("%d: %s", code, json);
    if (code == 0)
        assert_string_equal(bl_record_text(&arena, &bl_cell_item_record, &frame.item).data,
                            expected);
    bl_arena_done(&arena);
}

static void items_have_one_form(void **state BL_UNUSED)
{
#define IMAGE(url) "{\"type\":\"image\",\"image_url\":\"" url "\",\"detail\":\"low\"}"
    static const char *const bad[] = {
        "null",
        "[]",
        "{}",
        "{\"type\":\"text\"}",
        "{\"type\":\"text\",\"text\":1}",
        "{\"type\":\"sound\",\"text\":\"a\"}",
        "{\"type\":\"text\",\"text\":\"a\",\"detail\":\"low\"}",
        "{\"type\":\"image\",\"image_url\":\"data:image/png;base64,AAAA\"}",
        "{\"type\":\"image\",\"image_url\":\"data:image/png;base64,AAAA\",\"detail\":\"best\"}",
        IMAGE("http://images.test/a.png"),
        IMAGE("data:image/png;base64,"),
        IMAGE("data:image/png;base64,AAA"),
        IMAGE("data:image/png;base64,AAA*"),
        IMAGE("data:image/png;base64,A==="),
        IMAGE("data:image/png;base64,AA=A"),
        IMAGE("data:image/svg+xml;base64,AAAA"),
        IMAGE("data:image/png,AAAA"),
        IMAGE("")};

    for (size_t i = 0; i < BL_COUNT(bad); i++)
        assert_item(bad[i], NULL);
    assert_item("{ \"text\" : \"\\u0061\\n\", \"type\":\"text\", \"other\":1}",
                "{\"type\":\"text\",\"text\":\"a\\n\"}");
    assert_item(
        "{\"detail\":\"low\",\"image_url\":\"data:image/png;base64,A+/=\",\"type\":\"image\"}",
        IMAGE("data:image/png;base64,A+/="));
    assert_item(IMAGE("data:image/webp;base64,AA=="), IMAGE("data:image/webp;base64,AA=="));
#undef IMAGE
}

static int read_settled(struct bl_arena *arena, const char *error, struct cell_worker_frame *frame)
{
    return cell_worker_frame_read(
        arena,
        bl_arena_printf(arena, "{\"type\":\"settled\",\"error\":%s,\"values\":{},\"deleted\":[]}",
                        error),
        frame);
}

static void the_error_of_a_worker_is_cut_at_a_character(void **state BL_UNUSED)
{
    struct cell_worker_frame frame;
    struct bl_buffer text;
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_buffer_init(&text, 1 << 20);
    bl_buffer_append(&text, BL_TEXT("{\"kind\":\"syntax\",\"name\":\"SyntaxError\",\"stack\":\"\","
                                    "\"message\":\"x"));
    for (int i = 0; i < 100000; i++)
        bl_buffer_append(&text, BL_TEXT("\u20ac"));
    bl_buffer_append(&text, BL_TEXT("\"}"));
    bl_buffer_append_byte(&text, '\0');
    assert_int_equal(read_settled(&arena, text.data, &frame), 0);
    assert_int_equal(frame.settled.error->kind, BL_CELL_ERROR_SYNTAX);
    assert_int_equal(frame.settled.error->message.size, 4096);
    assert_true(bl_utf8_valid(frame.settled.error->message));
    assert_true(bl_text_equal(frame.settled.error->name, BL_TEXT("SyntaxError")));
    assert_int_equal(read_settled(&arena, "null", &frame), 0);
    assert_null(frame.settled.error);
    static const char *const bad[] = {
        "[]", "{}", "{\"kind\":\"syntax\",\"name\":\"\",\"message\":\"\"}",
        "{\"kind\":\"other\",\"name\":\"\",\"message\":\"\",\"stack\":\"\"}",
        "{\"kind\":\"syntax\",\"name\":1,\"message\":\"\",\"stack\":\"\"}"};
    for (size_t i = 0; i < BL_COUNT(bad); i++)
        assert_int_equal(read_settled(&arena, bad[i], &frame), BL_EPARSE);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

static void frames_to_a_worker_have_these_bytes(void **state BL_UNUSED)
{
    static const struct bl_cell_tool tools[] = {
        {.name = {"read", 4}, .description = {"Reads.", 6}, .schema = {"{}", 2}},
        {.name = {"say", 3}, .takes_text = true},
    };
    const struct {
        struct cell_worker_frame frame;
        const char *bytes;
    } rows[] = {
        {{.type = CELL_WORKER_START,
          .start = {.source = BL_TEXT("text(\"1\")\n"),
                    .tools = tools,
                    .tool_count = 2,
                    .values = BL_TEXT("{\"k\":[1]}"),
                    .memory_bytes = 67108864,
                    .output_bytes = 4194304,
                    .notify = true}},
         "{\"type\":\"start\",\"source\":\"text(\\\"1\\\")\\n\",\"tools\":[{\"name\":\"read\","
         "\"description\":\"Reads.\",\"input\":\"object\"},{\"name\":\"say\",\"description\":\"\","
         "\"input\":\"text\"}],\"values\":{\"k\":[1]},\"memory_bytes\":67108864,"
         "\"output_bytes\":4194304,\"notify\":true}"},
        {{.type = CELL_WORKER_RESULT,
          .number = 1,
          .result.result = {.ok = true, .json = BL_TEXT("null")}},
         "{\"type\":\"result\",\"call\":1,\"ok\":null}"},
        {{.type = CELL_WORKER_RESULT,
          .number = 4096,
          .result.result = {.refusal = BL_CELL_CALL_DENIED, .message = BL_TEXT("no")}},
         "{\"type\":\"result\",\"call\":4096,\"err\":{\"kind\":\"denied\",\"message\":\"no\"}}"},
        {{.type = CELL_WORKER_NOTIFIED, .number = 3}, "{\"type\":\"notified\",\"seq\":3}"},
    };
    struct cell_worker_frame frame;
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_text bytes = bl_record_text(&arena, &cell_worker_frame_record, &rows[i].frame);
        assert_string_equal(bytes.data, rows[i].bytes);
        /* Only a host sends it. */
        assert_int_equal(cell_worker_frame_read(&arena, bytes, &frame), BL_EPARSE);
    }
    bl_arena_done(&arena);
}

static void a_worker_sends_only_frames_of_the_table(void **state BL_UNUSED)
{
    static const char *const good[] = {
        "{\"type\":\"ready\"}",
        "{\"type\":\"yield\"}",
        "{\"type\":\"call\",\"call\":1,\"tool\":\"read\",\"input\":{}}",
        "{\"type\":\"call\",\"call\":1,\"tool\":\"say\",\"input\":\"a\"}",
        "{\"type\":\"notify\",\"seq\":1,\"text\":\"\"}",
        "{\"type\":\"idle\",\"timers\":1024,\"stalled\":false}",
        "{\"type\":\"settled\",\"error\":null,\"values\":{\"k\":null},\"deleted\":[\"j\"]}",
    };
    static const char *const bad[] = {
        "{\"type\":\"call\",\"call\":0,\"tool\":\"read\",\"input\":{}}",
        "{\"type\":\"call\",\"call\":1,\"tool\":\"read\"}",
        "{\"type\":\"call\",\"call\":1,\"tool\":\"read\",\"input\":[]}",
        "{\"type\":\"notify\",\"seq\":1}",
        "{\"type\":\"idle\",\"timers\":1025,\"stalled\":false}",
        "{\"type\":\"idle\",\"timers\":1}",
        "{\"type\":\"yield\",\"timers\":1}",
        "{\"type\":\"settled\",\"values\":{},\"deleted\":[]}",
        "{\"type\":\"settled\",\"error\":null,\"values\":[],\"deleted\":[]}",
        "{\"type\":\"settled\",\"error\":null,\"values\":{},\"deleted\":[\"\"]}",
        "{\"type\":\"settled\",\"error\":null,\"values\":{},\"deleted\":[1]}",
    };
    struct cell_worker_frame frame;
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(good); i++) {
        assert_int_equal(cell_worker_frame_read(&arena, bl_text_from(good[i]), &frame), 0);
        assert_string_equal(bl_record_text(&arena, &cell_worker_frame_record, &frame).data,
                            good[i]);
    }
    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        if (cell_worker_frame_read(&arena, bl_text_from(bad[i]), &frame) != BL_EPARSE)
            fail_msg("taken: %s", bad[i]);
    }
    struct bl_buffer text;
    bl_buffer_init(&text, 1 << 20);
    bl_buffer_printf(&text, "{\"type\":\"notify\",\"seq\":1,\"text\":\"%0*d\"}",
                     (int)BL_CELL_NOTIFY_MAX, 0);
    assert_int_equal(cell_worker_frame_read(&arena, bl_buffer_text(&text), &frame), 0);
    bl_buffer_clear(&text);
    bl_buffer_printf(&text, "{\"type\":\"notify\",\"seq\":1,\"text\":\"%0*d\"}",
                     (int)BL_CELL_NOTIFY_MAX + 1, 0);
    assert_int_equal(cell_worker_frame_read(&arena, bl_buffer_text(&text), &frame), BL_EPARSE);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

/* ---- The digest of a create ------------------------------------------------------------------ */

static void digest(const char *args, uint8_t out[32])
{
    struct reading reading;

    read_request(&reading, "create_cell", args);
    assert_true(reading.code == 0 && reading.frame.refusal == NULL);
    cell_digest(&reading.frame.request.create, out);
    bl_arena_done(&reading.arena);
}

static void assert_same_create(const char *one, const char *other, bool same)
{
    uint8_t a[32], b[32];

    digest(one, a);
    digest(other, b);
    if ((memcmp(a, b, sizeof a) == 0) != same)
        fail_msg("%s\n%s", one, other);
}

static void a_digest_covers_what_is_run(void **state BL_UNUSED)
{
#define A TOOL("\"a\"", "\"object\"", "{\"x\":1,\"y\":{\"b\":1,\"a\":2}}")
#define B TOOL("\"b\"", "\"text\"", "null")
    const char *plain = CREATE("\"1\"", "[" A "," B "]", "{}");

    assert_same_create(plain, plain, true);
    assert_same_create(plain, CREATE("\"1\"", "[" B "," A "]", "{}"), true);
    assert_same_create(plain, CREATE("\"1\"", "[" A "," B "]", "{\"deadline_ms\":5}"), true);
    assert_same_create(
        plain,
        CREATE("\"1\"", "[" A "," B "]", "{\"memory_bytes\":67108864,\"output_bytes\":4194304}"),
        true);
    assert_same_create(
        plain,
        CREATE("\"\\u0031\"",
               "[" TOOL("\"a\"", "\"object\"", "{ \"y\":{\"a\":2.0,\"b\":1e0},\"x\":1}") "," B "]",
               "{}"),
        true);
    assert_same_create(plain, CREATE("\"2\"", "[" A "," B "]", "{}"), false);
    assert_same_create(plain, CREATE("\"1\"", "[" A "]", "{}"), false);
    assert_same_create(plain, CREATE("\"1\"", "[" A "," B "]", "{\"memory_bytes\":1}"), false);
    assert_same_create(plain, CREATE("\"1\"", "[" A "," B "]", "{\"output_bytes\":1}"), false);
    assert_same_create(
        plain, CREATE("\"1\"", "[" A "," TOOL("\"b\"", "\"object\"", "null") "]", "{}"), false);
    assert_same_create(plain, CREATE("\"1\"", "[" A "," TOOL("\"b\"", "\"text\"", "{}") "]", "{}"),
                       false);
    assert_same_create(CREATE("\"12\"", "[]", "{}"), CREATE("\"1\"", "[" B "]", "{}"), false);
#undef A
#undef B
}

/* Adjacent texts must not run together, and the two limits must not be interchangeable. */
static void different_creates_have_different_digests(void **state BL_UNUSED)
{
    const struct bl_cell_tool tools[][2] = {
        {{.name = BL_TEXT("ab"), .description = BL_TEXT("c")}, {.name = BL_TEXT("x")}},
        {{.name = BL_TEXT("a"), .description = BL_TEXT("bc")}, {.name = BL_TEXT("x")}},
        {{.name = BL_TEXT("ab"), .schema = BL_TEXT("c")}, {.name = BL_TEXT("x")}},
        {{.name = BL_TEXT("ab")}, {.name = BL_TEXT("x"), .description = BL_TEXT("c")}},
    };
    uint8_t digests[BL_COUNT(tools) + 2][32];

    for (size_t i = 0; i < BL_COUNT(tools); i++) {
        struct bl_cell_create create = {
            .source = BL_TEXT("1"), .tools = tools[i], .tool_count = BL_COUNT(tools[i])};
        cell_digest(&create, digests[i]);
    }
    struct bl_cell_create limits = {.source = BL_TEXT("1"), .memory_bytes = 1, .output_bytes = 2};
    cell_digest(&limits, digests[BL_COUNT(tools)]);
    limits.memory_bytes = 2;
    limits.output_bytes = 1;
    cell_digest(&limits, digests[BL_COUNT(tools) + 1]);
    for (size_t i = 0; i < BL_COUNT(digests); i++) {
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(digests[i], digests[j], sizeof digests[i]);
    }
}

static void names_are_those_of_the_specification(void **state BL_UNUSED)
{
    enum cell_operation operation;

    assert_string_equal(bl_cell_code_name(BL_CELL_WRONG_GENERATION), "wrong_generation");
    assert_false(bl_cell_code_retryable(BL_CELL_NOT_TERMINAL));
    assert_true(bl_cell_code_retryable(BL_CELL_SESSION_BUSY));
    assert_string_equal(bl_cell_error_kind_name(BL_CELL_ERROR_STORE_FULL), "store_full");
    assert_string_equal(bl_cell_call_refusal_name(BL_CELL_CALL_TOO_LARGE), "too_large");
    assert_true(cell_operation_parse(BL_TEXT("close_session"), &operation));
    assert_int_equal(operation, CELL_CLOSE_SESSION);
    assert_false(cell_operation_parse(BL_TEXT("close"), &operation));
    assert_false(cell_operation_parse((struct bl_text){0}, &operation));
}

SUITE(codec, cmocka_unit_test(bad_input_first_frame_is_not_hello),
      cmocka_unit_test(bad_input_versions_of_a_hello),
      cmocka_unit_test(bad_input_blank_repeated_or_overlapping_capabilities),
      cmocka_unit_test(a_hello_lists_versions_and_capabilities),
      cmocka_unit_test(bad_input_not_utf8_not_json_or_a_key_twice),
      cmocka_unit_test(bad_input_deeper_than_64), cmocka_unit_test(bad_input_request_id),
      cmocka_unit_test(invalid_results_and_acknowledgements_are_breaches),
      cmocka_unit_test(the_bytes_of_a_result_are_kept),
      cmocka_unit_test(a_frame_of_many_mib_is_read), cmocka_unit_test(items_have_one_form),
      cmocka_unit_test(the_error_of_a_worker_is_cut_at_a_character),
      cmocka_unit_test(frames_to_a_worker_have_these_bytes),
      cmocka_unit_test(a_worker_sends_only_frames_of_the_table),
      cmocka_unit_test(a_digest_covers_what_is_run),
      cmocka_unit_test(different_creates_have_different_digests),
      cmocka_unit_test(names_are_those_of_the_specification));
