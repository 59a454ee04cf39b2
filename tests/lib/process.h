/* Processes as the kernel lists them, below another one. */
#ifndef BELAY_TESTS_PROCESS_H
#define BELAY_TESTS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Of the descendants whose name begins with `name`, the one that has used the most time of a
 * processor; 0: there is none. */
pid_t process_busiest(pid_t ancestor, const char *name);
/* It is there, and no zombie. */
bool process_lives(pid_t pid);

#endif
