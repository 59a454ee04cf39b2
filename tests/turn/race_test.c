/* A stop from another thread against the commit, on real time. */
#include "racer.h"
#include "stage.h"

static struct racer racer;

/* Rounds in which the turn completed; in which it completed although the stop came before its end;
 * in which it was cancelled. */
static unsigned long completed, crossed, cancelled;

/* Returns whether both outcomes occurred often enough, and, if the racer has a processor of its
 * own, stops between a claim and its answer. */
static bool have_met(unsigned long rounds)
{
    return completed >= rounds / 10 && cancelled >= rounds / 10 &&
           (!racer_apart(&racer) || crossed >= rounds / 200);
}

static void start_race(struct stage *stage, const struct bl_event *event)
{
    (void)stage;
    if (event->type == BL_EVENT_TEXT_DELTA)
        racer_go(&racer);
}

static int race_main(void *argument)
{
    unsigned long rounds = *(unsigned long *)argument;
    struct stage *stage = bl_alloc(sizeof *stage);

    /* A busy machine needs more rounds. */
    for (unsigned long i = 0; i < rounds || (i < 10 * rounds && !have_met(rounds)); i++) {
        stage_init(stage);
        stage->on_event = start_race;
        stage_line(stage, (struct line){.say = "ok", .output_tokens = 1});
        racer_aim(&racer, &stage->scope);
        struct bl_text before = stage_memory(stage);
        struct bl_turn_result *result = stage_turn(stage, "go");
        crossed += result->end == BL_TURN_COMPLETED && bl_scope_stopped_above(&stage->scope);
        racer_settle(&racer, result->end == BL_TURN_COMPLETED);
        CHECK(result->end == BL_TURN_COMPLETED || result->end == BL_TURN_CANCELLED);
        CHECK_EQUAL(stage->turn_count, result->end == BL_TURN_COMPLETED);
        CHECK_EQUAL(stage->session.turns_total, result->end == BL_TURN_COMPLETED);
        CHECK_EQUAL(stage->turns_told, result->end == BL_TURN_COMPLETED);
        CHECK(bl_text_equal(before, stage_memory(stage)) == (result->end != BL_TURN_COMPLETED));
        stage_check_agreement(stage, result);
        completed += result->end == BL_TURN_COMPLETED;
        cancelled += result->end != BL_TURN_COMPLETED;
        stage_done(stage);
    }
    print_message("%lu completed, %lu of them after the stop, %lu cancelled\n", completed, crossed,
                  cancelled);
    bl_free(stage);
    return 0;
}

static void cancel_and_commit_in_the_same_instant_agree_everywhere(void **state)
{
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 1000 : 2000, 100000);

    (void)state;
    completed = crossed = cancelled = 0;
    racer_start(&racer);
    run_in_loop(race_main, &rounds);
    racer_end(&racer);
    assert_true(have_met(rounds));
}

SUITE(race, cmocka_unit_test(cancel_and_commit_in_the_same_instant_agree_everywhere));
