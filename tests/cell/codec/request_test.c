/* Valid requests of all operations, and the answers to invalid ones. */
#include "reading.h"

#include <stdio.h>

static void assert_fits(const char *op, const char *args)
{
    struct reading reading;

    read_request(&reading, op, args);
    if (reading.code != 0 || reading.frame.refusal != NULL)
        fail_msg("%s %.100s: %s%s", op, args, reading.message,
                 reading.code == 0 ? reading.frame.refusal->message : "");
    bl_arena_done(&reading.arena);
}

static void assert_bad(const char *op, const char *args, const char *path)
{
    struct reading reading;

    read_request(&reading, op, args);
    if (reading.code != 0 || reading.frame.refusal == NULL)
        fail_msg("%s takes %.100s", op, args);
    assert_int_equal(reading.frame.request.id, 7);
    assert_true(bl_text_equal(reading.frame.op_text, bl_text_from(op)));
    assert_int_equal(reading.frame.refusal->code, BL_CELL_BAD_REQUEST);
    assert_string_equal(reading.frame.refusal->path, path);
    if (path[0] != '\0')
        assert_memory_equal(reading.frame.refusal->message, path + 1, strcspn(path + 1, "/"));
    assert_true(strlen(reading.frame.refusal->message) > strlen(path) + 5);
    assert_true(bl_utf8_valid(bl_text_from(reading.frame.refusal->message)));
    bl_arena_done(&reading.arena);
}

/* `pattern` has one @, which is replaced by each of the values in turn. */
static void assert_all(const char *op, const char *pattern, const char *const *values,
                       const char *path)
{
    const char *at = strchr(pattern, '@');

    for (; *values != NULL; values++) {
        struct bl_buffer args;
        bl_buffer_init(&args, 4096);
        bl_buffer_printf(&args, "%.*s%s%s", (int)(at - pattern), pattern, *values, at + 1);
        bl_buffer_append_byte(&args, '\0');
        if (path != NULL)
            assert_bad(op, args.data, path);
        else
            assert_fits(op, args.data);
        bl_buffer_done(&args);
    }
}

/* ---- Invalid requests ------------------------------------------------------------------------ */

static void an_unknown_operation_is_unsupported(void **state BL_UNUSED)
{
    struct reading reading;

    read_request(&reading, "dance", "null");
    assert_int_equal(reading.code, 0);
    assert_non_null(reading.frame.refusal);
    assert_int_equal(reading.frame.request.id, 7);
    assert_int_equal(reading.frame.refusal->code, BL_CELL_UNSUPPORTED);
    assert_string_equal(reading.frame.refusal->op, "dance");
    assert_true(bl_text_equal(reading.frame.op_text, BL_TEXT("dance")));
    bl_arena_done(&reading.arena);
    assert_bad("list", "[]", "");
    assert_bad("list", "null", "");
    read_bytes(&reading, BL_TEXT("{\"type\":\"request\",\"id\":7,\"op\":3,\"args\":{}}"), false);
    assert_true(reading.code == 0 && reading.frame.refusal != NULL);
    assert_int_equal(reading.frame.refusal->code, BL_CELL_BAD_REQUEST);
    bl_arena_done(&reading.arena);
    read_bytes(&reading, BL_TEXT("{\"type\":\"request\",\"id\":7,\"op\":\"list\"}"), false);
    assert_true(reading.code == 0 && reading.frame.refusal != NULL);
    bl_arena_done(&reading.arena);
}

static void bad_input_ids(void **state BL_UNUSED)
{
    static const char *const bad[] = {
        "\"\"",
        "\"../x\"",
        "\"S\"",
        "\"a\\u0000\"",
        "\"\\u0000\"",
        "\" a\"",
        "\"a_b\"",
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", /* 65 */
        "7",
        "true",
        "[]",
        "{}",
        "\"\u00e9\"",
        NULL};
    static const char *const nothing[] = {"null", NULL};
    static const char *const good[] = {
        "\"a\"", "\"-\"", "\"0-9\"",
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", NULL};
    static const struct {
        const char *op, *pattern, *path;
    } rows[] = {
        {"open_session", "{\"session_id\":@,\"serves_tools\":true,\"linger_ms\":0}", "/session_id"},
        {"create_cell",
         "{\"session_id\":\"s\",\"cell_id\":@,\"source\":\"1\",\"tools\":[],\"limits\":{}}",
         "/cell_id"},
        {"observe", "{\"session_id\":\"s\",\"cell_id\":@,\"generation\":1,\"yield_time_ms\":0}",
         "/cell_id"},
        {"terminate",
         "{\"session_id\":\"s\",\"cell_id\":@,\"terminate_id\":\"t\",\"reason\":\"user\"}",
         "/cell_id"},
        {"terminate",
         "{\"session_id\":\"s\",\"cell_id\":\"c\",\"terminate_id\":@,\"reason\":\"user\"}",
         "/terminate_id"},
        {"release", "{\"session_id\":\"s\",\"cell_id\":@,\"generation\":1}", "/cell_id"},
        {"list", "{\"session_id\":@,\"after\":null,\"max\":1}", "/session_id"},
        {"list", "{\"session_id\":\"s\",\"after\":@,\"max\":1}", "/after"},
        {"close_session", "{\"session_id\":@,\"forget\":true}", "/session_id"},
    };

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        assert_all(rows[i].op, rows[i].pattern, bad, rows[i].path);
        assert_all(rows[i].op, rows[i].pattern, good, NULL);
        assert_all(rows[i].op, rows[i].pattern, nothing,
                   strcmp(rows[i].path, "/after") == 0 ? NULL : rows[i].path);
    }
    assert_bad("list", "{\"after\":null,\"max\":1}", "/session_id");
}

/* The smallest and the largest values, and those just outside. */
static void bad_input_numbers(void **state BL_UNUSED)
{
    static const char *const bad[] = {"\"1\"", "1.5", "-1", "1e300", "null", "true", "[]", NULL};
    static const struct {
        const char *op, *pattern, *path;
        const char *good[4], *over[3];
    } rows[] = {
        {"open_session",
         "{\"session_id\":\"s\",\"serves_tools\":true,\"linger_ms\":@}",
         "/linger_ms",
         {"0", "3600000", "1e3"},
         {"3600001"}},
        {"observe",
         "{\"session_id\":\"s\",\"cell_id\":\"c\",\"generation\":@,\"yield_time_ms\":0}",
         "/generation",
         {"1", "9007199254740991"},
         {"0", "9007199254740992"}},
        {"observe",
         "{\"session_id\":\"s\",\"cell_id\":\"c\",\"generation\":1,\"yield_time_ms\":@}",
         "/yield_time_ms",
         {"0", "300000"},
         {"300001"}},
        {"release",
         "{\"session_id\":\"s\",\"cell_id\":\"c\",\"generation\":@}",
         "/generation",
         {"1", "2.0"},
         {"0"}},
        {"list",
         "{\"session_id\":\"s\",\"after\":null,\"max\":@}",
         "/max",
         {"1", "10000"},
         {"0", "10001"}},
    };

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        assert_all(rows[i].op, rows[i].pattern, bad, rows[i].path);
        assert_all(rows[i].op, rows[i].pattern, rows[i].over, rows[i].path);
        assert_all(rows[i].op, rows[i].pattern, rows[i].good, NULL);
    }
}

static void bad_input_booleans_and_reasons(void **state BL_UNUSED)
{
    static const char *const bad[] = {"\"user \"", "\"none\"", "\"\"", "null", "1", "{}", NULL};

    assert_all("terminate",
               "{\"session_id\":\"s\",\"cell_id\":\"c\",\"terminate_id\":\"t\",\"reason\":@}", bad,
               "/reason");
    assert_all("open_session", "{\"session_id\":\"s\",\"serves_tools\":@,\"linger_ms\":1}", bad,
               "/serves_tools");
    assert_all("close_session", "{\"session_id\":\"s\",\"forget\":@}", bad, "/forget");
}

static void bad_input_source_empty_blank_or_over_1_mib(void **state BL_UNUSED)
{
    static const char *const bad[] = {"\"\"", "\" \\n\\t\\r \"", "null", "1", "[]", NULL};
    static const char *const good[] = {"\"\\u0000\"", "\"import 'x'\"", "\"}\"", NULL};

    assert_all("create_cell", CREATE("@", "[]", "{}"), bad, "/source");
    assert_all("create_cell", CREATE("@", "[]", "{}"), good, NULL);
    for (size_t over = 0; over < 2; over++) {
        struct bl_buffer args;
        bl_buffer_init(&args, 2 * BL_CELL_SOURCE_MAX);
        bl_buffer_append(&args, BL_TEXT("{\"session_id\":\"s\",\"cell_id\":\"c\",\"source\":\""));
        for (size_t i = 0; i < BL_CELL_SOURCE_MAX + over; i++)
            bl_buffer_append_byte(&args, ';');
        bl_buffer_append(&args, BL_TEXT("\",\"tools\":[],\"limits\":{}}"));
        bl_buffer_append_byte(&args, '\0');
        if (over > 0)
            assert_bad("create_cell", args.data, "/source");
        else
            assert_fits("create_cell", args.data);
        bl_buffer_done(&args);
    }
}

static void bad_input_limits_of_a_cell(void **state BL_UNUSED)
{
    static const char *const bad[] = {"0", "-1", "1.5", "null", "\"1\"", "1e300", NULL};
    static const struct {
        const char *pattern, *path;
        const char *good[3], *over[2];
    } rows[] = {
        {CREATE("\"1\"", "[]", "{\"deadline_ms\":@}"),
         "/limits/deadline_ms",
         {"1", "86400000"},
         {"86400001"}},
        {CREATE("\"1\"", "[]", "{\"memory_bytes\":@}"),
         "/limits/memory_bytes",
         {"1", "1073741824"},
         {"1073741825"}},
        {CREATE("\"1\"", "[]", "{\"output_bytes\":@}"),
         "/limits/output_bytes",
         {"1", "16777216"},
         {"16777217"}},
    };

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        assert_all("create_cell", rows[i].pattern, bad, rows[i].path);
        assert_all("create_cell", rows[i].pattern, rows[i].over, rows[i].path);
        assert_all("create_cell", rows[i].pattern, rows[i].good, NULL);
    }
    assert_bad("create_cell", CREATE("\"1\"", "[]", "null"), "/limits");
    assert_bad("create_cell", CREATE("\"1\"", "[]", "[]"), "/limits");
}

static void bad_input_tools_of_a_cell(void **state BL_UNUSED)
{
    static const struct {
        const char *tools, *path;
    } rows[] = {
        {"null", "/tools"},
        {"{}", "/tools"},
        {"[1]", "/tools/0"},
        {"[" TOOL("\"\"", "\"text\"", "null") "]", "/tools/0/name"},
        {"[" TOOL("\" \"", "\"text\"", "null") "]", "/tools/0/name"},
        {"[" TOOL("\"a\\u0000b\"", "\"text\"", "null") "]", "/tools/0/name"},
        {"[" TOOL("null", "\"text\"", "null") "]", "/tools/0/name"},
        {"[" TOOL("\"a\"", "\"text\"", "null") "," TOOL("\"b\"", "\"text\"", "null") "," TOOL(
             "\"a\"", "\"object\"", "{}") "]",
         "/tools/2/name"},
        {"[" TOOL("\"a\"", "\"json\"", "null") "]", "/tools/0/input"},
        {"[" TOOL("\"a\"", "\"object\"", "[]") "]", "/tools/0/input_schema"},
        {"[" TOOL("\"a\"", "\"object\"", "true") "]", "/tools/0/input_schema"},
        {"[" TOOL("\"a\"", "\"object\"", "\"{}\"") "]", "/tools/0/input_schema"},
        {"[{\"name\":\"a\",\"input\":\"text\",\"input_schema\":null}]", "/tools/0/description"},
        {"[{\"name\":\"a\",\"description\":\"\",\"input\":\"text\"}]", "/tools/0/input_schema"},
    };
    char args[2048];

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        snprintf(args, sizeof args, CREATE("\"1\"", "%s", "{}"), rows[i].tools);
        assert_bad("create_cell", args, rows[i].path);
    }
}

/* Appends `count` tools, the first with a description of that size. */
static void append_tools(struct bl_buffer *out, size_t count, size_t size)
{
    bl_buffer_append(out, BL_TEXT("{\"session_id\":\"s\",\"cell_id\":\"c\",\"source\":\"1\","
                                  "\"limits\":{},\"tools\":["));
    for (size_t i = 0; i < count; i++) {
        bl_buffer_printf(out,
                         "%s{\"name\":\"t%03zu\",\"input\":\"text\",\"input_schema\":null,"
                         "\"description\":\"",
                         i > 0 ? "," : "", i);
        for (size_t j = 0; i == 0 && j < size; j++)
            bl_buffer_append_byte(out, 'd');
        bl_buffer_append(out, BL_TEXT("\"}"));
    }
    bl_buffer_append(out, BL_TEXT("]}"));
    bl_buffer_append_byte(out, '\0');
}

static void bad_input_too_many_tools_or_bytes_of_them(void **state BL_UNUSED)
{
    static const struct {
        size_t count, size;
        bool fits;
    } rows[] = {
        {BL_CELL_TOOLS_MAX, 0, true},
        {BL_CELL_TOOLS_MAX + 1, 0, false},
        {2, BL_CELL_TOOLS_BYTES_MAX - 8, true},
        {2, BL_CELL_TOOLS_BYTES_MAX - 7, false},
    };

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_buffer args;
        bl_buffer_init(&args, 2 * BL_CELL_TOOLS_BYTES_MAX);
        append_tools(&args, rows[i].count, rows[i].size);
        if (rows[i].fits)
            assert_fits("create_cell", args.data);
        else
            assert_bad("create_cell", args.data, "/tools");
        bl_buffer_done(&args);
    }
}

SUITE(request, cmocka_unit_test(an_unknown_operation_is_unsupported),
      cmocka_unit_test(bad_input_ids), cmocka_unit_test(bad_input_numbers),
      cmocka_unit_test(bad_input_booleans_and_reasons),
      cmocka_unit_test(bad_input_source_empty_blank_or_over_1_mib),
      cmocka_unit_test(bad_input_limits_of_a_cell), cmocka_unit_test(bad_input_tools_of_a_cell),
      cmocka_unit_test(bad_input_too_many_tools_or_bytes_of_them));
