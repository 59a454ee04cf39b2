/* Facts about standard input, found without reading from it. */
#ifndef BELAY_CLI_RUN_INPUT_H
#define BELAY_CLI_RUN_INPUT_H

#include <stdbool.h>

/* True if standard input is open for reading and is not a terminal. */
bool run_input_may_come(void);
/* True if a byte or the end of input can be read. Does not wait. */
bool run_input_has_begun(void);
/* True if standard input is a pipe that a process of this session can write to, other than our
 * ancestors: a command of the same pipeline. */
bool run_input_is_of_pipeline(void);

#endif
