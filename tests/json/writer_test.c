#include "suite.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/record.h>

static void assert_written(const struct bl_buffer *buffer, const char *text)
{
    struct bl_text written = bl_buffer_text(buffer);
    suite_fail_if(!bl_text_equal(written, bl_text_from(text)), BL_TEXT_FORMAT ", not %s",
                  BL_TEXT_ARG(written), text);
}

static void writes_every_type(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    struct bl_json_writer writer;

    bl_buffer_init(&buffer, 4096);
    bl_json_writer_init(&writer, &buffer);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("a"));
    bl_json_write_array(&writer);
    bl_json_write_null(&writer);
    bl_json_write_boolean(&writer, true);
    bl_json_write_boolean(&writer, false);
    bl_json_write_int64(&writer, INT64_MIN);
    bl_json_write_int64(&writer, 0);
    bl_json_write_uint64(&writer, UINT64_MAX);
    bl_json_write_double(&writer, 0.5);
    bl_json_write_text(&writer, BL_TEXT("x"));
    bl_json_write_string(&writer, NULL);
    bl_json_write_value(&writer, NULL);
    bl_json_write_raw(&writer, BL_TEXT("{\"raw\" : 1}"));
    bl_json_write_end(&writer);
    bl_json_write_key(&writer, BL_TEXT(""));
    bl_json_write_object(&writer);
    bl_json_write_end(&writer);
    bl_json_write_key(&writer, BL_TEXT("b"));
    bl_json_write_array(&writer);
    bl_json_write_end(&writer);
    bl_json_write_end(&writer);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    assert_written(&buffer, "{\"a\":[null,true,false,-9223372036854775808,0,18446744073709551615,"
                            "0.5,\"x\",null,null,{\"raw\" : 1}],\"\":{},\"b\":[]}");
    bl_buffer_done(&buffer);
}

static void integers_of_every_length_are_written(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    uint64_t value = 1;

    bl_buffer_init(&buffer, 64);
    for (int digits = 1; digits <= 20; digits++, value *= 10) {
        for (int offset = -1; offset <= 1; offset++) {
            struct bl_json_writer writer;
            char expected[32];
            uint64_t number = value + (uint64_t)offset;
            bl_buffer_clear(&buffer);
            bl_json_writer_init(&writer, &buffer);
            bl_json_write_uint64(&writer, number);
            snprintf(expected, sizeof expected, "%llu", (unsigned long long)number);
            assert_written(&buffer, expected);
            bl_buffer_clear(&buffer);
            bl_json_writer_init(&writer, &buffer);
            bl_json_write_int64(&writer, (int64_t)-number);
            snprintf(expected, sizeof expected, "%lld", (long long)-number);
            assert_written(&buffer, expected);
        }
    }
    bl_buffer_done(&buffer);
}

static void a_double_stays_a_double(void **state BL_UNUSED)
{
    static const struct {
        double value;
        const char *text;
    } samples[] = {{1, "1.0"},
                   {-0.0, "-0.0"},
                   {0, "0.0"},
                   {1e21, "1e+21"},
                   {2.5, "2.5"},
                   {1e20, "100000000000000000000.0"},
                   {-3e-9, "-3e-9"},
                   {9223372036854775808.0, "9223372036854776000.0"},
                   {1e15, "1000000000000000.0"}};
    struct bl_buffer buffer;

    bl_buffer_init(&buffer, 64);
    for (size_t i = 0; i < BL_COUNT(samples); i++) {
        struct bl_json_writer writer;
        bl_buffer_clear(&buffer);
        bl_json_writer_init(&writer, &buffer);
        bl_json_write_double(&writer, samples[i].value);
        assert_int_equal(bl_json_writer_done(&writer), 0);
        assert_written(&buffer, samples[i].text);
    }
    bl_buffer_done(&buffer);
}

static void write_text(struct bl_buffer *buffer, struct bl_text text)
{
    struct bl_json_writer writer;

    bl_buffer_clear(buffer);
    bl_json_writer_init(&writer, buffer);
    bl_json_write_text(&writer, text);
    assert_int_equal(bl_json_writer_done(&writer), 0);
}

static void escapes_only_where_necessary(void **state BL_UNUSED)
{
    struct bl_buffer buffer;

    bl_buffer_init(&buffer, 4096);
    write_text(&buffer, BL_TEXT("\"\\/\b\t\n\f\r\x01\x1f\x7f\u00e9\u2028\U0001f600"));
    assert_written(&buffer, "\"\\\"\\\\/\\b\\t\\n\\f\\r\\u0001\\u001f\x7f\u00e9\u2028\U0001f600\"");
    write_text(&buffer, BL_TEXT("a\0b"));
    assert_written(&buffer, "\"a\\u0000b\"");
    write_text(&buffer, (struct bl_text){NULL, 0});
    assert_written(&buffer, "\"\"");
    for (size_t size = 0; size < 40; size++) {
        char text[48], expected[64];
        memset(text, 'x', sizeof text);
        memset(expected, 'x', sizeof expected);
        text[size] = '\n';
        write_text(&buffer, (struct bl_text){text, size + 5});
        expected[0] = '"';
        memcpy(expected + size + 1, "\\nxxxx\"", 8);
        assert_written(&buffer, expected);
    }
    bl_buffer_done(&buffer);
}

static void replaces_each_invalid_part_of_a_text(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        const char *written;
    } samples[] = {
        {"a\x80z", "\"a\ufffdz\""},
        {"\xc0\xaf", "\"\ufffd\ufffd\""},
        {"\xe2\x82", "\"\ufffd\""},
        {"\xe2\x82x", "\"\ufffdx\""},
        {"\xf0\x9f\x98", "\"\ufffd\""},
        {"\xf0\x9f\x98\xf0\x9f\x98\x80", "\"\ufffd\U0001f600\""},
        {"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
        {"\xf4\x90\x80\x80", "\"\ufffd\ufffd\ufffd\ufffd\""},
        {"\xff\xfe", "\"\ufffd\ufffd\""},
        {"\xe0\x80\x80", "\"\ufffd\ufffd\ufffd\""},
        {"long enough for words \xc3", "\"long enough for words \ufffd\""},
    };
    struct bl_buffer buffer;

    bl_buffer_init(&buffer, 4096);
    for (size_t i = 0; i < BL_COUNT(samples); i++) {
        write_text(&buffer, bl_text_from(samples[i].text));
        assert_written(&buffer, samples[i].written);
    }
    bl_buffer_done(&buffer);
}

static void a_tree_is_written_as_it_was_read(void **state BL_UNUSED)
{
    static const char *const texts[] = {
        "{\"a\":[1,-2,2.5,1e+30,true,false,null,\"\",\"x\",\"\\n\\u0001\\\"\"],\"b\":{},\"c\":[],"
        "\"d\":{\"e\":{\"f\":[[],[[]]]}},\"a\":18446744073709551615}",
        "[]",
        "{}",
        "\"x\"",
        "-0.0",
        "[\"a string that is longer than thirty-two bytes, so that it is copied\",\"and 16 bytes "
        "..\",\"\u65e5\u672c\\n\"]",
        "[[],{},[{}],{\"\":[]}]"};
    struct bl_arena arena;
    struct bl_buffer buffer;

    bl_arena_init(&arena);
    bl_buffer_init(&buffer, 4096);
    for (size_t i = 0; i < BL_COUNT(texts); i++) {
        const struct bl_json *value;
        struct bl_json_writer writer;
        assert_int_equal(bl_json_read(&arena, bl_text_from(texts[i]), NULL, &value, NULL), 0);
        bl_buffer_clear(&buffer);
        bl_json_writer_init(&writer, &buffer);
        bl_json_write_value(&writer, value);
        assert_int_equal(bl_json_writer_done(&writer), 0);
        assert_written(&buffer, texts[i]);
    }
    bl_buffer_done(&buffer);
    bl_arena_done(&arena);
}

static void plain_strings_of_every_length_are_copied_whole(void **state BL_UNUSED)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";
    struct bl_arena arena;
    struct bl_buffer buffer;

    bl_arena_init(&arena);
    bl_buffer_init(&buffer, 4096);
    for (int size = 0; size < (int)sizeof(letters); size++) {
        const struct bl_json *value;
        struct bl_json_writer writer;
        char text[256];
        snprintf(text, sizeof text, "{\"%.*s\":[\"%.*s\",\"\"]}", size, letters, size, letters);
        assert_int_equal(bl_json_read(&arena, bl_text_from(text), NULL, &value, NULL), 0);
        bl_buffer_done(&buffer);
        bl_json_writer_init(&writer, &buffer);
        bl_json_write_value(&writer, value);
        assert_int_equal(bl_json_writer_done(&writer), 0);
        assert_written(&buffer, text);
    }
    bl_buffer_done(&buffer);
    bl_arena_done(&arena);
}

static void subtrees_can_be_written_into_an_open_value(void **state BL_UNUSED)
{
    struct bl_arena arena;
    struct bl_buffer buffer;
    struct bl_json_writer writer;
    const struct bl_json *value;

    bl_arena_init(&arena);
    bl_buffer_init(&buffer, 4096);
    assert_int_equal(bl_json_read(&arena, BL_TEXT("{\"k\":[1,{\"x\":2}]}"), NULL, &value, NULL), 0);
    bl_json_writer_init(&writer, &buffer);
    bl_json_write_array(&writer);
    bl_json_write_value(&writer, value);
    bl_json_write_value(&writer, bl_json_get(value, BL_TEXT("k")));
    BL_JSON_MEMBERS (key, value)
        bl_json_write_value(&writer, key);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("in"));
    bl_json_write_value(&writer, value);
    bl_json_write_key(&writer, BL_TEXT("none"));
    bl_json_write_value(&writer, NULL);
    bl_json_write_end(&writer);
    bl_json_write_end(&writer);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    assert_written(&buffer, "[{\"k\":[1,{\"x\":2}]},[1,{\"x\":2}],\"k\","
                            "{\"in\":{\"k\":[1,{\"x\":2}]},\"none\":null}]");
    bl_buffer_done(&buffer);
    bl_arena_done(&arena);
}

static void indents_on_request(void **state BL_UNUSED)
{
    struct bl_arena arena;
    struct bl_buffer buffer;
    struct bl_json_writer writer;
    const struct bl_json *value;

    bl_arena_init(&arena);
    bl_buffer_init(&buffer, 4096);
    assert_int_equal(bl_json_read(&arena,
                                  BL_TEXT("{\"a\":[1,\"\\n\",{}],\"b\":[],\"c\":{\"d\":2.5}}"),
                                  NULL, &value, NULL),
                     0);
    bl_json_writer_init(&writer, &buffer);
    bl_json_writer_indent(&writer, 2);
    bl_json_write_value(&writer, value);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    assert_written(&buffer, "{\n  \"a\": [\n    1,\n    \"\\n\",\n    {}\n  ],\n  \"b\": [],\n"
                            "  \"c\": {\n    \"d\": 2.5\n  }\n}");
    bl_buffer_done(&buffer);
    bl_arena_done(&arena);
}

/* Writes `value` with every maximum from 0 to more than it needs. */
static void fill_buffers(const struct bl_json *value, uint32_t indent, const char *text)
{
    for (size_t maximum = 0; maximum < strlen(text) + 100; maximum++) {
        struct bl_buffer buffer;
        struct bl_json_writer writer;
        bl_buffer_init(&buffer, maximum);
        bl_json_writer_init(&writer, &buffer);
        bl_json_writer_indent(&writer, indent);
        bl_json_write_value(&writer, value);
        if (maximum < strlen(text)) {
            assert_int_equal(bl_json_writer_done(&writer), BL_ELIMIT);
        } else {
            assert_int_equal(bl_json_writer_done(&writer), 0);
            assert_written(&buffer, text);
        }
        assert_true(buffer.size <= maximum);
        bl_buffer_done(&buffer);
    }
}

static void fills_a_buffer_to_its_maximum_and_not_beyond(void **state BL_UNUSED)
{
    static const char compact[] = "{\"key\":[1,-2.5,true,null,18446744073709551615,\"plain\"],"
                                  "\"x\":{},\"escapes\":\"\\n\\u0001\u00e9\\n\\n\\n\\n\\n\\n\"}";
    static const char indented[] =
        "{\n  \"key\": [\n    1,\n    -2.5,\n    true,\n    null,\n    18446744073709551615,\n"
        "    \"plain\"\n  ],\n  \"x\": {},\n"
        "  \"escapes\": \"\\n\\u0001\u00e9\\n\\n\\n\\n\\n\\n\"\n}";
    struct bl_arena arena;
    const struct bl_json *value;

    bl_arena_init(&arena);
    assert_int_equal(bl_json_read(&arena, bl_text_from(compact), NULL, &value, NULL), 0);
    fill_buffers(value, 0, compact);
    fill_buffers(value, 2, indented);
    bl_arena_done(&arena);
}

static void the_first_write_error_is_kept(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    struct bl_json_writer writer;

    bl_buffer_init(&buffer, 4);
    bl_json_writer_init(&writer, &buffer);
    bl_json_write_array(&writer);
    bl_json_write_string(&writer, "too long");
    bl_json_write_int64(&writer, 1);
    bl_json_write_end(&writer);
    assert_int_equal(bl_json_writer_done(&writer), BL_ELIMIT);
    bl_buffer_done(&buffer);
}

static void numbers_that_are_not_finite_are_errors(void **state BL_UNUSED)
{
    const double values[] = {NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < BL_COUNT(values); i++) {
        struct bl_buffer buffer;
        struct bl_json_writer writer;
        bl_buffer_init(&buffer, 64);
        bl_json_writer_init(&writer, &buffer);
        bl_json_write_double(&writer, values[i]);
        assert_int_equal(bl_json_writer_done(&writer), BL_EINVAL);
        bl_buffer_done(&buffer);
    }
}

static void more_than_1024_levels_are_an_error(void **state BL_UNUSED)
{
    struct bl_arena arena;
    struct bl_buffer buffer;
    struct bl_json_writer writer;
    const struct bl_json *value;

    bl_arena_init(&arena);
    bl_buffer_init(&buffer, 4096);
    bl_json_writer_init(&writer, &buffer);
    for (int i = 0; i < 1023; i++)
        bl_json_write_array(&writer);
    assert_int_equal(bl_json_read(&arena, BL_TEXT("[[]]"), NULL, &value, NULL), 0);
    bl_json_write_value(&writer, bl_json_at(value, 0));
    assert_int_equal(writer.error, 0);
    bl_json_write_value(&writer, value);
    assert_int_equal(writer.error, BL_EINVAL);
    bl_json_writer_init(&writer, &buffer);
    bl_buffer_clear(&buffer);
    for (int i = 0; i < 1025; i++) {
        bl_json_write_object(&writer);
        bl_json_write_key(&writer, BL_TEXT(""));
    }
    assert_int_equal(bl_json_writer_done(&writer), BL_EINVAL);
    bl_buffer_done(&buffer);
    bl_arena_done(&arena);
}

static void an_open_or_empty_value_is_not_done(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    struct bl_json_writer writer;

    bl_buffer_init(&buffer, 64);
    bl_json_writer_init(&writer, &buffer);
    assert_int_equal(bl_json_writer_done(&writer), BL_EINVAL);
    bl_json_writer_init(&writer, &buffer);
    bl_json_write_array(&writer);
    assert_int_equal(bl_json_writer_done(&writer), BL_EINVAL);
    bl_buffer_done(&buffer);
}

static void value_without_key(struct bl_json_writer *writer)
{
    bl_json_write_object(writer);
    bl_json_write_null(writer);
}

static void tree_without_key(struct bl_json_writer *writer)
{
    static const struct bl_json null = {.type = BL_JSON_NULL};

    bl_json_write_object(writer);
    bl_json_write_value(writer, &null);
}

static void key_in_array(struct bl_json_writer *writer)
{
    bl_json_write_array(writer);
    bl_json_write_key(writer, BL_TEXT("k"));
}

static void key_after_key(struct bl_json_writer *writer)
{
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("k"));
    bl_json_write_key(writer, BL_TEXT("k"));
}

static void key_at_the_top(struct bl_json_writer *writer)
{
    bl_json_write_key(writer, BL_TEXT("k"));
}

static void end_after_key(struct bl_json_writer *writer)
{
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("k"));
    bl_json_write_end(writer);
}

static void end_of_nothing(struct bl_json_writer *writer)
{
    bl_json_write_end(writer);
}

static void two_values(struct bl_json_writer *writer)
{
    bl_json_write_null(writer);
    bl_json_write_null(writer);
}

static void calls_out_of_order_assert(void **state BL_UNUSED)
{
    static void (*const wrong[])(struct bl_json_writer *) = {
        value_without_key, tree_without_key, key_in_array,   key_after_key,
        key_at_the_top,    end_after_key,    end_of_nothing, two_values};

    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct bl_buffer buffer;
            struct bl_json_writer writer;
            /* No report and no core dump, because the abort is expected. */
            setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
            close(STDERR_FILENO);
            signal(SIGABRT, SIG_DFL);
            bl_buffer_init(&buffer, 64);
            bl_json_writer_init(&writer, &buffer);
            wrong[i](&writer);
            _exit(bl_json_writer_done(&writer) == BL_EINVAL ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
#ifdef NDEBUG
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
#else
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
    }
}

static void unknown_parts_of_an_error_are_written_as_null(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    struct bl_json_writer writer;
    struct bl_error error = {0};

    bl_buffer_init(&buffer, 4096);
    bl_error_set(&error, BL_EPARSE, BL_KIND_PARSE, "read", "f.yaml", "no %s", "key");
    bl_error_hint(&error, "add one");
    bl_error_name_set(&error, "no_key");
    error.retryable = true;
    bl_json_writer_init(&writer, &buffer);
    bl_record_write(&writer, &bl_error_record, &error);
    assert_written(&buffer, "{\"kind\":\"parse\",\"operation\":\"read\",\"target\":\"f.yaml\","
                            "\"retryable\":true,\"message\":\"no key\",\"hint\":\"add one\","
                            "\"code\":\"no_key\"}");
    bl_buffer_clear(&buffer);
    error = (struct bl_error){0};
    bl_error_set(&error, BL_EPARSE, BL_KIND_PARSE, "read", NULL, "x");
    bl_json_writer_init(&writer, &buffer);
    bl_record_write(&writer, &bl_error_record, &error);
    assert_written(&buffer, "{\"kind\":\"parse\",\"operation\":\"read\",\"target\":null,"
                            "\"retryable\":false,\"message\":\"x\",\"hint\":null}");
    bl_buffer_done(&buffer);
}

SUITE(writer, cmocka_unit_test(unknown_parts_of_an_error_are_written_as_null),
      cmocka_unit_test(writes_every_type), cmocka_unit_test(integers_of_every_length_are_written),
      cmocka_unit_test(a_double_stays_a_double), cmocka_unit_test(escapes_only_where_necessary),
      cmocka_unit_test(replaces_each_invalid_part_of_a_text),
      cmocka_unit_test(a_tree_is_written_as_it_was_read),
      cmocka_unit_test(plain_strings_of_every_length_are_copied_whole),
      cmocka_unit_test(subtrees_can_be_written_into_an_open_value),
      cmocka_unit_test(indents_on_request),
      cmocka_unit_test(fills_a_buffer_to_its_maximum_and_not_beyond),
      cmocka_unit_test(the_first_write_error_is_kept),
      cmocka_unit_test(numbers_that_are_not_finite_are_errors),
      cmocka_unit_test(more_than_1024_levels_are_an_error),
      cmocka_unit_test(an_open_or_empty_value_is_not_done),
      cmocka_unit_test(calls_out_of_order_assert));
