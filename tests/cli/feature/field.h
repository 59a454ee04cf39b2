/* A repository with a plan, seats that are shell scripts, and what a run tells of itself. */
#ifndef BELAY_TESTS_CLI_FIELD_H
#define BELAY_TESTS_CLI_FIELD_H

#include "../stage.h"

/* Setup and teardown: a stage whose workspace ("work") is a git repository with one commit; it is
 * the current directory. */
int field_begin(void **state);
int field_end(void **state);
#define FIELD(test) cmocka_unit_test_setup_teardown(test, field_begin, field_end)

/* ---- The plan -------------------------------------------------------------------------------- */

/* A shell script outside of the repository, as a YAML list for `command`: "[sh, /…/NAME.sh]". */
const char *field_seat(const char *name, const char *shell);
/* A Player that reads its prompt, writes TASK.txt ("turn N") and gives a result; after `before`,
 * some shell lines (may be empty). */
const char *field_player(const char *name, const char *before);
/* A Coach that approves all that has the one criterion AC-001; after `before`. */
const char *field_coach(const char *name, const char *before);
/* The text of a verdict, for scripts: $1 is the decision, $2 "verified" or "rejected", $3 issues as
 * JSON. A file to be sourced: `. PATH; verdict approve verified '[]'`. */
const char *field_verdict(void);
/* tasks/ID.md with that front matter besides id and title (lines, may be empty) and one criterion.
 */
void field_task(const char *id, const char *front_matter);
/* .belay/features/FEAT.yaml: id, name, then `yaml`. */
void field_plan(const char *yaml);
/* The usual one: tasks A and B in wave 1 (task files are written), seats as YAML lists, limits as a
 * YAML flow mapping's inside ("task_timeout: 1s, "; may be empty), more lines below `belay:`
 * indented by two. min_turn_budget is 0s. */
void field_pair(const char *player, const char *coach, const char *limits, const char *more);
/* The same for other tasks ("A B C"), all in wave 1. */
void field_tasks(const char *ids, const char *player, const char *coach, const char *limits,
                 const char *more);
void field_write(const char *path, const char *text); /* below the repository, with its folders */
void field_git(const char *arguments);                /* by a shell; fails the test when it fails */
const char *field_git_output(const char *arguments);
void field_commit(void); /* all that is there */

/* ---- A run ----------------------------------------------------------------------------------- */

/* Starts `belay feature …` beside the test; the run's events come on standard output. */
#define FEATURE_START(held, ...)                                                                   \
    START(held, "feature", __VA_ARGS__, "--output-format", "stream-json")
/* Starts `belay feature VERB FEAT` with a library that is as a bad disk (bad_disk.c) while the file
 * `mark`, which the variable names, is there. */
void field_start_on_bad_disk(struct held *held, const char *verb, const char *variable,
                             const char *mark);
/* The n-th event (from 0) of that type and task (NULL: any) that was written so far; NULL: none. */
const struct bl_json *field_event(const struct held *held, const char *type, const char *task,
                                  size_t n);
size_t field_count(const struct held *held, const char *type, const char *task);
/* Waits for it; fails the test after half a minute. */
const struct bl_json *field_await(struct held *held, const char *type, const char *task, size_t n);
/* The n-th whose `phase` is that. */
const struct bl_json *field_await_phase(struct held *held, const char *type, const char *task,
                                        const char *phase, size_t n);
size_t field_count_phase(const struct held *held, const char *type, const char *task,
                         const char *phase);
/* Of its `time`, in seconds. */
double field_time(const struct bl_json *event);
/* Where an event stands in the output, by lines; fails the test when it is not there. */
size_t field_line(const struct held *held, const struct bl_json *event);
/* Waits for the end: its exit code must be that; the result envelope. */
const struct bl_json *field_end_of(struct held *held, int exit_code);
/* The task's row in an envelope; fails the test when it is not there. */
const struct bl_json *field_row(const struct bl_json *envelope, const char *task);
/* `belay feature status NAME --json`. */
const struct bl_json *field_status(const char *name);
/* Runs `belay feature …` to its end, by words; the exit code must be that. What it wrote. */
const struct run *field_run(int exit_code, const char *const *words);
#define FEATURE_RUN(exit_code, ...)                                                                \
    field_run(exit_code, (const char *const[]){"feature", __VA_ARGS__, NULL})
/* Living processes whose environment holds `text` ("BELAY_TASK=A"), wardens left out; the pid of
 * the first, if wanted. */
size_t field_processes(const char *text, pid_t *ret_first);
/* Waits until there are that many; fails the test after half a minute. */
void field_await_processes(const char *text, size_t count);
/* Waits until a file is there; fails the test after half a minute. */
void field_await_file(const char *path);
double field_now(void);             /* seconds of the wall clock */
void field_rest(double seconds);    /* below 0: not at all */
void field_touch(const char *path); /* an empty file, for those who wait for it */
/* A time of the spec's, as a figure (tests/lib/figure.h): how far it is behind `low`. Fails the
 * test when it comes before that, or far behind `high`. */
void field_window(const char *name, double seconds, double low, double high);
/* The same for an upper bound. */
void field_bound(const char *name, double seconds, double high);

#endif
