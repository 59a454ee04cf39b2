#include "figure.h"
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

/* Runs belay with these bytes on standard input. */
static void run_with_input(const char *bytes, size_t size, const char *const *words)
{
    int input = memfd_create("in", MFD_CLOEXEC);

    assert_int_equal(pwrite(input, bytes, size, 0), size);
    held_start(&held, words, input, RUN_KEEP);
    close(input);
    held_wait(&held);
}

#define WITH_INPUT(bytes, size, ...)                                                               \
    run_with_input(bytes, size, (const char *const[]){runner_program(), __VA_ARGS__, NULL})

static void check_usage(const char *message)
{
    const struct bl_json *answer = stage_result(&held, 2);

    assert_string_equal(stage_text_at(answer, "/error/kind"), "usage");
    assert_string_equal(stage_text_at(answer, "/error/message"), message);
    held_end(&held);
}

static void invalid_prompts_are_refused_with_the_position(void **state)
{
    (void)state;
    WITH_INPUT("", 0, "run", "--json");
    check_usage("the prompt is empty");
    WITH_INPUT(" \n\t\n", 4, "run", "--json", "-");
    check_usage("the prompt is empty");
    WITH_INPUT("abc\xff"
               "def",
               7, "run", "--json");
    check_usage("the prompt is not valid UTF-8 from byte 3 on");
    WITH_INPUT("ab\0cd", 5, "run", "--json");
    check_usage("the prompt contains a NUL byte, at byte 2");
    WITH_INPUT("cut \xe2\x82", 6, "run", "--output-format", "stream-json");
    check_usage("the prompt is not valid UTF-8 from byte 4 on");
    RUN(&run, "run", "", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 2), "/error/message"),
                        "the prompt is empty");
    RUN(&run, "run", "a\xff", "--json");
    stage_answer(&run, "run", 2);
    assert_false(stage_exists(stage_path("data/belay")));
}

static void a_prompt_from_standard_input_is_taken_whole(void **state)
{
    (void)state;
    WITH_INPUT("one\ntwo\n", 8, "run", "--json");
    assert_string_equal(stage_text_at(stage_result(&held, 0), "/prompt"), "one\ntwo\n");
    held_end(&held);
    WITH_INPUT("alone", 5, "run", "--json", "-");
    assert_string_equal(stage_text_at(stage_result(&held, 0), "/prompt"), "alone");
}

static void check_prompt(const char *prompt)
{
    assert_string_equal(stage_text_at(stage_result(&held, 0), "/prompt"), prompt);
    held_end(&held);
}

static void piped_text_follows_the_prompt_in_a_block(void **state)
{
    (void)state;
    WITH_INPUT("-a\n+b\n", 6, "run", "--json", "review");
    check_prompt("review\n\n<stdin>\n-a\n+b\n</stdin>\n");
    WITH_INPUT("no end", 6, "-p", "review", "--json");
    check_prompt("review\n\n<stdin>\nno end\n</stdin>\n");
    WITH_INPUT("text", 4, "review this", "--json");
    check_prompt("review this\n\n<stdin>\ntext\n</stdin>\n");
    WITH_INPUT("text", 4, "--", "review", "--json");
    assert_int_equal(held.exit_code, 2);
    held_end(&held);
    WITH_INPUT("", 0, "run", "--json", "review");
    check_prompt("review");
    WITH_INPUT(" \n", 2, "run", "--json", "review");
    check_prompt("review");
}

static void invalid_piped_bytes_are_refused_with_the_position(void **state)
{
    (void)state;
    WITH_INPUT("abc\xff", 4, "run", "--json", "review");
    check_usage("standard input is not valid UTF-8 from byte 3 on");
    WITH_INPUT("ab\0cd", 5, "run", "--json", "review");
    check_usage("standard input contains a NUL byte, at byte 2");
}

/* Starts `command` in a shell, with belay as $B. */
static void start_shell(const char *command)
{
    setenv("B", runner_program(), 1);
    held_start(&held, (const char *const[]){"/bin/sh", "-c", command, NULL}, HELD_NULL, RUN_KEEP);
}

static void closed_standard_input_is_ignored(void **state)
{
    (void)state;
    start_shell("exec \"$B\" run --json review <&-");
    held_wait(&held);
    check_prompt("review");
}

static void silent_pipe_does_not_delay_a_prompt(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&held, (const char *const[]){runner_program(), "run", "hello", NULL}, ends[0],
               RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_non_null(strstr(held_err(&held), "standard input is open, but nothing arrived"));
    held_end(&held);
    /* With a short deadline, only a part of it is waited. */
    held_start(&held,
               (const char *const[]){runner_program(), "run", "hello", "--json", "--timeout",
                                     stage_timeout(2), NULL},
               ends[0], RUN_KEEP);
    held_wait(&held);
    check_prompt("hello");
    close(ends[0]);
    close(ends[1]);
}

static void pipeline_that_is_slow_to_begin_is_waited_for(void **state)
{
    (void)state;
    start_shell("{ sleep 5; echo late; } | \"$B\" run --json review");
    held_wait(&held);
    check_prompt("review\n\n<stdin>\nlate\n</stdin>\n");
}

/* The parent shell holds the other end, as a CI runner does. */
static void pipe_of_an_ancestor_is_not_a_pipeline(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("fifo", 0600), 0);
    start_shell("exec 3<>fifo; \"$B\" run --json review <&3; exit");
    held_wait(&held);
    check_prompt("review");
}

static void a_large_prompt_is_kept_and_one_that_is_too_large_refused(void **state)
{
    size_t size = (size_t)17 << 20;
    char *bytes = bl_alloc(size);

    (void)state;
    memset(bytes, 'x', size);
    WITH_INPUT(bytes, (size_t)3 << 20, "run", "--session", "large");
    assert_int_equal(held.exit_code, 0);
    held_end(&held);
    WITH_INPUT(bytes, size, "run", "--json");
    check_usage("the prompt has more than 16 MiB");
    held_end(&held);
    WITH_INPUT(bytes, (size_t)16 << 20, "run", "--json", "review");
    check_usage("the prompt and standard input together have more than 16 MiB");
    held_end(&held);
    WITH_INPUT(bytes, size, "run", "--json", "review");
    check_usage("standard input has more than 16 MiB");
    bl_free(bytes);
}

static void without_a_prompt_on_a_terminal_nothing_is_waited_for(void **state)
{
    (void)state;
    held_start(&held, (const char *const[]){runner_program(), "run", NULL}, HELD_TERMINAL,
               RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 2);
    assert_string_equal(
        held_err(&held),
        "belay run: no prompt\nhint: give one as an argument, or on standard input\n");
}

/* Starts a run whose standard input is never written to or closed. */
static void start_waiting(int ends[2], const char *timeout)
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&held,
               (const char *const[]){runner_program(), "run", "--output-format", "stream-json",
                                     "--timeout", timeout, NULL},
               ends[0], RUN_KEEP);
}

static void a_standard_input_that_never_ends_does_not_outlast_the_deadline(void **state)
{
    int ends[2];

    (void)state;
    start_waiting(ends, "300ms");
    double seconds = held_wait(&held);
    assert_true(
        figure_between("02 end at the deadline, open standard input", seconds * 1000, 300, 350));
    const struct bl_json *answer = stage_result(&held, 124);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "timeout");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "timeout");
    assert_int_equal(stage_size_at(answer, "/turns"), 1);
    assert_true(stage_null_at(answer, "/session_id"));
    assert_false(stage_exists(stage_path("data/belay")));
    close(ends[0]);
    close(ends[1]);
}

static void a_deadline_that_has_passed_does_not_wait_for_standard_input(void **state)
{
    int ends[2];

    (void)state;
    start_waiting(ends, "0");
    assert_true(held_wait(&held) < 5);
    const struct bl_json *answer = stage_result(&held, 124);
    assert_int_equal(stage_size_at(answer, "/turns"), 1);
    assert_true(stage_null_at(answer, "/session_id"));
    close(ends[0]);
    close(ends[1]);
}

static void a_signal_interrupts_the_reading_of_standard_input(void **state)
{
    int ends[2];

    (void)state;
    start_waiting(ends, "1h");
    usleep(SUITE_SANITIZED ? 700000 : 200000);
    kill(held.pid, SIGTERM);
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 143);
    assert_string_equal(stage_text_at(answer, "/receipt/origin"), "SIGTERM");
    assert_true(stage_true_at(answer, "/final_cancel_observed"));
    close(ends[0]);
    close(ends[1]);
}

static void script_errors_name_line_and_column(void **state)
{
    (void)state;
    RUN(&run, "run", "x", "--provider", stage_script("replies:\n  - sya: hello\n"), "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "parse");
    assert_non_null(strstr(stage_text_at(answer, "/error/message"), ".yaml:2:5: "));
    RUN(&run, "run", "x", "--provider", stage_script("replies: [\n"));
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, ".yaml:2:1: "));
    RUN(&run, "run", "x", "--provider", "script:/nowhere/at-all.yaml", "--json");
    stage_answer(&run, "run", 1);
    RUN(&run, "run", "x", "--provider", "script:/", "--output-format", "stream-json");
    assert_int_equal(run.exit_code, 1);
    assert_int_equal(stage_lines_with(run.out, "\"type\":\"result\""), 1);
    assert_false(stage_exists(stage_path("data/belay")));
}

static void a_file_that_blocks_does_not_outlast_the_deadline(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("fifo", 0600), 0);
    START(&held, "run", "x", "--system", "fifo", "--timeout", "300ms", "--json");
    double seconds = held_wait(&held);
    assert_true(
        figure_between("02 end at the deadline, file that blocks", seconds * 1000, 300, 350));
    stage_result(&held, 124);
}

static void invalid_schema_is_reported(void **state)
{
    const char *fits = stage_script("replies: [{say: '{\"n\": 1}'}]\nrepeat: true\n");
    const char *schema = stage_file("schema.json", "{\"type\":\"object\",\"required\":[\"n\"]}");

    (void)state;
    RUN(&run, "run", "x", "--provider", fits, "--structured-output", schema, "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "run", "x", "--provider", stage_script("replies: [{say: no}]\nrepeat: true\n"),
        "--structured-output", schema, "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 1);
    assert_string_equal(stage_text_at(answer, "/turns/0/error/kind"), "parse");
    RUN(&run, "run", "x", "--structured-output", stage_file("broken.json", "{\"type\":"), "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 1), "/error/kind"), "parse");
    RUN(&run, "run", "x", "--structured-output", stage_file("no.json", "{\"type\":\"frob\"}"),
        "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 1), "/error/kind"), "parse");
    RUN(&run, "run", "x", "--structured-output", "nowhere.json", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 1), "/error/kind"), "filesystem");
}

static void unreadable_instructions_are_reported(void **state)
{
    (void)state;
    RUN(&run, "run", "x", "--system", "nowhere.md", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 1), "/error/target"), "nowhere.md");
    RUN(&run, "run", "x", "--system", stage_file("broken.md", "a\xff"), "--json");
    stage_answer(&run, "run", 1);
    RUN(&run, "run", "x", "--system", stage_file("fine.md", "be brief"), "--append-system-prompt",
        "and kind", "--json");
    stage_answer(&run, "run", 0);
    stage_file("AGENTS.md", "\xff\xfe");
    RUN(&run, "run", "x", "--json");
    stage_answer(&run, "run", 1);
}

SUITE(run_prompt, HELD(invalid_prompts_are_refused_with_the_position),
      HELD(a_prompt_from_standard_input_is_taken_whole),
      HELD(piped_text_follows_the_prompt_in_a_block),
      HELD(invalid_piped_bytes_are_refused_with_the_position),
      HELD(closed_standard_input_is_ignored), HELD(silent_pipe_does_not_delay_a_prompt),
      HELD(pipeline_that_is_slow_to_begin_is_waited_for),
      HELD(pipe_of_an_ancestor_is_not_a_pipeline),
      HELD(a_large_prompt_is_kept_and_one_that_is_too_large_refused),
      HELD(without_a_prompt_on_a_terminal_nothing_is_waited_for),
      HELD(a_standard_input_that_never_ends_does_not_outlast_the_deadline),
      HELD(a_deadline_that_has_passed_does_not_wait_for_standard_input),
      HELD(a_signal_interrupts_the_reading_of_standard_input),
      HELD(script_errors_name_line_and_column),
      HELD(a_file_that_blocks_does_not_outlast_the_deadline), HELD(invalid_schema_is_reported),
      HELD(unreadable_instructions_are_reported));
