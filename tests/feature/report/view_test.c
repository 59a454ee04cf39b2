#include "helpers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "feature/report/report.h"

/* ---- Records, and a view of them ------------------------------------------------------------- */

struct scene {
    struct bl_arena arena;
    struct bl_list records;
};

static void scene_begin(struct scene *scene)
{
    bl_arena_init(&scene->arena);
    bl_list_init(&scene->records);
}

static void scene_put(struct scene *scene, const char *name, const char *json)
{
    struct bl_row *record = bl_arena_zalloc(&scene->arena, sizeof *record);
    record->name = name;
    record->json = bl_text_from(json);
    bl_list_push_back(&scene->records, &record->link);
}

static struct bl_feature_view *scene_view(struct scene *scene)
{
    struct bl_feature_view *view = NULL;
    struct bl_error error = {0};
    assert_int_equal(bl_feature_view_make(&scene->arena, &scene->records, &view, &error), 0);
    assert_non_null(view);
    return view;
}

static void scene_end(struct scene *scene)
{
    bl_arena_done(&scene->arena);
}

#define PLAN                                                                                       \
    "{\"id\":\"F\",\"name\":\"Feature\",\"digest\":\"sha256:00\",\"tasks\":["                      \
    "{\"id\":\"B\",\"name\":\"Second by name\",\"turns\":5,\"deadline_s\":2400,"                   \
    "\"deadline_source\":\"default\",\"grace_s\":120},"                                            \
    "{\"id\":\"A\",\"name\":\"First by name\",\"turns\":3},{\"id\":\"C\",\"name\":\"Third\"}],"    \
    "\"waves\":[[\"B\",\"A\"],[\"C\"]]}"

static void put_usual(struct scene *scene)
{
    scene_put(scene, "feature",
              "{\"feature\":\"F\",\"name\":\"Feature\",\"repository\":\"/r\",\"run_id\":\"run_1\","
              "\"state\":\"running\",\"plan_digest\":\"sha256:00\",\"base_commit\":\"abc\","
              "\"result_branch\":\"belay/F/_result\",\"result_commit\":null,"
              "\"started_at\":\"2026-11-16T10:00:00.000Z\",\"ended_at\":null,\"exit_code\":-1,"
              "\"parallel\":2,\"feature_deadline_s\":null,\"error\":null,"
              "\"warnings\":[\"one\",\"two\"]}");
    scene_put(scene, "plan", PLAN);
    scene_put(scene, "task/A",
              "{\"id\":\"A\",\"name\":\"First by name\",\"wave\":1,\"state\":\"completed\","
              "\"decision\":\"approved\",\"attempt\":1,\"turn\":2,\"turns_counted\":2,"
              "\"turns_max\":3,\"verified\":\"passed\",\"elapsed_s\":12.3456,\"deadline_s\":60,"
              "\"merged\":true,\"dirty\":false,\"spent\":{\"input_tokens\":10,"
              "\"output_tokens\":5,\"cost_usd\":0.25,\"cost_usd_max\":0.5}}");
    scene_put(scene, "task/B",
              "{\"id\":\"B\",\"wave\":1,\"state\":\"timed_out\",\"decision\":\"timeout\","
              "\"attempt\":1,\"turn\":1,\"reason\":\"timeout\",\"triggered_by\":\"timer\","
              "\"checkpoint\":{\"schema\":1},\"receipt\":\"rcp_b\",\"spent\":{\"input_tokens\":1,"
              "\"output_tokens\":2,\"cost_usd\":0.125,\"cost_usd_max\":0.125}}");
    scene_put(scene, "wave/001",
              "{\"n\":1,\"state\":\"completed\",\"gate\":\"passed\",\"tasks\":[\"B\",\"A\"]}");
    scene_put(scene, "receipt/rcp_b",
              "{\"id\":\"rcp_b\",\"requested_at\":\"2026-11-16T09:00:00.000Z\"}");
    scene_put(scene, "receipt/rcp_old",
              "{\"id\":\"rcp_old\",\"requested_at\":\"2026-11-15T09:00:00.000Z\"}");
    scene_put(scene, "receipt/rcp_new",
              "{\"id\":\"rcp_new\",\"requested_at\":\"2026-11-16T10:00:01.000Z\"}");
}

static size_t count_of(const struct bl_list *list)
{
    size_t count = 0;
    BL_LIST_EACH (link, list)
        count++;
    return count;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void tasks_are_in_plan_order(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    struct bl_feature_view *view = scene_view(&scene);
    assert_int_equal(view->task_count, 3);
    assert_string_equal(view->tasks[0].row.id, "B");
    assert_string_equal(view->tasks[1].row.id, "A");
    assert_string_equal(view->tasks[2].row.id, "C");
    assert_int_equal(view->wave_count, 2);
    assert_int_equal(view->waves[0].task_count, 2);
    assert_ptr_equal(view->waves[1].tasks[0], &view->tasks[2]);
    assert_string_equal(view->waves[1].state, "pending");
    assert_string_equal(view->waves[0].gate, "passed");
    assert_ptr_equal(bl_feature_view_task(view, BL_TEXT("A")), &view->tasks[1]);
    assert_null(bl_feature_view_task(view, BL_TEXT("AA")));
    scene_end(&scene);
}

static void values_of_the_plan_apply_until_the_row_has_others(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    struct bl_feature_view *view = scene_view(&scene);
    const struct bl_task_view *b = &view->tasks[0], *a = &view->tasks[1], *c = &view->tasks[2];
    assert_true(bl_text_equal(b->row.name, BL_TEXT("Second by name")));
    assert_true(b->deadline_s == 2400 && b->row.grace_s == 120);
    assert_string_equal(b->deadline_source, "default");
    assert_int_equal(b->row.turns_max, 5);
    assert_true(a->deadline_s == 60);
    assert_int_equal(c->row.state, BL_TASK_PENDING);
    assert_null(c->json);
    assert_true(c->deadline_s < 0 && c->row.elapsed_s < 0 && c->row.dirty == -1 &&
                !c->row.spent_known);
    scene_end(&scene);
}

static void sums_and_counts_match_the_tasks(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    struct bl_feature_view *view = scene_view(&scene);
    assert_int_equal(view->counts[BL_TASK_COMPLETED], 1);
    assert_int_equal(view->counts[BL_TASK_TIMED_OUT], 1);
    assert_int_equal(view->counts[BL_TASK_PENDING], 1);
    assert_true(view->spent_known);
    assert_int_equal(view->spent.usage.input_tokens, 11);
    assert_int_equal(view->spent.usage.output_tokens, 7);
    assert_true(view->spent.cost_usd == 0.375 && !view->spent.cost_unknown);
    assert_int_equal(view->warning_count, 2);
    assert_true(bl_text_equal(view->warnings[1].message, BL_TEXT("two")));
    scene_end(&scene);
}

static void receipts_of_earlier_runs_are_separate(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    struct bl_feature_view *view = scene_view(&scene);
    assert_int_equal(count_of(&view->receipts), 2);
    assert_int_equal(count_of(&view->earlier_receipts), 1);
    assert_string_equal(BL_CONTAINER(view->earlier_receipts.next, struct bl_row, link)->name,
                        "receipt/rcp_old");
    assert_string_equal(BL_CONTAINER(view->receipts.next, struct bl_row, link)->name,
                        "receipt/rcp_b");
    scene_end(&scene);
}

static void running_task_has_the_time_of_the_view(void **state)
{
    char row[512], started[32];
    struct scene scene;
    (void)state;
    bl_time_format(bl_clock_wall_ns(&bl_clock_system) - (int64_t)(100 * BL_NS_PER_S), started);
    snprintf(row, sizeof row,
             "{\"id\":\"A\",\"state\":\"running\",\"attempt\":1,\"started_at\":\"%s\","
             "\"deadline_s\":2400,\"elapsed_s\":null}",
             started);
    scene_begin(&scene);
    scene_put(&scene, "task/A", row);
    scene_put(&scene, "task/B",
              "{\"id\":\"B\",\"state\":\"running\",\"started_at\":\"2026-11-16T10:00:00.000Z\","
              "\"elapsed_s\":7,\"deadline_left_s\":3,\"deadline_s\":10}");
    scene_put(&scene, "task/C",
              "{\"id\":\"C\",\"state\":\"failed\",\"started_at\":\"2026-11-16T10:00:00.000Z\","
              "\"ended_at\":\"2026-11-16T10:00:01.500Z\",\"deadline_s\":10}");
    scene_put(&scene, "task/D",
              "{\"id\":\"D\",\"state\":\"running\",\"started_at\":\"2026-01-01T00:00:00.000Z\","
              "\"deadline_s\":10}");
    struct bl_feature_view *view = scene_view(&scene);
    assert_true(view->tasks[0].row.elapsed_s >= 100 && view->tasks[0].row.elapsed_s < 160);
    assert_true(fabs(view->tasks[0].deadline_left_s + view->tasks[0].row.elapsed_s - 2400) < 0.001);
    assert_true(view->tasks[1].row.elapsed_s == 7 && view->tasks[1].deadline_left_s == 3);
    assert_true(view->tasks[2].row.elapsed_s == 1.5 && view->tasks[2].deadline_left_s < 0);
    assert_true(view->tasks[3].deadline_left_s == 0);
    scene_end(&scene);
}

static void turns_are_sorted_oldest_first(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    scene_put(&scene, "turn/A/001/0010",
              "{\"task\":\"A\",\"attempt\":1,\"turn\":10,"
              "\"started_at\":\"2026-11-16T10:00:10.000Z\"}");
    scene_put(&scene, "turn/A/001/0002",
              "{\"task\":\"A\",\"attempt\":1,\"turn\":2,"
              "\"started_at\":\"2026-11-16T10:00:02.000Z\"}");
    scene_put(&scene, "turn/B/001/0001",
              "{\"task\":\"B\",\"attempt\":1,\"turn\":1,"
              "\"started_at\":\"2026-11-16T10:00:05.000Z\"}");
    scene_put(&scene, "turn/B/001/0002", "{\"task\":\"B\",\"attempt\":1,\"turn\":2}");
    struct bl_feature_view *view = scene_view(&scene);
    static const char *const names[] = {"turn/A/001/0002", "turn/B/001/0001", "turn/A/001/0010",
                                        "turn/B/001/0002"};
    size_t at = 0;
    BL_LIST_EACH (link, &view->turns)
        assert_string_equal(BL_CONTAINER(link, struct bl_row, link)->name, names[at++]);
    assert_int_equal(at, 4);
    scene_end(&scene);
}

static void wave_with_an_absent_gate_is_unverified(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    scene_put(&scene, "wave/002", "{\"n\":2,\"state\":\"completed\",\"gate\":\"absent\"}");
    assert_true(scene_view(&scene)->unverified);
    scene_end(&scene);
}

/* ---- Incomplete and invalid records ---------------------------------------------------------- */

static void no_records_make_an_empty_view(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    struct bl_feature_view *view = scene_view(&scene);
    assert_int_equal(view->task_count, 0);
    assert_int_equal(view->wave_count, 0);
    assert_string_equal(view->state, "pending");
    assert_null(view->feature);
    scene_end(&scene);
}

static void feature_without_plan_or_row_can_be_viewed(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    scene_put(&scene, "plan", PLAN);
    struct bl_feature_view *view = scene_view(&scene);
    assert_string_equal(view->feature, "F");
    assert_string_equal(view->name, "Feature");
    assert_int_equal(view->counts[BL_TASK_PENDING], 3);
    scene_end(&scene);

    scene_begin(&scene);
    scene_put(&scene, "task/X", "{\"state\":\"running\"}");
    view = scene_view(&scene);
    assert_int_equal(view->task_count, 1);
    assert_string_equal(view->tasks[0].row.id, "X");
    assert_true(bl_text_equal(view->tasks[0].row.name, BL_TEXT("X")));
    assert_int_equal(view->wave_count, 1);
    scene_end(&scene);
}

static void members_of_wrong_types_are_unknown(void **state)
{
    static const char *const names[] = {"feature", "plan",       "task/A",      "wave/1",
                                        "wave/x",  "turn/A/1/1", "attempt/A/1", "receipt/r"};
    static const char *const values[] = {
        "",
        "nonsense",
        "[]",
        "null",
        "{}",
        "{\"id\":1,\"state\":[],\"decision\":{},\"attempt\":-1,\"turn\":1e300,\"wave\":99999999,"
        "\"elapsed_s\":1e300,\"deadline_s\":\"x\",\"spent\":[],\"checkpoint\":3,\"dirty\":1,"
        "\"tasks\":{\"a\":1},\"waves\":[1,[2,{}]],\"started_at\":\"9999-99-99T00:00:00.000Z\","
        "\"phases\":[1,{\"phase\":2,\"started_at\":3}],\"error\":1,\"warnings\":[1,{}],"
        "\"exit_code\":70000,\"n\":\"x\",\"task\":[],\"units\":7,\"merged\":\"yes\"}",
        "{\"id\":\"A\",\"task\":\"A\",\"attempt\":1,\"turn\":1,\"state\":\"running\","
        "\"started_at\":\"2026-11-16T10:00:00.000Z\",\"elapsed_s\":-5,\"tasks\":[{\"id\":\"\"},7],"
        "\"phases\":[{\"phase\":\"player\",\"started_at\":\"2026-11-16T10:00:00.000Z\","
        "\"ended_at\":\"2026-11-16T09:00:00.000Z\",\"ms\":1e200}],\"deadline_s\":1e9,"
        "\"requested_at\":\"2200-12-31T23:59:59.999Z\",\"ended_at\":\"1970-01-01T00:00:00.000Z\"}",
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(names) * BL_COUNT(values); i++) {
        struct scene scene;
        struct bl_buffer out;
        scene_begin(&scene);
        if (i % 2 == 0)
            put_usual(&scene);
        scene_put(&scene, names[i / BL_COUNT(values)], values[i % BL_COUNT(values)]);
        struct bl_feature_view *view = scene_view(&scene);
        bl_buffer_init(&out, (size_t)1 << 20);
        assert_int_equal(bl_feature_report_text(view, &out), 0);
        assert_int_equal(bl_feature_report_html(view, &out), 0);
        bl_buffer_done(&out);
        scene_end(&scene);
    }
}

static void unreadable_record_is_a_warning(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    scene_put(&scene, "task/A", "{\"id\":");
    scene_put(&scene, "output/A/1/1/player", "not looked at");
    struct bl_feature_view *view = scene_view(&scene);
    assert_int_equal(view->warning_count, 1);
    assert_true(bl_text_find(view->warnings[0].message, BL_TEXT("task/A")) >= 0);
    scene_end(&scene);
}

static void times_are_read_as_written(void **state)
{
    static const int64_t times_ms[] = {
        0, 951782400000, 1709164800123, 1800000000999, 4102444799000, 1763287207000};
    (void)state;
    for (size_t i = 0; i < BL_COUNT(times_ms); i++) {
        char text[32];
        int64_t read_ms;
        bl_time_format(times_ms[i] * (int64_t)BL_NS_PER_MS, text);
        assert_true(view_time_read(text, &read_ms));
        assert_int_equal(read_ms, times_ms[i]);
    }
    static const char *const wrong[] = {
        "",
        "2026",
        "2026-13-16T10:00:00.000Z",
        "2026-11-16T24:00:00.000Z",
        "2026-11-16T10:00:00.000Zx",
        "2026-11-16 10:00:00.000Z",
        "9999-11-16T10:00:00.000Z",
    };
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        int64_t read_ms;
        assert_false(view_time_read(wrong[i], &read_ms));
    }
    assert_false(view_time_read(NULL, &(int64_t){0}));
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Returns the object of an envelope, parsed again. */
static const struct bl_json *written(struct scene *scene, const struct bl_feature_view *view,
                                     const char *before, const char *after)
{
    struct bl_buffer out, all;
    struct bl_json_writer writer;
    const struct bl_json *value = NULL;
    bl_buffer_init(&out, (size_t)1 << 20);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_feature_view_record, view);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_init(&all, (size_t)1 << 20);
    bl_buffer_printf(&all, "{%s" BL_TEXT_FORMAT "%s}", before, (int)out.size - 2, out.data + 1,
                     after);
    assert_int_equal(bl_json_read(&scene->arena, bl_buffer_text(&all), NULL, &value, NULL), 0);
    bl_buffer_done(&all);
    bl_buffer_done(&out);
    return value;
}

static void check_names(const struct bl_json *object, const char *names)
{
    struct bl_text rest = bl_text_from(names), name;
    BL_JSON_MEMBERS (key, object) {
        assert_true(bl_text_split(&rest, ' ', &name));
        if (!bl_text_equal(bl_json_text(key), name))
            fail_msg("'%s' in the place of '" BL_TEXT_FORMAT "'", bl_json_text(key).data,
                     BL_TEXT_ARG(name));
    }
    assert_int_equal(rest.size, 0);
}

static void envelope_has_exactly_the_specified_members(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    const struct bl_json *value = written(&scene, scene_view(&scene), "", "");
    check_names(value,
                "feature run_id state plan_digest base_commit result_branch result_commit "
                "waves counts deadline_s deadline_left_s unverified usage spent receipts warnings");
    const struct bl_json *wave = bl_json_pointer(value, BL_TEXT("/waves/0"));
    check_names(wave, "n state gate tasks");
    check_names(bl_json_pointer(wave, BL_TEXT("/tasks/1")),
                "id name state decision attempt turn turns_counted turns_max phase verified "
                "elapsed_s deadline_s deadline_source grace_s last_activity_at branch base_commit "
                "head_commit merged worktree dirty reason triggered_by spent checkpoint receipt "
                "message deadline_left_s");
    check_names(bl_json_get(value, BL_TEXT("counts")),
                "pending queued running stopping approved completed failed timed_out cancelled "
                "blocked interrupted skipped deferred");
    scene_end(&scene);
}

static void unknown_value_is_null_and_never_0(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    const struct bl_json *value = written(&scene, scene_view(&scene), "", "");
    const struct bl_json *c = bl_json_pointer(value, BL_TEXT("/waves/1/tasks/0"));
    static const char *const unknown[] = {
        "decision",         "phase", "verified", "elapsed_s",  "deadline_s", "deadline_left_s",
        "last_activity_at", "dirty", "spent",    "checkpoint", "receipt",    "message"};
    for (size_t i = 0; i < BL_COUNT(unknown); i++)
        assert_true(bl_json_is(bl_json_get(c, bl_text_from(unknown[i])), BL_JSON_NULL));
    double elapsed_s;
    assert_true(
        bl_json_double(bl_json_pointer(value, BL_TEXT("/waves/0/tasks/1/elapsed_s")), &elapsed_s));
    assert_true(elapsed_s == 12.346);
    scene_end(&scene);
}

static void waiting_task_has_no_deadline(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    scene_put(&scene, "plan", PLAN);
    struct bl_feature_view *view = scene_view(&scene);
    const struct bl_json *value = written(&scene, view, "", "");
    assert_true(view->tasks[0].deadline_s == 2400);
    assert_true(
        bl_json_is(bl_json_pointer(value, BL_TEXT("/waves/0/tasks/0/deadline_s")), BL_JSON_NULL));
    scene_end(&scene);
    scene_begin(&scene);
    scene_put(&scene, "plan", PLAN);
    scene_put(&scene, "task/B", "{\"id\":\"B\",\"state\":\"queued\",\"deadline_s\":60}");
    view = scene_view(&scene);
    value = written(&scene, view, "", "");
    assert_true(view->tasks[0].deadline_s == 60);
    assert_true(
        bl_json_is(bl_json_pointer(value, BL_TEXT("/waves/0/tasks/0/deadline_s")), BL_JSON_NULL));
    scene_end(&scene);
}

static void usage_covers_approved_tasks_and_spent_covers_all(void **state)
{
    struct scene scene;
    int64_t used, spent;
    (void)state;
    scene_begin(&scene);
    put_usual(&scene);
    const struct bl_json *value = written(&scene, scene_view(&scene), "", "");
    assert_true(bl_json_int64(bl_json_pointer(value, BL_TEXT("/usage/input_tokens")), &used));
    assert_true(bl_json_int64(bl_json_pointer(value, BL_TEXT("/spent/input_tokens")), &spent));
    assert_int_equal(used, 10);
    assert_int_equal(spent, 11);
    scene_end(&scene);
}

/* Checks a value against docs/schemas/NAME.json. */
static void check_schema(struct scene *scene, const char *name, const struct bl_json *value)
{
    char path[4096];
    const char *root = getenv("BELAY_SOURCE_ROOT");
    const struct bl_json *source = NULL;
    struct bl_json_schema *schema = NULL;
    struct bl_error error = {0};
    struct bl_list problems;
    snprintf(path, sizeof path, "%s/docs/schemas/%s.json", root != NULL ? root : ".", name);
    struct bl_text text = suite_read_file(path);
    assert_int_equal(bl_json_read(&scene->arena, text, NULL, &source, NULL), 0);
    if (bl_json_schema_new(source, &schema, &error) != 0)
        fail_msg("%s: %s", name, error.message);
    assert_int_equal(bl_json_schema_ignored(schema, 0).size, 0);
    int code = bl_json_schema_check(schema, value, &scene->arena, &problems);
    BL_LIST_EACH (link, &problems) {
        struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        print_error("%s: " BL_TEXT_FORMAT " " BL_TEXT_FORMAT "\n", name, BL_TEXT_ARG(problem->path),
                    BL_TEXT_ARG(problem->message));
    }
    assert_int_equal(code, 0);
    bl_json_schema_free(schema);
    bl_free((void *)text.data);
}

static void envelope_matches_its_schema(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    scene_put(&scene, "plan", PLAN);
    scene_put(
        &scene, "task/B",
        "{\"state\":\"timed_out\",\"decision\":\"timeout\",\"attempt\":2,\"phase\":\"player\","
        "\"reason\":\"timeout\",\"triggered_by\":\"timer\",\"receipt\":\"rcp_b\","
        "\"checkpoint\":{\"schema\":1,\"feature\":\"F\",\"task\":\"B\",\"attempt\":2,"
        "\"epoch\":7,\"turn\":3,\"phase\":\"player\",\"marker\":\"cancelled_mid_turn\","
        "\"reason\":\"timeout\",\"triggered_by\":\"timer\","
        "\"requested_at\":\"2026-11-16T10:00:00.000Z\",\"observed_at\":null,"
        "\"elapsed_s\":2400.02,\"deadline_s\":2400,\"base_commit\":null,"
        "\"head_commit\":null,\"dirty\":true,\"dirty_files\":[\"a\"],"
        "\"partial\":{\"player_text\":\"x\",\"player_result\":null,\"verify\":null,"
        "\"verdict\":null},\"feedback_turn\":2,\"late_verdict\":null,\"spent\":"
        "{\"input_tokens\":1,\"output_tokens\":2,\"cost_usd\":null,\"cost_usd_max\":null},"
        "\"receipt\":\"rcp_b\"}}");
    struct bl_feature_view *view = scene_view(&scene);
    const struct bl_json *value =
        written(&scene, view,
                "\"timestamp\":\"2026-11-16T10:00:00.000Z\",\"command\":\"feature\","
                "\"exit_code\":1,\"output_format\":\"json\",\"schema_version\":1,",
                ",\"plan_errors\":[]");
    check_schema(&scene, "feature", value);
    check_schema(&scene, "feature-checkpoint", view->tasks[0].checkpoint);
    scene_end(&scene);
}

static void events_match_their_schema(void **state)
{
    static const char *const events[] = {
        "\"type\":\"feature_started\",\"task\":null,\"resumed\":false,\"base_commit\":"
        "\"0123456789012345678901234567890123456789\",\"waves\":2,\"parallel\":1,\"already\":["
        "\"A\"]",
        "\"type\":\"deadline_armed\",\"task\":\"A\",\"attempt\":1,\"turn\":null,"
        "\"deadline_s\":2400,\"source\":\"default\",\"grace_s\":0",
        "\"type\":\"phase_ended\",\"task\":\"A\",\"attempt\":1,\"turn\":1,\"phase\":\"player\","
        "\"outcome\":\"stopped\",\"ms\":12",
        "\"type\":\"task_ended\",\"task\":\"A\",\"attempt\":1,\"turn\":1,\"state\":\"timed_out\","
        "\"decision\":\"timeout\",\"verified\":null,\"reason\":\"timeout\",\"triggered_by\":"
        "\"timer\","
        "\"elapsed_s\":2400.5,\"turns_counted\":1,\"receipt\":\"rcp_a\",\"message\":null",
        "\"type\":\"feature_ended\",\"task\":null,\"state\":\"failed\",\"exit_code\":1,"
        "\"reason\":null,\"result_commit\":null,\"unverified\":false",
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(events); i++) {
        struct scene scene;
        const struct bl_json *value = NULL;
        char line[1024];
        scene_begin(&scene);
        snprintf(line, sizeof line,
                 "{\"seq\":1,\"time\":\"2026-11-16T10:00:00.000Z\",\"run\":\"run_1\","
                 "\"feature\":\"F\",%s}",
                 events[i]);
        assert_int_equal(bl_json_read(&scene.arena, bl_text_from(line), NULL, &value, NULL), 0);
        check_schema(&scene, "feature-event", value);
        scene_end(&scene);
    }
}

/* ---- In words -------------------------------------------------------------------------------- */

static void check_words(struct bl_task_view *task, const char *expected)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    assert_string_equal(bl_task_view_text(&arena, task).data, expected);
    bl_arena_done(&arena);
}

static void F43_task_without_commands_is_approved_not_verified(void **state)
{
    struct bl_task_view task = {.row.state = BL_TASK_APPROVED,
                                .row.decision = BL_DECISION_APPROVED,
                                .row.verified = BL_VERIFIED_NONE,
                                .row.late_ms = -1};
    (void)state;
    check_words(&task, "approved, not verified");
    task.row.state = BL_TASK_COMPLETED;
    check_words(&task, "completed: approved, not verified");
    task.row.verified = BL_VERIFIED_PASSED;
    check_words(&task, "completed");
    task.row.state = BL_TASK_APPROVED;
    check_words(&task, "approved");
    task.row.decision = BL_DECISION_APPROVED_LATE;
    task.row.late_ms = 2000;
    check_words(&task, "approved 2 s late");
    task.row.verified = BL_VERIFIED_NONE;
    check_words(&task, "approved 2 s late, not verified");
}

static void text_shows_how_a_task_ended_and_why(void **state)
{
    struct bl_task_view task = {.row.state = BL_TASK_TIMED_OUT,
                                .row.decision = BL_DECISION_TIMEOUT,
                                .row.reason = BL_STOP_TIMEOUT,
                                .row.triggered_by = "timer"};
    (void)state;
    check_words(&task, "timed out: timeout, by timer");
    task.row.message = BL_TEXT("60 s left, \x1b[1m120 s\nneeded\xff");
    task.row.decision = BL_DECISION_TIMEOUT_BUDGET;
    check_words(&task, "timed out, too little time left for a turn: 60 s left, \\x1b[1m120 "
                       "s\\nneeded\xef\xbf\xbd");
    task = (struct bl_task_view){.row.state = BL_TASK_FAILED, .row.decision = BL_DECISION_STALLED};
    check_words(&task, "failed, stalled");
    task = (struct bl_task_view){.row.state = BL_TASK_RUNNING,
                                 .row.phase = BL_PHASE_VERIFY,
                                 .row.turn = 2,
                                 .row.turns_max = 5};
    check_words(&task, "running, verify, turn 2");
    task = (struct bl_task_view){.row.state = BL_TASK_QUEUED};
    check_words(&task, "queued");
    task = (struct bl_task_view){.row.state = BL_TASK_COMPLETED,
                                 .row.decision = BL_DECISION_ALREADY_COMPLETED};
    check_words(&task, "already completed");
}

SUITE(view, cmocka_unit_test(tasks_are_in_plan_order),
      cmocka_unit_test(values_of_the_plan_apply_until_the_row_has_others),
      cmocka_unit_test(sums_and_counts_match_the_tasks),
      cmocka_unit_test(receipts_of_earlier_runs_are_separate),
      cmocka_unit_test(running_task_has_the_time_of_the_view),
      cmocka_unit_test(turns_are_sorted_oldest_first),
      cmocka_unit_test(wave_with_an_absent_gate_is_unverified),
      cmocka_unit_test(no_records_make_an_empty_view),
      cmocka_unit_test(feature_without_plan_or_row_can_be_viewed),
      cmocka_unit_test(members_of_wrong_types_are_unknown),
      cmocka_unit_test(unreadable_record_is_a_warning), cmocka_unit_test(times_are_read_as_written),
      cmocka_unit_test(envelope_has_exactly_the_specified_members),
      cmocka_unit_test(unknown_value_is_null_and_never_0),
      cmocka_unit_test(waiting_task_has_no_deadline),
      cmocka_unit_test(usage_covers_approved_tasks_and_spent_covers_all),
      cmocka_unit_test(envelope_matches_its_schema), cmocka_unit_test(events_match_their_schema),
      cmocka_unit_test(F43_task_without_commands_is_approved_not_verified),
      cmocka_unit_test(text_shows_how_a_task_ended_and_why));
