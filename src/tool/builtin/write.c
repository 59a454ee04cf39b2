#include "tool/parts.h"

struct write_job {
    struct file_job file;
    struct tool_write_input input;
};

static int write_run(void *payload, const atomic_bool *stopped)
{
    struct write_job *job = payload;
    struct bl_arena *arena = &job->file.arena;
    struct file_replaced replaced;
    struct tool_path path;
    if (!file_job_resolve(&job->file, PATH_WRITE, &path))
        return 0;
    int code = file_replace(&job->file, &path, job->input.content, NULL, stopped, &replaced);
    if (code != 0 || job->file.is_error)
        return code;
    const char *shown = tool_path_show(arena, path.shown);
    const char *size = file_size_text(arena, job->input.content.size);
    if (replaced.existed)
        bl_buffer_printf(&job->file.out, "Overwrote '%s': %s (before: %s).", shown, size,
                         file_size_text(arena, replaced.size_before));
    else
        bl_buffer_printf(&job->file.out, "Created '%s': %s.", shown, size);
    return 0;
}

static int builtin_write_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                              struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct write_job *job = file_job_new(sizeof *job, toolbox);
    file_job_read(&job->file, call, &tool_write_input, &job->input, &job->input.path);
    return file_job_call(&job->file, write_run, "nothing was changed", call, ret_result, error);
}

#define BL_RECORD_STRUCT struct tool_write_input
static const struct bl_member write_members[] = {
    BL_MEMBER_TEXT("path", path, .least = 1,
                   .about = "Path of the file, relative to the workspace or absolute."),
    BL_MEMBER_TEXT("content", content, .about = "The complete new content of the file."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record tool_write_input =
    BL_RECORD("input of write", struct tool_write_input, write_members, .closed = true);

const struct tool_entry tool_write = {
    .name = "write",
    .subject = offsetof(struct tool_write_input, path),
    .kind = SUBJECT_PATH,
    .input = &tool_write_input,
    .description = "Writes a whole file of the workspace, atomically: creates it, with missing "
                   "folders, or replaces its content. To change a part of a file, use edit.",
    .call = builtin_write_call,
};
