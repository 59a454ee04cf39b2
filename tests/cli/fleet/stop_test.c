/* Stops across machines through the program: cancel, and ps. A host of its own here is a name, a folder for
 * control sockets and a folder for items: what one host runs can be reached by another through the
 * database alone. */
#include "postgres.h"
#include "process.h"
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKERS_MAX  2
#define CHILDREN_MAX 64
/* Ten ticks take far less. */
#define SILENCE_US 200000

static struct run run;
static struct held workers[WORKERS_MAX], others[8];
static struct pg_server *server;
static char database[PG_ADDRESS_SIZE];
static char name[32];

/* Sends the signal to the worker and to its wardens, which would end the tools by themselves. Returns
 * the number of wardens. */
static size_t signal_worker(const struct held *worker, int number)
{
    pid_t children[CHILDREN_MAX];
    size_t count = process_children(worker->pid, children, BL_COUNT(children));

    kill(worker->pid, number);
    for (size_t i = 0; i < count; i++)
        kill(children[i], number);
    return count;
}

/* A warden that a failed test left frozen would never end. */
static int end_all(void **state)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (workers[i].pid > 0)
            signal_worker(&workers[i], SIGCONT);
        held_end(&workers[i]);
    }
    for (size_t i = 0; i < BL_COUNT(others); i++)
        held_end(&others[i]);
    unsetenv("BELAY_HOST");
    unsetenv("XDG_STATE_HOME");
    return stage_end(state);
}

#define STOPPED(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_all)

/* Makes an empty store with a heartbeat every second, another one for each test. */
static void make_store(unsigned lease_s)
{
    static unsigned count;

    server = pg_server_shared();
    snprintf(name, sizeof name, "stop%u", ++count);
    assert_true(pg_server_database(server, name));
    pg_server_address(server, name, NULL, database);
    RUN(&run, "fleet", "init", "--store", database);
    if (run.exit_code != 0)
        fail_msg("%s", run.err);
    assert_true(pg_server_change(
        server, name,
        stage_printf("update belay.fleet set lease_ms = %u, renew_ms = 1000", lease_s * 1000)));
    setenv("BELAY_STORE", database, 1);
}

static void make_folder(const char *variable, const char *host)
{
    const char *path = stage_path(stage_printf("%s-%s", variable, host));

    mkdir(path, 0700);
    setenv(variable, path, 1);
}

/* What is started from now on runs on that host. */
static void go_to(const char *host)
{
    setenv("BELAY_HOST", host, 1);
    make_folder("XDG_RUNTIME_DIR", host);
    make_folder("XDG_STATE_HOME", host);
}

/* Starts a worker on the host, with a pool of the same name. */
static void work(size_t index, const char *host)
{
    go_to(host);
    held_start(&workers[index],
               (const char *const[]){runner_program(), "worker", "--provider", "script", "--model",
                                     stage_file("idle.yaml", "replies: [{say: idle}]\n"), "--yolo",
                                     "--sandbox", "off", "--slots", "8", "--pool", host, NULL},
               HELD_NULL, RUN_KEEP);
}

/* Submits, and returns the id. */
#define SUBMIT(...) (RUN(&run, "submit", __VA_ARGS__), submitted())
static const char *submitted(void)
{
    if (run.exit_code != 0)
        fail_msg("%s", run.err);
    assert_int_equal(strncmp(run.out, "run_", 4), 0);
    return stage_printf("%.*s", (int)strlen(run.out) - 1, run.out);
}

static void await_state(const char *id, const char *state)
{
    const char *sql = stage_printf("select state from belay.all_items where id = '%s'", id);

    if (!pg_server_await(server, name, sql, state, 30000))
        fail_msg("%s did not become %s", id, state);
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

/* Its tool has a child in a session of its own that writes a line every 10 ms; then it says done. */
static const char *ticking(void)
{
    return stage_printf(
        "replies: [{tools: [{name: bash, id: first, input: {command: 'setsid sh -c \"while :; do "
        "echo >>%s; sleep 0.01; done\" & sleep 1000'}}]}, {say: done}]\n",
        stage_path("ticks"));
}

static const char *ticking_file(void)
{
    return stage_file("ticking.yaml", ticking());
}

static int64_t ticks(void)
{
    struct stat status;

    return stat(stage_path("ticks"), &status) == 0 ? status.st_size : 0;
}

static void await_ticks(void)
{
    int64_t more = ticks() + 3;

    stage_await_file(stage_path("ticks"));
    while (ticks() < more)
        usleep(5000);
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

static const struct bl_json *cancel(const char *id, int exit_code)
{
    RUN(&run, "cancel", id, "--json");
    if (run.exit_code != exit_code)
        fail_msg("exit code %d (expected %d): %s%s", run.exit_code, exit_code, run.out, run.err);
    return stage_answer(&run, "cancel", exit_code);
}

/* Cancels what ticks; returns the receipt's id. The command has returned: nothing ticks any more. */
static const char *cancel_ticking(const char *id)
{
    const struct bl_json *answer = cancel(id, 0);
    int64_t before = ticks();

    usleep(SILENCE_US);
    assert_int_equal(ticks(), before);
    assert_string_equal(stage_text_at(answer, "/id"), id);
    assert_string_equal(stage_text_at(answer, "/host"), "b");
    assert_int_equal(strncmp(stage_text_at(answer, "/worker"), "own_", 4), 0);
    assert_true(stage_true_at(answer, "/fenced"));
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "user");
    return stage_text_at(answer, "/receipt/id");
}

/* Cancels again, from three hosts: the same receipt. */
static void cancel_again(const char *id, const char *receipt)
{
    static const char *const hosts[] = {"a", "c", "b"};

    for (size_t i = 0; i < BL_COUNT(hosts); i++) {
        go_to(hosts[i]);
        const struct bl_json *answer = cancel(id, 0);
        assert_string_equal(stage_text_at(answer, "/receipt/id"), receipt);
        assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    }
}

static void W39_item_on_another_host_is_stopped(void **state)
{
    (void)state;
    make_store(12);
    work(0, "b");
    go_to("a");
    const char *id = SUBMIT("hi", "--pool", "b", "--model", ticking_file());
    await_ticks();
    const char *receipt = cancel_ticking(id);
    cancel_again(id, receipt);
    RUN(&run, "wait", id, "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 130);
    assert_string_equal(stage_text_at(answer, "/receipt/id"), receipt);
    RUN(&run, "cancel", id);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "Nothing left running. (host b)\n"));
    /* The worker runs what comes next. */
    id = SUBMIT("hi", "--pool", "b");
    RUN(&run, "wait", id);
    assert_string_equal(run.out, "idle\n");
}

static void W39_item_on_another_host_is_stopped_by_its_session(void **state)
{
    (void)state;
    make_store(12);
    work(0, "b");
    go_to("a");
    const char *id = SUBMIT("hi", "--pool", "b", "--session", "nightly", "--model", ticking_file());
    await_ticks();
    const char *receipt = cancel_ticking("nightly");
    cancel_again("nightly", receipt);
    cancel_again(id, receipt);
    RUN(&run, "wait", id);
    assert_int_equal(run.exit_code, 130);
}

/* Begins a run on host b that no worker has claimed. */
static void begin_run(const char *session)
{
    go_to("b");
    START(&others[0], "run", "hi", "--session", session, "--yolo", "--sandbox", "off", "--json",
          "--provider", stage_script(ticking()));
    await_ticks();
}

static void check_run(const char *receipt)
{
    held_wait(&others[0]);
    const struct bl_json *result = stage_result(&others[0], 130);
    assert_string_equal(stage_text_at(result, "/final_stop_reason"), "cancelled");
    assert_string_equal(stage_text_at(result, "/receipt/id"), receipt);
    assert_int_equal(held_count(&others[0]), 0);
    held_end(&others[0]);
}

static void W39_run_on_another_host_is_stopped_by_both_of_its_ids(void **state)
{
    (void)state;
    make_store(12);
    begin_run("s-1");
    go_to("a");
    const char *receipt = cancel_ticking("s-1");
    check_run(receipt);
    cancel_again("s-1", receipt);
    begin_run("s-2");
    RUN(&run, "ps", "--json");
    const char *id = stage_text_at(stage_answer(&run, "ps", 0), "/activities/0/id");
    go_to("a");
    receipt = cancel_ticking(id);
    check_run(receipt);
    cancel_again(id, receipt);
    cancel_again("s-2", receipt);
}

static void W45_chat_on_another_host_continues_after_a_stop(void **state)
{
    int ends[2];

    (void)state;
    make_store(12);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    go_to("b");
    held_start(&others[0],
               (const char *const[]){runner_program(), "chat", "--session", "talk", "--provider",
                                     stage_script(ticking()), "--yolo", "--sandbox", "off", NULL},
               ends[0], RUN_KEEP);
    close(ends[0]);
    assert_int_equal(write(ends[1], "first\n", 6), 6);
    await_ticks();
    go_to("a");
    cancel_ticking("talk");
    assert_int_equal(write(ends[1], "second\n", 7), 7);
    close(ends[1]);
    held_wait(&others[0]);
    assert_int_equal(others[0].exit_code, 0);
    assert_non_null(strstr(held_out(&others[0]), "done\n"));
    assert_non_null(strstr(held_err(&others[0]), "Nothing left running."));
}

static void W44_item_that_waits_is_cancelled(void **state)
{
    (void)state;
    make_store(12);
    go_to("a");
    assert_true(pg_server_change(server, name, "select belay.set_limit('k', 1)"));
    const char *permitted = SUBMIT("hi", "--pool", "b", "--limit-key", "k");
    const struct {
        const char *id, *state;
    } waiting[] = {
        {SUBMIT("hi", "--pool", "b"), "queued"},
        {SUBMIT("hi", "--pool", "b", "--in", "1h"), "delayed"},
        {SUBMIT("hi", "--pool", "b", "--limit-key", "k"), "parked"},
    };
    for (size_t i = 0; i < BL_COUNT(waiting); i++) {
        await_state(waiting[i].id, waiting[i].state);
        go_to("a");
        const struct bl_json *answer = cancel(waiting[i].id, 0);
        assert_true(stage_true_at(answer, "/fenced"));
        assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
        assert_int_equal(stage_size_at(answer, "/receipt/units"), 1);
        assert_string_equal(stage_text_at(answer, "/receipt/units/0/fate"), "never_started");
        cancel_again(waiting[i].id, stage_text_at(answer, "/receipt/id"));
        await_state(waiting[i].id, "cancelled");
        RUN(&run, "wait", waiting[i].id);
        assert_int_equal(run.exit_code, 130);
    }
    /* A worker runs only what was not cancelled. */
    work(0, "b");
    RUN(&run, "wait", permitted);
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.run"), 1);
}

static void W45_one_call_on_another_host_is_stopped(void **state)
{
    (void)state;
    make_store(12);
    work(0, "b");
    go_to("a");
    const char *id = SUBMIT("hi", "--pool", "b", "--model", ticking_file());
    await_ticks();
    RUN(&run, "cancel", stage_printf("%s/first", id), "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    int64_t before = ticks();
    usleep(SILENCE_US);
    assert_int_equal(ticks(), before);
    assert_string_equal(stage_text_at(answer, "/host"), "b");
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    assert_false(stage_true_at(answer, "/fenced"));
    RUN(&run, "wait", id);
    assert_string_equal(run.out, "done\n");
    assert_int_equal(run.exit_code, 0);
}

/* ---- Workers that do not answer -------------------------------------------------------------- */

static void W41_stop_of_a_frozen_worker_is_in_force_and_unverified(void **state)
{
    (void)state;
    make_store(20);
    work(0, "b");
    go_to("a");
    const char *id = SUBMIT("hi", "--pool", "b", "--model", ticking_file());
    await_ticks();
    assert_true(signal_worker(&workers[0], SIGSTOP) > 0);
    RUN(&run, "cancel", id, "--timeout", "1s", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 1);
    assert_true(stage_null_at(answer, "/receipt/survivors"));
    assert_true(stage_true_at(answer, "/fenced"));
    assert_string_equal(stage_text_at(answer, "/host"), "b");
    assert_string_equal(stage_text_at(answer, "/receipt/units/0/fate"), "unknown");
    RUN(&run, "cancel", id, "--timeout", "10ms");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.out, "host b has not answered, last heartbeat "));
    signal_worker(&workers[0], SIGCONT);
    const char *receipt = cancel_ticking(id);
    cancel_again(id, receipt);
    await_state(id, "cancelled");
}

/* No number of survivors is claimed where no receipt has proved it. */
static void fate_without_a_receipt_proves_nothing(void **state)
{
    (void)state;
    make_store(12);
    work(0, "b");
    go_to("a");
    const char *id = SUBMIT("hi", "--pool", "b", "--model", ticking_file());
    await_ticks();
    cancel_ticking(id);
    assert_true(pg_server_change(server, name, "update belay.stop_unit set receipt = null"));
    RUN(&run, "cancel", id, "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 1);
    assert_true(stage_null_at(answer, "/receipt/survivors"));
    assert_string_equal(stage_text_at(answer, "/receipt/unverified"), "host b has sent no receipt");
}

static void W40_frozen_worker_delays_only_stops_of_its_own_items(void **state)
{
    static const char *const hosts[] = {"b", "c"};
    const char *ids[8];

    (void)state;
    make_store(120);
    const char *script = stage_file(
        "sleep.yaml", "replies: [{tools: [{name: bash, input: {command: 'sleep 1000'}}]}]\n");
    for (size_t i = 0; i < BL_COUNT(hosts); i++)
        work(i, hosts[i]);
    go_to("a");
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        ids[i] = SUBMIT("hi", "--pool", hosts[i % 2], "--model", script);
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        await_state(ids[i], "running");
    /* Each has a tool: then they have wardens. */
    for (size_t i = 0; i < BL_COUNT(hosts); i++)
        held_await_at_least(&workers[i], 1 + BL_COUNT(ids) / 2);
    assert_true(signal_worker(&workers[0], SIGSTOP) > 0);
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        START(&others[i], "cancel", ids[i], "--json", "--timeout", "60s");
    for (size_t i = 1; i < BL_COUNT(ids); i += 2) {
        held_wait(&others[i]);
        const struct bl_json *answer = stage_json(held_out(&others[i]));
        assert_int_equal(others[i].exit_code, 0);
        assert_string_equal(stage_text_at(answer, "/host"), "c");
        assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    }
    for (size_t i = 0; i < BL_COUNT(ids); i += 2)
        assert_int_equal(held_count(&others[i]), 1);
    signal_worker(&workers[0], SIGCONT);
    for (size_t i = 0; i < BL_COUNT(ids); i += 2) {
        held_wait(&others[i]);
        const struct bl_json *answer = stage_json(held_out(&others[i]));
        assert_int_equal(others[i].exit_code, 0);
        assert_string_equal(stage_text_at(answer, "/host"), "b");
        assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void check_failed(int exit_code, const char *message)
{
    if (run.exit_code != exit_code || strstr(run.err, message) == NULL)
        fail_msg("exit code %d (expected %d), and not '%s':\n%s%s", run.exit_code, exit_code,
                 message, run.out, run.err);
    assert_string_equal(run.out, "");
    if (exit_code == 1)
        assert_non_null(strstr(run.err, "\nhint: "));
}

static void wrong_input_is_refused(void **state)
{
    (void)state;
    make_store(12);
    go_to("a");
    RUN(&run, "cancel", "run_none");
    check_failed(1, "no running work with id 'run_none'");
    RUN(&run, "cancel", "run_none/call");
    check_failed(1, "no running work with id 'run_none/call'");
    RUN(&run, "cancel", "run_none", "--json");
    stage_answer(&run, "envelope", 1);
    RUN(&run, "cancel", "run_none", "--timeout", "soon");
    check_failed(2, "--timeout");
    RUN(&run, "cancel", "run_none", "--timeout", "-1s");
    check_failed(2, "--timeout");
    /* A call of an item that nobody runs. */
    const char *id = SUBMIT("hi", "--pool", "b");
    RUN(&run, "cancel", stage_printf("%s/call", id));
    check_failed(1, "no running work with id");
    await_state(id, "queued");
}

static void database_that_is_away_hinders_no_local_stop(void **state)
{
    (void)state;
    go_to("b");
    START(&others[0], "run", "hi", "--session", "s", "--yolo", "--sandbox", "off", "--json",
          "--provider", stage_script(ticking()));
    await_ticks();
    setenv("BELAY_STORE", "postgres://ann@127.0.0.1:1/x", 1);
    const struct bl_json *answer = cancel("s", 0);
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    check_run(stage_text_at(answer, "/receipt/id"));
    RUN(&run, "cancel", "run_none");
    check_failed(1, "Connection refused");
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static void ps_lists_each_item_once(void **state)
{
    (void)state;
    make_store(12);
    work(0, "b");
    go_to("a");
    const char *running = SUBMIT("hi", "--pool", "b", "--model", ticking_file());
    const char *queued = SUBMIT("hi", "--pool", "other");
    await_ticks();
    RUN(&run, "ps", "--json");
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    assert_int_equal(stage_size_at(answer, "/activities"), 0);
    assert_int_equal(stage_size_at(answer, "/items"), 2);
    assert_string_equal(stage_text_at(answer, "/items/0/id"), running);
    assert_string_equal(stage_text_at(answer, "/items/0/state"), "running");
    assert_string_equal(stage_text_at(answer, "/items/0/host"), "b");
    assert_int_equal(strncmp(stage_text_at(answer, "/items/0/worker"), "own_", 4), 0);
    assert_string_equal(stage_text_at(answer, "/items/1/id"), queued);
    assert_string_equal(stage_text_at(answer, "/items/1/state"), "queued");
    RUN(&run, "ps");
    assert_int_equal(stage_lines_with(run.out, running), 1);
    go_to("b");
    RUN(&run, "ps", "--json");
    answer = stage_answer(&run, "ps", 0);
    assert_string_equal(stage_text_at(answer, "/activities/0/id"), running);
    assert_int_equal(stage_size_at(answer, "/items"), 1);
    assert_string_equal(stage_text_at(answer, "/items/0/id"), queued);
    RUN(&run, "ps");
    assert_int_equal(stage_lines_with(run.out, running), 1);
    go_to("a");
    cancel_ticking(running);
    RUN(&run, "ps", "--json");
    answer = stage_answer(&run, "ps", 0);
    assert_int_equal(stage_size_at(answer, "/items"), 1);
}

SUITE(stops_elsewhere, STOPPED(wrong_input_is_refused),
      STOPPED(database_that_is_away_hinders_no_local_stop), STOPPED(ps_lists_each_item_once),
      STOPPED(W39_item_on_another_host_is_stopped),
      STOPPED(W39_item_on_another_host_is_stopped_by_its_session),
      STOPPED(W39_run_on_another_host_is_stopped_by_both_of_its_ids),
      STOPPED(W40_frozen_worker_delays_only_stops_of_its_own_items),
      STOPPED(W41_stop_of_a_frozen_worker_is_in_force_and_unverified),
      STOPPED(fate_without_a_receipt_proves_nothing), STOPPED(W44_item_that_waits_is_cancelled),
      STOPPED(W45_one_call_on_another_host_is_stopped),
      STOPPED(W45_chat_on_another_host_continues_after_a_stop));
