/* A thread that stops a scope at a chosen moment, so that a stop and a commit coincide. */
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
/* True if it has a processor of its own, so that both really run in parallel. */
bool racer_apart(const struct racer *racer);
/* Sets the scope to stop, before each round. */
void racer_aim(struct racer *racer, struct bl_scope *scope);
/* Starts the race, in the round, when the stop may come. */
void racer_go(struct racer *racer);
/* Waits, after the round and in a fiber, until the stop was requested and delivered. `lost`: the
 * commit was first. */
void racer_settle(struct racer *racer, bool lost);

#endif
