/* Names of tools in rules, hooks and personas. A name that no tool can have would silently protect
 * nothing, so it is an error. */
#include <ctype.h>

#include "tool/mcp/mcp.h"

/* Names that rules can use besides the toolbox's tools. */
static const struct name_entry {
    const char *name;
    bool has_subject; /* a rule about it may have a pattern */
} name_others[] = {
    {BL_TOOL_TASK, true}, {BL_TOOL_EXEC, false}, {BL_TOOL_WAIT, false}, {BL_TOOL_PLAN, false}};

static struct name_entry name_entry(size_t index)
{
    if (index < TOOL_COUNT)
        return (struct name_entry){tool_entries[index]->name,
                                   tool_entries[index]->kind != SUBJECT_NONE};
    return name_others[index - TOOL_COUNT];
}

#define NAME_COUNT (TOOL_COUNT + BL_COUNT(name_others))

bool tool_name_is_known(struct bl_text pattern, bool with_subject)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        struct name_entry entry = name_entry(i);
        if ((entry.has_subject || !with_subject) && glob_match(pattern, bl_text_from(entry.name)))
            return true;
    }
    return !with_subject && mcp_name_is_possible(pattern);
}

void tool_name_hint(struct bl_error *error, struct bl_text pattern, const char *further)
{
    char word[64];
    struct bl_suggestion suggestion;
    size_t size = pattern.size < sizeof word - 1 ? pattern.size : sizeof word - 1;
    /* Other programs name their tools "Bash" and "READ". */
    for (size_t i = 0; i < size; i++)
        word[i] = (char)tolower((unsigned char)pattern.data[i]);
    word[size] = '\0';
    bl_suggestion_init(&suggestion, word);
    for (size_t i = 0; i < NAME_COUNT; i++)
        bl_suggestion_offer(&suggestion, name_entry(i).name);
    if (further != NULL)
        bl_suggestion_offer(&suggestion, further);
    if (bl_text_starts_with(bl_text_from(word), BL_TEXT("mcp__")))
        bl_error_hint(
            error,
            "name a tool of an MCP server as mcp__SERVER__TOOL, or all of them as mcp__SERVER__*");
    else if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "run belay tools to list the tools");
}

int bl_tool_name_check(const char *pattern, struct bl_error *error)
{
    if (tool_name_is_known(bl_text_from(pattern), false))
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the name of a tool", pattern,
                 "unknown tool '%.128s'", pattern);
    bl_error_name_set(error, BL_UNKNOWN_TOOL);
    tool_name_hint(error, bl_text_from(pattern), NULL);
    return BL_EINVAL;
}
