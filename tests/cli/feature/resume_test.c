#include "records.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static const char *at(const char *name)
{
    return stage_path(name);
}

static void assert_word(const struct bl_json *value, const char *pointer, const char *word)
{
    const char *found = stage_text_at(value, pointer);
    if (strcmp(found, word) != 0)
        fail_msg("%s is '%s', not '%s'", pointer, found, word);
}

static const char *read_text(const char *path)
{
    struct bl_text text = suite_read_file(path);
    const char *kept = stage_keep(text);
    bl_free((void *)text.data);
    return kept;
}

/* ---- Approved too late ----------------------------------------------------------------------- */

/* A Coach that writes its verdict when it is stopped. */
static void plan_late_coach(void)
{
    const char *coach =
        field_seat("coach", stage_printf("cat > /dev/null\n. %s\n"
                                         "trap \"verdict approve verified '[]'; exit 0\" TERM\n"
                                         "touch %s\nsleep 60 &\nwait\n",
                                         field_verdict(), at("judging")));
    field_tasks("A", field_player("player", ""), stage_printf("%s, grace: 10s", coach), "",
                "  verify: {commands: ['test -e A.txt']}\n");
}

/* Runs until the timer has stopped the Coach, each time with a longer timer. */
static void time_out_the_coach(void)
{
    for (unsigned i = 0;; i++) {
        struct held held = {0};
        remove(at("judging"));
        FEATURE_START(&held, "run", "FEAT", "--fresh", "--task-timeout", stage_timeout(i));
        const struct bl_json *row = field_row(field_end_of(&held, 1), "A");
        assert_word(row, "/decision", "timeout");
        assert_word(row, "/state", "timed_out");
        held_end(&held);
        if (stage_exists(at("judging")))
            return;
    }
}

static void F19_verdict_of_the_kill_grace_is_kept_and_adopted(void **state)
{
    struct held held = {0};
    (void)state;
    plan_late_coach();
    time_out_the_coach();
    const struct bl_json *row = field_row(field_status("FEAT/A"), "A");
    assert_word(row, "/state", "timed_out");
    assert_word(row, "/checkpoint/phase", "coach");
    assert_word(row, "/checkpoint/marker", "cancelled_mid_turn");
    assert_word(row, "/checkpoint/late_verdict/decision", "approve");
    assert_true(stage_null_at(row, "/checkpoint/partial/verdict"));
    FEATURE_START(&held, "resume", "FEAT");
    row = field_row(field_end_of(&held, 0), "A");
    assert_word(row, "/decision", "approved");
    assert_word(row, "/state", "completed");
    assert_int_equal(field_count(&held, "phase_started", NULL), 0);
    assert_word(field_event(&held, "task_ended", "A", 0), "/decision", "approved");
    assert_string_equal(field_git_output("show belay/FEAT/_result:A.txt"), "turn 1");
    held_end(&held);
}

static void F19_late_verdict_on_another_tree_is_not_adopted(void **state)
{
    struct held held = {0};
    (void)state;
    plan_late_coach();
    time_out_the_coach();
    field_write(".belay/worktrees/FEAT/A/more.txt", "not judged by anybody\n");
    field_coach("coach", "");
    FEATURE_START(&held, "resume", "FEAT");
    assert_word(field_row(field_end_of(&held, 0), "A"), "/decision", "approved");
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "player"), 1);
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "coach"), 1);
    held_end(&held);
}

/* A resume that dies at the start of its attempt loses no verdict. */
static void F19_late_verdict_survives_another_death(void **state)
{
    struct held killed = {0}, held = {0};
    (void)state;
    plan_late_coach();
    time_out_the_coach();
    /* It cannot reach its worktree while another process writes to the repository. */
    int lock = open(at("work/.git/belay.lock"), O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0 && flock(lock, LOCK_EX) == 0);
    FEATURE_START(&killed, "resume", "FEAT");
    field_await(&killed, "deadline_armed", "A", 0);
    while (strcmp(stage_text_at(records_get("task/A"), "/state"), "running") != 0)
        field_rest(0.005);
    kill(killed.pid, SIGKILL);
    held_wait(&killed);
    close(lock);
    const struct bl_json *row = field_row(field_status("FEAT/A"), "A");
    assert_word(row, "/state", "interrupted");
    assert_word(row, "/checkpoint/late_verdict/decision", "approve");
    FEATURE_START(&held, "resume", "FEAT");
    row = field_row(field_end_of(&held, 0), "A");
    assert_word(row, "/decision", "approved");
    assert_int_equal(stage_number_at(row, "/attempt"), 3);
    assert_int_equal(field_count(&held, "phase_started", "A"), 0);
    held_end(&killed);
    held_end(&held);
}

/* ---- Continuing ------------------------------------------------------------------------------ */

static void F24_task_approved_before_a_kill_does_not_run_again(void **state)
{
    struct held killed = {0}, held = {0};
    (void)state;
    field_pair(field_player("player", stage_printf("if [ $BELAY_TASK$BELAY_ATTEMPT = B1 ]; then\n"
                                                   "echo half > half.txt; touch %s; sleep 60\nfi",
                                                   at("ready"))),
               field_coach("coach", ""), "", "");
    FEATURE_START(&killed, "run", "FEAT");
    assert_word(field_await(&killed, "task_ended", "A", 0), "/decision", "approved");
    stage_await_file(at("ready"));
    kill(killed.pid, SIGKILL);
    held_wait(&killed);
    field_await_processes("BELAY_TASK=B", 0);
    FEATURE_START(&held, "resume", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 0);
    assert_word(field_event(&held, "feature_started", NULL, 0), "/already/0", "A");
    assert_int_equal(field_count(&held, "phase_started", "A"), 0);
    assert_int_equal(field_count(&held, "task_ended", "A"), 0);
    assert_word(field_row(envelope, "A"), "/state", "completed");
    assert_int_equal(stage_number_at(field_row(envelope, "A"), "/attempt"), 1);
    assert_word(field_row(envelope, "B"), "/state", "completed");
    assert_int_equal(stage_number_at(field_row(envelope, "B"), "/attempt"), 2);
    assert_int_equal(stage_number_at(field_event(&held, "task_turn_started", "B", 0), "/turn"), 2);
    assert_string_equal(field_git_output("show belay/FEAT/_result:A.txt"), "turn 1");
    assert_string_equal(field_git_output("show belay/FEAT/_result:B.txt"), "turn 2");
    assert_string_equal(field_git_output("show belay/FEAT/_result:half.txt"), "half");
    held_end(&killed);
    held_end(&held);
}

/* Each turn has its own issue; the second contains text that must not be altered. */
static const char *feedback_coach(void)
{
    return field_seat(
        "coach",
        stage_printf("cat > /dev/null\n. %s\n"
                     "case $BELAY_TURN in\n"
                     "1) verdict feedback rejected '[{\"severity\":\"major\",\"description\":"
                     "\"the first word\"}]';;\n"
                     "2) verdict feedback rejected '[{\"severity\":\"major\",\"file\":\"A.txt\","
                     "\"line\":7,\"description\":\"Ünïcode,  two spaces, `ticks`, 100 %% and a \\\\"
                     " backslash\",\"suggestion\":\"write \\\"done\\\"\"},"
                     "{\"severity\":\"critical\",\"description\":\"the second thing\"}]';;\n"
                     "*) verdict approve verified '[]';;\nesac\n",
                     field_verdict()));
}

static void F25_turn_four_has_the_feedback_of_turn_two(void **state)
{
    struct held held = {0}, next = {0};
    (void)state;
    field_tasks("A",
                field_seat("player", stage_printf("cat > %s-$BELAY_TURN\n"
                                                  "echo \"turn $BELAY_TURN\" > A.txt\n"
                                                  "if [ $BELAY_TURN = 3 ]; then\n"
                                                  "echo x > 'half done.c'; echo y >> README.md\n"
                                                  "touch %s; sleep 60\nfi\n"
                                                  "echo '{}' > \"$BELAY_RESULT\"\n",
                                                  at("prompt"), at("ready"))),
                feedback_coach(), "", "");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(at("ready"));
    FEATURE_RUN(0, "cancel", "FEAT/A");
    const struct bl_json *row = field_row(field_end_of(&held, 1), "A");
    assert_word(row, "/state", "cancelled");
    assert_word(row, "/checkpoint/phase", "player");
    assert_int_equal(stage_number_at(row, "/checkpoint/turn"), 3);
    assert_int_equal(stage_number_at(row, "/checkpoint/feedback_turn"), 2);
    assert_int_equal(stage_size_at(row, "/checkpoint/dirty_files"), 3);
    const char *feedback = stage_text_at(records_get("turn/A/001/0002"), "/feedback");
    assert_non_null(strstr(feedback, "Ünïcode,  two spaces, `ticks`, 100 % and a \\ backslash"));
    FEATURE_START(&next, "resume", "FEAT");
    row = field_row(field_end_of(&next, 0), "A");
    assert_int_equal(stage_number_at(field_event(&next, "task_turn_started", "A", 0), "/turn"), 4);
    const char *prompt = read_text(at("prompt-4"));
    if (strstr(prompt, feedback) == NULL)
        fail_msg("'%s' is not in '%s'", feedback, prompt);
    assert_null(strstr(prompt, "the first word"));
    assert_non_null(strstr(prompt, "half done.c"));
    assert_non_null(strstr(prompt, "README.md"));
    assert_non_null(strstr(prompt, "A.txt"));
    assert_word(row, "/state", "completed");
    assert_int_equal(stage_number_at(row, "/turns_counted"), 3);
    assert_string_equal(field_git_output("show 'belay/FEAT/_result:half done.c'"), "x");
    held_end(&held);
    held_end(&next);
}

/* A Player that reports its usage, also when it is stopped; and a Coach that never approves. */
static void plan_costs(void)
{
    const char *player = field_seat(
        "player",
        stage_printf("cat > /dev/null\n"
                     "give() { echo \"{\\\"usage\\\":{\\\"input_tokens\\\":${BELAY_TURN}00,"
                     "\\\"output_tokens\\\":$BELAY_TURN,\\\"cost_usd\\\":0.25}}\" > "
                     "\"$BELAY_RESULT\"; }\n"
                     "echo \"turn $BELAY_TURN\" > A.txt\n"
                     "if [ $BELAY_TURN = 1 ]; then\n"
                     "trap 'give; exit 0' TERM\ntouch %s\nsleep 60 &\nwait\nfi\ngive\n",
                     at("ready")));
    const char *coach =
        field_seat("coach", stage_printf("cat > /dev/null\n. %s\nverdict feedback rejected"
                                         " '[{\"severity\":\"major\",\"description\":\"no\"}]'\n",
                                         field_verdict()));
    field_tasks("A", stage_printf("%s, grace: 10s", player), coach, "turns: 2,", "");
}

static void F26_turn_that_was_cut_off_does_not_count(void **state)
{
    struct held held = {0}, next = {0};
    (void)state;
    plan_costs();
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(at("ready"));
    FEATURE_RUN(0, "cancel", "FEAT/A");
    const struct bl_json *row = field_row(field_end_of(&held, 1), "A");
    assert_int_equal(stage_number_at(row, "/turns_counted"), 0);
    assert_int_equal(stage_number_at(row, "/spent/input_tokens"), 100);
    FEATURE_START(&next, "resume", "FEAT");
    const struct bl_json *envelope = field_end_of(&next, 1);
    row = field_row(envelope, "A");
    assert_word(row, "/decision", "max_turns_reached");
    assert_word(row, "/state", "failed");
    assert_int_equal(stage_number_at(row, "/turn"), 3);
    assert_int_equal(stage_number_at(row, "/turns_counted"), 2);
    assert_int_equal(field_count(&next, "task_turn_started", "A"), 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(stage_true_at(field_event(&next, "task_turn_ended", "A", i), "/counted"));
    static const char *const places[] = {"", "/spent"};
    const struct bl_json *const values[] = {bl_json_get(row, BL_TEXT("spent")), envelope};
    for (size_t i = 0; i < BL_COUNT(places); i++) {
        assert_int_equal(stage_number_at(values[i], stage_printf("%s/input_tokens", places[i])),
                         600);
        assert_int_equal(stage_number_at(values[i], stage_printf("%s/output_tokens", places[i])),
                         6);
        const char *cost = stage_printf("%s/cost_usd", places[i]);
        double usd = 0;
        assert_true(bl_json_double(bl_json_pointer(values[i], bl_text_from(cost)), &usd));
        assert_true(usd > 0.7499 && usd < 0.7501);
    }
    assert_int_equal(stage_number_at(records_get("attempt/A/001"), "/spent/input_tokens"), 100);
    held_end(&held);
    held_end(&next);
}

SUITE(resume, FIELD(F19_verdict_of_the_kill_grace_is_kept_and_adopted),
      FIELD(F19_late_verdict_on_another_tree_is_not_adopted),
      FIELD(F19_late_verdict_survives_another_death),
      FIELD(F24_task_approved_before_a_kill_does_not_run_again),
      FIELD(F25_turn_four_has_the_feedback_of_turn_two),
      FIELD(F26_turn_that_was_cut_off_does_not_count));
