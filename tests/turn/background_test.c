/* Nested calls that outlive their turn: between turns, across turn ends, and during commits. */
#include "house.h"

#include <stdio.h>
#include <stdlib.h>

#include "suite.h"

/* ---- Between turns, and across turn ends ----------------------------------------------------- */

static char seen_turn[BL_ID_SIZE]; /* of the last nested call, as its tool saw it at its end */

static int take_a_while(struct stage *stage, const struct bl_tool_call *call,
                        struct bl_tool_result *result, struct bl_error *error)
{
    if (!is_nested(call))
        return act(stage, call, result, error);
    CHECK(call->turn_scope == NULL);
    int code = bl_sleep(stage->tool_ns);
    bl_text_into(seen_turn, sizeof seen_turn, call->turn != NULL ? call->turn : "");
    CHECK(bl_budget_reserve(call->budget, 10));
    bl_budget_settle(call->budget, 10, 10);
    call->output(call, BL_TEXT("at last"));
    result->text = BL_TEXT("took a while");
    return code;
}

SCENE(between_turns_a_nested_call_is_journaled_and_belongs_to_no_turn)
{
    struct bl_tool_result result;

    stage->engine.standing = &stage->journal;
    stage->engine.limits.max_steps = 0;
    stage->on_call = take_a_while;
    stage->tool_ns = 5 * MS;
    snprintf(seen_turn, sizeof seen_turn, "none");
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{\"a\":1}", &result), BL_NESTED_OK);
    CHECK(has(result.text, "took a while"));
    CHECK_EQUAL(seen_turn[0], '\0');
    CHECK_EQUAL(stage->last_seq, 4);
    CHECK_EQUAL(stage->noted, 1);
    CHECK_EQUAL(written(stage, "\"turn\":null", "\"id\":\"c-a/1\""), 3);
    CHECK_EQUAL(written(stage, "tool_requested", "\"input\":{\"a\":1}"), 1);
    CHECK_EQUAL(written(stage, "\"ms\":5", "\"result\":\"took a while\""), 1);
    CHECK_EQUAL(stage->journal.pending.size, 0);
    /* It is not in the following turn either. */
    stage_line(stage, (struct line){.say = "ok"});
    CHECK(!has(stage_turn(stage, "go")->json, "c-a/1"));
    return 0;
}

SCENE(events_refused_between_turns_are_stored_with_the_next_turn)
{
    struct bl_tool_result result;

    stage->engine.standing = &stage->journal;
    stage->note_code = BL_ENOSPC;
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_OK);
    CHECK_EQUAL(stage->written.size, 0);
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(written(stage, "\"turn\":null", "\"id\":\"c-a/1\""), 3);
    return 0;
}

SCENE(without_a_journal_a_nested_call_is_run_silently)
{
    struct bl_tool_result result;

    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_OK);
    CHECK_EQUAL(stage->event_count, 0);
    CHECK_EQUAL(stage->noted, 0);
    return 0;
}

SCENE(nested_call_stopped_before_it_begins_is_not_run)
{
    struct bl_tool_result result;
    struct bl_scope scope;

    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_STOPPED);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK_EQUAL(stage->tool_calls, 0);
    return 0;
}

static enum bl_permit never_answer(struct stage *stage BL_UNUSED,
                                   const struct bl_tool_call *call BL_UNUSED, char *reason,
                                   size_t reason_size)
{
    bl_sleep(3600 * BL_NS_PER_S);
    snprintf(reason, reason_size, "nobody there");
    return BL_PERMIT_DENIED;
}

SCENE(a_stop_answers_the_question_about_a_nested_call)
{
    stage->engine.standing = &stage->journal;
    stage->tool_ask = true;
    stage->on_ask = never_answer;
    house_begin(stage);
    cell_begin(&cells[0], stage, &house, &house.scope, "c-a");
    bl_sleep(5 * MS);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_PERMISSION_ASKED), 1);
    bl_scope_stop(&cells[0].scope, BL_STOP_USER, "test");
    cell_join(&cells[0]);
    CHECK_EQUAL(cells[0].end, BL_NESTED_STOPPED);
    CHECK_EQUAL(written(stage, "permission_answered", "\"answer\":\"cancelled\""), 1);
    CHECK_EQUAL(written(stage, "tool_ended", "\"status\":\"stopped\""), 1);
    bl_nursery_done(&house);
    return 0;
}

/* A turn whose result is in an arena that is freed right after it. */
static enum bl_turn_end brief_turn(struct stage *stage, char *ret_json, size_t size)
{
    struct bl_turn_result *result = bl_zalloc(sizeof *result);
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_turn_run(&stage->engine, &stage->session,
                &(struct bl_turn_options){.scope = &stage->scope,
                                          .receipt = &stage->receipt,
                                          .journal = &stage->journal,
                                          .prompt = BL_TEXT("go")},
                &arena, result);
    enum bl_turn_end end = result->end;
    snprintf(ret_json, size, BL_TEXT_FORMAT, BL_TEXT_ARG(result->json));
    bl_arena_done(&arena);
    bl_free(result);
    return end;
}

static void leave_in_background(struct stage *stage, const struct bl_tool_call *call)
{
    (void)call;
    cell_begin(&cells[7], stage, &house, &house.scope, "c-back");
}

static void begin_in_background(struct stage *stage)
{

    house_begin(stage);
    set_scene(stage, leave_in_background);
    stage->engine.standing = &stage->journal;
    stage->on_call = take_a_while;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "one two", .delay_ns = 5 * MS});
}

SCENE(a_nested_call_that_outlives_its_turn_is_not_a_step)
{
    struct bl_budget above = {.limit = BL_UNLIMITED};
    char json[8192];

    begin_in_background(stage);
    stage->engine.budget_above = &above;
    stage->tool_ns = 30 * MS;
    snprintf(seen_turn, sizeof seen_turn, "none");
    CHECK_EQUAL(brief_turn(stage, json, sizeof json), BL_TURN_COMPLETED);
    CHECK(!cells[7].ended);
    CHECK(!has(bl_text_from(json), "c-back"));
    uint64_t used = above.used;
    /* The call ends during another turn, which is not its turn either. */
    stage_line(stage, (struct line){.say = "three four", .delay_ns = 100 * MS});
    CHECK_EQUAL(brief_turn(stage, json, sizeof json), BL_TURN_COMPLETED);
    cell_join(&cells[7]);
    CHECK_EQUAL(cells[7].end, BL_NESTED_OK);
    CHECK_EQUAL(seen_turn[0], '\0');
    CHECK_EQUAL(above.used, used + 10);
    CHECK(!has(bl_text_from(json), "c-back"));
    CHECK_EQUAL(written(stage, "tool_started", "\"turn\":\"turn_"), 2);
    CHECK_EQUAL(written(stage, "\"result\":\"took a while\"", "\"turn\":null"), 1);
    bl_nursery_done(&house);
    return 0;
}

SCENE(a_nested_call_that_outlives_its_turn_is_in_the_store_when_it_has_ended)
{
    char json[8192];

    begin_in_background(stage);
    stage->tool_ns = 30 * MS;
    CHECK_EQUAL(brief_turn(stage, json, sizeof json), BL_TURN_COMPLETED);
    cell_join(&cells[7]);
    CHECK_EQUAL(stage->noted, 1);
    CHECK_EQUAL(written(stage, "\"result\":\"took a while\"", "\"turn\":null"), 1);
    bl_nursery_done(&house);
    return 0;
}

/* The commit takes from 10 to 40 ms, and the call ends at 20 ms. */
SCENE(a_nested_call_neither_delays_a_commit_nor_splits_its_events)
{
    char json[8192];

    begin_in_background(stage);
    stage->tool_ns = 20 * MS;
    stage->store_ns = 30 * MS;
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(brief_turn(stage, json, sizeof json), BL_TURN_COMPLETED);
    CHECK_EQUAL(bl_now_ns() - from_ns, 40 * MS);
    cell_join(&cells[7]);
    /* The stage received every number in order; the turn's end came first. */
    CHECK_EQUAL(stage->events[stage->event_count - 1], BL_EVENT_TOOL_ENDED);
    CHECK_EQUAL(written(stage, "\"result\":\"took a while\"", "\"turn\":null"), 1);
    CHECK_EQUAL(written(stage, "\"type\":\"turn_ended\"", ""), 1);
    bl_nursery_done(&house);
    return 0;
}

SCENE(a_refused_commit_drops_no_events_of_others)
{
    char json[8192];

    begin_in_background(stage);
    stage->tool_ns = 20 * MS;
    stage->store_ns = 30 * MS;
    stage->commit_code = BL_ENOSPC;
    CHECK_EQUAL(brief_turn(stage, json, sizeof json), BL_TURN_ERROR);
    cell_join(&cells[7]);
    CHECK_EQUAL(written(stage, "\"result\":\"took a while\"", "\"turn\":null"), 1);
    CHECK_EQUAL(written(stage, "\"type\":\"turn_ended\"", "\"stop_reason\":\"error\""), 1);
    CHECK_EQUAL(written(stage, "", ""), stage->last_seq - stage_told(stage, BL_EVENT_TEXT_DELTA) -
                                            stage_told(stage, BL_EVENT_USAGE) -
                                            stage_told(stage, BL_EVENT_TOOL_OUTPUT));
    bl_nursery_done(&house);
    return 0;
}

SCENE(a_turn_is_stopped_and_a_background_call_is_not)
{
    struct stopper stopper;
    char json[8192];

    begin_in_background(stage);
    stage->lines[1].wedge = true;
    stage->tool_ns = 50 * MS;
    stop_after(&stopper, stage, 20 * MS, BL_STOP_USER);
    CHECK_EQUAL(brief_turn(stage, json, sizeof json), BL_TURN_CANCELLED);
    bl_nursery_done(&stopper.nursery);
    CHECK(!has(bl_text_from(json), "c-back"));
    cell_join(&cells[7]);
    CHECK_EQUAL(cells[7].end, BL_NESTED_OK);
    CHECK_EQUAL(written(stage, "\"result\":\"took a while\"", "\"turn\":null"), 1);
    bl_nursery_done(&house);
    return 0;
}

/* ---- A run with a journal of its own --------------------------------------------------------- */

static void leave_three_in_background(struct stage *stage, const struct bl_tool_call *call)
{
    leave_in_background(stage, call);
    cell_begin(&cells[6], stage, &house, &house.scope, "c-beside");
    cell_begin(&cells[5], stage, &house, &house.scope, "c-too");
}

/* The calls have events to emit while the run stores its end. */
SCENE(the_journal_of_a_run_waits_for_pending_events)
{
    struct bl_run_options options = {
        .run_id = "run_stage", .prompt = BL_TEXT("go"), .max_turns = 1};
    struct bl_run_result run;

    begin_in_background(stage);
    set_scene(stage, leave_three_in_background);
    stage->engine.standing = NULL;
    stage->tool_ns = 20 * MS;
    stage->note_ns = 30 * MS;
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &run);
    CHECK_EQUAL(run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_OUTPUT), 3);
    for (size_t i = 5; i < HOUSE_CELLS; i++) {
        cell_join(&cells[i]);
        CHECK_EQUAL(cells[i].end, BL_NESTED_OK);
    }
    bl_nursery_done(&house);
    return 0;
}

SCENE(a_standing_journal_serves_the_run_and_outlives_it)
{
    struct bl_run_options options = {
        .run_id = "run_stage", .prompt = BL_TEXT("go"), .max_turns = 1};
    struct bl_tool_result result;
    struct bl_run_result run;

    stage->engine.standing = &stage->journal;
    stage_line(stage, (struct line){.say = "ok"});
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &run);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RUN_ENDED), 1);
    uint64_t seq = stage->last_seq;
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_OK);
    CHECK_EQUAL(stage->last_seq, seq + 4);
    return 0;
}

static uint64_t output_ns;

static void dawdle_at_the_end(struct stage *stage BL_UNUSED, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TOOL_OUTPUT)
        output_ns = bl_now_ns();
    if (event->type == BL_EVENT_RUN_ENDED)
        bl_sleep(20 * MS);
}

/* The end of the run is emitted from 10 to 30 ms, and the call prints at 20 ms. */
SCENE(slow_listener_at_the_end_of_a_run_delays_no_one_else)
{
    struct bl_run_options options = {
        .run_id = "run_stage", .prompt = BL_TEXT("go"), .max_turns = 1};
    struct bl_run_result run;

    begin_in_background(stage);
    stage->tool_ns = 20 * MS;
    stage->on_event = dawdle_at_the_end;
    uint64_t from_ns = bl_now_ns();
    bl_run(&stage->engine, &stage->session, &stage->receipt, &options, &stage->arena, &run);
    CHECK_EQUAL(bl_now_ns() - from_ns, 30 * MS);
    CHECK_EQUAL(output_ns - from_ns, 20 * MS);
    cell_join(&cells[7]);
    bl_nursery_done(&house);
    return 0;
}

/* ---- Events of cells ------------------------------------------------------------------------- */

static void tell_of_cell(struct stage *stage, const struct bl_tool_call *call BL_UNUSED)
{
    bl_engine_tell(&stage->engine,
                   &(struct bl_event){.type = BL_EVENT_CELL_CREATED, .cell = "c-7"});
    bl_engine_tell(
        &stage->engine,
        &(struct bl_event){.type = BL_EVENT_CELL_YIELDED, .cell = "c-7", .generation = 1});
}

static void end_journal(struct stage *stage, const struct bl_event *event BL_UNUSED)
{
    stage->engine.standing = NULL;
}

SCENE(events_of_cells_are_emitted_in_the_turn_and_between_turns)
{
    stage->engine.standing = &stage->journal;
    stage->on_call = act;
    CHECK_EQUAL(play(stage, tell_of_cell)->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(written(stage, "\"type\":\"cell_created\"", "\"turn\":\"turn_"), 1);
    CHECK_EQUAL(written(stage, "\"cell\":\"c-7\",\"generation\":1}", "\"turn\":\"turn_"), 1);
    CHECK_EQUAL(stage->noted, 0);
    bl_engine_tell(
        &stage->engine,
        &(struct bl_event){.type = BL_EVENT_CELL_ENDED, .cell = "c-7", .status = "unknown"});
    CHECK_EQUAL(stage->noted, 1);
    CHECK_EQUAL(written(stage, "\"cell\":\"c-7\",\"generation\":null,\"status\":\"unknown\"",
                        "\"turn\":null"),
                1);
    bl_engine_tell(&stage->engine, &(struct bl_event){.type = BL_EVENT_CELL_SETTLED,
                                                      .cell = "c-7",
                                                      .generation = 2,
                                                      .status = "completed"});
    CHECK_EQUAL(written(stage, "\"type\":\"cell_settled\"", "\"receipt\":null}"), 1);
    CHECK_EQUAL(stage->noted, 2);
    /* If the journal ends while its listener runs, nothing more is stored in it. */
    stage->on_event = end_journal;
    bl_engine_tell(&stage->engine,
                   &(struct bl_event){.type = BL_EVENT_CELL_CREATED, .cell = "c-8"});
    CHECK_EQUAL(stage->noted, 2);
    return 0;
}

static void check_schema(struct stage *stage)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");
    struct bl_text rest = bl_buffer_text(&stage->written), line;
    struct bl_json_schema *schema = NULL;
    const struct bl_json *source = NULL;
    struct bl_error error = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/docs/schemas/event.json", root != NULL ? root : ".");
    struct bl_text text = suite_read_file(path);
    CHECK_EQUAL(bl_json_read(&stage->arena, text, NULL, &source, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(source, &schema, &error), 0);
    while (bl_text_split(&rest, '\n', &line)) {
        const struct bl_json *event = NULL;
        struct bl_list problems;
        if (CHECK_EQUAL(bl_json_read(&stage->arena, line, NULL, &event, NULL), 0) &&
            !CHECK_EQUAL(bl_json_schema_check(schema, event, &stage->arena, &problems), 0))
            print_error(BL_TEXT_FORMAT "\n", BL_TEXT_ARG(line));
    }
    bl_json_schema_free(schema);
    bl_free((void *)(uintptr_t)text.data);
}

SCENE(stored_events_of_cells_and_their_calls_match_the_schema)
{
    char json[8192];

    begin_in_background(stage);
    stage->tool_ns = 30 * MS;
    tell_of_cell(stage, NULL);
    CHECK_EQUAL(brief_turn(stage, json, sizeof json), BL_TURN_COMPLETED);
    cell_join(&cells[7]);
    bl_engine_tell(
        &stage->engine,
        &(struct bl_event){.type = BL_EVENT_CELL_ENDED, .cell = "c-7", .status = "unknown"});
    bl_engine_tell(&stage->engine, &(struct bl_event){.type = BL_EVENT_CELL_SETTLED,
                                                      .cell = "c-7",
                                                      .generation = 2,
                                                      .status = "failed"});
    check_schema(stage);
    bl_nursery_done(&house);
    return 0;
}

/* ---- Random interleavings -------------------------------------------------------------------- */

/* Counts events that are emitted but not stored. */
static size_t told_alone(const struct stage *stage)
{
    return stage_told(stage, BL_EVENT_TEXT_DELTA) + stage_told(stage, BL_EVENT_USAGE) +
           stage_told(stage, BL_EVENT_TOOL_OUTPUT) + stage_told(stage, BL_EVENT_THINKING_DELTA);
}

static void random_turn(struct stage *stage, struct bl_random *chance)
{
    struct stopper stopper;
    char *json = bl_alloc(65536);
    bool stops = bl_random_below(chance, 3) == 0;

    stage->line_next = stage->line_count = 0;
    stage->store_ns = bl_random_below(chance, 20) * MS;
    stage->note_ns = bl_random_below(chance, 5) * MS;
    stage->tool_ns = bl_random_below(chance, 15) * MS;
    stage->commit_code = bl_random_below(chance, 4) == 0 ? BL_ENOSPC : 0;
    stage->note_code = bl_random_below(chance, 4) == 0 ? BL_ENOSPC : 0;
    stage->reject_code = bl_random_below(chance, 4) == 0 ? BL_ENOSPC : 0;
    stage->engine.limits.keep = bl_random_below(chance, 2) == 0;
    stage->engine.limits.max_steps = bl_random_below(chance, 10);
    stage_line(stage, (struct line){.tool = "work", .delay_ns = bl_random_below(chance, 5) * MS});
    stage_line(stage, (struct line){.say = "a b", .delay_ns = bl_random_below(chance, 10) * MS});
    stop_after(&stopper, stage, stops ? bl_random_below(chance, 60) * MS : 3600 * BL_NS_PER_S,
               BL_STOP_USER);
    brief_turn(stage, json, 65536);
    CHECK(bl_text_equal(bl_text_from(json), bl_text_from(stage->turn_ended)));
    bl_nursery_done(&stopper.nursery);
    bl_free(json);
    bl_sleep(bl_random_below(chance, 20) * MS);
}

/* Replaces a stopped run scope; the journal stays. */
static void renew_scope(struct stage *stage)
{
    bl_receipt_close(&stage->receipt);
    bl_scope_done(&stage->scope);
    bl_scope_init(&stage->scope, bl_scope_current());
    bl_receipt_open(&stage->receipt, &stage->scope, "run_stage");
    stage->journal.receipt_told = stage->journal.receipt_stored = false;
}

static int random_work(struct stage *stage, const struct bl_tool_call *call,
                       struct bl_tool_result *result, struct bl_error *error BL_UNUSED)
{
    int code = bl_sleep(stage->tool_ns);

    if (code == 0)
        call->output(call, BL_TEXT("x"));
    result->text = BL_TEXT("y");
    return code;
}

/* A slow listener. */
static void listen_slowly(struct stage *stage, const struct bl_event *event)
{
    (void)stage;
    if (event->seq % 5 == 0)
        bl_sleep(event->seq % 3 * MS);
}

static int play_round(void *argument)
{
    struct stage *stage = bl_alloc(sizeof *stage);
    struct bl_random chance;
    struct bl_error error = {0};

    stage_init(stage);
    bl_random_seed(&chance, *(const uint64_t *)argument);
    house_begin(stage);
    stage->on_settle = NULL;
    stage->engine.standing = &stage->journal;
    stage->on_call = random_work;
    if (bl_random_below(&chance, 2) == 0)
        stage->on_event = listen_slowly;
    for (size_t i = 0; i < BL_COUNT(cells); i++) {
        char id[16];
        cells[i].after_ns = bl_random_below(&chance, 30) * MS;
        cells[i].calls = 1 + (uint32_t)bl_random_below(&chance, 8);
        snprintf(id, sizeof id, "c-%zu", i);
        cell_begin(&cells[i], stage, &house, &house.scope, id);
    }
    for (int turn = 0; turn < 4; turn++) {
        random_turn(stage, &chance);
        if (bl_random_below(&chance, 4) == 0)
            bl_scope_stop(&cells[turn].scope, BL_STOP_USER, "test");
        renew_scope(stage);
    }
    for (size_t i = 0; i < BL_COUNT(cells); i++)
        cell_join(&cells[i]);
    bl_nursery_done(&house);
    stage->note_code = 0;
    CHECK_EQUAL(bl_journal_note(&stage->journal, &error), 0);
    /* Every number was emitted once and in order, and every event to keep is in the store once. */
    CHECK_EQUAL(written(stage, "", "") + told_alone(stage), stage->last_seq);
    CHECK_EQUAL(written(stage, "\"type\":\"tool_ended\"", "\"result\""),
                written(stage, "\"type\":\"tool_requested\"", "\"id\":\"c-"));
    stage_done(stage);
    bl_free(stage);
    return 0;
}

static void no_event_is_lost_or_repeated(void **state)
{
    unsigned long rounds = suite_rounds(100, 20000);

    (void)state;
    for (uint64_t seed = 1; seed <= rounds; seed++)
        run_in_virtual_loop(seed, play_round, &seed);
}

SUITE(background, cmocka_unit_test(between_turns_a_nested_call_is_journaled_and_belongs_to_no_turn),
      cmocka_unit_test(events_refused_between_turns_are_stored_with_the_next_turn),
      cmocka_unit_test(without_a_journal_a_nested_call_is_run_silently),
      cmocka_unit_test(nested_call_stopped_before_it_begins_is_not_run),
      cmocka_unit_test(a_stop_answers_the_question_about_a_nested_call),
      cmocka_unit_test(a_nested_call_that_outlives_its_turn_is_not_a_step),
      cmocka_unit_test(a_nested_call_that_outlives_its_turn_is_in_the_store_when_it_has_ended),
      cmocka_unit_test(a_nested_call_neither_delays_a_commit_nor_splits_its_events),
      cmocka_unit_test(a_refused_commit_drops_no_events_of_others),
      cmocka_unit_test(a_turn_is_stopped_and_a_background_call_is_not),
      cmocka_unit_test(the_journal_of_a_run_waits_for_pending_events),
      cmocka_unit_test(a_standing_journal_serves_the_run_and_outlives_it),
      cmocka_unit_test(slow_listener_at_the_end_of_a_run_delays_no_one_else),
      cmocka_unit_test(events_of_cells_are_emitted_in_the_turn_and_between_turns),
      cmocka_unit_test(stored_events_of_cells_and_their_calls_match_the_schema),
      cmocka_unit_test(no_event_is_lost_or_repeated));
