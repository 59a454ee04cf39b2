#include <inttypes.h>

#include "tool/parts.h"

struct mark {
    const char *status;
    const char *mark;
};

static const struct mark marks[] = {
    {"pending", "[ ]"},
    {"in_progress", "[>]"},
    {"completed", "[x]"},
};

static size_t todo_status_of(const struct bl_json *item)
{
    struct bl_text status = bl_json_text(bl_json_get(item, BL_TEXT("status")));
    size_t i = 0;
    while (i + 1 < BL_COUNT(marks) && !bl_text_equal(status, bl_text_from(marks[i].status)))
        i++;
    return i;
}

static const char *todo_check(const struct bl_json *input)
{
    size_t in_progress = 0;
    BL_JSON_EACH (item, bl_json_get(input, BL_TEXT("todos"))) {
        if (bl_text_trim(bl_json_text(bl_json_get(item, BL_TEXT("content")))).size == 0)
            return "an item has no content (say what is to be done)";
        in_progress += todo_status_of(item) == 1;
    }
    return in_progress > 1 ? "more than one item is in_progress (do one thing at a time, and leave "
                             "the others pending)"
                           : NULL;
}

/* One line each, whatever the item holds. */
static void add_content(struct bl_buffer *out, struct bl_text content)
{
    content = bl_text_trim(content);
    for (size_t i = 0; i < content.size; i++) {
        bool control = (unsigned char)content.data[i] < ' ' || content.data[i] == 0x7F;
        bl_buffer_append_byte(out, control ? ' ' : content.data[i]);
    }
}

/* The list is the model's own: what it sends is what there is, so nothing is kept here. */
static int todo_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    const struct bl_json *todos = bl_json_get(call->input, BL_TEXT("todos"));
    size_t count = bl_json_size(todos), done = 0;
    BL_AUTO_BUFFER(out, SIZE_MAX);
    (void)toolbox, (void)error;
    BL_JSON_EACH (item, todos)
        done += todo_status_of(item) == 2;
    if (count == 0)
        bl_buffer_printf(&out, "The list is empty.");
    else
        bl_buffer_printf(&out, "%zu of %zu done", done, count);
    BL_JSON_EACH (item, todos) {
        bl_buffer_printf(&out, "\n%s ", marks[todo_status_of(item)].mark);
        add_content(&out, bl_json_text(bl_json_get(item, BL_TEXT("content"))));
    }
    *ret_result = (struct bl_tool_result){.text = bl_arena_text(call->arena, bl_buffer_text(&out))};
    return 0;
}

const struct tool_entry tool_todo = {
    .name = "todo",
    .reads = true,
    .schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"todos\":{\"type\":\"array\",\"maxItems\":100,"
        "\"description\":\"The whole list, each time.\",\"items\":{\"type\":\"object\","
        "\"properties\":{"
        "\"content\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":500,"
        "\"description\":\"What is to be done, in a few words.\"},"
        "\"status\":{\"type\":\"string\",\"enum\":[\"pending\",\"in_progress\",\"completed\"]}},"
        "\"required\":[\"content\",\"status\"],\"additionalProperties\":false}}},"
        "\"required\":[\"todos\"],\"additionalProperties\":false}",
    .description =
        "Writes down the list of what is to be done, for work of several steps. Give the whole "
        "list each time: it replaces the one before. Have at most one item in_progress, and mark "
        "each as completed as soon as it is.",
    .check = todo_check,
    .call = todo_call,
};
