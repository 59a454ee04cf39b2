/* Descendants of a process, as the kernel lists them. */
#ifndef BELAY_TESTS_PROCESS_H
#define BELAY_TESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns the descendant whose name begins with `name` and that has used far more processor time
 * than all others. 0 if there is none yet; a descendant in an endless loop will become it. */
pid_t process_busy(pid_t ancestor, const char *name);
/* True if the process exists and is not a zombie. */
bool process_lives(pid_t pid);
/* Writes the direct children that are not zombies; returns their number, at most `size`. */
size_t process_children(pid_t parent, pid_t *out, size_t size);

#endif
