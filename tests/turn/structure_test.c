/* Answers that must match a schema. */
#include "stage.h"

static const struct bl_json_schema *shape(struct stage *stage, const char *text)
{
    const struct bl_json *source;
    struct bl_json_schema *schema = NULL;

    CHECK_EQUAL(bl_json_read(&stage->arena, bl_text_from(text), NULL, &source, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(source, &schema, NULL), 0);
    stage->engine.schema = schema;
    stage->engine.schema_text = bl_text_from(text);
    return schema;
}

SCENE(structured_answers_are_repaired_inside_the_turn)
{
    shape(stage, "{\"type\":\"object\",\"required\":[\"n\"]}");
    stage_line(stage, (struct line){.say = "sure!", .output_tokens = 1});
    stage_line(stage, (struct line){.say = "{\"m\":1}", .output_tokens = 1});
    stage_line(stage, (struct line){.say = "{\"n\":1}", .output_tokens = 1});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(bl_text_equal(result->output, BL_TEXT("{\"n\":1}")));
    CHECK_EQUAL(result->usage.output_tokens, 3);
    CHECK(strstr(stage->newest_text, "does not match the required JSON Schema") != NULL);
    for (int i = 0; i < 3; i++)
        stage_line(stage, (struct line){.say = "still not"});
    result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.kind, BL_KIND_PARSE);
    CHECK_EQUAL(stage->requests, 6);
    CHECK_EQUAL(stage->turn_count, 1);
    bl_json_schema_free((struct bl_json_schema *)(uintptr_t)stage->engine.schema);
    return 0;
}

SUITE(structure, cmocka_unit_test(structured_answers_are_repaired_inside_the_turn));
