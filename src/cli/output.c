#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMPLAINT_MAX 4096u

static void cli_output_nothing(int number)
{
    (void)number;
}

void cli_streams_prepare(void)
{
    /* Opened in the opposite direction, so that using a stream that was closed remains an error. */
    static const int flags[3] = {O_WRONLY, O_RDONLY, O_RDONLY};

    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (open("/dev/null", flags[fd]) != fd)
            _exit(CLI_EXIT_FAILED);
    }

    /* Caught, not ignored: every command that we start would inherit an ignored signal. */
    struct sigaction before, caught = {.sa_handler = cli_output_nothing};
    if (sigaction(SIGPIPE, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGPIPE, &caught, NULL);
}

/* Writes all of the text, even if the descriptor is non-blocking. Returns 0 or the errno. */
static int cli_output_write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t count = write(fd, text.data, text.size);
        if (count >= 0) {
            text.data += count;
            text.size -= (size_t)count;
        } else if (errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            if (poll(&ready, 1, -1) < 0 && errno != EINTR)
                return errno;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* If the reader has closed the pipe, nothing is reported. With JSON, nothing is reported on
 * standard error: the exit code tells. */
int cli_print_raw(const struct cli_call *call, struct bl_text text, int exit_code)
{
    int failed = cli_output_write_all(STDOUT_FILENO, text);
    if (failed == 0)
        return exit_code;
    if (failed == EPIPE)
        return CLI_EXIT_CLIENT_GONE;

    if (call->asked == CLI_FORMAT_TEXT) {
        struct bl_error error = {0};
        bl_error_set(&error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "write",
                     "standard output", "cannot write standard output: %s", strerror(failed));
        cli_complain(call, &error);
    }
    return CLI_EXIT_FAILED;
}

int cli_print(const struct cli_call *call, struct bl_text text, int exit_code)
{
    BL_AUTO_BUFFER(shown, SIZE_MAX / 2);

    if (call->format != CLI_FORMAT_TEXT || isatty(STDOUT_FILENO) != 1)
        return cli_print_raw(call, text, exit_code);
    bl_text_show(&shown, text, BL_SHOW_LINES);
    exit_code = cli_print_raw(call, bl_buffer_text(&shown), exit_code);
    return exit_code;
}

static void append_printable(struct bl_buffer *out, const char *string)
{
    bl_text_show(out, bl_text_from(string), BL_SHOW_LINE);
}

/* True if the message is about an option or a file and does not name it. */
static bool must_name_target(const struct bl_error *error)
{
    bool named = strncmp(error->target, "--", 2) == 0 || error->kind == BL_KIND_FILESYSTEM;

    return named && error->target[0] != '\0' && strstr(error->message, error->target) == NULL;
}

void cli_complain(const struct cli_call *call, const struct bl_error *error)
{
    BL_AUTO_BUFFER(line, COMPLAINT_MAX);

    append_printable(&line, "belay");
    if (call->command != NULL)
        bl_buffer_printf(&line, " %s", call->command->name);
    append_printable(&line, ": ");
    if (must_name_target(error)) {
        append_printable(&line, error->target);
        append_printable(&line, ": ");
    }
    append_printable(&line, error->message);
    if (error->hint[0] != '\0') {
        bl_buffer_append(&line, BL_TEXT("\nhint: "));
        append_printable(&line, error->hint);
    }
    bl_buffer_append_byte(&line, '\n');
    cli_remark(bl_buffer_text(&line));
}

void cli_remark(struct bl_text text)
{
    BL_AUTO_BUFFER(shown, SIZE_MAX / 2);

    bl_text_show(&shown, text, BL_SHOW_LINES);
    /* There is nowhere to report a failure of this. */
    (void)cli_output_write_all(STDERR_FILENO, bl_buffer_text(&shown));
}

bool cli_colour_wanted(int fd)
{
    const char *refused = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    if (refused != NULL && refused[0] != '\0')
        return false;
    if (terminal == NULL || strcmp(terminal, "dumb") == 0)
        return false;
    return isatty(fd) == 1;
}

const char *cli_usage_text(const struct bl_usage *usage, char out[CLI_USAGE_SIZE])
{
    snprintf(out, CLI_USAGE_SIZE, "%" PRIu64 " token%s in, %" PRIu64 " out", usage->input_tokens,
             usage->input_tokens == 1 ? "" : "s", usage->output_tokens);
    return out;
}
