/* Completion for shells: `belay __complete`. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "stage.h"

static struct run run;

/* Completes the last word. */
static void complete(const char *const *words)
{
    const char *line[24] = {"__complete", NULL, "belay"};
    char position[8];
    size_t count = 0;

    for (; words[count] != NULL && count < 20; count++)
        line[3 + count] = words[count];
    snprintf(position, sizeof position, "%zu", count);
    line[1] = position;
    runner_run_with(&run, line, NULL, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
}

#define COMPLETE(...) complete((const char *const[]){__VA_ARGS__, NULL})

/* True if a line is the word, alone or followed by a tab. */
static bool offers(const char *word)
{
    struct bl_text rest = bl_text_from(run.out), line, value;

    while (bl_text_split(&rest, '\n', &line)) {
        if (bl_text_split(&line, '\t', &value) && bl_text_equal(value, bl_text_from(word)))
            return true;
    }
    return false;
}

static void every_command_verb_and_option_is_completed(void **state)
{
    char word[72];

    (void)state;
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const struct cli_command *command = cli_commands[i];
        COMPLETE(command->name);
        assert_true(offers(command->name));
        for (unsigned verb = 0; verb == 0 || (command->verbs && command->verbs[verb].name);
             verb++) {
            const struct cli_option *option;
            struct cli_cursor cursor = {0};
            const char *name = command->verbs != NULL ? command->verbs[verb].name : "--json";
            if (command->verbs != NULL) {
                COMPLETE(command->name, name);
                assert_true(offers(name));
            }
            COMPLETE(command->name, name, "-");
            while ((option = cli_option_next(command->options, &cursor)) != NULL) {
                bool has = (cli_option_verbs(option, &cursor) & CLI_VERB(verb)) != 0;
                snprintf(word, sizeof word, "--%s", option->name);
                /* Another row of the name may be this verb's. */
                if (has && !offers(word))
                    fail_msg("belay %s %s - does not offer %s", command->name, name, word);
                if (!has && option->type != CLI_TYPE_FORMAT && offers(word))
                    fail_msg("belay %s %s - offers %s", command->name, name, word);
                snprintf(word, sizeof word, "-%c", option->letter);
                assert_true(option->letter == 0 || !has || offers(word));
            }
        }
    }
}

static void the_first_word_is_a_command_or_an_option_of_the_program(void **state)
{
    (void)state;
    COMPLETE("");
    assert_true(offers("run") && offers("--version") && offers("-p"));
    COMPLETE("ca");
    assert_string_equal(run.out, "cancel\tstop running work and print its receipt\n");
    COMPLETE("-p", "--on-c");
    assert_true(offers("--on-cancel"));
    COMPLETE("frobnicate", "");
    assert_string_equal(run.out, "");
}

static void values_come_from_the_table(void **state)
{
    (void)state;
    COMPLETE("run", "--on-cancel", "");
    assert_string_equal(run.out, "discard\nkeep\n");
    COMPLETE("run", "--on-cancel=k");
    assert_string_equal(run.out, "--on-cancel=keep\n");
    COMPLETE("chat", "-r", "s", "--container", "c");
    assert_string_equal(run.out, "cgroup2\n");
    COMPLETE("doctor", "--output-format", "");
    assert_string_equal(run.out, "text\njson\n");
    COMPLETE("feature", "logs", "--output-format", "stream");
    assert_string_equal(run.out, "stream-json\n");
    COMPLETE("feature", "status", "--output-format", "stream");
    assert_string_equal(run.out, "");
    COMPLETE("run", "--provider", "o");
    assert_string_equal(run.out, "openai\nopenai-responses\nollama\n");
    COMPLETE("help", "dr");
    assert_string_equal(run.out, "");
    COMPLETE("help", "do");
    assert_true(offers("doctor"));
}

static void files_are_left_to_the_shell(void **state)
{
    (void)state;
    COMPLETE("run", "--system", "x");
    assert_string_equal(run.out, ":files \n");
    COMPLETE("run", "--system=x");
    assert_string_equal(run.out, ":files --system=\n");
    COMPLETE("run", "--add-dir", "x");
    assert_string_equal(run.out, ":folders \n");
    COMPLETE("run", "--provider", "script:x");
    assert_string_equal(run.out, ":files script:\n");
    COMPLETE("session", "export", "nightly", "x");
    assert_string_equal(run.out, ":files \n");
    COMPLETE("hold", "--timeout", "5m", "--", "l");
    assert_string_equal(run.out, ":command 5\n");
    COMPLETE("hold", "ls", "-l", "x");
    assert_string_equal(run.out, ":command 2\n");
    COMPLETE("hold", "--sandbox", "w");
    assert_string_equal(run.out, "workspace\n");
}

static void sessions_and_features_come_from_the_store(void **state)
{
    (void)state;
    RUN(&run, "run", "--session", "nightly", "--json", "x");
    stage_answer(&run, "run", 0);
    RUN(&run, "run", "--session", "other", "--store", "other.db", "--json", "x");
    stage_answer(&run, "run", 0);
    COMPLETE("session", "show", "");
    assert_string_equal(run.out, "nightly\n");
    COMPLETE("run", "--resume=ni");
    assert_string_equal(run.out, "--resume=nightly\n");
    COMPLETE("session", "delete", "a", "b", "n");
    assert_string_equal(run.out, "nightly\n");
    COMPLETE("session", "show", "--store", "other.db", "o");
    assert_string_equal(run.out, "other\n");
    COMPLETE("session", "show", "--store=other.db", "n");
    assert_string_equal(run.out, "");
    COMPLETE("tool", "ba");
    assert_string_equal(run.out, "bash\n");
}

static void a_wrong_position_is_a_usage_error(void **state)
{
    static const char *const wrong[] = {"", "0", "-1", "x", "3"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "__complete", wrong[i], "belay", "x");
        assert_int_equal(run.exit_code, 2);
        assert_string_equal(run.out, "");
    }
    RUN(&run, "__complete");
    assert_int_equal(run.exit_code, 2);
}

/* Checks words as bash splits them. */
static void check_bash(const char *words, const char *expected)
{
    char command[2048], out[512] = "";

    snprintf(command, sizeof command,
             "cd '%s' && bash -c 'source \"$0\" && COMP_WORDS=(%s) && "
             "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && _belay && printf \"%%s \" "
             "\"${COMPREPLY[@]}\"' '%s/docs/completions/belay.bash' 2>/dev/null",
             stage_path("work"), words, getenv("BELAY_SOURCE_ROOT"));
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(out, 1, sizeof out - 1, pipe);
    out[size] = '\0';
    pclose(pipe);
    assert_string_equal(out, expected);
}

static void bash_joins_the_words_that_it_breaks(void **state)
{
    char words[1024];
    const char *program = runner_program();

    (void)state;
    stage_file("demo.yaml", "");
    snprintf(words, sizeof words, "%s ca", program);
    check_bash(words, "cancel ");
    snprintf(words, sizeof words, "%s run --on-cancel = k", program);
    check_bash(words, "keep ");
    snprintf(words, sizeof words, "%s run --on-cancel =", program);
    check_bash(words, "discard keep ");
    snprintf(words, sizeof words, "%s run --provider = script : dem", program);
    check_bash(words, "demo.yaml ");
    snprintf(words, sizeof words, "%s run --system dem", program);
    check_bash(words, "demo.yaml ");
}

SUITE(complete, cmocka_unit_test(every_command_verb_and_option_is_completed),
      cmocka_unit_test(the_first_word_is_a_command_or_an_option_of_the_program),
      cmocka_unit_test(values_come_from_the_table), cmocka_unit_test(files_are_left_to_the_shell),
      STAGED(sessions_and_features_come_from_the_store),
      cmocka_unit_test(a_wrong_position_is_a_usage_error),
      STAGED(bash_joins_the_words_that_it_breaks));
