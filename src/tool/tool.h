/* Inputs of the tools, for the rooms that display calls. Each input has a table, which gives the
 * schema offered to models and reads their input. */
#ifndef BELAY_TOOL_TOOL_H
#define BELAY_TOOL_TOOL_H

#include <belay/record.h>

/* Texts are empty and numbers are 0 if the model omits them. */

struct tool_bash_input {
    struct bl_text command;
    int64_t timeout_ms;
    bool background;
    struct bl_text job;
    bool stop;
};

struct tool_read_input {
    struct bl_text path;
    int64_t offset;
    int64_t limit;
};

struct tool_write_input {
    struct bl_text path;
    struct bl_text content;
};

struct tool_edit_input {
    struct bl_text path;
    struct bl_text old;
    struct bl_text new;
    bool all;
};

struct tool_glob_input {
    struct bl_text pattern;
    struct bl_text path;
};

enum grep_output {
    GREP_CONTENT,
    GREP_FILES,
    GREP_COUNT,
};

struct tool_grep_input {
    struct bl_text pattern;
    struct bl_text path;
    struct bl_text glob;
    enum grep_output output; /* if omitted, none of these values: it means GREP_CONTENT */
    uint32_t context;
    bool ignores_case;
    int64_t head_limit;
};

struct tool_ls_input {
    struct bl_text path;
    int64_t depth;
};

enum tool_todo_state {
    ITEM_PENDING,
    ITEM_IN_PROGRESS,
    ITEM_COMPLETED,
};

struct tool_todo_item {
    struct bl_text content;
    struct bl_text status;
};

struct tool_todo_input {
    struct tool_todo_item *items;
    size_t count;
};

struct tool_fetch_input {
    struct bl_text url;
    int64_t offset;
    int64_t limit;
};

extern const struct bl_record tool_bash_input, tool_read_input, tool_write_input, tool_edit_input,
    tool_glob_input, tool_grep_input, tool_ls_input, tool_todo_input, tool_fetch_input;

/* Pending, if its status is not one of these. */
enum tool_todo_state tool_todo_state(const struct tool_todo_item *item);
/* "[x]" */
const char *tool_todo_mark(const struct tool_todo_item *item);
size_t tool_todo_count(const struct tool_todo_input *input, enum tool_todo_state state);

#endif
