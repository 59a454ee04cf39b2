/* A run on real parts: the script model, tools in wardens, sub-agents, a SQLite file in a folder of
 * its own. */
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
    struct bl_run_options run;
    struct bl_agent_result result;
    struct bl_error error;
    struct bl_list personas;
    struct bl_list scripts; /* of these, by the name of their model */
    struct bl_model_source models;
    struct bl_agent *agent; /* of a conversation; NULL: none is open */
    char run_id[BL_ID_SIZE];

    /* What was told, as JSON lines, unless a test listens by itself; and what it is to do then. */
    struct bl_listener listener;
    struct bl_buffer events;
    uint64_t root_seq;
    void (*on_event)(struct rig *rig, const struct bl_event *event);
    void *extra; /* of the test */
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

/* A conversation: opened, prompts in scopes of their own, whose result is in `result.run`, closed.
 */
void rig_open(struct rig *rig);
enum bl_turn_end rig_prompt(struct rig *rig, const char *prompt);
void rig_close(struct rig *rig);

/* A persona of that name, whose model plays this script (NULL: that of the agent above). The caller
 * may change it. */
struct bl_persona *rig_persona(struct rig *rig, const char *name, const char *script);
/* The newest turn of the newest run. */
const struct bl_turn_result *rig_turn(const struct rig *rig);
/* How often an event of that type was told, or a line of them holds all of these (NULL: less). */
size_t rig_told(const struct rig *rig, enum bl_event_type type);
size_t rig_told_of(const struct rig *rig, const char *first, const char *second);
/* A session as it is exported; in the arena. */
struct bl_text rig_export(struct rig *rig, const char *session);
/* The session of the newest sub-agent of that persona; fails the test where there is none. In the
 * arena. */
const struct bl_store_summary *rig_child(struct rig *rig, const char *persona);
/* Every committed turn of the session is valid by itself: calls have results, which follow them,
 * and roles alternate. Returns how many there are in the context. */
uint64_t rig_check_valid(struct rig *rig, const char *session);
/* A file in the folder is there. */
bool rig_has_file(const struct rig *rig, const char *name);
/* Its text; in the arena. Empty: there is none. */
struct bl_text rig_file(struct rig *rig, const char *name);
/* Processes that work in the folder. */
size_t rig_processes(const struct rig *rig);
/* The id of something of that kind that runs; the `index`-th, from 0. Empty: none. */
const char *rig_running(const struct rig *rig, const char *kind, size_t index);

/* The value of JSON text, in the arena. */
const struct bl_json *rig_json(struct rig *rig, struct bl_text text);

/* Each test plays on a rig of its own. */
#define RIG(name, script)                                                                          \
    static void name##_play(struct rig *rig);                                                      \
    static int name##_main(void *argument BL_UNUSED)                                               \
    {                                                                                              \
        struct rig *rig = bl_alloc(sizeof *rig);                                                   \
        rig_init(rig, script);                                                                     \
        name##_play(rig);                                                                          \
        rig_done(rig);                                                                             \
        bl_free(rig);                                                                              \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        run_in_loop(name##_main, NULL);                                                            \
    }                                                                                              \
    static void name##_play(struct rig *rig)

#endif
