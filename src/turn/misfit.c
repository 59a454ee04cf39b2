/* Checks a call against the schema of its tool. */
#include "parts.h"

#define MISFITS_TOLD_MAX 5u

const struct bl_tool_offer *step_find_tool(const struct bl_tools *tools, struct bl_text name)
{
    for (size_t i = 0; tools != NULL && i < tools->offer_count; i++) {
        if (bl_text_equal(bl_text_from(tools->offers[i].name), name))
            return &tools->offers[i];
    }
    return NULL;
}

/* Describes the first few problems of the input by the tool's schema; empty if it is valid. */
static struct bl_text misfit(struct bl_arena *arena, const struct bl_tool_offer *tool,
                             const struct bl_json *input)
{
    struct bl_text text = {0};
    struct bl_list problems;
    unsigned count = 0;

    if (tool->compiled == NULL ||
        bl_json_schema_check(tool->compiled, input, arena, &problems) == 0)
        return text;
    text = BL_TEXT("its input does not match the tool's schema");
    BL_LIST_EACH (link, &problems) {
        const struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        if (++count <= MISFITS_TOLD_MAX)
            text = bl_arena_printf(arena, BL_TEXT_FORMAT "%s%.100s%s%.200s", BL_TEXT_ARG(text),
                                   count == 1 ? ": " : "; ",
                                   problem->path.size > 0 ? problem->path.data : "",
                                   problem->path.size > 0 ? " " : "", problem->message.data);
    }
    return text;
}

struct bl_text step_misfit(const struct bl_tools *tools, struct bl_arena *arena,
                           struct bl_text name, struct bl_text text,
                           const struct bl_json **ret_input)
{
    const struct bl_tool_offer *tool = step_find_tool(tools, name);
    struct bl_json_fault fault;
    char why[256];

    *ret_input = NULL;
    int code = bl_json_read(arena, text, NULL, ret_input, &fault);
    if (tool == NULL)
        return bl_arena_printf(arena, "there is no tool '" BL_TEXT_FORMAT "'",
                               BL_TEXT_ARG(bl_utf8_cut(name, 64)));
    if (code != 0) {
        bl_json_fault_text(&fault, why, sizeof why);
        return bl_arena_printf(arena, "its input is not JSON: %s", why);
    }
    if (!bl_json_is(*ret_input, BL_JSON_OBJECT))
        return BL_TEXT("its input is not a JSON object");
    return misfit(arena, tool, *ret_input);
}
