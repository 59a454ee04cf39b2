#include "helpers.h"
#include "page.h"

#include <stdio.h>
#include <stdlib.h>

#include "feature/report/report.h"

/* A hostile name, as JSON text. */
#define HOSTILE    "<script>alert(1)</script>\\\"'&<img src=x onerror=y>\\u001b[31m\\u202e"
#define TIME(rest) "\"2026-11-16T10:" rest ".000Z\""

struct scene {
    struct bl_arena arena;
    struct bl_list records;
    struct bl_feature_view *view;
    struct bl_buffer html;
    struct bl_buffer text;
};

static void put(struct scene *scene, const char *name, const char *json)
{
    struct bl_row *record = bl_arena_zalloc(&scene->arena, sizeof *record);
    record->name = bl_arena_text(&scene->arena, bl_text_from(name)).data;
    record->json = bl_arena_text(&scene->arena, bl_text_from(json));
    bl_list_push_back(&scene->records, &record->link);
}

static void scene_begin(struct scene *scene)
{
    bl_arena_init(&scene->arena);
    bl_list_init(&scene->records);
    bl_buffer_init(&scene->html, (size_t)64 << 20);
    bl_buffer_init(&scene->text, (size_t)64 << 20);
}

static void scene_print(struct scene *scene)
{
    assert_int_equal(bl_feature_view_make(&scene->arena, &scene->records, &scene->view, NULL), 0);
    assert_int_equal(bl_feature_report_html(scene->view, &scene->html), 0);
    assert_int_equal(bl_feature_report_text(scene->view, &scene->text), 0);
}

static void scene_end(struct scene *scene)
{
    bl_buffer_done(&scene->html);
    bl_buffer_done(&scene->text);
    bl_arena_done(&scene->arena);
}

static void put_turn(struct scene *scene, const char *task, unsigned attempt, unsigned turn,
                     const char *decision, unsigned start_s, const char *more)
{
    char name[96], json[4096];
    snprintf(name, sizeof name, "turn/%s/%03u/%04u", task, attempt, turn);
    snprintf(json, sizeof json,
             "{\"task\":\"%s\",\"attempt\":%u,\"turn\":%u,\"merge\":false,\"counted\":true,"
             "\"started_at\":\"2026-11-16T10:00:%02u.000Z\","
             "\"ended_at\":\"2026-11-16T10:00:%02u.000Z\",\"decision\":\"%s\",\"phases\":["
             "{\"phase\":\"player\",\"started_at\":\"2026-11-16T10:00:%02u.000Z\","
             "\"ended_at\":\"2026-11-16T10:00:%02u.000Z\",\"ms\":5000,\"outcome\":\"ended\"},"
             "{\"phase\":\"verify\",\"started_at\":\"2026-11-16T10:00:%02u.000Z\","
             "\"ended_at\":\"2026-11-16T10:00:%02u.000Z\",\"ms\":2000,\"outcome\":\"ended\"},"
             "{\"phase\":\"coach\",\"started_at\":\"2026-11-16T10:00:%02u.000Z\","
             "\"ended_at\":\"2026-11-16T10:00:%02u.000Z\",\"ms\":1000,\"outcome\":\"stopped\"}]%s}",
             task, attempt, turn, start_s, start_s + 8, decision, start_s, start_s + 5, start_s + 5,
             start_s + 7, start_s + 7, start_s + 8, more);
    put(scene, name, json);
}

static void put_stopped(struct scene *scene)
{
    put(scene, "task/T3",
        "{\"id\":\"T3\",\"name\":\"Third\",\"wave\":2,\"state\":\"cancelled\","
        "\"decision\":\"cancelled\",\"attempt\":2,\"turn\":2,\"turns_counted\":1,\"turns_max\":5,"
        "\"started_at\":" TIME("00:40") ",\"ended_at\":" TIME(
            "00:52") ",\"elapsed_s\":12,"
                     "\"deadline_s\":600,\"reason\":\"user\",\"triggered_by\":\"user\","
                     "\"receipt\":\"rcp_two\",\"spent\":{\"input_tokens\":1000000,\"output_"
                     "tokens\":234567,"
                     "\"cost_usd\":1.5,\"cost_usd_max\":2},\"checkpoint\":{\"turn\":2,\"phase\":"
                     "\"coach\","
                     "\"marker\":\"cancelled_mid_turn\",\"requested_at\":" TIME(
                         "00:51") ","
                                  "\"dirty_files\":[\"" HOSTILE "\"]}}");
    put(scene, "attempt/T3/001",
        "{\"id\":\"T3\",\"state\":\"timed_out\",\"decision\":\"timeout\",\"attempt\":1,"
        "\"started_at\":" TIME("00:10") ",\"ended_at\":" TIME(
            "00:19") ",\"elapsed_s\":9,"
                     "\"deadline_s\":9,\"reason\":\"timeout\",\"triggered_by\":\"timer\","
                     "\"receipt\":\"rcp_one\",\"message\":\"" HOSTILE "\"}");
    put(scene, "attempt/T3/002", "{\"id\":\"T3\",\"attempt\":2,\"elapsed_s\":12}");
    put(scene, "receipt/rcp_one",
        "{\"id\":\"rcp_one\",\"scope\":\"T3\",\"reason\":\"timeout\",\"origin\":\"deadline\","
        "\"requested_at\":" TIME(
            "00:19") ",\"observed_ms\":0.4,\"quiet_ms\":206.1,"
                     "\"mechanism\":\"cgroup2\",\"survivors\":0,\"units\":[{\"kind\":\"command\","
                     "\"id\":\"T3\",\"name\":\"" HOSTILE
                     "\",\"fate\":\"killed\",\"ms\":203,\"processes\":4,"
                     "\"signal\":\"KILL\"}]}");
    put(scene, "receipt/rcp_two",
        "{\"id\":\"rcp_two\",\"scope\":\"T3\",\"reason\":\"user\",\"origin\":\"" HOSTILE "\","
        "\"requested_at\":" TIME("00:51") ",\"observed_ms\":0.1,\"quiet_ms\":3,"
                                          "\"mechanism\":\"pidns\",\"survivors\":0,\"units\":[{"
                                          "\"kind\":\"model\",\"id\":\"m\","
                                          "\"fate\":\"aborted\",\"detail\":\"" HOSTILE "\"}]}");
    put(scene, "receipt/rcp_run",
        "{\"id\":\"rcp_run\",\"scope\":\"run_1\",\"reason\":\"signal\",\"origin\":\"SIGINT\","
        "\"requested_at\":" TIME("00:53") ",\"quiet_ms\":10,\"survivors\":0,\"units\":[]}");
}

/* Two waves, a task whose name is a script, two stopped attempts, and a stopped feature. */
static void put_feature(struct scene *scene)
{
    put(scene, "feature",
        "{\"feature\":\"F\",\"name\":\"" HOSTILE "\",\"run_id\":\"run_1\",\"state\":\"cancelled\","
        "\"started_at\":" TIME("00:00") ",\"ended_at\":" TIME(
            "00:54") ",\"exit_code\":130,"
                     "\"reason\":\"signal\",\"origin\":\"SIGINT\",\"receipt\":\"rcp_run\","
                     "\"error\":{\"message\":\"" HOSTILE "\",\"hint\":\"" HOSTILE "\"},"
                     "\"warnings\":[\"" HOSTILE "\"],\"unverified\":true}");
    put(scene, "wave/001",
        "{\"n\":1,\"state\":\"completed\",\"gate\":\"absent\",\"started_at\":" TIME(
            "00:00") ","
                     "\"ended_at\":" TIME("00:30") ",\"message\":\"" HOSTILE "\"}");
    put(scene, "task/T1",
        "{\"id\":\"T1\",\"name\":\"" HOSTILE "\",\"wave\":1,\"state\":\"completed\","
        "\"decision\":\"approved\",\"attempt\":1,\"turn\":2,\"turns_counted\":2,\"turns_max\":5,"
        "\"verified\":\"none\",\"started_at\":" TIME("00:00") ",\"ended_at\":" TIME(
            "00:20") ","
                     "\"elapsed_s\":20,\"deadline_s\":2400,\"grace_s\":120,\"merged\":true,"
                     "\"spent\":{\"input_tokens\":12000,\"output_tokens\":345,\"cost_usd\":0.125,"
                     "\"cost_usd_max\":0.125}}");
    put(scene, "task/T2",
        "{\"id\":\"T2\",\"name\":\"Second\",\"wave\":1,\"state\":\"failed\","
        "\"decision\":\"stalled\",\"attempt\":1,\"turn\":1,\"turns_counted\":1,\"turns_max\":5,"
        "\"message\":\"" HOSTILE "\"}");
    put_stopped(scene);
    put_turn(scene, "T1", 1, 1, "feedback", 1,
             ",\"feedback\":\"" HOSTILE "\\u0000\",\"issues\":[{\"severity\":\"critical\","
             "\"source\":\"coach\",\"file\":\"" HOSTILE "\",\"line\":12,"
             "\"description\":\"" HOSTILE "\\u0000\",\"suggestion\":\"" HOSTILE "\"}],"
             "\"verdict\":{\"rationale\":\"" HOSTILE "\",\"criteria\":[{\"id\":\"" HOSTILE "\","
             "\"result\":\"" HOSTILE "\",\"notes\":\"" HOSTILE "\"}]},"
             "\"verify\":{\"value\":\"failed\",\"why\":\"" HOSTILE "\\u0000\",\"tail\":\"" HOSTILE
             "\","
             "\"runs\":[{\"command\":\"" HOSTILE "\",\"exit_code\":1,\"ms\":5}]}");
    put_turn(scene, "T1", 1, 2, "approve", 11, "");
    put_turn(scene, "T3", 1, 1, HOSTILE, 10, "");
    put_turn(scene, "T3", 2, 2, "cancelled", 42, "");
}

static size_t count_in(const struct bl_buffer *text, const char *needle)
{
    struct bl_text rest = bl_buffer_text(text), word = bl_text_from(needle);
    size_t count = 0;
    for (ptrdiff_t at; (at = bl_text_find(rest, word)) >= 0; count++) {
        rest.data += (size_t)at + word.size;
        rest.size -= (size_t)at + word.size;
    }
    return count;
}

static void end_string(struct bl_buffer *text)
{
    assert_int_equal(bl_buffer_append_byte(text, '\0'), 0);
    text->size--;
}

/* ---- F50 ------------------------------------------------------------------------------------- */

static void F50_script_in_a_name_is_text_and_the_file_is_complete(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    scene_print(&scene);
    end_string(&scene.html);
    assert_true(page_check(bl_buffer_text(&scene.html)) > 100);
    assert_int_equal(count_in(&scene.html, "<script"), 0);
    assert_true(count_in(&scene.html, "&lt;script&gt;alert(1)") > 10);
    scene_end(&scene);
}

static void F50_report_has_no_external_references(void **state)
{
    static const char *const outside[] = {"://",  "src=\"",  "url(",    "@import", "<link",
                                          "<img", "<iframe", "<object", "<svg",    "javascript:"};
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    scene_print(&scene);
    for (size_t i = 0; i < BL_COUNT(outside); i++)
        assert_int_equal(count_in(&scene.html, outside[i]), 0);
    assert_int_equal(count_in(&scene.html, "default-src 'none'; style-src 'unsafe-inline'"), 1);
    scene_end(&scene);
}

static void F50_each_wave_has_one_lane(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    scene_print(&scene);
    assert_int_equal(scene.view->wave_count, 2);
    assert_int_equal(count_in(&scene.html, "<section class=\"lane\""), 2);
    assert_int_equal(count_in(&scene.html, "<div class=\"row\">"), 3);
    assert_int_equal(count_in(&scene.html, "<span class=\"bar "), 12);
    assert_int_equal(count_in(&scene.html, "<span class=\"bar coach stopped\""), 4);
    assert_int_equal(count_in(&scene.text, "\nWave "), 2);
    scene_end(&scene);
}

static void F50_every_stop_has_its_receipt(void **state)
{
    static const char *const receipts[] = {"rcp_one", "rcp_two", "rcp_run"};
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    scene_print(&scene);
    assert_int_equal(count_in(&scene.html, "<details class=\"stop\">"), 3);
    assert_int_equal(count_in(&scene.html, "Stopped in 206 ms: 4 processes. Nothing left running."),
                     1);
    assert_int_equal(count_in(&scene.text, "Stopped in 206 ms: 4 processes. Nothing left running."),
                     1);
    for (size_t i = 0; i < BL_COUNT(receipts); i++) {
        char line[64];
        snprintf(line, sizeof line, "receipt %s:", receipts[i]);
        assert_int_equal(count_in(&scene.html, receipts[i]), 1);
        assert_int_equal(count_in(&scene.text, line), 1);
    }
    /* Reason and origin appear once if they are equal. */
    assert_int_equal(count_in(&scene.text, "\n    user\n"), 1);
    assert_int_equal(count_in(&scene.text, "\n    timeout, by timer\n"), 1);
    assert_int_equal(count_in(&scene.html, "attempt 2: user <"), 1);
    assert_int_equal(count_in(&scene.html, "by user"), 0);
    /* Both attempts are marked where they were stopped. */
    assert_int_equal(count_in(&scene.html, "<span class=\"mark stop\" style=\"left"), 2);
    assert_int_equal(count_in(&scene.html, "<span class=\"mark merge\" style=\"left"), 1);
    scene_end(&scene);
}

static void F50_text_and_html_give_the_same_numbers(void **state)
{
    static const struct {
        const char *text;
        const char *html;
        const char *numbers; /* attempts, turns, time, tokens, cost */
    } rows[] = {
        {"T1", "<tr id=\"task-1\">", "1 2/5 20 s 12,345 $0.1250"},
        {"T2", "<tr id=\"task-2\">", "1 1/5 – – –"},
        {"T3", "<tr id=\"task-3\">", "2 1/5 21 s 1,234,567 $1.5000"},
        {"Total", "<tr id=\"total\">", "4 4 41 s 1,246,912 $1.6250"},
    };
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    scene_print(&scene);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        char html[256] = "", text[256] = "";
        page_html_numbers(bl_buffer_text(&scene.html), rows[i].html, html);
        page_text_numbers(bl_buffer_text(&scene.text), rows[i].text, text);
        assert_string_equal(html, rows[i].numbers);
        assert_string_equal(text, rows[i].numbers);
    }
    assert_int_equal(count_in(&scene.html, "40m + 2m coach grace"), 2);
    assert_int_equal(count_in(&scene.text, "40m + 2m coach grace"), 1);
    assert_int_equal(count_in(&scene.html, "completed: approved, not verified"), 3);
    assert_int_equal(count_in(&scene.text, "completed: approved, not verified"), 1);
    scene_end(&scene);
}

/* ---- Hostile text and edge cases ------------------------------------------------------------- */

static void check_plain(const struct bl_buffer *out)
{
    assert_true(bl_utf8_valid(bl_buffer_text(out)));
    for (size_t i = 0; i < out->size; i++) {
        unsigned char byte = (unsigned char)out->data[i];
        assert_true(byte == '\n' || (byte >= 0x20 && byte != 0x7f));
    }
    assert_int_equal(count_in(out, "\xe2\x80\xae"), 0);
}

static void hostile_text_is_shown_escaped(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    scene_print(&scene);
    check_plain(&scene.html);
    check_plain(&scene.text);
    assert_true(count_in(&scene.html, "\\x1b[31m\\u202e") > 10);
    assert_true(count_in(&scene.text, "\\x1b[31m\\u202e") > 5);
    scene_end(&scene);
}

static void turn_shows_the_words_of_player_and_coach(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put(&scene, "task/T1", "{\"id\":\"T1\",\"state\":\"failed\",\"attempt\":1}");
    put_turn(&scene, "T1", 1, 1, "feedback", 1,
             ",\"player\":{\"text\":\"t\",\"result\":{\"summary\":\"all done\"}},"
             "\"verdict\":{\"rationale\":\"not yet\",\"criteria\":[{\"id\":\"AC-001\","
             "\"result\":\"verified\"},{\"id\":\"AC-002\",\"result\":\"rejected\","
             "\"notes\":\"why\"}]}");
    scene_print(&scene);
    assert_int_equal(count_in(&scene.html, "all done"), 1);
    assert_int_equal(count_in(&scene.html, "not yet"), 1);
    assert_int_equal(count_in(&scene.text, "not yet"), 1);
    assert_int_equal(count_in(&scene.html, "AC-001</td><td class=\"good\">verified</td>"), 1);
    assert_int_equal(count_in(&scene.html, "AC-002</td><td class=\"bad\">rejected</td><td>"
                                           "<span class=\"lines\">why</span>"),
                     1);
    scene_end(&scene);
}

static void invalid_utf8_is_replaced(void **state)
{
    struct bl_task_view task = {.row = {.id = "T\xff<",
                                        .name = BL_TEXT("\xc3\x28\xf0\x9f"),
                                        .wave = 1,
                                        .elapsed_s = -1,
                                        .late_ms = -1},
                                .deadline_s = -1};
    struct bl_wave_view wave = {
        .n = 1, .state = "running", .tasks = (struct bl_task_view *[]){&task}, .task_count = 1};
    struct bl_feature_view view = {.feature = "\xff",
                                   .name = "\xed\xa0\x80",
                                   .state = "running",
                                   .exit_code = -1,
                                   .tasks = &task,
                                   .task_count = 1,
                                   .waves = &wave,
                                   .wave_count = 1};
    struct bl_buffer html, text;
    (void)state;
    bl_buffer_init(&html, (size_t)1 << 20);
    bl_buffer_init(&text, (size_t)1 << 20);
    assert_int_equal(bl_feature_report_html(&view, &html), 0);
    assert_int_equal(bl_feature_report_text(&view, &text), 0);
    check_plain(&html);
    check_plain(&text);
    end_string(&html);
    page_check(bl_buffer_text(&html));
    bl_buffer_done(&html);
    bl_buffer_done(&text);
}

static void feature_without_records_has_a_report(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    scene_print(&scene);
    end_string(&scene.html);
    page_check(bl_buffer_text(&scene.html));
    assert_true(count_in(&scene.text, REPORT_UNKNOWN) > 5);
    scene_end(&scene);
}

static void lines_of_the_text_have_80_columns(void **state)
{
    struct scene scene;
    struct bl_text rest, line;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    put(&scene, "task/TASK-WITH-A-VERY-LONG-NAME-THAT-FITS-NOWHERE-BUT-IS-ALLOWED-064CHA",
        "{\"state\":\"failed\",\"wave\":3,\"message\":\"one word after another, so that this "
        "becomes a sentence which needs more than a single line of text on a terminal\"}");
    put(&scene, "receipt/rcp_long",
        "{\"id\":\"rcp_long\",\"scope\":\"run_1\",\"quiet_ms\":1,\"survivors\":12,\"units\":["
        "{\"kind\":\"model\"},{\"kind\":\"tool\"},{\"kind\":\"cell\"},{\"kind\":\"agent\"},"
        "{\"kind\":\"command\"},{\"kind\":\"turn\"},{\"kind\":\"task\"}]}");
    scene_print(&scene);
    rest = bl_buffer_text(&scene.text);
    while (bl_text_split(&rest, '\n', &line)) {
        /* A single untrusted word may exceed the width. */
        if (bl_utf8_count(line) > 80 && bl_text_find(line, BL_TEXT("<script>")) < 0)
            fail_msg("%zu columns: %.*s", bl_utf8_count(line), (int)line.size, line.data);
    }
    assert_int_equal(count_in(&scene.text, "Still running: 12 processes."), 1);
    scene_end(&scene);
}

/* From a newer belay, or damaged: known values are shown, and nothing is invented. */
static void newer_or_damaged_receipt_is_shown_without_claims(void **state)
{
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put(&scene, "receipt/rcp_new",
        "{\"id\":\"rcp_new\",\"scope\":\"run_9\",\"reason\":\"weather\",\"origin\":7,\"newer\":[],"
        "\"requested_at\":\"2026-11-16T10:00:07.5Z\",\"mechanism\":\"vm\",\"units\":["
        "{\"kind\":\"robot\",\"id\":\"r2\",\"fate\":\"paused\",\"ms\":\"soon\"},3]}");
    put(&scene, "task/A",
        "{\"state\":\"cancelled\",\"attempt\":1,\"wave\":1,\"checkpoint\":{\"turn\":2,"
        "\"phase\":\"dreaming\",\"marker\":\"half\",\"reason\":\"moon\",\"dirty_files\":[\"a.c\"]}"
        "}");
    scene_print(&scene);
    assert_int_equal(count_in(&scene.text, "Nothing left running"), 0);
    assert_int_equal(count_in(&scene.html, "Nothing left running"), 0);
    assert_int_equal(count_in(&scene.text,
                              "2026-11-16T10:00:07.500Z  run_9\n    weather, by " REPORT_UNKNOWN
                              "\n    Stopped. Could not verify: reason unknown.\n"
                              "    receipt rcp_new: mechanism vm, survivors " REPORT_UNKNOWN "\n"),
                     1);
    assert_int_equal(count_in(&scene.html,
                              "<tr><td>robot</td><td class=\"mono\">r2</td><td>paused</td>"
                              "<td class=\"num\">" REPORT_UNKNOWN
                              "</td><td class=\"num\">" REPORT_UNKNOWN
                              "</td><td class=\"num\">" REPORT_UNKNOWN "</td>"),
                     1);
    assert_int_equal(count_in(&scene.html, REPORT_UNKNOWN " ms"), 2);
    assert_int_equal(count_in(&scene.text,
                              "    moon, by " REPORT_UNKNOWN
                              "\n    No receipt: nothing was running.\n"
                              "    checkpoint: turn 2, dreaming, half, 1 uncommitted file\n"),
                     1);
    scene_end(&scene);
}

static void night_between_two_attempts_is_a_short_break(void **state)
{
    struct report report;
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    put(&scene, "task/A",
        "{\"state\":\"completed\",\"attempt\":2,\"wave\":1,"
        "\"started_at\":\"2026-11-17T08:00:00.000Z\",\"ended_at\":\"2026-11-17T08:01:00.000Z\"}");
    put(&scene, "attempt/A/001",
        "{\"id\":\"A\",\"state\":\"interrupted\",\"attempt\":1,"
        "\"started_at\":\"2026-11-16T18:00:00.000Z\",\"ended_at\":\"2026-11-16T18:01:00.000Z\"}");
    scene_print(&scene);
    report_make(scene.view, &report);
    assert_int_equal(report.axis.count, 3);
    assert_true(report.axis.stretches[1].idle);
    assert_true(report.axis.stretches[1].to - report.axis.stretches[1].from < 0.05);
    assert_true(report.axis.stretches[0].to > 0.4);
    assert_true(report_axis_at(&report.axis, 0) == 0);
    assert_true(report_axis_at(&report.axis, INT64_MAX) == 1);
    assert_string_equal(report.axis.ticks[0].label, "18:00:00");
    assert_int_equal(count_in(&scene.html, "11-17 08:00:00"), 1);
    report_done(&report);
    scene_end(&scene);
}

static void report_that_does_not_fit_is_an_error(void **state)
{
    struct scene scene;
    struct bl_buffer small;
    (void)state;
    scene_begin(&scene);
    put_feature(&scene);
    scene_print(&scene);
    bl_buffer_init(&small, 2000);
    assert_int_equal(bl_feature_report_html(scene.view, &small), BL_ELIMIT);
    bl_buffer_clear(&small);
    small.maximum = 1000;
    assert_int_equal(bl_feature_report_text(scene.view, &small), BL_ELIMIT);
    bl_buffer_done(&small);
    scene_end(&scene);
}

/* The largest plan, with five turns per task. */
static void report_of_500_tasks_is_made(void **state)
{
    unsigned long tasks = suite_rounds(100, 500);
    struct scene scene;
    (void)state;
    scene_begin(&scene);
    for (unsigned long i = 0; i < tasks; i++) {
        char id[32], name[64], row[256];
        snprintf(id, sizeof id, "TASK-%03lu", i);
        snprintf(name, sizeof name, "task/%s", id);
        snprintf(row, sizeof row,
                 "{\"id\":\"%s\",\"wave\":%lu,\"state\":\"completed\",\"attempt\":1,"
                 "\"started_at\":" TIME("00:00") ",\"ended_at\":" TIME("00:50") "}",
                 id, i / 5 + 1);
        put(&scene, name, row);
        for (unsigned turn = 1; turn <= 5; turn++)
            put_turn(&scene, id, 1, turn, "feedback", turn * 8, "");
    }
    scene_print(&scene);
    end_string(&scene.html);
    page_check(bl_buffer_text(&scene.html));
    assert_int_equal(count_in(&scene.html, "<span class=\"bar "), tasks * 15);
    scene_end(&scene);
}

SUITE(report, cmocka_unit_test(F50_script_in_a_name_is_text_and_the_file_is_complete),
      cmocka_unit_test(F50_report_has_no_external_references),
      cmocka_unit_test(F50_each_wave_has_one_lane),
      cmocka_unit_test(F50_every_stop_has_its_receipt),
      cmocka_unit_test(F50_text_and_html_give_the_same_numbers),
      cmocka_unit_test(hostile_text_is_shown_escaped),
      cmocka_unit_test(turn_shows_the_words_of_player_and_coach),
      cmocka_unit_test(invalid_utf8_is_replaced),
      cmocka_unit_test(feature_without_records_has_a_report),
      cmocka_unit_test(lines_of_the_text_have_80_columns),
      cmocka_unit_test(newer_or_damaged_receipt_is_shown_without_claims),
      cmocka_unit_test(night_between_two_attempts_is_a_short_break),
      cmocka_unit_test(report_that_does_not_fit_is_an_error),
      cmocka_unit_test(report_of_500_tasks_is_made));
