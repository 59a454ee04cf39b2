#include <belay/runtime.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fibers.h"
#include "stage.h"

/* ---- Opening a workspace --------------------------------------------------------------------- */

struct opening {
    struct bl_workspace_options options;
    void (*body)(struct bl_workspace *workspace);
    int code;
    struct bl_error error;
};

static int opening_main(void *argument)
{
    struct opening *opening = argument;
    struct bl_workspace *workspace = NULL;

    opening->code = bl_workspace_open(&opening->options, &workspace, &opening->error);
    if (opening->code == 0 && opening->body != NULL)
        opening->body(workspace);
    bl_workspace_close(workspace);
    return 0;
}

static void open_with(struct opening *opening)
{
    opening->options.directory = stage_path("work");
    opening->error = (struct bl_error){0};
    run_in_loop(opening_main, opening);
}

static struct opening opening_of(void (*body)(struct bl_workspace *workspace))
{
    struct opening opening = {.body = body};

    bl_workspace_options_init(&opening.options, NULL);
    opening.options.provider = "script";
    return opening;
}

/* ---- A whole run ----------------------------------------------------------------------------- */

static void prompt_agent(struct bl_workspace *workspace)
{
    struct bl_agent_options options = bl_workspace_agent(workspace);
    struct bl_run_options run = bl_workspace_run(workspace, BL_TEXT("hello"));
    struct bl_agent_result *result = bl_zalloc(sizeof *result);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_scope scope;
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_scope_init(&scope, bl_scope_current());
    CHECK_EQUAL(bl_store_open(stage_path("work/sessions.db"), &options.store, error), 0);
    CHECK_EQUAL(bl_agent_run(&options, &run, &scope, &arena, result, error), 0);
    CHECK_EQUAL(result->run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(result->run.turns_completed, 1);
    bl_scope_done(&scope);
    /* A run without an id from its caller gets one. */
    bl_scope_init(&scope, bl_scope_current());
    run.timed = true;
    CHECK_EQUAL(bl_agent_run(&options, &run, &scope, &arena, result, error), 0);
    CHECK_EQUAL(result->run.end, BL_TURN_TIMEOUT);
    CHECK(bl_text_find(result->run.receipt, BL_TEXT("\"scope\":\"run_")) >= 0);
    bl_store_close(options.store);
    bl_scope_done(&scope);
    bl_arena_done(&arena);
    bl_free(error);
    bl_free(result);
}

static void agent_of_a_workspace_takes_a_prompt(void **state)
{
    struct opening opening = opening_of(prompt_agent);

    (void)state;
    open_with(&opening);
    assert_int_equal(opening.code, 0);
}

/* ---- Options --------------------------------------------------------------------------------- */

static char changing[8];

static void look_at_words(struct bl_workspace *workspace)
{
    bl_text_into(changing, sizeof changing, "other");
    CHECK(strcmp(workspace->options.system_more, "whales") == 0);
    CHECK(bl_text_find(bl_workspace_agent(workspace).system, BL_TEXT("whales")) >= 0);
    CHECK_EQUAL(workspace->warning_count, 0);
}

static void words_of_the_options_are_copied(void **state)
{
    struct opening opening = opening_of(look_at_words);

    (void)state;
    bl_text_into(changing, sizeof changing, "whales");
    opening.options.system_more = changing;
    open_with(&opening);
    assert_int_equal(opening.code, 0);
}

static void wrong_option_is_reported_before_anything_is_opened(void **state)
{
    const char *const rules[] = {"bash(ls", NULL};
    struct opening opening = opening_of(NULL);

    (void)state;
    opening.options.allow = rules;
    open_with(&opening);
    assert_int_equal(opening.code, BL_EINVAL);
    assert_non_null(strstr(opening.error.message, "bash(ls"));
    opening.options.allow = NULL;
    opening.options.schema_path = stage_path("missing.json");
    open_with(&opening);
    assert_int_equal(opening.code, BL_ENOENT);
    assert_non_null(strstr(opening.error.message, "missing.json"));
    opening.options.schema_path = stage_file("schema.json", "{\"type\":\xff}");
    open_with(&opening);
    assert_int_equal(opening.code, BL_EPARSE);
    assert_non_null(strstr(opening.error.message, "not valid UTF-8 from byte 8"));
    opening.options.schema_path = NULL;
    opening.options.record_path = stage_path("record.jsonl");
    open_with(&opening);
    assert_int_equal(opening.code, BL_EINVAL);
    assert_string_equal(opening.error.target, "--record");
    assert_false(stage_exists(stage_path("record.jsonl")));
}

/* ---- A shared project ------------------------------------------------------------------------ */

static void look_at_shared(struct bl_workspace *workspace)
{
    struct bl_text system = bl_workspace_agent(workspace).system;

    CHECK(workspace->project == workspace->options.project);
    CHECK(bl_text_find(system, BL_TEXT("herons")) >= 0);
    CHECK(bl_text_find(system, BL_TEXT("whales")) < 0);
    CHECK(strcmp(workspace->model.provider, "script") == 0);
}

static void shared_project_is_not_read_again(void **state)
{
    struct opening opening = opening_of(look_at_shared);
    struct bl_config_choice choice = {.provider = "script"};
    struct bl_config_found found;
    struct bl_project project;

    (void)state;
    assert_int_equal(mkdir(stage_path("other"), 0700), 0);
    stage_file("AGENTS.md", "Think of whales.\n");
    stage_file("../other/AGENTS.md", "Think of herons.\n");
    bl_project_init(&project);
    assert_int_equal(bl_project_read(&project, stage_path("work"), NULL), 0);
    assert_int_equal(bl_config_find(project.config, &choice, &found, NULL), 0);
    /* Reading the configuration again would fail. */
    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml", "models: [\n");
    opening.options.project = &project;
    opening.options.found = &found;
    opening.options.told_from = stage_path("other");
    open_with(&opening);
    assert_int_equal(opening.code, 0);
    opening.options.project = NULL;
    opening.options.found = NULL;
    open_with(&opening);
    assert_int_equal(opening.code, BL_EPARSE);
    bl_project_done(&project);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

static int stopped_main(void *argument)
{
    struct opening *opening = argument;
    struct bl_scope scope;

    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_time_add(bl_now_ns(), 50 * BL_NS_PER_MS));
    struct bl_scope *outer = bl_scope_enter(&scope);
    opening_main(opening);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    /* The thread still runs: let it end. */
    int fd = open(opening->options.system_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQUAL(unlink(opening->options.system_path), 0);
    close(fd);
    return 0;
}

static void stop_ends_the_wait_for_a_file_that_blocks(void **state)
{
    struct opening opening = opening_of(NULL);

    (void)state;
    opening.options.directory = stage_path("work");
    opening.options.system_path = stage_path("fifo");
    assert_int_equal(mkfifo(opening.options.system_path, 0600), 0);
    run_in_loop(stopped_main, &opening);
    assert_int_equal(opening.code, BL_ETIMEDOUT);
}

SUITE(workspace, STAGED(agent_of_a_workspace_takes_a_prompt),
      STAGED(words_of_the_options_are_copied),
      STAGED(wrong_option_is_reported_before_anything_is_opened),
      STAGED(shared_project_is_not_read_again), STAGED(stop_ends_the_wait_for_a_file_that_blocks));
