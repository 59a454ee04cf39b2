/* Helpers that run commands in a real sandbox. */
#ifndef BELAY_TESTS_PROC_SANDBOXED_H
#define BELAY_TESTS_PROC_SANDBOXED_H

#include "proc/probe.h"
#include "suite.h"

#define LIST(...)    ((const char *const[]){__VA_ARGS__, NULL})
#define RUN_LIMIT_MS 30000

/* A workspace and a folder beside it, both in `parent`. */
struct place {
    char folder[64];
    char workspace[80];
    char outside[80];
};

/* Skips the test if there is no sandbox. */
void place_begin(struct place *place, const char *parent);
/* Removes the place. The two folders may contain nothing but one file each. */
void place_end(struct place *place);
/* Removes the place with all its contents. */
void place_remove(struct place *place);
/* True if `folder` contains a file named "file". */
bool file_exists(const char *folder);

/* Runs arguments in the sandbox; their output is in `output`. Returns the exit code. */
int run_words(enum bl_sandbox sandbox, const char *workspace, bool network,
              const char *const *arguments, struct bl_buffer *output);
/* Runs a shell script in the same way, and prints its output. */
int run(enum bl_sandbox sandbox, const char *workspace, bool network, const char *script);
int run_view(const struct bl_sandbox_view *view, const char *script);

#endif
