#include "scene.h"

#include <errno.h>

static const char *make_copy(struct scene *scene, const char *commit)
{
    const char *path = git_text(&scene->arena, "%s/copies/one", scene->place.root);
    if (!CHECK_EQUAL(git_copy_make(scene->git, commit, path, &scene->error), 0))
        fprintf(stderr, "%s\n", scene->error.message);
    return path;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static void look_at_copy(struct scene *scene)
{
    const char *before = scene_checksum(scene);
    const char *path = make_copy(scene, scene->head);
    CHECK(scene_shell(scene,
                      "cd ../copies/one && test -z \"$(git status --porcelain)\" && test "
                      "\"$(git rev-parse HEAD)\" = %s && test \"$(git log --oneline | wc -l)\" "
                      "= 2 && test -x run && test -L link && git ls-files -s > ../a && git -C "
                      "%s ls-files -s | cmp - ../a",
                      scene->head, scene->place.repository));
    /* Changes in the copy do not affect the repository. */
    CHECK(scene_shell(scene, "cd ../copies/one && echo x > new && git add -A && git -c user.name=x "
                             "-c user.email=x@example.test commit -qm x && git checkout -q -b main "
                             "&& git branch belay/F/A && git gc -q --prune=now"));
    CHECK(scene_shell(scene, "git fsck --strict > /dev/null 2>&1"));
    CHECK(strcmp(before, scene_checksum(scene)) == 0);
    CHECK(strcmp(scene_output(scene, "git for-each-ref refs/heads | wc -l"), "1") == 0);
    struct bl_error error = {0};
    CHECK_EQUAL(git_copy_make(scene->git, scene->head, path, &error), BL_EEXIST);
    git_copy_remove(scene->git, path);
    CHECK(!scene_exists(path));
    CHECK(git_copy_make(scene->git, "0123456789012345678901234567890123456789", path, &error) != 0);
    CHECK(!scene_exists(path));
    CHECK_EQUAL(git_copy_make(scene->git, "main", path, &scene->error), BL_EINVAL);
}

#define TREE                                                                                       \
    "echo '#!' > run && chmod +x run && ln -s README.md link && mkdir d && echo x > d/x && git "   \
    "add -A && git commit -qm second"

static void makes_a_copy_that_touches_nothing(void **state)
{
    (void)state;
    scene_play(TREE, look_at_copy);
}

/* The objects of the repository itself are elsewhere, by a relative path. */
static void copies_a_repository_with_alternates(void **state)
{
    (void)state;
    scene_play(TREE " && git clone -q --bare . ../store.git && rm -rf .git/objects/?? "
                    ".git/objects/pack/* && mkdir -p .git/objects/info && echo "
                    "../../../store.git/objects > .git/objects/info/alternates",
               look_at_copy);
}

static void look_at_shallow(struct scene *scene)
{
    make_copy(scene, scene->head);
    CHECK(scene_shell(scene, "cd ../copies/one && test \"$(git log --oneline | wc -l)\" = 1 && git "
                             "fsck > /dev/null 2>&1"));
}

static void copies_a_shallow_history(void **state)
{
    (void)state;
    scene_play(TREE " && git clone -q --depth 1 file://$PWD ../shallow && rm -rf .git && mv "
                    "../shallow/.git .git",
               look_at_shallow);
}

static void look_at_line_ends(struct scene *scene)
{
    make_copy(scene, scene->head);
    CHECK(scene_shell(scene,
                      "grep -q \"$(printf '\\r')\" ../copies/one/lines && test -z \"$(git -C "
                      "../copies/one status --porcelain)\""));
}

static void copies_have_the_line_ends_of_the_checkout(void **state)
{
    (void)state;
    scene_play("printf 'a\\nb\\n' > lines && git add -A && git commit -qm lines && git config "
               "core.autocrlf true",
               look_at_line_ends);
}

static void look_at_stop(struct scene *scene)
{
    const char *path = git_text(&scene->arena, "%s/copies/one", scene->place.root);
    struct bl_scope scope, *outer;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 100 * BL_NS_PER_MS);
    outer = bl_scope_enter(&scope);
    CHECK_EQUAL(git_copy_make(scene->git, scene->head, path, &scene->error), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK(!scene_exists(path));
}

static void a_stop_leaves_no_copy(void **state)
{
    (void)state;
    scene_play_configured(
        "git config --global filter.slow.smudge 'sleep 20; cat'",
        "echo '*.slow filter=slow' > .gitattributes && echo x > a.slow && git add -A && git "
        "commit -qm x",
        look_at_stop);
}

/* ---- Submodules ------------------------------------------------------------------------------ */

/* Two repositories: one is a submodule of the other, which is a submodule of the repository. Made
 * step by step, with the result that `git submodule` would have. */
#define MODULE                                                                                     \
    "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@example.test GIT_COMMITTER_NAME=x "               \
    "GIT_COMMITTER_EMAIL=x@example.test; git init -q ../deep && cd ../deep && echo deep > deep "   \
    "&& "                                                                                          \
    "git add -A && git commit -qm deep && git init -q ../module && cd ../module && echo m > m && " \
    "printf '[submodule \"inner\"]\n\tpath = inner\n\turl = ../deep\n' > .gitmodules && git add "  \
    "-A "                                                                                          \
    "&& git update-index --add --cacheinfo 160000,$(git -C ../deep rev-parse HEAD),inner && git "  \
    "commit -qm m && cd ../repo && printf '[submodule \"other\"]\n\tpath = sub dir\n\turl = "      \
    "../module\n' > .gitmodules && mkdir 'sub dir' && git add -A && git update-index --add "       \
    "--cacheinfo \"160000,$(git -C ../module rev-parse HEAD),sub dir\" && git commit -qm sub"

#define MODULE_HERE                                                                                \
    " && git clone -q --bare ../module .git/modules/other && git clone -q --bare ../deep "         \
    ".git/modules/other/modules/inner"

static void look_at_submodules(struct scene *scene)
{
    make_copy(scene, scene->head);
    CHECK(scene_shell(scene,
                      "cd ../copies/one && test -f 'sub dir/m' && test -f 'sub "
                      "dir/inner/deep' && test -z \"$(git status --porcelain)\" && git -C 'sub "
                      "dir' status > /dev/null"));
}

static void copies_have_their_submodules(void **state)
{
    (void)state;
    scene_play(MODULE MODULE_HERE, look_at_submodules);
}

static void look_at_missing_submodules(struct scene *scene)
{
    const char *path = git_text(&scene->arena, "%s/copies/one", scene->place.root);
    CHECK_EQUAL(git_copy_make(scene->git, scene->head, path, &scene->error), BL_ENOTSUP);
    CHECK(strstr(scene->error.message, "submodule 'sub dir'") != NULL);
    CHECK(strstr(scene->error.hint, "git submodule update") != NULL);
    /* The rest of the copy is complete. */
    CHECK(scene_exists(git_text(&scene->arena, "%s/.gitmodules", path)));
}

static void bad_input_submodules_that_cannot_be_filled_locally(void **state)
{
    (void)state;
    scene_play(MODULE, look_at_missing_submodules);
}

/* ---- Protected files ------------------------------------------------------------------------- */

static void look_at_protection(struct scene *scene)
{
    static const char *const patterns[] = {"tests/contract/**", "exact", NULL};
    char base[GIT_ID_SIZE];
    const char *path = make_copy(scene, scene->head);
    CHECK_EQUAL(git_commit_find(scene->git, "HEAD^", base, NULL), 0);
    CHECK(scene_shell(scene,
                      "cd ../copies/one && mkdir -p .git/info tests/contract/carried && echo x > "
                      "tests/contract/carried/ignored && echo tests/contract/carried > "
                      ".git/info/exclude"));
    CHECK_EQUAL(git_copy_protect(scene->git, path, base, patterns, &scene->error), 0);
    CHECK(strcmp(scene_output(scene, "cd ../copies/one && find . -path ./.git -prune -o -type f "
                                     "-print0 | sort -z | xargs -0 head -qn 1"),
                 "hello\nexact\nadded\n1\n2\n3\nfolder\nfree too") == 0);
    CHECK_EQUAL(git_copy_protect(scene->git, path, base, NULL, &scene->error), 0);
}

static void F44_protected_files_are_as_in_the_base(void **state)
{
    (void)state;
    scene_play(
        "mkdir -p tests/contract/was tests/contract/folder && echo exact > exact && echo 1 > "
        "tests/contract/1 && echo 2 > \"$(printf 'tests/contract/2\\n2')\" && echo 3 > "
        "tests/contract/was/3 && echo folder > tests/contract/was/folder && echo free > "
        "tests/free && git add -A && git commit -qm base && echo changed > exact && rm "
        "tests/contract/1 && echo changed > \"$(printf 'tests/contract/2\\n2')\" && rm -r "
        "tests/contract/was && echo file > tests/contract/was && mkdir tests/contract/new && "
        "echo new > tests/contract/new/new && echo free too > tests/free && echo added > "
        "tests/added && git add -A && git commit -qm changed",
        look_at_protection);
}

static void patterns_match_paths(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *path;
        bool fits;
    } cases[] = {
        {"tests/contract/**", "tests/contract/a", true},
        {"tests/contract/**", "tests/contract/a/b/c", true},
        {"tests/contract/**", "tests/contract", false},
        {"tests/contract/**", "tests/contractor/a", false},
        {"tests/*", "tests/a", true},
        {"tests/*", "tests/a/b", false},
        {"tests", "tests/a/b", true},
        {"tests/", "tests/a/b", true},
        {"/tests", "tests/a", true},
        {"./tests", "tests/a", true},
        {"tests", "tests", true},
        {"tests", "testsuite", false},
        {"tests", "a/tests", false},
        {"**/tests", "a/b/tests/c", true},
        {"**/tests", "tests", true},
        {"**/tests", "a/mytests", false},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/xb", false},
        {"*.c", "a.c", true},
        {"*.c", "d/a.c", false},
        {"**.c", "d/a.c", true},
        {"a?c", "abc", true},
        {"a?c", "a/c", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[!a-c]x", "dx", true},
        {"a[!b]c", "a/c", false},
        {"a[b", "a[b", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"a\\", "a\\", true},
        {"", "a", false},
        {"/", "a", false},
        {"**", "any/thing", true},
        {"*", "any/thing", false},
        {"caf\351*", "caf\351\377", true},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        if (git_path_fits((const char *const[]){cases[i].pattern, NULL}, cases[i].path) !=
            cases[i].fits)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].path);
    assert_true(git_path_fits((const char *const[]){"x", "y", NULL}, "y"));
    assert_false(git_path_fits(NULL, "y"));
    /* The time grows with the product of the lengths, and not faster. */
    char path[4000];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_false(git_path_fits((const char *const[]){"*a*a*a*a*a**a*a*a*a**a*a*a*b", NULL}, path));
}

/* ---- Removing -------------------------------------------------------------------------------- */

static void look_at_removing(struct scene *scene)
{
    const char *path = git_text(&scene->arena, "%s/rubbish", scene->place.root);
    CHECK(scene_shell(scene,
                      "mkdir -p ../rubbish/locked/inner ../kept && touch ../kept/file "
                      "../rubbish/locked/inner/x && ln -s ../kept ../rubbish/link && ln -s "
                      "../../kept ../rubbish/locked/link && chmod 0 ../rubbish/locked/inner && "
                      "chmod 500 ../rubbish/locked && cd ../rubbish && p=d/d/d/d/d/d/d/d && "
                      "p=$p/$p/$p/$p && mkdir -p "
                      "$p/$p/$p/$p && touch $p/$p/$p/$p/deep"));
    git_copy_remove(scene->git, path);
    CHECK(!scene_exists(path));
    CHECK(scene_shell(scene, "test -f ../kept/file"));
    git_copy_remove(scene->git, path);
}

static void removes_folders_without_following_links(void **state)
{
    (void)state;
    scene_play(NULL, look_at_removing);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static uint64_t show(const char *what, uint64_t begun_ns, unsigned long rounds)
{
    uint64_t now_ns = bl_now_ns();
    if (rounds > 1)
        printf("  %-28s %6.2f ms\n", what, (double)(now_ns - begun_ns) / 1e6 / (double)rounds);
    return bl_now_ns();
}

/* The steps of a task that writes only one file. */
static void look_at_times(struct scene *scene)
{
    unsigned long rounds = suite_rounds(1, 100);
    struct bl_arena *arena = &scene->arena;
    const char **paths = bl_arena_alloc(arena, rounds * sizeof *paths);
    const char **branches = bl_arena_alloc(arena, rounds * sizeof *branches);
    const char **heads = bl_arena_alloc(arena, rounds * sizeof *heads);
    struct git_commit_result *results = bl_arena_alloc(arena, rounds * sizeof *results);
    struct git_merge_result merged;
    struct git_state state;
    char tip[GIT_ID_SIZE];
    bl_text_into(tip, sizeof tip, scene->head);
    uint64_t at_ns = bl_now_ns();
    for (unsigned long i = 0; i < rounds; i++) {
        paths[i] = git_text(arena, "%s%lu", scene->worktree, i);
        branches[i] = git_text(arena, SCENE_BRANCH "%lu", i);
        heads[i] = scene->head;
        CHECK_EQUAL(git_worktree_make(scene->git, branches[i], paths[i], scene->head, SCENE_NOTE,
                                      &scene->error),
                    0);
    }
    at_ns = show("make a worktree", at_ns, rounds);
    for (unsigned long i = 0; i < rounds; i++)
        CHECK_EQUAL(git_state_read(scene->git, arena, paths[i], &state, &scene->error), 0);
    show("read its state", at_ns, rounds);
    for (int round = 0; round < 2; round++) {
        for (unsigned long i = 0; i < rounds; i++)
            CHECK(scene_shell(scene, "echo %d > %s/file%lu", round, paths[i], i));
        at_ns = bl_now_ns();
        for (unsigned long i = 0; i < rounds; i++) {
            struct git_commit_order order = {.worktree = paths[i],
                                             .branch = branches[i],
                                             .expected = heads[i],
                                             .message = "x\n"};
            CHECK_EQUAL(git_commit_all(scene->git, arena, &order, &results[i], &scene->error), 0);
            heads[i] = bl_arena_text(arena, bl_text_from(results[i].head)).data;
        }
        at_ns = show(round == 0 ? "commit a new file" : "commit a known file", at_ns, rounds);
    }
    for (unsigned long i = 0; i < rounds; i++) {
        const char *copy = git_text(arena, "%s/copy%lu", scene->place.root, i);
        CHECK_EQUAL(git_copy_make(scene->git, results[i].head, copy, &scene->error), 0);
        git_copy_remove(scene->git, copy);
    }
    at_ns = show("make and remove a copy", at_ns, rounds);
    for (unsigned long i = 0; i < rounds; i++) {
        CHECK_EQUAL(git_merge_commits(scene->git, arena, tip, results[i].head, "m\n", &merged,
                                      &scene->error),
                    0);
        bl_text_into(tip, sizeof tip, merged.commit);
    }
    show("merge", at_ns, rounds);
    uint64_t ns, programs;
    git_share(scene->git, &ns, &programs);
    if (rounds > 1)
        printf("  %-28s %6.2f ms\n", "a program", (double)ns / 1e6 / (double)programs);
}

static void steps_of_a_task_and_their_times(void **state)
{
    (void)state;
    scene_play(
        "for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; done && git add -A && git commit -qm x",
        look_at_times);
}

SUITE(copy, cmocka_unit_test(makes_a_copy_that_touches_nothing),
      cmocka_unit_test(copies_a_repository_with_alternates),
      cmocka_unit_test(copies_a_shallow_history),
      cmocka_unit_test(copies_have_the_line_ends_of_the_checkout),
      cmocka_unit_test(a_stop_leaves_no_copy), cmocka_unit_test(copies_have_their_submodules),
      cmocka_unit_test(bad_input_submodules_that_cannot_be_filled_locally),
      cmocka_unit_test(F44_protected_files_are_as_in_the_base),
      cmocka_unit_test(patterns_match_paths),
      cmocka_unit_test(removes_folders_without_following_links),
      cmocka_unit_test(steps_of_a_task_and_their_times));
