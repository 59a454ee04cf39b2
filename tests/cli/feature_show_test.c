/* Commands that show features. The records are in a real store; the program is real. */
#include "recorded.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- status ---------------------------------------------------------------------------------- */

static void missing_store_has_no_features_and_is_not_created(void **state)
{
    static const char *const verbs[] = {"status", "logs", "cancel", "pause", "clean", "report"};

    (void)state;
    RUN(&run, "feature", "status", "--json");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stage_size_at(stage_json(run.out), "/features"), 0);
    RUN(&run, "feature", "list");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "No features in this repository"));
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        RUN(&run, "feature", verbs[i], "FEAT-A");
        assert_int_equal(run.exit_code, 1);
        assert_string_equal(run.out, "");
        assert_non_null(strstr(run.err, "no feature FEAT-A: there is no store"));
    }
    assert_false(stage_exists(stage_path("data/belay")));
}

static void outside_a_repository_is_an_error(void **state)
{
    (void)state;
    put(recorded_login);
    assert_int_equal(rmdir(".git"), 0);
    RUN(&run, "feature", "status", "FEAT-A", "--json");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(stage_text_at(stage_json(run.out), "/error/kind"), "feature");
    RUN(&run, "feature", "list", "--all", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "feature-list", 0), "/features"), 1);
    RUN(&run, "feature", "list", "--json");
    stage_answer(&run, "feature-list", 1);
}

static void status_shows_tasks_by_waves_with_their_deadlines(void **state)
{
    (void)state;
    put(recorded_login);
    RUN(&run, "feature", "status", "FEAT-A");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_non_null(strstr(run.out, "Feature    FEAT-A: Login \\x1b[31m\n"));
    assert_non_null(strstr(run.out, "State      failed, unverified\n"));
    assert_non_null(strstr(run.out, "Tasks      3: 1 pending, 1 completed, 1 timed_out\n"));
    assert_non_null(strstr(run.out, "Wave 1  failed, gate absent\n"));
    assert_int_equal(stage_lines_with(run.out, "  completed   TASK-1  approved, not verified"), 1);
    assert_int_equal(stage_lines_with(run.out, "40m of 40m"), 1);
    assert_int_equal(stage_lines_with(run.out, "TASK-3  deadline 40m from its start"), 1);
    /* Unknown is not 0. */
    assert_non_null(strstr(run.out, "Spent      – tokens, –\n"));
    RUN(&run, "feature", "status");
    assert_int_equal(stage_lines_with(run.out, "Feature    FEAT-A"), 1);
    RUN(&run, "feature", "status", "FEAT-A", "--json");
    const struct bl_json *answer = stage_json(run.out);
    assert_int_equal(run.exit_code, 0);
    runner_check_schema("feature", run.out);
    assert_string_equal(stage_text_at(answer, "/feature"), "FEAT-A");
    assert_string_equal(stage_text_at(answer, "/waves/0/tasks/1/id"), "TASK-2");
    assert_int_equal(stage_number_at(answer, "/waves/0/tasks/1/deadline_s"), 2400);
    RUN(&run, "feature", "status", "--json");
    runner_check_schema("feature-status-all", run.out);
    assert_string_equal(stage_text_at(stage_json(run.out), "/features/0/feature"), "FEAT-A");
}

static void status_of_a_task_has_its_row_and_its_checkpoint(void **state)
{
    (void)state;
    put(recorded_login);
    RUN(&run, "feature", "status", "FEAT-A/TASK-2", "--json");
    const struct bl_json *answer = stage_answer(&run, "feature", 0);
    assert_string_equal(stage_text_at(answer, "/task/id"), "TASK-2");
    assert_string_equal(stage_text_at(answer, "/task/state"), "timed_out");
    assert_null(bl_json_pointer(answer, BL_TEXT("/task/memory")));
    assert_string_equal(stage_text_at(answer, "/checkpoint/marker"), "cancelled_mid_turn");
    /* The task's name is enough where it is unique. */
    RUN(&run, "feature", "status", "TASK-2");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(
        strstr(run.out, "Task       FEAT-A/TASK-2: The TASK-2\nState      timed_out\n"));
    assert_non_null(strstr(run.out, "Deadline   40m (default)\n"));
    assert_non_null(strstr(run.out, "Receipt    rcp_1\n"));
    assert_non_null(strstr(run.out, "Checkpoint turn 3, player, cancelled_mid_turn, with the "
                                    "feedback of turn 2\n"));
    assert_non_null(strstr(run.out, "Files      src/a.c, b\\x07.c (uncommitted"));
}

static int look_while_it_runs(const struct written *written, struct bl_store_feature *feature)
{
    char time[32], row[512], pid[32];

    (void)written;
    bl_time_format(bl_clock_wall_ns(&bl_clock_system) - 245 * (int64_t)BL_NS_PER_S, time);
    snprintf(row, sizeof row,
             "{\"id\":\"TASK-1\",\"wave\":1,\"state\":\"running\",\"attempt\":1,\"turn\":2,"
             "\"turns_max\":5,\"phase\":\"player\",\"deadline_s\":2400,\"grace_s\":120,"
             "\"started_at\":\"%s\",\"last_activity_at\":\"%s\"}",
             time, time);
    write_records(feature, (const char *const[]){"task/TASK-1", row, NULL}, NULL);
    RUN_BESIDE("feature", "status", "FEAT-A");
    snprintf(pid, sizeof pid, "run by pid %d ", (int)getpid());
    CHECK_EQUAL(run.exit_code, 0);
    CHECK(strstr(run.out, pid) != NULL);
    if (!CHECK(strstr(run.out, "player, turn 2/5, 4m05s of 40m + 2m coach grace, 35m left, "
                               "quiet 4m05s\n") != NULL))
        fprintf(stderr, "%s%s", run.out, run.err);
    RUN_BESIDE("feature", "status", "TASK-1");
    CHECK(strstr(run.out, "Phase      player\n") != NULL);
    CHECK(strstr(run.out, "Elapsed    4m05s, quiet 4m05s\n") != NULL);
    RUN_BESIDE("feature", "list");
    CHECK(strstr(run.out, "  running ") != NULL);
    return 0;
}

static void status_of_a_running_feature_shows_owner_and_quiet_time(void **state)
{
    struct written written = {.id = "FEAT-A",
                              .records = {"feature", FEATURE("FEAT-A", "running", "0")},
                              .work = look_while_it_runs};
    (void)state;
    put(written);
}

static void unknown_and_ambiguous_names_are_reported(void **state)
{
    struct written other = recorded_login;

    (void)state;
    put(recorded_login);
    RUN(&run, "feature", "status", "FEAT-B");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "belay feature: no feature 'FEAT-B' in the store for this "
                                 "repository\nhint: did you mean 'FEAT-A'?\n");
    RUN(&run, "feature", "status", "FEAT-A/TASK-9", "--json");
    const struct bl_json *answer = stage_json(run.out);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(stage_text_at(answer, "/error/message"), "feature FEAT-A has no task "
                                                                 "'TASK-9'");
    assert_non_null(strstr(stage_text_at(answer, "/error/hint"), "did you mean 'FEAT-A/TASK-"));
    RUN(&run, "feature", "status", "TASK-99");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean 'TASK-"));
    RUN(&run, "feature", "status", "nothing-near-it");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "'belay feature list' lists the features"));
    other.id = "FEAT-C";
    put(other);
    RUN(&run, "feature", "status", "TASK-1");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "have a task 'TASK-1'\nhint: choose one, such as FEAT-"));
    RUN(&run, "feature", "report", "TASK-1");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "feature", "extend", "FEAT-A", "+5s");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "needs a task"));
}

static void list_has_a_line_per_feature_and_all_on_request(void **state)
{
    struct written other = recorded_login;

    (void)state;
    put(recorded_login);
    other.repository = "/elsewhere";
    other.id = "FEAT-OTHER";
    put(other);
    RUN(&run, "feature", "list");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "ID      NAME ", 13);
    assert_int_equal(stage_lines_with(run.out, "FEAT-"), 1);
    assert_int_equal(stage_lines_with(run.out, "FEAT-A  Login \\x1b[31m"), 1);
    assert_int_equal(stage_lines_with(run.out, "  failed       1/3      "), 1);
    assert_int_equal(stage_lines_with(run.out, "$0.25"), 1);
    RUN(&run, "feature", "list", "--all");
    assert_int_equal(stage_lines_with(run.out, "FEAT-"), 2);
    assert_int_equal(stage_lines_with(run.out, "/elsewhere"), 1);
    RUN(&run, "feature", "list", "--all", "--json");
    const struct bl_json *answer = stage_answer(&run, "feature-list", 0);
    assert_int_equal(stage_size_at(answer, "/features"), 2);
    assert_int_equal(stage_number_at(answer, "/features/0/tasks_total"), 3);
    assert_true(stage_null_at(answer, "/features/0/owner"));
}

/* ---- logs ------------------------------------------------------------------------------------ */

static void logs_merge_events_and_output_in_one_order(void **state)
{
    (void)state;
    put(recorded_login);
    RUN(&run, "feature", "logs", "FEAT-A");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    const char *hello = strstr(run.out, "    | hello\n    |   wor\\x1b[2Jld\n");
    const char *no = strstr(run.out, "    | no\n");
    const char *left = strstr(run.out, "\nTASK-2, attempt 1, turn 2, verify\n    | left\n");
    assert_non_null(hello);
    assert_true(no > hello && left > no);
    assert_memory_equal(run.out, "2026-11-15\n10:00:01 FEAT-A: started", 34);
    assert_int_equal(stage_lines_with(run.out, "2026-11-15"), 1);
    RUN(&run, "feature", "logs", "FEAT-A/TASK-2", "--phase", "coach");
    assert_null(strstr(run.out, "hello"));
    assert_non_null(strstr(run.out, "    | no\n"));
    RUN(&run, "feature", "logs", "TASK-2", "--turn", "2");
    assert_string_equal(run.out, "TASK-2, attempt 1, turn 2, verify\n    | left\n");
    RUN(&run, "feature", "logs", "FEAT-A/TASK-1");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "");
}

static void logs_in_json_have_unchanged_events(void **state)
{
    (void)state;
    put(recorded_login);
    RUN(&run, "feature", "logs", "FEAT-A", "--json");
    const struct bl_json *answer = stage_answer(&run, "feature-logs", 0);
    assert_int_equal(stage_size_at(answer, "/events"), 5);
    assert_string_equal(stage_text_at(answer, "/events/4/type"), "feature_ended");
    assert_int_equal(stage_size_at(answer, "/outputs"), 3);
    RUN(&run, "feature", "logs", "FEAT-A", "-f", "--output-format", "stream-json");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, recorded_login.events[0], strlen(recorded_login.events[0]));
    assert_int_equal(stage_lines_with(run.out, "\"type\":\"output\""), 3);
    runner_check_schema("feature-logs", stage_last_line(run.out));
}

/* Waits for output of a live run; half a minute at most. */
static void await_output(const char *text)
{
    uint64_t end_ns = bl_now_ns() + 30 * BL_NS_PER_S;
    while (strstr(held_out(&held), text) == NULL && bl_now_ns() < end_ns)
        bl_sleep(BL_NS_PER_MS);
    CHECK(bl_now_ns() < end_ns);
}

static int follow(const struct written *written, struct bl_store_feature *feature)
{
    static const char *const third[] = {EVENT("feature_ended", ",\"state\":\"completed\""), NULL};
    static const char *const output[] = {
        "output/TASK-1/001/0001/player",
        "{\"task\":\"TASK-1\",\"attempt\":1,\"turn\":1,\"phase\":\"player\",\"text\":\"hello\"}",
        NULL};
    static const char *const second[] = {
        EVENT("phase_ended", ",\"task\":\"TASK-1\",\"attempt\":1,\"turn\":1,\"phase\":\"player\""),
        NULL};

    (void)written;
    START(&held, "feature", "logs", "FEAT-A", "--follow");
    await_output("10:00:01");
    write_records(feature, output, second);
    await_output("    | hello\n");
    CHECK_EQUAL(waitpid(held.pid, NULL, WNOHANG), 0);
    write_records(feature, NULL, third);
    return 0;
}

static void followed_logs_end_with_the_feature(void **state)
{
    struct written written = {.id = "FEAT-A",
                              .records = {"feature", FEATURE("FEAT-A", "running", "0"),
                                          "task/TASK-1", ROW("TASK-1", "running", "")},
                              .events = {EVENT("feature_started", ",\"resumed\":false")},
                              .work = follow};

    (void)state;
    put(written);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_int_equal(stage_lines_with(held_out(&held), "10:00:01"), 3);
    assert_int_equal(stage_lines_with(held_out(&held), "hello"), 1);
    /* No runner: there is nothing to wait for. */
    RUN(&run, "feature", "logs", "FEAT-A", "-f");
    assert_int_equal(run.exit_code, 0);
}

SUITE(feature_show, RECORDED(missing_store_has_no_features_and_is_not_created),
      RECORDED(outside_a_repository_is_an_error),
      RECORDED(status_shows_tasks_by_waves_with_their_deadlines),
      RECORDED(status_of_a_task_has_its_row_and_its_checkpoint),
      RECORDED(status_of_a_running_feature_shows_owner_and_quiet_time),
      RECORDED(unknown_and_ambiguous_names_are_reported),
      RECORDED(list_has_a_line_per_feature_and_all_on_request),
      RECORDED(logs_merge_events_and_output_in_one_order),
      RECORDED(logs_in_json_have_unchanged_events), RECORDED(followed_logs_end_with_the_feature));
