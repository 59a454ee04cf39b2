/* What `belay doctor` found, and the two ways of writing it down. */
#ifndef BELAY_CLI_DOCTOR_H
#define BELAY_CLI_DOCTOR_H

#include "probe.h"

struct doctor_report {
    struct probe_system system;
    union {
        struct {
            struct probe_check pidns, cgroup2, subreaper;
        };
        struct probe_check containers[3];
    };
    union {
        struct {
            struct probe_check bubblewrap, landlock, seccomp;
        };
        struct probe_check sandbox[3];
    };
    struct probe_check cells;
    struct probe_fibers fibers;
    struct probe_library libraries[PROBE_LIBRARIES];
    struct probe_limits limits;
};

/* The container of --container auto: the strongest that leaves a tool's view of the machine as it
 * is. NULL: there is none. */
const char *doctor_default_container(const struct doctor_report *report);

/* A report as doctor_answer has it. */
struct doctor_view {
    const char *version;
    const char *standard; /* the container by default; NULL: there is none */
    const struct probe_system *system;
    const struct probe_check *containers;
    const struct probe_check *sandbox;
    size_t check_count; /* of either */
    const struct probe_check *cells;
    const struct probe_fibers *fibers;
    const struct probe_library *libraries;
    size_t library_count;
    const struct probe_limits *limits;
};
struct doctor_view doctor_view(const struct doctor_report *report);
/* For people, 80 columns wide. BL_ELIMIT: it does not fit. */
int doctor_write_text(struct bl_buffer *out, const struct doctor_report *report, bool colour);

#endif
