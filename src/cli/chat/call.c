#include <inttypes.h>
#include <stdio.h>

#include "agent/agent.h"
#include "tool/tool.h"
#include "view.h"

/* A user who is asked for permission must see the whole input, or that it was cut. */
#define INPUT_LINE_MAX ((size_t)4000)
#define FAILURE_LINES  6u
#define CALL_MARK      "● "
#define CHILD_MARK     "○ "

static const struct text_style plain, dim = {.dim = true}, bold = {.bold = true},
                                      yellow = {.colour = TEXT_YELLOW};

/* ---- Lines ----------------------------------------------------------------------------------- */

void chat_line(const struct chat_frame *frame, size_t indent, struct bl_text text,
               const struct text_style *style)
{
    struct text_line line;

    text_line_init(&line, frame->out, frame->columns, frame->colours);
    for (size_t i = 0; i < indent && i < frame->columns / 2; i++)
        text_line_add(&line, BL_TEXT(" "), &plain);
    text_line_add(&line, text, style);
    text_line_end(&line);
}

static void call_put_code(void *context, struct bl_text piece, const struct text_style *style)
{
    text_wrap_add_literal(context, piece, style);
}

void chat_code(const struct chat_frame *frame, size_t indent, struct bl_text text,
               struct bl_text name)
{
    static const char blanks[] = "                ";
    struct bl_text line, margin = {blanks, indent < sizeof blanks - 1 ? indent : sizeof blanks - 1};
    struct highlight highlight;
    struct text_wrap wrap;

    text_wrap_init(&wrap, frame->out, frame->columns, frame->colours);
    wrap.first_indent = wrap.indent = margin;
    wrap.indent_width = margin.size;
    highlight_begin(&highlight, name);
    while (bl_text_split(&text, '\n', &line)) {
        highlight_line(&highlight, line, call_put_code, &wrap);
        text_wrap_add_literal(&wrap, BL_TEXT("\n"), &plain);
    }
    text_wrap_done(&wrap);
}

void chat_paragraph(const struct chat_frame *frame, const char *mark, struct bl_text text,
                    const struct text_style *style)
{
    char blanks[] = "                ";
    struct text_wrap wrap;

    text_wrap_init(&wrap, frame->out, frame->columns, frame->colours);
    wrap.first_indent = bl_text_from(mark);
    wrap.indent_width = text_width(wrap.first_indent);
    wrap.indent = (struct bl_text){blanks, wrap.indent_width};
    text_wrap_add(&wrap, bl_text_trim(text), style);
    text_wrap_end_line(&wrap);
    text_wrap_done(&wrap);
}

const char *chat_short_count(uint64_t count, char out[24])
{
    if (count < 1000)
        snprintf(out, 24, "%" PRIu64, count);
    else if (count < 100 * 1000)
        snprintf(out, 24, "%.1fk", (double)(count / 100) / 10);
    else if (count < 1000 * 1000)
        snprintf(out, 24, "%" PRIu64 "k", count / 1000);
    else
        snprintf(out, 24, "%.1fM", (double)(count / 100000) / 10);
    return out;
}

const char *chat_tokens(uint64_t count, char out[32])
{
    char number[24];

    snprintf(out, 32, "%s token%s", chat_short_count(count, number), count == 1 ? "" : "s");
    return out;
}

bool chat_cell_text(const struct bl_event *event, char *out, size_t size)
{
    const char *cell = event->cell != NULL ? event->cell : "?";
    const char *status = event->status != NULL ? event->status : "?";

    /* The call that created it has already been shown. */
    if (event->type == BL_EVENT_CELL_CREATED)
        return false;
    if (event->type == BL_EVENT_CELL_YIELDED)
        snprintf(out, size, "cell %.64s yielded", cell);
    else
        snprintf(out, size, "cell %.64s %s: %.32s", cell,
                 event->type == BL_EVENT_CELL_ENDED ? "ended" : "settled", status);
    return true;
}

/* ---- The input in one line ------------------------------------------------------------------- */

static struct bl_text chat_call_bounded(struct bl_arena *arena, struct bl_text text)
{
    if (text.size <= INPUT_LINE_MAX)
        return text;
    struct bl_text shown = bl_utf8_cut(text, INPUT_LINE_MAX);
    return bl_arena_printf(arena, BL_TEXT_FORMAT "… (and %zu bytes more)", BL_TEXT_ARG(shown),
                           text.size - shown.size);
}

static bool chat_call_is_tool(const char *tool, const char *name)
{
    return strcmp(tool, name) == 0;
}

static struct bl_text bash_line(struct bl_arena *arena, const void *given)
{
    const struct tool_bash_input *input = given;

    if (input->job.size > 0)
        return bl_arena_printf(arena, "%s" BL_TEXT_FORMAT, input->stop ? "stop " : "",
                               BL_TEXT_ARG(chat_call_bounded(arena, input->job)));
    struct bl_text command = chat_call_bounded(arena, input->command);
    return bl_text_trim(bl_arena_printf(arena, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(command),
                                        input->background ? " &" : ""));
}

static struct bl_text chat_call_read_line(struct bl_arena *arena, const void *given)
{
    const struct tool_read_input *input = given;
    struct bl_text path = chat_call_bounded(arena, input->path);

    if (input->offset == 0)
        return path;
    if (input->limit == 0 || input->offset > INT64_MAX - input->limit)
        return bl_arena_printf(arena, BL_TEXT_FORMAT " from line %" PRId64, BL_TEXT_ARG(path),
                               input->offset);
    return bl_arena_printf(arena, BL_TEXT_FORMAT " lines %" PRId64 "-%" PRId64, BL_TEXT_ARG(path),
                           input->offset, input->offset + input->limit - 1);
}

static struct bl_text chat_call_write_line(struct bl_arena *arena, const void *input)
{
    return chat_call_bounded(arena, ((const struct tool_write_input *)input)->path);
}

static struct bl_text chat_call_edit_line(struct bl_arena *arena, const void *input)
{
    return chat_call_bounded(arena, ((const struct tool_edit_input *)input)->path);
}

static struct bl_text ls_line(struct bl_arena *arena, const void *input)
{
    struct bl_text path = chat_call_bounded(arena, ((const struct tool_ls_input *)input)->path);

    return path.size > 0 ? path : BL_TEXT(".");
}

static struct bl_text chat_call_search_line(struct bl_arena *arena, struct bl_text pattern,
                                            struct bl_text where)
{
    pattern = chat_call_bounded(arena, pattern);
    where = chat_call_bounded(arena, where);
    return where.size == 0 ? pattern
                           : bl_arena_printf(arena, BL_TEXT_FORMAT " in " BL_TEXT_FORMAT,
                                             BL_TEXT_ARG(pattern), BL_TEXT_ARG(where));
}

static struct bl_text chat_call_glob_line(struct bl_arena *arena, const void *given)
{
    const struct tool_glob_input *input = given;

    return chat_call_search_line(arena, input->pattern, input->path);
}

static struct bl_text chat_call_grep_line(struct bl_arena *arena, const void *given)
{
    const struct tool_grep_input *input = given;

    return chat_call_search_line(arena, input->pattern,
                                 input->path.size > 0 ? input->path : input->glob);
}

static struct bl_text chat_call_fetch_line(struct bl_arena *arena, const void *input)
{
    return chat_call_bounded(arena, ((const struct tool_fetch_input *)input)->url);
}

static struct bl_text todo_line(struct bl_arena *arena, const void *given)
{
    const struct tool_todo_input *input = given;

    return bl_arena_printf(arena, "%zu of %zu done", tool_todo_count(input, ITEM_COMPLETED),
                           input->count);
}

/* Returns the first line of a cell's source that is not blank and not a comment. */
static struct bl_text source_line(struct bl_arena *arena, const void *input)
{
    struct bl_text source = ((const struct agent_exec_input *)input)->source, line = {0};

    while (bl_text_split(&source, '\n', &line)) {
        line = bl_text_trim(line);
        if (line.size > 0 && !bl_text_starts_with(line, BL_TEXT("//")))
            break;
    }
    return chat_call_bounded(arena, line);
}

static struct bl_text wait_line(struct bl_arena *arena, const void *given)
{
    const struct agent_wait_input *input = given;

    return bl_arena_printf(arena, "%s" BL_TEXT_FORMAT, input->terminate ? "terminate " : "",
                           BL_TEXT_ARG(chat_call_bounded(arena, input->cell_id)));
}

static struct bl_text task_line(struct bl_arena *arena, const void *given)
{
    const struct agent_task_input *input = given;

    return bl_arena_printf(arena, BL_TEXT_FORMAT ": " BL_TEXT_FORMAT,
                           BL_TEXT_ARG(bl_utf8_cut(input->agent, 64)),
                           BL_TEXT_ARG(chat_call_bounded(arena, input->prompt)));
}

/* Returns the first line of a plan that is not blank, without the mark of a heading. */
static struct bl_text plan_line(struct bl_arena *arena, const void *input)
{
    struct bl_text plan = ((const struct agent_plan_input *)input)->plan, line = {0};

    while (bl_text_split(&plan, '\n', &line)) {
        while (line.size > 0 && (line.data[0] == '#' || line.data[0] == ' '))
            line = (struct bl_text){line.data + 1, line.size - 1};
        if (bl_text_trim(line).size > 0)
            break;
    }
    return chat_call_bounded(arena, bl_text_trim(line));
}

static const struct chat_tool {
    const char *name;
    const struct bl_record *input;
    struct bl_text (*line)(struct bl_arena *arena, const void *input);
} chat_tools[] = {
    {"bash", &tool_bash_input, bash_line},
    {"read", &tool_read_input, chat_call_read_line},
    {"write", &tool_write_input, chat_call_write_line},
    {"edit", &tool_edit_input, chat_call_edit_line},
    {"ls", &tool_ls_input, ls_line},
    {"glob", &tool_glob_input, chat_call_glob_line},
    {"grep", &tool_grep_input, chat_call_grep_line},
    {"todo", &tool_todo_input, todo_line},
    {"fetch", &tool_fetch_input, chat_call_fetch_line},
    {"exec", &agent_exec_input, source_line},
    {"wait", &agent_wait_input, wait_line},
    {"task", &agent_task_input, task_line},
    {"plan", &agent_plan_input, plan_line},
};

/* Returns the input of an unknown tool as JSON. */
static struct bl_text other_line(struct bl_arena *arena, const struct bl_json *input)
{
    struct bl_json_writer *writer = bl_alloc(sizeof *writer);
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);

    bl_json_writer_init(writer, &text);
    bl_json_write_value(writer, input);
    bl_json_writer_done(writer);
    bl_free(writer);
    struct bl_text line = bl_arena_text(arena, chat_call_bounded(arena, bl_buffer_text(&text)));
    return bl_text_equal(line, BL_TEXT("{}")) ? (struct bl_text){0} : line;
}

/* Returns the input in one line, cut if it is long. `*ret_input` is the input by the tool's table;
 * NULL if the tool is unknown or the input is not an object. */
static struct bl_text chat_call_show_input(struct bl_arena *arena, const char *tool,
                                           const struct bl_json *json, const void **ret_input)
{
    *ret_input = NULL;
    if (!bl_json_is(json, BL_JSON_OBJECT))
        return (struct bl_text){0};
    for (size_t i = 0; i < BL_COUNT(chat_tools); i++) {
        if (!chat_call_is_tool(tool, chat_tools[i].name))
            continue;
        void *input = bl_arena_alloc(arena, chat_tools[i].input->size);
        bl_record_take(arena, chat_tools[i].input, json, input);
        *ret_input = input;
        return chat_tools[i].line(arena, input);
    }
    return other_line(arena, json);
}

struct bl_text chat_input_line(struct bl_arena *arena, const char *tool,
                               const struct bl_json *input)
{
    return chat_call_show_input(arena, tool, input, &(const void *){NULL});
}

/* ---- A call ---------------------------------------------------------------------------------- */

struct chat_call *chat_call_new(const struct bl_event *event, struct chat_agent *agent)
{
    struct chat_call *call = bl_zalloc(sizeof *call);
    const struct bl_json *input;
    BL_AUTO_ARENA(arena);

    bl_list_init(&call->link);
    bl_arena_init(&call->arena);
    chat_output_init(&call->output);
    call->agent = agent;
    call->nested = event->nested;
    call->since_ns = bl_clock_now_ns(&bl_clock_system);
    call->id = bl_arena_text(&call->arena, event->id);
    call->name = bl_arena_text(&call->arena, event->name);
    if (bl_json_read(&arena, event->json, NULL, &input, NULL) == 0)
        call->line = chat_call_show_input(&call->arena, call->name.data, input, &call->input);
    return call;
}

void chat_call_free(struct chat_call *call)
{
    bl_list_remove(&call->link);
    chat_output_done(&call->output);
    bl_arena_done(&call->arena);
    bl_free(call);
}

/* Writes "● name  input  (note)"; the input is cut if the line does not fit. */
static void chat_call_write_head(const struct chat_call *call, const struct chat_frame *frame,
                                 size_t indent, const struct text_style *style, struct bl_text note)
{
    size_t note_width = text_width(note);
    struct text_line line;

    if (note_width > frame->columns / 2)
        note_width = 0;
    text_line_init(&line, frame->out, frame->columns - (note_width > 0 ? note_width + 3 : 0),
                   frame->colours);
    for (size_t i = 0; i < indent && i < frame->columns / 2; i++)
        text_line_add(&line, BL_TEXT(" "), &plain);
    text_line_add(&line, indent == 0 ? BL_TEXT(CALL_MARK) : BL_TEXT(CHILD_MARK), style);
    text_line_add(&line, call->name, &bold);
    if (call->line.size > 0) {
        text_line_add(&line, BL_TEXT("  "), &plain);
        text_line_add(&line, call->line, &plain);
    }
    if (note_width > 0) {
        line.columns = frame->columns;
        line.cut = false;
        text_line_add(&line, BL_TEXT(" ("), &dim);
        text_line_add(&line, note, &dim);
        text_line_add(&line, BL_TEXT(")"), &dim);
    }
    text_line_end(&line);
    if (note.size > 0 && note_width == 0)
        chat_line(frame, indent + 2, note, &dim);
}

/* ---- Effects, shown from the input ----------------------------------------------------------- */

static void write_todos(const struct tool_todo_input *input, const struct chat_frame *frame)
{
    static const struct text_style *const styles[] = {
        [ITEM_PENDING] = &plain, [ITEM_IN_PROGRESS] = &bold, [ITEM_COMPLETED] = &dim};
    char mark[16];

    for (size_t i = 0; i < input->count; i++) {
        const struct tool_todo_item *item = &input->items[i];
        snprintf(mark, sizeof mark, "  %s ", tool_todo_mark(item));
        chat_paragraph(frame, mark, item->content, styles[tool_todo_state(item)]);
    }
}

static bool is_change(const struct chat_call *call)
{
    return chat_call_is_tool(call->name.data, "edit") ||
           chat_call_is_tool(call->name.data, "write");
}

/* Writes the change of a file, from the model's input; only counts if `frame` is NULL. */
static struct chat_diff write_change(const struct chat_call *call, const struct chat_frame *frame,
                                     size_t indent)
{
    const struct tool_edit_input *edit = call->input;
    const struct tool_write_input *write = call->input;

    if (chat_call_is_tool(call->name.data, "write"))
        return chat_diff(write->path, (struct bl_text){0}, write->content, frame, indent);
    return chat_diff(edit->path, edit->old, edit->new, frame, indent);
}

/* In a whole frame, writes the full input if the line above has cut it. */
static void write_input(const struct chat_call *call, const struct chat_frame *frame, size_t indent)
{
    const struct agent_exec_input *cell = call->input;
    size_t taken = indent + text_width(call->name) + 2;
    bool lines = call->line.size > 0 && memchr(call->line.data, '\n', call->line.size) != NULL;

    if (!frame->whole)
        return;
    if (chat_call_is_tool(call->name.data, "exec") && call->input != NULL)
        chat_code(frame, indent, cell->source, BL_TEXT("js"));
    else if (lines || taken + text_width(call->line) > frame->columns)
        chat_code(frame, indent, call->line,
                  chat_call_is_tool(call->name.data, "bash") ? BL_TEXT("sh") : BL_TEXT(""));
}

void chat_call_live(const struct chat_call *call, const struct chat_frame *frame, size_t indent,
                    size_t lines_max)
{
    chat_call_write_head(call, frame, indent, &yellow, (struct bl_text){0});
    write_input(call, frame, indent + 2);
    if (indent == 0 && is_change(call) && call->input != NULL)
        write_change(call, frame, 2);
    if (frame->whole)
        chat_output_summary(&call->output, frame, indent + 2);
    else
        chat_output_live(&call->output, lines_max, frame, indent + 2);
    if (call->question.size > 0)
        chat_paragraph(frame, "  ? ", call->question, &yellow);
}

/* ---- The end of a call ----------------------------------------------------------------------- */

/* Returns a failure such as "exit code 2" from the last lines of a result; empty if there is none.
 */
static struct bl_text chat_call_failure_of(struct bl_text result)
{
    static const char *const beginnings[] = {"exit code ", "killed by ", "timed out", "cut off"};
    struct bl_text line, found = {0};

    while (bl_text_split(&result, '\n', &line)) {
        for (size_t i = 0; i < BL_COUNT(beginnings); i++) {
            if (bl_text_starts_with(line, bl_text_from(beginnings[i])))
                found = bl_utf8_cut(line, 40);
        }
    }
    return found;
}

static bool is_status(const struct chat_end *end, const char *status)
{
    return end->status != NULL && strcmp(end->status, status) == 0;
}

static uint64_t chat_call_count_lines(const struct chat_call *call, struct bl_text text)
{
    uint64_t count = 0;
    struct bl_text line;

    while (bl_text_split(&text, '\n', &line))
        count++;
    return count > 0 ? count : call->output.count;
}

static bool is_reading(const char *tool)
{
    return chat_call_is_tool(tool, "read") || chat_call_is_tool(tool, "grep") ||
           chat_call_is_tool(tool, "glob") || chat_call_is_tool(tool, "ls") ||
           chat_call_is_tool(tool, "fetch");
}

static void add_note(struct bl_buffer *note, struct bl_text text)
{
    if (text.size > 0 && note->size > 0)
        bl_buffer_append(note, BL_TEXT(", "));
    bl_buffer_append(note, text);
}

static void make_note(const struct chat_call *call, const struct chat_end *end,
                      struct bl_buffer *note)
{
    struct bl_text failure =
        is_status(end, "error") ? chat_call_failure_of(end->text) : (struct bl_text){0};
    bool ok = is_status(end, "ok");
    char text[64];

    if (end->status == NULL || is_status(end, "not_run"))
        add_note(note, BL_TEXT("not run"));
    else if (is_status(end, "invalid"))
        add_note(note, BL_TEXT("not run: invalid input"));
    else if (failure.size > 0)
        add_note(note, failure);
    else if (!ok)
        add_note(note, is_status(end, "error") ? BL_TEXT("failed") : bl_text_from(end->status));
    if (ok && is_change(call) && call->input != NULL) {
        struct chat_diff diff = write_change(call, NULL, 0);
        snprintf(text, sizeof text, "+%zu -%zu", diff.added, diff.removed);
        add_note(note, bl_text_from(text));
    }
    uint64_t lines = chat_call_count_lines(call, end->text);
    if (ok && is_reading(call->name.data) && lines > 0) {
        snprintf(text, sizeof text, "%" PRIu64 " line%s", lines, lines == 1 ? "" : "s");
        add_note(note, bl_text_from(text));
    }
    add_note(note, end->note);
    /* Short times are not shown, except for bash. */
    if (end->ms > 0 && (end->ms >= 1000 || chat_call_is_tool(call->name.data, "bash"))) {
        bl_duration_format((int64_t)(end->ms * BL_NS_PER_MS), text);
        add_note(note, bl_text_from(text));
    }
}

/* Writes the error of a call that printed nothing. */
static void write_failure(struct bl_text text, const struct chat_frame *frame, size_t indent)
{
    struct bl_text line;

    for (size_t i = 0; i < FAILURE_LINES && bl_text_split(&text, '\n', &line); i++)
        chat_line(frame, indent, line, &dim);
}

void chat_call_take_result(struct chat_call *call, struct bl_text text)
{
    chat_output_end(&call->output);
    call->answered = call->output.count == 0;
    if (call->answered)
        chat_output_add(&call->output, text);
    chat_output_end(&call->output);
}

/* True if the output is shown. For files that were read or changed, the summary is enough, unless
 * the frame is whole. */
static bool call_shows_output(const struct chat_call *call, const struct chat_end *end,
                              const struct chat_frame *frame)
{
    const char *tool = call->name.data;

    if (is_change(call) || chat_call_is_tool(tool, "todo"))
        return false;
    if (call->answered && !is_status(end, "ok"))
        return false;
    return frame->whole || !is_reading(tool);
}

void chat_call_ended(struct chat_call *call, const struct chat_end *end,
                     const struct chat_frame *frame, size_t indent)
{
    static const struct text_style good = {.colour = TEXT_GREEN}, bad = {.colour = TEXT_RED};
    bool ok = is_status(end, "ok"), failed = is_status(end, "error");
    struct bl_buffer note;

    chat_output_end(&call->output);
    bl_buffer_init(&note, SIZE_MAX / 2);
    make_note(call, end, &note);
    chat_call_write_head(call, frame, indent,
                         ok       ? &good
                         : failed ? &bad
                                  : &yellow,
                         bl_buffer_text(&note));
    bl_buffer_done(&note);
    indent += 2;
    write_input(call, frame, indent);
    /* If the user was not asked, the result has the reason. */
    struct bl_text reason = is_status(end, "denied") ? end->text : (struct bl_text){0};
    reason = call->reason.size > 0 ? call->reason : reason;
    if (reason.size > 0)
        chat_paragraph(frame, "  ", reason, &yellow);
    if (ok && is_change(call) && call->input != NULL)
        write_change(call, frame, indent);
    if (ok && chat_call_is_tool(call->name.data, "todo") && call->input != NULL)
        write_todos(call->input, frame);
    if (call_shows_output(call, end, frame))
        chat_output_summary(&call->output, frame, indent);
    else if (failed)
        write_failure(bl_buffer_text(&call->output.all), frame, indent);
    if (call->receipt.size > 0)
        chat_receipt(call->receipt, NULL, false, frame, indent);
}
