/* Tasks: they can be found as soon as a client knows them, end once, and then stay the same. */
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "aim.h"
#include "mcp_rig.h"
#include "process.h"

#define SAYS   "replies: [{say: ok, pieces: 1}]\nrepeat: true\n"
#define SILENT "replies: [{wedge: before_first_token}]\nrepeat: true\n"
#define SETSID                                                                                     \
    "replies:\n  - {tools: [{name: bash, input: {command: \"trap '' TERM; setsid sh -c 'touch "    \
    "at-work; sleep 600' & sleep 600\"}}]}\n  - say: after it\n"
#define RUN CALL(TASK_META, "run", "{'prompt':'x'}")

/* A cell waits here until the test has created that file. */
#define AWAIT_GO "await tools.bash({command: `while [ ! -e go ]; do sleep 0.01; done`})"

extern char **environ;

/* `--mcp-role FOLDER`: another process, on its standard streams. */
int mcp_role(const char *folder);

/* Sends a request about a task. */
static struct asked *task_ask(struct mcp_rig *rig, const char *method, struct bl_text id)
{
    struct bl_text params =
        bl_arena_printf(&rig->arena, "{" TASK_META ",'taskId':'%.*s'}", (int)id.size, id.data);

    return answer_to(rig, method, params.data);
}

static struct bl_text id_of(struct mcp_rig *rig, const struct asked *asked)
{
    CHECK(asked_is(asked, "/resultType", "task"));
    CHECK(asked_is(asked, "/status", "working"));
    return bl_arena_text(&rig->arena, asked_text(asked, "/taskId"));
}

/* Starts a task and returns its id. */
static struct bl_text begin(struct mcp_rig *rig, const char *params)
{
    struct asked *asked = answer_to(rig, "tools/call", params);
    struct bl_text id = id_of(rig, asked);

    asked_done(asked);
    return id;
}

/* Returns the task's answer once it has ended. */
static struct asked *await_end(struct mcp_rig *rig, struct bl_text id)
{
    uint64_t until_ns = bl_now_ns() + 60 * BL_NS_PER_S;

    for (;;) {
        struct asked *asked = task_ask(rig, "tasks/get", id);
        if (!bl_text_equal(asked_text(asked, "/status"), BL_TEXT("working")) ||
            !CHECK(bl_now_ns() < until_ns))
            return asked;
        asked_done(asked);
        bl_sleep(2 * MS);
    }
}

static void expect(struct mcp_rig *rig, const char *method, const char *params)
{
    struct asked *asked = answer_to(rig, method, params);

    CHECK(asked_failed(asked, BL_RPC_INVALID_PARAMS, "/taskId"));
    asked_done(asked);
}

MCP_RIG(unknown_tasks_are_refused_and_updates_have_no_effect, SAYS)
{
    static const char *const methods[] = {"tasks/get", "tasks/update", "tasks/cancel"};

    for (size_t i = 0; i < BL_COUNT(methods); i++) {
        expect(rig, methods[i], "{" TASK_META ",'taskId':'run_x'}");
        expect(rig, methods[i], "{" TASK_META ",'taskId':7}");
        expect(rig, methods[i], "{" TASK_META "}");
    }
    struct bl_text id = begin(rig, RUN);
    struct asked *asked = task_ask(rig, "tasks/update", id);
    CHECK(asked_is(asked, "/resultType", "complete"));
    asked_done(asked);
    asked_done(await_end(rig, id));
}

MCP_RIG(run_as_a_task_ends_with_the_result_of_the_plain_call, SAYS)
{
    struct asked *asked = answer_to(rig, "tools/call", RUN);
    struct bl_text id = id_of(rig, asked);
    int64_t number = 0;

    /* At least 128 random bits: 5 in each letter after the prefix. */
    CHECK(bl_text_starts_with(id, BL_TEXT("run_")) && (id.size - 4) * 5 >= 128);
    CHECK(bl_json_is(bl_json_get(asked->result, BL_TEXT("ttlMs")), BL_JSON_NULL));
    CHECK(bl_json_int64(bl_json_get(asked->result, BL_TEXT("pollIntervalMs")), &number));
    CHECK(bl_text_equal(asked_text(asked, "/createdAt"), asked_text(asked, "/lastUpdatedAt")));
    asked_done(asked);
    asked = await_end(rig, id);
    CHECK(asked_is(asked, "/resultType", "complete"));
    CHECK(asked_is(asked, "/status", "completed"));
    CHECK(asked_is(asked, "/result/resultType", "complete"));
    CHECK(asked_is(asked, "/result/structuredContent/turns/0/output", "ok"));
    CHECK(bl_json_int64(bl_json_get(asked->result, BL_TEXT("ttlMs")), &number));
    CHECK(number >= 3600000);
    asked_done(asked);
    /* An error of the tool is a result, too. */
    id = begin(rig, CALL(TASK_META, "run", "{'prompt':'x','max_steps':0,'timeout':0}"));
    asked = await_end(rig, id);
    CHECK(asked_is(asked, "/status", "completed"));
    CHECK(asked_is(asked, "/result/structuredContent/final_stop_reason", "timeout"));
    asked_done(asked);
}

MCP_RIG(M8_run_has_stopped_when_its_cancel_is_acknowledged, SETSID)
{
    struct bl_text id = begin(rig, RUN);

    rig_await_file(rig, "at-work");
    CHECK(rig_processes(rig) >= 2);
    struct asked *asked = task_ask(rig, "tasks/cancel", id);
    CHECK_EQUAL(rig_processes(rig), 0);
    CHECK(asked_is(asked, "/resultType", "complete"));
    asked_done(asked);
    asked = task_ask(rig, "tasks/get", id);
    CHECK(asked_is(asked, "/status", "cancelled"));
    CHECK(asked_is(asked, "/_meta/belay~1receipt/scope", id.data));
    CHECK(asked_is(asked, "/_meta/belay~1receipt/origin", "tasks/cancel"));
    asked_done(asked);
}

MCP_RIG(M8_cell_has_stopped_when_its_cancel_is_acknowledged, SAYS)
{
    struct bl_text id =
        begin(rig, CALL(TASK_META, "exec", "{'source':'text(`a`); for(;;);','yield_time_ms':50}"));

    CHECK(bl_text_starts_with(id, BL_TEXT("c-")) && (id.size - 2) * 5 >= 128);
    CHECK(!bl_list_empty(&rig->activities.list));
    pid_t worker = 0;
    for (int i = 0; i < 3000 && worker == 0; i++) {
        bl_sleep(20 * MS);
        worker = process_busy(getpid(), "belay-cell-work");
    }
    CHECK(process_lives(worker));
    struct asked *asked = task_ask(rig, "tasks/cancel", id);
    CHECK(!process_lives(worker));
    CHECK(bl_list_empty(&rig->activities.list));
    CHECK(asked->reply.code == 0);
    asked_done(asked);
    asked = task_ask(rig, "tasks/get", id);
    CHECK(asked_is(asked, "/status", "cancelled"));
    CHECK(asked_is(asked, "/_meta/belay~1receipt/scope", id.data));
    asked_done(asked);
}

MCP_RIG(cell_that_ends_within_its_yield_time_is_not_a_task, SAYS)
{
    struct asked *asked = answer_to(
        rig, "tools/call", CALL(TASK_META, "exec", "{'source':'text(1)','cell_id':'c-1'}"));

    CHECK(asked_is(asked, "/resultType", "complete"));
    CHECK(asked_is(asked, "/structuredContent/type", "completed"));
    asked_done(asked);
    /* An early yield is answered as for a plain call, too. */
    asked = answer_to(rig, "tools/call",
                      CALL(TASK_META, "exec",
                           "{'source':'text(1); yield_control(); for(;;) await null',"
                           "'cell_id':'c-2'}"));
    CHECK(asked_is(asked, "/structuredContent/type", "yielded"));
    asked_done(asked);
    expect(rig, "tasks/get", "{" TASK_META ",'taskId':'c-2'}");
    /* A cell that was never created is not a task either. */
    asked = answer_to(
        rig, "tools/call",
        CALL(TASK_META, "exec", "{'source':'text(2)','cell_id':'c-1','yield_time_ms':0}"));
    CHECK(asked_is(asked, "/_meta/belay~1error/code", "conflict"));
    asked_done(asked);
    expect(rig, "tasks/get", "{" TASK_META ",'taskId':'c-1'}");
}

MCP_RIG(task_of_a_cell_has_all_output_and_the_given_id, SAYS)
{
    struct bl_text id =
        begin(rig, CALL(TASK_META, "exec",
                        "{'source':'text(`a`); " AWAIT_GO "; yield_control(); text(`b`)',"
                        "'cell_id':'given','yield_time_ms':20}"));

    rig_touch(rig, "go");
    CHECK(bl_text_equal(id, BL_TEXT("given")));
    struct asked *asked = await_end(rig, id);
    CHECK(asked_is(asked, "/status", "completed"));
    CHECK(asked_is(asked, "/result/structuredContent/type", "completed"));
    CHECK(asked_is(asked, "/result/structuredContent/content_items/0/text", "a"));
    CHECK(asked_is(asked, "/result/structuredContent/content_items/1/text", "b"));
    asked_done(asked);
}

MCP_RIG(cell_with_the_id_of_another_task_is_answered_as_a_plain_call, SAYS)
{
    const char *params = CALL(TASK_META, "exec",
                              "{'source':'text(1); for(;;) await null','cell_id':'given',"
                              "'yield_time_ms':100}");

    CHECK(bl_text_equal(begin(rig, params), BL_TEXT("given")));
    /* The same call again is the same task. */
    CHECK(bl_text_equal(begin(rig, params), BL_TEXT("given")));
    rig_close_server(rig, BL_STOP_SHUTDOWN);
    rig_open_server(rig);
    struct asked *asked = answer_to(rig, "tools/call", params);
    CHECK(asked_is(asked, "/resultType", "complete"));
    CHECK(asked_is(asked, "/structuredContent/type", "yielded"));
    asked_done(asked);
    asked = task_ask(rig, "tasks/get", BL_TEXT("given"));
    CHECK(asked_is(asked, "/status", "cancelled")); /* it was the other task's */
    asked_done(asked);
}

/* Cancels and ends that meet: as many rounds as requested, and more until each has come first a few
 * times. */
#define MEETINGS_MAX 1000

struct meeting {
    struct aim aim;
    unsigned long least;
    unsigned long rounds;
    unsigned long cancelled;
    unsigned long late; /* completed, although the stop had reached it by then */
    bool sees_late;     /* these must occur as well */
};

static bool meeting_was(const struct meeting *meeting)
{
    unsigned long few = meeting->least / 8;
    return meeting->cancelled >= few && meeting->rounds - meeting->cancelled >= few &&
           (!meeting->sees_late || meeting->late > 0);
}

static bool meeting_again(const struct meeting *meeting)
{
    return meeting->rounds < meeting->least ||
           (!meeting_was(meeting) && meeting->rounds < MEETINGS_MAX);
}

static void meeting_settle(struct meeting *meeting, bool cancelled)
{
    meeting->rounds++;
    meeting->cancelled += cancelled;
    aim_settle(&meeting->aim, !cancelled);
}

static void meeting_check(const struct meeting *meeting)
{
    print_message("%lu of %lu cancelled, %lu too late\n", meeting->cancelled, meeting->rounds,
                  meeting->late);
    CHECK(meeting_was(meeting));
}

static bool has_receipt(struct mcp_rig *rig, struct bl_text id)
{
    struct bl_store_work work;

    CHECK_EQUAL(bl_store_find(rig->store, &rig->arena, id.data, &work, &rig->error), 0);
    return work.receipt.size > 0;
}

MCP_RIG(M9_cancel_and_end_at_once_have_one_lasting_outcome, SAYS)
{
    struct meeting meeting = {.least = suite_rounds(20, 10000), .sees_late = true};

    aim_init(&meeting.aim, 9, MS);
    while (meeting_again(&meeting)) {
        struct bl_arena_mark mark = bl_arena_mark(&rig->arena);
        struct bl_text id = begin(rig, RUN);
        bl_sleep(aim_take(&meeting.aim));
        struct asked *asked = task_ask(rig, "tasks/cancel", id);
        CHECK(asked_is(asked, "/resultType", "complete"));
        struct asked *first = task_ask(rig, "tasks/get", id);
        struct asked *again = task_ask(rig, "tasks/get", id);
        bool stopped = bl_text_equal(asked_text(first, "/status"), BL_TEXT("cancelled"));
        meeting_settle(&meeting, stopped);
        if (stopped)
            CHECK(asked_is(first, "/_meta/belay~1receipt/scope", id.data));
        else
            CHECK(asked_is(first, "/result/structuredContent/final_stop_reason", "completed"));
        meeting.late += !stopped && has_receipt(rig, id);
        CHECK(bl_text_equal(first->reply.result, again->reply.result));
        asked_done(again);
        asked_done(first);
        asked_done(asked);
        bl_arena_rewind(&rig->arena, mark);
    }
    meeting_check(&meeting);
}

MCP_RIG(M9_cell_that_ends_during_its_cancel_has_one_lasting_outcome, SAYS)
{
    struct meeting meeting = {.least = suite_rounds(8, 2000)};

    aim_init(&meeting.aim, 9, 40 * MS);
    while (meeting_again(&meeting)) {
        struct bl_arena_mark mark = bl_arena_mark(&rig->arena);
        struct bl_text id =
            begin(rig, CALL(TASK_META, "exec",
                            "{'source':'await new Promise(r => setTimeout(r, 20)); text(1)',"
                            "'yield_time_ms':0}"));
        bl_sleep(aim_take(&meeting.aim));
        asked_done(task_ask(rig, "tasks/cancel", id));
        struct asked *first = task_ask(rig, "tasks/get", id);
        struct asked *again = task_ask(rig, "tasks/get", id);
        bool stopped = bl_text_equal(asked_text(first, "/status"), BL_TEXT("cancelled"));
        meeting_settle(&meeting, stopped);
        if (stopped)
            CHECK(asked_is(first, "/_meta/belay~1receipt/scope", id.data));
        else
            CHECK(asked_is(first, "/result/structuredContent/content_items/0/text", "1"));
        CHECK(bl_text_equal(first->reply.result, again->reply.result));
        asked_done(again);
        asked_done(first);
        bl_arena_rewind(&rig->arena, mark);
    }
    meeting_check(&meeting);
}

MCP_RIG(M10_tasks_can_be_found_as_soon_as_a_client_knows_them, SAYS)
{
    size_t count = suite_rounds(24, 1000);
    struct asked **created = bl_zalloc(count * sizeof(struct asked *));
    struct asked **found = bl_zalloc(count * sizeof(struct asked *));

    for (size_t i = 0; i < count; i++)
        created[i] = ask(rig, "tools/call", RUN);
    for (size_t i = 0; i < count; i++) {
        struct bl_text id = id_of(rig, asked_await(created[i]));
        struct bl_text params = bl_arena_printf(
            &rig->arena, "{" TASK_META ",'taskId':'" BL_TEXT_FORMAT "'}", BL_TEXT_ARG(id));
        found[i] = ask(rig, "tasks/get", params.data);
    }
    for (size_t i = 0; i < count; i++) {
        CHECK_EQUAL(asked_await(found[i])->reply.code, 0);
        CHECK(asked_is(found[i], "/taskId", asked_text(created[i], "/taskId").data));
        asked_done(found[i]);
        struct asked *ended = await_end(rig, asked_text(created[i], "/taskId"));
        CHECK(asked_is(ended, "/status", "completed"));
        asked_done(ended);
        asked_done(created[i]);
    }
    bl_free(created);
    bl_free(found);
}

MCP_RIG(M11_ended_tasks_are_the_same_each_time_and_in_a_later_process, SAYS)
{
    struct bl_text id = begin(rig, RUN);
    struct asked *first = await_end(rig, id);
    struct bl_text text = bl_arena_text(&rig->arena, first->reply.result);

    asked_done(first);
    for (int i = 0; i < 5; i++) {
        struct asked *again = task_ask(rig, "tasks/get", id);
        CHECK(bl_text_equal(text, again->reply.result));
        asked_done(again);
        again = task_ask(rig, "tasks/cancel", id);
        CHECK(again->reply.code == 0);
        asked_done(again);
    }
    rig_close_server(rig, BL_STOP_SHUTDOWN);
    rig_open_server(rig);
    struct asked *later = task_ask(rig, "tasks/get", id);
    CHECK(bl_text_equal(text, later->reply.result));
    asked_done(later);
}

MCP_RIG(server_that_closes_stops_its_tasks_with_its_reason, SILENT)
{
    struct bl_text id = begin(rig, RUN);
    struct bl_text cell =
        begin(rig, CALL(TASK_META, "exec", "{'source':'for(;;) await null','yield_time_ms':0}"));

    mcp_peer_end(&rig->peer, BL_STOP_CLIENT_GONE, "gone");
    struct asked *asked = task_ask(rig, "tasks/get", id);
    CHECK(asked_is(asked, "/status", "working"));
    asked_done(asked);
    rig_close_server(rig, BL_STOP_CLIENT_GONE);
    rig_open_server(rig);
    asked = task_ask(rig, "tasks/get", id);
    CHECK(asked_is(asked, "/status", "cancelled"));
    CHECK(asked_is(asked, "/_meta/belay~1receipt/reason", "client_gone"));
    asked_done(asked);
    asked = task_ask(rig, "tasks/get", cell);
    CHECK(asked_is(asked, "/status", "cancelled"));
    CHECK(asked_is(asked, "/_meta/belay~1receipt/reason", "client_gone"));
    asked_done(asked);
}

MCP_RIG(request_cancelled_before_its_task_is_known_leaves_no_task_working, SILENT)
{
    struct asked *asked = ask(rig, "tools/call", RUN);

    bl_yield(); /* it is being stored */
    bl_scope_stop(&asked->scope, BL_STOP_USER, "mcp");
    asked_await(asked);
    CHECK(asked->reply.dropped);
    CHECK(bl_list_empty(&rig->server->works));
    asked_done(asked);
}

/* ---- A process that dies --------------------------------------------------------------------- */

/* Serves standard streams as belay does, with a silent model, until it is killed. */
static int victim_main(void *argument)
{
    struct mcp_rig *rig = bl_zalloc(sizeof *rig);
    int exit_code;

    mcp_rig_prepare(rig, argument, SILENT);
    CHECK_EQUAL(bl_store_open(rig->path, &rig->store, &rig->error), 0);
    CHECK_EQUAL(bl_runtime_begin(&rig->runtime, &rig->workspace, rig->store, &rig->error), 0);
    rig->options.in = STDIN_FILENO;
    rig->options.out = STDOUT_FILENO;
    int code = bl_mcp_serve(&rig->options, &exit_code, &rig->error);
    bl_nursery_done(&rig->nursery);
    bl_runtime_end(&rig->runtime);
    bl_store_close(rig->store);
    bl_arena_done(&rig->arena);
    bl_free(rig);
    return code;
}

int mcp_role(const char *folder)
{
    return run_in_role(victim_main, (char *)(uintptr_t)folder);
}

static pid_t victim_start(const struct mcp_rig *rig, int fd)
{
    char path[4096] = "", folder[64];
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;

    bl_text_into(folder, sizeof folder, rig->folder);
    CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    char *const arguments[] = {path, "--mcp-role", folder, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    CHECK_EQUAL(posix_spawn(&pid, path, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* Starts a task in the other process. */
static struct bl_text victim_begin(struct mcp_rig *rig, int fd, const char *params)
{
    struct bl_text line = bl_arena_printf(
        &rig->arena, "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':%s}\n", params);
    struct bl_text text = rig_quoted(&rig->arena, line.data);

    CHECK_EQUAL(send(fd, text.data, text.size, MSG_NOSIGNAL), text.size);
    const struct bl_json *answer = rig_json(&rig->arena, rig_line(rig, fd));
    struct bl_text id = bl_json_text(bl_json_pointer(answer, BL_TEXT("/result/taskId")));
    CHECK(id.size > 0);
    return id;
}

MCP_RIG(M10_task_of_a_killed_process_is_failed_or_has_its_result, SILENT)
{
    int ends[2], status = 0;

    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = victim_start(rig, ends[1]);
    close(ends[1]);
    struct bl_text cut = victim_begin(rig, ends[0], RUN);
    struct bl_text whole = victim_begin(
        rig, ends[0],
        CALL(TASK_META, "exec", "{'source':'" AWAIT_GO "; text(1)','yield_time_ms':0}"));
    struct asked *asked = task_ask(rig, "tasks/cancel", cut);
    CHECK(asked_failed(asked, BL_RPC_INTERNAL, NULL)); /* it runs in another process */
    asked_done(asked);
    rig_touch(rig, "go");
    asked_done(await_end(rig, whole));
    CHECK_EQUAL(kill(pid, SIGKILL), 0);
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < 2; i++) {
        asked = task_ask(rig, "tasks/get", cut);
        CHECK(asked_is(asked, "/status", "failed"));
        CHECK(asked_text(asked, "/error/message").size > 0);
        asked_done(asked);
    }
    asked = task_ask(rig, "tasks/get", whole);
    CHECK(asked_is(asked, "/status", "completed"));
    CHECK(asked_is(asked, "/result/structuredContent/content_items/0/text", "1"));
    asked_done(asked);
    close(ends[0]);
}

SUITE(mcp_task, cmocka_unit_test(unknown_tasks_are_refused_and_updates_have_no_effect),
      cmocka_unit_test(run_as_a_task_ends_with_the_result_of_the_plain_call),
      cmocka_unit_test(M8_run_has_stopped_when_its_cancel_is_acknowledged),
      cmocka_unit_test(M8_cell_has_stopped_when_its_cancel_is_acknowledged),
      cmocka_unit_test(cell_that_ends_within_its_yield_time_is_not_a_task),
      cmocka_unit_test(task_of_a_cell_has_all_output_and_the_given_id),
      cmocka_unit_test(cell_with_the_id_of_another_task_is_answered_as_a_plain_call),
      cmocka_unit_test(M9_cell_that_ends_during_its_cancel_has_one_lasting_outcome),
      cmocka_unit_test(M9_cancel_and_end_at_once_have_one_lasting_outcome),
      cmocka_unit_test(M10_tasks_can_be_found_as_soon_as_a_client_knows_them),
      cmocka_unit_test(M11_ended_tasks_are_the_same_each_time_and_in_a_later_process),
      cmocka_unit_test(server_that_closes_stops_its_tasks_with_its_reason),
      cmocka_unit_test(request_cancelled_before_its_task_is_known_leaves_no_task_working),
      cmocka_unit_test(M10_task_of_a_killed_process_is_failed_or_has_its_result));
