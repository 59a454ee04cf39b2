#include "stage.h"

#include <stdio.h>

static struct run run;

static void check_refused(const char *line)
{
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.out, "");
    assert_string_equal(run.err, line);
}

static void an_unknown_option_gets_a_suggestion(void **state)
{
    (void)state;
    RUN(&run, "run", "--max-turn", "3", "x");
    check_refused("belay run: unknown option '--max-turn'\nhint: did you mean '--max-turns'?\n");
    RUN(&run, "run", "--max-budget-eur", "3", "x");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "bootstrap", "--max-turns", "3", "x");
    assert_int_equal(run.exit_code, 2);
}

static void numbers_are_plain_decimal_integers(void **state)
{
    static const char *const options[] = {"--max-turns", "--max-session-turns", "--max-steps",
                                          "--max-budget-tokens"};
    static const char *const wrong[] = {"",     "-1", "+1", "1.5",  "1e3",
                                        "0x10", " 1", "1 ", "many", "18446744073709551616"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "run", options[i % BL_COUNT(options)], wrong[i], "x");
        assert_int_equal(run.exit_code, 2);
        assert_string_equal(run.out, "");
        assert_non_null(strstr(run.err, "(expected a whole number"));
    }
    RUN(&run, "run", "--max-turns", "0", "--json", "x");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 2), "/error/target"),
                        "--max-turns");
    RUN(&run, "run", "--max-turns", "18446744073709551615", "--json", "x");
    stage_answer(&run, "run", 0);
}

static void amounts_are_finite_and_not_negative(void **state)
{
    static const char *const wrong[] = {"",   "-1", "+1", "1e3", "0x1", "nan",  "inf",
                                        " 1", "1 ", ".",  "1,5", "-0",  "1.5.2"};
    static char many[400];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "run", stage_printf("--max-budget-usd=%s", wrong[i]), "--json", "x");
        const struct bl_json *answer = stage_answer(&run, "run", 2);
        assert_string_equal(stage_text_at(answer, "/error/kind"), "usage");
        assert_string_equal(stage_text_at(answer, "/error/target"), "--max-budget-usd");
    }
    memset(many, '9', sizeof many - 1);
    RUN(&run, "run", "--max-budget-usd", many, "--json", "x");
    stage_answer(&run, "run", 2);
    /* A script costs nothing: any limit is enough. */
    RUN(&run, "run", "--max-budget-usd", "0", "--json", "x");
    stage_answer(&run, "run", 0);
    RUN(&run, "run", "--max-budget-usd", ".25", "--json", "x");
    stage_answer(&run, "run", 0);
}

static void invalid_durations_are_refused(void **state)
{
    static const char *const wrong[] = {"",     "abc", "5x",    "nan",   "NaN", "inf",
                                        "-inf", "-0",  "1e300", "1e999", "5 s", "--5"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "run", stage_printf("--timeout=%s", wrong[i]), "--json", "x");
        const struct bl_json *answer = stage_answer(&run, "run", 2);
        assert_string_equal(stage_text_at(answer, "/error/kind"), "usage");
        assert_string_equal(stage_text_at(answer, "/error/target"), "--timeout");
    }
    assert_false(stage_exists(stage_path("data/belay")));
}

static void grace_periods_are_from_zero_to_a_minute(void **state)
{
    static const char *const wrong[] = {"",    "abc",    "5x", "-1", "-1ms",
                                        "61s", "60.001", "1h", "5 s"};
    static const char *const right[] = {"0", "0.0001ms", "200ms", "60s", "1m"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "run", stage_printf("--grace=%s", wrong[i]), "--json", "x");
        const struct bl_json *answer = stage_answer(&run, "run", 2);
        assert_string_equal(stage_text_at(answer, "/error/kind"), "usage");
        assert_string_equal(stage_text_at(answer, "/error/target"), "--grace");
    }
    RUN(&run, "run", "--grace", "2m", "x");
    check_refused(
        "belay run: invalid value '2m' for --grace (expected a duration from 0 to 60s, such "
        "as 2s)\n");
    assert_false(stage_exists(stage_path("data/belay")));
    for (size_t i = 0; i < BL_COUNT(right); i++) {
        RUN(&run, "run", "--grace", right[i], "--json", "x");
        stage_answer(&run, "run", 0);
    }
}

static void choices_are_of_a_closed_set(void **state)
{
    static const char *const wrong[][2] = {
        {"--on-exhausted", "stopp"}, {"--on-cancel", "retain"},    {"--permission-mode", "always"},
        {"--sandbox", "docker"},     {"--container", "container"}, {"--output-format", "yaml"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "run", wrong[i][0], wrong[i][1], "x");
        assert_int_equal(run.exit_code, 2);
        assert_string_equal(run.out, "");
        assert_non_null(strstr(run.err, wrong[i][1]));
    }
    RUN(&run, "run", "--output-format", "streamjson", "x");
    assert_non_null(strstr(run.err, "did you mean 'stream-json'?"));
}

static void unknown_provider_is_refused_with_the_list(void **state)
{
    (void)state;
    RUN(&run, "run", "--provider", "mistral", "x");
    check_refused("belay run: unknown provider 'mistral'\nhint: available: anthropic, openai, "
                  "openai-responses, ollama, script:FILE and replay\n");
    RUN(&run, "run", "--provider", "antropic", "x");
    assert_non_null(strstr(run.err, "did you mean 'anthropic'?"));
    RUN(&run, "run", "--provider", "scrpt", "x");
    assert_non_null(strstr(run.err, "did you mean 'script'?"));
    RUN(&run, "run", "--provider", "script:", "x");
    check_refused("belay run: 'script:' names no file\nhint: use script:FILE\n");
    RUN(&run, "run", "--model", "m", "x");
    assert_int_equal(run.exit_code, 2);
}

static void providers_come_from_the_environment_too(void **state)
{
    const char *script = stage_script("name: from-env\nreplies: [{say: hello}]\nrepeat: true\n");
    const char *provider = stage_printf("BELAY_PROVIDER=%s", script);
    const char *model = stage_printf("BELAY_MODEL=%s", script + strlen("script:"));

    (void)state;
    runner_run_with(&run, (const char *const[]){"run", "x", NULL},
                    (const char *const[]){provider, NULL}, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "hello\n");
    assert_string_equal(run.err, "");
    runner_run_with(&run, (const char *const[]){"run", "x", "--json", NULL},
                    (const char *const[]){"BELAY_PROVIDER=script", model, NULL}, RUN_KEEP);
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/provider"), "script");
    assert_string_equal(stage_text_at(answer, "/model"), "from-env");
    RUN(&run, "run", "x", "--provider", "script", "--model", script + strlen("script:"));
    assert_string_equal(run.out, "hello\n");
}

static void without_a_provider_the_script_model_answers_with_a_notice(void **state)
{
    (void)state;
    RUN(&run, "run", "hello there");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "hello there"));
    assert_string_equal(run.err,
                        "belay: no provider is configured; the built-in script model answers\n");
    RUN(&run, "run", "hello there", "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "run", "hello there", "--provider", "script");
    assert_string_equal(run.err, "");
}

static void session_ids_are_checked(void **state)
{
    static char long_id[10001];
    static const char *const options[] = {"--session", "--resume", "-r"};
    const char *const wrong[] = {"", "..", "a/b", "A", "a b", "a\nb", "\xff", long_id};

    (void)state;
    memset(long_id, 'a', sizeof long_id - 1);
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "run", options[i % BL_COUNT(options)], wrong[i], "x", "--json");
        assert_string_equal(stage_text_at(stage_answer(&run, "run", 2), "/error/kind"), "usage");
    }
    RUN(&run, "run", "--session", "a", "--continue", "x");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "give one of them"));
    assert_false(stage_exists(stage_path("data/belay")));
}

static void option_in_place_of_an_argument_is_noticed(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--session", "-x");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err,
                        "belay run: option '--session' needs an argument, but '-x' looks like an "
                        "option\nhint: if it is the argument, write '--session=-x'\n");
    RUN(&run, "run", "hi", "-r", "--json");
    stage_answer(&run, "run", 2);
    RUN(&run, "run", "hi", "--store", "--json");
    stage_answer(&run, "run", 2);
    assert_false(stage_exists("--json"));
    RUN(&run, "run", "hi", "--session=-x", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 0), "/session_id"), "-x");
    RUN(&run, "run", "hi", "--append-system-prompt", "- be brief", "--json");
    stage_answer(&run, "run", 0);
}

static void unknown_provider_of_a_model_is_named(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--model", "antropic/claude", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 2);
    assert_string_equal(stage_text_at(answer, "/error/message"), "unknown provider 'antropic'");
    assert_non_null(strstr(stage_text_at(answer, "/error/hint"), "did you mean 'anthropic'?"));
}

static void request_ids_are_checked(void **state)
{
    static char long_id[130];
    const char *const wrong[] = {"", "a b", "a/b", "\xc3\xa4", long_id};

    (void)state;
    memset(long_id, 'a', sizeof long_id - 1);
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "run", "--request-id", wrong[i], "x", "--json");
        assert_string_equal(stage_text_at(stage_answer(&run, "run", 2), "/error/target"),
                            "--request-id");
    }
    long_id[128] = '\0';
    RUN(&run, "run", "--request-id", long_id, "x", "--json");
    stage_answer(&run, "run", 0);
}

static void invalid_rules_are_refused(void **state)
{
    (void)state;
    RUN(&run, "run", "--allow", "bash(", "x", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 2), "/error/kind"), "usage");
    RUN(&run, "run", "--deny", "", "x", "--json");
    stage_answer(&run, "run", 2);
    static const char *const options[] = {"--allow", "--deny"};
    for (size_t i = 0; i < BL_COUNT(options); i++) {
        char message[128];
        snprintf(message, sizeof message, "unknown tool 'bsh' in rule 'bsh(rm *)' given with %s",
                 options[i]);
        RUN(&run, "run", options[i], "bsh(rm *)", "x", "--json");
        const struct bl_json *answer = stage_answer(&run, "run", 2);
        assert_string_equal(stage_text_at(answer, "/error/message"), message);
        assert_string_equal(stage_text_at(answer, "/error/hint"), "did you mean 'bash'?");
        RUN(&run, "run", options[i], "Bash(rm *)", "x", "--json");
        stage_answer(&run, "run", 2);
    }
    RUN(&run, "run", "--allow", "bash(git *)", "--allow", "bash(make)", "--deny", "bash(rm *)", "x",
        "--json");
    stage_answer(&run, "run", 0);
}

static void last_value_of_a_repeated_option_is_used(void **state)
{
    (void)state;
    RUN(&run, "run", "--session", "one", "--session", "two", "--timeout", "0", "--timeout", "1h",
        "--output-format", "text", "--json", "x");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/session_id"), "two");
    assert_int_equal(stage_number_at(answer, "/timeout_seconds"), 3600);
}

static void a_second_operand_is_refused(void **state)
{
    (void)state;
    RUN(&run, "run", "say", "hello");
    check_refused(
        "belay run: unexpected argument 'hello'\nhint: put a prompt of several words in quotes\n");
    RUN(&run, "run", "--", "--json");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "--json"));
}

static void print_as_the_first_word_is_run(void **state)
{
    (void)state;
    RUN(&run, "-p", "hello", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/command"), "run");
    assert_string_equal(stage_text_at(answer, "/prompt"), "hello");
    RUN(&run, "--print", "--json", "hello");
    stage_answer(&run, "run", 0);
    RUN(&run, "-p", "hello", "--frob");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "belay run: unknown option '--frob'"));
}

static void removed_workspace_is_reported(void **state)
{
    static struct held held;

    (void)state;
    held_start(&held,
               (const char *const[]){"sh", "-c",
                                     "mkdir lost && cd lost && rmdir ../lost && exec \"$0\" run x",
                                     runner_program(), NULL},
               HELD_NULL, RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 1);
    assert_non_null(strstr(held_err(&held), "the current folder no longer exists"));
    held_end(&held);
}

SUITE(run_options, STAGED(an_unknown_option_gets_a_suggestion),
      STAGED(numbers_are_plain_decimal_integers), STAGED(amounts_are_finite_and_not_negative),
      STAGED(invalid_durations_are_refused), STAGED(grace_periods_are_from_zero_to_a_minute),
      STAGED(choices_are_of_a_closed_set), STAGED(unknown_provider_is_refused_with_the_list),
      STAGED(providers_come_from_the_environment_too),
      STAGED(without_a_provider_the_script_model_answers_with_a_notice),
      STAGED(session_ids_are_checked), STAGED(option_in_place_of_an_argument_is_noticed),
      STAGED(unknown_provider_of_a_model_is_named), STAGED(request_ids_are_checked),
      STAGED(invalid_rules_are_refused), STAGED(last_value_of_a_repeated_option_is_used),
      STAGED(a_second_operand_is_refused), STAGED(print_as_the_first_word_is_run),
      STAGED(removed_workspace_is_reported));
