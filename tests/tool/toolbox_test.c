#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"

static int misfits(void *argument)
{
    static const char *const inputs[] = {
        "{\"command\":12}",
        "{\"command\":\"\"}",
        "{\"command\":\"touch ran\",\"timeout_ms\":0}",
        "{\"command\":\"touch ran\",\"timeout_ms\":-5}",
        "{\"command\":\"touch ran\",\"timeout_ms\":1.5}",
        "{\"command\":\"touch ran\",\"timeout_ms\":\"5\"}",
        "{\"command\":\"touch ran\",\"background\":1}",
        "{\"job\":1}",
        "{\"job\":\"\"}",
        "{\"job\":\"job_1\",\"stop\":\"yes\"}",
        "{\"a\":1,\"command\":\"true\"}",
    };
    static struct box box;
    struct bl_arena arena;
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    bl_arena_init(&arena);
    /* Without MCP servers there is nothing to refresh. */
    bl_toolbox_refresh(box.toolbox);
    CHECK_EQUAL(bl_toolbox_tools(box.toolbox)->offer_count, TOOL_COUNT);
    const struct bl_tool_offer *offer = bl_toolbox_tools(box.toolbox)->offers;
    for (size_t i = 0; i < BL_COUNT(inputs); i++) {
        const struct bl_json *input;
        struct bl_list problems;
        CHECK_EQUAL(bl_json_read(&arena, bl_text_from(inputs[i]), NULL, &input, NULL), 0);
        if (!CHECK(bl_json_schema_check(offer->compiled, input, &arena, &problems) != 0))
            fprintf(stderr, "%s\n", inputs[i]);
    }
    bl_arena_done(&arena);
    box_done(&box);
    return 0;
}

static void the_offered_schema_refuses_what_bash_cannot_run(void **state)
{
    (void)state;
    run_in_loop(misfits, NULL);
}

static int refusals(void *argument)
{
    static const struct {
        const char *input, *text;
    } cases[] = {
        {"{\"command\":\"touch ran\\u0000\"}", "contains a NUL"},
        {"{}", "missing 'command' or 'job'"},
        {"{\"stop\":true}", "missing 'command' or 'job'"},
        {"{\"command\":\"touch ran\",\"job\":\"job_1\"}", "are mutually exclusive"},
        {"{\"command\":\"touch ran\",\"stop\":true}", "'stop' requires 'job'"},
        {"{\"job\":\"job_1\",\"timeout_ms\":5}", "require 'command', not 'job'"},
        {"{\"job\":\"job_1\",\"background\":true}", "require 'command', not 'job'"},
    };
    static struct box box;
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        CHECK_EQUAL(box_call(&box, cases[i].input), 0);
        CHECK(box.result.is_error);
        if (!CHECK(strstr(box_text(&box), cases[i].text) != NULL))
            fprintf(stderr, "%s: %s\n", cases[i].input, box_text(&box));
        CHECK_EQUAL(box.heard_bytes, 0);
    }
    CHECK_EQUAL(box_bash(&box, "ls -A", 0), 0);
    CHECK(strcmp(box_text(&box), "") == 0);
    box_done(&box);
    return 0;
}

static void call_with_invalid_input_is_not_run(void **state)
{
    (void)state;
    run_in_loop(refusals, NULL);
}

static int too_long(void *argument)
{
    static struct box box;
    char *command = bl_zalloc(120002);
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    memset(command, ' ', 120001);
    CHECK_EQUAL(box_bash(&box, command, 0), 0);
    CHECK(box.result.is_error);
    CHECK(strstr(box_text(&box), "longer than 120,000 bytes") != NULL);
    memcpy(command, "echo", 4);
    command[120000] = '\0';
    CHECK_EQUAL(box_bash(&box, command, 0), 0);
    CHECK(!box.result.is_error);
    bl_free(command);
    box_done(&box);
    return 0;
}

static void command_beyond_system_limits_is_refused(void **state)
{
    (void)state;
    run_in_loop(too_long, NULL);
}

static int unknown(void *argument)
{
    static struct box box;
    char reason[64];
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    CHECK_EQUAL(box_bash(&box, "touch ran", 0), 0);
    const struct bl_tools *tools = bl_toolbox_tools(box.toolbox);
    box.call.name = "shell";
    CHECK_EQUAL(tools->permit(tools->context, &box.call, reason, sizeof reason), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(tools->call(tools->context, &box.call, &box.result, &box.error), 0);
    CHECK(box.result.is_error);
    CHECK(strcmp(box_text(&box), "Unknown tool 'shell'. Available tools: bash, read, write, edit, "
                                 "glob, grep, ls, todo, fetch") == 0);
    box_done(&box);
    return 0;
}

static void unknown_tool_is_reported_with_the_available_ones(void **state)
{
    (void)state;
    run_in_loop(unknown, NULL);
}

static int permits(void *argument)
{
    static struct box box;
    char reason[256];
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    bl_permissions_free(box.permissions);
    box.options.permissions = box.permissions = bl_permissions_new(BL_PERMISSION_AUTO);
    CHECK_EQUAL(bl_permissions_add(box.permissions, true, "bash(echo *)", NULL), 0);
    box_open(&box);
    CHECK_EQUAL(bl_toolbox_sandbox(box.toolbox), BL_SANDBOX_OFF);
    CHECK(box_permit(&box, "echo x", reason, sizeof reason));
    CHECK(!box_permit(&box, "rm x", reason, sizeof reason));
    CHECK(strstr(reason, "no rule allows 'rm x'; it would run outside a sandbox") != NULL);
    /* Of a long command, 80 bytes are shown. */
    char command[82], expected[128];
    for (size_t size = 80; size <= 81; size++) {
        snprintf(command, sizeof command, "rm %0*d", (int)size - 3, 0);
        snprintf(expected, sizeof expected, "no rule allows '%.80s%s'; ", command,
                 size == 81 ? "…" : "");
        CHECK(!box_permit(&box, command, reason, sizeof reason));
        CHECK(strstr(reason, expected) != NULL);
    }
    box_done(&box);
    return 0;
}

static void a_call_is_permitted_by_its_command(void **state)
{
    (void)state;
    run_in_loop(permits, NULL);
}

static int defaults(void *argument)
{
    static const enum bl_permission_mode modes[] = {BL_PERMISSION_ASK, BL_PERMISSION_AUTO,
                                                    BL_PERMISSION_READ_ONLY, BL_PERMISSION_YOLO};
    static struct box box;
    struct bl_container_check check;
    char reason[256];
    (void)argument;
    bl_sandbox_check(&check);
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        box_init(&box, BL_MECHANISM_NONE);
        bl_permissions_free(box.permissions);
        box.options.permissions = box.permissions = bl_permissions_new(modes[i]);
        box.options.sandbox_chosen = false;
        box_open(&box);
        bool sandboxed = modes[i] == BL_PERMISSION_AUTO && check.available;
        CHECK_EQUAL(bl_toolbox_sandbox(box.toolbox),
                    sandboxed ? BL_SANDBOX_WORKSPACE : BL_SANDBOX_OFF);
        CHECK_EQUAL(box_permit(&box, "ls", reason, sizeof reason),
                    sandboxed || modes[i] == BL_PERMISSION_YOLO);
        box_done(&box);
    }
    return 0;
}

static void mode_auto_has_a_sandbox_where_the_machine_has_one(void **state)
{
    (void)state;
    run_in_loop(defaults, NULL);
}

static int unavailable(void *argument)
{
    static struct box box;
    char reason[256];
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box.options.sandbox = BL_SANDBOX_WORKSPACE;
    CHECK_EQUAL(bl_toolbox_new(&box.options, &box.toolbox, &box.error), BL_ENOTSUP);
    CHECK(strstr(box.error.message, "the sandbox is not available") != NULL);
    CHECK(box.error.hint[0] != '\0');
    /* If it was not requested there is none, and calls that need it are refused. */
    bl_permissions_free(box.permissions);
    box.options.permissions = box.permissions = bl_permissions_new(BL_PERMISSION_AUTO);
    box.options.sandbox_chosen = false;
    box_open(&box);
    CHECK_EQUAL(bl_toolbox_sandbox(box.toolbox), BL_SANDBOX_OFF);
    CHECK(!box_permit(&box, "make", reason, sizeof reason));
    CHECK(strcmp(reason, "it would run outside a sandbox") == 0);
    box_done(&box);
    return 0;
}

/* Runs in its own process, because the machine's sandbox is checked only once. */
int toolbox_role(void)
{
    if (getenv(JOB_ROLE) != NULL)
        return job_role();
    setenv("PATH", "/belay-no-such-folder", 1);
    return run_in_role(unavailable, NULL) == 0 ? 0 : 1;
}

static void a_sandbox_that_was_asked_for_is_never_left_out(void **state)
{
    int status = -1;
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "tool_test", "--role", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int offers(void *argument)
{
    static struct box box;
    struct bl_arena arena = {0};
    const struct bl_json *schema = NULL;
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    const struct bl_tools *tools = bl_toolbox_tools(box.toolbox);
    static const char *const names[] = {"bash", "read", "write", "edit", "glob",
                                        "grep", "ls",   "todo",  "fetch"};
    CHECK_EQUAL(tools->offer_count, BL_COUNT(names));
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        const struct bl_tool_offer *offer = &tools->offers[i];
        CHECK(strcmp(offer->name, names[i]) == 0);
        CHECK(strlen(offer->description) > 40);
        CHECK_EQUAL(bl_json_read(&arena, offer->schema, NULL, &schema, NULL), 0);
        CHECK(bl_json_is(bl_json_get(schema, BL_TEXT("properties")), BL_JSON_OBJECT));
        /* Providers reject schemas that begin with a choice. */
        CHECK(bl_text_equal(bl_json_text(bl_json_get(schema, BL_TEXT("type"))), BL_TEXT("object")));
        CHECK(bl_json_get(schema, BL_TEXT("oneOf")) == NULL);
        CHECK(bl_json_get(schema, BL_TEXT("anyOf")) == NULL);
        CHECK(offer->compiled != NULL);
        CHECK_EQUAL(bl_json_schema_ignored(offer->compiled, 0).size, 0);
        /* Tools that only read may run in parallel. */
        CHECK_EQUAL(offer->parallel, i == 1 || (i >= 4 && i <= 6) || i == 8);
    }
    CHECK(strstr(tools->offers[0].description, "Runs a command with ") != NULL);
    bl_arena_done(&arena);
    box_done(&box);
    return 0;
}

static void each_offered_tool_has_a_schema(void **state)
{
    (void)state;
    run_in_loop(offers, NULL);
}

/* If bash is not in PATH, sh is used, and the description says so. */
static int without_bash(void *argument)
{
    static struct box box;
    char path[4096], command[256];
    const char *old = getenv("PATH");
    char *kept = bl_zalloc(strlen(old) + 1);
    (void)argument;
    memcpy(kept, old, strlen(old));
    box_init(&box, BL_MECHANISM_NONE);
    snprintf(command, sizeof command, "mkdir %s/bin && ln -s /bin/sh %s/bin/sh", box.workspace,
             box.workspace);
    CHECK_EQUAL(system(command), 0);
    snprintf(path, sizeof path, "%s/bin", box.workspace);
    setenv("PATH", path, 1);
    box_open(&box);
    CHECK(strstr(bl_toolbox_tools(box.toolbox)->offers[0].description,
                 "bash is not installed here") != NULL);
    CHECK_EQUAL(box_bash(&box, "echo $0", 0), 0);
    CHECK(strcmp(box_text(&box), "sh\n") == 0);
    setenv("PATH", kept, 1);
    bl_free(kept);
    box_done(&box);
    return 0;
}

static void sh_is_used_without_bash(void **state)
{
    (void)state;
    run_in_loop(without_bash, NULL);
}

/* ---- Paths and permissions ---- */

/* Opens a box in that mode, with two rules at most, as in permission_test.c. */
static void open_with(struct box *box, enum bl_permission_mode mode, const char *const *rules)
{
    box_init(box, BL_MECHANISM_NONE);
    bl_permissions_free(box->permissions);
    box->options.permissions = box->permissions = bl_permissions_new(mode);
    for (; *rules != NULL; rules++)
        CHECK_EQUAL(bl_permissions_add(box->permissions, (*rules)[0] == '+', *rules + 1, NULL), 0);
    box_open(box);
}

#define RULES(...)          ((const char *const[]){__VA_ARGS__, NULL})
#define DECIDE(tool, input) box_decide(&box, tool, input, reason, sizeof reason)

static int path_rules(void *argument)
{
    static struct box box;
    char reason[256];
    (void)argument;
    open_with(&box, BL_PERMISSION_ASK,
              RULES("+write(src/**)", "-read(.env)", "-read(keys/*)", "-*(vault/**)"));
    CHECK_EQUAL(box_bash(&box,
                         "mkdir src keys vault; echo k > .env; ln -s .env innocent; "
                         "ln -s .. src/up; ln -s src alias",
                         0),
                0);
#define WRITE(path) DECIDE("write", "{\"path\":\"" path "\",\"content\":\"x\"}")
    CHECK_EQUAL(WRITE("src/new.c"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(WRITE("alias/new.c"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(WRITE("./src/../src/new.c"), BL_PERMIT_ALLOWED);
    /* A path that leads out of the folder by its name, or through a link, is not in it. */
    CHECK_EQUAL(WRITE("src/../new.c"), BL_PERMIT_ASK);
    CHECK(strcmp(reason, "Allow write to new.c? (no rule allows 'new.c')") == 0);
    CHECK_EQUAL(WRITE("src/up/new.c"), BL_PERMIT_ASK);
    CHECK_EQUAL(WRITE("vault/x"), BL_PERMIT_DENIED);
    CHECK(strcmp(reason, "denied by rule '*(vault/**)'") == 0);
    /* A path that leads out of the workspace is not used: the result says why. */
    CHECK_EQUAL(WRITE("/etc/passwd"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(box_use(&box, "write", "{\"path\":\"/belay-no\",\"content\":\"x\"}"), 0);
    CHECK(box.result.is_error);
    CHECK_EQUAL(access("/belay-no", F_OK), -1);
#undef WRITE
    CHECK_EQUAL(DECIDE("read", "{\"path\":\"src/a.c\"}"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(DECIDE("read", "{\"path\":\".env\"}"), BL_PERMIT_DENIED);
    CHECK_EQUAL(DECIDE("read", "{\"path\":\"innocent\"}"), BL_PERMIT_DENIED);
    CHECK_EQUAL(DECIDE("read", "{\"path\":\"src/up/.env\"}"), BL_PERMIT_DENIED);
    CHECK_EQUAL(DECIDE("grep", "{\"pattern\":\"k\",\"path\":\".env\"}"), BL_PERMIT_DENIED);
    CHECK_EQUAL(DECIDE("grep", "{\"pattern\":\"k\"}"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(DECIDE("ls", "{}"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(DECIDE("ls", "{\"path\":\"vault\"}"), BL_PERMIT_DENIED);
    CHECK_EQUAL(DECIDE("edit", "{\"path\":\".env\",\"old_string\":\"a\",\"new_string\":\"b\"}"),
                BL_PERMIT_DENIED);
    CHECK_EQUAL(DECIDE("todo", "{\"todos\":[]}"), BL_PERMIT_ALLOWED);
    box_done(&box);
    return 0;
}

static void rules_apply_to_the_resolved_path(void **state)
{
    (void)state;
    run_in_loop(path_rules, NULL);
}

static int path_modes(void *argument)
{
    static const struct {
        enum bl_permission_mode mode;
        enum bl_permit permit;
    } cases[] = {{BL_PERMISSION_ASK, BL_PERMIT_ASK},
                 {BL_PERMISSION_AUTO, BL_PERMIT_ALLOWED},
                 {BL_PERMISSION_READ_ONLY, BL_PERMIT_DENIED},
                 {BL_PERMISSION_YOLO, BL_PERMIT_ALLOWED}};
    static struct box box;
    char reason[256];
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        open_with(&box, cases[i].mode, RULES(NULL));
        CHECK_EQUAL(DECIDE("write", "{\"path\":\"a\",\"content\":\"x\"}"), cases[i].permit);
        CHECK_EQUAL(DECIDE("read", "{\"path\":\"a\"}"), BL_PERMIT_ALLOWED);
        CHECK_EQUAL(DECIDE("todo", "{\"todos\":[]}"), BL_PERMIT_ALLOWED);
        /* A remembered answer is a rule from now on. */
        if (cases[i].permit == BL_PERMIT_ASK) {
            CHECK_EQUAL(bl_permissions_add(box.permissions, true, "write(a)", NULL), 0);
            CHECK_EQUAL(DECIDE("write", "{\"path\":\"a\",\"content\":\"x\"}"), BL_PERMIT_ALLOWED);
        }
        box_done(&box);
    }
    return 0;
}

static void calls_within_the_workspace_run_in_mode_auto(void **state)
{
    (void)state;
    run_in_loop(path_modes, NULL);
}

static void needs_sandbox(void)
{
    struct bl_container_check check;
    bl_sandbox_check(&check);
    if (!check.available) {
        print_message("no sandbox: %s\n", check.detail);
        suite_skip("no sandbox");
    }
}

static int read_only(void *argument)
{
    static struct box box;
    char reason[256];
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box.options.sandbox = BL_SANDBOX_READ_ONLY;
    box_open(&box);
    CHECK_EQUAL(DECIDE("write", "{\"path\":\"a\",\"content\":\"x\"}"), BL_PERMIT_DENIED);
    CHECK(strcmp(reason, "the sandbox is read-only") == 0);
    CHECK_EQUAL(DECIDE("read", "{\"path\":\"a\"}"), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(DECIDE("bash", "{\"command\":\"ls\"}"), BL_PERMIT_ALLOWED);
    box_done(&box);
    return 0;
}

static void in_a_read_only_sandbox_no_tool_changes_a_file(void **state)
{
    (void)state;
    needs_sandbox();
    run_in_loop(read_only, NULL);
}

static int further_folders(void *argument)
{
    static struct box box, other;
    char command[256];
    (void)argument;
    box_init(&other, BL_MECHANISM_NONE);
    box_init(&box, BL_MECHANISM_NONE);
    box.options.sandbox = BL_SANDBOX_WORKSPACE;
    box.options.folders = RULES(other.workspace);
    box_open(&box);
    snprintf(command, sizeof command, "echo x > %s/file && cat %s/file", other.workspace,
             other.workspace);
    CHECK_EQUAL(box_bash(&box, command, 0), 0);
    CHECK(strcmp(box_text(&box), "x\n") == 0);
    snprintf(command, sizeof command, "{\"path\":\"%s/file\"}", other.workspace);
    CHECK_EQUAL(box_use(&box, "read", command), 0);
    CHECK(!box.result.is_error);
    box_done(&box);
    box_done(&other);
    return 0;
}

static void added_folders_are_writable_in_the_sandbox(void **state)
{
    (void)state;
    needs_sandbox();
    run_in_loop(further_folders, NULL);
}

static int variables(void *argument)
{
    static struct box box;
    (void)argument;
    setenv("ACME_API_KEY", "s3cr3t-1", 1);
    setenv("GITHUB_TOKEN", "s3cr3t-2", 1);
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    bl_toolbox_allow_variables(box.toolbox, RULES("GITHUB_TOKEN"));
    CHECK_EQUAL(box_bash(&box, "echo \"$ACME_API_KEY-$GITHUB_TOKEN\"", 0), 0);
    CHECK(strcmp(box_text(&box), "-s3cr3t-2\n") == 0);
    box_done(&box);
    unsetenv("ACME_API_KEY");
    unsetenv("GITHUB_TOKEN");
    return 0;
}

static void a_variable_that_is_allowed_reaches_commands(void **state)
{
    (void)state;
    run_in_loop(variables, NULL);
}

/* ---- Rules for remembered answers ---- */

static int remembered(void *argument)
{
    static const struct {
        const char *tool, *input, *rule;
    } cases[] = {
        {"bash", "{\"command\":\"git commit -m 'x; y'\"}", "bash(git commit *)"},
        {"bash", "{\"command\":\"make\"}", "bash(make *)"},
        {"bash", "{\"command\":\"echo $(ls)\"}", ""},
        {"bash", "{\"command\":\"git add . && git commit\"}", ""},
        {"bash", "{\"command\":\"rm -rf build\",\"background\":true}", "bash(rm -rf build)"},
        {"bash", "{\"job\":\"job_1\"}", ""},
        {"bash", "{}", ""},
        {"write", "{\"path\":\"./src/../a.c\",\"content\":\"\"}", "write(a.c)"},
        {"edit", "{\"path\":\"a.c\",\"old_string\":\"a\",\"new_string\":\"b\"}", "edit(a.c)"},
        {"write", "{\"path\":\"a*.c\",\"content\":\"\"}", ""},
        {"write", "{\"path\":\" a\",\"content\":\"\"}", ""},
        {"write", "{\"path\":\"/etc/passwd\",\"content\":\"\"}", ""},
        {"todo", "{\"todos\":[]}", "todo"},
        {"shell", "{}", ""},
    };
    static struct box box;
    char reason[256];
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        open_with(&box, BL_PERMISSION_ASK, RULES(NULL));
        CHECK_EQUAL(box_bash(&box, "mkdir src; touch a.c", 0), 0);
        const char *rule = box_rule(&box, cases[i].tool, cases[i].input);
        if (!CHECK(strcmp(rule, cases[i].rule) == 0))
            fprintf(stderr, "%s: '%s'\n", cases[i].input, rule);
        /* It allows the call it was created for. */
        if (rule[0] != '\0') {
            CHECK_EQUAL(bl_permissions_add(box.permissions, true, rule, NULL), 0);
            CHECK_EQUAL(DECIDE(cases[i].tool, cases[i].input), BL_PERMIT_ALLOWED);
        }
        box_done(&box);
    }
    return 0;
}

static void always_means_calls_like_this_one(void **state)
{
    (void)state;
    run_in_loop(remembered, NULL);
}

static void unknown_tool_name_is_refused_with_a_suggestion(void **state)
{
    static const char *const known[] = {"bash", "r*", "*", "mcp__server__tool", "mcp__server__*"};
    struct bl_error error = {0};
    (void)state;
    for (size_t i = 0; i < BL_COUNT(known); i++)
        assert_int_equal(bl_tool_name_check(known[i], NULL), 0);
    assert_int_equal(bl_tool_name_check("Bsh", &error), BL_EINVAL);
    assert_string_equal(error.message, "unknown tool 'Bsh'");
    assert_string_equal(error.hint, "did you mean 'bash'?");
    assert_string_equal(error.name, "unknown_tool");
}

SUITE(toolbox, cmocka_unit_test(the_offered_schema_refuses_what_bash_cannot_run),
      cmocka_unit_test(call_with_invalid_input_is_not_run),
      cmocka_unit_test(command_beyond_system_limits_is_refused),
      cmocka_unit_test(unknown_tool_is_reported_with_the_available_ones),
      cmocka_unit_test(a_call_is_permitted_by_its_command),
      cmocka_unit_test(mode_auto_has_a_sandbox_where_the_machine_has_one),
      cmocka_unit_test(a_sandbox_that_was_asked_for_is_never_left_out),
      cmocka_unit_test(each_offered_tool_has_a_schema), cmocka_unit_test(sh_is_used_without_bash),
      cmocka_unit_test(rules_apply_to_the_resolved_path),
      cmocka_unit_test(calls_within_the_workspace_run_in_mode_auto),
      cmocka_unit_test(in_a_read_only_sandbox_no_tool_changes_a_file),
      cmocka_unit_test(added_folders_are_writable_in_the_sandbox),
      cmocka_unit_test(a_variable_that_is_allowed_reaches_commands),
      cmocka_unit_test(always_means_calls_like_this_one),
      cmocka_unit_test(unknown_tool_name_is_refused_with_a_suggestion));
