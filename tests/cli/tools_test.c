#include "stage.h"

static struct run run;

static void every_tool_has_a_description_and_a_schema(void **state)
{
    (void)state;
    RUN(&run, "tools", "--json");
    const struct bl_json *answer = stage_answer(&run, "tools", 0);
    assert_true(stage_size_at(answer, "/tools") >= 1);
    BL_JSON_EACH (tool, bl_json_get(answer, BL_TEXT("tools"))) {
        assert_true(strlen(stage_text_at(tool, "/name")) > 0);
        assert_true(strlen(stage_text_at(tool, "/description")) > 0);
        assert_string_equal(stage_text_at(tool, "/input_schema/type"), "object");
    }
    RUN(&run, "tools");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "bash ", 5);
    struct bl_text rest = bl_text_from(run.out), line;
    while (bl_text_split(&rest, '\n', &line))
        assert_in_range(bl_utf8_count(line), 1, 80);
    RUN(&run, "tools", "bash", "--json");
    stage_answer(&run, "tools", 2);
}

static void one_tool_is_shown_with_its_schema(void **state)
{
    (void)state;
    RUN(&run, "tool", "bash", "--json");
    const struct bl_json *answer = stage_answer(&run, "tool", 0);
    assert_string_equal(stage_text_at(answer, "/name"), "bash");
    assert_string_equal(stage_text_at(answer, "/input_schema/properties/command/type"), "string");
    RUN(&run, "tool", "bash");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "\n  \"type\": \"object\""));
}

static void an_unknown_tool_gets_a_suggestion(void **state)
{
    (void)state;
    RUN(&run, "tool", "bahs");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "belay tool: no tool 'bahs'; did you mean 'bash'?\n");
    RUN(&run, "tool", "frobnicate", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "tool", 1), "/error/kind"), "tool");
    RUN(&run, "tool", "--json");
    stage_answer(&run, "tool", 2);
    RUN(&run, "tool", "bash", "bash", "--json");
    stage_answer(&run, "tool", 2);
}

SUITE(tools, STAGED(every_tool_has_a_description_and_a_schema),
      STAGED(one_tool_is_shown_with_its_schema), STAGED(an_unknown_tool_gets_a_suggestion));
