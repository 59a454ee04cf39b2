#include "suite.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/probe.h"

static struct proc_child_end run(struct bl_buffer *output, int limit_ms, const char *script)
{
    const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
    struct proc_child_end end;

    assert_int_equal(proc_program_run(arguments, limit_ms, output, &end), 0);
    return end;
}

static void output_and_exit_code_come_back(void **state)
{
    struct bl_buffer output;

    (void)state;
    bl_buffer_init(&output, 512);
    struct proc_child_end end = run(&output, 5000, "echo out; echo err >&2; exit 3");
    assert_false(end.timed_out || end.by_signal);
    assert_int_equal(end.status, 3);
    assert_true(bl_text_equal(bl_buffer_text(&output), BL_TEXT("out\nerr\n")));
    bl_buffer_done(&output);
}

static void too_much_output_is_cut_and_holds_nothing_up(void **state)
{
    struct bl_buffer output;

    (void)state;
    bl_buffer_init(&output, 10);
    struct proc_child_end end = run(&output, 5000, "head -c 1000000 /dev/zero");
    assert_false(end.timed_out || end.by_signal);
    assert_int_equal(end.status, 0);
    assert_int_equal(output.size, 10);
    bl_buffer_done(&output);
}

static void it_has_nothing_to_read(void **state)
{
    struct bl_buffer output;

    (void)state;
    bl_buffer_init(&output, 10);
    assert_int_equal(run(&output, 5000, "read line").status, 1);
    bl_buffer_done(&output);
}

static void it_finds_its_signals_as_usual(void **state)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct bl_buffer output;

    (void)state;
    bl_buffer_init(&output, 10);
    sigaction(SIGPIPE, &ignore, &before);
    struct proc_child_end end = run(&output, 5000, "kill -PIPE $$");
    sigaction(SIGPIPE, &before, NULL);
    assert_true(end.by_signal);
    assert_int_equal(end.status, SIGPIPE);
    bl_buffer_done(&output);
}

/* True if the process exists and is not a zombie. */
static bool is_alive(pid_t pid)
{
    char path[64], line[256] = "";

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return read && strstr(line, ") Z ") == NULL;
}

static void at_the_limit_it_dies_with_its_children(void **state)
{
    struct bl_buffer output;
    int64_t child = 0;

    (void)state;
    bl_buffer_init(&output, 64);
    uint64_t start_ns = bl_clock_now_ns(&bl_clock_system);
    struct proc_child_end end = run(&output, 300, "sleep 60 & echo $!; wait");
    uint64_t took_ns = bl_clock_now_ns(&bl_clock_system) - start_ns;
    assert_true(end.timed_out);
    assert_in_range(took_ns / BL_NS_PER_MS, 290, 3000);
    assert_int_equal(bl_text_to_int64(bl_text_trim(bl_buffer_text(&output)), &child), 0);
    /* It was killed, but reaping the orphan may take a moment. */
    for (int i = 0; is_alive((pid_t)child); i++) {
        usleep(10000);
        assert_int_not_equal(i, 199);
    }
    bl_buffer_done(&output);
}

static void a_child_that_holds_the_output_open_does_not_hold_it_up(void **state)
{
    struct bl_buffer output;

    (void)state;
    bl_buffer_init(&output, 64);
    uint64_t start_ns = bl_clock_now_ns(&bl_clock_system);
    struct proc_child_end end = run(&output, 5000, "sleep 60 & echo done");
    assert_false(end.timed_out);
    assert_in_range((bl_clock_now_ns(&bl_clock_system) - start_ns) / BL_NS_PER_MS, 0, 4000);
    assert_true(bl_text_equal(bl_buffer_text(&output), BL_TEXT("done\n")));
    bl_buffer_done(&output);
}

static void missing_program_cannot_be_started(void **state)
{
    const char *const arguments[] = {"/nonexistent/program", NULL};
    struct bl_buffer output;
    struct proc_child_end end;

    (void)state;
    bl_buffer_init(&output, 64);
    assert_int_equal(proc_program_run(arguments, 1000, &output, &end), -ENOENT);
    bl_buffer_done(&output);
}

static void programs_are_found_in_absolute_folders_only(void **state)
{
    char folder[] = "/tmp/belay-program-XXXXXX";
    char path[128], found[256], search[256];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tool", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);

    snprintf(search, sizeof search, "/nonexistent:%s", folder);
    assert_false(proc_program_find(search, "tool", found, sizeof found));
    chmod(path, 0755);
    assert_true(proc_program_find(search, "tool", found, sizeof found));
    assert_string_equal(found, path);
    assert_false(proc_program_find(search, "tool", found, 10));
    assert_false(proc_program_find(NULL, "tool", found, sizeof found));
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(folder), 0);
    assert_false(proc_program_find(":.:", "tool", found, sizeof found));
    assert_int_equal(chdir(before), 0);
    free(before);
    assert_false(proc_program_find("/", "tmp", found, sizeof found));
    unlink(path);
    rmdir(folder);
}

SUITE(probe_program, cmocka_unit_test(output_and_exit_code_come_back),
      cmocka_unit_test(too_much_output_is_cut_and_holds_nothing_up),
      cmocka_unit_test(it_has_nothing_to_read), cmocka_unit_test(it_finds_its_signals_as_usual),
      cmocka_unit_test(at_the_limit_it_dies_with_its_children),
      cmocka_unit_test(a_child_that_holds_the_output_open_does_not_hold_it_up),
      cmocka_unit_test(missing_program_cannot_be_started),
      cmocka_unit_test(programs_are_found_in_absolute_folders_only));
