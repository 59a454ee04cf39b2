/* The queue of a fleet through the program: submit, wait, worker and fleet list. */
#include "postgres.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKERS_MAX 2

static struct run run;
static struct held workers[WORKERS_MAX], other;
static struct pg_server *server;
static char database[PG_ADDRESS_SIZE];
static char name[32];

static int end_all(void **state)
{
    for (size_t i = 0; i < WORKERS_MAX; i++)
        held_end(&workers[i]);
    held_end(&other);
    return stage_end(state);
}

#define QUEUED(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_all)

/* Makes an empty store with a short lease, another one for each test. */
static void make_store(void)
{
    static unsigned count;

    server = pg_server_shared();
    snprintf(name, sizeof name, "queue%u", ++count);
    assert_true(pg_server_database(server, name));
    pg_server_address(server, name, NULL, database);
    RUN(&run, "fleet", "init", "--store", database);
    if (run.exit_code != 0)
        fail_msg("%s", run.err);
    assert_true(
        pg_server_change(server, name, "update belay.fleet set lease_ms = 6000, renew_ms = 1000"));
    setenv("BELAY_STORE", database, 1);
}

/* Starts a worker as if on that host. Items choose their own scripts, by --model. */
#define WORK(index, host, ...)                                                                     \
    held_start(&workers[index],                                                                    \
               (const char *const[]){"/usr/bin/env", "BELAY_HOST=" host, runner_program(),         \
                                     "worker", "--provider", "script", "--model", idle_script(),   \
                                     "--yolo", "--sandbox", "off", __VA_ARGS__, NULL},             \
               HELD_NULL, RUN_KEEP)

/* Writes a script and returns its path. */
static const char *script_file(const char *file, const char *yaml)
{
    return stage_file(file, yaml);
}

static const char *idle_script(void)
{
    return script_file("idle.yaml", "replies: [{say: idle}]\n");
}

/* Submits, and returns the id. */
#define SUBMIT(...) (RUN(&run, "submit", __VA_ARGS__), submitted())
static const char *submitted(void)
{
    if (run.exit_code != 0)
        fail_msg("%s", run.err);
    assert_int_equal(strncmp(run.out, "run_", 4), 0);
    assert_int_equal(run.out[strlen(run.out) - 1], '\n');
    return stage_printf("%.*s", (int)strlen(run.out) - 1, run.out);
}

static void await_state(const char *id, const char *state)
{
    const char *sql = stage_printf("select state from belay.all_items where id = '%s'", id);

    if (!pg_server_await(server, name, sql, state, 30000))
        fail_msg("%s did not become %s", id, state);
}

static void drain(size_t index)
{
    kill(workers[index].pid, SIGTERM);
    held_wait(&workers[index]);
    if (workers[index].exit_code != 0)
        fail_msg("%s", held_err(&workers[index]));
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Waits five times: the same bytes, the envelope of run, the same exit code. */
static const struct bl_json *check_answer(const char *id, int exit_code)
{
    const char *first = NULL;

    for (int i = 0; i < 5; i++) {
        RUN(&run, "wait", id, "--json");
        const char *line = stage_printf("%s", run.out);
        if (run.exit_code != exit_code)
            fail_msg("exit code %d (expected %d): %s%s", run.exit_code, exit_code, run.out,
                     run.err);
        assert_string_equal(run.err, "");
        if (first != NULL)
            assert_string_equal(line, first);
        first = line;
    }
    const struct bl_json *answer = stage_answer(&run, "run", exit_code);
    assert_string_equal(stage_text_at(answer, "/command"), "run");
    return answer;
}

static void W37_wait_prints_the_answer_of_run(void **state)
{
    (void)state;
    make_store();
    const char *say = script_file("say.yaml", "replies: [{say: hello}]\n");
    const char *fail = script_file("fail.yaml", "replies: [{error: {status: 400}}]\n");
    const char *steps = script_file(
        "steps.yaml", "replies: [{tools: [{name: bash, input: {command: 'true'}}]}, "
                      "{tools: [{name: bash, input: {command: 'true'}}]}, {say: no}]\n");
    const char *hang = script_file("hang.yaml", "replies: [{wedge: before_first_token}]\n");
    WORK(0, "a", "--slots", "8");
    const char *completed = SUBMIT("hi", "--model", say, "--session", "s");
    const char *failed = SUBMIT("hi", "--model", fail);
    const char *limited = SUBMIT("hi", "--model", steps, "--max-steps", "1");
    const char *late = SUBMIT("hi", "--model", hang, "--timeout", "1s");
    const char *stopped = SUBMIT("hi", "--model", hang);
    const struct bl_json *answer = check_answer(completed, 0);
    assert_string_equal(stage_text_at(answer, "/result"), "hello");
    assert_string_equal(stage_text_at(answer, "/session_id"), "s");
    answer = check_answer(failed, 1);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "error");
    check_answer(limited, 3);
    answer = check_answer(late, 124);
    assert_int_equal(stage_number_at(answer, "/timeout_seconds"), 1);
    /* The control socket of the worker knows the run by the id of its item. */
    await_state(stopped, "running");
    do
        RUN(&run, "cancel", stopped);
    while (run.exit_code != 0 && strstr(run.err, "no running work") != NULL);
    assert_int_equal(run.exit_code, 0);
    answer = check_answer(stopped, 130);
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    /* In text, what run prints. */
    RUN(&run, "wait", completed);
    assert_string_equal(run.out, "hello\n");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "wait", stopped);
    assert_int_equal(run.exit_code, 130);
    assert_string_equal(run.out, "");
    assert_non_null(strstr(run.err, "Nothing left running."));
    RUN(&run, "wait", failed);
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "belay wait: error: "));
    drain(0);
    assert_non_null(strstr(held_err(&workers[0]), "belay worker: waiting for work: pool main, 8 "
                                                  "slots, store postgres://"));
    assert_non_null(strstr(held_err(&workers[0]), stage_printf("%s completed after ", completed)));
    assert_non_null(strstr(held_err(&workers[0]), "ended; 5 runs: "));
}

static void submit_waits_for_the_answer(void **state)
{
    (void)state;
    make_store();
    const char *say = script_file("say.yaml", "replies: [{say: hello}]\n");
    WORK(0, "a", "--quiet");
    RUN(&run, "submit", "hi", "--model", say, "--wait");
    assert_string_equal(run.out, "hello\n");
    assert_non_null(strstr(run.err, "Ctrl-C ends only this command"));
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "submit", "hi", "--model", say, "--wait", "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "submit", "hi", "--json");
    const struct bl_json *answer = stage_answer(&run, "submit", 0);
    assert_string_equal(stage_text_at(answer, "/pool"), "main");
    check_answer(stage_text_at(answer, "/id"), 0);
    drain(0);
    assert_null(strstr(held_err(&workers[0]), "began"));
}

static void waits_end_without_the_work(void **state)
{
    (void)state;
    make_store();
    const char *id = SUBMIT("hi");
    RUN(&run, "wait", id, "--timeout", "300ms");
    assert_int_equal(run.exit_code, 75);
    assert_non_null(strstr(run.err, "is still queued"));
    RUN(&run, "wait", id, "--timeout", "0", "--json");
    stage_answer(&run, "envelope", 75);
    START(&other, "submit", "hi", "--wait");
    while (strstr(held_err(&other), "waiting for run_") == NULL)
        usleep(5000);
    kill(other.pid, SIGINT);
    held_wait(&other);
    assert_int_equal(other.exit_code, 130);
    assert_non_null(strstr(held_err(&other), "continues\nhint: 'belay cancel run_"));
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.item"), 2);
    RUN(&run, "wait", "run_none");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "no item with id 'run_none'"));
}

/* ---- Submitting ------------------------------------------------------------------------------ */

static void W33_one_request_id_makes_one_item(void **state)
{
    struct held each[8] = {0};
    const char *id = NULL;

    (void)state;
    make_store();
    for (size_t i = 0; i < BL_COUNT(each); i++)
        START(&each[i], "submit", "hi", "--request-id", "nightly");
    for (size_t i = 0; i < BL_COUNT(each); i++) {
        held_wait(&each[i]);
        assert_int_equal(each[i].exit_code, 0);
        const char *line = stage_printf("%s", held_out(&each[i]));
        if (id != NULL)
            assert_string_equal(line, id);
        id = line;
        held_end(&each[i]);
    }
    RUN(&run, "submit", "other", "--request-id", "nightly");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "another prompt"));
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.item"), 1);
    WORK(0, "a", "--until-idle", "500ms");
    held_wait(&workers[0]);
    assert_int_equal(workers[0].exit_code, 0);
    RUN(&run, "submit", "hi", "--request-id", "nightly");
    assert_string_equal(run.out, id);
}

static void refused(const char *message)
{
    if (run.exit_code != 2 || strstr(run.err, message) == NULL)
        fail_msg("exit code %d, and not '%s':\n%s%s", run.exit_code, message, run.out, run.err);
}

static void wrong_values_are_refused(void **state)
{
    static const struct {
        const char *option, *value;
    } submits[] = {
        {"--pool", "a b"},
        {"--pool", ""},
        {"--label", "gpu"},
        {"--label", "=x"},
        {"--label", "a b=c"},
        {"--key", ""},
        {"--weight", "0"},
        {"--weight", "1001"},
        {"--priority", "10"},
        {"--priority", "x"},
        {"--limit-key", ""},
        {"--in", "0"},
        {"--in", "soon"},
        {"--at", "tomorrow"},
        {"--at", "2026-13-01T00:00:00Z"},
        {"--retry", "101"},
        {"--retry", "-1"},
        {"--retry-delay", "11m"},
        {"--retry-on", "cancelled"},
        {"--retry-on", "error,error"},
        {"--retry-on", ""},
        {"--request-id", "a b"},
        {"--dir", "relative"},
        {"--dir", ""},
        {"--trace-parent", "00-1"},
        {"--timeout", "0"},
        {"--max-turns", "0"},
        {"--max-budget-usd", "-1"},
        {"--permission-mode", "all"},
        {"--session", "A"},
        {"--repo", "url"},
    };
    static const struct {
        const char *option, *value;
    } serves[] = {
        {"--pool", "a b"},
        {"--label", "gpu"},
        {"--slots", "0"},
        {"--slots", "1025"},
        {"--drain", "x"},
        {"--until-idle", "0"},
        {"--permission-mode", "all"},
        {"--max-budget-usd", "x"},
    };

    (void)state;
    setenv("BELAY_STORE", "postgres://ann@127.0.0.1:1/x", 1);
    for (size_t i = 0; i < BL_COUNT(submits); i++) {
        RUN(&run, "submit", "hi", submits[i].option, submits[i].value);
        refused(submits[i].option);
    }
    for (size_t i = 0; i < BL_COUNT(serves); i++) {
        RUN(&run, "worker", serves[i].option, serves[i].value);
        refused(serves[i].option);
    }
    RUN(&run, "submit", "hi", "--in", "1s", "--at", "2026-11-20T03:00:00Z");
    refused("--in and --at exclude each other");
    RUN(&run, "submit", "");
    refused("the prompt is empty");
    RUN(&run, "wait");
    refused("ID");
    RUN(&run, "wait", "x", "--timeout", "-1");
    refused("--timeout");
    RUN(&run, "fleet", "list", "--state", "gone");
    refused("--state");
}

static void files_have_no_queue(void **state)
{
    (void)state;
    unsetenv("BELAY_STORE");
    RUN(&run, "worker", "--store", "work.db");
    refused("store 'work.db' is a file");
    RUN(&run, "submit", "hi", "--store", "work.db");
    refused("store 'work.db' is a file");
    RUN(&run, "wait", "x", "--store", "work.db");
    refused("store 'work.db' is a file");
    RUN(&run, "fleet", "list", "--store", "work.db");
    refused("store 'work.db' is a file");
    RUN(&run, "worker");
    refused("no database is named");
    RUN(&run, "submit", "hi");
    refused("no database is named");
    assert_false(stage_exists(stage_path("work/work.db")));
}

static void items_are_listed(void **state)
{
    (void)state;
    make_store();
    const char *first = SUBMIT("hi", "--key", "k");
    const char *second = SUBMIT("hi", "--pool", "other");
    const char *third = SUBMIT("hi", "--in", "1h");
    RUN(&run, "fleet", "list", "--json");
    const struct bl_json *answer = stage_answer(&run, "fleet-list", 0);
    assert_int_equal(stage_size_at(answer, "/items"), 3);
    assert_string_equal(stage_text_at(answer, "/items/0/id"), first);
    assert_string_equal(stage_text_at(answer, "/items/2/state"), "delayed");
    assert_true(stage_null_at(answer, "/next"));
    RUN(&run, "fleet", "list", "--pool", "other");
    assert_int_equal(stage_lines_with(run.out, "run_"), 1);
    assert_non_null(strstr(run.out, second));
    RUN(&run, "fleet", "list", "--key", "k");
    assert_int_equal(stage_lines_with(run.out, first), 1);
    assert_int_equal(stage_lines_with(run.out, "run_"), 1);
    RUN(&run, "fleet", "list", "--state", "delayed");
    assert_int_equal(stage_lines_with(run.out, third), 1);
    RUN(&run, "fleet", "list", "--state", "failed");
    assert_string_equal(run.out, "No items.\n");
    RUN(&run, "fleet", "list", "--limit", "2");
    assert_non_null(strstr(run.out, stage_printf("--after %s\n", second)));
    RUN(&run, "fleet", "list", "--limit", "2", "--after", second);
    assert_int_equal(stage_lines_with(run.out, "run_"), 1);
    WORK(0, "a", "--until-idle", "500ms");
    held_wait(&workers[0]);
    RUN(&run, "fleet", "list", "--ended", "--state", "completed", "--json");
    answer = stage_answer(&run, "fleet-list", 0);
    assert_int_equal(stage_size_at(answer, "/items"), 1);
    assert_string_equal(stage_text_at(answer, "/items/0/host"), "a");
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void tools_of_an_item_know_it_and_its_directory_is_removed(void **state)
{
    static const char trace[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    (void)state;
    make_store();
    const char *out = stage_path("said");
    const char *say = script_file(
        "env.yaml",
        stage_printf("replies: [{tools: [{name: bash, input: {command: 'touch here; (pwd; ls; echo "
                     "$BELAY_ITEM $BELAY_EPOCH $TRACEPARENT; echo ${BELAY_STORE-none}) > %s'}}]}, "
                     "{say: done}]\n",
                     out));
    WORK(0, "a", "--until-idle", "500ms");
    const char *id = SUBMIT("hi", "--model", say, "--trace-parent", trace);
    check_answer(id, 0);
    struct bl_text text = suite_read_file(out), rest = text, line;
    bl_text_split(&rest, '\n', &line);
    const char *directory = stage_keep(line);
    assert_non_null(strstr(directory, "/belay/items/"));
    assert_string_equal(stage_keep(rest), stage_printf("here\n%s 1 %s\nnone\n", id, trace));
    bl_free((void *)text.data);
    held_wait(&workers[0]);
    assert_false(stage_exists(directory));
}

static void items_that_a_worker_cannot_run_fail_with_the_reason(void **state)
{
    (void)state;
    make_store();
    WORK(0, "a", "--permission-mode", "auto");
    const char *folder = SUBMIT("hi", "--dir", "/no/such/folder");
    const char *mode = SUBMIT("hi", "--permission-mode", "yolo");
    RUN(&run, "wait", folder);
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "the folder '/no/such/folder' cannot be used"));
    RUN(&run, "wait", mode, "--json");
    stage_answer(&run, "run", 2);
    assert_non_null(strstr(run.out, "permission mode 'yolo' allows more than 'auto'"));
    drain(0);
}

static void W16_runs_on_two_hosts_complete_once(void **state)
{
    const char *ids[10];

    (void)state;
    make_store();
    const char *say =
        script_file("slow.yaml", "replies: [{tools: [{name: bash, input: {command: 'sleep 0.2'}}]}"
                                 ", {say: done}]\n");
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        ids[i] = SUBMIT("hi", "--model", say);
    WORK(0, "a", "--slots", "1");
    WORK(1, "b", "--slots", "1");
    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        RUN(&run, "wait", ids[i]);
        assert_string_equal(run.out, "done\n");
        assert_int_equal(run.exit_code, 0);
    }
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.turn"), 10);
    assert_int_equal(
        pg_server_ask_integer(server, name, "select count(distinct run) from belay.turn"), 10);
    assert_int_equal(
        pg_server_ask_integer(server, name, "select count(distinct host) from belay.ended"), 2);
    drain(0);
    drain(1);
}

/* As if a worker had died after the commit, and before it reported the end. */
static void committed_turn_of_an_item_is_not_run_again(void **state)
{
    (void)state;
    make_store();
    const char *id = SUBMIT("hi", "--model", script_file("b.yaml", "replies: [{say: again}]\n"));
    RUN(&run, "run", "hi", "--request-id", id, "--provider",
        stage_script("replies: [{say: first}]\n"));
    assert_string_equal(run.out, "first\n");
    WORK(0, "a", "--until-idle", "500ms");
    const struct bl_json *answer = check_answer(id, 0);
    assert_string_equal(stage_text_at(answer, "/result"), "first");
    assert_int_equal(stage_size_at(answer, "/turns"), 1);
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.turn"), 1);
    RUN(&run, "wait", id);
    assert_string_equal(run.out, "first\n");
}

/* Without a try that can succeed, the item fails after its retries; each is counted. */
static void errors_that_a_retry_may_fix_are_retried(void **state)
{
    (void)state;
    make_store();
    const char *busy = script_file(
        "busy.yaml", "replies: [{tools: [{name: bash, input: {command: 'sleep 1000'}}]}]\n");
    WORK(0, "a", "--slots", "4");
    const char *late = SUBMIT("hi", "--model", busy, "--timeout", "300ms", "--retry-on", "timeout",
                              "--retry", "2", "--retry-delay", "100ms");
    const char *once = SUBMIT("hi", "--model", busy, "--timeout", "300ms");
    const struct bl_json *answer = check_answer(late, 124);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "timeout");
    check_answer(once, 124);
    assert_int_equal(
        pg_server_ask_integer(server, name,
                              stage_printf("select tries from belay.ended where id = '%s'", late)),
        2);
    assert_int_equal(
        pg_server_ask_integer(server, name,
                              stage_printf("select tries from belay.ended where id = '%s'", once)),
        0);
}

/* Stops a call, and then the item, by the database alone. */
static void stops_in_the_database_reach_the_worker(void **state)
{
    char stop[64];

    (void)state;
    make_store();
    const char *id = SUBMIT(
        "hi", "--model",
        script_file("calls.yaml",
                    stage_printf("replies: [{tools: [{name: bash, id: first, input: {command: "
                                 "'touch %s; sleep 1000'}}]}, {tools: [{name: bash, id: second, "
                                 "input: {command: 'touch %s; sleep 1000'}}]}, {say: done}]\n",
                                 stage_path("one"), stage_path("two"))));
    WORK(0, "a", "--slots", "1");
    stage_await_file(stage_path("one"));
    assert_true(pg_server_ask(server, name,
                              stage_printf("select belay.stop('%s', 'first', 'test', false)", id),
                              stop, sizeof stop));
    stage_await_file(stage_path("two"));
    assert_true(pg_server_ask(server, name, stage_printf("select belay.cancel('%s')", id), stop,
                              sizeof stop));
    const struct bl_json *answer = check_answer(id, 130);
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    drain(0);
}

/* The tool of the first start waits for ever; that of the second one finds a file, and ends. */
static const char *twice_script(void)
{
    return script_file(
        "twice.yaml",
        stage_printf("replies: [{tools: [{name: bash, input: {command: 'if [ -e %s ]; then exit 0; "
                     "fi; echo $BELAY_EPOCH > %s; setsid sleep 1000 & sleep 1000'}}]}, {say: "
                     "done}]\n",
                     stage_path("begun"), stage_path("begun")));
}

static void W18_item_of_a_killed_worker_is_run_again(void **state)
{
    (void)state;
    make_store();
    WORK(0, "a", "--slots", "2");
    const char *id = SUBMIT("hi", "--model", twice_script());
    stage_await_file(stage_path("begun"));
    WORK(1, "a", "--slots", "2");
    held_await_count(&workers[1], 1);
    held_kill(&workers[0]);
    uint64_t from_ns = bl_clock_now_ns(&bl_clock_system);
    RUN(&run, "wait", id, "--timeout", "25s", "--json");
    uint64_t took_ms = (bl_clock_now_ns(&bl_clock_system) - from_ns) / BL_NS_PER_MS;
    stage_answer(&run, "run", 0);
    if (took_ms > 15000)
        fail_msg("the item was run again after %llu ms", (unsigned long long)took_ms);
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.turn"), 1);
    assert_int_equal(pg_server_ask_integer(server, name, "select deaths from belay.ended"), 1);
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.session"), 1);
    drain(1);
}

static void worker_that_is_stopped_gives_its_items_back(void **state)
{
    (void)state;
    make_store();
    WORK(0, "a", "--drain", "60s");
    const char *id = SUBMIT("hi", "--model", twice_script());
    stage_await_file(stage_path("begun"));
    kill(workers[0].pid, SIGTERM);
    while (strstr(held_err(&workers[0]), "draining") == NULL)
        usleep(5000);
    kill(workers[0].pid, SIGTERM);
    held_wait(&workers[0]);
    assert_int_equal(workers[0].exit_code, 0);
    await_state(id, "queued");
    WORK(1, "b", "--until-idle", "500ms");
    check_answer(id, 0);
    held_wait(&workers[1]);
    assert_int_equal(pg_server_ask_integer(server, name, "select deaths from belay.ended"), 0);
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.session"), 1);
}

SUITE(queue, QUEUED(wrong_values_are_refused), QUEUED(files_have_no_queue),
      QUEUED(W37_wait_prints_the_answer_of_run), QUEUED(submit_waits_for_the_answer),
      QUEUED(waits_end_without_the_work), QUEUED(W33_one_request_id_makes_one_item),
      QUEUED(items_are_listed), QUEUED(tools_of_an_item_know_it_and_its_directory_is_removed),
      QUEUED(items_that_a_worker_cannot_run_fail_with_the_reason),
      QUEUED(committed_turn_of_an_item_is_not_run_again),
      QUEUED(errors_that_a_retry_may_fix_are_retried),
      QUEUED(stops_in_the_database_reach_the_worker), QUEUED(W16_runs_on_two_hosts_complete_once),
      QUEUED(W18_item_of_a_killed_worker_is_run_again),
      QUEUED(worker_that_is_stopped_gives_its_items_back));
