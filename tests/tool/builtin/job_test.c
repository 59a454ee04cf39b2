/* Background commands, with real shells in real wardens. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"

#define SOON_MS 5000.0
#define DEAF    "trap '' TERM; echo ready; while :; do sleep 1; done"

#define IN_CONTAINER(name, body)                                                                   \
    static void name(void **state)                                                                 \
    {                                                                                              \
        enum bl_mechanism container = container_of_test(state);                                    \
        run_in_loop(body, &container);                                                             \
    }
#define PLAIN(name, body)                                                                          \
    static void name(void **state)                                                                 \
    {                                                                                              \
        enum bl_mechanism container = BL_MECHANISM_NONE;                                           \
        (void)state;                                                                               \
        run_in_loop(body, &container);                                                             \
    }

/* A box with jobs; static, because it is large. On a busy machine, a process may have to wait for a
 * processor before it can obey SIGTERM: the grace period is long enough for all that obey. */
static struct box *open_box(void *argument)
{
    static struct box box;
    box_init(&box, *(enum bl_mechanism *)argument);
    box.options.grace_chosen = true;
    box.options.grace_ms = 60000;
    box_open(&box);
    box_begin(&box);
    return &box;
}

static bool says(const struct box *box, const char *text)
{
    return bl_text_find(box->result.text, bl_text_from(text)) >= 0;
}

/* Starts a job; `more` holds further members of the input. */
static void start(struct box *box, const char *command, const char *more)
{
    char input[512];
    snprintf(input, sizeof input, "{\"command\":\"%s\",\"background\":true%s}", command, more);
    CHECK_EQUAL(box_call(box, input), 0);
    if (!CHECK(!box->result.is_error))
        fprintf(stderr, "%s\n", box_text(box));
}

static int look(struct box *box, const char *id)
{
    char input[64];
    snprintf(input, sizeof input, "{\"job\":\"%s\"}", id);
    return box_call(box, input);
}

static int stop(struct box *box, const char *id)
{
    char input[64];
    snprintf(input, sizeof input, "{\"job\":\"%s\",\"stop\":true}", id);
    return box_call(box, input);
}

/* Reads the job until its report contains the text. */
static void look_until(struct box *box, const char *id, const char *text)
{
    double start_ms = now_ms();
    do {
        bl_sleep(5 * MS);
        CHECK_EQUAL(look(box, id), 0);
    } while (!says(box, text) && now_ms() - start_ms < 4 * SOON_MS);
    if (!CHECK(says(box, text)))
        fprintf(stderr, "not '%s' but: %s\n", text, box_text(box));
}

/* ---- Reading ---- */

static int answers(void *argument)
{
    struct box *box = open_box(argument);
    double start_ms = now_ms();
    start(box, "while [ ! -e go ]; do sleep 0.02; done; echo went", "");
    CHECK(now_ms() - start_ms < SOON_MS);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("job_1 is running in the background.")));
    CHECK(says(box, "{\"job\":\"job_1\"}") && says(box, "{\"job\":\"job_1\",\"stop\":true}"));
    CHECK_EQUAL(box->heard_bytes, 0);
    CHECK_EQUAL(look(box, "job_1"), 0);
    CHECK(!box->result.is_error);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("job_1 has been running for ")));
    /* Other calls run in parallel. */
    CHECK_EQUAL(box_bash(box, "touch go", 0), 0);
    look_until(box, "job_1", "job_1 ended after ");
    CHECK(!box->result.is_error);
    CHECK(bl_text_ends_with(box->result.text, BL_TEXT(": exit code 0")));
    box_done(box);
    return 0;
}

PLAIN(background_command_returns_a_job_id_at_once, answers)

static int reads_news(void *argument)
{
    struct box *box = open_box(argument);
    start(box,
          "echo one; while [ ! -e a ]; do sleep 0.02; done; printf two; "
          "while [ ! -e b ]; do sleep 0.02; done; echo three; exit 3",
          "");
    look_until(box, "job_1", "one\njob_1 has been running for ");
    CHECK_EQUAL(look(box, "job_1"), 0);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("job_1 has been running for ")));
    box_write(box, "a", "");
    look_until(box, "job_1", "two\njob_1 has been running for ");
    CHECK(!says(box, "one"));
    box_write(box, "b", "");
    look_until(box, "job_1", "ended after ");
    /* The end may be reported with or after the last output, and can still be queried. */
    CHECK(box->result.is_error);
    CHECK(bl_text_ends_with(box->result.text, BL_TEXT(": exit code 3")));
    CHECK_EQUAL(look(box, "job_1"), 0);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("job_1 ended after ")));
    CHECK(box->result.is_error);
    box_done(box);
    return 0;
}

PLAIN(reading_a_job_returns_new_output_and_state, reads_news)

static int prints_much(void *argument)
{
    struct box *box = open_box(argument);
    start(box, "echo head; head -c 3000000 /dev/urandom; echo; echo tail", "");
    while (marker_count(box->marker) > 0)
        bl_sleep(5 * MS);
    /* The job ends shortly after its processes: it may take more than one look. */
    bool left_out = false, tail = false;
    for (unsigned looks = 0; looks == 0 || !says(box, "ended after "); looks++) {
        CHECK_EQUAL(look(box, "job_1"), 0);
        CHECK(box->result.text.size <= 65536 + 400);
        CHECK(looks > 0 || bl_text_starts_with(box->result.text, BL_TEXT("head\n")));
        left_out |= says(box, " bytes left out");
        tail |= says(box, "tail\n");
        if (!CHECK(looks < 1000))
            break;
        bl_sleep(5 * MS);
    }
    CHECK(left_out && tail);
    box_done(box);
    return 0;
}

PLAIN(new_output_of_a_job_is_bounded_and_valid_text, prints_much)

static int ends(void *argument)
{
    struct box *box = open_box(argument);
    start(box, "kill -KILL $$", "");
    look_until(box, "job_1", ": killed by SIGKILL");
    CHECK(box->result.is_error);
    start(box, "echo begun; sleep 300", ",\"timeout_ms\":200");
    look_until(box, "job_2", ": timed out after 200 ms\nStopped in ");
    CHECK(box->result.is_error);
    CHECK_EQUAL(rmdir(box->workspace), 0);
    CHECK_EQUAL(box_call(box, "{\"command\":\"true\",\"background\":true}"), 0);
    CHECK(box->result.is_error);
    CHECK(bl_text_starts_with(box->result.text, BL_TEXT("cannot start: ")));
    CHECK_EQUAL(look(box, "job_3"), 0);
    CHECK(says(box, "Unknown job 'job_3'."));
    box_done(box);
    return 0;
}

PLAIN(endings_of_a_job_are_distinguished, ends)

static int wrong_ids(void *argument)
{
    struct box *box = open_box(argument);
    CHECK_EQUAL(look(box, "job_1"), 0);
    CHECK(box->result.is_error);
    CHECK(strcmp(box_text(box), "Unknown job 'job_1'. No background command was started.") == 0);
    start(box, "true", "");
    start(box, "sleep 300", "");
    look_until(box, "job_1", "ended after");
    CHECK_EQUAL(stop(box, "3"), 0);
    CHECK(box->result.is_error);
    CHECK(strcmp(box_text(box), "Unknown job '3'. Jobs: job_1 (ended), job_2 (running)") == 0);
    box_done(box);
    return 0;
}

PLAIN(unknown_job_id_is_answered_with_the_known_jobs, wrong_ids)

static int none_here(void *argument)
{
    static struct box box;
    box_init(&box, *(enum bl_mechanism *)argument);
    box_open(&box);
    CHECK_EQUAL(box_call(&box, "{\"command\":\"touch ran\",\"background\":true}"), 0);
    CHECK(box.result.is_error);
    CHECK(says(&box, "Background commands are not available here"));
    CHECK_EQUAL(box_bash(&box, "ls", 0), 0);
    CHECK_EQUAL(box.result.text.size, 0);
    box_done(&box);
    return 0;
}

PLAIN(background_commands_need_a_session, none_here)

static int limited(void *argument)
{
    struct box *box = open_box(argument);
    for (unsigned i = 0; i < 32; i++)
        start(box, "exec sleep 300", "");
    CHECK_EQUAL(box_call(box, "{\"command\":\"true\",\"background\":true}"), 0);
    CHECK(box->result.is_error);
    CHECK(says(box, "32 jobs are running, which is the limit."));
    CHECK_EQUAL(stop(box, "job_7"), 0);
    start(box, "exec sleep 300", "");
    CHECK(says(box, "job_33 is running"));
    box_done(box);
    return 0;
}

PLAIN(number_of_running_jobs_is_limited, limited)

/* ---- Stopping ---- */

static void check_receipt(struct box *box, struct bl_text json, const char *reason,
                          const char *origin, const char *fate)
{
    const struct bl_json *value = NULL;
    int64_t number = -1;
    CHECK_EQUAL(bl_json_read(&box->arena, json, NULL, &value, NULL), 0);
#define TEXT_AT(pointer) bl_json_text(bl_json_pointer(value, BL_TEXT(pointer)))
    CHECK(bl_text_equal(TEXT_AT("/scope"), BL_TEXT("job_1")));
    CHECK(bl_text_equal(TEXT_AT("/reason"), bl_text_from(reason)));
    CHECK(bl_text_equal(TEXT_AT("/origin"), bl_text_from(origin)));
    CHECK(bl_text_equal(TEXT_AT("/units/0/kind"), BL_TEXT("tool")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/id"), BL_TEXT("job_1")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/name"), BL_TEXT("bash")));
    CHECK(bl_text_equal(TEXT_AT("/units/0/fate"), bl_text_from(fate)));
#undef TEXT_AT
    CHECK_EQUAL(bl_json_size(bl_json_pointer(value, BL_TEXT("/units"))), 1);
    CHECK(bl_json_int64(bl_json_pointer(value, BL_TEXT("/survivors")), &number));
    CHECK_EQUAL(number, 0);
}

static int stops(void *argument)
{
    struct box *box = open_box(argument);
    start(box, "sleep 300 & setsid sleep 301 & (sleep 302 &); echo ready; sleep 303", "");
    look_until(box, "job_1", "ready\n");
    double start_ms = now_ms();
    CHECK_EQUAL(stop(box, "job_1"), 0);
    CHECK(now_ms() - start_ms < SOON_MS);
    CHECK_EQUAL(marker_count(box->marker), 0);
    CHECK(!box->result.is_error);
    CHECK(says(box, "job_1 ended after ") && says(box, ": user (bash)\nStopped in "));
    CHECK(bl_text_ends_with(box->result.text, BL_TEXT("processes. Nothing left running.")));
    CHECK_EQUAL(box->events, 1);
    check_receipt(box, box->told, "user", "bash", "aborted");
    /* Once more: it has ended, and nothing more is reported. */
    CHECK_EQUAL(stop(box, "job_1"), 0);
    CHECK(!box->result.is_error && says(box, "job_1 ended after "));
    CHECK_EQUAL(box->events, 1);
    box_done(box);
    return 0;
}

IN_CONTAINER(a_job_is_stopped_with_a_receipt, stops)

static int stops_too_late(void *argument)
{
    struct box *box = open_box(argument);
    start(box, "exit 4", "");
    look_until(box, "job_1", "ended after");
    CHECK_EQUAL(stop(box, "job_1"), 0);
    CHECK(bl_text_ends_with(box->result.text, BL_TEXT(": exit code 4")));
    CHECK_EQUAL(box->events, 0);
    box_done(box);
    return 0;
}

PLAIN(ended_job_is_not_stopped, stops_too_late)

static int left_behind(void *argument)
{
    struct box *box = open_box(argument);
    start(box, "setsid sleep 300 > /dev/null & echo started; exit 0", "");
    look_until(box, "job_1", "with 1 process left running by its command (exit code 0)");
    CHECK(!box->result.is_error);
    CHECK_EQUAL(marker_count(box->marker), 1);
    CHECK_EQUAL(stop(box, "job_1"), 0);
    CHECK_EQUAL(marker_count(box->marker), 0);
    CHECK(says(box, "1 process. Nothing left running."));
    check_receipt(box, box->told, "user", "bash", "aborted");
    /* The job ends when its processes end by themselves, and their output is kept. */
    start(box, "(while [ ! -e go ]; do sleep 0.02; done; echo late) & echo early; exit 5", "");
    look_until(box, "job_2", "left running by its command (exit code 5)");
    box_write(box, "go", "");
    look_until(box, "job_2", "late\n");
    look_until(box, "job_2", ": exit code 5");
    CHECK(says(box, "ended after"));
    box_done(box);
    return 0;
}

IN_CONTAINER(processes_left_by_a_background_command_are_kept, left_behind)

static struct bl_text write_receipt(struct box *box)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    bl_buffer_init(&text, 65536);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&box->receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    struct bl_text kept = bl_arena_text(&box->arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    return kept;
}

static void stop_it(struct box *box)
{
    bl_scope_stop(&box->scope, BL_STOP_USER, "test");
}

static int survives_the_turn(void *argument)
{
    struct box *box = open_box(argument);
    const struct bl_json *value = NULL;
    int64_t number = -1;
    box->receipt.background = bl_toolbox_write_background;
    box->receipt.background_context = box->toolbox;
    start(box, "sleep 300 & sleep 301; true", "");
    while (marker_count(box->marker) < 3)
        bl_sleep(5 * MS);
    box->on_output = stop_it;
    CHECK_EQUAL(box_bash(box, "echo begun; sleep 302", 0), BL_ECANCELED);
    CHECK_EQUAL(marker_count(box->marker), 3);
    CHECK(bl_receipt_ready(&box->receipt));
    struct bl_text json = write_receipt(box);
    CHECK_EQUAL(bl_json_read(&box->arena, json, NULL, &value, NULL), 0);
#define AT(pointer) bl_json_pointer(value, BL_TEXT(pointer))
    CHECK_EQUAL(bl_json_size(AT("/background")), 1);
    CHECK(bl_text_equal(bl_json_text(AT("/background/0/id")), BL_TEXT("job_1")));
    CHECK(bl_text_equal(bl_json_text(AT("/background/0/command")),
                        BL_TEXT("sleep 300 & sleep 301; true")));
    CHECK(bl_json_int64(AT("/background/0/processes"), &number));
    CHECK_EQUAL(number, 3);
    CHECK(bl_json_int64(AT("/background/0/age_ms"), &number));
    CHECK_EQUAL(bl_json_size(AT("/units")), 1);
    CHECK(bl_json_int64(AT("/survivors"), &number));
    CHECK_EQUAL(number, 0);
#undef AT
    CHECK_EQUAL(look(box, "job_1"), 0);
    CHECK(says(box, "job_1 has been running for "));
    box_done(box); /* the end of the session: no process is left */
    return 0;
}

IN_CONTAINER(a_stop_of_the_turn_leaves_jobs_running_and_names_them, survives_the_turn)

static int session_ends(void *argument)
{
    static struct box box;
    box_init(&box, *(enum bl_mechanism *)argument);
    box.options.grace_chosen = true;
    box.options.grace_ms = 50;
    box_open(&box);
    box_begin(&box);
    start(&box, "setsid sleep 300 & exit 0", "");
    start(&box, DEAF, "");
    start(&box, "true", "");
    look_until(&box, "job_2", "ready");
    /* Also if the scope of the caller was stopped. */
    bl_scope_stop(&box.scope, BL_STOP_USER, "test");
    struct bl_scope *outer = bl_scope_enter(&box.scope);
    double start_ms = now_ms();
    bl_toolbox_end(box.toolbox);
    CHECK(now_ms() - start_ms < SOON_MS);
    bl_scope_enter(outer);
    CHECK_EQUAL(marker_count(box.marker), 0);
    CHECK(bl_list_empty(&box.activities.list));
    CHECK_EQUAL(look(&box, "job_1"), 0);
    CHECK(says(&box, "Unknown job 'job_1'."));
    bl_toolbox_end(box.toolbox);
    box_done(&box);
    return 0;
}

IN_CONTAINER(the_end_of_the_session_stops_all_jobs, session_ends)

static int hurry_later(void *argument)
{
    struct box *box = argument;
    bl_sleep(200 * MS);
    CHECK(marker_count(box->marker) > 0);
    bl_toolbox_hurry(box->toolbox);
    return 0;
}

static int hurried(void *argument)
{
    static struct box box;
    struct bl_nursery nursery;
    box_init(&box, *(enum bl_mechanism *)argument);
    box.options.grace_chosen = true;
    box.options.grace_ms = 60000;
    box_open(&box);
    box_begin(&box);
    start(&box, DEAF, "");
    look_until(&box, "job_1", "ready");
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "hurry", hurry_later, &box, NULL), 0);
    double start_ms = now_ms();
    CHECK_EQUAL(stop(&box, "job_1"), 0);
    CHECK(now_ms() - start_ms < 20000);
    bl_nursery_done(&nursery);
    check_receipt(&box, box.told, "user", "bash", "killed");
    box_done(&box);
    return 0;
}

PLAIN(hurry_cuts_the_grace_of_a_job, hurried)

static int calmed(void *argument)
{
    static struct box calm;
    struct box *box = &calm;
    box_init(box, *(enum bl_mechanism *)argument);
    box->options.grace_chosen = true;
    box->options.grace_ms = 20000; /* a shell may be slow to answer */
    box_open(box);
    box_begin(box);
    start(box, "trap 'echo bye; exit 0' TERM; echo ready; sleep 300 & wait", "");
    look_until(box, "job_1", "ready");
    bl_toolbox_hurry(box->toolbox);
    bl_toolbox_calm(box->toolbox);
    CHECK_EQUAL(stop(box, "job_1"), 0);
    CHECK(says(box, "bye\n"));
    check_receipt(box, box->told, "user", "bash", "aborted");
    box_done(box);
    return 0;
}

PLAIN(job_that_outlives_a_hurried_stop_has_its_grace_period, calmed)

/* ---- By id, from outside ---- */

static int by_id(void *argument)
{
    struct box *box = open_box(argument);
    struct bl_buffer text;
    struct bl_json_writer writer;
    const struct bl_json *value = NULL;
    start(box, "echo 'a\\tb'; sleep 300", "");
    look_until(box, "job_1", "a");
    bl_buffer_init(&text, 65536);
    bl_json_writer_init(&writer, &text);
    bl_activities_write(&box->activities, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    CHECK_EQUAL(bl_json_read(&box->arena, bl_buffer_text(&text), NULL, &value, NULL), 0);
#define TEXT_AT(pointer) bl_json_text(bl_json_pointer(value, BL_TEXT(pointer)))
    CHECK(bl_text_equal(TEXT_AT("/0/kind"), BL_TEXT("job")));
    CHECK(bl_text_equal(TEXT_AT("/0/id"), BL_TEXT("job_1")));
    CHECK(bl_text_equal(TEXT_AT("/0/session"), BL_TEXT("session-1")));
    CHECK(bl_text_equal(TEXT_AT("/0/phase"), BL_TEXT("echo 'a b'; sleep 300")));
#undef TEXT_AT
    bl_buffer_clear(&text);
    CHECK_EQUAL(bl_activities_cancel(&box->activities, "job_9", "test", &text), BL_ENOENT);
    CHECK_EQUAL(bl_activities_cancel(&box->activities, "job_1", "test", &text), 0);
    CHECK_EQUAL(marker_count(box->marker), 0);
    check_receipt(box, bl_buffer_text(&text), "user", "test", "aborted");
    CHECK(bl_list_empty(&box->activities.list));
    CHECK_EQUAL(look(box, "job_1"), 0);
    CHECK(!box->result.is_error && says(box, ": user (test)\nStopped in "));
    bl_buffer_done(&text);
    box_done(box);
    return 0;
}

PLAIN(a_job_is_listed_and_can_be_stopped_by_its_id, by_id)

static int permits(void *argument)
{
    static struct box box;
    char reason[256];
    box_init(&box, *(enum bl_mechanism *)argument);
    bl_permissions_free(box.permissions);
    box.options.permissions = box.permissions = bl_permissions_new(BL_PERMISSION_ASK);
    CHECK_EQUAL(bl_permissions_add(box.permissions, true, "bash(make *)", NULL), 0);
    CHECK_EQUAL(bl_permissions_add(box.permissions, false, "bash(rm *)", NULL), 0);
    box_open(&box);
#define DECIDE(input) box_decide(&box, "bash", input, reason, sizeof reason)
    CHECK_EQUAL(DECIDE("{\"command\":\"make serve\",\"background\":true}"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(DECIDE("{\"command\":\"rm x\",\"background\":true}"), BL_PERMIT_DENIED);
    CHECK_EQUAL(DECIDE("{\"command\":\"ls\",\"background\":true}"), BL_PERMIT_ASK);
    CHECK_EQUAL(DECIDE("{\"job\":\"job_1\"}"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(DECIDE("{\"job\":\"job_1\",\"stop\":true}"), BL_PERMIT_ALLOWED);
#undef DECIDE
    box_done(&box);
    return 0;
}

PLAIN(a_job_needs_the_permission_of_its_command_and_reading_it_none, permits)

/* ---- At any moment ---- */

static int any_moment(void *argument)
{
    static const char *const commands[] = {"exit 0", "sleep 300 & sleep 301", "echo hello; exit 3",
                                           "setsid sleep 300 & echo hello"};
    struct bl_random random;
    unsigned long rounds = suite_rounds(16, 1000), ended = 0;
    bl_random_seed(&random, 23);
    for (unsigned long round = 0; round < rounds; round++) {
        struct box *box = open_box(argument);
        start(box, commands[round % BL_COUNT(commands)], "");
        bl_sleep(bl_random_below(&random, 30 * MS));
        if (round % 3 != 0) {
            CHECK_EQUAL(stop(box, "job_1"), 0);
            CHECK(says(box, "job_1 ended after "));
            CHECK_EQUAL(marker_count(box->marker), 0);
            CHECK_EQUAL(box->events, says(box, "Stopped in "));
            ended += box->events == 0;
        }
        box_done(box);
    }
    print_message("           %lu of %lu had ended\n", ended, rounds);
    return 0;
}

IN_CONTAINER(job_stopped_at_any_moment_leaves_no_process, any_moment)

/* ---- kill -9 ---- */

/* A belay process that starts a job, and is killed. */
static int serve(void *argument)
{
    static struct box box;
    enum bl_mechanism *container = argument;
    box_init(&box, *container);
    box_open(&box);
    box_begin(&box);
    start(&box, "setsid sleep 300 & (sleep 301 &); sleep 302; true", "");
    printf("%s\n%s\n", box.workspace, box.marker);
    fflush(stdout);
    bl_sleep(600 * BL_NS_PER_S);
    return 0;
}

int job_role(void)
{
    enum bl_mechanism container = BL_MECHANISM_NONE;
    bl_container_parse(getenv(JOB_ROLE), &container, NULL);
    return run_in_role(serve, &container) == 0 ? 0 : 1;
}

static void kill_9_leaves_no_job(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    char self[] = "/proc/self/exe", option[] = "--role", workspace[128], marker[128];
    char *words[] = {self, option, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid;

    setenv(JOB_ROLE, bl_mechanism_name(container), 1);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    assert_int_equal(posix_spawn(&pid, self, &actions, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    unsetenv(JOB_ROLE);
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    assert_non_null(fgets(workspace, sizeof workspace, lines));
    assert_non_null(fgets(marker, sizeof marker, lines));
    fclose(lines);
    workspace[strcspn(workspace, "\n")] = marker[strcspn(marker, "\n")] = '\0';
    double start_ms = now_ms();
    /* Do not count all processes: shells come and go until all three sleep. */
    while (marker_scan(marker, "sleep", '\0')->ready < 3 && now_ms() - start_ms < 4 * SOON_MS)
        nap_ms(5);
    size_t asleep = marker_scan(marker, "sleep", '\0')->ready;
    kill(pid, SIGKILL);
    assert_int_equal(asleep, 3);
    start_ms = now_ms();
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    while (marker_count(marker) > 0 && now_ms() - start_ms < SOON_MS)
        nap_ms(1);
    assert_int_equal(marker_kill(marker), 0);
    rmdir(workspace);
}

SUITE(job, cmocka_unit_test(background_command_returns_a_job_id_at_once),
      cmocka_unit_test(reading_a_job_returns_new_output_and_state),
      cmocka_unit_test(new_output_of_a_job_is_bounded_and_valid_text),
      cmocka_unit_test(endings_of_a_job_are_distinguished),
      cmocka_unit_test(unknown_job_id_is_answered_with_the_known_jobs),
      cmocka_unit_test(background_commands_need_a_session),
      cmocka_unit_test(number_of_running_jobs_is_limited), IN_EACH(a_job_is_stopped_with_a_receipt),
      cmocka_unit_test(ended_job_is_not_stopped),
      IN_EACH(processes_left_by_a_background_command_are_kept),
      IN_EACH(a_stop_of_the_turn_leaves_jobs_running_and_names_them),
      IN_EACH(the_end_of_the_session_stops_all_jobs),
      cmocka_unit_test(hurry_cuts_the_grace_of_a_job),
      cmocka_unit_test(job_that_outlives_a_hurried_stop_has_its_grace_period),
      cmocka_unit_test(a_job_is_listed_and_can_be_stopped_by_its_id),
      cmocka_unit_test(a_job_needs_the_permission_of_its_command_and_reading_it_none),
      IN_EACH(job_stopped_at_any_moment_leaves_no_process), IN_EACH(kill_9_leaves_no_job));
