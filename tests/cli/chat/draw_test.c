#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char conversation[] =
    "name: played\n"
    "replies:\n"
    "  - when: hello\n"
    "    say: \"Hello, **you**.\\n\\n- one\\n- two\"\n"
    "    pieces: 7\n"
    "  - when: look\n"
    "    say: \"Let me look.\"\n"
    "    tools: [{name: bash, input: {command: \"echo found it\"}}]\n"
    "  - when: look\n"
    "    say: \"There it is.\"\n"
    "  - when: wait\n"
    "    wedge: after_first_token\n"
    "    say: \"Thinking about it.\"\n";

/* Checks the screen below the banner, whose session has a new name each time. */
static void check_screen(struct guest *guest, const char *expected)
{
    const char *shown = screen_shown(guest->screen), *from = strstr(shown, "sandbox");

    assert_non_null(from);
    assert_string_equal(strchr(from, '\n') + 1, expected);
}

static void check_cursor(struct guest *guest, size_t column)
{
    size_t row, at;

    screen_cursor(guest->screen, &row, &at);
    assert_int_equal(at, column);
    assert_true(screen_cursor_visible(guest->screen));
    assert_memory_equal(screen_row(guest->screen, row), "> ", 2);
}

static void the_screen_after_each_key_of_a_conversation(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, conversation);
    guest_check_shown(&guest, "script played in /");
    guest_check_shown(&guest, "permissions yolo, sandbox off");
    check_screen(&guest, "\nplayed · yolo\n\n> Type a prompt, or /help\n");
    check_cursor(&guest, 2);
    static const char *const lines[] = {"> h", "> he", "> hel", "> hell", "> hello"};
    for (size_t i = 0; i < BL_COUNT(lines); i++) {
        guest_type(&guest, (const char[]){lines[i][strlen(lines[i]) - 1], '\0'});
        guest_await_shown(&guest, stage_printf("\n%s\n", lines[i]));
        check_screen(&guest, stage_printf("\nplayed · yolo\n\n%s\n", lines[i]));
        check_cursor(&guest, strlen(lines[i]));
    }
    guest_type(&guest, "\r");
    guest_await_shown(&guest, "two\n");
    guest_await_idle(&guest);
    check_screen(&guest, "\n"
                         "> hello\n"
                         "\n"
                         "Hello, you.\n"
                         "\n"
                         "• one\n"
                         "• two\n"
                         "\n"
                         "played · 7 tokens · yolo\n"
                         "\n"
                         "> Type a prompt, or /help\n");
    guest_type(&guest, "look\r");
    guest_await_shown(&guest, "There it is.");
    guest_await_idle(&guest);
    const char *shown = screen_shown(guest.screen);
    assert_non_null(strstr(shown, "• two\n\n> look\n\nLet me look.\n\n● bash  echo found it"));
    assert_non_null(strstr(shown, "\n  found it\n\nThere it is.\n\nplayed · "));
    guest_leave(&guest);
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* Checks that the status and input lines are on the screen once, with the cursor on the line. */
static void check_one_prompt(struct guest *guest, const char *line)
{
    const char *shown = screen_shown(guest->screen);
    size_t row, column;

    if (stage_lines_with(shown, line) != 1)
        fail_msg("not once '%s':\n%s", line, shown);
    screen_cursor(guest->screen, &row, &column);
    assert_non_null(strstr(screen_row(guest->screen, row), line));
}

static void resizing_while_a_turn_runs_and_while_none_does(void **state)
{
    static const struct {
        size_t columns, rows;
    } sizes[] = {{40, 24}, {200, 50}, {80, 10}, {20, 4}, {120, 30}};
    struct guest guest;

    (void)state;
    guest_chat(&guest, conversation);
    guest_type(&guest, "hello\r");
    guest_await(&guest, "two\n");
    guest_await_idle(&guest);
    guest_type(&guest, "typed");
    guest_await_shown(&guest, "> typed");
    for (size_t i = 0; i < BL_COUNT(sizes); i++) {
        guest_resize(&guest, sizes[i].columns, sizes[i].rows);
        guest_type(&guest, "!");
        guest_await_shown(&guest, stage_printf("typed%.*s\n", (int)i + 1, "!!!!!!"));
        check_one_prompt(&guest, "> typed");
    }
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_type(&guest, "wait\r");
    guest_await_shown(&guest, "Esc to stop");
    for (size_t i = 0; i < BL_COUNT(sizes); i++) {
        guest_resize(&guest, sizes[i].columns, sizes[i].rows);
        guest_type(&guest, "x");
        guest_await_shown(&guest, stage_printf("> %.*s\n", (int)i + 1, "xxxxxx"));
        check_one_prompt(&guest, "> x");
    }
    guest_type(&guest, KEY_CTRL('c'));
    guest_await(&guest, "Nothing left running.");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void windows_of_40_columns_work_and_smaller_ones_do_not_break_it(void **state)
{
    static const struct {
        size_t columns, rows;
    } sizes[] = {{40, 12}, {20, 4}, {5, 3}, {2, 2}, {1, 1}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(sizes); i++) {
        struct guest guest;
        GUEST(&guest, sizes[i].columns, sizes[i].rows, "--provider", stage_script(conversation),
              "--yolo");
        guest_await_taken(&guest);
        guest_type(&guest, "look\r");
        if (sizes[i].columns >= 20)
            guest_await(&guest, "There it is.");
        if (sizes[i].columns == 40) {
            guest_await_idle(&guest);
            guest_check_shown(&guest, "> look\n\nLet me look.\n\n● bash  echo found it");
            guest_type(&guest, "a prompt that is longer than the window");
            guest_await_shown(&guest, "> a prompt that is longer than the wind\n  ow\n");
            guest_type(&guest, KEY_CTRL('u'));
        }
        guest_type(&guest, "/quit\r");
        assert_int_equal(guest_wait(&guest), 0);
        assert_true(guest_terminal_as_before(&guest));
        guest_end(&guest);
    }
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void no_color_means_none(void **state)
{
    static const char *const none[] = {"NO_COLOR=1", NULL};
    struct guest guest;

    (void)state;
    guest_begin(&guest, 80, 24,
                (const char *const[]){"--provider", stage_script(conversation), "--yolo", NULL},
                none);
    guest_await_idle(&guest);
    guest_type(&guest, "hello\r");
    guest_await(&guest, "two\n");
    guest_await_idle(&guest);
    guest_type(&guest, "look\r");
    guest_await(&guest, "There it is.");
    guest_await_idle(&guest);
    guest_say(&guest, "/c\t\t", "/compact");
    guest_type(&guest, KEY_CTRL('u'));
    guest_say(&guest, "/wrong\r", "unknown command /wrong");
    assert_false(screen_styled(guest.screen));
    struct bl_text bytes = bl_buffer_text(&guest.bytes), rest = bytes, piece;
    while (bl_text_split(&rest, '\x1B', &piece)) {
        size_t end = strspn(piece.data, "[?0123456789;");
        assert_true(piece.size == 0 || piece.data[0] != '[' || piece.data[end] != 'm');
    }
    guest_leave(&guest);
    /* Otherwise there are colours. */
    guest_chat(&guest, conversation);
    assert_true(screen_styled(guest.screen));
    guest_leave(&guest);
}

static void hostile_text_cannot_control_the_terminal(void **state)
{
    static struct run run;
    struct guest guest;

    (void)state;
    RUN(&run, "run", "a \x1B[2J\x1B]0;x\x07 title", "--provider",
        stage_script("replies: [{say: x}]\n"), "--session", "hostile");
    assert_int_equal(run.exit_code, 0);
    guest_chat(&guest,
               "name: \"e\\e]0;name\\avil\"\n"
               "replies:\n"
               "  - say: \"Fine \\e[2J\\e]0;title\\a\\x9B31m \\u202E and well.\"\n"
               "    tools: [{name: bash, input: {command: \"printf 'out\\\\033[2Jput\\\\033]0;t"
               "\\\\007 done'; : \\e[2J\"}}]\n"
               "  - {say: The end.}\n");
    guest_paste(&guest, "hos\x1B[2Jtile \x1B]0;x\x07 \xE2\x80\xAE prompt");
    guest_type(&guest, "\r");
    guest_await(&guest, "The end.");
    guest_await_idle(&guest);
    guest_say(&guest, "/sessions\r", "hostile, ");
    guest_check_shown(&guest, "1 turn: a ");
    guest_paste(&guest, "/\x01wrong");
    guest_say(&guest, "\r", "unknown command /");
    struct bl_text bytes = bl_buffer_text(&guest.bytes);
    assert_int_equal(bl_text_find(bytes, BL_TEXT("\x1B[2J")), -1);
    /* Only the request for the background and the window titles are ours. */
    assert_int_equal(guest_sent(&guest, "\x1B]"),
                     guest_sent(&guest, "\x1B]11;?\x1B\\") +
                         guest_sent(&guest, "\x1B]2;belay: work\x1B\\") +
                         guest_sent(&guest, "\x1B]2;… belay: work\x1B\\"));
    assert_int_equal(bl_text_find(bytes, BL_TEXT("\x07")), -1);
    assert_int_equal(bl_text_find(bytes, BL_TEXT("\xE2\x80\xAE")), -1);
    guest_check_shown(&guest, "> Type a prompt, or /help");
    guest_leave(&guest);
}

static void a_tool_that_prints_10_megabytes_and_long_lines_does_not_flood_it(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest,
               "replies:\n"
               "  - tools: [{name: bash, input: {command: \"yes 0123456789abcdef | head -c "
               "10000000; head -c 1000000 /dev/zero | tr '\\\\0' x; echo; echo at-last\"}}]\n"
               "  - {say: The end.}\n");
    size_t before = guest.bytes.size;
    guest_type(&guest, "go\r");
    guest_await(&guest, "The end.");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "at-last");
    /* Only some frames of a few lines. */
    assert_in_range(guest.bytes.size - before, 100, 300000);
    guest_leave(&guest);
}

/* ---- Running work ---------------------------------------------------------------------------- */

/* Returns the processor time used so far, in ticks. */
static unsigned long ticks_of(pid_t pid)
{
    char path[64], line[1024] = "";
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_int_equal(sscanf(strrchr(line, ')'),
                            ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                            &system),
                     2);
    return user + system;
}

static unsigned long switches_of(pid_t pid)
{
    char path[64], line[256];
    unsigned long count = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "voluntary_ctxt_switches: %lu", &count);
    fclose(file);
    return count;
}

static void idle_chat_uses_no_processor_time(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, conversation);
    guest_type(&guest, "hello\r");
    guest_await(&guest, "two\n");
    guest_await_idle(&guest);
    usleep(100000);
    unsigned long ticks = ticks_of(guest.held.pid), switches = switches_of(guest.held.pid);
    size_t bytes = guest.bytes.size;
    usleep(500000);
    guest_await_idle(&guest);
    assert_in_range(ticks_of(guest.held.pid) - ticks, 0, 2);
    assert_in_range(switches_of(guest.held.pid) - switches, 0, 5);
    assert_int_equal(guest.bytes.size, bytes);
    guest_leave(&guest);
}

static void background_commands_are_in_the_status_line_until_they_end(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "name: played\n"
                       "replies:\n"
                       "  - tools: [{name: bash, input: {command: \"while [ ! -e go ]; do sleep "
                       "0.02; done\", background: true}}]\n"
                       "  - {say: It runs.}\n");
    guest_type(&guest, "start\r");
    guest_await(&guest, "It runs.");
    guest_await_idle(&guest);
    guest_await_shown(&guest, "1 job · played");
    stage_file("go", "");
    guest_await_hidden(&guest, "1 job");
    guest_leave(&guest);
}

static void status_line_has_model_deadline_and_phase(void **state)
{
    struct guest guest;

    (void)state;
    GUEST(&guest, 80, 24, "--provider", stage_script(conversation), "--yolo", "--timeout", "1h");
    guest_await_idle(&guest);
    guest_type(&guest, "wait\r");
    guest_await_shown(&guest, "model · 59m 59s left · played · yolo");
    guest_type(&guest, KEY_CTRL('c'));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

SUITE(chat_draw, STAGED(the_screen_after_each_key_of_a_conversation),
      STAGED(resizing_while_a_turn_runs_and_while_none_does),
      STAGED(windows_of_40_columns_work_and_smaller_ones_do_not_break_it),
      STAGED(no_color_means_none), STAGED(hostile_text_cannot_control_the_terminal),
      STAGED(a_tool_that_prints_10_megabytes_and_long_lines_does_not_flood_it),
      STAGED(idle_chat_uses_no_processor_time),
      STAGED(background_commands_are_in_the_status_line_until_they_end),
      STAGED(status_line_has_model_deadline_and_phase));
