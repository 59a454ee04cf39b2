/* Programs named by a repository, which a tool may have planted there: none of them runs. */
#include "scene.h"

/* Leaves a file next to the repository. */
#define MARK "touch ../MARK ../../MARK ../../../../../MARK 2>/dev/null"

static bool marked(struct scene *scene)
{
    return scene_output(scene, "find '%s' -name MARK | head -c 400", scene->place.root)[0] != '\0';
}

static bool open_again(struct scene *scene, int code)
{
    git_close(scene->git);
    scene->git = NULL;
    scene->error = (struct bl_error){0};
    return CHECK_EQUAL(git_open(scene->place.repository, &scene->git, &scene->error), code) &&
           code == 0;
}

static int commit(struct scene *scene, struct git_commit_result *ret_result)
{
    struct git_commit_order order = {.worktree = scene->worktree,
                                     .branch = SCENE_BRANCH,
                                     .expected = scene->head,
                                     .message = "work\n"};
    scene->error = (struct bl_error){0};
    return git_commit_all(scene->git, &scene->arena, &order, ret_result, &scene->error);
}

/* All git operations of a feature, in a repository that may name programs. */
static void work(struct scene *scene)
{
    struct git_commit_result result = {0};
    struct git_merge_result merge = {0};
    struct git_state state;
    struct bl_text diff;
    const char *copy = bl_arena_printf(&scene->arena, "%s/copy", scene->place.root).data;

    if (scene->git == NULL || !scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo x >> README.md && echo n > new.txt"));
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK_EQUAL(state.file_count, 2);
    CHECK_EQUAL(commit(scene, &result), 0);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK_EQUAL(git_diff_text(scene->git, &scene->arena, scene->head, result.head, 10000, &diff,
                              &scene->error),
                0);
    CHECK(scene_says(diff, "+x"));
    CHECK_EQUAL(git_merge_commits(scene->git, &scene->arena, scene->head, result.head, "m", &merge,
                                  &scene->error),
                0);
    CHECK_EQUAL(git_copy_make(scene->git, result.head, copy, &scene->error), 0);
}

static void look_at_fixed_names(struct scene *scene)
{
    /* They do run if they are not prevented. */
    CHECK(scene_shell(scene, "git status >/dev/null 2>&1; git diff HEAD~0 >/dev/null 2>&1; true"));
    CHECK(marked(scene));
    CHECK(scene_shell(scene, "rm -f ../MARK ../../MARK"));
    work(scene);
    CHECK(!marked(scene));
}

static void programs_of_fixed_names_do_not_run(void **state)
{
    (void)state;
    scene_play("for k in core.fsmonitor core.sshCommand core.pager core.editor core.askPass "
               "sequence.editor diff.external gpg.program gpg.ssh.program "
               "core.alternateRefsCommand credential.helper uploadpack.packObjectsHook "
               "diff.planted.command diff.planted.textconv gc.recentObjectsHook; do git config $k "
               "'" MARK "; false'; done; git config commit.gpgSign true; git config "
               "commit.verbose true; git config log.showSignature true; git config alias.status "
               "'!" MARK "'; git config core.hooksPath .git/planted; mkdir .git/planted; for h in "
               "pre-commit post-commit post-checkout post-index-change reference-transaction "
               "prepare-commit-msg commit-msg post-merge; do printf '#!/bin/sh\\n" MARK
               "\\n' > .git/planted/$h; chmod +x .git/planted/$h; cp .git/planted/$h .git/hooks/; "
               "done; echo '* diff=planted' > .git/info/attributes",
               look_at_fixed_names);
}

static void look_at_refusal(struct scene *scene)
{
    CHECK(scene->git == NULL);
    CHECK_EQUAL(scene->error.code, BL_EREFUSED);
    CHECK(strstr(scene->error.message, ".planted.") != NULL);
    CHECK(strstr(scene->error.hint, "git config --global") != NULL);
    CHECK(!marked(scene));
}

static void a_repository_with_filters_of_its_own_is_refused(void **state)
{
    (void)state;
    scene_play("git config filter.planted.clean '" MARK "; cat'", look_at_refusal);
    scene_play("git config filter.planted.smudge '" MARK "; cat'", look_at_refusal);
    scene_play("git config filter.planted.process '" MARK "'", look_at_refusal);
    scene_play("git config merge.planted.driver '" MARK "'", look_at_refusal);
    scene_play("git config --file .git/more merge.planted.driver '" MARK
               "' && git config include.path more",
               look_at_refusal);
    scene_play("git config extensions.worktreeConfig true && git config --worktree "
               "filter.planted.clean '" MARK "'",
               look_at_refusal);
}

/* A Player writes to the shared configuration while the feature runs. */
static void plant_later(struct scene *scene, const char *command)
{
    struct git_commit_result result = {0};
    struct git_state state;

    if (scene->git == NULL || !scene_worktree(scene))
        return;
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F/A && echo n > new.txt && echo '* "
                      "filter=planted merge=planted' > .gitattributes && echo x >> README.md"));
    CHECK(scene_shell(scene, "%s", command));
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK_EQUAL(commit(scene, &result), BL_EREFUSED);
    CHECK(strstr(scene->error.message, "planted.") != NULL);
    CHECK(!marked(scene));
    open_again(scene, BL_EREFUSED);
}

static void look_at_late_filter(struct scene *scene)
{
    plant_later(scene, "git config filter.planted.clean '" MARK "; cat' && git config "
                       "filter.planted.required true");
}

static void look_at_late_driver(struct scene *scene)
{
    plant_later(scene, "git config merge.planted.driver '" MARK "'");
}

/* The included file changes, and the including file does not. */
static void look_at_late_include(struct scene *scene)
{
    plant_later(scene, "git config --file .git/more filter.planted.clean '" MARK "; cat'");
}

static void filters_that_are_planted_later_do_not_run(void **state)
{
    (void)state;
    scene_play(NULL, look_at_late_filter);
    scene_play(NULL, look_at_late_driver);
    scene_play("git config include.path more", look_at_late_include);
}

/* An override cannot name this key, so reading is refused too. */
static void look_at_equals_sign(struct scene *scene)
{
    struct git_state state;

    if (scene->git == NULL || !scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo '* filter=a=b' > .gitattributes && "
                             "touch -d tomorrow README.md && git config filter.a=b.clean '" MARK
                             "; cat'"));
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                BL_EREFUSED);
    CHECK(!marked(scene));
}

static void a_filter_that_cannot_be_disabled_prevents_reading(void **state)
{
    (void)state;
    scene_play(NULL, look_at_equals_sign);
}

static void look_at_nested(struct scene *scene)
{
    struct git_commit_result result = {0};
    struct git_state state;

    if (scene->git == NULL || !scene_worktree(scene))
        return;
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F/A && git init -q sub && cd sub && git config "
                      "user.name x && git config user.email x@example.test && echo f > f && git "
                      "add f && git commit -qm f && cd .. && git add sub 2>/dev/null && cd sub && "
                      "echo '* filter=planted' > .gitattributes && git config "
                      "filter.planted.clean '" MARK "; cat' && touch -d tomorrow f && cd .. && "
                      "echo n > new.txt"));
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK_EQUAL(commit(scene, &result), 0);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(!marked(scene));
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git status >/dev/null"));
    CHECK(marked(scene));
}

static void filters_in_submodules_do_not_run(void **state)
{
    (void)state;
    scene_play(NULL, look_at_nested);
}

static void look_at_own_filter(struct scene *scene)
{
    struct git_commit_result result = {0};
    const char *copy = bl_arena_printf(&scene->arena, "%s/copy", scene->place.root).data;

    if (!CHECK(scene->git != NULL) || !scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo '*.low filter=case' > .gitattributes "
                             "&& echo hello > a.low"));
    CHECK_EQUAL(commit(scene, &result), 0);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git show belay/F/A:a.low"), "HELLO") == 0);
    CHECK_EQUAL(git_copy_make(scene->git, result.head, copy, &scene->error), 0);
    CHECK(strcmp(scene_output(scene, "cat ../copy/a.low"), "hello") == 0);
}

static void filters_of_the_users_own_configuration_work(void **state)
{
    static const char configure[] = "git config --global filter.case.clean 'tr a-z A-Z' && git "
                                    "config --global filter.case.smudge 'tr A-Z a-z'";

    (void)state;
    scene_play_configured(configure, NULL, look_at_own_filter);
    /* Like `git lfs install --local`: the same setting again. */
    scene_play_configured(configure, "git config filter.case.clean 'tr a-z A-Z'",
                          look_at_own_filter);
}

SUITE(program, cmocka_unit_test(programs_of_fixed_names_do_not_run),
      cmocka_unit_test(a_repository_with_filters_of_its_own_is_refused),
      cmocka_unit_test(filters_that_are_planted_later_do_not_run),
      cmocka_unit_test(a_filter_that_cannot_be_disabled_prevents_reading),
      cmocka_unit_test(filters_in_submodules_do_not_run),
      cmocka_unit_test(filters_of_the_users_own_configuration_work));
