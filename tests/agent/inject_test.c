/* Cancels and injected messages, with an agent of real parts. */
#include "helpers.h"

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

static bool is(struct bl_text text, const char *string)
{
    return bl_text_equal(text, bl_text_from(string));
}

static void stop_at_text(struct rig *rig, const struct bl_event *event)
{
    if (event->type != BL_EVENT_TEXT_DELTA)
        return;
    bl_scope_stop(&rig->scope, BL_STOP_USER, "Esc");
}

RIG(old_cancel_never_poisons_the_next_turn_of_a_conversation,
    "replies:\n  - {say: one two, wedge: after_first_token}\n  - say: whole\n"
    "  - {say: three, wedge: after_first_token}\n  - say: again\n")
{
    rig->options.limits.keep = true;
    rig_open(rig);
    for (int i = 0; i < 2; i++) {
        rig->on_event = stop_at_text;
        CHECK_EQUAL(rig_prompt(rig, "first"), BL_TURN_CANCELLED);
        CHECK(rig->result.run.receipt.size > 0);
        rig->on_event = NULL;
        CHECK_EQUAL(rig_prompt(rig, "second"), BL_TURN_COMPLETED);
        CHECK_EQUAL(rig->result.run.receipt.size, 0);
    }
    CHECK_EQUAL(bl_agent_session(rig->agent)->turns_total, 4);
    rig_close(rig);
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 4);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_STARTED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_ENDED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RECEIPT), 2);
}

static void stop_after_the_second_turn(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TURN_ENDED && rig_told(rig, BL_EVENT_TURN_ENDED) == 2)
        bl_scope_stop(&rig->scope, BL_STOP_SIGNAL, "SIGINT");
}

RIG(late_cancel_on_a_turn_of_a_headless_loop_stops_the_next, "replies: [{say: ok}]\nrepeat: true\n")
{
    rig->run.continues = true;
    rig->run.continuation = BL_TEXT("on");
    rig->on_event = stop_after_the_second_turn;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(rig->result.run.turns_completed, 2);
    CHECK_EQUAL(bl_run_exit_code(&rig->result.run), 130);
    CHECK(has(rig->result.run.receipt, "\"origin\":\"SIGINT\""));
    CHECK_EQUAL(rig_view(rig).turn_count, 2);
}

/* Injects a message from the listener. */
static void say_while_the_tool_runs(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TOOL_STARTED)
        CHECK_EQUAL(bl_agent_inject(rig->agent, BL_TEXT("mind the gap"), NULL), 0);
}

RIG(message_typed_while_a_tool_runs_is_delivered_after_its_result,
    "replies:\n  - {tools: [{name: ls}, {name: ls}]}\n  - {when: mind the gap, say: I do}\n")
{
    rig->on_event = say_while_the_tool_runs;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(is(rig_turn(rig)->output, "I do"));
    CHECK(bl_list_empty(bl_agent_waiting(rig->agent)));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"message_injected\"", "\"delivered\":\"turn\""), 2);
    rig_close(rig);
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 1);
    CHECK(has(rig_export(rig, "rig"), "{\"type\":\"text\",\"text\":\"mind the gap\"}"));
}

static void say_while_it_speaks(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA && rig_told(rig, BL_EVENT_TEXT_DELTA) == 1)
        CHECK_EQUAL(bl_agent_inject(rig->agent, BL_TEXT("and then?"), NULL), 0);
}

RIG(message_is_the_next_prompt_if_the_turn_completes_first,
    "replies:\n  - {say: one, pieces: 1}\n  - {when: and then, say: two}\n")
{
    rig->on_event = say_while_it_speaks;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig->result.run.turns_completed, 2);
    CHECK(is(rig_turn(rig)->prompt, "and then?"));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"message_injected\"", "\"delivered\":\"prompt\""), 1);
    rig_close(rig);
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 2);
}

RIG(undelivered_message_is_returned_to_a_caller_with_one_turn,
    "replies:\n  - {say: one, pieces: 1}\n  - {say: two}\n")
{
    rig->on_event = say_while_it_speaks;
    rig->run.max_turns = 1;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(rig->result.run.undelivered);
    CHECK(!bl_list_empty(bl_agent_waiting(rig->agent)));
    CHECK(is(bl_agent_take_back(rig->agent, &rig->arena), "and then?"));
    CHECK(bl_list_empty(bl_agent_waiting(rig->agent)));
    CHECK_EQUAL(bl_agent_take_back(rig->agent, &rig->arena).size, 0);
}

static void stop_then_say(struct rig *rig, const struct bl_event *event)
{
    if (event->type != BL_EVENT_TOOL_STARTED)
        return;
    bl_scope_stop(&rig->scope, BL_STOP_USER, "Esc");
    CHECK_EQUAL(bl_agent_inject(rig->agent, BL_TEXT("no, go on"), NULL), 0);
}

RIG(cancel_then_inject_stays_cancelled_with_an_agent,
    "replies:\n  - {tools: [{name: bash, input: {command: sleep 60}}]}\n  - say: more\n")
{
    rig->on_event = stop_then_say;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_CANCELLED);
    CHECK(rig->result.run.undelivered);
    rig->on_event = NULL;
    CHECK(is(bl_agent_take_back(rig->agent, &rig->arena), "no, go on"));
    CHECK_EQUAL(rig_prompt(rig, "next"), BL_TURN_COMPLETED);
    CHECK(is(rig_turn(rig)->output, "more"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_MESSAGE_INJECTED), 0);
}

/* ---- Background work ------------------------------------------------------------------------- */

RIG(stop_of_a_turn_leaves_background_work_and_lists_it_in_the_receipt,
    "replies:\n  - {tools: [{name: bash, input: {command: \"exec sleep 600\", background: true}}]}"
    "\n  - {say: meanwhile, wedge: after_first_token}\n  - say: on\n")
{
    rig->on_event = stop_at_text;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_CANCELLED);
    CHECK(has(rig->result.run.receipt, "\"background\":[{\"id\":"));
    CHECK(has(rig->result.run.receipt, "exec sleep 600"));
    CHECK(has(rig->result.run.receipt, "\"survivors\":0"));
    CHECK(rig_running(rig, "job", 0)[0] != '\0');
    CHECK(rig_processes(rig) > 0);
    rig->on_event = NULL;
    CHECK_EQUAL(rig_prompt(rig, "next"), BL_TURN_COMPLETED);
    rig_close(rig);
    CHECK_EQUAL(rig_processes(rig), 0);
    CHECK_EQUAL(rig_running(rig, "job", 0)[0], '\0');
}

/* ---- Another model --------------------------------------------------------------------------- */

static void change_at_the_first_call(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TOOL_STARTED)
        CHECK_EQUAL(bl_agent_set_model(rig->agent, "second", &rig->error), 0);
}

/* The next request goes to the other model. */
RIG(model_is_changed_between_and_during_prompts, "replies:\n  - say: zero\n")
{
    rig_persona(rig, "first", "replies:\n  - say: one\n  - tools: [{name: ls, input: {}}]\n");
    rig_persona(rig, "second", "replies:\n  - say: two\n  - say: three\n");
    rig_open(rig);
    CHECK_EQUAL(bl_agent_set_model(rig->agent, "third", &rig->error), BL_ENOENT);
    CHECK_EQUAL(rig_prompt(rig, "a"), BL_TURN_COMPLETED);
    CHECK(has(rig_turn(rig)->json, "\"output\":\"zero\""));
    CHECK_EQUAL(bl_agent_set_model(rig->agent, "first", &rig->error), 0);
    CHECK_EQUAL(rig_prompt(rig, "b"), BL_TURN_COMPLETED);
    CHECK(has(rig_turn(rig)->json, "\"output\":\"one\""));
    rig->on_event = change_at_the_first_call;
    CHECK_EQUAL(rig_prompt(rig, "c"), BL_TURN_COMPLETED);
    CHECK(has(rig_turn(rig)->json, "\"output\":\"two\""));
    rig->on_event = NULL;
    CHECK_EQUAL(rig_prompt(rig, "d"), BL_TURN_COMPLETED);
    CHECK(has(rig_turn(rig)->json, "\"output\":\"three\""));
    rig_close(rig);
}

RIG(model_cannot_be_changed_without_another_one, "replies:\n  - say: one\n")
{
    rig_open(rig);
    CHECK_EQUAL(bl_agent_set_model(rig->agent, "first", &rig->error), BL_ENOTSUP);
    CHECK_EQUAL(strcmp(rig->error.message, "the model cannot be changed here"), 0);
    CHECK_EQUAL(rig_prompt(rig, "a"), BL_TURN_COMPLETED);
    rig_close(rig);
}

/* ---- Compaction ------------------------------------------------------------------------------ */

static void compact_in_between(struct rig *rig)
{
    uint64_t dropped = 99;

    bl_scope_init(&rig->scope, bl_scope_current());
    CHECK_EQUAL(bl_agent_compact(rig->agent, &rig->scope, &dropped, &rig->error), 0);
    CHECK_EQUAL(dropped, 2);
    bl_scope_done(&rig->scope);
}

RIG(requested_compaction_is_in_the_file_and_the_next_turn_continues,
    "replies:\n  - say: one\n  - say: two\n  - say: three\n  - {when: Summarize it, say: in "
    "short}\n"
    "  - say: four\n")
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "a"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_prompt(rig, "b"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_prompt(rig, "c"), BL_TURN_COMPLETED);
    compact_in_between(rig);
    CHECK_EQUAL(bl_agent_session(rig->agent)->turns_in_context, 1);
    CHECK(bl_agent_session(rig->agent)->summary != NULL);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_COMPACTED), 1);
    CHECK_EQUAL(rig_told_of(rig, "in short", NULL), 0);
    rig_close(rig);
    /* From the file. */
    rig_open(rig);
    CHECK_EQUAL(bl_agent_session(rig->agent)->turns_in_context, 1);
    CHECK_EQUAL(bl_agent_session(rig->agent)->turns_total, 3);
    CHECK(bl_agent_session(rig->agent)->summary != NULL);
    CHECK_EQUAL(rig_prompt(rig, "d"), BL_TURN_COMPLETED);
    rig_close(rig);
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 2);
}

/* A conversation begins with the first request of any kind. */
RIG(compaction_before_any_prompt_begins_the_conversation,
    "replies:\n  - say: one\n  - say: two\n  - say: three\n  - {when: Summarize it, say: in "
    "short}\n")
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "a"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_prompt(rig, "b"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_prompt(rig, "c"), BL_TURN_COMPLETED);
    rig_close(rig);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_STARTED), 1);
    bl_buffer_clear(&rig->events);
    rig_open(rig);
    compact_in_between(rig);
    rig_close(rig);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_STARTED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RUN_ENDED), 1);
    struct bl_text told = bl_buffer_text(&rig->events);
    CHECK(bl_text_find(told, BL_TEXT("\"run_started\"")) <
          bl_text_find(told, BL_TEXT("\"compacted\"")));
}

static int stop_when_listed(void *argument)
{
    struct rig *rig = argument;
    struct bl_buffer receipt;

    while (rig_running(rig, "run", 0)[0] == '\0')
        if (bl_sleep(MS) != 0)
            return 0;
    bl_buffer_init(&receipt, 1 << 20);
    CHECK_EQUAL(bl_activities_cancel(&rig->activities, rig->run_id, "belay cancel", &receipt), 0);
    CHECK(has(bl_buffer_text(&receipt), "\"kind\":\"model\""));
    CHECK(has(bl_buffer_text(&receipt), "\"survivors\":0"));
    bl_buffer_done(&receipt);
    return 0;
}

RIG(compaction_by_hand_can_be_stopped_by_id_and_changes_nothing,
    "replies:\n  - say: one\n  - say: two\n  - wedge: before_first_token\n  - say: three\n")
{
    struct bl_nursery nursery;
    uint64_t dropped = 99;

    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "a"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_prompt(rig, "b"), BL_TURN_COMPLETED);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_when_listed, rig, NULL);
    bl_scope_init(&rig->scope, bl_scope_current());
    CHECK_EQUAL(bl_agent_compact(rig->agent, &rig->scope, &dropped, &rig->error), BL_ECANCELED);
    bl_scope_done(&rig->scope);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(dropped, 0);
    CHECK_EQUAL(bl_agent_session(rig->agent)->turns_in_context, 2);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RECEIPT), 1);
    CHECK_EQUAL(rig_prompt(rig, "c"), BL_TURN_COMPLETED);
    rig_close(rig);
    CHECK(has(rig_export(rig, "rig"), "{\"type\":\"receipt\""));
}

/* Some hundreds of tokens each, for a model with a small context. */
RIG(summary_call_inside_the_turn_is_in_the_file,
    "context_window: 400\nreplies:\n"
    "  - {when: Summarize it, say: in short, usage: {input: 70, output: 2}}\n"
    "  - {when: last, say: done, usage: {input: 5, output: 1}}\n"
    "  - {say: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "\", usage: {input: 1, output: 1}}\n  - {say: b, usage: {input: 1, output: 1}}\nrepeat: true\n")
{
    rig->options.toolbox = NULL;
    CHECK_EQUAL(rig_run(rig, "one"), 0);
    CHECK_EQUAL(rig_run(rig, "two"), 0);
    rig_script(rig, "context_window: 100\nreplies:\n"
                    "  - {when: Summarize it, say: in short, usage: {input: 70, output: 2}}\n"
                    "  - {when: last, say: done, usage: {input: 5, output: 1}}\n");
    CHECK_EQUAL(rig_run(rig, "last"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig->result.run.usage.input_tokens, 75);
    CHECK(is(rig_turn(rig)->output, "done"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_COMPACTED), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"text_delta\"", "in short"), 0);
    rig_script(rig, "replies:\n  - say: on\n");
    rig_open(rig);
    CHECK(bl_agent_session(rig->agent)->summary != NULL);
    CHECK_EQUAL(bl_agent_session(rig->agent)->turns_total, 3);
    CHECK(bl_agent_session(rig->agent)->turns_in_context < 3);
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    rig_close(rig);
    rig_check_valid(rig, "rig");
}

SUITE(inject, cmocka_unit_test(old_cancel_never_poisons_the_next_turn_of_a_conversation),
      cmocka_unit_test(late_cancel_on_a_turn_of_a_headless_loop_stops_the_next),
      cmocka_unit_test(message_typed_while_a_tool_runs_is_delivered_after_its_result),
      cmocka_unit_test(message_is_the_next_prompt_if_the_turn_completes_first),
      cmocka_unit_test(undelivered_message_is_returned_to_a_caller_with_one_turn),
      cmocka_unit_test(cancel_then_inject_stays_cancelled_with_an_agent),
      cmocka_unit_test(stop_of_a_turn_leaves_background_work_and_lists_it_in_the_receipt),
      cmocka_unit_test(model_is_changed_between_and_during_prompts),
      cmocka_unit_test(model_cannot_be_changed_without_another_one),
      cmocka_unit_test(compaction_before_any_prompt_begins_the_conversation),
      cmocka_unit_test(requested_compaction_is_in_the_file_and_the_next_turn_continues),
      cmocka_unit_test(compaction_by_hand_can_be_stopped_by_id_and_changes_nothing),
      cmocka_unit_test(summary_call_inside_the_turn_is_in_the_file));
