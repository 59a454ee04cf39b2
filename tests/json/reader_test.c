#include "suite.h"

#include <dirent.h>
#include <stdio.h>

#include <belay/json.h>

static int read_text(struct bl_arena *arena, const char *text, const struct bl_json_limits *limits,
                     const struct bl_json **ret_value, struct bl_json_fault *fault)
{
    return bl_json_read(arena, bl_text_from(text), limits, ret_value, fault);
}

/* Fails unless `text` is refused with this fault. */
static void refuse(const char *text, size_t offset, const char *expected, const char *found)
{
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;

    bl_arena_init(&arena);
    assert_int_equal(read_text(&arena, text, NULL, &value, &fault), BL_EPARSE);
    if (fault.offset != offset)
        print_message("of: %s\n", text);
    assert_int_equal(fault.offset, offset);
    assert_string_equal(fault.expected, expected);
    assert_string_equal(fault.found, found);
    bl_arena_done(&arena);
}

/* Fails unless `text` reads as a string of these bytes. */
static void decode(const char *text, struct bl_text bytes)
{
    struct bl_arena arena;
    const struct bl_json *value;

    bl_arena_init(&arena);
    assert_int_equal(read_text(&arena, text, NULL, &value, NULL), 0);
    assert_true(bl_json_is(value, BL_JSON_STRING));
    assert_int_equal(value->size, bytes.size);
    assert_memory_equal(value->string, bytes.data, bytes.size);
    assert_int_equal(value->string[bytes.size], 0);
    bl_arena_done(&arena);
}

static void check_suite_file(const char *folder, const char *name, unsigned *counts)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct bl_text text = suite_read_file(path);
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault = {0};

    bl_arena_init(&arena);
    int result = bl_json_read(&arena, text, NULL, &value, &fault);
    if ((name[0] == 'y' && result != 0) || (name[0] == 'n' && result == 0))
        fail_msg("%s: %s", name, result == 0 ? "accepted" : fault.expected);
    if (result != 0) {
        assert_true(fault.offset <= text.size);
        assert_true(bl_utf8_valid(bl_text_from(fault.excerpt)));
    }
    counts[name[0] == 'y' ? 0 : name[0] == 'n' ? 1 : 2]++;
    bl_arena_done(&arena);
    bl_free((void *)text.data);
}

static void agrees_with_the_public_suite(void **state BL_UNUSED)
{
    const char *shared = suite_shared("suites/json");
    char folder[3800];
    snprintf(folder, sizeof folder, "%s", shared);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    unsigned counts[3] = {0};
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        size_t size = strlen(entry->d_name);
        if (size > 5 && strcmp(entry->d_name + size - 5, ".json") == 0)
            check_suite_file(folder, entry->d_name, counts);
    }
    closedir(directory);
    assert_true(counts[0] >= 90 && counts[1] >= 180 && counts[2] >= 30);
}

static void reads_every_type_in_document_order(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value;

    bl_arena_init(&arena);
    assert_int_equal(read_text(&arena,
                               " {\"a\" : [null,true,false,-1,1.5,\"x\",[],{}]\t,\r\n\"b\":{}} ",
                               NULL, &value, NULL),
                     0);
    static const uint8_t types[] = {
        BL_JSON_OBJECT,  BL_JSON_STRING,  BL_JSON_ARRAY,  BL_JSON_NULL,   BL_JSON_BOOLEAN,
        BL_JSON_BOOLEAN, BL_JSON_INTEGER, BL_JSON_DOUBLE, BL_JSON_STRING, BL_JSON_ARRAY,
        BL_JSON_END,     BL_JSON_OBJECT,  BL_JSON_END,    BL_JSON_END,    BL_JSON_STRING,
        BL_JSON_OBJECT,  BL_JSON_END,     BL_JSON_END};
    for (size_t i = 0; i < BL_COUNT(types); i++)
        assert_int_equal(value[i].type, types[i]);
    assert_int_equal(value->span, BL_COUNT(types));
    assert_int_equal(value->size, 2);
    assert_int_equal(value[2].size, 8);
    assert_true(value[4].boolean);
    assert_false(value[5].boolean);
    bl_arena_done(&arena);
}

static void decodes_escapes(void **state BL_UNUSED)
{
    decode("\"\"", BL_TEXT(""));
    decode("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", BL_TEXT("\"\\/\b\f\n\r\t"));
    decode("\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"", BL_TEXT("A\u00e9\u20ac\U0001f600"));
    decode("\"a\\u0000b\"", BL_TEXT("a\0b"));
    decode("\"before \\n and a long run after it \\t\u00e9\u65e5\U0001f600 end\"",
           BL_TEXT("before \n and a long run after it \t\u00e9\u65e5\U0001f600 end"));
    decode("\"\x7f\"", BL_TEXT("\x7f"));
}

static void stops_at_a_special_byte_at_any_place_in_a_word(void **state BL_UNUSED)
{
    static const char *const specials[] = {"\\n", "\u00e9", "\\\"", "\U0001f600"};
    static const char *const decoded[] = {"\n", "\u00e9", "\"", "\U0001f600"};

    for (int before = 0; before < 20; before++) {
        for (int after = 0; after < 20; after++) {
            for (size_t i = 0; i < BL_COUNT(specials); i++) {
                char text[64], bytes[64];
                snprintf(text, sizeof text, "\"%.*s%s%.*s\"", before, "abcdefghijklmnopqrstu",
                         specials[i], after, "ABCDEFGHIJKLMNOPQRSTU");
                int size =
                    snprintf(bytes, sizeof bytes, "%.*s%s%.*s", before, "abcdefghijklmnopqrstu",
                             decoded[i], after, "ABCDEFGHIJKLMNOPQRSTU");
                decode(text, (struct bl_text){bytes, (size_t)size});
            }
        }
    }
}

static void refuses_malformed_strings(void **state BL_UNUSED)
{
    static const char escape[] = "an escape: one of \"\\/bfnrtu";
    static const char control[] = "a string character (escape control characters)";

    refuse("\"abc", 4, "'\"'", "the end");
    refuse("\"abc\\", 5, escape, "the end");
    refuse("\"\\x\"", 2, escape, "'x'");
    refuse("\"\\u12g4\"", 5, "a hexadecimal digit", "'g'");
    refuse("\"\\u12", 5, "a hexadecimal digit", "the end");
    refuse("\"\\ud800\"", 1, "a surrogate pair", "'\\'");
    refuse("\"\\ud800\\n\"", 1, "a surrogate pair", "'\\'");
    refuse("\"\\ud800\\ud800\"", 1, "a surrogate pair", "'\\'");
    refuse("\"x\\udc00\"", 2, "a surrogate pair", "'\\'");
    refuse("\"\\ud800\\udc0\"", 12, "a hexadecimal digit", "'\"'");
    refuse("\"a\nb\"", 2, control, "0x0A");
    refuse("\"\\n\x01\"", 3, control, "0x01");
}

static void refuses_invalid_utf8(void **state BL_UNUSED)
{
    static const char *const broken[] = {
        "\x80",         "\xbf",         "\xc0\x80",         "\xc1\xbf",         "\xc3",
        "\xc3(",        "\xe0\x80\x80", "\xe0\x9f\xbf",     "\xe2\x82",         "\xed\xa0\x80",
        "\xed\xbf\xbf", "\xf0\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xfe",         "\xff",         "\xf0\x9f\x98"};

    for (size_t i = 0; i < BL_COUNT(broken); i++) {
        char text[32], found[16];
        snprintf(found, sizeof found, "0x%02X", (unsigned char)broken[i][0]);
        snprintf(text, sizeof text, "\"%s\"", broken[i]);
        refuse(text, 1, "valid UTF-8", found);
        snprintf(text, sizeof text, "\"\\n%s", broken[i]);
        refuse(text, 3, "valid UTF-8", found);
    }
}

static void reports_what_was_expected_and_found(void **state BL_UNUSED)
{
    refuse("", 0, "a value", "the end");
    refuse("  ", 2, "a value", "the end");
    refuse("[", 1, "a value or ']'", "the end");
    refuse("[,", 1, "a value or ']'", "','");
    refuse("[1,]", 3, "a value", "']'");
    refuse("[1 2]", 3, "',' or ']'", "'2'");
    refuse("[1}", 2, "',' or ']'", "'}'");
    refuse("{", 1, "a key or '}'", "the end");
    refuse("{1", 1, "a key or '}'", "'1'");
    refuse("{\"a\"", 4, "':'", "the end");
    refuse("{\"a\":}", 5, "a value", "'}'");
    refuse("{\"a\":1", 6, "',' or '}'", "the end");
    refuse("{\"a\":1,}", 7, "a key", "'}'");
    refuse("1 2", 2, "the end", "'2'");
    refuse("[]]", 2, "the end", "']'");
    refuse("tru", 3, "'true'", "the end");
    refuse("[fals3]", 5, "'false'", "'3'");
    refuse("nul]", 3, "'null'", "']'");
    refuse("truex", 4, "the end", "'x'");
    refuse("NaN", 0, "a value", "'N'");
    refuse("\u201cx\u201d", 0, "a value", "'\u201c'");
    refuse("\xef\xbb\xbf{}", 0, "a value", "'\xef\xbb\xbf'");
}

static void refuses_a_nul_byte_anywhere(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;

    bl_arena_init(&arena);
    static const char text[] = "{\"a\" : [1 , \"x\"] }";
    for (size_t i = 0; i < sizeof(text); i++) {
        char copy[sizeof(text)];
        memcpy(copy, text, i);
        copy[i] = '\0';
        memcpy(copy + i + 1, text + i, sizeof(text) - 1 - i);
        assert_int_equal(
            bl_json_read(&arena, (struct bl_text){copy, sizeof copy}, NULL, &value, &fault),
            BL_EPARSE);
        assert_int_equal(fault.offset, i);
        assert_string_equal(fault.found, "0x00");
    }
    bl_arena_done(&arena);
}

static void counts_lines_and_columns(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;
    char text[256];

    bl_arena_init(&arena);
    assert_int_equal(read_text(&arena, "{\n  \"a\": 1\n  x", NULL, &value, &fault), BL_EPARSE);
    assert_int_equal(fault.line, 3);
    assert_int_equal(fault.column, 3);
    bl_json_fault_text(&fault, text, sizeof text);
    assert_string_equal(text, "offset 13 (line 3, column 3): expected ',' or '}', found 'x' near "
                              "`{\\n  \"a\": 1\\n  x`");
    bl_json_fault_text(&fault, text, 10);
    assert_string_equal(text, "offset 13");
    bl_arena_done(&arena);
}

static void truncates_excerpts_at_characters_and_marks_that(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;
    char text[400];

    bl_arena_init(&arena);
    for (int before = 0; before < 60; before++) {
        int size = snprintf(text, sizeof text, "[\"");
        for (int i = 0; i < before; i++)
            size += snprintf(text + size, sizeof text - (size_t)size, "%s", i % 3 ? "\u20ac" : "x");
        size += snprintf(text + size, sizeof text - (size_t)size, "\" ?");
        for (int i = 0; i < before; i++)
            size += snprintf(text + size, sizeof text - (size_t)size, "\u00e9");
        assert_int_equal(read_text(&arena, text, NULL, &value, &fault), BL_EPARSE);
        assert_true(bl_utf8_valid(bl_text_from(fault.excerpt)));
        assert_non_null(strstr(fault.excerpt, "\" ?"));
        assert_int_equal(strncmp(fault.excerpt, "\u2026", 3) == 0, fault.offset > 24);
        assert_null(strstr(fault.excerpt, "\\x"));
    }
    memset(text, 1, sizeof text);
    assert_int_equal(
        bl_json_read(&arena, (struct bl_text){text, sizeof text}, NULL, &value, &fault), BL_EPARSE);
    assert_string_equal(
        fault.excerpt, "\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01"
                       "\u2026");
    bl_arena_done(&arena);
}

static void refuses_deep_nesting_without_using_the_stack(void **state BL_UNUSED)
{
    enum {
        COUNT = 100000
    };
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;
    char *text = bl_alloc(COUNT);

    bl_arena_init(&arena);
    memset(text, '[', COUNT);
    assert_int_equal(bl_json_read(&arena, (struct bl_text){text, COUNT}, NULL, &value, &fault),
                     BL_ELIMIT);
    assert_int_equal(fault.offset, 128);
    struct bl_json_limits limits = {.depth_max = 5000};
    assert_int_equal(bl_json_read(&arena, (struct bl_text){text, COUNT}, &limits, &value, &fault),
                     BL_ELIMIT);
    assert_int_equal(fault.offset, 1024);
    memset(text + 1024, ']', 1024);
    assert_int_equal(bl_json_read(&arena, (struct bl_text){text, 2048}, &limits, &value, NULL), 0);
    assert_int_equal(value->span, 2048);
    limits.depth_max = 2;
    assert_int_equal(read_text(&arena, "[[1],{}]", &limits, &value, NULL), 0);
    assert_int_equal(read_text(&arena, "[[1],{\"a\":[]}]", &limits, &value, NULL), BL_ELIMIT);
    bl_free(text);
    bl_arena_done(&arena);
}

static void enforces_the_limits_of_size_and_strings(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;
    struct bl_json_limits limits = {.size_max = 8, .string_max = 3};

    bl_arena_init(&arena);
    assert_int_equal(read_text(&arena, "[\"abc\"] ", &limits, &value, NULL), 0);
    assert_int_equal(read_text(&arena, "[\"abc\"]  ", &limits, &value, &fault), BL_ELIMIT);
    assert_int_equal(fault.offset, 8);
    assert_int_equal(read_text(&arena, "[\"abcd\"]", &limits, &value, &fault), BL_ELIMIT);
    assert_int_equal(fault.offset, 1);
    limits.size_max = 100;
    assert_int_equal(read_text(&arena, "\"\\u20ac\"", &limits, &value, NULL), 0);
    assert_int_equal(read_text(&arena, "{\"\\u20acx\":1}", &limits, &value, NULL), BL_ELIMIT);
    bl_arena_done(&arena);
}

static void leaves_the_arena_unchanged_on_error(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value = NULL;

    bl_arena_init(&arena);
    bl_arena_alloc(&arena, 100);
    struct bl_arena before = arena;
    char *text = bl_alloc(100001);
    for (size_t i = 0; i < 100000; i += 2)
        memcpy(text + i, i == 0 ? "[1" : ",1", 2);
    assert_int_equal(bl_json_read(&arena, (struct bl_text){text, 100000}, NULL, &value, NULL),
                     BL_EPARSE);
    assert_memory_equal(&arena, &before, sizeof arena);
    assert_null(value);
    text[100000] = ']';
    assert_int_equal(bl_json_read(&arena, (struct bl_text){text, 100001}, NULL, &value, NULL), 0);
    assert_int_equal(value->size, 50000);
    bl_free(text);
    bl_arena_done(&arena);
}

static void refuses_duplicates_at_the_second_key_on_request(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value;
    struct bl_json_fault fault;
    const struct bl_json_limits limits = {.refuse_duplicates = true};

    bl_arena_init(&arena);
    assert_int_equal(read_text(&arena, "{\"a\":1,\"b\":{\"a\":1},\"\":0}", &limits, &value, NULL),
                     0);
    assert_int_equal(read_text(&arena, "{\"a\":1,\"\\u0061\":2}", NULL, &value, NULL), 0);
    assert_int_equal(read_text(&arena, "{\"a\":1,\"\\u0061\":2}", &limits, &value, &fault),
                     BL_EPARSE);
    assert_int_equal(fault.offset, 7);
    assert_string_equal(fault.expected, "a key that is not a duplicate");
    assert_int_equal(read_text(&arena, "[{\"x\":[{\"\":1,\"\":2}]}]", &limits, &value, &fault),
                     BL_EPARSE);
    assert_int_equal(fault.offset, 13);
    bl_arena_done(&arena);
}

static void finds_duplicates_among_many_members(void **state BL_UNUSED)
{
    enum {
        COUNT = 100000
    };
    struct bl_arena arena;
    struct bl_buffer text;
    const struct bl_json *value;
    struct bl_json_fault fault;
    const struct bl_json_limits limits = {.refuse_duplicates = true};

    bl_arena_init(&arena);
    bl_buffer_init(&text, 16u << 20);
    for (int i = 0; i < COUNT; i++)
        bl_buffer_printf(&text, "%c\"key%d\":%d", i == 0 ? '{' : ',', i, i);
    size_t second = text.size + 1;
    bl_buffer_append(&text, BL_TEXT("}"));
    assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), &limits, &value, NULL), 0);
    text.size--;
    bl_buffer_append(&text, BL_TEXT(",\"key77\":0,\"key3\":0}"));
    assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), &limits, &value, &fault),
                     BL_EPARSE);
    assert_int_equal(fault.offset, second);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

static void does_not_need_the_input_afterwards(void **state BL_UNUSED)
{
    struct bl_arena arena;
    const struct bl_json *value;

    bl_arena_init(&arena);
    char *text = bl_alloc(10);
    memcpy(text, "[\"abc\", 1]", 10);
    assert_int_equal(bl_json_read(&arena, (struct bl_text){text, 10}, NULL, &value, NULL), 0);
    memset(text, 'x', 10);
    bl_free(text);
    assert_string_equal(value[1].string, "abc");
    assert_int_equal(value[2].integer, 1);
    bl_arena_done(&arena);
}

static void lone_surrogates_are_replaced_on_request(void **state BL_UNUSED)
{
    static const struct bl_json_limits limits = {.replace_surrogates = true};
    static const struct {
        const char *input, *text;
    } cases[] = {
        {"\"a\\ud83d\"", "a\uFFFD"},
        {"\"\\ude00b\"", "\uFFFDb"},
        {"\"\\ud83d\\ud83d\\ude00\"", "\uFFFD\U0001F600"},
        {"\"\\ud83d\\u0041\"", "\uFFFDA"},
    };
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        const struct bl_json *value;
        struct bl_text input = bl_text_from(cases[i].input);
        assert_int_equal(bl_json_read(&arena, input, NULL, &value, NULL), BL_EPARSE);
        assert_int_equal(bl_json_read(&arena, input, &limits, &value, NULL), 0);
        assert_string_equal(bl_json_text(value).data, cases[i].text);
    }
    bl_arena_done(&arena);
}

SUITE(reader, cmocka_unit_test(lone_surrogates_are_replaced_on_request),
      cmocka_unit_test(agrees_with_the_public_suite),
      cmocka_unit_test(reads_every_type_in_document_order), cmocka_unit_test(decodes_escapes),
      cmocka_unit_test(stops_at_a_special_byte_at_any_place_in_a_word),
      cmocka_unit_test(refuses_malformed_strings), cmocka_unit_test(refuses_invalid_utf8),
      cmocka_unit_test(reports_what_was_expected_and_found),
      cmocka_unit_test(refuses_a_nul_byte_anywhere), cmocka_unit_test(counts_lines_and_columns),
      cmocka_unit_test(truncates_excerpts_at_characters_and_marks_that),
      cmocka_unit_test(refuses_deep_nesting_without_using_the_stack),
      cmocka_unit_test(enforces_the_limits_of_size_and_strings),
      cmocka_unit_test(leaves_the_arena_unchanged_on_error),
      cmocka_unit_test(refuses_duplicates_at_the_second_key_on_request),
      cmocka_unit_test(finds_duplicates_among_many_members),
      cmocka_unit_test(does_not_need_the_input_afterwards));
