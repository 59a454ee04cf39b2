#include "racer.h"

#include "suite.h"

/* Polls before the thread yields its processor. */
#define LOOKS_MAX 1000u

/* Polls for the start, because waking up takes longer than the operation that it races against. */
static void await_go(struct racer *racer)
{
    for (unsigned i = 1; !atomic_load_explicit(&racer->go, memory_order_acquire); i++)
        if (i % LOOKS_MAX == 0)
            sched_yield();
}

static void *racer_main(void *argument)
{
    struct racer *racer = argument;

    for (;;) {
        sem_wait(&racer->aimed);
        if (racer->over)
            return NULL;
        sem_post(&racer->ready);
        await_go(racer);
        for (volatile uint32_t i = 0; i < racer->spin; i++)
            continue;
        bl_scope_stop(racer->scope, BL_STOP_USER, "racer");
        sem_post(&racer->done);
    }
}

/* Assigns one processor to the racer and the others to the caller: on a shared processor, they
 * would alternate instead of racing. */
static void racer_part(struct racer *racer)
{
    cpu_set_t others, own;
    int last = CPU_SETSIZE - 1;

    sched_getaffinity(0, sizeof racer->before, &racer->before);
    if (CPU_COUNT(&racer->before) < 2)
        return;
    while (!CPU_ISSET(last, &racer->before))
        last--;
    others = racer->before;
    CPU_CLR(last, &others);
    CPU_ZERO(&own);
    CPU_SET(last, &own);
    sched_setaffinity(0, sizeof others, &others);
    pthread_setaffinity_np(racer->thread, sizeof own, &own);
}

void racer_start(struct racer *racer)
{
    *racer = (struct racer){0};
    aim_init(&racer->aim, 7, 4000);
    sem_init(&racer->aimed, 0, 0);
    sem_init(&racer->ready, 0, 0);
    sem_init(&racer->done, 0, 0);
    assert_int_equal(pthread_create(&racer->thread, NULL, racer_main, racer), 0);
    racer_part(racer);
}

void racer_end(struct racer *racer)
{
    racer->over = true;
    sem_post(&racer->aimed);
    pthread_join(racer->thread, NULL);
    sched_setaffinity(0, sizeof racer->before, &racer->before);
}

bool racer_apart(const struct racer *racer)
{
    return CPU_COUNT(&racer->before) >= 2;
}

void racer_aim(struct racer *racer, struct bl_scope *scope)
{
    racer->scope = scope;
    racer->spin = (uint32_t)aim_take(&racer->aim);
    atomic_store_explicit(&racer->go, false, memory_order_relaxed);
    sem_post(&racer->aimed);
    sem_wait(&racer->ready);
}

void racer_go(struct racer *racer)
{
    atomic_store_explicit(&racer->go, true, memory_order_release);
    /* It loses even without a delay, because it has no processor of its own. */
    if (racer->aim.range < 1)
        sched_yield();
}

void racer_settle(struct racer *racer, bool lost)
{
    sem_wait(&racer->done);
    aim_settle(&racer->aim, lost);
    /* The stop may be on its way to the loop: let it be delivered before its scope ends. */
    bl_yield();
}
