#include "stage.h"

#include <fcntl.h>
#include <signal.h>
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

static void make(const char *id, const char *prompt)
{
    RUN(&run, "run", prompt, "--session", id, "--sandbox", "off", "--json");
    stage_answer(&run, "run", 0);
}

static void missing_store_is_empty_and_not_created(void **state)
{
    (void)state;
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-list", 0), "/sessions"), 0);
    RUN(&run, "session", "list", "--all");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "No sessions.\n");
    static const char *const verbs[] = {"show", "export", "delete", "fork"};
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        RUN(&run, "session", verbs[i], "s");
        assert_int_equal(run.exit_code, 1);
        assert_string_equal(run.out, "");
        assert_non_null(strstr(run.err, "no session 's'"));
    }
    assert_false(stage_exists(stage_path("data/belay")));
}

static void list_shows_this_directory_and_all_on_request(void **state)
{
    (void)state;
    make("one", "first");
    make("two", "second");
    assert_int_equal(mkdir("elsewhere", 0700), 0);
    assert_int_equal(chdir("elsewhere"), 0);
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-list", 0), "/sessions"), 0);
    RUN(&run, "session", "list", "--all", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-list", 0);
    assert_int_equal(stage_size_at(answer, "/sessions"), 2);
    assert_string_equal(stage_text_at(answer, "/sessions/0/session_id"), "two");
    assert_int_equal(chdir(".."), 0);
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-list", 0), "/sessions"), 2);
}

/* Imports a session of a sub-agent of `agent_of`, from another directory. */
static void import_child(const char *id, const char *agent_of)
{
    RUN(&run, "session", "import", "--as", id, "--json",
        stage_file("child.jsonl",
                   stage_printf("{\"type\":\"session\",\"schema\":1,\"id\":\"child\","
                                "\"directory\":\"%s\",\"title\":\"look around\",\"parent\":null,"
                                "\"created_at\":\"2026-11-15T18:50:07.123Z\","
                                "\"updated_at\":\"2026-11-15T18:50:07.123Z\",\"turns\":0,"
                                "\"context_from\":1,\"agent_of\":\"%s\","
                                "\"agent_turn\":\"turn_1\",\"persona\":\"explore\\u001b[2J\"}\n"
                                "{\"type\":\"end\",\"lines\":1}\n",
                                stage_path("work"), agent_of)));
    stage_answer(&run, "session-import", 0);
}

static void sessions_of_sub_agents_are_listed_only_with_all(void **state)
{
    (void)state;
    make("one", "first");
    import_child("child", "one");
    RUN(&run, "session", "list", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-list", 0), "/sessions"), 1);
    RUN(&run, "session", "list", "--all", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-list", 0);
    assert_int_equal(stage_size_at(answer, "/sessions"), 2);
    assert_true(stage_null_at(answer, "/sessions/0/agent_of"));
    assert_true(stage_null_at(answer, "/sessions/0/agent_turn"));
    assert_true(stage_null_at(answer, "/sessions/0/persona"));
    assert_string_equal(stage_text_at(answer, "/sessions/1/agent_of"), "one");
    assert_string_equal(stage_text_at(answer, "/sessions/1/agent_turn"), "turn_1");
    RUN(&run, "session", "list", "--all");
    assert_int_equal(stage_lines_with(run.out, "one       look around"), 1);
    RUN(&run, "session", "show", "child", "--json");
    answer = stage_answer(&run, "session-show", 0);
    assert_string_equal(stage_text_at(answer, "/agent_of"), "one");
    assert_memory_equal(stage_text_at(answer, "/persona"), "explore", 7);
    RUN(&run, "session", "show", "child");
    assert_non_null(strstr(run.out, "Agent of   one\nIn turn    turn_1\nPersona    explore"));
    assert_null(strchr(run.out, '\x1b'));
}

static void sessions_of_sub_agents_are_deleted_with_their_parent(void **state)
{
    (void)state;
    make("one", "first");
    import_child("child-1", "one");
    import_child("child-2", "child-1");
    RUN(&run, "session", "delete", "one", "child-2", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-delete", 0), "/deleted"), 2);
    RUN(&run, "session", "list", "--all", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-list", 0), "/sessions"), 0);
}

static void unknown_session_is_exit_code_1_with_a_suggestion(void **state)
{
    static const char *const verbs[] = {"show", "export", "delete", "fork"};

    (void)state;
    make("nightly", "first");
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        RUN(&run, "session", verbs[i], "nihgtly");
        assert_int_equal(run.exit_code, 1);
        assert_string_equal(run.out, "");
        assert_non_null(strstr(run.err, "nightly"));
    }
}

static void bad_ids_are_usage_errors(void **state)
{
    static const char *const verbs[] = {"show", "export", "delete", "fork"};
    static char long_id[10001];
    const char *const wrong[] = {"", "..", "../x", "/etc/passwd", "A", "a b", "\xff", long_id};

    (void)state;
    memset(long_id, 'a', sizeof long_id - 1);
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "session", verbs[i % BL_COUNT(verbs)], wrong[i]);
        assert_int_equal(run.exit_code, 2);
        assert_string_equal(run.out, "");
    }
    RUN(&run, "session", "fork", "s", "--as", "../x", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "session-import", 2), "/error/target"),
                        "--as");
}

static void invalid_command_line_is_reported(void **state)
{
    (void)state;
    RUN(&run, "session");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "expected list, show, export"));
    RUN(&run, "session", "lst");
    assert_string_equal(run.err,
                        "belay session: unknown subcommand 'lst'\nhint: did you mean 'list'?\n");
    RUN(&run, "session", "show");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "session", "show", "a", "b");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "session", "list", "x", "--json");
    stage_answer(&run, "session-list", 2);
    RUN(&run, "session", "export", "a", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "session-export", 2), "/error/target"),
                        "--json");
}

static void fork_has_the_same_turns_and_is_independent(void **state)
{
    (void)state;
    make("one", "first");
    RUN(&run, "session", "fork", "one", "--as", "two", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "session-import", 0), "/session_id"),
                        "two");
    make("two", "second");
    assert_int_equal(stage_turns("one"), 1);
    assert_int_equal(stage_turns("two"), 2);
    RUN(&run, "session", "fork", "one", "--as", "two", "--json");
    stage_answer(&run, "session-import", 1);
    RUN(&run, "session", "fork", "one");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "Forked as ", 10);
}

static void several_sessions_are_deleted_independently(void **state)
{
    (void)state;
    make("one", "first");
    make("two", "second");
    RUN(&run, "session", "delete", "one", "none", "two", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-delete", 1);
    assert_int_equal(stage_size_at(answer, "/deleted"), 2);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "session");
    RUN(&run, "session", "list", "--all", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "session-list", 0), "/sessions"), 0);
    make("one", "again");
    RUN(&run, "session", "delete", "one");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "Deleted one.\n");
}

static void session_in_use_is_shown_as_held_and_not_deleted(void **state)
{
    (void)state;
    START(&held, "run", "hi", "--session", "s", "--sandbox", "off", "--output-format",
          "stream-json", "--provider", stage_script("replies: [{wedge: after_first_token}]\n"));
    held_await(&held, "text_delta");
    RUN(&run, "session", "list", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-list", 0);
    assert_non_null(
        strstr(stage_text_at(answer, "/sessions/0/held_by"), stage_printf("%d", (int)held.pid)));
    RUN(&run, "session", "show", "s", "--json");
    answer = stage_answer(&run, "session-show", 0);
    assert_string_equal(stage_text_at(answer, "/attempts/0/state"), "running");
    RUN(&run, "session", "delete", "s", "--json");
    answer = stage_answer(&run, "session-delete", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "session");
    kill(held.pid, SIGKILL);
    held_wait(&held);
    RUN(&run, "session", "delete", "s", "--json");
    stage_answer(&run, "session-delete", 0);
}

static void a_store_that_cannot_be_used_is_moved_aside(void **state)
{
    const char *path = stage_file("broken.db", "this is not a database at all");

    (void)state;
    RUN(&run, "session", "list", "--store", path, "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "session-list", 1), "/error/kind"),
                        "filesystem");
    RUN(&run, "session", "move-aside", "--store", path, "--json");
    const struct bl_json *answer = stage_answer(&run, "session-move-aside", 0);
    assert_true(stage_exists(stage_text_at(answer, "/moved_to")));
    assert_false(stage_exists(path));
    RUN(&run, "run", "hi", "--store", path, "--sandbox", "off", "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "session", "move-aside", "--store", stage_path("work/none.db"), "--json");
    stage_answer(&run, "session-move-aside", 1);
}

/* Damages a store that is too large to be checked fully when it is opened, at a place that opening
 * does not read. */
static void damage(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    char noise[4096];

    assert_int_equal(fstat(fd, &status), 0);
    assert_in_range(status.st_size, 1 << 20, 1 << 28);
    memset(noise, 0x5A, sizeof noise);
    assert_int_equal(pwrite(fd, noise, sizeof noise, status.st_size / 2 / 4096 * 4096),
                     sizeof noise);
    close(fd);
}

static void usable_store_is_moved_aside_only_with_force(void **state)
{
    const char *path = stage_path("work/well.db");
    char *prompt = bl_alloc(100001);

    (void)state;
    memset(prompt, 'x', 100000);
    prompt[100000] = '\0';
    RUN(&run, "run", "hi", "--store", path, "--sandbox", "off", "--json", "--session", "s");
    stage_answer(&run, "run", 0);
    RUN(&run, "session", "move-aside", "--store", path);
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "is usable"));
    assert_non_null(strstr(run.err, "--force"));
    assert_true(stage_exists(path));
    RUN(&run, "session", "list", "--force");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "session", "move-aside", "--store", path, "--force", "--json");
    const char *moved = stage_text_at(stage_answer(&run, "session-move-aside", 0), "/moved_to");
    assert_false(stage_exists(path));
    RUN(&run, "session", "show", "s", "--store", moved, "--json");
    stage_answer(&run, "session-show", 0);
    for (int i = 0; i < 8; i++) {
        RUN(&run, "run", prompt, "--store", path, "--sandbox", "off", "--session", "s");
        assert_int_equal(run.exit_code, 0);
    }
    damage(path);
    RUN(&run, "session", "list", "--store", path);
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "session", "move-aside", "--store", path, "--json");
    stage_answer(&run, "session-move-aside", 0);
    bl_free(prompt);
}

/* Runs belay on a disk of that size in KiB, in its own namespaces. */
static void run_on_small_disk(unsigned size)
{
    const char *folder = stage_path("work/disk");

    mkdir(folder, 0700);
    held_start(&held,
               (const char *const[]){"/usr/bin/unshare", "-rm", "/bin/sh", "-c",
                                     stage_printf("mount -t tmpfs -o size=%uk none %s || exit 77; "
                                                  "exec %s run hi --sandbox off --store %s/s.db",
                                                  size, folder, runner_program(), folder),
                                     NULL},
               HELD_NULL, RUN_KEEP);
    held_wait(&held);
}

/* The size decides which step finds the disk full: the file, its log or the log's index, for each
 * of which SQLite has a different result. */
static void full_disk_is_reported_with_the_path(void **state)
{
    (void)state;
    for (unsigned size = 20; size <= 380; size += 12) {
        run_on_small_disk(size);
        const char *said = held_err(&held);
        if (held.exit_code == 77 || strstr(said, "unshare:") != NULL)
            suite_skip("cannot mount in a new namespace");
        if (held.exit_code != 1 || strstr(said, "no space left on the device of ") == NULL ||
            strstr(said, "work/disk (") == NULL || strstr(said, "--store FILE") == NULL)
            fail_msg("on a disk of %u KiB: exit code %d, %s", size, held.exit_code, said);
        held_end(&held);
    }
}

static void a_turn_stopped_at_its_entry_is_an_attempt(void **state)
{
    (void)state;
    RUN(&run, "run", "--session", "s", "--timeout", "0", "too late", "--json");
    assert_int_equal(run.exit_code, 124);
    RUN(&run, "session", "show", "s", "--json");
    const struct bl_json *shown = stage_json(run.out);
    assert_int_equal(stage_size_at(shown, "/turns"), 0);
    assert_int_equal(stage_size_at(shown, "/attempts"), 1);
    assert_non_null(strstr(run.out, "too late"));
}

SUITE(session, HELD(usable_store_is_moved_aside_only_with_force),
      HELD(full_disk_is_reported_with_the_path), HELD(missing_store_is_empty_and_not_created),
      HELD(list_shows_this_directory_and_all_on_request),
      HELD(sessions_of_sub_agents_are_listed_only_with_all),
      HELD(sessions_of_sub_agents_are_deleted_with_their_parent),
      HELD(unknown_session_is_exit_code_1_with_a_suggestion), HELD(bad_ids_are_usage_errors),
      HELD(invalid_command_line_is_reported), HELD(fork_has_the_same_turns_and_is_independent),
      HELD(several_sessions_are_deleted_independently),
      HELD(session_in_use_is_shown_as_held_and_not_deleted),
      HELD(a_store_that_cannot_be_used_is_moved_aside),
      STAGED(a_turn_stopped_at_its_entry_is_an_attempt));
