/* The display of a feature: the table at several widths, lines of events, the start and the end. */
#include "cli/feature/feature.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "screen.h"

#define NOW_NS (1794768600ll * (int64_t)BL_NS_PER_S) /* 2026-11-15T18:50:00Z */

/* ---- A feature ------------------------------------------------------------------------------- */

static struct bl_task_view tasks[7];
static struct bl_wave_view waves[3];
static struct bl_feature_view view;

static void add_task(size_t index, const char *id, enum bl_task_state state)
{
    tasks[index] = (struct bl_task_view){.row = {.name = BL_TEXT("A task"),
                                                 .state = state,
                                                 .turns_max = 5,
                                                 .elapsed_s = -1,
                                                 .deadline_s = -1,
                                                 .dirty = -1,
                                                 .late_ms = -1},
                                         .deadline_s = -1,
                                         .deadline_left_s = -1};
    bl_text_into(tasks[index].row.id, sizeof tasks[index].row.id, id);
    view.counts[state]++;
    view.task_count = index + 1 > view.task_count ? index + 1 : view.task_count;
}

static void run_task(size_t index, enum bl_task_phase phase, uint32_t turn, double age, double left,
                     const char *activity, const char *at)
{
    struct bl_task_view *task = &tasks[index];

    task->row.attempt = 1;
    task->row.phase = phase;
    task->row.turn = turn;
    task->row.elapsed_s = age;
    task->deadline_left_s = left;
    bl_text_into(task->row.activity, sizeof task->row.activity, activity);
    if (at != NULL)
        assert_true(bl_time_parse(bl_text_from(at), &task->row.active_wall_ns));
}

static int make_view(void **state)
{
    (void)state;
    view = (struct bl_feature_view){.feature = "FEAT-AUTH",
                                    .name = "Login",
                                    .state = "running",
                                    .result_branch = "belay/FEAT-AUTH/_result",
                                    .exit_code = -1,
                                    .parallel = 2,
                                    .tasks = tasks,
                                    .waves = waves,
                                    .wave_count = 3};
    bl_list_init(&view.receipts);
    bl_list_init(&view.turns);
    waves[0] = (struct bl_wave_view){.n = 1, .state = "completed"};
    waves[1] = (struct bl_wave_view){.n = 2, .state = "running"};
    waves[2] = (struct bl_wave_view){.n = 3, .state = "pending"};
    add_task(0, "TASK-AUTH-001", BL_TASK_COMPLETED);
    add_task(1, "TASK-AUTH-002", BL_TASK_RUNNING);
    add_task(2, "TASK-AUTH-003", BL_TASK_RUNNING);
    add_task(3, "TASK-AUTH-004", BL_TASK_QUEUED);
    add_task(4, "TASK-AUTH-005", BL_TASK_TIMED_OUT);
    add_task(5, "TASK-AUTH-006", BL_TASK_PENDING);
    add_task(6, "TASK-AUTH-007", BL_TASK_DEFERRED);
    run_task(0, BL_PHASE_NONE, 2, 190, -1, NULL, NULL);
    run_task(1, BL_PHASE_PLAYER, 2, 75, 2325, "tool bash", "2026-11-15T18:49:57.500Z");
    run_task(2, BL_PHASE_COACH, 1, 3725, 41, "model", "2026-11-15T18:45:30.000Z");
    run_task(4, BL_PHASE_NONE, 1, 2400, -1, NULL, NULL);
    tasks[0].row.decision = BL_DECISION_APPROVED;
    tasks[0].row.verified = BL_VERIFIED_NONE;
    tasks[0].row.merged = true;
    tasks[1].row.spent_known = true;
    tasks[1].row.spent = (struct bl_spent){.usage = {.input_tokens = 12000, .output_tokens = 345},
                                           .cost_usd = 0.1234};
    tasks[4].row.decision = BL_DECISION_TIMEOUT;
    tasks[4].deadline_s = 2400;
    tasks[4].row.reason = BL_STOP_TIMEOUT;
    bl_text_into(tasks[4].row.receipt, sizeof tasks[4].row.receipt, "rcp_abc");
    view.spent_known = true;
    view.spent = tasks[1].row.spent;
    return 0;
}

/* ---- The table ------------------------------------------------------------------------------- */

static struct bl_buffer text;

static const char *draw(size_t columns, size_t rows, bool colours)
{
    struct feature_table_look look = {
        .columns = columns, .rows = rows, .colours = colours, .wall_ns = NOW_NS};

    bl_buffer_done(&text);
    bl_buffer_init(&text, 1 << 20);
    assert_int_equal(feature_table_draw(&view, &look, &text), 0);
    bl_buffer_append_byte(&text, '\0');
    text.size--;
    return text.data;
}

static int end_text(void **state)
{
    (void)state;
    bl_buffer_done(&text);
    return 0;
}

static void check_width(size_t columns)
{
    struct bl_text rest = bl_buffer_text(&text), line;

    while (bl_text_split(&rest, '\n', &line)) {
        if (text_line_width(line) > columns)
            fail_msg("%zu columns: %.*s", text_line_width(line), (int)line.size, line.data);
    }
}

static void table_of_80_columns_has_the_important_columns(void **state)
{
    (void)state;
    assert_string_equal(
        draw(80, 100, false),
        "wave 2/3  running 2/2  queued 1  done 2/7  failed 1  12.3k tokens  $0.123\n"
        "state      task           phase   turn    age  activity      left    cost\n"
        "completed  TASK-AUTH-001          2/5   3m10s                           –\n"
        "running    TASK-AUTH-002  player  2/5   1m15s  tool bash 2s   38m  $0.123\n"
        "running    TASK-AUTH-003  coach   1/5   1h02m  quiet 4m30s    41s       –\n"
        "queued     TASK-AUTH-004\n"
        "timed_out  TASK-AUTH-005          1/5     40m                           –\n"
        "pending    TASK-AUTH-006\n"
        "deferred   TASK-AUTH-007\n");
    check_width(80);
}

static void table_of_40_columns_is_usable(void **state)
{
    (void)state;
    assert_string_equal(draw(40, 100, false), "wave 2/3  running 2/2  queued 1\n"
                                              "state     task          phase  turn left\n"
                                              "completed TASK-AUTH-001        2/5\n"
                                              "running   TASK-AUTH-002 player 2/5   38m\n"
                                              "running   TASK-AUTH-003 coach  1/5   41s\n"
                                              "queued    TASK-AUTH-004\n"
                                              "timed_out TASK-AUTH-005        1/5\n"
                                              "pending   TASK-AUTH-006\n"
                                              "deferred  TASK-AUTH-007\n");
    check_width(40);
}

static void table_of_200_columns_has_names_and_tokens(void **state)
{
    (void)state;
    const char *shown = draw(200, 100, false);
    assert_non_null(strstr(shown, "tokens"));
    assert_non_null(strstr(shown, "12.3k"));
    assert_non_null(strstr(shown, "A task"));
    check_width(200);
}

static void no_line_exceeds_any_width(void **state)
{
    (void)state;
    bl_text_into(tasks[1].row.id, sizeof tasks[1].row.id,
                 "TASK-WITH-A-VERY-LONG-NAME-THAT-GOES-ON-AND-ON-AND-ON-UP-TO-64-X");
    tasks[1].row.name = BL_TEXT("漢字の名前がある長い長い仕事 with more and more words behind it");
    for (size_t columns = 40; columns < 260; columns++) {
        draw(columns, 100, columns % 2 == 0);
        check_width(columns);
        assert_non_null(strstr(text.data, "running"));
    }
    /* The screen cuts what is narrower than the minimum. */
    draw(10, 100, false);
    check_width(40);
}

static void few_lines_show_running_tasks_and_summarize_the_rest(void **state)
{
    (void)state;
    assert_string_equal(draw(60, 5, false),
                        "wave 2/3  running 2/2  queued 1  done 2/7  failed 1  $0.123\n"
                        "running   TASK-AUTH-002 player 2/5  1m15s tool bash 2s  38m\n"
                        "running   TASK-AUTH-003 coach  1/5  1h02m quiet 4m30s   41s\n"
                        "timed_out TASK-AUTH-005        1/5    40m\n"
                        "… and 4 more: 1 pending, 1 queued, 1 completed, 1 deferred\n");
    for (size_t rows = 1; rows < 12; rows++) {
        struct bl_text rest, line;
        size_t count = 0;
        draw(60, rows, false);
        rest = bl_buffer_text(&text);
        while (bl_text_split(&rest, '\n', &line))
            count++;
        assert_in_range(count, 1, rows);
    }
}

static void unknown_value_is_a_dash_and_never_zero(void **state)
{
    (void)state;
    tasks[1].row.active_wall_ns = 0;
    run_task(1, BL_PHASE_NONE, 0, -1, -1, NULL, NULL);
    tasks[1].row.turns_max = 0;
    tasks[1].row.spent_known = false;
    view.spent_known = false;
    const char *shown = draw(120, 100, false);
    const char *row = strstr(shown, "running    TASK-AUTH-002");
    assert_non_null(row);
    static const char known[] = "running    TASK-AUTH-002  –      –         –  –               –";
    assert_memory_equal(row, known, sizeof known - 1);
    assert_non_null(strstr(shown, "– tokens"));
    assert_null(strstr(shown, "$0"));
    char span[16], duration[32];
    assert_string_equal(feature_span_text(-1, span), "–");
    assert_string_equal(feature_span_text(0, span), "0s");
    assert_string_equal(feature_span_text(59.9, span), "59s");
    assert_string_equal(feature_span_text(3600 * 24 * 3, span), "3d00h");
    assert_string_equal(feature_duration_text(-1, duration), "–");
    assert_string_equal(feature_duration_text(1e300, duration), "–");
    assert_string_equal(feature_duration_text(0.34, duration), "340 ms");
    assert_string_equal(feature_duration_text(2400, duration), "40m");
    assert_true(feature_time_since(0, NOW_NS) < 0);
    assert_true(feature_time_since(NOW_NS, NOW_NS) == 0);
    assert_true(feature_time_since(NOW_NS + (int64_t)BL_NS_PER_S, NOW_NS) == 0);
    assert_true(feature_time_since(NOW_NS - (int64_t)(59500 * BL_NS_PER_MS), NOW_NS) == 59.5);
}

static void head_shows_states_other_than_running(void **state)
{
    (void)state;
    view.state = "draining";
    assert_memory_equal(draw(80, 100, false), "wave 2/3  draining  running 2/2  queued 1", 41);
    view.state = "running";
    waves[1].state = "merging";
    assert_memory_equal(draw(80, 100, false), "wave 2/3  merging  running 2/2", 30);
    waves[1].state = waves[2].state = "completed";
    assert_memory_equal(draw(80, 100, false), "wave 3/3", 8);
    view.task_count = 0;
    view.wave_count = 0;
    assert_memory_equal(draw(80, 100, false), "wave 0/0", 8);
}

/* ---- On a terminal --------------------------------------------------------------------------- */

static void terminal_shows_the_table_at_each_width(void **state)
{
    static const size_t widths[] = {40, 80, 200};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(widths); i++) {
        struct scene scene;
        scene_begin(&scene, widths[i], 24, true);
        scene.view = (struct edit_view){.line = &scene.line};
        draw(widths[i], 22, true);
        scene.view.live = bl_buffer_text(&text);
        scene_draw(&scene, BL_TEXT("banner\n"));
        screen_check_sequences(bl_buffer_text(&scene.bytes), true);
        assert_string_equal(screen_row(scene.terminal, 0), "banner");
        assert_memory_equal(screen_row(scene.terminal, 1), "wave 2/3  running 2/2  queued 1", 31);
        assert_non_null(strstr(screen_row(scene.terminal, 4), "TASK-AUTH-002"));
        assert_true(screen_styled(scene.terminal));
        assert_true(screen_cursor_visible(scene.terminal));
        /* Only changes are redrawn, and nothing scrolls. */
        view.counts[BL_TASK_QUEUED]++;
        draw(widths[i], 22, true);
        scene.view.live = bl_buffer_text(&text);
        scene_draw(&scene, (struct bl_text){0});
        assert_memory_equal(screen_row(scene.terminal, 1), "wave 2/3  running 2/2  queued 2", 31);
        assert_string_equal(screen_row(scene.terminal, 0), "banner");
        view.counts[BL_TASK_QUEUED]--;
        scene_end(&scene);
    }
}

static void table_is_redrawn_when_the_window_is_resized(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 120, 30, false);
    scene.view = (struct edit_view){.line = &scene.line};
    draw(120, 28, false);
    scene.view.live = bl_buffer_text(&text);
    scene_draw(&scene, (struct bl_text){0});
    scene_resize(&scene, 40, 8);
    draw(40, 6, false);
    scene.view.live = bl_buffer_text(&text);
    scene_draw(&scene, (struct bl_text){0});
    assert_non_null(strstr(screen_shown(scene.terminal), "wave 2/3  running 2/2  queued 1\n"));
    assert_non_null(strstr(screen_shown(scene.terminal), "… and 3 more"));
    scene_end(&scene);
}

static void hostile_names_do_not_reach_the_terminal(void **state)
{
    struct scene scene;

    (void)state;
    tasks[1].row.name = BL_TEXT("a\x1b]0;owned\a\x1b[2J\nb\xff\xe2\x80\xae");
    bl_text_into(tasks[1].row.id, sizeof tasks[1].row.id, "T\x1b[31m");
    bl_text_into(tasks[1].row.activity, sizeof tasks[1].row.activity, "tool \x1b[2J");
    scene_begin(&scene, 200, 24, false);
    scene.view = (struct edit_view){.line = &scene.line};
    draw(200, 22, false);
    assert_null(memchr(text.data, '\x1b', text.size));
    scene.view.live = bl_buffer_text(&text);
    scene_draw(&scene, (struct bl_text){0});
    screen_check_sequences(bl_buffer_text(&scene.bytes), false);
    scene_end(&scene);
}

/* ---- Lines of events ------------------------------------------------------------------------- */

static const char *line_of(const char *type, const char *json)
{
    const struct bl_json *event;
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_buffer_done(&text);
    bl_buffer_init(&text, 1 << 20);
    assert_int_equal(bl_json_read(&arena, bl_text_from(json), NULL, &event, NULL), 0);
    assert_int_equal(feature_event_line(bl_text_from(type), event, &text), 0);
    bl_buffer_append_byte(&text, '\0');
    text.size--;
    bl_arena_done(&arena);
    return text.data;
}

#define COMMON  "\"time\":\"2026-11-15T18:50:07.123Z\",\"run\":\"run_a\",\"feature\":\"FEAT-A\""
#define OF_TASK "{" COMMON ",\"task\":\"TASK-1\",\"attempt\":1,\"turn\":2,\"phase\":\"player\""

static void every_event_of_the_list_has_a_line(void **state)
{
    static const char *const types[] = {
        "feature_started",  "plan_changed",   "wave_started",      "task_queued",
        "deadline_armed",   "deadline_moved", "task_turn_started", "phase_started",
        "phase_ended",      "commit_made",    "verify_ended",      "verdict",
        "task_turn_ended",  "grace_started",  "checkpoint_saved",  "task_ended",
        "merge_ended",      "merge_conflict", "gate_ended",        "wave_ended",
        "feature_draining", "feature_paused", "feature_resumed",   "stale_write_refused",
        "rescue_made",      "feature_ended",  "cancel_requested",  "receipt",
        "warning",          "error"};
    static const char *const bare[] = {"{}", "{" COMMON "}", OF_TASK "}",
                                       OF_TASK ",\"tasks\":7,\"state\":[],\"deadline_s\":\"x\"}"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(types); i++) {
        assert_true(feature_event_has_line(bl_text_from(types[i])));
        for (size_t j = 0; j < BL_COUNT(bare); j++) {
            const char *line = line_of(types[i], bare[j]);
            assert_true(text.size > 1);
            assert_ptr_equal(strchr(line, '\n'), line + text.size - 1);
        }
    }
}

static void streamed_text_makes_no_line(void **state)
{
    static const char *const types[] = {"text_delta", "thinking_delta", "usage", "tool_output",
                                        "turn_started"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(types); i++) {
        assert_false(feature_event_has_line(bl_text_from(types[i])));
        assert_string_equal(line_of(types[i], OF_TASK ",\"text\":\"x\"}"), "");
    }
}

static void lines_are_terse_and_say_where(void **state)
{
    (void)state;
    assert_string_equal(line_of("feature_started", "{" COMMON ",\"task\":null,\"resumed\":true,"
                                                   "\"already\":[\"TASK-1\",\"TASK-2\"]}"),
                        "18:50:07 FEAT-A: resumed; already done: TASK-1, TASK-2\n");
    assert_string_equal(line_of("wave_started", "{" COMMON ",\"task\":null,\"wave\":2,"
                                                "\"tasks\":[\"TASK-1\",\"TASK-2\"]}"),
                        "18:50:07 FEAT-A: wave 2 starts: TASK-1, TASK-2\n");
    assert_string_equal(line_of("deadline_armed", OF_TASK ",\"deadline_s\":2400,\"grace_s\":120,"
                                                          "\"source\":\"default\"}"),
                        "18:50:07 TASK-1 turn 2 player: deadline 40m + 2m coach grace "
                        "(default)\n");
    assert_string_equal(line_of("phase_ended", OF_TASK ",\"outcome\":\"ended\",\"ms\":3100}"),
                        "18:50:07 TASK-1 turn 2 player: ended after 3.1 s\n");
    assert_string_equal(line_of("task_ended", OF_TASK ",\"state\":\"timed_out\",\"decision\":"
                                                      "\"timeout\",\"message\":\"2400 s\"}"),
                        "18:50:07 TASK-1 turn 2 player: timed_out: 2400 s\n");
    assert_string_equal(line_of("verify_ended",
                                OF_TASK ",\"value\":\"failed\",\"why\":\"Verification "
                                        "failed: make test exited with 1.\"}"),
                        "18:50:07 TASK-1 turn 2 player: verification failed: make test exited "
                        "with 1.\n");
    assert_string_equal(line_of("verdict", OF_TASK ",\"valid\":true,\"verdict\":{\"decision\":"
                                                   "\"feedback\",\"rationale\":\"not yet\","
                                                   "\"issues\":[{},{}]}}"),
                        "18:50:07 TASK-1 turn 2 player: verdict: feedback, 2 issues: not yet\n");
    assert_string_equal(line_of("receipt", "{" COMMON ",\"receipt\":{\"quiet_ms\":206,"
                                           "\"survivors\":0,\"units\":[]}}"),
                        "18:50:07 FEAT-A: Stopped in 206 ms. Nothing left running.\n");
}

static void hostile_events_are_shown_escaped(void **state)
{
    (void)state;
    const char *line = line_of("warning", OF_TASK ",\"message\":\"a\\u001b[2J\\u0007\\n\\u202e\"}");
    assert_string_equal(line, "18:50:07 TASK-1 turn 2 player: warning: a\\x1b[2J\\x07 \\u202e\n");
    line = line_of("task_queued", "{\"time\":\"2026-11-15T\\u001b\\u001b[2J:07.123Z\","
                                  "\"task\":\"T\\u009b\"}");
    assert_null(strchr(line, '\x1b'));
    assert_null(strchr(line, '\x9b'));
    /* A long text is cut. */
    char json[3000];
    memset(json, 'x', sizeof json);
    memcpy(json, "{\"message\":\"", 12);
    memcpy(json + sizeof json - 3, "\"}", 3);
    assert_in_range(strlen(line_of("warning", json)), 10, 300);
}

/* ---- The start and the end ------------------------------------------------------------------- */

static void end_has_a_line_for_each_task(void **state)
{
    static struct bl_row receipts[3];

    (void)state;
    receipts[0].json = BL_TEXT("{\"id\":\"rcp_abc\",\"scope\":\"FEAT-AUTH/TASK-AUTH-005\","
                               "\"quiet_ms\":206,\"survivors\":0,\"units\":[]}");
    receipts[1].json = BL_TEXT("{\"id\":\"rcp_old\",\"scope\":\"run_old\",\"quiet_ms\":999}");
    receipts[2].json = BL_TEXT("{\"id\":\"rcp_run\",\"scope\":\"run_new\",\"quiet_ms\":207,"
                               "\"survivors\":0}");
    for (size_t i = 0; i < BL_COUNT(receipts); i++) {
        receipts[i].name = "receipt/x";
        bl_list_push_back(&view.receipts, &receipts[i].link);
    }
    view.run_id = "run_new";
    view.state = "failed";
    view.started_wall_ns = NOW_NS - 3000 * (int64_t)BL_NS_PER_S;
    view.ended_wall_ns = NOW_NS;
    view.result_commit = "0123456789abcdef";
    waves[0].gate = "absent";
    bl_buffer_done(&text);
    bl_buffer_init(&text, 1 << 20);
    assert_int_equal(feature_end_text(&view, NULL, &text), 0);
    bl_buffer_append_byte(&text, '\0');
    static const char *const parts[] = {
        "FEAT-AUTH failed: 2 of 7 tasks done, 50m, 12.3k tokens, $0.123\n",
        "\n  TASK-AUTH-001   2 turns   3m10s  completed: approved, not verified\n",
        "\n  TASK-AUTH-005    1 turn     40m  timed out: ",
        "\n  TASK-AUTH-004         –       –  queued\n",
        "\nunverified (gate did not run): wave 1\n",
        "\nnot verified (no commands declared): TASK-AUTH-001\n",
        "\nTASK-AUTH-005: Stopped in 206 ms. Nothing left running.\n"
        "FEAT-AUTH: Stopped in 207 ms. Nothing left running.\n",
        "\nMerge with: git merge belay/FEAT-AUTH/_result\n",
        "\nResume with: belay feature resume FEAT-AUTH\n"};
    for (size_t i = 0; i < BL_COUNT(parts); i++) {
        if (strstr(text.data, parts[i]) == NULL)
            fail_msg("no '%s' in '%s'", parts[i], text.data);
    }
    assert_null(strstr(text.data, "999"));
}

static void completed_feature_suggests_no_resume(void **state)
{
    (void)state;
    view.task_count = 1;
    memset(view.counts, 0, sizeof view.counts);
    view.counts[BL_TASK_COMPLETED] = 1;
    view.state = "completed";
    bl_buffer_done(&text);
    bl_buffer_init(&text, 1 << 20);
    feature_end_text(&view, NULL, &text);
    bl_buffer_append_byte(&text, '\0');
    assert_null(strstr(text.data, "resume"));
    tasks[0].row.decision = BL_DECISION_MAX_TURNS;
    tasks[0].row.state = BL_TASK_FAILED;
    view.counts[BL_TASK_COMPLETED] = 0;
    bl_buffer_clear(&text);
    feature_end_text(&view, NULL, &text);
    bl_buffer_append_byte(&text, '\0');
    assert_non_null(
        strstr(text.data, "Resume with: belay feature resume FEAT-AUTH --more-turns 3\n"));
}

static struct bl_plan_task plan_tasks[2];
static struct bl_plan plan;

static const char *banner(const struct bl_plan_overrides *overrides)
{
    bl_buffer_done(&text);
    bl_buffer_init(&text, 1 << 20);
    assert_int_equal(feature_banner_text(&plan, overrides, &view, NULL, &text), 0);
    bl_buffer_append_byte(&text, '\0');
    return text.data;
}

static void F34_banner_shows_parallel_and_its_source(void **state)
{
    struct bl_plan_overrides overrides = {0};

    (void)state;
    plan = (struct bl_plan){
        .id = "FEAT-AUTH",
        .name = "Login\x1b[2J",
        .tasks = plan_tasks,
        .task_count = 2,
        .wave_count = 1,
        .recommended_parallel = 8,
        .limits = {.parallel = 2, .max_budget_tokens = UINT64_MAX, .max_budget_usd = -1}};
    bl_list_init(&plan.warnings);
    for (size_t i = 0; i < 2; i++)
        plan_tasks[i] = (struct bl_plan_task){.id = i == 0 ? "TASK-A" : "TASK-B",
                                              .deadline_ns = 2400 * BL_NS_PER_S};
    view.base_commit = "0123456789abcdef";
    assert_string_equal(
        banner(&overrides),
        "FEAT-AUTH Login\\x1b[2J: 1 wave, 2 tasks, 2 at once (recommended_parallel 8, "
        "limits.parallel 2)\n"
        "deadline 40m for each task\n"
        "on failure wave_end, base 0123456789\n"
        "already done: TASK-AUTH-001, TASK-AUTH-007 (deferred)\n"
        "resumed: TASK-AUTH-002 after turn 2, TASK-AUTH-003 after turn 1, TASK-AUTH-005 after turn "
        "1\n");
    plan.recommended_parallel = 1;
    plan.limits.parallel = 1;
    assert_non_null(strstr(banner(&overrides), " 1 at once (recommended_parallel 1)\n"));
    plan.recommended_parallel = 0;
    assert_non_null(strstr(banner(&overrides), " 1 at once (limits.parallel 1)\n"));
    overrides.parallel = 1;
    assert_non_null(strstr(banner(&overrides), " 1 at once (--parallel 1)\n"));
}

static void F30_banner_shows_the_enforced_deadlines(void **state)
{
    struct bl_plan_overrides overrides = {0};

    (void)state;
    F34_banner_shows_parallel_and_its_source(state);
    plan_tasks[1].deadline_ns = 5400 * BL_NS_PER_S;
    plan_tasks[1].limits.coach_grace_ns = 120 * BL_NS_PER_S;
    plan.limits.feature_timeout_ns = 7200 * BL_NS_PER_S;
    plan.limits.max_budget_usd = 5;
    banner(&overrides);
    assert_non_null(strstr(text.data, "\ndeadline 40m for each task; TASK-B: 1h 30m + 2m "
                                      "coach grace\n"));
    assert_non_null(strstr(text.data, "feature deadline 2h, at most $5.00"));
}

#define SEEN(test) cmocka_unit_test_setup_teardown(test, make_view, end_text)

SUITE(feature_display, SEEN(table_of_80_columns_has_the_important_columns),
      SEEN(table_of_40_columns_is_usable), SEEN(table_of_200_columns_has_names_and_tokens),
      SEEN(no_line_exceeds_any_width), SEEN(few_lines_show_running_tasks_and_summarize_the_rest),
      SEEN(unknown_value_is_a_dash_and_never_zero), SEEN(head_shows_states_other_than_running),
      SEEN(terminal_shows_the_table_at_each_width),
      SEEN(table_is_redrawn_when_the_window_is_resized),
      SEEN(hostile_names_do_not_reach_the_terminal), SEEN(every_event_of_the_list_has_a_line),
      SEEN(streamed_text_makes_no_line), SEEN(lines_are_terse_and_say_where),
      SEEN(hostile_events_are_shown_escaped), SEEN(end_has_a_line_for_each_task),
      SEEN(completed_feature_suggests_no_resume), SEEN(F34_banner_shows_parallel_and_its_source),
      SEEN(F30_banner_shows_the_enforced_deadlines));
