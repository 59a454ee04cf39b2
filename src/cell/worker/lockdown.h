/* What the worker gives up before it runs anything. */
#ifndef BELAY_CELL_WORKER_LOCKDOWN_H
#define BELAY_CELL_WORKER_LOCKDOWN_H

/* From here on this process opens no file and no socket, starts no process and reaches no other
 * one: the kernel refuses it (EPERM, EACCES). Descriptors above 2 are closed, except `kept` (-1:
 * none) and those that stand for no file. Threads can still be made. 0, or -1 with errno: then
 * nothing is promised, and nothing may be run. */
int lockdown_apply(int kept);

#endif
