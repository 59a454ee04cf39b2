#include <signal.h>

#include <belay/record.h>

#include "fibers.h"

#define MS BL_NS_PER_MS

/* Registers a unit, waits, and ends it with the fate that fits the stop. */
struct work {
    enum bl_unit_kind kind;
    const char *id;
    uint64_t duration_ns;
    enum bl_fate fate_when_stopped;
    enum bl_mechanism mechanism;
};

static int work_main(void *argument)
{
    const struct work *work = argument;
    struct bl_unit unit;
    bl_unit_begin(&unit, work->kind, work->id, "");
    int code = bl_sleep(work->duration_ns);
    unit.mechanism = work->mechanism;
    if (work->mechanism != BL_MECHANISM_NONE) {
        unit.processes = 2;
        unit.signal = SIGKILL;
    }
    bl_unit_end(&unit, code == 0 ? BL_FATE_FINISHED : work->fate_when_stopped);
    return code;
}

static struct work works[] = {
    {BL_UNIT_MODEL, "early", 5 * MS, BL_FATE_ABORTED, BL_MECHANISM_NONE},
    {BL_UNIT_MODEL, "stream", 3600 * BL_NS_PER_S, BL_FATE_ABORTED, BL_MECHANISM_NONE},
    {BL_UNIT_TOOL, "call_1", 3600 * BL_NS_PER_S, BL_FATE_KILLED, BL_MECHANISM_PIDNS},
    {BL_UNIT_TOOL, "call_2", 3600 * BL_NS_PER_S, BL_FATE_KILLED, BL_MECHANISM_CGROUP2},
};

static void check_receipt(const struct bl_receipt *receipt)
{
    struct bl_buffer out;
    struct bl_json_writer writer;
    struct bl_arena arena = {0};
    const struct bl_json *value;
    int64_t number = -1;
    double ms = -1;
    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_receipt_write(receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    CHECK_EQUAL(bl_json_read(&arena, bl_buffer_text(&out), NULL, &value, NULL), 0);
    CHECK(bl_text_equal(bl_json_text(bl_json_pointer(value, BL_TEXT("/reason"))), BL_TEXT("user")));
    CHECK(bl_text_equal(bl_json_text(bl_json_pointer(value, BL_TEXT("/origin"))), BL_TEXT("test")));
    CHECK(bl_text_equal(bl_json_text(bl_json_pointer(value, BL_TEXT("/scope"))), BL_TEXT("run_1")));
    CHECK(bl_text_starts_with(bl_json_text(bl_json_get(value, BL_TEXT("id"))), BL_TEXT("rcp_")));
    /* The weakest container of units with processes. */
    CHECK(
        bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("mechanism"))), BL_TEXT("cgroup2")));
    CHECK(bl_json_int64(bl_json_get(value, BL_TEXT("survivors")), &number) && number == 0);
    CHECK(bl_json_double(bl_json_get(value, BL_TEXT("quiet_ms")), &ms) && ms == 0);
    CHECK(!bl_json_boolean(bl_json_get(value, BL_TEXT("cancel_observed")), true));
    /* Units that had ended before the stop are not in the receipt. */
    CHECK_EQUAL(bl_json_size(bl_json_get(value, BL_TEXT("units"))), 3);
    CHECK(bl_text_equal(bl_json_text(bl_json_pointer(value, BL_TEXT("/units/1/fate"))),
                        BL_TEXT("killed")));
    CHECK(bl_text_equal(bl_json_text(bl_json_pointer(value, BL_TEXT("/units/1/signal"))),
                        BL_TEXT("KILL")));
    bl_buffer_clear(&out);
    CHECK_EQUAL(bl_receipt_line(receipt, &out), 0);
    CHECK(bl_text_equal(bl_buffer_text(&out), BL_TEXT("Stopped in 0 s: 1 model call, 4 processes. "
                                                      "Nothing left running.")));
    bl_buffer_done(&out);
    bl_arena_done(&arena);
}

static int one_stop(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_receipt receipt;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_receipt_open(&receipt, &nursery.scope, "run_1");
    for (size_t i = 0; i < BL_COUNT(works); i++)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, works[i].id, work_main, &works[i], NULL), 0);
    CHECK_EQUAL(bl_sleep(50 * MS), 0);
    CHECK(!bl_receipt_ready(&receipt));
    CHECK(!bl_receipt_cancel_observed(&receipt));
    bl_scope_stop(&nursery.scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK(bl_receipt_ready(&receipt));
    check_receipt(&receipt);
    bl_receipt_close(&receipt);
    bl_nursery_done(&nursery);
    return 0;
}

static void a_receipt_contains_the_units_at_work_at_the_stop(void **state)
{
    (void)state;
    run_in_virtual_loop(0, one_stop, NULL);
}

static int at_work_after_the_stop(void *argument)
{
    (void)argument;
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_unit unit;
    bl_scope_init(&scope, bl_scope_current());
    bl_receipt_open(&receipt, &scope, "run_1");
    struct bl_scope *outer = bl_scope_enter(&scope);
    bl_unit_begin(&unit, BL_UNIT_TURN, "turn", NULL);
    bl_scope_enter(outer);
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_sleep(MS), 0);
    CHECK(bl_receipt_cancel_observed(&receipt));
    CHECK(!bl_receipt_ready(&receipt));
    bl_unit_end(&unit, BL_FATE_ABORTED);
    CHECK(bl_receipt_ready(&receipt));
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
    return 0;
}

static void a_receipt_is_not_ready_while_a_unit_is_at_work(void **state)
{
    (void)state;
    run_in_virtual_loop(0, at_work_after_the_stop, NULL);
}

static int nothing_at_work(void *argument)
{
    (void)argument;
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_buffer out;
    struct bl_unit unit;
    bl_buffer_init(&out, 4096);
    bl_scope_init(&scope, bl_scope_current());
    bl_receipt_open(&receipt, &scope, "run_2");
    /* A unit without a receipt above it is not recorded. */
    bl_unit_begin(&unit, BL_UNIT_TURN, "turn", NULL);
    CHECK(unit.receipt == NULL);
    bl_unit_end(&unit, BL_FATE_FINISHED);
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_sleep(MS), 0);
    CHECK(bl_receipt_ready(&receipt));
    CHECK(bl_receipt_cancel_observed(&receipt));
    CHECK_EQUAL(bl_receipt_line(&receipt, &out), 0);
    CHECK(bl_text_equal(bl_buffer_text(&out), BL_TEXT("Stopped in 0 s. Nothing left running.")));
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
    bl_buffer_done(&out);
    return 0;
}

static void a_stop_without_units_at_work_has_a_receipt(void **state)
{
    (void)state;
    run_in_virtual_loop(0, nothing_at_work, NULL);
}

/* A unit in its own receipt, inside another one. `inner`: the inner scope is stopped before the
 * outer one. */
static void nest(bool inner, enum bl_stop_reason reason, const char *line)
{
    struct bl_scope outer_scope, inner_scope;
    struct bl_receipt outer, own;
    struct bl_unit unit;
    struct bl_buffer out;
    bl_scope_init(&outer_scope, bl_scope_current());
    bl_scope_init(&inner_scope, &outer_scope);
    bl_receipt_open(&outer, &outer_scope, "run_3");
    bl_receipt_open(&own, &inner_scope, "call_1");
    struct bl_scope *before = bl_scope_enter(&inner_scope);
    bl_unit_begin(&unit, BL_UNIT_TOOL, "call_1", "bash");
    bl_scope_enter(before);
    bl_scope_stop(inner ? &inner_scope : &outer_scope, reason, "test");
    CHECK_EQUAL(bl_sleep(MS), 0);
    bl_unit_end(&unit, BL_FATE_ABORTED);
    CHECK(!bl_list_empty(&own.stopped) && own.stopped.next->next == &own.stopped);
    bl_scope_stop(&outer_scope, reason == BL_STOP_USER ? BL_STOP_TIMEOUT : BL_STOP_USER, "test");
    CHECK_EQUAL(bl_sleep(MS), 0);
    bl_receipt_close(&own);
    bl_buffer_init(&out, 4096);
    CHECK_EQUAL(bl_receipt_line(&outer, &out), 0);
    CHECK(bl_text_equal(bl_buffer_text(&out), bl_text_from(line)));
    bl_buffer_done(&out);
    bl_receipt_close(&outer);
    bl_scope_done(&inner_scope);
    bl_scope_done(&outer_scope);
}

static int nested_main(void *argument)
{
    (void)argument;
    nest(false, BL_STOP_USER, "Stopped in 1 ms: 1 tool. Nothing left running.");
    nest(false, BL_STOP_TIMEOUT, "Stopped in 1 ms: 1 tool. Nothing left running.");
    nest(true, BL_STOP_USER, "Stopped in 0 s. Nothing left running.");
    nest(true, BL_STOP_TIMEOUT, "Stopped in 0 s. Nothing left running.");
    return 0;
}

static void units_are_in_the_receipt_of_the_scope_where_the_stop_was_requested(void **state)
{
    (void)state;
    run_in_virtual_loop(0, nested_main, NULL);
}

/* ---- Agents and their units ------------------------------------------------------------------ */

/* An agent with its own scope and receipt, and one below it; at the bottom a tool. */
struct agent {
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_unit unit;
    struct bl_unit model;
};

static void agent_begin(struct agent *agent, const char *id)
{
    bl_unit_begin(&agent->unit, BL_UNIT_AGENT, id, "worker");
    bl_scope_init(&agent->scope, bl_scope_current());
    bl_receipt_open(&agent->receipt, &agent->scope, id);
    bl_scope_enter(&agent->scope);
    bl_unit_begin(&agent->model, BL_UNIT_MODEL, id, NULL);
}

static void agent_end(struct agent *agent, struct bl_scope *outer)
{
    bl_unit_end(&agent->model, BL_FATE_ABORTED);
    bl_scope_enter(outer);
    bl_receipt_fold(&agent->receipt, &agent->unit);
    bl_receipt_close(&agent->receipt);
    bl_scope_done(&agent->scope);
    bl_unit_end(&agent->unit, BL_FATE_ABORTED);
}

/* Two agents, one below the other, with a tool of the lower one; `stop` 0 stops the run, 1 and 2
 * the agents. */
struct tree {
    struct bl_scope run;
    struct bl_receipt receipt;
    struct agent upper, lower;
    struct bl_unit tool;
    bool then_run; /* the run is stopped too, before anything has ended */
};

static void write_background(void *context, struct bl_json_writer *writer)
{
    bl_json_write_string(writer, context);
}

static void tree_play(struct tree *tree, unsigned stop, enum bl_fate tool_fate, uint32_t survivors)
{
    struct bl_scope *scopes[] = {&tree->run, &tree->upper.scope, &tree->lower.scope};
    struct bl_scope *outer = bl_scope_current();

    bl_scope_init(&tree->run, outer);
    bl_receipt_open(&tree->receipt, &tree->run, "run_4");
    tree->receipt.background = write_background;
    tree->receipt.background_context = "job";
    bl_scope_enter(&tree->run);
    agent_begin(&tree->upper, "upper");
    agent_begin(&tree->lower, "lower");
    bl_unit_begin(&tree->tool, BL_UNIT_TOOL, "call_1", "bash");
    CHECK(!bl_receipt_elsewhere(&tree->lower.receipt));
    bl_scope_stop(scopes[stop], BL_STOP_USER, "test");
    bl_scope_enter(outer);
    CHECK_EQUAL(bl_sleep(MS), 0);
    CHECK_EQUAL(bl_receipt_elsewhere(&tree->lower.receipt), stop < 2);
    if (tree->then_run)
        bl_scope_stop(&tree->run, BL_STOP_USER, "test");
    tree->tool.mechanism = BL_MECHANISM_SUBREAPER;
    tree->tool.processes = 3;
    tree->tool.survivors = survivors;
    if (survivors == BL_SURVIVORS_UNKNOWN)
        bl_text_into(tree->tool.unverified, sizeof tree->tool.unverified, "no proof");
    bl_unit_end(&tree->tool, tool_fate);
    agent_end(&tree->lower, &tree->upper.scope);
    agent_end(&tree->upper, &tree->run);
    bl_scope_enter(outer);
}

static void tree_done(struct tree *tree)
{
    bl_receipt_close(&tree->receipt);
    bl_scope_done(&tree->run);
}

static struct bl_text receipt_text(struct bl_arena *arena, const struct bl_receipt *receipt,
                                   const struct bl_json **ret_value)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_receipt_write(receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    CHECK_EQUAL(bl_json_read(arena, bl_buffer_text(&out), NULL, ret_value, NULL), 0);
    bl_buffer_clear(&out);
    CHECK_EQUAL(bl_receipt_line(receipt, &out), 0);
    struct bl_text line = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return line;
}

static bool says(const struct bl_json *value, const char *pointer, const char *text)
{
    return bl_text_equal(bl_json_text(bl_json_pointer(value, bl_text_from(pointer))),
                         bl_text_from(text));
}

static int folded_main(void *argument BL_UNUSED)
{
    struct tree *tree = bl_zalloc(sizeof *tree);
    struct bl_arena arena = {0};
    const struct bl_json *value;

    tree_play(tree, 0, BL_FATE_KILLED, 0);
    CHECK(bl_receipt_ready(&tree->receipt));
    struct bl_text line = receipt_text(&arena, &tree->receipt, &value);
    CHECK_EQUAL(bl_json_size(bl_json_get(value, BL_TEXT("units"))), 1);
    CHECK(says(value, "/units/0/kind", "agent") && says(value, "/units/0/id", "upper"));
    CHECK_EQUAL(bl_json_size(bl_json_pointer(value, BL_TEXT("/units/0/units"))), 2);
    CHECK(says(value, "/units/0/units/0/id", "lower"));
    CHECK(says(value, "/units/0/units/0/units/0/id", "call_1"));
    CHECK(says(value, "/units/0/units/0/units/0/fate", "killed"));
    CHECK(says(value, "/units/0/units/0/units/1/kind", "model"));
    CHECK(says(value, "/units/0/units/1/kind", "model"));
    /* Nested units count. */
    CHECK(says(value, "/mechanism", "subreaper"));
    CHECK(!bl_json_boolean(bl_json_get(value, BL_TEXT("cancel_observed")), true));
    CHECK(!bl_receipt_cancel_observed(&tree->receipt));
    CHECK_EQUAL(bl_receipt_survivors(&tree->receipt), 0);
    CHECK(says(value, "/background/0", "job"));
    CHECK(bl_text_equal(line, BL_TEXT("Stopped in 1 ms: 2 model calls, 2 agents, 3 processes. "
                                      "Nothing left running.")));
    tree_done(tree);
    tree_play(tree, 0, BL_FATE_ABORTED, 2);
    CHECK(bl_receipt_cancel_observed(&tree->receipt));
    CHECK_EQUAL(bl_receipt_survivors(&tree->receipt), 2);
    line = receipt_text(&arena, &tree->receipt, &value);
    CHECK(bl_text_ends_with(line, BL_TEXT("Still running: 2 processes.")));
    tree_done(tree);
    bl_arena_done(&arena);
    bl_free(tree);
    return 0;
}

static void units_of_an_agent_are_nested_in_the_receipt_and_count(void **state BL_UNUSED)
{
    run_in_virtual_loop(0, folded_main, NULL);
}

static int stopped_alone_main(void *argument BL_UNUSED)
{
    struct tree *tree = bl_zalloc(sizeof *tree);

    for (unsigned stop = 1; stop <= 2; stop++) {
        tree_play(tree, stop, BL_FATE_ABORTED, 0);
        CHECK(!bl_scope_stopped(&tree->run));
        CHECK(bl_list_empty(&tree->receipt.stopped));
        CHECK(bl_list_empty(&tree->receipt.live));
        tree_done(tree);
    }
    bl_free(tree);
    return 0;
}

static void agent_that_is_stopped_alone_leaves_nothing_in_the_receipt_above(void **state BL_UNUSED)
{
    run_in_virtual_loop(0, stopped_alone_main, NULL);
}

/* The run is stopped while the stop of an agent is in progress: its receipt lists the survivors of
 * that stop. */
static int stopped_alone_first_main(void *argument BL_UNUSED)
{
    struct tree *tree = bl_zalloc(sizeof *tree);
    struct bl_arena arena = {0};
    const struct bl_json *value;

    for (unsigned stop = 1; stop <= 2; stop++) {
        tree->then_run = true;
        tree_play(tree, stop, BL_FATE_UNKNOWN, 2);
        CHECK_EQUAL(bl_receipt_survivors(&tree->receipt), 2);
        tree_done(tree);
        tree_play(tree, stop, BL_FATE_UNKNOWN, BL_SURVIVORS_UNKNOWN);
        receipt_text(&arena, &tree->receipt, &value);
        CHECK(says(value, "/unverified", "no proof"));
        tree_done(tree);
    }
    bl_arena_done(&arena);
    bl_free(tree);
    return 0;
}

static void survivors_of_an_agent_that_was_stopped_alone_are_in_the_receipt_above(
    void **state BL_UNUSED)
{
    run_in_virtual_loop(0, stopped_alone_first_main, NULL);
}

/* No unit represents a call in the receipt above, only those of its units that have survivors. */
static int call_stopped_first_main(void *argument BL_UNUSED)
{
    struct bl_scope run, call, *outer = bl_scope_current();
    struct bl_receipt receipt, call_receipt;
    struct bl_unit left, ended;
    struct bl_arena arena = {0};
    const struct bl_json *value;

    bl_scope_init(&run, outer);
    bl_receipt_open(&receipt, &run, "run_5");
    bl_scope_init(&call, &run);
    bl_receipt_open(&call_receipt, &call, "call_1");
    bl_scope_enter(&call);
    bl_unit_begin(&left, BL_UNIT_COMMAND, "left", NULL);
    bl_unit_begin(&ended, BL_UNIT_COMMAND, "ended", NULL);
    bl_scope_stop(&call, BL_STOP_USER, "test");
    bl_scope_stop(&run, BL_STOP_USER, "test");
    bl_scope_enter(outer);
    CHECK_EQUAL(bl_sleep(MS), 0);
    bl_unit_end(&ended, BL_FATE_ABORTED);
    CHECK_EQUAL(bl_sleep(MS), 0);
    left.survivors = 1;
    bl_unit_end(&left, BL_FATE_UNKNOWN);
    bl_receipt_close(&call_receipt);
    bl_scope_done(&call);
    struct bl_text line = receipt_text(&arena, &receipt, &value);
    CHECK_EQUAL(bl_json_size(bl_json_get(value, BL_TEXT("units"))), 1);
    CHECK(says(value, "/units/0/id", "left"));
    CHECK(!bl_receipt_cancel_observed(&receipt));
    CHECK(bl_text_equal(line, BL_TEXT("Stopped in 2 ms: 1 command. Still running: 1 process.")));
    bl_receipt_close(&receipt);
    bl_scope_done(&run);
    bl_arena_done(&arena);
    return 0;
}

static void survivors_of_a_call_that_was_stopped_alone_are_in_the_receipt_above(
    void **state BL_UNUSED)
{
    run_in_virtual_loop(0, call_stopped_first_main, NULL);
}

static int unverified_main(void *argument)
{
    static const struct {
        uint32_t survivors[2];
        const char *reasons[2]; /* of the unknown numbers */
        const char *line;
        const char *json;
    } cases[] = {
        {{0, 0}, {"", ""}, "Nothing left running.", "\"survivors\":0,"},
        {{1, 0}, {"", ""}, "Still running: 1 process.", "\"survivors\":1,"},
        {{1, 2}, {"", ""}, "Still running: 3 processes.", "\"survivors\":3,"},
        {{BL_SURVIVORS_UNKNOWN, 0},
         {"why", ""},
         "Could not verify: why.",
         "\"survivors\":null,\"unverified\":\"why\","},
        {{2, BL_SURVIVORS_UNKNOWN},
         {"", "why"},
         "Could not verify: why.",
         "\"survivors\":null,\"unverified\":\"why\","},
        /* The first reason is reported. */
        {{BL_SURVIVORS_UNKNOWN, BL_SURVIVORS_UNKNOWN},
         {"first", "second"},
         "Could not verify: first.",
         "\"survivors\":null,\"unverified\":\"first\","},
        {{0, BL_SURVIVORS_UNKNOWN},
         {"", ""},
         "Could not verify: reason unknown.",
         "\"survivors\":null,\"unverified\":\"reason unknown\","},
    };
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_scope scope, *outer = bl_scope_current();
        struct bl_receipt receipt;
        struct bl_unit units[2];
        struct bl_buffer out;
        struct bl_json_writer writer;
        bl_scope_init(&scope, outer);
        bl_receipt_open(&receipt, &scope, "run_1");
        bl_scope_enter(&scope);
        for (size_t j = 0; j < 2; j++)
            bl_unit_begin(&units[j], BL_UNIT_TOOL, "call", NULL);
        bl_scope_enter(outer);
        bl_scope_stop(&scope, BL_STOP_USER, "test");
        for (size_t j = 0; j < 2; j++) {
            units[j].mechanism = BL_MECHANISM_SUBREAPER;
            units[j].survivors = cases[i].survivors[j];
            if (units[j].survivors == BL_SURVIVORS_UNKNOWN)
                bl_text_into(units[j].unverified, sizeof units[j].unverified, cases[i].reasons[j]);
            bl_unit_end(&units[j], BL_FATE_KILLED);
        }
        while (!bl_receipt_ready(&receipt) && bl_yield() == 0)
            continue;
        bl_buffer_init(&out, 65536);
        CHECK_EQUAL(bl_receipt_line(&receipt, &out), 0);
        bl_buffer_append_byte(&out, '\0');
        CHECK(strstr(out.data, cases[i].line) != NULL);
        bl_buffer_clear(&out);
        bl_json_writer_init(&writer, &out);
        bl_receipt_write(&receipt, &writer);
        bl_buffer_append_byte(&out, '\0');
        CHECK(strstr(out.data, cases[i].json) != NULL);
        bl_buffer_done(&out);
        bl_receipt_close(&receipt);
        bl_scope_done(&scope);
    }
    return 0;
}

static void a_receipt_never_claims_more_than_was_proved(void **state)
{
    (void)state;
    run_in_loop(unverified_main, NULL);
}

/* Reads a receipt; `line` is its text for people. */
static void take_receipt(struct bl_arena *arena, const char *json, struct bl_receipt_row *receipt,
                         struct bl_buffer *line)
{
    const struct bl_json *value;
    assert_int_equal(bl_json_read(arena, bl_text_from(json), NULL, &value, NULL), 0);
    bl_record_take(arena, &bl_receipt_record, value, receipt);
    bl_buffer_init(line, 4096);
    assert_int_equal(bl_receipt_row_line(receipt, line), 0);
    bl_buffer_append_byte(line, '\0');
}

/* In a document of another version or program, missing values are unknown. */
static void a_missing_number_is_unknown(void **state)
{
    static const struct {
        const char *json;
        uint32_t survivors;
    } cases[] = {{"{\"survivors\":0}", 0},
                 {"{\"survivors\":7}", 7},
                 {"{\"survivors\":null}", BL_SURVIVORS_UNKNOWN},
                 {"{\"survivors\":-1}", BL_SURVIVORS_UNKNOWN},
                 {"{\"survivors\":\"0\"}", BL_SURVIVORS_UNKNOWN},
                 {"{\"survivors\":4294967296}", BL_SURVIVORS_UNKNOWN},
                 {"{\"units\":[{\"kind\":\"tool\",\"survivors\":0}]}", BL_SURVIVORS_UNKNOWN},
                 {"[]", BL_SURVIVORS_UNKNOWN},
                 {"{}", BL_SURVIVORS_UNKNOWN}};
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct bl_receipt_row receipt;
        struct bl_buffer line;
        take_receipt(&arena, cases[i].json, &receipt, &line);
        assert_int_equal(receipt.survivors, cases[i].survivors);
        assert_int_equal(strstr(line.data, "Nothing left running.") != NULL,
                         cases[i].survivors == 0);
        bl_buffer_done(&line);
        bl_arena_done(&arena);
    }
    assert_int_equal(bl_survivors_add(3, 4), 7);
    assert_int_equal(bl_survivors_add(BL_SURVIVORS_UNKNOWN, 4), BL_SURVIVORS_UNKNOWN);
    assert_int_equal(bl_survivors_add(4, BL_SURVIVORS_UNKNOWN), BL_SURVIVORS_UNKNOWN);
}

/* From a receipt of a newer belay, and from a damaged one, only the valid parts are reported. */
static void a_damaged_receipt_is_read_as_far_as_possible(void **state BL_UNUSED)
{
    static const struct {
        const char *json;
        const char *line;
    } cases[] = {
        {"{\"quiet_ms\":206.04,\"survivors\":0,\"units\":[{\"kind\":\"model\"},"
         "{\"kind\":\"agent\",\"units\":[{\"kind\":\"tool\",\"processes\":4},"
         "{\"kind\":\"model\"}]}]}",
         "Stopped in 206 ms: 2 model calls, 1 agent, 4 processes. Nothing left running."},
        {"{\"quiet_ms\":0.0,\"survivors\":2}",
         "Stopped in less than 0.1 ms. Still running: 2 processes."},
        {"{\"survivors\":null,\"unverified\":\"no warden\",\"units\":[{\"kind\":\"robot\"},7,"
         "{\"kind\":\"task\",\"fate\":\"paused\",\"ms\":\"soon\",\"newer\":1}]}",
         "Stopped: 1 task. Could not verify: no warden."},
        {"{\"quiet_ms\":-4,\"units\":3}", "Stopped. Could not verify: reason unknown."},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct bl_receipt_row receipt;
        struct bl_buffer line;
        take_receipt(&arena, cases[i].json, &receipt, &line);
        assert_string_equal(line.data, cases[i].line);
        bl_buffer_done(&line);
        bl_arena_done(&arena);
    }
}

/* Every member, byte for byte, in virtual time. The id, which differs from run to run, is blanked.
 */
static const char whole_receipt[] =
    "{\"id\":\"rcp_\",\"scope\":\"run_4\",\"reason\":\"user\",\"origin\":\"test\","
    "\"requested_at\":\"2023-11-14T22:13:20.002Z\",\"observed_ms\":0.0,\"quiet_ms\":1.5,"
    "\"mechanism\":\"subreaper\","
    "\"cancel_observed\":false,\"survivors\":null,\"unverified\":\"not checked\","
    "\"background\":[\"job\"],\"units\":["
    "{\"kind\":\"tool\",\"id\":\"call_1\",\"name\":\"bash\",\"fate\":\"killed\",\"ms\":1.5,"
    "\"processes\":3,\"survivors\":1,\"signal\":\"KILL\"},"
    "{\"kind\":\"command\",\"id\":\"call_2\",\"fate\":\"unknown\",\"ms\":1.5,"
    "\"processes\":1,\"survivors\":null,\"unverified\":\"not checked\",\"signal\":\"40\","
    "\"detail\":\"its warden was killed\"}]}";

static void blank_after(char *text, const char *key)
{
    char *from = strstr(text, key) + strlen(key), *to = strchr(from, '"');
    memmove(from, to, strlen(to) + 1);
}

static int whole_main(void *argument)
{
    struct bl_buffer *out = argument;
    struct bl_json_writer writer;
    struct bl_scope scope, *outer = bl_scope_current();
    struct bl_receipt receipt;
    struct bl_unit tool, command;

    CHECK_EQUAL(bl_sleep(2 * MS), 0);
    bl_scope_init(&scope, outer);
    bl_receipt_open(&receipt, &scope, "run_4");
    receipt.background = write_background;
    receipt.background_context = "job";
    bl_scope_enter(&scope);
    bl_unit_begin(&tool, BL_UNIT_TOOL, "call_1", "bash");
    bl_unit_begin(&command, BL_UNIT_COMMAND, "call_2", NULL);
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    bl_scope_enter(outer);
    CHECK_EQUAL(bl_sleep(3 * MS / 2), 0);
    tool.mechanism = BL_MECHANISM_SUBREAPER;
    tool.processes = 3;
    tool.survivors = 1;
    tool.signal = SIGKILL;
    bl_unit_end(&tool, BL_FATE_KILLED);
    command.mechanism = BL_MECHANISM_PIDNS;
    command.processes = 1;
    command.survivors = BL_SURVIVORS_UNKNOWN;
    command.signal = 40; /* without a name */
    bl_text_into(command.unverified, sizeof command.unverified, "not checked");
    bl_text_into(command.detail, sizeof command.detail, "its warden was killed");
    bl_unit_end(&command, BL_FATE_UNKNOWN);
    bl_json_writer_init(&writer, out);
    bl_receipt_write(&receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
    return 0;
}

static void a_receipt_has_every_member(void **state)
{
    struct bl_buffer out;
    (void)state;
    bl_buffer_init(&out, 65536);
    run_in_virtual_loop(0, whole_main, &out);
    bl_buffer_append_byte(&out, '\0');
    blank_after(out.data, "\"rcp_");
    assert_string_equal(out.data, whole_receipt);
    bl_buffer_done(&out);
}

/* The loop observes the stop 3 ms late, long after the only unit has ended. */
static int late_loop_main(void *argument BL_UNUSED)
{
    struct bl_scope scope, *outer = bl_scope_current();
    struct bl_receipt receipt;
    struct bl_unit unit;
    struct bl_arena arena = {0};
    const struct bl_json *value;
    double observed_ms = -1, quiet_ms = -1, unit_ms = -1;
    char before[32], after[32];
    const struct bl_clock *clock = bl_loop_clock(bl_loop_current());

    bl_scope_init(&scope, outer);
    bl_receipt_open(&receipt, &scope, "run_5");
    bl_scope_enter(&scope);
    bl_unit_begin(&unit, BL_UNIT_TOOL, "call_1", NULL);
    bl_scope_enter(outer);
    uint64_t start_ns = bl_now_ns();
    bl_time_format(bl_clock_wall_ns(clock) - (int64_t)(2 * MS), before);
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    bl_time_format(bl_clock_wall_ns(clock) + (int64_t)(2 * MS), after);
    unit.mechanism = BL_MECHANISM_SUBREAPER;
    unit.processes = 1;
    bl_unit_end(&unit, BL_FATE_KILLED);
    double ended_ms = (double)(bl_now_ns() - start_ns) / 1e6;
    while (bl_now_ns() - start_ns < 3 * MS)
        CHECK(!bl_receipt_ready(&receipt));
    CHECK_EQUAL(bl_sleep(1), 0);
    CHECK(bl_receipt_ready(&receipt));
    double took_ms = (double)(bl_now_ns() - start_ns) / 1e6;
    struct bl_text line = receipt_text(&arena, &receipt, &value);
    CHECK(bl_json_double(bl_json_get(value, BL_TEXT("observed_ms")), &observed_ms));
    CHECK(bl_json_double(bl_json_get(value, BL_TEXT("quiet_ms")), &quiet_ms));
    CHECK(bl_json_double(bl_json_pointer(value, BL_TEXT("/units/0/ms")), &unit_ms));
    /* Within a tenth; the stop itself came slightly after the start. */
    CHECK(observed_ms <= took_ms + 0.1 && observed_ms >= 3 - ended_ms - 0.1);
    CHECK(quiet_ms <= ended_ms + 0.1 && unit_ms == quiet_ms);
    struct bl_text requested_at = bl_json_text(bl_json_get(value, BL_TEXT("requested_at")));
    CHECK_EQUAL(requested_at.size, strlen(before));
    CHECK(memcmp(before, requested_at.data, requested_at.size) <= 0);
    CHECK(memcmp(requested_at.data, after, requested_at.size) <= 0);
    CHECK(bl_text_ends_with(line, BL_TEXT(": 1 process. Nothing left running.")));
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
    bl_arena_done(&arena);
    return 0;
}

static void a_receipt_has_the_times_of_request_observation_and_end(void **state BL_UNUSED)
{
    run_in_loop(late_loop_main, NULL);
}

#define COUNT_ONE(name, text) +1

/* A number of another version, or a damaged one. */
static void a_name_that_is_not_in_the_table_is_unknown(void **state BL_UNUSED)
{
    assert_string_equal(bl_unit_kind_name(0 BL_UNIT_KIND_TABLE(COUNT_ONE)), "unknown");
    assert_string_equal(bl_unit_kind_noun(0 BL_UNIT_KIND_TABLE(COUNT_ONE), true), "unknown");
    assert_string_equal(bl_fate_name(0 BL_FATE_TABLE(COUNT_ONE)), "unknown");
    assert_string_equal(bl_mechanism_name(0 BL_MECHANISM_TABLE(COUNT_ONE)), "unknown");
    assert_string_equal(bl_stop_reason_name(0 BL_STOP_REASON_TABLE(COUNT_ONE)), "unknown");
}

SUITE(receipt, cmocka_unit_test(a_receipt_has_every_member),
      cmocka_unit_test(a_receipt_has_the_times_of_request_observation_and_end),
      cmocka_unit_test(a_name_that_is_not_in_the_table_is_unknown),
      cmocka_unit_test(a_receipt_never_claims_more_than_was_proved),
      cmocka_unit_test(a_missing_number_is_unknown),
      cmocka_unit_test(a_damaged_receipt_is_read_as_far_as_possible),
      cmocka_unit_test(a_receipt_contains_the_units_at_work_at_the_stop),
      cmocka_unit_test(a_receipt_is_not_ready_while_a_unit_is_at_work),
      cmocka_unit_test(a_stop_without_units_at_work_has_a_receipt),
      cmocka_unit_test(units_are_in_the_receipt_of_the_scope_where_the_stop_was_requested),
      cmocka_unit_test(units_of_an_agent_are_nested_in_the_receipt_and_count),
      cmocka_unit_test(agent_that_is_stopped_alone_leaves_nothing_in_the_receipt_above),
      cmocka_unit_test(survivors_of_an_agent_that_was_stopped_alone_are_in_the_receipt_above),
      cmocka_unit_test(survivors_of_a_call_that_was_stopped_alone_are_in_the_receipt_above));
