/* An outside observer: says what is alive of a tree, by means that belay does not know of.
 *
 * As root: a folder in a cgroup v1 hierarchy, one for this test program. A process that enters it
 * is counted from then on with all its descendants, whatever they do to their parents, sessions,
 * names, namespaces and cgroup2. The list is one of threads, so that a process whose main thread
 * has ended is seen, and a zombie is not.
 *
 * Elsewhere: a FIFO that the hostile program holds open (HOSTILE_TAG). It says that somebody is
 * alive, not how many. */
#ifndef BELAY_TESTS_PROOF_OBSERVER_H
#define BELAY_TESTS_PROOF_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct observed {
    size_t tools;   /* processes that are neither belay nor a warden, by their executables */
    size_t helpers; /* belay and wardens */
};

/* Makes the folder or the FIFO; called once, before all else. Ends the program when neither can be
 * made. */
void observer_open(void);
bool observer_counts(void);     /* by cgroup v1: the count is exact */
void observer_enter(void);      /* in the child that will be belay */
const char *observer_tag(void); /* path of the FIFO; NULL: none */
void observer_look(struct observed *ret_observed);
pid_t observer_warden_of(pid_t belay); /* its child above the tools; 0: none is seen */
/* Kills all that it finds, belay and wardens too, and reaps every child of this process. Returns
 * how many were left after five seconds. */
size_t observer_kill(void);
void observer_close(void);

#endif
