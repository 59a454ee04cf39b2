/* A thread that stops a scope at a moment of its own, so that a stop and a commit meet. */
#ifndef BELAY_TESTS_RACER_H
#define BELAY_TESTS_RACER_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <belay/fiber.h>

#include "aim.h"

struct racer {
    pthread_t thread;
    sem_t aimed, ready;
    atomic_bool go;
    sem_t done;
    cpu_set_t before; /* where the caller may run */
    struct bl_scope *scope;
    uint32_t spin;
    bool over;
    struct aim aim; /* of spins */
};

void racer_start(struct racer *racer);
void racer_end(struct racer *racer);
/* It has a processor of its own, so that both really run at once. */
bool racer_apart(const struct racer *racer);
/* Before each round: what it stops. */
void racer_aim(struct racer *racer, struct bl_scope *scope);
/* In the round, when the stop may come. */
void racer_go(struct racer *racer);
/* After it, in a fiber: the stop has been asked for and handed down. `lost`: the commit was first.
 */
void racer_settle(struct racer *racer, bool lost);

#endif
