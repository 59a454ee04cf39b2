/* `belay cell run`, and the command line of all of `belay cell`. */
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

/* Writes a file with that source. */
static const char *source(const char *text)
{
    static unsigned counter;
    char name[32];

    snprintf(name, sizeof name, "cell-%u.js", counter++);
    return stage_file(name, text);
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in '%.600s'", part, text);
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void a_cell_prints_its_texts_and_ends(void **state)
{
    (void)state;
    RUN(&run, "cell", "run",
        source("text(6 * 7); text('a line\\n'); console.log('a', {b: 1}); notify('beside');"));
    assert_string_equal(run.err, "beside\n");
    assert_string_equal(run.out, "42\na line\na {\"b\":1}\n");
    assert_int_equal(run.exit_code, 0);
}

static void temporary_session_is_deleted(void **state)
{
    (void)state;
    RUN(&run, "cell", "run", source("store('k', 1); text(load('k'))"));
    assert_string_equal(run.out, "1\n");
    RUN(&run, "session", "list", "--all");
    assert_string_equal(run.out, "No sessions.\n");
    RUN(&run, "cell", "run", source("store('k', [1, 2])"), "--session", "s");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "cell", "run", source("text(load('k')); text(load('j'))"), "--session", "s");
    assert_string_equal(run.out, "[1,2]\nundefined\n");
    RUN(&run, "cell", "run", source("text(load('k'))"), "--session", "t");
    assert_string_equal(run.out, "undefined\n");
    RUN(&run, "session", "list", "--all", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-list", 0), "/sessions"), 2);
}

static void json_output_is_one_line(void **state)
{
    (void)state;
    RUN(&run, "cell", "run",
        source("text('a'); notify('n'); image('data:image/png;base64,iVBORw0KGgo=', 'low');"
               "await new Promise(done => setTimeout(done, 50)); text('\\u0000b');"),
        "--json");
    const struct bl_json *answer = stage_answer(&run, "cell-run", 0);
    assert_string_equal(stage_text_at(answer, "/outcome"), "completed");
    assert_string_equal(stage_text_at(answer, "/output/0/text"), "a");
    assert_string_equal(stage_text_at(answer, "/output/1/detail"), "low");
    assert_int_equal(stage_size_at(answer, "/output"), 3);
    assert_string_equal(stage_text_at(answer, "/notifications/0"), "n");
    assert_true(stage_null_at(answer, "/session_id"));
    assert_true(stage_null_at(answer, "/receipt"));
}

static void an_image_is_noted_in_text(void **state)
{
    (void)state;
    RUN(&run, "cell", "run", source("image('data:image/png;base64,iVBORw0KGgo=')"));
    assert_string_equal(run.out, "");
    assert_string_equal(run.err, "[image/png, 8 bytes; shown with --json]\n");
    assert_int_equal(run.exit_code, 0);
}

static void error_names_its_position(void **state)
{
    const char *path = source("text('before');\nfunction f() { throw new TypeError('no\\u001b') }\n"
                              "f();\n");

    (void)state;
    RUN(&run, "cell", "run", path);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "before\n");
    has(run.err, "TypeError: no\\x1b\n");
    has(run.err, "at f (cell.mjs:2:");
    RUN(&run, "cell", "run", path, "--json");
    const struct bl_json *answer = stage_answer(&run, "cell-run", 1);
    assert_string_equal(stage_text_at(answer, "/outcome"), "failed");
    assert_string_equal(stage_text_at(answer, "/cell_error/kind"), "exception");
    assert_string_equal(stage_text_at(answer, "/error/kind"), "cell");
    assert_string_equal(stage_text_at(answer, "/error/code"), "exception");
    assert_string_equal(stage_text_at(answer, "/output/0/text"), "before");
}

static void a_syntax_error_and_an_import_are_errors_of_the_cell(void **state)
{
    (void)state;
    RUN(&run, "cell", "run", source("let = ;"), "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cell-run", 1), "/error/code"), "syntax");
    RUN(&run, "cell", "run", source("import fs from 'fs';\n"), "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cell-run", 1), "/error/code"), "import");
}

static void limits_of_the_command_line_are_those_of_the_cell(void **state)
{
    (void)state;
    RUN(&run, "cell", "run", source("for (;;) text('x'.repeat(1000))"), "--max-output", "8K",
        "--json");
    const struct bl_json *answer = stage_answer(&run, "cell-run", 1);
    assert_string_equal(stage_text_at(answer, "/error/code"), "output_limit");
    assert_string_equal(stage_text_at(answer, "/error/hint"), "--max-output raises the limit");
    assert_in_range(stage_size_at(answer, "/output"), 7, 8);
    RUN(&run, "cell", "run", source("const a = []; for (;;) a.push('x'.repeat(65536) + a.length)"),
        "--memory", "16M", "--json");
    answer = stage_answer(&run, "cell-run", 1);
    assert_string_equal(stage_text_at(answer, "/error/code"), "memory_limit");
    /* This ends the engine itself. */
    RUN(&run, "cell", "run", source("let a = []; for (;;) a.push({})"), "--memory", "64M",
        "--json");
    answer = stage_answer(&run, "cell-run", 1);
    assert_string_equal(stage_text_at(answer, "/error/code"), "memory_limit");
}

/* ---- Tools ----------------------------------------------------------------------------------- */

static void without_tools_there_are_none(void **state)
{
    (void)state;
    RUN(&run, "cell", "run", source("text(ALL_TOOLS.length); text(typeof tools.read)"));
    assert_string_equal(run.out, "0\nundefined\n");
}

static void tools_that_only_read_can_be_offered(void **state)
{
    (void)state;
    stage_file("a.txt", "one\ntwo\n");
    RUN(&run, "cell", "run",
        source("text(ALL_TOOLS.map(tool => tool.name).sort().join());"
               "const found = await tools.read({path: 'a.txt'});"
               "text(found.includes('two'));"
               "try { await tools.read({}) } catch (e) { text(e.name + ' ' + e.kind + ' ' + "
               "e.tool) }"),
        "--tools", "read-only");
    assert_string_equal(run.err, "");
    assert_string_equal(run.out, "glob,grep,ls,read\ntrue\nToolError failed read\n");
}

static void calls_pass_the_permissions(void **state)
{
    const char *path = source("try { text(await tools.bash({command: 'echo hello'})) }"
                              "catch (e) { text(e.kind) }");

    (void)state;
    RUN(&run, "cell", "run", path, "--tools", "all", "--permission-mode", "read-only");
    assert_string_equal(run.out, "denied\n");
    RUN(&run, "cell", "run", path, "--tools", "all", "--permission-mode", "ask");
    assert_string_equal(run.out, "denied\n");
    RUN(&run, "cell", "run", path, "--tools", "all", "--permission-mode", "yolo");
    has(run.out, "hello");
    assert_int_equal(run.exit_code, 0);
}

static void calls_not_awaited_are_stopped_and_counted(void **state)
{
    (void)state;
    held_start(&held,
               (const char *const[]){runner_program(), "cell", "run",
                                     source("tools.bash({command: 'sleep 60'});"
                                            "tools.bash({command: 'sleep 60'});"
                                            "await new Promise(done => setTimeout(done, 100));"),
                                     "--tools", "all", "--permission-mode", "yolo", NULL},
               HELD_NULL, RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_string_equal(held_err(&held), "belay cell: calls stopped at the end: 2\n");
    assert_int_equal(held_count(&held), 0);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void the_deadline_ends_it(void **state)
{
    const char *path = source("text('begun'); for (;;);");

    (void)state;
    for (unsigned attempt = 0;; attempt++) {
        RUN(&run, "cell", "run", path, "--timeout", stage_timeout(attempt));
        assert_int_equal(run.exit_code, 124);
        if (run.out[0] != '\0')
            break;
    }
    assert_string_equal(run.out, "begun\n");
    assert_memory_equal(run.err, "Stopped in ", 11);
    has(run.err, ": 1 process. Nothing left running.\n");
    for (unsigned attempt = 0;; attempt++) {
        RUN(&run, "cell", "run", path, "--json", "--timeout", stage_timeout(attempt));
        const struct bl_json *answer = stage_answer(&run, "cell-run", 124);
        if (stage_size_at(answer, "/output") == 0)
            continue;
        assert_string_equal(stage_text_at(answer, "/outcome"), "terminated");
        assert_string_equal(stage_text_at(answer, "/receipt/reason"), "timeout");
        assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
        return;
    }
}

static void a_deadline_that_has_passed_starts_nothing(void **state)
{
    (void)state;
    RUN(&run, "cell", "run", source("text(1)"), "--timeout", "0", "--json");
    const struct bl_json *answer = stage_answer(&run, "cell-run", 124);
    assert_string_equal(stage_text_at(answer, "/outcome"), "never_started");
    assert_int_equal(stage_size_at(answer, "/output"), 0);
    assert_int_equal(stage_size_at(answer, "/receipt/units"), 0);
    RUN(&run, "cell", "run", source("text(1)"), "--timeout=-1s");
    assert_int_equal(run.exit_code, 124);
    assert_string_equal(run.out, "");
}

static void output_is_streamed_and_a_signal_ends_the_cell(void **state)
{
    static const struct {
        int number, exit_code;
    } rows[] = {{SIGINT, 130}, {SIGTERM, 143}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        START(&held, "cell", "run", source("text('begun'); for (;;) await null;"));
        held_await(&held, "begun\n");
        kill(held.pid, rows[i].number);
        held_wait(&held);
        assert_int_equal(held.exit_code, rows[i].exit_code);
        assert_string_equal(held_out(&held), "begun\n");
        has(held_err(&held), "Nothing left running.\n");
        assert_int_equal(held_count(&held), 0);
        held_end(&held);
    }
}

static void signal_stops_nested_calls(void **state)
{
    (void)state;
    held_start(
        &held,
        (const char *const[]){runner_program(), "cell", "run",
                              source("text('begun');"
                                     "await tools.bash({command: 'setsid sleep 600 & sleep 600'})"),
                              "--tools", "all", "--permission-mode", "yolo", "--json", NULL},
        HELD_NULL, RUN_KEEP);
    held_await_at_least(&held, 4);
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 143);
    assert_int_equal(held_count(&held), 0);
    runner_check_schema("cell-run", held_out(&held));
    const struct bl_json *answer = stage_json(held_out(&held));
    assert_string_equal(stage_text_at(answer, "/outcome"), "terminated");
    assert_string_equal(stage_text_at(answer, "/receipt/origin"), "SIGTERM");
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    assert_in_range(stage_size_at(answer, "/receipt/units"), 2, 3);
}

static void reading_of_a_source_can_be_stopped(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(
        &held,
        (const char *const[]){runner_program(), "cell", "run", "-", "--timeout", "300ms", NULL},
        ends[0], RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 124);
    close(ends[0]);
    close(ends[1]);
}

static void standard_input_is_a_source(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "text(1 + 1)", 11), 11);
    close(ends[1]);
    held_start(&held, (const char *const[]){runner_program(), "cell", "run", "-", NULL}, ends[0],
               RUN_KEEP);
    close(ends[0]);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_string_equal(held_out(&held), "2\n");
}

static void closed_output_ends_the_cell(void **state)
{
    char begun[8] = "";
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&held,
               (const char *const[]){runner_program(), "cell", "run",
                                     source("text(1); await new Promise(() => {})"), NULL},
               HELD_NULL, ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], begun, sizeof begun), 2);
    assert_string_equal(begun, "1\n");
    close(ends[0]);
    held_wait(&held);
    assert_int_equal(held.exit_code, 130);
    has(held_err(&held), "Nothing left running.\n");
}

static void stalled_cell_is_reported(void **state)
{
    (void)state;
    for (unsigned attempt = 0;; attempt++) {
        RUN(&run, "cell", "run", source("await new Promise(() => {})"), "--timeout",
            stage_timeout(attempt));
        assert_int_equal(run.exit_code, 124);
        if (strstr(run.err, "nothing is left that can wake it") != NULL)
            return;
    }
}

static void a_closed_standard_output_is_an_error(void **state)
{
    (void)state;
    runner_run_with(&run, (const char *const[]){"cell", "run", source("text(1)"), NULL}, NULL,
                    RUN_CLOSE);
    assert_int_equal(run.exit_code, 1);
    has(run.err, "cannot write standard output");
}

/* ---- Wrong input ----------------------------------------------------------------------------- */

static void wrong_sources_are_refused(void **state)
{
    static char long_source[1024 * 1024 + 2];

    (void)state;
    RUN(&run, "cell", "run", "no-such-file.js");
    assert_int_equal(run.exit_code, 1);
    has(run.err, "belay cell: cannot read 'no-such-file.js': No such file or directory");
    RUN(&run, "cell", "run", source(" \n\t"), "--json");
    const struct bl_json *answer = stage_answer(&run, "cell-run", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "cell");
    assert_string_equal(stage_text_at(answer, "/error/code"), "bad_request");
    RUN(&run, "cell", "run", source("text('\xff')"), "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cell-run", 1), "/error/kind"), "parse");
    memset(long_source, ' ', sizeof long_source - 1);
    long_source[0] = '1';
    RUN(&run, "cell", "run", source(long_source));
    assert_int_equal(run.exit_code, 1);
    has(run.err, "the source has more than 1 MiB");
    runner_run_with(&run, (const char *const[]){"cell", "run", source("text(1)"), "--json", NULL},
                    (const char *const[]){"BELAY_CELL_WORKER=/nonexistent/worker", NULL}, RUN_KEEP);
    answer = stage_answer(&run, "cell-run", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "cell");
}

static void wrong_command_lines_are_refused(void **state)
{
    static const struct {
        const char *words[5];
        const char *part;
    } rows[] = {
        {{"cell"}, "missing subcommand\nhint: expected run, serve, create, "},
        {{"cell", "runn"}, "unknown subcommand 'runn'\nhint: did you mean 'run'?"},
        {{"cell", "run"}, "missing argument FILE|-\nhint: '-' reads standard input"},
        {{"cell", "run", "a", "b"}, "unexpected argument 'b'"},
        {{"cell", "list", "a"}, "unexpected argument 'a'"},
        {{"cell", "observe"}, "missing argument ID\nhint: 'belay cell list'"},
        {{"cell", "observe", "../x"}, "invalid value '../x' for ID (expected 1 to 64"},
        {{"cell", "observe", "x", "--generation", "0"},
         "for --generation (expected a whole number from 1 to "},
        {{"cell", "observe", "x", "--generation", "1.5"},
         "for --generation (expected a whole number from 1 to "},
        {{"cell", "observe", "x", "--yield-time", "6m"}, "(expected a duration from 0 to 5m"},
        {{"cell", "run", "x", "--memory", "0"}, "up to 1G"},
        {{"cell", "run", "x", "--memory", "2G"}, "up to 1G"},
        {{"cell", "run", "x", "--max-output", "17M"}, "up to 16M"},
        {{"cell", "run", "x", "--timeout", "25h"}, "at most 24h"},
        {{"cell", "run", "x", "--timeout", "soon"}, "soon"},
        {{"cell", "run", "x", "--tools", "some"}, "(expected none, read-only or all)"},
        {{"cell", "run", "x", "--permission-mode", "maybe"}, "maybe"},
        {{"cell", "run", "x", "--session", "A"}, "for --session (expected 1 to 64 characters"},
        {{"cell", "run", "x", "--socket", "y"}, "'cell run' has no option '--socket'"},
        {{"cell", "list", "--tools", "all"}, "'cell list' has no option '--tools'"},
        {{"cell", "serve", "--stdio", "--json"}, "standard output is used for frames"},
        {{"cell", "serve", "--stdio", "--socket=x"}, "--stdio and --socket"},
        {{"cell", "create", "x", "--timeout", "0"}, "deadline of a new cell must be positive"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        const char *words[6] = {0};
        memcpy(words, rows[i].words, sizeof rows[i].words);
        runner_run_with(&run, words, NULL, RUN_KEEP);
        assert_int_equal(run.exit_code, 2);
        const char *said =
            rows[i].words[3] != NULL && strcmp(rows[i].words[3], "--json") == 0 ? run.out : run.err;
        has(said, rows[i].part);
    }
    RUN(&run, "cell", "observe", "--json");
    stage_answer(&run, "envelope", 2);
}

SUITE(cell, STAGED(a_cell_prints_its_texts_and_ends), STAGED(temporary_session_is_deleted),
      STAGED(json_output_is_one_line), STAGED(an_image_is_noted_in_text),
      STAGED(error_names_its_position), STAGED(a_syntax_error_and_an_import_are_errors_of_the_cell),
      STAGED(limits_of_the_command_line_are_those_of_the_cell),
      STAGED(without_tools_there_are_none), STAGED(tools_that_only_read_can_be_offered),
      STAGED(calls_pass_the_permissions), HELD(calls_not_awaited_are_stopped_and_counted),
      STAGED(the_deadline_ends_it), STAGED(a_deadline_that_has_passed_starts_nothing),
      HELD(output_is_streamed_and_a_signal_ends_the_cell), HELD(signal_stops_nested_calls),
      HELD(reading_of_a_source_can_be_stopped), HELD(standard_input_is_a_source),
      HELD(closed_output_ends_the_cell), STAGED(stalled_cell_is_reported),
      STAGED(a_closed_standard_output_is_an_error), STAGED(wrong_sources_are_refused),
      STAGED(wrong_command_lines_are_refused));
