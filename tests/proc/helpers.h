/* What the tests of this room share: trees of bad processes (nasty.c) under a warden, and a proof
 * of their end that owes nothing to the room: each tree carries a random marker in its environment,
 * and /proc is searched for it. */
#ifndef BELAY_TESTS_PROC_HELPERS_H
#define BELAY_TESTS_PROC_HELPERS_H

#include <belay/proc.h>

#include "fibers.h"

#define MS         BL_NS_PER_MS
#define READY_NAME "nasty-ready"
#define MARKER_MAX 64u

/* ---- Containers ------------------------------------------------------------------------------ */

extern enum bl_mechanism each_container[3];

/* A test for each container, by name. */
#define IN_EACH(test)                                                                              \
    {#test "_in_pidns", test, NULL, NULL, &each_container[0]},                                     \
        {#test "_in_cgroup2", test, NULL, NULL, &each_container[1]},                               \
    {                                                                                              \
#test "_in_subreaper", test, NULL, NULL, &each_container[2]                                \
    }

/* The container of such a test; skips it where the container is not available, and says why. */
enum bl_mechanism container_of_test(void **state);

/* ---- Markers --------------------------------------------------------------------------------- */

/* "BELAY_TEST_MARKER=…", another one each time. */
void marker_make(char marker[MARKER_MAX]);

/* Who carries a marker now. Zombies are not looked at. */
struct marked {
    size_t tools;     /* those that are no wardens */
    size_t wardens;   /* by name */
    size_t ready;     /* tools that have come to rest, or are named so (marker_scan) */
    size_t in_state;  /* tools in the state asked for */
    pid_t pids[4096]; /* the tools, as many as fit */
};

/* `name` NULL: READY_NAME; `process_state`: a letter of /proc/PID/stat, or 0. The result is static:
 * it stays until the next scan. */
const struct marked *marker_scan(const char *marker, const char *name, char process_state);
/* Tools alive. A single pass could miss one that goes on in a child while it is looked for: three
 * passes in a row see none, or this is the count. */
size_t marker_count(const char *marker);
/* Kills what carries it, wardens too, until nothing does or five seconds have gone by; for the ends
 * of tests that failed. Returns how many it found first. */
size_t marker_kill(const char *marker);

/* ---- Trees ----------------------------------------------------------------------------------- */

/* A command of nasty's under a warden. */
struct tool {
    char marker[MARKER_MAX];
    const char *arguments[8];
    const char **environment;
    struct bl_warden_options options;
    struct bl_warden *warden; /* NULL: not started */
};

/* Path of a program in this test's directory. The result is static. */
const char *path_of_nasty(void);
/* Words: nasty's mode and argument. Options have no streams and a grace of 200 ms. */
void tool_init(struct tool *tool, enum bl_mechanism container, const char *const *words);
#define TOOL_INIT(tool, container, ...)                                                            \
    tool_init(tool, container, (const char *const[]){__VA_ARGS__, NULL})
/* Another program than nasty, looked up as the options say. */
void tool_set_command(struct tool *tool, const char *const *words);
int tool_start(struct tool *tool); /* checks that it works */
/* Until `count` of its processes are named `name` (NULL: READY_NAME); checks that it comes to that.
 */
void tool_await(struct tool *tool, const char *name, size_t count);
void tool_await_state(struct tool *tool, char process_state, size_t count);
/* Stops it, checks that nobody is left by either proof, and returns how long it took, in ms. */
double tool_stop(struct tool *tool, uint32_t grace_ms, struct bl_warden_end *ret_end);
/* Frees the warden; checks that neither tool nor warden is left. */
void tool_done(struct tool *tool);

/* The warden of a command: that ancestor of its whose parent this process is. 0: not found. */
pid_t warden_of(pid_t command);

/* Runs a command with its output captured (4 KiB of each end), and checks that it ends by itself.
 * What it wrote is in `out`, cut and ended by NUL. */
void tool_run(struct tool *tool, char *out, size_t out_size, struct bl_warden_end *ret_end);

/* kill_test.c: what this program does when its first argument is "--role". Returns its exit code.
 */
int kill_role(int argument_count, char **arguments);
/* report_test.c: two of these roles. */
int report_role_left(void *argument);
int report_role_stranger(void *argument);

/* Runs `main` in a child, whose limits and mounts it may change; it returns 0 when all went well,
 * EXIT_NO_MOUNTS where it may not mount. It must not assert: that would jump out of it. */
#define CHILD_LIFE_S   60
#define EXIT_NO_MOUNTS 77
void run_in_child(int (*main)(void));

double now_ms(void);
void nap_ms(unsigned ms); /* blocks: for code outside of loops */

#endif
