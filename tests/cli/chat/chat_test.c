#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reports its start, and ends when the test creates a file. */
#define PATIENT "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo released"
#define DEAF    "trap '' TERM; echo begun; while :; do sleep 0.05; done"

static void check_turn(const struct bl_json *session, size_t index, const char *prompt,
                       const char *reason, bool interrupted)
{
    const char *at = stage_printf("/turns/%zu", index);

    assert_string_equal(stage_text_at(session, stage_printf("%s/prompt", at)), prompt);
    assert_string_equal(stage_text_at(session, stage_printf("%s/stop_reason", at)), reason);
    assert_int_equal(stage_true_at(session, stage_printf("%s/interrupted", at)), interrupted);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void esc_or_ctrl_c_cancels_the_turn_and_shows_the_receipt(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - {when: first, say: Beginning of it., wedge: after_first_token}\n"
                       "  - {when: second, wedge: before_first_token}\n"
                       "  - {when: third, say: All is well.}\n");
    guest_type(&guest, "first\r");
    guest_await_shown(&guest, "Begi");
    guest_await_shown(&guest, "Esc to stop");
    guest_type(&guest, ESC);
    guest_await(&guest, "Nothing left running.");
    guest_await_idle(&guest);
    guest_type(&guest, "second\r");
    guest_await_shown(&guest, "Esc to stop");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_times(&guest, "Nothing left running.", 2);
    guest_await_idle(&guest);
    /* A former cancel never affects the next turn. */
    guest_type(&guest, "third\r");
    guest_await(&guest, "All is well.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_int_equal(stage_size_at(session, "/turns"), 3);
    check_turn(session, 0, "first", "cancelled", true);
    check_turn(session, 1, "second", "cancelled", true);
    check_turn(session, 2, "third", "completed", false);
}

/* Returns the duration in the newest receipt. */
static double last_stop_ms(struct guest *guest)
{
    const char *at = screen_all(guest->screen), *found = NULL;
    double time = 0;
    char unit[3] = "";

    while ((at = strstr(at, "Stopped in ")) != NULL) {
        at += strlen("Stopped in ");
        found = at;
    }
    assert_non_null(found);
    assert_int_equal(sscanf(found, "%lf %2s", &time, unit), 2);
    assert_true(strcmp(unit, "us") == 0 || strcmp(unit, "ms") == 0 || unit[0] == 's');
    return unit[0] == 'u' ? time / 1000 : unit[0] == 'm' ? time : time * 1000;
}

/* With unmistakable grace periods: one key press waits for all of a short one, the second skips a
 * long one. */
static void second_press_skips_the_grace_periods(void **state)
{
    static const char script[] = "replies:\n"
                                 "  - tools: [{name: bash, input: {command: \"" DEAF "\"}}]\n";
    struct guest guest;

    (void)state;
    GUEST(&guest, 80, 24, "--provider", stage_script(script), "--yolo", "--grace", "500ms");
    guest_await_idle(&guest);
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "  begun");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await(&guest, "Nothing left running.");
    assert_true(last_stop_ms(&guest) >= 500);
    guest_await_idle(&guest);
    guest_leave(&guest);
    GUEST(&guest, 80, 24, "--provider", stage_script(script), "--yolo", "--grace", "25s");
    guest_await_idle(&guest);
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "  begun");
    guest_type(&guest, KEY_CTRL('c'));
    guest_type(&guest, KEY_CTRL('c'));
    guest_await(&guest, "Nothing left running.");
    assert_true(last_stop_ms(&guest) < 10000);
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void without_a_turn_ctrl_c_clears_the_line_and_twice_leaves(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies: [{say: x}]\n");
    guest_say(&guest, "something", "> something");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_idle(&guest);
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_shown(&guest, "> Ctrl+C again to leave");
    /* Any other key resets the count. */
    guest_type(&guest, "x\x7F");
    guest_await_idle(&guest);
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_shown(&guest, "> Ctrl+C again to leave");
    guest_type(&guest, KEY_CTRL('c'));
    assert_int_equal(guest_wait(&guest), 0);
    assert_true(guest_terminal_as_before(&guest));
    held_await_count(&guest.held, 0);
    guest_end(&guest);
}

/* Leaves during a turn: the turn is stopped and kept, and its receipt is shown last. */
static void check_left(const char *keys, int exit_code)
{
    struct guest guest;

    guest_chat(&guest, "replies:\n"
                       "  - tools: [{name: bash, input: {command: \"" DEAF "\"}}]\n");
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "  begun");
    guest_type(&guest, keys);
    assert_int_equal(guest_wait(&guest), exit_code);
    guest_await(&guest, "Nothing left running.");
    assert_int_equal(guest_times(&guest, "Nothing left running."), 1);
    assert_true(guest_terminal_as_before(&guest));
    held_await_count(&guest.held, 0);
    guest_end(&guest);
    check_turn(guest_show(guest_session()), 0, "go", "cancelled", true);
}

static void ctrl_d_stops_the_turn_and_leaves(void **state)
{
    (void)state;
    check_left(KEY_CTRL('d'), 0);
}

static void keys_skip_grace_periods_while_leaving(void **state)
{
    (void)state;
    check_left("\x04\x03\x1B", 0);
}

static void quit_stops_the_turn_and_leaves(void **state)
{
    (void)state;
    check_left("/quit\r", 0);
}

static void stop_sent_with_the_prompt_is_not_lost(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - {when: go, say: Never seen., wedge: before_first_token}\n"
                       "  - {when: next, say: Continuing.}\n");
    guest_type(&guest, "go\r\x03");
    guest_await_shown(&guest, "> go\n");
    guest_await_idle(&guest);
    guest_type(&guest, "next\r");
    guest_await(&guest, "Continuing.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

/* Starting and leaving chat leaves no session behind. */
static void session_without_a_prompt_is_deleted(void **state)
{
    static struct run run;
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies: [{say: x}]\n");
    guest_leave(&guest);
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_json(run.out), "/sessions"), 0);
}

/* ---- Injecting ------------------------------------------------------------------------------- */

static void typing_while_a_turn_runs_injects(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - when: do it\n"
                       "    tools: [{name: bash, input: {command: \"" PATIENT "\"}}]\n"
                       "  - {when: and also, say: I shall do that as well.}\n");
    guest_type(&guest, "do it\r");
    guest_await_shown(&guest, "  begun");
    guest_type(&guest, "and also this\r");
    guest_await_shown(&guest, "queued: and also this");
    stage_file("go", "");
    guest_await(&guest, "I shall do that as well.");
    guest_await_idle(&guest);
    guest_await_hidden(&guest, "waits:");
    assert_int_equal(guest_times(&guest, "> and also this"), 1);
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_int_equal(stage_size_at(session, "/turns"), 1);
    check_turn(session, 0, "do it", "completed", false);
}

static void finish_lets_the_call_end_and_stops_before_the_next(void **state)
{
    static struct run run;
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - when: do it\n"
                       "    tools:\n"
                       "    - {name: bash, input: {command: \"" PATIENT "\"}}\n"
                       "    - {name: bash, input: {command: 'touch second'}}\n"
                       "  - {when: on, say: Continuing.}\n");
    guest_say(&guest, "/finish\r", "no running work");
    guest_type(&guest, "do it\r");
    guest_await_shown(&guest, "  begun");
    RUN(&run, "inject", guest_session(), "and from outside");
    assert_int_equal(run.exit_code, 0);
    guest_await_shown(&guest, "queued: and from outside");
    guest_say(&guest, "/finish\r", "Stopping after this step; Esc to stop at once.");
    stage_file("go", "");
    guest_await(&guest, " between two steps. Nothing left running.");
    guest_await(&guest, "Turn stopped; partial output kept.");
    guest_await_shown(&guest, "\n> and from outside");
    assert_false(stage_exists(stage_path("work/second")));
    guest_type(&guest, "\x15on\r");
    guest_await(&guest, "Continuing.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    check_turn(guest_show(guest_session()), 0, "do it", "cancelled", true);
}

static void late_message_becomes_the_next_prompt(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - {when: first, say: One., delay: 500ms}\n"
                       "  - {when: second, say: Two.}\n");
    guest_type(&guest, "first\rsecond\r");
    guest_await_shown(&guest, "queued: second");
    guest_await(&guest, "Two.");
    guest_await_idle(&guest);
    const char *all = screen_all(guest.screen);
    assert_non_null(strstr(all, "> first\n\nOne.\n\n> second\n\nTwo.\n"));
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_int_equal(stage_size_at(session, "/turns"), 2);
    check_turn(session, 1, "second", "completed", false);
}

static void undelivered_message_is_back_in_the_input_after_a_stop(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - {when: first, wedge: before_first_token}\n"
                       "  - {when: never, say: It went through.}\n");
    guest_type(&guest, "first\r");
    guest_await_shown(&guest, "Esc to stop");
    guest_type(&guest, "never\r");
    guest_await_shown(&guest, "queued: never");
    guest_type(&guest, "draft");
    guest_await_shown(&guest, "> draft");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await(&guest, "Nothing left running.");
    guest_await_shown(&guest, "\n> never\n  draft\n");
    assert_int_equal(guest_times(&guest, "It went through."), 0);
    /* The user can send it. */
    guest_type(&guest, "\r");
    guest_await(&guest, "It went through.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void prompt_sent_during_a_stop_is_the_next_prompt(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - {when: go, tools: [{name: bash, input: {command: \"" DEAF "\"}}]}\n"
                       "  - {when: next, say: Continuing.}\n");
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "  begun");
    guest_type(&guest, "\x03next\r");
    guest_await(&guest, "Continuing.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_int_equal(stage_size_at(session, "/turns"), 2);
    check_turn(session, 0, "go", "cancelled", true);
    check_turn(session, 1, "next", "completed", false);
}

/* ---- Signals and crashes --------------------------------------------------------------------- */

static void sigterm_stops_keeps_and_exits_143(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - tools: [{name: bash, input: {command: \"" DEAF "\"}}]\n");
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "  begun");
    kill(guest.held.pid, SIGTERM);
    assert_int_equal(guest_wait(&guest), 143);
    guest_await(&guest, "Nothing left running.");
    assert_true(guest_terminal_as_before(&guest));
    held_await_count(&guest.held, 0);
    guest_end(&guest);
    check_turn(guest_show(guest_session()), 0, "go", "cancelled", true);
}

static void closed_terminal_stops_keeps_and_exits(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - tools: [{name: bash, input: {command: \"" DEAF "\"}}]\n");
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "  begun");
    /* Closing the other end also sends SIGHUP. */
    close(guest.master);
    guest.master = -1;
    assert_int_equal(guest_wait(&guest), 130);
    held_await_count(&guest.held, 0);
    guest_end(&guest);
    check_turn(guest_show(guest_session()), 0, "go", "cancelled", true);
    /* Also when nothing is running. */
    guest_chat(&guest, "replies: [{say: x}]\n");
    close(guest.master);
    guest.master = -1;
    assert_int_equal(guest_wait(&guest), 130);
    held_await_count(&guest.held, 0);
    guest_end(&guest);
}

/* The window is stopped, or the connection is dead: nothing is read, and there is no error. */
static void blocked_terminal_does_not_delay_the_end(void **state)
{
    struct guest guest;
    int status;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - tools: [{name: bash, input: {command: \"touch begun; sleep 60\"}}]\n");
    guest_paste(&guest, "a long line ");
    for (unsigned i = 0; i < 15; i++) {
        /* Doubles the text each time. */
        guest_type(&guest, "\x15\x19\x19");
    }
    guest_await_hidden(&guest, "> Type a prompt");
    guest_type(&guest, "\r");
    stage_await_file("begun");
    /* From here on nothing is read; the prompt alone fills the buffers. */
    kill(guest.held.pid, SIGTERM);
    for (unsigned i = 0; i < 3000 && waitpid(guest.held.pid, &status, WNOHANG) == 0; i++)
        usleep(5000);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 143);
    guest.held.pid = 0;
    held_await_count(&guest.held, 0);
    guest_end(&guest);
}

static void after_kill_9_nothing_runs_and_the_next_open_says_what_was_cut_off(void **state)
{
    static const char script[] =
        "replies:\n"
        "  - {when: go, tools: [{name: bash, input: {command: \"" DEAF "\"}}]}\n"
        "  - {when: again, say: Welcome back.}\n";
    struct guest guest;

    (void)state;
    guest_chat(&guest, script);
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "  begun");
    kill(guest.held.pid, SIGKILL);
    assert_int_equal(guest_wait(&guest), 128 + SIGKILL);
    held_await_count(&guest.held, 0);
    guest_end(&guest);
    GUEST(&guest, 80, 24, "--provider", stage_script(script), "--yolo", "--continue");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "cut off");
    guest_type(&guest, "again\r");
    guest_await(&guest, "Welcome back.");
    guest_await_idle(&guest);
    /* Once. */
    assert_int_equal(guest_times(&guest, "cut off"), 1);
    guest_leave(&guest);
}

static void after_a_crash_the_terminal_is_restored(void **state)
{
    static const int crashes[] = {SIGSEGV, SIGABRT};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(crashes); i++) {
        struct guest guest;
        guest_chat(&guest, "replies: [{say: x}]\n");
        assert_false(guest_terminal_as_before(&guest));
        kill(guest.held.pid, crashes[i]);
        assert_true(guest_wait(&guest) != 0);
        assert_true(guest_terminal_as_before(&guest));
        assert_true(bl_text_find(bl_buffer_text(&guest.bytes), BL_TEXT("\x1B[?2004l")) > 0);
        assert_true(screen_cursor_visible(guest.screen));
        guest_end(&guest);
    }
}

static void ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(void **state)
{
    struct guest guest;
    const char *script = stage_script("replies: [{say: Still here.}]\n");

    (void)state;
    guest_start(&guest, 80, 24, (const char *const[]){"/bin/sh", "-i", NULL},
                (const char *const[]){"PS1=shell$ ", "ENV=", NULL});
    guest_await_shown(&guest, "shell$");
    guest_type(&guest, stage_printf("%s chat --provider %s\r", runner_program(), script));
    guest_await_idle(&guest);
    guest_say(&guest, "half a line", "> half a line");
    guest_type(&guest, KEY_CTRL('z'));
    guest_await_shown(&guest, "Stopped");
    guest_await_hidden(&guest, "> half a line");
    guest_await_times(&guest, "shell$", 2);
    guest_type(&guest, "echo the she''ll\r");
    guest_await_shown(&guest, "the shell\n");
    guest_type(&guest, "fg\r");
    guest_await_shown(&guest, "\n> half a line\n");
    assert_non_null(strstr(screen_shown(guest.screen), "the shell\n"));
    guest_type(&guest, "\r");
    guest_await(&guest, "Still here.");
    guest_await_idle(&guest);
    guest_type(&guest, KEY_CTRL('d'));
    guest_await_shown(&guest, "Still here.\n\nResume with: belay -r s-");
    guest_await_times(&guest, "shell$", 4);
    guest_type(&guest, "exit 7\r");
    assert_int_equal(guest_wait(&guest), 7);
    guest_end(&guest);
}

/* ---- The log --------------------------------------------------------------------------------- */

/* Log lines on the same terminal would corrupt the screen. */
static void log_of_a_conversation_goes_to_a_file_beside_the_screen(void **state BL_UNUSED)
{
    struct guest guest;
    static const char *const environment[] = {"BELAY_LOG=trace", NULL};

    guest_begin(
        &guest, 80, 24,
        (const char *const[]){"--provider", stage_script("replies: [{say: All is well.}]"), NULL},
        environment);
    guest_await(&guest, "the log is written to ");
    guest_type(&guest, "first\r");
    guest_await(&guest, "All is well.");
    guest_await_idle(&guest);
    assert_int_equal(guest_times(&guest, " turn begins "), 0);
    assert_int_equal(guest_times(&guest, " store "), 0);
    guest_leave(&guest);
}

SUITE(chat, STAGED(esc_or_ctrl_c_cancels_the_turn_and_shows_the_receipt),
      STAGED(second_press_skips_the_grace_periods),
      STAGED(without_a_turn_ctrl_c_clears_the_line_and_twice_leaves),
      STAGED(ctrl_d_stops_the_turn_and_leaves), STAGED(quit_stops_the_turn_and_leaves),
      STAGED(keys_skip_grace_periods_while_leaving), STAGED(stop_sent_with_the_prompt_is_not_lost),
      STAGED(session_without_a_prompt_is_deleted), STAGED(typing_while_a_turn_runs_injects),
      STAGED(finish_lets_the_call_end_and_stops_before_the_next),
      STAGED(late_message_becomes_the_next_prompt),
      STAGED(undelivered_message_is_back_in_the_input_after_a_stop),
      STAGED(prompt_sent_during_a_stop_is_the_next_prompt),
      STAGED(sigterm_stops_keeps_and_exits_143), STAGED(closed_terminal_stops_keeps_and_exits),
      STAGED(blocked_terminal_does_not_delay_the_end),
      STAGED(after_kill_9_nothing_runs_and_the_next_open_says_what_was_cut_off),
      STAGED(after_a_crash_the_terminal_is_restored),
      STAGED(ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back),
      STAGED(log_of_a_conversation_goes_to_a_file_beside_the_screen));
