/* The appearance: colours, results, the transcript. */
#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char code[] =
    "name: played\n"
    "replies:\n"
    "  - when: show\n"
    "    say: \"Like this:\\n\\n```c\\nreturn 0; // done\\n```\\n\\nThat is it.\"\n"
    "  - when: write\n"
    "    tools: [{name: write, input: {path: a.py, content: \"def f():\\n    return 1\\n\"}}]\n"
    "  - when: write\n"
    "    say: \"Written.\"\n";

static void check_sent(struct guest *guest, const char *bytes)
{
    suite_fail_if(guest_sent(guest, bytes) == 0, "not sent: %s in\n" BL_TEXT_FORMAT, bytes + 1,
                  BL_TEXT_ARG(bl_buffer_text(&guest->bytes)));
}

static void code_and_changes_of_files_are_highlighted(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, code);
    guest_say(&guest, "show\r", "That is it.");
    check_sent(&guest, "\x1b[35mreturn\x1b[0m \x1b[33m0\x1b[0m; \x1b[2m// done");
    guest_await_idle(&guest);
    guest_say(&guest, "write\r", "Written.");
    check_sent(&guest, "\x1b[48;5;22m+ \x1b[35mdef");
    guest_leave(&guest);
}

static void no_colours_are_sent_where_none_are_wanted(void **state)
{
    static const char *const environment[] = {"NO_COLOR=1", NULL};
    struct guest guest;

    (void)state;
    guest_begin(&guest, 80, 24,
                (const char *const[]){"--provider", stage_script(code), "--yolo", NULL},
                environment);
    guest_await_idle(&guest);
    guest_say(&guest, "show\r", "That is it.");
    assert_false(screen_styled(guest.screen));
    guest_leave(&guest);
}

/* Yellow is dark on a light background; on a dark one it is the terminal's own. */
#define LIGHT_NUMBER "\x1b[38;5;130m0"
#define DARK_NUMBER  "\x1b[33m0"

static void check_theme(const char *const *words, const char *const *environment,
                        const char *number)
{
    const char *all[8] = {"--provider", stage_script(code), "--yolo"};
    struct guest guest;

    for (size_t i = 0; words[i] != NULL; i++)
        all[3 + i] = words[i];
    guest_begin(&guest, 80, 24, all, environment);
    guest_await_idle(&guest);
    guest_say(&guest, "show\r", "That is it.");
    check_sent(&guest, number);
    guest_leave(&guest);
}

static void colours_suit_the_background_that_the_terminal_has(void **state)
{
    static const char *const nothing[] = {NULL}, *const light[] = {"--theme", "light", NULL},
                             *const dark[] = {"--theme", "dark", NULL},
                             *const variable[] = {"COLORFGBG=0;15", NULL};

    (void)state;
    check_theme(nothing, NULL, DARK_NUMBER);
    guest_have_background("rgb:fdfd/f6f6/e3e3");
    check_theme(nothing, NULL, LIGHT_NUMBER);
    check_theme(dark, NULL, DARK_NUMBER);
    guest_have_background("rgb:0000/2b2b/3636");
    check_theme(nothing, NULL, DARK_NUMBER);
    check_theme(light, NULL, LIGHT_NUMBER);
    guest_have_background(NULL);
    check_theme(nothing, variable, LIGHT_NUMBER);
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml", "chat: {theme: light}\n");
    check_theme(nothing, NULL, LIGHT_NUMBER);
    check_theme(dark, NULL, DARK_NUMBER);
}

/* In pieces, with pauses long enough to turn a lone escape into a key. */
static void late_reply_of_the_terminal_is_not_text(void **state)
{
    static const char *const pieces[] = {"\x1b", "]11;rgb:ffff", "/ffff/ffff", "\x1b", "\\"};
    struct guest guest;

    (void)state;
    GUEST(&guest, 80, 24, "--provider", stage_script(code), "--yolo");
    guest.asked = true; /* so that the guest does not answer */
    guest_await_taken(&guest);
    for (size_t i = 0; i < BL_COUNT(pieces); i++) {
        guest_type(&guest, pieces[i]);
        usleep(80000);
    }
    guest_await_idle(&guest);
    guest_say(&guest, "show\r", "That is it.");
    check_sent(&guest, LIGHT_NUMBER);
    assert_null(strstr(screen_all(guest.screen), "rgb"));
    guest_leave(&guest);
}

static const char asking[] = "name: played\n"
                             "replies:\n"
                             "  - when: look\n"
                             "    tools: [{name: bash, input: {command: sleep 1.2}}]\n"
                             "  - when: look\n"
                             "    say: \"Looked.\"\n";

/* Runs a turn of more than a second. */
static void look_once(struct guest *guest, const char *config)
{
    stage_file("../config/belay/config.yaml", config);
    GUEST(guest, 80, 24, "--provider", stage_script(asking), "--yolo");
    guest_await_idle(guest);
    guest_say(guest, "look\r", "Looked.");
    guest_await_idle(guest);
}

static void a_turn_that_took_a_while_rings_the_bell_or_notifies(void **state)
{
    struct guest guest;

    (void)state;
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    look_once(&guest, "chat: {notify_after: 1s}\n");
    assert_int_equal(guest_sent(&guest, "\a"), 1);
    guest_leave(&guest);
    look_once(&guest, "chat: {notify_after: 1s, notify: osc9}\n");
    assert_int_equal(guest_sent(&guest, "\x1B]9;belay: the turn completed\x1B\\"), 1);
    assert_int_equal(guest_sent(&guest, "\a"), 0);
    guest_leave(&guest);
    look_once(&guest, "chat: {notify_after: 1s, notify: off}\n");
    assert_int_equal(guest_sent(&guest, "\a") + guest_sent(&guest, "\x1B]9"), 0);
    guest_leave(&guest);
    look_once(&guest, "chat: {notify_after: 60s}\n");
    assert_int_equal(guest_sent(&guest, "\a"), 0);
    guest_leave(&guest);
}

static void window_title_shows_the_state_and_is_restored(void **state)
{
    struct guest guest;

    (void)state;
    GUEST(&guest, 80, 24, "--provider", stage_script(asking));
    guest_await_idle(&guest);
    check_sent(&guest, "\x1B[22;2t\x1B]2;belay: work\x1B\\");
    guest_say(&guest, "look\r", "Allow bash?");
    check_sent(&guest, "\x1B]2;? belay: work\x1B\\");
    guest_type(&guest, ESC);
    guest_await_idle(&guest);
    guest_type(&guest, KEY_CTRL('d'));
    assert_int_equal(guest_wait(&guest), 0);
    assert_int_equal(guest_sent(&guest, "\x1B[22;2t"), 1);
    assert_int_equal(guest_sent(&guest, "\x1B[23;2t"), 1);
    guest_end(&guest);
}

static const char working[] =
    "name: played\n"
    "context_window: 1000\n"
    "replies:\n"
    "  - when: count\n"
    "    tools: [{name: bash, input: {command: \"seq 100\"}}]\n"
    "  - when: count\n"
    "    tools: [{name: exec, input: {source: \"// one\\ntext('from ' + 'the cell');\"}}]\n"
    "  - when: count\n"
    "    say: \"Counted.\"\n"
    "  - when: silent\n"
    "    wedge: after_first_token\n"
    "    say: \"Thinking about it.\"\n";

static void results_are_shown_and_ctrl_o_unfolds_all_of_them(void **state)
{
    struct guest guest;

    (void)state;
    GUEST(&guest, 40, 14, "--provider", stage_script(working), "--yolo");
    guest_await_idle(&guest);
    guest_say(&guest, "count\r", "Counted.");
    guest_await_idle(&guest);
    guest_await(&guest, "… 93 more lines (Ctrl+O)");
    guest_await(&guest, "from the cell");
    guest_check_shown(&guest, "% context left");
    assert_int_equal(guest_times(&guest, "  50\n"), 0);
    guest_say(&guest, KEY_CTRL('o'), "Transcript");
    guest_check_shown(&guest, "Counted.");
    guest_check_shown(&guest, "text('from ' + 'the cell');");
    guest_type(&guest, "g");
    guest_await_shown(&guest, "> count");
    for (unsigned page = 1; page < 9 && strstr(screen_shown(guest.screen), "  50\n") == NULL;
         page++) {
        guest_type(&guest, " ");
        guest_await_shown(&guest, stage_printf(" %u-", page * 13 + 1));
    }
    guest_await_shown(&guest, "  50\n");
    guest_resize(&guest, 60, 20);
    guest_type(&guest, "G");
    guest_await_shown(&guest, "Counted.");
    guest_await_shown(&guest, "Transcript");
    guest_type(&guest, ESC);
    guest_await_idle(&guest);
    guest_await_hidden(&guest, "Transcript");
    assert_int_equal(guest_sent(&guest, "\x1B[?1049h"), 1);
    assert_int_equal(guest_sent(&guest, "\x1B[?1049l"), 1);
    guest_leave(&guest);
}

/* The summary ends in the last column. */
static void a_line_that_fills_the_window_is_whole_in_the_transcript(void **state)
{
    struct guest guest;
    const char *row = "";

    (void)state;
    GUEST(&guest, 40, 14, "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: \"true aaaaaaaaaaaaaaaaaaaaaaa"
                       "aaaaaaaaaaaaaaaa\"}}]\n"
                       "  - {say: The end.}\n"),
          "--yolo");
    guest_await_idle(&guest);
    guest_say(&guest, "go\r", "The end.");
    guest_await_idle(&guest);
    guest_say(&guest, KEY_CTRL('o'), "Transcript");
    for (size_t i = 0; i < 14 && strncmp(row, "● bash", strlen("● bash")) != 0; i++)
        row = screen_row(guest.screen, i);
    suite_fail_if(row[0] == '\0' || row[strlen(row) - 1] != ')', "cut: %s", row);
    guest_type(&guest, "q");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void turn_continues_below_the_transcript_and_can_be_stopped_there(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, working);
    guest_type(&guest, "silent\r");
    guest_await_shown(&guest, "Esc to stop");
    guest_say(&guest, KEY_CTRL('o'), "Transcript");
    guest_await_shown(&guest, "> silent");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await(&guest, "Nothing left running.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

/* The alternate screen is left as well. */
static void terminal_is_restored_after_a_kill_in_the_transcript(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, working);
    guest_say(&guest, KEY_CTRL('o'), "Transcript");
    kill(guest.held.pid, SIGSEGV);
    guest_wait(&guest);
    assert_int_equal(guest_sent(&guest, "\x1B[?1049l"), 1);
    assert_true(guest_terminal_as_before(&guest));
    guest_end(&guest);
}

static void a_dumb_terminal_gets_lines_and_no_escape_sequences(void **state)
{
    static const char *const environment[] = {"TERM=dumb", NULL};
    struct guest guest;

    (void)state;
    guest_begin(&guest, 80, 24,
                (const char *const[]){"--provider", stage_script(code), "--yolo", NULL},
                environment);
    guest_type(&guest, "show\n");
    guest_await(&guest, "That is it.");
    guest_type(&guest, "/quit\n");
    assert_int_equal(guest_wait(&guest), 0);
    assert_int_equal(guest_sent(&guest, "\x1B"), 0);
    guest_end(&guest);
}

/* The user takes three seconds to answer; the command itself takes no time. */
static void time_of_a_call_excludes_its_question(void **state)
{
    static const char script[] = "replies:\n"
                                 "  - tools: [{name: bash, input: {command: echo done it}}]\n"
                                 "  - {say: The end.}\n";
    static struct run run;
    struct guest guest;
    int64_t ms = -1;

    (void)state;
    GUEST(&guest, 80, 24, "--provider", stage_script(script));
    guest_await_idle(&guest);
    guest_say(&guest, "go\r", "Allow bash?");
    sleep(3);
    guest_type(&guest, "y");
    guest_await(&guest, "The end.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    const char *session = guest_session();
    const struct bl_json *step =
        bl_json_pointer(guest_show(session), BL_TEXT("/turns/0/steps/0/ms"));
    assert_true(bl_json_int64(step, &ms));
    assert_in_range(ms, 0, 2900);
    RUN(&run, "session", "show", session);
    assert_non_null(strstr(run.out, "  > go\n    ● bash  ok"));
}

SUITE(chat_look, STAGED(results_are_shown_and_ctrl_o_unfolds_all_of_them),
      STAGED(a_line_that_fills_the_window_is_whole_in_the_transcript),
      STAGED(turn_continues_below_the_transcript_and_can_be_stopped_there),
      STAGED(terminal_is_restored_after_a_kill_in_the_transcript),
      STAGED(a_dumb_terminal_gets_lines_and_no_escape_sequences),
      STAGED(time_of_a_call_excludes_its_question),
      STAGED(a_turn_that_took_a_while_rings_the_bell_or_notifies),
      STAGED(window_title_shows_the_state_and_is_restored),
      STAGED(code_and_changes_of_files_are_highlighted),
      STAGED(colours_suit_the_background_that_the_terminal_has),
      STAGED(late_reply_of_the_terminal_is_not_text),
      STAGED(no_colours_are_sent_where_none_are_wanted));
