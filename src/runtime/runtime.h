/* What the rooms above use of this one that is not the library's. */
#ifndef BELAY_RUNTIME_RUNTIME_H
#define BELAY_RUNTIME_RUNTIME_H

#include <belay/runtime.h>

/* Who answers: the model that options, environment and configuration choose, and what it has in
 * files. Embedded by its owner. */
struct runtime_choice {
    const char *provider; /* asked for; NULL: as configured, as the next */
    const char *model;
    const char *cassette_path; /* NULL: none */
    bool budgeted;
    bool recorded;
    struct bl_config *config;     /* outlives it */
    struct bl_config_found found; /* what was chosen */
    struct bl_script *script;     /* NULL: another model answers */
    struct bl_cassette *cassette; /* to answer from; NULL: none */
};

/* Blocks, as files do. */
int runtime_choice_make(struct runtime_choice *choice, struct bl_error *error);
/* Only the files of one that was found already. */
int runtime_choice_load(struct runtime_choice *choice, struct bl_error *error);
void runtime_choice_done(struct runtime_choice *choice);

/* The current folder, in the arena. */
int runtime_directory(struct bl_arena *arena, const char **ret_directory, struct bl_error *error);
/* Adds rules; NULL: none. The error is that of the first that is wrong. */
int runtime_rules_add(const char *const *rules, bool allow, struct bl_permissions *permissions,
                      struct bl_error *error);

#endif
