#include "script.h"

static int fail_load(const char *path, int code, const char *why, struct bl_error *error)
{
    bl_error_set(error, code, BL_KIND_FILESYSTEM, SCRIPT_OPERATION, path,
                 "cannot read script '%.300s': %s", path,
                 code == BL_ELIMIT ? "it is larger than 16 MiB" : why);
    bl_error_hint(error, "%s",
                  code == BL_ELIMIT || code == BL_EINVAL
                      ? "name a script file"
                      : "check the path; it is relative to the working directory");
    return code;
}

int bl_script_load(const char *path, struct bl_script **ret_script, struct bl_error *error)
{
    struct bl_buffer source;
    const char *why;
    int result = bl_file_load(path, SCRIPT_SIZE_MAX, &source, &why);

    if (result != 0)
        result = fail_load(path, result, why, error);
    else
        result = bl_script_parse(bl_buffer_text(&source), path, ret_script, error);
    bl_buffer_done(&source);
    return result;
}
