#include <time.h>

#include "documents.h"

static void blocks_and_flows_make_the_same_trees(void **state BL_UNUSED)
{
    same("a: 1\nb:\n  - x\n  - y: [1, 2]\n    z: {}\nc:\n",
         "{\"a\":1,\"b\":[\"x\",{\"y\":[1,2],\"z\":{}}],\"c\":null}");
    same("- - 1\n  - 2\n-\n- {a: b, c: }\n", "[[1,2],null,{\"a\":\"b\",\"c\":null}]");
    same("{a: 1, b: [x, 'y'],}", "{\"a\":1,\"b\":[\"x\",\"y\"]}");
    same("[a, b,]", "[\"a\",\"b\"]");
    same("[a: 1, b]", "[{\"a\":1},\"b\"]");
    same("{a, b: }", "{\"a\":null,\"b\":null}");
    same("? a\n: 1\n? b\n", "{\"a\":1,\"b\":null}");
    same("a:\n- 1\n- 2\n", "{\"a\":[1,2]}");
    same("%YAML 1.2\n---\na: 1\n...\n", "{\"a\":1}");
    same("a: 1\r\nb: 2\r\n", "{\"a\":1,\"b\":2}");
    same("\xef\xbb\xbf"
         "a: 1",
         "{\"a\":1}");
    same("\xef\xbb\xbf{\"a\": 1}", "{\"a\":1}");
    same("{\"a\": 1, // as text\n }", "{\"a\":1,\"// as text\":null}");
    same("'<<': 1", "{\"<<\":1}");
    same("a: <<", "{\"a\":\"<<\"}");
    same("'': 1", "{\"\":1}");
    same("\t[1,\t2]", "[1,2]");
}

static void aliases_copy_their_anchors(void **state BL_UNUSED)
{
    same("a: &x 1\nb: *x", "{\"a\":1,\"b\":1}");
    same("a: &x [1, {b: c}]\nd: *x\ne: [*x, *x]",
         "{\"a\":[1,{\"b\":\"c\"}],\"d\":[1,{\"b\":\"c\"}],"
         "\"e\":[[1,{\"b\":\"c\"}],[1,{\"b\":\"c\"}]]}");
    same("[&x a, *x, &x b, *x]", "[\"a\",\"a\",\"b\",\"b\"]");
    same("[&x [&x 1, *x], *x]", "[[1,1],1]");
    same("&k key: 1\nother: *k", "{\"key\":1,\"other\":\"key\"}");
    same("- &k key\n- *k : 1", "[\"key\",{\"key\":1}]");
    same("- &e\n- *e", "[null,null]");
    refuse("a: *x", 1, 4, "an anchor defined earlier");
    refuse("a: &x [1, *x]", 1, 11, "an alias outside of its own anchor");
    refuse("&x {a: {b: *x}}", 1, 12, "an alias outside of its own anchor");
    refuse("- &k 1\n- *k : 1", 2, 3, "a text key (quote it)");
    refuse("- &k [a]\n- *k : 1", 2, 3, "a text key (quote it)");
}

static void malformed_yaml_is_reported_with_place_and_expectation(void **state BL_UNUSED)
{
    refuse("a: 1\na: 2", 2, 1, "a key that is not a duplicate");
    refuse("x: {b: 1,\n  'b': 2}", 2, 3, "a key that is not a duplicate");
    refuse("1: a", 1, 1, "a text key (quote it)");
    refuse("a: {true: b}", 1, 5, "a text key (quote it)");
    refuse("~: a", 1, 1, "a text key (quote it)");
    refuse("[a]: b", 1, 1, "a text key (quote it)");
    refuse("? {a: b}\n: c", 1, 3, "a text key (quote it)");
    refuse("<<: *x", 1, 1,
           "a key other than <<: merge keys are not supported (quote it to make it text)");
    refuse("a: 1\n---\nb: 2", 2, 1, "the end: only one document is allowed");
    refuse("---\n---\n", 2, 1, "the end: only one document is allowed");
    refuse("a: \"open", 1, 9, "the closing quote");
    refuse("a: 'open\n", 2, 1, "the closing quote");
    refuse("a: [1, 2\nb: 3", 2, 2, "',' or ']'");
    refuse("a: b: c", 1, 5, "no ':' here (quote text that contains ':')");
    refuse("a: 1\n b: 2", 2, 3, "no ':' here (quote text that contains ':')");
    refuse("a:\n\t- b", 2, 1, "a value (quote text that begins with this character)");
    refuse("a: @b", 1, 4, "a value (quote text that begins with this character)");
    refuse("a: `b`", 1, 4, "a value (quote text that begins with this character)");
    refuse("a: - b", 1, 4, "no '-' here (is the indentation right?)");
    refuse("- a\nb: c", 2, 1, "'-' (is the indentation right?)");
    refuse("a: b\n- c", 2, 1, "a key (is the indentation right?)");
    refuse("a: \"\\q\"", 1, 5, "a valid YAML escape");
    refuse("a: \"\\ud800\"", 1, 7, "a valid code point");
    refuse("%YAML 2.0\n---\na", 1, 1, "YAML 1.1 or 1.2");
    refuse("a: |0\n  x", 1, 5, "an indentation from 1 to 9");
    refuse("a\nb\nc: d", 3, 2, "no ':' here (quote text that contains ':')");
}

static void aliases_cannot_multiply_without_bound(void **state BL_UNUSED)
{
    struct bl_buffer source;
    struct timespec start, end;

    bl_buffer_init(&source, 1u << 20);
    bl_buffer_append(&source, BL_TEXT("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"));
    for (unsigned i = 1; i < 10; i++) {
        bl_buffer_printf(&source, "a%u: &a%u [", i, i);
        for (unsigned j = 0; j < 9; j++)
            bl_buffer_printf(&source, "*a%u%s", i - 1, j < 8 ? ", " : "]\n");
    }
    bl_buffer_append_byte(&source, '\0');
    clock_gettime(CLOCK_MONOTONIC, &start);
    refuse_within(source.data, NULL, BL_ELIMIT, 7, 10, "no more than 1,000,000 values");
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - start.tv_sec < 10);
    bl_buffer_done(&source);
}

static void depth_is_limited_through_aliases_too(void **state BL_UNUSED)
{
    struct bl_json_limits limits = {.depth_max = 3};
    struct bl_arena arena;
    struct bl_document document;
    bl_arena_init(&arena);
    assert_int_equal(bl_document_read(&arena, BL_TEXT("a: &x {b: [c]}"), &limits, &document, NULL),
                     0);
    assert_int_equal(
        bl_document_read(&arena, BL_TEXT("a: &x {b: [c]}\nd: *x"), &limits, &document, NULL), 0);
    bl_arena_done(&arena);
    refuse_within("a: {b: [[]]}", &limits, BL_ELIMIT, 1, 9, "fewer nested containers");
    refuse_within("a: &x {b: [c]}\nd: [*x]", &limits, BL_ELIMIT, 2, 5, "fewer nested containers");
    refuse_within("[[[[]]]]", &limits, BL_ELIMIT, 1, 4, "fewer nested containers");

    struct bl_buffer source;
    bl_buffer_init(&source, 1u << 22);
    for (unsigned i = 0; i < 100000; i++)
        bl_buffer_append(&source, BL_TEXT("- "));
    bl_buffer_append_byte(&source, '\0');
    refuse_within(source.data, NULL, BL_ELIMIT, 1, 257, "fewer nested containers");
    bl_buffer_clear(&source);
    bl_buffer_append(&source, BL_TEXT("x: "));
    for (unsigned i = 0; i < 100000; i++)
        bl_buffer_append_byte(&source, '[');
    bl_buffer_append_byte(&source, '\0');
    refuse_within(source.data, NULL, BL_ELIMIT, 1, 131, "fewer nested containers");
    bl_buffer_clear(&source);
    for (unsigned i = 0; i < 1024; i++)
        bl_buffer_append(&source, BL_TEXT("- "));
    bl_buffer_append_byte(&source, '\0');
    bl_arena_init(&arena);
    limits.depth_max = 1024;
    assert_int_equal(bl_document_read(&arena, bl_text_from(source.data), &limits, &document, NULL),
                     0);
    check_document(&document);
    bl_arena_done(&arena);
    bl_buffer_done(&source);
}

/* The options for a reader that knows the types of its keys and reports all faults at once. */
static void scalars_and_duplicates_may_be_kept(void **state BL_UNUSED)
{
    const struct bl_json_limits limits = {
        .keep_scalars = true, .keep_duplicates = true, .aliases_max = 2};
    struct bl_arena arena;
    struct bl_document document;

    bl_arena_init(&arena);
    assert_int_equal(bl_document_read(&arena,
                                      BL_TEXT("a: 1.10\nb: [off, .inf, 1e999, ~, '', null]\n"
                                              "1: x\nc: !!int 3\na: again\n"),
                                      &limits, &document, NULL),
                     0);
    check_document(&document);
    const struct bl_json *first = bl_json_first(document.root, BL_JSON_OBJECT);
    assert_string_equal(first[1].string, "1.10");
    const struct bl_json *list = bl_json_get(document.root, BL_TEXT("b"));
    assert_string_equal(bl_json_at(list, 0)->string, "off");
    assert_string_equal(bl_json_at(list, 1)->string, ".inf");
    assert_string_equal(bl_json_at(list, 2)->string, "1e999");
    assert_true(bl_json_is(bl_json_at(list, 3), BL_JSON_NULL));
    assert_string_equal(bl_json_at(list, 4)->string, "");
    assert_true(bl_json_is(bl_json_at(list, 5), BL_JSON_NULL));
    assert_string_equal(bl_json_get(document.root, BL_TEXT("1"))->string, "x");
    assert_true(bl_json_is(bl_json_get(document.root, BL_TEXT("c")), BL_JSON_INTEGER));
    assert_string_equal(bl_json_get(document.root, BL_TEXT("a"))->string, "again");
    assert_int_equal(bl_json_size(document.root), 5);
    assert_int_equal(
        bl_document_read(&arena, BL_TEXT("a: &x 1\nb: [*x, *x]"), &limits, &document, NULL), 0);
    bl_arena_done(&arena);
    refuse_within("a: &x 1\nb: [*x, *x,\n *x]", &limits, BL_ELIMIT, 3, 2, "fewer aliases");
}

SUITE(document_yaml, cmocka_unit_test(blocks_and_flows_make_the_same_trees),
      cmocka_unit_test(aliases_copy_their_anchors),
      cmocka_unit_test(malformed_yaml_is_reported_with_place_and_expectation),
      cmocka_unit_test(aliases_cannot_multiply_without_bound),
      cmocka_unit_test(depth_is_limited_through_aliases_too),
      cmocka_unit_test(scalars_and_duplicates_may_be_kept));
