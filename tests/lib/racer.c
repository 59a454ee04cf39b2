#include "racer.h"

#include "suite.h"

static void *racer_main(void *argument)
{
    struct racer *racer = argument;

    for (;;) {
        sem_wait(&racer->go);
        if (racer->over)
            return NULL;
        for (volatile uint32_t i = 0; i < racer->spin; i++)
            continue;
        bl_scope_stop(racer->scope, BL_STOP_USER, "racer");
        sem_post(&racer->done);
    }
}

void racer_start(struct racer *racer)
{
    *racer = (struct racer){.range = 4000};
    bl_random_seed(&racer->random, 7);
    sem_init(&racer->go, 0, 0);
    sem_init(&racer->done, 0, 0);
    assert_int_equal(pthread_create(&racer->thread, NULL, racer_main, racer), 0);
}

void racer_end(struct racer *racer)
{
    racer->over = true;
    sem_post(&racer->go);
    pthread_join(racer->thread, NULL);
}

void racer_aim(struct racer *racer, struct bl_scope *scope)
{
    racer->scope = scope;
    racer->spin = (uint32_t)bl_random_below(&racer->random, (uint64_t)racer->range + 1);
}

void racer_go(struct racer *racer)
{
    sem_post(&racer->go);
}

void racer_settle(struct racer *racer, bool lost)
{
    sem_wait(&racer->done);
    racer->range *= lost ? 0.97 : 1.03;
    /* The stop may be on its way to the loop: it is handed down before its scope goes. */
    bl_yield();
}
