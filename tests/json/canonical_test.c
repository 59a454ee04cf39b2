#include "suite.h"

#include <belay/json.h>

static void assert_canonical(const char *text, const char *canonical)
{
    struct bl_arena arena;
    struct bl_buffer buffer;
    const struct bl_json *value;

    bl_arena_init(&arena);
    bl_buffer_init(&buffer, 1u << 20);
    /* Twice, because the canonical form must not change. */
    for (int round = 0; round < 2; round++) {
        assert_int_equal(bl_json_read(&arena, bl_text_from(text), NULL, &value, NULL), 0);
        bl_buffer_clear(&buffer);
        assert_int_equal(bl_json_write_canonical(&buffer, value), 0);
        struct bl_text written = bl_buffer_text(&buffer);
        if (!bl_text_equal(written, bl_text_from(canonical)))
            fail_msg(BL_TEXT_FORMAT ", not %s", BL_TEXT_ARG(written), canonical);
        text = canonical;
    }
    bl_buffer_done(&buffer);
    bl_arena_done(&arena);
}

static void the_example_of_rfc_8785_is_reproduced(void **state BL_UNUSED)
{
    assert_canonical("{\"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, "
                     "0.000000000000000000000000001],\n"
                     "\"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\n"
                     "\"literals\": [null, true, false]}",
                     "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,"
                     "0.002,1e-27],\"string\":\"\u20ac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

static void members_are_sorted_by_utf16_units(void **state BL_UNUSED)
{
    assert_canonical("{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\","
                     "\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\","
                     "\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\","
                     "\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}",
                     "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xc2\x80\":\"Control\","
                     "\"\u00f6\":\"Latin Small Letter O With Diaeresis\",\"\u20ac\":\"Euro Sign\","
                     "\"\U0001f600\":\"Emoji: Grinning Face\","
                     "\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}");
    assert_canonical("{\"\ue000\":1,\"\U00010000\":2,\"\ud7ff\":3,\"\uffff\":4,\"\U0010ffff\":5}",
                     "{\"\ud7ff\":3,\"\U00010000\":2,\"\U0010ffff\":5,\"\ue000\":1,\"\uffff\":4}");
    assert_canonical("{\"ab\":1,\"a\":2,\"\":3,\"b\":4,\"B\":5}",
                     "{\"\":3,\"B\":5,\"a\":2,\"ab\":1,\"b\":4}");
}

static void the_last_of_duplicates_is_kept(void **state BL_UNUSED)
{
    assert_canonical("{\"b\":1,\"a\":1,\"b\":2,\"a\":{\"x\":1,\"x\":[2]},\"b\":3}",
                     "{\"a\":{\"x\":[2]},\"b\":3}");
}

static void numbers_are_printed_as_ecmascript_does_but_integers_stay_exact(void **state BL_UNUSED)
{
    assert_canonical("[1.0,-0,-0.0,1e2,1e21,1.5,9007199254740993,-9223372036854775808,"
                     "18446744073709551615,100000000000000000000,1E-7]",
                     "[1,0,0,100,1e+21,1.5,9007199254740993,-9223372036854775808,"
                     "18446744073709551615,100000000000000000000,1e-7]");
}

static void scalars_and_empty_containers_work(void **state BL_UNUSED)
{
    struct bl_buffer buffer;

    assert_canonical(" \"\\u0041\" ", "\"A\"");
    assert_canonical(" [ ] ", "[]");
    assert_canonical(" { } ", "{}");
    assert_canonical("[[],{},[[ ]],{\"a\" :{}}]", "[[],{},[[]],{\"a\":{}}]");
    bl_buffer_init(&buffer, 16);
    assert_int_equal(bl_json_write_canonical(&buffer, NULL), 0);
    assert_true(bl_text_equal(bl_buffer_text(&buffer), BL_TEXT("null")));
    bl_buffer_done(&buffer);
}

static void a_full_buffer_is_unchanged(void **state BL_UNUSED)
{
    static const char canonical[] = "x{\"a\":[1,\"\\n\"],\"b\":{}}";
    struct bl_arena arena;
    const struct bl_json *value;

    bl_arena_init(&arena);
    assert_int_equal(
        bl_json_read(&arena, BL_TEXT("{\"b\":{},\"a\":[1,\"\\n\"]}"), NULL, &value, NULL), 0);
    for (size_t maximum = 1; maximum < sizeof(canonical) + 2; maximum++) {
        struct bl_buffer buffer;
        bool fits = maximum >= sizeof(canonical) - 1;
        bl_buffer_init(&buffer, maximum);
        bl_buffer_append(&buffer, BL_TEXT("x"));
        assert_int_equal(bl_json_write_canonical(&buffer, value), fits ? 0 : BL_ELIMIT);
        assert_true(
            bl_text_equal(bl_buffer_text(&buffer), fits ? bl_text_from(canonical) : BL_TEXT("x")));
        bl_buffer_done(&buffer);
    }
    bl_arena_done(&arena);
}

static void deep_values_need_no_stack(void **state BL_UNUSED)
{
    const struct bl_json_limits limits = {.depth_max = 1024};
    struct bl_arena arena;
    struct bl_buffer text, canonical;
    const struct bl_json *value;

    bl_arena_init(&arena);
    bl_buffer_init(&text, 1u << 20);
    bl_buffer_init(&canonical, 1u << 20);
    for (int i = 0; i < 512; i++)
        bl_buffer_append(&text, BL_TEXT("{\"b\":1,\"a\":["));
    for (int i = 0; i < 512; i++)
        bl_buffer_append(&text, BL_TEXT("]}"));
    assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), &limits, &value, NULL), 0);
    assert_int_equal(bl_json_write_canonical(&canonical, value), 0);
    assert_int_equal(canonical.size, text.size);
    assert_true(bl_text_starts_with(bl_buffer_text(&canonical), BL_TEXT("{\"a\":[{\"a\":[")));
    bl_buffer_done(&text);
    bl_buffer_done(&canonical);
    bl_arena_done(&arena);
}

SUITE(canonical, cmocka_unit_test(the_example_of_rfc_8785_is_reproduced),
      cmocka_unit_test(members_are_sorted_by_utf16_units),
      cmocka_unit_test(the_last_of_duplicates_is_kept),
      cmocka_unit_test(numbers_are_printed_as_ecmascript_does_but_integers_stay_exact),
      cmocka_unit_test(scalars_and_empty_containers_work),
      cmocka_unit_test(a_full_buffer_is_unchanged), cmocka_unit_test(deep_values_need_no_stack));
