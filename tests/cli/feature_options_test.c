/* The command line of `belay feature`. */
#include "../../src/cli/feature.h"

#include <stdio.h>
#include <stdlib.h>

#include "stage.h"

#define WORDS_MAX 16

static struct run run;

/* A command line and what became of it. */
struct line {
    struct cli_command command;
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

    line = (struct line){
        .command = {.name = "feature", .short_options = "fh", .getopt = cli_feature_options}};
    line.words[0] = name;
    while (words[count - 1] != NULL && count <= WORDS_MAX) {
        line.words[count] = (char *)(uintptr_t)words[count - 1];
        count++;
    }
    line.call =
        (struct cli_call){.command = &line.command, .count = count, .arguments = line.words};
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

/* READ again: the one before is let go. */
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
    static const char *const names[] = {"validate", "run",    "status", "list",  "logs",  "cancel",
                                        "pause",    "resume", "extend", "retry", "clean", "report"};

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

static void an_unknown_verb_gets_a_suggestion(void **state)
{
    (void)state;
    REFUSE("unknown verb 'vaildate'", "did you mean 'validate'?", "vaildate", "F");
    REFUSE("unknown verb 'retyr'", "did you mean 'retry'?", "retyr", "F");
    REFUSE("unknown verb 'frobnicate'",
           "there are validate, run, status, list, logs, cancel, pause, resume, extend, retry, "
           "clean and report",
           "frobnicate");
    feature_options_done(&line.options);
    read_words((const char *const[]){NULL});
    assert_string_equal(line.error.message, "it is not said what to do");
}

static void a_task_stands_behind_a_slash(void **state)
{
    (void)state;
    ACCEPT("status", "FEAT-A/TASK-1");
    assert_string_equal(line.options.name, "FEAT-A/TASK-1");
    assert_string_equal(line.options.task, "TASK-1");
    ACCEPT("status", "FEAT-A");
    assert_null(line.options.task);
    ACCEPT("status");
    assert_null(line.options.name);
    /* A path is a path, with or without a task behind it. */
    ACCEPT("run", "plans/a.yaml");
    assert_null(line.options.task);
    ACCEPT("run", "./a/b/c");
    assert_null(line.options.task);
    ACCEPT("resume", "plans/a.yml/TASK-1");
    assert_string_equal(line.options.task, "TASK-1");
    /* One that is there is no task. */
    stage_file("file", "");
    ACCEPT("run", stage_path("work/file"));
    assert_null(line.options.task);
    end_line(NULL);
}

static void what_a_verb_is_about_is_checked(void **state)
{
    (void)state;
    REFUSE("'feature run' needs a feature", "name it by its id, or by the path of its file", "run");
    REFUSE("'feature retry' needs a task", "as FEAT-AUTH/TASK-AUTH-001", "retry");
    REFUSE("'feature run' is about a whole feature", "--task names tasks that are to run alone",
           "run", "F/T");
    REFUSE("'feature pause' is about a whole feature", "leave the task out", "pause", "F/T");
    REFUSE("'feature resume' has its task by name and by --task", "give one of them", "resume",
           "F/T", "--task", "T");
    REFUSE("unexpected argument 'B'", "--help says what is expected", "run", "A", "B");
    REFUSE("unexpected argument 'A'", "--help says what is expected", "list", "A");
    REFUSE("'feature cancel' needs a name that is valid UTF-8",
           "name it by its id, or by the path of its file", "cancel", "a\xff");
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

static void options_of_the_others_are_taken(void **state)
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
    /* The verb may stand behind its options. */
    ACCEPT("--dry-run", "clean", "F");
    assert_true(line.options.dry_run);
    ACCEPT("validate", "F", "--task-timeout", "90");
    assert_null(line.options.store);
    assert_int_equal(line.options.overrides.task_timeout_ns, 90 * BL_NS_PER_S);
}

static void an_option_of_another_verb_is_refused(void **state)
{
    (void)state;
    REFUSE("'feature status' has no option '--fresh'", "--help says whose it is", "status",
           "--fresh");
    REFUSE("'feature run' has no option '--more-turns'", "--help says whose it is", "run", "F",
           "--more-turns", "2");
    REFUSE("'feature cancel' has no option '--follow'", "--help says whose it is", "cancel", "F",
           "-f");
    REFUSE("'feature resume' has no option '--base'", "--help says whose it is", "resume", "F",
           "--base", "x");
    REFUSE("'feature validate' has no option '--store'", "--help says whose it is", "validate", "F",
           "--store", "x");
    REFUSE("unknown option '--paralel'", "did you mean '--parallel'?", "run", "F", "--paralel=2");
    REFUSE("'feature status' has no events to stream", "it is text or json", "status",
           "--output-format", "stream-json");
    ACCEPT("run", "F", "--output-format", "stream-json");
    ACCEPT("logs", "F", "--output-format", "stream-json");
}

static void a_value_out_of_range_is_refused(void **state)
{
    static const char *const counts[][2] = {
        {"--parallel=0", "it is a whole number from 1 to 64"},
        {"--parallel=65", "it is a whole number from 1 to 64"},
        {"--parallel=+2", "it is a whole number from 1 to 64"},
        {"--turns=51", "it is a whole number from 1 to 50"},
        {"--turns=2.5", "it is a whole number from 1 to 50"},
        {"--timeout-multiplier=0.05", "it is a number from 0.1 to 100"},
        {"--timeout-multiplier=101", "it is a number from 0.1 to 100"},
        {"--timeout-multiplier=1e1", "it is a number from 0.1 to 100"},
        {"--timeout-multiplier=nan", "it is a number from 0.1 to 100"},
        {"--task-timeout=0", "it is a duration above 0, of at most 7 days: 500ms, 90, 2.5m, 1h"},
        {"--task-timeout=-5", "it is a duration above 0, of at most 7 days: 500ms, 90, 2.5m, 1h"},
        {"--timeout=169h", "it is a duration above 0, of at most 7 days: 500ms, 90, 2.5m, 1h"},
        {"--drain=-1s", "it is a duration from 0 to 7 days: 0, 500ms, 90, 2.5m, 1h"},
        {"--coach-grace=200h", "it is a duration from 0 to 7 days: 0, 500ms, 90, 2.5m, 1h"},
        {"--max-budget-usd=-1", "it is an amount in USD, zero or more: 5, 0.25"},
        {"--max-budget-usd=inf", "it is an amount in USD, zero or more: 5, 0.25"},
        {"--max-budget-tokens=0", "it is a whole number from 1 on"},
        {"--on-failure=stop", "it is wave_end, cancel_siblings or continue"},
        {"--on-failure=cancel", "did you mean 'cancel_siblings'?"},
        {"--task=a b", "it is the id of a task, as TASK-AUTH-001; repeatable"},
        {"--task=-x", "it is the id of a task, as TASK-AUTH-001; repeatable"},
        {"--base=-x", "it is a commit, a branch or a tag"},
        {"--base=", "it is a commit, a branch or a tag"},
        {"--store=", "it is the path of a file"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(counts); i++) {
        feature_options_done(&line.options);
        READ("run", "F", counts[i][0]);
        if (line.code == 0)
            fail_msg("accepted: %s", counts[i][0]);
        assert_int_equal(line.error.kind, BL_KIND_USAGE);
        assert_string_equal(line.error.hint, counts[i][1]);
        struct bl_text name = bl_text_from(counts[i][0]);
        struct bl_text option;
        assert_true(bl_text_split(&name, '=', &option));
        assert_true(bl_text_equal(bl_text_from(line.error.target), option));
    }
    REFUSE("'plyer' is no value for it", "did you mean 'player'?", "logs", "F", "--phase", "plyer");
    REFUSE("'0' is no value for it", "it is a whole number from 1 to 1000000", "logs", "F",
           "--turn", "0");
}

static void how_much_longer_has_a_plus(void **state)
{
    static const char *const wrong[] = {"600s", "+", "+0", "+-5", "++5", "+169h", "+5x", "later"};
    char message[100];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        snprintf(message, sizeof message, "'%s' does not say how much longer", wrong[i]);
        REFUSE(message, "it is '+' and a duration above 0, of at most 7 days: +600s, +10m",
               "extend", "F/T", wrong[i]);
        assert_string_equal(line.error.target, "TIME");
    }
    feature_options_done(&line.options);
    READ("extend", "F/T");
    assert_string_equal(line.error.message, "'' does not say how much longer");
}

static void many_tasks_are_too_many(void **state)
{
    static char names[66][16];

    (void)state;
    line = (struct line){
        .command = {.name = "feature", .short_options = "fh", .getopt = cli_feature_options}};
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
    line.call = (struct cli_call){.command = &line.command, .count = 68, .arguments = arguments};
    assert_int_equal(feature_options_read(&line.call, &line.options, &line.error), BL_ELIMIT);
    assert_string_equal(line.error.message, "at most 64 tasks can be named");
    feature_options_done(&line.options);
    line.call.count = 67;
    line.error = (struct bl_error){0};
    assert_int_equal(feature_options_read(&line.call, &line.options, &line.error), 0);
    assert_int_equal(line.options.task_count, 64);
    assert_null(line.options.tasks[64]);
}

/* ---- The program ----------------------------------------------------------------------------- */

static void a_wrong_line_is_one_line_and_exit_2(void **state)
{
    (void)state;
    RUN(&run, "feature", "rum", "F");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err, "belay feature: unknown verb 'rum'; did you mean 'run'?\n");
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

SUITE(feature_options, LINE(every_verb_is_known), LINE(an_unknown_verb_gets_a_suggestion),
      STAGED(a_task_stands_behind_a_slash), LINE(what_a_verb_is_about_is_checked),
      LINE(all_options_of_a_run_are_taken), LINE(options_of_the_others_are_taken),
      LINE(an_option_of_another_verb_is_refused), LINE(a_value_out_of_range_is_refused),
      LINE(how_much_longer_has_a_plus), LINE(many_tasks_are_too_many),
      STAGED(a_wrong_line_is_one_line_and_exit_2));
