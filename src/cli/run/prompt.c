/* Design notes.
 *
 * With a prompt on the command line, standard input adds text to it (`git diff | belay run
 * 'review'`). But standard input may also be a pipe that the process merely inherited, from a CI
 * runner, an editor or another agent, and on which nothing ever arrives. The pipe itself does not
 * show whether its writer is only slow to start. So belay waits up to SILENCE_NS_MAX. After that, a
 * pipe that another process of our session, not an ancestor, can write to belongs to a pipeline: it
 * is read to its end, however long that takes. Any other pipe is not read, and a warning says so.
 * Without a prompt, or with `-`, standard input is always read to its end. */
#include <stdio.h>
#include <unistd.h>

#include "input.h"
#include "run.h"

#define OPERATION "read the prompt"

#define SILENCE_NS_MAX   (3 * BL_NS_PER_S)
#define SILENCE_PART     4 /* at most this fraction of the time left: a quarter */
#define NAP_NS_MIN       BL_NS_PER_MS
#define NAP_NS_MAX       (20 * BL_NS_PER_MS)
#define REMIND_NS        BL_NS_PER_S
#define INPUT_BLOCK      "%.*s\n\n<stdin>\n%.*s%s</stdin>\n"
#define INPUT_BLOCK_MARK sizeof INPUT_BLOCK

/* ---- Text ------------------------------------------------------------------------------------ */

/* `what` names the text in errors. */
static int prompt_check_text(struct bl_text text, const char *what, struct bl_error *error)
{
    size_t valid = bl_utf8_valid_prefix(text, NULL);
    const char *nul = memchr(text.size > 0 ? text.data : "", '\0', text.size);

    if (nul != NULL && (size_t)(nul - text.data) < valid)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "PROMPT",
                            "%s contains a NUL byte, at byte %zu", what, (size_t)(nul - text.data));
    if (valid == text.size)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "PROMPT",
                 "%s is not valid UTF-8 from byte %zu on", what, valid);
    bl_error_hint(error, "convert it, for example with iconv(1)");
    return BL_EINVAL;
}

int run_prompt_check(struct bl_text prompt, struct bl_error *error)
{
    int code = prompt_check_text(prompt, "the prompt", error);

    if (code != 0 || bl_text_trim(prompt).size > 0)
        return code;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "PROMPT", "the prompt is empty");
    bl_error_hint(error, "give one as an argument, or on standard input");
    return BL_EINVAL;
}

static int prompt_too_large(const char *what, struct bl_error *error)
{
    bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, OPERATION, "standard input",
                 "%s more than %zu MiB", what, BL_PROMPT_SIZE_MAX >> 20);
    bl_error_hint(error, "write it to a file, and name the file in the prompt");
    return BL_ELIMIT;
}

/* Puts the prompt first, because the title of the session is taken from the beginning. */
static int prompt_join(const char *prompt, struct bl_text input, struct bl_arena *arena,
                       struct bl_text *ret_prompt, struct bl_error *error)
{
    size_t size = strlen(prompt);
    int code = prompt_check_text(input, "standard input", error);

    if (code != 0 || bl_text_trim(input).size == 0)
        return code;
    if (size + INPUT_BLOCK_MARK > BL_PROMPT_SIZE_MAX ||
        input.size > BL_PROMPT_SIZE_MAX - size - INPUT_BLOCK_MARK)
        return prompt_too_large("the prompt and standard input together have", error);
    *ret_prompt = bl_arena_printf(arena, INPUT_BLOCK, (int)size, prompt, BL_TEXT_ARG(input),
                                  bl_text_ends_with(input, BL_TEXT("\n")) ? "" : "\n");
    return 0;
}

/* ---- Standard input -------------------------------------------------------------------------- */

/* Standard input, read on a thread because it may never end. */
struct prompt_input {
    struct bl_buffer bytes;
    const char *why;
    int code;
};

static void prompt_input_read(void *payload)
{
    struct prompt_input *input = payload;

    input->code = bl_descriptor_load(STDIN_FILENO, BL_PROMPT_SIZE_MAX, &input->bytes, &input->why);
}

static void prompt_input_free(void *payload)
{
    struct prompt_input *input = payload;

    bl_buffer_done(&input->bytes);
    bl_free(input);
}

static int prompt_take(const struct prompt_input *input, const char *prompt, struct bl_arena *arena,
                       struct bl_text *ret_prompt, struct bl_error *error)
{
    struct bl_text text = bl_buffer_text(&input->bytes);

    if (input->code == BL_ELIMIT)
        return prompt_too_large(prompt != NULL ? "standard input has" : "the prompt has", error);
    if (input->code != 0)
        return bl_error_set(error, input->code, BL_KIND_FILESYSTEM, OPERATION, "standard input",
                            "cannot read standard input: %s", input->why);
    if (prompt != NULL)
        return prompt_join(prompt, text, arena, ret_prompt, error);
    int code = run_prompt_check(text, error);
    if (code == 0)
        *ret_prompt = bl_arena_text(arena, text);
    return code;
}

static int prompt_load(const char *prompt, struct bl_arena *arena, struct bl_text *ret_prompt,
                       struct bl_error *error)
{
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
        code = prompt_take(input, prompt, arena, ret_prompt, error);
    if (!abandoned)
        prompt_input_free(input);
    return code;
}

/* Waits for the first byte or the end of input. Returns BL_EAGAIN if nothing arrives. */
static int prompt_await_input(void)
{
    uint64_t now_ns = bl_now_ns(), deadline_ns = bl_scope_deadline_ns(bl_scope_current());
    uint64_t until_ns = now_ns + SILENCE_NS_MAX, nap_ns = NAP_NS_MIN;
    int code = 0;

    if (deadline_ns != BL_NEVER && deadline_ns > now_ns &&
        (deadline_ns - now_ns) / SILENCE_PART < SILENCE_NS_MAX)
        until_ns = now_ns + (deadline_ns - now_ns) / SILENCE_PART;
    while (code == 0 && !run_input_has_begun()) {
        if (bl_now_ns() >= until_ns)
            return run_input_is_of_pipeline() ? 0 : BL_EAGAIN;
        code = bl_sleep(nap_ns);
        nap_ns = nap_ns < NAP_NS_MAX ? nap_ns * 2 : NAP_NS_MAX;
    }
    return code;
}

static int prompt_remind_main(void *argument)
{
    int code = bl_sleep(REMIND_NS);

    (void)argument;
    if (code == 0)
        cli_remark(BL_TEXT("belay: waiting for the end of standard input (Ctrl-C to stop; '< "
                           "/dev/null' to run without it)\n"));
    return code;
}

static int prompt_read_input(const struct run_options *options, struct bl_arena *arena,
                             struct bl_text *ret_prompt, const char **ret_notice,
                             struct bl_error *error)
{
    int code = options->prompt != NULL ? prompt_await_input() : 0;

    if (code == BL_EAGAIN) {
        *ret_notice = "standard input is open, but nothing arrived: it is not read ('< /dev/null' "
                      "avoids the wait)";
        return 0;
    }
    return code == 0 ? prompt_load(options->prompt, arena, ret_prompt, error) : code;
}

int run_prompt_read(const struct run_options *options, bool reminds, struct bl_arena *arena,
                    struct bl_text *ret_prompt, const char **ret_notice, struct bl_error *error)
{
    struct bl_nursery nursery;

    *ret_prompt = bl_text_from(options->prompt);
    if (options->converses || (options->prompt != NULL && !run_input_may_come()))
        return 0;
    bl_nursery_init(&nursery, bl_scope_current());
    if (reminds && isatty(STDERR_FILENO) == 1)
        bl_nursery_spawn(&nursery, NULL, "reminder", prompt_remind_main, NULL, NULL);
    int code = prompt_read_input(options, arena, ret_prompt, ret_notice, error);
    bl_nursery_done(&nursery);
    return code;
}
