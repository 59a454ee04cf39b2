/* Clients that watch events. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "place.h"

static struct served served;

static void tell(const char *run, const char *session, const char *text)
{
    static uint64_t seq;
    const struct bl_event event = {.type = BL_EVENT_TEXT_DELTA,
                                   .seq = ++seq,
                                   .run = run,
                                   .session = session,
                                   .text = bl_text_from(text)};
    bl_activities_tell(&served.activities, &event);
}

static int watch(const char *params)
{
    char line[160];
    int fd = client_connect();
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"watch\"%s%s}\n",
             params[0] != '\0' ? ",\"params\":" : "", params);
    client_send(fd, bl_text_from(line));
    CHECK(strstr(client_line(fd), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"running\":") !=
          NULL);
    return fd;
}

static bool hears(int fd, const char *text)
{
    char expected[64];
    const char *line = client_line(fd);
    snprintf(expected, sizeof expected, "\"text\":\"%s\"", text);
    return strstr(line, "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{") == line &&
           strstr(line, expected) != NULL;
}

static int events(void *argument)
{
    (void)argument;
    served_start(&served);
    tell("run_1", "one", "nobody hears it");
    int all = watch(""), one = watch("{\"id\":\"one\"}"), run = watch("{\"id\":\"run_2\"}");
    tell("run_1", "one", "a");
    tell("run_2", "two", "b");
    CHECK(hears(all, "a"));
    CHECK(hears(all, "b"));
    CHECK(hears(one, "a"));
    CHECK(hears(run, "b"));
    /* One changes to another id, and one disconnects: it gets no more events. */
    client_send(one,
                BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"watch\",\"params\":{\"id\":"
                        "\"two\"}}\n"));
    CHECK(strstr(client_line(one), "\"result\":{\"running\":false}") != NULL);
    close(all);
    tell("run_1", "one", "c");
    bl_sleep(10 * MS);
    tell("run_2", "two", "d");
    CHECK(hears(one, "d"));
    CHECK(hears(run, "d"));
    close(one);
    close(run);
    served_stop(&served);
    tell("run_1", "one", "it has ended");
    return 0;
}

static void watcher_gets_the_events_of_the_requested_work(void **state)
{
    (void)state;
    run_in_loop(events, NULL);
}

/* A client that does not read delays nothing, misses events, and learns how many. */
static int slow(void *argument)
{
    enum {
        EVENTS = 4000
    };
    static char text[1024];
    unsigned heard = 0;
    unsigned long missed = 0;
    (void)argument;
    served_start(&served);
    int fd = watch("");
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < EVENTS; i++)
        tell("run_1", "one", text);
    tell("run_1", "one", "last before");
    /* As soon as it reads, there is room again. */
    for (;;) {
        const char *line = client_line(fd);
        const char *count = strstr(line, "\"method\":\"missed\",\"params\":{\"count\":");
        if (count != NULL) {
            missed = strtoul(strrchr(count, ':') + 1, NULL, 10);
            break;
        }
        CHECK(strstr(line, "\"method\":\"event\"") != NULL);
        heard++;
        if (heard % 16 == 0)
            tell("run_1", "one", "more");
    }
    CHECK(missed > 0);
    CHECK(heard >= 900); /* at least 1 MiB is queued */
    CHECK(heard < EVENTS);
    close(fd);
    served_stop(&served);
    return 0;
}

static void slow_watcher_misses_events_and_learns_how_many(void **state)
{
    (void)state;
    run_in_loop(slow, NULL);
}

/* Watchers stay connected, so they may not take all places. */
static int many(void *argument)
{
    int fds[BL_CONTROL_WATCHERS_MAX];
    (void)argument;
    served_start(&served);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        fds[i] = watch("");
    int fd = client_connect();
    client_send(fd, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"watch\"}\n"));
    CHECK(strstr(client_line(fd), "\"code\":-32000,\"message\":\"too many watchers\"") != NULL);
    client_send(fds[0], BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"watch\"}\n"));
    CHECK(strstr(client_line(fds[0]), "\"result\":{\"running\":false}") != NULL);
    close(fd);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        close(fds[i]);
    served_stop(&served);
    return 0;
}

static void there_are_at_most_16_watchers(void **state)
{
    (void)state;
    run_in_loop(many, NULL);
}

/* ---- The end of the work --------------------------------------------------------------------- */

static void tell_part(const char *run, const char *session, const char *call, const char *text)
{
    const struct bl_event event = {.type = BL_EVENT_TOOL_OUTPUT,
                                   .run = run,
                                   .session = session,
                                   .id = bl_text_from(call),
                                   .text = bl_text_from(text)};
    bl_activities_tell(&served.activities, &event);
}

static int ends(void *argument)
{
    struct bl_activity run = {.kind = "run", .id = "run_1", .session = "one"},
                       call = {.kind = "call", .id = "c", .session = "one", .run = "run_1"};
    (void)argument;
    served_start(&served);
    run.scope = call.scope = bl_scope_current();
    bl_activity_begin(&served.activities, &run);
    bl_activity_begin(&served.activities, &call);
    int session = watch("{\"id\":\"one\"}"), part = watch("{\"id\":\"run_1/c\"}");
    int none = watch("{\"id\":\"run_2\"}"), all = watch("");
    tell_part("run_2", "two", "c", "of another");
    tell_part("run_1", "one", "c", "of it");
    bl_activity_end(&call, (struct bl_text){0});
    CHECK(hears(part, "of it"));
    CHECK(strstr(client_line(part), "\"method\":\"ended\",\"params\":{\"id\":\"run_1/c\"}") !=
          NULL);
    bl_activity_end(&run, (struct bl_text){0});
    CHECK(hears(session, "of it"));
    CHECK(strstr(client_line(session), "\"method\":\"ended\",\"params\":{\"id\":\"one\"}") != NULL);
    /* Each end is reported again. Work that never ran has no end, and neither has everything. */
    bl_activity_begin(&served.activities, &run);
    bl_activity_end(&run, (struct bl_text){0});
    CHECK(strstr(client_line(session), "\"method\":\"ended\"") != NULL);
    tell("run_2", "two", "last");
    CHECK(hears(none, "of another"));
    CHECK(hears(none, "last"));
    CHECK(hears(all, "of another"));
    CHECK(hears(all, "of it"));
    CHECK(hears(all, "last"));
    close(session);
    close(part);
    close(none);
    close(all);
    served_stop(&served);
    return 0;
}

static void the_end_of_watched_work_is_reported(void **state)
{
    (void)state;
    run_in_loop(ends, NULL);
}

/* ---- bl_control_watch ------------------------------------------------------------------------ */

static struct {
    unsigned events;
    uint64_t missed;
    int code;
    bool over;
    struct bl_error error;
} heard;

static void on_event(void *context, const struct bl_json *event)
{
    (void)context;
    CHECK(bl_json_is(bl_json_get(event, BL_TEXT("type")), BL_JSON_STRING));
    heard.events++;
}

static void on_missed(void *context, uint64_t count)
{
    (void)context;
    heard.missed += count;
}

static int watch_main(void *argument)
{
    struct bl_arena arena = {0};
    const struct bl_control_watch watch = {.id = argument, .event = on_event, .missed = on_missed};
    heard.code = bl_control_watch(&arena, &watch, &heard.error);
    heard.over = true;
    bl_arena_done(&arena);
    return 0;
}

/* Starts to watch, and waits for the first event. */
static void attach(struct bl_nursery *nursery, const char *id)
{
    memset(&heard, 0, sizeof heard);
    bl_nursery_spawn(nursery, NULL, "watch", watch_main, (void *)(uintptr_t)id, NULL);
    while (heard.events == 0 && !heard.over) {
        tell("run_1", "one", "a");
        bl_sleep(MS);
    }
}

static void await_over(void)
{
    while (!heard.over)
        bl_sleep(MS);
}

static int attached(void *argument)
{
    struct bl_activity run = {.kind = "run", .id = "run_1", .session = "one"},
                       task = {.kind = "task", .id = "T1", .session = "FEAT"};
    struct bl_nursery nursery;
    (void)argument;
    served_start(&served);
    bl_nursery_init(&nursery, bl_scope_current());
    run.scope = task.scope = bl_scope_current();
    attach(&nursery, "run_1");
    CHECK_EQUAL(heard.code, BL_ENOENT);
    bl_activity_begin(&served.activities, &run);
    bl_activity_begin(&served.activities, &task);
    attach(&nursery, "FEAT/T1");
    CHECK_EQUAL(heard.code, BL_ENOTSUP);
    CHECK(strcmp(heard.error.hint, "follow it with 'belay feature logs -f FEAT/T1'") == 0);
    attach(&nursery, "one");
    CHECK(!heard.over);
    bl_activity_end(&run, (struct bl_text){0});
    await_over();
    CHECK_EQUAL(heard.code, 0);
    CHECK_EQUAL(heard.missed, 0);
    /* Its process exits before the work has ended. */
    bl_activity_begin(&served.activities, &run);
    attach(&nursery, "run_1");
    CHECK(!heard.over);
    served_stop(&served);
    await_over();
    CHECK_EQUAL(heard.code, BL_EUNKNOWN);
    bl_nursery_done(&nursery);
    bl_activity_end(&run, (struct bl_text){0});
    bl_activity_end(&task, (struct bl_text){0});
    return 0;
}

static void a_watcher_attaches_to_running_work_until_it_has_ended(void **state)
{
    (void)state;
    run_in_loop(attached, NULL);
}

/* The end is reported after the events that the client has not read yet. */
static int behind(void *argument)
{
    static char text[1024];
    struct bl_activity run = {.kind = "run", .id = "run_1", .session = "one"};
    const char *line;
    (void)argument;
    served_start(&served);
    run.scope = bl_scope_current();
    bl_activity_begin(&served.activities, &run);
    int fd = watch("{\"id\":\"run_1\"}");
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 4000; i++)
        tell("run_1", "one", text);
    bl_activity_end(&run, (struct bl_text){0});
    while (strstr(line = client_line(fd), "\"method\":\"event\"") != NULL)
        continue;
    CHECK(strstr(line, "\"method\":\"missed\"") != NULL);
    CHECK(strstr(client_line(fd), "\"method\":\"ended\"") != NULL);
    close(fd);
    served_stop(&served);
    return 0;
}

static void a_slow_reader_learns_of_the_end_too(void **state)
{
    (void)state;
    run_in_loop(behind, NULL);
}

SUITE(control_watch, cmocka_unit_test(the_end_of_watched_work_is_reported),
      cmocka_unit_test(a_slow_reader_learns_of_the_end_too),
      cmocka_unit_test(a_watcher_attaches_to_running_work_until_it_has_ended),
      cmocka_unit_test(there_are_at_most_16_watchers),
      cmocka_unit_test(watcher_gets_the_events_of_the_requested_work),
      cmocka_unit_test(slow_watcher_misses_events_and_learns_how_many));
