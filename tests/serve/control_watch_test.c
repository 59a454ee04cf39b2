/* Clients that are told what happens. */
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
    CHECK(strcmp(client_line(fd), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}") == 0);
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
    /* Of another id from now on; and one that goes is told no more. */
    client_send(one,
                BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"watch\",\"params\":{\"id\":"
                        "\"two\"}}\n"));
    CHECK(strstr(client_line(one), "\"result\":{}") != NULL);
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

static void who_watches_is_told_what_happens_in_what_it_asked_for(void **state)
{
    (void)state;
    run_in_loop(events, NULL);
}

/* One that does not read holds up nobody, is not told all, and learns how much it has missed. */
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
    /* As soon as it reads there is room again. */
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
    CHECK(heard >= 900); /* a MiB at least is kept */
    CHECK(heard < EVENTS);
    close(fd);
    served_stop(&served);
    return 0;
}

static void who_watches_and_does_not_read_misses_some_and_is_told_so(void **state)
{
    (void)state;
    run_in_loop(slow, NULL);
}

/* Whoever watches stays: so not all places are theirs. */
static int many(void *argument)
{
    int fds[BL_CONTROL_WATCHERS_MAX];
    (void)argument;
    served_start(&served);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        fds[i] = watch("");
    int fd = client_connect();
    client_send(fd, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"watch\"}\n"));
    CHECK(strstr(client_line(fd), "\"code\":-32000,\"message\":\"too many watch already\"") !=
          NULL);
    client_send(fds[0], BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"watch\"}\n"));
    CHECK(strstr(client_line(fds[0]), "\"result\":{}") != NULL);
    close(fd);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        close(fds[i]);
    served_stop(&served);
    return 0;
}

static void there_are_at_most_16_who_watch(void **state)
{
    (void)state;
    run_in_loop(many, NULL);
}

SUITE(control_watch, cmocka_unit_test(there_are_at_most_16_who_watch),
      cmocka_unit_test(who_watches_is_told_what_happens_in_what_it_asked_for),
      cmocka_unit_test(who_watches_and_does_not_read_misses_some_and_is_told_so));
