/* A stage on which a stop really leaves processes running. Belay and all that it runs is an
 * ordinary user there, without a cgroup; a command becomes another user, so that neither belay nor
 * its warden may signal it. Needs root, which alone can make such a command. */
#ifndef BELAY_TESTS_CLI_SURVIVORS_LEFT_H
#define BELAY_TESTS_CLI_SURVIVORS_LEFT_H

#include "../stage.h"

/* Setup and teardown of a test, which begins with left_require: skipped where it is not root's. */
int left_begin(void **state);
void left_require(void);
int left_end(void **state);
#define LEFT(test) cmocka_unit_test_setup_teardown(test, left_begin, left_end)

/* Words of the command, for a shell; it says "ready" when all of it stands. */
const char *left_command(void);
/* A script whose model calls it for each prompt, as the tool bash. */
const char *left_script(void);
/* What every belay is started with. */
#define LEFT_OPTIONS "--container", "subreaper", "--yolo", "--sandbox", "off"

/* Processes of it that nobody can stop: it and its child. */
#define LEFT_COUNT 2
#define LEFT_TEXT  "Still running: 2 processes."
/* Fails the test unless that receipt says so, and its one unit of processes too. */
void left_check(const struct bl_json *receipt);
/* The session has one receipt with that reason in the store, and it has the number. */
void left_check_store(const char *session, const char *reason);

#endif
