/* Declarations shared by the folders of this room. */
#ifndef BELAY_CELL_PARTS_H
#define BELAY_CELL_PARTS_H

#include <belay/cell.h>
#include <belay/wire.h>

#include "cell/codec/codec.h"

/* ---- fault.c: faults that tests inject ------------------------------------------------------- */

#define CELL_FAULT_TABLE(X)                                                                        \
    X(CELL_AT_CREATE_ADMIT, "cell.create.admit")                                                   \
    X(CELL_AT_CREATE_ADMITTED, "cell.create.admitted")                                             \
    X(CELL_AT_OBSERVE_DECIDED, "cell.observe.decided")                                             \
    X(CELL_AT_COMPLETE_CLAIMED, "cell.complete.claimed")                                           \
    X(CELL_AT_COMPLETE_RECORDED, "cell.complete.recorded")                                         \
    X(CELL_AT_TERMINATE_ASKED, "cell.terminate.asked")                                             \
    X(CELL_AT_TERMINATE_STOPPED, "cell.terminate.stopped")                                         \
    X(CELL_AT_TERMINATE_RECORDED, "cell.terminate.recorded")                                       \
    X(CELL_AT_REPLY_SEND, "cell.reply.send")                                                       \
    X(CELL_AT_STORE_WRITE, "cell.store.write")                                                     \
    X(CELL_AT_WORKER_START, "cell.worker.start")

enum cell_fault_point {
#define CELL_FAULT_POINT(name, text) name,
    CELL_FAULT_TABLE(CELL_FAULT_POINT)
#undef CELL_FAULT_POINT
    CELL_FAULT_COUNT,
};

enum cell_fault_action {
    CELL_GO_ON,
    CELL_FAIL,
    CELL_DROP,
};

/* What an operation returns when a fault rule drops it. */
#define CELL_DROPPED BL_ECLOSED

/* POINT=kill|drop|fail|delay:MS[@N], separated by commas; with @N only the Nth time. */
struct cell_faults {
    struct cell_fault_rule {
        enum {
            CELL_RULE_NONE,
            CELL_RULE_KILL,
            CELL_RULE_DROP,
            CELL_RULE_FAIL,
            CELL_RULE_DELAY
        } what;
        uint64_t delay_ms;
        uint64_t only; /* 0: every time */
        uint64_t seen;
    } rules[CELL_FAULT_COUNT];
};

/* BL_EINVAL: malformed. In builds without tests, no rule is ever set. */
int cell_faults_parse(struct cell_faults *faults, const char *text, struct bl_error *error);
/* Runs in a fiber; may wait, or end the process. */
enum cell_fault_action cell_fault_hit(struct bl_cell_host *host, enum cell_fault_point point);

/* ---- Operations, as bytes: what the wire sends, and what is decoded for C -------------------- */

/* The `ok` of the reply, in the arena. */
int cell_observe(struct bl_cell_session *session, const struct bl_cell_observe *observe,
                 struct bl_arena *arena, struct bl_text *ret_ok, struct bl_cell_fault *fault);
int cell_terminate(struct bl_cell_session *session, const struct bl_cell_terminate *terminate,
                   struct bl_arena *arena, struct bl_text *ret_ok, struct bl_cell_fault *fault);
/* Fills the fault, formats its message, and returns the error code that goes with it. */
int cell_refuse(struct bl_cell_fault *fault, enum bl_cell_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint32_t cell_host_live_max(const struct bl_cell_host *host);

#endif
