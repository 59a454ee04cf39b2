#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"

static int misfits(void *argument)
{
    static const char *const inputs[] = {
        "{}",
        "{\"command\":12}",
        "{\"command\":\"\"}",
        "{\"command\":\"touch ran\",\"timeout_ms\":0}",
        "{\"command\":\"touch ran\",\"timeout_ms\":-5}",
        "{\"command\":\"touch ran\",\"timeout_ms\":1.5}",
        "{\"command\":\"touch ran\",\"timeout_ms\":\"5\"}",
        "{\"command\":\"touch ran\",\"background\":true}",
        "{\"a\":1,\"command\":\"true\"}",
    };
    static struct box box;
    struct bl_arena arena;
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box_open(&box);
    bl_arena_init(&arena);
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
        {"{\"command\":\"touch ran\\u0000\"}", "holds a NUL"},
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

static void an_input_that_does_not_fit_is_not_run(void **state)
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

static void a_command_that_no_system_takes_is_refused(void **state)
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
    CHECK(tools->permit(tools->context, &box.call, reason, sizeof reason));
    CHECK_EQUAL(tools->call(tools->context, &box.call, &box.result, &box.error), 0);
    CHECK(box.result.is_error);
    CHECK(strcmp(box_text(&box), "There is no tool 'shell'. There are: bash") == 0);
    box_done(&box);
    return 0;
}

static void a_tool_that_is_not_there_is_named_with_those_that_are(void **state)
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
    CHECK(strstr(reason, "no rule allows 'rm x'; not in a sandbox here") != NULL);
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
    /* Where nobody asked for it there is none, and what needs it is refused. */
    bl_permissions_free(box.permissions);
    box.options.permissions = box.permissions = bl_permissions_new(BL_PERMISSION_AUTO);
    box.options.sandbox_chosen = false;
    box_open(&box);
    CHECK_EQUAL(bl_toolbox_sandbox(box.toolbox), BL_SANDBOX_OFF);
    CHECK(!box_permit(&box, "make", reason, sizeof reason));
    CHECK(strcmp(reason, "not in a sandbox here: allow it with --allow 'bash(make *)' or --yolo") ==
          0);
    box_done(&box);
    return 0;
}

/* In a process of its own: what the machine has is asked once. */
int toolbox_role(void)
{
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
    CHECK_EQUAL(tools->offer_count, 1);
    CHECK(strcmp(tools->offers[0].name, "bash") == 0);
    CHECK(strstr(tools->offers[0].description, "Runs a command with ") != NULL);
    CHECK_EQUAL(bl_json_read(&arena, tools->offers[0].schema, NULL, &schema, NULL), 0);
    CHECK(bl_json_get(bl_json_get(schema, BL_TEXT("properties")), BL_TEXT("command")) != NULL);
    bl_arena_done(&arena);
    box_done(&box);
    return 0;
}

static void what_is_offered_has_a_schema(void **state)
{
    (void)state;
    run_in_loop(offers, NULL);
}

/* Without bash in PATH it is sh, and the description says so. */
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

static void without_bash_there_is_sh(void **state)
{
    (void)state;
    run_in_loop(without_bash, NULL);
}

SUITE(toolbox, cmocka_unit_test(the_offered_schema_refuses_what_bash_cannot_run),
      cmocka_unit_test(an_input_that_does_not_fit_is_not_run),
      cmocka_unit_test(a_command_that_no_system_takes_is_refused),
      cmocka_unit_test(a_tool_that_is_not_there_is_named_with_those_that_are),
      cmocka_unit_test(a_call_is_permitted_by_its_command),
      cmocka_unit_test(mode_auto_has_a_sandbox_where_the_machine_has_one),
      cmocka_unit_test(a_sandbox_that_was_asked_for_is_never_left_out),
      cmocka_unit_test(what_is_offered_has_a_schema), cmocka_unit_test(without_bash_there_is_sh));
