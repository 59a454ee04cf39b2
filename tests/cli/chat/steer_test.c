/* Steering: permission modes, plans, and refusals with a reason. */
#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define BACKTAB "\x1B[Z"

static void begin_in_mode(struct guest *guest, const char *mode, const char *script)
{
    GUEST(guest, 80, 24, "--provider", stage_script(script), "--permission-mode", mode);
    guest_await_idle(guest);
    guest_check_shown(guest, stage_printf("permissions %s", mode));
}

/* Answers with Enter, so that the answer counts even in the first moment. */
static void answer_plan(struct guest *guest, const char *key)
{
    guest_await_shown(guest, "Proceed with this plan?");
    guest_type(guest, key);
    guest_type(guest, "\r");
}

/* Checks a message to the model, in an export of the session. */
static void check_told(struct guest *guest, const char *text)
{
    struct run run;

    (void)guest;
    RUN(&run, "session", "export", guest_session());
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, text));
}

static void shift_tab_goes_round_the_permission_modes(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "ask", "name: played\nreplies: [{say: x}]\n");
    guest_check_shown(&guest, "played · ask");
    guest_say(&guest, BACKTAB, "played · auto");
    guest_say(&guest, BACKTAB, "played · plan");
    guest_check_shown(&guest, "> mode plan: changes nothing before you approve a plan");
    guest_say(&guest, BACKTAB, "played · ask");
    guest_leave(&guest);
    /* The requested mode is part of the cycle. */
    begin_in_mode(&guest, "yolo", "name: played\nreplies: [{say: x}]\n");
    guest_say(&guest, BACKTAB, "played · ask");
    guest_type(&guest, BACKTAB BACKTAB);
    guest_await_shown(&guest, "played · plan");
    guest_say(&guest, BACKTAB, "played · yolo");
    guest_leave(&guest);
    /* It is shown even in a narrow window. */
    GUEST(&guest, 40, 24, "--provider",
          stage_script("name: played-by-a-script-of-long-name\nreplies: [{say: x}]\n"));
    guest_await_idle(&guest);
    guest_say(&guest, BACKTAB BACKTAB, "plan");
    guest_leave(&guest);
}

static void nothing_is_changed_before_the_plan_is_approved(void **state)
{
    struct guest guest;

    (void)state;
    stage_file("notes.txt", "remember the milk\n");
    begin_in_mode(
        &guest, "plan",
        "replies:\n"
        "  - tools:\n"
        "      - {name: read, input: {path: notes.txt}}\n"
        "      - {name: write, input: {path: early, content: x}}\n"
        "      - {name: bash, input: {command: touch early}}\n"
        "  - tools: [{name: plan, input: {plan: \"# The plan\\n\\n1. Make **it**\\n\"}}]\n"
        "  - tools: [{name: bash, input: {command: touch made}}]\n"
        "  - {say: It is made.}\n");
    guest_type(&guest, "make it\r");
    guest_await_shown(&guest, "permission mode plan does not allow write");
    guest_await_shown(&guest, "permission mode plan does not allow bash");
    /* It is shown as Markdown. */
    guest_await_shown(&guest, "1. Make it");
    assert_false(stage_exists("early"));
    answer_plan(&guest, "y");
    guest_await_shown(&guest, "Allow bash?");
    guest_await_shown(&guest, "· ask");
    assert_false(stage_exists("made"));
    guest_type(&guest, "y\r");
    guest_await(&guest, "It is made.");
    assert_true(stage_exists("made"));
    assert_false(stage_exists("early"));
    guest_await_idle(&guest);
    guest_leave(&guest);
    check_told(&guest, "The user approved the plan. The permission mode is now ask");
}

static void plan_is_rejected_with_changes(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "ask",
                  "replies:\n"
                  "  - tools: [{name: plan, input: {plan: \"Use a list\"}}]\n"
                  "  - tools: [{name: write, input: {path: early, content: x}}]\n"
                  "  - tools: [{name: plan, input: {plan: \"Use a table\"}}]\n"
                  "  - tools: [{name: write, input: {path: made, content: x}}]\n"
                  "  - {say: It is made.}\n");
    guest_type(&guest, "/plan make it\r");
    answer_plan(&guest, "t");
    guest_await_shown(&guest, "What should change?");
    /* Esc goes back and stops nothing. */
    guest_type(&guest, "not so" ESC);
    guest_await_shown(&guest, "Proceed with this plan?");
    answer_plan(&guest, "t");
    guest_await_shown(&guest, "What should change?");
    guest_type(&guest, "use a table\r");
    guest_await_shown(&guest, "Use a table");
    assert_false(stage_exists("early"));
    answer_plan(&guest, "a");
    guest_await(&guest, "It is made.");
    guest_await_shown(&guest, "· auto");
    assert_true(stage_exists("made"));
    guest_await_idle(&guest);
    guest_leave(&guest);
    check_told(&guest, "the user asks for changes to the plan: use a table");
}

static void a_stop_ends_the_question_about_a_plan(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "plan",
                  "replies:\n"
                  "  - tools: [{name: plan, input: {plan: \"Remove it all\"}}]\n"
                  "  - {say: As you like.}\n");
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "Proceed with this plan?");
    guest_type(&guest, ESC);
    guest_await(&guest, "Nothing left running.");
    guest_await_idle(&guest);
    guest_await_shown(&guest, "· plan");
    guest_type(&guest, "and now?\r");
    guest_await(&guest, "As you like.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void model_gets_the_reason_of_a_refusal(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "ask",
                  "replies:\n"
                  "  - tools: [{name: bash, input: {command: touch made}}]\n"
                  "  - {say: Then by make.}\n");
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "t say what to do instead");
    guest_type(&guest, "t\r");
    guest_await_shown(&guest, "What should it do instead?");
    guest_type(&guest, "run \"make made\" in its place\r");
    guest_await(&guest, "Then by make.");
    guest_await_idle(&guest);
    assert_false(stage_exists("made"));
    guest_leave(&guest);
    check_told(&guest, "Not permitted: the user said no, and asks for this instead: run "
                       "\\\"make made\\\" in its place");
}

#define MKDIR(name)                                                                                \
    "  - tools: [{name: bash, input: {command: \"mkdir -p " name "\"}}]\n"                         \
    "  - {say: Made " name ".}\n"

static void always_is_kept_for_the_project_or_everywhere(void **state)
{
    static const char once[] = "replies:\n" MKDIR("one");
    static const char again[] = "replies:\n" MKDIR("two") MKDIR("three");
    struct guest guest;
    struct run run;

    (void)state;
    begin_in_mode(&guest, "ask", once);
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "this project, e everywhere");
    guest_type(&guest, "p\r");
    guest_await(&guest, "Made one.");
    guest_await_shown(&guest, "bash(mkdir *) is allowed in this project from now on");
    guest_await_idle(&guest);
    guest_leave(&guest);
    assert_false(stage_exists(".belay"));
    /* The next conversation does not ask, and neither does a run. */
    begin_in_mode(&guest, "ask", again);
    guest_type(&guest, "go\r");
    guest_await(&guest, "Made two.");
    guest_await_idle(&guest);
    guest_say(&guest, "/permissions\r", "allow         bash(mkdir *), in this project");
    guest_say(&guest, "/permissions remove bash(mkdir *)\r", "mode          ask");
    guest_type(&guest, "more\r");
    guest_await_shown(&guest, "Allow bash?");
    guest_type(&guest, "e\r");
    guest_await(&guest, "Made three.");
    guest_await_idle(&guest);
    guest_say(&guest, "/permissions\r", "allow         bash(mkdir *), everywhere");
    guest_leave(&guest);
    RUN(&run, "run", "--sandbox", "off", "--provider", stage_script("replies:\n" MKDIR("four")),
        "go");
    assert_int_equal(run.exit_code, 0);
    assert_true(stage_exists("four"));
}

static void broken_rules_are_reported_and_ignored(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "ask", "replies:\n" MKDIR("one"));
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "Allow bash?");
    guest_type(&guest, "e\r");
    guest_await(&guest, "Made one.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    const char *path = stage_printf("%s/belay/rules.json", getenv("XDG_CONFIG_HOME"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"rules\": [{\"allow\": 7}]}", file);
    fclose(file);
    begin_in_mode(&guest, "ask", "replies:\n" MKDIR("two"));
    guest_await_shown(&guest, "rules.json: rules[0].allow: expected");
    guest_type(&guest, "go\r");
    guest_await_shown(&guest, "Allow bash?");
    /* An unreadable file is not overwritten. */
    guest_type(&guest, "p\r");
    guest_await(&guest, "Made two.");
    guest_await_times(&guest, "rules[0].allow: expected", 2);
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void user_command_runs_and_the_model_gets_its_output(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "read-only",
                  "replies:\n"
                  "  - {when: three times seven, say: I see it.}\n"
                  "  - {when: and now, say: And on.}\n");
    guest_type(&guest, "!echo three times seven; exit 3\r");
    guest_await_shown(&guest, "bash  echo three times seven; exit 3 (exit code 3");
    guest_await_shown(&guest, "\n  three times seven\n");
    guest_await_idle(&guest);
    guest_say(&guest, "!\r", "!COMMAND runs a command");
    guest_type(&guest, "look\r");
    guest_await(&guest, "I see it.");
    guest_await_idle(&guest);
    /* The output is sent only once. */
    guest_type(&guest, "and now?\r");
    guest_await(&guest, "And on.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_string_equal(
        stage_text_at(session, "/turns/0/prompt"),
        "look\n\n"
        "The user ran these commands since the last prompt, in the same directory:\n\n"
        "$ echo three times seven; exit 3\n"
        "three times seven\n"
        "exit code 3");
    assert_string_equal(stage_text_at(session, "/turns/1/prompt"), "and now?");
}

static void esc_stops_a_user_command(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "ask", "replies: [{say: Well.}]\n");
    guest_type(&guest, "!echo begun; sleep 600 & sleep 600\r");
    guest_await_shown(&guest, "\n  begun\n");
    guest_type(&guest, ESC);
    guest_await(&guest, "Nothing left running.");
    guest_await_idle(&guest);
    held_await_count(&guest.held, 1);
    guest_type(&guest, "what was that?\r");
    guest_await(&guest, "Well.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_non_null(strstr(stage_text_at(session, "/turns/0/prompt"), "stopped after"));
}

static void a_line_with_an_exclamation_mark_is_a_prompt_without_a_terminal(void **state)
{
    struct run run;

    (void)state;
    RUN(&run, "chat", "--yolo", "--provider", stage_script("replies: [{say: A prompt.}]\n"),
        "!touch made");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "A prompt."));
    assert_false(stage_exists("made"));
}

static void changes_since_the_last_commit_are_shown(void **state)
{
    struct guest guest;

    (void)state;
    begin_in_mode(&guest, "ask", "replies: [{say: x}]\n");
    guest_say(&guest, "/diff\r", "not a git repository");
    guest_leave(&guest);
    stage_file("kept.txt", "one\ntwo\n");
    assert_int_equal(system("git init -q . && git add kept.txt && git -c user.name=a -c "
                            "user.email=a@b commit -qm first"),
                     0);
    begin_in_mode(&guest, "ask", "replies: [{say: x}]\n");
    stage_file("kept.txt", "one\nthree\n");
    stage_file("new.txt", "x\n");
    guest_say(&guest, "/diff\r", "untracked     new.txt");
    guest_check_shown(&guest, "\n-two\n+three\n");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void models_are_listed_with_the_one_in_use(void **state)
{
    struct guest guest;
    const char *environment[] = {"OPENAI_API_KEY=none", NULL};
    char folder[512];

    (void)state;
    snprintf(folder, sizeof folder, "%s/belay", getenv("XDG_CONFIG_HOME"));
    assert_int_equal(bl_folder_make(folder, 0700), 0);
    FILE *file = fopen(stage_printf("%s/config.yaml", folder), "w");
    assert_non_null(file);
    fputs("model: quick\nmodels:\n  quick: {provider: openai, model: gpt-small}\n"
          "  thorough: {provider: openai, model: gpt-large}\n",
          file);
    fclose(file);
    guest_begin(&guest, 80, 24, (const char *const[]){NULL}, environment);
    guest_await_idle(&guest);
    guest_say(&guest, "/model\r", "in use        quick\n              thorough\n");
    guest_say(&guest, "/model thorough\r", "              quick\nin use        thorough\n");
    guest_say(&guest, "/model frob/nicate\r", "frob");
    guest_say(&guest, "/cost\r", "the session: 0 tokens in, 0 out, 0 turns");
    guest_leave(&guest);
}

static void commands_are_listed_while_they_are_written(void **state)
{
    struct guest guest;

    (void)state;
    assert_int_equal(bl_folder_make(stage_path("work/.belay/commands"), 0700), 0);
    stage_file(".belay/commands/permute.md", "---\ndescription: turn it round\n"
                                             "argument-hint: WHAT\n---\nPermute $1.\n");
    begin_in_mode(&guest, "ask", "replies: [{say: x}]\n");
    guest_say(&guest, "/", "\n/help list the commands\n");
    guest_say(&guest, "per", "/permute WHAT: turn it round");
    guest_check_shown(&guest, "/permissions [MODE");
    guest_await_hidden(&guest, "/help");
    guest_type(&guest, "x");
    guest_await_hidden(&guest, "/permissions");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_say(&guest, "/permu\t", "> /permute");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_say(&guest, "/help\r", "/permute      WHAT: turn it round");
    guest_leave(&guest);
}

static void command_from_a_file_is_only_a_prompt(void **state)
{
    struct guest guest;

    (void)state;
    assert_int_equal(bl_folder_make(stage_path("work/.belay/commands"), 0700), 0);
    stage_file(".belay/commands/review.md",
               "---\ndescription: look\n---\nReview $1 for $2, $ARGUMENTS; $9 costs $.\n");
    stage_file(".belay/commands/plain.md", "# Say it\n\nplainly\n");
    stage_file(".belay/commands/sly.md", "!touch made\n");
    stage_file(".belay/commands/quit.md", "Never sent.\n");
    begin_in_mode(&guest, "yolo", "replies: [{say: A1.}, {say: A2.}, {say: A3.}]\n");
    guest_check_shown(&guest, "quit.md: /quit is a built-in");
    guest_type(&guest, "/review src/a.c \"off by one\"\r");
    guest_await(&guest, "A1.");
    guest_await_idle(&guest);
    guest_type(&guest, "/plain and loudly\r");
    guest_await(&guest, "A2.");
    guest_await_idle(&guest);
    guest_type(&guest, "/sly\r");
    guest_await(&guest, "A3.");
    guest_await_idle(&guest);
    assert_false(stage_exists("made"));
    guest_say(&guest, "/reviw\r", "did you mean /review?");
    guest_leave(&guest);
    const struct bl_json *session = guest_show(guest_session());
    assert_string_equal(stage_text_at(session, "/turns/0/prompt"),
                        "Review src/a.c for off by one, src/a.c \"off by one\";  costs $.");
    assert_string_equal(stage_text_at(session, "/turns/1/prompt"),
                        "# Say it\n\nplainly\n\nand loudly");
    assert_string_equal(stage_text_at(session, "/turns/2/prompt"), "\n!touch made");
}

static void commands_of_all_sources_are_listed(void **state)
{
    struct run run;

    (void)state;
    assert_int_equal(bl_folder_make(stage_path("work/.belay/commands"), 0700), 0);
    stage_file(".belay/commands/permute.md", "---\ndescription: turn it round\n"
                                             "argument-hint: WHAT\n---\nPermute $1.\n");
    stage_file(".belay/commands/empty.md", "---\ndescription: nothing\n---\n");
    stage_file(".belay/commands/Bad Name.md", "x\n");
    RUN(&run, "commands", "--json");
    const struct bl_json *answer = stage_answer(&run, "commands", 0);
    assert_string_equal(stage_text_at(answer, "/commands/0/name"), "/help");
    assert_string_equal(stage_text_at(answer, "/commands/0/source"), "belay");
    size_t last = stage_size_at(answer, "/commands") - 1;
    const char *at = stage_printf("/commands/%zu", last);
    assert_string_equal(stage_text_at(answer, stage_printf("%s/name", at)), "/permute");
    assert_string_equal(stage_text_at(answer, stage_printf("%s/source", at)), "project");
    assert_string_equal(stage_text_at(answer, stage_printf("%s/argument_hint", at)), "WHAT");
    assert_int_equal(stage_size_at(answer, "/notices"), 2);
    RUN(&run, "commands");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "/permute         project  WHAT: turn it round\n"));
    assert_non_null(strstr(run.err, "empty.md: the command is empty: add a prompt"));
    RUN(&run, "commands", "frob");
    assert_int_equal(run.exit_code, 2);
}

/* An editor that shows its input and acts on a key. */
#define EDITOR                                                                                     \
    "printf '\\033[?1049hediting: '; cat \"$1\"; stty -echo -icanon; key=$(head -c 1)\n"           \
    "case $key in w) printf 'from the editor\\n' > \"$1\" ;; f) echo bad > \"$1\"; exit 7 ;;\n"    \
    "k) kill -9 $$ ;; esac\n"

static void begin_with_editor(struct guest *guest)
{
    const char *script = stage_script("replies: [{say: Well.}]\n");
    const char *environment[] = {
        "VISUAL=", stage_printf("EDITOR=sh '%s'", stage_file("an editor.sh", EDITOR)), NULL};

    guest_begin(guest, 80, 24, (const char *const[]){"--provider", script, NULL}, environment);
    guest_await_idle(guest);
}

static void line_is_edited_in_an_editor(void **state)
{
    struct guest guest;

    (void)state;
    begin_with_editor(&guest);
    guest_say(&guest, "a draft", "> a draft");
    guest_type(&guest, KEY_CTRL('g'));
    guest_await_shown(&guest, "editing: a draft");
    guest_resize(&guest, 60, 20);
    guest_type(&guest, "w");
    guest_await_shown(&guest, "> from the editor");
    guest_await_hidden(&guest, "editing:");
    guest_type(&guest, "\x1F");
    guest_await_shown(&guest, "> a draft");
    guest_type(&guest, KEY_CTRL('u'));
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void failed_or_killed_editor_leaves_the_line_unchanged(void **state)
{
    struct guest guest;

    (void)state;
    begin_with_editor(&guest);
    guest_say(&guest, "a draft", "> a draft");
    guest_type(&guest, KEY_CTRL('g'));
    guest_await_shown(&guest, "editing: a draft");
    guest_type(&guest, "f");
    guest_await_shown(&guest, "The editor failed (exit code 7); the line is unchanged.");
    guest_await_shown(&guest, "> a draft");
    guest_type(&guest, KEY_CTRL('g'));
    guest_await_shown(&guest, "editing: a draft");
    guest_type(&guest, "k");
    guest_await_shown(&guest, "the line is unchanged");
    guest_await_times(&guest, "the line is unchanged", 2);
    guest_await_shown(&guest, "> a draft");
    /* No process of the editor is left when belay ends while it is open. */
    guest_type(&guest, KEY_CTRL('g'));
    guest_await_shown(&guest, "editing: a draft");
    kill(guest.held.pid, SIGTERM);
    assert_int_equal(guest_wait(&guest), 143);
    held_await_count(&guest.held, 0);
    assert_true(guest_terminal_as_before(&guest));
    guest_end(&guest);
}

static void vim_keys_are_an_option(void **state)
{
    struct guest guest;

    (void)state;
    GUEST(&guest, 80, 24, "--provider", stage_script("replies: [{wedge: before_first_token}]\n"));
    guest_await_idle(&guest);
    guest_say(&guest, "/vim\r", "vim keys are on: Esc enters normal mode");
    guest_await_idle(&guest);
    guest_say(&guest, "one two", "> one two");
    guest_type(&guest, ESC);
    guest_await_shown(&guest, ": one two");
    guest_say(&guest, "bcwsix", "> one six");
    guest_type(&guest, "\r");
    guest_await_shown(&guest, "Esc to stop");
    /* From normal mode it stops the turn. */
    guest_type(&guest, ESC);
    guest_await_shown(&guest, "\n: ");
    guest_type(&guest, ESC);
    guest_await(&guest, "Nothing left running.");
    guest_type(&guest, "i");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void a_headless_run_in_mode_plan_changes_nothing(void **state)
{
    struct run run;

    (void)state;
    RUN(&run, "run", "--permission-mode", "plan", "--allow", "bash", "--provider",
        stage_script("replies:\n"
                     "  - tools: [{name: bash, input: {command: touch early}}]\n"
                     "  - tools: [{name: plan, input: {plan: x}}]\n"
                     "  - {say: This is the plan.}\n"),
        "go");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "This is the plan."));
    assert_false(stage_exists("early"));
}

SUITE(chat_steer, STAGED(shift_tab_goes_round_the_permission_modes),
      STAGED(nothing_is_changed_before_the_plan_is_approved), STAGED(plan_is_rejected_with_changes),
      STAGED(a_stop_ends_the_question_about_a_plan), STAGED(model_gets_the_reason_of_a_refusal),
      STAGED(always_is_kept_for_the_project_or_everywhere),
      STAGED(broken_rules_are_reported_and_ignored),
      STAGED(user_command_runs_and_the_model_gets_its_output), STAGED(esc_stops_a_user_command),
      STAGED(a_line_with_an_exclamation_mark_is_a_prompt_without_a_terminal),
      STAGED(changes_since_the_last_commit_are_shown),
      STAGED(models_are_listed_with_the_one_in_use),
      STAGED(commands_are_listed_while_they_are_written),
      STAGED(command_from_a_file_is_only_a_prompt), STAGED(commands_of_all_sources_are_listed),
      STAGED(line_is_edited_in_an_editor),
      STAGED(failed_or_killed_editor_leaves_the_line_unchanged), STAGED(vim_keys_are_an_option),
      STAGED(a_headless_run_in_mode_plan_changes_nothing));
