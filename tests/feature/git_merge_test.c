#include "git_scene.h"

/* Makes the worktree of a task, runs a shell line in it, and commits what that left; the commit's
 * id, in the arena. */
static const char *work(struct scene *scene, const char *task, const char *line)
{
    struct bl_arena *arena = &scene->arena;
    const char *path = git_text(arena, "%s/.belay/worktrees/F/%s", scene->place.repository, task);
    struct git_commit_order order = {.worktree = path,
                                     .branch = git_text(arena, "refs/heads/belay/F/%s", task),
                                     .expected = scene->head,
                                     .message = git_text(arena, "belay: F/%s turn 1\n", task)};
    struct git_commit_result *result = bl_arena_zalloc(arena, sizeof *result);
    if (!CHECK_EQUAL(git_worktree_make(scene->git, order.branch, path, scene->head, SCENE_NOTE,
                                       &scene->error),
                     0) ||
        !CHECK(scene_shell(scene, "cd .belay/worktrees/F/%s && %s", task, line)) ||
        !CHECK_EQUAL(git_commit_all(scene->git, arena, &order, result, &scene->error), 0))
        return scene->head;
    return result->head;
}

static struct git_merge_result merge(struct scene *scene, const char *ours, const char *theirs,
                                     const char *task)
{
    struct git_merge_result result;
    if (!CHECK_EQUAL(git_merge_commits(scene->git, &scene->arena, ours, theirs,
                                       git_text(&scene->arena, "belay: merge F/%s\n", task),
                                       &result, &scene->error),
                     0))
        fprintf(stderr, "%s\n", scene->error.message);
    return result;
}

static int move_result(struct scene *scene, const char *old, const char *new_id)
{
    return git_ref_swap(scene->git, "refs/heads/belay/F/_result", old, new_id, "wave 1", NULL);
}

/* ---- Merging --------------------------------------------------------------------------------- */

static void look_at_two_files(struct scene *scene)
{
    const char *before = scene_checksum(scene);
    const char *a = work(scene, "A", "echo a > a"), *b = work(scene, "B", "echo b > b");
    struct git_merge_result first = merge(scene, scene->head, a, "A");
    struct git_merge_result second = merge(scene, first.commit, b, "B");
    CHECK(first.clean && second.clean && second.conflicts[0] == NULL);
    CHECK_EQUAL(move_result(scene, NULL, second.commit), 0);
    CHECK(strcmp(scene_output(scene, "git log --first-parent --format=%%s belay/F/_result"),
                 "belay: merge F/B\nbelay: merge F/A\nfirst") == 0);
    CHECK(strcmp(scene_output(scene, "git show belay/F/_result:a belay/F/_result:b"), "a\nb") == 0);
    CHECK(strcmp(scene_output(scene, "git rev-parse belay/F/_result^2"), b) == 0);
    CHECK(strcmp(before, scene_checksum(scene)) == 0);
    /* A task that changed nothing is merged all the same. */
    struct git_merge_result third = merge(scene, second.commit, scene->head, "C");
    CHECK(third.clean && strcmp(third.commit, second.commit) != 0);
}

/* The user's checkout is full of things under way, and stays so. */
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
    const char *b = work(scene, "B", "echo b > README.md"),
               *a = work(scene, "A", "echo a > README.md && echo x > other");
    struct git_merge_result first = merge(scene, scene->head, b, "B");
    struct git_merge_result second = merge(scene, first.commit, a, "A");
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
    /* Added as they are, they are no more resolved than before. */
    CHECK(scene_shell(scene, "git -C .belay/worktrees/F/A add -A"));
    CHECK_EQUAL(scene_commit(scene, a).end, GIT_COMMIT_UNRESOLVED);
    /* One that is under way is left as it is. */
    CHECK(scene_shell(scene, "echo both > .belay/worktrees/F/A/README.md"));
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, first.commit, &scene->error), 0);
    result = scene_commit(scene, a);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git rev-parse belay/F/A^1 belay/F/A^2"),
                 git_text(&scene->arena, "%s\n%s", a, first.commit)) == 0);
    struct git_merge_result third = merge(scene, first.commit, result.head, "A");
    CHECK(third.clean);
    CHECK(strcmp(scene_output(scene, "git show %s:README.md", third.commit), "both") == 0);
}

static void F41_two_tasks_one_line(void **state)
{
    (void)state;
    scene_play(NULL, look_at_one_line);
}

/* Resolved without anybody's `git add`, and kinds of conflict that have no markers. */
static void look_at_odd_conflicts(struct scene *scene)
{
    const char *b = work(scene, "B", "rm gone && printf 'b\\0b' > binary && echo b > README.md"),
               *a = work(scene, "A",
                         "echo more >> gone && printf 'a\\0a' > binary && echo a > "
                         "README.md");
    struct git_merge_result result = merge(scene, scene->head, b, "B");
    CHECK(result.clean && !merge(scene, result.commit, a, "A").clean);
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, result.commit, &scene->error), 0);
    CHECK_EQUAL(scene_commit(scene, a).end, GIT_COMMIT_UNRESOLVED);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo both > README.md && rm gone"));
    CHECK_EQUAL(scene_commit(scene, a).end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git ls-tree --name-only belay/F/A"), "README.md\nbinary") ==
          0);
}

static void conflicts_of_all_kinds_are_committed_when_markers_are_gone(void **state)
{
    (void)state;
    scene_play("echo x > gone && printf 'x\\0x' > binary && git add -A && git commit -qm x",
               look_at_odd_conflicts);
}

static void look_at_merging_into(struct scene *scene)
{
    struct bl_error error = {0};
    const char *b = work(scene, "B", "echo b > b && echo b >> README.md"),
               *a = work(scene, "A", "echo a > a");
    /* What would be overwritten stops it, and nothing has changed. */
    CHECK(scene_shell(scene, "echo mine > .belay/worktrees/F/A/b"));
    CHECK(git_merge_into(scene->git, scene->worktree, b, &error) != 0);
    CHECK(strstr(error.message, "overwritten") != NULL && error.kind == BL_KIND_FEATURE);
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F/A && test \"$(cat b)\" = mine && rm b && test -z "
                      "\"$(git status --porcelain)\""));
    /* Without a conflict it waits for its commit as well. */
    CHECK_EQUAL(git_merge_into(scene->git, scene->worktree, b, &scene->error), 0);
    struct git_commit_result result = scene_commit(scene, a);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(git_is_ancestor(scene->git, b, result.head));
    /* What it has already: nothing to do. */
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
    const char *a = work(scene, "A", "echo a > a");
    CHECK_EQUAL(move_result(scene, NULL, scene->head), 0);
    CHECK_EQUAL(move_result(scene, NULL, a), BL_EBUSY);
    CHECK_EQUAL(move_result(scene, a, scene->head), BL_EBUSY);
    CHECK_EQUAL(move_result(scene, scene->head, a), 0);
    CHECK(strcmp(scene_output(scene, "git rev-parse belay/F/_result"), a) == 0);
    /* A branch that is checked out, or has what nothing else has, does not go. */
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, a, NULL, "x", &error), BL_EREFUSED);
    CHECK(strstr(error.message, "checked out") != NULL);
    error = (struct bl_error){0};
    CHECK_EQUAL(git_worktree_remove(scene->git, scene->worktree, &error), 0);
    CHECK(scene_shell(scene, "git update-ref refs/heads/belay/F/_result main"));
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, a, NULL, "x", &error), BL_EREFUSED);
    CHECK(strstr(error.message, "nothing else") != NULL);
    CHECK_EQUAL(move_result(scene, scene->head, a), 0);
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

/* ---- Cleaning up ----------------------------------------------------------------------------- */

static struct bl_store *open_store(struct scene *scene)
{
    struct bl_store *store = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s/store.db", scene->place.root);
    CHECK_EQUAL(bl_store_open(path, &store, &scene->error), 0);
    return store;
}

/* The store knows the feature, and the rows of its tasks. */
static void put_feature(struct scene *scene, struct bl_store *store, const char *const *tasks)
{
    struct bl_store_feature_options options = {
        .repository = scene->place.repository, .id = "F", .name = "f", .run_id = "run_x"};
    struct bl_store_feature *held = NULL;
    struct bl_store_owner owner;
    struct bl_list records;
    bl_list_init(&records);
    if (!CHECK_EQUAL(bl_store_feature_hold(store, &options, &held, &owner, &scene->error), 0))
        return;
    for (; *tasks != NULL; tasks++) {
        struct bl_row *record = bl_arena_zalloc(&scene->arena, sizeof *record);
        record->name = git_text(&scene->arena, "task/%s", *tasks);
        record->json =
            bl_arena_printf(&scene->arena, "{\"id\":\"%s\",\"state\":\"completed\"}", *tasks);
        bl_list_push_back(&records, &record->link);
    }
    struct bl_store_feature_write write = {.records = &records};
    CHECK_EQUAL(bl_store_feature_write(held, &write, &scene->error), 0);
    bl_store_feature_release(held);
}

static struct bl_clean_item *find_item(struct bl_list *items, const char *task)
{
    BL_LIST_EACH (link, items) {
        struct bl_clean_item *item = BL_CONTAINER(link, struct bl_clean_item, link);
        if (item->task == NULL ? task == NULL : task != NULL && strcmp(item->task, task) == 0)
            return item;
    }
    return NULL;
}

static const char *reason_of(struct bl_list *items, const char *task)
{
    struct bl_clean_item *item = find_item(items, task);
    return item == NULL ? "not listed" : item->reason == NULL ? "none" : item->reason;
}

static void look_at_five(struct scene *scene, struct bl_list *items)
{
    CHECK(strcmp(reason_of(items, "merged"), "none") == 0);
    CHECK(strcmp(reason_of(items, "dirty"), "uncommitted changes") == 0);
    CHECK(strcmp(reason_of(items, "untracked"), "untracked files") == 0);
    CHECK(strcmp(reason_of(items, "unmerged"), "not merged") == 0);
    CHECK(strcmp(reason_of(items, "live"),
                 git_text(&scene->arena, "in use by pid %d", (int)getpid())) == 0);
    CHECK(strstr(reason_of(items, NULL), "git merge belay/F/_result") != NULL);
    size_t removed = 0, listed = 0;
    BL_LIST_EACH (link, items) {
        struct bl_clean_item *item = BL_CONTAINER(link, struct bl_clean_item, link);
        removed += item->removed;
        listed++;
        CHECK(item->task == NULL || item->bytes > 0);
    }
    CHECK_EQUAL(removed, 1);
    CHECK_EQUAL(listed, 6);
}

static void look_at_cleaning(struct scene *scene)
{
    static const char *const tasks[] = {"merged", "dirty", "untracked", "unmerged", "live", NULL};
    struct bl_store *store = open_store(scene);
    struct bl_list items;
    const char *result = scene->head, *before = scene_checksum(scene);
    if (store == NULL)
        return;
    put_feature(scene, store, tasks);
    for (size_t i = 0; tasks[i] != NULL; i++) {
        const char *head =
            work(scene, tasks[i], git_text(&scene->arena, "echo x > %s.txt", tasks[i]));
        if (strcmp(tasks[i], "unmerged") != 0)
            result = bl_arena_text(&scene->arena,
                                   bl_text_from(merge(scene, result, head, tasks[i]).commit))
                         .data;
    }
    CHECK_EQUAL(move_result(scene, NULL, result), 0);
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F && echo y >> dirty/README.md && echo z > "
                      "untracked/new && printf 'run_x pid %d started %lld' > "
                      "../../../.git/worktrees/belay-F-live/locked",
                      (int)getpid(), (long long)bl_store_process_started(getpid())));
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "F", true, &items,
                                 &scene->error),
                0);
    look_at_five(scene, &items);
    CHECK(strcmp(scene_output(scene, "ls .belay/worktrees/F | wc -l; git for-each-ref "
                                     "refs/heads/belay | wc -l"),
                 "5\n6") == 0);
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "F", false, &items,
                                 &scene->error),
                0);
    look_at_five(scene, &items);
    CHECK(strcmp(scene_output(scene, "echo $(ls .belay/worktrees/F); git for-each-ref "
                                     "refs/heads/belay | wc -l"),
                 "dirty live unmerged untracked\n5") == 0);
    CHECK(strcmp(before, scene_checksum(scene)) == 0);
    bl_store_close(store);
}

static void F49_clean_removes_1_of_5_and_says_why(void **state)
{
    (void)state;
    scene_play(NULL, look_at_cleaning);
}

/* The branch is merged; what was committed beside it is nowhere else. */
static void look_at_detached(struct scene *scene)
{
    static const char *const tasks[] = {"A", NULL};
    struct bl_store *store = open_store(scene);
    struct bl_list items;
    if (store == NULL)
        return;
    put_feature(scene, store, tasks);
    struct git_merge_result result = merge(scene, scene->head, work(scene, "A", "echo a > a"), "A");
    CHECK_EQUAL(move_result(scene, NULL, result.commit), 0);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q --detach && "
                             "git commit -q --allow-empty -m beside"));
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "F", false, &items,
                                 &scene->error),
                0);
    CHECK(strcmp(reason_of(&items, "A"), "not merged") == 0);
    CHECK(scene_shell(scene, "test -e .belay/worktrees/F/A/a"));
    bl_store_close(store);
}

static void F49_a_worktree_with_commits_beside_its_branch_stays(void **state)
{
    (void)state;
    scene_play(NULL, look_at_detached);
}

static void look_at_result(struct scene *scene)
{
    static const char *const tasks[] = {"A", NULL};
    struct bl_store *store = open_store(scene);
    struct bl_list items;
    if (store == NULL)
        return;
    put_feature(scene, store, tasks);
    const char *a = work(scene, "A", "echo a > a");
    struct git_merge_result result = merge(scene, scene->head, a, "A");
    CHECK_EQUAL(move_result(scene, NULL, result.commit), 0);
    CHECK(scene_shell(scene, "git merge -q belay/F/_result"));
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "F", false, &items,
                                 &scene->error),
                0);
    CHECK(find_item(&items, NULL) != NULL && find_item(&items, NULL)->removed);
    CHECK(find_item(&items, "A") != NULL && find_item(&items, "A")->removed);
    CHECK(
        strcmp(scene_output(scene, "git for-each-ref refs/heads; ls .belay; git worktree list | wc "
                                   "-l"),
               git_text(&scene->arena, "%s commit\trefs/heads/main\n1", result.commit)) == 0);
    /* Nothing is left: that is no error. */
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "F", false, &items,
                                 &scene->error),
                0);
    CHECK(bl_list_empty(&items));
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "G", false, &items,
                                 &scene->error),
                BL_ENOENT);
    bl_store_close(store);
}

static void F49_the_result_goes_when_a_branch_of_the_user_has_it(void **state)
{
    (void)state;
    scene_play(NULL, look_at_result);
}

SUITE(git_merge, cmocka_unit_test(F40_two_tasks_two_files_and_the_checkout_is_byte_identical),
      cmocka_unit_test(sha256_repositories_work), cmocka_unit_test(F41_two_tasks_one_line),
      cmocka_unit_test(conflicts_of_all_kinds_are_committed_when_markers_are_gone),
      cmocka_unit_test(merges_into_a_worktree), cmocka_unit_test(refs_move_by_compare_and_swap),
      cmocka_unit_test(F49_clean_removes_1_of_5_and_says_why),
      cmocka_unit_test(F49_a_worktree_with_commits_beside_its_branch_stays),
      cmocka_unit_test(F49_the_result_goes_when_a_branch_of_the_user_has_it));
