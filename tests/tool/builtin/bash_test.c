/* The tool `bash`, with real shells in real wardens. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "figure.h"

#define SOON_MS 5000.0
#define MUCH    ((uint64_t)10 << 20)

static bool ends_with(const struct box *box, const char *end)
{
    return bl_text_ends_with(box->result.text, bl_text_from(end));
}

#define IN_CONTAINER(name, body)                                                                   \
    static void name(void **state)                                                                 \
    {                                                                                              \
        enum bl_mechanism container = container_of_test(state);                                    \
        run_in_loop(body, &container);                                                             \
    }

/* A box in the container of the test; static, because it is large. */
static struct box *open_box(void *argument)
{
    static struct box box;
    box_init(&box, *(enum bl_mechanism *)argument);
    box_open(&box);
    return &box;
}

/* ---- Endings ---- */

static int ends(void *argument)
{
    struct box *box = open_box(argument);
    static const struct {
        const char *command, *text;
        bool is_error;
    } cases[] = {
        {"true", "", false},
        {"echo one; echo two >&2; echo three", "one\ntwo\nthree\n", false},
        {"printf out", "out", false},
        {"exit 3", "exit code 3", true},
        {"printf out; exit 3", "out\nexit code 3", true},
        {"echo out; false", "out\nexit code 1", true},
        {"kill -TERM $$", "killed by SIGTERM", true},
        {"echo x; kill -KILL $$", "x\nkilled by SIGKILL", true},
        {"cat; echo end", "end\n", false},
        {"belay-no-such-program 2> /dev/null", "exit code 127", true},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        CHECK_EQUAL(box_bash(box, cases[i].command, 0), 0);
        CHECK_EQUAL(box->result.is_error, cases[i].is_error);
        if (!CHECK(strcmp(box_text(box), cases[i].text) == 0))
            fprintf(stderr, "%s: %s\n", cases[i].command, box_text(box));
    }
    CHECK_EQUAL(box_bash(box, "ulimit -c 0; kill -SEGV $$", 0), 0);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("killed by SIGSEGV")));
    CHECK_EQUAL(box_bash(box, "pwd", 0), 0);
    CHECK(strncmp(box_text(box), box->workspace, strlen(box->workspace)) == 0);
    box_done(box);
    return 0;
}

IN_CONTAINER(output_comes_first_and_then_how_it_ended, ends)

static int ghosts(void *argument)
{
    struct box *box = open_box(argument);
    CHECK_EQUAL(box_bash(box,
                         "setsid sleep 300 > /dev/null & "
                         "(setsid sh -c 'sleep 300 & echo $! > pid; sleep 301' &) & "
                         "while [ ! -s pid ]; do sleep 0.01; done; echo done",
                         0),
                0);
    CHECK_EQUAL(marker_count(box->marker), 0);
    CHECK(!box->result.is_error);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("done\nleft running and stopped: ")));
    CHECK(ends_with(box, " processes"));
    CHECK_EQUAL(box_bash(box, "sleep 300 & exit 4", 0), 0);
    CHECK(strcmp(box_text(box), "exit code 4\nleft running and stopped: 1 process") == 0);
    box_done(box);
    return 0;
}

IN_CONTAINER(processes_left_running_are_stopped_and_counted, ghosts)

/* Takes a processor from the helper of a command. */
static pid_t start_rival(unsigned processor)
{
    pid_t pid = fork();
    if (pid == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(processor, &set);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sched_setaffinity(0, sizeof set, &set);
        for (;;)
            continue;
    }
    return pid;
}

static int slow_helper(void *argument)
{
    struct box *box = open_box(argument);
    char command[128];
    unsigned processor = (unsigned)sched_getcpu();
    pid_t rival = start_rival(processor);
    /* It ends within a millisecond of its own time. */
    snprintf(command, sizeof command, "taskset -c %u nice -n 15 true & echo done", processor);
    for (int i = 0; i < 8; i++) {
        CHECK_EQUAL(box_bash(box, command, 0), 0);
        CHECK(strcmp(box_text(box), "done\n") == 0);
    }
    kill(rival, SIGKILL);
    waitpid(rival, NULL, 0);
    box_done(box);
    return 0;
}

IN_CONTAINER(a_helper_that_waits_for_a_processor_is_not_left_running, slow_helper)

static int missing_workspace(void *argument)
{
    struct box *box = open_box(argument);
    CHECK_EQUAL(rmdir(box->workspace), 0);
    CHECK_EQUAL(box_bash(box, "echo never", 0), 0);
    CHECK(box->result.is_error);
    CHECK_EQUAL(box->error.code, 0);
    CHECK(strstr(box_text(box), "never") == NULL);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("cannot start: ")));
    box_done(box);
    return 0;
}

IN_CONTAINER(missing_workspace_is_reported_to_the_model, missing_workspace)

/* ---- Output ---- */

static void create_go(struct box *box)
{
    char path[128];
    snprintf(path, sizeof path, "%s/go", box->workspace);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    close(fd);
}

/* The command continues only after its output was reported. */
static int streams(void *argument)
{
    struct box *box = open_box(argument);
    box->on_output = create_go;
    CHECK_EQUAL(
        box_bash(box, "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo went", 20000), 0);
    CHECK(!box->result.is_error);
    CHECK(strcmp(box_text(box), "ready\nwent\n") == 0);
    CHECK(bl_text_equal(bl_buffer_text(&box->heard), BL_TEXT("ready\nwent\n")));
    CHECK(box->pieces >= 2);
    box_done(box);
    return 0;
}

IN_CONTAINER(output_is_reported_as_it_arrives, streams)

static int binary(void *argument)
{
    struct box *box = open_box(argument);
    /* The first two bytes of a euro sign, a pause, the third. */
    CHECK_EQUAL(box_bash(box, "printf '\\342\\202'; sleep 0.1; printf '\\254\\n'", 0), 0);
    CHECK(strcmp(box_text(box), "\xE2\x82\xAC\n") == 0);
    CHECK_EQUAL(box->pieces_broken, 0);
    CHECK_EQUAL(box->heard_bytes, 4);
    CHECK_EQUAL(box_bash(box, "printf 'a\\377b\\342\\202'", 0), 0);
    CHECK(strcmp(box_text(box), "a\xEF\xBF\xBD"
                                "b\xEF\xBF\xBD\xEF\xBF\xBD") == 0);
    CHECK(bl_text_equal(bl_buffer_text(&box->heard), box->result.text));
    CHECK_EQUAL(box->pieces_broken, 0);
    CHECK_EQUAL(box_bash(box, "head -c 300000 /dev/urandom", 0), 0);
    CHECK_EQUAL(box->pieces_broken, 0);
    CHECK(box->result.text.size <= 65536 + 200);
    box_done(box);
    return 0;
}

IN_CONTAINER(binary_output_becomes_valid_text, binary)

static int much(void *argument)
{
    struct box *box = open_box(argument);
    CHECK_EQUAL(
        box_bash(box,
                 "echo head; head -c 10485747 /dev/zero | tr '\\0' a; printf 'tail\\n\\n\\n\\n'",
                 0),
        0);
    CHECK_EQUAL(box->heard_bytes, MUCH);
    CHECK(!box->result.is_error);
    CHECK(box->result.text.size <= 65536 + 64);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("head\naaaa")));
    CHECK(ends_with(box, "aatail\n\n\n\n"));
    CHECK(bl_text_find(box->result.text, BL_TEXT("10420224 bytes left out")) > 0);
    box_done(box);
    return 0;
}

IN_CONTAINER(ten_mebibytes_become_a_bounded_result, much)

static int cut_characters(void *argument)
{
    static struct box box;
    box_init(&box, *(enum bl_mechanism *)argument);
    for (size_t limit = 1000; limit < 1006; limit++) {
        box.options.output_max = limit;
        box_open(&box);
        CHECK_EQUAL(
            box_bash(&box, "for i in {1..3000}; do printf '\\303\\274\\342\\202\\254'; done", 0),
            0);
        CHECK_EQUAL(box.heard_bytes, 15000);
        CHECK(box.result.text.size < limit + 100);
        CHECK(bl_text_find(box.result.text, BL_TEXT(" bytes left out")) > 0);
        bl_toolbox_free(box.toolbox);
    }
    box_open(&box);
    box_done(&box);
    return 0;
}

IN_CONTAINER(a_result_that_is_cut_is_still_valid_text, cut_characters)

static int secrets(void *argument)
{
    setenv("ACME_API_KEY", "s3cr3t-1", 1);
    setenv("GITHUB_TOKEN", "s3cr3t-2", 1);
    setenv("CLIENT_SECRET", "s3cr3t-3", 1);
    setenv("ACME_PLACE", "s3cr3t-4", 1);
    setenv("ACME_COLOUR", "green", 1);
    struct box *box = open_box(argument);
    bl_toolbox_hide(box->toolbox, (const char *const[]){"ACME_PLACE", NULL});
    CHECK_EQUAL(box_bash(box, "env", 0), 0);
    CHECK(bl_text_find(box->result.text, BL_TEXT("s3cr3t")) < 0);
    CHECK(bl_text_find(box->result.text, BL_TEXT("ACME_COLOUR=green")) >= 0);
    box_done(box);
    unsetenv("ACME_API_KEY");
    unsetenv("GITHUB_TOKEN");
    unsetenv("CLIENT_SECRET");
    unsetenv("ACME_PLACE");
    return 0;
}

IN_CONTAINER(secrets_do_not_reach_it, secrets)

/* ---- Time ---- */

static int times_out(void *argument)
{
    struct box *box = open_box(argument);
    double start_ms = now_ms();
    CHECK_EQUAL(box_bash(box, "echo begun; setsid sleep 300 & sleep 301", 300), 0);
    CHECK(figure_between("03 time limit of a bash call", now_ms() - start_ms, 300, 350));
    CHECK(box->result.is_error);
    CHECK(strcmp(box_text(box), "begun\ntimed out after 300 ms") == 0);
    CHECK_EQUAL(marker_count(box->marker), 0);
    CHECK(!bl_scope_stopped(&box->scope));
    CHECK(!bl_receipt_ready(&box->receipt));
    /* The next call has its own timeout. */
    CHECK_EQUAL(box_bash(box, "echo again", 20000), 0);
    CHECK(strcmp(box_text(box), "again\n") == 0);
    box_done(box);
    return 0;
}

IN_CONTAINER(a_time_limit_of_its_own_is_an_error_result_and_no_stop, times_out)

static int deadline_above(void *argument)
{
    struct box *box = open_box(argument);
    bl_scope_set_timeout(&box->scope, 0.3, NULL);
    CHECK_EQUAL(box_bash(box, "echo begun; sleep 300", 20000), BL_ETIMEDOUT);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("begun\nstopped after ")));
    CHECK(ends_with(box, ": timeout (deadline)"));
    CHECK(bl_receipt_ready(&box->receipt));
    /* Calls made afterwards do not start. */
    CHECK_EQUAL(box_bash(box, "touch ran", 0), BL_ETIMEDOUT);
    CHECK_EQUAL(box->heard_bytes, 0);
    box_done(box);
    return 0;
}

IN_CONTAINER(a_deadline_above_stops_it, deadline_above)

/* ---- Stops ---- */

static void stop_it(struct box *box)
{
    bl_scope_stop(&box->scope, BL_STOP_USER, "test");
}

static void check_receipt(struct box *box, enum bl_mechanism container, const char *fate)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    const struct bl_json *value = NULL;
    int64_t number = -1;
    bl_buffer_init(&text, 65536);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&box->receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    CHECK_EQUAL(bl_json_read(&box->arena, bl_buffer_text(&text), NULL, &value, NULL), 0);
#define TEXT_AT(pointer) bl_json_text(bl_json_pointer(value, BL_TEXT(pointer)))
    CHECK(bl_text_equal(TEXT_AT("/reason"), BL_TEXT("user")));
    CHECK(bl_text_equal(TEXT_AT("/mechanism"), bl_text_from(bl_mechanism_name(container))));
    CHECK(bl_text_equal(TEXT_AT("/units/0/kind"), BL_TEXT("tool")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/id"), BL_TEXT("call_1")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/name"), BL_TEXT("bash")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/fate"), bl_text_from(fate)));
#undef TEXT_AT
    CHECK_EQUAL(bl_json_size(bl_json_pointer(value, BL_TEXT("/units"))), 1);
    CHECK(bl_json_int64(bl_json_pointer(value, BL_TEXT("/survivors")), &number));
    CHECK_EQUAL(number, 0);
    bl_buffer_done(&text);
}

static int stopped(void *argument)
{
    struct box *box = open_box(argument);
    box->on_output = stop_it;
    double start_ms = now_ms();
    CHECK_EQUAL(
        box_bash(box, "sleep 300 & setsid sleep 301 & (sleep 302 &); echo ready; sleep 303", 0),
        BL_ECANCELED);
    CHECK(now_ms() - start_ms < SOON_MS);
    CHECK_EQUAL(marker_count(box->marker), 0);
    CHECK(box->result.is_error);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("ready\nstopped after ")));
    CHECK(ends_with(box, ": user (test)"));
    CHECK(bl_receipt_ready(&box->receipt));
    CHECK_EQUAL(bl_receipt_survivors(&box->receipt), 0);
    check_receipt(box, *(enum bl_mechanism *)argument, "aborted");
    box_done(box);
    return 0;
}

IN_CONTAINER(stop_in_progress_leaves_a_receipt_and_no_process, stopped)

static int hurry_later(void *argument)
{
    struct box *box = argument;
    while (!bl_scope_stopped(&box->scope))
        bl_sleep(10 * MS);
    bl_sleep(200 * MS);
    CHECK(marker_count(box->marker) > 0); /* it is in its grace period */
    bl_toolbox_hurry(box->toolbox);
    return 0;
}

#define DEAF "trap '' TERM; echo ready; while :; do sleep 1; done"

static int hurried(void *argument)
{
    static struct box box;
    struct bl_nursery nursery;
    box_init(&box, *(enum bl_mechanism *)argument);
    box.options.grace_chosen = true;
    box.options.grace_ms = 60000;
    box_open(&box);
    box.on_output = stop_it;
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "hurry", hurry_later, &box, NULL), 0);
    double start_ms = now_ms();
    CHECK_EQUAL(box_bash(&box, DEAF, 0), BL_ECANCELED);
    CHECK(
        figure_between("03 hurry after 200 ms of a grace of 60 s", now_ms() - start_ms, 200, 350));
    CHECK_EQUAL(marker_count(box.marker), 0);
    bl_nursery_done(&nursery);
    check_receipt(&box, *(enum bl_mechanism *)argument, "killed");
    box_done(&box);
    return 0;
}

IN_CONTAINER(hurry_cuts_a_long_grace, hurried)

static int hurried_before(void *argument)
{
    static struct box box;
    box_init(&box, *(enum bl_mechanism *)argument);
    box.options.grace_chosen = true;
    box.options.grace_ms = 60000;
    box_open(&box);
    bl_toolbox_hurry(box.toolbox);
    /* A call that is not stopped is not hurried. */
    CHECK_EQUAL(box_bash(&box, "sleep 0.2; echo here", 0), 0);
    CHECK(strcmp(box_text(&box), "here\n") == 0);
    box.on_output = stop_it;
    double start_ms = now_ms();
    CHECK_EQUAL(box_bash(&box, DEAF, 0), BL_ECANCELED);
    CHECK(figure_at_most("03 stop after hurry", now_ms() - start_ms, 100));
    CHECK_EQUAL(marker_count(box.marker), 0);
    box_done(&box);
    return 0;
}

IN_CONTAINER(a_stop_that_comes_after_hurry_has_no_grace, hurried_before)

static int without_grace(void *argument)
{
    static struct box box;
    box_init(&box, *(enum bl_mechanism *)argument);
    box.options.grace_chosen = true;
    box_open(&box);
    box.on_output = stop_it;
    CHECK_EQUAL(box_bash(&box, "trap 'echo cleaned; exit' TERM; echo ready; sleep 60", 0),
                BL_ECANCELED);
    CHECK(strstr(box_text(&box), "cleaned") == NULL);
    CHECK_EQUAL(marker_count(box.marker), 0);
    check_receipt(&box, *(enum bl_mechanism *)argument, "killed");
    box_done(&box);
    return 0;
}

IN_CONTAINER(zero_grace_period_kills_at_once, without_grace)

/* The deadline falls on every moment of a start, a run and an end: code, text and receipt agree,
 * and no process is left. */
static int stop_anywhere(void *argument)
{
    static const char *const commands[] = {"exit 0", "sleep 300 & sleep 301", "echo hello; exit 3",
                                           "setsid sleep 300 & echo hello"};
    static struct box box;
    struct bl_random random;
    unsigned long rounds = suite_rounds(24, 1000), ended = 0;
    bl_random_seed(&random, 19);
    for (unsigned long round = 0; round < rounds; round++) {
        box_init(&box, *(enum bl_mechanism *)argument);
        box_open(&box);
        bl_scope_set_deadline(&box.scope, bl_now_ns() + bl_random_below(&random, 15 * MS));
        int code = box_bash(&box, commands[round % BL_COUNT(commands)], 0);
        CHECK_EQUAL(marker_count(box.marker), 0);
        CHECK(code == 0 || code == BL_ETIMEDOUT);
        bool stopped_text = bl_text_find(box.result.text, BL_TEXT("stopped after ")) >= 0;
        CHECK(code != 0 || !stopped_text);
        CHECK(bl_text_find(box.result.text, BL_TEXT("hello")) < 0 || box.heard_bytes == 6);
        bl_yield();
        CHECK_EQUAL(bl_receipt_survivors(&box.receipt), 0);
        CHECK(code == 0 || bl_receipt_ready(&box.receipt));
        ended += code == 0;
        box_done(&box);
    }
    print_message("           %lu of %lu had ended\n", ended, rounds);
    return 0;
}

IN_CONTAINER(stop_at_any_moment_leaves_no_process, stop_anywhere)

/* ---- Parallel calls ---- */

struct sibling {
    struct box *box;
    struct bl_scope scope;
    struct bl_tool_call call;
    struct bl_tool_result result;
    struct bl_error error;
    int code;
};

static void say_nothing(const struct bl_tool_call *call, struct bl_text bytes)
{
    (void)call, (void)bytes;
}

static int sibling_main(void *argument)
{
    struct sibling *sibling = argument;
    const struct bl_tools *tools = bl_toolbox_tools(sibling->box->toolbox);
    sibling->code = tools->call(tools->context, &sibling->call, &sibling->result, &sibling->error);
    return 0;
}

static int siblings(void *argument)
{
    enum {
        COUNT = 8
    };
    static struct sibling all[COUNT];
    struct box *box = open_box(argument);
    struct bl_nursery nursery;
    const struct bl_json *input = NULL;
    struct bl_text text =
        BL_TEXT("{\"command\":\"while [ ! -e go ]; do sleep 0.02; done; echo went\"}");
    CHECK_EQUAL(bl_json_read(&box->arena, text, NULL, &input, NULL), 0);
    bl_nursery_init(&nursery, &box->scope);
    for (size_t i = 0; i < COUNT; i++) {
        all[i] = (struct sibling){.box = box};
        bl_scope_init(&all[i].scope, &nursery.scope);
        all[i].call = (struct bl_tool_call){.id = "call",
                                            .name = "bash",
                                            .input_text = text,
                                            .input = input,
                                            .scope = &all[i].scope,
                                            .arena = &box->arena,
                                            .output = say_nothing};
        CHECK_EQUAL(bl_nursery_spawn(&nursery, &all[i].scope, "call", sibling_main, &all[i], NULL),
                    0);
    }
    bl_sleep(300 * MS);
    bl_scope_stop(&all[3].scope, BL_STOP_USER, "test");
    bl_sleep(300 * MS);
    create_go(box);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(all[i].code, i == 3 ? BL_ECANCELED : 0);
        if (i != 3)
            CHECK(bl_text_equal(all[i].result.text, BL_TEXT("went\n")));
        bl_scope_done(&all[i].scope);
    }
    bl_nursery_done(&nursery);
    box_done(box);
    return 0;
}

IN_CONTAINER(one_of_several_calls_can_be_stopped_alone, siblings)

/* ---- The sandbox ---- */

/* A server of the machine is unreachable from the sandbox, and reachable outside. */
static void check_network(struct box *box)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char command[128];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQUAL(listen(fd, 8), 0);
    CHECK_EQUAL(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(command, sizeof command, "(: < /dev/tcp/127.0.0.1/%u) 2> /dev/null && echo reached",
             ntohs(address.sin_port));
    CHECK_EQUAL(box_bash(box, command, 0), 0);
    CHECK(strcmp(box_text(box), "exit code 1") == 0);
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(connect(other, (struct sockaddr *)&address, sizeof address), 0);
    close(other);
    close(fd);
}

static int sandboxed(void *argument)
{
    static struct box box;
    char command[512];
    box_init(&box, *(enum bl_mechanism *)argument);
    box.options.sandbox = BL_SANDBOX_WORKSPACE;
    box_open(&box);
    snprintf(command, sizeof command,
             "echo in > inside && cat inside; touch /etc/belay-outside 2> /dev/null || echo "
             "refused; [ \"$PWD\" = \"$(realpath %s)\" ] && echo here",
             box.workspace);
    CHECK_EQUAL(box_bash(&box, command, 0), 0);
    if (!CHECK(strcmp(box_text(&box), "in\nrefused\nhere\n") == 0))
        fprintf(stderr, "%s\n", box_text(&box));
    check_network(&box);
    CHECK_EQUAL(box_bash(&box, "setsid sleep 300 & exit 5", 0), 0);
    CHECK(bl_text_starts_with(box.result.text, BL_TEXT("exit code 5")));
    CHECK_EQUAL(marker_count(box.marker), 0);
    CHECK_EQUAL(box_bash(&box, "setsid sleep 300 & echo begun; sleep 301", 400), 0);
    CHECK(strcmp(box_text(&box), "begun\ntimed out after 400 ms") == 0);
    CHECK_EQUAL(marker_count(box.marker), 0);
    box.on_output = stop_it;
    CHECK_EQUAL(box_bash(&box, "setsid sleep 300 & echo begun; sleep 301", 0), BL_ECANCELED);
    box_done(&box);
    return 0;
}

static void the_sandbox_holds_it_in_the_workspace(void **state)
{
    struct bl_container_check check;
    enum bl_mechanism container = container_of_test(state);
    bl_sandbox_check(&check);
    if (!check.available) {
        print_message("no sandbox: %s\n", check.detail);
        suite_skip("no sandbox");
    }
    run_in_loop(sandboxed, &container);
}

SUITE(bash, IN_EACH(output_comes_first_and_then_how_it_ended),
      IN_EACH(processes_left_running_are_stopped_and_counted),
      IN_EACH(a_helper_that_waits_for_a_processor_is_not_left_running),
      IN_EACH(missing_workspace_is_reported_to_the_model),
      IN_EACH(output_is_reported_as_it_arrives), IN_EACH(binary_output_becomes_valid_text),
      IN_EACH(ten_mebibytes_become_a_bounded_result),
      IN_EACH(a_result_that_is_cut_is_still_valid_text), IN_EACH(secrets_do_not_reach_it),
      IN_EACH(a_time_limit_of_its_own_is_an_error_result_and_no_stop),
      IN_EACH(a_deadline_above_stops_it), IN_EACH(stop_in_progress_leaves_a_receipt_and_no_process),
      IN_EACH(hurry_cuts_a_long_grace), IN_EACH(a_stop_that_comes_after_hurry_has_no_grace),
      IN_EACH(zero_grace_period_kills_at_once), IN_EACH(stop_at_any_moment_leaves_no_process),
      IN_EACH(one_of_several_calls_can_be_stopped_alone),
      IN_EACH(the_sandbox_holds_it_in_the_workspace));
