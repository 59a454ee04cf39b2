/* docs/schemas is generated from the tables of records: a test of each room compares what its
 * tables give with what is there. scripts/schemas writes the files. */
#ifndef BELAY_TESTS_SCHEMAS_LIB_H
#define BELAY_TESTS_SCHEMAS_LIB_H

#include <belay/record.h>

#include "suite.h"

/* Fails the test unless docs/schemas has the schema of that record, to the byte: of "cell:hello" in
 * cell/hello.json, of "receipt" in receipt.json. With BELAY_SCHEMAS=write it is written. */
void schemas_assert_current(const struct bl_record *record);

#endif
