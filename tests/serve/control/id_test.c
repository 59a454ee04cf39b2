/* Ids that several activities have. */
#include <signal.h>
#include <stdio.h>

#include "place.h"

static void names_are_kept_once_and_shown_as_far_as_there_is_room(void **state)
{
    struct serve_names names = {0};
    char text[64], more[20][24];
    (void)state;
    serve_names_add(&names, BL_TEXT("a/x"));
    serve_names_add(&names, BL_TEXT("a/x"));
    assert_int_equal(names.count, 1);
    serve_names_add(&names, BL_TEXT("b/x"));
    serve_names_text(&names, text, sizeof text);
    assert_string_equal(text, "a/x, b/x");
    for (int i = 0; i < 20; i++) {
        snprintf(more[i], sizeof more[i], "run_%03d/x", i);
        serve_names_add(&names, bl_text_from(more[i]));
    }
    serve_names_text(&names, text, sizeof text);
    assert_memory_equal(text, "a/x, b/x, run_000/x", 19);
    assert_true(bl_text_ends_with(bl_text_from(text), BL_TEXT(" more")));
}

static const struct {
    struct bl_activity activity;
    const char *name;
} named[] = {
    {{.kind = "run", .id = "run_1", .session = "s"}, "run_1"},
    {{.kind = "agent", .id = "agent_1", .session = "s2", .run = "run_1"}, "run_1/agent_1"},
    {{.kind = "call", .id = "call_1", .session = "s", .run = "run_1"}, "run_1/call_1"},
    {{.kind = "cell", .id = "c", .session = "s"}, "s/c"},
    {{.kind = "job", .id = "job_1", .session = "s"}, "s/job_1"},
    {{.kind = "feature", .id = "run_2", .session = "FEAT-1"}, "run_2"},
    {{.kind = "task", .id = "TASK-1", .session = "FEAT-1"}, "FEAT-1/TASK-1"},
    {{.kind = "task", .id = "FEAT-1/TASK-1", .session = "FEAT-1"}, "FEAT-1/TASK-1"},
};

static void full_names_start_with_the_name_of_the_parent(void **state)
{
    char name[BL_ACTIVITY_NAME_SIZE];
    (void)state;
    for (size_t i = 0; i < BL_COUNT(named); i++) {
        bl_activity_name(&named[i].activity, name);
        assert_string_equal(name, named[i].name);
    }
}

/* ---- Over the socket ------------------------------------------------------------------------- */

/* Two cells with the same id, in two sessions of one process. */
static int same_id(void *argument)
{
    static struct served served;
    struct bl_scope scopes[2];
    struct bl_activity cells[2] = {{.kind = "cell", .id = "c1", .session = "one"},
                                   {.kind = "cell", .id = "c1", .session = "two"}};
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_text receipt;
    (void)argument;
    served_start(&served);
    for (size_t i = 0; i < 2; i++) {
        bl_scope_init(&scopes[i], bl_scope_current());
        cells[i].scope = &scopes[i];
        bl_activity_begin(&served.activities, &cells[i]);
    }
    CHECK_EQUAL(bl_control_cancel(&arena, "c1", NULL, false, &receipt, &error), BL_EEXIST);
    CHECK(strcmp(error.hint, "use one of the full names: one/c1, two/c1") == 0);
    /* Nor by a client that asks the process itself. */
    int fd = client_connect();
    client_send(fd,
                BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":"
                        "\"c1\"}}\n"));
    CHECK(strstr(client_line(fd),
                 "\"message\":\"several activities have that id: one/c1, two/c1\"") != NULL);
    CHECK(!bl_scope_stopped(&scopes[0]) && !bl_scope_stopped(&scopes[1]));
    client_send(fd,
                BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":"
                        "\"two/c1\",\"reason\":\"enough\"}}\n"));
    while (!bl_scope_stopped(&scopes[1]))
        bl_sleep(MS);
    struct bl_stop stop;
    bl_scope_stop_read(&scopes[1], &stop);
    CHECK(strcmp(stop.origin, "control: enough") == 0);
    CHECK(!bl_scope_stopped(&scopes[0]));
    bl_activity_end(&cells[1], BL_TEXT("{\"id\":\"rcp_1\"}"));
    CHECK(strstr(client_line(fd), "\"receipt\":{\"id\":\"rcp_1\"}") != NULL);
    close(fd);
    bl_activity_end(&cells[0], (struct bl_text){0});
    bl_scope_done(&scopes[0]);
    bl_scope_done(&scopes[1]);
    bl_arena_done(&arena);
    served_stop(&served);
    return 0;
}

static void an_ambiguous_id_stops_nothing(void **state)
{
    (void)state;
    run_in_loop(same_id, NULL);
}

static void hurry(struct bl_activity *activity)
{
    bl_text_into(activity->phase, sizeof activity->phase, "hurried");
}

static int now(void *argument)
{
    static struct served served;
    struct bl_scope scope;
    struct bl_activity activity = {.kind = "run", .id = "run_1", .session = "s", .hurry = hurry};
    (void)argument;
    served_start(&served);
    bl_scope_init(&scope, bl_scope_current());
    activity.scope = &scope;
    bl_activity_begin(&served.activities, &activity);
    int fd = client_connect();
    client_send(fd,
                BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"cancel\",\"params\":{\"id\":"
                        "\"s\",\"now\":true}}\n"));
    while (!bl_scope_stopped(&scope))
        bl_sleep(MS);
    CHECK(activity.hurried);
    CHECK(strcmp(activity.phase, "hurried") == 0);
    bl_activity_end(&activity, (struct bl_text){0});
    CHECK(strstr(client_line(fd), "\"result\":{\"receipt\":null}") != NULL);
    close(fd);
    bl_scope_done(&scope);
    served_stop(&served);
    return 0;
}

static void now_skips_the_grace_periods(void **state)
{
    (void)state;
    run_in_loop(now, NULL);
}

static bool has_time_left(const char *kind, struct bl_scope *scope)
{
    struct bl_activity activity = {.kind = kind, .id = "x", .session = "s", .scope = scope};
    struct bl_json_writer writer;
    struct bl_buffer text;
    bl_buffer_init(&text, 4096);
    bl_json_writer_init(&writer, &text);
    bl_activity_write(&writer, &activity);
    bool none = bl_text_find(bl_buffer_text(&text), BL_TEXT("\"deadline_left_ms\":null")) >= 0;
    bl_buffer_done(&text);
    return !none;
}

/* A run's time left also applies to its calls; the tasks of a feature are listed beside it. */
static int time_left(void *argument)
{
    struct bl_scope outer, inner;
    (void)argument;
    bl_scope_init(&outer, bl_scope_current());
    bl_scope_init(&inner, &outer);
    bl_scope_set_deadline(&inner, bl_time_add(bl_now_ns(), 60 * BL_NS_PER_S));
    CHECK(has_time_left("run", &outer));
    CHECK(!has_time_left("feature", &outer));
    CHECK(!has_time_left("task", &outer));
    CHECK(has_time_left("task", &inner));
    bl_scope_set_deadline(&outer, bl_time_add(bl_now_ns(), 90 * BL_NS_PER_S));
    CHECK(has_time_left("feature", &outer));
    bl_scope_done(&inner);
    bl_scope_done(&outer);
    return 0;
}

static void a_feature_without_a_deadline_has_no_time_left(void **state)
{
    (void)state;
    run_in_loop(time_left, NULL);
}

SUITE(control_id, cmocka_unit_test(names_are_kept_once_and_shown_as_far_as_there_is_room),
      cmocka_unit_test(full_names_start_with_the_name_of_the_parent),
      cmocka_unit_test(an_ambiguous_id_stops_nothing),
      cmocka_unit_test(now_skips_the_grace_periods),
      cmocka_unit_test(a_feature_without_a_deadline_has_no_time_left));
