#include "mcp_house.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "figure.h"

#define STOP_MS 250 /* promised, with a grace period of 200 ms */

static enum bl_mechanism automatic = BL_MECHANISM_NONE;

#define PLAIN(name, body)                                                                          \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(body, &automatic);                                                             \
    }

#define EACH(name, body)                                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        enum bl_mechanism mechanism = container_of_test(state);                                    \
        run_in_loop(body, &mechanism);                                                             \
    }

/* Two callers of one server, and a nursery for them. */
static struct visitor first, second;
static struct bl_nursery nursery;

static void begin(struct house *house)
{
    house_open(house);
    house_refresh(house);
    CHECK(strcmp(house_state(house, 0), "ready") == 0);
    bl_nursery_init(&nursery, bl_scope_current());
}

static void end(struct house *house)
{
    bl_nursery_done(&nursery);
    house_done(house);
}

/* Waits until the guest has received the call. */
static void await_call(const struct house *house, const char *tool)
{
    char text[64];
    snprintf(text, sizeof text, "\"name\":\"%s\"", tool);
    CHECK(house_await_file(house, "trace", text));
}

/* Waits until `count` of its processes exist: a single look can miss one that is just being
 * created. */
static void await_tree(const struct house *house, size_t count)
{
    double from_ms = now_ms();
    size_t seen = 0;
    while ((seen = marker_count(house->box.marker)) < count && now_ms() - from_ms < 5 * SOON_MS)
        bl_sleep(5 * MS);
    CHECK(seen >= count);
}

static double stop(struct visitor *visitor)
{
    double from_ms = now_ms();
    CHECK(bl_scope_stop(&visitor->scope, BL_STOP_USER, "test"));
    visitor_await(visitor);
    return visitor->ended_ms - from_ms;
}

static bool has(const char *text, const char *part)
{
    bool found = strstr(text, part) != NULL;
    if (!found)
        fprintf(stderr, "not '%s' in: %s\n", part, text);
    return found;
}

/* ---- The ladder ---- */

static int kills(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    GUEST(house, "g", "--stubborn", "yes", "--child", "yes", "--trace", house_path(house, "trace"));
    begin(house);
    await_tree(house, 2);
    visitor_start(&first, house, &nursery, "call_1", "mcp__g__hang", "{}");
    await_call(house, "hang");
    double ms = stop(&first);
    /* When the answer arrives, no process of its tree exists. */
    CHECK_EQUAL(marker_count(house->box.marker), 0);
    CHECK_EQUAL(first.code, BL_ECANCELED);
    CHECK(figure_between("M17 server that ignores the cancel, after its grace", ms - HOUSE_GRACE_MS,
                         0, STOP_MS - 200));
    CHECK(has(house_file(house, "trace"), "notifications/cancelled "));
    CHECK(has(first.result.text.data, "stopped after "));
    CHECK(has(first.result.text.data, "MCP server g was killed"));
    const char *receipt = visitor_receipt(&first);
    CHECK(has(receipt, "\"kind\":\"tool\",\"id\":\"call_1\",\"name\":\"mcp__g__hang\",\"fate\":"
                       "\"killed\""));
    CHECK(has(receipt, "\"survivors\":0") && has(receipt, "\"signal\":\"KILL\""));
    visitor_done(&first);
    /* Such a kill is not a crash: the server is started again when it is used. */
    CHECK_EQUAL(house->notice_count, 0);
    CHECK_EQUAL(house_call(house, "mcp__g__echo", "{\"text\":\"back\"}"), 0);
    CHECK(house_says(house, "back"));
    CHECK_EQUAL(house_server(house, 0)->deaths_ns[3], 0);
    end(house);
    return 0;
}

EACH(M17_a_server_that_ignores_the_cancel_is_killed_with_its_tree, kills)

static int finishes_first(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    GUEST(house, "g", "--trace", house_path(house, "trace"));
    begin(house);
    visitor_start(&first, house, &nursery, "call_1", "mcp__g__hang", "{}");
    char input[256];
    snprintf(input, sizeof input, "{\"until\":\"%s\"}", house_path(house, "go"));
    visitor_start(&second, house, &nursery, "call_2", "mcp__g__slow", input);
    await_call(house, "hang");
    await_call(house, "slow");
    double ms = stop(&first);
    CHECK(figure_at_most("M17 cancel beside another call", ms, STOP_MS));
    CHECK(!second.ended);
    CHECK(has(visitor_receipt(&first), "\"fate\":\"unknown\""));
    CHECK(has(first.result.text.data, "it is killed when they end"));
    CHECK(marker_count(house->box.marker) >= 1);
    box_write(&house->box, "go", "");
    visitor_await(&second);
    CHECK_EQUAL(second.code, 0);
    CHECK(!second.result.is_error && has(second.result.text.data, "done"));
    CHECK_EQUAL(marker_count(house->box.marker), 0);
    CHECK_EQUAL(house->notice_count, 0);
    visitor_done(&first);
    visitor_done(&second);
    end(house);
    return 0;
}

PLAIN(M17_with_another_call_in_flight_that_one_finishes_first, finishes_first)

static int stops_all(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    house->box.options.mcp_grace_ms = 0; /* the default */
    GUEST(house, "g", "--trace", house_path(house, "trace"));
    begin(house);
    visitor_start(&first, house, &nursery, "call_1", "mcp__g__hang", "{}");
    visitor_start(&second, house, &nursery, "call_2", "mcp__g__slow", "{\"ms\":60000}");
    await_call(house, "hang");
    await_call(house, "slow");
    /* As a turn's stop does. */
    CHECK(bl_scope_stop(&house->box.scope, BL_STOP_USER, "test"));
    double from_ms = now_ms();
    visitor_await(&first);
    visitor_await(&second);
    double ms = now_ms() - from_ms;
    CHECK(figure_between("M17 two calls of one server", ms, 200, STOP_MS));
    CHECK_EQUAL(marker_count(house->box.marker), 0);
    CHECK(has(first.result.text.data, "was killed"));
    CHECK(has(second.result.text.data, "was killed"));
    visitor_done(&first);
    visitor_done(&second);
    end(house);
    return 0;
}

PLAIN(calls_that_are_stopped_together_are_no_others_to_each_other, stops_all)

static int trusts(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    struct bl_mcp_entry *entry = GUEST(house, "g", "--trace", house_path(house, "trace"));
    entry->trust = true;
    begin(house);
    visitor_start(&first, house, &nursery, "call_1", "mcp__g__hang", "{}");
    await_call(house, "hang");
    CHECK(stop(&first) < SOON_MS);
    CHECK(has(visitor_receipt(&first), "\"fate\":\"unknown\""));
    CHECK(house_await_file(house, "trace", "notifications/cancelled "));
    CHECK(strcmp(house_state(house, 0), "ready") == 0);
    CHECK(marker_count(house->box.marker) >= 1);
    visitor_done(&first);
    end(house);
    return 0;
}

PLAIN(on_cancel_trust_keeps_the_server_and_the_receipt_says_unknown, trusts)

static int hurries(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    house->box.options.mcp_grace_ms = 5000;
    GUEST(house, "g", "--stubborn", "yes", "--trace", house_path(house, "trace"));
    begin(house);
    visitor_start(&first, house, &nursery, "call_1", "mcp__g__hang", "{}");
    await_call(house, "hang");
    double from_ms = now_ms();
    CHECK(bl_scope_stop(&first.scope, BL_STOP_USER, "test"));
    bl_sleep(20 * MS);
    bl_toolbox_hurry(house->box.toolbox);
    visitor_await(&first);
    CHECK(figure_at_most("M17 second stop in a grace of 5 s", first.ended_ms - from_ms, 20 + 100));
    CHECK_EQUAL(marker_count(house->box.marker), 0);
    visitor_done(&first);
    end(house);
    return 0;
}

PLAIN(a_second_stop_cuts_the_grace_of_a_server, hurries)

static int stops_tasks(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    struct bl_mcp_entry *entry =
        GUEST(house, "g", "--era", "modern", "--trace", house_path(house, "trace"));
    entry->trust = true;
    begin(house);
    visitor_start(&first, house, &nursery, "call_1", "mcp__g__task", "{\"ms\":60000}");
    CHECK(house_await_file(house, "trace", "tasks/get "));
    CHECK(stop(&first) < SOON_MS);
    CHECK(has(house_file(house, "trace"), "tasks/cancel "));
    CHECK(has(visitor_receipt(&first), "\"fate\":\"aborted\""));
    CHECK(has(first.result.text.data, "MCP server g confirmed the stop"));
    visitor_done(&first);
    end(house);
    return 0;
}

PLAIN(task_is_stopped_by_tasks_cancel_if_the_server_confirms, stops_tasks)

/* ---- Hanging ---- */

static int times_out(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    struct bl_mcp_entry *entry = GUEST(house, "g", "--trace", house_path(house, "trace"));
    entry->call_ns = 200 * MS;
    begin(house);
    double from_ms = now_ms();
    CHECK_EQUAL(house_call(house, "mcp__g__hang", "{}"), 0);
    double ms = now_ms() - from_ms;
    CHECK(figure_between("M19 call that hangs, limit 200 ms", ms, 200, 200 + STOP_MS));
    CHECK(house->box.result.is_error);
    CHECK(house_says(house, "timed out: no response or progress for 200 ms"));
    CHECK(house_says(house, "outcome unknown"));
    CHECK_EQUAL(marker_count(house->box.marker), 0);
    CHECK_EQUAL(house_call(house, "mcp__g__echo", "{\"text\":\"back\"}"), 0);
    CHECK(house_says(house, "back"));
    end(house);
    return 0;
}

PLAIN(M19_a_call_that_hangs_ends_at_its_timeout, times_out)

static int hangs_at_start(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    GUEST(house, "start", "--hang", "start", "--stubborn", "yes")->start_ns = 300 * MS;
    GUEST(house, "list", "--hang", "list", "--stubborn", "yes")->start_ns = 300 * MS;
    GUEST(house, "good", "--era", "legacy");
    house_open(house);
    double from_ms = now_ms();
    house_refresh(house);
    /* One after another would take at least twice as long. */
    double ms = now_ms() - from_ms;
    CHECK(figure_between("M19 server that hangs in start or list, limit 300 ms", ms, 300,
                         300 + STOP_MS));
    CHECK(strcmp(house_state(house, 0), "failed") == 0);
    CHECK(strcmp(house_state(house, 1), "failed") == 0);
    CHECK(strcmp(house_state(house, 2), "ready") == 0);
    CHECK(house_noticed(
        house,
        "MCP server start cannot be used: it was not ready within 300 ms (startup_timeout)"));
    CHECK(house_noticed(house, "MCP server list cannot be used: it was not ready within"));
    /* No process of the two is left. */
    CHECK_EQUAL(marker_count(house->box.marker), 1);
    house_done(house);
    return 0;
}

PLAIN(M19_a_server_that_hangs_in_start_or_list_is_given_up_at_its_limit, hangs_at_start)

#define BEFORE_MS 80

static int stop_later(void *argument)
{
    struct house *house = argument;
    bl_sleep(BEFORE_MS * MS);
    bl_scope_stop(&house->box.scope, BL_STOP_USER, "test");
    return 0;
}

static int stops_at_start(void *argument)
{
    static const char *const places[] = {"start", "list"};
    for (size_t i = 0; i < BL_COUNT(places); i++) {
        struct house *house = house_new(*(enum bl_mechanism *)argument);
        GUEST(house, "a", "--hang", places[i], "--stubborn", "yes");
        GUEST(house, "b", "--hang", places[i], "--stubborn", "yes");
        house_open(house);
        bl_nursery_init(&nursery, bl_scope_current());
        bl_nursery_spawn(&nursery, NULL, "stop", stop_later, house, NULL);
        double from_ms = now_ms();
        house_refresh(house);
        double ms = now_ms() - from_ms - BEFORE_MS;
        CHECK(figure_at_most("M19 stop while a server starts or lists", ms, STOP_MS));
        CHECK_EQUAL(marker_count(house->box.marker), 0);
        CHECK(strcmp(house_state(house, 0), "off") == 0);
        CHECK_EQUAL(house->notice_count, 0);
        CHECK_EQUAL(bl_receipt_survivors(&house->box.receipt), 0);
        bl_nursery_done(&nursery);
        house_done(house);
    }
    return 0;
}

PLAIN(M19_a_stop_while_a_server_starts_or_lists_leaves_nothing, stops_at_start)

/* ---- The end of the session ---- */

static int ends_with_session(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    GUEST(house, "good", "--era", "legacy");
    GUEST(house, "bad", "--stubborn", "yes", "--child", "yes");
    house_open(house);
    house_refresh(house);
    await_tree(house, 3);
    /* house_done checks that no process is left. */
    house_done(house);
    return 0;
}

EACH(the_end_of_the_session_ends_all_servers, ends_with_session)

static int retires(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    house->box.options.mcp_grace_ms = 10000;
    GUEST(house, "idle", "--era", "legacy");
    GUEST(house, "busy", "--trace", house_path(house, "trace"));
    begin(house);
    char input[256];
    snprintf(input, sizeof input, "{\"until\":\"%s\"}", house_path(house, "go"));
    visitor_start(&first, house, &nursery, "call_1", "mcp__busy__slow", input);
    await_call(house, "slow");
    bl_toolbox_retire(house->box.toolbox);
    /* Asked to end, it does: its grace period is not used up, and it is not killed. */
    double from_ms = now_ms();
    while (house_server(house, 0)->process != NULL && now_ms() - from_ms < 5000)
        bl_sleep(MS);
    CHECK(house_server(house, 0)->process == NULL);
    CHECK(house_server(house, 0)->last_end.how != BL_END_STOPPED);
    CHECK(strcmp(house_state(house, 0), "off") == 0);
    /* The other one has a call to finish. */
    box_write(&house->box, "go", "");
    visitor_await(&first);
    CHECK_EQUAL(first.code, 0);
    CHECK(!first.result.is_error && has(first.result.text.data, "done"));
    CHECK_EQUAL(house->notice_count, 0);
    visitor_done(&first);
    end(house);
    return 0;
}

PLAIN(a_session_that_retires_ends_its_idle_servers, retires)

/* ---- Trust ---- */

static int stays_off(void *argument)
{
    char state_folder[96];
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    struct bl_mcp_entry *entry = GUEST(house, "w", "--trace", house_path(house, "trace"));
    snprintf(state_folder, sizeof state_folder, "%s/state", house->box.workspace);
    setenv("XDG_STATE_HOME", state_folder, 1);
    entry->source = BL_MCP_OF_WORKSPACE;
    entry->path = "/workspace.test/.mcp.json";
    mcp_entry_seal(entry);
    house_open(house);
    house_refresh(house);
    CHECK(strcmp(house_state(house, 0), "untrusted") == 0);
    CHECK_EQUAL(house_offers(house), 0);
    CHECK_EQUAL(marker_count(house->box.marker), 0);
    CHECK(access(house_path(house, "trace"), F_OK) != 0);
    CHECK_EQUAL(house->notice_count, 1);
    CHECK(house_noticed(house, "MCP server w: not started: "));
    house_refresh(house);
    CHECK_EQUAL(house->notice_count, 1);
    unsetenv("XDG_STATE_HOME");
    house_done(house);
    return 0;
}

PLAIN(M20_an_untrusted_server_of_the_workspace_is_not_started, stays_off)

static int trusted_by_option(void *argument)
{
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    struct bl_mcp_entry *entry = GUEST(house, "w", "--era", "legacy");
    entry->source = BL_MCP_OF_WORKSPACE;
    house->box.options.mcp_trusted = true;
    house_open(house);
    house_refresh(house);
    CHECK(strcmp(house_state(house, 0), "ready") == 0);
    house_done(house);
    return 0;
}

PLAIN(trust_mcp_starts_the_servers_of_the_workspace, trusted_by_option)

/* ---- At any moment ---- */

/* Calls stopped at any moment of their life: one answer each, and no process is left. */
static int stops_anywhen(void *argument)
{
    unsigned long rounds = suite_rounds(6, 400);
    struct bl_random random;
    bl_random_seed(&random, 9);
    struct house *house = house_new(*(enum bl_mechanism *)argument);
    GUEST(house, "g", "--era", "both");
    begin(house);
    for (unsigned long i = 0; i < rounds; i++) {
        visitor_start(&first, house, &nursery, "call_1", "mcp__g__slow", "{\"ms\":15}");
        bl_sleep(bl_random_below(&random, 30) * MS);
        bl_scope_stop(&first.scope, BL_STOP_USER, "test");
        visitor_await(&first);
        bool finished = first.code == 0;
        CHECK(finished || first.code == BL_ECANCELED);
        /* A call that was stopped before it reached the server did not affect it. */
        bool entered = strstr(first.result.text.data, "the tool was not run") == NULL;
        CHECK(!finished || !first.result.is_error);
        CHECK(finished || !entered || marker_count(house->box.marker) == 0);
        visitor_done(&first);
    }
    end(house);
    return 0;
}

PLAIN(call_stopped_at_any_moment_is_finished_or_stopped, stops_anywhen)

SUITE(mcp_stop, IN_EACH(M17_a_server_that_ignores_the_cancel_is_killed_with_its_tree),
      cmocka_unit_test(M17_with_another_call_in_flight_that_one_finishes_first),
      cmocka_unit_test(calls_that_are_stopped_together_are_no_others_to_each_other),
      cmocka_unit_test(on_cancel_trust_keeps_the_server_and_the_receipt_says_unknown),
      cmocka_unit_test(a_second_stop_cuts_the_grace_of_a_server),
      cmocka_unit_test(task_is_stopped_by_tasks_cancel_if_the_server_confirms),
      cmocka_unit_test(M19_a_call_that_hangs_ends_at_its_timeout),
      cmocka_unit_test(M19_a_server_that_hangs_in_start_or_list_is_given_up_at_its_limit),
      cmocka_unit_test(M19_a_stop_while_a_server_starts_or_lists_leaves_nothing),
      IN_EACH(the_end_of_the_session_ends_all_servers),
      cmocka_unit_test(a_session_that_retires_ends_its_idle_servers),
      cmocka_unit_test(M20_an_untrusted_server_of_the_workspace_is_not_started),
      cmocka_unit_test(trust_mcp_starts_the_servers_of_the_workspace),
      cmocka_unit_test(call_stopped_at_any_moment_is_finished_or_stopped));
