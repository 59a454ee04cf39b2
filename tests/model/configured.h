/* A home, a project and an environment for tests of the configuration: files below a temporary
 * folder, and a table of variables. */
#ifndef BELAY_TESTS_CONFIGURED_H
#define BELAY_TESTS_CONFIGURED_H

#include "model/config/config.h"
#include "recorder.h"

/* Setup and teardown of a test. */
int configured_begin(void **state);
int configured_end(void **state);
#define CONFIGURED(test) cmocka_unit_test_setup_teardown(test, configured_begin, configured_end)

/* Sets a variable of the table; NULL removes it. */
void configured_set(const char *name, const char *value);
const char *configured_variable(const char *name);
/* Returns an absolute path below the folder, valid until the next four calls. */
const char *configured_path(const char *relative);
/* Writes a file there, with its folders. */
void configured_write(const char *relative, const char *text);
#define USER    "config/belay/config.yaml"
#define PRICES  "config/belay/prices.yaml"
#define PROJECT "project/.belay/config.yaml"

/* Reads the configuration of project/; the stage frees it. Fails the test if it cannot be read. */
struct bl_config *configured_read(void);
/* The same for a configuration that must be refused: returns the error, without the folder in
 * paths. */
const struct bl_error *configured_refused(void);
/* Returns the choice; fails the test if it is refused. */
struct bl_config_found configured_find(const char *provider, const char *model);
const struct bl_error *configured_unfound(const char *provider, const char *model);

#endif
