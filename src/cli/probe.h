/* Probes of the machine: each tries one thing for real, never waits longer than PROBE_LIMIT_MS, and
 * leaves neither a process nor a cgroup directory behind. */
#ifndef BELAY_CLI_PROBE_H
#define BELAY_CLI_PROBE_H

#include <sys/types.h>

#include <belay/base.h>

#define PROBE_LIMIT_MS 5000

enum probe_state {
    PROBE_NO,
    PROBE_OK,
    PROBE_UNTRIED, /* the probe itself could not be made */
};

/* One thing that the machine offers or not. */
struct probe_check {
    const char *name;
    enum probe_state state;
    char version[64]; /* empty: none is known */
    char detail[256]; /* how, or why not */
    char hint[256];   /* what to do to get it; empty when it is there */
};

void probe_answer(struct probe_check *check, enum probe_state state, const char *format, ...)
    BL_PRINTF(3, 4);
void probe_hint(struct probe_check *check, const char *format, ...) BL_PRINTF(2, 3);

/* ---- probe_containment.c, probe_cgroup.c, probe_sandbox.c -------------------------------------
 */

void probe_pidns(struct probe_check *check);
void probe_subreaper(struct probe_check *check);
void probe_cgroup2(struct probe_check *check);
void probe_bubblewrap(struct probe_check *check);
void probe_landlock(struct probe_check *check);
void probe_seccomp(struct probe_check *check);

/* Where this process's cgroup is to be found, by the text of /proc/self/mountinfo and
 * /proc/self/cgroup; false: nowhere, and `out` says why. */
bool probe_cgroup_directory(struct bl_text mounts, struct bl_text membership, char *out,
                            size_t out_size);

/* ---- probe_system.c ---------------------------------------------------------------------------
 */

struct probe_system {
    char kernel[65];
    char machine[65];
    unsigned processors;
    uint64_t memory_bytes;
    uint64_t page_bytes;
};

#define PROBE_UNLIMITED UINT64_MAX

struct probe_limits {
    uint64_t open_files_soft;
    uint64_t open_files_hard;
    uint64_t processes_soft;
    uint64_t processes_hard;
    int64_t memory_maps;       /* vm.max_map_count; -1: not known */
    int64_t memory_overcommit; /* vm.overcommit_memory; -1: not known */
};

struct probe_fibers {
    const char *guard;
    uint32_t fibers_max; /* 0: no limit of our own */
    uint64_t stack_bytes;
};

struct probe_library {
    const char *name;
    char compiled[32];
    char running[32];
};

#define PROBE_LIBRARIES 2

void probe_system(struct probe_system *system);
void probe_limits(struct probe_limits *limits);
void probe_fibers(struct probe_fibers *fibers);
void probe_libraries(struct probe_library libraries[PROBE_LIBRARIES]);
/* A small file as text into `out`; empty when it cannot be read, cut when it does not fit. */
struct bl_text probe_read_file(const char *path, char *out, size_t out_size);

/* ---- probe_child.c ----------------------------------------------------------------------------
 */

/* A child that runs a function of ours in a copy of this process. */
struct probe_child {
    pid_t pid;
    int pidfd;
};

/* How a child ended. */
struct probe_end {
    bool timed_out; /* it was killed for that */
    bool by_signal;
    int status; /* exit code, or number of the signal */
};

/* Starts it with the clone `flags`. `main` may only make system calls; what it returns is its exit
 * code. The child dies with this process. Returns 0 or a negative errno. */
int probe_child_start(struct probe_child *child, uint64_t flags, int (*main)(void));
/* Waits at most PROBE_LIMIT_MS, then kills it; either way the child is gone and reaped after. */
void probe_child_wait(struct probe_child *child, struct probe_end *ret_end);

/* ---- probe_program.c --------------------------------------------------------------------------
 */

/* Looks for an executable file in the absolute folders of `search` (as PATH). False: not there. */
bool probe_program_find(const char *search, const char *name, char *out, size_t out_size);
/* Runs a program without a shell, with nothing to read; `output` gets the first bytes of what it
 * prints, standard error included. Killed with its process group after `limit_ms`. Returns 0 or a
 * negative errno when it could not be started. */
int probe_program_run(char *const arguments[], int limit_ms, struct bl_buffer *output,
                      struct probe_end *ret_end);

#endif
