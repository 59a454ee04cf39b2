/* `belay feature report`: as text, or as one HTML file, which is written completely or not at
 * all. */
#include "feature.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/answers.h"

#define REPORT_MAX ((size_t)256 * 1024 * 1024)

struct reporting {
    struct feature_work work;
    struct bl_buffer report;
    const char *file; /* path of the written file; NULL: none */
};

/* ---- The file -------------------------------------------------------------------------------- */

static int feature_report_write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t count = write(fd, text.data, text.size);
        if (count < 0 && errno != EINTR)
            return errno;
        if (count > 0) {
            text.data += count;
            text.size -= (size_t)count;
        }
    }
    return 0;
}

/* Writes directly to a device or a pipe, which must not be replaced. */
static int write_through(const char *path, struct bl_text text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    int failed = fd < 0 ? errno : feature_report_write_all(fd, text);

    if (fd >= 0 && close(fd) < 0 && failed == 0)
        failed = errno;
    return failed;
}

int feature_write_new(const char *path, struct bl_text text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int failed = feature_report_write_all(fd, text);
    if (failed == 0 && fsync(fd) < 0)
        failed = errno;
    if (close(fd) < 0 && failed == 0)
        failed = errno;
    if (failed != 0)
        unlink(path);
    return failed;
}

/* Writes under another name, then renames. */
static int write_beside(struct bl_arena *arena, const char *path, struct bl_text text)
{
    uint64_t random;

    bl_random_bytes(&random, sizeof random);
    const char *beside =
        bl_arena_printf(arena, "%s.%016llx", path, (unsigned long long)random).data;
    int failed = feature_write_new(beside, text);
    if (failed == 0 && rename(beside, path) < 0) {
        failed = errno;
        unlink(beside);
    }
    return failed;
}

static int write_file(struct reporting *reporting)
{
    struct feature_work *work = &reporting->work;
    const char *path = work->options->html;
    struct bl_text text = bl_buffer_text(&reporting->report);
    bool there;
    struct stat status;
    int failed;

    there = stat(path, &status) == 0;
    /* Replace the target of a link, not the link. */
    char *real = there ? realpath(path, NULL) : NULL;
    if (there && S_ISDIR(status.st_mode))
        failed = EISDIR;
    else if (there && !S_ISREG(status.st_mode))
        failed = write_through(path, text);
    else
        failed = write_beside(&work->arena, real != NULL ? real : path, text);
    free(real);
    if (failed != 0)
        return bl_error_set(&work->error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM,
                            "write the report", path, "cannot write '%s': %s", path,
                            strerror(failed));
    real = realpath(path, NULL);
    reporting->file = bl_arena_text(&work->arena, bl_text_from(real != NULL ? real : path)).data;
    free(real);
    return 0;
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool to_output(const struct feature_options *options)
{
    return options->html == NULL || strcmp(options->html, "-") == 0;
}

static int report_main(void *argument)
{
    struct reporting *reporting = argument;
    struct feature_work *work = &reporting->work;

    int code = feature_work_open(work);
    if (code == 0)
        code = feature_work_look(work);
    feature_work_close(work);
    if (code != 0)
        return code;
    code = work->options->html != NULL ? bl_feature_report_html(work->view, &reporting->report)
                                       : bl_feature_report_text(work->view, &reporting->report);
    if (code != 0)
        return bl_error_set(&work->error, code, BL_KIND_FEATURE, "make the report", work->id,
                            "cannot make the report of %s: %s", work->id, bl_error_text(code));
    return to_output(work->options) ? 0 : write_file(reporting);
}

struct report_view {
    const char *feature;
    const char *file;
    struct bl_text text;
    struct bl_text html;
};

#define BL_RECORD_STRUCT struct report_view
static const struct bl_member report_members[] = {
    BL_MEMBER_STRING("feature", feature, .form = &cli_feature_id_form),
    BL_MEMBER_STRING("file", file, .nullable = true,
                     .about = "Path of the HTML file; null: the report is in this answer."),
    BL_MEMBER_TEXT("text", text, .optional = true, .about = "Without --html."),
    BL_MEMBER_TEXT("html", html, .optional = true, .about = "With --html -."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer feature_report_answer = {
    BL_RECORD("feature-report", struct report_view, report_members), .of = "feature report"};

static int report_print_json(const struct reporting *reporting)
{
    const struct feature_options *options = reporting->work.options;
    struct report_view view = {.feature = reporting->work.id, .file = reporting->file};

    if (view.file == NULL)
        *(options->html != NULL ? &view.html : &view.text) = bl_buffer_text(&reporting->report);
    return cli_answer_print(options->call, CLI_EXIT_OK, &feature_report_answer.record, &view);
}

static int feature_report_print_text(const struct reporting *reporting)
{
    const struct cli_call *call = reporting->work.options->call;
    BL_AUTO_BUFFER(line, 16384);

    if (reporting->file == NULL)
        return cli_print(call, bl_buffer_text(&reporting->report), CLI_EXIT_OK);
    bl_buffer_append(&line, BL_TEXT("Wrote the report to "));
    bl_buffer_append(&line, bl_text_from(reporting->file));
    bl_buffer_append_byte(&line, '\n');
    return cli_print(call, bl_buffer_text(&line), CLI_EXIT_OK);
}

int feature_report_command(const struct feature_options *options)
{
    struct reporting reporting = {0};
    struct bl_error *error = &reporting.work.error;
    int exit_code;

    feature_work_init(&reporting.work, options);
    bl_buffer_init(&reporting.report, REPORT_MAX);
    if (cli_loop_run("feature report", report_main, &reporting, error) != 0)
        exit_code = cli_fail(options->call, error, cli_error_exit_code(error));
    else if (options->call->format == CLI_FORMAT_TEXT)
        exit_code = feature_report_print_text(&reporting);
    else
        exit_code = report_print_json(&reporting);
    bl_buffer_done(&reporting.report);
    feature_work_done(&reporting.work);
    return exit_code;
}
