/* Hooks around an agent: their input, what they may refuse, and how they end. */
#include "helpers.h"

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

/* Returns the hooks of a rig, which the caller frees. */
static struct bl_hooks *hooks_of(struct rig *rig)
{
    struct bl_hooks *hooks = bl_hooks_new();

    rig->options.hooks = hooks;
    return hooks;
}

#define TOUCH "replies:\n  - {tools: [{name: bash, input: {command: touch made}}]}\n  - say: done\n"

RIG(hook_before_a_tool_refuses_it_with_exit_2_and_its_standard_error_is_the_reason, TOUCH)
{
    struct bl_hooks *hooks = hooks_of(rig);

    bl_hooks_add(hooks, BL_HOOK_BEFORE_TOOL, NULL, "echo not on a Friday >&2; exit 2", 0);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!rig_has_file(rig, "made"));
    CHECK(has(rig_turn(rig)->json, "\"permission_denials\":[{\"tool_name\":\"bash\",\"reason\":"
                                   "\"refused by a hook: not on a Friday\"}]"));
    CHECK(has(rig_export(rig, "rig"), "Not permitted: refused by a hook: not on a Friday"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 0);
    bl_hooks_free(hooks);
}

RIG(hook_is_chosen_by_tool_pattern, TOUCH)
{
    struct bl_hooks *hooks = hooks_of(rig);

    bl_hooks_add(hooks, BL_HOOK_BEFORE_TOOL, "w*", "exit 2", 0);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK(rig_has_file(rig, "made"));
    bl_hooks_free(hooks);
}

RIG(other_failures_are_a_warning_and_change_nothing, TOUCH)
{
    struct bl_hooks *hooks = hooks_of(rig);

    bl_hooks_add(hooks, BL_HOOK_BEFORE_TOOL, "bash", "echo hm >&2; exit 3", 0);
    bl_hooks_add(hooks, BL_HOOK_AFTER_TOOL, "bash", "kill -9 $$", 0);
    bl_hooks_add(hooks, BL_HOOK_TURN_START, NULL, "exit 2", 0);
    bl_hooks_add(hooks, BL_HOOK_TURN_END, NULL, "/nowhere/at/all", 0);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(rig_has_file(rig, "made"));
    /* In the stream, numbered with the other events (the rig checks that), and in the file. */
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 4);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"warning\"", "exit code 3: hm"), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"warning\"", "killed by SIGKILL"), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"warning\"", "exit code 2"), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"warning\"", "/nowhere/at/all"), 1);
    struct bl_text exported = rig_export(rig, "rig");
    CHECK(has(exported, "exit code 3: hm") && has(exported, "hook '/nowhere/at/all'"));
    bl_hooks_free(hooks);
}

static const char *text_of(struct rig *rig, const char *file, const char *pointer)
{
    const struct bl_json *value = rig_json(rig, rig_file(rig, file));
    const char *text = bl_json_text(bl_json_pointer(value, bl_text_from(pointer))).data;

    return text != NULL ? text : "";
}

RIG(each_gets_the_event_as_json_on_standard_input, TOUCH)
{
    struct bl_hooks *hooks = hooks_of(rig);

    bl_hooks_add(hooks, BL_HOOK_BEFORE_TOOL, NULL, "cat > before", 0);
    bl_hooks_add(hooks, BL_HOOK_AFTER_TOOL, NULL, "cat > after", 0);
    bl_hooks_add(hooks, BL_HOOK_TURN_START, NULL, "cat > start", 0);
    bl_hooks_add(hooks, BL_HOOK_TURN_END, NULL, "cat > end", 0);
    bl_hooks_add(hooks, BL_HOOK_STOP, NULL, "cat > stop", 0);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "start", "/type"), "turn_started"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "start", "/prompt"), "go"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "before", "/type"), "tool_requested"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "before", "/input/command"), "touch made"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "before", "/session"), "rig"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "before", "/turn"), rig_turn(rig)->turn_id), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "after", "/type"), "tool_ended"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "after", "/status"), "ok"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "end", "/type"), "turn_ended"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "end", "/result/stop_reason"), "completed"), 0);
    CHECK(!rig_has_file(rig, "stop"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 0);
    bl_hooks_free(hooks);
}

static void stop_at_text(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&rig->scope, BL_STOP_USER, "Esc");
}

RIG(hooks_of_a_stop_run_when_its_turn_is_durable_and_are_not_in_its_receipt,
    "replies:\n  - {say: one two, wedge: after_first_token}\n")
{
    struct bl_hooks *hooks = hooks_of(rig);

    bl_hooks_add(hooks, BL_HOOK_TURN_END, NULL, "cat > end", 0);
    bl_hooks_add(hooks, BL_HOOK_STOP, NULL, "[ -e end ] && cat > stop; exit 7", 0);
    rig->on_event = stop_at_text;
    rig->options.limits.keep = true;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(strcmp(text_of(rig, "end", "/result/stop_reason"), "cancelled"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "stop", "/type"), "receipt"), 0);
    CHECK_EQUAL(strcmp(text_of(rig, "stop", "/receipt/origin"), "Esc"), 0);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"warning\"", "exit code 7"), 1);
    /* Turn and run have the same receipt, which lists only the model. */
    CHECK(bl_text_equal(rig->result.run.receipt, rig_turn(rig)->receipt));
    CHECK(!has(rig->result.run.receipt, "\"command\""));
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 1);
    bl_hooks_free(hooks);
}

static void stop_after_the_turn(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TURN_ENDED)
        bl_scope_stop(&rig->scope, BL_STOP_USER, "late");
}

RIG(hook_of_a_stop_after_the_turn_runs_too, "replies:\n  - say: one\n")
{
    struct bl_hooks *hooks = hooks_of(rig);

    bl_hooks_add(hooks, BL_HOOK_STOP, NULL, "cat > stop", 0);
    rig->on_event = stop_after_the_turn;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(strcmp(text_of(rig, "stop", "/receipt/origin"), "late"), 0);
    bl_hooks_free(hooks);
}

RIG(hook_that_hangs_ends_at_its_deadline, TOUCH)
{
    struct bl_hooks *hooks = hooks_of(rig);

    bl_hooks_add(hooks, BL_HOOK_BEFORE_TOOL, NULL, "sleep 60", 50 * MS);
    bl_hooks_add(hooks, BL_HOOK_TURN_END, NULL, "sleep 60", 50 * MS);
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(bl_now_ns() - from_ns < 20 * BL_NS_PER_S);
    CHECK(rig_has_file(rig, "made"));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"warning\"", "timed out after 50 ms"), 2);
    CHECK_EQUAL(rig_processes(rig), 0);
    bl_hooks_free(hooks);
}

/* Stops the run while the hook runs. */
static int stop_main(void *argument)
{
    struct rig *rig = argument;

    while (!rig_has_file(rig, "hooked"))
        if (bl_sleep(5 * MS) != 0)
            return 0;
    bl_scope_stop(&rig->scope, BL_STOP_USER, "test");
    return 0;
}

static void stop_in_hook(struct rig *rig, enum bl_hook_when when, enum bl_turn_end end)
{
    struct bl_hooks *hooks = hooks_of(rig);
    struct bl_nursery nursery;

    bl_hooks_add(hooks, when, NULL, "touch hooked; sleep 60", 0);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_main, rig, NULL);
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    bl_nursery_done(&nursery);
    CHECK(bl_now_ns() - from_ns < 9 * BL_NS_PER_S);
    CHECK_EQUAL(rig->result.run.end, end);
    CHECK_EQUAL(rig_processes(rig), 0);
    CHECK(has(rig->result.run.receipt, "\"kind\":\"command\""));
    CHECK(has(rig->result.run.receipt, "\"name\":\"hook\""));
    CHECK(has(rig->result.run.receipt, "\"survivors\":0"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 0);
    bl_hooks_free(hooks);
}

RIG(stop_ends_a_running_hook_before_a_tool, TOUCH)
{
    stop_in_hook(rig, BL_HOOK_BEFORE_TOOL, BL_TURN_CANCELLED);
    CHECK(!rig_has_file(rig, "made"));
}

RIG(stop_ends_a_running_hook_after_a_tool, TOUCH)
{
    stop_in_hook(rig, BL_HOOK_AFTER_TOOL, BL_TURN_CANCELLED);
}

RIG(stop_ends_a_running_hook_at_turn_start, TOUCH)
{
    stop_in_hook(rig, BL_HOOK_TURN_START, BL_TURN_CANCELLED);
}

RIG(stop_ends_a_running_hook_at_turn_end_and_the_turn_has_completed, TOUCH)
{
    stop_in_hook(rig, BL_HOOK_TURN_END, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_view(rig).turn_count, 1);
}

SUITE(hook,
      cmocka_unit_test(
          hook_before_a_tool_refuses_it_with_exit_2_and_its_standard_error_is_the_reason),
      cmocka_unit_test(hook_is_chosen_by_tool_pattern),
      cmocka_unit_test(other_failures_are_a_warning_and_change_nothing),
      cmocka_unit_test(each_gets_the_event_as_json_on_standard_input),
      cmocka_unit_test(hooks_of_a_stop_run_when_its_turn_is_durable_and_are_not_in_its_receipt),
      cmocka_unit_test(hook_of_a_stop_after_the_turn_runs_too),
      cmocka_unit_test(hook_that_hangs_ends_at_its_deadline),
      cmocka_unit_test(stop_ends_a_running_hook_before_a_tool),
      cmocka_unit_test(stop_ends_a_running_hook_after_a_tool),
      cmocka_unit_test(stop_ends_a_running_hook_at_turn_start),
      cmocka_unit_test(stop_ends_a_running_hook_at_turn_end_and_the_turn_has_completed));
