#include "mcp_house.h"

#include <stdio.h>
#include <stdlib.h>

static enum bl_mechanism container = BL_MECHANISM_NONE;

#define PLAIN(name, body)                                                                          \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(body, &container);                                                             \
    }

/* Opens one guest of that era, and lists its tools. */
static struct house *open_house(const char *era)
{
    struct house *house = house_new(container);
    GUEST(house, "g", "--era", era, "--trace", house_path(house, "trace"));
    house_open(house);
    house_refresh(house);
    return house;
}

/* ---- List and call ---- */

static int lists_and_calls(void *argument)
{
    static const char *const eras[] = {"legacy", "modern"};
    static const char *const said[] = {
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"",
        "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"belay\",\"version\":",
        "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"};
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(eras); i++) {
        struct house *house = open_house(eras[i]);
        const struct bl_tool_offer *offer = house_offer(house, "mcp__g__echo");
        struct bl_mcp_view view;
        CHECK_EQUAL(house_offers(house), 19);
        if (CHECK(offer != NULL)) {
            CHECK(strcmp(offer->description, "Tool echo.") == 0);
            CHECK(offer->parallel && offer->compiled != NULL);
        }
        CHECK(bl_toolbox_mcp(house->box.toolbox, 0, &view));
        CHECK(strcmp(view.state, "ready") == 0);
        CHECK(strcmp(view.protocol, i == 0 ? "2025-11-25" : "2026-07-28") == 0);
        CHECK_EQUAL(view.tool_count, 19);
        CHECK(!bl_toolbox_mcp(house->box.toolbox, 1, &view));
        CHECK_EQUAL(house_call(house, "mcp__g__echo", "{\"text\":\"hello\"}"), 0);
        CHECK(!house->box.result.is_error);
        CHECK(strcmp(box_text(&house->box), "hello") == 0);
        CHECK_EQUAL(house->notice_count, 0);
        /* Since 2026 each request names its client. */
        const char *call = strstr(house_file(house, "trace"), "tools/call ");
        for (size_t k = 0; CHECK(call != NULL) && k < BL_COUNT(said); k++)
            CHECK_EQUAL(strstr(call, said[k]) != NULL, i == 1);
        house_done(house);
    }
    return 0;
}

PLAIN(M14_a_server_of_either_era_is_listed_and_called, lists_and_calls)

static int opens(void *argument)
{
    static const struct {
        const char *era, *version, *expected, *hang;
    } cases[] = {{"legacy", "2024-11-05", "2024-11-05", ""},
                 {"legacy", "2025-03-26", "2025-03-26", ""},
                 {"older", "2025-06-18", "2025-06-18", ""},
                 {"both", "2025-11-25", "2026-07-28", ""}};
    (void)argument;
    struct house *house = house_new(container);
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        GUEST(house, cases[i].expected, "--era", cases[i].era, "--version", cases[i].version);
    GUEST(house, "unknown", "--version", "1999-01-01");
    GUEST(house, "rude", "--version", "\\u001f\\u0020~\\u007f\\u0080\\u009f\\u00a0\\u00e4");
    house_open(house);
    house_refresh(house);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_mcp_view view;
        CHECK(bl_toolbox_mcp(house->box.toolbox, i, &view));
        if (CHECK(view.protocol != NULL))
            CHECK(strcmp(view.protocol, cases[i].expected) == 0);
    }
    struct bl_mcp_view unknown;
    CHECK(strcmp(house_state(house, 4), "failed") == 0);
    CHECK(bl_toolbox_mcp(house->box.toolbox, 4, &unknown));
    CHECK(bl_text_starts_with(unknown.why,
                              BL_TEXT("it uses the unknown protocol version '1999-01-01'")));
    CHECK(house_noticed(
        house,
        "MCP server unknown cannot be used: it uses the unknown protocol version '1999-01-01'"));
    /* No characters that a terminal would obey. */
    CHECK(house_noticed(house, "protocol version '  ~   \xC2\xA0\xC3\xA4'"));
    house_done(house);
    return 0;
}

PLAIN(newest_common_version_is_used_and_an_unknown_one_reported, opens)

#define REFUSED(code, supported)                                                                   \
    "\"error\":{\"code\":" code ",\"message\":\"no\",\"data\":{\"supported\":[" supported "]}}"
#define SPEAKS(versions) "\"result\":{\"supportedVersions\":[" versions "]}"

/* Whatever versions the server claims, it is opened by `initialize`, or reported. */
static int discovers(void *argument)
{
    static const struct {
        const char *says, *asked, *why;
    } cases[] = {
        {REFUSED("-32601", ""), "2025-11-25", NULL},
        {REFUSED("-32022", "\"2025-03-26\",\"2025-06-18\""), "2025-06-18", NULL},
        {SPEAKS("\"2025-03-26\""), "2025-03-26", NULL},
        {"\"result\":{}", "2025-11-25", NULL},
        {REFUSED("-32022", "\"2026-07-28\""), "2025-11-25", NULL},
        {REFUSED("-32022", "\"1999-01-01\""), NULL, "it rejects our protocol version: no"},
        {REFUSED("-32020", "\"2025-06-18\""), NULL, "it rejects our protocol version: no"},
        {REFUSED("-32021", ""), NULL, "it rejects our protocol version: no"},
        {SPEAKS("\"1999-01-01\""), NULL, "it supports none of our protocol versions"},
    };
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char asked[64];
        struct house *house = house_new(container);
        GUEST(house, "g", "--discover", cases[i].says, "--trace", house_path(house, "trace"));
        house_open(house);
        house_refresh(house);
        if (cases[i].why != NULL) {
            CHECK(strcmp(house_state(house, 0), "failed") == 0);
            CHECK(house_noticed(house, cases[i].why));
            CHECK(strstr(house_file(house, "trace"), "initialize ") == NULL);
        } else {
            CHECK(strcmp(house_state(house, 0), "ready") == 0);
            snprintf(asked, sizeof asked, "\"protocolVersion\":\"%s\"", cases[i].asked);
            CHECK(strstr(house_file(house, "trace"), asked) != NULL);
        }
        house_done(house);
    }
    return 0;
}

PLAIN(server_is_opened_by_its_version_or_reported, discovers)

static int opens_slowly(void *argument)
{
    (void)argument;
    /* It takes longer to answer than `server/discover` may take, and supports no other version. */
    struct house *house = house_new(container);
    GUEST(house, "m", "--era", "modern", "--hang", "slow");
    house_open(house);
    house_refresh(house);
    CHECK(strcmp(house_state(house, 0), "ready") == 0);
    CHECK(house_server(house, 0)->modern);
    house_done(house);
    return 0;
}

/* This takes a second, so only in the long form. */
static void slow_modern_server_is_not_mistaken_for_a_legacy_one(void **state)
{
    (void)state;
    suite_skip_unless_soak();
    run_in_loop(opens_slowly, &container);
}

static int opens_once(void *argument)
{
    (void)argument;
    struct house *house = open_house("legacy");
    CHECK_EQUAL(house_call(house, "mcp__g__die", "{}"), 0);
    CHECK_EQUAL(house_call(house, "mcp__g__echo", "{\"text\":\"again\"}"), 0);
    CHECK(house_says(house, "again"));
    const char *trace = house_file(house, "trace");
    const char *first = strstr(trace, "server/discover ");
    CHECK(first != NULL && strstr(first + 1, "server/discover ") == NULL);
    CHECK(strstr(trace, "notifications/initialized") != NULL);
    house_done(house);
    return 0;
}

PLAIN(the_era_of_a_server_is_remembered, opens_once)

/* ---- Results ---- */

static int results(void *argument)
{
    (void)argument;
    struct house *house = open_house("legacy");
    struct bl_tool_result *result = &house->box.result;
    CHECK_EQUAL(house_call(house, "mcp__g__image", "{}"), 0);
    CHECK(strcmp(box_text(&house->box), "a dot\n[image image/png, 8 bytes]") == 0);
    if (CHECK(result->images != NULL && !bl_list_empty(result->images))) {
        const struct bl_block *image = BL_CONTAINER(result->images->next, struct bl_block, link);
        CHECK_EQUAL(image->type, BL_BLOCK_IMAGE);
        CHECK(bl_text_equal(image->name, BL_TEXT("image/png")));
        CHECK(bl_text_equal(image->text, BL_TEXT("iVBORw0KGgo=")));
    }
    CHECK_EQUAL(house_call(house, "mcp__g__fail", "{}"), 0);
    CHECK(result->is_error && strcmp(box_text(&house->box), "it went wrong") == 0);
    CHECK_EQUAL(house_call(house, "mcp__g__structured", "{}"), 0);
    CHECK(!result->is_error && strcmp(box_text(&house->box), "{\"answer\":42}") == 0);
    CHECK_EQUAL(house_call(house, "mcp__g__audio", "{}"), 0);
    CHECK(house_says(house, "[audio: audio/wav; left out]"));
    CHECK_EQUAL(house_call(house, "mcp__g__link", "{}"), 0);
    CHECK(house_says(house, "[link: n, file:///n]\n[resource: file:///r]\ninside"));
    CHECK_EQUAL(house_call(house, "mcp__g__input", "{}"), 0);
    CHECK(result->is_error && house_says(house, "input_required: elicitation/create"));
    CHECK_EQUAL(house_call(house, "mcp__g__refuse", "{}"), 0);
    CHECK(result->is_error);
    CHECK(house_says(house, "MCP server g returned an error: no such thing (-32602)"));
    CHECK_EQUAL(house_call(house, "mcp__g__big", "{\"bytes\":300000}"), 0);
    CHECK(result->text.size <= 65536 + 100);
    CHECK(bl_text_starts_with(result->text, BL_TEXT("head ")));
    CHECK(bl_text_ends_with(result->text, BL_TEXT(" tail")) && house_says(house, "left out"));
    CHECK_EQUAL(house_call(house, "mcp__g__quit", "{}"), 0);
    CHECK(!result->is_error && house_says(house, "before the end"));
    house_done(house);
    return 0;
}

PLAIN(M14_text_images_structure_and_errors_come_back, results)

/* Waits until the call has received that step. Returns its deadline then. */
static uint64_t deadline_at(const struct house *house, const struct visitor *visitor,
                            const char *step)
{
    const struct bl_list *calls = &house_server(house, 0)->calls;
    double from_ms = now_ms();
    while (strstr(visitor->heard, step) == NULL && now_ms() - from_ms < 5 * SOON_MS)
        bl_sleep(MS);
    if (!CHECK(strstr(visitor->heard, step) != NULL) || !CHECK(!bl_list_empty(calls)))
        return 0;
    return bl_scope_deadline_ns(&BL_CONTAINER(calls->next, struct mcp_call, link)->timed);
}

static int progress(void *argument)
{
    static struct visitor visitor;
    struct bl_nursery nursery;
    (void)argument;
    struct house *house = open_house("legacy");
    bl_nursery_init(&nursery, bl_scope_current());
    visitor_start(&visitor, house, &nursery, "call_1", "mcp__g__steps", "{\"steps\":3,\"ms\":50}");
    uint64_t first_ns = deadline_at(house, &visitor, "1 of 3: step\n");
    uint64_t second_ns = deadline_at(house, &visitor, "2 of 3: step\n");
    CHECK(second_ns >= first_ns + 40 * MS);
    visitor_await(&visitor);
    CHECK_EQUAL(visitor.code, 0);
    CHECK(!visitor.result.is_error);
    CHECK(strstr(visitor.heard, "3 of 3: step\n") != NULL);
    visitor_done(&visitor);
    bl_nursery_done(&nursery);
    house_done(house);
    return 0;
}

PLAIN(M14_progress_is_reported_and_restarts_the_timeout, progress)

static int asks_back(void *argument)
{
    char expected[128], folder[128];
    const char *const folders[] = {folder, NULL};
    (void)argument;
    for (int added = 0; added < 2; added++) {
        struct house *house = house_new(container);
        snprintf(folder, sizeof folder, "%s/azAZ09-._~ @[`{/:\xC3\xA4", house->box.workspace);
        house->box.options.folders = added == 1 ? folders : NULL;
        GUEST(house, "g", "--trace", house_path(house, "trace"));
        house_open(house);
        house_refresh(house);
        snprintf(expected, sizeof expected, "file://%s", house->box.workspace);
        CHECK_EQUAL(house_call(house, "mcp__g__roots", "{}"), 0);
        CHECK(house_says(house, expected));
        CHECK(house_await_file(house, "trace", "\"id\":\"ping-1\""));
        snprintf(expected, sizeof expected, "{\"uri\":\"file://%s%s\"}]", house->box.workspace,
                 added == 1 ? "/azAZ09-._~%20%40%5B%60%7B/%3A%C3%A4" : "");
        CHECK(house_await_file(house, "trace", expected));
        house_done(house);
    }
    return 0;
}

PLAIN(ping_and_roots_are_answered, asks_back)

static int environment(void *argument)
{
    static const char *const variables[] = {"GUEST_SETS=this one", NULL};
    (void)argument;
    setenv("GUEST_API_KEY", "secret", 1);
    setenv("GUEST_SETS", "another", 1);
    struct house *house = house_new(container);
    struct bl_mcp_entry *entry = GUEST(house, "g", "--era", "legacy");
    entry->variables = variables;
    house_open(house);
    house_refresh(house);
    CHECK_EQUAL(house_call(house, "mcp__g__env", "{\"text\":\"GUEST_API_KEY\"}"), 0);
    CHECK(house_says(house, "(not set)"));
    CHECK_EQUAL(house_call(house, "mcp__g__env", "{\"text\":\"GUEST_SETS\"}"), 0);
    CHECK(house_says(house, "this one"));
    house_done(house);
    unsetenv("GUEST_API_KEY");
    unsetenv("GUEST_SETS");
    return 0;
}

PLAIN(a_server_gets_no_secrets_but_what_its_entry_sets, environment)

static int noise(void *argument)
{
    (void)argument;
    struct house *house = house_new(container);
    GUEST(house, "g", "--noise", "yes");
    house_open(house);
    house_refresh(house);
    CHECK_EQUAL(house_call(house, "mcp__g__echo", "{\"text\":\"heard\"}"), 0);
    CHECK(house_says(house, "heard"));
    house_done(house);
    return 0;
}

PLAIN(invalid_lines_are_ignored, noise)

/* ---- Changes ---- */

static int changes(void *argument)
{
    static const char *const eras[] = {"legacy", "modern"};
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(eras); i++) {
        struct house *house = open_house(eras[i]);
        struct bl_toolbox_held *held = bl_toolbox_hold(house->box.toolbox);
        const struct bl_tool_offer *before = house_offer(house, "mcp__g__echo");
        if (i == 1)
            CHECK(house_await_file(house, "trace", "subscriptions/listen"));
        CHECK_EQUAL(house_call(house, "mcp__g__grow", "{}"), 0);
        /* Not in the middle of a turn's step. */
        CHECK(house_offer(house, "mcp__g__extra") == NULL);
        house_refresh(house);
        CHECK(house_offer(house, "mcp__g__extra") != NULL);
        CHECK_EQUAL(house_call(house, "mcp__g__extra", "{\"text\":\"new\"}"), 0);
        CHECK(house_says(house, "new"));
        /* Held offers have not changed. */
        CHECK(strcmp(before->name, "mcp__g__echo") == 0);
        CHECK(house_offer(house, "mcp__g__echo") != before);
        bl_toolbox_let_go(held);
        house_done(house);
    }
    return 0;
}

PLAIN(changed_list_takes_effect_at_the_next_model_call, changes)

/* ---- Tasks ---- */

static int follows_tasks(void *argument)
{
    static struct visitor visitor;
    struct bl_nursery nursery;
    (void)argument;
    struct house *house = open_house("modern");
    bl_nursery_init(&nursery, bl_scope_current());
    visitor_start(&visitor, house, &nursery, "call_1", "mcp__g__task", "{\"ms\":180}");
    visitor_await(&visitor);
    CHECK_EQUAL(visitor.code, 0);
    CHECK(!visitor.result.is_error);
    CHECK(bl_text_equal(visitor.result.text, BL_TEXT("task done")));
    CHECK(strstr(house_file(house, "trace"), "tasks/get ") != NULL);
    visitor_done(&visitor);
    bl_nursery_done(&nursery);
    house_done(house);
    return 0;
}

PLAIN(a_task_is_polled_until_its_end, follows_tasks)

static int tasks_end(void *argument)
{
    static const struct {
        const char *status, *says;
        bool cancelled; /* it may continue: the server is notified of the cancellation */
    } cases[] = {
        {"failed", "MCP server g returned an error: no more (-32001)", false},
        {"cancelled", "its task was cancelled by the server", false},
        {"completed", "its task completed without a result", false},
        {"input_required", "its task requires more input (input_required)", true},
        {"paused", "its task has an unknown status", true},
    };
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char input[64];
        struct house *house = open_house("modern");
        snprintf(input, sizeof input, "{\"end\":\"%s\"}", cases[i].status);
        CHECK_EQUAL(house_call(house, "mcp__g__task", input), 0);
        CHECK(house->box.result.is_error && house_says(house, cases[i].says));
        CHECK_EQUAL(strstr(house_file(house, "trace"), "tasks/cancel ") != NULL,
                    cases[i].cancelled);
        house_done(house);
    }
    return 0;
}

PLAIN(a_task_without_a_result_says_why, tasks_end)

/* ---- Permissions ---- */

static int permits(void *argument)
{
    char reason[512];
    (void)argument;
    struct house *house = open_house("legacy");
    struct box *box = &house->box;
    CHECK_EQUAL(box_decide(box, "mcp__g__echo", "{}", reason, sizeof reason), BL_PERMIT_ALLOWED);
    bl_permissions_set_mode(box->permissions, BL_PERMISSION_READ_ONLY);
    /* That it only reads is only the server's claim. */
    CHECK_EQUAL(box_decide(box, "mcp__g__echo", "{}", reason, sizeof reason), BL_PERMIT_DENIED);
    bl_permissions_set_mode(box->permissions, BL_PERMISSION_ASK);
    CHECK_EQUAL(box_decide(box, "mcp__g__echo", "{}", reason, sizeof reason), BL_PERMIT_ASK);
    CHECK(strcmp(box_rule(box, "mcp__g__echo", "{}"), "mcp__g__echo") == 0);
    bl_permissions_set_mode(box->permissions, BL_PERMISSION_AUTO);
    CHECK_EQUAL(box_decide(box, "mcp__g__echo", "{}", reason, sizeof reason), BL_PERMIT_DENIED);
    CHECK(strcmp(reason, "it would run outside a sandbox") == 0);
    CHECK_EQUAL(bl_permissions_add(box->permissions, true, "mcp__g__*", NULL), 0);
    CHECK_EQUAL(box_decide(box, "mcp__g__echo", "{}", reason, sizeof reason), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(bl_permissions_add(box->permissions, false, "mcp__g__die", NULL), 0);
    CHECK_EQUAL(box_decide(box, "mcp__g__die", "{}", reason, sizeof reason), BL_PERMIT_DENIED);
    house_done(house);
    return 0;
}

PLAIN(calls_of_servers_need_permission_by_mode_and_rules, permits)

/* ---- Deaths ---- */

static int dies(void *argument)
{
    (void)argument;
    struct house *house = open_house("legacy");
    for (int i = 1; i <= 4; i++) {
        CHECK_EQUAL(house_call(house, "mcp__g__die", "{\"code\":7}"), 0);
        CHECK(house->box.result.is_error);
        CHECK(house_says(house,
                         "outcome unknown: MCP server g exited during this call (exit code 7)"));
        CHECK(house_says(house, "last words"));
        CHECK(strcmp(house_state(house, 0), i < 4 ? "off" : "out_of_service") == 0);
    }
    /* Each of them once, and none a second time. */
    const char *trace = house_file(house, "trace");
    int calls = 0;
    for (const char *at = trace; (at = strstr(at, "tools/call ")) != NULL; at++)
        calls++;
    CHECK_EQUAL(calls, 4);
    CHECK(house_noticed(house, "it crashed 4 times in a minute and is out of service"));
    CHECK_EQUAL(house_call(house, "mcp__g__echo", "{}"), 0);
    CHECK(house->box.result.is_error && house_says(house, "The tool was not run."));
    house_refresh(house);
    CHECK_EQUAL(house_offers(house), 0);
    house_done(house);
    return 0;
}

static int dies_rarely(void *argument)
{
    static const char told[] = "End of its standard error:\n";
    (void)argument;
    struct house *house = open_house("legacy");
    uint64_t *deaths_ns = house->box.toolbox->mcp->servers[0].deaths_ns;
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(house_call(house, "mcp__g__die", "{\"words\":2000}"), 0);
        CHECK(strcmp(house_state(house, 0), "off") == 0);
        /* As if that was a minute ago. */
        for (size_t k = 0; k <= MCP_RESTARTS_MAX; k++)
            deaths_ns[k] -= deaths_ns[k] != 0 ? MCP_RESTARTS_NS : 0;
    }
    /* Of a long standard error, the end. */
    struct bl_text text = house->box.result.text;
    ptrdiff_t at = bl_text_find(text, bl_text_from(told));
    CHECK(at > 0 && text.size - (size_t)at == sizeof told - 1 + 1000);
    CHECK(bl_text_ends_with(text, BL_TEXT("wlast words")));
    house_done(house);
    return 0;
}

PLAIN(rarely_crashing_server_is_always_restarted, dies_rarely)

PLAIN(M18_crashed_server_is_restarted_three_times_and_no_call_is_repeated, dies)

static int dies_at_start(void *argument)
{
    (void)argument;
    struct house *house = house_new(container);
    GUEST(house, "gone", "--exit", "5");
    GUEST(house, "good", "--era", "legacy");
    house_add(house, "none", (const char *const[]){NULL})->command = "/nonexistent/server";
    house_open(house);
    house_refresh(house);
    CHECK(strcmp(house_state(house, 0), "failed") == 0);
    CHECK(strcmp(house_state(house, 1), "ready") == 0);
    CHECK(strcmp(house_state(house, 2), "failed") == 0);
    CHECK(house_noticed(
        house,
        "MCP server gone cannot be used: it exited unexpectedly (exit code 5): cannot go on"));
    CHECK(house_noticed(house, "MCP server none cannot be used: "));
    struct bl_mcp_view view;
    CHECK(bl_toolbox_mcp(house->box.toolbox, 0, &view));
    CHECK(bl_text_equal(view.why, BL_TEXT("it exited unexpectedly (exit code 5): cannot go on")));
    CHECK_EQUAL(house_call(house, "mcp__good__echo", "{\"text\":\"here\"}"), 0);
    CHECK(house_says(house, "here"));
    /* Not again at each model call. */
    unsigned notices = house->notice_count;
    house_refresh(house);
    CHECK_EQUAL(house->notice_count, notices);
    house_done(house);
    return 0;
}

PLAIN(failed_server_is_reported_and_the_others_stay_usable, dies_at_start)

SUITE(mcp, cmocka_unit_test(M14_a_server_of_either_era_is_listed_and_called),
      cmocka_unit_test(newest_common_version_is_used_and_an_unknown_one_reported),
      cmocka_unit_test(server_is_opened_by_its_version_or_reported),
      cmocka_unit_test(slow_modern_server_is_not_mistaken_for_a_legacy_one),
      cmocka_unit_test(the_era_of_a_server_is_remembered),
      cmocka_unit_test(M14_text_images_structure_and_errors_come_back),
      cmocka_unit_test(M14_progress_is_reported_and_restarts_the_timeout),
      cmocka_unit_test(ping_and_roots_are_answered),
      cmocka_unit_test(a_server_gets_no_secrets_but_what_its_entry_sets),
      cmocka_unit_test(invalid_lines_are_ignored),
      cmocka_unit_test(changed_list_takes_effect_at_the_next_model_call),
      cmocka_unit_test(a_task_is_polled_until_its_end),
      cmocka_unit_test(a_task_without_a_result_says_why),
      cmocka_unit_test(calls_of_servers_need_permission_by_mode_and_rules),
      cmocka_unit_test(rarely_crashing_server_is_always_restarted),
      cmocka_unit_test(M18_crashed_server_is_restarted_three_times_and_no_call_is_repeated),
      cmocka_unit_test(failed_server_is_reported_and_the_others_stay_usable));
