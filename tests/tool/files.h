/* Tools that work on files, in their own folder. */
#ifndef BELAY_TESTS_TOOL_FILES_H
#define BELAY_TESTS_TOOL_FILES_H

#include "fibers.h"
#include "tool/parts.h"

struct files {
    struct bl_toolbox toolbox; /* the parts of a toolbox that these tools use */
    char folder[64];           /* holds the two below */
    char workspace[96];        /* …/work */
    char outside[96];          /* …/outside */
    struct bl_arena arena;
    struct bl_scope scope; /* of the calls */
    struct bl_receipt receipt;
    struct bl_tool_call call;
    struct bl_tool_result result;
    struct bl_error error;
};

/* Runs in a fiber. */
void files_init(struct files *files);
void files_done(struct files *files);
/* Pins the toolbox's folders in their current state, after a change. */
void files_pin(struct files *files);
/* Begins a new scope and receipt, after a stop. */
void files_arm(struct files *files);

/* Main function of a fiber: stops the scope of the calls. */
int files_stop(void *files);

/* Makes one call with that input (JSON), which must match the tool's schema. If the tool's check
 * fails, its text is the result. */
int files_call(struct files *files, const struct tool_entry *tool, const char *input, ...)
    BL_PRINTF(3, 4);
/* The same with texts that need no escapes: name, value, …, NULL. */
int files_call_with(struct files *files, const struct tool_entry *tool, ...)
    __attribute__((sentinel));
/* Builds such an input, for repeated use. */
const struct bl_json *files_input(struct files *files, ...) __attribute__((sentinel));
int files_call_input(struct files *files, const struct tool_entry *tool,
                     const struct bl_json *input);
/* Returns whether the input matches the schema. */
bool files_fits(struct files *files, const struct tool_entry *tool, const char *input);
/* Returns the text of the result, which is valid as long as the files. */
const char *files_text(const struct files *files);
/* Returns whether a stopped call could not tell what it had done: on a busy machine, its thread may
 * wait for a processor or the disk longer than a stop does. */
bool files_outcome_unknown(const struct files *files);
/* Returns whether the result is (or is not) an error and contains that text; prints the result if
 * not. */
bool files_says(struct files *files, bool is_error, const char *text);

/* Files by path below the workspace; folders are created. */
void files_put(struct files *files, const char *path, struct bl_text content);
bool files_holds(struct files *files, const char *path, struct bl_text content);
void files_link(struct files *files, const char *target, const char *path);
void files_folder(struct files *files, const char *path);
const char *files_path(struct files *files, const char *path); /* in the arena */
/* Returns the number of entries in the folder (below the workspace) that begin with `prefix`. */
size_t files_count(struct files *files, const char *folder, const char *prefix);

/* Runs `main` in a child process in which openat2 below an open folder fails with that code;
 * returns its exit code. */
int files_without_openat2(int code, int (*main)(void *argument), void *argument);

/* Defines a test of that name, whose body gets the files in a fiber. It fails if a call left a
 * descriptor open. */
typedef int files_body(void *files);
int files_run(void *body); /* main function of a fiber; `body` points to a files_body pointer */
#define FILES_TEST(name, body)                                                                     \
    static void name(void **state)                                                                 \
    {                                                                                              \
        files_body *const run = body;                                                              \
        (void)state;                                                                               \
        run_in_loop(files_run, (void *)&run);                                                      \
    }

#endif
