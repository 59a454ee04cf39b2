#include "suite.h"
#include "tool/mcp/mcp.h"

#define PART(members)   "{\"content\":[{" members "}]}"
#define TWICE(one, two) "{\"content\":[{" one "},{" two "}]}"
#define TEXT(text)      "\"type\":\"text\",\"text\":\"" text "\""
#define RESOURCE        "\"type\":\"resource\",\"resource\":"
#define DOT             "iVBORw0KGgo="

static struct bl_tool_result fill(struct bl_arena *arena, const char *json, size_t output_max)
{
    struct bl_tool_result result;
    const struct bl_json *value = NULL;
    assert_int_equal(bl_json_read(arena, bl_text_from(json), NULL, &value, NULL), 0);
    mcp_result_fill(arena, value, output_max, &result);
    return result;
}

static void the_parts_of_a_result_become_one_text(void **state)
{
    static const struct {
        const char *json, *text;
        unsigned images;
        bool is_error;
    } cases[] = {
        {PART(TEXT("a")), "a", 0, false},
        {TWICE(TEXT("a"), TEXT("b")), "a\nb", 0, false},
        {TWICE(TEXT("a\\n"), TEXT("b")), "a\nb", 0, false},
        {TWICE(TEXT("\\na"), TEXT("b")), "\na\nb", 0, false},
        {TWICE(TEXT(""), TEXT("b")), "b", 0, false},
        {"{\"content\":[]}", "(empty result)", 0, false},
        {PART(""), "[part; left out]", 0, false},
        {PART("\"type\":\"audio\""), "[audio; left out]", 0, false},
        {PART("\"type\":\"audio\",\"mimeType\":\"m\""), "[audio: m; left out]", 0, false},
        {PART("\"type\":\"resource_link\",\"name\":\"n\\u001f~\\u007f!\",\"uri\":\"u \""),
         "[link: n ~ !, u ]", 0, false},
        {PART(RESOURCE "{\"uri\":\"u\"}"), "[resource: u; left out]", 0, false},
        {PART(RESOURCE "{\"uri\":\"u\",\"mimeType\":\"m\",\"text\":\"t\"}"), "[resource: u, m]\nt",
         0, false},
        {PART(RESOURCE "{\"uri\":\"u\",\"mimeType\":\"image/png\"}"),
         "[resource: u, image/png; left out]", 0, false},
        {PART(RESOURCE "{\"uri\":\"u\",\"mimeType\":\"image/png\",\"blob\":\"" DOT "\"}"),
         "[image image/png, 8 bytes]", 1, false},
        {TWICE("\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"" DOT "\"",
               "\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"" DOT "\""),
         "[image image/png, 8 bytes]\n[image image/png, 8 bytes]", 2, false},
        {PART("\"type\":\"image\",\"mimeType\":\"image/bmp\",\"data\":\"" DOT "\""),
         "[image image/bmp, 8 bytes: left out, models accept png, jpeg, gif and webp]", 0, false},
        {"{\"structuredContent\":{\"a\":[1]}}", "{\"a\":[1]}", 0, false},
        {"{\"content\":[{" TEXT("a") "}],\"structuredContent\":{\"a\":1}}", "a", 0, false},
        {"{\"content\":[{" TEXT("a") "}],\"isError\":true}", "a", 0, true},
        {"{\"content\":{}}", "The server's response is not a tool result: it has no 'content'.", 0,
         true},
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct bl_tool_result result = fill(&arena, cases[i].json, 1000);
        unsigned images = 0;
        if (result.images != NULL)
            BL_LIST_EACH (link, result.images)
                images++;
        suite_fail_if(!bl_text_equal(result.text, bl_text_from(cases[i].text)),
                      "row %zu: " BL_TEXT_FORMAT, i, BL_TEXT_ARG(result.text));
        suite_fail_if(images != cases[i].images || result.is_error != cases[i].is_error,
                      "row %zu: %u images, error %d", i, images, result.is_error);
        bl_arena_done(&arena);
    }
}

static void a_result_that_is_too_long_has_its_head_and_tail(void **state)
{
    (void)state;
    struct bl_arena arena = {0};
    char text[1002];
    memset(text, 'x', sizeof text);
    for (size_t size = 1000; size <= 1001; size++) {
        text[size] = '\0';
        text[0] = '<';
        text[size - 1] = '>';
        const char *json =
            bl_arena_printf(&arena, "{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}", text)
                .data;
        struct bl_tool_result result = fill(&arena, json, 1000);
        bool whole = bl_text_equal(result.text, bl_text_from(text));
        assert_int_equal(whole, size == 1000);
        assert_int_equal(bl_text_find(result.text, BL_TEXT("left out")) > 0, size == 1001);
        assert_true(bl_text_starts_with(result.text, BL_TEXT("<x")));
        assert_true(bl_text_ends_with(result.text, BL_TEXT("x>")));
        text[size - 1] = 'x';
    }
    /* Names are shortened, too. */
    text[201] = '\0';
    const char *json = bl_arena_printf(&arena, PART("\"type\":\"%s\""), text).data;
    struct bl_text expected = bl_arena_printf(&arena, "[%.200s; left out]", text);
    assert_true(bl_text_equal(fill(&arena, json, 1000).text, expected));
    bl_arena_done(&arena);
}

SUITE(mcp_result, cmocka_unit_test(the_parts_of_a_result_become_one_text),
      cmocka_unit_test(a_result_that_is_too_long_has_its_head_and_tail));
