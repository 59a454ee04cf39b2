/* Conversations as other processes see them: held sessions, background commands, and resuming. */
#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct run run;
static struct guest guest;

static int end_guest(void **state)
{
    guest_end(&guest);
    return stage_end(state);
}

#define GUESTED(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_guest)

/* Starts a conversation with one turn that waits for the next prompt. */
static void begin_talk(void)
{
    GUEST(&guest, 80, 24, "--provider",
          stage_script("replies: [{say: Looked.}, {say: Again.}, {say: More.}]\n"), "--session",
          "talk");
    guest_await_idle(&guest);
    guest_type(&guest, "look at the parser\r");
    guest_await(&guest, "Looked.");
    guest_await_idle(&guest);
}

/* Leaves and waits for a text at the end; NULL for any. */
static void leave_and_await(const char *text)
{
    guest_type(&guest, KEY_CTRL('D'));
    assert_int_equal(guest_wait(&guest), 0);
    if (text != NULL)
        guest_await(&guest, text);
    held_await_count(&guest.held, 0);
}

/* ---- While it is idle ------------------------------------------------------------------------ */

static void an_idle_conversation_is_listed_with_session_directory_and_prompt(void **state)
{
    struct guest list;
    char folder[4096];

    (void)state;
    begin_talk();
    RUN(&run, "ps", "--json");
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    assert_int_equal(stage_size_at(answer, "/activities"), 0);
    assert_int_equal(stage_size_at(answer, "/sessions"), 1);
    assert_string_equal(stage_text_at(answer, "/sessions/0/session"), "talk");
    assert_true(stage_true_at(answer, "/sessions/0/idle"));
    assert_string_equal(stage_text_at(answer, "/sessions/0/prompt"), "look at the parser");
    assert_non_null(getcwd(folder, sizeof folder));
    assert_string_equal(stage_text_at(answer, "/sessions/0/directory"), folder);
    assert_int_equal(stage_number_at(answer, "/sessions/0/pid"), guest.held.pid);
    assert_int_equal(stage_number_at(answer, "/sessions/0/turns"), 1);
    assert_true(stage_double_at(answer, "/sessions/0/cost_usd") == 0);
    RUN(&run, "ps");
    assert_int_equal(stage_lines_with(run.out, "talk  session  idle"), 1);
    assert_int_equal(stage_lines_with(run.out, "look at the parser"), 1);
    assert_int_equal(stage_lines_with(run.out, folder), 1);
    /* The least important columns are left out first: each row fits on one line. */
    for (size_t columns = 40; columns <= 80; columns += 40) {
        guest_start(&list, columns, 24, (const char *const[]){runner_program(), "ps", NULL}, NULL);
        assert_int_equal(guest_wait(&list), 0);
        guest_check_shown(&list,
                          columns == 80 ? "look at the" : "look at t"); /* an age takes room */
        guest_check_shown(&list, "idle");
        assert_int_equal(stage_lines_with(run.out, "LAST ACTIVITY"), 1);
        assert_int_equal(guest_times(&list, "LAST ACTIVITY"), 0);
        assert_int_equal(guest_times(&list, "\n"), 2);
        guest_end(&list);
    }
    guest_leave(&guest);
    RUN(&run, "ps");
    assert_string_equal(run.out, "No running work.\n");
}

static void a_turn_of_a_conversation_is_listed_with_its_prompt(void **state)
{
    (void)state;
    guest_chat(&guest, "replies: [{tools: [{name: bash, input: {command: 'echo beg\"\"un; sleep "
                       "600'}}]}]\n");
    guest_type(&guest, "wait for it\r");
    guest_await_shown(&guest, "begun");
    RUN(&run, "ps", "--json");
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    assert_string_equal(stage_text_at(answer, "/activities/0/kind"), "run");
    assert_string_equal(stage_text_at(answer, "/activities/0/prompt"), "wait for it");
    assert_true(stage_double_at(answer, "/activities/0/cost_usd") == 0);
    assert_true(stage_null_at(answer, "/activities/1/cost_usd"));
    assert_false(stage_true_at(answer, "/sessions/0/idle"));
    RUN(&run, "ps");
    assert_int_equal(stage_lines_with(run.out, "idle"), 0);
    guest_type(&guest, ESC);
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void cancel_of_an_idle_session_reports_no_running_work(void **state)
{
    (void)state;
    begin_talk();
    for (int i = 0; i < 2; i++) {
        RUN(&run, i == 0 ? "cancel" : "watch", "talk");
        assert_int_equal(run.exit_code, 1);
        assert_string_equal(run.out, "");
        assert_non_null(
            strstr(run.err, stage_printf("session talk is open in process %d, but idle: "
                                         "it has no running work",
                                         (int)guest.held.pid)));
    }
    RUN(&run, "debug", "talk");
    assert_int_equal(run.exit_code, 0);
    guest_type(&guest, "again\r");
    guest_await(&guest, "Again.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

/* ---- Two processes, one session -------------------------------------------------------------- */

static void holder_is_named_with_the_option_to_copy(void **state)
{
    char folder[4096];

    (void)state;
    begin_talk();
    assert_non_null(getcwd(folder, sizeof folder));
    RUN(&run, "run", "hi", "--session", "talk", "--sandbox", "off");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, stage_printf("session talk is held by belay chat, pid %d on ",
                                                 (int)guest.held.pid)));
    assert_non_null(strstr(run.err, stage_printf(", in %s", folder)));
    assert_non_null(strstr(run.err, ", since 2"));
    assert_non_null(strstr(run.err, "add --fork to continue in a copy"));
    RUN(&run, "run", "hi", "--continue", "--sandbox", "off", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 1);
    assert_non_null(strstr(stage_text_at(answer, "/error/message"),
                           "the newest session of this folder, talk is held by belay chat"));
    assert_non_null(strstr(stage_text_at(answer, "/error/hint"), "--fork"));
    guest_leave(&guest);
}

static void copy_continues_from_the_last_turn(void **state)
{
    static const char *const ways[][2] = {
        {"--resume", "talk"}, {"--session", "talk"}, {"--continue", "--verbose"}};
    struct guest other;

    (void)state;
    begin_talk();
    for (size_t i = 0; i < BL_COUNT(ways); i++) {
        RUN(&run, "run", "hi", "--fork", "--sandbox", "off", "--provider",
            stage_script("replies: [{say: Copied.}]\n"), "--json", ways[i][0], ways[i][1]);
        const struct bl_json *answer = stage_json(run.out);
        assert_int_equal(run.exit_code, 0);
        const char *copy = stage_text_at(answer, "/session_id");
        assert_string_not_equal(copy, "talk");
        const struct bl_json *shown = guest_show(copy);
        assert_int_equal(stage_size_at(shown, "/turns"), i < 2 ? 2 : 3);
        if (i < 2)
            assert_string_equal(stage_text_at(shown, "/parent"), "talk");
    }
    assert_int_equal(stage_turns("talk"), 1);
    /* A copy without a prompt is deleted. */
    GUEST(&other, 80, 24, "--provider", stage_script("replies: [{say: x}]\n"), "--resume", "talk",
          "--fork");
    guest_await_idle(&other);
    guest_check_shown(&other, "with 1 turn");
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_json(run.out), "/sessions"), 5);
    guest_leave(&other);
    guest_end(&other);
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_json(run.out), "/sessions"), 4);
    guest_leave(&guest);
}

static void copy_needs_an_existing_session(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--fork", "--json");
    stage_answer(&run, "run", 2);
    RUN(&run, "run", "hi", "--fork", "--resume", "x", "--request-id", "r", "--json");
    stage_answer(&run, "run", 2);
    RUN(&run, "run", "hi", "--fork", "--session", "none", "--sandbox", "off", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 1), "/error/kind"), "session");
    RUN(&run, "run", "hi", "--fork", "--continue", "--sandbox", "off", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 1), "/error/kind"), "session");
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_json(run.out), "/sessions"), 0);
}

/* ---- Background commands --------------------------------------------------------------------- */

#define JOB_SCRIPT                                                                                 \
    "replies:\n"                                                                                   \
    "  - when: start\n"                                                                            \
    "    tools: [{name: bash, input: {command: \"sleep 600\", background: true}}]\n"               \
    "  - {when: start, say: Started.}\n"                                                           \
    "  - {when: again, say: Welcome back.}\n"

static void begin_job(void)
{
    GUEST(&guest, 80, 24, "--provider", stage_script(JOB_SCRIPT), "--session", "talk", "--yolo");
    guest_await_idle(&guest);
    guest_type(&guest, "start\r");
    guest_await(&guest, "Started.");
    guest_await_shown(&guest, "1 job");
    guest_await_idle(&guest);
}

static void a_job_that_ends_with_its_conversation_has_a_receipt(void **state)
{
    (void)state;
    begin_job();
    leave_and_await("Nothing left running.");
    assert_int_equal(guest_times(&guest, "The background command job_1:"), 1);
    const struct bl_json *shown = guest_show("talk");
    assert_int_equal(stage_size_at(shown, "/receipts"), 1);
    assert_string_equal(stage_text_at(shown, "/receipts/0/reason"), "shutdown");
    assert_string_equal(stage_text_at(shown, "/receipts/0/units/0/kind"), "tool");
    assert_int_equal(stage_number_at(shown, "/receipts/0/survivors"), 0);
    RUN(&run, "session", "show", "talk");
    assert_non_null(strstr(run.out, "\nOther stops:\n"));
    assert_non_null(strstr(run.out, "  job_1, 2"));
    /* It can be found by its id, and is in an export. */
    RUN(&run, "cancel", stage_text_at(shown, "/receipts/0/id"), "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cancel", 0), "/receipt/id"),
                        stage_text_at(shown, "/receipts/0/id"));
    RUN(&run, "session", "export", "talk");
    assert_int_equal(stage_lines_with(run.out, "\"reason\":\"shutdown\""), 2);
}

static void a_job_that_is_stopped_from_elsewhere_has_its_receipt_in_the_session(void **state)
{
    (void)state;
    begin_job();
    RUN(&run, "cancel", "talk/job_1", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    guest_await(&guest, "The background command job_1:");
    guest_await_hidden(&guest, "1 job");
    guest_leave(&guest);
    const struct bl_json *shown = guest_show("talk");
    assert_int_equal(stage_size_at(shown, "/receipts"), 1);
    assert_string_equal(stage_text_at(shown, "/receipts/0/id"),
                        stage_text_at(answer, "/receipt/id"));
    assert_string_equal(stage_text_at(shown, "/receipts/0/origin"), "belay cancel");
}

static void after_kill_9_the_next_open_reports_the_job(void **state)
{
    (void)state;
    begin_job();
    kill(guest.held.pid, SIGKILL);
    assert_int_equal(guest_wait(&guest), 128 + SIGKILL);
    held_await_count(&guest.held, 0);
    guest_end(&guest);
    GUEST(&guest, 80, 24, "--provider", stage_script(JOB_SCRIPT), "--resume", "talk");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "Stopped 1 background");
    guest_check_shown(&guest, "Nothing left running.");
    guest_type(&guest, "again\r");
    guest_await(&guest, "Welcome back.");
    guest_await_idle(&guest);
    assert_int_equal(guest_times(&guest, "Stopped 1 background"), 1);
    guest_leave(&guest);
    const struct bl_json *shown = guest_show("talk");
    assert_int_equal(stage_size_at(shown, "/attempts"), 0);
    assert_int_equal(stage_size_at(shown, "/receipts"), 1);
    assert_string_equal(stage_text_at(shown, "/receipts/0/reason"), "owner_died");
    assert_int_equal(stage_number_at(shown, "/receipts/0/survivors"), 0);
}

static void the_receipt_of_a_job_of_a_run_comes_before_its_end(void **state)
{
    (void)state;
    RUN(&run, "run", "start", "--session", "s", "--sandbox", "off", "--yolo", "--output-format",
        "stream-json", "--provider", stage_script(JOB_SCRIPT));
    assert_int_equal(run.exit_code, 0);
    const char *receipt = strstr(run.out, "\"id\":\"job_1\""), *end = strstr(run.out, "run_ended");
    assert_non_null(receipt);
    assert_non_null(end);
    assert_true(receipt < end);
    assert_int_equal(stage_size_at(guest_show("s"), "/receipts"), 1);
}

/* ---- Changing the session -------------------------------------------------------------------- */

static void new_and_clear_begin_another_session_and_keep_this_one(void **state)
{
    (void)state;
    begin_talk();
    guest_say(&guest, "/new\r", "Session talk is kept; /resume talk resumes it.");
    guest_await_idle(&guest);
    guest_type(&guest, "second\r");
    guest_await(&guest, "Again.");
    guest_await_idle(&guest);
    guest_type(&guest, "/clear\r");
    guest_await_hidden(&guest, "Again.");
    guest_await_idle(&guest);
    guest_type(&guest, "third\r");
    guest_await(&guest, "More.");
    guest_await_idle(&guest);
    guest_say(&guest, "/sessions\r", ": third");
    guest_await(&guest, "talk, ");
    guest_leave(&guest);
    RUN(&run, "session", "list", "--json");
    const struct bl_json *list = stage_json(run.out);
    assert_int_equal(stage_size_at(list, "/sessions"), 3);
    assert_string_equal(stage_text_at(list, "/sessions/0/title"), "third");
    assert_string_equal(stage_text_at(list, "/sessions/1/title"), "second");
    assert_int_equal(stage_turns("talk"), 1);
}

static void command_to_resume_is_printed_at_the_end(void **state)
{
    (void)state;
    begin_talk();
    leave_and_await("Resume with: belay -r talk\n");
    guest_end(&guest);
    guest_start(&guest, 80, 24,
                (const char *const[]){runner_program(), "-r", "talk", "--provider",
                                      stage_script("replies: [{say: x}]\n"), NULL},
                NULL);
    guest_await_idle(&guest);
    guest_check_shown(&guest, "session talk with 1 turn");
    guest_leave(&guest);
    guest_end(&guest);
    /* Without a prompt there is nothing to resume. */
    guest_chat(&guest, "replies: [{say: x}]\n");
    leave_and_await(NULL);
    assert_int_equal(guest_times(&guest, "Resume with"), 0);
}

/* ---- Choosing a session ---------------------------------------------------------------------- */

static void make(const char *id, const char *prompt, const char *answer)
{
    RUN(&run, "run", prompt, "--session", id, "--sandbox", "off", "--provider",
        stage_script(stage_printf("replies: [{say: \"%s\"}]\n", answer)));
    assert_int_equal(run.exit_code, 0);
}

static void make_three(void)
{
    make("alpha", "find the leak in the parser", "The leak was in the lexer.\\nIt is fixed.");
    make("beta", "write a changelog", "Written.");
    make("gamma", "speed up the tests", "Twice as fast now.");
}

/* Starts `belay -r` in a window of that size. */
static void begin_choice(size_t columns, size_t rows)
{
    guest_start(&guest, columns, rows,
                (const char *const[]){runner_program(), "-r", "--provider",
                                      stage_script("replies: [{say: Resumed.}]\n"), NULL},
                NULL);
    guest_await_shown(&guest, "speed up the tests");
}

static void a_session_is_chosen_by_typing_and_enter(void **state)
{
    (void)state;
    make_three();
    begin_choice(80, 24);
    /* Newest first, with the end of its answer, its age, its turns and its cost. */
    guest_await_shown(&guest, "Twice as fast now.");
    guest_check_shown(&guest, "find the leak in the parser");
    guest_check_shown(&guest, "1 turn");
    guest_check_shown(&guest, "$0.000");
    guest_type(&guest, "LEAK pars");
    guest_await_hidden(&guest, "write a changelog");
    guest_await_shown(&guest, "It is fixed.");
    guest_type(&guest, "\r");
    guest_await(&guest, "session alpha with 1 turn");
    guest_await_idle(&guest);
    guest_type(&guest, "continue\r");
    guest_await(&guest, "Resumed.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    assert_int_equal(stage_turns("alpha"), 2);
}

static void the_choice_works_in_40_columns_by_arrows_and_esc_leaves(void **state)
{
    (void)state;
    make_three();
    begin_choice(40, 12);
    guest_type(&guest, ESC "[B" ESC "[B");
    guest_await_shown(&guest, "alpha, 1 turn");
    guest_type(&guest, ESC "[A");
    guest_await_shown(&guest, "Written.");
    guest_type(&guest, "no such title");
    guest_await_shown(&guest, "No session matches.");
    guest_type(&guest, "\r" ESC);
    assert_int_equal(guest_wait(&guest), 0);
    guest_end(&guest);
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_json(run.out), "/sessions"), 3);
}

static void resume_in_a_conversation_offers_a_copy_of_a_session_in_use(void **state)
{
    struct guest other;

    (void)state;
    make("alpha", "find the leak", "Found.");
    GUEST(&other, 80, 24, "--resume", "alpha", "--provider", stage_script("replies: [{say: x}]\n"));
    guest_await_idle(&other);
    begin_talk();
    guest_type(&guest, "/resume\r");
    guest_await_shown(&guest, "in use find the leak");
    guest_type(&guest, ESC);
    guest_await_idle(&guest);
    guest_type(&guest, "/resume\r");
    guest_await_shown(&guest, "in use find the leak");
    guest_type(&guest, "\r");
    guest_await_shown(&guest, "Enter again to continue in a copy");
    guest_type(&guest, "\r");
    guest_await(&guest, "with 1 turn, permissions ask");
    guest_await_idle(&guest);
    guest_leave(&guest);
    guest_leave(&other);
    assert_int_equal(stage_turns("alpha"), 1);
}

static void without_a_terminal_a_choice_is_refused(void **state)
{
    (void)state;
    RUN(&run, "chat", "--resume");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "--resume needs an ID if there is no terminal"));
    RUN(&run, "run", "hi", "--resume");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "chat", "--resume", "--continue");
    assert_int_equal(run.exit_code, 2);
}

SUITE(chat_session, GUESTED(an_idle_conversation_is_listed_with_session_directory_and_prompt),
      GUESTED(a_turn_of_a_conversation_is_listed_with_its_prompt),
      GUESTED(cancel_of_an_idle_session_reports_no_running_work),
      GUESTED(holder_is_named_with_the_option_to_copy), GUESTED(copy_continues_from_the_last_turn),
      GUESTED(copy_needs_an_existing_session),
      GUESTED(a_job_that_ends_with_its_conversation_has_a_receipt),
      GUESTED(a_job_that_is_stopped_from_elsewhere_has_its_receipt_in_the_session),
      GUESTED(after_kill_9_the_next_open_reports_the_job),
      GUESTED(the_receipt_of_a_job_of_a_run_comes_before_its_end),
      GUESTED(new_and_clear_begin_another_session_and_keep_this_one),
      GUESTED(command_to_resume_is_printed_at_the_end),
      GUESTED(a_session_is_chosen_by_typing_and_enter),
      GUESTED(the_choice_works_in_40_columns_by_arrows_and_esc_leaves),
      GUESTED(resume_in_a_conversation_offers_a_copy_of_a_session_in_use),
      GUESTED(without_a_terminal_a_choice_is_refused));
