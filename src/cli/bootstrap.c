#include "bootstrap.h"

#include <belay/proc.h>

#define GIT_NS_MAX     (2 * BL_NS_PER_S)
#define GIT_OUTPUT_MAX 4096u
#define REPORT_MAX     ((size_t)1024 * 1024 * 1024)

const char cli_bootstrap_help[] =
    "Usage: belay bootstrap [OPTION]... PROMPT|-\n"
    "\n"
    "Reports everything that a session starts with (workspace, instructions, tools,\n"
    "provider, limits, containment, what the prompt matches), runs the first turn,\n"
    "and keeps it. It is stopped as 'belay run' is.\n"
    "\n"
    "Options:\n" RUN_SHARED_HELP
    "      --output-format FORMAT  text (the default), or json: one line, as in\n"
    "                              docs/schemas/bootstrap.json\n"
    "      --json                  the same as --output-format json\n" RUN_ENDING_HELP "Examples:\n"
    "  belay bootstrap 'say hello'\n"
    "  belay bootstrap --json --provider script:demo.yaml 'say hello'\n";

const struct option cli_bootstrap_options[] = {
    RUN_SHARED_OPTIONS,
    {0},
};

/* ---- git ------------------------------------------------------------------------------------- */

/* What git prints, in the arena. False: it is not there, this is no repository, or it takes too
 * long. */
static bool ask_git(struct run_work *work, const char *const *arguments, struct bl_text *ret_output)
{
    struct bl_capture capture;
    struct bl_warden_end end;
    struct bl_buffer output;
    struct bl_scope limit;
    struct bl_error error = {0};
    struct bl_command command = {
        .options = {.arguments = arguments,
                    .directory = work->options->directory,
                    .input = -1,
                    .output = -1,
                    .error = -1},
        .kind = BL_UNIT_COMMAND,
        .id = "git",
        .name = "git",
        .capture = &capture,
    };

    bl_capture_init(&capture, GIT_OUTPUT_MAX);
    bl_buffer_init(&output, 2 * (size_t)GIT_OUTPUT_MAX);
    bl_scope_init(&limit, bl_scope_current());
    bl_scope_set_deadline(&limit, bl_time_add(bl_now_ns(), GIT_NS_MAX));
    struct bl_scope *outer = bl_scope_enter(&limit);
    int code = bl_command_run(&command, &end, &error);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    bool known = code == 0 && end.how == BL_END_EXITED && end.status == 0;
    if (known && bl_capture_text(&capture, &output) == 0)
        *ret_output = bl_arena_text(&work->arena, bl_text_trim(bl_buffer_text(&output)));
    bl_buffer_done(&output);
    bl_capture_done(&capture);
    return known;
}

static void look_at_git(struct run_work *work, struct bootstrap *bootstrap)
{
    /* Without its locks, so that nobody who works here is disturbed. */
    static const char *const status[] = {"git",         "--no-optional-locks",      "status",
                                         "--porcelain", "--untracked-files=normal", NULL};
    static const char *const branch[] = {"git", "symbolic-ref", "--quiet", "--short", "HEAD", NULL};
    struct bl_text output = {0};

    bootstrap->git_known = ask_git(work, status, &output);
    bootstrap->git_dirty = output.size > 0;
    /* A detached head has no branch. */
    if (bootstrap->git_known && ask_git(work, branch, &output) && bl_utf8_valid(output))
        bootstrap->git_branch = output.data;
}

/* ---- The face -------------------------------------------------------------------------------- */

static void before(struct run_work *work)
{
    struct bootstrap *bootstrap = work->context;

    look_at_git(work, bootstrap);
    struct bl_tools tools = run_tools(work);

    bl_route(&work->arena, run_prompt(work), &tools, &bootstrap->matches);
}

static void report(struct run_work *work)
{
    bool failed = work->error.code != 0;
    struct bl_buffer out;

    work->exit_code = run_exit_code(work);
    if (work->call->format != CLI_FORMAT_TEXT) {
        run_write_envelope(work, failed ? cli_error_payload : bootstrap_payload,
                           failed ? (const void *)&work->error : work);
        return;
    }
    if (failed)
        return;
    bl_buffer_init(&out, REPORT_MAX);
    bootstrap_text(&out, work);
    cli_stream_write(&work->stream, bl_buffer_text(&out));
    bl_buffer_done(&out);
}

static const struct run_face face = {
    .name = "bootstrap",
    .before = before,
    .report = report,
    .remark = run_remark_end,
};

static int probe_and_run(struct cli_call *call, const struct run_options *options)
{
    struct bootstrap bootstrap = {0};
    struct bl_container_check check;

    bl_list_init(&bootstrap.matches);
    /* Asked again for the report, it answers from memory, and starts nothing in the loop. */
    if (options->container == BL_MECHANISM_NONE)
        bl_container_check(BL_MECHANISM_CGROUP2, &check);
    return run_work_do(call, options, &face, &bootstrap);
}

int cli_bootstrap_run(struct cli_call *call)
{
    struct run_options options;
    struct bl_error error = {0};
    int exit_code;

    int code = run_options_parse(call, false, &options, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = probe_and_run(call, &options);
    run_options_done(&options);
    return exit_code;
}
