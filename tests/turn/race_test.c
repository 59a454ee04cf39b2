/* A stop from another thread against the commit, on real time. */
#include "stage.h"

#include <pthread.h>
#include <semaphore.h>

/* The thread that stops: told when, it waits a moment of its own and stops the run's scope. */
struct racer {
    pthread_t thread;
    sem_t go;
    sem_t done;
    struct bl_scope *scope;
    uint32_t spin;
    bool over;
};

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

static struct racer racer;

static void start_race(struct stage *stage, const struct bl_event *event)
{
    (void)stage;
    if (event->type == BL_EVENT_TEXT_DELTA)
        sem_post(&racer.go);
}

static int race_main(void *argument)
{
    unsigned long rounds = *(unsigned long *)argument, completed = 0;
    /* How long the racer waits at most: found on the way, so that each side wins half of the time.
     */
    double range = 4000;
    struct stage *stage = bl_alloc(sizeof *stage);
    struct bl_random random;

    bl_random_seed(&random, 7);
    for (unsigned long i = 0; i < rounds; i++) {
        stage_init(stage);
        stage->on_event = start_race;
        stage_line(stage, (struct line){.say = "ok", .output_tokens = 1});
        racer.scope = &stage->scope;
        racer.spin = (uint32_t)bl_random_below(&random, (uint64_t)range + 1);
        struct bl_text before = stage_memory(stage);
        struct bl_turn_result *result = stage_turn(stage, "go");
        sem_wait(&racer.done);
        CHECK(result->end == BL_TURN_COMPLETED || result->end == BL_TURN_CANCELLED);
        CHECK_EQUAL(stage->turn_count, result->end == BL_TURN_COMPLETED);
        CHECK_EQUAL(stage->session.turns_total, result->end == BL_TURN_COMPLETED);
        CHECK_EQUAL(stage->turns_told, result->end == BL_TURN_COMPLETED);
        CHECK(bl_text_equal(before, stage_memory(stage)) == (result->end != BL_TURN_COMPLETED));
        stage_check_agreement(stage, result);
        completed += result->end == BL_TURN_COMPLETED;
        range *= result->end == BL_TURN_COMPLETED ? 0.97 : 1.03;
        /* The stop may be on its way to the loop: it is handed down before its scope goes. */
        bl_yield();
        stage_done(stage);
    }
    print_message("%lu rounds: %lu completed, %lu cancelled\n", rounds, completed,
                  rounds - completed);
    bl_free(stage);
    return 0;
}

static void cancel_and_commit_in_the_same_instant_agree_everywhere(void **state)
{
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 2000 : 5000, 100000);

    (void)state;
    sem_init(&racer.go, 0, 0);
    sem_init(&racer.done, 0, 0);
    assert_int_equal(pthread_create(&racer.thread, NULL, racer_main, &racer), 0);
    run_in_loop(race_main, &rounds);
    racer.over = true;
    sem_post(&racer.go);
    pthread_join(racer.thread, NULL);
}

SUITE(race, cmocka_unit_test(cancel_and_commit_in_the_same_instant_agree_everywhere));
