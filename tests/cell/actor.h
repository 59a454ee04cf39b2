/* Another process of this program, with a house in the test's folder: a host that can be killed. It
 * reports its progress in lines. */
#ifndef BELAY_TESTS_CELL_ACTOR_H
#define BELAY_TESTS_CELL_ACTOR_H

#include "helpers.h"

#define ROLE_LIFE_S 120

struct actor {
    int pid;
    int report; /* its reports are read here */
};

/* Starts this program as `role` in the folder; with `fault` as BELAY_FAULT, unless that is NULL. */
void actor_start(struct actor *actor, const char *role, const char *folder, const char *fault);
/* The same, with a disk that fails when the role says so (tests/store/faulty.c). */
void actor_start_faulty(struct actor *actor, const char *role, const char *folder);
/* Reads the next line that it reports, without the line feed. False if it has ended. */
bool actor_line(struct actor *actor, char *out, size_t out_size);
/* Waits for it. Returns its exit code, or -1 if a signal ended it. */
int actor_end(struct actor *actor);

/* ---- In the role ---- */

void actor_open(struct house *house); /* in the folder, with two spares */
void actor_report(const char *format, ...) BL_PRINTF(1, 2);

/* restart_test.c */
bl_fiber_main role_cells, role_terminate, role_complete, role_observe;
/* disk_test.c */
bl_fiber_main role_terminate_sync, role_terminate_dead, role_terminate_recovers;
bl_fiber_main role_complete_sync, role_complete_dead;

/* limit_test.c: becomes a worker that cannot be locked down. Returns only on failure. */
int layers_main(char *worker);
/* garbage_test.c: a process in place of a worker. Returns its exit code. */
int garbage_main(void);

/* ---- The state that it left ---- */

/* Checks that the cell c-1 is terminated, with that origin and output, and that a repeated request
 * and the next host give the same answer. */
void host_left_terminated(struct house *house, const char *origin, const char *text);
/* Returns whether the value `k` is 1, as the cell `id` sees it. */
bool host_left_stored(struct house *house, const char *id);

#endif
