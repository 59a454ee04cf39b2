/* What `belay doctor` found, and the two ways of writing it down. */
#ifndef BELAY_CLI_DOCTOR_H
#define BELAY_CLI_DOCTOR_H

#include <belay/json.h>

#include "probe.h"

struct doctor_report {
    struct probe_system system;
    struct probe_check pidns;
    struct probe_check cgroup2;
    struct probe_check subreaper;
    struct probe_check bubblewrap;
    struct probe_check landlock;
    struct probe_check seccomp;
    struct probe_check cells;
    struct probe_fibers fibers;
    struct probe_library libraries[PROBE_LIBRARIES];
    struct probe_limits limits;
};

/* The container of --container auto: the strongest that leaves a tool's view of the machine as it
 * is. NULL: there is none. */
const char *doctor_default_container(const struct doctor_report *report);

/* Members of the envelope; `context` is a struct doctor_report. */
void doctor_write_json(struct bl_json_writer *writer, const void *context);
/* For people, 80 columns wide. BL_ELIMIT: it does not fit. */
int doctor_write_text(struct bl_buffer *out, const struct doctor_report *report, bool colour);

#endif
