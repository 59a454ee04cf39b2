#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "parts.h"

/* A command is one argument of a program, and the system takes none longer than 128 KiB. */
#define COMMAND_MAX ((size_t)120 * 1000)
#define PATH_SIZE   ((size_t)4096)
/* Of notes below the output. */
#define NOTE_MAX ((size_t)256)

/* One call under way. On the heap: a fiber's stack is small. */
struct bash_run {
    struct bl_toolbox *toolbox;
    const struct bl_tool_call *call;
    struct tool_running running;
    struct output_filter filter;
    struct bl_buffer piece;    /* what is told now */
    struct bl_capture counted; /* keeps nothing: the valid text is kept, not what came */
    struct bl_capture text;
    struct bl_warden_end end;
    uint64_t started_ns;
    int64_t timeout_ms; /* 0: none */
    bool timed_out;     /* by its own limit, and not by a stop of the call */
};

/* ---- The shell ------------------------------------------------------------------------------- */

static bool in_path(const char *name)
{
    struct bl_text path = bl_text_from(getenv("PATH")), folder;
    char *file = bl_alloc(PATH_SIZE);
    bool found = false;
    while (!found && bl_text_split(&path, ':', &folder)) {
        int size = snprintf(file, PATH_SIZE, BL_TEXT_FORMAT "/%s", BL_TEXT_ARG(folder), name);
        found = folder.size > 0 && (size_t)size < PATH_SIZE && access(file, X_OK) == 0;
    }
    bl_free(file);
    return found;
}

const char *tool_shell_find(void)
{
    return in_path("bash") ? "bash" : "sh";
}

static const char *bash_describe(const struct bl_toolbox *toolbox)
{
#define DESCRIPTION(shell)                                                                         \
    "Runs a command with " shell " in the workspace and answers with what it prints (standard "    \
    "output and error together) and how it ended. Each call is a new shell, without a terminal "   \
    "and with nothing on standard input. Processes that it leaves behind are stopped. Long "       \
    "output is shortened in the middle. 'timeout_ms' limits the time of this call."
    return strcmp(toolbox->shell, "bash") == 0 ? DESCRIPTION("bash")
                                               : DESCRIPTION("sh (bash is not installed here)");
#undef DESCRIPTION
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void tell(struct bash_run *run)
{
    struct bl_text text = bl_buffer_text(&run->piece);
    if (text.size == 0)
        return;
    bl_capture_add(&run->text, text);
    run->call->output(run->call, text);
    bl_buffer_clear(&run->piece);
}

static void take_output(void *context, struct bl_text bytes)
{
    struct bash_run *run = context;
    output_filter_add(&run->filter, bytes, &run->piece);
    tell(run);
}

/* ---- The result ------------------------------------------------------------------------------ */

static int note(char *out, size_t size, const char *format, ...) BL_PRINTF(3, 4);

/* One line more; returns its length. */
static int note(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out, size, format, arguments);
    va_end(arguments);
    return length < 0 || size == 0 ? 0 : (size_t)length < size ? length : (int)size - 1;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "process" : "processes";
}

static int note_stop(const struct bash_run *run, char *out, size_t size)
{
    struct bl_stop stop;
    char duration[32];
    bl_duration_format((int64_t)(bl_now_ns() - run->started_ns), duration);
    if (run->timed_out)
        return note(out, size, "timed out after %" PRId64 " ms\n", run->timeout_ms);
    bl_scope_stop_read(run->call->scope, &stop);
    return note(out, size, "stopped after %s: %s%s%s%s\n", duration,
                bl_stop_reason_name(stop.reason), stop.origin[0] != '\0' ? " (" : "", stop.origin,
                stop.origin[0] != '\0' ? ")" : "");
}

static int note_signal(const struct bl_warden_end *end, char *out, size_t size)
{
    const char *name = sigabbrev_np(end->status);
    const char *core = end->core_dumped ? " (core dumped)" : "";
    return name != NULL ? note(out, size, "killed by SIG%s%s\n", name, core)
                        : note(out, size, "killed by signal %d%s\n", end->status, core);
}

static int note_end(const struct bash_run *run, char *out, size_t size)
{
    const struct bl_warden_end *end = &run->end;
    switch (end->how) {
    case BL_END_EXITED:
        return end->status == 0 ? 0 : note(out, size, "exit code %d\n", end->status);
    case BL_END_SIGNALED: return note_signal(end, out, size);
    case BL_END_STOPPED: return note_stop(run, out, size);
    case BL_END_LIMIT: return note(out, size, "stopped: too many processes\n");
    case BL_END_LOST: return note(out, size, "cut off: the process that held it was killed\n");
    }
    return 0;
}

/* Output, then a line for each thing that is not as it should be. */
static void fill_result(struct bash_run *run, struct bl_tool_result *ret_result)
{
    const struct bl_warden_end *end = &run->end;
    struct bl_arena *arena = run->call->arena;
    struct bl_buffer text, valid;
    struct output_filter filter = {0};
    char notes[NOTE_MAX];
    int size = note_end(run, notes, sizeof notes);
    if (end->left_behind > 0)
        size += note(notes + size, sizeof notes - (size_t)size,
                     "left behind and stopped: %" PRIu32 " %s\n", end->left_behind,
                     plural(end->left_behind));
    if (end->survivors > 0)
        size +=
            note(notes + size, sizeof notes - (size_t)size,
                 "could not be stopped: %" PRIu32 " %s\n", end->survivors, plural(end->survivors));
    bl_buffer_init(&text, SIZE_MAX);
    bl_buffer_init(&valid, SIZE_MAX);
    bl_capture_text(&run->text, &text);
    /* What was left out of the middle may have begun or ended inside of a character. */
    output_filter_add(&filter, bl_buffer_text(&text), &valid);
    output_filter_end(&filter, &valid);
    if (size > 0 && valid.size > 0 && valid.data[valid.size - 1] != '\n')
        bl_buffer_append_byte(&valid, '\n');
    if (size > 0)
        bl_buffer_append(&valid, (struct bl_text){notes, (size_t)size - 1});
    ret_result->text = bl_arena_text(arena, bl_buffer_text(&valid));
    ret_result->is_error = end->how != BL_END_EXITED || end->status != 0;
    bl_buffer_done(&valid);
    bl_buffer_done(&text);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* The command with its sandbox, in a warden, in the running fiber's scope. */
static int run_command(struct bash_run *run, struct bl_error *error)
{
    const struct bl_toolbox *toolbox = run->toolbox;
    const struct bl_tool_call *call = run->call;
    struct bl_text text = bl_json_text(bl_json_get(call->input, BL_TEXT("command")));
    const char *const arguments[] = {toolbox->shell, "-c", text.data, NULL};
    struct bl_command command = {
        .options = {.environment = bl_environment_scrub(call->arena, NULL, toolbox->hidden, NULL),
                    .directory = toolbox->workspace,
                    .input = -1,
                    .container = toolbox->container,
                    .grace_ms = run->running.control.hurry ? 0 : toolbox->grace_ms},
        .kind = BL_UNIT_TOOL,
        .id = call->id,
        .name = call->name,
        .capture = &run->counted,
        .on_output = take_output,
        .context = run,
        .control = &run->running.control,
    };
    int code = bl_sandbox_wrap(call->arena, toolbox->sandbox, toolbox->workspace, toolbox->network,
                               arguments, &command.options.arguments, error);
    if (code == 0)
        code = bl_command_run(&command, &run->end, error);
    output_filter_end(&run->filter, &run->piece);
    tell(run);
    return code;
}

/* The same with the time limit of the call's own input around it. */
static int run_timed(struct bash_run *run, struct bl_error *error)
{
    struct bl_scope timed, *outer;
    if (run->timeout_ms == 0)
        return run_command(run, error);
    uint64_t timeout_ns = (uint64_t)run->timeout_ms > BL_NEVER / BL_NS_PER_MS
                              ? BL_NEVER
                              : (uint64_t)run->timeout_ms * BL_NS_PER_MS;
    bl_scope_init(&timed, run->call->scope);
    bl_scope_set_deadline(&timed, bl_time_add(bl_now_ns(), timeout_ns));
    outer = bl_scope_enter(&timed);
    int code = run_command(run, error);
    bl_scope_enter(outer);
    bl_scope_done(&timed);
    run->timed_out = code == BL_ETIMEDOUT && bl_scope_check(run->call->scope) == 0;
    return run->timed_out ? 0 : code;
}

/* A command that cannot be started, because the workspace is gone, say, is the model's to mend. */
static bool is_result(int code, const struct bl_error *error)
{
    return code != 0 && code != BL_ECANCELED && code != BL_ETIMEDOUT && error->code != 0 &&
           (error->kind == BL_KIND_TOOL || error->kind == BL_KIND_FILESYSTEM);
}

static int bash_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct bash_run *run = bl_zalloc(sizeof *run);
    run->toolbox = toolbox;
    run->call = call;
    run->started_ns = bl_now_ns();
    run->running.control.hurry = toolbox->hurry;
    bl_json_int64(bl_json_get(call->input, BL_TEXT("timeout_ms")), &run->timeout_ms);
    bl_capture_init(&run->counted, 0);
    bl_capture_init(&run->text, toolbox->output_max);
    bl_buffer_init(&run->piece, SIZE_MAX);
    bl_list_push_back(&toolbox->running, &run->running.link);
    int code = run_timed(run, error);
    bl_list_remove(&run->running.link);
    *ret_result = (struct bl_tool_result){.is_error = true};
    if (is_result(code, error)) {
        ret_result->text = bl_arena_printf(call->arena, "cannot start: %s", error->message);
        *error = (struct bl_error){0};
        code = 0;
    } else {
        fill_result(run, ret_result);
    }
    bl_buffer_done(&run->piece);
    bl_capture_done(&run->text);
    bl_capture_done(&run->counted);
    bl_free(run);
    return code;
}

static const char *bash_check(const struct bl_json *input)
{
    struct bl_text command = bl_json_text(bl_json_get(input, BL_TEXT("command")));
    if (memchr(command.data, '\0', command.size) != NULL)
        return "the command holds a NUL, at which a shell would end it";
    if (command.size > COMMAND_MAX)
        return "the command is longer than 120,000 bytes (write a file, and run that)";
    return NULL;
}

const struct tool_entry tool_bash = {
    .name = "bash",
    .subject = "command",
    .command = true,
    .schema = "{\"type\":\"object\",\"properties\":{"
              "\"command\":{\"type\":\"string\",\"minLength\":1,"
              "\"description\":\"What to run, as a shell takes it.\"},"
              "\"timeout_ms\":{\"type\":\"integer\",\"minimum\":1,"
              "\"description\":\"Stop it after so many milliseconds.\"}},"
              "\"required\":[\"command\"],\"additionalProperties\":false}",
    .describe = bash_describe,
    .check = bash_check,
    .call = bash_call,
};
