/* For tests of stops: scripts that report their position and wait, and the records of a stop. */
#ifndef BELAY_TESTS_CLI_STOPS_H
#define BELAY_TESTS_CLI_STOPS_H

#include "scenes.h"

bool stops_soak(void); /* the long form */
/* Returns a deadline that something must start before. It grows with each attempt: on a busy
 * machine the first may be too short. */
unsigned long stops_limit_ms(unsigned attempt, unsigned long promised_ms);
/* Prepares another attempt, without anything from the last one. */
void stops_start_over(struct held *held);

/* Returns shell lines that write the script's pid to NAME-TASK in the stage, wait until NAME
 * exists, print NAME, and then ignore the stop; with the functions now_us and until_us. */
const char *stops_say(const char *name);
const char *stops_wait_for(const char *name);
const char *stops_stubborn(const char *name);
const char *stops_clock(void);
bool stops_there(const char *name); /* exists in the stage */
/* Gives a task its own settings below `belay:`, after the plan is written. */
void stops_own(const char *task, const char *yaml);

/* Returns a text of the task's row. */
const char *stops_text(const struct bl_json *envelope, const char *task, const char *pointer);
/* `belay feature status FEAT/TASK --json`: its checkpoint is in /checkpoint. */
const struct bl_json *stops_status(const char *task);
/* Returns the journal in the store, one event per line. */
const char *stops_journal(const char *name);
/* Returns the answer of `belay feature cancel`. */
const struct bl_json *stops_cancel(const char *name);
void stops_checkpoint(const char *task, const char *phase, const char *marker, const char *reason);

#endif
