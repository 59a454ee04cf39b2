#include "scene.h"

static void look_at_commits(struct scene *scene)
{
    const char *before = scene_checksum(scene);
    if (!scene_worktree(scene))
        return;
    struct git_commit_result result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_NONE);
    CHECK(strcmp(result.head, scene->head) == 0);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo '*.o' > .gitignore && touch a.o "
                             "'with space' \"$(printf 'new\\nline')\" \"$(printf 'bad\\377')\" "
                             "':(top)odd' -- --dash && ln -s /nowhere link && echo '#!' > run && "
                             "chmod +x run && echo x >> README.md"));
    result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(strcmp(result.head, scene_output(scene, "git rev-parse belay/F/A")) == 0);
    CHECK(strcmp(scene_output(scene, "git log -1 --format='%%an <%%ae>|%%s|%%(trailers:key=Belay-"
                                     "Turn,valueonly,separator=)' belay/F/A"),
                 "Test <test@example.test>|belay: F/A turn 1|1") == 0);
    CHECK(
        strcmp(scene_output(scene, "git diff --name-only -z main belay/F/A | tr -cd '\\0' | wc -c"),
               "9") == 0);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && test -z \"$(git status --porcelain)\""));
    /* Only tracked files: one program. */
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && rm run && echo y >> README.md"));
    char last[GIT_ID_SIZE];
    bl_text_into(last, sizeof last, result.head);
    result = scene_commit(scene, last);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && test -z \"$(git status --porcelain)\""));
    /* The Player's own commits stay below belay's. */
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo z > own && git add own && git -c "
                             "core.hooksPath=/dev/null commit "
                             "-qm own --no-gpg-sign"));
    bl_text_into(last, sizeof last, result.head);
    result = scene_commit(scene, last);
    CHECK_EQUAL(result.end, GIT_COMMIT_NONE);
    CHECK(strcmp(result.head, last) != 0);
    CHECK(strcmp(before, scene_checksum(scene)) == 0);
}

static void commits_all_unignored_changes_without_hooks_and_signing(void **state)
{
    (void)state;
    scene_play("for h in pre-commit commit-msg post-commit post-checkout prepare-commit-msg "
               "reference-transaction; do printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/$h; chmod +x "
               ".git/hooks/$h; done; git config commit.gpgSign true; git config gpg.program false; "
               "git config core.fsmonitor /bin/false",
               look_at_commits);
}

static void look_at_identity(struct scene *scene)
{
    /* Variables that name another repository are ignored. */
    git_close(scene->git);
    scene->git = NULL;
    setenv("GIT_DIR", "/nonexistent/foreign", 1);
    setenv("GIT_INDEX_FILE", "/nonexistent/index", 1);
    int code = git_open(scene->place.repository, &scene->git, &scene->error);
    unsetenv("GIT_DIR");
    unsetenv("GIT_INDEX_FILE");
    if (!CHECK_EQUAL(code, 0) || !scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "echo x > .belay/worktrees/F/A/new"));
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git log -1 --format='%%an <%%ae> %%cn <%%ce>' belay/F/A"),
                 "belay <belay@localhost> belay <belay@localhost>") == 0);
}

static void belay_is_the_author_without_an_identity(void **state)
{
    (void)state;
    char *home = getenv("HOME") != NULL ? strdup(getenv("HOME")) : NULL;
    setenv("HOME", "/nonexistent", 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    unsetenv("EMAIL");
    scene_play("git config --unset user.name && git config --unset user.email", look_at_identity);
    unsetenv("GIT_CONFIG_NOSYSTEM");
    if (home != NULL)
        setenv("HOME", home, 1);
    free(home);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void look_at_leaving(struct scene *scene)
{
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q -b elsewhere && echo x > "
                             "new"));
    struct git_commit_result result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_MOVED);
    CHECK(scene_says(result.why, "on the branch elsewhere") &&
          scene_says(result.why, "git checkout belay/F/A"));
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q --detach"));
    result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_MOVED);
    CHECK(scene_says(result.why, "(detached HEAD)"));
    CHECK(strcmp(scene_output(scene, "git -C .belay/worktrees/F/A status --porcelain"), "?? new") ==
          0);
    /* The recovery that it describes works. */
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q belay/F/A"));
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_MADE);
}

static void bad_input_player_left_its_branch(void **state)
{
    (void)state;
    scene_play(NULL, look_at_leaving);
}

static void look_at_rewriting(struct scene *scene)
{
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "echo x > .belay/worktrees/F/A/one"));
    struct git_commit_result first = scene_commit(scene, scene->head);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo y > two && git add two && git commit "
                             "-q --amend -m amended && echo z > three"));
    struct git_commit_result result = scene_commit(scene, first.head);
    CHECK_EQUAL(result.end, GIT_COMMIT_REWRITTEN);
    CHECK(scene_says(result.why, first.head) && scene_says(result.why, "git reset --soft"));
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git reset -q --soft %s", first.head));
    CHECK_EQUAL(scene_commit(scene, first.head).end, GIT_COMMIT_MADE);
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F/A && test -f one -a -f two -a -f three && git "
                      "merge-base --is-ancestor %s HEAD",
                      first.head));
}

static void bad_input_player_rewrote_commits(void **state)
{
    (void)state;
    scene_play(NULL, look_at_rewriting);
}

static void look_at_size(struct scene *scene)
{
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(
        scene,
        "cd .belay/worktrees/F/A && echo x > small && mkdir data && truncate -s "
        "500M data/huge && truncate -s 20M \"$(printf 'data/other\\n')\" && for n in 3 1 5 2 4; do "
        "truncate -s ${n}M data/f$n; done"));
    struct git_commit_result result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_TOO_LARGE);
    ptrdiff_t huge = bl_text_find(result.why, BL_TEXT("data/huge (512000 KiB)"));
    ptrdiff_t other = bl_text_find(result.why, BL_TEXT("data/other"));
    CHECK(huge > 0 && other > huge && scene_says(result.why, ".gitignore"));
    /* Five are named, largest first. */
    CHECK(scene_says(result.why, ", data/f5 (5120 KiB), data/f4 (4096 KiB), data/f3 (3072 KiB). "));
    CHECK(strcmp(result.head, scene->head) == 0);
    CHECK(strcmp(scene_output(scene, "find .git/objects -size +1000k | wc -l"), "0") == 0);
    CHECK(scene_shell(scene, "echo data/ > .belay/worktrees/F/A/.gitignore"));
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_MADE);
}

static void bad_input_change_over_512_mib(void **state)
{
    (void)state;
    scene_play(NULL, look_at_size);
}

static void look_at_count(struct scene *scene)
{
    if (!scene_worktree(scene))
        return;
    CHECK_EQUAL(scene->git->change_files_max, 50000);
    unsigned long most = suite_rounds(50, 50000);
    scene->git->change_files_max = most;
    CHECK(scene_shell(scene,
                      "mkdir .belay/worktrees/F/A/many && cd .belay/worktrees/F/A/many && seq "
                      "%lu | xargs touch",
                      most + 1));
    struct git_commit_result result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_TOO_LARGE);
    CHECK(scene_says(result.why,
                     git_text(&scene->arena, "%lu files, 0 MiB (at most %lu", most + 1, most)));
    CHECK(strcmp(result.head, scene->head) == 0);
    CHECK(scene_shell(scene, "rm .belay/worktrees/F/A/many/1"));
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_MADE);
}

static void bad_input_change_over_50000_files(void **state)
{
    (void)state;
    scene_play(NULL, look_at_count);
}

/* ---- Repositories and submodules in a worktree ----------------------------------------------- */

static void look_at_nested(struct scene *scene)
{
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git init -q empty && git clone -q "
                             "../../../.. cloned && echo x > empty/file"));
    struct git_commit_result result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_NONE);
    CHECK(scene_says(result.why, "nested git repository"));
    CHECK(scene_shell(scene, "echo x > .belay/worktrees/F/A/new"));
    result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git diff --name-only main belay/F/A"), "new") == 0);
    CHECK(scene_shell(scene, "test -f .belay/worktrees/F/A/cloned/README.md"));
}

static void nested_repositories_are_not_added_as_submodules(void **state)
{
    (void)state;
    scene_play(NULL, look_at_nested);
}

/* The user's repository contains the worktree: without its .git, git would find that one. */
static void look_at_lost_pointer(struct scene *scene)
{
    const char *before = scene_checksum(scene);
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && rm .git && echo x > new"));
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_MADE);
    CHECK(strcmp(scene_output(scene, "git diff --name-only main belay/F/A"), "new") == 0);
    CHECK(strcmp(before, scene_checksum(scene)) == 0);
    scene_worktree(scene);
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F/A && test \"$(git rev-parse --abbrev-ref HEAD)\" "
                      "= belay/F/A"));
}

static void a_worktree_without_its_git_file_never_uses_the_users_checkout(void **state)
{
    (void)state;
    scene_play(NULL, look_at_lost_pointer);
}

static void look_at_submodule(struct scene *scene)
{
    struct git_state state;
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git clone -q ../../../../../module sub && "
                             "echo x > sub/inside"));
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    /* Git does not look inside, where the submodule's own configuration applies. */
    CHECK_EQUAL(state.file_count, 0);
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_NONE);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A/sub && git add -A && git -c user.name=x -c "
                             "user.email=x@example.test commit -qm x"));
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_MADE);
}

static void changes_inside_a_submodule_are_not_committed(void **state)
{
    (void)state;
    scene_play(
        "git init -q ../module && git -C ../module -c user.name=x -c "
        "user.email=x@example.test commit -q --allow-empty -m x && printf '[submodule "
        "\"sub\"]\\n\\tpath = sub\\n\\turl = ../module\\n' > .gitmodules && git add -A && git "
        "update-index --add --cacheinfo 160000,$(git -C ../module rev-parse HEAD),sub && git "
        "commit -qm sub",
        look_at_submodule);
}

/* ---- Concurrent and interrupted writes ------------------------------------------------------- */

#define WRITERS 6

struct writer {
    struct scene *scene;
    int number;
};

static int write_one(void *argument)
{
    struct writer *writer = argument;
    struct scene *scene = writer->scene;
    struct bl_arena arena = {0};
    char path[500], branch[64], file[600];
    snprintf(path, sizeof path, "%s%d", scene->worktree, writer->number);
    snprintf(branch, sizeof branch, SCENE_BRANCH "%d", writer->number);
    snprintf(file, sizeof file, "%s/new", path);
    struct git_commit_order order = {
        .worktree = path, .branch = branch, .expected = scene->head, .message = "x\n"};
    struct git_commit_result result = {0};
    int code = git_worktree_make(scene->git, branch, path, scene->head, SCENE_NOTE, &scene->error);
    FILE *out = code == 0 ? fopen(file, "we") : NULL;
    if (CHECK(out != NULL)) {
        fprintf(out, "%d\n", writer->number);
        fclose(out);
        CHECK_EQUAL(git_commit_all(scene->git, &arena, &order, &result, &scene->error), 0);
        CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    }
    bl_arena_done(&arena);
    return 0;
}

static void look_at_many(struct scene *scene)
{
    struct bl_nursery nursery;
    struct writer writers[WRITERS];
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){scene, i};
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "writer", write_one, &writers[i], NULL), 0);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK(
        strcmp(scene_output(scene, "for b in $(git for-each-ref --format='%%(refname)' "
                                   "refs/heads/belay); do git show $b:new; done | sort -n | tr -d "
                                   "'\\n'"),
               "012345") == 0);
    CHECK(scene_shell(scene, "git fsck --strict > /dev/null 2>&1"));
}

static void writers_share_one_queue(void **state)
{
    (void)state;
    scene_play(NULL, look_at_many);
}

static int free_lock(void *argument)
{
    bl_sleep(100 * BL_NS_PER_MS);
    unlink(argument);
    return 0;
}

static void look_at_busy(struct scene *scene)
{
    struct bl_nursery nursery;
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "for d in .git/worktrees/*; do touch -d '1 hour' $d/index.lock; done; "
                             "echo x > .belay/worktrees/F/A/new"));
    const char *lock = scene_output(scene, "ls $PWD/.git/worktrees/*/index.lock");
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "other", free_lock, (void *)lock, NULL);
    CHECK_EQUAL(scene_commit(scene, scene->head).end, GIT_COMMIT_MADE);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
}

static void a_busy_lock_is_waited_for(void **state)
{
    (void)state;
    scene_play(NULL, look_at_busy);
}

/* A git that was killed after it had moved the branch, and before it had renamed the index. */
static void look_at_old_index(struct scene *scene)
{
    char head[GIT_ID_SIZE];
    struct git_state state;
    if (!scene_worktree(scene))
        return;
    const char *index =
        scene_output(scene, "git -C .belay/worktrees/F/A rev-parse --git-path index");
    CHECK(scene_shell(scene,
                      "cp %s old && cd .belay/worktrees/F/A && echo x >> README.md && "
                      "git commit -qam done && cp ../../../../old %s",
                      index, index));
    CHECK_EQUAL(git_ref_find(scene->git, SCENE_BRANCH, head, &scene->error), 0);
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK_EQUAL(state.file_count, 1);
    struct git_commit_result result = scene_commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_NONE);
    CHECK(strcmp(result.head, head) == 0);
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK_EQUAL(state.file_count, 0);
}

static void F14_an_index_behind_its_branch_is_updated(void **state)
{
    (void)state;
    scene_play(NULL, look_at_old_index);
}

SUITE(commit, cmocka_unit_test(commits_all_unignored_changes_without_hooks_and_signing),
      cmocka_unit_test(belay_is_the_author_without_an_identity),
      cmocka_unit_test(bad_input_player_left_its_branch),
      cmocka_unit_test(bad_input_player_rewrote_commits),
      cmocka_unit_test(bad_input_change_over_512_mib),
      cmocka_unit_test(bad_input_change_over_50000_files),
      cmocka_unit_test(nested_repositories_are_not_added_as_submodules),
      cmocka_unit_test(a_worktree_without_its_git_file_never_uses_the_users_checkout),
      cmocka_unit_test(changes_inside_a_submodule_are_not_committed),
      cmocka_unit_test(writers_share_one_queue), cmocka_unit_test(a_busy_lock_is_waited_for),
      cmocka_unit_test(F14_an_index_behind_its_branch_is_updated));
