/* A repository with a plan, seats that are shell scripts, and the events of a run. */
#ifndef BELAY_TESTS_CLI_FIELD_H
#define BELAY_TESTS_CLI_FIELD_H

#include "../stage.h"

/* Setup and teardown of a stage whose workspace ("work") is a git repository with one commit and
 * the current directory. */
int field_begin(void **state);
int field_end(void **state);
#define FIELD(test) cmocka_unit_test_setup_teardown(test, field_begin, field_end)

/* ---- The plan -------------------------------------------------------------------------------- */

/* Writes a shell script outside the repository. Returns it as a YAML list for `command`: "[sh,
 * /…/NAME.sh]". */
const char *field_seat(const char *name, const char *shell);
/* Makes a Player that reads its prompt, writes TASK.txt ("turn N") and returns a result, after the
 * shell lines `before` (may be empty). */
const char *field_player(const char *name, const char *before);
/* Makes a Coach that approves any task with the one criterion AC-001, after `before`. */
const char *field_coach(const char *name, const char *before);
/* Returns a file for scripts that prints a verdict: $1 is the decision, $2 "verified" or
 * "rejected", $3 issues as JSON. Source it: `. PATH; verdict approve verified '[]'`. */
const char *field_verdict(void);
/* Writes tasks/ID.md with id, title, `front_matter` (lines, may be empty) and one criterion. */
void field_task(const char *id, const char *front_matter);
/* Writes .belay/features/FEAT.yaml: id, name, then `yaml`. */
void field_plan(const char *yaml);
/* Writes the usual plan: tasks A and B in wave 1, with their files. Seats are YAML lists, `limits`
 * the members of a YAML flow mapping ("task_timeout: 1s, "; may be empty), more lines go below
 * `belay:`, indented by two. min_turn_budget is 0s. */
void field_pair(const char *player, const char *coach, const char *limits, const char *more);
/* The same with other tasks ("A B C"), all in wave 1. */
void field_tasks(const char *ids, const char *player, const char *coach, const char *limits,
                 const char *more);
void field_write(const char *path, const char *text); /* below the repository, creating folders */
void field_git(const char *arguments);                /* in a shell; fails the test on failure */
const char *field_git_output(const char *arguments);
void field_commit(void); /* commits everything */

/* ---- A run ----------------------------------------------------------------------------------- */

/* Starts `belay feature …` in the background; its events are on standard output. */
#define FEATURE_START(held, ...)                                                                   \
    START(held, "feature", __VA_ARGS__, "--output-format", "stream-json")
/* Starts `belay feature VERB FEAT` with a library that simulates a bad disk (bad_disk.c) while the
 * file `mark`, named by the variable, exists. */
void field_start_on_bad_disk(struct held *held, const char *verb, const char *variable,
                             const char *mark);
/* Returns the n-th event (from 0) of that type and task (NULL: any) so far, or NULL. */
const struct bl_json *field_event(const struct held *held, const char *type, const char *task,
                                  size_t n);
size_t field_count(const struct held *held, const char *type, const char *task);
/* Waits for the event; fails the test after half a minute. */
const struct bl_json *field_await(struct held *held, const char *type, const char *task, size_t n);
/* Waits for the n-th event of that phase. */
const struct bl_json *field_await_phase(struct held *held, const char *type, const char *task,
                                        const char *phase, size_t n);
size_t field_count_phase(const struct held *held, const char *type, const char *task,
                         const char *phase);
/* Returns its `time` in seconds. */
double field_time(const struct bl_json *event);
/* Returns the line number of an event in the output; fails the test if it is not there. */
size_t field_line(const struct held *held, const struct bl_json *event);
/* Waits for the end and checks the exit code. Returns the result envelope. */
const struct bl_json *field_end_of(struct held *held, int exit_code);
/* Returns the task's row in an envelope; fails the test if it is not there. */
const struct bl_json *field_row(const struct bl_json *envelope, const char *task);
/* `belay feature status NAME --json`. */
const struct bl_json *field_status(const char *name);
/* Runs `belay feature …` to its end and checks the exit code. Returns its output. */
const struct run *field_run(int exit_code, const char *const *words);
#define FEATURE_RUN(exit_code, ...)                                                                \
    field_run(exit_code, (const char *const[]){"feature", __VA_ARGS__, NULL})
/* Counts live processes whose environment contains `text` ("BELAY_TASK=A"), except wardens; returns
 * the pid of the first if requested. */
size_t field_processes(const char *text, pid_t *ret_first);
/* Waits for that number of processes; fails the test after half a minute. */
void field_await_processes(const char *text, size_t count);
double field_now(void);             /* seconds of the wall clock */
void field_rest(double seconds);    /* below 0: returns at once */
void field_touch(const char *path); /* creates an empty file that others wait for */
/* Records a time of the specification as a figure (tests/lib/figure.h): its distance from `low`.
 * Fails the test if it is below that, or far above `high`. */
void field_window(const char *name, double seconds, double low, double high);
/* The same for an upper bound. */
void field_bound(const char *name, double seconds, double high);

#endif
