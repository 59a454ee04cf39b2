/* Shared by the parts of `belay feature new`. */
#ifndef BELAY_CLI_FEATURE_NEW_H
#define BELAY_CLI_FEATURE_NEW_H

#include "feature.h"

struct feature_new {
    const struct feature_options *options;
    struct bl_arena arena;
    const char *repository;
    struct bl_project project;
    struct bl_outline outline;
    struct bl_plan_source *sources; /* the plan, then a file for each task */
    struct bl_plan *plan;           /* NULL: invalid; see `problems` */
    struct bl_list problems;        /* struct bl_plan_problem */
    bool written;
    int exit_code; /* after a stop, else 0 */
    struct bl_error error;
};

/* Makes a valid plan from the outline, or problems (BL_EINVAL). */
int feature_new_check(struct feature_new *new);
/* In a fiber: asks the configured model for the plan in --prompt, up to three times until it is
 * valid. */
int feature_new_ask(struct feature_new *new);
/* Writes all files or none, and overwrites nothing. Blocks. */
int feature_new_write(struct feature_new *new);

#endif
