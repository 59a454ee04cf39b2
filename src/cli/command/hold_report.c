#include "hold.h"

#include <signal.h>

#define LINE_MAX_SIZE 4096u
#define ENVELOPE_MAX  ((size_t)16 * 1024 * 1024)

static int hold_report_stop_exit_code(const struct hold_outcome *outcome)
{
    if (outcome->stop.reason == BL_STOP_TIMEOUT)
        return HOLD_EXIT_TIMEOUT;
    /* Of those that ask politely only SIGTERM has a code of its own, as with every command of ours.
     */
    return HOLD_EXIT_SIGNAL + (outcome->stop_signal == SIGTERM ? SIGTERM : SIGINT);
}

int hold_exit_code(const struct hold_outcome *outcome)
{
    switch (outcome->error.code) {
    case 0: break;
    case BL_ENOENT: return HOLD_EXIT_NOT_FOUND;
    case BL_EACCES: return HOLD_EXIT_NOT_EXECUTABLE;
    default: return HOLD_EXIT_FAILED;
    }
    if (!outcome->started)
        return hold_report_stop_exit_code(outcome);
    /* Whatever the command said: what was asked for, that nothing is left, is not so. */
    if (outcome->end.survivors != 0)
        return HOLD_EXIT_FAILED;
    switch (outcome->end.how) {
    case BL_END_EXITED: return outcome->end.status;
    case BL_END_SIGNALED: return HOLD_EXIT_SIGNAL + outcome->end.status;
    case BL_END_STOPPED: return hold_report_stop_exit_code(outcome);
    case BL_END_LIMIT: return HOLD_EXIT_SIGNAL + SIGKILL;
    case BL_END_LOST: return HOLD_EXIT_FAILED;
    }
    return HOLD_EXIT_FAILED;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *how_name(const struct bl_warden_end *end)
{
    switch (end->how) {
    case BL_END_EXITED: return "exited";
    case BL_END_SIGNALED: return "signaled";
    case BL_END_STOPPED: return "stopped";
    case BL_END_LIMIT: return "limit";
    case BL_END_LOST: return "lost";
    }
    return "lost";
}

static void write_end(struct bl_json_writer *writer, const struct bl_warden_end *end)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "how", how_name(end));
    bl_json_write_key(writer, BL_TEXT("status"));
    bl_json_write_int64(writer, end->status);
    bl_json_put_boolean(writer, "by_signal", end->by_signal);
    bl_json_write_key(writer, BL_TEXT("processes"));
    bl_json_write_int64(writer, end->processes);
    bl_json_write_key(writer, BL_TEXT("left_behind"));
    bl_json_write_int64(writer, end->left_behind);
    bl_survivors_write(writer, end->survivors, end->unverified);
    bl_json_write_end(writer);
}

struct report {
    const struct hold_options *options;
    const struct hold_outcome *outcome;
};

static void hold_report_payload(struct bl_json_writer *writer, const void *context)
{
    const struct report *report = context;
    const struct hold_options *options = report->options;
    const struct hold_outcome *outcome = report->outcome;

    bl_json_write_key(writer, BL_TEXT("command_line"));
    bl_json_write_array(writer);
    for (const char *const *word = options->arguments; *word != NULL; word++)
        bl_json_write_string(writer, *word);
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("container"));
    bl_json_write_string(writer,
                         outcome->started ? bl_mechanism_name(outcome->end.mechanism) : NULL);
    bl_json_put_string(writer, "sandbox", bl_sandbox_name(options->sandbox));
    bl_json_write_key(writer, BL_TEXT("timeout_seconds"));
    if (options->timed)
        bl_json_write_double(writer, (double)options->timeout_ns / (double)BL_NS_PER_S);
    else
        bl_json_write_null(writer);
    bl_json_write_key(writer, BL_TEXT("end"));
    if (outcome->started)
        write_end(writer, &outcome->end);
    else
        bl_json_write_null(writer);
    bl_json_write_key(writer, BL_TEXT("receipt"));
    if (outcome->receipt_json.size > 0)
        bl_json_write_raw(writer, bl_buffer_text(&outcome->receipt_json));
    else
        bl_json_write_null(writer);
}

/* Standard output is the command's, so that an envelope of hold goes to standard error. */
static int print_envelope(const struct cli_call *call, int exit_code, cli_payload *payload,
                          const void *context)
{
    struct bl_buffer line;

    bl_buffer_init(&line, ENVELOPE_MAX);
    if (cli_envelope_write(&line, call, exit_code, payload, context) == 0)
        cli_remark(bl_buffer_text(&line));
    else
        exit_code = HOLD_EXIT_FAILED;
    bl_buffer_done(&line);
    return exit_code;
}

int hold_fail(const struct cli_call *call, const struct bl_error *error, int exit_code)
{
    if (call->format != CLI_FORMAT_TEXT)
        return print_envelope(call, exit_code, cli_error_payload, error);
    cli_complain(call, error);
    return exit_code;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static const char *hold_report_plural(uint32_t count)
{
    return count == 1 ? "process" : "processes";
}

static void append_rest(struct bl_buffer *line, const struct bl_warden_end *end)
{
    if (line->size > 0)
        bl_buffer_append_byte(line, ' ');
    bl_survivors_text(end->survivors, bl_text_from(end->unverified), line);
}

/* What there is to say of an end; nothing when it is as it should be. */
static void hold_report_append_line(struct bl_buffer *line, const struct report *report)
{
    const struct hold_outcome *outcome = report->outcome;
    const struct bl_warden_end *end = &outcome->end;

    if (outcome->receipt_line.size > 0) {
        bl_buffer_append(line, bl_text_trim(bl_buffer_text(&outcome->receipt_line)));
        return;
    }
    if (!outcome->started)
        return;
    if (end->how == BL_END_LIMIT)
        bl_buffer_printf(line, "More than %u %s: all of them were killed.",
                         report->options->processes_max,
                         hold_report_plural(report->options->processes_max));
    else if (end->how == BL_END_LOST)
        bl_buffer_append(line, BL_TEXT("The warden was killed; what it held was swept."));
    else if (end->left_behind > 0)
        bl_buffer_printf(line, "Left behind by the command and stopped: %u %s.", end->left_behind,
                         hold_report_plural(end->left_behind));
    else if (end->survivors == 0)
        return;
    append_rest(line, end);
}

static void hold_report_print_line(const struct report *report)
{
    struct bl_buffer line;

    bl_buffer_init(&line, LINE_MAX_SIZE);
    hold_report_append_line(&line, report);
    if (line.size > 0) {
        bl_buffer_append_byte(&line, '\n');
        cli_remark(bl_buffer_text(&line));
    }
    bl_buffer_done(&line);
}

int hold_report(const struct cli_call *call, const struct hold_options *options,
                const struct hold_outcome *outcome)
{
    struct report report = {options, outcome};
    int exit_code = hold_exit_code(outcome);

    if (outcome->error.code != 0)
        return hold_fail(call, &outcome->error, exit_code);
    if (call->format != CLI_FORMAT_TEXT)
        return print_envelope(call, exit_code, hold_report_payload, &report);
    hold_report_print_line(&report);
    return exit_code;
}
