/* Verification, Coaches, feedback and stalls. */
#include "scenes.h"

/* ---- Verification ---------------------------------------------------------------------------- */

#define CHECK_OF_TURN_2                                                                            \
    "echo first line\n"                                                                            \
    "grep -q 'turn 2' A.txt && exit 0\n"                                                           \
    "echo 'A.txt is of turn 1' >&2\n"                                                              \
    "exit 1\n"

static void F43_failed_verification_turns_approval_into_feedback(void **state)
{
    struct held held = {0};
    (void)state;
    field_write("check.sh", CHECK_OF_TURN_2);
    scene_one(scene_player(""), field_coach("coach", ""), "",
              "  verify: {commands: [sh check.sh]}\n");
    const struct bl_json *envelope = scene_run(&held, "run", 0);
    scene_row(envelope, "A", "completed", "approved");
    assert_int_equal(stage_number_at(field_row(envelope, "A"), "/turns_counted"), 2);
    assert_string_equal(stage_text_at(field_row(envelope, "A"), "/verified"), "passed");
    assert_string_equal(stage_text_at(field_event(&held, "verify_ended", "A", 0), "/value"),
                        "failed");
    assert_string_equal(stage_text_at(field_event(&held, "verdict", "A", 0), "/verdict/decision"),
                        "approve");
    scene_turn(&held, "A", 1, "feedback");
    scene_turn(&held, "A", 2, "approve");
    const char *issue = strstr(scene_file("seats/A-2.prompt"), "1. critical (verify)");
    assert_non_null(issue);
    const char *second = strstr(issue, "\n2. ");
    issue = second != NULL ? stage_keep((struct bl_text){issue, (size_t)(second - issue)}) : issue;
    scene_expect(issue, "A.txt is of turn 1");
    scene_expect(issue, "exited with 1");
    held_end(&held);
}

static void F43_absent_verification_never_approves_and_blocks_after_three(void **state)
{
    struct held held = {0};
    (void)state;
    scene_one(scene_player(""), field_coach("coach", ""), "turns: 9,",
              "  verify: {commands: [no-such-program-of-ours]}\n");
    const struct bl_json *envelope = scene_run(&held, "run", 1);
    scene_row(envelope, "A", "blocked", "blocked");
    assert_string_equal(stage_text_at(field_row(envelope, "A"), "/verified"), "absent");
    assert_int_equal(stage_number_at(field_row(envelope, "A"), "/turn"), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct bl_json *event = field_event(&held, "verify_ended", "A", i);
        assert_string_equal(stage_text_at(event, "/value"), "absent");
        scene_expect(stage_text_at(event, "/why"), "127");
        scene_turn(&held, "A", i + 1, "feedback");
    }
    /* The Coach approved each time, and the same text three times is not a stall. */
    assert_int_equal(field_count(&held, "verdict", "A"), 3);
    assert_int_equal(stage_lines_with(stage_output(&held), "\"decision\":\"stalled\""), 0);
    held_end(&held);
}

static void F43_without_commands_a_task_is_approved_not_verified_everywhere(void **state)
{
    static const char *const words = "approved, not verified";
    (void)state;
    scene_one(scene_player(""), field_coach("coach", ""), "", "");
    scene_expect(FEATURE_RUN(0, "run", "FEAT")->out, words);
    scene_expect(FEATURE_RUN(0, "status", "FEAT")->out, words);
    scene_expect(FEATURE_RUN(0, "status", "FEAT/A")->out, words);
    scene_expect(FEATURE_RUN(0, "report", "FEAT")->out, words);
    scene_expect(FEATURE_RUN(0, "report", "FEAT", "--html", "-")->out, words);
    scene_expect(FEATURE_RUN(0, "logs", "FEAT")->out, words);
    const struct bl_json *row = field_row(field_status("FEAT"), "A");
    assert_string_equal(stage_text_at(row, "/verified"), "none");
}

/* A Player that tries to make its own work pass: in its worktree, and in the user's checkout. */
#define FORGER                                                                                     \
    "if [ $BELAY_TURN = 1 ]; then\n"                                                               \
    "  for top in . \"$TOP\"; do\n"                                                                \
    "    sed -i 's/sh tests\\/contract\\/check.sh/true/' $top/.belay/features/FEAT.yaml\n"         \
    "    printf -- '---\\nid: A\\ntitle: Forged\\n---\\nNothing to do.\\n' > $top/tasks/A.md\n"    \
    "  done\n"                                                                                     \
    "  echo 'exit 0' > tests/contract/check.sh\n"                                                  \
    "else\n"                                                                                       \
    "  git checkout -q main -- tests/contract/check.sh\n"                                          \
    "fi\n"

static void F44_declared_commands_run(void **state)
{
    struct held held = {0};
    (void)state;
    field_write("tests/contract/check.sh", "echo as declared; test -f A.txt\n");
    scene_one(scene_player(stage_printf("TOP=%s\n" FORGER, stage_path("work"))),
              field_coach("coach", ""), "",
              "  verify:\n    commands: [sh tests/contract/check.sh]\n"
              "    protect: ['tests/contract/**']\n");
    const struct bl_json *envelope = scene_run(&held, "run", 0);
    scene_row(envelope, "A", "completed", "approved");
    assert_string_equal(stage_text_at(field_event(&held, "verify_ended", "A", 0), "/value"),
                        "passed");
    scene_turn(&held, "A", 1, "feedback");
    scene_turn(&held, "A", 2, "approve");
    const char *prompt = scene_file("seats/A-2.prompt");
    scene_expect(prompt, "1. critical (verify) tests/contract/check.sh");
    scene_expect(prompt, "Do A.");
    scene_expect(prompt, "AC-001: A.txt is there");
    scene_expect_none(prompt, "Nothing to do.");
    const char *logs = FEATURE_RUN(0, "logs", "FEAT/A", "--phase", "verify")->out;
    assert_int_equal(stage_lines_with(logs, "as declared"), 2);
    held_end(&held);
}

/* ---- Coaches --------------------------------------------------------------------------------- */

static void F45_writing_coach_does_not_change_the_task(void **state)
{
    struct held held = {0};
    (void)state;
    scene_one(field_player("player", ""),
              field_coach("coach", "test -f A.txt || exit 9\n"
                                   "rm -f A.txt README.md\n"
                                   "echo evil > evil.txt\n"
                                   "git add -A && git -c user.name=x -c user.email=x@x.test "
                                   "commit -q -m evil || exit 9\n"
                                   "git branch -f main HEAD || exit 9\n"),
              "", "");
    const struct bl_json *envelope = scene_run(&held, "run", 0);
    scene_row(envelope, "A", "completed", "approved");
    const char *made = stage_text_at(field_event(&held, "commit_made", "A", 0), "/commit");
    assert_string_equal(field_git_output("rev-parse belay/FEAT/A"), made);
    assert_string_equal(field_git_output("-C .belay/worktrees/FEAT/A rev-parse HEAD"), made);
    assert_string_equal(field_git_output("-C .belay/worktrees/FEAT/A status --porcelain"), "");
    assert_string_equal(field_git_output("log --format=%s main"), "plan\nfirst");
    const char *files = field_git_output("ls-tree -r --name-only belay/FEAT/_result");
    scene_expect(files, "A.txt");
    scene_expect(files, "README.md");
    scene_expect_none(files, "evil");
    assert_int_equal(scene_files(".belay/run/FEAT/A/coach-*"), 0);
    held_end(&held);
}

static void F45_coach_that_changes_the_worktree_is_an_error(void **state)
{
    struct held held = {0};
    (void)state;
    const char *tree = stage_path("work/.belay/worktrees/FEAT/A");
    scene_one(field_player("player", ""),
              field_coach("coach", stage_printf("echo better > %s/A.txt", tree)), "", "");
    const struct bl_json *envelope = scene_run(&held, "run", 1);
    scene_row(envelope, "A", "failed", "error");
    scene_expect(stage_text_at(field_row(envelope, "A"), "/message"), "Coach");
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "coach"), 1);
    held_end(&held);
}

/* Invalid verdicts, and a word of the reason. */
static const struct {
    const char *task;
    const char *shell;
    const char *why;
} bad_verdicts[] = {
    {"PROSE", "echo 'It looks good to me, I approve.'", "no verdict"},
    {"OTHER", "BELAY_TASK=SOMEONE; verdict approve verified '[]'", "for task 'SOMEONE'"},
    {"WORD", "verdict maybe verified '[]'", "decision: expected one of feedback, approve"},
    {"TWICE", "verdict 'feedback\",\"decision\":\"approve' verified '[]'", "decision"},
    {"REJECT", "verdict approve rejected '[]'", "rejects a criterion"},
};

static void write_bad_judges(const char *ids[])
{
    const char *seats = stage_path("seats");
    for (size_t i = 0; i < BL_COUNT(bad_verdicts); i++) {
        ids[i] = bad_verdicts[i].task;
        const char *coach = scene_coach(
            ids[i],
            stage_printf("n=$(ls %s/%s.try-* 2>/dev/null | wc -l)\n"
                         "cat > %s/%s.try-$((n + 1))\n"
                         "if [ -f %s/fixed ]; then verdict approve verified '[]'; exit 0; fi\n%s",
                         seats, ids[i], seats, ids[i], seats, bad_verdicts[i].shell));
        field_task(ids[i], scene_own_coach(coach));
    }
}

static void F46_invalid_verdicts_are_retried_and_never_approve(void **state)
{
    const char *ids[BL_COUNT(bad_verdicts) + 1] = {0};
    struct held held = {0}, again = {0};
    (void)state;
    write_bad_judges(ids);
    scene_many(ids, field_player("player", ""), "");
    const struct bl_json *envelope = scene_run(&held, "run", 1);
    assert_int_equal(stage_lines_with(stage_output(&held), "\"valid\":true"), 0);
    assert_int_equal(stage_lines_with(stage_output(&held), "\"decision\":\"approve"), 0);
    for (size_t i = 0; ids[i] != NULL; i++) {
        scene_row(envelope, ids[i], "failed", "coach_failed");
        assert_int_equal(field_count(&held, "verdict", ids[i]), 3);
        assert_int_equal(scene_files(stage_path(stage_printf("seats/%s.try-*", ids[i]))), 3);
        const char *second = scene_file(stage_printf("seats/%s.try-2", ids[i]));
        scene_expect(strstr(second, "Your last verdict was invalid"), bad_verdicts[i].why);
        scene_expect_none(scene_file(stage_printf("seats/%s.try-1", ids[i])), "Your last verdict");
    }
    scene_shell(stage_printf("touch %s", stage_path("seats/fixed")));
    envelope = scene_run(&again, "resume", 0);
    for (size_t i = 0; ids[i] != NULL; i++) {
        scene_row(envelope, ids[i], "completed", "approved");
        const struct bl_json *first = field_event(&again, "phase_started", ids[i], 0);
        assert_string_equal(stage_text_at(first, "/phase"), "coach");
        assert_int_equal(field_count(&again, "phase_started", ids[i]), 1);
    }
    held_end(&held);
    held_end(&again);
}

/* ---- Feedback -------------------------------------------------------------------------------- */

static void F47_most_severe_issue_is_first_and_omitted_issues_are_counted(void **state)
{
    struct held held = {0};
    (void)state;
    scene_one(scene_player(""),
              scene_coach("coach",
                          "cat > /dev/null\n"
                          "[ $BELAY_TURN = 1 ] || { verdict approve verified '[]'; exit 0; }\n"
                          "all=\n"
                          "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do\n"
                          "all=\"$all{\\\"severity\\\":\\\"note\\\",\\\"description\\\":"
                          "\\\"remark ($i)\\\"},\"\n"
                          "done\n"
                          "verdict feedback rejected \"[$all{\\\"severity\\\":\\\"critical\\\","
                          "\\\"description\\\":\\\"it burns\\\"}]\"\n"),
              "", "");
    scene_row(scene_run(&held, "run", 0), "A", "completed", "approved");
    const char *feedback = strstr(scene_file("seats/A-2.prompt"), "## Feedback");
    assert_non_null(feedback);
    scene_expect(feedback, "\n1. critical (coach): it burns\n2. note (coach): remark (1)\n");
    scene_expect(feedback, "\n10. note (coach): remark (9)\n… and 3 more (3 note): ");
    scene_expect_none(feedback, "\n11. ");
    scene_expect_none(feedback, "remark (10)");
    const char *path = strstr(feedback, "(3 note): ") + strlen("(3 note): ");
    path = stage_keep((struct bl_text){path, strcspn(path, "\n")});
    struct bl_text whole = suite_read_file(path);
    scene_expect(stage_keep(whole), "\n13. note (coach): remark (12)\n");
    bl_free((void *)whole.data);
    held_end(&held);
}

#define SAME_FEEDBACK                                                                              \
    "[{\\\"severity\\\":\\\"major\\\",\\\"file\\\":\\\"src/a$BELAY_TURN.c\\\","                    \
    "\\\"line\\\":$BELAY_TURN,\\\"description\\\":\\\"test $BELAY_TURN of /tmp/x$BELAY_TURN/y.c "  \
    "failed after $((BELAY_TURN * 7)) ms\\\"}]"

/* A Coach with two criteria, the first of which is met from turn 2 on. */
#define JUDGE_OF_TWO                                                                               \
    "one=verified two=rejected what=feedback\n"                                                    \
    "[ $BELAY_TURN != 1 ] || one=rejected\n"                                                       \
    "[ $BELAY_TURN != 4 ] || { two=verified; what=approve; }\n"                                    \
    "cat > \"$BELAY_RESULT\" <<END\n"                                                              \
    "{\"task\":\"$BELAY_TASK\",\"turn\":$BELAY_TURN,\"decision\":\"$what\",\"criteria\":["         \
    "{\"id\":\"AC-001\",\"result\":\"$one\"},{\"id\":\"AC-002\",\"result\":\"$two\"}],"            \
    "\"issues\":[{\"severity\":\"major\",\"description\":\"still missing since $BELAY_TURN s\"}]}" \
    "\nEND\n"

static void F48_same_feedback_three_times_is_a_stall(void **state)
{
    static const char *const ids[] = {"SAME", "NEWS", "GAP", NULL};
    struct held held = {0};
    (void)state;
    const char *same = scene_coach("same", "verdict feedback rejected \"" SAME_FEEDBACK "\"");
    field_task("SAME", scene_own_coach(same));
    field_task("GAP",
               stage_printf("%s  verify: {commands: ['test $BELAY_TURN != 2 || exit 127']}\n",
                            scene_own_coach(same)));
    field_write("tasks/NEWS.md",
                stage_printf("---\nid: NEWS\ntitle: News\n%s---\n## Acceptance Criteria\n"
                             "- one\n- two\n",
                             scene_own_coach(scene_coach("news", JUDGE_OF_TWO))));
    scene_many(ids, field_player("player", ""), "turns: 9,");
    const struct bl_json *envelope = scene_run(&held, "run", 1);
    scene_row(envelope, "SAME", "failed", "stalled");
    assert_int_equal(stage_number_at(field_row(envelope, "SAME"), "/turn"), 3);
    /* A criterion was verified in turn 2: the task continues, and is approved in turn 4. */
    scene_row(envelope, "NEWS", "completed", "approved");
    assert_int_equal(stage_number_at(field_row(envelope, "NEWS"), "/turn"), 4);
    /* Turn 2 was absent and does not count: the third of the others is turn 4. */
    scene_row(envelope, "GAP", "failed", "stalled");
    assert_int_equal(stage_number_at(field_row(envelope, "GAP"), "/turn"), 4);
    assert_string_equal(stage_text_at(field_event(&held, "verify_ended", "GAP", 1), "/value"),
                        "absent");
    held_end(&held);
}

/* ---- Agents ---------------------------------------------------------------------------------- */

/* Writes in turn 1, and fixes it with a command in turn 2. */
#define AGENT_PLAYER                                                                               \
    "replies:\n"                                                                                   \
    "  - when: 'Turn 1 of 5'\n"                                                                    \
    "    tools: [{name: write, input: {path: A.txt, content: half}}]\n"                            \
    "    usage: {input: 100, output: 10}\n"                                                        \
    "  - when: 'Turn 1 of 5'\n"                                                                    \
    "    say: \"Half of it.\\n```json\\n{\\\"summary\\\":\\\"half\\\","                            \
    "\\\"files\\\":[\\\"A.txt\\\"]}\\n```\"\n"                                                     \
    "    usage: {input: 200, output: 20}\n"                                                        \
    "  - when: 'the other half is missing'\n"                                                      \
    "    tools: [{name: bash, input: {command: 'printf whole > A.txt; rm -f hidden'}}]\n"          \
    "    usage: {input: 300, output: 30}\n"                                                        \
    "  - when: 'Turn 2 of 5'\n"                                                                    \
    "    say: \"{\\\"summary\\\":\\\"whole\\\"}\"\n"                                               \
    "    usage: {input: 400, output: 40}\n"

/* Reads, tries a write that is not allowed, and reports its findings. */
#define AGENT_COACH                                                                                \
    "replies:\n"                                                                                   \
    "  - tools: [{name: read, input: {path: A.txt}}, {name: write, input: {path: A.txt, "          \
    "content: evil}}]\n"                                                                           \
    "    usage: {input: 1000, output: 1}\n"                                                        \
    "  - when: 'Turn 1 of 5'\n"                                                                    \
    "    say: \"So.\\n```json\\n{\\\"task\\\":\\\"A\\\",\\\"turn\\\":1,\\\"decision\\\":"          \
    "\\\"feedback\\\",\\\"criteria\\\":[{\\\"id\\\":\\\"AC-001\\\",\\\"result\\\":"                \
    "\\\"rejected\\\"}],\\\"issues\\\":[{\\\"severity\\\":\\\"major\\\",\\\"description\\\":"      \
    "\\\"the other half is missing\\\"}]}\\n```\"\n"                                               \
    "    usage: {input: 2000, output: 2}\n"                                                        \
    "  - when: 'Turn 2 of 5'\n"                                                                    \
    "    say: \"{\\\"task\\\":\\\"A\\\",\\\"turn\\\":2,\\\"decision\\\":\\\"approve\\\","          \
    "\\\"criteria\\\":[{\\\"id\\\":\\\"AC-001\\\",\\\"result\\\":\\\"verified\\\"}]}\"\n"          \
    "    usage: {input: 3000, output: 3}\n"

static void agents_are_player_and_coach_of_a_whole_run(void **state)
{
    struct held held = {0};
    static struct run run;
    (void)state;
    field_task("A", "");
    field_plan(stage_printf("tasks: [{id: A, file_path: tasks/A.md}]\n"
                            "belay:\n  player: %s\n  coach: %s\n"
                            "  limits: {min_turn_budget: 0s}\n"
                            "  verify: {commands: [test -f A.txt]}\n",
                            scene_agent("player", AGENT_PLAYER, ""),
                            scene_agent("coach", AGENT_COACH, "")));
    field_commit();
    const struct bl_json *envelope = scene_run(&held, "run", 0);
    scene_row(envelope, "A", "completed", "approved");
    scene_turn(&held, "A", 1, "feedback");
    scene_turn(&held, "A", 2, "approve");
    assert_string_equal(field_git_output("show belay/FEAT/_result:A.txt"), "whole");
    /* All usage is counted: the Coach's first reply in both of its turns. */
    const struct bl_json *spent = bl_json_get(field_row(envelope, "A"), BL_TEXT("spent"));
    assert_int_equal(stage_number_at(spent, "/input_tokens"), 1000 + 2 * 1000 + 5000);
    assert_int_equal(stage_number_at(spent, "/output_tokens"), 100 + 2 * 1 + 5);
    /* The Player has one session of two turns, the Coach one for each. */
    RUN(&run, "session", "list", "--all", "--json");
    const struct bl_json *sessions = stage_json(run.out);
    assert_int_equal(stage_size_at(sessions, "/sessions"), 3);
    size_t turns[3] = {0};
    for (size_t i = 0; i < 3; i++)
        turns[stage_turns(stage_text_at(sessions, stage_printf("/sessions/%zu/session_id", i)))]++;
    assert_int_equal(turns[1], 2);
    assert_int_equal(turns[2], 1);
    held_end(&held);
}

static void agent_and_command_seats_work_together(void **state)
{
    struct held held = {0};
    (void)state;
    const char *player =
        scene_agent("player",
                    "replies:\n"
                    "  - tools: [{name: write, input: {path: A.txt, content: a}}]\n"
                    "  - say: done\n",
                    ", max_steps: 5");
    const char *coach =
        scene_agent("coach",
                    "replies:\n"
                    "  - say: \"{\\\"task\\\":\\\"B\\\",\\\"turn\\\":1,\\\"decision\\\":"
                    "\\\"approve\\\",\\\"criteria\\\":[{\\\"id\\\":\\\"AC-001\\\","
                    "\\\"result\\\":\\\"verified\\\"}]}\"\n",
                    "");
    field_task("A", stage_printf("belay:\n  player: %s\n", player));
    field_task("B", stage_printf("belay:\n  coach: %s\n", coach));
    field_plan(stage_printf("tasks:\n  - {id: A, file_path: tasks/A.md}\n"
                            "  - {id: B, file_path: tasks/B.md}\n"
                            "belay:\n  player: {command: %s}\n  coach: {command: %s}\n"
                            "  limits: {min_turn_budget: 0s}\n",
                            field_player("player", ""), field_coach("coach", "")));
    field_commit();
    const struct bl_json *envelope = scene_run(&held, "run", 0);
    scene_row(envelope, "A", "completed", "approved");
    scene_row(envelope, "B", "completed", "approved");
    assert_string_equal(field_git_output("show belay/FEAT/_result:A.txt"), "a");
    assert_string_equal(field_git_output("show belay/FEAT/_result:B.txt"), "turn 1");
    held_end(&held);
}

SUITE(judge, FIELD(F43_failed_verification_turns_approval_into_feedback),
      FIELD(F43_absent_verification_never_approves_and_blocks_after_three),
      FIELD(F43_without_commands_a_task_is_approved_not_verified_everywhere),
      FIELD(F44_declared_commands_run), FIELD(F45_writing_coach_does_not_change_the_task),
      FIELD(F45_coach_that_changes_the_worktree_is_an_error),
      FIELD(F46_invalid_verdicts_are_retried_and_never_approve),
      FIELD(F47_most_severe_issue_is_first_and_omitted_issues_are_counted),
      FIELD(F48_same_feedback_three_times_is_a_stall),
      FIELD(agents_are_player_and_coach_of_a_whole_run),
      FIELD(agent_and_command_seats_work_together));
