/* The progress of `belay run` on a terminal, and standard output that is not a terminal. */
#include <stdlib.h>

#include "chat/guest.h"

static struct guest guest;

static int end_guest(void **state)
{
    guest_end(&guest);
    return stage_end(state);
}

#define SHOWN(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_guest)

#define SCRIPT                                                                                     \
    "replies:\n"                                                                                   \
    "  - {say: I look., tools: [{name: bash, input: {command: 'sleep 1; echo one; echo two'}}]}\n" \
    "  - error: {status: 529, times: 1}\n"                                                         \
    "  - say: All *is* well.\n"                                                                    \
    "    usage: {input: 1200, output: 34}\n"

/* Runs `command` in a shell, with belay as $B and a script as $S. */
static void show(const char *command, size_t columns, const char *const *environment)
{
    setenv("B", runner_program(), 1);
    setenv("S", stage_script(SCRIPT), 1);
    guest_start(&guest, columns, 24, (const char *const[]){"/bin/sh", "-c", command, NULL},
                environment);
}

#define RUN_IT "\"$B\" run go --yolo --provider \"$S\""

static void terminal_shows_progress(void **state)
{
    (void)state;
    show(RUN_IT, 80, NULL);
    guest_await_shown(&guest, "Ctrl-C to stop");
    assert_int_equal(guest_wait(&guest), 0);
    guest_check_shown(&guest, "I look.");
    guest_check_shown(&guest, "bash  sleep 1; echo one; echo two");
    guest_check_shown(&guest, "two");
    guest_check_shown(&guest, "retry 1 of ");
    guest_check_shown(&guest, "All is well.");
    guest_check_shown(&guest, "1 tool call, ");
    guest_await_hidden(&guest, "Ctrl-C to stop");
    /* The answer is not printed again. */
    assert_int_equal(guest_times(&guest, "All *is* well."), 0);
    assert_true(guest_terminal_as_before(&guest));
}

static void narrow_terminal_is_shown_whole_lines(void **state)
{
    (void)state;
    show(RUN_IT, 40, NULL);
    assert_int_equal(guest_wait(&guest), 0);
    guest_check_shown(&guest, "All is well.");
    guest_check_shown(&guest, "1 tool call, ");
}

static void redirected_standard_output_gets_only_the_answer(void **state)
{
    (void)state;
    show(RUN_IT " > answer; echo; cat answer | tr a-z A-Z", 80, NULL);
    assert_int_equal(guest_wait(&guest), 0);
    guest_check_shown(&guest, "bash  sleep 1; echo one; echo two");
    guest_check_shown(&guest, "ALL *IS* WELL.");
    assert_int_equal(guest_times(&guest, "I LOOK."), 0);
}

static void quiet_run_shows_only_the_answer(void **state)
{
    (void)state;
    show(RUN_IT " -q", 80, NULL);
    assert_int_equal(guest_wait(&guest), 0);
    guest_check_shown(&guest, "All *is* well.");
    assert_int_equal(guest_times(&guest, "I look."), 0);
    assert_int_equal(guest_times(&guest, "bash"), 0);
    assert_int_equal(guest_times(&guest, "tokens"), 0);
}

static void dumb_terminal_gets_lines_and_no_escape_sequences(void **state)
{
    (void)state;
    show("TERM=dumb; export TERM; " RUN_IT, 80, NULL);
    assert_int_equal(guest_wait(&guest), 0);
    guest_check_shown(&guest, "All *is* well.");
    assert_true(bl_text_find(bl_buffer_text(&guest.bytes), BL_TEXT("\x1B")) < 0);
}

static void stop_clears_the_display_and_prints_the_receipt(void **state)
{
    (void)state;
    setenv("W", stage_script("replies: [{say: Half of, wedge: after_first_token}]\n"), 1);
    show("\"$B\" run go --provider \"$W\"", 80, NULL);
    guest_await_shown(&guest, "Ctrl-C to stop");
    guest_type(&guest, KEY_CTRL('c'));
    assert_int_equal(guest_wait(&guest), 130);
    guest_check_shown(&guest, "Nothing left running.");
    assert_int_equal(guest_times(&guest, "Nothing left running."), 1);
    assert_true(guest_terminal_as_before(&guest));
}

static void wait_for_standard_input_is_reported(void **state)
{
    (void)state;
    show("{ sleep 3; echo late; } | " RUN_IT, 80, NULL);
    guest_await(&guest, "waiting for the end of standard input");
    assert_int_equal(guest_wait(&guest), 0);
}

static void prompt_alone_starts_a_conversation_on_a_terminal(void **state)
{
    (void)state;
    show("\"$B\" 'say it' --yolo --provider \"$S\"", 80, NULL);
    guest_await(&guest, "> say it");
    guest_await(&guest, "All is well.");
    guest_await_idle(&guest);
    guest_type(&guest, KEY_CTRL('d'));
    assert_int_equal(guest_wait(&guest), 0);
}

SUITE(run_progress, SHOWN(terminal_shows_progress), SHOWN(narrow_terminal_is_shown_whole_lines),
      SHOWN(redirected_standard_output_gets_only_the_answer),
      SHOWN(quiet_run_shows_only_the_answer),
      SHOWN(dumb_terminal_gets_lines_and_no_escape_sequences),
      SHOWN(stop_clears_the_display_and_prints_the_receipt),
      SHOWN(wait_for_standard_input_is_reported),
      SHOWN(prompt_alone_starts_a_conversation_on_a_terminal));
