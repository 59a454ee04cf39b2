/* The parts of `belay bootstrap`: collecting the facts (bootstrap.c), and writing them as text or
 * JSON (bootstrap_report.c). */
#ifndef BELAY_CLI_BOOTSTRAP_H
#define BELAY_CLI_BOOTSTRAP_H

#include "cli/run/run.h"

struct bootstrap_instruction {
    const char *path;
    uint64_t bytes;
};

/* The facts about the start of a session, and its first turn. */
struct bootstrap {
    /* Collected before the turn. */
    const char *git_branch; /* NULL if unknown */
    int git_dirty;          /* -1 if unknown */
    struct bl_list matches; /* struct bl_route_match */
    /* Set by bootstrap_fill. */
    const char *session_id; /* NULL if stopped before a session was opened */
    struct bl_text prompt;
    const char *directory;
    struct bootstrap_instruction *instructions;
    size_t instruction_count;
    const char *const *tools; /* end in NULL */
    const char *provider;
    const char *model;
    struct bl_turn_limits limits;
    bool budgeted;
    double max_budget_usd;
    bool timed;
    uint64_t timeout_ns;
    enum bl_permission_mode mode;
    const char *container;
    enum bl_sandbox sandbox;
    const struct bl_turn_result *first; /* the first turn; NULL if there was none */
    enum bl_turn_end end;
    struct bl_text turn; /* as JSON */
    bool persisted;      /* the turn is in the store */
};

/* Fills in the facts after the run; not called if the run could not start. */
void bootstrap_fill(struct bootstrap *bootstrap, struct run_work *work);
void bootstrap_text(struct bl_buffer *out, const struct bootstrap *bootstrap);

#endif
