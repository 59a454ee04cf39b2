#include "cli/run/workplace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chat/guest.h"
#include "cli/command/mcp.h"
#include "fibers.h"

/* ---- Workplaces ------------------------------------------------------------------------------ */

#define WORDS_MAX 16u

/* What a command that serves has, with its options. */
struct service {
    const char *command;
    const char *const *words; /* end in NULL */
    void (*body)(const struct bl_workplaces *places);
    struct run_options options;
};

static int service_main(void *argument)
{
    struct service *service = argument;
    struct workplaces workplaces;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_store *store = NULL;

    if (CHECK_EQUAL(bl_store_open(service->options.store, &store, error), 0)) {
        if (CHECK_EQUAL(workplaces_begin(&workplaces, &service->options, store, error), 0))
            service->body(&workplaces.table);
        CHECK(bl_list_empty(&workplaces.open));
        workplaces_end(&workplaces);
    }
    bl_store_close(store);
    bl_free(error);
    return 0;
}

static void serve(const char *command, const char *const *words,
                  void (*body)(const struct bl_workplaces *places))
{
    struct service service = {.command = command, .words = words, .body = body};
    struct bl_error error = {0};
    char *arguments[WORDS_MAX] = {(char *)command};
    struct cli_call call = {.command = cli_command_find(command, &error), .count = 1};

    while (words[call.count - 1] != NULL && call.count + 1 < (int)WORDS_MAX) {
        arguments[call.count] = (char *)words[call.count - 1];
        call.count++;
    }
    call.arguments = arguments;
    int code =
        run_options_parse_serving(&call, strcmp(command, "acp") == 0, &service.options, &error);
    if (code != 0)
        fail_msg("%s", error.message);
    run_in_loop(service_main, &service);
    run_options_done(&service.options);
}

#define SERVE(command, body, ...) serve(command, (const char *const[]){__VA_ARGS__, NULL}, body)

static struct bl_workplace_request request_of(const char *directory)
{
    return (struct bl_workplace_request){
        .directory = directory, .asks = true, .max_budget_usd = -1};
}

/* NULL: it could not be opened, which was recorded. */
static struct bl_workplace *open_place(const struct bl_workplaces *places,
                                       const struct bl_workplace_request *request)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_workplace *place = NULL;

    int code = places->open(places->context, request, &place, error);
    check_that(code == 0, code == 0 ? "" : error->message, __FILE__, __LINE__);
    bl_free(error);
    return code == 0 ? place : NULL;
}

static void check_refused(const struct bl_workplaces *places,
                          const struct bl_workplace_request *request, int code, const char *part)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_workplace *place = NULL;

    if (CHECK_EQUAL(places->open(places->context, request, &place, error), code)) {
        CHECK_EQUAL(error->kind, BL_KIND_USAGE);
        check_that(strstr(error->message, part) != NULL, error->message, __FILE__, __LINE__);
    } else if (place != NULL) {
        places->close(places->context, place);
    }
    bl_free(error);
}

static bool holds(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

static const char *other_folder(void)
{
    mkdir(stage_path("other"), 0700);
    return stage_path("other");
}

static void look_at_two_folders(const struct bl_workplaces *places)
{
    struct bl_workplace_request here = request_of(stage_path("work"));
    struct bl_workplace_request there = request_of(stage_path("other"));
    struct bl_workplace *first = open_place(places, &here), *second = open_place(places, &there);

    if (first == NULL || second == NULL)
        return;
    CHECK(holds(first->agent.system, "whales") && !holds(first->agent.system, "herons"));
    CHECK(holds(second->agent.system, "herons") && !holds(second->agent.system, "whales"));
    CHECK(strcmp(first->agent.session.directory, here.directory) == 0);
    CHECK(strcmp(second->agent.session.directory, there.directory) == 0);
    CHECK(first->toolbox != second->toolbox && first->permissions != second->permissions);
    CHECK(first->agent.store == places->store);
    CHECK(places->keys == NULL);
    /* What one allows the other does not. */
    CHECK_EQUAL(bl_permissions_add(first->permissions, true, "bash(ls *)", NULL), 0);
    bool allow;
    CHECK(bl_permissions_rule(second->permissions, 0, &allow) != NULL && !allow);
    CHECK(bl_permissions_rule(second->permissions, 1, &allow) == NULL);
    bl_permissions_set_mode(first->permissions, BL_PERMISSION_YOLO);
    CHECK_EQUAL(bl_permissions_mode(second->permissions), BL_PERMISSION_ASK);
    places->close(places->context, first);
    places->close(places->context, second);
}

static void each_folder_has_its_own_configuration_and_rules(void **state)
{
    (void)state;
    other_folder();
    stage_file("AGENTS.md", "Think of whales.\n");
    stage_file("../other/AGENTS.md", "Think of herons.\n");
    SERVE("acp", look_at_two_folders, "--provider", "script", "--deny", "bash(rm *)");
}

static void ask_for_modes(const struct bl_workplaces *places)
{
    struct bl_workplace_request request = request_of(stage_path("work"));

    CHECK_EQUAL(places->mode, BL_PERMISSION_READ_ONLY);
    request.mode_chosen = true;
    request.mode = BL_PERMISSION_YOLO;
    check_refused(places, &request, BL_EACCES, "'yolo' lets more through than 'read-only'");
    request.mode = BL_PERMISSION_ASK;
    check_refused(places, &request, BL_EACCES, "'ask' lets more through");
    request.mode = BL_PERMISSION_READ_ONLY;
    struct bl_workplace *place = open_place(places, &request);
    if (place == NULL)
        return;
    CHECK_EQUAL(bl_permissions_mode(place->permissions), BL_PERMISSION_READ_ONLY);
    places->close(places->context, place);
}

static void M13_a_wider_mode_than_belay_has_is_refused(void **state)
{
    (void)state;
    SERVE("mcp", ask_for_modes, "--provider", "script", "--permission-mode", "read-only");
}

static void check_mode(const struct bl_workplaces *places, bool asks, enum bl_permission_mode mode)
{
    struct bl_workplace_request request = request_of(stage_path("work"));

    request.asks = asks;
    struct bl_workplace *place = open_place(places, &request);
    CHECK_EQUAL(places->mode, mode);
    if (place == NULL)
        return;
    CHECK_EQUAL(bl_permissions_mode(place->permissions), mode);
    places->close(places->context, place);
}

static void expect_ask(const struct bl_workplaces *places)
{
    check_mode(places, true, BL_PERMISSION_ASK);
}

static void expect_auto(const struct bl_workplaces *places)
{
    check_mode(places, false, BL_PERMISSION_AUTO);
}

static void expect_read_only(const struct bl_workplaces *places)
{
    check_mode(places, true, BL_PERMISSION_READ_ONLY);
}

static void the_mode_is_the_command_lines_else_the_users_else_by_who_can_be_asked(void **state)
{
    (void)state;
    SERVE("acp", expect_ask, "--provider", "script");
    SERVE("mcp", expect_auto, "--provider", "script");
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml", "permissions: {mode: read-only}\n");
    SERVE("acp", expect_read_only, "--provider", "script");
    SERVE("acp", expect_ask, "--provider", "script", "--permission-mode", "ask");
}

/* ---- Who answers ----------------------------------------------------------------------------- */

static void check_without_key(const struct bl_workplaces *places, const char *key, const char *part)
{
    struct bl_workplace_request request = request_of(stage_path("work"));
    struct bl_workplace *place = open_place(places, &request);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_sink *sink = bl_zalloc(sizeof *sink);

    CHECK(places->keys != NULL && strcmp(places->keys[0], key) == 0);
    if (place != NULL) {
        const struct bl_model *model = place->agent.model;
        CHECK(model->call(model->context, NULL, sink, error) < 0);
        CHECK_EQUAL(error->kind, BL_KIND_AUTH);
        check_that(strstr(error->message, part) != NULL, error->message, __FILE__, __LINE__);
        CHECK(strstr(error->hint, key) != NULL);
        CHECK(sink->unbilled);
        places->close(places->context, place);
    }
    bl_free(sink);
    bl_free(error);
}

static void expect_no_key(const struct bl_workplaces *places)
{
    check_without_key(places, "OPENAI_API_KEY", "'openai' has no key");
}

static void expect_no_model(const struct bl_workplaces *places)
{
    check_without_key(places, "ANTHROPIC_API_KEY", "there is no model");
    CHECK(strcmp(places->keys[1], "OPENAI_API_KEY") == 0 && places->keys[2] == NULL);
}

static void without_a_key_a_folder_can_be_opened_and_only_a_call_fails(void **state)
{
    (void)state;
    SERVE("acp", expect_no_key, "--model", "openai/any");
    SERVE("acp", expect_no_model, "--timeout", "5s");
}

static void look_at_models(const struct bl_workplaces *places)
{
    struct bl_workplace_request request = request_of(stage_path("work"));

    request.model = "fast";
    struct bl_workplace *place = open_place(places, &request);
    CHECK(places->keys == NULL);
    if (place == NULL)
        return;
    CHECK(strcmp(place->models[0], "fast") == 0);
    CHECK(strcmp(place->models[1], "slow") == 0 && place->models[2] == NULL);
    CHECK(strcmp(place->agent.model->name, "small") == 0);
    if (CHECK(place->thinking != NULL))
        CHECK_EQUAL(*place->thinking, BL_EFFORT_LOW);
    CHECK(place->timed && place->timeout_ns == 5 * (int64_t)BL_NS_PER_S);
    places->close(places->context, place);
    request.model = "fats";
    check_refused(places, &request, BL_EINVAL, "fats");
}

static void models_are_listed_and_can_be_asked_for(void **state)
{
    (void)state;
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml",
               "providers: {local: {api: openai, base_url: 'http://127.0.0.1:9/v1'}}\n"
               "models:\n"
               "  slow: {provider: local, model: large, free: true}\n"
               "  fast: {provider: local, model: small, free: true, thinking: low}\n"
               "model: slow\n");
    SERVE("acp", look_at_models, "--timeout", "5s");
}

static void look_at_budgets(const struct bl_workplaces *places)
{
    static const struct {
        double asked, limit;
    } rows[] = {{-1, 2}, {1, 1}, {3, 2}, {0, 0}};
    struct bl_workplace_request request = request_of(stage_path("work"));

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        request.max_budget_usd = rows[i].asked;
        struct bl_workplace *place = open_place(places, &request);
        if (place == NULL)
            return;
        if (CHECK(place->ledger != NULL))
            CHECK(place->ledger->limit_usd == rows[i].limit);
        places->close(places->context, place);
    }
}

static void of_two_limits_of_cost_the_smaller_one_counts(void **state)
{
    (void)state;
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml",
               "providers: {local: {api: openai, base_url: 'http://127.0.0.1:9/v1'}}\n"
               "models: {slow: {provider: local, model: large, free: true}}\n"
               "model: slow\n");
    SERVE("mcp", look_at_budgets, "--max-budget-usd", "2");
}

/* ---- Folders --------------------------------------------------------------------------------- */

static void ask_for_folders(const struct bl_workplaces *places)
{
    struct bl_workplace_request request = request_of("relative");
    const char *more[] = {stage_path("missing"), NULL};

    check_refused(places, &request, BL_EINVAL, "'relative' is not an absolute path");
    request.directory = stage_path("missing");
    check_refused(places, &request, BL_ENOENT, "missing' cannot be used");
    request.directory = stage_path("work/file");
    check_refused(places, &request, bl_error_from_errno(ENOTDIR), "file' cannot be used");
    request.directory = stage_path("work");
    request.folders = more;
    check_refused(places, &request, BL_ENOENT, "missing' cannot be used");
    more[0] = stage_path("other");
    struct bl_workplace *place = open_place(places, &request);
    if (place != NULL)
        places->close(places->context, place);
}

static void a_folder_that_is_none_is_refused(void **state)
{
    (void)state;
    other_folder();
    stage_file("file", "");
    SERVE("acp", ask_for_folders, "--provider", "script");
}

/* ---- MCP servers ----------------------------------------------------------------------------- */

#define SERVERS(command)                                                                           \
    "{\"mcpServers\":{\"given\":{\"command\":\"" command "\",\"args\":[\"begun\"]}}}"

static void look_at_servers(const struct bl_workplaces *places)
{
    struct bl_workplace_request request = request_of(stage_path("work"));
    struct bl_mcp_view view;

    request.mcp_servers =
        stage_json("[{\"name\":\"brought\",\"command\":\"/bin/true\",\"args\":[],\"env\":[]}]");
    struct bl_workplace *place = open_place(places, &request);
    if (place == NULL)
        return;
    CHECK(bl_toolbox_mcp(place->toolbox, 0, &view) && strcmp(view.name, "given") == 0);
    CHECK(strcmp(view.state, "untrusted") == 0 || strcmp(view.state, "off") == 0);
    CHECK(bl_toolbox_mcp(place->toolbox, 1, &view) && strcmp(view.name, "brought") == 0);
    CHECK(!bl_toolbox_mcp(place->toolbox, 2, &view));
    places->close(places->context, place);
    /* What the client brings along takes the place of one of that name. */
    request.mcp_servers =
        stage_json("[{\"name\":\"given\",\"command\":\"/bin/true\",\"args\":[],\"env\":[]}]");
    place = open_place(places, &request);
    if (place == NULL)
        return;
    CHECK(bl_toolbox_mcp(place->toolbox, 0, &view));
    CHECK_EQUAL(view.entry->source, BL_MCP_OF_CLIENT);
    CHECK(!bl_toolbox_mcp(place->toolbox, 1, &view));
    places->close(places->context, place);
}

static void M20_servers_of_a_folder_stay_off_until_somebody_agrees(void **state)
{
    static struct run run;

    (void)state;
    stage_file(".mcp.json", SERVERS("touch"));
    SERVE("acp", look_at_servers, "--provider", "script");
    RUN(&run, "run", "--provider", stage_script("replies: [{say: Well.}]"), "hello");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.err, "MCP server given: it stays off"));
    RUN(&run, "tools", "--json");
    const struct bl_json *answer = stage_answer(&run, "tools", 0);
    assert_string_equal(stage_text_at(answer, "/servers/0/server"), "given");
    assert_string_equal(stage_text_at(answer, "/servers/0/state"), "untrusted");
    assert_false(stage_exists(stage_path("work/begun")));
    /* It is no server, but it was started. */
    RUN(&run, "tools", "--trust-mcp", "--json");
    answer = stage_answer(&run, "tools", 0);
    assert_string_equal(stage_text_at(answer, "/servers/0/state"), "failed");
    assert_true(stage_exists(stage_path("work/begun")));
}

static void a_conversation_asks_once_and_remembers_a_yes(void **state)
{
    struct guest guest;
    const char *provider = stage_script("replies: [{say: Well.}, {say: Well.}]");

    (void)state;
    stage_file(".mcp.json", SERVERS("touch"));
    GUEST(&guest, 80, 24, "--provider", provider);
    guest_await(&guest, "Allow the MCP server given?");
    guest_await(&guest, "touch begun");
    /* What comes too early to be an answer becomes it with Enter. */
    guest_type(&guest, "n\r");
    guest_await(&guest, "given stays off.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    guest_end(&guest);
    assert_false(stage_exists(stage_path("work/begun")));
    GUEST(&guest, 80, 24, "--provider", provider);
    guest_await(&guest, "Allow the MCP server given?");
    guest_type(&guest, "y\r");
    guest_await_idle(&guest);
    guest_say(&guest, "hello\r", "Well.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    guest_end(&guest);
    assert_true(stage_exists(stage_path("work/begun")));
    GUEST(&guest, 80, 24, "--provider", provider);
    guest_await_idle(&guest);
    assert_int_equal(guest_times(&guest, "Allow the MCP server"), 0);
    guest_leave(&guest);
    guest_end(&guest);
}

/* ---- The token ------------------------------------------------------------------------------- */

static void a_token_is_made_once_and_nobody_else_can_read_it(void **state)
{
    struct bl_error error = {0};
    const char *path, *first = "", *second = "";
    struct bl_arena arena;
    struct stat facts;

    (void)state;
    bl_arena_init(&arena);
    setenv("XDG_STATE_HOME", stage_path("state"), 1);
    assert_int_equal(mcp_token_path(&arena, &path, &error), 0);
    assert_string_equal(path, stage_path("state/belay/mcp-token"));
    assert_int_equal(mcp_token_read(&arena, path, &first, &error), 0);
    assert_int_equal(mcp_token_read(&arena, path, &second, &error), 0);
    assert_int_equal(strlen(first), 64);
    assert_string_equal(first, second);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(stage_path("state/belay"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    unsetenv("XDG_STATE_HOME");
    bl_arena_done(&arena);
}

static void a_token_that_is_none_or_open_to_others_is_refused(void **state)
{
    struct bl_error error = {0};
    const char *token;
    struct bl_arena arena;

    (void)state;
    bl_arena_init(&arena);
    const char *path = stage_file("token", "short\n");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), BL_EINVAL);
    assert_non_null(strstr(error.message, "holds no token"));
    error = (struct bl_error){0};
    stage_file("token", "0123456789012345678901234567890123456789 123\n");
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), BL_EINVAL);
    error = (struct bl_error){0};
    stage_file("token", "0123456789012345678901234567890123456789012\n");
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), BL_EACCES);
    assert_non_null(strstr(error.hint, "chmod 600"));
    error = (struct bl_error){0};
    assert_int_equal(mcp_token_read(&arena, stage_path("work"), &token, &error), BL_EINVAL);
    error = (struct bl_error){0};
    assert_int_equal(mcp_token_read(&arena, stage_path("work/token/x"), &token, &error),
                     bl_error_from_errno(ENOTDIR));
    bl_arena_done(&arena);
}

/* ---- The commands ---------------------------------------------------------------------------- */

static void check_usage(const struct run *run, const char *line)
{
    assert_string_equal(run->err, line);
    assert_string_equal(run->out, "");
    assert_int_equal(run->exit_code, 2);
}

static void M12_an_address_that_is_not_loopback_is_a_usage_error(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "mcp", "--http", "--address", "0.0.0.0");
    check_usage(&run, "belay mcp: invalid value '0.0.0.0' for --address (expected a loopback "
                      "address: 127.0.0.1 or "
                      "::1); use a tunnel of your own to let others reach it\n");
    RUN(&run, "mcp", "--http", "--address", "example.test");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "mcp", "--address", "::1");
    check_usage(&run, "belay mcp: --address needs --http; add --http, or leave it out\n");
    RUN(&run, "mcp", "--http", "65536");
    check_usage(
        &run,
        "belay mcp: invalid value '65536' for PORT (expected a whole number from 0 to 65535)\n");
    RUN(&run, "mcp", "8080");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "acp", "hello");
    check_usage(&run, "belay acp: unexpected argument 'hello'; --help shows the usage\n");
}

static void what_is_wrong_with_the_options_is_said_before_anybody_is_served(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "acp", "--model", "nowhere/any");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.out, "");
    RUN(&run, "acp", "--mcp-config", "missing.json", "--provider", "script");
    assert_in_range(run.exit_code, 1, 2);
    assert_non_null(strstr(run.err, "missing.json"));
    RUN(&run, "mcp", "--provider", "script", "--system", "missing.md");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "");
    assert_non_null(strstr(run.err, "missing.md"));
}

static struct held served;

static int end_served(void **state)
{
    held_end(&served);
    return stage_end(state);
}

/* With a standard input that stays open. */
static void start_serving(const char *const *words, int *ret_input)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&served, words, ends[0], RUN_KEEP);
    close(ends[0]);
    *ret_input = ends[1];
}

#define INITIALIZE                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":%s,"  \
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"test\",\"version\":\"1\"}}}\n"

/* Both speak, and say nothing else on standard output; a client that goes, and a signal, end them.
 */
static void check_served(const char *command, const char *version, int signal, int exit_code)
{
    static struct run run;
    const char *hello = stage_printf(INITIALIZE, version);
    int input;

    start_serving((const char *const[]){runner_program(), command, "--provider", "script", NULL},
                  &input);
    assert_int_equal(write(input, hello, strlen(hello)), strlen(hello));
    held_await(&served, "\"id\":1");
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    if (signal != 0)
        assert_int_equal(kill(served.pid, signal), 0);
    else
        close(input);
    held_wait(&served);
    if (signal != 0)
        close(input);
    assert_int_equal(served.exit_code, exit_code);
    assert_string_equal(held_err(&served), "");
    assert_int_equal(stage_lines_with(stage_output(&served), ""), 1);
    stage_json(stage_output(&served));
    held_end(&served);
}

static void a_client_that_goes_and_a_signal_end_those_who_serve(void **state)
{
    (void)state;
    check_served("acp", "1", 0, 0);
    check_served("mcp", "\"2025-11-25\"", 0, 0);
    check_served("acp", "1", SIGTERM, 143);
    check_served("acp", "1", SIGINT, 130);
    check_served("mcp", "\"2025-11-25\"", SIGTERM, 143);
}

static void over_http_the_address_and_the_token_file_are_told(void **state)
{
    (void)state;
    START(&served, "mcp", "--http", "--token-file", stage_path("work/token"), "--provider",
          "script");
    for (unsigned i = 0; i < 3000 && strstr(held_err(&served), "token is in") == NULL; i++)
        usleep(10 * 1000);
    assert_non_null(strstr(held_err(&served), "belay mcp: listening on http://127.0.0.1:"));
    assert_non_null(strstr(held_err(&served), stage_path("work/token")));
    assert_true(stage_exists(stage_path("work/token")));
    assert_int_equal(kill(served.pid, SIGTERM), 0);
    held_wait(&served);
    assert_int_equal(served.exit_code, 143);
    assert_string_equal(stage_output(&served), "");
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_served)

SUITE(workplace, STAGED(each_folder_has_its_own_configuration_and_rules),
      STAGED(M13_a_wider_mode_than_belay_has_is_refused),
      STAGED(the_mode_is_the_command_lines_else_the_users_else_by_who_can_be_asked),
      STAGED(without_a_key_a_folder_can_be_opened_and_only_a_call_fails),
      STAGED(models_are_listed_and_can_be_asked_for),
      STAGED(of_two_limits_of_cost_the_smaller_one_counts),
      STAGED(a_folder_that_is_none_is_refused),
      STAGED(M20_servers_of_a_folder_stay_off_until_somebody_agrees),
      STAGED(a_conversation_asks_once_and_remembers_a_yes),
      STAGED(a_token_is_made_once_and_nobody_else_can_read_it),
      STAGED(a_token_that_is_none_or_open_to_others_is_refused),
      STAGED(M12_an_address_that_is_not_loopback_is_a_usage_error),
      STAGED(what_is_wrong_with_the_options_is_said_before_anybody_is_served),
      SERVED(a_client_that_goes_and_a_signal_end_those_who_serve),
      SERVED(over_http_the_address_and_the_token_file_are_told));
