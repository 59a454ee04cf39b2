/* A worker driven by hand, without a host: under a real warden, with a socket pair as its
 * descriptor 0. All of it in fibers. */
#ifndef BELAY_TESTS_CELL_RIG_H
#define BELAY_TESTS_CELL_RIG_H

#include <belay/json.h>
#include <belay/proc.h>
#include <belay/wire.h>

#include "cell/codec/codec.h"
#include "cell/worker/protocol.h"
#include "fibers.h"

#define RIG_MEMORY ((uint64_t)64 * 1024 * 1024)
#define RIG_OUTPUT ((uint64_t)4 * 1024 * 1024)

struct rig {
    struct bl_warden *warden; /* NULL: it could not be started */
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_frames frames;
    struct bl_arena arena; /* of everything received */
    struct rig_frame {
        struct rig_frame *next;
        const struct bl_json *json; /* NULL: not valid JSON */
    } * first, *last;
    bool ended; /* the worker sends nothing more */
};

/* The input of a cell; zero members mean the defaults. */
struct rig_cell {
    const char *source;
    struct bl_text bytes; /* the source, if it contains a NUL */
    const char *tools;    /* JSON; NULL: [] */
    const char *values;   /* JSON; NULL: {} */
    uint64_t memory_bytes, output_bytes;
    bool no_notify;
};

/* Starts a worker and waits until it is ready. Returns false after a failed check. */
bool rig_start(struct rig *rig);
/* The same with another environment variable, as NAME=VALUE. */
bool rig_start_with(struct rig *rig, const char *variable);
void rig_done(struct rig *rig);

void rig_send(struct rig *rig, const char *json);
void rig_give(struct rig *rig, const struct rig_cell *cell); /* start */
/* Returns the next frame, or NULL if the worker has ended or sends nothing for 20 s. */
const struct bl_json *rig_next(struct rig *rig);
/* Returns the next frame if it has this type; a check fails otherwise. */
const struct bl_json *rig_expect(struct rig *rig, const char *type);
/* Waits for the end of the worker. */
void rig_end(struct rig *rig, struct bl_warden_end *ret_end);

/* The run of a cell from its start to its end. */
struct rig_run {
    struct bl_arena arena;
    struct bl_buffer text; /* text items as they are, images as [URL detail], each followed by LF */
    const struct bl_json *settled; /* NULL: it did not settle */
    unsigned yields, items, calls;
    struct bl_warden_end end;
};

void rig_run(struct rig_run *run, const struct rig_cell *cell);
void rig_run_done(struct rig_run *run);
/* Checks that the cell has this text and settles without an error. */
bool rig_says(const char *source, const char *expected);
/* The same with more input. */
bool rig_cell_says(const struct rig_cell *cell, const char *expected);
/* Returns a member of its error, or an empty text. */
struct bl_text rig_error(const struct rig_run *run, const char *member);
/* Checks that it settles with this error; NULL matches anything. */
bool rig_fails(const char *source, const char *kind, const char *name, const char *message);

/* Returns a number of /proc/PID/status, in KiB, or 0 if it is missing. */
uint64_t rig_status(const struct rig *rig, const char *name);

/* Runs the test in a fiber. */
#define RIG_TEST(name)                                                                             \
    static int name##_main(void *argument);                                                        \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(name##_main, NULL);                                                            \
    }                                                                                              \
    static int name##_main(void *argument BL_UNUSED)

#endif
