#include "records.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static unsigned seed;

static const char *at(const char *name)
{
    return stage_path(name);
}

static void assert_word(const struct bl_json *value, const char *pointer, const char *word)
{
    const char *found = stage_text_at(value, pointer);
    if (strcmp(found, word) != 0)
        fail_msg("%s is '%s', not '%s' (seed %u)", pointer, found, word, seed);
}

/* ---- Random moments -------------------------------------------------------------------------- */

static unsigned dice;

static void throw_dice(void)
{
    const char *given = getenv("BELAY_SEED");
    seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    dice = seed;
    print_message("BELAY_SEED=%u\n", seed);
}

/* Returns a random time up to `most_s`, evenly distributed. */
static double moment(double most_s)
{
    return most_s * (double)rand_r(&dice) / (double)RAND_MAX;
}

/* Kills the run after that time. Returns false if it had ended by then. */
static bool kill_after(struct held *held, double seconds)
{
    field_rest(seconds);
    kill(held->pid, SIGKILL);
    held_wait(held);
    /* No process that could still write is left. */
    held_await_count(held, 0);
    return held->exit_code == 128 + SIGKILL;
}

static size_t count_lines(const char *text)
{
    size_t count = text[0] != '\0';
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

/* Returns the output of a shell; fails the test if the shell fails. */
static const char *ask_shell(const char *command)
{
    static char text[262144];
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t size = fread(text, 1, sizeof text - 1, pipe);
    if (pclose(pipe) != 0)
        fail_msg("'%s' failed (seed %u)", command, seed);
    while (size > 0 && text[size - 1] == '\n')
        size--;
    return stage_keep((struct bl_text){text, size});
}

/* ---- Anywhere in a run ----------------------------------------------------------------------- */

/* A has two turns: a draft, feedback, and the final version. The result does not depend on the
 * number of restarts. */
static void plan_drafts(void)
{
    field_seat("player", "cat > \"$BELAY_RESULT.prompt\"\nword=final\n[ $BELAY_TASK = A ] && "
                         "! grep -q make-it-final \"$BELAY_RESULT.prompt\" && word=draft\n"
                         "echo \"$BELAY_TASK $word\" > \"$BELAY_TASK.txt\"\n"
                         "echo '{\"summary\":\"done\"}' > \"$BELAY_RESULT\"\n");
    field_seat("coach",
               stage_printf("cat > /dev/null\n. %s\nif grep -q final $BELAY_TASK.txt; then\n"
                            "verdict approve verified '[]'\nelse\nverdict feedback rejected"
                            " '[{\"severity\":\"major\",\"description\":\"make-it-final\"}]'\nfi\n",
                            field_verdict()));
    field_task("A", "");
    field_task("B", "");
    field_task("C", "");
    field_write(".gitignore", "/.belay/\n");
    field_commit();
}

static void plan_draft(unsigned long number)
{
    field_write(stage_printf(".belay/features/FEAT%lu.yaml", number),
                stage_printf("id: FEAT%lu\nname: A feature\ntasks:\n"
                             "  - {id: A, file_path: tasks/A.md}\n"
                             "  - {id: B, file_path: tasks/B.md}\n"
                             "  - {id: C, file_path: tasks/C.md, dependencies: [A]}\n"
                             "smoke_gates: {after_wave: all, command: test -e A.txt}\n"
                             "belay:\n  player: {command: [sh, %s]}\n  coach: {command: [sh, %s]}\n"
                             "  limits: {min_turn_budget: 0s}\n"
                             "  verify: {commands: [test -s $BELAY_TASK.txt]}\n",
                             number, at("seats/player.sh"), at("seats/coach.sh")));
}

static void assert_drafts_done(unsigned long number, const char *tree)
{
    static const char *const tasks[] = {"A", "B", "C"};
    const struct bl_json *status = field_status(stage_printf("FEAT%lu", number));
    assert_word(status, "/state", "completed");
    for (size_t i = 0; i < BL_COUNT(tasks); i++) {
        const struct bl_json *row = field_row(status, tasks[i]);
        assert_word(row, "/state", "completed");
        assert_word(row, "/decision", "approved");
        assert_word(row, "/verified", "passed");
        assert_int_equal(stage_number_at(row, "/turns_counted"), i == 0 ? 2 : 1);
    }
    assert_word(status, "/waves/0/gate", "passed");
    assert_word(status, "/waves/1/gate", "passed");
    assert_string_equal(
        field_git_output(stage_printf("rev-parse 'belay/FEAT%lu/_result^{tree}'", number)), tree);
    assert_int_equal(count_lines(field_git_output(stage_printf(
                         "log --first-parent --format=%%s HEAD..belay/FEAT%lu/_result", number))),
                     3);
    assert_string_equal(ask_shell("find .git -name '*.lock' ! -name belay.lock"), "");
    assert_string_equal(field_git_output("status --porcelain"), "");
}

/* Returns how its tasks ended, according to the events. */
static const char *ends_told(const struct held *held)
{
    struct bl_text rest = bl_text_from(stage_output(held)), line;
    const char *text = "";
    while (bl_text_split(&rest, '\n', &line))
        if (bl_text_find(line, BL_TEXT("\"type\":\"task_ended\"")) >= 0 ||
            bl_text_find(line, BL_TEXT("\"type\":\"warning\"")) >= 0)
            text = stage_printf("%s%.*s\n", text, (int)line.size, line.data);
    return text;
}

static bool is_known(const char *id)
{
    return records_number(stage_printf("SELECT count(*) FROM feature JOIN feature_record ON"
                                       " feature = feature.key WHERE id = '%s'",
                                       id)) > 0;
}

/* Starts the run and kills it at a random moment, until it completes. Returns the number of
 * kills. */
static unsigned long run_with_kills(unsigned long number, double *whole_s, unsigned long most)
{
    const char *id = stage_printf("FEAT%lu", number);
    unsigned long kills = 0;
    bool over = false;
    plan_draft(number);
    while (!over) {
        struct held held = {0};
        const char *verb = kills % 2 == 1 && is_known(id) ? "resume" : "run";
        double from = field_now();
        FEATURE_START(&held, verb, id);
        if (kills < most)
            over = !kill_after(&held, moment(*whole_s));
        else
            over = held_wait(&held) > 0;
        if (over && held.exit_code != 0)
            fail_msg("%s ended with %d after %lu kills (seed %u): %s", id, held.exit_code, kills,
                     seed, ends_told(&held));
        /* The machine may be faster now than in the first run. */
        if (over && kills == 0)
            *whole_s = field_time(field_event(&held, "feature_ended", NULL, 0)) - from;
        held_end(&held);
        kills += !over;
        records_check(id);
        /* Either a reader settles it, or the next run. */
        if (!over && kills % 3 == 0 && is_known(id))
            FEATURE_RUN(0, "status", id);
    }
    return kills;
}

static void F14_run_killed_at_any_moment_has_the_same_result(void **state)
{
    unsigned long wanted = suite_rounds(4, 200), kills = 0, number = 0;
    struct held held = {0};
    (void)state;
    throw_dice();
    plan_drafts();
    plan_draft(0);
    double from = field_now();
    FEATURE_START(&held, "run", "FEAT0");
    field_end_of(&held, 0);
    double whole_s = field_now() - from;
    held_end(&held);
    const char *tree = field_git_output("rev-parse 'belay/FEAT0/_result^{tree}'");
    assert_drafts_done(0, tree);
    while (kills < wanted) {
        kills += run_with_kills(++number, &whole_s, wanted - kills);
        assert_drafts_done(number, tree);
    }
    print_message("%lu kills in %lu features; a whole run takes %.2f s\n", kills, number, whole_s);
}

/* ---- A store that is full -------------------------------------------------------------------- */

static size_t count_seats(const char *const *tasks)
{
    size_t count = 0;
    for (; *tasks != NULL; tasks++)
        count += field_processes(stage_printf("BELAY_TASK=%s", *tasks), NULL);
    return count;
}

/* Returns the time from `from` until no process of a task is left. */
static double await_no_seats(const char *const *tasks, double from)
{
    double now = field_now();
    while (count_seats(tasks) > 0) {
        field_rest(0.002);
        now = field_now();
        if (now - from > 30)
            fail_msg("%zu processes are left", count_seats(tasks));
    }
    return now - from;
}

static void F16_full_store_stops_everything_and_keeps_old_records(void **state)
{
    static const char *const tasks[] = {"A", "B", "C", NULL};
    const char *full = at("full");
    struct held held = {0}, next = {0};
    (void)state;
    field_tasks("A B C",
                field_player("player", stage_printf("touch %s-$BELAY_TASK\n"
                                                    "[ $BELAY_ATTEMPT = 1 ] && exec sleep 60",
                                                    at("ready"))),
                field_coach("coach", ""), "", "");
    field_start_on_bad_disk(&held, "run", "BELAY_TEST_FULL", full);
    for (size_t i = 0; tasks[i] != NULL; i++)
        stage_await_file(at(stage_printf("ready-%s", tasks[i])));
    while (field_count_phase(&held, "phase_started", NULL, "player") < 3 ||
           records_number("SELECT count(*) FROM feature_event WHERE json ->> 'type' ="
                          " 'phase_started'") < 3)
        field_rest(0.005);
    double from = field_now();
    field_touch(full);
    double gone_s = await_no_seats(tasks, from);
    field_bound("F16 seats are gone after the store refused", gone_s, 2.5);
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_word(envelope, "/error/kind", "filesystem");
    records_check("FEAT");
    assert_int_equal(remove(full), 0);
    const struct bl_json *status = field_status("FEAT");
    for (size_t i = 0; tasks[i] != NULL; i++) {
        assert_word(field_row(envelope, tasks[i]), "/reason", "feature_failure");
        assert_word(field_row(status, tasks[i]), "/state", "interrupted");
    }
    FEATURE_START(&next, "resume", "FEAT");
    envelope = field_end_of(&next, 0);
    for (size_t i = 0; tasks[i] != NULL; i++) {
        assert_word(field_row(envelope, tasks[i]), "/state", "completed");
        assert_int_equal(stage_number_at(field_row(envelope, tasks[i]), "/turn"), 2);
    }
    held_end(&held);
    held_end(&next);
}

/* The disk has the bytes but reports a failure: the refused write is not told, and not found
 * later. */
static void F16_end_whose_sync_failed_is_neither_told_nor_kept(void **state)
{
    const char *broken = at("broken");
    struct held held = {0}, next = {0};
    (void)state;
    field_tasks("A",
                field_player("player", stage_printf("touch %s\nuntil [ -e %s ]; do sleep 0.02; "
                                                    "done",
                                                    at("ready"), at("go"))),
                field_coach("coach", ""), "", "");
    field_start_on_bad_disk(&held, "run", "BELAY_TEST_BROKEN", broken);
    stage_await_file(at("ready"));
    field_touch(broken);
    field_touch(at("go"));
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_word(envelope, "/error/kind", "filesystem");
    assert_int_equal(field_count(&held, "task_ended", NULL), 0);
    assert_int_equal(field_count(&held, "checkpoint_saved", NULL), 0);
    assert_int_equal(field_count(&held, "feature_ended", NULL), 1);
    if (strstr(held_err(&held), "not saved: the state of A") == NULL)
        fail_msg("standard error: %s", held_err(&held));
    records_check("FEAT");
    assert_int_equal(records_number("SELECT count(*) FROM feature_event WHERE json ->> 'type' IN"
                                    " ('task_ended', 'checkpoint_saved', 'feature_ended')"),
                     0);
    assert_word(field_row(field_status("FEAT"), "A"), "/state", "interrupted");
    assert_int_equal(remove(broken), 0);
    FEATURE_START(&next, "resume", "FEAT");
    assert_word(field_row(field_end_of(&next, 0), "A"), "/state", "completed");
    held_end(&held);
    held_end(&next);
}

/* ---- Leftovers of a killed run --------------------------------------------------------------- */

static void F23_killed_belay_leaves_a_checkpoint_and_no_processes(void **state)
{
    static const char *const tasks[] = {"A", "B", "C", NULL};
    struct held held = {0};
    (void)state;
    field_tasks("A B C",
                field_player("player", stage_printf("trap '' TERM INT HUP\n"
                                                    "setsid sleep 60 &\necho half > half.txt\n"
                                                    "touch %s-$BELAY_TASK\nsleep 60",
                                                    at("ready"))),
                field_coach("coach", ""), "", "");
    FEATURE_START(&held, "run", "FEAT");
    for (size_t i = 0; tasks[i] != NULL; i++)
        stage_await_file(at(stage_printf("ready-%s", tasks[i])));
    assert_true(count_seats(tasks) >= 6);
    double from = field_now();
    kill(held.pid, SIGKILL);
    double gone_s = await_no_seats(tasks, from);
    field_bound("F23 seats are gone after kill -9", gone_s, 0.1);
    held_wait(&held);
    held_await_count(&held, 0);
    assert_word(field_status("FEAT"), "/state", "interrupted");
    for (size_t i = 0; tasks[i] != NULL; i++) {
        const struct run *run =
            FEATURE_RUN(0, "status", stage_printf("FEAT/%s", tasks[i]), "--json");
        const struct bl_json *row = field_row(stage_json(run->out), tasks[i]);
        assert_word(row, "/state", "interrupted");
        assert_word(row, "/decision", "interrupted");
        assert_word(row, "/checkpoint/reason", "owner_died");
        assert_word(row, "/checkpoint/phase", "player");
        assert_word(row, "/checkpoint/marker", "cancelled_mid_turn");
        assert_true(stage_null_at(row, "/checkpoint/receipt"));
        assert_int_equal(stage_number_at(row, "/checkpoint/turn"), 1);
        assert_true(stage_true_at(row, "/checkpoint/dirty"));
        assert_word(row, "/checkpoint/dirty_files/0", "half.txt");
    }
    held_end(&held);
}

/* ---- Anywhere in a fresh start --------------------------------------------------------------- */

struct fresh {
    unsigned long round;
    const char *content; /* what all tasks of the previous run wrote */
    int64_t generation;  /* generation of that run */
    const char *rescued; /* earlier refs */
    const char *commits; /* commits of all runs, one per line */
    const char *tips;    /* the earlier branches, as lines of their commits */
};

static void plan_rounds(void)
{
    field_pair(field_seat("player", "cat > /dev/null\necho \"round $ROUND\" > \"$BELAY_TASK.txt\"\n"
                                    "echo '{}' > \"$BELAY_RESULT\"\n"),
               field_coach("coach", ""), "", "");
}

static int64_t generation(void)
{
    return records_number("SELECT generation FROM feature WHERE id = 'FEAT'");
}

static const char *rescue_refs(void)
{
    return field_git_output("for-each-ref --format='%(objectname) %(refname)' refs/belay/rescue");
}

/* Leaves work that exists nowhere else: an unmerged commit, an uncommitted file, and an uncommitted
 * change. */
static void leave_work(struct fresh *fresh)
{
    unsigned long round = fresh->round;
    field_git(
        stage_printf("-C .belay/worktrees/FEAT/A commit -q --allow-empty -m extra-%lu", round));
    field_write(stage_printf(".belay/worktrees/FEAT/B/note-%lu.txt", round), "not committed\n");
    ask_shell(stage_printf("echo edited-%lu >> .belay/worktrees/FEAT/B/B.txt", round));
    fresh->content = field_git_output("show belay/FEAT/_result:A.txt");
    fresh->generation = generation();
    fresh->rescued = rescue_refs();
    fresh->tips = field_git_output("for-each-ref --format='%(objectname)' refs/heads/belay");
    fresh->commits = stage_printf("%s\n%s", fresh->commits,
                                  field_git_output("rev-list --glob=refs/heads/belay HEAD"));
}

static void assert_in(const char *text, const char *lines_of)
{
    struct bl_text rest = bl_text_from(lines_of), line;
    while (bl_text_split(&rest, '\n', &line))
        if (line.size > 0 && bl_text_find(bl_text_from(text), line) < 0)
            fail_msg("'%.*s' is lost (seed %u)", (int)line.size, line.data, seed);
}

/* Must hold at every instant. */
static void assert_nothing_lost(const struct fresh *fresh)
{
    assert_in(field_git_output("rev-list --all"), fresh->commits);
    const char *files =
        ask_shell("cd .belay/worktrees/FEAT && find . -name 'note-*' && cat */B.txt");
    for (unsigned long i = 1; i <= fresh->round; i++) {
        assert_in(files, stage_printf("/note-%lu.txt\nedited-%lu", i, i));
    }
}

/* Every folder with such a file is a worktree, with its own branch or commit. */
static void assert_in_worktrees(void)
{
    const char *known = field_git_output("worktree list --porcelain");
    struct bl_text rest = bl_text_from(ask_shell("ls -d \"$PWD\"/.belay/worktrees/FEAT/*")), path;
    while (bl_text_split(&rest, '\n', &path)) {
        assert_in(known, stage_printf("worktree %.*s", (int)path.size, path.data));
        assert_string_equal(field_git_output(stage_printf("-C %.*s rev-parse --show-toplevel",
                                                          (int)path.size, path.data)),
                            stage_keep(path));
    }
}

/* After the next start, everything is old or everything is new. Returns whether it is new. */
static bool assert_no_mix(const struct fresh *fresh)
{
    bool is_new = generation() != fresh->generation;
    const char *content = is_new ? stage_printf("round %lu", fresh->round) : fresh->content;
    assert_int_equal(generation(), fresh->generation + is_new);
    assert_string_equal(field_git_output("show belay/FEAT/_result:A.txt"), content);
    assert_string_equal(field_git_output("show belay/FEAT/_result:B.txt"), content);
    if (is_new) {
        assert_in(rescue_refs(), fresh->tips);
        assert_in(rescue_refs(), fresh->rescued);
        assert_int_equal(count_lines(rescue_refs()), count_lines(fresh->rescued) + 3);
    } else {
        assert_string_equal(rescue_refs(), fresh->rescued);
        assert_in(field_git_output("for-each-ref --format='%(objectname)' refs/heads/belay"),
                  fresh->tips);
        assert_true(stage_exists(
            at(stage_printf("work/.belay/worktrees/FEAT/B/note-%lu.txt", fresh->round))));
    }
    return is_new;
}

static void F29_killed_fresh_start_is_old_or_new(void **state)
{
    unsigned long rounds = suite_rounds(3, 50), fresh_ones = 0;
    struct fresh fresh = {.commits = ""};
    struct held held = {0};
    (void)state;
    throw_dice();
    plan_rounds();
    setenv("ROUND", "0", 1);
    double from = field_now();
    FEATURE_START(&held, "run", "FEAT", "--fresh");
    field_end_of(&held, 0);
    double whole_s = field_now() - from;
    held_end(&held);
    for (fresh.round = 1; fresh.round <= rounds; fresh.round++) {
        leave_work(&fresh);
        setenv("ROUND", stage_printf("%lu", fresh.round), 1);
        FEATURE_START(&held, "run", "FEAT", "--fresh");
        kill_after(&held, moment(whole_s));
        held_end(&held);
        assert_nothing_lost(&fresh);
        records_check("FEAT");
        FEATURE_START(&held, fresh.round % 2 == 0 ? "run" : "resume", "FEAT");
        field_end_of(&held, 0);
        held_end(&held);
        assert_nothing_lost(&fresh);
        fresh_ones += assert_no_mix(&fresh);
        assert_in_worktrees();
    }
    unsetenv("ROUND");
    print_message("%lu of %lu continued with the new one\n", fresh_ones, rounds);
    if (rounds >= 50)
        assert_in_range(fresh_ones, 1, rounds - 1);
}

/* Killed after the files were moved, before git recorded it. */
static void F29_interrupted_move_is_finished(void **state)
{
    struct fresh fresh = {.commits = "", .round = 1};
    struct held held = {0};
    (void)state;
    plan_rounds();
    setenv("ROUND", "0", 1);
    FEATURE_RUN(0, "run", "FEAT");
    leave_work(&fresh);
    setenv("ROUND", "1", 1);
    int lock = open(at("work/.git/belay.lock"), O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0 && flock(lock, LOCK_EX) == 0);
    FEATURE_START(&held, "run", "FEAT", "--fresh");
    while (records_get("fresh") == NULL)
        field_rest(0.005);
    kill_after(&held, 0);
    assert_int_equal(rename(".belay/worktrees/FEAT/B", ".belay/worktrees/FEAT/B.1"), 0);
    close(lock);
    FEATURE_RUN(0, "run", "FEAT");
    unsetenv("ROUND");
    assert_nothing_lost(&fresh);
    assert_true(assert_no_mix(&fresh));
    assert_in_worktrees();
    assert_true(stage_exists(".belay/worktrees/FEAT/B.1/note-1.txt"));
    assert_string_equal(field_git_output("-C .belay/worktrees/FEAT/B.1 status --porcelain"),
                        " M B.txt\n?? note-1.txt");
    assert_string_equal(field_git_output("-C .belay/worktrees/FEAT/B status --porcelain"), "");
    held_end(&held);
}

SUITE(kill, FIELD(F14_run_killed_at_any_moment_has_the_same_result),
      FIELD(F16_full_store_stops_everything_and_keeps_old_records),
      FIELD(F16_end_whose_sync_failed_is_neither_told_nor_kept),
      FIELD(F23_killed_belay_leaves_a_checkpoint_and_no_processes),
      FIELD(F29_killed_fresh_start_is_old_or_new), FIELD(F29_interrupted_move_is_finished));
