#include <inttypes.h>
#include <stdio.h>

#include "view.h"

/* Whoever is asked for permission must see all of it, or that it is not all. */
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

bool chat_cell_text(const struct bl_event *event, char *out, size_t size)
{
    const char *cell = event->cell != NULL ? event->cell : "?";
    const char *status = event->status != NULL ? event->status : "?";

    /* The call that made it has been shown. */
    if (event->type == BL_EVENT_CELL_CREATED)
        return false;
    if (event->type == BL_EVENT_CELL_YIELDED)
        snprintf(out, size, "cell %.64s yielded", cell);
    else
        snprintf(out, size, "cell %.64s %s: %.32s", cell,
                 event->type == BL_EVENT_CELL_ENDED ? "ended" : "settled", status);
    return true;
}

/* ---- The input in a line --------------------------------------------------------------------- */

static struct bl_text chat_call_member(const struct bl_json *input, const char *key)
{
    return bl_json_text(bl_json_get(input, bl_text_from(key)));
}

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

static struct bl_text bash_line(struct bl_arena *arena, const struct bl_json *input)
{
    struct bl_text command = chat_call_member(input, "command"),
                   job = chat_call_member(input, "job");
    bool stop = bl_json_boolean(bl_json_get(input, BL_TEXT("stop")), false);
    bool background = bl_json_boolean(bl_json_get(input, BL_TEXT("background")), false);

    if (job.size > 0)
        return bl_arena_printf(arena, "%s" BL_TEXT_FORMAT, stop ? "stop " : "",
                               BL_TEXT_ARG(chat_call_bounded(arena, job)));
    command = chat_call_bounded(arena, command);
    return bl_arena_printf(arena, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(command),
                           background ? " &" : "");
}

static struct bl_text chat_call_read_line(struct bl_arena *arena, const struct bl_json *input)
{
    struct bl_text path = chat_call_bounded(arena, chat_call_member(input, "path"));
    int64_t offset = 0, limit = 0;

    if (!bl_json_int64(bl_json_get(input, BL_TEXT("offset")), &offset))
        return path;
    if (!bl_json_int64(bl_json_get(input, BL_TEXT("limit")), &limit) || limit < 1 ||
        offset > INT64_MAX - limit)
        return bl_arena_printf(arena, BL_TEXT_FORMAT " from line %" PRId64, BL_TEXT_ARG(path),
                               offset);
    return bl_arena_printf(arena, BL_TEXT_FORMAT " lines %" PRId64 "-%" PRId64, BL_TEXT_ARG(path),
                           offset, offset + limit - 1);
}

static struct bl_text chat_call_search_line(struct bl_arena *arena, const struct bl_json *input)
{
    struct bl_text pattern = chat_call_bounded(arena, chat_call_member(input, "pattern"));
    struct bl_text path = chat_call_member(input, "path"), glob = chat_call_member(input, "glob");
    struct bl_text where = chat_call_bounded(arena, path.size > 0 ? path : glob);

    return where.size == 0 ? pattern
                           : bl_arena_printf(arena, BL_TEXT_FORMAT " in " BL_TEXT_FORMAT,
                                             BL_TEXT_ARG(pattern), BL_TEXT_ARG(where));
}

static bool is_done(const struct bl_json *todo)
{
    return bl_text_equal(chat_call_member(todo, "status"), BL_TEXT("completed"));
}

static struct bl_text todo_line(struct bl_arena *arena, const struct bl_json *input)
{
    const struct bl_json *todos = bl_json_get(input, BL_TEXT("todos"));
    size_t done = 0;

    BL_JSON_EACH (todo, todos)
        done += is_done(todo);
    return bl_arena_printf(arena, "%zu of %zu done", done,
                           bl_json_is(todos, BL_JSON_ARRAY) ? bl_json_size(todos) : 0);
}

/* The first line of a cell's source that says something; a pragma is a comment, too. */
static struct bl_text source_line(struct bl_arena *arena, const struct bl_json *input)
{
    struct bl_text source = chat_call_member(input, "source"), line = {0};

    while (bl_text_split(&source, '\n', &line)) {
        line = bl_text_trim(line);
        if (line.size > 0 && !bl_text_starts_with(line, BL_TEXT("//")))
            break;
    }
    return chat_call_bounded(arena, line);
}

static struct bl_text wait_line(struct bl_arena *arena, const struct bl_json *input)
{
    bool terminate = bl_json_boolean(bl_json_get(input, BL_TEXT("terminate")), false);

    return bl_arena_printf(
        arena, "%s" BL_TEXT_FORMAT, terminate ? "terminate " : "",
        BL_TEXT_ARG(chat_call_bounded(arena, chat_call_member(input, "cell_id"))));
}

/* Of a tool that we know nothing of: as it is written. */
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

struct bl_text chat_input_line(struct bl_arena *arena, const char *tool,
                               const struct bl_json *input)
{
    struct bl_text path = chat_call_bounded(arena, chat_call_member(input, "path"));

    if (!bl_json_is(input, BL_JSON_OBJECT))
        return (struct bl_text){0};
    if (chat_call_is_tool(tool, "bash"))
        return bl_text_trim(bash_line(arena, input));
    if (chat_call_is_tool(tool, "read"))
        return chat_call_read_line(arena, input);
    if (chat_call_is_tool(tool, "write") || chat_call_is_tool(tool, "edit"))
        return path;
    if (chat_call_is_tool(tool, "ls"))
        return path.size > 0 ? path : BL_TEXT(".");
    if (chat_call_is_tool(tool, "glob") || chat_call_is_tool(tool, "grep"))
        return chat_call_search_line(arena, input);
    if (chat_call_is_tool(tool, "todo"))
        return todo_line(arena, input);
    if (chat_call_is_tool(tool, "exec"))
        return source_line(arena, input);
    if (chat_call_is_tool(tool, "wait"))
        return wait_line(arena, input);
    if (chat_call_is_tool(tool, "task"))
        return bl_arena_printf(
            arena, BL_TEXT_FORMAT ": " BL_TEXT_FORMAT,
            BL_TEXT_ARG(bl_utf8_cut(chat_call_member(input, "agent"), 64)),
            BL_TEXT_ARG(chat_call_bounded(arena, chat_call_member(input, "prompt"))));
    return other_line(arena, input);
}

/* ---- A call ---------------------------------------------------------------------------------- */

struct chat_call *chat_call_new(const struct bl_event *event, struct chat_agent *agent)
{
    struct chat_call *call = bl_zalloc(sizeof *call);

    bl_list_init(&call->link);
    bl_arena_init(&call->arena);
    chat_output_init(&call->output);
    call->agent = agent;
    call->nested = event->nested;
    call->since_ns = bl_clock_now_ns(&bl_clock_system);
    call->id = bl_arena_text(&call->arena, event->id);
    call->name = bl_arena_text(&call->arena, event->name);
    if (bl_json_read(&call->arena, event->json, NULL, &call->input, NULL) != 0)
        call->input = NULL;
    call->line = chat_input_line(&call->arena, call->name.data, call->input);
    return call;
}

void chat_call_free(struct chat_call *call)
{
    bl_list_remove(&call->link);
    chat_output_done(&call->output);
    bl_arena_done(&call->arena);
    bl_free(call);
}

/* "● name  input  (note)": of what does not fit, the input is cut. */
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

/* ---- What it does, shown from its input ------------------------------------------------------ */

static void write_todos(const struct chat_call *call, const struct chat_frame *frame)
{
    BL_JSON_EACH (todo, bl_json_get(call->input, BL_TEXT("todos"))) {
        bool now = bl_text_equal(chat_call_member(todo, "status"), BL_TEXT("in_progress"));
        const char *mark = is_done(todo) ? "  [x] " : now ? "  [>] " : "  [ ] ";
        chat_paragraph(frame, mark, chat_call_member(todo, "content"),
                       is_done(todo) ? &dim
                       : now         ? &bold
                                     : &plain);
    }
}

static bool is_change(const struct chat_call *call)
{
    return chat_call_is_tool(call->name.data, "edit") ||
           chat_call_is_tool(call->name.data, "write");
}

/* The change of a file, from what the model asked for; counts only without a frame. */
static struct chat_diff write_change(const struct chat_call *call, const struct chat_frame *frame)
{
    if (chat_call_is_tool(call->name.data, "write"))
        return chat_diff((struct bl_text){0}, chat_call_member(call->input, "content"), frame, 2);
    return chat_diff(chat_call_member(call->input, "old_string"),
                     chat_call_member(call->input, "new_string"), frame, 2);
}

void chat_call_live(const struct chat_call *call, const struct chat_frame *frame, size_t indent,
                    size_t lines_max)
{
    chat_call_write_head(call, frame, indent, &yellow, (struct bl_text){0});
    if (indent == 0 && is_change(call) && call->input != NULL)
        write_change(call, frame);
    chat_output_live(&call->output, lines_max, frame, indent + 2);
    if (call->question.size > 0)
        chat_paragraph(frame, "  ? ", call->question, &yellow);
}

/* ---- How it ended ---------------------------------------------------------------------------- */

/* "exit code 2", as the last lines of a result say it; empty: they do not. */
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
           chat_call_is_tool(tool, "glob") || chat_call_is_tool(tool, "ls");
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

    if (end->status == NULL)
        add_note(note, BL_TEXT("not run"));
    else if (is_status(end, "invalid"))
        add_note(note, BL_TEXT("not run: its input was wrong"));
    else if (failure.size > 0)
        add_note(note, failure);
    else if (!ok)
        add_note(note, is_status(end, "error") ? BL_TEXT("failed") : bl_text_from(end->status));
    if (ok && is_change(call) && call->input != NULL) {
        struct chat_diff diff = write_change(call, NULL);
        snprintf(text, sizeof text, "+%zu -%zu", diff.added, diff.removed);
        add_note(note, bl_text_from(text));
    }
    uint64_t lines = chat_call_count_lines(call, end->text);
    if (ok && is_reading(call->name.data) && lines > 0) {
        snprintf(text, sizeof text, "%" PRIu64 " line%s", lines, lines == 1 ? "" : "s");
        add_note(note, bl_text_from(text));
    }
    add_note(note, end->note);
    /* What takes no time is not worth a word. */
    if (end->ms > 0 && (end->ms >= 1000 || chat_call_is_tool(call->name.data, "bash"))) {
        bl_duration_format((int64_t)(end->ms * BL_NS_PER_MS), text);
        add_note(note, bl_text_from(text));
    }
}

/* What went wrong with a call that printed nothing. */
static void write_failure(struct bl_text text, const struct chat_frame *frame)
{
    struct bl_text line;

    for (size_t i = 0; i < FAILURE_LINES && bl_text_split(&text, '\n', &line); i++)
        chat_line(frame, 2, line, &dim);
}

void chat_call_ended(struct chat_call *call, const struct chat_end *end,
                     const struct chat_frame *frame)
{
    static const struct text_style good = {.colour = TEXT_GREEN}, bad = {.colour = TEXT_RED};
    bool ok = is_status(end, "ok"), failed = is_status(end, "error");
    struct bl_buffer note;

    chat_output_end(&call->output);
    bl_buffer_init(&note, SIZE_MAX / 2);
    make_note(call, end, &note);
    chat_call_write_head(call, frame, 0,
                         ok       ? &good
                         : failed ? &bad
                                  : &yellow,
                         bl_buffer_text(&note));
    bl_buffer_done(&note);
    if (call->reason.size > 0)
        chat_paragraph(frame, "  ", call->reason, &yellow);
    if (ok && is_change(call) && call->input != NULL)
        write_change(call, frame);
    if (ok && chat_call_is_tool(call->name.data, "todo"))
        write_todos(call, frame);
    if (!is_reading(call->name.data) && !is_change(call))
        chat_output_summary(&call->output, frame, 2);
    if (failed && (call->output.count == 0 || is_reading(call->name.data) || is_change(call)))
        write_failure(end->text, frame);
    if (call->receipt.size > 0)
        chat_receipt(call->receipt, false, frame, 2);
}
