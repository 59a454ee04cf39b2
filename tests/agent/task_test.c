/* Sub-agents: the tool `task`. */
#include "helpers.h"

#include <stdio.h>

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

#define TASK(agent, prompt) "{name: task, input: {agent: " agent ", prompt: " prompt "}}"

RIG(sub_agent_answers_its_parent_and_its_session_is_its_own_linked_and_not_listed,
    "replies:\n  - {say: let me ask, tools: [" TASK("scout", "look around") "]}\n"
                                                                            "  - say: done\n")
{
    struct bl_list list;

    rig_persona(rig, "scout", "replies:\n  - {tools: [{name: ls}]}\n  - say: all is well\n");
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(has(rig_export(rig, "rig"), "\"text\":\"all is well\",\"is_error\":false"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_SUBAGENT_STARTED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_SUBAGENT_ENDED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_STARTED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_ENDED), 1);
    /* Events of the child have its id. */
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"turn_started\"", "\"agent\":\"agt_"), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_started\"", "\"name\":\"scout\""), 1);
    const struct bl_store_summary *child = rig_child(rig, "scout");
    CHECK(child->agent_of != NULL && strcmp(child->agent_of, "rig") == 0);
    CHECK(child->agent_turn != NULL && strcmp(child->agent_turn, rig_turn(rig)->turn_id) == 0);
    CHECK_EQUAL(child->turns, 1);
    CHECK(child->held_by == NULL);
    CHECK(has(rig_export(rig, child->id), "look around"));
    CHECK_EQUAL(bl_store_list(rig->store, &rig->arena, NULL, 0, false, &list, &rig->error), 0);
    CHECK(list.next->next == &list);
}

RIG(several_run_at_once,
    "replies:\n  - {tools: [" TASK("left", "meet") ", " TASK("right", "meet") "]}\n  - say: done\n")
{
#define MEET(own, other)                                                                           \
    "replies:\n  - {tools: [{name: bash, input: {command: \"touch " own "; while [ ! -e " other    \
    " ]; do sleep 0.01; done\"}}]}\n  - say: met\n"
    rig_persona(rig, "left", MEET("l", "r"));
    rig_persona(rig, "right", MEET("r", "l"));
    rig->run.timed = true;
    rig->run.timeout_ns = 60 * (int64_t)BL_NS_PER_S;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", "\"stop_reason\":\"completed\""),
                2);
}

RIG(answer_of_a_sub_agent_is_bounded,
    "replies:\n  - {tools: [" TASK("talker", "talk") "]}\n  - say: done\n")
{
    struct bl_buffer script;

    bl_buffer_init(&script, 1 << 20);
    bl_buffer_append(&script, BL_TEXT("replies:\n  - {pieces: 1, say: \"first "));
    for (int i = 0; i < 10000; i++)
        bl_buffer_append(&script, BL_TEXT("blah d\u00e9j\u00e0 "));
    bl_buffer_append(&script, BL_TEXT("last\"}\n"));
    bl_buffer_append_byte(&script, '\0');
    rig_persona(rig, "talker", script.data);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    struct bl_text exported = rig_export(rig, "rig");
    CHECK(has(exported, "bytes left out"));
    CHECK(has(exported, "first blah") && has(exported, "last\",\"is_error\":false"));
    CHECK(exported.size < 64 * 1024);
    CHECK(bl_utf8_valid(exported));
    bl_buffer_done(&script);
}

RIG(sub_agent_has_only_the_tools_of_its_persona,
    "replies:\n  - {tools: [" TASK("nobody", "x") ", " TASK("reader", "x") "]}\n  - say: done\n")
{
    static const char *const tools[] = {"re*", "ls", NULL};

    rig_persona(rig, "reader",
                "replies:\n  - {tools: [{name: bash, input: {command: touch no}}]}\n"
                "  - {tools: [{name: ls}]}\n  - say: as far as I may\n")
        ->tools = tools;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!rig_has_file(rig, "no"));
    CHECK(has(rig_turn(rig)->json, "\"status\":\"invalid\""));
    CHECK(has(rig_export(rig, "rig"), "as far as I may"));
    CHECK(has(rig_export(rig, rig_child(rig, "reader")->id), "there is no tool 'bash'"));
}

RIG(sub_agent_that_cannot_start_is_an_error_result,
    "replies:\n  - {tools: [" TASK("lost", "x") "]}\n  - say: without it\n")
{
    rig_persona(rig, "lost", NULL)->model = "nowhere";
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(has(rig_export(rig, "rig"), "could not start: there is no model 'nowhere'"));
}

RIG(sub_agent_that_fails_or_times_out_is_an_error_result,
    "replies:\n  - {tools: [" TASK("failing", "x") ", " TASK("slow", "x") "]}\n  - say: so\n")
{
    rig_persona(rig, "failing", "replies:\n  - error: {status: 400, message: nonsense}\n");
    rig_persona(rig, "slow", "replies:\n  - {say: I am, wedge: after_first_token}\n")->timeout_ns =
        50 * MS;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    struct bl_text exported = rig_export(rig, "rig");
    CHECK(has(exported, "did not complete: it failed: "));
    CHECK(has(exported, "did not complete: its deadline was reached"));
    CHECK_EQUAL(rig->result.run.receipt.size, 0);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"subagent_ended\"", "\"stop_reason\":\"timeout\""), 1);
    /* The stop and its receipt are for the child alone. */
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"receipt\"", "\"agent\":\"agt_"), 1);
}

RIG(turns_of_a_sub_agent_stay_when_the_parents_turn_is_rejected,
    "replies:\n  - {tools: [" TASK("keeper", "x") "]}\n  - error: {status: 400}\n")
{
    rig_persona(rig, "keeper", "replies:\n  - say: kept\n");
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_ERROR);
    CHECK_EQUAL(rig_view(rig).turn_count, 0);
    const struct bl_store_summary *child = rig_child(rig, "keeper");
    CHECK_EQUAL(child->turns, 1);
    CHECK(strcmp(child->agent_turn, rig_turn(rig)->turn_id) == 0);
    CHECK(has(rig_export(rig, child->id), "kept"));
}

RIG(agents_are_so_deep_and_no_deeper, "replies:\n  - {tools: [" TASK("deep", "x") "]}\n"
                                                                                  "  - say: top\n")
{
    rig_persona(rig, "deep", "replies:\n  - {tools: [" TASK("deep", "x") "]}\n  - say: back\n");
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_SUBAGENT_STARTED), 4);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"tool_ended\"", "\"status\":\"invalid\""), 1);
}

/* ---- One of them is stopped ------------------------------------------------------------------ */

struct canceller {
    struct rig *rig;
    struct bl_buffer receipt;
    char id[72];
    int code;
};

/* Stops the child whose model is silent, by its id, once both have begun; then lets the other one
 * continue. */
static int cancel_main(void *argument)
{
    struct canceller *canceller = argument;
    struct rig *rig = canceller->rig;

    while (!rig_has_file(rig, "at-work") || rig_told_of(rig, "\"text\":\"hm\"", NULL) == 0)
        if (bl_sleep(5 * MS) != 0)
            return 0;
    const struct bl_activity *silent = NULL;
    BL_LIST_EACH (link, &rig->activities.list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (strcmp(activity->kind, "agent") == 0 && strcmp(activity->phase, "model") == 0)
            silent = activity;
    }
    if (CHECK(silent != NULL)) {
        bl_text_into(canceller->id, sizeof canceller->id, silent->id);
        canceller->code = bl_activities_cancel(&rig->activities, canceller->id, "belay cancel",
                                               &canceller->receipt);
    }
    char path[128];
    snprintf(path, sizeof path, "%s/go", rig->folder);
    FILE *file = fopen(path, "w");
    if (CHECK(file != NULL))
        fclose(file);
    return 0;
}

RIG(stopping_one_child_leaves_its_siblings_and_gives_its_parent_a_result,
    "replies:\n  - {tools: [" TASK("silent", "x") ", " TASK("busy", "x") "]}\n  - say: one came\n")
{
    struct canceller canceller = {.rig = rig, .code = -1};
    struct bl_nursery nursery;

    rig_persona(rig, "silent", "replies:\n  - {say: hm, pieces: 1, wedge: after_first_token}\n");
    rig_persona(rig, "busy",
                "replies:\n  - {tools: [{name: bash, input: {command: \"touch at-work; while [ ! "
                "-e go ]; do sleep 0.01; done; echo through\"}}]}\n  - say: worked\n");
    bl_buffer_init(&canceller.receipt, 1 << 20);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "cancel", cancel_main, &canceller, NULL);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(canceller.code, 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(bl_text_equal(rig_turn(rig)->output, BL_TEXT("one came")));
    CHECK_EQUAL(rig->result.run.receipt.size, 0);
    /* The receipt is for the child. */
    struct bl_text receipt = bl_buffer_text(&canceller.receipt);
    CHECK(has(receipt, canceller.id));
    CHECK(has(receipt, "\"reason\":\"user\"") && has(receipt, "\"survivors\":0"));
    CHECK(has(receipt, "\"kind\":\"model\""));
    struct bl_text exported = rig_export(rig, "rig");
    CHECK(has(exported, "did not complete: it was stopped (user, belay cancel)"));
    CHECK(has(exported, "Its answer so far:\\nhm"));
    CHECK(has(exported, "\"text\":\"worked\",\"is_error\":false"));
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 1);
    CHECK(has(rig_export(rig, rig_child(rig, "silent")->id), canceller.id));
    CHECK_EQUAL(rig_child(rig, "silent")->attempts, 1);
    CHECK_EQUAL(rig_child(rig, "busy")->turns, 1);
    bl_buffer_done(&canceller.receipt);
}

SUITE(
    task,
    cmocka_unit_test(sub_agent_answers_its_parent_and_its_session_is_its_own_linked_and_not_listed),
    cmocka_unit_test(several_run_at_once), cmocka_unit_test(answer_of_a_sub_agent_is_bounded),
    cmocka_unit_test(sub_agent_has_only_the_tools_of_its_persona),
    cmocka_unit_test(sub_agent_that_cannot_start_is_an_error_result),
    cmocka_unit_test(sub_agent_that_fails_or_times_out_is_an_error_result),
    cmocka_unit_test(turns_of_a_sub_agent_stay_when_the_parents_turn_is_rejected),
    cmocka_unit_test(agents_are_so_deep_and_no_deeper),
    cmocka_unit_test(stopping_one_child_leaves_its_siblings_and_gives_its_parent_a_result));
