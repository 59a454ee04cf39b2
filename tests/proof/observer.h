/* An outside observer: reports which processes of a tree are alive, by means that Belay does not
 * know of.
 *
 * As root: a folder in a cgroup v1 hierarchy, one for this test program. A process that enters it
 * is counted from then on with all its descendants, whatever they do to their parents, sessions,
 * names, namespaces and cgroup2. The list contains threads, so that a process whose main thread has
 * ended is found, and a zombie is not.
 *
 * Otherwise: a FIFO that the hostile program keeps open (HOSTILE_TAG). It shows that a process is
 * alive, but not how many. */
#ifndef BELAY_TESTS_PROOF_OBSERVER_H
#define BELAY_TESTS_PROOF_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct observed {
    size_t tools;   /* processes that are neither Belay nor a warden, by their executables */
    size_t helpers; /* Belay and wardens */
};

/* Creates the folder or the FIFO; called once, first of all. Ends the program if neither can be
 * created. */
void observer_open(void);
bool observer_counts(void);     /* with cgroup v1, so the count is exact */
void observer_enter(void);      /* in the child that will be Belay */
const char *observer_tag(void); /* path of the FIFO; may be NULL */
void observer_look(struct observed *ret_observed);
pid_t observer_warden_of(pid_t belay); /* its child above the tools; 0: not found */
/* Kills all processes that it finds, including Belay and wardens, and reaps every child of this
 * process. Returns the number left after five seconds. */
size_t observer_kill(void);
void observer_close(void);

#endif
