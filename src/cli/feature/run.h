/* Shared by the parts of `belay feature run`, `resume` and `retry`: opening (open.c), and the run
 * with its answer (run.c). */
#ifndef BELAY_CLI_FEATURE_RUN_H
#define BELAY_CLI_FEATURE_RUN_H

#include "cli/member.h"
#include "cli/run/stream.h"
#include "cli/signals.h"
#include "feature.h"

struct feature_runner {
    const struct feature_options *options;
    struct cli_call *call;
    struct bl_arena arena;
    char run_id[BL_ID_SIZE];
    struct bl_scope asked;        /* stopped when the run is to end */
    struct bl_scope output_scope; /* limits the wait for a slow reader */
    struct bl_scope scope;        /* the feature's */
    struct bl_stop_hook stopped;  /* on `asked` */
    struct bl_semaphore requests; /* posted when `asked` has been stopped */
    bool running;                 /* the feature can receive the stop */
    bool told;                    /* the feature has received it */
    bool hurried;                 /* a second signal arrived */
    struct cli_signals signals;
    struct cli_stream stream;
    struct bl_store *store;
    struct bl_fleet_member *member; /* NULL: the store is a file */
    struct feature_preparation *preparation;
    const char *task; /* of resume and retry; NULL: none */
    struct bl_feature *feature;
    struct bl_feature_listener listener;
    struct bl_activities activities;
    bool lines;                   /* print each event as a line on standard output */
    uint64_t dropped;             /* events that no reader took */
    struct bl_map warned;         /* warnings already shown, which the end does not repeat */
    struct bl_feature_view *view; /* at the end; NULL: the run did not start */
    struct bl_buffer remarks;     /* for standard error, at the end */
    int exit_code;
    struct bl_error error;
};

/* In a fiber: finds and loads the plan, opens the store and the feature. A stop of `asked` ends it.
 * On failure, see the runner's error. */
int feature_begin(struct feature_runner *work);

#endif
