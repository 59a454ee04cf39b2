#include <unistd.h>

#include "run.h"

#define OPERATION  "read the prompt"
#define PROMPT_MAX ((size_t)64 * 1024 * 1024)

int run_prompt_check(struct bl_text prompt, struct bl_error *error)
{
    size_t valid = bl_utf8_valid_prefix(prompt, NULL);
    const char *nul = memchr(prompt.size > 0 ? prompt.data : "", '\0', prompt.size);

    if (nul != NULL && (size_t)(nul - prompt.data) < valid)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "PROMPT",
                            "the prompt holds a NUL byte, at byte %zu",
                            (size_t)(nul - prompt.data));
    if (valid != prompt.size)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "PROMPT",
                            "the prompt is not valid UTF-8 from byte %zu on", valid);
    if (bl_text_trim(prompt).size > 0)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "PROMPT", "the prompt is empty");
    bl_error_hint(error, "give one as an argument, or on standard input");
    return BL_EINVAL;
}

/* All of standard input, read on a thread: it may never end. */
struct prompt_input {
    struct bl_buffer bytes;
    const char *why;
    int code;
};

static void prompt_input_read(void *payload)
{
    struct prompt_input *input = payload;

    input->code = bl_descriptor_load(STDIN_FILENO, PROMPT_MAX, &input->bytes, &input->why);
}

static void prompt_input_free(void *payload)
{
    struct prompt_input *input = payload;

    bl_buffer_done(&input->bytes);
    bl_free(input);
}

static int prompt_take(const struct prompt_input *input, struct bl_arena *arena,
                       struct bl_text *ret_prompt, struct bl_error *error)
{
    if (input->code == BL_ELIMIT)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, OPERATION, "standard input",
                            "the prompt has more than %zu MiB", PROMPT_MAX >> 20);
    if (input->code != 0)
        return bl_error_set(error, input->code, BL_KIND_FILESYSTEM, OPERATION, "standard input",
                            "cannot read standard input: %s", input->why);
    int code = run_prompt_check(bl_buffer_text(&input->bytes), error);
    if (code == 0)
        *ret_prompt = bl_arena_text(arena, bl_buffer_text(&input->bytes));
    return code;
}

int run_prompt_read(const struct run_options *options, struct bl_arena *arena,
                    struct bl_text *ret_prompt, struct bl_error *error)
{
    if (options->prompt != NULL || options->converses) {
        *ret_prompt = bl_text_from(options->prompt);
        return 0;
    }
    struct prompt_input *input = bl_zalloc(sizeof *input);
    struct bl_work job = {
        .run = prompt_input_read,
        .drop = prompt_input_free,
        .payload = input,
        .abandon_on_stop = true,
    };
    bool abandoned;

    int code = bl_work_call(&job, &abandoned);
    if (code == 0)
        code = prompt_take(input, arena, ret_prompt, error);
    if (!abandoned)
        prompt_input_free(input);
    return code;
}
