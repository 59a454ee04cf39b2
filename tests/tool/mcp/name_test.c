#include "suite.h"
#include "tool/mcp/mcp.h"

static bool is_taken_by_models(const char *name)
{
    for (const char *byte = name; *byte != '\0'; byte++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *byte) ==
            NULL)
            return false;
    return strlen(name) <= 64;
}

static void plain_names_stay_as_they_are(void **state)
{
    char name[MCP_NAME_SIZE];
    (void)state;
    assert_true(mcp_name_plain(name, "files", BL_TEXT("read-all_2")));
    assert_string_equal(name, "mcp__files__read-all_2");
    assert_true(mcp_name_plain(name, "my server", BL_TEXT("a.b\xC3\xA4")));
    assert_string_equal(name, "mcp__my_server__a_b__");
    assert_true(mcp_name_plain(name, "azAZ09_-", BL_TEXT("`{@[/:.x")));
    assert_string_equal(name, "mcp__azAZ09_-_________x");
}

static void a_name_of_64_fits_and_one_of_65_does_not(void **state)
{
    char name[MCP_NAME_SIZE], tool[80];
    (void)state;
    memset(tool, 't', sizeof tool);
    /* "mcp__s__" has 8 bytes. */
    assert_true(mcp_name_plain(name, "s", (struct bl_text){tool, 56}));
    assert_int_equal(strlen(name), 64);
    assert_false(mcp_name_plain(name, "s", (struct bl_text){tool, 57}));
}

static void M16_hashed_names_are_short_and_distinguish_cut_names(void **state)
{
    char first[MCP_NAME_SIZE], second[MCP_NAME_SIZE], again[MCP_NAME_SIZE], tool[200];
    (void)state;
    memset(tool, 't', sizeof tool);
    mcp_name_hashed(first, "s", (struct bl_text){tool, 200}, 0);
    mcp_name_hashed(second, "s", (struct bl_text){tool, 199}, 0);
    mcp_name_hashed(again, "s", (struct bl_text){tool, 200}, 0);
    assert_true(is_taken_by_models(first) && is_taken_by_models(second));
    assert_int_equal(strlen(first), 64);
    assert_string_not_equal(first, second);
    assert_string_equal(first, again);
    mcp_name_hashed(again, "s", (struct bl_text){tool, 200}, 1);
    assert_string_not_equal(first, again);
    /* The boundary between server and tool is significant. */
    mcp_name_hashed(first, "a", BL_TEXT("b__c"), 0);
    mcp_name_hashed(second, "a__b", BL_TEXT("c"), 0);
    assert_string_not_equal(first, second);
    assert_memory_equal(first, "mcp__a__b__c_", 13);
}

static void impossible_tool_name_is_detected(void **state)
{
    char name[MCP_NAME_SIZE + 1];
    (void)state;
    static const struct {
        const char *pattern;
        bool possible;
    } cases[] = {
        {"mcp__a__b", true}, {"mcp__a__*", true}, {"mcp__*", true},      {"*", true},
        {"m*", true},        {"mcp__a*", true},   {"x*", false},         {"mcp_a*", false},
        {"bash", false},     {"mcp__a", false},   {"mcp__", false},      {"mcp__a__", false},
        {"mcp____b", false}, {"mcp__a_b", false}, {"xmcp__a__b", false},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        suite_fail_if(mcp_name_is_possible(bl_text_from(cases[i].pattern)) != cases[i].possible,
                      "%s", cases[i].pattern);
    /* A name of the full length may have been cut within the server's name. */
    memset(name, 's', sizeof name);
    memcpy(name, "mcp__", 5);
    assert_true(mcp_name_is_possible((struct bl_text){name, MCP_NAME_SIZE - 1}));
    assert_false(mcp_name_is_possible((struct bl_text){name, MCP_NAME_SIZE - 2}));
    memcpy(name + 5, "a__", 3);
    assert_true(mcp_name_is_possible((struct bl_text){name, MCP_NAME_SIZE - 2}));
    assert_false(mcp_name_is_possible((struct bl_text){name, MCP_NAME_SIZE}));
}

/* ---- Headers ---- */

static void M2_header_values_are_encoded_where_they_must_be(void **state)
{
    static const struct {
        const char *value, *expected;
    } cases[] = {{"us-west1", "us-west1"},
                 {"", ""},
                 {"Hello, \xE4\xB8\x96\xE7\x95\x8C", "=?base64?SGVsbG8sIOS4lueVjA==?="},
                 {" padded ", "=?base64?IHBhZGRlZCA=?="},
                 {"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
                 {"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}};
    struct bl_arena arena;
    (void)state;
    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_text value = mcp_header_value(&arena, bl_text_from(cases[i].value));
        assert_true(bl_text_equal(value, bl_text_from(cases[i].expected)));
    }
    bl_arena_done(&arena);
}

static void a_header_is_named_by_a_token(void **state)
{
    char name[129];
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char text[] = {'a', (char)byte, 'z'};
        bool fits = byte != 0 && strchr("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                                        byte) != NULL;
        suite_fail_if(mcp_header_name_fits((struct bl_text){text, 3}) != fits, "byte %d", byte);
    }
    memset(name, 'n', sizeof name);
    assert_false(mcp_header_name_fits((struct bl_text){name, 0}));
    assert_true(mcp_header_name_fits((struct bl_text){name, 1}));
    assert_true(mcp_header_name_fits((struct bl_text){name, 128}));
    assert_false(mcp_header_name_fits((struct bl_text){name, 129}));
}

SUITE(mcp_name, cmocka_unit_test(impossible_tool_name_is_detected),
      cmocka_unit_test(plain_names_stay_as_they_are),
      cmocka_unit_test(a_name_of_64_fits_and_one_of_65_does_not),
      cmocka_unit_test(M16_hashed_names_are_short_and_distinguish_cut_names),
      cmocka_unit_test(a_header_is_named_by_a_token),
      cmocka_unit_test(M2_header_values_are_encoded_where_they_must_be));
