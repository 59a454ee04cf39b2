#include "doctor.h"

#include <stdio.h>

#include <belay/proc.h>

#include "cli/cli.h"
#include "provider.h"

#define TEXT_MAX ((size_t)64 * 1024)

const char cli_doctor_help[] =
    "Usage: belay doctor [--json | --output-format FORMAT]\n"
    "       belay doctor --provider NAME [--model NAME] [--json]\n"
    "\n"
    "Says what this machine offers to belay, by trying it: the system, containers for\n"
    "tools (pidns, cgroup2, subreaper) and the one that is used by default, what a\n"
    "sandbox can be made of (bubblewrap, Landlock, seccomp), cells, fibers, libraries\n"
    "and limits. What is not available comes with the reason and with what to do.\n"
    "\n"
    "Marks: ok is available, no is not, -- could not be tried.\n"
    "\n"
    "With --provider or --model it makes one short call to that model instead, the\n"
    "way that 'belay run' does, within 30 s, and says what happened: how long it\n"
    "took, what it used and cost, or what is wrong and whether to try again. Keys are\n"
    "not shown. Ctrl-C stops it.\n"
    "\n"
    "Options:\n"
    "      --provider NAME         call that provider\n"
    "      --model NAME            and that model; alone: PROVIDER/MODEL, or a model\n"
    "                              that is configured\n"
    "      --json                  the same as --output-format json\n"
    "      --output-format FORMAT  text (the default), or json: one line, as in\n"
    "                              docs/schemas/doctor.json, and for a provider\n"
    "                              docs/schemas/doctor-provider.json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    the report was written, whatever it says; a provider has answered\n"
    "  1    a provider has not, or standard output could not be written\n"
    "  2    usage error\n"
    "  130  stopped, or whoever read standard output is gone\n"
    "  143  stopped by SIGTERM\n"
    "\n"
    "Environment:\n"
    "  NO_COLOR  when set and not empty: no colours\n"
    "  PATH      where bubblewrap (bwrap) is looked for\n"
    "\n"
    "Examples:\n"
    "  belay doctor\n"
    "  belay doctor --json | jq .containment.default\n"
    "  belay doctor --provider ollama --model qwen\n";

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
    probe_cells(&report->cells);
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
        exit_code = cli_print_raw(call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

/* ---- The command ----------------------------------------------------------------------------- */

enum {
    OPTION_PROVIDER = 512,
    OPTION_MODEL,
};

const struct option cli_doctor_options[] = {
    {"provider", required_argument, NULL, OPTION_PROVIDER},
    {"model", required_argument, NULL, OPTION_MODEL},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

struct choice {
    const char *provider;
    const char *model;
};

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct choice *choice = context;

    if (option == CLI_ARGUMENT_OPERAND)
        return cli_arguments_refuse(value, error);
    if (option == OPTION_PROVIDER)
        choice->provider = value;
    else
        choice->model = value;
    return 0;
}

int cli_doctor_run(struct cli_call *call)
{
    struct doctor_report report;
    struct choice choice = {0};
    struct bl_error error = {0};

    int code = cli_arguments_read(call, false, take, &choice, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, &error);
    if (choice.provider != NULL || choice.model != NULL)
        return doctor_provider_run(call, choice.provider, choice.model);
    examine(&report);
    if (call->format == CLI_FORMAT_JSON)
        return cli_envelope_print(call, CLI_EXIT_OK, doctor_write_json, &report);
    return print_text(call, &report);
}
