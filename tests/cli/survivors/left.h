/* A stage on which a stop really leaves processes running. Belay and its processes run there as an
 * ordinary user, without a cgroup; a command changes to another user, so that neither belay nor its
 * warden may signal it. Needs root, because only root can create such a command. */
#ifndef BELAY_TESTS_CLI_SURVIVORS_LEFT_H
#define BELAY_TESTS_CLI_SURVIVORS_LEFT_H

#include "../stage.h"

/* Setup and teardown of a test, which begins with left_require: it is skipped without root. */
int left_begin(void **state);
void left_require(void);
int left_end(void **state);
#define LEFT(test) cmocka_unit_test_setup_teardown(test, left_begin, left_end)

/* Returns the command for a shell; it prints "ready" when all its processes are running. */
const char *left_command(void);
/* Returns a script whose model runs that command with bash for each prompt. */
const char *left_script(void);
/* The options of every belay. */
#define LEFT_OPTIONS "--container", "subreaper", "--yolo", "--sandbox", "off"

/* Number of processes that cannot be stopped: the command and its child. */
#define LEFT_COUNT 2
#define LEFT_TEXT  "Still running: 2 processes."
/* Fails the test unless the receipt and its only unit have that number of survivors. */
void left_check(const struct bl_json *receipt);
/* Checks that the session has one receipt with that reason in the store, with that number. */
void left_check_store(const char *session, const char *reason);

#endif
