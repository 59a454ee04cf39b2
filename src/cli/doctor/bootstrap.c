#include "bootstrap.h"

#include <belay/git.h>
#include <belay/proc.h>

#include "cli/answers.h"

#define GIT_NS_MAX (2 * BL_NS_PER_S)
#define REPORT_MAX ((size_t)1024 * 1024 * 1024)

/* ---- git ------------------------------------------------------------------------------------- */

/* Runs git and returns its output in the arena. Returns false if git is not installed, the folder
 * is not in a repository, or git takes too long. */
static bool ask_git(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                    const char *const *arguments, struct bl_text *ret_output)
{
    struct bl_git_answer answer;
    struct bl_scope limit;

    bl_limit_begin(&limit, GIT_NS_MAX);
    int code = bl_git_run(git, arena, call, arguments, &answer, NULL);
    bl_limit_end(&limit);
    if (code != 0 || answer.status != 0)
        return false;
    *ret_output = bl_text_trim(answer.output);
    return true;
}

/* Finds the repository of the directory: both paths, with a single git process. */
static bool find_repository(struct bl_git *git, struct bl_arena *arena, struct bl_git_call *call)
{
    struct bl_text output, folder;

    if (!ask_git(git, arena, call,
                 BL_GIT_ARGUMENTS("rev-parse", "--absolute-git-dir", "--show-toplevel"), &output) ||
        !bl_text_split(&output, '\n', &folder) || output.size == 0)
        return false;
    call->folder = bl_arena_text(arena, folder).data;
    call->directory = bl_arena_text(arena, output).data;
    return true;
}

static void look_at_git(struct run_work *work, struct bootstrap *bootstrap)
{
    struct bl_arena *arena = &work->arena;
    struct bl_git_call call = {.operation = "look at the repository",
                               .directory = work->options->workspace.directory};
    struct bl_text output = {0};
    struct bl_git git;

    bl_git_init(&git);
    bool known =
        find_repository(&git, arena, &call) &&
        ask_git(&git, arena, &call,
                BL_GIT_ARGUMENTS("status", "--porcelain", "--untracked-files=normal"), &output);
    bootstrap->git_dirty = known ? output.size > 0 : -1;
    /* A detached head has no branch. */
    if (known &&
        ask_git(&git, arena, &call, BL_GIT_ARGUMENTS("symbolic-ref", "--quiet", "--short", "HEAD"),
                &output) &&
        bl_utf8_valid(output))
        bootstrap->git_branch = bl_arena_text(arena, output).data;
    bl_git_done(&git);
}

/* ---- The command ----------------------------------------------------------------------------- */

static void before(struct run_work *work)
{
    struct bootstrap *bootstrap = work->context;

    look_at_git(work, bootstrap);
    struct bl_tools tools = run_tools(work);

    bl_route(&work->arena, work->prompt, &tools, &bootstrap->matches);
}

static void doctor_bootstrap_report(struct run_work *work)
{
    struct bootstrap *bootstrap = work->context;
    bool failed = work->error.code != 0, text = work->call->format == CLI_FORMAT_TEXT;
    BL_AUTO_BUFFER(out, REPORT_MAX);

    work->exit_code = run_exit_code(work);
    if (!failed)
        bootstrap_fill(bootstrap, work);
    if (failed && !text)
        run_answer_stream(work, &cli_failure_record, &work->error);
    else if (!failed && !text)
        run_answer_stream(work, &bootstrap_answer.record, bootstrap);
    else if (!failed) {
        bootstrap_text(&out, bootstrap);
        cli_stream_say(&work->stream, bl_buffer_text(&out));
    }
}

static const struct run_face face = {
    .name = "bootstrap",
    .before = before,
    .report = doctor_bootstrap_report,
    .remark = run_remark_end,
};

static int probe_and_run(struct cli_call *call, const struct run_options *options)
{
    struct bootstrap bootstrap = {.git_dirty = -1};
    struct bl_container_check check;

    bl_list_init(&bootstrap.matches);
    /* The result is cached, so that the report starts no process in the loop. */
    if (options->workspace.container == BL_MECHANISM_NONE)
        bl_container_check(BL_MECHANISM_CGROUP2, &check);
    return run_work_do(call, options, &face, &bootstrap);
}

int cli_bootstrap_run(struct cli_call *call)
{
    return run_command(call, probe_and_run);
}
