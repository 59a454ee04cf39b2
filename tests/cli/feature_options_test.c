/* The command line of `belay feature`. */
#include "cli/feature/feature.h"
#include "cli/table/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "stage.h"

#define WORDS_MAX 16

static struct run run;

/* A command line and its result. */
struct line {
    struct cli_call call;
    char *words[WORDS_MAX + 2];
    struct feature_options options;
    struct bl_error error;
    int code;
};

static struct line line;

static void read_words(const char *const *words)
{
    static char name[] = "feature";
    int count = 1;

    line = (struct line){0};
    line.words[0] = name;
    while (words[count - 1] != NULL && count <= WORDS_MAX) {
        line.words[count] = (char *)(uintptr_t)words[count - 1];
        count++;
    }
    line.call =
        (struct cli_call){.command = &cli_feature_command, .count = count, .arguments = line.words};
    line.code = feature_options_read(&line.call, &line.options, &line.error);
}

#define READ(...) read_words((const char *const[]){__VA_ARGS__, NULL})

static int end_line(void **state)
{
    (void)state;
    feature_options_done(&line.options);
    line.options = (struct feature_options){0};
    return 0;
}

/* Frees the result before the next READ. */
#define ACCEPT(...)                                                                                \
    do {                                                                                           \
        feature_options_done(&line.options);                                                       \
        READ(__VA_ARGS__);                                                                         \
        if (line.code != 0)                                                                        \
            fail_msg("refused: %s", line.error.message);                                           \
    } while (0)

#define REFUSE(what, advice, ...)                                                                  \
    do {                                                                                           \
        feature_options_done(&line.options);                                                       \
        READ(__VA_ARGS__);                                                                         \
        assert_int_not_equal(line.code, 0);                                                        \
        assert_int_equal(line.error.kind, BL_KIND_USAGE);                                          \
        assert_string_equal(line.error.message, what);                                             \
        assert_string_equal(line.error.hint, advice);                                              \
    } while (0)

/* ---- Verbs and names ------------------------------------------------------------------------- */

static void every_verb_is_known(void **state)
{
    static const char *const names[] = {"new",   "validate", "run",   "status", "list",
                                        "logs",  "cancel",   "pause", "resume", "extend",
                                        "retry", "clean",    "report"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        if (i == FEATURE_LIST)
            ACCEPT(names[i]);
        else if (i == FEATURE_EXTEND)
            ACCEPT(names[i], "F/T", "+600s");
        else if (i == FEATURE_RETRY)
            ACCEPT(names[i], "F/T");
        else
            ACCEPT(names[i], "F");
        assert_int_equal(line.options.verb, i);
        assert_string_equal(feature_verb_name((enum feature_verb)i), names[i]);
    }
}

static void unknown_verb_gets_a_suggestion(void **state)
{
    (void)state;
    REFUSE("unknown subcommand 'vaildate'", "did you mean 'validate'?", "vaildate", "F");
    REFUSE("unknown subcommand 'retyr'", "did you mean 'retry'?", "retyr", "F");
    REFUSE("unknown subcommand 'frobnicate'",
           "expected new, validate, run, status, list, logs, cancel, pause, resume, extend, retry, "
           "clean and report",
           "frobnicate");
    feature_options_done(&line.options);
    read_words((const char *const[]){NULL});
    assert_string_equal(line.error.message, "missing subcommand");
}

static void task_follows_a_slash(void **state)
{
    (void)state;
    ACCEPT("status", "FEAT-A/TASK-1");
    assert_string_equal(line.options.name, "FEAT-A/TASK-1");
    assert_string_equal(line.options.task, "TASK-1");
    ACCEPT("status", "FEAT-A");
    assert_null(line.options.task);
    ACCEPT("status");
    assert_null(line.options.name);
    /* A path is a path, with or without a task after it. */
    ACCEPT("run", "plans/a.yaml");
    assert_null(line.options.task);
    ACCEPT("run", "./a/b/c");
    assert_null(line.options.task);
    ACCEPT("resume", "plans/a.yml/TASK-1");
    assert_string_equal(line.options.task, "TASK-1");
    /* An existing file is not a task. */
    stage_file("file", "");
    ACCEPT("run", stage_path("work/file"));
    assert_null(line.options.task);
    end_line(NULL);
}

static void verb_checks_its_kind_of_name(void **state)
{
    (void)state;
    REFUSE("missing argument FEAT", "give its id, or the path of its plan", "run");
    REFUSE("missing argument FEAT/TASK", "give a task such as FEAT-AUTH/TASK-AUTH-001", "retry");
    REFUSE("'feature run' takes a whole feature, but 'F/T' names task 'T'",
           "to run only that task: belay feature run F --task T", "run", "F/T");
    REFUSE("'feature pause' takes a whole feature, but 'F/T' names task 'T'",
           "omit the task: belay feature pause F", "pause", "F/T");
    REFUSE("'feature resume' got a task in its name and with --task", "use only one of them",
           "resume", "F/T", "--task", "T");
    REFUSE("unexpected argument 'B'", "--help shows the usage", "run", "A", "B");
    REFUSE("unexpected argument 'A'", "--help shows the usage", "list", "A");
    REFUSE("invalid value 'a\xff' for FEAT[/TASK] (expected the id of a feature or the path of its "
           "plan)",
           "", "cancel", "a\xff");
    /* TASK alone is looked up in the store. */
    ACCEPT("retry", "TASK-1");
    ACCEPT("extend", "TASK-1", "+5s");
}

/* ---- Options --------------------------------------------------------------------------------- */

static void all_options_of_a_run_are_taken(void **state)
{
    (void)state;
    ACCEPT("run", "F", "--parallel=2", "--timeout=1h", "--task-timeout=45m",
           "--timeout-multiplier=2", "--turns=3", "--on-failure=cancel_siblings",
           "--coach-grace=2m", "--drain=0");
    const struct bl_plan_overrides *limits = &line.options.overrides;
    assert_int_equal(limits->parallel, 2);
    assert_true(limits->feature_timeout_set);
    assert_int_equal(limits->feature_timeout_ns, 3600 * BL_NS_PER_S);
    assert_int_equal(limits->task_timeout_ns, 2700 * BL_NS_PER_S);
    assert_true(limits->timeout_multiplier == 2);
    assert_int_equal(limits->turns, 3);
    assert_true(limits->on_failure_set);
    assert_int_equal(limits->on_failure, BL_ON_FAILURE_CANCEL_SIBLINGS);
    assert_true(limits->coach_grace_set);
    assert_int_equal(limits->coach_grace_ns, 120 * BL_NS_PER_S);
    assert_true(limits->drain_set);
    assert_int_equal(limits->drain_ns, 0);
    ACCEPT("run", "F", "--base=main", "--task=A", "--task=B", "--task=A", "--max-budget-usd=0.25",
           "--max-budget-tokens=5000", "--require-clean", "--take-over", "--fresh",
           "--store=/s.db");
    assert_string_equal(line.options.base, "main");
    assert_int_equal(line.options.task_count, 2);
    assert_string_equal(line.options.tasks[1], "B");
    assert_null(line.options.tasks[2]);
    assert_true(line.options.overrides.max_budget_usd_set);
    assert_true(line.options.overrides.max_budget_usd == 0.25);
    assert_int_equal(line.options.overrides.max_budget_tokens, 5000);
    assert_true(line.options.require_clean && line.options.take_over && line.options.fresh);
    assert_string_equal(line.options.store, "/s.db");
    assert_int_equal(line.options.directory[0], '/');
    ACCEPT("resume", "F/T", "--more-turns=3");
    assert_int_equal(line.options.more_turns, 3);
}

static void options_of_the_other_verbs_are_taken(void **state)
{
    (void)state;
    ACCEPT("logs", "F/T", "-f", "--turn", "2", "--phase", "coach");
    assert_true(line.options.follow);
    assert_int_equal(line.options.turn, 2);
    assert_string_equal(line.options.phase, "coach");
    ACCEPT("list", "--all", "--json");
    assert_true(line.options.all);
    assert_int_equal(line.call.format, CLI_FORMAT_JSON);
    ACCEPT("clean", "F", "--dry-run");
    assert_true(line.options.dry_run);
    ACCEPT("report", "F", "--html", "-");
    assert_string_equal(line.options.html, "-");
    ACCEPT("extend", "F/T", "+10m");
    assert_int_equal(line.options.extend_ns, 600 * BL_NS_PER_S);
    /* The verb may follow its options. */
    ACCEPT("--dry-run", "clean", "F");
    assert_true(line.options.dry_run);
    ACCEPT("validate", "F", "--task-timeout", "90");
    assert_null(line.options.store);
    assert_int_equal(line.options.overrides.task_timeout_ns, 90 * BL_NS_PER_S);
}

static void option_of_another_verb_is_refused(void **state)
{
    (void)state;
    REFUSE("'feature status' has no option '--fresh'",
           "--help lists the options of each subcommand", "status", "--fresh");
    REFUSE("'feature run' has no option '--more-turns'",
           "--help lists the options of each subcommand", "run", "F", "--more-turns", "2");
    REFUSE("'feature cancel' has no option '--follow'",
           "--help lists the options of each subcommand", "cancel", "F", "-f");
    REFUSE("'feature resume' has no option '--base'", "--help lists the options of each subcommand",
           "resume", "F", "--base", "x");
    REFUSE("'feature validate' has no option '--store'",
           "--help lists the options of each subcommand", "validate", "F", "--store", "x");
    REFUSE("unknown option '--paralel'", "did you mean '--parallel'?", "run", "F", "--paralel=2");
    REFUSE("invalid value 'stream-json' for --output-format (expected text or json)", "", "status",
           "--output-format", "stream-json");
    ACCEPT("run", "F", "--output-format", "stream-json");
    ACCEPT("logs", "F", "--output-format", "stream-json");
}

static void value_out_of_range_is_refused(void **state)
{
    static const char *const counts[][2] = {
        {"--parallel=0", "a whole number from 1 to 64"},
        {"--parallel=65", "a whole number from 1 to 64"},
        {"--parallel=+2", "a whole number from 1 to 64"},
        {"--turns=51", "a whole number from 1 to 50"},
        {"--turns=2.5", "a whole number from 1 to 50"},
        {"--timeout-multiplier=0.05", "a number from 0.1 to 100"},
        {"--timeout-multiplier=101", "a number from 0.1 to 100"},
        {"--timeout-multiplier=1e1", "a number from 0.1 to 100"},
        {"--timeout-multiplier=nan", "a number from 0.1 to 100"},
        {"--task-timeout=0", "a duration above 0 and at most 7 days, such as 45m"},
        {"--task-timeout=-5", "a duration above 0 and at most 7 days, such as 45m"},
        {"--timeout=169h", "a duration above 0 and at most 7 days, such as 8h"},
        {"--drain=-1s", "a duration from 0 to 7 days, such as 10s"},
        {"--coach-grace=200h", "a duration from 0 to 7 days, such as 120s"},
        {"--max-budget-usd=-1", "a number, 0 or more, such as 5.00"},
        {"--max-budget-usd=inf", "a number, 0 or more, such as 5.00"},
        {"--max-budget-tokens=0", "a whole number from 1 to 9007199254740991"},
        {"--on-failure=stop", "wave_end, cancel_siblings or continue"},
        {"--task=a b", "the id of a task, such as TASK-AUTH-001"},
        {"--task=-x", "the id of a task, such as TASK-AUTH-001"},
        {"--base=-x", "a commit, branch or tag"},
        {"--base=", "a commit, branch or tag"},
        {"--store=", "the path of a file, or the address of a database"},
    };
    char message[256];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(counts); i++) {
        feature_options_done(&line.options);
        READ("run", "F", counts[i][0]);
        if (line.code == 0)
            fail_msg("accepted: %s", counts[i][0]);
        assert_int_equal(line.error.kind, BL_KIND_USAGE);
        struct bl_text value = bl_text_from(counts[i][0]);
        struct bl_text option;
        assert_true(bl_text_split(&value, '=', &option));
        snprintf(message, sizeof message, "invalid value '%s' for " BL_TEXT_FORMAT " (expected %s)",
                 value.size > 0 ? value.data : "", BL_TEXT_ARG(option), counts[i][1]);
        assert_string_equal(line.error.message, message);
        assert_true(bl_text_equal(bl_text_from(line.error.target), option));
    }
    REFUSE(
        "invalid value 'cancel' for --on-failure (expected wave_end, cancel_siblings or continue)",
        "did you mean 'cancel_siblings'?", "run", "F", "--on-failure=cancel");
    feature_options_done(&line.options);
    READ("logs", "F", "--phase", "plyer");
    assert_string_equal(line.error.hint, "did you mean 'player'?");
    REFUSE("invalid value '0' for --turn (expected a whole number from 1 to 1000000)", "", "logs",
           "F", "--turn", "0");
}

static void extension_needs_a_plus(void **state)
{
    static const char *const wrong[] = {"600s", "+", "+0", "+-5", "++5", "+169h", "+5x", "later"};
    char message[200];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        snprintf(
            message, sizeof message,
            "invalid value '%s' for +DURATION (expected '+' and a duration above 0 and at most "
            "7 days, such as +10m)",
            wrong[i]);
        REFUSE(message, "", "extend", "F/T", wrong[i]);
        assert_string_equal(line.error.target, "+DURATION");
    }
    feature_options_done(&line.options);
    READ("extend", "F/T");
    assert_string_equal(line.error.message, "missing argument +DURATION");
}

static void too_many_tasks_are_refused(void **state)
{
    static char names[66][16];

    (void)state;
    line = (struct line){0};
    static char *arguments[72];
    static char feature[] = "feature", verb[] = "run", name[] = "F";
    arguments[0] = feature;
    arguments[1] = verb;
    arguments[2] = name;
    for (size_t i = 0; i < 65; i++) {
        snprintf(names[i], sizeof names[i], "--task=T%zu", i);
        arguments[3 + i] = names[i];
    }
    arguments[68] = NULL;
    line.call =
        (struct cli_call){.command = &cli_feature_command, .count = 68, .arguments = arguments};
    assert_int_equal(feature_options_read(&line.call, &line.options, &line.error), BL_ELIMIT);
    assert_string_equal(line.error.message, "at most 64 tasks can be named with --task");
    feature_options_done(&line.options);
    line.call.count = 67;
    line.error = (struct bl_error){0};
    assert_int_equal(feature_options_read(&line.call, &line.options, &line.error), 0);
    assert_int_equal(line.options.task_count, 64);
    assert_null(line.options.tasks[64]);
}

/* ---- The program ----------------------------------------------------------------------------- */

static void usage_error_is_one_line_and_exit_2(void **state)
{
    (void)state;
    RUN(&run, "feature", "rum", "F");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err,
                        "belay feature: unknown subcommand 'rum'\nhint: did you mean 'run'?\n");
    assert_string_equal(run.out, "");
    RUN(&run, "feature", "run", "F", "--parallel", "99", "--json");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err, "");
    const struct bl_json *answer = stage_json(run.out);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "usage");
    assert_string_equal(stage_text_at(answer, "/error/target"), "--parallel");
    RUN(&run, "feature", "--help");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "belay feature resume FEAT-AUTH --more-turns 3"));
}

#define LINE(test) cmocka_unit_test_teardown(test, end_line)

SUITE(feature_options, LINE(every_verb_is_known), LINE(unknown_verb_gets_a_suggestion),
      STAGED(task_follows_a_slash), LINE(verb_checks_its_kind_of_name),
      LINE(all_options_of_a_run_are_taken), LINE(options_of_the_other_verbs_are_taken),
      LINE(option_of_another_verb_is_refused), LINE(value_out_of_range_is_refused),
      LINE(extension_needs_a_plus), LINE(too_many_tasks_are_refused),
      STAGED(usage_error_is_one_line_and_exit_2));
