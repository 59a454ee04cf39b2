#include "figure.h"
#include "helpers.h"
#include "racer.h"

#include <stdio.h>

#define PLAY(name, script)                                                                         \
    static void name##_play(struct rig *rig);                                                      \
    static int name##_main(void *argument)                                                         \
    {                                                                                              \
        struct rig *rig = bl_alloc(sizeof *rig);                                                   \
        (void)argument;                                                                            \
        rig_init(rig, script);                                                                     \
        name##_play(rig);                                                                          \
        rig_done(rig);                                                                             \
        bl_free(rig);                                                                              \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(name##_main, NULL);                                                            \
    }                                                                                              \
    static void name##_play(struct rig *rig)

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

PLAY(completed_turn_is_in_the_file,
     "replies:\n  - {say: hello, tools: [{name: bash, input: {command: echo from-bash}}]}\n"
     "  - say: done\n")
{
    CHECK_EQUAL(rig_run(rig, "use bash to say hello"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(strcmp(rig->result.session_id, "rig"), 0);
    struct bl_store_session_view view = rig_view(rig);
    CHECK_EQUAL(view.turn_count, 1);
    CHECK_EQUAL(view.attempt_count, 0);
    const struct bl_turn_result *turn =
        BL_CONTAINER(rig->result.run.turns.next, struct bl_turn_result, link);
    CHECK(bl_text_equal(view.turns[0], turn->json));
    CHECK(has(turn->json, "\"matched_tools\":[\"bash\""));
    CHECK(view.summary.held_by == NULL);
    CHECK(bl_list_empty(&rig->activities.list));
}

PLAY(later_run_continues_the_conversation,
     "replies:\n  - {say: one, usage: {input: 5, output: 1}}\n  - {say: two, usage: {input: 7, "
     "output: 1}}\n")
{
    CHECK_EQUAL(rig_run(rig, "first"), 0);
    CHECK_EQUAL(rig_run(rig, "second"), 0);
    struct bl_store_session_view view = rig_view(rig);
    CHECK_EQUAL(view.turn_count, 2);
    CHECK_EQUAL(view.summary.usage.input_tokens, 12);
    rig->options.limits.max_session_turns = 2;
    CHECK_EQUAL(rig_run(rig, "third"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_MAX_TURNS);
    view = rig_view(rig);
    CHECK_EQUAL(view.turn_count, 2);
    CHECK_EQUAL(view.attempt_count, 1);
}

/* Cancels by id, like `belay cancel`, once it runs. */
struct canceller {
    struct rig *rig;
    const char *kind;
    struct bl_buffer receipt;
    int code;
};

static int cancel_main(void *argument)
{
    struct canceller *canceller = argument;
    const struct bl_activities *activities = &canceller->rig->activities;
    char id[72] = "";

    while (id[0] == '\0') {
        BL_LIST_EACH (link, &activities->list) {
            const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
            if (strcmp(activity->kind, canceller->kind) == 0)
                bl_text_into(id, sizeof id, activity->id);
        }
        if (bl_sleep(10 * MS) != 0)
            return BL_ECANCELED;
    }
    bl_sleep(100 * MS);
    canceller->code =
        bl_activities_cancel(&canceller->rig->activities, id, "belay cancel", &canceller->receipt);
    return 0;
}

static void run_and_cancel(struct rig *rig, struct canceller *canceller, const char *kind)
{
    struct bl_nursery nursery;

    *canceller = (struct canceller){.rig = rig, .kind = kind, .code = -1};
    bl_buffer_init(&canceller->receipt, 65536);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "cancel", cancel_main, canceller, NULL);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(canceller->code, 0);
}

#define SLEEPER                                                                                    \
    "replies:\n  - {tools: [{name: bash, input: {command: \"trap '' TERM; sleep 60 & sleep "       \
    "60\"}}]}\n"                                                                                   \
    "  - say: without it\n"

PLAY(run_is_cancelled_by_id_and_the_receipt_is_answered_when_all_is_quiet, SLEEPER)
{
    struct canceller canceller;

    run_and_cancel(rig, &canceller, "run");
    CHECK_EQUAL(rig->result.run.end, BL_TURN_CANCELLED);
    CHECK(!rig->result.run.cancel_observed);
    CHECK(bl_text_equal(bl_buffer_text(&canceller.receipt), rig->result.run.receipt));
    CHECK(has(rig->result.run.receipt, "\"origin\":\"belay cancel\""));
    CHECK(has(rig->result.run.receipt, "\"survivors\":0"));
    CHECK(has(rig->result.run.receipt, "\"fate\":\"killed\""));
    struct bl_store_session_view view = rig_view(rig);
    CHECK_EQUAL(view.turn_count, 0);
    CHECK_EQUAL(view.attempt_count, 1);
    CHECK(has(view.attempts[0], "\"rejected\""));
    CHECK(has(view.attempts[0], "\"survivors\":0"));
    bl_buffer_done(&canceller.receipt);
}

PLAY(call_is_cancelled_by_id_and_its_turn_continues, SLEEPER)
{
    struct canceller canceller;

    run_and_cancel(rig, &canceller, "call");
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(has(bl_buffer_text(&canceller.receipt), "\"scope\":\"call_"));
    CHECK_EQUAL(rig->result.run.receipt.size, 0);
    bl_buffer_done(&canceller.receipt);
}

PLAY(unknown_id_is_not_found, "replies: [{say: ok}]\n")
{
    struct bl_buffer receipt;

    bl_buffer_init(&receipt, 4096);
    CHECK_EQUAL(bl_activities_cancel(&rig->activities, "run_x", "test", &receipt), BL_ENOENT);
    bl_buffer_done(&receipt);
}

PLAY(request_is_answered_from_the_record,
     "replies:\n  - {say: one, usage: {input: 5, output: 1}}\n  - say: two\n")
{
    rig->options.session.request_id = "req-1";
    CHECK_EQUAL(rig_run(rig, "once"), 0);
    struct bl_text first =
        BL_CONTAINER(rig->result.run.turns.next, struct bl_turn_result, link)->json;
    CHECK_EQUAL(rig_run(rig, "once"), 0);
    struct bl_text again =
        BL_CONTAINER(rig->result.run.turns.next, struct bl_turn_result, link)->json;
    CHECK(bl_text_equal(first, again));
    CHECK_EQUAL(rig_view(rig).turn_count, 1);
    CHECK_EQUAL(rig->result.run.usage.input_tokens, 5);
    CHECK(rig_run(rig, "something else") != 0);
    CHECK_EQUAL(rig->error.kind, BL_KIND_USAGE);
}

static void stop_at_text(void *context, const struct bl_event *event)
{
    struct rig *rig = context;

    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&rig->scope, BL_STOP_USER, "test");
}

PLAY(request_whose_turn_was_interrupted_and_kept_is_run_again,
     "replies:\n  - {say: one two, wedge: after_first_token}\n  - say: whole\n")
{
    rig->options.session.request_id = "req-2";
    struct bl_listener listener = {stop_at_text, rig};

    rig->options.limits.keep = true;
    rig->options.listener = &listener;
    CHECK_EQUAL(rig_run(rig, "once"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(rig_view(rig).turn_count, 1);
    rig->options.listener = NULL;
    CHECK_EQUAL(rig_run(rig, "once"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig->result.run.turns_completed, 1);
    CHECK_EQUAL(rig_view(rig).turn_count, 2);
    CHECK(has(rig_view(rig).turns[0], "\"interrupted\":true"));
}

PLAY(deadline_ends_a_silent_model_and_a_tool_that_hangs,
     "replies:\n  - wedge: before_first_token\n  - {say: a b c, wedge: after_first_token}\n"
     "  - {tools: [{name: bash, input: {command: sleep 60}}]}\n")
{
    rig->run.timed = true;
    rig->run.timeout_ns = 500 * MS;
    for (int i = 0; i < 3; i++) {
        uint64_t from_ns = bl_now_ns();
        CHECK_EQUAL(rig_run(rig, "go"), 0);
        CHECK_EQUAL(rig->result.run.end, BL_TURN_TIMEOUT);
        double ms = (double)(bl_now_ns() - from_ns) / (double)MS;
        CHECK(figure_between("02 deadline of a run in the agent", ms, 500, 550));
    }
    struct bl_store_session_view view = rig_view(rig);
    CHECK_EQUAL(view.turn_count, 0);
    CHECK_EQUAL(view.attempt_count, 3);
}

/* ---- The race, with the file ----------------------------------------------------------------- */

#define SESSION_ROUNDS 250

static struct racer racer;
static uint64_t told_completed;

static void on_event(void *context, const struct bl_event *event)
{
    (void)context;
    if (event->type == BL_EVENT_TEXT_DELTA)
        racer_go(&racer);
    if (event->type == BL_EVENT_TURN_ENDED)
        told_completed += has(event->json, "\"stop_reason\":\"completed\"");
}

/* Returns whether each came first often enough for a race. */
static bool has_met(unsigned long rounds, unsigned long completed, unsigned long stopped)
{
    return completed >= rounds / 10 && stopped >= rounds / 10;
}

static int race_main(void *argument)
{
    unsigned long rounds = *(unsigned long *)argument, completed = 0, here = 0, i = 0;
    static const struct bl_listener listener = {on_event, NULL};
    struct rig *rig = bl_alloc(sizeof *rig);
    char id[32];

    rig_init(rig, "replies: [{say: ok, pieces: 1}]\nrepeat: true\n");
    rig->options.listener = &listener;
    rig->options.limits.compact_after_turns = 2;
    /* On a busy machine the delay at which the two meet varies: more rounds find it. */
    for (; i < rounds || (!has_met(rounds, completed, i - completed) && i < 10 * rounds); i++) {
        /* A new session now and then: each round counts what the session contains. */
        if (i % SESSION_ROUNDS == 0) {
            snprintf(id, sizeof id, "race-%lu", i / SESSION_ROUNDS);
            rig->options.session.id = id;
            here = 0;
        }
        racer_aim(&racer, &rig->scope);
        char run_id[BL_ID_SIZE];
        bl_id_make(run_id, "run_");
        bl_scope_init(&rig->scope, bl_scope_current());
        rig->options.session.run_id = rig->run.run_id = run_id;
        rig->options.session.prompt = rig->run.prompt = BL_TEXT("go");
        bl_arena_reset(&rig->arena);
        CHECK_EQUAL(bl_agent_run(&rig->options, &rig->run, &rig->scope, &rig->arena, &rig->result,
                                 &rig->error),
                    0);
        enum bl_turn_end end = rig->result.run.end;
        racer_settle(&racer, end == BL_TURN_COMPLETED);
        bl_scope_done(&rig->scope);
        CHECK(end == BL_TURN_COMPLETED || end == BL_TURN_CANCELLED);
        completed += end == BL_TURN_COMPLETED;
        here += end == BL_TURN_COMPLETED;
        CHECK_EQUAL(told_completed, completed);
        struct bl_list list;
        CHECK_EQUAL(bl_store_list(rig->store, &rig->arena, NULL, 1, false, &list, NULL), 0);
        const struct bl_store_summary *summary =
            BL_CONTAINER(list.next, struct bl_store_summary, link);
        CHECK(strcmp(summary->id, id) == 0);
        CHECK_EQUAL(summary->turns, here);
        CHECK_EQUAL(summary->turns + summary->attempts, i % SESSION_ROUNDS + 1);
    }
    print_message("%lu rounds: %lu completed\n", i, completed);
    CHECK(has_met(rounds, completed, i - completed));
    rig_done(rig);
    bl_free(rig);
    return 0;
}

static void cancel_and_commit_agree_in_result_events_and_file(void **state)
{
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 150 : 400, 100000);

    (void)state;
    told_completed = 0;
    racer_start(&racer);
    run_in_loop(race_main, &rounds);
    racer_end(&racer);
}

SUITE(run, cmocka_unit_test(completed_turn_is_in_the_file),
      cmocka_unit_test(later_run_continues_the_conversation),
      cmocka_unit_test(run_is_cancelled_by_id_and_the_receipt_is_answered_when_all_is_quiet),
      cmocka_unit_test(call_is_cancelled_by_id_and_its_turn_continues),
      cmocka_unit_test(unknown_id_is_not_found),
      cmocka_unit_test(request_is_answered_from_the_record),
      cmocka_unit_test(request_whose_turn_was_interrupted_and_kept_is_run_again),
      cmocka_unit_test(deadline_ends_a_silent_model_and_a_tool_that_hangs),
      cmocka_unit_test(cancel_and_commit_agree_in_result_events_and_file));
