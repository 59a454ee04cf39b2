#include "scene.h"

#include <fcntl.h>

static uint64_t programs(struct scene *scene)
{
    uint64_t ns, count;
    git_share(scene->git, &ns, &count);
    return count;
}

/* Git is asked for the configuration as well while that is younger than 20 ms: a change of it might
 * not show in its times. */
static bool open_worktree(struct scene *scene)
{
    bool made = scene_worktree(scene);
    bl_sleep(50 * BL_NS_PER_MS);
    return made;
}

/* Returns how many files a state lists; `*ret_programs` is the number of programs that were run. */
static size_t count_files(struct scene *scene, uint64_t *ret_programs)
{
    struct git_state state = {0};
    uint64_t before = programs(scene);
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    *ret_programs = programs(scene) - before;
    return state.file_count;
}

static struct git_commit_result commit(struct scene *scene, const char *expected)
{
    struct git_commit_order order = {.worktree = scene->worktree,
                                     .branch = SCENE_BRANCH,
                                     .expected = expected,
                                     .message = "belay: F/A turn 1\n"};
    struct git_commit_result result = {0};
    CHECK_EQUAL(git_commit_all(scene->git, &scene->arena, &order, &result, &scene->error), 0);
    return result;
}

static void look_without_change(struct scene *scene)
{
    struct git_state state;
    uint64_t asked;
    if (!open_worktree(scene))
        return;
    CHECK_EQUAL(count_files(scene, &asked), 0);
    CHECK_EQUAL(asked, 0);
    CHECK_EQUAL(commit(scene, scene->head).end, GIT_COMMIT_NONE);
    git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error);
    CHECK(strcmp(state.head, scene->head) == 0);
    CHECK(state.branch != NULL && strcmp(state.branch, SCENE_BRANCH) == 0);
    /* Also after a commit. */
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo x > new && echo y >> README.md && "
                             "printf '*.o\\n' > .gitignore && echo o > a.o"));
    struct git_commit_result result = commit(scene, scene->head);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
    CHECK_EQUAL(count_files(scene, &asked), 0);
    CHECK_EQUAL(asked, 0);
    git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error);
    CHECK(strcmp(state.head, result.head) == 0);
}

static void no_program_is_run_if_nothing_has_changed(void **state)
{
    (void)state;
    scene_play(NULL, look_without_change);
}

/* Makes each change in the worktree of A, checks that it is detected, and undoes it. */
static void look_at_changes(struct scene *scene)
{
    static const struct {
        const char *change;
        size_t files;
        const char *undo;
    } changes[] = {
        {"echo x > new", 1, "rm new"},
        {"echo 'A-B-C' > five", 1, "git checkout -q five"},
        {"touch -r five ../mark && printf 'abcde\\n' > five && touch -r ../mark five", 1,
         "git checkout -q five"},
        {"chmod +x five", 1, "chmod -x five"},
        {"rm folder/inside", 1, "git checkout -q folder"},
        {"ln -sfn elsewhere link", 1, "git checkout -q link"},
        {"echo x > five && git add five", 1, "git reset -q && git checkout -q five"},
        {"git rm -q --cached five", 2, "git reset -q"},
        {"mv folder other", 2, "mv other folder"},
        {"git merge -q --no-commit --no-ff side", 1, "git merge --abort"},
        {"mkdir folder/empty", 0, "rmdir folder/empty"},
        {"echo x > a.ignored", 0, "rm a.ignored"},
        {"touch five", 0, ":"},
        {"cp -p five ../copy && mv ../copy five", 0, ":"},
    };
    uint64_t asked;
    if (!open_worktree(scene))
        return;
    for (size_t i = 0; i < BL_COUNT(changes); i++) {
        CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && %s", changes[i].change));
        if (!CHECK_EQUAL(count_files(scene, &asked), changes[i].files))
            fprintf(stderr, "%s\n", changes[i].change);
        CHECK_EQUAL(asked, 1);
        CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && %s", changes[i].undo));
        CHECK_EQUAL(count_files(scene, &asked), 0);
        /* Git has found it clean, so from now on that is known. */
        CHECK_EQUAL(count_files(scene, &asked), 0);
        CHECK_EQUAL(asked, 0);
    }
}

static void every_change_is_detected(void **state)
{
    (void)state;
    scene_play("mkdir folder && echo x > folder/inside && ln -s nowhere link && echo '*.ignored' > "
               ".gitignore && printf '12345\\n' > five && git add -A && git commit -qm more && git "
               "checkout -q -b side && echo s > side && git add side && git commit -qm side && git "
               "checkout -q main",
               look_at_changes);
}

/* A change in the same tick of the clock as the digest, with the same size, and with its time set
 * back. */
static void look_at_ticks(struct scene *scene)
{
    uint64_t asked;
    char path[500];
    if (!open_worktree(scene))
        return;
    snprintf(path, sizeof path, "%s/five", scene->worktree);
    for (long i = 0, rounds = suite_rounds(20, 1000); i < rounds; i++) {
        struct stat status;
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        count_files(scene, &asked);
        CHECK_EQUAL(count_files(scene, &asked), 0);
        CHECK(asked == 0 && fstat(fd, &status) == 0);
        CHECK_EQUAL(pwrite(fd, "abcde", 5, 0), 5);
        CHECK_EQUAL(futimens(fd, (struct timespec[]){status.st_atim, status.st_mtim}), 0);
        /* Git is run, even if it may not detect such a change itself. */
        count_files(scene, &asked);
        CHECK_EQUAL(asked, 1);
        CHECK_EQUAL(pwrite(fd, "12345", 5, 0), 5);
        close(fd);
    }
}

static void a_change_in_the_same_tick_is_detected(void **state)
{
    (void)state;
    scene_play("printf '12345\\n' > five && git add -A && git commit -qm more", look_at_ticks);
}

static void look_from_outside(struct scene *scene)
{
    struct git_state state;
    uint64_t asked;
    if (!open_worktree(scene))
        return;
    /* The branch has moved, and no file has changed. */
    CHECK(scene_shell(scene, "git update-ref " SCENE_BRANCH " main~1"));
    CHECK_EQUAL(count_files(scene, &asked), 1);
    CHECK_EQUAL(asked, 1);
    CHECK(scene_shell(scene, "git update-ref " SCENE_BRANCH " main"));
    CHECK_EQUAL(count_files(scene, &asked), 0);
    /* A detached HEAD. */
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q --detach"));
    git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error);
    CHECK(state.branch == NULL);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q belay/F/A"));
    CHECK_EQUAL(count_files(scene, &asked), 0);
    CHECK_EQUAL(count_files(scene, &asked), 0);
    CHECK_EQUAL(asked, 0);
    /* A nested repository hides changes in it. */
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git init -q inner"));
    CHECK_EQUAL(count_files(scene, &asked), 1);
    CHECK_EQUAL(count_files(scene, &asked), 1);
    CHECK_EQUAL(asked, 1);
    /* For the user's checkout, git is always run. */
    uint64_t before = programs(scene);
    for (int i = 0; i < 2; i++)
        git_state_read(scene->git, &scene->arena, scene->place.repository, &state, &scene->error);
    CHECK_EQUAL(programs(scene) - before, 2);
}

static void moved_branches_and_nested_repositories_are_detected(void **state)
{
    (void)state;
    scene_play("echo x > more && git add -A && git commit -qm more", look_from_outside);
}

/* A worktree that existed before: nothing is known about it until git has run. */
static void look_at_taken(struct scene *scene)
{
    uint64_t asked;
    if (!open_worktree(scene))
        return;
    CHECK(scene_shell(scene, "echo x > .belay/worktrees/F/A/new"));
    CHECK(scene_worktree(scene));
    CHECK_EQUAL(count_files(scene, &asked), 1);
    CHECK_EQUAL(asked, 1);
    CHECK(scene_shell(scene, "rm .belay/worktrees/F/A/new"));
    CHECK_EQUAL(count_files(scene, &asked), 0);
    CHECK_EQUAL(asked, 1);
    CHECK_EQUAL(count_files(scene, &asked), 0);
    CHECK_EQUAL(asked, 0);
}

static void git_is_run_first_for_an_existing_worktree(void **state)
{
    (void)state;
    scene_play(NULL, look_at_taken);
}

/* For a worktree without a digest, git is run each time; another digest is never used for it. */
static void look_behind_a_link(struct scene *scene)
{
    uint64_t asked;
    if (!open_worktree(scene))
        return;
    count_files(scene, &asked);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F && mv A B && ln -s B A"));
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(count_files(scene, &asked), 0);
        CHECK_EQUAL(asked, 1);
    }
    CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

static void git_is_run_each_time_for_a_worktree_behind_a_link(void **state)
{
    (void)state;
    scene_play(NULL, look_behind_a_link);
}

SUITE(sight, cmocka_unit_test(no_program_is_run_if_nothing_has_changed),
      cmocka_unit_test(every_change_is_detected),
      cmocka_unit_test(a_change_in_the_same_tick_is_detected),
      cmocka_unit_test(moved_branches_and_nested_repositories_are_detected),
      cmocka_unit_test(git_is_run_first_for_an_existing_worktree),
      cmocka_unit_test(git_is_run_each_time_for_a_worktree_behind_a_link));
