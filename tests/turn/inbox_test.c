/* Messages injected during a turn: delivered once, or given back, at any timing. */
#include "stage.h"

#include <stdio.h>

static struct bl_run_options run_of(uint64_t max_turns)
{
    return (struct bl_run_options){
        .run_id = "run_stage", .prompt = BL_TEXT("go"), .max_turns = max_turns};
}

static struct bl_inbox *open_inbox(struct stage *stage)
{
    struct bl_inbox *inbox = bl_arena_zalloc(&stage->arena, sizeof *inbox);

    bl_inbox_init(inbox);
    stage->engine.inbox = inbox;
    return inbox;
}

static bool is(struct bl_text text, const char *string)
{
    return bl_text_equal(text, bl_text_from(string));
}

static void say(struct stage *stage, const char *text)
{
    char id[BL_ID_SIZE];

    CHECK_EQUAL(bl_inbox_put(stage->engine.inbox, bl_text_from(text), id), 0);
    CHECK(strncmp(id, "msg_", 4) == 0);
}

static void say_two_while_a_tool_runs(struct stage *stage, const struct bl_event *event)
{
    if (event->type != BL_EVENT_TOOL_STARTED || stage_told(stage, BL_EVENT_TOOL_STARTED) != 1)
        return;
    say(stage, "the first");
    say(stage, "the second");
}

static void say_one_while_it_speaks(struct stage *stage, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA && stage_told(stage, BL_EVENT_TEXT_DELTA) == 1)
        say(stage, "and then?");
}

SCENE(message_is_delivered_after_the_next_tool_results)
{
    struct bl_inbox *inbox = open_inbox(stage);

    stage->on_event = say_two_while_a_tool_runs;
    stage_line(stage, (struct line){.tool = "work", .calls = 2});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK(has(bl_text_from(stage->turns[0].messages),
              "\"is_error\":false},{\"type\":\"text\",\"text\":\"the first\"},"
              "{\"type\":\"text\",\"text\":\"the second\"}]}"));
    check_valid(stage, stage->turns[0].messages);
    CHECK_EQUAL(strcmp(stage->newest_text, "the second"), 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_MESSAGE_INJECTED), 2);
    CHECK(bl_list_empty(&inbox->waiting));
    return 0;
}

SCENE(message_after_the_turn_is_the_next_prompt_and_counts_as_a_turn)
{
    struct bl_run_options options = run_of(2);
    struct bl_run_result result;

    open_inbox(stage);
    options.continues = true;
    options.continuation = BL_TEXT("go on");
    stage->on_event = say_one_while_it_speaks;
    stage_line(stage, (struct line){.say = "one"});
    stage_line(stage, (struct line){.say = "two"});
    stage_line(stage, (struct line){.say = "never"});
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &result);
    CHECK_EQUAL(result.turns_completed, 2);
    CHECK_EQUAL(stage->requests, 2);
    CHECK(has(bl_text_from(stage->turns[1].result), "\"prompt\":\"and then?\""));
    CHECK(!result.undelivered);
    return 0;
}

SCENE(without_a_continuation_message_is_the_next_prompt_up_to_max_turns)
{
    struct bl_run_options options = run_of(1);
    struct bl_run_result result;
    struct bl_inbox *inbox = open_inbox(stage);

    stage->on_event = say_one_while_it_speaks;
    stage_line(stage, (struct line){.say = "one"});
    stage_line(stage, (struct line){.say = "two"});
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &result);
    CHECK_EQUAL(result.turns_completed, 1);
    CHECK(result.undelivered);
    CHECK(is(bl_inbox_take_all(inbox, &stage->arena), "and then?"));
    return 0;
}

static void cancel_then_say(struct stage *stage, const struct bl_event *event)
{
    if (event->type != BL_EVENT_TOOL_STARTED)
        return;
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
    say(stage, "no, go on");
}

SCENE(cancel_then_inject_stays_cancelled)
{
    struct bl_run_options options = run_of(8);
    struct bl_run_result result;
    struct bl_inbox *inbox = open_inbox(stage);

    stage->tool_ns = 10 * MS;
    stage->on_event = cancel_then_say;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "never"});
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &result);
    CHECK_EQUAL(result.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(stage->requests, 1);
    CHECK_EQUAL(stage->turn_count, 0);
    CHECK(result.undelivered);
    CHECK(is(bl_inbox_take_all(inbox, &stage->arena), "no, go on"));
    return 0;
}

SCENE(message_resets_neither_budget_nor_step_limit)
{
    open_inbox(stage);
    stage->on_event = say_two_while_a_tool_runs;
    stage->engine.limits.max_budget_tokens = 10;
    stage->estimate = 4;
    stage_line(stage, (struct line){.tool = "work", .input_tokens = 7});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(stage->requests, 1);
    bl_turn_limits_init(&stage->engine.limits);
    stage->engine.limits.max_steps = 1;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.tool = "work"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_STEPS);
    CHECK_EQUAL(stage->tool_calls, 2);
    CHECK(is(bl_inbox_take_all(stage->engine.inbox, &stage->arena), "the first\n\nthe second"));
    return 0;
}

static void say_and_refuse(struct stage *stage)
{
    say(stage, "the last");
    stage->commit_code = BL_ENOSPC;
}

SCENE(rejected_turn_gives_back_its_messages_in_order)
{
    struct bl_inbox *inbox = open_inbox(stage);

    stage->on_event = say_two_while_a_tool_runs;
    stage->on_commit = say_and_refuse;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_ERROR);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_MESSAGE_INJECTED), 2);
    CHECK(is(bl_inbox_take_all(inbox, &stage->arena), "the first\n\nthe second\n\nthe last"));
    return 0;
}

static void stop_at_the_second_answer(struct stage *stage, const struct bl_event *event)
{
    say_two_while_a_tool_runs(stage, event);
    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(interrupted_turn_that_is_kept_has_delivered_its_messages)
{
    struct bl_inbox *inbox = open_inbox(stage);

    stage->engine.limits.keep = true;
    stage->on_event = stop_at_the_second_answer;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "one two three", .delay_ns = MS});
    CHECK(stage_turn(stage, "go")->interrupted);
    CHECK(has(bl_text_from(stage->turns[0].messages), "the second"));
    check_valid(stage, stage->turns[0].messages);
    CHECK(bl_list_empty(&inbox->waiting));
    return 0;
}

static void say_and_stop_late(struct stage *stage)
{
    say(stage, "and then?");
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(message_whose_turn_was_stopped_at_entry_is_given_back)
{
    struct bl_run_options options = run_of(8);
    struct bl_run_result result;
    struct bl_inbox *inbox = open_inbox(stage);

    stage->on_commit = say_and_stop_late;
    stage_line(stage, (struct line){.say = "one"});
    stage_line(stage, (struct line){.say = "never"});
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &result);
    CHECK_EQUAL(result.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(result.turns_completed, 1);
    CHECK_EQUAL(stage->requests, 1);
    CHECK(result.undelivered);
    CHECK(is(bl_inbox_take_all(inbox, &stage->arena), "and then?"));
    return 0;
}

static void say_before_and_in_the_next_turn(struct stage *stage, const struct bl_event *event)
{
    say_one_while_it_speaks(stage, event);
    if (event->type == BL_EVENT_TOOL_STARTED)
        say(stage, "more");
}

SCENE(prompt_from_a_message_is_given_back_before_later_messages)
{
    struct bl_run_options options = run_of(8);
    struct bl_run_result result;
    struct bl_inbox *inbox = open_inbox(stage);

    stage->on_event = say_before_and_in_the_next_turn;
    stage_line(stage, (struct line){.say = "one"});
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER});
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &result);
    CHECK_EQUAL(result.end, BL_TURN_ERROR);
    CHECK_EQUAL(stage->turn_count, 1);
    CHECK(is(bl_inbox_take_all(inbox, &stage->arena), "and then?\n\nmore"));
    return 0;
}

SCENE(closed_inbox_refuses_messages)
{
    struct bl_inbox *inbox = open_inbox(stage);

    say(stage, "left");
    inbox->closed = true;
    CHECK_EQUAL(bl_inbox_put(inbox, BL_TEXT("late"), NULL), BL_ECLOSED);
    bl_inbox_done(inbox);
    CHECK(bl_list_empty(&inbox->waiting));
    return 0;
}

SCENE(message_has_16_MiB_at_most)
{
    struct bl_inbox *inbox = open_inbox(stage);
    struct bl_text text = {bl_zalloc(BL_PROMPT_SIZE_MAX + 1), BL_PROMPT_SIZE_MAX + 1};

    CHECK_EQUAL(bl_inbox_put(inbox, text, NULL), BL_ELIMIT);
    CHECK(bl_list_empty(&inbox->waiting));
    text.size--;
    CHECK_EQUAL(bl_inbox_put(inbox, text, NULL), 0);
    CHECK(!bl_list_empty(&inbox->waiting));
    bl_inbox_done(inbox);
    bl_free((char *)(uintptr_t)text.data);
    return 0;
}

/* ---- Random timing --------------------------------------------------------------------------- */

#define INJECTORS    3u
#define MESSAGES_MAX 64u

static struct bl_random chance;

static bool one_in(uint64_t n)
{
    return bl_random_below(&chance, n) == 0;
}

struct crowd {
    struct stage *stage;
    struct bl_inbox inbox;
    struct bl_nursery nursery;
    unsigned said;                /* messages so far: they are numbered from 0 */
    unsigned found[MESSAGES_MAX]; /* how often each was found */
    unsigned next;                /* the next number in the order of delivery */
};

static int injector_main(void *argument)
{
    struct crowd *crowd = argument;
    uint64_t count = bl_random_below(&chance, 5);

    for (uint64_t i = 0; i < count && crowd->said < MESSAGES_MAX; i++) {
        char text[32];
        if (bl_sleep(bl_random_below(&chance, 30 * MS)) != 0)
            return 0;
        snprintf(text, sizeof text, "<message %u>", crowd->said);
        if (bl_inbox_put(&crowd->inbox, bl_text_from(text), NULL) == 0)
            crowd->said++;
    }
    return 0;
}

static void random_lines(struct stage *stage)
{
    static const char *const tools[] = {"work", "read read", "work read", "nothing"};

    stage->line_count = stage->line_next = 0;
    while (stage->line_count < 10) {
        struct line line = {.say = one_in(4) ? NULL : "one two three",
                            .delay_ns = bl_random_below(&chance, 4) * MS,
                            .wedge = one_in(15)};
        if (!one_in(3))
            line.tool = tools[bl_random_below(&chance, BL_COUNT(tools))];
        if (line.say == NULL && line.tool == NULL)
            line.say = "ok";
        if (one_in(15)) {
            line.fail = BL_EIO;
            line.fail_kind = BL_KIND_PROVIDER;
        }
        stage_line(stage, line);
    }
}

static void random_weather(struct stage *stage)
{
    struct bl_turn_limits *limits = &stage->engine.limits;

    stage->tool_ns = bl_random_below(&chance, 10) * MS;
    stage->store_ns = one_in(2) ? bl_random_below(&chance, 10) * MS : 0;
    stage->tool_fails = one_in(12);
    stage->commit_code = one_in(8) ? BL_ENOSPC : 0;
    stage->begin_code = one_in(20) ? BL_EIO : 0;
    limits->keep = one_in(2);
    limits->synthesize = one_in(2);
    limits->max_steps = one_in(4) ? bl_random_below(&chance, 4) : BL_UNLIMITED;
    limits->compact_after_turns = one_in(3) ? 1 + bl_random_below(&chance, 3) : BL_UNLIMITED;
}

/* Counts the messages in a text, which must have them in order. */
static void find_messages(struct crowd *crowd, struct bl_text text)
{
    struct bl_text part;

    bl_text_split(&text, '<', &part);
    while (bl_text_split(&text, '<', &part)) {
        struct bl_text number = {0};
        int64_t index = -1;
        if (!bl_text_starts_with(part, BL_TEXT("message ")))
            continue;
        part = (struct bl_text){part.data + 8, part.size - 8};
        bl_text_split(&part, '>', &number);
        if (CHECK_EQUAL(bl_text_to_int64(number, &index), 0) &&
            CHECK(index >= 0 && index < (int64_t)MESSAGES_MAX)) {
            crowd->found[index]++;
            CHECK_EQUAL(index, crowd->next++);
        }
    }
}

/* Each message is in exactly one place: in a committed turn, or given back. */
static void check_messages(struct crowd *crowd)
{
    struct stage *stage = crowd->stage;

    CHECK(stage->turn_count <= STAGE_TURNS_MAX);
    for (size_t i = 0; i < stage->turn_count; i++) {
        find_messages(crowd, bl_text_from(stage->turns[i].messages));
        check_valid(stage, stage->turns[i].messages);
    }
    find_messages(crowd, bl_inbox_take_all(&crowd->inbox, &stage->arena));
    for (unsigned i = 0; i < crowd->said; i++)
        CHECK_EQUAL(crowd->found[i], 1);
    CHECK_EQUAL(crowd->next, crowd->said);
}

/* Runs one loop, with a stop at a random moment: nothing else ends a wedge. */
static void one_loop(struct stage *stage)
{
    struct bl_run_options options = run_of(1 + bl_random_below(&chance, 4));
    struct bl_run_result result;
    struct stopper stopper;

    options.continues = one_in(2);
    options.continuation = BL_TEXT("on");
    random_lines(stage);
    random_weather(stage);
    stop_after(&stopper, stage, one_in(2) ? bl_random_below(&chance, 60 * MS) : BL_NS_PER_S,
               BL_STOP_USER);
    stage->last_seq = 0;
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &result);
    CHECK_EQUAL(result.undelivered, !bl_list_empty(&stage->engine.inbox->waiting));
    bl_nursery_done(&stopper.nursery);
    stage_rearm(stage);
}

static int crowd_main(void *argument)
{
    struct stage *stage = bl_alloc(sizeof *stage);
    struct crowd *crowd = bl_zalloc(sizeof *crowd);

    bl_random_seed(&chance, *(uint64_t *)argument);
    stage_init(stage);
    crowd->stage = stage;
    bl_inbox_init(&crowd->inbox);
    stage->engine.inbox = &crowd->inbox;
    bl_nursery_init(&crowd->nursery, bl_scope_current());
    for (unsigned i = 0; i < INJECTORS; i++)
        bl_nursery_spawn(&crowd->nursery, NULL, "injector", injector_main, crowd, NULL);
    for (uint64_t loops = 1 + bl_random_below(&chance, 3); loops > 0; loops--)
        one_loop(stage);
    bl_nursery_done(&crowd->nursery);
    unsigned said = crowd->said;
    check_messages(crowd);
    bl_inbox_done(&crowd->inbox);
    stage_done(stage);
    bl_free(crowd);
    bl_free(stage);
    return (int)said;
}

static void messages_are_delivered_exactly_once_at_any_timing(void **state BL_UNUSED)
{
    uint64_t seeds = suite_rounds(SUITE_SANITIZED ? 500 : 1000, 10000), said = 0;

    for (uint64_t seed = 1; seed <= seeds; seed++)
        said += (uint64_t)run_in_virtual_loop(seed, crowd_main, &seed);
    print_message("%lu interleavings, %lu messages\n", (unsigned long)seeds, (unsigned long)said);
    assert_true(said > seeds);
}

SUITE(inbox, cmocka_unit_test(message_is_delivered_after_the_next_tool_results),
      cmocka_unit_test(message_after_the_turn_is_the_next_prompt_and_counts_as_a_turn),
      cmocka_unit_test(without_a_continuation_message_is_the_next_prompt_up_to_max_turns),
      cmocka_unit_test(cancel_then_inject_stays_cancelled),
      cmocka_unit_test(message_resets_neither_budget_nor_step_limit),
      cmocka_unit_test(rejected_turn_gives_back_its_messages_in_order),
      cmocka_unit_test(interrupted_turn_that_is_kept_has_delivered_its_messages),
      cmocka_unit_test(message_whose_turn_was_stopped_at_entry_is_given_back),
      cmocka_unit_test(prompt_from_a_message_is_given_back_before_later_messages),
      cmocka_unit_test(closed_inbox_refuses_messages), cmocka_unit_test(message_has_16_MiB_at_most),
      cmocka_unit_test(messages_are_delivered_exactly_once_at_any_timing));
