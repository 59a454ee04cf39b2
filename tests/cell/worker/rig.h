/* A worker driven by hand, without a host: under a real warden, with a socket pair as its
 * descriptor 0. All of it in fibers. */
#ifndef BELAY_TESTS_CELL_RIG_H
#define BELAY_TESTS_CELL_RIG_H

#include <belay/json.h>
#include <belay/proc.h>
#include <belay/wire.h>

#include "cell/worker/protocol.h"
#include "fibers.h"

#define RIG_MEMORY ((uint64_t)64 * 1024 * 1024)
#define RIG_OUTPUT ((uint64_t)4 * 1024 * 1024)

struct rig {
    struct bl_warden *warden; /* NULL: it could not be started */
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_frames frames;
    struct bl_arena arena; /* of all that came */
    struct rig_frame {
        struct rig_frame *next;
        const struct bl_json *json; /* NULL: it is none */
    } * first, *last;
    bool ended; /* the worker says no more */
};

/* What a cell is given; zeroed: nothing, and the defaults. */
struct rig_cell {
    const char *source;
    struct bl_text bytes; /* the source, where it holds a NUL */
    const char *tools;    /* JSON; NULL: [] */
    const char *values;   /* JSON; NULL: {} */
    uint64_t memory_bytes, output_bytes;
    bool no_notify;
};

/* Starts a worker and waits until it is ready. False: it is not, and a check has failed. */
bool rig_start(struct rig *rig);
/* The environment is given besides, as NAME=VALUE. */
bool rig_start_with(struct rig *rig, const char *variable);
void rig_done(struct rig *rig);

void rig_send(struct rig *rig, const char *json);
void rig_give(struct rig *rig, const struct rig_cell *cell); /* start */
/* The next frame; NULL: it has ended, or nothing came in 20 s. */
const struct bl_json *rig_next(struct rig *rig);
/* That, if it is of this type; a check fails otherwise. */
const struct bl_json *rig_expect(struct rig *rig, const char *type);
/* Waits for the end of the worker. */
void rig_end(struct rig *rig, struct bl_warden_end *ret_end);

/* A cell from its start to its end. */
struct rig_run {
    struct bl_arena arena;
    struct bl_buffer text; /* the items: text as it is, images as [URL detail], LF after each */
    const struct bl_json *settled; /* NULL: it did not */
    unsigned yields, items, calls;
    struct bl_warden_end end;
};

void rig_run(struct rig_run *run, const struct rig_cell *cell);
void rig_run_done(struct rig_run *run);
/* Its text is this; it settled without an error. */
bool rig_says(const char *source, const char *expected);
/* The same with what the cell is given. */
bool rig_cell_says(const struct rig_cell *cell, const char *expected);
/* A member of its error; empty: none. */
struct bl_text rig_error(const struct rig_run *run, const char *member);
/* It settled with this error; NULL: whatever it is. */
bool rig_fails(const char *source, const char *kind, const char *name, const char *message);

/* A number of /proc/PID/status, in KiB; 0: not there. */
uint64_t rig_status(const struct rig *rig, const char *name);

/* Runs a fiber with no argument. */
#define RIG_TEST(name)                                                                             \
    static int name##_main(void *argument);                                                        \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(name##_main, NULL);                                                            \
    }                                                                                              \
    static int name##_main(void *argument BL_UNUSED)

#endif
