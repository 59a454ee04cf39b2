#include "../../git/scene.h"
#include "helpers.h"

static struct bl_store *open_store(struct scene *scene)
{
    struct bl_store *store = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s/store.db", scene->place.root);
    CHECK_EQUAL(bl_store_open(path, &store, &scene->error), 0);
    return store;
}

/* Puts the feature and the rows of its tasks into the store. */
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
            scene_work(scene, tasks[i], git_text(&scene->arena, "echo x > %s.txt", tasks[i]));
        if (strcmp(tasks[i], "unmerged") != 0)
            result = bl_arena_text(&scene->arena,
                                   bl_text_from(scene_merge(scene, result, head, tasks[i]).commit))
                         .data;
    }
    CHECK_EQUAL(scene_move_result(scene, NULL, result), 0);
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

static void F49_clean_removes_1_of_5_and_gives_reasons(void **state)
{
    (void)state;
    scene_play(NULL, look_at_cleaning);
}

/* The branch is merged; the commits beside it are nowhere else. */
static void look_at_detached(struct scene *scene)
{
    static const char *const tasks[] = {"A", NULL};
    struct bl_store *store = open_store(scene);
    struct bl_list items;
    if (store == NULL)
        return;
    put_feature(scene, store, tasks);
    struct git_merge_result result =
        scene_merge(scene, scene->head, scene_work(scene, "A", "echo a > a"), "A");
    CHECK_EQUAL(scene_move_result(scene, NULL, result.commit), 0);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q --detach && "
                             "git commit -q --allow-empty -m beside"));
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "F", false, &items,
                                 &scene->error),
                0);
    CHECK(strcmp(reason_of(&items, "A"), "not merged") == 0);
    CHECK(scene_shell(scene, "test -e .belay/worktrees/F/A/a"));
    bl_store_close(store);
}

static void F49_worktree_with_commits_beside_its_branch_stays(void **state)
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
    const char *a = scene_work(scene, "A", "echo a > a");
    struct git_merge_result result = scene_merge(scene, scene->head, a, "A");
    CHECK_EQUAL(scene_move_result(scene, NULL, result.commit), 0);
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
    /* Nothing to clean is not an error. */
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "F", false, &items,
                                 &scene->error),
                0);
    CHECK(bl_list_empty(&items));
    CHECK_EQUAL(bl_feature_clean(store, &scene->arena, scene->place.repository, "G", false, &items,
                                 &scene->error),
                BL_ENOENT);
    bl_store_close(store);
}

static void F49_result_is_removed_when_a_branch_of_the_user_has_it(void **state)
{
    (void)state;
    scene_play(NULL, look_at_result);
}

SUITE(clean, cmocka_unit_test(F49_clean_removes_1_of_5_and_gives_reasons),
      cmocka_unit_test(F49_worktree_with_commits_beside_its_branch_stays),
      cmocka_unit_test(F49_result_is_removed_when_a_branch_of_the_user_has_it));
