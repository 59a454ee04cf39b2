/* Stops and calls in a stream of events. */
#include "stage.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test)   cmocka_unit_test_setup_teardown(test, stage_begin, end_held)
#define FREE         "--yolo", "--sandbox", "off"
#define STREAM       "--output-format", "stream-json"
#define CALLS_MAX    16u
#define HEARD_MS_MIN 1000.0 /* with a grace period of 2 s */

/* Returns the first event of this type, or NULL. */
static const struct bl_json *find_event(const char *out, const char *type)
{
    struct bl_text rest = bl_text_from(out), line;
    const char *mark = stage_printf("{\"type\":\"%s\",", type);

    while (bl_text_split(&rest, '\n', &line)) {
        if (bl_text_starts_with(line, bl_text_from(mark)))
            return stage_json(stage_keep(line));
    }
    return NULL;
}

/* Returns the time of an event, in milliseconds. */
static double time_of(const struct bl_json *event)
{
    struct tm tm = {0};
    const char *text = stage_text_at(event, "/time");
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    assert_non_null(rest);
    return (double)timegm(&tm) * 1000.0 + strtod(rest, NULL) * 1000.0;
}

/* Checks that each requested call has exactly one end, after the request. Returns the number of
 * calls that ended with that status. */
static size_t check_calls(const char *out, const char *status)
{
    struct bl_text rest = bl_text_from(out), line;
    const char *open[CALLS_MAX];
    size_t count = 0, found = 0;

    while (bl_text_split(&rest, '\n', &line)) {
        bool asked = bl_text_starts_with(line, BL_TEXT("{\"type\":\"tool_requested\","));
        bool ended = bl_text_starts_with(line, BL_TEXT("{\"type\":\"tool_ended\","));
        if (!asked && !ended)
            continue;
        const struct bl_json *event = stage_json(stage_keep(line));
        const char *id = stage_text_at(event, "/id");
        size_t at = 0;
        while (at < count && strcmp(open[at], id) != 0)
            at++;
        if (asked) {
            assert_int_equal(at, count);
            assert_true(count < CALLS_MAX);
            open[count++] = id;
            continue;
        }
        assert_true(at < count);
        open[at] = open[--count];
        found += strcmp(stage_text_at(event, "/status"), status) == 0;
    }
    assert_int_equal(count, 0);
    return found;
}

static void stop_request_is_reported_at_once(void **state)
{
    (void)state;
    START(&held, "run", "hi", FREE, STREAM, "--grace", "2s", "--provider",
          stage_script("replies: [{tools: [{name: bash, input: {command: \"trap '' TERM; echo "
                       "rea''dy; while :; do sleep 0.05; done\"}}]}]\n"));
    held_await(&held, "ready");
    kill(held.pid, SIGTERM);
    held_await(&held, "cancel_requested");
    assert_null(find_event(stage_output(&held), "receipt"));
    held_wait(&held);
    const char *out = stage_output(&held);
    const struct bl_json *asked = find_event(out, "cancel_requested");
    const struct bl_json *receipt = find_event(out, "receipt");
    assert_int_equal(stage_lines_with(out, "{\"type\":\"cancel_requested\","), 1);
    assert_string_equal(stage_text_at(asked, "/reason"), "signal");
    assert_string_equal(stage_text_at(asked, "/origin"), "SIGTERM");
    assert_non_null(receipt);
    assert_true(time_of(receipt) - time_of(asked) >= HEARD_MS_MIN);
    assert_true(stage_number_at(receipt, "/seq") > stage_number_at(asked, "/seq"));
    stage_result(&held, 143);
    assert_int_equal(check_calls(out, "stopped"), 1);
}

static void stop_before_the_session_is_reported_once(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", STREAM, "--timeout", "0");
    assert_int_equal(run.exit_code, 124);
    assert_int_equal(stage_lines_with(run.out, "{\"type\":\"cancel_requested\","), 1);
    assert_int_equal(stage_lines_with(run.out, "{\"type\":\"receipt\","), 1);
}

static void each_requested_call_has_one_end_whatever_ends_the_turn(void **state)
{
    static const char *const two = "replies:\n"
                                   "  - tools:\n"
                                   "    - {name: bash, input: {command: 'echo rea\"\"dy; sleep "
                                   "600'}}\n"
                                   "    - {name: bash, input: {command: 'echo second'}}\n"
                                   "    - {name: read, input: {path: x}}\n"
                                   "  - say: done\n";
    static const char *const kinds[] = {"discard", "keep"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(kinds); i++) {
        START(&held, "run", "hi", FREE, STREAM, "--on-cancel", kinds[i], "--provider",
              stage_script(two));
        held_await(&held, "ready");
        kill(held.pid, SIGINT);
        held_wait(&held);
        stage_result(&held, 130);
        assert_int_equal(check_calls(stage_output(&held), "not_run"), 2);
        held_end(&held);
    }
}

static void each_requested_call_has_one_end_at_the_step_limit(void **state)
{
    static const char *const three = "replies:\n"
                                     "  - tools:\n"
                                     "    - {name: bash, input: {command: 'echo one'}}\n"
                                     "    - {name: bash, input: {command: 'echo two'}}\n"
                                     "    - {name: nothing, input: {}}\n"
                                     "  - say: done\n";
    static const struct {
        const char *how;
        int exit_code;
    } cases[] = {{"stop", 3}, {"synthesize", 0}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        RUN(&run, "run", "hi", FREE, STREAM, "--max-steps", "1", "--on-exhausted", cases[i].how,
            "--provider", stage_script(three));
        assert_int_equal(run.exit_code, cases[i].exit_code);
        assert_int_equal(check_calls(run.out, "not_run"), 2);
        assert_int_equal(check_calls(run.out, "ok"), 1);
    }
}

static void a_denied_call_has_one_end(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", STREAM, "--permission-mode", "read-only", "--provider",
        stage_script("replies:\n"
                     "  - tools: [{name: bash, input: {command: 'echo one'}},\n"
                     "            {name: write, input: {path: f, content: x}}]\n"
                     "  - say: done\n"));
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(check_calls(run.out, "denied"), 2);
}

SUITE(run_events, HELD(stop_request_is_reported_at_once),
      HELD(stop_before_the_session_is_reported_once),
      HELD(each_requested_call_has_one_end_whatever_ends_the_turn),
      HELD(each_requested_call_has_one_end_at_the_step_limit), HELD(a_denied_call_has_one_end));
