/* What commands print as JSON: tables that also give docs/schemas. Each stands in the file of its
 * command. */
#ifndef BELAY_CLI_ANSWERS_H
#define BELAY_CLI_ANSWERS_H

#include <belay/record.h>

/* The line of `belay cell serve --json`. */
extern const struct bl_record cell_listening_record;

#endif
