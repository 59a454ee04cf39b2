/* Runs the real program, build/belay, and keeps what it wrote. */
#ifndef BELAY_TESTS_CLI_RUNNER_H
#define BELAY_TESTS_CLI_RUNNER_H

#include "suite.h"

#include <sys/types.h>

#define RUN_OUTPUT_MAX 65536u

enum {
    RUN_KEEP = -1,  /* standard output goes into `out` */
    RUN_CLOSE = -2, /* standard output is closed */
};

struct run {
    pid_t pid;               /* that it had */
    int exit_code;           /* 128 + signal when it died by one */
    uint64_t from_ns, to_ns; /* when it was started, and had ended */
    char out[RUN_OUTPUT_MAX];
    char err[RUN_OUTPUT_MAX];
};

/* "BELAY_BUILD_ROOT/belay"; fails the test when the variable is not set. */
const char *runner_program(void);
/* `arguments` without the program's name, by words; ends in NULL. `environment` is added to ours
 * ("NAME=value", ends in NULL; may be NULL). `output_fd`: RUN_KEEP, RUN_CLOSE, or a descriptor. */
void runner_run_with(struct run *run, const char *const *arguments, const char *const *environment,
                     int output_fd);
#define RUN(run, ...) runner_run_with(run, (const char *const[]){__VA_ARGS__, NULL}, NULL, RUN_KEEP)

/* A schema of docs/schemas, by name; NULL for `error`: the value must fit. */
void runner_check_schema(const char *name, const char *json);
/* How many directories of the doctor's are in this process's cgroup. */
size_t runner_count_cgroups(void);

#endif
