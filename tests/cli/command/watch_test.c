#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct run run;
static struct held held;
static struct held watcher;

static int end_both(void **state)
{
    held_end(&watcher);
    held_end(&held);
    return stage_end(state);
}

#define WATCHED(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_both)

/* Starts a run whose tool prints until a file `go` exists. */
static void start(void)
{
    START(&held, "run", "hi", "--session", "nightly", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: 'while ! test -e go; do echo "
                       "tick; sleep 0.02; done'}}]\n"
                       "  - say: \"All\\nis done\"\n"));
    held_await(&held, "tick");
}

/* Starts `watch` and waits for its first output, the only sign that it is watching. */
#define WATCH(...)                                                                                 \
    do {                                                                                           \
        START(&watcher, "watch", __VA_ARGS__);                                                     \
        held_await(&watcher, "tick");                                                              \
    } while (0)

static void let_go(void)
{
    stage_file("go", "");
    held_wait(&held);
    stage_result(&held, 0);
}

/* Checks all lines against their schemas; returns the last line and the number of events of that
 * type. */
static const struct bl_json *check_lines(const char *type, size_t *ret_count)
{
    struct bl_text rest = bl_text_from(stage_output(&watcher)), line;
    const char *last = NULL;
    size_t count = 0;

    while (bl_text_split(&rest, '\n', &line)) {
        if (line.size == 0)
            continue;
        if (last != NULL)
            runner_check_schema("event", last);
        last = stage_keep(line);
        count += strcmp(stage_text_at(stage_json(last), "/type"), type) == 0;
    }
    assert_non_null(last);
    runner_check_schema("watch", last);
    *ret_count = count;
    return stage_json(last);
}

static void a_run_is_watched_until_it_has_ended(void **state)
{
    size_t ends;

    (void)state;
    start();
    WATCH("nightly", "--json");
    let_go();
    held_wait(&watcher);
    assert_int_equal(watcher.exit_code, 0);
    const struct bl_json *end = check_lines("run_ended", &ends);
    assert_int_equal(ends, 1);
    assert_string_equal(stage_text_at(end, "/type"), "result");
    assert_string_equal(stage_text_at(end, "/id"), "nightly");
    assert_int_equal(stage_number_at(end, "/missed"), 0);
    assert_true(stage_number_at(end, "/events") >= 4);
    assert_string_equal(held_err(&watcher), "");
}

static void text_output_has_lines_for_people(void **state)
{
    (void)state;
    start();
    WATCH("nightly");
    let_go();
    held_wait(&watcher);
    const char *out = stage_output(&watcher);
    assert_int_equal(watcher.exit_code, 0);
    assert_non_null(strstr(out, "  tick\n"));
    assert_int_equal(stage_lines_with(out, " tool bash call_"), 1);
    assert_non_null(strstr(out, "\n  All\n  is done\n"));
    assert_int_equal(stage_lines_with(out, " turn ended: completed"), 1);
    assert_int_equal(stage_lines_with(out, " run ended: completed"), 1);
}

static void call_is_watched_by_its_full_name_until_it_ends(void **state)
{
    size_t ends, others;

    (void)state;
    start();
    RUN(&run, "ps", "--json");
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    WATCH(stage_text_at(answer, "/activities/1/name"), "--output-format", "stream-json");
    let_go();
    held_wait(&watcher);
    assert_int_equal(watcher.exit_code, 0);
    check_lines("tool_ended", &ends);
    check_lines("text_delta", &others);
    assert_int_equal(ends, 1);
    assert_int_equal(others, 0);
}

static void stop_is_shown_and_ends_watch(void **state)
{
    (void)state;
    start();
    WATCH("nightly");
    RUN(&run, "cancel", "nightly");
    assert_int_equal(run.exit_code, 0);
    held_wait(&watcher);
    const char *out = stage_output(&watcher);
    assert_int_equal(watcher.exit_code, 0);
    assert_int_equal(stage_lines_with(out, "stop requested: user, by belay cancel"), 1);
    assert_int_equal(stage_lines_with(out, "Nothing left running."), 1);
    held_wait(&held);
    assert_int_equal(held.exit_code, 130);
}

static void ctrl_c_ends_only_watch(void **state)
{
    (void)state;
    start();
    WATCH("nightly");
    kill(watcher.pid, SIGINT);
    held_wait(&watcher);
    assert_int_equal(watcher.exit_code, 130);
    let_go();
}

static void closed_output_ends_only_watch(void **state)
{
    int ends[2];
    char byte;

    (void)state;
    start();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&watcher, (const char *const[]){runner_program(), "watch", "nightly", NULL},
               HELD_NULL, ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    held_wait(&watcher);
    assert_int_equal(watcher.exit_code, 130);
    let_go();
}

static void slow_reader_delays_nothing(void **state)
{
    int ends[2];
    char byte;

    (void)state;
    START(&held, "run", "hi", "--session", "nightly", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script(stage_printf(
              "replies:\n"
              "  - tools: [{name: bash, input: {command: 'while ! test -e go; do echo "
              "tick; sleep 0.02; done; head -c %d /dev/zero | tr \"\\\\0\" x | fold'}}]\n"
              "  - say: done\n",
              SUITE_SANITIZED ? 300000 : 3000000)));
    held_await(&held, "tick");
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&watcher,
               (const char *const[]){runner_program(), "watch", "nightly", "--json", NULL},
               HELD_NULL, ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    let_go();
    /* A reader that starts late gets everything. */
    static char rest[65536];
    size_t size = 0;
    for (ssize_t count; (count = read(ends[0], rest, sizeof rest)) > 0;)
        size += (size_t)count;
    close(ends[0]);
    held_wait(&watcher);
    assert_int_equal(watcher.exit_code, 0);
    print_message("%zu bytes were waiting for the reader\n", size);
    assert_true(size > 65536);
}

static void watch_without_an_id_ends_with_the_last_process(void **state)
{
    (void)state;
    RUN(&run, "watch");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "No running work.\n");
    RUN(&run, "watch", "--json");
    assert_true(stage_null_at(stage_answer(&run, "watch", 0), "/id"));
    start();
    WATCH("--output-format", "text");
    let_go();
    held_wait(&watcher);
    assert_int_equal(watcher.exit_code, 0);
    assert_int_equal(stage_lines_with(stage_output(&watcher), " nightly: run ended: completed"), 1);
}

static void killed_process_is_not_a_normal_end(void **state)
{
    (void)state;
    start();
    WATCH("nightly");
    kill(held.pid, SIGKILL);
    held_wait(&watcher);
    assert_int_equal(watcher.exit_code, 1);
    assert_non_null(strstr(held_err(&watcher), "before nightly ended"));
}

static void unknown_id_is_exit_code_1(void **state)
{
    (void)state;
    RUN(&run, "watch", "nightly");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "belay watch: no running work with id 'nightly'\nhint: 'belay ps' "
                                 "lists running work, with its ids\n");
    RUN(&run, "watch", "nightly", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "watch", 1), "/error/operation"), "watch");
    RUN(&run, "watch", "", "--json");
    stage_answer(&run, "watch", 2);
    RUN(&run, "watch", "a", "b", "--json");
    stage_answer(&run, "watch", 2);
}

SUITE(watch, WATCHED(a_run_is_watched_until_it_has_ended),
      WATCHED(text_output_has_lines_for_people),
      WATCHED(call_is_watched_by_its_full_name_until_it_ends),
      WATCHED(stop_is_shown_and_ends_watch), WATCHED(ctrl_c_ends_only_watch),
      WATCHED(closed_output_ends_only_watch), WATCHED(slow_reader_delays_nothing),
      WATCHED(watch_without_an_id_ends_with_the_last_process),
      WATCHED(killed_process_is_not_a_normal_end), WATCHED(unknown_id_is_exit_code_1));
