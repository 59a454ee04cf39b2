/* The progress of a run, shown on standard error if that is a terminal. */
#ifndef BELAY_CLI_RUN_PROGRESS_H
#define BELAY_CLI_RUN_PROGRESS_H

#include "run.h"

struct run_progress;

/* Call in a fiber, outside of the run's scope. Returns NULL if standard error is not a terminal. */
struct run_progress *run_progress_new(const struct run_work *work);
void run_progress_event(struct run_progress *progress, const struct bl_event *event);
/* True if the answer is already shown on the terminal of standard output. NULL is allowed. */
bool run_progress_shows_answer(const struct run_progress *progress);
/* Prints a summary and clears the display. `wait_limit` and the result are as for
 * cli_display_free. NULL is allowed. */
bool run_progress_free(struct run_progress *progress, struct bl_scope *wait_limit);

#endif
