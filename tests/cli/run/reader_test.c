/* Readers of a run's output that are slow, closed, or never read. */
#include "figure.h"
#include "stage.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

/* Promised after the deadline: the grace period of a running tool, the 250 ms for a reader that
 * does not read (docs/guide.md), and the end. */
#define TOOL_GRACE_MS 200
#define READER_MS     250
#define LATE_MS       50

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static const char hello[] = "replies: [{say: hello}]\nrepeat: true\n";
static const char stuck[] = "replies: [{wedge: after_first_token, say: begun, pieces: 1}]\n";
static const char sleeping[] =
    "replies: [{tools: [{name: bash, input: {command: 'sleep 600 & sleep 600'}}]}]\n";

static void start_piped(int ends[2], const char *yaml, const char *timeout, const char *format)
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&held,
               (const char *const[]){runner_program(), "run", "hi", "--provider",
                                     stage_script(yaml), "--session", "s", "--timeout", timeout,
                                     "--yolo", "--sandbox", "off", "--output-format", format, NULL},
               HELD_NULL, ends[1]);
    close(ends[1]);
}

static void closed_output_stops_the_run(void **state)
{
    static const char *const formats[] = {"text", "json", "stream-json"};
    int ends[2];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(formats); i++) {
        start_piped(ends, sleeping, "1h", formats[i]);
        held_await_at_least(&held, 4);
        close(ends[0]);
        held_wait(&held);
        assert_int_equal(held.exit_code, 130);
        if (i > 0)
            assert_string_equal(held_err(&held), "");
        assert_int_equal(held_count(&held), 0);
        held_end(&held);
    }
    RUN(&run, "session", "show", "s", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-show", 0);
    assert_int_equal(stage_size_at(answer, "/turns"), 0);
    assert_int_equal(stage_size_at(answer, "/attempts"), 3);
    assert_string_equal(stage_text_at(answer, "/attempts/0/receipt/reason"), "client_gone");
    assert_string_equal(stage_text_at(answer, "/attempts/0/receipt/origin"), "stdout");
}

static void a_reader_that_never_reads_does_not_outlast_the_deadline(void **state)
{
    int ends[2];

    (void)state;
    start_piped(ends,
                "replies:\n  - tools: [{name: bash, input: {command: 'yes | head -c 100000000'}}]\n"
                "repeat: true\n",
                "1s", "stream-json");
    double ms = held_wait(&held) * 1e3;
    assert_true(figure_between("02 deadline with a reader that never reads", ms, 1000,
                               1000 + TOOL_GRACE_MS + READER_MS + LATE_MS));
    assert_int_equal(held.exit_code, 124);
    assert_int_equal(held_count(&held), 0);
    close(ends[0]);
}

/* In text, the final remarks would go to the same full pipe. */
static void full_pipe_for_both_outputs_does_not_delay_the_end(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], "x", 1) == 1)
        continue;
    fcntl(ends[1], F_SETFL, 0);
    held_start(&held,
               (const char *const[]){"sh", "-c",
                                     "exec \"$0\" run hi --provider \"$1\" --timeout 300ms 2>&1",
                                     runner_program(), stage_script(stuck), NULL},
               HELD_NULL, ends[1]);
    close(ends[1]);
    double ms = held_wait(&held) * 1e3;
    assert_true(figure_between("02 deadline with a full pipe for both outputs", ms, 300,
                               300 + READER_MS + LATE_MS));
    assert_int_equal(held.exit_code, 124);
    close(ends[0]);
}

/* Returns a script with an answer of 1 MiB, more than a pipe holds. */
static const char *long_answer(void)
{
    size_t size = 1 << 20;
    char *yaml = bl_alloc(size + 64);

    int head = snprintf(yaml, 64, "replies: [{pieces: 1, say: ");
    memset(yaml + head, 'x', size);
    snprintf(yaml + (size_t)head + size, 8, "}]\n");
    const char *script = stage_script(yaml);
    bl_free(yaml);
    return script;
}

static void start_unread(int ends[2], const char *script)
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&held,
               (const char *const[]){runner_program(), "run", "hi", "--session", "s", "--provider",
                                     script, "--sandbox", "off", NULL},
               HELD_NULL, ends[1]);
    close(ends[1]);
}

static void a_slow_reader_gets_the_whole_answer(void **state)
{
    static char data[65536];
    size_t all = 0;
    ssize_t count;
    int ends[2];

    (void)state;
    start_unread(ends, long_answer());
    usleep(300000);
    while ((count = read(ends[0], data, sizeof data)) > 0) {
        all += (size_t)count;
        usleep(1000);
    }
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_int_equal(all, (1 << 20) + 1);
    close(ends[0]);
}

static void a_signal_ends_the_waiting_for_a_reader_of_the_answer(void **state)
{
    int ends[2];

    (void)state;
    start_unread(ends, long_answer());
    for (int i = 0; i < 500; i++) {
        RUN(&run, "session", "list", "--json");
        if (run.exit_code == 0 && strstr(run.out, "\"turns\":1") != NULL)
            break;
        usleep(10000);
    }
    usleep(200000);
    kill(held.pid, SIGTERM);
    held_wait(&held);
    /* The run completed, but the answer was not delivered. */
    assert_int_equal(held.exit_code, 143);
    close(ends[0]);
}

static void a_terminal_that_is_shared_stays_blocking_whatever_happens(void **state)
{
    int ours, end;

    (void)state;
    assert_int_equal(openpty(&ours, &end, NULL, NULL, NULL), 0);
    fcntl(ours, F_SETFD, FD_CLOEXEC);
    fcntl(end, F_SETFD, FD_CLOEXEC);
    held_start(&held,
               (const char *const[]){runner_program(), "run", "hi", "--session", "s", "--provider",
                                     stage_script(stuck), "--output-format", "stream-json", NULL},
               HELD_NULL, end);
    char data[4096] = "";
    for (size_t size = 0; strstr(data, "turn_started") == NULL;) {
        ssize_t count = read(ours, data + size, sizeof data - 1 - size);
        assert_true(count > 0);
        size += (size_t)count;
    }
    assert_int_equal(fcntl(end, F_GETFL) & O_NONBLOCK, 0);
    kill(held.pid, SIGKILL);
    held_wait(&held);
    assert_int_equal(fcntl(end, F_GETFL) & O_NONBLOCK, 0);
    close(ours);
    close(end);
}

static void a_closed_standard_output_is_an_error_before_the_run(void **state)
{
    (void)state;
    runner_run_with(&run, (const char *const[]){"run", "hi", "--session", "s", NULL}, NULL,
                    RUN_CLOSE);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "belay run: cannot write standard output: Bad file descriptor\n");
    runner_run_with(&run, (const char *const[]){"run", "hi", "--session", "s", "--json", NULL},
                    NULL, RUN_CLOSE);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "");
    RUN(&run, "session", "show", "s", "--json");
    stage_answer(&run, "session-show", 1);
}

static void full_disk_behind_standard_output_is_a_failure(void **state)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    if (full < 0)
        suite_skip("missing device: /dev/full");
    runner_run_with(&run, (const char *const[]){"run", "hi", "--json", NULL}, NULL, full);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "");
    runner_run_with(&run,
                    (const char *const[]){"run", "hi", "--provider", stage_script(hello), NULL},
                    NULL, full);
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "cannot write standard output"));
    close(full);
}

SUITE(run_reader, HELD(closed_output_stops_the_run),
      HELD(a_reader_that_never_reads_does_not_outlast_the_deadline),
      HELD(full_pipe_for_both_outputs_does_not_delay_the_end),
      HELD(a_slow_reader_gets_the_whole_answer),
      HELD(a_signal_ends_the_waiting_for_a_reader_of_the_answer),
      HELD(a_terminal_that_is_shared_stays_blocking_whatever_happens),
      HELD(a_closed_standard_output_is_an_error_before_the_run),
      HELD(full_disk_behind_standard_output_is_a_failure));
