/* Resource limits of a cell, and its ends from inside. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "actor.h"

#define MINUTE 60000
#define MIB    ((uint64_t)1024 * 1024)

static bool failed_with(struct house *house, enum bl_cell_error_kind kind, const char *name)
{
    if (!CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED))
        return false;
    const struct bl_cell_error *error = house->seen.completed.error;
    if (!CHECK(error != NULL))
        return false;
    if (error->kind != kind)
        fprintf(stderr, "%s: " BL_TEXT_FORMAT "\n", bl_cell_error_kind_name(error->kind),
                BL_TEXT_ARG(error->message));
    CHECK(error->message.size > 0);
    return CHECK_EQUAL(error->kind, kind) &&
           CHECK(name == NULL || bl_text_equal(error->name, bl_text_from(name)));
}

/* ---- Memory ---- */

/* Returns a line of /proc/PID/status in KiB, or 0 if it is missing. */
static uint64_t memory_of(int64_t pid, const char *line)
{
    char path[64], text[256];
    uint64_t size = 0;

    snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    while (fgets(text, sizeof text, file) != NULL)
        if (strncmp(text, line, strlen(line)) == 0)
            size = strtoull(text + strlen(line) + 1, NULL, 10);
    fclose(file);
    return size;
}

static const char *const bombs[] = {
    "const a = []; for (;;) a.push(new Array(1000).fill(a.length));",
    "let s = 'x'; for (;;) { s += s + 'y'; text(s.length & s.charCodeAt(s.length >> 1)); }",
    "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(7));",
    "const m = new Map(); for (let i = 0;; i++) m.set(i, {i});",
};

/* Measures the peak while the cell runs, above what the worker had before. */
static void blow_up(struct house *house, const char *id, const char *source, uint64_t idle)
{
    uint64_t peak = 0, since_ns = bl_now_ns();

    CHECK_EQUAL(house_create_limited(house, id, source, 0, 16 * MIB, 0), 0);
    while (strcmp(house_state(house, id), "running") == 0) {
        uint64_t now = memory_of(house_worker_pid(house, id), "VmHWM:");
        peak = now > peak ? now : peak;
        bl_sleep(BL_NS_PER_MS / 2);
    }
    CHECK(house_finish(house, id) != NULL);
    CHECK(figure_since("C6 memory limit of a bomb", since_ns, 2000));
    if (!failed_with(house, BL_CELL_ERROR_MEMORY_LIMIT, "RangeError"))
        fprintf(stderr, "by: %s\n", source);
    if (!CHECK(peak <= idle + 32 * 1024))
        fprintf(stderr, "peak %llu KiB, idle %llu KiB, by: %s\n", (unsigned long long)peak,
                (unsigned long long)idle, source);
}

static int out_of_memory(struct house *house)
{
    unsigned neighbours = figure_taking() ? 31 : (unsigned)suite_rounds(3, 31);
    char id[16];

    CHECK_EQUAL(house_create(house, "c-idle", "text(1); await tools.sleep({});"), 0);
    house_await_output(house, "c-idle", 1);
    uint64_t idle = memory_of(house_worker_pid(house, "c-idle"), "VmHWM:");
    CHECK(idle > 0);
    for (unsigned i = 0; i < neighbours; i++) {
        snprintf(id, sizeof id, "c-n%u", i);
        CHECK_EQUAL(
            house_create(house, id, "await new Promise(r => setTimeout(r, 200)); text('done');"),
            0);
    }
    for (unsigned i = 0; i < BL_COUNT(bombs); i++) {
        snprintf(id, sizeof id, "c-%u", i);
        blow_up(house, id, bombs[i], idle);
    }
    for (unsigned i = 0; i < neighbours; i++) {
        snprintf(id, sizeof id, "c-n%u", i);
        CHECK(strcmp(house_finish(house, id), "done") == 0);
        CHECK(house->seen.completed.error == NULL);
    }
    return 0;
}

static int too_deep(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text('a'); function f() { return f() + 1; } f();"), 0);
    CHECK(strcmp(house_finish(house, "c-1"), "a") == 0);
    failed_with(house, BL_CELL_ERROR_EXCEPTION, "RangeError");
    return 0;
}

/* The sum of the cells' memory limits is bounded. */
static int memory_of_all(struct house *house)
{
    house->options.memory_max = 100 * MIB;
    house_open(house);
    CHECK_EQUAL(house_create_limited(house, "c-1", "await tools.sleep({})", 0, 60 * MIB, 0), 0);
    CHECK_EQUAL(house_create_limited(house, "c-2", "1", 0, 60 * MIB, 0), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_LIMIT_REACHED);
    CHECK(strcmp(house->fault.limit, "memory_bytes") == 0);
    CHECK_EQUAL(house->fault.value, 100 * MIB);
    CHECK_EQUAL(house_create_limited(house, "c-2", "1", 0, 40 * MIB, 0), 0);
    house_close(house);
    return 0;
}

/* ---- Time ---- */

static int out_of_time(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-0", "text(0);"), 0);
    CHECK(house_finish(house, "c-0") != NULL);
    house_warm(house, 1);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_create_limited(house, "c-1", "for (;;);", 300, 0, 0), 0);
    house_await_end(house, "c-1");
    CHECK(figure_between("C7 end at a deadline of 300 ms",
                         (double)(bl_now_ns() - since_ns) / BL_NS_PER_MS, 300, 370));
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    if (CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_TERMINATED)) {
        CHECK(house_receipt_says(house->seen.terminated.receipt, "reason", "timeout"));
        CHECK(house_receipt_says(house->seen.terminated.receipt, "origin", "deadline"));
        CHECK_EQUAL(house_receipt_number(house->seen.terminated.receipt, "survivors"), 0);
    }
    return 0;
}

/* ---- Output ---- */

/* Returns the size of the items in the last outcome, as encoded. */
static uint64_t encoded_items(const struct house *house)
{
    struct bl_text json = house->seen.json;
    const char *begin = strstr(json.data, "\"content_items\":[");
    const char *end = strstr(json.data, "],\"error\":");

    return begin != NULL && end != NULL ? (uint64_t)(end - begin) - strlen("\"content_items\":[")
                                        : 0;
}

static int too_much_output(struct house *house)
{
    CHECK_EQUAL(
        house_create_limited(house, "c-1", "for (;;) text('\\u0000'.repeat(1000))", 0, 0, MIB), 0);
    house_await_end(house, "c-1");
    CHECK_EQUAL(house_observe(house, "c-1", 1, MINUTE), 0);
    failed_with(house, BL_CELL_ERROR_OUTPUT_LIMIT, NULL);
    CHECK(encoded_items(house) <= MIB);
    CHECK(encoded_items(house) > MIB * 98 / 100);
    house_forget(house);
    CHECK_EQUAL(house_create_limited(house, "c-2", "for (;;) text('\\u0000'.repeat(100000))", 0, 0,
                                     16 * MIB),
                0);
    house_await_end(house, "c-2");
    CHECK_EQUAL(house_observe(house, "c-2", 1, MINUTE), 0);
    failed_with(house, BL_CELL_ERROR_OUTPUT_LIMIT, NULL);
    CHECK(encoded_items(house) <= 16 * MIB);
    CHECK(encoded_items(house) > 16 * MIB * 98 / 100);
    CHECK(house->seen.json.size + 64 * 1024 < BL_CELL_FRAME_MAX);
    house_forget(house);
    /* An item that exceeds the limit by itself is cut. */
    CHECK_EQUAL(house_create_limited(house, "c-3", "text('ä'.repeat(3 << 20))", 0, 0, MIB), 0);
    CHECK_EQUAL(house_observe(house, "c-3", 1, MINUTE), 0);
    failed_with(house, BL_CELL_ERROR_OUTPUT_LIMIT, NULL);
    CHECK(encoded_items(house) <= MIB);
    CHECK(encoded_items(house) > MIB * 98 / 100);
    CHECK_EQUAL(house->host->undelivered, 0);
    return 0;
}

/* The limit applies to the whole life of a cell, delivered or not. */
static int output_of_a_life(struct house *house)
{
    CHECK_EQUAL(house_create_limited(house, "c-1",
                                     "for (;;) { text('x'.repeat(900)); await tools.echo({}); }", 0,
                                     0, 100000),
                0);
    uint64_t all = 0, generation = 1;
    do {
        if (!CHECK_EQUAL(house_observe(house, "c-1", generation++, 2), 0))
            return 0;
        all += strlen(house_seen_text(house));
    } while (house->seen.type == BL_CELL_OBSERVE_YIELDED);
    failed_with(house, BL_CELL_ERROR_OUTPUT_LIMIT, NULL);
    CHECK(all > 90000 && all < 100000);
    return 0;
}

/* ---- Workers that go ---- */

static int killed(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "store('k', 1); text('a'); for (;;);"), 0);
    CHECK_EQUAL(house_create(house, "c-2", "text('b'); await tools.sleep({});"), 0);
    house_await_output(house, "c-1", 1);
    house_await_output(house, "c-2", 1);
    kill((pid_t)house_worker_pid(house, "c-1"), SIGKILL);
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_observe(house, "c-1", 1, MINUTE), 0);
    CHECK(figure_since("C9 loss of a killed worker", since_ns, 100));
    failed_with(house, BL_CELL_ERROR_WORKER_LOST, NULL);
    CHECK(strcmp(house_seen_text(house), "a") == 0);
    CHECK(strcmp(house_state(house, "c-2"), "running") == 0);
    CHECK_EQUAL(house_create(house, "c-3", "text(load('k') === undefined)"), 0);
    CHECK(strcmp(house_finish(house, "c-3"), "true") == 0);
    return 0;
}

struct repairing {
    struct house *house;
    uint64_t after;
};

static int repair(void *argument)
{
    const struct repairing *repairing = argument;
    struct cell_fault_rule *rule = &repairing->house->host->faults.rules[CELL_AT_WORKER_START];

    while (rule->seen < repairing->after && bl_sleep(BL_NS_PER_MS) == 0)
        continue;
    rule->what = CELL_RULE_NONE;
    return 0;
}

static int does_not_start(struct house *house)
{
    struct repairing repairing = {house, 2};

    house_fault(house, "cell.worker.start=fail");
    bl_nursery_spawn(&house->nursery, NULL, "repair", repair, &repairing, NULL);
    CHECK_EQUAL(house_create(house, "c-1", "text('a')"), 0);
    CHECK(strcmp(house_finish(house, "c-1"), "a") == 0);
    CHECK(house->seen.completed.error == NULL);
    /* Spares first: they are released. */
    house_warm(house, 1);
    CHECK_EQUAL(house_create(house, "c-2", "text('b')"), 0);
    house_fault(house, "cell.worker.start=fail");
    uint64_t since_ns = bl_now_ns();
    CHECK_EQUAL(house_create(house, "c-3", "text('c')"), 0);
    CHECK(house_finish(house, "c-3") != NULL);
    CHECK(figure_since("C9 loss of a worker that never starts", since_ns, 1000));
    failed_with(house, BL_CELL_ERROR_WORKER_LOST, NULL);
    CHECK(strcmp(house_finish(house, "c-2"), "b") == 0);
    return 0;
}

/* No worker can start, which the host detects by itself: cells are refused. */
static void check_unavailable(struct house *house, const char *why)
{
    house->options.eager = true;
    house_open(house);
    for (unsigned i = 0; i < 10000 && house->host->pool.unavailable[0] == '\0'; i++)
        bl_sleep(BL_NS_PER_MS);
    CHECK_EQUAL(house_create(house, "c-1", "text('a')"), BL_EREFUSED);
    CHECK_EQUAL(house->fault.code, BL_CELL_WORKER_UNAVAILABLE);
    if (!CHECK(bl_text_find(bl_text_from(house->fault.detail), bl_text_from(why)) >= 0))
        fprintf(stderr, "%s\n", house->fault.detail);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_MISSING);
    house_close(house);
}

static int no_worker(struct house *house)
{
    house->options.worker = "/nonexistent/belay-cell-worker";
    check_unavailable(house, "/nonexistent/belay-cell-worker");
    return 0;
}

/* Applies as many Landlock rule sets as a process can have, and then becomes the worker. */
int layers_main(char *worker)
{
    const uint64_t making_devices = 1ull << 11;
    int ruleset = 0;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 1;
    for (int i = 0; i < 16; i++) {
        ruleset =
            (int)syscall(SYS_landlock_create_ruleset, &making_devices, sizeof making_devices, 0);
        if (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
            return 1;
        close(ruleset);
    }
    execv(worker, (char *[]){worker, NULL});
    return 1;
}

static int no_lockdown(struct house *house)
{
    char lines[1024], self[512];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);

    CHECK(size > 0);
    self[size > 0 ? size : 0] = '\0';
    snprintf(lines, sizeof lines, "exec '%s' --role layers '%s'\n", self,
             getenv("BELAY_CELL_WORKER"));
    house_use_script(house, lines);
    check_unavailable(house, "the worker cannot be locked down on this machine");
    return 0;
}

/* Writes a worker that reports ready and then sends `text`. `length` is the announced length, if
 * not that of the text. */
static void write_impostor(struct house *house, const char *text, long length)
{
    unsigned long size = length >= 0 ? (unsigned long)length : strlen(text);
    char lines[256];

    snprintf(lines, sizeof lines,
             "ready\nhead -c 5 <&0 >/dev/null\n"
             "printf '\\%03lo\\%03lo\\%03lo\\%03lo%%s' '%s' >&0\nexec sleep 60\n",
             size >> 24 & 255, size >> 16 & 255, size >> 8 & 255, size & 255, text);
    house_use_script(house, lines);
}

static int talks_nonsense(struct house *house)
{
    static const struct {
        const char *text;
        long length;
    } said[] = {
        {"", 0},
        {"x", 0x7fffffff},
        {"nonsense", -1},
        {"[]", -1},
        {"{\"type\":\"hello\"}", -1},
        {"{\"type\":\"ready\"}", -1},
        {"{\"type\":\"item\",\"item\":{\"type\":\"text\"}}", -1},
        {"{\"type\":\"item\",\"item\":{\"type\":\"text\",\"text\":\"\\ud800\"}}", -1},
        {"{\"type\":\"call\",\"call\":1,\"tool\":\"nothing\",\"input\":{}}", -1},
        {"{\"type\":\"call\",\"call\":2,\"tool\":\"echo\",\"input\":{}}", -1},
        {"{\"type\":\"call\",\"call\":1,\"tool\":\"echo\",\"input\":1}", -1},
        {"{\"type\":\"idle\",\"timers\":-1,\"stalled\":false}", -1},
        {"{\"type\":\"notify\",\"seq\":7,\"text\":\"x\"}", -1},
        {"{\"type\":\"settled\",\"error\":null}", -1},
        {"{\"type\":\"settled\",\"error\":null,\"values\":{\"\":1},\"deleted\":[]}", -1},
        {"{\"type\":\"settled\",\"error\":{\"kind\":\"x\"},\"values\":{},\"deleted\":[]}", -1},
    };
    char id[16];

    for (size_t i = 0; i < BL_COUNT(said); i++) {
        write_impostor(house, said[i].text, said[i].length);
        house_open(house);
        snprintf(id, sizeof id, "c-%zu", i);
        CHECK_EQUAL(house_create(house, id, "1"), 0);
        CHECK(house_finish(house, id) != NULL);
        if (!failed_with(house, BL_CELL_ERROR_WORKER_LOST, NULL))
            fprintf(stderr, "by: %s\n", said[i].text);
        CHECK_EQUAL(house->calls_begun, 0);
        CHECK_EQUAL(house->notified, 0);
        CHECK_EQUAL(house->session->by_key.count, 0);
        house_close(house);
    }
    return 0;
}

/* Its descriptors close before it has an exit code. */
static int takes_long_to_exit(struct house *house)
{
    /* It reads the rest of the start frame; the exit code is WORKER_EXIT_MEMORY. */
    house_use_script(house, "ready\nhead -c 5 <&0 >/dev/null\n"
                            "dd bs=65536 count=1 <&0 >/dev/null 2>&1\n"
                            "exec 0<&-\nsleep 0.1\nexit 90\n");
    house_open(house);
    CHECK_EQUAL(house_create(house, "c-1", "1"), 0);
    CHECK(house_finish(house, "c-1") != NULL);
    failed_with(house, BL_CELL_ERROR_MEMORY_LIMIT, "RangeError");
    house_close(house);
    return 0;
}

/* A machine so busy that the warden does not run when its worker has exited: the host stops
 * waiting, stops the process tree, and learns of the exit afterwards. `end`: how the worker ends,
 * other than by exiting by itself. */
static void end_behind_a_stopped_warden(struct house *house, const char *end,
                                        enum bl_cell_error_kind kind, const char *name)
{
    char lines[512];

    snprintf(lines, sizeof lines,
             "ready\nhead -c 5 <&0 >/dev/null\ndd bs=65536 count=1 <&0 >/dev/null 2>&1\n"
             "kill -STOP $PPID\n%s\n",
             end);
    house_use_script(house, lines);
    house_open(house);
    CHECK_EQUAL(house_create(house, "c-1", "1"), 0);
    CHECK(house_finish(house, "c-1") != NULL);
    failed_with(house, kind, name);
    house_close(house);
}

static int exits_unheard(struct house *house)
{
    end_behind_a_stopped_warden(house, "exit 90", BL_CELL_ERROR_MEMORY_LIMIT, "RangeError");
    return 0;
}

static int ends_otherwise_unheard(struct house *house)
{
    end_behind_a_stopped_warden(house, "exit 7", BL_CELL_ERROR_WORKER_LOST, NULL);
    end_behind_a_stopped_warden(house, "kill -KILL $$", BL_CELL_ERROR_WORKER_LOST, NULL);
    return 0;
}

/* ---- Bad input ---- */

static bool is_bad(struct house *house, const struct bl_cell_create *create, const char *path)
{
    bool bad = CHECK_EQUAL(bl_cell_create(house->session, create, &house->fault), BL_EREFUSED) &&
               CHECK_EQUAL(house->fault.code, BL_CELL_BAD_REQUEST);

    if (!CHECK(strcmp(house->fault.path, path) == 0))
        fprintf(stderr, "%s, not %s\n", house->fault.path, path);
    return bad;
}

static int bad_creates(struct house *house)
{
    static const char *const ids[] = {
        "", "../x", "C-1", "c_1",
        "c-2345678901234567890123456789012345678901234567890123456789012345"};
    char *large = bl_zalloc(BL_CELL_SOURCE_MAX + 2);
    const struct bl_cell_tool twice[] = {{.name = BL_TEXT("a")}, {.name = BL_TEXT("a")}};
    const struct bl_cell_tool nameless[] = {{.name = BL_TEXT("")}};
    const struct bl_cell_tool listed[] = {{.name = BL_TEXT("a"), .schema = BL_TEXT("[1]")}};
    struct bl_cell_create create = {.cell_id = "c-1", .source = BL_TEXT("1")};
    struct bl_cell_create bad = create;

    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        bad.cell_id = ids[i];
        is_bad(house, &bad, "/cell_id");
    }
    bad = create;
    memset(large, '1', BL_CELL_SOURCE_MAX + 1);
    bad.source = bl_text_from(large);
    is_bad(house, &bad, "/source");
    bad.source = BL_TEXT("");
    is_bad(house, &bad, "/source");
    bad.source = BL_TEXT(" \n\t ");
    is_bad(house, &bad, "/source");
    bad = create;
    bad.deadline_ms = BL_CELL_DEADLINE_MS_MAX + 1;
    is_bad(house, &bad, "/limits/deadline_ms");
    bad = create;
    bad.memory_bytes = BL_CELL_MEMORY_MAX + 1;
    is_bad(house, &bad, "/limits/memory_bytes");
    bad = create;
    bad.output_bytes = BL_CELL_OUTPUT_MAX + 1;
    is_bad(house, &bad, "/limits/output_bytes");
    bad = create;
    bad.tools = twice;
    bad.tool_count = 2;
    is_bad(house, &bad, "/tools/1/name");
    bad.tools = nameless;
    bad.tool_count = 1;
    is_bad(house, &bad, "/tools/0/name");
    bad.tools = listed;
    is_bad(house, &bad, "/tools/0/input_schema");
    CHECK(bl_list_empty(&house->session->list));
    CHECK_EQUAL(house->host->live, 0);
    CHECK_EQUAL(house->events[BL_CELL_EVENT_CREATED], 0);
    bl_free(large);
    return 0;
}

static void fails_inside(struct house *house, const char *id, struct bl_text source,
                         enum bl_cell_error_kind kind, const char *name)
{
    struct bl_cell_create create = {.cell_id = id, .source = source};

    CHECK_EQUAL(bl_cell_create(house->session, &create, &house->fault), 0);
    CHECK(house_finish(house, id) != NULL);
    if (!failed_with(house, kind, name))
        fprintf(stderr, "by: " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(source));
}

static int bad_sources(struct house *house)
{
    fails_inside(house, "c-1", BL_TEXT("text('a'); let ;"), BL_CELL_ERROR_SYNTAX, "SyntaxError");
    fails_inside(house, "c-2", BL_TEXT("text('a');\0text('b');"), BL_CELL_ERROR_SYNTAX, NULL);
    fails_inside(house, "c-3", BL_TEXT("import x from 'fs'; text('a');"), BL_CELL_ERROR_IMPORT,
                 NULL);
    CHECK(bl_text_equal(house->seen.completed.error->message,
                        BL_TEXT("Unsupported import in exec: fs")));
    CHECK_EQUAL(
        house_create(house, "c-4", "try { await import('fs') } catch (e) { text(e.message) }"), 0);
    CHECK(strcmp(house_finish(house, "c-4"), "Unsupported import in exec: fs") == 0);
    return 0;
}

/* Each throws a TypeError, all in one cell. */
static int bad_arguments(struct house *house)
{
    static const char source[] =
        "const loop = {}; loop.loop = loop; const bad = [];"
        "const cases = [() => store('k', () => 1), () => store('k', loop), () => store('k', 1n),"
        " () => store('', 1), () => image('http://images.test/a.png'),"
        " () => image('data:image/png;base64,***'),"
        " () => image('data:image/png;base64,AAAA', 'huge'), () => text(loop),"
        " () => tools.say({}), () => tools.echo('x'), () => tools.echo(loop),"
        " () => tools.nothing({})];"
        "for (const [i, f] of cases.entries()) {"
        " try { await f(); bad.push(i + ' went on') }"
        " catch (e) { if (!(e instanceof TypeError)) bad.push(i + ' ' + e) } }"
        "text(bad.join(';'));";

    CHECK_EQUAL(house_create(house, "c-1", source), 0);
    const char *said = house_finish(house, "c-1");
    if (!CHECK(said != NULL && said[0] == '\0'))
        fprintf(stderr, "%s\n", said);
    CHECK(house->seen.completed.error == NULL);
    CHECK_EQUAL(house->calls_begun, 0);
    return 0;
}

HOUSE_TEST(C6_a_memory_bomb_affects_no_other_cell, out_of_memory)
HOUSE_TEST(C6_deep_recursion_is_an_exception, too_deep)
EMPTY_HOUSE_TEST(the_sum_of_memory_limits_is_bounded, memory_of_all)
HOUSE_TEST(C7_a_deadline_ends_an_unobserved_cell, out_of_time)
HOUSE_TEST(C8_output_is_cut_at_its_limit, too_much_output)
HOUSE_TEST(the_output_limit_counts_what_was_delivered, output_of_a_life)
HOUSE_TEST(C9_a_killed_worker_is_one_cell_lost, killed)
HOUSE_TEST(C9_a_worker_that_does_not_start_is_tried_three_times, does_not_start)
EMPTY_HOUSE_TEST(without_workers_nothing_is_admitted, no_worker)
EMPTY_HOUSE_TEST(locked_out, no_lockdown)

static void without_a_lockdown_nothing_is_admitted(void **state)
{
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 0)
        suite_skip("needs Landlock");
    locked_out(state);
}

EMPTY_HOUSE_TEST(a_worker_that_violates_the_protocol_is_lost, talks_nonsense)
EMPTY_HOUSE_TEST(C6_the_memory_limit_is_reported_for_a_worker_that_exits_slowly, takes_long_to_exit)
EMPTY_HOUSE_TEST(C6_the_memory_limit_is_reported_although_the_warden_is_late, exits_unheard)
EMPTY_HOUSE_TEST(C9_other_ends_with_a_late_warden_are_a_lost_worker, ends_otherwise_unheard)
HOUSE_TEST(bad_ids_sources_limits_and_tools_admit_nothing, bad_creates)
HOUSE_TEST(bad_sources_complete_with_syntax_or_import, bad_sources)
HOUSE_TEST(bad_arguments_are_type_errors_in_the_cell, bad_arguments)

SUITE(limit, cmocka_unit_test(C6_a_memory_bomb_affects_no_other_cell),
      cmocka_unit_test(C6_deep_recursion_is_an_exception),
      cmocka_unit_test(the_sum_of_memory_limits_is_bounded),
      cmocka_unit_test(C7_a_deadline_ends_an_unobserved_cell),
      cmocka_unit_test(C8_output_is_cut_at_its_limit),
      cmocka_unit_test(the_output_limit_counts_what_was_delivered),
      cmocka_unit_test(C9_a_killed_worker_is_one_cell_lost),
      cmocka_unit_test(C9_a_worker_that_does_not_start_is_tried_three_times),
      cmocka_unit_test(without_workers_nothing_is_admitted),
      cmocka_unit_test(without_a_lockdown_nothing_is_admitted),
      cmocka_unit_test(a_worker_that_violates_the_protocol_is_lost),
      cmocka_unit_test(C6_the_memory_limit_is_reported_for_a_worker_that_exits_slowly),
      cmocka_unit_test(C6_the_memory_limit_is_reported_although_the_warden_is_late),
      cmocka_unit_test(C9_other_ends_with_a_late_warden_are_a_lost_worker),
      cmocka_unit_test(bad_ids_sources_limits_and_tools_admit_nothing),
      cmocka_unit_test(bad_sources_complete_with_syntax_or_import),
      cmocka_unit_test(bad_arguments_are_type_errors_in_the_cell));
