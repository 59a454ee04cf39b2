#include <belay/runtime.h>

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fibers.h"
#include "stage.h"

/* ---- A runtime ------------------------------------------------------------------------------- */

struct service {
    struct bl_workspace_options options;
    void (*body)(struct bl_runtime *runtime);
};

static int service_main(void *argument)
{
    struct service *service = argument;
    struct bl_runtime runtime;
    struct bl_error *error = bl_zalloc(sizeof *error);

    if (CHECK_EQUAL(bl_runtime_begin(&runtime, &service->options, NULL, error), 0))
        service->body(&runtime);
    CHECK(bl_list_empty(&runtime.open));
    bl_runtime_end(&runtime);
    bl_free(error);
    return 0;
}

static void with_runtime(struct service service)
{
    service.options.directory = stage_path("work");
    bl_turn_limits_init(&service.options.limits);
    run_in_loop(service_main, &service);
}

/* Runs a test with these options. */
#define WITH(test_body, ...)                                                                       \
    with_runtime((struct service){.body = (test_body), .options = {__VA_ARGS__}})

static struct bl_workspace_request request_of(const char *directory)
{
    return (struct bl_workspace_request){
        .directory = directory, .asks = true, .max_budget_usd = -1};
}

/* Returns NULL if it could not be opened; the error was recorded. */
static struct bl_workspace *open_place(struct bl_runtime *runtime,
                                       const struct bl_workspace_request *request)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_workspace *place = NULL;

    int code = bl_runtime_open(runtime, request, &place, error);
    check_that(code == 0, code == 0 ? "" : error->message, __FILE__, __LINE__);
    bl_free(error);
    return code == 0 ? place : NULL;
}

static void check_refused(struct bl_runtime *runtime, const struct bl_workspace_request *request,
                          int code, const char *part)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_workspace *place = NULL;

    if (CHECK_EQUAL(bl_runtime_open(runtime, request, &place, error), code)) {
        CHECK_EQUAL(error->kind, BL_KIND_USAGE);
        check_that(strstr(error->message, part) != NULL, error->message, __FILE__, __LINE__);
    } else if (place != NULL) {
        bl_workspace_close(place);
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

static void look_at_two_folders(struct bl_runtime *runtime)
{
    struct bl_workspace_request here = request_of(stage_path("work"));
    struct bl_workspace_request there = request_of(stage_path("other"));
    struct bl_workspace *first = open_place(runtime, &here), *second = open_place(runtime, &there);

    if (first == NULL || second == NULL)
        return;
    CHECK(holds(bl_workspace_agent(first).system, "whales") &&
          !holds(bl_workspace_agent(first).system, "herons"));
    CHECK(holds(bl_workspace_agent(second).system, "herons") &&
          !holds(bl_workspace_agent(second).system, "whales"));
    CHECK(strcmp(bl_workspace_agent(first).session.directory, here.directory) == 0);
    CHECK(strcmp(bl_workspace_agent(second).session.directory, there.directory) == 0);
    CHECK(first->toolbox != second->toolbox && first->permissions != second->permissions);
    CHECK(runtime->keys == NULL);
    /* A permission in one workspace does not apply in the other. */
    CHECK_EQUAL(bl_permissions_add(first->permissions, true, "bash(ls *)", NULL), 0);
    bool allow;
    CHECK(bl_permissions_rule(second->permissions, 0, &allow) != NULL && !allow);
    CHECK(bl_permissions_rule(second->permissions, 1, &allow) == NULL);
    bl_permissions_set_mode(first->permissions, BL_PERMISSION_YOLO);
    CHECK_EQUAL(bl_permissions_mode(second->permissions), BL_PERMISSION_ASK);
    bl_workspace_close(first);
    bl_workspace_close(second);
}

static void each_folder_has_its_own_configuration_and_rules(void **state)
{
    (void)state;
    other_folder();
    stage_file("AGENTS.md", "Think of whales.\n");
    stage_file("../other/AGENTS.md", "Think of herons.\n");
    const char *const deny[] = {"bash(rm *)", NULL};
    WITH(look_at_two_folders, .provider = "script", .mode = BL_PERMISSION_ASK, .deny = deny);
}

static void ask_for_modes(struct bl_runtime *runtime)
{
    struct bl_workspace_request request = request_of(stage_path("work"));

    CHECK_EQUAL(runtime->mode, BL_PERMISSION_READ_ONLY);
    request.mode_chosen = true;
    request.mode = BL_PERMISSION_YOLO;
    check_refused(runtime, &request, BL_EACCES, "'yolo' allows more than 'read-only'");
    request.mode = BL_PERMISSION_ASK;
    check_refused(runtime, &request, BL_EACCES, "'ask' allows more");
    request.mode = BL_PERMISSION_READ_ONLY;
    struct bl_workspace *place = open_place(runtime, &request);
    if (place == NULL)
        return;
    CHECK_EQUAL(bl_permissions_mode(place->permissions), BL_PERMISSION_READ_ONLY);
    bl_workspace_close(place);
}

static void M13_a_wider_mode_than_belay_has_is_refused(void **state)
{
    (void)state;
    WITH(ask_for_modes, .provider = "script", .mode_chosen = true, .mode = BL_PERMISSION_READ_ONLY);
}

static void check_mode(struct bl_runtime *runtime, bool asks, enum bl_permission_mode mode)
{
    struct bl_workspace_request request = request_of(stage_path("work"));

    request.asks = asks;
    struct bl_workspace *place = open_place(runtime, &request);
    CHECK_EQUAL(runtime->mode, mode);
    if (place == NULL)
        return;
    CHECK_EQUAL(bl_permissions_mode(place->permissions), mode);
    bl_workspace_close(place);
}

static void expect_ask(struct bl_runtime *runtime)
{
    check_mode(runtime, true, BL_PERMISSION_ASK);
}

static void expect_auto(struct bl_runtime *runtime)
{
    check_mode(runtime, false, BL_PERMISSION_AUTO);
}

static void expect_read_only(struct bl_runtime *runtime)
{
    check_mode(runtime, true, BL_PERMISSION_READ_ONLY);
}

static void mode_is_the_chosen_one_else_the_users_else_the_default(void **state)
{
    (void)state;
    WITH(expect_ask, .provider = "script", .mode = BL_PERMISSION_ASK);
    WITH(expect_auto, .provider = "script", .mode = BL_PERMISSION_AUTO);
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml", "permissions: {mode: read-only}\n");
    WITH(expect_read_only, .provider = "script", .mode = BL_PERMISSION_ASK);
    WITH(expect_ask, .provider = "script", .mode_chosen = true, .mode = BL_PERMISSION_ASK);
}

/* ---- The model ------------------------------------------------------------------------------- */

static void check_without_key(struct bl_runtime *runtime, const char *key, const char *part)
{
    struct bl_workspace_request request = request_of(stage_path("work"));
    struct bl_workspace *place = open_place(runtime, &request);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_sink *sink = bl_zalloc(sizeof *sink);

    CHECK(runtime->keys != NULL && strcmp(runtime->keys[0], key) == 0);
    if (place != NULL) {
        const struct bl_model *model = &place->model;
        CHECK(model->call(model->context, NULL, sink, error) < 0);
        CHECK_EQUAL(error->kind, BL_KIND_AUTH);
        check_that(strstr(error->message, part) != NULL, error->message, __FILE__, __LINE__);
        CHECK(strstr(error->hint, key) != NULL);
        CHECK(sink->unbilled);
        bl_workspace_close(place);
    }
    bl_free(sink);
    bl_free(error);
}

static void expect_no_key(struct bl_runtime *runtime)
{
    check_without_key(runtime, "OPENAI_API_KEY", "'openai' has no key");
}

static void expect_no_model(struct bl_runtime *runtime)
{
    check_without_key(runtime, "ANTHROPIC_API_KEY", "no model: nothing is configured");
    CHECK(strcmp(runtime->keys[1], "OPENAI_API_KEY") == 0 && runtime->keys[2] == NULL);
}

static void without_a_key_a_workspace_opens_and_only_a_call_fails(void **state)
{
    (void)state;
    WITH(expect_no_key, .model = "openai/any", .mode = BL_PERMISSION_AUTO);
    WITH(expect_no_model, .timed = true, .timeout_ns = 5 * (int64_t)BL_NS_PER_S,
         .mode = BL_PERMISSION_AUTO);
}

static void look_at_models(struct bl_runtime *runtime)
{
    struct bl_workspace_request request = request_of(stage_path("work"));

    request.model = "fast";
    struct bl_workspace *place = open_place(runtime, &request);
    CHECK(runtime->keys == NULL);
    if (place == NULL)
        return;
    CHECK(strcmp(place->models[0], "fast") == 0);
    CHECK(strcmp(place->models[1], "slow") == 0 && place->models[2] == NULL);
    CHECK(strcmp(place->model.name, "small") == 0);
    if (CHECK(place->thinking != NULL))
        CHECK_EQUAL(*place->thinking, BL_EFFORT_LOW);
    CHECK(place->options.timed && place->options.timeout_ns == 5 * (int64_t)BL_NS_PER_S);
    bl_workspace_close(place);
    request.model = "fats";
    check_refused(runtime, &request, BL_EINVAL, "fats");
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
    WITH(look_at_models, .timed = true, .timeout_ns = 5 * (int64_t)BL_NS_PER_S,
         .mode = BL_PERMISSION_AUTO);
}

static void look_at_budgets(struct bl_runtime *runtime)
{
    static const struct {
        double asked, limit;
    } rows[] = {{-1, 2}, {1, 1}, {3, 2}, {0, 0}};
    struct bl_workspace_request request = request_of(stage_path("work"));

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        request.max_budget_usd = rows[i].asked;
        struct bl_workspace *place = open_place(runtime, &request);
        if (place == NULL)
            return;
        if (CHECK(place->ledger != NULL))
            CHECK(place->ledger->limit_usd == rows[i].limit);
        bl_workspace_close(place);
    }
}

static void the_smaller_of_two_budgets_counts(void **state)
{
    (void)state;
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml",
               "providers: {local: {api: openai, base_url: 'http://127.0.0.1:9/v1'}}\n"
               "models: {slow: {provider: local, model: large, free: true}}\n"
               "model: slow\n");
    WITH(look_at_budgets, .budgeted = true, .max_budget_usd = 2, .mode = BL_PERMISSION_AUTO);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static void ask_for_folders(struct bl_runtime *runtime)
{
    struct bl_workspace_request request = request_of("relative");
    const char *more[] = {stage_path("missing"), NULL};

    check_refused(runtime, &request, BL_EINVAL, "'relative' is not an absolute path");
    request.directory = stage_path("missing");
    check_refused(runtime, &request, BL_ENOENT, "missing' cannot be used");
    request.directory = stage_path("work/file");
    check_refused(runtime, &request, bl_error_from_errno(ENOTDIR), "file' cannot be used");
    request.directory = stage_path("work");
    request.folders = more;
    check_refused(runtime, &request, BL_ENOENT, "missing' cannot be used");
    more[0] = stage_path("other");
    struct bl_workspace *place = open_place(runtime, &request);
    if (place != NULL)
        bl_workspace_close(place);
}

static void folder_that_does_not_exist_is_refused(void **state)
{
    (void)state;
    other_folder();
    stage_file("file", "");
    WITH(ask_for_folders, .provider = "script", .mode = BL_PERMISSION_AUTO);
}

/* ---- MCP servers ----------------------------------------------------------------------------- */

static void look_at_servers(struct bl_runtime *runtime)
{
    struct bl_workspace_request request = request_of(stage_path("work"));
    struct bl_mcp_view view;

    request.mcp_servers =
        stage_json("[{\"name\":\"brought\",\"command\":\"/bin/true\",\"args\":[],\"env\":[]}]");
    struct bl_workspace *place = open_place(runtime, &request);
    if (place == NULL)
        return;
    CHECK(bl_toolbox_mcp(place->toolbox, 0, &view) && strcmp(view.name, "given") == 0);
    CHECK(strcmp(view.state, "untrusted") == 0 || strcmp(view.state, "off") == 0);
    CHECK(bl_toolbox_mcp(place->toolbox, 1, &view) && strcmp(view.name, "brought") == 0);
    CHECK(!bl_toolbox_mcp(place->toolbox, 2, &view));
    bl_workspace_close(place);
    /* The client's server replaces one of the same name. */
    request.mcp_servers =
        stage_json("[{\"name\":\"given\",\"command\":\"/bin/true\",\"args\":[],\"env\":[]}]");
    place = open_place(runtime, &request);
    if (place == NULL)
        return;
    CHECK(bl_toolbox_mcp(place->toolbox, 0, &view));
    CHECK_EQUAL(view.entry->source, BL_MCP_OF_CLIENT);
    CHECK(!bl_toolbox_mcp(place->toolbox, 1, &view));
    bl_workspace_close(place);
}

static void M20_brought_servers_replace_those_of_the_same_name(void **state)
{
    (void)state;
    stage_file(".mcp.json",
               "{\"mcpServers\":{\"given\":{\"command\":\"touch\",\"args\":[\"begun\"]}}}");
    WITH(look_at_servers, .provider = "script", .mode = BL_PERMISSION_AUTO);
    assert_false(stage_exists(stage_path("work/begun")));
}

SUITE(runtime, STAGED(each_folder_has_its_own_configuration_and_rules),
      STAGED(M13_a_wider_mode_than_belay_has_is_refused),
      STAGED(mode_is_the_chosen_one_else_the_users_else_the_default),
      STAGED(without_a_key_a_workspace_opens_and_only_a_call_fails),
      STAGED(models_are_listed_and_can_be_asked_for), STAGED(the_smaller_of_two_budgets_counts),
      STAGED(folder_that_does_not_exist_is_refused),
      STAGED(M20_brought_servers_replace_those_of_the_same_name));
