#include "runner.h"

#include <stdio.h>
#include <stdlib.h>

#include <belay/json.h>

#include "cli/cli.h"

struct said {
    const char *answer;
};

#define BL_RECORD_STRUCT struct said
static const struct bl_member said_members[] = {
    BL_MEMBER_STRING("answer", answer),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record said_record = BL_RECORD("said", struct said, said_members);

static void check_line(const struct bl_buffer *line, const char *rest)
{
    assert_memory_equal(line->data, "{\"timestamp\":\"20", 16);
    size_t start = strlen("{\"timestamp\":\"2026-11-15T18:50:07.123Z\",");
    assert_int_equal(line->size - start, strlen(rest));
    assert_memory_equal(line->data + start, rest, strlen(rest));
}

static void common_members_come_first_on_one_line(void **state)
{
    struct cli_call call = {.command = cli_command_find("doctor", NULL), .format = CLI_FORMAT_JSON};
    struct bl_buffer line;

    (void)state;
    bl_buffer_init(&line, 4096);
    assert_int_equal(cli_answer_write(&line, &call, 3, &said_record, &(struct said){"a\nb"}), 0);
    check_line(&line, "\"command\":\"doctor\",\"exit_code\":3,\"output_format\":\"json\","
                      "\"schema_version\":1,\"answer\":\"a\\nb\"}\n");
    bl_buffer_append_byte(&line, '\0');
    runner_check_schema("envelope", line.data);
    bl_buffer_done(&line);
}

static void in_a_stream_the_envelope_is_the_result(void **state)
{
    struct cli_call call = {.format = CLI_FORMAT_STREAM_JSON};
    struct bl_buffer line;

    (void)state;
    bl_buffer_init(&line, 4096);
    assert_int_equal(cli_answer_write(&line, &call, 0, &said_record, &(struct said){"x"}), 0);
    bl_buffer_append_byte(&line, '\0');
    assert_memory_equal(line.data, "{\"type\":\"result\",\"timestamp\":", 29);
    assert_non_null(strstr(line.data, "\"command\":\"belay\""));
    runner_check_schema("envelope", line.data);
    bl_buffer_done(&line);
}

static void an_error_has_all_its_members(void **state)
{
    struct cli_call call = {.command = cli_command_find("doctor", NULL), .format = CLI_FORMAT_JSON};
    struct bl_error error = {0};
    struct bl_buffer line;

    (void)state;
    bl_buffer_init(&line, 4096);
    bl_error_set(&error, BL_ENOENT, BL_KIND_SESSION, "open", NULL, "no such session");
    error.retryable = true;
    assert_int_equal(cli_answer_write(&line, &call, 1, &cli_failure_record, &error), 0);
    check_line(&line, "\"command\":\"doctor\",\"exit_code\":1,\"output_format\":\"json\","
                      "\"schema_version\":1,\"error\":{\"kind\":\"session\",\"operation\":\"open\","
                      "\"target\":null,\"retryable\":true,\"message\":\"no such session\","
                      "\"hint\":null}}\n");
    bl_buffer_append_byte(&line, '\0');
    runner_check_schema("envelope", line.data);
    bl_buffer_done(&line);
}

static void a_line_that_does_not_fit_is_an_error(void **state)
{
    struct cli_call call = {.format = CLI_FORMAT_JSON};
    struct bl_buffer line;

    (void)state;
    bl_buffer_init(&line, 64);
    assert_int_equal(cli_answer_write(&line, &call, 0, &said_record, &(struct said){"x"}),
                     BL_ELIMIT);
    bl_buffer_done(&line);
}

static void the_error_schema_knows_every_kind(void **state)
{
    char json[512];

    (void)state;
#define CHECK_KIND(name, text)                                                                     \
    snprintf(json, sizeof json,                                                                    \
             "{\"kind\":\"%s\",\"operation\":null,\"target\":null,\"retryable\":false,"            \
             "\"message\":\"m\",\"hint\":null}",                                                   \
             bl_error_kind_name(name));                                                            \
    runner_check_schema("error", json);
    BL_ERROR_KIND_TABLE(CHECK_KIND)
#undef CHECK_KIND
}

static const struct bl_json *read_schema(struct bl_arena *arena, const char *name,
                                         struct bl_text *ret_source)
{
    char path[4096];
    const char *root = getenv("BELAY_SOURCE_ROOT");
    const struct bl_json *value = NULL;

    snprintf(path, sizeof path, "%s/docs/schemas/%s.json", root != NULL ? root : ".", name);
    *ret_source = suite_read_file(path);
    assert_int_equal(bl_json_read(arena, *ret_source, NULL, &value, NULL), 0);
    return value;
}

/* Our schemas have no external references, so the error object is in two files. */
static void the_error_of_the_envelope_is_that_of_its_own_schema(void **state)
{
    struct bl_arena arena;
    struct bl_text sources[2];

    (void)state;
    bl_arena_init(&arena);
    const struct bl_json *alone = read_schema(&arena, "error", &sources[0]);
    const struct bl_json *inside =
        bl_json_pointer(read_schema(&arena, "envelope", &sources[1]), BL_TEXT("/$defs/error"));
    static const char *const keys[] = {"type", "required", "properties", "additionalProperties"};
    for (size_t i = 0; i < BL_COUNT(keys); i++) {
        struct bl_text key = bl_text_from(keys[i]);
        assert_non_null(bl_json_get(inside, key));
        assert_true(bl_json_equal(bl_json_get(alone, key), bl_json_get(inside, key)));
    }
    bl_free((void *)sources[0].data);
    bl_free((void *)sources[1].data);
    bl_arena_done(&arena);
}

SUITE(envelope, cmocka_unit_test(common_members_come_first_on_one_line),
      cmocka_unit_test(in_a_stream_the_envelope_is_the_result),
      cmocka_unit_test(an_error_has_all_its_members),
      cmocka_unit_test(a_line_that_does_not_fit_is_an_error),
      cmocka_unit_test(the_error_schema_knows_every_kind),
      cmocka_unit_test(the_error_of_the_envelope_is_that_of_its_own_schema));
