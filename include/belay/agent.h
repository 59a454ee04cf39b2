/* agent: where the parts meet. A session, a model, tools and a store become a run that can be
 * watched and stopped.
 *
 * Promises: what is listed as running runs, and what has ended is listed no more; a stop by id
 * reaches exactly that piece of work and what is below it, and answers with the receipt when all of
 * it is quiet. */
#ifndef BELAY_AGENT_H
#define BELAY_AGENT_H

#include <belay/model.h>
#include <belay/store.h>
#include <belay/tool.h>

/* ---- What runs now --------------------------------------------------------------------------- */

/* One piece of work under way. Embedded by whoever does it. */
struct bl_activity {
    struct bl_list link;
    const char *kind; /* run, call */
    char id[72];
    char session[72];
    char phase[32]; /* model, tool bash, commit, … */
    struct bl_scope *scope;
    uint64_t started_ns;
    uint64_t active_ns; /* last sign of life */
    uint64_t tokens;
    struct bl_list waiters; /* who wants to know when it has ended */
};

/* All of a process. Embedded by its owner. */
struct bl_activities {
    struct bl_list list;
};

void bl_activities_init(struct bl_activities *activities);
/* Lists it; kind, id, session, phase and scope are filled. */
void bl_activity_begin(struct bl_activities *activities, struct bl_activity *activity);
/* Takes it off the list. `receipt` (JSON; may be empty: it was not stopped) goes to all who asked.
 */
void bl_activity_end(struct bl_activity *activity, struct bl_text receipt);
/* {"id","kind","session","phase","age_ms","deadline_left_ms"|null,"tokens","idle_ms"}, one each. */
void bl_activities_write(const struct bl_activities *activities, struct bl_json_writer *writer);
/* Stops what has that id (a run, a call, or a session: its run), reason user, waits until it is
 * quiet, and writes the receipt: nothing, when it had come to its end first. BL_ENOENT: nothing of
 * that id runs. `origin` names who asks. */
int bl_activities_cancel(struct bl_activities *activities, const char *id, const char *origin,
                         struct bl_buffer *ret_receipt);

/* ---- A run ----------------------------------------------------------------------------------- */

struct bl_agent_options {
    struct bl_store *store;
    struct bl_store_hold_options session; /* its run_id, request_id, prompt too */
    const struct bl_model *model;
    struct bl_toolbox *toolbox;         /* NULL: no tools */
    const struct bl_listener *listener; /* NULL: nobody */
    struct bl_activities *activities;   /* NULL: not listed */
    struct bl_scope *scope;             /* of the run: the caller's, who may stop it */
    struct bl_run_options run;
    struct bl_turn_limits limits;
    struct bl_text system;
    struct bl_text schema_text;
    const struct bl_json_schema *schema;
};

struct bl_agent_result {
    char session_id[72];
    struct bl_store_recovery recovery;
    struct bl_run_result run;
};

/* Opens the session, runs the loop, closes the session. 0 also when the run did not complete: the
 * result says it. Other codes: it could not begin, and `error` says why. */
int bl_agent_run(const struct bl_agent_options *options, struct bl_arena *arena,
                 struct bl_agent_result *ret_result, struct bl_error *error);

/* ---- What a session starts with -------------------------------------------------------------- */

/* One file of instructions. */
struct bl_instruction {
    struct bl_list link;
    const char *path;
    struct bl_text text;
};

/* AGENTS.md from the workspace's root (the repository's, else the directory itself) down to
 * `directory`, nearest last, after the user's own ($XDG_CONFIG_HOME/belay/AGENTS.md). A file above
 * 256 KiB or that is not UTF-8 is an error. */
int bl_instructions_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_list,
                         struct bl_error *error);

/* A command or tool that a prompt matches. */
struct bl_route_match {
    struct bl_list link;
    const char *kind; /* command, tool */
    const char *name;
    uint32_t score;
};

/* Best first; words of the prompt against names and descriptions. Runs nothing. */
void bl_route(struct bl_arena *arena, struct bl_text prompt, const struct bl_tools *tools,
              struct bl_list *ret_matches);

#endif
