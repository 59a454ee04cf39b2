#include "guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define UP "\x1B[A"

/* Starts chat in its default mode, which asks about each command. */
static void begin_asking(struct guest *guest, const char *script)
{
    GUEST(guest, 80, 24, "--provider", stage_script(script));
    guest_await_idle(guest);
    guest_check_shown(guest, "permissions ask");
}

/* Answers with Enter, so that the answer counts even in the first moment. */
static void answer(struct guest *guest, const char *key, const char *text)
{
    guest_await_shown(guest, "Allow bash? y yes, n no");
    guest_type(guest, key);
    guest_type(guest, "\r");
    guest_await_shown(guest, text);
}

/* ---- Questions ------------------------------------------------------------------------------- */

static void a_question_is_answered_with_a_key(void **state)
{
    struct guest guest;

    (void)state;
    begin_asking(&guest, "replies:\n"
                         "  - when: one\n"
                         "    tools: [{name: bash, input: {command: \"touch made-by-yes\"}}]\n"
                         "  - {when: one, say: That was one.}\n"
                         "  - when: two\n"
                         "    tools: [{name: bash, input: {command: \"touch made-by-no\"}}]\n"
                         "  - {when: two, say: That was two.}\n"
                         "  - when: three\n"
                         "    tools: [{name: bash, input: {command: \"mkdir -p a1\"}}]\n"
                         "  - when: three\n"
                         "    tools: [{name: bash, input: {command: \"mkdir -p a2\"}}]\n"
                         "  - {when: three, say: That was three.}\n");
    guest_type(&guest, "one\r");
    /* The first moment is over: one key is enough. Pasted text is not an answer. */
    guest_await_shown(&guest, "waiting for your answer 1 s");
    guest_paste(&guest, "y");
    guest_await_shown(&guest, "\n> y\n");
    assert_false(stage_exists("made-by-yes"));
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_shown(&guest, "Allow bash? y yes, n no");
    guest_type(&guest, "y");
    guest_await_shown(&guest, "That was one.");
    assert_true(stage_exists("made-by-yes"));
    guest_await_idle(&guest);
    guest_type(&guest, "two\r");
    answer(&guest, "n", "That was two.");
    guest_check_shown(&guest, "the user said no");
    assert_false(stage_exists("made-by-no"));
    guest_await_idle(&guest);
    /* "Always": the second call is not asked about. */
    guest_type(&guest, "three\r");
    guest_await_shown(&guest, "a always bash(mkdir *)");
    answer(&guest, "a", "That was three.");
    assert_true(stage_exists("a1") && stage_exists("a2"));
    guest_await_idle(&guest);
    guest_type(&guest, "/permissions\r");
    guest_await_shown(&guest, "allow         bash(mkdir *)");
    guest_leave(&guest);
}

static void a_stop_answers_a_question(void **state)
{
    struct guest guest;

    (void)state;
    begin_asking(&guest, "replies:\n"
                         "  - tools: [{name: bash, input: {command: \"touch never\"}}]\n"
                         "  - {say: It continues.}\n");
    guest_type(&guest, "one\r");
    guest_await_shown(&guest, "Allow bash?");
    guest_type(&guest, ESC);
    guest_await(&guest, "Nothing left running.");
    guest_await_idle(&guest);
    guest_await_hidden(&guest, "Allow bash?");
    assert_false(stage_exists("never"));
    guest_type(&guest, "two\r");
    guest_await(&guest, "It continues.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void text_typed_before_the_question_is_not_an_answer(void **state)
{
    struct guest guest;

    (void)state;
    begin_asking(&guest, "replies:\n"
                         "  - {when: one, tools: [{name: bash, input: {command: \"touch x\"}}]}\n"
                         "  - {when: yes, say: Thank you.}\n");
    /* The last keys arrive before the question. */
    guest_type(&guest, "one\ry");
    guest_await_shown(&guest, "Allow bash? Enter sends your text");
    guest_await_shown(&guest, "\n> y\n");
    assert_false(stage_exists("x"));
    guest_say(&guest, "es, please", "> yes, please");
    /* It is sent to the turn, and the question remains. */
    guest_type(&guest, "\r");
    guest_await_shown(&guest, "queued: yes, please");
    guest_await_shown(&guest, "Allow bash? y yes, n no");
    assert_false(stage_exists("x"));
    /* A single letter that arrived too early becomes the answer with Enter. */
    guest_type(&guest, "y\r");
    guest_await(&guest, "Thank you.");
    guest_await_idle(&guest);
    assert_true(stage_exists("x"));
    guest_leave(&guest);
}

static void a_question_of_a_sub_agent_names_it(void **state)
{
    struct guest guest;

    (void)state;
    begin_asking(&guest, "replies:\n"
                         "  - when: delegate\n"
                         "    tools: [{name: task, input: {agent: worker, prompt: \"build it\"}}]\n"
                         "  - when: build it\n"
                         "    tools: [{name: bash, input: {command: \"touch built\"}}]\n"
                         "  - {when: build it, say: Built.}\n"
                         "  - {when: delegate, say: It is done.}\n");
    guest_type(&guest, "delegate\r");
    guest_await_shown(&guest, "Allow bash of worker");
    guest_type(&guest, "y\r");
    guest_await(&guest, "It is done.");
    assert_true(stage_exists("built"));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void a_long_command_is_shown_whole_before_it_is_asked_about(void **state)
{
    struct guest guest;
    char script[2048], filler[801];

    (void)state;
    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    snprintf(script, sizeof script,
             "replies:\n"
             "  - tools: [{name: bash, input: {command: \"echo %s; rm -rf hidden-at-the-end\"}}]\n",
             filler);
    begin_asking(&guest, script);
    guest_type(&guest, "one\r");
    guest_await_shown(&guest, "Allow bash?");
    guest_await(&guest, "rm -rf hidden-at-the-end");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

/* ---- The line -------------------------------------------------------------------------------- */

static void history_goes_back_over_several_runs(void **state)
{
    static const char script[] = "replies: [{say: A1.}, {say: A2.}, {say: A3.}]\n";
    struct guest guest;

    (void)state;
    guest_chat(&guest, script);
    guest_type(&guest, "first thing\r");
    guest_await(&guest, "A1.");
    guest_await_idle(&guest);
    guest_type(&guest, "second\nof two lines");
    guest_await_shown(&guest, "> second\n  of two lines");
    guest_type(&guest, "\r");
    guest_await(&guest, "A2.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    guest_chat(&guest, script);
    guest_say(&guest, UP, "> second\n  of two lines");
    guest_say(&guest, UP UP, "> first thing");
    guest_type(&guest, "\x1B[B\x1B[B\x1B[B\x1B[B");
    guest_await_idle(&guest);
    /* Ctrl+R searches; Tab takes the match, and Ctrl+C restores the line. */
    guest_type(&guest, KEY_CTRL('r'));
    guest_say(&guest, "thing", "> first thing");
    guest_type(&guest, "\t\x05!");
    guest_await_shown(&guest, "> first thing!");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_say(&guest, "draft", "> draft");
    guest_type(&guest, KEY_CTRL('r'));
    guest_say(&guest, "thing", "> first thing");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_shown(&guest, "> draft");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void tab_completes_commands_and_paths(void **state)
{
    struct guest guest;

    (void)state;
    stage_file("alpha-one.txt", "");
    stage_file("alpha-two.txt", "");
    assert_int_equal(mkdir("beta", 0700), 0);
    stage_file("beta/gamma.c", "");
    guest_chat(&guest, "replies: [{say: x}]\n");
    guest_say(&guest, "/he\t", "> /help");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    /* Several candidates: first the common part, then a menu. */
    guest_say(&guest, "/c\t\t", "/compact");
    guest_check_shown(&guest, "/cancel");
    guest_check_shown(&guest, "/cost");
    guest_type(&guest, "x");
    guest_await_hidden(&guest, "/cancel");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_say(&guest, "read al\t", "> read alpha-");
    guest_say(&guest, "\t", "alpha-one.txt");
    guest_check_shown(&guest, "alpha-two.txt");
    guest_say(&guest, "o\t", "> read alpha-one.txt");
    guest_say(&guest, "and be\tg\t", "> read alpha-one.txt and beta/gamma.c");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void input_of_several_lines_is_one_prompt(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - {when: four, say: That was typed.}\n"
                       "  - {when: seven, say: That was pasted.}\n");
    /* Ctrl+J, Alt+Enter, and a backslash before Enter. */
    guest_type(&guest, "one\ntwo" ESC "\rthree\\\rfour");
    guest_await_shown(&guest, "> one\n  two\n  three\n  four\n");
    guest_type(&guest, "\r");
    guest_await(&guest, "That was typed.");
    guest_await_idle(&guest);
    guest_paste(&guest, "five\rsix\r\nseven");
    guest_await_shown(&guest, "> five\n  six\n  seven\n");
    guest_type(&guest, "\r");
    guest_await(&guest, "That was pasted.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_int_equal(stage_size_at(session, "/turns"), 2);
    assert_string_equal(stage_text_at(session, "/turns/0/prompt"), "one\ntwo\nthree\nfour");
    assert_string_equal(stage_text_at(session, "/turns/1/prompt"), "five\nsix\nseven");
}

static void ctrl_l_redraws_the_screen(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies: [{say: An answer.}]\n");
    guest_type(&guest, "something\r");
    guest_await_shown(&guest, "An answer.");
    guest_await_idle(&guest);
    guest_type(&guest, "draft");
    guest_await_shown(&guest, "> draft");
    guest_type(&guest, KEY_CTRL('l'));
    guest_await_hidden(&guest, "An answer.");
    guest_await_shown(&guest, "\n> draft\n");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

SUITE(chat_input, STAGED(a_question_is_answered_with_a_key), STAGED(a_stop_answers_a_question),
      STAGED(text_typed_before_the_question_is_not_an_answer),
      STAGED(a_question_of_a_sub_agent_names_it),
      STAGED(a_long_command_is_shown_whole_before_it_is_asked_about),
      STAGED(history_goes_back_over_several_runs), STAGED(tab_completes_commands_and_paths),
      STAGED(input_of_several_lines_is_one_prompt), STAGED(ctrl_l_redraws_the_screen));
