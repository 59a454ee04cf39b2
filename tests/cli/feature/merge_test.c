/* Merging the tasks of a wave: the result branch, conflicts, the gate. */
#include "field.h"

#include <stdio.h>

static const char *of_row(const struct bl_json *envelope, const char *task, const char *pointer)
{
    return stage_text_at(field_row(envelope, task), pointer);
}

/* Returns the Player's prompt of that turn; `keep_prompt` stores those of field_player. */
static const char *prompt_of(const char *task, int turn)
{
    struct bl_text text =
        suite_read_file(stage_path(stage_printf("seats/prompt-%s-%d", task, turn)));
    const char *kept = stage_keep(text);
    bl_free((void *)text.data);
    return kept;
}

/* First shell lines of a Player. */
static const char *keep_prompt(void)
{
    return stage_printf("cp \"$BELAY_RESULT.prompt\" %s-$BELAY_TASK-$BELAY_TURN",
                        stage_path("seats/prompt"));
}

static const char *output_of(const char *command)
{
    static char text[65536];
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t size = fread(text, 1, sizeof text, pipe);
    assert_true(size < sizeof text);
    if (pclose(pipe) != 0)
        fail_msg("'%s' failed", command);
    return stage_keep((struct bl_text){text, size});
}

/* ---- F40 ------------------------------------------------------------------------------------- */

/* Returns a checksum of everything of the user's: every file of the checkout with mode, time and
 * contents, the index, HEAD, branches, the stash, their logs, settings and hooks. */
static const char *checkout_sums(void)
{
    return output_of(
        "set -e\n"
        "own() { find . -path ./.git -prune -o -path ./.belay/worktrees -prune -o "
        "-path ./.belay/run -prune -o \\( -type f -o -type l \\) \"$@\"; }\n"
        "own -printf '%p %y %m %s %T@ %l\\n' | LC_ALL=C sort\n"
        "own -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum\n"
        "find .git/hooks .git/index .git/HEAD .git/config .git/refs/stash .git/refs/heads/main "
        ".git/refs/heads/other .git/logs/HEAD .git/logs/refs/stash .git/logs/refs/heads/main "
        ".git/logs/refs/heads/other -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum\n"
        "stat -c '%y' .git/index\n"
        "git symbolic-ref HEAD\n"
        "for i in ORIG_HEAD FETCH_HEAD MERGE_HEAD index.lock HEAD.lock; do ! ls .git/$i "
        "2>/dev/null; done\n");
}

/* Makes a checkout with work in progress. */
static void make_busy_checkout(void)
{
    field_write("stashed.txt", "one\n");
    field_write("staged.txt", "one\n");
    field_write("edited.txt", "one\n");
    field_write("removed.txt", "one\n");
    field_write("folder/A.txt", "not of the task\n");
    field_commit();
    field_git("branch other");
    field_write("stashed.txt", "two\n");
    field_git("stash push -q");
    field_write("staged.txt", "two\n");
    field_git("add staged.txt && git rm -q --cached removed.txt && chmod +x edited.txt");
    field_write("staged.txt", "three\n");
    field_write("edited.txt", "two\n");
    field_write("untracked.txt", "mine\n");
    field_write("B.txt", "mine, and in the way\n");
}

static void F40_result_has_both_tasks_and_the_checkout_is_unchanged(void **state)
{
    struct held held = {0};
    const char *go = stage_path("go");
    (void)state;
    /* B ends long before A. */
    field_pair(
        field_player("player", stage_printf("[ $BELAY_TASK = B ] || until [ -e %s ]; do sleep "
                                            "0.02; done",
                                            go)),
        field_coach("coach", ""), "", "");
    make_busy_checkout();
    const char *before = checkout_sums(), *main = field_git_output("rev-parse main");
    FEATURE_START(&held, "run", "FEAT");
    field_await(&held, "task_ended", "B", 0);
    assert_string_equal(checkout_sums(), before);
    field_touch(go);
    const struct bl_json *envelope = field_end_of(&held, 0);
    assert_string_equal(checkout_sums(), before);

    assert_string_equal(stage_text_at(envelope, "/base_commit"), main);
    assert_string_equal(stage_text_at(envelope, "/result_branch"), "belay/FEAT/_result");
    assert_string_equal(stage_text_at(envelope, "/result_commit"),
                        field_git_output("rev-parse belay/FEAT/_result"));
    assert_string_equal(field_git_output("show belay/FEAT/_result:A.txt"), "turn 1");
    assert_string_equal(field_git_output("show belay/FEAT/_result:B.txt"), "turn 1");
    assert_string_equal(field_git_output("log --first-parent --reverse --format=%s "
                                         "main..belay/FEAT/_result"),
                        "belay: merge FEAT/A\nbelay: merge FEAT/B");
    assert_string_equal(
        field_git_output("rev-list --first-parent --min-parents=2 --max-parents=2 --count "
                         "main..belay/FEAT/_result"),
        "2");
    assert_string_equal(field_git_output("rev-parse belay/FEAT/_result~2"), main);
    assert_string_equal(field_git_output("rev-parse belay/FEAT/_result^2 belay/FEAT/_result~1^2"),
                        field_git_output("rev-parse belay/FEAT/B belay/FEAT/A"));
    assert_string_equal(field_git_output("diff --name-only main belay/FEAT/_result"),
                        "A.txt\nB.txt");
    held_end(&held);
}

/* ---- F41 ------------------------------------------------------------------------------------- */

#define RESOLVE "printf 'before\\nA and B\\nafter\\n' > shared.txt"

/* Both write the same line; if another task's line is there, B runs `resolve`. */
static const char *conflict_player(const char *resolve)
{
    return field_player(
        "player", stage_printf("%s\nif grep -q '<<<<<<<' shared.txt; then\n%s\nelse\n"
                               "printf 'before\\n%%s\\nafter\\n' $BELAY_TASK > shared.txt\nfi",
                               keep_prompt(), resolve));
}

static void plan_conflict(const char *resolve, const char *limits)
{
    field_write("shared.txt", "before\nbase\nafter\n");
    field_pair(conflict_player(resolve), field_coach("coach", ""), limits, "");
}

static void F41_conflict_gets_a_merge_turn(void **state)
{
    struct held held = {0};
    (void)state;
    plan_conflict(RESOLVE, "");
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 0);
    assert_string_equal(of_row(envelope, "A", "/state"), "completed");
    assert_string_equal(of_row(envelope, "B", "/state"), "completed");
    assert_string_equal(of_row(envelope, "B", "/decision"), "approved");
    assert_true(stage_true_at(field_row(envelope, "B"), "/merged"));

    assert_int_equal(field_count(&held, "merge_conflict", NULL), 1);
    const struct bl_json *conflict = field_event(&held, "merge_conflict", "B", 0);
    assert_non_null(conflict);
    assert_int_equal(stage_size_at(conflict, "/files"), 1);
    assert_string_equal(stage_text_at(conflict, "/files/0"), "shared.txt");
    /* The turn is the second's alone: Player and Coach. */
    assert_int_equal(field_count(&held, "task_turn_started", "A"), 1);
    assert_int_equal(field_count(&held, "task_turn_started", "B"), 2);
    assert_int_equal(field_count_phase(&held, "phase_started", "B", "player"), 2);
    assert_int_equal(field_count_phase(&held, "phase_started", "B", "coach"), 2);
    assert_int_equal(field_count(&held, "task_ended", "B"), 1);
    assert_null(strstr(prompt_of("B", 1), "shared.txt"));
    assert_non_null(strstr(prompt_of("B", 2), "- shared.txt\n"));

    assert_string_equal(field_git_output("show belay/FEAT/_result:shared.txt"),
                        "before\nA and B\nafter");
    assert_string_equal(field_git_output("log --first-parent --reverse --format=%s "
                                         "main..belay/FEAT/_result"),
                        "belay: merge FEAT/A\nbelay: merge FEAT/B");
    assert_string_equal(field_git_output("rev-parse belay/FEAT/_result^2"),
                        field_git_output("rev-parse belay/FEAT/B"));
    assert_string_equal(field_git_output("status --porcelain"), "");
    held_end(&held);
}

/* Two merge turns without success: the first task's work stays, and the second's branch is kept. */
static void check_unresolved(struct held *held)
{
    const struct bl_json *envelope = field_end_of(held, 1);
    const struct bl_json *row = field_row(envelope, "B");
    assert_string_equal(of_row(envelope, "A", "/state"), "completed");
    assert_string_equal(stage_text_at(row, "/state"), "failed");
    assert_string_equal(stage_text_at(row, "/decision"), "merge_conflict");
    assert_false(stage_true_at(row, "/merged"));
    assert_non_null(strstr(stage_text_at(row, "/message"), "belay/FEAT/B"));
    assert_int_equal(field_count(held, "task_turn_started", "A"), 1);
    assert_int_equal(field_count(held, "task_turn_started", "B"), 3);
    assert_int_equal(field_count(held, "merge_conflict", "B"), 3);
    assert_int_equal(field_count(held, "task_turn_ended", "B"), 3);

    assert_string_equal(field_git_output("show belay/FEAT/_result:shared.txt"), "before\nA\nafter");
    assert_string_equal(field_git_output("rev-list --first-parent --count "
                                         "main..belay/FEAT/_result"),
                        "1");
    /* The branch is as it was approved; the worktree may be in the middle of the merge. */
    assert_string_equal(field_git_output("show belay/FEAT/B:shared.txt"), "before\nB\nafter");
    assert_string_equal(field_git_output("log --format=%s main..belay/FEAT/B"),
                        "belay: FEAT/B turn 1");
}

static void F41_unresolved_conflict_stays_on_its_branch(void **state)
{
    struct held held = {0};
    (void)state;
    plan_conflict("echo '{\"summary\":\"I do not know how\"}' > \"$BELAY_RESULT\"; exit 0", "");
    FEATURE_START(&held, "run", "FEAT");
    check_unresolved(&held);
    held_end(&held);
    assert_non_null(strstr(prompt_of("B", 2), "- shared.txt\n"));
    /* Why the first merge turn was not enough. */
    assert_non_null(strstr(prompt_of("B", 3), "conflict markers"));
    assert_non_null(strstr(prompt_of("B", 3), "- shared.txt\n"));

    /* A Player that can resolve it continues where the last one stopped. */
    conflict_player(RESOLVE);
    FEATURE_START(&held, "resume", "FEAT");
    assert_string_equal(of_row(field_end_of(&held, 0), "B", "/state"), "completed");
    assert_int_equal(field_count(&held, "phase_started", "A"), 0);
    assert_int_equal(stage_number_at(field_event(&held, "task_turn_started", "B", 0), "/turn"), 4);
    assert_string_equal(field_git_output("show belay/FEAT/_result:shared.txt"),
                        "before\nA and B\nafter");
    held_end(&held);
}

static void F41_merge_turns_that_time_out_count(void **state)
{
    struct held held = {0};
    (void)state;
    plan_conflict("sleep 60", "merge_timeout: 300ms,");
    FEATURE_START(&held, "run", "FEAT");
    check_unresolved(&held);
    assert_string_equal(stage_text_at(field_event(&held, "task_turn_ended", "B", 1), "/decision"),
                        "timeout");
    assert_string_equal(stage_text_at(field_event(&held, "task_turn_ended", "B", 2), "/decision"),
                        "timeout");
    held_end(&held);
}

/* `belay cancel` finds a task in the list of running work, also during its merge turn. */
static void F41_merge_turn_is_cancelled_by_its_task_id(void **state)
{
    struct held held = {0};
    struct run run;
    (void)state;
    plan_conflict("sleep 60", "");
    FEATURE_START(&held, "run", "FEAT");
    field_await_phase(&held, "phase_started", "B", "player", 1);
    RUN(&run, "ps", "--json");
    assert_non_null(strstr(run.out, "\"FEAT/B\""));
    RUN(&run, "cancel", "FEAT/B", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    assert_string_equal(stage_text_at(answer, "/receipt/scope"), "FEAT/B merge");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "user");
    const struct bl_json *row = field_row(field_end_of(&held, 1), "B");
    assert_string_equal(stage_text_at(row, "/decision"), "cancelled");
    held_end(&held);
}

/* ---- F42 ------------------------------------------------------------------------------------- */

#define TAIL "the roof leaks"

/* Three tasks and a gate; B runs `fix` in its merge turns. */
static void plan_gate(const char *gate, const char *fix, const char *more)
{
    const char *player =
        field_player("player", stage_printf("%s\nif [ $BELAY_TURN -gt 1 ]; then\n%s\nexit 0\nfi",
                                            keep_prompt(), fix));
    field_write("gate.sh", gate);
    field_task("A", "");
    field_task("B", "");
    field_task("C", "");
    field_plan(stage_printf("tasks:\n"
                            "  - {id: A, file_path: tasks/A.md}\n"
                            "  - {id: B, file_path: tasks/B.md}\n"
                            "  - {id: C, file_path: tasks/C.md}\n"
                            "smoke_gates: {after_wave: all, command: sh gate.sh%s}\n"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n",
                            more, player, field_coach("coach", "")));
    field_commit();
}

/* Returns a gate that fails with A and B together, unless B is fixed. */
static const char *roof_gate(void)
{
    return "[ -e A.txt ] && [ -e B.txt ] && ! grep -q fixed B.txt || exit 0\n"
           "for i in 1 2 3 4 5; do echo \"house $i\"; done\n"
           "echo '" TAIL "' >&2\nexit 1\n";
}

/* Checks that every commit that the result branch ever pointed to passes the gate. */
static void check_never_red(size_t count)
{
    const char *tips = field_git_output("log -g --format=%H belay/FEAT/_result");
    size_t seen = 0;
    for (struct bl_text rest = bl_text_from(tips), tip; bl_text_split(&rest, '\n', &tip); seen++) {
        const char *copy = stage_path(stage_printf("tip-%zu", seen));
        output_of(stage_printf("git worktree add -q --detach %s %s && cd %s && sh gate.sh", copy,
                               stage_keep(tip), copy));
    }
    assert_int_equal(seen, count);
}

static void F42_task_that_breaks_the_gate_fails_alone(void **state)
{
    struct held held = {0};
    (void)state;
    plan_gate(roof_gate(), "echo \"not $BELAY_TURN\" >> B.txt", "");
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 1);
    const struct bl_json *row = field_row(envelope, "B");
    assert_string_equal(stage_text_at(row, "/state"), "failed");
    assert_string_equal(stage_text_at(row, "/decision"), "gate_failed");
    assert_false(stage_true_at(row, "/merged"));
    assert_string_equal(of_row(envelope, "A", "/state"), "completed");
    assert_string_equal(of_row(envelope, "C", "/state"), "completed");
    assert_string_equal(stage_text_at(envelope, "/waves/0/gate"), "passed");

    assert_int_equal(field_count(&held, "task_turn_started", "A"), 1);
    assert_int_equal(field_count(&held, "task_turn_started", "B"), 3);
    assert_int_equal(field_count(&held, "task_turn_started", "C"), 1);
    assert_null(strstr(prompt_of("B", 1), TAIL));
    assert_non_null(strstr(prompt_of("B", 2), TAIL));
    assert_non_null(strstr(prompt_of("B", 3), TAIL));
    /* All events that blame a task blame B. */
    assert_int_equal(field_count(&held, "gate_ended", "B"), 3);
    assert_int_equal(field_count(&held, "gate_ended", "A"), 0);
    assert_int_equal(field_count(&held, "gate_ended", "C"), 0);
    assert_string_equal(field_git_output("ls-tree --name-only belay/FEAT/_result -- A.txt B.txt "
                                         "C.txt | tr '\\n' ' '"),
                        "A.txt C.txt ");
    field_git("rev-parse -q --verify belay/FEAT/B >/dev/null");
    check_never_red(1);
    held_end(&held);
}

static void F42_merge_turn_can_fix_the_gate(void **state)
{
    struct held held = {0};
    (void)state;
    plan_gate(roof_gate(), "echo fixed > B.txt", "");
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 0);
    for (char id[] = "A"; id[0] <= 'C'; id[0]++)
        assert_string_equal(of_row(envelope, id, "/state"), "completed");
    assert_int_equal(field_count(&held, "task_turn_started", "B"), 2);
    assert_string_equal(field_git_output("show belay/FEAT/_result:B.txt"), "fixed");
    assert_string_equal(field_git_output("log --first-parent --reverse --format=%s "
                                         "main..belay/FEAT/_result"),
                        "belay: merge FEAT/A\nbelay: merge FEAT/B\nbelay: merge FEAT/C");
    check_never_red(1);
    held_end(&held);
}

static void F42_absent_gate_leaves_the_wave_unverified(void **state)
{
    (void)state;
    plan_gate("exit 5\n", "", "");
    const struct run *run = FEATURE_RUN(0, "run", "FEAT");
    assert_non_null(strstr(run->out, "unverified"));
    assert_non_null(strstr(stage_last_line(run->out), "git merge belay/FEAT/_result"));
    const struct bl_json *status = field_status("FEAT");
    assert_true(stage_true_at(status, "/unverified"));
    assert_string_equal(stage_text_at(status, "/waves/0/gate"), "absent");
    assert_string_equal(stage_text_at(status, "/waves/0/state"), "unverified");
    assert_int_equal(stage_number_at(status, "/counts/completed"), 3);
    assert_non_null(strstr(FEATURE_RUN(0, "status", "FEAT")->out, "unverified"));
    assert_non_null(strstr(FEATURE_RUN(0, "report", "FEAT")->out, "unverified"));
    /* The result of a run without remaining work reports it too. */
    run = FEATURE_RUN(0, "run", "FEAT", "--output-format", "json");
    runner_check_schema("feature", run->out);
    const struct bl_json *again = stage_json(run->out);
    assert_string_equal(stage_text_at(again, "/waves/0/state"), "unverified");
    assert_true(stage_true_at(again, "/unverified"));
    assert_string_equal(field_git_output("ls-tree --name-only belay/FEAT/_result -- A.txt B.txt "
                                         "C.txt | tr '\\n' ' '"),
                        "A.txt B.txt C.txt ");
}

static void F42_gate_that_failed_before_the_wave_blames_no_task(void **state)
{
    struct held held = {0};
    (void)state;
    plan_gate("echo '" TAIL "'; exit 5\n", "", ", exit5_is_hard_fail: true");
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(stage_text_at(envelope, "/state"), "failed");
    assert_non_null(strstr(stage_text_at(envelope, "/error/message"), "failed before this wave"));
    for (char id[] = "A"; id[0] <= 'C'; id[0]++) {
        assert_string_equal(of_row(envelope, id, "/state"), "approved");
        assert_int_equal(field_count(&held, "task_turn_started", id), 1);
        assert_int_equal(field_count(&held, "gate_ended", id), 0);
    }
    assert_true(stage_null_at(envelope, "/result_commit"));
    assert_string_equal(field_git_output("for-each-ref refs/heads/belay/FEAT/_result"), "");
    held_end(&held);
}

SUITE(merge, FIELD(F40_result_has_both_tasks_and_the_checkout_is_unchanged),
      FIELD(F41_conflict_gets_a_merge_turn), FIELD(F41_unresolved_conflict_stays_on_its_branch),
      FIELD(F41_merge_turns_that_time_out_count), FIELD(F41_merge_turn_is_cancelled_by_its_task_id),
      FIELD(F42_task_that_breaks_the_gate_fails_alone), FIELD(F42_merge_turn_can_fix_the_gate),
      FIELD(F42_absent_gate_leaves_the_wave_unverified),
      FIELD(F42_gate_that_failed_before_the_wave_blames_no_task));
