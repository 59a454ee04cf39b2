/* A run with real parts: the script model, tools in wardens, sub-agents, a SQLite file in its own
 * folder. */
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
    struct bl_list scripts; /* struct rig_script, by the name of their model */
    struct bl_model_source models;
    struct bl_agent *agent; /* of a conversation; NULL if none is open */
    char run_id[BL_ID_SIZE];

    /* The events as JSON lines, unless a test has its own listener; and a callback for them. */
    struct bl_listener listener;
    struct bl_buffer events;
    uint64_t root_seq;
    void (*on_event)(struct rig *rig, const struct bl_event *event);
    void *extra; /* for the test */
};

/* In a fiber; `script` is YAML. */
void rig_init(struct rig *rig, const char *script);
void rig_done(struct rig *rig);
/* Runs one prompt in the session "rig", below a new scope. Returns the code of bl_agent_run. */
int rig_run(struct rig *rig, const char *prompt);
/* Sets another script, from its beginning. */
void rig_script(struct rig *rig, const char *script);
/* Returns the session's view, from the file. */
struct bl_store_session_view rig_view(struct rig *rig);

/* A conversation: opened, prompts in their own scopes with results in `result.run`, closed. */
void rig_open(struct rig *rig);
enum bl_turn_end rig_prompt(struct rig *rig, const char *prompt);
void rig_close(struct rig *rig);

/* Adds a persona whose model plays this script (NULL: the model of the agent above). The caller may
 * change it. */
struct bl_persona *rig_persona(struct rig *rig, const char *name, const char *script);
/* Returns the newest turn of the newest run. */
const struct bl_turn_result *rig_turn(const struct rig *rig);
/* Count events of that type, or event lines that contain both texts (NULL: ignored). */
size_t rig_told(const struct rig *rig, enum bl_event_type type);
size_t rig_told_of(const struct rig *rig, const char *first, const char *second);
/* Returns a session's export; in the arena. */
struct bl_text rig_export(struct rig *rig, const char *session);
/* Returns the session of the newest sub-agent of that persona; fails the test if there is none. In
 * the arena. */
const struct bl_store_summary *rig_child(struct rig *rig, const char *persona);
/* Checks that every committed turn of the session is valid by itself: calls have results, which
 * follow them, and roles alternate. Returns the number of turns in the context. */
uint64_t rig_check_valid(struct rig *rig, const char *session);
/* Returns whether the folder has that file. */
bool rig_has_file(const struct rig *rig, const char *name);
/* Returns its text, in the arena; empty if it does not exist. */
struct bl_text rig_file(struct rig *rig, const char *name);
/* Returns the number of processes with a working directory in the folder. */
size_t rig_processes(const struct rig *rig);
/* Returns the id of the `index`-th running activity of that kind, from 0; empty if there is
 * none. */
const char *rig_running(const struct rig *rig, const char *kind, size_t index);

/* Parses JSON text into the arena. */
const struct bl_json *rig_json(struct rig *rig, struct bl_text text);

/* Each test uses its own rig. */
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
