/* What the rooms above use of this one in addition to the library's header. */
#ifndef BELAY_RUNTIME_RUNTIME_H
#define BELAY_RUNTIME_RUNTIME_H

#include <belay/runtime.h>

/* The model that options, environment and configuration choose, and its files. Embedded by its
 * owner. */
struct runtime_choice {
    const char *provider; /* requested; NULL: as configured, as is the next */
    const char *model;
    const char *cassette_path; /* NULL if none */
    bool budgeted;
    bool recorded;
    struct bl_config *config;     /* outlives the choice */
    struct bl_config_found found; /* what was chosen */
    struct bl_script *script;     /* NULL: not a script */
    struct bl_cassette *cassette; /* to answer from; NULL if none */
};

/* Chooses the model and loads its files. Blocks on file I/O. */
int runtime_choice_make(struct runtime_choice *choice, struct bl_error *error);
/* Only loads the files of a model that was found before. */
int runtime_choice_load(struct runtime_choice *choice, struct bl_error *error);
void runtime_choice_done(struct runtime_choice *choice);

/* Returns the current folder, in the arena. */
int runtime_directory(struct bl_arena *arena, const char **ret_directory, struct bl_error *error);
/* Adds rules; NULL is an empty list. The error is that of the first invalid rule. */
int runtime_rules_add(const char *const *rules, bool allow, struct bl_permissions *permissions,
                      struct bl_error *error);

#endif
