#include "talk.h"

#include <stdio.h>
#include <unistd.h>

#define KEY     "sk-ant-the-key-of-this-test"
#define VALUE   "the-value-of-a-variable"
#define PROMPT  "the-words-of-the-prompt"
#define ANSWER  "the-words-of-the-answer"
#define PRINTED "the-words-a-tool-prints"

static const char config[] =
    "providers: {near: {api: anthropic, base_url: 'ADDRESS', key_env: NEAR_PLACE}}\n"
    "models: {dear: {provider: near, model: m}}\n";

static struct run run;

static void check_shown(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in:\n%s", part, text);
}

/* Checks that the log has no secrets: its lines go to terminals, files and bug reports. */
static void check_no_secrets(const char *log)
{
    static const char *const secrets[] = {KEY,     VALUE,       PROMPT,          ANSWER,
                                          PRINTED, "x-api-key", "authorization", "Bearer"};
    for (size_t i = 0; i < BL_COUNT(secrets); i++)
        if (strstr(log, secrets[i]) != NULL)
            fail_msg("'%s' is in the log:\n%s", secrets[i], log);
}

static void a_log_of_a_real_run_names_each_decision_and_holds_no_secret(void **state BL_UNUSED)
{
    static const char *const answers[] = {TALK_BASH("echo " PRINTED " $MINE"), TALK_TEXT(ANSWER),
                                          NULL};
    static struct talk call = {.answers = answers, .config = config};
    static const char *const rooms[] = {" turn turn begins in=run_", " turn claim in=run_",
                                        " tool permission in=run_",  " proc command in=run_",
                                        " wire request in=run_",     " model attempt in=run_",
                                        " store committed in=run_"};
    call.environment = TALK_WORDS("NEAR_PLACE=" KEY, "MINE=" VALUE, "BELAY_LOG=trace");
    call.arguments = TALK_WORDS("run", PROMPT, "--model", "dear", "--yolo", "--sandbox", "off");
    talk(&call);
    if (call.run.exit_code != 0)
        fail_msg("%s", call.run.err);
    assert_int_equal(call.requests, 2);
    assert_non_null(strstr(call.heads[0], KEY));
    for (size_t i = 0; i < BL_COUNT(rooms); i++)
        check_shown(call.run.err, rooms[i]);
    check_shown(call.run.err, "/turn_");
    check_no_secrets(call.run.err);
}

/* `option` may be NULL. */
static void run_option(const char *option, const char *const *environment)
{
    const char *script = stage_script("replies: [{say: Hello}]\n");
    runner_run_with(&run, (const char *const[]){"run", "hi", "--provider", script, option, NULL},
                    environment, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "Hello\n");
}

static void run_with(const char *const *environment)
{
    run_option(NULL, environment);
}

static void a_log_goes_to_the_file_that_is_named(void **state BL_UNUSED)
{
    const char *path = stage_path("belay.log");
    run_with((const char *const[]){"BELAY_LOG=turn=info", stage_printf("BELAY_LOG_FILE=%s", path),
                                   NULL});
    assert_string_equal(run.err, "");
    struct bl_text text = suite_read_file(path);
    const char *log = stage_keep(text);
    bl_free((void *)text.data);
    assert_int_equal(stage_lines_with(log, " info turn turn "), 2);
    assert_int_equal(stage_lines_with(log, " store "), 0);
}

static void a_wrong_level_is_a_warning_that_says_what_is_expected(void **state BL_UNUSED)
{
    run_with((const char *const[]){"BELAY_LOG=debgu", NULL});
    assert_string_equal(run.err,
                        "belay: warning: BELAY_LOG: unknown level 'debgu' (expected one of: off, "
                        "error, warning, info, debug, trace)\nhint: did you mean 'debug'?\n");
    run_with((const char *const[]){"BELAY_LOG=turn=info", "BELAY_LOG_FILE=/nowhere/at/all", NULL});
    check_shown(run.err, "belay: warning: BELAY_LOG_FILE: No such file or directory\n");
    assert_int_equal(stage_lines_with(run.err, " info turn turn "), 2);
}

static void verbose_logs_every_decision_unless_the_variable_says_what(void **state BL_UNUSED)
{
    run_option("-v", NULL);
    assert_true(stage_lines_with(run.err, " debug store ") > 0);
    run_option("--verbose", (const char *const[]){"BELAY_LOG=turn=info", NULL});
    assert_int_equal(stage_lines_with(run.err, " info turn turn "), 2);
    assert_int_equal(stage_lines_with(run.err, " store "), 0);
}

SUITE(log, STAGED(a_log_of_a_real_run_names_each_decision_and_holds_no_secret),
      STAGED(a_log_goes_to_the_file_that_is_named),
      STAGED(a_wrong_level_is_a_warning_that_says_what_is_expected),
      STAGED(verbose_logs_every_decision_unless_the_variable_says_what));
