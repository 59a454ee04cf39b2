/* Limits of agents and their sub-agents: steps for each agent, tokens for all. */
#include "helpers.h"

#include <stdio.h>

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

#define TASK(agent, prompt) "{name: task, input: {agent: " agent ", prompt: " prompt "}}"
#define LS                  "{tools: [{name: ls}]}"

/* ---- Steps ----------------------------------------------------------------------------------- */

RIG(step_limit_counts_the_calls_of_each_agent_alone,
    "replies:\n  - {tools: [" TASK("busy", "x") "]}\n  - say: done\n")
{
    rig_persona(rig, "busy", "replies:\n  - " LS "\n  - " LS "\n  - " LS "\n  - say: three\n");
    rig->options.limits.max_steps = 1;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(has(rig_export(rig, "rig"), "\"text\":\"three\",\"is_error\":false"));
}

RIG(child_at_its_limit_is_an_error_result_and_the_call_that_would_exceed_it_is_not_run,
    "replies:\n  - {tools: [" TASK("busy", "x") "]}\n  - say: done\n")
{
    rig_persona(rig, "busy",
                "replies:\n  - " LS "\n  - {tools: [{name: bash, input: {command: touch no}}]}\n")
        ->max_steps = 1;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!rig_has_file(rig, "no"));
    CHECK(has(rig_export(rig, "rig"), "max_steps_reached"));
    CHECK_EQUAL(rig_child(rig, "busy")->turns, 0);
}

RIG(child_that_synthesizes_writes_a_summary,
    "replies:\n  - {tools: [" TASK("busy", "x") "]}\n  - say: done\n")
{
    struct bl_persona *persona =
        rig_persona(rig, "busy",
                    "replies:\n  - " LS "\n  - {tools: [{name: bash, input: {command: touch no}}]}"
                    "\n  - say: so far\n");

    persona->max_steps = 1;
    persona->synthesize = true;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!rig_has_file(rig, "no"));
    CHECK(has(rig_export(rig, "rig"), "\"text\":\"so far\",\"is_error\":false"));
}

static void stop_at_text(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&rig->scope, BL_STOP_USER, "test");
}

RIG(synthesis_is_in_the_same_scope_and_can_be_cancelled,
    "replies:\n  - " LS "\n  - " LS "\n  - {say: a b c, wedge: after_first_token}\n")
{
    rig->options.limits.max_steps = 1;
    rig->options.limits.synthesize = true;
    rig->on_event = stop_at_text;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(rig_view(rig).turn_count, 0);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

#define USES(number)    "usage: {input: " #number ", output: 0}"
#define USING_LS(count) "{tools: [{name: ls}], " USES(count) "}"

RIG(children_draw_from_one_budget_that_starts_with_the_sessions_usage,
    "replies:\n  - {say: before, " USES(40) "}\n"
                                            "  - {tools: [" TASK("first", "x") "], " USES(
                                                1) "}\n"
                                                   "  - {tools: [" TASK("second", "x") "], " USES(
                                                       1) "}\n  - {say: done, " USES(1) "}\n")
{
    rig_persona(rig, "first", "replies:\n  - " USING_LS(20) "\n  - {say: one, " USES(20) "}\n");
    /* 82 are used then: the request is covered, its actual use is not. */
    rig_persona(rig, "second", "replies:\n  - " USING_LS(10) "\n  - {say: two, " USES(6) "}\n");
    rig->options.limits.max_budget_tokens = 97;
    CHECK_EQUAL(rig_run(rig, "before"), 0);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", "\"stop_reason\":\"completed\""),
                1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", "max_budget_reached"), 1);
    /* Nothing is left for the parent. */
    CHECK_EQUAL(rig->result.run.end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(bl_usage_total(&rig->result.run.usage), 0);
    CHECK_EQUAL(bl_usage_total(&rig->result.run.spent.usage), 1 + 40 + 1 + 16);
    CHECK_EQUAL(rig_view(rig).turn_count, 1);
    CHECK_EQUAL(rig_child(rig, "first")->turns, 1);
}

RIG(end_of_a_conversation_sums_up_its_prompts,
    "replies:\n  - {say: a, " USES(3) "}\n  - {say: b, " USES(4) "}\n")
{
    rig_open(rig);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_ENDED), 0);
    rig_close(rig);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_STARTED), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"run_ended\"", "\"turns_completed\":2"), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"run_ended\"", "\"usage\":{\"input_tokens\":7,"), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"run_ended\"", "\"spent\":{\"input_tokens\":7,"), 1);
}

RIG(own_limit_of_a_persona_can_only_be_lower,
    "replies:\n  - {tools: [" TASK("thrifty", "x") ", " TASK("lavish", "x") "], " USES(
        1) "}\n"
           "  - {say: done, " USES(1) "}\n")
{
    rig_persona(rig, "thrifty", "replies:\n  - " USING_LS(10) "\n  - {say: one, " USES(10) "}\n")
        ->max_budget_tokens = 15;
    rig_persona(rig, "lavish", "replies:\n  - " USING_LS(30) "\n  - {say: two, " USES(60) "}\n")
        ->max_budget_tokens = 1000000;
    rig->options.limits.max_budget_tokens = 200;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", "max_budget_reached"), 1);
    CHECK(has(rig_export(rig, "rig"), "max_budget_reached: the token budget is used up"));
    CHECK_EQUAL(rig_child(rig, "thrifty")->turns, 0);
    CHECK_EQUAL(rig_child(rig, "lavish")->turns, 1);
    CHECK_EQUAL(bl_usage_total(&rig->result.run.usage), 2 + 20 + 90);
    /* If the root's limit is lower, it applies. */
    rig->options.session.id = "other";
    rig->options.limits.max_budget_tokens = 80;
    rig_script(rig, "replies:\n  - {tools: [" TASK("lavish", "x") "], " USES(1) "}\n");
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", "max_budget_reached"), 2);
}

/* Ten words: the estimate and the usage of each call. */
#define TEN "a b c d e f g h i j"

RIG(several_children_at_once_never_overshoot,
    "replies:\n  - {tools: [" TASK("drawer", TEN) ", " TASK("drawer", TEN) ", " TASK(
        "drawer", TEN) ", " TASK("drawer", TEN) "], " USES(0) "}\n  - {say: done, " USES(0) "}\n")
{
    rig_persona(rig, "drawer", "replies:\n  - {delay: 1ms, tools: [{name: ls}]}\nrepeat: true\n");
    rig->options.limits.max_budget_tokens = 155;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", "max_budget_reached"), 4);
    CHECK_EQUAL(bl_usage_total(&rig->result.run.usage), 150);
    CHECK_EQUAL(rig_view(rig).summary.usage.input_tokens, 150);
}

/* Stops the sub-agent of that call when it emits text. */
static void stop_the_stopped(struct rig *rig, const struct bl_event *event)
{
    if (event->type != BL_EVENT_TEXT_DELTA || event->agent == NULL)
        return;
    BL_LIST_EACH (link, &rig->activities.list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (strcmp(activity->id, event->agent) == 0 && has(event->text, "stop me"))
            bl_scope_stop(activity->scope, BL_STOP_USER, "test");
    }
}

RIG(usage_of_children_counts_in_the_turn_of_their_parent,
    "replies:\n  - {tools: [" TASK("good", "x") ", " TASK("failed", "x") ", " TASK(
        "stopped",
        "x") ", " TASK("late", "x") ", " TASK("above",
                                              "x") "], " USES(1) "}\n"
                                                                 "  - {say: done, " USES(1) "}\n")
{
    rig_persona(rig, "good", "replies:\n  - {say: ok, " USES(1000) "}\n");
    rig_persona(rig, "failed", "replies:\n  - " USING_LS(200) "\n  - error: {status: 400}\n");
    rig_persona(rig, "stopped",
                "replies:\n  - " USING_LS(
                    30000) "\n"
                           "  - {say: stop me now, pieces: 1, wedge: after_first_token}\n");
    rig_persona(rig, "late", "replies:\n  - " USING_LS(400000) "\n  - wedge: before_first_token\n")
        ->timeout_ns = 500 * MS;
    rig_persona(rig, "above",
                "replies:\n  - {tools: [" TASK("good", "x") "], " USES(
                    5000000) "}\n  - {say: ok, " USES(0) "}\n");
    rig->on_event = stop_the_stopped;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    /* The cut calls are estimated in addition: a few words. */
    uint64_t used = rig->result.run.usage.input_tokens;
    CHECK(used >= 5432202 && used < 5432202 + 20);
    CHECK_EQUAL(rig->result.run.spent.usage.input_tokens, used);
    CHECK_EQUAL(rig_view(rig).summary.usage.input_tokens, used);
    CHECK(rig_child(rig, "stopped")->spent.usage.input_tokens >= 30000);
    CHECK_EQUAL(rig_child(rig, "stopped")->usage.input_tokens, 0);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", NULL), 6);
}

SUITE(limits, cmocka_unit_test(step_limit_counts_the_calls_of_each_agent_alone),
      cmocka_unit_test(
          child_at_its_limit_is_an_error_result_and_the_call_that_would_exceed_it_is_not_run),
      cmocka_unit_test(child_that_synthesizes_writes_a_summary),
      cmocka_unit_test(synthesis_is_in_the_same_scope_and_can_be_cancelled),
      cmocka_unit_test(children_draw_from_one_budget_that_starts_with_the_sessions_usage),
      cmocka_unit_test(end_of_a_conversation_sums_up_its_prompts),
      cmocka_unit_test(own_limit_of_a_persona_can_only_be_lower),
      cmocka_unit_test(several_children_at_once_never_overshoot),
      cmocka_unit_test(usage_of_children_counts_in_the_turn_of_their_parent));
