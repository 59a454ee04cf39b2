#include "fibers.h"
#include "tool/parts.h"

#include <stdio.h>

static void activity_name_includes_its_holder(void **state)
{
    static const struct {
        const char *kind, *id, *session, *run, *name;
    } cases[] = {
        {"run", "run_1", "s", "", "run_1"},
        {"feature", "f", "s", "", "f"},
        {"cell", "c", "s", "", "s/c"},
        {"task", "t", "f", "", "f/t"},
        {"job", "job_1", "s", "", "s/job_1"},
        {"agent", "a", "s", "run_1", "run_1/a"},
        {"call", "c", "s", "run_1", "run_1/c"},
        {"cell", "c", "s", "run_1", "run_1/c"},
        {"task", "f/t", "f", "", "f/t"},
        {"task", "ft", "f", "", "f/ft"},
        {"call", "run_12", "s", "run_1", "run_1/run_12"},
    };
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_activity activity = {.kind = cases[i].kind};
        char name[BL_ACTIVITY_NAME_SIZE];
        bl_text_into(activity.id, sizeof activity.id, cases[i].id);
        bl_text_into(activity.session, sizeof activity.session, cases[i].session);
        bl_text_into(activity.run, sizeof activity.run, cases[i].run);
        bl_activity_name(&activity, name);
        assert_string_equal(name, cases[i].name);
    }
}

/* ---- Running activities ---- */

struct actor {
    struct bl_activity activity;
    struct bl_scope scope;
    bool hurried;
};

static struct bl_activities activities;
static struct bl_nursery nursery;
static unsigned changes;

static void note_change(void *context, const struct bl_activity *activity)
{
    (void)activity;
    CHECK(context == &changes);
    changes++;
}

static void note_hurry(struct bl_activity *activity)
{
    BL_CONTAINER(activity, struct actor, activity)->hurried = true;
}

/* Runs until it is stopped; its receipt is its id. */
static int act(void *argument)
{
    struct actor *actor = argument;
    struct bl_scope *outer = bl_scope_enter(&actor->scope);
    CHECK_EQUAL(bl_sleep(BL_NEVER), BL_ECANCELED);
    bl_scope_enter(outer);
    bl_activity_end(&actor->activity, bl_text_from(actor->activity.id));
    return 0;
}

static void start(struct actor *actor, const char *kind, const char *id, const char *session)
{
    *actor = (struct actor){.activity = {.kind = kind, .hurry = note_hurry, .phase = "model"}};
    bl_text_into(actor->activity.id, sizeof actor->activity.id, id);
    bl_text_into(actor->activity.session, sizeof actor->activity.session, session);
    bl_scope_init(&actor->scope, bl_scope_current());
    actor->activity.scope = &actor->scope;
    bl_activity_begin(&activities, &actor->activity);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, id, act, actor, NULL), 0);
}

/* Cancels an activity; returns its receipt, a static text. */
static const char *cancel(const char *id, int *ret_code)
{
    static char text[64];
    struct bl_buffer receipt;
    bl_buffer_init(&receipt, SIZE_MAX);
    *ret_code = bl_activities_cancel(&activities, id, "test", &receipt);
    snprintf(text, sizeof text, BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&receipt)));
    bl_buffer_done(&receipt);
    return text;
}

static bool runs(const struct actor *actor)
{
    return !bl_scope_stopped(&actor->scope);
}

static int cancels(void *argument)
{
    struct actor run, call, job, other;
    int code;
    (void)argument;
    bl_activities_init(&activities);
    changes = 0;
    activities.changed = note_change;
    activities.context = &changes;
    bl_nursery_init(&nursery, bl_scope_current());
    start(&run, "run", "run_1", "s");
    start(&call, "call", "call_1", "s");
    start(&job, "job", "job_1", "s");
    start(&other, "job", "job_1", "s2");
    CHECK_EQUAL(changes, 4);
    CHECK_EQUAL((cancel("job_2", &code), code), BL_ENOENT);
    bl_activities_hurry(&activities, "s2/job_1");
    CHECK(other.hurried && !job.hurried && !run.hurried);
    CHECK(other.activity.hurried && !job.activity.hurried);
    /* A name identifies one activity, and the others continue. */
    CHECK(strcmp(cancel("s2/job_1", &code), "job_1") == 0 && code == 0);
    CHECK(!runs(&other) && runs(&job) && runs(&run) && runs(&call));
    /* A session's id stops its turn and its background work; calls end with their run. */
    CHECK(strcmp(cancel("s", &code), "run_1") == 0 && code == 0);
    CHECK(!runs(&run) && !runs(&job) && runs(&call));
    CHECK(strcmp(cancel("call_1", &code), "call_1") == 0 && code == 0);
    CHECK(bl_list_empty(&activities.list));
    CHECK_EQUAL(changes, 8);
    bl_nursery_done(&nursery);
    struct actor *const all[] = {&run, &call, &job, &other};
    for (size_t i = 0; i < BL_COUNT(all); i++)
        bl_scope_done(&all[i]->scope);
    return 0;
}

static void cancel_stops_the_activities_of_an_id_or_session(void **state)
{
    (void)state;
    run_in_loop(cancels, NULL);
}

static int writes(void *argument)
{
    struct actor actor;
    struct bl_json_writer writer;
    struct bl_buffer out;
    struct bl_arena arena = {0};
    const struct bl_json *list;
    int64_t ms = 0;
    int code;
    (void)argument;
    bl_activities_init(&activities);
    bl_nursery_init(&nursery, bl_scope_current());
    start(&actor, "job", "job_1", "s");
    actor.activity.tokens = 7;
    for (int limited = 0; limited < 2; limited++) {
        if (limited == 1)
            bl_scope_set_deadline(&actor.scope, bl_now_ns() + 3600 * BL_NS_PER_S);
        bl_buffer_init(&out, SIZE_MAX);
        bl_json_writer_init(&writer, &out);
        bl_activities_write(&activities, &writer);
        CHECK_EQUAL(bl_json_writer_done(&writer), 0);
        CHECK_EQUAL(
            bl_json_read(&arena, bl_arena_text(&arena, bl_buffer_text(&out)), NULL, &list, NULL),
            0);
        CHECK(
            bl_text_starts_with(bl_buffer_text(&out),
                                BL_TEXT("[{\"id\":\"job_1\",\"name\":\"s/job_1\",\"kind\":\"job\","
                                        "\"session\":\"s\",\"phase\":\"model\",\"age_ms\":")));
        const struct bl_json *left = bl_json_pointer(list, BL_TEXT("/0/deadline_left_ms"));
        CHECK_EQUAL(bl_json_is(left, BL_JSON_NULL), limited == 0);
        CHECK_EQUAL(bl_json_int64(left, &ms), limited == 1);
        CHECK(limited == 0 || (ms > 1800 * 1000 && ms <= 3600 * 1000));
        CHECK(bl_json_int64(bl_json_pointer(list, BL_TEXT("/0/tokens")), &ms) && ms == 7);
        CHECK(bl_json_int64(bl_json_pointer(list, BL_TEXT("/0/idle_ms")), &ms) && ms < 1800 * 1000);
        bl_buffer_done(&out);
    }
    bl_arena_done(&arena);
    cancel("job_1", &code);
    bl_nursery_done(&nursery);
    bl_scope_done(&actor.scope);
    return 0;
}

static void activities_are_listed_with_their_deadlines(void **state)
{
    (void)state;
    run_in_loop(writes, NULL);
}

SUITE(activity, cmocka_unit_test(activity_name_includes_its_holder),
      cmocka_unit_test(cancel_stops_the_activities_of_an_id_or_session),
      cmocka_unit_test(activities_are_listed_with_their_deadlines));
