#include "scene.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

/* Lists all lock files that a killed git can leave. */
static const char *left_locks(struct scene *scene)
{
    return scene_output(scene, "cd .git && find . '(' -name '*.lock' -o -name packed-refs.new ')' "
                               "! -name belay.lock | sort");
}

static void expect_no_locks(struct scene *scene)
{
    const char *left = left_locks(scene);
    if (!CHECK(left[0] == '\0'))
        fprintf(stderr, "left in .git: %s\n", left);
}

/* ---- Locks in belay's own places ------------------------------------------------------------- */

static void look_at_dead_locks(struct scene *scene)
{
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .git && for d in worktrees/*; do touch -d '1 minute ago' "
                             "$d/index.lock $d/HEAD.lock; done && touch -d '1 minute ago' "
                             "refs/heads/belay/F/A.lock refs/heads/main.lock index.lock"));
    scene_worktree(scene);
    CHECK(strcmp(scene_output(scene, "cd .git && find . -name '*.lock' ! -name belay.lock | sort"),
                 "./index.lock\n./refs/heads/main.lock") == 0);
    /* A lock that blocks a write is removed too, and the write continues. */
    struct git_commit_order order = {.worktree = scene->worktree,
                                     .branch = SCENE_BRANCH,
                                     .expected = scene->head,
                                     .message = "x"};
    struct git_commit_result result;
    CHECK(scene_shell(scene, "for d in .git/worktrees/*; do touch -d '1 minute ago' "
                             "$d/index.lock; done; echo x > .belay/worktrees/F/A/new"));
    CHECK_EQUAL(git_commit_all(scene->git, &scene->arena, &order, &result, &scene->error), 0);
    CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
}

static void only_own_locks_of_dead_programs_are_removed(void **state)
{
    (void)state;
    scene_play(NULL, look_at_dead_locks);
}

/* A program named git that runs in the worktree may be the owner. */
static void look_at_live_lock(struct scene *scene)
{
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene,
                      "cp /bin/sleep ../git-sleep && cd .belay/worktrees/F/A && { "
                      "../../../../../git-sleep 60 > /dev/null 2>&1 & } && echo $! > "
                      "../../../../../pid && until grep -q git-sleep /proc/$!/comm; do sleep "
                      "0.01; done && for d in ../../../../.git/worktrees/*; do touch -d '1 "
                      "minute ago' $d/index.lock; done"));
    struct git_locks locks = {
        .own = {scene_output(scene, "ls $PWD/.git/worktrees/*/index.lock")},
        .worktree = scene->worktree,
    };
    struct git_write write;
    if (CHECK_EQUAL(git_write_begin(&write, scene->git, "look", &scene->error), 0)) {
        CHECK(!git_locks_clear(scene->git, &locks));
        CHECK(scene_shell(scene, "kill $(cat ../pid)"));
        for (int i = 0; i < 200 && !git_locks_clear(scene->git, &locks); i++)
            bl_sleep(10 * BL_NS_PER_MS);
        CHECK(!scene_exists(locks.own[0]));
        git_write_end(&write);
    }
}

static void a_lock_whose_owner_may_be_alive_is_kept(void **state)
{
    (void)state;
    scene_play(NULL, look_at_live_lock);
}

/* ---- Killed at any moment -------------------------------------------------------------------- */

/* The role of a belay that is killed: it commits endlessly. Does nothing unless a test started it.
 */
static int write_for_ever(void *argument)
{
    const char *repository = argument;
    struct git_repository *git = NULL;
    struct bl_arena arena = {0};
    char head[GIT_ID_SIZE], path[500], file[600], started[600];
    snprintf(path, sizeof path, "%s/.belay/worktrees/F/A", repository);
    snprintf(file, sizeof file, "%s/new", path);
    if (git_open(repository, &git, NULL) != 0 || git_commit_find(git, "HEAD", head, NULL) != 0)
        return 0;
    snprintf(started, sizeof started, "%s/../started", repository);
    close(open(started, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    for (long i = 0;; i++) {
        struct git_commit_order order = {
            .worktree = path, .branch = SCENE_BRANCH, .expected = head, .message = "x\n"};
        struct git_commit_result result;
        git_worktree_make(git, SCENE_BRANCH, path, head, SCENE_NOTE, NULL);
        FILE *out = fopen(file, "we");
        if (out == NULL)
            continue;
        fprintf(out, "%ld\n", i);
        fclose(out);
        git_commit_all(git, &arena, &order, &result, NULL);
        git_ref_swap(git, "refs/heads/belay/F/B", NULL, head, "x", NULL);
        git_ref_swap(git, "refs/heads/belay/F/B", head, NULL, "x", NULL);
        bl_arena_reset(&arena);
    }
}

static void role_writes_until_it_is_killed(void **state)
{
    (void)state;
    char *repository = getenv("BELAY_TEST_KILLED_REPOSITORY");
    if (repository == NULL)
        suite_skip("a role in another test");
    run_in_loop(write_for_ever, repository);
}

/* `folder`, next to the repository, has programs that take precedence; NULL: none. */
static pid_t start_role(struct scene *scene, const char *folder)
{
    pid_t pid;
    char *arguments[] = {(char *)"test", (char *)"role_writes_until_it_is_killed", NULL};
    const char *path = bl_arena_text(&scene->arena, bl_text_from(getenv("PATH"))).data;
    setenv("BELAY_TEST_KILLED_REPOSITORY", scene->place.repository, 1);
    if (folder != NULL)
        setenv("PATH", git_text(&scene->arena, "%s/%s:%s", scene->place.root, folder, path), 1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int result = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    unsetenv("BELAY_TEST_KILLED_REPOSITORY");
    setenv("PATH", path, 1);
    return result == 0 ? pid : -1;
}

static void look_at_kills(struct scene *scene)
{
    struct bl_random random;
    char first[GIT_ID_SIZE], started[300];
    snprintf(started, sizeof started, "%s/started", scene->place.root);
    unsigned long rounds = suite_rounds(4, 200);
    const char *before = scene_checksum(scene);
    CHECK(scene_shell(scene, "git pack-refs --all"));
    bl_random_seed(&random, 40);
    for (unsigned long i = 0; i < rounds; i++) {
        pid_t pid = start_role(scene, NULL);
        if (!CHECK(pid > 0))
            return;
        while (!scene_exists(started))
            bl_sleep(BL_NS_PER_MS);
        unlink(started);
        bl_sleep(bl_random_below(&random, 100 * BL_NS_PER_MS));
        kill(pid, SIGKILL);
        CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
        /* The next belay starts in the same place, and its own work succeeds. */
        scene_worktree(scene);
        CHECK_EQUAL(git_ref_find(scene->git, SCENE_BRANCH, first, &scene->error), 0);
        CHECK(scene_shell(scene, "echo %lu > .belay/worktrees/F/A/after", i));
        struct git_commit_result result = scene_commit(scene, first);
        CHECK_EQUAL(result.end, GIT_COMMIT_MADE);
        char other[GIT_ID_SIZE];
        int code = git_ref_swap(scene->git, "refs/heads/belay/F/B", NULL, scene->head, "x", NULL);
        CHECK(code == 0 || code == BL_EBUSY);
        CHECK_EQUAL(git_ref_find(scene->git, "refs/heads/belay/F/B", other, &scene->error), 0);
        CHECK_EQUAL(
            git_ref_swap(scene->git, "refs/heads/belay/F/B", other, NULL, "x", &scene->error), 0);
        CHECK(strcmp(before, scene_checksum(scene)) == 0);
        if (i % 10 == 0)
            CHECK(scene_shell(scene, "git fsck --strict > /dev/null 2>&1"));
        expect_no_locks(scene);
    }
}

static void F14_a_kill_during_a_write_does_no_damage(void **state)
{
    (void)state;
    scene_play(NULL, look_at_kills);
}

/* ---- Killed while a program holds its locks -------------------------------------------------- */

/* Puts a git into `bin` next to the repository. If its arguments contain `pattern`, it makes these
 * files (relative to the git directory) and waits; otherwise it runs the real git. */
static bool put_holding_git(struct scene *scene, const char *pattern, const char *files)
{
    return scene_shell(scene,
                       "real=$(command -v git) && mkdir -p ../bin && rm -f ../held && cat > "
                       "../bin/git <<END\n#!/bin/sh\ncase \"\\$*\" in *\"%s\"*)\n"
                       "readlink /proc/\\$\\$/fd/0 > $PWD/../input\ncat | wc -c > $PWD/../size\n"
                       "cd $PWD/.git && mkdir -p refs/heads/belay/F && touch %s && touch "
                       "$PWD/../held\nwhile :; do sleep 0.05; "
                       "done;;\nesac\nexec $real \"\\$@\"\nEND\nchmod +x ../bin/git",
                       pattern, files);
}

/* Kills a belay while its git holds these locks. */
static bool kill_holding(struct scene *scene, const char *pattern, const char *files)
{
    const char *held = git_text(&scene->arena, "%s/held", scene->place.root);
    if (!CHECK(put_holding_git(scene, pattern, files)))
        return false;
    pid_t pid = start_role(scene, "bin");
    for (int i = 0; i < 30000 && pid > 0 && !scene_exists(held); i++)
        bl_sleep(BL_NS_PER_MS);
    bool there = CHECK(pid > 0 && scene_exists(held));
    if (pid > 0) {
        kill(pid, SIGKILL);
        CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
    }
    return there;
}

/* Another write, for a different task. */
static void write_elsewhere(struct scene *scene)
{
    static int number;
    const char *ref = git_text(&scene->arena, "refs/heads/belay/F/C%d", number++);
    if (!CHECK_EQUAL(git_ref_swap(scene->git, ref, NULL, scene->head, "x", &scene->error), 0))
        fprintf(stderr, "%s\n", scene->error.message);
}

#define WORKTREE_LOCKS                                                                             \
    "worktrees/belay-F-A/index.lock worktrees/belay-F-A/HEAD.lock "                                \
    "worktrees/belay-F-A/ORIG_HEAD.lock refs/heads/belay/F/A.lock"
#define DELETE_LOCKS "refs/heads/belay/F/B.lock packed-refs.lock packed-refs.new"

static void look_at_held_locks(struct scene *scene)
{
    static const struct {
        const char *pattern, *files;
    } programs[] = {
        {"commit -q", WORKTREE_LOCKS},
        {"update-ref --no-deref -d", DELETE_LOCKS},
        {"checkout -q", WORKTREE_LOCKS},
        {"update-index", "worktrees/belay-F-A/index.lock"},
        {"--create-reflog", "refs/heads/belay/F/B.lock"},
    };
    size_t count = suite_rounds(2, BL_COUNT(programs));
    for (size_t i = 0; i < count; i++) {
        if (!kill_holding(scene, programs[i].pattern, programs[i].files))
            return;
        write_elsewhere(scene);
        expect_no_locks(scene);
        /* The user's own git works. */
        CHECK(scene_shell(scene, "git pack-refs --all"));
        scene_shell(scene, "git update-ref -d refs/heads/belay/F/B");
        /* The next round begins like the first. */
        CHECK(scene_shell(scene, "rm -rf .belay/worktrees .git/worktrees && git update-ref -d "
                                 "refs/heads/belay/F/A"));
    }
}

static void F14_the_next_write_removes_every_lock_of_a_killed_one(void **state)
{
    (void)state;
    scene_play(NULL, look_at_held_locks);
}

/* The kernel keeps the queue locked until the program has exited. A program that reads its standard
 * input finds the end. */
static void look_at_lock_of_program(struct scene *scene)
{
    if (!kill_holding(scene, "update-ref --no-deref -d", DELETE_LOCKS))
        return;
    CHECK(strcmp(scene_output(scene, "cat ../input"),
                 scene_output(scene, "echo $PWD/.git/belay.lock")) == 0);
    CHECK(strcmp(scene_output(scene, "cat ../size"), "0") == 0);
    /* A command that only reads removes them too. */
    for (int i = 0; i < 1000 && left_locks(scene)[0] != '\0'; i++) {
        git_left_clear(scene->git);
        bl_sleep(10 * BL_NS_PER_MS);
    }
    expect_no_locks(scene);
    CHECK(strcmp(scene_output(scene, "stat -c %%s .git/belay.lock"), "0") == 0);
}

static void F14_a_program_keeps_the_queue_locked_while_it_lives(void **state)
{
    (void)state;
    scene_play(NULL, look_at_lock_of_program);
}

/* A git of the user that runs elsewhere, and got the repository from a variable. */
static void look_at_user_git(struct scene *scene)
{
    if (!kill_holding(scene, "update-ref --no-deref -d", DELETE_LOCKS))
        return;
    CHECK(scene_shell(scene,
                      "mkdir ../user && cp /bin/sleep ../user/git && repository=$PWD && cd / && { "
                      "GIT_DIR=$repository/.git $repository/../user/git 60 > /dev/null 2>&1 & } && "
                      "echo $! > $repository/../pid && until grep -q '^git' /proc/$!/comm; do "
                      "sleep 0.01; done"));
    write_elsewhere(scene);
    CHECK(strcmp(left_locks(scene), "./packed-refs.lock\n./packed-refs.new\n"
                                    "./refs/heads/belay/F/B.lock") == 0);
    CHECK(scene_shell(scene, "kill $(cat ../pid) && while grep -qs '^git' /proc/$(cat "
                             "../pid)/comm; do sleep 0.01; done"));
    /* A lock that could not be removed then is remembered, both here and by the next belay. */
    git_close(scene->git);
    CHECK_EQUAL(git_open(scene->place.repository, &scene->git, &scene->error), 0);
    write_elsewhere(scene);
    expect_no_locks(scene);
}

static void F14_a_lock_that_the_users_git_may_hold_is_kept(void **state)
{
    (void)state;
    scene_play(NULL, look_at_user_git);
}

/* A lock made before the killed program started, so by another program. */
static void look_at_older_lock(struct scene *scene)
{
    if (!kill_holding(scene, "update-ref --no-deref -d", DELETE_LOCKS))
        return;
    CHECK(scene_shell(scene, "touch -d '1 minute ago' .git/packed-refs.lock"));
    write_elsewhere(scene);
    CHECK(strcmp(left_locks(scene), "./packed-refs.lock") == 0);
    CHECK(strcmp(scene_output(scene, "stat -c %%s .git/belay.lock"), "0") == 0);
}

static void F14_an_older_lock_is_kept(void **state)
{
    (void)state;
    scene_play(NULL, look_at_older_lock);
}

/* A mark written by a tool. */
static void look_at_planted_mark(struct scene *scene)
{
    CHECK(scene_shell(
        scene, "mkdir ../mine && touch ../mine/a.lock ../mine/notes .git/really.lock && "
               "ln -s $PWD/../mine .git/link && printf '1\\0' > .git/belay.lock && for f in "
               "$PWD/../mine/a.lock $PWD/.git/../../mine/a.lock $PWD/.git/link/a.lock "
               "$PWD/../mine/notes $PWD/.git/config $PWD/.git/HEAD $PWD/.git/really.lock; do "
               "printf 'own\\0000\\0\\0%%s\\0' $f >> .git/belay.lock; done && touch -d '1 "
               "minute ago' ../mine/a.lock ../mine/notes .git/config .git/HEAD "
               ".git/really.lock"));
    write_elsewhere(scene);
    CHECK(scene_shell(scene,
                      "test -e ../mine/a.lock && test -e ../mine/notes && test -e .git/config "
                      "&& test -e .git/HEAD"));
    /* The mark was read to its end. */
    expect_no_locks(scene);
}

static void a_mark_removes_nothing_but_locks_in_the_git_directory(void **state)
{
    (void)state;
    scene_play(NULL, look_at_planted_mark);
}

SUITE(lock, cmocka_unit_test(only_own_locks_of_dead_programs_are_removed),
      cmocka_unit_test(a_lock_whose_owner_may_be_alive_is_kept),
      cmocka_unit_test(role_writes_until_it_is_killed),
      cmocka_unit_test(F14_a_kill_during_a_write_does_no_damage),
      cmocka_unit_test(F14_the_next_write_removes_every_lock_of_a_killed_one),
      cmocka_unit_test(F14_a_program_keeps_the_queue_locked_while_it_lives),
      cmocka_unit_test(F14_a_lock_that_the_users_git_may_hold_is_kept),
      cmocka_unit_test(F14_an_older_lock_is_kept),
      cmocka_unit_test(a_mark_removes_nothing_but_locks_in_the_git_directory));
