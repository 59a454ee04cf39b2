#include "stage.h"

#include <stdio.h>
#include <stdlib.h>

/* The user's environment: variables that redirect git, secrets, and a configuration. */
static const char *const variables[][2] = {
    {"GIT_CONFIG_COUNT", "10"},
    {"GIT_CONFIG_KEY_0", "alias.showenv"},
    {"GIT_CONFIG_VALUE_0", "!env"},
    {"GIT_CONFIG_KEY_1", "alias.speak"},
    {"GIT_CONFIG_VALUE_1", "!echo out; echo words >&2; exit 3; :"},
    {"GIT_CONFIG_KEY_2", "alias.die"},
    {"GIT_CONFIG_VALUE_2", "!kill -9 $PPID"},
    {"GIT_CONFIG_KEY_3", "alias.flood"},
    {"GIT_CONFIG_VALUE_3", "!head -c 67108865 /dev/zero; :"},
    {"GIT_CONFIG_KEY_4", "alias.showinput"},
    {"GIT_CONFIG_VALUE_4", "!readlink /proc/self/fd/0; :"},
    {"GIT_CONFIG_KEY_5", "filter.users.clean"},
    {"GIT_CONFIG_VALUE_5", "other"},
    {"GIT_CONFIG_KEY_6", "filter.users.clean"},
    {"GIT_CONFIG_VALUE_6", "tr a b"},
    {"GIT_CONFIG_KEY_7", "alias.one"},
    {"GIT_CONFIG_VALUE_7", "!printf 1; :"},
    {"GIT_CONFIG_KEY_8", "alias.skip"},
    {"GIT_CONFIG_VALUE_8", "!dd if=/dev/null bs=1 seek=4611686018427387904; :"},
    {"GIT_CONFIG_KEY_9", "alias.hang"},
    {"GIT_CONFIG_VALUE_9", "!touch begun; sleep 60; :"},
    {"GIT_AUTHOR_NAME", "kept"},
    {"GIT_AUTHOR_EMAIL", "kept"},
    {"GIT_COMMITTER_NAME", "kept"},
    {"GIT_COMMITTER_EMAIL", "kept"},
    {"LC_ALL", "/nonexistent"},
    {"LANGUAGE", "/nonexistent"},
    {"SSH_ASKPASS", "/nonexistent/ask"},
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

void stage_play(void (*act)(struct stage *stage))
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

struct bl_git_answer stage_run(struct stage *stage, const char *const *arguments)
{
    struct bl_git_answer answer = {.status = -1};
    CHECK_EQUAL(
        bl_git_run(&stage->git, &stage->arena, &stage->call, arguments, &answer, &stage->error), 0);
    return answer;
}
