#include "figure.h"
#include "stage.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STOP_MS 50 /* promised after the stop, and after the grace period */

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static void start(void)
{
    START(&held, "run", "hi", "--session", "nightly", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: 'echo rea\"\"dy; sleep 600'}}]\n"
                       "  - say: done\n"));
    held_await(&held, "ready");
}

static void a_run_is_stopped_by_its_session(void **state)
{
    (void)state;
    start();
    RUN(&run, "cancel", "nightly", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    assert_string_equal(stage_text_at(answer, "/id"), "nightly");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "user");
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    held_wait(&held);
    const struct bl_json *result = stage_result(&held, 130);
    assert_string_equal(stage_text_at(result, "/final_stop_reason"), "cancelled");
    assert_string_equal(stage_text_at(result, "/receipt/id"), stage_text_at(answer, "/receipt/id"));
    assert_int_equal(held_count(&held), 0);
}

static void a_run_is_stopped_by_its_own_id(void **state)
{
    (void)state;
    start();
    RUN(&run, "ps", "--json");
    const char *id = stage_text_at(stage_answer(&run, "ps", 0), "/activities/0/id");
    RUN(&run, "cancel", id);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_memory_equal(run.out, "Stopped in ", 11);
    assert_non_null(strstr(run.out, "process"));
    assert_non_null(strstr(run.out, "Nothing left running.\n"));
    held_wait(&held);
    stage_result(&held, 130);
}

/* Returns the bytes of a member of an answer. */
static const char *part(const char *line, const char *from, const char *to)
{
    const char *begin = strstr(line, from), *end = begin != NULL ? strstr(begin, to) : NULL;

    assert_non_null(end);
    return stage_keep((struct bl_text){begin, (size_t)(end - begin)});
}

static void R1_a_cancel_from_another_shell_prints_the_receipt_and_again_the_same(void **state)
{
    (void)state;
    start();
    RUN(&run, "ps", "--json");
    const char *id = stage_text_at(stage_answer(&run, "ps", 0), "/activities/0/id");
    double start_ms = (double)bl_clock_now_ns(&bl_clock_system) / 1e6;
    RUN(&run, "cancel", id, "--json");
    double took_ms = (double)bl_clock_now_ns(&bl_clock_system) / 1e6 - start_ms;
    assert_true(figure_at_most("R1 belay cancel of a run with a tool", took_ms, 300));
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    const char *receipt = part(run.out, "\"receipt\":", ",\"result\":null");
    held_wait(&held);
    assert_int_equal(held_count(&held), 0);
    /* By its own id and by its session, from the store. */
    const char *const again[] = {id, id, "nightly"};
    for (size_t i = 0; i < BL_COUNT(again); i++) {
        RUN(&run, "cancel", again[i], "--json");
        stage_answer(&run, "cancel", 0);
        assert_string_equal(part(run.out, "\"receipt\":", ",\"result\":null"), receipt);
    }
    RUN(&run, "cancel", id);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "Nothing left running.\n"));
}

static void result_of_ended_work_is_printed(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--session", "early", "--json", "--provider",
        stage_script("replies: [{say: done}]\n"));
    assert_int_equal(run.exit_code, 0);
    for (int i = 0; i < 2; i++) {
        RUN(&run, "cancel", "early", "--json");
        const struct bl_json *answer = stage_answer(&run, "cancel", 0);
        assert_true(stage_null_at(answer, "/receipt"));
        assert_string_equal(stage_text_at(answer, "/result/output"), "done");
    }
    RUN(&run, "cancel", "early");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "The work had ended before the stop reached it.\n");
}

static void work_that_was_cut_off_is_not_stopped_again(void **state)
{
    (void)state;
    start();
    kill(held.pid, SIGKILL);
    held_wait(&held);
    RUN(&run, "ps", "--json");
    const char *id = stage_text_at(stage_answer(&run, "ps", 0), "/processes/0/left/0/id");
    RUN(&run, "cancel", id, "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 1);
    assert_non_null(strstr(stage_text_at(answer, "/error/message"), "has started and not ended"));
}

static void process_that_does_not_answer_is_named(void **state)
{
    (void)state;
    start();
    kill(held.pid, SIGSTOP);
    RUN(&run, "cancel", "nightly", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 1);
    assert_string_equal(
        stage_text_at(answer, "/error/hint"),
        stage_printf("process %d does not answer, and may be running it", (int)held.pid));
    kill(held.pid, SIGCONT);
    RUN(&run, "cancel", "nightly", "--json");
    stage_answer(&run, "cancel", 0);
}

/* Connects to the only socket. */
static FILE *connect_control(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *folder = stage_printf("%s/belay/control", getenv("XDG_RUNTIME_DIR"));
    DIR *entries = opendir(folder);
    const char *name = NULL;

    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (bl_text_ends_with(bl_text_from(entry->d_name), BL_TEXT(".sock")))
            name = stage_printf("%s/%s", folder, entry->d_name);
    }
    closedir(entries);
    assert_non_null(name);
    bl_text_into(address.sun_path, sizeof address.sun_path, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fdopen(fd, "r");
}

/* Sends a request and returns its answer; counts the notifications before it. */
static const struct bl_json *ask_control(FILE *stream, const char *method, const char *params,
                                         unsigned *notified)
{
    static char line[1 << 20];

    assert_true(dprintf(fileno(stream),
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}\n", method,
                        params) > 0);
    for (;;) {
        assert_non_null(fgets(line, sizeof line, stream));
        const struct bl_json *answer = stage_json(line);
        if (bl_json_get(answer, BL_TEXT("id")) != NULL)
            return answer;
        if (strcmp(stage_text_at(answer, "/method"), "event") == 0)
            (*notified)++;
        else
            assert_string_equal(stage_text_at(answer, "/method"), "ended");
    }
}

static void control_socket_notifies_injects_and_skips_the_grace(void **state)
{
    unsigned notified = 0;

    (void)state;
    START(&held, "run", "hi", "--session", "nightly", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: \"trap '' TERM; echo rea''dy;"
                       " while :; do sleep 1; done\"}}]\n"
                       "  - say: done\n"));
    held_await(&held, "ready");
    FILE *control = connect_control();
    ask_control(control, "watch", "{\"id\":\"nightly\"}", &notified);
    const struct bl_json *answer =
        ask_control(control, "status", "{\"id\":\"nightly\"}", &notified);
    assert_string_equal(stage_text_at(answer, "/result/activities/0/phase"), "tool bash");
    answer =
        ask_control(control, "inject", "{\"session\":\"nightly\",\"text\":\"more\"}", &notified);
    assert_memory_equal(stage_text_at(answer, "/result/id"), "msg_", 4);
    notified = 0;
    answer = ask_control(control, "cancel",
                         "{\"id\":\"nightly\",\"now\":true,\"reason\":\"the test\"}", &notified);
    assert_string_equal(stage_text_at(answer, "/result/receipt/origin"), "control: the test");
    assert_string_equal(stage_text_at(answer, "/result/receipt/units/0/fate"), "killed");
    assert_int_equal(stage_number_at(answer, "/result/receipt/survivors"), 0);
    assert_true(notified >= 3); /* the end of the call, the receipt, the end of the turn */
    double quiet_ms = stage_double_at(answer, "/result/receipt/quiet_ms");
    assert_true(figure_at_most("03 cancel by the control socket, now", quiet_ms, STOP_MS));
    fclose(control);
    held_wait(&held);
    assert_int_equal(held_count(&held), 0);
}

/* Starts a tool that ignores SIGTERM, with a grace period of a minute. */
static void start_stubborn(void)
{
    START(&held, "run", "hi", "--session", "nightly", "--yolo", "--sandbox", "off", "--grace",
          "60s", "--output-format", "stream-json", "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: \"trap '' TERM; echo rea''dy;"
                       " while :; do sleep 1; done\"}}]\n"
                       "  - say: done\n"));
    held_await(&held, "ready");
}

static void now_skips_the_grace_period(void **state)
{
    (void)state;
    start_stubborn();
    RUN(&run, "cancel", "--now", "nightly", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    assert_string_equal(stage_text_at(answer, "/receipt/origin"), "belay cancel");
    assert_string_equal(stage_text_at(answer, "/receipt/units/0/fate"), "killed");
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    double quiet_ms = stage_double_at(answer, "/receipt/quiet_ms");
    assert_true(figure_at_most("03 belay cancel --now", quiet_ms, STOP_MS));
    held_wait(&held);
    assert_int_equal(held_count(&held), 0);
}

static void now_hurries_a_waiting_cancel(void **state)
{
    static struct held patient;

    (void)state;
    start_stubborn();
    START(&patient, "cancel", "nightly", "--json");
    do {
        RUN(&run, "ps", "--json");
    } while (strstr(run.out, "\"stopping\"") == NULL);
    RUN(&run, "cancel", "nightly", "--now", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    double took_s = held_wait(&patient);
    assert_true(took_s < 20);
    assert_int_equal(patient.exit_code, 0);
    assert_string_equal(stage_text_at(stage_json(held_out(&patient)), "/receipt/id"),
                        stage_text_at(answer, "/receipt/id"));
    held_end(&patient);
    held_wait(&held);
    assert_int_equal(held_count(&held), 0);
}

static void store_can_be_selected(void **state)
{
    const char *other = stage_path("other.db");

    (void)state;
    RUN(&run, "run", "hi", "--session", "early", "--store", other, "--json", "--provider",
        stage_script("replies: [{say: done}]\n"));
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "cancel", "early", "--json");
    stage_answer(&run, "cancel", 1);
    RUN(&run, "cancel", "early", "--store", other, "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cancel", 0), "/result/output"), "done");
    /* A missing store has no work; a file that is not a store is an error. */
    RUN(&run, "cancel", "early", "--store", stage_path("missing.db"), "--json");
    stage_answer(&run, "cancel", 1);
    assert_false(stage_exists(stage_path("missing.db")));
    RUN(&run, "cancel", "early", "--store", stage_file("text.db", "This is a text, not a store."),
        "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 1);
    assert_non_null(strstr(stage_text_at(answer, "/error/message"), "text.db"));
}

static void ambiguous_id_stops_nothing(void **state)
{
    static struct held other;

    (void)state;
    start();
    START(&other, "run", "hi", "--session", "second", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: 'echo rea\"\"dy; sleep 600'}}]\n"
                       "  - say: done\n"));
    held_await(&other, "ready");
    RUN(&run, "ps", "--json");
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    const char *call = stage_text_at(answer, "/activities/1/id");
    const char *name = stage_text_at(answer, "/activities/1/name");
    if (strcmp(call, stage_text_at(answer, "/activities/3/id")) == 0) {
        RUN(&run, "cancel", call, "--json");
        answer = stage_answer(&run, "cancel", 1);
        assert_non_null(strstr(stage_text_at(answer, "/error/message"), "nothing was stopped"));
        assert_non_null(strstr(stage_text_at(answer, "/error/hint"), name));
    }
    /* By the full name. */
    RUN(&run, "cancel", name, "--json");
    stage_answer(&run, "cancel", 0);
    RUN(&run, "cancel", "nightly");
    RUN(&run, "cancel", "second");
    held_end(&other);
}

static void call_is_stopped_and_its_run_continues(void **state)
{
    (void)state;
    start();
    RUN(&run, "ps", "--json");
    const char *id = stage_text_at(stage_answer(&run, "ps", 0), "/activities/1/id");
    RUN(&run, "cancel", id, "--json");
    stage_answer(&run, "cancel", 0);
    held_wait(&held);
    const struct bl_json *result = stage_result(&held, 0);
    assert_string_equal(stage_text_at(result, "/turns/0/output"), "done");
    assert_int_equal(held_count(&held), 0);
}

static void unknown_id_is_exit_code_1_with_a_suggestion(void **state)
{
    (void)state;
    RUN(&run, "cancel", "nightly");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "belay cancel: no running work with id 'nightly'\nhint: nothing "
                                 "is running; the work may have just ended\n");
    start();
    RUN(&run, "cancel", "nihgtly");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean 'nightly'?"));
    RUN(&run, "cancel", "something-else", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 1);
    assert_string_equal(stage_text_at(answer, "/error/hint"), "'belay ps' lists running work");
}

static void an_id_is_needed(void **state)
{
    static char long_id[10001];

    (void)state;
    memset(long_id, 'a', sizeof long_id - 1);
    RUN(&run, "cancel", "--json");
    stage_answer(&run, "cancel", 2);
    RUN(&run, "cancel", "", "--json");
    stage_answer(&run, "cancel", 2);
    RUN(&run, "cancel", long_id, "--json");
    stage_answer(&run, "cancel", 2);
    RUN(&run, "cancel", "a", "b", "--json");
    stage_answer(&run, "cancel", 2);
}

SUITE(cancel, HELD(a_run_is_stopped_by_its_session), HELD(a_run_is_stopped_by_its_own_id),
      HELD(R1_a_cancel_from_another_shell_prints_the_receipt_and_again_the_same),
      HELD(result_of_ended_work_is_printed), HELD(work_that_was_cut_off_is_not_stopped_again),
      HELD(process_that_does_not_answer_is_named),
      HELD(control_socket_notifies_injects_and_skips_the_grace), HELD(now_skips_the_grace_period),
      HELD(now_hurries_a_waiting_cancel), HELD(store_can_be_selected),
      HELD(ambiguous_id_stops_nothing), HELD(call_is_stopped_and_its_run_continues),
      HELD(unknown_id_is_exit_code_1_with_a_suggestion), HELD(an_id_is_needed));
