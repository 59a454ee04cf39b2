/* `belay cell serve` and its clients. */
#include "stage.h"

#include "figure.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct run run;
static struct held host;

static char usual_worker[PATH_MAX]; /* empty while it is in use */

static int end_host(void **state)
{
    held_end(&host);
    if (usual_worker[0] != '\0')
        setenv("BELAY_CELL_WORKER", usual_worker, 1);
    usual_worker[0] = '\0';
    return stage_end(state);
}

#define HOSTED(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_host)

static void serve(void)
{
    START(&host, "cell", "serve");
    held_await(&host, "listening on ");
}

static const char *source(const char *text)
{
    static unsigned counter;
    char name[32];

    snprintf(name, sizeof name, "cell-%u.js", counter++);
    return stage_file(name, text);
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in '%.600s'", part, text);
}

/* Uses a copy of the worker program, so that the workers of this test can be told from others. */
static void use_own_worker(void)
{
    const char *usual = getenv("BELAY_CELL_WORKER"), *own = stage_path("belay-cell-worker");

    assert_non_null(usual);
    snprintf(usual_worker, sizeof usual_worker, "%s", usual);
    struct bl_text program = suite_read_file(usual);
    int fd = open(own, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(write(fd, program.data, program.size), program.size);
    close(fd);
    bl_free((void *)program.data);
    setenv("BELAY_CELL_WORKER", own, 1);
}

static size_t count_workers(void)
{
    const char *own = getenv("BELAY_CELL_WORKER");
    DIR *processes = opendir("/proc");
    char link[PATH_MAX], path[PATH_MAX];
    size_t count = 0;

    for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%.16s/exe", entry->d_name);
        ssize_t size = readlink(path, link, sizeof link - 1);
        count += size > 0 && (size_t)size == strlen(own) && memcmp(link, own, (size_t)size) == 0;
    }
    closedir(processes);
    return count;
}

/* Creates a cell and waits for the reply. */
static void create(const char *id, const char *text)
{
    RUN(&run, "cell", "create", source(text), "--id", id, "--json");
    const struct bl_json *answer = stage_answer(&run, "cell-create", 0);
    assert_string_equal(stage_text_at(answer, "/ok/type"), "created");
}

static const struct bl_json *observe(const char *id, const char *generation, int exit_code)
{
    RUN(&run, "cell", "observe", id, "--generation", generation, "--json");
    return stage_answer(&run, "cell-observe", exit_code);
}

static const char forever[] = "text('begun'); for (;;) await null;";

/* ---- Asking ---------------------------------------------------------------------------------- */

static void a_cell_outlives_the_command_that_created_it(void **state)
{
    char id[80];

    (void)state;
    serve();
    RUN(&run, "cell", "create",
        source("text('a'); await new Promise(done => setTimeout(done, 300));"
               "text('b')"));
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_memory_equal(run.out, "c-", 2);
    snprintf(id, sizeof id, "%.*s", (int)strcspn(run.out, "\n"), run.out);
    RUN(&run, "cell", "observe", id, "--yield-time", "20s");
    /* In one observation, or in two on a slow machine. */
    has(run.out, "b\n");
    has(run.err, stage_printf("%s: completed, generation ", id));
    assert_int_equal(run.exit_code, 0);
}

static void generation_is_replayed_until_the_next_request(void **state)
{
    (void)state;
    serve();
    create("c-1", "text('a'); yield_control(); text('b'); await new Promise(() => {})");
    const char *first = stage_keep(bl_text_from(stage_text_at(observe("c-1", "1", 0), "/ok/type")));
    assert_string_equal(first, "yielded");
    assert_string_equal(stage_text_at(stage_json(run.out), "/ok/content_items/0/text"), "a");
    assert_int_equal(stage_size_at(observe("c-1", "1", 0), "/ok/content_items"), 1);
    const struct bl_json *second = observe("c-1", "2", 0);
    assert_string_equal(stage_text_at(second, "/ok/content_items/0/text"), "b");
    const struct bl_json *refused = observe("c-1", "1", 1);
    assert_string_equal(stage_text_at(refused, "/error/kind"), "cell");
    assert_string_equal(stage_text_at(refused, "/error/code"), "wrong_generation");
    RUN(&run, "cell", "observe", "c-1", "--yield-time", "0");
    assert_string_equal(run.err, "c-1: running, generation 3\n");
    assert_int_equal(run.exit_code, 0);
}

/* Output from before the end is not lost by reading the end. */
static void reading_the_end_discards_no_earlier_output(void **state)
{
    (void)state;
    serve();
    create("c-1", "text('a'); yield_control(); text('b')");
    for (;;) {
        RUN(&run, "cell", "list", "--json");
        const struct bl_json *answer = stage_answer(&run, "cell-list", 0);
        if (strcmp(stage_text_at(answer, "/ok/cells/0/state"), "completed") == 0)
            break;
    }
    RUN(&run, "cell", "observe", "c-1");
    assert_string_equal(run.out, "b\n");
    has(run.err, "c-1: completed, generation 2\n");
    has(run.err, "--generation 1 shows it\n");
    RUN(&run, "cell", "observe", "c-1", "--generation", "1");
    assert_string_equal(run.out, "a\n");
}

static void an_id_runs_once(void **state)
{
    (void)state;
    serve();
    create("c-1", "text(1)");
    create("c-1", "text(1)");
    RUN(&run, "cell", "create", source("text(2)"), "--id", "c-1", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cell-create", 1), "/error/code"),
                        "conflict");
    observe("c-1", "1", 0);
    RUN(&run, "cell", "release", "c-1", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cell-release", 0), "/ok/type"),
                        "released");
    RUN(&run, "cell", "create", source("text(1)"), "--id", "c-1");
    assert_int_equal(run.exit_code, 1);
    has(run.err, "use another --id");
    RUN(&run, "cell", "observe", "c-1", "--json");
    const struct bl_json *missing = stage_answer(&run, "cell-observe", 1);
    assert_string_equal(stage_text_at(missing, "/ok/type"), "missing");
    assert_string_equal(stage_text_at(missing, "/error/code"), "missing");
    RUN(&run, "cell", "release", "c-2");
    assert_int_equal(run.exit_code, 1);
    has(run.err, "no cell 'c-2' in session 'default'");
}

static void terminate_is_idempotent(void **state)
{
    (void)state;
    serve();
    create("c-1", forever);
    RUN(&run, "cell", "release", "c-1", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cell-release", 1), "/error/code"),
                        "not_terminal");
    RUN(&run, "cell", "terminate", "c-1", "--terminate-id", "t-1", "--json");
    const struct bl_json *first = stage_answer(&run, "cell-terminate", 0);
    assert_string_equal(stage_text_at(first, "/ok/type"), "terminated");
    assert_string_equal(stage_text_at(first, "/ok/receipt/origin"), "terminate:t-1");
    assert_int_equal(stage_number_at(first, "/ok/receipt/survivors"), 0);
    const char *receipt = stage_keep(bl_text_from(stage_text_at(first, "/ok/receipt/id")));
    RUN(&run, "cell", "terminate", "c-1", "--json");
    const struct bl_json *again = stage_answer(&run, "cell-terminate", 0);
    assert_string_equal(stage_text_at(again, "/ok/receipt/id"), receipt);
    RUN(&run, "cell", "terminate", "c-1");
    assert_int_equal(run.exit_code, 0);
    has(run.err, "c-1: terminated, generation 1\nStopped in ");
    RUN(&run, "cell", "terminate", "c-9", "--json");
    stage_answer(&run, "cell-terminate", 1);
}

static void an_error_of_the_cell_is_exit_code_1(void **state)
{
    (void)state;
    serve();
    create("c-1", "text('x'); throw new RangeError('far')");
    const struct bl_json *answer = observe("c-1", "1", 1);
    assert_string_equal(stage_text_at(answer, "/ok/error/name"), "RangeError");
    assert_string_equal(stage_text_at(answer, "/error/code"), "exception");
    RUN(&run, "cell", "observe", "c-1");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "x\n");
    has(run.err, "c-1: failed, generation 1\nRangeError: far\n");
}

static void sessions_are_isolated(void **state)
{
    (void)state;
    serve();
    RUN(&run, "cell", "list");
    assert_string_equal(run.out, "No cells in session default.\n");
    create("c-1", forever);
    RUN(&run, "cell", "list", "--session", "other", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "cell-list", 0), "/ok/cells"), 0);
    RUN(&run, "cell", "list");
    has(run.out, "c-1  ");
    has(run.out, " running     generation 0, age ");
    /* A session has one host at a time. */
    RUN(&run, "cell", "run", source("text(1)"), "--session", "default", "--json");
    const struct bl_json *busy = stage_answer(&run, "cell-run", 1);
    assert_string_equal(stage_text_at(busy, "/error/code"), "session_busy");
    assert_true(stage_true_at(busy, "/error/retryable"));
}

static void without_a_host_it_is_an_error_with_a_hint(void **state)
{
    static const char *const verbs[] = {"create", "observe", "terminate", "release", "list"};
    const char *path = source("text(1)");

    (void)state;
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        const char *operand = i == 0 ? path : i < 4 ? "c-1" : NULL;
        runner_run_with(&run, (const char *const[]){"cell", verbs[i], "--json", operand, NULL},
                        NULL, RUN_KEEP);
        const struct bl_json *answer = stage_answer(&run, "envelope", 1);
        assert_string_equal(stage_text_at(answer, "/error/kind"), "cell");
        has(stage_text_at(answer, "/error/hint"), "belay cell serve");
    }
}

/* ---- The host -------------------------------------------------------------------------------- */

static void cancel_is_terminate(void **state)
{
    (void)state;
    serve();
    create("c-1", forever);
    RUN(&run, "ps", "--json");
    const struct bl_json *running = stage_answer(&run, "ps", 0);
    assert_string_equal(stage_text_at(running, "/activities/0/id"), "c-1");
    assert_string_equal(stage_text_at(running, "/activities/0/kind"), "cell");
    assert_string_equal(stage_text_at(running, "/activities/0/session"), "default");
    RUN(&run, "cancel", "c-1", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    assert_string_equal(stage_text_at(answer, "/receipt/scope"), "c-1");
    const char *receipt = stage_keep(bl_text_from(stage_text_at(answer, "/receipt/id")));
    answer = observe("c-1", "1", 0);
    assert_string_equal(stage_text_at(answer, "/ok/type"), "terminated");
    assert_string_equal(stage_text_at(answer, "/ok/receipt/id"), receipt);
}

static void a_signal_ends_the_host_and_its_cells(void **state)
{
    static const struct {
        int number, exit_code;
        const char *id, *origin;
    } rows[] = {{SIGINT, 130, "c-1", "SIGINT"}, {SIGTERM, 143, "c-2", "SIGTERM"}};

    (void)state;
    use_own_worker();
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        serve();
        create(rows[i].id, forever);
        RUN(&run, "cell", "observe", rows[i].id, "--yield-time", "200ms");
        assert_true(count_workers() > 0);
        kill(host.pid, rows[i].number);
        held_wait(&host);
        assert_int_equal(count_workers(), 0);
        assert_int_equal(host.exit_code, rows[i].exit_code);
        has(held_err(&host), stage_printf("ended by %s, with 1 cell\n", rows[i].origin));
        assert_int_equal(held_count(&host), 0);
        assert_false(stage_exists(stage_path("runtime/belay/cell.sock")));
        held_end(&host);
    }
    /* The next host has the record of their end. */
    serve();
    const struct bl_json *answer = observe("c-2", "2", 0);
    assert_string_equal(stage_text_at(answer, "/ok/type"), "terminated");
    assert_string_equal(stage_text_at(answer, "/ok/receipt/reason"), "signal");
    assert_string_equal(stage_text_at(answer, "/ok/receipt/origin"), "SIGTERM");
}

static void after_kill_9_no_cell_runs_and_the_next_host_reports_it(void **state)
{
    (void)state;
    use_own_worker();
    serve();
    create("c-1", forever);
    RUN(&run, "cell", "observe", "c-1", "--yield-time", "200ms");
    assert_true(count_workers() > 0);
    kill(host.pid, SIGKILL);
    uint64_t since_ns = bl_clock_now_ns(&bl_clock_system);
    held_wait(&host);
    for (int i = 0; i < 10000 && count_workers() > 0; i++)
        usleep(1000);
    assert_true(figure_since("C10 workers after kill -9 of 'belay cell serve'", since_ns, 100));
    assert_int_equal(count_workers(), 0);
    held_end(&host);
    serve();
    const struct bl_json *answer = observe("c-1", "2", 0);
    assert_string_equal(stage_text_at(answer, "/ok/type"), "terminated");
    assert_string_equal(stage_text_at(answer, "/ok/receipt/reason"), "owner_died");
}

static void json_names_the_socket(void **state)
{
    const char *path = stage_path("own.sock");
    struct stat facts;

    (void)state;
    START(&host, "cell", "serve", "--socket", path, "--json");
    held_await(&host, "}\n");
    runner_check_schema("cell-serve", held_out(&host));
    const struct bl_json *line = stage_json(held_out(&host));
    assert_string_equal(stage_text_at(line, "/socket"), path);
    assert_int_equal(stage_number_at(line, "/pid"), host.pid);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    RUN(&run, "cell", "list", "--socket", path, "--json");
    stage_answer(&run, "cell-list", 0);
}

static void a_socket_path_with_a_live_host_is_refused(void **state)
{
    (void)state;
    serve();
    RUN(&run, "cell", "serve", "--json");
    stage_answer(&run, "envelope", 1);
    RUN(&run, "cell", "list");
    assert_int_equal(run.exit_code, 0);
}

static void file_that_is_not_a_socket_is_refused_and_unchanged(void **state)
{
    const char *path = stage_file("precious", "keep me\n");
    char data[16] = "";

    (void)state;
    RUN(&run, "cell", "serve", "--socket", path);
    assert_int_equal(run.exit_code, 1);
    has(run.err, "precious");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, data, sizeof data - 1), 8);
    close(fd);
    assert_string_equal(data, "keep me\n");
}

static void a_stale_socket_is_replaced(void **state)
{
    (void)state;
    serve();
    kill(host.pid, SIGKILL);
    held_wait(&host);
    held_end(&host);
    assert_true(stage_exists(stage_path("runtime/belay/cell.sock")));
    serve();
    RUN(&run, "cell", "list");
    assert_int_equal(run.exit_code, 0);
}

static void put_frame(int fd, const char *json)
{
    size_t size = strlen(json);
    unsigned char head[4] = {0, 0, (unsigned char)(size >> 8), (unsigned char)size};

    assert_int_equal(write(fd, head, sizeof head), sizeof head);
    assert_int_equal(write(fd, json, size), size);
}

static void standard_streams_carry_frames_and_their_end_ends_the_host(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&host, (const char *const[]){runner_program(), "cell", "serve", "--stdio", NULL},
               ends[0], RUN_KEEP);
    close(ends[0]);
    put_frame(ends[1], "{\"type\":\"hello\",\"client\":\"t\",\"versions\":[1],\"requires\":[],"
                       "\"wants\":[]}");
    put_frame(ends[1], "{\"type\":\"request\",\"id\":1,\"op\":\"open_session\",\"args\":{"
                       "\"session_id\":\"s\",\"serves_tools\":false,\"linger_ms\":0}}");
    put_frame(ends[1], "{\"type\":\"request\",\"id\":2,\"op\":\"create_cell\",\"args\":{"
                       "\"session_id\":\"s\",\"cell_id\":\"c-1\",\"source\":\"for (;;);\","
                       "\"tools\":[],\"limits\":{}}}");
    for (int i = 0; i < 3000; i++) {
        const char *out = stage_output(&host);
        off_t size = lseek(host.out, 0, SEEK_END);
        if (memmem(out, (size_t)size, "\"created\"", 9) != NULL)
            break;
        usleep(10000);
    }
    close(ends[1]);
    held_wait(&host);
    assert_int_equal(host.exit_code, 0);
    assert_int_equal(held_count(&host), 0);
    const char *out = stage_output(&host);
    size_t size = (size_t)lseek(host.out, 0, SEEK_END);
    assert_non_null(memmem(out, size, "\"ready\"", 7));
    assert_non_null(memmem(out, size, "\"created\"", 9));
    has(held_err(&host), "belay cell: frames on standard input and output\n");
    has(held_err(&host), "with 1 cell\n");
}

/* ---- A host of several pages ----------------------------------------------------------------- */

static bool get_frame(int fd, int kept)
{
    static char frame[65536];
    unsigned char head[4];

    if (recv(fd, head, sizeof head, MSG_WAITALL) != sizeof head)
        return false;
    size_t size = (size_t)head[2] << 8 | head[3];
    return recv(fd, frame, size, MSG_WAITALL) == (ssize_t)size &&
           write(kept, frame, size) == (ssize_t)size && write(kept, "\n", 1) == 1;
}

/* Answers one client with these frames, one for each frame of the client, which is written to
 * `kept`. */
static pid_t play_host(const char *path, const char *kept, const char *const *answers)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int out = open(kept, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int client = accept(listener, NULL, NULL);
        for (; *answers != NULL && get_frame(client, out); answers++)
            put_frame(client, *answers);
        _exit(*answers != NULL);
    }
    close(listener);
    return pid;
}

#define REPLY(id, op, ok)                                                                          \
    "{\"type\":\"reply\",\"id\":" id ",\"op\":\"" op "\",\"ok\":{\"type\":" ok "}}"
#define PAGE(id, cells, more)                                                                      \
    REPLY(id, "list", "\"listed\",\"session_id\":\"default\",\"cells\":[" cells "],\"more\":" more)
#define CELL(id, state)                                                                            \
    "{\"cell_id\":\"" id "\",\"state\":\"" state "\",\"generation\":2,\"age_ms\":1500,"            \
    "\"deadline_left_ms\":0,\"undelivered_bytes\":7,\"calls\":1,\"timers\":0}"
#define READY                                                                                      \
    "{\"type\":\"ready\",\"version\":1,\"capabilities\":[],\"instance\":\"i\",\"limits\":{"        \
    "\"frame_bytes\":1,\"live_cells\":1,\"requests\":1,\"control_requests\":1}}"
#define OPENED REPLY("1", "open_session", "\"opened\",\"session_id\":\"default\"")

static const char *const pages[] = {
    READY,
    OPENED,
    PAGE("2", CELL("c-1", "running") "," CELL("c-2", "completed"), "true"),
    PAGE("3", CELL("c-3", "terminated"), "true"),
    PAGE("4", "", "true"),
    NULL,
};

static const char open_frame[] = "{\"type\":\"request\",\"id\":1,\"op\":\"open_session\",\"args\":{"
                                 "\"session_id\":\"default\",\"serves_tools\":false,"
                                 "\"linger_ms\":3600000}}\n";

/* Returns the frames of the client after its hello. */
static const char *frames_kept(const char *path)
{
    struct bl_text all = suite_read_file(path), rest = all, hello;

    bl_text_split(&rest, '\n', &hello);
    const char *frames = stage_keep(rest);
    bl_free((char *)(uintptr_t)all.data);
    return frames;
}

static void pages_of_a_list_are_shown_as_one(void **state)
{
    const char *path = stage_path("pages.sock"), *kept = stage_path("kept");
    int status;

    (void)state;
    pid_t pid = play_host(path, kept, pages);
    RUN(&run, "cell", "list", "--json", "--socket", path);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    stage_answer(&run, "cell-list", 0);
    has(run.out,
        "\"ok\":{\"type\":\"listed\",\"session_id\":\"default\",\"cells\":[" CELL(
            "c-1", "running") "," CELL("c-2",
                                       "completed") "," CELL("c-3",
                                                             "terminated") "],\"more\":false}}\n");
    assert_string_equal(
        frames_kept(kept),
        stage_printf("%s%s%s%s", open_frame,
                     "{\"type\":\"request\",\"id\":2,\"op\":\"list\",\"args\":{\"session_id\":"
                     "\"default\",\"after\":null,\"max\":100}}\n",
                     "{\"type\":\"request\",\"id\":3,\"op\":\"list\",\"args\":{\"session_id\":"
                     "\"default\",\"after\":\"c-2\",\"max\":100}}\n",
                     "{\"type\":\"request\",\"id\":4,\"op\":\"list\",\"args\":{\"session_id\":"
                     "\"default\",\"after\":\"c-3\",\"max\":100}}\n"));
}

static void no_page_is_read_after_the_one_with_the_cell(void **state)
{
    static const char *const answers[] = {
        READY,
        OPENED,
        PAGE("2", CELL("c-1", "running") "," CELL("c-2", "completed"), "true"),
        REPLY("3", "release", "\"released\",\"cell_id\":\"c-1\""),
        NULL,
    };
    const char *path = stage_path("pages.sock"), *kept = stage_path("kept");
    int status;

    (void)state;
    pid_t pid = play_host(path, kept, answers);
    RUN(&run, "cell", "release", "c-1", "--socket", path);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_string_equal(run.out, "Released c-1.\n");
    has(frames_kept(kept), "{\"type\":\"request\",\"id\":3,\"op\":\"release\",\"args\":{"
                           "\"session_id\":\"default\",\"cell_id\":\"c-1\",\"generation\":2}}\n");
}

static void mismatched_answer_is_refused(void **state)
{
    static const char *const answers[] = {
        READY, OPENED, REPLY("2", "release", "\"released\",\"cell_id\":\"c-1\""), NULL};
    const char *path = stage_path("pages.sock");
    int status;

    (void)state;
    pid_t pid = play_host(path, stage_path("kept"), answers);
    RUN(&run, "cell", "list", "--socket", path);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(run.exit_code, 1);
    has(run.err, "type: expected one of listed, found \"released\"");
}

SUITE(cell_host, HOSTED(a_cell_outlives_the_command_that_created_it),
      HOSTED(generation_is_replayed_until_the_next_request),
      HOSTED(reading_the_end_discards_no_earlier_output), HOSTED(an_id_runs_once),
      HOSTED(terminate_is_idempotent), HOSTED(an_error_of_the_cell_is_exit_code_1),
      HOSTED(sessions_are_isolated), HOSTED(without_a_host_it_is_an_error_with_a_hint),
      HOSTED(cancel_is_terminate), HOSTED(a_signal_ends_the_host_and_its_cells),
      HOSTED(after_kill_9_no_cell_runs_and_the_next_host_reports_it), HOSTED(json_names_the_socket),
      HOSTED(a_socket_path_with_a_live_host_is_refused),
      HOSTED(file_that_is_not_a_socket_is_refused_and_unchanged),
      HOSTED(a_stale_socket_is_replaced),
      HOSTED(standard_streams_carry_frames_and_their_end_ends_the_host),
      HOSTED(pages_of_a_list_are_shown_as_one), HOSTED(no_page_is_read_after_the_one_with_the_cell),
      HOSTED(mismatched_answer_is_refused));
