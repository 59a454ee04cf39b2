/* Another process of this program, with a house in the folder of the test: a host that can be
 * killed. It says in lines how far it is. */
#ifndef BELAY_TESTS_CELL_ACTOR_H
#define BELAY_TESTS_CELL_ACTOR_H

#include "helpers.h"

#define ROLE_LIFE_S 120

struct actor {
    int pid;
    int report; /* what it reports is read here */
};

/* Starts this program as `role` in the folder; with `fault` as BELAY_FAULT, unless that is NULL. */
void actor_start(struct actor *actor, const char *role, const char *folder, const char *fault);
/* The same, with a disk that fails when the role says so (tests/store/faulty.c). */
void actor_start_faulty(struct actor *actor, const char *role, const char *folder);
/* The next line that it reports, without its line feed; false: it has ended. */
bool actor_line(struct actor *actor, char *out, size_t out_size);
/* Waits; its exit code, or -1 where a signal has ended it. */
int actor_end(struct actor *actor);

/* ---- In the role ---- */

void actor_open(struct house *house); /* in the folder, with two spares */
void actor_report(const char *format, ...) BL_PRINTF(1, 2);

/* restart_test.c */
bl_fiber_main role_cells, role_terminate, role_complete, role_observe;
/* disk_test.c */
bl_fiber_main role_terminate_sync, role_terminate_dead, role_terminate_recovers;
bl_fiber_main role_complete_sync, role_complete_dead;

/* limit_test.c: becomes a worker that cannot be locked down. Returns only when that fails. */
int layers_main(char *worker);
/* garbage_test.c: a process in place of a worker; its exit code. */
int garbage_main(void);

/* ---- What it left ---- */

/* The cell c-1 has been terminated, with that origin and output; asked again, and by the host after
 * the next, it is the same. */
void host_left_terminated(struct house *house, const char *origin, const char *text);
/* The value `k` is 1; the cell `id` looks. */
bool host_left_stored(struct house *house, const char *id);

#endif
