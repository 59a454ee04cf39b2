/* Descendants of a process, as the kernel lists them. */
#ifndef BELAY_TESTS_PROCESS_H
#define BELAY_TESTS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns the descendant whose name begins with `name` and that has used far more processor time
 * than all others. 0 if there is none yet; a descendant in an endless loop will become it. */
pid_t process_busy(pid_t ancestor, const char *name);
/* True if the process exists and is not a zombie. */
bool process_lives(pid_t pid);

#endif
