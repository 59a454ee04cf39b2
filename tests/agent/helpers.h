/* A run on real parts: the script model, bash in a warden, a SQLite file in a folder of its own. */
#ifndef BELAY_TESTS_AGENT_HELPERS_H
#define BELAY_TESTS_AGENT_HELPERS_H

#include <belay/agent.h>

#include "fibers.h"

#define MS BL_NS_PER_MS

struct rig {
    char folder[64];
    char path[96];
    struct bl_store *store;
    struct bl_script *script;
    struct bl_script_player *player;
    struct bl_model model;
    struct bl_permissions *permissions;
    struct bl_toolbox *toolbox;
    struct bl_activities activities;
    struct bl_scope scope;
    struct bl_arena arena;
    struct bl_agent_options options;
    struct bl_agent_result result;
    struct bl_error error;
};

/* In a fiber; `script` is YAML. */
void rig_init(struct rig *rig, const char *script);
void rig_done(struct rig *rig);
/* One run of the session "rig" with that prompt, below a new scope. Returns bl_agent_run's code. */
int rig_run(struct rig *rig, const char *prompt);
/* Another script, from its beginning. */
void rig_script(struct rig *rig, const char *script);
/* The session's view, from the file. */
struct bl_store_session_view rig_view(struct rig *rig);

#endif
