/* Plans in tests: a scratch folder that looks like a repository, and the result of loading. */
#ifndef BELAY_TESTS_FEATURE_PLANS_H
#define BELAY_TESTS_FEATURE_PLANS_H

#include "helpers.h"

/* The plan file of the tests, and its first five lines, with two tasks, B after A. */
#define PLAN_FILE ".belay/features/FEAT-A.yaml"
#define PLAN_HEAD                                                                                  \
    "id: FEAT-A\n"                                                                                 \
    "name: Feature\n"                                                                              \
    "tasks:\n"                                                                                     \
    "  - {id: A, file_path: tasks/A.md}\n"                                                         \
    "  - {id: B, file_path: tasks/B.md, dependencies: [A]}\n"

/* Makes a scratch repository: a plan only needs a `.git` folder. It has tasks/A.md and tasks/B.md.
 * End it with place_done. */
void plans_make(struct place *place);
/* Writes tasks/ID.md with one criterion; `front` (lines; may be empty) goes into its front
 * matter. */
void plans_task(const struct place *place, const char *id, const char *front);

/* The result of loading a plan. Embedded by a test; free it with plans_done. */
struct loaded {
    struct bl_arena arena;
    struct bl_plan *plan; /* NULL: refused */
    struct bl_list problems;
    struct bl_error error;
    int code;
    struct bl_buffer text; /* problems, or else warnings, one per line */
};

/* Loads a plan with `options` (NULL: FEAT-A of the place). */
void plans_load(const struct place *place, const struct bl_plan_options *options,
                struct loaded *loaded);
void plans_done(struct loaded *loaded);
/* Writes PLAN_FILE and loads it; it must be valid. */
void plans_accept(const struct place *place, const char *yaml, struct loaded *loaded);
/* Writes PLAN_FILE and loads it; the problems, or for a valid plan the warnings, must be exactly
 * these lines. */
void plans_expect(const struct place *place, const char *yaml, const char *expected);
/* Fails unless the text contains the part. */
void expect_in(struct bl_text text, const char *part);

#endif
