/* The doctor's own probes: facts about the system, the kernel and the libraries. Room proc tries
 * containers and the sandbox. */
#ifndef BELAY_CLI_PROBE_H
#define BELAY_CLI_PROBE_H

#include <belay/base.h>

enum probe_state {
    PROBE_NO,
    PROBE_OK,
    PROBE_UNTRIED, /* the probe itself failed */
};

/* One feature of the machine, available or not. */
struct probe_check {
    const char *name;
    int state;        /* enum probe_state */
    char version[64]; /* empty if unknown */
    char detail[256]; /* how it is available, or why not */
    char hint[256];   /* how to get it; empty if it is available */
};

void probe_answer(struct probe_check *check, enum probe_state state, const char *format, ...)
    BL_PRINTF(3, 4);
void probe_hint(struct probe_check *check, const char *format, ...) BL_PRINTF(2, 3);

/* ---- probe_kernel.c -------------------------------------------------------------------------- */

void probe_landlock(struct probe_check *check);
void probe_seccomp(struct probe_check *check);

/* ---- probe_cell.c ---------------------------------------------------------------------------- */

/* Runs a cell. */
void probe_cells(struct probe_check *check);

/* ---- probe_database.c ------------------------------------------------------------------------ */

/* The store, if it is a database. */
struct probe_database {
    struct probe_check check; /* name NULL: the store is a file */
    char server[32];          /* version; empty if unknown, and so are the others */
    int64_t schema;
    double round_trip_ms;
};

/* Connects to the database at `where`, if it is the address of one. */
void probe_database(const char *where, struct probe_database *database);

/* ---- probe_system.c -------------------------------------------------------------------------- */

struct probe_system {
    char kernel[65];
    char machine[65];
    unsigned processors;
    uint64_t memory_bytes;
    uint64_t page_bytes;
};

#define PROBE_UNLIMITED UINT64_MAX

struct probe_limit {
    uint64_t soft;
    uint64_t hard;
};

struct probe_limits {
    struct probe_limit open_files;
    struct probe_limit processes;
    int64_t memory_maps;       /* vm.max_map_count; -1 if unknown */
    int64_t memory_overcommit; /* vm.overcommit_memory; -1 if unknown */
};

struct probe_fibers {
    const char *guard;
    uint32_t fibers_max; /* 0 if belay sets no limit */
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

#endif
