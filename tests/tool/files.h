/* Tools that work on files, in a folder of their own. */
#ifndef BELAY_TESTS_TOOL_FILES_H
#define BELAY_TESTS_TOOL_FILES_H

#include "fibers.h"
#include "tool/parts.h"

struct files {
    struct bl_toolbox toolbox; /* as much of one as these tools look at */
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

/* In a fiber. */
void files_init(struct files *files);
void files_done(struct files *files);
/* Pins the folders of the toolbox as they are now: after they were changed. */
void files_pin(struct files *files);
/* A fresh scope and receipt, after a stop. */
void files_arm(struct files *files);

/* A fiber's main: stops the scope of the calls. */
int files_stop(void *files);

/* One call with that input (JSON), which must fit the tool's schema. What its check says is its
 * result. */
int files_call(struct files *files, const struct tool_entry *tool, const char *input, ...)
    BL_PRINTF(3, 4);
/* The same with texts that need no escapes: name, value, …, NULL. */
int files_call_with(struct files *files, const struct tool_entry *tool, ...)
    __attribute__((sentinel));
/* Such an input, to be used more than once. */
const struct bl_json *files_input(struct files *files, ...) __attribute__((sentinel));
int files_call_input(struct files *files, const struct tool_entry *tool,
                     const struct bl_json *input);
/* The schema takes that input. */
bool files_fits(struct files *files, const struct tool_entry *tool, const char *input);
/* The text of the result, as a string that lives as long as the files do. */
const char *files_text(const struct files *files);
/* The result is, or is not, an error, and holds that text: says so if not. */
bool files_says(struct files *files, bool is_error, const char *text);

/* Files by path below the workspace; folders are made. */
void files_put(struct files *files, const char *path, struct bl_text content);
bool files_holds(struct files *files, const char *path, struct bl_text content);
void files_link(struct files *files, const char *target, const char *path);
void files_folder(struct files *files, const char *path);
const char *files_path(struct files *files, const char *path); /* in the arena */
/* How many entries of the folder (below the workspace) begin so. */
size_t files_count(struct files *files, const char *folder, const char *prefix);

/* Runs `main` in a child process in which openat2 below a folder that is open fails with that code;
 * returns its exit code. */
int files_without_openat2(int code, int (*main)(void *argument), void *argument);

/* A test of that name, whose body gets the files in a fiber. It fails when a call left a descriptor
 * open. */
typedef int files_body(void *files);
int files_run(void *body); /* a fiber's main; `body` points to a files_body pointer */
#define FILES_TEST(name, body)                                                                     \
    static void name(void **state)                                                                 \
    {                                                                                              \
        files_body *const run = body;                                                              \
        (void)state;                                                                               \
        run_in_loop(files_run, (void *)&run);                                                      \
    }

#endif
