#include "mcp_house.h"

#include <stdio.h>

static enum bl_mechanism container = BL_MECHANISM_NONE;

#define PLAIN(name, body)                                                                          \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(body, &container);                                                             \
    }

/* ---- Schemas ---- */

/* Returns what is wrong with a schema, or "". */
static const char *check(const char *schema, struct mcp_tool *ret_tool)
{
    static struct bl_arena arena;
    const struct bl_json *value = NULL;
    bl_arena_done(&arena);
    assert_int_equal(bl_json_read(&arena, bl_text_from(schema), NULL, &value, NULL), 0);
    *ret_tool = (struct mcp_tool){0};
    const char *wrong = mcp_tool_check(&arena, value, ret_tool);
    bl_json_schema_free(ret_tool->compiled);
    return wrong != NULL ? wrong : "";
}

static void M15_schemas_that_cannot_be_used_are_refused(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"type\":\"array\"}",
        "{\"type\":\"object\",\"$ref\":\"https://schema.test/a\"}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"anyOf\":[{\"$ref\":\"other.json\"}]}}}",
        "{\"type\":\"object\",\"$dynamicRef\":\"https://schema.test/a\"}",
        "{\"type\":\"object\",\"$recursiveRef\":\"other.json\"}",
        /* Headers: no token, a list, a number, twice, below a list, at no argument. */
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"a b\"}}"
        "}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":1}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\",\"x-mcp-header\":\"A\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"x-mcp-header\":\"A\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"},"
        "\"b\":{\"type\":\"string\",\"x-mcp-header\":\"a\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":"
        "\"string\",\"x-mcp-header\":\"A\"}}}}",
        "{\"type\":\"object\",\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"string\","
        "\"x-mcp-header\":\"A\"}}}]}",
        "{\"type\":\"object\",\"x-mcp-header\":\"A\"}",
    };
    struct mcp_tool tool;
    (void)state;
    for (size_t i = 0; i < BL_COUNT(bad); i++)
        if (check(bad[i], &tool)[0] == '\0')
            fail_msg("taken: %s", bad[i]);
}

static void schemas_that_can_be_used_are_taken(void **state)
{
    struct mcp_tool tool;
    (void)state;
    assert_string_equal(check("{\"type\":\"object\"}", &tool), "");
    assert_non_null(tool.compiled);
    assert_true(bl_text_equal(tool.schema, BL_TEXT("{\"type\":\"object\"}")));
    /* Names of arguments, and values, are not keywords. */
    assert_string_equal(check("{\"type\":\"object\",\"properties\":{\"$ref\":{\"type\":\"string\"},"
                              "\"x-mcp-header\":{\"type\":\"string\",\"default\":{\"$ref\":"
                              "\"http://schema.test/\"}}}}",
                              &tool),
                        "");
    assert_int_equal(tool.header_count, 0);
    /* A schema that we cannot check is not checked. */
    assert_string_equal(check("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\","
                              "\"pattern\":\"^(?=x)\"}}}",
                              &tool),
                        "");
    assert_null(tool.compiled);
    assert_string_equal(
        check("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":"
              "\"Region\"},\"b\":{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"integer\","
              "\"x-mcp-header\":\"Deep\"}}}}}",
              &tool),
        "");
    assert_int_equal(tool.header_count, 2);
    assert_string_equal(tool.headers[0].name, "Mcp-Param-Region");
    assert_string_equal(tool.headers[1].name, "Mcp-Param-Deep");
    assert_int_equal(tool.headers[1].depth, 2);
}

/* ---- Lists ---- */

static int bounds(void *argument)
{
    (void)argument;
    struct house *house = house_new(container);
    GUEST(house, "circle", "--tools", "circle");
    GUEST(house, "many", "--tools", "many");
    GUEST(house, "big", "--tools", "big");
    GUEST(house, "endless", "--tools", "endless");
    GUEST(house, "full", "--tools", "512");
    GUEST(house, "fuller", "--tools", "513");
    house_open(house);
    house_refresh(house);
    for (size_t i = 0; i < 6; i++)
        CHECK(strcmp(house_state(house, i), "ready") == 0);
    CHECK_EQUAL(house_server(house, 0)->listing->count, 6);
    CHECK(house_noticed(house, "MCP server circle: its list has a loop"));
    CHECK_EQUAL(house_server(house, 1)->listing->count, 512);
    CHECK(house_noticed(house, "MCP server many: it lists more than 512 tools; 9488 skipped"));
    CHECK_EQUAL(house_server(house, 2)->listing->count, 1);
    CHECK(house_noticed(
        house, "MCP server big: tool 'large' skipped: its inputSchema is larger than 64 KiB"));
    CHECK_EQUAL(house_server(house, 3)->listing->count, 200);
    CHECK(house_noticed(house, "MCP server endless: its list has more than 100 pages"));
    CHECK_EQUAL(house_server(house, 4)->listing->count, 512);
    CHECK_EQUAL(house_server(house, 5)->listing->count, 512);
    CHECK(house_noticed(house, "MCP server fuller: it lists more than 512 tools; 1 skipped"));
    CHECK_EQUAL(house->notice_count, 5);
    CHECK_EQUAL(house_call(house, "mcp__many__tool511", "{\"text\":\"usable\"}"), 0);
    CHECK(house_says(house, "usable"));
    house_done(house);
    return 0;
}

PLAIN(M15_endless_lists_are_bounded_and_each_omission_is_reported, bounds)

static int leaves_out(void *argument)
{
    (void)argument;
    struct house *house = house_new(container);
    GUEST(house, "g", "--tools", "bad");
    house_open(house);
    house_refresh(house);
    CHECK_EQUAL(house_offers(house), 1);
    CHECK(house_offer(house, "mcp__g__good") != NULL);
    CHECK_EQUAL(house->notice_count, 6);
    CHECK(house_noticed(house, "tool 'no_schema' skipped: its inputSchema is not of type object"));
    CHECK(
        house_noticed(house, "tool 'remote' skipped: its inputSchema refers to another document"));
    CHECK(house_noticed(house, "tool 'header' skipped: an x-mcp-header"));
    house_done(house);
    return 0;
}

PLAIN(bad_tools_are_skipped_with_a_notice_each, leaves_out)

static int filters(void *argument)
{
    static const char *const enabled[] = {"ec*", "pid", NULL};
    (void)argument;
    struct house *house = house_new(container);
    GUEST(house, "g", "--era", "legacy")->enabled_tools = enabled;
    house_open(house);
    house_refresh(house);
    CHECK_EQUAL(house_offers(house), 2);
    CHECK(house_offer(house, "mcp__g__echo") != NULL && house_offer(house, "mcp__g__pid") != NULL);
    CHECK_EQUAL(house->notice_count, 0);
    house_done(house);
    return 0;
}

PLAIN(enabled_tools_selects_by_name, filters)

/* ---- Names ---- */

static void open_names(struct house *house, bool reversed)
{
    GUEST(house, reversed ? "a b" : "a.b", "--tools", "names");
    GUEST(house, reversed ? "a.b" : "a b", "--tools", "names");
    house_open(house);
    house_refresh(house);
}

static int names(void *argument)
{
    static char before[32][MCP_NAME_SIZE];
    const struct bl_tools *tools;
    size_t count;
    (void)argument;
    struct house *house = house_new(container);
    open_names(house, false);
    tools = bl_toolbox_tools(house->box.toolbox);
    count = house_offers(house);
    /* Two long names, three that look the same, one of a double pair, one in another script. */
    CHECK_EQUAL(count, 14);
    for (size_t i = 0; i < count && i < 32; i++) {
        const char *name = tools->offers[TOOL_COUNT + i].name;
        snprintf(before[i], sizeof before[i], "%s", name);
        CHECK(strlen(name) <= 64 && strncmp(name, "mcp__a_b__", 10) == 0);
        CHECK_EQUAL(
            strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
            strlen(name));
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(before[k], name) != 0);
    }
    CHECK(house_noticed(house, "tool 'plain' skipped: duplicate name"));
    house_done(house);
    /* The same after a restart, whatever the order. */
    house = house_new(container);
    open_names(house, true);
    for (size_t i = 0; i < count && i < 32; i++)
        CHECK(house_offer(house, before[i]) != NULL);
    house_done(house);
    return 0;
}

PLAIN(M16_names_are_unique_and_short_and_the_same_after_a_restart, names)

SUITE(mcp_list, cmocka_unit_test(M15_schemas_that_cannot_be_used_are_refused),
      cmocka_unit_test(schemas_that_can_be_used_are_taken),
      cmocka_unit_test(M15_endless_lists_are_bounded_and_each_omission_is_reported),
      cmocka_unit_test(bad_tools_are_skipped_with_a_notice_each),
      cmocka_unit_test(enabled_tools_selects_by_name),
      cmocka_unit_test(M16_names_are_unique_and_short_and_the_same_after_a_restart));
