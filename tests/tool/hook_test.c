/* Hooks, with real commands. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "box.h"

#define SOON_MS 5000.0

/* Hooks in a box's workspace, with its marker in their environment, and their warnings. */
struct place {
    struct box box;
    struct bl_hooks *hooks;
    struct bl_hook_run run;
    struct bl_text reason;
    struct bl_text warning; /* the last one */
    unsigned warnings;
};

static void note_warning(void *context, struct bl_text message)
{
    struct place *place = context;
    CHECK(bl_utf8_valid(message));
    place->warning = message;
    place->warnings++;
}

/* Static, because it is large. */
static struct place *open_place(void)
{
    static struct place place;
    memset(&place, 0, sizeof place);
    box_init(&place.box, BL_MECHANISM_NONE);
    place.hooks = bl_hooks_new();
    place.run = (struct bl_hook_run){.hooks = place.hooks,
                                     .when = BL_HOOK_BEFORE_TOOL,
                                     .tool = "bash",
                                     .id = "call_1",
                                     .event = BL_TEXT("{\"type\":\"tool_requested\"}"),
                                     .directory = place.box.workspace,
                                     .arena = &place.box.arena,
                                     .warn = note_warning,
                                     .context = &place};
    return &place;
}

static void close_place(struct place *place)
{
    bl_hooks_free(place->hooks);
    box_done(&place->box);
}

static void add(struct place *place, const char *command)
{
    bl_hooks_add(place->hooks, place->run.when, NULL, command, 0);
}

static int run(struct place *place)
{
    place->reason = place->warning = (struct bl_text){0};
    place->warnings = 0;
    struct bl_scope *outer = bl_scope_enter(&place->box.scope);
    int code = bl_hooks_run(&place->run, &place->reason);
    bl_scope_enter(outer);
    CHECK_EQUAL(marker_count(place->box.marker), 0);
    return code;
}

/* Runs a single hook. */
static int run_one(struct place *place, const char *command)
{
    bl_hooks_free(place->hooks);
    place->run.hooks = place->hooks = bl_hooks_new();
    add(place, command);
    return run(place);
}

static bool file_is(const struct place *place, const char *name, struct bl_text expected)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%.64s", place->box.workspace, name);
    struct bl_buffer text;
    const char *why;
    int code = bl_file_load(path, 8 << 20, &text, &why);
    bool same = code == 0 && bl_text_equal(bl_buffer_text(&text), expected);
    bl_buffer_done(&text);
    return same;
}

#define IN_LOOP(name, body)                                                                        \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(body, NULL);                                                                   \
    }

static int gets_event(void *argument)
{
    struct place *place = open_place();
    (void)argument;
    CHECK_EQUAL(run_one(place, "cat > got"), 0);
    CHECK(file_is(place, "got", place->run.event));
    CHECK_EQUAL(run_one(place, "pwd > where; read -r line; printf %s \"$line\" > got"), 0);
    CHECK(file_is(place, "got", place->run.event));
    /* Much more than a pipe holds. */
    size_t size = 3 << 20;
    char *much = bl_alloc(size);
    memset(much, 'x', size);
    place->run.event = (struct bl_text){much, size};
    CHECK_EQUAL(run_one(place, "cat > got"), 0);
    CHECK(file_is(place, "got", place->run.event));
    /* A hook that does not read its input delays nothing. */
    CHECK_EQUAL(run_one(place, "true"), 0);
    CHECK_EQUAL(run_one(place, "exec 0<&-; true"), 0);
    CHECK_EQUAL(run_one(place, "head -c 10 > got"), 0);
    CHECK(file_is(place, "got", BL_TEXT("xxxxxxxxxx")));
    CHECK_EQUAL(place->warnings, 0);
    bl_free(much);
    close_place(place);
    return 0;
}

IN_LOOP(each_hook_gets_the_event_as_json_on_standard_input, gets_event)

static int refuses(void *argument)
{
    struct place *place = open_place();
    (void)argument;
    CHECK_EQUAL(run_one(place, "echo not this; echo no pushing on Fridays >&2; exit 2"), BL_EACCES);
    CHECK(bl_text_equal(place->reason, BL_TEXT("no pushing on Fridays")));
    /* The following hooks do not run. */
    add(place, "touch ran");
    CHECK_EQUAL(run(place), BL_EACCES);
    CHECK(!file_is(place, "ran", (struct bl_text){0}));
    CHECK_EQUAL(run_one(place, "exit 2"), BL_EACCES);
    CHECK(bl_text_equal(place->reason, BL_TEXT("refused by hook 'exit 2'")));
    CHECK_EQUAL(run_one(place, "head -c 500000 /dev/urandom >&2; exit 2"), BL_EACCES);
    CHECK(bl_utf8_valid(place->reason));
    CHECK(place->reason.size > 1000 && place->reason.size < 8192);
    CHECK_EQUAL(place->warnings, 0);
    close_place(place);
    return 0;
}

IN_LOOP(exit_2_before_a_tool_refuses_it_and_standard_error_is_the_reason, refuses)

static int warns(void *argument)
{
    static const struct {
        const char *command, *warning;
    } cases[] = {
        {"exit 1", "hook 'exit 1': exit code 1"},
        {"echo ignored; echo why >&2; exit 3",
         "hook 'echo ignored; echo why >&2; exit 3': exit code 3: why"},
        {"kill -TERM $$", "hook 'kill -TERM $$': killed by SIGTERM"},
        {"belay-no-such-program 2> /dev/null",
         "hook 'belay-no-such-program 2> /dev/null': exit code 127"},
    };
    struct place *place = open_place();
    (void)argument;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        CHECK_EQUAL(run_one(place, cases[i].command), 0);
        CHECK_EQUAL(place->warnings, 1);
        if (!CHECK(bl_text_equal(place->warning, bl_text_from(cases[i].warning))))
            fprintf(stderr, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(place->warning));
    }
    /* The next hook still runs, and there need not be a callback. */
    add(place, "touch ran");
    CHECK_EQUAL(run(place), 0);
    CHECK(file_is(place, "ran", (struct bl_text){0}));
    place->run.warn = NULL;
    CHECK_EQUAL(run(place), 0);
    place->run.warn = note_warning;
    /* Only a hook before a tool can refuse. */
    place->run.when = BL_HOOK_AFTER_TOOL;
    CHECK_EQUAL(run_one(place, "exit 2"), 0);
    CHECK(bl_text_equal(place->warning, BL_TEXT("hook 'exit 2': exit code 2")));
    place->run.directory = "/belay-no-such-folder";
    CHECK_EQUAL(run_one(place, "true"), 0);
    CHECK(bl_text_find(place->warning, BL_TEXT("cannot start: cannot enter the directory")) > 0);
    /* If its event cannot be written, the hook does not run. */
    struct rlimit before;
    CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &before), 0);
    sighandler_t handler = signal(SIGXFSZ, SIG_IGN);
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, before.rlim_max}), 0);
    int code = run_one(place, "true");
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    CHECK_EQUAL(code, 0);
    CHECK(bl_text_find(place->warning, BL_TEXT("cannot start: cannot create its input")) > 0);
    close_place(place);
    return 0;
}

IN_LOOP(other_hook_failures_only_warn, warns)

static int chosen(void *argument)
{
    struct place *place = open_place();
    (void)argument;
    bl_hooks_add(place->hooks, BL_HOOK_BEFORE_TOOL, "bash", "printf 1 >> ran", 0);
    bl_hooks_add(place->hooks, BL_HOOK_BEFORE_TOOL, "mcp__*", "printf 2 >> ran", 0);
    bl_hooks_add(place->hooks, BL_HOOK_AFTER_TOOL, "bash", "printf 3 >> ran", 0);
    bl_hooks_add(place->hooks, BL_HOOK_BEFORE_TOOL, NULL, "printf 4 >> ran", 0);
    bl_hooks_add(place->hooks, BL_HOOK_TURN_END, "bash", "printf 5 >> ran", 0);
    CHECK_EQUAL(run(place), 0);
    CHECK(file_is(place, "ran", BL_TEXT("14")));
    place->run.tool = "mcp__files__read";
    CHECK_EQUAL(run(place), 0);
    CHECK(file_is(place, "ran", BL_TEXT("1424")));
    place->run.when = BL_HOOK_AFTER_TOOL;
    CHECK_EQUAL(run(place), 0);
    place->run.when = BL_HOOK_TURN_START;
    place->run.tool = NULL;
    CHECK_EQUAL(run(place), 0);
    CHECK(file_is(place, "ran", BL_TEXT("1424")));
    place->run.when = BL_HOOK_TURN_END;
    CHECK_EQUAL(run(place), 0);
    CHECK(file_is(place, "ran", BL_TEXT("14245")));
    CHECK(bl_hooks_any(place->hooks, BL_HOOK_AFTER_TOOL));
    CHECK(!bl_hooks_any(place->hooks, BL_HOOK_STOP) && !bl_hooks_any(NULL, BL_HOOK_STOP));
    place->run.hooks = NULL;
    CHECK_EQUAL(run(place), 0);
    close_place(place);
    return 0;
}

IN_LOOP(hooks_are_selected_by_moment_and_tool_pattern, chosen)

static int hangs(void *argument)
{
    struct place *place = open_place();
    (void)argument;
    bl_hooks_add(place->hooks, BL_HOOK_BEFORE_TOOL, NULL,
                 "echo waiting >&2; setsid sleep 300 & sleep 301", 300 * MS);
    add(place, "touch ran");
    double start_ms = now_ms();
    CHECK_EQUAL(run(place), 0);
    CHECK(now_ms() - start_ms < SOON_MS);
    CHECK_EQUAL(place->warnings, 1);
    CHECK(bl_text_equal(place->warning,
                        BL_TEXT("hook 'echo waiting >&2; setsid sleep 300 & sleep 301': timed out "
                                "after 300 ms: waiting")));
    CHECK(file_is(place, "ran", (struct bl_text){0}));
    CHECK(!bl_scope_stopped(&place->box.scope));
    /* Processes that it leaves behind are stopped with it. */
    CHECK_EQUAL(run_one(place, "setsid sleep 300 > /dev/null 2>&1 & exit 0"), 0);
    CHECK_EQUAL(place->warnings, 0);
    CHECK_EQUAL(BL_HOOK_NS_DEFAULT, 10 * BL_NS_PER_S);
    close_place(place);
    return 0;
}

IN_LOOP(hanging_hook_ends_at_its_deadline, hangs)

static int stop_when_ready(void *argument)
{
    struct place *place = argument;
    while (!file_is(place, "ready", BL_TEXT("x")))
        bl_sleep(5 * MS);
    bl_scope_stop(&place->box.scope, BL_STOP_USER, "test");
    return 0;
}

static int stopped(void *argument)
{
    struct place *place = open_place();
    struct bl_nursery nursery;
    struct bl_buffer text;
    struct bl_json_writer writer;
    (void)argument;
    add(place, "setsid sleep 300 & printf x > ready; sleep 301");
    add(place, "touch ran");
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stop", stop_when_ready, place, NULL), 0);
    double start_ms = now_ms();
    CHECK_EQUAL(run(place), BL_ECANCELED);
    CHECK(now_ms() - start_ms < SOON_MS);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(place->warnings, 0);
    CHECK(!file_is(place, "ran", (struct bl_text){0}));
    CHECK(bl_receipt_ready(&place->box.receipt));
    bl_buffer_init(&text, 65536);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&place->box.receipt, &writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    CHECK(bl_text_find(bl_buffer_text(&text), BL_TEXT("\"units\":[{\"kind\":\"command\",\"id\":"
                                                      "\"call_1\",\"name\":\"hook\",\"fate\":"
                                                      "\"aborted\"")) > 0);
    bl_buffer_done(&text);
    /* No hook starts afterwards. */
    CHECK_EQUAL(run_one(place, "touch ran"), BL_ECANCELED);
    CHECK(!file_is(place, "ran", (struct bl_text){0}));
    close_place(place);
    return 0;
}

IN_LOOP(a_stop_ends_a_running_hook, stopped)

static int secrets(void *argument)
{
    struct place *place = open_place();
    (void)argument;
    setenv("ACME_API_KEY", "s3cr3t-1", 1);
    setenv("GITHUB_TOKEN", "s3cr3t-2", 1);
    setenv("ACME_PLACE", "s3cr3t-3", 1);
    place->run.hidden = (const char *const[]){"ACME_PLACE", NULL};
    CHECK_EQUAL(run_one(place, "printf %s \"$ACME_API_KEY$GITHUB_TOKEN$ACME_PLACE\" > got"), 0);
    CHECK(file_is(place, "got", (struct bl_text){0}));
    place->run.allowed = (const char *const[]){"GITHUB_TOKEN", NULL};
    CHECK_EQUAL(run_one(place, "printf %s \"$ACME_API_KEY$GITHUB_TOKEN$ACME_PLACE\" > got"), 0);
    CHECK(file_is(place, "got", BL_TEXT("s3cr3t-2")));
    unsetenv("ACME_API_KEY");
    unsetenv("GITHUB_TOKEN");
    unsetenv("ACME_PLACE");
    close_place(place);
    return 0;
}

IN_LOOP(secrets_do_not_reach_a_hook, secrets)

SUITE(hook, cmocka_unit_test(each_hook_gets_the_event_as_json_on_standard_input),
      cmocka_unit_test(exit_2_before_a_tool_refuses_it_and_standard_error_is_the_reason),
      cmocka_unit_test(other_hook_failures_only_warn),
      cmocka_unit_test(hooks_are_selected_by_moment_and_tool_pattern),
      cmocka_unit_test(hanging_hook_ends_at_its_deadline),
      cmocka_unit_test(a_stop_ends_a_running_hook), cmocka_unit_test(secrets_do_not_reach_a_hook));
