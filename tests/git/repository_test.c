#include "scene.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>

/* ---- Opening --------------------------------------------------------------------------------- */

static void look_at_open(struct scene *scene)
{
    uint64_t ns, programs;
    if (!CHECK(scene->git != NULL))
        return;
    CHECK(strcmp(git_folder(scene->git), scene_output(scene, "realpath .git")) == 0);
    CHECK(strcmp(scene->head, scene_output(scene, "git rev-parse HEAD")) == 0);
    git_share(scene->git, &ns, &programs);
    CHECK(ns > 0 && programs > 0);
}

static void opens_a_repository(void **state)
{
    (void)state;
    scene_play(NULL, look_at_open);
}

static void look_at_linked(struct scene *scene)
{
    struct git_repository *git = NULL;
    struct git_state state;
    char path[400];
    snprintf(path, sizeof path, "%s/linked", scene->place.root);
    if (!CHECK_EQUAL(git_open(path, &git, &scene->error), 0))
        return;
    CHECK(strcmp(git_folder(git), scene_output(scene, "realpath .git")) == 0);
    CHECK_EQUAL(git_state_read(git, &scene->arena, path, &state, &scene->error), 0);
    CHECK(state.branch != NULL && strcmp(state.branch, "refs/heads/other") == 0);
    char worktree[500];
    snprintf(worktree, sizeof worktree, "%s/.belay/worktrees/F/A", path);
    CHECK_EQUAL(git_worktree_make(git, SCENE_BRANCH, worktree, "HEAD", SCENE_NOTE, &scene->error),
                0);
    CHECK(scene_shell(scene, "cd ../linked && test -z \"$(git status --porcelain)\""));
    git_close(git);
}

static void opens_a_linked_worktree(void **state)
{
    (void)state;
    scene_play("git worktree add -q -b other ../linked", look_at_linked);
}

/* The error of git_open for a folder that a shell line made in the scratch folder. */
struct refusal {
    const char *prepare;
    const char *path; /* below the scratch folder */
    int code;
    const char *message;
    const char *hint;
};

static const struct refusal refusals[] = {
    {"mkdir plain", "plain", BL_ENOENT, "not a git repository", "git init"},
    {"git init -q --bare bare", "bare", BL_EINVAL, "bare", "git clone"},
    {"git init -q -b main empty", "empty", BL_ENOENT, "no commits yet", "first commit"},
    {"true", "absent", BL_ENOENT, "No such file", ""},
    {"mkdir repo/sub", "repo/sub", BL_EINVAL, "not the top", ""},
};

static void look_at_refusals(struct scene *scene)
{
    for (size_t i = 0; i < BL_COUNT(refusals); i++) {
        struct git_repository *git = NULL;
        struct bl_error error = {0};
        char path[400];
        CHECK(scene_shell(scene, "cd .. && %s", refusals[i].prepare));
        snprintf(path, sizeof path, "%s/%s", scene->place.root, refusals[i].path);
        CHECK_EQUAL(git_open(path, &git, &error), refusals[i].code);
        CHECK_EQUAL(error.kind, BL_KIND_FEATURE);
        if (!CHECK(strstr(error.message, refusals[i].message) != NULL) ||
            !CHECK(strstr(error.hint, refusals[i].hint) != NULL))
            fprintf(stderr, "%s: %s (%s)\n", path, error.message, error.hint);
    }
}

static void bad_input_no_repository_bare_or_without_commit(void **state)
{
    (void)state;
    setenv("GIT_CEILING_DIRECTORIES", "/tmp", 1);
    scene_play(NULL, look_at_refusals);
    unsetenv("GIT_CEILING_DIRECTORIES");
}

static void look_at_programs(struct scene *scene)
{
    struct git_repository *git = NULL;
    struct bl_error error = {0};
    const char *path = getenv("PATH");
    char other[600];
    CHECK(scene_shell(scene,
                      "mkdir ../none ../old && printf '#!/bin/sh\\necho git version 2.37.9\\n' "
                      "> ../old/git && chmod +x ../old/git"));
    char *kept = strdup(path);
    snprintf(other, sizeof other, "%s/none", scene->place.root);
    setenv("PATH", other, 1);
    CHECK_EQUAL(git_open(scene->place.repository, &git, &error), BL_ENOENT);
    CHECK(strstr(error.message, "git not found") != NULL && strstr(error.hint, "2.38") != NULL);
    error = (struct bl_error){0};
    snprintf(other, sizeof other, "%s/old:%s", scene->place.root, kept);
    setenv("PATH", other, 1);
    CHECK_EQUAL(git_open(scene->place.repository, &git, &error), BL_ENOTSUP);
    CHECK(strstr(error.message, "2.37.9") != NULL && strstr(error.hint, "2.38") != NULL);
    CHECK_EQUAL(error.kind, BL_KIND_FEATURE);
    setenv("PATH", kept, 1);
    free(kept);
}

static void bad_input_no_git_and_old_git(void **state)
{
    (void)state;
    scene_play(NULL, look_at_programs);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void look_at_refs(struct scene *scene)
{
    char id[GIT_ID_SIZE];
    struct bl_list refs;
    size_t count = 0;
    CHECK_EQUAL(git_ref_find(scene->git, "refs/heads/belay/F/A", id, &scene->error), 0);
    CHECK(strcmp(id, scene->head) == 0);
    CHECK_EQUAL(git_ref_find(scene->git, "refs/heads/packed", id, &scene->error), 0);
    CHECK(strcmp(id, scene->head) == 0);
    CHECK_EQUAL(git_ref_find(scene->git, "refs/heads/link", id, &scene->error), 0);
    CHECK_EQUAL(git_ref_find(scene->git, "refs/heads/belay/F", id, &scene->error), BL_ENOENT);
    CHECK_EQUAL(git_ref_find(scene->git, "refs/heads/nope", id, &scene->error), BL_ENOENT);
    CHECK_EQUAL(scene->error.code, 0);
    CHECK_EQUAL(git_commit_find(scene->git, "main", id, &scene->error), 0);
    CHECK_EQUAL(git_commit_find(scene->git, "--help", id, &scene->error), BL_ENOENT);
    CHECK(strstr(scene->error.message, "no commit '--help'") != NULL);
    CHECK_EQUAL(git_refs_list(scene->git, &scene->arena, "refs/heads/belay/", &refs, NULL), 0);
    BL_LIST_EACH (link, &refs)
        count++;
    CHECK_EQUAL(count, 2);
    CHECK(strcmp(BL_CONTAINER(refs.next, struct git_ref, link)->name, "refs/heads/belay/F/A") == 0);
}

static void finds_refs_in_files_and_packed(void **state)
{
    (void)state;
    scene_play("git branch packed && git pack-refs --all && git branch belay/F/A && git branch "
               "belay/F/_result && git symbolic-ref refs/heads/link refs/heads/main",
               look_at_refs);
}

static void look_at_state(struct scene *scene)
{
    struct git_state state;
    if (!scene_worktree(scene))
        return;
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK_EQUAL(state.file_count, 0);
    CHECK(strcmp(state.branch, SCENE_BRANCH) == 0 && strcmp(state.head, scene->head) == 0);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo x >> README.md && mkdir d && "
                             "touch 'd/a b' \"$(printf 'd/new\\nline')\" \"$(printf 'bad\\377')\" "
                             "&& echo y > s && git add s && ln -s /nowhere link"));
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK_EQUAL(state.file_count, 6);
    CHECK_EQUAL(state.untracked_count, 4);
    bool line = false, bytes = false;
    for (size_t i = 0; state.files[i] != NULL; i++) {
        line = line || strcmp(state.files[i], "d/new\nline") == 0;
        bytes = bytes || strcmp(state.files[i], "bad\377") == 0;
    }
    CHECK(line && bytes && !state.merging);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && git checkout -q --detach"));
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, scene->worktree, &state, &scene->error),
                0);
    CHECK(state.branch == NULL);
    CHECK_EQUAL(git_state_read(scene->git, &scene->arena, "/tmp", &state, &scene->error),
                BL_ENOENT);
}

static void reads_the_state_of_a_worktree(void **state)
{
    (void)state;
    scene_play(NULL, look_at_state);
}

static void look_at_differences(struct scene *scene)
{
    const char *const *paths;
    struct bl_text text;
    char to[GIT_ID_SIZE];
    CHECK_EQUAL(git_commit_find(scene->git, "other", to, NULL), 0);
    CHECK(git_is_ancestor(scene->git, scene->head, to));
    CHECK(!git_is_ancestor(scene->git, to, scene->head));
    CHECK_EQUAL(git_changed_paths(scene->git, &scene->arena, scene->head, to, &paths, NULL), 0);
    CHECK(strcmp(paths[0], "README.md") == 0 && strcmp(paths[1], "big") == 0 &&
          strcmp(paths[2], "latin") == 0 && paths[3] == NULL);
    CHECK_EQUAL(git_changed_paths(scene->git, &scene->arena, to, to, &paths, NULL), 0);
    CHECK(paths[0] == NULL);
    CHECK_EQUAL(git_diff_text(scene->git, &scene->arena, scene->head, to, 1 << 20, &text, NULL), 0);
    CHECK(scene_says(text, "+caf\xEF\xBF\xBD") && bl_utf8_valid(text) &&
          scene_says(text, "3 files"));
    CHECK_EQUAL(git_diff_text(scene->git, &scene->arena, scene->head, to, 2000, &text, NULL), 0);
    CHECK(text.size <= 2000 && bl_utf8_valid(text) && scene_says(text, "more bytes"));
}

static void compares_commits(void **state)
{
    (void)state;
    scene_play(
        "git checkout -q -b other && seq 5000 > big && printf 'caf\\351\\n' > latin && echo x "
        ">> README.md && git add -A && git commit -qm x && git checkout -q main",
        look_at_differences);
}

/* ---- Worktrees ------------------------------------------------------------------------------- */

static void look_at_making(struct scene *scene)
{
    const char *before = scene_checksum(scene);
    if (!scene_worktree(scene))
        return;
    CHECK(strcmp(before, scene_checksum(scene)) == 0);
    CHECK(strcmp(scene_output(scene, "git status --porcelain"), "") == 0);
    CHECK(strcmp(scene_output(scene, "git worktree list --porcelain | grep locked"),
                 "locked " SCENE_NOTE) == 0);
    CHECK(strcmp(scene_output(scene, "git -C .belay/worktrees/F/A status --porcelain --branch"),
                 "## belay/F/A") == 0);
    CHECK(scene_shell(scene, "git worktree prune && git fsck --strict > /dev/null 2>&1"));
    /* The worktree is used as it is, with a new note; the line is in info/exclude only once. */
    CHECK(scene_shell(scene, "echo mine > .belay/worktrees/F/A/new"));
    CHECK_EQUAL(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head,
                                  "run_y pid 2 started 2", &scene->error),
                0);
    CHECK(scene_shell(scene, "test \"$(cat .belay/worktrees/F/A/new)\" = mine"));
    CHECK(strcmp(scene_output(scene, "grep -c belay .git/info/exclude"), "2") == 0);
    CHECK(strcmp(scene_output(scene, "cat .git/worktrees/*/locked"), "run_y pid 2 started 2") == 0);
}

static void makes_a_worktree_or_uses_an_existing_one(void **state)
{
    (void)state;
    scene_play(NULL, look_at_making);
}

static void look_at_remaking(struct scene *scene)
{
    char id[GIT_ID_SIZE];
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo x > done && git add -A && git commit "
                             "-qm x && echo lost > lost && git add -A"));
    CHECK(scene_shell(scene, "rm -rf .belay/worktrees/F/A"));
    CHECK_EQUAL(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head,
                                  SCENE_NOTE, &scene->error),
                0);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && test -f done && test ! -e lost && test -z "
                             "\"$(git status --porcelain)\""));
    CHECK_EQUAL(git_ref_find(scene->git, SCENE_BRANCH, id, NULL), 0);
    CHECK(strcmp(id, scene->head) != 0);
    CHECK(strcmp(scene_output(scene, "ls .git/worktrees | wc -l"), "1") == 0);
    /* A worktree whose making was interrupted was never used: it is made again. */
    CHECK(scene_shell(scene,
                      "cd .git/worktrees/* && printf initializing > locked && rm index && cd "
                      "../../../.belay/worktrees/F/A && printf half > done"));
    CHECK_EQUAL(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head,
                                  SCENE_NOTE, &scene->error),
                0);
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && test \"$(cat done)\" = x && test -z "
                             "\"$(git status --porcelain)\""));
}

static void bad_input_missing_worktree_is_made_again_from_its_branch(void **state)
{
    (void)state;
    scene_play(NULL, look_at_remaking);
}

static void look_at_places_taken(struct scene *scene)
{
    struct bl_error error = {0};
    CHECK(
        scene_shell(scene, "mkdir -p .belay/worktrees/F/A && echo mine > .belay/worktrees/F/A/x"));
    CHECK_EQUAL(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head,
                                  SCENE_NOTE, &error),
                BL_EEXIST);
    CHECK(strstr(error.hint, "--fresh") != NULL && error.kind == BL_KIND_FEATURE);
    CHECK(scene_shell(scene, "test -f .belay/worktrees/F/A/x && test ! -e .git/worktrees"));
    /* A branch in the place of the folder of belay's branches. */
    CHECK(scene_shell(scene, "rm -r .belay && git branch belay"));
    error = (struct bl_error){0};
    CHECK(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head, SCENE_NOTE,
                            &error) != 0);
    CHECK(strstr(error.message, "refs/heads/belay") != NULL && error.kind == BL_KIND_FEATURE);
    CHECK(!scene_exists(scene->worktree));
    CHECK(strcmp(scene_output(scene, "git worktree list | wc -l"), "1") == 0);
    /* A branch that the user has checked out. */
    CHECK(scene_shell(scene, "git branch -m belay x && git worktree add -q -b belay/F/A ../mine"));
    error = (struct bl_error){0};
    CHECK(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head, SCENE_NOTE,
                            &error) != 0);
    CHECK(strstr(error.message, "/mine'") != NULL);
    CHECK(scene_shell(scene, "test -f ../mine/README.md"));
}

static void bad_input_places_that_are_taken(void **state)
{
    (void)state;
    scene_play(NULL, look_at_places_taken);
}

static void look_at_moving(struct scene *scene)
{
    char aside[500], id[GIT_ID_SIZE];
    snprintf(aside, sizeof aside, "%s.1", scene->worktree);
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "cd .belay/worktrees/F/A && echo x >> README.md && echo y > staged && "
                             "git add staged && echo z > untracked"));
    CHECK_EQUAL(git_worktree_move(scene->git, scene->worktree, aside, &scene->error), 0);
    CHECK(!scene_exists(scene->worktree));
    CHECK(strcmp(scene_output(scene, "git -C .belay/worktrees/F/A.1 status --porcelain --branch"),
                 "## HEAD (no branch)\n M README.md\nA  staged\n?? untracked") == 0);
    CHECK(strcmp(scene_output(scene, "git worktree list --porcelain | grep -c ^locked"), "1") == 0);
    /* Repeated, as after a kill: nothing happens, also if the last step was missing. */
    CHECK_EQUAL(git_worktree_move(scene->git, scene->worktree, aside, &scene->error), 0);
    CHECK(scene_shell(scene, "mv .belay/worktrees/F/A.1 .belay/worktrees/F/A"));
    CHECK_EQUAL(git_worktree_move(scene->git, scene->worktree, aside, &scene->error), 0);
    /* The name is free, and the branch can be deleted once another ref keeps its commits. */
    CHECK_EQUAL(git_ref_swap(scene->git, "refs/belay/rescue/F/A/1", NULL, scene->head, "rescue",
                             &scene->error),
                0);
    CHECK_EQUAL(git_ref_swap(scene->git, SCENE_BRANCH, scene->head, NULL, "rescue", &scene->error),
                0);
    CHECK_EQUAL(git_ref_find(scene->git, SCENE_BRANCH, id, NULL), BL_ENOENT);
    scene_worktree(scene);
    CHECK(strcmp(scene_output(scene, "git worktree list | wc -l"), "3") == 0);
}

static void F29_a_worktree_moves_aside_with_all_its_files(void **state)
{
    (void)state;
    scene_play(NULL, look_at_moving);
}

static void look_at_removing(struct scene *scene)
{
    struct bl_error error = {0};
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene, "echo x > .belay/worktrees/F/A/untracked"));
    CHECK(git_worktree_remove(scene->git, scene->worktree, &error) != 0);
    CHECK(strstr(error.message, "untracked") != NULL);
    CHECK(strcmp(scene_output(scene, "git worktree list --porcelain | grep locked"),
                 "locked " SCENE_NOTE) == 0);
    CHECK(scene_shell(scene, "rm .belay/worktrees/F/A/untracked"));
    CHECK_EQUAL(git_worktree_remove(scene->git, scene->worktree, &scene->error), 0);
    CHECK(!scene_exists(scene->worktree));
    CHECK(strcmp(scene_output(scene, "git worktree list | wc -l; ls .belay"), "1") == 0);
    CHECK_EQUAL(git_worktree_remove(scene->git, scene->worktree, &scene->error), 0);
    /* A worktree whose folder is missing is removed from the list. */
    scene_worktree(scene);
    CHECK(scene_shell(scene, "rm -rf .belay/worktrees/F/A"));
    CHECK_EQUAL(git_worktree_remove(scene->git, scene->worktree, &scene->error), 0);
    CHECK(strcmp(scene_output(scene, "git worktree list | wc -l"), "1") == 0);
}

static void removes_a_clean_worktree(void **state)
{
    (void)state;
    scene_play(NULL, look_at_removing);
}

/* If an extension needs more files, git makes the worktree. */
static void makes_a_worktree_where_the_format_has_extensions(void **state)
{
    (void)state;
    scene_play("git config core.repositoryformatversion 1 && git config extensions.worktreeConfig "
               "true",
               look_at_moving);
}

/* ---- The queue ------------------------------------------------------------------------------- */

static void look_at_foreign_lock(struct scene *scene)
{
    char path[400];
    snprintf(path, sizeof path, "%s/belay.lock", git_folder(scene->git));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    CHECK_EQUAL(flock(fd, LOCK_EX), 0);
    /* A stop ends the wait before anything has begun. */
    struct bl_scope scope, *outer;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 50 * BL_NS_PER_MS);
    outer = bl_scope_enter(&scope);
    CHECK_EQUAL(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head,
                                  SCENE_NOTE, &scene->error),
                BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK(!scene_exists(scene->worktree));
    /* Without a stop, it ends after 10 s. */
    if (suite_rounds(0, 1) > 0) {
        CHECK_EQUAL(write(fd, "4711", 5), 5);
        CHECK_EQUAL(git_worktree_make(scene->git, SCENE_BRANCH, scene->worktree, scene->head,
                                      SCENE_NOTE, &scene->error),
                    BL_EBUSY);
        CHECK(scene->error.kind == BL_KIND_FEATURE &&
              strstr(scene->error.message, "pid 4711") != NULL);
    }
    close(fd);
    scene_worktree(scene);
}

static void a_stop_ends_the_wait_for_the_queue(void **state)
{
    (void)state;
    scene_play(NULL, look_at_foreign_lock);
}

/* A slow clean filter: the write has begun when it is stopped. */
static void look_at_shield(struct scene *scene)
{
    struct git_commit_order order = {.worktree = scene->worktree,
                                     .branch = SCENE_BRANCH,
                                     .expected = scene->head,
                                     .message = "slow"};
    struct git_commit_result result;
    struct bl_scope scope, *outer;
    if (!scene_worktree(scene))
        return;
    CHECK(scene_shell(scene,
                      "cd .belay/worktrees/F/A && echo '*.slow filter=slow' > .gitattributes "
                      "&& echo x > a.slow"));
    bl_scope_init(&scope, bl_scope_current());
    uint64_t stop_ns = bl_now_ns() + 150 * BL_NS_PER_MS;
    bl_scope_set_deadline(&scope, stop_ns);
    outer = bl_scope_enter(&scope);
    int code = git_commit_all(scene->git, &scene->arena, &order, &result, &scene->error);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    /* Stopped between two programs, or complete; a running program is stopped only after 5 s. */
    CHECK(code == 0 || code == BL_ETIMEDOUT);
    CHECK(bl_now_ns() - stop_ns < 15 * BL_NS_PER_S);
    CHECK(scene_shell(scene, "test -z \"$(find .git -name '*.lock' ! -name belay.lock)\""));
    CHECK(scene_shell(scene, "git -C .belay/worktrees/F/A status --porcelain > /dev/null"));
}

static void F15_a_stop_in_a_write_leaves_no_lock_file(void **state)
{
    (void)state;
    scene_play_configured("git config --global filter.slow.clean 'sleep 0.4; cat'", NULL,
                          look_at_shield);
    if (suite_rounds(0, 1) > 0)
        scene_play_configured("git config --global filter.slow.clean 'sleep 60; cat'", NULL,
                              look_at_shield);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void bad_input_disk_full_and_messages_of_git(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        int code;
        enum bl_error_kind kind;
        const char *message;
    } cases[] = {
        {"error: file write error: No space left on device\nfatal: x\n", BL_ENOSPC,
         BL_KIND_FILESYSTEM, "No space left on device fatal: x"},
        {"fatal: Unable to create '/r/.git/index.lock': File exists.\n", BL_EBUSY, BL_KIND_FEATURE,
         "index.lock"},
        {"fatal: \033[31mred \377", BL_ESYSTEM, BL_KIND_FEATURE,
         "fatal: \\x1b[31mred \xEF\xBF\xBD"},
        {"", BL_ESYSTEM, BL_KIND_FEATURE, "exited with code 128"},
    };
    struct bl_git_call call = {.operation = "commit the work", .directory = "/r"};
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        struct bl_git_answer answer = {.status = 128, .words = bl_text_from(cases[i].words)};
        assert_int_equal(bl_git_refuse(&call, &answer, &error), cases[i].code);
        assert_int_equal(error.kind, cases[i].kind);
        if (strstr(error.message, cases[i].message) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].message, error.message);
    }
}

/* ---- Promises -------------------------------------------------------------------------------- */

static void sources_contain_no_destructive_commands(void **state)
{
    (void)state;
    static const char *const files[] = {
        "git/repository.c", "git/commit.c", "git/copy.c",     "git/lock.c",         "git/merge.c",
        "git/read.c",       "git/queue.c",  "git/worktree.c", "feature/run/clean.c"};
    static const char *const words[] = {"--hard",    "\"clean\"", "\"stash\"",
                                        "\"-D\"",    "--force",   "\"reset\"",
                                        "\"-f\",\"", "\"gc\"",    "\"prune\""};
    const char *root = getenv("BELAY_SOURCE_ROOT");
    for (size_t i = 0; root != NULL && i < BL_COUNT(files); i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/src/%s", root, files[i]);
        struct bl_text text = suite_read_file(path);
        for (size_t j = 0; j < BL_COUNT(words); j++)
            suite_fail_if(bl_text_find(text, bl_text_from(words[j])) >= 0, "%s has %s", path,
                          words[j]);
        bl_free((char *)text.data);
    }
}

SUITE(repository, cmocka_unit_test(opens_a_repository), cmocka_unit_test(opens_a_linked_worktree),
      cmocka_unit_test(bad_input_no_repository_bare_or_without_commit),
      cmocka_unit_test(bad_input_no_git_and_old_git),
      cmocka_unit_test(finds_refs_in_files_and_packed),
      cmocka_unit_test(reads_the_state_of_a_worktree), cmocka_unit_test(compares_commits),
      cmocka_unit_test(makes_a_worktree_or_uses_an_existing_one),
      cmocka_unit_test(bad_input_missing_worktree_is_made_again_from_its_branch),
      cmocka_unit_test(bad_input_places_that_are_taken),
      cmocka_unit_test(F29_a_worktree_moves_aside_with_all_its_files),
      cmocka_unit_test(removes_a_clean_worktree),
      cmocka_unit_test(makes_a_worktree_where_the_format_has_extensions),
      cmocka_unit_test(a_stop_ends_the_wait_for_the_queue),
      cmocka_unit_test(F15_a_stop_in_a_write_leaves_no_lock_file),
      cmocka_unit_test(bad_input_disk_full_and_messages_of_git),
      cmocka_unit_test(sources_contain_no_destructive_commands));
