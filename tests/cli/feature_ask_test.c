/* Commands that ask a feature's runner, and its report. The records are in a real store; the
 * program is real. */
#include "recorded.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Asking ---------------------------------------------------------------------------------- */

static void F18_cancel_of_ended_or_idle_work_says_so_and_makes_no_event(void **state)
{
    (void)state;
    put(recorded_login);
    RUN(&run, "feature", "cancel", "FEAT-A/TASK-2");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "FEAT-A/TASK-2 has already ended: it is timed_out.\n");
    RUN(&run, "feature", "cancel", "TASK-3", "--json");
    const struct bl_json *answer = stage_answer(&run, "feature-cancel", 0);
    assert_true(stage_null_at(answer, "/receipt"));
    assert_false(stage_true_at(answer, "/already"));
    assert_non_null(strstr(stage_text_at(answer, "/message"), "is not running: it is pending"));
    RUN(&run, "feature", "cancel", "FEAT-A");
    assert_string_equal(run.out, "FEAT-A has already ended: it is failed.\n");
    RUN(&run, "feature", "cancel", "TASK-22");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean 'TASK-2'?"));
    RUN(&run, "feature", "pause", "FEAT-A");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "FEAT-A is not running: nothing to pause.\n");
    RUN(&run, "feature", "extend", "FEAT-A/TASK-2", "+600s", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "feature-extend", 1), "/error/code"),
                        "too_late");
    RUN(&run, "feature", "logs", "FEAT-A", "--json");
    assert_int_equal(stage_size_at(stage_json(run.out), "/events"), 5);
}

/* A runner with known answers. */
struct scripted {
    const char *answer; /* empty: returns the error */
    const char *params; /* params of the call */
    unsigned calls;
};

static int answer_scripted(void *context, const struct bl_json *params,
                           struct bl_buffer *ret_result, struct bl_error *error)
{
    struct scripted *scripted = context;
    struct bl_json_writer writer;
    struct bl_buffer text;

    bl_buffer_init(&text, 65536);
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, params);
    bl_json_writer_done(&writer);
    scripted->params = stage_keep(bl_buffer_text(&text));
    bl_buffer_done(&text);
    scripted->calls++;
    if (scripted->answer[0] != '\0')
        return bl_buffer_append(ret_result, bl_text_from(scripted->answer));
    bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, "extend a task", "TASK-1", "it has fired");
    bl_error_name_set(error, "too_late");
    return BL_EEXIST;
}

static int ask_a_runner(const struct written *written, struct bl_store_feature *feature)
{
    static const struct {
        const char *verb, *name, *more, *answer, *says;
        int exit_code;
    } cases[] = {
        {"cancel", "FEAT-A", NULL,
         "{\"receipt\":{\"quiet_ms\":206.1,\"survivors\":0,\"units\":[{\"kind\":\"model\"}]}}",
         "Stopped in 206 ms: 1 model call. Nothing left running.\n", 0},
        {"cancel", "TASK-1", NULL, "{\"receipt\":null,\"already\":true}",
         "FEAT-A/TASK-1 has already ended: it is running.\n", 0},
        {"cancel", "TASK-1", NULL, "{\"receipt\":null,\"already\":false}",
         "FEAT-A/TASK-1 is now running; there was nothing to stop.\n", 0},
        {"pause", "FEAT-A", NULL, "{\"changed\":true}",
         "FEAT-A is paused: running phases may end, and no new phase starts.\n", 0},
        {"pause", "FEAT-A", NULL, "{\"changed\":false}", "FEAT-A is already paused.\n", 0},
        {"resume", "FEAT-A", NULL, "{\"changed\":true}", "FEAT-A continues.\n", 0},
        {"resume", "FEAT-A", NULL, "{\"changed\":false}", "FEAT-A is not paused: it is running.\n",
         0},
        {"extend", "FEAT-A/TASK-1", "+5s", "{\"deadline_s\":7}",
         "FEAT-A/TASK-1: the deadline is now 7 s from its start.\n", 0},
        {"extend", "FEAT-A/TASK-1", "+1.5ms", "", "belay feature: it has fired\n", 1},
    };
    static const char *const names[] = {"feature.cancel", "feature.pause", "feature.resume",
                                        "feature.extend"};
    struct scripted scripted = {0};
    struct bl_activities activities;
    struct bl_control *control = NULL;
    struct bl_nursery nursery;

    (void)written, (void)feature;
    bl_activities_init(&activities);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_control_start(&nursery, &activities, &control, NULL), 0);
    for (size_t i = 0; i < BL_COUNT(names); i++)
        bl_control_offer(control, &(struct bl_control_offer){names[i], answer_scripted, &scripted});
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        scripted.answer = cases[i].answer;
        RUN_BESIDE("feature", cases[i].verb, cases[i].name, cases[i].more);
        CHECK_EQUAL(run.exit_code, cases[i].exit_code);
        if (!CHECK(strcmp(cases[i].exit_code == 0 ? run.out : run.err, cases[i].says) == 0))
            fprintf(stderr, "%s %s: %s%s", cases[i].verb, cases[i].name, run.out, run.err);
    }
    CHECK_EQUAL(scripted.calls, BL_COUNT(cases));
    CHECK(strstr(scripted.params, "{\"feature\":\"FEAT-A\",\"repository\":\"/") == scripted.params);
    CHECK(strstr(scripted.params, "/work\",\"task\":\"TASK-1\",\"by_ms\":2}") != NULL);
    RUN_BESIDE("feature", "extend", "TASK-1", "+1s", "--json");
    CHECK_EQUAL(run.exit_code, 1);
    CHECK(strstr(run.out, "\"code\":\"too_late\"") != NULL);
    bl_control_stop(control);
    bl_nursery_done(&nursery);
    return 0;
}

static void runner_is_asked_and_its_answer_is_shown(void **state)
{
    struct written written = {.id = "FEAT-A",
                              .records = {"feature", FEATURE("FEAT-A", "running", "0"),
                                          "task/TASK-1", ROW("TASK-1", "running", "")},
                              .work = ask_a_runner};
    (void)state;
    put(written);
}

/* ---- A real run ------------------------------------------------------------------------------ */

#define CANCELLERS 8u

static struct held cancellers[CANCELLERS];

/* A Player that reports its start, and continues on request. */
static void make_plan(void)
{
    const char *signs = stage_path("signs");

    assert_int_equal(system("git init -q -b main . && mkdir -p tasks .belay/features ../signs && "
                            "for n in 1 2 3; do printf -- '---\\nid: TASK-%s\\ntitle: t\\n---\\n"
                            "Do it.\\n' $n >tasks/$n.md; done && git add tasks && git -c "
                            "user.name=t -c user.email=t@example.test commit -qm begin"),
                     0);
    stage_file(".belay/features/FEAT-X.yaml",
               stage_printf(
                   "id: FEAT-X\nname: Three\ntasks:\n"
                   "  - {id: TASK-1, file_path: tasks/1.md}\n"
                   "  - {id: TASK-2, file_path: tasks/2.md}\n"
                   "  - {id: TASK-3, file_path: tasks/3.md}\n"
                   "belay:\n"
                   "  player:\n"
                   "    command: [sh, -c, 'touch %s/at-$BELAY_TASK; while [ ! -e "
                   "%s/go-$BELAY_TASK ]; do sleep 0.02; done; echo x >$BELAY_TASK.txt']\n"
                   "  coach:\n"
                   "    command: [sh, -c, 'printf \"{\\\"task\\\":\\\"$BELAY_TASK\\\",\\\"turn\\\":"
                   "$BELAY_TURN,\\\"decision\\\":\\\"approve\\\",\\\"rationale\\\":\\\"ok\\\","
                   "\\\"criteria\\\":[],\\\"issues\\\":[]}\"']\n"
                   "  limits: {min_turn_budget: 0s, task_timeout: 600s}\n",
                   signs, signs));
}

static void await_player(const char *task)
{
    const char *path = stage_path(stage_printf("signs/at-%s", task));

    for (int i = 0; !stage_exists(path); i++) {
        if (i == 30000)
            fail_msg("%s has no Player: %s%s", task, held_out(&held), held_err(&held));
        usleep(1000);
    }
}

static void let_go(const char *task)
{
    FILE *file = fopen(stage_path(stage_printf("signs/go-%s", task)), "w");

    assert_non_null(file);
    fclose(file);
}

static size_t count_events(const char *what)
{
    RUN(&run, "feature", "logs", what, "--output-format", "stream-json");
    assert_int_equal(run.exit_code, 0);
    return stage_lines_with(run.out, "\"seq\":");
}

/* Cancels from many processes at once. Returns how many got a receipt, which must be the same for
 * all. */
static size_t cancel_by_many(const char *name)
{
    char first[BL_ID_SIZE] = "";
    size_t receipts = 0;

    for (unsigned long round = 0; round < suite_rounds(2, 125); round++) {
        for (size_t i = 0; i < CANCELLERS; i++)
            START(&cancellers[i], "feature", "cancel", name, "--json");
        for (size_t i = 0; i < CANCELLERS; i++) {
            held_wait(&cancellers[i]);
            assert_int_equal(cancellers[i].exit_code, 0);
            const struct bl_json *answer = stage_json(held_out(&cancellers[i]));
            runner_check_schema("feature-cancel", held_out(&cancellers[i]));
            if (!stage_null_at(answer, "/receipt")) {
                const char *id = stage_text_at(answer, "/receipt/id");
                assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
                if (first[0] == '\0')
                    bl_text_into(first, sizeof first, id);
                assert_string_equal(id, first);
                receipts++;
            }
            held_end(&cancellers[i]);
        }
    }
    return receipts;
}

static void F12_F18_one_of_three_is_cancelled_once_by_8_processes_and_the_others_continue(
    void **state)
{
    (void)state;
    make_plan();
    START(&held, "feature", "run", "FEAT-X", "--output-format", "stream-json");
    await_player("TASK-1");
    await_player("TASK-2");
    await_player("TASK-3");
    assert_true(cancel_by_many("FEAT-X/TASK-2") >= 1);
    size_t events = count_events("TASK-2");
    assert_int_equal(stage_lines_with(run.out, "\"type\":\"task_ended\""), 1);
    assert_int_equal(stage_lines_with(run.out, "\"type\":\"checkpoint_saved\""), 1);
    RUN(&run, "feature", "cancel", "TASK-2");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "FEAT-X/TASK-2 has already ended: it is cancelled.\n");
    assert_int_equal(count_events("TASK-2"), events);
    RUN(&run, "feature", "status", "TASK-2", "--json");
    runner_check_schema("feature", run.out);
    RUN(&run, "feature", "cancel", "TASK-4");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean 'TASK-"));
    let_go("TASK-1");
    let_go("TASK-3");
    held_wait(&held);
    assert_int_equal(held.exit_code, 1);
    const struct bl_json *result = stage_json(stage_last_line(stage_output(&held)));
    assert_string_equal(stage_text_at(result, "/waves/0/tasks/0/state"), "completed");
    assert_string_equal(stage_text_at(result, "/waves/0/tasks/1/state"), "cancelled");
    assert_string_equal(stage_text_at(result, "/waves/0/tasks/2/state"), "completed");
    assert_int_equal(held_count(&held), 0);
}

/* The first reader settles what a dead runner left, and all readers see the same. */
static void F23_feature_of_a_killed_runner_is_interrupted_and_has_no_processes(void **state)
{
    (void)state;
    make_plan();
    START(&held, "feature", "run", "FEAT-X");
    await_player("TASK-1");
    await_player("TASK-2");
    await_player("TASK-3");
    kill(held.pid, SIGKILL);
    held_wait(&held);
    held_await_count(&held, 0);
    RUN(&run, "feature", "list");
    assert_int_equal(stage_lines_with(run.out, "  interrupted  0/3 "), 1);
    for (int i = 0; i < 2; i++) {
        RUN(&run, "feature", "status", "FEAT-X/TASK-1", "--json");
        const struct bl_json *answer = stage_json(run.out);
        assert_int_equal(run.exit_code, 0);
        runner_check_schema("feature", run.out);
        assert_string_equal(stage_text_at(answer, "/state"), "interrupted");
        assert_string_equal(stage_text_at(answer, "/task/state"), "interrupted");
        assert_string_equal(stage_text_at(answer, "/checkpoint/reason"), "owner_died");
        assert_string_equal(stage_text_at(answer, "/checkpoint/phase"), "player");
    }
    RUN(&run, "feature", "cancel", "FEAT-X");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "FEAT-X has already ended: it is interrupted.\n");
}

static void F32_F33_task_is_extended_and_feature_is_paused(void **state)
{
    (void)state;
    make_plan();
    START(&held, "feature", "run", "FEAT-X", "--task", "TASK-1", "--output-format", "stream-json");
    await_player("TASK-1");
    RUN(&run, "feature", "extend", "FEAT-X/TASK-1", "+5s", "--json");
    assert_int_equal(stage_number_at(stage_answer(&run, "feature-extend", 0), "/deadline_s"), 605);
    RUN(&run, "feature", "status", "TASK-1");
    assert_non_null(strstr(run.out, "Deadline   10m 5s ("));
    RUN(&run, "feature", "pause", "FEAT-X", "--json");
    assert_true(stage_true_at(stage_answer(&run, "feature-pause", 0), "/changed"));
    RUN(&run, "feature", "pause", "FEAT-X");
    assert_string_equal(run.out, "FEAT-X is already paused.\n");
    let_go("TASK-1");
    held_await(&held, "\"type\":\"phase_ended\"");
    RUN(&run, "feature", "status", "FEAT-X", "--json");
    assert_string_equal(stage_text_at(stage_json(run.out), "/state"), "paused");
    usleep(100000);
    assert_null(strstr(held_out(&held), "\"phase\":\"coach\""));
    RUN(&run, "feature", "resume", "FEAT-X");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "FEAT-X continues.\n");
    held_wait(&held);
    const struct bl_json *result = stage_json(stage_last_line(stage_output(&held)));
    assert_string_equal(stage_text_at(result, "/waves/0/tasks/0/state"), "completed");
    RUN(&run, "feature", "extend", "TASK-1", "+5s", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "feature-extend", 1), "/error/code"),
                        "too_late");
    RUN(&run, "feature", "clean", "FEAT-X", "--dry-run");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stage_lines_with(run.out, "would remove belay/FEAT-X/TASK-1, "), 1);
    assert_int_equal(stage_lines_with(run.out, "kept         belay/FEAT-X/_result: "), 1);
    assert_true(stage_exists(".belay/worktrees/FEAT-X/TASK-1"));
    RUN(&run, "feature", "clean", "FEAT-X", "--json");
    assert_int_equal(stage_number_at(stage_answer(&run, "feature-clean", 0), "/removed"), 1);
    assert_false(stage_exists(".belay/worktrees/FEAT-X/TASK-1"));
}

/* ---- report ---------------------------------------------------------------------------------- */

static void report_is_printed_or_written_completely(void **state)
{
    (void)state;
    put(recorded_login);
    RUN(&run, "feature", "report", "FEAT-A");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "TASK-2"));
    assert_null(strchr(run.out, '\x1b'));
    RUN(&run, "feature", "report", "FEAT-A", "--html", "-");
    assert_non_null(strstr(run.out, "<html"));
    stage_file("old.html", "old");
    assert_int_equal(symlink("old.html", "link.html"), 0);
    RUN(&run, "feature", "report", "FEAT-A", "--html", "link.html");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out,
                        stage_printf("Wrote the report to %s\n", stage_path("work/old.html")));
    struct stat status;
    assert_int_equal(lstat("link.html", &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    struct bl_text text = suite_read_file("old.html");
    assert_true(bl_text_find(text, BL_TEXT("<html")) >= 0);
    bl_free((void *)text.data);
    /* A path that is not a regular file is not replaced. */
    RUN(&run, "feature", "report", "FEAT-A", "--html", "/dev/null", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "feature-report", 0), "/file"),
                        "/dev/null");
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    RUN(&run, "feature", "report", "FEAT-A", "--json");
    assert_true(stage_null_at(stage_answer(&run, "feature-report", 0), "/file"));
    RUN(&run, "feature", "report", "FEAT-A", "--html", ".git", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "feature-report", 1), "/error/kind"),
                        "filesystem");
    RUN(&run, "feature", "report", "FEAT-A", "--html", "no/such/folder.html");
    assert_int_equal(run.exit_code, 1);
}

SUITE(feature_ask, RECORDED(F18_cancel_of_ended_or_idle_work_says_so_and_makes_no_event),
      RECORDED(runner_is_asked_and_its_answer_is_shown),
      RECORDED(F12_F18_one_of_three_is_cancelled_once_by_8_processes_and_the_others_continue),
      RECORDED(F23_feature_of_a_killed_runner_is_interrupted_and_has_no_processes),
      RECORDED(F32_F33_task_is_extended_and_feature_is_paused),
      RECORDED(report_is_printed_or_written_completely));
