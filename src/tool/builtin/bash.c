#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tool/parts.h"

/* A command is one argument of a program, which the system limits to 128 KiB. */
#define COMMAND_MAX ((size_t)120 * 1000)
#define PATH_SIZE   ((size_t)4096)
/* Size of the notes below the output. */
#define NOTE_MAX ((size_t)512)

/* A running call. On the heap: a fiber's stack is small. */
struct bash_run {
    struct bl_toolbox *toolbox;
    const struct bl_tool_call *call;
    const struct tool_bash_input *input;
    struct tool_running running;
    struct output_text output;
    struct bl_capture counted; /* keeps nothing: the valid text is kept instead of the raw bytes */
    struct bl_warden_end end;
    uint64_t started_ns;
    bool timed_out; /* by its own timeout, not by a stop of the call */
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
    "Runs a command with " shell " in the workspace and returns its output (standard output and "  \
    "standard error combined) and how it ended. Each call starts a new shell, without a "          \
    "terminal and with empty standard input. Processes left running when the command exits are "   \
    "stopped. Long output is truncated in the middle. 'timeout_ms' limits the duration of the "    \
    "call. With 'background': true, the call returns a job id immediately, and the command keeps " \
    "running after this turn, as suits servers and watchers: {\"job\": ID} returns the output "    \
    "since the last read and whether the job is still running, {\"job\": ID, \"stop\": true} "     \
    "stops it."
    return strcmp(toolbox->shell, "bash") == 0 ? DESCRIPTION("bash")
                                               : DESCRIPTION("sh (bash is not installed here)");
#undef DESCRIPTION
}

/* ---- Notes below the output ------------------------------------------------------------------ */

static size_t bash_note(char *out, size_t size, const char *format, ...) BL_PRINTF(3, 4);

/* Appends one line; returns its length. */
static size_t bash_note(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out, size, format, arguments);
    va_end(arguments);
    return length < 0 || size == 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

static const char *bash_plural(uint64_t count)
{
    return count == 1 ? "process" : "processes";
}

size_t tool_stop_note(const struct bl_scope *scope, uint64_t started_ns, char *out, size_t size)
{
    struct bl_stop stop;
    char duration[32];
    bl_duration_format((int64_t)(bl_now_ns() - started_ns), duration);
    bl_scope_stop_read(scope, &stop);
    return bash_note(out, size, "stopped after %s: %s%s%s%s\n", duration,
                     bl_stop_reason_name(stop.reason), stop.origin[0] != '\0' ? " (" : "",
                     stop.origin, stop.origin[0] != '\0' ? ")" : "");
}

size_t tool_command_note(const struct bl_warden_end *end, char *out, size_t size)
{
    const char *core = end->core_dumped ? " (core dumped)" : "", *name;
    switch (end->how) {
    case BL_END_EXITED:
        return end->status == 0 ? 0 : bash_note(out, size, "exit code %d\n", end->status);
    case BL_END_SIGNALED:
        name = sigabbrev_np(end->status);
        return name != NULL ? bash_note(out, size, "killed by SIG%s%s\n", name, core)
                            : bash_note(out, size, "killed by signal %d%s\n", end->status, core);
    case BL_END_STOPPED: return 0;
    case BL_END_LIMIT: return bash_note(out, size, "stopped: too many processes\n");
    case BL_END_LOST: return bash_note(out, size, "interrupted: its warden was killed\n");
    }
    return 0;
}

static size_t note_end(const struct bash_run *run, char *out, size_t size)
{
    char duration[32];
    if (run->end.how != BL_END_STOPPED)
        return tool_command_note(&run->end, out, size);
    if (run->timed_out) {
        tool_timeout_format(run->input->timeout_ms, duration);
        return bash_note(out, size, "timed out after %s\n", duration);
    }
    return tool_stop_note(run->call->scope, run->started_ns, out, size);
}

/* Fills in the output, then a line for each irregularity. */
static void bash_fill_result(struct bash_run *run, struct bl_tool_result *ret_result)
{
    const struct bl_warden_end *end = &run->end;
    BL_AUTO_BUFFER(text, SIZE_MAX);
    char notes[NOTE_MAX];
    size_t size = note_end(run, notes, sizeof notes);
    if (end->left_behind > 0)
        size += bash_note(notes + size, sizeof notes - size,
                          "left running and stopped: %" PRIu32 " %s\n", end->left_behind,
                          bash_plural(end->left_behind));
    if (end->survivors == BL_SURVIVORS_UNKNOWN)
        size += bash_note(notes + size, sizeof notes - size,
                          "could not verify that nothing is left running: %s\n", end->unverified);
    else if (end->survivors > 0)
        size +=
            bash_note(notes + size, sizeof notes - size, "could not be stopped: %" PRIu32 " %s\n",
                      end->survivors, bash_plural(end->survivors));
    const char *planted = tool_sandbox_sweep(run->toolbox);
    if (planted != NULL)
        size += bash_note(
            notes + size, sizeof notes - size,
            "removed commondir from %.120s: Git would use it outside of the sandbox\n", planted);
    output_text_write(&run->output, &text);
    if (size > 0 && text.size > 0 && text.data[text.size - 1] != '\n')
        bl_buffer_append_byte(&text, '\n');
    if (size > 0)
        bl_buffer_append(&text, (struct bl_text){notes, size - 1});
    ret_result->text = bl_arena_text(run->call->arena, bl_buffer_text(&text));
    ret_result->is_error = end->how != BL_END_EXITED || end->status != 0;
}

/* ---- The call -------------------------------------------------------------------------------- */

int tool_command_prepare(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                         struct bl_text text, struct bl_command *ret_command,
                         struct bl_error *error)
{
    const char *const arguments[] = {toolbox->shell, "-c", text.data, NULL};
    *ret_command = (struct bl_command){
        .options = {.environment = tool_environment(toolbox, arena),
                    .directory = toolbox->workspace,
                    .input = -1,
                    .container = toolbox->container,
                    .grace_ms = toolbox->hurry ? 0 : toolbox->grace_ms},
        .kind = BL_UNIT_TOOL,
    };
    return tool_sandbox_wrap(toolbox, arena, arguments, &ret_command->options.arguments, error);
}

bool tool_command_refused(int code, const struct bl_error *error)
{
    return code != 0 && code != BL_ECANCELED && code != BL_ETIMEDOUT && error->code != 0 &&
           (error->kind == BL_KIND_TOOL || error->kind == BL_KIND_FILESYSTEM);
}

static void bash_tell(struct bash_run *run, struct bl_text text)
{
    if (text.size > 0)
        run->call->output(run->call, text);
}

static void bash_take_output(void *context, struct bl_text bytes)
{
    struct bash_run *run = context;
    bash_tell(run, output_text_add(&run->output, bytes));
}

/* Runs the command with its sandbox, in a warden, in the running fiber's scope. */
static int bash_run_command(struct bash_run *run, struct bl_error *error)
{
    const struct bl_tool_call *call = run->call;
    struct bl_command command;
    int code =
        tool_command_prepare(run->toolbox, call->arena, run->input->command, &command, error);
    command.id = call->id;
    command.name = call->name;
    command.capture = &run->counted;
    command.on_output = bash_take_output;
    command.context = run;
    command.control = &run->running.control;
    if (code == 0)
        code = bl_command_run(&command, &run->end, error);
    bash_tell(run, output_text_end(&run->output));
    return code;
}

/* The same under the timeout of the call's own input. */
static int bash_run_timed(struct bash_run *run, struct bl_error *error)
{
    struct bl_scope timed, *outer;
    if (run->input->timeout_ms == 0)
        return bash_run_command(run, error);
    bl_scope_init(&timed, run->call->scope);
    bl_scope_set_deadline(&timed, tool_deadline_ns(run->input->timeout_ms));
    outer = bl_scope_enter(&timed);
    int code = bash_run_command(run, error);
    bl_scope_enter(outer);
    bl_scope_done(&timed);
    run->timed_out = code == BL_ETIMEDOUT && bl_scope_check(run->call->scope) == 0;
    return run->timed_out ? 0 : code;
}

static int bash_run_here(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                         const struct tool_bash_input *input, struct bl_tool_result *ret_result,
                         struct bl_error *error)
{
    struct bash_run *run = bl_zalloc(sizeof *run);
    run->toolbox = toolbox;
    run->call = call;
    run->input = input;
    run->started_ns = bl_now_ns();
    run->running.control.hurry = toolbox->hurry;
    bl_capture_init(&run->counted, 0);
    output_text_init(&run->output, toolbox->output_max);
    bl_list_push_back(&toolbox->running, &run->running.link);
    int code = bash_run_timed(run, error);
    bl_list_remove(&run->running.link);
    *ret_result = (struct bl_tool_result){.is_error = true};
    if (tool_command_refused(code, error)) {
        ret_result->text = bl_arena_printf(call->arena, "cannot start: %s", error->message);
        *error = (struct bl_error){0};
        code = 0;
    } else {
        bash_fill_result(run, ret_result);
    }
    output_text_done(&run->output);
    bl_capture_done(&run->counted);
    bl_free(run);
    return code;
}

static int bash_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                     struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct tool_bash_input input;
    bl_record_take(call->arena, &tool_bash_input, call->input, &input);
    if (input.job.size > 0)
        return job_call(toolbox, call, &input, ret_result);
    if (input.background)
        return job_begin(toolbox, call, &input, ret_result, error);
    return bash_run_here(toolbox, call, &input, ret_result, error);
}

uint64_t tool_deadline_ns(int64_t timeout_ms)
{
    uint64_t timeout_ns = (uint64_t)timeout_ms > BL_NEVER / BL_NS_PER_MS
                              ? BL_NEVER
                              : (uint64_t)timeout_ms * BL_NS_PER_MS;
    return bl_time_add(bl_now_ns(), timeout_ns);
}

void tool_timeout_format(int64_t timeout_ms, char out[32])
{
    int64_t most_ms = INT64_MAX / (int64_t)BL_NS_PER_MS;
    bl_duration_format((timeout_ms < most_ms ? timeout_ms : most_ms) * (int64_t)BL_NS_PER_MS, out);
}

/* Requires either a command or a job. The schema cannot express that: providers reject schemas that
 * begin with a choice. */
static const char *bash_check(const void *given)
{
    const struct tool_bash_input *input = given;
    struct bl_text command = input->command;
    if (input->job.size > 0 && command.size > 0)
        return "'command' and 'job' are mutually exclusive";
    if (input->job.size > 0)
        return input->timeout_ms > 0 || input->background
                   ? "'timeout_ms' and 'background' require 'command', not 'job'"
                   : NULL;
    if (command.size == 0)
        return "missing 'command' or 'job'";
    if (input->stop)
        return "'stop' requires 'job'";
    if (memchr(command.data, '\0', command.size) != NULL)
        return "the command contains a NUL byte";
    if (command.size > COMMAND_MAX)
        return "the command is longer than 120,000 bytes (write it to a file, and run the file)";
    return NULL;
}

#define BL_RECORD_STRUCT struct tool_bash_input
static const struct bl_member bash_members[] = {
    BL_MEMBER_TEXT("command", command, .optional = true, .least = 1,
                   .about = "Shell command to run."),
    BL_MEMBER_INTEGER("timeout_ms", timeout_ms, .optional = true, .least = 1,
                      .about = "Timeout in milliseconds."),
    BL_MEMBER_BOOLEAN("background", background, .optional = true,
                      .about = "Run in the background, and return a job id immediately."),
    BL_MEMBER_TEXT("job", job, .optional = true, .least = 1,
                   .about = "Instead of a command: id of the job whose new output to read."),
    BL_MEMBER_BOOLEAN("stop", stop, .optional = true, .about = "Stop that job."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_bash_input =
    BL_RECORD("input of bash", struct tool_bash_input, bash_members, .closed = true);

const struct tool_entry tool_bash = {
    .name = "bash",
    .subject = offsetof(struct tool_bash_input, command),
    .kind = SUBJECT_COMMAND,
    .input = &tool_bash_input,
    .describe = bash_describe,
    .check = bash_check,
    .call = bash_call,
};
