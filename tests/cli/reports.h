/* A doctor report that uses every member, with constant values. */
#ifndef BELAY_TESTS_CLI_REPORTS_H
#define BELAY_TESTS_CLI_REPORTS_H

#include "cli/doctor/doctor.h"

static inline struct doctor_report report_sample(void)
{
    return (struct doctor_report){
        .system = {"6.1.0", "riscv64", 4, 8589934592, 4096},
        .pidns = {"pidns", PROBE_UNTRIED, "", "cannot start a child: Out of memory", ""},
        .cgroup2 = {"cgroup2", PROBE_NO, "",
                    "/sys/fs/cgroup/user.slice is not delegated to this "
                    "user, and this sentence goes on for longer than a line",
                    "ask for it"},
        .subreaper = {"subreaper", PROBE_OK, "", "orphans come to the warden", ""},
        .bubblewrap = {"bubblewrap", PROBE_OK, "0.8.0", "/usr/bin/bwrap", ""},
        .landlock = {"landlock", PROBE_OK, "7", "ABI 7", ""},
        .seccomp = {"seccomp", PROBE_OK, "", "filters", ""},
        .cells = {"worker", PROBE_NO, "", "no such program", "install it"},
        .database = {{"database", PROBE_OK, "", "postgres://db/belay: PostgreSQL 15.4", ""},
                     "15.4",
                     1,
                     0.5},
        .fibers = {"protected pages", 30000, 65536},
        .libraries = {{"libuv", "1.44.2", "1.48.0"}, {"libc", "2.36", "2.36"}},
        .limits = {{1024, PROBE_UNLIMITED}, {5, 6}, 65530, -1},
    };
}

#endif
