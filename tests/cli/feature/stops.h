/* For tests of stops: scripts that say where they are and wait, and what is told of a stop. */
#ifndef BELAY_TESTS_CLI_STOPS_H
#define BELAY_TESTS_CLI_STOPS_H

#include "scenes.h"

bool stops_soak(void); /* the long form */
/* A deadline that something is to begin before. It is longer with each attempt: on a busy machine
 * the first may be too short. */
unsigned long stops_limit_ms(unsigned attempt, unsigned long promised_ms);
/* Another attempt, with nothing that was there before. */
void stops_start_over(struct held *held);

/* Lines of shell: writes the script's pid into NAME-TASK of the stage; waits until NAME is there;
 * says NAME, and then does not hear the stop; the functions now_us and until_us. */
const char *stops_say(const char *name);
const char *stops_wait_for(const char *name);
const char *stops_stubborn(const char *name);
const char *stops_clock(void);
bool stops_there(const char *name); /* in the stage */
/* Gives a task something of its own below `belay:`, after the plan is written. */
void stops_own(const char *task, const char *yaml);

/* Of the task's row. */
const char *stops_text(const struct bl_json *envelope, const char *task, const char *pointer);
/* `belay feature status FEAT/TASK --json`: its checkpoint is in /checkpoint. */
const struct bl_json *stops_status(const char *task);
/* The journal as it is in the store: an event a line. */
const char *stops_journal(const char *name);
/* The answer of `belay feature cancel`. */
const struct bl_json *stops_cancel(const char *name);
void stops_checkpoint(const char *task, const char *phase, const char *marker, const char *reason);

#endif
