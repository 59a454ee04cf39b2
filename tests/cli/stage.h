/* A machine of its own for a test: home, store, runtime folder and workspace below one temporary
 * folder, which is the current directory while the test runs; and looking into JSON that a program
 * wrote. */
#ifndef BELAY_TESTS_CLI_STAGE_H
#define BELAY_TESTS_CLI_STAGE_H

#include <belay/json.h>

#include "held.h"

/* Setup and teardown of a test. */
int stage_begin(void **state);
int stage_end(void **state);
#define STAGED(test) cmocka_unit_test_setup_teardown(test, stage_begin, stage_end)

/* Absolute path below the folder. Lives as long as the stage, as all that comes from here. */
const char *stage_path(const char *relative);
/* Writes a file into the workspace; its absolute path. */
const char *stage_file(const char *name, const char *text);
/* Writes a script; "script:PATH", as --provider takes it. */
const char *stage_script(const char *yaml);
bool stage_exists(const char *path);
/* A copy with a NUL behind it. */
const char *stage_keep(struct bl_text text);
const char *stage_printf(const char *format, ...) BL_PRINTF(1, 2);

/* A deadline that a run is to begin before, and then to reach: longer with each attempt, because on
 * a busy machine the first may be too short. Fails the test when none was long enough. */
const char *stage_timeout(unsigned attempt);

/* Starts belay beside the test. */
#define START(held, ...)                                                                           \
    held_start(held, (const char *const[]){runner_program(), __VA_ARGS__, NULL}, HELD_NULL,        \
               RUN_KEEP)

/* One JSON value; fails the test when it is none. */
const struct bl_json *stage_json(const char *text);
/* What stands at a JSON pointer; fails the test when there is nothing of that type. */
const char *stage_text_at(const struct bl_json *value, const char *pointer);
int64_t stage_number_at(const struct bl_json *value, const char *pointer);
double stage_double_at(const struct bl_json *value, const char *pointer);
bool stage_true_at(const struct bl_json *value, const char *pointer);
size_t stage_size_at(const struct bl_json *value, const char *pointer);
bool stage_null_at(const struct bl_json *value, const char *pointer);

/* The last line of a text, and how many lines hold a part. */
const char *stage_last_line(const char *text);
size_t stage_lines_with(const char *text, const char *part);

/* All that it wrote to standard output, however long. */
const char *stage_output(const struct held *held);
/* An answer in JSON: one line that fits its schema, nothing on standard error, its exit code the
 * process's own. */
const struct bl_json *stage_answer(const struct run *run, const char *schema, int exit_code);
/* The same for a program that ran beside the test, in json or stream-json: the last line is the one
 * result. */
const struct bl_json *stage_result(struct held *held, int exit_code);
/* How many turns a session has, by `belay session show`; fails the test when it cannot be shown. */
size_t stage_turns(const char *session);

#endif
