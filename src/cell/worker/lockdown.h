/* The privileges that a worker gives up before it runs any code. */
#ifndef BELAY_CELL_WORKER_LOCKDOWN_H
#define BELAY_CELL_WORKER_LOCKDOWN_H

/* After this call the process cannot open files or sockets, start processes or reach other
 * processes: the kernel refuses it (EPERM, EACCES). Descriptors above 2 are closed, except `kept`
 * (-1: none) and the engine's own, which give access to no file. Threads can still be created.
 * Returns 0, or -1 with errno: then there is no protection, and no cell code may run. */
int lockdown_apply(int kept);

#endif
