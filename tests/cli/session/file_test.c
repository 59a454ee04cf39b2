#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static void make(const char *id)
{
    RUN(&run, "run", "hi", "--session", id, "--sandbox", "off", "--continuation-prompt", "more",
        "--max-turns", "3", "--json");
    stage_answer(&run, "run", 0);
}

static void export_can_be_imported(void **state)
{
    (void)state;
    make("one");
    RUN(&run, "session", "export", "one");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_memory_equal(run.out, "{\"type\":\"session\",", 18);
    assert_memory_equal(stage_last_line(run.out), "{\"type\":\"end\",", 14);
    const char *file = stage_file("one.jsonl", run.out);
    RUN(&run, "session", "import", file, "--as", "two", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "session-import", 0), "/session_id"),
                        "two");
    assert_int_equal(stage_turns("two"), 3);
    RUN(&run, "session", "import", file, "--json");
    stage_answer(&run, "session-import", 1);
    RUN(&run, "session", "delete", "one", "--json");
    RUN(&run, "session", "import", file);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "Imported as one.\n");
    assert_int_equal(stage_turns("one"), 3);
}

static void export_to_a_file_is_atomic_and_private(void **state)
{
    struct stat status;

    (void)state;
    make("one");
    RUN(&run, "session", "export", "one", "out.jsonl", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-export", 0);
    assert_string_equal(stage_text_at(answer, "/file"), "out.jsonl");
    assert_int_equal(stat("out.jsonl", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    struct bl_text text = suite_read_file("out.jsonl");
    RUN(&run, "session", "export", "one");
    assert_true(bl_text_equal(text, bl_text_from(run.out)));
    size_t lines = 0;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    assert_int_equal(stage_number_at(answer, "/lines"), lines);
    bl_free((void *)text.data);
    RUN(&run, "session", "export", "none", "out.jsonl");
    assert_int_equal(run.exit_code, 1);
    assert_int_equal(stat("out.jsonl", &status), 0);
    assert_true(status.st_size > 0);
    RUN(&run, "session", "export", "one", "/nowhere/out.jsonl", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "session-export", 1), "/error/kind"),
                        "filesystem");
}

static void import_reads_standard_input(void **state)
{
    (void)state;
    make("one");
    RUN(&run, "session", "export", "one", "out.jsonl");
    assert_int_equal(run.exit_code, 0);
    int input = open("out.jsonl", O_RDONLY | O_CLOEXEC);
    held_start(
        &held,
        (const char *const[]){runner_program(), "session", "import", "-", "--as", "two", NULL},
        input, RUN_KEEP);
    close(input);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_int_equal(stage_turns("two"), 3);
}

static void invalid_export_is_refused(void **state)
{
    static const char *const broken[] = {
        "", "x", "{}\n", "{\"type\":\"session\"}\n", "{\"type\":\"end\",\"lines\":0}\n", "\xff\n"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(broken); i++) {
        RUN(&run, "session", "import", stage_file("broken", broken[i]), "--json");
        stage_answer(&run, "session-import", 1);
    }
    make("one");
    RUN(&run, "session", "export", "one");
    run.out[strlen(run.out) / 2] = '\0';
    const char *file = stage_file("cut", run.out);
    RUN(&run, "session", "import", file, "--as", "two", "--json");
    stage_answer(&run, "session-import", 1);
    RUN(&run, "session", "show", "two", "--json");
    stage_answer(&run, "session-show", 1);
    RUN(&run, "session", "import", "nowhere", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "session-import", 1), "/error/kind"),
                        "filesystem");
    RUN(&run, "session", "import", "/", "--json");
    stage_answer(&run, "session-import", 1);
}

static void closed_output_of_an_export_is_exit_code_130(void **state)
{
    int ends[2];

    (void)state;
    make("one");
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    runner_run_with(&run, (const char *const[]){"session", "export", "one", NULL}, NULL, ends[1]);
    close(ends[1]);
    assert_int_equal(run.exit_code, 130);
    assert_string_equal(run.err, "");
}

SUITE(session_file, HELD(export_can_be_imported), HELD(export_to_a_file_is_atomic_and_private),
      HELD(import_reads_standard_input), HELD(invalid_export_is_refused),
      HELD(closed_output_of_an_export_is_exit_code_130));
