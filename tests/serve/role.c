/* Other processes that serve: `--role KIND ID`.
 *   idle   one activity that waits to be stopped
 *   bash   one that runs a real command with the tool bash, with the tool's receipt
 *   stuck  one that does not end when it is stopped
 *   finish one that ends by itself when it is stopped, without a receipt
 *   offer  as idle, with a method role.hang that never ends by itself
 *   call   calls test.nap; ID is PID:COUNT, the process and the number of calls */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "place.h"

struct role {
    const char *kind;
    struct bl_activities activities;
    struct bl_activity activity;
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_buffer receipt_json;
};

static struct role role;

static void heard(const struct bl_tool_call *call, struct bl_text bytes)
{
    (void)call, (void)bytes;
    bl_text_into(role.activity.phase, sizeof role.activity.phase, "tool bash");
}

/* As the engine calls it. */
static void run_bash(struct bl_scope *scope)
{
    struct bl_permissions *permissions = bl_permissions_new(BL_PERMISSION_YOLO);
    struct bl_toolbox_options options = {.workspace = "/tmp",
                                         .permissions = permissions,
                                         .sandbox_chosen = true,
                                         .sandbox = BL_SANDBOX_OFF};
    struct bl_toolbox *toolbox = NULL;
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_tool_result result;
    const struct bl_json *input = NULL;
    struct bl_text text = BL_TEXT(
        "{\"command\":\"sleep 300 & setsid sleep 301 & (sleep 302 &); echo ready; sleep 303\"}");
    CHECK_EQUAL(bl_toolbox_new(&options, &toolbox, &error), 0);
    CHECK_EQUAL(bl_json_read(&arena, text, NULL, &input, NULL), 0);
    struct bl_tool_call call = {.id = "call_1",
                                .name = "bash",
                                .input_text = text,
                                .input = input,
                                .scope = scope,
                                .arena = &arena,
                                .output = heard};
    const struct bl_tools *tools = bl_toolbox_tools(toolbox);
    CHECK_EQUAL(tools->call(tools->context, &call, &result, &error), BL_ECANCELED);
    bl_toolbox_free(toolbox);
    bl_permissions_free(permissions);
    bl_arena_done(&arena);
}

static void work(void)
{
    struct bl_scope *outer = bl_scope_enter(&role.scope);
    bl_sleep(0);
    if (strcmp(role.kind, "bash") == 0)
        run_bash(&role.scope);
    else
        bl_sleep(600 * BL_NS_PER_S);
    bl_scope_enter(outer);
    if (strcmp(role.kind, "stuck") == 0)
        bl_sleep(600 * BL_NS_PER_S);
}

static void write_receipt(void)
{
    struct bl_json_writer writer;
    bl_buffer_init(&role.receipt_json, 1 << 20);
    /* The loop passes on the stop in its next turn. */
    bl_yield();
    if (strcmp(role.kind, "finish") == 0)
        return;
    CHECK(bl_receipt_ready(&role.receipt));
    bl_json_writer_init(&writer, &role.receipt_json);
    bl_receipt_write(&role.receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
}

static int hang(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                struct bl_error *error)
{
    (void)context, (void)params, (void)ret_result, (void)error;
    return bl_sleep(600 * BL_NS_PER_S);
}

static int call(void *argument)
{
    struct bl_arena arena = {0};
    char *rest;
    long long pid = strtoll(argument, &rest, 10);
    unsigned long count = strtoul(rest + 1, NULL, 10);
    for (unsigned long i = 0; i < count; i++) {
        struct bl_text result = {0};
        struct bl_error error = {0};
        char params[64];
        snprintf(params, sizeof params, "{\"n\":%lu}", i);
        if (!CHECK_EQUAL(
                bl_control_call(&arena, pid, "test.nap", bl_text_from(params), &result, &error), 0))
            fprintf(stderr, "%s\n", error.message);
        CHECK(bl_text_find(result, bl_text_from(params)) > 0);
        bl_arena_reset(&arena);
    }
    bl_arena_done(&arena);
    return 0;
}

static int serve(void *argument)
{
    static const struct bl_control_offer offer = {"role.hang", hang, NULL};
    struct bl_nursery nursery;
    struct bl_control *control = NULL;
    struct bl_error error = {0};
    bl_activities_init(&role.activities);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_scope_init(&role.scope, bl_scope_current());
    bl_receipt_open(&role.receipt, &role.scope, argument);
    role.activity.kind = "run";
    role.activity.scope = &role.scope;
    snprintf(role.activity.id, sizeof role.activity.id, "%s", (const char *)argument);
    snprintf(role.activity.session, sizeof role.activity.session, "session-of-%s",
             (const char *)argument);
    bl_text_into(role.activity.phase, sizeof role.activity.phase, "model");
    bl_activity_begin(&role.activities, &role.activity);
    if (!CHECK_EQUAL(bl_control_start(&nursery, &role.activities, &control, &error), 0))
        fprintf(stderr, "%s (%s)\n", error.message, error.hint);
    if (strcmp(role.kind, "offer") == 0)
        bl_control_offer(control, &offer);
    work();
    write_receipt();
    bl_activity_end(&role.activity, bl_buffer_text(&role.receipt_json));
    /* At once, as a program with nothing left to do. */
    bl_control_stop(control);
    bl_nursery_done(&nursery);
    bl_buffer_done(&role.receipt_json);
    bl_receipt_close(&role.receipt);
    bl_scope_done(&role.scope);
    return 0;
}

int role_main(int argument_count, char **arguments)
{
    if (argument_count != 4)
        return 2;
    role.kind = arguments[2];
    alarm(120); /* no test takes that long, and a forgotten role ends */
    return run_in_role(strcmp(role.kind, "call") == 0 ? call : serve, arguments[3]) == 0 ? 0 : 1;
}
