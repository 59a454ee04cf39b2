/* An isolated environment for a test: home, store, runtime folder and workspace below one temporary
 * folder, with the workspace as the current directory during the test; and functions to inspect
 * JSON output. */
#ifndef BELAY_TESTS_CLI_STAGE_H
#define BELAY_TESTS_CLI_STAGE_H

#include <belay/json.h>

#include "held.h"

/* Setup and teardown of a test. */
int stage_begin(void **state);
int stage_end(void **state);
#define STAGED(test) cmocka_unit_test_setup_teardown(test, stage_begin, stage_end)

/* Returns an absolute path below the folder. All results of these functions live as long as the
 * stage. */
const char *stage_path(const char *relative);
/* Writes a file into the workspace and returns its absolute path. */
const char *stage_file(const char *name, const char *text);
/* Writes a script and returns "script:PATH" for --provider. */
const char *stage_script(const char *yaml);
bool stage_exists(const char *path);
/* Waits until the file exists, at most half a minute; then fails the test. */
void stage_await_file(const char *path);
/* Returns a copy that ends in NUL. */
const char *stage_keep(struct bl_text text);
const char *stage_printf(const char *format, ...) BL_PRINTF(1, 2);

/* Returns a deadline that a run should reach after it has started: longer with each attempt,
 * because the first may be too short on a busy machine. Fails the test if none was long enough. */
const char *stage_timeout(unsigned attempt);

/* Starts belay beside the test. */
#define START(held, ...)                                                                           \
    held_start(held, (const char *const[]){runner_program(), __VA_ARGS__, NULL}, HELD_NULL,        \
               RUN_KEEP)

/* Parses one JSON value; fails the test if it is invalid. */
const struct bl_json *stage_json(const char *text);
/* Return the value at a JSON pointer; fail the test if there is no value of that type. */
const char *stage_text_at(const struct bl_json *value, const char *pointer);
int64_t stage_number_at(const struct bl_json *value, const char *pointer);
double stage_double_at(const struct bl_json *value, const char *pointer);
bool stage_true_at(const struct bl_json *value, const char *pointer);
size_t stage_size_at(const struct bl_json *value, const char *pointer);
bool stage_null_at(const struct bl_json *value, const char *pointer);

/* Return the last line of a text, and the number of lines that contain a part. */
const char *stage_last_line(const char *text);
size_t stage_lines_with(const char *text, const char *part);

/* Returns its whole standard output, of any length. */
const char *stage_output(const struct held *held);
/* Checks an answer in JSON: one line that matches its schema, with the exit code of the process,
 * and nothing on standard error. */
const struct bl_json *stage_answer(const struct run *run, const char *schema, int exit_code);
/* The same for a program that ran beside the test, in json or stream-json; the last line is the
 * only result. */
const struct bl_json *stage_result(struct held *held, int exit_code);
/* Returns the number of turns of a session, by `belay session show`; fails the test if that fails.
 */
size_t stage_turns(const char *session);

#endif
