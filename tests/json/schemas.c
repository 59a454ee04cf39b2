#include "schemas.h"

const struct bl_json *read_json(struct bl_arena *arena, const char *text)
{
    const struct bl_json *value = NULL;
    struct bl_json_fault fault;
    if (bl_json_read(arena, bl_text_from(text), NULL, &value, &fault) < 0)
        fail_msg("%s: expected %s", text, fault.expected);
    return value;
}

struct bl_json_schema *compile(struct bl_arena *arena, const char *text)
{
    struct bl_json_schema *schema = NULL;
    struct bl_error error = {0};
    if (bl_json_schema_new(read_json(arena, text), &schema, &error) < 0)
        fail_msg("%s: %s", text, error.message);
    return schema;
}

struct bl_text problems_of(struct bl_arena *arena, const char *schema_text, const char *value_text,
                           int expected)
{
    struct bl_json_schema *schema = compile(arena, schema_text);
    struct bl_list problems;
    struct bl_text all = BL_TEXT("");
    int result = bl_json_schema_check(schema, read_json(arena, value_text), arena, &problems);
    suite_fail_if(result != expected, "%s with %s: %s", schema_text, value_text,
                  bl_error_name(result));
    BL_LIST_EACH (link, &problems) {
        struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        all = bl_arena_printf(arena, "%.*s%.*s|%.*s|%.*s\n", BL_TEXT_ARG(all),
                              BL_TEXT_ARG(problem->path), BL_TEXT_ARG(problem->keyword),
                              BL_TEXT_ARG(problem->message));
    }
    bl_json_schema_free(schema);
    return all;
}

void expect_problems(const char *schema, const char *value, const char *expected)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    struct bl_text found = problems_of(&arena, schema, value, expected[0] ? BL_EINVAL : 0);
    suite_fail_if(!bl_text_equal(found, bl_text_from(expected)), "%s with %s:\n%sinstead of:\n%s",
                  schema, value, found.data, expected);
    bl_arena_done(&arena);
}

void expect_fits(const char *schema, const char *value, bool fits)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    problems_of(&arena, schema, value, fits ? 0 : BL_EINVAL);
    bl_arena_done(&arena);
}
