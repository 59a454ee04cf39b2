#include "stage.h"

#include <stdio.h>
#include <stdlib.h>

/* Runs `git config` in the repository. */
static void configure(struct stage *stage, const char *arguments)
{
    char command[512];
    snprintf(command, sizeof command, "git -C %s config %s", stage->root, arguments);
    CHECK_EQUAL(system(command), 0);
}

static uint64_t programs_of_status(struct stage *stage)
{
    uint64_t before = stage->git.programs;
    stage_run(stage, BL_GIT_ARGUMENTS("status"));
    return stage->git.programs - before;
}

/* The configuration is listed once, and again after a change. */
static void look_at_listing(struct stage *stage)
{
    bl_sleep(30 * BL_NS_PER_MS);
    CHECK_EQUAL(programs_of_status(stage), 2);
    CHECK_EQUAL(programs_of_status(stage), 1);
    configure(stage, "user.name b");
    bl_sleep(30 * BL_NS_PER_MS);
    CHECK_EQUAL(programs_of_status(stage), 2);
    CHECK_EQUAL(programs_of_status(stage), 1);
}

static void a_configuration_is_listed_once_until_it_changes(void **state)
{
    (void)state;
    stage_play(look_at_listing);
}

static int check(struct stage *stage)
{
    stage->error = (struct bl_error){0};
    return bl_git_check(&stage->git, &stage->arena, &stage->call, &stage->error);
}

static void look_at_foreign(struct stage *stage)
{
    static const struct {
        const char *key, *value;
        bool foreign;
    } rows[] = {
        {"filter.own.clean", "cat", true},
        {"filter.own.smudge", "cat", true},
        {"filter.own.process", "cat", true},
        {"merge.own.driver", "cat", true},
        {"hook.own.command", "cat", true},
        {"filter.a.b.clean", "cat", true},
        {"filter..clean", "cat", true},
        {"merge..driver", "cat", true},
        {"filter.own.clean", "x", true},
        {"filter.own.clean", "''", false},
        {"filter.users.clean", "''", false},
        {"filter.clean", "cat", false},
        {"filter.own.cleaner", "cat", false},
        {"other.own.clean", "cat", false},
        {"user.name", "c", false},
        {"filter.users.clean", "'tr a b'", false},
        {"filter.users.clean", "other", true},
        {"filter.users.smudge", "'tr a b'", true},
    };
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s %s", rows[i].key, rows[i].value);
        configure(stage, arguments);
        CHECK_EQUAL(check(stage), rows[i].foreign ? BL_EREFUSED : 0);
        CHECK((strstr(stage->error.message, rows[i].key) != NULL) == rows[i].foreign);
        CHECK((strstr(stage->error.hint, "git config --global") != NULL) == rows[i].foreign);
        snprintf(arguments, sizeof arguments, "--unset %s", rows[i].key);
        configure(stage, arguments);
    }
}

static void a_program_that_the_users_configuration_lacks_is_refused(void **state)
{
    (void)state;
    stage_play(look_at_foreign);
}

/* The first of several programs is named, and a key without a value is not one. */
static void look_at_several(struct stage *stage)
{
    char command[256];
    configure(stage, "filter.first.clean cat");
    configure(stage, "filter.second.clean cat");
    CHECK_EQUAL(check(stage), BL_EREFUSED);
    CHECK(strstr(stage->error.message, "filter.first.clean") != NULL);
    configure(stage, "--unset filter.first.clean");
    configure(stage, "--unset filter.second.clean");
    snprintf(command, sizeof command, "printf '[filter \"bare\"]\\n\\tclean\\n' >> %s/.git/config",
             stage->root);
    CHECK_EQUAL(system(command), 0);
    CHECK_EQUAL(check(stage), 0);
}

/* A long key is truncated to 200 bytes. */
static void look_at_long_key(struct stage *stage)
{
    char key[320], arguments[512];
    snprintf(key, sizeof key, "filter.%0250d.clean", 0);
    snprintf(arguments, sizeof arguments, "%s cat", key);
    configure(stage, arguments);
    CHECK_EQUAL(check(stage), BL_EREFUSED);
    key[200] = '\0';
    CHECK(strcmp(strstr(stage->error.message, "filter."), key) == 0);
}

static void a_long_key_is_truncated_in_the_message(void **state)
{
    (void)state;
    stage_play(look_at_long_key);
}

static void the_first_foreign_program_is_named(void **state)
{
    (void)state;
    stage_play(look_at_several);
}

static void look_at_broken(struct stage *stage)
{
    char command[256];
    struct bl_git_answer answer;
    snprintf(command, sizeof command, "echo '[broken' >> %s/.git/config", stage->root);
    CHECK_EQUAL(system(command), 0);
    CHECK_EQUAL(bl_git_run(&stage->git, &stage->arena, &stage->call, BL_GIT_ARGUMENTS("version"),
                           &answer, &stage->error),
                BL_ESYSTEM);
    CHECK(strstr(stage->error.message, "bad config") != NULL);
}

static void a_configuration_that_cannot_be_listed_is_an_error(void **state)
{
    (void)state;
    stage_play(look_at_broken);
}

/* The overrides of foreign programs for a call that reads. */
static void look_at_overrides(struct stage *stage)
{
    configure(stage, "filter.own.clean cat");
    configure(stage, "filter.own.required true");
    configure(stage, "filter.users.clean other");
    configure(stage, "merge.own.driver cat");
    CHECK_EQUAL(stage_run(stage, BL_GIT_ARGUMENTS("config", "filter.own.clean")).output.size, 1);
    CHECK(bl_text_equal(stage_run(stage, BL_GIT_ARGUMENTS("config", "filter.own.required")).output,
                        BL_TEXT("false\n")));
    CHECK(bl_text_equal(stage_run(stage, BL_GIT_ARGUMENTS("config", "filter.users.clean")).output,
                        BL_TEXT("tr a b\n")));
    CHECK_EQUAL(stage_run(stage, BL_GIT_ARGUMENTS("config", "filter.users.required")).status, 1);
    CHECK_EQUAL(stage_run(stage, BL_GIT_ARGUMENTS("config", "merge.own.driver")).output.size, 1);
    CHECK_EQUAL(stage_run(stage, BL_GIT_ARGUMENTS("config", "merge.own.required")).status, 1);
    /* A call that writes is refused, and so is one that reads if no option can name the key. */
    struct bl_git_answer answer;
    stage->call.writes = true;
    CHECK_EQUAL(bl_git_run(&stage->git, &stage->arena, &stage->call, BL_GIT_ARGUMENTS("status"),
                           &answer, &stage->error),
                BL_EREFUSED);
    stage->call.writes = false;
    configure(stage, "filter.a=b.clean cat");
    stage->error = (struct bl_error){0};
    CHECK_EQUAL(bl_git_run(&stage->git, &stage->arena, &stage->call, BL_GIT_ARGUMENTS("status"),
                           &answer, &stage->error),
                BL_EREFUSED);
}

static void a_call_that_reads_continues_without_foreign_programs(void **state)
{
    (void)state;
    stage_play(look_at_overrides);
}

/* Included files can change unnoticed, so a configuration with includes is listed every time. */
static void look_at_included(struct stage *stage)
{
    configure(stage, "--file .git/more user.name b");
    configure(stage, "include.path more");
    bl_sleep(30 * BL_NS_PER_MS);
    CHECK_EQUAL(programs_of_status(stage), 2);
    CHECK_EQUAL(programs_of_status(stage), 2);
    configure(stage, "--unset include.path");
    configure(stage, "includeIf.onbranch:main.path more");
    bl_sleep(30 * BL_NS_PER_MS);
    CHECK_EQUAL(programs_of_status(stage), 2);
    CHECK_EQUAL(programs_of_status(stage), 2);
    configure(stage, "--unset includeIf.onbranch:main.path");
    bl_sleep(30 * BL_NS_PER_MS);
    CHECK_EQUAL(programs_of_status(stage), 2);
    CHECK_EQUAL(programs_of_status(stage), 1);
}

static void a_configuration_with_includes_is_listed_every_time(void **state)
{
    (void)state;
    stage_play(look_at_included);
}

/* A worktree uses the configuration in its `commondir`. */
static void look_at_worktree(struct stage *stage)
{
    char command[256];
    snprintf(command, sizeof command, "cd %s && git worktree add -q w -b w && cp .git/config c",
             stage->root);
    CHECK_EQUAL(system(command), 0);
    stage->call.folder = bl_arena_printf(&stage->arena, "%s/.git/worktrees/w", stage->root).data;
    stage->call.directory = bl_arena_printf(&stage->arena, "%s/w", stage->root).data;
    bl_sleep(30 * BL_NS_PER_MS);
    CHECK_EQUAL(programs_of_status(stage), 2);
    CHECK_EQUAL(programs_of_status(stage), 1);
    configure(stage, "filter.own.clean cat");
    CHECK_EQUAL(check(stage), BL_EREFUSED);
    configure(stage, "--unset filter.own.clean");
    snprintf(command, sizeof command, "cd %s && echo $PWD/.git > .git/worktrees/w/commondir",
             stage->root);
    CHECK_EQUAL(system(command), 0);
    bl_sleep(30 * BL_NS_PER_MS);
    CHECK_EQUAL(check(stage), 0);
    configure(stage, "filter.own.clean cat");
    CHECK_EQUAL(check(stage), BL_EREFUSED);
}

static void a_worktree_has_the_configuration_of_its_repository(void **state)
{
    (void)state;
    stage_play(look_at_worktree);
}

SUITE(config, cmocka_unit_test(a_configuration_is_listed_once_until_it_changes),
      cmocka_unit_test(a_program_that_the_users_configuration_lacks_is_refused),
      cmocka_unit_test(the_first_foreign_program_is_named),
      cmocka_unit_test(a_long_key_is_truncated_in_the_message),
      cmocka_unit_test(a_configuration_that_cannot_be_listed_is_an_error),
      cmocka_unit_test(a_call_that_reads_continues_without_foreign_programs),
      cmocka_unit_test(a_configuration_with_includes_is_listed_every_time),
      cmocka_unit_test(a_worktree_has_the_configuration_of_its_repository));
