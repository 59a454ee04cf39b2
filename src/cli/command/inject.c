#include <unistd.h>

#include <belay/serve.h>

#include "cli/answers.h"
#include "cli/table/commands.h"

#define OPERATION "inject"

struct injecting {
    struct bl_arena arena;
    struct inject_options options;
    struct bl_buffer input; /* standard input */
    struct bl_text text;
    const char *message;
    struct bl_error error;
};

/* ---- The message ----------------------------------------------------------------------------- */

static int command_inject_load(struct injecting *injecting)
{
    struct bl_error *error = &injecting->error;
    const char *why = "";

    if (isatty(STDIN_FILENO) == 1) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "TEXT", "no message");
        bl_error_hint(error, "give one as an argument, or on standard input");
        return BL_EINVAL;
    }
    int code = bl_descriptor_load(STDIN_FILENO, BL_CONTROL_LINE_MAX, &injecting->input, &why);
    if (code == BL_ELIMIT) {
        bl_error_set(error, code, BL_KIND_USAGE, OPERATION, "standard input",
                     "the message has more than %zu KiB", BL_CONTROL_LINE_MAX >> 10);
        bl_error_hint(error, "write it to a file, and send the file's path");
    } else if (code != 0) {
        bl_error_set(error, code, BL_KIND_FILESYSTEM, OPERATION, "standard input",
                     "cannot read standard input: %s", why);
    }
    injecting->text = bl_buffer_text(&injecting->input);
    return code;
}

static int command_inject_check(struct injecting *injecting)
{
    struct bl_text text = injecting->text;
    struct bl_error *error = &injecting->error;
    size_t valid = bl_utf8_valid_prefix(text, NULL);

    if (bl_text_trim(text).size == 0) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "TEXT", "the message is empty");
        bl_error_hint(error, "give one as an argument, or on standard input");
        return BL_EINVAL;
    }
    if (valid != text.size || memchr(text.data, '\0', text.size) != NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "TEXT",
                            valid != text.size ? "the message is not valid UTF-8 from byte %zu on"
                                               : "the message of %zu bytes contains a NUL byte",
                            valid);
    return 0;
}

static int command_inject_read(struct injecting *injecting)
{
    const char *text = injecting->options.text;
    int code = 0;

    if (text == NULL || strcmp(text, "-") == 0)
        code = command_inject_load(injecting);
    else
        injecting->text = bl_text_from(text);
    return code != 0 ? code : command_inject_check(injecting);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int command_inject_main(void *argument)
{
    struct injecting *injecting = argument;

    return bl_control_inject(&injecting->arena, injecting->options.id, injecting->text,
                             &injecting->message, &injecting->error);
}

#define BL_RECORD_STRUCT struct injecting
static const struct bl_member inject_members[] = {
    BL_MEMBER_STRING("id", options.id, .least = 1, .about = "Id from the command line."),
    BL_MEMBER_STRING("message_id", message, .least = 1,
                     .about = "As in the events message_injected and message_undelivered."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer inject_answer = {BL_RECORD("inject", struct injecting, inject_members),
                                         .of = "inject", .exits = &cli_exits_failing};

static int command_inject_print_text(const struct cli_call *call, struct injecting *injecting)
{
    struct bl_text line = bl_arena_printf(
        &injecting->arena,
        "Message %s will be delivered after the next tool result, or as the next prompt.\n",
        injecting->message);

    return cli_print(call, line, CLI_EXIT_OK);
}

int cli_inject_run(struct cli_call *call)
{
    struct injecting injecting = {0};
    struct bl_error *error = &injecting.error;
    int exit_code;

    int code = cli_options_read(call, &injecting.options, NULL, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, error);
    bl_arena_init(&injecting.arena);
    bl_buffer_init(&injecting.input, BL_CONTROL_LINE_MAX);
    if (command_inject_read(&injecting) != 0)
        exit_code = cli_fail(call, error, cli_error_exit_code(error));
    else if (cli_loop_run(OPERATION, command_inject_main, &injecting, error) != 0)
        exit_code = cli_fail(call, error, cli_error_exit_code(error));
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = command_inject_print_text(call, &injecting);
    else
        exit_code = cli_answer_print(call, CLI_EXIT_OK, &inject_answer.record, &injecting);
    bl_buffer_done(&injecting.input);
    bl_arena_done(&injecting.arena);
    return exit_code;
}
