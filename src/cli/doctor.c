#include "doctor.h"

#include <stdio.h>

#include <belay/proc.h>

#include "cli.h"

#define TEXT_MAX ((size_t)64 * 1024)

const char cli_doctor_help[] =
    "Usage: belay doctor [--json | --output-format FORMAT]\n"
    "\n"
    "Says what this machine offers to belay, by trying it: the system, containers for\n"
    "tools (pidns, cgroup2, subreaper) and the one that is used by default, what a\n"
    "sandbox can be made of (bubblewrap, Landlock, seccomp), fibers, libraries and\n"
    "limits. What is not available comes with the reason and with what to do.\n"
    "\n"
    "Marks: ok is available, no is not, -- could not be tried.\n"
    "\n"
    "Options:\n"
    "      --json                  the same as --output-format json\n"
    "      --output-format FORMAT  text (the default), or json: one line, as in\n"
    "                              docs/schemas/doctor.json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    the report was written, whatever it says\n"
    "  1    standard output could not be written\n"
    "  2    usage error\n"
    "  130  whoever read standard output is gone\n"
    "\n"
    "Environment:\n"
    "  NO_COLOR  when set and not empty: no colours\n"
    "  PATH      where bubblewrap (bwrap) is looked for\n"
    "\n"
    "Examples:\n"
    "  belay doctor\n"
    "  belay doctor --json | jq .containment.default\n";

const char *doctor_default_container(const struct doctor_report *report)
{
    if (report->cgroup2.state == PROBE_OK)
        return report->cgroup2.name;
    if (report->subreaper.state == PROBE_OK)
        return report->subreaper.name;
    return NULL;
}

/* What proc has found, under its name in the report. */
static struct probe_check check_from(const char *name, const struct bl_container_check *found)
{
    struct probe_check check = {.name = name, .state = found->available ? PROBE_OK : PROBE_NO};

    if (found->untried)
        check.state = PROBE_UNTRIED;
    snprintf(check.version, sizeof check.version, "%s", found->version);
    snprintf(check.detail, sizeof check.detail, "%s", found->detail);
    snprintf(check.hint, sizeof check.hint, "%s", found->hint);
    return check;
}

static struct probe_check check_container(enum bl_mechanism mechanism)
{
    struct bl_container_check found;

    bl_container_check(mechanism, &found);
    return check_from(bl_mechanism_name(mechanism), &found);
}

static struct probe_check check_bubblewrap(void)
{
    struct bl_container_check found;

    bl_sandbox_check(&found);
    return check_from("bubblewrap", &found);
}

static void examine(struct doctor_report *report)
{
    probe_system(&report->system);
    report->pidns = check_container(BL_MECHANISM_PIDNS);
    report->cgroup2 = check_container(BL_MECHANISM_CGROUP2);
    report->subreaper = check_container(BL_MECHANISM_SUBREAPER);
    report->bubblewrap = check_bubblewrap();
    probe_landlock(&report->landlock);
    probe_seccomp(&report->seccomp);
    probe_fibers(&report->fibers);
    probe_libraries(report->libraries);
    probe_limits(&report->limits);
}

static int print_text(const struct cli_call *call, const struct doctor_report *report)
{
    struct bl_buffer out;
    int exit_code = CLI_EXIT_FAILED;

    bl_buffer_init(&out, TEXT_MAX);
    if (doctor_write_text(&out, report, cli_colour_wanted()) == 0)
        exit_code = cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

int cli_doctor_run(struct cli_call *call)
{
    struct doctor_report report;
    struct cli_arguments walk;
    struct bl_error error = {0};
    int found;

    cli_arguments_init(&walk, call->count, call->arguments, call->command->short_options,
                       call->command->options);
    while ((found = cli_arguments_next(&walk, &error)) != CLI_ARGUMENT_END) {
        if (found == CLI_OPTION_HELP)
            return cli_help_print(call, call->command);
        if (found == CLI_OPTION_JSON)
            call->format = CLI_FORMAT_JSON;
        else if (found == CLI_OPTION_OUTPUT_FORMAT)
            cli_format_parse(walk.value, false, &call->format, &error);
        else if (found == CLI_ARGUMENT_OPERAND)
            cli_arguments_refuse(walk.value, &error);
        if (error.code != 0)
            return cli_fail_usage(call, &error);
    }

    examine(&report);
    if (call->format == CLI_FORMAT_JSON)
        return cli_envelope_print(call, CLI_EXIT_OK, doctor_write_json, &report);
    return print_text(call, &report);
}
