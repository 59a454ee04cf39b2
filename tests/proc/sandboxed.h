/* Commands in a real sandbox, for the tests of it. */
#ifndef BELAY_TESTS_PROC_SANDBOXED_H
#define BELAY_TESTS_PROC_SANDBOXED_H

#include "proc/probe.h"
#include "suite.h"

#define LIST(...)    ((const char *const[]){__VA_ARGS__, NULL})
#define RUN_LIMIT_MS 30000

/* A workspace and a folder beside it, in `parent`. */
struct place {
    char folder[64];
    char workspace[80];
    char outside[80];
};

/* Skips the test where there is no sandbox. */
void place_begin(struct place *place, const char *parent);
/* Tests leave nothing in it but the two folders and a file in each. */
void place_end(struct place *place);
/* The same with all that is in it. */
void place_remove(struct place *place);
/* True when `folder` has a file of the name "file". */
bool file_exists(const char *folder);

/* Runs arguments in the sandbox; what they print is in `output`. Returns the exit code. */
int run_words(enum bl_sandbox sandbox, const char *workspace, bool network,
              const char *const *arguments, struct bl_buffer *output);
/* The same for a shell; what it prints is shown. */
int run(enum bl_sandbox sandbox, const char *workspace, bool network, const char *script);
int run_view(const struct bl_sandbox_view *view, const char *script);

#endif
