#include "suite.h"

#include <belay/json.h>

static struct bl_arena arena;

static const struct bl_json *parse(const char *text)
{
    const struct bl_json *value;

    if (bl_json_read(&arena, bl_text_from(text), NULL, &value, NULL) != 0)
        fail_msg("refused: %s", text);
    return value;
}

static int teardown(void **state BL_UNUSED)
{
    bl_arena_done(&arena);
    return 0;
}

static void looks_up_members_and_elements(void **state BL_UNUSED)
{
    const struct bl_json *value =
        parse("{\"a\":{\"deep\":[1,[2,3],{\"x\":4}]},\"b\":\"text\",\"\":true,\"a\\u0000\":5}");
    int64_t number = 0;

    assert_true(bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("b"))), BL_TEXT("text")));
    assert_true(bl_json_boolean(bl_json_get(value, BL_TEXT("")), false));
    assert_true(bl_json_int64(bl_json_get(value, BL_TEXT("a\0")), &number));
    assert_int_equal(number, 5);
    const struct bl_json *deep = bl_json_get(bl_json_get(value, BL_TEXT("a")), BL_TEXT("deep"));
    assert_int_equal(bl_json_size(deep), 3);
    assert_true(bl_json_int64(bl_json_at(bl_json_at(deep, 1), 1), &number));
    assert_int_equal(number, 3);
    assert_true(bl_json_int64(bl_json_get(bl_json_at(deep, 2), BL_TEXT("x")), &number));
    assert_int_equal(number, 4);
    assert_null(bl_json_at(deep, 3));
    assert_null(bl_json_get(value, BL_TEXT("c")));
}

static void the_last_of_duplicates_is_found(void **state BL_UNUSED)
{
    const struct bl_json *value = parse("{\"a\":1,\"b\":2,\"a\":3}");
    int64_t number = 0;

    assert_int_equal(bl_json_size(value), 3);
    assert_true(bl_json_int64(bl_json_get(value, BL_TEXT("a")), &number));
    assert_int_equal(number, 3);
    assert_true(bl_json_int64(bl_json_pointer(value, BL_TEXT("/a")), &number));
    assert_int_equal(number, 3);
}

static void look_ups_in_null_and_other_types_return_nothing(void **state BL_UNUSED)
{
    const struct bl_json *text = parse("\"x\"");
    int64_t number = 7;
    double real = 7;

    assert_null(bl_json_get(NULL, BL_TEXT("a")));
    assert_null(bl_json_get(text, BL_TEXT("a")));
    assert_null(bl_json_at(NULL, 0));
    assert_null(bl_json_at(text, 0));
    assert_null(bl_json_pointer(NULL, BL_TEXT("/a")));
    assert_null(bl_json_pointer(text, BL_TEXT("/a")));
    assert_false(bl_json_is(NULL, BL_JSON_NULL));
    assert_int_equal(bl_json_text(NULL).size, 0);
    assert_int_equal(bl_json_text(parse("1")).size, 0);
    assert_true(bl_json_boolean(NULL, true));
    assert_true(bl_json_boolean(text, true));
    assert_false(bl_json_int64(NULL, &number));
    assert_false(bl_json_int64(text, &number));
    assert_false(bl_json_double(NULL, &real));
    assert_false(bl_json_double(text, &real));
    assert_int_equal(number, 7);
    assert_int_equal(bl_json_size(NULL), 0);
    assert_int_equal(bl_json_size(parse("12")), 0);
    assert_int_equal(bl_json_size(text), 1);
    BL_JSON_EACH (element, text)
        fail_msg("a string has elements: %d", element->type);
    BL_JSON_MEMBERS (key, NULL)
        fail_msg("nothing has members: %d", key->type);
}

static void iterates_in_document_order(void **state BL_UNUSED)
{
    const struct bl_json *value = parse("{\"z\":[1,[9],2,{\"q\":0},3],\"a\":{},\"m\":[]}");
    char keys[8] = "", *out = keys;
    int64_t sum = 0;

    BL_JSON_MEMBERS (key, value)
        *out++ = key->string[0];
    assert_string_equal(keys, "zam");
    BL_JSON_EACH (element, bl_json_get(value, BL_TEXT("z"))) {
        int64_t number;
        if (bl_json_int64(element, &number))
            sum = sum * 10 + number;
    }
    assert_int_equal(sum, 123);
}

static void pointers_follow_rfc_6901(void **state BL_UNUSED)
{
    const struct bl_json *value =
        parse("{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,\"g|h\":4,"
              "\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,\"~1\":9,\"x\":{\"\":{\"y\":10}}}");
    static const struct {
        const char *pointer;
        int64_t number;
    } found[] = {{"/", 0},     {"/a~1b", 1}, {"/c%d", 2},  {"/e^f", 3}, {"/g|h", 4},  {"/i\\j", 5},
                 {"/k\"l", 6}, {"/ ", 7},    {"/m~0n", 8}, {"/~01", 9}, {"/x//y", 10}};
    static const char *const missing[] = {"foo",
                                          "/foo/2",
                                          "/foo/-",
                                          "/foo/01",
                                          "/foo/",
                                          "/foo/1x",
                                          "/m~n",
                                          "/m~2n",
                                          "/m~",
                                          "/foo/0/x",
                                          "/x/y",
                                          "//",
                                          "/foo/99999999999999999999"};

    assert_ptr_equal(bl_json_pointer(value, BL_TEXT("")), value);
    assert_string_equal(bl_json_pointer(value, BL_TEXT("/foo/1"))->string, "baz");
    assert_true(bl_json_is(bl_json_pointer(value, BL_TEXT("/foo")), BL_JSON_ARRAY));
    for (size_t i = 0; i < BL_COUNT(found); i++) {
        int64_t number = -1;
        bl_json_int64(bl_json_pointer(value, bl_text_from(found[i].pointer)), &number);
        assert_int_equal(number, found[i].number);
    }
    for (size_t i = 0; i < BL_COUNT(missing); i++) {
        if (bl_json_pointer(value, bl_text_from(missing[i])) != NULL)
            fail_msg("%s is there", missing[i]);
    }
}

static void integers_are_returned_only_if_exact(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        int64_t value;
    } exact[] = {{"3", 3},
                 {"3.0", 3},
                 {"-0.0", 0},
                 {"1e3", 1000},
                 {"-9223372036854775808", INT64_MIN},
                 {"-9223372036854775808.0", INT64_MIN},
                 {"9223372036854774784.0", 9223372036854774784}};
    static const char *const others[] = {
        "3.5", "9223372036854775808", "9223372036854775808.0", "1e30", "-1e19", "true", "\"3\""};
    int64_t number;
    double real;

    for (size_t i = 0; i < BL_COUNT(exact); i++) {
        assert_true(bl_json_int64(parse(exact[i].text), &number));
        assert_true(number == exact[i].value);
    }
    for (size_t i = 0; i < BL_COUNT(others); i++)
        assert_false(bl_json_int64(parse(others[i]), &number));
    assert_true(bl_json_double(parse("3"), &real) && real == 3);
    assert_true(bl_json_double(parse("18446744073709551615"), &real) && real == 0x1p64);
    assert_true(bl_json_double(parse("2.5"), &real) && real == 2.5);
}

static void types_have_names(void **state BL_UNUSED)
{
    assert_string_equal(bl_json_type_name(BL_JSON_NULL), "null");
    assert_string_equal(bl_json_type_name(BL_JSON_BOOLEAN), "boolean");
    assert_string_equal(bl_json_type_name(BL_JSON_INTEGER), "integer");
    assert_string_equal(bl_json_type_name(BL_JSON_UNSIGNED), "integer");
    assert_string_equal(bl_json_type_name(BL_JSON_DOUBLE), "number");
    assert_string_equal(bl_json_type_name(BL_JSON_STRING), "string");
    assert_string_equal(bl_json_type_name(BL_JSON_ARRAY), "array");
    assert_string_equal(bl_json_type_name(BL_JSON_OBJECT), "object");
}

static void equality_compares_values(void **state BL_UNUSED)
{
    static const char *const same[][2] = {
        {"1", "1.0"},
        {"1", "1e0"},
        {"100", "1E2"},
        {"0", "-0"},
        {"18446744073709551615", "18446744073709551615"},
        {"9223372036854775808", "9223372036854775808.0"},
        {"\"\\u0061\"", "\"a\""},
        {"[1,[2,{\"a\":[]}]]", " [ 1.0 , [2, {\"a\" : [ ] } ] ]"},
        {"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "{\"b\":{\"d\":3,\"c\":2},\"a\":1}"},
        {"{\"a\":0,\"b\":2,\"a\":1}", "{\"a\":1,\"b\":2}"},
        {"{\"a\":1,\"a\":1}", "{\"a\":1}"},
        {"{\"a\":true,\"b\":2.5,\"c\":null}", "{\"c\":null,\"b\":2.5,\"a\":true}"},
        {"[{\"x\":[{\"p\":1,\"q\":[]}]},null]", "[{\"x\":[{\"q\":[],\"p\":1}]},null]"},
    };
    static const char *const different[][2] = {
        {"1", "2"},
        {"1", "true"},
        {"0", "null"},
        {"0", "false"},
        {"\"1\"", "1"},
        {"1", "1.5"},
        {"true", "false"},
        {"1.5", "2.5"},
        {"9007199254740993", "9007199254740992.0"},
        {"9223372036854775807", "9223372036854775808.0"},
        {"18446744073709551615", "18446744073709551616"},
        {"18446744073709551615", "-1"},
        {"[]", "{}"},
        {"[1,2]", "[2,1]"},
        {"[1]", "[1,1]"},
        {"[[1],2]", "[[1,2]]"},
        {"{\"a\":1}", "{\"b\":1}"},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":1}"},
        {"{\"b\":{\"d\":3,\"c\":2},\"a\":1}", "{\"a\":1,\"b\":{\"c\":2,\"d\":4}}"},
        {"{\"a\":[1]}", "{\"a\":{\"1\":1}}"},
    };

    for (size_t i = 0; i < BL_COUNT(same); i++) {
        if (!bl_json_equal(parse(same[i][0]), parse(same[i][1])) ||
            !bl_json_equal(parse(same[i][1]), parse(same[i][0])))
            fail_msg("%s != %s", same[i][0], same[i][1]);
    }
    for (size_t i = 0; i < BL_COUNT(different); i++) {
        if (bl_json_equal(parse(different[i][0]), parse(different[i][1])) ||
            bl_json_equal(parse(different[i][1]), parse(different[i][0])))
            fail_msg("%s == %s", different[i][0], different[i][1]);
    }
    assert_true(bl_json_equal(NULL, NULL));
    assert_false(bl_json_equal(NULL, parse("null")));
}

/* Compares an object with many members, and a deep value, with the same in reverse order. */
static void equality_is_quick_for_large_and_deep_values(void **state BL_UNUSED)
{
    enum {
        COUNT = 100000,
        DEPTH = 1000
    };
    struct bl_buffer text;
    const struct bl_json *values[2];
    const struct bl_json_limits limits = {.depth_max = 1024};

    bl_buffer_init(&text, 16u << 20);
    for (int i = 0; i < COUNT; i++)
        bl_buffer_printf(&text, "%s\"%d\":%d", i == 0 ? "{" : ",", i, i);
    bl_buffer_append(&text, BL_TEXT("}"));
    values[0] = parse(bl_arena_text(&arena, bl_buffer_text(&text)).data);
    bl_buffer_clear(&text);
    for (int i = COUNT; i-- > 0;)
        bl_buffer_printf(&text, "%s\"%d\":%d", i == COUNT - 1 ? "{" : ",", i, i);
    bl_buffer_append(&text, BL_TEXT("}"));
    values[1] = parse(bl_arena_text(&arena, bl_buffer_text(&text)).data);
    assert_true(bl_json_equal(values[0], values[1]));

    for (int order = 0; order < 2; order++) {
        bl_buffer_clear(&text);
        for (int i = 0; i < DEPTH; i++)
            bl_buffer_append(&text, order == 0 ? BL_TEXT("{\"a\":1,\"b\":") : BL_TEXT("{\"b\":"));
        bl_buffer_append(&text, BL_TEXT("0"));
        for (int i = 0; i < DEPTH; i++)
            bl_buffer_append(&text, order == 0 ? BL_TEXT("}") : BL_TEXT(",\"a\":1}"));
        assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), &limits, &values[order], NULL),
                         0);
    }
    assert_true(bl_json_equal(values[0], values[1]));
    bl_buffer_done(&text);
}

SUITE(access, cmocka_unit_test_teardown(looks_up_members_and_elements, teardown),
      cmocka_unit_test_teardown(the_last_of_duplicates_is_found, teardown),
      cmocka_unit_test_teardown(look_ups_in_null_and_other_types_return_nothing, teardown),
      cmocka_unit_test_teardown(iterates_in_document_order, teardown),
      cmocka_unit_test_teardown(pointers_follow_rfc_6901, teardown),
      cmocka_unit_test_teardown(integers_are_returned_only_if_exact, teardown),
      cmocka_unit_test_teardown(types_have_names, teardown),
      cmocka_unit_test_teardown(equality_compares_values, teardown),
      cmocka_unit_test_teardown(equality_is_quick_for_large_and_deep_values, teardown));
