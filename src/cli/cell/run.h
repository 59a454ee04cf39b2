/* The parts of `belay cell run`: the work (cell_run.c), and what is said of it (cell_report.c). */
#ifndef BELAY_CLI_CELL_RUN_H
#define BELAY_CLI_CELL_RUN_H

#include "cell.h"
#include "cli/run/stream.h"
#include "cli/signals.h"

struct cell_work {
    struct cli_call *call;
    const struct cell_options *options;
    struct bl_arena arena;
    char cell_id[BL_ID_SIZE];
    char session_id[BL_CELL_ID_SIZE];
    struct bl_scope scope;       /* the cell ends with it; claimed when it has ended */
    struct bl_scope patience;    /* with readers: ends with a stop and at the deadline */
    struct bl_scope listening;   /* of whoever reads standard error: who goes stops nothing */
    struct bl_stop_hook stopped; /* on the first */
    struct bl_receipt receipt;   /* of the first */
    struct cli_signals signals;
    struct cli_stream stream;
    struct cli_stream remarks; /* standard error */
    bool heard;                /* it is open */
    struct bl_text source;
    struct cell_toolset tools;
    struct bl_store *store;
    struct bl_activities activities;
    struct bl_cell_host *host;
    struct bl_cell_session *session;
    struct bl_buffer items;         /* JSON: elements of an array */
    struct bl_buffer notifications; /* the same */
    struct bl_cell_observe_outcome end;
    bool ended;            /* `end` is it */
    bool stalled;          /* and it was said */
    struct bl_error error; /* code 0: none */
    int exit_code;
};

/* For people, on standard error, without ever waiting longer than patience lasts. */
void cell_remark(struct cell_work *work, struct bl_text text);
/* A port's `notify`; the context is a struct cell_work. */
void cell_notified(void *context, const char *cell_id, uint64_t seq, struct bl_text text);
/* Takes what came of an observation. True: that was the end. */
bool cell_take_outcome(struct cell_work *work, const struct bl_cell_observe_outcome *outcome);
/* Settles the exit code, says how it ended, and waits until it is out. */
void cell_answer(struct cell_work *work);
bool cell_is_text(const struct cell_work *work);

#endif
