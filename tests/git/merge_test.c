#include "scene.h"

/* ---- Merging --------------------------------------------------------------------------------- */

static void look_at_two_files(struct scene *scene)
{
    const char *before = scene_checksum(scene);
    const char *a = scene_work(scene, "A", "echo a > a"), *b = scene_work(scene, "B", "echo b > b");
    struct git_merge_result first = scene_merge(scene, scene->head, a, "A");
    struct git_merge_result second = scene_merge(scene, first.commit, b, "B");
    CHECK(first.clean && second.clean && second.conflicts[0] == NULL);
    CHECK_EQUAL(scene_move_result(scene, NULL, second.commit), 0);
    CHECK(strcmp(scene_output(scene, "git log --first-parent --format=%%s belay/F/_result"),
                 "belay: merge F/B\nbelay: merge F/A\nfirst") == 0);
    CHECK(strcmp(scene_output(scene, "git show belay/F/_result:a belay/F/_result:b"), "a\nb") == 0);
    CHECK(strcmp(scene_output(scene, "git rev-parse belay/F/_result^2"), b) == 0);
    CHECK(strcmp(before, scene_checksum(scene)) == 0);
    /* A task without changes is merged too. */
    struct git_merge_result third = scene_merge(scene, second.commit, scene->head, "C");
    CHECK(third.clean && strcmp(third.commit, second.commit) != 0);
}

/* The user's checkout has many uncommitted changes, which remain. */
static void F40_two_tasks_two_files_and_the_checkout_is_byte_identical(void **state)
{
    (void)state;
    scene_play("echo stashed >> README.md && git stash -q && echo mine >> README.md && echo s > "
               "staged && git add staged && echo u > untracked",
               look_at_two_files);
}

static void look_at_sha256(struct scene *scene)
{
    char copy[400];
    CHECK_EQUAL(strlen(scene->head), 64);
    look_at_two_files(scene);
    snprintf(copy, sizeof copy, "%s/copy", scene->place.root);
    CHECK_EQUAL(git_copy_make(scene->git, scene->head, copy, &scene->error), 0);
    CHECK(scene_shell(scene,
                      "cd ../copy && git log --oneline > /dev/null && git status --porcelain"));
}

static void sha256_repositories_work(void **state)
{
    (void)state;
    scene_play(
        "rm -rf .git && git init -q -b main --object-format=sha256 . && git config user.name "
        "T && git config user.email t@example.test && git add -A && git commit -qm first",
        look_at_sha256);
}

static void look_at_one_line(struct scene *scene)
{
    const char *b = scene_work(scene, "B", "echo b > README.md"),
               *a = scene_work(scene, "A", "echo a > README.md && echo x > other");
    struct git_merge_result first = scene_merge(scene, scene->head, b, "B");
    struct git_merge_result second = scene_merge(scene, first.commit, a, "A");
    CHECK(first.clean && !second.clean);
    CHECK(second.conflicts[0] != NULL && strcmp(second.conflicts[0], "README.md") == 0 &&
          second.conflicts[1] == NULL);
    /* The merge turn. */
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, first.commit, &scene->error), 0);
    struct git_state state;
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK(state.merging && state.unmerged_count == 1);
    struct git_commit_result result = scene_commit(scene, a);
    CHECK_EQUAL(result.end, GIT_COMMIT_UNRESOLVED);
    CHECK(scene_says(result.why, "README.md") && scene_says(result.why, "1 file"));
    /* Adding the files unchanged does not resolve them. */
    CHECK(scene_shell(scene, "git -C .belay/worktrees/F/A add -A"));
    CHECK_EQUAL(scene_commit(scene, a).end, GIT_COMMIT_UNRESOLVED);
    /* A merge in progress is left unchanged. */
    CHECK(scene_shell(scene, "echo both > .belay/worktrees/F/A/README.md"));
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, first.commit, &scene->error), 0);
    result = scene_commit(scene, a);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git rev-parse belay/F/A^1 belay/F/A^2"),
                 git_text(&scene->arena, "%s\n%s", a, first.commit)) == 0);
    struct git_merge_result third = scene_merge(scene, first.commit, result.head, "A");
    CHECK(third.clean);
    CHECK(strcmp(scene_output(scene, "git show %s:README.md", third.commit), "both") == 0);
}

static void F41_two_tasks_one_line(void **state)
{
    (void)state;
    scene_play(NULL, look_at_one_line);
}

/* Conflicts that are resolved without `git add`, and conflicts without markers. */
static void look_at_odd_conflicts(struct scene *scene)
{
    const char *b = scene_work(scene, "B",
                               "rm gone && printf 'b\\0b' > binary && echo b > README.md"),
               *a = scene_work(scene, "A",
                               "echo more >> gone && printf 'a\\0a' > binary && echo a > "
                               "README.md");
    struct git_merge_result result = scene_merge(scene, scene->head, b, "B");
    CHECK(result.clean && !scene_merge(scene, result.commit, a, "A").clean);
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, result.commit, &scene->error), 0);
    CHECK_EQUAL(scene_commit(scene, a).end, GIT_COMMIT_UNRESOLVED);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo both > README.md && rm gone"));
    CHECK_EQUAL(scene_commit(scene, a).end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git ls-tree --name-only belay/F/A"), "README.md\nbinary") ==
          0);
}

static void conflicts_of_all_kinds_are_committed_once_markers_are_removed(void **state)
{
    (void)state;
    scene_play("echo x > gone && printf 'x\\0x' > binary && git add -A && git commit -qm x",
               look_at_odd_conflicts);
}

static void look_at_merging_into(struct scene *scene)
{
    struct bl_error error = {0};
    const char *b = scene_work(scene, "B", "echo b > b && echo b >> README.md"),
               *a = scene_work(scene, "A", "echo a > a");
    /* A file that would be overwritten prevents the merge, and nothing changes. */
    CHECK(scene_shell(scene, "echo mine > .belay/worktrees/F/A/b"));
    CHECK(git_merge_into(scene->git, scene->worktree, b, &error) != 0);
    CHECK(strstr(error.message, "overwritten") != NULL && error.kind == BL_KIND_FEATURE);
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F/A && test \"$(cat b)\" = mine && rm b && test -z "
                      "\"$(git status --porcelain)\""));
    /* A merge without conflicts is not committed either. */
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, b, &scene->error), 0);
    struct git_commit_result result = scene_commit(scene, a);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(git_is_ancestor(scene->git, b, result.head));
    /* A commit that is already merged: nothing to do. */
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, b, &scene->error), 0);
    CHECK_EQUAL(scene_commit(scene, result.head).end, GIT_COMMIT_NONE);
}

static void merges_into_a_worktree(void **state)
{
    (void)state;
    scene_play(NULL, look_at_merging_into);
}

/* ---- Refs ------------------------------------------------------------------------------------ */

static void look_at_swaps(struct scene *scene)
{
    struct bl_error error = {0};
    const char *a = scene_work(scene, "A", "echo a > a");
    CHECK_EQUAL(scene_move_result(scene, NULL, scene->head), 0);
    CHECK_EQUAL(scene_move_result(scene, NULL, a), BL_EBUSY);
    CHECK_EQUAL(scene_move_result(scene, a, scene->head), BL_EBUSY);
    CHECK_EQUAL(scene_move_result(scene, scene->head, a), 0);
    CHECK(strcmp(scene_output(scene, "git rev-parse belay/F/_result"), a) == 0);
    /* A branch that is checked out, or whose commits are on no other ref, is not deleted. */
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, a, NULL, "x", &error), BL_EREFUSED);
    CHECK(strstr(error.message, "checked out") != NULL);
    error = (struct bl_error){0};
    CHECK_EQUAL(git_worktree_remove(scene->git, scene->worktree, &error), 0);
    CHECK(scene_shell(scene, "git update-ref refs/heads/belay/F/_result main"));
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, a, NULL, "x", &error), BL_EREFUSED);
    CHECK(strstr(error.message, "no other ref") != NULL);
    CHECK_EQUAL(scene_move_result(scene, scene->head, a), 0);
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, scene->head, NULL, "x", NULL), BL_EBUSY);
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, a, NULL, "x", NULL), 0);
    CHECK(strcmp(scene_output(scene, "git for-each-ref refs/heads/belay | wc -l"), "1") == 0);
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, NULL, NULL, "x", NULL), BL_EINVAL);
}

static void refs_move_by_compare_and_swap(void **state)
{
    (void)state;
    scene_play(NULL, look_at_swaps);
}

SUITE(merge, cmocka_unit_test(F40_two_tasks_two_files_and_the_checkout_is_byte_identical),
      cmocka_unit_test(sha256_repositories_work), cmocka_unit_test(F41_two_tasks_one_line),
      cmocka_unit_test(conflicts_of_all_kinds_are_committed_once_markers_are_removed),
      cmocka_unit_test(merges_into_a_worktree), cmocka_unit_test(refs_move_by_compare_and_swap));
