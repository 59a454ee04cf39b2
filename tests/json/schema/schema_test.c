#include "schemas.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void expect_refused(const char *source, const char *target, const char *message)
{
    struct bl_arena arena;
    struct bl_json_schema *schema = NULL;
    struct bl_error error = {0};
    bl_arena_init(&arena);
    int result = bl_json_schema_new(read_json(&arena, source), &schema, &error);
    if (result != BL_EINVAL || strcmp(error.target, target) != 0 ||
        strstr(error.message, message) == NULL)
        fail_msg("%s: %s at \"%s\": %s", source, bl_error_name(result), error.target,
                 error.message);
    assert_null(schema);
    bl_arena_done(&arena);
}

struct tally {
    unsigned run;
    unsigned wrong;
    unsigned skipped;
    struct bl_buffer skips;
};

static void run_group(struct tally *tally, struct bl_arena *arena, const char *file,
                      const struct bl_json *group)
{
    const struct bl_json *tests = bl_json_get(group, BL_TEXT("tests"));
    struct bl_text name = bl_json_text(bl_json_get(group, BL_TEXT("description")));
    struct bl_json_schema *schema = NULL;
    struct bl_error error = {0};
    int result = bl_json_schema_new(bl_json_get(group, BL_TEXT("schema")), &schema, &error);
    bool remote = result == BL_EINVAL && strstr(error.message, "another document") != NULL;
    if (result < 0 && !remote) {
        print_error("%s: %.*s: %s\n", file, BL_TEXT_ARG(name), error.message);
        tally->wrong++;
        return;
    }
    struct bl_text ignored = remote ? BL_TEXT("$ref") : bl_json_schema_ignored(schema, 0);
    BL_JSON_EACH (test, tests) {
        struct bl_text title = bl_json_text(bl_json_get(test, BL_TEXT("description")));
        if (ignored.size > 0) {
            tally->skipped++;
            bl_buffer_printf(&tally->skips, "  %s: %.*s: %.*s (%.*s)\n", file, BL_TEXT_ARG(name),
                             BL_TEXT_ARG(title), BL_TEXT_ARG(ignored));
            continue;
        }
        struct bl_list problems;
        bool valid = bl_json_boolean(bl_json_get(test, BL_TEXT("valid")), false);
        result = bl_json_schema_check(schema, bl_json_get(test, BL_TEXT("data")), arena, &problems);
        tally->run++;
        if (result == (valid ? 0 : BL_EINVAL) && bl_list_empty(&problems) == valid)
            continue;
        tally->wrong++;
        print_error("%s: %.*s: %.*s: %s\n", file, BL_TEXT_ARG(name), BL_TEXT_ARG(title),
                    bl_error_name(result));
    }
    bl_json_schema_free(schema);
}

static void run_suite_file(struct tally *tally, const char *folder, const char *file)
{
    char path[4608];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    struct bl_text text = suite_read_file(path);
    struct bl_arena arena;
    const struct bl_json *groups;
    bl_arena_init(&arena);
    assert_int_equal(bl_json_read(&arena, text, NULL, &groups, NULL), 0);
    BL_JSON_EACH (group, groups)
        run_group(tally, &arena, file, group);
    bl_arena_done(&arena);
    bl_free((void *)text.data);
}

static void agrees_with_the_json_schema_test_suite(void **state)
{
    (void)state;
    const char *shared = suite_shared("suites/json-schema");
    struct dirent **files;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", shared);
    struct tally tally = {0};
    bl_buffer_init(&tally.skips, 1 << 20);
    int count = scandir(folder, &files, NULL, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        if (bl_text_ends_with(bl_text_from(files[i]->d_name), BL_TEXT(".json")))
            run_suite_file(&tally, folder, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    print_message("%u cases run, %u skipped:\n%.*s", tally.run, tally.skipped,
                  (int)tally.skips.size, tally.skips.size > 0 ? tally.skips.data : "");
    bl_buffer_done(&tally.skips);
    assert_int_equal(tally.wrong, 0);
    assert_true(tally.run > 300);
}

static void problems_give_what_was_expected_and_found(void **state)
{
    (void)state;
    expect_problems("{\"type\":\"string\"}", "12", "|/type|must be a string, is 12\n");
    expect_problems("{\"type\":[\"string\",\"null\"]}", "[1,2]",
                    "|/type|must be null or a string, is an array of 2\n");
    expect_problems("{\"enum\":[\"a\",\"b\",1]}", "\"c\"",
                    "|/enum|must be one of \"a\", \"b\", 1; is \"c\"\n");
    expect_problems("{\"const\":\"a\\\"\"}", "null", "|/const|must be \"a\\\"\"; is null\n");
    expect_problems("{\"required\":[\"path\",\"mode\"]}", "{\"mode\":1}",
                    "|/required|missing required property \"path\"\n");
    expect_problems("{\"minimum\":3}", "2.5", "|/minimum|must be at least 3, is 2.5\n");
    expect_problems("{\"exclusiveMaximum\":3}", "3",
                    "|/exclusiveMaximum|must be less than 3, is 3\n");
    expect_problems("{\"multipleOf\":0.01}", "0.015",
                    "|/multipleOf|must be a multiple of 0.01, is 0.015\n");
    expect_problems("{\"minLength\":2}", "\"é\"",
                    "|/minLength|must have at least 2 characters, has 1\n");
    expect_problems("{\"maxItems\":1}", "[1,2]", "|/maxItems|must have at most 1 item, has 2\n");
    expect_problems("{\"minProperties\":1}", "{}",
                    "|/minProperties|must have at least 1 property, has 0\n");
    expect_problems("{\"pattern\":\"^a\"}", "\"b\"",
                    "|/pattern|must match the pattern \"^a\", is \"b\"\n");
    expect_problems("{\"uniqueItems\":true}", "[1,2,1.0]",
                    "|/uniqueItems|must have unique items, but items 0 and 2 are equal\n");
    expect_problems("{\"not\":{\"type\":\"string\"}}", "\"x\"",
                    "|/not|must not match the schema under \"not\", is \"x\"\n");
    expect_problems("false", "1", "||is not allowed here\n");
    expect_problems("{\"propertyNames\":{\"maxLength\":2}}", "{\"ab\":1,\"abc\":2}",
                    "/abc|/propertyNames/maxLength|invalid property name \"abc\": must "
                    "have at most 2 characters, has 3\n");
}

static void long_strings_are_truncated_at_a_character(void **state)
{
    (void)state;
    expect_problems("{\"type\":\"null\"}", "\"éééééééééééééééééééééééééééééééééééééééééééééé\"",
                    "|/type|must be null, is \"éééééééééééééééééééééééééééééé\"…\n");
}

static void paths_are_escaped_pointers_in_document_order(void **state)
{
    (void)state;
    expect_problems(
        "{\"required\":[\"z\"],\"additionalProperties\":{\"items\":{\"type\":\"null\"}},"
        "\"allOf\":[{\"properties\":{\"b\":{\"maxItems\":0}}}]}",
        "{\"a/b~c\":[null,1],\"b\":[2]}",
        "|/required|missing required property \"z\"\n"
        "/a~1b~0c/1|/additionalProperties/items/type|must be null, is 1\n"
        "/b|/allOf/0/properties/b/maxItems|must have at most 0 items, has 1\n"
        "/b/0|/additionalProperties/items/type|must be null, is 2\n");
    expect_problems("{\"properties\":{\"x/y\":{\"$ref\":\"#/$defs/a~1b\"}},"
                    "\"$defs\":{\"a/b\":{\"type\":\"null\"}}}",
                    "{\"x/y\":1}", "/x~1y|/$defs/a~1b/type|must be null, is 1\n");
    expect_problems("{\"prefixItems\":[{},{\"type\":\"null\"}],\"items\":false}", "[1,2,3]",
                    "/1|/prefixItems/1/type|must be null, is 2\n"
                    "/2|/items|is not allowed here\n");
}

static void alternatives_report_the_closest_branch(void **state)
{
    (void)state;
    const char *schema = "{\"%s\":[{\"type\":\"string\"},"
                         "{\"properties\":{\"kind\":{\"const\":\"a\"},\"x\":{\"type\":\"null\"}}},"
                         "{\"properties\":{\"kind\":{\"const\":\"b\"},\"y\":{\"type\":\"null\"}},"
                         "\"required\":[\"y\"]}]}";
    static const char *const keywords[] = {"anyOf", "oneOf"};
    for (size_t i = 0; i < BL_COUNT(keywords); i++) {
        char text[512], expected[256];
        const char *at = strstr(schema, "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - schema), schema, keywords[i], at + 2);
        snprintf(expected, sizeof expected,
                 "|/%s|matches none of 3 alternatives; the closest is number 3\n"
                 "|/%s/2/required|missing required property \"y\"\n",
                 keywords[i], keywords[i]);
        expect_problems(text, "{\"kind\":\"b\"}", expected);
    }
    expect_problems("{\"oneOf\":[{\"type\":\"null\"},{\"minimum\":1},{\"type\":\"integer\"}]}", "3",
                    "|/oneOf|matches alternatives 2 and 3, must match exactly one\n");
    expect_problems("{\"anyOf\":[{\"type\":\"null\"},{\"anyOf\":[{\"minimum\":5}]}]}", "3",
                    "|/anyOf|matches none of 2 alternatives; the closest is number 2\n"
                    "|/anyOf/1/anyOf|does not match the only alternative\n"
                    "|/anyOf/1/anyOf/0/minimum|must be at least 5, is 3\n");
}

static void numbers_are_compared_exactly(void **state)
{
    (void)state;
    expect_fits("{\"maximum\":9007199254740992}", "9007199254740993", false);
    expect_fits("{\"maximum\":9007199254740992.0}", "9007199254740993", false);
    expect_fits("{\"maximum\":9223372036854775807}", "9223372036854775808", false);
    expect_fits("{\"minimum\":9223372036854775808}", "9223372036854775807", false);
    expect_fits("{\"maximum\":18446744073709551615}", "18446744073709551615", true);
    expect_fits("{\"exclusiveMinimum\":18446744073709551615}", "18446744073709551616", true);
    expect_fits("{\"minimum\":-9223372036854775808}", "-9223372036854775808", true);
    expect_fits("{\"minimum\":0.5}", "0", false);
    expect_fits("{\"minimum\":-0.5}", "0", true);
    expect_fits("{\"minimum\":-0.5}", "-1", false);
    expect_fits("{\"maximum\":1e300}", "18446744073709551615", true);
    expect_fits("{\"type\":\"integer\"}", "1.0", true);
    expect_fits("{\"type\":\"integer\"}", "1e300", true);
    expect_fits("{\"type\":\"integer\"}", "1.5", false);
    expect_fits("{\"enum\":[9007199254740993]}", "9007199254740992", false);
}

static void multiples_are_exact_in_decimal(void **state)
{
    (void)state;
    expect_fits("{\"multipleOf\":0.0001}", "0.0075", true);
    expect_fits("{\"multipleOf\":0.0001}", "0.00751", false);
    expect_fits("{\"multipleOf\":0.01}", "4.35", true);
    expect_fits("{\"multipleOf\":0.1}", "0.3", true);
    expect_fits("{\"multipleOf\":0.123456789}", "1e308", false);
    expect_fits("{\"multipleOf\":1e-8}", "12391239123", true);
    expect_fits("{\"multipleOf\":3}", "9007199254740993", true);
    expect_fits("{\"multipleOf\":2}", "9007199254740993", false);
    expect_fits("{\"multipleOf\":5}", "18446744073709551615", true);
    expect_fits("{\"multipleOf\":7}", "-14", true);
    expect_fits("{\"multipleOf\":7}", "-9223372036854775808", false);
    expect_fits("{\"multipleOf\":2}", "-9223372036854775808", true);
    expect_fits("{\"multipleOf\":1e300}", "1", false);
    expect_fits("{\"multipleOf\":1e300}", "0", true);
    expect_fits("{\"multipleOf\":5e-324}", "1e308", true);
    expect_fits("{\"multipleOf\":1e308}", "5e-324", false);
    expect_fits("{\"multipleOf\":100}", "1e21", true);
    expect_fits("{\"multipleOf\":1.5}", "1e20", false);
}

static void lengths_count_code_points(void **state)
{
    (void)state;
    expect_fits("{\"maxLength\":2}", "\"😀é\"", true);
    expect_fits("{\"minLength\":3}", "\"😀é\"", false);
    expect_fits("{\"maxLength\":2.0}", "\"abc\"", false);
    /* Of two contradictory limits, the violated one is named. */
    expect_problems("{\"minLength\":3,\"maxLength\":2}", "\"abc\"",
                    "|/maxLength|must have at most 2 characters, has 3\n");
    expect_problems("{\"minLength\":3,\"maxLength\":2}", "\"ab\"",
                    "|/minLength|must have at least 3 characters, has 2\n");
}

static void references_are_followed_within_the_document(void **state)
{
    (void)state;
    expect_fits("{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
                "{\"next\":{\"next\":{}}}", true);
    expect_fits("{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
                "{\"next\":{\"nxt\":{}}}", false);
    expect_fits("{\"$defs\":{\"a%\\\"b\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a%25%22b\"}", "1",
                false);
    /* A percent sign that begins no escape is literal. */
    expect_fits("{\"$defs\":{\"a%zzb\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a%zzb\"}", "1",
                false);
    expect_fits("{\"$defs\":{\"a%zfb\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a%zfb\"}", "1",
                false);
    expect_fits("{\"$defs\":{\"09O\\n\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/%30%39%4f%0A\"}",
                "1", false);
    expect_fits("{\"$defs\":{\"a%2gb\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a%2gb\"}", "1",
                false);
    expect_fits("{\"$defs\":{\"a%2\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a%2\"}", "1", false);
    expect_fits("{\"$defs\":{\"aJj\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a%4A%6a\"}", "1",
                false);
    expect_fits("{\"$defs\":{\"x\":{\"$anchor\":\"here\",\"type\":\"null\"}},\"$ref\":\"#here\"}",
                "1", false);
    expect_fits("{\"$defs\":{\"a\":{\"type\":\"null\"}},\"$ref\":\"#%2F$defs/%61\"}", "1", false);
    expect_fits("{\"definitions\":{\"x\":{\"$id\":\"#x\",\"type\":\"null\"}},\"$ref\":\"#x\"}", "1",
                false);
    expect_fits("{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":{\"minimum\":2}}}", "4",
                false);
    expect_fits("{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":{\"minimum\":2}}}", "1",
                false);
    expect_fits("{\"$id\":\"https://x.test/s\",\"$ref\":\"https://x.test/s#/$defs/a\","
                "\"$defs\":{\"a\":{\"type\":\"null\"}}}",
                "1", false);
    expect_fits("{\"type\":\"text\",\"type\":\"null\"}", "null", true);
    expect_fits("{\"$defs\":{\"inner\":{\"$id\":\"inner\",\"$defs\":{\"a\":{\"type\":\"null\"}},"
                "\"$ref\":\"#/$defs/a\"},\"a\":{\"type\":\"string\"}},\"$ref\":\"inner\"}",
                "null", true);
    expect_fits("{\"unknown\":{\"deep\":[{\"type\":\"null\"}]},\"$ref\":\"#/unknown/deep/0\"}", "1",
                false);
    expect_problems("{\"unknown\":{\"deep\":[{\"items\":{\"type\":\"null\"}}]},"
                    "\"$ref\":\"#/unknown/deep/0\"}",
                    "[1]", "/0|/unknown/deep/0/items/type|must be null, is 1\n");
}

static void invalid_schemas_are_refused_with_their_place(void **state)
{
    (void)state;
    expect_refused("1", "", "an object or a boolean");
    expect_refused("{\"properties\":{\"a\":[]}}", "/properties/a", "an object or a boolean");
    expect_refused("{\"properties\":{\"a/b\":{\"type\":\"text\"}}}", "/properties/a~1b/type",
                   "must be null, boolean");
    expect_refused("{\"type\":[]}", "/type", "at least one");
    expect_refused("{\"items\":[{}]}", "/items", "prefixItems");
    expect_refused("{\"allOf\":[]}", "/allOf", "non-empty");
    expect_refused("{\"allOf\":[true,{\"minLength\":-1}]}", "/allOf/1/minLength", "non-negative");
    expect_refused("{\"exclusiveMinimum\":true}", "/exclusiveMinimum", "a number");
    expect_refused("{\"multipleOf\":0}", "/multipleOf", "positive");
    expect_refused("{\"required\":\"a\"}", "/required", "property names");
    expect_refused("{\"enum\":1}", "/enum", "an array");
    expect_refused("{\"uniqueItems\":1}", "/uniqueItems", "true or false");
    expect_refused("{\"pattern\":\"a(\"}", "/pattern", "offset 1: expected ')'");
    expect_refused("{\"patternProperties\":{\"(?=a)\":{}}}", "/patternProperties", "look-ahead");
    expect_refused("{\"$ref\":\"https://x.test/y\"}", "/$ref", "another document");
    expect_refused("{\"items\":{\"$ref\":\"#/$defs/none\"}}", "/items/$ref", "does not exist");
    expect_refused("{\"$ref\":\"#none\"}", "/$ref", "does not exist");
    expect_refused("{\"$ref\":\"#/type\",\"type\":\"null\"}", "/type", "an object or a boolean");
    expect_refused("{\"$ref\":\"#\"}", "", "refers to itself");
    expect_refused("{\"allOf\":[{\"$ref\":\"#\"}]}", "", "refers to itself");
    expect_refused("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"not\":{\"$ref\":\"#/$defs/b\"}},"
                   "\"b\":{\"anyOf\":[true,{\"$ref\":\"#/$defs/a\"}]}}}",
                   "/$defs/a", "refers to itself");
    assert_int_equal(bl_json_schema_new(NULL, NULL, NULL), BL_EINVAL);
    bl_json_schema_free(NULL);
}

static void keywords_that_are_not_checked_are_listed_in_order(void **state)
{
    (void)state;
    struct bl_arena arena;
    bl_arena_init(&arena);
    struct bl_json_schema *schema =
        compile(&arena, "{\"properties\":{\"a/b\":{\"items\":{\"contains\":{}},\"if\":true,"
                        "\"title\":\"x\",\"format\":\"date\"}},\"unevaluatedProperties\":false,"
                        "\"dependentRequired\":{},\"$defs\":{\"x\":{\"$dynamicRef\":\"#y\"}}}");
    static const char *const expected[] = {"/properties/a~1b/items/contains", "/properties/a~1b/if",
                                           "/unevaluatedProperties", "/dependentRequired",
                                           "/$defs/x/$dynamicRef"};
    for (size_t i = 0; i < BL_COUNT(expected); i++)
        assert_string_equal(bl_json_schema_ignored(schema, i).data, expected[i]);
    assert_int_equal(bl_json_schema_ignored(schema, BL_COUNT(expected)).size, 0);
    bl_json_schema_free(schema);
    bl_arena_done(&arena);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void expect_bounded(const char *schema, const char *value)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    double start = seconds();
    struct bl_text found = problems_of(&arena, schema, value, BL_ELIMIT);
    assert_non_null(strstr(found.data, "||too much work to check\n"));
    assert_true(seconds() - start < (SUITE_SANITIZED ? 300 : 60));
    bl_arena_done(&arena);
}

static void bombs_end_at_the_work_limit(void **state)
{
    (void)state;
    struct bl_buffer text, value;
    bl_buffer_init(&text, 1 << 20);
    bl_buffer_init(&value, 1 << 20);
    /* Each level is applied twice by the previous one: 2^40 paths to the last. */
    static const char *const keywords[] = {"allOf", "anyOf", "oneOf"};
    for (size_t k = 0; k < BL_COUNT(keywords); k++) {
        bl_buffer_clear(&text);
        bl_buffer_printf(&text, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
        for (int i = 0; i < 40; i++)
            bl_buffer_printf(&text,
                             "\"a%d\":{\"%s\":[{\"$ref\":\"#/$defs/a%d\"},{\"$ref\":"
                             "\"#/$defs/a%d\"}]},",
                             i, keywords[k], i + 1, i + 1);
        bl_buffer_printf(&text, "\"a40\":{\"type\":\"%s\"}}}", k == 0 ? "integer" : "null");
        bl_buffer_append_byte(&text, '\0');
        expect_bounded(text.data, "1");
    }
    /* Twice for each level of the value. */
    bl_buffer_clear(&value);
    for (int i = 0; i < 100; i++)
        bl_buffer_append_byte(&value, '[');
    for (int i = 0; i < 100; i++)
        bl_buffer_append_byte(&value, ']');
    bl_buffer_append_byte(&value, '\0');
    expect_bounded("{\"allOf\":[{\"items\":{\"$ref\":\"#\"}},{\"items\":{\"$ref\":\"#\"}}]}",
                   value.data);
    /* A pattern that keeps thousands of threads alive over a long text. */
    bl_buffer_clear(&value);
    bl_buffer_append_byte(&value, '"');
    for (int i = 0; i < 200000; i++)
        bl_buffer_append_byte(&value, 'a');
    bl_buffer_append(&value, (struct bl_text){"\"", 2});
    expect_bounded("{\"pattern\":\"a{1,9000}b\"}", value.data);
    bl_buffer_done(&text);
    bl_buffer_done(&value);
}

/* Makes `depth` nested arrays, laid out like the reader's, which reads no more than 1024. */
static struct bl_json *nested_arrays(size_t depth)
{
    struct bl_json *nodes = bl_zalloc(2 * depth * sizeof *nodes);
    for (size_t i = 0; i < depth; i++) {
        nodes[i].type = BL_JSON_ARRAY;
        nodes[i].size = i + 1 < depth ? 1 : 0;
        nodes[i].span = 2 * (depth - i);
        nodes[depth + i].type = BL_JSON_END;
    }
    return nodes;
}

static void deep_values_are_checked_without_recursion(void **state)
{
    (void)state;
    struct bl_arena arena;
    struct bl_list problems;
    bl_arena_init(&arena);
    struct bl_json_schema *schema =
        compile(&arena, "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}");
    struct bl_json *value = nested_arrays(2000);
    assert_int_equal(bl_json_schema_check(schema, value, &arena, &problems), 0);
    bl_json_schema_free(schema);
    bl_free(value);

    schema = compile(&arena, "{\"minItems\":1,\"items\":{\"$ref\":\"#\"}}");
    value = nested_arrays(2000);
    assert_int_equal(bl_json_schema_check(schema, value, &arena, &problems), BL_EINVAL);
    struct bl_json_problem *problem = BL_CONTAINER(problems.next, struct bl_json_problem, link);
    assert_int_equal(problem->path.size, 2 * 1999);
    bl_free(value);
    value = nested_arrays(20000);
    assert_int_equal(bl_json_schema_check(schema, value, &arena, &problems), BL_ELIMIT);
    problem = BL_CONTAINER(problems.next, struct bl_json_problem, link);
    assert_string_equal(problem->message.data, "nested too deeply to check");
    bl_free(value);
    bl_json_schema_free(schema);
    bl_arena_done(&arena);
}

static void stops_after_the_maximum_of_problems(void **state)
{
    (void)state;
    struct bl_arena arena;
    struct bl_buffer value;
    struct bl_list problems;
    bl_arena_init(&arena);
    bl_buffer_init(&value, 1 << 20);
    bl_buffer_append_byte(&value, '[');
    for (int i = 0; i < 5000; i++)
        bl_buffer_printf(&value, "%d,", i);
    bl_buffer_append(&value, (struct bl_text){"0]", 3});
    struct bl_json_schema *schema = compile(&arena, "{\"items\":{\"type\":\"null\"}}");
    const struct bl_json *tree = read_json(&arena, value.data);
    assert_int_equal(bl_json_schema_check(schema, tree, &arena, &problems), BL_EINVAL);
    size_t count = 0;
    BL_LIST_EACH (link, &problems)
        count++;
    assert_int_equal(count, BL_JSON_PROBLEMS_MAX);
    bl_json_schema_free(schema);
    bl_buffer_done(&value);
    bl_arena_done(&arena);
}

/* Checks an array of `count` distinct items, with `last` at its end. */
static void expect_unique(unsigned count, const char *format, const char *last, bool unique)
{
    struct bl_buffer value;
    bl_buffer_init(&value, 64 << 20);
    bl_buffer_append_byte(&value, '[');
    for (unsigned i = 0; i < count; i++) {
        for (const char *at = format; *at != '\0'; at++) {
            if (*at == '#')
                bl_buffer_printf(&value, "%u", i);
            else
                bl_buffer_append_byte(&value, *at);
        }
        bl_buffer_append_byte(&value, ',');
    }
    bl_buffer_printf(&value, "%s]", last);
    bl_buffer_append_byte(&value, '\0');
    expect_fits("{\"uniqueItems\":true}", value.data, unique);
    bl_buffer_done(&value);
}

static void unique_items_of_large_arrays_do_not_take_quadratic_time(void **state)
{
    (void)state;
    double start = seconds();
    expect_unique(100000, "#", "-1", true);
    expect_unique(100000, "#", "77777.0", false);
    expect_unique(50000, "[#,\"#\"]", "[3,4]", true);
    expect_unique(50000, "{\"a\":#,\"b\":[#]}", "{\"b\":[49999],\"a\":49999.0}", false);
    expect_unique(0, "", "9223372036854775808,9223372036854775808.0", false);
    expect_unique(0, "", "0,-0.0", false);
    expect_unique(0, "", "[1,2],[2,1],{\"a\":1},{\"a\":2},1,true,\"1\",null,false,0,[],{}", true);
    assert_true(seconds() - start < (SUITE_SANITIZED ? 300 : 60));
}

static void compiled_schemas_outlive_their_source(void **state)
{
    (void)state;
    struct bl_arena source, arena;
    struct bl_list problems;
    bl_arena_init(&source);
    bl_arena_init(&arena);
    struct bl_json_schema *schema = compile(
        &source, "{\"enum\":[\"some text\",{\"a\":[1]}],\"properties\":{\"a\":{\"minimum\":1}}}");
    bl_arena_done(&source);
    const struct bl_json *value = read_json(&arena, "\"some text\"");
    assert_int_equal(bl_json_schema_check(schema, value, &arena, &problems), 0);
    value = read_json(&arena, "\"other\"");
    assert_int_equal(bl_json_schema_check(schema, value, &arena, &problems), BL_EINVAL);
    bl_json_schema_free(schema);
    bl_arena_done(&arena);
}

SUITE(schema, cmocka_unit_test(agrees_with_the_json_schema_test_suite),
      cmocka_unit_test(problems_give_what_was_expected_and_found),
      cmocka_unit_test(long_strings_are_truncated_at_a_character),
      cmocka_unit_test(paths_are_escaped_pointers_in_document_order),
      cmocka_unit_test(alternatives_report_the_closest_branch),
      cmocka_unit_test(numbers_are_compared_exactly),
      cmocka_unit_test(multiples_are_exact_in_decimal), cmocka_unit_test(lengths_count_code_points),
      cmocka_unit_test(references_are_followed_within_the_document),
      cmocka_unit_test(invalid_schemas_are_refused_with_their_place),
      cmocka_unit_test(keywords_that_are_not_checked_are_listed_in_order),
      cmocka_unit_test(bombs_end_at_the_work_limit),
      cmocka_unit_test(deep_values_are_checked_without_recursion),
      cmocka_unit_test(stops_after_the_maximum_of_problems),
      cmocka_unit_test(unique_items_of_large_arrays_do_not_take_quadratic_time),
      cmocka_unit_test(compiled_schemas_outlive_their_source));
