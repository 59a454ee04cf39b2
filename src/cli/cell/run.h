/* The parts of `belay cell run`: the work (run.c) and its output (report.c). */
#ifndef BELAY_CLI_CELL_RUN_H
#define BELAY_CLI_CELL_RUN_H

#include "cell.h"
#include "cli/member.h"
#include "cli/run/stream.h"
#include "cli/signals.h"

struct cell_work {
    struct cli_call *call;
    const struct cell_options *options;
    struct bl_arena arena;
    char cell_id[BL_ID_SIZE];
    char session_id[BL_CELL_ID_SIZE];
    struct bl_scope scope;       /* the cell ends with it; claimed when the cell has ended */
    struct bl_scope wait_limit;  /* bounds waits for readers: ends at a stop or the deadline */
    struct bl_scope listening;   /* stopped if standard error is closed, which stops nothing else */
    struct bl_stop_hook stopped; /* on `scope` */
    struct bl_receipt receipt;   /* of `scope` */
    struct cli_signals signals;
    struct cli_stream stream;
    struct cli_stream remarks; /* standard error */
    bool heard;                /* `remarks` is open */
    struct bl_text source;
    struct cell_toolset tools;
    struct bl_store *store;
    struct bl_fleet_member *member; /* NULL: the store is a file */
    struct bl_activities activities;
    struct bl_cell_host *host;
    struct bl_cell_session *session;
    struct bl_buffer items;         /* JSON: elements of an array */
    struct bl_buffer notifications; /* the same */
    struct bl_cell_observe_outcome end;
    bool ended;            /* `end` is set */
    bool stalled;          /* the cell has stalled, and this was reported */
    struct bl_error error; /* code 0 if none */
    int exit_code;
};

/* Writes to standard error, in text only; waits no longer than `wait_limit` allows. */
void cell_remark(struct cell_work *work, struct bl_text text);
/* The `notify` of a port; the context is a struct cell_work. */
void cell_notified(void *context, const char *cell_id, uint64_t seq, struct bl_text text);
/* Takes the outcome of an observation. Returns true if the cell has ended. */
bool cell_take_outcome(struct cell_work *work, const struct bl_cell_observe_outcome *outcome);
/* Sets the exit code, reports how the cell ended, and waits until that is written. */
void cell_answer(struct cell_work *work);
bool cell_is_text(const struct cell_work *work);

#endif
