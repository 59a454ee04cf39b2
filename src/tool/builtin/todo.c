#include <inttypes.h>

#include "tool/parts.h"

static const char *const todo_states[] = {
    [ITEM_PENDING] = "pending",
    [ITEM_IN_PROGRESS] = "in_progress",
    [ITEM_COMPLETED] = "completed",
};
static const struct bl_names todo_state_names = BL_NAMES(todo_states);

enum tool_todo_state tool_todo_state(const struct tool_todo_item *item)
{
    size_t state = ITEM_PENDING;
    bl_names_find(&todo_state_names, item->status, &state);
    return (enum tool_todo_state)state;
}

const char *tool_todo_mark(const struct tool_todo_item *item)
{
    static const char *const marks[] = {
        [ITEM_PENDING] = "[ ]", [ITEM_IN_PROGRESS] = "[>]", [ITEM_COMPLETED] = "[x]"};
    return marks[tool_todo_state(item)];
}

size_t tool_todo_count(const struct tool_todo_input *input, enum tool_todo_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < input->count; i++)
        count += tool_todo_state(&input->items[i]) == state;
    return count;
}

static const char *todo_check(const void *given)
{
    const struct tool_todo_input *input = given;
    for (size_t i = 0; i < input->count; i++) {
        if (bl_text_trim(input->items[i].content).size == 0)
            return "an item has no content (describe the work to do)";
    }
    return tool_todo_count(input, ITEM_IN_PROGRESS) > 1
               ? "more than one item is in_progress (keep the others pending)"
               : NULL;
}

/* One line for each item, whatever it contains. */
static void add_content(struct bl_buffer *out, struct bl_text content)
{
    content = bl_text_trim(content);
    for (size_t i = 0; i < content.size; i++) {
        bool control = (unsigned char)content.data[i] < ' ' || content.data[i] == 0x7F;
        bl_buffer_append_byte(out, control ? ' ' : content.data[i]);
    }
}

/* The list is the model's own, sent in full each time, so nothing is stored here. */
static int todo_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    BL_AUTO_BUFFER(out, SIZE_MAX);
    struct tool_todo_input input;
    (void)toolbox, (void)error;
    bl_record_take(call->arena, &tool_todo_input, call->input, &input);
    if (input.count == 0)
        bl_buffer_printf(&out, "The list is empty.");
    else
        bl_buffer_printf(&out, "%zu of %zu done", tool_todo_count(&input, ITEM_COMPLETED),
                         input.count);
    for (size_t i = 0; i < input.count; i++) {
        bl_buffer_printf(&out, "\n%s ", tool_todo_mark(&input.items[i]));
        add_content(&out, input.items[i].content);
    }
    *ret_result = (struct bl_tool_result){.text = bl_arena_text(call->arena, bl_buffer_text(&out))};
    return 0;
}

#define BL_RECORD_STRUCT struct tool_todo_item
static const struct bl_member item_members[] = {
    BL_MEMBER_TEXT("content", content, .least = 1, .most = 500, .characters = true,
                   .about = "The work to do, in a few words."),
    BL_MEMBER_TEXT("status", status, .names = &todo_state_names),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record item_record =
    BL_RECORD("item of todo", struct tool_todo_item, item_members, .closed = true);
static const struct bl_member item_element = BL_ELEMENT(struct tool_todo_item, &item_record);

#define BL_RECORD_STRUCT struct tool_todo_input
static const struct bl_member todo_members[] = {
    BL_MEMBER_ARRAY("todos", items, count, &item_element, .most = 100,
                    .about = "The complete list."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_todo_input =
    BL_RECORD("input of todo", struct tool_todo_input, todo_members, .closed = true);

const struct tool_entry tool_todo = {
    .name = "todo",
    .reads = true,
    .input = &tool_todo_input,
    .description = "Records a to-do list for work with several steps. Pass the complete list each "
                   "time: it replaces the previous one. Keep at most one item in_progress, and "
                   "mark each item completed as soon as it is done.",
    .check = todo_check,
    .call = todo_call,
};
