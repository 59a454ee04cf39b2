/* Plans in tests: a scratch folder that looks like a repository, and what loading comes to. */
#ifndef BELAY_TESTS_FEATURE_PLANS_H
#define BELAY_TESTS_FEATURE_PLANS_H

#include "helpers.h"

/* The file that PLAN_FILE tests write, and a beginning of five lines with two tasks, B after A. */
#define PLAN_FILE ".belay/features/FEAT-A.yaml"
#define PLAN_HEAD                                                                                  \
    "id: FEAT-A\n"                                                                                 \
    "name: Feature\n"                                                                              \
    "tasks:\n"                                                                                     \
    "  - {id: A, file_path: tasks/A.md}\n"                                                         \
    "  - {id: B, file_path: tasks/B.md, dependencies: [A]}\n"

/* A scratch repository: a `.git` folder is all that a plan looks for; tasks/A.md and tasks/B.md
 * are there. To be ended by place_done. */
void plans_make(struct place *place);
/* Writes tasks/ID.md with `front` (lines; may be empty) in its front matter, and one criterion. */
void plans_task(const struct place *place, const char *id, const char *front);

/* What a plan came to. Embedded by a test; done by plans_done. */
struct loaded {
    struct bl_arena arena;
    struct bl_plan *plan; /* NULL: it was refused */
    struct bl_list problems;
    struct bl_error error;
    int code;
    struct bl_buffer text; /* problems, or else warnings, a line each */
};

/* Loads by `options` (NULL: FEAT-A of the place). */
void plans_load(const struct place *place, const struct bl_plan_options *options,
                struct loaded *loaded);
void plans_done(struct loaded *loaded);
/* Writes PLAN_FILE and loads it; it must be fine. */
void plans_accept(const struct place *place, const char *yaml, struct loaded *loaded);
/* Writes PLAN_FILE; loading must say just that, line by line. Of a plan that is fine these are its
 * warnings. */
void plans_expect(const struct place *place, const char *yaml, const char *expected);
/* Fails unless the text holds it. */
void expect_in(struct bl_text text, const char *part);

#endif
