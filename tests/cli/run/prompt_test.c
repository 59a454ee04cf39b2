#include "figure.h"
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
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

/* Runs belay with those bytes as its standard input. */
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

static void prompts_are_checked_and_the_place_is_said(void **state)
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
    check_usage("the prompt holds a NUL byte, at byte 2");
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
    WITH_INPUT("ignored", 7, "run", "--json", "given");
    assert_string_equal(stage_text_at(stage_result(&held, 0), "/prompt"), "given");
}

static void a_large_prompt_is_kept_and_one_that_is_too_large_refused(void **state)
{
    size_t size = (size_t)65 << 20;
    char *bytes = bl_alloc(size);

    (void)state;
    memset(bytes, 'x', size);
    WITH_INPUT(bytes, (size_t)3 << 20, "run", "--session", "large");
    assert_int_equal(held.exit_code, 0);
    held_end(&held);
    WITH_INPUT(bytes, size, "run", "--json");
    check_usage("the prompt has more than 64 MiB");
    bl_free(bytes);
}

static void without_a_prompt_on_a_terminal_nothing_is_waited_for(void **state)
{
    (void)state;
    held_start(&held, (const char *const[]){runner_program(), "run", NULL}, HELD_TERMINAL,
               RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 2);
    assert_string_equal(held_err(&held), "belay run: no prompt; give one as an argument, or on "
                                         "standard input\n");
}

/* Nobody ever writes to it, nor closes it. */
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

static void a_schema_is_read_and_what_is_wrong_with_it_said(void **state)
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

static void instructions_that_cannot_be_read_are_said(void **state)
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

SUITE(run_prompt, HELD(prompts_are_checked_and_the_place_is_said),
      HELD(a_prompt_from_standard_input_is_taken_whole),
      HELD(a_large_prompt_is_kept_and_one_that_is_too_large_refused),
      HELD(without_a_prompt_on_a_terminal_nothing_is_waited_for),
      HELD(a_standard_input_that_never_ends_does_not_outlast_the_deadline),
      HELD(a_deadline_that_has_passed_does_not_wait_for_standard_input),
      HELD(a_signal_interrupts_the_reading_of_standard_input),
      HELD(script_errors_name_line_and_column),
      HELD(a_file_that_blocks_does_not_outlast_the_deadline),
      HELD(a_schema_is_read_and_what_is_wrong_with_it_said),
      HELD(instructions_that_cannot_be_read_are_said));
