/* The parts of `belay bootstrap`: what it collects (bootstrap.c), and the two ways of writing it
 * down (bootstrap_report.c). */
#ifndef BELAY_CLI_BOOTSTRAP_H
#define BELAY_CLI_BOOTSTRAP_H

#include "cli/run/run.h"

/* What a session starts with, besides what the run knows. */
struct bootstrap {
    const char *git_branch; /* NULL: not known */
    bool git_known;
    bool git_dirty;
    struct bl_list matches; /* struct bl_route_match */
};

/* Members of the envelope; `context` is a struct run_work whose context is a struct bootstrap. */
void bootstrap_payload(struct bl_json_writer *writer, const void *context);
void bootstrap_text(struct bl_buffer *out, const struct run_work *work);
/* True when the turn is in the store. */
bool bootstrap_persisted(const struct run_work *work);

#endif
