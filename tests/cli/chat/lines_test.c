#include "guest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Starts `belay chat` without a terminal; the test writes to `*ret_input`. */
static void begin_lines(struct held *held, const char *script, int *ret_input)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(held,
               (const char *const[]){runner_program(), "chat", "--provider", stage_script(script),
                                     "--yolo", NULL},
               ends[0], RUN_KEEP);
    close(ends[0]);
    *ret_input = ends[1];
}

static void write_line(int input, const char *text)
{
    assert_int_equal(write(input, text, strlen(text)), (ssize_t)strlen(text));
}

static void without_a_terminal_it_reads_lines(void **state)
{
    struct held held;
    int input;

    (void)state;
    begin_lines(
        &held,
        "name: played\n"
        "replies:\n"
        "  - {when: first, say: One.}\n"
        "  - {when: second, say: Let me see., tools: [{name: bash, input: {command: ls}}]}\n"
        "  - {when: second, say: Two.}\n"
        "  - {when: third, say: \"Three.\\n\"}\n",
        &input);
    /* The last line has no LF. */
    write_line(input, "first\n\n  second  \n/cost\nthird");
    close(input);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_string_equal(held_out(&held), "One.\nLet me see.\nTwo.\nThree.\n");
    const char *err = held_err(&held);
    assert_non_null(strstr(err, "script played in /"));
    assert_non_null(strstr(err, "permissions yolo, sandbox off\n"));
    assert_non_null(strstr(err, "\nbash: ls\n"));
    /* In order. */
    assert_non_null(strstr(err, "the session: "));
    assert_non_null(strstr(err, "2 turns"));
    assert_null(strchr(err, '\x1B'));
    held_await_count(&held, 0);
    held_end(&held);
    assert_int_equal(stage_turns(guest_session()), 3);
}

static void every_command_works_over_lines(void **state)
{
    struct held held;
    int input;

    (void)state;
    begin_lines(&held, "name: played\nreplies: [{say: One.}]\n", &input);
    write_line(input, "/help\n/tools\n/model\n/sessions\n/ps\n/permissions\n/cancel nothing\n"
                      "/resume nothing\n/compact\n/fork copy\n/wrong\n/model wrong\n/quit\n"
                      "never sent\n");
    held_wait(&held);
    close(input);
    assert_int_equal(held.exit_code, 0);
    assert_string_equal(held_out(&held), "");
    const char *err = held_err(&held);
    static const char *const said[] = {"/help list the commands\n",
                                       "\nbash Run",
                                       "\nscript played\n",
                                       "no running work\n",
                                       "mode yolo\n",
                                       "no running work with id 'nothing'",
                                       "session copy",
                                       "unknown command /wrong",
                                       "/help lists the commands"};
    for (size_t i = 0; i < BL_COUNT(said); i++) {
        if (strstr(err, said[i]) == NULL)
            print_error("no '%s' in:\n%s\n", said[i], err);
        assert_non_null(strstr(err, said[i]));
    }
    held_end(&held);
}

static void an_end_of_input_in_mid_turn_lets_it_finish(void **state)
{
    struct held held;
    int input;

    (void)state;
    begin_lines(&held,
                "replies:\n"
                "  - when: go\n"
                "    tools: [{name: bash, input: {command: \"touch begun; while [ ! -e go ]; do "
                "sleep 0.02; done\"}}]\n"
                "  - {when: go, say: Finished.}\n"
                "  - {when: more, say: And more.}\n",
                &input);
    write_line(input, "go\nmore\n");
    close(input);
    stage_await_file("begun");
    stage_file("go", "");
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_string_equal(held_out(&held), "Finished.\nAnd more.\n");
    held_end(&held);
}

static void a_closed_pipe_stops_and_exits_130(void **state)
{
    struct held held;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int input[2];
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    held_start(&held,
               (const char *const[]){
                   runner_program(), "chat", "--yolo", "--provider",
                   stage_script("replies: [{say: Some text., wedge: after_first_token}]\n"), NULL},
               input[0], ends[1]);
    close(ends[1]);
    close(input[0]);
    write_line(input[1], "go\n");
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    held_wait(&held);
    close(input[1]);
    assert_int_equal(held.exit_code, 130);
    held_await_count(&held, 0);
    held_end(&held);
    const struct bl_json *session = guest_show(guest_session());
    assert_string_equal(stage_text_at(session, "/turns/0/receipt/reason"), "client_gone");
}

static void a_signal_stops_the_turn_and_ends_it(void **state)
{
    static const struct {
        int number;
        int exit_code;
    } signals[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 130}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(signals); i++) {
        struct held held;
        int input;
        begin_lines(&held, "replies:\n  - tools: [{name: bash, input: {command: \"sleep 60\"}}]\n",
                    &input);
        write_line(input, "go\nand never this\n");
        held_await_at_least(&held, 3);
        kill(held.pid, signals[i].number);
        held_wait(&held);
        close(input);
        assert_int_equal(held.exit_code, signals[i].exit_code);
        assert_non_null(strstr(held_err(&held), "Nothing left running."));
        held_await_count(&held, 0);
        held_end(&held);
        assert_int_equal(stage_turns(guest_session()), 1);
    }
}

static void foreign_text_cannot_control_a_terminal(void **state)
{
    struct held held;
    int input;

    (void)state;
    begin_lines(&held,
                "replies:\n"
                "  - tools: [{name: bash, input: {command: \"echo '\\e]0;title\\a'\"}}]\n"
                "  - error: {status: 400, times: 1}\n",
                &input);
    write_line(input, "go\n/\x1B[31mred\nbad \xFF bytes\n");
    close(input);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_null(strchr(held_err(&held), '\x1B'));
    assert_non_null(strstr(held_err(&held), "not valid UTF-8"));
    held_end(&held);
}

SUITE(chat_lines, STAGED(without_a_terminal_it_reads_lines), STAGED(every_command_works_over_lines),
      STAGED(an_end_of_input_in_mid_turn_lets_it_finish), STAGED(a_closed_pipe_stops_and_exits_130),
      STAGED(a_signal_stops_the_turn_and_ends_it), STAGED(foreign_text_cannot_control_a_terminal));
