/* Helpers of this room's tests: trees of badly behaved processes (nasty.c) under a warden, and a
 * proof of their end that is independent of the room. Each tree has a random marker in its
 * environment, for which /proc is searched. */
#ifndef BELAY_TESTS_PROC_HELPERS_H
#define BELAY_TESTS_PROC_HELPERS_H

#include <belay/proc.h>

#include "fibers.h"

#define MS         BL_NS_PER_MS
#define READY_NAME "nasty-ready"
#define MARKER_MAX 64u

/* ---- Containers ------------------------------------------------------------------------------ */

extern enum bl_mechanism each_container[3];

/* Defines a test for each container. */
#define IN_EACH(test)                                                                              \
    {#test "_in_pidns", test, NULL, NULL, &each_container[0]},                                     \
        {#test "_in_cgroup2", test, NULL, NULL, &each_container[1]},                               \
    {                                                                                              \
#test "_in_subreaper", test, NULL, NULL, &each_container[2]                                \
    }

/* Returns the container of such a test; skips the test with a message if it is not available. */
enum bl_mechanism container_of_test(void **state);

/* ---- Markers --------------------------------------------------------------------------------- */

/* Makes a unique "BELAY_TEST_MARKER=…". */
void marker_make(char marker[MARKER_MAX]);

/* Reads the first bytes of a file of /proc/PID, NUL-terminated; empty if it cannot be read. */
size_t process_read(const char *pid, const char *file, char *out, size_t out_size);

/* The processes that have a marker now, without zombies. */
struct marked {
    size_t tools;     /* all except wardens */
    size_t wardens;   /* by name */
    size_t ready;     /* tools that are ready by their name (marker_scan) */
    size_t in_state;  /* tools in the requested state */
    pid_t pids[4096]; /* of the tools, as many as fit */
};

/* Scans /proc. `name` NULL: READY_NAME; `process_state`: a letter of /proc/PID/stat, or 0. The
 * result is static and valid until the next scan. */
const struct marked *marker_scan(const char *marker, const char *name, char process_state);
/* Returns the number of living tools. One pass could miss a tool that continues in a child
 * meanwhile, so 0 is returned only after three empty passes in a row. */
size_t marker_count(const char *marker);
/* Kills all processes that have the marker, including wardens, until none has it or five seconds
 * have passed; for failed tests. Returns the number found first. */
size_t marker_kill(const char *marker);

/* ---- Trees ----------------------------------------------------------------------------------- */

/* A nasty command under a warden. */
struct tool {
    char marker[MARKER_MAX];
    const char *arguments[8];
    const char **environment;
    struct bl_warden_options options;
    struct bl_warden *warden; /* NULL: not started */
};

/* Returns the path of nasty, in the directory of this test. The result is static. */
const char *path_of_nasty(void);
/* Words: mode and argument of nasty. The options have no streams and a grace period of 200 ms. */
void tool_init(struct tool *tool, enum bl_mechanism container, const char *const *words);
#define TOOL_INIT(tool, container, ...)                                                            \
    tool_init(tool, container, (const char *const[]){__VA_ARGS__, NULL})
/* Sets another program than nasty; it is looked up as the options say. */
void tool_set_command(struct tool *tool, const char *const *words);
int tool_start(struct tool *tool); /* checks that it succeeds */
/* Waits until `count` of its processes are named `name` (NULL: READY_NAME); checks that this
 * happens. */
void tool_await(struct tool *tool, const char *name, size_t count);
void tool_await_state(struct tool *tool, char process_state, size_t count);
/* Stops the tool, checks by both proofs that no process is left, and returns the time in ms. */
double tool_stop(struct tool *tool, uint32_t grace_ms, struct bl_warden_end *ret_end);
/* Frees the warden; checks that neither tool nor warden is left. */
void tool_done(struct tool *tool);

/* Returns the warden of a command: its ancestor that is a child of this process. 0: not found. */
pid_t warden_of(pid_t command);

/* Runs a command with its output captured (4 KiB of each end), and checks that it exits by itself.
 * Its output is in `out`, shortened and NUL-terminated. */
void tool_run(struct tool *tool, char *out, size_t out_size, struct bl_warden_end *ret_end);

/* ---- Roles ----------------------------------------------------------------------------------- */

/* Another Belay process: this program, started with "--role". */

#define REPORT_FD 3 /* the role writes its reports there */

/* The argument of a role's fiber. */
struct role {
    enum bl_mechanism container;
    const char *marker;
};

/* Like tool_init, with the marker of the role. */
void role_tool_init(struct tool *tool, const struct role *role, const char *const *words);

/* kill_test.c: runs this program in a role. Returns its exit code. */
int kill_role(int argument_count, char **arguments);
/* Roles of other files. */
int report_role_left(void *argument);
int report_role_stranger(void *argument);
int lease_role_hold(void *argument);

struct belay {
    pid_t pid;
    int report; /* read end of its REPORT_FD */
    int errors; /* its standard error */
    char marker[MARKER_MAX];
};

/* Its streams are not pipes that this test reads, so processes it leaves behind block no reader. */
void belay_start(struct belay *belay, const char *role, enum bl_mechanism container);
/* Reads a report; fails the test if there is none. */
void belay_hear(const struct belay *belay, void *out, size_t size);
/* Waits for the process, and prints its errors. Returns its status as waitpid does. */
int belay_end(struct belay *belay);

/* Runs `main` in a child, whose limits and mounts it may change. It returns 0 on success, or
 * EXIT_NO_MOUNTS if mounting is not permitted. It must not assert, because that would jump out of
 * the child. */
#define CHILD_LIFE_S   60
#define EXIT_NO_MOUNTS 77
void run_in_child(int (*main)(void));

double now_ms(void);
void nap_ms(unsigned ms); /* blocks: for code outside loops */

#endif
