#include "hold.h"

#include <signal.h>

#include "cli/answers.h"

#define LINE_MAX_SIZE 4096u
#define ENVELOPE_MAX  ((size_t)16 * 1024 * 1024)

/* Returns the exit code of the command itself. */
static int hold_report_own_exit_code(const struct bl_warden_end *end)
{
    return end->by_signal ? HOLD_EXIT_SIGNAL + end->status : end->status;
}

static int hold_report_stop_exit_code(const struct hold_outcome *outcome)
{
    static const struct hold_options none = {.as_timeout = false};
    const struct hold_options *options = outcome->options != NULL ? outcome->options : &none;
    const struct bl_warden_end *end = &outcome->end;
    bool killed = outcome->started && end->by_signal && end->status == SIGKILL;

    if (outcome->stop.reason == BL_STOP_TIMEOUT) {
        bool own = outcome->started && options->preserve_status;
        return own || (killed && options->killed_is_told) ? hold_report_own_exit_code(end)
                                                          : HOLD_EXIT_TIMEOUT;
    }
    if (options->as_timeout)
        return outcome->started ? hold_report_own_exit_code(end)
                                : HOLD_EXIT_SIGNAL + outcome->stop_signal;
    /* Only SIGTERM has an exit code of its own, as in every command of belay. */
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
    /* Whatever the command returned: hold has failed to leave no process behind. */
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

static const char *const how_names[] = {
    [BL_END_EXITED] = "exited", [BL_END_SIGNALED] = "signaled", [BL_END_STOPPED] = "stopped",
    [BL_END_LIMIT] = "limit",   [BL_END_LOST] = "lost",
};
static const struct bl_names hows = BL_NAMES(how_names);
static const struct bl_names sandboxes = {cli_sandbox_names, 3};

#define BL_RECORD_STRUCT struct bl_warden_end
static const struct bl_member end_members[] = {
    BL_MEMBER_ENUM("how", how, &hows,
                   .about = "exited: by itself; signaled: by a signal from elsewhere; stopped: by "
                            "hold; limit: killed because it had too many processes; lost: the "
                            "warden was killed, and its processes were killed after it."),
    BL_MEMBER_INTEGER("status", status,
                      .about = "Exit code of the command, or number of the signal that ended it."),
    BL_MEMBER_BOOLEAN("by_signal", by_signal, .about = "True: the status is a signal."),
    BL_MEMBER_INTEGER("processes", processes, .about = "Processes alive when the stop began."),
    BL_MEMBER_INTEGER(
        "left_behind", left_behind,
        .about = "Processes alive when the command had ended by itself; they were then stopped."),
    BL_MEMBER_INTEGER("survivors", survivors, .nullable = true, .none = BL_SURVIVORS_UNKNOWN,
                      .about = "Processes still running, counted by the container's proof. null: "
                               "the proof failed, so nothing is claimed."),
    BL_MEMBER_WORD("unverified", unverified, .optional = true, .least = 1,
                   .about = "With survivors null: why the end could not be verified."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record end_record =
    BL_RECORD("end", struct bl_warden_end, end_members, .closed = true);

struct report {
    const struct hold_options *options;
    const struct hold_outcome *outcome;
    size_t argument_count;
    const char *const *arguments;
    const char *container;
    const char *sandbox;
    bool timed;
    double timeout_s;
    const struct bl_warden_end *end;
    struct bl_text receipt;
};

#define BL_RECORD_STRUCT struct report
static const struct bl_member hold_members[] = {
    BL_MEMBER_ARRAY("command_line", arguments, argument_count, &bl_element_string, .least = 1,
                    .about = "The command that was held, and its arguments."),
    BL_MEMBER_STRING("container", container, .nullable = true, .names = &cli_containers,
                     .about = "Container of its processes; null: it was never started."),
    BL_MEMBER_STRING("sandbox", sandbox, .names = &sandboxes),
    BL_MEMBER_NUMBER("timeout_seconds", timeout_s, .nullable = true, BL_KNOWN(timed),
                     .least = INT64_MIN, .about = "From the command line; null: no deadline."),
    BL_MEMBER_POINTER("end", end, &end_record, .nullable = true,
                      .about = "null: stopped before it was started."),
    BL_MEMBER_RAW("receipt", receipt, .nullable = true, .record = &bl_receipt_record,
                  .about = "null: it was not stopped."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const int64_t failures[] = {HOLD_EXIT_FAILED, HOLD_EXIT_NOT_EXECUTABLE, HOLD_EXIT_NOT_FOUND};
static const struct bl_numbers hold_failures = BL_NUMBERS(failures);
const struct cli_answer hold_answer = {
    BL_RECORD("hold", struct report, hold_members, .about = "The last line on standard error."),
    .of = "hold", .exits = &cli_exits_any, .failures = &hold_failures};

static struct report hold_report_of(const struct hold_options *options,
                                    const struct hold_outcome *outcome)
{
    struct report report = {
        .options = options,
        .outcome = outcome,
        .arguments = options->arguments,
        .container = outcome->started ? bl_mechanism_name(outcome->end.mechanism) : NULL,
        .sandbox = bl_sandbox_name(options->sandbox),
        .timed = options->timed,
        .timeout_s = (double)options->timeout_ns / (double)BL_NS_PER_S,
        .end = outcome->started ? &outcome->end : NULL,
        .receipt = bl_buffer_text(&outcome->receipt_json),
    };

    while (report.arguments[report.argument_count] != NULL)
        report.argument_count++;
    return report;
}

/* Standard output belongs to the command, so the envelope goes to standard error. */
static int print_envelope(const struct cli_call *call, int exit_code,
                          const struct bl_record *record, const void *from)
{
    BL_AUTO_BUFFER(line, ENVELOPE_MAX);

    if (cli_answer_write(&line, call, exit_code, record, from) == 0)
        cli_remark(bl_buffer_text(&line));
    else
        exit_code = HOLD_EXIT_FAILED;
    return exit_code;
}

int hold_fail(const struct cli_call *call, const struct bl_error *error, int exit_code)
{
    if (call->format != CLI_FORMAT_TEXT)
        return print_envelope(call, exit_code, &cli_failure_record, error);
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

/* Appends the line that reports the end; nothing if the command ended normally and left nothing. */
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
        bl_buffer_printf(line, "More than %u %s: all were killed.", report->options->processes_max,
                         hold_report_plural(report->options->processes_max));
    else if (end->how == BL_END_LOST)
        bl_buffer_append(line,
                         BL_TEXT("The warden was killed; its processes were killed after it."));
    else if (end->left_behind > 0)
        bl_buffer_printf(line, "Left behind by the command and stopped: %u %s.", end->left_behind,
                         hold_report_plural(end->left_behind));
    else if (end->survivors == 0)
        return;
    append_rest(line, end);
}

static void hold_report_print_line(const struct report *report)
{
    BL_AUTO_BUFFER(line, LINE_MAX_SIZE);

    hold_report_append_line(&line, report);
    if (line.size > 0) {
        bl_buffer_append_byte(&line, '\n');
        cli_remark(bl_buffer_text(&line));
    }
}

int hold_report(const struct cli_call *call, const struct hold_options *options,
                const struct hold_outcome *outcome)
{
    struct report report = hold_report_of(options, outcome);
    int exit_code = hold_exit_code(outcome);

    if (outcome->error.code != 0)
        return hold_fail(call, &outcome->error, exit_code);
    if (call->format != CLI_FORMAT_TEXT)
        return print_envelope(call, exit_code, &hold_answer.record, &report);
    /* timeout(1) prints nothing; processes left running are reported even so. */
    if (!options->as_timeout || outcome->end.survivors != 0)
        hold_report_print_line(&report);
    return exit_code;
}
