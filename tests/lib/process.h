/* Processes as the kernel lists them, below another one. */
#ifndef BELAY_TESTS_PROCESS_H
#define BELAY_TESTS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Of the descendants whose name begins with `name`, the one that has used far more time of a
 * processor than all others. 0: there is none; one that computes without end will be. */
pid_t process_busy(pid_t ancestor, const char *name);
/* It is there, and no zombie. */
bool process_lives(pid_t pid);

#endif
