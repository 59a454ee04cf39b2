/* The report of `belay doctor`, and how it is written as text and JSON. */
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
    struct probe_database database;
    struct probe_fibers fibers;
    struct probe_library libraries[PROBE_LIBRARIES];
    struct probe_limits limits;
};

/* Returns the container of --container auto: the strongest one that does not change a tool's view
 * of the machine. NULL if none is available. */
const char *doctor_default_container(const struct doctor_report *report);

/* The report in the form that doctor_answer describes. */
struct doctor_view {
    const char *version;
    const char *standard; /* the default container; NULL if none is available */
    const struct probe_system *system;
    const struct probe_check *containers;
    const struct probe_check *sandbox;
    size_t check_count; /* of containers and of sandbox */
    const struct probe_check *cells;
    const struct probe_database *database; /* NULL: the store is a file */
    const struct probe_fibers *fibers;
    const struct probe_library *libraries;
    size_t library_count;
    const struct probe_limits *limits;
};
struct doctor_view doctor_view(const struct doctor_report *report);
/* Writes the report for people, 80 columns wide. BL_ELIMIT if it does not fit. */
int doctor_write_text(struct bl_buffer *out, const struct doctor_report *report, bool colour);

#endif
