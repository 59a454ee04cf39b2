/* Reads and changes the store without belay. */
#ifndef BELAY_TESTS_CLI_RECORDS_H
#define BELAY_TESTS_CLI_RECORDS_H

#include "field.h"

/* Returns the first column of the first row as text, kept as long as the stage; NULL: no row, or
 * NULL. */
const char *records_text(const char *sql);
int64_t records_number(const char *sql); /* fails the test if there is no row */
/* Returns false if the store was locked for a second. */
bool records_change(const char *sql);
/* Returns a current record of the feature FEAT, or NULL. */
const struct bl_json *records_get(const char *name);
/* Returns all records of features. */
const char *records_all(void);
/* Checks that the store is consistent, that all records of a feature are JSON, and that each
 * decided attempt has one event: row and event are written together. */
void records_check(const char *id);

#endif
