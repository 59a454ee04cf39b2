/* What a run leaves behind, and how it is shown. */
#include "scenes.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../feature/page.h"

#define TREE ".belay/worktrees/FEAT/A"

/* ---- After a stop ---------------------------------------------------------------------------- */

/* Returns a summary of a worktree with contents and times: files, index, HEAD, branch. */
static const char *snapshot(void)
{
    return scene_shell("set -e; cd " TREE "; find . -printf '%p %y %s %m %T@ %l\\n' | sort; "
                       "find . -type f -print0 | sort -z | xargs -0 sha256sum; "
                       "G=$(git rev-parse --git-dir); sha256sum $G/index $G/HEAD; "
                       "stat -c '%n %s %Y' $G/index $G/HEAD; git rev-parse HEAD refs/heads/main");
}

static void expect_no_locks(void)
{
    assert_string_equal(scene_shell("find .git -name '*.lock' -not -name belay.lock"), "");
}

/* Makes changes of every kind, then waits; `more` runs before that. */
static const char *busy_player(const char *more)
{
    return field_seat("player", stage_printf("cat > /dev/null\n%s\n"
                                             "echo changed >> README.md; rm gone.txt\n"
                                             "echo staged > staged.txt; git add staged.txt\n"
                                             "echo staged too >> staged.txt\n"
                                             "mkdir -p 'a folder'; echo new > 'a folder/new'\n"
                                             "ln -s nowhere link; chmod 755 plain.txt\n"
                                             "touch %s\nwhile :; do sleep 1; done\n",
                                             more, stage_path("seats/ready")));
}

static void cancel_and_compare(const char *player, const char *coach)
{
    struct held held = {0};
    field_write("gone.txt", "gone\n");
    field_write("plain.txt", "plain\n");
    scene_one(player, coach, "", "");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(stage_path("seats/ready"));
    const char *before = snapshot();
    FEATURE_RUN(0, "cancel", "FEAT/A");
    assert_string_equal(snapshot(), before);
    scene_row(field_end_of(&held, 1), "A", "cancelled", "cancelled");
    assert_string_equal(snapshot(), before);
    expect_no_locks();
    held_end(&held);
}

static void F15_cancel_leaves_the_worktree_as_the_player_left_it(void **state)
{
    (void)state;
    cancel_and_compare(busy_player(""), field_coach("coach", ""));
    /* The checkpoint matches. */
    const struct bl_json *checkpoint = bl_json_get(field_status("FEAT/A"), BL_TEXT("checkpoint"));
    assert_true(stage_true_at(checkpoint, "/dirty"));
    assert_int_equal(stage_size_at(checkpoint, "/dirty_files"), 6);
}

static void F15_cancel_with_a_kill_leaves_the_worktree_unchanged(void **state)
{
    (void)state;
    /* It ignores SIGTERM, and so does a child in its own session. */
    const char *player = busy_player("trap '' TERM; setsid sh -c \"trap '' TERM; sleep 60\" &");
    const char *seat = stage_printf("%s, grace: 100ms", player);
    cancel_and_compare(seat, field_coach("coach", ""));
}

static void F15_cancel_during_the_coach_leaves_the_worktree_unchanged(void **state)
{
    (void)state;
    cancel_and_compare(
        field_player("player", "echo changed >> README.md"),
        field_coach("coach", stage_printf("touch %s; sleep 60", stage_path("seats/ready"))));
}

/* A cancel at any moment, also during belay's commit: no lock file, and no partial commit. */
static void F15_cancel_at_any_moment_leaves_no_lock_file(void **state)
{
    (void)state;
    scene_one(field_player("player", "for i in 1 2 3 4 5 6 7 8; do echo $i > $i.txt; done"),
              field_coach("coach", ""), "", "");
    unsigned long rounds = suite_rounds(4, 200);
    for (unsigned long i = 0; i < rounds; i++) {
        struct held held = {0};
        FEATURE_START(&held, "run", "FEAT", "--fresh");
        field_await_phase(&held, "phase_started", "A", "player", 0);
        field_rest((double)((i * 7919) % 97) / 1000);
        FEATURE_RUN(0, "cancel", "FEAT/A");
        held_wait(&held);
        expect_no_locks();
        /* Each file is in the commit, or none is. */
        const char *files = field_git_output("-C " TREE " ls-tree --name-only HEAD");
        if (strstr(files, "A.txt") != NULL)
            assert_string_equal(field_git_output("-C " TREE " status --porcelain"), "");
        else
            scene_expect_none(files, "1.txt");
        held_end(&held);
    }
}

/* ---- Plans by other tools -------------------------------------------------------------------- */

#define GUARDKIT_PLAN                                                                              \
    "id: FEAT-GK\nname: Search\ncreated: '2026-01-24T15:00:00Z'\nstatus: in_progress\n"            \
    "complexity: 5\nestimated_tasks: 2\ntasks:\n"                                                  \
    "- id: TASK-GK-001\n  name: Index\n  file_path: tasks/backlog/TASK-GK-001-index.md\n"          \
    "  complexity: 5\n  dependencies: []\n  status: completed\n"                                   \
    "  implementation_mode: task-work\n  estimated_minutes: 30\n"                                  \
    "  result:\n    total_turns: 2\n    final_decision: approved\n    error: null\n"               \
    "- id: TASK-GK-002\n  name: Query\n  file_path: tasks/backlog/TASK-GK-002-query.md\n"          \
    "  complexity: 3\n  dependencies:\n  - TASK-GK-001\n  status: in_progress\n"                   \
    "  implementation_mode: direct\n  estimated_minutes: 20\n  current_turn: 1\n"                  \
    "orchestration:\n  parallel_groups:\n  - - TASK-GK-001\n  - - TASK-GK-002\n"                   \
    "  estimated_duration_minutes: 50\n  recommended_parallel: 2\n"                                \
    "execution:\n  started_at: '2026-01-25T22:03:02.804358'\n  current_wave: 1\n"                  \
    "  completed_waves:\n  - 1\n"

#define GUARDKIT_TASK                                                                              \
    "---\nid: TASK-GK-00%c\ntitle: Task\nstatus: backlog\ntask_type: feature\n"                    \
    "priority: high\ntags: [a, b]\n---\n# Task\n\n## Acceptance Criteria\n- [x] it works\n"

/* Plays both seats, which it tells apart by their prompts. */
#define GUARDKIT_SCRIPT                                                                            \
    "replies:\n"                                                                                   \
    "  - when: 'You are the Player'\n"                                                             \
    "    tools: [{name: write, input: {path: query.txt, content: found}}]\n"                       \
    "  - when: 'You are the Player'\n"                                                             \
    "    say: done\n"                                                                              \
    "  - when: 'You are the Coach'\n"                                                              \
    "    say: '{\"task\":\"TASK-GK-002\",\"turn\":2,\"decision\":\"approve\","                     \
    "\"criteria\":[{\"id\":\"AC-001\",\"result\":\"verified\"}]}'\n"

static const char *plan_sums(void)
{
    return scene_shell("find .guardkit tasks -type f -exec sha256sum {} + | sort");
}

static void F39_guardkit_plan_runs_without_change(void **state)
{
    struct held held = {0}, again = {0};
    (void)state;
    field_write(".guardkit/features/FEAT-GK.yaml", GUARDKIT_PLAN);
    field_write("tasks/backlog/TASK-GK-001-index.md", stage_printf(GUARDKIT_TASK, '1'));
    field_write("tasks/backlog/TASK-GK-002-query.md", stage_printf(GUARDKIT_TASK, '2'));
    field_commit();
    const char *before = plan_sums();
    setenv("BELAY_PROVIDER", stage_script("replies: [{wedge: before_first_token}]\n"), 1);
    FEATURE_RUN(0, "validate", "FEAT-GK");
    FEATURE_START(&held, "run", "FEAT-GK");
    field_await_phase(&held, "phase_started", "TASK-GK-002", "player", 0);
    FEATURE_RUN(0, "cancel", "FEAT-GK");
    const struct bl_json *envelope = field_end_of(&held, 130);
    scene_row(envelope, "TASK-GK-001", "completed", "already_completed");
    scene_row(envelope, "TASK-GK-002", "cancelled", "cancelled");
    assert_string_equal(plan_sums(), before);
    setenv("BELAY_PROVIDER", stage_script(GUARDKIT_SCRIPT), 1);
    FEATURE_START(&again, "resume", "FEAT-GK");
    envelope = field_end_of(&again, 0);
    scene_row(envelope, "TASK-GK-001", "completed", "already_completed");
    scene_row(envelope, "TASK-GK-002", "completed", "approved");
    assert_int_equal(field_count(&held, "phase_started", "TASK-GK-001"), 0);
    assert_int_equal(field_count(&again, "phase_started", "TASK-GK-001"), 0);
    assert_string_equal(plan_sums(), before);
    assert_string_equal(field_git_output("show belay/FEAT-GK/_result:query.txt"), "found");
    held_end(&held);
    held_end(&again);
}

/* ---- Cleaning up ----------------------------------------------------------------------------- */

/* Returns the item of a task; NULL: of the result branch. */
static const struct bl_json *clean_item(const struct bl_json *envelope, const char *task)
{
    BL_JSON_EACH (item, bl_json_get(envelope, BL_TEXT("items"))) {
        struct bl_text name = bl_json_text(bl_json_get(item, BL_TEXT("task")));
        if (bl_text_equal(name, bl_text_from(task)))
            return item;
    }
    fail_msg("no item of %s", task);
    return NULL;
}

static void expect_kept(const struct bl_json *envelope, const char *task, const char *reason)
{
    const struct bl_json *item = clean_item(envelope, task);
    assert_false(stage_true_at(item, "/removed"));
    scene_expect(stage_text_at(item, "/reason"), reason);
    assert_true(stage_number_at(item, "/bytes") > 0);
    assert_true(stage_exists(stage_text_at(item, "/worktree")));
    field_git(stage_printf("rev-parse -q --verify belay/FEAT/%s > /dev/null", task));
}

/* MERGED, DIRTY and NEW are merged; OPEN is not; LIVE is in use. */
static void make_five_worktrees(struct held *live)
{
    struct held held = {0};
    const char *mark = stage_path("seats/again");
    const char *player = field_player("player", stage_printf("[ ! -f %s ] || sleep 60", mark));
    const char *yes = scene_own_coach(field_coach("yes", ""));
    const char *no =
        scene_own_coach(scene_coach("no", "cat > /dev/null; verdict feedback rejected "
                                          "'[{\"severity\":\"minor\",\"description\":\"no\"}]'"));
    field_task("MERGED", yes);
    field_task("DIRTY", yes);
    field_task("NEW", yes);
    field_task("OPEN", no);
    field_task("LIVE", no);
    scene_many((const char *const[]){"MERGED", "DIRTY", "NEW", "OPEN", "LIVE", NULL}, player,
               "turns: 1,");
    scene_run(&held, "run", 1);
    held_end(&held);
    field_write(".belay/worktrees/FEAT/DIRTY/README.md", "changed\n");
    field_write(".belay/worktrees/FEAT/NEW/new.txt", "new\n");
    field_touch(mark);
    START(live, "feature", "resume", "FEAT/LIVE", "--more-turns", "2", "--output-format",
          "stream-json");
    field_await_phase(live, "phase_started", "LIVE", "player", 0);
}

static void F49_clean_removes_only_merged_work(void **state)
{
    struct held live = {0};
    static struct run run;
    (void)state;
    make_five_worktrees(&live);
    const char *before = scene_shell("git for-each-ref; git worktree list");
    RUN(&run, "feature", "clean", "FEAT", "--dry-run", "--json");
    const struct bl_json *envelope = stage_answer(&run, "feature-clean", 0);
    assert_int_equal(stage_number_at(envelope, "/removed"), 1);
    assert_string_equal(scene_shell("git for-each-ref; git worktree list"), before);
    RUN(&run, "feature", "clean", "FEAT", "--json");
    envelope = stage_answer(&run, "feature-clean", 0);
    assert_int_equal(stage_number_at(envelope, "/removed"), 1);
    assert_true(stage_true_at(clean_item(envelope, "MERGED"), "/removed"));
    assert_false(stage_exists(".belay/worktrees/FEAT/MERGED"));
    assert_int_not_equal(system("git rev-parse -q --verify belay/FEAT/MERGED > /dev/null"), 0);
    expect_kept(envelope, "DIRTY", "uncommitted changes");
    expect_kept(envelope, "NEW", "untracked files");
    expect_kept(envelope, "OPEN", "not merged");
    expect_kept(envelope, "LIVE", stage_printf("in use by pid %d", (int)live.pid));
    field_git("rev-parse -q --verify belay/FEAT/_result > /dev/null");
    const char *text = FEATURE_RUN(0, "clean", "FEAT")->out;
    assert_int_equal(stage_lines_with(text, "kept "), 5);
    scene_expect(text, "0 of 5 removed");
    FEATURE_RUN(0, "cancel", "FEAT");
    field_end_of(&live, 130);
    held_end(&live);
}

/* ---- The report ------------------------------------------------------------------------------ */

/* One stop by a user, one by the timer, two waves, and a name that is a script. */
static void run_for_report(void)
{
    struct held held = {0};
    const char *ready = stage_path("seats/ready");
    const char *player = field_seat(
        "player",
        stage_printf("cat > /dev/null\ncase $BELAY_TASK$BELAY_TURN in B1) touch %s; sleep 60;; "
                     "LATE*) sleep 60;; esac\necho x > $BELAY_TASK.txt\n"
                     "echo '{\"usage\":{\"input_tokens\":1200,\"output_tokens\":34,"
                     "\"cost_usd\":0.25}}' > \"$BELAY_RESULT\"\n",
                     ready));
    field_task("A", "");
    field_task("B", "");
    field_task("LATE", "belay: {limits: {task_timeout: 300ms}}\n");
    field_plan(
        stage_printf("tasks:\n"
                     "  - {id: A, name: '<script>alert(1)</script>', file_path: tasks/A.md}\n"
                     "  - {id: B, name: 'B & \"C\"', file_path: tasks/B.md}\n"
                     "  - {id: LATE, file_path: tasks/LATE.md, dependencies: [A]}\n"
                     "belay:\n  player: {command: %s, grace: 100ms}\n"
                     "  coach: {command: %s}\n  on_failure: continue\n"
                     "  limits: {min_turn_budget: 0s}\n",
                     player, field_coach("coach", "")));
    field_commit();
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(ready);
    FEATURE_RUN(0, "cancel", "FEAT/B");
    field_end_of(&held, 1);
    held_end(&held);
    FEATURE_RUN(1, "resume", "FEAT");
}

static size_t count_in(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static void F50_report_of_a_run_is_one_complete_page(void **state)
{
    static const char *const outside[] = {"://", "src=", "url(", "@import", "javascript:"};
    static const char *const rows[][2] = {{"A", "<tr id=\"task-1\">"},
                                          {"B", "<tr id=\"task-2\">"},
                                          {"LATE", "<tr id=\"task-3\">"},
                                          {"Total", "<tr id=\"total\">"}};
    (void)state;
    run_for_report();
    FEATURE_RUN(0, "report", "FEAT", "--html", stage_path("report.html"));
    const char *html = scene_file("report.html");
    const char *text = stage_keep(bl_text_from(FEATURE_RUN(0, "report", "FEAT")->out));
    assert_true(page_check(bl_text_from(html)) > 50);
    scene_expect_none(html, "<script");
    assert_true(count_in(html, "&lt;script&gt;alert(1)&lt;/script&gt;") > 0);
    for (size_t i = 0; i < BL_COUNT(outside); i++)
        scene_expect_none(html, outside[i]);
    assert_int_equal(count_in(html, "<section class=\"lane\""), 2);
    assert_int_equal(count_in(text, "\nWave "), 2);
    /* Each stop in the journal has its receipt in both: B's, and LATE's two. */
    const struct bl_json *status = field_status("FEAT");
    assert_int_equal(stage_size_at(status, "/receipts"), 3);
    assert_int_equal(count_in(html, "<details class=\"stop\">"), 3);
    BL_JSON_EACH (receipt, bl_json_get(status, BL_TEXT("receipts"))) {
        scene_expect(html, stage_text_at(receipt, "/id"));
        scene_expect(text, stage_text_at(receipt, "/id"));
    }
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        char in_html[256] = "", in_text[256] = "";
        page_html_numbers(bl_text_from(html), rows[i][1], in_html);
        page_text_numbers(bl_text_from(text), rows[i][0], in_text);
        assert_string_equal(in_html, in_text);
    }
    char total[256] = "";
    page_text_numbers(bl_text_from(text), "Total", total);
    scene_expect(total, " 2,468 $0.5000");
}

/* ---- Hostile text ---------------------------------------------------------------------------- */

/* Text with terminal control characters, HTML and invalid UTF-8; for printf in a shell. */
#define HOSTILE                                                                                    \
    "\\033[31mred\\007\\033]0;owned\\007<img src=x onerror=alert(1)>\\302\\205\\377\\376"
/* The same for JSON and YAML, which cannot have invalid UTF-8. */
#define HOSTILE_JSON "\\u001b[31mred\\u0007<img src=x onerror=alert(1)>\\u0085\\u202e\\u0000"
#define HOSTILE_YAML "\\e[31mred\\a<img src=x onerror=alert(1)>\\N\\u202e"

/* Checks that the text has no control characters except line ends; JSON may have those it need not
 * escape. */
static void check_text(const char *what, const char *text, bool json)
{
    struct bl_text rest = bl_text_from(text);
    if (!bl_utf8_valid(rest))
        fail_msg("%s is not UTF-8", what);
    while (rest.size > 0) {
        uint32_t character = 0;
        size_t size = bl_utf8_decode(rest, &character);
        bool bad = (character < 0x20 && character != '\n') ||
                   (!json && character >= 0x7f && character < 0xa0) ||
                   (!json && character == 0x202e);
        if (bad)
            fail_msg("%s has U+%04X before '%.60s', behind '%.*s'", what, (unsigned)character,
                     rest.data + size, (int)(rest.data - text > 60 ? 60 : rest.data - text),
                     rest.data - (rest.data - text > 60 ? 60 : rest.data - text));
        rest.data += size;
        rest.size -= size;
    }
}

static void expect_plain(const char *what, const char *text)
{
    check_text(what, text, false);
}

/* Every line is JSON. */
static void expect_json(const char *what, const char *text)
{
    check_text(what, text, true);
    struct bl_text rest = bl_text_from(text), line;
    while (bl_text_split(&rest, '\n', &line))
        stage_json(stage_keep(line));
}

static const char *hostile_player(void)
{
    return field_seat(
        "player",
        stage_printf("cat > /dev/null\nprintf '" HOSTILE "\\n'; printf 'err " HOSTILE "\\n' >&2\n"
                     "echo $BELAY_TURN > \"$(printf \"bad$BELAY_TASK" HOSTILE "\\nname.txt\")\"\n"
                     "cat > \"$BELAY_RESULT\" <<'END'\n"
                     "{\"summary\":\"" HOSTILE_JSON "\",\"files\":[\"" HOSTILE_JSON "\"]}\nEND\n"
                     "[ $BELAY_TASK$BELAY_TURN != B1 ] || { touch %s; sleep 60; }\n",
                     stage_path("seats/ready")));
}

static const char *hostile_coach(void)
{
    return scene_coach(
        "coach",
        "cat > /dev/null; printf '" HOSTILE "\\n'; printf '" HOSTILE "\\n' >&2\n"
        "if [ $BELAY_TURN -gt 2 ]; then decision=approve result=verified\n"
        "else decision=feedback result=rejected; fi\n"
        "cat > \"$BELAY_RESULT\" <<END\n"
        "{\"task\":\"$BELAY_TASK\",\"turn\":$BELAY_TURN,\"decision\":\"$decision\",\"rationale\":"
        "\"" HOSTILE_JSON "\",\"criteria\":[{\"id\":\"AC-001\",\"result\":\"$result\",\"notes\":"
        "\"" HOSTILE_JSON "\"}],\"issues\":[{\"severity\":\"minor\",\"file\":\"src/"
        "\\u001b[2J<b>\",\"description\":\"" HOSTILE_JSON "\",\"suggestion\":\"" HOSTILE_JSON
        "\"}]}\nEND\n"
        "[ -f $0.$BELAY_TASK ] || { touch $0.$BELAY_TASK; printf '\\377' >> \"$BELAY_RESULT\"; "
        "}\n");
}

/* Names, outputs, file names, results and verdicts are all hostile; B is cancelled and resumed. */
static void run_hostile(struct held *held, struct held *again)
{
    field_task("A", "");
    field_task("B", "");
    field_write("check.sh", "printf '" HOSTILE "\\n'; test $BELAY_TURN -gt 2\n");
    field_write(".belay/features/FEAT.yaml",
                stage_printf("id: FEAT\nname: \"" HOSTILE_YAML "\"\n"
                             "description: \"" HOSTILE_YAML "\"\ntasks:\n"
                             "  - {id: A, name: \"" HOSTILE_YAML "\", file_path: tasks/A.md}\n"
                             "  - {id: B, name: \"" HOSTILE_YAML "\", file_path: tasks/B.md}\n"
                             "belay:\n  player: {command: %s, grace: 100ms}\n"
                             "  coach: {command: %s}\n"
                             "  limits: {min_turn_budget: 0s}\n"
                             "  verify: {commands: [sh check.sh]}\n",
                             hostile_player(), hostile_coach()));
    field_commit();
    FEATURE_START(held, "run", "FEAT");
    stage_await_file(stage_path("seats/ready"));
    FEATURE_RUN(0, "cancel", "FEAT/B");
    held_wait(held);
    START(again, "feature", "resume", "FEAT");
    held_wait(again);
    if (again->exit_code != 0)
        fail_msg("exit code %d: %s", again->exit_code, stage_last_line(stage_output(again)) - 900);
}

static void hostile_text_is_escaped_everywhere(void **state)
{
    static const char *const texts[][4] = {
        {"status"},
        {"status", "FEAT"},
        {"status", "FEAT/A"},
        {"status", "FEAT/B"},
        {"list"},
        {"logs", "FEAT"},
        {"report", "FEAT"},
        {"validate", "FEAT"},
        {"clean", "FEAT", "--dry-run"},
    };
    struct held held = {0}, again = {0};
    (void)state;
    run_hostile(&held, &again);
    expect_json("run, stream-json", stage_output(&held));
    scene_schemas(&held);
    expect_plain("run, standard error", held_err(&held));
    expect_plain("resume", stage_output(&again));
    expect_plain("resume, standard error", held_err(&again));
    for (size_t i = 0; i < BL_COUNT(texts); i++) {
        const char *const *words = texts[i];
        static struct run run;
        const char *all[] = {"feature", words[0], words[1], words[2], NULL, NULL};
        size_t count = words[1] == NULL ? 2 : words[2] == NULL ? 3 : 4;
        runner_run_with(&run, all, NULL, RUN_KEEP);
        assert_int_equal(run.exit_code, 0);
        expect_plain(words[0], run.out);
        expect_plain(words[0], run.err);
        all[count] = "--json";
        runner_run_with(&run, all, NULL, RUN_KEEP);
        assert_int_equal(run.exit_code, 0);
        expect_json(words[0], run.out);
    }
    /* The log exists, and can be read. */
    const char *logs = FEATURE_RUN(0, "logs", "FEAT")->out;
    scene_expect(logs, "\\x1b[31mred\\x07");
    scene_expect(logs, "\\u0085\xEF\xBF\xBD");
    expect_json("logs", FEATURE_RUN(0, "logs", "FEAT", "--output-format", "stream-json")->out);
    FEATURE_RUN(0, "report", "FEAT", "--html", stage_path("report.html"));
    const char *html = scene_file("report.html");
    expect_plain("html", html);
    page_check(bl_text_from(html));
    scene_expect_none(html, "<img");
    scene_expect(html, "&lt;img");
    held_end(&held);
    held_end(&again);
}

SUITE(trace, FIELD(F15_cancel_leaves_the_worktree_as_the_player_left_it),
      FIELD(F15_cancel_with_a_kill_leaves_the_worktree_unchanged),
      FIELD(F15_cancel_during_the_coach_leaves_the_worktree_unchanged),
      FIELD(F15_cancel_at_any_moment_leaves_no_lock_file),
      FIELD(F39_guardkit_plan_runs_without_change), FIELD(F49_clean_removes_only_merged_work),
      FIELD(F50_report_of_a_run_is_one_complete_page), FIELD(hostile_text_is_escaped_everywhere));
