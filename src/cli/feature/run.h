/* The parts of `belay feature run`, `resume` and `retry`: what they open (feature_open.c), and the
 * run itself with its answer (feature_run.c). */
#ifndef BELAY_CLI_FEATURE_RUN_H
#define BELAY_CLI_FEATURE_RUN_H

#include "cli/run/stream.h"
#include "cli/signals.h"
#include "feature.h"

struct feature_runner {
    const struct feature_options *options;
    struct cli_call *call;
    struct bl_arena arena;
    char run_id[BL_ID_SIZE];
    struct bl_scope asked;       /* somebody wants it to end */
    struct bl_scope patience;    /* with the reader */
    struct bl_scope scope;       /* of the feature */
    struct bl_stop_hook stopped; /* on `asked` */
    struct bl_semaphore wish;    /* given when it has been stopped */
    bool running;                /* the feature can be told */
    bool told;                   /* it knows */
    bool impatient;              /* a second signal came */
    struct cli_signals signals;
    struct cli_stream stream;
    struct bl_store *store;
    struct feature_preparation *preparation;
    const char *task; /* of resume and retry; NULL: none */
    struct bl_feature *feature;
    struct bl_feature_listener listener;
    struct bl_activities activities;
    bool lines;                   /* each event is one, on standard output */
    uint64_t dropped;             /* events that nobody took */
    struct bl_feature_view *view; /* at the end; NULL: it did not begin */
    struct bl_buffer remarks;     /* for standard error, when all is over */
    int exit_code;
    struct bl_error error;
};

/* In a fiber: finds the plan, reads it, opens the store and the feature; a stop of `asked` ends it.
 * The runner's error says what is wrong. */
int feature_begin(struct feature_runner *work);

#endif
