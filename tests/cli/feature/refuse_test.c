/* Errors at the start and around a run: refused, or tolerated and reported. */
#include "scenes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Refused at the start -------------------------------------------------------------------- */

/* Returns a summary of everything that a refusal must not change. */
static const char *look_around(void)
{
    return scene_shell("git for-each-ref 2>&1; git worktree list --porcelain 2>&1; "
                       "git status --porcelain 2>&1; find . -path ./.git/objects -prune -o -print "
                       "| sort; true");
}

/* Expects that `run NAME` is refused with exit code 1, kind feature and these words, and that
 * nothing is started or changed. */
static void expect_refused(const char *name, const char *const *environment, const char *message,
                           const char *hint)
{
    static struct run run;
    const char *before = look_around();
    runner_run_with(&run, (const char *const[]){"feature", "run", name, "--json", NULL},
                    environment, RUN_KEEP);
    const struct bl_json *envelope = stage_answer(&run, "feature", 1);
    assert_string_equal(stage_text_at(envelope, "/error/kind"), "feature");
    scene_expect(stage_text_at(envelope, "/error/message"), message);
    scene_expect(stage_text_at(envelope, "/error/hint"), hint);
    runner_run_with(&run, (const char *const[]){"feature", "run", name, NULL}, environment,
                    RUN_KEEP);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "");
    scene_expect(run.err, message);
    scene_expect(run.err, hint);
    assert_string_equal(look_around(), before);
    RUN(&run, "feature", "list", "--all", "--json");
    assert_int_equal(stage_size_at(stage_json(run.out), "/features"), 0);
}

static void plan_pair(void)
{
    field_pair(field_player("player", ""), field_coach("coach", ""), "", "");
}

static void missing_or_old_git_is_refused(void **state)
{
    const char *path = stage_printf("PATH=%s", stage_path("bin"));
    const char *const environment[] = {path, NULL};
    (void)state;
    plan_pair();
    scene_shell("mkdir ../bin && ln -s \"$(command -v sh)\" ../bin/sh");
    expect_refused("FEAT", environment, "git", "install");
    scene_shell("printf '#!/bin/sh\\necho git version 2.37.9\\n' > ../bin/git && "
                "chmod +x ../bin/git");
    expect_refused("FEAT", environment, "2.37.9", "2.38");
}

static void missing_bare_or_empty_repository_is_refused(void **state)
{
    (void)state;
    plan_pair();
    scene_shell("mkdir ../plain ../empty && cp -r .belay tasks ../plain && "
                "cp -r .belay tasks ../empty && git init -q ../empty && "
                "git clone -q --bare . ../bare.git && cp -r .belay tasks ../bare.git");
    assert_int_equal(chdir(stage_path("plain")), 0);
    expect_refused("FEAT", NULL, "repository", "git init");
    expect_refused(".belay/features/FEAT.yaml", NULL, "repository", "git init");
    assert_int_equal(chdir(stage_path("empty")), 0);
    expect_refused("FEAT", NULL, "no commit", "commit");
    assert_int_equal(chdir(stage_path("bare.git")), 0);
    expect_refused("FEAT", NULL, "repository", "");
    assert_int_equal(chdir(stage_path("work")), 0);
    field_git("config core.bare true");
    expect_refused("FEAT", NULL, "bare", "");
}

static void branches_in_belays_place_are_refused(void **state)
{
    (void)state;
    plan_pair();
    field_git("branch belay");
    expect_refused("FEAT", NULL, "'belay'", "rename");
    field_git("branch -m belay belay/FEAT");
    expect_refused("FEAT", NULL, "'belay/FEAT'", "rename");
    field_git("branch -m belay/FEAT belay/FEAT/A");
    expect_refused("FEAT", NULL, "belay/FEAT/A", "--fresh");
    field_git("branch -m belay/FEAT/A belay/FEAT/_result");
    expect_refused("FEAT", NULL, "belay/FEAT/_result", "--fresh");
    field_git("branch -m belay/FEAT/_result belay/OTHER/A");
    FEATURE_RUN(0, "run", "FEAT");
}

static void worktree_in_belays_place_is_refused_and_moved_aside_by_fresh(void **state)
{
    struct held held = {0};
    (void)state;
    plan_pair();
    /* A user's folder, and a worktree of another branch. */
    field_write(".belay/worktrees/FEAT/A/mine.txt", "mine\n");
    expect_refused("FEAT", NULL, "worktrees/FEAT/A", "--fresh");
    scene_shell("rm -r .belay/worktrees");
    field_git("worktree add -q -b mine .belay/worktrees/FEAT/B");
    field_write(".belay/worktrees/FEAT/B/new.txt", "not committed\n");
    expect_refused("FEAT", NULL, "worktrees/FEAT/B", "--fresh");
    field_write(".belay/worktrees/FEAT/A/mine.txt", "mine\n");
    FEATURE_START(&held, "run", "FEAT", "--fresh");
    field_end_of(&held, 0);
    scene_shell("test \"$(cat .belay/worktrees/FEAT/A.*/mine.txt)\" = mine");
    scene_shell("test \"$(cat .belay/worktrees/FEAT/B.*/new.txt)\" = 'not committed'");
    field_git("rev-parse -q --verify mine >/dev/null");
    held_end(&held);
}

static void expect_choice_refused(const char *verb, const char *option, const char *value,
                                  int exit_code, const char *message, const char *hint)
{
    static struct run run;
    const char *name = strcmp(verb, "retry") == 0 ? stage_printf("FEAT/%s", value) : "FEAT";
    runner_run_with(&run,
                    (const char *const[]){"feature", verb, name, "--json", option, value, NULL},
                    NULL, RUN_KEEP);
    const struct bl_json *envelope = stage_answer(&run, "feature", exit_code);
    assert_string_equal(stage_text_at(envelope, "/error/message"), message);
    if (hint != NULL)
        assert_string_equal(stage_text_at(envelope, "/error/hint"), hint);
}

static void invalid_task_selection_is_refused(void **state)
{
    (void)state;
    plan_pair();
    field_task("C", "");
    field_plan(stage_printf("tasks:\n"
                            "  - {id: A, file_path: tasks/A.md}\n"
                            "  - {id: C, file_path: tasks/C.md, dependencies: [A]}\n"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n"
                            "  limits: {min_turn_budget: 0s}\n",
                            field_player("player", ""), field_coach("coach", "")));
    field_commit();
    expect_choice_refused("run", "--task", "C", 2, "C depends on A, which is not completed",
                          "add --task A");
    expect_choice_refused("run", "--task", "X", 2, "FEAT has no task 'X'", NULL);
    expect_choice_refused("run", "--base", "nowhere", 1, "no commit 'nowhere'",
                          "name a branch, a tag or a commit of this repository");
    assert_false(stage_exists(".belay/worktrees"));
    FEATURE_RUN(0, "run", "FEAT", "--task", "A");
    expect_choice_refused("retry", NULL, "A", 1, "A is already merged",
                          "its work is on belay/FEAT/_result");
    FEATURE_RUN(0, "resume", "FEAT", "--task", "C");
}

/* ---- Tolerated and reported ------------------------------------------------------------------ */

static void refused_run_shows_the_warnings_of_its_plan(void **state)
{
    static struct run run;
    (void)state;
    plan_pair();
    scene_shell("cp .belay/features/FEAT.yaml .belay/features/OTHER.yaml");
    field_write("README.md", "changed\n");
    RUN(&run, "feature", "validate", ".belay/features/OTHER.yaml", "--json");
    const struct bl_json *envelope = stage_answer(&run, "feature-validate", 0);
    const char *message = stage_text_at(envelope, "/warnings/0/message");
    scene_expect(message, "the file is named OTHER");
    RUN(&run, "feature", "run", ".belay/features/OTHER.yaml", "--require-clean", "--json");
    envelope = stage_answer(&run, "feature", 1);
    assert_int_equal(stage_size_at(envelope, "/plan_errors"), 0);
    assert_string_equal(stage_text_at(envelope, "/warnings/0/message"), message);
}

static void dirty_checkout_is_a_warning_and_with_require_clean_an_error(void **state)
{
    struct held held = {0};
    static struct run run;
    (void)state;
    plan_pair();
    field_write("README.md", "changed\n");
    field_write("new.txt", "new\n");
    RUN(&run, "feature", "run", "FEAT", "--require-clean", "--json");
    const struct bl_json *envelope = stage_answer(&run, "feature", 1);
    assert_string_equal(stage_text_at(envelope, "/error/kind"), "feature");
    scene_expect(stage_text_at(envelope, "/error/message"), "2 uncommitted files");
    scene_expect(stage_text_at(envelope, "/error/hint"), "--require-clean");
    assert_false(stage_exists(".belay/worktrees"));
    envelope = scene_run(&held, "run", 0);
    scene_expect(stage_text_at(field_event(&held, "warning", NULL, 0), "/message"),
                 "2 uncommitted files of the checkout are not in the base");
    assert_int_equal(stage_size_at(envelope, "/warnings"), 1);
    assert_string_equal(scene_shell("cat README.md new.txt"), "changed\nnew\n");
    assert_string_equal(field_git_output("show belay/FEAT/_result:README.md"), "hello");
    held_end(&held);
}

static void missing_worktree_is_restored(void **state)
{
    struct held held = {0}, again = {0};
    (void)state;
    const char *mark = stage_path("seats/ready");
    /* Turn 1 is committed; turn 2 is cut off with an uncommitted file. */
    scene_one(
        field_player("player", stage_printf("[ $BELAY_TURN = 1 ] && echo kept > kept.txt\n"
                                            "[ $BELAY_TURN = 2 ] && { echo x > lost.txt; touch %s; "
                                            "sleep 60; }\n",
                                            mark)),
        scene_coach("coach", "cat >/dev/null\n"
                             "[ $BELAY_TURN = 1 ] || { verdict approve verified '[]'; exit 0; }\n"
                             "verdict feedback rejected "
                             "'[{\"severity\":\"minor\",\"description\":\"more\"}]'\n"),
        "", "");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(mark);
    FEATURE_RUN(0, "cancel", "FEAT/A");
    field_end_of(&held, 1);
    scene_shell("rm -rf .belay/worktrees/FEAT/A");
    scene_row(scene_run(&again, "resume", 0), "A", "completed", "approved");
    const char *warning = stage_text_at(field_event(&again, "warning", "A", 0), "/message");
    scene_expect(warning, "missing");
    scene_expect(warning, "lost");
    const char *files = field_git_output("ls-tree -r --name-only belay/FEAT/_result");
    scene_expect(files, "kept.txt");
    scene_expect_none(files, "lost.txt");
    held_end(&held);
    held_end(&again);
}

static void unavailable_submodules_leave_verification_absent(void **state)
{
    struct held held = {0};
    (void)state;
    /* A commit that does not exist on this machine. */
    field_write(".gitmodules", "[submodule \"far\"]\n\tpath = far\n"
                               "\turl = https://far.invalid/far.git\n");
    scene_shell("mkdir far");
    field_git("update-index --add --cacheinfo "
              "160000,1234567890123456789012345678901234567890,far");
    scene_one(scene_player(""), field_coach("coach", ""), "turns: 1,",
              "  verify: {commands: ['true']}\n");
    field_git("ls-tree HEAD far | grep -q 160000");
    const struct bl_json *envelope = scene_run(&held, "run", 1);
    scene_row(envelope, "A", "failed", "max_turns_reached");
    const struct bl_json *event = field_event(&held, "verify_ended", "A", 0);
    assert_string_equal(stage_text_at(event, "/value"), "absent");
    scene_expect(stage_text_at(event, "/why"), "submodule");
    held_end(&held);
}

/* ---- Players that break the rules ------------------------------------------------------------ */

/* In turn 2 each breaks a rule, and in turn 3 it follows the way back in its feedback. */
static const struct {
    const char *task;
    const char *wrong;
    const char *way_back; /* $P is the prompt */
    const char *issue;
} wrong_players[] = {
    {"LEFT", "git checkout -q -b elsewhere; echo x > x.txt", "git checkout -q belay/FEAT/LEFT",
     "on the branch elsewhere"},
    {"REWROTE", "git commit -q --amend -m rewritten",
     "$(sed -n \"s/.*'\\(git reset --soft [0-9a-f]*\\)'.*/\\1/p\" $P)", "were rewritten"},
    {"LARGE", "truncate -s 600M big.bin", "rm big.bin", "big.bin (614400 KiB)"},
    {"MANY", "mkdir many; cd many; seq 50001 | xargs touch; cd ..", "rm -r many", "50002 files"},
};

static size_t write_wrong_players(const char *ids[])
{
    /* Fifty thousand files take time. */
    size_t count = suite_rounds(3, BL_COUNT(wrong_players));
    for (size_t i = 0; i < count; i++) {
        ids[i] = wrong_players[i].task;
        const char *prompt = stage_path(stage_printf("seats/%s-$BELAY_TURN.prompt", ids[i]));
        const char *player = field_player(
            ids[i], stage_printf("P=%s\ncp \"$BELAY_RESULT.prompt\" $P\n"
                                 "case $BELAY_TURN in 2) %s;; 3) %s;; esac",
                                 prompt, wrong_players[i].wrong, wrong_players[i].way_back));
        field_task(ids[i], stage_printf("belay:\n  player: {command: %s}\n"
                                        "  coach: {command: [sh, %s]}\n",
                                        player, stage_path("seats/judge.sh")));
    }
    return count;
}

static void forbidden_changes_are_neither_committed_nor_judged(void **state)
{
    const char *ids[BL_COUNT(wrong_players) + 1] = {0};
    struct held held = {0};
    (void)state;
    scene_coach("judge", "cat >/dev/null\n"
                         "[ $BELAY_TURN = 1 ] || { verdict approve verified '[]'; exit 0; }\n"
                         "verdict feedback rejected "
                         "'[{\"severity\":\"minor\",\"description\":\"more\"}]'\n");
    size_t count = write_wrong_players(ids);
    scene_many(ids, field_player("player", ""), "");
    const struct bl_json *envelope = scene_run(&held, "run", 0);
    for (size_t i = 0; i < count; i++) {
        scene_row(envelope, ids[i], "completed", "approved");
        scene_turn(&held, ids[i], 1, "feedback");
        scene_turn(&held, ids[i], 2, "feedback");
        scene_turn(&held, ids[i], 3, "approve");
        assert_int_equal(stage_number_at(field_row(envelope, ids[i]), "/turns_counted"), 3);
        /* Two commits, two Coaches: none in turn 2. */
        assert_int_equal(field_count(&held, "commit_made", ids[i]), 2);
        assert_int_equal(stage_number_at(field_event(&held, "commit_made", ids[i], 1), "/turn"), 3);
        assert_int_equal(field_count_phase(&held, "phase_started", ids[i], "coach"), 2);
        const char *prompt = scene_file(stage_printf("seats/%s-3.prompt", ids[i]));
        const char *issue = strstr(prompt, "\n1. critical (claims): ");
        assert_non_null(issue);
        scene_expect(issue, wrong_players[i].issue);
    }
    held_end(&held);
}

static void malformed_result_is_ignored_with_a_minor_issue(void **state)
{
    struct held held = {0};
    (void)state;
    const char *prompts = stage_path("seats");
    scene_one(
        field_seat("player", stage_printf("cat > %s/$BELAY_TURN.prompt\n"
                                          "echo $BELAY_TURN > A.txt\n"
                                          "echo '{\"files\": \"A.txt\"' > \"$BELAY_RESULT\"\n",
                                          prompts)),
        scene_coach("coach", stage_printf("cat > %s/coach-$BELAY_TURN.prompt\n"
                                          "[ $BELAY_TURN = 1 ] || { verdict approve verified '[]'; "
                                          "exit 0; }\nverdict feedback rejected "
                                          "'[{\"severity\":\"note\",\"description\":\"more\"}]'\n",
                                          prompts)),
        "", "");
    scene_row(scene_run(&held, "run", 0), "A", "completed", "approved");
    scene_expect(scene_file("seats/2.prompt"), "\n1. minor (claims): ");
    scene_expect(scene_file("seats/coach-1.prompt"), "- minor: ");
    scene_expect(scene_file("seats/coach-1.prompt"), "without a readable result");
    held_end(&held);
}

static void seat_that_cannot_start_is_an_error_at_once(void **state)
{
    struct held held = {0};
    (void)state;
    /* It exists and is executable: only starting it shows the error. */
    const char *broken = stage_path("seats/broken");
    scene_shell(
        stage_printf("printf '#!/no/such/interpreter\\n' > %s && chmod +x %s", broken, broken));
    field_task("PLAYER", stage_printf("belay:\n  player: {command: [%s]}\n", broken));
    field_task("COACH", scene_own_coach(stage_printf("[%s]", broken)));
    field_task("FINE", scene_own_coach(field_coach("coach", "")));
    scene_many((const char *const[]){"PLAYER", "COACH", "FINE", NULL}, field_player("player", ""),
               "");
    const struct bl_json *envelope = scene_run(&held, "run", 1);
    scene_row(envelope, "PLAYER", "failed", "error");
    scene_row(envelope, "COACH", "failed", "error");
    scene_row(envelope, "FINE", "completed", "approved");
    assert_int_equal(field_count(&held, "phase_started", "PLAYER"), 1);
    assert_int_equal(field_count_phase(&held, "phase_started", "COACH", "coach"), 1);
    assert_int_equal(field_count(&held, "verdict", "COACH"), 0);
    scene_expect(stage_text_at(field_row(envelope, "COACH"), "/message"), broken);
    held_end(&held);
}

/* ---- Full disks ------------------------------------------------------------------------------ */

/* Returns whether a small disk can be mounted for this process alone. */
static bool can_mount(void)
{
    return system("unshare -rm sh -c 'mount -t tmpfs -o size=64k none /mnt' 2>/dev/null") == 0;
}

/* Runs shell lines where mounting is allowed; $B is the program. Returns their output. */
static const char *in_own_mounts(const char *lines)
{
    const char *script = stage_path("seats/mounted.sh");
    FILE *file = fopen(script, "we");
    assert_non_null(file);
    fprintf(file, "B=%s\n%s\n", runner_program(), lines);
    assert_int_equal(fclose(file), 0);
    return scene_shell(stage_printf("unshare -rm sh -e %s", script));
}

static void full_store_disk_stops_everything_and_keeps_old_records(void **state)
{
    (void)state;
    if (!can_mount())
        suite_skip("needs the right to mount");
    const char *disk = stage_path("disk");
    /* The Player of A fills the disk, and waits with that of B for the result. */
    field_pair(
        field_player("player", stage_printf("if [ ! -f %s/free ]; then\n[ $BELAY_TASK = B ] || "
                                            "dd if=/dev/zero of=%s/fill bs=4k 2>/dev/null\n"
                                            "sleep 60\nfi",
                                            stage_path("seats"), disk)),
        field_coach("coach", ""), "", "");
    const char *out = in_own_mounts(stage_printf(
        "cd %s; mkdir disk; mount -t tmpfs -o size=4m none disk; export "
        "BELAY_STORE=$PWD/disk/s.db\n"
        "cd work; code=0; $B feature run FEAT > ../out 2> ../err || code=$?; echo exit $code\n"
        "rm ../disk/fill; $B feature status FEAT --json > ../status\n"
        "code=0; $B feature run FEAT --json > ../json || code=$?; echo exit $code\n"
        "rm ../disk/fill; touch ../seats/free; $B feature run FEAT --json > ../again\n",
        stage_path("")));
    assert_string_equal(out, "exit 1\nexit 1\n");
    scene_expect(scene_file("err"), "not saved: the state of A (cancelled), B (cancelled)");
    scene_expect(scene_file("err"), "no space left");
    /* Earlier records remain: started, not ended. */
    const struct bl_json *status = stage_json(scene_file("status"));
    scene_row(status, "A", "interrupted", "interrupted");
    assert_string_equal(stage_text_at(stage_json(scene_file("json")), "/error/kind"), "filesystem");
    const struct bl_json *again = stage_json(scene_file("again"));
    scene_row(again, "A", "completed", "approved");
    scene_row(again, "B", "completed", "approved");
}

/* Fills the disk of its worktree's index; its own files are complete. */
#define FULL_INDEX                                                                                 \
    "[ $BELAY_TASK = A ] || return 0\n"                                                            \
    "index=$(git rev-parse --git-dir)\n"                                                           \
    "cp -a $index ../index.copy && mount -t tmpfs -o size=64k none $index\n"                       \
    "cp -a ../index.copy/. $index && dd if=/dev/zero of=$index/fill bs=1k 2>/dev/null\n"

static void full_worktree_disk_fails_only_that_task(void **state)
{
    (void)state;
    if (!can_mount())
        suite_skip("needs the right to mount");
    field_pair(field_player("player", "fill() {\n" FULL_INDEX "}\nfill"), field_coach("coach", ""),
               "", "");
    const char *out = in_own_mounts("code=0; $B feature run FEAT --json > ../json || code=$?\n"
                                    "echo exit $code\n");
    assert_string_equal(out, "exit 1\n");
    const struct bl_json *envelope = stage_json(scene_file("json"));
    scene_row(envelope, "A", "failed", "error");
    scene_expect(stage_text_at(field_row(envelope, "A"), "/message"), "diskspace");
    scene_row(envelope, "B", "completed", "approved");
}

/* ---- Plans ----------------------------------------------------------------------------------- */

#define TWELVE_FAULTS                                                                              \
    "id: FEAT\n"                                                                                   \
    "name: Faults\n"                                                                               \
    "tasks:\n"                                                                                     \
    "- {id: TASK-A, file_path: tasks/TASK-A.md, dependencies: [TASK-B]}\n"                         \
    "- {id: TASK-B, file_path: tasks/TASK-B.md, status: done}\n"                                   \
    "- {id: TASK-C, file_path: tasks/TASK-C.md, dependencies: [TASK-X]}\n"                         \
    "- {id: TASK-D, file_path: tasks/TASK-D.md, complexity: 11}\n"                                 \
    "- {id: TASK-E, file_path: tasks/none.md}\n"                                                   \
    "orchestration:\n"                                                                             \
    "  parallel_groups:\n"                                                                         \
    "  - [TASK-A, TASK-D]\n"                                                                       \
    "  - [TASK-C, TASK-F]\n"                                                                       \
    "  - [TASK-B]\n"                                                                               \
    "smoke_gates: {after_wave: 9, command: make}\n"                                                \
    "belay:\n"                                                                                     \
    "  player: {acp: some}\n"                                                                      \
    "  coach: {command: ['true']}\n"                                                               \
    "  limitz: {}\n"                                                                               \
    "  verify: {commands: ['']}\n"

/* Checks that each is `FILE:LINE: CODE message`, with at most three suggestions. */
static void check_plan_errors(const struct bl_json *envelope, const char *err)
{
    assert_int_equal(stage_size_at(envelope, "/plan_errors"), 12);
    assert_int_equal(stage_lines_with(err, " you mean "), 3);
    BL_JSON_EACH (problem, bl_json_get(envelope, BL_TEXT("plan_errors"))) {
        const char *message = stage_text_at(problem, "/message");
        const char *line = stage_printf("%s:%lld: %s %s\n", stage_text_at(problem, "/file"),
                                        (long long)stage_number_at(problem, "/line"),
                                        stage_text_at(problem, "/code"), message);
        scene_expect(err, line);
        assert_true(stage_number_at(problem, "/line") > 0);
        const char *names = strstr(message, " you mean ");
        size_t quotes = 0;
        for (; names != NULL && *names != '\0'; names++)
            quotes += *names == '\'';
        assert_in_range(quotes, 0, 6);
    }
}

static void F38_twelve_errors_are_reported_at_once_and_nothing_starts(void **state)
{
    static struct run run;
    (void)state;
    field_task("TASK-A", "");
    field_task("TASK-B", "");
    field_task("TASK-C", "belay:\n  limits: {turns: 0}\n");
    field_task("TASK-D", "");
    field_write(".belay/features/FEAT.yaml", TWELVE_FAULTS);
    field_commit();
    const char *before = look_around();
    static const char *const verbs[] = {"validate", "run"};
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        const char *err = stage_keep(bl_text_from(FEATURE_RUN(2, verbs[i], "FEAT")->err));
        scene_expect(err, "FEAT.yaml:4: E06 TASK-A (wave 1) depends on TASK-B (wave 3): move "
                          "TASK-A to wave 4 or later\n");
        RUN(&run, "feature", verbs[i], "FEAT", "--json");
        check_plan_errors(stage_answer(&run, i == 0 ? "feature-validate" : "feature", 2), err);
    }
    assert_string_equal(look_around(), before);
    assert_int_equal(scene_files(stage_path("data/belay/*")), 0);
}

static void malformed_plan_is_reported_with_its_place(void **state)
{
    static const char *const plans[][2] = {
        {"id: FEAT\nname: [one\ntasks: {\n", "FEAT.yaml:3: E01 "},
        {"id: FEAT\nname: One\nname: Two\n", "FEAT.yaml:3: E01 "},
        {"id: FEAT\nname: \xff\xfe\n", "FEAT.yaml:2: E01 "},
        {"- a\n- list\n", "FEAT.yaml:1: E01 "},
        {"id: FEAT\nname: One\ntasks: [{id: A, file_path: tasks/A.md}]\n", "tasks/A.md:1: E01 "},
    };
    (void)state;
    field_write("tasks/A.md", "No front matter.\n");
    for (size_t i = 0; i < BL_COUNT(plans); i++) {
        field_write(".belay/features/FEAT.yaml", plans[i][0]);
        scene_expect(FEATURE_RUN(2, "run", "FEAT")->err, plans[i][1]);
    }
    /* An unknown feature is reported by name. */
    const struct run *run = FEATURE_RUN(2, "run", "FEET");
    scene_expect(run->err, "E01");
    scene_expect(run->err, "Did you mean 'FEAT'?");
    assert_int_equal(scene_files(stage_path("data/belay/*")), 0);
}

/* Checks that each plan is reported for its missing task files. */
static void validate_one(const char *name)
{
    static struct run run;
    RUN(&run, "feature", "validate", stage_printf(".guardkit/features/%s", name), "--json");
    const struct bl_json *envelope = stage_json(run.out);
    assert_int_equal(stage_number_at(envelope, "/exit_code"), run.exit_code);
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err, "");
    const char *files = scene_shell(stage_printf(
        "sed -n 's/^ *\\(- \\)\\?file_path: *//p' .guardkit/features/%s | tr -d \"'\"", name));
    struct bl_text rest = bl_text_from(files), file;
    size_t count = 0;
    while (bl_text_split(&rest, '\n', &file))
        if (bl_text_ends_with(file, BL_TEXT(".md"))) {
            scene_expect(run.out, stage_printf("no such file: %s\"", stage_keep(file)));
            count++;
        }
    assert_true(count > 0);
}

static void validate_reports_on_all_plans_of_the_suite(void **state)
{
    const char *shared = suite_shared("suites/features");
    size_t count = 0;
    (void)state;
    scene_shell(stage_printf("mkdir -p .guardkit/features && cp %s/*.yaml .guardkit/features && "
                             "chmod u+w .guardkit/features/*",
                             shared));
    DIR *folder = opendir(".guardkit/features");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') {
            validate_one(entry->d_name);
            count++;
        }
    closedir(folder);
    assert_true(count >= 20);
}

SUITE(refuse, FIELD(missing_or_old_git_is_refused),
      FIELD(missing_bare_or_empty_repository_is_refused),
      FIELD(branches_in_belays_place_are_refused), FIELD(invalid_task_selection_is_refused),
      FIELD(worktree_in_belays_place_is_refused_and_moved_aside_by_fresh),
      FIELD(refused_run_shows_the_warnings_of_its_plan),
      FIELD(dirty_checkout_is_a_warning_and_with_require_clean_an_error),
      FIELD(missing_worktree_is_restored), FIELD(unavailable_submodules_leave_verification_absent),
      FIELD(forbidden_changes_are_neither_committed_nor_judged),
      FIELD(malformed_result_is_ignored_with_a_minor_issue),
      FIELD(seat_that_cannot_start_is_an_error_at_once),
      FIELD(full_store_disk_stops_everything_and_keeps_old_records),
      FIELD(full_worktree_disk_fails_only_that_task),
      FIELD(F38_twelve_errors_are_reported_at_once_and_nothing_starts),
      FIELD(malformed_plan_is_reported_with_its_place),
      FIELD(validate_reports_on_all_plans_of_the_suite));
