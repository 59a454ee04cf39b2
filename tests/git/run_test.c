#include "fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <belay/git.h>

struct stage {
    char root[64];
    struct bl_git git;
    struct bl_arena arena;
    struct bl_error error;
    struct bl_git_call call;
    void (*act)(struct stage *stage);
};

/* Of the user's own: what sends git elsewhere, secrets, and a configuration. */
static const char *const variables[][2] = {
    {"GIT_CONFIG_COUNT", "1"},
    {"GIT_CONFIG_KEY_0", "alias.showenv"},
    {"GIT_CONFIG_VALUE_0", "!env"},
    {"GIT_EXTERNAL_DIFF", "/nonexistent/diff"},
    {"GIT_SSH_COMMAND", "/nonexistent/ssh"},
    {"GIT_INDEX_FILE", "/nonexistent/index"},
    {"GIT_OBJECT_DIRECTORY", "/nonexistent/objects"},
    {"GIT_ASKPASS", "/nonexistent/ask"},
    {"SOME_API_KEY", "k"},
    {"SSH_AUTH_SOCK", "/nonexistent/agent"},
    {"PLAIN", "1"},
};

static int stage_main(void *argument)
{
    struct stage *stage = argument;
    for (size_t i = 0; i < BL_COUNT(variables); i++)
        setenv(variables[i][0], variables[i][1], 1);
    bl_git_init(&stage->git);
    for (size_t i = 0; i < BL_COUNT(variables); i++)
        unsetenv(variables[i][0]);
    stage->call = (struct bl_git_call){
        .operation = "try",
        .directory = stage->root,
        .folder = bl_arena_printf(&stage->arena, "%s/.git", stage->root).data,
    };
    stage->act(stage);
    bl_git_done(&stage->git);
    bl_arena_done(&stage->arena);
    return 0;
}

static void play(void (*act)(struct stage *stage))
{
    struct stage stage = {.root = "/tmp/belay-git-XXXXXX", .act = act};
    char command[512];
    assert_non_null(mkdtemp(stage.root));
    snprintf(command, sizeof command,
             "cd %s && git init -q -b main . && git config user.name a && git config user.email "
             "a@example.test && echo x > f && git add f && git commit -qm f",
             stage.root);
    assert_int_equal(system(command), 0);
    run_in_loop(stage_main, &stage);
    snprintf(command, sizeof command, "rm -rf %s", stage.root);
    assert_int_equal(system(command), 0);
}

static struct bl_git_answer run(struct stage *stage, const char *const *arguments)
{
    struct bl_git_answer answer = {.status = -1};
    CHECK_EQUAL(
        bl_git_run(&stage->git, &stage->arena, &stage->call, arguments, &answer, &stage->error), 0);
    return answer;
}

static bool holds(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

static void look_at_environment(struct stage *stage)
{
    struct bl_git_answer answer = run(stage, BL_GIT_ARGUMENTS("showenv"));
    CHECK_EQUAL(answer.status, 0);
    CHECK(holds(answer.output, "GIT_ALLOW_PROTOCOL=none\n"));
    CHECK(holds(answer.output, "GIT_TERMINAL_PROMPT=0\n"));
    CHECK(holds(answer.output, "PLAIN=1\n"));
    CHECK(!holds(answer.output, "SOME_API_KEY"));
    CHECK(!holds(answer.output, "SSH_AUTH_SOCK"));
    CHECK(!holds(answer.output, "/nonexistent"));
}

static void programs_get_no_secrets_and_no_other_repository(void **state)
{
    (void)state;
    play(look_at_environment);
}

static void look_at_variables(struct stage *stage)
{
    CHECK(bl_git_variable_has(&stage->git, "PLAIN"));
    CHECK(!bl_git_variable_has(&stage->git, "PLAI"));
    bl_git_variable_set(&stage->git, "PLAIN", "2");
    bl_git_variable_set(&stage->git, "MORE", "3");
    struct bl_git_answer answer = run(stage, BL_GIT_ARGUMENTS("showenv"));
    CHECK(holds(answer.output, "PLAIN=2\n") && !holds(answer.output, "PLAIN=1\n"));
    CHECK(holds(answer.output, "MORE=3\n"));
}

static void variables_are_set_for_what_follows(void **state)
{
    (void)state;
    play(look_at_variables);
}

static void look_at_network(struct stage *stage)
{
    struct bl_git_answer answer = run(stage, BL_GIT_ARGUMENTS("ls-remote", stage->root));
    CHECK(answer.status != 0);
    CHECK(holds(answer.words, "not allowed"));
}

static void no_transport_is_allowed(void **state)
{
    (void)state;
    play(look_at_network);
}

/* The configuration is listed once, and again when it has changed. */
static void look_at_listing(struct stage *stage)
{
    char command[256];
    bl_sleep(30 * BL_NS_PER_MS);
    run(stage, BL_GIT_ARGUMENTS("status"));
    uint64_t before = stage->git.programs;
    run(stage, BL_GIT_ARGUMENTS("status"));
    CHECK_EQUAL(stage->git.programs - before, 1);
    snprintf(command, sizeof command, "git -C %s config user.name b", stage->root);
    CHECK_EQUAL(system(command), 0);
    bl_sleep(30 * BL_NS_PER_MS);
    before = stage->git.programs;
    run(stage, BL_GIT_ARGUMENTS("status"));
    run(stage, BL_GIT_ARGUMENTS("status"));
    CHECK_EQUAL(stage->git.programs - before, 3);
}

static void a_configuration_is_listed_once_until_it_changes(void **state)
{
    (void)state;
    play(look_at_listing);
}

SUITE(run, cmocka_unit_test(programs_get_no_secrets_and_no_other_repository),
      cmocka_unit_test(variables_are_set_for_what_follows),
      cmocka_unit_test(no_transport_is_allowed),
      cmocka_unit_test(a_configuration_is_listed_once_until_it_changes));
