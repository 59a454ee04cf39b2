#include "tool/parts.h"

struct write_job {
    struct file_job file;
    struct bl_text content;
};

static int write_run(void *payload, const atomic_bool *stopped)
{
    struct write_job *job = payload;
    struct bl_arena *arena = &job->file.arena;
    struct file_replaced replaced;
    struct tool_path path;
    if (!file_job_resolve(&job->file, PATH_WRITE, &path))
        return 0;
    int code = file_replace(&job->file, &path, job->content, NULL, stopped, &replaced);
    if (code != 0 || job->file.is_error)
        return code;
    const char *shown = tool_path_show(arena, path.shown);
    const char *size = file_size_text(arena, job->content.size);
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
    struct write_job *job = file_job_new(sizeof *job, toolbox, call);
    job->content = file_job_text(&job->file, call, "content");
    return file_job_call(&job->file, write_run, "nothing was changed", call, ret_result, error);
}

const struct tool_entry tool_write = {
    .name = "write",
    .subject = "path",
    .kind = SUBJECT_PATH,
    .schema = "{\"type\":\"object\",\"properties\":{"
              "\"path\":{\"type\":\"string\",\"minLength\":1,"
              "\"description\":\"The file, relative to the workspace or absolute.\"},"
              "\"content\":{\"type\":\"string\","
              "\"description\":\"All that the file is to hold.\"}},"
              "\"required\":[\"path\",\"content\"],\"additionalProperties\":false}",
    .description =
        "Writes a whole file of the workspace: makes it, with the folders that are missing, or "
        "replaces all that is in it, in one step. To change a part of a file use edit.",
    .call = builtin_write_call,
};
