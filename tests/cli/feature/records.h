/* What is in the store, looked at and changed beside belay. */
#ifndef BELAY_TESTS_CLI_RECORDS_H
#define BELAY_TESTS_CLI_RECORDS_H

#include "field.h"

/* The first column of the first row as text, kept as long as the stage; NULL: no row, or NULL. */
const char *records_text(const char *sql);
int64_t records_number(const char *sql); /* fails the test when there is no row */
/* False: somebody has kept the store locked for a second. */
bool records_change(const char *sql);
/* Of the feature FEAT, as it is now; NULL: there is none of that name. */
const struct bl_json *records_get(const char *name);
/* All that is there of features. */
const char *records_all(void);
/* The store is whole, all that is in it of a feature is JSON, and each attempt that somebody has
 * decided was told of once: row and event are of one write. */
void records_check(const char *id);

#endif
