#include "stage.h"

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

static void without_a_store_there_is_nothing_and_none_is_made(void **state)
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

static void list_shows_those_of_this_directory_and_all_on_request(void **state)
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

/* A session of a sub-agent of `agent_of`, of a directory that is not this one. */
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

static void those_of_sub_agents_are_not_listed_without_all(void **state)
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
    assert_int_equal(stage_lines_with(run.out, "[agent of one] look around"), 1);
    RUN(&run, "session", "show", "child", "--json");
    answer = stage_answer(&run, "session-show", 0);
    assert_string_equal(stage_text_at(answer, "/agent_of"), "one");
    assert_memory_equal(stage_text_at(answer, "/persona"), "explore", 7);
    RUN(&run, "session", "show", "child");
    assert_non_null(strstr(run.out, "Agent of   one\nIn turn    turn_1\nPersona    explore"));
    assert_null(strchr(run.out, '\x1b'));
}

static void those_of_sub_agents_are_deleted_with_it(void **state)
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

static void what_is_not_found_is_exit_code_1_with_a_suggestion(void **state)
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

static void a_wrong_command_line_is_told(void **state)
{
    (void)state;
    RUN(&run, "session");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "expected list, show, export"));
    RUN(&run, "session", "lst");
    assert_string_equal(run.err, "belay session: unknown subcommand 'lst'; did you mean 'list'?\n");
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

static void a_fork_has_the_same_turns_and_goes_its_own_way(void **state)
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

static void several_are_deleted_each_for_itself(void **state)
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

static void a_session_at_work_is_shown_as_held_and_not_deleted(void **state)
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

SUITE(session, HELD(without_a_store_there_is_nothing_and_none_is_made),
      HELD(list_shows_those_of_this_directory_and_all_on_request),
      HELD(those_of_sub_agents_are_not_listed_without_all),
      HELD(those_of_sub_agents_are_deleted_with_it),
      HELD(what_is_not_found_is_exit_code_1_with_a_suggestion), HELD(bad_ids_are_usage_errors),
      HELD(a_wrong_command_line_is_told), HELD(a_fork_has_the_same_turns_and_goes_its_own_way),
      HELD(several_are_deleted_each_for_itself),
      HELD(a_session_at_work_is_shown_as_held_and_not_deleted),
      HELD(a_store_that_cannot_be_used_is_moved_aside));
