#include "doctor.h"

#include <stdio.h>
#include <unistd.h>

#include <belay/proc.h>

#include "cli/answers.h"
#include "cli/table/commands.h"
#include "provider.h"

#define TEXT_MAX ((size_t)64 * 1024)

const char *doctor_default_container(const struct doctor_report *report)
{
    if (report->cgroup2.state == PROBE_OK)
        return report->cgroup2.name;
    if (report->subreaper.state == PROBE_OK)
        return report->subreaper.name;
    return NULL;
}

/* Converts proc's result to a check with its name in the report. */
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

static void examine(struct doctor_report *report, const char *store)
{
    probe_system(&report->system);
    report->pidns = check_container(BL_MECHANISM_PIDNS);
    report->cgroup2 = check_container(BL_MECHANISM_CGROUP2);
    report->subreaper = check_container(BL_MECHANISM_SUBREAPER);
    report->bubblewrap = check_bubblewrap();
    probe_landlock(&report->landlock);
    probe_seccomp(&report->seccomp);
    probe_cells(&report->cells);
    probe_database(store, &report->database);
    probe_fibers(&report->fibers);
    probe_libraries(report->libraries);
    probe_limits(&report->limits);
}

static int doctor_print_text(const struct cli_call *call, const struct doctor_report *report)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);
    int exit_code = CLI_EXIT_FAILED;

    if (doctor_write_text(&out, report, cli_colour_wanted(STDOUT_FILENO)) == 0)
        exit_code = cli_print_raw(call, bl_buffer_text(&out), CLI_EXIT_OK);
    return exit_code;
}

/* ---- The command ----------------------------------------------------------------------------- */

int cli_doctor_run(struct cli_call *call)
{
    struct doctor_report report;
    struct doctor_options choice = {0};
    struct bl_error error = {0};

    int code = cli_options_read(call, &choice, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, &error);
    if (choice.provider != NULL || choice.model != NULL)
        return doctor_provider_run(call, choice.provider, choice.model);
    examine(&report, choice.store);
    if (call->format == CLI_FORMAT_JSON) {
        struct doctor_view view = doctor_view(&report);
        return cli_answer_print(call, CLI_EXIT_OK, &doctor_answer.record, &view);
    }
    return doctor_print_text(call, &report);
}
