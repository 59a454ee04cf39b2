#include "cli/chat/chat.h"
#include "guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the last word on the screen with that beginning. */
static const char *find_word(struct guest *guest, const char *beginning)
{
    const char *at = screen_shown(guest->screen), *found = NULL;

    while ((at = strstr(at, beginning)) != NULL)
        found = at++;
    if (found == NULL)
        fail_msg("no '%s' in:\n%s", beginning, screen_shown(guest->screen));
    return stage_keep((struct bl_text){found, strcspn(found, " ,.:\n")});
}

static void help_shows_each_command_in_its_row(void **state)
{
    struct guest guest;

    (void)state;
    GUEST(&guest, 80, 48, "--provider", stage_script("name: played\nreplies: [{say: x}]\n"));
    guest_await_idle(&guest);
    guest_type(&guest, "/help\r");
    guest_await_shown(&guest, "!COMMAND");
    guest_check_shown(&guest,
                      "\n/help         list the commands\n/model        [NAME]: list the models, ");
    for (const struct edit_command *row = chat_commands; row->name != NULL; row++)
        guest_check_shown(&guest, stage_printf("\n%-13s %s\n", row->name, row->summary));
    guest_leave(&guest);
    GUEST(&guest, 40, 24, "--provider", stage_script("name: played\nreplies: [{say: x}]\n"));
    guest_await_idle(&guest);
    guest_type(&guest, "/help\r");
    guest_await(&guest,
                "\n/compact      summarize earlier turns,\n              to free room in the\n");
    guest_leave(&guest);
}

static void commands_show_model_tools_sessions_and_cost(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "name: played\n"
                       "replies: [{say: Well., usage: {input: 100, output: 20}}]\n");
    guest_type(&guest, "one \x1B[31m red\r");
    guest_await(&guest, "Well.");
    guest_await_idle(&guest);
    guest_say(&guest, "/model\r", "\nscript played\n");
    guest_say(&guest, "/cost\r", "the session: 100 tokens in, 20 out, 1 turn\n");
    guest_say(&guest, "/ps\r", "no running work");
    guest_say(&guest, "/sessions\r", "1 turn, in use: one");
    guest_say(&guest, "/tools\r", "\ntodo          Records");
    guest_type(&guest, "/resume\r");
    guest_await_shown(&guest, "No sessions in this folder.");
    guest_type(&guest, ESC);
    guest_await_idle(&guest);
    guest_say(&guest, "/cancel\r", "usage: /cancel ID; /ps lists the ids");
    guest_leave(&guest);
}

static void unknown_command_is_reported_and_a_path_is_a_prompt(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "name: played\nreplies: [{say: Two entries.}]\n");
    guest_say(&guest, "/hlep\r", "unknown command /hlep; did you mean /help?");
    guest_say(&guest, "/qqqqqq\r", "unknown command /qqqqqq; /help lists the commands");
    guest_say(&guest, "/resume ../../x\r", "! ");
    guest_say(&guest, "/resume nothing\r", "there is no session nothing");
    guest_say(&guest, "/cancel nothing\r", "no running work with id 'nothing'");
    guest_say(&guest, "/permissions sometimes\r", "! ");
    guest_say(&guest, "/permissions allow bash(\r", "! ");
    guest_say(&guest, "/permissions deny bsh(rm *)\r", "unknown tool 'bsh' in rule 'bsh(rm *)'");
    guest_say(&guest, "/etc/hosts has how many?\r", "Two entries.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void permissions_can_be_changed(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "name: played\n"
                       "replies:\n"
                       "  - tools: [{name: bash, input: {command: \"touch x\"}}]\n"
                       "  - {say: Refused.}\n"
                       "  - tools: [{name: bash, input: {command: \"touch y\"}}]\n"
                       "  - {say: Done.}\n");
    guest_await_shown(&guest, "played · yolo");
    guest_type(&guest, "/permissions read-only\r");
    guest_await_shown(&guest, "played · read-only");
    guest_type(&guest, "one\r");
    guest_await(&guest, "Refused.");
    guest_await_idle(&guest);
    assert_false(stage_exists("x"));
    guest_type(&guest, "/permissions yolo\r");
    guest_await_shown(&guest, "· yolo");
    guest_say(&guest, "/permissions deny bash(touch *)\r", "deny          bash(touch *)");
    guest_say(&guest, "/permissions remove bash(tuch *)\r", "there is no rule 'bash(tuch *)'");
    guest_say(&guest, "/permissions deny write(x)\r", "deny          write(x)");
    guest_type(&guest, KEY_CTRL('l'));
    guest_await_hidden(&guest, "deny          ");
    guest_say(&guest, "/permissions remove write(x)\r", "deny          bash(touch *)");
    assert_null(strstr(screen_shown(guest.screen), "deny          write(x)"));
    guest_type(&guest, "two\r");
    guest_await(&guest, "Done.");
    guest_await_idle(&guest);
    assert_false(stage_exists("y"));
    guest_leave(&guest);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void held_session_is_refused_and_the_open_one_continues(void **state)
{
    static const char script[] = "replies:\n"
                                 "  - when: start\n"
                                 "    tools: [{name: bash, input: {command: \"sleep 60\", "
                                 "background: true}}]\n"
                                 "  - {when: start, say: Started.}\n"
                                 "  - {when: still, say: Still here.}\n";
    struct guest other, guest;

    (void)state;
    GUEST(&other, 80, 24, "--provider", stage_script("replies: [{say: x}]\n"), "--session",
          "taken");
    guest_await_idle(&other);
    GUEST(&guest, 80, 24, "--provider", stage_script(script), "--session", "mine", "--yolo");
    guest_await_idle(&guest);
    guest_type(&guest, "start\r");
    guest_await(&guest, "Started.");
    guest_await_shown(&guest, "1 job");
    guest_say(&guest, "/resume taken\r", "session taken is held by ");
    guest_await_idle(&guest);
    /* Its background commands are still running. */
    guest_check_shown(&guest, "1 job");
    guest_say(&guest, "/resume mine\r", "session mine is already open");
    guest_leave(&other);
    guest_type(&guest, "/resume taken\r");
    guest_await(&guest, "session taken, permissions yolo");
    guest_await_hidden(&guest, "1 job");
    guest_say(&guest, "/resume mine\r", "session mine with 1 turn,");
    /* With the last turn. */
    guest_await_shown(&guest, "> start\n\nStarted.\n");
    guest_type(&guest, "still\r");
    guest_await(&guest, "Still here.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    assert_int_equal(stage_turns("mine"), 2);
    assert_int_equal(stage_turns("taken"), 0);
}

static void fork_continues_in_a_copy(void **state)
{
    struct guest guest;

    (void)state;
    GUEST(&guest, 80, 24, "--provider",
          stage_script("replies: [{say: One.}, {say: Two.}, {say: Three.}]\n"), "--session",
          "trunk");
    guest_await_idle(&guest);
    guest_type(&guest, "first\r");
    guest_await(&guest, "One.");
    guest_await_idle(&guest);
    guest_type(&guest, "/fork branch\r");
    guest_await(&guest, "session branch with 1 turn,");
    guest_await_idle(&guest);
    guest_type(&guest, "second\r");
    guest_await(&guest, "Two.");
    guest_await_idle(&guest);
    guest_say(&guest, "/fork branch\r", "! ");
    guest_leave(&guest);
    assert_int_equal(stage_turns("trunk"), 1);
    assert_int_equal(stage_turns("branch"), 2);
}

static void continue_shows_the_last_turn(void **state)
{
    static const char script[] = "replies: [{say: \"An **answer**.\"}, {say: Another.}]\n";
    struct guest guest;

    (void)state;
    guest_chat(&guest, script);
    guest_type(&guest, "a question\r");
    guest_await(&guest, "An answer.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    GUEST(&guest, 80, 24, "--provider", stage_script(script), "--continue",
          "from the command line");
    guest_await(&guest, "> a question\n\nAn answer.\n\n> from the command line\n");
    guest_check_shown(&guest, " with 1 turn, permissions ask");
    guest_await_times(&guest, "An answer.", 2);
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void compact_summarizes_and_can_be_stopped(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - {when: \"^one\", say: One.}\n"
                       "  - {when: \"^two\", say: Two.}\n"
                       "  - {when: \"^three\", say: Three.}\n"
                       "  - wedge: before_first_token\n"
                       "  - say: They counted.\n");
    guest_say(&guest, "/compact\r", "nothing to compact yet");
    static const char *const prompts[] = {"one", "two", "three"},
                             *answers[] = {"One.", "Two.", "Three."};
    for (size_t i = 0; i < BL_COUNT(prompts); i++) {
        guest_type(&guest, stage_printf("%s\r", prompts[i]));
        guest_await(&guest, answers[i]);
        guest_await_idle(&guest);
    }
    guest_type(&guest, "/compact\r");
    guest_await_shown(&guest, "Esc to stop");
    guest_type(&guest, ESC);
    guest_await(&guest, "stopped; the context is unchanged");
    guest_await_idle(&guest);
    guest_type(&guest, "/compact\r");
    guest_await(&guest, "Compacted 2 earlier turns.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    assert_int_equal(stage_turns(guest_session()), 3);
}

/* ---- Running work ---------------------------------------------------------------------------- */

static void cancel_stops_one_sub_agent_and_one_job(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "replies:\n"
                       "  - when: delegate\n"
                       "    tools: [{name: task, input: {agent: worker, prompt: \"take long\"}}]\n"
                       "  - {when: take long, wedge: before_first_token}\n"
                       "  - {when: delegate, say: It was stopped.}\n"
                       "  - when: job\n"
                       "    tools: [{name: bash, input: {command: \"sleep 60\", "
                       "background: true}}]\n"
                       "  - {when: job, say: It runs.}\n");
    guest_type(&guest, "delegate\r");
    guest_await_shown(&guest, "1 agent");
    guest_say(&guest, "/ps\r", "\nagent         agt_");
    guest_check_shown(&guest, "\ncall          ");
    /* Commands that change the session must wait. */
    guest_say(&guest, "/compact\r", "/compact waits for the end of the turn");
    guest_type(&guest, stage_printf("/cancel %s\r", find_word(&guest, "agt_")));
    guest_await(&guest, "It was stopped.");
    guest_await(&guest, "Stopped in ");
    guest_await_idle(&guest);
    guest_type(&guest, "job\r");
    guest_await(&guest, "It runs.");
    guest_await_idle(&guest);
    guest_await_shown(&guest, "1 job");
    guest_say(&guest, "/ps\r", "\njob           job_");
    size_t stops = guest_times(&guest, "Stopped in ");
    guest_type(&guest, stage_printf("/cancel %s\r", find_word(&guest, "job_")));
    guest_await_times(&guest, "Stopped in ", stops + 1);
    guest_await_hidden(&guest, "1 job");
    guest_leave(&guest);
}

SUITE(chat_command, STAGED(help_shows_each_command_in_its_row),
      STAGED(commands_show_model_tools_sessions_and_cost),
      STAGED(unknown_command_is_reported_and_a_path_is_a_prompt),
      STAGED(permissions_can_be_changed),
      STAGED(held_session_is_refused_and_the_open_one_continues), STAGED(fork_continues_in_a_copy),
      STAGED(continue_shows_the_last_turn), STAGED(compact_summarizes_and_can_be_stopped),
      STAGED(cancel_stops_one_sub_agent_and_one_job));
