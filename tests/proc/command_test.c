/* Commands as units of work: output, deadline and receipt. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <belay/json.h>

#include "figure.h"
#include "helpers.h"

#define SOON_MS    3000.0
#define STOP_MS    50.0 /* promised: 03, "What must hold" */
#define OUTPUT_MAX ((size_t)64 * 1024)
#define MUCH       ((size_t)10 << 20)
#define MUCH_TEXT  "10485760"

/* A tool as a command with captured output. */
struct job {
    struct tool tool;
    struct bl_capture capture;
    struct bl_command command;
    struct bl_warden_end end;
    struct bl_error error;
    uint64_t heard; /* bytes passed to on_output */
};

static void hear(void *context, struct bl_text bytes)
{
    struct job *job = context;
    job->heard += bytes.size;
}

static void job_init(struct job *job, enum bl_mechanism container, const char *const *words)
{
    *job = (struct job){.heard = 0};
    tool_init(&job->tool, container, words);
    bl_capture_init(&job->capture, OUTPUT_MAX);
    job->command = (struct bl_command){.options = job->tool.options,
                                       .kind = BL_UNIT_TOOL,
                                       .id = "call_1",
                                       .name = "bash",
                                       .capture = &job->capture,
                                       .on_output = hear,
                                       .context = job};
}
#define JOB_INIT(job, container, ...)                                                              \
    job_init(job, container, (const char *const[]){__VA_ARGS__, NULL})

static int job_run(struct job *job)
{
    return bl_command_run(&job->command, &job->end, &job->error);
}

static void job_done(struct job *job)
{
    bl_capture_done(&job->capture);
    tool_done(&job->tool);
}

/* ---- Output ---- */

static int much_output(void *argument)
{
    static struct job job;
    JOB_INIT(&job, *(enum bl_mechanism *)argument, "chatty", MUCH_TEXT);
    CHECK_EQUAL(job_run(&job), 0);
    CHECK_EQUAL(job.end.how, BL_END_EXITED);
    CHECK_EQUAL(job.end.status, 0);
    CHECK_EQUAL(job.capture.total, MUCH);
    CHECK_EQUAL(job.heard, MUCH);
    CHECK_EQUAL(bl_capture_left_out(&job.capture), MUCH - OUTPUT_MAX);
    bool kept = CHECK_EQUAL(job.capture.head.size, OUTPUT_MAX / 2) &&
                CHECK_EQUAL(job.capture.tail.size, OUTPUT_MAX / 2);
    size_t wrong = 0;
    for (size_t i = 0; kept && i < OUTPUT_MAX / 2; i++) {
        size_t in_tail = (job.capture.tail_start + i) % job.capture.tail.size;
        wrong += job.capture.head.data[i] != (char)('a' + i % 26);
        wrong += job.capture.tail.data[in_tail] != (char)('a' + (MUCH - OUTPUT_MAX / 2 + i) % 26);
    }
    CHECK_EQUAL(wrong, 0);
    job_done(&job);
    return 0;
}

static void ten_mebibytes_of_output_keep_head_tail_and_count(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(much_output, &container);
}

static int binary_output(void *argument)
{
    static struct job job;
    struct bl_buffer out;
    size_t wrong = 0;
    JOB_INIT(&job, *(enum bl_mechanism *)argument, "binary");
    CHECK_EQUAL(job_run(&job), 0);
    CHECK_EQUAL(job.end.status, 0);
    bl_buffer_init(&out, 4096);
    CHECK_EQUAL(bl_capture_text(&job.capture, &out), 0);
    CHECK_EQUAL(out.size, 1024);
    for (size_t i = 0; i < out.size; i++)
        wrong += (unsigned char)out.data[i] != (unsigned char)i;
    CHECK_EQUAL(wrong, 0);
    bl_buffer_done(&out);
    job_done(&job);
    return 0;
}

static void binary_output_comes_as_it_was_written(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(binary_output, &container);
}

static int both_streams(void *argument)
{
    struct tool tool;
    struct bl_warden_end end;
    char out[64];
    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(
        &tool, (const char *const[]){"sh", "-c", "echo one; echo two >&2; echo three; cat", NULL});
    tool_run(&tool, out, sizeof out, &end);
    CHECK(strcmp(out, "one\ntwo\nthree\n") == 0);
    CHECK_EQUAL(end.status, 0);
    tool_done(&tool);
    return 0;
}

static void output_and_error_keep_their_order_and_there_is_nothing_to_read(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(both_streams, &container);
}

static int apart(void *argument)
{
    static struct job job;
    struct bl_capture errors;
    struct bl_buffer out;
    JOB_INIT(&job, *(enum bl_mechanism *)argument, "plain");
    job.command.options.arguments = (const char *const[]){
        "sh", "-c", "echo one; echo two >&2; echo three; echo four >&2", NULL};
    bl_capture_init(&errors, OUTPUT_MAX);
    job.command.error_capture = &errors;
    CHECK_EQUAL(job_run(&job), 0);
    CHECK_EQUAL(job.end.status, 0);
    CHECK_EQUAL(job.heard, strlen("one\ntwo\nthree\nfour\n"));
    bl_buffer_init(&out, OUTPUT_MAX);
    bl_capture_text(&job.capture, &out);
    CHECK(bl_text_equal(bl_buffer_text(&out), BL_TEXT("one\nthree\n")));
    bl_buffer_clear(&out);
    bl_capture_text(&errors, &out);
    CHECK(bl_text_equal(bl_buffer_text(&out), BL_TEXT("two\nfour\n")));
    bl_buffer_done(&out);
    bl_capture_done(&errors);
    job_done(&job);
    return 0;
}

static void error_output_is_captured_separately_on_request(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(apart, &container);
}

/* A grandchild holds both open, and both receive much output. */
static int apart_held(void *argument)
{
    static struct job job;
    struct bl_capture errors;
    JOB_INIT(&job, *(enum bl_mechanism *)argument, "plain");
    job.command.options.arguments = (const char *const[]){
        "sh", "-c", "sleep 60 & head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; echo x",
        NULL};
    bl_capture_init(&errors, OUTPUT_MAX);
    job.command.error_capture = &errors;
    double start_ms = now_ms();
    CHECK_EQUAL(job_run(&job), 0);
    CHECK(now_ms() - start_ms < SOON_MS);
    CHECK_EQUAL(job.end.left_behind, 1);
    CHECK_EQUAL(job.capture.total, 1000002);
    CHECK_EQUAL(errors.total, 1000000);
    bl_capture_done(&errors);
    job_done(&job);
    return 0;
}

static void separate_streams_may_be_flooded_and_held_open(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(apart_held, &container);
}

/* ---- Output that is held open ---- */

static int held(void *argument)
{
    static struct job job;
    for (int background = 0; background < 2; background++) {
        JOB_INIT(&job, *(enum bl_mechanism *)argument, "hold-stdout");
        job.command.options.background = background != 0;
        double start_ms = now_ms();
        CHECK_EQUAL(job_run(&job), 0);
        CHECK(now_ms() - start_ms < SOON_MS);
        CHECK_EQUAL(job.end.how, BL_END_EXITED);
        CHECK_EQUAL(job.end.left_behind, 1);
        CHECK_EQUAL(job.capture.total, 5);
        job_done(&job);
    }
    return 0;
}

static void grandchild_that_holds_the_output_open_delays_nothing(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(held, &container);
}

/* ---- Processes that are kept ---- */

struct kept {
    struct job job;
    struct bl_command_control control;
    struct bl_scope scope;
    unsigned started, left; /* number of calls */
    uint32_t processes;     /* reported when something is left */
};

static void note_start(void *context)
{
    struct kept *kept = BL_CONTAINER(context, struct kept, job);
    kept->started++;
}

static void note_left(void *context, const struct bl_warden_end *end)
{
    struct kept *kept = BL_CONTAINER(context, struct kept, job);
    kept->left++;
    kept->processes = bl_command_processes(&kept->control);
    CHECK_EQUAL(end->how, BL_END_EXITED);
    CHECK_EQUAL(end->left_behind, 1);
    bl_scope_stop(&kept->scope, BL_STOP_USER, "test");
}

static void kept_init(struct kept *kept, enum bl_mechanism container, const char *mode)
{
    *kept = (struct kept){.left = 0};
    JOB_INIT(&kept->job, container, mode);
    kept->job.command.options.background = true;
    kept->job.command.on_started = note_start;
    kept->job.command.on_left = note_left;
    kept->job.command.control = &kept->control;
    bl_scope_init(&kept->scope, bl_scope_current());
}

static int keeps(void *argument)
{
    static struct kept kept;
    struct bl_scope *outer;
    kept_init(&kept, *(enum bl_mechanism *)argument, "double-fork");
    outer = bl_scope_enter(&kept.scope);
    CHECK_EQUAL(job_run(&kept.job), BL_ECANCELED);
    bl_scope_enter(outer);
    CHECK_EQUAL(kept.started, 1);
    CHECK_EQUAL(kept.left, 1);
    CHECK_EQUAL(kept.processes, 1);
    CHECK_EQUAL(kept.job.end.how, BL_END_STOPPED);
    CHECK_EQUAL(kept.job.end.processes, 1);
    CHECK_EQUAL(kept.job.end.survivors, 0);
    CHECK_EQUAL(bl_command_processes(&kept.control), 0);
    bl_scope_done(&kept.scope);
    job_done(&kept.job);
    /* Nothing is left: it ends like any other command. */
    kept_init(&kept, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&kept.job.tool, (const char *const[]){"sh", "-c", "exit 3", NULL});
    kept.job.command.options.arguments = kept.job.tool.options.arguments;
    CHECK_EQUAL(job_run(&kept.job), 0);
    CHECK_EQUAL(kept.left, 0);
    CHECK_EQUAL(kept.job.end.how, BL_END_EXITED);
    CHECK_EQUAL(kept.job.end.status, 3);
    bl_scope_done(&kept.scope);
    job_done(&kept.job);
    return 0;
}

static void kept_processes_are_reported_counted_and_stopped(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(keeps, &container);
}

/* Copies the tool's output descriptor from outside as soon as it exists, and lets the tool
 * continue. */
static int steal(void *argument)
{
    struct job *job = argument;
    tool_await(&job->tool, NULL, 1);
    pid_t pid = marker_scan(job->tool.marker, NULL, '\0')->pids[0];
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int stolen = (int)syscall(SYS_pidfd_getfd, pidfd, STDOUT_FILENO, 0);
    CHECK(stolen >= 0);
    kill(pid, SIGTERM);
    close(pidfd);
    return stolen;
}

static int held_outside(void *argument)
{
    static struct job job;
    struct bl_nursery nursery;
    struct bl_fiber *thief;
    int stolen = -1;
    JOB_INIT(&job, *(enum bl_mechanism *)argument, "give-way", "100");
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "thief", steal, &job, &thief), 0);
    double start_ms = now_ms();
    CHECK_EQUAL(job_run(&job), 0);
    CHECK(now_ms() - start_ms < SOON_MS);
    CHECK_EQUAL(bl_fiber_join(thief, &stolen), 0);
    CHECK_EQUAL(job.end.how, BL_END_EXITED);
    CHECK_EQUAL(job.end.status, 42);
    CHECK_EQUAL(job.capture.total, 100);
    if (stolen >= 0)
        close(stolen);
    bl_nursery_done(&nursery);
    job_done(&job);
    return 0;
}

static void output_held_open_from_outside_delays_nothing(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(held_outside, &container);
}

/* ---- Stops ---- */

/* Checks the receipt, as JSON, against the end. */
static void check_receipt(const struct bl_receipt *receipt, const struct job *job, const char *fate,
                          const char *signal)
{
    struct bl_arena arena = {0};
    struct bl_buffer text;
    struct bl_json_writer *writer = bl_arena_alloc(&arena, sizeof *writer);
    const struct bl_json *value = NULL;
    int64_t number = -1;

    bl_buffer_init(&text, 65536);
    bl_json_writer_init(writer, &text);
    bl_receipt_write(receipt, writer);
    CHECK_EQUAL(bl_json_writer_done(writer), 0);
    CHECK_EQUAL(bl_json_read(&arena, bl_buffer_text(&text), NULL, &value, NULL), 0);
#define TEXT_AT(pointer) bl_json_text(bl_json_pointer(value, bl_text_from(pointer)))
    CHECK(bl_text_equal(TEXT_AT("/reason"), BL_TEXT("timeout")));
    CHECK(bl_text_equal(TEXT_AT("/scope"), BL_TEXT("run_test")));
    CHECK(bl_text_equal(TEXT_AT("/mechanism"),
                        bl_text_from(bl_mechanism_name(job->tool.options.container))));
    CHECK(bl_text_equal(TEXT_AT("/units/0/kind"), BL_TEXT("tool")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/id"), BL_TEXT("call_1")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/name"), BL_TEXT("bash")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/fate"), bl_text_from(fate)));
    CHECK(bl_text_equal(TEXT_AT("/units/0/signal"), bl_text_from(signal)));
#undef TEXT_AT
    CHECK_EQUAL(bl_json_size(bl_json_pointer(value, BL_TEXT("/units"))), 1);
    CHECK(bl_json_int64(bl_json_pointer(value, BL_TEXT("/units/0/processes")), &number));
    CHECK_EQUAL(number, job->end.processes);
    CHECK(bl_json_int64(bl_json_pointer(value, BL_TEXT("/survivors")), &number));
    CHECK_EQUAL(number, 0);
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

struct stop_case {
    enum bl_mechanism container;
    const char *words[3];
    size_t processes; /* number that must be ready before the deadline is set */
    uint32_t grace_ms;
    int signal;
    const char *fate, *signal_name;
    uint64_t output;
};

#define DEADLINE_S 0.05

/* A job whose deadline is set when its tree is ready. */
struct pending {
    struct job job;
    struct bl_scope scope;
    size_t processes;
    double set_ms;
};

static int set_deadline(void *argument)
{
    struct pending *pending = argument;
    tool_await(&pending->job.tool, NULL, pending->processes);
    pending->set_ms = now_ms();
    bl_scope_set_timeout(&pending->scope, DEADLINE_S, NULL);
    return 0;
}

static int deadline(void *argument)
{
    const struct stop_case *stop = argument;
    static struct pending pending;
    struct job *job = &pending.job;
    struct bl_receipt receipt;
    struct bl_nursery nursery;

    job_init(job, stop->container, stop->words);
    job->command.options.grace_ms = stop->grace_ms;
    pending.processes = stop->processes;
    bl_scope_init(&pending.scope, bl_scope_current());
    bl_receipt_open(&receipt, &pending.scope, "run_test");
    CHECK(!bl_receipt_ready(&receipt));
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "deadline", set_deadline, &pending, NULL), 0);
    struct bl_scope *outer = bl_scope_enter(&pending.scope);
    CHECK_EQUAL(job_run(job), BL_ETIMEDOUT);
    double elapsed_ms = now_ms() - pending.set_ms;
    CHECK_EQUAL(marker_count(job->tool.marker), 0);
    bl_scope_enter(outer);
    bl_nursery_done(&nursery);
    double low_ms = DEADLINE_S * 1000 + (stop->signal == SIGKILL ? stop->grace_ms : 0);
    char name[128];
    snprintf(name, sizeof name, "03 deadline of %s in %s", stop->words[0],
             bl_mechanism_name(stop->container));
    CHECK(figure_between(name, elapsed_ms, low_ms, low_ms + STOP_MS));
    CHECK_EQUAL(job->end.how, BL_END_STOPPED);
    CHECK_EQUAL(job->end.survivors, 0);
    CHECK_EQUAL(job->end.strongest_signal, stop->signal);
    CHECK_EQUAL(job->capture.total, stop->output);
    CHECK(bl_receipt_ready(&receipt));
    CHECK_EQUAL(bl_receipt_survivors(&receipt), 0);
    CHECK_EQUAL(bl_receipt_cancel_observed(&receipt), stop->signal != SIGKILL);
    check_receipt(&receipt, job, stop->fate, stop->signal_name);
    bl_receipt_close(&receipt);
    bl_scope_done(&pending.scope);
    job_done(job);
    return 0;
}

static void a_deadline_stops_the_command_and_the_receipt_says_aborted(void **state)
{
    struct stop_case stop = {
        container_of_test(state), {"many", "3"}, 4, 10000, SIGTERM, "aborted", "TERM", 0};
    run_in_loop(deadline, &stop);
}

static void a_deadline_kills_the_command_and_the_receipt_says_killed(void **state)
{
    struct stop_case stop = {
        container_of_test(state), {"setsid-ignore"}, 2, 100, SIGKILL, "killed", "KILL", 0};
    run_in_loop(deadline, &stop);
}

/* A pipe holds 64 KiB: a tool that writes much before it exits needs a reader to end within its
 * grace period. */
static void output_in_the_grace_period_is_captured(void **state)
{
    struct stop_case stop = {container_of_test(state),
                             {"give-way", "1048576"},
                             1,
                             10000,
                             SIGTERM,
                             "aborted",
                             "TERM",
                             1048576};
    run_in_loop(deadline, &stop);
}

static int stopped_before(void *argument)
{
    static struct job job;
    struct bl_scope scope;
    struct bl_receipt receipt;
    JOB_INIT(&job, *(enum bl_mechanism *)argument, "plain");
    bl_scope_init(&scope, bl_scope_current());
    bl_receipt_open(&receipt, &scope, "run_test");
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(job_run(&job), BL_ECANCELED);
    bl_scope_enter(outer);
    CHECK_EQUAL(marker_count(job.tool.marker), 0);
    CHECK_EQUAL(bl_receipt_survivors(&receipt), 0);
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
    job_done(&job);
    return 0;
}

static void a_scope_that_has_stopped_starts_nothing(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stopped_before, &container);
}

/* The deadline falls into every phase of a start, and into some of an end. */
static int stop_while_starting(void *argument)
{
    static struct job job;
    static const char *const words[][3] = {
        {"many", "3", NULL}, {"plain", NULL}, {"exit", "0", NULL}, {"double-fork", NULL}};
    unsigned long rounds = suite_rounds(32, 600), finished = 0;
    struct bl_random random;
    bl_random_seed(&random, 11);
    for (unsigned long round = 0; round < rounds; round++) {
        struct bl_scope scope;
        job_init(&job, *(enum bl_mechanism *)argument, words[round % BL_COUNT(words)]);
        bl_scope_init(&scope, bl_scope_current());
        bl_scope_set_deadline(&scope, bl_now_ns() + bl_random_below(&random, 8 * MS));
        struct bl_scope *outer = bl_scope_enter(&scope);
        int code = job_run(&job);
        bl_scope_enter(outer);
        CHECK_EQUAL(marker_count(job.tool.marker), 0);
        CHECK(code == 0 || code == BL_ETIMEDOUT);
        CHECK_EQUAL(job.end.survivors, 0);
        finished += code == 0;
        bl_scope_done(&scope);
        job_done(&job);
    }
    print_message("           %lu of %lu had finished\n", finished, rounds);
    return 0;
}

static void stop_during_a_start_leaves_no_process(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stop_while_starting, &container);
}

/* ---- Skipping the grace period ---- */

struct haste {
    struct job job;
    struct bl_command_control control;
    struct bl_scope scope;
};

/* Stops the job when it is ready, and skips the grace period. */
static int stop_and_hurry(void *argument)
{
    struct haste *haste = argument;
    tool_await(&haste->job.tool, NULL, 2);
    bl_scope_stop(&haste->scope, BL_STOP_USER, "test");
    bl_sleep(60 * MS);
    CHECK(marker_count(haste->job.tool.marker) > 0);
    for (int i = 0; i < 3; i++)
        bl_command_hurry(&haste->control);
    return 0;
}

static int hurried(void *argument)
{
    static struct haste haste;
    struct bl_nursery nursery;
    for (int before = 0; before < 2; before++) {
        JOB_INIT(&haste.job, *(enum bl_mechanism *)argument, "setsid-ignore");
        haste.job.command.options.grace_ms = 60000;
        haste.control = (struct bl_command_control){0};
        haste.job.command.control = &haste.control;
        /* Called before the stop, it applies to the next stop. */
        if (before != 0)
            bl_command_hurry(&haste.control);
        bl_scope_init(&haste.scope, bl_scope_current());
        bl_nursery_init(&nursery, bl_scope_current());
        if (before == 0)
            CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "hurry", stop_and_hurry, &haste, NULL), 0);
        else
            bl_scope_set_timeout(&haste.scope, 0.1, NULL);
        struct bl_scope *outer = bl_scope_enter(&haste.scope);
        double start_ms = now_ms();
        CHECK_EQUAL(job_run(&haste.job), before == 0 ? BL_ECANCELED : BL_ETIMEDOUT);
        CHECK(now_ms() - start_ms < 30000);
        bl_scope_enter(outer);
        CHECK_EQUAL(marker_count(haste.job.tool.marker), 0);
        CHECK_EQUAL(haste.job.end.how, BL_END_STOPPED);
        CHECK_EQUAL(haste.job.end.strongest_signal, SIGKILL);
        CHECK_EQUAL(haste.job.end.survivors, 0);
        /* After the end it has no effect. */
        bl_command_hurry(&haste.control);
        bl_nursery_done(&nursery);
        bl_scope_done(&haste.scope);
        job_done(&haste.job);
    }
    return 0;
}

static void hurry_skips_the_grace_period_of_a_stop(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(hurried, &container);
}

/* ---- A stop after the end ---- */

/* Stops the job without a grace period after its remaining processes were asked to end: by then the
 * command's own end is known. */
static int stop_the_rest(void *argument)
{
    struct haste *haste = argument;
    while (haste->job.heard == 0 && bl_sleep(MS) == 0)
        continue;
    bl_command_hurry(&haste->control);
    bl_scope_set_deadline(&haste->scope, bl_now_ns());
    return 0;
}

static int stopped_too_late(void *argument)
{
    static const char *const words[] = {
        "/bin/sh", "-c",
        /* The command ends when its child is ready for SIGTERM. */
        "trap 'exit 3' USR1; (trap 'echo asked' TERM; kill -USR1 $$; while :; do sleep 1; done) &"
        " wait",
        NULL};
    static struct haste haste;
    struct job *job = &haste.job;
    struct bl_receipt receipt;
    struct bl_nursery nursery;
    JOB_INIT(job, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&job->tool, words);
    job->command.options.grace_ms = 60000;
    haste.control = (struct bl_command_control){0};
    job->command.control = &haste.control;
    bl_scope_init(&haste.scope, bl_scope_current());
    bl_receipt_open(&receipt, &haste.scope, "run_test");
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stop", stop_the_rest, &haste, NULL), 0);
    struct bl_scope *outer = bl_scope_enter(&haste.scope);
    CHECK_EQUAL(job_run(job), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(job->end.how, BL_END_EXITED);
    CHECK_EQUAL(job->end.status, 3);
    CHECK(job->end.left_behind > 0);
    check_receipt(&receipt, job, "finished", "KILL");
    bl_receipt_close(&receipt);
    bl_scope_done(&haste.scope);
    job_done(job);
    return 0;
}

static void a_command_that_had_ended_when_the_stop_came_is_finished(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(stopped_too_late, &container);
}

/* Few machines have a process that cannot be killed, but a receipt must be able to report one. */
static int unit_of_survivors(void *argument)
{
    static const struct bl_warden_end ends[] = {
        {.how = BL_END_STOPPED, .survivors = 2, .mechanism = BL_MECHANISM_SUBREAPER},
        {.how = BL_END_STOPPED,
         .survivors = BL_SURVIVORS_UNKNOWN,
         .unverified = "why",
         .mechanism = BL_MECHANISM_SUBREAPER},
    };
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        struct bl_scope scope, *outer = bl_scope_current();
        struct bl_receipt receipt;
        struct bl_unit unit;
        struct bl_buffer line;
        bl_scope_init(&scope, outer);
        bl_receipt_open(&receipt, &scope, "run_test");
        bl_scope_enter(&scope);
        bl_unit_begin(&unit, BL_UNIT_TOOL, "call_1", "bash");
        bl_scope_enter(outer);
        bl_scope_stop(&scope, BL_STOP_USER, "test");
        bl_command_unit_end(&unit, &ends[i]);
        CHECK_EQUAL(bl_receipt_survivors(&receipt), ends[i].survivors);
        bl_buffer_init(&line, 4096);
        CHECK_EQUAL(bl_receipt_line(&receipt, &line), 0);
        CHECK(bl_text_ends_with(bl_buffer_text(&line), i == 0 ? BL_TEXT("running: 2 processes.")
                                                              : BL_TEXT("not verify: why.")));
        bl_buffer_done(&line);
        bl_receipt_close(&receipt);
        bl_scope_done(&scope);
    }
    return 0;
}

static void survivors_of_a_command_are_in_the_receipt(void **state)
{
    (void)state;
    run_in_loop(unit_of_survivors, NULL);
}

static int not_started(void *argument)
{
    static struct job job;
    JOB_INIT(&job, *(enum bl_mechanism *)argument, "plain");
    tool_set_command(&job.tool, (const char *const[]){"belay-no-such-program", NULL});
    const char *const environment[] = {job.tool.marker, "PATH=/usr/bin:/bin", NULL};
    job.command.options.environment = environment;
    CHECK_EQUAL(job_run(&job), BL_ENOENT);
    CHECK_EQUAL(job.error.code, BL_ENOENT);
    CHECK(strstr(job.error.message, "belay-no-such-program") != NULL);
    CHECK_EQUAL(job.capture.total, 0);
    job_done(&job);
    return 0;
}

static void a_command_that_is_not_found_is_an_error(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(not_started, &container);
}

SUITE(command, IN_EACH(ten_mebibytes_of_output_keep_head_tail_and_count),
      IN_EACH(binary_output_comes_as_it_was_written),
      IN_EACH(output_and_error_keep_their_order_and_there_is_nothing_to_read),
      IN_EACH(error_output_is_captured_separately_on_request),
      IN_EACH(separate_streams_may_be_flooded_and_held_open),
      IN_EACH(grandchild_that_holds_the_output_open_delays_nothing),
      IN_EACH(kept_processes_are_reported_counted_and_stopped),
      IN_EACH(output_held_open_from_outside_delays_nothing),
      IN_EACH(a_deadline_stops_the_command_and_the_receipt_says_aborted),
      IN_EACH(a_deadline_kills_the_command_and_the_receipt_says_killed),
      IN_EACH(a_command_that_had_ended_when_the_stop_came_is_finished),
      cmocka_unit_test(survivors_of_a_command_are_in_the_receipt),
      IN_EACH(output_in_the_grace_period_is_captured),
      IN_EACH(a_scope_that_has_stopped_starts_nothing),
      IN_EACH(stop_during_a_start_leaves_no_process),
      IN_EACH(hurry_skips_the_grace_period_of_a_stop),
      IN_EACH(a_command_that_is_not_found_is_an_error));
