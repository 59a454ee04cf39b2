#include "probe.h"

#include <errno.h>
#include <limits.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OUTPUT_MAX 512u

/* The first line of what a program printed, without what a terminal would act on. */
static void first_line(struct bl_buffer *output, char *out, size_t out_size)
{
    struct bl_text rest = bl_text_trim(bl_buffer_text(output));
    struct bl_text line = {0};
    size_t size = 0;

    bl_text_split(&rest, '\n', &line);
    line.size = bl_utf8_valid_prefix(line, NULL);
    line = bl_utf8_cut(line, out_size - 1);
    for (; size < line.size; size++) {
        unsigned char byte = (unsigned char)line.data[size];
        out[size] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
    }
    out[size] = '\0';
}

/* "bubblewrap 0.8.0" gives 0.8.0. */
static void find_version(struct probe_check *check, char *path)
{
    char *arguments[] = {path, "--version", NULL};
    struct bl_buffer output;
    struct probe_end end;
    char line[sizeof check->version];

    bl_buffer_init(&output, OUTPUT_MAX);
    if (probe_program_run(arguments, PROBE_LIMIT_MS, &output, &end) == 0 && !end.timed_out &&
        !end.by_signal && end.status == 0) {
        first_line(&output, line, sizeof line);
        const char *space = strrchr(line, ' ');
        snprintf(check->version, sizeof check->version, "%s", space != NULL ? space + 1 : line);
    }
    bl_buffer_done(&output);
}

static void explain_bubblewrap(struct probe_check *check, const char *path, int result,
                               const struct probe_end *end, struct bl_buffer *output)
{
    char line[160];

    first_line(output, line, sizeof line);
    if (result != 0) {
        probe_answer(check, PROBE_NO, "%.100s cannot be started: %s", path, strerror(-result));
    } else if (end->timed_out) {
        probe_answer(check, PROBE_NO, "%.100s did not end within %d s", path,
                     PROBE_LIMIT_MS / 1000);
    } else if (end->by_signal) {
        probe_answer(check, PROBE_NO, "%.100s was killed by signal %d", path, end->status);
    } else if (end->status != 0) {
        probe_answer(check, PROBE_NO, "does not work here: %s",
                     line[0] != '\0' ? line : "it says nothing");
        probe_hint(check,
                   "it needs user namespaces, and a root that is no chroot; see pidns above");
    } else {
        probe_answer(check, PROBE_OK, "%.100s", path);
    }
}

void probe_bubblewrap(struct probe_check *check)
{
    char path[PATH_MAX];
    struct bl_buffer output;
    struct probe_end end = {0};

    *check = (struct probe_check){.name = "bubblewrap"};
    if (!probe_program_find(getenv("PATH"), "bwrap", path, sizeof path)) {
        probe_answer(check, PROBE_NO, "no bwrap in PATH");
        probe_hint(check, "install the package bubblewrap");
        return;
    }
    find_version(check, path);
    char *arguments[] = {
        path,    "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc",
        "/proc", "--unshare-pid",     "true",      NULL};
    bl_buffer_init(&output, OUTPUT_MAX);
    int result = probe_program_run(arguments, PROBE_LIMIT_MS, &output, &end);
    explain_bubblewrap(check, path, result, &end, &output);
    bl_buffer_done(&output);
}

void probe_landlock(struct probe_check *check)
{
    *check = (struct probe_check){.name = "landlock"};
    long abi =
        syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi > 0) {
        snprintf(check->version, sizeof check->version, "%ld", abi);
        probe_answer(check, PROBE_OK, "ABI %ld", abi);
        return;
    }
    if (errno == EOPNOTSUPP) {
        probe_answer(check, PROBE_NO, "built into the kernel, but switched off");
        probe_hint(check, "add landlock to the list lsm= of the kernel's command line");
    } else if (errno == ENOSYS) {
        probe_answer(check, PROBE_NO, "not in this kernel");
        probe_hint(check, "use a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK");
    } else {
        probe_answer(check, PROBE_NO, "refused: %s", strerror(errno));
        probe_hint(check, "a seccomp filter may stand in the way");
    }
}

void probe_seccomp(struct probe_check *check)
{
    uint32_t action = SECCOMP_RET_KILL_PROCESS;

    *check = (struct probe_check){.name = "seccomp"};
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) {
        probe_answer(check, PROBE_OK, "filters that end the process");
        return;
    }
    probe_answer(check, PROBE_NO, "no filters that end the process: %s", strerror(errno));
    probe_hint(check, "use a kernel from 4.14 on with CONFIG_SECCOMP_FILTER");
}
