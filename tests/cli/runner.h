/* Runs the real program, build/belay, and keeps its output. */
#ifndef BELAY_TESTS_CLI_RUNNER_H
#define BELAY_TESTS_CLI_RUNNER_H

#include "suite.h"

#include <sys/types.h>

#define RUN_OUTPUT_MAX 262144u

enum {
    RUN_KEEP = -1,  /* standard output goes to `out` */
    RUN_CLOSE = -2, /* standard output is closed */
};

struct run {
    pid_t pid;               /* that it had */
    int exit_code;           /* 128 + signal if a signal ended it */
    uint64_t from_ns, to_ns; /* times of its start and end */
    char out[RUN_OUTPUT_MAX];
    char err[RUN_OUTPUT_MAX];
};

/* Returns "BELAY_BUILD_ROOT/belay"; fails the test if the variable is not set. */
const char *runner_program(void);
/* Runs the program. `arguments` do not include its name and end in NULL. `environment` is added to
 * ours ("NAME=value", ends in NULL; may be NULL). `output_fd` is RUN_KEEP, RUN_CLOSE or a
 * descriptor. */
void runner_run_with(struct run *run, const char *const *arguments, const char *const *environment,
                     int output_fd);
#define RUN(run, ...) runner_run_with(run, (const char *const[]){__VA_ARGS__, NULL}, NULL, RUN_KEEP)

/* Fails the test unless the JSON matches the schema of that name in docs/schemas; NULL means
 * `error`. */
void runner_check_schema(const char *name, const char *json);
/* Returns the number of the doctor's directories in this process's cgroup. */
size_t runner_count_cgroups(void);

#endif
